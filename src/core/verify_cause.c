/* The checker's view of causes: which command may produce which event, and under which lease. */
#include <assert.h>

#include "core/plan.h"
#include "core/verifier.h"

#define BY(command) (UINT32_C(1) << COMMAND_##command)

enum {
    COMMANDS_END = 0
#define COMMAND(symbol, number, name, by) | (number)
#include "core/command.def"
#undef COMMAND
};
_Static_assert(COMMANDS_END < 32, "a mask of commands has 32 bits");

/* To commit an effect can begin the next, which may be in doubt. */
#define DOUBTS (BY(EFFECT_BEGIN) | BY(EFFECT_COMMIT))

/* To commit an effect can also be followed by a wait or by the end. */
#define WAITS (BY(WAIT) | BY(EFFECT_COMMIT))
#define COMPLETIONS (BY(COMPLETE) | BY(EFFECT_COMMIT))

/* What moves one step may move others, and their job with them: a success starts wait steps or
 * completes the job, an answer wakes it, a failure fails it. Any of these commands can set off such
 * a cascade. */
#define CASCADE                                                                                    \
    (OPENINGS | BY(STEP_CLAIM) | BY(START) | BY(COMPLETE) | BY(FAIL) | BY(RELEASE) |               \
     BY(CANCELLED) | DOUBTS | BY(VERDICT) | BY(EXPIRE))

#define PLANNINGS (BY(SUBMIT) | BY(PLAN) | BY(REQUEUE))
#define ANSWERS (BY(SIGNAL) | BY(ANSWER) | BY(WAKE))

/* What finds a job with a plan at rest and sets it going. */
#define OPENINGS (PLANNINGS | ANSWERS)

#define ENDS_OF_ATTEMPT (BY(FAIL) | BY(RELEASE) | BY(EXPIRE) | BY(VERDICT) | BY(CANCELLED))
#define FATAL_ENDS (BY(FAIL) | BY(EXPIRE) | BY(VERDICT) | DOUBTS)

/* The commands that may produce an event. For jobs: without a plan, and with one. For steps: one
 * that a worker runs, and one that only waits, which the cascade carries through all its states. */
struct producers {
    uint32_t plain;
    uint32_t planned;
};

static const struct producers producers[] = {
    [EVENT_JOB_CREATED] = {BY(SUBMIT), BY(SUBMIT)},
    [EVENT_JOB_QUEUED] = {BY(SUBMIT), BY(SUBMIT)},
    [EVENT_JOB_REQUEUED] = {BY(FAIL) | BY(RELEASE) | BY(EXPIRE) | BY(REQUEUE) | BY(RUN),
                            BY(REQUEUE) | BY(RUN)},
    [EVENT_JOB_LEASED] = {BY(CLAIM), 0},
    [EVENT_JOB_RUNNING] = {BY(CLAIM) | BY(START), OPENINGS | BY(STEP_CLAIM) | BY(LIFETIME)},
    [EVENT_JOB_WAITING] = {WAITS | DOUBTS, CASCADE},
    [EVENT_WAIT_COMPLETED] = {ANSWERS | WAITS | BY(LIFETIME), ANSWERS | BY(PLAN) | BY(LIFETIME)},
    [EVENT_JOB_COMPLETED] = {COMPLETIONS, CASCADE},
    [EVENT_JOB_FAILED] = {BY(FAIL) | BY(EXPIRE) | BY(LIFETIME) | DOUBTS, CASCADE | BY(LIFETIME)},
    [EVENT_JOB_CANCELLED] = {BY(CANCEL) | BY(CANCELLED) | BY(CANCEL_DUE) | BY(LIFETIME),
                             BY(CANCEL) | BY(CANCELLED) | BY(CANCEL_DUE) | BY(LIFETIME)},
    [EVENT_JOB_DEAD_LETTERED] = {BY(FAIL) | BY(EXPIRE) | BY(ABANDON) | BY(DEAD_LETTER) |
                                     BY(LIFETIME) | DOUBTS,
                                 CASCADE | BY(DEAD_LETTER) | BY(LIFETIME)},

    [EVENT_SIGNAL_RECEIVED] = {BY(SIGNAL), ANSWERS},
    [EVENT_JOB_CANCEL_REQUESTED] = {BY(CANCEL), BY(CANCEL)},
    [EVENT_TOOL_CALLED] = {DOUBTS, DOUBTS},
    [EVENT_TOOL_RETURNED] = {BY(EFFECT_COMMIT), BY(EFFECT_COMMIT)},
    [EVENT_TOOL_ABORTED] = {BY(EFFECT_ABORT), BY(EFFECT_ABORT)},
    [EVENT_JOB_REPINNED] = {BY(REPIN), BY(REPIN)},
    [EVENT_PLAN_GENERATED] = {BY(SUBMIT) | BY(PLAN), BY(SUBMIT) | BY(PLAN) | BY(REQUEUE)},

    [EVENT_STEP_PENDING] = {ENDS_OF_ATTEMPT, CASCADE},
    [EVENT_STEP_WAITING_DEPS] = {PLANNINGS, PLANNINGS},
    [EVENT_STEP_LEASED] = {BY(STEP_CLAIM), CASCADE},
    /* A leased step can end only by way of running: to fail it starts it. */
    [EVENT_STEP_RUNNING] = {BY(STEP_CLAIM) | BY(START) | BY(FAIL) | BY(EXPIRE), CASCADE},
    [EVENT_STEP_SUCCEEDED] = {COMPLETIONS | BY(VERDICT), CASCADE},
    [EVENT_STEP_FAILED_RETRYABLE] = {ENDS_OF_ATTEMPT, CASCADE},
    [EVENT_STEP_RETRYING] = {ENDS_OF_ATTEMPT, CASCADE},
    [EVENT_STEP_FAILED_RESOURCE] = {ENDS_OF_ATTEMPT, CASCADE},
    [EVENT_STEP_SWITCHING_RESOURCE] = {ENDS_OF_ATTEMPT, CASCADE},
    [EVENT_STEP_FAILED_FATAL] = {FATAL_ENDS, CASCADE},
    [EVENT_STEP_FAILED] = {FATAL_ENDS, CASCADE},
    [EVENT_STEP_NEEDS_USER] = {BY(VERDICT) | DOUBTS, CASCADE},
    [EVENT_STEP_LEASE_TIMEOUT] = {ENDS_OF_ATTEMPT, CASCADE},
    [EVENT_STEP_FINISHED] = {COMPLETIONS | ENDS_OF_ATTEMPT, 0},
    [EVENT_STEP_JUDGING] = {BY(STEP_CLAIM), 0},

    [EVENT_NODE_STARTED] = {BY(APPEND), BY(APPEND)},
    [EVENT_NODE_FINISHED] = {BY(APPEND), BY(APPEND)},
    [EVENT_JOB_COMPENSATED] = {BY(APPEND), BY(APPEND)},
    [EVENT_CUSTOM] = {BY(APPEND), BY(APPEND)},
};

