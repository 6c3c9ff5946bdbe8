/* What the parts of the SQLite store share; no one else includes this.
 *
 * There is one connection that writes, used by one transaction at a time, and a few that read, each
 * with a snapshot of its own. A commit is written to SQLite's log with the writer lock and synced
 * without it, so that the next transaction works meanwhile; nothing is told of a commit, and nobody
 * reads it, before it is synced. */
#ifndef PAWL_STORE_SQLITE_SQLITE_H
#define PAWL_STORE_SQLITE_SQLITE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "store/clock.h"
#include "store/lane_book.h"
#include "store/row.h"
#include "store/sqlite/beats.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/header_cache.h"
#include "store/sqlite/job_counts.h"
#include "store/sqlite/lease_ends.h"
#include "store/sqlite/owner.h"
#include "store/store_driver.h"

enum {
    READERS_MAX = 64,     /* transactions that read, at once */
    READERS_KEPT_MAX = 8, /* connections that are kept for the next */
    LANES_FREE_MAX = 4096,
    LIST_ROWS_MAX = 5 * 1000,       /* jobs that one list looks at where no index helps */
    REQUESTS_WALKED_MAX = 5 * 1000, /* requests that one sweep looks at */

    /* From this many pages on the log is moved to the database, beside those who write; from some
     * times as many on the transaction with the writer lock moves the rest. Readers can hold it
     * back; from many times as many on it is waited for them, so that the log does not grow for
     * ever. */
    LOG_PAGES_MAX = 500,
    LOG_FULL = 8,     /* so many times as many */
    LOG_URGENT = 128, /* so many times as many */
};

struct reader_connection;

/* Jobs whose numbers follow each other and that have gained as many events, from one version on: an
 * entry of the feed. */
struct fed_jobs {
    int64_t no;
    int64_t jobs;
    int64_t version;
    int64_t events;
};

/* Where a job stands, with the number of its lane; 0: in none. */
struct place {
    int64_t lane;
    int64_t rank;
    int64_t run_at;
    int64_t due_at;
    bool leased;
};

struct request_key {
    struct str scope;
    struct str key;
};

struct sqlite_txn {
    struct store_txn base;
    struct sqlite_store *store;
    struct connection *connection;
    struct reader_connection *reader; /* NULL: this one may write */
    int64_t now;
    int64_t feed_end;     /* the last position that was given out */
    int64_t last_no;      /* the highest that a job has */
    bool dead;            /* a verb has failed */
    bool lanes_added;     /* to the book, which is wrong if this is rolled back */
    bool redacting;       /* and is not to be found in the log either */
    struct arena scratch; /* of the verb that is running */

    /* What the write has come to, in `notes`. */
    struct arena notes;
    bool counts_touched;
    bool counts_stored;
    struct fed_jobs *fed;
    uint32_t fed_count;
    uint32_t fed_cap;
    struct uuid *remembered; /* jobs that are in the cache as this leaves them */
    uint32_t remembered_count;
    uint32_t remembered_cap;
    struct beat *beats; /* heartbeats that write no row, and leases that end */
    uint32_t beat_count;
    uint32_t beat_cap;
    bool beats_marked;      /* and that there are such */
    struct lease_end *ends; /* leases that begin, move or end */
    uint32_t end_count;
    uint32_t end_cap;
    int64_t changes_before; /* rows that the connection had ever changed when this began */
    bool wrote;             /* it is committed, and has changed rows */
};

struct reader_connection {
    struct connection connection;
    struct sqlite_txn txn;
    struct reader_connection *next; /* while it is not used */
};

/* Somebody who waits for the writer. */
struct writer_waiter {
    pthread_cond_t came;
    bool has_writer;
    struct writer_waiter *next;
};

/* Moves the log to the database in a thread of its own (checkpoints.c). With the store's lock, but
 * for the connection, which is the thread's. */
