/* Clients that take their time, and too many of them: others are served meanwhile. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
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

enum { STALLED = 300 };

static void pause_for(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

/* Whether the other side has hung up. */
static bool is_cut(int fd)
{
    char bytes[4096];
    ssize_t got;
    do
        got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static bool is_cut_within(int fd, int ms)
{
    int64_t until = http_now() + ms;
    while (!is_cut(fd)) {
        if (http_now() > until)
            return false;
        pause_for(10);
    }
    return true;
}

static void stalled_clients_are_cut_off_and_hinder_nobody(void **state)
{
    struct http_case *c = *state;
    static const char begun[] =
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{\"kind\"";
    static const char *const parts[] = {"", "GET /v1/jo", "GET /v1/jobs HTTP/1.1\r\nHost: local",
                                        begun};
    int clients[STALLED];
    for (int i = 0; i < STALLED; i++) {
        const char *part = parts[i % 4];
        clients[i] = http_connect(c->port);
        assert_true(clients[i] >= 0);
        assert_true(http_send(clients[i], part, strlen(part)));
    }
    int64_t start = http_now();
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\"}"), 201);
    assert_true(http_now() - start < 1000);
    for (int i = 0; i < STALLED; i++) {
        assert_true(is_cut_within(clients[i], 10 * 1000));
        (void)close(clients[i]);
    }
}

/* ---- somebody who works meanwhile ---- */

struct busy_worker {
    struct http_case *c;
    pthread_t thread;
    atomic_bool stop;
    atomic_bool ended; /* it has stopped, also by itself */
    atomic_int done;
    _Atomic(int64_t) slowest_ms;
};

/* One exchange on a connection of its own; the status. */
static int exchange(const struct http_case *c, const char *path, const char *body, char *ret,
                    size_t size)
{
    char request[1024];
    size_t got;
    int len = snprintf(request, sizeof request,
                       "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
                       "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       path, strlen(body), body);
    int fd = http_connect(c->port);
    if (fd < 0 || !http_send(fd, request, (size_t)len))
        return 0;
    char *text = http_read(fd, 10 * 1000, &got);
    int status = got > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
    (void)snprintf(ret, size, "%s", text);
    free(text);
    (void)close(fd);
    return status;
}

/* Submits a job, takes it and completes it. */
static bool work_once(const struct http_case *c)
{
    char answer[16 * 1024];
    char path[256];
    static const char wanted[] = "\"token\":\"";
    if (exchange(c, "/v1/jobs", "{\"kind\":\"k\"}", answer, sizeof answer) != 201 ||
        exchange(c, "/v1/claims", "{\"worker_id\":\"w\"}", answer, sizeof answer) != 200)
        return false;
    const char *token = strstr(answer, wanted);
    if (token == NULL)
        return false;
    token += sizeof wanted - 1;
    (void)snprintf(path, sizeof path, "/v1/leases/%.*s/complete", (int)strcspn(token, "\""), token);
    return exchange(c, path, "{\"result\":1}", answer, sizeof answer) == 200;
}

static void *keep_working(void *arg)
{
    struct busy_worker *worker = arg;
    while (!atomic_load(&worker->stop)) {
        int64_t start = http_now();
        if (!work_once(worker->c))
            break;
        int64_t took = http_now() - start;
        if (took > atomic_load(&worker->slowest_ms))
            atomic_store(&worker->slowest_ms, took);
        (void)atomic_fetch_add(&worker->done, 1);
    }
    atomic_store(&worker->ended, true);
    return NULL;
}

static void start_worker(struct busy_worker *worker, struct http_case *c)
{
    memset(worker, 0, sizeof *worker);
    worker->c = c;
    assert_int_equal(pthread_create(&worker->thread, NULL, keep_working, worker), 0);
}

/* The worker has never been refused, nor waited for long. */
static void end_worker(struct busy_worker *worker, int done_min)
{
    int64_t until = http_now() + 20 * 1000;
    while (atomic_load(&worker->done) < done_min && !atomic_load(&worker->ended) &&
           http_now() < until)
        pause_for(5);
    atomic_store(&worker->stop, true);
    (void)pthread_join(worker->thread, NULL);
    print_message("%d jobs meanwhile, the slowest took %lld ms\n", atomic_load(&worker->done),
                  (long long)atomic_load(&worker->slowest_ms));
    assert_true(atomic_load(&worker->done) >= done_min);
    assert_true(atomic_load(&worker->slowest_ms) < 2000);
}

static long resident_mib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*s %ld", &pages), 1); /* NOLINT: the kernel wrote it */
    (void)fclose(file);
    return pages / (1024 * 1024 / 4096);
}

