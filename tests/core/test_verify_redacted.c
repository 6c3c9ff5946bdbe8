/* The checker on histories of which parts were redacted: see test_verify.c. */
#include "core/history_steps.h"

#define KEY STR("approval")

/* Erases the payloads of the events from number `from` + 1 to number `end`. */
static void redact(struct history *h, size_t from, size_t end)
{
    h->salt_erased = true;
    for (size_t i = from; i < end; i++) {
        struct err err;
        h->events[i].payload = (struct str){NULL, 0};
        h->events[i].redacted = true;
        assert_int_equal(event_open(&h->events[i], 0, &h->arena, &err), ERR_OK);
    }
}

/* The history is clean, and stays so when payloads are erased: one more and one more, from its end,
 * then from its beginning, which is what a job has that lives on. */
static void however_much_is_redacted(struct history *h)
{
    history_seal(h);
    history_fold(h);
    assert_clean(h);
    struct event *whole = arena_alloc(&h->arena, h->count * sizeof *whole);
    assert_non_null(whole);
    memcpy(whole, h->events, h->count * sizeof *whole);
    for (size_t i = h->count; i-- > 0;) {
        redact(h, i, i + 1);
        assert_clean(h);
    }
    memcpy(h->events, whole, h->count * sizeof *whole);
    for (size_t i = 0; i < h->count; i++) {
        redact(h, i, i + 1);
        assert_clean(h);
    }
}

static void a_redacted_history_is_clean(void **state)
{
    struct history *h = *state;
    retries(h);
    ADD(h, JOB_WAITING, "wait#4", .wait_type = WAIT_HUMAN, .correlation_key = KEY, .parked = true);
    history_seal(h);
    history_fold(h);
    redact(h, 0, h->count);
    assert_clean(h);

    h->row.job.attempt++;
    assert_only(h, 0, VERIFY_ROW);
    h->row.job.attempt--;
    h->row.job.version--;
    assert_only(h, 0, VERIFY_ROW);
    h->row.job.version++;
    h->row.job.head[0] ^= 1;
    assert_only(h, 0, VERIFY_ROW);
    h->row.job.head[0] ^= 1;
    h->row.job.status = JOB_RUNNING;
    assert_only(h, 0, VERIFY_ROW);
    assert_non_null(strstr(h->report.violations[0].detail.at, "status is running in the row"));
}

static void a_redacted_delay_may_have_been_cut_short(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1, .not_before = h->now + 5000);
    ADD(h, JOB_REQUEUED, "requeue", .failures = 1);
    claimed(h, 2);
    assert_clean(h);
    redact(h, 3, h->count);
    assert_clean(h);
}

static void redaction_hides_payloads_and_nothing_else(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    NOTE(h, JOB_RUNNING, "start#1");
    history_seal(h);
    redact(h, 0, h->count);
    assert_reported(h, 5, VERIFY_TERMINAL);
    assert_true(is_reported(h, 5, VERIFY_LEASE_HOLDER));

    h->events[2].digest[0] ^= 1;
    assert_reported(h, 3, VERIFY_HASH);
}

/* Every kind of event that redaction can take the payload of: see `however_much_is_redacted`. */
static void a_redacted_life_of_effects_and_waits_is_clean(void **state)
{
    struct history *h = *state;
    h->spec.in_doubt = DOUBT_RETRY;
    created(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .signal_id = STR("s1"));
    claimed(h, 1);
    ADD(h, TOOL_CALLED, "effect_begin#1", .key = STR("charge"), .attempt = 1);
    ADD(h, TOOL_RETURNED, "effect_commit#1", .key = STR("charge"));
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .signal_id = STR("s1"), .signal_version = 2);
    claimed(h, 2);
    ADD(h, JOB_WAITING, "wait#2", .wait_type = WAIT_HUMAN, .correlation_key = KEY,
        .until = h->now + 1000);
    tick(h, 1000);
    ADD(h, WAIT_COMPLETED, "wake", .correlation_key = KEY, .outcome = OUTCOME_TIMEOUT);
    claimed(h, 3);
    NOTE(h, JOB_COMPLETED, "complete#3");
    however_much_is_redacted(h);
}

