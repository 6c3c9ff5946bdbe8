/* Two batches at once, which only a store has that keeps them apart: PostgreSQL. One is stopped at
 * the store, and the other goes on beside it. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "store/store_driver.h"
#include "store/test_stores.h"

enum { OPS_MAX = 3, LOOKS = 20 };

/* Whoever comes first after it was shut stands there until it is opened. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool shut;
    bool occupied;
};

static struct gate at_write = {.lock = PTHREAD_MUTEX_INITIALIZER,
                               .moved = PTHREAD_COND_INITIALIZER};
static struct gate at_search = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                .moved = PTHREAD_COND_INITIALIZER};
static struct gate at_due = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void gate_shut(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->shut = true;
    pthread_mutex_unlock(&gate->lock);
}

static void gate_pass(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->occupied = gate->shut;
    if (gate->shut) {
        gate->shut = false;
        pthread_cond_broadcast(&gate->moved);
        while (gate->occupied)
            pthread_cond_wait(&gate->moved, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static void gate_await(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->occupied)
        pthread_cond_wait(&gate->moved, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->occupied = false;
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

/* ---- the store: as it was opened, but for the gates, and nobody else is there ---- */

static const struct store_driver *plain;

static enum error_code write_behind_gate(struct store_txn *txn, const struct store_write *write,
                                         struct err *err)
{
    gate_pass(&at_write);
    return plain->write(txn, write, err);
}

static enum error_code search_before_gate(struct store_txn *txn, struct store_search *searches,
                                          uint32_t count, struct arena *arena, struct err *err)
{
    enum error_code code = plain->candidates(txn, searches, count, arena, err);
    gate_pass(&at_search);
    return code;
}

static enum error_code due_before_gate(struct store *store, uint32_t limit, struct arena *arena,
                                       struct store_due **ret, uint32_t *ret_count,
                                       int64_t *ret_now, int64_t *ret_next, struct err *err)
{
    enum error_code code = plain->due(store, limit, arena, ret, ret_count, ret_now, ret_next, err);
    gate_pass(&at_due);
    return code;
}

static enum error_code watch_nobody(struct store *store, uint64_t seen, int64_t wait_ms,
                                    uint64_t *ret_seen, struct err *err)
{
    (void)store, (void)err;
    clock_pause(wait_ms);
    *ret_seen = seen;
    return ERR_OK;
}

/* ---- the scene ---- */

struct caller {
    struct call call;
    struct op op[OPS_MAX];
    struct op *ops[OPS_MAX];
    struct spec spec;
    sem_t done;
};

struct scene {
    struct test_stores stores;
    struct store_driver driver;
    struct store *store;
    struct engine *engine;
    _Atomic int64_t clock;  /* stands still */
    _Atomic int64_t steady; /* too */
    uint8_t ids;
};

static int64_t tell_clock(void *arg)
{
    return *(_Atomic int64_t *)arg;
}

