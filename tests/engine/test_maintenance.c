/* Maintenance as a table of tasks: each has its budget, reports itself by its name, and does not
 * suffer for the others. The engine is run by hand on a store in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/maintenance.h"
#include "store/store_driver.h"

enum { RUNS_MAX = 256 };

struct scene {
    struct store_driver driver;
    struct store *store;
    struct engine *engine;
    struct arena arena;
    int64_t clock;
    int64_t steady;
    uint16_t ids;
    struct maintenance_report runs[RUNS_MAX];
    uint32_t run_count;
};

static const struct store_driver *plain;

static int64_t tell_clock(void *arg)
{
    return *(int64_t *)arg;
}

static void note_committed(void *arg, const struct batch_report *report)
{
    (void)arg, (void)report;
}

static void note_failed(void *arg, enum error_code code)
{
    (void)arg, (void)code;
}

static void note_maintained(void *arg, const struct maintenance_report *report)
{
    struct scene *s = arg;
    assert_true(s->run_count < RUNS_MAX);
    s->runs[s->run_count++] = *report;
}

static int open_scene(void **state)
{
    static struct scene scene;
    struct scene *s = &scene;
    struct err err = {0};
    *s = (struct scene){.clock = INT64_C(1767225600000), .steady = 1000};
    *state = s;
    struct engine_options options = {
        .store = {.clock = tell_clock, .clock_arg = &s->clock, .create = true},
        .steady = tell_clock,
        .steady_arg = &s->steady,
        .by_hand = true,
        .trusts_clock = true,
        .observer = {.committed = note_committed,
                     .failed = note_failed,
                     .maintained = note_maintained,
                     .arg = s},
    };
    arena_init(&s->arena);
    if (store_open(STR("memory:"), &options.store, &s->store, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    plain = s->store->driver;
    s->driver = *plain;
    s->store->driver = &s->driver;
    options.lent = s->store;
    if (engine_open(STR("memory:"), &options, &s->engine, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return 0;
}

static int close_scene(void **state)
{
    struct scene *s = *state;
    engine_close(s->engine);
    s->store->driver = plain;
    store_close(s->store);
    arena_release(&s->arena);
    return 0;
}

static struct op *run_op(struct scene *s, struct op *op)
{
    struct op *ops[] = {op};
    struct call call = {.ops = ops, .count = 1, .class = CALL_RESULT};
    assert_int_equal(engine_run(s->engine, &call, NULL), ERR_OK);
    assert_int_equal(op->code, ERR_OK);
    call_release(&call);
    return op;
}

static void submit(struct scene *s, int64_t delay_ms)
{
    struct spec spec = spec_defaults(NULL);
    uint8_t random[10] = {[8] = (uint8_t)(++s->ids >> 8), [9] = (uint8_t)s->ids};
    spec.kind = STR("mail");
    spec.delay_ms = delay_ms;
    struct op op = {.type = OP_COMMAND, .job = uuid_v7(s->clock, random)};
    op.command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
    op.command.submit.spec = &spec;
    run_op(s, &op);
}

static uint32_t claim(struct scene *s)
{
    struct op op = {.type = OP_CLAIM};
    op.command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
    op.command.claim.worker_id = STR("w");
    op.claim.max = 1;
    return run_op(s, &op)->grant_count;
}

static void register_resource(struct scene *s, const char *id)
{
    struct resource resource = {.id = str_from(id), .slots = 1};
    struct op op = {.type = OP_RESOURCE, .resource = &resource, .ttl_ms = 1000};
    run_op(s, &op);
}

static uint32_t resource_count(struct scene *s)
{
    struct store_txn *txn;
    struct resource *at;
    uint32_t count;
    assert_int_equal(store_begin(s->store, STORE_READ, &txn, NULL), ERR_OK);
    assert_int_equal(store_resources(txn, &s->arena, &at, &count, NULL), ERR_OK);
    store_rollback(txn);
    return count;
}

static void pass(struct scene *s, int64_t ms)
{
    int64_t wait_ms = 0;
    s->clock += ms;
    s->steady += ms;
    s->run_count = 0;
    for (int i = 0; i < 1000 && wait_ms == 0; i++)
        engine_turn(s->engine, &wait_ms);
    assert_true(wait_ms > 0);
}

/* What a task has done since the last pass, run by run, such as "500 100 0". */
static const char *runs_of(const struct scene *s, enum maintenance_task task)
{
    static char text[128];
    size_t len = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < s->run_count; i++)
        if (s->runs[i].task == task)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%u%s", len > 0 ? " " : "",
                                    s->runs[i].done, s->runs[i].code == ERR_OK ? "" : "!");
    return text;
}

/* ---- what it shows ---- */

