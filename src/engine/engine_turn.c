/* One turn of the engine: a batch of what callers want, or what is due. */
#include <assert.h>
#include <stdlib.h>

#include "base/planted.h"
#include "engine/engine_private.h"

void engine_due_by(struct engine *engine, int64_t at)
{
    if (at >= engine->due_at)
        return;
    engine->due_at = at;
    engine->nudged = true;
}

void engine_flight_begin(struct runner *runner)
{
    struct batcher *batcher = &runner->batcher;
    const struct sighting *sighting = &runner->engine->sighting;
    runner->engine->in_flight++;
    batcher->trusted = engine_trusted_limit(runner->engine);
    if (sighting->seen_at > batcher->seen_at) {
        batcher->seen_at = sighting->seen_at;
        batcher->down_since = sighting->down_since;
        batcher->up_since = sighting->up_since;
    }
}

void engine_flight_end(struct runner *runner, bool left)
{
    const struct batcher *batcher = &runner->batcher;
    struct engine *engine = runner->engine;
    engine->in_flight--;
    if (batcher->seen_at >= engine->sighting.seen_at)
        engine->sighting =
            (struct sighting){batcher->seen_at, batcher->down_since, batcher->up_since};
    if (left && !PLANTED(PASSED_OVER_SLEEP_ON))
        engine_wake_passed(engine);
}

/* Takes calls from the queue for one batch: in their order, as many as fit; and claims that wait
 * for the jobs that they make. Claims that nobody wants any more go to `ret_over`. */
static uint32_t gather(struct runner *runner, struct call_list *ret_calls,
                       struct call_list *ret_over)
{
    struct engine *engine = runner->engine;
    uint32_t count = 0;
    pthread_mutex_lock(&engine->lock);
    while (engine->waiting.first != NULL) {
        struct call *call = engine->waiting.first;
        if (count + call->count > BATCH_OPS_MAX)
            break;
        call_list_remove(&engine->waiting, call);
        engine->bytes -= call->bytes;
        bool wanted = call->wanted == NULL || call->class != CALL_CLAIM ||
                      PLANTED(GONE_CALLER_GETS_A_JOB) || call->wanted(call->wanted_arg);
        if (!wanted) {
            call_refuse(call, ERR_UNAVAILABLE, "the caller is gone");
            call_list_add(ret_over, call);
            if (call->woken)
                engine_wake_next(engine, call);
            continue;
        }
        call_list_add(ret_calls, call);
        for (uint32_t i = 0; i < call->count; i++)
            runner->ops[count++] = call->ops[i];
    }
    engine_join(runner, ret_calls, &count);
    for (struct call *call = ret_calls->first; call != NULL; call = call->next)
        if (call->ops[0]->type == OP_CLAIM)
            call->ops[0]->claim.woken = call->woken && !call->chained;
    if (count > 0)
        engine_flight_begin(runner);
    pthread_mutex_unlock(&engine->lock);
    return count;
}

/* A request whose twin was in the same batch: its answer is on record now; or a claim that met
 * nothing but a job whose life was over: what stands behind it is in reach now. */
static bool goes_again(const struct call *call)
{
    const struct op *first = call->ops[0];
    if (call->count == 1 && first->type == OP_CLAIM && first->code == ERR_OK &&
        first->met_outlived && first->grant_count == 0)
        return true;
    for (uint32_t i = 0; i < call->count; i++)
        if (call->ops[i]->request.twin)
            return true;
    return false;
}

/* Sorts out the calls of a batch that was run: who is done, who waits on, who goes again. */
static void settle(struct runner *runner, struct call_list *calls, struct call_memory *memory,
                   bool committed, struct call_list *ret_over)
{
    struct engine *engine = runner->engine;
    pthread_mutex_lock(&engine->lock);
    engine_flight_end(runner, !committed || runner->batcher.news.left);
    while (calls->first != NULL) {
        struct call *call = calls->first;
        call_list_remove(calls, call);
        const struct op *op = call->ops[0];
        /* What woke it is still there for the next: there was more, or it could not take it. */
        if ((call->chained && op->grant_count > 0) ||
            (call->woken && op->code != ERR_OK && !PLANTED(WOKEN_IN_VAIN_TELLS_NOBODY)))
            engine_wake_next(engine, call);
        call->woken = call->chained = false;
        if (goes_again(call)) {
            engine->bytes += call->bytes;
            call_list_add(&engine->waiting, call);
            continue;
        }
        if (engine_park(runner, call))
            continue;
        if (memory != NULL) {
            call->memory = memory;
            atomic_fetch_add(&memory->users, 1);
            if (call->kept != NULL) {
                call->kept->next = memory->kept;
                memory->kept = call->kept;
                call->kept = NULL;
            }
        }
        call_list_add(ret_over, call);
    }
    pthread_mutex_unlock(&engine->lock);
}

