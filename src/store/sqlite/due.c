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

/* Adds what is due of one kind, at most `limit`, and notes when the next will be. */
static enum error_code add_due(struct sqlite_txn *txn, enum statement statement,
                               enum store_due_what what, uint32_t limit, struct arena *arena,
                               struct due_list *list, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, arena, err);
    for (uint32_t taken = 0; lite_next(&query); taken++) {
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
        if (!sqlite_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at))
            query.out_of_memory = true;
        if (query.out_of_memory)
            break;
        list->at[list->count++] = due;
    }
    return lite_end(&query);
}

/* ---- leases on jobs, which are in memory ---- */

enum error_code sqlite_note_lease(struct sqlite_txn *txn, int64_t no, const struct uuid *job,
                                  int64_t due_at, struct err *err)
{
    struct sqlite_store *store = txn->store;
    if (!sqlite_more(&txn->notes, (void **)&txn->ends, txn->end_count, &txn->end_cap,
                     sizeof *txn->ends))
        return sqlite_no_memory(err);
    txn->ends[txn->end_count++] = (struct lease_end){.no = no, .due_at = due_at, .job = *job};
    if (due_at == 0)
        return ERR_OK;
    sqlite_lock(store);
    bool room = lease_ends_reserve(&store->lease_ends, txn->end_count);
    sqlite_unlock(store);
    return room ? ERR_OK : sqlite_no_memory(err);
}

void sqlite_keep_leases(struct sqlite_txn *txn)
{
    struct sqlite_store *store = txn->store;
    if (txn->end_count == 0)
        return;
    sqlite_lock(store);
    for (uint32_t i = 0; i < txn->end_count; i++)
        lease_ends_put(&store->lease_ends, &txn->ends[i]);
    sqlite_unlock(store);
}

enum error_code sqlite_leases_read(struct sqlite_store *store, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_CLAIMS_DUE, NULL, err);
    while (lite_next(&query)) {
        struct lease_end end = {.no = lite_read_int(&query)};
        end.due_at = lite_read_int(&query);
        end.job = lite_read_uuid(&query);
        if (!lease_ends_reserve(&store->lease_ends, 1))
            query.out_of_memory = true;
        if (query.out_of_memory || query.code != ERR_OK)
            break;
        lease_ends_put(&store->lease_ends, &end);
    }
    return lite_end(&query);
}

/* All of them are looked at only when one may be due, or to know the next time if they are few.
 * With the store's lock. */
static bool find_ended(struct lease_ends *ends, int64_t now, struct arena *arena,
                       struct due_list *list)
{
    enum { FEW = 4096 };
    if (ends->earliest > now && (!ends->passed || ends->cap > FEW)) {
        note_next(list, ends->earliest);
        return true;
    }
    ends->earliest = INT64_MAX;
    ends->passed = false;
    for (uint32_t i = 0; i < ends->cap; i++) {
        const struct lease_end *end = &ends->slots[i];
        if (end->no == 0)
            continue;
        if (end->due_at < ends->earliest)
            ends->earliest = end->due_at;
        if (end->due_at > now) {
            note_next(list, end->due_at);
            continue;
        }
        if (!sqlite_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at))
            return false;
        list->at[list->count++] = (struct store_due){
            .what = DUE_JOB, .at = end->due_at, .job = end->job, .step = STEP_NONE};
    }
    return true;
}

static enum error_code add_ended(struct sqlite_txn *txn, struct arena *arena, struct due_list *list,
                                 struct err *err)
{
    struct sqlite_store *store = txn->store;
    sqlite_lock(store);
    bool found = find_ended(&store->lease_ends, txn->now, arena, list);
    if (!found) /* they are looked at again */
        store->lease_ends.earliest = 0;
    sqlite_unlock(store);
    return found ? ERR_OK : sqlite_no_memory(err);
}

static enum error_code note_work(struct sqlite_txn *txn, struct due_list *list, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_DUE_WORK, NULL, err);
    if (lite_next(&query))
        note_next(list, lite_read_int(&query));
    return lite_end(&query);
}

