/* Transactions: begin, commit, rollback, and what every verb does first and last. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/postgres/postgres.h"
#include "store/postgres/resolve.h"

enum {
    BATCHES_KEPT = 256,      /* how often a session cleans up after itself */
    IDLE_MS_MIN = 60 * 1000, /* for a transaction whose client says nothing any more */
};

enum error_code postgres_begin(struct store *handle, enum store_mode mode, struct store_txn **ret,
                               struct err *err)
{
    struct postgres *store = (struct postgres *)handle;
    struct postgres_txn *txn = calloc(1, sizeof *txn);
    if (txn == NULL)
        return out_of_memory(err);
    enum error_code code = pool_take(store, &txn->connection, err);
    if (code != ERR_OK) {
        free(txn);
        return code;
    }
    if (mode == STORE_WRITE)
        clock_settle(store, txn->connection);
    txn->base = (struct store_txn){.store = handle, .mode = mode};
    txn->store = store;
    txn->has_requests = true;
    arena_init(&txn->scratch);
    arena_init(&txn->notes);
    *ret = &txn->base;
    return ERR_OK;
}

static void txn_free(struct postgres_txn *txn)
{
    candidates_forget(txn);
    pool_give(txn->store, txn->connection);
    arena_release(&txn->scratch);
    arena_release(&txn->notes);
    free(txn);
}

void txn_settings(char *ret, size_t size, enum store_mode mode, bool is_local, int64_t timeout_ms)
{
    int64_t idle_ms = 2 * timeout_ms > IDLE_MS_MIN ? 2 * timeout_ms : IDLE_MS_MIN;
    const char *local = is_local ? "true" : "false";
    (void)snprintf(
        ret, size,
        "SELECT set_config(s.name, s.value, %s) FROM (VALUES ('enable_seqscan', 'off'),"
        " ('enable_bitmapscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),"
        " ('enable_material', 'off'), ('jit', 'off'),"
        /* Before version 14 it does not exist. */
        " (CASE WHEN current_setting('enable_memoize', true) IS NULL THEN 'jit'"
        " ELSE 'enable_memoize' END, 'off'), ('plan_cache_mode', '%s'), ('lock_timeout', '%lld'),"
        " ('idle_in_transaction_session_timeout', '%lld'),"
        /* Acknowledged means durable, whatever the database does otherwise. */
        " ('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), '%s'),"
        " 'on'))) AS s (name, value)",
        local, mode == STORE_WRITE ? "force_generic_plan" : "auto",
        (long long)(timeout_ms - timeout_ms / 8), (long long)idle_ms, "off");
}

/* Sets a session up for writing, once. Only where nothing stands between us and the server: a
 * pooler would give the session to others, and us another one. */
static enum error_code settle_session(struct postgres_txn *txn, struct err *err)
{
    struct connection *connection = txn->connection;
    if (connection->is_settled || connection->prepared.ready == 0)
        return ERR_OK;
    enum error_code code =
        connection_send_quiet(connection, txn->store->session_settings, NULL, err);
    if (code == ERR_OK)
        code = connection_sync(connection, err);
    connection->is_settled = code == ERR_OK;
    return code;
}

/* Queues BEGIN and, unless the session has them, the settings. */
static enum error_code begin(struct postgres_txn *txn, struct err *err)
{
    bool is_reader = txn->base.mode == STORE_READ;
    struct connection *connection = txn->connection;
    bool names = !txn->store->is_nameless;
    struct params none;
    params_init(&none, &txn->scratch);
    enum error_code code = names ? connection_prepare(connection, err) : ERR_OK;
    if (code == ERR_OK && names)
        code = settle_session(txn, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection,
                                     is_reader ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
                                               : "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
                                     NULL, err);
    connection->is_naming = names && !is_reader;
    txn->is_generic = names && connection->is_settled;
    return code == ERR_OK && !txn->is_generic
               ? connection_send_quiet(connection, txn->store->settings[txn->base.mode], &none, err)
               : code;
}

