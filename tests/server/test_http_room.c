/* What answers take, whoever does not fetch them; and who goes first when there is much to do. */
#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
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

#include <libpq-fe.h>

#include <cmocka.h>

#include "server/http_case.h"

enum {
    LARGE_JOBS = 100,
    LARGE_BYTES = 100 * 1024, /* of each payload */
    PAGE_BYTES = LARGE_JOBS * LARGE_BYTES,
    MIB = 1024 * 1024,
};

/* Sanitizers have memory of their own, and keep what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_IS_OURS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMORY_IS_OURS false
#endif
#endif
#ifndef MEMORY_IS_OURS
#define MEMORY_IS_OURS true
#endif

static const char list_all[] = "GET /v1/jobs?limit=100&include=payload HTTP/1.1\r\n"
                               "Host: localhost\r\nConnection: close\r\n\r\n";
static const char follow_all[] = "GET /v1/feed HTTP/1.1\r\nHost: localhost\r\n"
                                 "Accept: text/event-stream\r\n\r\n";

static void pause_for(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

static long resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %ld", &pages), 1); /* NOLINT: the kernel wrote it */
    (void)fclose(file);
    return pages / (MIB / 4096);
}

static void reopen(struct http_case *c, const struct server_options *options)
{
    server_close(c->server);
    c->server = NULL;
    http_open(c, options);
}

static void submit_large_jobs(struct http_case *c)
{
    char *padding = malloc(LARGE_BYTES + 1);
    assert_non_null(padding);
    memset(padding, 'x', LARGE_BYTES);
    padding[LARGE_BYTES] = '\0';
    for (int i = 0; i < LARGE_JOBS; i++)
        reply_is(
            http_call(c, "POST", "/v1/jobs", "{\"kind\":\"large\",\"payload\":\"%s\"}", padding),
            201);
    free(padding);
}

/* A client of some address that has little room for what comes. */
static int connect_from(struct http_case *c, const char *address)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(c->port)};
    int room = 64 * 1024;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, address, &from.sin_addr), 1);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Whether something has come for it. */
static bool is_answered(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 0) > 0;
}

static int count_answered(const int *clients, int count)
{
    int answered = 0;
    for (int i = 0; i < count; i++)
        answered += is_answered(clients[i]) ? 1 : 0;
    return answered;
}

static void await_answers(const int *clients, int count)
{
    int64_t until = http_now() + 30 * 1000;
    while (count_answered(clients, count) < count) {
        assert_true(http_now() < until);
        pause_for(10);
    }
}

/* The status that has come first. */
static int status_of(int fd)
{
    char text[16] = "";
    ssize_t got = recv(fd, text, sizeof text - 1, MSG_PEEK);
    return got > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
}

static long long figure(struct http_case *c, const char *name)
{
    struct reply *reply = http_call(c, "GET", "/metrics", NULL);
    reply_is(reply, 200);
    const char *line = strstr(reply->body, http_phrase(c, "\n%s ", name));
    return line == NULL ? -1 : strtoll(line + strlen(name) + 2, NULL, 10);
}

static void complete_a_job(struct http_case *c)
{
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"small\"}"), 201);
    struct reply *reply =
        http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\",\"kinds\":[\"small\"]}");
    reply_is(reply, 200);
    const char *token = reply_text(c, reply, "claims.0.lease.token");
    reply_is(
        http_call(c, "POST", http_phrase(c, "/v1/leases/%s/complete", token), "{\"result\":1}"),
        200);
}

/* ---- answers that nobody takes ---- */

