/* The verbs that change jobs, on every store: submit, those of operators and people, and batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

#define NOBODY "01234567-89ab-7def-8123-456789abcdef"

static const char *submit(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    return said(d, "id");
}

/* ---- submit ---- */

static void submits_plainly(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"payload\":{\"n\": 1.10}}");
    assert_int_equal(d->status, 201);
    char expected[2048];
    (void)snprintf(
        expected, sizeof expected,
        "{\"id\":\"%s\",\"kind\":\"mail\",\"queue\":\"default\",\"status\":\"queued\","
        "\"version\":1,\"attempt\":0,\"epoch\":1,\"failures\":0,\"priority\":0,"
        "\"run_at\":\"2026-01-01T00:00:00.000Z\",\"created_at\":\"2026-01-01T00:00:00.000Z\","
        "\"updated_at\":\"2026-01-01T00:00:00.000Z\",\"payload\":{\"n\": 1.10},\"result\":null,"
        "\"error\":null,\"progress\":null,\"cursor\":null,\"lease\":null,\"wait\":null,"
        "\"dead_letter\":null,\"cancel_requested\":false,\"idempotency_key\":null,"
        "\"correlation_id\":\"%s\",\"traceparent\":null,\"labels\":null,\"agent_id\":null,"
        "\"goal\":null,\"retry\":{\"max_attempts\":20,\"strategy\":\"exponential\","
        "\"initial_ms\":500,\"factor\":2,\"max_ms\":3600000,\"jitter\":\"equal\","
        "\"on_exhausted\":\"dead_letter\",\"on_permanent\":\"fail\"},\"plan\":null,\"in_doubt\":"
        "\"fail\","
        "\"capabilities\":null,\"timeout_ms\":null,\"expires_at\":null,\"deadline_at\":null,"
        "\"fingerprint\":null,\"pin\":null,\"redacted\":false}",
        said(d, "id"), said(d, "id"));
    assert_string_equal(d->answer, expected);
}

static void a_job_is_answered_with_every_member_in_order(void **state)
{
    (void)state;
    at_every_desk(submits_plainly);
}

static void submits_everything(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"queue\":\"q\",\"priority\":-5,\"delay_ms\":1000,"
         "\"idempotency_key\":\"k1\",\"retry\":{\"max_attempts\":3,\"strategy\":\"fixed\","
         "\"initial_ms\":0,\"factor\":1.25,\"max_ms\":7,\"jitter\":\"full\",\"on_exhausted\":"
         "\"fail\"},\"lease_ttl_ms\":1000,\"heartbeat_ms\":500,\"timeout_ms\":9000,"
         "\"in_doubt\":\"ask\",\"capabilities\":[\"gpu\"],\"correlation_id\":\"c\","
         "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\","
         "\"labels\":{\"team\":\"x\"},\"agent_id\":\"a\",\"goal\":\"g\\n\"}");
    says(d, "queue", "q");
    says(d, "priority", "-5");
    says(d, "run_at", "2026-01-01T00:00:01.000Z");
    says(d, "idempotency_key", "k1");
    says(d, "retry",
         "{\"max_attempts\":3,\"strategy\":\"fixed\",\"initial_ms\":0,\"factor\":1.25,\"max_ms\":7,"
         "\"jitter\":\"full\",\"on_exhausted\":\"fail\",\"on_permanent\":\"fail\"}");
    says(d, "timeout_ms", "9000");
    says(d, "in_doubt", "ask");
    says(d, "capabilities", "[\"gpu\"]");
    says(d, "correlation_id", "c");
    says(d, "labels.team", "x");
    says(d, "agent_id", "a");
    says(d, "goal", "g\n");
}

static void a_job_is_submitted_with_everything_there_is(void **state)
{
    (void)state;
    at_every_desk(submits_everything);
}

