/* What operators do to a job: cancel softly or hard, requeue, append, and name things that are not
 * there. */
#include "scenario.h"

static struct command append_of(const struct appended *events, uint32_t count)
{
    struct command command = by_user(COMMAND_APPEND);
    command.append.events = events;
    command.append.count = count;
    command.append.expected_version = -1;
    return command;
}

/* ---- cancel ---- */

static void a_job_without_a_lease_is_cancelled_at_once(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, cancel_by(CANCEL_NONE, "not needed")); /* soft is the default */
    assert_status(w, "cancelled");
    assert_int_equal(last_event(w)->data.mode, CANCEL_SOFT);
    assert_text(last_event(w)->data.reason, "not needed");
    do_again(w, cancel_by(CANCEL_SOFT, "again"));
    do_again(w, cancel_by(CANCEL_HARD, "again"));
    refused(w, requeue_by("x", false), ERR_INVALID_TRANSITION,
            "cannot requeue job {job}: it is cancelled");
    story(w, "job_created job_cancelled");
}

static void retrying_and_waiting_jobs_are_cancelled_at_once(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    assert_status(w, "cancelled");
    story(w, "job_created job_leased job_running job_requeued job_cancelled");
    world_clear(w, 2);
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    assert_status(w, "cancelled");
    assert_int_equal(w->slice.job.wait.type, WAIT_NONE);
    story(w, "job_created job_leased job_running job_waiting job_cancelled");
}

static void a_soft_cancel_is_recorded_and_the_worker_ends_it(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    assert_status(w, "running");
    assert_true(w->slice.job.cancel_requested);
    assert_text(w->slice.job.cancel_reason, "stop");
    assert_int_equal(w->slice.job.cancel_at, w->now + 30000);
    do_again(w, cancel_by(CANCEL_SOFT, "stop again"));
    do_ok(w, by_worker(w, COMMAND_CANCELLED));
    assert_status(w, "cancelled");
    assert_int_equal(last_event(w)->data.mode, CANCEL_SOFT);
    assert_text(last_event(w)->data.reason, "stop");
    assert_text(last_event(w)->cause_text, "cancelled#1");
    do_again(w, by_worker(w, COMMAND_CANCELLED));
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

static void a_worker_cannot_cancel_what_nobody_asked_to_cancel(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, by_worker(w, COMMAND_CANCELLED), ERR_INVALID_TRANSITION,
            "no cancellation was requested: release or fail the job instead");
    story(w, "job_created job_leased job_running");
}

static void a_soft_cancel_turns_hard_after_its_time_and_not_before(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, by_engine(COMMAND_CANCEL_DUE), ERR_INVALID_TRANSITION,
            "no cancellation was requested");
    struct command cancel = cancel_by(CANCEL_SOFT, "stop");
    cancel.cancel.soft_ms = 5000;
    do_ok(w, cancel);
    w->now += 4999;
    refused(w, by_engine(COMMAND_CANCEL_DUE), ERR_INVALID_TRANSITION,
            "the grace period of the worker ends in 1 ms");
    w->now += 1;
    do_ok(w, by_engine(COMMAND_CANCEL_DUE));
    assert_status(w, "cancelled");
    assert_int_equal(last_event(w)->data.mode, CANCEL_HARD);
    assert_text(last_event(w)->data.reason, "stop");
    refused(w, by_engine(COMMAND_CANCEL_DUE), ERR_INVALID_TRANSITION,
            "cannot cancel job {job}: it is cancelled");
    refused(w, complete_with(w, "1"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has ended");
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

static void a_hard_cancel_makes_the_token_stale_at_once(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_HARD, "now"));
    assert_status(w, "cancelled");
    refused(w, by_worker(w, COMMAND_HEARTBEAT), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has ended");
    story(w, "job_created job_leased job_running job_cancelled");
}

static void a_hard_cancel_overtakes_a_soft_one(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, cancel_by(CANCEL_HARD, "now"));
    assert_status(w, "cancelled");
    assert_text(last_event(w)->data.reason, "now");
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

static void a_leased_job_is_cancelled_softly_too(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    assert_status(w, "leased");
    do_ok(w, by_worker(w, COMMAND_CANCELLED));
    story(w, "job_created job_leased job_cancel_requested job_cancelled");
}

static void a_cancel_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    struct command cancel = cancel_by(CANCEL_SOFT, "\xff");
    refused(w, cancel, ERR_BAD_REQUEST, "reason is not valid UTF-8");
    cancel = cancel_by(CANCEL_SOFT, "");
    cancel.cancel.soft_ms = -1;
    refused(w, cancel, ERR_BAD_REQUEST, "grace_ms must be from 0 to 316224000000, not -1");
    cancel.cancel.soft_ms = DELAY_MS_MAX + 1;
    refused(w, cancel, ERR_BAD_REQUEST,
            "grace_ms must be from 0 to 316224000000, not 316224000001");
    story(w, "job_created job_leased job_running");
}

