/* What the files of the engine share. Private to src/engine/engine*.c. */
#ifndef PAWL_ENGINE_ENGINE_PRIVATE_H
#define PAWL_ENGINE_ENGINE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/trusted_time.h"
#include "engine/engine.h"
#include "engine/maintenance.h"

enum {
    QUEUE_BYTES_MAX = 64 * 1024 * 1024,
    SIGNATURES_MAX = 16 * 1024, /* a power of two, and more than PARKED_MAX */
    PARKED_MAX = 10 * 1000,     /* claims that wait for work at once */
    PARK_LINES = 256,           /* in which those stand that name one queue */
    LOOK_MS_MAX = 1000,         /* how long the engine goes without a look at the store */
    LOOK_MS_SHARED = 500,       /* and at one that users put jobs into */
    BREAK_MS = 5 * 1000,        /* not having seen the store for longer than that is a break */
    CHANGE_MS = 10,             /* between two looks because of what other servers have done */
    RUNNERS_MAX = 2,
    HERE_MAX = 16,     /* calls that an idle engine runs on the thread of their caller, */
    HERE_MS_MAX = 5,   /* unless a batch has taken longer than that a moment ago */
    SINKS_MAX = 16,    /* that are flushed once a batch */
    HELP_MIN = 3,      /* pieces of work that wait, for a second batch beside the one under way */
    COMPANY_US = 2000, /* and less waits for that batch, or for more, so long at most */
    RETURN_US_MAX = 1000, /* callers that were answered are waited for: so long at most, */
    RETURN_SHARE = 4,     /* and for such a part of what their batch took */
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

/* One who runs batches. */
struct runner {
    struct engine *engine;
    struct batcher batcher;
    struct op *ops[BATCH_OPS_MAX];
    struct call_list calls; /* whose operations these are, between gather and settle; under the
                               lock */
    bool started;
    pthread_t thread;
};

struct engine {
    struct store *store;
    char *url;
    struct engine_options options;

    /* The first takes turns between callers and maintenance. The others, where the store keeps
     * batches apart by itself, serve callers while the first is busy, so that one batch is worked
     * out here while the other is at the store. */
    struct runner runners[RUNNERS_MAX];
    uint32_t runner_count;
    struct observer observer;  /* the options' own, told of one batch at a time */
    pthread_mutex_t observing; /* one of us */

    /* The rest but for the lock is touched by the runner that has the turn, unless said otherwise.
     */
    struct arena_pool *pool; /* for the memory of calls and batches */
    int64_t look_at;         /* when to look, at the earliest, for what other servers have done */
    struct maintenance maintenance;
    bool maintenance_turn; /* callers had the last turn */

    pthread_mutex_t lock;
    pthread_cond_t work;         /* for the first runner */
    pthread_cond_t help;         /* for the others */
    bool resting;                /* the first runner has nothing to do; under the lock */
    bool borrowed;               /* a caller's thread is the first runner; under the lock */
    bool awaited;                /* the first runner wants to go on when it no longer is */
    int64_t slow_until;          /* no caller borrows it before; steady; under the lock */
    bool nudged;                 /* it should look again when it will have; under the lock */
    uint32_t in_flight;          /* batches at the store; under the lock */
    uint32_t returning;          /* calls that were answered a moment ago, whose callers may */
    int64_t returning_until;     /* call again by then (monotonic, in us); under the lock */
    struct sighting sighting;    /* of the store, by any of the runners; under the lock */
    struct trusted_time trusted; /* under the lock */
    int64_t maintain_at;         /* when the next round of maintenance is; under the lock */
    struct call_list waiting;    /* under the lock */
    struct call_list parked[PARK_LINES + 1]; /* see engine_waiters.c; under the lock */
    uint32_t parked_count;                   /* in all of them */
    uint32_t shadowed_count;                 /* of these; under the lock */
    uint64_t parked_order;                   /* of the next one */
    size_t bytes;                            /* of the calls in `waiting`; under the lock */
    uint64_t signatures[SIGNATURES_MAX];     /* of claims, for engine_tell_rumour */
    int64_t park_next; /* when the next parked call gives up; under the lock */
    bool changed;      /* by another server; under the lock */
    bool stop;         /* under the lock */
    _Atomic int64_t
        written_at; /* when a batch that wrote something was committed, steady; 0: none */
    atomic_bool interrupted;

