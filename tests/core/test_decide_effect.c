/* Effects: execute, recorded, in doubt; what a policy or a person then says; and what is kept how
 * long. */
#include "scenario.h"

static void submit_in_doubt(struct world *w, enum doubt_policy policy)
{
    struct spec spec = world_spec();
    spec.in_doubt = policy;
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    do_ok(w, command);
    do_ok(w, claim_by("w1", true));
}

/* The worker of the open attempt dies and another takes over. */
static void taken_over(struct world *w)
{
    w->now += 30000;
    do_ok(w, expire_of(w->slice.job.attempt));
    w->now += 60000;
    do_ok(w, claim_by("w2", true));
}

static struct command commit_and_begin(struct world *w, const char *key, const char *result,
                                       const char *next_key, const char *next_input)
{
    struct command command = commit_of(w, key, result);
    command.effect_commit.then = THEN_BEGIN;
    command.effect_commit.begin.key = str_from(next_key);
    command.effect_commit.begin.input = js(w, next_input);
    return command;
}

/* ---- begin and commit ---- */

static void an_effect_is_executed_once_and_then_recorded(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "{'amount':5}"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->slice.job.open_effects, 1);
    assert_text(last_event(w)->cause_text, "effect_begin#1");
    do_ok(w, commit_of(w, "charge", " {'id': 'c-1'} "));
    assert_int_equal(w->slice.job.open_effects, 0);
    do_ok(w, begin_of(w, "charge", "{'amount':5}"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    assert_str(w->last.result.effect_result, js(w, "{'id': 'c-1'}"));
    assert_int_equal(w->last.count, 0);
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called tool_returned job_completed");
}

static void the_same_attempt_that_asks_again_executes_again(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->last.count, 0);
    assert_int_equal(w->slice.job.open_effects, 1);
    story(w, "job_created job_leased job_running tool_called");
}

static void the_key_for_systems_downstream_is_the_same_for_every_attempt(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_RETRY);
    do_ok(w, begin_of(w, "charge", "5"));
    struct str key = w->last.result.effect_idempotency_key;
    assert_str(key, message_text(w, "{job}/0/charge"));
    taken_over(w);
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_str(w->last.result.effect_idempotency_key, key);
    assert_int_equal(w->slice.effects[0].attempt, 2);
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running tool_called");
}

static void another_input_under_a_known_key_is_a_replay_mismatch(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    refused(w, begin_of(w, "charge", "6"), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was started with a different input by attempt 1");
    refused(w, begin_of(w, "charge", NULL), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was started with a different input by attempt 1");
    do_ok(w, commit_of(w, "charge", "1"));
    refused(w, begin_of(w, "charge", "6"), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was started with a different input by attempt 1");
    story(w, "job_created job_leased job_running tool_called tool_returned");
}

static void no_input_and_null_are_the_same_input(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "ping", NULL));
    do_ok(w, begin_of(w, "ping", " null "));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    story(w, "job_created job_leased job_running tool_called");
}

static void a_repeated_commit_is_answered_and_another_result_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, commit_of(w, "charge", "1"));
    do_again(w, commit_of(w, "charge", "1"));
    refused(w, commit_of(w, "charge", "2"), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was already committed with a different result");
    story(w, "job_created job_leased job_running tool_called tool_returned");
}

static void what_was_never_begun_cannot_be_committed(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, commit_of(w, "charge", "1"), ERR_NOT_FOUND,
            "unknown effect \"charge\": begin it first");
    story(w, "job_created job_leased job_running");
}

static void an_effect_of_an_earlier_attempt_is_begun_again_before_its_commit(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_RETRY);
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    refused(w, commit_of(w, "charge", "1"), ERR_INVALID_TRANSITION,
            "effect \"charge\" was started by attempt 1: begin it again first");
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, commit_of(w, "charge", "1"));
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running tool_called tool_returned");
}

