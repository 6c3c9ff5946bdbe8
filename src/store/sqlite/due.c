/* What has come due, and what has been kept for long enough. */
#include <stdlib.h>

#include "store/sqlite/sqlite.h"

struct due_list {
    struct store_due *at;
    uint32_t count;
    uint32_t cap;
    int64_t next; /* when the first thing that is not in the list is due */
};

static void note_next(struct due_list *list, int64_t at)
{
    list->next = at < list->next ? at : list->next;
}

static void sort_due(struct due_list *list)
{
    if (list->count > 1)
        qsort(list->at, list->count, sizeof *list->at, store_due_cmp);
}

/* Adds what is due of one sort, at most `limit`, and notes when the next will be. */
static enum error_code add_due(struct sqlite_txn *txn, enum statement statement,
                               enum store_due_what what, uint32_t limit, struct arena *arena,
                               struct due_list *list, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, arena, err);
    for (uint32_t taken = 0; lite_next(&query);) {
        struct store_due due = {.what = what, .at = lite_read_int(&query)};
        if (due.at > txn->now || taken == limit) {
            note_next(list, due.at);
            break;
        }
        if (what == DUE_RESOURCE)
            lite_skip(&query, 1);
        else
            due.job = lite_read_uuid(&query);
        due.step = lite_read_step(&query);
        if (what == DUE_RESOURCE)
            due.resource_id = lite_read_text(&query);
        else if (sqlite_is_ahead(txn, &due.job, due.step))
            continue; /* it was due */
        if (!sqlite_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at))
            query.out_of_memory = true;
        if (query.out_of_memory)
            break;
        list->at[list->count++] = due;
        taken++;
    }
    return lite_end(&query);
}

static enum error_code note_work(struct sqlite_txn *txn, struct due_list *list, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_DUE_WORK, NULL, err);
    bool known = false;
    while (!known && lite_next(&query)) {
        int64_t at = lite_read_int(&query);
        struct uuid job = lite_read_uuid(&query);
        known = !sqlite_is_ahead(txn, &job, lite_read_step(&query));
        if (known)
            note_next(list, at);
    }
    return lite_end(&query);
}

static enum error_code find_due(struct sqlite_txn *txn, uint32_t limit, struct arena *arena,
                                struct due_list *list, struct err *err)
{
    /* Jobs and steps are due in two tables, of which the oldest together count. */
    enum error_code code = add_due(txn, STATEMENT_DUE_TIMERS, DUE_JOB, limit, arena, list, err);
    if (code == ERR_OK)
        code = add_due(txn, STATEMENT_DUE_CLAIMS, DUE_JOB, limit, arena, list, err);
    sort_due(list);
    if (list->count > limit) {
        note_next(list, list->at[limit].at);
        list->count = limit;
    }
    if (code == ERR_OK)
        code = add_due(txn, STATEMENT_DUE_PURGES, DUE_PURGE, limit, arena, list, err);
    if (code == ERR_OK)
        code = add_due(txn, STATEMENT_DUE_RESOURCES, DUE_RESOURCE, limit, arena, list, err);
    sort_due(list);
    return code == ERR_OK ? note_work(txn, list, err) : code;
}

enum error_code sqlite_due(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err)
{
    struct store_txn *base;
    struct due_list list = {.next = INT64_MAX};
    /* With the turn, and what is ahead in mind: readers would wait until that is written. */
    enum error_code code = sqlite_begin(store, STORE_WRITE, &base, err);
    if (code != ERR_OK)
        return code;
    note_next(&list, sqlite_ahead_due((struct sqlite_txn *)base));
    if (list.next <= ((struct sqlite_txn *)base)->now) {
        sqlite_rollback(base);
        list.next = INT64_MAX;
        code = sqlite_begin(store, STORE_READ, &base, err);
        if (code != ERR_OK)
            return code;
    }
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    int64_t now = txn->now;
    code = find_due(txn, limit, arena, &list, err);
    sqlite_rollback(base);
    if (code != ERR_OK)
        return code;
    *ret = list.at;
    *ret_count = list.count;
    *ret_now = now;
    *ret_next = list.next;
    return ERR_OK;
}

/* ---- sweeping ---- */

/* Deletes what is as old as `until`, or older. */
static enum error_code sweep(struct sqlite_txn *txn, enum statement statement, int64_t until,
                             uint32_t limit, uint32_t *count, struct err *err)
{
    int changes = 0;
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_int(&query, until);
    lite_put_int(&query, limit - *count);
    enum error_code code = lite_run_counted(&query, &changes);
    *count += (uint32_t)changes;
    return code;
}

enum error_code sqlite_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err)
{
    struct store_txn *base;
    enum error_code code = sqlite_begin(store, STORE_WRITE, &base, err);
    if (code != ERR_OK)
        return code;
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum store_outcome outcome;
    uint32_t count = 0;
    bool gave_back = false;
    code = sqlite_verb_begin(txn, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_REQUESTS_SWEEP, now - REQUEST_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_TELEMETRY_SWEEP, now - REQUEST_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_PURGED_SWEEP, now - PURGED_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_WORKERS_SWEEP, now - WORKER_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sqlite_lanes_give_back(txn, &gave_back, err);
    if (code != ERR_OK || (count == 0 && !gave_back))
        sqlite_rollback(base);
    else
        code = sqlite_commit(base, &outcome, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}

enum error_code sqlite_attend(struct store *base, struct store_attendance *attendance,
                              struct err *err)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct store_txn *txn;
    bool gone;
    /* Who writes nothing sees here that the files are gone, as soon as whoever writes. */
    if (owner_check(&store->owner, &gone, NULL) != ERR_OK) {
        enum error_code code = sqlite_begin(base, STORE_WRITE, &txn, err);
        if (code != ERR_OK)
            return code;
        sqlite_rollback(txn);
    }
    attendance->before = store->owner.noted_at;
    attendance->now = store_clock_now(&store->clock);
    attendance->wall = store_clock_wall(&store->clock);
    attendance->trusted_before = store->owner.trusted_at;
    if (attendance->trusted > 0)
        owner_note(&store->owner, attendance->now, attendance->trusted);
    return ERR_OK;
}