    _Atomic int64_t manual_now; /* the time, with a manual clock */
    struct advance *advancing;  /* calls that wait for it to be moved; under the lock */

    bool watches; /* the watcher runs */
    pthread_t watcher;
};

/* ---- engine.c: lists of calls ---- */

void call_list_add(struct call_list *list, struct call *call);
void call_list_remove(struct call_list *list, struct call *call);

/* A call is over: tells its caller. Not under the lock. */
void call_done(struct call *call);

/* Whether somebody still wants the response. */
bool call_is_wanted(const struct call *call);

/* Gives every operation of the call this code. */
void call_refuse(struct call *call, enum error_code code, const char *why);

/* ---- engine_turn.c: batches, by any runner ---- */

/* Runs what callers want. False: nobody wanted anything. */
bool engine_run_calls(struct runner *runner);

/* Between these a batch may be at the store: what one runner has seen of it the others know, and
 * when it has left work that it had locked, claims that may have missed that are run again.
 * Under the lock. */
void engine_flight_begin(struct runner *runner);
void engine_flight_end(struct runner *runner, bool locked_unclaimed);

/* Lets what waits wait a little for more to share its batch: what is done once for each batch, with
 * the sync of its commit, costs more than a few operations. For the first runner of a shared store.
 */
void engine_await_company(struct engine *engine);

/* Maintenance is to run at `at`, on the steady clock, if not sooner. Under the lock. */
void engine_maintain_by(struct engine *engine, int64_t at);

/* ---- engine_clock.c: a clock for tests ---- */

/* Makes the engine's own clock that of the store that is about to be opened. bad_request: the URL
 * is not that of a store in memory. */
enum error_code engine_clock_init(struct engine *engine, struct str url, struct err *err);

/* Moves the clock, if a caller waits for that; the first runner's. False: nobody does. */
bool engine_clock_turn(struct engine *engine);

/* ---- engine_waiters.c: claims that wait for work; all under the lock ---- */

/* Moves a waiter (waiter.h) and does what the move says; one that ends is the caller's to tell. */
enum waiter_action engine_waiter_move(struct engine *engine, struct call *call,
                                      enum waiter_event event);

/* After the batch of a call: true when the call is over. Else it waits for work, or goes into the
 * next batch. */
bool engine_settle_call(struct runner *runner, struct call *call);

/* A batch has brought work: tells as many waiters as there is work for. */
void engine_tell_wakeups(struct engine *engine, const struct wakeups *wakeups);

/* Work may have come that nobody has counted: tells one waiter of each signature. If it gets some,
 * it tells the next of its signature. */
enum rumour { RUMOUR_OF_WORK, RUMOUR_OF_STEPS };
void engine_tell_rumour(struct engine *engine, enum rumour rumour);

/* A batch has ended that may have had work locked. */
void engine_tell_unlocked(struct engine *engine);

/* The batch makes jobs: adds claims that wait for such, so that they are made and given away in one
 * commit. `count` of runner->ops are filled in. */
void engine_join(struct runner *runner, uint32_t *count);

/* Moves those that have waited long enough, or whose callers are gone (or all), to `ret_over`. */
void engine_end_waits(struct engine *engine, bool all, struct call_list *ret_over);

/* ---- maintenance_resources.c ---- */

/* Collects the failures that resources have caused in the first `count` operations, which were
 * committed, and returns how many there are; then records them in a batch of their own, since the
 * first one did not lock the resources. If a crash loses that batch, a cooldown begins one failure
 * later. */
uint32_t engine_resource_failures(struct runner *runner, uint32_t count, struct arena *arena);
void engine_record_failures(struct runner *runner, uint32_t failures, struct arena *arena);

/* ---- maintenance_liveness.c ---- */

/* The latest time that may be trusted now; 1: none is known; INT64_MAX: any. Under the
 * lock. */
int64_t engine_trusted_limit(struct engine *engine);

/* Goes on from what was trusted when the store was looked after last. */
void engine_begin_trusting(struct engine *engine, const struct store_liveness *seen);

/* Notes that the store is looked after, and looks at its clock. */
enum error_code engine_record_liveness(struct engine *engine, struct err *err);

#endif
