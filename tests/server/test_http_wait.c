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
    http_await_parked(c, 1);
    int64_t start = http_now();
    const char *id = submit(c);
    sees(fd, http_phrase(c, "\"claims\":[{\"job\":{\"id\":\"%s\"", id));
    assert_true(http_now() - start < 3000);
    (void)close(fd);
}

/* How many connections to the port were closed by the other side and are still open on ours. */
static int hung_up(uint16_t port)
{
    enum { CLOSE_WAIT = 8 };
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/net/tcp", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned local;
        unsigned tcp_state;
        /* NOLINTNEXTLINE: the kernel wrote it */
        if (sscanf(line, " %*d: %*8x:%x %*8x:%*x %x", &local, &tcp_state) == 2)
            count += local == port && tcp_state == CLOSE_WAIT;
    }
    (void)fclose(file);
    return count;
}

static void who_goes_away_while_waiting_gets_no_lease(void **state)
{
    struct http_case *c = *state;
    enum { CLIENTS = 20 };
    int clients[CLIENTS];
    long long before = http_metric(c, "pawl_operations_total");
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = ask(c, "POST", "/v1/claims", "", "{\"worker_id\":\"w\",\"wait_ms\":50000}");
    http_await_parked(c, CLIENTS);
    /* Each has looked for work: one that looks right now may find the job, and is given a lease
     * that is released only when the response cannot be sent. */
    int64_t until = http_now() + PATIENCE_MS;
    while (http_metric(c, "pawl_operations_total") < before + CLIENTS) {
        assert_true(http_now() < until);
        pause_for(1);
    }
    for (int i = 0; i < CLIENTS; i++)
        (void)close(clients[i]);
    /* The server's side of each connection has heard of it, though nobody has looked yet. */
    while (hung_up(c->port) < CLIENTS && http_metric(c, "pawl_http_parked_requests") > 0)
        pause_for(1);
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
    http_await_parked(c, 1);
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

static void events_of_a_stream_are_named_by_type_and_limited_by_filters(void **state)
{
    struct http_case *c = *state;
    const char *id = submit(c);
    const char *path = http_phrase(c, "/v1/jobs/%s/events?type=job_started,job_cancelled", id);
    int of_job = ask(c, "GET", path, "Accept: text/event-stream\r\n", "");
    int of_all = ask(c, "GET", "/v1/feed?type=job_claimed,job_cancelled&queue=default",
                     "Accept: text/event-stream\r\n", "");
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"mail\",\"queue\":\"side\"}"), 201);
    reply_is(http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\",\"queues\":[\"side\"]}"),
             200);
    reply_is(http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\",\"queues\":[\"default\"]}"),
             200);
    char *text = read_until(of_job, "\"type\":\"job_running\"");
    assert_non_null(text);
    assert_non_null(strstr(text, "id: 3\nevent: job_running\ndata: "));
    assert_null(strstr(text, "job_created"));
    assert_null(strstr(text, "job_leased"));
    free(text);
    text = read_until(of_all, "\"type\":\"job_leased\"");
    assert_non_null(text);
    assert_non_null(strstr(text, "event: job_leased\n"));
    assert_null(strstr(text, "\"queue\":\"side\""));
    assert_null(strstr(text, "job_created"));
    free(text);
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/cancel", id), "{\"mode\":\"hard\"}"),
             200);
    sees(of_job, "event: job_cancelled\n");
    sees(of_all, "event: job_cancelled\n");
    (void)close(of_job);
    (void)close(of_all);
    reply_refuses(
        http_with(c, "GET", "/v1/feed?type=nothing", "Accept: text/event-stream\r\n", NULL, 0), 400,
        "bad_request");
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

static void a_stream_for_some_queues_hurries_past_what_is_of_others(void **state)
{
    struct http_case *c = *state;
    enum { JOBS = 500, FOREIGN = 5000 };
    struct reply *reply = http_call(c, "POST", "/v1/tokens",
                                    "{\"name\":\"n\",\"scopes\":[\"read\"],\"queues\":[\"own\"]}");
    reply_is(reply, 201);
    const char *headers =
        http_phrase(c, "Accept: text/event-stream\r\nAuthorization: Bearer %s\r\n",
                    reply_text(c, reply, "token"));
    char *jobs = calloc(1, JOBS * 64);
    assert_non_null(jobs);
    for (int i = 0, len = 0; i < JOBS; i++)
        len +=
            snprintf(jobs + len, 64, "%s{\"kind\":\"k\",\"queue\":\"foreign\"}", i > 0 ? "," : "");
    for (int i = 0; i < FOREIGN / JOBS; i++)
        reply_is(http_call(c, "POST", "/v1/jobs", "{\"jobs\":[%s]}", jobs), 201);
    free(jobs);
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\",\"queue\":\"own\"}"), 201);
    int64_t start = http_now();
    int fd = ask(c, "GET", "/v1/feed", headers, "");
    char *text = read_until(fd, "job_created");
    assert_non_null(text);
    assert_null(strstr(text, "foreign"));
    /* A stream that waits before it reads on does so for 15 s. */
    assert_true(http_now() - start < 12 * 1000);
    free(text);
    (void)close(fd);
}

