/* What the files of a batch share: the jobs it works on, from load to write. Private to
 * src/engine/batch*.c. */
#ifndef PAWL_ENGINE_BATCH_PRIVATE_H
#define PAWL_ENGINE_BATCH_PRIVATE_H

#include "base/map.h"
#include "core/schedule_entry.h"
#include "engine/batch.h"

enum { RANDOM_BYTES = 4096, RANDOM_FIRST = 256 };

/* A timer that the engine moves by itself: no event comes of it. */
struct retiming {
    bool set;
    int64_t was;     /* 0: kept with the lease, wherever it stands */
    int64_t now;     /* holds as long as no event has come after it */
    uint32_t events; /* of the job, when it was set */
};

/* A step that was taken out of its lane by a search, or whose timer moves. */
struct step_mark {
    uint32_t ordinal;
    bool taken;
    struct retiming retiming;
};

/* One job of a batch. */
struct batch_job {
    struct job_slice *before; /* as loaded, with the parts that were */
    struct job_slice *now;    /* with the events of this batch folded in */
    /* What operations may keep: the job as the last command left it, with the steps that it was
     * about. NULL: `now` itself, which is not changed in place then. Else `now` and its steps are
     * the batch's alone. */
    const struct job_slice *shown;
    struct event *events;
    uint32_t event_count;
    uint32_t event_cap;
    bool taken; /* out of its lane by a search */
    struct retiming retiming;
    struct step_mark *marks;
    uint32_t mark_count;
    uint32_t mark_cap;
    bool redact;
    bool purge;
    bool redate; /* it is to be deleted at another time than its row says */
};

/* What becomes of the registration of a worker. */
enum registration_fate {
    REGISTRATION_SAME,
    REGISTRATION_NEW,
    REGISTRATION_PUT, /* it was there, with what was said before */
    REGISTRATION_RENEWED,
    REGISTRATION_GONE
};

struct batch {
    struct batcher *batcher;
    struct store_txn *txn;
    struct arena *arena;
    struct err *err;
    struct op *const *ops;
    uint32_t op_count;
    struct store_load load;
    struct batch_job *jobs; /* those that were named, by id; then those that searches found */
    uint32_t job_count;
    uint32_t job_cap;
    struct map index; /* id as 16 bytes -> place in jobs */
    struct store_search *searches;
    bool searched;        /* the store was asked for work, with at least one search */
    uint32_t new_count;   /* jobs that were made, and not claimed; at most so many can be */
    uint32_t new_first;   /* none of them stands before this place of `jobs` */
    int64_t new_priority; /* of the first that was made; */
    bool new_ranked;      /* others have other priorities */
    uint32_t claim_conflicts;
    bool tokens_sorted; /* what follows is known */
    uint32_t tokens_live;
    struct uuid *tokens_gone; /* access tokens to delete */
    uint32_t token_gone_count;
    enum registration_fate *fates; /* of load.registrations */
    bool workers_counted;          /* how many are registered is known */
    int64_t worker_count;
    struct worker *registered; /* all that were before the batch; NULL: not asked for yet */
    uint32_t registered_count;
    uint8_t random[RANDOM_BYTES]; /* got at once, since each call is dear: a few at first, */
    uint32_t random_len;          /* for a batch may be small */
    uint32_t random_used;
};

/* A command that is going to be decided on a job, so that its parts can be loaded. */
struct intent {
    struct batch_job *job;
    const struct command *command;
    uint32_t step; /* ordinal where the command does not say which; else STEP_NONE */
};

enum error_code batch_no_memory(struct batch *batch);

/* The job of that id; NULL when it is not in the batch. */
struct batch_job *batch_job_find(struct batch *batch, struct uuid id);

/* Makes room for so many more jobs. The array may move. */
enum error_code batch_jobs_reserve(struct batch *batch, uint32_t count);

/* Adds a job that was loaded, for which there is room. `slice` stays where it is. */
enum error_code batch_job_add(struct batch *batch, struct job_slice *slice, struct batch_job **ret);

/* A copy in the arena of the batch, to be changed; NULL: no memory. Its parts are shared. */
struct job_slice *batch_slice_copy(struct batch *batch, const struct job_slice *slice);

/* The mark of a step, made if missing; NULL: no memory. */
struct step_mark *batch_step_mark(struct batch *batch, struct batch_job *job, uint32_t ordinal);

/* The settings of a kind; NULL: there are none. */
const struct kind_settings *batch_kind(const struct batch *batch, struct str kind);

/* The moment of the batch, and the last break. */
/* The time to go by where a mistake could not be taken back. */
int64_t batch_trusted(const struct batch *batch);

struct context batch_times(const struct batch *batch);

/* What a decision at this moment may depend on, with fresh random bytes. */
struct context batch_context(struct batch *batch, const struct job *job);

/* Runs the operations in a transaction that is open, and ends it. */
enum error_code batch_run_in(struct batcher *batcher, struct store_txn *txn, struct op *const *ops,
                             uint32_t count, struct arena *arena, enum store_outcome *outcome,
                             struct err *err);

/* Names everything that the operations name, sorted, in batch->load. */
enum error_code batch_collect(struct batch *batch);

/* Loads the parts that the commands need, for all of them together. */
enum error_code batch_load_parts(struct batch *batch, const struct intent *intents, uint32_t count);

