/* libcrypto's older interface to SHA-256, which 3.0 calls deprecated: its newer one allocates for
 * every hash, so that it can fail halfway through a batch, and takes 120 instead of 75 ns for a
 * short one. */
#define OPENSSL_API_COMPAT 0x10100000L
#include "base/hash.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

_Static_assert(HASH_LEN == SHA256_DIGEST_LENGTH, "a hash is a SHA-256");

/* Short parts are put together first: each call of the library costs as much as some 30 bytes. */
enum { TOGETHER_BYTES = 512 };

void hash_sha256(const struct str *parts, size_t count, uint8_t ret[HASH_LEN])
{
    assert(parts != NULL || count == 0);
    char together[TOGETHER_BYTES];
    size_t len = 0;
    SHA256_CTX context;
    int ok = SHA256_Init(&context);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > sizeof together - len) {
            ok &= SHA256_Update(&context, together, len);
            len = 0;
        }
        if (parts[i].len > sizeof together) {
            ok &= SHA256_Update(&context, parts[i].at, parts[i].len);
        } else if (parts[i].len > 0) {
            memcpy(together + len, parts[i].at, parts[i].len);
            len += parts[i].len;
        }
    }
    ok &= SHA256_Update(&context, together, len);
    ok &= SHA256_Final(ret, &context);
    assert(ok == 1);
    (void)ok;
}

bool hash_eq(const uint8_t *a, const uint8_t *b, size_t len)
{
    assert((a != NULL && b != NULL) || len == 0);
    return len == 0 || CRYPTO_memcmp(a, b, len) == 0;
}
