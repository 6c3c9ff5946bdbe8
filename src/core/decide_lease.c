/* Commands about a job's lease: claim, start, heartbeat, complete, fail, release, cancelled,
 * abandon, dead-letter, expire. decide_step.c has the same for a step's. */
#include <assert.h>

#include "base/json.h"
#include "core/decider.h"
#include "core/lifetime.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t first_set(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a > 0 ? a : b > 0 ? b : c > 0 ? c : d;
}

/* Two missed beats orphan a lease, and its attempt's own end caps it. */
static int64_t renewed_until(int64_t now, int64_t lease_ttl_ms, int64_t heartbeat_ms,
                             int64_t timeout_at)
{
    int64_t until = now + smaller(lease_ttl_ms, 2 * heartbeat_ms);
    return timeout_at > 0 ? smaller(until, timeout_at) : until;
}

int64_t lease_ends_at(const struct lease *lease, const struct context *context)
{
    int64_t end = lease->expires_at;
    /* The worker may have been told of any end up to this one. */
    if (lease->beat_at < context->beats_since)
        end = larger(end, renewed_until(context->beats_since, lease->lease_ttl_ms,
                                        lease->heartbeat_ms, lease->timeout_at));
    /* What had ended before the break stays ended, or a token that was refused would come back to
     * life. */
    if (lease->beat_at >= context->up_since || end <= context->down_since)
        return end;
    int64_t grace = context->up_since + lease->heartbeat_ms;
    return larger(end, lease->timeout_at > 0 ? smaller(grace, lease->timeout_at) : grace);
}

enum error_code decider_lease_data(struct decider *d, int64_t attempt, struct event_data *data)
{
    static const struct kind_settings no_settings;
    const struct kind_settings *kind = d->context->kind != NULL ? d->context->kind : &no_settings;
    const struct lease_terms *terms = &d->command->claim.terms;
    const struct spec *spec = &d->job->spec;
    bool claimed = d->command->type == COMMAND_CLAIM || d->command->type == COMMAND_STEP_CLAIM;
    static const struct lease_terms no_terms;
    if (!claimed)
        terms = &no_terms;

    int64_t usual = d->context->lease_ttl_ms > 0 ? d->context->lease_ttl_ms : LEASE_TTL_MS_DEFAULT;
    int64_t ttl = first_set(terms->lease_ttl_ms, spec->lease_ttl_ms, kind->lease_ttl_ms, usual);
    int64_t beat = first_set(terms->heartbeat_ms, spec->heartbeat_ms, kind->heartbeat_ms, ttl / 2);
    int64_t timeout = d->step != NULL ? d->step->spec.timeout_ms
                                      : first_set(spec->timeout_ms, kind->timeout_ms, 0, 0);
    struct token token = {.job = d->job->id, .attempt = attempt, .of_step = d->step != NULL};
    token.step = d->step != NULL ? d->step->ordinal : 0;
    memcpy(token.secret, d->context->secret, TOKEN_SECRET_LEN);
    char *text = arena_alloc(d->context->arena, TOKEN_TEXT_MAX);
    if (text == NULL)
        return decider_no_memory(d);
    struct str shown = {text, token_format(&token, text)};

    token_hash(shown, data->token_hash);
    data->worker_id = claimed ? d->command->claim.worker_id : STR("pawl");
    data->attempt = attempt;
    data->lease_ttl_ms = ttl;
    data->heartbeat_ms = smaller(beat, ttl / 2); /* they may come from different places */
    data->timeout_at = timeout > 0 ? d->now + timeout : 0;
    /* The steps of a plan end with their job. */
    int64_t deadline_at = d->step == NULL ? job_deadline_at(d->job) : 0;
    if (deadline_at > 0)
        data->timeout_at =
            data->timeout_at > 0 ? smaller(data->timeout_at, deadline_at) : deadline_at;
    data->expires_at = renewed_until(d->now, ttl, data->heartbeat_ms, data->timeout_at);
    if (claimed) {
        d->out->result.token = shown;
        d->out->result.expires_at = data->expires_at;
    }
    return ERR_OK;
}

