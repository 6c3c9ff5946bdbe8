/* The checker on waits, signals and effects: see test_verify.c. */
#include "core/history_steps.h"

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
    ADD(h, TOOL_CALLED, cause, .key = str_from(key), .attempt = attempt, .input = STR("1"));
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

    back_to(h, 0);
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
    ADD(h, JOB_FAILED, "fail#1", .error = PERMANENT, .failures = 1);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2, .fresh = true);
    claimed(h, 2);
    size_t forgotten = h->count;
    NOTE(h, JOB_COMPLETED, "complete#2");
    assert_clean(h);

    back_to(h, forgotten);
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input = STR("9"));
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
        back_to(h, 0);
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

    back_to(h, 1);
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
            .outcome = OUTCOME_SIGNAL, .payload = STR("1"), .signal_version = 2);
        claimed(h, attempt + 1);
    }
    assert_only(h, 8, VERIFY_SIGNAL);
}

static void a_signal_of_another_key_cannot_be_taken(void **state)
{
    struct history *h = *state;
    early_signal(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = STR("other"), .outcome = OUTCOME_SIGNAL,
        .payload = STR("1"), .signal_version = 2);
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

    back_to(h, 0);
    waiting(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY);
    assert_last(h, VERIFY_SIGNAL);
}

#define YES_OR_NO STR("[\"yes\",\"no\"]")

/* Events 2 to 4: one that is not a choice, then two that are. */
static void stored_choices(struct history *h)
{
    created(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .payload = STR("\"fast\""));
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .payload = STR("\"no\""));
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .payload = STR("\"yes\""));
    claimed(h, 1);
}

static void a_wait_that_takes_the_oldest_of_its_choices_is_clean(void **state)
{
    struct history *h = *state;
    stored_choices(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("\"no\""), .choices = YES_OR_NO, .signal_version = 3);
    claimed(h, 2);
    ADD(h, WAIT_COMPLETED, "wait#2", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("\"fast\""), .signal_version = 2);
    claimed(h, 3);
    ADD(h, JOB_WAITING, "wait#3", .wait_type = WAIT_SIGNAL, .correlation_key = KEY,
        .choices = STR("[\"stop\"]"));
    assert_clean(h);
}

static void a_wait_that_blocks_beside_one_of_its_choices_is_reported(void **state)
{
    struct history *h = *state;
    stored_choices(h);
    ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_SIGNAL, .correlation_key = KEY,
        .choices = YES_OR_NO);
    assert_last(h, VERIFY_SIGNAL);
}

static void a_stored_signal_that_is_taken_before_its_turn_is_reported(void **state)
{
    struct history *h = *state;
    stored_choices(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("\"yes\""), .choices = YES_OR_NO, .signal_version = 4);
    assert_last(h, VERIFY_SIGNAL);

    back_to(h, 0);
    stored_choices(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("\"no\""), .signal_version = 3);
    assert_last(h, VERIFY_SIGNAL); /* without choices the first is "fast" */
}

static void a_stored_signal_that_is_none_of_the_choices_is_reported(void **state)
{
    struct history *h = *state;
    stored_choices(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("\"fast\""), .choices = YES_OR_NO, .signal_version = 2);
    assert_last(h, VERIFY_WAIT_END);
}

static void a_stored_signal_that_is_taken_with_another_payload_is_reported(void **state)
{
    struct history *h = *state;
    stored_choices(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("\"yes\""), .choices = YES_OR_NO, .signal_version = 3);
    assert_last(h, VERIFY_SIGNAL);
}

static void a_doubt_that_names_no_effect_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_WAITING, "effect_begin#1", .wait_type = WAIT_HUMAN, .correlation_key = KEY);
    assert_last(h, VERIFY_WAIT);
}

static void a_wait_that_skips_without_a_stored_signal_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL);
    assert_last(h, VERIFY_WAIT_END); /* no signal was stored */
}

static void only_a_wake_times_a_wait_out(void **state)
{
    struct history *h = *state;
    waiting(h);
    tick(h, 60000);
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_TIMEOUT);
    assert_last(h, VERIFY_WAIT_END);
}

static void a_wait_without_end_cannot_time_out(void **state)
{
    struct history *h = *state;
    waiting(h);
    tick(h, 60000);
    ADD(h, WAIT_COMPLETED, "wake", .correlation_key = KEY, .outcome = OUTCOME_TIMEOUT);
    assert_clean(h);
    h->sealed = false;
    h->events[3].data.until = 0;
    assert_last(h, VERIFY_WAIT_END);
}

