#include "cli/table.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/duration.h"
#include "cli/screen.h"
#include "cli/text.h"
#include "cli/when.h"

enum { COLUMNS_MAX = 16, GAP = 2, CUT_WIDTH_MIN = 8 };

struct table {
    const struct column *columns;
    size_t column_count;
    char **cells;
    size_t cell_count;
    size_t cell_cap;
    long long now;
    bool failed;
};

struct table *table_new(const struct column *columns, size_t count)
{
    assert(count > 0 && count <= COLUMNS_MAX);
    struct table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->columns = columns;
    table->column_count = count;
    table->now = when_now();
    return table;
}

void table_free(struct table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

/* Takes a cell that is visible already, and owns it. */
static void add(struct table *table, char *cell)
{
    if (table != NULL && table->cell_count == table->cell_cap) {
        size_t cap = table->cell_cap == 0 ? 256 : table->cell_cap * 2;
        char **cells =
            cap <= SIZE_MAX / sizeof *cells ? realloc(table->cells, cap * sizeof *cells) : NULL;
        if (cells == NULL) {
            table->failed = true;
        } else {
            table->cells = cells;
            table->cell_cap = cap;
        }
    }
    if (table == NULL || cell == NULL || table->failed) {
        if (table != NULL)
            table->failed = true;
        free(cell);
        return;
    }
    table->cells[table->cell_count++] = cell;
}

void table_text(struct table *table, const char *text)
{
    if (text == NULL || *text == '\0')
        text = "-";
    add(table, text_visible(text, strlen(text)));
}

void table_value(struct table *table, struct pawl_json value)
{
    char *text = pawl_json_text(value);
    if (text == NULL)
        add(table, NULL);
    else
        table_text(table, text);
    pawl_free(text);
}

void table_json(struct table *table, struct pawl_json value)
{
    if (value.at == NULL)
        table_text(table, NULL);
    else
        add(table, text_visible(value.at, value.len));
}

void table_list(struct table *table, struct pawl_json list)
{
    struct pawl_json item = {0};
    char *all = calloc(1, 1);
    size_t len = 0;
    while (all != NULL && pawl_json_next(list, &item, NULL) != 0) {
        char *text = pawl_json_text(item);
        size_t more = text == NULL ? 0 : strlen(text);
        char *longer = text == NULL ? NULL : realloc(all, len + more + 3);
        if (longer == NULL)
            free(all);
        all = longer;
        if (all != NULL)
            len += (size_t)snprintf(all + len, more + 3, "%s%s", len > 0 ? ", " : "", text);
        pawl_free(text);
    }
    if (all == NULL)
        add(table, NULL);
    else
        table_text(table, all);
    free(all);
}

void table_time(struct table *table, struct pawl_json value)
{
    char *text = pawl_json_text(value);
    long long ms;
    if (table == NULL || text == NULL || !when_parse(text, &ms)) {
        table_value(table, value);
    } else {
        char relative[WHEN_LEN_MAX];
        when_relative(ms, table->now, relative);
        table_text(table, relative);
    }
    pawl_free(text);
}

void table_duration(struct table *table, struct pawl_json value)
{
    char text[DURATION_LEN_MAX];
    if (value.at == NULL) {
        table_text(table, NULL);
        return;
    }
    duration_write(pawl_json_int(value, 0), text);
    table_text(table, text);
}

size_t table_rows(const struct table *table)
{
    return table == NULL ? 0 : table->cell_count / table->column_count;
}

/* ---- printing ---- */

/* How wide each column is; 0: it is left out. */
struct widths {
    size_t at[COLUMNS_MAX];
};

static size_t total_width(const struct table *table, const struct widths *widths)
{
    size_t total = 0;
    for (size_t i = 0; i < table->column_count; i++)
        total += widths->at[i] > 0 ? widths->at[i] + GAP : 0;
    return total > GAP ? total - GAP : 0;
}

/* The widest column that gives way, or the last one that can be left out; column_count: none. */
static size_t next_victim(const struct table *table, const struct widths *widths)
{
    size_t victim = table->column_count;
    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].gives_way && widths->at[i] > CUT_WIDTH_MIN &&
            (victim == table->column_count || widths->at[i] > widths->at[victim]))
            victim = i;
    for (size_t i = table->column_count; victim == table->column_count && i > 0; i--)
        if (table->columns[i - 1].optional && widths->at[i - 1] > 0)
            return i - 1;
    return victim;
}

