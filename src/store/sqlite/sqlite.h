/* What the parts of the SQLite store share; no one else includes this.
 *
 * There is one connection that writes, used by one transaction at a time, and a few that read, each
 * with a snapshot of its own. */
#ifndef PAWL_STORE_SQLITE_SQLITE_H
#define PAWL_STORE_SQLITE_SQLITE_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/clock.h"
#include "store/lane_book.h"
#include "store/row.h"
#include "store/sqlite/ahead.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/journal.h"
#include "store/sqlite/owner.h"
#include "store/sqlite/rows.h"
#include "store/store_driver.h"

enum {
    READERS_MAX = 64,     /* transactions that read, at once */
    READERS_KEPT_MAX = 8, /* connections that are kept for the next */
    LANES_FREE_MAX = 4096,

    /* From this many pages on the log is moved to the database after a commit. Readers can hold it
     * back; from many times as many on it is waited for them, so that the log does not grow for
     * ever. */
    LOG_PAGES_MAX = 4000,
    LOG_URGENT = 16, /* so many times as many */
};

struct reader_connection;

/* Work that a transaction took out of its lane. */
struct taken_work {
    struct uuid job;
    uint32_t step;
    struct place place;
};

/* What the tables ahead know of a job; NULL: nothing. */
struct known_job {
    struct ahead_job *newer; /* in the active table */
    struct ahead_job *older; /* where it is not there: in the newest of the others */
};

/* What a transaction that writes is going to add to the tables ahead of the database; all of it in
 * the memory of the newest table, or in `arena`. */
struct staged {
    struct arena arena;
    struct map versions; /* of jobs that were loaded from the database: id -> their version */
    bool keys_loaded;
    struct taken_work *taken;
    uint32_t taken_count;
    uint32_t taken_cap;
    struct map taken_index;  /* job -> place in `taken` */
    bool put_back;           /* some of it was put back */
    struct known_job *known; /* of each job of the write */
    struct ahead_change *changes;
    uint32_t change_count;
    struct ahead_request *requests;
    uint32_t request_count;
    struct ahead_events *events;
    struct buf record; /* for the log */
};

struct sqlite_txn {
    struct store_txn base;
    struct sqlite_store *store;
    struct connection *connection;
    struct reader_connection *reader; /* NULL: this one may write */
    bool through; /* it works on the database itself, which has everything; else on the tables
                     ahead of it, and `connection` only reads */
    int changes;  /* of the connection, when it began to work through */
    struct staged staged;
    int64_t now;
    int64_t feed_end;     /* the last position that was given out */
    bool dead;            /* a verb has failed */
    bool lanes_added;     /* to the book, which is wrong if this is rolled back */
    bool redacting;       /* and is not to be found in the log either */
    struct arena scratch; /* of the verb that is running */
};

struct reader_connection {
    struct connection connection;
    struct sqlite_txn txn;
    struct reader_connection *next; /* while it is not used */
};

/* Somebody who waits for the writer. */
struct turn {
    pthread_cond_t came;
    bool is_mine;
    struct turn *next;
};

struct sqlite_store {
    struct store base;
    struct store_clock clock;
    struct owner owner;
    atomic_bool lost; /* one of its files is gone */
    /* There was no room to bring the database up to the log: it is, in a transaction of the writer
     * that stays open, and readers share that connection, one at a time. */
    bool read_only;
    struct err read_only_why;
    pthread_mutex_t sharing; /* the writer, among readers */
    struct reader_connection *shared;
    int64_t patience_ms;
    bool by_hand;        /* nobody writes behind in a thread: see struct sqlite_habits */
    size_t journal_long; /* from here on records go to the other file */
    int log_pages_max;   /* LOG_PAGES_MAX, or less */

    pthread_mutex_t lock;    /* of what follows, up to the writer */
    pthread_cond_t changed;  /* commits has grown */
    pthread_cond_t returned; /* a reader has come back */
    uint64_t commits;
    bool writing;            /* somebody has the writer */
    struct turn *first_turn; /* who waits for it, in order */
    struct turn *last_turn;
    struct reader_connection *idle;
    uint32_t idle_count;
    uint32_t reader_count; /* idle or not */