/* Steps end their job's wait when they are answered; a time that it has itself counts as well. */
static void a_wait_for_steps_that_times_out_early_is_reported(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS, .until = h->now + 60000);
    tick(h, 59999);
    ADD(h, WAIT_COMPLETED, "wake", .outcome = OUTCOME_TIMEOUT);
    assert_last(h, VERIFY_WAIT_END);
    h->sealed = false;
    h->events[7].at++;
    assert_clean(h);
}

static void a_plan_ends_no_other_wait(void **state)
{
    struct history *h = *state;
    waiting(h);
    ADD(h, WAIT_COMPLETED, "plan", .correlation_key = KEY, .outcome = OUTCOME_PLAN);
    assert_reported(h, 5, VERIFY_WAIT_END);
    assert_true(is_reported(h, 5, VERIFY_CAUSE));

    restart(h);
    replans(h);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 2, .steps = steps_of(h, single));
    h->events[10].data.wait_type = WAIT_SIGNAL; /* reported: it waits for no plan */
    ADD(h, WAIT_COMPLETED, "plan", .outcome = OUTCOME_PLAN);
    assert_reported(h, 13, VERIFY_WAIT_END);
    assert_true(is_reported(h, 11, VERIFY_WAIT));
}

static void an_answer_that_ends_a_wait_for_no_person_is_reported(void **state)
{
    struct history *h = *state;
    waiting(h);
    ADD(h, WAIT_COMPLETED, "answer", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL);
    assert_reported(h, 5, VERIFY_WAIT_END);
}

/* A job that asks a person, with choices and what it gets when the time is over. */
static void asking(struct history *h)
{
    created(h);
    claimed(h, 1);
    ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_HUMAN, .correlation_key = KEY,
        .choices = STR("[\"yes\",\"no\"]"), .until = h->now + 1000,
        .default_answer = STR("\"no\""));
}

static void an_answer_among_the_choices_holds(void **state)
{
    struct history *h = *state;
    asking(h);
    ADD(h, WAIT_COMPLETED, "answer", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .by = STR("ada"), .comment = STR("as agreed"), .payload = STR("\"\\u006eo\""));
    assert_clean(h);
}

static void an_answer_that_is_not_a_choice_is_reported(void **state)
{
    struct history *h = *state;
    asking(h);
    ADD(h, WAIT_COMPLETED, "answer", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .by = STR("ada"), .payload = STR("{\"approved\":true,\"answer\":\"no\"}"));
    assert_reported(h, 5, VERIFY_WAIT_END);
}

/* As 0.1.0 wrote it: any signal ended such a wait, and the event did not say by whom. */
static void an_old_signal_that_is_not_a_choice_holds(void **state)
{
    struct history *h = *state;
    asking(h);
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("{\"approved\":true,\"answer\":\"no\"}"));
    assert_clean(h);
}

static void a_timeout_without_the_default_answer_is_reported(void **state)
{
    struct history *h = *state;
    asking(h);
    tick(h, 1000);
    ADD(h, WAIT_COMPLETED, "wake", .correlation_key = KEY, .outcome = OUTCOME_TIMEOUT,
        .payload = STR("\"yes\""));
    assert_reported(h, 5, VERIFY_WAIT_END);
}

/* Stored and taken all the same: it is one fault. */
static void a_signal_without_a_key_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .payload = STR("1"));
    claimed(h, 1);
    ADD(h, WAIT_COMPLETED, "wait#1", .outcome = OUTCOME_SIGNAL, .payload = STR("1"),
        .signal_version = 2);
    assert_only(h, 2, VERIFY_SIGNAL);

    restart(h);
    waiting(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .payload = STR("1"));
    assert_last(h, VERIFY_SIGNAL);
}

static void a_signal_taken_under_another_id_is_reported(void **state)
{
    struct history *h = *state;
    early_signal(h);
    ADD(h, WAIT_COMPLETED, "wait#1", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .payload = STR("1"), .signal_id = STR("s2"), .signal_version = 2);
    assert_last(h, VERIFY_SIGNAL);
}

