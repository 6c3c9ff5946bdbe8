/* Commands on a step: claim, start, complete, fail, release, expire, verdict, answer.
 * decide_lease.c checks the tokens, decide_plan.c knows what a step's move means for its job. */
#include <assert.h>

#include "base/json.h"
#include "core/decider.h"
#include "core/lifetime.h"
#include "core/plan.h"
#include "core/resource_owner.h"

struct event *decider_add_step(struct decider *d, enum event_type type)
{
    struct event *event = decider_add(d, type);
    if (event != NULL)
        event->data.step = d->step->spec.id;
    return event;
}

enum error_code decider_emit_step(struct decider *d, enum event_type type)
{
    return decider_add_step(d, type) == NULL ? decider_no_memory(d) : decider_fold(d);
}

void decider_carry_step_beats(const struct decider *d, struct event_data *data)
{
    data->progress = d->step->progress;
    data->cursor = d->step->cursor;
}

enum error_code decider_refuse_step(struct decider *d, const char *verb, const char *why)
{
    if (decider_blind(d))
        return err_set(d->err, ERR_INVALID_TRANSITION, "cannot %s step \"%.*s\" in its state", verb,
                       STR_ARG(d->step->spec.id));
    return err_set(d->err, ERR_INVALID_TRANSITION, "cannot %s step \"%.*s\": it is %.*s%s", verb,
                   STR_ARG(d->step->spec.id), STR_ARG(step_state_name(d->step->state)), why);
}

enum error_code decider_takes_claims(struct decider *d)
{
    if (d->job->status != JOB_RUNNING) {
        enum error_code code = decider_allows(d, EVENT_JOB_RUNNING, "claim a step of");
        if (code != ERR_OK)
            return code;
    }
    if (d->job->cancel_requested)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job is being cancelled");
    if (d->job->replan)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job waits for a new plan");
    if (d->job->run_at > d->now)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job is not due for %lld ms",
                       (long long)(d->job->run_at - d->now));
    return ERR_OK;
}

static enum error_code claimable(struct decider *d)
{
    const struct resource *resource = d->command->claim.resource;
    enum error_code code = decider_takes_claims(d);
    if (code == ERR_OK && job_outlived(d->job, d->now))
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job has expired");
    if (code == ERR_OK)
        code = record_check_name(d->command->claim.worker_id, "worker_id", d->err);
    if (code == ERR_OK)
        code = lease_terms_check(d->command->claim.terms.lease_ttl_ms,
                                 d->command->claim.terms.heartbeat_ms, d->err);
    if (code != ERR_OK)
        return code;
    if (str_is_set(d->step->spec.wait))
        return decider_refuse_step(d, "claim", " and waits by itself; no worker runs it");
    if (d->command->claim.judge)
        return d->step->held && !d->step->lease.live
                   ? ERR_OK
                   : decider_refuse_step(d, "judge", d->step->held ? " and being judged" : "");
    if (step_standing(d->step) != STANDING_READY)
        return decider_refuse_step(d, "claim",
                                   d->step->open_deps > 0 ? ", its dependencies are open" : "");
    if (d->step->not_before > d->now)
        return err_set(d->err, ERR_INVALID_TRANSITION, "step \"%.*s\" is not due for %lld ms",
                       STR_ARG(d->step->spec.id), (long long)(d->step->not_before - d->now));
    if (resource == NULL)
        return err_set(d->err, ERR_BAD_REQUEST, "resource_id is required to claim a step");
    code = record_check_name(resource->id, "resource_id", d->err);
    if (code != ERR_OK)
        return code;
    if (!resource_serves(resource, d->job->spec.queue))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "resource \"%.*s\" does not serve the queue \"%.*s\"", STR_ARG(resource->id),
                       STR_ARG(d->job->spec.queue));
    return resource_fits(resource, d->step, d->now, d->context->arena, d->err);
}

enum error_code decide_step_claim(struct decider *d)
{
    enum error_code code = claimable(d);
    if (code == ERR_OK)
        code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;

    /* What retries or was answered goes straight on running, as the machine has it. */
    bool judge = d->command->claim.judge;
    bool leased = step_move(d->step->state, STEP_LEASED);
    struct event *event = decider_add_step(d, judge    ? EVENT_STEP_JUDGING
                                              : leased ? EVENT_STEP_LEASED
                                                       : EVENT_STEP_RUNNING);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.resource_id = judge ? (struct str){NULL, 0} : d->command->claim.resource->id;
    code = decider_lease_data(d, d->step->attempt + 1, &event->data);
    if (code == ERR_OK)
        code = decider_fold(d);
    if (code == ERR_OK && leased && d->command->claim.start)
        code = decider_emit_step(d, EVENT_STEP_RUNNING);
    return code;
}

