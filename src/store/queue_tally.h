/* Counts jobs by queue and status, for stores that walk over all of them. */
#ifndef PAWL_STORE_QUEUE_TALLY_H
#define PAWL_STORE_QUEUE_TALLY_H

#include "base/map.h"
#include "store/store.h"

struct queue_tallied;

struct queue_tally {
    struct arena *arena;
    struct map numbers; /* queue -> index in `at` */
    struct queue_tallied *at;
    uint32_t count;
    uint32_t cap;
    uint32_t last; /* the index that was found last: jobs of a queue often come together */
};

/* Everything is in `arena`, names of queues included. */
void queue_tally_init(struct queue_tally *tally, struct arena *arena, uint64_t seed);

/* One more job. Fails with no_memory, and with corrupt when there is no such status. */
enum error_code queue_tally_add(struct queue_tally *tally, struct str queue, int64_t status,
                                int64_t created_at, struct err *err);

/* What store_queues gives. Fails with no_memory only. */
enum error_code queue_tally_finish(struct queue_tally *tally, struct store_queue_count **ret,
                                   uint32_t *ret_count, struct err *err);

#endif
