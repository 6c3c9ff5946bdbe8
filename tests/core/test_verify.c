/* The checker on jobs: lives that are right are clean, and every rule can be seen broken, at the
 * version where it is. test_verify_waits.c does the same for waits, signals and effects,
 * test_verify_plan.c for plans. */
#include "../base/starve.h"
#include "base/times.h"
#include "core/history_steps.h"

#define KEY STR("approval")

/* ---- lives that are right ---- */

static void a_plain_life_is_clean(void **state)
{
    struct history *h = *state;
    created(h);
    tick(h, 10);
    claimed(h, 1);
    tick(h, 10);
    history_add(h, EVENT_NODE_STARTED, "append#1", (struct event_data){0})->payload = STR("{}");
    ADD(h, JOB_COMPLETED, "complete#1", .result = STR("42"), .progress = STR("{\"done\":1}"));
    assert_clean(h);
    assert_int_equal(h->report.status, JOB_COMPLETED);
}

static void a_claim_that_starts_later_is_clean(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    tick(h, 5);
    ADD(h, JOB_RUNNING, "start#1", .attempt = 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    assert_clean(h);
}

static void a_life_with_retries_is_clean(void **state)
{
    struct history *h = *state;
    retries(h);
    NOTE(h, JOB_COMPLETED, "complete#4");
    assert_clean(h);
}

static void every_way_to_cancel_is_clean(void **state)
{
    struct history *h = *state;
    created(h);
    size_t queued = h->count;
    ADD(h, JOB_CANCELLED, "cancel", .mode = CANCEL_SOFT);
    assert_clean(h);

    back_to(h, queued);
    claimed(h, 1);
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    size_t requested = h->count;
    ADD(h, JOB_CANCELLED, "cancelled#1", .mode = CANCEL_SOFT);
    assert_clean(h);

    back_to(h, requested);
    tick(h, 30000);
    ADD(h, JOB_CANCELLED, "cancel_due", .mode = CANCEL_HARD);
    assert_clean(h);
}

static void a_dead_letter_that_is_requeued_is_clean(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    history_add(h, EVENT_JOB_COMPENSATED, "append", (struct event_data){0});
    ADD(h, JOB_REQUEUED, "requeue", .reason = STR("fixed"), .epoch = 2);
    claimed(h, 2);
    ADD(h, JOB_FAILED, "fail#2", .error = PERMANENT, .failures = 1);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 3, .fresh = true);
    claimed(h, 3);
    NOTE(h, JOB_COMPLETED, "complete#3");
    assert_clean(h);
}

static void a_row_with_a_live_lease_may_have_beaten(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    history_seal(h);
    history_fold(h);
    h->row.job.lease.beat_at += 5000;
    h->row.job.lease.expires_at += 5000;
    h->row.job.progress = STR("{\"percent\":50}");
    assert_clean(h);
}

/* ---- damage: the stream ---- */

static void an_event_of_another_job_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1)->job_id.bytes[3] = 99;
    assert_last(h, VERIFY_JOB_ID);
}

static void a_gap_in_the_versions_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1)->version = 3;
    assert_only(h, 3, VERIFY_VERSION);
}

static void a_version_twice_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    ADD(h, JOB_RUNNING, "start#1", .attempt = 1)->version = 2;
    assert_only(h, 2, VERIFY_VERSION);
}

static void time_that_goes_back_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    ADD(h, JOB_RUNNING, "start#1", .attempt = 1)->at -= 1;
    assert_last(h, VERIFY_TIME);
}

static void types_that_do_not_belong_are_reported(void **state)
{
    struct history *h = *state;
    created(h);
    history_add(h, EVENT_UNKNOWN, "append", (struct event_data){0})->type_name = STR("job_eaten");
    assert_last(h, VERIFY_EVENT_TYPE);

    h->sealed = false;
    h->events[1].type = EVENT_CUSTOM;
    assert_last(h, VERIFY_EVENT_TYPE);
    h->sealed = false;
    h->events[1].type_name = STR("billing.invoice_sent");
    assert_clean(h);

    back_to(h, 1);
    leased(h, 1);
    ADD(h, JOB_HEARTBEAT, "heartbeat#1", .expires_at = h->now + 30000);
    history_seal(h);
    h->has_row = false;
    assert_last(h, VERIFY_EVENT_TYPE);
}

