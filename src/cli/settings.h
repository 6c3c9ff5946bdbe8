/* The settings of `pawl serve`: what was said on the command line, in the environment and in the
 * file of --config, which goes before which in that order. settings.def lists them.
 *
 * Nothing is printed here: at the start of a server its user is told what is wrong, and later its
 * log is. */
#ifndef PAWL_CLI_SETTINGS_H
#define PAWL_CLI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"

enum setting_name {
#define SETTING(id, type, key, flag, variable, value, min, max, change, otherwise, text)           \
    SETTING_##id,
#include "cli/settings.def"
#undef SETTING
    SETTING_COUNT,
};

enum setting_type {
    SETTING_IS_TEXT,
    SETTING_IS_NUMBER,
    SETTING_IS_DURATION,
    SETTING_IS_SWITCH,
    SETTING_IS_CHOICE,
    SETTING_IS_KINDS,
};

struct setting {
    enum setting_type type;
    const char *key;      /* "": it cannot stand in a file */
    const char *flag;     /* "": none */
    const char *variable; /* "": none */
    const char *value;
    long long min;
    long long max;
    bool needs_restart;
};

extern const struct setting settings_list[SETTING_COUNT];

/* What is wrong, in words. */
struct complaint {
    char text[1024];
};

/* Writes it. Always false, so that one can `return complain(...)`. */
bool complain(struct complaint *complaint, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a value as the type of its setting wants it; of a CHOICE which of its words it is, from 0;
 * of a TEXT nothing. False: invalid, and what `name` must be is said. */
bool setting_parse(const struct setting *setting, const char *name, const char *said,
                   long long *ret, struct complaint *why);

struct settings {
    char *texts[SETTING_COUNT]; /* as it was said; NULL: nobody has said it */
    long long numbers[SETTING_COUNT];
    char *url;   /* of the store */
    char *kinds; /* JSON, an array; NULL: none */
};

/* Reads all of them. False: something is wrong, and it is said what; then there is nothing to
 * free. */
bool settings_read(const struct args *args, struct settings *ret, struct complaint *why);
void settings_free(struct settings *settings);

/* Whether a setting has changed. */
bool settings_differ(const struct settings *before, const struct settings *after,
                     enum setting_name name);

#endif
