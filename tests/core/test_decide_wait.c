/* Waits of jobs and the signals, timers and timeouts that end them. */
#include "scenario.h"

static struct command signal_with_id(struct world *w, const char *key, const char *payload,
                                     const char *id)
{
    struct command command = signal_of(w, key, payload);
    command.signal.signal_id = str_from(id);
    return command;
}

static struct command early(struct command command)
{
    command.signal.early = true;
    return command;
}

static struct command timer_of(struct world *w, int64_t delay_ms, int64_t until)
{
    struct command command = by_worker(w, COMMAND_WAIT);
    command.wait.type = WAIT_TIMER;
    command.wait.delay_ms = delay_ms;
    command.wait.until = until;
    return command;
}

/* ---- waits ---- */

static void a_wait_gives_up_the_lease_and_blocks(void **state)
{
    struct world *w = *state;
    running(w);
    struct command wait = wait_for(w, "approval", 5000);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.prompt = STR("Send it?");
    wait.wait.choices = js(w, " ['yes','no'] ");
    wait.wait.assignee = STR("bob");
    do_ok(w, wait);
    const struct job *job = &w->slice.job;
    assert_status(w, "waiting");
    assert_false(job->lease.live);
    assert_int_equal(job->wait.type, WAIT_HUMAN);
    assert_text(job->wait.correlation_key, "approval");
    assert_text(job->wait.prompt, "Send it?");
    assert_str(job->wait.choices, js(w, "['yes','no']"));
    assert_text(job->wait.assignee, "bob");
    assert_int_equal(job->wait.since, w->now);
    assert_int_equal(job->wait.until, w->now + 5000);
    do_again(w, wait);
    story(w, "job_created job_leased job_running job_waiting");
}

static void nothing_reclaims_a_blocked_job(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    w->now += 86400000;
    refused(w, claim_by("w2", true), ERR_INVALID_TRANSITION,
            "cannot claim job {job}: it is waiting");
    refused(w, expire_of(1), ERR_STALE_LEASE, "attempt 1 has no live lease to expire");
    refused(w, requeue_by("go", false), ERR_INVALID_TRANSITION,
            "cannot requeue job {job}: it is waiting");
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION,
            "the wait of this job has no timeout");
    story(w, "job_created job_leased job_running job_waiting");
}

static void a_long_wait_is_parked_and_one_of_an_hour_is_not(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 3600000));
    assert_status(w, "waiting");
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 3600001));
    assert_status(w, "parked");
    do_ok(w, signal_of(w, "k", "2"));
    assert_status(w, "queued");
    do_ok(w, claim_by("w1", true));
    struct command wait = wait_for(w, "k", 0);
    wait.wait.park = true;
    do_ok(w, wait);
    assert_status(w, "parked");
    assert_true(last_event(w)->data.parked);
    refused(w, claim_by("w2", true), ERR_INVALID_TRANSITION,
            "cannot claim job {job}: it is parked");
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    assert_status(w, "cancelled");
    story(w, "job_created job_leased job_running job_waiting wait_completed job_leased "
             "job_running job_waiting wait_completed job_leased job_running job_waiting "
             "job_cancelled");
}

static void a_wait_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    struct command wait = wait_for(w, "k", 0);
    wait.wait.type = WAIT_NONE;
    refused(w, wait, ERR_BAD_REQUEST, "type must be webhook, human, timer or signal");
    wait.wait.type = WAIT_STEPS;
    refused(w, wait, ERR_BAD_REQUEST, "type must be webhook, human, timer or signal");
    wait = wait_for(w, NULL, 0);
    refused(w, wait, ERR_BAD_REQUEST, "correlation_key is required to wait for a signal");
    wait = wait_for(w, "", 0);
    refused(w, wait, ERR_BAD_REQUEST, "correlation_key must not be empty");
    wait = wait_for(w, "k", 0);
    wait.wait.delay_ms = 5;
    refused(w, wait, ERR_BAD_REQUEST, "delay_ms and until are only for timers");
    wait = wait_for(w, "k", 0);
    wait.wait.until = w->now;
    refused(w, wait, ERR_BAD_REQUEST, "delay_ms and until are only for timers");
    refused(w, wait_for(w, "k", -1), ERR_BAD_REQUEST,
            "timeout_ms must be from 0 to 316224000000, not -1");
    refused(w, wait_for(w, "k", DELAY_MS_MAX + 1), ERR_BAD_REQUEST,
            "timeout_ms must be from 0 to 316224000000, not 316224000001");
    wait = wait_for(w, "k", 0);
    wait.wait.assignee = STR("");
    refused(w, wait, ERR_BAD_REQUEST, "assignee must not be empty");
    wait = wait_for(w, "k", 0);
    wait.wait.prompt = STR("\xff");
    refused(w, wait, ERR_BAD_REQUEST, "prompt is not valid UTF-8");
    wait = wait_for(w, "k", 0);
    wait.wait.choices = STR("{}");
    refused(w, wait, ERR_BAD_REQUEST, "choices must be an array");
    story(w, "job_created job_leased job_running");
}