/* Events that are about one step, by class or by name. */
static bool is_step_event(enum event_type type)
{
    return event_type_class(type) == EVENT_CLASS_STEP || type == EVENT_STEP_FINISHED ||
           type == EVENT_STEP_JUDGING;
}

static uint32_t producers_of_event(const struct verifier *v)
{
    const struct event *event = v->event;
    const struct producers *of = &producers[event->type];
    if (is_step_event(event->type)) {
        const struct step_account *step = v->blind ? NULL : step_account(v, event->data.step);
        /* Which step it was is not known any more. */
        if (step == NULL)
            return of->plain | of->planned;
        return step_waits(step) ? of->planned : of->plain;
    }

    uint32_t commands = v->has_plan ? of->planned : of->plain;
    /* Once asked to stop, a job that loses its lease need not be given out again to be told. */
    if (event->type == EVENT_JOB_CANCELLED && v->cancel_requested)
        commands |= CASCADE | BY(WAIT);
    return commands;
}

static void verify_producer(struct verifier *v)
{
    const struct event *event = v->event;
    enum command_type command = event->cause.command;
    if (command == COMMAND_NONE) {
        buf_addf(violate(v, VERIFY_CAUSE), "cause \"%.*s\" names no command",
                 STR_ARG(event->cause_text));
        return;
    }
    if (event->type != EVENT_UNKNOWN && (producers_of_event(v) & (UINT32_C(1) << command)) == 0)
        buf_addf(violate(v, VERIFY_CAUSE), "%.*s cannot produce %.*s of a %s",
                 STR_ARG(command_text(v)), STR_ARG(event_text(v)),
                 v->has_plan ? "job with a plan" : "job without a plan");
}

/* A step's command may produce several events, the first of which can end the lease that all are
 * written under: it counts at the start of the command. A job's ends its lease last. */
static bool continues_command(const struct verifier *v)
{
    const struct cause *cause = &v->event->cause;
    return str_is_set(cause->step) && v->cause.command == cause->command &&
           v->cause.attempt == cause->attempt && text_eq(v->cause.step, cause->step) &&
           v->cause_at == v->event->at;
}

/* These cannot be carried out twice without an event of another command in between. */
#define ONCE                                                                                       \
    (BY(SUBMIT) | BY(CLAIM) | BY(START) | BY(COMPLETE) | BY(FAIL) | BY(RELEASE) | BY(WAIT) |       \
     BY(CANCELLED) | BY(ABANDON) | BY(DEAD_LETTER) | BY(REQUEUE) | BY(STEP_CLAIM) | BY(VERDICT) |  \
     BY(ANSWER) | BY(EXPIRE) | BY(CANCEL_DUE) | BY(LIFETIME) | BY(RUN))