static enum error_code find_due(struct sqlite_txn *txn, uint32_t limit, struct arena *arena,
                                struct due_list *list, struct err *err)
{
    /* Jobs and steps are due in three places, of which the oldest together count. */
    enum error_code code = add_due(txn, STATEMENT_DUE_TIMERS, DUE_JOB, limit, arena, list, err);
    if (code == ERR_OK)
        code = add_ended(txn, arena, list, err);
    if (code == ERR_OK)
        code = add_due(txn, STATEMENT_DUE_STEP_CLAIMS, DUE_JOB, limit, arena, list, err);
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
    enum error_code code = sqlite_begin(store, STORE_READ, &base, err);
    if (code != ERR_OK)
        return code;
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

static const struct request_key first_request = {STR_INIT(""), STR_INIT("")};

/* Looks at requests in the order of their keys, from where the last sweep ended, and after the last
 * of them from the first again: no index says which are old. */
static enum error_code sweep_requests(struct sqlite_txn *txn, int64_t until, uint32_t limit,
                                      uint32_t *count, struct err *err)
{
    struct sqlite_store *store = txn->store;
    struct request_key *old = arena_alloc(&txn->scratch, limit * sizeof *old);
    uint32_t found = 0;
    uint32_t seen = 0;
    if (old == NULL)
        return sqlite_no_memory(err);
    struct query query = lite_query(txn->connection, STATEMENT_REQUESTS_AFTER, &txn->scratch, err);
    lite_put_text(&query, store->request_swept.scope);
    lite_put_text(&query, store->request_swept.key);
    lite_put_int(&query, REQUESTS_WALKED_MAX);
    struct request_key last = first_request;
    while (*count + found < limit && lite_next(&query)) {
        last = (struct request_key){lite_read_text(&query), lite_read_text(&query)};
        if (lite_read_int(&query) <= until)
            old[found++] = last;
        seen++;
    }
    enum error_code code = lite_end(&query);
    for (uint32_t i = 0; i < found && code == ERR_OK; i++) {
        query = lite_query(txn->connection, STATEMENT_REQUEST_DELETE, NULL, err);
        lite_put_text(&query, old[i].scope);
        lite_put_text(&query, old[i].key);
        code = lite_run(&query);
    }
    if (code != ERR_OK)
        return code;
    *count += found;
    /* At the end the next sweep begins at the first key again. */
    bool ended = *count < limit && seen < REQUESTS_WALKED_MAX;
    arena_clear(&store->sweep_arena);
    store->request_swept = ended ? first_request
                                 : (struct request_key){arena_copy(&store->sweep_arena, last.scope),
                                                        arena_copy(&store->sweep_arena, last.key)};
    if (!str_is_set(store->request_swept.scope) || !str_is_set(store->request_swept.key))
        store->request_swept = first_request;
    return ERR_OK;
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
    bool swept_lanes = false;
    bool swept_feed = false;
    code = sqlite_verb_begin(txn, err);
    if (code == ERR_OK)
        code = sweep_requests(txn, now - REQUEST_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_TELEMETRY_SWEEP, now - REQUEST_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_PURGED_SWEEP, now - PURGED_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sweep(txn, STATEMENT_WORKERS_SWEEP, now - WORKER_KEPT_MS, limit, &count, err);
    if (code == ERR_OK)
        code = sqlite_sweep_feed(txn, &swept_feed, err);
    if (code == ERR_OK)
        code = sqlite_lanes_sweep(txn, &swept_lanes, err);
    if (code != ERR_OK || (count == 0 && !swept_lanes && !swept_feed))
        sqlite_rollback(base);
    else
        code = sqlite_commit(base, &outcome, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}

enum error_code sqlite_record_liveness(struct store *base, struct store_liveness *liveness,
                                       struct err *err)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    struct store_txn *txn;
    bool gone;
    /* A process that writes nothing notices here that the files are gone, as soon as a writer does.
     */
    if (owner_check(&store->owner, &gone, NULL) != ERR_OK) {
        enum error_code code = sqlite_begin(base, STORE_WRITE, &txn, err);
        if (code != ERR_OK)
            return code;
        sqlite_rollback(txn);
    }
    liveness->before = store->owner.noted_at;
    liveness->now = store_clock_now(&store->clock);
    liveness->wall = store_clock_wall(&store->clock);
    liveness->trusted_before = store->owner.trusted_at;
    if (liveness->trusted > 0)
        owner_note(&store->owner, liveness->now, liveness->trusted);
    return ERR_OK;
}
