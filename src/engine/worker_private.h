/* A worker from inside: what its threads share.
 *
 * One thread claims, as many as there are slots run handlers, and one, the heart, keeps leases
 * alive. A slot belongs to one handler thread. It is free or has a task; only the claimer gives a
 * free slot a task, and only its own thread ends one. Anyone who ends a task asks for the next in
 * the same call that reports the outcome, so that a busy worker pays one commit a job; the claimer
 * waits for work on behalf of the slots that are free.
 *
 * Everything is done with the verbs of pawl.h: a worker runs on any handle. */
#ifndef PAWL_ENGINE_WORKER_PRIVATE_H
#define PAWL_ENGINE_WORKER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "pawl.h"

struct slot {
    struct pawl_task task; /* first: the task that a handler has is its slot */
    struct pawl_worker *worker;
    pthread_t thread;
    pthread_cond_t given; /* a task has come, or the worker ends */
    atomic_int end;       /* enum pawl_end */

    /* The texts of the task. */
    char *job_id;
    char *step; /* NULL: it is a job */
    char *kind;
    char *payload;
    char *token;
    char *traceparent; /* NULL: none */
    char *claim;
    int64_t heartbeat_ms;
    int64_t over_at; /* the attempt runs into its timeout then; INT64_MAX: it has none */

    /* Under the worker's lock. */
    bool busy;           /* has a task */
    bool beating;        /* the heart keeps its lease */
    uint64_t generation; /* of the task: one up for each */
    int64_t beat_at;     /* when the next heartbeat is due */
    int64_t alive_until; /* the lease may be alive until then, as far as we know */
    char *progress;      /* to be sent; NULL: nothing */
    char *cursor;
    uint64_t progress_version; /* one up whenever they change */
};

struct pawl_worker {
    struct pawl *pawl;
    pawl_handler handler;
    void (*reported)(void *arg, const struct pawl_task *task, const struct pawl_outcome *outcome,
                     const struct pawl_error *error);
    void (*trouble)(void *arg, const struct pawl_error *error);
    void *arg;
    bool once;
    bool drain;
    struct arena arena;
    struct str terms;   /* members of every claim, without braces */
    bool steps;         /* takes steps of plans, or judges them; else jobs */
    char *resource;     /* as it is registered, JSON; NULL: none */
    char *registration; /* what it says of itself, JSON */

    atomic_bool stopped; /* pawl_worker_stop was called */
    int wake;            /* an eventfd: a slot is free, or stopped */

    pthread_mutex_t lock;
    pthread_cond_t heart_due;
    pthread_cond_t ended; /* the claimer and all handlers are done */
    pthread_t claimer;
    pthread_t heart;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t threads; /* handler threads that run */
    bool claimer_runs;
    bool heart_runs;

    /* Under the lock. */
    bool ending;         /* handlers end when they are done */
    bool heart_ends;     /* so does the heart */
    uint32_t alive;      /* the claimer and handlers that are not done */
    bool troubled;       /* the store is out of reach */
    int64_t heart_until; /* the heart sleeps until then */
    bool registered;     /* the resource is */
    bool borrowed;       /* it is shared, and another's to renew and delete */
    int64_t renew_at;    /* and must be again; INT64_MAX: never */
    int64_t register_at; /* when it says again who it is; INT64_MAX: it claims no more */
    bool registering;    /* the heart is at it */
    bool is_listed;      /* it was registered once */
    long long done;
    struct pawl_error error; /* what ended the worker */
};

/* Fills in `error` (NULL is allowed) and returns the code. */
enum pawl_code worker_error(struct pawl_error *error, enum pawl_code code, const char *message);

/* Whether trying again may help. Tells the observer about trouble, and its end; takes the
 * lock. */
bool worker_may_retry(struct pawl_worker *worker, enum pawl_code code,
                      const struct pawl_error *error);

/* The pause before the next try, in ms: grows from one to the next. */
int64_t worker_pause(int64_t last_ms);

/* Waits for a condition until clock_monotonic_ms() is `at`, or a moment less. */
void worker_cond_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t at);

/* Starts a thread that takes no signals. */
bool worker_thread(pthread_t *ret, void *(*run)(void *arg), void *arg);

/* A batch in the making. */
struct worker_ops {
    struct arena arena;
    struct buf buf;
    struct json_writer writer;
    uint32_t count;
};

void worker_ops_init(struct worker_ops *ops);
void worker_ops_release(struct worker_ops *ops);

/* Begins an operation of that name; the caller adds members and calls json_end_object. */
void worker_op(struct worker_ops *ops, struct str name);

/* The same for the holder of a lease, with its token. */
void worker_op_lease(struct worker_ops *ops, struct str name, const char *token);

/* Sends it. `ret_answer` is for pawl_free. */
enum pawl_code worker_ops_send(struct pawl_worker *worker, struct worker_ops *ops,
                               char **ret_answer, struct pawl_error *error);

/* What came of the operation at that place of an answer: its code, and why; `ret_body` gets the
 * verb's answer. */
enum pawl_code worker_op_result(struct pawl_json answer, uint32_t at, struct pawl_json *ret_body,
                                struct pawl_error *error);

/* Adds a list of names to a request; nothing when there are none. PAWL_BAD_REQUEST: one is invalid.
 */
enum pawl_code worker_put_names(struct json_writer *writer, struct str key,
                                const char *const *names, size_t count, struct pawl_error *error);

/* ---- worker_resource.c ---- */

/* Writes down what the worker's resource is, if it has one. */
enum pawl_code worker_resource_make(struct pawl_worker *worker,
                                    const struct pawl_worker_options *options,
                                    struct pawl_error *error);

/* Registers it, or renews it. Without the lock. */
enum pawl_code worker_resource_put(struct pawl_worker *worker, struct pawl_error *error);
void worker_resource_delete(struct pawl_worker *worker);

/* ---- worker_registration.c ---- */

/* Writes down what the worker says of itself: `id` is that of its claims. */
enum pawl_code worker_registration_make(struct pawl_worker *worker, struct str id,
                                        const struct pawl_worker_options *options,
                                        struct pawl_error *error);

/* The heart registers the worker, or renews that, when it is time. Called and left with the lock
 * held, which is let go meanwhile. */
bool worker_registration_renew(struct pawl_worker *worker);

/* The worker claims no more: it is taken off the list. Without the lock. */
void worker_registration_end(struct pawl_worker *worker);

/* ---- worker_report.c ---- */

/* Stores what came of the task of `slot`, or gives up: PAWL_OK, or why. The outcome is changed into
 * the one that was stored, where the store refused it. With `more` asks for another task as well:
 * *ret_claim is its text, for pawl_free, or NULL. */
enum pawl_code worker_report(struct slot *slot, struct pawl_outcome *outcome, bool more,
                             char **ret_claim, struct pawl_error *error);

/* ---- worker_heart.c ---- */

/* The life of the heart. */
void *worker_heart(void *arg);

/* Begins to keep the lease of a task that was just claimed; under the lock. */
void worker_heart_begin(struct slot *slot);

/* The heart looks again, if it would sleep past `at`; under the lock. */
void worker_heart_poke(struct pawl_worker *worker, int64_t at);

/* Adds what a heartbeat says besides its token: progress that waits to be sent. Under the lock. */
void worker_heart_progress(const struct slot *slot, struct worker_ops *ops);

/* Forgets progress that waits. Under the lock. */
void worker_heart_forget(struct slot *slot);

#endif