    /* Writing behind: see behind.c. `frozen` is under the lock too; all that follows it belongs to
     * whoever has the turn. */
    pthread_cond_t behind;      /* the next two have changed, or there is something to do */
    struct ahead_table *frozen; /* is being written to the database */
    bool written;               /* it has been */
    enum error_code write_code; /* what is wrong with that, if it cannot be */
    struct err write_err;
    uint64_t frozen_count; /* tables so far */
    bool stop;
    pthread_t thread;
    atomic_bool overdue;        /* whoever has the turn shall freeze the active table */
    atomic_bool ahead;          /* something is not in the database */
    struct ahead_table *active; /* takes in what is committed */
    struct ahead_table *cached; /* the last that was written: jobs as the database has them */
    struct arena_pool *pool;    /* for the tables */
    struct journal journal;
    uint8_t log_id[16];        /* in each of its records */
    int64_t number;            /* of the last commit */
    struct uuid newest;        /* no job has a higher id */
    struct lane_place *passed; /* by lane number - 1: up to here all work in the database has been
                                  taken, which the tables ahead of it know */
    uint32_t passed_count;
    uint32_t passed_cap;
    struct connection front; /* reads for those who need not work through */

    struct connection writer; /* of who works through, or of who writes behind */
    struct rows rows;         /* what is written behind, for the writer to read */
    struct sqlite_txn txn;
    struct lane_book lanes;
    bool lanes_stale;                    /* to be read anew */
    uint32_t lanes_many;                 /* with more lanes than this some may be given back */
    _Atomic uint64_t lanes_era;          /* changed with the turn */
    uint32_t lanes_free[LANES_FREE_MAX]; /* the lowest numbers that were given back, rising */
    uint32_t lanes_free_count;
    uint32_t lanes_free_next; /* index of the next to be used */
    int64_t feed_end;
    bool log_saved;      /* when a file was gone */
    bool log_erased;     /* what was to be erased may still be in the log */
    bool log_held;       /* readers were waited for in vain, to empty it: */
    int log_held_pages;  /* when it had so many pages, */
    int64_t log_held_at; /* at this monotonic time in ms */
};

/* ---- transactions (transactions.c) ---- */

/* The locks and conditions of a store. unavailable when the system has none left. */
enum error_code sqlite_turns_init(struct sqlite_store *store, struct err *err);
void sqlite_turns_release(struct sqlite_store *store);

enum error_code sqlite_begin(struct store *base, enum store_mode mode, struct store_txn **ret,
                             struct err *err);
enum error_code sqlite_commit(struct store_txn *base, enum store_outcome *outcome, struct err *err);
void sqlite_rollback(struct store_txn *base);
enum error_code sqlite_watch(struct store *base, uint64_t seen, int64_t wait_ms, uint64_t *ret_seen,
                             struct err *err);

/* Every verb begins and ends with these: a transaction in which a verb has failed does no more. A
 * verb that does not know of the tables ahead of the database begins with the first, and works
 * through from there on. */
enum error_code sqlite_verb_begin(struct sqlite_txn *txn, struct err *err);
enum error_code sqlite_verb_begin_ahead(const struct sqlite_txn *txn, struct err *err);
enum error_code sqlite_verb_end(struct sqlite_txn *txn, enum error_code code);

/* The turn to write: whoever has it has everything that belongs to the one who writes. */
enum error_code sqlite_take_turn(struct sqlite_store *store, struct err *err);
void sqlite_give_turn(struct sqlite_store *store, bool committed);

/* Moves the log to the database when it has become long, after a commit of the writer. */
void sqlite_shorten_log(struct sqlite_store *store, bool erased);

/* no_memory, with a text. */
enum error_code sqlite_no_memory(struct err *err);

