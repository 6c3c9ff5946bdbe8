/* Clients that take their time, and too many of them: others are served meanwhile. */
#include <errno.h>
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

static void one_address_does_not_get_all_connections(void **state)
{
    struct http_case *c = *state;
    enum { ALLOWED = 20, TRIED = 60 };
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    int clients[TRIED];
    int cut = 0;
    options.limits.connections = 100;
    options.limits.connections_per_client = ALLOWED;
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    for (int i = 0; i < TRIED; i++)
        clients[i] = http_connect(c->port);
    pause_for(500);
    for (int i = 0; i < TRIED; i++) {
        cut += clients[i] < 0 || is_cut(clients[i]) ? 1 : 0;
        if (clients[i] >= 0)
            (void)close(clients[i]);
    }
    assert_int_equal(cut, TRIED - ALLOWED);
    pause_for(200);
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
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
    options.limits.parked_per_thread = 2;
    server_close(c->server);
    c->server = NULL;
    http_open(c, &options);
    int first = http_connect(c->port);
    int second = http_connect(c->port);
    assert_true(http_send(first, request, sizeof request - 1));
    assert_true(http_send(second, request, sizeof request - 1));
    pause_for(200);
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
        HTTP_HASTY(a_byte_now_and_then_does_not_keep_a_connection),
        HTTP_ON_MEMORY(one_address_does_not_get_all_connections),
        HTTP_ON_MEMORY(connections_that_do_nothing_make_room_for_others),
        HTTP_ON_MEMORY(waits_beyond_the_limit_are_answered_at_once),
        HTTP_ON_MEMORY(a_server_for_everybody_needs_a_token),
        cmocka_unit_test(wrong_options_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