static void a_job_that_has_not_started_cannot_wait(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    refused(w, wait_for(w, "k", 0), ERR_INVALID_TRANSITION,
            "cannot wait in job {job}: it is leased and has not started");
    story(w, "job_created job_leased");
}

static void a_wait_while_a_soft_cancel_is_open_cancels(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, wait_for(w, "k", 0));
    assert_status(w, "cancelled");
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

/* ---- timers and timeouts ---- */

static void a_timer_wakes_its_job_when_it_is_due_and_not_before(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, timer_of(w, 2000, 0));
    assert_int_equal(w->slice.job.wait.until, w->now + 2000);
    w->now += 1999;
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION,
            "the wait of this job times out in 1 ms");
    w->now += 1;
    do_ok(w, by_engine(COMMAND_WAKE));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_TIMEOUT);
    assert_text(w->slice.job.resume.correlation_key, NULL);
    assert_int_equal(w->slice.job.run_at, w->now);
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION,
            "cannot wake job {job}: it is queued");
    story(w, "job_created job_leased job_running job_waiting wait_completed");
}

static void a_timer_until_a_moment_that_is_past_does_not_block(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, timer_of(w, 0, w->now));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_TIMEOUT);
    do_ok(w, claim_by("w1", true));
    do_ok(w, timer_of(w, 0, w->now + 1));
    assert_status(w, "waiting");
    story(w, "job_created job_leased job_running wait_completed job_leased job_running "
             "job_waiting");
}

static void a_timer_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, timer_of(w, 0, 0), ERR_BAD_REQUEST, "a timer requires either delay_ms or until");
    refused(w, timer_of(w, 5, w->now), ERR_BAD_REQUEST,
            "a timer requires either delay_ms or until");
    struct command wait = timer_of(w, 5, 0);
    wait.wait.timeout_ms = 9;
    refused(w, wait, ERR_BAD_REQUEST, "a timer takes no timeout_ms");
    refused(w, timer_of(w, -5, 0), ERR_BAD_REQUEST,
            "a timer may last up to 10 years; delay_ms is -5, until 0");
    refused(w, timer_of(w, DELAY_MS_MAX + 1, 0), ERR_BAD_REQUEST,
            "a timer may last up to 10 years; delay_ms is 316224000001, until 0");
    refused(w, timer_of(w, 0, -7), ERR_BAD_REQUEST,
            "a timer may last up to 10 years; delay_ms is 0, until -7");
    refused(w, timer_of(w, 0, WORLD_START_MS + DELAY_MS_MAX + 1), ERR_BAD_REQUEST,
            "a timer may last up to 10 years; delay_ms is 0, until 2083449600001");
    story(w, "job_created job_leased job_running");
}

static void a_wait_that_times_out_says_so(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 1000));
    w->now += 1000;
    do_ok(w, by_engine(COMMAND_WAKE));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_TIMEOUT);
    assert_text(w->slice.job.resume.correlation_key, "k");
    assert_text(w->slice.job.resume.payload, NULL);
    assert_int_equal(w->slice.job.failures, 0);
    story(w, "job_created job_leased job_running job_waiting wait_completed");
}

static void a_signal_that_comes_before_the_timer_wins(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 1000));
    w->now += 1000;
    do_ok(w, signal_of(w, "k", "1"));
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION,
            "cannot wake job {job}: it is queued");
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_SIGNAL);
    story(w, "job_created job_leased job_running job_waiting wait_completed");
}

/* ---- signals ---- */

