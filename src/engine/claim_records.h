/* What a claim carries of what was done before it: effects and waits by key, since the last fresh
 * start, so that a replay asks the server nothing that it knows.
 *
 * Records come in the order of their versions: that of the call that first began an effect, and
 * that of the event that ended a wait. Where they do not all fit, `effects_next` is the version to
 * go on after. */
#ifndef PAWL_ENGINE_CLAIM_RECORDS_H
#define PAWL_ENGINE_CLAIM_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/store.h"

enum { RECORDS_BYTES_MAX = 4 * 1024 * 1024 }; /* of all claims in one response */

struct claim_records {
    struct store_txn *txn; /* NULL: nothing can be read */
    struct arena effects;  /* of one page of each, thrown away once it is written */
    struct arena waits;
    uint64_t seed;
    size_t bytes_left; /* that may still be written */
    bool failed;       /* memory ran out */
};

/* `seed` is for look-up tables. */
void claim_records_init(struct claim_records *records, struct store_txn *txn, uint64_t seed);
void claim_records_release(struct claim_records *records);

/* Writes "effects" and "waits" of a job, or of a step of it, behind version `after`, and
 * "effects_next" when there are more. The waits of a step are its questions that were answered. */
void claim_records_put(struct claim_records *records, struct json_writer *writer, struct uuid job,
                       struct str step, int64_t after);

/* The same where there is none. */
void claim_records_put_none(struct json_writer *writer);

#endif
