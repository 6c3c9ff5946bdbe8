/* Failures of jobs: classes, retries, backoff, exhaustion; dead letters by worker, engine and
 * operator. */
#include "scenario.h"

static void submit_with_retry(struct world *w, struct retry_policy retry)
{
    struct spec spec = world_spec();
    spec.retry = retry;
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    do_ok(w, command);
}

/* Fixed delays without jitter, so that times can be told. */
static struct retry_policy fixed(int64_t max_attempts, enum exhausted_policy on_exhausted)
{
    return (struct retry_policy){.max_attempts = max_attempts,
                                 .strategy = RETRY_FIXED,
                                 .initial_ms = 1000,
                                 .factor_milli = 2000,
                                 .max_ms = 1000,
                                 .jitter = JITTER_NONE,
                                 .on_exhausted = on_exhausted};
}

static void a_transient_failure_is_retried_after_its_backoff(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(3, EXHAUSTED_DEAD_LETTER));
    do_ok(w, claim_by("w1", true));
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.stage = STAGE_FETCH;
    fail.fail.details = js(w, "{'code': 503}");
    do_ok(w, fail);
    assert_status(w, "retrying");
    assert_int_equal(w->slice.job.failures, 1);
    assert_int_equal(w->slice.job.run_at, w->now + 1000);
    assert_str(w->slice.job.error,
               js(w, "{'class':'transient','message':'it broke','stage':'fetch',"
                     "'details':{'code': 503}}"));
    assert_text(last_event(w)->data.reason, "failed");
    refused(w, claim_by("w2", true), ERR_INVALID_TRANSITION, "the job is not due for 1000 ms");
    w->now += 1000;
    do_ok(w, claim_by("w2", true)); /* straight from retrying */
    story(w, "job_created job_leased job_running job_requeued job_leased job_running");
}

static void a_failure_without_a_class_is_transient(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_NONE));
    assert_status(w, "retrying");
    assert_str(w->slice.job.error, js(w, "{'class':'transient','message':'it broke'}"));
    story(w, "job_created job_leased job_running job_requeued");
}

static void timeout_and_resource_failures_of_a_job_are_retried(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_TIMEOUT));
    assert_status(w, "retrying");
    w->now += 60000;
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    assert_status(w, "retrying");
    assert_int_equal(w->slice.job.failures, 2);
    story(w, "job_created job_leased job_running job_requeued job_leased job_running "
             "job_requeued");
}

static void retry_after_replaces_the_backoff(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = 777000;
    do_ok(w, fail);
    assert_int_equal(w->slice.job.run_at, w->now + 777000);
    assert_status(w, "retrying");
    w->now += 777000;
    do_ok(w, claim_by("w1", true));
    fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    do_ok(w, fail); /* 0: at once */
    assert_status(w, "queued");
    story(w, "job_created job_leased job_running job_requeued job_leased job_running "
             "job_requeued");
}

static void a_failure_out_of_bounds_is_refused_with_its_value(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = -1;
    refused(w, fail, ERR_BAD_REQUEST, "retry_after_ms must be from 0 to 316224000000, not -1");
    fail.fail.retry_after_ms = DELAY_MS_MAX + 1;
    refused(w, fail, ERR_BAD_REQUEST,
            "retry_after_ms must be from 0 to 316224000000, not 316224000001");
    fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.message = STR("\xc3");
    refused(w, fail, ERR_BAD_REQUEST, "error.message is not valid UTF-8");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    fail.fail.message = STR("m");
    fail.fail.details = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, fail, ERR_PAYLOAD_TOO_LARGE,
            "error.details has 1048577 bytes; the limit is 1048576");
    story(w, "job_created job_leased job_running");
}

static void a_repeated_fail_is_answered_and_counts_once(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    do_again(w, fail_as(w, CLASS_TRANSIENT));
    assert_int_equal(w->slice.job.failures, 1);
    story(w, "job_created job_leased job_running job_requeued");
}

static void permanent_and_validation_failures_are_final(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_status(w, "failed");
    assert_int_equal(w->slice.job.failures, 1);
    do_ok(w, requeue_by("fixed", false));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_VALIDATION));
    assert_status(w, "failed");
    story(w, "job_created job_leased job_running job_failed job_requeued job_leased job_running "
             "job_failed");
}

