/* The worker of pawl.h, on every store. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/library_case.h"

/* What a handler is to do and what came of it; each test has its own. */
struct script {
    void (*act)(struct script *script, const struct pawl_task *task, struct pawl_outcome *outcome);
    atomic_int calls;
    atomic_int inside;    /* handlers that run now */
    atomic_int most;      /* that ran at once */
    atomic_int stored;    /* outcomes that were reported well, */
    atomic_int refused;   /* and not: */
    atomic_int refusal;   /* with this code */
    atomic_int last_how;  /* as it was stored */
    atomic_bool go;       /* for handlers that wait for the test */
    atomic_int end;       /* what pawl_task_cancelled said */
    atomic_llong attempt; /* of the last task */
    char payload[64];     /* of the first */
};

static void nap(int ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

static long long now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void handle(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    struct script *script = arg;
    if (atomic_fetch_add(&script->calls, 1) == 0)
        (void)snprintf(script->payload, sizeof script->payload, "%s", task->payload);
    int inside = atomic_fetch_add(&script->inside, 1) + 1;
    int most = atomic_load(&script->most);
    while (inside > most && !atomic_compare_exchange_weak(&script->most, &most, inside))
        continue;
    atomic_store(&script->attempt, task->attempt);
    if (script->act != NULL)
        script->act(script, task, outcome);
    atomic_fetch_sub(&script->inside, 1);
}

static void reported(void *arg, const struct pawl_task *task, const struct pawl_outcome *outcome,
                     const struct pawl_error *error)
{
    struct script *script = arg;
    (void)task;
    atomic_store(&script->last_how, (int)outcome->how);
    if (error == NULL) {
        atomic_fetch_add(&script->stored, 1);
    } else {
        atomic_store(&script->refusal, (int)error->code);
        atomic_fetch_add(&script->refused, 1);
    }
}

static const char *const kinds[] = {"work"};

static struct pawl_worker_options options_for(struct script *script)
{
    return (struct pawl_worker_options){
        .worker_id = "tester",
        .kinds = kinds,
        .kind_count = 1,
        .handler = handle,
        .reported = reported,
        .arg = script,
    };
}

static struct pawl_worker *start(struct library_case *c, const struct pawl_worker_options *options)
{
    struct pawl_worker *worker = NULL;
    struct pawl_error error;
    assert_int_equal(pawl_worker_start(c->talk.pawl, options, &worker, &error), PAWL_OK);
    return worker;
}

/* Ends it and says how many jobs were done. */
static long long join(struct pawl_worker *worker)
{
    long long done = -1;
    struct pawl_error error = {0};
    assert_int_equal(pawl_worker_join(worker, &done, &error), PAWL_OK);
    return done;
}

/* Runs a worker until there is nothing left. */
static long long drain(struct library_case *c, struct script *script)
{
    struct pawl_worker_options options = options_for(script);
    options.drain = 1;
    return join(start(c, &options));
}

static void wait_until(atomic_int *value, int at_least)
{
    long long until = now_ms() + PATIENCE_MS;
    while (atomic_load(value) < at_least) {
        assert_true(now_ms() < until);
        nap(2);
    }
}

static void wait_for_go(struct script *script)
{
    while (!atomic_load(&script->go))
        nap(2);
}

/* ---- outcomes ----------------------------------------------------------------------------- */

static void give_result(struct script *script, const struct pawl_task *task,
                        struct pawl_outcome *outcome)
{
    (void)script;
    (void)task;
    outcome->result = pawl_copy("{\"sum\": 1.10}");
}

static void a_job_is_done_and_its_result_stored(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = give_result};
    const char *id = submit_job(&c->talk, ", \"payload\": {\"a\": 1}");
    assert_int_equal(drain(c, &script), 1);
    assert_string_equal(script.payload, "{\"a\": 1}");
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    says_text(&c->talk, "result", "{\"sum\": 1.10}");
    trace_is(&c->talk, id, "job_created job_leased job_running job_completed");
    is_sound(&c->talk, id);
}

static void fail_once(struct script *script, const struct pawl_task *task,
                      struct pawl_outcome *outcome)
{
    (void)script;
    if (task->attempt > 1)
        return;
    outcome->how = PAWL_FAIL;
    outcome->details = pawl_copy("{\"exit_code\": 3}");
    (void)snprintf(outcome->message, sizeof outcome->message, "not \xff yet");
}