static void effects_need_a_job_that_has_started_and_sound_names(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    refused(w, begin_of(w, "charge", "5"), ERR_INVALID_TRANSITION,
            "cannot begin an effect of job {job}: it is leased and has not started");
    refused(w, commit_of(w, "charge", "5"), ERR_INVALID_TRANSITION,
            "cannot commit an effect of job {job}: it is leased and has not started");
    do_ok(w, by_worker(w, COMMAND_START));
    refused(w, begin_of(w, "", "5"), ERR_BAD_REQUEST, "effect key must not be empty");
    refused(w, commit_of(w, "", "5"), ERR_BAD_REQUEST, "effect key must not be empty");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    struct command command = begin_of(w, "charge", NULL);
    command.effect_begin.input = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "input has 1048577 bytes; the limit is 1048576");
    command = commit_of(w, "charge", NULL);
    command.effect_commit.result = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "result has 1048577 bytes; the limit is 1048576");
    story(w, "job_created job_leased job_running");
}

static void nothing_completes_or_waits_while_an_effect_is_open(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, begin_of(w, "mail", "6"));
    do_ok(w, commit_of(w, "charge", "1"));
    refused(
        w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"mail\" is open: commit, abort or begin it again first");
    refused(w, wait_for(w, "k", 0), ERR_INVALID_TRANSITION,
            "cannot wait while the effect \"mail\" is open: commit, abort or begin it again first");
    do_ok(w, commit_of(w, "mail", NULL));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called tool_called tool_returned "
             "tool_returned job_completed");
}

static void an_open_effect_of_an_earlier_attempt_holds_up_the_next(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    refused(w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
            "cannot complete while the effect \"charge\" is open: commit, abort or begin it again "
            "first");
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running");
}

static void an_open_effect_that_is_not_loaded_still_refuses(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    struct job_slice whole = w->slice;
    w->slice.effect_count = 0;
    refused(w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
            "cannot complete while the effect \"(not loaded)\" is open: commit, abort or begin it "
            "again first");
    w->slice = whole;
    story(w, "job_created job_leased job_running tool_called");
}

/* ---- commit and begin in one ---- */

static void one_call_commits_an_effect_and_begins_the_next(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, commit_and_begin(w, "a", "10", "b", "2"));
    assert_int_equal(w->last.count, 2);
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->slice.job.open_effects, 1);
    do_ok(w, commit_and_begin(w, "a", "10", "b", "2")); /* the answer was lost */
    assert_true(w->last.result.repeated);
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->last.count, 0);
    do_ok(w, commit_and_begin(w, "a", "10", "c", "3"));
    assert_false(w->last.result.repeated); /* the commit was there, the begin is new */
    assert_int_equal(w->last.count, 1);
    story(w, "job_created job_leased job_running tool_called tool_returned tool_called "
             "tool_called");
}

static void commit_and_begin_happen_both_or_not_at_all(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, begin_of(w, "b", "2"));
    refused(w, commit_and_begin(w, "a", "10", "b", "3"), ERR_REPLAY_MISMATCH,
            "effect \"b\" was started with a different input by attempt 1");
    refused(w, commit_and_begin(w, "a", "10", "", "3"), ERR_BAD_REQUEST,
            "effect key must not be empty");
    assert_int_equal(w->slice.job.open_effects, 2);
    story(w, "job_created job_leased job_running tool_called tool_called");
}

/* ---- in doubt ---- */

static void in_doubt_with_policy_fail_fails_the_job(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_FAIL);
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "failed");
    assert_text(last_event(w)->data.reason, "effect_in_doubt");
    assert_str(w->slice.job.error,
               js(w, "{'class':'permanent','message':'effect \\'charge\\' is in doubt: attempt 1 "
                     "started it and never committed it','stage':'commit'}"));
    do_again(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running job_failed");
}

static void in_doubt_with_policy_retry_executes_again(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_RETRY);
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->slice.job.open_effects, 1);
    do_ok(w, commit_of(w, "charge", "1"));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running tool_called tool_returned job_completed");
}

/* Up to the question whether the effect "charge" happened. */
static void asked_about_charge(struct world *w)
{
    submit_in_doubt(w, DOUBT_ASK);
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "waiting");
    assert_int_equal(w->slice.job.wait.type, WAIT_HUMAN);
    assert_text(w->slice.job.wait.correlation_key, "charge");
    assert_text(w->slice.job.wait.effect, "charge");
    assert_str(w->slice.job.wait.choices, js(w, "['retry','done','fail']"));
}

