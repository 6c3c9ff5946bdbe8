/* Commands about when a job runs and how long it lives: run now, and the end of its life. */
#include "core/decider.h"
#include "core/lifetime.h"

/* A job that is blocked ends by way of the queue: its wait is over, by time. */
static enum error_code end_wait(struct decider *d)
{
    if (d->job->wait.type == WAIT_NONE)
        return ERR_OK;
    struct event *event = decider_add(d, EVENT_WAIT_COMPLETED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.outcome = OUTCOME_TIMEOUT;
    event->data.correlation_key = d->job->wait.correlation_key;
    if (str_is_set(d->job->wait.effect))
        event->data.resolution = RESOLVE_FAIL;
    return decider_fold(d);
}

/* The deadline has passed: no retry follows. What has never run cannot fail, and is a dead letter
 * whatever the policy. */
static enum error_code end_at_deadline(struct decider *d)
{
    struct failure failure = {.error_class = CLASS_TIMEOUT, .stage = STAGE_EXEC};
    bool began = d->job->status == JOB_RUNNING || d->job->wait.type != WAIT_NONE;
    struct buf message;
    struct str error;
    buf_init(&message, d->context->arena, 96);
    buf_addf(&message, "the job had not ended by its deadline: deadline_ms is %lld",
             (long long)d->job->spec.deadline_ms);
    if (message.failed)
        return decider_no_memory(d);
    failure.message = buf_str(&message);
    enum error_code code = decider_error_json(d, &failure, &error);
    if (code == ERR_OK)
        code = end_wait(d);
    if (code == ERR_OK && began && job_has_plan(d->job) &&
        d->job->spec.retry.on_exhausted == EXHAUSTED_FAIL)
        code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;
    bool fails = d->job->status == JOB_RUNNING && d->job->spec.retry.on_exhausted == EXHAUSTED_FAIL;
    return decider_end_in_failure(d, fails ? EVENT_JOB_FAILED : EVENT_JOB_DEAD_LETTERED,
                                  STR("deadline"), error, d->job->failures, DEAD_TIMEOUT,
                                  STAGE_EXEC);
}

enum error_code decide_lifetime(struct decider *d)
{
    int64_t expires_at = job_expires_at(d->job);
    int64_t deadline_at = job_deadline_at(d->job);
    int64_t at = job_lifetime_at(d->job);
    if (job_status_terminal(d->job->status))
        return decider_refuse(d, "end");
    if (at == 0)
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the job has neither an expiry nor a deadline");
    if (at > d->now)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job expires in %lld ms",
                       (long long)(at - d->now));
    if (expires_at > 0 && expires_at <= d->now)
        return decider_job_cancelled(d, CANCEL_NONE, STR("expired"));
    if (d->job->cancel_requested)
        return decider_job_cancelled(d, CANCEL_SOFT, d->job->cancel_reason);
    return deadline_at > 0 ? end_at_deadline(d)
                           : decider_job_cancelled(d, CANCEL_NONE, STR("expired"));
}

enum error_code decide_run(struct decider *d)
{
    enum error_code code = decider_text(d, "reason", d->command->run.reason);
    if (code != ERR_OK)
        return code;
    if (!job_takes(d->job, COMMAND_RUN))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "only a scheduled or retrying job can be run now; this one is %.*s",
                       STR_ARG(job_status_name(d->job->status)));
    if (d->job->run_at <= d->now) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    struct event *event = decider_add(d, EVENT_JOB_REQUEUED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = str_is_set(d->command->run.reason) ? d->command->run.reason : STR("run");
    event->data.failures = d->job->failures;
    event->data.not_before = 0;
    return decider_fold(d);
}

enum error_code decide_repin(struct decider *d)
{
    const struct str to = d->command->repin.to;
    const struct str from = d->command->repin.from;
    struct str pin = d->job->pin;
    enum error_code code = decider_text(d, "reason", d->command->repin.reason);
    if (code == ERR_OK)
        code = decider_name(d, "to", to);
    if (code != ERR_OK)
        return code;
    if (!job_takes(d->job, COMMAND_REPIN))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "only a live job that is pinned goes to another version; this one is %.*s%s",
                       STR_ARG(job_status_name(d->job->status)),
                       str_is_set(pin) ? "" : " and not pinned");
    if (str_is_set(from) && !str_eq(from, pin))
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job is pinned to \"%.*s\"",
                       STR_ARG(pin));
    if (str_eq(to, pin)) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    struct event *event = decider_add(d, EVENT_JOB_REPINNED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.pin = to;
    event->data.reason = d->command->repin.reason;
    return decider_fold(d);
}