static void a_final_failure_before_the_start_is_a_dead_letter(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    do_ok(w, fail_as(w, CLASS_VALIDATION));
    assert_status(w, "dead_lettered");
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_VALIDATION_FAILED);
    do_ok(w, requeue_by("fixed", false));
    do_ok(w, claim_by("w1", false));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_EXHAUSTED_RETRIES);
    assert_int_equal(w->slice.job.dead_letter.stage, STAGE_EXEC);
    story(w, "job_created job_leased job_dead_lettered job_requeued job_leased "
             "job_dead_lettered");
}

static void on_permanent_sends_final_failures_to_the_dead_letters(void **state)
{
    static const struct {
        enum error_class class;
        enum stage stage;
        enum dead_letter_reason reason;
    } cases[] = {
        {CLASS_PERMANENT, STAGE_NONE, DEAD_EXHAUSTED_RETRIES},
        {CLASS_PERMANENT, STAGE_FETCH, DEAD_DEPENDENCY_UNAVAILABLE},
        {CLASS_PERMANENT, STAGE_INPUT, DEAD_VALIDATION_FAILED},
        {CLASS_VALIDATION, STAGE_OUTPUT, DEAD_VALIDATION_FAILED},
    };
    struct world *w = *state;
    struct retry_policy policy = fixed(5, EXHAUSTED_FAIL);
    policy.on_permanent = EXHAUSTED_DEAD_LETTER;
    submit_with_retry(w, policy);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        do_ok(w, claim_by("w1", true));
        struct command fail = fail_as(w, cases[i].class);
        fail.fail.stage = cases[i].stage;
        do_ok(w, fail);
        assert_status(w, "dead_lettered");
        assert_int_equal(w->slice.job.dead_letter.reason_code, cases[i].reason);
        assert_int_equal(w->slice.job.dead_letter.stage,
                         cases[i].stage != STAGE_NONE ? cases[i].stage : STAGE_EXEC);
        do_ok(w, requeue_by("again", false));
    }
    assert_null(world_check(w));
}

static void the_reason_is_timeout_when_the_last_attempt_timed_out(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.retry = fixed(2, EXHAUSTED_DEAD_LETTER);
    spec.timeout_ms = 1000;
    do_ok(w, submit_of(&spec));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    w->now = w->slice.job.run_at;
    do_ok(w, claim_by("w1", true));
    w->now += 1000;
    do_ok(w, expire_of(2));
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_TIMEOUT);
    assert_int_equal(w->slice.job.dead_letter.stage, STAGE_EXEC);
    do_ok(w, requeue_by("again", false));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TIMEOUT));
    w->now = w->slice.job.run_at;
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TIMEOUT));
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_TIMEOUT);
    assert_null(world_check(w));
}

static void an_error_keeps_type_code_and_stack(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_PERMANENT);
    fail.fail.type = STR("KeyError");
    fail.fail.code = STR("E42");
    fail.fail.stack = STR("a.py:7");
    do_ok(w, fail);
    assert_str(w->slice.job.error, js(w, "{'class':'permanent','message':'it broke',"
                                         "'type':'KeyError','code':'E42','stack':'a.py:7'}"));
    do_again(w, fail);
    fail.fail.code = STR("E43");
    refused(w, fail, ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: it already ended with a different "
            "outcome");
}

static void an_error_type_or_code_that_is_no_name_is_refused(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_PERMANENT);
    fail.fail.type = STR("");
    refused(w, fail, ERR_BAD_REQUEST, "error.type must not be empty");
    fail.fail.type = absent;
    fail.fail.code = STR("");
    refused(w, fail, ERR_BAD_REQUEST, "error.code must not be empty");
    fail.fail.code = absent;
    fail.fail.stack = STR("\xff");
    refused(w, fail, ERR_BAD_REQUEST, "error.stack is not valid UTF-8");
    story(w, "job_created job_leased job_running");
}

static void a_job_whose_failures_are_spent_is_a_dead_letter(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(2, EXHAUSTED_DEAD_LETTER));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    w->now += 1000;
    do_ok(w, claim_by("w2", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    const struct dead_letter *letter = &w->slice.job.dead_letter;
    assert_status(w, "dead_lettered");
    assert_int_equal(letter->reason_code, DEAD_EXHAUSTED_RETRIES);
    assert_int_equal(letter->attempts, 2);
    assert_text(letter->last_owner, "w2");
    assert_int_equal(letter->last_lease_expires_at, w->now + 30000);
    assert_int_equal(letter->at, w->now);
    assert_str(letter->last_error, js(w, "{'class':'transient','message':'it broke'}"));
    assert_int_equal(w->slice.job.failures, 2);
    story(w, "job_created job_leased job_running job_requeued job_leased job_running "
             "job_dead_lettered");
}

static void a_job_whose_failures_are_spent_fails_where_the_policy_says_so(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(1, EXHAUSTED_FAIL));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    assert_status(w, "failed");
    story(w, "job_created job_leased job_running job_failed");
}

