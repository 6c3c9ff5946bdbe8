/* The contract of a store: what memory, SQLite and PostgreSQL promise alike.
 *
 * A store keeps events, and rows that are a fold of them. It knows no rule of the machines: core
 * decides what a job may do and where it stands, a store keeps it, finds it again, and lets nobody
 * else change it meanwhile. One suite (tests/store/conformance.c) is run against every store.
 *
 * A batch is one transaction:
 *
 *   begin -> load (locks) -> load_parts -> candidates -> ... decide ... -> write -> commit
 *
 * load comes first, once, with everything that is named; locks are taken in the order of ids, then
 * keys, then requests, then resources, then workers, and nothing else waits for a lock, so no two
 * batches can wait for each other. After load nothing that was loaded can be changed by others
 * until commit or rollback. A transaction that only reads takes no locks and sees one moment. When
 * any verb of a transaction fails the transaction is dead: only rollback is left, and nothing of it
 * will ever be seen. Nothing that was written is seen by others before commit has returned ok.
 *
 * Handles may be used from any number of threads; a transaction and the results of a call belong to
 * one thread. Memory that verbs return is in the arena that the caller passed, and what they are
 * given is copied before they return: no store keeps a view, and none hands one out.
 *
 * Errors, besides those named at each verb: unavailable (the store is out of reach, or the batch
 * lost a race that it must run again; nothing was done), no_memory (nothing was done), corrupt
 * (what is stored cannot be read). */
#ifndef PAWL_STORE_STORE_H
#define PAWL_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/access.h"
#include "core/event.h"
#include "core/job.h"
#include "core/lane.h"
#include "core/placement.h"
#include "core/request.h"
#include "core/resource.h"
#include "core/retention.h"
#include "core/spec.h"
#include "core/worker.h"

enum {
    STORE_LIST_MAX = 500,
    STORE_EVENTS_MAX = 1000,
    STORE_LANES_MAX = 100 * 1000, /* in one store at a time */
    STORE_LANES_FEW = 1000,       /* below this none is given back */
    STORE_WORKERS_MAX = 10 * 1000,
    STORE_RESOURCES_MAX = 10 * 1000,
    STORE_TOKENS_MAX = 10 * 1000,
};

/* A transaction that only reads takes no lock and may not write. Beginning one may wait until what
 * is committed can be read, which a transaction that writes can hold up: no thread should begin one
 * while it writes. */
enum store_mode { STORE_READ, STORE_WRITE };

/* Stands for the job itself where a step's ordinal could be. */
#define STEP_NONE UINT32_MAX

/* ---- opening ------------------------------------------------------------------------------ */

struct store_options {
    /* Milliseconds since 1970. NULL: the system's clock, or on PostgreSQL the database's. */
    int64_t (*clock)(void *arg);
    void *clock_arg;
    bool create;          /* make the store when it is not there; else not_found */
    bool migrate;         /* bring an older schema up to date; else it is refused (SQLite always
                             does, after a copy) */
    uint64_t seed;        /* for look-up tables */
    uint32_t connections; /* PostgreSQL: at most this many at once; 0: 4 */
    int64_t patience_ms;  /* how long to try before `unavailable`; 0: 30 s */
};

struct store;
struct store_txn;

/* Opens `memory:`, `sqlite:PATH` or `postgres://...` (also postgresql://). bad_request: the URL is
 * none of these; not_found: there is no store and create is false; unavailable: it is in use by
 * another process, out of reach, on a full disk, read-only, not a store of Pawl's, or of a version
 * that this binary may not use. The detail says which, and what to do. Nothing is harmed. */
enum error_code store_open(struct str url, const struct store_options *options, struct store **ret,
                           struct err *err);

/* Closes it. No transaction may be open and no other thread may be inside a verb. */
void store_close(struct store *store);

/* ---- what a transaction loads ------------------------------------------------------------- */

/* A job by its id. `slice` has the header only; its status is JOB_NONE when there is no such job.
 */
struct store_job {
    struct uuid id;
    struct job_slice slice; /* out */
    bool redacted;          /* out */
    struct str damaged; /* out, in a list: why the job cannot be read, and slice is that of none */
};

/* A job by its own idempotency key, which is unique in its queue. The key is locked whether or not
 * there is a job; the job is only read. */