enum error_code txn_start_planned(struct postgres_txn *txn, struct err *err)
{
    arena_clear(&txn->scratch);
    if (txn->failed)
        return err_set(err, ERR_UNAVAILABLE,
                       "this transaction has already failed: roll it back and run it again");
    enum error_code code = txn->begun ? ERR_OK : begin(txn, err);
    txn->begun = true;
    txn->connection->is_naming = !txn->store->is_nameless;
    return code;
}

enum error_code txn_start(struct postgres_txn *txn, struct err *err)
{
    struct params none;
    enum error_code code = txn_start_planned(txn, err);
    if (code != ERR_OK || txn->base.mode == STORE_WRITE)
        return code;
    params_init(&none, &txn->scratch);
    if (txn->is_generic)
        code = connection_send_quiet(
            txn->connection, "SELECT set_config('plan_cache_mode', 'auto', true)", &none, err);
    txn->is_generic = false;
    txn->connection->is_naming = false;
    return code;
}

enum error_code txn_flush(struct postgres_txn *txn, struct err *err)
{
    return connection_flush(txn->connection, err);
}

enum error_code txn_end_verb(struct postgres_txn *txn, enum error_code code)
{
    if (code != ERR_OK)
        txn->failed = true;
    return code;
}

enum error_code txn_ask(struct postgres_txn *txn, const char *sql, struct params *params,
                        PGresult **ret, struct err *err)
{
    return connection_ask(txn->connection, sql, params, ret, err);
}

enum error_code txn_ask_int(struct postgres_txn *txn, const char *sql, struct params *params,
                            int64_t *ret, struct err *err)
{
    PGresult *result;
    struct reader reader;
    enum error_code code = txn_ask(txn, sql, params, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, &txn->scratch);
    reader_row(&reader, 0);
    int64_t number = reader_int(&reader);
    code = reader_check(&reader, "a number", err);
    PQclear(result);
    if (code == ERR_OK)
        *ret = number;
    return code;
}

enum error_code txn_rows(struct postgres_txn *txn, const char *sql, struct params *params,
                         struct rows *rows, struct arena *arena, struct err *err)
{
    struct reader reader;
    PGresult *result;
    enum error_code code = txn_ask(txn, sql, params, &result, err);
    if (code != ERR_OK)
        return code;
    uint32_t count = (uint32_t)PQntuples(result);
    char *at = arena_zalloc(arena, count, rows->size);
    if (at == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        code = rows->read(&reader, rows, at + i * rows->size, err);
    }
    PQclear(result);
    rows->at = at;
    rows->count = count;
    return code;
}

enum error_code txn_now(struct postgres_txn *txn, int64_t *ret, struct err *err)
{
    const struct store_options *options = &txn->store->base.options;
    if (!txn->has_now && options->clock != NULL) {
        txn->now = options->clock(options->clock_arg);
    } else if (!txn->has_now) {
        enum error_code code = txn_ask_int(txn, "SELECT " SQL_NOW, NULL, &txn->now, err);
        if (code != ERR_OK)
            return code;
        txn->now = clock_tell(txn->store, txn->now);
    }
    txn->has_now = true;
    *ret = txn->now;
    return ERR_OK;
}

void columns_init(struct columns *columns, struct arena *arena, const enum param_type *types,
                  size_t count)
{
    assert(count <= sizeof columns->at / sizeof columns->at[0]);
    columns->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        array_init(&columns->at[i], arena, types[i], 0);
}

void params_add_columns(struct params *params, struct columns *columns, struct arena *arena)
{
    params_init(params, arena);
    for (uint32_t i = 0; i < columns->count; i++)
        params_add_array(params, &columns->at[i]);
}

enum error_code send_columns(struct postgres_txn *txn, const char *sql, struct columns *columns,
                             struct err *err)
{
    struct params params;
    if (columns->at[0].count == 0)
        return ERR_OK;
    params_add_columns(&params, columns, &txn->scratch);
    return connection_send_quiet(txn->connection, sql, &params, err);
}

enum error_code ask_columns(struct postgres_txn *txn, const char *sql, struct columns *columns,
                            struct err *err)
{
    struct params params;
    if (columns->at[0].count == 0)
        return ERR_OK;
    params_add_columns(&params, columns, &txn->scratch);
    return connection_send(txn->connection, sql, &params, err);
}

