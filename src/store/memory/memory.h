/* What the parts of the memory store share; no one else includes this.
 *
 * Everything is in ordered tables of bytes, named as in the SQL stores, with their indexes as
 * tables of their own. What goes in is copied, what comes out is a copy. The holder of the one
 * transaction owns the tables. Each change is noted, so that a rollback, which needs no memory,
 * takes it back. */
#ifndef PAWL_STORE_MEMORY_MEMORY_H
#define PAWL_STORE_MEMORY_MEMORY_H

#include <pthread.h>

#include "base/buf.h"
#include "store/clock.h"
#include "store/codec.h"
#include "store/memory/table.h"
#include "store/row.h"
#include "store/store_driver.h"

/* The key of each, and what is not in the value because the key has it. `step` is STEP_NONE for the
 * job itself. */
enum memory_table {
    TABLE_JOBS,           /* job */
    TABLE_JOB_KEYS,       /* queue, idempotency key -> job */
    TABLE_JOB_PURGES,     /* purge_at, job */
    TABLE_EVENTS,         /* job, version */
    TABLE_FEED,           /* position -> job, version */
    TABLE_TELEMETRY,      /* job, at, number */
    TABLE_TELEMETRY_AGES, /* at, number -> job */
    TABLE_CLAIMS,         /* job, step */
    TABLE_CLAIMS_DUE,     /* due_at, job, step */
    TABLE_CLAIMS_ON,      /* resource, job, step */
    TABLE_LANES,          /* lane's key -> number */
    TABLE_LANE_NUMBERS,   /* number -> lane's key */
    TABLE_READY,          /* lane, rank, run_at, job, step */
    TABLE_TIMERS_WORK,    /* run_at, job, step -> lane, rank */
    TABLE_TIMERS_DUE,     /* due_at, job, step */
    TABLE_STEPS,          /* job, ordinal */
    TABLE_STEP_IDS,       /* job, id -> ordinal */
    TABLE_STEPS_ASKING,   /* job, asking key, ordinal */
    TABLE_EFFECTS,        /* job, name */
    TABLE_EFFECTS_OPEN,   /* job, step or "", name */
    TABLE_SIGNALS,        /* job, version */
    TABLE_SIGNAL_KEYS,    /* job, correlation key, version */
    TABLE_SIGNALS_STORED, /* job, correlation key, version: those not delivered */
    TABLE_SIGNAL_IDS,     /* job, signal id, version */
    TABLE_REQUESTS,       /* scope, key */
    TABLE_REQUEST_AGES,   /* at, scope, key -> key in TABLE_REQUESTS */
    TABLE_RESOURCES,      /* id */
    TABLE_RESOURCES_DUE,  /* expires_at, id -> id */
    TABLE_WORKERS,        /* id */
    TABLE_WORKERS_ENDS,   /* expires_at, id -> id */
    TABLE_KINDS,          /* kind -> settings */
    TABLE_QUEUES,         /* queue; there while it is paused */
    TABLE_TOKENS,         /* id */
    TABLE_TOKEN_HASHES,   /* hash -> id */
    TABLE_PURGED,         /* job -> at, version, head */
    TABLE_PURGED_AGES,    /* at, job -> job */
    TABLE_COUNT,
};

struct memory_store {
    struct store base;
    struct store_clock clock;
    int64_t attended_at;    /* under the lock */
    int64_t trusted_at;     /* too */
    pthread_mutex_t lock;   /* of busy and commits */
    pthread_cond_t turn;    /* busy has turned false */
    pthread_cond_t changed; /* commits has grown */
    bool busy;              /* a transaction is open; it owns everything below */
    uint64_t commits;
    struct table tables[TABLE_COUNT];
    int64_t feed_last; /* positions may have gaps: a rollback does not give them back */
    int64_t telemetry_last;
    int64_t lane_last;   /* numbers may have gaps too */
    uint32_t lanes_many; /* with more lanes than this empty ones are deleted */
    uint64_t lanes_era;
};

/* One change: what went in, or NULL, and what that replaced or was taken out, or NULL. */
struct undo {
    enum memory_table table;
    struct entry *in;
    struct entry *out;
};

struct memory_txn {
    struct store_txn base;
    struct memory_store *store;
    int64_t now;
    bool dead; /* a verb has failed */
    struct undo *undos;
    size_t undo_count;
    size_t undo_cap;
    struct arena scratch; /* of the verb that is running */
};

/* ---- tables within a transaction (memory_store.c) ---- */

