/* Commands about a whole job: submit, cancel and its deadline, requeue, append. */
#include <assert.h>

#include "base/json.h"
#include "core/decider.h"
#include "core/plan.h"

/* A job that ends before it may start would only waste its submitter's time. */
static enum error_code check_lifetime(struct decider *d, const struct spec *spec)
{
    int64_t delay = spec->run_at > d->now ? spec->run_at - d->now : 0;
    if (spec->expires_ms > 0 && delay >= spec->expires_ms)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "expires_ms is %lld, but the earliest start is in %lld ms",
                       (long long)spec->expires_ms, (long long)delay);
    if (spec->deadline_ms > 0 && delay >= spec->deadline_ms)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "deadline_ms is %lld, but the earliest start is in %lld ms",
                       (long long)spec->deadline_ms, (long long)delay);
    return ERR_OK;
}

/* The spec as it is kept: with a due time instead of a delay, and without the plan, which is an
 * event of its own. */
static enum error_code spec_to_keep(struct decider *d, struct spec *spec)
{
    *spec = *d->command->submit.spec;
    enum error_code code = spec_check(spec, d->context->arena, d->err);
    if (code == ERR_OK)
        code = lease_terms_check(spec->lease_ttl_ms, spec->heartbeat_ms, d->err);
    if (code == ERR_OK)
        code = decider_json(d, "payload", spec->payload, &spec->payload);
    if (code == ERR_OK && str_is_set(spec->fingerprint))
        code = fingerprint_read(spec->fingerprint, d->context->arena, &spec->fingerprint, d->err);
    if (code != ERR_OK)
        return code;
    if (spec->delay_ms > 0)
        spec->run_at = d->now + spec->delay_ms;
    spec->delay_ms = 0;
    if (spec->retry.on_exhausted == EXHAUSTED_NONE)
        spec->retry.on_exhausted = str_is_set(spec->plan) ? EXHAUSTED_FAIL : EXHAUSTED_DEAD_LETTER;
    spec->plan = (struct str){NULL, 0};
    return check_lifetime(d, spec);
}

/* The key is known: the job that has it is the answer, if it is the same submission. */
static enum error_code decide_duplicate(struct decider *d)
{
    const struct job *known = d->command->submit.duplicate;
    struct submitted submitted = {.spec = &known->spec,
                                  .planned = job_has_plan(known),
                                  .redacted = known->redacted,
                                  .hidden = decider_blind(d)};
    enum error_code code = spec_check_repeat(d->command->submit.spec, &submitted,
                                             d->context->random, d->context->arena, d->err);
    if (code != ERR_OK)
        return code;
    d->out->after.job = *known;
    d->out->result.duplicate = true;
    return ERR_OK;
}

enum error_code decide_submit(struct decider *d)
{
    struct spec *spec = arena_alloc(d->context->arena, sizeof *spec);
    if (spec == NULL)
        return decider_no_memory(d);
    enum error_code code = spec_to_keep(d, spec);
    if (code != ERR_OK)
        return code;
    if (d->command->submit.duplicate != NULL)
        return decide_duplicate(d);

    memcpy(d->job->salt, d->context->salt, SALT_LEN);
    struct event *event = decider_add(d, EVENT_JOB_CREATED);
    if (event == NULL)
        return decider_no_memory(d);
    event->correlation_id = spec->correlation_id;
    event->data.spec = spec;
    code = decider_fold(d);
    if (code != ERR_OK || !str_is_set(d->command->submit.spec->plan))
        return code;
    struct str steps;
    code = plan_steps(d->command->submit.spec->plan, &steps, d->err);
    return code == ERR_OK ? decider_plan(d, steps, (struct str){NULL, 0}, false) : code;
}

/* What a move may be asked of, whatever else the job has. */
static bool takes_cancel(const struct job *job)
{
    enum job_status to;
    return job->status == JOB_CANCELLED ||
           job_move(job->status, EVENT_JOB_CANCELLED, MOVE_PLAIN, &to);
}

