/* A fresh store with a fake clock for each test, and commands carried out in it: the smallest
 * engine that a store can have.
 *
 * Jobs are made by real decisions. Each command is one transaction: load all of the job, decide,
 * write what has changed, commit; and then the job is read again and must be what was written.
 * Tests that need to hold a transaction open use the pieces of which this is made.
 *
 * A job's goal is its name in texts: "a" for a job, "a.0" for its first step. */
#ifndef PAWL_TESTS_STORE_FIXTURE_H
#define PAWL_TESTS_STORE_FIXTURE_H

#include <stdatomic.h>

#include "core/scenario.h"
#include "store/store.h"

/* How to make a store of one sort, and what sets it apart. */
struct store_factory {
    const char *name;
    bool one_at_a_time; /* readers and writers exclude each other */
    bool one_writer;    /* writers exclude each other, whatever they write */
    enum error_code (*open)(void *arg, const struct store_options *options, struct store **ret,
                            struct err *err);
    void (*discard)(void *arg); /* after the store was closed */
    void *arg;
};

enum { TRIAL_JOBS_MAX = 1024, TRIAL_OPEN_MAX = 4 };

struct trial {
    const struct store_factory *factory;
    struct store *store;
    struct world w; /* for its arena, its random numbers and the token handed out last */
    _Atomic int64_t now;
    struct uuid ids[TRIAL_JOBS_MAX]; /* of the jobs, as they were submitted */
    struct str names[TRIAL_JOBS_MAX];
    uint32_t job_count;
    struct store_txn *open[TRIAL_OPEN_MAX]; /* rolled back in the end if a test fails */
};

/* What a command made of a job, before it is written. */
struct change {
    struct job_slice before; /* with all parts */
    struct job_slice after;
    struct event *events;
    uint32_t event_count;
    bool taken;          /* by a search, out of its lane */
    uint32_t taken_step; /* or this step of it; else STEP_NONE */
    bool redact;
    struct decision_result result;
};

/* For cmocka; the initial state is the factory. */
int trial_setup(void **state);
int trial_teardown(void **state);

/* ---- transactions ---- */

#define ok(t, ...) ok_(t, __VA_ARGS__, __FILE__, __LINE__)
void ok_(struct trial *t, enum error_code code, const char *file, int line);

struct store_txn *begin(struct trial *t, enum store_mode mode);

/* begin, and a load of nothing. */
struct store_txn *begin_empty(struct trial *t, struct store_load *ret_load);
void commit(struct trial *t, struct store_txn *txn);
void rollback(struct trial *t, struct store_txn *txn);

/* Loads one job with all its parts; the first verb of a transaction. */
struct job_slice load_whole(struct trial *t, struct store_txn *txn, struct uuid id);

/* The parts of a job that load has locked. */
struct job_slice load_rest(struct trial *t, struct store_txn *txn, const struct job_slice *header);

/* Decides on a slice that was loaded. */
enum error_code decide(struct trial *t, const struct job_slice *slice,
                       const struct command *command, struct change *ret);

/* What is to be written; `after` and lists are in the change or the trial's arena. */
struct store_job_write write_of(struct trial *t, struct change *change);

enum error_code write_one(struct trial *t, struct store_txn *txn, struct change *change);
enum error_code write_job(struct trial *t, struct store_txn *txn,
                          const struct store_job_write *job);

/* A write that must not be carried out: the code it is refused with, at once or at the latest by
 * commit (stores that send all of a batch at once hear of it then). The transaction is over. */
enum error_code refused_write(struct trial *t, struct store_txn *txn,
                              const struct store_write *write);

/* ---- one command in one transaction ---- */

#define act(t, id, ...) act_(t, id, __VA_ARGS__, __FILE__, __LINE__)
struct decision_result act_(struct trial *t, struct uuid id, struct command command,
                            const char *file, int line);

/* A job of kind "mail", or as the spec says, with that name. */
struct uuid submit(struct trial *t, const char *name);
struct uuid submit_spec(struct trial *t, const char *name, struct spec spec);
struct uuid submit_plan(struct trial *t, const char *name, const char *steps);

/* Searches all lanes, in one group. */
struct store_search search_all(struct trial *t, struct store_txn *txn, uint32_t max);

/* Claims by a search through all lanes; the name of what was found, "" for nothing. */
const char *claim_next(struct trial *t, const char *resource);

/* Writes things that are not jobs. */
void put_resource(struct trial *t, const char *id, int64_t expires_at);
void write_other(struct trial *t, const struct store_write *write);

/* ---- what is there ---- */

/* The job with all parts, in a transaction that reads. */
struct job_slice whole(struct trial *t, struct uuid id);

/* The job's row as text, parts included. */
struct str row_of(struct trial *t, const struct job_slice *slice);

#define assert_same_row(t, a, b) assert_same_row_(t, a, b, __FILE__, __LINE__)
void assert_same_row_(struct trial *t, const struct job_slice *a, const struct job_slice *b,
                      const char *file, int line);

/* Names of everything that can be claimed, in the order of a search through all lanes as one group:
 * "a b c.0". Nothing is taken. */
const char *ready(struct trial *t);

/* Everything that is due, as "a@5 c.0@10 purge:b@3 resource:r1@7", in seconds since the start. */
const char *due(struct trial *t);
const char *due_at_most(struct trial *t, uint32_t limit);
int64_t next_due(struct trial *t);

/* All counts of jobs, as "mail queued 2@0, mail running 1@3": how many, and since when, in seconds.
 */
const char *queues(struct trial *t);

/* Who holds leases, as "w1 2 beat 3 ends 33, w1/r1 1 beat 5 ends 35", in seconds. */
const char *workers(struct trial *t);

/* How many steps are in which state, as "pending 2, running 1". */
const char *step_counts(struct trial *t);

/* All resources, as "r1 1/10": used and slots. */
const char *resources(struct trial *t);

/* The names of the jobs in which somebody is asked, the newest first: "c a". */
const char *asking(struct trial *t);

/* The types of the job's events, as world_trace. */
const char *stream(struct trial *t, struct uuid id);

/* Everything in the store that a verb can show, as text; but for the numbers of lanes, which may be
 * given to lanes that then are not used. */
const char *everything(struct trial *t);

/* Waits until the feed shows all that was committed. On PostgreSQL every transaction that writes
 * holds it back, those of other databases of the server too. */
void settle_feed(struct trial *t);

const char *name_of(struct trial *t, struct uuid id, uint32_t step);
struct uuid new_id(struct trial *t);
uint32_t promote(struct trial *t, uint32_t limit);

/* `count` bytes of `c`. */
struct str filled(struct trial *t, char c, size_t count);

/* Later than the start, in seconds. */
static inline int64_t at(int64_t seconds)
{
    return WORLD_START_MS + seconds * 1000;
}

static inline void advance(struct trial *t, int64_t seconds)
{
    t->now += seconds * 1000;
}

#endif
