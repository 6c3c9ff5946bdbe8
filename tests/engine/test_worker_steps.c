/* The worker of pawl.h with steps of plans, on every store: on a resource of its own, and as a
 * critic. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/library_case.h"

/* What the handlers of a test saw. */
struct log {
    atomic_int calls;
    atomic_bool go;     /* for handlers that wait for the test */
    atomic_bool inside; /* one of those runs */
    char steps[8][32];
    char payload[32];
    char inputs[64];
    char verdict[16]; /* that a critic gives */
};

static void note(struct log *log, const struct pawl_task *task)
{
    int at = atomic_fetch_add(&log->calls, 1);
    assert_non_null(task->step);
    (void)snprintf(log->steps[at % 8], sizeof log->steps[0], "%s %s", task->step, task->kind);
    (void)snprintf(log->payload, sizeof log->payload, "%s", task->payload);
    struct pawl_json inputs = pawl_json_get(pawl_json_read(task->claim), "inputs");
    (void)snprintf(log->inputs, sizeof log->inputs, "%.*s", (int)inputs.len, inputs.at);
}

static void do_step(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    note(arg, task);
    outcome->result = pawl_copy("7");
}

static void fail_on_resource(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    note(arg, task);
    outcome->how = PAWL_FAIL;
    outcome->error_class = "resource";
}

static void nap(void)
{
    struct timespec time = {.tv_nsec = 2 * 1000000};
    (void)nanosleep(&time, NULL);
}

static void do_slowly(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    struct log *log = arg;
    (void)outcome;
    note(log, task);
    atomic_store(&log->inside, true);
    while (!atomic_load(&log->go))
        nap();
}

static void judge(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    struct log *log = arg;
    char request[512];
    char *answer;
    note(log, task);
    (void)snprintf(request, sizeof request,
                   "{\"id\":\"%s\",\"step\":\"%s\",\"token\":\"%s\",\"decision\":\"%s\"}",
                   task->job_id, task->step, task->token, log->verdict);
    assert_int_equal(pawl_verdict(task->pawl, request, &answer, NULL), PAWL_OK);
    pawl_free(answer);
    outcome->how = PAWL_ENDED;
}

static struct pawl_worker_options options_for(struct log *log, pawl_handler handler,
                                              const char *resource)
{
    return (struct pawl_worker_options){
        .worker_id = "tester",
        .resource_id = resource,
        .handler = handler,
        .arg = log,
        .drain = 1,
    };
}

static void work(struct library_case *c, const struct pawl_worker_options *options)
{
    struct pawl_worker *worker = NULL;
    struct pawl_error error = {0};
    assert_int_equal(pawl_worker_start(c->talk.pawl, options, &worker, &error), PAWL_OK);
    assert_int_equal(pawl_worker_join(worker, NULL, &error), PAWL_OK);
}

static const char *submit_plan(struct library_case *c, const char *steps)
{
    return submit_job(&c->talk, phrase(&c->talk, ", \"plan\": {\"steps\": [%s]}", steps));
}

static void steps_are_done_in_order_with_their_inputs(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    const char *id =
        submit_plan(c, "{\"id\":\"b\",\"kind\":\"k\",\"deps\":[\"a\"],\"payload\":{\"n\": 2}},"
                       "{\"id\":\"a\"}");
    submit_job(&c->talk, ""); /* a job without a plan is not for this worker */
    struct pawl_worker_options options = options_for(&log, do_step, "desk");
    work(c, &options);
    assert_int_equal(log.calls, 2);
    assert_string_equal(log.steps[0], "a ");
    assert_string_equal(log.steps[1], "b k");
    assert_string_equal(log.payload, "{\"n\": 2}");
    assert_string_equal(log.inputs, "{\"a\":7}");
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    does(&c->talk, pawl_verify, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "ok", "true");
    /* The resource goes with its worker. */
    refuses(&c->talk, pawl_resource_get, PAWL_NOT_FOUND, "{\"id\": \"desk\"}");
}

