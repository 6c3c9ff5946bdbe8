/* The parts of jobs: steps with the places that they have, effects, signals; and steps that are
 * closed all at once. */
#include "store/postgres/postgres.h"

/* ---- steps that are closed, ended or replaced ---- */

/* $1..3: jobs, whether leases and due times end too, whether the plan is replaced; $4 $5: steps
 * that are listed, which are left alone unless the plan is replaced. In one statement: whoever
 * promotes keeps away from jobs that a batch has loaded. */
static const char close_steps[] =
    "WITH victims AS MATERIALIZED ("
    " SELECT s.job_id, s.ordinal, s.lane, s.rank, s.run_at, s.due_at, s.leased, c.ended, c.replaced"
    " FROM unnest($1::uuid[], $2::bool[], $3::bool[]) AS c (job_id, ended, replaced)"
    " JOIN pawl.job_steps s ON s.job_id = c.job_id"
    " WHERE c.replaced OR (s.job_id, s.ordinal) NOT IN"
    " (SELECT l.job_id, l.ordinal FROM unnest($4::uuid[], $5::int4[]) AS l (job_id, ordinal))"
    "), work AS (DELETE FROM pawl.timers t USING victims v WHERE v.lane IS NOT NULL AND t.kind = 0"
    " AND t.at = v.run_at AND t.job_id = v.job_id AND t.step = v.ordinal"
    "), waiting AS (DELETE FROM pawl.ready r USING victims v WHERE r.lane = v.lane"
    " AND r.rank = v.rank AND r.run_at = v.run_at AND r.job_id = v.job_id AND r.step = v.ordinal"
    "), due AS (DELETE FROM pawl.timers t USING victims v WHERE v.ended AND v.due_at > 0"
    " AND t.kind = 1 AND t.at = v.due_at AND t.job_id = v.job_id AND t.step = v.ordinal"
    "), claims AS (DELETE FROM pawl.job_claims c USING victims v WHERE v.ended"
    " AND c.job_id = v.job_id AND c.step = v.ordinal"
    "), gone AS (DELETE FROM pawl.job_steps s USING victims v WHERE v.replaced"
    " AND s.job_id = v.job_id AND s.ordinal = v.ordinal)"
    " UPDATE pawl.job_steps s SET lane = NULL,"
    " due_at = CASE WHEN v.ended THEN 0 ELSE s.due_at END, leased = s.leased AND NOT v.ended"
    " FROM victims v WHERE NOT v.replaced AND s.job_id = v.job_id AND s.ordinal = v.ordinal"
    " AND (v.lane IS NOT NULL OR (v.ended AND (v.due_at > 0 OR v.leased)))";

enum error_code write_closings(struct postgres_txn *txn, const struct store_write *write,
                               struct err *err)
{
    struct params params;
    struct array jobs;
    struct array ended;
    struct array replaced;
    struct array listed_jobs;
    struct array listed;
    array_init(&jobs, &txn->scratch, PARAM_UUID, 1);
    array_init(&ended, &txn->scratch, PARAM_BOOL, 1);
    array_init(&replaced, &txn->scratch, PARAM_BOOL, 1);
    array_init(&listed_jobs, &txn->scratch, PARAM_UUID, 1);
    array_init(&listed, &txn->scratch, PARAM_INT4, 1);
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        if (job->created || !(job->plan_replaced || job->steps_closed || job->steps_ended))
            continue;
        array_add_uuid(&jobs, job->after->job.id);
        array_add_bool(&ended, job->steps_ended || job->plan_replaced);
        array_add_bool(&replaced, job->plan_replaced);
        for (uint32_t k = 0; k < job->step_count && !job->plan_replaced; k++) {
            array_add_uuid(&listed_jobs, job->after->job.id);
            array_add_int4(&listed, job->steps[k].step->ordinal);
        }
    }
    if (jobs.count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    params_add_array(&params, &jobs);
    params_add_array(&params, &ended);
    params_add_array(&params, &replaced);
    params_add_array(&params, &listed_jobs);
    params_add_array(&params, &listed);
    return connection_send_quiet(txn->connection, close_steps, &params, err);
}

/* ---- steps ---- */

