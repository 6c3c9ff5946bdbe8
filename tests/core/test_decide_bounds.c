/* What keeps lives from going wrong in the long run: every loop has an end, every end can be left,
 * a repeat is the same request, and what was accepted can be read back. */
#include "scenario.h"

#include "core/spec.h"

static void lose_running(struct world *w, const char *step, const char *resource)
{
    do_ok(w, step_claim_of(w, step, resource, true));
    w->now += 30000;
    do_ok(w, on_step(expire_of(step_named(w, step)->attempt), step));
}

static void a_step_that_keeps_losing_its_lease_fails_in_the_end(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','retry':{'max_attempts':2}}]");
    lose_running(w, "a", "r1");
    assert_step(w, "a", "switching_resource");
    assert_int_equal(step_named(w, "a")->failures, 1);
    lose_running(w, "a", "r2");
    assert_step(w, "a", "failed");
    assert_status(w, "failed");
    story(w, "job_created plan_generated job_running step_leased:a step_running:a "
             "step_failed_resource:a step_switching_resource:a step_leased:a step_running:a "
             "step_failed_fatal:a step_failed:a job_failed");
}

static void a_step_that_kills_whoever_leases_it_fails_in_the_end(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','retry':{'max_attempts':2}}]");
    for (int64_t attempt = 1; attempt <= 2; attempt++) {
        do_ok(w, step_claim_of(w, "a", "r1", false));
        w->now += 30000;
        do_ok(w, on_step(expire_of(attempt), "a"));
    }
    assert_status(w, "failed");
    story(w, "job_created plan_generated job_running step_leased:a step_lease_timeout:a "
             "step_pending:a step_leased:a step_running:a step_failed_fatal:a step_failed:a "
             "job_failed");
}

static void a_lost_resource_frees_its_step_however_well_the_worker_beats(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct command lost = on_step(expire_of(1), "a");
    refused(w, lost, ERR_STALE_LEASE, "the lease of step \"a\" expires in 30000 ms");
    lost.expire.resource_lost = true;
    do_ok(w, lost);
    assert_step(w, "a", "switching_resource");
    assert_text(step_named(w, "a")->error,
                "{\"class\":\"resource\",\"message\":\"attempt 1 of worker "
                "w1 lost its resource\"}");
    assert_null(world_check(w));
}

static void a_repeat_that_asks_for_something_else_is_stale(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k1", 0));
    do_again(w, wait_for(w, "k1", 0));
    refused(w, wait_for(w, "k2", 0), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: it already ended with a different "
            "outcome");
    do_ok(w, signal_of(w, "k1", "1"));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    do_again(w, fail_as(w, CLASS_TRANSIENT));
    refused(w, fail_as(w, CLASS_PERMANENT), ERR_STALE_LEASE,
            "the token of attempt 2 of job {job} is not live: it already ended with a different "
            "outcome");
    assert_null(world_check(w));
}

static void a_verdict_is_repeated_only_as_it_was(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct command retry = with_token(verdict_on(NULL, VERDICT_RETRY), w->token);
    struct command accept = with_token(verdict_on(NULL, VERDICT_ACCEPT), w->token);
    do_ok(w, retry);
    do_again(w, retry);
    refused(w, accept, ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: it already ended with a "
            "different outcome");
    assert_null(world_check(w));
}

static void a_token_is_that_of_the_step_which_is_named(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    refused(w, with_token(verdict_on("b", VERDICT_ACCEPT), w->token), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job}, step a is not live: it belongs to another step");
    do_ok(w, with_token(verdict_on("a", VERDICT_ACCEPT), w->token));
    assert_null(world_check(w));
}

static void keys_for_systems_downstream_never_collide(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'a/b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "b/c", "1"));
    struct str first = w->last.result.effect_idempotency_key;
    do_ok(w, step_claim_of(w, "a/b", "r1", true));
    do_ok(w, begin_of(w, "c", "1"));
    struct str second = w->last.result.effect_idempotency_key;
    assert_false(str_eq(first, second));
    const size_t tail = strlen("/0/a/b%2Fc");
    assert_memory_equal(first.at + first.len - tail, "/0/a/b%2Fc", tail);
    assert_memory_equal(second.at + second.len - tail, "/0/a%2Fb/c", tail);
    do_ok(w, begin_of(w, "%2F", "1"));
    assert_str(w->last.result.effect_idempotency_key, message_text(w, "{job}/0/a%2Fb/%252F"));
}

static void an_operator_who_requeues_over_a_doubt_is_asked(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "pay", "1"));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    w->now = w->slice.job.run_at;
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "pay", "1"));
    assert_status(w, "failed");
    do_ok(w, requeue_by("look again", false));
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "pay", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_status(w, "waiting");
    do_ok(w, signal_of(w, "pay", "{'decision':'done','result':'receipt 7'}"));
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "pay", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    do_ok(w, complete_with(w, "1"));
    assert_null(world_check(w));
}