static void a_redacted_dead_letter_may_come_back(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2);
    claimed(h, 2);
    ADD(h, JOB_FAILED, "fail#2", .error = PERMANENT, .failures = 1);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 3, .fresh = true);
    claimed(h, 3);
    tick(h, 30000);
    ADD(h, JOB_DEAD_LETTERED, "expire", .reason = STR("lease_expired"), .failures = 1,
        .reason_code = DEAD_EXHAUSTED_RETRIES, .attempts = 3);
    however_much_is_redacted(h);
}

static void a_redacted_cancellation_is_clean(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    tick(h, 30000);
    ADD(h, JOB_CANCELLED, "cancel_due", .mode = CANCEL_HARD);
    however_much_is_redacted(h);
}

/* Also between a failure and what must follow it. */
static void a_redacted_plan_is_clean(void **state)
{
    struct history *h = *state;
    replans(h);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 2, .steps = steps_of(h, judged));
    ADD(h, WAIT_COMPLETED, "plan", .outcome = OUTCOME_PLAN);
    runs(h, "step_claim:a", 2);
    step_claimed(h, "a", 2, "r1");
    ADD(h, TOOL_CALLED, "effect_begin:a#2", .step = STR("a"), .key = STR("k"), .attempt = 2);
    ADD(h, TOOL_RETURNED, "effect_commit:a#2", .step = STR("a"), .key = STR("k"));
    step_does(h, EVENT_STEP_FINISHED, "complete", "a", 2);
    claim_as(h, EVENT_STEP_JUDGING, "a", 3, NULL);
    step_asks(h, "a", 3);
    ADD(h, JOB_WAITING, "verdict:a#3", .wait_type = WAIT_STEPS);
    ADD(h, SIGNAL_RECEIVED, "answer:a", .step = STR("a"), .outcome = OUTCOME_SIGNAL);
    ADD(h, WAIT_COMPLETED, "answer:a", .outcome = OUTCOME_SIGNAL);
    however_much_is_redacted(h);
}

static void without_its_salt_digests_are_taken_as_they_are(void **state)
{
    struct history *h = *state;
    created(h);
    remark(h, "append");
    history_seal(h);
    history_fold(h);
    h->salt_erased = true;
    assert_clean(h);
    h->events[1].payload = STR("{\"a\":1}");
    assert_clean(h);
    h->events[1].digest[0] ^= 1;
    assert_last(h, VERIFY_HASH);
}

static void a_job_cancelled_by_no_request_is_reported_though_redacted(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_CANCELLED, "cancel_due", .mode = CANCEL_HARD);
    history_seal(h);
    redact(h, 0, h->count);
    assert_last(h, VERIFY_CANCEL);
}

/* Once, at the first; and the report says that it does not tell all. */
static void a_payload_erased_without_the_salt_is_reported(void **state)
{
    struct history *h = *state;
    retries(h);
    assert_clean(h);
    assert_false(h->report.partial);
    redact(h, 3, 6);
    assert_clean(h);
    assert_true(h->report.partial);
    h->salt_erased = false;
    assert_only(h, 4, VERIFY_REDACTION);
    assert_true(h->report.partial);
}

/* It is no part of the payload. */
static void another_correlation_is_reported_though_redacted(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    h->events[1].correlation_id = STR("order-8");
    history_seal(h);
    redact(h, 0, h->count);
    assert_only(h, 2, VERIFY_CORRELATION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_redacted_history_is_clean),
        HISTORY_TEST(a_redacted_delay_may_have_been_cut_short),
        HISTORY_TEST(redaction_hides_payloads_and_nothing_else),
        HISTORY_TEST(a_redacted_life_of_effects_and_waits_is_clean),
        HISTORY_TEST(a_redacted_dead_letter_may_come_back),
        HISTORY_TEST(a_redacted_cancellation_is_clean),
        HISTORY_TEST(a_redacted_plan_is_clean),
        HISTORY_TEST(without_its_salt_digests_are_taken_as_they_are),
        HISTORY_TEST(a_job_cancelled_by_no_request_is_reported_though_redacted),
        HISTORY_TEST(a_payload_erased_without_the_salt_is_reported),
        HISTORY_TEST(another_correlation_is_reported_though_redacted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
