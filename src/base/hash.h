/* SHA-256 over several pieces, by OpenSSL's libcrypto; and bytes compared in constant time.
 *
 * A hasher holds a digest fetched once and a context that is reused, which halves the cost of a
 * short hash. It belongs to one thread. */
#ifndef PAWL_BASE_HASH_H
#define PAWL_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { HASH_LEN = 32 };

struct hasher {
    void *context; /* EVP_MD_CTX */
    void *digest;  /* EVP_MD */
};

/* Fails with no_memory when libcrypto cannot give the digest. */
enum error_code hasher_init(struct hasher *hasher, struct err *err);
void hasher_release(struct hasher *hasher);

/* The hash of all `parts` as if they were one string. Cannot fail after hasher_init. */
void hasher_sha256(struct hasher *hasher, const struct str *parts, size_t count,
                   uint8_t ret[HASH_LEN]);

/* True when the bytes are equal; the time taken tells nothing about where they differ. */
bool hash_eq(const uint8_t *a, const uint8_t *b, size_t len);

#endif
