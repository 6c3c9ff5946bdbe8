/* The checker on steps: see test_verify.c. */
#include "core/history_steps.h"

/* A wait step alone. */
static const char gate[] = "[{\"id\":\"gate\",\"wait\":{\"type\":\"signal\","
                           "\"correlation_key\":\"go\"}}]";

/* "a" fails by an operator's verdict, which needs no lease, and is left in the passing state. */
static void left_passing(struct history *h, const char *json)
{
    started(h, json);
    struct event_data *data = &step_does(h, EVENT_STEP_FAILED_RETRYABLE, "verdict", "a", 0)->data;
    data->verdict = VERDICT_RETRY;
    data->failures = 1;
}

static void passed_on(struct history *h)
{
    step_does(h, EVENT_STEP_RETRYING, "verdict", "a", 0)->data.not_before = h->now + 1000;
}

/* ---- lives that are right ---- */

static void a_start_that_names_its_attempt_is_clean(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    ADD(h, STEP_RUNNING, "start:a#1", .step = STR("a"), .attempt = 1);
    assert_clean(h);

    back_to(h, 4);
    ADD(h, STEP_RUNNING, "start:a#1", .step = STR("a"), .attempt = 2);
    assert_last(h, VERIFY_STEP_ATTEMPT);
}

/* Up to the question of a wait step that is open for a second, and the end of that second. */
static void gate_asks(struct history *h)
{
    planned(h, gate);
    runs(h, "submit", 1);
    ADD(h, STEP_LEASED, "submit", .step = STR("gate"), .attempt = 1);
    ADD(h, STEP_RUNNING, "submit", .step = STR("gate"));
    ADD(h, STEP_NEEDS_USER, "submit", .step = STR("gate"), .wait_type = WAIT_SIGNAL,
        .correlation_key = STR("go"), .until = h->now + 1000);
    ADD(h, JOB_WAITING, "submit", .wait_type = WAIT_STEPS);
    tick(h, 1000);
}

static void gate_goes_on(struct history *h)
{
    ADD(h, WAIT_COMPLETED, "wake:gate", .outcome = OUTCOME_TIMEOUT);
    runs(h, "wake:gate", 2);
    ADD(h, STEP_RUNNING, "wake:gate", .step = STR("gate"), .attempt = 2);
}

static void a_wait_step_whose_time_is_over_is_clean(void **state)
{
    struct history *h = *state;
    gate_asks(h);
    ADD(h, SIGNAL_RECEIVED, "wake:gate", .step = STR("gate"), .correlation_key = STR("go"),
        .outcome = OUTCOME_TIMEOUT);
    gate_goes_on(h);
    ADD(h, STEP_SUCCEEDED, "wake:gate", .step = STR("gate"));
    NOTE(h, JOB_COMPLETED, "wake:gate");
    assert_clean(h);
}

/* As another version may have stored it: what this one does not know of sets no limit. */
static void a_stored_plan_means_what_it_says_and_no_more(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, PLAN_GENERATED, "submit", .plan_version = 1,
        .steps = STR("[{\"id\":\"a\",\"avoid\":[7,\"r2\"]}]"));
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
    step_retries(h, "a", 1, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    step_retries(h, "a", 2, 2);
    tick(h, 1000);
    assert_clean(h);
    h->sealed = false;
    claim_as(h, EVENT_STEP_RUNNING, "a", 3, "r2");
    assert_last(h, VERIFY_STEP_RESOURCE);
}

/* ---- verdicts ---- */

/* Where a verdict may lead. */
static bool may_lead(enum verdict verdict, enum event_type to)
{
    static const enum event_type first[] = {
        [VERDICT_ACCEPT] = EVENT_STEP_SUCCEEDED,
        [VERDICT_RETRY] = EVENT_STEP_FAILED_RETRYABLE,
        [VERDICT_SWITCH_RESOURCE] = EVENT_STEP_FAILED_RESOURCE,
        [VERDICT_REPLAN] = EVENT_STEP_FAILED_FATAL,
        [VERDICT_NEEDS_USER] = EVENT_STEP_NEEDS_USER,
    };
    if (verdict == VERDICT_NONE)
        return false;
    bool limited = verdict == VERDICT_RETRY || verdict == VERDICT_SWITCH_RESOURCE;
    return to == first[verdict] || (limited && to == EVENT_STEP_FAILED_FATAL);
}