static void answers_that_nobody_takes_have_a_bounded_room(void **state)
{
    struct http_case *c = *state;
    enum { CLIENTS = 30, ROOM_MIB = 64 };
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    int clients[CLIENTS];
    int taken = 0;
    options.limits.bytes_max = (size_t)ROOM_MIB * MIB;
    reopen(c, &options);
    submit_large_jobs(c);
    (void)malloc_trim(0);
    long before = resident_mib();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_from(c, "127.0.0.1");
        assert_true(http_send(clients[i], list_all, sizeof list_all - 1));
    }
    await_answers(clients, CLIENTS);
    long grown = resident_mib() - before;
    for (int i = 0; i < CLIENTS; i++) {
        int status = status_of(clients[i]);
        assert_true(status == 200 || status == 503);
        taken += status == 200 ? 1 : 0;
    }
    print_message("%d clients, %d with an answer: %ld MiB more\n", CLIENTS, taken, grown);
    assert_true(grown < 3L * ROOM_MIB || !MEMORY_IS_OURS);
    assert_true(taken >= 4 && taken < CLIENTS);
    assert_true(figure(c, "pawl_requests_shed_total") >= CLIENTS - taken);
    /* Others are served meanwhile, and what is large as soon as there is room. */
    complete_a_job(c);
    struct reply *refused = http_raw(c, list_all, sizeof list_all - 1);
    reply_refuses(refused, 503, "unavailable");
    assert_non_null(strstr(refused->head, "Retry-After: "));
    for (int i = 0; i < CLIENTS; i++)
        (void)close(clients[i]);
    int64_t until = http_now() + 10 * 1000;
    while (http_raw(c, list_all, sizeof list_all - 1)->status != 200) {
        assert_true(http_now() < until);
        pause_for(50);
    }
}

/* Reads `wanted` bytes, and whatever follows them within a moment; how much that was. */
static size_t drain(int fd, size_t wanted)
{
    static char bytes[256 * 1024];
    size_t all = 0;
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        if (poll(&entry, 1, all < wanted ? 20 * 1000 : 200) <= 0)
            return all;
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            return all;
        all += (size_t)got;
    }
}

static void streams_that_wait_hold_little(void **state)
{
    struct http_case *c = *state;
    enum { STREAMS = 16 };
    int streams[STREAMS];
    submit_large_jobs(c);
    (void)malloc_trim(0);
    long before = resident_mib();
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = http_connect(c->port);
        assert_true(http_send(streams[i], follow_all, sizeof follow_all - 1));
        assert_true(drain(streams[i], PAGE_BYTES) >= PAGE_BYTES);
    }
    /* What was freed goes back to the system when it is quiet. */
    int64_t until = http_now() + 10 * 1000;
    long grown = resident_mib() - before;
    while (grown > 16 && MEMORY_IS_OURS && http_now() < until) {
        pause_for(50);
        grown = resident_mib() - before;
    }
    print_message("%d streams that wait: %ld MiB more\n", STREAMS, grown);
    assert_true(grown <= 16 || !MEMORY_IS_OURS);
    /* They go on. */
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"small\"}"), 201);
    for (int i = 0; i < STREAMS; i++) {
        assert_true(drain(streams[i], 1) > 0);
        (void)close(streams[i]);
    }
}

/* Has clients ask for large answers that they do not take, until there is room for no other. */
static void fill_room(struct http_case *c, int *ret_clients, int count)
{
    for (int i = 0; i < count; i++) {
        ret_clients[i] = connect_from(c, "127.0.0.1");
        assert_true(http_send(ret_clients[i], list_all, sizeof list_all - 1));
    }
    await_answers(ret_clients, count);
}

/* It waits until there is, and misses nothing. */
static void a_stream_without_room_goes_on_later(void **state)
{
    struct http_case *c = *state;
    enum { CLIENTS = 4 };
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    int clients[CLIENTS];
    options.limits.bytes_max = 24 * (size_t)MIB; /* for one of them, and not for two */
    reopen(c, &options);
    int stream = connect_from(c, "127.0.0.1");
    assert_true(http_send(stream, follow_all, sizeof follow_all - 1));
    await_answers(&stream, 1);
    /* It is slower than the jobs come: most of them will be one large piece of text. */
    submit_large_jobs(c);
    submit_large_jobs(c);
    fill_room(c, clients, CLIENTS);
    size_t all = drain(stream, 1);
    assert_true(all < 2 * PAGE_BYTES);
    int late = http_connect(c->port);
    assert_true(http_send(late, follow_all, sizeof follow_all - 1));
    await_answers(&late, 1);
    assert_int_equal(status_of(late), 503);
    (void)close(late);
    for (int i = 0; i < CLIENTS; i++)
        (void)close(clients[i]);
    all += drain(stream, 2 * PAGE_BYTES - all);
    assert_true(all >= 2 * PAGE_BYTES);
    (void)close(stream);
}