static void lives_and_ends(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"a\",\"expires_ms\":60000}");
    const char *expires = said(d, "id");
    says(d, "expires_at", "2026-01-01T00:01:00.000Z");
    says(d, "deadline_at", "");
    well(d, VERB_submit,
         "{\"kind\":\"b\",\"deadline_ms\":90000,\"retry\":{\"on_exhausted\":\"fail\"}}");
    const char *ends = said(d, "id");
    well(d, VERB_submit, "{\"kind\":\"c\",\"deadline_ms\":90000}");
    const char *waits = said(d, "id");
    well(d, VERB_submit, "{\"kind\":\"a\",\"expires_ms\":60000}");
    const char *starts = said(d, "id");
    well(d, VERB_submit,
         "{\"kind\":\"p\",\"expires_ms\":60000,\"plan\":{\"steps\":[{\"id\":\"s\",\"kind\":\"k\"}]}"
         "}");
    const char *plan = said(d, "id");
    well(d, VERB_explain, "{\"id\":\"%s\"}", expires);
    assert_non_null(strstr(d->answer, "unless started by 2026-01-01T00:01:00.000Z"));

    /* One is claimed in time, one waits, one is held. */
    well(d, VERB_cancel, "{\"id\":\"%s\"}", starts);
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"kinds\":[\"c\"],\"wait_ms\":0}");
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}",
         said(d, "claims.0.lease.token"));
    well(d, VERB_claim,
         "{\"worker_id\":\"w\",\"kinds\":[\"b\"],\"lease_ttl_ms\":3600000,\"wait_ms\":0}");
    const char *token = said(d, "claims.0.lease.token");
    says(d, "claims.0.lease.expires_at", "2026-01-01T00:01:30.000Z");

    let_time_pass(d, 61000);
    well(d, VERB_get, "{\"id\":\"%s\"}", expires);
    says(d, "status", "cancelled");
    well(d, VERB_explain, "{\"id\":\"%s\"}", expires);
    assert_non_null(strstr(said(d, "summary"), "Expired before it started"));
    well(d, VERB_get, "{\"id\":\"%s\"}", plan);
    says(d, "status", "cancelled");
    well(d, VERB_get, "{\"id\":\"%s\"}", ends);
    says(d, "status", "running");

    let_time_pass(d, 30000);
    well(d, VERB_get, "{\"id\":\"%s\"}", ends);
    says(d, "status", "failed");
    says(d, "error.class", "timeout");
    ill(d, VERB_complete, ERR_STALE_LEASE, "not live", "{\"token\":\"%s\"}", token);
    well(d, VERB_get, "{\"id\":\"%s\"}", waits);
    says(d, "status", "dead_lettered");
    says(d, "dead_letter.reason_code", "timeout");
    const char *all[] = {expires, ends, waits, plan};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        well(d, VERB_verify, "{\"id\":\"%s\"}", all[i]);
        says(d, "ok", "true");
    }
    /* From then on its deadline counts anew. */
    well(d, VERB_requeue, "{\"id\":\"%s\"}", waits);
    says(d, "status", "queued");
    let_time_pass(d, 91000);
    well(d, VERB_get, "{\"id\":\"%s\"}", waits);
    says(d, "status", "dead_lettered");

    ill(d, VERB_submit, ERR_BAD_REQUEST, "expires_ms", "{\"kind\":\"a\",\"expires_ms\":0}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "deadline_ms", "{\"kind\":\"a\",\"deadline_ms\":\"1h\"}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "expires_ms is 1000",
        "{\"kind\":\"a\",\"expires_ms\":1000,\"delay_ms\":1000}");
}

static void jobs_expire_unless_started_and_end_at_their_deadline(void **state)
{
    (void)state;
    at_every_desk(lives_and_ends);
}

/* A claim that comes before the timer has fired gets what stands behind the job. */
static void claims_behind_an_expired_job(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"a\",\"expires_ms\":1000,\"priority\":1}");
    const char *expired = said(d, "id");
    well(d, VERB_submit, "{\"kind\":\"a\"}");
    const char *id = said(d, "id");
    d->clock += 1000;
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":0}");
    says(d, "claims.0.job.id", id);
    well(d, VERB_get, "{\"id\":\"%s\"}", expired);
    says(d, "status", "cancelled");
}

static void an_expired_job_is_not_given_out_and_holds_nobody_up(void **state)
{
    (void)state;
    at_every_desk(claims_behind_an_expired_job);
}

static void runs_now(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"a\",\"delay_ms\":3600000}");
    const char *id = said(d, "id");
    well(d, VERB_explain, "{\"id\":\"%s\"}", id);
    assert_non_null(strstr(d->answer, "pawl run "));
    well(d, VERB_run_now, "{\"id\":\"%s\",\"reason\":\"now\"}", id);
    says(d, "status", "queued");
    says(d, "run_at", "2026-01-01T00:00:00.000Z");
    well(d, VERB_run_now, "{\"id\":\"%s\"}", id);
    says(d, "version", "2");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":0}");
    const char *token = said(d, "claims.0.lease.token");
    says(d, "claims.0.job.id", id);
    ill(d, VERB_run_now, ERR_INVALID_TRANSITION, "this one is running", "{\"id\":\"%s\"}", id);
    well(d, VERB_fail,
         "{\"token\":\"%s\",\"error\":{\"message\":\"m\"},\"retry_after_ms\":3600000}", token);
    well(d, VERB_run_now, "{\"id\":\"%s\"}", id);
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":0}");
    says(d, "claims.0.job.failures", "1");
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");

    /* The steps of a plan come with their job. */
    well(d, VERB_submit,
         "{\"kind\":\"p\",\"delay_ms\":3600000,\"plan\":{\"steps\":[{\"id\":\"s\",\"kind\":\"k\"},"
         "{\"id\":\"w\",\"wait\":{\"type\":\"timer\",\"delay_ms\":1}}]}}");
    const char *plan = said(d, "id");
    well(d, VERB_resource_put, "{\"id\":\"r1\",\"slots\":2}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"wait_ms\":0}");
    says(d, "claims.0", "");
    well(d, VERB_run_now, "{\"id\":\"%s\"}", plan);
    well(d, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"wait_ms\":0}");
    well(d, VERB_complete, "{\"token\":\"%s\"}", said(d, "claims.0.lease.token"));
    let_time_pass(d, 1000);
    well(d, VERB_get, "{\"id\":\"%s\"}", plan);
    says(d, "status", "completed");
    well(d, VERB_verify, "{\"id\":\"%s\"}", plan);
    says(d, "ok", "true");
    ill(d, VERB_run_now, ERR_NOT_FOUND, "unknown job",
        "{\"id\":\"01a1e278-ed88-73d1-9060-3f3f311c080a\"}");
    ill(d, VERB_run_now, ERR_UNKNOWN_FIELD, "fresh", "{\"id\":\"%s\",\"fresh\":true}", plan);
}

static void a_scheduled_or_retrying_job_runs_now(void **state)
{
    (void)state;
    at_every_desk(runs_now);
}

