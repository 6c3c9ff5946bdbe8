/* The checker on plans and steps: see test_verify.c. */
#include <time.h>

#include "core/history.h"

/* fetch → parse → store, in JSON of the contract. */
static const char chain[] = "[{\"id\":\"fetch\",\"avoid\":[\"bad\"]},"
                            "{\"id\":\"parse\",\"deps\":[\"fetch\"]},"
                            "{\"id\":\"store\",\"deps\":[\"parse\"]}]";
static const char single[] = "[{\"id\":\"a\",\"retry\":{\"max_attempts\":2}}]";
static const char judged[] = "[{\"id\":\"a\",\"critic\":true}]";
static const char waits[] = "[{\"id\":\"a\"},{\"id\":\"gate\",\"deps\":[\"a\"],"
                            "\"wait\":{\"type\":\"signal\",\"correlation_key\":\"go\"}}]";

/* The plan as it is stored: with every default written out. */
static struct str steps_of(struct history *h, const char *json)
{
    struct plan plan;
    struct err err;
    assert_int_equal(plan_read(str_from(json), RECORD_REQUEST, 1, &h->arena, &plan, &err),
                     ERR_OK);
    return plan.source;
}

static void planned(struct history *h, const char *json)
{
    created(h);
    ADD(h, PLAN_GENERATED, "submit", .plan_version = 1, .steps = steps_of(h, json));
}

static void runs(struct history *h, const char *cause, int64_t attempt)
{
    ADD(h, JOB_RUNNING, cause, .attempt = attempt);
}

/* "step_claim:a" and the like, kept as long as the history. */
static const char *cause(struct history *h, const char *command, const char *step, int64_t attempt)
{
    enum { CAUSE_MAX = 64 };
    char *text = arena_alloc(&h->arena, CAUSE_MAX);
    if (attempt == 0)
        (void)snprintf(text, CAUSE_MAX, "%s:%s", command, step);
    else
        (void)snprintf(text, CAUSE_MAX, "%s:%s#%lld", command, step, (long long)attempt);
    return text;
}

static struct event *claim_as(struct history *h, enum event_type type, const char *step,
                              int64_t attempt, const char *resource)
{
    return history_add(h, type, cause(h, "step_claim", step, 0),
                       (struct event_data){.step = str_from(step),
                                           .worker_id = STR("w1"),
                                           .resource_id = str_from(resource),
                                           .attempt = attempt,
                                           .lease_ttl_ms = 30000,
                                           .heartbeat_ms = 15000,
                                           .expires_at = h->now + 30000});
}

/* Leased and started in one commit. */
static void step_claimed(struct history *h, const char *step, int64_t attempt, const char *resource)
{
    claim_as(h, EVENT_STEP_LEASED, step, attempt, resource);
    history_add(h, EVENT_STEP_RUNNING, cause(h, "step_claim", step, 0),
                (struct event_data){.step = str_from(step)});
}

static struct event *step_does(struct history *h, enum event_type type, const char *command,
                               const char *step, int64_t attempt)
{
    return history_add(h, type, cause(h, command, step, attempt),
                       (struct event_data){.step = str_from(step)});
}

static void step_succeeds(struct history *h, const char *step, int64_t attempt)
{
    step_does(h, EVENT_STEP_SUCCEEDED, "complete", step, attempt)->data.result = STR("1");
}

static void step_retries(struct history *h, const char *step, int64_t attempt, int64_t failures)
{
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "fail", step, attempt)->data.failures = failures;
    step_does(h, EVENT_STEP_RETRYING, "fail", step, attempt)->data.not_before = h->now + 1000;
}

static void step_asks(struct history *h, const char *step, int64_t attempt)
{
    struct event_data *data = &step_does(h, EVENT_STEP_NEEDS_USER, "verdict", step, attempt)->data;
    data->verdict = VERDICT_NEEDS_USER;
    data->wait_type = WAIT_HUMAN;
    data->prompt = STR("May I?");
    data->until = h->now + 60000;
}

