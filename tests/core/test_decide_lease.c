/* The life of a lease: claim, start, heartbeat, complete, fail, release, cancelled, abandon,
 * expire. */
#include "scenario.h"

/* ---- claim and start ---- */

static void a_claim_leases_and_a_start_runs(void **state)
{
    struct world *w = *state;
    submitted(w);
    w->now += 10;
    do_ok(w, claim_by("w1", false));
    assert_status(w, "leased");
    assert_int_equal(w->slice.job.attempt, 1);
    assert_true(w->slice.job.lease.live);
    assert_text(w->slice.job.lease.worker_id, "w1");
    assert_int_equal(w->last.result.expires_at, w->now + 30000);
    do_ok(w, by_worker(w, COMMAND_START));
    assert_status(w, "running");
    assert_text(last_event(w)->cause_text, "start#1");
    story(w, "job_created job_leased job_running");
}

static void a_claim_may_start_at_once_in_one_commit(void **state)
{
    struct world *w = *state;
    running(w);
    assert_int_equal(w->last.count, 2);
    assert_status(w, "running");
    story(w, "job_created job_leased job_running");
}

static void a_second_start_is_answered_and_adds_nothing(void **state)
{
    struct world *w = *state;
    running(w);
    do_again(w, by_worker(w, COMMAND_START));
    story(w, "job_created job_leased job_running");
}

static void a_leased_job_cannot_be_claimed_again(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    refused(w, claim_by("w2", true), ERR_INVALID_TRANSITION,
            "cannot claim job {job}: it is leased and has not started");
    do_ok(w, by_worker(w, COMMAND_START));
    refused(w, claim_by("w2", true), ERR_INVALID_TRANSITION,
            "cannot claim job {job}: it is running");
    story(w, "job_created job_leased job_running");
}

static void a_job_is_not_claimed_before_it_is_due(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 1000;
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    w->now += 999;
    refused(w, claim_by("w1", true), ERR_INVALID_TRANSITION, "the job is not due for 1 ms");
    w->now += 1;
    do_ok(w, claim_by("w1", true));
    story(w, "job_created job_leased job_running");
}

static void a_claim_needs_a_worker_and_sound_terms(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct command command = claim_by("", true);
    refused(w, command, ERR_BAD_REQUEST, "worker_id must not be empty");
    command = claim_by("w1", true);
    command.claim.terms.lease_ttl_ms = 86400001;
    refused(w, command, ERR_BAD_REQUEST,
            "lease_ttl_ms must be a whole number from 100 to 86400000, not 86400001");
    command = claim_by("w1", true);
    command.claim.terms.heartbeat_ms = 49;
    refused(w, command, ERR_BAD_REQUEST,
            "heartbeat_ms must be a whole number from 50 to 86400000, not 49");
    story(w, "job_created");
}

static void a_claim_needs_the_capabilities_of_the_job(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.capabilities = js(w, "['gpu','eu']");
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    refused(w, claim_by("w1", true), ERR_INVALID_TRANSITION,
            "the job requires the capability \"gpu\", which worker w1 lacks");
    struct str have[] = {STR("gpu"), STR("eu"), STR("x")};
    struct names names = {have, 1};
    struct command command = claim_by("w1", true);
    command.claim.capabilities = &names;
    refused(w, command, ERR_INVALID_TRANSITION,
            "the job requires the capability \"eu\", which worker w1 lacks");
    names.count = 3;
    do_ok(w, command);
    story(w, "job_created job_leased job_running");
}

static void a_job_with_a_plan_is_never_given_out_by_a_job_claim(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    refused(w, claim_by("w1", true), ERR_INVALID_TRANSITION,
            "the job has a plan: claim its steps instead");
    story(w, "job_created plan_generated");
}

/* claim > job > kind > default. */
static void lease_terms_come_from_claim_then_job_then_kind_then_default(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    w->kind.lease_ttl_ms = 40000;
    w->kind.heartbeat_ms = 5000;
    w->kind.timeout_ms = 90000;
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    do_ok(w, claim_by("w1", true));
    assert_int_equal(w->slice.job.lease.lease_ttl_ms, 40000);
    assert_int_equal(w->slice.job.lease.heartbeat_ms, 5000);
    assert_int_equal(w->slice.job.lease.expires_at, w->now + 10000); /* two beats */
    assert_int_equal(w->slice.job.lease.timeout_at, w->now + 90000);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    struct command command = claim_by("w1", true);
    command.claim.terms = (struct lease_terms){.lease_ttl_ms = 400, .heartbeat_ms = 200};
    do_ok(w, command);
    assert_int_equal(w->slice.job.lease.lease_ttl_ms, 400);
    assert_int_equal(w->slice.job.lease.heartbeat_ms, 200);
    assert_int_equal(w->slice.job.lease.expires_at, w->now + 400);
    story(w, "job_created job_leased job_running job_requeued job_leased job_running");
}

