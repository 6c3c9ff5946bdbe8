/* Points in time as milliseconds since 1970-01-01T00:00:00Z, and durations as milliseconds.
 *
 * Text is RFC 3339 in UTC with milliseconds, always 24 characters: 2026-11-15T19:53:15.042Z. */
#ifndef PAWL_BASE_TIMES_H
#define PAWL_BASE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { TIME_TEXT_LEN = 24 };

/* 9999-12-31T23:59:59.999Z, the last time that has a text. */
#define TIME_MAX_MS INT64_C(253402300799999)

/* Writes the text of `time_ms`, which must be in 0..TIME_MAX_MS. No NUL. */
void time_format(int64_t time_ms, char ret[TIME_TEXT_LEN]);

/* Reads RFC 3339: any offset, any number of fractional digits (cut to milliseconds), 'T' or 't',
 * 'Z' or 'z'. False for anything else, for days that do not exist, for second 60, and for times
 * outside 0..TIME_MAX_MS. */
bool time_parse(struct str text, int64_t *ret_ms);

/* Reads a duration: "500ms", "30s", "1h30m", "2d": whole numbers with the units d, h, m, s, ms,
 * each at most once and from large to small. False for anything else and for more than 100 years.
 */
bool duration_parse(struct str text, int64_t *ret_ms);

#endif