/* Starts the history anew. */
static void restart(struct history *h)
{
    h->count = 0;
    h->sealed = false;
    h->now = START_MS;
}

/* ---- lives that are right ---- */

/* Three steps; the first loses its resource, the second asks a person while nothing else can run.
 */
static void a_plan_with_a_switch_and_a_question_is_clean(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    step_does(h, EVENT_STEP_WAITING_DEPS, "submit", "parse", 0)->cause.step = (struct str){NULL, 0};
    runs(h, "step_claim:fetch", 1);
    step_claimed(h, "fetch", 1, "r1");
    tick(h, 30000);
    struct event_data *lost = &step_does(h, EVENT_STEP_FAILED_RESOURCE, "expire", "fetch", 0)->data;
    lost->resource_id = STR("r1");
    lost->reason = STR("lease_expired");
    step_does(h, EVENT_STEP_SWITCHING_RESOURCE, "expire", "fetch", 0);
    step_claimed(h, "fetch", 2, "r2");
    step_succeeds(h, "fetch", 2);
    step_claimed(h, "parse", 1, "r1");
    step_asks(h, "parse", 1);
    ADD(h, JOB_WAITING, "verdict:parse#1", .wait_type = WAIT_STEPS);
    tick(h, 500);
    ADD(h, SIGNAL_RECEIVED, "answer:parse", .step = STR("parse"), .payload = STR("\"yes\""),
        .outcome = OUTCOME_SIGNAL, .by = STR("ann"));
    ADD(h, WAIT_COMPLETED, "answer:parse", .outcome = OUTCOME_SIGNAL);
    runs(h, "step_claim:parse", 2);
    claim_as(h, EVENT_STEP_RUNNING, "parse", 2, "r1");
    step_succeeds(h, "parse", 2);
    step_claimed(h, "store", 1, "r1");
    step_succeeds(h, "store", 1);
    NOTE(h, JOB_COMPLETED, "complete:store#1");
    assert_clean(h);
    assert_int_equal(h->report.status, JOB_COMPLETED);
}

static void retries_releases_and_lost_leases_of_a_step_are_clean(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    tick(h, 30000);
    step_does(h, EVENT_STEP_LEASE_TIMEOUT, "expire", "a", 0)->data.reason = STR("lease_expired");
    step_does(h, EVENT_STEP_PENDING, "expire", "a", 0);
    step_claimed(h, "a", 2, "r1");
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "release", "a", 2)->data.reason = STR("released");
    step_does(h, EVENT_STEP_RETRYING, "release", "a", 2);
    claim_as(h, EVENT_STEP_RUNNING, "a", 3, "r1");
    step_retries(h, "a", 3, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 4, "r1");
    step_does(h, EVENT_STEP_FAILED_FATAL, "fail", "a", 4)->data.failures = 2;
    step_does(h, EVENT_STEP_FAILED, "fail", "a", 4);
    ADD(h, JOB_FAILED, "fail:a#4", .reason = STR("step_failed"));
    assert_clean(h);

    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2);
    ADD(h, PLAN_GENERATED, "requeue", .plan_version = 2);
    h->sealed = false;
    runs(h, "step_claim:a", 2);
    step_claimed(h, "a", 5, "r1");
    step_succeeds(h, "a", 5);
    NOTE(h, JOB_COMPLETED, "complete:a#5");
    assert_clean(h);
}

static void a_step_that_a_critic_accepts_is_clean(void **state)
{
    struct history *h = *state;
    planned(h, judged);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1)->data.result = STR("7");
    tick(h, 100);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    tick(h, 30000);
    step_does(h, EVENT_STEP_FINISHED, "expire", "a", 0)->data.reason = STR("lease_expired");
    claim_as(h, EVENT_STEP_JUDGING, "a", 3, NULL);
    step_does(h, EVENT_STEP_SUCCEEDED, "verdict", "a", 3)->data.verdict = VERDICT_ACCEPT;
    NOTE(h, JOB_COMPLETED, "verdict:a#3");
    assert_clean(h);
}

