/* Writing behind: what is committed ahead of the database is written to it, many batches at once.
 *
 * The active table takes in what is committed. When it has become large or old, or somebody wants
 * to read, it is frozen and a thread writes it, while another takes in what comes next. Whoever has
 * the turn sees that a frozen table has been written, and keeps it as a cache until the next has.
 */
#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/planted.h"
#include "core/evolve.h"
#include "core/placement.h"
#include "store/sqlite/sqlite.h"

enum {
    TABLE_JOBS_MAX = 16 * 1024, /* and requests */
    TABLE_BYTES_MAX = 64 * 1024 * 1024,
    TABLE_MS_MAX = 1000,        /* how old it becomes when nobody asks */
    RETRY_MS = 1000,            /* after the database could not be written */
    RECOVER_BYTES = 256 * 1024, /* of the log, in one transaction */
};

/* ---- writing a table ---- */

static enum error_code put_number(struct sqlite_txn *txn, int64_t number, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_AHEAD_PUT, NULL, err);
    lite_put_int(&query, number);
    return lite_run(&query);
}

/* Writes all rows of a sort. */
static enum error_code put_rows(struct sqlite_txn *txn, enum statement statement, int *ret_changes,
                                struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    return lite_run_counted(&query, ret_changes);
}

/* What is not written with all others of its sort. */
static enum error_code put_rest(struct sqlite_txn *txn, const struct ahead_job *job,
                                struct err *err)
{
    struct place was = job->was;
    enum error_code code = ERR_OK;
    if (rows_has_left(job))
        was.lane = 0;
    /* Whether it was ready or not when it came to stand there, it is so still: whoever waits for a
     * timer is told by its promotion. */
    txn->now = job->at;
    if (!rows_is_ready(job))
        code = sqlite_replace_job(txn, &job->job, &was, &job->now, err);
    for (uint32_t i = 0;
         i < job->effect_count && code == ERR_OK && !PLANTED(SQLITE_EFFECTS_NOT_WRITTEN); i++)
        code = sqlite_put_effect(txn, &job->job.id, &job->effects[i], err);
    arena_clear(&txn->scratch);
    return code;
}

/* Takes out of their lanes what has left them. */
static enum error_code put_left(struct sqlite_txn *txn, const struct ahead_table *table,
                                struct err *err)
{
    int expected = 0;
    int found = 0;
    for (uint32_t i = 0; i < table->job_count; i++)
        expected += rows_has_left(table->jobs[i]);
    if (expected == 0)
        return ERR_OK;
    enum error_code code = put_rows(txn, STATEMENT_LEFT_WRITE_BEHIND, &found, err);
    /* When the clock was set back there may be some among the timers: one by one then, of which
     * those that are gone are known by now. */
    for (uint32_t i = 0; i < table->job_count && code == ERR_OK && found < expected; i++) {
        const struct ahead_job *job = table->jobs[i];
        bool taken = false;
        if (rows_has_left(job))
            code = sqlite_take_work(txn, &job->job.id, STEP_NONE, &job->was, &taken, err);
        found += taken;
    }
    if (code == ERR_OK && found < expected)
        code = err_set(err, ERR_CORRUPT,
                       "work does not stand in the lane that it is to be taken out of");
    return code;
}

static enum error_code put_table(struct sqlite_txn *txn, const struct ahead_table *table,
                                 struct err *err)
{
    static const enum statement sorts[] = {
        STATEMENT_JOBS_WRITE_BEHIND,
        STATEMENT_CHANGES_WRITE_BEHIND,
        STATEMENT_READY_WRITE_BEHIND,
    };
    int changes;
    enum error_code code = ERR_OK;
    if (table->events != NULL)
        code = put_rows(txn, STATEMENT_EVENTS_WRITE_BEHIND, &changes, err);
    if (code == ERR_OK)
        code = put_left(txn, table, err);
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0] && code == ERR_OK; i++)
        code = put_rows(txn, sorts[i], &changes, err);
    for (uint32_t i = 0; i < table->job_count && code == ERR_OK; i++)
        code = put_rest(txn, table->jobs[i], err);
    for (uint32_t i = 0;
         i < table->request_count && code == ERR_OK && !PLANTED(SQLITE_ANSWERS_NOT_WRITTEN); i++)
        code = sqlite_put_request(txn, table->requests[i], err);
    return code == ERR_OK && !PLANTED(SQLITE_NUMBER_NOT_RAISED)
               ? put_number(txn, table->number, err)
               : code;
}

