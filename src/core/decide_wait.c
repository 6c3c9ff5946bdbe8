/* Waits and the signals that end them. */
#include <assert.h>

#include "base/json.h"
#include "core/decider.h"
#include "core/plan.h"

/* A question to a person is answered after it was asked: nothing that was sent before answers it,
 * and so nobody who may not answer can do it in advance. A signal that is not one of the choices
 * was sent for something else: it stays stored, for a wait that takes it, and hides no other. */
const struct signal *decider_stored_signal(const struct decider *d, enum wait_type type,
                                           struct str key, struct str choices)
{
    const struct job_slice *slice = &d->out->after;
    if (type == WAIT_HUMAN)
        return NULL;
    for (uint32_t i = 0; i < slice->signal_count; i++) {
        const struct signal *signal = &slice->signals[i];
        if (signal->delivered || !str_eq(signal->correlation_key, key))
            continue;
        if (decider_fits(d, choices, signal->payload))
            return signal;
    }
    return NULL;
}

enum error_code decider_end_wait(struct decider *d, const struct reply *reply)
{
    enum resolution resolution;
    struct str result;
    enum error_code code = decider_check_reply(d, &d->job->wait, reply, &resolution, &result);
    if (code != ERR_OK)
        return code;
    struct event *event = decider_add(d, EVENT_WAIT_COMPLETED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.outcome = reply->outcome;
    event->data.correlation_key = reply->correlation_key;
    event->data.payload = reply->payload;
    event->data.choices = reply->choices;
    event->data.by = reply->by;
    event->data.comment = reply->comment;
    event->data.signal_id = reply->signal_id;
    event->data.signal_version = reply->signal_version;
    event->data.resolution = resolution;
    event->data.result = result;
    decider_carry_beats(d, &event->data);
    return decider_fold(d);
}

static enum error_code check_timer(struct decider *d, const struct wait_request *wait)
{
    if ((wait->delay_ms != 0) == (wait->until != 0))
        return err_set(d->err, ERR_BAD_REQUEST, "a timer requires either delay_ms or until");
    if (wait->timeout_ms != 0)
        return err_set(d->err, ERR_BAD_REQUEST, "a timer takes no timeout_ms");
    if (str_is_set(wait->default_answer))
        return err_set(d->err, ERR_BAD_REQUEST, "a timer takes no default_answer");
    if (wait->delay_ms < 0 || wait->delay_ms > DELAY_MS_MAX || wait->until < 0 ||
        wait->until > d->now + DELAY_MS_MAX)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "a timer may last up to 10 years; delay_ms is %lld, until %lld",
                       (long long)wait->delay_ms, (long long)wait->until);
    return ERR_OK;
}

static enum error_code check_signal_wait(struct decider *d, const struct wait_request *wait)
{
    if (!str_is_set(wait->correlation_key))
        return err_set(d->err, ERR_BAD_REQUEST, "correlation_key is required to wait for a %.*s",
                       STR_ARG(wait_type_names.at[wait->type]));
    if (wait->delay_ms != 0 || wait->until != 0)
        return err_set(d->err, ERR_BAD_REQUEST, "delay_ms and until are only for timers");
    if (wait->timeout_ms < 0 || wait->timeout_ms > DELAY_MS_MAX)
        return err_set(d->err, ERR_BAD_REQUEST, "timeout_ms must be from 0 to %lld, not %lld",
                       (long long)DELAY_MS_MAX, (long long)wait->timeout_ms);
    return ERR_OK;
}

/* Leaves choices and default answer as they are kept. */
static enum error_code check_wait(struct decider *d, struct wait_request *wait)
{
    if (wait->type < WAIT_WEBHOOK || wait->type > WAIT_SIGNAL)
        return err_set(d->err, ERR_BAD_REQUEST, "type must be webhook, human, timer or signal");
    enum error_code code =
        wait->type == WAIT_TIMER ? check_timer(d, wait) : check_signal_wait(d, wait);
    if (code == ERR_OK)
        code = decider_name(d, "correlation_key", wait->correlation_key);
    if (code == ERR_OK)
        code = decider_name(d, "assignee", wait->assignee);
    if (code == ERR_OK)
        code = decider_text(d, "prompt", wait->prompt);
    if (code == ERR_OK)
        code = decider_json(d, "choices", wait->choices, &wait->choices);
    if (code == ERR_OK)
        code = decider_json(d, "default_answer", wait->default_answer, &wait->default_answer);
    if (code == ERR_OK && str_is_set(wait->choices))
        code = choices_check(wait->choices, wait->default_answer, d->context->arena, d->err);
    return code;
}

