/* Plans and what their steps mean for the job: order, fan-in, failure, cancellation, requeue,
 * replan. */
#include "scenario.h"

/* Claims, runs and completes a step with this result. */
static void step_done(struct world *w, const char *step, const char *result)
{
    do_ok(w, step_claim_of(w, step, "r1", true));
    do_ok(w, complete_with(w, result));
}

static void step_fails(struct world *w, const char *step)
{
    do_ok(w, step_claim_of(w, step, "r1", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
}

/* ---- plans ---- */

static void a_queued_job_takes_a_plan(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, plan_of(w, "[{'id':'a'},{'id':'b','deps':['a']}]"));
    assert_int_equal(w->slice.job.plan_version, 1);
    assert_int_equal(w->slice.job.steps[STANDING_READY], 1);
    assert_int_equal(w->slice.job.steps[STANDING_BLOCKED], 1);
    assert_int_equal(w->slice.job.final_steps, 1);
    assert_status(w, "queued");
    do_ok(w, plan_of(w, "[{'id':'c'}]")); /* not begun: another one is fine */
    assert_int_equal(w->slice.job.plan_version, 2);
    assert_int_equal(w->slice.step_count, 1);
    story(w, "job_created plan_generated step_waiting_deps:b plan_generated");
}

static void a_plan_that_cannot_be_carried_out_is_refused_with_the_reason(void **state)
{
    struct world *w = *state;
    submitted(w);
    refused(w, plan_of(w, NULL), ERR_UNPROCESSABLE_PLAN, "the plan has no steps");
    refused(w, plan_of(w, "[]"), ERR_UNPROCESSABLE_PLAN, "a plan needs at least one step");
    refused(w, plan_of(w, "[{'id':'a'},{'id':'a'}]"), ERR_UNPROCESSABLE_PLAN,
            "duplicate step id \"a\" in steps[0] and steps[1]");
    refused(w, plan_of(w, "[{'id':'a','deps':['b']}]"), ERR_UNPROCESSABLE_PLAN,
            "step \"a\" depends on \"b\", which is not a step of this plan");
    refused(w, plan_of(w, "[{'id':'a','deps':['b']},{'id':'b','deps':['a']}]"),
            ERR_UNPROCESSABLE_PLAN, "the plan has a dependency cycle: a → b → a");
    struct command command = plan_of(w, "[{'id':'a'}]");
    command.plan.reason = STR("\xff");
    refused(w, command, ERR_BAD_REQUEST, "reason is not valid UTF-8");
    story(w, "job_created");
}

static void a_plan_has_its_limits(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct buf buf;
    buf_init(&buf, &w->arena, 256 * 1024);
    for (int i = 0; i <= PLAN_STEPS_MAX; i++)
        buf_addf(&buf, "%s{'id':'s%d'}", i == 0 ? "[" : ",", i);
    buf_add(&buf, STR("]"));
    buf_add_char(&buf, '\0');
    refused(w, plan_of(w, buf.at), ERR_UNPROCESSABLE_PLAN, "a plan may have at most 10000 steps");
    struct command command = plan_of(w, "[{'id':'a'}]");
    size_t size = PLAN_BYTES_MAX + 1;
    char *text = arena_alloc(&w->arena, size);
    memset(text, ' ', size);
    memcpy(text, command.plan.steps.at, command.plan.steps.len);
    command.plan.steps = (struct str){text, size};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "the plan has 8388609 bytes; the limit is 8388608");
    story(w, "job_created");
}

static void a_plan_that_is_carried_out_is_not_replaced(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, plan_of(w, "[{'id':'b'}]"), ERR_INVALID_TRANSITION,
            "the plan is running: give a step the verdict replan first");
    do_ok(w, complete_with(w, "1"));
    refused(w, plan_of(w, "[{'id':'b'}]"), ERR_INVALID_TRANSITION,
            "cannot plan job {job}: it is completed");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "step_succeeded:a job_completed");
}

static void a_job_in_the_hands_of_a_worker_takes_no_plan(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, plan_of(w, "[{'id':'b'}]"), ERR_INVALID_TRANSITION,
            "cannot plan job {job}: it is running");
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    refused(w, plan_of(w, "[{'id':'b'}]"), ERR_INVALID_TRANSITION,
            "cannot plan while the effect \"mail\" is open: commit, abort or begin it again first");
    struct command plan = plan_of(w, "[{'id':'b'}]");
    plan.blind = true;
    refused(w, plan, ERR_INVALID_TRANSITION,
            "cannot plan while an effect is open: commit, abort or begin it again first");
    story(w, "job_created job_leased job_running tool_called job_requeued");
}