#define ASKED                                                                                      \
    "job_created job_leased job_running tool_called job_requeued job_leased job_running "          \
    "job_waiting"

static void in_doubt_with_policy_ask_asks_a_person(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    assert_text(
        w->slice.job.wait.prompt,
        "Effect \"charge\" was started by an earlier attempt and never committed. It may or may "
        "not have happened. retry runs it again, done records it as done, fail fails the job.");
    do_again(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    story(w, ASKED);
}

static void a_person_may_say_that_it_is_tried_again(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    do_ok(w, signal_of(w, "charge", "'retry'"));
    assert_status(w, "queued");
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    do_ok(w, commit_of(w, "charge", "1"));
    do_ok(w, complete_with(w, "1"));
    story(w, ASKED " wait_completed job_leased job_running tool_called tool_returned "
                   "job_completed");
}

static void a_person_may_say_that_it_is_done_with_a_result(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    do_ok(w, signal_of(w, "charge", "{'decision':'done','result':{'id':7}}"));
    assert_int_equal(w->slice.job.open_effects, 0);
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    assert_str(w->last.result.effect_result, js(w, "{'id':7}"));
    do_ok(w, complete_with(w, "1"));
    story(w, ASKED " wait_completed job_leased job_running job_completed");
}

static void a_person_may_say_that_it_fails(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    do_ok(w, signal_of(w, "charge", "'fail'"));
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "failed");
    story(w, ASKED " wait_completed job_leased job_running job_failed");
}

static void a_word_that_is_none_is_refused_and_the_question_stays(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    refused(w, signal_of(w, "charge", "'maybe'"), ERR_BAD_REQUEST,
            "the answer for an effect in doubt must be retry, done or fail, not \"maybe\"");
    refused(w, signal_of(w, "charge", "5"), ERR_BAD_REQUEST,
            "the answer for an effect in doubt must be retry, done or fail, not 5");
    refused(w, signal_of(w, "charge", NULL), ERR_BAD_REQUEST,
            "the answer for an effect in doubt must be retry, done or fail, not ");
    refused(w, signal_of(w, "charge", "{'result':1}"), ERR_BAD_REQUEST,
            "the answer for an effect in doubt must be retry, done or fail, not {\"result\":1}");
    refused(w, signal_of(w, "charge", "{'decision':'done','resultz':1}"), ERR_UNKNOWN_FIELD,
            "unknown field \"resultz\"");
    story(w, ASKED);
}

static void an_effect_retried_by_a_word_can_come_into_doubt_again(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    do_ok(w, signal_of(w, "charge", "'retry'"));
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "waiting");
    story(w, ASKED " wait_completed job_leased job_running tool_called job_requeued job_leased "
                   "job_running job_waiting");
}

static void a_doubt_while_a_soft_cancel_is_open_cancels_and_asks_no_one(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_ASK);
    do_ok(w, begin_of(w, "charge", "5"));
    taken_over(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "cancelled");
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running job_cancel_requested job_cancelled");
}

static void a_commit_whose_next_effect_is_in_doubt_asks_in_the_same_commit(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_ASK);
    do_ok(w, begin_of(w, "b", "2"));
    taken_over(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, commit_and_begin(w, "a", "10", "b", "2"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "waiting");
    do_again(w, commit_and_begin(w, "a", "10", "b", "2"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running tool_called tool_returned job_waiting");
}

static void a_commit_whose_next_effect_is_in_doubt_fails_where_the_policy_says_so(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_FAIL);
    do_ok(w, begin_of(w, "b", "2"));
    taken_over(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, commit_and_begin(w, "a", "10", "b", "2"));
    assert_status(w, "failed");
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running tool_called tool_returned job_failed");
}

/* ---- across requeues ---- */

static void results_survive_requeues(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, commit_of(w, "charge", "1"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("again", false));
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    story(w, "job_created job_leased job_running tool_called tool_returned job_failed "
             "job_requeued job_leased job_running");
}

static void a_fresh_start_forgets_effects_and_gives_a_new_key_downstream(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, commit_of(w, "charge", "1"));
    do_ok(w, begin_of(w, "open", "1"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("again", true));
    assert_int_equal(w->slice.job.open_effects, 0);
    assert_int_equal(w->slice.job.effects_from, 8);
    assert_null(world_check(w));
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "charge", "6")); /* another input is fine now */
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_str(w->last.result.effect_idempotency_key, message_text(w, "{job}/8/charge"));
    refused(w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
            "cannot complete while the effect \"charge\" is open: commit, abort or begin it again "
            "first");
    do_ok(w, commit_of(w, "charge", "2"));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called tool_returned tool_called "
             "job_failed job_requeued job_leased job_running tool_called tool_returned "
             "job_completed");
}

