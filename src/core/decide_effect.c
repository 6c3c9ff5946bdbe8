/* Effects: what a worker does to the world, at most once for each key however often the job is
 * replayed. */
#include <assert.h>

#include "base/json.h"
#include "base/planted.h"
#include "core/decider.h"

static struct str step_id(const struct decider *d)
{
    return d->step != NULL ? d->step->spec.id : (struct str){NULL, 0};
}

static int64_t live_attempt(const struct decider *d)
{
    return d->step != NULL ? d->step->attempt : d->job->attempt;
}

enum error_code decider_no_open_effect(struct decider *d, const char *verb)
{
    int64_t open = d->step != NULL ? d->step->open_effects : d->job->open_effects;
    if (open == 0 || PLANTED(COMPLETE_WITH_OPEN_EFFECT))
        return ERR_OK;
    const struct job_slice *slice = &d->out->after;
    struct str key = STR("(not loaded)");
    for (uint32_t i = 0; i < slice->effect_count; i++) {
        const struct effect *effect = &slice->effects[i];
        if (!effect->returned && effect->version > d->job->effects_from &&
            str_eq(effect->step, step_id(d)))
            key = effect->key;
    }
    return err_set(
        d->err, ERR_INVALID_TRANSITION,
        "cannot %s while the effect \"%.*s\" is open: commit it, or begin it again, first", verb,
        STR_ARG(key));
}

/* Effects belong to work that has started. */
static enum error_code check_started(struct decider *d, const char *verb)
{
    if (d->step == NULL)
        return decider_allows(d, EVENT_JOB_COMPLETED, verb);
    if (d->step->state == STEP_RUNNING && !d->step->held)
        return ERR_OK;
    return err_set(d->err, ERR_INVALID_TRANSITION, "cannot %s step \"%.*s\": it is not running",
                   verb, STR_ARG(d->step->spec.id));
}

/* Names may contain what separates them, so that is written as %2F, and % as %25. */
static void add_escaped(struct buf *buf, struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == '/' || name.at[i] == '%')
            buf_add(buf, name.at[i] == '/' ? STR("%2F") : STR("%25"));
        else
            buf_add_char(buf, name.at[i]);
}

/* The same for every attempt of the same job and key, and new after a fresh start. */
static enum error_code idempotency_key(struct decider *d, struct str key, struct str *ret)
{
    char id[UUID_TEXT_LEN];
    struct buf buf;
    uuid_format(d->job->id, id);
    buf_init(&buf, d->context->arena, UUID_TEXT_LEN + key.len + step_id(d).len + 24);
    buf_add(&buf, (struct str){id, UUID_TEXT_LEN});
    buf_add_char(&buf, '/');
    buf_add_int(&buf, d->job->effects_from);
    buf_add_char(&buf, '/');
    if (d->step != NULL) {
        add_escaped(&buf, step_id(d));
        buf_add_char(&buf, '/');
    }
    add_escaped(&buf, key);
    if (buf.failed)
        return decider_no_memory(d);
    *ret = buf_str(&buf);
    return ERR_OK;
}

