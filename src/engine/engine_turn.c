/* One turn of the engine: a batch of what callers want, or a round of maintenance. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/engine_private.h"

void engine_maintain_by(struct engine *engine, int64_t at)
{
    if (at >= engine->maintain_at)
        return;
    engine->maintain_at = at;
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

void engine_flight_end(struct runner *runner, bool locked_unclaimed)
{
    const struct batcher *batcher = &runner->batcher;
    struct engine *engine = runner->engine;
    engine->in_flight--;
    if (batcher->seen_at >= engine->sighting.seen_at)
        engine->sighting =
            (struct sighting){batcher->seen_at, batcher->down_since, batcher->up_since};
    if (locked_unclaimed)
        engine_tell_unlocked(engine);
    if (engine->resting && engine->waiting.count > 0)
        pthread_cond_signal(&engine->work);
}

/* Takes calls from the queue for one batch: in their order, as many as fit; and claims that wait
 * for the jobs that they make. Claims that nobody wants any more go to `ret_over`. */
static uint32_t gather(struct runner *runner, struct call_list *ret_over)
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
        if (call->class == CALL_CLAIM && !call_is_wanted(call)) {
            call_refuse(call, ERR_UNAVAILABLE, "the caller disconnected");
            (void)engine_waiter_move(engine, call, WAITER_GONE);
            call_list_add(ret_over, call);
            continue;
        }
        call_list_add(&runner->calls, call);
        for (uint32_t i = 0; i < call->count; i++)
            runner->ops[count++] = call->ops[i];
    }
    engine_join(runner, &count);
    for (struct call *call = runner->calls.first; call != NULL; call = call->next)
        if (call->ops[0]->type == OP_CLAIM)
            call->ops[0]->claim.woken = call->waiter == WAITER_HANDED;
    uint32_t calls = runner->calls.count;
    engine->returning -= calls < engine->returning ? calls : engine->returning;
    if (count > 0)
        engine_flight_begin(runner);
    pthread_mutex_unlock(&engine->lock);
    return count;
}

/* Notes how many callers were answered, after a batch that took so long. Under the lock. */
static void note_returning(struct engine *engine, uint32_t count, int64_t took_us)
{
    int64_t now_us = clock_monotonic_us();
    int64_t wait_us =
        took_us / RETURN_SHARE < RETURN_US_MAX ? took_us / RETURN_SHARE : RETURN_US_MAX;
    engine->returning = now_us < engine->returning_until ? engine->returning + count : count;
    engine->returning_until = now_us + wait_us;
}