static void submits_many(struct desk *d)
{
    struct buf request;
    buf_init(&request, &d->arena, 64 * 1024);
    buf_add(&request, STR("{\"jobs\":["));
    for (int i = 0; i < 1000; i++)
        buf_addf(&request, "%s{\"kind\":\"mail\",\"payload\":%d}", i > 0 ? "," : "", i);
    buf_add(&request, STR("]}"));
    buf_add_char(&request, '\0');
    ask(d, VERB_submit, request.at);
    assert_int_equal(d->code, ERR_OK);
    assert_int_equal(d->status, 201);
    says(d, "jobs.999.payload", "999");
    assert_true(strcmp(said(d, "jobs.998.id"), said(d, "jobs.999.id")) < 0);
    for (int i = 0; i < 3; i++) {
        char payload[16];
        (void)snprintf(payload, sizeof payload, "%d", i);
        (void)claimed(d);
        says(d, "claims.0.job.payload", payload);
    }
}

static void a_thousand_jobs_are_submitted_at_once_and_come_in_their_order(void **state)
{
    (void)state;
    at_every_desk(submits_many);
}

static void submits_many_badly(struct desk *d)
{
    ill(d, VERB_submit, ERR_BAD_REQUEST, "jobs[1]: kind is required",
        "{\"jobs\":[{\"kind\":\"a\"},{}]}");
    ill(d, VERB_submit, ERR_UNKNOWN_FIELD, "jobs[0]",
        "{\"jobs\":[{\"kind\":\"a\",\"colour\":1},{\"kind\":\"a\"}]}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "jobs[0]", "{\"jobs\":[7]}");
    ill(d, VERB_submit, ERR_UNPROCESSABLE_PLAN, "jobs[1]",
        "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":\"a\",\"plan\":{\"steps\":[{\"id\":\"x\",\"kind\":"
        "\"k\",\"deps\":[\"x\"]}]}}]}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "1 to 1000", "{\"jobs\":[]}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "jobs must be an array", "{\"jobs\":{}}");
    ill(d, VERB_submit, ERR_UNKNOWN_FIELD, "unknown field \"kind\" next to jobs",
        "{\"kind\":\"a\",\"jobs\":[{\"kind\":\"a\"}]}");
    well(d, VERB_claim, "{\"worker_id\":\"w\"}");
    assert_string_equal(d->answer, "{\"claims\":[]}");
}

static void of_many_jobs_all_are_made_or_none(void **state)
{
    (void)state;
    at_every_desk(submits_many_badly);
}

static void submits_badly(struct desk *d)
{
    ill(d, VERB_submit, ERR_BAD_REQUEST, "kind is required", "{}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "kind must be a string", "{\"kind\":7}");
    ill(d, VERB_submit, ERR_UNKNOWN_FIELD, "\"colour\"", "{\"kind\":\"a\",\"colour\":1}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "priority", "{\"kind\":\"a\",\"priority\":1.5}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "exclude each other",
        "{\"kind\":\"a\",\"delay_ms\":1,\"run_at\":\"2026-02-01T00:00:00Z\"}");
    ill(d, VERB_submit, ERR_PAYLOAD_TOO_LARGE, "payload", "{\"kind\":\"a\",\"payload\":%s}",
        long_text(d, 1024 * 1024));
    ill(d, VERB_submit, ERR_UNPROCESSABLE_PLAN, "", "{\"kind\":\"a\",\"plan\":{\"steps\":[]}}");
    ill(d, VERB_submit, ERR_UNPROCESSABLE_PLAN, "plan has no steps",
        "{\"kind\":\"a\",\"plan\":{}}");
    ill(d, VERB_submit, ERR_UNKNOWN_FIELD, "plan", "{\"kind\":\"a\",\"plan\":{\"step\":[]}}");
}

static void a_job_that_is_not_well_formed_is_refused_by_name(void **state)
{
    (void)state;
    at_every_desk(submits_badly);
}

static void submits_with_a_key(struct desk *d)
{
    d->key = "r1";
    const char *first = well(d, VERB_submit, "{\"kind\":\"a\"}");
    d->key = "r1";
    const char *second = well(d, VERB_submit, "{\"kind\":\"a\"}");
    assert_string_equal(first, second);
    assert_int_equal(d->status, 201);
    d->key = "r1";
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH, "r1", "{\"kind\":\"b\"}");
    d->key = "r2";
    first = well(d, VERB_submit, "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":\"a\"}]}");
    d->key = "r2";
    second = well(d, VERB_submit, "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":\"a\"}]}");
    assert_string_equal(first, second);
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":10}");
    assert_string_not_equal(said(d, "claims.2"), "");
    says(d, "claims.3", "");
}

static void a_request_that_is_sent_again_under_its_key_is_answered_again(void **state)
{
    (void)state;
    at_every_desk(submits_with_a_key);
}

static void settles_kind(struct desk *d)
{
    well(d, VERB_kind_set,
         "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":7,\"strategy\":\"fixed\",\"initial_ms\":"
         "2000,\"max_ms\":2000,\"jitter\":\"none\"}}");
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"jitter\":\"full\"}}");
    says(d, "retry.max_attempts", "7");
    says(d, "retry.strategy", "fixed");
    says(d, "retry.jitter", "full");
}

static void the_settings_of_a_kind_stand_behind_what_the_job_says(void **state)
{
    (void)state;
    at_every_desk(settles_kind);
}

/* ---- verbs on a job ---- */

static void names_no_job(struct desk *d)
{
    static const struct {
        enum verb_name verb;
        const char *rest;
    } calls[] = {
        {VERB_append, ",\"events\":[{\"type\":\"a.b\"}]"},
        {VERB_cancel, ""},
        {VERB_signal, ",\"correlation_key\":\"k\""},
        {VERB_requeue, ""},
        {VERB_dead_letter, ",\"reason_code\":\"timeout\""},
        {VERB_redact, ""},
        {VERB_plan, ",\"steps\":[{\"id\":\"a\",\"kind\":\"k\"}]"},
        {VERB_verdict, ",\"step\":\"a\",\"decision\":\"accept\""},
        {VERB_answer, ",\"step\":\"a\",\"answer\":1"},
        {VERB_answer_job, ",\"answer\":1"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const char *rest = calls[i].rest;
        ill(d, calls[i].verb, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"%s}", rest);
        ill(d, calls[i].verb, ERR_BAD_REQUEST, "id", "{}");
        ill(d, calls[i].verb, ERR_BAD_REQUEST, "\"me\" is not a job id", "{\"id\":\"me\"%s}", rest);
        ill(d, calls[i].verb, ERR_BAD_REQUEST, "id must be a string", "{\"id\":7%s}", rest);
        ill(d, calls[i].verb, ERR_UNKNOWN_FIELD, "\"colour\"",
            "{\"id\":\"" NOBODY "\"%s,\"colour\":1}", rest);
    }
}

static void a_verb_on_a_job_needs_one_that_there_is(void **state)
{
    (void)state;
    at_every_desk(names_no_job);
}

static void appends(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_append,
         "{\"id\":\"%s\",\"expected_version\":1,\"events\":[{\"type\":\"a.b\",\"payload\":{}},"
         "{\"type\":\"a.c\"}]}",
         id);
    assert_string_equal(d->answer, "{\"version\":3}");
    ill(d, VERB_append, ERR_VERSION_MISMATCH, "version 3",
        "{\"id\":\"%s\",\"expected_version\":1,\"events\":[{\"type\":\"a.b\"}]}", id);
    ill(d, VERB_append, ERR_VERSION_MISMATCH, "expected 0",
        "{\"id\":\"%s\",\"expected_version\":0,\"events\":[{\"type\":\"a.b\"}]}", id);
    ill(d, VERB_append, ERR_STALE_LEASE, "token",
        "{\"id\":\"%s\",\"token\":\"x\",\"events\":[{\"type\":\"a.b\"}]}", id);
    ill(d, VERB_append, ERR_BAD_REQUEST, "reserved for Pawl",
        "{\"id\":\"%s\",\"events\":[{\"type\":\"job_completed\"}]}", id);
    ill(d, VERB_append, ERR_INVALID_TRANSITION, "requires the token",
        "{\"id\":\"%s\",\"events\":[{\"type\":\"job_compensated\"}]}", id);
    ill(d, VERB_append, ERR_BAD_REQUEST, "1 to 1000", "{\"id\":\"%s\",\"events\":[]}", id);
    ill(d, VERB_append, ERR_BAD_REQUEST, "1 to 1000", "{\"id\":\"%s\"}", id);
    ill(d, VERB_append, ERR_BAD_REQUEST, "events[1]: type is required",
        "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\"},{}]}", id);
    ill(d, VERB_append, ERR_UNKNOWN_FIELD, "events[0]",
        "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"data\":1}]}", id);
    ill(d, VERB_append, ERR_PAYLOAD_TOO_LARGE, "events[0]: payload",
        "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":%s}]}", id,
        long_text(d, 1024 * 1024));
    const char *token = claimed(d);
    well(d, VERB_append,
         "{\"id\":\"%s\",\"token\":\"%s\",\"events\":[{\"type\":\"job_compensated\"}]}", id, token);
    assert_string_equal(d->answer, "{\"version\":6}");
}