/* Clients that send much of a large body and then nothing: all of it together is bounded, and given
 * back. */
static void large_bodies_that_do_not_end_take_a_bounded_room(void **state)
{
    struct http_case *c = *state;
    enum { SENT = 512 * 1024, ROOM_MIB = 32 };
    static const char head[] =
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 8000000\r\n\r\n";
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    struct busy_worker worker;
    int clients[STALLED];
    options.limits.bytes_max = (size_t)ROOM_MIB * 1024 * 1024;
    options.limits.receive_ms = 3000;
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    char *spaces = malloc(SENT);
    assert_non_null(spaces);
    memset(spaces, ' ', SENT);
    long before = resident_mib();
    for (int i = 0; i < STALLED; i++) {
        struct timeval patience = {.tv_usec = 200 * 1000};
        clients[i] = http_connect(c->port);
        assert_true(clients[i] >= 0);
        (void)setsockopt(clients[i], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        assert_true(http_send(clients[i], head, sizeof head - 1));
        (void)http_send(clients[i], spaces, SENT);
    }
    /* As long as any of them is there. */
    int64_t until = http_now() + 10 * 1000;
    long grown = 0;
    for (int i = 0; i < STALLED; i++)
        while (!is_cut(clients[i])) {
            long now = resident_mib() - before;
            grown = now > grown ? now : grown;
            assert_true(http_now() < until);
            pause_for(5);
        }
    print_message("%d clients with %d KiB each: %ld MiB more\n", STALLED, SENT / 1024, grown);
#if !defined(__SANITIZE_THREAD__) /* which has four times as much memory of its own */
    assert_true(grown < ROOM_MIB * 4);
#endif
    for (int i = 0; i < STALLED; i++)
        (void)close(clients[i]);
    free(spaces);
    start_worker(&worker, c);
    end_worker(&worker, 10);
}

static void others_work_on_while_clients_stall_and_vanish(void **state)
{
    struct http_case *c = *state;
    static const char claim[] = "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                "application/json\r\nContent-Length: 47\r\n\r\n"
                                "{\"worker_id\":\"g\",\"kinds\":[\"x\"],\"wait_ms\":5000}";
    static const char *const parts[] = {"GET /v1/jo", claim,
                                        "POST /v1/jobs HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
                                        "GET /v1/feed HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    struct busy_worker worker;
    int clients[STALLED];
    int64_t start = http_now();
    start_worker(&worker, c);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < STALLED; i++) {
            const char *part = parts[i % 4];
            clients[i] = http_connect(c->port);
            assert_true(clients[i] >= 0);
            (void)http_send(clients[i], part, strlen(part));
        }
        for (int i = 0; i < STALLED; i++)
            (void)close(clients[i]);
    }
    print_message("%d clients in %lld ms\n", 3 * STALLED, (long long)(http_now() - start));
    end_worker(&worker, 20);
    /* Nobody who has gone got a job. */
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"x\"}"), 201);
    struct reply *reply = http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"there\"}");
    assert_int_equal(reply_int(reply, "claims.0.lease.attempt"), 1);
}

/* Requests without a Host: libmicrohttpd refuses them itself, also while it is being stopped. */
static void a_server_ends_while_bad_requests_come_in(void **state)
{
    struct http_case *c = *state;
    enum { ROUNDS = 20, CLIENTS = 100 };
    static const char bad[] = "GET /v1/jobs HTTP/1.1\r\n\r\n";
    const struct server_options options = {.listen = STR("127.0.0.1:0")};
    int clients[CLIENTS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = http_connect(c->port);
            assert_true(clients[i] >= 0);
        }
        reply_is(http_call(c, "GET", "/healthz", NULL), 200);
        for (int i = 0; i < CLIENTS; i++)
            (void)http_send(clients[i], bad, sizeof bad - 1);
        server_close(c->server);
        c->server = NULL;
        for (int i = 0; i < CLIENTS; i++)
            (void)close(clients[i]);
        http_open(c, &options);
    }
}

static void a_byte_now_and_then_does_not_keep_a_connection(void **state)
{
    struct http_case *c = *state;
    static const char request[] =
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 100000\r\n\r\n";
    int fd = http_connect(c->port);
    assert_true(http_send(fd, request, sizeof request - 1));
    int64_t start = http_now();
    while (!is_cut(fd) && http_now() - start < 10 * 1000) {
        (void)http_send(fd, " ", 1);
        pause_for(50);
    }
    assert_true(http_now() - start < 5 * 1000);
    (void)close(fd);
}