static void many_effects_are_found_by_their_names(void **state)
{
    struct world *w = *state;
    running(w);
    for (int i = 0; i < 40; i++) {
        do_ok(w, begin_of(w, numbered(w, "e", i), "1"));
        do_ok(w, commit_of(w, numbered(w, "e", i), "2"));
    }
    for (int i = 0; i < 40; i++) {
        do_ok(w, begin_of(w, numbered(w, "e", i), "1"));
        assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    }
    refused(w, commit_of(w, "e40", "1"), ERR_NOT_FOUND, "unknown effect \"e40\": begin it first");
    assert_int_equal(w->slice.effect_count, 40);
    assert_null(world_check(w));
}

/* ---- abort ---- */

static void an_aborted_effect_is_begun_again_by_the_same_attempt(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "model", "5"));
    do_ok(w, abort_of(w, "model", " {'message':'429','details':{'retry':3}} "));
    assert_text(last_event(w)->cause_text, "effect_abort#1");
    assert_payload(w, last_event(w),
                   "{'error':{'message':'429','details':{'retry':3}},'key':'model'}");
    assert_int_equal(w->slice.job.open_effects, 0);
    assert_true(w->slice.effects[0].aborted && !w->slice.effects[0].returned);
    assert_int_equal(w->slice.effects[0].ended_at, w->now);
    do_again(w, abort_of(w, "model", "{'message':'429','details':{'retry':3}}"));
    do_ok(w, begin_of(w, "model", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->slice.job.open_effects, 1);
    assert_str(w->slice.effects[0].error, absent);
    do_ok(w, commit_of(w, "model", "'hello'"));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called tool_aborted tool_called "
             "tool_returned job_completed");
}

static void an_aborted_effect_is_begun_again_by_a_later_attempt_without_doubt(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_FAIL);
    do_ok(w, begin_of(w, "model", "5"));
    do_ok(w, abort_of(w, "model", "{'message':'429'}"));
    taken_over(w);
    do_ok(w, begin_of(w, "model", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    assert_int_equal(w->slice.effects[0].attempt, 2);
    story(w, "job_created job_leased job_running tool_called tool_aborted job_requeued "
             "job_leased job_running tool_called");
}

static void nothing_holds_up_a_job_whose_effect_was_aborted(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "model", "5"));
    do_ok(w, abort_of(w, "model", "{'message':'429'}"));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called tool_aborted job_completed");
}

static void only_what_this_attempt_has_open_can_be_aborted(void **state)
{
    struct world *w = *state;
    const char *error = "{'message':'429'}";
    submit_in_doubt(w, DOUBT_RETRY);
    refused(w, abort_of(w, "model", error), ERR_NOT_FOUND,
            "unknown effect \"model\": begin it first");
    do_ok(w, begin_of(w, "model", "5"));
    do_ok(w, begin_of(w, "mail", "6"));
    do_ok(w, commit_of(w, "mail", "1"));
    refused(w, abort_of(w, "mail", error), ERR_INVALID_TRANSITION,
            "effect \"mail\" was already committed");
    taken_over(w);
    refused(w, abort_of(w, "model", error), ERR_INVALID_TRANSITION,
            "effect \"model\" was started by attempt 1: begin it again first");
    do_ok(w, begin_of(w, "model", "5"));
    do_ok(w, abort_of(w, "model", error));
    refused(w, abort_of(w, "model", "{'message':'500'}"), ERR_REPLAY_MISMATCH,
            "effect \"model\" was already aborted with a different error");
    refused(w, commit_of(w, "model", "1"), ERR_INVALID_TRANSITION,
            "effect \"model\" was aborted: begin it again first");
    refused(w, begin_of(w, "model", "6"), ERR_REPLAY_MISMATCH,
            "effect \"model\" was started with a different input by attempt 2");
    story_since(w, 9, "tool_called tool_aborted");
}

