/* load: locks everything that a batch names, in order, and reads it. All in one flight.
 *
 * Locks come first and reads in statements behind them: under READ COMMITTED each statement has a
 * snapshot of its own, so what is read is what was committed before the locks were had. */
#include <stdlib.h>

#include "base/hash.h"
#include "core/job_state.h"
#include "store/postgres/postgres.h"

/* ---- locks ---- */

/* The order of ids holds because rows are locked behind the sort. */
static const char lock_jobs[] =
    "WITH locked AS MATERIALIZED (SELECT id FROM pawl.job_rows WHERE id = ANY ($1) ORDER BY id"
    " FOR UPDATE) SELECT count(*) FROM locked";

/* Keys, requests, resources and workers are locked by the hash of what they are called, whether
 * they are there or not. The array is sorted, and read in order. The server has room for some
 * thousands of such locks in all: a transaction that wants many takes one lock over all names
 * instead, which those who want few share ($2, first of all). */
static const char lock_names[] =
    "SELECT count(*) FROM unnest($1::int8[]) AS name, pg_advisory_xact_lock_shared($2)"
    " WHERE pg_advisory_xact_lock(name) IS NOT NULL";
static const char lock_all_names[] = "SELECT pg_advisory_xact_lock($1)::text";

enum { LOCK_KEY = 1, LOCK_REQUEST = 2, LOCK_RESOURCE = 3, LOCK_WORKER = 4, NAMES_LOCKED_MAX = 256 };

static int64_t lock_number(char what, struct str first, struct str second)
{
    uint8_t hash[HASH_LEN];
    uint64_t len = first.len;
    struct str parts[] = {{&what, 1},
                          {(const char *)&len, sizeof len},
                          {str_start(first), first.len},
                          {str_start(second), second.len}};
    hash_sha256(parts, sizeof parts / sizeof parts[0], hash);
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | hash[i];
    return (int64_t)number;
}

