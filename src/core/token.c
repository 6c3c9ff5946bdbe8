#include "core/token.h"

#include <assert.h>

#include "base/buf.h"
#include "base/record.h"
#include "core/decider.h"

enum { SECRET_DIGITS = 2 * TOKEN_SECRET_LEN };

/* Text being read: each take_ function moves past what it read, or returns false. */
struct reader {
    const char *at;
    const char *end;
};

size_t token_format(const struct token *token, char ret[TOKEN_TEXT_MAX])
{
    assert(token != NULL);
    assert(token->attempt >= 0);
    /* The longest token has 96 characters, so the buffer never asks for an arena. */
    struct buf buf = {.cap = TOKEN_TEXT_MAX};
    buf.at = ret;
    buf_add_hex(&buf, token->job.bytes, sizeof token->job.bytes);
    buf_add_char(&buf, '.');
    if (token->of_step) {
        buf_add_int(&buf, token->step);
        buf_add_char(&buf, '.');
    }
    buf_add_int(&buf, token->attempt);
    buf_add_char(&buf, '.');
    buf_add_hex(&buf, token->secret, sizeof token->secret);
    assert(!buf.failed);
    return buf.len;
}

static bool take_dot(struct reader *reader)
{
    if (reader->at == reader->end || *reader->at != '.')
        return false;
    reader->at++;
    return true;
}

static bool take_hex(struct reader *reader, uint8_t *ret, size_t size)
{
    if ((size_t)(reader->end - reader->at) < size * 2 ||
        !record_hex((struct str){reader->at, size * 2}, ret, size))
        return false;
    reader->at += size * 2;
    return true;
}