static void a_finished_job_is_not_cancelled_by_an_old_request(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    do_ok(w, complete_with(w, "1"));
    w->now += 30000;
    refused(w, by_engine(COMMAND_CANCEL_DUE), ERR_INVALID_TRANSITION,
            "cannot cancel job {job}: it is completed");
    refused(w, cancel_by(CANCEL_SOFT, ""), ERR_INVALID_TRANSITION,
            "cannot cancel job {job}: it is completed");
    story(w, "job_created job_leased job_running job_cancel_requested job_completed");
}

/* ---- requeue ---- */

static void a_failed_job_is_requeued_into_a_new_epoch(void **state)
{
    struct world *w = *state;
    running(w);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("p9");
    do_ok(w, beat);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("fixed", false));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.epoch, 2);
    assert_int_equal(w->slice.job.failures, 0);
    assert_text(w->slice.job.error, NULL);
    assert_text(w->slice.job.cursor, "p9");
    assert_payload(w, last_event(w), "{'reason':'fixed','epoch':2}");
    story(w, "job_created job_leased job_running job_failed job_requeued");
}

static void a_fresh_requeue_forgets_cursor_and_progress(void **state)
{
    struct world *w = *state;
    running(w);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("p9");
    beat.heartbeat.progress = STR("9");
    do_ok(w, beat);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("fixed", true));
    assert_text(w->slice.job.cursor, NULL);
    assert_text(w->slice.job.progress, NULL);
    story(w, "job_created job_leased job_running job_failed job_requeued");
}

static void a_retrying_job_is_requeued_now_in_its_epoch(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    do_ok(w, requeue_by("hurry", false));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.epoch, 1);
    assert_int_equal(w->slice.job.failures, 1);
    assert_int_equal(w->slice.job.run_at, w->now);
    assert_str(w->slice.job.error, js(w, "{'class':'transient','message':'it broke'}"));
    do_ok(w, claim_by("w1", true));
    story(w, "job_created job_leased job_running job_requeued job_requeued job_leased "
             "job_running");
}

static void only_failed_dead_and_retrying_jobs_are_requeued(void **state)
{
    struct world *w = *state;
    submitted(w);
    refused(w, requeue_by("x", false), ERR_INVALID_TRANSITION,
            "only a failed, dead-lettered or retrying job can be requeued; this one is queued");
    do_ok(w, claim_by("w1", false));
    refused(w, requeue_by("x", false), ERR_INVALID_TRANSITION,
            "only a failed, dead-lettered or retrying job can be requeued; this one is leased");
    do_ok(w, by_worker(w, COMMAND_START));
    refused(w, requeue_by("x", false), ERR_INVALID_TRANSITION,
            "only a failed, dead-lettered or retrying job can be requeued; this one is running");
    refused(w, requeue_by("\xff", false), ERR_BAD_REQUEST, "reason is not valid UTF-8");
    story(w, "job_created job_leased job_running");
}

static void a_new_epoch_forgets_a_cancel_that_was_asked_for_before(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    struct command abandon = by_worker(w, COMMAND_ABANDON);
    abandon.dead_letter.reason_code = DEAD_PARSE_ERROR;
    do_ok(w, abandon);
    do_ok(w, requeue_by("go on", false));
    assert_false(w->slice.job.cancel_requested);
    assert_text(w->slice.job.cancel_reason, NULL);
    assert_int_equal(w->slice.job.cancel_at, 0);
    do_ok(w, claim_by("w1", true));
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_false(w->last.result.cancel_requested);
    story(w, "job_created job_leased job_running job_cancel_requested job_dead_lettered "
             "job_requeued job_leased job_running");
}

/* ---- append ---- */

static void the_lease_holder_appends_what_is_its_own(void **state)
{
    struct world *w = *state;
    running(w);
    struct appended events[] = {
        {STR("node_started"), js(w, " {'node': 'n1'} ")},
        {STR("node_finished"), absent},
        {STR("job_compensated"), STR("null")},
        {STR("billing.invoice_sent"), STR("[1, 2]")},
    };
    struct command command = with_token(append_of(events, 4), w->token);
    command.append.expected_version = 3;
    do_ok(w, command);
    assert_int_equal(w->slice.job.version, 7);
    assert_text(last_event(w)->type_name, "billing.invoice_sent");
    assert_text(last_event(w)->payload, "[1, 2]");
    assert_text(last_event(w)->cause_text, "append#1");
    assert_status(w, "running");
    story(w, "job_created job_leased job_running node_started node_finished job_compensated "
             "billing.invoice_sent");
}

