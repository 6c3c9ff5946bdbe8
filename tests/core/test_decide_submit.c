/* Submitting a job: what is kept, what is refused, and what makes it a duplicate. */
#include "scenario.h"

static void a_submitted_job_is_queued_and_due_at_once(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.payload = js(w, " {'to': 'bob'} ");
    do_ok(w, submit_of(&spec));
    const struct job *job = &w->slice.job;
    assert_status(w, "queued");
    assert_int_equal(job->version, 1);
    assert_int_equal(job->attempt, 0);
    assert_int_equal(job->epoch, 1);
    assert_int_equal(job->failures, 0);
    assert_int_equal(job->run_at, WORLD_START_MS);
    assert_int_equal(job->created_at, WORLD_START_MS);
    assert_int_equal(job->updated_at, WORLD_START_MS);
    assert_str(job->spec.payload, js(w, "{'to': 'bob'}"));
    assert_text(last_event(w)->actor, "alice");
    assert_text(last_event(w)->cause_text, "submit");
    story(w, "job_created");
}

static void defaults_are_written_into_the_stream(void **state)
{
    struct world *w = *state;
    submitted(w);
    assert_payload(w, last_event(w),
                   "{'kind':'mail','queue':'default','retry':{'max_attempts':20,"
                   "'strategy':'exponential','initial_ms':500,'factor':2,'max_ms':3600000,"
                   "'jitter':'equal','on_exhausted':'dead_letter'},'in_doubt':'fail'}");
    story(w, "job_created");
}

static void a_delay_becomes_a_due_time(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 1500;
    do_ok(w, submit_of(&spec));
    assert_int_equal(w->slice.job.run_at, WORLD_START_MS + 1500);
    assert_int_equal(w->slice.job.spec.run_at, WORLD_START_MS + 1500);
    assert_int_equal(w->slice.job.spec.delay_ms, 0);
    story(w, "job_created");
}

static void a_due_time_in_the_past_means_at_once(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.run_at = WORLD_START_MS - 5;
    do_ok(w, submit_of(&spec));
    assert_int_equal(w->slice.job.run_at, WORLD_START_MS);
    story(w, "job_created");
}

static void a_null_payload_is_no_payload(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.payload = STR(" null ");
    do_ok(w, submit_of(&spec));
    assert_text(w->slice.job.spec.payload, NULL);
    story(w, "job_created");
}

static void the_correlation_goes_into_every_event(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.correlation_id = STR("order-7");
    do_ok(w, submit_of(&spec));
    do_ok(w, claim_by("w1", true));
    for (size_t i = 0; i < w->log_count; i++)
        assert_text(w->log[i].correlation_id, "order-7");
    story(w, "job_created job_leased job_running");
}

static void a_second_submit_of_the_same_job_is_refused(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    submitted(w);
    refused(w, submit_of(&spec), ERR_INVALID_TRANSITION, "job {job} already exists");
    story(w, "job_created");
}

static void a_known_idempotency_key_gives_the_job_that_has_it(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    struct job other = {.status = JOB_RUNNING, .version = 3, .spec = spec};
    struct command command = submit_of(&spec);
    command.submit.duplicate = &other;
    spec.idempotency_key = STR("once");
    spec.priority = 7; /* what else differs does not matter */
    do_ok(w, command);
    assert_true(w->last.result.duplicate);
    assert_int_equal(w->last.count, 0);
    assert_int_equal(w->last.after.job.version, 3);
    assert_int_equal(w->last.after.job.status, JOB_RUNNING);
    assert_int_equal(w->slice.job.status, JOB_NONE);
    assert_int_equal(w->log_count, 0);
}