static void a_signal_on_its_key_is_delivered_and_carried_to_the_next_claim(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "paid", 0));
    do_ok(w, signal_of(w, "paid", " {'amount': 5} "));
    assert_int_equal(w->last.result.signal, SIGNAL_DELIVERED);
    assert_status(w, "queued");
    do_ok(w, claim_by("w2", true));
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_SIGNAL);
    assert_text(w->slice.job.resume.correlation_key, "paid");
    assert_str(w->slice.job.resume.payload, js(w, "{'amount': 5}"));
    assert_int_equal(w->slice.job.wait.type, WAIT_NONE);
    story(w, "job_created job_leased job_running job_waiting wait_completed job_leased "
             "job_running");
}

static void an_early_signal_is_stored_and_the_wait_on_its_key_does_not_block(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, signal_of(w, "paid", "5"));
    assert_int_equal(w->last.result.signal, SIGNAL_STORED);
    assert_int_equal(w->slice.job.stored_signals, 1);
    assert_status(w, "queued");
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "paid", 0));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.stored_signals, 0);
    assert_int_equal(last_event(w)->data.signal_version, 2);
    assert_text(w->slice.job.resume.payload, "5");
    do_again(w, wait_for(w, "paid", 0));
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "paid", 0)); /* it was taken: the next wait blocks */
    assert_status(w, "waiting");
    story(w, "job_created signal_received job_leased job_running wait_completed job_leased "
             "job_running job_waiting");
}

static void stored_signals_are_taken_oldest_first(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, signal_of(w, "other", "9"));
    do_ok(w, signal_of(w, "k", "2"));
    do_ok(w, wait_for(w, "k", 0));
    assert_text(w->slice.job.resume.payload, "1");
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 0));
    assert_text(w->slice.job.resume.payload, "2");
    assert_int_equal(w->slice.job.stored_signals, 1);
    story(w, "job_created job_leased job_running signal_received signal_received "
             "signal_received wait_completed job_leased job_running wait_completed");
}

static void a_signal_on_another_key_is_refused_unless_it_says_early(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    refused(w, signal_of(w, "other", "1"), ERR_WRONG_CORRELATION_KEY,
            "the job waits for the key \"k\", not \"other\"; use early: true to store the signal");
    do_ok(w, early(signal_of(w, "other", "1")));
    assert_int_equal(w->last.result.signal, SIGNAL_STORED);
    assert_status(w, "waiting");
    do_ok(w, signal_of(w, "k", "2"));
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "other", 0));
    assert_text(w->slice.job.resume.payload, "1");
    story(w, "job_created job_leased job_running job_waiting signal_received wait_completed "
             "job_leased job_running wait_completed");
}

static void a_repeat_is_recognised_by_its_id(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_with_id(w, "k", "1", "s-1"));
    do_again(w, signal_with_id(w, "k", "1", "s-1"));
    assert_int_equal(w->last.result.signal, SIGNAL_REPEATED);
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 0));
    do_again(w, signal_with_id(w, "k", "1", "s-1")); /* wakes no second wait */
    assert_status(w, "waiting");
    do_ok(w, signal_with_id(w, "k", "1", "s-2"));
    assert_status(w, "queued");
    story(w, "job_created job_leased job_running job_waiting wait_completed job_leased "
             "job_running job_waiting wait_completed");
}

static void a_stored_signal_is_repeated_by_its_id_too(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, signal_with_id(w, "k", "1", "s-1"));
    do_again(w, signal_with_id(w, "k", "1", "s-1"));
    do_ok(w, signal_of(w, "k", "1")); /* without an id, and not delivered yet: another one */
    assert_int_equal(w->slice.job.stored_signals, 2);
    story(w, "job_created signal_received signal_received");
}

static void without_an_id_the_payload_just_delivered_is_a_repeat(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_of(w, "k", "1"));
    do_again(w, signal_of(w, "k", "1"));
    assert_int_equal(w->last.result.signal, SIGNAL_REPEATED);
    do_ok(w, signal_of(w, "k", "2")); /* another payload is another signal */
    assert_int_equal(w->last.result.signal, SIGNAL_STORED);
    story(w, "job_created job_leased job_running job_waiting wait_completed signal_received");
}

static void the_same_payload_is_no_repeat_while_a_wait_is_open_on_the_key(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_of(w, "k", "1"));
    assert_int_equal(w->last.result.signal, SIGNAL_DELIVERED);
    assert_status(w, "queued");
    story(w, "job_created job_leased job_running job_waiting wait_completed job_leased "
             "job_running job_waiting wait_completed");
}

