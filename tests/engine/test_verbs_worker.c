/* The verbs of workers, on every store: claims, what the holder of a lease says, effects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

static const char *submit(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    return said(d, "id");
}

static const char *submit_and_claim(struct desk *d)
{
    (void)submit(d);
    return claimed(d);
}

/* ---- claims ---- */

static void claims_one(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"lease_ttl_ms\":10000,\"heartbeat_ms\":4000}");
    assert_int_equal(d->status, 200);
    says(d, "claims.0.job.id", id);
    says(d, "claims.0.job.status", "running");
    says(d, "claims.0.job.attempt", "1");
    says(d, "claims.0.job.lease.worker_id", "w1");
    says(d, "claims.0.job.lease.lease_ttl_ms", "10000");
    says(d, "claims.0.job.lease.expires_at", "2026-01-01T00:00:08.000Z");
    says(d, "claims.0.lease.attempt", "1");
    says(d, "claims.0.lease.expires_at", "2026-01-01T00:00:08.000Z");
    says(d, "claims.0.lease.heartbeat_ms", "4000");
    says(d, "claims.0.resume", "");
    says(d, "claims.0.events", "");
    says(d, "claims.1", "");
    well(d, VERB_claim, "{\"worker_id\":\"w1\"}");
    assert_string_equal(d->answer, "{\"claims\":[]}");
}

static void a_claim_gives_the_job_and_the_terms_of_its_lease(void **state)
{
    (void)state;
    at_every_desk(claims_one);
}

static void claims_by_filter(struct desk *d)
{
    well(d, VERB_submit,
         "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":\"b\",\"queue\":\"q2\"},"
         "{\"kind\":\"c\",\"capabilities\":[\"gpu\"]}]}");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"kinds\":[\"none\"]}");
    says(d, "claims.0", "");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"queues\":[\"q2\",\"q1\"],\"max\":5}");
    says(d, "claims.0.job.kind", "b");
    says(d, "claims.1", "");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"kinds\":[\"c\",\"a\"],\"max\":5,\"start\":false}");
    says(d, "claims.0.job.kind", "a");
    says(d, "claims.0.job.status", "leased");
    says(d, "claims.1", "");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"capabilities\":[\"tpu\",\"gpu\"],\"max\":5}");
    says(d, "claims.0.job.kind", "c");
}

static void a_claim_takes_only_its_queues_kinds_and_capabilities(void **state)
{
    (void)state;
    at_every_desk(claims_by_filter);
}

static void claims_from_two_queues(struct desk *d)
{
    for (int i = 0; i < 4; i++)
        well(d, VERB_submit, "{\"kind\":\"k\",\"queue\":\"%s\"}", i < 2 ? "q1" : "q2");
    for (int round = 0; round < 2; round++) {
        well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":1}");
        const char *first = said(d, "claims.0.job.queue");
        well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":1}");
        assert_string_not_equal(first, said(d, "claims.0.job.queue"));
    }
}

static void queues_take_turns_from_claim_to_claim(void **state)
{
    (void)state;
    at_every_desk(claims_from_two_queues);
}

