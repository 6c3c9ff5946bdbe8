/* Where work stands: in a lane, among the timers, or in somebody's hands. */
#include "store/sqlite/sqlite.h"

/* The kinds of timers. */
#define TIMER_WORK STR("work")
#define TIMER_DUE STR("due")

enum error_code sqlite_place(struct sqlite_txn *txn, const struct schedule_entry *entry, bool make,
                             struct place *ret, struct err *err)
{
    struct place place = {
        .rank = -entry->priority,
        .run_at = entry->run_at,
        .due_at = entry->due_at,
        .leased = entry->leased,
    };
    if (str_is_set(entry->lane))
        place.lane = lane_book_find(&txn->store->lanes, entry->lane);
    enum error_code code = ERR_OK;
    if (str_is_set(entry->lane) && place.lane == 0 && make)
        code = sqlite_lane(txn, entry->lane, &place.lane, err);
    if (code == ERR_OK)
        *ret = place;
    return code;
}

/* ---- ready and timers ---- */

static void put_ready_key(struct query *query, const struct uuid *job, uint32_t step,
                          const struct place *place)
{
    lite_put_int(query, place->lane);
    lite_put_int(query, place->rank);
    lite_put_int(query, place->run_at);
    lite_put_uuid(query, job);
    lite_put_step(query, step);
}

enum error_code sqlite_ready_insert(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                    const struct place *place, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_READY_INSERT, NULL, err);
    put_ready_key(&query, job, step, place);
    return lite_run(&query);
}

enum error_code sqlite_ready_delete(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                    const struct place *place, bool *ret_found, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_READY_DELETE, NULL, err);
    put_ready_key(&query, job, step, place);
    return lite_run_found(&query, ret_found);
}

static enum error_code timer_insert(struct sqlite_txn *txn, struct str kind, int64_t at,
                                    const struct uuid *job, uint32_t step, const struct place *work,
                                    struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TIMER_INSERT, NULL, err);
    lite_put_text(&query, kind);
    lite_put_int(&query, at);
    lite_put_uuid(&query, job);
    lite_put_step(&query, step);
    if (work != NULL) {
        lite_put_int(&query, work->lane);
        lite_put_int(&query, work->rank);
    } else {
        lite_put_null(&query);
        lite_put_null(&query);
    }
    return lite_run(&query);
}

enum error_code sqlite_timer_delete(struct sqlite_txn *txn, struct str kind, int64_t at,
                                    const struct uuid *job, uint32_t step, bool *ret_found,
                                    struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TIMER_DELETE, NULL, err);
    lite_put_text(&query, kind);
    lite_put_int(&query, at);
    lite_put_uuid(&query, job);
    lite_put_step(&query, step);
    return lite_run_found(&query, ret_found);
}

static bool has_timer(const struct place *place)
{
    return place->due_at != 0 && !place->leased;
}

enum error_code sqlite_put_place(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                 const struct place *place, struct err *err)
{
    enum error_code code = ERR_OK;
    if (place->lane != 0)
        code = place->run_at <= txn->now
                   ? sqlite_ready_insert(txn, job, step, place, err)
                   : timer_insert(txn, TIMER_WORK, place->run_at, job, step, place, err);
    if (code == ERR_OK && has_timer(place))
        code = timer_insert(txn, TIMER_DUE, place->due_at, job, step, NULL, err);
    return code;
}

enum error_code sqlite_take_work(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                 const struct place *place, bool *ret_found, struct err *err)
{
    bool found = false;
    enum error_code code = ERR_OK;
    if (place->lane == 0) {
        *ret_found = false;
        return ERR_OK;
    }
    /* Whether it was promoted meanwhile is not known, and clocks are set back at times: what is
     * more likely comes first. */
    bool ready_first = place->run_at <= txn->now;
    if (ready_first)
        code = sqlite_ready_delete(txn, job, step, place, &found, err);
    if (code == ERR_OK && !found)
        code = sqlite_timer_delete(txn, TIMER_WORK, place->run_at, job, step, &found, err);
    if (code == ERR_OK && !found && !ready_first)
        code = sqlite_ready_delete(txn, job, step, place, &found, err);
    *ret_found = found;
    return code;
}

enum error_code sqlite_take_due(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                const struct place *place, struct err *err)
{
    bool found;
    if (!has_timer(place))
        return ERR_OK;
    return sqlite_timer_delete(txn, TIMER_DUE, place->due_at, job, step, &found, err);
}

/* ---- leases on steps ---- */