/* "fetch" succeeded, "parse" asked for another plan. */
static void replans(struct history *h)
{
    planned(h, chain);
    runs(h, "step_claim:fetch", 1);
    step_claimed(h, "fetch", 1, "r1");
    step_succeeds(h, "fetch", 1);
    step_claimed(h, "parse", 1, "r1");
    step_does(h, EVENT_STEP_FAILED_FATAL, "verdict", "parse", 0)->data.verdict = VERDICT_REPLAN;
    step_does(h, EVENT_STEP_FAILED, "verdict", "parse", 0);
    ADD(h, JOB_WAITING, "verdict:parse", .wait_type = WAIT_REPLAN);
}

static void a_new_plan_keeps_what_succeeded(void **state)
{
    struct history *h = *state;
    static const char other[] = "[{\"id\":\"fetch\"},{\"id\":\"load\",\"deps\":[\"fetch\"]}]";
    replans(h);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 2, .steps = steps_of(h, other));
    ADD(h, WAIT_COMPLETED, "plan", .outcome = OUTCOME_PLAN);
    runs(h, "step_claim:load", 2);
    step_claimed(h, "load", 2, "r1"); /* above all attempts of the plan before */
    step_succeeds(h, "load", 2);
    NOTE(h, JOB_COMPLETED, "complete:load#2");
    assert_clean(h);
}

/* The success of "a" starts the wait step; a signal carries it, and the job, to the end. */
static void a_wait_step_is_carried_by_the_cascade(void **state)
{
    struct history *h = *state;
    planned(h, waits);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_succeeds(h, "a", 1);
    ADD(h, STEP_LEASED, "complete:a#1", .step = STR("gate"), .attempt = 1);
    ADD(h, STEP_RUNNING, "complete:a#1", .step = STR("gate"));
    ADD(h, STEP_NEEDS_USER, "complete:a#1", .step = STR("gate"), .wait_type = WAIT_SIGNAL,
        .correlation_key = STR("go"));
    ADD(h, JOB_WAITING, "complete:a#1", .wait_type = WAIT_STEPS);
    tick(h, 10);
    ADD(h, SIGNAL_RECEIVED, "signal", .step = STR("gate"), .correlation_key = STR("go"),
        .outcome = OUTCOME_SIGNAL, .signal_id = STR("s1"));
    ADD(h, WAIT_COMPLETED, "signal", .outcome = OUTCOME_SIGNAL);
    runs(h, "signal", 2);
    ADD(h, STEP_RUNNING, "signal", .step = STR("gate"), .attempt = 2);
    ADD(h, STEP_SUCCEEDED, "signal", .step = STR("gate"));
    NOTE(h, JOB_COMPLETED, "signal");
    assert_clean(h);
}

static void effects_of_a_step_are_clean(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("k"), .attempt = 1);
    step_retries(h, "a", 1, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    ADD(h, STEP_NEEDS_USER, "effect_begin:a#2", .step = STR("a"), .effect = STR("k"),
        .wait_type = WAIT_HUMAN);
    ADD(h, JOB_WAITING, "effect_begin:a#2", .wait_type = WAIT_STEPS);
    ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"), .outcome = OUTCOME_SIGNAL,
        .resolution = RESOLVE_RETRY);
    ADD(h, WAIT_COMPLETED, "answer:a", .outcome = OUTCOME_SIGNAL);
    runs(h, "step_claim:a", 2);
    claim_as(h, EVENT_STEP_RUNNING, "a", 3, "r1");
    ADD(h, TOOL_CALLED, "effect_begin:a#3", .step = STR("a"), .key = STR("k"), .attempt = 3);
    ADD(h, TOOL_RETURNED, "effect_commit:a#3", .step = STR("a"), .key = STR("k"));
    step_succeeds(h, "a", 3);
    NOTE(h, JOB_COMPLETED, "complete:a#3");
    assert_clean(h);
}

