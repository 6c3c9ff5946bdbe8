/* How long a job may live: expiry, deadline; and running it now. */
#include "core/lifetime.h"
#include "core/schedule_entry.h"
#include "scenario.h"

static void submit_for(struct world *w, int64_t expires_ms, int64_t deadline_ms,
                       enum exhausted_policy on_exhausted)
{
    struct spec spec = world_spec();
    spec.expires_ms = expires_ms;
    spec.deadline_ms = deadline_ms;
    spec.retry.on_exhausted = on_exhausted;
    do_ok(w, submit_of(&spec));
}

/* What the engine does with the job at this moment. */
static enum command_type due_now(struct world *w)
{
    struct context context = {.now = w->now, .arena = &w->arena};
    int64_t next = 0;
    return schedule_entry_due(&w->slice.job, NULL, &context, &next);
}

static void a_job_that_has_not_started_by_its_time_expires(void **state)
{
    struct world *w = *state;
    submit_for(w, 5000, 0, EXHAUSTED_NONE);
    assert_int_equal(job_expires_at(&w->slice.job), WORLD_START_MS + 5000);
    w->now += 4999;
    assert_int_equal(due_now(w), COMMAND_NONE);
    refused(w, by_engine(COMMAND_LIFETIME), ERR_INVALID_TRANSITION, "the job expires in 1 ms");
    w->now += 1;
    assert_int_equal(due_now(w), COMMAND_LIFETIME);
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "cancelled");
    assert_text(last_event(w)->data.reason, "expired");
    refused(w, by_engine(COMMAND_LIFETIME), ERR_INVALID_TRANSITION,
            "cannot end job {job}: it is cancelled");
    assert_null(world_check(w));
    story(w, "job_created job_cancelled");
}

static void a_job_that_has_started_does_not_expire(void **state)
{
    struct world *w = *state;
    submit_for(w, 5000, 0, EXHAUSTED_NONE);
    do_ok(w, claim_by("w1", true));
    assert_int_equal(job_expires_at(&w->slice.job), 0);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    w->now += 10000;
    refused(w, by_engine(COMMAND_LIFETIME), ERR_INVALID_TRANSITION,
            "the job has neither an expiry nor a deadline");
    do_ok(w, claim_by("w1", true));
    assert_null(world_check(w));
}

static void a_job_is_not_claimed_after_its_life_is_over(void **state)
{
    struct world *w = *state;
    submit_for(w, 5000, 0, EXHAUSTED_NONE);
    w->now += 5000;
    refused(w, claim_by("w1", true), ERR_INVALID_TRANSITION, "the job has expired");
    story(w, "job_created");
}

static void the_deadline_ends_a_running_job_and_its_lease(void **state)
{
    struct world *w = *state;
    submit_for(w, 0, 10000, EXHAUSTED_FAIL);
    w->now += 1000;
    do_ok(w, claim_by("w1", true));
    assert_int_equal(w->slice.job.lease.timeout_at, WORLD_START_MS + 10000);
    assert_int_equal(w->slice.job.lease.expires_at, WORLD_START_MS + 10000);
    struct command late = complete_with(w, "1");
    w->now = WORLD_START_MS + 10000;
    refused(w, late, ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has expired");
    assert_int_equal(due_now(w), COMMAND_LIFETIME);
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "failed");
    assert_text(last_event(w)->data.reason, "deadline");
    assert_str(w->slice.job.error,
               js(w, "{'class':'timeout','message':'the job had not ended by its deadline: "
                     "deadline_ms is 10000','stage':'exec'}"));
    assert_null(world_check(w));
    story(w, "job_created job_leased job_running job_failed");
}

static void the_deadline_makes_a_dead_letter_where_the_policy_says_so(void **state)
{
    struct world *w = *state;
    submit_for(w, 0, 10000, EXHAUSTED_DEAD_LETTER);
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    w->now = WORLD_START_MS + 10000;
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "dead_lettered");
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_TIMEOUT);
    assert_int_equal(w->slice.job.failures, 1);
    assert_null(world_check(w));
    story(w, "job_created job_leased job_running job_requeued job_dead_lettered");
}

