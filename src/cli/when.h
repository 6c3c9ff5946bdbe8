/* Moments: as answers write them (RFC 3339 in UTC), and as people like to read them. */
#ifndef PAWL_CLI_WHEN_H
#define PAWL_CLI_WHEN_H

#include <stdbool.h>

enum { WHEN_LEN_MAX = 56 };

/* Milliseconds since 1970, by this machine's clock. */
long long when_now(void);

/* Reads "2030-01-02T03:04:05.678Z", fractions or not. False when it is invalid. */
bool when_parse(const char *text, long long *ret_ms);

/* Writes it back, with milliseconds. */
void when_write(long long ms, char ret[WHEN_LEN_MAX]);

/* "3m ago", "in 2h", "now". */
void when_relative(long long ms, long long now_ms, char ret[WHEN_LEN_MAX]);

#endif