/* Room for one more element of an array in `arena`, which may move; false when there is none. */
bool sqlite_more(struct arena *arena, void **at, uint32_t count, uint32_t *cap, size_t size);

/* ---- commits ahead of the database (front.c) ---- */

/* Begins and ends what a transaction stages. */
void sqlite_stage_begin(struct sqlite_txn *txn);
void sqlite_stage_end(struct sqlite_txn *txn);

/* What was staged and not committed takes room in the active table until that is written. */
void sqlite_stage_waste(struct sqlite_txn *txn);

/* Work through from now on: after everything that is ahead has been written. */
enum error_code sqlite_go_through(struct sqlite_txn *txn, struct err *err);

/* Notes that there is, or may be, a job with this id. With the turn. */
void sqlite_note_newest(struct sqlite_store *store, const struct uuid *id);

/* Notes that a job was loaded from the database, with this version; and that work was taken. */
enum error_code sqlite_note_version(struct sqlite_txn *txn, const struct uuid *id, int64_t version,
                                    struct err *err);
enum error_code sqlite_note_taken(struct sqlite_txn *txn, const struct taken_work *work,
                                  struct err *err);

/* The job as the tables ahead know it; false: they do not. Copied to `arena`. */
enum error_code sqlite_ahead_job(struct sqlite_txn *txn, const struct uuid *id, struct arena *arena,
                                 struct job_slice *ret, bool *ret_found, struct err *err);

/* What each of the two tables ahead knows of a job; NULL: nothing. */
void sqlite_ahead_jobs(const struct sqlite_txn *txn, const struct uuid *id,
                       const struct ahead_job **ret_frozen, const struct ahead_job **ret_active);

/* Whether the tables ahead know better than the database how it stands with a job. Of steps they
 * know nothing. */
bool sqlite_is_ahead(const struct sqlite_txn *txn, const struct uuid *id, uint32_t step);

/* When the first of what the tables ahead know comes due, or can be claimed that cannot be yet; or
 * earlier. For whoever has the turn and has not gone through. */
int64_t sqlite_ahead_due(const struct sqlite_txn *txn);

/* By idempotency key; the record of a request. NULL: the tables ahead do not know it. */
enum error_code sqlite_ahead_key(struct sqlite_txn *txn, struct str queue, struct str key,
                                 const struct ahead_job **ret, struct err *err);
enum error_code sqlite_ahead_request(struct sqlite_txn *txn, struct str scope, struct str key,
                                     const struct request_record **ret, struct err *err);

/* Stages what a batch writes. `ret_staged` is false when it has to be worked through. */
enum error_code sqlite_stage_write(struct sqlite_txn *txn, const struct store_write *write,
                                   bool *ret_staged, struct err *err);

/* Logs what is staged, and applies it. */
enum error_code sqlite_commit_ahead(struct sqlite_txn *txn, struct err *err);

/* The events of a record of the log, and its requests; behind.c recovers them. */
struct logged_job {
    struct uuid id;
    bool created;
    uint8_t salt[SALT_LEN];
    struct event *events; /* not opened */
    uint32_t event_count;
};

struct logged_batch {
    int64_t now;
    int64_t feed_end; /* before its events */
    struct logged_job *jobs;
    uint32_t job_count;
    struct request_record *requests;
    uint32_t request_count;
};

enum error_code sqlite_read_record(struct str body, struct arena *arena, struct logged_batch *ret,
                                   struct err *err);

/* ---- writing behind (behind.c) ---- */

/* Opens the log and brings the database up to it; starts the thread that writes behind. */
enum error_code sqlite_behind_open(struct sqlite_store *store, struct err *err);

/* Writes everything and ends that; what cannot be written stays in the log. */
void sqlite_behind_close(struct sqlite_store *store);

/* For a store without a thread: does what that would. Nobody may have the turn. */
void sqlite_behind_turn(struct sqlite_store *store);

/* For whoever has the turn: forgets a table that has been written; and makes room. */
enum error_code sqlite_behind_begin(struct sqlite_store *store, struct err *err);

