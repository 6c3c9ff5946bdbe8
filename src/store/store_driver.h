/* The contract, slot by slot: what a driver promises. Callers use the functions of store.h, which
 * check what is asked of callers and give a slot that is NULL its one meaning.
 *
 * A driver keeps what it is given and finds it again. It folds nothing: no event is applied to a
 * job here, and what a row shall say comes with the write, with the groups of members that changed
 * (core/job.h). How a batch goes through the slots, in which order locks are taken, and how to
 * write a driver is in README.md.
 *
 * Slots are required, but for the last group. */
#ifndef PAWL_STORE_STORE_DRIVER_H
#define PAWL_STORE_STORE_DRIVER_H

#include "store/store.h"

struct store_driver {
    const char *name;

    /* ---- a batch: one transaction, whatever is in it ---- */

    /* Closes it; see store_close. */
    void (*close)(struct store *store);

    /* Starts a transaction. It may wait for its turn, up to the store's timeout. */
    enum error_code (*begin)(struct store *store, enum store_mode mode, struct store_txn **ret,
                             struct err *err);

    /* Locks (in a transaction that may write) and reads everything in `load`; before any other verb
     * of the transaction but outbox_drain, and only once. */
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

    /* Writes. Once in a transaction, after everything else. version_mismatch: an event's version is
     * there already (the caller did not load); it may also come from commit, with
     * NOT_COMMITTED. */
    enum error_code (*write)(struct store_txn *txn, const struct store_write *write,
                             struct err *err);

    /* Ends the transaction; the handle is gone whatever comes back. `outcome` is always set;
     * COMMITTED exactly when the code is ok. */
    enum error_code (*commit)(struct store_txn *txn, enum store_outcome *outcome, struct err *err);
    void (*rollback)(struct store_txn *txn);

    /* ---- time: what happens by itself ---- */

    /* What is due at the store's time, the oldest first, at most `limit` of each kind; without
     * locks: others may be at it. `ret_now` is the store's time, `ret_next` when the next thing
     * will be due, or earlier when that is not certain (INT64_MAX: nothing is); work to promote
     * counts, also when its time has come. */
    enum error_code (*due)(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err);

    /* Deletes at most `limit` records, together, that are older at `now` than they are kept:
     * requests and telemetry (24 hours), what was left of deleted jobs (PURGED_KEPT_MS), and
     * registrations of workers whose time is over (WORKER_KEPT_MS). The
     * store's own time does not count: the caller says which time can be trusted. `ret_count` says
     * how many. When there are twice as many lanes as were needed the last time, those in which
     * nothing is waiting are deleted, which begins another era: their numbers mean nothing any
     * more, or something else. */
    enum error_code (*sweep)(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err);

    /* Records that a server runs maintenance on the store; returns the time, and when that was last
     * recorded before. Nothing is synced: when the machine crashes an older note may be left. */
    enum error_code (*record_liveness)(struct store *store, struct store_liveness *liveness,
                                       struct err *err);

    /* Waits until something was committed since `seen` (any number at first), or `wait_ms` are
     * over. `ret_seen` is for the next call. It may come back without cause. */
    enum error_code (*watch)(struct store *store, uint64_t seen, int64_t wait_ms,
                             uint64_t *ret_seen, struct err *err);

    /* ---- reading ---- */

    /* Jobs that pass the filter, the newest first: headers. Fewer than the limit are all there are,
     * unless `reach` says that the list has stopped before. */
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

    /* The live step leases on a resource. */
    enum error_code (*leases_on)(struct store_txn *txn, struct str resource_id, struct arena *arena,
                                 struct store_lease **ret, uint32_t *ret_count, struct err *err);

    /* ---- reading: what an operator looks at ---- */

    /* Counts all jobs, by queue and status, in the order of the queues' names and then of the
     * statuses' numbers. It may look at every job, though only in an index. A queue without jobs is
     * not there; which are paused, load says. */
    enum error_code (*queues)(struct store_txn *txn, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err);

    /* Counts the steps of all plans by state, also those of jobs that have ended. It looks at every
     * step. */
    enum error_code (*step_counts)(struct store_txn *txn, int64_t ret[STEP_STATE_COUNT],
                                   struct err *err);

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

    /* All resources, by id, as load gives them; at most STORE_RESOURCES_MAX. */
    enum error_code (*resources)(struct store_txn *txn, struct arena *arena, struct resource **ret,
                                 uint32_t *ret_count, struct err *err);

    /* Reads access tokens. Nothing is locked. */
    enum error_code (*tokens)(struct store_txn *txn, struct store_tokens *tokens,
                              struct arena *arena, struct err *err);

    /* ---- optional: NULL means what is said with each, and nothing else ---- */

    const char *no_backup; /* where backup is NULL */

    /* Waits until a transaction that writes could begin at once, or `wait_ms` are over. A store
     * that has this lets the next one begin while a commit waits for the disk, one at a time: what
     * is to be done together is best gathered when this comes back. NULL: it has no such moment. */
    void (*await_turn)(struct store *store, int64_t wait_ms);

    /* As watch, but what this handle has committed itself is no reason to come back. NULL: watch is
     * called, and tells of it with the rest. */
    enum error_code (*watch_others)(struct store *store, uint64_t seen, int64_t wait_ms,
                                    uint64_t *ret_seen, struct err *err);

    /* Takes committed submissions, which are gone with this transaction. NULL: there are none,
     * since nobody but Pawl writes to this store. */
    enum error_code (*outbox_drain)(struct store_txn *txn,
                                    const struct store_outbox_request *wanted, struct arena *arena,
                                    struct store_submission **ret, uint32_t *ret_count,
                                    struct err *err);

    /* Copies a store in a file to a new file at `path`, as of the moment of the call, while it is
     * in use; writers go on meanwhile. The copy is a store of its own. It is there only when it is
     * complete and on the disk, or not at all, and takes the place of nothing. `ret_bytes` is its
     * size. bad_request: there is something at `path` already, or there can be no file;
     * unavailable: it could not be written (a full disk, for one). A path that is not absolute is
     * that of this process. NULL: this store is in no file; bad_request, with `no_backup` as the
     * detail, which says what to do instead. */
    enum error_code (*backup)(struct store *store, struct str path, int64_t *ret_bytes,
                              struct err *err);

    /* Work in lanes that do not exist, by lane. NULL: there can be none; then mend is
     * NULL too, and never called. */
    enum error_code (*strays)(struct store *store, struct arena *arena, struct store_stray **ret,
                              uint32_t *ret_count, struct err *err);

    /* Puts all work of a lane that does not exist into the lane with that key. */
    enum error_code (*mend)(struct store *store, uint32_t lane, struct str key, struct err *err);

    /* Says where the store is. NULL: nobody can replace it: all of `ret` but the
     * generation is zero. */
    void (*origin)(struct store *store, struct store_origin *ret);
};

/* For drivers. */

/* Orders what is due, the oldest first: two struct store_due. */
int store_due_cmp(const void *a, const void *b);

/* With more lanes than this it is worth to look for empty ones, when
 * `left` were left the last time. */
uint32_t store_lanes_many(uint32_t left);

#endif