enum error_code decide_step_start(struct decider *d)
{
    d->out->result.expires_at = d->step->lease.expires_at;
    if (d->step->state == STEP_RUNNING) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    return decider_emit_step(d, EVENT_STEP_RUNNING);
}

/* An end of the running attempt that is not a success. */
static enum error_code end_attempt(struct decider *d, enum event_type type, enum verdict verdict,
                                   struct str reason, struct str error, int64_t failures)
{
    struct event *event = decider_add_step(d, type);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.verdict = verdict;
    event->data.reason = reason;
    event->data.error = error;
    event->data.failures = failures;
    if (type == EVENT_STEP_FAILED_RESOURCE)
        d->out->result.failed_resource = event->data.resource_id = d->step->lease.resource_id;
    decider_carry_step_beats(d, &event->data);
    return decider_fold(d);
}

static enum error_code fatal(struct decider *d, enum verdict verdict, struct str reason,
                             struct str error, int64_t failures)
{
    enum error_code code =
        end_attempt(d, EVENT_STEP_FAILED_FATAL, verdict, reason, error, failures);
    if (code == ERR_OK)
        code = decider_emit_step(d, EVENT_STEP_FAILED);
    return code == ERR_OK ? decider_settle(d) : code;
}

enum error_code decider_step_fatal(struct decider *d, struct str reason, struct str error)
{
    return fatal(d, VERDICT_NONE, reason, error, d->step->failures + 1);
}

static enum error_code retry_later(struct decider *d, enum verdict verdict, struct str reason,
                                   struct str error, int64_t failures, int64_t delay_ms)
{
    enum error_code code =
        end_attempt(d, EVENT_STEP_FAILED_RETRYABLE, verdict, reason, error, failures);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add_step(d, EVENT_STEP_RETRYING);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.not_before = d->now + delay_ms;
    code = decider_fold(d);
    return code == ERR_OK ? decider_settle(d) : code;
}

static enum error_code switch_resource(struct decider *d, enum verdict verdict, struct str reason,
                                       struct str error, int64_t failures)
{
    enum error_code code =
        end_attempt(d, EVENT_STEP_FAILED_RESOURCE, verdict, reason, error, failures);
    if (code == ERR_OK)
        code = decider_emit_step(d, EVENT_STEP_SWITCHING_RESOURCE);
    return code == ERR_OK ? decider_settle(d) : code;
}

