/* What is due: leases that have ended, waits, delays, soft cancels, old jobs, lost resources. All
 * of it as operations through a batch, in bounded portions. */
#include <assert.h>

#include "base/planted.h"
#include "engine/engine_private.h"

static struct op *add_op(struct engine *engine, uint32_t *count, struct arena *arena,
                         enum op_type type)
{
    if (*count == BATCH_OPS_MAX)
        return NULL;
    struct op *op = arena_zalloc(arena, 1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->type = type;
    engine->runners[0].ops[(*count)++] = op;
    return op;
}

/* A resource is lost: its steps go elsewhere, then it is forgotten. */
static enum error_code lose_resource(struct engine *engine, const struct store_due *due,
                                     uint32_t *count, struct arena *arena, struct err *err)
{
    struct store_txn *txn;
    struct store_lease *leases = NULL;
    uint32_t lease_count = 0;
    enum error_code code = store_begin(engine->store, STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_leases_on(txn, due->resource_id, arena, &leases, &lease_count, err);
    store_rollback(txn);
    for (uint32_t i = 0; i < lease_count && code == ERR_OK && !PLANTED(LOST_RESOURCE_KEEPS_STEPS);
         i++) {
        struct op *op = add_op(engine, count, arena, OP_DUE);
        if (op == NULL)
            return ERR_OK; /* the rest in the next turn, and the resource after it */
        op->job = leases[i].job;
        op->due.step = leases[i].step;
        op->due.at = due->at;
        op->due.resource_id = due->resource_id;
    }
    struct op *op = code == ERR_OK ? add_op(engine, count, arena, OP_RESOURCE_GONE) : NULL;
    if (op != NULL) {
        op->resource_gone.id = due->resource_id;
        op->resource_gone.if_expired = true;
    }
    return code;
}

static enum error_code add_due(struct engine *engine, const struct store_due *due, uint32_t *count,
                               struct arena *arena, struct err *err)
{
    struct op *op;
    switch (due->what) {
    case DUE_RESOURCE:
        return lose_resource(engine, due, count, arena, err);
    case DUE_PURGE:
        if (!retention_is_over(due->at, engine->runners[0].batcher.trusted))
            return ERR_OK; /* its time has not come for certain: it is found again */
        op = add_op(engine, count, arena, OP_PURGE);
        if (op != NULL)
            op->job = due->job;
        return ERR_OK;
    case DUE_JOB:
        op = add_op(engine, count, arena, OP_DUE);
        if (op != NULL) {
            op->job = due->job;
            op->due.step = due->step;
            op->due.at = due->at;
        }
        return ERR_OK;
    }
    return ERR_OK;
}

/* What could not be carried out for a reason of its own (a row that cannot be read, say) is left
 * alone for a while, so that it does not stand in the way of the rest. */
static bool is_left(const struct engine *engine, const struct store_due *due)
{
    for (uint32_t i = 0; i < engine->left_count; i++)
        if (engine->left[i].step == due->step &&
            memcmp(&engine->left[i].job, &due->job, sizeof due->job) == 0)
            return true;
    return false;
}

static void leave(struct engine *engine, const struct op *op)
{
    bool failed =
        op->code == ERR_CORRUPT || op->code == ERR_BAD_REQUEST || op->code == ERR_NOT_FOUND;
    if (!failed || engine->left_count == LEFT_MAX)
        return;
    engine->left[engine->left_count++] =
        (struct left_due){op->job, op->type == OP_DUE ? op->due.step : STEP_NONE};
}

static void try_left_again(struct engine *engine)
{
    if (engine_steady(engine) < engine->left_until)
        return;
    engine->left_count = 0;
    engine->left_until = engine_steady(engine) + LEFT_MS;
}

uint32_t engine_blames(struct runner *runner, uint32_t count, struct arena *arena)
{
    uint32_t blames = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct op *op = runner->ops[i];
        bool blames_one = (op->type == OP_COMMAND || op->type == OP_DUE) && op->code == ERR_OK &&
                          !op->request.repeated && str_is_set(op->answer.blamed);
        struct op *blame = blames_one ? arena_zalloc(arena, 1, sizeof *blame) : NULL;
        if (blame == NULL)
            continue;
        blame->type = OP_BLAME;
        blame->blamed = op->answer.blamed;
        runner->ops[blames++] = blame; /* none behind it was looked at before */
    }
    return blames;
}

void engine_blame(struct runner *runner, uint32_t blames, struct arena *arena)
{
    enum store_outcome outcome;
    if (blames > 0)
        (void)batch_run(&runner->batcher, runner->ops, blames, arena, &outcome, NULL);
}

static enum error_code run_own(struct engine *engine, uint32_t count, struct arena *arena,
                               struct err *err)
{
    enum store_outcome outcome;
    enum error_code code =
        batch_run(&engine->runners[0].batcher, engine->runners[0].ops, count, arena, &outcome, err);
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&engine->lock);
    if (engine->parked_count > 0)
        engine_wake_news(engine, &engine->runners[0].batcher.news);
    pthread_mutex_unlock(&engine->lock);
    return code;
}