static void claims_badly(struct desk *d)
{
    (void)submit(d);
    ill(d, VERB_claim, ERR_BAD_REQUEST, "worker_id is required", "{}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "worker_id", "{\"worker_id\":\"\"}");
    ill(d, VERB_claim, ERR_UNKNOWN_FIELD, "\"queue\"", "{\"worker_id\":\"w\",\"queue\":\"a\"}");
    ill(d, VERB_claim, ERR_UNKNOWN_FIELD, "\"judge\"", "{\"worker_id\":\"w\",\"judge\":true}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "max", "{\"worker_id\":\"w\",\"max\":0}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "max", "{\"worker_id\":\"w\",\"max\":1001}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "wait_ms", "{\"worker_id\":\"w\",\"wait_ms\":55001}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "lease_ttl_ms",
        "{\"worker_id\":\"w\",\"lease_ttl_ms\":99}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "heartbeat_ms",
        "{\"worker_id\":\"w\",\"lease_ttl_ms\":1000,\"heartbeat_ms\":501}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "start", "{\"worker_id\":\"w\",\"start\":1}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "queues", "{\"worker_id\":\"w\",\"queues\":\"a\"}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "kinds[1] has the duplicate entry",
        "{\"worker_id\":\"w\",\"kinds\":[\"a\",\"a\"]}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, "capabilities[0]",
        "{\"worker_id\":\"w\",\"capabilities\":[7]}");
}

static void a_claim_that_is_not_well_formed_is_refused_by_name(void **state)
{
    (void)state;
    at_every_desk(claims_badly);
}

static void waits_for_work(struct desk *d)
{
    struct verb_call call = {
        .engine = d->engine,
        .arena = &d->arena,
        .name = VERB_claim,
        .request = STR("{\"worker_id\":\"w\",\"wait_ms\":20000}"),
        .actor = STR("ann"),
    };
    struct err err = {0};
    assert_int_equal(verb_prepare(&call, &err), ERR_OK);
    assert_int_equal(call.call.wait_ms, 20000);
    assert_int_equal(call.call.class, CALL_CLAIM);
    verb_call_release(&call);
}

static void a_claim_that_may_wait_tells_the_engine_for_how_long(void **state)
{
    (void)state;
    at_every_desk(waits_for_work);
}

/* How many elements an array of the last answer has. */
static int length(struct desk *d, const char *array, const char *member)
{
    char path[64];
    int count = 0;
    for (;; count++) {
        (void)snprintf(path, sizeof path, "%s.%d.%s", array, count, member);
        if (*said(d, path) == '\0')
            return count;
    }
}

static void claims_large_ones(struct desk *d)
{
    enum { JOBS = 20, AT_ONCE = 17 };
    const char *large = long_text(d, 1000 * 1000);
    for (int i = 0; i < JOBS; i++)
        well(d, VERB_submit, "{\"kind\":\"k\",\"payload\":%s}", large);
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":1000}");
    assert_int_equal(length(d, "claims", "job.id"), AT_ONCE);
    /* The rest stands where it stood. */
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":1000}");
    assert_int_equal(length(d, "claims", "job.id"), JOBS - AT_ONCE);
    /* Lists are cut too, and say where they go on. */
    well(d, VERB_list, "{\"include\":\"payload\",\"limit\":500}");
    assert_int_equal(length(d, "jobs", "id"), AT_ONCE);
    well(d, VERB_list, "{\"include\":\"payload\",\"cursor\":\"%s\"}", said(d, "next_cursor"));
    assert_int_equal(length(d, "jobs", "id"), JOBS - AT_ONCE);
    says(d, "next_cursor", "");
}

static void answers_end_when_they_have_become_large(void **state)
{
    (void)state;
    at_every_desk(claims_large_ones);
}

static void reads_history(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"my.note\",\"payload\":[1]}]}", id);
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"history\":true}");
    says(d, "claims.0.events.0.type", "job_created");
    says(d, "claims.0.events.0.version", "1");
    says(d, "claims.0.events.0.job_id", id);
    says(d, "claims.0.events.0.actor", "ann");
    says(d, "claims.0.events.0.cause", "submit");
    says(d, "claims.0.events.0.at", "2026-01-01T00:00:00.000Z");
    says(d, "claims.0.events.1.type", "my.note");
    says(d, "claims.0.events.1.payload", "[1]");
    says(d, "claims.0.events.2.type", "job_leased");
    says(d, "claims.0.events.2.actor", "w1");
    says(d, "claims.0.events.3.type", "job_running");
    says(d, "claims.0.events.4", "");
    says(d, "claims.0.events_next", "");
}

static void a_claim_brings_the_history_when_asked(void **state)
{
    (void)state;
    at_every_desk(reads_history);
}

static void reads_long_history(struct desk *d)
{
    const char *id = submit(d);
    const char *note = long_text(d, 900 * 1000);
    for (int i = 0; i < 6; i++)
        well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"my.note\",\"payload\":%s}]}",
             id, note);
    d->clock++;
    (void)submit(d);
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"history\":true,\"max\":2}");
    says(d, "claims.0.events.4.version", "5");
    says(d, "claims.0.events.5", "");
    says(d, "claims.0.events_next", "5");
    /* What is short still has room. */
    says(d, "claims.1.events.2.type", "job_running");
    says(d, "claims.1.events_next", "");
    assert_true(strlen(d->answer) < 4 * 1024 * 1024 + 64 * 1024);
}

static void a_history_that_is_too_long_says_where_to_go_on(void **state)
{
    (void)state;
    at_every_desk(reads_long_history);
}

static void reads_many_events(struct desk *d)
{
    const char *id = submit(d);
    for (int i = 0; i < 500; i++)
        well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":%d}]}", id,
             i);
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"history\":true}");
    says(d, "claims.0.events.500.version", "501");
    says(d, "claims.0.events.500.payload", "499");
    says(d, "claims.0.events.502.version", "503");
    says(d, "claims.0.events.503", "");
}