/* Sorts out the calls of a batch that was run: those that are over, that wait, that go again. */
static void settle(struct runner *runner, struct call_memory *memory, bool committed,
                   int64_t took_us, struct call_list *ret_over)
{
    struct engine *engine = runner->engine;
    uint32_t before = ret_over->count;
    pthread_mutex_lock(&engine->lock);
    engine_flight_end(runner, !committed || runner->batcher.wakeups.locked_unclaimed);
    while (runner->calls.first != NULL) {
        struct call *call = runner->calls.first;
        call_list_remove(&runner->calls, call);
        if (!engine_settle_call(runner, call))
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
    note_returning(engine, ret_over->count - before, took_us);
    pthread_mutex_unlock(&engine->lock);
}

/* Notes a sink that is to be flushed; one that there is no room for is flushed at once. */
static void note_sink(struct call_sink *sink, struct call_sink **sinks, uint32_t *count)
{
    uint32_t i = 0;
    while (i < *count && sinks[i] != sink)
        i++;
    if (i == SINKS_MAX)
        sink->flush(sink);
    else if (i == *count)
        sinks[(*count)++] = sink;
}

static void tell(struct call_list *over)
{
    struct call_sink *sinks[SINKS_MAX];
    uint32_t count = 0;
    while (over->first != NULL) {
        struct call *call = over->first;
        struct call_sink *sink = call->sink;
        call_list_remove(over, call);
        call_done(call);
        if (sink != NULL)
            note_sink(sink, sinks, &count);
    }
    for (uint32_t i = 0; i < count; i++)
        sinks[i]->flush(sinks[i]);
}

static bool changes_queues(const struct runner *runner, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (runner->ops[i]->type == OP_QUEUE)
            return true;
    return false;
}

/* What a batch means for those who wait, and for the engine's own timer. */
static void tell_wakeups(struct runner *runner, bool queues)
{
    struct engine *engine = runner->engine;
    const struct wakeups *wakeups = &runner->batcher.wakeups;
    int64_t away = wakeups->next_at > wakeups->now ? wakeups->next_at - wakeups->now : 0;
    int64_t at = engine_steady(engine) + (away < LOOK_MS_MAX ? away : LOOK_MS_MAX);
    pthread_mutex_lock(&engine->lock);
    if (wakeups->next_at != INT64_MAX)
        engine_maintain_by(engine, at);
    engine_tell_wakeups(engine, wakeups);
    if (queues)
        engine_tell_rumour(engine, RUMOUR_OF_WORK);
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
    for (int i = 0; i < TRIES && code == ERR_UNAVAILABLE && outcome == STORE_NOT_COMMITTED &&
                    engine_steady(engine) - start < QUICK_MS;
         i++)
        code = batch_run(&runner->batcher, runner->ops, count, arena, &outcome, NULL);
    int64_t end = engine_steady(engine);
    if (end - start > HERE_MS_MAX) {
        pthread_mutex_lock(&engine->lock);
        engine->slow_until = end + LOOK_MS_MAX;
        pthread_mutex_unlock(&engine->lock);
    }
    return code;
}

bool engine_run_calls(struct runner *runner)
{
    enum { TURN_MS_MAX = 100 };
    struct engine *engine = runner->engine;
    struct call_list over = {0};
    /* What comes while another batch has the store goes into this one. */
    if (engine->runner_count > 1)
        store_await_turn(engine->store, TURN_MS_MAX);
    if (engine->runner_count > 1 && engine->store->shared && runner == &engine->runners[0])
        engine_await_company(engine);
    uint32_t count = gather(runner, &over);
    bool any = count > 0 || over.count > 0;
    if (count > 0) {
        struct call_memory *memory = calloc(1, sizeof *memory);
        bool committed = false;
        int64_t start_us = clock_monotonic_us();
        if (memory == NULL) {
            for (struct call *call = runner->calls.first; call != NULL; call = call->next)
                call_refuse(call, ERR_NO_MEMORY, "out of memory");
        } else {
            arena_init_pooled(&memory->arena, engine->pool);
            arena_pool_hold(engine->pool);
            atomic_init(&memory->users, 1);
            committed = run_batch(runner, count, &memory->arena) == ERR_OK;
            if (committed && runner->batcher.wrote)
                atomic_store(&engine->written_at, engine_steady(engine));
        }
        uint32_t failures = 0;
        bool queues = changes_queues(runner, count);
        if (committed)
            failures = engine_resource_failures(runner, count, &memory->arena);
        /* From here on the calls belong to others: to their callers, or to who runs them again.
         * Those who found nothing are parked first: the news may be for them. */
        settle(runner, memory, committed, clock_monotonic_us() - start_us, &over);
        if (committed) {
            tell_wakeups(runner, queues);
            engine_record_failures(runner, failures, &memory->arena);
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
        engine_end_waits(engine, interrupted, &over);
    if (engine->changed && now >= engine->look_at) {
        engine->changed = false;
        engine->look_at = now + CHANGE_MS;
        engine_tell_rumour(engine, RUMOUR_OF_WORK);
        if (engine->store->shared)
            engine_maintain_by(engine, now);
    }
    *ret_due = now >= engine->maintain_at;
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
    if (engine_clock_turn(engine)) {
        *ret_wait_ms = 0;
        return;
    }
    look_around(engine, now, &due);
    if (due && engine->maintenance_turn) {
        engine_maintain(engine);
        engine->maintenance_turn = false;
        worked = true;
    } else {
        worked = engine_run_calls(&engine->runners[0]);
        engine->maintenance_turn = true;
    }
    *ret_wait_ms = 0;
    if (worked || due)
        return;
    pthread_mutex_lock(&engine->lock);
    int64_t next = earlier(engine->maintain_at, engine->park_next);
    if (engine->waiting.count == 0)
        *ret_wait_ms = next > now ? earlier(next - now, LOOK_MS_MAX) : 0;
    pthread_mutex_unlock(&engine->lock);
}