static void a_known_idempotency_key_with_another_payload_is_a_mismatch(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    struct job other = {.status = JOB_RUNNING, .version = 3, .spec = spec};
    struct command command = submit_of(&spec);
    command.submit.duplicate = &other;
    spec.idempotency_key = STR("once");
    other.spec.payload = STR("{\"to\":\"a\",\"n\":1.0}");
    spec.payload = STR("{ \"n\": 1, \"to\": \"\\u0061\" }");
    do_ok(w, command);
    assert_true(w->last.result.duplicate);
    spec.payload = STR("{\"n\":2,\"to\":\"a\"}");
    refused(
        w, command, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"once\" belongs to a job with another payload: use a different key");
    spec.payload = (struct str){NULL, 0};
    refused(
        w, command, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"once\" belongs to a job with another payload: use a different key");
    spec.payload = other.spec.payload;
    spec.kind = STR("refund");
    refused(w, command, ERR_IDEMPOTENCY_MISMATCH,
            "the idempotency_key \"once\" belongs to a job of kind \"mail\", not \"refund\": use a "
            "different key");
    command.blind = true;
    refused(w, command, ERR_IDEMPOTENCY_MISMATCH,
            "the idempotency_key \"once\" belongs to a job of another kind: use a different key");
    assert_int_equal(w->log_count, 0);
}

#define PRINT_62 "00000000000000000000000000000000000000000000000000000000000000"

static void fingerprints_are_compared_instead_of_payloads_where_both_have_one(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    struct job other = {.status = JOB_QUEUED, .version = 1, .spec = spec};
    struct command command = submit_of(&spec);
    command.submit.duplicate = &other;
    spec.idempotency_key = STR("once");
    spec.payload = STR("\"secret one\"");
    other.spec.payload = STR("\"secret two\"");
    other.spec.fingerprint = STR(PRINT_62 "af");
    spec.fingerprint = STR(PRINT_62 "AF");
    do_ok(w, command);
    assert_true(w->last.result.duplicate);
    /* Zeros are a fingerprint like any other. */
    spec.fingerprint = STR(PRINT_62 "00");
    refused(w, command, ERR_IDEMPOTENCY_MISMATCH,
            "the idempotency_key \"once\" belongs to a job with another fingerprint: use a "
            "different key");
    other.spec.fingerprint = (struct str){NULL, 0};
    refused(
        w, command, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"once\" belongs to a job with another payload: use a different key");
}

static void of_a_redacted_job_only_the_kind_is_left_to_compare(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    struct job other = {.status = JOB_COMPLETED, .version = 4, .redacted = true};
    struct command command = submit_of(&spec);
    command.submit.duplicate = &other;
    spec.idempotency_key = STR("once");
    spec.payload = STR("1");
    other.spec.kind = spec.kind;
    do_ok(w, command);
    assert_true(w->last.result.duplicate);
    other.spec.kind = STR("refund");
    refused(w, command, ERR_IDEMPOTENCY_MISMATCH,
            "the idempotency_key \"once\" belongs to a job of kind \"refund\", not \"mail\": use a "
            "different key");
}

static void a_plan_under_the_key_of_a_job_without_one_is_a_mismatch(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    struct job other = {.status = JOB_QUEUED, .version = 1, .spec = spec};
    struct command command = submit_of(&spec);
    command.submit.duplicate = &other;
    spec.idempotency_key = STR("once");
    spec.plan = STR("{\"steps\":[{\"id\":\"a\",\"kind\":\"k\"}]}");
    refused(w, command, ERR_IDEMPOTENCY_MISMATCH,
            "the idempotency_key \"once\" belongs to a job without a plan: use a different key");
    other.plan_version = 2; /* replaced since: steps are not compared */
    do_ok(w, command);
    assert_true(w->last.result.duplicate);
}

/* The request is looked at first: a key does not make a bad one good. */
static void a_bad_request_is_refused_even_when_its_key_is_known(void **state)
{
    struct world *w = *state;
    struct job other = {.status = JOB_RUNNING};
    struct spec spec = world_spec();
    struct command command = submit_of(&spec);
    command.submit.duplicate = &other;
    spec.priority = 1000001;
    refused(w, command, ERR_BAD_REQUEST,
            "priority must be a whole number from -1000000 to 1000000, not 1000001");
    assert_int_equal(w->log_count, 0);
}

static void a_spec_out_of_bounds_is_refused_with_its_value(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.kind = absent;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST, "kind is required");
    spec = world_spec();
    spec.lease_ttl_ms = 99;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST,
            "lease_ttl_ms must be a whole number from 100 to 86400000, not 99");
    spec = world_spec();
    spec.lease_ttl_ms = 1000;
    spec.heartbeat_ms = 1001;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST,
            "heartbeat_ms must be at most half of lease_ttl_ms, but 1001 is more than "
            "half of 1000");
    spec = world_spec();
    spec.delay_ms = 1;
    spec.run_at = WORLD_START_MS;
    refused(w, submit_of(&spec), ERR_BAD_REQUEST, "run_at and delay_ms exclude each other");
    assert_int_equal(w->log_count, 0);
}

