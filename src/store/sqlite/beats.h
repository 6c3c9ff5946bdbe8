/* Heartbeats in the owner's memory: where live leases end that a heartbeat has moved since their
 * rows were written.
 *
 * A heartbeat without progress or cursor writes no row. What it moved is here until the lease ends,
 * beside the row, whose end is earlier or the same. The first one in the life of a process is
 * stored with a mark that there are such heartbeats; closing the store writes them all and takes
 * the mark away. Who opens a store with the mark knows that the owner before was killed, and until
 * when heartbeats may be lost (store.beats_since): core then gives leases a new term.
 *
 * The table is bounded: when it is full a heartbeat is written as any other change. */
#ifndef PAWL_STORE_SQLITE_BEATS_H
#define PAWL_STORE_SQLITE_BEATS_H

#include "base/arena.h"
#include "base/map.h"
#include "base/uuid.h"
#include "store/row.h"

enum { BEATS_MAX = 64 * 1024 };

/* One lease, on a job or a step (ordinal, or STEP_NONE). */
struct beat {
    struct uuid job;
    uint32_t step;
    int64_t attempt; /* 0: the lease has ended */
    int64_t expires_at;
    int64_t beat_at;
};

/* Not synchronised: the caller holds the store's lock. */
struct beats {
    struct arena arenas[2]; /* the table moves from one to the other, without what has ended */
    uint32_t arena;         /* index of the one it is in */
    struct map map;         /* key -> index */
    struct beat *at;
    uint32_t count; /* also those that have ended */
    uint32_t cap;
    uint32_t live;
    uint64_t seed;
};

void beats_init(struct beats *beats, uint64_t seed);
void beats_release(struct beats *beats);

/* What a heartbeat has moved a lease to. */
struct beat beat_of(const struct uuid *job, uint32_t step, const struct claim_row *claim);

/* Makes room for so many that beats_put cannot fail; false: no memory. */
bool beats_reserve(struct beats *beats, uint32_t more);

/* Takes the place of what was known of the lease; with attempt 0 nothing is known any more. */
void beats_put(struct beats *beats, const struct beat *beat);

/* Moves the end of a lease as it is stored to where it is, if that is known here. */
void beats_apply(const struct beats *beats, const struct uuid *job, uint32_t step,
                 struct claim_row *claim);

#endif