static void a_job_may_go_on_by_a_plan_after_a_worker_gave_it_back(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, plan_of(w, "[{'id':'a'}]"));
    step_done(w, "a", "1");
    assert_status(w, "completed");
    assert_int_equal(w->slice.job.attempt, 2);
    story(w, "job_created job_leased job_running job_requeued plan_generated job_running "
             "step_leased:a step_running:a step_succeeded:a job_completed");
}

/* ---- order ---- */

static void two_parents_release_their_child_when_both_are_done(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},{'id':'c','deps':['a','b']}]");
    assert_int_equal(step_named(w, "c")->open_deps, 2);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct str of_a = w->token;
    do_ok(w, step_claim_of(w, "b", "r1", true)); /* steps run side by side */
    assert_int_equal(w->slice.job.steps[STANDING_ACTIVE], 2);
    do_ok(w, with_token(complete_with(w, "1"), of_a));
    assert_int_equal(step_named(w, "c")->open_deps, 1);
    refused(w, step_claim_of(w, "c", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"c\": it is waiting_deps, its dependencies are open");
    do_ok(w, complete_with(w, "2"));
    assert_int_equal(w->slice.job.steps[STANDING_READY], 1);
    step_done(w, "c", "3");
    assert_text(w->slice.job.result, "3");
    story(w, "job_created plan_generated step_waiting_deps:c job_running step_leased:a "
             "step_running:a step_leased:b step_running:b step_succeeded:a step_succeeded:b "
             "step_leased:c step_running:c step_succeeded:c job_completed");
}

static void a_thousand_parents_release_one_child_when_the_last_is_done(void **state)
{
    struct world *w = *state;
    enum { WIDE = 1000 };
    struct buf steps;
    buf_init(&steps, &w->arena, 64 * 1024);
    for (int i = 0; i < WIDE; i++)
        buf_addf(&steps, "%s{'id':'p%d'}", i == 0 ? "[" : ",", i);
    buf_add(&steps, STR(",{'id':'child','deps':["));
    for (int i = 0; i < WIDE; i++)
        buf_addf(&steps, "%s'p%d'", i == 0 ? "" : ",", i);
    buf_add(&steps, STR("]}]"));
    buf_add_char(&steps, '\0');
    planned(w, steps.at);
    for (int i = 0; i < WIDE; i++) {
        if (i == WIDE - 1)
            refused(w, step_claim_of(w, "child", "r1", true), ERR_INVALID_TRANSITION,
                    "cannot claim step \"child\": it is waiting_deps, its dependencies are open");
        step_done(w, numbered(w, "p", i), "1");
        assert_int_equal(step_named(w, "child")->open_deps, WIDE - 1 - i);
    }
    step_done(w, "child", "'all'");
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "'all'"));
    assert_int_equal(w->slice.job.steps[STANDING_SUCCEEDED], WIDE + 1);
    assert_null(world_check(w));
}

static void several_final_steps_give_the_job_no_result(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    assert_int_equal(w->slice.job.final_steps, 2);
    step_done(w, "a", "1");
    step_done(w, "b", "2");
    assert_status(w, "completed");
    assert_text(w->slice.job.result, NULL);
    assert_text(step_named(w, "a")->result, "1");
    assert_text(step_named(w, "b")->result, "2");
    assert_null(world_check(w));
}

/* ---- failure ---- */