/* What the plan says of a step is written once. */
#define UPSERT_STEPS                                                                               \
    "INSERT INTO pawl.job_steps (job_id, ordinal, state_number, lane, rank, run_at, due_at,"       \
    " leased, id, asking_key, plan, state, children)"                                              \
    " SELECT job_id, ordinal, state_number, lane, rank, run_at, due_at, leased, id, asking_key,"   \
    " plan, state, children::int4[]"                                                               \
    " FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::int4[], $5::int4[], $6::int8[],"         \
    " $7::int8[], $8::bool[], $9::text[], $10::text[], $11::json[], $12::json[], $13::text[])"     \
    " AS u (job_id, ordinal, state_number, lane, rank, run_at, due_at, leased, id, asking_key,"    \
    " plan, state, children)"                                                                      \
    " ON CONFLICT (job_id, ordinal) DO UPDATE SET state_number = EXCLUDED.state_number,"           \
    " lane = EXCLUDED.lane, rank = EXCLUDED.rank, run_at = EXCLUDED.run_at,"                       \
    " due_at = EXCLUDED.due_at, leased = EXCLUDED.leased, asking_key = EXCLUDED.asking_key,"       \
    " state = EXCLUDED.state"

static const char upsert_steps[] = UPSERT_STEPS;
static const char redact_steps[] = UPSERT_STEPS ", plan = EXCLUDED.plan";

struct step_arrays {
    struct array jobs;
    struct array ordinals;
    struct array states_numbers;
    struct array lanes;
    struct array ranks;
    struct array times;
    struct array dues;
    struct array leased;
    struct array ids;
    struct array asking;
    struct array plans;
    struct array states;
    struct array children;
};

enum { STEP_ARRAYS = sizeof(struct step_arrays) / sizeof(struct array) };

static void step_arrays_init(struct step_arrays *rows, struct arena *arena)
{
    static const enum param_type types[STEP_ARRAYS] = {
        PARAM_UUID, PARAM_INT4, PARAM_INT4, PARAM_INT4, PARAM_INT4, PARAM_INT8, PARAM_INT8,
        PARAM_BOOL, PARAM_TEXT, PARAM_TEXT, PARAM_JSON, PARAM_JSON, PARAM_TEXT};
    struct array *at = &rows->jobs;
    for (int i = 0; i < STEP_ARRAYS; i++)
        array_init(&at[i], arena, types[i], 0);
}

static void add_children(struct array *array, const struct step *step, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 16);
    buf_add_char(&buf, '{');
    for (uint32_t i = 0; i < step->child_count; i++) {
        if (i > 0)
            buf_add_char(&buf, ',');
        buf_add_int(&buf, step->children[i]);
    }
    buf_add_char(&buf, '}');
    array->buf.failed = array->buf.failed || buf.failed;
    array_add_str(array, buf_str(&buf));
}

static enum error_code step_arrays_add(struct step_arrays *rows, const struct spot *spot,
                                       struct arena *arena, struct err *err)
{
    const struct placement *now = spot->now;
    struct step_row row;
    if (row_of_step(spot->part, arena, &row) != ERR_OK ||
        row_add_plan(spot->part, arena, &row) != ERR_OK)
        return out_of_memory(err);
    array_add_uuid(&rows->jobs, spot->job);
    array_add_int4(&rows->ordinals, spot->step);
    array_add_int4(&rows->states_numbers, row.state_number);
    if (spot->now_lane != 0)
        array_add_int4(&rows->lanes, spot->now_lane);
    else
        array_add_null(&rows->lanes);
    array_add_int4(&rows->ranks, -now->priority);
    array_add_int8(&rows->times, now->run_at);
    array_add_int8(&rows->dues, now->leased ? 0 : now->due_at);
    array_add_bool(&rows->leased, now->leased);
    array_add_str(&rows->ids, row.id);
    array_add_str(&rows->asking, row.asking_key);
    array_add_str(&rows->plans, row.plan);
    array_add_str(&rows->states, row.state);
    add_children(&rows->children, spot->part, arena);
    return ERR_OK;
}

static enum error_code write_steps(struct postgres_txn *txn, const struct store_write *write,
                                   const struct spots *spots, bool redact, struct err *err)
{
    struct step_arrays rows;
    struct params params;
    step_arrays_init(&rows, &txn->scratch);
    const struct spot *spot = spots->at;
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        spot++; /* the job's own */
        for (uint32_t k = 0; k < job->step_count; k++, spot++) {
            if (job->redact != redact || row_step_beats_only(&job->steps[k], spot->was))
                continue;
            enum error_code code = step_arrays_add(&rows, spot, &txn->scratch, err);
            if (code != ERR_OK)
                return code;
        }
    }
    if (rows.jobs.count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    struct array *at = &rows.jobs;
    for (int i = 0; i < STEP_ARRAYS; i++)
        params_add_array(&params, &at[i]);
    return connection_send_quiet(txn->connection, redact ? redact_steps : upsert_steps, &params,
                                 err);
}

