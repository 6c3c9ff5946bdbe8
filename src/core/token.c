#include "core/token.h"

#include <assert.h>

#include "base/buf.h"
#include "base/record.h"

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