static void events_are_appended_at_the_expected_version(void **state)
{
    (void)state;
    at_every_desk(appends);
}

static void cancels(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"hard\",\"reason\":\"no\"}", id);
    says(d, "status", "cancelled");
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    says(d, "status", "cancelled");
    id = submit(d);
    (void)claimed(d);
    well(d, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"soft\"}", id);
    says(d, "status", "running");
    well(d, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"hard\"}", id);
    says(d, "status", "cancelled");
    ill(d, VERB_cancel, ERR_BAD_REQUEST, "mode must be one of soft, hard",
        "{\"id\":\"%s\",\"mode\":\"medium\"}", id);
    id = submit(d);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":5}", claimed(d));
    ill(d, VERB_cancel, ERR_INVALID_TRANSITION, "completed", "{\"id\":\"%s\"}", id);
    ill(d, VERB_requeue, ERR_INVALID_TRANSITION, "completed", "{\"id\":\"%s\"}", id);
    ill(d, VERB_dead_letter, ERR_INVALID_TRANSITION, "completed",
        "{\"id\":\"%s\",\"reason_code\":\"timeout\"}", id);
    ill(d, VERB_signal, ERR_INVALID_TRANSITION, "completed",
        "{\"id\":\"%s\",\"correlation_key\":\"k\"}", id);
}

static void a_job_that_has_ended_is_not_cancelled(void **state)
{
    (void)state;
    at_every_desk(cancels);
}

