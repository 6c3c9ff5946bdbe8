/* Where work stands: ready, timers and job_claims, moved for a whole batch at once.
 *
 * What was in a lane may be in `timers` or, promoted meanwhile, in `ready`: it is deleted from
 * timers first and from ready after that. Whoever promotes holds the row of timers until the row of
 * ready can be seen, so one of the two deletes finds it. */
#include "store/postgres/postgres.h"

enum { KIND_WORK = 0, KIND_DUE = 1 };

/* ---- rows to add or delete ---- */

struct ready_arrays {
    struct array lanes;
    struct array ranks;
    struct array times;
    struct array jobs;
    struct array steps;
};

struct timer_arrays {
    struct array kinds;
    struct array times;
    struct array jobs;
    struct array steps;
    struct array lanes;
    struct array ranks;
};

static void ready_init(struct ready_arrays *rows, struct arena *arena, uint32_t count)
{
    array_init(&rows->lanes, arena, PARAM_INT4, count);
    array_init(&rows->ranks, arena, PARAM_INT4, count);
    array_init(&rows->times, arena, PARAM_INT8, count);
    array_init(&rows->jobs, arena, PARAM_UUID, count);
    array_init(&rows->steps, arena, PARAM_INT4, count);
}

static void ready_add(struct ready_arrays *rows, const struct spot *spot, uint32_t lane,
                      const struct placement *place)
{
    array_add_int4(&rows->lanes, lane);
    array_add_int4(&rows->ranks, -place->priority);
    array_add_int8(&rows->times, place->run_at);
    array_add_uuid(&rows->jobs, spot->job);
    array_add_int4(&rows->steps, spot->step);
}

static void timer_init(struct timer_arrays *rows, struct arena *arena, uint32_t count)
{
    array_init(&rows->kinds, arena, PARAM_INT4, count);
    array_init(&rows->times, arena, PARAM_INT8, count);
    array_init(&rows->jobs, arena, PARAM_UUID, count);
    array_init(&rows->steps, arena, PARAM_INT4, count);
    array_init(&rows->lanes, arena, PARAM_INT4, count);
    array_init(&rows->ranks, arena, PARAM_INT4, count);
}

static void timer_add_work(struct timer_arrays *rows, const struct spot *spot, uint32_t lane,
                           const struct placement *place)
{
    array_add_int4(&rows->kinds, KIND_WORK);
    array_add_int8(&rows->times, place->run_at);
    array_add_uuid(&rows->jobs, spot->job);
    array_add_int4(&rows->steps, spot->step);
    array_add_int4(&rows->lanes, lane);
    array_add_int4(&rows->ranks, -place->priority);
}

static void timer_add_due(struct timer_arrays *rows, const struct spot *spot, int64_t at)
{
    array_add_int4(&rows->kinds, KIND_DUE);
    array_add_int8(&rows->times, at);
    array_add_uuid(&rows->jobs, spot->job);
    array_add_int4(&rows->steps, spot->step);
    array_add_null(&rows->lanes);
    array_add_null(&rows->ranks);
}

/* ---- statements ---- */

static const char delete_timers[] =
    "DELETE FROM pawl.timers t USING unnest($1::int4[], $2::int8[], $3::uuid[], $4::int4[])"
    " AS k (kind, at, job_id, step) WHERE t.kind = k.kind AND t.at = k.at AND t.job_id = k.job_id"
    " AND t.step = k.step";

static const char delete_ready[] =
    "DELETE FROM pawl.ready r USING unnest($1::int4[], $2::int4[], $3::int8[], $4::uuid[],"
    " $5::int4[]) AS k (lane, rank, run_at, job_id, step)"
    " WHERE r.lane = k.lane AND r.rank = k.rank AND r.run_at = k.run_at AND r.job_id = k.job_id"
    " AND r.step = k.step";

/* Being ready for a conflict costs as much again as the insert, and there is none as long as every
 * caller knows where its jobs stood. After one the careful statements are used for a while, so that
 * no job is stuck for ever. */