static void an_abort_says_why(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "model", "5"));
    refused(w, abort_of(w, "model", NULL), ERR_BAD_REQUEST,
            "error is required to abort an effect: the reason why it did not happen");
    refused(w, abort_of(w, "model", "null"), ERR_BAD_REQUEST,
            "error is required to abort an effect: the reason why it did not happen");
    refused(w, abort_of(w, "model", "429"), ERR_BAD_REQUEST,
            "error must be an object with a message, not 429");
    refused(w, abort_of(w, "model", "{'message':4}"), ERR_BAD_REQUEST,
            "error must be an object with a message, not {\"message\":4}");
    refused(w, abort_of(w, "", "{'message':'429'}"), ERR_BAD_REQUEST,
            "effect key must not be empty");
    story(w, "job_created job_leased job_running tool_called");
}

/* ---- a failure that is recorded ---- */

static struct command commit_error(struct world *w, const char *key, const char *error)
{
    struct command command = commit_of(w, key, NULL);
    command.effect_commit.error = js(w, error);
    return command;
}

static void a_failure_that_is_committed_is_given_again(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_FAIL);
    do_ok(w, begin_of(w, "charge", "5"));
    do_ok(w, commit_error(w, "charge", "{'message':'card declined'}"));
    do_again(w, commit_error(w, "charge", "{'message':'card declined'}"));
    refused(w, commit_of(w, "charge", "1"), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was already committed with a different result");
    taken_over(w);
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    assert_str(w->last.result.effect_error, js(w, "{'message':'card declined'}"));
    assert_str(w->last.result.effect_result, absent);
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running tool_called tool_returned job_requeued "
             "job_leased job_running job_completed");
}

static void a_commit_has_a_result_or_an_error(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "charge", "5"));
    struct command both = commit_error(w, "charge", "{'message':'declined'}");
    both.effect_commit.result = STR("1");
    refused(w, both, ERR_BAD_REQUEST, "commit an effect with a result or an error, not both");
    refused(w, commit_error(w, "charge", "'declined'"), ERR_BAD_REQUEST,
            "error must be an object with a message, not \"declined\"");
    story(w, "job_created job_leased job_running tool_called");
}

/* ---- what follows a commit ---- */

static struct command commit_and_wait(struct world *w, const char *key, const char *wait_key)
{
    struct command command = commit_of(w, key, "1");
    command.effect_commit.then = THEN_WAIT;
    command.effect_commit.wait =
        (struct wait_request){.type = WAIT_SIGNAL, .correlation_key = str_from(wait_key)};
    return command;
}

static struct command commit_and_complete(struct world *w, const char *key, const char *result)
{
    struct command command = commit_of(w, key, "1");
    command.effect_commit.then = THEN_COMPLETE;
    command.effect_commit.complete_result = js(w, result);
    return command;
}

static void one_call_commits_an_effect_and_waits(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, commit_and_wait(w, "a", "k"));
    assert_int_equal(w->last.count, 2);
    assert_status(w, "waiting");
    do_again(w, commit_and_wait(w, "a", "k")); /* the answer was lost */
    refused(w, commit_and_wait(w, "a", "other"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: it already ended with a different "
            "outcome");
    refused(w, commit_of(w, "a", "1"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: it already ended with a different "
            "outcome");
    do_ok(w, signal_of(w, "k", "7"));
    assert_status(w, "queued");
    story(w, "job_created job_leased job_running tool_called tool_returned job_waiting "
             "wait_completed");
}

static void a_commit_that_waits_for_what_is_there_does_not_block(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, signal_of(w, "k", "7"));
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, commit_and_wait(w, "a", "k"));
    assert_status(w, "queued");
    assert_str(w->slice.job.resume.payload, STR("7"));
    do_again(w, commit_and_wait(w, "a", "k"));
    story(w, "job_created job_leased job_running signal_received tool_called tool_returned "
             "wait_completed");
}

