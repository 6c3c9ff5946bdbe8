#include "server/trace.h"

#include <assert.h>

#include "base/json.h"
#include "core/event.h"
#include "server/attempt.h"

struct str span_text_name(enum span_text text)
{
    static const struct str names[] = {
#define SPAN_NAME(symbol, name) STR_INIT(name),
        SPAN_TEXTS(SPAN_NAME)
#undef SPAN_NAME
    };
    return names[text];
}

/* Where a job stands between two events of a change. */
struct walk {
    const struct job_change *change;
    const struct span_taker *taker;
    const struct job *job; /* what never changes, and the end */
    struct attempt attempt;
    struct wait wait;
    int64_t epoch;
    int64_t epoch_at;
    struct str correlation;
};

/* ---- what spans say ---- */

static struct span span_new(const struct walk *walk, struct trace_context context,
                            const struct trace_context *parent)
{
    const struct spec *spec = &walk->job->spec;
    struct span span = {
        .context = context,
        .kind = SPAN_INTERNAL,
        .job = walk->job->id,
        .epoch = walk->epoch,
        .texts[SPAN_JOB_KIND] = spec->kind,
        .texts[SPAN_QUEUE] = spec->queue,
        .texts[SPAN_CORRELATION_ID] = walk->correlation,
        .texts[SPAN_AGENT_ID] = spec->agent_id,
    };
    memcpy(span.parent_id, parent->span_id, SPAN_ID_LEN);
    return span;
}

/* What went wrong, in a word: how a lease ended, or the class of the error; absent: nothing did. */
static struct str error_of(const struct event *event)
{
    const struct event_data *data = &event->data;
    if (!str_is_set(data->error))
        return data->reason_code == DEAD_NONE ? (struct str){NULL, 0}
                                              : dead_letter_reason_names.at[data->reason_code];
    /* The engine's own reasons are words; others may be whatever people write. */
    if (event->cause.command == COMMAND_EXPIRE && event->type != EVENT_JOB_CANCELLED &&
        str_is_set(data->reason))
        return data->reason;
    struct str class = json_member(data->error, STR("class"));
    return class.len > 2 ? (struct str){class.at + 1, class.len - 2} : STR("error");
}

static struct str outcome_of(const struct event *event)
{
    enum step_state state;
    if (event->type == EVENT_WAIT_COMPLETED || event->type == EVENT_SIGNAL_RECEIVED)
        return event->data.outcome != OUTCOME_NONE ? outcome_names.at[event->data.outcome]
                                                   : (struct str){NULL, 0};
    if (event_type_class(event->type) == EVENT_CLASS_STATE)
        return job_status_name(event_target(event));
    return step_event_state(event->type, &state) ? step_state_name(state) : event_name(event);
}

/* Closes it with an event and hands it on. */
static void end_with(const struct walk *walk, struct span *span, const struct event *event)
{
    /* When it began may not be known: rows of earlier versions do not say. And a clock that was set
     * back makes no span that ends before it begins. */
    if (span->start_ms <= 0)
        span->start_ms = event->at;
    span->end_ms = event->at > span->start_ms ? event->at : span->start_ms;
    span->texts[SPAN_OUTCOME] = outcome_of(event);
    span->texts[SPAN_CAUSE] = command_type_name(event->cause.command);
    walk->taker->take(walk->taker->arg, span);
}

/* ---- a job, its attempts and waits ---- */

static void end_attempt(struct walk *walk, const struct event *event)
{
    const struct attempt attempt = walk->attempt;
    if (!attempt_see(&walk->attempt, event))
        return;
    struct trace_context parent = trace_of_epoch(walk->job, walk->epoch);
    struct span span = span_new(walk, trace_of_attempt(walk->job, attempt.number), &parent);
    span.kind = SPAN_CONSUMER;
    span.name = STR("attempt");
    span.of = SPAN_JOB_KIND;
    span.start_ms = attempt.since;
    span.attempt = attempt.number;
    span.texts[SPAN_WORKER_ID] = attempt.worker_id;
    span.texts[SPAN_ERROR] = error_of(event);
    end_with(walk, &span, event);
}

static void end_wait(struct walk *walk, struct str step, const struct wait *wait,
                     const struct event *event)
{
    struct trace_context parent = trace_of_epoch(walk->job, walk->epoch);
    struct span span = span_new(walk, trace_of_wait(walk->job, step, wait), &parent);
    span.name = STR("wait");
    span.of = SPAN_WAIT_TYPE;
    span.start_ms = wait->since;
    span.texts[SPAN_STEP] = step;
    span.texts[SPAN_WAIT_TYPE] = wait_type_names.at[wait->type];
    end_with(walk, &span, event);
}

static void end_job(const struct walk *walk, const struct event *event)
{
    struct trace_context parent = trace_of_job(walk->job);
    struct span span = span_new(walk, trace_of_epoch(walk->job, walk->epoch), &parent);
    span.name = STR("job");
    span.of = SPAN_JOB_KIND;
    span.start_ms = walk->epoch_at > 0 ? walk->epoch_at : walk->job->created_at;
    span.attempt = walk->attempt.number;
    if (event->type == EVENT_JOB_FAILED || event->type == EVENT_JOB_DEAD_LETTERED) {
        struct str error = error_of(event);
        span.texts[SPAN_ERROR] = str_is_set(error) ? error : STR("error");
    }
    end_with(walk, &span, event);
}

/* ---- steps and effects ---- */