static void every_task_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < MAINTENANCE_TASK_COUNT; i++)
        for (int k = 0; k < i; k++)
            assert_false(str_eq(maintenance_task_name((enum maintenance_task)i),
                                maintenance_task_name((enum maintenance_task)k)));
    assert_true(str_eq(maintenance_task_name(MAINTENANCE_TIMERS), STR("timers")));
}

static void a_task_reports_what_it_has_done(void **state)
{
    struct scene *s = *state;
    submit(s, 0);
    assert_int_equal(claim(s), 1);
    submit(s, 4000);
    register_resource(s, "r");
    pass(s, 4000);
    assert_string_equal(runs_of(s, MAINTENANCE_TIMERS), "0 0");
    assert_string_equal(runs_of(s, MAINTENANCE_RESOURCES), "1 0");
    assert_string_equal(runs_of(s, MAINTENANCE_PROMOTION), "1 0");
    for (int i = 0; i < 7; i++)
        pass(s, 4000);
    assert_string_equal(runs_of(s, MAINTENANCE_TIMERS), "1 0"); /* the lease has expired */
}

static void a_budget_bounds_a_round_and_the_next_one_follows_at_once(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < 600; i++)
        submit(s, 1000);
    pass(s, 1000);
    assert_string_equal(runs_of(s, MAINTENANCE_PROMOTION), "500 100 0");
}

static void a_task_with_an_interval_runs_once_in_it(void **state)
{
    struct scene *s = *state;
    uint32_t liveness = 0;
    uint32_t records = 0;
    for (int i = 0; i < 62; i++) {
        pass(s, 1000);
        for (uint32_t k = 0; k < s->run_count; k++) {
            liveness += s->runs[k].task == MAINTENANCE_LIVENESS;
            records += s->runs[k].task == MAINTENANCE_RECORDS;
        }
    }
    assert_int_equal(liveness, 31);
    assert_int_equal(records, 2); /* at once, and after a minute */
}

static enum error_code due_is_damaged(struct store *store, uint32_t limit, struct arena *arena,
                                      struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                                      int64_t *ret_next, struct err *err)
{
    (void)store, (void)limit, (void)arena, (void)ret, (void)ret_count, (void)ret_now;
    (void)ret_next;
    return err_set(err, ERR_CORRUPT, "it is not readable");
}

static enum error_code promote_is_damaged(struct store_txn *txn, uint32_t limit,
                                          uint32_t *ret_count, struct err *err)
{
    (void)txn, (void)limit, (void)ret_count;
    return err_set(err, ERR_CORRUPT, "it is not readable");
}

static void a_task_that_fails_does_not_keep_others_from_running(void **state)
{
    struct scene *s = *state;
    submit(s, 1000);
    s->driver.due = due_is_damaged;
    pass(s, 1000);
    assert_string_equal(runs_of(s, MAINTENANCE_PROMOTION), "1");
    assert_int_equal(claim(s), 1);
    s->driver.due = plain->due;
    s->driver.promote = promote_is_damaged;
    pass(s, 2000);
    assert_string_equal(runs_of(s, MAINTENANCE_PROMOTION), "0!");
    assert_string_equal(runs_of(s, MAINTENANCE_LIVENESS), "1");
}

/* Lists a resource that is not there, as when another server was faster, before the others. */
static enum error_code due_with_ghost(struct store *store, uint32_t limit, struct arena *arena,
                                      struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                                      int64_t *ret_next, struct err *err)
{
    struct store_due *due = NULL;
    uint32_t count = 0;
    enum error_code code = plain->due(store, limit, arena, &due, &count, ret_now, ret_next, err);
    struct store_due *all = arena_zalloc(arena, count + (size_t)1, sizeof *all);
    assert_non_null(all);
    all[0] = (struct store_due){
        .what = DUE_RESOURCE, .at = *ret_now, .step = STEP_NONE, .resource_id = STR("ghost")};
    if (count > 0)
        memcpy(all + 1, due, count * sizeof *all);
    *ret = all;
    *ret_count = count + 1;
    return code;
}

static void a_resource_that_another_server_removed_does_not_hold_up_others(void **state)
{
    struct scene *s = *state;
    s->driver.due = due_with_ghost;
    pass(s, 1000);
    register_resource(s, "r");
    pass(s, 1000);
    assert_int_equal(resource_count(s), 0);
}

int main(void)
{
#define SCENE(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_has_a_name_of_its_own),
        SCENE(a_task_reports_what_it_has_done),
        SCENE(a_budget_bounds_a_round_and_the_next_one_follows_at_once),
        SCENE(a_task_with_an_interval_runs_once_in_it),
        SCENE(a_task_that_fails_does_not_keep_others_from_running),
        SCENE(a_resource_that_another_server_removed_does_not_hold_up_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