/* Takes room away until all fits. */
static void squeeze(const struct table *table, struct widths *widths)
{
    size_t room = screen_width();
    while (room > 0 && total_width(table, widths) > room) {
        size_t victim = next_victim(table, widths);
        if (victim == table->column_count)
            return;
        bool cut = table->columns[victim].gives_way && widths->at[victim] > CUT_WIDTH_MIN;
        widths->at[victim] = cut ? widths->at[victim] - 1 : 0;
    }
}

static void measure(const struct table *table, bool titles, struct widths *widths)
{
    for (size_t i = 0; i < table->column_count; i++) {
        widths->at[i] = table->columns[i].width_min;
        if (titles && strlen(table->columns[i].title) > widths->at[i])
            widths->at[i] = strlen(table->columns[i].title);
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t width = text_width(table->cells[i]);
        size_t *most = &widths->at[i % table->column_count];
        *most = width > *most ? width : *most;
    }
    squeeze(table, widths);
}

static void spaces(size_t count)
{
    printf("%*s", (int)count, "");
}

/* Where and how a cell is printed. */
struct place {
    const struct column *column;
    size_t width;
    bool last; /* nothing stands behind it, also no space */
};

static void put_cell(const struct place *place, const char *cell, const char *colour)
{
    bool cut = text_width(cell) > place->width;
    size_t bytes = cut ? text_fitting(cell, place->width - 1) : strlen(cell);
    char *head = strndup(cell, bytes);
    size_t shown = head != NULL ? text_width(head) + cut : 0;
    size_t pad = place->width > shown ? place->width - shown : 0;
    if (place->column->right)
        spaces(pad);
    fputs(colour, stdout);
    fputs(head != NULL ? head : "?", stdout);
    fputs(cut ? "…" : "", stdout);
    fputs(*colour != '\0' ? SCREEN_PLAIN : "", stdout);
    if (!place->last)
        spaces(place->column->right ? GAP : pad + GAP);
    free(head);
}

/* Prints one row; `cells` NULL: the titles. */
static void put_row(const struct table *table, const struct widths *widths, char **cells)
{
    bool colours = screen_has_colours();
    size_t last = table->column_count - 1;
    while (last > 0 && widths->at[last] == 0)
        last--;
    for (size_t i = 0; i <= last; i++) {
        struct place place = {&table->columns[i], widths->at[i], i == last};
        if (place.width == 0)
            continue;
        if (cells == NULL)
            put_cell(&place, place.column->title, colours ? SCREEN_BOLD : "");
        else
            put_cell(&place, cells[i],
                     colours && place.column->status ? screen_status_colour(cells[i]) : "");
    }
    fputc('\n', stdout);
}

enum cli_exit table_print(const struct verb *verb, const struct table *table, bool titles)
{
    if (table == NULL || table->failed)
        return cli_no_memory(verb);
    assert(table->cell_count % table->column_count == 0);

    struct widths widths;
    measure(table, titles, &widths);
    if (titles)
        put_row(table, &widths, NULL);
    for (size_t i = 0; i < table->cell_count; i += table->column_count)
        put_row(table, &widths, table->cells + i);
    return CLI_DONE;
}

enum cli_exit table_finish(const struct verb *verb, struct table *table, const char *otherwise)
{
    enum cli_exit code = CLI_DONE;
    if (table != NULL && !table->failed && table->cell_count == 0)
        puts(otherwise);
    else
        code = table_print(verb, table, true);
    table_free(table);
    return code;
}