static void terms_of_the_job_stand_above_those_of_its_kind(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.lease_ttl_ms = 2000;
    spec.timeout_ms = 5000;
    w->kind.lease_ttl_ms = 40000;
    w->kind.heartbeat_ms = 30000;
    w->kind.timeout_ms = 90000;
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    do_ok(w, claim_by("w1", true));
    assert_int_equal(w->slice.job.lease.lease_ttl_ms, 2000);
    assert_int_equal(w->slice.job.lease.heartbeat_ms, 1000); /* never above half of the TTL */
    assert_int_equal(w->slice.job.lease.timeout_at, w->now + 5000);
    story(w, "job_created job_leased job_running");
}

static void the_attempt_rises_with_every_claim_and_across_epochs(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_by("w1", true));
    assert_int_equal(w->slice.job.attempt, 2);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_status(w, "failed");
    do_ok(w, requeue_by("again", false));
    assert_int_equal(w->slice.job.epoch, 2);
    do_ok(w, claim_by("w1", true));
    assert_int_equal(w->slice.job.attempt, 3);
    story(w, "job_created job_leased job_running job_requeued job_leased job_running job_failed "
             "job_requeued job_leased job_running");
}

/* ---- tokens ---- */

static void a_late_completion_after_reclaim_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    struct str late = w->token;
    w->now += 30000;
    do_ok(w, expire_of(1));
    w->now += 1000;
    do_ok(w, claim_by("w2", true));
    refused(w, with_token(complete_with(w, "1"), late), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: there is a newer attempt");
    do_ok(w, complete_with(w, "2"));
    assert_text(w->slice.job.result, "2");
    story(w, "job_created job_leased job_running job_requeued job_leased job_running "
             "job_completed");
}