static void a_delayed_plan_that_begins_with_a_wait_is_started_by_one_wake(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 1000;
    spec.plan = js(w, "{'steps':[{'id':'t','wait':{'type':'timer','delay_ms':5}},"
                      "{'id':'u','wait':{'type':'timer','delay_ms':5}}]}");
    do_ok(w, (struct command){
                 .type = COMMAND_SUBMIT, .actor = STR("alice"), .submit = {.spec = &spec}});
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION, "the job is not due for 1000 ms");
    w->now += 1000;
    do_ok(w, by_engine(COMMAND_WAKE));
    assert_step(w, "t", "needs_user");
    assert_step(w, "u", "needs_user");
    assert_null(world_check(w));
}

static void an_older_stored_signal_is_delivered_first(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, plan_of(w, "[{'id':'g','wait':{'type':'signal','correlation_key':'k'}}]"));
    assert_true(w->last.result.wake);
    do_ok(w, signal_of(w, "k", "2"));
    assert_text(w->slice.job.result, "1");
    assert_int_equal(w->slice.job.stored_signals, 1);
    assert_null(world_check(w));
}

static void a_job_that_waits_for_its_steps_takes_a_new_plan(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'g','wait':{'type':'human'}}]");
    assert_status(w, "waiting");
    do_ok(w, plan_of(w, "[{'id':'a'}]"));
    assert_status(w, "queued");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    assert_status(w, "completed");
    assert_null(world_check(w));
}

static void a_failure_under_a_soft_cancel_is_not_forgotten(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    assert_status(w, "cancelled");
    assert_true(str_is_set(w->slice.job.error));
    assert_null(world_check(w));
}

static void what_cannot_be_read_back_is_not_accepted(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, complete_with(w, " "), ERR_BAD_REQUEST, "result must be JSON, not \"\"");
    struct command command = complete_with(w, "1");
    command.actor = STR("w1\n");
    refused(w, command, ERR_BAD_REQUEST, "actor must not contain control characters: \"w1?\"");
    w->now = INT64_C(253402300799999);
    refused(w, complete_with(w, "1"), ERR_UNAVAILABLE,
            "the clock is wrong: it says 253402300799999 ms since 1970");
}

static void settings_of_a_kind_have_bounds(void **state)
{
    (void)state;
    struct err err;
    struct kind_settings kind = {0};
    assert_int_equal(kind_settings_check(&kind, &err), ERR_OK);
    kind.lease_ttl_ms = 1;
    assert_int_equal(kind_settings_check(&kind, &err), ERR_BAD_REQUEST);
    kind = (struct kind_settings){.timeout_ms = -1};
    assert_int_equal(kind_settings_check(&kind, &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "timeout_ms must be from 0 to 316224000000, not -1");
    kind.timeout_ms = INT64_MAX;
    assert_int_equal(kind_settings_check(&kind, &err), ERR_BAD_REQUEST);
    kind = (struct kind_settings){.retention_ms = -1};
    assert_int_equal(kind_settings_check(&kind, &err), ERR_BAD_REQUEST);
    kind.retention_ms = INT64_MAX;
    assert_int_equal(kind_settings_check(&kind, &err), ERR_BAD_REQUEST);
    kind = (struct kind_settings){.retry = {.max_attempts = 3}};
    assert_int_equal(kind_settings_check(&kind, &err), ERR_BAD_REQUEST);
    kind.retry = retry_policy_for_jobs();
    assert_int_equal(kind_settings_check(&kind, &err), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_step_that_keeps_losing_its_lease_fails_in_the_end),
        SCENARIO(a_step_that_kills_whoever_leases_it_fails_in_the_end),
        SCENARIO(a_lost_resource_frees_its_step_however_well_the_worker_beats),
        SCENARIO(a_repeat_that_asks_for_something_else_is_stale),
        SCENARIO(a_verdict_is_repeated_only_as_it_was),
        SCENARIO(a_token_is_that_of_the_step_which_is_named),
        SCENARIO(keys_for_systems_downstream_never_collide),
        SCENARIO(an_operator_who_requeues_over_a_doubt_is_asked),
        SCENARIO(a_delayed_plan_that_begins_with_a_wait_is_started_by_one_wake),
        SCENARIO(an_older_stored_signal_is_delivered_first),
        SCENARIO(a_job_that_waits_for_its_steps_takes_a_new_plan),
        SCENARIO(a_failure_under_a_soft_cancel_is_not_forgotten),
        SCENARIO(what_cannot_be_read_back_is_not_accepted),
        SCENARIO(settings_of_a_kind_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
