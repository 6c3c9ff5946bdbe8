/* The parts of jobs: steps with the places that they have, effects, signals; and steps that are
 * closed all at once. */
#include "store/postgres/postgres.h"

/* ---- steps that are closed, ended or replaced ---- */

#define CLOSED_WORK                                                                                \
    DELETE_PLACED("timers",                                                                        \
                  "p.kind = 0 AND p.at = v.run_at AND p.job_id = v.job_id AND p.step = v.ordinal", \
                  "victims v WHERE v.lane IS NOT NULL")
#define CLOSED_WAITING                                                                             \
    DELETE_PLACED("ready",                                                                         \
                  "p.lane = v.lane AND p.rank = v.rank AND p.run_at = v.run_at"                    \
                  " AND p.job_id = v.job_id AND p.step = v.ordinal",                               \
                  "victims v")
#define CLOSED_DUE                                                                                 \
    DELETE_PLACED("timers",                                                                        \
                  "p.kind = 1 AND p.at = v.due_at AND p.job_id = v.job_id AND p.step = v.ordinal", \
                  "victims v WHERE v.ended AND v.due_at > 0")
#define CLOSED_CLAIMS                                                                              \
    DELETE_PLACED("claim_rows", "p.job_id = v.job_id AND p.step = v.ordinal",                      \
                  "victims v WHERE v.ended")

/* $1..3: jobs, whether leases and due times end too, whether the plan is replaced; $4 $5: steps
 * that are listed, which are left alone unless the plan is replaced. In one statement: anyone who
 * promotes keeps away from jobs that a batch has loaded. */
static const char close_steps[] =
    "WITH victims AS MATERIALIZED ("
    " SELECT s.ctid AS place, s.job_id, s.ordinal, s.lane, s.rank, s.run_at, s.due_at, s.leased,"
    " c.ended, c.replaced"
    " FROM unnest($1::uuid[], $2::bool[], $3::bool[]) AS c (job_id, ended, replaced)"
    " JOIN pawl.job_steps s ON s.job_id = c.job_id"
    " WHERE c.replaced OR (s.job_id, s.ordinal) NOT IN"
    " (SELECT l.job_id, l.ordinal FROM unnest($4::uuid[], $5::int4[]) AS l (job_id, ordinal))"
    "), work AS (" CLOSED_WORK "), waiting AS (" CLOSED_WAITING "), due AS (" CLOSED_DUE
    "), claims AS (" CLOSED_CLAIMS "), gone AS (DELETE FROM pawl.job_steps"
    " WHERE ctid = ANY (ARRAY(SELECT v.place FROM victims v WHERE v.replaced)))"
    " UPDATE pawl.job_steps s SET lane = NULL,"
    " due_at = CASE WHEN v.ended THEN 0 ELSE s.due_at END, leased = s.leased AND NOT v.ended"
    " FROM victims v WHERE NOT v.replaced AND s.ctid = v.place"
    " AND (v.lane IS NOT NULL OR (v.ended AND (v.due_at > 0 OR v.leased)))";

enum error_code write_closings(struct postgres_txn *txn, const struct store_write *write,
                               struct err *err)
{
    static const enum param_type types[] = {PARAM_UUID, PARAM_BOOL, PARAM_BOOL, PARAM_UUID,
                                            PARAM_INT4};
    struct columns columns;
    struct array *at = columns.at;
    columns_init(&columns, &txn->scratch, types, sizeof types / sizeof types[0]);
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        if (job->created || !(job->plan_replaced || job->steps_closed || job->steps_ended))
            continue;
        array_add_uuid(&at[0], job->after->job.id);
        array_add_bool(&at[1], job->steps_ended || job->plan_replaced);
        array_add_bool(&at[2], job->plan_replaced);
        for (uint32_t k = 0; k < job->step_count && !job->plan_replaced; k++) {
            array_add_uuid(&at[3], job->after->job.id);
            array_add_int4(&at[4], job->steps[k].step->ordinal);
        }
    }
    return send_columns(txn, close_steps, &columns, err);
}

/* ---- steps ---- */

/* What the plan says of a step is written once. */
#define STEP_FIELDS(F, X)                                                                          \
    F(1, job_id, uuid, uuid, spot->job)                                                            \
    X(2, ordinal, int4, int4, spot->step)                                                          \
    X(3, state_number, int4, int4, row.state_number)                                               \
    X(4, lane, int4, int4_set, spot->now_lane)                                                     \
    X(5, rank, int4, int4, -spot->now->priority)                                                   \
    X(6, run_at, int8, int8, spot->now->run_at)                                                    \
    X(7, due_at, int8, int8, spot->now->leased ? 0 : spot->now->due_at)                            \
    X(8, leased, bool, bool, spot->now->leased)                                                    \
    X(9, id, text, str, row.id)                                                                    \
    X(10, asking_key, text, str, row.asking_key)                                                   \
    X(11, plan, json, str, row.plan)                                                               \
    X(12, state, json, str, row.state)                                                             \
    X(13, children, text, children, spot->part, arena)