static enum error_code succeed(struct decider *d, enum verdict verdict, struct str reason,
                               struct str result)
{
    struct event *event = decider_add_step(d, EVENT_STEP_SUCCEEDED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.verdict = verdict;
    event->data.reason = reason;
    event->data.result = str_is_set(result) ? result : d->step->result;
    decider_carry_step_beats(d, &event->data);
    enum error_code code = decider_fold(d);
    if (code == ERR_OK)
        code = decider_start_waiting_children(d);
    return code == ERR_OK ? decider_settle(d) : code;
}

/* The state that a verdict leads to, and all that follows from it. */
static enum error_code apply_verdict(struct decider *d, enum verdict verdict, struct str reason,
                                     struct str error, const struct failure *failure)
{
    const struct retry_policy *policy = &d->step->spec.retry;
    int64_t failures = d->step->failures;
    enum verdict said = d->command->type == COMMAND_VERDICT ? verdict : VERDICT_NONE;
    enum step_state next = decide_next_state(verdict, failures, policy->max_attempts - 1);
    if (next == STEP_FAILED_RETRYABLE) {
        int64_t delay = failure != NULL && failure->has_retry_after
                            ? failure->retry_after_ms
                            : retry_delay_ms(policy, failures + 1, d->context->random);
        return retry_later(d, said, reason, error, failures + 1, delay);
    }
    /* A list of lost resources that long will not end by itself. */
    if (next == STEP_FAILED_RESOURCE && d->step->avoided_count < AVOID_MAX)
        return switch_resource(d, said, reason, error, failures);
    return fatal(d, said, reason, error, failures + 1);
}

static enum error_code hold_result(struct decider *d, struct str result)
{
    struct event *event = decider_add_step(d, EVENT_STEP_FINISHED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.result = result;
    decider_carry_step_beats(d, &event->data);
    enum error_code code = decider_fold(d);
    return code == ERR_OK ? decider_settle(d) : code;
}

/* Accepting ends the attempt for good, so nothing of it may be open. */
static enum error_code accept(struct decider *d, struct str reason, struct str result)
{
    enum error_code code = decider_no_open_effect(d, "complete");
    if (code != ERR_OK)
        return code;
    bool own_word = d->cause.attempt > 0 && !d->step->held;
    if (d->step->spec.critic && own_word)
        return hold_result(d, result);
    return succeed(d, d->command->type == COMMAND_VERDICT ? VERDICT_ACCEPT : VERDICT_NONE, reason,
                   result);
}

enum error_code decider_step_complete(struct decider *d, struct str raw)
{
    struct str result;
    enum error_code code = decider_json(d, "result", raw, &result);
    if (code != ERR_OK)
        return code;
    if (d->step->state != STEP_RUNNING)
        return decider_refuse_step(d, "complete", " and has not started");
    if (d->step->held)
        return decider_refuse_step(d, "complete", ", its result is being judged: give a verdict");
    return accept(d, (struct str){NULL, 0}, result);
}

enum error_code decide_step_complete(struct decider *d)
{
    return decider_step_complete(d, d->command->complete.result);
}

/* A lease that ends before the work began, or a critic's. */
static enum error_code end_early(struct decider *d, struct str reason, struct str error,
                                 int64_t failures)
{
    bool judged = d->step->held;
    struct event *event =
        decider_add_step(d, judged ? EVENT_STEP_FINISHED : EVENT_STEP_LEASE_TIMEOUT);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = reason;
    event->data.failures = failures;
    if (judged)
        event->data.error = error;
    decider_carry_step_beats(d, &event->data);
    enum error_code code = decider_fold(d);
    if (code == ERR_OK && !judged)
        code = decider_emit_step(d, EVENT_STEP_PENDING);
    return code == ERR_OK ? decider_settle(d) : code;
}

/* A critic that fails counts as the worker does: a result that no critic survives would else be
 * handed on for ever. */
static enum error_code lose_critic(struct decider *d, struct str reason, struct str error)
{
    int64_t failures = d->step->failures + 1;
    return failures >= d->step->spec.retry.max_attempts
               ? fatal(d, VERDICT_NONE, reason, error, failures)
               : end_early(d, reason, error, failures);
}

enum error_code decide_step_fail(struct decider *d)
{
    const struct failure *failure = &d->command->fail;
    struct str error;
    enum error_code code = decider_check_failure(d, failure);
    if (code == ERR_OK)
        code = decider_error_json(d, failure, &error);
    if (code != ERR_OK)
        return code;
    if (d->step->held)
        return lose_critic(d, STR("failed"), error);
    /* Only what runs can fail: a failure before the start is one at the start. */
    if (d->step->state == STEP_LEASED)
        code = decider_emit_step(d, EVENT_STEP_RUNNING);
    if (code != ERR_OK)
        return code;
    switch (failure->error_class) {
    case CLASS_PERMANENT:
    case CLASS_VALIDATION:
        return decider_step_fatal(d, STR("failed"), error);
    case CLASS_RESOURCE:
        return apply_verdict(d, VERDICT_SWITCH_RESOURCE, STR("failed"), error, failure);
    default:
        return apply_verdict(d, VERDICT_RETRY, STR("failed"), error, failure);
    }
}

enum error_code decide_step_release(struct decider *d)
{
    struct str reason = STR("released");
    struct str none = {NULL, 0};
    if (d->step->state == STEP_LEASED || d->step->held)
        return end_early(d, reason, none, d->step->failures);
    return retry_later(d, VERDICT_NONE, reason, none, d->step->failures, 0);
}

enum error_code decide_step_cancelled(struct decider *d)
{
    enum error_code code = decider_cancel_asked(d);
    return code == ERR_OK ? decide_step_release(d) : code;
}

/* A lost lease is a failure, or a step that kills its workers would be handed on for ever. */
static enum error_code lose_lease(struct decider *d, struct str reason, struct str error,
                                  bool timed_out)
{
    int64_t failures = d->step->failures + 1;
    bool spent = failures >= d->step->spec.retry.max_attempts;
    enum error_code code = ERR_OK;
    if (d->step->held)
        return lose_critic(d, reason, error);
    if (timed_out && d->step->state == STEP_RUNNING)
        return apply_verdict(d, VERDICT_RETRY, reason, error, NULL);
    if (d->step->state == STEP_LEASED && !spent)
        return end_early(d, reason, error, failures);
    if (d->step->state == STEP_LEASED)
        code = decider_emit_step(d, EVENT_STEP_RUNNING); /* only what runs can fail */
    if (code != ERR_OK)
        return code;
    d->out->result.failed_resource = d->step->lease.resource_id;
    return spent ? fatal(d, VERDICT_NONE, reason, error, failures)
                 : switch_resource(d, VERDICT_NONE, reason, error, failures);
}

enum error_code decide_step_expire(struct decider *d)
{
    const struct lease *lease = &d->step->lease;
    int64_t ends_at = lease_ends_at(lease, d->context);
    if (!lease->live || d->command->expire.attempt != d->step->attempt ||
        job_status_terminal(d->job->status))
        return err_set(d->err, ERR_STALE_LEASE,
                       "attempt %lld of step \"%.*s\" has no live lease to expire",
                       (long long)d->command->expire.attempt, STR_ARG(d->step->spec.id));
    if (d->now < ends_at && !d->command->expire.resource_lost)
        return err_set(d->err, ERR_STALE_LEASE, "the lease of step \"%.*s\" expires in %lld ms",
                       STR_ARG(d->step->spec.id), (long long)(ends_at - d->now));
    struct str reason = {NULL, 0};
    struct str error = {NULL, 0};
    struct failure failure = {0};
    enum error_code code = decider_expiry(d, lease, d->step->attempt, &reason, &failure);
    if (code == ERR_OK)
        code = decider_error_json(d, &failure, &error);
    bool timed_out = failure.error_class == CLASS_TIMEOUT;
    return code == ERR_OK ? lose_lease(d, reason, error, timed_out) : code;
}

enum error_code decider_step_ask(struct decider *d, const struct question *question,
                                 struct str reason, enum verdict verdict, struct str effect)
{
    struct event *event = decider_add_step(d, EVENT_STEP_NEEDS_USER);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = reason;
    event->data.verdict = verdict;
    event->data.wait_type = WAIT_HUMAN;
    event->data.correlation_key = d->step->spec.id;
    event->data.prompt = question->prompt;
    event->data.choices = question->choices;
    event->data.assignee = question->assignee;
    event->data.until = question->timeout_ms > 0 ? d->now + question->timeout_ms : 0;
    event->data.default_answer = question->default_answer;
    event->data.effect = effect;
    decider_carry_step_beats(d, &event->data);
    enum error_code code = decider_fold(d);
    return code == ERR_OK ? decider_settle(d) : code;
}

static enum error_code check_question(struct decider *d, struct question *question)
{
    *question = d->command->verdict.question;
    enum error_code code = decider_text(d, "question.prompt", question->prompt);
    if (code == ERR_OK)
        code = decider_name(d, "question.assignee", question->assignee);
    if (code == ERR_OK)
        code = decider_json(d, "question.choices", question->choices, &question->choices);
    if (code == ERR_OK)
        code = decider_json(d, "question.default_answer", question->default_answer,
                            &question->default_answer);
    if (code != ERR_OK)
        return code;
    if (question->prompt.len == 0)
        return err_set(d->err, ERR_BAD_REQUEST, "needs_user requires a question with a prompt");
    if (question->timeout_ms < 0 || question->timeout_ms > DELAY_MS_MAX)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "question.timeout_ms must be from 0 to %lld, not %lld",
                       (long long)DELAY_MS_MAX, (long long)question->timeout_ms);
    return str_is_set(question->choices)
               ? choices_check(question->choices, question->default_answer, d->context->arena,
                               d->err)
               : ERR_OK;
}

enum error_code decide_verdict(struct decider *d)
{
    enum verdict verdict = d->command->verdict.decision;
    struct str reason = d->command->verdict.reason;
    struct str result;
    struct question question;
    enum error_code code = decider_text(d, "reason", reason);
    if (code == ERR_OK)
        code = decider_json(d, "result", d->command->verdict.result, &result);
    if (code == ERR_OK && verdict == VERDICT_NEEDS_USER)
        code = check_question(d, &question);
    if (code != ERR_OK)
        return code;
    if (verdict == VERDICT_NONE)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "decision must be accept, retry, switch_resource, replan or needs_user");
    if (job_status_terminal(d->job->status))
        return decider_refuse(d, "judge a step of");
    if (d->step->state != STEP_RUNNING)
        return decider_refuse_step(d, "judge", "");
    if (verdict == VERDICT_ACCEPT)
        return accept(d, reason, result);
    if (verdict == VERDICT_NEEDS_USER) {
        code = decider_no_open_effect(d, "ask about");
        return code == ERR_OK
                   ? decider_step_ask(d, &question, reason, verdict, (struct str){NULL, 0})
                   : code;
    }
    return apply_verdict(d, verdict, reason, (struct str){NULL, 0}, NULL);
}