struct checkpointer {
    bool inline_only; /* no thread: the writer does it all */
    bool started;
    bool asked;
    bool stopping;
    int moved_pages; /* as of the last time */
    pthread_cond_t changed;
    pthread_t thread;
    struct connection connection;
};

struct sqlite_store {
    struct store base;
    struct store_clock clock;
    struct owner owner;
    atomic_bool lost; /* one of its files is gone */
    int64_t timeout_ms;
    int64_t list_rows_max; /* LIST_ROWS_MAX, or less */
    int log_pages_max;     /* LOG_PAGES_MAX, or less */

    pthread_mutex_t lock;     /* of what follows, up to the writer */
    pthread_cond_t changed;   /* `synced` has grown */
    pthread_cond_t returned;  /* a reader has come back */
    sqlite3_file *log;        /* SQLite's, as of the last commit */
    bool committing;          /* a commit may be visible that `written` does not count yet */
    pthread_cond_t committed; /* that is over */
    uint64_t written;         /* commits that are in it */
    uint64_t synced;          /* and of these, those that the disk has */
    bool syncing;             /* somebody waits for the disk */
    pthread_cond_t freed;     /* nobody has the writer any more */
    bool writing;             /* somebody has the writer */
    struct writer_waiter *first_waiter; /* who waits for it, in order */
    struct writer_waiter *last_waiter;
    struct reader_connection *idle;
    uint32_t idle_count;
    uint32_t reader_count; /* idle or not */
    struct beats beats;
    struct job_counts counts;
    struct lease_ends lease_ends;

    struct checkpointer checkpointer;

    /* What follows belongs to the writer. */
    struct connection writer;
    struct header_cache headers;
    struct uuid newest; /* no job has a higher id */
    bool beats_marked;  /* the database says that there may be heartbeats in memory */
    int64_t last_no;
    int64_t feed_swept;               /* up to this position, by the sweep */
    struct request_key request_swept; /* the same, in sweep_arena */
    struct arena sweep_arena;
    struct sqlite_txn txn;
    struct lane_book lanes;
    bool lanes_stale;                    /* to be read anew */
    uint32_t lanes_many;                 /* with more lanes than this empty ones are deleted */
    _Atomic uint64_t lanes_era;          /* changed with the writer lock */
    uint32_t lanes_free[LANES_FREE_MAX]; /* the lowest free numbers, rising */
    uint32_t lanes_free_count;
    uint32_t lanes_free_next; /* index of the next to be used */
    int64_t feed_end;
    bool log_saved;      /* when a file was gone */
    bool log_erased;     /* what was to be erased may still be in the log */
    bool log_held;       /* waiting for readers did not help to empty it: */
    int log_held_pages;  /* when it had so many pages, */
    int64_t log_held_at; /* at this monotonic time in ms */
};

/* Reads the last numbers that were given out (sqlite_store.c). */
enum error_code sqlite_ends_read(struct sqlite_store *store, struct err *err);

/* ---- transactions (transactions.c) ---- */

/* The locks and conditions of a store. unavailable when the system has none left. */
enum error_code sqlite_turns_init(struct sqlite_store *store, struct err *err);
void sqlite_turns_release(struct sqlite_store *store);

/* The store's lock, for a moment. */
void sqlite_lock(struct sqlite_store *store);
void sqlite_unlock(struct sqlite_store *store);

enum error_code sqlite_begin(struct store *base, enum store_mode mode, struct store_txn **ret,
                             struct err *err);
enum error_code sqlite_commit(struct store_txn *base, enum store_outcome *outcome, struct err *err);
void sqlite_rollback(struct store_txn *base);
enum error_code sqlite_watch(struct store *base, uint64_t seen, int64_t wait_ms, uint64_t *ret_seen,
                             struct err *err);

void sqlite_await_turn(struct store *base, int64_t wait_ms);

/* ---- checkpoints (checkpoints.c) ---- */