#define INSERT_TIMERS                                                                              \
    "INSERT INTO pawl.timers (kind, at, job_id, step, lane, rank)"                                 \
    " SELECT * FROM unnest($1::int4[], $2::int8[], $3::uuid[], $4::int4[], $5::int4[], "           \
    "$6::int4[])"
#define INSERT_READY                                                                               \
    "INSERT INTO pawl.ready (lane, rank, run_at, job_id, step)"                                    \
    " SELECT * FROM unnest($1::int4[], $2::int4[], $3::int8[], $4::uuid[], $5::int4[])"
#define UNLESS_THERE " ON CONFLICT DO NOTHING"

static const char *const insert_timers[] = {INSERT_TIMERS, INSERT_TIMERS UNLESS_THERE};
static const char *const insert_ready[] = {INSERT_READY, INSERT_READY UNLESS_THERE};

static enum error_code send_timers(struct postgres_txn *txn, const char *sql,
                                   struct timer_arrays *rows, bool with_lanes, struct err *err)
{
    struct params params;
    if (rows->kinds.count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    params_add_array(&params, &rows->kinds);
    params_add_array(&params, &rows->times);
    params_add_array(&params, &rows->jobs);
    params_add_array(&params, &rows->steps);
    if (with_lanes) {
        params_add_array(&params, &rows->lanes);
        params_add_array(&params, &rows->ranks);
    }
    return connection_send_quiet(txn->connection, sql, &params, err);
}

static enum error_code send_ready(struct postgres_txn *txn, const char *sql,
                                  struct ready_arrays *rows, struct err *err)
{
    struct params params;
    if (rows->lanes.count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    params_add_array(&params, &rows->lanes);
    params_add_array(&params, &rows->ranks);
    params_add_array(&params, &rows->times);
    params_add_array(&params, &rows->jobs);
    params_add_array(&params, &rows->steps);
    return connection_send_quiet(txn->connection, sql, &params, err);
}

/* ---- leases ---- */

static const char delete_claims[] =
    "DELETE FROM pawl.job_claims c USING unnest($1::uuid[], $2::int4[]) AS k (job_id, step)"
    " WHERE c.job_id = k.job_id AND c.step = k.step";

/* The same where it is known where they are. */
static const char delete_claims_there[] = "DELETE FROM pawl.job_claims WHERE ctid = ANY ($1)";

#define INSERT_CLAIMS                                                                              \
    "INSERT INTO pawl.job_claims (job_id, step, attempt, expires_at, beat_at, due_at, worker_id,"  \
    " resource_id, progress, cursor)"                                                              \
    " SELECT * FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::timestamptz[], $5::int8[],"     \
    " $6::int8[], $7::text[], $8::text[], $9::json[], $10::text[])"

static const char *const insert_claims[] = {
    INSERT_CLAIMS,
    INSERT_CLAIMS " ON CONFLICT (job_id, step) DO UPDATE SET attempt = EXCLUDED.attempt,"
                  " expires_at = EXCLUDED.expires_at, beat_at = EXCLUDED.beat_at,"
                  " due_at = EXCLUDED.due_at, worker_id = EXCLUDED.worker_id,"
                  " resource_id = EXCLUDED.resource_id, progress = EXCLUDED.progress,"
                  " cursor = EXCLUDED.cursor",
};

/* A due time of NULL stays as it is: a heartbeat changes no indexed column. */
static const char update_claims[] =
    "UPDATE pawl.job_claims c SET attempt = u.attempt, expires_at = u.expires_at,"
    " beat_at = u.beat_at, due_at = coalesce(u.due_at, c.due_at), worker_id = u.worker_id,"
    " resource_id = u.resource_id, progress = u.progress, cursor = u.cursor"
    " FROM unnest($1::uuid[], $2::int4[], $3::int8[], $4::timestamptz[], $5::int8[], $6::int8[],"
    " $7::text[], $8::text[], $9::json[], $10::text[])"
    " AS u (job_id, step, attempt, expires_at, beat_at, due_at, worker_id, resource_id, progress,"
    " cursor) WHERE c.job_id = u.job_id AND c.step = u.step";

struct claim_arrays {
    struct array jobs;
    struct array steps;
    struct array attempts;
    struct array ends;
    struct array beats;
    struct array dues;
    struct array workers;
    struct array resources;
    struct array progress;
    struct array cursors;
};

enum { CLAIM_ARRAYS = sizeof(struct claim_arrays) / sizeof(struct array) };

static void claims_init(struct claim_arrays *rows, struct arena *arena, uint32_t count)
{
    static const enum param_type types[CLAIM_ARRAYS] = {
        PARAM_UUID, PARAM_INT4, PARAM_INT8, PARAM_TIME, PARAM_INT8,
        PARAM_INT8, PARAM_TEXT, PARAM_TEXT, PARAM_JSON, PARAM_TEXT};
    struct array *at = &rows->jobs;
    for (int i = 0; i < CLAIM_ARRAYS; i++)
        array_init(&at[i], arena, types[i], count);
}

static void claims_add(struct claim_arrays *rows, const struct spot *spot, bool keep_due)
{
    struct claim_row row = row_of_lease(spot->header, spot->part, spot->now->due_at);
    array_add_uuid(&rows->jobs, spot->job);
    array_add_int4(&rows->steps, spot->step);
    array_add_int8(&rows->attempts, row.attempt);
    array_add_time(&rows->ends, row.expires_at);
    array_add_int8(&rows->beats, row.beat_at);
    if (keep_due)
        array_add_null(&rows->dues);
    else
        array_add_int8(&rows->dues, row.due_at);
    array_add_str(&rows->workers, row.worker_id);
    array_add_str(&rows->resources, row.resource_id);
    array_add_str(&rows->progress, row.progress);
    array_add_free_text(&rows->cursors, row.cursor);
}

static enum error_code send_claims(struct postgres_txn *txn, const char *sql,
                                   struct claim_arrays *rows, int columns, struct err *err)
{
    struct params params;
    struct array *at = &rows->jobs;
    if (rows->jobs.count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    for (int i = 0; i < columns; i++)
        params_add_array(&params, &at[i]);
    return connection_send_quiet(txn->connection, sql, &params, err);
}

static enum error_code note_due(struct postgres_txn *txn, uint32_t line, const struct spot *spot,
                                int64_t at, struct err *err)
{
    return txn_note(txn, &txn->puts, line, (struct mark_place){0, at, spot->job, spot->step}, err);
}

/* Where the row of a job's own lease is; NULL: not known. */
static const uint8_t *lease_place_of(const struct postgres_txn *txn, const struct spot *spot)
{
    const struct row_place *place = spot->part == NULL ? txn_place_of(txn, spot->job) : NULL;
    return place != NULL && place->has_lease ? place->lease : NULL;
}

static enum error_code write_claims(struct postgres_txn *txn, const struct spots *spots,
                                    struct err *err)
{
    struct claim_arrays gone;
    struct claim_arrays fresh;
    struct claim_arrays beats;
    struct array gone_there;
    enum error_code code = ERR_OK;
    array_init(&gone_there, &txn->scratch, PARAM_TID, spots->count);
    claims_init(&gone, &txn->scratch, 0);
    claims_init(&fresh, &txn->scratch, 0);
    claims_init(&beats, &txn->scratch, 0);
    for (uint32_t i = 0; i < spots->count && code == ERR_OK; i++) {
        const struct spot *spot = &spots->at[i];
        bool same_due = spot->was->due_at == spot->now->due_at;
        if (spot->was->leased && spot->now->leased) {
            claims_add(&beats, spot, same_due);
        } else if (spot->now->leased) {
            claims_add(&fresh, spot, false);
        } else if (spot->was->leased && lease_place_of(txn, spot) != NULL) {
            array_add_tid(&gone_there, lease_place_of(txn, spot));
        } else if (spot->was->leased) {
            array_add_uuid(&gone.jobs, spot->job);
            array_add_int4(&gone.steps, spot->step);
        }
        if (spot->now->leased && spot->now->due_at > 0 && !(spot->was->leased && same_due))
            code = note_due(txn, LINE_CLAIMS, spot, spot->now->due_at, err);
    }
    if (code == ERR_OK && gone_there.count > 0) {
        struct params params;
        params_init(&params, &txn->scratch);
        params_add_array(&params, &gone_there);
        code = connection_send_quiet(txn->connection, delete_claims_there, &params, err);
    }
    if (code == ERR_OK)
        code = send_claims(txn, delete_claims, &gone, 2, err);
    if (code == ERR_OK)
        code = send_claims(txn, update_claims, &beats, CLAIM_ARRAYS, err);
    if (code == ERR_OK)
        code = send_claims(txn, insert_claims[txn_is_careful(txn)], &fresh, CLAIM_ARRAYS, err);
    return code;
}

/* ---- lanes and due times ---- */

struct moves {
    struct timer_arrays timers_out;
    struct ready_arrays ready_out;
    struct timer_arrays timers_in;
    struct ready_arrays ready_in;
};

/* A lease has its due time in job_claims. */
static int64_t timer_of(const struct placement *place)
{
    return place->leased || place->due_at <= 0 ? 0 : place->due_at;
}

static bool same_work(const struct placement *a, const struct placement *b)
{
    return str_is_set(a->lane) && str_eq(a->lane, b->lane) && a->priority == b->priority &&
           a->run_at == b->run_at;
}

static enum error_code move_work(struct postgres_txn *txn, struct moves *moves,
                                 const struct spot *spot, struct err *err)
{
    const struct placement *was = spot->was;
    const struct placement *now = spot->now;
    if (same_work(was, now))
        return ERR_OK;
    if (str_is_set(was->lane) && spot->was_lane != 0) {
        timer_add_work(&moves->timers_out, spot, spot->was_lane, was);
        ready_add(&moves->ready_out, spot, spot->was_lane, was);
    }
    if (!str_is_set(now->lane))
        return ERR_OK;
    if (now->run_at > txn->now) {
        timer_add_work(&moves->timers_in, spot, spot->now_lane, now);
        return note_due(txn, LINE_WORK, spot, now->run_at, err);
    }
    ready_add(&moves->ready_in, spot, spot->now_lane, now);
    struct mark_place place = {-now->priority, now->run_at, spot->job, spot->step};
    return txn_note(txn, &txn->puts, LINE_LANES + spot->now_lane, place, err);
}

static enum error_code move_due(struct postgres_txn *txn, struct moves *moves,
                                const struct spot *spot, struct err *err)
{
    int64_t was = timer_of(spot->was);
    int64_t now = timer_of(spot->now);
    if (was == now)
        return ERR_OK;
    if (was > 0)
        timer_add_due(&moves->timers_out, spot, was);
    if (now == 0)
        return ERR_OK;
    timer_add_due(&moves->timers_in, spot, now);
    return note_due(txn, LINE_DUE, spot, now, err);
}

enum error_code write_places(struct postgres_txn *txn, const struct spots *spots, struct err *err)
{
    struct moves moves;
    enum error_code code = write_claims(txn, spots, err);
    timer_init(&moves.timers_out, &txn->scratch, 0);
    ready_init(&moves.ready_out, &txn->scratch, 0);
    timer_init(&moves.timers_in, &txn->scratch, 0);
    ready_init(&moves.ready_in, &txn->scratch, spots->count);
    for (uint32_t i = 0; i < spots->count && code == ERR_OK; i++) {
        code = move_work(txn, &moves, &spots->at[i], err);
        if (code == ERR_OK)
            code = move_due(txn, &moves, &spots->at[i], err);
    }
    if (code == ERR_OK)
        code = send_timers(txn, delete_timers, &moves.timers_out, false, err);
    if (code == ERR_OK)
        code = send_ready(txn, delete_ready, &moves.ready_out, err);
    if (code == ERR_OK)
        code = send_timers(txn, insert_timers[txn_is_careful(txn)], &moves.timers_in, true, err);
    if (code == ERR_OK)
        code = send_ready(txn, insert_ready[txn_is_careful(txn)], &moves.ready_in, err);
    return code;
}
