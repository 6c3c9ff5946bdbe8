/* The checker on waits, signals and effects: see test_verify.c. */
#include "core/history.h"

#define KEY STR("approval")

/* ---- lives that are right ---- */

static void waiting(struct history *h)
{
    created(h);
    claimed(h, 1);
    ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_WEBHOOK, .correlation_key = KEY,
        .until = h->now + 60000);
    tick(h, 100);
}

static void a_wait_that_a_signal_ends_is_clean(void **state)
{
    struct history *h = *state;
    waiting(h);
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("{\"ok\":true}"), .signal_id = STR("s1"));
    claimed(h, 2);
    NOTE(h, JOB_COMPLETED, "complete#2");
    assert_clean(h);
}

static void a_wait_that_times_out_is_clean(void **state)
{
    struct history *h = *state;
    waiting(h);
    tick(h, 60000);
    ADD(h, WAIT_COMPLETED, "wake", .correlation_key = KEY, .outcome = OUTCOME_TIMEOUT);
    claimed(h, 2);
    assert_clean(h);
}

static void early_signal(struct history *h)
{
    created(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .payload = STR("1"),
        .signal_id = STR("s1"));
    claimed(h, 1);
}

static void a_signal_before_its_wait_is_clean(void **state)
{
    struct history *h = *state;
    early_signal(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("1"), .signal_id = STR("s1"), .signal_version = 2);
    claimed(h, 2);
    ADD(h, JOB_WAITING, "wait#2", .wait_type = WAIT_SIGNAL, .correlation_key = KEY);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = STR("another"), .payload = STR("2"));
    assert_clean(h);
}

static void timers_are_clean(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, WAIT_COMPLETED, "wait#1", .outcome = OUTCOME_TIMEOUT); /* due already */
    claimed(h, 2);
    ADD(h, JOB_WAITING, "wait#2", .wait_type = WAIT_TIMER, .until = h->now + 7200000,
        .parked = true);
    tick(h, 7200000);
    ADD(h, WAIT_COMPLETED, "wake", .outcome = OUTCOME_TIMEOUT);
    claimed(h, 3);
    assert_clean(h);
}

static void called(struct history *h, const char *cause, const char *key, int64_t attempt)
{
    ADD(h, TOOL_CALLED, cause, .key = str_from(key), .attempt = attempt, .input_hash = {1, 2, 3});
}

static void returned(struct history *h, const char *cause, const char *key)
{
    ADD(h, TOOL_RETURNED, cause, .key = str_from(key), .result = STR("true"));
}

static void effects_are_clean(void **state)
{
    struct history *h = *state;
    h->spec.in_doubt = DOUBT_RETRY;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    returned(h, "effect_commit#1", "charge");
    called(h, "effect_commit#1", "mail", 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    called(h, "effect_begin#2", "mail", 2);
    returned(h, "effect_commit#2", "mail");
    NOTE(h, JOB_COMPLETED, "complete#2");
    assert_clean(h);
}

/* Attempt 1 called "charge" and failed; attempt 2 is told that it is in doubt, and a person is
 * asked. */
static void doubt(struct history *h, enum resolution resolution)
{
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    ADD(h, JOB_WAITING, "effect_begin#2", .wait_type = WAIT_HUMAN, .correlation_key = KEY,
        .effect = STR("charge"));
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .resolution = resolution);
    claimed(h, 3);
}

static void an_effect_in_doubt_that_a_person_resolves_is_clean(void **state)
{
    struct history *h = *state;
    doubt(h, RESOLVE_RETRY);
    called(h, "effect_begin#3", "charge", 3);
    returned(h, "effect_commit#3", "charge");
    NOTE(h, JOB_COMPLETED, "complete#3");
    assert_clean(h);

    h->count = 0;
    h->sealed = false;
    doubt(h, RESOLVE_DONE);
    NOTE(h, JOB_COMPLETED, "complete#3");
    assert_clean(h);
}

static void a_fresh_start_forgets_effects(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    ADD(h, JOB_FAILED, "fail#1", .failures = 1);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2, .fresh = true);
    claimed(h, 2);
    size_t forgotten = h->count;
    NOTE(h, JOB_COMPLETED, "complete#2");
    assert_clean(h);

    h->count = forgotten;
    h->sealed = false;
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input_hash = {9});
    returned(h, "effect_commit#2", "charge");
    NOTE(h, JOB_COMPLETED, "complete#2");
    assert_clean(h);
}

