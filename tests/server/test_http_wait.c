/* Waiting over HTTP: claims that are woken, clients that go away meanwhile, streams of events, and
 * the end of a server. */
#define _GNU_SOURCE /* NOLINT: memmem */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http_case.h"

enum { PATIENCE_MS = 10 * 1000 };

static void pause_for(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* Sends a request and leaves the connection open. */
static int ask(struct http_case *c, const char *method, const char *path, const char *headers,
               const char *body)
{
    char request[2048];
    int fd = http_connect(c->port);
    assert_true(fd >= 0);
    int len = snprintf(
        request, sizeof request,
        "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%sContent-Length: %zu\r\n\r\n%s", method, path,
        headers, *body != '\0' ? "Content-Type: application/json\r\n" : "", strlen(body), body);
    assert_true(http_send(fd, request, (size_t)len));
    return fd;
}

/* Reads until `wanted` was seen; everything that came, to be freed. NULL: it did not come. */
static char *read_until(int fd, const char *wanted)
{
    static const struct timeval slice = {.tv_usec = 50 * 1000};
    char *text = calloc(1, 1024 * 1024);
    size_t len = 0;
    int64_t until = http_now() + PATIENCE_MS;
    assert_non_null(text);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    while (strstr(text, wanted) == NULL) {
        ssize_t got = recv(fd, text + len, 1024 * 1024 - 1 - len, 0);
        len += got > 0 ? (size_t)got : 0;
        if (got == 0 || http_now() > until) {
            if (strstr(text, wanted) != NULL)
                break;
            free(text);
            return NULL;
        }
    }
    return text;
}

static void sees(int fd, const char *wanted)
{
    char *text = read_until(fd, wanted);
    if (text == NULL)
        fail_msg("\"%s\" did not come", wanted);
    free(text);
}

static const char *submit(struct http_case *c)
{
    struct reply *reply = http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\"}");
    reply_is(reply, 201);
    return reply_text(c, reply, "id");
}

static void a_waiting_claim_is_woken_by_a_submit(void **state)
{
    struct http_case *c = *state;
    int fd = ask(c, "POST", "/v1/claims", "", "{\"worker_id\":\"w\",\"wait_ms\":50000}");
    pause_for(100);
    int64_t start = http_now();
    const char *id = submit(c);
    sees(fd, http_phrase(c, "\"claims\":[{\"job\":{\"id\":\"%s\"", id));
    assert_true(http_now() - start < 3000);
    (void)close(fd);
}

static void who_goes_away_while_waiting_gets_no_lease(void **state)
{
    struct http_case *c = *state;
    enum { CLIENTS = 20 };
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = ask(c, "POST", "/v1/claims", "", "{\"worker_id\":\"w\",\"wait_ms\":50000}");
    pause_for(200);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(clients[i]);
    pause_for(100);
    const char *id = submit(c);
    struct reply *reply = http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"there\"}");
    assert_string_equal(reply_text(c, reply, "claims.0.job.id"), id);
    assert_int_equal(reply_int(reply, "claims.0.lease.attempt"), 1);
}

static void a_read_waits_until_the_job_has_ended(void **state)
{
    struct http_case *c = *state;
    const char *id = submit(c);
    int fd = ask(c, "GET", http_phrase(c, "/v1/jobs/%s?wait_ms=50000", id), "", "");
    pause_for(100);
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/cancel", id), "{}"), 200);
    sees(fd, "\"status\":\"cancelled\"");
    (void)close(fd);
    int64_t start = http_now();
    const char *other = submit(c);
    struct reply *reply =
        http_call(c, "GET", http_phrase(c, "/v1/jobs/%s?wait_ms=300", other), NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "status"), "queued");
    assert_true(http_now() - start >= 300);
}