struct store_key {
    struct str queue;
    struct str key;
    struct job_slice slice; /* out: the header, or JOB_NONE */
};

/* The record of a request by scope and key, which are locked. */
struct store_request {
    struct str scope;
    struct str key;
    bool found;                   /* out */
    struct request_record record; /* out */
};

/* A resource by id, which is locked; `used` is counted from the live leases on it. */
struct store_resource {
    struct str id;
    bool found;               /* out */
    struct resource resource; /* out */
};

/* The registration of a worker by its id, which is locked if store_load says so; also one whose
 * time is over. */
struct store_registration {
    struct str id;
    bool found;           /* out */
    struct worker worker; /* out */
};

struct store_kind {
    struct str kind;
    struct kind_settings settings;
};

/* Everything that a batch names. Each array is sorted (jobs by id, the others by their texts as
 * str_cmp orders them, in the order of the members) and has nothing twice. */
struct store_load {
    struct store_job *jobs;
    uint32_t job_count;
    struct store_key *keys;
    uint32_t key_count;
    struct store_request *requests;
    uint32_t request_count;
    struct store_resource *resources;
    uint32_t resource_count;
    struct store_registration *registrations;
    uint32_t registration_count;
    bool registrations_locked; /* no: they are only looked at, and nobody waits for them */

    /* Out: time, and what an operator has set, all as of this transaction. */
    int64_t now;
    struct store_kind *kinds; /* by kind */
    uint32_t kind_count;
    struct names paused; /* queues, sorted */
    uint64_t lanes_era;  /* another one than before: lanes were given back meanwhile, so that what
                            was known of them is to be forgotten */
};

/* All effects of one step, or (an absent one) of the job itself, open or not: the first `max` of
 * those with a later version than `after`. For transactions that only read, and beside no other
 * selection of effects. */
struct store_effects {
    bool wanted;
    struct str step;
    int64_t after;
    uint32_t max;
};

/* Parts of one job that load has locked (or, when only reading, of any). The first members say
 * which, the others are filled: effects and signals by version, steps by ordinal, nothing twice. */
struct store_parts {
    struct uuid job;

    bool all_steps;
    const uint32_t *ordinals; /* these steps and their children */
    uint32_t ordinal_count;
    const struct str *step_ids; /* these and their children */
    uint32_t step_id_count;
    const struct str *asking_keys; /* the steps whose open question has this key, and children */
    uint32_t asking_key_count;
    bool no_children; /* just the steps that are named */

    bool all_effects;
    bool all_open_effects;
    const struct str *open_of; /* open effects of these steps; an absent one: of the job itself */
    uint32_t open_of_count;
    const struct str *effect_names; /* as effect_name makes them */
    uint32_t effect_name_count;
    struct store_effects effects_of;

    bool all_signals;
    bool stored_signals;           /* all that are not delivered */
    const struct str *signal_keys; /* the newest and the oldest not delivered, of each */
    uint32_t signal_key_count;
    const struct str *signal_ids;
    uint32_t signal_id_count;

    struct step *steps; /* out */
    uint32_t step_count;
    struct effect *effects; /* out */
    uint32_t effect_count;
    struct signal *signals; /* out */
    uint32_t signal_count;
};

/* ---- finding work ------------------------------------------------------------------------- */

struct store_lane {
    uint32_t number; /* from 1 on, in the order in which lanes were first used in this era */
    struct str key;
};

/* A piece of work that may be claimed now. It is taken out of its lane: the caller writes it anew
 * with its placement after the claim, or puts it back, before commit. */
struct store_candidate {
    struct job_slice slice; /* the header */
    uint32_t step;          /* ordinal, or STEP_NONE */
    uint32_t lane;          /* where it stood */
};

enum { SKIPPED_COUNT_MAX = 16 };

/* One search: at most `max` pieces from lanes that stand in groups. Within a group work comes in
 * the order of priority (higher first), run_at, job id, step; groups take turns, the first group
 * first. Work that another transaction is busy with is passed over. */
struct store_search {
    const uint32_t *lanes;      /* numbers, group by group */
    const uint32_t *group_ends; /* index in `lanes` one past the last of each group */
    uint32_t group_count;
    uint32_t max;
    struct store_candidate *found; /* out */
    uint32_t found_count;          /* out */
    bool left;                     /* out: more was locked than was found, and is left there */
    uint32_t skipped_locked;       /* out, when nothing was found: heads of these lanes that another
                                      transaction was busy with, SKIPPED_COUNT_MAX at most */
};