static void every_verdict_leads_only_where_it_says(void **state)
{
    static const enum event_type ends[] = {
        EVENT_STEP_SUCCEEDED,    EVENT_STEP_FAILED_RETRYABLE, EVENT_STEP_FAILED_RESOURCE,
        EVENT_STEP_FAILED_FATAL, EVENT_STEP_NEEDS_USER,
    };
    struct history *h = *state;
    for (int verdict = VERDICT_NONE; verdict <= VERDICT_NEEDS_USER; verdict++) {
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            restart(h);
            started(h, single);
            struct event_data *data = &step_does(h, ends[i], "verdict", "a", 0)->data;
            data->verdict = (enum verdict)verdict;
            data->failures = ends[i] == EVENT_STEP_FAILED_RETRYABLE;
            if (ends[i] == EVENT_STEP_FAILED_RESOURCE)
                data->resource_id = STR("r1");
            history_verify(h);
            bool expected = may_lead((enum verdict)verdict, ends[i]);
            if (is_reported(h, 6, VERIFY_STEP_VERDICT) == expected)
                fail_msg("verdict %d to %.*s", verdict, STR_ARG(event_type_name(ends[i])));
        }
    }
}

static void a_verdict_on_a_wait_step_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, gate);
    runs(h, "submit", 1);
    ADD(h, STEP_LEASED, "submit", .step = STR("gate"), .attempt = 1);
    ADD(h, STEP_RUNNING, "submit", .step = STR("gate"));
    step_does(h, EVENT_STEP_SUCCEEDED, "verdict", "gate", 0);
    assert_last(h, VERIFY_STEP_VERDICT);
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
    started(h, single);
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "fail", "a", 1)->data.failures = 1;
    assert_last(h, VERIFY_STEP_PASSING);

    h->sealed = false;
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_PASSING);
}

static void every_passing_state_must_be_left(void **state)
{
    static const enum event_type passing[] = {
        EVENT_STEP_LEASE_TIMEOUT,
        EVENT_STEP_FAILED_RETRYABLE,
        EVENT_STEP_FAILED_RESOURCE,
        EVENT_STEP_FAILED_FATAL,
    };
    struct history *h = *state;
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        restart(h);
        started(h, single);
        if (passing[i] == EVENT_STEP_LEASE_TIMEOUT)
            back_to(h, 4);
        tick(h, 30000);
        struct event_data *data = &step_does(h, passing[i], "expire", "a", 0)->data;
        data->failures = 1;
        if (passing[i] == EVENT_STEP_FAILED_RESOURCE)
            data->resource_id = STR("r1");
        assert_last(h, VERIFY_STEP_PASSING);
    }
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
    started(h, two);
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    claim_as(h, EVENT_STEP_LEASED, "b", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);

    restart(h);
    started(h, "[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"}]");
    step_claimed(h, "c", 1, "r1"); /* the new plan waits for it */
    replanned(h, "a");
    step_does(h, EVENT_STEP_FAILED, "verdict", "a", 0);
    claim_as(h, EVENT_STEP_LEASED, "b", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_retry_before_its_time_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_retries(h, "a", 1, 1);
    tick(h, 999);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_wait_step_given_to_a_worker_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, gate);
    runs(h, "step_claim:gate", 1);
    claim_as(h, EVENT_STEP_LEASED, "gate", 1, "r1");
    assert_last(h, VERIFY_STEP_CLAIM);
}

static void a_step_attempt_that_does_not_rise_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_retries(h, "a", 1, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 1, "r1");
    assert_last(h, VERIFY_STEP_ATTEMPT);
}

static void a_second_lease_of_a_step_is_reported(void **state)
{
    struct history *h = *state;
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    claim_as(h, EVENT_STEP_JUDGING, "a", 3, NULL);
    assert_last(h, VERIFY_SINGLE_LEASE);
}