static void a_handler_that_fails_is_called_again_later(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = fail_once};
    struct pawl_worker_options options = options_for(&script);
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &options);
    wait_until(&script.stored, 2);
    pawl_worker_stop(worker);
    assert_int_equal(join(worker), 2);
    does(&c->talk, pawl_events, "{\"id\": \"%s\"}", id);
    assert_non_null(strstr(c->talk.answer, "not \xEF\xBF\xBD yet"));
    assert_non_null(strstr(c->talk.answer, "exit_code"));
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    says_text(&c->talk, "failures", "1");
    is_sound(&c->talk, id);
}

static void fail_for_good(struct script *script, const struct pawl_task *task,
                          struct pawl_outcome *outcome)
{
    (void)script;
    (void)task;
    outcome->how = PAWL_FAIL;
    outcome->error_class = "permanent";
    (void)snprintf(outcome->message, sizeof outcome->message, "never");
}

static void a_permanent_failure_is_final(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = fail_for_good};
    const char *id = submit_job(&c->talk, "");
    assert_int_equal(drain(c, &script), 1);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "failed");
    says_text(&c->talk, "error.message", "never");
}

static void give_nonsense(struct script *script, const struct pawl_task *task,
                          struct pawl_outcome *outcome)
{
    (void)script;
    (void)task;
    outcome->result = pawl_copy("{not json");
}

static void give_too_much(struct script *script, const struct pawl_task *task,
                          struct pawl_outcome *outcome)
{
    enum { SIZE = 1024 * 1024 + 10 };
    (void)script;
    (void)task;
    char *result = malloc(SIZE);
    if (result == NULL)
        return;
    memset(result, 'x', SIZE);
    result[0] = result[SIZE - 2] = '"';
    result[SIZE - 1] = '\0';
    outcome->result = pawl_copy(result);
    free(result);
}

static void give_no_class(struct script *script, const struct pawl_task *task,
                          struct pawl_outcome *outcome)
{
    (void)script;
    (void)task;
    outcome->how = PAWL_FAIL;
    outcome->error_class = "bad luck";
}

static void an_outcome_that_the_store_refuses_fails_the_job_with_the_reason(void **state)
{
    struct library_case *c = *state;
    static const struct {
        void (*act)(struct script *script, const struct pawl_task *task,
                    struct pawl_outcome *outcome);
        const char *words;
    } cases[] = {
        {give_nonsense, "not JSON"},
        {give_too_much, "1048576"},
        {give_no_class, "bad luck"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct script script = {.act = cases[i].act};
        const char *id = submit_job(&c->talk, "");
        assert_int_equal(drain(c, &script), 1);
        assert_int_equal(script.last_how, PAWL_FAIL);
        does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
        says_text(&c->talk, "status", "failed");
        says_text(&c->talk, "error.class", "permanent");
        assert_non_null(strstr(text_at(&c->talk, "error.message"), cases[i].words));
    }
}

static void leave_effect_open(struct script *script, const struct pawl_task *task,
                              struct pawl_outcome *outcome)
{
    (void)script;
    (void)outcome;
    char request[256];
    char *answer;
    (void)snprintf(request, sizeof request, "{\"token\": \"%s\", \"key\": \"pay\"}", task->token);
    if (pawl_effect_begin(task->pawl, request, &answer, NULL) == PAWL_OK)
        pawl_free(answer);
}

static void completing_with_an_open_effect_fails_for_now(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = leave_effect_open};
    struct pawl_worker_options options = options_for(&script);
    options.once = 1;
    const char *id = submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 1);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "error.class", "transient");
    assert_non_null(strstr(text_at(&c->talk, "error.message"), "pay"));
}

static void release_once(struct script *script, const struct pawl_task *task,
                         struct pawl_outcome *outcome)
{
    (void)script;
    if (task->attempt == 1)
        outcome->how = PAWL_RELEASE;
}

static void work_that_is_given_back_costs_no_failure(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = release_once};
    const char *id = submit_job(&c->talk, "");
    assert_int_equal(drain(c, &script), 1);
    assert_int_equal(script.calls, 2);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    says_text(&c->talk, "failures", "0");
    says_text(&c->talk, "attempt", "2");
}

