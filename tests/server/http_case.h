/* A server on a store of its own, and plain HTTP spoken to it over sockets, byte by byte where that
 * matters. */
#ifndef PAWL_TESTS_HTTP_CASE_H
#define PAWL_TESTS_HTTP_CASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/server.h"
#include "store/test_stores.h"

struct http_case {
    struct test_stores stores;
    enum test_store sort;
    char url[1024];
    struct server *server;
    uint16_t port;
    struct reply *replies; /* all that came, until the end */
};

struct reply {
    struct reply *next;
    int status; /* 0: none came */
    const char *head;
    const char *body;
    size_t body_len;
    char text[];
};

/* Setup and teardown for cmocka; the initial state says which store. */
int http_setup(void **state);
int http_teardown(void **state);

/* The same with the server's limits made small: a request has 500 ms to come in. */
int http_setup_hasty(void **state);

/* Opens a server on the store of the case. */
void http_open(struct http_case *c, const struct server_options *options);

#define HTTP_ON(store, sort, test)                                                                 \
    {                                                                                              \
#test " on " store, test, http_setup, http_teardown, (void *)(uintptr_t)(sort)             \
    }
#define HTTP_ON_EVERY_STORE(test)                                                                  \
    HTTP_ON("memory", TEST_MEMORY, test), HTTP_ON("sqlite", TEST_SQLITE, test),                    \
        HTTP_ON("postgres", TEST_POSTGRES, test)
#define HTTP_ON_MEMORY(test)                                                                       \
    {                                                                                              \
#test, test, http_setup, http_teardown, (void *)(uintptr_t)TEST_MEMORY                     \
    }
#define HTTP_HASTY(test)                                                                           \
    {                                                                                              \
#test, test, http_setup_hasty, http_teardown, (void *)(uintptr_t)TEST_MEMORY               \
    }

/* A connection to the server; -1: none. */
int http_connect(uint16_t port);
bool http_send(int socket, const void *bytes, size_t len);

/* Reads until the other side closes, or `wait_ms` have gone by without a byte. To be freed. */
char *http_read(int socket, int wait_ms, size_t *ret_len);

/* Sends bytes as they are on a connection of its own and reads what comes until it is closed. */
struct reply *http_raw(struct http_case *c, const char *bytes, size_t len);

/* A request with a JSON body (NULL: none), as for printf. */
struct reply *http_call(struct http_case *c, const char *method, const char *path,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same with headers, each ended by \r\n, and a body as it is. */
struct reply *http_with(struct http_case *c, const char *method, const char *path,
                        const char *headers, const char *body, size_t body_len);

/* A text of the reply's JSON, "" for none; lives as long as the case. */
const char *reply_text(struct http_case *c, const struct reply *reply, const char *path);
long long reply_int(const struct reply *reply, const char *path);

/* Fails unless the reply has that status; and, for errors, that code in problem+json. */
void reply_is(const struct reply *reply, int status);
void reply_refuses(const struct reply *reply, int status, const char *code);

/* Text as of printf that lives as long as the case. */
const char *http_phrase(struct http_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

int64_t http_now(void);

/* A figure without labels from /metrics, and waiting until it is so. */
long long http_metric(struct http_case *c, const char *name);
void http_await_metric(struct http_case *c, const char *name, long long value);

/* Waits until so many requests wait for something. */
void http_await_parked(struct http_case *c, long long count);

#endif