void params_add_clock(struct params *params, const struct postgres *store)
{
    const struct store_options *options = &store->base.options;
    if (options->clock != NULL)
        params_add_int8(params, options->clock(options->clock_arg));
    else
        params_add_null(params, PARAM_INT8);
}

enum error_code txn_note(struct postgres_txn *txn, struct mark_changes *changes, uint32_t line,
                         struct mark_place place, struct err *err)
{
    if (changes->count == changes->cap) {
        uint32_t cap = changes->cap == 0 ? 64 : changes->cap * 2;
        struct mark_change *at =
            arena_grow(&txn->notes, changes->at, changes->cap * sizeof *at, cap * sizeof *at);
        if (at == NULL)
            return out_of_memory(err);
        changes->at = at;
        changes->cap = cap;
    }
    changes->at[changes->count++] = (struct mark_change){line, place};
    return ERR_OK;
}

bool txn_is_careful(const struct postgres_txn *txn)
{
    return clock_monotonic_ms() < txn->store->careful_until;
}

enum error_code txn_note_job(struct postgres_txn *txn, struct job_note note, struct err *err)
{
    struct job_notes *jobs = &txn->jobs;
    if (jobs->count == jobs->cap) {
        uint32_t cap = jobs->cap == 0 ? 64 : jobs->cap * 2;
        struct job_note *at =
            arena_grow(&txn->notes, jobs->at, jobs->cap * sizeof *at, cap * sizeof *at);
        if (at == NULL)
            return out_of_memory(err);
        jobs->at = at;
        jobs->cap = cap;
    }
    jobs->at[jobs->count++] = note;
    return ERR_OK;
}

static int by_job(const void *a, const void *b)
{
    return memcmp(((const struct job_note *)a)->id.bytes, ((const struct job_note *)b)->id.bytes,
                  sizeof(struct uuid));
}

void txn_sort_jobs(struct postgres_txn *txn)
{
    if (txn->jobs.count > 1)
        qsort(txn->jobs.at, txn->jobs.count, sizeof *txn->jobs.at, by_job);
}

const struct job_note *txn_job(const struct postgres_txn *txn, struct uuid job)
{
    struct job_note wanted = {.id = job};
    return txn->jobs.count == 0
               ? NULL
               : bsearch(&wanted, txn->jobs.at, txn->jobs.count, sizeof wanted, by_job);
}

static void lower_marks(struct postgres_txn *txn, const struct mark_changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++)
        marks_lower(&txn->store->marks, changes->at[i].line, changes->at[i].place);
}

/* ---- the end ---- */

/* `seq` is given last, so that a later writer of a job has a later one. */
static const char leave_entry[] =
    "INSERT INTO pawl.batch_rows (session, batch, seq, jobs, versions, counts)"
    " VALUES ($1, $2, nextval('pawl.feed_seq'), $3, $4, $5)";

/* Leaves the number of this batch, so that it can be found out whether it was committed, with what
 * it is in the feed; and now and then takes older ones away that are nothing there. */
static enum error_code leave_number(struct postgres_txn *txn, struct err *err)
{
    struct connection *connection = txn->connection;
    struct params params;
    params_init(&params, &txn->scratch);
    params_add_uuid(&params, connection->session);
    params_add_int8(&params, ++connection->batch);
    if (txn->has_entry) {
        params_add_array(&params, &txn->entry.jobs);
        params_add_array(&params, &txn->entry.versions);
        params_add_array(&params, &txn->entry.counts);
    }
    enum error_code code = connection_send_quiet(
        connection,
        txn->has_entry ? leave_entry
                       : "INSERT INTO pawl.batch_rows (session, batch) VALUES ($1, $2)",
        &params, err);
    if (code != ERR_OK || connection->batch % BATCHES_KEPT != 0)
        return code;
    /* Not from the beginning: what is gone from there may not be vacuumed yet. */
    params_init(&params, &txn->scratch);
    params_add_uuid(&params, connection->session);
    params_add_int8(&params, connection->batch);
    params_add_int8(&params, connection->batch - 2 * BATCHES_KEPT);
    return connection_send_quiet(connection,
                                 "DELETE FROM pawl.batch_rows WHERE session = $1 AND batch < $2"
                                 " AND batch >= $3 AND seq IS NULL",
                                 &params, err);
}