/* After a commit, for the writer: moves the log to the database, or has that done, if it
 * has become long, or if it has what was to be erased. What cannot be moved now will be another
 * time. */
void sqlite_checkpoint_if_needed(struct sqlite_store *store, bool erased);

/* Ends the thread, if there is one. */
void sqlite_checkpoints_stop(struct sqlite_store *store);

/* The number of the last commit that may have been seen by now; waits while one is being counted.
 * Under the lock. */
uint64_t sqlite_commits_seen(struct sqlite_store *store);

/* Waits until all commits up to this number are on the disk (transactions.c). */
void sqlite_wait_for_disk(struct sqlite_store *store, uint64_t number);

/* Every verb begins and ends with these: a transaction in which a verb has failed does no more. */
enum error_code sqlite_verb_begin(const struct sqlite_txn *txn, struct err *err);
enum error_code sqlite_verb_end(struct sqlite_txn *txn, enum error_code code);

/* ---- heartbeats in memory (heartbeats.c): see beats.h ---- */

/* Reads the mark and what it means for this store, when it is opened. */
enum error_code sqlite_beats_open(struct sqlite_store *store, struct err *err);

/* Writes what is in memory, when the store is closed. If that fails the mark stays. */
void sqlite_beats_save(struct sqlite_store *store);

/* Notes that a heartbeat has moved a lease, for when this is committed; not when there is no room,
 * and it is to be written. */
enum error_code sqlite_note_beat(struct sqlite_txn *txn, const struct beat *beat, bool *ret_noted,
                                 struct err *err);

/* Notes that a lease has ended. */
enum error_code sqlite_forget_beat(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                   struct err *err);

/* Moves the end of a lease as it was read to where heartbeats have moved it. */
void sqlite_apply_beat(struct sqlite_store *store, const struct uuid *job, uint32_t step,
                       struct claim_row *claim);

/* Puts what was noted into memory, after the commit. */
void sqlite_keep_beats(struct sqlite_txn *txn);

/* no_memory, with a text. */
enum error_code sqlite_no_memory(struct err *err);

/* Room for one more element of an array in `arena`, which may move; false: no memory. */
bool sqlite_more(struct arena *arena, void **at, uint32_t count, uint32_t *cap, size_t size);

/* ---- counts of jobs (job_counts.c) ---- */

/* Reads them, when the store is opened. */
enum error_code sqlite_counts_read(struct sqlite_store *store, struct err *err);

/* Notes that a job of the queue has another status than before. */
enum error_code sqlite_note_status(struct sqlite_txn *txn, struct str queue, enum job_status was,
                                   enum job_status now, struct err *err);

/* What was noted, for the batch's row of the feed. */
void sqlite_counts_write(const struct sqlite_txn *txn, struct json_writer *writer);

/* Stores all counts if the batch has no row of the feed (`fed`), or if that was long ago. */
enum error_code sqlite_counts_store(struct sqlite_txn *txn, bool fed, struct err *err);

/* Counts what was noted, or forgets it. */
void sqlite_counts_end(struct sqlite_txn *txn, bool committed);

/* How many jobs have a status. */
int64_t sqlite_count_of(struct sqlite_store *store, enum job_status status);

/* ---- headers (headers.c) ---- */

/* What there is of a job; no 0: there is no such job. Its texts are in `arena`, or in the cache
 * until something is put there. */
enum error_code sqlite_find_header(struct sqlite_txn *txn, const struct uuid *id,
                                   struct arena *arena, struct header *ret, struct err *err);

/* The header of a job; JOB_NONE when there is no such job. */
enum error_code sqlite_read_job(struct sqlite_txn *txn, struct uuid id, struct arena *arena,
                                struct job_slice *ret, struct err *err);

/* Puts a job into the cache as it is when this transaction has been committed; or takes it out
 * (`forget`), when it has ended, or when only the database knows what is left of its spec. */
enum error_code sqlite_remember(struct sqlite_txn *txn, const struct header *header, bool forget,
                                struct err *err);

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

