/* One step: every move of its machine, its leases, its failures, its critic and the verdicts. */
#include "scenario.h"

#define ONE "[{'id':'a'}]"
#define BEGUN "job_created plan_generated job_running step_leased:a step_running:a"

/* ---- claim and start ---- */

static void the_first_lease_of_a_step_makes_its_job_run(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    assert_step(w, "a", "pending");
    do_ok(w, step_claim_of(w, "a", "r1", false));
    assert_step(w, "a", "leased");
    assert_status(w, "running");
    assert_int_equal(w->slice.job.attempt, 1);
    assert_false(w->slice.job.lease.live);
    assert_int_equal(step_named(w, "a")->attempt, 1);
    assert_text(step_named(w, "a")->lease.resource_id, "r1");
    assert_text(last_event(w)->cause_text, "step_claim:a");
    assert_int_equal(w->last.result.expires_at, w->now + 30000);
    do_ok(w, by_worker(w, COMMAND_START));
    assert_step(w, "a", "running");
    assert_text(last_event(w)->cause_text, "start:a#1");
    do_again(w, by_worker(w, COMMAND_START));
    do_ok(w, complete_with(w, "{'n':1}"));
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "{'n':1}"));
    story(w, BEGUN " step_succeeded:a job_completed");
}

static void a_step_with_open_dependencies_cannot_be_claimed(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    assert_step(w, "b", "waiting_deps");
    refused(w, step_claim_of(w, "b", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"b\": it is waiting_deps, its dependencies are open");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, step_claim_of(w, "b", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"b\": it is waiting_deps, its dependencies are open");
    do_ok(w, complete_with(w, "1"));
    do_ok(w, step_claim_of(w, "b", "r1", true)); /* waiting_deps -> leased */
    do_ok(w, complete_with(w, "2"));
    assert_text(w->slice.job.result, "2");
    story(w, "job_created plan_generated step_waiting_deps:b job_running step_leased:a "
             "step_running:a step_succeeded:a step_leased:b step_running:b step_succeeded:b "
             "job_completed");
}

static void a_step_that_is_held_or_done_cannot_be_claimed(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", false));
    refused(w, step_claim_of(w, "a", "r2", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"a\": it is leased");
    do_ok(w, by_worker(w, COMMAND_START));
    refused(w, step_claim_of(w, "a", "r2", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"a\": it is running");
    do_ok(w, complete_with(w, "1"));
    refused(w, step_claim_of(w, "a", "r2", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"a\": it is succeeded");
    story(w, BEGUN " step_succeeded:a");
}

static void a_step_claim_needs_a_worker_sound_terms_and_a_resource(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    struct command command = step_claim_of(w, "a", "r1", true);
    command.claim.worker_id = STR("");
    refused(w, command, ERR_BAD_REQUEST, "worker_id must not be empty");
    command = step_claim_of(w, "a", "r1", true);
    command.claim.terms.lease_ttl_ms = 7;
    refused(w, command, ERR_BAD_REQUEST,
            "lease_ttl_ms must be a whole number from 100 to 86400000, not 7");
    refused(w, step_claim_of(w, "a", NULL, true), ERR_BAD_REQUEST,
            "resource_id is required to claim a step");
    story(w, "job_created plan_generated");
}

static void a_step_runs_only_on_a_resource_that_fits(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','capabilities':['gpu'],'avoid':['bad']}]");
    struct resource *resource = resource_named(w, "r1");
    struct command command = step_claim_of(w, "a", "r1", true);
    command.claim.resource = resource;
    refused(w, command, ERR_INVALID_TRANSITION,
            "resource \"r1\" lacks the capability \"gpu\" required by step \"a\"");
    struct str gpu = STR("gpu");
    resource->capabilities = (struct names){&gpu, 1};
    resource->id = STR("bad");
    refused(w, command, ERR_INVALID_TRANSITION,
            "resource \"bad\" is on the avoid list of step \"a\"");
    resource->id = STR("r1");
    resource->used = resource->slots;
    refused(w, command, ERR_INVALID_TRANSITION,
            "resource \"r1\" has no free slot: 1000 of 1000 in use");
    resource->used = 0;
    do_ok(w, command);
    story(w, BEGUN);
}

static void steps_of_a_job_that_is_not_due_are_not_claimed(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 1000;
    spec.plan = js(w, "{'steps':" ONE "}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    w->now += 400;
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "the job is not due for 600 ms");
    w->now += 600;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    story(w, BEGUN);
}

static void a_token_of_a_step_is_checked_like_that_of_a_job(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct str old = w->token;
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, with_token(complete_with(w, "1"), old), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: there is a newer attempt");
    w->now += 30000;
    refused(w, complete_with(w, "1"), ERR_STALE_LEASE,
            "the token of attempt 2 of job {job}, step a is not live: the lease has expired");
    story(w, BEGUN " step_failed_retryable:a step_retrying:a step_running:a");
}

static void a_heartbeat_of_a_step_renews_its_own_lease(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','timeout_ms':40000}]");
    w->now += 20000;
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("3");
    beat.heartbeat.cursor = STR("c3");
    do_ok(w, beat);
    assert_int_equal(w->last.result.expires_at, WORLD_START_MS + 40000);
    assert_text(step_named(w, "a")->progress, "3");
    assert_text(w->slice.job.progress, NULL);
    do_ok(w, complete_with(w, "1"));
    assert_text(step_named(w, "a")->cursor, "c3");
    story(w, BEGUN " step_succeeded:a job_completed");
}

static void a_repeated_step_complete_is_answered_with_the_same_result_only(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, complete_with(w, "1"));
    do_again(w, complete_with(w, "1"));
    refused(w, complete_with(w, "2"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: it already ended with a "
            "different outcome");
    story(w, BEGUN " step_succeeded:a");
}

static void a_step_that_has_not_started_cannot_complete(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    do_ok(w, step_claim_of(w, "a", "r1", false));
    refused(w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
            "cannot complete step \"a\": it is leased and has not started");
    refused(w, begin_of(w, "k", "1"), ERR_INVALID_TRANSITION,
            "cannot begin an effect of step \"a\": it is not running");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    struct command command = complete_with(w, NULL);
    command.complete.result = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "result has 1048577 bytes; the limit is 1048576");
    story(w, "job_created plan_generated job_running step_leased:a");
}

/* ---- failures ---- */

static void a_failed_step_retries_after_its_backoff_straight_into_running(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    assert_step(w, "a", "retrying");
    assert_int_equal(step_named(w, "a")->failures, 1);
    assert_int_equal(step_named(w, "a")->not_before, w->now + 1000);
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "step \"a\" is not due for 1000 ms");
    w->now += 1000;
    do_ok(w, step_claim_of(w, "a", "r1", false)); /* retrying -> running, even without start */
    assert_step(w, "a", "running");
    assert_int_equal(step_named(w, "a")->attempt, 2);
    do_ok(w, fail_as(w, CLASS_TIMEOUT));
    assert_int_equal(step_named(w, "a")->not_before, w->now + 2000);
    story(w, BEGUN " step_failed_retryable:a step_retrying:a step_running:a "
                   "step_failed_retryable:a step_retrying:a");
}

static void a_step_is_retried_three_times_and_then_fails_its_job(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    for (int retry = 0; retry < 3; retry++) {
        do_ok(w, fail_as(w, CLASS_TRANSIENT));
        w->now += 30000;
        do_ok(w, step_claim_of(w, "a", "r1", true));
    }
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    assert_step(w, "a", "failed");
    assert_int_equal(step_named(w, "a")->failures, 4);
    assert_status(w, "failed");
    assert_str(w->slice.job.error, js(w, "{'step':'a','class':'transient','message':'it broke'}"));
    story_since(w, 14, "step_failed_fatal:a step_failed:a job_failed");
}

static void retry_after_of_a_step_replaces_its_backoff(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = -1;
    refused(w, fail, ERR_BAD_REQUEST, "retry_after_ms must be from 0 to 316224000000, not -1");
    fail.fail.retry_after_ms = 12345;
    do_ok(w, fail);
    assert_int_equal(step_named(w, "a")->not_before, w->now + 12345);
    do_again(w, fail);
    story(w, BEGUN " step_failed_retryable:a step_retrying:a");
}

static void permanent_and_validation_failures_of_a_step_are_fatal(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_status(w, "failed");
    do_ok(w, requeue_by("x", false));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_VALIDATION));
    assert_status(w, "failed");
    story(w, BEGUN " step_failed_fatal:a step_failed:a job_failed job_requeued plan_generated "
                   "job_running step_leased:a step_running:a step_failed_fatal:a step_failed:a "
                   "job_failed");
}