/* Whether a person said no to a question without choices: 'pawl reject', {"approved": false}. With
 * choices every answer is a value like any other, for the steps behind it to look at. */
static bool is_rejection(const struct wait *question, struct str answer)
{
    struct str approved = {NULL, 0};
    if (str_is_set(answer) && json_type(answer) == JSON_OBJECT)
        approved = json_member(answer, STR("approved"));
    return question->type == WAIT_HUMAN && !str_is_set(question->choices) &&
           str_eq(approved, STR("false"));
}

/* The wait of a wait step is over: the engine runs the step and ends it. A rejected step fails, so
 * that nothing that depends on it runs. */
static enum error_code finish_wait_step(struct decider *d, struct str answer, bool rejected)
{
    static const struct failure rejection = {.error_class = CLASS_PERMANENT,
                                             .message = STR_INIT("a person rejected it")};
    struct str none = {NULL, 0};
    struct str error;
    enum error_code code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add_step(d, EVENT_STEP_RUNNING);
    if (event == NULL)
        return decider_no_memory(d);
    code = decider_lease_data(d, d->step->attempt + 1, &event->data);
    if (code == ERR_OK)
        code = decider_fold(d);
    if (code != ERR_OK || !rejected)
        return code == ERR_OK ? succeed(d, VERDICT_NONE, none, answer) : code;
    code = decider_error_json(d, &rejection, &error);
    return code == ERR_OK ? decider_step_fatal(d, STR("rejected"), error) : code;
}