/* ---- effects and signals ---- */

/* After a fresh start the same name comes again with another version. */
static const char upsert_effects[] =
    "INSERT INTO pawl.job_effects (job_id, version, open, name, step, key, state)"
    " SELECT * FROM unnest($1::uuid[], $2::int8[], $3::bool[], $4::text[], $5::text[], $6::text[],"
    " $7::json[])"
    " ON CONFLICT (job_id, name) DO UPDATE SET version = EXCLUDED.version, open = EXCLUDED.open,"
    " state = EXCLUDED.state";

static enum error_code write_effects(struct postgres_txn *txn, const struct store_write *write,
                                     struct err *err)
{
    static const enum param_type types[] = {PARAM_UUID, PARAM_INT8, PARAM_BOOL, PARAM_TEXT,
                                            PARAM_TEXT, PARAM_TEXT, PARAM_JSON};
    enum { COLUMNS = sizeof types / sizeof types[0] };
    struct array columns[COLUMNS];
    struct params params;
    for (int i = 0; i < COLUMNS; i++)
        array_init(&columns[i], &txn->scratch, types[i], 0);
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].effect_count; k++) {
            struct effect_row row;
            if (row_of_effect(write->jobs[i].effects[k], &txn->scratch, &row) != ERR_OK)
                return out_of_memory(err);
            array_add_uuid(&columns[0], write->jobs[i].after->job.id);
            array_add_int8(&columns[1], row.version);
            array_add_bool(&columns[2], row.open);
            array_add_str(&columns[3], row.name);
            array_add_str(&columns[4], row.step);
            array_add_str(&columns[5], row.key);
            array_add_str(&columns[6], row.state);
        }
    if (columns[0].count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    for (int i = 0; i < COLUMNS; i++)
        params_add_array(&params, &columns[i]);
    return connection_send_quiet(txn->connection, upsert_effects, &params, err);
}

static const char upsert_signals[] =
    "INSERT INTO pawl.job_signals (job_id, version, delivered, correlation_key, signal_id, payload)"
    " SELECT * FROM unnest($1::uuid[], $2::int8[], $3::bool[], $4::text[], $5::text[], $6::json[])"
    " ON CONFLICT (job_id, version) DO UPDATE SET delivered = EXCLUDED.delivered,"
    " payload = EXCLUDED.payload";

static enum error_code write_signals(struct postgres_txn *txn, const struct store_write *write,
                                     struct err *err)
{
    static const enum param_type types[] = {PARAM_UUID, PARAM_INT8, PARAM_BOOL,
                                            PARAM_TEXT, PARAM_TEXT, PARAM_JSON};
    enum { COLUMNS = sizeof types / sizeof types[0] };
    struct array columns[COLUMNS];
    struct params params;
    for (int i = 0; i < COLUMNS; i++)
        array_init(&columns[i], &txn->scratch, types[i], 0);
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].signal_count; k++) {
            const struct signal *signal = write->jobs[i].signals[k];
            array_add_uuid(&columns[0], write->jobs[i].after->job.id);
            array_add_int8(&columns[1], signal->version);
            array_add_bool(&columns[2], signal->delivered);
            array_add_str(&columns[3], signal->correlation_key);
            array_add_str(&columns[4], signal->signal_id);
            array_add_str(&columns[5], signal->payload);
        }
    if (columns[0].count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    for (int i = 0; i < COLUMNS; i++)
        params_add_array(&params, &columns[i]);
    return connection_send_quiet(txn->connection, upsert_signals, &params, err);
}

enum error_code write_parts(struct postgres_txn *txn, const struct store_write *write,
                            const struct spots *spots, struct err *err)
{
    enum error_code code = write_steps(txn, write, spots, false, err);
    if (code == ERR_OK)
        code = write_steps(txn, write, spots, true, err);
    if (code == ERR_OK)
        code = write_effects(txn, write, err);
    if (code == ERR_OK)
        code = write_signals(txn, write, err);
    return code;
}
