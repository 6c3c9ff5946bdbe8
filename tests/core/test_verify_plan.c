/* The checker on plans, on what every command must leave settled, and on who may do what: see
 * test_verify.c. test_verify_steps.c has the steps. */
#include <time.h>

#include "core/history_steps.h"

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
    lost->failures = 1;
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
    planned(h, "[{\"id\":\"a\",\"retry\":{\"max_attempts\":3}}]");
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    tick(h, 30000);
    *lease_timeout(h, "a") = 1;
    step_does(h, EVENT_STEP_PENDING, "expire", "a", 0);
    step_claimed(h, "a", 2, "r1");
    struct event_data *released =
        &step_does(h, EVENT_STEP_FAILED_RETRYABLE, "release", "a", 2)->data;
    released->reason = STR("released");
    released->failures = 1;
    step_does(h, EVENT_STEP_RETRYING, "release", "a", 2);
    claim_as(h, EVENT_STEP_RUNNING, "a", 3, "r1");
    step_retries(h, "a", 3, 2);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 4, "r1");
    step_does(h, EVENT_STEP_FAILED_FATAL, "fail", "a", 4)->data.failures = 3;
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
    started(h, judged);
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

static void the_failures_of_critics_count_with_those_of_workers(void **state)
{
    struct history *h = *state;
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1)->data.result = STR("7");
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    tick(h, 30000);
    struct event_data *data = &step_does(h, EVENT_STEP_FINISHED, "expire", "a", 0)->data;
    data->reason = STR("lease_expired");
    data->failures = 1;
    claim_as(h, EVENT_STEP_JUDGING, "a", 3, NULL);
    data = &step_does(h, EVENT_STEP_FAILED_RETRYABLE, "verdict", "a", 3)->data;
    data->verdict = VERDICT_RETRY;
    data->failures = 2;
    step_does(h, EVENT_STEP_RETRYING, "verdict", "a", 3)->data.not_before = h->now + 1000;
    assert_clean(h);
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
    started(h, single);
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
    started(h, two);
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

static void a_plan_while_a_step_is_at_work_is_reported(void **state)
{
    struct history *h = *state;
    for (size_t count = 4; count <= 5; count++) { /* leased, running */
        restart(h);
        started(h, two);
        back_to(h, count);
        ADD(h, PLAN_GENERATED, "plan", .plan_version = 2, .steps = steps_of(h, chain));
        assert_last(h, VERIFY_PLAN);
    }
}

static void a_plan_that_starts_again_under_its_number_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    ADD(h, JOB_DEAD_LETTERED, "dead_letter", .reason_code = DEAD_TIMEOUT);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2);
    ADD(h, PLAN_GENERATED, "requeue", .plan_version = 2);
    assert_clean(h);
    h->sealed = false;
    h->events[4].data.plan_version = 1;
    assert_last(h, VERIFY_PLAN);
}

/* A plan of "a" and "b", where the failure of a step lets the others go on. */
static const char patient[] = "[{\"id\":\"a\",\"on_failure\":\"continue\"},"
                              "{\"id\":\"b\",\"on_failure\":\"continue\"}]";

static void step_fails(struct history *h, const char *step, int64_t attempt)
{
    struct event_data *data = &step_does(h, EVENT_STEP_FAILED_FATAL, "fail", step, attempt)->data;
    data->failures = 1;
    data->error = PERMANENT;
    step_does(h, EVENT_STEP_FAILED, "fail", step, attempt);
}

static void a_job_that_fails_without_need_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_succeeds(h, "a", 1);
    ADD(h, JOB_FAILED, "complete:a#1", .reason = STR("step_failed"));
    assert_last(h, VERIFY_PLAN_END); /* no step did */

    restart(h);
    started(h, patient);
    step_fails(h, "a", 1);
    assert_clean(h);
    h->sealed = false;
    ADD(h, JOB_FAILED, "fail:a#1", .reason = STR("step_failed"));
    assert_last(h, VERIFY_PLAN_END); /* "b" may go on */

    restart(h);
    started(h, patient);
    step_claimed(h, "b", 1, "r1");
    step_asks(h, "b", 1);
    step_fails(h, "a", 1);
    ADD(h, JOB_FAILED, "fail:a#1", .reason = STR("step_failed"));
    assert_last(h, VERIFY_PLAN_END); /* "b" may be answered */
}

