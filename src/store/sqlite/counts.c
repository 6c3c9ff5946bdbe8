/* What an operator looks at: who holds leases, and all resources. */
#include "core/job_state.h"
#include "store/row.h"
#include "store/sqlite/sqlite.h"

/* The next lease, by its holder and resource, whose texts are views. */
static bool next_held(struct sqlite_txn *txn, struct query *query, struct claim_row *ret)
{
    if (!lite_next(query))
        return false;
    *ret = (struct claim_row){
        .present = true,
        .worker_id = lite_read_text_view(query),
        .resource_id = lite_read_text_view(query),
    };
    struct uuid job = lite_read_uuid(query);
    uint32_t step = lite_read_step(query);
    ret->attempt = lite_read_int(query);
    ret->beat_at = lite_read_int(query);
    ret->expires_at = lite_read_int(query);
    sqlite_apply_beat(txn->store, &job, step, ret);
    return true;
}

static bool holds(const struct store_worker *worker, const struct claim_row *claim)
{
    return str_eq(worker->worker_id, claim->worker_id) &&
           str_eq(worker->resource_id, claim->resource_id);
}

static enum error_code count_held(struct sqlite_txn *txn, struct query *query, struct arena *arena,
                                  struct store_worker **ret, uint32_t *ret_count)
{
    uint32_t cap = 0;
    struct claim_row claim;
    while (next_held(txn, query, &claim)) {
        struct store_worker *worker = *ret_count > 0 ? &(*ret)[*ret_count - 1] : NULL;
        if (worker != NULL && holds(worker, &claim)) {
            worker->leases++;
            worker->beat_at = claim.beat_at > worker->beat_at ? claim.beat_at : worker->beat_at;
            worker->expires_at =
                claim.expires_at < worker->expires_at ? claim.expires_at : worker->expires_at;
            continue;
        }
        if (*ret_count == STORE_WORKERS_MAX)
            break;
        struct str worker_id = arena_copy(arena, claim.worker_id);
        struct str resource_id = arena_copy(arena, claim.resource_id);
        if (str_is_set(worker_id) != str_is_set(claim.worker_id) ||
            str_is_set(resource_id) != str_is_set(claim.resource_id) ||
            !sqlite_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret)) {
            query->out_of_memory = true;
            break;
        }
        (*ret)[(*ret_count)++] = (struct store_worker){
            .worker_id = worker_id,
            .resource_id = resource_id,
            .leases = 1,
            .beat_at = claim.beat_at,
            .expires_at = claim.expires_at,
        };
    }
    return lite_end(query);
}

enum error_code sqlite_workers(struct store_txn *base, const struct names *queues,
                               struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                               struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct store_worker *workers = NULL;
    uint32_t count = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct buf of;
    buf_init(&of, &txn->scratch, 256);
    if (queues != NULL)
        access_queues_write(queues, &of);
    struct query query =
        lite_query(txn->connection,
                   queues != NULL ? STATEMENT_CLAIMS_HELD_IN : STATEMENT_CLAIMS_HELD, NULL, err);
    if (queues != NULL)
        lite_put_text(&query, buf_str(&of));
    query.out_of_memory = query.out_of_memory || of.failed;
    code = sqlite_verb_end(txn, count_held(txn, &query, arena, &workers, &count));
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
