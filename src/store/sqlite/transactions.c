/* Who may use which connection and when; how transactions begin and end; watching for commits. */
#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

/* ---- locks ---- */

void sqlite_lock(struct sqlite_store *store)
{
    int result = pthread_mutex_lock(&store->lock);
    assert(result == 0);
    (void)result;
}

void sqlite_unlock(struct sqlite_store *store)
{
    int result = pthread_mutex_unlock(&store->lock);
    assert(result == 0);
    (void)result;
}

enum error_code sqlite_turns_init(struct sqlite_store *store, struct err *err)
{
    if (pthread_mutex_init(&store->lock, NULL) != 0)
        goto out;
    if (!condition_init(&store->changed))
        goto out_mutex;
    if (!condition_init(&store->returned))
        goto out_changed;
    if (!condition_init(&store->freed))
        goto out_returned;
    if (condition_init(&store->committed))
        return ERR_OK;
    (void)pthread_cond_destroy(&store->freed);
out_returned:
    (void)pthread_cond_destroy(&store->returned);
out_changed:
    (void)pthread_cond_destroy(&store->changed);
out_mutex:
    (void)pthread_mutex_destroy(&store->lock);
out:
    return err_set(err, ERR_UNAVAILABLE, "cannot create a lock");
}

void sqlite_turns_release(struct sqlite_store *store)
{
    assert(!store->writing && store->first_waiter == NULL);
    assert(store->reader_count == store->idle_count);
    while (store->idle != NULL) {
        struct reader_connection *reader = store->idle;
        store->idle = reader->next;
        lite_close(&reader->connection);
        arena_release(&reader->txn.scratch);
        free(reader);
    }
    (void)pthread_cond_destroy(&store->committed);
    (void)pthread_cond_destroy(&store->freed);
    (void)pthread_cond_destroy(&store->returned);
    (void)pthread_cond_destroy(&store->changed);
    (void)pthread_mutex_destroy(&store->lock);
}

/* ---- the writer, one after the other ---- */

static void add_waiter(struct sqlite_store *store, struct writer_waiter *waiter)
{
    if (store->last_waiter == NULL)
        store->first_waiter = waiter;
    else
        store->last_waiter->next = waiter;
    store->last_waiter = waiter;
}

static void remove_waiter(struct sqlite_store *store, struct writer_waiter *waiter)
{
    struct writer_waiter *before = NULL;
    for (struct writer_waiter *at = store->first_waiter; at != waiter; at = at->next)
        before = at;
    if (before == NULL)
        store->first_waiter = waiter->next;
    else
        before->next = waiter->next;
    if (store->last_waiter == waiter)
        store->last_waiter = before;
}

static enum error_code writer_lock(struct sqlite_store *store, struct err *err)
{
    struct writer_waiter waiter = {.has_writer = false};
    sqlite_lock(store);
    if (!store->writing) {
        store->writing = true;
        sqlite_unlock(store);
        return ERR_OK;
    }
    if (!condition_init(&waiter.came)) {
        sqlite_unlock(store);
        return err_set(err, ERR_UNAVAILABLE, "cannot create a lock");
    }
    add_waiter(store, &waiter);

    struct timespec deadline = condition_deadline(store->timeout_ms);
    int result = 0;
    while (!waiter.has_writer && result == 0)
        result = pthread_cond_timedwait(&waiter.came, &store->lock, &deadline);
    if (!waiter.has_writer)
        remove_waiter(store, &waiter);
    sqlite_unlock(store);
    (void)pthread_cond_destroy(&waiter.came);
    if (waiter.has_writer)
        return ERR_OK;
    return err_set(err, ERR_UNAVAILABLE, "other transactions took longer than %lld ms: retry later",
                   (long long)store->timeout_ms);
}

/* Hands the writer to the transaction that has waited longest. Returns the number of the last
 * commit, for wait_for_disk. */