static void the_lease_of_one_step_does_not_move_another(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_claimed(h, "b", 1, "r1");
    step_does(h, EVENT_STEP_SUCCEEDED, "complete", "a", 1)->data.step = STR("b");
    assert_last(h, VERIFY_LEASE_HOLDER);
}

static void the_token_of_a_step_dies_with_its_job(void **state)
{
    struct history *h = *state;
    started(h, two);
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
    started(h, single);
    step_does(h, EVENT_STEP_FAILED_RESOURCE, "fail", "a", 1)->data.resource_id = STR("r1");
    step_does(h, EVENT_STEP_SWITCHING_RESOURCE, "fail", "a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 2, "r1");
    assert_last(h, VERIFY_STEP_RESOURCE);
}

static void step_failures_beyond_the_limit_are_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
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
    *lease_timeout(h, "a") = 1;
    step_does(h, EVENT_STEP_PENDING, "expire", "a", 0);
    assert_only(h, 5, VERIFY_LEASE_EXPIRY);
}

static void a_step_that_goes_on_without_its_answer_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
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
    started(h, single);
    step_does(h, EVENT_STEP_SUCCEEDED, "verdict", "a", 0)->data.verdict = VERDICT_RETRY;
    assert_last(h, VERIFY_STEP_VERDICT);

    restart(h);
    started(h, judged);
    step_succeeds(h, "a", 1);
    assert_last(h, VERIFY_STEP_VERDICT); /* without its critic */
}

static void an_open_effect_of_a_step_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("k"), .attempt = 1);
    step_succeeds(h, "a", 1);
    assert_last(h, VERIFY_EFFECT_OPEN);
}

static void a_step_event_after_the_end_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
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

static void a_wait_without_need_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, chain);
    ADD(h, STEP_WAITING_DEPS, "submit", .step = STR("parse"));
    assert_clean(h);
    ADD(h, STEP_WAITING_DEPS, "submit", .step = STR("fetch"));
    h->sealed = false;
    assert_last(h, VERIFY_STEP_MOVE);
}

/* Whatever happens to a step in a passing state, before it was left. */
static void nothing_happens_to_a_passing_step(void **state)
{
    struct history *h = *state;
    left_passing(h, single);
    passed_on(h);
    assert_clean(h);

    back_to(h, 6);
    ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"), .outcome = OUTCOME_SIGNAL);
    passed_on(h);
    assert_only(h, 7, VERIFY_STEP_PASSING);

    back_to(h, 6);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    passed_on(h);
    assert_only(h, 7, VERIFY_STEP_PASSING);

    restart(h);
    left_passing(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "verdict", "a", 0);
    passed_on(h);
    assert_only(h, 7, VERIFY_STEP_PASSING);

    restart(h);
    started(h, single);
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "fail", "a", 1)->data.failures = 1;
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("k"), .attempt = 1);
    assert_reported(h, 7, VERIFY_STEP_PASSING);
    assert_false(is_reported(h, 7, VERIFY_EFFECT));
}

static void an_effect_of_a_step_that_has_not_started_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("k"), .attempt = 1);
    assert_last(h, VERIFY_EFFECT);
}

/* The one fault is that the claim does not say its number: it counts all the same. */
static void a_step_claim_without_its_number_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 0, "r1");
    step_succeeds(h, "a", 1);
    NOTE(h, JOB_COMPLETED, "complete:a#1");
    assert_only(h, 4, VERIFY_STEP_ATTEMPT);

    restart(h);
    planned(h, gate);
    runs(h, "submit", 1);
    ADD(h, STEP_LEASED, "submit", .step = STR("gate"));
    assert_last(h, VERIFY_STEP_ATTEMPT);
}

static void a_second_success_of_a_step_frees_no_one(void **state)
{
    struct history *h = *state;
    started(h, "[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\",\"deps\":[\"a\",\"b\"]}]");
    step_succeeds(h, "a", 1);
    step_succeeds(h, "a", 1);
    claim_as(h, EVENT_STEP_LEASED, "c", 1, "r1");
    assert_reported(h, 7, VERIFY_STEP_MOVE);
    assert_true(is_reported(h, 8, VERIFY_STEP_CLAIM)); /* "b" is open */
    assert_int_equal(h->report.violation_count, 2);
}

