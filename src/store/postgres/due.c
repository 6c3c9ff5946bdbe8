/* due: what has come due, without a lock, in one statement over four tables. */
#include <stdlib.h>

#include "store/postgres/postgres.h"

/* Where rows come from. Sources with a mark are scanned from there on: nothing is taken here, so
 * the mark is the first row that was still there. */
enum source {
    SOURCE_TIMERS,
    SOURCE_CLAIMS,
    SOURCE_PURGES,
    SOURCE_RESOURCES,
    SOURCE_WORK, /* only when its first comes */
    SOURCE_CLOCK,
};

enum { MARKED_SOURCES = 4 };

static const uint32_t source_lines[MARKED_SOURCES] = {LINE_DUE, LINE_CLAIMS, LINE_PURGE,
                                                      LINE_RESOURCES};

/* $1: the clock, $2: how many of each; $3..5, $6..8, $9..11, $12: where to start; $13..15: the mark
 * of work. One row more than asked for, or the first that is not due yet, tells when to look again.
 */
static const char find_due[] =
    "WITH clock AS MATERIALIZED (SELECT coalesce($1::int8, " SQL_NOW ") AS now)"
    " (SELECT 0 AS source, at, job_id, step, NULL AS id FROM pawl.timers"
    " WHERE kind = 1 AND at <= (SELECT now FROM clock)"
    " AND (at, job_id, step) > ($3::int8, $4::uuid, $5::int8)"
    " ORDER BY at, job_id, step LIMIT $2 + 1)"
    " UNION ALL (SELECT 0, at, job_id, step, NULL FROM pawl.timers"
    " WHERE kind = 1 AND at > (SELECT now FROM clock) ORDER BY at, job_id, step LIMIT 1)"
    " UNION ALL (SELECT 1, due_at, job_id, step, NULL FROM pawl.claim_rows"
    " WHERE due_at > 0 AND due_at <= (SELECT now FROM clock)"
    " AND (due_at, job_id, step) > ($6::int8, $7::uuid, $8::int8)"
    " ORDER BY due_at, job_id, step LIMIT $2 + 1)"
    " UNION ALL (SELECT 1, due_at, job_id, step, NULL FROM pawl.claim_rows"
    " WHERE due_at > 0 AND due_at > (SELECT now FROM clock) ORDER BY due_at, job_id, step LIMIT 1)"
    " UNION ALL (SELECT 2, purge_at, job_id, -1, NULL FROM pawl.state_rows"
    " WHERE purge_at > 0 AND purge_at <= (SELECT now FROM clock)"
    " AND (purge_at, job_id, -1) > ($9::int8, $10::uuid, $11::int8)"
    " AND NOT EXISTS (SELECT FROM pawl.claim_rows c WHERE c.job_id = state_rows.job_id AND c.step "
    "= -1)"
    " ORDER BY purge_at, job_id LIMIT $2 + 1)"
    " UNION ALL (SELECT 2, purge_at, job_id, -1, NULL FROM pawl.state_rows"
    " WHERE purge_at > 0 AND purge_at > (SELECT now FROM clock)"
    " ORDER BY purge_at, job_id LIMIT 1)"
    " UNION ALL (SELECT 3, floor(extract(epoch FROM expires_at) * 1000)::int8, NULL, -1, id"
    " FROM pawl.resources WHERE expires_at >= timestamptz 'epoch' + $12 * interval '1 ms'"
    " ORDER BY expires_at, id LIMIT $2 + 1)"
    " UNION ALL (SELECT 4, at, NULL, -1, NULL FROM pawl.timers WHERE kind = 0"
    " AND (at, job_id, step) > ($13::int8, $14::uuid, $15::int8)"
    " ORDER BY at, job_id, step LIMIT 1)"
    " UNION ALL SELECT 5, now, NULL, -1, NULL FROM clock";

struct due_row {
    enum source source;
    struct store_due due;
};

struct due_list {
    struct due_row *rows;
    uint32_t count;
    int64_t now;
    int64_t next;
};

static int due_cmp(const void *a, const void *b)
{
    return store_due_cmp(&((const struct due_row *)a)->due, &((const struct due_row *)b)->due);
}

/* ---- one statement ---- */

struct due_scans {
    struct mark_scan at[MARKED_SOURCES];
    struct mark_place first[MARKED_SOURCES]; /* that was found */
    uint32_t found[MARKED_SOURCES];
};

static enum error_code read_rows(PGresult *result, struct due_scans *scans, struct arena *arena,
                                 struct due_list *list, struct err *err)
{
    static const enum store_due_what whats[] = {DUE_JOB,      DUE_JOB, DUE_PURGE,
                                                DUE_RESOURCE, DUE_JOB, DUE_JOB};
    struct reader reader;
    size_t rows = (size_t)PQntuples(result);
    list->rows = arena_zalloc(arena, rows, sizeof *list->rows);
    if (list->rows == NULL)
        return out_of_memory(err);
    list->count = (uint32_t)rows;
    reader_init(&reader, result, arena);
    for (size_t i = 0; i < rows; i++) {
        struct due_row *row = &list->rows[i];
        reader_row(&reader, (int)i);
        int64_t source = reader_int(&reader);
        if (source < 0 || source > SOURCE_CLOCK)
            return err_set(err, ERR_CORRUPT, "unexpected PostgreSQL response");
        row->source = (enum source)source;
        row->due = (struct store_due){.what = whats[source], .at = reader_int(&reader)};
        row->due.job = reader_uuid(&reader);
        row->due.step = reader_step(&reader);
        row->due.resource_id = reader_str(&reader);
        if (row->source == SOURCE_CLOCK)
            list->now = row->due.at;
    }
    for (uint32_t i = 0; i < MARKED_SOURCES; i++)
        scans->found[i] = 0;
    for (size_t i = 0; i < rows; i++) {
        const struct store_due *due = &list->rows[i].due;
        uint32_t source = list->rows[i].source;
        if (source >= MARKED_SOURCES || due->at > list->now)
            continue;
        if (scans->found[source]++ == 0)
            scans->first[source] = (struct mark_place){
                0, due->at, due->job, due->step == STEP_NONE ? -1 : (int64_t)due->step};
    }
    return reader_check(&reader, "what is due", err);
}