static void a_failure_before_the_start_is_one_at_the_start(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    do_ok(w, step_claim_of(w, "a", "r1", false));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    assert_step(w, "a", "retrying");
    story(w, BEGUN " step_failed_retryable:a step_retrying:a");
}

static void a_resource_failure_switches_and_never_goes_back(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    assert_step(w, "a", "switching_resource");
    assert_int_equal(step_named(w, "a")->failures, 0);
    assert_int_equal(step_named(w, "a")->avoided_count, 1);
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "step \"a\" already failed on resource \"r1\" and avoids it");
    do_ok(w, step_claim_of(w, "a", "r2", true)); /* switching_resource -> leased */
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "step \"a\" already failed on resource \"r1\" and avoids it");
    refused(w, step_claim_of(w, "a", "r2", true), ERR_INVALID_TRANSITION,
            "step \"a\" already failed on resource \"r2\" and avoids it");
    do_ok(w, step_claim_of(w, "a", "r3", true));
    do_ok(w, complete_with(w, "1"));
    story(w, BEGUN " step_failed_resource:a step_switching_resource:a step_leased:a "
                   "step_running:a step_failed_resource:a step_switching_resource:a "
                   "step_leased:a step_running:a step_succeeded:a job_completed");
}

static void a_step_that_lost_too_many_resources_fails(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    for (int i = 0; i < AVOID_MAX; i++) {
        do_ok(w, step_claim_of(w, "a", numbered(w, "r", i), true));
        do_ok(w, fail_as(w, CLASS_RESOURCE));
    }
    assert_int_equal(step_named(w, "a")->avoided_count, AVOID_MAX);
    do_ok(w, step_claim_of(w, "a", "last", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    assert_step(w, "a", "failed");
    story_since(w, 405, "step_failed_fatal:a step_failed:a job_failed");
}

static void a_step_failure_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.message = STR("\xff");
    refused(w, fail, ERR_BAD_REQUEST, "error.message is not valid UTF-8");
    story(w, BEGUN);
}

/* ---- release and expiry ---- */

static void a_released_step_costs_nothing(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_step(w, "a", "retrying");
    assert_int_equal(step_named(w, "a")->failures, 0);
    do_again(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    story(w, BEGUN " step_failed_retryable:a step_retrying:a step_running:a");
}

static void a_step_given_back_before_its_start_is_pending_again(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    do_ok(w, step_claim_of(w, "a", "r1", false));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_step(w, "a", "pending");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    story(w, "job_created plan_generated job_running step_leased:a step_lease_timeout:a "
             "step_pending:a step_leased:a step_running:a");
}

static void a_lease_that_ends_before_the_start_is_a_lease_timeout(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    do_ok(w, step_claim_of(w, "a", "r1", false));
    w->now += 29000;
    refused(w, on_step(expire_of(1), "a"), ERR_STALE_LEASE,
            "the lease of step \"a\" expires in 1000 ms");
    refused(w, on_step(expire_of(2), "a"), ERR_STALE_LEASE,
            "attempt 2 of step \"a\" has no live lease to expire");
    w->now += 1000;
    do_ok(w, on_step(expire_of(1), "a"));
    assert_step(w, "a", "pending");
    assert_int_equal(step_named(w, "a")->failures, 1);
    refused(w, on_step(expire_of(1), "a"), ERR_STALE_LEASE,
            "attempt 1 of step \"a\" has no live lease to expire");
    do_ok(w, step_claim_of(w, "a", "r1", true)); /* the resource was not lost */
    story(w, "job_created plan_generated job_running step_leased:a step_lease_timeout:a "
             "step_pending:a step_leased:a step_running:a");
}

static void a_running_step_whose_lease_dies_switches_its_resource(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    w->now += 30000;
    do_ok(w, on_step(expire_of(1), "a"));
    assert_step(w, "a", "switching_resource");
    assert_str(step_named(w, "a")->error,
               js(w, "{'class':'resource',"
                     "'message':'the lease of attempt 1, held by worker w1, expired'}"));
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "step \"a\" already failed on resource \"r1\" and avoids it");
    story(w, BEGUN " step_failed_resource:a step_switching_resource:a");
}

static void a_step_that_runs_into_its_timeout_is_retried(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','timeout_ms':5000}]");
    w->now += 5000;
    do_ok(w, on_step(expire_of(1), "a"));
    assert_step(w, "a", "retrying");
    assert_int_equal(step_named(w, "a")->failures, 1);
    assert_str(step_named(w, "a")->error,
               js(w, "{'class':'timeout','message':'attempt 1 of worker w1 timed out'}"));
    story(w, BEGUN " step_failed_retryable:a step_retrying:a");
}

static void a_step_lost_before_its_timeout_switches_its_resource(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','timeout_ms':60000}]");
    w->now += 30000;
    do_ok(w, on_step(expire_of(1), "a"));
    assert_step(w, "a", "switching_resource");
    story(w, BEGUN " step_failed_resource:a step_switching_resource:a");
}

static void a_step_lease_from_before_an_outage_gets_grace(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    w->now += 3600000;
    w->up_since = w->now;
    refused(w, on_step(expire_of(1), "a"), ERR_STALE_LEASE,
            "the lease of step \"a\" expires in 15000 ms");
    do_ok(w, complete_with(w, "1"));
    story(w, BEGUN " step_succeeded:a job_completed");
}

/* ---- verdicts ---- */

static void an_operator_accepts_a_running_step(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct command accept = verdict_on("a", VERDICT_ACCEPT);
    accept.verdict.result = STR("7");
    do_ok(w, accept);
    assert_text(last_event(w)->data.result, "7");
    assert_text(w->slice.job.result, "7");
    refused(w, complete_with(w, "1"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: the lease has ended");
    story(w, BEGUN " step_succeeded:a job_completed");
}

static void a_worker_judges_its_own_step(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct command accept = with_token(verdict_on(NULL, VERDICT_ACCEPT), w->token);
    accept.verdict.result = STR("7");
    do_ok(w, accept);
    assert_status(w, "completed");
    do_again(w, accept);
    story(w, BEGUN " step_succeeded:a job_completed");
}

static void verdicts_of_retry_are_bounded(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','retry':{'max_attempts':2}}]");
    do_ok(w, verdict_on("a", VERDICT_RETRY));
    assert_step(w, "a", "retrying");
    assert_int_equal(step_named(w, "a")->failures, 1);
    w->now += 1000;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_RETRY));
    assert_step(w, "a", "failed");
    assert_status(w, "failed");
    story(w, BEGUN " step_failed_retryable:a step_retrying:a step_running:a "
                   "step_failed_fatal:a step_failed:a job_failed");
}

static void a_verdict_of_switch_resource_loses_the_resource(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, verdict_on("a", VERDICT_SWITCH_RESOURCE));
    assert_step(w, "a", "switching_resource");
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "step \"a\" already failed on resource \"r1\" and avoids it");
    story(w, BEGUN " step_failed_resource:a step_switching_resource:a");
}