static void verify_one_time(struct verifier *v)
{
    const struct cause *cause = &v->event->cause;
    if ((ONCE & (UINT32_C(1) << cause->command)) != 0 && v->cause.command == cause->command &&
        v->cause.attempt == cause->attempt && text_eq(v->cause.step, cause->step) &&
        v->event->at > v->cause_at)
        buf_addf(violate(v, VERIFY_TIME), "%.*s goes on at %lld ms, begun at %lld ms",
                 STR_ARG(command_text(v)), INT_ARG(v->event->at), INT_ARG(v->cause_at));
}

/* An operator may judge, append what has a name of its own, and say that a failed job was
 * compensated. */
static bool needs_no_lease(const struct verifier *v)
{
    bool failed = v->status == JOB_FAILED || v->status == JOB_DEAD_LETTERED;
    enum event_type type = v->event->type;
    if (event_caused_by(v, COMMAND_APPEND))
        return type != EVENT_NODE_STARTED && type != EVENT_NODE_FINISHED &&
               (type != EVENT_JOB_COMPENSATED || failed);
    return event_caused_by(v, COMMAND_VERDICT);
}

static bool verify_holder(struct verifier *v)
{
    const struct cause *cause = &v->event->cause;
    if (cause->attempt == 0) {
        if (needs_no_lease(v))
            return true;
        buf_addf(violate(v, VERIFY_LEASE_HOLDER), "%.*s of %.*s came without a lease",
                 STR_ARG(command_text(v)), STR_ARG(event_text(v)));
        return false;
    }

    const struct lease_account *lease = &v->lease;
    bool live = lease->live;
    if (str_is_set(cause->step)) {
        /* Steps cannot be told apart any more. */
        if (v->blind)
            return true;
        const struct step_account *step = step_account(v, cause->step);
        if (step == NULL) {
            buf_addf(violate(v, VERIFY_LEASE_HOLDER),
                     "%.*s came from step \"%.*s\", not in the plan", STR_ARG(command_text(v)),
                     STR_ARG(cause->step));
            return false;
        }
        lease = &step->lease;
        live = step_lease_live(v, step);
    }
    bool late = lease->timeout_at != 0 && v->event->at >= lease->timeout_at;
    if (live && lease->attempt == cause->attempt && !late)
        return true;
    struct buf *detail = violate(v, VERIFY_LEASE_HOLDER);
    buf_addf(detail, "%.*s came under the lease of attempt %lld, ", STR_ARG(command_text(v)),
             INT_ARG(cause->attempt));
    if (live && lease->attempt == cause->attempt)
        buf_addf(detail, "which ended at %lld ms", INT_ARG(lease->timeout_at));
    else if (live)
        buf_addf(detail, "live is that of attempt %lld", INT_ARG(lease->attempt));
    else
        buf_addf(detail, "no lease is live");
    return false;
}

/* A command about one step, by its lease or by name, moves no other, except wait steps that it sets
 * off. */
static void verify_same_step(struct verifier *v)
{
    const struct event *event = v->event;
    bool about_step = is_step_event(event->type) || event->type == EVENT_TOOL_CALLED ||
                      event->type == EVENT_TOOL_RETURNED || event->type == EVENT_TOOL_ABORTED ||
                      (event->type == EVENT_SIGNAL_RECEIVED && str_is_set(event->data.step));
    bool named = event->cause.attempt != 0 || str_is_set(event->cause.step);
    if (v->blind || !about_step || !named || event->data.step.len == 0 ||
        text_eq(event->cause.step, event->data.step))
        return;
    const struct step_account *step = step_account(v, event->data.step);
    if (step != NULL && step_waits(step))
        return;
    /* When a step waits for its dependencies is for their worker to find out. */
    if (event->type == EVENT_STEP_WAITING_DEPS)
        return;
    buf_addf(violate(v, VERIFY_LEASE_HOLDER),
             "a command on step \"%.*s\" was used for step \"%.*s\"", STR_ARG(event->cause.step),
             STR_ARG(event->data.step));
}

void verify_cause(struct verifier *v)
{
    const struct event *event = v->event;
    enum command_type command = event->cause.command;
    verify_producer(v);
    if (command == COMMAND_NONE) {
        v->cause = event->cause;
        return;
    }

    verify_one_time(v);
    if (command_type_by(command) == COMMAND_BY_WORKER) {
        bool continued = continues_command(v) && v->cause_live;
        v->cause_live = continued || verify_holder(v);
    } else {
        if (event->cause.attempt != 0)
            buf_addf(violate(v, VERIFY_CAUSE), "%.*s needs no lease, yet carries attempt %lld",
                     STR_ARG(command_text(v)), INT_ARG(event->cause.attempt));
        v->cause_live = false;
    }
    verify_same_step(v);
    v->cause = event->cause;
    v->cause_at = event->at;
}
