/* Where work stands: ready, timers and claim_rows, moved for a whole batch at once.
 *
 * What was in a lane may be in `timers` or, promoted meanwhile, in `ready`: it is deleted from
 * timers first and from ready after that. Anyone who promotes holds the row of timers until the row
 * of ready can be seen, so one of the two deletes finds it. */
#include "store/postgres/postgres.h"

enum { KIND_WORK = 0, KIND_DUE = 1 };

/* ---- rows to add or delete ---- */

/* `place` is where `spot` is in `lane`. */
#define READY_FIELDS(F, X)                                                                         \
    F(1, lane, int4, int4, lane)                                                                   \
    X(2, rank, int4, int4, -place->priority)                                                       \
    X(3, run_at, int8, int8, place->run_at)                                                        \
    X(4, job_id, uuid, uuid, spot->job)                                                            \
    X(5, step, int4, int4, spot->step)

/* Of work, or of a due time, which is in no lane. */
#define TIMER_FIELDS(F, X)                                                                         \
    F(1, kind, int4, int4, kind)                                                                   \
    X(2, at, int8, int8, at)                                                                       \
    X(3, job_id, uuid, uuid, spot->job)                                                            \
    X(4, step, int4, int4, spot->step)                                                             \
    X(5, lane, int4, int4_set, lane)                                                               \
    X(6, rank, int4, int4, rank)

static void ready_add(struct columns *rows, const struct spot *spot, uint32_t lane,
                      const struct schedule_entry *place)
{
    COLUMNS_ADD(rows, READY_FIELDS);
}

static void timer_add(struct columns *rows, const struct spot *spot, int kind, int64_t at,
                      uint32_t lane, int64_t rank)
{
    COLUMNS_ADD(rows, TIMER_FIELDS);
}

/* ---- statements ---- */

static const char delete_timers[] = DELETE_PLACED(
    "timers", "p.kind = u.kind AND p.at = u.at AND p.job_id = u.job_id AND p.step = u.step",
    FIELD_ROWS(TIMER_FIELDS));

#define DELETE_READY                                                                               \
    DELETE_PLACED("ready",                                                                         \
                  "p.lane = u.lane AND p.rank = u.rank AND p.run_at = u.run_at"                    \
                  " AND p.job_id = u.job_id AND p.step = u.step",                                  \
                  FIELD_ROWS(READY_FIELDS))

/* A job that has changed is put there anew although its place is the same: anyone who claims reads
 * the job as it was when the row was put there, and passes over one that is gone. */
static const char renew_ready[] =
    "WITH gone AS (" DELETE_READY " RETURNING *) INSERT INTO pawl.ready (" FIELD_NAMES(
        READY_FIELDS) ") SELECT " FIELD_NAMES(READY_FIELDS) " FROM gone";

/* Being ready for a conflict costs as much again as the insert, and there is no conflict as long as
 * every caller knows where its jobs stood. After one the careful statements are used for a while,
 * so that no job is stuck for ever. */
#define INSERT_TIMERS INSERT_FIELDS("timers", TIMER_FIELDS)
#define INSERT_READY INSERT_FIELDS("ready", READY_FIELDS)
#define UNLESS_THERE " ON CONFLICT DO NOTHING"

static const char *const insert_timers[] = {INSERT_TIMERS, INSERT_TIMERS UNLESS_THERE};
static const char *const insert_ready[] = {INSERT_READY, INSERT_READY UNLESS_THERE};

/* ---- leases ---- */

#define CLAIM_KEY(F, X)                                                                            \
    F(1, job_id, uuid, uuid, spot->job)                                                            \
    X(2, step, int4, int4, spot->step)
#define CLAIM_END(F, X)                                                                            \
    CLAIM_KEY(F, X)                                                                                \
    X(3, expires_at, timestamptz, time, lease.expires_at)                                          \
    X(4, beat_at, int8, int8, lease.beat_at)                                                       \
    X(5, due_at, int8, due, spot, lease.due_at)
#define CLAIM_LEASE(F, X)                                                                          \
    CLAIM_END(F, X)                                                                                \
    X(6, attempt, int8, int8, lease.attempt)                                                       \
    X(7, worker_id, text, str, lease.worker_id)                                                    \
    X(8, resource_id, text, str, lease.resource_id)                                                \
    X(9, progress, text, str, lease.progress)                                                      \
    X(10, cursor, text, free_text, lease.cursor)
/* Of a job itself the row says what has become of it too; of a step the rest is in job_steps. */
#define CLAIM_JOB(F, X)                                                                            \
    X(11, status, int4, int4, row->status)                                                         \
    X(12, updated_at, timestamptz, time, row->updated_at)                                          \
    X(13, version, int8, int8, row->version)                                                       \
    X(14, retry_count, int4, int4, row->retry_count)                                               \
    X(15, reason_code, int4, int4, row->reason_code)                                               \
    X(16, state, text, str, row->state)                                                            \
    X(17, hashes, bytea, str, spot->packing.hashes)                                                \
    X(18, record, text, str, spot->packing.record)