/* ---- who goes first ---- */

static const char admin[] = "pawl_admin_0123456789012345678901234567890123456789";

static const char *new_token(struct http_case *c, const char *as_admin)
{
    static const char body[] = "{\"name\":\"worker\",\"scopes\":[\"work\"]}";
    struct reply *reply = http_with(c, "POST", "/v1/tokens", as_admin, body, sizeof body - 1);
    assert_true(reply->status == 200 || reply->status == 201);
    return http_phrase(c, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n",
                       reply_text(c, reply, "token"));
}

static void a_heartbeat_does_not_wait_behind_reads(void **state)
{
    struct http_case *c = *state;
    enum { READS = 120 };
    struct server_options options = {.listen = STR("127.0.0.1:0"), .admin_token = str_from(admin)};
    int clients[READS];
    options.limits.bytes_max = 16 * (size_t)MIB;
    options.engine.store.create = true;
    submit_large_jobs(c);
    reopen(c, &options);
    const char *as_admin =
        http_phrase(c, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n", admin);
    static const char claim[] = "{\"worker_id\":\"w\"}";
    struct reply *reply = http_with(c, "POST", "/v1/claims", as_admin, claim, sizeof claim - 1);
    reply_is(reply, 200);
    const char *lease =
        http_phrase(c, "/v1/leases/%s/heartbeat", reply_text(c, reply, "claims.0.lease.token"));
    /* A token that the server has to look up. */
    const char *as_worker = new_token(c, as_admin);
    for (int i = 0; i < READS; i++) {
        clients[i] = connect_from(c, "127.0.0.1");
        assert_true(http_send(clients[i], list_all, sizeof list_all - 1));
    }
    int64_t start = http_now();
    reply_is(http_with(c, "POST", lease, as_worker, "{}", 2), 200);
    int64_t took = http_now() - start;
    int answered = count_answered(clients, READS);
    print_message("%lld ms, and %d of %d reads were answered\n", (long long)took, answered, READS);
    assert_true(answered < READS / 2);
    for (int i = 0; i < READS; i++)
        (void)close(clients[i]);
}

static void streams_leave_places_to_workers_who_wait(void **state)
{
    struct http_case *c = *state;
    enum { PLACES = 8, STREAMS = 6 };
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    static const char claim[] = "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                "application/json\r\nContent-Length: 33\r\n\r\n"
                                "{\"worker_id\":\"w\",\"wait_ms\":20000}";
    int streams[STREAMS];
    options.limits.parked = PLACES;
    reopen(c, &options);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = http_connect(c->port);
        assert_true(http_send(streams[i], follow_all, sizeof follow_all - 1));
    }
    await_answers(streams, STREAMS);
    int one_more = http_connect(c->port);
    assert_true(http_send(one_more, follow_all, sizeof follow_all - 1));
    await_answers(&one_more, 1);
    assert_int_equal(status_of(one_more), 503);
    int worker = http_connect(c->port);
    assert_true(http_send(worker, claim, sizeof claim - 1));
    while (figure(c, "pawl_http_parked_requests") < STREAMS + 1 && !is_answered(worker))
        pause_for(10);
    assert_false(is_answered(worker));
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"small\"}"), 201);
    await_answers(&worker, 1);
    (void)close(worker);
    (void)close(one_more);
    for (int i = 0; i < STREAMS; i++)
        (void)close(streams[i]);
}