static void another_resource_than_it_ran_on_cannot_be_lost(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_does(h, EVENT_STEP_FAILED_RESOURCE, "fail", "a", 1)->data.resource_id = STR("r2");
    step_does(h, EVENT_STEP_SWITCHING_RESOURCE, "fail", "a", 1);
    assert_only(h, 6, VERIFY_STEP_RESOURCE);

    h->sealed = false;
    h->events[5].data.resource_id = (struct str){NULL, 0};
    assert_only(h, 6, VERIFY_STEP_RESOURCE);
}

static void a_failure_of_a_step_that_counts_twice_is_reported(void **state)
{
    struct history *h = *state;
    started(h, "[{\"id\":\"a\",\"retry\":{\"max_attempts\":9}}]");
    step_retries(h, "a", 1, 2);
    assert_only(h, 6, VERIFY_STEP_FAILURES);

    back_to(h, 5);
    step_retries(h, "a", 1, 0);
    h->events[5].data.reason = STR("released");
    assert_clean(h);
    h->sealed = false;
    h->events[5].data.failures = 1; /* a release costs nothing */
    assert_only(h, 6, VERIFY_STEP_FAILURES);
}

static void a_step_judged_before_it_finished_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, judged);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_JUDGING, "a", 1, NULL);
    assert_last(h, VERIFY_STEP_CLAIM);

    restart(h);
    started(h, judged);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    assert_reported(h, 6, VERIFY_STEP_CLAIM);
    assert_true(is_reported(h, 6, VERIFY_SINGLE_LEASE));
}

static void an_effect_under_a_critics_lease_is_reported(void **state)
{
    struct history *h = *state;
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    ADD(h, TOOL_CALLED, "effect_begin:a#2", .step = STR("a"), .key = STR("k"), .attempt = 2);
    assert_last(h, VERIFY_EFFECT);
}

static void failures_of_critics_that_do_not_add_up_are_reported(void **state)
{
    struct history *h = *state;
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    claim_as(h, EVENT_STEP_JUDGING, "a", 2, NULL);
    step_does(h, EVENT_STEP_FINISHED, "fail", "a", 2)->data.failures = 2;
    assert_last(h, VERIFY_STEP_FAILURES); /* one more than none is one */

    restart(h);
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    for (int64_t failures = 1; failures <= 4; failures++) {
        claim_as(h, EVENT_STEP_JUDGING, "a", failures + 1, NULL);
        step_does(h, EVENT_STEP_FINISHED, "fail", "a", failures + 1)->data.failures = failures;
    }
    assert_last(h, VERIFY_STEP_FAILURES); /* four are too many */
}

static void a_command_on_one_step_that_moves_another_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "verdict", "a", 0)->cause.step = STR("b");
    h->events[h->count - 1].data.failures = 1;
    step_does(h, EVENT_STEP_RETRYING, "verdict", "a", 0);
    assert_reported(h, (int64_t)h->count - 1, VERIFY_LEASE_HOLDER);
}

static void a_result_that_cannot_be_held_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    assert_last(h, VERIFY_STEP_VERDICT); /* no critic is asked for */

    restart(h);
    started(h, judged);
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    assert_clean(h);
    h->sealed = false;
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    assert_last(h, VERIFY_STEP_MOVE); /* held already */

    restart(h);
    planned(h, judged);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1");
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 1);
    assert_last(h, VERIFY_STEP_MOVE); /* not started */
}

static void an_answer_that_does_not_fit_its_question_is_reported(void **state)
{
    static const struct {
        const char *cause;
        struct event_data data;
    } bad[] = {
        /* Its key, its outcome and its command must be those of the question. */
        {"answer:a", {.correlation_key = {"b", 1}, .outcome = OUTCOME_SIGNAL}},
        {"answer:a", {.outcome = OUTCOME_TIMEOUT}},
        {"wake:a", {.outcome = OUTCOME_SIGNAL}},
    };
    struct history *h = *state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        restart(h);
        started(h, single);
        step_asks(h, "a", 1);
        ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS);
        tick(h, 60000);
        history_add(h, EVENT_SIGNAL_RECEIVED, bad[i].cause, bad[i].data)->data.step = STR("a");
        assert_last(h, VERIFY_STEP_ANSWER);
    }
}

