/* What must be refused: each bad input gets a clear answer, and harms nobody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http_case.h"

static const char of_json[] = "Content-Type: application/json\r\n";

static struct reply *post(struct http_case *c, const char *body, size_t len)
{
    return http_with(c, "POST", "/v1/jobs", of_json, body, len);
}

static void refused(struct http_case *c, const char *body, const char *code)
{
    struct reply *reply = post(c, body, strlen(body));
    reply_refuses(reply, strcmp(code, "payload_too_large") == 0 ? 413 : 400, code);
}

static void json_that_is_none_is_refused(void **state)
{
    struct http_case *c = *state;
    refused(c, "{\"kind\":\"k\"", "bad_request");
    refused(c, "{\"kind\":\"k", "bad_request");
    refused(c, "{\"kind\":\"\xff\xfe\"}", "bad_request");
    refused(c, "{\"kind\":\"\\ud800\"}", "bad_request");
    refused(c, "{\"kind\":\"k\"} x", "bad_request");
    refused(c, "{\"kind\":\"k\",\"kind\":\"j\"}", "bad_request");
    refused(c, "[1,2]", "bad_request");
    refused(c, "\"text\"", "bad_request");
    refused(c, "null", "bad_request");
    refused(c, "", "bad_request");
    refused(c, "{,\"kind\":\"k\"}", "bad_request");
    static const char nul[] = "{\"kind\":\"a\0b\"}";
    reply_refuses(post(c, nul, sizeof nul - 1), 400, "bad_request");
    static const char after[] = "{\"kind\":\"a\"}\0";
    reply_refuses(post(c, after, sizeof after - 1), 400, "bad_request");
}

static void wrong_types_and_numbers_are_refused(void **state)
{
    struct http_case *c = *state;
    refused(c, "{\"kind\":7}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"priority\":\"high\"}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"priority\":\"1\"}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"priority\":1e400}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"priority\":99999999999999999999}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"labels\":[]}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"nonsense\":1}", "unknown_field");
    reply_refuses(http_call(c, "GET", "/v1/jobs?limit=0", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?limit=1e2", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?limit=", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?limit=5&limit=6", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?wat=1", NULL), 400, "unknown_field");
    reply_refuses(http_call(c, "GET", "/v1/jobs?kind=%ff", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?kind=%zz", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?kind=a%00b", NULL), 400, "bad_request");
    struct reply *reply = http_call(c, "POST", "/v1/jobs?kind=k", "{}");
    reply_refuses(reply, 400, "bad_request");
    assert_non_null(strstr(reply->body, "put \\\"kind\\\" into the body"));
    reply = http_call(c, "GET", "/v1/jobs?kind=a&kind=b", NULL);
    reply_refuses(reply, 400, "bad_request");
    assert_non_null(strstr(reply->body, "duplicate query parameter \\\"kind\\\""));
    assert_non_null(strstr(http_call(c, "GET", "/v1/jobs?wat=1", NULL)->body, "wat"));
    reply_refuses(http_call(c, "GET", "/v1/jobs?label=nonsense", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs?label=a:1&label=nonsense", NULL), 400,
                  "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/workers?label=a:1&label=b:2", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/feed?after=x", NULL), 400, "bad_request");
    refused(c, "{\"kind\":\"k\",\"delay_ms\":9223372036854775808}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"delay_ms\":-1}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"delay_ms\":1.5}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"run_at\":\"999999-01-01T00:00:00Z\"}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"retry\":{\"factor\":1e309}}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"retry\":{\"wat\":1}}", "unknown_field");
}

static void what_the_path_says_cannot_be_said_again(void **state)
{
    struct http_case *c = *state;
    reply_refuses(http_call(c, "POST", "/v1/queues/a/pause", "{\"queue\":\"b\"}"), 400,
                  "bad_request");
    reply_refuses(http_call(c, "POST", "/v1/queues/a/pause", "{\"que\\u0075e\":\"b\"}"), 400,
                  "bad_request");
}

static void deep_and_huge_bodies_are_refused(void **state)
{
    struct http_case *c = *state;
    enum { DEEP = 5000, HUGE_LEN = 9 * 1024 * 1024 };
    char *text = malloc(HUGE_LEN + 64);
    assert_non_null(text);
    int len = snprintf(text, 64, "{\"kind\":\"k\",\"payload\":");
    memset(text + len, '[', DEEP);
    memset(text + len + DEEP, ']', DEEP);
    text[len + 2 * DEEP] = '}';
    reply_refuses(post(c, text, (size_t)len + 2 * DEEP + 1), 400, "bad_request");
    memset(text, ' ', HUGE_LEN);
    /* It says so before it has read all of that. */
    reply_refuses(http_with(c, "POST", "/v1/jobs",
                            "Content-Type: application/json\r\nContent-Length: 9999999\r\n", NULL,
                            0),
                  413, "payload_too_large");
    len = snprintf(text, 64, "{\"kind\":\"k\",\"payload\":\"");
    memset(text + len, 'x', 1024 * 1024 + 1);
    len += 1024 * 1024 + 1;
    len += snprintf(text + len, 64, "\"}");
    reply_refuses(post(c, text, (size_t)len), 413, "payload_too_large");
    free(text);
}

