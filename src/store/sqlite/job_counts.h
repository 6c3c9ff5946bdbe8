/* How many jobs each queue has in each status, in the owner's memory.
 *
 * A batch notes what it changes here (`pending`) and stores it in its row of the feed. From time to
 * time the counts themselves are stored (table job_counts), so that opening a store reads these and
 * at most some rows of the feed. */
#ifndef PAWL_STORE_SQLITE_JOB_COUNTS_H
#define PAWL_STORE_SQLITE_JOB_COUNTS_H

#include "base/arena.h"
#include "base/map.h"
#include "core/machine.h"

#define QUEUE_NONE UINT32_MAX

struct queue_jobs {
    struct str queue; /* may be empty */
    int64_t jobs[JOB_STATUS_COUNT];
    int64_t pending[JOB_STATUS_COUNT]; /* what the transaction that writes adds */
    bool touched;                      /* by that transaction */
    uint32_t next_touched;             /* the index of the next one that is; QUEUE_NONE: the last */
    bool stored;                       /* job_counts says the same */
};

/* The transaction that writes changes it; `at`, `count` and `jobs` with the store's lock, since
 * others read them. */
struct job_counts {
    struct arena arena;
    struct map map; /* queue -> index */
    struct queue_jobs *at;
    uint32_t count;
    uint32_t cap;
    uint32_t last;    /* index of the queue that was found last */
    uint32_t touched; /* index of the first that the transaction that writes has touched */
    int64_t stored;   /* the position in the feed that job_counts is of */
};

void job_counts_init(struct job_counts *counts, uint64_t seed);
void job_counts_release(struct job_counts *counts);

#endif
