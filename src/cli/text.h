/* Text from elsewhere, made fit for a terminal: no control character, nothing that turns the
 * direction of writing, nothing that is not UTF-8 ever reaches it as it is. */
#ifndef PAWL_CLI_TEXT_H
#define PAWL_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The first character of a text, which must not be empty. *ret_len is how many bytes it has; -1
 * with a length of 1: it is not UTF-8. */
long text_character(const char *text, size_t len, size_t *ret_len);

/* Whether all of it is UTF-8. */
bool text_is_utf8(const char *text);

/* How many columns of a terminal a character takes: 0, 1 or 2. */
size_t text_character_width(long character);

/* A copy with everything made visible: \n, \t and \xNN for control characters, \u{NNNN} for those
 * that hide or turn others, ? for bytes that are not UTF-8. To be freed; NULL: no memory. */
char *text_visible(const char *text, size_t len);

/* The same for JSON, which stays JSON with the same meaning, \u009b, and becomes one line. */
char *text_visible_json(const char *json, size_t len);

/* How many columns a text takes that text_visible has made. */
size_t text_width(const char *text);

/* The bytes of the longest beginning that takes at most `width` columns. */
size_t text_fitting(const char *text, size_t width);

#endif