static void wait_for_key(struct script *script, const struct pawl_task *task,
                         struct pawl_outcome *outcome)
{
    char request[512];
    char *answer = NULL;
    struct pawl_json resume = pawl_json_get(pawl_json_read(task->claim), "resume");
    if (resume.at != NULL) {
        outcome->result = pawl_json_text(pawl_json_get(resume, "payload"));
        return;
    }
    (void)script;
    (void)snprintf(request, sizeof request,
                   "{\"token\": \"%s\", \"type\": \"signal\", \"correlation_key\": \"k\"}",
                   task->token);
    outcome->how = PAWL_FAIL;
    if (pawl_wait(task->pawl, request, &answer, NULL) == PAWL_OK)
        outcome->how = PAWL_ENDED;
    pawl_free(answer);
}

static void a_handler_that_waits_is_called_again_with_what_it_waited_for(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = wait_for_key};
    const char *id = submit_job(&c->talk, "");
    assert_int_equal(drain(c, &script), 1);
    assert_string_equal(status_of(&c->talk, id), "waiting");
    does(&c->talk, pawl_signal, "{\"id\": \"%s\", \"correlation_key\": \"k\", \"payload\": [7]}",
         id);
    assert_int_equal(drain(c, &script), 1);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    says_text(&c->talk, "result", "[7]");
    is_sound(&c->talk, id);
}

/* ---- leases ------------------------------------------------------------------------------- */

static void work_slowly(struct script *script, const struct pawl_task *task,
                        struct pawl_outcome *outcome)
{
    (void)outcome;
    nap(8 * LEASE_MS);
    atomic_store(&script->end, (int)pawl_task_cancelled(task));
}

static void heartbeats_keep_a_lease_that_is_shorter_than_the_work(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = work_slowly};
    struct pawl_worker_options options = options_for(&script);
    options.lease_ttl_ms = 2 * LEASE_MS;
    options.concurrency = 4;
    options.drain = 1;
    const char *ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 4);
    assert_int_equal(script.end, PAWL_GO_ON);
    for (int i = 0; i < 4; i++) {
        does(&c->talk, pawl_get, "{\"id\": \"%s\"}", ids[i]);
        says_text(&c->talk, "status", "completed");
        says_text(&c->talk, "attempt", "1");
    }
}

static void wait_for_end(struct script *script, const struct pawl_task *task,
                         struct pawl_outcome *outcome)
{
    long long until = now_ms() + PATIENCE_MS;
    while (pawl_task_cancelled(task) == PAWL_GO_ON && now_ms() < until)
        nap(2);
    atomic_store(&script->end, (int)pawl_task_cancelled(task));
    if (pawl_task_cancelled(task) == PAWL_CANCEL_ASKED)
        outcome->how = PAWL_CANCELLED;
}

static void a_handler_is_told_of_a_cancellation(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = wait_for_end};
    struct pawl_worker_options options = options_for(&script);
    options.lease_ttl_ms = 4 * LEASE_MS;
    options.once = 1;
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &options);
    wait_until(&script.calls, 1);
    does(&c->talk, pawl_cancel, "{\"id\": \"%s\"}", id);
    assert_int_equal(join(worker), 1);
    assert_int_equal(script.end, PAWL_CANCEL_ASKED);
    assert_string_equal(status_of(&c->talk, id), "cancelled");
    is_sound(&c->talk, id);
}

static void a_handler_is_told_of_a_lost_lease_and_its_outcome_is_not_taken(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = wait_for_end};
    struct pawl_worker_options options = options_for(&script);
    options.lease_ttl_ms = 4 * LEASE_MS;
    options.once = 1;
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &options);
    wait_until(&script.calls, 1);
    does(&c->talk, pawl_cancel, "{\"id\": \"%s\", \"mode\": \"hard\"}", id);
    assert_int_equal(join(worker), 0);
    assert_int_equal(script.end, PAWL_LEASE_LOST);
    assert_int_equal(script.refused, 1);
    assert_int_equal(script.refusal, PAWL_STALE_LEASE);
    assert_string_equal(status_of(&c->talk, id), "cancelled");
}

/* Runs until it is told to end. */
static void run_on(struct script *script, const struct pawl_task *task,
                   struct pawl_outcome *outcome)
{
    while (pawl_task_cancelled(task) == PAWL_GO_ON)
        nap(2);
    atomic_store(&script->end, (int)pawl_task_cancelled(task));
    outcome->how = PAWL_ENDED;
}