static void failures_spent_before_the_start_make_a_dead_letter_whatever_the_policy(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(1, EXHAUSTED_FAIL));
    do_ok(w, claim_by("w1", false));
    w->now += 30000;
    do_ok(w, expire_of(1));
    assert_status(w, "dead_lettered");
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_EXHAUSTED_RETRIES);
    story(w, "job_created job_leased job_dead_lettered");
}

static void lost_leases_count_as_failures(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(2, EXHAUSTED_DEAD_LETTER));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    w->now += 1000;
    do_ok(w, claim_by("w2", true));
    w->now += 30000;
    do_ok(w, expire_of(2));
    assert_status(w, "dead_lettered");
    assert_text(last_event(w)->data.reason, "lease_expired");
    story(w, "job_created job_leased job_running job_requeued job_leased job_running "
             "job_dead_lettered");
}

static void waits_and_releases_cost_no_failure(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(1, EXHAUSTED_DEAD_LETTER));
    for (int i = 0; i < 3; i++) {
        do_ok(w, claim_by("w1", true));
        do_ok(w, by_worker(w, COMMAND_RELEASE));
        do_ok(w, claim_by("w1", true));
        do_ok(w, wait_for(w, "k", 10));
        w->now += 10;
        do_ok(w, by_engine(COMMAND_WAKE));
    }
    assert_int_equal(w->slice.job.failures, 0);
    assert_int_equal(w->slice.job.attempt, 6);
    assert_status(w, "queued");
    assert_null(world_check(w));
}

static void a_failure_while_a_soft_cancel_is_open_cancels(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    assert_status(w, "cancelled");
    assert_text(last_event(w)->cause_text, "fail#1");
    story(w, "job_created job_leased job_running job_cancel_requested job_cancelled");
}

/* ---- dead letters by hand ---- */

static struct command abandon_of(struct world *w, enum dead_letter_reason reason)
{
    struct command command = by_worker(w, COMMAND_ABANDON);
    command.dead_letter.reason_code = reason;
    return command;
}

static struct command dead_letter_of(enum dead_letter_reason reason)
{
    struct command command = by_user(COMMAND_DEAD_LETTER);
    command.dead_letter.reason_code = reason;
    return command;
}

static void a_worker_may_dead_letter_its_job(void **state)
{
    struct world *w = *state;
    running(w);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("50");
    do_ok(w, beat);
    struct command command = abandon_of(w, DEAD_COMPENSATION_FAILED);
    command.dead_letter.stage = STAGE_OUTPUT;
    command.dead_letter.message = STR("could not undo");
    do_ok(w, command);
    const struct dead_letter *letter = &w->slice.job.dead_letter;
    assert_status(w, "dead_lettered");
    assert_int_equal(letter->reason_code, DEAD_COMPENSATION_FAILED);
    assert_int_equal(letter->stage, STAGE_OUTPUT);
    assert_str(letter->last_error,
               js(w, "{'class':'permanent','message':'could not undo','stage':'output'}"));
    assert_text(letter->last_owner, "w1");
    assert_int_equal(letter->last_lease_expires_at, w->now + 30000);
    assert_text(w->slice.job.progress, "50");
    assert_int_equal(w->slice.job.failures, 0);
    do_again(w, command);
    story(w, "job_created job_leased job_running job_dead_lettered");
}

static void a_dead_letter_needs_a_reason_code(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, abandon_of(w, DEAD_NONE), ERR_BAD_REQUEST,
            "reason_code is required for a dead letter");
    struct command command = abandon_of(w, DEAD_TIMEOUT);
    command.dead_letter.message = STR("\xff");
    refused(w, command, ERR_BAD_REQUEST, "error.message is not valid UTF-8");
    story(w, "job_created job_leased job_running");
}

static void an_operator_may_dead_letter_a_queued_job(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, dead_letter_of(DEAD_POLICY_VIOLATION));
    assert_status(w, "dead_lettered");
    assert_int_equal(w->slice.job.dead_letter.attempts, 0);
    assert_text(w->slice.job.dead_letter.last_owner, NULL);
    assert_int_equal(w->slice.job.dead_letter.stage, STAGE_NONE);
    assert_str(w->slice.job.dead_letter.last_error,
               js(w, "{'class':'permanent',"
                     "'message':'an operator dead-lettered the job: policy_violation'}"));
    refused(w, dead_letter_of(DEAD_POLICY_VIOLATION), ERR_INVALID_TRANSITION,
            "cannot dead-letter job {job}: it is dead_lettered");
    story(w, "job_created job_dead_lettered");
}