static void a_failed_step_fails_its_job_at_once(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    struct str of_b = w->token;
    step_fails(w, "a");
    assert_status(w, "failed");
    assert_step(w, "b", "running"); /* steps stay as they are, their tokens are stale */
    assert_str(w->slice.job.error, js(w, "{'step':'a','class':'permanent','message':'it broke'}"));
    refused(w, with_token(complete_with(w, "1"), of_b), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step b is not live: the lease has ended");
    w->now += 60000;
    refused(w, on_step(expire_of(1), "b"), ERR_STALE_LEASE,
            "attempt 1 of step \"b\" has no live lease to expire");
    refused(w, step_claim_of(w, "b", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim a step of job {job}: it is failed");
    story(w, "job_created plan_generated job_running step_leased:b step_running:b "
             "step_leased:a step_running:a step_failed_fatal:a step_failed:a job_failed");
}

static void with_on_failure_continue_the_rest_goes_on_and_the_job_fails_at_the_end(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','on_failure':'continue'},{'id':'b'},{'id':'c','deps':['a']}]");
    step_fails(w, "a");
    assert_status(w, "running");
    step_done(w, "b", "1");
    assert_status(w, "failed");
    assert_step(w, "c", "waiting_deps");
    assert_text(last_event(w)->data.reason, "step_failed");
    story(w, "job_created plan_generated step_waiting_deps:c job_running step_leased:a "
             "step_running:a step_failed_fatal:a step_failed:a step_leased:b step_running:b "
             "step_succeeded:b job_failed");
}

/* What a step got over is not what its job failed of. */
static void the_error_of_a_step_that_succeeded_is_not_that_of_its_job(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','on_failure':'continue'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.message = STR("a hiccup");
    do_ok(w, fail);
    step_fails(w, "a");
    w->now += 1000;
    step_done(w, "b", "1");
    assert_status(w, "failed");
    assert_text(
        w->slice.job.error,
        "{\"class\":\"permanent\",\"message\":\"a step failed and no other step can run\"}");
    assert_null(world_check(w));
}

static void a_job_whose_only_step_failed_with_continue_fails(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','on_failure':'continue'}]");
    step_fails(w, "a");
    assert_status(w, "failed");
    assert_str(w->slice.job.error, js(w, "{'step':'a','class':'permanent','message':'it broke'}"));
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "step_failed_fatal:a step_failed:a job_failed");
}

static void a_failed_step_with_continue_waits_for_those_who_ask(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','on_failure':'continue'},"
               "{'id':'gate','wait':{'type':'signal','correlation_key':'k'}}]");
    step_fails(w, "a");
    assert_status(w, "waiting");
    do_ok(w, signal_of(w, "k", "1"));
    assert_status(w, "failed");
    story_since(w, 10,
                "job_waiting signal_received:gate wait_completed job_running "
                "step_running:gate step_succeeded:gate job_failed");
}

/* ---- cancellation ---- */

static void a_plan_that_nobody_works_on_is_cancelled_at_once(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    step_done(w, "a", "1");
    assert_status(w, "running");
    do_ok(w, cancel_by(CANCEL_SOFT, "enough"));
    assert_status(w, "cancelled");
    assert_step(w, "b", "pending");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "step_succeeded:a job_cancelled");
}

static void a_soft_cancel_waits_for_every_step_that_runs(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},{'id':'c'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct str of_a = w->token;
    do_ok(w, step_claim_of(w, "b", "r1", true));
    refused(w, by_worker(w, COMMAND_CANCELLED), ERR_INVALID_TRANSITION,
            "no cancellation was requested: release or fail the job instead");
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    refused(w, step_claim_of(w, "c", "r1", true), ERR_INVALID_TRANSITION,
            "the job is being cancelled");
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_true(w->last.result.cancel_requested);
    do_ok(w, by_worker(w, COMMAND_CANCELLED));
    assert_status(w, "running");
    do_ok(w, with_token(complete_with(w, "1"), of_a));
    assert_status(w, "cancelled");
    assert_text(last_event(w)->data.reason, "stop");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "step_leased:b step_running:b job_cancel_requested step_failed_retryable:b "
             "step_retrying:b step_succeeded:a job_cancelled");
}

static void a_soft_cancel_of_a_plan_turns_hard_after_its_time(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    w->now += 20000;
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    w->now += 10000;
    do_ok(w, by_engine(COMMAND_CANCEL_DUE));
    assert_status(w, "cancelled");
    refused(w, complete_with(w, "1"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: the lease has ended");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "job_cancel_requested job_cancelled");
}

static void a_step_that_fails_or_is_given_back_ends_a_cancelled_plan(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", false));
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, by_worker(w, COMMAND_CANCELLED));
    assert_status(w, "cancelled");
    assert_step(w, "a", "pending");
    story(w, "job_created plan_generated job_running step_leased:a job_cancel_requested "
             "step_lease_timeout:a step_pending:a job_cancelled");
    world_clear(w, 3);
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_status(w, "cancelled");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "job_cancel_requested step_failed_fatal:a step_failed:a job_cancelled");
}

