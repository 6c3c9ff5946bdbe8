/* What the files of the engine share. Private to src/engine/engine*.c. */
#ifndef PAWL_ENGINE_ENGINE_PRIVATE_H
#define PAWL_ENGINE_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/trusted_time.h"
#include "engine/engine.h"

enum {
    QUEUE_BYTES_MAX = 64 * 1024 * 1024,
    SORTS_MAX = 16 * 1024,  /* a power of two, and more than PARKED_MAX */
    PARKED_MAX = 10 * 1000, /* claims that wait for work at once */
    PARK_LINES = 256,       /* in which those stand that name one queue */
    LEFT_MAX = 256,         /* due items that are left alone because they cannot be carried out */
    LEFT_MS = 60 * 1000,    /* for so long */
    DUE_LIMIT = 250,        /* of each sort of due work in one turn */
    LOOK_MS_MAX = 1000,     /* how long the engine goes without a look at the store */
    LOOK_MS_SHARED = 500,   /* and at one that users put jobs into */
    BREAK_MS = 5 * 1000,    /* not having seen the store for longer than that is a break */
    CHANGE_MS = 10,         /* between two looks because of what other servers have done */
    ATTEND_MS = 2000,       /* between two notes that somebody looks after the store */
    SWEEP_MS = 60 * 1000,   /* between two looks for old records */
    RUNNERS_MAX = 2,
    HELP_MIN = 3, /* pieces of work that wait, for a second batch beside the one under way */
    CALL_WEIGHT = sizeof(struct op), /* what a call weighs at least */
};

struct call_memory {
    struct arena arena;
    struct call_kept *kept; /* of all calls of the batch */
    atomic_uint users;
};

/* When the store was last seen, and the last break: what a batcher knows of it. */
struct sighting {
    int64_t seen_at;
    int64_t down_since;
    int64_t up_since;
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

/* One who runs batches. */
struct runner {
    struct engine *engine;
    struct batcher batcher;
    struct op *ops[BATCH_OPS_MAX];
    bool started;
    pthread_t thread;
};

struct engine {
    struct store *store;
    char *url;
    struct engine_options options;

    /* The first takes turns between callers and what is due. The others, where the store keeps
     * batches apart by itself, serve callers while the first is busy, so that one batch is worked
     * out here while the other is at the store. */
    struct runner runners[RUNNERS_MAX];
    uint32_t runner_count;
    struct observer observer;  /* the options' own, told of one batch at a time */
    pthread_mutex_t observing; /* one of us */

    /* The rest but for the lock is touched by whoever takes the turn, unless said otherwise. */
    struct arena_pool *pool; /* for the memory of calls and batches */
    int64_t sweep_at;        /* when to look for old records, on the steady clock */
    int64_t attend_at;       /* and when to note that we are here */
    int64_t look_at;         /* and, at the earliest, for what other servers have done */
    struct left_due left[LEFT_MAX];
    uint32_t left_count;
    int64_t left_until;
    bool due_turn; /* callers had the last turn */

    pthread_mutex_t lock;
    pthread_cond_t work;         /* for the first runner */
    pthread_cond_t help;         /* for the others */
    bool resting;                /* the first runner has nothing to do; under the lock */
    bool nudged;                 /* it should look again when it will have; under the lock */
    uint32_t in_flight;          /* batches at the store; under the lock */
    struct sighting sighting;    /* of the store, by any of the runners; under the lock */
    struct trusted_time trusted; /* under the lock */
    int64_t due_at;              /* when to look for what is due; under the lock */
    struct call_list waiting;    /* under the lock */
    struct call_list parked[PARK_LINES + 1]; /* see engine_park.c; under the lock */
    uint32_t parked_count;                   /* in all of them */
    uint32_t passed_over;                    /* of these: see call.passed_over; under the lock */
    uint64_t parked_order;                   /* of the next one */
    size_t bytes;                            /* of the calls in `waiting`; under the lock */
    uint64_t sorts[SORTS_MAX];               /* of claims, for engine_wake_each */
    int64_t park_next; /* when the next parked call gives up; under the lock */
    bool changed;      /* by another server; under the lock */
    bool stop;         /* under the lock */
    _Atomic int64_t
        written_at; /* when a batch that wrote something was committed, steady; 0: none */
    atomic_bool interrupted;

    bool watches; /* the watcher runs */
    pthread_t watcher;
};

/* ---- engine.c: time ---- */

/* The latest time that may be trusted now; 1: none is known; INT64_MAX: any. Under the
 * lock. */
int64_t engine_trusted_limit(struct engine *engine);

/* ---- engine.c: lists of calls ---- */

void call_list_add(struct call_list *list, struct call *call);
void call_list_remove(struct call_list *list, struct call *call);

/* A call is over: tells its caller. Not under the lock. */
void call_done(struct call *call);

/* Gives every operation of the call this code. */
void call_refuse(struct call *call, enum error_code code, const char *why);

/* ---- engine_turn.c: batches, by any runner ---- */

/* Runs what callers want. False: nobody wanted anything. */
bool engine_run_calls(struct runner *runner);

/* Between these a batch may be at the store: what one runner has seen of it the others know, and
 * when it has left work that it had locked, claims that may have passed over that are run again.
 * Under the lock. */
void engine_flight_begin(struct runner *runner);
void engine_flight_end(struct runner *runner, bool left);

/* Something is due at `at`, on the steady clock. Under the lock. */
void engine_due_by(struct engine *engine, int64_t at);

/* ---- engine_park.c: claims that wait for work; all under the lock ---- */

/* Whether the call is a claim that found nothing and may wait; if so it waits from now on. */
bool engine_park(struct runner *runner, struct call *call);

/* Moves parked calls to those that wait for their turn: as many as there is new work for. */
void engine_wake_news(struct engine *engine, const struct batch_news *news);

/* The batch makes jobs: adds claims that wait for such, so that they are made and given away in one
 * commit. `count` of runner->ops are filled in. */
void engine_join(struct runner *runner, struct call_list *calls, uint32_t *count);

/* One of each sort, since work may have come that nobody told us about; whoever gets some wakes
 * the next of its sort. */
void engine_wake_each(struct engine *engine, bool steps_only);
void engine_wake_next(struct engine *engine, const struct call *lucky);

/* Those that may have passed over work because a batch, which has ended, had it locked. */
void engine_wake_passed(struct engine *engine);

/* Moves those that have waited long enough (or all) to `ret_over`. */
void engine_unpark(struct engine *engine, bool all, struct call_list *ret_over);

/* ---- engine_due.c ---- */

/* Makes of the first `count` operations, which were committed, those that count the failures which
 * they have put on resources, and returns how many that are; then runs them: in a batch of its own,
 * since what they would lock was not known before. When it is lost, by a crash, a resource is
 * rested a failure later. */
uint32_t engine_blames(struct runner *runner, uint32_t count, struct arena *arena);
void engine_blame(struct runner *runner, uint32_t blames, struct arena *arena);

/* Notes that the store is looked after, and looks at its clock. */
enum error_code engine_attend(struct engine *engine, struct err *err);

/* Carries out what is due, a bounded part of it, and says when to come again. */
void engine_do_due(struct engine *engine);

#endif
