#include "engine/scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int64_t tell_clock(void *arg)
{
    return *(int64_t *)arg;
}

void scene_open(struct scene *s, enum test_store sort, size_t queue_bytes_max)
{
    struct engine_options options = {
        .store = {.clock = tell_clock, .clock_arg = &s->clock, .create = true},
        .queue_bytes_max = queue_bytes_max,
        .by_hand = true,
        .steady = tell_clock,
        .steady_arg = &s->steady,
    };
    struct err err = {0};
    *s = (struct scene){.clock = INT64_C(1767225600000), .steady = 1000};
    test_stores_init(&s->stores);
    const char *url = test_stores_fresh(&s->stores, sort);
    if (engine_open(str_from(url), &options, &s->engine, &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

void scene_close(struct scene *s)
{
    if (s->engine != NULL)
        engine_close(s->engine);
    for (uint32_t i = 0; i < s->count; i++)
        call_release(&s->callers[i].call);
    test_stores_release(&s->stores);
}

void scene_told(struct call *call, void *arg)
{
    (void)call;
    struct caller *caller = arg;
    assert_false(caller->done);
    caller->done = true;
}

struct caller *scene_caller(struct scene *s, enum call_class class)
{
    assert_true(s->count < CALLS_MAX);
    struct caller *caller = &s->callers[s->count++];
    caller->ops[0] = &caller->op;
    caller->call.ops = caller->ops;
    caller->call.count = 1;
    caller->call.class = class;
    caller->call.done = scene_told;
    caller->call.arg = caller;
    return caller;
}

void scene_hand_over(struct scene *s, struct caller *caller)
{
    struct err err = {0};
    assert_int_equal(engine_submit(s->engine, &caller->call, &err), ERR_OK);
}

struct caller *scene_prepare_submit(struct scene *s, const char *kind)
{
    struct caller *caller = scene_caller(s, CALL_SUBMIT);
    uint8_t random[10] = {0};
    random[9] = ++s->ids;
    caller->spec = spec_defaults(NULL);
    caller->spec.kind = str_from(kind);
    caller->op.type = OP_COMMAND;
    caller->op.job = uuid_v7(s->clock, random);
    caller->op.command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
    caller->op.command.submit.spec = &caller->spec;
    return caller;
}

struct caller *scene_submit(struct scene *s, const char *kind)
{
    struct caller *caller = scene_prepare_submit(s, kind);
    scene_hand_over(s, caller);
    return caller;
}

struct caller *scene_prepare_claim(struct scene *s, const struct str *kind, int64_t wait_ms)
{
    struct caller *caller = scene_caller(s, CALL_CLAIM);
    caller->op.type = OP_CLAIM;
    caller->op.command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
    caller->op.command.claim.worker_id = STR("w");
    caller->op.command.claim.start = true;
    caller->op.claim.max = 1;
    if (kind != NULL)
        caller->op.claim.claimer.kinds = (struct names){(struct str *)(uintptr_t)kind, 1};
    caller->call.wait_ms = wait_ms;
    return caller;
}

struct caller *scene_claim(struct scene *s, const struct str *kind, int64_t wait_ms)
{
    struct caller *caller = scene_prepare_claim(s, kind, wait_ms);
    scene_hand_over(s, caller);
    return caller;
}

struct caller *scene_say(struct scene *s, enum command_type type, const struct caller *claimer)
{
    return scene_say_of(s, type, &claimer->op.grants[0]);
}

struct caller *scene_say_of(struct scene *s, enum command_type type, const struct grant *grant)
{
    struct caller *caller = scene_caller(s, CALL_RESULT);
    caller->op.type = OP_COMMAND;
    caller->op.job = grant->slice->job.id;
    caller->op.command =
        (struct command){.type = type, .actor = STR("w"), .token = grant->result.token};
    scene_hand_over(s, caller);
    return caller;
}

void scene_settle(struct scene *s)
{
    int64_t wait_ms = 0;
    for (int i = 0; i < 1000 && wait_ms == 0; i++)
        engine_turn(s->engine, &wait_ms);
    assert_true(wait_ms > 0);
}

void scene_pass(struct scene *s, int64_t ms)
{
    enum { STEP_MS = 500, LONG_MS = 60 * 1000, LONG_STEP_MS = 4000 };
    int64_t step = ms > LONG_MS ? LONG_STEP_MS : STEP_MS;
    for (int64_t passed = 0; passed < ms; passed += step) {
        s->clock += step;
        s->steady += step;
        scene_settle(s);
    }
}

enum job_status scene_status_of(struct scene *s, struct uuid id)
{
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_txn *txn;
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    assert_int_equal(store_begin(engine_store(s->engine), STORE_READ, &txn, &err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &arena, &err), ERR_OK);
    enum job_status status = job.slice.job.status;
    store_rollback(txn);
    arena_release(&arena);
    return status;
}

void scene_reopen(struct scene *s, int64_t away_ms)
{
    struct engine_options options = {
        .store = {.clock = tell_clock, .clock_arg = &s->clock},
        .by_hand = true,
        .steady = tell_clock,
        .steady_arg = &s->steady,
    };
    struct err err = {0};
    engine_close(s->engine);
    s->engine = NULL;
    s->clock += away_ms;
    if (engine_open(str_from(s->stores.url), &options, &s->engine, &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

void scene_on_every_store(void (*check)(struct scene *s))
{
    struct scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int sort = 0; sort < TEST_STORE_COUNT; sort++) {
        scene_open(s, (enum test_store)sort, 0);
        check(s);
        scene_close(s);
    }
    free(s);
}
