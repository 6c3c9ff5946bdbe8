/* People's answers, to a job and to a step alike: what a question takes, and who said it.
 *
 * An answer is any JSON, with a name and a comment beside it. Where the question has choices it is
 * one of them, and nothing else: no other member can turn a "no" into something that reads as yes.
 * About an effect in doubt it is retry, done or fail, and done comes with the result. Signals that
 * end a wait of a person, or one with choices, follow the same rules, so that there is no way
 * around them. */
#include "base/json.h"
#include "core/decider.h"
#include "core/plan.h"

struct str decider_actor(const struct decider *d)
{
    return d->command->actor.len > 0 ? d->command->actor : (struct str){NULL, 0};
}

struct reply decider_stored_reply(const struct signal *stored)
{
    return (struct reply){
        .outcome = OUTCOME_SIGNAL,
        .correlation_key = stored->correlation_key,
        .payload = stored->payload,
        .by = STR("pawl"),
        .signal_id = stored->signal_id,
        .signal_version = stored->version,
    };
}

bool decider_fits(const struct decider *d, struct str choices, struct str payload)
{
    return !str_is_set(choices) || choices_have(choices, payload, d->context->arena);
}

/* ---- effects in doubt ---- */

/* A person's word on an effect in doubt, and the result that comes with it. */
struct word {
    struct str said; /* raw JSON */
    bool has_result;
    struct str result; /* raw JSON */
};

/* The word is the payload itself, or an object with it as "answer" (or "decision", as in 0.1.0) and
 * the "result". */
static enum error_code read_word(struct decider *d, const struct reply *reply, struct word *ret)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    *ret = (struct word){reply->payload, reply->has_result, reply->result};
    if (!json_object_begin(&iter, reply->payload))
        return ERR_OK;
    ret->said = (struct str){NULL, 0};
    while (json_object_next(&iter, &key, &value)) {
        if (json_key_is(key, STR("result"))) {
            ret->has_result = true;
            ret->result = value;
        } else if (!json_key_is(key, STR("answer")) && !json_key_is(key, STR("decision"))) {
            return err_set(d->err, ERR_UNKNOWN_FIELD, "unknown field %.*s", STR_ARG(key));
        } else if (str_is_set(ret->said)) {
            return err_set(d->err, ERR_BAD_REQUEST, "answer and decision exclude each other");
        } else {
            ret->said = value;
        }
    }
    return ERR_OK;
}

static enum error_code read_resolution(struct decider *d, const struct reply *reply,
                                       enum resolution *ret_resolution, struct str *ret_result)
{
    struct word word;
    struct str text;
    int resolution = 0;
    enum error_code code = read_word(d, reply, &word);
    if (code == ERR_OK && json_type(word.said) == JSON_STRING) {
        code = record_string(word.said, "answer", d->context->arena, &text, d->err);
        if (code == ERR_OK)
            resolution = record_enum(&resolution_names, text);
    }
    if (code != ERR_OK)
        return code;
    if (resolution == RESOLVE_NONE)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "the answer for an effect in doubt must be retry, done or fail, not %.*s",
                       STR_ARG(reply->payload));
    if (resolution == RESOLVE_DONE && !word.has_result)
        return err_set(d->err, ERR_BAD_REQUEST,
                       "result is required with done: it is recorded as the effect's result");
    if (resolution != RESOLVE_DONE && word.has_result)
        return err_set(d->err, ERR_BAD_REQUEST, "result is only for done, not for %.*s",
                       STR_ARG(resolution_names.at[resolution]));
    *ret_resolution = (enum resolution)resolution;
    return decider_json(d, "result", word.result, ret_result);
}

enum error_code decider_check_reply(struct decider *d, const struct wait *question,
                                    const struct reply *reply, enum resolution *ret_resolution,
                                    struct str *ret_result)
{
    *ret_resolution = RESOLVE_NONE;
    *ret_result = (struct str){NULL, 0};
    if (str_is_set(question->effect))
        return read_resolution(d, reply, ret_resolution, ret_result);
    if (reply->has_result)
        return err_set(d->err, ERR_BAD_REQUEST, "result is only for an effect in doubt");
    /* A stored signal was looked at before, and a default answer when the question was asked. */
    if (reply->outcome == OUTCOME_SIGNAL && reply->signal_version == 0 &&
        !decider_fits(d, question->choices, reply->payload))
        return err_set(d->err, ERR_BAD_REQUEST, "answer %.*s is not one of %.*s",
                       STR_ARG(str_is_set(reply->payload) ? reply->payload : STR("null")),
                       STR_ARG(decider_blind(d) ? STR("the choices") : question->choices));
    return ERR_OK;
}

/* ---- the command ---- */