/* ---- what a transaction writes ------------------------------------------------------------ */

struct store_step_write {
    const struct step *step;
    uint8_t changed;      /* enum changed: as for jobs */
    struct placement was; /* as loaded; zeroed for a new step, and `lane` absent when candidates
                             took it out */
    struct placement now;
};

/* One job and what became of it. */
struct store_job_write {
    const struct job_slice *after;
    const struct event *events; /* sealed; with versions that go on from the last, or telemetry */
    uint32_t event_count;
    bool created;         /* there is no row yet */
    uint8_t changed;      /* enum changed: members of no other group are as they are stored, so that
                             nothing needs to be compared; CHANGED_ALL for a new job. A heartbeat's
                             is within CHANGED_BESIDE, a claim's CHANGED_STREAM | CHANGED_LEASE */
    struct placement was; /* as for steps */
    struct placement now;
    int64_t purge_at; /* 0: never */

    /* Parts that are new or have changed. */
    const struct effect *const *effects;
    uint32_t effect_count;
    const struct signal *const *signals;
    uint32_t signal_count;
    const struct store_step_write *steps;
    uint32_t step_count;

    bool plan_replaced; /* all steps that there were are gone, with their placements */
    bool steps_closed;  /* no step that is not listed may be claimed from now on */
    bool steps_ended;   /* nor has one a lease or a due time */
    bool redact;        /* erase the payloads of all events, telemetry, effects and signals, and the
                           salt; `after` has been through job_redact */
};

/* Whether the row of a job or step stays as it is: only its live lease, if it has one, and its
 * placement are written. */
static inline bool store_row_same(uint8_t changed)
{
    return (changed & ~CHANGED_BESIDE) == 0;
}

struct store_queue {
    struct str queue;
    bool paused;
};

/* Everything that a batch changes. Nothing is there twice. */
struct store_write {
    const struct store_job_write *jobs; /* by id, rising */
    uint32_t job_count;
    const struct request_record *requests; /* take the place of an older one */
    uint32_t request_count;
    const struct resource *resources; /* registered or renewed */
    uint32_t resource_count;
    const struct str *resources_gone; /* ids */
    uint32_t resource_gone_count;
    const struct worker *registrations; /* registered or renewed */
    uint32_t registration_count;
    const struct str *registrations_gone; /* ids */
    uint32_t registration_gone_count;
    /* Prolonged: of one that is there expires_at alone is written, if it is later. Who is busy with
     * a registration is not waited for. */
    const struct worker *renewals;
    uint32_t renewal_count;
    const struct store_kind *kinds; /* all zero: nothing is set any more */
    uint32_t kind_count;
    const struct store_queue *queues;
    uint32_t queue_count;
    /* New, or to be revoked: of one that is there nothing else changes, and not when it is revoked
     * already. */
    const struct access_token *tokens;
    uint32_t token_count;
    const struct uuid *tokens_gone; /* to delete; those that are not there do not matter */
    uint32_t token_gone_count;
    const struct uuid *purged; /* jobs to delete, which load has locked; (id, version, head) stays
                                  for PURGED_KEPT_MS */
    uint32_t purged_count;
};

enum store_outcome {
    STORE_COMMITTED,     /* durable */
    STORE_NOT_COMMITTED, /* certainly not: run it again */
    STORE_UNKNOWN,       /* the store went away and did not come back in time to ask it */
};

/* ---- timers ------------------------------------------------------------------------------- */

enum store_due_what {
    DUE_JOB,      /* placement.due_at of a job or step has come */
    DUE_PURGE,    /* purge_at of a job has come */
    DUE_RESOURCE, /* expires_at of a resource has come */
};

struct store_due {
    enum store_due_what what;
    int64_t at;
    struct uuid job;
    uint32_t step; /* ordinal, or STEP_NONE */
    struct str resource_id;
};

/* Orders what is due, the oldest first, for drivers: two struct store_due. */
int store_due_cmp(const void *a, const void *b);

/* Somebody looks after the store. */
struct store_attendance {
    int64_t trusted; /* to remember with the moment (core/trusted_time.h); 0: nothing is noted */
    int64_t before;  /* out: the store's time when that was last noted; 0: never */
    int64_t trusted_before; /* out: and what was trusted then, cut to seconds; 0: not known */
    int64_t now;            /* out: the store's time, */
    int64_t wall;           /* out: and what its clock says, which is less after it was set back */
};