/* In a transaction of its own on the writer, which must be free. */
static enum error_code write_table(struct sqlite_store *store, const struct ahead_table *table,
                                   struct err *err)
{
    struct sqlite_txn txn = {.store = store, .connection = &store->writer, .through = true};
    enum error_code code = lite_begin(&store->writer, STORE_WRITE, err);
    if (code != ERR_OK)
        return code;
    arena_init(&txn.scratch);
    store->rows.table = table;
    code = put_table(&txn, table, err);
    if (code == ERR_OK)
        code = lite_commit(&store->writer, err);
    else
        lite_rollback(&store->writer);
    arena_release(&txn.scratch);
    if (code == ERR_OK)
        sqlite_shorten_log(store, false);
    return code;
}

/* ---- tables ---- */

/* A frozen table that is in the database knows jobs as they are there, until the next one does.
 * Returns one that is to be freed. With the turn, and the lock. */
static struct ahead_table *retire(struct sqlite_store *store)
{
    struct ahead_table *old = store->cached;
    if (store->frozen == NULL || !store->written)
        return NULL;
    store->cached = store->frozen;
    store->frozen = NULL;
    store->written = false;
    store->passed_count = 0;
    return old;
}

/* Has the thread write the active table. With the turn, and the lock; no table is frozen. */
static void freeze(struct sqlite_store *store)
{
    assert(store->frozen == NULL);
    store->frozen = store->active;
    store->active = NULL;
    store->written = false;
    store->write_code = ERR_OK;
    store->frozen_count++;
    atomic_store(&store->overdue, false);
    if (journal_is_long(&store->journal, store->journal_long))
        journal_turn(&store->journal);
    (void)pthread_cond_broadcast(&store->behind);
}

static bool is_large(const struct ahead_table *table)
{
    return table != NULL && (table->job_count + table->request_count >= TABLE_JOBS_MAX ||
                             table->bytes >= TABLE_BYTES_MAX);
}

/* Writes the frozen table. Under the lock, which others may have meanwhile. */
static void write_frozen(struct sqlite_store *store)
{
    struct ahead_table *table = store->frozen;
    struct err err = {0};
    (void)pthread_mutex_unlock(&store->lock);
    enum error_code code = write_table(store, table, &err);
    if (code == ERR_OK)
        ahead_forget_events(table);
    (void)pthread_mutex_lock(&store->lock);
    store->written = code == ERR_OK;
    store->write_code = code;
    store->write_err = err;
    (void)pthread_cond_broadcast(&store->behind);
}

/* Waits until the frozen table is written. Under the lock. */
static enum error_code await_written(struct sqlite_store *store, uint64_t count, struct err *err)
{
    struct timespec until = condition_deadline(store->patience_ms);
    int result = 0;
    if (store->by_hand && store->frozen != NULL && !store->written)
        write_frozen(store);
    while (store->frozen_count == count && store->frozen != NULL && !store->written &&
           store->write_code == ERR_OK && result == 0)
        result = pthread_cond_timedwait(&store->behind, &store->lock, &until);
    if (store->frozen_count != count || store->frozen == NULL || store->written)
        return ERR_OK;
    if (store->write_code != ERR_OK)
        return err_set(err, store->write_code, "%s", store->write_err.detail);
    return err_set(err, ERR_UNAVAILABLE, "the database is slower than %lld ms: try again",
                   (long long)store->patience_ms);
}

enum error_code sqlite_behind_begin(struct sqlite_store *store, struct err *err)
{
    enum error_code code = ERR_OK;
    (void)pthread_mutex_lock(&store->lock);
    struct ahead_table *old = retire(store);
    if (is_large(store->active)) {
        if (store->frozen != NULL) {
            code = await_written(store, store->frozen_count, err);
            ahead_free(old);
            old = retire(store);
        }
        if (code == ERR_OK)
            freeze(store);
    }
    (void)pthread_mutex_unlock(&store->lock);
    ahead_free(old);
    if (code == ERR_OK && store->active == NULL) {
        store->active = ahead_new(store->base.options.seed, store->pool);
        if (store->active == NULL)
            code = sqlite_no_memory(err);
    }
    return code;
}

