/* UUIDs (RFC 9562), as 16 bytes; text only at the edges. */
#ifndef PAWL_BASE_UUID_H
#define PAWL_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

enum { UUID_TEXT_LEN = 36 };

struct uuid {
    uint8_t bytes[16];
};

/* Version 7: ordered by `time_ms` (0 to 2^48 - 1), then by the random bytes, of which version and
 * variant take the top 4 bits of the first and the top 2 of the third. Pure: the caller brings
 * both. */
struct uuid uuid_v7(int64_t time_ms, const uint8_t random[10]);

/* Version 8: the first 16 bytes of a hash, with version and variant set. */
struct uuid uuid_v8(const uint8_t hash[16]);

/* Lower-case text, no NUL. */
void uuid_format(struct uuid id, char ret[UUID_TEXT_LEN]);

/* Reads the 8-4-4-4-12 form in either case; false for anything else. */
bool uuid_parse(struct str text, struct uuid *ret);

static inline bool uuid_eq(struct uuid a, struct uuid b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

#endif
