/* The handle, the one transaction with its undo log, and the tables as a transaction sees them. */
#include "store/memory/memory_store.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "store/memory/memory.h"

enum { TIMEOUT_MS_DEFAULT = 30 * 1000 };

/* ---- tables within a transaction ---- */

struct buf memory_buf(struct memory_txn *txn)
{
    struct buf buf;
    buf_init(&buf, &txn->scratch, 64);
    return buf;
}

struct buf memory_job_key(struct memory_txn *txn, struct uuid job)
{
    struct buf key = memory_buf(txn);
    key_uuid(&key, job);
    return key;
}

struct buf memory_step_key(struct memory_txn *txn, struct uuid job, uint32_t step)
{
    struct buf key = memory_job_key(txn, job);
    key_step(&key, step);
    return key;
}

/* Room in the undo log for one more change. */
static bool undo_reserve(struct memory_txn *txn)
{
    if (txn->undo_count < txn->undo_cap)
        return true;
    size_t larger = txn->undo_cap == 0 ? 64 : txn->undo_cap * 2;
    struct undo *moved = realloc(txn->undos, larger * sizeof *moved);
    if (moved == NULL)
        return false;
    txn->undos = moved;
    txn->undo_cap = larger;
    return true;
}

enum error_code memory_put(struct memory_txn *txn, enum memory_table table, const struct buf *key,
                           const struct buf *value)
{
    assert(txn->base.mode == STORE_WRITE);
    if (key->failed || (value != NULL && value->failed) || !undo_reserve(txn))
        return ERR_NO_MEMORY;
    struct str bytes = value != NULL ? buf_str(value) : STR("");
    struct entry *in = entry_new(buf_str(key), bytes);
    if (in == NULL)
        return ERR_NO_MEMORY;
    struct entry *out = table_put(&txn->store->tables[table], in);
    txn->undos[txn->undo_count++] = (struct undo){table, in, out};
    return ERR_OK;
}

enum error_code memory_take(struct memory_txn *txn, enum memory_table table, struct str key,
                            bool *ret_found)
{
    assert(txn->base.mode == STORE_WRITE);
    if (!undo_reserve(txn))
        return ERR_NO_MEMORY;
    struct entry *out = table_take(&txn->store->tables[table], key);
    if (out != NULL)
        txn->undos[txn->undo_count++] = (struct undo){table, NULL, out};
    if (ret_found != NULL)
        *ret_found = out != NULL;
    return ERR_OK;
}

enum error_code memory_take_buf(struct memory_txn *txn, enum memory_table table,
                                const struct buf *key, bool *ret_found)
{
    return key->failed ? ERR_NO_MEMORY : memory_take(txn, table, buf_str(key), ret_found);
}

enum error_code memory_get(struct memory_txn *txn, enum memory_table table, const struct buf *key,
                           const struct entry **ret)
{
    if (key->failed)
        return ERR_NO_MEMORY;
    *ret = table_get(&txn->store->tables[table], buf_str(key));
    return ERR_OK;
}

struct scan memory_scan(const struct memory_txn *txn, enum memory_table table, struct str prefix)
{
    return (struct scan){.table = &txn->store->tables[table], .prefix = prefix};
}

const struct entry *scan_next(struct scan *scan)
{
    const struct entry *entry = scan->started ? table_after(scan->table, scan->last)
                                              : table_seek(scan->table, scan->prefix);
    scan->started = true;
    if (entry == NULL || entry->key_len < scan->prefix.len ||
        (scan->prefix.len > 0 && memcmp(entry->bytes, scan->prefix.at, scan->prefix.len) != 0))
        return NULL;
    scan->last = entry_key(entry);
    return entry;
}

void *memory_more(struct arena *arena, void **at, uint32_t count, uint32_t *cap, size_t size)
{
    if (count == *cap) {
        uint32_t larger = *cap == 0 ? 8 : *cap * 2;
        void *moved = arena_grow(arena, *at, *cap * size, larger * size);
        if (moved == NULL)
            return NULL;
        *at = moved;
        *cap = larger;
    }
    return (char *)*at + count * size;
}

enum error_code memory_verb_begin(const struct memory_txn *txn, struct err *err)
{
    if (txn->dead)
        return err_set(err, ERR_UNAVAILABLE,
                       "this transaction has already failed: roll it back and run it again");
    return ERR_OK;
}

enum error_code memory_verb_end(struct memory_txn *txn, enum error_code code, struct err *err)
{
    arena_clear(&txn->scratch);
    if (code == ERR_OK)
        return code;
    txn->dead = true;
    if (code == ERR_NO_MEMORY)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return code;
}

/* ---- transactions ---- */

/* Waits for its turn. */
static bool memory_enter(struct memory_store *store)
{
    int64_t timeout_ms = store->base.options.timeout_ms;
    struct timespec until = condition_deadline(timeout_ms > 0 ? timeout_ms : TIMEOUT_MS_DEFAULT);
    pthread_mutex_lock(&store->lock);
    int waited = 0;
    while (store->busy && waited == 0)
        waited = pthread_cond_timedwait(&store->turn, &store->lock, &until);
    bool entered = !store->busy;
    store->busy = true;
    pthread_mutex_unlock(&store->lock);
    return entered;
}