/* ---- requeue ---- */

static void a_requeued_plan_keeps_what_succeeded(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']},{'id':'c','deps':['b']}]");
    step_done(w, "a", "1");
    step_fails(w, "b");
    assert_status(w, "failed");
    struct str dead = w->token;
    do_ok(w, requeue_by("again", false));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.plan_version, 2);
    assert_step(w, "a", "succeeded");
    assert_text(step_named(w, "a")->result, "1");
    assert_step(w, "b", "pending");
    assert_int_equal(step_named(w, "b")->failures, 0);
    assert_step(w, "c", "waiting_deps");
    refused(w, with_token(complete_with(w, "1"), dead), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step b is not live: its secret does not match");
    step_done(w, "b", "2");
    assert_int_equal(step_named(w, "b")->attempt, 2); /* fencing numbers never come again */
    step_done(w, "c", "3");
    assert_status(w, "completed");
    story_since(w, 12,
                "job_failed job_requeued plan_generated step_waiting_deps:c job_running "
                "step_leased:b step_running:b step_succeeded:b step_leased:c "
                "step_running:c step_succeeded:c job_completed");
}

static void a_fresh_requeue_runs_every_step_again(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, commit_of(w, "mail", "2"));
    do_ok(w, complete_with(w, "1"));
    step_fails(w, "b");
    do_ok(w, requeue_by("again", true));
    assert_step(w, "a", "pending");
    assert_text(step_named(w, "a")->result, NULL);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "9"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    do_ok(w, commit_of(w, "mail", "2"));
    do_ok(w, complete_with(w, "1"));
    step_done(w, "b", "2");
    assert_status(w, "completed");
    assert_null(world_check(w));
}

static void a_lost_resource_stays_lost_until_an_operator_starts_again(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "step \"a\" already failed on resource \"r1\" and avoids it");
    do_ok(w, step_claim_of(w, "a", "r2", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("again", false));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    assert_null(world_check(w));
}

static void an_operator_may_dead_letter_a_plan_that_has_not_begun(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    struct command command = by_user(COMMAND_DEAD_LETTER);
    command.dead_letter.reason_code = DEAD_POLICY_VIOLATION;
    do_ok(w, command);
    assert_status(w, "dead_lettered");
    do_ok(w, requeue_by("again", false));
    step_done(w, "a", "1");
    assert_status(w, "completed");
    story(w, "job_created plan_generated job_dead_lettered job_requeued plan_generated "
             "job_running step_leased:a step_running:a step_succeeded:a job_completed");
}

static void an_operator_may_dead_letter_a_plan_that_runs(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct command command = by_user(COMMAND_DEAD_LETTER);
    command.dead_letter.reason_code = DEAD_DEPENDENCY_UNAVAILABLE;
    command.dead_letter.stage = STAGE_FETCH;
    do_ok(w, command);
    assert_status(w, "dead_lettered");
    assert_int_equal(w->slice.job.dead_letter.stage, STAGE_FETCH);
    /* The worker of the step has nothing to write to any more. */
    refused(w, fail_as(w, CLASS_TRANSIENT), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: the lease has ended");
    assert_null(world_check(w));
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "job_dead_lettered");
}

static void planned_with_retry(struct world *w, struct retry_policy retry)
{
    struct spec spec = world_spec();
    spec.retry = retry;
    spec.plan = js(w, "{'steps':[{'id':'a','retry':{'max_attempts':1}}]}");
    do_ok(w, submit_of(&spec));
    do_ok(w, step_claim_of(w, "a", "r1", true));
}

static void a_planned_job_whose_step_is_out_of_retries_ends_as_on_exhausted_says(void **state)
{
    struct world *w = *state;
    struct retry_policy retry = retry_policy_for_jobs();
    planned_with_retry(w, retry);
    do_ok(w, fail_as(w, CLASS_TIMEOUT));
    assert_status(w, "dead_lettered");
    const struct dead_letter *letter = &w->slice.job.dead_letter;
    assert_int_equal(letter->reason_code, DEAD_TIMEOUT);
    assert_int_equal(letter->stage, STAGE_EXEC);
    assert_str(letter->last_error, js(w, "{'step':'a','class':'timeout','message':'it broke'}"));
    assert_null(world_check(w));
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "step_failed_fatal:a step_failed:a job_dead_lettered");
}

