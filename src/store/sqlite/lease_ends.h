/* When the engine looks after each live lease on a job, in the owner's memory.
 *
 * claim_rows has it too, without an index: opening a store reads it from there, and every commit
 * that begins, moves or ends a lease changes it here. */
#ifndef PAWL_STORE_SQLITE_LEASE_ENDS_H
#define PAWL_STORE_SQLITE_LEASE_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"

struct lease_end {
    int64_t no; /* of the job; 0: this slot is free */
    int64_t due_at;
    struct uuid job;
};

/* Not synchronised: the caller holds the store's lock. */
struct lease_ends {
    struct lease_end *slots; /* a hash table by no: linear probing, without gaps */
    uint32_t cap;            /* 0, or a power of two */
    uint32_t count;
    int64_t earliest; /* no lease is due before this, */
    bool passed;      /* and perhaps none then: the one that was has ended */
};

void lease_ends_init(struct lease_ends *ends);
void lease_ends_release(struct lease_ends *ends);

/* Makes room for so many more that lease_ends_put cannot fail; false: there is no memory. */
bool lease_ends_reserve(struct lease_ends *ends, uint32_t more);

/* Takes the place of what was known of the job's lease; due_at 0: it has ended. */
void lease_ends_put(struct lease_ends *ends, const struct lease_end *end);

#endif