/* ---- reading ------------------------------------------------------------------------------ */

/* What to list; what is not set does not matter. */
struct store_filter {
    struct uuid id;    /* this one only; all zero: any */
    uint32_t statuses; /* bit per enum job_status; 0: any */
    struct str kind;
    struct str queue;
    const struct names *queues; /* one of these; NULL: any */
    struct str agent_id;
    struct str correlation_id;
    struct uuid correlation_job; /* or this job, if it has no correlation id; all zero: none */
    struct str label_key;        /* with this value */
    struct str label_value;
    int64_t created_after;               /* ms; later than this */
    enum dead_letter_reason reason_code; /* of a dead letter */
    bool asking;                         /* only those in which somebody is asked: job_asks */
    struct uuid before; /* cursor: only jobs with a smaller id; all zero: from the newest */
    uint32_t limit;     /* 1..STORE_LIST_MAX */
};

/* Part of a job's stream. */
struct store_stream {
    struct uuid job;
    int64_t after;  /* a version; for telemetry a time in ms */
    uint32_t limit; /* 1..STORE_EVENTS_MAX */
    bool telemetry;
    struct str type; /* only events of this name; absent: all */
};

/* The step leases on a resource, for when it is lost. */
struct store_lease {
    struct uuid job;
    uint32_t step;
};

/* How many jobs of a queue have a status; there is none for a status that no job has. */
struct store_queue_count {
    struct str queue;
    enum job_status status;
    int64_t count;     /* at least 1 */
    int64_t oldest_at; /* the smallest created_at of them */
};

/* The live leases that a worker holds, apart for each resource that they are on. Live is what has
 * not been ended, also when its time is over and nobody has seen to it yet. */
struct store_worker {
    struct str worker_id;
    struct str resource_id; /* absent: on none */
    int64_t leases;         /* at least 1 */
    int64_t beat_at;        /* the latest of them */
    int64_t expires_at;     /* the earliest of them */
};

/* An access token by its hash or, without one, by its id; and the store's time. */
struct store_token {
    const uint8_t *hash; /* HASH_LEN bytes */
    struct uuid id;
    bool found;                /* out */
    struct access_token token; /* out */
    int64_t now;               /* out */
};

/* A place in the feed of all events. Positions are opaque and grow; all zero is the beginning. */
struct store_position {
    uint64_t major;
    uint64_t minor;
    uint64_t era; /* which life of the store it is of; 0: the first, or not told */
};

/* Whether somebody who has read the feed up to a position can go on there. */
struct store_feed_state {
    uint64_t era;               /* of positions that are given out now */
    bool is_reset;              /* no: events before it may have been lost since, or never were */
    struct store_position from; /* then: nothing up to here was lost */
};

struct store_fed {
    struct event event; /* not opened */
    struct store_position position;
};

/* Work in a lane that does not exist. */
struct store_stray {
    uint32_t lane;
    uint64_t count;  /* pieces of work in it */
    struct uuid job; /* one of them */
    uint32_t step;   /* ordinal, or STEP_NONE */
};

/* Where a store is that can be replaced by another one at the same URL. */
struct store_origin {
    uint64_t generation; /* store.generation */
    int64_t timeline;    /* of PostgreSQL; 0: not known */
    uint64_t refused;    /* how often a connection was, since it led to another store */
    char refusal[480];   /* why the last one was; "": none was */
};

/* ---- transactional enqueue ---------------------------------------------------------------- */

/* A job that a user put in with a transaction of theirs (PostgreSQL's pawl_submit). The options say
 * everything, with the queue and the key, which are also here: they passed as names. */
struct store_submission {
    struct uuid id;
    struct str kind;
    struct str queue;
    struct str idempotency_key;
    struct str payload; /* raw JSON, not checked */
    struct str options; /* raw JSON, not checked */
};

/* Which submissions to take: the oldest, but for some that are left where they are. */
struct store_admission {
    uint32_t limit;
    const struct uuid *left;
    uint32_t left_count;
};

/* ---- the verbs ---------------------------------------------------------------------------- */

struct store_driver {
    const char *name;

    void (*close)(struct store *store);