void sqlite_behind_note(struct sqlite_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    atomic_store(&store->ahead, true);
    (void)pthread_cond_broadcast(&store->behind);
    (void)pthread_mutex_unlock(&store->lock);
}

void sqlite_behind_push(struct sqlite_store *store)
{
    if (!is_large(store->active) && !atomic_load(&store->overdue))
        return;
    (void)pthread_mutex_lock(&store->lock);
    struct ahead_table *old = retire(store);
    if (store->frozen == NULL && !ahead_is_empty(store->active))
        freeze(store);
    (void)pthread_mutex_unlock(&store->lock);
    ahead_free(old);
}

enum error_code sqlite_behind_write_all(struct sqlite_store *store, struct err *err)
{
    enum error_code code = ERR_OK;
    (void)pthread_mutex_lock(&store->lock);
    if (store->frozen != NULL)
        code = await_written(store, store->frozen_count, err);
    struct ahead_table *old = retire(store);
    (void)pthread_mutex_unlock(&store->lock);
    ahead_free(old);
    if (code != ERR_OK || ahead_is_empty(store->active))
        return code;
    code = write_table(store, store->active, err);
    if (code != ERR_OK)
        return code;
    ahead_free(store->active);
    ahead_free(store->cached); /* which may know jobs that were in it as they were before */
    store->active = store->cached = NULL;
    store->passed_count = 0;
    atomic_store(&store->ahead, false);
    if (journal_is_long(&store->journal, store->journal_long))
        journal_turn(&store->journal);
    return ERR_OK;
}

enum error_code sqlite_catch_up(struct sqlite_store *store, struct err *err)
{
    while (atomic_load(&store->ahead)) {
        enum error_code code = sqlite_take_turn(store, err);
        if (code != ERR_OK)
            return code;
        (void)pthread_mutex_lock(&store->lock);
        struct ahead_table *old = retire(store);
        bool waits = store->frozen != NULL; /* for what was frozen before */
        bool all = ahead_is_empty(store->active);
        if (!waits && !all)
            freeze(store);
        if (!waits && all)
            atomic_store(&store->ahead, false);
        uint64_t count = store->frozen_count;
        (void)pthread_mutex_unlock(&store->lock);
        ahead_free(old);
        sqlite_give_turn(store, false);
        if (!waits && all)
            return ERR_OK;
        (void)pthread_mutex_lock(&store->lock);
        code = await_written(store, count, err);
        (void)pthread_mutex_unlock(&store->lock);
        if (code != ERR_OK || !waits || all)
            return code;
    }
    return ERR_OK;
}

void sqlite_behind_erase(struct sqlite_store *store)
{
    assert(ahead_is_empty(store->active) && store->frozen == NULL);
    journal_erase(&store->journal);
}

/* ---- the thread ---- */

/* Freezes what has been waiting for long enough. Whoever has the turn is asked to: waiting for it
 * in line would be waiting for those who wait for this thread. Under the lock. */
static void freeze_old(struct sqlite_store *store)
{
    if (store->writing) {
        atomic_store(&store->overdue, true);
        return;
    }
    store->writing = true;
    struct ahead_table *old = retire(store);
    bool empty = ahead_is_empty(store->active);
    if (store->frozen == NULL && !empty)
        freeze(store);
    bool idle = store->frozen == NULL;
    if (idle)
        atomic_store(&store->ahead, false);
    (void)pthread_mutex_unlock(&store->lock);
    ahead_free(old);
    if (idle) {
        /* Nothing has come for a while: no memory is kept for what may. */
        ahead_free(store->cached);
        store->cached = NULL;
        arena_pool_trim(store->pool);
    }
    sqlite_give_turn(store, false);
    (void)pthread_mutex_lock(&store->lock);
}