static void a_chunked_body_that_is_too_large_is_refused(void **state)
{
    struct http_case *c = *state;
    enum { CHUNK = 64 * 1024, CHUNKS = 140 };
    static const char head[] = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
                               "\r\n";
    char *chunk = malloc(CHUNK + 16);
    assert_non_null(chunk);
    int len = snprintf(chunk, 16, "%x\r\n", CHUNK);
    memset(chunk + len, ' ', CHUNK);
    chunk[len + CHUNK] = '\r';
    chunk[len + CHUNK + 1] = '\n';
    int fd = http_connect(c->port);
    assert_true(http_send(fd, head, sizeof head - 1));
    for (int i = 0; i < CHUNKS; i++)
        if (!http_send(fd, chunk, (size_t)len + CHUNK + 2))
            break;
    (void)http_send(fd, "0\r\n\r\n", 5);
    size_t got;
    char *text = http_read(fd, 5000, &got);
    assert_non_null(strstr(text, " 413 "));
    assert_non_null(strstr(text, "payload_too_large"));
    free(text);
    free(chunk);
    (void)close(fd);
}

static void chunked_bodies_are_taken(void **state)
{
    struct http_case *c = *state;
    static const char request[] =
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\n{\"kin\r\n7\r\nd\":\"k\"}\r\n0\r\n\r\n";
    reply_is(http_raw(c, request, sizeof request - 1), 201);
}

#define HEAD "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

static void ambiguous_lengths_are_refused(void **state)
{
    struct http_case *c = *state;
    static const char *const requests[] = {
        HEAD "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"kind\":\"k\"}\r\n"
             "0\r\n\r\n",
        HEAD "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n\r\n0\r\n\r\n",
        HEAD "Content-Length: 12\r\nContent-Length: 12\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Content-Length: 12\r\nContent-Length: 2\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
        HEAD "Content-Length: x\r\n\r\n{}",
        HEAD "Content-Length: -2\r\n\r\n{}",
        HEAD "Content-Length: 99999999999999999999999999\r\n\r\n{}",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct reply *reply = http_raw(c, requests[i], strlen(requests[i]));
        if (reply->status != 400 && reply->status != 413)
            fail_msg("%s: %s %s", requests[i], reply->head, reply->body);
        /* Those that have two lengths for that reason, not because one of them was believed. */
        if (i < 4 && strstr(reply->body, "ambiguous") == NULL)
            fail_msg("%s: %s %s", requests[i], reply->head, reply->body);
    }
    struct reply *list = http_call(c, "GET", "/v1/jobs", NULL);
    assert_string_equal(reply_text(c, list, "jobs.0"), "");
}

static void other_content_types_are_refused(void **state)
{
    struct http_case *c = *state;
    static const char *const types[] = {
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: application/jsonp\r\n",
        "",
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        reply_refuses(http_with(c, "POST", "/v1/jobs", types[i], "{\"kind\":\"k\"}", 12), 415,
                      "unsupported_media_type");
    reply_is(http_with(c, "POST", "/v1/jobs", "Content-Type: Application/JSON; charset=utf-8\r\n",
                       "{\"kind\":\"k\"}", 12),
             201);
}

static void routes_that_are_not_there_are_told(void **state)
{
    struct http_case *c = *state;
    reply_refuses(http_call(c, "GET", "/v1/nothing", NULL), 404, "not_found");
    reply_refuses(http_call(c, "GET", "/v1/jobs/", NULL), 404, "not_found");
    reply_refuses(http_call(c, "GET", "//v1/jobs", NULL), 404, "not_found");
    reply_refuses(http_call(c, "GET", "/v1/jobs/../jobs", NULL), 404, "not_found");
    assert_non_null(strstr(http_call(c, "GET", "/v1/jobs/", NULL)->body, "trailing slash"));
    reply_refuses(http_call(c, "GET", "/v1/jobs/a%2Fevents", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/queues/a%00b/pause", NULL), 405, "method_not_allowed");
    reply_refuses(http_call(c, "POST", "/v1/queues/a%00b/pause", "{}"), 400, "bad_request");
    reply_refuses(http_call(c, "POST", "/v1/queues/%ff/pause", "{}"), 400, "bad_request");
    reply_refuses(http_call(c, "POST", "/v1/queues/%4/pause", "{}"), 400, "bad_request");
    reply_refuses(http_call(c, "POST", "/v1/queues/a%0ab/pause", "{}"), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs/none", NULL), 400, "bad_request");
    reply_refuses(http_call(c, "GET", "/v1/jobs/01a1e278-ed88-73d1-9060-3f3f311c080a", NULL), 404,
                  "not_found");
    reply_refuses(http_call(c, "GET", "/v1/jobs", "{}"), 400, "bad_request");
}

static void other_machines_and_pages_are_kept_out_of_loopback(void **state)
{
    struct http_case *c = *state;
    static const char *const requests[] = {
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost:80@evil.example\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: 127.1.1.999\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1.1\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: 127...1\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: [::1]evil.example\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nVia: 1.1 p\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nTrue-Client-IP: 1.2.3.4"
        "\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nCF-Connecting-IP: "
        "1.2.3.4\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: evil.example\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nOrigin: "
        "http://evil.example"
        "\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nOrigin: null\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nX-Forwarded-For: "
        "1.2.3.4\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nForwarded: for=1.2.3.4"
        "\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        reply_refuses(http_raw(c, requests[i], strlen(requests[i])), 403, "forbidden");
    struct reply *named = http_with(c, "GET", "/v1/jobs", "X-Forwarded-For: 1.2.3.4\r\n", NULL, 0);
    assert_non_null(strstr(named->body, "was forwarded (X-Forwarded-For)"));
    reply_is(http_with(c, "GET", "/v1/jobs", "Origin: http://localhost\r\n", NULL, 0), 200);
    static const char address[] =
        "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1:7295\r\n\r\n";
    reply_is(http_raw(c, address, sizeof address - 1), 200);
}

static void lines_of_a_head_end_with_cr_lf(void **state)
{
    struct http_case *c = *state;
    static const char *const requests[] = {
        "GET /v1/queues HTTP/1.1\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\nConnection: close\r\n\r\n",
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\n\r\n",
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\n",
        "GET /v1/queues HTTP/1.1\nHost: localhost\nConnection: close\n\n",
        "GET /healthz HTTP/1.0\n\n",
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: a\rb\r\n\r\n",
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\r\n\r\n",
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-A: \rB: c\r\n\r\n",
        "GET /v1/jobs?queue=a\rb HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    };
    static const char good[] =
        "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static const char plain[] = "GET /healthz HTTP/1.0\r\n\r\n";
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        reply_refuses(http_raw(c, requests[i], strlen(requests[i])), 400, "bad_request");
    reply_is(http_raw(c, good, sizeof good - 1), 200);
    reply_is(http_raw(c, plain, sizeof plain - 1), 200);
}

static void bodies_with_an_encoding_are_refused(void **state)
{
    struct http_case *c = *state;
    static const char job[] = "{\"kind\":\"k\"}";
    static const char type[] = "Content-Type: application/json\r\n";
    char headers[128];
    (void)snprintf(headers, sizeof headers, "%sContent-Encoding: gzip\r\n", type);
    reply_refuses(http_with(c, "POST", "/v1/jobs", headers, job, sizeof job - 1), 415,
                  "unsupported_media_type");
    (void)snprintf(headers, sizeof headers, "%sContent-Encoding: identity\r\n", type);
    reply_is(http_with(c, "POST", "/v1/jobs", headers, job, sizeof job - 1), 201);
    (void)snprintf(headers, sizeof headers,
                   "%sContent-Encoding: identity\r\nContent-Encoding: gzip\r\n", type);
    reply_refuses(http_with(c, "POST", "/v1/jobs", headers, job, sizeof job - 1), 400,
                  "bad_request");
}

static void names_with_characters_of_format_are_refused(void **state)
{
    struct http_case *c = *state;
    static const char *const jobs[] = {"{\"kind\":\"a\\u202eb\"}",
                                       "{\"kind\":\"k\",\"queue\":\"a\xe2\x80\xae\"}",
                                       "{\"kind\":\"k\",\"labels\":{\"a\":\"\\u2066x\"}}",
                                       "{\"kind\":\"k\",\"labels\":{\"\\u200bx\":\"x\"}}",
                                       "{\"kind\":\"k\",\"capabilities\":[\"\\ufeffx\"]}"};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        reply_refuses(http_call(c, "POST", "/v1/jobs", "%s", jobs[i]), 400, "bad_request");
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"Überprüfung 検査\"}"), 201);
}

/* The rest of a line behind a NUL is there for others who read the request. */
static void headers_that_a_nul_cuts_are_refused(void **state)
{
    struct http_case *c = *state;
    static const char job[] = "{\"kind\":\"k\"}";
    static const struct {
        const char *at;
        size_t len;
    } lines[] = {
#define LINE(text) {text, sizeof text - 1}
        LINE("Host: 127.0.0.1\0.evil.example\r\nContent-Length: 12\r\n"),
        LINE("Host: localhost\r\nContent-Length: 12\0 7\r\n"),
        LINE("Host: localhost\r\nContent-Length: 12\0 7\r\nX: y\r\n"),
        LINE("Host: localhost\r\nX: \0y\r\nContent-Length: 12\r\n"),
        LINE("Host: localhost\r\nContent-Length: 12\r\nX: y\0\r\n"),
        LINE("Host: localhost\r\nContent-Length: 12\0\0\r\nX: y\r\n"),
#undef LINE
    };
    static const char head[] = "POST /v1/jobs HTTP/1.1\r\nConnection: close\r\n"
                               "Content-Type: application/json\r\n";
    char text[512];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t len = (size_t)snprintf(text, sizeof text, "%s", head);
        memcpy(text + len, lines[i].at, lines[i].len);
        len += lines[i].len;
        len += (size_t)snprintf(text + len, sizeof text - len, "\r\n%s", job);
        reply_refuses(http_raw(c, text, len), 400, "bad_request");
    }
    static const char chunked[] =
        "POST /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\n"
        "Transfer-Encoding: chunked\0x\r\n\r\n0\r\n\r\n";
    reply_refuses(http_raw(c, chunked, sizeof chunked - 1), 400, "bad_request");
    /* What is usual is none of this: white space, empty values. */
    static const char usual[] = "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n"
                                "A:\r\nB: \t\r\nCookie: a=b; c=d\r\nC: d \t \r\n\r\n";
    reply_is(http_raw(c, usual, sizeof usual - 1), 200);
    static const char twice[] = "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n"
                                "Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n";
    reply_refuses(http_raw(c, twice, sizeof twice - 1), 400, "bad_request");
}

static void queries_are_read_as_forms_write_them(void **state)
{
    struct http_case *c = *state;
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"a b+c\"}"), 201);
    struct reply *reply = http_call(c, "GET", "/v1/jobs?kind=a+b%2Bc", NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "jobs.0.kind"), "a b+c");
    /* Between two slashes a plus is what it looks like. */
    reply_is(http_call(c, "PUT", "/v1/kinds/a+b", "{}"), 200);
    assert_string_equal(reply_text(c, http_call(c, "GET", "/v1/kinds/a%2Bb", NULL), "kind"), "a+b");
}

static void a_place_in_a_stream_that_is_none_is_refused(void **state)
{
    struct http_case *c = *state;
    char headers[256];
    (void)snprintf(headers, sizeof headers,
                   "Accept: text/event-stream\r\nLast-Event-ID: %0100d\r\n", 1);
    reply_refuses(http_with(c, "GET", "/v1/feed", headers, NULL, 0), 400, "bad_request");
}

static void payloads_must_be_what_they_seem(void **state)
{
    struct http_case *c = *state;
    /* A key twice has two meanings. */
    refused(c, "{\"kind\":\"k\",\"payload\":{\"a\":1,\"a\":2}}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":{\"a\":1,\"\\u0061\":2}}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":[{\"b\":{\"a\":1,\"c\":2,\"a\":1}}]}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":{\"a\":01}}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":{\"a\":NaN}}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":{'a':1}}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":[1,]}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":\"a\nb\"}", "bad_request");
    refused(c, "\xef\xbb\xbf{\"kind\":\"k\"}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":\"\xed\xa0\x80\"}", "bad_request");
    refused(c, "{\"kind\":\"k\",\"payload\":\"\xc0\x80\"}", "bad_request");
    struct reply *list = http_call(c, "GET", "/v1/jobs", NULL);
    assert_string_equal(reply_text(c, list, "jobs.0"), "");
}

/* Sends a request that begins with `first` and has so many more headers; whatever comes, the server
 * goes on. */
static void send_headers(struct http_case *c, const char *first, int count)
{
    size_t room = strlen(first) + (size_t)count * 16 + 64;
    char *request = malloc(room);
    size_t got;
    assert_non_null(request);
    int len = snprintf(request, room, "%s", first);
    for (int i = 0; i < count; i++)
        len += snprintf(request + len, room - (size_t)len, "X-%d: y\r\n", i);
    len += snprintf(request + len, room - (size_t)len, "\r\n");
    int fd = http_connect(c->port);
    (void)http_send(fd, request, (size_t)len);
    char *text = http_read(fd, 5000, &got);
    if (got > 0 && strstr(text, " 431 ") == NULL && strstr(text, " 400 ") == NULL)
        fail_msg("%d headers: %.100s", count, text);
    free(text);
    free(request);
    (void)close(fd);
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
}

static void absurd_heads_are_refused(void **state)
{
    struct http_case *c = *state;
    static const char plain[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    send_headers(c, plain, 5000);
    send_headers(c, plain, 100000);
    static const char *const heads[] = {
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        "GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET /healthz\r\nHost: localhost\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        int fd = http_connect(c->port);
        size_t got;
        assert_true(http_send(fd, heads[i], strlen(heads[i])));
        (void)shutdown(fd, SHUT_WR);
        char *text = http_read(fd, 5000, &got);
        /* Hanging up is an answer, too, for what is no HTTP. */
        if (got > 0 && strncmp(text, "HTTP/1.1 4", 10) != 0 &&
            strncmp(text, "HTTP/1.1 505", 12) != 0 && strncmp(text, "HTTP/1.0 4", 10) != 0)
            fail_msg("%s: %s", heads[i], text);
        free(text);
        (void)close(fd);
    }
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
}

/* A header that goes on in the next line means one thing to us and another to whoever stands before
 * us. */
static void headers_in_two_lines_hide_nothing(void **state)
{
    struct http_case *c = *state;
    static const char *const requests[] = {
        HEAD "Content-Length: 1\r\n 2\r\nConnection: close\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Content-Length: 12\r\n Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
             "{\"kind\":\"k\"}",
        HEAD "Transfer-Encoding:\r\n chunked\r\nContent-Length: 12\r\nConnection: close\r\n\r\n"
             "{\"kind\":\"k\"}",
        HEAD "Content-Length : 12\r\nConnection: close\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Content-Length: 12\r\nX-Note: a\r\n Transfer-Encoding: chunked\r\nConnection: "
             "close\r\n\r\n"
             "{\"kind\":\"k\"}",
        HEAD
        "Content-Length: 12\r\nX-Note: a\r\n\tb\r\n c\r\nConnection: close\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Content-Length: 12\r\nX-Note:\r\n \r\nConnection: close\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Content-Length: 12\r\nnameless\r\nConnection: close\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Content-Length: 12\r\nTransfer Encoding: chunked\r\nConnection: close\r\n\r\n"
             "{\"kind\":\"k\"}",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct reply *reply = http_raw(c, requests[i], strlen(requests[i]));
        if (reply->status != 400)
            fail_msg("%s: %d %s", requests[i], reply->status, reply->body);
    }
    struct reply *list = http_call(c, "GET", "/v1/jobs", NULL);
    assert_string_equal(reply_text(c, list, "jobs.0"), "");
}

static void bodies_that_end_too_soon_do_nothing(void **state)
{
    struct http_case *c = *state;
    static const char *const requests[] = {
        HEAD "Content-Length: 100\r\n\r\n{\"kind\":\"k\"}",
        HEAD "Transfer-Encoding: chunked\r\n\r\nc\r\n{\"kind\":\"k\"}\r\n",
        HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{\"kind\":\"k\"}",
        HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n{\"kind\":\"k\"}\r\n0\r\n\r\n",
        HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n{\"kind\":\"k\"}\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        int fd = http_connect(c->port);
        size_t got;
        assert_true(http_send(fd, requests[i], strlen(requests[i])));
        (void)shutdown(fd, SHUT_WR);
        char *text = http_read(fd, 5000, &got);
        if (got > 0 && strncmp(text, "HTTP/1.1 4", 10) != 0)
            fail_msg("%s: %s", requests[i], text);
        free(text);
        (void)close(fd);
    }
    struct reply *list = http_call(c, "GET", "/v1/jobs", NULL);
    assert_string_equal(reply_text(c, list, "jobs.0"), "");
}

static void headers_that_are_too_long_are_refused(void **state)
{
    struct http_case *c = *state;
    enum { LEN = 100 * 1024 };
    char *request = malloc(LEN + 64);
    assert_non_null(request);
    int len = snprintf(request, 64, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(request + len, 'x', LEN);
    int fd = http_connect(c->port);
    (void)http_send(fd, request, (size_t)len + LEN);
    size_t got;
    char *text = http_read(fd, 5000, &got);
    /* The answer may be lost when the rest is not read. */
    if (got > 0)
        assert_non_null(strstr(text, " 431 "));
    free(text);
    free(request);
    (void)close(fd);
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_MEMORY(json_that_is_none_is_refused),
        HTTP_ON_MEMORY(wrong_types_and_numbers_are_refused),
        HTTP_ON_MEMORY(what_the_path_says_cannot_be_said_again),
        HTTP_ON_MEMORY(deep_and_huge_bodies_are_refused),
        HTTP_ON_MEMORY(a_chunked_body_that_is_too_large_is_refused),
        HTTP_ON_MEMORY(chunked_bodies_are_taken),
        HTTP_ON_MEMORY(ambiguous_lengths_are_refused),
        HTTP_ON_MEMORY(other_content_types_are_refused),
        HTTP_ON_MEMORY(routes_that_are_not_there_are_told),
        HTTP_ON_MEMORY(other_machines_and_pages_are_kept_out_of_loopback),
        HTTP_ON_MEMORY(headers_that_a_nul_cuts_are_refused),
        HTTP_ON_MEMORY(lines_of_a_head_end_with_cr_lf),
        HTTP_ON_MEMORY(bodies_with_an_encoding_are_refused),
        HTTP_ON_MEMORY(names_with_characters_of_format_are_refused),
        HTTP_ON_MEMORY(queries_are_read_as_forms_write_them),
        HTTP_ON_MEMORY(a_place_in_a_stream_that_is_none_is_refused),
        HTTP_ON_MEMORY(payloads_must_be_what_they_seem),
        HTTP_ON_MEMORY(absurd_heads_are_refused),
        HTTP_ON_MEMORY(headers_in_two_lines_hide_nothing),
        HTTP_ON_MEMORY(bodies_that_end_too_soon_do_nothing),
        HTTP_ON_MEMORY(headers_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