/* For whoever has the turn: there is something ahead where there was nothing. */
void sqlite_behind_note(struct sqlite_store *store);

/* For whoever has the turn: has what is ahead written by the thread, when there is much of it. */
void sqlite_behind_push(struct sqlite_store *store);

/* For whoever has the turn: writes all of it now. */
enum error_code sqlite_behind_write_all(struct sqlite_store *store, struct err *err);

/* For whoever has not: waits until all that is committed by now is in the database. */
enum error_code sqlite_catch_up(struct sqlite_store *store, struct err *err);

/* Erases what is in the log; nothing may be ahead. */
void sqlite_behind_erase(struct sqlite_store *store);

/* ---- headers (headers.c) ---- */

/* The header of a job; JOB_NONE when there is no such job. */
enum error_code sqlite_read_job(struct sqlite_txn *txn, struct uuid id, struct arena *arena,
                                struct job_slice *ret, bool *ret_redacted, struct err *err);

/* The lease in the next eight columns, as STEP_COLUMNS and HEADER_COLUMNS end. */
struct claim_row sqlite_read_claim(struct query *query);

enum error_code sqlite_load(struct store_txn *base, struct store_load *load, struct arena *arena,
                            struct err *err);

/* ---- parts (parts.c) ---- */

enum error_code sqlite_load_parts(struct store_txn *base, struct store_parts *parts, uint32_t count,
                                  struct arena *arena, struct err *err);

/* ---- work (work.c, due.c): what is in lanes, and what is due ---- */

/* The number of a lane, which gets one if it has none. */
enum error_code sqlite_lane(struct sqlite_txn *txn, struct str key, int64_t *ret, struct err *err);

/* Fills the book of lanes from the database. */
enum error_code sqlite_lanes_read(struct sqlite_store *store, struct err *err);

/* Gives back the lanes in which nothing stands, if there are many; everything ahead is written. */
enum error_code sqlite_lanes_give_back(struct sqlite_txn *txn, bool *ret_done, struct err *err);

enum error_code sqlite_lanes(struct store_txn *base, uint32_t after, struct arena *arena,
                             struct store_lane **ret, uint32_t *ret_count, struct err *err);
enum error_code sqlite_candidates(struct store_txn *base, struct store_search *searches,
                                  uint32_t count, struct arena *arena, struct err *err);
enum error_code sqlite_promote(struct store_txn *base, uint32_t limit, uint32_t *ret_count,
                               struct err *err);
enum error_code sqlite_due(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err);
enum error_code sqlite_attend(struct store *base, struct store_attendance *attendance,
                              struct err *err);
enum error_code sqlite_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err);

/* ---- places (places.c): ready, timers, claim_rows ---- */

/* A placement with its lane's number, or 0 when that lane is not known and `make` is false. */
enum error_code sqlite_place(struct sqlite_txn *txn, const struct placement *placement, bool make,
                             struct place *ret, struct err *err);

/* Puts work into its lane, or among the timers when it may not be claimed yet; and when to look
 * after it, where there is no lease. */
enum error_code sqlite_put_place(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                 const struct place *place, struct err *err);

/* Takes work out of its lane, or from among the timers. */
enum error_code sqlite_take_work(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                 const struct place *place, bool *ret_found, struct err *err);
enum error_code sqlite_take_due(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                const struct place *place, struct err *err);

/* The same where it is known to stand. */
enum error_code sqlite_ready_insert(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                    const struct place *place, struct err *err);
enum error_code sqlite_ready_delete(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                    const struct place *place, bool *ret_found, struct err *err);
enum error_code sqlite_timer_delete(struct sqlite_txn *txn, struct str kind, int64_t at,
                                    const struct uuid *job, uint32_t step, bool *ret_found,
                                    struct err *err);

/* From one placement to the next, of a job or (step not NULL) of a step, its live lease included.
 * `same`: of the lease only its beats may have changed. `ret` is where it stands now. corrupt: it
 * did not stand where the caller said. */