static void a_planned_job_that_does_not_say_fails_with_its_step(void **state)
{
    struct world *w = *state;
    struct retry_policy retry = retry_policy_for_jobs();
    retry.on_exhausted = EXHAUSTED_NONE;
    planned_with_retry(w, retry);
    assert_int_equal(w->slice.job.spec.retry.on_exhausted, EXHAUSTED_FAIL);
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    assert_status(w, "failed");
    assert_null(world_check(w));
}

static void a_planned_job_whose_step_fails_for_good_ends_as_on_permanent_says(void **state)
{
    struct world *w = *state;
    struct retry_policy retry = retry_policy_for_jobs();
    planned_with_retry(w, retry);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_status(w, "failed");
    world_clear(w, 1);
    retry.on_permanent = EXHAUSTED_DEAD_LETTER;
    planned_with_retry(w, retry);
    do_ok(w, fail_as(w, CLASS_VALIDATION));
    assert_status(w, "dead_lettered");
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_VALIDATION_FAILED);
    assert_null(world_check(w));
}

/* ---- replan ---- */

/* Whoever cannot answer would else get rid of the question. */
static void plan_is_for_who_may_answer(struct world *w)
{
    struct command plan = plan_of(w, "[{'id':'pay'}]");
    assert_status(w, "waiting");
    plan.no_answer = true;
    refused(w, plan, ERR_FORBIDDEN,
            "step \"ok\" has an open question: a new plan would end it, "
            "which requires a token with the scope answer");
    plan.blind = true;
    refused(w, plan, ERR_FORBIDDEN,
            "a step has an open question: a new plan would end it, which requires a token with the "
            "scope answer");
    assert_status(w, "waiting");
    do_ok(w, plan_of(w, "[{'id':'pay'}]"));
    assert_status(w, "queued");
}

static void a_plan_with_an_open_question_is_replaced_by_who_may_answer_only(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'ok','wait':{'type':'human'}},{'id':'pay','deps':['ok']}]");
    plan_is_for_who_may_answer(w);
}

static void a_plan_with_a_question_to_come_is_replaced_by_who_may_answer_only(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'ok','deps':['a'],'wait':{'type':'human'}}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    plan_is_for_who_may_answer(w);
}

static void a_question_that_was_answered_keeps_nobody_from_planning(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'ok','wait':{'type':'human'}},{'id':'a','deps':['ok']}]");
    do_ok(w, answer_of(w, "ok", "true"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    struct command plan = plan_of(w, "[{'id':'ok','wait':{'type':'human'}},{'id':'b'}]");
    plan.no_answer = true;
    do_ok(w, plan);
    assert_step(w, "ok", "succeeded");
}

static void a_replan_fails_the_step_and_waits_once_nothing_else_runs(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},{'id':'c','deps':['a','b']}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    struct str of_b = w->token;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    assert_step(w, "a", "failed");
    assert_status(w, "running");
    assert_true(w->slice.job.replan);
    refused(w, plan_of(w, "[{'id':'d'}]"), ERR_INVALID_TRANSITION,
            "the plan is running: give a step the verdict replan first");
    do_ok(w, with_token(complete_with(w, "7"), of_b));
    assert_status(w, "waiting");
    assert_int_equal(w->slice.job.wait.type, WAIT_REPLAN);
    assert_text(last_event(w)->data.reason, "because");
    do_ok(w, plan_of(w, "[{'id':'b'},{'id':'d','deps':['b']}]"));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.plan_version, 2);
    assert_false(w->slice.job.replan);
    assert_step(w, "b", "succeeded"); /* finished steps keep their results */
    assert_text(step_named(w, "b")->result, "7");
    step_done(w, "d", "8");
    assert_status(w, "completed");
    story(w, "job_created plan_generated step_waiting_deps:c job_running step_leased:b "
             "step_running:b step_leased:a step_running:a step_failed_fatal:a step_failed:a "
             "step_succeeded:b job_waiting plan_generated wait_completed job_running "
             "step_leased:d step_running:d step_succeeded:d job_completed");
}

