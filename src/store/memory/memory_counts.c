/* What an operator looks at: how many jobs there are, who holds leases, and all resources. */
#include <stdlib.h>

#include "base/map.h"
#include "store/memory/memory.h"
#include "store/queue_tally.h"

/* ---- queues ---- */

static enum error_code count_jobs(struct memory_txn *txn, struct queue_tally *tally,
                                  struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_JOBS, STR(""));
    const struct entry *entry;
    while ((entry = scan_next(&scan)) != NULL) {
        struct uuid id = {0};
        struct job_row row;
        enum error_code code = job_row_unpack(entry_value(entry), id, &row, err);
        if (code == ERR_OK)
            code = queue_tally_add(tally, row.queue, row.status, row.created_at, err);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

enum error_code memory_queues(struct store_txn *handle, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct queue_tally tally;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    queue_tally_init(&tally, arena, txn->store->base.options.seed);
    code = count_jobs(txn, &tally, err);
    if (code == ERR_OK)
        code = queue_tally_finish(&tally, ret, ret_count, err);
    return memory_verb_end(txn, code, err);
}

/* ---- steps ---- */

static enum error_code count_steps(struct memory_txn *txn, int64_t counts[STEP_STATE_COUNT],
                                   struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_STEPS, STR(""));
    const struct entry *entry;
    while ((entry = scan_next(&scan)) != NULL) {
        struct step_row row;
        struct step_place place;
        enum error_code code = step_row_unpack(entry_value(entry), 0, &row, &place, err);
        if (code == ERR_OK)
            code = row_count_steps(row.state_number, 1, counts, err);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

enum error_code memory_step_counts(struct store_txn *handle, int64_t ret[STEP_STATE_COUNT],
                                   struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    int64_t counts[STEP_STATE_COUNT] = {0};
    enum error_code code = memory_verb_begin(txn, err);
    if (code == ERR_OK)
        code = memory_verb_end(txn, count_steps(txn, counts, err), err);
    if (code == ERR_OK)
        memcpy(ret, counts, sizeof counts);
    return code;
}

/* ---- workers ---- */

struct worker_list {
    struct store_worker *at;
    uint32_t count;
    uint32_t cap;
    struct map numbers; /* worker and resource -> index */
};

/* The entry of those who hold this lease, which may be new. */
static struct store_worker *find_worker(struct memory_txn *txn, const struct claim_row *claim,
                                        struct worker_list *list, struct arena *arena)
{
    struct buf key = memory_buf(txn);
    value_text(&key, claim->worker_id);
    value_text(&key, claim->resource_id);
    uint32_t found;
    if (key.failed || map_put(&list->numbers, buf_str(&key), list->count, &found) != ERR_OK)
        return NULL;
    if (found != MAP_NONE)
        return &list->at[found];
    struct store_worker *worker =
        memory_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at);
    if (worker == NULL)
        return NULL;
    *worker = (struct store_worker){
        .worker_id = arena_copy(arena, claim->worker_id),
        .resource_id = arena_copy(arena, claim->resource_id),
        .beat_at = claim->beat_at,
        .expires_at = claim->expires_at,
    };
    list->count++;
    bool copied = str_is_set(worker->worker_id) == str_is_set(claim->worker_id) &&
                  str_is_set(worker->resource_id) == str_is_set(claim->resource_id);
    return copied ? worker : NULL;
}

/* Whether the lease at this key is on a job of one of these queues. */
static enum error_code is_of_queues(struct memory_txn *txn, struct str key,
                                    const struct names *queues, bool *ret, struct err *err)
{
    struct uuid job = {0};
    struct job_row row = {0};
    const struct entry *entry;
    *ret = queues == NULL;
    if (*ret)
        return ERR_OK;
    memcpy(job.bytes, key.at, sizeof job.bytes);
    struct buf job_key = memory_job_key(txn, job);
    enum error_code code = memory_get(txn, TABLE_JOBS, &job_key, &entry);
    if (code == ERR_OK && entry != NULL)
        code = job_row_unpack(entry_value(entry), job, &row, err);
    if (code == ERR_OK && entry != NULL)
        *ret = names_have(queues, row.queue);
    return code;
}

static enum error_code read_workers(struct memory_txn *txn, const struct names *queues,
                                    struct worker_list *list, struct arena *arena, struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_CLAIMS, STR(""));
    const struct entry *entry;
    map_init(&list->numbers, &txn->scratch, 0, txn->store->base.options.seed);
    while ((entry = scan_next(&scan)) != NULL) {
        struct claim_row claim;
        bool wanted = false;
        enum error_code code = claim_row_unpack(entry_value(entry), &claim, err);
        if (code == ERR_OK)
            code = is_of_queues(txn, entry_key(entry), queues, &wanted, err);
        if (code != ERR_OK)
            return code;
        if (!wanted)
            continue;
        struct store_worker *worker = find_worker(txn, &claim, list, arena);
        if (worker == NULL)
            return ERR_NO_MEMORY;
        worker->leases++;
        if (claim.beat_at > worker->beat_at)
            worker->beat_at = claim.beat_at;
        if (claim.expires_at < worker->expires_at)
            worker->expires_at = claim.expires_at;
    }
    return ERR_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct store_worker *left = a;
    const struct store_worker *right = b;
    int order = str_cmp(left->worker_id, right->worker_id);
    if (order == 0)
        order = (int)str_is_set(left->resource_id) - (int)str_is_set(right->resource_id);
    return order != 0 ? order : str_cmp(left->resource_id, right->resource_id);
}

enum error_code memory_workers(struct store_txn *handle, const struct names *queues,
                               struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                               struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct worker_list list = {0};
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    code = memory_verb_end(txn, read_workers(txn, queues, &list, arena, err), err);
    if (code != ERR_OK)
        return code;
    if (list.count > 1)
        qsort(list.at, list.count, sizeof *list.at, by_name);
    *ret = list.at;
    *ret_count = list.count < STORE_WORKERS_MAX ? list.count : STORE_WORKERS_MAX;
    return ERR_OK;
}

/* ---- resources ---- */

static enum error_code read_resources(struct memory_txn *txn, struct arena *arena,
                                      struct resource **ret, uint32_t *ret_count, struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_RESOURCES, STR(""));
    uint32_t cap = 0;
    const struct entry *entry;
    while (*ret_count < STORE_RESOURCES_MAX && (entry = scan_next(&scan)) != NULL) {
        struct resource *resource =
            memory_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret);
        if (resource == NULL)
            return ERR_NO_MEMORY;
        enum error_code code = memory_read_resource(txn, entry, arena, resource, err);
        if (code != ERR_OK)
            return code;
        ++*ret_count;
    }
    return ERR_OK;
}

enum error_code memory_resources(struct store_txn *handle, struct arena *arena,
                                 struct resource **ret, uint32_t *ret_count, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct resource *resources = NULL;
    uint32_t count = 0;
    enum error_code code = memory_verb_begin(txn, err);
    if (code == ERR_OK)
        code = memory_verb_end(txn, read_resources(txn, arena, &resources, &count, err), err);
    if (code != ERR_OK)
        return code;
    *ret = resources;
    *ret_count = count;
    return ERR_OK;
}