enum error_code decider_step_answer(struct decider *d, const struct reply *reply)
{
    enum resolution resolution;
    struct str result;
    const struct wait *question = &d->step->question;
    enum error_code code = decider_check_reply(d, question, reply, &resolution, &result);
    if (code != ERR_OK)
        return code;
    bool rejected = is_rejection(question, reply->payload);
    struct event *event = decider_add_step(d, EVENT_SIGNAL_RECEIVED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.correlation_key = d->step->question.correlation_key;
    event->data.outcome = reply->outcome;
    event->data.payload = reply->payload;
    event->data.signal_id = reply->signal_id;
    event->data.signal_version = reply->signal_version;
    event->data.by = reply->by.len > 0 ? reply->by : (struct str){NULL, 0};
    event->data.comment = reply->comment;
    event->data.resolution = resolution;
    event->data.result = result;
    code = decider_fold(d);
    if (code == ERR_OK && d->job->wait.type == WAIT_STEPS) {
        event = decider_add(d, EVENT_WAIT_COMPLETED);
        if (event == NULL)
            return decider_no_memory(d);
        event->data.outcome = reply->outcome;
        code = decider_fold(d);
    }
    return code == ERR_OK && str_is_set(d->step->spec.wait)
               ? finish_wait_step(d, reply->payload, rejected)
               : code;
}

enum error_code decider_step_asks(struct decider *d, const char *verb)
{
    if (job_status_terminal(d->job->status))
        return decider_refuse(d, "answer a step of");
    if (d->job->replan)
        return decider_refuse_step(d, verb, ", and the job waits for a new plan");
    if (step_standing(d->step) != STANDING_ASKING)
        return decider_refuse_step(d, verb, d->step->answered ? " and already answered" : "");
    return ERR_OK;
}

enum error_code decide_step_wake(struct decider *d)
{
    /* A wait step of a job that was not due when the step became ready. */
    if (str_is_set(d->step->spec.wait) && step_standing(d->step) == STANDING_READY)
        return decider_start_wait_step(d);
    enum error_code code = decider_step_asks(d, "wake");
    if (code != ERR_OK)
        return code;
    const struct wait *question = &d->step->question;
    const struct signal *stored =
        decider_stored_signal(d, question->type, question->correlation_key, question->choices);
    if (stored != NULL) {
        struct reply reply = decider_stored_reply(stored);
        return decider_step_answer(d, &reply);
    }
    if (question->until == 0 || question->until > d->now)
        return decider_refuse_step(d, "wake", " and its timeout has not passed");
    struct reply reply = {
        .outcome = OUTCOME_TIMEOUT, .payload = d->step->default_answer, .by = STR("pawl")};
    if (!str_is_set(reply.payload) && question->type != WAIT_TIMER)
        reply.payload = STR("\"timeout\"");
    return decider_step_answer(d, &reply);
}