static enum error_code ask_due(struct postgres_txn *txn, uint32_t limit, struct due_scans *scans,
                               const struct mark_place *work, struct arena *arena,
                               struct due_list *list, struct err *err)
{
    struct params params;
    PGresult *result;
    params_init(&params, &txn->scratch);
    params_add_clock(&params, txn->store);
    params_add_int8(&params, limit);
    for (uint32_t i = 0; i <= MARKED_SOURCES; i++) {
        const struct mark_place *from = i < MARKED_SOURCES ? &scans->at[i].from : work;
        /* Of resources the time alone counts, and it is one that PostgreSQL has. */
        params_add_int8(&params, i == SOURCE_RESOURCES && from->at < 0 ? 0 : from->at);
        if (i == SOURCE_RESOURCES)
            continue;
        params_add_uuid(&params, from->job);
        params_add_int8(&params, from->step);
    }
    enum error_code code = txn_ask(txn, find_due, &params, &result, err);
    if (code != ERR_OK)
        return code;
    code = read_rows(result, scans, arena, list, err);
    list->now = clock_tell(txn->store, list->now);
    PQclear(result);
    return code;
}

/* Asks from the marks; once more without them where too little came and that is affordable. */
static enum error_code ask_twice(struct postgres_txn *txn, uint32_t limit, struct due_scans *scans,
                                 struct arena *arena, struct due_list *list, struct err *err)
{
    struct marks *marks = &txn->store->marks;
    int64_t start = clock_monotonic_ms();
    struct mark_scan work = marks_start(marks, LINE_WORK, start);
    marks_end(marks, &work, NULL);
    enum error_code code = ask_due(txn, limit, scans, &work.from, arena, list, err);
    bool again = false;
    for (uint32_t i = 0; i < MARKED_SOURCES && code == ERR_OK; i++)
        if (scans->found[i] < limit && marks_may_look_back(marks, &scans->at[i], start)) {
            scans->at[i].from = MARK_FIRST;
            scans->at[i].full = true;
            again = true;
        }
    if (code == ERR_OK && again)
        code = ask_due(txn, limit, scans, &work.from, arena, list, err);
    struct mark_found found = {.now = clock_monotonic_ms(), .has_taken = true};
    found.took = found.now - start;
    for (uint32_t i = 0; i < MARKED_SOURCES; i++) {
        found.is_full = scans->at[i].full;
        found.was_short = scans->found[i] < limit;
        /* All before the first that is left has been dealt with. */
        found.taken = mark_place_before(scans->found[i] > 0 ? scans->first[i]
                                                            : (struct mark_place){.at = list->now});
        marks_end(marks, &scans->at[i], code == ERR_OK ? &found : NULL);
    }
    return code;
}

/* ---- the answer ---- */

/* The first `limit` of each kind that are due; the others say when to come again. */
static uint32_t cut(struct due_list *list, uint32_t limit, struct store_due *ret)
{
    uint32_t taken[DUE_RESOURCE + 1] = {0};
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct due_row *row = &list->rows[i];
        if (row->source == SOURCE_CLOCK)
            continue;
        if (row->source != SOURCE_WORK && row->due.at <= list->now &&
            taken[row->due.what] < limit) {
            taken[row->due.what]++;
            ret[count++] = row->due;
        } else if (row->due.at < list->next) {
            list->next = row->due.at;
        }
    }
    return count;
}

enum error_code postgres_due(struct store *handle, uint32_t limit, struct arena *arena,
                             struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                             int64_t *ret_next, struct err *err)
{
    struct store_txn *base;
    struct due_list list = {.next = INT64_MAX};
    struct due_scans scans = {0};
    enum error_code code = postgres_begin(handle, STORE_READ, &base, err);
    if (code != ERR_OK)
        return code;
    struct postgres_txn *txn = (struct postgres_txn *)base;
    code = txn_start(txn, err);
    if (code == ERR_OK) {
        for (uint32_t i = 0; i < MARKED_SOURCES; i++)
            scans.at[i] = marks_start(&txn->store->marks, source_lines[i], clock_monotonic_ms());
        code = ask_twice(txn, limit, &scans, arena, &list, err);
    }
    postgres_rollback(base);
    if (code != ERR_OK)
        return code;
    struct store_due *due = arena_zalloc(arena, list.count, sizeof *due);
    if (due == NULL)
        return out_of_memory(err);
    if (list.count > 0)
        qsort(list.rows, list.count, sizeof *list.rows, due_cmp);
    *ret_count = cut(&list, limit, due);
    *ret = due;
    *ret_now = list.now;
    *ret_next = list.next;
    return ERR_OK;
}