/* What a request on a connection that stays open is answered with, up to `size` bytes; its status,
 * 0 when the server hangs up. */
static int answered_on(int fd, char *ret, size_t size)
{
    static const char request[] = "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const struct timeval patience = {.tv_sec = 10};
    size_t len = 0;
    ret[0] = '\0';
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (!http_send(fd, request, sizeof request - 1))
        return 0;
    while (len + 1 < size && strstr(ret, "\r\n\r\n") == NULL) {
        ssize_t got = recv(fd, ret + len, size - len - 1, 0);
        if (got <= 0)
            return 0;
        len += (size_t)got;
        ret[len] = '\0';
    }
    return (int)strtol(ret + strlen("HTTP/1.1 "), NULL, 10);
}

static void connections_beyond_the_limit_of_an_address_get_503(void **state)
{
    struct http_case *c = *state;
    enum { ALLOWED = 20, TRIED = 60 };
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    int clients[TRIED];
    int served = 0;
    char text[2048];
    options.limits.connections = 100;
    options.limits.connections_per_client = ALLOWED;
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    for (int i = 0; i < TRIED; i++)
        clients[i] = http_connect(c->port);
    for (int i = 0; i < TRIED; i++) {
        assert_true(clients[i] >= 0);
        int status = answered_on(clients[i], text, sizeof text);
        served += status == 200;
        if (status == 200)
            continue;
        assert_int_equal(status, 503);
        assert_non_null(strstr(text, "Retry-After: "));
    }
    assert_int_equal(served, ALLOWED);
    for (int i = 0; i < TRIED; i++)
        if (clients[i] >= 0)
            (void)close(clients[i]);
    /* As soon as the server has seen that they are gone there is room. */
    int64_t until = http_now() + 10 * 1000;
    while (http_call(c, "GET", "/healthz", NULL)->status != 200) {
        assert_true(http_now() < until);
        pause_for(5);
    }
}

static void connections_that_do_nothing_make_room_for_others(void **state)
{
    struct http_case *c = *state;
    enum { ALLOWED = 40 };
    struct server_options options = {.listen = STR("127.0.0.1:0"), .threads = 1};
    int clients[ALLOWED];
    options.limits.connections = ALLOWED;
    options.limits.connections_per_client = ALLOWED;
    options.limits.idle_ms = 8000;
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    for (int i = 0; i < ALLOWED; i++) {
        clients[i] = http_connect(c->port);
        assert_true(clients[i] >= 0);
    }
    /* Much sooner than the connections would be cut off otherwise. */
    int64_t start = http_now();
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
    assert_true(http_now() - start < 5000);
    for (int i = 0; i < ALLOWED; i++)
        (void)close(clients[i]);
}

static void waits_beyond_the_limit_are_answered_at_once(void **state)
{
    struct http_case *c = *state;
    struct server_options options = {.listen = STR("127.0.0.1:0"), .threads = 1};
    static const char request[] = "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                  "application/json\r\nContent-Length: 33\r\n\r\n"
                                  "{\"worker_id\":\"w\",\"wait_ms\":20000}";
    options.limits.parked = 2;
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    int first = http_connect(c->port);
    int second = http_connect(c->port);
    assert_true(http_send(first, request, sizeof request - 1));
    assert_true(http_send(second, request, sizeof request - 1));
    http_await_parked(c, 2);
    int64_t start = http_now();
    struct reply *reply =
        http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w\",\"wait_ms\":20000}");
    reply_is(reply, 200);
    assert_string_equal(reply->body, "{\"claims\":[]}");
    assert_true(http_now() - start < 2000);
    (void)close(first);
    (void)close(second);
}

static void a_server_for_everybody_needs_a_token(void **state)
{
    struct http_case *c = *state;
    struct server *server;
    struct err err = {0};
    struct server_options options = {.listen = STR("0.0.0.0:0")};
    assert_int_equal(server_open(STR("memory:"), &options, &server, &err), ERR_BAD_REQUEST);
    options.admin_token = STR("a-secret-of-more-than-16-bytes");
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    reply_refuses(http_call(c, "GET", "/v1/jobs", NULL), 401, "unauthorized");
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
    reply_refuses(http_with(c, "GET", "/v1/jobs", "Authorization: Bearer wrong\r\n", NULL, 0), 401,
                  "unauthorized");
    reply_is(http_with(c, "GET", "/v1/jobs",
                       "Authorization: Bearer a-secret-of-more-than-16-bytes\r\n", NULL, 0),
             200);
}

