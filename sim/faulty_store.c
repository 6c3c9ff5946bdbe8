/* What one server has of the store. Its verbs are the store's own but for those that a network and
 * a crash can get in the way of: they may fail, take long, or not say what became of a commit.
 *
 * A transaction is the store's own too. Only its handle is exchanged, so that commit comes through
 * here.
 *
 *   kept  what is deleted has been kept for as long as it should be */
#include <stdlib.h>

#include "store/store_driver.h"
#include "world.h"

struct faulty_store {
    struct store base;
    struct store_driver driver;
    struct server *server;
    struct store *inner;
};

enum {
    AWAY_PER_MILLE = 4,
    SLOW_PER_MILLE = 8,
    UNKNOWN_PER_MILLE = 12,
    LOST_PER_MILLE = 12,
    CRASH_PER_MILLE = 6,
    LIE_PER_MILLE = 20,
    AWAY_MS_MAX = 8000,
    SLOW_MS_MAX = 3000,
    SLOW_MS_MAX_CALM = 1000,
};

static struct faulty_store *faulty(struct store *handle)
{
    return (struct faulty_store *)handle;
}

/* Whether the store can be reached; it may take time to find out. */
static enum error_code reach(struct store *handle, struct err *err)
{
    struct server *server = faulty(handle)->server;
    struct world *world = server->world;
    if (server->doomed)
        return err_set(err, ERR_UNAVAILABLE, "this server is no more");
    if (world_strikes(world, &server->rng, FAULT_AWAY, AWAY_PER_MILLE)) {
        server->away_until = world->now + rng_between(&server->rng, 100, AWAY_MS_MAX);
        trace(world, "%s cannot reach the store until %lld ms", server->name,
              (long long)server->away_until);
    }
    if (!world->healing && world->now < server->away_until)
        return err_set(err, ERR_UNAVAILABLE, "the store is unavailable");
    if (world_strikes(world, &server->rng, FAULT_SLOW, SLOW_PER_MILLE)) {
        int64_t took_ms =
            rng_between(&server->rng, 50, world->calm ? SLOW_MS_MAX_CALM : SLOW_MS_MAX);
        trace(world, "%s waits %lld ms for the store", server->name, (long long)took_ms);
        world->now += took_ms;
    }
    return ERR_OK;
}

static enum error_code faulty_begin(struct store *handle, enum store_mode mode,
                                    struct store_txn **ret, struct err *err)
{
    enum error_code code = reach(handle, err);
    if (code == ERR_OK)
        code = store_begin(faulty(handle)->inner, mode, ret, err);
    if (code == ERR_OK)
        (*ret)->store = handle;
    return code;
}

/* Commits or not, and does not say which. */
static enum error_code leave_unknown(struct faulty_store *store, struct store_txn *txn,
                                     const char *what, enum store_outcome *outcome, struct err *err)
{
    bool done = rng_chance(&store->server->rng, 500);
    enum store_outcome ignored;
    if (done)
        done = store_commit(txn, &ignored, NULL) == ERR_OK;
    else
        store_rollback(txn);
    trace(store->server->world, "%s %s a commit that was %s", store->server->name, what,
          done ? "made" : "not made");
    *outcome = STORE_UNKNOWN;
    return err_set(err, ERR_UNAVAILABLE, "nobody knows whether it was committed");
}

enum { SLACK_MS = 3000 }; /* what a fast clock gains while its server stands still */

static void check_purged(struct world *world, struct uuid id)
{
    const struct recorded_job *job = ledger_find(&world->ledger, id);
    if (job == NULL || !ledger_is_brief(job) ||
        job->updated_at + BRIEF_KEPT_MS > world_store_time(world))
        world_fail(world, "kept", "a job is deleted that should be kept");
    /* A clock that has jumped is not believed at once: see core/trusted_time.h. */
    int64_t since = world->now - world->jump_at;
    if (job != NULL && world->jump_at > 0 && since < TRUSTED_AFTER_MS / 2 &&
        job->updated_at + BRIEF_KEPT_MS > world->jump_clock + 2 * since * 11 / 10 + SLACK_MS)
        world_fail(world, "kept", "a job is deleted because the clock has jumped");
}

