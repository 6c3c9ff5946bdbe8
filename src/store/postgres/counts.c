/* What an operator looks at: how many jobs there are, who holds leases, and all resources. */
#include "store/postgres/postgres.h"
#include "store/row.h"

/* Jobs that have ended are in an index, and so are those that wait. Those that are held, or as they
 * were made, are looked up one by one. */
static const char count_jobs[] =
    "SELECT queue, status, count(*), min(created_at) FROM ("
    "SELECT s.queue, s.status, s.created_at FROM pawl.state_rows s WHERE s.purge_at > 0"
    " UNION ALL SELECT s.queue, s.status, s.created_at FROM pawl.state_rows s"
    " WHERE s.purge_at = 0 AND NOT EXISTS (SELECT FROM pawl.claim_rows c"
    " WHERE c.job_id = s.job_id AND c.step = -1)"
    " UNION ALL SELECT j.queue, c.status, j.created_at FROM pawl.claim_rows c"
    " JOIN pawl.job_rows j ON j.id = c.job_id WHERE c.step = -1"
    " UNION ALL SELECT j.queue, j.status, j.created_at FROM ("
    "SELECT job_id FROM pawl.ready WHERE step = -1"
    " UNION ALL SELECT job_id FROM pawl.timers WHERE kind = 0 AND step = -1) AS w"
    " JOIN pawl.job_rows j ON j.id = w.job_id"
    " WHERE NOT EXISTS (SELECT FROM pawl.state_rows s WHERE s.job_id = j.id)) AS j"
    " GROUP BY queue, status ORDER BY queue, status";

static const char count_steps[] =
    "SELECT state_number, count(*) FROM pawl.job_steps GROUP BY state_number";

static const char read_workers[] =
    "SELECT worker_id, resource_id, count(*), max(beat_at), min(expires_at) FROM pawl.claim_rows"
    " GROUP BY worker_id, resource_id ORDER BY worker_id, resource_id NULLS FIRST LIMIT $1";

static const char read_workers_of[] =
    "SELECT c.worker_id, c.resource_id, count(*), max(c.beat_at), min(c.expires_at)"
    " FROM pawl.claim_rows c JOIN pawl.job_rows j ON j.id = c.job_id WHERE j.queue = ANY "
    "($2::text[])"
    " GROUP BY c.worker_id, c.resource_id"
    " ORDER BY c.worker_id, c.resource_id NULLS FIRST LIMIT $1";

static const char read_registrations[] = "SELECT " REGISTRATION_COLUMNS " FROM pawl.workers w"
                                         " ORDER BY w.id LIMIT $1";

static const char read_resources[] = "SELECT " RESOURCE_COLUMNS " FROM pawl.resources r"
                                     " ORDER BY r.id LIMIT $1";

static enum error_code read_count(struct reader *reader, const struct rows *rows, void *ret,
                                  struct err *err)
{
    struct store_queue_count *count = ret;
    (void)rows;
    count->queue = reader_str(reader);
    int64_t status = reader_int(reader);
    count->status = (enum job_status)status;
    count->count = reader_int(reader);
    count->oldest_at = reader_time(reader);
    if (status < 0 || status >= JOB_STATUS_COUNT)
        return err_set(err, ERR_CORRUPT, "a job has the unknown status %lld", (long long)status);
    return reader_check(reader, "a count of jobs", err);
}

enum error_code postgres_queues(struct store_txn *handle, struct arena *arena,
                                struct store_queue_count **ret, uint32_t *ret_count,
                                struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct rows rows = {.size = sizeof **ret, .read = read_count};
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_rows(txn, count_jobs, NULL, &rows, arena, err);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
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
static enum error_code ask_some(struct postgres_txn *txn, const char *sql, uint32_t limit,
                                const struct names *queues, struct rows *rows, struct arena *arena,
                                struct err *err)
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
    if (code == ERR_OK)
        code = txn_rows(txn, sql, &params, rows, arena, err);
    return txn_end_verb(txn, code);
}

static enum error_code read_worker(struct reader *reader, const struct rows *rows, void *ret,
                                   struct err *err)
{
    struct store_worker *worker = ret;
    (void)rows;
    worker->worker_id = reader_str(reader);
    worker->resource_id = reader_str(reader);
    worker->leases = reader_int(reader);
    worker->beat_at = reader_int(reader);
    worker->expires_at = reader_time(reader);
    return reader_check(reader, "a lease", err);
}

enum error_code postgres_workers(struct store_txn *handle, const struct names *queues,
                                 struct arena *arena, struct store_worker **ret,
                                 uint32_t *ret_count, struct err *err)
{
    struct rows rows = {.size = sizeof **ret, .read = read_worker};
    enum error_code code =
        ask_some((struct postgres_txn *)handle, queues != NULL ? read_workers_of : read_workers,
                 STORE_WORKERS_MAX, queues, &rows, arena, err);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return code;
}

static enum error_code read_registration(struct reader *reader, const struct rows *rows, void *ret,
                                         struct err *err)
{
    (void)rows;
    return reader_registration(reader, ret, err);
}

enum error_code postgres_registrations(struct store_txn *handle, struct arena *arena,
                                       struct worker **ret, uint32_t *ret_count, struct err *err)
{
    struct rows rows = {.size = sizeof **ret, .read = read_registration};
    enum error_code code = ask_some((struct postgres_txn *)handle, read_registrations, WORKERS_MAX,
                                    NULL, &rows, arena, err);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return code;
}

enum error_code postgres_registration_count(struct store_txn *handle, int64_t *ret, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_ask_int(txn, "SELECT count(*) FROM pawl.workers", NULL, ret, err);
    return txn_end_verb(txn, code);
}

static enum error_code read_resource(struct reader *reader, const struct rows *rows, void *ret,
                                     struct err *err)
{
    (void)rows;
    return reader_resource(reader, ret, err);
}

enum error_code postgres_resources(struct store_txn *handle, struct arena *arena,
                                   struct resource **ret, uint32_t *ret_count, struct err *err)
{
    struct rows rows = {.size = sizeof **ret, .read = read_resource};
    enum error_code code = ask_some((struct postgres_txn *)handle, read_resources,
                                    STORE_RESOURCES_MAX, NULL, &rows, arena, err);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return code;
}