/* The machine lets a job be parked whatever it waits for. */
static void a_planned_job_that_is_parked_waits_as_any_other(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS, .parked = true);
    assert_clean(h);
}

static void a_job_that_waits_for_no_step_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS);
    assert_last(h, VERIFY_PLAN_END); /* "b" can be claimed */

    restart(h);
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    ADD(h, JOB_WAITING, "complete:a#1", .wait_type = WAIT_STEPS);
    assert_reported(h, (int64_t)h->count, VERIFY_PLAN_END); /* "a" can be judged, and none asks */
    assert_int_equal(h->report.violation_count, 2);
}

/* ---- commands that leave a job where it cannot stay ---- */

/* The fault is that of the last event: the stream may end there or go on. */
static void assert_unsettled(struct history *h)
{
    int64_t version = (int64_t)h->count;
    assert_only(h, version, VERIFY_SETTLED);
    h->sealed = false;
    tick(h, 1);
    remark(h, "append");
    tick(h, 1);
    remark(h, "append");
    assert_only(h, version, VERIFY_SETTLED);
}

static void a_job_that_stays_when_its_steps_are_done_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_succeeds(h, "a", 1);
    assert_unsettled(h);

    restart(h);
    started(h, two);
    step_fails(h, "a", 1);
    assert_unsettled(h);

    restart(h);
    started(h, patient);
    step_fails(h, "a", 1);
    step_claimed(h, "b", 1, "r1");
    step_fails(h, "b", 1);
    assert_unsettled(h);
}

static void a_job_that_does_not_wait_for_its_steps_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    assert_unsettled(h);

    restart(h);
    replans(h);
    back_to(h, h->count - 1);
    assert_unsettled(h);
}

static void a_job_that_waits_after_the_answer_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS);
    ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"), .outcome = OUTCOME_SIGNAL);
    assert_unsettled(h);
}

/* ---- who may end or append what ---- */

static void an_operator_ends_no_work_in_hand_as_a_dead_letter(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, JOB_DEAD_LETTERED, "dead_letter", .reason_code = DEAD_TIMEOUT);
    assert_clean(h);
    for (int started = 0; started <= 1; started++) {
        back_to(h, 1);
        leased(h, 1);
        if (started)
            ADD(h, JOB_RUNNING, "claim", .attempt = 1);
        ADD(h, JOB_DEAD_LETTERED, "dead_letter", .reason_code = DEAD_TIMEOUT, .attempts = 1);
        assert_last(h, VERIFY_CAUSE);
    }
}

static void a_cancel_that_takes_work_softly_or_unasked_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_SOFT);
    assert_last(h, VERIFY_CANCEL);

    back_to(h, 2);
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_HARD);
    assert_clean(h);

    back_to(h, 1);
    claimed(h, 1);
    ADD(h, JOB_CANCELLED, "cancelled#1", .mode = CANCEL_SOFT);
    assert_last(h, VERIFY_CANCEL);
}

/* Once asked to stop, it is stopped when its worker gives it back. */
static void a_job_to_be_cancelled_that_goes_back_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    assert_clean(h);
    h->sealed = false;
    ADD(h, JOB_REQUEUED, "release#1", .reason = STR("released"));
    remark(h, "append");
    assert_only(h, 5, VERIFY_SETTLED);
}

static void an_append_that_needs_a_lease_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    remark(h, "append");
    assert_clean(h);
    h->sealed = false;
    NOTE(h, NODE_STARTED, "append");
    assert_last(h, VERIFY_LEASE_HOLDER);
    h->sealed = false;
    h->events[2].type = EVENT_NODE_FINISHED;
    assert_last(h, VERIFY_LEASE_HOLDER);
    h->sealed = false;
    h->events[2].type = EVENT_JOB_COMPENSATED; /* it has not failed */
    assert_last(h, VERIFY_LEASE_HOLDER);
}