#define CLAIM_ALL(F, X) CLAIM_LEASE(F, X) CLAIM_JOB(X, X)

/* A due time of NULL stays as it is stored, which may be earlier: a heartbeat changes no indexed
 * column. */
#define UPDATE_ENDS                                                                                \
    "UPDATE pawl.claim_rows c SET expires_at = u.expires_at, beat_at = u.beat_at,"                 \
    " due_at = coalesce(u.due_at, c.due_at)"
#define OF_CLAIM "p.job_id = u.job_id AND p.step = u.step"
#define FROM_CLAIMS(fields)                                                                        \
    " FROM " PLACED_ROWS(fields, "claim_rows", OF_CLAIM) " WHERE c.ctid = u.place"
#define INSERT_CLAIMS INSERT_FIELDS("claim_rows", CLAIM_ALL)

/* How the row of a lease changes. */
enum claim_change {
    CLAIM_BEATS,   /* its end and nothing else */
    CLAIM_CHANGED, /* more, and the job as far as that has changed */
    CLAIM_FRESH,   /* all: there was none */
    CLAIM_GONE,    /* of a step; that of a job goes with what becomes of the job */
    CLAIM_CHANGES,
};

enum { CLAIM_KEYS = 2, CLAIM_LEASE_FIELDS = 10 }; /* so many columns of a claim are these */

static const char *const change_claims[CLAIM_CHANGES] = {
    UPDATE_ENDS FROM_CLAIMS(CLAIM_END),
    UPDATE_ENDS
    ", attempt = u.attempt, worker_id = u.worker_id, resource_id = u.resource_id,"
    " progress = u.progress, cursor = u.cursor, status = coalesce(u.status, c.status),"
    " updated_at = coalesce(u.updated_at, c.updated_at), version = CASE WHEN u.version IS NULL"
    " THEN c.version WHEN c.version <= u.version - octet_length(u.hashes) / 32 THEN u.version END,"
    " retry_count = coalesce(u.retry_count, c.retry_count),"
    " reason_code = coalesce(u.reason_code, c.reason_code), state = coalesce(u.state, c.state),"
    " hashes = c.hashes || coalesce(u.hashes, ''), record = c.record || coalesce(u.record, "
    "'')" FROM_CLAIMS(CLAIM_ALL),
    INSERT_CLAIMS,
    DELETE_PLACED("claim_rows", OF_CLAIM, FIELD_ROWS(CLAIM_KEY)),
};

static bool claim_change_of(const struct spot *spot, enum claim_change *ret)
{
    if (spot->was->leased && spot->now->leased)
        *ret = spot->part == NULL && spot->write->changed == CHANGED_BEAT ? CLAIM_BEATS
                                                                          : CLAIM_CHANGED;
    else if (spot->now->leased)
        *ret = CLAIM_FRESH;
    else if (spot->was->leased && spot->part != NULL)
        *ret = CLAIM_GONE;
    else
        return false;
    return true;
}

static void claims_init(struct columns *columns, struct arena *arena, enum claim_change change)
{
    if (change == CLAIM_GONE)
        COLUMNS_INIT(columns, arena, CLAIM_KEY);
    else if (change == CLAIM_BEATS)
        COLUMNS_INIT(columns, arena, CLAIM_END);
    else
        COLUMNS_INIT(columns, arena, CLAIM_ALL);
}

static bool has_same_due(const struct spot *spot)
{
    return spot->was->leased && spot->was->due_at == spot->now->due_at;
}

static void array_add_due(struct array *array, const struct spot *spot, int64_t due_at)
{
    if (has_same_due(spot))
        array_add_null(array);
    else
        array_add_int8(array, due_at);
}

static void claims_add(struct columns *columns, const struct spot *spot, enum claim_change change)
{
    struct claim_row lease = row_of_lease(spot->header, spot->part, spot->now->due_at);
    const struct job_row *row = &spot->row;
    if (change == CLAIM_GONE) {
        COLUMNS_ADD(columns, CLAIM_KEY);
        return;
    }
    if (change == CLAIM_BEATS) {
        COLUMNS_ADD(columns, CLAIM_END);
        return;
    }
    COLUMNS_ADD(columns, CLAIM_LEASE);
    if (spot->part == NULL && !store_row_same(spot->write->changed))
        COLUMNS_ADD(columns, CLAIM_JOB);
    else
        for (uint32_t i = CLAIM_LEASE_FIELDS; i < columns->count; i++)
            array_add_null(&columns->at[i]);
}

