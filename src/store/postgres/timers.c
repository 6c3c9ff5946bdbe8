/* What has to do with time: promote, due, sweep; and outbox_drain, which works alike. */
#include <stdlib.h>

#include "core/request.h"
#include "store/postgres/postgres.h"

/* After so long nobody asks any more what became of a batch. */
#define BATCHES_KEPT_MS (INT64_C(2) * 24 * 60 * 60 * 1000)

/* Adds a place in a line that is ordered by (time, job, step). */
static void params_add_place(struct params *params, const struct mark_place *place)
{
    params_add_int8(params, place->at);
    params_add_uuid(params, place->job);
    params_add_int8(params, place->step);
}

/* The injected clock, or the database's. */
#define CLOCK_CTE "WITH clock AS MATERIALIZED (SELECT coalesce($1::int8, " SQL_NOW ") AS now)"

/* ---- lines that are taken from ---- */

/* What a scan took: how many, and the last place. */
struct taken {
    uint32_t count;
    struct mark_place last;
};

/* Takes at most `limit` behind `from` and up to `to`. */
typedef enum error_code take_range(struct postgres_txn *txn, void *arg,
                                   const struct mark_place *from, const struct mark_place *to,
                                   uint32_t limit, struct taken *taken, struct err *err);

/* What a look before the mark means for it: if there may be more it goes back there; else all was
 * taken up to where it is at least. */
static void found_before(struct mark_found *found, const struct taken *before,
                         const struct mark_scan *scan)
{
    if (!found->was_short)
        found->taken = before->last;
    else if (!found->has_taken)
        found->taken = scan->from;
    found->has_taken = true;
}

/* Takes from the mark of a line on; before it too if that was too little and it is affordable. */
static enum error_code take_from(struct postgres_txn *txn, const struct mark_scan *scan,
                                 uint32_t limit, take_range *take, void *arg,
                                 struct mark_found *found, uint32_t *ret_count, struct err *err)
{
    struct taken taken = {0};
    struct taken before = {0};
    int64_t start = clock_monotonic_ms();
    enum error_code code = take(txn, arg, &scan->from, &MARK_LAST, limit, &taken, err);
    if (code != ERR_OK)
        return code;
    found->has_taken = taken.count > 0;
    found->taken = taken.last;
    found->is_full = scan->full;
    found->was_short = taken.count < limit;
    if (found->was_short && marks_may_look_back(&txn->store->marks, scan, start)) {
        uint32_t wanted = limit - taken.count;
        found->is_full = true;
        code = take(txn, arg, &MARK_FIRST, &scan->from, wanted, &before, err);
        found->was_short = before.count < wanted;
        found_before(found, &before, scan);
    }
    found->now = clock_monotonic_ms();
    found->took = found->now - start;
    *ret_count = taken.count + before.count;
    return code;
}

