/* What the files of the engine share. Private to src/engine/engine*.c. */
#ifndef PAWL_ENGINE_ENGINE_PRIVATE_H
#define PAWL_ENGINE_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"

enum {
    QUEUE_BYTES_MAX = 64 * 1024 * 1024,
    SORTS_MAX = 16 * 1024,  /* a power of two, and more than PARKED_MAX */
    PARKED_MAX = 10 * 1000, /* claims that wait for work at once */
    LEFT_MAX = 256,         /* due items that are left alone because they cannot be carried out */
    LEFT_MS = 60 * 1000,    /* for so long */
    DUE_LIMIT = 250,        /* of each sort of due work in one turn */
    LOOK_MS_MAX = 1000,     /* how long the engine goes without a look at the store */
    BREAK_MS = 5 * 1000,    /* not having seen the store for longer than that is a break */
    CHANGE_MS = 10,         /* between two looks because of what other servers have done */
    ATTEND_MS = 2000,       /* between two notes that somebody looks after the store */
    SWEEP_MS = 60 * 1000,   /* between two looks for old records */
    CALL_WEIGHT = sizeof(struct op), /* what a call weighs at least */
};

struct call_memory {
    struct arena arena;
    struct call_kept *kept; /* of all calls of the batch */
    atomic_uint users;
};

struct call_list {
    struct call *first;
    struct call *last;
    uint32_t count;
};

struct left_due {
    struct uuid job;
    uint32_t step;
};

struct engine {
    struct store *store;
    char *url;
    struct engine_options options;

    /* The rest but for the lock is touched by whoever takes the turn, unless said otherwise. */
    struct arena_pool *pool; /* for the memory of calls and batches */
    struct batcher batcher;
    struct op *ops[BATCH_OPS_MAX];
    int64_t due_at;    /* when to look for what is due, on the steady clock */
    int64_t sweep_at;  /* and for old records */
    int64_t attend_at; /* and when to note that we are here */
    int64_t look_at;   /* and, at the earliest, for what other servers have done */
    struct left_due left[LEFT_MAX];
    uint32_t left_count;
    int64_t left_until;
    bool due_turn; /* callers had the last turn */

    pthread_mutex_t lock;
    pthread_cond_t work;
    struct call_list waiting;  /* under the lock */
    struct call_list parked;   /* under the lock */
    size_t bytes;              /* of the calls in `waiting`; under the lock */
    uint64_t sorts[SORTS_MAX]; /* of claims, for engine_wake_each */
    int64_t park_next;         /* when the next parked call gives up; under the lock */
    bool changed;              /* by another server; under the lock */
    bool stop;                 /* under the lock */
    atomic_bool interrupted;

    bool threads; /* they run */
    bool watches; /* also the watcher does */
    pthread_t runner;
    pthread_t watcher;
};

/* ---- engine.c: lists of calls ---- */

void call_list_add(struct call_list *list, struct call *call);
void call_list_remove(struct call_list *list, struct call *call);

/* A call is over: tells its caller. Not under the lock. */
void call_done(struct call *call);

/* Gives every operation of the call this code. */
void call_refuse(struct call *call, enum error_code code, const char *why);

/* ---- engine_park.c: claims that wait for work; all under the lock ---- */

/* Whether the call is a claim that found nothing and may wait; if so it waits from now on. */
bool engine_park(struct engine *engine, struct call *call);

/* Moves parked calls to those that wait for their turn: as many as there is new work for. */
void engine_wake_news(struct engine *engine, const struct batch_news *news);

/* One of each sort, since work may have come that nobody told us about; whoever gets some wakes
 * the next of its sort. */
void engine_wake_each(struct engine *engine, bool steps_only);
void engine_wake_next(struct engine *engine, const struct call *lucky);

/* Moves those that have waited long enough (or all) to `ret_over`. */
void engine_unpark(struct engine *engine, bool all, struct call_list *ret_over);

/* ---- engine_due.c ---- */

/* Counts the failures that the first `count` operations, which were committed, have put on
 * resources: in a batch of its own, since what they would lock was not known before. When it is
 * lost, by a crash, a resource is rested a failure later. */
void engine_blame(struct engine *engine, uint32_t count, struct arena *arena);

/* Carries out what is due, a bounded part of it, and says when to come again. */
void engine_do_due(struct engine *engine);

#endif