static void a_signal_for_no_step_is_brought_by_signal_only(void **state)
{
    struct history *h = *state;
    planned(h, single);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY);
    assert_clean(h);
    h->sealed = false;
    ADD(h, SIGNAL_RECEIVED, "wake", .correlation_key = KEY);
    assert_last(h, VERIFY_CAUSE);

    restart(h);
    created(h);
    ADD(h, SIGNAL_RECEIVED, "wake", .correlation_key = KEY);
    assert_last(h, VERIFY_CAUSE);
}

/* However the step was answered, the id that came with it was received. */
static void an_id_that_answered_a_step_does_not_come_again(void **state)
{
    struct history *h = *state;
    started(h, single);
    step_asks(h, "a", 1);
    ADD(h, JOB_WAITING, "verdict:a#1", .wait_type = WAIT_STEPS);
    tick(h, 60000);
    ADD(h, SIGNAL_RECEIVED, "wake:a", .step = STR("a"), .outcome = OUTCOME_TIMEOUT,
        .signal_id = STR("s1"));
    ADD(h, WAIT_COMPLETED, "wake:a", .outcome = OUTCOME_TIMEOUT);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .signal_id = STR("s2"));
    assert_clean(h);
    h->sealed = false;
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .signal_id = STR("s1"));
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

    back_to(h, 4);
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

    back_to(h, 0);
    doubt(h, RESOLVE_FAIL);
    called(h, "effect_begin#3", "charge", 3);
    assert_last(h, VERIFY_EFFECT);
}

static void aborted(struct history *h, const char *cause, const char *key)
{
    ADD(h, TOOL_ABORTED, cause, .key = str_from(key), .error = STR("{\"message\":\"429\"}"));
}

static void an_effect_that_is_called_again_after_an_abort_is_clean(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    aborted(h, "effect_abort#1", "charge");
    called(h, "effect_begin#1", "charge", 1);
    aborted(h, "effect_abort#1", "charge");
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    called(h, "effect_begin#2", "charge", 2);
    returned(h, "effect_commit#2", "charge");
    NOTE(h, JOB_COMPLETED, "effect_commit#2");
    assert_clean(h);
}

static void an_abort_of_what_is_not_open_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    aborted(h, "effect_abort#1", "charge");
    assert_last(h, VERIFY_EFFECT_RETURN);

    back_to(h, 3);
    called(h, "effect_begin#1", "charge", 1);
    aborted(h, "effect_abort#1", "charge");
    size_t ended = h->count;
    aborted(h, "effect_abort#1", "charge");
    assert_last(h, VERIFY_EFFECT_RETURN);

    back_to(h, ended);
    returned(h, "effect_commit#1", "charge");
    assert_last(h, VERIFY_EFFECT_RETURN);

    back_to(h, 4);
    NOTE(h, TOOL_ABORTED, "effect_abort#1");
    h->events[h->count - 1].data.key = STR("charge");
    assert_last(h, VERIFY_EFFECT_RETURN); /* without a reason */
}

static void what_an_effect_says_of_doubt_counts_before_the_job(void **state)
{
    struct history *h = *state;
    h->spec.in_doubt = DOUBT_RETRY;
    created(h);
    claimed(h, 1);
    ADD(h, TOOL_CALLED, "effect_begin#1", .key = STR("charge"), .attempt = 1, .input = STR("1"),
        .in_doubt = DOUBT_ASK);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    size_t again = h->count;
    called(h, "effect_begin#2", "charge", 2);
    assert_last(h, VERIFY_EFFECT);

    back_to(h, again);
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input = STR("1"),
        .in_doubt = DOUBT_RETRY);
    assert_clean(h);
}

static void fingerprints_are_held_against_each_other(void **state)
{
    struct history *h = *state;
    h->spec.in_doubt = DOUBT_RETRY;
    created(h);
    claimed(h, 1);
    ADD(h, TOOL_CALLED, "effect_begin#1", .key = STR("charge"), .attempt = 1, .input = STR("1"),
        .fingerprint = STR("aa"));
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1);
    claimed(h, 2);
    size_t again = h->count;
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input = STR("2"),
        .fingerprint = STR("aa"));
    assert_clean(h);

    back_to(h, again);
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input = STR("1"),
        .fingerprint = STR("bb"));
    assert_last(h, VERIFY_EFFECT_INPUT);
}

