/* Heartbeats that write no row, as transactions and the store see them: see beats.h. */
#include "store/sqlite/sqlite.h"

/* ---- the mark ---- */

enum error_code sqlite_beats_open(struct sqlite_store *store, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_BEATS, NULL, err);
    int64_t now = store_clock_now(&store->clock);
    int64_t lost_until = 0;
    if (lite_next(&query)) {
        store->beats_marked = lite_read_int(&query) != 0;
        lost_until = lite_read_int(&query);
    }
    /* A clock that was set back since says nothing of the future. */
    store->base.beats_since = store->beats_marked || lost_until > now ? now : lost_until;
    return lite_end(&query);
}

static enum error_code set_mark(struct sqlite_store *store, bool unsaved, struct err *err)
{
    struct query query = lite_query(&store->writer, STATEMENT_BEATS_MARK, NULL, err);
    lite_put_int(&query, unsaved);
    lite_put_int(&query, store->base.beats_since);
    return lite_run(&query);
}

static enum error_code save_beat(struct sqlite_store *store, const struct beat *beat)
{
    enum statement statement =
        beat->step == STEP_NONE ? STATEMENT_BEAT_SAVE : STATEMENT_BEAT_SAVE_STEP;
    struct query query = lite_query(&store->writer, statement, NULL, NULL);
    lite_put_uuid(&query, &beat->job);
    lite_put_step(&query, beat->step);
    lite_put_int(&query, beat->attempt);
    lite_put_int(&query, beat->expires_at);
    lite_put_int(&query, beat->beat_at);
    return lite_run(&query);
}

void sqlite_beats_save(struct sqlite_store *store)
{
    const struct beats *beats = &store->beats;
    if (!store->beats_marked || lite_begin(&store->writer, STORE_WRITE, NULL) != ERR_OK)
        return;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < beats->count && code == ERR_OK; i++)
        if (beats->at[i].attempt != 0)
            code = save_beat(store, &beats->at[i]);
    if (code == ERR_OK)
        code = set_mark(store, false, NULL);
    if (code == ERR_OK)
        code = lite_commit(&store->writer, NULL);
    if (code != ERR_OK)
        lite_rollback(&store->writer);
}

/* ---- in a transaction ---- */

static bool add_beat(struct sqlite_txn *txn, const struct beat *beat)
{
    if (!sqlite_more(&txn->notes, (void **)&txn->beats, txn->beat_count, &txn->beat_cap,
                     sizeof *txn->beats))
        return false;
    txn->beats[txn->beat_count++] = *beat;
    return true;
}

enum error_code sqlite_note_beat(struct sqlite_txn *txn, const struct beat *beat, bool *ret_noted,
                                 struct err *err)
{
    struct sqlite_store *store = txn->store;
    sqlite_lock(store);
    bool room = beats_reserve(&store->beats, txn->beat_count + 1);
    sqlite_unlock(store);
    *ret_noted = room && add_beat(txn, beat);
    if (!*ret_noted || store->beats_marked || txn->beats_marked)
        return ERR_OK;
    txn->beats_marked = true;
    return set_mark(store, true, err);
}

enum error_code sqlite_forget_beat(struct sqlite_txn *txn, const struct uuid *job, uint32_t step,
                                   struct err *err)
{
    static const struct claim_row ended;
    struct beat beat = beat_of(job, step, &ended);
    /* Only the transaction with the writer lock puts anything there. */
    bool known = txn->store->beats.live > 0 || txn->beat_count > 0;
    return !known || add_beat(txn, &beat) ? ERR_OK : sqlite_no_memory(err);
}

void sqlite_keep_beats(struct sqlite_txn *txn)
{
    struct sqlite_store *store = txn->store;
    store->beats_marked = store->beats_marked || txn->beats_marked;
    if (txn->beat_count == 0)
        return;
    sqlite_lock(store);
    for (uint32_t i = 0; i < txn->beat_count; i++)
        beats_put(&store->beats, &txn->beats[i]);
    sqlite_unlock(store);
}

/* ---- reading ---- */

void sqlite_apply_beat(struct sqlite_store *store, const struct uuid *job, uint32_t step,
                       struct claim_row *claim)
{
    if (!claim->present)
        return;
    sqlite_lock(store);
    beats_apply(&store->beats, job, step, claim);
    sqlite_unlock(store);
}
