/* Answers of HTTP/1.x, in one piece and byte by byte: what they say, and where they end. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/http_answer.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { HEAD_MAX = 1000, BODY_MAX = 20 };

struct read {
    struct http_answer answer;
    size_t left; /* bytes that were not taken */
    char body[64];
};

/* Reads `text` in pieces of `piece` bytes, and keeps what is not taken, as a connection does. */
static void read_in(const char *text, size_t piece, struct read *ret)
{
    struct arena arena;
    struct buf body;
    char kept[HEAD_MAX + 100];
    size_t kept_len = 0;
    *ret = (struct read){.answer = {.head_left = HEAD_MAX, .body_left = BODY_MAX}};
    arena_init(&arena);
    buf_init(&body, &arena, 16);
    for (size_t at = 0, len = strlen(text); at < len && ret->answer.stage < ANSWER_OVER;) {
        size_t more = len - at < piece ? len - at : piece;
        assert_true(kept_len + more <= sizeof kept);
        memcpy(kept + kept_len, text + at, more);
        kept_len += more;
        at += more;
        size_t taken = http_answer_take(&ret->answer, (struct str){kept, kept_len}, &body);
        kept_len -= taken;
        memmove(kept, kept + taken, kept_len);
        ret->left = kept_len + (len - at);
    }
    assert_true(body.len < sizeof ret->body);
    memcpy(ret->body, body.at, body.len);
    arena_release(&arena);
}

/* An answer, and what is to be read from it. */
struct sample {
    const char *text;
    enum answer_stage stage;
    long status;
    const char *body;
    bool keeps;
};

static void check(const struct sample *samples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sample *sample = &samples[i];
        for (size_t piece = 1; piece <= strlen(sample->text); piece++) {
            struct read got;
            read_in(sample->text, piece, &got);
            if (got.answer.stage != sample->stage)
                fail_msg("sample %zu in pieces of %zu: stage %d", i, piece, got.answer.stage);
            if (sample->body == NULL)
                continue;
            assert_int_equal(got.answer.status, sample->status);
            assert_string_equal(got.body, sample->body);
            assert_int_equal(got.answer.keeps, sample->keeps);
            assert_int_equal(got.left, 0);
        }
    }
}

static void an_answer_ends_where_its_headers_say(void **state)
{
    static const struct sample samples[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ANSWER_OVER, 200, "{}", true},
        {"HTTP/1.1 201\ncontent-length:2\n\n{}", ANSWER_OVER, 201, "{}", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ANSWER_OVER, 200, "", true},
        {"HTTP/1.1 204 No\r\nX: y\r\n\r\n", ANSWER_OVER, 204, "", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\nA;x=1\r\n0123456789\r\n"
         "0\r\nTrailer: t\r\n\r\n",
         ANSWER_OVER, 200, "{0123456789", true},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\nx", ANSWER_OVER,
         503, "x", true},
        {"HTTP/1.1 200 OK\r\n\r\n{\"a\":1}", ANSWER_REST, 200, "{\"a\":1}", false},
    };
    (void)state;
    check(samples, COUNT(samples));
}

static void a_connection_is_kept_when_the_answer_lets_us(void **state)
{
    static const struct sample samples[] = {
        {"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\n1", ANSWER_OVER, 200,
         "1", false},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n1", ANSWER_OVER, 200, "1", false},
        {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\n1", ANSWER_OVER,
         200, "1", true},
        /* Somebody in between may have gone by the other length. */
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\n1\r\n0\r\n"
         "\r\n",
         ANSWER_OVER, 200, "1", false},
    };
    (void)state;
    check(samples, COUNT(samples));
}

static void what_is_no_answer_of_http_is_broken(void **state)
{
    static const struct sample samples[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/2 200 OK, but not so\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 20 OK\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 2000 OK\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 101 Switching\r\n\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 200 OK\r\nno colon\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 200 OK\r\nA: b\r\n folded: c\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n", ANSWER_BROKEN, 0, NULL,
         false},
        {"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", ANSWER_BROKEN, 0, NULL, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ANSWER_BROKEN, 0, NULL,
         false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", ANSWER_BROKEN, 0, NULL,
         false},
    };
    (void)state;
    check(samples, COUNT(samples));
}

static void what_is_longer_than_allowed_is_not_taken(void **state)
{
    static const struct sample samples[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n", ANSWER_TOO_LARGE, 0, NULL, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n", ANSWER_TOO_LARGE, 0, NULL,
         false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", ANSWER_BROKEN,
         0, NULL, false},
        {"HTTP/1.1 200 OK\r\n\r\n012345678901234567890", ANSWER_TOO_LARGE, 0, NULL, false},
    };
    char line[HEAD_MAX + 20];
    struct read got;
    (void)state;
    check(samples, COUNT(samples));
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    read_in(line, 50, &got);
    assert_int_equal(got.answer.stage, ANSWER_TOO_LARGE);
}

static void what_an_answer_says_besides_is_read(void **state)
{
    struct read got;
    (void)state;
    read_in("HTTP/1.1 429 X\r\nContent-Type: Application/Problem+JSON; a=b\r\nRetry-After: 7\r\n"
            "Content-Length: 0\r\n\r\n",
            1000, &got);
    assert_true(got.answer.is_problem);
    assert_int_equal(got.answer.retry_after_ms, 7000);
    read_in("HTTP/1.1 503 X\r\nRetry-After: Fri, 31 Dec 2066 23:59:59 GMT\r\n\r\n", 1000, &got);
    assert_false(got.answer.is_problem);
    assert_true(got.answer.retry_after_ms > 1000 * INT64_C(1000000000));
    read_in("HTTP/1.1 503 X\r\nRetry-After: soon\r\n\r\n", 1000, &got);
    assert_int_equal(got.answer.retry_after_ms, 0);
}

static void an_answer_is_whole_or_cut_when_the_connection_ends(void **state)
{
    static const struct {
        const char *text;
        bool whole;
    } samples[] = {
        {"", false},
        {"HTTP/1.1 200 OK\r\n", false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", false},
        {"HTTP/1.1 200 OK\r\n\r\n{}", true},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(samples); i++) {
        struct read got;
        read_in(samples[i].text, 1000, &got);
        assert_int_equal(http_answer_end(&got.answer), samples[i].whole);
    }
}

static void what_is_behind_an_answer_is_left_there(void **state)
{
    struct read got;
    (void)state;
    read_in("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP", 1000, &got);
    assert_int_equal(got.answer.stage, ANSWER_OVER);
    assert_int_equal(got.left, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_ends_where_its_headers_say),
        cmocka_unit_test(a_connection_is_kept_when_the_answer_lets_us),
        cmocka_unit_test(what_is_no_answer_of_http_is_broken),
        cmocka_unit_test(what_is_longer_than_allowed_is_not_taken),
        cmocka_unit_test(what_an_answer_says_besides_is_read),
        cmocka_unit_test(an_answer_is_whole_or_cut_when_the_connection_ends),
        cmocka_unit_test(what_is_behind_an_answer_is_left_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
