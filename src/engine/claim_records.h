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
#include "base/refs.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/store.h"

enum { RECORDS_BYTES_MAX = 4 * 1024 * 1024 }; /* of all claims in one response */

/* One who reads records, for all claims of a response. */
struct claim_records {
    struct store_txn *txn; /* NULL: nothing can be read */
    uint64_t seed;         /* for look-up tables */
    size_t bytes_left;     /* that may still be read */
};

/* The records of a job, or of a step of it. As zeroed, there are none. */
struct claim_found {
    struct refs effects; /* of struct effect */
    struct refs waits;   /* of struct event, opened: the last one that ended a wait with its key */
    bool more;           /* there are more, behind */
    int64_t next;        /* this version */
};

/* Reads what is behind version `after`, as far as the bytes go; `step` is absent for the job's own.
 * The waits of a step are its questions that were answered. What cannot be read is left for later.
 * False: memory ran out. */
bool claim_records_read(struct claim_records *records, struct uuid job, struct str step,
                        int64_t after, struct arena *arena, struct claim_found *ret);

/* Writes "effects" and "waits", and "effects_next" when there are more. */
void claim_found_write(const struct claim_found *found, struct json_writer *writer);

#endif