static int compare_numbers(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static enum error_code send_locks(struct postgres_txn *txn, const struct store_load *load,
                                  struct array *ids, struct err *err)
{
    uint32_t workers = load->registrations_locked ? load->registration_count : 0;
    uint32_t count = load->key_count + load->request_count + load->resource_count + workers;
    struct params params;
    enum error_code code = ERR_OK;
    if (load->job_count > 0) {
        params_init(&params, &txn->scratch);
        params_add_array(&params, ids);
        code = connection_send_quiet(txn->connection, lock_jobs, &params, err);
    }
    if (code != ERR_OK || count == 0)
        return code;
    params_init(&params, &txn->scratch);
    if (count > NAMES_LOCKED_MAX) {
        params_add_int8(&params, LOCK_NAMES);
        return connection_send_quiet(txn->connection, lock_all_names, &params, err);
    }
    int64_t *numbers = arena_alloc(&txn->scratch, count * sizeof *numbers);
    if (numbers == NULL)
        return out_of_memory(err);
    uint32_t at = 0;
    for (uint32_t i = 0; i < load->key_count; i++)
        numbers[at++] = lock_number(LOCK_KEY, load->keys[i].queue, load->keys[i].key);
    for (uint32_t i = 0; i < load->request_count; i++)
        numbers[at++] = lock_number(LOCK_REQUEST, load->requests[i].scope, load->requests[i].key);
    for (uint32_t i = 0; i < load->resource_count; i++)
        numbers[at++] = lock_number(LOCK_RESOURCE, load->resources[i].id, STR(""));
    for (uint32_t i = 0; i < workers; i++)
        numbers[at++] = lock_number(LOCK_WORKER, load->registrations[i].id, STR(""));
    qsort(numbers, count, sizeof *numbers, compare_numbers);
    struct array array;
    array_init(&array, &txn->scratch, PARAM_INT8, count);
    for (uint32_t i = 0; i < count; i++)
        array_add_int8(&array, numbers[i]);
    params_add_array(&params, &array);
    params_add_int8(&params, LOCK_NAMES);
    return connection_send_quiet(txn->connection, lock_names, &params, err);
}

/* ---- statements ---- */

static const char read_jobs[] =
    "SELECT " JOB_COLUMNS ", " NOTE_COLUMNS " FROM pawl.job_rows j" JOB_JOINS
    "WHERE j.id = ANY ($1) ORDER BY j.id";

static const char read_keys[] =
    "SELECT k.n, " JOB_COLUMNS
    " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (queue, key, n)"
    " JOIN pawl.job_rows j ON j.queue = k.queue AND j.idempotency_key = k.key" JOB_JOINS
    "ORDER BY k.n";

static const char read_requests[] = "SELECT k.n, r.body_hash, r.at, r.answer"
                                    " FROM unnest($1::bytea[]) WITH ORDINALITY AS k (id, n)"
                                    " JOIN pawl.requests r ON r.id = k.id ORDER BY k.n";

static const char read_registrations[] =
    "SELECT k.n, " REGISTRATION_COLUMNS " FROM unnest($1::text[]) WITH ORDINALITY AS k (id, n)"
    " JOIN pawl.workers w ON w.id = k.id ORDER BY k.n";

static const char read_resources[] =
    "SELECT k.n, " RESOURCE_COLUMNS " FROM unnest($1::text[]) WITH ORDINALITY AS k (id, n)"
    " JOIN pawl.resources r ON r.id = k.id ORDER BY k.n";

/* Kind 0: kinds; 1: paused queues; 2: the time; 3: lanes numbered above $1, so that anyone who
 * searches need not ask for them; 4: their era, which cannot end before this transaction does,
 * since it has read `lanes` (see lanes.c); 5 and 6: where it is (see origin.h). */
#define SETTINGS                                                                                   \
    "SELECT 0, kind, settings, 0 FROM pawl.kinds"                                                  \
    " UNION ALL SELECT 1, queue, NULL, 0 FROM pawl.queues WHERE paused"                            \
    " UNION ALL SELECT 2, NULL, NULL, " SQL_NOW                                                    \
    " UNION ALL SELECT 3, key, NULL, number FROM pawl.lanes WHERE number > $1"                     \
    " UNION ALL SELECT 4, NULL, NULL, era FROM pawl.lanes_given_back"                              \
    " UNION ALL SELECT 5, i.mark, NULL, i.timeline FROM (SELECT " ORIGIN_MARK " AS mark, "
#define SETTINGS_END " AS timeline FROM pawl.incarnations i ORDER BY i.number DESC LIMIT 1) AS i"
#define ON_PRIMARY(value) "CASE WHEN pg_is_in_recovery() THEN 0 ELSE " value " END"
#define IN_ORDER " ORDER BY 1, 4, 2"

/* Where PostgreSQL tells the timeline, and where it does not. */
static const char read_settings[] = SETTINGS ON_PRIMARY(ORIGIN_TIMELINE) SETTINGS_END
    " UNION ALL SELECT 6, NULL, NULL, " ON_PRIMARY(ORIGIN_FLUSHED) IN_ORDER;
static const char read_settings_untimed[] = SETTINGS "0::int8" SETTINGS_END IN_ORDER;

static enum error_code send_settings(struct postgres_txn *txn, struct err *err)
{
    struct params params;
    txn->lanes_after = txn->store->lanes_known;
    params_init(&params, &txn->scratch);
    params_add_int8(&params, txn->lanes_after);
    return connection_send(txn->connection,
                           txn->connection->timeline != 0 ? read_settings : read_settings_untimed,
                           &params, err);
}

void request_id(struct str scope, struct str key, uint8_t ret[HASH_LEN])
{
    uint64_t len = scope.len;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(len >> (56 - 8 * i));
    struct str parts[] = {{(const char *)length, sizeof length},
                          {str_start(scope), scope.len},
                          {str_start(key), key.len}};
    hash_sha256(parts, sizeof parts / sizeof parts[0], ret);
}

#define KEY_FIELDS(F, X)                                                                           \
    F(1, queue, text, str, load->keys[i].queue)                                                    \
    X(2, key, text, str, load->keys[i].key)
#define REQUEST_FIELDS(F, X) F(1, id, bytea, bytes, id, sizeof id)
#define RESOURCE_FIELDS(F, X) F(1, id, text, str, load->resources[i].id)
#define REGISTRATION_FIELDS(F, X) F(1, id, text, str, load->registrations[i].id)

/* What is wanted by a name. */
static enum error_code send_named(struct postgres_txn *txn, const struct store_load *load,
                                  struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, KEY_FIELDS);
    for (uint32_t i = 0; i < load->key_count; i++)
        COLUMNS_ADD(&columns, KEY_FIELDS);
    enum error_code code = ask_columns(txn, read_keys, &columns, err);
    COLUMNS_INIT(&columns, &txn->scratch, REQUEST_FIELDS);
    for (uint32_t i = 0; i < load->request_count; i++) {
        uint8_t id[HASH_LEN];
        request_id(load->requests[i].scope, load->requests[i].key, id);
        COLUMNS_ADD(&columns, REQUEST_FIELDS);
    }
    if (code == ERR_OK)
        code = ask_columns(txn, read_requests, &columns, err);
    COLUMNS_INIT(&columns, &txn->scratch, RESOURCE_FIELDS);
    for (uint32_t i = 0; i < load->resource_count; i++)
        COLUMNS_ADD(&columns, RESOURCE_FIELDS);
    if (code == ERR_OK)
        code = ask_columns(txn, read_resources, &columns, err);
    COLUMNS_INIT(&columns, &txn->scratch, REGISTRATION_FIELDS);
    for (uint32_t i = 0; i < load->registration_count; i++)
        COLUMNS_ADD(&columns, REGISTRATION_FIELDS);
    return code == ERR_OK ? ask_columns(txn, read_registrations, &columns, err) : code;
}