static void a_cause_that_cannot_be_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    NOTE(h, JOB_COMPLETED, "effect_abort#1");
    assert_last(h, VERIFY_CAUSE);

    h->sealed = false;
    h->events[3].cause = (struct cause){.command = COMMAND_NONE};
    assert_last(h, VERIFY_CAUSE);

    back_to(h, 1);
    leased(h, 1)->cause.attempt = 1; /* a claim is not made under a lease */
    assert_last(h, VERIFY_CAUSE);
}

static void a_write_without_the_live_lease_is_reported(void **state)
{
    struct history *h = *state;
    retries(h);
    size_t running = h->count;
    NOTE(h, JOB_COMPLETED, "complete#3");
    assert_last(h, VERIFY_LEASE_HOLDER);

    back_to(h, running);
    NOTE(h, JOB_COMPLETED, "complete");
    assert_last(h, VERIFY_LEASE_HOLDER);

    back_to(h, running);
    ADD(h, JOB_REQUEUED, "release#4", .failures = 2);
    tick(h, 1);
    NOTE(h, NODE_FINISHED, "append#4");
    assert_last(h, VERIFY_LEASE_HOLDER);
}

static void a_requeue_that_no_one_could_make_is_reported(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2);
    NOTE(h, JOB_REQUEUED, "requeue");
    assert_last(h, VERIFY_CAUSE);

    back_to(h, 3);
    NOTE(h, JOB_REQUEUED, "release#1");
    NOTE(h, JOB_REQUEUED, "release#1");
    assert_reported(h, 5, VERIFY_CAUSE);
    assert_true(is_reported(h, 5, VERIFY_LEASE_HOLDER));
}

/* ---- damage: the job ---- */

static void an_illegal_move_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    assert_last(h, VERIFY_LEGAL_MOVE);
}

static void a_job_is_created_first_and_once(void **state)
{
    struct history *h = *state;
    history_add(h, EVENT_CUSTOM, "append", (struct event_data){0})->type_name = STR("a.b");
    assert_last(h, VERIFY_LEGAL_MOVE);

    back_to(h, 0);
    created(h);
    created(h);
    assert_last(h, VERIFY_LEGAL_MOVE);
}

static void what_follows_the_end_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY);
    assert_last(h, VERIFY_TERMINAL);

    back_to(h, 4);
    ADD(h, JOB_REQUEUED, "requeue", .epoch = 2);
    assert_reported(h, 5, VERIFY_TERMINAL);

    back_to(h, 4);
    leased(h, 2);
    assert_last(h, VERIFY_TERMINAL);
}

static void a_dead_letter_comes_back_by_an_operator_only(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    ADD(h, JOB_REQUEUED, "wake", .epoch = 2);
    assert_reported(h, 5, VERIFY_TERMINAL);
}

static void a_wrong_epoch_is_reported(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    NOTE(h, JOB_REQUEUED, "requeue"); /* opens none */
    assert_reported(h, 5, VERIFY_EPOCH);

    back_to(h, 3);
    ADD(h, JOB_REQUEUED, "release#1", .epoch = 2);
    assert_last(h, VERIFY_EPOCH);
}

static void going_back_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_REQUEUED, "release#1", .failures = 0);
    leased(h, 1); /* the number of the attempt before */
    assert_reported(h, 5, VERIFY_MONOTONIC);
    assert_true(is_reported(h, 5, VERIFY_ATTEMPT));
    assert_int_equal(h->report.violation_count, 2);
}

static void an_attempt_that_skips_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 2);
    ADD(h, JOB_RUNNING, "start#2", .attempt = 2);
    assert_only(h, 2, VERIFY_ATTEMPT);
}

static void a_claim_before_its_time_is_reported(void **state)
{
    struct history *h = *state;
    h->spec.run_at = START_MS + 1000;
    created(h);
    tick(h, 999);
    leased(h, 1);
    assert_last(h, VERIFY_CLAIM);

    back_to(h, 1);
    tick(h, 1);
    claimed(h, 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 1, .not_before = h->now + 500);
    tick(h, 499);
    leased(h, 2);
    assert_last(h, VERIFY_CLAIM);
}

static void running_without_a_lease_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, JOB_RUNNING, "claim", .attempt = 1);
    assert_last(h, VERIFY_CLAIM);
}

static void a_second_lease_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    leased(h, 2);
    assert_reported(h, 4, VERIFY_SINGLE_LEASE);
    assert_true(is_reported(h, 4, VERIFY_LEGAL_MOVE));
}