static void a_lease_that_no_one_holds_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    struct event_data *data = &leased(h, 1)->data;
    data->worker_id = (struct str){NULL, 0};
    memset(data->token_hash, 1, TOKEN_HASH_LEN);
    assert_last(h, VERIFY_LEASE_TERMS);

    back_to(h, 1);
    leased(h, 1);
    h->bare = true; /* no token_hash */
    assert_last(h, VERIFY_LEASE_TERMS);
}

static void a_command_that_takes_time_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    tick(h, 5);
    ADD(h, JOB_RUNNING, "claim", .attempt = 1);
    assert_last(h, VERIFY_TIME);

    back_to(h, 2);
    ADD(h, JOB_RUNNING, "start#1", .attempt = 1);
    assert_clean(h);
}

static void a_soft_cancel_waits_for_workers_and_critics(void **state)
{
    struct history *h = *state;
    started(h, judged);
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_SOFT);
    assert_last(h, VERIFY_CANCEL);

    back_to(h, 5);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_SOFT);
    assert_clean(h);

    back_to(h, 6);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_SOFT);
    assert_last(h, VERIFY_CANCEL);

    back_to(h, 7);
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    step_does(h, EVENT_STEP_FINISHED, "release", "a", 2)->data.reason = STR("released");
    assert_unsettled(h);
}

/* ---- plans that no reader would let pass ---- */

/* Sealed with the plan `json`; then the plan itself is exchanged, as if it had been read so. */
static struct plan *exchange_plan(struct history *h, const char *json, uint32_t count)
{
    planned(h, json);
    history_seal(h);
    h->has_row = false;
    struct plan *plan = arena_zalloc(&h->arena, 1, sizeof *plan);
    struct step *steps = arena_zalloc(&h->arena, count + 1, sizeof *steps);
    assert_true(plan != NULL && steps != NULL);
    for (uint32_t i = 0; i < count; i++) {
        char *id = arena_alloc(&h->arena, 16);
        (void)snprintf(id, 16, "s%u", i);
        steps[i] = (struct step){.ordinal = i, .spec.id = str_from(id)};
    }
    *plan = (struct plan){.steps = steps, .count = count};
    h->events[1].data.plan = plan;
    return plan;
}

static void a_plan_of_too_few_or_too_many_steps_is_reported(void **state)
{
    struct history *h = *state;
    exchange_plan(h, single, 0);
    assert_last(h, VERIFY_PLAN);

    restart(h);
    exchange_plan(h, single, PLAN_STEPS_MAX + 1);
    assert_last(h, VERIFY_PLAN);
}

static void a_plan_with_a_step_twice_is_reported(void **state)
{
    struct history *h = *state;
    struct plan *plan = exchange_plan(h, two, 2);
    assert_clean(h);
    plan->steps[1].spec.id = STR("s0");
    assert_last(h, VERIFY_PLAN);
}

/* The plan is reported, and the fold where it needs the child that there is not. */
static void a_plan_with_a_child_outside_it_is_reported(void **state)
{
    struct history *h = *state;
    uint32_t nowhere = 7;
    started(h, single);
    step_succeeds(h, "a", 1);
    history_seal(h);
    h->has_row = false;
    struct step step = h->events[1].data.plan->steps[0];
    step.children = &nowhere;
    step.child_count = 1;
    struct plan plan = {.steps = &step, .count = 1};
    h->events[1].data.plan = &plan;
    assert_reported(h, 2, VERIFY_PLAN);
    assert_true(is_reported(h, 6, VERIFY_FOLD));
    assert_int_equal(h->report.violation_count, 2);
}