/* What the command says, checked as far as that goes without the question. */
static enum error_code read_answer(struct decider *d, struct reply *ret)
{
    *ret = (struct reply){
        .outcome = OUTCOME_SIGNAL,
        .by = str_is_set(d->command->answer.by) ? d->command->answer.by : decider_actor(d),
        .comment = d->command->answer.comment,
        .has_result = d->command->answer.has_result,
    };
    enum error_code code = decider_json(d, "answer", d->command->answer.answer, &ret->payload);
    if (code == ERR_OK)
        code = decider_name(d, "by", ret->by);
    if (code == ERR_OK)
        code = decider_text(d, "comment", ret->comment);
    if (code == ERR_OK)
        code = decider_json(d, "result", d->command->answer.result, &ret->result);
    if (code == ERR_OK && !str_is_set(ret->payload))
        code = err_set(d->err, ERR_BAD_REQUEST, "answer is required");
    return code;
}

static enum error_code check_attempt(struct decider *d, const char *what, struct str name,
                                     int64_t attempt)
{
    if (!d->command->answer.has_attempt || d->command->answer.attempt == attempt)
        return ERR_OK;
    if (decider_blind(d))
        return err_set(d->err, ERR_VERSION_MISMATCH,
                       "the question of this %s has changed; attempt %lld is outdated", what,
                       (long long)d->command->answer.attempt);
    return err_set(d->err, ERR_VERSION_MISMATCH,
                   "the question of %s \"%.*s\" has changed: the current attempt is %lld, not %lld",
                   what, STR_ARG(name), (long long)attempt, (long long)d->command->answer.attempt);
}

/* Whether the job asks a person, and the question that is meant. */
static enum error_code check_job_asks(struct decider *d)
{
    const struct wait *wait = &d->job->wait;
    struct str key = d->command->answer.correlation_key;
    if (wait->type == WAIT_NONE || job_status_terminal(d->job->status))
        return decider_refuse(d, "answer");
    if (wait->type != WAIT_HUMAN && decider_blind(d))
        return err_set(d->err, ERR_INVALID_TRANSITION, "the job has no open question");
    if (wait->type == WAIT_STEPS)
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the open questions are those of its steps: answer a step by its id");
    if (wait->type != WAIT_HUMAN)
        return err_set(d->err, ERR_INVALID_TRANSITION,
                       "the job has no open question: it waits for a %.*s",
                       STR_ARG(wait_type_names.at[wait->type]));
    bool other = str_is_set(key) && !str_eq(key, wait->correlation_key);
    if (other && decider_blind(d))
        return err_set(d->err, ERR_WRONG_CORRELATION_KEY,
                       "the job has no open question with the key \"%.*s\"", STR_ARG(key));
    if (other)
        return err_set(d->err, ERR_WRONG_CORRELATION_KEY,
                       "the question of the job has the key \"%.*s\", not \"%.*s\"",
                       STR_ARG(wait->correlation_key), STR_ARG(key));
    return check_attempt(d, "job", d->job->spec.kind, d->job->attempt);
}

/* Whether the last wait ended with this very answer: the response to it was lost. */
static bool is_repeated(const struct decider *d, const struct reply *reply)
{
    const struct resume *resume = &d->job->resume;
    struct str key = d->command->answer.correlation_key;
    return d->job->wait.type == WAIT_NONE && resume->outcome == OUTCOME_SIGNAL &&
           !reply->has_result && str_eq(resume->payload, reply->payload) &&
           str_eq(resume->by, reply->by) && str_eq(resume->comment, reply->comment) &&
           (!str_is_set(key) || str_eq(key, resume->correlation_key));
}

enum error_code decide_job_answer(struct decider *d)
{
    struct reply reply;
    enum error_code code = read_answer(d, &reply);
    if (code == ERR_OK)
        code = decider_name(d, "correlation_key", d->command->answer.correlation_key);
    if (code != ERR_OK)
        return code;
    if (is_repeated(d, &reply)) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    code = check_job_asks(d);
    if (code != ERR_OK)
        return code;
    reply.correlation_key = d->job->wait.correlation_key;
    return decider_end_wait(d, &reply);
}

enum error_code decide_step_answer(struct decider *d)
{
    struct reply reply;
    enum error_code code = read_answer(d, &reply);
    if (code != ERR_OK)
        return code;
    const struct step *step = d->step;
    if (step->answered && !reply.has_result && str_eq(step->answer, reply.payload) &&
        str_eq(step->answered_by, reply.by) && str_eq(step->answer_comment, reply.comment)) {
        d->out->result.repeated = true;
        return ERR_OK;
    }
    code = decider_step_asks(d, "answer");
    if (code == ERR_OK && step->question.type == WAIT_TIMER)
        code = decider_refuse_step(d, "answer", ": it waits for a timer");
    if (code == ERR_OK)
        code = check_attempt(d, "step", step->spec.id, step->attempt);
    return code == ERR_OK ? decider_step_answer(d, &reply) : code;
}
