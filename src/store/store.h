/* The contract of a store: what memory, SQLite and PostgreSQL promise alike, as callers see it. The
 * promise of each verb stands beside its slot in store_driver.h; README.md has the life of a batch.
 *
 * A store keeps events, and rows that are a fold of them. It knows no rule of the machines and
 * folds nothing: core decides what a job may do and where it stands, a store keeps it, finds it
 * again, and lets nobody else change it meanwhile. One suite (tests/store/conformance.c) is run
 * against every store.
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
#include "store/store_load.h"
#include "store/store_read.h"
#include "store/store_write.h"

enum {
    STORE_LIST_MAX = 500,
    STORE_EVENTS_MAX = 1000,
    STORE_LANES_MAX = 100 * 1000, /* in one store at a time */
    STORE_LANES_FEW = 1000,       /* below this, empty lanes stay */
    STORE_WORKERS_MAX = 10 * 1000,
    STORE_RESOURCES_MAX = 10 * 1000,
    STORE_TOKENS_MAX = 10 * 1000,
};

/* A transaction that only reads takes no lock and may not write. Beginning one may wait until what
 * is committed can be read, which a transaction that writes can hold up: no thread should begin one
 * while it writes. */
enum store_mode { STORE_READ, STORE_WRITE };

/* ---- opening ---- */

struct store_options {
    /* Milliseconds since 1970. NULL: the system's clock, or on PostgreSQL the database's. */
    int64_t (*clock)(void *arg);
    void *clock_arg;
    bool create;          /* make the store when it is not there; else not_found */
    bool migrate;         /* bring an older schema up to date; else it is refused (SQLite always
                             does, after a copy) */
    uint64_t seed;        /* for look-up tables */
    uint32_t connections; /* PostgreSQL: at most this many at once; 0: 4 */
    int64_t timeout_ms;   /* how long to try before `unavailable`; 0: 30 s */
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

/* ---- handles ---- */

struct store_driver; /* store_driver.h: the promise of each verb */

/* Every driver's handle begins with this. */
struct store {
    const struct store_driver *driver;
    struct store_options options;
    int64_t schema_version; /* as it is; 0: this store has no schema */
    int64_t schema_found;   /* as it was before it was opened; 0: there was none */
    bool shared;            /* other processes may change it too */
    /* Heartbeats before this time may be lost: one that moves nothing but the end of a lease
     * (CHANGED_BEAT) may be kept in memory until the store is closed, and is then lost with a
     * process that is killed. Anyone who reads or loads a lease through this handle is given its
     * moved end; `due` may tell of it too early; what such a heartbeat says as telemetry need not
     * be kept. 0: none is lost. */
    int64_t beats_since;
    struct str home; /* the directory of its file, absolute and without links; absent: it has
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
enum error_code store_outbox_drain(struct store_txn *txn, const struct store_outbox_request *wanted,
                                   struct arena *arena, struct store_submission **ret,
                                   uint32_t *ret_count, struct err *err);
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
/* Whether a transaction that writes can begin while the commit of another waits for the disk; and
 * waiting for that. */
bool store_overlaps(const struct store *store);
void store_await_turn(struct store *store, int64_t wait_ms);
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
enum error_code store_tokens(struct store_txn *txn, struct store_tokens *tokens,
                             struct arena *arena, struct err *err);
enum error_code store_backup(struct store *store, struct str path, int64_t *ret_bytes,
                             struct err *err);
enum error_code store_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                            struct err *err);
enum error_code store_record_liveness(struct store *store, struct store_liveness *liveness,
                                      struct err *err);
void store_origin(struct store *store, struct store_origin *ret);
enum error_code store_strays(struct store *store, struct arena *arena, struct store_stray **ret,
                             uint32_t *ret_count, struct err *err);
enum error_code store_mend(struct store *store, uint32_t lane, struct str key, struct err *err);

#endif
