/* Durations as people write them: 30s, 1h30m, 500ms, 2d. */
#ifndef PAWL_CLI_DURATION_H
#define PAWL_CLI_DURATION_H

#include <stdbool.h>
#include <stddef.h>

enum { DURATION_LEN_MAX = 48 };

/* Reads one: whole numbers, each with its unit (d, h, m, s, ms), the greater units first and each
 * at most once. False when it is invalid, or longer than 100 years. */
bool duration_parse(const char *text, long long *ret_ms);

/* Writes one in at most two units, rounded to the nearest: 1h 30m, 2d, 350ms. */
void duration_write(long long ms, char ret[DURATION_LEN_MAX]);

#endif