static void a_history_of_many_events_comes_whole_and_in_order(void **state)
{
    (void)state;
    at_every_desk(reads_many_events);
}

static void repeats_claims(struct desk *d)
{
    const char *id = submit(d);
    d->clock++;
    (void)submit(d);
    d->key = "c1";
    const char *first = well(d, VERB_claim, "{\"worker_id\":\"w1\",\"history\":true}");
    says(d, "claims.0.job.id", id);
    says(d, "claims.0.events.2.type", "job_running");
    d->key = "c1";
    assert_string_equal(well(d, VERB_claim, "{\"worker_id\":\"w1\",\"history\":true}"), first);
    d->key = "c1";
    ill(d, VERB_claim, ERR_IDEMPOTENCY_MISMATCH, "c1", "{\"worker_id\":\"w2\"}");
}

static void a_claim_that_is_sent_again_under_its_key_gets_the_same_lease(void **state)
{
    (void)state;
    at_every_desk(repeats_claims);
}

/* ---- leases ---- */

static void starts_and_beats(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"start\":false}");
    const char *token = said(d, "claims.0.lease.token");
    ill(d, VERB_complete, ERR_INVALID_TRANSITION, "has not started", "{\"token\":\"%s\"}", token);
    well(d, VERB_start, "{\"token\":\"%s\"}", token);
    says(d, "id", id);
    says(d, "status", "running");
    says(d, "version", "3");
    says(d, "attempt", "1");
    says(d, "expires_at", "2026-01-01T00:00:30.000Z");
    says(d, "repeated", "");
    well(d, VERB_start, "{\"token\":\"%s\"}", token);
    says(d, "repeated", "true");
    d->clock += 10000;
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":{\"done\":1},\"cursor\":\"p1\"}",
         token);
    assert_string_equal(d->answer,
                        "{\"expires_at\":\"2026-01-01T00:00:40.000Z\",\"cancel_requested\":false}");
    well(d, VERB_cancel, "{\"id\":\"%s\",\"reason\":\"enough\"}", id);
    says(d, "cancel_requested", "true");
    says(d, "progress", "{\"done\":1}");
    says(d, "cursor", "p1");
    says(d, "status", "running");
    well(d, VERB_heartbeat, "{\"token\":\"%s\"}", token);
    says(d, "cancel_requested", "true");
    well(d, VERB_cancelled, "{\"token\":\"%s\"}", token);
    says(d, "status", "cancelled");
    well(d, VERB_cancelled, "{\"token\":\"%s\"}", token);
    says(d, "repeated", "true");
}

static void a_lease_is_started_kept_alive_and_ended_when_asked(void **state)
{
    (void)state;
    at_every_desk(starts_and_beats);
}

static void completes(struct desk *d)
{
    const char *token = submit_and_claim(d);
    ill(d, VERB_cancelled, ERR_INVALID_TRANSITION, "no cancellation was requested",
        "{\"token\":\"%s\"}", token);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":{\"sum\":1.10}}", token);
    says(d, "status", "completed");
    says(d, "version", "4");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":{\"sum\":1.10}}", token);
    says(d, "status", "completed");
    says(d, "repeated", "true");
    ill(d, VERB_complete, ERR_STALE_LEASE, "a different outcome", "{\"token\":\"%s\",\"result\":2}",
        token);
    ill(d, VERB_heartbeat, ERR_STALE_LEASE, "ended", "{\"token\":\"%s\"}", token);
    token = submit_and_claim(d);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":null}", token);
}

static void a_completion_is_taken_once_and_answered_as_often_as_it_comes(void **state)
{
    (void)state;
    at_every_desk(completes);
}

static void fails_and_retries(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":2,\"jitter\":\"none\"}}");
    const char *id = said(d, "id");
    const char *token = claimed(d);
    well(d, VERB_fail,
         "{\"token\":\"%s\",\"error\":{\"class\":\"timeout\",\"message\":\"slow\",\"stage\":"
         "\"exec\","
         "\"details\":[1]},\"retry_after_ms\":0}",
         token);
    says(d, "status", "queued");
    token = claimed(d);
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"again\"}}", token);
    says(d, "status", "dead_lettered");
    well(d, VERB_requeue, "{\"id\":\"%s\"}", id);
    says(d, "epoch", "2");
    token = claimed(d);
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"no\"}}",
         token);
    says(d, "status", "failed");
    token = submit_and_claim(d);
    well(d, VERB_fail,
         "{\"token\":\"%s\",\"error\":{\"message\":\"later\"},\"retry_after_ms\":5000}", token);
    says(d, "status", "retrying");
    let_time_pass(d, 5000);
    assert_string_not_equal(claimed(d), token);
}