static void buries_and_digs_up(struct desk *d)
{
    const char *id = submit(d);
    ill(d, VERB_requeue, ERR_INVALID_TRANSITION, "queued", "{\"id\":\"%s\"}", id);
    ill(d, VERB_redact, ERR_INVALID_TRANSITION, "", "{\"id\":\"%s\"}", id);
    ill(d, VERB_dead_letter, ERR_BAD_REQUEST, "reason_code is required", "{\"id\":\"%s\"}", id);
    ill(d, VERB_dead_letter, ERR_BAD_REQUEST, "stage must be one of",
        "{\"id\":\"%s\",\"reason_code\":\"timeout\",\"stage\":\"left\"}", id);
    well(d, VERB_dead_letter,
         "{\"id\":\"%s\",\"reason_code\":\"policy_violation\",\"stage\":\"input\",\"message\":"
         "\"bad\"}",
         id);
    says(d, "status", "dead_lettered");
    says(d, "dead_letter.reason_code", "policy_violation");
    says(d, "dead_letter.stage", "input");
    says(d, "dead_letter.last_error.message", "bad");
    says(d, "dead_letter.at", "2026-01-01T00:00:00.000Z");
    well(d, VERB_requeue, "{\"id\":\"%s\",\"reason\":\"fixed\",\"fresh\":true}", id);
    says(d, "status", "queued");
    says(d, "epoch", "2");
    says(d, "dead_letter", "");
    (void)claimed(d);
    ill(d, VERB_dead_letter, ERR_INVALID_TRANSITION, "only its worker",
        "{\"id\":\"%s\",\"reason_code\":\"timeout\"}", id);
}

static void a_dead_letter_starts_anew(void **state)
{
    (void)state;
    at_every_desk(buries_and_digs_up);
}

static void redacts(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"payload\":{\"name\":\"Ada\"},\"goal\":\"Ada\"}");
    const char *id = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":\"Ada\"}", claimed(d));
    well(d, VERB_redact, "{\"id\":\"%s\"}", id);
    says(d, "id", id);
    says(d, "status", "completed");
    says(d, "redacted", "true");
    assert_null(strstr(d->answer, "Ada"));
    well(d, VERB_redact, "{\"id\":\"%s\"}", id);
    says(d, "redacted", "true");
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "redacted", "true");
    assert_null(strstr(d->answer, "Ada"));
    well(d, VERB_events, "{\"id\":\"%s\"}", id);
    assert_null(strstr(d->answer, "Ada"));
}

static void a_redacted_job_says_nothing_of_what_it_had(void **state)
{
    (void)state;
    at_every_desk(redacts);
}

static void signals(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_signal,
         "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":[1],\"signal_id\":\"s1\"}", id);
    assert_int_equal(d->status, 202);
    says(d, "signal", "stored");
    says(d, "job.id", id);
    well(d, VERB_signal,
         "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":[1],\"signal_id\":\"s1\"}", id);
    assert_int_equal(d->status, 200);
    says(d, "signal", "repeated");
    const char *token = claimed(d);
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"webhook\",\"correlation_key\":\"k\"}", token);
    says(d, "status", "queued");
    token = claimed(d);
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"webhook\",\"correlation_key\":\"k\"}", token);
    says(d, "status", "waiting");
    ill(d, VERB_signal, ERR_WRONG_CORRELATION_KEY, "\"k\"",
        "{\"id\":\"%s\",\"correlation_key\":\"other\"}", id);
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"other\",\"early\":true}", id);
    says(d, "signal", "stored");
    says(d, "job.wait.type", "webhook");
    says(d, "job.wait.since", "2026-01-01T00:00:00.000Z");
    ill(d, VERB_signal, ERR_BAD_REQUEST, "correlation_key is required", "{\"id\":\"%s\"}", id);
    ill(d, VERB_signal, ERR_PAYLOAD_TOO_LARGE, "payload",
        "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":%s}", id, long_text(d, 1 << 20));
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\"}", id);
    says(d, "signal", "delivered");
}

static void a_signal_is_delivered_stored_or_known(void **state)
{
    (void)state;
    at_every_desk(signals);
}

static void signals_too_often(struct desk *d)
{
    const char *id = submit(d);
    struct buf request;
    buf_init(&request, &d->arena, 128 * 1024);
    buf_add(&request, STR("{\"ops\":["));
    for (int i = 0; i < 1000; i++)
        buf_addf(&request, "%s{\"op\":\"signal\",\"id\":\"%s\",\"correlation_key\":\"k%d\"}",
                 i > 0 ? "," : "", id, i);
    buf_add(&request, STR("]}"));
    buf_add_char(&request, '\0');
    ask(d, VERB_batch, request.at);
    assert_int_equal(d->code, ERR_OK);
    says(d, "results.999.status", "202");
    says(d, "results.999.body.job.version", "1001");
    ill(d, VERB_signal, ERR_RATE_LIMITED, "1000 undelivered signals",
        "{\"id\":\"%s\",\"correlation_key\":\"one more\"}", id);
}

static void too_many_stored_signals_are_refused(void **state)
{
    (void)state;
    at_every_desk(signals_too_often);
}

/* ---- plans ---- */