static void a_token_is_stale_from_the_moment_its_lease_can_be_taken(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 29999;
    do_ok(w, by_worker(w, COMMAND_START)); /* live in its last millisecond */
    w->now += 1;
    refused(w, complete_with(w, "1"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has expired");
    refused(w, by_worker(w, COMMAND_HEARTBEAT), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has expired");
    story(w, "job_created job_leased job_running");
}

static void a_forged_or_foreign_token_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    char text[TOKEN_TEXT_MAX];
    struct token token;
    assert_true(token_parse(w->token, &token));
    token.secret[0] ^= 1;
    struct str forged = {text, token_format(&token, text)};
    refused(w, with_token(complete_with(w, "1"), forged), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: its secret does not match");
    token.job.bytes[15] ^= 1;
    forged.len = token_format(&token, text);
    refused(w, with_token(complete_with(w, "1"), forged), ERR_STALE_LEASE,
            "the token does not belong to a lease of this job");
    refused(w, with_token(complete_with(w, "1"), STR("nonsense")), ERR_STALE_LEASE,
            "the token does not belong to a lease of this job");
    refused(w, with_token(complete_with(w, "1"), absent), ERR_STALE_LEASE,
            "the token does not belong to a lease of this job");
    story(w, "job_created job_leased job_running");
}

static void a_token_of_a_step_that_is_not_there_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    char text[TOKEN_TEXT_MAX];
    struct token token;
    assert_true(token_parse(w->token, &token));
    token.of_step = true;
    token.step = 5;
    struct str forged = {text, token_format(&token, text)};
    refused(w, with_token(complete_with(w, "1"), forged), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the plan does not have this step");
    story(w, "job_created job_leased job_running");
}

static void every_write_of_a_worker_needs_the_live_lease(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    struct appended appended = {.type = STR("a.b")};
    struct command append = by_worker(w, COMMAND_APPEND);
    append.append.events = &appended;
    append.append.count = 1;
    append.append.expected_version = -1;
    struct command abandon = by_worker(w, COMMAND_ABANDON);
    abandon.dead_letter.reason_code = DEAD_PARSE_ERROR;
    struct command commands[] = {
        by_worker(w, COMMAND_START),
        by_worker(w, COMMAND_HEARTBEAT),
        complete_with(w, "1"),
        fail_as(w, CLASS_TRANSIENT),
        wait_for(w, "k", 0),
        by_worker(w, COMMAND_CANCELLED),
        begin_of(w, "k", "1"),
        commit_of(w, "k", "1"),
        abandon,
        append,
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        refused(w, commands[i], ERR_STALE_LEASE,
                "the token of attempt 1 of job {job} is not live: the lease has ended");
    story(w, "job_created job_leased job_running job_requeued");
}

/* ---- heartbeat ---- */

static void a_heartbeat_renews_the_lease_beside_the_stream(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 20000;
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    do_ok(w, beat);
    assert_int_equal(w->last.result.expires_at, w->now + 30000);
    assert_false(w->last.result.cancel_requested);
    assert_text(event_name(last_event(w)), "job_lease_renewed");
    assert_int_equal(w->slice.job.version, 3);
    beat.heartbeat.progress = js(w, "{'done':7}");
    beat.heartbeat.cursor = STR("page 7");
    do_ok(w, beat);
    assert_text(event_name(last_event(w)), "job_heartbeat");
    assert_str(w->slice.job.progress, js(w, "{'done':7}"));
    assert_text(w->slice.job.cursor, "page 7");
    assert_int_equal(w->slice.job.version, 3);
    story(w, "job_created job_leased job_running");
}

static void a_heartbeat_takes_nothing_away_when_the_clock_went_back(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 20000;
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    int64_t end = w->slice.job.lease.expires_at;
    w->now -= 15000;
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_int_equal(w->last.result.expires_at, end);
    assert_int_equal(w->slice.job.lease.expires_at, end);
}

static void what_heartbeats_said_is_recorded_when_the_lease_ends(void **state)
{
    struct world *w = *state;
    running(w);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("7");
    do_ok(w, beat);
    beat.heartbeat.progress = absent;
    beat.heartbeat.cursor = STR("c");
    do_ok(w, beat);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_text(last_event(w)->data.progress, "7");
    assert_text(last_event(w)->data.cursor, "c");
    assert_text(w->slice.job.progress, "7");
    assert_text(w->slice.job.cursor, "c");
    story(w, "job_created job_leased job_running job_requeued");
}

static void a_heartbeat_out_of_bounds_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    beat.heartbeat.progress = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, beat, ERR_PAYLOAD_TOO_LARGE, "progress has 1048577 bytes; the limit is 1048576");
    beat.heartbeat.progress = absent;
    beat.heartbeat.cursor = (struct str){large, TEXT_BYTES_MAX + 1};
    refused(w, beat, ERR_PAYLOAD_TOO_LARGE, "cursor has 65537 bytes; the limit is 65536");
    beat.heartbeat.cursor = STR("\xff");
    refused(w, beat, ERR_BAD_REQUEST, "cursor is not valid UTF-8");
    story(w, "job_created job_leased job_running");
}

static void a_heartbeat_hands_over_a_soft_cancel(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "changed our mind"));
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_true(w->last.result.cancel_requested);
    story(w, "job_created job_leased job_running job_cancel_requested");
}

static void a_timeout_caps_an_attempt_however_well_it_beats(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.timeout_ms = 40000;
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    do_ok(w, claim_by("w1", true));
    w->now += 25000;
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_int_equal(w->last.result.expires_at, WORLD_START_MS + 40000);
    w->now = WORLD_START_MS + 40000;
    refused(w, by_worker(w, COMMAND_HEARTBEAT), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has expired");
    do_ok(w, expire_of(1));
    assert_text(last_event(w)->data.reason, "timeout");
    assert_str(w->slice.job.error,
               js(w, "{'class':'timeout','message':'attempt 1 of worker w1 timed out'}"));
    story(w, "job_created job_leased job_running job_requeued");
}

/* ---- complete ---- */

static void a_completed_job_has_its_result_and_is_final(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, " {'sent': 1.10} "));
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "{'sent': 1.10}"));
    assert_text(last_event(w)->cause_text, "complete#1");
    refused(w, claim_by("w2", true), ERR_INVALID_TRANSITION,
            "cannot claim job {job}: it is completed");
    refused(w, requeue_by("again", false), ERR_INVALID_TRANSITION,
            "cannot requeue job {job}: it is completed");
    refused(w, cancel_by(CANCEL_HARD, ""), ERR_INVALID_TRANSITION,
            "cannot cancel job {job}: it is completed");
    story(w, "job_created job_leased job_running job_completed");
}