/* From there on its steps are unknown, which is not reported again. */
static void a_plan_that_could_not_be_read_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_succeeds(h, "a", 1);
    NOTE(h, JOB_COMPLETED, "complete:a#1");
    history_seal(h);
    history_fold(h);
    h->events[1].data.plan = NULL;
    assert_only(h, 2, VERIFY_PLAN);
}

static void every_step_left_in_a_passing_state_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_claimed(h, "b", 1, "r1");
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "fail", "b", 1)->data.failures = 1;
    assert_last(h, VERIFY_STEP_PASSING);

    h->sealed = false;
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_HARD);
    assert_last(h, VERIFY_STEP_PASSING);

    back_to(h, 8);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 2, .steps = steps_of(h, two));
    assert_reported(h, 9, VERIFY_STEP_PASSING);
}

/* Only its steps wait for anything but a plan or each other. */
static void a_planned_job_that_waits_for_a_signal_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_SIGNAL, .correlation_key = STR("k"));
    assert_last(h, VERIFY_WAIT);
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
    assert_rules_seen(VERIFY_PLAN, VERIFY_SETTLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_plan_with_a_switch_and_a_question_is_clean),
        HISTORY_TEST(retries_releases_and_lost_leases_of_a_step_are_clean),
        HISTORY_TEST(a_step_that_a_critic_accepts_is_clean),
        HISTORY_TEST(the_failures_of_critics_count_with_those_of_workers),
        HISTORY_TEST(a_new_plan_keeps_what_succeeded),
        HISTORY_TEST(a_wait_step_is_carried_by_the_cascade),
        HISTORY_TEST(effects_of_a_step_are_clean),
        HISTORY_TEST(a_wrong_plan_version_is_reported),
        HISTORY_TEST(a_plan_for_a_leased_job_is_reported),
        HISTORY_TEST(a_plan_that_is_not_there_cannot_start_again),
        HISTORY_TEST(a_job_with_a_plan_is_not_leased),
        HISTORY_TEST(completion_with_open_steps_is_reported),
        HISTORY_TEST(a_job_that_waits_while_a_step_runs_is_reported),
        HISTORY_TEST(a_plan_while_a_step_is_at_work_is_reported),
        HISTORY_TEST(a_plan_that_starts_again_under_its_number_is_reported),
        HISTORY_TEST(a_job_that_fails_without_need_is_reported),
        HISTORY_TEST(a_planned_job_that_is_parked_waits_as_any_other),
        HISTORY_TEST(a_job_that_waits_for_no_step_is_reported),
        HISTORY_TEST(a_job_that_stays_when_its_steps_are_done_is_reported),
        HISTORY_TEST(a_job_that_does_not_wait_for_its_steps_is_reported),
        HISTORY_TEST(a_job_that_waits_after_the_answer_is_reported),
        HISTORY_TEST(an_operator_ends_no_work_in_hand_as_a_dead_letter),
        HISTORY_TEST(a_cancel_that_takes_work_softly_or_unasked_is_reported),
        HISTORY_TEST(a_job_to_be_cancelled_that_goes_back_is_reported),
        HISTORY_TEST(an_append_that_needs_a_lease_is_reported),
        HISTORY_TEST(a_lease_that_no_one_holds_is_reported),
        HISTORY_TEST(a_command_that_takes_time_is_reported),
        HISTORY_TEST(a_soft_cancel_waits_for_workers_and_critics),
        HISTORY_TEST(a_plan_of_too_few_or_too_many_steps_is_reported),
        HISTORY_TEST(a_plan_with_a_step_twice_is_reported),
        HISTORY_TEST(a_plan_with_a_child_outside_it_is_reported),
        HISTORY_TEST(a_plan_that_could_not_be_read_is_reported),
        HISTORY_TEST(every_step_left_in_a_passing_state_is_reported),
        HISTORY_TEST(a_planned_job_that_waits_for_a_signal_is_reported),
        HISTORY_TEST(a_chain_of_ten_thousand_steps_takes_no_time),
        cmocka_unit_test(every_rule_for_plans_was_broken_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