static bool takes_requeue(const struct job *job)
{
    enum job_status to;
    return job_move(job->status, EVENT_JOB_REQUEUED, MOVE_PLAIN, &to) &&
           (job_status_terminal(job->status) || job->status == JOB_RETRYING) && !job->redacted;
}

static bool takes_dead_letter(const struct job *job)
{
    enum job_status to;
    bool held = job_status_rank(job->status) > 0 && !job_has_plan(job);
    return job_move(job->status, EVENT_JOB_DEAD_LETTERED, MOVE_PLAIN, &to) && !held;
}

static bool takes_plan(const struct job *job)
{
    return job_status_rank(job->status) == 0 || job->wait.type == WAIT_REPLAN ||
           job->wait.type == WAIT_STEPS;
}

bool job_takes(const struct job *job, enum command_type type)
{
    switch (type) {
    case COMMAND_REPIN:
        return str_is_set(job->pin) && !job_status_terminal(job->status);
    case COMMAND_RUN:
        return job->status == JOB_QUEUED || job->status == JOB_RETRYING;
    case COMMAND_DEAD_LETTER:
        return takes_dead_letter(job);
    case COMMAND_PLAN:
        return takes_plan(job);
    case COMMAND_CANCEL:
        return takes_cancel(job);
    case COMMAND_REQUEUE:
        return takes_requeue(job);
    default:
        return true;
    }
}

/* Precedence, highest first: the cancel itself, its kind, the server, the default. */
static int64_t cancel_grace_ms(const struct decider *d)
{
    const struct kind_settings *kind = d->context->kind;
    if (d->command->cancel.soft_ms > 0)
        return d->command->cancel.soft_ms;
    if (kind != NULL && kind->cancel_grace_ms > 0)
        return kind->cancel_grace_ms;
    return d->context->cancel_grace_ms > 0 ? d->context->cancel_grace_ms : SOFT_CANCEL_MS_DEFAULT;
}

enum error_code decide_cancel(struct decider *d)
{
    bool hard = d->command->cancel.mode == CANCEL_HARD;
    int64_t soft_ms = d->command->cancel.soft_ms;
    enum error_code code = decider_text(d, "reason", d->command->cancel.reason);
    if (code != ERR_OK)
        return code;
    if (soft_ms < 0 || soft_ms > DELAY_MS_MAX)
        return err_set(d->err, ERR_BAD_REQUEST, "grace_ms must be from 0 to %lld, not %lld",
                       (long long)DELAY_MS_MAX, (long long)soft_ms);
    if (d->job->status == JOB_CANCELLED ||
        (d->job->cancel_requested && !hard && !job_status_terminal(d->job->status))) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    code = decider_allows(d, EVENT_JOB_CANCELLED, "cancel");
    if (code != ERR_OK)
        return code;

    /* Nobody works on it: there is nothing to wait for. */
    bool idle = !d->job->lease.live && d->job->steps[STANDING_ACTIVE] == 0;
    if (hard || idle)
        return decider_job_cancelled(d, hard ? CANCEL_HARD : CANCEL_SOFT,
                                     d->command->cancel.reason);
    struct event *event = decider_add(d, EVENT_JOB_CANCEL_REQUESTED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = d->command->cancel.reason;
    event->data.until = d->now + cancel_grace_ms(d);
    return decider_fold(d);
}

enum error_code decide_cancel_due(struct decider *d)
{
    enum error_code code = decider_allows(d, EVENT_JOB_CANCELLED, "cancel");
    if (code != ERR_OK)
        return code;
    if (!d->job->cancel_requested)
        return err_set(d->err, ERR_INVALID_TRANSITION, "no cancellation was requested");
    if (d->job->cancel_at > d->now)
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the grace period of the worker ends in %lld ms",
                       (long long)(d->job->cancel_at - d->now));
    return decider_job_cancelled(d, CANCEL_HARD, d->job->cancel_reason);
}