static void a_job_is_streamed_and_a_stream_can_be_resumed(void **state)
{
    struct http_case *c = *state;
    const char *id = submit(c);
    const char *path = http_phrase(c, "/v1/jobs/%s/events", id);
    int fd = ask(c, "GET", path, "Accept: text/event-stream\r\n", "");
    sees(fd, "\"type\":\"job_created\"");
    reply_is(http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\"}"), 200);
    sees(fd, "\"type\":\"job_running\"");
    (void)close(fd);
    fd = ask(c, "GET", path, "Accept: text/event-stream\r\nLast-Event-ID: 2\r\n", "");
    char *text = read_until(fd, "\"type\":\"job_running\"");
    assert_non_null(text);
    assert_non_null(strstr(text, "Content-Type: text/event-stream"));
    assert_non_null(strstr(text, "id: 3\n"));
    assert_null(strstr(text, "job_created"));
    free(text);
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/cancel", id), "{\"mode\":\"hard\"}"),
             200);
    sees(fd, "id: 4\n");
    (void)close(fd);
    reply_refuses(http_with(c, "GET", "/v1/jobs/01a1e278-ed88-73d1-9060-3f3f311c080a/events",
                            "Accept: text/event-stream\r\n", NULL, 0),
                  404, "not_found");
}

static void the_feed_is_streamed_in_order_and_misses_nothing(void **state)
{
    struct http_case *c = *state;
    enum { JOBS = 30 };
    (void)submit(c);
    int fd = ask(c, "GET", "/v1/feed", "Accept: text/event-stream\r\n", "");
    sees(fd, "\"type\":\"job_created\"");
    for (int i = 0; i < JOBS; i++)
        (void)submit(c);
    const char *last = submit(c);
    char *text = read_until(fd, last);
    assert_non_null(text);
    int seen = 0;
    for (const char *at = text; (at = strstr(at, "\"type\":\"job_created\"")) != NULL; at++)
        seen++;
    assert_true(seen >= JOBS);
    free(text);
    (void)close(fd);
}

static void a_claim_that_says_nothing_waits(void **state)
{
    struct http_case *c = *state;
    int fd = ask(c, "POST", "/v1/claims", "", "{\"worker_id\":\"w\"}");
    pause_for(300);
    const char *id = submit(c);
    sees(fd, http_phrase(c, "\"claims\":[{\"job\":{\"id\":\"%s\"", id));
    (void)close(fd);
    /* And one that says so does not. */
    int64_t start = http_now();
    struct reply *reply = http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\",\"wait_ms\":0}");
    assert_string_equal(reply->body, "{\"claims\":[]}");
    assert_true(http_now() - start < 3000);
}

static void the_feed_can_begin_now(void **state)
{
    struct http_case *c = *state;
    struct reply *reply;
    for (int i = 0; i < 5; i++)
        (void)submit(c);
    /* PostgreSQL shows them when older transactions, also of others, have ended. */
    do
        reply = http_call(c, "GET", "/v1/feed?limit=10", NULL);
    while (*reply_text(c, reply, "events.4") == '\0');
    reply = http_call(c, "GET", "/v1/feed?after=now&limit=10", NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "events"), "[]");
    const char *next = reply_text(c, reply, "next");
    int fd = ask(c, "GET", "/v1/feed?after=now", "", "");
    sees(fd, "retry: ");
    const char *id = submit(c);
    char *text = read_until(fd, "job_created");
    assert_non_null(text);
    assert_non_null(strstr(text, id));
    free(text);
    (void)close(fd);
    /* Whoever asked where it ends can go on from there. */
    reply = http_call(c, "GET", http_phrase(c, "/v1/feed?wait_ms=5000&after=%s", next), NULL);
    assert_string_equal(reply_text(c, reply, "events.0.job_id"), id);
    assert_string_equal(reply_text(c, reply, "events.1"), "");
}