/* Why a claim cannot have the job, if it cannot. */
static enum error_code claimable(struct decider *d)
{
    if (job_has_plan(d->job))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the job has a plan: claim its steps instead");
    enum error_code code = decider_allows(d, EVENT_JOB_LEASED, "claim");
    if (code != ERR_OK)
        return code;
    if (d->job->run_at > d->now)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job is not due for %lld ms",
                       (long long)(d->job->run_at - d->now));
    if (job_outlived(d->job, d->now))
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job has expired");
    if (str_is_set(d->job->pin) && !str_eq(d->job->pin, d->command->claim.code_version))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the job is pinned to the code version \"%.*s\"", STR_ARG(d->job->pin));
    code = record_check_name(d->command->claim.worker_id, "worker_id", d->err);
    if (code == ERR_OK)
        code = lease_terms_check(d->command->claim.terms.lease_ttl_ms,
                                 d->command->claim.terms.heartbeat_ms, d->err);
    if (code != ERR_OK || !str_is_set(d->job->spec.capabilities))
        return code;

    static const struct names none;
    const struct names *have = d->command->claim.capabilities;
    struct names need;
    struct str missing;
    code = names_read(d->job->spec.capabilities, CAPABILITIES_MAX, "capabilities",
                      d->context->arena, &need, d->err);
    if (code == ERR_OK && !names_cover(have != NULL ? have : &none, &need, &missing))
        code = err_set(d->err, ERR_INVALID_TRANSITION,
                       "the job requires the capability \"%.*s\", which worker %.*s lacks",
                       STR_ARG(missing), STR_ARG(d->command->claim.worker_id));
    return code;
}

enum error_code decide_claim(struct decider *d)
{
    enum error_code code = claimable(d);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, EVENT_JOB_LEASED);
    if (event == NULL)
        return decider_no_memory(d);
    int64_t attempt = d->job->attempt + 1;
    code = decider_lease_data(d, attempt, &event->data);
    if (d->context->kind != NULL && d->context->kind->pin && !str_is_set(d->job->pin))
        event->data.pin = d->command->claim.code_version;
    if (code == ERR_OK)
        code = decider_fold(d);
    if (code == ERR_OK && d->command->claim.start)
        code = decider_emit(d, EVENT_JOB_RUNNING);
    return code;
}

enum error_code decide_start(struct decider *d)
{
    d->out->result.expires_at = d->job->lease.expires_at;
    if (d->job->status == JOB_RUNNING) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    return decider_emit(d, EVENT_JOB_RUNNING);
}

enum error_code decide_heartbeat(struct decider *d)
{
    struct str progress;
    enum error_code code = decider_json(d, "progress", d->command->heartbeat.progress, &progress);
    if (code == ERR_OK)
        code = decider_text(d, "cursor", d->command->heartbeat.cursor);
    if (code != ERR_OK)
        return code;

    bool says_more = str_is_set(progress) || str_is_set(d->command->heartbeat.cursor);
    struct event *event = decider_add(d, says_more ? EVENT_JOB_HEARTBEAT : EVENT_JOB_LEASE_RENEWED);
    if (event == NULL)
        return decider_no_memory(d);
    const struct lease *lease = d->step != NULL ? &d->step->lease : &d->job->lease;
    event->version = d->job->version;
    event->data.step = d->step != NULL ? d->step->spec.id : (struct str){NULL, 0};
    event->data.progress = progress;
    event->data.cursor = d->command->heartbeat.cursor;
    event->data.expires_at =
        renewed_until(d->now, lease->lease_ttl_ms, lease->heartbeat_ms, lease->timeout_at);
    if (event->data.expires_at < lease->expires_at)
        event->data.expires_at = lease->expires_at; /* a clock that went back takes nothing away */
    d->out->result.expires_at = event->data.expires_at;
    d->out->result.cancel_requested = d->job->cancel_requested;
    return decider_fold(d);
}

void decider_carry_beats(const struct decider *d, struct event_data *data)
{
    if (!d->job->lease.live)
        return;
    data->progress = d->job->progress;
    data->cursor = d->job->cursor;
}

enum error_code decider_complete(struct decider *d, struct str raw)
{
    struct str result;
    enum error_code code = decider_json(d, "result", raw, &result);
    if (code == ERR_OK)
        code = decider_allows(d, EVENT_JOB_COMPLETED, "complete");
    if (code == ERR_OK)
        code = decider_no_open_effect(d, "complete");
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, EVENT_JOB_COMPLETED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.result = result;
    decider_carry_beats(d, &event->data);
    return decider_fold(d);
}

enum error_code decide_complete(struct decider *d)
{
    return decider_complete(d, d->command->complete.result);
}

enum error_code decider_error_json(struct decider *d, const struct failure *failure,
                                   struct str *ret)
{
    return failure_write(failure, d->context->arena, ret, d->err);
}