/* Wherever redaction begins: also between a failure and what must follow it. */
static void a_redacted_plan_is_clean(void **state)
{
    struct history *h = *state;
    replans(h);
    history_seal(h);
    history_fold(h);
    for (size_t i = h->count; i-- > 0;) {
        struct err err;
        h->events[i].redacted = true;
        h->events[i].payload = (struct str){NULL, 0};
        assert_int_equal(event_open(&h->events[i], 0, &h->arena, &err), ERR_OK);
        assert_clean(h);
    }
}

/* ---- damage: plans ---- */

static void a_wrong_plan_version_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    h->events[1].data.plan_version = 2;
    assert_last(h, VERIFY_PLAN);
}

static void a_plan_for_a_leased_job_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 1, .steps = steps_of(h, chain));
    assert_last(h, VERIFY_PLAN);
}

static void a_plan_that_is_not_there_cannot_start_again(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 1);
    assert_last(h, VERIFY_PLAN);
}

static void a_job_with_a_plan_is_not_leased(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    leased(h, 1);
    assert_reported(h, 3, VERIFY_CLAIM);
}

static void completion_with_open_steps_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    runs(h, "step_claim:fetch", 1);
    step_claimed(h, "fetch", 1, "r1");
    step_succeeds(h, "fetch", 1);
    NOTE(h, JOB_COMPLETED, "complete:fetch#1");
    assert_last(h, VERIFY_PLAN_END);
}

static void a_job_that_waits_while_a_step_runs_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, "[{\"id\":\"a\"},{\"id\":\"b\"}]");
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_claimed(h, "b", 1, "r1");
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS);
    assert_last(h, VERIFY_PLAN_END);

    h->sealed = false;
    h->count -= 3;
    h->events[h->count - 1].data.step = STR("b");
    step_succeeds(h, "b", 1);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_REPLAN);
    assert_reported(h, (int64_t)h->count, VERIFY_PLAN_END);
}

/* ---- damage: steps ---- */

static void a_step_outside_the_plan_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    runs(h, "step_claim:fetch", 1);
    claim_as(h, EVENT_STEP_LEASED, "nowhere", 1, "r1");
    assert_last(h, VERIFY_STEP_KNOWN);
}

static void an_illegal_step_move_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    step_succeeds(h, "a", 1);
    assert_last(h, VERIFY_STEP_MOVE);
}

static void a_step_left_in_a_passing_state_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "fail", "a", 1)->data.failures = 1;
    assert_last(h, VERIFY_STEP_PASSING);

    h->sealed = false;
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_PASSING);
}

static void a_claim_with_an_open_dependency_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    runs(h, "step_claim:parse", 1);
    claim_as(h, EVENT_STEP_LEASED, "parse", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_claim_while_the_job_does_not_run_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_claim_of_a_job_on_its_way_out_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, "[{\"id\":\"a\"},{\"id\":\"b\"}]");
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    claim_as(h, EVENT_STEP_LEASED, "b", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);

    h->count = 5;
    h->sealed = false;
    step_does(h, EVENT_STEP_FAILED_FATAL, "verdict", "a", 0)->data.verdict = VERDICT_REPLAN;
    step_does(h, EVENT_STEP_FAILED, "verdict", "a", 0);
    claim_as(h, EVENT_STEP_LEASED, "b", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_retry_before_its_time_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_retries(h, "a", 1, 1);
    tick(h, 999);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_wait_step_given_to_a_worker_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, "[{\"id\":\"gate\",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"go\"}}]");
    runs(h, "step_claim:gate", 1);
    claim_as(h, EVENT_STEP_LEASED, "gate", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_step_attempt_that_does_not_rise_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_retries(h, "a", 1, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 1, "r1");
    assert_last(h, VERIFY_STEP_ATTEMPT);
}

static void a_second_lease_of_a_step_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, judged);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    claim_as(h, EVENT_STEP_JUDGING, "a", 3, NULL);
    assert_last(h, VERIFY_SINGLE_LEASE);
}