static enum error_code note_due(struct postgres_txn *txn, uint32_t line, const struct spot *spot,
                                int64_t at, struct err *err)
{
    return txn_note(txn, &txn->puts, line, (struct mark_place){0, at, spot->job, spot->step}, err);
}

static enum error_code write_claims(struct postgres_txn *txn, const struct spots *spots,
                                    enum claim_change wanted, struct err *err)
{
    struct columns columns;
    enum claim_change change;
    enum error_code code = ERR_OK;
    claims_init(&columns, &txn->scratch, wanted);
    for (uint32_t i = 0; i < spots->count && code == ERR_OK; i++) {
        const struct spot *spot = &spots->at[i];
        if (!claim_change_of(spot, &change) || change != wanted)
            continue;
        claims_add(&columns, spot, change);
        if (spot->now->leased && spot->now->due_at > 0 && !has_same_due(spot))
            code = note_due(txn, LINE_CLAIMS, spot, spot->now->due_at, err);
    }
    if (code == ERR_OK && wanted == CLAIM_FRESH && txn_is_careful(txn)) {
        struct columns keys = columns;
        keys.count = CLAIM_KEYS;
        code = send_columns(txn, change_claims[CLAIM_GONE], &keys, err);
    }
    return code == ERR_OK ? send_columns(txn, change_claims[wanted], &columns, err) : code;
}

/* ---- lanes and due times ---- */

struct moves {
    struct columns timers_out;
    struct columns ready_out;
    struct columns timers_in;
    struct columns ready_in;
    struct columns ready_anew;
};

/* A lease has its due time in job_claims. */
static int64_t timer_of(const struct schedule_entry *place)
{
    return place->leased || place->due_at <= 0 ? 0 : place->due_at;
}

static bool same_work(const struct schedule_entry *a, const struct schedule_entry *b)
{
    return str_is_set(a->lane) && str_eq(a->lane, b->lane) && a->priority == b->priority &&
           a->run_at == b->run_at;
}

static enum error_code move_work(struct postgres_txn *txn, struct moves *moves,
                                 const struct spot *spot, struct err *err)
{
    const struct schedule_entry *was = spot->was;
    const struct schedule_entry *now = spot->now;
    if (same_work(was, now)) {
        if (spot->part == NULL && !store_row_same(spot->write->changed))
            ready_add(&moves->ready_anew, spot, spot->now_lane, now);
        return ERR_OK;
    }
    if (str_is_set(was->lane) && spot->was_lane != 0) {
        timer_add(&moves->timers_out, spot, KIND_WORK, was->run_at, spot->was_lane, -was->priority);
        ready_add(&moves->ready_out, spot, spot->was_lane, was);
    }
    if (!str_is_set(now->lane))
        return ERR_OK;
    if (now->run_at > txn->now) {
        timer_add(&moves->timers_in, spot, KIND_WORK, now->run_at, spot->now_lane, -now->priority);
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
        timer_add(&moves->timers_out, spot, KIND_DUE, was, 0, 0);
    if (now == 0)
        return ERR_OK;
    timer_add(&moves->timers_in, spot, KIND_DUE, now, 0, 0);
    return note_due(txn, LINE_DUE, spot, now, err);
}

enum error_code write_places(struct postgres_txn *txn, const struct spots *spots, struct err *err)
{
    struct moves moves;
    enum error_code code = ERR_OK;
    for (int change = CLAIM_CHANGES - 1; change >= 0 && code == ERR_OK; change--)
        code = write_claims(txn, spots, (enum claim_change)change, err);
    COLUMNS_INIT(&moves.timers_out, &txn->scratch, TIMER_FIELDS);
    COLUMNS_INIT(&moves.timers_in, &txn->scratch, TIMER_FIELDS);
    COLUMNS_INIT(&moves.ready_out, &txn->scratch, READY_FIELDS);
    COLUMNS_INIT(&moves.ready_in, &txn->scratch, READY_FIELDS);
    COLUMNS_INIT(&moves.ready_anew, &txn->scratch, READY_FIELDS);
    for (uint32_t i = 0; i < spots->count && code == ERR_OK; i++) {
        code = move_work(txn, &moves, &spots->at[i], err);
        if (code == ERR_OK)
            code = move_due(txn, &moves, &spots->at[i], err);
    }
    if (code == ERR_OK)
        code = send_columns(txn, delete_timers, &moves.timers_out, err);
    if (code == ERR_OK)
        code = send_columns(txn, DELETE_READY, &moves.ready_out, err);
    if (code == ERR_OK)
        code = send_columns(txn, insert_timers[txn_is_careful(txn)], &moves.timers_in, err);
    if (code == ERR_OK)
        code = send_columns(txn, insert_ready[txn_is_careful(txn)], &moves.ready_in, err);
    if (code == ERR_OK)
        code = send_columns(txn, renew_ready, &moves.ready_anew, err);
    return code;
}