static void a_timeout_ends_the_task_long_before_its_heartbeat(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = run_on};
    struct pawl_worker_options options = options_for(&script);
    options.concurrency = 4;
    const char *id =
        submit_job(&c->talk, ", \"timeout_ms\": 200, \"lease_ttl_ms\": 60000, \"retry\": "
                             "{\"max_attempts\": 3, \"initial_ms\": 100, \"max_ms\": 100}");
    long long since = now_ms();
    struct pawl_worker *worker = start(c, &options);
    wait_until(&script.stored, 3);
    assert_true(now_ms() - since < PATIENCE_MS / 2);
    pawl_worker_stop(worker);
    (void)join(worker);
    assert_int_equal(script.end, PAWL_LEASE_LOST);
    assert_int_equal(script.calls, 3);
    assert_int_equal(script.most, 1);
    assert_string_equal(status_of(&c->talk, id), "dead_lettered");
}

static void a_hard_cancel_is_heard_of_soon_however_long_the_lease(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = run_on};
    struct pawl_worker_options options = options_for(&script);
    options.once = 1;
    const char *id = submit_job(&c->talk, ", \"lease_ttl_ms\": 600000");
    struct pawl_worker *worker = start(c, &options);
    wait_until(&script.calls, 1);
    does(&c->talk, pawl_cancel, "{\"id\": \"%s\", \"mode\": \"hard\"}", id);
    wait_until(&script.stored, 1);
    (void)join(worker);
    assert_int_equal(script.end, PAWL_LEASE_LOST);
}

static void a_claim_says_how_long_the_attempt_may_take(void **state)
{
    struct library_case *c = *state;
    (void)submit_job(&c->talk, ", \"timeout_ms\": 70000");
    does(&c->talk, pawl_claim, "{\"worker_id\": \"w\"}");
    assert_int_equal(int_at(&c->talk, "claims.0.lease.timeout_ms"), 70000);
    (void)submit_job(&c->talk, "");
    const char *answer = does(&c->talk, pawl_claim, "{\"worker_id\": \"w\"}");
    struct pawl_json lease = pawl_json_get(pawl_json_read(answer), "claims.0.lease");
    assert_non_null(lease.at);
    assert_null(pawl_json_get(lease, "timeout_ms").at);
}

static void say_progress(struct script *script, const struct pawl_task *task,
                         struct pawl_outcome *outcome)
{
    struct pawl_error error;
    (void)outcome;
    if (pawl_task_progress(task, "{nonsense", NULL, &error) != PAWL_BAD_REQUEST ||
        pawl_task_progress(task, "{\"done\": 1}", "page 1", &error) != PAWL_OK ||
        pawl_task_progress(task, "{\"done\": 2}", NULL, &error) != PAWL_OK)
        return;
    wait_for_go(script);
}

static void progress_is_stored_while_the_handler_runs(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = say_progress};
    struct pawl_worker_options options = options_for(&script);
    options.once = 1;
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &options);
    long long until = now_ms() + PATIENCE_MS;
    do {
        nap(10);
        does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
        assert_true(now_ms() < until);
    } while (strcmp(text_at(&c->talk, "cursor"), "page 1") != 0);
    says_text(&c->talk, "progress", "{\"done\": 2}");
    says_text(&c->talk, "status", "running");
    atomic_store(&script.go, true);
    assert_int_equal(join(worker), 1);
}

static void fail_with_cursor(struct script *script, const struct pawl_task *task,
                             struct pawl_outcome *outcome)
{
    (void)script;
    (void)pawl_task_progress(task, "{}", "page 9", NULL);
    outcome->how = PAWL_FAIL;
}

static void progress_that_was_not_sent_yet_goes_with_the_outcome(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = fail_with_cursor};
    struct pawl_worker_options options = options_for(&script);
    options.once = 1;
    const char *id = submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 1);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "cursor", "page 9");
}

/* ---- the worker as a whole ---------------------------------------------------------------- */

static void meet_all(struct script *script, const struct pawl_task *task,
                     struct pawl_outcome *outcome)
{
    long long until = now_ms() + PATIENCE_MS;
    (void)task;
    (void)outcome;
    while (atomic_load(&script->most) < 5 && now_ms() < until)
        nap(2);
}

static void handlers_run_at_once_but_no_more_than_allowed(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = meet_all};
    struct pawl_worker_options options = options_for(&script);
    options.concurrency = 5;
    options.drain = 1;
    for (int i = 0; i < 23; i++)
        submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 23);
    assert_int_equal(script.calls, 23);
    assert_int_equal(script.most, 5);
}

