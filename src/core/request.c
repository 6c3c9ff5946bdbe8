#include "core/request.h"

#include <string.h>

enum error_code request_check(const struct request_record *record,
                              const uint8_t body_hash[HASH_LEN], int64_t now,
                              enum request_standing *ret, struct err *err)
{
    if (record == NULL || now - record->at >= REQUEST_KEPT_MS) {
        *ret = REQUEST_NEW;
        return ERR_OK;
    }
    if (memcmp(record->body_hash, body_hash, HASH_LEN) != 0)
        return err_set(err, ERR_IDEMPOTENCY_MISMATCH,
                       "the key \"%.*s\" was used with a different request: use a new key",
                       STR_ARG(record->key));
    *ret = REQUEST_REPEATED;
    return ERR_OK;
}