static void a_question_without_end_cannot_time_out(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS);
    tick(h, 60000);
    ADD(h, SIGNAL_RECEIVED, "wake:a", .step = STR("a"), .outcome = OUTCOME_TIMEOUT);
    ADD(h, WAIT_COMPLETED, "wake:a", .outcome = OUTCOME_TIMEOUT);
    assert_clean(h);
    h->sealed = false;
    h->events[5].data.until = 0;
    assert_only(h, 8, VERIFY_STEP_ANSWER);
}

static void a_step_whose_error_is_handled_otherwise_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_retries(h, "a", 1, 1);
    h->events[5].data.error = TRANSIENT;
    assert_clean(h);
    h->sealed = false;
    h->events[5].data.error = PERMANENT;
    assert_only(h, 6, VERIFY_STEP_FAILURES);

    back_to(h, 5);
    struct event_data *data = &step_does(h, EVENT_STEP_FAILED_FATAL, "fail", "a", 1)->data;
    data->failures = 1;
    data->error = PERMANENT;
    step_does(h, EVENT_STEP_FAILED, "fail", "a", 1);
    ADD(h, JOB_FAILED, "fail:a#1", .reason = STR("step_failed"));
    assert_clean(h);
    h->sealed = false;
    data->error = TRANSIENT; /* the first of four */
    assert_only(h, 6, VERIFY_STEP_FAILURES);
}

/* However well the worker beats. */
static void a_write_after_the_end_of_the_attempt_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    h->events[3].data.timeout_at = h->now + 40000;
    tick(h, 39999);
    step_succeeds(h, "a", 1);
    NOTE(h, JOB_COMPLETED, "complete:a#1");
    assert_clean(h);
    h->sealed = false;
    h->events[5].at++;
    h->events[6].at++;
    assert_reported(h, 6, VERIFY_LEASE_HOLDER);
}

static void a_question_without_a_type_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    step_asks(h, "a", 1);
    h->events[5].data.wait_type = WAIT_NONE;
    assert_last(h, VERIFY_WAIT);
}

/* "a" called an effect and failed; its next attempt asks about it. */
static void an_answer_that_leaves_an_effect_in_doubt_is_reported(void **state)
{
    struct history *h = *state;
    started(h, two);
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("k"), .attempt = 1);
    step_retries(h, "a", 1, 1);
    tick(h, 1000);
    claim_as(h, EVENT_STEP_RUNNING, "a", 2, "r1");
    ADD(h, STEP_NEEDS_USER, "effect_begin:a#2", .step = STR("a"), .effect = STR("k"),
        .wait_type = WAIT_HUMAN);
    struct event_data *answer = &ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"),
                                     .outcome = OUTCOME_SIGNAL, .resolution = RESOLVE_DONE)
                                     ->data;
    assert_clean(h);
    h->sealed = false;
    answer->resolution = RESOLVE_NONE;
    assert_last(h, VERIFY_STEP_ANSWER);
}

static void a_step_that_no_one_runs_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, single);
    runs(h, "step_claim:a", 1);
    claim_as(h, EVENT_STEP_LEASED, "a", 1, NULL);
    assert_last(h, VERIFY_STEP_RESOURCE);

    back_to(h, 3);
    struct event_data *data = &claim_as(h, EVENT_STEP_LEASED, "a", 1, "r1")->data;
    data->worker_id = (struct str){NULL, 0};
    memset(data->token_hash, 1, TOKEN_HASH_LEN);
    assert_last(h, VERIFY_LEASE_TERMS);
}

static void an_answer_to_a_step_that_asked_nothing_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"), .outcome = OUTCOME_SIGNAL);
    assert_last(h, VERIFY_STEP_ANSWER);
}

static void a_wait_step_that_goes_on_unanswered_is_reported(void **state)
{
    struct history *h = *state;
    gate_asks(h);
    gate_goes_on(h);
    assert_last(h, VERIFY_STEP_ANSWER);
}