static void while_a_plan_is_awaited_nothing_of_the_old_one_is_claimed(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},{'id':'c'}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    struct str of_b = w->token;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, with_token(verdict_on(NULL, VERDICT_REPLAN), w->token));
    refused(w, step_claim_of(w, "c", "r1", true), ERR_INVALID_TRANSITION,
            "the job waits for a new plan");
    do_ok(w, with_token(fail_as(w, CLASS_PERMANENT), of_b)); /* does not fail the job now */
    assert_status(w, "waiting");
    refused(w, step_claim_of(w, "c", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim a step of job {job}: it is waiting");
    story(w, "job_created plan_generated job_running step_leased:b step_running:b "
             "step_leased:a step_running:a step_failed_fatal:a step_failed:a "
             "step_failed_fatal:b step_failed:b job_waiting");
}

static void a_step_that_a_later_plan_brings_back_starts_above_all_that_left(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct str first = w->token;
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    do_ok(w, plan_of(w, "[{'id':'x'},{'id':'b'}]"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_REPLAN));
    do_ok(w, plan_of(w, "[{'id':'a'}]"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    assert_int_equal(step_named(w, "a")->attempt, 3);
    refused(w, with_token(complete_with(w, "1"), first), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: there is a newer attempt");
    do_ok(w, complete_with(w, "1"));
    assert_status(w, "completed");
    assert_null(world_check(w));
}

static void a_new_plan_of_nothing_but_finished_steps_completes_the_job(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    step_done(w, "a", "1");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_REPLAN));
    do_ok(w, plan_of(w, "[{'id':'a'}]"));
    assert_status(w, "completed");
    story_since(w, 10, "job_waiting plan_generated wait_completed job_running job_completed");
}

static void a_new_plan_may_begin_with_a_wait(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    do_ok(w, plan_of(w, "[{'id':'g','wait':{'type':'timer','delay_ms':5}}]"));
    assert_status(w, "waiting");
    assert_int_equal(w->slice.job.wait.type, WAIT_STEPS);
    story_since(w, 7,
                "job_waiting plan_generated wait_completed job_running step_leased:g "
                "step_running:g step_needs_user:g job_waiting");
}

static void an_answer_is_refused_while_a_plan_is_awaited_since_it_would_be_lost(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'g','wait':{'type':'signal','correlation_key':'k'}}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    assert_status(w, "waiting");
    refused(w, signal_of(w, "k", "1"), ERR_WRONG_CORRELATION_KEY,
            "the job waits for a new plan, not for \"k\"; use early: true to store the signal");
    assert_int_equal(w->slice.job.wait.type, WAIT_REPLAN);
    refused(w, on_step(by_engine(COMMAND_WAKE), "g"), ERR_INVALID_TRANSITION,
            "cannot wake step \"g\": it is needs_user, and the job waits for a new plan");
    story_since(w, 10, "job_waiting");
}

static void an_awaited_plan_can_be_cancelled(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION,
            "the wait of this job has no timeout");
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    assert_status(w, "cancelled");
    story_since(w, 7, "job_waiting job_cancelled");
}

/* A step dropped from a plan and brought back later finds its effect as it was left. */
static void an_open_effect_outlives_a_plan_without_its_step(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_RETRY;
    spec.plan = js(w, "{'steps':[{'id':'a'}]}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, begin_of(w, "post", "1"));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    do_ok(w, plan_of(w, "[{'id':'b'}]"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_REPLAN));
    do_ok(w, plan_of(w, "[{'id':'a'}]"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    refused(
        w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"post\" is open: commit, abort or begin it again first");
    do_ok(w, begin_of(w, "post", "1"));
    do_ok(w, commit_of(w, "mail", "2"));
    do_ok(w, commit_of(w, "post", "2"));
    do_ok(w, complete_with(w, "1"));
    assert_status(w, "completed");
    assert_null(world_check(w));
}

static void no_wait_step_begins_while_a_plan_is_awaited(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},"
               "{'id':'g','deps':['b'],'wait':{'type':'signal','correlation_key':'k'}}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    struct str of_b = w->token;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    do_ok(w, with_token(complete_with(w, "1"), of_b));
    assert_step(w, "g", "waiting_deps");
    assert_status(w, "waiting");
    story_since(w, 8, "step_failed_fatal:a step_failed:a step_succeeded:b job_waiting");
}

static void a_critic_at_work_holds_up_the_wait_for_a_new_plan(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','critic':true}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, complete_with(w, "7"));
    do_ok(w, judge_of("b"));
    struct str of_critic = w->token;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_REPLAN));
    assert_status(w, "running");
    do_ok(w, with_token(verdict_on(NULL, VERDICT_ACCEPT), of_critic));
    assert_status(w, "waiting");
    assert_step(w, "b", "succeeded");
    do_ok(w, plan_of(w, "[{'id':'b'},{'id':'c','deps':['b']}]"));
    assert_text(step_named(w, "b")->result, "7");
    story_since(w, 9,
                "step_failed_fatal:a step_failed:a step_succeeded:b job_waiting "
                "plan_generated wait_completed");
}