/* What a store that lies leaves out. */
static enum error_code faulty_write(struct store_txn *txn, const struct store_write *write,
                                    struct err *err)
{
    const struct faulty_store *store = faulty(txn->store);
    enum sim_lie lie = store->server->world->scenario->lie;
    struct store_write kept = *write;
    for (uint32_t i = 0; i < write->purged_count; i++)
        check_purged(store->server->world, write->purged[i]);
    if (lie == LIE_KEYS)
        kept.request_count = 0;
    if (lie == LIE_BEATS && write->job_count == 1 && store_row_same(write->jobs[0].changed) &&
        write->jobs[0].event_count > 0)
        kept.job_count = 0;
    return store->inner->driver->write(txn, &kept, err);
}

static enum error_code faulty_commit(struct store_txn *txn, enum store_outcome *outcome,
                                     struct err *err)
{
    struct faulty_store *store = faulty(txn->store);
    struct server *server = store->server;
    struct world *world = server->world;
    txn->store = store->inner;
    if (world->scenario->lie == LIE_COMMIT && !world->healing &&
        rng_chance(&server->rng, LIE_PER_MILLE)) {
        store_rollback(txn);
        *outcome = STORE_COMMITTED;
        return ERR_OK;
    }
    if (world_strikes(world, &server->rng, FAULT_LOST, LOST_PER_MILLE)) {
        store_rollback(txn);
        trace(world, "%s loses a commit", server->name);
        *outcome = STORE_NOT_COMMITTED;
        return err_set(err, ERR_UNAVAILABLE, "the store did not commit");
    }
    if (world_strikes(world, &server->rng, FAULT_UNKNOWN, UNKNOWN_PER_MILLE))
        return leave_unknown(store, txn, "never hears of", outcome, err);
    if (world_strikes(world, &server->rng, FAULT_CRASH, CRASH_PER_MILLE)) {
        server->doomed = true;
        return leave_unknown(store, txn, "crashes in", outcome, err);
    }
    return store_commit(txn, outcome, err);
}

static enum error_code faulty_due(struct store *handle, uint32_t limit, struct arena *arena,
                                  struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                                  int64_t *ret_next, struct err *err)
{
    enum error_code code = reach(handle, err);
    if (code == ERR_OK)
        code =
            store_due(faulty(handle)->inner, limit, arena, ret, ret_count, ret_now, ret_next, err);
    if (code == ERR_OK && faulty(handle)->server->world->scenario->lie == LIE_TIMERS)
        *ret_count = 0;
    return code;
}

static enum error_code faulty_watch(struct store *handle, uint64_t seen, int64_t wait_ms,
                                    uint64_t *ret_seen, struct err *err)
{
    (void)wait_ms; /* nothing can happen meanwhile: there is one thread */
    return store_watch(faulty(handle)->inner, seen, 0, ret_seen, err);
}

static enum error_code faulty_backup(struct store *handle, struct str path, int64_t *ret_bytes,
                                     struct err *err)
{
    return store_backup(faulty(handle)->inner, path, ret_bytes, err);
}

static enum error_code faulty_sweep(struct store *handle, int64_t now, uint32_t limit,
                                    uint32_t *ret_count, struct err *err)
{
    enum error_code code = reach(handle, err);
    return code != ERR_OK ? code : store_sweep(faulty(handle)->inner, now, limit, ret_count, err);
}

static enum error_code faulty_record_liveness(struct store *handle, struct store_liveness *liveness,
                                              struct err *err)
{
    enum error_code code = reach(handle, err);
    if (code == ERR_OK)
        code = store_record_liveness(faulty(handle)->inner, liveness, err);
    if (code == ERR_OK && liveness->trusted > 0)
        faulty(handle)->server->world->liveness_recorded = true;
    return code;
}

struct store *faulty_store_new(struct server *server)
{
    struct faulty_store *store = need(calloc(1, sizeof *store));
    store->server = server;
    store->inner = server->world->store;
    store->driver = *store->inner->driver;
    store->driver.begin = faulty_begin;
    store->driver.write = faulty_write;
    store->driver.commit = faulty_commit;
    store->driver.due = faulty_due;
    store->driver.watch = faulty_watch;
    store->driver.watch_others = NULL;
    store->driver.backup = faulty_backup;
    store->driver.sweep = faulty_sweep;
    store->driver.record_liveness = faulty_record_liveness;
    store->base = *store->inner;
    store->base.driver = &store->driver;
    /* Others change it too. */
    store->base.shared = server->world->scenario->store == SIM_MEMORY;
    return &store->base;
}

void faulty_store_free(struct store *store)
{
    free(store);
}