static uint64_t writer_unlock(struct sqlite_store *store)
{
    sqlite_lock(store);
    assert(store->writing);
    struct writer_waiter *waiter = store->first_waiter;
    if (waiter == NULL) {
        store->writing = false;
        (void)pthread_cond_broadcast(&store->freed);
    } else {
        store->first_waiter = waiter->next;
        if (store->first_waiter == NULL)
            store->last_waiter = NULL;
        waiter->has_writer = true;
        (void)pthread_cond_signal(&waiter->came);
    }
    uint64_t number = store->written;
    sqlite_unlock(store);
    return number;
}

/* Commits. Readers see a commit before `written` counts it: a reader that must know what it has
 * seen waits until `committing` is over. Nothing that may wait for readers happens in between. */
static enum error_code commit_counted(struct sqlite_txn *txn, struct err *err)
{
    struct sqlite_store *store = txn->store;
    sqlite_lock(store);
    store->committing = true;
    sqlite_unlock(store);
    enum error_code code = lite_commit(txn->connection, err);
    txn->wrote = code == ERR_OK && sqlite3_total_changes64(store->writer.db) != txn->changes_before;
    sqlite_counts_end(txn, code == ERR_OK);
    sqlite_lock(store);
    store->committing = false;
    store->written += txn->wrote;
    if (txn->wrote)
        store->log = store->writer.log;
    (void)pthread_cond_broadcast(&store->committed);
    sqlite_unlock(store);
    return code;
}

uint64_t sqlite_commits_seen(struct sqlite_store *store)
{
    while (store->committing)
        (void)pthread_cond_wait(&store->committed, &store->lock);
    return store->written;
}

void sqlite_await_turn(struct store *base, int64_t wait_ms)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct timespec deadline = condition_deadline(wait_ms);
    int result = 0;
    sqlite_lock(store);
    while (store->writing && result == 0)
        result = pthread_cond_timedwait(&store->freed, &store->lock, &deadline);
    sqlite_unlock(store);
}

/* ---- the disk ---- */

/* Waits until all commits up to this number are on the disk: one of those who wait has it synced,
 * for all that are in the log by then. The others go on writing meanwhile. A disk that fails ends
 * the process. */
void sqlite_wait_for_disk(struct sqlite_store *store, uint64_t number)
{
    sqlite_lock(store);
    while (store->synced < number) {
        if (store->syncing) {
            (void)pthread_cond_wait(&store->changed, &store->lock);
            continue;
        }
        uint64_t written = store->written;
        sqlite3_file *log = store->log;
        store->syncing = true;
        sqlite_unlock(store);
        lite_sync_file(log);
        sqlite_lock(store);
        store->syncing = false;
        store->synced = written;
        (void)pthread_cond_broadcast(&store->changed);
    }
    sqlite_unlock(store);
}

/* ---- the files ---- */

static enum error_code check_files(struct sqlite_store *store, struct err *err)
{
    bool gone;
    enum error_code code = owner_check(&store->owner, &gone, err);
    if (gone)
        atomic_store(&store->lost, true);
    else if (code != ERR_OK)
        return code;
    else if (atomic_load(&store->lost))
        code = err_set(err, ERR_UNAVAILABLE,
                       "a file of the store disappeared while in use: restart this process");
    return code;
}

/* The same for the transaction that has the writer lock. What is in a log without a name is moved
 * to the database, which may well be there. */
static enum error_code check_before_write(struct sqlite_store *store, struct err *err)
{
    enum error_code code = check_files(store, err);
    if (code == ERR_OK || store->log_saved || !atomic_load(&store->lost))
        return code;
    store->log_saved = true;
    (void)lite_checkpoint(&store->writer, SQLITE_CHECKPOINT_PASSIVE);
    return code;
}

/* ---- readers ---- */