static void plans(struct desk *d)
{
    const char *id = submit(d);
    well(d, VERB_plan,
         "{\"id\":\"%s\",\"reason\":\"why\",\"steps\":[{\"id\":\"a\",\"wait\":{\"type\":\"human\","
         "\"prompt\":\"ok?\"}},{\"id\":\"b\",\"kind\":\"k\",\"deps\":[\"a\"]}]}",
         id);
    says(d, "status", "waiting");
    says(d, "wait.type", "steps");
    says(d, "plan.version", "1");
    says(d, "plan.steps",
         "{\"blocked\":1,\"ready\":0,\"active\":0,\"held\":0,\"asking\":1,\"succeeded\":0,"
         "\"failed\":0}");
    ill(d, VERB_plan, ERR_UNPROCESSABLE_PLAN, "", "{\"id\":\"%s\",\"steps\":[]}", id);
    ill(d, VERB_plan, ERR_BAD_REQUEST, "steps is required", "{\"id\":\"%s\"}", id);
    ill(d, VERB_plan, ERR_BAD_REQUEST, "steps must be an array", "{\"id\":\"%s\",\"steps\":{}}",
        id);
    ill(d, VERB_answer, ERR_BAD_REQUEST, "step is required", "{\"id\":\"%s\",\"answer\":1}", id);
    ill(d, VERB_answer, ERR_BAD_REQUEST, "answer is required", "{\"id\":\"%s\",\"step\":\"a\"}",
        id);
    ill(d, VERB_answer, ERR_NOT_FOUND, "unknown step \"z\"",
        "{\"id\":\"%s\",\"step\":\"z\",\"answer\":1}", id);
    ill(d, VERB_verdict, ERR_BAD_REQUEST, "step is required",
        "{\"id\":\"%s\",\"decision\":\"accept\"}", id);
    ill(d, VERB_verdict, ERR_BAD_REQUEST, "decision is required", "{\"id\":\"%s\",\"step\":\"b\"}",
        id);
    ill(d, VERB_verdict, ERR_BAD_REQUEST, "decision must be one of accept",
        "{\"id\":\"%s\",\"step\":\"b\",\"decision\":\"maybe\"}", id);
    ill(d, VERB_verdict, ERR_UNKNOWN_FIELD, "question.text",
        "{\"id\":\"%s\",\"step\":\"b\",\"decision\":\"needs_user\",\"question\":{\"text\":\"\"}}",
        id);
    ill(d, VERB_verdict, ERR_INVALID_TRANSITION, "waiting_deps",
        "{\"id\":\"%s\",\"step\":\"b\",\"decision\":\"accept\"}", id);
    well(d, VERB_answer, "{\"id\":\"%s\",\"step\":\"a\",\"answer\":{\"x\":1},\"by\":\"bob\"}", id);
    says(d, "plan.steps.succeeded", "1");
    says(d, "plan.steps.ready", "1");
    ill(d, VERB_plan, ERR_INVALID_TRANSITION, "verdict replan",
        "{\"id\":\"%s\",\"steps\":[{\"id\":\"c\",\"kind\":\"k\"}]}", id);
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    ill(d, VERB_plan, ERR_INVALID_TRANSITION, "cancelled",
        "{\"id\":\"%s\",\"steps\":[{\"id\":\"c\",\"kind\":\"k\"}]}", id);
}

static void a_job_gets_a_plan_whose_steps_ask_people(void **state)
{
    (void)state;
    at_every_desk(plans);
}

/* ---- batch ---- */

static void does_many_things(struct desk *d)
{
    const char *id = submit(d);
    const char *token = claimed(d);
    well(d, VERB_batch,
         "{\"ops\":[{\"op\":\"complete\",\"token\":\"%s\",\"result\":1},"
         "{\"kind\":\"a\",\"op\":\"submit\"},"
         "{\"op\":\"cancel\",\"id\":\"%s\"},"
         "{\"op\":\"heartbeat\",\"token\":\"x\"},"
         "{\"op\":\"submit\",\"jobs\":[{\"kind\":\"b\"},{\"kind\":\"b\"}]},"
         "{\"op\":\"submit\",\"jobs\":[{\"kind\":\"b\"},{}]},"
         "{\"op\":\"submit\",\"kind\":\"c\",\"idempotency_key\":\"k\"},"
         "{\"op\":\"submit\",\"kind\":\"c\",\"idempotency_key\":\"k\"},"
         "{\"op\":\"claim\",\"worker_id\":\"w\"},"
         "{\"op\":\"complete\",\"token\":\"%s\",\"result\":1}]}",
         token, id, token);
    assert_int_equal(d->status, 200);
    says(d, "results.0.status", "200");
    says(d, "results.0.body.status", "completed");
    says(d, "results.1.status", "201");
    says(d, "results.1.body.kind", "a");
    says(d, "results.2.status", "409");
    says(d, "results.2.body.code", "invalid_transition");
    says(d, "results.2.body.status", "409");
    assert_non_null(strstr(said(d, "results.2.body.detail"), "completed"));
    assert_string_not_equal(said(d, "results.2.body.title"), "");
    says(d, "results.3.status", "409");
    says(d, "results.3.body.code", "stale_lease");
    says(d, "results.4.status", "201");
    says(d, "results.4.body.jobs.1.kind", "b");
    says(d, "results.5.status", "400");
    says(d, "results.5.body.code", "bad_request");
    says(d, "results.6.status", "201");
    says(d, "results.7.status", "200");
    says(d, "results.7.body.duplicate", "true");
    says(d, "results.8.status", "200");
    says(d, "results.8.body.claims.0.job.status", "running"); /* one that was made before it */
    says(d, "results.9.body.repeated", "true");
    says(d, "results.10", "");
}

static void a_batch_does_each_of_its_entries_alone(void **state)
{
    (void)state;
    at_every_desk(does_many_things);
}