static void lease_terms_out_of_bounds_are_reported(void **state)
{
    struct history *h = *state;
    static const struct event_data bad[] = {
        {.lease_ttl_ms = 99, .heartbeat_ms = 50, .expires_at = START_MS + 99},
        {.lease_ttl_ms = LEASE_TTL_MS_MAX + 1, .heartbeat_ms = 50, .expires_at = START_MS + 9},
        {.lease_ttl_ms = 30000, .heartbeat_ms = 0, .expires_at = START_MS + 9},
        {.lease_ttl_ms = 30000, .heartbeat_ms = 15000, .expires_at = START_MS},
        {.lease_ttl_ms = 30000, .heartbeat_ms = 15000, .expires_at = START_MS + 30001},
        {.lease_ttl_ms = 30000, .heartbeat_ms = 1000, .expires_at = START_MS + 2001},
    };
    created(h);
    leased(h, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        h->sealed = false;
        h->events[1].data = bad[i];
        h->events[1].data.attempt = 1;
        h->events[1].data.worker_id = STR("w1");
        assert_last(h, VERIFY_LEASE_TERMS);
    }
}

static void a_lease_beyond_its_timeout_is_reported(void **state)
{
    struct history *h = *state;
    h->spec.timeout_ms = 10000;
    created(h);
    leased(h, 1);
    assert_last(h, VERIFY_LEASE_TERMS); /* it has no timeout */

    h->sealed = false;
    h->events[1].data.timeout_at = h->now + 10000;
    assert_last(h, VERIFY_LEASE_TERMS); /* it expires later */

    h->sealed = false;
    h->events[1].data.expires_at = h->now + 10000;
    assert_clean(h);
}

static void a_lease_that_expires_early_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    tick(h, 29999);
    ADD(h, JOB_REQUEUED, "expire", .reason = STR("lease_expired"), .failures = 1);
    assert_last(h, VERIFY_LEASE_EXPIRY);

    h->sealed = false;
    h->events[3].at++;
    assert_clean(h);
    h->sealed = false;
    h->events[3].data.last_lease_expires_at = h->events[3].at + 1; /* it had been renewed */
    assert_last(h, VERIFY_LEASE_EXPIRY);
    h->sealed = false;
    h->events[3].data.last_lease_expires_at = 0;
    h->events[3].data.reason = STR("boredom");
    assert_last(h, VERIFY_LEASE_EXPIRY);
}

static void failures_that_are_miscounted_are_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_REQUEUED, "fail#1", .failures = 0);
    assert_last(h, VERIFY_FAILURES);

    h->sealed = false;
    h->events[3] = (struct event){0};
    h->count = 3;
    ADD(h, JOB_REQUEUED, "release#1", .failures = 1);
    assert_last(h, VERIFY_FAILURES);
}

static void a_retry_beyond_the_limit_is_reported(void **state)
{
    struct history *h = *state;
    retries(h);
    ADD(h, JOB_REQUEUED, "fail#4", .failures = 3);
    assert_last(h, VERIFY_RETRY_LIMIT);
}

static void exhaustion_before_the_limit_is_reported(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    h->spec.retry.max_attempts = 2;
    assert_last(h, VERIFY_RETRY_LIMIT);
}

static void a_dead_letter_without_its_facts_is_reported(void **state)
{
    struct history *h = *state;
    dead_letter(h);
    h->events[3].data.reason_code = DEAD_NONE;
    assert_last(h, VERIFY_DEAD_LETTER);

    h->sealed = false;
    h->events[3].data.reason_code = DEAD_EXHAUSTED_RETRIES;
    h->events[3].data.attempts = 2;
    assert_last(h, VERIFY_DEAD_LETTER);
}

static void a_soft_cancel_that_turns_hard_early_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 30000);
    tick(h, 29999);
    ADD(h, JOB_CANCELLED, "cancel_due", .mode = CANCEL_HARD);
    assert_last(h, VERIFY_CANCEL);

    back_to(h, 3);
    ADD(h, JOB_CANCELLED, "cancel_due", .mode = CANCEL_HARD);
    assert_last(h, VERIFY_CANCEL);
}