static void a_resource_is_what_its_worker_says_and_lost_steps_go_elsewhere(void **state)
{
    static const char *const capabilities[] = {"lift"};
    static const char *const labels[] = {"floor:2", "empty:"};
    struct library_case *c = *state;
    struct log log = {0};
    const char *id = submit_plan(
        c, "{\"id\":\"a\",\"capabilities\":[\"lift\"],\"selector\":\"floor in (2),empty=\"}");
    struct pawl_worker_options options = options_for(&log, fail_on_resource, "first");
    work(c, &options);
    assert_int_equal(log.calls, 0);
    options.capabilities = capabilities;
    options.capability_count = 1;
    work(c, &options);
    assert_int_equal(log.calls, 0);
    options.labels = labels;
    options.label_count = 2;
    work(c, &options);
    assert_int_equal(log.calls, 1);
    work(c, &options);
    assert_int_equal(log.calls, 1);
    options.resource_id = "second";
    options.handler = do_step;
    work(c, &options);
    assert_int_equal(log.calls, 2);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
}

static void a_critic_judges_what_others_have_finished(void **state)
{
    struct library_case *c = *state;
    struct log log = {.verdict = "switch_resource"};
    const char *id = submit_plan(c, "{\"id\":\"a\",\"critic\":true}");
    struct pawl_worker_options worker = options_for(&log, do_step, "first");
    struct pawl_worker_options critic = options_for(&log, judge, NULL);
    critic.judge = 1;
    work(c, &critic);
    assert_int_equal(log.calls, 0);
    work(c, &worker);
    work(c, &critic);
    assert_int_equal(log.calls, 2);
    work(c, &worker);
    assert_int_equal(log.calls, 2);
    worker.resource_id = "second";
    (void)snprintf(log.verdict, sizeof log.verdict, "accept");
    work(c, &worker);
    work(c, &critic);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    does(&c->talk, pawl_verify, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "ok", "true");
}

static void a_resource_that_was_lost_is_registered_again(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    struct pawl_worker *worker = NULL;
    struct pawl_worker_options options = options_for(&log, do_slowly, "desk");
    options.drain = 0;
    const char *first = submit_plan(c, "{\"id\":\"a\"}");
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, NULL), PAWL_OK);
    while (!atomic_load(&log.inside))
        nap();
    does(&c->talk, pawl_resource_get, "{\"id\": \"desk\"}");
    says_text(&c->talk, "slots", "1");
    does(&c->talk, pawl_resource_delete, "{\"id\": \"desk\"}");
    const char *second = submit_plan(c, "{\"id\":\"b\"}");
    atomic_store(&log.go, true);
    does(&c->talk, pawl_get, "{\"id\": \"%s\", \"wait_ms\": 20000}", second);
    says_text(&c->talk, "status", "completed");
    pawl_worker_stop(worker);
    assert_int_equal(pawl_worker_join(worker, NULL, NULL), PAWL_OK);
    /* The step that was on it when it was lost avoids it. */
    does(&c->talk, pawl_steps, "{\"id\": \"%s\"}", first);
    says_text(&c->talk, "steps.0.state", "switching_resource");
}

static void options_that_make_no_sense_are_refused(void **state)
{
    static const char *const no_label[] = {"floor"};
    struct library_case *c = *state;
    struct log log = {0};
    struct pawl_worker *worker = NULL;
    struct pawl_worker_options options = options_for(&log, do_step, "desk");
    options.judge = 1;
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, NULL), PAWL_BAD_REQUEST);
    options.judge = 0;
    options.labels = no_label;
    options.label_count = 1;
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, NULL), PAWL_BAD_REQUEST);
    options.resource_id = NULL;
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, NULL), PAWL_BAD_REQUEST);
    options = options_for(&log, do_step, "\xff");
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, NULL), PAWL_BAD_REQUEST);
    assert_null(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE_TICKING(steps_are_done_in_order_with_their_inputs),
        ON_EVERY_STORE_TICKING(a_resource_is_what_its_worker_says_and_lost_steps_go_elsewhere),
        ON_EVERY_STORE_TICKING(a_critic_judges_what_others_have_finished),
        ON_EVERY_STORE_TICKING(a_resource_that_was_lost_is_registered_again),
        ON_EVERY_STORE_TICKING(options_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