enum error_code sqlite_replace(struct sqlite_txn *txn, const struct job *job,
                               const struct step *step, const struct placement *was,
                               const struct placement *now, bool same, struct place *ret,
                               struct err *err);

/* The same for the job itself, by places. `same` and corrupt as above. */
enum error_code sqlite_replace_job(struct sqlite_txn *txn, const struct job *job,
                                   const struct place *was, const struct place *now,
                                   struct err *err);

/* Ends a lease, if there is one. */
enum error_code sqlite_claim_delete(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                    struct err *err);

/* ---- writing (write.c, write_steps.c) ---- */

enum error_code sqlite_write(struct store_txn *base, const struct store_write *write,
                             struct err *err);

/* The row of an effect; the record of a request. */
enum error_code sqlite_put_effect(struct sqlite_txn *txn, const struct uuid *job,
                                  const struct effect *effect, struct err *err);
enum error_code sqlite_put_request(struct sqlite_txn *txn, const struct request_record *record,
                                   struct err *err);

/* One job with its events and parts. */
enum error_code sqlite_write_job(struct sqlite_txn *txn, const struct store_job_write *write,
                                 struct err *err);

/* The steps of a job, those that are listed and those that are not. */
enum error_code sqlite_write_steps(struct sqlite_txn *txn, const struct store_job_write *write,
                                   struct err *err);

/* Takes all steps of a job out, rows, places and leases. */
enum error_code sqlite_delete_steps(struct sqlite_txn *txn, const struct uuid *job,
                                    struct err *err);

/* ---- reading (streams.c, list.c, counts.c) ---- */

enum error_code sqlite_list(struct store_txn *base, const struct store_filter *filter,
                            struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                            struct err *err);
enum error_code sqlite_events(struct store_txn *base, const struct store_stream *stream,
                              struct arena *arena, struct event **ret, uint32_t *ret_count,
                              struct err *err);
enum error_code sqlite_feed_state(struct store_txn *base, struct store_position after,
                                  struct store_feed_state *ret, struct err *err);
enum error_code sqlite_feed(struct store_txn *base, struct store_position after, uint32_t limit,
                            struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                            struct err *err);
enum error_code sqlite_leases_on(struct store_txn *base, struct str resource_id,
                                 struct arena *arena, struct store_lease **ret, uint32_t *ret_count,
                                 struct err *err);
enum error_code sqlite_queues(struct store_txn *base, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err);
enum error_code sqlite_workers(struct store_txn *base, const struct names *queues,
                               struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                               struct err *err);
enum error_code sqlite_step_counts(struct store_txn *base, int64_t ret[STEP_STATE_COUNT],
                                   struct err *err);
/* workers.c */
enum error_code sqlite_load_registration(struct sqlite_txn *txn, struct store_registration *wanted,
                                         struct arena *arena, struct err *err);
enum error_code sqlite_put_registration(struct sqlite_txn *txn, const struct worker *worker,
                                        struct err *err);
enum error_code sqlite_renew_registration(struct sqlite_txn *txn, const struct worker *worker,
                                          struct err *err);
enum error_code sqlite_registrations(struct store_txn *base, struct arena *arena,
                                     struct worker **ret, uint32_t *ret_count, struct err *err);
enum error_code sqlite_registration_count(struct store_txn *base, int64_t *ret, struct err *err);
enum error_code sqlite_resources(struct store_txn *base, struct arena *arena, struct resource **ret,
                                 uint32_t *ret_count, struct err *err);

/* ---- access tokens (tokens.c) ---- */

enum error_code sqlite_drop_token(struct sqlite_txn *txn, const struct uuid *id, struct err *err);
enum error_code sqlite_put_token(struct sqlite_txn *txn, const struct access_token *token,
                                 struct err *err);
enum error_code sqlite_tokens(struct store_txn *base, struct store_tokens *tokens,
                              struct arena *arena, struct err *err);

/* ---- copying (backup.c) ---- */

enum error_code sqlite_backup(struct store *base, struct str path, int64_t *ret_bytes,
                              struct err *err);

#endif