/* How attempt 1 ends by a failure, and which rule of its policy that breaks. */
static void a_failure_that_its_policy_handles_otherwise_is_reported(void **state)
{
    static const struct {
        const char *error_class;
        enum event_type type;
        int64_t max_attempts;
        enum exhausted_policy on_exhausted;
        enum verify_rule broken; /* VERIFY_RULE_COUNT: none */
    } ends[] = {
        {"permanent", EVENT_JOB_REQUEUED, 3, EXHAUSTED_FAIL, VERIFY_RETRY_LIMIT},
        {"validation", EVENT_JOB_REQUEUED, 3, EXHAUSTED_FAIL, VERIFY_RETRY_LIMIT},
        {"transient", EVENT_JOB_FAILED, 3, EXHAUSTED_FAIL, VERIFY_RETRY_LIMIT},
        {"timeout", EVENT_JOB_DEAD_LETTERED, 3, EXHAUSTED_DEAD_LETTER, VERIFY_RETRY_LIMIT},
        {"transient", EVENT_JOB_FAILED, 1, EXHAUSTED_DEAD_LETTER, VERIFY_EXHAUSTED},
        {"resource", EVENT_JOB_DEAD_LETTERED, 1, EXHAUSTED_FAIL, VERIFY_EXHAUSTED},
        {"permanent", EVENT_JOB_FAILED, 3, EXHAUSTED_DEAD_LETTER, VERIFY_RULE_COUNT},
        {"resource", EVENT_JOB_REQUEUED, 3, EXHAUSTED_FAIL, VERIFY_RULE_COUNT},
        {"transient", EVENT_JOB_FAILED, 1, EXHAUSTED_FAIL, VERIFY_RULE_COUNT},
        {"transient", EVENT_JOB_DEAD_LETTERED, 1, EXHAUSTED_DEAD_LETTER, VERIFY_RULE_COUNT},
    };
    struct history *h = *state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char error[64];
        int len =
            snprintf(error, sizeof error, "{\"message\":1,\"class\":\"%s\"}", ends[i].error_class);
        restart(h);
        h->spec.retry.max_attempts = ends[i].max_attempts;
        h->spec.retry.on_exhausted = ends[i].on_exhausted;
        created(h);
        claimed(h, 1);
        struct event_data data = {.error = {error, (size_t)len}, .failures = 1};
        if (ends[i].type == EVENT_JOB_DEAD_LETTERED) {
            data.reason_code = DEAD_TIMEOUT;
            data.attempts = 1;
        }
        history_add(h, ends[i].type, "fail#1", data);
        if (ends[i].broken == VERIFY_RULE_COUNT)
            assert_clean(h);
        else
            assert_last(h, ends[i].broken);
    }
}

/* It cannot fail, whatever its policy says. */
static void a_job_that_never_started_is_dead_lettered(void **state)
{
    struct history *h = *state;
    h->spec.retry.max_attempts = 1;
    h->spec.retry.on_exhausted = EXHAUSTED_FAIL;
    created(h);
    leased(h, 1);
    tick(h, 30000);
    ADD(h, JOB_DEAD_LETTERED, "expire", .reason = STR("lease_expired"), .failures = 1,
        .reason_code = DEAD_EXHAUSTED_RETRIES, .attempts = 1);
    assert_clean(h);
}

static void an_event_of_another_correlation_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    h->events[1].correlation_id = STR("order-8");
    assert_only(h, 2, VERIFY_CORRELATION);
    h->sealed = false;
    h->events[1].correlation_id = h->spec.correlation_id;
    h->events[0].correlation_id = STR("order-8");
    assert_only(h, 1, VERIFY_CORRELATION);
}

/* ---- damage: chain, fold, row ---- */

static void an_edited_payload_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    history_add(h, EVENT_NODE_STARTED, "append#1", (struct event_data){0})->payload = STR("{}");
    NOTE(h, JOB_COMPLETED, "complete#1");
    history_seal(h);
    history_fold(h);
    h->events[3].payload = STR("{\"a\":1}");
    assert_only(h, 4, VERIFY_DIGEST);
}

static void an_edited_event_is_reported_where_it_is(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    history_seal(h);
    history_fold(h);
    h->events[2].actor = STR("someone else");
    assert_only(h, 3, VERIFY_HASH);
}

static void a_removed_event_breaks_the_chain(void **state)
{
    struct history *h = *state;
    retries(h);
    history_seal(h);
    memmove(&h->events[1], &h->events[2], (h->count - 2) * sizeof h->events[0]);
    h->count--;
    assert_reported(h, 3, VERIFY_HASH);
    assert_true(is_reported(h, 3, VERIFY_VERSION));
}

static void a_row_that_is_not_the_fold_is_reported(void **state)
{
    struct history *h = *state;
    retries(h);
    history_seal(h);
    history_fold(h);
    h->row.job.failures++;
    assert_only(h, 0, VERIFY_ROW);
    assert_non_null(strstr(h->report.violations[0].detail.at, "failures"));
    h->row.job.failures--;
    h->row.job.status = JOB_COMPLETED;
    assert_only(h, 0, VERIFY_ROW);
}