/* An idle one, or NULL with leave to make one. */
static enum error_code take_reader(struct sqlite_store *store, struct reader_connection **ret,
                                   struct err *err)
{
    struct timespec deadline = condition_deadline(store->timeout_ms);
    int result = 0;
    sqlite_lock(store);
    while (store->idle == NULL && store->reader_count >= READERS_MAX && result == 0)
        result = pthread_cond_timedwait(&store->returned, &store->lock, &deadline);
    bool found = store->idle != NULL || store->reader_count < READERS_MAX;
    *ret = store->idle;
    if (*ret != NULL) {
        store->idle = (*ret)->next;
        store->idle_count--;
    } else if (found) {
        store->reader_count++;
    }
    sqlite_unlock(store);
    return found ? ERR_OK
                 : err_set(err, ERR_UNAVAILABLE, "%d transactions are already reading: retry later",
                           READERS_MAX);
}

static void give_reader(struct sqlite_store *store, struct reader_connection *reader)
{
    sqlite_lock(store);
    bool kept = reader != NULL && store->idle_count < READERS_KEPT_MAX;
    if (kept) {
        reader->next = store->idle;
        store->idle = reader;
        store->idle_count++;
    } else {
        store->reader_count--;
    }
    (void)pthread_cond_signal(&store->returned);
    sqlite_unlock(store);
    if (kept || reader == NULL)
        return;
    lite_close(&reader->connection);
    arena_release(&reader->txn.scratch);
    free(reader);
}

static enum error_code make_reader(struct sqlite_store *store, struct reader_connection **ret,
                                   struct err *err)
{
    enum error_code code = check_files(store, err); /* it opens them by their names */
    if (code != ERR_OK)
        return code;
    struct reader_connection *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return sqlite_no_memory(err);
    code = lite_open(&reader->connection, store->owner.path, CONNECTION_READER, store->timeout_ms,
                     err);
    if (code != ERR_OK) {
        free(reader);
        return code;
    }
    arena_init(&reader->txn.scratch);
    *ret = reader;
    return ERR_OK;
}

static enum error_code begin_read(struct sqlite_store *store, struct sqlite_txn **ret,
                                  struct err *err)
{
    struct reader_connection *reader;
    enum error_code code = atomic_load(&store->lost) ? check_files(store, err) : ERR_OK;
    if (code == ERR_OK)
        code = take_reader(store, &reader, err);
    if (code != ERR_OK)
        return code;
    if (reader == NULL)
        code = make_reader(store, &reader, err);
    if (code == ERR_OK)
        code = lite_begin(&reader->connection, STORE_READ, err);
    if (code != ERR_OK) {
        give_reader(store, reader);
        return code;
    }
    /* What it sees is shown to others: it must not go when the power does. */
    sqlite_lock(store);
    uint64_t number = sqlite_commits_seen(store);
    sqlite_unlock(store);
    sqlite_wait_for_disk(store, number);
    reader->txn.connection = &reader->connection;
    reader->txn.reader = reader;
    *ret = &reader->txn;
    return ERR_OK;
}

/* ---- transactions ---- */

static enum error_code begin_write(struct sqlite_store *store, struct sqlite_txn **ret,
                                   struct err *err)
{
    enum error_code code = writer_lock(store, err);
    if (code != ERR_OK)
        return code;
    code = check_before_write(store, err);
    if (code == ERR_OK)
        code = lite_begin(&store->writer, STORE_WRITE, err);
    if (code == ERR_OK && store->lanes_stale) {
        code = sqlite_lanes_read(store, err);
        if (code != ERR_OK)
            lite_rollback(&store->writer);
    }
    if (code != ERR_OK) {
        (void)writer_unlock(store);
        return code;
    }
    struct sqlite_txn *txn = &store->txn;
    *txn = (struct sqlite_txn){
        .connection = &store->writer,
        .feed_end = store->feed_end,
        .last_no = store->last_no,
        .changes_before = sqlite3_total_changes64(store->writer.db),
        .scratch = txn->scratch,
        .notes = txn->notes,
    };
    *ret = txn;
    return ERR_OK;
}