static void a_commit_that_ends_or_waits_beside_an_open_effect_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    called(h, "effect_begin#1", "mail", 1);
    returned(h, "effect_commit#1", "charge");
    size_t open = h->count;
    NOTE(h, JOB_COMPLETED, "effect_commit#1");
    assert_last(h, VERIFY_EFFECT_OPEN);

    back_to(h, open);
    ADD(h, JOB_WAITING, "effect_commit#1", .wait_type = WAIT_SIGNAL, .correlation_key = KEY);
    assert_last(h, VERIFY_EFFECT_OPEN);
}

static void an_effect_that_returns_to_no_call_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    returned(h, "effect_commit#1", "charge");
    assert_last(h, VERIFY_EFFECT_RETURN);

    back_to(h, 3);
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
    ADD(h, TOOL_CALLED, "effect_begin#2", .key = STR("charge"), .attempt = 2, .input = STR("4"));
    assert_last(h, VERIFY_EFFECT_INPUT);
}

static void an_input_that_is_not_of_its_hash_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    assert_clean(h);
    h->sealed = false;
    h->events[3].data.input = STR("666"); /* the hash stays */
    assert_last(h, VERIFY_EFFECT_INPUT);
    h->sealed = false;
    h->events[3].data.input = (struct str){NULL, 0};
    assert_last(h, VERIFY_EFFECT_INPUT);
}

static void a_doubt_that_ends_without_a_word_is_reported(void **state)
{
    struct history *h = *state;
    doubt(h, RESOLVE_NONE);
    assert_only(h, 9, VERIFY_WAIT_END);
}

static void a_long_wait_that_is_not_parked_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    struct event_data *data = &ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_SIGNAL,
                                   .correlation_key = KEY, .until = h->now + 3600000)
                                   ->data;
    assert_clean(h);
    h->sealed = false;
    data->until++;
    assert_last(h, VERIFY_WAIT);
    h->sealed = false;
    data->parked = true;
    assert_clean(h);
}

static void an_effect_before_the_start_or_without_a_key_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    called(h, "effect_begin#1", "charge", 1);
    assert_last(h, VERIFY_EFFECT);

    back_to(h, 1);
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

    back_to(h, 4);
    ADD(h, JOB_WAITING, "wait#1", .wait_type = WAIT_SIGNAL, .correlation_key = KEY);
    assert_last(h, VERIFY_EFFECT_OPEN);
}

/* The one that is open is named, whatever else was called: by another, before, or in vain. */
static void the_open_effect_is_found_among_others(void **state)
{
    struct history *h = *state;
    h->spec.in_doubt = DOUBT_RETRY;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "forgotten", 1);
    ADD(h, JOB_FAILED, "fail#1", .error = PERMANENT, .failures = 1);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2, .fresh = true);
    ADD(h, PLAN_GENERATED, "plan", .plan_version = 1, .steps = steps_of(h, two));
    runs(h, "step_claim:a", 2);
    step_claimed(h, "a", 1, "r1");
    step_claimed(h, "b", 1, "r1");
    ADD(h, TOOL_CALLED, "effect_begin:b#1", .step = STR("b"), .key = STR("other"), .attempt = 1);
    ADD(h, TOOL_CALLED, "effect_begin:a#1", .step = STR("a"), .key = STR("done"), .attempt = 1);
    ADD(h, TOOL_RETURNED, "effect_commit:a#1", .step = STR("a"), .key = STR("done"));
    ADD(h, TOOL_CALLED, "effect_commit:a#1", .step = STR("a"), .key = STR("open"), .attempt = 1);
    step_succeeds(h, "a", 1);
    assert_last(h, VERIFY_EFFECT_OPEN);
    assert_non_null(strstr(h->report.violations[0].detail.at, "effect \"open\" of event 16"));
}

/* Attempt 1 called "old" and failed for good; after a fresh start "new" is called. */
static void what_a_fresh_start_forgot_is_not_open(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    called(h, "effect_begin#1", "old", 1);
    ADD(h, JOB_FAILED, "fail#1", .error = PERMANENT, .failures = 1);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2, .fresh = true);
    claimed(h, 2);
    called(h, "effect_begin#2", "new", 2);
    NOTE(h, JOB_COMPLETED, "complete#2");
    assert_last(h, VERIFY_EFFECT_OPEN);
    assert_non_null(strstr(h->report.violations[0].detail.at, "effect \"new\""));
}