static void a_failure_is_retried_until_it_is_final(void **state)
{
    (void)state;
    at_every_desk(fails_and_retries);
}

static void releases_and_abandons(struct desk *d)
{
    const char *token = submit_and_claim(d);
    well(d, VERB_release, "{\"token\":\"%s\"}", token);
    says(d, "status", "queued");
    well(d, VERB_release, "{\"token\":\"%s\"}", token);
    says(d, "repeated", "true");
    token = claimed(d);
    ill(d, VERB_abandon, ERR_BAD_REQUEST, "reason_code is required", "{\"token\":\"%s\"}", token);
    ill(d, VERB_abandon, ERR_BAD_REQUEST, "reason_code must be one of",
        "{\"token\":\"%s\",\"reason_code\":\"bored\"}", token);
    well(d, VERB_abandon,
         "{\"token\":\"%s\",\"reason_code\":\"parse_error\",\"stage\":\"input\",\"message\":\"?\"}",
         token);
    says(d, "status", "dead_lettered");
    says(d, "attempt", "2");
}

static void a_worker_gives_work_back_or_makes_a_dead_letter_of_it(void **state)
{
    (void)state;
    at_every_desk(releases_and_abandons);
}

static void shows_bad_tokens(struct desk *d)
{
    static const enum verb_name verbs[] = {VERB_start,   VERB_heartbeat, VERB_complete,
                                           VERB_release, VERB_cancelled, VERB_start};
    const char *token = submit_and_claim(d);
    char forged[256];
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        ill(d, verbs[i], ERR_BAD_REQUEST, "token is required", "{}");
        ill(d, verbs[i], ERR_BAD_REQUEST, "token must be a string", "{\"token\":null}");
        ill(d, verbs[i], ERR_STALE_LEASE, "stale or unknown lease token", "{\"token\":\"x\"}");
        ill(d, verbs[i], ERR_STALE_LEASE, "stale or unknown lease token", "{\"token\":\"\"}");
        ill(d, verbs[i], ERR_UNKNOWN_FIELD, "\"id\"", "{\"token\":\"%s\",\"id\":\"x\"}", token);
        (void)snprintf(forged, sizeof forged, "%s", token);
        forged[0] = forged[0] == '0' ? '1' : '0';
        ill(d, verbs[i], ERR_STALE_LEASE, "unknown job", "{\"token\":\"%s\"}", forged);
        (void)snprintf(forged, sizeof forged, "%s", token);
        char *last = &forged[strlen(forged) - 1];
        *last = *last == '0' ? '1' : '0';
        ill(d, verbs[i], ERR_STALE_LEASE, "secret", "{\"token\":\"%s\"}", forged);
    }
    ill(d, VERB_wait, ERR_STALE_LEASE, "stale or unknown", "{\"token\":\"x\",\"delay_ms\":1}");
    ill(d, VERB_fail, ERR_STALE_LEASE, "stale or unknown",
        "{\"token\":\"x\",\"error\":{\"message\":\"\"}}");
    ill(d, VERB_effect_begin, ERR_STALE_LEASE, "stale or unknown",
        "{\"token\":\"x\",\"key\":\"k\"}");
    (void)snprintf(forged, sizeof forged, "%s", token);
    forged[0] = forged[0] == '0' ? '1' : '0';
    ill(d, VERB_effect_commit, ERR_STALE_LEASE, "unknown job", "{\"token\":\"%s\",\"key\":\"k\"}",
        forged);
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
}

static void a_token_that_is_not_that_of_a_live_lease_is_stale(void **state)
{
    (void)state;
    at_every_desk(shows_bad_tokens);
}

static void comes_late(struct desk *d)
{
    const char *token = submit_and_claim(d);
    let_time_pass(d, 30 * 1000);
    ill(d, VERB_complete, ERR_STALE_LEASE, "ended", "{\"token\":\"%s\"}", token);
    let_time_pass(d, 10 * 1000);
    const char *newer = claimed(d);
    ill(d, VERB_complete, ERR_STALE_LEASE, "newer attempt", "{\"token\":\"%s\"}", token);
    well(d, VERB_complete, "{\"token\":\"%s\"}", newer);
}

static void a_late_completion_after_reclaim_is_refused(void **state)
{
    (void)state;
    at_every_desk(comes_late);
}