static void the_deadline_ends_a_wait_too(void **state)
{
    struct world *w = *state;
    submit_for(w, 0, 10000, EXHAUSTED_FAIL);
    do_ok(w, claim_by("w1", true));
    do_ok(w, wait_for(w, "k", 0));
    w->now = WORLD_START_MS + 9999;
    assert_int_equal(due_now(w), COMMAND_NONE);
    w->now++;
    assert_int_equal(due_now(w), COMMAND_LIFETIME);
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "dead_lettered"); /* it was not running: it cannot have failed */
    assert_null(world_check(w));
    story(w, "job_created job_leased job_running job_waiting wait_completed job_dead_lettered");
}

static void the_deadline_cancels_a_job_that_is_to_be_cancelled(void **state)
{
    struct world *w = *state;
    submit_for(w, 0, 10000, EXHAUSTED_FAIL);
    do_ok(w, claim_by("w1", true));
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    w->now = WORLD_START_MS + 10000;
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "cancelled");
    assert_null(world_check(w));
}

static void a_requeue_gives_a_new_deadline_and_no_expiry(void **state)
{
    struct world *w = *state;
    submit_for(w, 5000, 10000, EXHAUSTED_DEAD_LETTER);
    struct command letter = by_user(COMMAND_DEAD_LETTER);
    letter.dead_letter.reason_code = DEAD_TIMEOUT;
    do_ok(w, letter);
    assert_int_equal(job_deadline_at(&w->slice.job), 0);
    w->now += 20000;
    do_ok(w, requeue_by("again", false));
    assert_int_equal(job_expires_at(&w->slice.job), 0);
    assert_int_equal(job_deadline_at(&w->slice.job), WORLD_START_MS + 30000);
    w->now = WORLD_START_MS + 30000;
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "dead_lettered");
    assert_null(world_check(w));
}

static void submit_plan(struct world *w, const char *steps, int64_t expires_ms, int64_t deadline_ms)
{
    struct spec spec = world_spec();
    spec.expires_ms = expires_ms;
    spec.deadline_ms = deadline_ms;
    spec.retry.on_exhausted = EXHAUSTED_NONE;
    spec.plan = js(w, steps);
    do_ok(w, submit_of(&spec));
}

static void a_planned_job_has_a_life_too(void **state)
{
    struct world *w = *state;
    submit_plan(w, "{'steps':[{'id':'a'}]}", 5000, 0);
    w->now += 5000;
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION, "the job has expired");
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "cancelled");
    assert_null(world_check(w));

    world_clear(w, 2);
    submit_plan(w, "{'steps':[{'id':'a'}]}", 0, 10000);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    w->now += 10000;
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "failed"); /* a job with a plan fails unless it asks for a dead letter */
    assert_null(world_check(w));

    world_clear(w, 3);
    submit_plan(w, "{'steps':[{'id':'a','wait':{'type':'signal','correlation_key':'k'}}]}", 0,
                10000);
    assert_status(w, "waiting");
    w->now += 10000;
    do_ok(w, by_engine(COMMAND_LIFETIME));
    assert_status(w, "failed");
    assert_null(world_check(w));
}

static void a_delay_beyond_the_life_of_a_job_is_refused(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 5000;
    spec.expires_ms = 5000;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST,
            "expires_ms is 5000, but the earliest start is in 5000 ms");
    spec.expires_ms = 0;
    spec.deadline_ms = 4000;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST,
            "deadline_ms is 4000, but the earliest start is in 5000 ms");
    spec.deadline_ms = DELAY_MS_MAX + 1;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST,
            "deadline_ms must be a whole number from 0 to 316224000000, not 316224000001");
}

static void a_scheduled_job_runs_now(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 60000;
    do_ok(w, submit_of(&spec));
    refused(w, claim_by("w1", true), ERR_INVALID_TRANSITION, "the job is not due for 60000 ms");
    do_ok(w, by_user(COMMAND_RUN));
    assert_int_equal(w->slice.job.run_at, w->now);
    assert_status(w, "queued");
    do_again(w, by_user(COMMAND_RUN));
    do_ok(w, claim_by("w1", true));
    refused(w, by_user(COMMAND_RUN), ERR_INVALID_TRANSITION,
            "only a scheduled or retrying job can be run now; this one is running");
    assert_null(world_check(w));
    story(w, "job_created job_requeued job_leased job_running");
}

