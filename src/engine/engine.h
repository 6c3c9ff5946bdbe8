/* The engine: takes operations from many threads, gathers what is waiting into a batch, runs it as
 * one transaction, and tells each caller what came of theirs. It is also the one who acts when a
 * time has come: leases, waits, delays, soft cancels, retention, resources.
 *
 * One thread runs the batches of a store that is this process's alone, so that no job is ever in
 * two of them. A store that is shared keeps the batches of many processes apart, and so those of
 * two threads of this one. While one batch is being committed the next gathers: a lonely call is
 * run at once, a thousand share an fsync. Due work goes through the same door in bounded batches
 * that take turns with callers.
 *
 * A claim that may wait and finds nothing is parked. It is run again as soon as work comes that it
 * may take: through this engine at once, through another server when the store says so. */
#ifndef PAWL_ENGINE_ENGINE_H
#define PAWL_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/batch.h"
#include "engine/waiter.h"
#include "store/store.h"

struct engine;

/* When too much is waiting, calls are refused in this order. */
enum call_class {
    CALL_SUBMIT, /* new work first, */
    CALL_CLAIM,  /* then claims, */
    CALL_RESULT, /* heartbeats and results last; operators too */
    CALL_OWN,    /* the engine's own: never */
};

/* The memory in which the answers of one batch live, until the last of its callers lets go. */
struct call_memory;

/* What the operations of a call point to. Answers of other calls in the same batch may point there
 * too, so that it lives as long as they do: the engine frees it with the batch. */
struct call_kept {
    struct arena arena;
    struct call_kept *next;
};

/* NULL: no memory. Given to a call, it is freed by call_release at the latest. */
struct call_kept *call_kept_new(struct engine *engine);

/* Where calls that are done go: a thread that is told of many at once, such as an I/O thread's
 * loop, is woken once for all of a batch. */
struct call_sink {
    void (*flush)(struct call_sink *sink); /* every one of this batch was told; must not block */
};

/* Operations of one caller that go into one batch together. The first members are the caller's; it
 * owns the memory of the call and of everything that it points to, until done. */
struct call {
    struct op **ops;
    uint32_t count; /* 1..BATCH_OPS_MAX */
    enum call_class class;
    size_t bytes;    /* what it weighs while it waits: the size of the request will do */
    int64_t wait_ms; /* a single claim: wait so long for work; 0: not at all */

    /* Whether somebody still wants the answer; NULL: yes. A claim for nobody is not run. Called on
     * the engine's thread: it must not block. */
    bool (*wanted)(void *arg);
    void *wanted_arg;
    /* Told once, on the engine's thread, that all is done: it must not block. */
    void (*done)(struct call *call, void *arg);
    /* Of engine_submit_all: told instead of `done`, by the caller's thread, that it was refused. */
    void (*refused)(struct call *call, enum error_code code, const struct err *err);
    void *arg;
    struct call_sink *sink; /* flushed after `done`; NULL: nobody waits for that */

    struct call_kept *kept; /* NULL: what the operations point to lives longer than anything else */

    /* The engine's. */
    struct call *next;
    struct call *previous;
    struct call_memory *memory;
    int64_t park_until; /* on the engine's steady clock */
    int64_t again_at;   /* and when to look once more, since its resource rests until then */
    int64_t look_at;    /* when it is to be looked at while it is parked */
    uint64_t parked_order;
    uint64_t signature; /* claims with the same one take the same work */
    enum waiter_state waiter;
};

struct engine_options {
    struct store_options store;
    struct store *lent; /* in place of one that is opened; it stays the caller's, and is there for
                           longer than the engine. NULL: the store of the URL */
    size_t queue_bytes_max;  /* 0: 64 MiB */
    int64_t lease_ttl_ms;    /* of leases for which neither claim, job nor kind say; 0: the usual */
    int64_t cancel_grace_ms; /* of soft cancels for which neither caller nor kind say; 0: 30 s */
    struct str backup_dir;   /* below which copies are written for other processes; absent: the
                                directory of the store's file. Stays the caller's */
    bool by_hand;            /* start no threads: somebody calls engine_turn */
    /* Milliseconds that never jump, for deadlines and to see when the clock does; NULL: the
     * system's. */
    int64_t (*steady)(void *arg);
    void *steady_arg;
    bool manual_clock; /* time stands still until engine_advance moves it; a store in memory only */
    bool trusts_clock; /* what the store's clock says is believed at once (core/trusted_time.h):
                          for tests of other things */
    struct observer observer; /* all of it set, or nothing */
};

