/* SHA-256 over several pieces, by OpenSSL's libcrypto; and bytes compared in constant time. */
#ifndef PAWL_BASE_HASH_H
#define PAWL_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { HASH_LEN = 32 };

/* The hash of all `parts` as if they were one string. Allocates nothing and cannot fail. */
void hash_sha256(const struct str *parts, size_t count, uint8_t ret[HASH_LEN]);

/* True when the bytes are equal; the time taken tells nothing about where they differ. */
bool hash_eq(const uint8_t *a, const uint8_t *b, size_t len);

#endif