static void an_append_at_another_version_is_a_mismatch(void **state)
{
    struct world *w = *state;
    running(w);
    struct appended event = {STR("a.b"), absent};
    struct command command = with_token(append_of(&event, 1), w->token);
    command.append.expected_version = 2;
    refused(w, command, ERR_VERSION_MISMATCH, "the job has version 3, not the expected 2");
    command.append.expected_version = 4;
    refused(w, command, ERR_VERSION_MISMATCH, "the job has version 3, not the expected 4");
    command.append.expected_version = 3;
    do_ok(w, command);
    refused(w, command, ERR_VERSION_MISMATCH, "the job has version 4, not the expected 3");
    command.append.expected_version = 0;
    refused(w, command, ERR_VERSION_MISMATCH, "the job has version 4, not the expected 0");
    story(w, "job_created job_leased job_running a.b");
}

static void events_of_the_machine_are_never_appended_raw(void **state)
{
    struct world *w = *state;
    running(w);
    static const char *const types[] = {"job_completed", "job_claimed",    "tool_called",
                                        "step_running",  "job_heartbeat",  "plan_generated",
                                        "step_finished", "signal_received"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct appended event = {str_from(types[i]), absent};
        char text[128];
        (void)snprintf(text, sizeof text, "events of type \"%s\" are reserved for Pawl", types[i]);
        refused(w, with_token(append_of(&event, 1), w->token), ERR_BAD_REQUEST, text);
        refused(w, append_of(&event, 1), ERR_BAD_REQUEST, text);
    }
    struct appended unknown = {STR("invoice_sent"), absent};
    refused(w, with_token(append_of(&unknown, 1), w->token), ERR_BAD_REQUEST,
            "unknown event type \"invoice_sent\"; a custom type needs a dot in its name");
    story(w, "job_created job_leased job_running");
}

static void an_append_is_all_or_nothing(void **state)
{
    struct world *w = *state;
    running(w);
    struct appended events[] = {{STR("a.b"), absent}, {STR(""), absent}};
    refused(w, with_token(append_of(events, 2), w->token), ERR_BAD_REQUEST,
            "type must not be empty");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    events[1] = (struct appended){STR("a.c"), {large, PAYLOAD_BYTES_MAX + 1}};
    refused(w, with_token(append_of(events, 2), w->token), ERR_PAYLOAD_TOO_LARGE,
            "payload has 1048577 bytes; the limit is 1048576");
    refused(w, with_token(append_of(events, 0), w->token), ERR_BAD_REQUEST,
            "append takes 1 to 1000 events, not 0");
    refused(w, with_token(append_of(events, 1001), w->token), ERR_BAD_REQUEST,
            "append takes 1 to 1000 events, not 1001");
    story(w, "job_created job_leased job_running");
}

static void an_operator_appends_custom_events_at_any_time(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct appended event = {STR("audit.note"), STR("\"seen\"")};
    do_ok(w, append_of(&event, 1));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    do_ok(w, append_of(&event, 1));
    assert_text(last_event(w)->cause_text, "append");
    assert_status(w, "cancelled");
    story(w, "job_created audit.note job_cancelled audit.note");
}

static void an_operator_says_compensated_only_after_failure(void **state)
{
    struct world *w = *state;
    running(w);
    struct appended event = {STR("job_compensated"), absent};
    struct appended node = {STR("node_started"), absent};
    refused(w, append_of(&event, 1), ERR_INVALID_TRANSITION,
            "\"job_compensated\" requires the token of the live lease, or a job that has failed");
    refused(w, append_of(&node, 1), ERR_INVALID_TRANSITION,
            "\"node_started\" requires the token of the live lease");
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, append_of(&event, 1));
    refused(w, append_of(&node, 1), ERR_INVALID_TRANSITION,
            "\"node_started\" requires the token of the live lease");
    assert_status(w, "failed");
    story(w, "job_created job_leased job_running job_failed job_compensated");
}

static void a_completed_job_has_nothing_to_compensate(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "1"));
    struct appended event = {STR("job_compensated"), absent};
    refused(w, append_of(&event, 1), ERR_INVALID_TRANSITION,
            "\"job_compensated\" requires the token of the live lease, or a job that has failed");
    refused(w, with_token(append_of(&event, 1), w->token), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has ended");
    story(w, "job_created job_leased job_running job_completed");
}

/* ---- what is for whom ---- */