static void what_is_accepted_says_whether_it_is_a_stream(void **state)
{
    struct http_case *c = *state;
    static const char stream[] = "Content-Type: text/event-stream\r\n";
    static const char page[] = "Content-Type: application/json\r\n";
    const char *events = http_phrase(c, "/v1/jobs/%s/events", submit(c));
    const struct {
        const char *path;
        const char *headers;
        const char *wanted;
    } cases[] = {
        {events, "", page},
        {events, "Accept: */*\r\n", page},
        {events, "Accept: text/event-stream\r\n", stream},
        {events, "Accept: Text/Event-Stream; charset=utf-8\r\n", stream},
        {events, "Accept: text/html, text/event-stream;q=0.9\r\n", stream},
        {events, "Accept: text/event-stream;q=0, */*\r\n", page},
        {events, "Accept: application/json, text/event-stream;q=0.5\r\n", page},
        {events, "Accept: application/json;q=0.4, text/event-stream;q=0.5\r\n", stream},
        {events, "Accept: text/event-streams\r\n", page},
        {"/v1/feed", "", stream},
        {"/v1/feed", "Accept: */*\r\n", stream},
        {"/v1/feed", "Accept: application/json\r\n", page},
        {"/v1/feed?limit=5", "", page},
        {"/v1/feed?limit=5", "Accept: text/event-stream\r\n", stream},
        {"/v1/feed?wait_ms=5", "Accept: */*\r\n", page},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = ask(c, "GET", cases[i].path, cases[i].headers, "");
        char *text = read_until(fd, "job_created");
        if (text == NULL || strstr(text, cases[i].wanted) == NULL)
            fail_msg("%s %s: %s", cases[i].path, cases[i].headers, text);
        free(text);
        (void)close(fd);
    }
}

static void streams_end_and_claims_are_refused_when_the_server_drains(void **state)
{
    struct http_case *c = *state;
    (void)submit(c);
    reply_is(http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\"}"), 200);
    int stream = ask(c, "GET", "/v1/feed", "Accept: text/event-stream\r\n", "");
    int waiting = ask(c, "POST", "/v1/claims", "", "{\"worker_id\":\"w\",\"wait_ms\":50000}");
    int idle = http_connect(c->port);
    sees(stream, "job_created");
    pause_for(100);
    int64_t start = http_now();
    server_drain(c->server, PATIENCE_MS);
    assert_true(http_now() - start < 3000);
    sees(waiting, "{\"claims\":[]}");
    size_t len;
    char *rest = http_read(stream, PATIENCE_MS, &len);
    free(rest);
    /* Who comes now is hung up on. */
    int refused = http_connect(c->port);
    if (refused >= 0) {
        rest = http_read(refused, PATIENCE_MS, &len);
        free(rest);
        assert_int_equal(len, 0);
        (void)close(refused);
    }
    static const char late[] = "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: application/json\r\nContent-Length: 17\r\n\r\n"
                               "{\"worker_id\":\"w\"}";
    assert_true(http_send(idle, late, sizeof late - 1));
    sees(idle, "\"code\":\"unavailable\"");
    (void)close(idle);
    (void)close(stream);
    (void)close(waiting);
}

static void a_server_ends_with_clients_of_all_sorts_on_it(void **state)
{
    struct http_case *c = *state;
    const char *id = submit(c);
    int clients[] = {
        ask(c, "GET", "/v1/feed", "Accept: text/event-stream\r\n", ""),
        ask(c, "GET", http_phrase(c, "/v1/jobs/%s/events", id), "Accept: text/event-stream\r\n",
            ""),
        ask(c, "GET", http_phrase(c, "/v1/jobs/%s?wait_ms=50000", id), "", ""),
        ask(c, "GET", "/v1/feed?wait_ms=50000&after=999999-0", "", ""),
        ask(c, "POST", "/v1/claims", "",
            "{\"worker_id\":\"w\",\"kinds\":[\"x\"],\"wait_ms\":50000}"),
        http_connect(c->port),
    };
    pause_for(200);
    int64_t start = http_now();
    server_close(c->server);
    c->server = NULL;
    assert_true(http_now() - start < 3000);
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++)
        (void)close(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_EVERY_STORE(a_waiting_claim_is_woken_by_a_submit),
        HTTP_ON_EVERY_STORE(who_goes_away_while_waiting_gets_no_lease),
        HTTP_ON_EVERY_STORE(a_read_waits_until_the_job_has_ended),
        HTTP_ON_EVERY_STORE(a_job_is_streamed_and_a_stream_can_be_resumed),
        HTTP_ON_EVERY_STORE(the_feed_is_streamed_in_order_and_misses_nothing),
        HTTP_ON_MEMORY(a_claim_that_says_nothing_waits),
        HTTP_ON_EVERY_STORE(the_feed_can_begin_now),
        HTTP_ON_MEMORY(what_is_accepted_says_whether_it_is_a_stream),
        HTTP_ON_MEMORY(streams_end_and_claims_are_refused_when_the_server_drains),
        HTTP_ON_EVERY_STORE(a_server_ends_with_clients_of_all_sorts_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