#define UPSERT_STEPS                                                                               \
    "INSERT INTO pawl.job_steps (" FIELD_NAMES(                                                    \
        STEP_FIELDS) ") SELECT job_id, ordinal,"                                                   \
                     " state_number, lane, rank, run_at, due_at, leased, id, asking_key, plan, "   \
                     "state,"                                                                      \
                     " children::int4[] FROM " FIELD_ROWS(                                         \
                         STEP_FIELDS) " ON CONFLICT (job_id, ordinal) DO UPDATE SET state_number " \
                                      "= EXCLUDED.state_number,"                                   \
                                      " lane = EXCLUDED.lane, rank = EXCLUDED.rank, run_at = "     \
                                      "EXCLUDED.run_at,"                                           \
                                      " due_at = EXCLUDED.due_at, leased = EXCLUDED.leased, "      \
                                      "asking_key = EXCLUDED.asking_key,"                          \
                                      " state = EXCLUDED.state"

static const char upsert_steps[] = UPSERT_STEPS;
static const char redact_steps[] = UPSERT_STEPS ", plan = EXCLUDED.plan";

static void array_add_children(struct array *array, const struct step *step, struct arena *arena)
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

static enum error_code steps_add(struct columns *columns, const struct spot *spot,
                                 struct arena *arena, struct err *err)
{
    struct step_row row;
    if (row_of_step(spot->part, arena, &row) != ERR_OK ||
        row_add_plan(spot->part, arena, &row) != ERR_OK)
        return out_of_memory(err);
    COLUMNS_ADD(columns, STEP_FIELDS);
    return ERR_OK;
}

static enum error_code write_steps(struct postgres_txn *txn, const struct store_write *write,
                                   const struct spots *spots, bool redact, struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, STEP_FIELDS);
    const struct spot *spot = spots->at;
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        spot++; /* the job's own */
        for (uint32_t k = 0; k < job->step_count; k++, spot++) {
            if (job->redact != redact || row_step_beats_only(&job->steps[k], spot->was))
                continue;
            enum error_code code = steps_add(&columns, spot, &txn->scratch, err);
            if (code != ERR_OK)
                return code;
        }
    }
    return send_columns(txn, redact ? redact_steps : upsert_steps, &columns, err);
}

/* ---- effects and signals ---- */

#define EFFECT_FIELDS(F, X)                                                                        \
    F(1, job_id, uuid, uuid, write->jobs[i].after->job.id)                                         \
    X(2, version, int8, int8, row.version)                                                         \
    X(3, open, bool, bool, row.open)                                                               \
    X(4, name, text, str, row.name)                                                                \
    X(5, step, text, str, row.step)                                                                \
    X(6, key, text, str, row.key)                                                                  \
    X(7, state, json, str, row.state)

/* After a fresh start the same name comes again with another version. */
static const char upsert_effects[] =
    INSERT_FIELDS("job_effects", EFFECT_FIELDS) " ON CONFLICT (job_id, name) DO UPDATE SET version "
                                                "= EXCLUDED.version, open = EXCLUDED.open,"
                                                " state = EXCLUDED.state";

static enum error_code write_effects(struct postgres_txn *txn, const struct store_write *write,
                                     struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, EFFECT_FIELDS);
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].effect_count; k++) {
            struct effect_row row;
            if (row_of_effect(write->jobs[i].effects[k], STATE_JSON, &txn->scratch, &row) != ERR_OK)
                return out_of_memory(err);
            COLUMNS_ADD(&columns, EFFECT_FIELDS);
        }
    return send_columns(txn, upsert_effects, &columns, err);
}

#define SIGNAL_FIELDS(F, X)                                                                        \
    F(1, job_id, uuid, uuid, write->jobs[i].after->job.id)                                         \
    X(2, version, int8, int8, signal->version)                                                     \
    X(3, delivered, bool, bool, signal->delivered)                                                 \
    X(4, correlation_key, text, str, signal->correlation_key)                                      \
    X(5, signal_id, text, str, signal->signal_id)                                                  \
    X(6, payload, json, str, signal->payload)

static const char upsert_signals[] = INSERT_FIELDS(
    "job_signals",
    SIGNAL_FIELDS) " ON CONFLICT (job_id, version) DO UPDATE SET delivered = EXCLUDED.delivered,"
                   " payload = EXCLUDED.payload";

static enum error_code write_signals(struct postgres_txn *txn, const struct store_write *write,
                                     struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, SIGNAL_FIELDS);
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].signal_count; k++) {
            const struct signal *signal = write->jobs[i].signals[k];
            COLUMNS_ADD(&columns, SIGNAL_FIELDS);
        }
    return send_columns(txn, upsert_signals, &columns, err);
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
