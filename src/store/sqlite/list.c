/* Lists of jobs. Ids are found first, by the index that fits the filter best, then headers are
 * read. */
#include <stdlib.h>

#include "store/sqlite/sqlite.h"

/* From this many on, one walk over all jobs does better than one for each. */
enum {
    STATUSES_APART_MAX = 5,
    WAITING_WALKED_MAX =
        20 * 1000, /* jobs as they were made; if more wait, the newest are walked */
};

static const struct uuid none;

struct found_ids {
    struct uuid *at;
    uint32_t count;
    uint32_t cap;
};

static void put_before(struct query *query, const struct store_filter *filter)
{
    static const uint8_t behind_all[17] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                           0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    if (uuid_eq(filter->before, none))
        lite_put_blob(query, behind_all, sizeof behind_all);
    else
        lite_put_uuid(query, &filter->before);
}

static void put_rest(struct query *query, const struct store_filter *filter, struct str queues)
{
    put_before(query, filter);
    lite_put_text(query, filter->kind);
    lite_put_text(query, filter->queue);
    lite_put_text(query, filter->agent_id);
    lite_put_text(query, filter->correlation_id);
    lite_put_int(query, filter->created_after);
    lite_put_int(query, filter->reason_code);
    lite_put_int(query, filter->statuses);
    lite_put_text(query, filter->label_key);
    lite_put_text(query, filter->label_value);
    lite_put_int(query, filter->asking);
    lite_put_int(query, filter->limit);
    lite_put_text(query, queues);
    lite_put_uuid(query, &filter->correlation_job);
}

static enum error_code add_ids(struct sqlite_txn *txn, struct query *query, struct found_ids *ids)
{
    while (lite_next(query)) {
        if (!sqlite_more(&txn->scratch, (void **)&ids->at, ids->count, &ids->cap, sizeof *ids->at))
            query->out_of_memory = true;
        if (query->out_of_memory)
            break;
        ids->at[ids->count++] = lite_read_uuid(query);
    }
    return lite_end(query);
}

static int compare_newest_first(const void *a, const void *b)
{
    return memcmp(b, a, sizeof(struct uuid));
}

/* The newest of what several queries found. */
static void keep_newest(struct found_ids *ids, uint32_t limit)
{
    if (ids->count > 1)
        qsort(ids->at, ids->count, sizeof *ids->at, compare_newest_first);
    if (ids->count > limit)
        ids->count = limit;
}

static enum error_code add_status(struct sqlite_txn *txn, enum statement statement,
                                  const struct store_filter *filter, struct str queues,
                                  uint32_t status, struct found_ids *ids, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    put_rest(&query, filter, queues);
    lite_put_int(&query, status);
    return add_ids(txn, &query, ids);
}

static enum job_status status_as_made(void)
{
    enum job_status made = JOB_NONE;
    (void)job_move(JOB_NONE, EVENT_JOB_CREATED, MOVE_PLAIN, &made);
    return made;
}

/* One status after the other, then the newest of all. Jobs that are as they were made have no row
 * but in job_rows, and are found among the work that waits. */
static enum error_code find_by_status(struct sqlite_txn *txn, const struct store_filter *filter,
                                      struct str queues, struct found_ids *ids, struct err *err)
{
    enum error_code code = ERR_OK;
    enum job_status made = status_as_made();
    for (uint32_t status = 0; status < JOB_STATUS_COUNT && code == ERR_OK; status++) {
        if ((filter->statuses >> status & 1) == 0)
            continue;
        if (status == (uint32_t)made)
            code = add_status(txn, STATEMENT_LIST_AS_MADE, filter, queues, status, ids, err);
        if (code == ERR_OK)
            code = add_status(txn, STATEMENT_LIST_CLAIMED, filter, queues, status, ids, err);
        if (code == ERR_OK)
            code = add_status(txn, STATEMENT_LIST_STATES, filter, queues, status, ids, err);
    }
    keep_newest(ids, filter->limit);
    return code;
}

/* Whether jobs with one of these statuses are found by an index: see states_by_status. Others are
 * the bulk, and found well enough by walking; so are jobs as they were made when very many wait. */
static bool has_index(struct sqlite_store *store, uint32_t statuses)
{
    uint32_t bulk = 1u << JOB_COMPLETED | 1u << JOB_CANCELLED;
    enum job_status made = status_as_made();
    if ((statuses >> made & 1) != 0 && sqlite_count_of(store, made) > WAITING_WALKED_MAX)
        bulk |= 1u << made;
    return statuses != 0 && (statuses & bulk) == 0;
}