enum error_code sqlite_step_claim_delete(struct sqlite_txn *txn, const struct uuid *job,
                                         uint32_t step, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_STEP_CLAIM_DELETE, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_step(&query, step);
    enum error_code code = lite_run(&query);
    return code == ERR_OK ? sqlite_forget_beat(txn, job, step, err) : code;
}

static enum error_code claim_put(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                 const struct claim_row *claim, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_STEP_CLAIM_PUT, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_step(&query, step);
    lite_put_text(&query, claim->worker_id);
    lite_put_text(&query, claim->resource_id);
    lite_put_int(&query, claim->attempt);
    lite_put_int(&query, claim->expires_at);
    lite_put_int(&query, claim->beat_at);
    lite_put_int(&query, claim->due_at);
    lite_put_text(&query, claim->progress);
    lite_put_text(&query, claim->cursor);
    return lite_run(&query);
}

/* Everything but due_at, or (`same`) just the beats, so that no index is touched. */
static enum error_code claim_update(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                    const struct claim_row *claim, bool same, bool *ret_found,
                                    struct err *err)
{
    struct query query = lite_query(
        txn->connection, same ? STATEMENT_STEP_CLAIM_BEAT : STATEMENT_STEP_CLAIM_MOVE, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_step(&query, step);
    if (!same) {
        lite_put_text(&query, claim->worker_id);
        lite_put_text(&query, claim->resource_id);
        lite_put_int(&query, claim->attempt);
    }
    lite_put_int(&query, claim->expires_at);
    lite_put_int(&query, claim->beat_at);
    lite_put_text(&query, claim->progress);
    lite_put_text(&query, claim->cursor);
    return lite_run_found(&query, ret_found);
}

static enum error_code replace_claim(struct sqlite_txn *txn, const struct job *job,
                                     const struct step *step, const struct place *was,
                                     const struct place *now, bool same, struct err *err)
{
    uint32_t ordinal = step->ordinal;
    bool found = false;
    enum error_code code = ERR_OK;
    if (!now->leased)
        return was->leased ? sqlite_step_claim_delete(txn, &job->id, ordinal, err) : ERR_OK;
    struct claim_row claim = row_of_lease(job, step, now->due_at);
    /* A beat does not move the time at which the engine looks: it looks too early, and sees. */
    if (was->leased && was->due_at == now->due_at)
        code = claim_update(txn, &job->id, ordinal, &claim, same, &found, err);
    if (code == ERR_OK && !found)
        code = claim_put(txn, &job->id, ordinal, &claim, err);
    return code;
}

/* ---- schedule entries ---- */

static bool is_same_place(const struct place *a, const struct place *b)
{
    return a->lane == b->lane && a->rank == b->rank && a->run_at == b->run_at &&
           a->due_at == b->due_at && a->leased == b->leased;
}

static bool is_same_work(const struct place *a, const struct place *b)
{
    return a->lane == b->lane && a->rank == b->rank && a->run_at == b->run_at;
}

static enum error_code move(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                            const struct place *was, struct place now, bool stood, struct err *err)
{
    enum error_code code = ERR_OK;
    if (stood && was->lane != 0 && is_same_work(was, &now)) {
        now.lane = 0; /* it is there already */
    } else if (stood) {
        bool found = false;
        code = sqlite_take_work(txn, job, step, was, &found, err);
        /* The caller has loaded it and nobody else could move it: somebody has lost count. */
        if (code == ERR_OK && !found)
            code = err_set(err, ERR_CORRUPT, "a queued entry is not in its lane");
    }
    if (code == ERR_OK)
        code = sqlite_take_due(txn, job, step, was, err);
    return code == ERR_OK ? sqlite_put_place(txn, job, step, &now, err) : code;
}

enum error_code sqlite_replace(struct sqlite_txn *txn, const struct job *job,
                               const struct step *step, const struct schedule_entry *was,
                               const struct schedule_entry *now, bool same, struct place *ret,
                               struct err *err)
{
    struct place old = {0};
    struct place place = {0};
    enum error_code code = sqlite_place(txn, was, false, &old, err);
    /* A lane that is not known holds nothing. */
    if (code == ERR_OK && str_is_set(was->lane) && old.lane == 0)
        code = err_set(err, ERR_CORRUPT, "a queued entry refers to an unknown lane");
    if (code == ERR_OK)
        code = sqlite_place(txn, now, true, &place, err);
    if (code == ERR_OK && step != NULL)
        code = replace_claim(txn, job, step, &old, &place, same, err);
    if (code == ERR_OK && !is_same_place(&old, &place))
        code = move(txn, &job->id, step != NULL ? step->ordinal : STEP_NONE, &old, place,
                    old.lane != 0, err);
    if (code == ERR_OK)
        *ret = place;
    return code;
}