    /* Starts a transaction. It may wait for its turn, up to the store's patience. */
    enum error_code (*begin)(struct store *store, enum store_mode mode, struct store_txn **ret,
                             struct err *err);

    /* Locks (in a transaction that may write) and reads everything in `load`; before any other verb
     * of the transaction but admit, and only once. */
    enum error_code (*load)(struct store_txn *txn, struct store_load *load, struct arena *arena,
                            struct err *err);

    /* Reads parts of jobs that load has locked or candidates has found. */
    enum error_code (*load_parts)(struct store_txn *txn, struct store_parts *parts, uint32_t count,
                                  struct arena *arena, struct err *err);

    /* All lanes numbered above `after`, by number; those of other transactions that have committed,
     * and this one's. */
    enum error_code (*lanes)(struct store_txn *txn, uint32_t after, struct arena *arena,
                             struct store_lane **ret, uint32_t *ret_count, struct err *err);

    /* Finds work, locks it and takes it out of its lane. Nothing is found twice in a
     * transaction. */
    enum error_code (*candidates)(struct store_txn *txn, struct store_search *searches,
                                  uint32_t count, struct arena *arena, struct err *err);

    /* Moves at most `limit` pieces of work whose run_at has come into their lanes, the oldest
     * first. After a commit nothing that is due is left out if `ret_count` is below the limit. */
    enum error_code (*promote)(struct store_txn *txn, uint32_t limit, uint32_t *ret_count,
                               struct err *err);

    /* Takes committed submissions, which are gone with this transaction. A store that has none
     * gives none. */
    enum error_code (*admit)(struct store_txn *txn, const struct store_admission *wanted,
                             struct arena *arena, struct store_submission **ret,
                             uint32_t *ret_count, struct err *err);

    /* Writes. Once in a transaction, after everything else. version_mismatch: an event's version is
     * there already (whoever calls did not load); it may also come from commit, with
     * NOT_COMMITTED. */
    enum error_code (*write)(struct store_txn *txn, const struct store_write *write,
                             struct err *err);

    /* Ends the transaction; the handle is gone whatever comes back. `outcome` is always set;
     * COMMITTED exactly when the code is ok. */
    enum error_code (*commit)(struct store_txn *txn, enum store_outcome *outcome, struct err *err);
    void (*rollback)(struct store_txn *txn);

    /* What is due at the store's time, the oldest first, at most `limit` of each sort; without
     * locks: others may be at it. `ret_now` is the store's time, `ret_next` when the next thing
     * will be due, or earlier when that is not certain (INT64_MAX: nothing is); work to promote
     * counts, also when its time has come. */
    enum error_code (*due)(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err);

    /* Jobs that pass the filter, the newest first: headers. */
    enum error_code (*list)(struct store_txn *txn, const struct store_filter *filter,
                            struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                            struct err *err);

    /* The job's events behind `after`, by version, not opened; or its telemetry, by time, with
     * the version that the job had (0: it was written before that was kept). */
    enum error_code (*events)(struct store_txn *txn, const struct store_stream *stream,
                              struct arena *arena, struct event **ret, uint32_t *ret_count,
                              struct err *err);

    /* Events of all jobs behind `after`, in the order of their commits, at most `limit`. Once a
     * position was given out, nothing will ever come to stand before it. */
    enum error_code (*feed)(struct store_txn *txn, struct store_position after, uint32_t limit,
                            struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                            struct err *err);

    /* Says whether the events up to `after`, which is nobody's claim but the caller's, are those
     * that were given out. The beginning never is reset. */
    enum error_code (*feed_state)(struct store_txn *txn, struct store_position after,
                                  struct store_feed_state *ret, struct err *err);

    /* Waits until something was committed since `seen` (any number at first), or `wait_ms` are
     * over. `ret_seen` is for the next call. It may come back without cause. */
    enum error_code (*watch)(struct store *store, uint64_t seen, int64_t wait_ms,
                             uint64_t *ret_seen, struct err *err);

    /* The same, but what this handle has committed itself is no reason to come back. NULL: it is
     * told of with the rest. */
    enum error_code (*watch_others)(struct store *store, uint64_t seen, int64_t wait_ms,
                                    uint64_t *ret_seen, struct err *err);

    /* The live step leases on a resource. */
    enum error_code (*leases_on)(struct store_txn *txn, struct str resource_id, struct arena *arena,
                                 struct store_lease **ret, uint32_t *ret_count, struct err *err);