static void a_stream_that_cannot_be_folded_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = KEY, .step = STR("x"));
    assert_reported(h, 2, VERIFY_STEP_KNOWN);
}

/* ---- beginnings, and numbers out of bounds ---- */

/* The machine lets a stream begin with job_queued or job_requeued: then no spec is known. */
static void a_stream_may_begin_in_the_queue(void **state)
{
    struct history *h = *state;
    NOTE(h, JOB_QUEUED, "submit");
    claimed(h, 1);
    ADD(h, JOB_DEAD_LETTERED, "abandon#1", .reason_code = DEAD_TIMEOUT, .attempts = 1);
    assert_clean(h);

    back_to(h, 0);
    NOTE(h, JOB_REQUEUED, "requeue");
    claimed(h, 1);
    assert_clean(h);
}

static void without_a_class_or_a_limit_failures_are_retried(void **state)
{
    struct history *h = *state;
    h->spec.retry.max_attempts = 0; /* as another version may have stored it */
    created(h);
    claimed(h, 1);
    ADD(h, JOB_REQUEUED, "fail#1", .error = STR("{\"message\":\"\"}"), .failures = 1);
    assert_clean(h);
    h->sealed = false;
    h->spec.retry.max_attempts = 2;
    assert_clean(h);
}

static void numbers_from_no_list_are_reported(void **state)
{
    struct history *h = *state;
    created(h);
    history_add(h, EVENT_NODE_STARTED, "append", (struct event_data){0});
    history_seal(h);
    history_fold(h);
    h->events[1].cause.command = (enum command_type)200;
    assert_last(h, VERIFY_CAUSE);

    h->events[1].cause.command = COMMAND_APPEND;
    h->events[1].type = (enum event_type)200;
    h->events[1].type_name = STR("node_started"); /* as the hash has it */
    assert_last(h, VERIFY_EVENT_TYPE);
}

static void a_custom_type_without_a_name_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    history_add(h, EVENT_CUSTOM, "append", (struct event_data){0});
    assert_last(h, VERIFY_EVENT_TYPE);
}

static void what_comes_before_the_job_is_reported(void **state)
{
    struct history *h = *state;
    ADD(h, JOB_CANCEL_REQUESTED, "cancel", .until = h->now + 1);
    assert_last(h, VERIFY_LEGAL_MOVE);

    back_to(h, 0);
    history_add(h, EVENT_UNKNOWN, "append", (struct event_data){0})->type_name = STR("job_eaten");
    assert_last(h, VERIFY_EVENT_TYPE); /* who knows what it was */
}

static void a_time_that_there_is_not_is_reported(void **state)
{
    struct history *h = *state;
    created(h);
    remark(h, "append")->at = TIME_MAX_MS + 1;
    assert_last(h, VERIFY_TIME);

    back_to(h, 0);
    created(h)->at = -1;
    assert_last(h, VERIFY_TIME);
}

static void lease_times_that_there_are_not_are_reported(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    history_seal(h);
    history_fold(h);
    struct event *lease = &h->events[1];
    lease->data.expires_at = -1;
    assert_reported(h, 2, VERIFY_LEASE_TERMS);
    lease->data.expires_at = TIME_MAX_MS + 1;
    assert_reported(h, 2, VERIFY_LEASE_TERMS);
    lease->data.expires_at = h->now + 30000;
    lease->data.timeout_at = -1;
    assert_reported(h, 2, VERIFY_LEASE_TERMS);
    lease->data.timeout_at = 0;
    lease->data.heartbeat_ms = LEASE_TTL_MS_MAX + 1;
    assert_reported(h, 2, VERIFY_LEASE_TERMS);
    lease->data.heartbeat_ms = 15000;
    assert_clean(h);
    lease->at = TIME_MAX_MS + 1;
    assert_reported(h, 2, VERIFY_LEASE_TERMS);
}

static void a_timeout_longer_than_the_jobs_is_reported(void **state)
{
    struct history *h = *state;
    h->spec.timeout_ms = 60000;
    created(h);
    leased(h, 1)->data.timeout_at = h->now + 60001;
    assert_last(h, VERIFY_LEASE_TERMS);
}

