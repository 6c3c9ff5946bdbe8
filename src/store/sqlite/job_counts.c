#include "store/sqlite/job_counts.h"

#include <stdlib.h>

#include "store/sqlite/sqlite.h"

enum {
    STORED_EVERY = 1000, /* rows of the feed */
    OLDEST_ROWS = 2000,  /* that are looked at for the oldest job of each queue, of each kind */
};

void job_counts_init(struct job_counts *counts, uint64_t seed)
{
    *counts = (struct job_counts){.count = 0};
    arena_init(&counts->arena);
    map_init(&counts->map, &counts->arena, 0, seed);
}

void job_counts_release(struct job_counts *counts)
{
    arena_release(&counts->arena);
}

/* ---- noting ---- */

static enum error_code add_queue(struct sqlite_store *store, struct str queue,
                                 struct queue_jobs **ret, struct err *err)
{
    struct job_counts *counts = &store->counts;
    uint32_t found;
    struct str name = queue.len > 0 ? arena_copy(&counts->arena, queue) : STR("");
    sqlite_lock(store);
    bool room = str_is_set(name) && sqlite_more(&counts->arena, (void **)&counts->at, counts->count,
                                                &counts->cap, sizeof *counts->at);
    if (room) {
        counts->at[counts->count] = (struct queue_jobs){.queue = name, .stored = true};
        room = map_put(&counts->map, name, counts->count, &found) == ERR_OK;
    }
    if (room)
        counts->last = counts->count++;
    sqlite_unlock(store);
    if (!room)
        return sqlite_no_memory(err);
    *ret = &counts->at[counts->last];
    return ERR_OK;
}

static enum error_code find_queue(struct sqlite_store *store, struct str queue,
                                  struct queue_jobs **ret, struct err *err)
{
    struct job_counts *counts = &store->counts;
    if (counts->count == 0 || !str_eq(counts->at[counts->last].queue, queue)) {
        uint32_t index = map_get(&counts->map, queue.len > 0 ? queue : STR(""));
        if (index == MAP_NONE)
            return add_queue(store, queue, ret, err);
        counts->last = index;
    }
    *ret = &counts->at[counts->last];
    return ERR_OK;
}

enum error_code sqlite_note_status(struct sqlite_txn *txn, struct str queue, enum job_status was,
                                   enum job_status now, struct err *err)
{
    struct queue_jobs *jobs;
    if (was == now)
        return ERR_OK;
    enum error_code code = find_queue(txn->store, queue, &jobs, err);
    if (code != ERR_OK)
        return code;
    if (was != JOB_NONE)
        jobs->pending[was]--;
    if (now != JOB_NONE)
        jobs->pending[now]++;
    if (!jobs->touched) {
        jobs->next_touched = txn->counts_touched ? txn->store->counts.touched : QUEUE_NONE;
        txn->store->counts.touched = txn->store->counts.last;
    }
    jobs->touched = true;
    txn->counts_touched = true;
    return ERR_OK;
}

/* ---- storing ---- */

void sqlite_counts_write(const struct sqlite_txn *txn, struct json_writer *writer)
{
    const struct job_counts *counts = &txn->store->counts;
    json_begin_array(writer);
    for (uint32_t i = txn->counts_touched ? counts->touched : QUEUE_NONE; i != QUEUE_NONE;
         i = counts->at[i].next_touched) {
        const struct queue_jobs *jobs = &counts->at[i];
        json_put_string(writer, jobs->queue);
        for (int status = 0; status < JOB_STATUS_COUNT; status++) {
            if (jobs->pending[status] == 0)
                continue;
            json_put_int(writer, status);
            json_put_int(writer, jobs->pending[status]);
        }
    }
    json_end_array(writer);
}

static enum error_code store_queue(struct sqlite_txn *txn, const struct queue_jobs *jobs,
                                   struct err *err)
{
    enum error_code code = ERR_OK;
    for (int status = 0; status < JOB_STATUS_COUNT && code == ERR_OK; status++) {
        int64_t count = jobs->jobs[status] + jobs->pending[status];
        struct query query = lite_query(
            txn->connection, count == 0 ? STATEMENT_COUNT_DELETE : STATEMENT_COUNT_PUT, NULL, err);
        lite_put_text(&query, jobs->queue);
        lite_put_int(&query, status);
        if (count != 0)
            lite_put_int(&query, count);
        code = lite_run(&query);
    }
    return code;
}

