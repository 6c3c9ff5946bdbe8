/* What stdout is, and how values are printed on it: as JSON for programs, or for people. */
#ifndef PAWL_CLI_SCREEN_H
#define PAWL_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/cli.h"

/* Whether stdout is a terminal; its columns (0: nobody looks, so nothing is cut); whether colours
 * are welcome there; whether terminals here understand no escape sequences at all. */
bool screen_is_terminal(void);
bool screen_is_dumb(void);
size_t screen_width(void);
bool screen_has_colours(void);

/* The escape sequence of the colour in which a status is shown; "" for one without. */
const char *screen_status_colour(const char *status);
#define SCREEN_PLAIN "\033[0m"
#define SCREEN_BOLD "\033[1m"

/* An answer on one line, otherwise as it is, and a line end. On a terminal control characters are
 * written as \uNNNN, which means the same. */
void print_answer(const char *json);
void print_json(struct pawl_json value);

/* A text, all of it made visible; a string's text, or JSON as it is written. */
void print_text(const char *text);
void print_value(struct pawl_json value);

/* "name:    value" and a line end; nothing when there is no value. */
void print_field(const char *name, struct pawl_json value);
void print_field_text(const char *name, const char *text);

/* A field with a status, in its colour. */
void print_field_status(const char *name, struct pawl_json value);

/* A field with a time: exact, and how long ago. */
void print_field_time(const char *name, struct pawl_json value);

/* A field with a duration in ms, for people. */
void print_field_duration(const char *name, struct pawl_json value);

/* A field with JSON: on the same line if it is short, else indented below. */
void print_field_json(const char *name, struct pawl_json value);

#endif