/* A number as buf_add_int writes it: no sign, no zeros in front. */
static bool take_number(struct reader *reader, int64_t max, int64_t *ret)
{
    const char *first = reader->at;
    int64_t number = 0;
    for (; reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9'; reader->at++) {
        int64_t digit = *reader->at - '0';
        if (number > (max - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (reader->at == first || (*first == '0' && reader->at - first > 1))
        return false;
    *ret = number;
    return true;
}

bool token_parse(struct str text, struct token *ret)
{
    assert(ret != NULL);
    if (text.len == 0)
        return false;
    struct reader reader = {text.at, text.at + text.len};
    struct token token = {.of_step = false};
    int64_t number;
    if (!take_hex(&reader, token.job.bytes, sizeof token.job.bytes) || !take_dot(&reader) ||
        !take_number(&reader, INT64_MAX, &number) || !take_dot(&reader))
        return false;
    /* After the first number comes the secret, or else a second number. What is left tells which.
     */
    token.of_step = (size_t)(reader.end - reader.at) != SECRET_DIGITS;
    token.attempt = number;
    if (token.of_step) {
        if (number > UINT32_MAX || !take_number(&reader, INT64_MAX, &token.attempt) ||
            !take_dot(&reader))
            return false;
        token.step = (uint32_t)number;
    }
    if (!take_hex(&reader, token.secret, sizeof token.secret) || reader.at != reader.end)
        return false;
    *ret = token;
    return true;
}

void token_hash(struct str text, uint8_t ret[TOKEN_HASH_LEN])
{
    uint8_t hash[HASH_LEN];
    hash_sha256(&text, 1, hash);
    memcpy(ret, hash, TOKEN_HASH_LEN);
}

bool token_is_live(const struct job_slice *slice, struct str text, const struct step **ret_step)
{
    struct token token;
    uint8_t hash[TOKEN_HASH_LEN];
    const struct lease *lease = &slice->job.lease;
    int64_t attempt = slice->job.attempt;
    *ret_step = NULL;
    if (!token_parse(text, &token) || !uuid_eq(token.job, slice->job.id) ||
        job_status_terminal(slice->job.status))
        return false;
    if (token.of_step) {
        *ret_step = job_step_at(slice, token.step);
        if (*ret_step == NULL)
            return false;
        lease = &(*ret_step)->lease;
        attempt = (*ret_step)->attempt;
    }
    token_hash(text, hash);
    return lease->live && token.attempt == attempt &&
           hash_eq(hash, lease->token_hash, TOKEN_HASH_LEN);
}

/* ---- stale tokens: whether a command's token is that of a live lease ---- */

/* A caller with a token that is not live may never have held the lease: the step, which the token
 * has as a number, is named to readers only. */
static enum error_code stale(struct decider *d, const char *why)
{
    char id[UUID_TEXT_LEN];
    struct str step = d->command->blind ? (struct str){NULL, 0} : d->cause.step;
    uuid_format(d->job->id, id);
    return err_set(d->err, ERR_STALE_LEASE,
                   "the token of attempt %lld of job %.*s%s%.*s is not live: %s",
                   (long long)d->cause.attempt, UUID_TEXT_LEN, id,
                   str_is_set(step) ? ", step " : "", STR_ARG(step), why);
}

/* The lease that the token names, with d->step set for a step's. NULL: there is no such thing. */
static const struct lease *token_lease(struct decider *d, const struct token *token,
                                       int64_t *ret_attempt)
{
    if (!token->of_step) {
        *ret_attempt = d->job->attempt;
        return &d->job->lease;
    }
    d->step = job_step_at(&d->out->after, token->step);
    if (d->step == NULL)
        return NULL;
    d->cause.step = d->step->spec.id;
    *ret_attempt = d->step->attempt;
    return &d->step->lease;
}

static enum error_code same_result(struct decider *d, struct str raw, bool *ret)
{
    struct str result;
    enum error_code code = decider_json(d, "result", raw, &result);
    *ret = code == ERR_OK && str_eq(result, d->step != NULL ? d->step->result : d->job->result);
    return code;
}

static bool same_wait(const struct job *job, const struct wait_request *wait)
{
    return str_eq(wait->correlation_key, job->wait.type != WAIT_NONE ? job->wait.correlation_key
                                                                     : job->resume.correlation_key);
}

/* A commit ends a lease by what follows it: a wait, the end, or a begin that finds doubt. */
static enum error_code same_commit(struct decider *d, bool *ret)
{
    const struct effect_end *said = &d->command->effect_commit;
    *ret = decider_commits_again(d) && said->then != THEN_NONE;
    if (*ret && said->then == THEN_COMPLETE)
        return same_result(d, said->complete_result, ret);
    if (*ret && said->then == THEN_WAIT)
        *ret = same_wait(d->job, &said->wait);
    return ERR_OK;
}

/* Whether the command asks for what was done when it ended the lease. */
static enum error_code same_request(struct decider *d, bool *ret)
{
    const struct command *command = d->command;
    const struct job *job = d->job;
    struct str said;
    enum error_code code = ERR_OK;
    *ret = true;
    switch (command->type) {
    case COMMAND_COMPLETE:
        code = same_result(d, command->complete.result, ret);
        break;
    case COMMAND_EFFECT_COMMIT:
        code = same_commit(d, ret);
        break;
    case COMMAND_FAIL:
        code = decider_error_json(d, &command->fail, &said);
        *ret = code == ERR_OK && (job->cancel_requested ||
                                  str_eq(said, d->step != NULL ? d->step->error : job->error));
        break;
    case COMMAND_WAIT:
        *ret = same_wait(job, &command->wait);
        break;
    case COMMAND_ABANDON:
        *ret = command->dead_letter.reason_code == job->dead_letter.reason_code;
        break;
    case COMMAND_VERDICT:
        *ret = command->verdict.decision == (d->step->held ? VERDICT_ACCEPT : d->step->verdict);
        break;
    default:
        break;
    }
    return code;
}

/* A lease that this very command ended: its holder did not hear the answer. */
static enum error_code repeated(struct decider *d)
{
    bool same;
    enum error_code code = same_request(d, &same);
    if (code != ERR_OK)
        return code;
    if (!same)
        return stale(d, "it already ended with a different outcome");
    d->out->result.repeated = true;
    bool began =
        d->command->type == COMMAND_EFFECT_BEGIN ||
        (d->command->type == COMMAND_EFFECT_COMMIT && d->command->effect_commit.then == THEN_BEGIN);
    if (began)
        d->out->result.effect = EFFECT_IN_DOUBT; /* no other begin ends a lease */
    return ERR_OK;
}

enum error_code decider_token(struct decider *d)
{
    struct token token;
    if (!token_parse(d->command->token, &token) || !uuid_eq(token.job, d->job->id))
        return err_set(d->err, ERR_STALE_LEASE, "the token does not belong to a lease of this job");
    int64_t attempt = 0;
    const struct lease *lease = token_lease(d, &token, &attempt);
    d->cause.attempt = token.attempt;
    if (lease == NULL)
        return stale(d, "the plan does not have this step");
    if (str_is_set(d->command->step) && !str_eq(d->command->step, d->cause.step))
        return stale(d, "it belongs to another step");
    if (token.attempt != attempt)
        return stale(d, "there is a newer attempt");

    uint8_t hash[TOKEN_HASH_LEN];
    token_hash(d->command->token, hash);
    if (!hash_eq(hash, lease->token_hash, TOKEN_HASH_LEN))
        return stale(d, "its secret does not match");
    if (!lease->live && lease->ended_by == d->command->type)
        return repeated(d);
    if (!lease->live || job_status_terminal(d->job->status))
        return stale(d, "the lease has ended");
    if (d->now >= lease_ends_at(lease, d->context))
        return stale(d, "the lease has expired");
    return ERR_OK;
}