enum error_code sqlite_counts_store(struct sqlite_txn *txn, bool fed, struct err *err)
{
    const struct job_counts *counts = &txn->store->counts;
    enum error_code code = ERR_OK;
    if (!txn->counts_touched || (fed && txn->feed_end - counts->stored < STORED_EVERY))
        return ERR_OK;
    for (uint32_t i = 0; i < counts->count && code == ERR_OK; i++)
        if (counts->at[i].touched || !counts->at[i].stored)
            code = store_queue(txn, &counts->at[i], err);
    if (code != ERR_OK)
        return code;
    txn->counts_stored = true;
    struct query query = lite_query(txn->connection, STATEMENT_COUNTED_PUT, NULL, err);
    lite_put_int(&query, txn->feed_end);
    return lite_run(&query);
}

void sqlite_counts_end(struct sqlite_txn *txn, bool committed)
{
    struct job_counts *counts = &txn->store->counts;
    if (!txn->counts_touched)
        return;
    bool stored = committed && txn->counts_stored;
    if (stored)
        counts->stored = txn->feed_end;
    sqlite_lock(txn->store);
    for (uint32_t i = 0; i < counts->count && stored; i++)
        counts->at[i].stored = true;
    for (uint32_t i = counts->touched; i != QUEUE_NONE; i = counts->at[i].next_touched) {
        struct queue_jobs *jobs = &counts->at[i];
        for (int status = 0; status < JOB_STATUS_COUNT; status++) {
            if (committed)
                jobs->jobs[status] += jobs->pending[status];
            jobs->pending[status] = 0;
        }
        jobs->stored = committed ? stored : jobs->stored;
        jobs->touched = false;
    }
    txn->counts_touched = false;
    sqlite_unlock(txn->store);
}

/* ---- opening ---- */

static bool is_status(int64_t status)
{
    return status >= 0 && status < JOB_STATUS_COUNT;
}

/* What a row of the feed says. A row that is damaged counts as far as it can be read. */
static enum error_code add_changes(struct sqlite_store *store, struct str text, struct arena *arena,
                                   struct err *err)
{
    struct json_iter iter;
    struct str raw;
    struct queue_jobs *jobs = NULL;
    bool ok = json_array_begin(&iter, text);
    while (ok && json_array_next(&iter, &raw)) {
        struct str queue;
        int64_t status;
        int64_t by;
        if (json_type(raw) == JSON_STRING) {
            ok = json_string(raw, arena, &queue);
            enum error_code code = ok ? find_queue(store, queue, &jobs, err) : ERR_OK;
            if (code != ERR_OK)
                return code;
            continue;
        }
        ok = jobs != NULL && json_int64(raw, &status) && is_status(status) &&
             json_array_next(&iter, &raw) && json_int64(raw, &by);
        if (ok) {
            jobs->jobs[status] += by;
            jobs->stored = false;
        }
    }
    return ERR_OK;
}

static enum error_code read_stored(struct sqlite_store *store, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_COUNTS, NULL, err);
    while (lite_next(&query)) {
        struct queue_jobs *jobs;
        query.code = find_queue(store, lite_read_text_view(&query), &jobs, err);
        int64_t status = lite_read_int(&query);
        if (query.code == ERR_OK && is_status(status))
            jobs->jobs[status] = lite_read_int(&query);
    }
    enum error_code code = lite_end(&query);
    if (code != ERR_OK)
        return code;
    query = lite_query(&store->writer, STATEMENT_COUNTED, NULL, err);
    if (lite_next(&query))
        store->counts.stored = lite_read_int(&query);
    return lite_end(&query);
}

enum error_code sqlite_counts_read(struct sqlite_store *store, struct err *err)
{
    struct arena arena;
    arena_init(&arena);
    for (uint32_t i = 0; i < store->counts.count; i++)
        memset(store->counts.at[i].jobs, 0, sizeof store->counts.at[i].jobs);
    enum error_code code = read_stored(store, err);
    struct query query = lite_query(&store->writer, STATEMENT_COUNTS_SINCE, NULL, err);
    lite_put_int(&query, store->counts.stored);
    while (code == ERR_OK && lite_next(&query)) {
        query.code = add_changes(store, lite_read_text_view(&query), &arena, err);
        arena_clear(&arena);
    }
    enum error_code ended = lite_end(&query);
    arena_release(&arena);
    return code == ERR_OK ? ended : code;
}

/* ---- reading ---- */

int64_t sqlite_count_of(struct sqlite_store *store, enum job_status status)
{
    int64_t sum = 0;
    sqlite_lock(store);
    for (uint32_t i = 0; i < store->counts.count; i++)
        sum += store->counts.at[i].jobs[status];
    sqlite_unlock(store);
    return sum;
}

struct count_list {
    struct store_queue_count *at;
    uint32_t count;
    struct map map; /* queue -> index of its first */
};