static void a_worker_that_waits_gets_a_new_job_at_once(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker_options options = options_for(&script);
    struct pawl_worker *worker = start(c, &options);
    nap(100);
    for (int i = 1; i <= 3; i++) {
        submit_job(&c->talk, "");
        wait_until(&script.stored, i);
    }
    assert_false(pawl_worker_wait(worker, 0));
    pawl_worker_stop(worker);
    assert_true(pawl_worker_wait(worker, -1));
    assert_int_equal(join(worker), 3);
}

static void go_on(struct script *script, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    (void)task;
    (void)outcome;
    wait_for_go(script);
}

static void a_stop_lets_what_runs_end_and_takes_nothing_more(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = go_on};
    struct pawl_worker_options options = options_for(&script);
    options.concurrency = 2;
    submit_job(&c->talk, "");
    submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &options);
    wait_until(&script.calls, 2);
    const char *third = submit_job(&c->talk, "");
    pawl_worker_stop(worker);
    pawl_worker_stop(worker);
    assert_false(pawl_worker_wait(worker, 50));
    atomic_store(&script.go, true);
    assert_int_equal(join(worker), 2);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", third);
    says_text(&c->talk, "status", "queued");
}

static void an_idle_worker_stops_soon(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker_options options = options_for(&script);
    struct pawl_worker *worker = start(c, &options);
    nap(50);
    long long since = now_ms();
    pawl_worker_stop(worker);
    assert_int_equal(join(worker), 0);
    assert_true(now_ms() - since < PATIENCE_MS / 2);
}

static void an_idle_worker_is_listed_until_it_has_drained(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker_options options = options_for(&script);
    options.concurrency = 3;
    struct pawl_worker *worker = start(c, &options);
    long long since = now_ms();
    does(&c->talk, pawl_workers, "{}");
    while (strcmp(text_at(&c->talk, "workers"), "[]") == 0 && now_ms() - since < PATIENCE_MS) {
        nap(10);
        does(&c->talk, pawl_workers, "{}");
    }
    assert_string_equal(text_at(&c->talk, "workers.0.worker_id"), options.worker_id);
    assert_string_equal(text_at(&c->talk, "workers.0.leases"), "0");
    assert_string_equal(text_at(&c->talk, "workers.0.slots"), "3");
    assert_string_equal(text_at(&c->talk, "workers.0.registered"), "true");
    pawl_worker_stop(worker);
    assert_int_equal(join(worker), 0);
    does(&c->talk, pawl_workers, "{}");
    assert_string_equal(text_at(&c->talk, "workers"), "[]");
}

static void once_takes_one_job(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker_options options = options_for(&script);
    options.once = 1;
    options.concurrency = 8;
    submit_job(&c->talk, "");
    submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 1);
    assert_int_equal(script.calls, 1);
    does(&c->talk, pawl_list, "{\"status\": \"queued\"}");
    assert_int_equal(int_at(&c->talk, "jobs.1.version"), -1);
    assert_int_equal(int_at(&c->talk, "jobs.0.attempt"), 0);
}

static void submit_another(struct script *script, const struct pawl_task *task,
                           struct pawl_outcome *outcome)
{
    char *answer;
    (void)outcome;
    if (atomic_load(&script->calls) < 4 &&
        pawl_submit(task->pawl, "{\"kind\": \"work\"}", &answer, NULL) == PAWL_OK)
        pawl_free(answer);
    nap(20);
}

static void a_drain_also_does_what_handlers_submit(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = submit_another};
    struct pawl_worker_options options = options_for(&script);
    options.drain = 1;
    options.concurrency = 3;
    assert_int_equal(join(start(c, &options)), 0);
    submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 4);
}