static enum error_code send_load(struct postgres_txn *txn, const struct store_load *load,
                                 struct err *err)
{
    struct params params;
    struct array ids;
    enum error_code code = ERR_OK;
    array_init(&ids, &txn->scratch, PARAM_UUID, load->job_count);
    for (uint32_t i = 0; i < load->job_count; i++)
        array_add_uuid(&ids, load->jobs[i].id);
    if (txn->base.mode == STORE_WRITE)
        code = send_locks(txn, load, &ids, err);
    if (code == ERR_OK && load->job_count > 0) {
        params_init(&params, &txn->scratch);
        params_add_array(&params, &ids);
        code = connection_send(txn->connection, read_jobs, &params, err);
    }
    if (code == ERR_OK)
        code = send_named(txn, load, err);
    if (code == ERR_OK)
        code = send_settings(txn, err);
    if (code == ERR_OK && txn->base.mode == STORE_WRITE)
        code = candidates_ahead(txn, load->searches, load->search_count, err);
    return code == ERR_OK ? txn_flush(txn, err) : code;
}

/* ---- results ---- */

static enum error_code take_jobs(struct postgres_txn *txn, struct store_load *load,
                                 struct arena *arena, struct err *err)
{
    uint64_t seed = txn->store->base.options.seed;
    struct reader reader;
    PGresult *result;
    enum error_code code = connection_result(txn->connection, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, arena);
    int rows = PQntuples(result);
    int row = 0;
    for (uint32_t i = 0; i < load->job_count && code == ERR_OK; i++) {
        struct store_job *job = &load->jobs[i];
        if (row < rows)
            reader_row(&reader, row);
        if (row < rows && uuid_eq(reader_uuid(&reader), job->id)) {
            reader_row(&reader, row++);
            code = reader_slice(&reader, seed, &job->slice, err);
            job->redacted = code == ERR_OK && job->slice.job.redacted;
            if (code == ERR_OK && txn->base.mode == STORE_WRITE)
                code = txn_note_job(txn, reader_note(&reader, job->id), err);
        } else {
            job_slice_init(&job->slice, job->id, seed);
            job->redacted = false;
        }
    }
    PQclear(result);
    return code;
}

/* Reads a row about number `at` of what was wanted. */
typedef enum error_code take_fn(struct reader *reader, struct postgres_txn *txn,
                                struct store_load *load, uint32_t at, struct err *err);

/* Results that begin with the number of what they are about, from 1 on. */
static enum error_code take_named(struct postgres_txn *txn, struct store_load *load, uint32_t count,
                                  take_fn *take, struct arena *arena, struct err *err)
{
    struct reader reader;
    PGresult *result;
    if (count == 0)
        return ERR_OK;
    enum error_code code = connection_result(txn->connection, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, arena);
    for (int row = 0; row < PQntuples(result) && code == ERR_OK; row++) {
        reader_row(&reader, row);
        int64_t number = reader_int(&reader);
        code = number < 1 || number > count
                   ? err_set(err, ERR_CORRUPT, "unexpected PostgreSQL response")
                   : take(&reader, txn, load, (uint32_t)number - 1, err);
    }
    PQclear(result);
    return code;
}

static enum error_code take_key(struct reader *reader, struct postgres_txn *txn,
                                struct store_load *load, uint32_t at, struct err *err)
{
    return reader_slice(reader, txn->store->base.options.seed, &load->keys[at].slice, err);
}

static enum error_code take_request(struct reader *reader, struct postgres_txn *txn,
                                    struct store_load *load, uint32_t at, struct err *err)
{
    struct store_request *request = &load->requests[at];
    struct arena *arena = reader->arena;
    txn->has_requests = true;
    request->record = (struct request_record){.scope = arena_copy(arena, request->scope),
                                              .key = arena_copy(arena, request->key)};
    reader_bytes(reader, request->record.body_hash, sizeof request->record.body_hash);
    request->record.at = reader_int(reader);
    request->record.answer = reader_str(reader);
    request->found = true;
    reader->no_memory =
        reader->no_memory || !str_is_set(request->record.scope) || !str_is_set(request->record.key);
    return reader_check(reader, "the record of a request", err);
}

static enum error_code take_resource(struct reader *reader, struct postgres_txn *txn,
                                     struct store_load *load, uint32_t at, struct err *err)
{
    (void)txn;
    load->resources[at].found = true;
    return reader_resource(reader, &load->resources[at].resource, err);
}

static enum error_code take_registration(struct reader *reader, struct postgres_txn *txn,
                                         struct store_load *load, uint32_t at, struct err *err)
{
    (void)txn;
    load->registrations[at].found = true;
    return reader_registration(reader, &load->registrations[at].worker, err);
}