static void note_oldest(struct count_list *list, struct query *query)
{
    while (lite_next(query)) {
        int64_t status = lite_read_int(query);
        struct str queue = lite_read_text_view(query);
        int64_t created_at = lite_read_int(query);
        uint32_t i = map_get(&list->map, queue.len > 0 ? queue : STR(""));
        for (; i < list->count && str_eq(list->at[i].queue, queue); i++)
            if ((int64_t)list->at[i].status == status &&
                (list->at[i].oldest_at == 0 || created_at < list->at[i].oldest_at))
                list->at[i].oldest_at = created_at;
    }
}

static enum error_code look_at(struct sqlite_txn *txn, enum statement statement, int64_t rows,
                               int64_t of, struct count_list *list, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_int(&query, rows);
    if (of >= 0)
        lite_put_int(&query, of);
    note_oldest(list, &query);
    return lite_end(&query);
}

/* The oldest of each queue and status that has not ended: the first of every lane and status are
 * looked at, which are all as long as they are few. */
static enum error_code find_oldest(struct sqlite_txn *txn, struct count_list *list, struct err *err)
{
    struct store_lane *lanes = NULL;
    uint32_t lane_count = 0;
    uint32_t statuses = 0;
    for (uint32_t i = 0; i < list->count; i++)
        statuses |= 1u << list->at[i].status;
    enum error_code code = look_at(txn, STATEMENT_OLDEST_CLAIMED, OLDEST_ROWS, -1, list, err);
    for (uint32_t status = 0; status < JOB_STATUS_COUNT && code == ERR_OK; status++)
        if ((statuses >> status & 1) != 0 && !job_status_terminal((enum job_status)status))
            code = look_at(txn, STATEMENT_OLDEST_STATED, OLDEST_ROWS, status, list, err);
    if (code == ERR_OK)
        code = look_at(txn, STATEMENT_OLDEST_DELAYED, OLDEST_ROWS, -1, list, err);
    if (code == ERR_OK)
        code = sqlite_read_lanes(txn, 0, &txn->scratch, &lanes, &lane_count, err);
    for (uint32_t i = 0; i < lane_count && code == ERR_OK; i++)
        code = look_at(txn, STATEMENT_OLDEST_READY, OLDEST_ROWS / lane_count + 1, lanes[i].number,
                       list, err);
    /* Counts may be newer than what this transaction sees: then the job is as young as can be. So
     * is one that is not among those that were looked at. */
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i].oldest_at == 0 && !job_status_terminal(list->at[i].status))
            list->at[i].oldest_at = txn->now;
    return code;
}

static int by_queue(const void *a, const void *b)
{
    const struct store_queue_count *one = a;
    const struct store_queue_count *other = b;
    int order = str_cmp(one->queue, other->queue);
    return order != 0 ? order : (int)one->status - (int)other->status;
}

/* What is counted now, by queue and status, without zeros; with the store's lock. */
static bool copy_counts(const struct job_counts *counts, struct arena *arena,
                        struct count_list *list)
{
    list->at = arena_zalloc(arena, (size_t)counts->count * JOB_STATUS_COUNT + 1, sizeof *list->at);
    for (uint32_t i = 0; i < counts->count && list->at != NULL; i++) {
        const struct queue_jobs *jobs = &counts->at[i];
        struct str queue = {NULL, 0};
        for (int status = 0; status < JOB_STATUS_COUNT; status++) {
            if (jobs->jobs[status] <= 0)
                continue;
            if (!str_is_set(queue))
                queue = arena_copy(arena, jobs->queue);
            if (!str_is_set(queue))
                return false;
            list->at[list->count++] = (struct store_queue_count){
                .queue = queue, .status = (enum job_status)status, .count = jobs->jobs[status]};
        }
    }
    return list->at != NULL;
}

enum error_code sqlite_queues(struct store_txn *base, struct arena *arena,
                              struct store_queue_count **ret, uint32_t *ret_count, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct count_list list = {.count = 0};
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    sqlite_lock(txn->store);
    uint64_t written = sqlite_commits_seen(txn->store);
    bool copied = copy_counts(&txn->store->counts, arena, &list);
    sqlite_unlock(txn->store);
    sqlite_wait_for_disk(txn->store, written);
    if (copied && list.count > 1)
        qsort(list.at, list.count, sizeof *list.at, by_queue);
    map_init(&list.map, &txn->scratch, list.count, txn->store->base.options.seed);
    for (uint32_t i = 0; i < list.count && copied; i++) {
        uint32_t found;
        copied = map_put(&list.map, list.at[i].queue, i, &found) == ERR_OK;
    }
    code = copied ? find_oldest(txn, &list, err) : sqlite_no_memory(err);
    code = sqlite_verb_end(txn, code);
    if (code == ERR_OK) {
        *ret = list.at;
        *ret_count = list.count;
    }
    return code;
}