/* ---- damage: waits and signals ---- */

static void a_blocked_job_that_moves_is_reported(void **state)
{
    struct history *h = *state;
    waiting(h);
    leased(h, 2);
    assert_reported(h, 5, VERIFY_BLOCKED);
    assert_int_equal(h->report.status, JOB_LEASED);
}

static void a_wait_for_nothing_is_reported(void **state)
{
    struct history *h = *state;
    waiting(h);
    h->events[3].data.wait_type = WAIT_NONE;
    assert_last(h, VERIFY_WAIT);

    const struct event_data bad[] = {
        {.wait_type = WAIT_SIGNAL},
        {.wait_type = WAIT_TIMER},
        {.wait_type = WAIT_STEPS},
        {.wait_type = WAIT_HUMAN, .correlation_key = KEY, .until = START_MS - 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        h->sealed = false;
        h->events[3].data = bad[i];
        assert_last(h, VERIFY_WAIT);
    }
}

static void a_wait_that_ends_wrongly_is_reported(void **state)
{
    struct history *h = *state;
    static const struct {
        const char *cause;
        struct event_data data;
    } bad[] = {
        {"wake", {.correlation_key = {"approval", 8}, .outcome = OUTCOME_TIMEOUT}}, /* too early */
        {"wake", {.correlation_key = {"approval", 8}, .outcome = OUTCOME_SIGNAL}},
        {"signal", {.correlation_key = {"other", 5}, .outcome = OUTCOME_SIGNAL}},
        {"signal", {.correlation_key = {"approval", 8}}},
        {"signal", {.correlation_key = {"approval", 8}, .outcome = OUTCOME_PLAN}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        h->count = 0;
        h->sealed = false;
        waiting(h);
        history_add(h, EVENT_WAIT_COMPLETED, bad[i].cause, bad[i].data);
        assert_last(h, VERIFY_WAIT_END);
    }
}

static void a_wait_that_was_not_open_cannot_end(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL);
    assert_last(h, VERIFY_WAIT_END);

    h->count = 1;
    h->sealed = false;
    claimed(h, 1);
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL);
    assert_last(h, VERIFY_WAIT_END);
}

static void a_signal_that_wakes_twice_is_reported(void **state)
{
    struct history *h = *state;
    early_signal(h);
    for (int64_t attempt = 1; attempt <= 2; attempt++) {
        ADD(h, WAIT_COMPLETED, attempt == 1 ? "wait#1" : "wait#2", .correlation_key = KEY,
            .outcome = OUTCOME_SIGNAL, .signal_version = 2);
        claimed(h, attempt + 1);
    }
    assert_only(h, 8, VERIFY_SIGNAL);
}

static void a_signal_of_another_key_cannot_be_taken(void **state)
{
    struct history *h = *state;
    early_signal(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = STR("other"), .outcome = OUTCOME_SIGNAL,
        .signal_version = 2);
    assert_last(h, VERIFY_SIGNAL);

    h->sealed = false;
    h->events[4].data.correlation_key = KEY;
    h->events[4].data.signal_version = 3; /* a lease */
    assert_last(h, VERIFY_SIGNAL);
}

static void a_signal_received_twice_is_reported(void **state)
{
    struct history *h = *state;
    early_signal(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .signal_id = STR("s1"));
    assert_last(h, VERIFY_SIGNAL);
}

static void a_signal_that_is_not_delivered_is_reported(void **state)
{
    struct history *h = *state;
    early_signal(h);
    ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_SIGNAL, .correlation_key = KEY);
    assert_last(h, VERIFY_SIGNAL);

    h->count = 0;
    h->sealed = false;
    waiting(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY);
    assert_last(h, VERIFY_SIGNAL);
}

/* ---- damage: effects ---- */

static void an_effect_called_twice_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    called(h, "effect_begin#1", "charge", 1);
    assert_last(h, VERIFY_EFFECT);

    h->count = 4;
    h->sealed = false;
    returned(h, "effect_commit#1", "charge");
    called(h, "effect_begin#1", "charge", 1);
    assert_last(h, VERIFY_EFFECT);
}

