#define _GNU_SOURCE /* NOLINT: strcasestr, memmem */
#include "server/http_case.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pawl.h"

enum { PATIENCE_MS = 20 * 1000 };

int64_t http_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the server ---- */

void http_open(struct http_case *c, const struct server_options *options)
{
    struct err err = {0};
    if (server_open(str_from(c->url), options, &c->server, &err) != ERR_OK)
        fail_msg("%s: %s", c->url, err.detail);
    c->port = server_port(c->server);
}

static int setup(void **state, const struct server_limits *limits)
{
    struct http_case *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -1;
    c->sort = (enum test_store)(uintptr_t)*state;
    test_stores_init(&c->stores);
    (void)snprintf(c->url, sizeof c->url, "%s", test_stores_fresh(&c->stores, c->sort));
    struct server_options options = {.listen = STR("127.0.0.1:0"), .limits = *limits};
    options.engine.store.create = true;
    http_open(c, &options);
    *state = c;
    return 0;
}

int http_setup(void **state)
{
    return setup(state, &(struct server_limits){0});
}

int http_setup_hasty(void **state)
{
    return setup(state, &(struct server_limits){.receive_ms = 500, .idle_ms = 1000});
}

int http_teardown(void **state)
{
    struct http_case *c = *state;
    server_close(c->server);
    while (c->replies != NULL) {
        struct reply *next = c->replies->next;
        free(c->replies);
        c->replies = next;
    }
    test_stores_release(&c->stores);
    free(c);
    return 0;
}

/* ---- sockets ---- */

int http_connect(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

bool http_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

char *http_read(int fd, int wait_ms, size_t *ret_len)
{
    size_t cap = 64 * 1024;
    size_t len = 0;
    char *text = malloc(cap + 1);
    for (;;) {
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        if (text == NULL)
            abort();
        if (poll(&entry, 1, wait_ms) <= 0)
            break;
        ssize_t got = recv(fd, text + len, cap - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        if (len == cap) {
            cap *= 2;
            text = realloc(text, cap + 1);
        }
    }
    text[len] = '\0';
    *ret_len = len;
    return text;
}

/* ---- requests ---- */

static struct reply *keep(struct http_case *c, const char *text, size_t len)
{
    struct reply *reply = calloc(1, sizeof *reply + len + 1);
    if (reply == NULL)
        abort();
    memcpy(reply->text, text, len);
    reply->next = c->replies;
    c->replies = reply;
    return reply;
}

const char *http_phrase(struct http_case *c, const char *format, ...)
{
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = malloc((size_t)len + 1);
    if (text == NULL)
        abort();
    (void)vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    const struct reply *kept = keep(c, text, (size_t)len);
    free(text);
    return kept->text;
}

static void parse(struct reply *reply, size_t len)
{
    char *end = memmem(reply->text, len, "\r\n\r\n", 4);
    reply->head = reply->text;
    reply->body = "";
    if (end == NULL || strncmp(reply->text, "HTTP/1.1 ", 9) != 0)
        return;
    reply->status = (int)strtol(reply->text + 9, NULL, 10);
    *end = '\0';
    reply->body = end + 4;
    reply->body_len = len - (size_t)(reply->body - reply->text);
}

struct reply *http_raw(struct http_case *c, const char *bytes, size_t len)
{
    size_t got = 0;
    int fd = http_connect(c->port);
    assert_true(fd >= 0);
    (void)http_send(fd, bytes, len);
    char *text = http_read(fd, PATIENCE_MS, &got);
    struct reply *reply = keep(c, text, got);
    free(text);
    (void)close(fd);
    parse(reply, got);
    return reply;
}

struct reply *http_with(struct http_case *c, const char *method, const char *path,
                        const char *headers, const char *body, size_t body_len)
{
    size_t room = strlen(path) + strlen(headers) + body_len + 256;
    char *request = malloc(room);
    if (request == NULL)
        abort();
    int len =
        snprintf(request, room, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s",
                 method, path, headers);
    if (body != NULL)
        len += snprintf(request + len, room - (size_t)len, "Content-Length: %zu\r\n", body_len);
    len += snprintf(request + len, room - (size_t)len, "\r\n");
    if (body != NULL)
        memcpy(request + len, body, body_len);
    struct reply *reply = http_raw(c, request, (size_t)len + body_len);
    free(request);
    return reply;
}

struct reply *http_call(struct http_case *c, const char *method, const char *path,
                        const char *format, ...)
{
    va_list args;
    char *body = NULL;
    int len = 0;
    if (format == NULL)
        return http_with(c, method, path, "", NULL, 0);
    va_start(args, format);
    len = vasprintf(&body, format, args);
    va_end(args);
    assert_true(len >= 0);
    struct reply *reply =
        http_with(c, method, path, "Content-Type: application/json\r\n", body, (size_t)len);
    free(body);
    return reply;
}

/* ---- what came ---- */

const char *reply_text(struct http_case *c, const struct reply *reply, const char *path)
{
    char *text = pawl_json_text(pawl_json_get(pawl_json_read(reply->body), path));
    if (text == NULL)
        abort();
    const struct reply *kept = keep(c, text, strlen(text));
    pawl_free(text);
    return kept->text;
}

long long reply_int(const struct reply *reply, const char *path)
{
    return pawl_json_int(pawl_json_get(pawl_json_read(reply->body), path), -1);
}

void reply_is(const struct reply *reply, int status)
{
    if (reply->status != status)
        fail_msg("%d was to come, but this did: %.200s\n%.500s", status, reply->head, reply->body);
}

void reply_refuses(const struct reply *reply, int status, const char *code)
{
    struct pawl_json body = pawl_json_read(reply->body);
    reply_is(reply, status);
    assert_non_null(strcasestr(reply->head, "application/problem+json"));
    if (!pawl_json_is(pawl_json_get(body, "code"), code))
        fail_msg("%s was to come: %s", code, reply->body);
    assert_int_equal(pawl_json_int(pawl_json_get(body, "status"), 0), status);
    assert_true(pawl_json_type(pawl_json_get(body, "title")) == 's');
    assert_true(pawl_json_type(pawl_json_get(body, "detail")) == 's');
}

/* ---- figures ---- */

long long http_metric(struct http_case *c, const char *name)
{
    struct reply *reply = http_call(c, "GET", "/metrics", NULL);
    reply_is(reply, 200);
    const char *line = http_phrase(c, "\n%s ", name);
    const char *at = strstr(reply->body, line);
    if (at == NULL)
        fail_msg("there is no %s", name);
    return strtoll(at + strlen(line), NULL, 10);
}

void http_await_metric(struct http_case *c, const char *name, long long value)
{
    int64_t until = http_now() + 20 * 1000;
    long long found;
    while ((found = http_metric(c, name)) != value) {
        const struct timespec pause = {.tv_nsec = 5 * 1000000};
        if (http_now() > until)
            fail_msg("%s is %lld and not %lld", name, found, value);
        (void)nanosleep(&pause, NULL);
    }
}

void http_await_parked(struct http_case *c, long long count)
{
    http_await_metric(c, "pawl_http_parked_requests", count);
}
