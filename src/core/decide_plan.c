/* Plans: taking one, starting its wait steps, and what the steps mean for their job. */
#include <assert.h>

#include "base/json.h"
#include "core/decider.h"
#include "core/plan.h"

enum error_code decider_ensure_running(struct decider *d)
{
    if (d->job->status == JOB_RUNNING)
        return ERR_OK;
    enum error_code code = decider_allows(d, EVENT_JOB_RUNNING, "run a step of");
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, EVENT_JOB_RUNNING);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.attempt = d->job->attempt + 1;
    return decider_fold(d);
}

/* The engine takes the step as a worker would, and asks at once. */
static enum error_code begin_wait(struct decider *d)
{
    struct wait_spec wait;
    enum error_code code =
        wait_spec_read(d->step->spec.wait, RECORD_STORED, d->context->arena, &wait, d->err);
    if (code == ERR_OK)
        code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add_step(d, EVENT_STEP_LEASED);
    if (event == NULL)
        return decider_no_memory(d);
    code = decider_lease_data(d, d->step->attempt + 1, &event->data);
    if (code == ERR_OK)
        code = decider_fold(d);
    if (code == ERR_OK)
        code = decider_emit_step(d, EVENT_STEP_RUNNING);
    if (code != ERR_OK)
        return code;

    event = decider_add_step(d, EVENT_STEP_NEEDS_USER);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.wait_type = wait.type;
    /* People answer by the step; a timer is ended by a signal only where it was given a key. */
    event->data.correlation_key = wait.correlation_key;
    if (!str_is_set(wait.correlation_key) && wait.type != WAIT_TIMER)
        event->data.correlation_key = d->step->spec.id;
    event->data.until = wait.until;
    if (wait.delay_ms > 0 || wait.timeout_ms > 0)
        event->data.until = d->now + wait.delay_ms + wait.timeout_ms;
    event->data.prompt = wait.prompt;
    event->data.choices = wait.choices;
    event->data.assignee = wait.assignee;
    event->data.default_answer = wait.default_answer;
    d->out->result.wake = d->out->result.wake || d->job->stored_signals > 0;
    return decider_fold(d);
}

static enum error_code start_if_waiting(struct decider *d, struct step *step)
{
    struct step *moved = d->step;
    if (!str_is_set(step->spec.wait) || step_standing(step) != STANDING_READY)
        return ERR_OK;
    if (d->job->cancel_requested || d->job->replan || d->job->run_at > d->now)
        return ERR_OK;
    d->step = step;
    enum error_code code = begin_wait(d);
    d->step = moved;
    return code;
}

enum error_code decider_start_wait_step(struct decider *d)
{
    enum error_code code = decider_takes_claims(d);
    if (code == ERR_OK)
        code = begin_wait(d);
    return code == ERR_OK ? decider_settle(d) : code;
}

enum error_code decider_start_waiting_children(struct decider *d)
{
    const struct step *parent = d->step;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < parent->child_count && code == ERR_OK; i++)
        code = start_if_waiting(d, job_step_at(&d->out->after, parent->children[i]));
    return code;
}

/* Starts what is ready and waits by itself, among the steps that are loaded. */
static enum error_code start_loaded_waits(struct decider *d)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < d->out->after.step_count && code == ERR_OK; i++)
        code = start_if_waiting(d, &d->out->after.steps[i]);
    return code == ERR_OK ? decider_settle(d) : code;
}

enum error_code decider_start_ready_waits(struct decider *d)
{
    enum error_code code = decider_takes_claims(d);
    if (code == ERR_OK)
        code = start_loaded_waits(d);
    if (code == ERR_OK && d->out->count == 0)
        code = err_set(d->err, ERR_INVALID_TRANSITION, "no step of this job has a timer to fire");
    return code;
}

/* Every step with an open dependency says so, with an event as for any other move. */
static enum error_code announce_steps(struct decider *d)
{
    struct job_slice *after = &d->out->after;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < after->step_count && code == ERR_OK; i++) {
        if (after->steps[i].state != STEP_PENDING || after->steps[i].open_deps == 0)
            continue;
        d->step = &after->steps[i];
        code = decider_emit_step(d, EVENT_STEP_WAITING_DEPS);
    }
    d->step = NULL;
    return code;
}