/* Loads the parts that the operations on named jobs need. */
enum error_code batch_load_named(struct batch *batch);

/* Loads what the waking of steps that have just begun to wait needs. */
enum error_code batch_load_waits(struct batch *batch, struct batch_job *job,
                                 const uint32_t *ordinals, uint32_t count);

/* The step that a command is about, among those that are loaded; NULL: it is about no single one.
 */
const struct step *batch_step_of(const struct job_slice *slice, const struct command *command);

/* The job with that step and its children alone, so that a thousand commands on the steps of one
 * job do not copy a thousand steps each. They are copies: what is decided on them changes nothing
 * of `slice`. */
enum error_code batch_narrow_steps(struct batch *batch, const struct job_slice *slice,
                                   const struct step *step, struct job_slice *ret);

/* The way back, when a command was decided on that: `narrow` is shown from now on, and the steps of
 * `now` are made the batch's own, once, and changed in place. */
enum error_code batch_widen_steps(struct batch *batch, struct batch_job *job,
                                  const struct job_slice *narrow);

/* The job is as it was loaded. */
void batch_job_reset(struct batch_job *job);

/* What an operation may keep of the job: nothing that comes later in the batch changes it. */
const struct job_slice *batch_job_view(const struct batch_job *job);

/* The job with no more of its parts than the waking of a step needs, so that waking a thousand
 * steps does not copy a thousand steps each time; and the way back. Effects are left alone. */
enum error_code batch_narrow(struct batch *batch, const struct batch_job *job, uint32_t ordinal,
                             struct job_slice *ret);
void batch_widen(struct batch_job *job, const struct job_slice *narrow);

/* The idempotency key of a new job as load has found it; NULL: it has none. Its slice is the job
 * that has the key, stored or of this batch. */
struct store_key *batch_key(struct batch *batch, const struct spec *spec);

/* The record under a request's key; NULL: it has no key. */
const struct store_request *batch_request(struct batch *batch, const struct op_request *request);

/* Finds the operations whose requests were carried out before, and refuses those whose keys clash
 * and claims that are refused in any case. */
enum error_code batch_check_requests(struct batch *batch);

/* Adds the records of requests that were carried out. Those that were refused have none. */
enum error_code batch_write_requests(struct batch *batch, struct store_write *write);

/* Gives new jobs the settings of their kinds. Those that stand or fall together are refused
 * together. */
enum error_code batch_apply_kind_defaults(struct batch *batch);

/* A submission was refused: takes back what was made of those that stand or fall together with it,
 * of which nothing is written yet, and refuses them all. */
void batch_take_back(struct batch *batch, uint32_t culprit);

/* Before the first of several submissions that stand or fall together is carried out: refuses all
 * of them when the idempotency key of one belongs to another job. */
enum error_code batch_check_keys(struct batch *batch, uint32_t index);

/* Carries one operation out. What is wrong with it alone is in its code. */
enum error_code batch_execute(struct batch *batch, uint32_t index);

/* Tells load where the claims of the batch will probably look for work: in the lanes that are
 * known, whatever has been paused since. Claims of steps are left out, since their resources are
 * not loaded yet. */
enum error_code batch_look_ahead(struct batch *batch);

/* Finds work for every claim of the batch, and adds it to the jobs. */
enum error_code batch_search(struct batch *batch);

/* Gives what was found for a claim to it. */
enum error_code batch_claim(struct batch *batch, struct op *op, struct store_search *search);

/* A job was made by this batch: claims of the batch that come after it may have it. */
void batch_note_new(struct batch *batch, const struct job *job);

/* Gives jobs to a claim that this batch has made, as far as it may have more than was found. */
enum error_code batch_claim_new(struct batch *batch, struct op *op);

/* Decides a command on a job and folds what comes of it into the job. A refusal is told through
 * `ret_refusal` and op's own err; the code returned is about the batch. */
enum error_code batch_decide(struct batch *batch, struct batch_job *job,
                             const struct command *command, struct decision_result *ret_result,
                             enum error_code *ret_refusal, struct err *refusal);

/* The resource that load has found; NULL if missing. */
struct resource *batch_resource(struct batch *batch, struct str id);

/* Has what follows in the batch find the resource as it is now; its id was loaded. */
void batch_resource_put(struct batch *batch, const struct resource *resource);

/* ---- batch_worker.c ---- */

/* Whether the registration of a worker that claims should be looked at. */
bool batch_worker_looks(const struct batcher *batcher, struct str id, int64_t wait_ms);

/* Registers a worker, or renews it; forgets one. */
enum error_code batch_register(struct batch *batch, struct op *op);
enum error_code batch_deregister(struct batch *batch, struct op *op);

/* A worker has claimed: prolongs its registration, if it has one and it is time. */
void batch_renew_worker(struct batch *batch, const struct op *op);

/* Adds what has become of registrations. */
enum error_code batch_write_workers(struct batch *batch, struct store_write *write);

/* After a commit: remembers when to look at each registration again. Without memory it is looked at
 * with the next claim. */
void batch_note_workers(struct batch *batch);

/* Work came to stand in a lane: claims that wait for it are to be woken. Nothing depends on this
 * but how soon they look, so that a lane for which there is no memory is left out. */
void batch_note_ready(struct batch *batch, struct str key);

/* Writes everything that has changed. */
enum error_code batch_write(struct batch *batch);

#endif
