#include "cli/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/duration.h"
#include "cli/text.h"
#include "cli/when.h"

enum {
    FIELD_WIDTH = 18,
    JSON_LINE_WIDTH = 60, /* JSON that is longer is printed over several lines */
    JSON_DEPTH_MAX = 64,
};

bool screen_is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

size_t screen_width(void)
{
    enum { WIDTH_MIN = 40 };
    struct winsize size;
    if (!screen_is_terminal() || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 0;
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col;
}

bool screen_is_dumb(void)
{
    const char *terminal = getenv("TERM");
    return terminal != NULL && strcmp(terminal, "dumb") == 0;
}

bool screen_has_colours(void)
{
    const char *no_color = getenv("NO_COLOR");
    return screen_is_terminal() && (no_color == NULL || *no_color == '\0') && !screen_is_dumb();
}

const char *screen_status_colour(const char *status)
{
    static const struct {
        const char *status;
        const char *colour;
    } colours[] = {
        {"completed", "\033[32m"},    {"succeeded", "\033[32m"},     {"running", "\033[36m"},
        {"leased", "\033[36m"},       {"waiting", "\033[33m"},       {"parked", "\033[33m"},
        {"retrying", "\033[33m"},     {"needs_user", "\033[33m"},    {"failed", "\033[31m"},
        {"failed_fatal", "\033[31m"}, {"dead_lettered", "\033[31m"}, {"cancelled", "\033[2m"},
        {"paused", "\033[33m"},
    };
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        if (strcmp(status, colours[i].status) == 0)
            return colours[i].colour;
    return "";
}

/* Prints what was made visible, which frees it. */
static void put(char *visible)
{
    fputs(visible != NULL ? visible : "?", stdout);
    free(visible);
}

void print_json(struct pawl_json value)
{
    if (screen_is_terminal()) {
        put(text_visible_json(value.at, value.len));
        fputc('\n', stdout);
        return;
    }
    /* Line ends stand between values, never in strings: a payload may have come with some. */
    while (value.len > 0) {
        size_t len = 0;
        while (len < value.len && value.at[len] != '\n' && value.at[len] != '\r')
            len++;
        fwrite(value.at, 1, len, stdout);
        if (len < value.len)
            fputc(' ', stdout);
        len += len < value.len;
        value.at += len;
        value.len -= len;
    }
    fputc('\n', stdout);
}

void print_answer(const char *json)
{
    print_json((struct pawl_json){json, strlen(json)});
}

void print_text(const char *text)
{
    put(text_visible(text, strlen(text)));
}

void print_value(struct pawl_json value)
{
    char *text = pawl_json_text(value);
    print_text(text != NULL ? text : "?");
    pawl_free(text);
}

/* ---- fields ---- */

static void print_name(const char *name)
{
    bool colours = screen_has_colours();
    int pad = FIELD_WIDTH - (int)strlen(name) - 1;
    printf("%s%s:%s%*s", colours ? SCREEN_BOLD : "", name, colours ? SCREEN_PLAIN : "",
           pad > 0 ? pad : 1, "");
}

void print_field(const char *name, struct pawl_json value)
{
    if (value.at == NULL)
        return;
    print_name(name);
    print_value(value);
    fputc('\n', stdout);
}

void print_field_text(const char *name, const char *text)
{
    print_name(name);
    print_text(text);
    fputc('\n', stdout);
}

void print_field_status(const char *name, struct pawl_json value)
{
    char *status = pawl_json_text(value);
    const char *colour = status != NULL && screen_has_colours() ? screen_status_colour(status) : "";
    print_name(name);
    fputs(colour, stdout);
    print_text(status != NULL ? status : "?");
    fputs(*colour != '\0' ? SCREEN_PLAIN : "", stdout);
    fputc('\n', stdout);
    pawl_free(status);
}

void print_field_time(const char *name, struct pawl_json value)
{
    if (value.at == NULL)
        return;
    char *text = pawl_json_text(value);
    long long ms;
    print_name(name);
    print_text(text != NULL ? text : "?");
    if (text != NULL && when_parse(text, &ms)) {
        char relative[WHEN_LEN_MAX];
        when_relative(ms, when_now(), relative);
        printf(" (%s)", relative);
    }
    fputc('\n', stdout);
    pawl_free(text);
}

void print_field_duration(const char *name, struct pawl_json value)
{
    if (value.at == NULL)
        return;
    char text[DURATION_LEN_MAX];
    duration_write(pawl_json_int(value, 0), text);
    print_field_text(name, text);
}

/* Prints a piece of JSON that has passed the library's check, without its outer white space. */
static void put_json(struct pawl_json value)
{
    put(text_visible_json(value.at, value.len));
}

static bool is_list(struct pawl_json value)
{
    return pawl_json_type(value) == 'o' || pawl_json_type(value) == 'a';
}

static void put_indented(struct pawl_json value, int indent, int depth)
{
    char type = pawl_json_type(value);
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    if (!is_list(value) || depth >= JSON_DEPTH_MAX ||
        value.len + (size_t)indent <= JSON_LINE_WIDTH) {
        put_json(value);
        return;
    }
    const char *between = "";
    fputc(type == 'o' ? '{' : '[', stdout);
    while (pawl_json_next(value, &item, &key) != 0) {
        printf("%s\n%*s", between, indent + 2, "");
        if (key.at != NULL) {
            put_json(key);
            fputs(": ", stdout);
        }
        put_indented(item, indent + 2, depth + 1);
        between = ",";
    }
    printf("\n%*s%c", indent, "", type == 'o' ? '}' : ']');
}

void print_field_json(const char *name, struct pawl_json value)
{
    if (value.at == NULL)
        return;
    if (value.len > JSON_LINE_WIDTH && is_list(value)) {
        bool colours = screen_has_colours();
        printf("%s%s:%s\n  ", colours ? SCREEN_BOLD : "", name, colours ? SCREEN_PLAIN : "");
        put_indented(value, 2, 0);
    } else {
        print_name(name);
        put_json(value);
    }
    fputc('\n', stdout);
}