enum error_code decide_requeue(struct decider *d)
{
    enum error_code code = decider_text(d, "reason", d->command->requeue.reason);
    if (code == ERR_OK)
        code = decider_allows(d, EVENT_JOB_REQUEUED, "requeue");
    if (code != ERR_OK)
        return code;
    bool ended = job_status_terminal(d->job->status);
    if (!ended && d->job->status != JOB_RETRYING)
        return err_set(
            d->err, ERR_INVALID_TRANSITION,
            "only a failed, dead-lettered or retrying job can be requeued; this one is %.*s",
            STR_ARG(job_status_name(d->job->status)));
    if (d->job->redacted)
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the payloads of this job are erased, so it cannot run again");

    struct event *event = decider_add(d, EVENT_JOB_REQUEUED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = d->command->requeue.reason;
    event->data.epoch = ended ? d->job->epoch + 1 : 0;
    event->data.failures = ended ? 0 : d->job->failures;
    event->data.fresh = d->command->requeue.fresh;
    code = decider_fold(d);
    if (code != ERR_OK || !job_has_plan(d->job))
        return code;
    return decider_plan(d, (struct str){NULL, 0}, d->command->requeue.reason,
                        d->command->requeue.fresh);
}

/* Whether a type may come from outside, from the lease holder or (without a token) from an
 * operator. */
static enum error_code check_appended_type(struct decider *d, struct str name, enum event_type type)
{
    bool holder = str_is_set(d->command->token);
    enum job_status to;
    bool failed = job_status_terminal(d->job->status) &&
                  job_move(d->job->status, EVENT_JOB_REQUEUED, MOVE_PLAIN, &to);
    if (event_type_class(type) != EVENT_CLASS_APPENDED)
        return err_set(d->err, ERR_BAD_REQUEST, "events of type \"%.*s\" are reserved for Pawl",
                       STR_ARG(name));
    if (type == EVENT_UNKNOWN)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "unknown event type \"%.*s\"; a custom type needs a dot in its name",
                       STR_ARG(name));
    bool named = name.at[0] != '.' && name.at[name.len - 1] != '.';
    if (type == EVENT_CUSTOM && !named)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "event type \"%.*s\" must have text on both sides of the dot",
                       STR_ARG(name));
    if (type == EVENT_CUSTOM || holder || (type == EVENT_JOB_COMPENSATED && failed))
        return ERR_OK;
    return err_set(d->err, ERR_INVALID_TRANSITION,
                   "\"%.*s\" requires the token of the live lease%s", STR_ARG(name),
                   type == EVENT_JOB_COMPENSATED ? ", or a job that has failed" : "");
}

static enum error_code append_one(struct decider *d, const struct appended *appended)
{
    enum event_type type = event_type_parse(appended->type);
    struct str payload;
    enum error_code code = record_check_name(appended->type, "type", d->err);
    if (code == ERR_OK)
        code = check_appended_type(d, appended->type, type);
    if (code == ERR_OK)
        code = decider_json(d, "payload", appended->payload, &payload);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, type);
    if (event == NULL)
        return decider_no_memory(d);
    event->type_name = type == EVENT_CUSTOM ? appended->type : (struct str){NULL, 0};
    event->payload = payload;
    return decider_fold(d);
}

enum error_code decide_append(struct decider *d)
{
    int64_t expected = d->command->append.expected_version;
    uint32_t count = d->command->append.count;
    if (expected >= 0 && expected != d->job->version)
        return err_set(d->err, ERR_VERSION_MISMATCH,
                       "the job has version %lld, not the expected %lld",
                       (long long)d->job->version, (long long)expected);
    if (count == 0 || count > APPEND_MAX)
        return err_set(d->err, ERR_BAD_REQUEST, "append takes 1 to %d events, not %u", APPEND_MAX,
                       count);
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = append_one(d, &d->command->append.events[i]);
    return code;
}