static enum error_code block(struct decider *d, const struct wait_request *wait, int64_t until)
{
    struct event *event = decider_add(d, EVENT_JOB_WAITING);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.wait_type = wait->type;
    event->data.correlation_key = wait->correlation_key;
    event->data.until = until;
    event->data.prompt = wait->prompt;
    event->data.choices = wait->choices;
    event->data.assignee = wait->assignee;
    event->data.default_answer = wait->default_answer;
    event->data.parked = wait->park || (until > 0 && until - d->now > PARK_AFTER_MS);
    decider_carry_beats(d, &event->data);
    return decider_fold(d);
}

enum error_code decider_wait(struct decider *d, const struct wait_request *asked)
{
    struct wait_request request = *asked;
    const struct wait_request *wait = &request;
    enum error_code code = check_wait(d, &request);
    if (code == ERR_OK)
        code = decider_allows(d, EVENT_JOB_WAITING, "wait in");
    if (code == ERR_OK)
        code = decider_no_open_effect(d, "wait");
    if (code != ERR_OK)
        return code;
    if (d->job->cancel_requested)
        return decider_job_cancelled(d, CANCEL_SOFT, d->job->cancel_reason);

    /* A signal that came early is taken at once: the job does not block. */
    const struct signal *stored =
        decider_stored_signal(d, wait->type, wait->correlation_key, wait->choices);
    if (stored != NULL)
        return decider_end_wait(d, &(struct reply){.outcome = OUTCOME_SIGNAL,
                                                   .correlation_key = stored->correlation_key,
                                                   .payload = stored->payload,
                                                   .choices = wait->choices,
                                                   .signal_id = stored->signal_id,
                                                   .signal_version = stored->version});
    int64_t until = wait->until;
    if (wait->delay_ms > 0 || wait->timeout_ms > 0)
        until = d->now + wait->delay_ms + wait->timeout_ms;
    if (wait->type == WAIT_TIMER && until <= d->now)
        return decider_end_wait(d, &(struct reply){.outcome = OUTCOME_TIMEOUT,
                                                   .correlation_key = wait->correlation_key});
    return block(d, wait, until);
}

enum error_code decide_wait(struct decider *d)
{
    return decider_wait(d, &d->command->wait);
}

enum error_code decide_wake(struct decider *d)
{
    const struct wait *wait = &d->job->wait;
    if (wait->type == WAIT_NONE && job_has_plan(d->job))
        return decider_start_ready_waits(d);
    if (wait->type == WAIT_NONE)
        return decider_refuse(d, "wake");
    if (wait->until == 0)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the wait of this job has no timeout");
    if (wait->until > d->now)
        return err_set(d->err, ERR_INVALID_TRANSITION, "the wait of this job times out in %lld ms",
                       (long long)(wait->until - d->now));
    struct reply reply = {.outcome = OUTCOME_TIMEOUT,
                          .correlation_key = wait->correlation_key,
                          .payload = wait->default_answer};
    return decider_end_wait(d, &reply);
}

/* The step that asks for the key, among those loaded. A timer asks nobody, and a plan that is about
 * to be replaced has no use for answers. */
static struct step *asking_step(const struct decider *d, struct str key)
{
    const struct job_slice *slice = &d->out->after;
    for (uint32_t i = 0; i < slice->step_count && !d->job->replan; i++) {
        struct step *step = &slice->steps[i];
        if (step_standing(step) == STANDING_ASKING && str_eq(step->question.correlation_key, key))
            return step;
    }
    return NULL;
}

/* Whether the signal was received before: by its id, or, without one, as the same payload that its
 * key got last. */
static bool is_repeat(const struct decider *d, struct str key, struct str signal_id,
                      struct str payload)
{
    const struct job_slice *slice = &d->out->after;
    const struct signal *last = NULL;
    for (uint32_t i = 0; i < slice->signal_count; i++) {
        const struct signal *signal = &slice->signals[i];
        if (str_is_set(signal_id) && str_eq(signal->signal_id, signal_id))
            return true;
        if (str_eq(signal->correlation_key, key))
            last = signal;
    }
    bool open = (d->job->wait.type != WAIT_NONE && str_eq(d->job->wait.correlation_key, key)) ||
                asking_step(d, key) != NULL;
    return !str_is_set(signal_id) && !open && last != NULL && last->delivered &&
           str_eq(last->payload, payload);
}