static void an_interrupted_handle_does_not_make_a_worker_spin(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker_options options = options_for(&script);
    struct pawl_worker *worker = start(c, &options);
    pawl_interrupt(c->talk.pawl);
    struct timespec before;
    struct timespec after;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    nap(500);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    long long used_ms =
        (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    assert_true(used_ms < 400);
    submit_job(&c->talk, "");
    wait_until(&script.stored, 1);
    pawl_worker_stop(worker);
    assert_int_equal(join(worker), 1);
}

static void an_error_that_does_not_pass_ends_the_worker(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker_options options = options_for(&script);
    static const char *const queues[] = {""};
    struct pawl_error error = {0};
    long long done = -1;
    options.queues = queues;
    options.queue_count = 1;
    struct pawl_worker *worker = start(c, &options);
    assert_int_equal(pawl_worker_join(worker, &done, &error), PAWL_BAD_REQUEST);
    assert_int_equal(error.code, PAWL_BAD_REQUEST);
    assert_string_not_equal(error.message, "");
    assert_int_equal(done, 0);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    struct library_case *c = *state;
    struct script script = {0};
    struct pawl_worker *worker = NULL;
    struct pawl_error error;
    struct pawl_worker_options options = options_for(&script);
    options.handler = NULL;
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, &error), PAWL_BAD_REQUEST);
    options = options_for(&script);
    options.concurrency = 1001;
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, &error), PAWL_BAD_REQUEST);
    options = options_for(&script);
    options.worker_id = "\xff";
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, NULL), PAWL_BAD_REQUEST);
    assert_null(worker);
    pawl_worker_stop(NULL);
}

static void look_at_lease(struct script *script, const struct pawl_task *task,
                          struct pawl_outcome *outcome)
{
    char *answer;
    (void)script;
    if (pawl_workers(task->pawl, NULL, &answer, NULL) == PAWL_OK)
        outcome->result = answer;
}

static void a_worker_without_a_name_gets_one(void **state)
{
    struct library_case *c = *state;
    struct script script = {.act = look_at_lease};
    struct pawl_worker_options options = options_for(&script);
    options.worker_id = NULL;
    options.once = 1;
    const char *id = submit_job(&c->talk, "");
    assert_int_equal(join(start(c, &options)), 1);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    const char *name = text_at(&c->talk, "result.workers.0.worker_id");
    assert_non_null(strchr(name, '-'));
    assert_true(strlen(name) > 12);
}

/* What has nothing to do with the store. */
#define ON_MEMORY(test)                                                                            \
    cmocka_unit_test_prestate_setup_teardown(test, case_setup_ticking, case_teardown,              \
                                             (void *)(uintptr_t)TEST_MEMORY)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE_TICKING(a_job_is_done_and_its_result_stored),
        ON_EVERY_STORE_TICKING(a_handler_that_fails_is_called_again_later),
        ON_MEMORY(a_permanent_failure_is_final),
        ON_EVERY_STORE_TICKING(an_outcome_that_the_store_refuses_fails_the_job_with_the_reason),
        ON_EVERY_STORE_TICKING(completing_with_an_open_effect_fails_for_now),
        ON_EVERY_STORE_TICKING(work_that_is_given_back_costs_no_failure),
        ON_EVERY_STORE_TICKING(a_handler_that_waits_is_called_again_with_what_it_waited_for),
        ON_EVERY_STORE_TICKING(heartbeats_keep_a_lease_that_is_shorter_than_the_work),
        ON_EVERY_STORE_TICKING(a_handler_is_told_of_a_cancellation),
        ON_EVERY_STORE_TICKING(a_handler_is_told_of_a_lost_lease_and_its_outcome_is_not_taken),
        ON_EVERY_STORE_TICKING(a_timeout_ends_the_task_long_before_its_heartbeat),
        ON_MEMORY(a_hard_cancel_is_heard_of_soon_however_long_the_lease),
        ON_EVERY_STORE_TICKING(a_claim_says_how_long_the_attempt_may_take),
        ON_EVERY_STORE_TICKING(progress_is_stored_while_the_handler_runs),
        ON_EVERY_STORE_TICKING(progress_that_was_not_sent_yet_goes_with_the_outcome),
        ON_EVERY_STORE_TICKING(handlers_run_at_once_but_no_more_than_allowed),
        ON_EVERY_STORE_TICKING(a_worker_that_waits_gets_a_new_job_at_once),
        ON_EVERY_STORE_TICKING(a_stop_lets_what_runs_end_and_takes_nothing_more),
        ON_MEMORY(an_idle_worker_stops_soon),
        ON_EVERY_STORE_TICKING(an_idle_worker_is_listed_until_it_has_drained),
        ON_EVERY_STORE_TICKING(once_takes_one_job),
        ON_EVERY_STORE_TICKING(a_drain_also_does_what_handlers_submit),
        ON_MEMORY(an_interrupted_handle_does_not_make_a_worker_spin),
        ON_MEMORY(an_error_that_does_not_pass_ends_the_worker),
        ON_MEMORY(options_that_make_no_sense_are_refused),
        ON_MEMORY(a_worker_without_a_name_gets_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