    /* Counts all jobs, by queue and status, in the order of the queues' names and then of the
     * statuses' numbers. It looks at every job, though only in an index. A queue without jobs is
     * not there; which are paused, load says. */
    enum error_code (*queues)(struct store_txn *txn, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err);

    /* Who holds live leases on jobs of these queues (NULL: of any), by worker_id, then
     * resource_id, those on none first; at most STORE_WORKERS_MAX. */
    enum error_code (*workers)(struct store_txn *txn, const struct names *queues,
                               struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                               struct err *err);

    /* All registrations of workers, by id, as load gives them; at most WORKERS_MAX. */
    enum error_code (*registrations)(struct store_txn *txn, struct arena *arena,
                                     struct worker **ret, uint32_t *ret_count, struct err *err);

    /* How many they are. */
    enum error_code (*registration_count)(struct store_txn *txn, int64_t *ret, struct err *err);

    /* Counts the steps of all plans by state, also those of jobs that have ended. It looks at every
     * step. */
    enum error_code (*step_counts)(struct store_txn *txn, int64_t ret[STEP_STATE_COUNT],
                                   struct err *err);

    /* All resources, by id, as load gives them; at most STORE_RESOURCES_MAX. */
    enum error_code (*resources)(struct store_txn *txn, struct arena *arena, struct resource **ret,
                                 uint32_t *ret_count, struct err *err);

    /* Finds an access token. Nothing is locked. */
    enum error_code (*token)(struct store_txn *txn, struct store_token *token, struct arena *arena,
                             struct err *err);

    /* All access tokens, also those that open nothing any more, by id; at most
     * STORE_TOKENS_MAX. */
    enum error_code (*tokens)(struct store_txn *txn, struct arena *arena, struct access_token **ret,
                              uint32_t *ret_count, struct err *err);

    /* Copies a store in a file to a new file at `path`, as of the moment of the call, while it is
     * in use; writers go on meanwhile. The copy is a store of its own. It is there only when it is
     * complete and on the disk, or not at all, and takes the place of nothing. `ret_bytes` is its
     * size. bad_request: this store is in no file (the detail says what to do instead), there is
     * something at `path` already, or there can be no file; unavailable: it could not be written
     * (a full disk, for one). A path that is not absolute is that of this process. */
    enum error_code (*backup)(struct store *store, struct str path, int64_t *ret_bytes,
                              struct err *err);

    /* Deletes at most `limit` records, together, that are older at `now` than they are kept:
     * requests and telemetry (24 hours), what was left of deleted jobs (PURGED_KEPT_MS), and
     * registrations of workers whose time is over (WORKER_KEPT_MS). The
     * store's own time does not count: the caller says which time can be trusted. `ret_count` says
     * how many. When there are twice as many lanes as were needed the last time, those in which
     * nothing stands are given back, which begins another era: their numbers mean nothing any more,
     * or something else. */
    enum error_code (*sweep)(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err);

    /* Notes that somebody looks after the store, tells the time, and when that was noted last
     * before. Nothing is synced: when the machine crashes an older note may be left. */
    enum error_code (*attend)(struct store *store, struct store_attendance *attendance,
                              struct err *err);

    /* Work in lanes that do not exist, by lane. NULL: there can be none. */
    enum error_code (*strays)(struct store *store, struct arena *arena, struct store_stray **ret,
                              uint32_t *ret_count, struct err *err);

    /* Puts all work of a lane that does not exist into the lane with that key. With `strays`. */
    enum error_code (*mend)(struct store *store, uint32_t lane, struct str key, struct err *err);

    /* Says where the store is. NULL: nobody can replace it. */
    void (*origin)(struct store *store, struct store_origin *ret);
};

/* Every driver's handle begins with this. */
struct store {
    const struct store_driver *driver;
    struct store_options options;
    int64_t schema_version; /* as it is; 0: this store has no schema */
    int64_t schema_found;   /* as it was before it was opened; 0: there was none */
    bool shared;            /* other processes may change it too */
    struct str home;        /* the directory of its file, absolute and without links; absent: it has
                               no file */
    /* Counts up when what was read before may not be true any more, since another store is at the
     * same URL: a failover that lost something, or a restore. */
    _Atomic uint64_t generation;
};