static void a_dead_letter_of_a_retrying_job_tells_of_its_last_lease(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 5000;
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    w->now += 30000;
    do_ok(w, expire_of(1));
    do_ok(w, dead_letter_of(DEAD_INFRASTRUCTURE_FAILURE));
    const struct dead_letter *letter = &w->slice.job.dead_letter;
    assert_int_equal(letter->attempts, 1);
    assert_text(letter->last_owner, "w1");
    assert_int_equal(letter->last_lease_expires_at, WORLD_START_MS + 35000);
    assert_str(letter->last_error,
               js(w, "{'class':'timeout',"
                     "'message':'the lease of attempt 1, held by worker w1, expired'}"));
    story(w, "job_created job_leased job_running job_requeued job_dead_lettered");
}

static void an_operator_cannot_dead_letter_what_a_worker_holds(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    refused(w, dead_letter_of(DEAD_TIMEOUT), ERR_INVALID_TRANSITION,
            "the job is leased: only its worker can dead-letter it now");
    do_ok(w, by_worker(w, COMMAND_START));
    refused(w, dead_letter_of(DEAD_TIMEOUT), ERR_INVALID_TRANSITION,
            "the job is running: only its worker can dead-letter it now");
    do_ok(w, wait_for(w, "k", 0));
    refused(w, dead_letter_of(DEAD_TIMEOUT), ERR_INVALID_TRANSITION,
            "cannot dead-letter job {job}: it is waiting");
    story(w, "job_created job_leased job_running job_waiting");
}

static void a_dead_letter_is_redriven_into_a_new_epoch(void **state)
{
    struct world *w = *state;
    submit_with_retry(w, fixed(1, EXHAUSTED_DEAD_LETTER));
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    do_ok(w, requeue_by("redrive", false));
    assert_status(w, "queued");
    assert_int_equal(w->slice.job.epoch, 2);
    assert_int_equal(w->slice.job.failures, 0);
    assert_int_equal(w->slice.job.dead_letter.reason_code, DEAD_NONE);
    assert_text(w->slice.job.error, NULL);
    do_ok(w, claim_by("w1", true));
    do_ok(w, complete_with(w, "1"));
    story(w, "job_created job_leased job_running job_dead_lettered job_requeued job_leased "
             "job_running job_completed");
}

static void a_failure_may_have_no_message(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_PERMANENT);
    fail.fail.message = absent;
    do_ok(w, fail);
    assert_str(w->slice.job.error, js(w, "{'class':'permanent','message':'no message'}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_transient_failure_is_retried_after_its_backoff),
        SCENARIO(a_failure_without_a_class_is_transient),
        SCENARIO(timeout_and_resource_failures_of_a_job_are_retried),
        SCENARIO(retry_after_replaces_the_backoff),
        SCENARIO(a_failure_out_of_bounds_is_refused_with_its_value),
        SCENARIO(a_repeated_fail_is_answered_and_counts_once),
        SCENARIO(permanent_and_validation_failures_are_final),
        SCENARIO(a_final_failure_before_the_start_is_a_dead_letter),
        SCENARIO(on_permanent_sends_final_failures_to_the_dead_letters),
        SCENARIO(the_reason_is_timeout_when_the_last_attempt_timed_out),
        SCENARIO(an_error_keeps_type_code_and_stack),
        SCENARIO(an_error_type_or_code_that_is_no_name_is_refused),
        SCENARIO(a_job_whose_failures_are_spent_is_a_dead_letter),
        SCENARIO(a_job_whose_failures_are_spent_fails_where_the_policy_says_so),
        SCENARIO(failures_spent_before_the_start_make_a_dead_letter_whatever_the_policy),
        SCENARIO(lost_leases_count_as_failures),
        SCENARIO(waits_and_releases_cost_no_failure),
        SCENARIO(a_failure_while_a_soft_cancel_is_open_cancels),
        SCENARIO(a_worker_may_dead_letter_its_job),
        SCENARIO(a_dead_letter_needs_a_reason_code),
        SCENARIO(an_operator_may_dead_letter_a_queued_job),
        SCENARIO(a_dead_letter_of_a_retrying_job_tells_of_its_last_lease),
        SCENARIO(an_operator_cannot_dead_letter_what_a_worker_holds),
        SCENARIO(a_dead_letter_is_redriven_into_a_new_epoch),
        SCENARIO(a_failure_may_have_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