static void one_call_commits_an_effect_and_completes(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, commit_and_complete(w, "a", "{'ok':true}"));
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "{'ok':true}"));
    do_again(w, commit_and_complete(w, "a", "{'ok':true}"));
    refused(w, commit_and_complete(w, "a", "2"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: it already ended with a different "
            "outcome");
    story(w, "job_created job_leased job_running tool_called tool_returned job_completed");
}

static void a_commit_and_what_follows_happen_both_or_not_at_all(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "a", "1"));
    do_ok(w, begin_of(w, "b", "2"));
    refused(
        w, commit_and_complete(w, "a", "1"), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"b\" is open: commit, abort or begin it again first");
    refused(w, commit_and_wait(w, "a", "k"), ERR_INVALID_TRANSITION,
            "cannot wait while the effect \"b\" is open: commit, abort or begin it again first");
    struct command nothing = commit_and_wait(w, "a", "k");
    nothing.effect_commit.wait = (struct wait_request){0};
    refused(w, nothing, ERR_BAD_REQUEST, "type must be webhook, human, timer or signal");
    assert_int_equal(w->slice.job.open_effects, 2);
    story(w, "job_created job_leased job_running tool_called tool_called");
}

static void a_commit_of_a_step_completes_it_and_waits_for_nothing(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, begin_of(w, "mail", "1"));
    refused(w, commit_and_wait(w, "mail", "k"), ERR_INVALID_TRANSITION,
            "a step cannot wait; ask a person with the verdict needs_user");
    do_ok(w, commit_and_complete(w, "mail", "2"));
    assert_step(w, "a", "succeeded");
    assert_int_equal(step_named(w, "b")->open_deps, 0);
    do_again(w, commit_and_complete(w, "mail", "2"));
    story_since(w, 6, "tool_called:a tool_returned:a step_succeeded:a");
}

static void a_commit_that_completes_a_step_with_a_critic_holds_its_result(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','critic':true}]");
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, commit_and_complete(w, "mail", "2"));
    assert_true(step_named(w, "a")->held);
    story_since(w, 5, "tool_called:a tool_returned:a step_finished:a");
}

/* ---- what a begin says of doubt ---- */

static struct command begin_doubting(struct world *w, enum doubt_policy policy)
{
    struct command command = begin_of(w, "charge", "5");
    command.effect_begin.in_doubt = policy;
    return command;
}

/* Job, first begin, this begin, and the policy that holds: the nearest that says something. */
static void a_begin_may_say_what_doubt_about_its_effect_means(void **state)
{
    static const struct {
        enum doubt_policy job, first, now, holds;
    } cases[] = {
        {DOUBT_FAIL, DOUBT_RETRY, DOUBT_NONE, DOUBT_RETRY},
        {DOUBT_RETRY, DOUBT_ASK, DOUBT_NONE, DOUBT_ASK},
        {DOUBT_RETRY, DOUBT_NONE, DOUBT_FAIL, DOUBT_FAIL},
        {DOUBT_RETRY, DOUBT_FAIL, DOUBT_ASK, DOUBT_ASK},
        {DOUBT_FAIL, DOUBT_ASK, DOUBT_RETRY, DOUBT_RETRY},
        {DOUBT_ASK, DOUBT_NONE, DOUBT_NONE, DOUBT_ASK},
    };
    struct world *w = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world_release(w);
        world_init(w, 1);
        submit_in_doubt(w, cases[i].job);
        do_ok(w, begin_doubting(w, cases[i].first));
        taken_over(w);
        do_ok(w, begin_doubting(w, cases[i].now));
        assert_int_equal(w->last.result.effect,
                         cases[i].holds == DOUBT_RETRY ? EFFECT_EXECUTE : EFFECT_IN_DOUBT);
        assert_status(w, cases[i].holds == DOUBT_RETRY ? "running"
                         : cases[i].holds == DOUBT_ASK ? "waiting"
                                                       : "failed");
        assert_null(world_check(w));
    }
}