/* The result that "a" holds for its critic can be judged; the job waits on. */
static void a_held_step_can_be_judged_while_the_job_waits_for_a_new_plan(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','critic':true},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_REPLAN));
    assert_status(w, "waiting");
    do_ok(w, verdict_on("a", VERDICT_ACCEPT));
    assert_step(w, "a", "succeeded");
    assert_status(w, "waiting");
    assert_null(world_check(w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_queued_job_takes_a_plan),
        SCENARIO(a_plan_that_cannot_be_carried_out_is_refused_with_the_reason),
        SCENARIO(a_plan_has_its_limits),
        SCENARIO(a_plan_that_is_carried_out_is_not_replaced),
        SCENARIO(a_job_in_the_hands_of_a_worker_takes_no_plan),
        SCENARIO(a_job_may_go_on_by_a_plan_after_a_worker_gave_it_back),
        SCENARIO(two_parents_release_their_child_when_both_are_done),
        SCENARIO(a_thousand_parents_release_one_child_when_the_last_is_done),
        SCENARIO(several_final_steps_give_the_job_no_result),
        SCENARIO(a_failed_step_fails_its_job_at_once),
        SCENARIO(with_on_failure_continue_the_rest_goes_on_and_the_job_fails_at_the_end),
        SCENARIO(the_error_of_a_step_that_succeeded_is_not_that_of_its_job),
        SCENARIO(a_job_whose_only_step_failed_with_continue_fails),
        SCENARIO(a_failed_step_with_continue_waits_for_those_who_ask),
        SCENARIO(a_plan_that_nobody_works_on_is_cancelled_at_once),
        SCENARIO(a_soft_cancel_waits_for_every_step_that_runs),
        SCENARIO(a_soft_cancel_of_a_plan_turns_hard_after_its_time),
        SCENARIO(a_step_that_fails_or_is_given_back_ends_a_cancelled_plan),
        SCENARIO(a_requeued_plan_keeps_what_succeeded),
        SCENARIO(a_fresh_requeue_runs_every_step_again),
        SCENARIO(a_lost_resource_stays_lost_until_an_operator_starts_again),
        SCENARIO(an_operator_may_dead_letter_a_plan_that_has_not_begun),
        SCENARIO(an_operator_may_dead_letter_a_plan_that_runs),
        SCENARIO(a_planned_job_whose_step_is_out_of_retries_ends_as_on_exhausted_says),
        SCENARIO(a_planned_job_that_does_not_say_fails_with_its_step),
        SCENARIO(a_planned_job_whose_step_fails_for_good_ends_as_on_permanent_says),
        SCENARIO(a_plan_with_an_open_question_is_replaced_by_who_may_answer_only),
        SCENARIO(a_plan_with_a_question_to_come_is_replaced_by_who_may_answer_only),
        SCENARIO(a_question_that_was_answered_keeps_nobody_from_planning),
        SCENARIO(a_replan_fails_the_step_and_waits_once_nothing_else_runs),
        SCENARIO(while_a_plan_is_awaited_nothing_of_the_old_one_is_claimed),
        SCENARIO(a_step_that_a_later_plan_brings_back_starts_above_all_that_left),
        SCENARIO(a_new_plan_of_nothing_but_finished_steps_completes_the_job),
        SCENARIO(a_new_plan_may_begin_with_a_wait),
        SCENARIO(an_answer_is_refused_while_a_plan_is_awaited_since_it_would_be_lost),
        SCENARIO(an_awaited_plan_can_be_cancelled),
        SCENARIO(an_open_effect_outlives_a_plan_without_its_step),
        SCENARIO(no_wait_step_begins_while_a_plan_is_awaited),
        SCENARIO(a_critic_at_work_holds_up_the_wait_for_a_new_plan),
        SCENARIO(a_held_step_can_be_judged_while_the_job_waits_for_a_new_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
