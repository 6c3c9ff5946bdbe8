/* Who may use which connection and when; how transactions begin and end; watching for commits. */
#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/planted.h"
#include "store/sqlite/sqlite.h"

/* When it was waited for readers in vain that is done again only when the log has grown by so many
 * pages, or after a while: a reader that stays shall not make every commit wait. */
enum {
    READERS_PATIENCE_MS = 1000,
    READERS_REST_MS = 10 * 1000,
};

/* ---- locks ---- */

static void lock(struct sqlite_store *store)
{
    int result = pthread_mutex_lock(&store->lock);
    assert(result == 0);
    (void)result;
}

static void unlock(struct sqlite_store *store)
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
    if (condition_init(&store->behind))
        return ERR_OK;
    (void)pthread_cond_destroy(&store->returned);
out_changed:
    (void)pthread_cond_destroy(&store->changed);
out_mutex:
    (void)pthread_mutex_destroy(&store->lock);
out:
    return err_set(err, ERR_UNAVAILABLE, "the system has no locks left");
}

void sqlite_turns_release(struct sqlite_store *store)
{
    assert(!store->writing && store->first_turn == NULL);
    assert(store->reader_count == store->idle_count);
    while (store->idle != NULL) {
        struct reader_connection *reader = store->idle;
        store->idle = reader->next;
        lite_close(&reader->connection);
        arena_release(&reader->txn.scratch);
        free(reader);
    }
    (void)pthread_cond_destroy(&store->behind);
    (void)pthread_cond_destroy(&store->returned);
    (void)pthread_cond_destroy(&store->changed);
    (void)pthread_mutex_destroy(&store->lock);
}

/* ---- the writer, one after the other ---- */

static void join_line(struct sqlite_store *store, struct turn *turn)
{
    if (store->last_turn == NULL)
        store->first_turn = turn;
    else
        store->last_turn->next = turn;
    store->last_turn = turn;
}

static void leave_line(struct sqlite_store *store, struct turn *turn)
{
    struct turn *before = NULL;
    for (struct turn *at = store->first_turn; at != turn; at = at->next)
        before = at;
    if (before == NULL)
        store->first_turn = turn->next;
    else
        before->next = turn->next;
    if (store->last_turn == turn)
        store->last_turn = before;
}

enum error_code sqlite_take_turn(struct sqlite_store *store, struct err *err)
{
    struct turn turn = {.is_mine = false};
    lock(store);
    if (!store->writing) {
        store->writing = true;
        unlock(store);
        return ERR_OK;
    }
    if (!condition_init(&turn.came)) {
        unlock(store);
        return err_set(err, ERR_UNAVAILABLE, "the system has no locks left");
    }
    join_line(store, &turn);

    struct timespec deadline = condition_deadline(store->patience_ms);
    int result = 0;
    while (!turn.is_mine && result == 0)
        result = pthread_cond_timedwait(&turn.came, &store->lock, &deadline);
    if (!turn.is_mine)
        leave_line(store, &turn);
    unlock(store);
    (void)pthread_cond_destroy(&turn.came);
    if (turn.is_mine)
        return ERR_OK;
    return err_set(err, ERR_UNAVAILABLE, "other transactions took longer than %lld ms: try again",
                   (long long)store->patience_ms);
}

/* Hands the writer to whoever has waited longest. */
void sqlite_give_turn(struct sqlite_store *store, bool committed)
{
    lock(store);
    assert(store->writing);
    struct turn *turn = store->first_turn;
    if (turn == NULL) {
        store->writing = false;
    } else {
        store->first_turn = turn->next;
        if (store->first_turn == NULL)
            store->last_turn = NULL;
        turn->is_mine = true;
        (void)pthread_cond_signal(&turn->came);
    }
    if (committed) {
        store->commits++;
        (void)pthread_cond_broadcast(&store->changed);
    }
    unlock(store);
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
                       "a file of the store was away while it was in use: end this process, and "
                       "start again");
    return code;
}

/* The same for whoever has the writer. What is in a log without a name is moved to the database,
 * which may well be there. */
static enum error_code check_before_write(struct sqlite_store *store, struct err *err)
{
    enum error_code code = check_files(store, err);
    if (code == ERR_OK || store->log_saved || !atomic_load(&store->lost))
        return code;
    lock(store);
    bool busy = store->frozen != NULL && !store->written; /* somebody writes behind with it */
    unlock(store);
    if (busy)
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
    struct timespec deadline = condition_deadline(store->patience_ms);
    int result = 0;
    lock(store);
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
    unlock(store);
    return found ? ERR_OK
                 : err_set(err, ERR_UNAVAILABLE, "%d transactions read already: try again",
                           READERS_MAX);
}