static void a_job_that_has_ended_takes_no_signal_but_knows_repeats(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_with_id(w, "k", "1", "s-1"));
    do_ok(w, claim_by("w1", true));
    do_ok(w, complete_with(w, "1"));
    refused(w, signal_of(w, "k", "2"), ERR_INVALID_TRANSITION,
            "cannot signal job {job}: it is completed");
    do_again(w, signal_with_id(w, "k", "1", "s-1"));
    story(w, "job_created job_leased job_running job_waiting wait_completed job_leased "
             "job_running job_completed");
}

static void a_signal_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    submitted(w);
    refused(w, signal_of(w, "", "1"), ERR_BAD_REQUEST, "correlation_key must not be empty");
    refused(w, signal_with_id(w, "k", "1", ""), ERR_BAD_REQUEST, "signal_id must not be empty");
    struct command command = signal_of(w, "k", NULL);
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    command.signal.payload = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "payload has 1048577 bytes; the limit is 1048576");
    refused(w, on_step(signal_of(w, "k", NULL), "a"), ERR_NOT_FOUND, "unknown step \"a\"");
    story(w, "job_created");
}

static void only_so_many_signals_are_stored(void **state)
{
    struct world *w = *state;
    submitted(w);
    for (int i = 0; i < STORED_SIGNALS_MAX; i++)
        do_ok(w, signal_of(w, "k", "1"));
    refused(w, signal_of(w, "k", "1"), ERR_RATE_LIMITED,
            "1000 undelivered signals are already stored for this job");
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_of(w, "k", "2"));
    assert_int_equal(w->slice.job.stored_signals, STORED_SIGNALS_MAX);
    assert_null(world_check(w));
}

static void a_signal_may_carry_nothing(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_of(w, "k", NULL));
    assert_text(w->slice.job.resume.payload, NULL);
    do_again(w, signal_of(w, "k", "null"));
    story(w, "job_created job_leased job_running job_waiting wait_completed");
}

static void beats_before_a_wait_stay(void **state)
{
    struct world *w = *state;
    running(w);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("p3");
    do_ok(w, beat);
    do_ok(w, wait_for(w, "k", 0));
    assert_text(w->slice.job.cursor, "p3");
    do_ok(w, signal_of(w, "k", "1"));
    assert_text(w->slice.job.cursor, "p3");
    story(w, "job_created job_leased job_running job_waiting wait_completed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_wait_gives_up_the_lease_and_blocks),
        SCENARIO(nothing_reclaims_a_blocked_job),
        SCENARIO(a_long_wait_is_parked_and_one_of_an_hour_is_not),
        SCENARIO(a_wait_that_is_not_sound_is_refused),
        SCENARIO(a_job_that_has_not_started_cannot_wait),
        SCENARIO(a_wait_while_a_soft_cancel_is_open_cancels),
        SCENARIO(a_timer_wakes_its_job_when_it_is_due_and_not_before),
        SCENARIO(a_timer_until_a_moment_that_is_past_does_not_block),
        SCENARIO(a_timer_that_is_not_sound_is_refused),
        SCENARIO(a_wait_that_times_out_says_so),
        SCENARIO(a_signal_that_comes_before_the_timer_wins),
        SCENARIO(a_signal_on_its_key_is_delivered_and_carried_to_the_next_claim),
        SCENARIO(an_early_signal_is_stored_and_the_wait_on_its_key_does_not_block),
        SCENARIO(stored_signals_are_taken_oldest_first),
        SCENARIO(a_signal_on_another_key_is_refused_unless_it_says_early),
        SCENARIO(a_repeat_is_recognised_by_its_id),
        SCENARIO(a_stored_signal_is_repeated_by_its_id_too),
        SCENARIO(without_an_id_the_payload_just_delivered_is_a_repeat),
        SCENARIO(the_same_payload_is_no_repeat_while_a_wait_is_open_on_the_key),
        SCENARIO(a_job_that_has_ended_takes_no_signal_but_knows_repeats),
        SCENARIO(a_signal_that_is_not_sound_is_refused),
        SCENARIO(only_so_many_signals_are_stored),
        SCENARIO(a_signal_may_carry_nothing),
        SCENARIO(beats_before_a_wait_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