static void a_question_about_an_effect_that_is_not_open_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_WAITING, "effect_begin#1", .wait_type = WAIT_HUMAN, .correlation_key = KEY,
        .effect = STR("charge"));
    assert_last(h, VERIFY_EFFECT); /* never called */

    back_to(h, 3);
    called(h, "effect_begin#1", "charge", 1);
    returned(h, "effect_commit#1", "charge");
    ADD(h, JOB_WAITING, "effect_begin#1", .wait_type = WAIT_HUMAN, .correlation_key = KEY,
        .effect = STR("charge"));
    assert_last(h, VERIFY_EFFECT); /* returned */

    h->sealed = false;
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .resolution = RESOLVE_RETRY);
    assert_reported(h, 7, VERIFY_EFFECT);
}

static void a_word_on_no_effect_is_reported(void **state)
{
    struct history *h = *state;
    waiting(h);
    ADD(h, WAIT_COMPLETED, "signal", .correlation_key = KEY, .outcome = OUTCOME_SIGNAL,
        .resolution = RESOLVE_DONE);
    assert_last(h, VERIFY_EFFECT);
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
        HISTORY_TEST(a_wait_that_takes_the_oldest_of_its_choices_is_clean),
        HISTORY_TEST(a_wait_that_blocks_beside_one_of_its_choices_is_reported),
        HISTORY_TEST(a_stored_signal_that_is_taken_before_its_turn_is_reported),
        HISTORY_TEST(a_stored_signal_that_is_none_of_the_choices_is_reported),
        HISTORY_TEST(a_stored_signal_that_is_taken_with_another_payload_is_reported),
        HISTORY_TEST(a_doubt_that_names_no_effect_is_reported),
        HISTORY_TEST(a_wait_that_skips_without_a_stored_signal_is_reported),
        HISTORY_TEST(only_a_wake_times_a_wait_out),
        HISTORY_TEST(a_wait_without_end_cannot_time_out),
        HISTORY_TEST(a_wait_for_steps_that_times_out_early_is_reported),
        HISTORY_TEST(a_plan_ends_no_other_wait),
        HISTORY_TEST(an_answer_that_ends_a_wait_for_no_person_is_reported),
        HISTORY_TEST(an_answer_among_the_choices_holds),
        HISTORY_TEST(an_answer_that_is_not_a_choice_is_reported),
        HISTORY_TEST(an_old_signal_that_is_not_a_choice_holds),
        HISTORY_TEST(a_timeout_without_the_default_answer_is_reported),
        HISTORY_TEST(a_signal_without_a_key_is_reported),
        HISTORY_TEST(a_signal_taken_under_another_id_is_reported),
        HISTORY_TEST(a_signal_for_no_step_is_brought_by_signal_only),
        HISTORY_TEST(an_id_that_answered_a_step_does_not_come_again),
        HISTORY_TEST(an_effect_called_twice_is_reported),
        HISTORY_TEST(an_effect_in_doubt_that_is_run_again_is_reported),
        HISTORY_TEST(an_effect_that_is_called_again_after_an_abort_is_clean),
        HISTORY_TEST(an_abort_of_what_is_not_open_is_reported),
        HISTORY_TEST(what_an_effect_says_of_doubt_counts_before_the_job),
        HISTORY_TEST(fingerprints_are_held_against_each_other),
        HISTORY_TEST(a_commit_that_ends_or_waits_beside_an_open_effect_is_reported),
        HISTORY_TEST(an_effect_that_returns_to_no_call_is_reported),
        HISTORY_TEST(another_input_under_a_known_key_is_reported),
        HISTORY_TEST(an_input_that_is_not_of_its_hash_is_reported),
        HISTORY_TEST(a_doubt_that_ends_without_a_word_is_reported),
        HISTORY_TEST(a_long_wait_that_is_not_parked_is_reported),
        HISTORY_TEST(an_effect_before_the_start_or_without_a_key_is_reported),
        HISTORY_TEST(an_end_with_an_open_effect_is_reported),
        HISTORY_TEST(the_open_effect_is_found_among_others),
        HISTORY_TEST(what_a_fresh_start_forgot_is_not_open),
        HISTORY_TEST(a_question_about_an_effect_that_is_not_open_is_reported),
        HISTORY_TEST(a_word_on_no_effect_is_reported),
        HISTORY_TEST(ten_thousand_effects_take_no_time),
        cmocka_unit_test(every_rule_for_waits_and_effects_was_broken_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