static void says_wrong_things(struct desk *d)
{
    const char *token = submit_and_claim(d);
    const char *long_one = long_text(d, 1024 * 1024);
    ill(d, VERB_complete, ERR_PAYLOAD_TOO_LARGE, "result", "{\"token\":\"%s\",\"result\":%s}",
        token, long_one);
    ill(d, VERB_heartbeat, ERR_PAYLOAD_TOO_LARGE, "progress", "{\"token\":\"%s\",\"progress\":%s}",
        token, long_one);
    ill(d, VERB_heartbeat, ERR_BAD_REQUEST, "cursor", "{\"token\":\"%s\",\"cursor\":7}", token);
    ill(d, VERB_fail, ERR_BAD_REQUEST, "error.message is required", "{\"token\":\"%s\"}", token);
    ill(d, VERB_fail, ERR_BAD_REQUEST, "error must be an object",
        "{\"token\":\"%s\",\"error\":\"x\"}", token);
    ill(d, VERB_fail, ERR_BAD_REQUEST, "error.class must be one of transient",
        "{\"token\":\"%s\",\"error\":{\"message\":\"x\",\"class\":\"odd\"}}", token);
    ill(d, VERB_fail, ERR_BAD_REQUEST, "error.code must be a string, not 1",
        "{\"token\":\"%s\",\"error\":{\"message\":\"x\",\"code\":1}}", token);
    ill(d, VERB_fail, ERR_PAYLOAD_TOO_LARGE, "error.details",
        "{\"token\":\"%s\",\"error\":{\"message\":\"x\",\"details\":%s}}", token, long_one);
    ill(d, VERB_fail, ERR_BAD_REQUEST, "retry_after_ms",
        "{\"token\":\"%s\",\"error\":{\"message\":\"x\"},\"retry_after_ms\":-1}", token);
    ill(d, VERB_effect_begin, ERR_BAD_REQUEST, "key is required", "{\"token\":\"%s\"}", token);
    ill(d, VERB_effect_begin, ERR_PAYLOAD_TOO_LARGE, "input",
        "{\"token\":\"%s\",\"key\":\"k\",\"input\":%s}", token, long_one);
    ill(d, VERB_effect_commit, ERR_BAD_REQUEST, "key is required", "{\"token\":\"%s\"}", token);
    ill(d, VERB_effect_commit, ERR_BAD_REQUEST, "next.key is required",
        "{\"token\":\"%s\",\"key\":\"k\",\"next\":{\"input\":1}}", token);
    ill(d, VERB_effect_commit, ERR_UNKNOWN_FIELD, "next.keys",
        "{\"token\":\"%s\",\"key\":\"k\",\"next\":{\"keys\":1}}", token);
    ill(d, VERB_wait, ERR_BAD_REQUEST, "type must be", "{\"token\":\"%s\"}", token);
    ill(d, VERB_wait, ERR_BAD_REQUEST, "type must be one of",
        "{\"token\":\"%s\",\"type\":\"weather\"}", token);
    ill(d, VERB_wait, ERR_BAD_REQUEST, "type must be", "{\"token\":\"%s\",\"type\":\"steps\"}",
        token);
    ill(d, VERB_wait, ERR_BAD_REQUEST, "correlation_key is required",
        "{\"token\":\"%s\",\"type\":\"signal\"}", token);
    ill(d, VERB_wait, ERR_BAD_REQUEST, "delay_ms", "{\"token\":\"%s\",\"delay_ms\":0}", token);
    ill(d, VERB_wait, ERR_BAD_REQUEST, "until", "{\"token\":\"%s\",\"until\":\"soon\"}", token);
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
}

static void what_a_worker_says_wrongly_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    at_every_desk(says_wrong_things);
}

/* ---- waits ---- */

static void waits_and_resumes(struct desk *d)
{
    const char *id = submit(d);
    const char *token = claimed(d);
    well(d, VERB_wait,
         "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"ok\",\"prompt\":\"Go?\","
         "\"choices\":[\"yes\",\"no\"],\"assignee\":\"bob\",\"timeout_ms\":60000}",
         token);
    says(d, "status", "waiting");
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"ok\"}", token);
    says(d, "repeated", "true");
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"ok\",\"payload\":\"yes\"}", id);
    assert_int_equal(d->status, 200);
    says(d, "signal", "delivered");
    says(d, "job.status", "queued");
    says(d, "job.wait", "");
    well(d, VERB_claim, "{\"worker_id\":\"w2\"}");
    says(d, "claims.0.resume.correlation_key", "ok");
    says(d, "claims.0.resume.outcome", "signal");
    says(d, "claims.0.resume.payload", "yes");
    says(d, "claims.0.job.attempt", "2");
}

