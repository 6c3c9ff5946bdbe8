/* What has come due, and what has been kept for long enough. */
#include <stdlib.h>

#include "store/memory/memory.h"

struct due_list {
    struct store_due *at;
    uint32_t count;
    uint32_t cap;
    int64_t next; /* when the first thing that is not in the list is due */
};

/* Adds what is due in one table, at most `limit`, and notes when the next will be. */
static enum error_code add_due(struct memory_txn *txn, enum memory_table table,
                               enum store_due_what what, uint32_t limit, struct arena *arena,
                               struct due_list *list)
{
    struct scan scan = memory_scan(txn, table, STR(""));
    const struct entry *entry;
    for (uint32_t taken = 0; (entry = scan_next(&scan)) != NULL; taken++) {
        struct reader reader = reader_of(entry_key(entry));
        struct store_due due = {.what = what, .at = read_key_int(&reader), .step = STEP_NONE};
        if (due.at > txn->now || taken == limit) {
            list->next = due.at < list->next ? due.at : list->next;
            return ERR_OK;
        }
        if (what == DUE_RESOURCE)
            due.resource_id = arena_copy(arena, entry_value(entry));
        else
            due.job = read_key_uuid(&reader);
        if (what == DUE_JOB)
            due.step = read_key_step(&reader);
        struct store_due *slot =
            memory_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at);
        if (slot == NULL || (what == DUE_RESOURCE && !str_is_set(due.resource_id)))
            return ERR_NO_MEMORY;
        *slot = due;
        list->count++;
    }
    return ERR_OK;
}

static void due_sort(struct due_list *list)
{
    if (list->count > 1)
        qsort(list->at, list->count, sizeof *list->at, store_due_cmp);
}

static enum error_code find_due(struct memory_txn *txn, uint32_t limit, struct arena *arena,
                                struct due_list *list)
{
    /* Jobs and steps are due in two tables, of which the oldest together count. */
    enum error_code code = add_due(txn, TABLE_TIMERS_DUE, DUE_JOB, limit, arena, list);
    if (code == ERR_OK)
        code = add_due(txn, TABLE_CLAIMS_DUE, DUE_JOB, limit, arena, list);
    due_sort(list);
    if (list->count > limit) {
        list->next = list->at[limit].at < list->next ? list->at[limit].at : list->next;
        list->count = limit;
    }
    if (code == ERR_OK)
        code = add_due(txn, TABLE_JOB_PURGES, DUE_PURGE, limit, arena, list);
    if (code == ERR_OK)
        code = add_due(txn, TABLE_RESOURCES_DUE, DUE_RESOURCE, limit, arena, list);
    due_sort(list);
    struct scan scan = memory_scan(txn, TABLE_TIMERS_WORK, STR(""));
    const struct entry *entry = scan_next(&scan);
    if (entry != NULL) {
        struct reader reader = reader_of(entry_key(entry));
        int64_t at = read_key_int(&reader);
        list->next = at < list->next ? at : list->next;
    }
    return code;
}

enum error_code memory_due(struct store *store, uint32_t limit, struct arena *arena,
                           struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                           int64_t *ret_next, struct err *err)
{
    struct store_txn *handle;
    enum error_code code = memory_begin(store, STORE_READ, &handle, err);
    if (code != ERR_OK)
        return code;
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct due_list list = {.next = INT64_MAX};
    int64_t now = txn->now;
    code = memory_verb_end(txn, find_due(txn, limit, arena, &list), err);
    memory_rollback(handle);
    if (code != ERR_OK)
        return code;
    *ret = list.at;
    *ret_count = list.count;
    *ret_now = now;
    *ret_next = list.next;
    return ERR_OK;
}

/* ---- sweeping ---- */

/* Takes what is as old as `until`, or older, out of an index by age, and what each stands for. */
static enum error_code sweep_table(struct memory_txn *txn, enum memory_table ages,
                                   enum memory_table table, int64_t until, uint32_t limit,
                                   uint32_t *count)
{
    struct scan scan = memory_scan(txn, ages, STR(""));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && *count < limit && (entry = scan_next(&scan)) != NULL) {
        struct reader reader = reader_of(entry_key(entry));
        if (read_key_int(&reader) > until)
            break;
        struct buf key = memory_buf(txn);
        buf_add(&key, entry_value(entry));
        /* The key of telemetry begins with the job, which is the value, and goes on as its age. */
        if (table == TABLE_TELEMETRY)
            buf_add(&key, entry_key(entry));
        code = memory_take_buf(txn, table, &key, NULL);
        if (code == ERR_OK)
            code = memory_take(txn, ages, entry_key(entry), NULL);
        ++*count;
    }
    return code;
}

enum error_code memory_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                             struct err *err)
{
    struct store_txn *handle;
    enum error_code code = memory_begin(store, STORE_WRITE, &handle, err);
    if (code != ERR_OK)
        return code;
    struct memory_txn *txn = (struct memory_txn *)handle;
    uint32_t count = 0;
    int64_t until = now - REQUEST_KEPT_MS;
    code = sweep_table(txn, TABLE_REQUEST_AGES, TABLE_REQUESTS, until, limit, &count);
    if (code == ERR_OK)
        code = sweep_table(txn, TABLE_TELEMETRY_AGES, TABLE_TELEMETRY, until, limit, &count);
    if (code == ERR_OK)
        code =
            sweep_table(txn, TABLE_PURGED_AGES, TABLE_PURGED, now - PURGED_KEPT_MS, limit, &count);
    if (code == ERR_OK)
        code = sweep_table(txn, TABLE_WORKERS_ENDS, TABLE_WORKERS, now - WORKER_KEPT_MS, limit,
                           &count);
    if (code == ERR_OK)
        code = memory_lanes_sweep(txn);
    code = memory_verb_end(txn, code, err);
    if (code != ERR_OK) {
        memory_rollback(handle);
        return code;
    }
    enum store_outcome outcome;
    code = memory_commit(handle, &outcome, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}

enum error_code memory_record_liveness(struct store *base, struct store_liveness *liveness,
                                       struct err *err)
{
    struct memory_store *store = (struct memory_store *)base;
    (void)err;
    pthread_mutex_lock(&store->lock);
    liveness->before = store->attended_at;
    liveness->now = store_clock_now(&store->clock);
    liveness->wall = store_clock_wall(&store->clock);
    liveness->trusted_before = store->trusted_at;
    if (liveness->trusted > 0) {
        store->attended_at = liveness->now;
        store->trusted_at = liveness->trusted / 1000 * 1000;
    }
    pthread_mutex_unlock(&store->lock);
    return ERR_OK;
}