/* An empty key or value, in the scratch memory. */
struct buf memory_buf(struct memory_txn *txn);

/* The key that has only a job, and only a job and one of its steps. */
struct buf memory_job_key(struct memory_txn *txn, struct uuid job);
struct buf memory_step_key(struct memory_txn *txn, struct uuid job, uint32_t step);

/* Puts in, in the place of what has the key. Fails with no_memory only. NULL: an empty value. */
enum error_code memory_put(struct memory_txn *txn, enum memory_table table, const struct buf *key,
                           const struct buf *value);

/* Takes out, if it is there; `ret_found` may be NULL. Fails with no_memory only. */
enum error_code memory_take(struct memory_txn *txn, enum memory_table table, struct str key,
                            bool *ret_found);
enum error_code memory_take_buf(struct memory_txn *txn, enum memory_table table,
                                const struct buf *key, bool *ret_found);

/* The entry of a key, NULL for none. Fails with no_memory when the key could not be made. */
enum error_code memory_get(struct memory_txn *txn, enum memory_table table, const struct buf *key,
                           const struct entry **ret);

/* Walks the entries whose keys begin with `prefix`, which the caller keeps. They may be taken out
 * on the way: until the transaction ends their bytes stay. */
struct scan {
    const struct table *table;
    struct str prefix;
    struct str last;
    bool started;
};

struct scan memory_scan(const struct memory_txn *txn, enum memory_table table, struct str prefix);
const struct entry *scan_next(struct scan *scan);

/* A growing array in the caller's arena: room for one more, or NULL. */
void *memory_more(struct arena *arena, void **at, uint32_t count, uint32_t *cap, size_t size);

/* Ends a verb: clears the scratch memory, and after a failure marks the transaction and says what
 * was missing. */
enum error_code memory_verb_end(struct memory_txn *txn, enum error_code code, struct err *err);

/* Whether a verb may start. */
enum error_code memory_verb_begin(const struct memory_txn *txn, struct err *err);

/* ---- rows (memory_rows.c) ---- */

/* Values of rows, and back; what is read are views of `value`, so that the caller copies first what
 * is to be kept. Reading fails with corrupt. */
void job_row_pack(const struct job_row *row, struct buf *value);
enum error_code job_row_unpack(struct str value, struct uuid id, struct job_row *ret,
                               struct err *err);
void claim_row_pack(const struct claim_row *row, struct buf *value);
enum error_code claim_row_unpack(struct str value, struct claim_row *ret, struct err *err);

/* Where a step stands, kept beside its row so that all of them can be taken away at once. */
struct step_place {
    int64_t lane; /* number; 0: in none */
    int64_t rank;
    int64_t run_at;
    int64_t due_at;
    bool leased;
};

void step_row_pack(const struct step_row *row, const struct step_place *place, struct buf *value);
enum error_code step_row_unpack(struct str value, uint32_t ordinal, struct step_row *ret,
                                struct step_place *ret_place, struct err *err);
void effect_row_pack(const struct effect_row *row, struct buf *value);
enum error_code effect_row_unpack(struct str value, struct effect_row *ret, struct err *err);
void signal_pack(const struct signal *signal, struct buf *value);
enum error_code signal_unpack(struct str value, struct signal *ret, struct err *err);
void request_pack(const struct request_record *record, struct buf *value);
enum error_code request_unpack(struct str value, struct request_record *ret, struct err *err);

/* `position` is where it is in the feed; 0 for telemetry. */
void event_pack(const struct event *event, int64_t position, struct buf *value);
enum error_code event_unpack(struct str value, struct event *ret, int64_t *ret_position,
                             struct err *err);

/* The header of a job as a copy in `arena`: `ret` is JOB_NONE when there is no such job. */
enum error_code memory_read_job(struct memory_txn *txn, struct uuid id, struct arena *arena,
                                struct job_slice *ret, bool *ret_redacted, struct err *err);

/* The live lease, if any, as views. */
enum error_code memory_read_claim(struct memory_txn *txn, struct uuid job, uint32_t step,
                                  struct claim_row *ret, struct err *err);

/* ---- places (memory_places.c) ---- */

/* Deletes the empty lanes, if there are many. */
enum error_code memory_lanes_sweep(struct memory_txn *txn);

/* The number of a lane; 0 when it has none and `make` is false. */
enum error_code memory_lane(struct memory_txn *txn, struct str lane, bool make, int64_t *ret,
                            struct err *err);

