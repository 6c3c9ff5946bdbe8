#include "core/decide.h"

#include <assert.h>

#include "base/json.h"
#include "base/times.h"
#include "base/utf8.h"
#include "core/decider.h"
#include "core/evolve.h"

typedef enum error_code (*handler)(struct decider *d);

/* Who carries out a command on a job, and who on one of its steps. */
static const struct {
    handler on_job;
    handler on_step;
} handlers[] = {
    [COMMAND_SUBMIT] = {decide_submit, NULL},
    [COMMAND_CLAIM] = {decide_claim, NULL},
    [COMMAND_START] = {decide_start, decide_step_start},
    [COMMAND_HEARTBEAT] = {decide_heartbeat, decide_heartbeat},
    [COMMAND_COMPLETE] = {decide_complete, decide_step_complete},
    [COMMAND_FAIL] = {decide_fail, decide_step_fail},
    [COMMAND_RELEASE] = {decide_release, decide_step_release},
    [COMMAND_WAIT] = {decide_wait, NULL},
    [COMMAND_CANCELLED] = {decide_cancelled, decide_step_cancelled},
    [COMMAND_ABANDON] = {decide_abandon, NULL},
    [COMMAND_EFFECT_BEGIN] = {decide_effect_begin, decide_effect_begin},
    [COMMAND_EFFECT_COMMIT] = {decide_effect_commit, decide_effect_commit},
    [COMMAND_APPEND] = {decide_append, decide_append},
    [COMMAND_SIGNAL] = {decide_signal, NULL},
    [COMMAND_CANCEL] = {decide_cancel, NULL},
    [COMMAND_DEAD_LETTER] = {decide_dead_letter, NULL},
    [COMMAND_REQUEUE] = {decide_requeue, NULL},
    [COMMAND_PLAN] = {decide_plan, NULL},
    [COMMAND_STEP_CLAIM] = {NULL, decide_step_claim},
    [COMMAND_VERDICT] = {NULL, decide_verdict},
    [COMMAND_ANSWER] = {decide_job_answer, decide_step_answer},
    [COMMAND_EXPIRE] = {decide_expire, decide_step_expire},
    [COMMAND_WAKE] = {decide_wake, decide_step_wake},
    [COMMAND_CANCEL_DUE] = {decide_cancel_due, NULL},
    [COMMAND_EFFECT_ABORT] = {decide_effect_abort, decide_effect_abort},
    [COMMAND_LIFETIME] = {decide_lifetime, NULL},
    [COMMAND_RUN] = {decide_run, NULL},
    [COMMAND_REPIN] = {decide_repin, NULL},
};

enum error_code decider_no_memory(struct decider *d)
{
    return err_set(d->err, ERR_NO_MEMORY, "out of memory");
}

struct event *decider_add(struct decider *d, enum event_type type)
{
    struct decision *out = d->out;
    if (out->count == out->cap) {
        uint32_t cap = out->cap == 0 ? 2 : out->cap * 2;
        struct event *moved = arena_grow(d->context->arena, out->events,
                                         out->cap * sizeof *out->events, cap * sizeof *out->events);
        if (moved == NULL)
            return NULL;
        out->events = moved;
        out->cap = cap;
    }
    struct event *event = &out->events[out->count++];
    bool counted = event_type_class(type) != EVENT_CLASS_TELEMETRY;
    *event = (struct event){
        .job_id = d->job->id,
        .version = d->job->version + counted,
        .at = d->now,
        .type = type,
        .actor = d->command->actor,
        .correlation_id = d->job->spec.correlation_id,
        .cause = d->cause,
    };
    return event;
}

/* Whether the table has the move of an event that moves a job. */
static bool is_move(const struct decider *d, const struct event *event)
{
    enum job_status to;
    return event_type_class(event->type) != EVENT_CLASS_STATE ||
           job_move(d->job->status, event->type, event_variant(event), &to);
}

enum error_code decider_fold(struct decider *d)
{
    const struct event *event = &d->out->events[d->out->count - 1];
    enum step_state step_to;
    assert(is_move(d, event));
    assert(event_type_class(event->type) != EVENT_CLASS_STEP ||
           (step_event_state(event->type, &step_to) &&
            step_move(job_step(&d->out->after, event->data.step)->state, step_to)));
    return job_evolve(&d->out->after, event, d->context->arena, d->err);
}

enum error_code decider_emit(struct decider *d, enum event_type type)
{
    return decider_add(d, type) == NULL ? decider_no_memory(d) : decider_fold(d);
}

enum error_code decider_allows(struct decider *d, enum event_type type, const char *verb)
{
    enum job_status to;
    return job_move(d->job->status, type, MOVE_PLAIN, &to) ? ERR_OK : decider_refuse(d, verb);
}

bool decider_blind(const struct decider *d)
{
    return d->command->blind && !str_is_set(d->command->token);
}

enum error_code decider_refuse(struct decider *d, const char *verb)
{
    char id[UUID_TEXT_LEN];
    uuid_format(d->job->id, id);
    return err_set(d->err, ERR_INVALID_TRANSITION, "cannot %s job %.*s: it is %.*s%s", verb,
                   UUID_TEXT_LEN, id, STR_ARG(job_status_name(d->job->status)),
                   d->job->status == JOB_LEASED ? " and has not started" : "");
}

enum error_code decider_json(struct decider *d, const char *what, struct str raw, struct str *ret)
{
    struct str value = str_is_set(raw) ? json_trim(raw) : raw;
    if (value.len > PAYLOAD_BYTES_MAX)
        return err_set(d->err, ERR_PAYLOAD_TOO_LARGE, "%s has %zu bytes; the limit is %d", what,
                       value.len, PAYLOAD_BYTES_MAX);
    if (str_is_set(raw) && json_type(value) == JSON_INVALID)
        return err_set(d->err, ERR_BAD_REQUEST, "%s must be JSON, not \"%.*s\"", what,
                       STR_ARG(value));
    *ret = json_type(value) == JSON_NULL ? (struct str){NULL, 0} : value;
    return ERR_OK;
}