static enum error_code call_tool(struct decider *d, struct str key, struct str input,
                                 const uint8_t input_hash[INPUT_HASH_LEN])
{
    struct event *event = decider_add(d, EVENT_TOOL_CALLED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.step = step_id(d);
    event->data.attempt = live_attempt(d);
    event->data.key = key;
    event->data.input = input;
    memcpy(event->data.input_hash, input_hash, INPUT_HASH_LEN);
    d->out->answer.effect = EFFECT_EXECUTE;
    return decider_fold(d);
}

static enum error_code ask_about(struct decider *d, struct str key)
{
    struct buf prompt;
    buf_init(&prompt, d->context->arena, 256);
    buf_addf(&prompt,
             "Effect \"%.*s\" was begun by an earlier attempt and never committed. It may or may "
             "not have happened. retry runs it again, done records it as done, fail gives up.",
             STR_ARG(key));
    if (prompt.failed)
        return decider_no_memory(d);
    struct question question = {.prompt = buf_str(&prompt),
                                .choices = STR("[\"retry\",\"done\",\"fail\"]")};
    if (d->step != NULL)
        return decider_step_ask(d, &question, STR("effect_in_doubt"), VERDICT_NONE, key);
    if (d->job->cancel_requested)
        return decider_job_cancelled(d, CANCEL_SOFT, d->job->cancel_reason);

    struct event *event = decider_add(d, EVENT_JOB_WAITING);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.reason = STR("effect_in_doubt");
    event->data.wait_type = WAIT_HUMAN;
    event->data.correlation_key = key;
    event->data.prompt = question.prompt;
    event->data.choices = question.choices;
    event->data.effect = key;
    decider_carry_beats(d, &event->data);
    return decider_fold(d);
}

/* Begun by an earlier attempt and never committed: the policy, or a person's word, says what now.
 */
static enum error_code in_doubt(struct decider *d, const struct effect *effect, struct str input)
{
    enum doubt_policy policy = d->job->spec.in_doubt;
    bool resolved = effect->resolved_epoch == d->job->epoch;
    /* An operator who requeues a job that failed over this wants an end to it, not the same again.
     */
    if (policy == DOUBT_FAIL && effect->epoch < d->job->epoch)
        policy = DOUBT_ASK;
    if ((resolved && effect->resolution == RESOLVE_RETRY) || PLANTED(DOUBT_RERUN))
        policy = DOUBT_RETRY;
    if (resolved && effect->resolution == RESOLVE_FAIL)
        policy = DOUBT_FAIL;
    if (policy == DOUBT_RETRY)
        return call_tool(d, effect->key, input, effect->input_hash);
    d->out->answer.effect = EFFECT_IN_DOUBT;
    if (policy == DOUBT_ASK)
        return ask_about(d, effect->key);

    struct buf message;
    buf_init(&message, d->context->arena, 128);
    buf_addf(&message, "effect \"%.*s\" is in doubt: attempt %lld began it and never committed it",
             STR_ARG(effect->key), (long long)effect->attempt);
    if (message.failed)
        return decider_no_memory(d);
    struct failure failure = {
        .error_class = CLASS_PERMANENT, .message = buf_str(&message), .stage = STAGE_COMMIT};
    if (d->step == NULL)
        return decider_job_failure(d, STR("effect_in_doubt"), &failure);
    struct str error;
    enum error_code code = decider_error_json(d, &failure, &error);
    return code == ERR_OK ? decider_step_fatal(d, STR("effect_in_doubt"), error) : code;
}

static enum error_code begin(struct decider *d, struct str key, struct str raw_input)
{
    struct str input;
    struct str name;
    uint8_t hash[HASH_LEN];
    enum error_code code = record_check_name(key, "effect key", d->err);
    if (code == ERR_OK)
        code = decider_json(d, "input", raw_input, &input);
    if (code == ERR_OK)
        code = idempotency_key(d, key, &d->out->answer.effect_idempotency_key);
    if (code != ERR_OK)
        return code;
    name = effect_name(step_id(d), key, d->context->arena);
    if (!str_is_set(name))
        return decider_no_memory(d);
    hash_sha256(&input, str_is_set(input) ? 1 : 0, hash);

    const struct effect *effect = job_effect(&d->out->after, name);
    if (effect == NULL)
        return call_tool(d, key, input, hash);
    if (memcmp(effect->input_hash, hash, INPUT_HASH_LEN) != 0 && !PLANTED(REPLAY_MISMATCH_IGNORED))
        return err_set(d->err, ERR_REPLAY_MISMATCH,
                       "effect \"%.*s\" was begun with another input by attempt %lld", STR_ARG(key),
                       (long long)effect->attempt);
    if (effect->returned) {
        d->out->answer.effect = EFFECT_RECORDED;
        d->out->answer.effect_result = effect->result;
        return ERR_OK;
    }
    if (effect->attempt == live_attempt(d)) {
        d->out->answer.effect = EFFECT_EXECUTE;
        return ERR_OK;
    }
    return in_doubt(d, effect, input);
}

enum error_code decide_effect_begin(struct decider *d)
{
    enum error_code code = check_started(d, "begin an effect of");
    return code == ERR_OK ? begin(d, d->command->effect_begin.key, d->command->effect_begin.input)
                          : code;
}

static enum error_code commit(struct decider *d, struct str key, struct str result)
{
    struct str name = effect_name(step_id(d), key, d->context->arena);
    if (!str_is_set(name))
        return decider_no_memory(d);
    const struct effect *effect = job_effect(&d->out->after, name);
    if (effect == NULL)
        return err_set(d->err, ERR_NOT_FOUND, "no effect \"%.*s\" was begun", STR_ARG(key));
    if (effect->returned) {
        if (!str_eq(effect->result, result))
            return err_set(d->err, ERR_REPLAY_MISMATCH,
                           "effect \"%.*s\" was committed before, with another result",
                           STR_ARG(key));
        d->out->answer.repeated = true;
        return ERR_OK;
    }
    if (effect->attempt != live_attempt(d))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "effect \"%.*s\" was begun by attempt %lld: begin it again first",
                       STR_ARG(key), (long long)effect->attempt);
    struct event *event = decider_add(d, EVENT_TOOL_RETURNED);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.step = step_id(d);
    event->data.key = key;
    event->data.result = result;
    return decider_fold(d);
}

enum error_code decide_effect_commit(struct decider *d)
{
    struct str key = d->command->effect_commit.key;
    struct str result;
    enum error_code code = check_started(d, "commit an effect of");
    if (code == ERR_OK)
        code = record_check_name(key, "effect key", d->err);
    if (code == ERR_OK)
        code = decider_json(d, "result", d->command->effect_commit.result, &result);
    if (code == ERR_OK)
        code = commit(d, key, result);
    if (code == ERR_OK && str_is_set(d->command->effect_commit.next_key))
        code = begin(d, d->command->effect_commit.next_key, d->command->effect_commit.next_input);
    d->out->answer.repeated = d->out->answer.repeated && d->out->count == 0;
    return code;
}