static void memory_leave(struct memory_store *store, bool changed)
{
    pthread_mutex_lock(&store->lock);
    store->busy = false;
    pthread_cond_signal(&store->turn);
    if (changed) {
        store->commits++;
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->lock);
}

enum error_code memory_begin(struct store *handle, enum store_mode mode, struct store_txn **ret,
                             struct err *err)
{
    struct memory_store *store = (struct memory_store *)handle;
    struct memory_txn *txn = calloc(1, sizeof *txn);
    if (txn == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (!memory_enter(store)) {
        free(txn);
        return err_set(err, ERR_UNAVAILABLE,
                       "another transaction holds the store for too long: retry later");
    }
    txn->base = (struct store_txn){.store = handle, .mode = mode};
    txn->store = store;
    txn->now = store_clock_now(&store->clock);
    arena_init(&txn->scratch);
    *ret = &txn->base;
    return ERR_OK;
}

static void memory_end(struct memory_txn *txn, bool changed)
{
    struct memory_store *store = txn->store;
    free(txn->undos);
    arena_release(&txn->scratch);
    free(txn);
    memory_leave(store, changed);
}

void memory_rollback(struct store_txn *handle)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    while (txn->undo_count > 0) {
        struct undo *undo = &txn->undos[--txn->undo_count];
        struct table *table = &txn->store->tables[undo->table];
        struct entry *gone = undo->out != NULL ? table_put(table, undo->out)
                                               : table_take(table, entry_key(undo->in));
        assert(gone == undo->in);
        entry_free(gone);
    }
    memory_end(txn, false);
}

enum error_code memory_commit(struct store_txn *handle, enum store_outcome *outcome,
                              struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK) {
        *outcome = STORE_NOT_COMMITTED;
        memory_rollback(handle);
        return code;
    }
    for (size_t i = 0; i < txn->undo_count; i++)
        entry_free(txn->undos[i].out);
    *outcome = STORE_COMMITTED;
    memory_end(txn, txn->undo_count > 0);
    return ERR_OK;
}

static enum error_code memory_watch(struct store *handle, uint64_t seen, int64_t wait_ms,
                                    uint64_t *ret_seen, struct err *err)
{
    (void)err;
    struct memory_store *store = (struct memory_store *)handle;
    struct timespec until = condition_deadline(wait_ms > 0 ? wait_ms : 0);
    pthread_mutex_lock(&store->lock);
    int waited = 0;
    while (store->commits == seen && waited == 0)
        waited = pthread_cond_timedwait(&store->changed, &store->lock, &until);
    *ret_seen = store->commits;
    pthread_mutex_unlock(&store->lock);
    return ERR_OK;
}

/* ---- opening and closing ---- */

static void memory_close(struct store *handle)
{
    struct memory_store *store = (struct memory_store *)handle;
    assert(!store->busy);
    for (int i = 0; i < TABLE_COUNT; i++)
        table_release(&store->tables[i]);
    pthread_cond_destroy(&store->changed);
    pthread_cond_destroy(&store->turn);
    pthread_mutex_destroy(&store->lock);
    store_clock_release(&store->clock);
    free(store);
}

static const struct store_driver memory_driver = {
    .name = "memory",
    .close = memory_close,
    .begin = memory_begin,
    .load = memory_load,
    .load_parts = memory_load_parts,
    .lanes = memory_lanes,
    .candidates = memory_candidates,
    .promote = memory_promote,
    .write = memory_write,
    .commit = memory_commit,
    .rollback = memory_rollback,
    .due = memory_due,
    .list = memory_list,
    .events = memory_events,
    .feed = memory_feed,
    .feed_state = memory_feed_state,
    .watch = memory_watch,
    .leases_on = memory_leases_on,
    .queues = memory_queues,
    .workers = memory_workers,
    .step_counts = memory_step_counts,
    .resources = memory_resources,
    .registrations = memory_registrations,
    .registration_count = memory_registration_count,
    .tokens = memory_tokens,
    .no_backup =
        "a memory store has no file to back up: use `pawl export`, or a store at sqlite:PATH",
    .sweep = memory_sweep,
    .record_liveness = memory_record_liveness,
};

/* Waits are measured by a clock that nobody sets. */
static bool conditions_init(struct memory_store *store)
{
    if (!condition_init(&store->turn))
        return false;
    if (condition_init(&store->changed))
        return true;
    pthread_cond_destroy(&store->turn);
    return false;
}

enum error_code memory_store_open(const struct store_options *options, struct store **ret,
                                  struct err *err)
{
    struct memory_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    store->base = (struct store){.driver = &memory_driver, .options = *options};
    store->lanes_many = store_lanes_many(0);
    store_clock_init(&store->clock, options->clock, options->clock_arg, NULL, NULL);
    if (pthread_mutex_init(&store->lock, NULL) != 0) {
        store_clock_release(&store->clock);
        free(store);
        return err_set(err, ERR_UNAVAILABLE, "cannot create a lock for the store");
    }
    if (!conditions_init(store)) {
        pthread_mutex_destroy(&store->lock);
        store_clock_release(&store->clock);
        free(store);
        return err_set(err, ERR_UNAVAILABLE, "cannot create a lock for the store");
    }
    *ret = &store->base;
    return ERR_OK;
}