static void a_verdict_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    planned(w, ONE);
    refused(w, verdict_on("a", VERDICT_ACCEPT), ERR_INVALID_TRANSITION,
            "cannot judge step \"a\": it is pending");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, verdict_on("a", VERDICT_NONE), ERR_BAD_REQUEST,
            "decision must be accept, retry, switch_resource, replan or needs_user");
    struct command command = verdict_on("a", VERDICT_ACCEPT);
    command.verdict.reason = STR("\xff");
    refused(w, command, ERR_BAD_REQUEST, "reason is not valid UTF-8");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    command = verdict_on("a", VERDICT_ACCEPT);
    command.verdict.result = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "result has 1048577 bytes; the limit is 1048576");
    do_ok(w, cancel_by(CANCEL_HARD, ""));
    refused(w, verdict_on("a", VERDICT_ACCEPT), ERR_INVALID_TRANSITION,
            "cannot judge a step of job {job}: it is cancelled");
    story(w, BEGUN " job_cancelled");
}

/* ---- the critic ---- */

#define CRITIC "[{'id':'a','critic':true}]"
#define HELD BEGUN " step_finished:a"

static void a_step_that_asks_for_a_critic_is_held_until_judged(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("99");
    do_ok(w, beat);
    do_ok(w, complete_with(w, "{'draft':1}"));
    assert_step(w, "a", "running");
    assert_true(step_named(w, "a")->held);
    assert_str(step_named(w, "a")->result, js(w, "{'draft':1}"));
    assert_status(w, "running");
    do_again(w, complete_with(w, "{'draft':1}"));
    do_ok(w, judge_of("a"));
    assert_int_equal(step_named(w, "a")->attempt, 2);
    assert_text(step_named(w, "a")->lease.resource_id, "r1");
    do_ok(w, with_token(verdict_on(NULL, VERDICT_ACCEPT), w->token));
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "{'draft':1}"));
    story(w, HELD " step_judging:a step_succeeded:a job_completed");
}

