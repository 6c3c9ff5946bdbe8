/* A batch of operations as one transaction of a store: load once, decide each, write once, commit,
 * answer each.
 *
 * This is the only code that calls both core and store. An operation that is refused fails alone;
 * the others are carried out. In an atomic group it takes the rest of its group with it: the
 * transaction is rolled back, and what is not of that group is run again without it. When the store
 * refuses a batch as a whole it is run again, one operation at a time, so that one bad operation
 * cannot take others with it. */
#ifndef PAWL_ENGINE_BATCH_H
#define PAWL_ENGINE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "core/decide.h"
#include "core/lane.h"
#include "core/resource_owner.h"
#include "engine/observer.h"
#include "store/store.h"

enum {
    BATCH_OPS_MAX = 1000,
    CLAIM_MAX = 1000,
    CLAIM_BYTES_MAX =
        16 * 1024 * 1024, /* of payloads: a claim ends with the one that makes it so */
    OUTBOX_QUARANTINE_MAX = 256,
};

enum op_type {
    OP_COMMAND,         /* a command on the job `job` */
    OP_CLAIM,           /* find work and claim it */
    OP_TIMER_FIRED,     /* a job's or step's time has come: give it the command that is due */
    OP_PURGE,           /* delete a job that has been kept for long enough */
    OP_DROP,            /* delete a job that has ended, whenever it did */
    OP_REDACT,          /* erase the payloads of a job that has ended */
    OP_IMPORT,          /* take in a job with the history that it has elsewhere */
    OP_RESOURCE,        /* register or renew a resource */
    OP_RESOURCE_GONE,   /* forget it */
    OP_WORKER,          /* register a worker, or renew it */
    OP_WORKER_GONE,     /* forget it */
    OP_RESOURCE_FAILED, /* a step has failed for the sake of a resource */
    OP_KIND,            /* settings of a kind */
    OP_QUEUE,           /* pause or resume a queue */
    OP_TOKEN,           /* a new access token */
    OP_TOKEN_REVOKE,    /* an access token opens nothing any more */
    OP_ANSWERED,        /* nothing: only the request, which was carried out, with its response */
    OP_PROBE,           /* nothing but a record that takes the place of the last one: to see whether
                           a write succeeds */
};

/* Work that a claim was given. */
struct grant {
    const struct job_slice *slice; /* after the claim: the header, the step, its children */
    const struct step *step;       /* NULL: the job itself */
    struct decision_result result;
};

/* What the record under its key means for a request. */
enum disposition {
    DISPOSITION_NEW,       /* it has none: it is carried out, or refused for its own sake */
    DISPOSITION_REPEATED,  /* it was carried out before */
    DISPOSITION_CLASHED,   /* refused, since the key was used with another body */
    DISPOSITION_DUPLICATE, /* refused, since the same request is in the same batch: run it again */
    DISPOSITION_DISCLAIMS, /* the record is of a response that never arrived, and gives way */
};

/* A request that may come twice: `scope` absent when it has no Idempotency-Key. */
struct op_request {
    struct str scope;
    struct str key;
    uint8_t body_hash[HASH_LEN];
    /* Of the first operation of a call that history does not tell of (settings, redact): writes its
     * response, which is kept for repetitions. Asked within the transaction: it must not read the
     * store. Returns HTTP's status. Of jobs the record says what their operations came to
     * (core/request_memo.h), and engine/recall.h makes the response of that. */
    int (*render)(void *arg, struct buf *body);
    void *arg;
    /* Set: a lease in a response that never arrived. What is kept under the key, if it is of that
     * response, gives way to one without leases, or to nothing when nothing else was done, so that
     * the request is carried out anew when it comes again. */
    const struct token *lost;
    enum disposition disposition; /* out */
    struct str record;            /* out: of a repetition, what is kept of it */
    int status; /* of an operation that was recalled and has `render`: its response */
    struct str body;
};

/* A history from elsewhere, checked: its events, and what they fold to. */
struct job_import {
    struct job_slice slice; /* all of it, with its salt */
    struct event *events;   /* sealed */
    uint32_t count;
};

