/* Effects: what a worker does to the world, at most once for each key however often the job is
 * replayed. */
#include <assert.h>

#include "base/json.h"
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
    if (open == 0)
        return ERR_OK;
    if (decider_blind(d))
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "cannot %s while an effect is open: commit, abort or begin it again first",
                       verb);
    const struct job_slice *slice = &d->out->after;
    struct str key = STR("(not loaded)");
    for (uint32_t i = 0; i < slice->effect_count; i++) {
        const struct effect *effect = &slice->effects[i];
        if (effect_is_open(effect) && effect->version > d->job->effects_from &&
            str_eq(effect->step, step_id(d)))
            key = effect->key;
    }
    return err_set(
        d->err, ERR_INVALID_TRANSITION,
        "cannot %s while the effect \"%.*s\" is open: commit, abort or begin it again first", verb,
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

struct str effect_idempotency_key(const struct job *job, struct str step, struct str key,
                                  struct arena *arena)
{
    char id[UUID_TEXT_LEN];
    struct buf buf;
    uuid_format(job->id, id);
    buf_init(&buf, arena, UUID_TEXT_LEN + key.len + step.len + 24);
    buf_add(&buf, (struct str){id, UUID_TEXT_LEN});
    buf_add_char(&buf, '/');
    buf_add_int(&buf, job->effects_from);
    buf_add_char(&buf, '/');
    if (str_is_set(step)) {
        add_escaped(&buf, step);
        buf_add_char(&buf, '/');
    }
    add_escaped(&buf, key);
    return buf.failed ? (struct str){NULL, 0} : buf_str(&buf);
}

/* The effect of the job or step that has the key, since the last fresh start; NULL: none. */
static enum error_code find_effect(struct decider *d, struct str key, const struct effect **ret)
{
    struct str name = effect_name(step_id(d), key, d->context->arena);
    if (!str_is_set(name))
        return decider_no_memory(d);
    *ret = job_effect(&d->out->after, name);
    return ERR_OK;
}

/* The call as it is kept: its input without white space around it, its fingerprint in lower case.
 */
static enum error_code check_call(struct decider *d, const struct effect_call *raw,
                                  struct effect_call *ret)
{
    enum error_code code = record_check_name(raw->key, "effect key", d->err);
    *ret = *raw;
    if (code == ERR_OK)
        code = decider_json(d, "input", raw->input, &ret->input);
    if (code == ERR_OK && str_is_set(raw->fingerprint))
        code = fingerprint_read(raw->fingerprint, d->context->arena, &ret->fingerprint, d->err);
    return code;
}

static void hash_input(struct str input, uint8_t ret[HASH_LEN])
{
    hash_sha256(&input, str_is_set(input) ? 1 : 0, ret);
}

/* Whether the effect was begun with this input: by the fingerprints where both have one, since an
 * input that is encrypted looks different every time. */
static bool same_input(const struct effect *effect, const struct effect_call *call)
{
    uint8_t hash[HASH_LEN];
    if (str_is_set(effect->fingerprint) && str_is_set(call->fingerprint))
        return str_eq(effect->fingerprint, call->fingerprint);
    /* Without an input there is nothing to tell it by but the fingerprint. */
    bool told = str_is_set(effect->fingerprint) || str_is_set(call->fingerprint);
    hash_input(call->input, hash);
    return memcmp(effect->input_hash, hash, INPUT_HASH_LEN) == 0 &&
           (!told || str_is_set(call->input));
}

static enum error_code call_tool(struct decider *d, const struct effect_call *call)
{
    uint8_t hash[HASH_LEN];
    struct event *event = decider_add(d, EVENT_TOOL_CALLED);
    if (event == NULL)
        return decider_no_memory(d);
    hash_input(call->input, hash);
    event->data.step = step_id(d);
    event->data.attempt = live_attempt(d);
    event->data.key = call->key;
    event->data.input = call->input;
    event->data.fingerprint = call->fingerprint;
    event->data.in_doubt = call->in_doubt;
    memcpy(event->data.input_hash, hash, INPUT_HASH_LEN);
    d->out->result.effect = EFFECT_EXECUTE;
    return decider_fold(d);
}

static enum error_code ask_about(struct decider *d, struct str key)
{
    struct buf prompt;
    buf_init(&prompt, d->context->arena, 256);
    buf_addf(&prompt,
             "Effect \"%.*s\" was started by an earlier attempt and never committed. It may or may "
             "not have happened. retry runs it again, done records it as done, fail fails the job.",
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
static enum error_code in_doubt(struct decider *d, const struct effect *effect,
                                const struct effect_call *call)
{
    enum doubt_policy policy = d->job->spec.in_doubt;
    if (effect->in_doubt != DOUBT_NONE)
        policy = effect->in_doubt;
    if (call->in_doubt != DOUBT_NONE)
        policy = call->in_doubt;
    bool resolved = effect->resolved_epoch == d->job->epoch;
    /* An operator who requeues a job that failed over this wants an end to it, not the same again.
     */
    if (policy == DOUBT_FAIL && effect->epoch < d->job->epoch)
        policy = DOUBT_ASK;
    if (resolved && effect->resolution == RESOLVE_RETRY)
        policy = DOUBT_RETRY;
    if (resolved && effect->resolution == RESOLVE_FAIL)
        policy = DOUBT_FAIL;
    if (policy == DOUBT_RETRY)
        return call_tool(d, call);
    d->out->result.effect = EFFECT_IN_DOUBT;
    if (policy == DOUBT_ASK)
        return ask_about(d, effect->key);

    struct buf message;
    buf_init(&message, d->context->arena, 128);
    buf_addf(&message,
             "effect \"%.*s\" is in doubt: attempt %lld started it and never committed it",
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

static enum error_code begin(struct decider *d, const struct effect_call *raw)
{
    struct effect_call call;
    const struct effect *effect = NULL;
    enum error_code code = check_call(d, raw, &call);
    if (code == ERR_OK)
        code = find_effect(d, call.key, &effect);
    if (code != ERR_OK)
        return code;
    d->out->result.effect_idempotency_key =
        effect_idempotency_key(d->job, step_id(d), call.key, d->context->arena);
    if (!str_is_set(d->out->result.effect_idempotency_key))
        return decider_no_memory(d);
    if (effect == NULL)
        return call_tool(d, &call);
    if (!same_input(effect, &call))
        return err_set(d->err, ERR_REPLAY_MISMATCH,
                       "effect \"%.*s\" was started with a different input by attempt %lld",
                       STR_ARG(call.key), (long long)effect->attempt);
    if (effect->returned) {
        d->out->result.effect = EFFECT_RECORDED;
        d->out->result.effect_result = effect->result;
        d->out->result.effect_error = effect->error;
        return ERR_OK;
    }
    /* What certainly did not happen is in no doubt, whichever attempt began it. */
    if (effect->aborted)
        return call_tool(d, &call);
    if (effect->attempt == live_attempt(d)) {
        d->out->result.effect = EFFECT_EXECUTE;
        return ERR_OK;
    }
    return in_doubt(d, effect, &call);
}

enum error_code decide_effect_begin(struct decider *d)
{
    enum error_code code = check_started(d, "begin an effect of");
    return code == ERR_OK ? begin(d, &d->command->effect_begin) : code;
}

/* The error of an effect, as a worker tells that of its work: an object with a message. */
static enum error_code check_error(struct decider *d, struct str raw, struct str *ret)
{
    enum error_code code = decider_json(d, "error", raw, ret);
    if (code != ERR_OK || !str_is_set(*ret))
        return code;
    if (json_type(*ret) != JSON_OBJECT ||
        json_type(json_member(*ret, STR("message"))) != JSON_STRING)
        return err_set(d->err, ERR_BAD_REQUEST, "error must be an object with a message, not %.*s",
                       STR_ARG(*ret));
    return ERR_OK;
}

/* The effect that a commit or abort is about. */
static enum error_code begun_effect(struct decider *d, struct str key, const struct effect **ret)
{
    enum error_code code = find_effect(d, key, ret);
    if (code == ERR_OK && *ret == NULL)
        code =
            err_set(d->err, ERR_NOT_FOUND, "unknown effect \"%.*s\": begin it first", STR_ARG(key));
    return code;
}

static enum error_code check_own(struct decider *d, const struct effect *effect)
{
    if (effect->attempt == live_attempt(d))
        return ERR_OK;
    return err_set(d->err, ERR_INVALID_TRANSITION,
                   "effect \"%.*s\" was started by attempt %lld: begin it again first",
                   STR_ARG(effect->key), (long long)effect->attempt);
}

static enum error_code end_effect(struct decider *d, enum event_type type, struct str key,
                                  struct str result, struct str error)
{
    struct event *event = decider_add(d, type);
    if (event == NULL)
        return decider_no_memory(d);
    event->data.step = step_id(d);
    event->data.key = key;
    event->data.result = result;
    event->data.error = error;
    return decider_fold(d);
}

static enum error_code commit(struct decider *d, struct str key, struct str result,
                              struct str error)
{
    const struct effect *effect = NULL;
    enum error_code code = begun_effect(d, key, &effect);
    if (code != ERR_OK)
        return code;
    if (effect->returned) {
        if (!str_eq(effect->result, result) || !str_eq(effect->error, error))
            return err_set(d->err, ERR_REPLAY_MISMATCH,
                           "effect \"%.*s\" was already committed with a different result",
                           STR_ARG(key));
        d->out->result.repeated = true;
        return ERR_OK;
    }
    if (effect->aborted)
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "effect \"%.*s\" was aborted: begin it again first", STR_ARG(key));
    code = check_own(d, effect);
    return code == ERR_OK ? end_effect(d, EVENT_TOOL_RETURNED, key, result, error) : code;
}

/* What a commit says, as it is kept. */
static enum error_code check_end(struct decider *d, struct str *ret_result, struct str *ret_error)
{
    const struct effect_end *said = &d->command->effect_commit;
    enum error_code code = record_check_name(said->key, "effect key", d->err);
    if (code == ERR_OK)
        code = decider_json(d, "result", said->result, ret_result);
    if (code == ERR_OK)
        code = check_error(d, said->error, ret_error);
    if (code == ERR_OK && str_is_set(*ret_result) && str_is_set(*ret_error))
        code = err_set(d->err, ERR_BAD_REQUEST,
                       "commit an effect with a result or an error, not both");
    return code;
}

bool decider_commits_again(struct decider *d)
{
    struct err quiet;
    struct err *err = d->err;
    struct str result;
    struct str error;
    const struct effect *effect = NULL;
    d->err = &quiet;
    bool again = check_end(d, &result, &error) == ERR_OK &&
                 begun_effect(d, d->command->effect_commit.key, &effect) == ERR_OK &&
                 effect->returned && str_eq(effect->result, result) && str_eq(effect->error, error);
    d->err = err;
    return again;
}

/* What follows the commit. */
static enum error_code go_on(struct decider *d)
{
    const struct effect_end *said = &d->command->effect_commit;
    switch (said->then) {
    case THEN_BEGIN:
        return begin(d, &said->begin);
    case THEN_WAIT:
        if (d->step != NULL)
            return err_set(d->err, ERR_INVALID_TRANSITION,
                           "a step cannot wait; ask a person with the verdict needs_user");
        return decider_wait(d, &said->wait);
    case THEN_COMPLETE:
        return d->step != NULL ? decider_step_complete(d, said->complete_result)
                               : decider_complete(d, said->complete_result);
    case THEN_NONE:
        break;
    }
    return ERR_OK;
}

enum error_code decide_effect_commit(struct decider *d)
{
    struct str result = {NULL, 0};
    struct str error = {NULL, 0};
    enum error_code code = check_started(d, "commit an effect of");
    if (code == ERR_OK)
        code = check_end(d, &result, &error);
    if (code == ERR_OK)
        code = commit(d, d->command->effect_commit.key, result, error);
    if (code == ERR_OK)
        code = go_on(d);
    d->out->result.repeated = d->out->result.repeated && d->out->count == 0;
    return code;
}

enum error_code decide_effect_abort(struct decider *d)
{
    struct str key = d->command->effect_abort.key;
    struct str error = {NULL, 0};
    const struct effect *effect = NULL;
    enum error_code code = check_started(d, "abort an effect of");
    if (code == ERR_OK)
        code = record_check_name(key, "effect key", d->err);
    if (code == ERR_OK)
        code = check_error(d, d->command->effect_abort.error, &error);
    if (code == ERR_OK && !str_is_set(error))
        code = err_set(d->err, ERR_BAD_REQUEST,
                       "error is required to abort an effect: the reason why it did not happen");
    if (code == ERR_OK)
        code = begun_effect(d, key, &effect);
    if (code != ERR_OK)
        return code;
    if (effect->returned)
        return err_set(d->err, ERR_INVALID_TRANSITION, "effect \"%.*s\" was already committed",
                       STR_ARG(key));
    if (effect->aborted && str_eq(effect->error, error)) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    if (effect->aborted)
        return err_set(d->err, ERR_REPLAY_MISMATCH,
                       "effect \"%.*s\" was already aborted with a different error", STR_ARG(key));
    code = check_own(d, effect);
    return code == ERR_OK ? end_effect(d, EVENT_TOOL_ABORTED, key, (struct str){NULL, 0}, error)
                          : code;
}