static void the_token_answers_a_repeated_complete_with_the_same_result(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "{'n':1}"));
    do_again(w, complete_with(w, " {'n':1} "));
    refused(w, complete_with(w, "{'n':2}"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: it already ended with a different "
            "outcome");
    refused(w, fail_as(w, CLASS_TRANSIENT), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has ended");
    story(w, "job_created job_leased job_running job_completed");
}

static void a_result_of_null_is_no_result(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "null"));
    assert_text(w->slice.job.result, NULL);
    do_again(w, complete_with(w, NULL));
    story(w, "job_created job_leased job_running job_completed");
}

static void a_job_that_has_not_started_cannot_complete(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    refused(w, complete_with(w, "1"), ERR_INVALID_TRANSITION,
            "cannot complete job {job}: it is leased and has not started");
    story(w, "job_created job_leased");
}

static void a_result_over_one_mebibyte_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    struct command command = complete_with(w, NULL);
    command.complete.result = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "result has 1048577 bytes; the limit is 1048576");
    do_ok(w, complete_with(w, "1"));
    refused(w, command, ERR_PAYLOAD_TOO_LARGE, "result has 1048577 bytes; the limit is 1048576");
    story(w, "job_created job_leased job_running job_completed");
}

static void completing_while_a_soft_cancel_is_open_completes(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    do_ok(w, complete_with(w, "1"));
    assert_status(w, "completed");
    story(w, "job_created job_leased job_running job_cancel_requested job_completed");
}

/* ---- release ---- */

static void a_release_costs_nothing_and_requeues_at_once(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.failures, 0);
    assert_int_equal(w->slice.job.run_at, w->now);
    assert_text(last_event(w)->data.reason, "released");
    do_again(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_by("w2", true));
    story(w, "job_created job_leased job_running job_requeued job_leased job_running");
}

static void a_release_before_the_start_requeues_too(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_status(w, "queued");
    story(w, "job_created job_leased job_requeued");
}

static void a_release_while_a_soft_cancel_is_open_cancels(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_status(w, "cancelled");
    assert_int_equal(last_event(w)->data.mode, CANCEL_SOFT);
    assert_text(last_event(w)->data.reason, "stop");
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

/* ---- expiry ---- */

static void an_expired_lease_requeues_the_job_with_backoff(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 30000;
    do_ok(w, expire_of(1));
    assert_status(w, "retrying");
    assert_int_equal(w->slice.job.failures, 1);
    assert_true(w->slice.job.run_at > w->now);
    assert_true(w->slice.job.run_at <= w->now + 500);
    assert_text(last_event(w)->data.reason, "lease_expired");
    assert_text(last_event(w)->actor, "pawl");
    assert_text(last_event(w)->cause_text, "expire");
    assert_int_equal(last_event(w)->data.last_lease_expires_at, WORLD_START_MS + 30000);
    assert_str(w->slice.job.error,
               js(w, "{'class':'timeout',"
                     "'message':'the lease of attempt 1, held by worker w1, expired'}"));
    story(w, "job_created job_leased job_running job_requeued");
}

static void a_lease_lost_before_its_timeout_is_no_timeout(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.timeout_ms = 60000;
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    do_ok(w, claim_by("w1", true));
    w->now += 30000;
    do_ok(w, expire_of(1));
    assert_text(last_event(w)->data.reason, "lease_expired");
    story(w, "job_created job_leased job_running job_requeued");
}

static void the_reaper_cannot_take_a_live_lease(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 29000;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 1000 ms");
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    w->now += 1000;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 29000 ms");
    story(w, "job_created job_leased job_running");
}

static void the_reaper_cannot_overwrite_what_came_first(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "1"));
    w->now += 60000;
    refused(w, expire_of(1), ERR_STALE_LEASE, "attempt 1 has no live lease to expire");
    assert_status(w, "completed");
    story(w, "job_created job_leased job_running job_completed");
}

static void the_reaper_acts_only_on_the_attempt_it_saw(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_by("w2", true));
    w->now += 60000;
    refused(w, expire_of(1), ERR_STALE_LEASE, "attempt 1 has no live lease to expire");
    do_ok(w, expire_of(2));
    story(w, "job_created job_leased job_running job_requeued job_leased job_running "
             "job_requeued");
}

static void a_lease_that_expires_before_the_start_is_requeued(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    w->now += 30000;
    do_ok(w, expire_of(1));
    assert_status(w, "retrying");
    story(w, "job_created job_leased job_requeued");
}