static void the_lease_of_one_step_does_not_move_another(void **state)
{
    struct history *h = *state;
    planned(h, "[{\"id\":\"a\"},{\"id\":\"b\"}]");
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_claimed(h, "b", 1, "r1");
    step_does(h, EVENT_STEP_SUCCEEDED, "complete", "a", 1)->data.step = STR("b");
    assert_last(h, VERIFY_LEASE_HOLDER);
}

static void the_token_of_a_step_dies_with_its_job(void **state)
{
    struct history *h = *state;
    planned(h, "[{\"id\":\"a\"},{\"id\":\"b\"}]");
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_HARD);
    tick(h, 1);
    history_add(h, EVENT_NODE_FINISHED, "append:a#1", (struct event_data){0});
    assert_last(h, VERIFY_LEASE_HOLDER);
}

static void a_resource_to_avoid_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    runs(h, "step_claim:fetch", 1);
    step_claimed(h, "fetch", 1, "bad");
    assert_only(h, 4, VERIFY_STEP_RESOURCE);

    restart(h);
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_does(h, EVENT_STEP_FAILED_RESOURCE, "fail", "a", 1)->data.resource_id = STR("r1");
    step_does(h, EVENT_STEP_SWITCHING_RESOURCE, "fail", "a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_RESOURCE);
}

static void step_failures_beyond_the_limit_are_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_retries(h, "a", 1, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    step_retries(h, "a", 2, 2);
    assert_only(h, 9, VERIFY_STEP_FAILURES);

    h->sealed = false;
    h->events[8].data.failures = 1; /* not counted */
    assert_only(h, 9, VERIFY_STEP_FAILURES);
}

static void a_step_lease_that_expires_early_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    tick(h, 29999);
    step_does(h, EVENT_STEP_LEASE_TIMEOUT, "expire", "a", 0)->data.reason = STR("lease_expired");
    step_does(h, EVENT_STEP_PENDING, "expire", "a", 0);
    assert_only(h, 5, VERIFY_LEASE_EXPIRY);
}

static void a_step_that_goes_on_without_its_answer_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_asks(h, "a", 1);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_ANSWER);

    h->count--;
    h->sealed = false;
    ADD(h, SIGNAL_RECEIVED, "wake:a", .step = STR("a"), .outcome = OUTCOME_TIMEOUT);
    assert_last(h, VERIFY_STEP_ANSWER); /* before its time */

    h->sealed = false;
    h->events[h->count - 1].data.outcome = OUTCOME_SIGNAL;
    h->events[h->count - 1].cause.command = COMMAND_ANSWER;
    ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"), .outcome = OUTCOME_SIGNAL);
    assert_last(h, VERIFY_STEP_ANSWER); /* a second answer */
}

static void a_verdict_that_leads_elsewhere_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_does(h, EVENT_STEP_SUCCEEDED, "verdict", "a", 0)->data.verdict = VERDICT_RETRY;
    assert_last(h, VERIFY_STEP_VERDICT);

    restart(h);
    planned(h, judged);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_succeeds(h, "a", 1);
    assert_last(h, VERIFY_STEP_VERDICT); /* without its critic */
}

static void an_open_effect_of_a_step_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("k"), .attempt = 1);
    step_succeeds(h, "a", 1);
    assert_last(h, VERIFY_EFFECT_OPEN);
}

static void a_step_event_after_the_end_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_HARD);
    step_does(h, EVENT_STEP_SUCCEEDED, "verdict", "a", 0)->data.verdict = VERDICT_ACCEPT;
    assert_last(h, VERIFY_TERMINAL);
}

/* Nothing of an event may be taken for granted: not even that it says which step it is of. */
static void a_step_event_without_a_step_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    NOTE(h, STEP_LEASED, "step_claim:a");
    history_seal(h);
    assert_last(h, VERIFY_STEP_KNOWN);
}

/* ---- size ---- */

static const char *long_chain(struct history *h, unsigned count)
{
    struct buf buf;
    buf_init(&buf, &h->arena, (size_t)count * 40);
    for (unsigned i = 0; i < count; i++) {
        buf_addf(&buf, "%s{\"id\":\"s%u\"", i == 0 ? "[" : ",", i);
        if (i > 0)
            buf_addf(&buf, ",\"deps\":[\"s%u\"]", i - 1);
        buf_addf(&buf, "}");
    }
    buf_addf(&buf, "]");
    buf_add_char(&buf, '\0');
    return buf.at;
}