/* The lease that outlives its timeout is the one fault; that it ends at its timeout is none. */
static void a_lease_ends_at_its_timeout_at_the_latest(void **state)
{
    struct history *h = *state;
    h->spec.timeout_ms = 10000;
    created(h);
    leased(h, 1)->data.timeout_at = h->now + 10000;
    ADD(h, JOB_RUNNING, "claim", .attempt = 1);
    tick(h, 10000);
    ADD(h, JOB_REQUEUED, "expire", .reason = STR("timeout"), .failures = 1);
    assert_only(h, 2, VERIFY_LEASE_TERMS);

    h->sealed = false;
    h->events[3].at--;
    assert_reported(h, 4, VERIFY_LEASE_EXPIRY);
}

static void an_operator_takes_no_one_its_job_by_a_requeue(void **state)
{
    struct history *h = *state;
    created(h);
    leased(h, 1);
    NOTE(h, JOB_REQUEUED, "requeue");
    assert_last(h, VERIFY_CAUSE);

    back_to(h, 2);
    ADD(h, JOB_RUNNING, "start#1", .attempt = 1);
    NOTE(h, JOB_REQUEUED, "requeue");
    assert_last(h, VERIFY_CAUSE);
}

static void a_lease_that_no_one_had_cannot_expire(void **state)
{
    struct history *h = *state;
    created(h);
    ADD(h, JOB_RUNNING, "claim", .attempt = 1); /* reported: there is no lease */
    ADD(h, JOB_REQUEUED, "expire", .reason = STR("lease_expired"), .failures = 1);
    assert_reported(h, 3, VERIFY_LEASE_EXPIRY);
    assert_true(is_reported(h, 2, VERIFY_CLAIM));
    assert_int_equal(h->report.violation_count, 2);
}

static void a_row_is_compared_part_by_part(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    ADD(h, TOOL_CALLED, "effect_begin#1", .key = STR("charge"), .attempt = 1);
    history_seal(h);
    history_fold(h);
    h->row.effects[0].attempt++;
    assert_only(h, 0, VERIFY_ROW);
    assert_non_null(strstr(h->report.violations[0].detail.at, "effect \"charge\": attempt"));
}

/* What the fold cannot take is found when the report has no room for it, too. */
static void a_full_report_takes_no_more(void **state)
{
    struct history *h = *state;
    created(h);
    claimed(h, 1);
    for (int i = 0; i < VIOLATIONS_MAX; i++)
        history_add(h, EVENT_NODE_STARTED, "", (struct event_data){0});
    ADD(h, TOOL_RETURNED, "effect_commit#1", .key = STR("charge"));
    ADD(h, TOOL_CALLED, "effect_begin#1", .key = STR("charge"), .attempt = 1);
    NOTE(h, JOB_COMPLETED, "complete#1");
    history_verify(h);
    assert_int_equal(h->report.violation_count, VIOLATIONS_MAX);
    for (int i = 0; i < VIOLATIONS_MAX; i++) {
        assert_int_equal(h->report.violations[i].rule, VERIFY_CAUSE);
        assert_int_equal(h->report.violations[i].version, 4 + i);
    }
    assert_int_equal(h->report.status, JOB_COMPLETED);
}

/* ---- hostile input ---- */

static void an_empty_stream_has_nothing_wrong(void **state)
{
    struct history *h = *state;
    assert_clean(h);
    assert_int_equal(h->report.status, JOB_NONE);
    h->row.job.version = 4;
    assert_reported(h, 0, VERIFY_ROW);
}