static void an_expiry_while_a_soft_cancel_is_open_cancels(void **state)
{
    struct world *w = *state;
    running(w);
    struct command cancel = cancel_by(CANCEL_SOFT, "stop");
    cancel.cancel.soft_ms = 3600000;
    do_ok(w, cancel);
    w->now += 30000;
    do_ok(w, expire_of(1));
    assert_status(w, "cancelled");
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

/* ---- time ---- */

static void a_lease_from_before_an_outage_gets_one_heartbeat_of_grace(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 3600000;
    w->up_since = w->now;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 15000 ms");
    w->now += 14999;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 1 ms");
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_int_equal(w->slice.job.lease.expires_at, w->now + 30000);
    w->now += 29999;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 1 ms");
    w->now += 1;
    do_ok(w, expire_of(1));
    story(w, "job_created job_leased job_running job_requeued");
}

static void the_grace_ends_for_a_worker_that_does_not_come_back(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 3600000;
    w->up_since = w->now;
    w->now += 15000;
    refused(w, complete_with(w, "1"), ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: the lease has expired");
    do_ok(w, expire_of(1));
    assert_int_equal(w->slice.job.failures, 1);
    story(w, "job_created job_leased job_running job_requeued");
}

static void a_short_outage_never_shortens_a_lease(void **state)
{
    struct world *w = *state;
    running(w);
    w->up_since = w->now + 1;
    w->now += 29999;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 1 ms");
    const struct lease *lease = &w->slice.job.lease;
    struct context context = {.up_since = w->up_since};
    assert_int_equal(lease_ends_at(lease, &context), WORLD_START_MS + 30000);
    context.up_since = w->now;
    assert_int_equal(lease_ends_at(lease, &context), w->now + 15000);
    /* What had ended before the break stays ended, and a timeout is not lifted. */
    context.down_since = lease->expires_at;
    assert_int_equal(lease_ends_at(lease, &context), WORLD_START_MS + 30000);
    struct lease capped = *lease;
    capped.timeout_at = w->now + 2;
    context.down_since = 0;
    assert_int_equal(lease_ends_at(&capped, &context), w->now + 2);
    story(w, "job_created job_leased job_running");
}

/* A worker may have been told that its lease is renewed, by somebody who did not live to store it:
 * it keeps all of the term that it may know of, and no more. */
static void a_lease_whose_heartbeats_may_be_lost_gets_a_new_term(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 3600000;
    w->beats_since = w->up_since = w->now;
    w->now += 29999;
    refused(w, expire_of(1), ERR_STALE_LEASE, "the lease of attempt 1 expires in 1 ms");
    const struct lease lease = w->slice.job.lease;
    struct context context = w->context;
    int64_t term_ends = context.beats_since + 30000;
    /* Whatever the end that is stored, and when the break began. */
    context.down_since = context.beats_since;
    assert_int_equal(lease_ends_at(&lease, &context), term_ends);
    struct lease capped = lease;
    capped.timeout_at = term_ends - 5;
    assert_int_equal(lease_ends_at(&capped, &context), term_ends - 5);
    struct lease brief = lease;
    brief.heartbeat_ms = 1000;
    assert_int_equal(lease_ends_at(&brief, &context), context.beats_since + 2000);
    /* A break that comes later finds it live or ended, as any other. */
    context.up_since = term_ends + 60000;
    context.down_since = term_ends - 1;
    assert_int_equal(lease_ends_at(&lease, &context), context.up_since + 15000);
    context.down_since = term_ends;
    assert_int_equal(lease_ends_at(&lease, &context), term_ends);

    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_int_equal(w->slice.job.lease.expires_at, w->now + 30000);
    w->now += 30000;
    do_ok(w, expire_of(1));
    story(w, "job_created job_leased job_running job_requeued");
}

static void a_lease_that_was_renewed_since_heartbeats_are_known_ends_as_it_says(void **state)
{
    struct world *w = *state;
    w->beats_since = w->now;
    running(w);
    w->now += 30000;
    do_ok(w, expire_of(1));
    story(w, "job_created job_leased job_running job_requeued");
}

static void time_never_runs_backwards_for_a_job(void **state)
{
    struct world *w = *state;
    w->now += 5000;
    submitted(w);
    w->now -= 5000;
    do_ok(w, claim_by("w1", true));
    assert_int_equal(last_event(w)->at, WORLD_START_MS + 5000);
    assert_int_equal(w->slice.job.lease.expires_at, WORLD_START_MS + 35000);
    do_ok(w, complete_with(w, "1"));
    assert_int_equal(w->slice.job.updated_at, WORLD_START_MS + 5000);
    story(w, "job_created job_leased job_running job_completed");
}

/* A repeated command has no events: the head is the one there was, even when it is given itself. */
static void a_decision_without_events_keeps_the_head(void **state)
{
    struct world *w = *state;
    running(w);
    struct command complete = complete_with(w, "1");
    do_ok(w, complete);
    do_again(w, complete);
    uint8_t head[HASH_LEN];
    struct job *after = &w->last.after.job;
    memcpy(head, after->head, HASH_LEN);
    assert_int_equal(decision_seal(&w->last, after->head, &w->arena, &w->err), ERR_OK);
    assert_memory_equal(after->head, head, HASH_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_claim_leases_and_a_start_runs),
        SCENARIO(a_claim_may_start_at_once_in_one_commit),
        SCENARIO(a_second_start_is_answered_and_adds_nothing),
        SCENARIO(a_leased_job_cannot_be_claimed_again),
        SCENARIO(a_job_is_not_claimed_before_it_is_due),
        SCENARIO(a_claim_needs_a_worker_and_sound_terms),
        SCENARIO(a_claim_needs_the_capabilities_of_the_job),
        SCENARIO(a_job_with_a_plan_is_never_given_out_by_a_job_claim),
        SCENARIO(lease_terms_come_from_claim_then_job_then_kind_then_default),
        SCENARIO(terms_of_the_job_stand_above_those_of_its_kind),
        SCENARIO(the_attempt_rises_with_every_claim_and_across_epochs),
        SCENARIO(a_late_completion_after_reclaim_is_refused),
        SCENARIO(a_token_is_stale_from_the_moment_its_lease_can_be_taken),
        SCENARIO(a_forged_or_foreign_token_is_refused),
        SCENARIO(a_token_of_a_step_that_is_not_there_is_refused),
        SCENARIO(every_write_of_a_worker_needs_the_live_lease),
        SCENARIO(a_heartbeat_renews_the_lease_beside_the_stream),
        SCENARIO(a_heartbeat_takes_nothing_away_when_the_clock_went_back),
        SCENARIO(what_heartbeats_said_is_recorded_when_the_lease_ends),
        SCENARIO(a_heartbeat_out_of_bounds_is_refused),
        SCENARIO(a_heartbeat_hands_over_a_soft_cancel),
        SCENARIO(a_timeout_caps_an_attempt_however_well_it_beats),
        SCENARIO(a_completed_job_has_its_result_and_is_final),
        SCENARIO(the_token_answers_a_repeated_complete_with_the_same_result),
        SCENARIO(a_result_of_null_is_no_result),
        SCENARIO(a_job_that_has_not_started_cannot_complete),
        SCENARIO(a_result_over_one_mebibyte_is_refused),
        SCENARIO(completing_while_a_soft_cancel_is_open_completes),
        SCENARIO(a_release_costs_nothing_and_requeues_at_once),
        SCENARIO(a_release_before_the_start_requeues_too),
        SCENARIO(a_release_while_a_soft_cancel_is_open_cancels),
        SCENARIO(an_expired_lease_requeues_the_job_with_backoff),
        SCENARIO(a_lease_lost_before_its_timeout_is_no_timeout),
        SCENARIO(the_reaper_cannot_take_a_live_lease),
        SCENARIO(the_reaper_cannot_overwrite_what_came_first),
        SCENARIO(the_reaper_acts_only_on_the_attempt_it_saw),
        SCENARIO(a_lease_that_expires_before_the_start_is_requeued),
        SCENARIO(an_expiry_while_a_soft_cancel_is_open_cancels),
        SCENARIO(a_lease_from_before_an_outage_gets_one_heartbeat_of_grace),
        SCENARIO(the_grace_ends_for_a_worker_that_does_not_come_back),
        SCENARIO(a_lease_whose_heartbeats_may_be_lost_gets_a_new_term),
        SCENARIO(a_lease_that_was_renewed_since_heartbeats_are_known_ends_as_it_says),
        SCENARIO(a_short_outage_never_shortens_a_lease),
        SCENARIO(time_never_runs_backwards_for_a_job),
        SCENARIO(a_decision_without_events_keeps_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
