/* Requests that are sent again: the first answer is given again, or a clash is refused.
 *
 * A caller may mark a request with a key of its own. For a day the key stands for that request: the
 * same body gets the same answer and nothing is done twice; another body under the key is a mistake
 * of the caller. */
#ifndef PAWL_CORE_REQUEST_H
#define PAWL_CORE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"

#define REQUEST_KEPT_MS (INT64_C(24) * 60 * 60 * 1000)

/* What is kept of a request, in the same commit as its effect. */
struct request_record {
    struct str scope; /* who asked, and for what: caller and route */
    struct str key;
    uint8_t body_hash[HASH_LEN];
    int64_t at;
    struct str answer; /* as it was given, bytes and all */
};

enum request_standing {
    REQUEST_NEW,      /* carry it out, and keep a record */
    REQUEST_REPEATED, /* give the recorded answer */
};

/* Where a request with this body stands at `now`, given the record under its scope and key (NULL:
 * there is no record). A record older than REQUEST_KEPT_MS counts as none. idempotency_mismatch
 * when the body is another one. */
enum error_code request_check(const struct request_record *record,
                              const uint8_t body_hash[HASH_LEN], int64_t now,
                              enum request_standing *ret, struct err *err);

#endif
