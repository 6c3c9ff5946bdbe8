/* What an operator looks at: how many jobs there are, who holds leases, and all resources. */
#include "store/postgres/postgres.h"
#include "store/row.h"

/* All from the index jobs_shelf, but for the status of those that are queued or held. */
static const char count_jobs[] =
    "SELECT queue, status, count(*), min(created_at) FROM ("
    "SELECT queue, shelf AS status, created_at FROM pawl.jobs WHERE shelf > 0"
    " UNION ALL SELECT queue, status, created_at FROM pawl.jobs WHERE shelf = 0) AS j"
    " GROUP BY queue, status ORDER BY queue, status";

static const char count_steps[] =
    "SELECT state_number, count(*) FROM pawl.job_steps GROUP BY state_number";

static const char read_workers[] =
    "SELECT worker_id, resource_id, count(*), max(beat_at), min(expires_at) FROM pawl.job_claims"
    " GROUP BY worker_id, resource_id ORDER BY worker_id, resource_id NULLS FIRST LIMIT $1";

static const char read_workers_of[] =
    "SELECT c.worker_id, c.resource_id, count(*), max(c.beat_at), min(c.expires_at)"
    " FROM pawl.job_claims c JOIN pawl.jobs j ON j.id = c.job_id WHERE j.queue = ANY ($2::text[])"
    " GROUP BY c.worker_id, c.resource_id"
    " ORDER BY c.worker_id, c.resource_id NULLS FIRST LIMIT $1";

static const char read_registrations[] = "SELECT " REGISTRATION_COLUMNS " FROM pawl.workers w"
                                         " ORDER BY w.id LIMIT $1";

static const char count_registrations[] = "SELECT count(*) FROM pawl.workers";

static const char read_resources[] = "SELECT " RESOURCE_COLUMNS " FROM pawl.resources r"
                                     " ORDER BY r.id LIMIT $1";

enum error_code postgres_queues(struct store_txn *handle, struct arena *arena,
                                struct store_queue_count **ret, uint32_t *ret_count,
                                struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_ask(txn, count_jobs, NULL, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct store_queue_count *rows = arena_zalloc(arena, count, sizeof *rows);
    if (rows == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        rows[i].queue = reader_str(&reader);
        int64_t status = reader_int(&reader);
        rows[i].status = (enum job_status)status;
        rows[i].count = reader_int(&reader);
        rows[i].oldest_at = reader_time(&reader);
        code = reader_check(&reader, "a count of jobs", err);
        if (code == ERR_OK && (status < 0 || status >= JOB_STATUS_COUNT))
            code = err_set(err, ERR_CORRUPT, "a job has the status %lld, which there is not",
                           (long long)status);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = rows;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}

enum error_code postgres_step_counts(struct store_txn *handle, int64_t ret[STEP_STATE_COUNT],
                                     struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct reader reader;
    int64_t counts[STEP_STATE_COUNT] = {0};
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_ask(txn, count_steps, NULL, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    reader_init(&reader, result, &txn->scratch);
    for (int i = 0; i < PQntuples(result) && code == ERR_OK; i++) {
        reader_row(&reader, i);
        int64_t state = reader_int(&reader);
        int64_t count = reader_int(&reader);
        code = reader_check(&reader, "a count of steps", err);
        if (code == ERR_OK)
            code = row_count_steps(state, count, counts, err);
    }
    PQclear(result);
    if (code == ERR_OK)
        memcpy(ret, counts, sizeof counts);
    return txn_end_verb(txn, code);
}

/* Asks for at most so many rows, of these queues where there are some. */
static enum error_code ask_some_of(struct postgres_txn *txn, const char *sql, uint32_t limit,
                                   const struct names *queues, PGresult **ret, struct err *err)
{
    struct params params;
    struct array names;
    enum error_code code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_int8(&params, limit);
    if (queues != NULL) {
        array_init(&names, &txn->scratch, PARAM_TEXT, queues->count);
        for (uint32_t i = 0; i < queues->count; i++)
            array_add_str(&names, queues->at[i]);
        params_add_array(&params, &names);
    }
    return code == ERR_OK ? txn_ask(txn, sql, &params, ret, err) : code;
}

static enum error_code ask_some(struct postgres_txn *txn, const char *sql, uint32_t limit,
                                PGresult **ret, struct err *err)
{
    return ask_some_of(txn, sql, limit, NULL, ret, err);
}

enum error_code postgres_workers(struct store_txn *handle, const struct names *queues,
                                 struct arena *arena, struct store_worker **ret,
                                 uint32_t *ret_count, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = ask_some_of(txn, queues != NULL ? read_workers_of : read_workers,
                                       STORE_WORKERS_MAX, queues, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct store_worker *workers = arena_zalloc(arena, count, sizeof *workers);
    if (workers == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        workers[i].worker_id = reader_str(&reader);
        workers[i].resource_id = reader_str(&reader);
        workers[i].leases = reader_int(&reader);
        workers[i].beat_at = reader_int(&reader);
        workers[i].expires_at = reader_time(&reader);
        code = reader_check(&reader, "a lease", err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = workers;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}

enum error_code postgres_registrations(struct store_txn *handle, struct arena *arena,
                                       struct worker **ret, uint32_t *ret_count, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = ask_some(txn, read_registrations, WORKERS_MAX, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct worker *workers = arena_zalloc(arena, count, sizeof *workers);
    if (workers == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        code = reader_registration(&reader, &workers[i], err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = workers;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}

enum error_code postgres_registration_count(struct store_txn *handle, int64_t *ret, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_ask(txn, count_registrations, NULL, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    reader_init(&reader, result, &txn->scratch);
    reader_row(&reader, 0);
    int64_t count = reader_int(&reader);
    code = reader_check(&reader, "a count of workers", err);
    PQclear(result);
    if (code == ERR_OK)
        *ret = count;
    return txn_end_verb(txn, code);
}

enum error_code postgres_resources(struct store_txn *handle, struct arena *arena,
                                   struct resource **ret, uint32_t *ret_count, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = ask_some(txn, read_resources, STORE_RESOURCES_MAX, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct resource *resources = arena_zalloc(arena, count, sizeof *resources);
    if (resources == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        code = reader_resource(&reader, &resources[i], err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = resources;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}