static enum error_code cancelled_with(struct decider *d, enum cancel_mode mode, struct str reason,
                                      struct str error)
{
    struct event *event = decider_add(d, EVENT_JOB_CANCELLED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.error = error;
    event->data.mode = mode;
    event->data.reason = reason;
    decider_carry_beats(d, &event->data);
    return decider_fold(d);
}

enum error_code decider_job_cancelled(struct decider *d, enum cancel_mode mode, struct str reason)
{
    return cancelled_with(d, mode, reason, (struct str){NULL, 0});
}

enum error_code decider_requeue(struct decider *d, struct str reason, struct str error,
                                int64_t failures, int64_t not_before)
{
    /* A job that was asked to stop does not come back once its lease is over. */
    if (d->job->cancel_requested)
        return decider_job_cancelled(d, CANCEL_SOFT, d->job->cancel_reason);
    struct event *event = decider_add(d, EVENT_JOB_REQUEUED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = reason;
    event->data.error = error;
    event->data.failures = failures;
    event->data.not_before = not_before > d->now ? not_before : 0;
    event->data.last_lease_expires_at = d->job->lease.expires_at;
    decider_carry_beats(d, &event->data);
    return decider_fold(d);
}

enum error_code decider_end_in_failure(struct decider *d, enum event_type type, struct str reason,
                                       struct str error, int64_t failures,
                                       enum dead_letter_reason reason_code, enum stage stage)
{
    struct event *event = decider_add(d, type);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = reason;
    event->data.error = error;
    event->data.failures = failures;
    decider_carry_beats(d, &event->data);
    if (type == EVENT_JOB_DEAD_LETTERED) {
        const struct lease *lease = d->step != NULL ? &d->step->lease : &d->job->lease;
        event->data.reason_code = reason_code;
        event->data.stage = stage;
        event->data.attempts = d->job->attempt;
        event->data.last_owner = lease->worker_id;
        event->data.last_lease_expires_at = lease->expires_at;
    }
    return decider_fold(d);
}

enum error_code decider_job_failure(struct decider *d, struct str reason,
                                    const struct failure *failure)
{
    struct str error;
    enum error_code code = decider_error_json(d, failure, &error);
    if (code != ERR_OK)
        return code;
    if (d->job->cancel_requested)
        return cancelled_with(d, CANCEL_SOFT, d->job->cancel_reason, error);

    const struct retry_policy *policy = &d->job->spec.retry;
    enum error_class class = failure->error_class;
    bool final = class == CLASS_PERMANENT || class == CLASS_VALIDATION;
    int64_t failures = d->job->failures + 1;
    bool exhausted = failures >= policy->max_attempts;
    if (!final && !exhausted) {
        int64_t delay = failure->has_retry_after
                            ? failure->retry_after_ms
                            : retry_delay_ms(policy, failures, d->context->random);
        return decider_requeue(d, reason, error, failures, d->now + delay);
    }

    /* A job that was never started cannot have failed: it is a dead letter. */
    enum job_status to;
    bool can_fail = job_move(d->job->status, EVENT_JOB_FAILED, MOVE_PLAIN, &to);
    bool lasts = policy->on_permanent != EXHAUSTED_DEAD_LETTER;
    bool fails = can_fail && (final ? lasts : policy->on_exhausted == EXHAUSTED_FAIL);
    /* A lease that nobody renewed has its own name: nothing timed out but the worker's silence. */
    bool silent = str_eq(reason, STR("lease_expired"));
    return decider_end_in_failure(
        d, fails ? EVENT_JOB_FAILED : EVENT_JOB_DEAD_LETTERED, reason, error, failures,
        failure_reason_code(silent ? CLASS_TRANSIENT : class, failure->stage, final),
        failure->stage != STAGE_NONE ? failure->stage : STAGE_EXEC);
}

enum error_code decider_check_failure(struct decider *d, const struct failure *failure)
{
    if (failure->has_retry_after &&
        (failure->retry_after_ms < 0 || failure->retry_after_ms > DELAY_MS_MAX))
        return err_set(d->err, ERR_BAD_REQUEST, "retry_after_ms must be from 0 to %lld, not %lld",
                       (long long)DELAY_MS_MAX, (long long)failure->retry_after_ms);
    return ERR_OK;
}

enum error_code decide_fail(struct decider *d)
{
    enum error_code code = decider_check_failure(d, &d->command->fail);
    return code == ERR_OK ? decider_job_failure(d, STR("failed"), &d->command->fail) : code;
}

enum error_code decide_release(struct decider *d)
{
    return decider_requeue(d, STR("released"), (struct str){NULL, 0}, d->job->failures, d->now);
}

enum error_code decider_cancel_asked(struct decider *d)
{
    if (d->job->cancel_requested)
        return ERR_OK;
    return err_set(d->err, ERR_INVALID_TRANSITION,
                   "no cancellation was requested: release or fail the job instead");
}

enum error_code decide_cancelled(struct decider *d)
{
    enum error_code code = decider_cancel_asked(d);
    return code == ERR_OK ? decider_job_cancelled(d, CANCEL_SOFT, d->job->cancel_reason) : code;
}

/* What a dead letter says went wrong: its message, or else the last error of the job, or else that
 * there was none. */
static enum error_code dead_letter_error(struct decider *d, struct str *ret)
{
    struct failure failure = {.error_class = CLASS_PERMANENT,
                              .message = d->command->dead_letter.message,
                              .stage = d->command->dead_letter.stage};
    struct buf buf;
    if (failure.message.len == 0 && str_is_set(d->job->error))
        return ERR_OK;
    buf_init(&buf, d->context->arena, 96);
    buf_addf(&buf, "%s dead-lettered the job: %.*s",
             d->command->type == COMMAND_ABANDON ? "its worker" : "an operator",
             STR_ARG(dead_letter_reason_names.at[d->command->dead_letter.reason_code]));
    if (buf.failed)
        return decider_no_memory(d);
    if (failure.message.len == 0)
        failure.message = buf_str(&buf);
    return decider_error_json(d, &failure, ret);
}

enum error_code decide_abandon(struct decider *d)
{
    enum stage stage = d->command->dead_letter.stage;
    struct str error = {NULL, 0};
    if (d->command->dead_letter.reason_code == DEAD_NONE)
        return err_set(d->err, ERR_BAD_REQUEST, "reason_code is required for a dead letter");
    enum error_code code = dead_letter_error(d, &error);
    if (code != ERR_OK)
        return code;
    if (stage == STAGE_NONE && d->job->attempt > 0)
        stage = STAGE_EXEC;
    return decider_end_in_failure(d, EVENT_JOB_DEAD_LETTERED, (struct str){NULL, 0}, error,
                                  d->job->failures, d->command->dead_letter.reason_code, stage);
}

enum error_code decide_dead_letter(struct decider *d)
{
    enum error_code code = decider_allows(d, EVENT_JOB_DEAD_LETTERED, "dead-letter");
    /* A job with a plan has no worker of its own that could do it; its steps' tokens are stale from
     * then on. */
    if (code == ERR_OK && !job_takes(d->job, COMMAND_DEAD_LETTER))
        code = err_set(d->err, ERR_INVALID_TRANSITION,
                       "the job is %.*s: only its worker can dead-letter it now",
                       STR_ARG(job_status_name(d->job->status)));
    return code == ERR_OK ? decide_abandon(d) : code;
}

enum error_code decider_expiry(struct decider *d, const struct lease *lease, int64_t attempt,
                               struct str *ret_reason, struct failure *ret_failure)
{
    bool lost = d->step != NULL && d->command->expire.resource_lost;
    bool timed_out = !lost && lease->timeout_at > 0 && d->now >= lease->timeout_at;
    struct buf message;
    buf_init(&message, d->context->arena, 96);
    buf_addf(&message,
             lost        ? "attempt %lld of worker %.*s lost its resource"
             : timed_out ? "attempt %lld of worker %.*s timed out"
                         : "the lease of attempt %lld, held by worker %.*s, expired",
             (long long)attempt, STR_ARG(lease->worker_id));
    if (message.failed)
        return decider_no_memory(d);
    *ret_reason = lost ? STR("resource_lost") : timed_out ? STR("timeout") : STR("lease_expired");
    enum error_class class = d->step == NULL || timed_out ? CLASS_TIMEOUT : CLASS_RESOURCE;
    *ret_failure = (struct failure){.error_class = class, .message = buf_str(&message)};
    return ERR_OK;
}

enum error_code decide_expire(struct decider *d)
{
    const struct lease *lease = &d->job->lease;
    if (!lease->live || d->command->expire.attempt != d->job->attempt)
        return err_set(d->err, ERR_STALE_LEASE, "attempt %lld has no live lease to expire",
                       (long long)d->command->expire.attempt);
    if (d->now < lease_ends_at(lease, d->context))
        return err_set(d->err, ERR_STALE_LEASE, "the lease of attempt %lld expires in %lld ms",
                       (long long)d->job->attempt,
                       (long long)(lease_ends_at(lease, d->context) - d->now));

    struct str reason = {NULL, 0};
    struct failure failure = {0};
    enum error_code code = decider_expiry(d, lease, d->job->attempt, &reason, &failure);
    return code == ERR_OK ? decider_job_failure(d, reason, &failure) : code;
}
