/* YAML as people write it, one event after the other, and as JSON: for the file of --config and for
 * plans.
 *
 * Read is the part of YAML 1.2 that means the same to everybody: mappings, lists, texts, numbers as
 * JSON writes them, true, false and null. What is said twice, hard to follow (anchors, aliases,
 * tags, a second document) or a number to some readers and a text to others (0x1F, 007, .5) is
 * refused with its line. */
#ifndef PAWL_CLI_YAML_READER_H
#define PAWL_CLI_YAML_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <yaml.h>

#include "cli/settings.h"

enum yaml_type { YAML_IS_NULL, YAML_IS_BOOL, YAML_IS_NUMBER, YAML_IS_TEXT };

/* How values are written as JSON. */
enum yaml_durations {
    YAML_AS_IT_IS,
    YAML_DURATIONS_IN_MS, /* `timeout: 30s` is "timeout_ms": 30000 */
};

struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the latest; there is one when has_event */
    bool has_event;
    const char *path; /* for complaints; the caller's */
    struct complaint *why;
};

/* Begins to read a text, which must stay. False: there is no memory, which is said; then there is
 * nothing to end. */
bool yaml_begin(struct yaml_reader *reader, const char *path, const char *text, size_t len,
                struct complaint *why);
void yaml_end(struct yaml_reader *reader);

/* The next event becomes the latest. False: none that can be read, and it was said why. */
bool yaml_next(struct yaml_reader *reader);

/* Goes to the first event of the document; *ret_empty: there is nothing in it. And past its end,
 * behind which nothing may follow. */
bool yaml_begin_document(struct yaml_reader *reader, bool *ret_empty);
bool yaml_end_document(struct yaml_reader *reader);

/* Of the latest event: its line, counted from 1; its text, and what that is. */
size_t yaml_line(const struct yaml_reader *reader);
const char *yaml_scalar(const struct yaml_reader *reader);
enum yaml_type yaml_scalar_type(const struct yaml_reader *reader);

/* The latest event is a key: makes a copy, to be freed, and goes on to its value. With durations
 * `timeout`, whose value is 30s, is called timeout_ms. NULL: it was said why. */
char *yaml_take_key(struct yaml_reader *reader, enum yaml_durations durations);

/* Writes the value that begins with the latest event as JSON. It may be `depth_max` levels deep. */
bool yaml_write(struct yaml_reader *reader, enum yaml_durations durations, int depth_max,
                FILE *out);

/* Writes "FILE, line N: " and what is wrong. Always false. */
bool yaml_complain(const char *path, size_t line, struct complaint *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same at the line of the latest event. */
#define YAML_WRONG(reader, ...)                                                                    \
    yaml_complain((reader)->path, yaml_line(reader), (reader)->why, __VA_ARGS__)

bool yaml_no_memory(const struct yaml_reader *reader);

/* The names that a mapping has. */
struct yaml_names {
    struct yaml_name {
        char *text;
        size_t line;
    } * names;
    size_t count;
};

/* Keeps a copy of a name that has come at that line. Whether any has come twice is looked for at
 * the end, in all of them. */
bool yaml_names_add(struct yaml_reader *reader, struct yaml_names *names, const char *text,
                    size_t line);
bool yaml_names_check(struct yaml_reader *reader, struct yaml_names *names);
void yaml_names_free(struct yaml_names *names);

#endif