/* Whether the handle is still where the transaction is. */
static bool is_current(const struct postgres_txn *txn)
{
    return txn->connection->generation == txn->store->base.generation;
}

/* The handle has moved to another origin meanwhile. Whether that has what was committed here,
 * nobody knows: it must not be acknowledged. */
static enum error_code committed_elsewhere(enum store_outcome *outcome, struct err *err)
{
    *outcome = STORE_UNKNOWN;
    return err_set(err, ERR_UNAVAILABLE,
                   "PostgreSQL failed over during a commit; the outcome is unknown");
}

/* Sends the rest with COMMIT and hears what came of it. */
static enum error_code send_commit(struct postgres_txn *txn, enum store_outcome *outcome,
                                   struct err *err)
{
    struct connection *connection = txn->connection;
    *outcome = STORE_NOT_COMMITTED;
    /* In a failed transaction this fails, and COMMIT, which would roll back, is not run. */
    enum error_code code = txn->wrote ? leave_number(txn, err) : ERR_OK;
    if (code == ERR_OK && txn->only_beats)
        code = connection_send_quiet(
            connection, "SELECT set_config('synchronous_commit', 'off', true)", NULL, err);
    if (code == ERR_OK && txn->wrote && !is_current(txn))
        code = err_set(err, ERR_UNAVAILABLE, "PostgreSQL failed over: nothing was done");
    if (code == ERR_OK)
        code = connection_send_quiet(connection, "COMMIT", NULL, err);
    if (code != ERR_OK) {
        /* What libpq could not even queue may still have gone out in part, but COMMIT has not. */
        connection_rollback(connection);
        return code;
    }
    struct uuid session = connection->session;
    int64_t batch = connection->batch;
    connection->warned = false;
    code = connection_sync(connection, err);
    if (connection->conflicted)
        txn->store->careful_until = clock_monotonic_ms() + CAREFUL_MS;
    /* A commit whose waiting for a standby somebody has cancelled succeeds, with a warning: it is
     * asked for again, which waits anew. */
    if ((connection->broken || connection->warned) && txn->wrote)
        return batch_resolve(txn->store, connection, session, batch, outcome, err);
    if (code == ERR_OK && txn->wrote && !is_current(txn))
        return committed_elsewhere(outcome, err);
    if (code == ERR_OK)
        *outcome = STORE_COMMITTED;
    else
        connection_rollback(connection);
    return code;
}

enum error_code postgres_commit(struct store_txn *handle, enum store_outcome *outcome,
                                struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct postgres *store = txn->store;
    enum error_code code = ERR_OK;
    *outcome = STORE_COMMITTED;
    if (txn->failed) {
        *outcome = STORE_NOT_COMMITTED;
        code = err_set(err, ERR_UNAVAILABLE,
                       "this transaction has already failed: roll it back and run it again");
        connection_rollback(txn->connection);
    } else if (txn->begun) {
        code = send_commit(txn, outcome, err);
    }
    if (*outcome == STORE_COMMITTED)
        lanes_learn(store, txn->lanes_era, txn->new_lanes, txn->new_lane_count);
    bool told = *outcome != STORE_NOT_COMMITTED && txn->wrote;
    /* Of what is not known both may be true. */
    if (*outcome != STORE_NOT_COMMITTED)
        lower_marks(txn, &txn->puts);
    if (*outcome != STORE_COMMITTED)
        lower_marks(txn, &txn->takes);
    txn_free(txn);
    if (told)
        watch_committed(&store->watch);
    return code;
}

void postgres_rollback(struct store_txn *handle)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    if (txn->begun)
        connection_rollback(txn->connection);
    lower_marks(txn, &txn->takes);
    txn_free(txn);
}