static void *run(void *arg)
{
    struct sqlite_store *store = arg;
    (void)pthread_mutex_lock(&store->lock);
    for (;;) {
        if (store->frozen != NULL && !store->written) {
            write_frozen(store);
            if (!store->written && store->stop)
                break;
            if (!store->written) {
                struct timespec until = condition_deadline(RETRY_MS);
                (void)pthread_cond_timedwait(&store->behind, &store->lock, &until);
            }
            continue;
        }
        if (store->stop)
            break;
        if (!atomic_load(&store->ahead)) {
            (void)pthread_cond_wait(&store->behind, &store->lock);
            continue;
        }
        struct timespec until = condition_deadline(TABLE_MS_MAX);
        uint64_t count = store->frozen_count;
        while (store->frozen_count == count && !store->stop &&
               pthread_cond_timedwait(&store->behind, &store->lock, &until) == 0) {
        }
        if (store->frozen_count != count || store->stop)
            continue;
        freeze_old(store);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return NULL;
}

void sqlite_behind_turn(struct sqlite_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    assert(store->by_hand && !store->writing);
    if (store->frozen != NULL && !store->written)
        write_frozen(store);
    else if (atomic_load(&store->ahead))
        freeze_old(store);
    (void)pthread_mutex_unlock(&store->lock);
}

/* ---- recovery ---- */

/* A job of the log as a batch would write it: the state in the database with the events folded in.
 */
static enum error_code recover_job(struct sqlite_txn *txn, const struct store_load *settings,
                                   const struct logged_job *logged, struct arena *arena,
                                   struct err *err)
{
    struct job_slice before;
    struct job_slice after;
    bool redacted;
    uint64_t seed = txn->store->base.options.seed;
    struct store_parts parts = {.job = logged->id, .all_effects = true};
    enum error_code code = sqlite_read_job(txn, logged->id, arena, &before, &redacted, err);
    if (code == ERR_OK && !logged->created)
        code = sqlite_load_parts(&txn->base, &parts, 1, arena, err);
    before.effects = parts.effects;
    before.effect_count = before.effect_cap = parts.effect_count;
    if (code == ERR_OK)
        code = job_slice_copy(&before, arena, &after);
    if (code == ERR_OK && logged->created)
        memcpy(after.job.salt, logged->salt, SALT_LEN);
    for (uint32_t i = 0; i < logged->event_count && code == ERR_OK; i++) {
        code = event_open(&logged->events[i], seed, arena, err);
        if (code == ERR_OK)
            code = job_evolve(&after, &logged->events[i], arena, err);
    }
    if (code != ERR_OK || logged->event_count == 0)
        return code;
    memcpy(after.job.head, logged->events[logged->event_count - 1].hash, HASH_LEN);
    const struct kind_settings *kind = NULL;
    for (uint32_t i = 0; i < settings->kind_count; i++)
        if (str_eq(settings->kinds[i].kind, after.job.spec.kind))
            kind = &settings->kinds[i].settings;
    struct store_job_write write = {
        .after = &after,
        .changed = CHANGED_ALL,
        .events = logged->events,
        .event_count = logged->event_count,
        .created = logged->created,
        .purge_at = job_purge_at(&after.job, kind),
    };
    const struct effect **effects =
        arena_alloc(arena, (after.effect_count + (size_t)1) * sizeof(void *));
    if (effects == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < after.effect_count; i++)
        effects[write.effect_count++] = &after.effects[i];
    write.effects = effects;
    if (!logged->created)
        code = placement_of_job(&before.job, arena, &write.was, err);
    if (code == ERR_OK)
        code = placement_of_job(&after.job, arena, &write.now, err);
    return code == ERR_OK ? sqlite_write_job(txn, &write, err) : code;
}

/* Within a transaction that is open. */
static enum error_code recover_record(struct sqlite_store *store,
                                      const struct journal_record *record, struct arena *arena,
                                      struct err *err)
{
    struct sqlite_txn txn = {
        .base = {.store = &store->base, .mode = STORE_WRITE},
        .store = store,
        .connection = &store->writer,
        .through = true,
    };
    struct logged_batch batch;
    struct store_load settings = {0};
    enum error_code code = sqlite_read_record(record->body, arena, &batch, err);
    if (code != ERR_OK)
        return code;
    txn.now = batch.now;
    txn.feed_end = batch.feed_end;
    code = sqlite_load(&txn.base, &settings, arena, err);
    for (uint32_t i = 0; i < batch.job_count && code == ERR_OK; i++) {
        code = recover_job(&txn, &settings, &batch.jobs[i], arena, err);
        arena_clear(&txn.scratch);
    }
    for (uint32_t i = 0; i < batch.request_count && code == ERR_OK; i++)
        code = sqlite_put_request(&txn, &batch.requests[i], err);
    if (code == ERR_OK)
        code = put_number(&txn, record->number, err);
    if (code == ERR_OK)
        store->feed_end = txn.feed_end;
    arena_release(&txn.scratch);
    return code;
}

/* Records from `*next` on, as many as `bytes` have room for, but at least one. */
static enum error_code recover_some(struct sqlite_store *store,
                                    const struct journal_record *records, uint32_t count,
                                    size_t bytes, uint32_t *next, struct err *err)
{
    enum error_code code = ERR_OK;
    size_t done = 0;
    while (*next < count && code == ERR_OK && done < bytes) {
        const struct journal_record *record = &records[(*next)++];
        struct arena scratch;
        if (record->number <= store->number)
            continue;
        if (record->previous != store->number)
            return err_set(err, ERR_UNAVAILABLE,
                           "the log beside it (-ahead0, -ahead1) goes on from commit %lld, but the "
                           "database ends with %lld: they do not belong together. Put the right "
                           "database back, or move the log away",
                           (long long)record->previous, (long long)store->number);
        arena_init(&scratch);
        code = recover_record(store, record, &scratch, err);
        if (code == ERR_OK)
            store->number = record->number;
        arena_release(&scratch);
        done += record->body.len;
    }
    return code;
}

/* Many records a transaction, so that a page which all of them change is written once; and after
 * each the pages go from SQLite's log to the database, so that the log stays short. */
static enum error_code recover_all(struct sqlite_store *store, const struct journal_record *records,
                                   uint32_t count, uint32_t *next, struct err *err)
{
    enum error_code code = ERR_OK;
    while (*next < count && code == ERR_OK) {
        int64_t number = store->number;
        int64_t feed_end = store->feed_end;
        uint32_t from = *next;
        code = lite_begin(&store->writer, STORE_WRITE, err);
        if (code != ERR_OK)
            break;
        code = recover_some(store, records, count, RECOVER_BYTES, next, err);
        if (code == ERR_OK)
            code = lite_commit(&store->writer, err);
        else
            lite_rollback(&store->writer);
        if (code != ERR_OK) {
            store->number = number;
            store->feed_end = feed_end;
            *next = from;
        } else if (!PLANTED(SQLITE_RECOVERY_PILES_UP)) {
            (void)lite_checkpoint(&store->writer, SQLITE_CHECKPOINT_TRUNCATE);
        }
    }
    return code;
}

/* What cannot be written for lack of space can still be read: all records are applied in a
 * transaction that stays open, in memory, and is never committed. */
static enum error_code recover_for_reading(struct sqlite_store *store,
                                           const struct journal_record *records, uint32_t count,
                                           uint32_t next, const struct err *why, struct err *err)
{
    enum error_code code =
        lite_run_sql(&store->writer, STR("PRAGMA cache_spill = OFF"), "recover the database", err);
    if (code == ERR_OK)
        code = lite_begin(&store->writer, STORE_WRITE, err);
    if (code != ERR_OK)
        return code;
    code = recover_some(store, records, count, SIZE_MAX, &next, err);
    store->shared = code == ERR_OK ? calloc(1, sizeof *store->shared) : NULL;
    if (code == ERR_OK && store->shared == NULL)
        code = sqlite_no_memory(err);
    if (code != ERR_OK) {
        lite_rollback(&store->writer);
        return code;
    }
    arena_init(&store->shared->txn.scratch);
    (void)pthread_mutex_init(&store->sharing, NULL);
    store->read_only = true;
    store->read_only_why = *why;
    return ERR_OK;
}

static enum error_code read_number(struct sqlite_store *store, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_AHEAD_GET, NULL, err);
    if (lite_next(&query)) {
        store->number = lite_read_int(&query);
        lite_read_blob(&query, store->log_id, sizeof store->log_id);
    }
    return lite_end(&query);
}