static void give_reader(struct sqlite_store *store, struct reader_connection *reader)
{
    lock(store);
    bool kept = reader != NULL && store->idle_count < READERS_KEPT_MAX;
    if (kept) {
        reader->next = store->idle;
        store->idle = reader;
        store->idle_count++;
    } else {
        store->reader_count--;
    }
    (void)pthread_cond_signal(&store->returned);
    unlock(store);
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
    code = lite_open(&reader->connection, store->owner.path, CONNECTION_READER, store->patience_ms,
                     err);
    if (code != ERR_OK) {
        free(reader);
        return code;
    }
    arena_init(&reader->txn.scratch);
    *ret = reader;
    return ERR_OK;
}

/* The writer, in its open transaction. */
static void begin_shared(struct sqlite_store *store, struct sqlite_txn **ret)
{
    struct reader_connection *reader = store->shared;
    (void)pthread_mutex_lock(&store->sharing);
    reader->txn.connection = &store->writer;
    reader->txn.reader = reader;
    *ret = &reader->txn;
}

static enum error_code begin_read(struct sqlite_store *store, struct sqlite_txn **ret,
                                  struct err *err)
{
    if (store->read_only) {
        begin_shared(store, ret);
        return ERR_OK;
    }
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
    reader->txn.connection = &reader->connection;
    reader->txn.reader = reader;
    *ret = &reader->txn;
    return ERR_OK;
}

/* ---- transactions ---- */

static enum error_code begin_write(struct sqlite_store *store, struct sqlite_txn **ret,
                                   struct err *err)
{
    if (store->read_only)
        return err_set(err, ERR_UNAVAILABLE,
                       "the store can only be read until there is room to recover it: %.300s",
                       store->read_only_why.detail);
    enum error_code code = sqlite_take_turn(store, err);
    if (code != ERR_OK)
        return code;
    code = check_before_write(store, err);
    if (code == ERR_OK)
        code = sqlite_behind_begin(store, err);
    if (code != ERR_OK) {
        sqlite_give_turn(store, false);
        return code;
    }
    lite_begin_later(&store->front);
    store->txn.store = store;
    store->txn.connection = &store->front;
    store->txn.reader = NULL;
    store->txn.through = false;
    sqlite_stage_begin(&store->txn);
    *ret = &store->txn;
    return ERR_OK;
}

enum error_code sqlite_begin(struct store *base, enum store_mode mode, struct store_txn **ret,
                             struct err *err)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct sqlite_txn *txn;
    enum error_code code = mode == STORE_READ && !PLANTED(SQLITE_READS_THE_PAST)
                               ? sqlite_catch_up(store, err)
                               : ERR_OK;
    if (code == ERR_OK)
        code = mode == STORE_WRITE ? begin_write(store, &txn, err) : begin_read(store, &txn, err);
    if (code != ERR_OK)
        return code;
    txn->base = (struct store_txn){.store = base, .mode = mode};
    txn->store = store;
    txn->now = store_clock_now(&store->clock);
    if (mode == STORE_WRITE)
        txn->feed_end = store->feed_end; /* which is the writer's */
    txn->dead = false;
    txn->lanes_added = false;
    txn->redacting = false;
    if (mode == STORE_WRITE && store->lanes_stale)
        code = sqlite_go_through(txn, err);
    if (code != ERR_OK) {
        sqlite_rollback(&txn->base);
        return code;
    }
    *ret = &txn->base;
    return ERR_OK;
}

/* Empties the log, for which no reader may be in it any more. */
static void empty_log(struct sqlite_store *store)
{
    struct connection *writer = &store->writer;
    int64_t patience_ms = store->patience_ms > INT_MAX ? INT_MAX : store->patience_ms;
    bool waits = !store->log_held ||
                 writer->wal_pages - store->log_held_pages >= store->log_pages_max ||
                 clock_monotonic_ms() - store->log_held_at >= READERS_REST_MS;
    (void)sqlite3_busy_timeout(writer->db, waits ? READERS_PATIENCE_MS : 0);
    bool emptied = lite_checkpoint(writer, SQLITE_CHECKPOINT_TRUNCATE) &&
                   (!store->log_erased || PLANTED(SQLITE_LOG_STAYS) || lite_sync_log(writer));
    (void)sqlite3_busy_timeout(writer->db, (int)patience_ms);
    if (emptied) {
        store->log_erased = false;
        store->log_held = false;
    } else if (waits) {
        store->log_held = true;
        store->log_held_pages = writer->wal_pages;
        store->log_held_at = clock_monotonic_ms();
    }
}

/* What is still in the log is in the way of nobody, unless it was to be erased. Commits are done
 * when this is called: what cannot be moved now will be another time. */
