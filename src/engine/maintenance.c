/* A round of maintenance, task by task, and when the next one is to be. */
#include "engine/maintenance.h"

#include "base/clock.h"
#include "engine/engine_private.h"

static const struct {
    struct str name;
    uint32_t budget;
    int64_t every_ms;
    enum error_code (*run)(struct maintenance_run *run, struct err *err);
} tasks[] = {
#define MAINTENANCE_TASK(symbol, name, budget, every_ms)                                           \
    {STR_INIT(#name), budget, every_ms, maintain_##name},
#include "engine/maintenance.def"
#undef MAINTENANCE_TASK
};

struct str maintenance_task_name(enum maintenance_task task)
{
    return tasks[task].name;
}

/* ---- what is due ---- */

static bool is_quarantined(const struct maintenance *maintenance, const struct store_due *due)
{
    if (due->what == DUE_RESOURCE)
        return false;
    for (uint32_t i = 0; i < maintenance->quarantined_count; i++)
        if (maintenance->quarantined[i].step == due->step &&
            uuid_eq(maintenance->quarantined[i].job, due->job))
            return true;
    return false;
}

static void quarantine(struct maintenance *maintenance, const struct op *op)
{
    bool failed =
        op->code == ERR_CORRUPT || op->code == ERR_BAD_REQUEST || op->code == ERR_NOT_FOUND;
    if (!failed || op->type == OP_RESOURCE_GONE || maintenance->quarantined_count == QUARANTINE_MAX)
        return;
    maintenance->quarantined[maintenance->quarantined_count++] =
        (struct quarantined){op->job, op->type == OP_TIMER_FIRED ? op->timer.step : STEP_NONE};
}

static void end_quarantine(struct engine *engine)
{
    struct maintenance *maintenance = &engine->maintenance;
    if (engine_steady(engine) < maintenance->quarantined_until)
        return;
    maintenance->quarantined_count = 0;
    maintenance->quarantined_until = engine_steady(engine) + QUARANTINE_MS;
}

/* Reads what is due, and in how many milliseconds the next thing will be. */
static enum error_code read_due(struct maintenance_run *run, int64_t *ret_away, struct err *err)
{
    const struct maintenance *maintenance = &run->engine->maintenance;
    struct store_due *due = NULL;
    uint32_t limit = tasks[MAINTENANCE_TIMERS].budget; /* of each kind */
    uint32_t count = 0;
    int64_t now = 0;
    int64_t next = INT64_MAX;
    end_quarantine(run->engine);
    enum error_code code = store_due(run->engine->store, limit + maintenance->quarantined_count,
                                     run->arena, &due, &count, &now, &next, err);
    if (code != ERR_OK)
        return code;
    run->engine->maintenance.next_due = next;
    batcher_see(&run->runner->batcher, now);
    for (uint32_t i = 0; i < count; i++)
        if (!is_quarantined(maintenance, &due[i]))
            due[run->due_count++] = due[i];
    run->due = due;
    /* Also when nothing comes of what is due now: the next thing does not wait for it. */
    *ret_away = next > now ? next - now : LOOK_MS_MAX;
    return ERR_OK;
}

/* ---- what tasks share ---- */

struct op *maintenance_op(struct maintenance_run *run, enum op_type type)
{
    struct op *op = run->op_count < run->budget ? arena_zalloc(run->arena, 1, sizeof *op) : NULL;
    if (op == NULL)
        return NULL;
    op->type = type;
    run->runner->ops[run->op_count++] = op;
    return op;
}

enum error_code maintenance_run_ops(struct maintenance_run *run, struct err *err)
{
    struct runner *runner = run->runner;
    enum store_outcome outcome;
    if (run->op_count == 0)
        return ERR_OK;
    enum error_code code =
        batch_run(&runner->batcher, runner->ops, run->op_count, run->arena, &outcome, err);
    for (uint32_t i = 0; i < run->op_count; i++) {
        run->done += runner->ops[i]->code == ERR_OK;
        quarantine(&run->engine->maintenance, runner->ops[i]);
    }
    run->more = run->done > 0;
    if (code != ERR_OK)
        return code;
    pthread_mutex_lock(&run->engine->lock);
    engine_tell_wakeups(run->engine, &runner->batcher.wakeups);
    pthread_mutex_unlock(&run->engine->lock);
    engine_record_failures(runner, engine_resource_failures(runner, run->op_count, run->arena),
                           run->arena);
    return ERR_OK;
}

/* ---- the round ---- */

static enum error_code run_task(struct maintenance_run *run, enum maintenance_task task,
                                struct err *err)
{
    struct engine *engine = run->engine;
    const struct observer *observer = run->runner->batcher.observer;
    int64_t now = engine_steady(engine);
    if (now < engine->maintenance.run_at[task])
        return ERR_OK;
    int64_t began_us = observer != NULL ? clock_monotonic_us() : 0;
    run->budget = tasks[task].budget;
    run->op_count = run->done = 0;
    run->more = false;
    enum error_code code = tasks[task].run(run, err);
    if (tasks[task].every_ms == 0)
        engine->maintenance.fired += run->done;
    engine->maintenance.run_at[task] = run->more ? 0 : now + tasks[task].every_ms;
    if (observer != NULL)
        observer->maintained(
            observer->arg, &(struct maintenance_report){.task = task,
                                                        .done = run->done,
                                                        .took_us = clock_monotonic_us() - began_us,
                                                        .code = code});
    return code;
}

/* Runs all tasks. Returns in how many milliseconds to come again: one task's trouble is not the
 * others', but a store that is away is away for all. */
static int64_t run_tasks(struct maintenance_run *run)
{
    struct err err = {0};
    bool more = false;
    int64_t away = LOOK_MS_MAX;
    enum error_code code = read_due(run, &away, &err);
    bool failed = code != ERR_OK;
    for (uint32_t i = 0; i < MAINTENANCE_TASK_COUNT && code != ERR_UNAVAILABLE; i++) {
        code = run_task(run, i, &err);
        failed = failed || code != ERR_OK;
        more = more || run->more;
    }
    if (failed)
        return LOOK_MS_MAX; /* the store is away, or damaged: callers are told */
    return more ? 0 : away;
}

void engine_maintain(struct engine *engine)
{
    struct arena arena;
    struct runner *runner = &engine->runners[0];
    struct maintenance_run run = {.engine = engine, .runner = runner, .arena = &arena};
    arena_init(&arena);
    pthread_mutex_lock(&engine->lock);
    engine->maintain_at = INT64_MAX; /* batches may set it to an earlier time than we do below */
    engine_flight_begin(runner);
    pthread_mutex_unlock(&engine->lock);
    int64_t away = run_tasks(&run);
    int64_t look = engine->store->shared ? LOOK_MS_SHARED : LOOK_MS_MAX;
    int64_t at = engine_steady(engine) + (away < look ? away : look);
    pthread_mutex_lock(&engine->lock);
    engine_flight_end(runner, true);
    engine_maintain_by(engine, at);
    pthread_mutex_unlock(&engine->lock);
    arena_release(&arena);
}