/* Those that have it, and the job that has none but this id. */
static enum error_code find_by_correlation(struct sqlite_txn *txn,
                                           const struct store_filter *filter, struct str queues,
                                           struct found_ids *ids, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_LIST_CORRELATION, NULL, err);
    put_rest(&query, filter, queues);
    lite_put_text(&query, filter->correlation_id);
    enum error_code code = add_ids(txn, &query, ids);
    if (code == ERR_OK && !uuid_eq(filter->correlation_job, none)) {
        query = lite_query(txn->connection, STATEMENT_LIST_UNCORRELATED, NULL, err);
        put_rest(&query, filter, queues);
        code = add_ids(txn, &query, ids);
    }
    keep_newest(ids, filter->limit);
    return code;
}

/* The last of the jobs that a list looks at, if there are as many. */
static enum error_code find_reach(struct sqlite_txn *txn, const struct store_filter *filter,
                                  struct store_reach *ret, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_LIST_REACH, NULL, err);
    put_before(&query, filter);
    lite_put_int(&query, txn->store->list_rows_max);
    ret->stopped = lite_next(&query);
    if (ret->stopped)
        ret->at = lite_read_uuid(&query);
    return lite_end(&query);
}

/* Walks over all jobs, for what no index is about; over so many at most, if the caller can go on
 * from there. */
static enum error_code find_by_walking(struct sqlite_txn *txn, const struct store_filter *filter,
                                       struct str queues, struct found_ids *ids, struct err *err)
{
    struct store_reach reach = {.stopped = false, .at = none};
    enum error_code code = ERR_OK;
    if (filter->reach != NULL)
        code = find_reach(txn, filter, &reach, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_LIST_ALL, NULL, err);
    put_rest(&query, filter, queues);
    lite_put_uuid(&query, &reach.at);
    code = add_ids(txn, &query, ids);
    reach.stopped = reach.stopped && ids->count < filter->limit;
    if (filter->reach != NULL)
        *filter->reach = reach;
    return code;
}

static uint32_t count_bits(uint32_t bits)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1)
        count++;
    return count;
}

static enum error_code find_ids(struct sqlite_txn *txn, const struct store_filter *filter,
                                struct found_ids *ids, struct err *err)
{
    enum statement statement;
    struct str queues = {NULL, 0};
    if (filter->queues != NULL) {
        struct buf buf;
        buf_init(&buf, &txn->scratch, 256);
        access_queues_write(filter->queues, &buf);
        if (buf.failed)
            return sqlite_no_memory(err);
        queues = buf_str(&buf);
    }
    if (!uuid_eq(filter->id, none))
        statement = STATEMENT_LIST_ID;
    else if (filter->asking)
        statement = STATEMENT_LIST_ASKING;
    else if (str_is_set(filter->correlation_id))
        return find_by_correlation(txn, filter, queues, ids, err);
    else if (str_is_set(filter->agent_id))
        statement = STATEMENT_LIST_AGENT;
    else if (has_index(txn->store, filter->statuses) &&
             count_bits(filter->statuses) <= STATUSES_APART_MAX)
        return find_by_status(txn, filter, queues, ids, err);
    else
        return find_by_walking(txn, filter, queues, ids, err);
    struct query query = lite_query(txn->connection, statement, NULL, err);
    put_rest(&query, filter, queues);
    if (statement == STATEMENT_LIST_ID)
        lite_put_uuid(&query, &filter->id);
    else if (statement == STATEMENT_LIST_AGENT)
        lite_put_text(&query, filter->agent_id);
    return add_ids(txn, &query, ids);
}

static enum error_code read_jobs(struct sqlite_txn *txn, const struct found_ids *ids,
                                 struct arena *arena, struct store_job **ret, struct err *err)
{
    struct store_job *jobs = arena_zalloc(arena, ids->count + (size_t)1, sizeof *jobs);
    enum error_code code = ERR_OK;
    if (jobs == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < ids->count && code == ERR_OK; i++) {
        jobs[i].id = ids->at[i];
        code = sqlite_read_job(txn, ids->at[i], arena, &jobs[i].slice, err);
        jobs[i].redacted = code == ERR_OK && jobs[i].slice.job.redacted;
        code = row_damaged(&jobs[i], txn->store->base.options.seed, code, arena, err);
    }
    *ret = jobs;
    return code;
}

enum error_code sqlite_list(struct store_txn *base, const struct store_filter *filter,
                            struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                            struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct found_ids ids = {0};
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct store_job *jobs = NULL;
    code = find_ids(txn, filter, &ids, err);
    if (code == ERR_OK)
        code = read_jobs(txn, &ids, arena, &jobs, err);
    code = sqlite_verb_end(txn, code);
    if (code != ERR_OK)
        return code;
    *ret = jobs;
    *ret_count = ids.count;
    return ERR_OK;
}