static bool is_cut(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void who_has_nearly_all_of_its_connections_is_hurried_alone(void **state)
{
    struct http_case *c = *state;
    enum { MANY = 20, FEW = 3 };
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    int many[MANY];
    int few[FEW];
    options.limits.connections = 400;
    options.limits.connections_per_client = MANY;
    options.limits.idle_ms = 16 * 1000; /* or 2 s, in haste */
    reopen(c, &options);
    for (int i = 0; i < FEW; i++)
        few[i] = connect_from(c, "127.0.0.2");
    for (int i = 0; i < MANY; i++)
        many[i] = connect_from(c, "127.0.0.1");
    /* Of the last ones it may be that nobody hurries them any more, when others were cut before. */
    int64_t until = http_now() + 10 * 1000;
    while (!is_cut(many[0])) {
        assert_true(http_now() < until);
        pause_for(20);
    }
    for (int i = 0; i < FEW; i++) {
        assert_false(is_cut(few[i]));
        (void)close(few[i]);
    }
    for (int i = 0; i < MANY; i++)
        (void)close(many[i]);
}

/* ---- figures that take long to count ---- */

static PGconn *begin(struct http_case *c, const char *statement)
{
    PGconn *connection = PQconnectdb(c->url);
    PGresult *result = PQexec(connection, http_phrase(c, "BEGIN; %s", statement));
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(connection));
    PQclear(result);
    return connection;
}

static void a_count_that_takes_long_is_no_store_that_is_away(void **state)
{
    struct http_case *c = *state;
    enum { SCRAPES = 80 };
    static const char scrape[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int scrapers[SCRAPES];
    int refused = 0;
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"small\"}"), 201);
    assert_int_equal(figure(c, "pawl_store_up"), 1);
    PGconn *lock = begin(c, "LOCK TABLE pawl.resources IN ACCESS EXCLUSIVE MODE");
    struct reply *reply = http_call(c, "GET", "/metrics", NULL);
    reply_is(reply, 200);
    assert_non_null(strstr(reply->body, "\npawl_store_up 1\n"));
    assert_non_null(strstr(reply->body, "\npawl_queue_jobs{queue=\"default\",state=\"queued\"} 1"));
    const char *age = strstr(reply->body, "\npawl_store_figures_age_seconds ");
    assert_non_null(age);
    assert_true(strtod(strchr(age + 1, ' '), NULL) >= 1.5);
    /* Who is turned away meanwhile is counted. */
    for (int i = 0; i < SCRAPES; i++) {
        scrapers[i] = http_connect(c->port);
        assert_true(http_send(scrapers[i], scrape, sizeof scrape - 1));
    }
    int64_t until = http_now() + 10 * 1000;
    while (refused < SCRAPES - 70 && http_now() < until) {
        pause_for(10);
        refused = count_answered(scrapers, SCRAPES);
    }
    PQfinish(lock);
    await_answers(scrapers, SCRAPES);
    refused = 0;
    for (int i = 0; i < SCRAPES; i++) {
        refused += status_of(scrapers[i]) == 503 ? 1 : 0;
        (void)close(scrapers[i]);
    }
    assert_true(refused > 0);
    assert_int_equal(figure(c, "pawl_requests_shed_total"), refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_MEMORY(answers_that_nobody_takes_have_a_bounded_room),
        HTTP_ON_MEMORY(streams_that_wait_hold_little),
        HTTP_ON_MEMORY(a_stream_without_room_goes_on_later),
        HTTP_ON("sqlite", TEST_SQLITE, a_heartbeat_does_not_wait_behind_reads),
        HTTP_ON("postgres", TEST_POSTGRES, a_heartbeat_does_not_wait_behind_reads),
        HTTP_ON_MEMORY(streams_leave_places_to_workers_who_wait),
        HTTP_ON_MEMORY(who_has_nearly_all_of_its_connections_is_hurried_alone),
        HTTP_ON("postgres", TEST_POSTGRES, a_count_that_takes_long_is_no_store_that_is_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
