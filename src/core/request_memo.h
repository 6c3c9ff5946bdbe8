/* What a request came to, in a few bytes: enough to give its response again.
 *
 * A memo has an entry for each operation of the request. The job is not in it, only which one and
 * at which version: the job's history says the rest, and has said it for good. Of a lease there is
 * the secret of its token, which streams and rows do not keep.
 *
 *   format   one byte, which is not a digit (see request_is_memo), then the entries to the end
 *   entry    one byte that says its type, then
 *     JOB      job (16 bytes), version, flags, fates, expires_at, beats
 *     CLAIM    how many leases; of each: job (16), version, step, secret (16)
 *     REFUSED  code, at, detail
 *     BODY     status, body
 *
 * Numbers have 7 bits a byte, the lowest first. An operation and a lease take at most
 * REQUEST_OP_BYTES_MAX bytes. Three texts come on top of that, where there is one: why an operation
 * of a batch was refused, whose others were not; the progress and the cursor of a lease that was
 * live, which are in no history until it ends; and the body of a response that is not about jobs
 * (settings, access tokens, and what takes long). */
#ifndef PAWL_CORE_REQUEST_MEMO_H
#define PAWL_CORE_REQUEST_MEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/uuid.h"
#include "core/decide.h"
#include "core/token.h"

enum { REQUEST_OP_BYTES_MAX = 48 };

enum request_entry_type { REQUEST_JOB = 1, REQUEST_CLAIM, REQUEST_REFUSED, REQUEST_BODY };

/* A lease that a claim was given. The attempt of its token is the one that the job or step had at
 * that version. */
struct request_lease {
    struct uuid job;
    int64_t version;
    bool of_step;
    uint32_t step; /* ordinal */
    uint8_t secret[TOKEN_SECRET_LEN];
};

/* What stood beside the stream (core/job.h) when the response showed a job with a live lease. */
struct request_beats {
    bool set;
    int64_t beat_at;
    int64_t expires_at;
    struct str progress;
    struct str cursor;
};

struct request_entry {
    enum request_entry_type type;
    union {
        struct {
            struct uuid job;
            int64_t version;               /* after the operation */
            struct decision_result result; /* its flags, fates and expires_at; no texts */
            bool has_effect_key;           /* it told an effect_idempotency_key */
            struct request_beats beats;
        } job;
        struct {
            struct request_lease *leases;
            uint32_t count;
        } claim;
        struct {
            enum error_code code;
            uint32_t at; /* of operations that were refused together: which of them is to blame */
            struct str detail;
        } refused;
        struct {
            int status; /* HTTP's */
            struct str text;
        } body;
    };
};

struct request_memo {
    struct request_entry *entries;
    uint32_t count;
};

/* Whether a record holds a memo. Version 0.1.0 kept whole responses: the status in digits, a space,
 * and the body. */
bool request_is_memo(struct str kept);

void request_memo_write(const struct request_memo *memo, struct buf *buf);

/* Reads what request_memo_write wrote; texts are views of `kept`. corrupt, no_memory. */
enum error_code request_memo_read(struct str kept, struct arena *arena, struct request_memo *ret,
                                  struct err *err);

/* Whether the token is that of one of its leases. */
bool request_memo_holds(const struct request_memo *memo, const struct token *token);

/* Takes all leases out, as if the claims had found nothing. False: then nothing is left that was
 * done. */
bool request_memo_disclaim(struct request_memo *memo);

#endif