static void a_payload_over_one_mebibyte_is_refused_with_its_size(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    size_t size = PAYLOAD_BYTES_MAX + 1;
    char *text = arena_alloc(&w->arena, size);
    memset(text, '1', size);
    spec.payload = (struct str){text, size};
    refused(w, submit_of(&spec), ERR_PAYLOAD_TOO_LARGE,
            "payload must be at most 1048576 bytes long, not 1048577");
    assert_int_equal(w->log_count, 0);
}

static void a_job_can_be_submitted_with_its_plan(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.plan_version, 1);
    assert_text(w->slice.job.spec.plan, NULL);
    story(w, "job_created plan_generated step_waiting_deps:b");
}

static void a_plan_that_is_not_one_is_refused_with_the_job(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.plan = js(w, "{'steps':[{'id':'a'}],'stepz':1}");
    refused(w, submit_of(&spec), ERR_UNKNOWN_FIELD, "plan: unknown field \"stepz\"");
    spec.plan = STR("{}");
    refused(w, submit_of(&spec), ERR_UNPROCESSABLE_PLAN, "plan has no steps");
    spec.plan = js(w, "{'steps':[]}");
    refused(w, submit_of(&spec), ERR_UNPROCESSABLE_PLAN, "a plan needs at least one step");
    spec.plan = js(w, "{'steps':null}");
    refused(w, submit_of(&spec), ERR_UNPROCESSABLE_PLAN, "steps must be an array of steps");
    spec.plan = STR("[]");
    refused(w, submit_of(&spec), ERR_BAD_REQUEST, "plan must be an object, not \"[]\"");
    assert_int_equal(w->slice.job.status, JOB_NONE);
    assert_int_equal(w->log_count, 0);
}

static void white_space_around_a_plan_is_allowed(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.plan = js(w, " {'steps': [{'id':'a'}] } ");
    do_ok(w, submit_of(&spec));
    story(w, "job_created plan_generated");
}

static void no_other_command_works_before_the_submit(void **state)
{
    struct world *w = *state;
    struct command commands[] = {
        claim_by("w1", true),
        signal_of(w, "k", NULL),
        cancel_by(CANCEL_SOFT, ""),
        requeue_by("again", false),
        expire_of(1),
        plan_of(w, "[{'id':'a'}]"),
        by_engine(COMMAND_WAKE),
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        refused(w, commands[i], ERR_NOT_FOUND, "unknown job {job}");
    refused(w, by_worker(w, COMMAND_HEARTBEAT), ERR_STALE_LEASE,
            "stale lease token: unknown job {job}");
    assert_int_equal(w->log_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_submitted_job_is_queued_and_due_at_once),
        SCENARIO(defaults_are_written_into_the_stream),
        SCENARIO(a_delay_becomes_a_due_time),
        SCENARIO(a_due_time_in_the_past_means_at_once),
        SCENARIO(a_null_payload_is_no_payload),
        SCENARIO(the_correlation_goes_into_every_event),
        SCENARIO(a_second_submit_of_the_same_job_is_refused),
        SCENARIO(a_known_idempotency_key_gives_the_job_that_has_it),
        SCENARIO(a_known_idempotency_key_with_another_payload_is_a_mismatch),
        SCENARIO(fingerprints_are_compared_instead_of_payloads_where_both_have_one),
        SCENARIO(of_a_redacted_job_only_the_kind_is_left_to_compare),
        SCENARIO(a_plan_under_the_key_of_a_job_without_one_is_a_mismatch),
        SCENARIO(a_bad_request_is_refused_even_when_its_key_is_known),
        SCENARIO(a_spec_out_of_bounds_is_refused_with_its_value),
        SCENARIO(a_payload_over_one_mebibyte_is_refused_with_its_size),
        SCENARIO(a_job_can_be_submitted_with_its_plan),
        SCENARIO(a_plan_that_is_not_one_is_refused_with_the_job),
        SCENARIO(white_space_around_a_plan_is_allowed),
        SCENARIO(no_other_command_works_before_the_submit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