struct op {
    enum op_type type;
    bool same_request; /* belongs to the request of the operation before it; the first one has
                          the request's key */
    bool atomic_with_previous; /* committed with the operation before it or not at all, as far as
                                  the store can fail */
    bool atomic; /* the whole group of operations that are atomic_with_previous is done, or none of
                    it. When one is refused it keeps its code; the others get ERR_BATCH_REFUSED */
    struct uuid job; /* COMMAND, DUE, PURGE, DROP, REDACT, IMPORT; SUBMIT: the id of the new job */
    struct command command; /* COMMAND; for CLAIM the worker and its terms, as core wants them */
    bool keeps_id; /* SUBMIT: somebody has its id already: when its idempotency key is taken it
                      becomes a dead letter that says so, and not nothing; when it is refused, so
                      is the batch */
    const struct names *queues; /* only jobs of these queues, else forbidden; NULL: all */
    bool takes_kind;            /* SUBMIT: the settings of its kind are to be laid under the spec */
    int64_t ttl_ms; /* RESOURCE, WORKER: it lives so long from now on; 0: until its expires_at;
                       TOKEN: the same; 0: for ever */
    struct resource_claimant claimant; /* RESOURCE: whose it shall be */
    struct op_request request;
    union {
        struct {
            struct claimer claimer; /* resource is filled in from resource_id */
            struct str resource_id;
            uint32_t max;
            int64_t wait_ms;     /* the worker waits so long for work */
            const char *refusal; /* why no work is given out now; NULL: it is */
            bool looks;          /* out: at the registration of the worker */
            bool woken;          /* it waited, and somebody said that there is work for it */
            bool lost;           /* out: another claim of the batch took what it looked for */
        } claim;
        struct {
            uint32_t step;          /* ordinal, or STEP_NONE */
            int64_t at;             /* as store_due said */
            struct str resource_id; /* set: because this resource is lost, if it is */
        } timer;
        const struct resource *resource;
        struct {
            struct str id;
            bool if_expired; /* and not renewed meanwhile */
        } resource_gone;
        const struct worker *worker; /* WORKER */
        struct str worker_gone;      /* WORKER_GONE: its id */
        struct str failed_resource;  /* RESOURCE_FAILED */
        struct {
            struct store_kind *kind;  /* out: as it is now */
            struct str change;        /* RFC 7396; absent: `kind` has all of its settings */
            int64_t expected_version; /* -1: any */
        } kind;
        struct store_queue queue;
        struct access_token *token; /* its times are filled in; REVOKE: all but its id */
        const struct job_import *import;
        struct str response; /* ANSWERED: as engine/recall.h writes it */
        struct str probe;    /* PROBE: the key of its record, which nobody else has */
    };

    /* What came of it. */
    enum error_code code;
    struct err err;
    uint32_t refused_at; /* of operations that were refused together: which of them is to blame,
                            counted from the first; where `code` is not ok */
    struct decision_result result;
    const struct job_slice *after; /* the job that it is about, as far as it was loaded; NULL: none,
                                      or it was refused before */
    struct grant *grants;          /* CLAIM */
    uint32_t grant_count;
    bool met_outlived;          /* CLAIM: it found a job whose life was over, and ended it */
    struct resource registered; /* RESOURCE, RESOURCE_FAILED: as it is now */
    struct worker worker_now;   /* WORKER: as it is now; WORKER_GONE: as it was */
    bool cooldown;              /* RESOURCE_FAILED: its cooldown begins */
    int64_t free_at; /* CLAIM: the resource rests until then, by the store's time; 0: it does not */
};

static inline bool op_is_repeated(const struct op *op)
{
    return op->request.disposition == DISPOSITION_REPEATED;
}

/* Whether the history of jobs tells what the operation of a request came to. One that erases it
 * does not leave enough. */
static inline bool op_is_of_jobs(const struct op *op)
{
    return op->type == OP_COMMAND || op->type == OP_CLAIM;
}

/* Whether the record of a request has an entry for the operation. Those of a call that is not about
 * jobs have one together. */
static inline bool op_is_recorded(const struct op *op)
{
    return op_is_of_jobs(op) || op->request.render != NULL;
}