/* Opens the store, unless one is lent, and starts the engine. Fails as store_open; unavailable also
 * when no thread can be started. */
enum error_code engine_open(struct str url, const struct engine_options *options,
                            struct engine **ret, struct err *err);

/* Ends it: calls that wait are answered with unavailable. No call may be made any more. */
void engine_close(struct engine *engine);

/* The directory below which copies of the store are written for other processes; absent: the store
 * has no file. */
struct str engine_backup_dir(const struct engine *engine);

/* Hands a call over; `done` will be called, perhaps before this returns. unavailable: too much is
 * waiting, or the engine is closing; then it never is. */
enum error_code engine_submit(struct engine *engine, struct call *call, struct err *err);

/* Hands several calls over, linked by `next`, in one go; each is told of by `done` or `refused`.
 * If `may_wait`, the engine is idle, its store is this process's alone, the calls are few and the
 * last batches were short, they are run here, before this returns, so that no thread is woken for
 * them. The store may make them wait: a thread that others depend on must not be the only one. */
void engine_submit_all(struct engine *engine, struct call *first, bool may_wait);

/* Like engine_submit, and waits until it is done; `done`, `arg` are the engine's then. Every
 * operation has a code. */
enum error_code engine_run(struct engine *engine, struct call *call, struct err *err);

/* Lets go of the answers of a call that is done. Needed once for every call that was done, and for
 * one that has something kept also when it was refused. */
void call_release(struct call *call);

/* Ends the waiting of all claims that are parked, and of engine_watch: they find nothing, now and
 * from now on. */
void engine_interrupt(struct engine *engine);
bool engine_interrupted(struct engine *engine);

/* Waits for a change in the store, as store_watch does, but not longer than until
 * engine_interrupt. */
enum error_code engine_watch(struct engine *engine, uint64_t seen, int64_t wait_ms,
                             uint64_t *ret_seen, struct err *err);

/* For readers: they begin transactions of their own, in their own thread. */
struct store *engine_store(struct engine *engine);

/* The URL that it was opened with. */
struct str engine_url(const struct engine *engine);

/* Milliseconds on the engine's steady clock. */
int64_t engine_steady(struct engine *engine);

/* When a caller's batch that wrote something was last committed, on the steady clock; 0: none was.
 * Any thread. */
int64_t engine_written_at(struct engine *engine);

/* `now`, or the trusted time (core/trusted_time.h) when that is earlier: what to go by where a
 * mistake could not be taken back. Any thread. */
int64_t engine_trusted(struct engine *engine, int64_t now);

/* ---- a clock for tests (engine_clock.c) ---- */

/* Where an engine with a manual clock stands. */
struct clock_state {
    int64_t now;
    int64_t next_due; /* when something is to happen next; INT64_MAX: nothing is */
    uint64_t fired;   /* out of engine_advance: timers, resources, jobs that were promoted or
                         deleted, since it began */
};

/* How far to move it: exactly one of these. */
struct clock_move {
    int64_t ms; /* CLOCK_UNSAID: not said */
    int64_t to;
    bool to_next; /* where something happens next */
};
#define CLOCK_UNSAID INT64_MIN

/* not_found: the engine goes by the system's clock. */
enum error_code engine_clock(struct engine *engine, struct clock_state *ret, struct err *err);

/* Moves the clock, and stops at every moment in between at which something is due, so that all of
 * it is done at its time and in its order. Returns when that is done, or after 55 seconds, wherever
 * the clock is then. bad_request: none or several ways to say how far, a time in the past, or one
 * that cannot be written; not_found as above. Any thread. */
enum error_code engine_advance(struct engine *engine, const struct clock_move *move,
                               struct clock_state *ret, struct err *err);

/* One turn, for an engine that is run by hand: a batch of what waits, or what is due. `ret_wait_ms`
 * is how long there is nothing to do unless a call comes; 0: there is more. */
void engine_turn(struct engine *engine, int64_t *ret_wait_ms);

#endif