static void a_retrying_job_runs_now_and_keeps_its_failures(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = 60000;
    do_ok(w, fail);
    assert_status(w, "retrying");
    struct command run = by_user(COMMAND_RUN);
    run.run.reason = STR("the mail server is back");
    do_ok(w, run);
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.failures, 1);
    assert_int_equal(w->slice.job.epoch, 1);
    assert_text(last_event(w)->data.reason, "the mail server is back");
    assert_null(world_check(w));
}

static struct command claim_of_version(const char *version)
{
    struct command claim = claim_by("w1", true);
    if (version != NULL)
        claim.claim.code_version = str_from(version);
    return claim;
}

static struct command repin(const char *from, const char *to)
{
    struct command command = by_user(COMMAND_REPIN);
    command.repin.to = str_from(to);
    if (from != NULL)
        command.repin.from = str_from(from);
    return command;
}

static void a_job_of_a_pinned_kind_stays_with_the_version_that_claims_it_first(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    w->kind.pin = true;
    do_ok(w, submit_of(&spec));
    refused(w, repin(NULL, "v42"), ERR_INVALID_TRANSITION,
            "only a live job that is pinned goes to another version; this one is queued and not "
            "pinned");
    do_ok(w, claim_of_version(NULL)); /* who says no version pins nothing */
    assert_false(str_is_set(w->slice.job.pin));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_of_version("v41"));
    assert_text(w->slice.job.pin, "v41");
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    refused(w, claim_of_version("v42"), ERR_INVALID_TRANSITION,
            "the job is pinned to the code version \"v41\"");
    refused(w, claim_of_version(NULL), ERR_INVALID_TRANSITION,
            "the job is pinned to the code version \"v41\"");
    do_ok(w, claim_of_version("v41"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    struct command again = by_user(COMMAND_REQUEUE);
    again.requeue.reason = STR("rolled back");
    do_ok(w, again);
    assert_text(w->slice.job.pin, "v41");
    do_ok(w, claim_of_version("v41"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    again.requeue.fresh = true;
    do_ok(w, again);
    assert_false(str_is_set(w->slice.job.pin));
    do_ok(w, claim_of_version("v42"));
    assert_text(w->slice.job.pin, "v42");
    assert_null(world_check(w));
}

static void a_pinned_job_is_pinned_to_another_version(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    w->kind.pin = true;
    do_ok(w, submit_of(&spec));
    do_ok(w, claim_of_version("v41"));
    refused(w, repin("v40", "v42"), ERR_INVALID_TRANSITION, "the job is pinned to \"v41\"");
    do_ok(w, repin("v41", "v42"));
    do_again(w, repin(NULL, "v42"));
    assert_text(w->slice.job.pin, "v42");
    do_ok(w, by_worker(w, COMMAND_RELEASE)); /* the lease that there was goes on */
    refused(w, claim_of_version("v41"), ERR_INVALID_TRANSITION,
            "the job is pinned to the code version \"v42\"");
    do_ok(w, claim_of_version("v42"));
    do_ok(w, by_worker(w, COMMAND_COMPLETE));
    refused(w, repin(NULL, "v43"), ERR_INVALID_TRANSITION,
            "only a live job that is pinned goes to another version; this one is completed");
    assert_null(world_check(w));
    story(w, "job_created job_leased job_running job_repinned job_requeued job_leased job_running "
             "job_completed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_job_that_has_not_started_by_its_time_expires),
        SCENARIO(a_job_that_has_started_does_not_expire),
        SCENARIO(a_job_is_not_claimed_after_its_life_is_over),
        SCENARIO(the_deadline_ends_a_running_job_and_its_lease),
        SCENARIO(the_deadline_makes_a_dead_letter_where_the_policy_says_so),
        SCENARIO(the_deadline_ends_a_wait_too),
        SCENARIO(the_deadline_cancels_a_job_that_is_to_be_cancelled),
        SCENARIO(a_requeue_gives_a_new_deadline_and_no_expiry),
        SCENARIO(a_planned_job_has_a_life_too),
        SCENARIO(a_delay_beyond_the_life_of_a_job_is_refused),
        SCENARIO(a_scheduled_job_runs_now),
        SCENARIO(a_retrying_job_runs_now_and_keeps_its_failures),
        SCENARIO(a_job_of_a_pinned_kind_stays_with_the_version_that_claims_it_first),
        SCENARIO(a_pinned_job_is_pinned_to_another_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
