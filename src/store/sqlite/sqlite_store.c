#include "store/sqlite/sqlite_store.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/migrations.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/sqlite_schema.h"

enum { TIMEOUT_MS_DEFAULT = 30 * 1000 };

static void close_store(struct store *base)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    sqlite_checkpoints_stop(store);
    sqlite_turns_release(store);
    /* SQLite would delete the log by its name, which may be that of another store by now. */
    if (atomic_load(&store->lost))
        (void)sqlite3_db_config(store->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    else
        sqlite_beats_save(store);
    /* By hand, so that a failed fsync is seen. Whatever else fails, the log stays. */
    (void)lite_checkpoint(&store->writer, SQLITE_CHECKPOINT_TRUNCATE);
    lite_close(&store->writer);
    lane_book_release(&store->lanes);
    arena_release(&store->txn.scratch);
    arena_release(&store->txn.notes);
    arena_release(&store->sweep_arena);
    header_cache_release(&store->headers);
    beats_release(&store->beats);
    job_counts_release(&store->counts);
    lease_ends_release(&store->lease_ends);
    owner_release(&store->owner);
    store_clock_release(&store->clock);
    free(store);
}

static const struct store_driver driver = {
    .name = "sqlite",
    .close = close_store,
    .begin = sqlite_begin,
    .load = sqlite_load,
    .load_parts = sqlite_load_parts,
    .lanes = sqlite_lanes,
    .candidates = sqlite_candidates,
    .promote = sqlite_promote,
    .write = sqlite_write,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .due = sqlite_due,
    .list = sqlite_list,
    .events = sqlite_events,
    .feed = sqlite_feed,
    .feed_state = sqlite_feed_state,
    .watch = sqlite_watch,
    .await_turn = sqlite_await_turn,
    .leases_on = sqlite_leases_on,
    .queues = sqlite_queues,
    .workers = sqlite_workers,
    .step_counts = sqlite_step_counts,
    .resources = sqlite_resources,
    .registrations = sqlite_registrations,
    .registration_count = sqlite_registration_count,
    .tokens = sqlite_tokens,
    .backup = sqlite_backup,
    .sweep = sqlite_sweep,
    .record_liveness = sqlite_record_liveness,
};

/* Opens the writer and makes the schema what it should be. */
static enum error_code open_writer(struct sqlite_store *store, const struct migrations *known,
                                   struct err *err)
{
    enum file_content content;
    enum error_code code = owner_look(&store->owner, store->base.options.create, &content, err);
    if (code != ERR_OK)
        return code;
    const char *slash = strrchr(store->owner.path, '/');
    size_t home_len = slash == store->owner.path ? 1 : (size_t)(slash - store->owner.path);
    store->base.home = (struct str){store->owner.path, home_len};
    bool had_log = owner_has_log(&store->owner);
    code = lite_open(&store->writer, store->owner.path, CONNECTION_WRITER, store->timeout_ms, err);
    if (code != ERR_OK)
        return code;
    struct str read_version = STR("PRAGMA user_version");
    code = lite_get_int(&store->writer, read_version, &store->base.schema_found, err);
    if (code == ERR_OK)
        code = sqlite_schema_apply(store, content, known, err);
    if (code == ERR_OK)
        code = lite_get_int(&store->writer, read_version, &store->base.schema_version, err);
    /* What this binary may not use it leaves as it was found. */
    if (code != ERR_OK && had_log)
        (void)sqlite3_db_config(store->writer.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return code;
}

enum error_code sqlite_ends_read(struct sqlite_store *store, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_FEED_END, NULL, err);
    if (lite_next(&query))
        store->feed_end = lite_read_int(&query);
    enum error_code code = lite_end(&query);
    if (code != ERR_OK)
        return code;
    query = lite_query(&store->writer, STATEMENT_JOB_LAST, NULL, err);
    if (lite_next(&query))
        store->last_no = lite_read_int(&query);
    code = lite_end(&query);
    if (code != ERR_OK)
        return code;
    query = lite_query(&store->writer, STATEMENT_JOB_NEWEST, NULL, err);
    if (lite_next(&query) && !lite_next_is_null(&query))
        store->newest = lite_read_uuid(&query);
    return lite_end(&query);
}

