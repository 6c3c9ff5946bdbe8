#include "base/hash.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

enum error_code hasher_init(struct hasher *hasher, struct err *err)
{
    assert(hasher != NULL);
    EVP_MD *digest = EVP_MD_fetch(NULL, "SHA256", NULL);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    /* The first start makes the context allocate; after it, nothing can fail any more. */
    if (digest == NULL || context == NULL || EVP_DigestInit_ex2(context, digest, NULL) != 1) {
        EVP_MD_CTX_free(context);
        EVP_MD_free(digest);
        return err_set(err, ERR_NO_MEMORY,
                       "libcrypto cannot give SHA-256: there is no memory, or its configuration "
                       "has no provider for it");
    }
    assert(EVP_MD_get_size(digest) == HASH_LEN);
    hasher->context = context;
    hasher->digest = digest;
    return ERR_OK;
}

void hasher_release(struct hasher *hasher)
{
    assert(hasher != NULL);
    EVP_MD_CTX_free(hasher->context);
    EVP_MD_free(hasher->digest);
    *hasher = (struct hasher){NULL, NULL};
}

void hasher_sha256(struct hasher *hasher, const struct str *parts, size_t count,
                   uint8_t ret[HASH_LEN])
{
    assert(hasher->context != NULL);
    assert(parts != NULL || count == 0);
    int ok = EVP_DigestInit_ex2(hasher->context, hasher->digest, NULL);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > 0) {
            ok &= EVP_DigestUpdate(hasher->context, parts[i].at, parts[i].len);
        }
    }
    ok &= EVP_DigestFinal_ex(hasher->context, ret, NULL);
    assert(ok == 1);
    (void)ok;
}

bool hash_eq(const uint8_t *a, const uint8_t *b, size_t len)
{
    assert((a != NULL && b != NULL) || len == 0);
    return len == 0 || CRYPTO_memcmp(a, b, len) == 0;
}