static void a_begin_after_an_abort_is_a_first_one_again(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_FAIL);
    do_ok(w, begin_doubting(w, DOUBT_RETRY));
    do_ok(w, abort_of(w, "charge", "{'message':'429'}"));
    do_ok(w, begin_doubting(w, DOUBT_ASK));
    taken_over(w);
    do_ok(w, begin_doubting(w, DOUBT_NONE));
    assert_status(w, "waiting");
    story(w, "job_created job_leased job_running tool_called tool_aborted tool_called "
             "job_requeued job_leased job_running job_waiting");
}

/* ---- fingerprints ---- */

#define PRINT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

static struct command begin_printed(struct world *w, const char *input, const char *fingerprint)
{
    struct command command = begin_of(w, "charge", input);
    command.effect_begin.fingerprint = str_from(fingerprint);
    return command;
}

static void a_fingerprint_is_compared_instead_of_the_input(void **state)
{
    struct world *w = *state;
    submit_in_doubt(w, DOUBT_RETRY);
    do_ok(w, begin_printed(w, "'cipher 1'", PRINT "f"));
    assert_payload(w, last_event(w),
                   "{'attempt':1,'key':'charge','input_hash':'"
                   "46d5da561a9937fc5f4b1269e328ef6b','input':'cipher 1',"
                   "'fingerprint':'" PRINT "f'}");
    do_ok(w, begin_printed(w, "'cipher 2'", PRINT "F")); /* digits are digits */
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    refused(w, begin_printed(w, "'cipher 1'", PRINT "e"), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was started with a different input by attempt 1");
    refused(w, begin_of(w, "charge", "'cipher 2'"), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was started with a different input by attempt 1");
    do_ok(w, begin_of(w, "charge", "'cipher 1'"));
    taken_over(w);
    do_ok(w, begin_printed(w, "'cipher 3'", PRINT "f"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    story(w, "job_created job_leased job_running tool_called job_requeued job_leased "
             "job_running tool_called");
}

static void a_fingerprint_without_an_input_tells_it_from_none(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_printed(w, NULL, PRINT "f"));
    refused(w, begin_of(w, "charge", NULL), ERR_REPLAY_MISMATCH,
            "effect \"charge\" was started with a different input by attempt 1");
    do_ok(w, begin_printed(w, NULL, PRINT "f"));
    story(w, "job_created job_leased job_running tool_called");
}

static void a_fingerprint_has_64_hex_digits(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, begin_printed(w, "1", "abc"), ERR_BAD_REQUEST,
            "fingerprint must be 64 hex digits, not \"abc\"");
    refused(w, begin_printed(w, "1", PRINT "g"), ERR_BAD_REQUEST,
            "fingerprint must be 64 hex digits, not \"" PRINT "g\"");
    refused(w, begin_printed(w, "1", PRINT "ff"), ERR_BAD_REQUEST,
            "fingerprint must be 64 hex digits, not \"" PRINT "ff\"");
    story(w, "job_created job_leased job_running");
}

/* ---- what a claim has to carry ---- */

static void a_job_has_records_from_its_first_effect_or_wait_on(void **state)
{
    struct world *w = *state;
    running(w);
    assert_false(job_has_records(&w->slice.job));
    do_ok(w, begin_of(w, "a", "1"));
    assert_true(job_has_records(&w->slice.job));
    do_ok(w, commit_of(w, "a", "1"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("again", false));
    assert_true(job_has_records(&w->slice.job)); /* a redrive keeps them */
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("anew", true));
    assert_false(job_has_records(&w->slice.job)); /* a fresh start does not */
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 0));
    do_ok(w, signal_of(w, "k", "1"));
    assert_true(job_has_records(&w->slice.job));
    assert_null(world_check(w));
}