/* A reply to a request for a page that requires a token, from any address: its status. */
static int status_at(const char *address, uint16_t port, const char *host, const char *token)
{
    char request[512];
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    assert_true(is_v4 || inet_pton(AF_INET6, address, &v6.sin6_addr) == 1);
    const struct sockaddr *to = is_v4 ? (const void *)&v4 : (const void *)&v6;
    int fd = socket(to->sa_family, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, to, is_v4 ? sizeof v4 : sizeof v6), 0);
    int len =
        snprintf(request, sizeof request,
                 "GET /v1/jobs HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", host, token);
    assert_true(http_send(fd, request, (size_t)len));
    size_t got;
    char *text = http_read(fd, 10 * 1000, &got);
    int status = got > 12 ? (int)strtol(text + 9, NULL, 10) : 0;
    free(text);
    (void)close(fd);
    return status;
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof any) == 0;
    if (fd >= 0)
        (void)close(fd);
    return has;
}

static void a_port_alone_is_that_port_on_all_addresses_and_needs_a_token(void **state)
{
    struct http_case *c = *state;
    static const char token[] = "Authorization: Bearer a-secret-of-more-than-16-bytes\r\n";
    struct server *server;
    struct err err = {0};
    struct server_options options = {.listen = STR(":0")};
    assert_int_equal(server_open(STR("memory:"), &options, &server, &err), ERR_BAD_REQUEST);
    options.admin_token = STR("a-secret-of-more-than-16-bytes");
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    assert_int_equal(status_at("127.0.0.1", c->port, "localhost", token), 200);
    assert_int_equal(status_at("127.0.0.1", c->port, "localhost", ""), 401);
    if (!has_ipv6())
        return;
    assert_int_equal(status_at("::1", c->port, "localhost", token), 200);
    assert_int_equal(status_at("::1", c->port, "localhost", ""), 401);
}

static void loopback_by_the_name_of_ipv6_is_loopback(void **state)
{
    struct http_case *c = *state;
    struct server_options options = {.listen = STR("[::ffff:127.0.0.1]:0")};
    if (!has_ipv6())
        skip();
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    assert_int_equal(status_at("127.0.0.1", c->port, "localhost", ""), 200);
    assert_int_equal(status_at("127.0.0.1", c->port, "[::ffff:127.0.0.1]:7295", ""), 200);
    assert_int_equal(status_at("127.0.0.1", c->port, "[::ffff:8.8.8.8]", ""), 403);
    assert_int_equal(status_at("127.0.0.1", c->port, "[::ffff:127.0.0.1", ""), 403);
    assert_int_equal(status_at("127.0.0.1", c->port, "[::ffff:]", ""), 403);
}

static void wrong_options_are_refused_with_the_reason(void **state)
{
    struct server *server;
    static const char *const wrong[] = {
        "7295",         "localhost", "127.0.0.1:99999", "127.0.0.1:", "no.such.name.invalid:1",
        "127.0.0.1:0x1"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct err err = {0};
        struct server_options options = {.listen = str_from(wrong[i])};
        assert_int_equal(server_open(STR("memory:"), &options, &server, &err), ERR_BAD_REQUEST);
        assert_non_null(strstr(err.detail, wrong[i]));
    }
    struct err err = {0};
    struct server_options options = {.certificate = STR("/nowhere")};
    assert_int_equal(server_open(STR("memory:"), &options, &server, &err), ERR_BAD_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_HASTY(stalled_clients_are_cut_off_and_hinder_nobody),
        HTTP_ON_MEMORY(large_bodies_that_do_not_end_take_a_bounded_room),
        HTTP_ON_MEMORY(others_work_on_while_clients_stall_and_vanish),
        HTTP_ON_MEMORY(a_server_ends_while_bad_requests_come_in),
        HTTP_HASTY(a_byte_now_and_then_does_not_keep_a_connection),
        HTTP_ON_MEMORY(connections_beyond_the_limit_of_an_address_get_503),
        HTTP_ON_MEMORY(connections_that_do_nothing_make_room_for_others),
        HTTP_ON_MEMORY(waits_beyond_the_limit_are_answered_at_once),
        HTTP_ON_MEMORY(a_server_for_everybody_needs_a_token),
        HTTP_ON_MEMORY(a_port_alone_is_that_port_on_all_addresses_and_needs_a_token),
        HTTP_ON_MEMORY(loopback_by_the_name_of_ipv6_is_loopback),
        cmocka_unit_test(wrong_options_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