/* Seen by its time when something is quadratic: that would take minutes. */
static void a_chain_of_ten_thousand_steps_takes_no_time(void **state)
{
    struct history *h = *state;
    planned(h, long_chain(h, PLAN_STEPS_MAX));
    runs(h, "step_claim:s0", 1);
    for (unsigned i = 0; i < PLAN_STEPS_MAX; i++) {
        char *step = arena_alloc(&h->arena, 16);
        (void)snprintf(step, 16, "s%u", i);
        step_claimed(h, step, 1, "r1");
        step_succeeds(h, step, 1);
    }
    NOTE(h, JOB_COMPLETED, "complete:s9999#1");
    history_seal(h);
    history_fold(h);
    clock_t start = clock();
    assert_clean(h);
    print_message("%zu events in %ld ms\n", h->count,
                  (long)((clock() - start) * 1000 / CLOCKS_PER_SEC));
}

static void every_rule_for_plans_was_broken_above(void **state)
{
    (void)state;
    assert_rules_seen(VERIFY_PLAN, VERIFY_STEP_VERDICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_plan_with_a_switch_and_a_question_is_clean),
        HISTORY_TEST(retries_releases_and_lost_leases_of_a_step_are_clean),
        HISTORY_TEST(a_step_that_a_critic_accepts_is_clean),
        HISTORY_TEST(a_new_plan_keeps_what_succeeded),
        HISTORY_TEST(a_wait_step_is_carried_by_the_cascade),
        HISTORY_TEST(effects_of_a_step_are_clean),
        HISTORY_TEST(a_redacted_plan_is_clean),
        HISTORY_TEST(a_wrong_plan_version_is_reported),
        HISTORY_TEST(a_plan_for_a_leased_job_is_reported),
        HISTORY_TEST(a_plan_that_is_not_there_cannot_start_again),
        HISTORY_TEST(a_job_with_a_plan_is_not_leased),
        HISTORY_TEST(completion_with_open_steps_is_reported),
        HISTORY_TEST(a_job_that_waits_while_a_step_runs_is_reported),
        HISTORY_TEST(a_step_outside_the_plan_is_reported),
        HISTORY_TEST(an_illegal_step_move_is_reported),
        HISTORY_TEST(a_step_left_in_a_passing_state_is_reported),
        HISTORY_TEST(a_claim_with_an_open_dependency_is_reported),
        HISTORY_TEST(a_claim_while_the_job_does_not_run_is_reported),
        HISTORY_TEST(a_claim_of_a_job_on_its_way_out_is_reported),
        HISTORY_TEST(a_retry_before_its_time_is_reported),
        HISTORY_TEST(a_wait_step_given_to_a_worker_is_reported),
        HISTORY_TEST(a_step_attempt_that_does_not_rise_is_reported),
        HISTORY_TEST(a_second_lease_of_a_step_is_reported),
        HISTORY_TEST(the_lease_of_one_step_does_not_move_another),
        HISTORY_TEST(the_token_of_a_step_dies_with_its_job),
        HISTORY_TEST(a_resource_to_avoid_is_reported),
        HISTORY_TEST(step_failures_beyond_the_limit_are_reported),
        HISTORY_TEST(a_step_lease_that_expires_early_is_reported),
        HISTORY_TEST(a_step_that_goes_on_without_its_answer_is_reported),
        HISTORY_TEST(a_verdict_that_leads_elsewhere_is_reported),
        HISTORY_TEST(an_open_effect_of_a_step_is_reported),
        HISTORY_TEST(a_step_event_after_the_end_is_reported),
        HISTORY_TEST(a_step_event_without_a_step_is_reported),
        HISTORY_TEST(a_chain_of_ten_thousand_steps_takes_no_time),
        cmocka_unit_test(every_rule_for_plans_was_broken_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