static enum error_code take_from_line(struct postgres_txn *txn, uint32_t line, uint32_t limit,
                                      take_range *take, void *arg, uint32_t *ret_count,
                                      struct err *err)
{
    struct mark_found found = {0};
    enum error_code code = txn_start(txn, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    struct mark_scan scan = marks_start(&txn->store->marks, line, clock_monotonic_ms());
    code = take_from(txn, &scan, limit, take, arg, &found, ret_count, err);
    marks_end(&txn->store->marks, &scan, code == ERR_OK ? &found : NULL);
    return txn_end_verb(txn, code);
}

/* ---- promote ---- */

/* The jobs are locked too, just enough to keep out writers: such a batch has loaded
 * them, which does not go with FOR KEY SHARE. So nobody who writes a job ever waits for a promoter,
 * except in load, where waiting is in order. */
static const char promote_work[] =
    CLOCK_CTE ", due AS MATERIALIZED ("
              " SELECT t.ctid AS place, t.at, t.job_id, t.step, t.lane, t.rank FROM pawl.timers t"
              " JOIN pawl.job_rows j ON j.id = t.job_id"
              " WHERE t.kind = 0 AND t.at <= (SELECT now FROM clock)"
              " AND (t.at, t.job_id, t.step) > ($2::int8, $3::uuid, $4::int8)"
              " AND (t.at, t.job_id, t.step) <= ($5::int8, $6::uuid, $7::int8)"
              " ORDER BY t.at, t.job_id, t.step LIMIT $8"
              " FOR UPDATE OF t SKIP LOCKED FOR KEY SHARE OF j SKIP LOCKED"
              "), gone AS (DELETE FROM pawl.timers WHERE ctid = ANY (ARRAY(SELECT place FROM due))"
              "), put AS (INSERT INTO pawl.ready (lane, rank, run_at, job_id, step)"
              " SELECT lane, rank, at, job_id, step FROM due ON CONFLICT DO NOTHING)"
              " SELECT lane, rank, at, job_id, step FROM due ORDER BY at, job_id, step";

/* Moves work that stands behind `from` and up to `to`. */
static enum error_code promote_range(struct postgres_txn *txn, void *arg,
                                     const struct mark_place *from, const struct mark_place *to,
                                     uint32_t limit, struct taken *taken, struct err *err)
{
    (void)arg;
    struct params params;
    struct reader reader;
    PGresult *result;
    params_init(&params, &txn->scratch);
    params_add_clock(&params, txn->store);
    params_add_place(&params, from);
    params_add_place(&params, to);
    params_add_int8(&params, limit);
    txn->wrote = true;
    enum error_code code = txn_ask(txn, promote_work, &params, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, &txn->scratch);
    for (int row = 0; row < PQntuples(result) && code == ERR_OK; row++) {
        reader_row(&reader, row);
        uint32_t lane = (uint32_t)reader_int(&reader);
        struct mark_place place = {.rank = reader_int(&reader)};
        place.at = reader_int(&reader);
        place.job = reader_uuid(&reader);
        place.step = reader_int(&reader);
        code = reader_check(&reader, "waiting work", err);
        if (code == ERR_OK)
            code = txn_note(txn, &txn->puts, LINE_LANES + lane, place, err);
        place.rank = 0;
        if (code == ERR_OK)
            code = txn_note(txn, &txn->takes, LINE_WORK, place, err);
        taken->last = place;
        taken->count++;
    }
    PQclear(result);
    return code;
}

enum error_code postgres_promote(struct store_txn *handle, uint32_t limit, uint32_t *ret_count,
                                 struct err *err)
{
    return take_from_line((struct postgres_txn *)handle, LINE_WORK, limit, promote_range, NULL,
                          ret_count, err);
}

/* ---- the outbox ---- */

/* Submissions behind $1 and up to $2, $3 at most, but for those in $4. */
static const char drain_submissions[] =
    "WITH taken AS MATERIALIZED ("
    " SELECT ctid AS place, id, seq, kind, queue, idempotency_key, payload, options"
    " FROM pawl.submissions"
    " WHERE seq > $1 AND seq <= $2 AND id <> ALL ($4::uuid[])"
    " ORDER BY seq LIMIT $3 FOR UPDATE SKIP LOCKED"
    "), gone AS (DELETE FROM pawl.submissions WHERE ctid = ANY (ARRAY(SELECT place FROM taken)))"
    " SELECT id, seq, kind, queue, idempotency_key, payload, options FROM taken ORDER BY seq";

struct drain {
    const struct store_outbox_request *wanted;
    struct arena *arena;
    struct store_submission *at;
    uint32_t count;
};

/* The last number that a scan leaves out. A place just before a submission has its number and a
 * smaller step. */
static int64_t seq_before(const struct mark_place *from)
{
    return from->step < -1 && from->at > INT64_MIN ? from->at - 1 : from->at;
}

static enum error_code ask_submissions(struct postgres_txn *txn, const struct drain *drain,
                                       const struct mark_place *from, const struct mark_place *to,
                                       uint32_t limit, PGresult **ret, struct err *err)
{
    const struct store_outbox_request *wanted = drain->wanted;
    struct params params;
    struct array quarantined;
    params_init(&params, &txn->scratch);
    params_add_int8(&params, seq_before(from));
    params_add_int8(&params, seq_before(to));
    params_add_int8(&params, limit);
    array_init(&quarantined, &txn->scratch, PARAM_UUID, wanted->quarantined_count);
    for (uint32_t i = 0; i < wanted->quarantined_count; i++)
        array_add_uuid(&quarantined, wanted->quarantined[i]);
    params_add_array(&params, &quarantined);
    txn->wrote = true;
    return txn_ask(txn, drain_submissions, &params, ret, err);
}

static enum error_code drain_range(struct postgres_txn *txn, void *arg,
                                   const struct mark_place *from, const struct mark_place *to,
                                   uint32_t limit, struct taken *taken, struct err *err)
{
    struct drain *drain = arg;
    struct reader reader;
    PGresult *result;
    enum error_code code = ask_submissions(txn, drain, from, to, limit, &result, err);
    if (code != ERR_OK)
        return code;
    size_t count = drain->count;
    size_t more = (size_t)PQntuples(result);
    drain->at = arena_grow(drain->arena, drain->at, count * sizeof *drain->at,
                           (count + more) * sizeof *drain->at);
    if (drain->at == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, drain->arena);
    for (size_t row = 0; row < more && code == ERR_OK; row++) {
        struct store_submission *submission = &drain->at[drain->count++];
        struct mark_place place = {.step = -1};
        reader_row(&reader, (int)row);
        *submission = (struct store_submission){.id = reader_uuid(&reader)};
        place.at = reader_int(&reader);
        submission->kind = reader_str(&reader);
        submission->queue = reader_str(&reader);
        submission->idempotency_key = reader_str(&reader);
        submission->payload = reader_str(&reader);
        submission->options = reader_str(&reader);
        code = reader_check(&reader, "a submission", err);
        if (code == ERR_OK)
            code = txn_note(txn, &txn->takes, LINE_SUBMISSIONS, place, err);
        taken->last = place;
        taken->count++;
    }
    PQclear(result);
    return code;
}

enum error_code postgres_outbox_drain(struct store_txn *handle,
                                      const struct store_outbox_request *wanted,
                                      struct arena *arena, struct store_submission **ret,
                                      uint32_t *ret_count, struct err *err)
{
    struct drain drain = {.wanted = wanted, .arena = arena};
    enum error_code code = take_from_line((struct postgres_txn *)handle, LINE_SUBMISSIONS,
                                          wanted->limit, drain_range, &drain, ret_count, err);
    if (code == ERR_OK)
        *ret = drain.at;
    return code;
}

/* ---- sweep ---- */

/* $1: the clock, which does not count; what is as old as $2 goes, $3: how many, and of deleted jobs
 * what is as old as $4, and workers that ended by $6. Numbers of batches that nobody can ask for
 * any more ($5) go too, and are not counted; of those that are entries in the feed, the ones of
 * which no job is left, as far as a look at some behind the number $7 finds them. */
static const char sweep_old[] =
    "WITH clock AS (SELECT $1::int8)"
    ", old_requests AS MATERIALIZED (SELECT id FROM pawl.requests"
    " WHERE at <= $2 ORDER BY at LIMIT $3 FOR UPDATE SKIP LOCKED"
    "), gone_requests AS (DELETE FROM pawl.requests WHERE id = ANY (ARRAY("
    "SELECT id FROM old_requests)) RETURNING 1"
    "), old_telemetry AS MATERIALIZED (SELECT ctid AS place FROM pawl.job_telemetry"
    " WHERE at <= $2 ORDER BY at"
    " LIMIT greatest($3 - (SELECT count(*) FROM old_requests), 0) FOR UPDATE SKIP LOCKED"
    "), gone_telemetry AS (DELETE FROM pawl.job_telemetry WHERE ctid = ANY (ARRAY("
    "SELECT place FROM old_telemetry)) RETURNING 1"
    "), old_purged AS MATERIALIZED (SELECT job_id FROM pawl.purged"
    " WHERE at <= $4 ORDER BY at LIMIT greatest($3 - (SELECT count(*) FROM old_requests)"
    " - (SELECT count(*) FROM old_telemetry), 0) FOR UPDATE SKIP LOCKED"
    "), gone_purged AS (DELETE FROM pawl.purged WHERE job_id = ANY (ARRAY("
    "SELECT job_id FROM old_purged)) RETURNING 1"
    "), old_workers AS MATERIALIZED (SELECT id FROM pawl.workers"
    " WHERE expires_at <= timestamptz 'epoch' + $6 * interval '1 ms'"
    " ORDER BY expires_at LIMIT greatest($3 - (SELECT count(*) FROM old_requests)"
    " - (SELECT count(*) FROM old_telemetry) - (SELECT count(*) FROM old_purged), 0)"
    " FOR UPDATE SKIP LOCKED"
    "), gone_workers AS (DELETE FROM pawl.workers WHERE id = ANY (ARRAY("
    "SELECT id FROM old_workers)) RETURNING 1"
    "), old_batches AS MATERIALIZED (SELECT ctid AS place FROM pawl.batch_rows WHERE seq IS NULL"
    " AND at < timestamptz 'epoch' + $5 * interval '1 ms' ORDER BY at LIMIT 1000"
    "), entries AS MATERIALIZED (SELECT b.ctid AS place, b.number, EXISTS (SELECT"
    " FROM unnest(b.jobs) AS u (id) JOIN pawl.job_rows j ON j.id = u.id) AS has_jobs"
    " FROM pawl.batch_rows b WHERE b.number > $7 AND b.at < timestamptz 'epoch' + $5 * interval '1 "
    "ms'"
    " ORDER BY b.number LIMIT 1000"
    "), gone_batches AS (DELETE FROM pawl.batch_rows WHERE ctid = ANY (ARRAY("
    "SELECT place FROM old_batches UNION ALL SELECT place FROM entries WHERE NOT has_jobs)))"
    " SELECT (SELECT count(*) FROM gone_requests) + (SELECT count(*) FROM gone_telemetry)"
    " + (SELECT count(*) FROM gone_purged) + (SELECT count(*) FROM gone_workers),"
    " CASE WHEN (SELECT count(*) FROM entries) = 1000 THEN (SELECT max(number) FROM entries)"
    " ELSE 0 END";

/* A statement in a transaction of its own, which gives some numbers. The first parameter is the
 * clock; what it changes is no news to anybody. */
static enum error_code ask_alone(struct store *handle, const char *sql, const int64_t *numbers,
                                 size_t count, int64_t *ret, size_t ret_count, struct err *err)
{
    struct store_txn *base;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum store_outcome outcome;
    enum error_code code = postgres_begin(handle, STORE_WRITE, &base, err);
    if (code != ERR_OK)
        return code;
    struct postgres_txn *txn = (struct postgres_txn *)base;
    code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_clock(&params, txn->store);
    for (size_t i = 0; i < count; i++)
        params_add_int8(&params, numbers[i]);
    if (code == ERR_OK)
        code = txn_ask(txn, sql, &params, &result, err);
    if (code != ERR_OK) {
        postgres_rollback(base);
        return code;
    }
    reader_init(&reader, result, &txn->scratch);
    reader_row(&reader, 0);
    for (size_t i = 0; i < ret_count; i++)
        ret[i] = reader_int(&reader);
    PQclear(result);
    return postgres_commit(base, &outcome, err);
}

/* Should nobody read the feed, its entries get their numbers here. */
static enum error_code number_entries(struct store *handle, struct err *err)
{
    struct store_txn *base;
    enum error_code code = postgres_begin(handle, STORE_READ, &base, err);
    if (code != ERR_OK)
        return code;
    code = feed_number((struct postgres_txn *)base, err);
    postgres_rollback(base);
    return code;
}

enum error_code postgres_sweep(struct store *handle, int64_t now, uint32_t limit,
                               uint32_t *ret_count, struct err *err)
{
    struct postgres *store = (struct postgres *)handle;
    const int64_t numbers[] = {now - REQUEST_KEPT_MS, limit,
                               now - PURGED_KEPT_MS,  now - BATCHES_KEPT_MS,
                               now - WORKER_KEPT_MS,  store->entries_swept};
    int64_t found[2];
    enum error_code code = number_entries(handle, err);
    if (code == ERR_OK)
        code = ask_alone(handle, sweep_old, numbers, 6, found, 2, err);
    if (code == ERR_OK)
        code = lanes_sweep(store, err);
    if (code != ERR_OK)
        return code;
    store->entries_swept = found[1];
    *ret_count = (uint32_t)found[0];
    return code;
}

/* $2: the trusted time to note, or 0. While the clock is behind, where the store's time has come to
 * is left for the others. Whether any of it is on the disk matters to nobody. */
static const char record_liveness[] =
    "WITH clock AS MATERIALIZED (SELECT coalesce($1::int8, " SQL_NOW ") AS now,"
    " coalesce($1::int8, pawl.wall_ms()) AS wall)"
    ", noted AS (INSERT INTO pawl.attended (one, at, wall, trusted)"
    " SELECT true, now, wall, $2 FROM clock WHERE $2 > 0 ON CONFLICT (one) DO UPDATE SET"
    " at = excluded.at, wall = excluded.wall, trusted = excluded.trusted)"
    ", anchored AS (UPDATE pawl.clock c SET anchor = k.now, wall = k.wall FROM clock k"
    " WHERE k.wall < k.now AND c.wall < k.wall AND $1 IS NULL)"
    " SELECT coalesce((SELECT at FROM pawl.attended), 0),"
    " coalesce((SELECT trusted FROM pawl.attended), 0) / 1000 * 1000, now, wall,"
    " set_config('synchronous_commit', 'off', true) FROM clock";

enum error_code postgres_record_liveness(struct store *handle, struct store_liveness *liveness,
                                         struct err *err)
{
    struct postgres *store = (struct postgres *)handle;
    int64_t ret[4];
    enum error_code code = ask_alone(handle, record_liveness, &liveness->trusted, 1, ret, 4, err);
    if (code != ERR_OK)
        return code;
    liveness->before = ret[0];
    liveness->trusted_before = ret[1];
    liveness->now = clock_tell(store, ret[2]);
    liveness->wall = ret[3];
    return ERR_OK;
}