static void events_in_reverse_are_reported(void **state)
{
    struct history *h = *state;
    retries(h);
    history_seal(h);
    for (size_t i = 0; i < h->count / 2; i++) {
        struct event event = h->events[i];
        h->events[i] = h->events[h->count - 1 - i];
        h->events[h->count - 1 - i] = event;
    }
    assert_reported(h, 1, VERIFY_VERSION);
    assert_true(h->report.violation_count > h->count);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Numbers from no list, extreme times and counts: reported, up to the limit, and nothing else
 * happens. */
static void garbage_is_survived(void **state)
{
    static const char *const causes[] = {"claim",       "complete#1", "fail#2",
                                         "verdict:a#1", "wake",       ""};
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, -1, 0, 1, 2, START_MS};
    struct history *h = *state;
    uint64_t seed = 88172645463325252;
    created(h);
    for (int i = 0; i < 3000; i++) {
        struct event_data data = {0};
        data.step = next_random(&seed) % 2 == 0 ? STR("a") : (struct str){NULL, 0};
        data.key = STR("k");
        data.correlation_key = KEY;
        data.attempt = extremes[next_random(&seed) % 7];
        data.failures = extremes[next_random(&seed) % 7];
        data.epoch = extremes[next_random(&seed) % 7];
        data.expires_at = extremes[next_random(&seed) % 7];
        data.lease_ttl_ms = extremes[next_random(&seed) % 7];
        data.heartbeat_ms = extremes[next_random(&seed) % 7];
        data.plan_version = extremes[next_random(&seed) % 7];
        data.signal_version = extremes[next_random(&seed) % 7];
        data.outcome = (enum outcome)(next_random(&seed) % 5);
        data.verdict = (enum verdict)(next_random(&seed) % 9);
        struct event *event = history_add(h, (enum event_type)(next_random(&seed) % 80),
                                          causes[next_random(&seed) % 6], data);
        event->type_name = STR("x");
        event->at = extremes[next_random(&seed) % 7];
        if (next_random(&seed) % 50 == 0)
            event->cause.command = (enum command_type)200;
    }
    history_report(h);
    assert_int_equal(h->report.violation_count, VIOLATIONS_MAX);
}

/* ---- memory ---- */

struct trial {
    struct history *h;
    enum error_code code;
    uint32_t violation_count;
};

static bool try_to_verify(struct arena *arena, void *data)
{
    struct trial *trial = data;
    struct history *h = trial->h;
    struct verify_input input = {.id = h->id,
                                 .events = h->events,
                                 .count = h->count,
                                 .salt = h->salt,
                                 .row = h->has_row ? &h->row : NULL};
    struct verify_report report;
    struct err err;
    trial->code = job_verify(&input, arena, &report, &err);
    if (trial->code == ERR_OK)
        trial->violation_count = report.violation_count;
    return trial->code != ERR_NO_MEMORY;
}

/* Every allocation is the one that fails, once: with ever more memory until there is enough. */
static void assert_starves(struct history *h, uint32_t violation_count)
{
    struct trial trial = {.h = h};
    if (!STARVING)
        skip();
    history_seal(h);
    history_fold(h);
    assert_true(starve(try_to_verify, &trial) > 0);
    assert_int_equal(trial.code, ERR_OK);
    assert_int_equal(trial.violation_count, violation_count);
}

static void memory_that_runs_out_is_an_error(void **state)
{
    struct history *h = *state;
    retries(h);
    ADD(h, SIGNAL_RECEIVED, "signal", .correlation_key = STR("k"), .signal_id = STR("s"));
    ADD(h, TOOL_CALLED, "effect_begin#4", .key = STR("charge"), .attempt = 4);
    NOTE(h, JOB_COMPLETED, "complete#4");
    assert_starves(h, 1); /* the effect is open */
}

static void memory_that_runs_out_in_a_plan_is_an_error(void **state)
{
    struct history *h = *state;
    started(h, "[{\"id\":\"a\",\"avoid\":[\"in \\\"quotes\\\"\"]},"
               "{\"id\":\"b\",\"deps\":[\"a\"]}]");
    step_does(h, EVENT_STEP_FAILED_RESOURCE, "fail", "a", 1)->data.resource_id = STR("r1");
    step_does(h, EVENT_STEP_SWITCHING_RESOURCE, "fail", "a", 1);
    step_claimed(h, "a", 2, "r2");
    ADD(h, TOOL_CALLED, "effect_begin:a#2", .step = STR("a"), .key = STR("k"), .attempt = 2);
    ADD(h, TOOL_RETURNED, "effect_commit:a#2", .step = STR("a"), .key = STR("k"));
    step_succeeds(h, "a", 2);
    assert_starves(h, 0);
}

static void every_rule_for_jobs_was_broken_above(void **state)
{
    (void)state;
    rules_seen[VERIFY_FOLD] =
        true; /* no stream breaks it alone: it is there for a fold that is wrong */
    rules_seen[VERIFY_BLOCKED] = true;   /* in test_verify_waits.c */
    rules_seen[VERIFY_REDACTION] = true; /* in test_verify_redacted.c */
    assert_rules_seen(VERIFY_JOB_ID, VERIFY_CANCEL);
    assert_rules_seen(VERIFY_DIGEST, VERIFY_ROW);
}