static void end_step(const struct walk *walk, const struct step *step, const struct event *event)
{
    struct trace_context parent = trace_of_epoch(walk->job, walk->epoch);
    struct span span =
        span_new(walk, trace_of_step(walk->job, step->spec.id, step->attempt), &parent);
    span.kind = SPAN_CONSUMER;
    span.name = STR("step");
    span.of = SPAN_STEP_KIND;
    span.start_ms = step->lease.since;
    span.attempt = step->attempt;
    span.texts[SPAN_WORKER_ID] = step->lease.worker_id;
    span.texts[SPAN_RESOURCE_ID] = step->lease.resource_id;
    span.texts[SPAN_STEP] = step->spec.id;
    span.texts[SPAN_STEP_KIND] = step->spec.kind;
    span.texts[SPAN_ERROR] = error_of(event);
    end_with(walk, &span, event);
}

/* Whether an event about a step ends its lease, or, when it asks, its question: whatever comes next
 * does that, a start of the step too. */
static bool ends(const struct event *event, bool asks)
{
    return asks ? event_type_class(event->type) == EVENT_CLASS_STEP ||
                      event->type == EVENT_SIGNAL_RECEIVED
                : event_type_ends_lease(event->type);
}

/* Whether an event of the change before this one was its end. */
static bool was_told(const struct walk *walk, struct str step, bool asks, const struct event *event)
{
    for (const struct event *at = walk->change->events; at < event; at++)
        if (ends(at, asks) && str_eq(at->data.step, step))
            return true;
    return false;
}

/* An event about a step: the end of a lease that was live, or of a question that was open. */
static void see_step(struct walk *walk, const struct event *event)
{
    const struct step *step = job_step(walk->change->before, event->data.step);
    if (step == NULL)
        return;
    bool asks = step_standing(step) == STANDING_ASKING;
    if ((!asks && !step->lease.live) || !ends(event, asks) ||
        was_told(walk, step->spec.id, asks, event))
        return;
    if (asks)
        end_wait(walk, step->spec.id, &step->question, event);
    else
        end_step(walk, step, event);
}

static void end_effect(const struct walk *walk, const struct event *event)
{
    const struct job_slice *after = walk->change->after;
    const struct effect *effect = NULL;
    for (uint32_t i = 0; i < after->effect_count && effect == NULL; i++) {
        const struct effect *candidate = &after->effects[i];
        if (str_eq(candidate->key, event->data.key) && str_eq(candidate->step, event->data.step))
            effect = candidate;
    }
    if (effect == NULL)
        return;
    struct trace_context parent = str_is_set(effect->step)
                                      ? trace_of_step(walk->job, effect->step, effect->attempt)
                                      : trace_of_attempt(walk->job, effect->attempt);
    struct span span = span_new(walk, trace_of_effect(walk->job, effect), &parent);
    span.kind = SPAN_CLIENT;
    span.name = STR("effect");
    span.of = SPAN_TEXT_COUNT;
    span.start_ms = effect->called_at;
    span.attempt = effect->attempt;
    span.texts[SPAN_STEP] = effect->step;
    span.texts[SPAN_EFFECT_KEY] = effect->key;
    end_with(walk, &span, event);
}

/* ---- events, one after the other ---- */

static void see_state(struct walk *walk, const struct event *event)
{
    const struct event_data *data = &event->data;
    end_attempt(walk, event);
    if (walk->wait.type != WAIT_NONE)
        end_wait(walk, (struct str){NULL, 0}, &walk->wait, event);
    walk->wait = (struct wait){0};
    if (event->type == EVENT_JOB_WAITING)
        walk->wait = (struct wait){
            .type = data->wait_type, .since = event->at, .correlation_key = data->correlation_key};
    if (job_status_terminal(event_target(event)))
        end_job(walk, event);
    if (event->type == EVENT_JOB_REQUEUED && data->epoch > 0) {
        walk->epoch = data->epoch;
        walk->epoch_at = event->at;
    }
}

static void see(struct walk *walk, const struct event *event)
{
    switch (event_type_class(event->type)) {
    case EVENT_CLASS_STATE:
        see_state(walk, event);
        break;
    case EVENT_CLASS_STEP:
        see_step(walk, event);
        break;
    case EVENT_CLASS_FACT:
        if (event->type == EVENT_TOOL_RETURNED || event->type == EVENT_TOOL_ABORTED)
            end_effect(walk, event);
        else if (event->type == EVENT_STEP_FINISHED ||
                 (event->type == EVENT_SIGNAL_RECEIVED && str_is_set(event->data.step)))
            see_step(walk, event);
        break;
    case EVENT_CLASS_APPENDED:
    case EVENT_CLASS_TELEMETRY:
        break;
    }
}

void trace_change(const struct job_change *change, const struct span_taker *taker)
{
    const struct job *before = &change->before->job;
    const struct job *after = &change->after->job;
    char id[UUID_TEXT_LEN];
    struct walk walk = {
        .change = change,
        .taker = taker,
        .job = after,
        .correlation = correlation_shown(after->spec.correlation_id, after->id, id),
        .attempt = attempt_before(before),
        .wait = before->wait,
        .epoch = before->epoch > 0 ? before->epoch : 1,
        .epoch_at = before->epoch_at,
    };
    if ((trace_of_job(walk.job).flags & TRACE_SAMPLED) == 0)
        return;
    for (uint32_t i = 0; i < change->event_count; i++)
        see(&walk, &change->events[i]);
}