/* Three operations, of which the second is refused: nothing may come of the others. */
static void refuses_all_of_them(struct desk *d)
{
    const char *id = submit(d);
    const char *token = claimed(d);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    const char *before = d->answer;
    d->key = "all";
    ill(d, VERB_batch, ERR_BATCH_REFUSED, "ops[1]: ",
        "{\"atomic\":true,\"ops\":[{\"op\":\"effect_begin\",\"token\":\"%s\",\"key\":\"e\"},"
        "{\"op\":\"complete\",\"token\":\"%s\"},"
        "{\"op\":\"submit\",\"kind\":\"other\",\"idempotency_key\":\"k\"},"
        "{\"op\":\"claim\",\"worker_id\":\"w\"}]}",
        token, token);
    assert_int_equal(d->err.part.index, 1);
    assert_int_equal(d->err.part.code, ERR_INVALID_TRANSITION);
    assert_string_equal(well(d, VERB_get, "{\"id\":\"%s\"}", id), before);
    well(d, VERB_list, "{\"kind\":\"other\"}");
    says(d, "jobs.0", "");
    /* Nor is the answer kept: what was refused may go well the next time. */
    d->key = "all";
    well(d, VERB_batch,
         "{\"atomic\":true,\"ops\":[{\"op\":\"effect_begin\",\"token\":\"%s\",\"key\":\"e\"},"
         "{\"op\":\"effect_commit\",\"token\":\"%s\",\"key\":\"e\",\"result\":7},"
         "{\"op\":\"complete\",\"token\":\"%s\",\"result\":1},"
         "{\"op\":\"submit\",\"jobs\":[{\"kind\":\"other\"},{\"kind\":\"other\"}]},"
         "{\"op\":\"claim\",\"worker_id\":\"w\",\"max\":2},"
         "{\"op\":\"claim\",\"worker_id\":\"w\"}]}",
         token, token, token);
    says(d, "results.2.body.status", "completed");
    says(d, "results.4.body.claims.1.job.kind", "other");
    says(d, "results.5.body.claims", "[]");
}

static void an_atomic_batch_is_done_as_a_whole_or_leaves_no_trace(void **state)
{
    (void)state;
    at_every_desk(refuses_all_of_them);
}

/* Settings of a kind are read over the request in the transaction, and may refuse it there. */
static void refuses_what_is_read_late(struct desk *d)
{
    well(d, VERB_kind_set, "{\"kind\":\"slow\",\"retry\":{\"initial_ms\":60000}}");
    ill(d, VERB_batch, ERR_BATCH_REFUSED, "ops[1]: jobs[1]: ",
        "{\"atomic\":true,\"ops\":[{\"op\":\"submit\",\"kind\":\"first\"},"
        "{\"op\":\"submit\",\"jobs\":[{\"kind\":\"slow\"},"
        "{\"kind\":\"slow\",\"retry\":{\"max_ms\":1000}}]}]}");
    well(d, VERB_list, "{}");
    says(d, "jobs.0", "");
    ill(d, VERB_batch, ERR_BATCH_REFUSED, "ops[1]: max",
        "{\"atomic\":true,\"ops\":[{\"op\":\"submit\",\"kind\":\"first\"},"
        "{\"op\":\"claim\",\"worker_id\":\"w\",\"max\":0}]}");
    ill(d, VERB_batch, ERR_BATCH_REFUSED, "ops[0]: ",
        "{\"atomic\":true,\"ops\":[{\"op\":\"claim_steps\",\"worker_id\":\"w\","
        "\"resource_id\":\"nowhere\"},{\"op\":\"submit\",\"kind\":\"first\"}]}");
    well(d, VERB_list, "{}");
    says(d, "jobs.0", "");
}

static void an_atomic_batch_is_refused_for_what_is_seen_late(void **state)
{
    (void)state;
    at_every_desk(refuses_what_is_read_late);
}

static void batches_atomically_and_badly(struct desk *d)
{
    static const char *const settings[] = {
        "{\"op\":\"pause\",\"queue\":\"q\"}", "{\"op\":\"kind_set\",\"kind\":\"k\"}",
        "{\"op\":\"resource_put\",\"id\":\"r\",\"slots\":1,\"ttl_ms\":1000}",
        "{\"op\":\"token_create\",\"name\":\"n\",\"scopes\":[\"read\"]}"};
    ill(d, VERB_batch, ERR_BAD_REQUEST, "atomic",
        "{\"atomic\":\"yes\",\"ops\":[{\"op\":\"submit\",\"kind\":\"a\"}]}");
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        ill(d, VERB_batch, ERR_BATCH_REFUSED,
            "ops[1]: an atomic batch takes only operations on jobs",
            "{\"atomic\":true,\"ops\":[{\"op\":\"submit\",\"kind\":\"a\"},%s]}", settings[i]);
    ill(d, VERB_batch, ERR_BATCH_REFUSED, "ops[1]: submit: unknown field",
        "{\"atomic\":true,\"ops\":[{\"op\":\"submit\",\"kind\":\"a\"},"
        "{\"op\":\"submit\",\"kind\":\"a\",\"colour\":1}]}");
    assert_int_equal(d->err.part.code, ERR_UNKNOWN_FIELD);
    well(d, VERB_list, "{}");
    says(d, "jobs.0", "");
    well(d, VERB_batch,
         "{\"atomic\":false,\"ops\":[{\"op\":\"dance\"},"
         "{\"op\":\"submit\",\"kind\":\"a\"}]}");
    says(d, "results.1.status", "201");
}

static void an_atomic_batch_takes_what_is_about_jobs_and_leases_only(void **state)
{
    (void)state;
    at_every_desk(batches_atomically_and_badly);
}