static enum error_code open_owned(struct sqlite_store *store, const struct migrations *known,
                                  struct err *err)
{
    enum error_code code = sqlite_turns_init(store, err);
    if (code != ERR_OK)
        return code;
    code = open_writer(store, known, err);
    if (code == ERR_OK)
        code = sqlite_ends_read(store, err);
    if (code == ERR_OK)
        code = sqlite_lanes_read(store, err);
    if (code == ERR_OK)
        code = sqlite_beats_open(store, err);
    if (code == ERR_OK)
        code = sqlite_counts_read(store, err);
    if (code == ERR_OK)
        code = sqlite_leases_read(store, err);
    if (code == ERR_OK) {
        owner_remember(&store->owner);
        return ERR_OK;
    }
    lite_close(&store->writer);
    lane_book_release(&store->lanes);
    sqlite_turns_release(store);
    return code;
}

/* The detail with the path in front of it. */
static void name_path(struct str path, struct err *err)
{
    char detail[sizeof err->detail];
    if (err == NULL)
        return;
    memcpy(detail, err->detail, sizeof detail);
    err_write(err, err->code, "%.*s: %s", STR_ARG(path), detail);
}

static enum error_code open_store(struct str path, const struct store_options *options,
                                  int log_pages_max, const struct migrations *known,
                                  struct store **ret, struct err *err)
{
    struct sqlite_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return sqlite_no_memory(err);
    store->log_pages_max = log_pages_max;
    store->list_rows_max = LIST_ROWS_MAX;
    store->request_swept = (struct request_key){STR(""), STR("")};
    store->checkpointer.inline_only = log_pages_max != LOG_PAGES_MAX;
    store->base = (struct store){.driver = &driver, .options = *options};
    store_clock_init(&store->clock, options->clock, options->clock_arg, NULL, NULL);
    store->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    arena_init(&store->txn.scratch);
    arena_init(&store->txn.notes);
    arena_init(&store->sweep_arena);
    header_cache_init(&store->headers, options->seed);
    beats_init(&store->beats, options->seed);
    job_counts_init(&store->counts, options->seed);
    lease_ends_init(&store->lease_ends);
    lane_book_init(&store->lanes, options->seed);
    store->lanes_many = store_lanes_many(0);
    enum error_code code = owner_take(path, options->create, &store->owner, err);
    if (code == ERR_OK) {
        store_clock_resume(&store->clock, store->owner.noted_at);
        code = open_owned(store, known, err);
        if (code != ERR_OK)
            owner_undo(&store->owner);
    }
    if (code != ERR_OK) {
        header_cache_release(&store->headers);
        beats_release(&store->beats);
        job_counts_release(&store->counts);
        lease_ends_release(&store->lease_ends);
        free(store);
        name_path(path, err);
        return code;
    }
    *ret = &store->base;
    return ERR_OK;
}

enum error_code sqlite_store_open(struct str path, const struct store_options *options,
                                  struct store **ret, struct err *err)
{
    return sqlite_store_open_known(path, options, &sqlite_migrations, ret, err);
}

enum error_code sqlite_store_open_known(struct str path, const struct store_options *options,
                                        const struct migrations *known, struct store **ret,
                                        struct err *err)
{
    return open_store(path, options, LOG_PAGES_MAX, known, ret, err);
}

enum error_code sqlite_store_open_with(struct str path, const struct store_options *options,
                                       int log_pages_max, struct store **ret, struct err *err)
{
    return open_store(path, options, log_pages_max, &sqlite_migrations, ret, err);
}