static void a_wait_step_that_times_out_early_is_reported(void **state)
{
    struct history *h = *state;
    planned(h, gate);
    runs(h, "submit", 1);
    ADD(h, STEP_LEASED, "submit", .step = STR("gate"), .attempt = 1, .lease_ttl_ms = 30000,
        .heartbeat_ms = 15000, .expires_at = h->now + 30000);
    *lease_timeout(h, "gate") = 1;
    step_does(h, EVENT_STEP_PENDING, "expire", "gate", 0);
    assert_only(h, 5, VERIFY_LEASE_EXPIRY);
}

/* The lease is reported, and gives no right to anything. */
static void a_step_leased_after_the_end_holds_nothing(void **state)
{
    struct history *h = *state;
    started(h, two);
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_HARD);
    claim_as(h, EVENT_STEP_LEASED, "b", 1, "r1");
    history_add(h, EVENT_NODE_FINISHED, "append:b#1", (struct event_data){0});
    assert_reported(h, 7, VERIFY_TERMINAL);
    assert_true(is_reported(h, 7, VERIFY_STEP_CLAIM));
    assert_true(is_reported(h, 8, VERIFY_LEASE_HOLDER));
}

static void every_rule_for_steps_was_broken_above(void **state)
{
    (void)state;
    assert_rules_seen(VERIFY_STEP_KNOWN, VERIFY_STEP_VERDICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_start_that_names_its_attempt_is_clean),
        HISTORY_TEST(a_wait_step_whose_time_is_over_is_clean),
        HISTORY_TEST(a_stored_plan_means_what_it_says_and_no_more),
        HISTORY_TEST(every_verdict_leads_only_where_it_says),
        HISTORY_TEST(a_verdict_on_a_wait_step_is_reported),
        HISTORY_TEST(a_step_outside_the_plan_is_reported),
        HISTORY_TEST(an_illegal_step_move_is_reported),
        HISTORY_TEST(a_step_left_in_a_passing_state_is_reported),
        HISTORY_TEST(every_passing_state_must_be_left),
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
        HISTORY_TEST(a_wait_without_need_is_reported),
        HISTORY_TEST(nothing_happens_to_a_passing_step),
        HISTORY_TEST(an_effect_of_a_step_that_has_not_started_is_reported),
        HISTORY_TEST(a_step_claim_without_its_number_is_reported),
        HISTORY_TEST(a_second_success_of_a_step_frees_no_one),
        HISTORY_TEST(another_resource_than_it_ran_on_cannot_be_lost),
        HISTORY_TEST(a_failure_of_a_step_that_counts_twice_is_reported),
        HISTORY_TEST(a_step_judged_before_it_finished_is_reported),
        HISTORY_TEST(an_effect_under_a_critics_lease_is_reported),
        HISTORY_TEST(failures_of_critics_that_do_not_add_up_are_reported),
        HISTORY_TEST(a_command_on_one_step_that_moves_another_is_reported),
        HISTORY_TEST(a_result_that_cannot_be_held_is_reported),
        HISTORY_TEST(an_answer_that_does_not_fit_its_question_is_reported),
        HISTORY_TEST(a_question_without_end_cannot_time_out),
        HISTORY_TEST(a_step_whose_error_is_handled_otherwise_is_reported),
        HISTORY_TEST(a_write_after_the_end_of_the_attempt_is_reported),
        HISTORY_TEST(a_question_without_a_type_is_reported),
        HISTORY_TEST(an_answer_that_leaves_an_effect_in_doubt_is_reported),
        HISTORY_TEST(a_step_that_no_one_runs_is_reported),
        HISTORY_TEST(an_answer_to_a_step_that_asked_nothing_is_reported),
        HISTORY_TEST(a_wait_step_that_goes_on_unanswered_is_reported),
        HISTORY_TEST(a_wait_step_that_times_out_early_is_reported),
        HISTORY_TEST(a_step_leased_after_the_end_holds_nothing),
        cmocka_unit_test(every_rule_for_steps_was_broken_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
