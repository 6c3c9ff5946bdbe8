/* Connections to a server, and one exchange at a time on each: the only place of the client that
 * moves bytes. libcurl makes connections, encrypts them and moves what goes over them; the requests
 * and answers of HTTP/1.1 are ours (http_answer.h).
 *
 * A connection is kept for the next exchange. There are as many as there are exchanges at once, up
 * to a bound, of which a part is left to those that do not wait. Certificates are checked; neither
 * redirects nor proxies are followed, so that a token goes nowhere but where it was meant to. */
#ifndef PAWL_CLIENT_HTTP_LINES_H
#define PAWL_CLIENT_HTTP_LINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "client/http_request.h"

enum {
    HTTP_LINES_MAX = 64,
    HTTP_LINES_WAITING_MAX = 48, /* for exchanges that wait */
    HTTP_HEADER_BYTES_MAX = 64 * 1024,
    HTTP_REASON_BYTES = 256,
};

struct http_lines;

struct http_lines_options {
    const char *base;    /* "http://host:port", and maybe a path, without a slash at the end */
    const char *token;   /* printable ASCII without blanks; NULL: none */
    const char *actor;   /* who we say that we are, without control characters; NULL: nobody */
    const char *ca_file; /* whom to trust; NULL: whom the system trusts */
    int64_t timeout_ms;  /* how long to wait for a connection, and for a free one */
    size_t answer_bytes_max;
};

struct http_exchange {
    struct http_request request;
    const char *key;         /* NULL: none */
    int64_t answer_ms;       /* how long it may take in all */
    bool waits;              /* on purpose, so that it must not keep others out */
    const atomic_bool *stop; /* ends it when true and http_lines_wake was called; NULL: never */

    /* What came of it. */
    long status;
    bool is_problem;                /* the body is application/problem+json */
    int64_t retry_after_ms;         /* 0: it does not say */
    char reason[HTTP_REASON_BYTES]; /* in words, when there is no answer */
};

enum http_outcome {
    HTTP_ANSWERED,  /* with whatever status */
    HTTP_NOT_SENT,  /* nobody is there: nothing has been sent */
    HTTP_LOST,      /* the connection has ended before the whole answer was here */
    HTTP_LATE,      /* there was no answer in time */
    HTTP_STOPPED,   /* `stop` has become true */
    HTTP_BUSY,      /* all connections are in use */
    HTTP_UNTRUSTED, /* the server is not the one that it should be, or its certificate is invalid */
    HTTP_BROKEN,    /* what came is not HTTP */
    HTTP_TOO_LARGE, /* the answer is too long */
    HTTP_NO_MEMORY,
};

/* Connects to nobody yet. The texts of `options` are copied. no_memory. */
enum error_code http_lines_new(const struct http_lines_options *options, struct http_lines **ret,
                               struct err *err);

/* No exchange may be under way. NULL does nothing. */
void http_lines_free(struct http_lines *lines);

/* Sends a request, and adds the body of what is answered to `answer`; parts of one, too, when it
 * fails. Any number of threads may do so at once. */
enum http_outcome http_lines_exchange(struct http_lines *lines, struct http_exchange *exchange,
                                      struct buf *answer);

/* Every exchange that is under way looks whether it is to stop. */
void http_lines_wake(struct http_lines *lines);

#endif