static void a_held_step_can_be_judged_by_an_operator_without_a_claim(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    do_ok(w, complete_with(w, "1"));
    struct command accept = verdict_on("a", VERDICT_ACCEPT);
    accept.verdict.result = STR("2");
    do_ok(w, accept);
    assert_text(w->slice.job.result, "2");
    story(w, HELD " step_succeeded:a job_completed");
}

static void a_worker_cannot_be_its_own_critic(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    struct command accept = with_token(verdict_on(NULL, VERDICT_ACCEPT), w->token);
    accept.verdict.result = STR("1");
    do_ok(w, accept);
    assert_true(step_named(w, "a")->held);
    assert_status(w, "running");
    story(w, HELD);
}

static void only_a_held_step_is_given_to_a_critic_and_to_one_at_a_time(void **state)
{
    struct world *w = *state;
    planned(w, CRITIC);
    refused(w, judge_of("a"), ERR_INVALID_TRANSITION, "cannot judge step \"a\": it is pending");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, judge_of("a"), ERR_INVALID_TRANSITION, "cannot judge step \"a\": it is running");
    do_ok(w, complete_with(w, "1"));
    refused(w, step_claim_of(w, "a", "r2", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"a\": it is running");
    do_ok(w, judge_of("a"));
    refused(w, judge_of("a"), ERR_INVALID_TRANSITION,
            "cannot judge step \"a\": it is running and being judged");
    refused(w, complete_with(w, "2"), ERR_INVALID_TRANSITION,
            "cannot complete step \"a\": it is running, its result is being judged: give a "
            "verdict");
    refused(w, begin_of(w, "k", "1"), ERR_INVALID_TRANSITION,
            "cannot begin an effect of step \"a\": it is not running");
    story(w, HELD " step_judging:a");
}