static enum error_code promote(struct engine *engine, bool *ret_more, struct err *err)
{
    uint32_t count = 0;
    enum error_code code = batch_promote(&engine->runners[0].batcher, 2 * DUE_LIMIT, &count, err);
    if (code != ERR_OK || count == 0)
        return code;
    *ret_more = true; /* and when is the next? */
    pthread_mutex_lock(&engine->lock);
    if (!PLANTED(SLEEPERS_NOT_WOKEN))
        engine_wake_each(engine, false);
    pthread_mutex_unlock(&engine->lock);
    return code;
}

static enum error_code admit(struct engine *engine, struct arena *arena, bool *ret_more,
                             struct err *err)
{
    uint32_t count = 0;
    if (!engine->store->shared)
        return ERR_OK;
    enum error_code code = batch_admit(&engine->runners[0].batcher, DUE_LIMIT, arena, &count, err);
    if (code != ERR_OK || count == 0)
        return code;
    *ret_more = *ret_more || count == DUE_LIMIT;
    pthread_mutex_lock(&engine->lock);
    engine_wake_news(engine, &engine->runners[0].batcher.news);
    pthread_mutex_unlock(&engine->lock);
    return code;
}

static enum error_code sweep(struct engine *engine, bool *ret_more, struct err *err)
{
    uint32_t count = 0;
    if (engine_steady(engine) < engine->sweep_at)
        return ERR_OK;
    int64_t seen_at = engine->runners[0].batcher.seen_at;
    enum error_code code =
        store_sweep(engine->store, engine_trusted(engine, seen_at), 2 * DUE_LIMIT, &count, err);
    if (code == ERR_OK && count == 2 * DUE_LIMIT)
        *ret_more = true;
    else
        engine->sweep_at = engine_steady(engine) + SWEEP_MS;
    return code;
}

static enum error_code attend(struct engine *engine, struct err *err)
{
    if (engine_steady(engine) < engine->attend_at)
        return ERR_OK;
    engine->attend_at = engine_steady(engine) + ATTEND_MS;
    return engine_attend(engine, err);
}

/* Carries out what is due now. `ret_more`: something came of it, so there may be more. */
static enum error_code do_due(struct engine *engine, struct arena *arena, bool *ret_more,
                              int64_t *ret_away, struct err *err)
{
    struct store_due *due = NULL;
    uint32_t due_count = 0;
    uint32_t count = 0;
    int64_t now = 0;
    int64_t next = INT64_MAX;
    try_left_again(engine);
    enum error_code code = store_due(engine->store, DUE_LIMIT + engine->left_count, arena, &due,
                                     &due_count, &now, &next, err);
    if (code == ERR_OK)
        batcher_see(&engine->runners[0].batcher, now);
    for (uint32_t i = 0; i < due_count && code == ERR_OK; i++)
        if (!is_left(engine, &due[i]))
            code = add_due(engine, &due[i], &count, arena, err);
    /* Also when nothing comes of what is due now: the next thing does not wait for it. */
    if (count == 0 || !PLANTED(NEXT_TIME_FORGOTTEN))
        *ret_away = next > now ? next - now : LOOK_MS_MAX;
    if (code != ERR_OK || count == 0)
        return code;
    code = run_own(engine, count, arena, err);
    for (uint32_t i = 0; i < count; i++) {
        *ret_more = *ret_more || engine->runners[0].ops[i]->code == ERR_OK;
        leave(engine, engine->runners[0].ops[i]);
    }
    struct runner *runner = &engine->runners[0];
    if (code == ERR_OK)
        engine_blame(runner, engine_blames(runner, count, arena), arena);
    return code;
}

/* One part's trouble is not the others'; but a store that is away is away for all. */
static enum error_code do_all(struct engine *engine, struct arena *arena, bool *ret_more,
                              int64_t *ret_away, struct err *err)
{
    enum error_code code = do_due(engine, arena, ret_more, ret_away, err);
    enum error_code part = code;
    if (part != ERR_UNAVAILABLE)
        part = promote(engine, ret_more, err);
    code = code == ERR_OK ? part : code;
    if (part != ERR_UNAVAILABLE)
        part = admit(engine, arena, ret_more, err);
    code = code == ERR_OK ? part : code;
    if (part != ERR_UNAVAILABLE)
        part = sweep(engine, ret_more, err);
    code = code == ERR_OK ? part : code;
    if (part != ERR_UNAVAILABLE)
        part = attend(engine, err);
    return code == ERR_OK ? part : code;
}

void engine_do_due(struct engine *engine)
{
    struct arena arena;
    struct err err = {0};
    bool more = false;
    int64_t away = LOOK_MS_MAX;
    arena_init(&arena);
    pthread_mutex_lock(&engine->lock);
    engine->due_at = INT64_MAX; /* batches may set it to an earlier time than we do below */
    engine_flight_begin(&engine->runners[0]);
    pthread_mutex_unlock(&engine->lock);
    enum error_code code = do_all(engine, &arena, &more, &away, &err);
    if (code != ERR_OK)
        away = LOOK_MS_MAX; /* the store is away, or damaged: callers are told, we look again */
    else if (more)
        away = 0;
    int64_t look = engine->store->shared ? LOOK_MS_SHARED : LOOK_MS_MAX;
    int64_t at = engine_steady(engine) + (away < look ? away : look);
    pthread_mutex_lock(&engine->lock);
    engine_flight_end(&engine->runners[0], true);
    if (PLANTED(SOONER_TIME_FORGOTTEN))
        engine->due_at = at;
    engine_due_by(engine, at);
    pthread_mutex_unlock(&engine->lock);
    arena_release(&arena);
}