void sqlite_shorten_log(struct sqlite_store *store, bool erased)
{
    int pages = store->writer.wal_pages;
    store->log_erased = store->log_erased || erased;
    if (store->log_erased || pages >= LOG_URGENT * store->log_pages_max)
        empty_log(store);
    else if (pages >= store->log_pages_max)
        (void)lite_checkpoint(&store->writer, SQLITE_CHECKPOINT_PASSIVE);
}

static void end_write(struct sqlite_txn *txn, bool committed)
{
    struct sqlite_store *store = txn->store;
    if (committed)
        store->feed_end = txn->feed_end;
    else if (txn->lanes_added)
        store->lanes_stale = true;
    if (committed && txn->through) {
        if (txn->redacting)
            sqlite_behind_erase(store);
        sqlite_shorten_log(store, txn->redacting);
    }
    sqlite_stage_end(txn);
    if (!committed && !txn->through)
        sqlite_stage_waste(txn);
    sqlite_behind_push(store);
    arena_clear(&txn->scratch);
    sqlite_give_turn(store, committed);
}

static void end_read(struct sqlite_txn *txn)
{
    arena_clear(&txn->scratch);
    if (txn->store->read_only) {
        (void)pthread_mutex_unlock(&txn->store->sharing);
        return;
    }
    give_reader(txn->store, txn->reader);
}

/* Commits that go straight to the database have numbers too, so that it is known which records of
 * the log come after them. */
static enum error_code commit_through(struct sqlite_txn *txn, struct err *err)
{
    struct sqlite_store *store = txn->store;
    if (sqlite3_total_changes(txn->connection->db) == txn->changes)
        return lite_commit(txn->connection, err);
    struct query query = lite_query(txn->connection, STATEMENT_AHEAD_PUT, NULL, err);
    lite_put_int(&query, store->number + 1);
    enum error_code code = lite_run(&query);
    if (code == ERR_OK)
        code = lite_commit(txn->connection, err);
    else
        lite_rollback(txn->connection);
    store->number += code == ERR_OK;
    return code;
}

enum error_code sqlite_commit(struct store_txn *base, enum store_outcome *outcome, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    bool ahead = txn->reader == NULL && !txn->through;
    enum error_code code = sqlite_verb_begin_ahead(txn, err);
    if (txn->store->read_only) {
        *outcome = code == ERR_OK ? STORE_COMMITTED : STORE_NOT_COMMITTED;
        end_read(txn);
        return code;
    }
    if (code != ERR_OK || ahead)
        lite_rollback(txn->connection);
    else if (txn->reader != NULL)
        code = lite_commit(txn->connection, err);
    else
        code = commit_through(txn, err);
    if (code == ERR_OK && ahead)
        code = sqlite_commit_ahead(txn, err);
    *outcome = code == ERR_OK ? STORE_COMMITTED : STORE_NOT_COMMITTED;
    if (txn->reader != NULL)
        end_read(txn);
    else
        end_write(txn, code == ERR_OK);
    return code;
}

void sqlite_rollback(struct store_txn *base)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    if (txn->store->read_only) {
        end_read(txn);
        return;
    }
    lite_rollback(txn->connection);
    if (txn->reader != NULL)
        end_read(txn);
    else
        end_write(txn, false);
}

enum error_code sqlite_watch(struct store *base, uint64_t seen, int64_t wait_ms, uint64_t *ret_seen,
                             struct err *err)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct timespec deadline = condition_deadline(wait_ms);
    int result = 0;
    (void)err;
    lock(store);
    while (store->commits == seen && result == 0)
        result = pthread_cond_timedwait(&store->changed, &store->lock, &deadline);
    *ret_seen = store->commits;
    unlock(store);
    return ERR_OK;
}

/* ---- verbs ---- */

enum error_code sqlite_verb_begin_ahead(const struct sqlite_txn *txn, struct err *err)
{
    return txn->dead
               ? err_set(err, ERR_UNAVAILABLE, "this transaction has failed before: roll it back")
               : ERR_OK;
}

enum error_code sqlite_verb_begin(struct sqlite_txn *txn, struct err *err)
{
    enum error_code code = sqlite_verb_begin_ahead(txn, err);
    if (code == ERR_OK && txn->reader == NULL && !txn->through) {
        code = sqlite_go_through(txn, err);
        txn->dead = code != ERR_OK;
    }
    return code;
}

enum error_code sqlite_verb_end(struct sqlite_txn *txn, enum error_code code)
{
    arena_clear(&txn->scratch);
    txn->dead = txn->dead || code != ERR_OK;
    return code;
}

enum error_code sqlite_no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "there is not enough memory for the transaction");
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