static void tell(struct call_list *over)
{
    while (over->first != NULL) {
        struct call *call = over->first;
        call_list_remove(over, call);
        call_done(call);
    }
}

static bool changes_queues(const struct runner *runner, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (runner->ops[i]->type == OP_QUEUE)
            return true;
    return false;
}

/* What a batch means for those who wait, and for the engine's own timer. */
static void take_news(struct runner *runner, bool queues)
{
    struct engine *engine = runner->engine;
    const struct batch_news *news = &runner->batcher.news;
    int64_t away = news->next_at > news->now ? news->next_at - news->now : 0;
    int64_t at = engine_steady(engine) + (away < LOOK_MS_MAX ? away : LOOK_MS_MAX);
    pthread_mutex_lock(&engine->lock);
    if (news->next_at != INT64_MAX)
        engine_due_by(engine, at);
    if (engine->parked_count > 0) {
        engine_wake_news(engine, news);
        if (queues)
            engine_wake_each(engine, false);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* A batch that was certainly not committed, because a connection broke or a race was lost, is run
 * again at once. A store that was away for long has had its chance. */
static enum error_code run_batch(struct runner *runner, uint32_t count, struct arena *arena)
{
    enum { TRIES = 3, QUICK_MS = 1000 };
    struct engine *engine = runner->engine;
    int64_t start = engine_steady(engine);
    enum store_outcome outcome = STORE_NOT_COMMITTED;
    enum error_code code = ERR_UNAVAILABLE;
    for (int i = 0; i < TRIES && code == ERR_UNAVAILABLE &&
                    (outcome == STORE_NOT_COMMITTED || PLANTED(UNKNOWN_RUN_AGAIN)) &&
                    engine_steady(engine) - start < QUICK_MS;
         i++)
        code = batch_run(&runner->batcher, runner->ops, count, arena, &outcome, NULL);
    return code;
}

bool engine_run_calls(struct runner *runner)
{
    struct engine *engine = runner->engine;
    struct call_list calls = {0};
    struct call_list over = {0};
    uint32_t count = gather(runner, &calls, &over);
    bool any = count > 0 || over.count > 0;
    if (count > 0) {
        struct call_memory *memory = calloc(1, sizeof *memory);
        bool committed = false;
        if (memory == NULL) {
            for (struct call *call = calls.first; call != NULL; call = call->next)
                call_refuse(call, ERR_NO_MEMORY, "there is no memory for a batch");
        } else {
            arena_init_pooled(&memory->arena, engine->pool);
            arena_pool_hold(engine->pool);
            atomic_init(&memory->users, 1);
            committed = run_batch(runner, count, &memory->arena) == ERR_OK;
            if (committed && runner->batcher.wrote)
                atomic_store(&engine->written_at, engine_steady(engine));
        }
        uint32_t blames = 0;
        bool queues = changes_queues(runner, count);
        if (committed)
            blames = engine_blames(runner, count, &memory->arena);
        /* From here on the calls belong to others: to their callers, or to who runs them again.
         * Those who found nothing are parked first: the news may be for them. */
        settle(runner, &calls, memory, committed, &over);
        if (committed) {
            take_news(runner, queues);
            engine_blame(runner, blames, &memory->arena);
        }
        tell(&over);
        struct call own = {.memory = memory};
        call_release(&own);
    }
    tell(&over);
    return any;
}

/* Ends the waiting of those who have waited long enough, and looks after changes by others. */
static void look_around(struct engine *engine, int64_t now, bool *ret_due)
{
    struct call_list over = {0};
    pthread_mutex_lock(&engine->lock);
    bool interrupted = engine_interrupted(engine);
    engine->nudged = false;
    if (now >= engine->park_next || interrupted)
        engine_unpark(engine, interrupted, &over);
    if (engine->changed && now >= engine->look_at) {
        engine->changed = false;
        engine->look_at = now + CHANGE_MS;
        engine_wake_each(engine, false);
        if (engine->store->shared)
            engine_due_by(engine, now);
    }
    *ret_due = now >= engine->due_at;
    pthread_mutex_unlock(&engine->lock);
    tell(&over);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void engine_turn(struct engine *engine, int64_t *ret_wait_ms)
{
    int64_t now = engine_steady(engine);
    bool due = false;
    bool worked = false;
    look_around(engine, now, &due);
    if (due && engine->due_turn) {
        engine_do_due(engine);
        engine->due_turn = false;
        worked = true;
    } else {
        worked = engine_run_calls(&engine->runners[0]);
        engine->due_turn = true;
    }
    *ret_wait_ms = 0;
    if (worked || due)
        return;
    pthread_mutex_lock(&engine->lock);
    int64_t next = earlier(engine->due_at, engine->park_next);
    if (engine->waiting.count == 0)
        *ret_wait_ms = next > now ? earlier(next - now, LOOK_MS_MAX) : 0;
    pthread_mutex_unlock(&engine->lock);
}