static void a_job_that_waited_resumes_with_what_it_waited_for(void **state)
{
    (void)state;
    at_every_desk(waits_and_resumes);
}

static void waits_for_time(struct desk *d)
{
    const char *token = submit_and_claim(d);
    well(d, VERB_wait, "{\"token\":\"%s\",\"delay_ms\":5000}", token);
    says(d, "status", "waiting");
    let_time_pass(d, 5000);
    well(d, VERB_claim, "{\"worker_id\":\"w2\"}");
    says(d, "claims.0.resume.outcome", "timeout");
    token = said(d, "claims.0.lease.token");
    well(d, VERB_wait,
         "{\"token\":\"%s\",\"type\":\"timer\",\"until\":\"2026-01-01T00:01:00Z\",\"park\":true}",
         token);
    says(d, "status", "parked");
    let_time_pass(d, 60 * 1000);
    token = claimed(d);
    well(d, VERB_wait, "{\"token\":\"%s\",\"until\":\"2026-01-01T00:00:00Z\"}", token);
    says(d, "status", "queued");
}

static void a_timer_ends_by_itself(void **state)
{
    (void)state;
    at_every_desk(waits_for_time);
}

/* ---- effects ---- */

static void records_effects(struct desk *d)
{
    const char *token = submit_and_claim(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"pay\",\"input\":{\"eur\":5}}", token);
    says(d, "status", "execute");
    const char *key = said(d, "idempotency_key");
    assert_non_null(strstr(key, "/pay"));
    ill(d, VERB_complete, ERR_INVALID_TRANSITION, "pay", "{\"token\":\"%s\"}", token);
    ill(d, VERB_effect_begin, ERR_REPLAY_MISMATCH, "pay",
        "{\"token\":\"%s\",\"key\":\"pay\",\"input\":{\"eur\":6}}", token);
    ill(d, VERB_effect_commit, ERR_NOT_FOUND, "unknown effect \"other\"",
        "{\"token\":\"%s\",\"key\":\"other\"}", token);
    well(d, VERB_effect_commit,
         "{\"token\":\"%s\",\"key\":\"pay\",\"result\":\"r1\",\"next\":{\"key\":\"mail\",\"input\":"
         "1}}",
         token);
    says(d, "status", "execute");
    assert_non_null(strstr(said(d, "idempotency_key"), "/mail"));
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"mail\"}", token);
    assert_string_equal(d->answer, "{\"status\":\"recorded\"}");
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"mail\"}", token);
    says(d, "repeated", "true");
    ill(d, VERB_effect_commit, ERR_REPLAY_MISMATCH, "a different result",
        "{\"token\":\"%s\",\"key\":\"pay\",\"result\":\"r2\"}", token);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"pay\",\"input\":{\"eur\":5}}", token);
    says(d, "status", "recorded");
    says(d, "result", "r1");
    says(d, "idempotency_key", key);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"mail\",\"input\":1}", token);
    assert_non_null(strstr(d->answer, "\"result\":null"));
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
}

static void an_effect_is_carried_out_once_and_recalled(void **state)
{
    (void)state;
    at_every_desk(records_effects);
}

static void doubts_effects(struct desk *d)
{
    const char *token = submit_and_claim(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"pay\"}", token);
    well(d, VERB_release, "{\"token\":\"%s\"}", token);
    token = claimed(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"pay\"}", token);
    says(d, "status", "in_doubt");
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"pay\"}", token);
    says(d, "status", "in_doubt");
    says(d, "repeated", "true");
}

static void an_effect_that_may_have_happened_is_in_doubt(void **state)
{
    (void)state;
    at_every_desk(doubts_effects);
}

/* ---- steps ---- */

static void register_resource(struct desk *d)
{
    well(d, VERB_resource_put, "{\"id\":\"r1\",\"slots\":10}");
}