static int open_scene(void **state)
{
    static struct scene scene;
    struct scene *s = &scene;
    struct err err = {0};
    *state = s;
    s->clock = INT64_C(1767225600000);
    s->steady = 1000;
    struct engine_options options = {
        .store = {.clock = tell_clock, .clock_arg = &s->clock, .create = true},
        .steady = tell_clock,
        .steady_arg = &s->steady,
    };
    test_stores_init(&s->stores);
    struct str url = str_from(test_stores_fresh(&s->stores, TEST_POSTGRES));
    if (store_open(url, &options.store, &s->store, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    plain = s->store->driver;
    s->driver = *plain;
    s->driver.write = write_behind_gate;
    s->driver.candidates = search_before_gate;
    s->driver.due = due_before_gate;
    s->driver.watch_others = watch_nobody;
    s->store->driver = &s->driver;
    options.lent = s->store;
    if (engine_open(url, &options, &s->engine, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return 0;
}

static int close_scene(void **state)
{
    struct scene *s = *state;
    store_close(s->store);
    test_stores_release(&s->stores);
    return 0;
}

static void let_pass(struct scene *s, int64_t ms)
{
    s->clock += ms;
    s->steady += ms;
}

static void be_told(struct call *call, void *arg)
{
    (void)call;
    (void)sem_post(arg);
}

static void hand_over(struct scene *s, struct caller *caller, uint32_t count)
{
    assert_int_equal(sem_init(&caller->done, 0, 0), 0);
    for (uint32_t i = 0; i < count; i++)
        caller->ops[i] = &caller->op[i];
    caller->call.ops = caller->ops;
    caller->call.count = count;
    caller->call.done = be_told;
    caller->call.arg = &caller->done;
    assert_int_equal(engine_submit(s->engine, &caller->call, NULL), ERR_OK);
}

static void await(struct caller *caller)
{
    while (sem_wait(&caller->done) != 0) {
        /* interrupted by a signal */
    }
    call_release(&caller->call);
    (void)sem_destroy(&caller->done);
}

static void claim(struct scene *s, struct caller *caller, const struct str *kind, uint32_t max)
{
    caller->call.class = CALL_CLAIM;
    caller->op[0].type = OP_CLAIM;
    caller->op[0].command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
    caller->op[0].command.claim.worker_id = STR("w");
    caller->op[0].claim.claimer.kinds = (struct names){(struct str *)(uintptr_t)kind, 1};
    caller->op[0].claim.max = max;
    hand_over(s, caller, 1);
}

static const struct str mail = STR_INIT("mail");
static const struct str fax = STR_INIT("fax");

/* Enough for a batch beside the one under way. Returns the last. */
static struct uuid submit_many(struct scene *s, int64_t delay_ms)
{
    struct caller caller = {.spec = spec_defaults(NULL)};
    caller.spec.kind = mail;
    caller.spec.delay_ms = delay_ms;
    for (int i = 0; i < OPS_MAX; i++) {
        uint8_t random[10] = {[9] = ++s->ids};
        caller.op[i].type = OP_COMMAND;
        caller.op[i].job = uuid_v7(s->clock, random);
        caller.op[i].command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
        caller.op[i].command.submit.spec = &caller.spec;
    }
    hand_over(s, &caller, OPS_MAX);
    await(&caller);
    assert_int_equal(caller.op[0].code, ERR_OK);
    return caller.op[OPS_MAX - 1].job;
}

/* A claim that does not wait: how many it got. With `max` of one it goes to the first runner. */
static uint32_t look(struct scene *s, const struct str *kind, uint32_t max)
{
    struct caller caller = {0};
    claim(s, &caller, kind, max);
    await(&caller);
    assert_int_equal(caller.op[0].code, ERR_OK);
    return caller.op[0].grant_count;
}

/* ---- what it shows ---- */

/* Time stands still: the claim ends when it is woken for work, or not within the patience. */
static void gets_without_asking(struct scene *s, struct caller *waits, uint32_t count)
{
    enum { PATIENCE_S = 30 };
    struct timespec until;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += PATIENCE_S;
    bool told = sem_timedwait(&waits->done, &until) == 0;
    engine_close(s->engine);
    if (!told)
        await(waits);
    else
        call_release(&waits->call);
    assert_true(told);
    assert_int_equal(waits->op[0].grant_count, count);
}

/* A batch with a signal for the job, which it has locked and leaves where it is, stands at the
 * gate. */
static void lock_by_signal(struct scene *s, struct caller *signal)
{
    struct uuid job = submit_many(s, 0);
    assert_int_equal(look(s, &mail, OPS_MAX - 1), OPS_MAX - 1);
    signal->call.class = CALL_RESULT;
    signal->op[0] = (struct op){.type = OP_COMMAND, .job = job};
    signal->op[0].command = (struct command){.type = COMMAND_SIGNAL, .actor = STR("ann")};
    signal->op[0].command.signal.correlation_key = STR("go");
    gate_shut(&at_write);
    hand_over(s, signal, 1);
    gate_await(&at_write);
}

static void a_claim_that_passed_over_a_locked_job_is_run_again(void **state)
{
    struct scene *s = *state;
    struct caller signal = {0};
    struct caller waits = {.call.wait_ms = 60 * 1000};
    lock_by_signal(s, &signal);
    claim(s, &waits, &mail, OPS_MAX);
    assert_int_equal(look(s, &mail, OPS_MAX), 0); /* then it waits */
    gate_open(&at_write);
    await(&signal);
    assert_int_equal(signal.op[0].code, ERR_OK);
    gets_without_asking(s, &waits, 1);
}

/* The claim has found nothing, and its batch is not over when the jobs are there. */
static void a_claim_gets_jobs_that_came_while_its_batch_was_under_way(void **state)
{
    struct scene *s = *state;
    struct caller waits = {.call.wait_ms = 60 * 1000};
    (void)submit_many(s, 0); /* so that the lane is there */
    assert_int_equal(look(s, &mail, OPS_MAX), OPS_MAX);
    gate_shut(&at_search);
    claim(s, &waits, &mail, OPS_MAX);
    gate_await(&at_search);
    (void)submit_many(s, 0);
    gate_open(&at_search);
    gets_without_asking(s, &waits, OPS_MAX);
}

/* A command alone may be too little for a batch beside the one under way. It must be done all the
 * same, at the latest with what comes next, while the search has all jobs of the lane locked. */
static void a_command_alone_goes_with_the_batch_beside_a_search(void **state)
{
    struct scene *s = *state;
    struct caller claims = {0};
    struct caller alone = {.spec = spec_defaults(NULL)};
    uint8_t random[10] = {[9] = 99};
    (void)submit_many(s, 0);
    gate_shut(&at_search);
    claim(s, &claims, &mail, OPS_MAX);
    gate_await(&at_search);
    alone.spec.kind = mail;
    alone.op[0].type = OP_COMMAND;
    alone.op[0].job = uuid_v7(s->clock, random);
    alone.op[0].command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
    alone.op[0].command.submit.spec = &alone.spec;
    hand_over(s, &alone, 1);
    (void)submit_many(s, 0);
    await(&alone);
    assert_int_equal(alone.op[0].code, ERR_OK);
    gate_open(&at_search);
    await(&claims);
    assert_int_equal(claims.op[0].grant_count, OPS_MAX);
    engine_close(s->engine);
}

/* A batch beside the look for what is due makes a job that is due before the next look. */
static void a_time_that_is_set_during_a_look_for_what_is_due_is_kept(void **state)
{
    struct scene *s = *state;
    struct caller nudge = {0};
    uint32_t granted = 0;
    gate_shut(&at_due);
    let_pass(s, 1000);
    claim(s, &nudge, &fax, 1);
    gate_await(&at_due);
    (void)submit_many(s, 100);
    gate_open(&at_due);
    await(&nudge);
    (void)look(s, &fax, 1); /* the first runner is done with it */
    let_pass(s, 100);
    for (int i = 0; i < LOOKS && granted == 0; i++)
        granted = look(s, &mail, 1);
    engine_close(s->engine);
    assert_int_equal(granted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_claim_that_passed_over_a_locked_job_is_run_again,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_claim_gets_jobs_that_came_while_its_batch_was_under_way,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_command_alone_goes_with_the_batch_beside_a_search,
                                        open_scene, close_scene),
        cmocka_unit_test_setup_teardown(a_time_that_is_set_during_a_look_for_what_is_due_is_kept,
                                        open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
