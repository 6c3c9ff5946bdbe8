/* Tables for people: columns that stand below each other, whatever script the text is in; cut to
 * the terminal's width, and only there. */
#ifndef PAWL_CLI_TABLE_H
#define PAWL_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"

struct column {
    const char *title;
    size_t width_min; /* also when nothing in it is that wide; 0: none */
    bool right;       /* numbers */
    bool gives_way;   /* is cut when there is not enough room */
    bool optional;    /* is left out when cutting is not enough, the last one first */
    bool status;      /* is coloured by its word */
};

struct table;

/* A table without rows; the columns must outlive it. NULL: no memory, which the others take too. */
struct table *table_new(const struct column *columns, size_t count);
void table_free(struct table *table);

/* Adds the next cell, row by row. Texts are copied and made visible; NULL and no value are "-". */
void table_text(struct table *table, const char *text);
void table_value(struct table *table, struct pawl_json value);

/* JSON as it is written, strings too; with white space at its line ends. */
void table_json(struct table *table, struct pawl_json value);

/* The texts of a list, with commas between them. */
void table_list(struct table *table, struct pawl_json list);

/* A time as "3m ago", or a duration in ms. */
void table_time(struct table *table, struct pawl_json value);
void table_duration(struct table *table, struct pawl_json value);

size_t table_rows(const struct table *table);

/* Prints the rows, below their titles when `titles`. CLI_FAILED: there was no memory for all. */
enum cli_exit table_print(const struct verb *verb, const struct table *table, bool titles);

/* Prints it with its titles, or `otherwise` as a sentence when it is empty, and frees it. */
enum cli_exit table_finish(const struct verb *verb, struct table *table, const char *otherwise);

#endif
