/* What an operator looks at: how many jobs there are, who holds leases, and all resources. */
#include "core/job_state.h"
#include "store/row.h"
#include "store/sqlite/sqlite.h"

/* How many there are is kept. The oldest of each queue and status is found by walking over the jobs
 * that have not ended, from the first on, until there is one of each. */
static enum error_code find_oldest(struct sqlite_txn *txn, struct store_queue_count *counts,
                                   uint32_t count, uint32_t unknown, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_COUNT_OPEN, NULL, err);
    while (unknown > 0 && lite_next(&query)) {
        int64_t status = lite_read_int(&query);
        struct str queue = lite_read_text_view(&query);
        int64_t created_at = lite_read_int(&query);
        for (uint32_t i = 0; i < count; i++) {
            if ((int64_t)counts[i].status != status || !str_eq(counts[i].queue, queue))
                continue;
            unknown -= counts[i].oldest_at == 0;
            if (counts[i].oldest_at == 0)
                counts[i].oldest_at = created_at;
            break;
        }
    }
    return lite_end(&query);
}

enum error_code sqlite_queues(struct store_txn *base, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct store_queue_count *counts = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    uint32_t unknown = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_COUNTS, arena, err);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&counts, count, &cap, sizeof *counts)) {
            query.out_of_memory = true;
            break;
        }
        struct store_queue_count *one = &counts[count++];
        *one = (struct store_queue_count){.queue = lite_read_text(&query)};
        int64_t status = lite_read_int(&query);
        one->count = lite_read_int(&query);
        if (status < 0 || status >= JOB_STATUS_COUNT)
            query.code = err_set(err, ERR_CORRUPT, "jobs are counted that have the status %lld",
                                 (long long)status);
        else
            one->status = (enum job_status)status;
        unknown += !job_status_terminal(one->status);
    }
    code = lite_end(&query);
    if (code == ERR_OK)
        code = find_oldest(txn, counts, count, unknown, err);
    code = sqlite_verb_end(txn, code);
    if (code == ERR_OK) {
        *ret = counts;
        *ret_count = count;
    }
    return code;
}

enum error_code sqlite_workers(struct store_txn *base, const struct names *queues,
                               struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                               struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct store_worker *workers = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct buf of;
    buf_init(&of, &txn->scratch, 256);
    if (queues != NULL)
        access_queues_write(queues, &of);
    struct query query =
        lite_query(txn->connection,
                   queues != NULL ? STATEMENT_CLAIMS_HELD_IN : STATEMENT_CLAIMS_HELD, arena, err);
    lite_put_int(&query, STORE_WORKERS_MAX);
    if (queues != NULL)
        lite_put_text(&query, buf_str(&of));
    query.out_of_memory = query.out_of_memory || of.failed;
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&workers, count, &cap, sizeof *workers)) {
            query.out_of_memory = true;
            break;
        }
        struct store_worker *worker = &workers[count++];
        worker->worker_id = lite_read_text(&query);
        worker->resource_id = lite_read_text(&query);
        worker->leases = lite_read_int(&query);
        worker->beat_at = lite_read_int(&query);
        worker->expires_at = lite_read_int(&query);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = workers;
    *ret_count = count;
    return ERR_OK;
}

enum error_code sqlite_step_counts(struct store_txn *base, int64_t ret[STEP_STATE_COUNT],
                                   struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    int64_t counts[STEP_STATE_COUNT] = {0};
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_STEP_COUNTS, NULL, err);
    while (lite_next(&query)) {
        int64_t state = lite_read_int(&query);
        query.code = row_count_steps(state, lite_read_int(&query), counts, err);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code == ERR_OK)
        memcpy(ret, counts, sizeof counts);
    return code;
}

static void read_resource(struct query *query, struct resource *ret)
{
    *ret = (struct resource){0};
    struct str id = lite_read_text(query);
    int64_t expires_at = lite_read_int(query);
    struct str state = lite_read_text(query);
    if (!query->out_of_memory)
        query->code = resource_state_read(state, query->arena, ret, query->err);
    ret->id = id;
    ret->expires_at = expires_at;
    ret->used = lite_read_int(query);
}

enum error_code sqlite_resources(struct store_txn *base, struct arena *arena, struct resource **ret,
                                 uint32_t *ret_count, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct resource *resources = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_RESOURCES, arena, err);
    lite_put_int(&query, STORE_RESOURCES_MAX);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&resources, count, &cap, sizeof *resources)) {
            query.out_of_memory = true;
            break;
        }
        read_resource(&query, &resources[count++]);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = resources;
    *ret_count = count;
    return ERR_OK;
}