static void an_effect_in_doubt_that_is_run_again_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    called(h, "effect_begin#2", "charge", 2);
    assert_last(h, VERIFY_EFFECT);

    h->count = 0;
    h->sealed = false;
    doubt(h, RESOLVE_FAIL);
    called(h, "effect_begin#3", "charge", 3);
    assert_last(h, VERIFY_EFFECT);
}

static void an_effect_that_returns_to_no_call_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    returned(h, "effect_commit#1", "charge");
    assert_last(h, VERIFY_EFFECT_RETURN);

    h->count = 3;
    h->sealed = false;
    called(h, "effect_begin#1", "charge", 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    returned(h, "effect_commit#2", "charge");
    assert_last(h, VERIFY_EFFECT_RETURN);
}

static void another_input_under_a_known_key_is_reported(void **state)
{
    struct history *h = *state;
    h->spec.in_doubt = DOUBT_RETRY;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input_hash = {4});
    assert_last(h, VERIFY_EFFECT_INPUT);
}

static void an_effect_before_the_start_or_without_a_key_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    assert_last(h, VERIFY_EFFECT);

    h->count = 1;
    h->sealed = false;
    claimed(h, 1);
    ADD(h, TOOL_CALLED, "effect_begin#1", .attempt = 1);
    assert_last(h, VERIFY_EFFECT);
}

static void an_end_with_an_open_effect_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    assert_last(h, VERIFY_EFFECT_OPEN);

    h->count = 4;
    h->sealed = false;
    ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_SIGNAL, .correlation_key = KEY);
    assert_last(h, VERIFY_EFFECT_OPEN);
}

/* ---- size ---- */

static void ten_thousand_effects_take_no_time(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    for (unsigned i = 0; i < 10000; i++) {
        char *key = arena_alloc(&h->arena, 24);
        (void)snprintf(key, 24, "effect-%u", i);
        called(h, "effect_begin#1", key, 1);
        returned(h, "effect_commit#1", key);
    }
    NOTE(h, JOB_COMPLETED, "complete#1");
    assert_clean(h);
}

static void every_rule_for_waits_and_effects_was_broken_above(void **state)
{
    (void)state;
    assert_rules_seen(VERIFY_BLOCKED, VERIFY_BLOCKED);
    assert_rules_seen(VERIFY_WAIT, VERIFY_EFFECT_OPEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_wait_that_a_signal_ends_is_clean),
        HISTORY_TEST(a_wait_that_times_out_is_clean),
        HISTORY_TEST(a_signal_before_its_wait_is_clean),
        HISTORY_TEST(timers_are_clean),
        HISTORY_TEST(effects_are_clean),
        HISTORY_TEST(an_effect_in_doubt_that_a_person_resolves_is_clean),
        HISTORY_TEST(a_fresh_start_forgets_effects),
        HISTORY_TEST(a_blocked_job_that_moves_is_reported),
        HISTORY_TEST(a_wait_for_nothing_is_reported),
        HISTORY_TEST(a_wait_that_ends_wrongly_is_reported),
        HISTORY_TEST(a_wait_that_was_not_open_cannot_end),
        HISTORY_TEST(a_signal_that_wakes_twice_is_reported),
        HISTORY_TEST(a_signal_of_another_key_cannot_be_taken),
        HISTORY_TEST(a_signal_received_twice_is_reported),
        HISTORY_TEST(a_signal_that_is_not_delivered_is_reported),
        HISTORY_TEST(an_effect_called_twice_is_reported),
        HISTORY_TEST(an_effect_in_doubt_that_is_run_again_is_reported),
        HISTORY_TEST(an_effect_that_returns_to_no_call_is_reported),
        HISTORY_TEST(another_input_under_a_known_key_is_reported),
        HISTORY_TEST(an_effect_before_the_start_or_without_a_key_is_reported),
        HISTORY_TEST(an_end_with_an_open_effect_is_reported),
        HISTORY_TEST(ten_thousand_effects_take_no_time),
        cmocka_unit_test(every_rule_for_waits_and_effects_was_broken_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