static const char *claim_step(struct desk *d)
{
    well(d, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    const char *token = said(d, "claims.0.lease.token");
    assert_string_not_equal(token, "");
    return token;
}

static void does_steps(struct desk *d)
{
    register_resource(d);
    well(d, VERB_submit,
         "{\"kind\":\"trip\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"x\",\"payload\":{\"n\":"
         "1}},"
         "{\"id\":\"b \\\"2\\\"\",\"kind\":\"x\"},"
         "{\"id\":\"c\",\"kind\":\"y\",\"deps\":[\"a\",\"b \\\"2\\\"\"]}]}}");
    says(d, "plan.version", "1");
    says(d, "plan.steps.ready", "2");
    says(d, "plan.steps.blocked", "1");
    const char *id = said(d, "id");
    const char *token = claim_step(d);
    says(d, "claims.0.job_id", id);
    says(d, "claims.0.step.id", "a");
    says(d, "claims.0.step.state", "running");
    says(d, "claims.0.step.payload", "{\"n\":1}");
    says(d, "claims.0.step.lease.resource_id", "r1");
    says(d, "claims.0.inputs", "{}");
    says(d, "claims.0.lease.attempt", "1");
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":1}", token);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":[10]}", token);
    says(d, "id", id);
    says(d, "status", "running");
    says(d, "step", "a");
    says(d, "state", "succeeded");
    says(d, "attempt", "1");
    token = claim_step(d);
    says(d, "claims.0.step.id", "b \"2\"");
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
    well(d, VERB_claim_steps,
         "{\"worker_id\":\"w1\",\"resource_id\":\"r1\",\"kinds\":[\"y\"],\"history\":true}");
    says(d, "claims.0.inputs", "{\"a\":[10],\"b \\\"2\\\"\":null}");
    says(d, "claims.0.inputs_left", "");
    says(d, "claims.0.events.0.type", "job_created");
    says(d, "claims.0.events_next", "");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":1}", said(d, "claims.0.lease.token"));
    says(d, "status", "completed");
}

static void a_step_is_claimed_with_what_its_dependencies_came_to(void **state)
{
    (void)state;
    at_every_desk(does_steps);
}

static void claims_steps_badly(struct desk *d)
{
    ill(d, VERB_claim_steps, ERR_BAD_REQUEST, "resource_id is required", "{\"worker_id\":\"w\"}");
    ill(d, VERB_claim_steps, ERR_BAD_REQUEST, "worker_id is required", "{\"resource_id\":\"r\"}");
    ill(d, VERB_claim_steps, ERR_NOT_FOUND, "unknown resource \"r\"",
        "{\"worker_id\":\"w\",\"resource_id\":\"r\"}");
    ill(d, VERB_claim_steps, ERR_UNKNOWN_FIELD, "\"job\"",
        "{\"worker_id\":\"w\",\"resource_id\":\"r\",\"job\":\"x\"}");
    ill(d, VERB_claim_steps, ERR_BAD_REQUEST, "judge", "{\"worker_id\":\"w\",\"judge\":\"yes\"}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w\",\"judge\":true}");
    assert_string_equal(d->answer, "{\"claims\":[]}");
}

static void a_claim_of_steps_needs_a_resource_that_there_is(void **state)
{
    (void)state;
    at_every_desk(claims_steps_badly);
}

static void repeats_step_claims(struct desk *d)
{
    register_resource(d);
    well(d, VERB_submit,
         "{\"kind\":\"trip\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"x\"},"
         "{\"id\":\"c\",\"kind\":\"y\",\"deps\":[\"a\"]}]}}");
    const char *token = claim_step(d);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":7}", token);
    d->key = "k";
    token = claim_step(d);
    says(d, "claims.0.inputs", "{\"a\":7}");
    d->key = "k";
    assert_string_equal(claim_step(d), token);
    says(d, "claims.0.inputs", "{\"a\":7}");
    says(d, "claims.0.inputs_left", "");
    says(d, "claims.0.step.id", "c");
}

static void a_step_claim_that_is_sent_again_has_the_same_inputs(void **state)
{
    (void)state;
    at_every_desk(repeats_step_claims);
}