static void a_command_for_a_step_is_not_for_a_job_and_back(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    refused(w, on_step(claim_by("w1", true), "a"), ERR_INVALID_TRANSITION,
            "claim does not apply to a step");
    refused(w, on_step(cancel_by(CANCEL_HARD, ""), "a"), ERR_INVALID_TRANSITION,
            "cancel does not apply to a step");
    refused(w, verdict_on(NULL, VERDICT_ACCEPT), ERR_BAD_REQUEST, "verdict requires a step");
    refused(w, answer_of(w, NULL, "1"), ERR_INVALID_TRANSITION,
            "cannot answer job {job}: it is queued");
    refused(w, step_claim_of(w, NULL, "r1", true), ERR_BAD_REQUEST, "step_claim requires a step");
    refused(w, step_claim_of(w, "b", "r1", true), ERR_NOT_FOUND, "unknown step \"b\"");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, wait_for(w, "k", 0), ERR_INVALID_TRANSITION, "wait does not apply to a step");
    refused(w, by_worker(w, COMMAND_ABANDON), ERR_INVALID_TRANSITION,
            "abandon does not apply to a step");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a");
}

static void a_type_of_ones_own_has_a_word_on_both_sides_of_its_dot(void **state)
{
    struct world *w = *state;
    running(w);
    struct appended event = {STR(".sent"), STR("1")};
    struct command append = by_user(COMMAND_APPEND);
    append.append.events = &event;
    append.append.count = 1;
    append.append.expected_version = -1;
    refused(w, append, ERR_BAD_REQUEST,
            "event type \".sent\" must have text on both sides of the dot");
    event.type = STR("invoice.");
    refused(w, append, ERR_BAD_REQUEST,
            "event type \"invoice.\" must have text on both sides of the dot");
    event.type = STR("invoice.sent");
    do_ok(w, append);
}

static void the_grace_of_a_soft_cancel_is_its_own_or_the_kinds_or_the_servers(void **state)
{
    struct world *w = *state;
    running(w);
    w->cancel_grace_ms = 7000;
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    assert_int_equal(w->slice.job.cancel_at, w->now + 7000);

    world_clear(w, 2);
    running(w);
    w->cancel_grace_ms = 7000;
    w->kind.cancel_grace_ms = 6000;
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    assert_int_equal(w->slice.job.cancel_at, w->now + 6000);

    world_clear(w, 3);
    running(w);
    w->kind.cancel_grace_ms = 6000;
    struct command cancel = cancel_by(CANCEL_SOFT, "stop");
    cancel.cancel.soft_ms = 5000;
    do_ok(w, cancel);
    assert_int_equal(w->slice.job.cancel_at, w->now + 5000);
    w->now += 5000;
    do_ok(w, by_engine(COMMAND_CANCEL_DUE));
    assert_status(w, "cancelled");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(the_grace_of_a_soft_cancel_is_its_own_or_the_kinds_or_the_servers),
        SCENARIO(a_job_without_a_lease_is_cancelled_at_once),
        SCENARIO(retrying_and_waiting_jobs_are_cancelled_at_once),
        SCENARIO(a_soft_cancel_is_recorded_and_the_worker_ends_it),
        SCENARIO(a_worker_cannot_cancel_what_nobody_asked_to_cancel),
        SCENARIO(a_soft_cancel_turns_hard_after_its_time_and_not_before),
        SCENARIO(a_hard_cancel_makes_the_token_stale_at_once),
        SCENARIO(a_hard_cancel_overtakes_a_soft_one),
        SCENARIO(a_leased_job_is_cancelled_softly_too),
        SCENARIO(a_cancel_that_is_not_sound_is_refused),
        SCENARIO(a_finished_job_is_not_cancelled_by_an_old_request),
        SCENARIO(a_failed_job_is_requeued_into_a_new_epoch),
        SCENARIO(a_fresh_requeue_forgets_cursor_and_progress),
        SCENARIO(a_retrying_job_is_requeued_now_in_its_epoch),
        SCENARIO(only_failed_dead_and_retrying_jobs_are_requeued),
        SCENARIO(a_new_epoch_forgets_a_cancel_that_was_asked_for_before),
        SCENARIO(the_lease_holder_appends_what_is_its_own),
        SCENARIO(an_append_at_another_version_is_a_mismatch),
        SCENARIO(events_of_the_machine_are_never_appended_raw),
        SCENARIO(an_append_is_all_or_nothing),
        SCENARIO(an_operator_appends_custom_events_at_any_time),
        SCENARIO(an_operator_says_compensated_only_after_failure),
        SCENARIO(a_completed_job_has_nothing_to_compensate),
        SCENARIO(a_command_for_a_step_is_not_for_a_job_and_back),
        SCENARIO(a_type_of_ones_own_has_a_word_on_both_sides_of_its_dot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