/* Deletes the empty lanes, if there are many. */
enum error_code sqlite_lanes_sweep(struct sqlite_txn *txn, bool *ret_done, struct err *err);

/* The lanes with numbers above `after`. */
enum error_code sqlite_read_lanes(struct sqlite_txn *txn, uint32_t after, struct arena *arena,
                                  struct store_lane **ret, uint32_t *ret_count, struct err *err);
enum error_code sqlite_lanes(struct store_txn *base, uint32_t after, struct arena *arena,
                             struct store_lane **ret, uint32_t *ret_count, struct err *err);
enum error_code sqlite_candidates(struct store_txn *base, struct store_search *searches,
                                  uint32_t count, struct arena *arena, struct err *err);
enum error_code sqlite_promote(struct store_txn *base, uint32_t limit, uint32_t *ret_count,
                               struct err *err);
enum error_code sqlite_due(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err);
enum error_code sqlite_record_liveness(struct store *base, struct store_liveness *liveness,
                                       struct err *err);
/* Notes when the engine looks after the lease on a job, for when this is committed; 0: it ends. */
enum error_code sqlite_note_lease(struct sqlite_txn *txn, int64_t no, const struct uuid *job,
                                  int64_t due_at, struct err *err);

/* Puts what was noted into memory, after the commit. */
void sqlite_keep_leases(struct sqlite_txn *txn);

/* Reads all of them, when the store is opened. */
enum error_code sqlite_leases_read(struct sqlite_store *store, struct err *err);
enum error_code sqlite_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err);

/* ---- places (places.c): ready, timers, step_claims ---- */

/* A schedule entry with its lane's number, or 0 when that lane is not known and `make` is false. */
enum error_code sqlite_place(struct sqlite_txn *txn, const struct schedule_entry *entry, bool make,
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

/* From one schedule entry to the next, of a job or (step not NULL) of a step with its live lease.
 * `same`: of the lease only its beats may have changed. `ret` is where it stands now. corrupt: it
 * did not stand where the caller said. */
enum error_code sqlite_replace(struct sqlite_txn *txn, const struct job *job,
                               const struct step *step, const struct schedule_entry *was,
                               const struct schedule_entry *now, bool same, struct place *ret,
                               struct err *err);

/* Ends the lease of a step, if there is one. */
enum error_code sqlite_step_claim_delete(struct sqlite_txn *txn, const struct uuid *job,
                                         uint32_t step, struct err *err);

/* ---- writing (write.c, write_job.c, write_steps.c) ---- */

enum error_code sqlite_write(struct store_txn *base, const struct store_write *write,
                             struct err *err);

/* Jobs and the feed (write_job.c). */
enum error_code sqlite_write_jobs(struct sqlite_txn *txn, const struct store_write *write,
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

/* Where a part of a job's stream is. */
enum part_source { PART_CREATED, PART_HISTORY, PART_STATE, PART_CLAIM };

struct stream_part {
    enum part_source source;
    int64_t first; /* version of its first event */
    struct str hashes;
    struct str events; /* a JSON array: see packed.h */
};

/* The parts of a job's stream behind a version, in its order; of history at most `max`. */
enum error_code sqlite_read_parts(struct sqlite_txn *txn, int64_t no, int64_t after, uint32_t max,
                                  struct arena *arena, struct stream_part **ret,
                                  uint32_t *ret_count, struct err *err);
enum error_code sqlite_read_salt(struct sqlite_txn *txn, int64_t no, uint8_t ret[SALT_LEN],
                                 struct err *err);

/* The next entry of a row of the feed; false at its end. */
bool sqlite_next_fed(struct json_iter *iter, struct fed_jobs *ret);

/* Deletes some rows of the feed whose jobs are all gone. */
enum error_code sqlite_sweep_feed(struct sqlite_txn *txn, bool *ret_any, struct err *err);

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