static enum error_code read_newest(struct sqlite_store *store, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_JOB_NEWEST, NULL, err);
    if (lite_next(&query) && !lite_next_is_null(&query))
        store->newest = lite_read_uuid(&query);
    return lite_end(&query);
}

/* A record begins with the id of its database. */
static enum error_code check_owner(const struct sqlite_store *store, struct journal_record *record,
                                   struct err *err)
{
    size_t len = sizeof store->log_id;
    if (record->body.len < len || memcmp(record->body.at, store->log_id, len) != 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the log beside it (-ahead0, -ahead1) is that of another database: they do "
                       "not belong together. Put the right database back, or move the log away");
    record->body = (struct str){record->body.at + len, record->body.len - len};
    return ERR_OK;
}

/* Brings the database up to the log. */
static enum error_code recover(struct sqlite_store *store, struct err *err)
{
    struct arena arena;
    struct journal_record *records = NULL;
    uint32_t count = 0;
    arena_init(&arena);
    enum error_code code = read_number(store, err);
    if (code == ERR_OK)
        code = journal_read(&store->journal, store->number, &arena, &records, &count, err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = check_owner(store, &records[i], err);
    uint32_t next = 0;
    struct err why = {0};
    if (code == ERR_OK) {
        code = recover_all(store, records, count, &next, &why);
        /* Somebody may have made room meanwhile. */
        if (code == ERR_UNAVAILABLE && store->writer.is_full)
            code = recover_all(store, records, count, &next, &why);
        if (code == ERR_UNAVAILABLE && store->writer.is_full)
            code = recover_for_reading(store, records, count, next, &why, err);
        else if (code != ERR_OK && err != NULL)
            *err = why;
    }
    arena_release(&arena);
    if (code == ERR_OK)
        code = read_newest(store, err);
    if (code == ERR_OK && !store->read_only)
        journal_erase(&store->journal);
    return code;
}

/* ---- from opening to closing ---- */

enum error_code sqlite_behind_open(struct sqlite_store *store, struct err *err)
{
    store->pool = arena_pool_new();
    if (store->pool == NULL)
        return sqlite_no_memory(err);
    enum error_code code = journal_open(&store->journal, &store->owner, err);
    if (code != ERR_OK)
        return code;
    code = recover(store, err);
    if (code == ERR_OK)
        code = rows_offer(&store->rows, &store->writer, err);
    if (code == ERR_OK)
        code =
            lite_open(&store->front, store->owner.path, CONNECTION_READER, store->patience_ms, err);
    if (code == ERR_OK && store->read_only)
        store->by_hand = true; /* there is nothing to write behind */
    if (code == ERR_OK && !store->by_hand &&
        pthread_create(&store->thread, NULL, run, store) != 0) {
        code = err_set(err, ERR_UNAVAILABLE, "the system has no threads left");
        lite_close(&store->front);
    }
    if (code != ERR_OK)
        journal_close(&store->journal, &store->owner, false);
    return code;
}

void sqlite_behind_close(struct sqlite_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    store->stop = true;
    if (store->by_hand && store->frozen != NULL && !store->written)
        write_frozen(store);
    (void)pthread_cond_broadcast(&store->behind);
    (void)pthread_mutex_unlock(&store->lock);
    if (!store->by_hand)
        (void)pthread_join(store->thread, NULL);
    /* Files that were deleted may have a new owner, and what has their names is that one's. */
    bool gone;
    bool ours = !atomic_load(&store->lost) && owner_check(&store->owner, &gone, NULL) == ERR_OK;
    bool done = ours && !store->read_only && (store->frozen == NULL || store->written);
    if (done && !ahead_is_empty(store->active))
        done = write_table(store, store->active, NULL) == ERR_OK;
    ahead_free(store->cached);
    ahead_free(store->frozen);
    ahead_free(store->active);
    lite_close(&store->front);
    journal_close(&store->journal, ours ? &store->owner : NULL, done);
}