/* What a batch that was committed means for those who wait. */
struct wakeups {
    struct ready_lane *ready; /* lanes that got work which can be claimed now */
    uint32_t ready_count;
    uint32_t ready_cap;
    bool slots_freed;      /* resources may have room that they had not */
    bool locked_unclaimed; /* work that it had locked may stand in its lane as before */
    int64_t next_at; /* the earliest time that was set: something is due then; INT64_MAX: none */
    int64_t now;     /* the store's time */
};

struct ready_lane {
    struct lane lane; /* in the arena of the batch */
    struct str key;
    uint32_t count;
};

struct known_lane {
    uint32_t number;
    uint64_t taken_in; /* the last batch in which a claim found something here */
    struct lane lane;
};

/* Lanes as far as they are known, read once. */
struct lane_table {
    struct arena arena;
    struct known_lane *at; /* by number, rising */
    uint32_t count;
    uint32_t cap;
    uint64_t era;     /* in which their numbers mean these lanes */
    uint64_t batches; /* with claims, so far */
};

/* When the registration of each worker that claims is to be looked at again, so that a claim costs
 * neither a read nor a write most of the time. Bounded: what is forgotten is looked at once more.
 */
struct worker_table {
    struct arena arena;
    struct map index; /* id -> place in `look_at` */
    int64_t *look_at; /* by the store's time */
    uint32_t count;
    uint32_t cap;
};

/* Runs batches, one after the other; each thread has its own. */
struct batcher {
    struct store *store;
    void (*random)(void *arg, void *ret, size_t len);
    void *random_arg;
    int64_t lease_ttl_ms; /* see struct context */
    int64_t cancel_grace_ms;
    int64_t break_ms;   /* not having seen the store for so long is a break; 0: nothing is */
    int64_t seen_at;    /* the store's time when it was last seen */
    int64_t down_since; /* see struct context */
    int64_t up_since;
    int64_t trusted; /* the latest time that may be trusted (core/trusted_time.h); 0: any */
    uint32_t turn;   /* which queue is first in the next claim */
    struct lane_table lanes;
    struct worker_table workers;
    struct uuid
        quarantined[OUTBOX_QUARANTINE_MAX]; /* submissions that the store refuses in any form */
    uint32_t quarantined_count;
    int64_t quarantined_at;          /* since when, by the store's time */
    bool wrote;                      /* the last batch has written something */
    const struct observer *observer; /* NULL: nobody watches */
    struct wakeups wakeups; /* of the last batch, until the next one and as long as its arena */
};

/* `random` fills in bytes that nobody can guess; NULL: from the system. */
void batcher_init(struct batcher *batcher, struct store *store,
                  void (*random)(void *arg, void *ret, size_t len), void *random_arg);
void batcher_release(struct batcher *batcher);

/* Tells the store's time, as often as it is known: a break in it (the store was away, the clock
 * jumped, this process stood still) gives leases their grace. */
void batcher_see(struct batcher *batcher, int64_t now);

/* Runs `ops` and fills in what came of each. Answers live in `arena`. Returns ok when the batch was
 * committed, whatever came of each operation; else every operation has that code too, but for
 * ERR_BATCH_REFUSED: all of it was one atomic group, and one of its operations was refused.
 * `outcome` tells whether a batch that failed may have been carried out all the same. */
enum error_code batch_run(struct batcher *batcher, struct op *const *ops, uint32_t count,
                          struct arena *arena, enum store_outcome *outcome, struct err *err);

/* Moves work that is due into its lanes: at most `limit` pieces, in a transaction of its own. */
enum error_code batch_promote(struct batcher *batcher, uint32_t limit, uint32_t *ret_count,
                              struct err *err);

/* Makes jobs of what users have submitted inside their own transactions: at most `limit` jobs. What
 * cannot be taken as it is becomes a dead letter with the reason, whether the engine refuses it or
 * the store; what the store does not take as that either stays where it is, and holds nobody else
 * up. `limit` is at most BATCH_OPS_MAX / 2. */
enum error_code batch_drain_outbox(struct batcher *batcher, uint32_t limit, struct arena *arena,
                                   uint32_t *ret_count, struct err *err);

#endif
