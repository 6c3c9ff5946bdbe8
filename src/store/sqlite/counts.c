/* What an operator looks at: how many jobs there are, who holds leases, and all resources. */
#include "core/job_state.h"
#include "store/queue_tally.h"
#include "store/row.h"
#include "store/sqlite/sqlite.h"

/* Counted here: SQLite would sort a million rows to group them. */
enum error_code sqlite_queues(struct store_txn *base, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct queue_tally tally;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    queue_tally_init(&tally, arena, txn->store->base.options.seed);
    struct query query = lite_query(txn->connection, STATEMENT_JOB_COUNTS, NULL, err);
    while (lite_next(&query)) {
        int64_t status = lite_read_int(&query);
        struct str queue = lite_read_text_view(&query);
        int64_t created_at = lite_read_int(&query);
        if (!query.out_of_memory)
            query.code = queue_tally_add(&tally, queue, status, created_at, err);
    }
    code = lite_end(&query);
    if (code == ERR_OK)
        code = queue_tally_finish(&tally, ret, ret_count, err);
    return sqlite_verb_end(txn, code);
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