enum error_code sqlite_begin(struct store *base, enum store_mode mode, struct store_txn **ret,
                             struct err *err)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct sqlite_txn *txn;
    enum error_code code =
        mode == STORE_WRITE ? begin_write(store, &txn, err) : begin_read(store, &txn, err);
    if (code != ERR_OK)
        return code;
    txn->base = (struct store_txn){.store = base, .mode = mode};
    txn->store = store;
    txn->now = store_clock_now(&store->clock);
    txn->dead = false;
    *ret = &txn->base;
    return ERR_OK;
}

/* Hands the writer lock on; the number is that of the last commit in the log, which is this one
 * unless it has written nothing: heartbeats alone wait only for what they may have seen. */
static uint64_t end_write(struct sqlite_txn *txn, bool committed)
{
    struct sqlite_store *store = txn->store;
    if (committed) {
        store->feed_end = txn->feed_end;
        store->last_no = txn->last_no;
        sqlite_keep_beats(txn);
        sqlite_keep_leases(txn);
        if (txn->wrote)
            sqlite_checkpoint_if_needed(store, txn->redacting);
    } else {
        store->lanes_stale = store->lanes_stale || txn->lanes_added;
        for (uint32_t i = 0; i < txn->remembered_count; i++)
            header_cache_drop(&store->headers, &txn->remembered[i]);
        sqlite_counts_end(txn, false);
    }
    arena_clear(&txn->scratch);
    arena_clear(&txn->notes);
    return writer_unlock(store);
}

static void end_read(struct sqlite_txn *txn)
{
    arena_clear(&txn->scratch);
    give_reader(txn->store, txn->reader);
}

enum error_code sqlite_commit(struct store_txn *base, enum store_outcome *outcome, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct sqlite_store *store = txn->store;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        lite_rollback(txn->connection);
    else if (txn->reader != NULL)
        code = lite_commit(txn->connection, err);
    else
        code = commit_counted(txn, err);
    *outcome = code == ERR_OK ? STORE_COMMITTED : STORE_NOT_COMMITTED;
    if (txn->reader != NULL)
        end_read(txn);
    else
        sqlite_wait_for_disk(store, end_write(txn, code == ERR_OK));
    return code;
}

void sqlite_rollback(struct store_txn *base)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    lite_rollback(txn->connection);
    if (txn->reader != NULL)
        end_read(txn);
    else
        (void)end_write(txn, false);
}

enum error_code sqlite_watch(struct store *base, uint64_t seen, int64_t wait_ms, uint64_t *ret_seen,
                             struct err *err)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct timespec deadline = condition_deadline(wait_ms);
    int result = 0;
    (void)err;
    sqlite_lock(store);
    while (store->synced == seen && result == 0)
        result = pthread_cond_timedwait(&store->changed, &store->lock, &deadline);
    *ret_seen = store->synced;
    sqlite_unlock(store);
    return ERR_OK;
}

/* ---- verbs ---- */

enum error_code sqlite_verb_begin(const struct sqlite_txn *txn, struct err *err)
{
    return txn->dead
               ? err_set(err, ERR_UNAVAILABLE, "this transaction has already failed: roll it back")
               : ERR_OK;
}

enum error_code sqlite_verb_end(struct sqlite_txn *txn, enum error_code code)
{
    arena_clear(&txn->scratch);
    txn->dead = txn->dead || code != ERR_OK;
    return code;
}

enum error_code sqlite_no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

bool sqlite_more(struct arena *arena, void **at, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    uint32_t larger = *cap < 8 ? 8 : *cap * 2;
    void *moved = arena_grow(arena, *at, *cap * size, larger * size);
    if (moved == NULL)
        return false;
    *at = moved;
    *cap = larger;
    return true;
}