static enum error_code store_signal(struct decider *d, struct str payload)
{
    if (d->job->stored_signals >= STORED_SIGNALS_MAX)
        return err_set(d->err, ERR_RATE_LIMITED,
                       "%d undelivered signals are already stored for this job",
                       STORED_SIGNALS_MAX);
    struct event *event = decider_add(d, EVENT_SIGNAL_RECEIVED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.correlation_key = d->command->signal.correlation_key;
    event->data.payload = payload;
    event->data.signal_id = d->command->signal.signal_id;
    d->out->result.signal = SIGNAL_STORED;
    return decider_fold(d);
}

static enum error_code wrong_key(struct decider *d, struct str key)
{
    const struct wait *wait = &d->job->wait;
    if (decider_blind(d))
        return err_set(
            d->err, ERR_WRONG_CORRELATION_KEY,
            "the job does not wait for the key \"%.*s\"; use early: true to store the signal",
            STR_ARG(key));
    if (!str_is_set(wait->correlation_key))
        return err_set(
            d->err, ERR_WRONG_CORRELATION_KEY,
            "the job waits for %s, not for \"%.*s\"; use early: true to store the signal",
            wait->type == WAIT_REPLAN  ? "a new plan"
            : wait->type == WAIT_TIMER ? "a timer"
                                       : "its steps",
            STR_ARG(key));
    return err_set(
        d->err, ERR_WRONG_CORRELATION_KEY,
        "the job waits for the key \"%.*s\", not \"%.*s\"; use early: true to store the signal",
        STR_ARG(wait->correlation_key), STR_ARG(key));
}

/* Signals are delivered in the order in which they came: with an older one still stored that the
 * step can take, the new one is stored after it. */
static enum error_code answer_step(struct decider *d, struct str payload)
{
    struct str key = d->command->signal.correlation_key;
    const struct wait *question = &d->step->question;
    const struct signal *stored = decider_stored_signal(d, question->type, key, question->choices);
    if (stored == NULL)
        return decider_step_answer(d, &(struct reply){.outcome = OUTCOME_SIGNAL,
                                                      .payload = payload,
                                                      .by = d->command->actor,
                                                      .signal_id = d->command->signal.signal_id});
    struct reply older = decider_stored_reply(stored);
    enum error_code code = store_signal(d, payload);
    return code == ERR_OK ? decider_step_answer(d, &older) : code;
}

/* A signal that ends a question to a person is an answer. */
static enum error_code check_answers(struct decider *d, enum wait_type type)
{
    if (type != WAIT_HUMAN || !d->command->no_answer)
        return ERR_OK;
    return err_set(
        d->err, ERR_FORBIDDEN,
        "the signal would answer a question, which requires a token with the scope answer");
}

enum error_code decide_signal(struct decider *d)
{
    struct str key = d->command->signal.correlation_key;
    struct str signal_id = d->command->signal.signal_id;
    struct str payload;
    enum error_code code = record_check_name(key, "correlation_key", d->err);
    if (code == ERR_OK)
        code = decider_name(d, "signal_id", signal_id);
    if (code == ERR_OK)
        code = decider_json(d, "payload", d->command->signal.payload, &payload);
    if (code != ERR_OK)
        return code;
    if (is_repeat(d, key, signal_id, payload)) {
        d->out->result.repeated = true;
        d->out->result.signal = SIGNAL_REPEATED;
        return ERR_OK;
    }
    if (job_status_terminal(d->job->status))
        return decider_refuse(d, "signal");

    const struct wait *wait = &d->job->wait;
    bool blocked = wait->type != WAIT_NONE;
    d->out->result.signal = SIGNAL_DELIVERED;
    if (blocked && str_eq(wait->correlation_key, key)) {
        bool person = wait->type == WAIT_HUMAN;
        struct reply reply = {.outcome = OUTCOME_SIGNAL,
                              .correlation_key = key,
                              .payload = payload,
                              .by = person ? decider_actor(d) : (struct str){NULL, 0},
                              .signal_id = signal_id};
        code = check_answers(d, wait->type);
        return code == ERR_OK ? decider_end_wait(d, &reply) : code;
    }
    d->step = asking_step(d, key);
    if (d->step != NULL) {
        code = check_answers(d, d->step->question.type);
        return code == ERR_OK ? answer_step(d, payload) : code;
    }
    if (blocked && !d->command->signal.early)
        return wrong_key(d, key);
    return store_signal(d, payload);
}