/* Every driver's transaction begins with this. */
struct store_txn {
    struct store *store;
    enum store_mode mode;
};

/* Verbs as functions: they check what the contract asks of callers, then call the driver. */
enum error_code store_begin(struct store *store, enum store_mode mode, struct store_txn **ret,
                            struct err *err);
enum error_code store_load(struct store_txn *txn, struct store_load *load, struct arena *arena,
                           struct err *err);
enum error_code store_load_parts(struct store_txn *txn, struct store_parts *parts, uint32_t count,
                                 struct arena *arena, struct err *err);
enum error_code store_lanes(struct store_txn *txn, uint32_t after, struct arena *arena,
                            struct store_lane **ret, uint32_t *ret_count, struct err *err);
enum error_code store_candidates(struct store_txn *txn, struct store_search *searches,
                                 uint32_t count, struct arena *arena, struct err *err);
enum error_code store_promote(struct store_txn *txn, uint32_t limit, uint32_t *ret_count,
                              struct err *err);
enum error_code store_admit(struct store_txn *txn, const struct store_admission *wanted,
                            struct arena *arena, struct store_submission **ret, uint32_t *ret_count,
                            struct err *err);
enum error_code store_write(struct store_txn *txn, const struct store_write *write,
                            struct err *err);
enum error_code store_commit(struct store_txn *txn, enum store_outcome *outcome, struct err *err);
void store_rollback(struct store_txn *txn);
enum error_code store_due(struct store *store, uint32_t limit, struct arena *arena,
                          struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                          int64_t *ret_next, struct err *err);
enum error_code store_list(struct store_txn *txn, const struct store_filter *filter,
                           struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                           struct err *err);
enum error_code store_events(struct store_txn *txn, const struct store_stream *stream,
                             struct arena *arena, struct event **ret, uint32_t *ret_count,
                             struct err *err);
enum error_code store_feed(struct store_txn *txn, struct store_position after, uint32_t limit,
                           struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                           struct err *err);
enum error_code store_feed_state(struct store_txn *txn, struct store_position after,
                                 struct store_feed_state *ret, struct err *err);
enum error_code store_watch(struct store *store, uint64_t seen, int64_t wait_ms, uint64_t *ret_seen,
                            struct err *err);
enum error_code store_watch_others(struct store *store, uint64_t seen, int64_t wait_ms,
                                   uint64_t *ret_seen, struct err *err);
enum error_code store_leases_on(struct store_txn *txn, struct str resource_id, struct arena *arena,
                                struct store_lease **ret, uint32_t *ret_count, struct err *err);
enum error_code store_queues(struct store_txn *txn, struct arena *arena,
                             struct store_queue_count **ret, uint32_t *ret_count, struct err *err);
enum error_code store_workers(struct store_txn *txn, const struct names *queues,
                              struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                              struct err *err);
enum error_code store_registrations(struct store_txn *txn, struct arena *arena, struct worker **ret,
                                    uint32_t *ret_count, struct err *err);
enum error_code store_registration_count(struct store_txn *txn, int64_t *ret, struct err *err);
enum error_code store_step_counts(struct store_txn *txn, int64_t ret[STEP_STATE_COUNT],
                                  struct err *err);
enum error_code store_resources(struct store_txn *txn, struct arena *arena, struct resource **ret,
                                uint32_t *ret_count, struct err *err);
enum error_code store_token(struct store_txn *txn, struct store_token *token, struct arena *arena,
                            struct err *err);
enum error_code store_tokens(struct store_txn *txn, struct arena *arena, struct access_token **ret,
                             uint32_t *ret_count, struct err *err);
enum error_code store_backup(struct store *store, struct str path, int64_t *ret_bytes,
                             struct err *err);
enum error_code store_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                            struct err *err);
enum error_code store_attend(struct store *store, struct store_attendance *attendance,
                             struct err *err);
void store_origin(struct store *store, struct store_origin *ret);
enum error_code store_strays(struct store *store, struct arena *arena, struct store_stray **ret,
                             uint32_t *ret_count, struct err *err);
enum error_code store_mend(struct store *store, uint32_t lane, struct str key, struct err *err);

/* For drivers: with more lanes than this it is worth to look for those that may be given back, when
 * `left` were left the last time. */
uint32_t store_lanes_many(uint32_t left);

#endif
