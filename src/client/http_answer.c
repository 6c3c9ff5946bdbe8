#include "client/http_answer.h"

#include <assert.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>

#include "base/json.h"

/* ---- lines ---- */

/* The next line without its end; false: its end is not here. */
static bool next_line(struct str bytes, struct str *ret_line, size_t *ret_taken)
{
    const char *end = bytes.len == 0 ? NULL : memchr(bytes.at, '\n', bytes.len);
    if (end == NULL)
        return false;
    size_t len = (size_t)(end - bytes.at);
    *ret_taken = len + 1;
    if (len > 0 && bytes.at[len - 1] == '\r')
        len--;
    *ret_line = (struct str){bytes.at, len};
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK" */
static enum answer_stage read_status(struct http_answer *answer, struct str line)
{
    const struct str version = STR("HTTP/1.");
    if (line.len < 12 || memcmp(line.at, version.at, version.len) != 0 || !is_digit(line.at[7]) ||
        line.at[8] != ' ' || !is_digit(line.at[9]) || !is_digit(line.at[10]) ||
        !is_digit(line.at[11]) || (line.len > 12 && line.at[12] != ' '))
        return ANSWER_BROKEN;
    *answer = (struct http_answer){
        .head_left = answer->head_left,
        .body_left = answer->body_left,
        .status = (line.at[9] - '0') * 100L + (line.at[10] - '0') * 10L + (line.at[11] - '0'),
        .keeps = line.at[7] != '0',
    };
    return ANSWER_HEADERS;
}

static bool is_named(struct str name, struct str wanted)
{
    return name.len == wanted.len && strncasecmp(name.at, wanted.at, name.len) == 0;
}

static bool read_length(struct http_answer *answer, struct str value)
{
    uint64_t length = 0;
    bool good = value.len > 0 && value.len < 19;
    for (size_t i = 0; i < value.len && good; i++) {
        good = is_digit(value.at[i]);
        length = length * 10 + (uint64_t)(value.at[i] - '0');
    }
    if (!good || (answer->has_length && answer->length != length))
        return false;
    answer->has_length = true;
    answer->length = length;
    return true;
}

/* Seconds, or a date. */
static int64_t read_retry_after(struct str value)
{
    char text[64];
    int64_t seconds = 0;
    if (value.len == 0 || value.len >= sizeof text)
        return 0;
    if (!json_int64(value, &seconds)) {
        memcpy(text, value.at, value.len);
        text[value.len] = '\0';
        time_t at = curl_getdate(text, NULL);
        seconds = at == -1 ? 0 : (int64_t)(at - time(NULL));
    }
    return seconds > 0 && seconds < INT32_MAX ? seconds * 1000 : 0;
}

/* Whether one of the words between commas is this one. */
static bool has_word(struct str list, struct str word)
{
    struct str one;
    while (str_take(&list, ',', &one))
        if (is_named(json_trim(one), word))
            return true;
    return false;
}

static enum answer_stage read_header(struct http_answer *answer, struct str line)
{
    const struct str problem = STR("application/problem+json");
    const char *colon = memchr(line.at, ':', line.len);
    if (colon == NULL || colon == line.at || line.at[0] == ' ' || line.at[0] == '\t' ||
        memchr(line.at, '\0', line.len) != NULL)
        return ANSWER_BROKEN;
    struct str name = {line.at, (size_t)(colon - line.at)};
    struct str value = json_trim((struct str){colon + 1, line.len - name.len - 1});
    bool good = true;
    if (is_named(name, STR("Content-Length"))) {
        good = read_length(answer, value);
    } else if (is_named(name, STR("Transfer-Encoding"))) {
        good = is_named(value, STR("chunked"));
        answer->is_chunked = true;
    } else if (is_named(name, STR("Content-Type"))) {
        answer->is_problem =
            value.len >= problem.len && strncasecmp(value.at, problem.at, problem.len) == 0;
    } else if (is_named(name, STR("Retry-After"))) {
        answer->retry_after_ms = read_retry_after(value);
    } else if (is_named(name, STR("Connection"))) {
        answer->keeps =
            !has_word(value, STR("close")) && (answer->keeps || has_word(value, STR("keep-alive")));
    }
    return good ? ANSWER_HEADERS : ANSWER_BROKEN;
}

/* All headers are here: where does the body end? */
static enum answer_stage end_head(struct http_answer *answer)
{
    /* Another answer follows: this one says only that it will. */
    if (answer->status < 200)
        return answer->status != 101 && answer->status >= 100 ? ANSWER_STATUS : ANSWER_BROKEN;
    if (answer->status == 204 || answer->status == 304)
        return ANSWER_OVER;
    if (answer->is_chunked) {
        /* A proxy in between may have gone by the length. */
        answer->keeps = answer->keeps && !answer->has_length;
        return ANSWER_CHUNK_SIZE;
    }
    if (!answer->has_length) {
        answer->keeps = false;
        return ANSWER_REST;
    }
    if (answer->length > answer->body_left)
        return ANSWER_TOO_LARGE;
    answer->left = answer->length;
    return answer->left > 0 ? ANSWER_BODY : ANSWER_OVER;
}

static int hex_of(char c)
{
    const char lower = (char)(c | 0x20);
    return is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* "1f;extension": the size of a chunk; 0: it was the last one. */
static enum answer_stage read_chunk_size(struct http_answer *answer, struct str line)
{
    uint64_t size = 0;
    size_t i = 0;
    while (i < line.len && i < 16 && hex_of(line.at[i]) >= 0)
        size = size * 16 + (uint64_t)hex_of(line.at[i++]);
    if (i == 0 || size > INT64_MAX || (i < line.len && strchr("; \t", line.at[i]) == NULL))
        return ANSWER_BROKEN;
    if (size > answer->body_left)
        return ANSWER_TOO_LARGE;
    answer->left = size;
    return size > 0 ? ANSWER_CHUNK : ANSWER_TRAILERS;
}

static enum answer_stage read_line(struct http_answer *answer, struct str line)
{
    switch (answer->stage) {
    case ANSWER_STATUS:
        return read_status(answer, line);
    case ANSWER_HEADERS:
        return line.len == 0 ? end_head(answer) : read_header(answer, line);
    case ANSWER_CHUNK_SIZE:
        return read_chunk_size(answer, line);
    case ANSWER_CHUNK_END:
        return line.len == 0 ? ANSWER_CHUNK_SIZE : ANSWER_BROKEN;
    case ANSWER_TRAILERS:
        return line.len == 0 ? ANSWER_OVER : ANSWER_TRAILERS;
    default:
        assert(false);
        return ANSWER_BROKEN;
    }
}

static size_t take_line(struct http_answer *answer, struct str bytes)
{
    struct str line;
    size_t taken = 0;
    bool whole = next_line(bytes, &line, &taken);
    if ((whole ? taken : bytes.len) > answer->head_left) {
        answer->stage = ANSWER_TOO_LARGE;
        return 0;
    }
    if (!whole)
        return 0;
    answer->head_left -= taken;
    answer->stage = read_line(answer, line);
    return taken;
}

/* ---- the body ---- */

static size_t take_body(struct http_answer *answer, struct str bytes, struct buf *body)
{
    size_t len = bytes.len;
    if (answer->stage != ANSWER_REST && len > answer->left)
        len = (size_t)answer->left;
    if (len > answer->body_left) {
        answer->stage = ANSWER_TOO_LARGE;
        return 0;
    }
    buf_add(body, (struct str){bytes.at, len});
    if (body->failed)
        answer->stage = ANSWER_NO_MEMORY;
    else
        http_answer_took(answer, len);
    return len;
}

void http_answer_took(struct http_answer *answer, size_t len)
{
    answer->body_left -= len;
    if (answer->stage == ANSWER_REST)
        return;
    answer->left -= len;
    if (answer->left == 0)
        answer->stage = answer->stage == ANSWER_CHUNK ? ANSWER_CHUNK_END : ANSWER_OVER;
}

size_t http_answer_take(struct http_answer *answer, struct str bytes, struct buf *body)
{
    size_t at = 0;
    size_t taken;
    do {
        struct str rest = {bytes.at + at, bytes.len - at};
        bool is_body = answer->stage == ANSWER_BODY || answer->stage == ANSWER_CHUNK ||
                       answer->stage == ANSWER_REST;
        if (rest.len == 0 || answer->stage >= ANSWER_OVER)
            break;
        taken = is_body ? take_body(answer, rest, body) : take_line(answer, rest);
        at += taken;
    } while (taken > 0);
    return at;
}

bool http_answer_end(struct http_answer *answer)
{
    if (answer->stage == ANSWER_REST)
        answer->stage = ANSWER_OVER;
    return answer->stage == ANSWER_OVER;
}