static void judges_steps(struct desk *d)
{
    register_resource(d);
    well(
        d, VERB_submit,
        "{\"kind\":\"trip\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"x\",\"critic\":true}]}}");
    const char *id = said(d, "id");
    const char *token = claim_step(d);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":\"draft\"}", token);
    says(d, "state", "running");
    well(d, VERB_claim_steps, "{\"worker_id\":\"critic\",\"judge\":true}");
    says(d, "claims.0.step.held", "true");
    says(d, "claims.0.step.result", "draft");
    token = said(d, "claims.0.lease.token");
    ill(d, VERB_complete, ERR_INVALID_TRANSITION, "verdict", "{\"token\":\"%s\"}", token);
    ill(d, VERB_verdict, ERR_STALE_LEASE, "token",
        "{\"id\":\"%s\",\"step\":\"a\",\"decision\":\"accept\",\"token\":\"x\"}", id);
    well(d, VERB_verdict,
         "{\"id\":\"%s\",\"step\":\"a\",\"decision\":\"needs_user\",\"token\":\"%s\",\"question\":{"
         "\"prompt\":\"good?\",\"choices\":[\"yes\",\"no\"],\"assignee\":\"bob\"}}",
         id, token);
    says(d, "status", "waiting");
    ill(d, VERB_answer, ERR_BAD_REQUEST, "not one of",
        "{\"id\":\"%s\",\"step\":\"a\",\"answer\":\"maybe\"}", id);
    well(d, VERB_answer, "{\"id\":\"%s\",\"step\":\"a\",\"answer\":\"yes\",\"by\":\"bob\"}", id);
    says(d, "plan.steps.ready", "1");
    token = claim_step(d);
    says(d, "claims.0.answer", "yes");
    says(d, "claims.0.step.answered_by", "bob");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":\"final\"}", token);
    well(d, VERB_verdict,
         "{\"id\":\"%s\",\"step\":\"a\",\"decision\":\"accept\",\"reason\":\"ok\"}", id);
    says(d, "status", "completed");
    ill(d, VERB_verdict, ERR_INVALID_TRANSITION, "completed",
        "{\"id\":\"%s\",\"step\":\"a\",\"decision\":\"retry\"}", id);
    ill(d, VERB_answer, ERR_INVALID_TRANSITION, "completed",
        "{\"id\":\"%s\",\"step\":\"a\",\"answer\":1}", id);
}

static void replans(struct desk *d)
{
    register_resource(d);
    well(d, VERB_submit,
         "{\"kind\":\"trip\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"x\"}]}}");
    const char *id = said(d, "id");
    const char *token = claim_step(d);
    well(d, VERB_verdict, "{\"id\":\"%s\",\"step\":\"a\",\"decision\":\"replan\",\"token\":\"%s\"}",
         id, token);
    says(d, "status", "waiting");
    says(d, "wait.type", "replan");
    well(d, VERB_plan, "{\"id\":\"%s\",\"steps\":[{\"id\":\"b\",\"kind\":\"x\"}]}", id);
    says(d, "plan.version", "2");
    says(d, "plan.steps.ready", "1");
    well(d, VERB_complete, "{\"token\":\"%s\"}", claim_step(d));
    says(d, "status", "completed");
}

static void a_step_that_asks_for_another_plan_gets_one(void **state)
{
    (void)state;
    at_every_desk(replans);
}

static void a_step_is_judged_asked_about_and_answered(void **state)
{
    (void)state;
    at_every_desk(judges_steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_take_turns_from_claim_to_claim),
        cmocka_unit_test(a_claim_gives_the_job_and_the_terms_of_its_lease),
        cmocka_unit_test(a_claim_takes_only_its_queues_kinds_and_capabilities),
        cmocka_unit_test(a_claim_that_is_not_well_formed_is_refused_by_name),
        cmocka_unit_test(a_claim_that_may_wait_tells_the_engine_for_how_long),
        cmocka_unit_test(answers_end_when_they_have_become_large),
        cmocka_unit_test(a_claim_brings_the_history_when_asked),
        cmocka_unit_test(a_history_that_is_too_long_says_where_to_go_on),
        cmocka_unit_test(a_history_of_many_events_comes_whole_and_in_order),
        cmocka_unit_test(a_claim_that_is_sent_again_under_its_key_gets_the_same_lease),
        cmocka_unit_test(a_lease_is_started_kept_alive_and_ended_when_asked),
        cmocka_unit_test(a_completion_is_taken_once_and_answered_as_often_as_it_comes),
        cmocka_unit_test(a_failure_is_retried_until_it_is_final),
        cmocka_unit_test(a_worker_gives_work_back_or_makes_a_dead_letter_of_it),
        cmocka_unit_test(a_token_that_is_not_that_of_a_live_lease_is_stale),
        cmocka_unit_test(a_late_completion_after_reclaim_is_refused),
        cmocka_unit_test(what_a_worker_says_wrongly_is_refused_and_changes_nothing),
        cmocka_unit_test(a_job_that_waited_resumes_with_what_it_waited_for),
        cmocka_unit_test(a_timer_ends_by_itself),
        cmocka_unit_test(an_effect_is_carried_out_once_and_recalled),
        cmocka_unit_test(an_effect_that_may_have_happened_is_in_doubt),
        cmocka_unit_test(a_step_is_claimed_with_what_its_dependencies_came_to),
        cmocka_unit_test(a_claim_of_steps_needs_a_resource_that_there_is),
        cmocka_unit_test(a_step_claim_that_is_sent_again_has_the_same_inputs),
        cmocka_unit_test(a_step_is_judged_asked_about_and_answered),
        cmocka_unit_test(a_step_that_asks_for_another_plan_gets_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