static void a_critic_that_gives_up_leaves_the_result_held(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    do_ok(w, complete_with(w, "1"));
    do_ok(w, judge_of("a"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_true(step_named(w, "a")->held);
    do_ok(w, judge_of("a"));
    assert_int_equal(step_named(w, "a")->failures, 0);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_true(step_named(w, "a")->held);
    assert_int_equal(step_named(w, "a")->failures, 1);
    do_ok(w, judge_of("a"));
    w->now += 30000;
    do_ok(w, on_step(expire_of(4), "a"));
    assert_true(step_named(w, "a")->held);
    assert_text(step_named(w, "a")->result, "1");
    assert_int_equal(step_named(w, "a")->failures, 2);
    story(w, HELD " step_judging:a step_finished:a step_judging:a step_finished:a "
                  "step_judging:a step_finished:a");
}

static void critics_that_fail_too_often_fail_the_step(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','critic':true,'retry':{'max_attempts':2}}]");
    do_ok(w, complete_with(w, "1"));
    do_ok(w, judge_of("a"));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    do_ok(w, judge_of("a"));
    w->now += 30000;
    do_ok(w, on_step(expire_of(3), "a"));
    assert_step(w, "a", "failed");
    story(w, HELD " step_judging:a step_finished:a step_judging:a step_failed_fatal:a "
                  "step_failed:a job_failed");
}

static void a_critic_may_ask_for_another_try_and_the_result_is_gone(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    do_ok(w, complete_with(w, "1"));
    do_ok(w, judge_of("a"));
    do_ok(w, with_token(verdict_on(NULL, VERDICT_RETRY), w->token));
    assert_step(w, "a", "retrying");
    assert_false(step_named(w, "a")->held);
    assert_text(step_named(w, "a")->result, NULL);
    w->now += 1000;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, NULL));
    assert_text(step_named(w, "a")->result, NULL);
    story(w, HELD " step_judging:a step_failed_retryable:a step_retrying:a step_running:a "
                  "step_finished:a");
}

