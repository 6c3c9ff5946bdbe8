/* The steps of a job as a batch leaves them: those that it lists, and those that it does not. */
#include "store/sqlite/sqlite.h"

/* ---- steps that are not listed ---- */

struct placed {
    uint32_t ordinal;
    struct place place;
};

/* Where all steps of a job stand. */
static enum error_code read_places(struct sqlite_txn *txn, const struct uuid *job,
                                   struct placed **ret, uint32_t *ret_count, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_STEPS_PLACES, NULL, err);
    uint32_t cap = 0;
    lite_put_uuid(&query, job);
    while (lite_next(&query)) {
        if (!sqlite_more(&txn->scratch, (void **)ret, *ret_count, &cap, sizeof **ret)) {
            query.out_of_memory = true;
            break;
        }
        struct placed *placed = &(*ret)[(*ret_count)++];
        placed->ordinal = lite_read_step(&query);
        placed->place.lane = lite_read_int(&query);
        placed->place.rank = lite_read_int(&query);
        placed->place.run_at = lite_read_int(&query);
        placed->place.due_at = lite_read_int(&query);
        placed->place.leased = lite_read_int(&query) != 0;
    }
    return lite_end(&query);
}

/* Takes a step out of its lane, and (all) out of its lease and due time too; `place` then says what
 * is left. */
static enum error_code unplace(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                               bool all, struct place *place, struct err *err)
{
    /* It is in no lane any more when candidates has just found it. */
    bool found;
    enum error_code code = sqlite_take_work(txn, job, step, place, &found, err);
    place->lane = 0;
    if (code != ERR_OK || !all)
        return code;
    code = sqlite_take_due(txn, job, step, place, err);
    if (code == ERR_OK && place->leased)
        code = sqlite_step_claim_delete(txn, job, step, err);
    *place = (struct place){0};
    return code;
}

static void put_place(struct query *query, const struct place *place)
{
    lite_put_int(query, place->lane);
    lite_put_int(query, place->rank);
    lite_put_int(query, place->run_at);
    lite_put_int(query, place->due_at);
    lite_put_int(query, place->leased);
}

static enum error_code note_place(struct sqlite_txn *txn, const struct uuid *job,
                                  const struct placed *placed, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_STEP_PLACE, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_step(&query, placed->ordinal);
    put_place(&query, &placed->place);
    return lite_run(&query);
}

/* Which steps a write lists, by ordinal below `count`. */
static enum error_code list_steps(struct sqlite_txn *txn, const struct store_job_write *write,
                                  bool **ret, uint32_t *ret_count, struct err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < write->step_count; i++)
        if (write->steps[i].step->ordinal >= count)
            count = write->steps[i].step->ordinal + 1;
    bool *listed = arena_zalloc(&txn->scratch, count + (size_t)1, sizeof *listed);
    if (listed == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < write->step_count; i++)
        listed[write->steps[i].step->ordinal] = true;
    *ret = listed;
    *ret_count = count;
    return ERR_OK;
}

static enum error_code close_steps(struct sqlite_txn *txn, const struct store_job_write *write,
                                   struct err *err)
{
    const struct uuid *job = &write->after->job.id;
    struct placed *placed = NULL;
    uint32_t count = 0;
    bool *listed = NULL;
    uint32_t listed_count = 0;
    enum error_code code = list_steps(txn, write, &listed, &listed_count, err);
    if (code == ERR_OK)
        code = read_places(txn, job, &placed, &count, err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct placed *step = &placed[i];
        bool stands = step->place.lane != 0 ||
                      (write->steps_ended && (step->place.due_at != 0 || step->place.leased));
        if (!stands || (step->ordinal < listed_count && listed[step->ordinal]))
            continue;
        code = unplace(txn, job, step->ordinal, write->steps_ended, &step->place, err);
        if (code == ERR_OK)
            code = note_place(txn, job, step, err);
    }
    return code;
}

enum error_code sqlite_delete_steps(struct sqlite_txn *txn, const struct uuid *job, struct err *err)
{
    struct placed *placed = NULL;
    uint32_t count = 0;
    enum error_code code = read_places(txn, job, &placed, &count, err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = unplace(txn, job, placed[i].ordinal, true, &placed[i].place, err);
    if (code != ERR_OK || count == 0)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_STEPS_DELETE, NULL, err);
    lite_put_uuid(&query, job);
    return lite_run(&query);
}

/* ---- steps that are listed ---- */

static enum error_code move_step(struct sqlite_txn *txn, const struct uuid *job,
                                 const struct step_row *row, const struct place *place,
                                 bool *ret_found, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_STEP_MOVE, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_step(&query, row->ordinal);
    lite_put_int(&query, row->state_number);
    put_place(&query, place);
    lite_put_text(&query, row->asking_key);
    lite_put_text(&query, row->state);
    return lite_run_found(&query, ret_found);
}

static enum error_code insert_step(struct sqlite_txn *txn, const struct uuid *job,
                                   const struct step_row *row, const struct place *place,
                                   struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_STEP_PUT, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_step(&query, row->ordinal);
    lite_put_text(&query, row->id);
    lite_put_int(&query, row->state_number);
    put_place(&query, place);
    lite_put_text(&query, row->asking_key);
    lite_put_text(&query, row->state);
    lite_put_text(&query, row->plan);
    return lite_run(&query);
}

static enum error_code put_step(struct sqlite_txn *txn, const struct store_job_write *write,
                                const struct store_step_write *listed, struct err *err)
{
    /* A new plan gives the places of the old one's steps to others: nothing stands anywhere now. */
    static const struct schedule_entry nowhere;
    const struct schedule_entry *was = write->plan_replaced ? &nowhere : &listed->was;
    const struct job *job = &write->after->job;
    struct step_row row;
    struct place place;
    bool found = false;
    if (row_of_step(listed->step, &txn->scratch, &row) != ERR_OK)
        return sqlite_no_memory(err);
    enum error_code code = sqlite_replace(txn, job, listed->step, was, &listed->now,
                                          store_row_same(listed->changed), &place, err);
    if (row_step_beats_only(listed, was))
        return code;
    if (code == ERR_OK && !write->plan_replaced && !write->redact)
        code = move_step(txn, &job->id, &row, &place, &found, err);
    if (code == ERR_OK && !found && row_add_plan(listed->step, &txn->scratch, &row) != ERR_OK)
        code = sqlite_no_memory(err);
    if (code == ERR_OK && !found)
        code = insert_step(txn, &job->id, &row, &place, err);
    return code;
}

enum error_code sqlite_write_steps(struct sqlite_txn *txn, const struct store_job_write *write,
                                   struct err *err)
{
    enum error_code code = ERR_OK;
    if (write->plan_replaced)
        code = sqlite_delete_steps(txn, &write->after->job.id, err);
    else if (write->steps_closed || write->steps_ended)
        code = close_steps(txn, write, err);
    for (uint32_t i = 0; i < write->step_count && code == ERR_OK; i++)
        code = put_step(txn, write, &write->steps[i], err);
    return code;
}