static void every_rule_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    for (int rule = 0; rule < VERIFY_RULE_COUNT; rule++) {
        struct str text = verify_rule_text((enum verify_rule)rule);
        assert_true(verify_rule_name((enum verify_rule)rule).len > 0);
        assert_true(text.len > 0 && text.at[text.len - 1] == '.');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HISTORY_TEST(a_plain_life_is_clean),
        HISTORY_TEST(a_claim_that_starts_later_is_clean),
        HISTORY_TEST(a_life_with_retries_is_clean),
        HISTORY_TEST(every_way_to_cancel_is_clean),
        HISTORY_TEST(a_dead_letter_that_is_requeued_is_clean),
        HISTORY_TEST(a_row_with_a_live_lease_may_have_beaten),
        HISTORY_TEST(an_event_of_another_job_is_reported),
        HISTORY_TEST(a_gap_in_the_versions_is_reported),
        HISTORY_TEST(a_version_twice_is_reported),
        HISTORY_TEST(time_that_goes_back_is_reported),
        HISTORY_TEST(types_that_do_not_belong_are_reported),
        HISTORY_TEST(a_cause_that_cannot_be_is_reported),
        HISTORY_TEST(a_write_without_the_live_lease_is_reported),
        HISTORY_TEST(a_requeue_that_no_one_could_make_is_reported),
        HISTORY_TEST(an_illegal_move_is_reported),
        HISTORY_TEST(a_job_is_created_first_and_once),
        HISTORY_TEST(what_follows_the_end_is_reported),
        HISTORY_TEST(a_dead_letter_comes_back_by_an_operator_only),
        HISTORY_TEST(a_wrong_epoch_is_reported),
        HISTORY_TEST(going_back_is_reported),
        HISTORY_TEST(an_attempt_that_skips_is_reported),
        HISTORY_TEST(a_claim_before_its_time_is_reported),
        HISTORY_TEST(running_without_a_lease_is_reported),
        HISTORY_TEST(a_second_lease_is_reported),
        HISTORY_TEST(lease_terms_out_of_bounds_are_reported),
        HISTORY_TEST(a_lease_beyond_its_timeout_is_reported),
        HISTORY_TEST(a_lease_that_expires_early_is_reported),
        HISTORY_TEST(failures_that_are_miscounted_are_reported),
        HISTORY_TEST(a_retry_beyond_the_limit_is_reported),
        HISTORY_TEST(exhaustion_before_the_limit_is_reported),
        HISTORY_TEST(a_dead_letter_without_its_facts_is_reported),
        HISTORY_TEST(a_soft_cancel_that_turns_hard_early_is_reported),
        HISTORY_TEST(a_failure_that_its_policy_handles_otherwise_is_reported),
        HISTORY_TEST(a_job_that_never_started_is_dead_lettered),
        HISTORY_TEST(an_event_of_another_correlation_is_reported),
        HISTORY_TEST(an_edited_payload_is_reported),
        HISTORY_TEST(an_edited_event_is_reported_where_it_is),
        HISTORY_TEST(a_removed_event_breaks_the_chain),
        HISTORY_TEST(a_row_that_is_not_the_fold_is_reported),
        HISTORY_TEST(a_stream_that_cannot_be_folded_is_reported),
        HISTORY_TEST(a_stream_may_begin_in_the_queue),
        HISTORY_TEST(without_a_class_or_a_limit_failures_are_retried),
        HISTORY_TEST(numbers_from_no_list_are_reported),
        HISTORY_TEST(a_custom_type_without_a_name_is_reported),
        HISTORY_TEST(what_comes_before_the_job_is_reported),
        HISTORY_TEST(a_time_that_there_is_not_is_reported),
        HISTORY_TEST(lease_times_that_there_are_not_are_reported),
        HISTORY_TEST(a_timeout_longer_than_the_jobs_is_reported),
        HISTORY_TEST(a_lease_ends_at_its_timeout_at_the_latest),
        HISTORY_TEST(an_operator_takes_no_one_its_job_by_a_requeue),
        HISTORY_TEST(a_lease_that_no_one_had_cannot_expire),
        HISTORY_TEST(a_row_is_compared_part_by_part),
        HISTORY_TEST(a_full_report_takes_no_more),
        HISTORY_TEST(an_empty_stream_has_nothing_wrong),
        HISTORY_TEST(events_in_reverse_are_reported),
        HISTORY_TEST(garbage_is_survived),
        HISTORY_TEST(memory_that_runs_out_is_an_error),
        HISTORY_TEST(memory_that_runs_out_in_a_plan_is_an_error),
        cmocka_unit_test(every_rule_for_jobs_was_broken_above),
        cmocka_unit_test(every_rule_has_a_name_and_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