/* From one schedule entry to the next, of a job or a step, its live lease included. `step` is NULL
 * for the job itself. `ret_place` is where it now stands. */
enum error_code memory_replace(struct memory_txn *txn, const struct job *job,
                               const struct step *step, const struct schedule_entry *was,
                               const struct schedule_entry *now, struct step_place *ret_place,
                               struct err *err);

/* Takes a step that the caller knows nothing of out of its lane, and (all) out of its lease and due
 * time too. `place` then says what is left. */
enum error_code memory_unplace_step(struct memory_txn *txn, struct uuid job, uint32_t step,
                                    bool all, struct step_place *place, struct err *err);

/* ---- the verbs, by file ---- */

/* memory_load.c */
enum error_code memory_read_resource(struct memory_txn *txn, const struct entry *entry,
                                     struct arena *arena, struct resource *ret, struct err *err);
enum error_code memory_load(struct store_txn *handle, struct store_load *load, struct arena *arena,
                            struct err *err);
/* memory_parts.c */
enum error_code memory_load_parts(struct store_txn *handle, struct store_parts *parts,
                                  uint32_t count, struct arena *arena, struct err *err);
/* memory_places.c */
enum error_code memory_lanes(struct store_txn *handle, uint32_t after, struct arena *arena,
                             struct store_lane **ret, uint32_t *ret_count, struct err *err);
enum error_code memory_candidates(struct store_txn *handle, struct store_search *searches,
                                  uint32_t count, struct arena *arena, struct err *err);
enum error_code memory_promote(struct store_txn *handle, uint32_t limit, uint32_t *ret_count,
                               struct err *err);
/* memory_write.c */
enum error_code memory_write(struct store_txn *handle, const struct store_write *write,
                             struct err *err);
/* memory_due.c */
enum error_code memory_due(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err);
enum error_code memory_record_liveness(struct store *base, struct store_liveness *liveness,
                                       struct err *err);
enum error_code memory_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err);
/* memory_read.c */
enum error_code memory_list(struct store_txn *handle, const struct store_filter *filter,
                            struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                            struct err *err);
enum error_code memory_events(struct store_txn *handle, const struct store_stream *stream,
                              struct arena *arena, struct event **ret, uint32_t *ret_count,
                              struct err *err);
enum error_code memory_feed_state(struct store_txn *handle, struct store_position after,
                                  struct store_feed_state *ret, struct err *err);
enum error_code memory_feed(struct store_txn *handle, struct store_position after, uint32_t limit,
                            struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                            struct err *err);
enum error_code memory_leases_on(struct store_txn *handle, struct str resource_id,
                                 struct arena *arena, struct store_lease **ret, uint32_t *ret_count,
                                 struct err *err);
/* memory_counts.c */
enum error_code memory_queues(struct store_txn *handle, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err);
enum error_code memory_workers(struct store_txn *handle, const struct names *queues,
                               struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                               struct err *err);
enum error_code memory_step_counts(struct store_txn *handle, int64_t ret[STEP_STATE_COUNT],
                                   struct err *err);
enum error_code memory_resources(struct store_txn *handle, struct arena *arena,
                                 struct resource **ret, uint32_t *ret_count, struct err *err);
/* memory_workers.c */
enum error_code memory_load_registration(struct memory_txn *txn, struct store_registration *wanted,
                                         struct arena *arena, struct err *err);
enum error_code memory_put_registration(struct memory_txn *txn, const struct worker *worker);
enum error_code memory_renew_registration(struct memory_txn *txn, struct str id,
                                          int64_t expires_at);
enum error_code memory_drop_registration(struct memory_txn *txn, struct str id);
enum error_code memory_registrations(struct store_txn *handle, struct arena *arena,
                                     struct worker **ret, uint32_t *ret_count, struct err *err);
enum error_code memory_registration_count(struct store_txn *handle, int64_t *ret, struct err *err);
/* memory_tokens.c */
enum error_code memory_drop_token(struct memory_txn *txn, struct uuid id, struct err *err);
enum error_code memory_put_token(struct memory_txn *txn, const struct access_token *token,
                                 struct err *err);
enum error_code memory_tokens(struct store_txn *handle, struct store_tokens *tokens,
                              struct arena *arena, struct err *err);
/* memory_store.c */
enum error_code memory_begin(struct store *handle, enum store_mode mode, struct store_txn **ret,
                             struct err *err);
enum error_code memory_commit(struct store_txn *handle, enum store_outcome *outcome,
                              struct err *err);
void memory_rollback(struct store_txn *handle);

#endif