static void a_critic_may_send_the_work_to_another_resource(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    do_ok(w, complete_with(w, "1"));
    do_ok(w, judge_of("a"));
    do_ok(w, with_token(verdict_on(NULL, VERDICT_SWITCH_RESOURCE), w->token));
    assert_text(step_named(w, "a")->avoided[0], "r1");
    do_ok(w, step_claim_of(w, "a", "r2", true));
    story(w, HELD " step_judging:a step_failed_resource:a step_switching_resource:a "
                  "step_leased:a step_running:a");
}

/* What a critic did not accept must not come back as the result of a later attempt. */
static void a_result_that_led_to_a_question_is_not_that_of_the_next_attempt(void **state)
{
    struct world *w = *state;
    step_running(w, CRITIC);
    do_ok(w, complete_with(w, "'doubtful'"));
    do_ok(w, verdict_on("a", VERDICT_NEEDS_USER));
    do_ok(w, answer_of(w, "a", "'again'"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, NULL));
    assert_true(step_named(w, "a")->held);
    assert_text(step_named(w, "a")->result, NULL);
    story(w, HELD " step_needs_user:a job_waiting signal_received:a wait_completed job_running "
                  "step_running:a step_finished:a");
}

/* ---- effects of steps ---- */

static void effects_of_a_step_are_its_own(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct str of_a = w->token;
    do_ok(w, begin_of(w, "mail", "1"));
    assert_str(w->last.result.effect_idempotency_key, message_text(w, "{job}/0/a/mail"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, begin_of(w, "mail", "2"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    refused(
        w, with_token(complete_with(w, "1"), of_a), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"mail\" is open: commit, abort or begin it again first");
    refused(
        w, verdict_on("b", VERDICT_ACCEPT), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"mail\" is open: commit, abort or begin it again first");
    do_ok(w, commit_of(w, "mail", "3"));
    do_ok(w, complete_with(w, "1"));
    assert_int_equal(step_named(w, "a")->open_effects, 1);
    story(w, BEGUN " tool_called:a step_leased:b step_running:b tool_called:b tool_returned:b "
                   "step_succeeded:b");
}

static void an_effect_of_a_step_in_doubt_fails_the_step(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, begin_of(w, "mail", "1"));
    w->now += 30000;
    do_ok(w, on_step(expire_of(1), "a"));
    do_ok(w, step_claim_of(w, "a", "r2", true));
    do_ok(w, begin_of(w, "mail", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_step(w, "a", "failed");
    assert_status(w, "failed");
    story(w, BEGUN " tool_called:a step_failed_resource:a step_switching_resource:a "
                   "step_leased:a step_running:a step_failed_fatal:a step_failed:a job_failed");
}

static void an_open_effect_of_a_step_stays_in_doubt_across_a_requeue(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_RETRY;
    spec.plan = js(w, "{'steps':" ONE "}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("again", false));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(
        w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"mail\" is open: commit, abort or begin it again first");
    do_ok(w, begin_of(w, "mail", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    do_ok(w, commit_of(w, "mail", "2"));
    assert_int_equal(step_named(w, "a")->open_effects, 0);
    do_ok(w, complete_with(w, "1"));
    story_since(w, 9,
                "job_requeued plan_generated job_running step_leased:a step_running:a "
                "tool_called:a tool_returned:a step_succeeded:a job_completed");
}

static void the_holder_of_a_step_appends_under_its_lease(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct appended event = {STR("node_started"), STR("1")};
    struct command command = by_worker(w, COMMAND_APPEND);
    command.append.events = &event;
    command.append.count = 1;
    command.append.expected_version = -1;
    do_ok(w, command);
    assert_text(last_event(w)->cause_text, "append:a#1");
    story(w, BEGUN " node_started");
}

/* The number of an attempt stands behind the last '#' of a cause. */
static void a_step_may_have_a_hash_in_its_name(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a#7'},{'id':'a','deps':['a#7']}]");
    do_ok(w, step_claim_of(w, "a#7", "r1", false));
    w->now += 30000;
    do_ok(w, on_step(expire_of(1), "a#7"));
    do_ok(w, step_claim_of(w, "a#7", "r1", true));
    do_ok(w, verdict_on("a#7", VERDICT_ACCEPT));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created plan_generated step_waiting_deps:a job_running step_leased:a#7 "
             "step_lease_timeout:a#7 step_pending:a#7 step_leased:a#7 step_running:a#7 "
             "step_succeeded:a#7 step_leased:a step_running:a step_succeeded:a job_completed");
}

/* ---- the whole machine ---- */

/* Folds the stream and notes every move that a step made. */
static void note_moves(struct world *w, bool seen[STEP_STATE_COUNT][STEP_STATE_COUNT])
{
    struct job_slice slice;
    size_t count;
    struct event *events = world_stream(w, &count);
    job_slice_init(&slice, w->slice.job.id, 1);
    for (size_t i = 0; i < count; i++) {
        bool moves = event_type_class(events[i].type) == EVENT_CLASS_STEP;
        enum step_state from = moves ? job_step(&slice, events[i].data.step)->state : STEP_PENDING;
        assert_int_equal(job_evolve(&slice, &events[i], &w->arena, &w->err), ERR_OK);
        if (moves)
            seen[from][job_step(&slice, events[i].data.step)->state] = true;
    }
}

static void every_move_of_the_machine_is_made_and_no_other(void **state)
{
    struct world *w = *state;
    bool seen[STEP_STATE_COUNT][STEP_STATE_COUNT] = {{false}};
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, step_claim_of(w, "a", "r1", false));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    w->now += 1000;
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    do_ok(w, step_claim_of(w, "a", "r2", true));
    do_ok(w, verdict_on("a", VERDICT_NEEDS_USER));
    do_ok(w, answer_of(w, "a", "1"));
    do_ok(w, step_claim_of(w, "a", "r2", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, step_claim_of(w, "b", "r2", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    note_moves(w, seen);
    for (int from = 0; from < STEP_STATE_COUNT; from++)
        for (int to = 0; to < STEP_STATE_COUNT; to++)
            assert_int_equal(seen[from][to], step_move((enum step_state)from, (enum step_state)to));
    assert_null(world_check(w));
}

/* The caller loads too little: nothing is written. */
static void a_success_whose_children_are_not_loaded_is_corrupt(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    w->slice.step_count = 1;
    refused(w, complete_with(w, "1"), ERR_CORRUPT,
            "event 7 (step_succeeded) refers to a child of step \"a\", which does not exist");
}

static void a_resource_without_a_name_is_refused(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    refused(w, step_claim_of(w, "a", "", true), ERR_BAD_REQUEST, "resource_id must not be empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(the_first_lease_of_a_step_makes_its_job_run),
        SCENARIO(a_step_with_open_dependencies_cannot_be_claimed),
        SCENARIO(a_step_that_is_held_or_done_cannot_be_claimed),
        SCENARIO(a_step_claim_needs_a_worker_sound_terms_and_a_resource),
        SCENARIO(a_step_runs_only_on_a_resource_that_fits),
        SCENARIO(steps_of_a_job_that_is_not_due_are_not_claimed),
        SCENARIO(a_token_of_a_step_is_checked_like_that_of_a_job),
        SCENARIO(a_heartbeat_of_a_step_renews_its_own_lease),
        SCENARIO(a_repeated_step_complete_is_answered_with_the_same_result_only),
        SCENARIO(a_step_that_has_not_started_cannot_complete),
        SCENARIO(a_failed_step_retries_after_its_backoff_straight_into_running),
        SCENARIO(a_step_is_retried_three_times_and_then_fails_its_job),
        SCENARIO(retry_after_of_a_step_replaces_its_backoff),
        SCENARIO(permanent_and_validation_failures_of_a_step_are_fatal),
        SCENARIO(a_failure_before_the_start_is_one_at_the_start),
        SCENARIO(a_resource_failure_switches_and_never_goes_back),
        SCENARIO(a_step_that_lost_too_many_resources_fails),
        SCENARIO(a_step_failure_that_is_not_sound_is_refused),
        SCENARIO(a_released_step_costs_nothing),
        SCENARIO(a_step_given_back_before_its_start_is_pending_again),
        SCENARIO(a_lease_that_ends_before_the_start_is_a_lease_timeout),
        SCENARIO(a_running_step_whose_lease_dies_switches_its_resource),
        SCENARIO(a_step_that_runs_into_its_timeout_is_retried),
        SCENARIO(a_step_lost_before_its_timeout_switches_its_resource),
        SCENARIO(a_step_lease_from_before_an_outage_gets_grace),
        SCENARIO(an_operator_accepts_a_running_step),
        SCENARIO(a_worker_judges_its_own_step),
        SCENARIO(verdicts_of_retry_are_bounded),
        SCENARIO(a_verdict_of_switch_resource_loses_the_resource),
        SCENARIO(a_verdict_that_is_not_sound_is_refused),
        SCENARIO(a_step_that_asks_for_a_critic_is_held_until_judged),
        SCENARIO(a_held_step_can_be_judged_by_an_operator_without_a_claim),
        SCENARIO(a_worker_cannot_be_its_own_critic),
        SCENARIO(only_a_held_step_is_given_to_a_critic_and_to_one_at_a_time),
        SCENARIO(a_critic_that_gives_up_leaves_the_result_held),
        SCENARIO(critics_that_fail_too_often_fail_the_step),
        SCENARIO(a_critic_may_ask_for_another_try_and_the_result_is_gone),
        SCENARIO(a_critic_may_send_the_work_to_another_resource),
        SCENARIO(a_result_that_led_to_a_question_is_not_that_of_the_next_attempt),
        SCENARIO(effects_of_a_step_are_its_own),
        SCENARIO(an_effect_of_a_step_in_doubt_fails_the_step),
        SCENARIO(an_open_effect_of_a_step_stays_in_doubt_across_a_requeue),
        SCENARIO(the_holder_of_a_step_appends_under_its_lease),
        SCENARIO(a_step_may_have_a_hash_in_its_name),
        SCENARIO(every_move_of_the_machine_is_made_and_no_other),
        SCENARIO(a_success_whose_children_are_not_loaded_is_corrupt),
        SCENARIO(a_resource_without_a_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
