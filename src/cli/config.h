/* The file of --config: YAML, read into a list of settings and the defaults of kinds.
 *
 * It is a mapping of keys to values, two levels deep where settings.def says so, and deeper only
 * below `kinds`. What is not known, said twice, of another type, or hard to read for people
 * (anchors, aliases, tags, a second document) is refused with its line. */
#ifndef PAWL_CLI_CONFIG_H
#define PAWL_CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/settings.h"

enum {
    CONFIG_BYTES_MAX = 1024 * 1024,
    CONFIG_KINDS_MAX = 1000,
};

/* A member of the settings of a kind. */
struct config_member {
    char *name;
    char *json;
    size_t line;
};

struct config_kind {
    char *name;
    size_t line;
    struct config_member *members;
    size_t member_count;
};

struct config {
    const char *path;           /* the caller's */
    char *texts[SETTING_COUNT]; /* NULL: it is not there */
    size_t lines[SETTING_COUNT];
    struct config_kind *kinds;
    size_t kind_count;
};

/* Reads the file. False: something is wrong with it, and it is said what and where; then there is
 * nothing to free. */
bool config_read(const char *path, struct config *ret, struct complaint *why);
void config_free(struct config *config);

#endif