static enum error_code take_all_named(struct postgres_txn *txn, struct store_load *load,
                                      struct arena *arena, struct err *err)
{
    static const struct uuid none = {{0}};
    for (uint32_t i = 0; i < load->key_count; i++)
        job_slice_init(&load->keys[i].slice, none, txn->store->base.options.seed);
    for (uint32_t i = 0; i < load->request_count; i++)
        txn->has_requests = load->requests[i].found = false;
    for (uint32_t i = 0; i < load->resource_count; i++)
        load->resources[i].found = false;
    for (uint32_t i = 0; i < load->registration_count; i++)
        load->registrations[i].found = false;
    enum error_code code = take_named(txn, load, load->key_count, take_key, arena, err);
    if (code == ERR_OK)
        code = take_named(txn, load, load->request_count, take_request, arena, err);
    if (code == ERR_OK)
        code = take_named(txn, load, load->resource_count, take_resource, arena, err);
    if (code == ERR_OK)
        code = take_named(txn, load, load->registration_count, take_registration, arena, err);
    return code;
}

static enum error_code take_kind(struct reader *reader, struct arena *arena, struct store_kind *ret,
                                 struct err *err)
{
    *ret = (struct store_kind){.kind = reader_str(reader)};
    struct str settings = reader_str(reader);
    enum error_code code = reader_check(reader, "the settings of a kind", err);
    return code == ERR_OK ? kind_settings_read(settings, arena, &ret->settings, err) : code;
}

static enum error_code take_settings(struct postgres_txn *txn, struct store_load *load,
                                     struct arena *arena, struct err *err)
{
    const struct store_options *options = &txn->store->base.options;
    struct reader reader;
    PGresult *result;
    enum error_code code = connection_result(txn->connection, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, arena);
    size_t rows = (size_t)PQntuples(result);
    load->kinds = arena_zalloc(arena, rows, sizeof *load->kinds);
    load->paused.at = arena_zalloc(arena, rows, sizeof *load->paused.at);
    struct str mark = {NULL, 0};
    int64_t timeline = 0;
    int64_t flushed = 0;
    uint64_t era = 0;
    txn->lanes = arena_zalloc(arena, rows, sizeof *txn->lanes);
    load->kind_count = 0;
    load->paused.count = 0;
    if (load->kinds == NULL || load->paused.at == NULL || txn->lanes == NULL)
        code = out_of_memory(err);
    for (int row = 0; row < PQntuples(result) && code == ERR_OK; row++) {
        reader_row(&reader, row);
        int64_t kind = reader_int(&reader);
        if (kind == 0) {
            code = take_kind(&reader, arena, &load->kinds[load->kind_count++], err);
        } else if (kind == 1) {
            load->paused.at[load->paused.count++] = reader_str(&reader);
        } else if (kind == 2) {
            reader_skip(&reader, 2);
            txn->now = clock_tell(txn->store, reader_int(&reader));
        } else if (kind == 4) {
            reader_skip(&reader, 2);
            era = (uint64_t)reader_int(&reader);
        } else if (kind == 5) {
            mark = reader_str(&reader);
            reader_skip(&reader, 1);
            timeline = reader_int(&reader);
        } else if (kind == 6) {
            reader_skip(&reader, 2);
            flushed = reader_int(&reader);
        } else {
            struct store_lane *lane = &txn->lanes[txn->lane_count++];
            lane->key = reader_str(&reader);
            reader_skip(&reader, 1);
            lane->number = (uint32_t)reader_int(&reader);
        }
    }
    txn->has_lanes = code == ERR_OK;
    if (code == ERR_OK)
        code = reader_check(&reader, "the settings", err);
    if (code == ERR_OK)
        code = origin_check(txn, mark, timeline, flushed, err);
    if (code == ERR_OK)
        load->lanes_era = lanes_begin_era(txn, era);
    if (options->clock != NULL)
        txn->now = options->clock(options->clock_arg);
    txn->has_now = true;
    load->now = txn->now;
    PQclear(result);
    return code;
}

enum error_code postgres_load(struct store_txn *handle, struct store_load *load,
                              struct arena *arena, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    enum error_code code = txn_start_planned(txn, err);
    int64_t start = clock_monotonic_ms();
    if (code == ERR_OK)
        code = send_load(txn, load, err);
    if (code == ERR_OK && load->job_count > 0)
        code = take_jobs(txn, load, arena, err);
    if (code == ERR_OK)
        code = take_all_named(txn, load, arena, err);
    if (code == ERR_OK)
        code = take_settings(txn, load, arena, err);
    if (code == ERR_OK)
        code = candidates_take_ahead(txn, start, err);
    return txn_end_verb(txn, code);
}