static void batches_badly(struct desk *d)
{
    ill(d, VERB_batch, ERR_BAD_REQUEST, "ops is required", "{}");
    ill(d, VERB_batch, ERR_BAD_REQUEST, "1 to 1000", "{\"ops\":[]}");
    ill(d, VERB_batch, ERR_BAD_REQUEST, "ops must be an array", "{\"ops\":{}}");
    ill(d, VERB_batch, ERR_UNKNOWN_FIELD, "\"op\"", "{\"op\":1}");
    well(d, VERB_batch,
         "{\"ops\":[7,{},{\"op\":7},{\"op\":\"dance\"},{\"op\":\"get\"},{\"op\":\"batch\",\"ops\":["
         "]},{\"op\":\"claim\",\"worker_id\":\"w\",\"wait_ms\":1},{\"op\":\"claim\"},"
         "{\"op\":\"submit\",\"kind\":\"a\",\"colour\":1}]}");
    for (int i = 0; i < 9; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "results.%d.status", i);
        says(d, path, "400");
        (void)snprintf(path, sizeof path, "results.%d.body.code", i);
        says(d, path, i == 8 ? "unknown_field" : "bad_request");
    }
    assert_non_null(strstr(said(d, "results.6.body.detail"), "wait_ms"));
    (void)submit(d);
    well(d, VERB_batch,
         "{\"ops\":[{\"op\":\"claim\",\"worker_id\":\"w\",\"max\":600},"
         "{\"op\":\"claim\",\"worker_id\":\"w\",\"max\":600,\"wait_ms\":0},"
         "{\"op\":\"claim\",\"worker_id\":\"w\",\"max\":400}]}");
    says(d, "results.0.status", "200");
    says(d, "results.0.body.claims.0.job.kind", "mail");
    says(d, "results.1.status", "400");
    says(d, "results.2.status", "200");
}

static void an_entry_that_is_not_well_formed_fails_alone(void **state)
{
    (void)state;
    at_every_desk(batches_badly);
}

static void batches_too_much(struct desk *d)
{
    struct buf request;
    buf_init(&request, &d->arena, 64 * 1024);
    buf_add(&request, STR("{\"ops\":[{\"op\":\"submit\",\"kind\":\"a\"},"
                          "{\"op\":\"submit\",\"jobs\":["));
    for (int i = 0; i < 1000; i++)
        buf_addf(&request, "%s{\"kind\":\"a\"}", i > 0 ? "," : "");
    buf_add(&request, STR("]},{\"op\":\"submit\",\"kind\":\"b\"}]}"));
    buf_add_char(&request, '\0');
    ask(d, VERB_batch, request.at);
    assert_int_equal(d->code, ERR_OK);
    says(d, "results.0.status", "201");
    says(d, "results.1.status", "400");
    says(d, "results.2.status", "201");
}

static void an_entry_that_does_not_fit_is_refused_and_the_others_done(void **state)
{
    (void)state;
    at_every_desk(batches_too_much);
}

static void repeats_batches(struct desk *d)
{
    static const char request[] = "{\"ops\":[{\"op\":\"submit\",\"kind\":\"a\"},{\"op\":\"dance\"},"
                                  "{\"op\":\"submit\",\"kind\":\"b\"}]}";
    d->key = "b1";
    const char *first = well(d, VERB_batch, "%s", request);
    d->key = "b1";
    assert_string_equal(well(d, VERB_batch, "%s", request), first);
    says(d, "results.1.status", "400");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":10}");
    says(d, "claims.2", "");
    d->key = "b2";
    well(d, VERB_batch, "{\"ops\":[{\"op\":\"dance\"}]}");
    says(d, "results.0.status", "400");
}

static void a_batch_that_is_sent_again_under_its_key_is_done_once(void **state)
{
    (void)state;
    at_every_desk(repeats_batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_answered_with_every_member_in_order),
        cmocka_unit_test(a_job_is_submitted_with_everything_there_is),
        cmocka_unit_test(jobs_expire_unless_started_and_end_at_their_deadline),
        cmocka_unit_test(an_expired_job_is_not_given_out_and_holds_nobody_up),
        cmocka_unit_test(a_scheduled_or_retrying_job_runs_now),
        cmocka_unit_test(a_thousand_jobs_are_submitted_at_once_and_come_in_their_order),
        cmocka_unit_test(of_many_jobs_all_are_made_or_none),
        cmocka_unit_test(a_job_that_is_not_well_formed_is_refused_by_name),
        cmocka_unit_test(a_request_that_is_sent_again_under_its_key_is_answered_again),
        cmocka_unit_test(the_settings_of_a_kind_stand_behind_what_the_job_says),
        cmocka_unit_test(a_verb_on_a_job_needs_one_that_there_is),
        cmocka_unit_test(events_are_appended_at_the_expected_version),
        cmocka_unit_test(a_job_that_has_ended_is_not_cancelled),
        cmocka_unit_test(a_dead_letter_starts_anew),
        cmocka_unit_test(a_redacted_job_says_nothing_of_what_it_had),
        cmocka_unit_test(a_signal_is_delivered_stored_or_known),
        cmocka_unit_test(too_many_stored_signals_are_refused),
        cmocka_unit_test(a_job_gets_a_plan_whose_steps_ask_people),
        cmocka_unit_test(a_batch_does_each_of_its_entries_alone),
        cmocka_unit_test(an_atomic_batch_is_done_as_a_whole_or_leaves_no_trace),
        cmocka_unit_test(an_atomic_batch_is_refused_for_what_is_seen_late),
        cmocka_unit_test(an_atomic_batch_takes_what_is_about_jobs_and_leases_only),
        cmocka_unit_test(an_entry_that_is_not_well_formed_fails_alone),
        cmocka_unit_test(an_entry_that_does_not_fit_is_refused_and_the_others_done),
        cmocka_unit_test(a_batch_that_is_sent_again_under_its_key_is_done_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