enum error_code decider_text(struct decider *d, const char *what, struct str text)
{
    if (text.len > TEXT_BYTES_MAX)
        return err_set(d->err, ERR_PAYLOAD_TOO_LARGE, "%s has %zu bytes; the limit is %d", what,
                       text.len, TEXT_BYTES_MAX);
    if (!utf8_valid(text))
        return err_set(d->err, ERR_BAD_REQUEST, "%s is not valid UTF-8", what);
    return ERR_OK;
}

enum error_code decider_name(struct decider *d, const char *what, struct str name)
{
    return str_is_set(name) ? record_check_name(name, what, d->err) : ERR_OK;
}

/* Whether an operator may give the command too, without a token. */
static bool is_for_operators(enum command_type type)
{
    return type == COMMAND_APPEND || type == COMMAND_VERDICT;
}

/* SUBMIT makes a job; every other command needs one. A token of a job that is not there, or not any
 * more, is like any other that is not live. */
static enum error_code check_exists(struct decider *d)
{
    enum command_type type = d->command->type;
    bool exists = d->job->status != JOB_NONE;
    if (exists == (type != COMMAND_SUBMIT))
        return ERR_OK;
    char id[UUID_TEXT_LEN];
    uuid_format(d->job->id, id);
    if (exists)
        return err_set(d->err, ERR_INVALID_TRANSITION, "job %.*s already exists", UUID_TEXT_LEN,
                       id);
    if (command_type_by(type) == COMMAND_BY_WORKER && !is_for_operators(type))
        return err_set(d->err, ERR_STALE_LEASE, "stale lease token: unknown job %.*s",
                       UUID_TEXT_LEN, id);
    return err_set(d->err, ERR_NOT_FOUND, "unknown job %.*s", UUID_TEXT_LEN, id);
}

/* Finds the step and checks the token, where the command has them. */
static enum error_code resolve(struct decider *d)
{
    const struct command *command = d->command;
    bool by_worker = command_type_by(command->type) == COMMAND_BY_WORKER;
    if (by_worker && (str_is_set(command->token) || !is_for_operators(command->type)))
        return decider_token(d);
    if (!str_is_set(command->step))
        return ERR_OK;
    d->step = job_step(&d->out->after, command->step);
    d->cause.step = command->step;
    if (d->step == NULL)
        return err_set(d->err, ERR_NOT_FOUND, "unknown step \"%.*s\"", STR_ARG(command->step));
    return ERR_OK;
}

/* What a clock and a caller can get wrong whatever the command. */
static enum error_code check_context(struct decider *d)
{
    /* Every time that a decision works out lies within a few of the longest delays. */
    if (d->now < 0 || d->now > TIME_MAX_MS - 4 * DELAY_MS_MAX)
        return err_set(d->err, ERR_UNAVAILABLE, "the clock is wrong: it says %lld ms since 1970",
                       (long long)d->now);
    return d->command->actor.len > 0 ? decider_name(d, "actor", d->command->actor) : ERR_OK;
}

static enum error_code dispatch(struct decider *d)
{
    enum error_code code = check_context(d);
    if (code == ERR_OK)
        code = check_exists(d);
    if (code == ERR_OK)
        code = resolve(d);
    if (code != ERR_OK || d->out->result.repeated)
        return code;
    enum command_type type = d->command->type;
    handler handle = d->step != NULL ? handlers[type].on_step : handlers[type].on_job;
    if (handle == NULL && d->step == NULL)
        return err_set(d->err, ERR_BAD_REQUEST, "%.*s requires a step",
                       STR_ARG(command_type_name(type)));
    if (handle == NULL)
        return err_set(d->err, ERR_INVALID_TRANSITION, "%.*s does not apply to a step",
                       STR_ARG(command_type_name(type)));
    return handle(d);
}

enum error_code job_decide(const struct job_slice *slice, const struct command *command,
                           const struct context *context, struct decision *ret, struct err *err)
{
    assert(command->type > COMMAND_NONE);
    assert((size_t)command->type < sizeof handlers / sizeof handlers[0]);

    struct decision out;
    out.events = NULL;
    out.count = 0;
    out.cap = 0;
    out.result = (struct decision_result){0};
    struct decider d = {
        .command = command,
        .context = context,
        .now = context->now > slice->job.updated_at ? context->now : slice->job.updated_at,
        .cause = {.command = command->type},
        .out = &out,
        .job = &out.after.job,
        .err = err,
    };
    if (job_slice_copy(slice, context->arena, &out.after) != ERR_OK)
        return decider_no_memory(&d);
    enum error_code code = dispatch(&d);
    if (code == ERR_OK)
        *ret = out;
    return code;
}

enum error_code decision_seal(struct decision *decision, const uint8_t head[HASH_LEN],
                              struct arena *arena, struct err *err)
{
    const uint8_t *previous = head;
    for (uint32_t i = 0; i < decision->count; i++) {
        struct event *event = &decision->events[i];
        enum error_code code = event_seal(event, previous, decision->after.job.salt, arena, err);
        if (code != ERR_OK)
            return code;
        if (event_type_class(event->type) != EVENT_CLASS_TELEMETRY)
            previous = event->hash;
    }
    if (previous != decision->after.job.head)
        memmove(decision->after.job.head, previous, HASH_LEN);
    return ERR_OK;
}