static enum error_code wait_completed_by(struct decider *d, enum outcome outcome)
{
    struct event *event = decider_add(d, EVENT_WAIT_COMPLETED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.outcome = outcome;
    return decider_fold(d);
}

enum error_code decider_plan(struct decider *d, struct str steps, struct str reason, bool fresh)
{
    struct plan *plan = NULL;
    enum error_code code = ERR_OK;
    if (str_is_set(steps)) {
        plan = arena_zalloc(d->context->arena, 1, sizeof *plan);
        if (plan == NULL)
            return decider_no_memory(d);
        if (steps.len > PLAN_BYTES_MAX)
            return err_set(d->err, ERR_PAYLOAD_TOO_LARGE, "the plan has %zu bytes; the limit is %d",
                           steps.len, PLAN_BYTES_MAX);
        code =
            plan_read(steps, RECORD_REQUEST, d->context->random, d->context->arena, plan, d->err);
        if (code != ERR_OK)
            return code;
    }
    struct event *event = decider_add(d, EVENT_PLAN_GENERATED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.steps = plan != NULL ? plan->source : (struct str){NULL, 0};
    event->data.plan = plan;
    event->data.plan_version = d->job->plan_version + 1;
    event->data.reason = reason;
    event->data.fresh = fresh;
    code = decider_fold(d);
    if (code == ERR_OK)
        code = announce_steps(d);
    if (code == ERR_OK && d->job->wait.type != WAIT_NONE)
        code = wait_completed_by(d, OUTCOME_PLAN);
    return code == ERR_OK ? start_loaded_waits(d) : code;
}

/* Whether the step asks a person who has not answered, or will ask one. */
static enum error_code asks_person(struct decider *d, const struct step *step, bool *ret)
{
    enum step_standing standing = step_standing(step);
    struct wait_spec wait = {0};
    enum error_code code = ERR_OK;
    if (standing == STANDING_ASKING)
        wait.type = step->question.type;
    else if (standing < STANDING_SUCCEEDED && str_is_set(step->spec.wait))
        code = wait_spec_read(step->spec.wait, RECORD_STORED, d->context->arena, &wait, d->err);
    *ret = wait.type == WAIT_HUMAN;
    return code;
}

/* A new plan takes the place of all that has not ended. So it could do without the approval that
 * the old one has, which is as good as giving it. */
static enum error_code check_questions(struct decider *d)
{
    const struct job_slice *slice = &d->out->after;
    enum error_code code = ERR_OK;
    bool blind = decider_blind(d);
    for (uint32_t i = 0; i < slice->step_count && code == ERR_OK; i++) {
        bool asks = false;
        code = asks_person(d, &slice->steps[i], &asks);
        if (code == ERR_OK && asks)
            code = err_set(d->err, ERR_FORBIDDEN,
                           "%s%.*s%s has an open question: a new plan would end it, which requires "
                           "a token with the scope answer",
                           blind ? "a step" : "step \"",
                           STR_ARG(blind ? STR("") : slice->steps[i].spec.id), blind ? "" : "\"");
    }
    return code;
}

enum error_code decide_plan(struct decider *d)
{
    enum error_code code = decider_text(d, "reason", d->command->plan.reason);
    if (code != ERR_OK)
        return code;
    if (!job_takes(d->job, COMMAND_PLAN))
        return job_has_plan(d->job) && !job_status_terminal(d->job->status)
                   ? err_set(d->err, ERR_INVALID_TRANSITION,
                             "the plan is running: give a step the verdict replan first")
                   : decider_refuse(d, "plan");
    if (!str_is_set(d->command->plan.steps))
        return err_set(d->err, ERR_UNPROCESSABLE_PLAN, "the plan has no steps");
    /* With a plan nobody holds the job itself any more, so nobody could resolve its effects. */
    code = decider_no_open_effect(d, "plan");
    if (code == ERR_OK && d->command->no_answer)
        code = check_questions(d);
    if (code != ERR_OK)
        return code;
    return decider_plan(d, d->command->plan.steps, d->command->plan.reason, false);
}

static enum error_code job_waits_for(struct decider *d, enum wait_type type, struct str reason)
{
    enum error_code code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, EVENT_JOB_WAITING);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.wait_type = type;
    event->data.reason = reason;
    return decider_fold(d);
}

/* With one final step its result is the job's; with several none speaks for the job. The one is the
 * step that moved, or else the whole plan is loaded. */
static struct str final_result(const struct decider *d)
{
    const struct job_slice *slice = &d->out->after;
    for (uint32_t i = 0; d->job->final_steps == 1 && i < slice->step_count; i++)
        if (slice->steps[i].child_count == 0)
            return slice->steps[i].result;
    return (struct str){NULL, 0};
}

static enum error_code job_completed(struct decider *d)
{
    enum error_code code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, EVENT_JOB_COMPLETED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.result = final_result(d);
    return decider_fold(d);
}

/* The error of the step that the job fails with, and which step that is. */
static enum error_code error_of_step(struct decider *d, struct str *ret)
{
    struct str error = d->step->error;
    struct json_iter iter;
    struct json_writer writer;
    struct buf buf;
    struct str key;
    struct str value;
    buf_init(&buf, d->context->arena, error.len + d->step->spec.id.len + 16);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    json_key(&writer, STR("step"));
    json_put_string(&writer, d->step->spec.id);
    if (json_object_begin(&iter, error))
        while (json_object_next(&iter, &key, &value)) {
            json_key(&writer, (struct str){key.at + 1, key.len - 2});
            json_put_raw(&writer, value);
        }
    json_end_object(&writer);
    if (buf.failed)
        return decider_no_memory(d);
    *ret = buf_str(&buf);
    return ERR_OK;
}

/* The job cannot go on: it ends as its retry policy says, by the step that failed last. */
static enum error_code job_failed(struct decider *d)
{
    const struct retry_policy *policy = &d->job->spec.retry;
    enum error_class class = CLASS_TRANSIENT;
    struct str error = {NULL, 0};
    enum error_code code = decider_ensure_running(d);
    if (code != ERR_OK)
        return code;
    /* The step that moved last may have got over its error. */
    struct failure failure = {.error_class = CLASS_PERMANENT,
                              .message = STR("a step failed and no other step can run")};
    if (d->step != NULL && d->step->state == STEP_FAILED && str_is_set(d->step->error)) {
        class = failure_class_of(d->step->error);
        code = error_of_step(d, &error);
    } else {
        code = decider_error_json(d, &failure, &error);
    }
    if (code != ERR_OK)
        return code;
    bool final = class == CLASS_PERMANENT || class == CLASS_VALIDATION;
    enum exhausted_policy then = final ? policy->on_permanent : policy->on_exhausted;
    bool dead = then == EXHAUSTED_DEAD_LETTER;
    return decider_end_in_failure(d, dead ? EVENT_JOB_DEAD_LETTERED : EVENT_JOB_FAILED,
                                  STR("step_failed"), error, d->job->failures,
                                  failure_reason_code(class, STAGE_NONE, final), STAGE_EXEC);
}

enum error_code decider_settle(struct decider *d)
{
    const int64_t *steps = d->job->steps;
    int64_t unfinished = 0;
    for (int standing = 0; standing < STANDING_SUCCEEDED; standing++)
        unfinished += steps[standing];
    bool moving = steps[STANDING_READY] + steps[STANDING_ACTIVE] + steps[STANDING_HELD] > 0;
    bool fatal = d->step != NULL && d->step->state == STEP_FAILED && !d->job->replan &&
                 d->step->spec.on_failure == ON_FAILURE_FAIL;

    if (job_status_terminal(d->job->status) || d->job->wait.type != WAIT_NONE)
        return ERR_OK;
    if (d->job->cancel_requested && steps[STANDING_ACTIVE] == 0)
        return decider_job_cancelled(d, CANCEL_SOFT, d->job->cancel_reason);
    if (unfinished == 0 && steps[STANDING_FAILED] == 0)
        return job_completed(d);
    if (fatal)
        return job_failed(d);
    if (d->job->replan)
        return steps[STANDING_ACTIVE] == 0 ? job_waits_for(d, WAIT_REPLAN, d->job->replan_reason)
                                           : ERR_OK;
    if (moving)
        return ERR_OK;
    return steps[STANDING_ASKING] > 0 ? job_waits_for(d, WAIT_STEPS, (struct str){NULL, 0})
                                      : job_failed(d);
}