/* Asks for work under a key, with an answer that is too long for whoever does not read it, and goes
 * away as soon as the work is leased. */
static void claim_and_vanish(struct http_case *c, const char *headers, const char *body)
{
    int fd = ask(c, "POST", "/v1/claims", headers, body);
    int64_t until = http_now() + PATIENCE_MS;
    const struct linger rude = {.l_onoff = 1};
    const int small = 4096; /* of what is not read the system takes little */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    while (*reply_text(c, http_call(c, "GET", "/v1/jobs?status=running", NULL), "jobs.11") == '\0')
        assert_true(http_now() < until);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &rude, sizeof rude);
    (void)close(fd);
    while (*reply_text(c, http_call(c, "GET", "/v1/jobs?status=queued", NULL), "jobs.11") == '\0')
        assert_true(http_now() < until);
}

static void a_claim_that_was_lost_on_the_way_claims_anew_under_its_key(void **state)
{
    struct http_case *c = *state;
    enum { JOBS = 12, BYTES = 1000 * 1000 };
    static const char headers[] = "Content-Type: application/json\r\nIdempotency-Key: once\r\n";
    static const char body[] = "{\"worker_id\":\"w\",\"max\":12,\"lease_ttl_ms\":600000}";
    char *payload = calloc(1, BYTES + 1);
    assert_non_null(payload);
    memset(payload, 'x', BYTES);
    for (int i = 0; i < JOBS; i++)
        reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\",\"payload\":\"%s\"}", payload),
                 201);
    free(payload);
    claim_and_vanish(c, "Idempotency-Key: once\r\n", body);
    for (int i = 0; i < 2; i++) { /* anew, and then what came of that once more */
        struct reply *reply = http_with(c, "POST", "/v1/claims", headers, body, sizeof body - 1);
        reply_is(reply, 200);
        assert_int_equal(reply_int(reply, "claims.11.lease.attempt"), 2);
        const char *token = reply_text(c, reply, "claims.0.lease.token");
        reply_is(http_call(c, "POST", http_phrase(c, "/v1/leases/%s/heartbeat", token), "{}"), 200);
    }
}

static void a_claim_that_says_nothing_waits(void **state)
{
    struct http_case *c = *state;
    int fd = ask(c, "POST", "/v1/claims", "", "{\"worker_id\":\"w\"}");
    http_await_parked(c, 1);
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
    http_await_parked(c, 2);
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
    struct reply *reply;
    const char *id = submit(c);
    do
        reply = http_call(c, "GET", "/v1/feed?limit=10", NULL);
    while (*reply_text(c, reply, "events.0") == '\0');
    const char *end = reply_text(c, reply, "next");
    int clients[] = {
        ask(c, "GET", "/v1/feed", "Accept: text/event-stream\r\n", ""),
        ask(c, "GET", http_phrase(c, "/v1/jobs/%s/events", id), "Accept: text/event-stream\r\n",
            ""),
        ask(c, "GET", http_phrase(c, "/v1/jobs/%s?wait_ms=50000", id), "", ""),
        ask(c, "GET", http_phrase(c, "/v1/feed?wait_ms=50000&after=%s", end), "", ""),
        ask(c, "POST", "/v1/claims", "",
            "{\"worker_id\":\"w\",\"kinds\":[\"x\"],\"wait_ms\":50000}"),
        http_connect(c->port),
    };
    /* All but the one that has asked for nothing. */
    http_await_parked(c, (long long)(sizeof clients / sizeof clients[0]) - 1);
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
        HTTP_ON_EVERY_STORE(events_of_a_stream_are_named_by_type_and_limited_by_filters),
        HTTP_ON_EVERY_STORE(the_feed_is_streamed_in_order_and_misses_nothing),
        HTTP_ON_EVERY_STORE(a_stream_for_some_queues_hurries_past_what_is_of_others),
        HTTP_ON_EVERY_STORE(a_claim_that_was_lost_on_the_way_claims_anew_under_its_key),
        HTTP_ON_MEMORY(a_claim_that_says_nothing_waits),
        HTTP_ON_EVERY_STORE(the_feed_can_begin_now),
        HTTP_ON_MEMORY(what_is_accepted_says_whether_it_is_a_stream),
        HTTP_ON_MEMORY(streams_end_and_claims_are_refused_when_the_server_drains),
        HTTP_ON_EVERY_STORE(a_server_ends_with_clients_of_all_sorts_on_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