static void a_job_of_an_older_version_may_have_records(void **state)
{
    struct world *w = *state;
    running(w);
    w->slice.job.records_end = 0; /* as its row says, once it was claimed */
    assert_true(job_has_records(&w->slice.job));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_by("w2", true));
    assert_true(job_has_records(&w->slice.job));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(an_effect_is_executed_once_and_then_recorded),
        SCENARIO(the_same_attempt_that_asks_again_executes_again),
        SCENARIO(the_key_for_systems_downstream_is_the_same_for_every_attempt),
        SCENARIO(another_input_under_a_known_key_is_a_replay_mismatch),
        SCENARIO(no_input_and_null_are_the_same_input),
        SCENARIO(a_repeated_commit_is_answered_and_another_result_is_refused),
        SCENARIO(what_was_never_begun_cannot_be_committed),
        SCENARIO(an_effect_of_an_earlier_attempt_is_begun_again_before_its_commit),
        SCENARIO(effects_need_a_job_that_has_started_and_sound_names),
        SCENARIO(nothing_completes_or_waits_while_an_effect_is_open),
        SCENARIO(an_open_effect_of_an_earlier_attempt_holds_up_the_next),
        SCENARIO(an_open_effect_that_is_not_loaded_still_refuses),
        SCENARIO(one_call_commits_an_effect_and_begins_the_next),
        SCENARIO(commit_and_begin_happen_both_or_not_at_all),
        SCENARIO(in_doubt_with_policy_fail_fails_the_job),
        SCENARIO(in_doubt_with_policy_retry_executes_again),
        SCENARIO(in_doubt_with_policy_ask_asks_a_person),
        SCENARIO(a_person_may_say_that_it_is_tried_again),
        SCENARIO(a_person_may_say_that_it_is_done_with_a_result),
        SCENARIO(a_person_may_say_that_it_fails),
        SCENARIO(a_word_that_is_none_is_refused_and_the_question_stays),
        SCENARIO(an_effect_retried_by_a_word_can_come_into_doubt_again),
        SCENARIO(a_doubt_while_a_soft_cancel_is_open_cancels_and_asks_no_one),
        SCENARIO(a_commit_whose_next_effect_is_in_doubt_asks_in_the_same_commit),
        SCENARIO(a_commit_whose_next_effect_is_in_doubt_fails_where_the_policy_says_so),
        SCENARIO(results_survive_requeues),
        SCENARIO(a_fresh_start_forgets_effects_and_gives_a_new_key_downstream),
        SCENARIO(many_effects_are_found_by_their_names),
        SCENARIO(an_aborted_effect_is_begun_again_by_the_same_attempt),
        SCENARIO(an_aborted_effect_is_begun_again_by_a_later_attempt_without_doubt),
        SCENARIO(nothing_holds_up_a_job_whose_effect_was_aborted),
        SCENARIO(only_what_this_attempt_has_open_can_be_aborted),
        SCENARIO(an_abort_says_why),
        SCENARIO(a_failure_that_is_committed_is_given_again),
        SCENARIO(a_commit_has_a_result_or_an_error),
        SCENARIO(one_call_commits_an_effect_and_waits),
        SCENARIO(a_commit_that_waits_for_what_is_there_does_not_block),
        SCENARIO(one_call_commits_an_effect_and_completes),
        SCENARIO(a_commit_and_what_follows_happen_both_or_not_at_all),
        SCENARIO(a_commit_of_a_step_completes_it_and_waits_for_nothing),
        SCENARIO(a_commit_that_completes_a_step_with_a_critic_holds_its_result),
        SCENARIO(a_begin_may_say_what_doubt_about_its_effect_means),
        SCENARIO(a_begin_after_an_abort_is_a_first_one_again),
        SCENARIO(a_fingerprint_is_compared_instead_of_the_input),
        SCENARIO(a_fingerprint_without_an_input_tells_it_from_none),
        SCENARIO(a_fingerprint_has_64_hex_digits),
        SCENARIO(a_job_has_records_from_its_first_effect_or_wait_on),
        SCENARIO(a_job_of_an_older_version_may_have_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
