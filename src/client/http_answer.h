/* An answer of HTTP/1.x, read from the bytes of a connection as they come: its status, the few
 * headers that matter, and where its body ends. Knows no connection, and no libcurl.
 *
 * What can be read in two ways is refused: two lengths, a length that is no number, a coding other
 * than chunked, a header that goes on in the next line. */
#ifndef PAWL_CLIENT_HTTP_ANSWER_H
#define PAWL_CLIENT_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum answer_stage {
    ANSWER_STATUS,     /* the first line is to come */
    ANSWER_HEADERS,    /* or a header, or the empty line behind them */
    ANSWER_BODY,       /* `left` bytes */
    ANSWER_CHUNK_SIZE, /* the line before a chunk */
    ANSWER_CHUNK,      /* `left` bytes of one */
    ANSWER_CHUNK_END,  /* the end of its line */
    ANSWER_TRAILERS,   /* headers behind the last one */
    ANSWER_REST,       /* everything until the connection ends is the body */
    ANSWER_OVER,       /* it is all here */
    ANSWER_BROKEN,     /* it is not HTTP */
    ANSWER_TOO_LARGE,
    ANSWER_NO_MEMORY,
};

struct http_answer {
    size_t head_left; /* bytes that headers, and lines between chunks, may still have */
    size_t body_left; /* and those that the body may */

    enum answer_stage stage; /* begins with ANSWER_STATUS */
    uint64_t left;
    long status;
    bool is_problem;        /* application/problem+json */
    bool keeps;             /* the connection may be used again when the answer is over */
    int64_t retry_after_ms; /* 0: it does not say */
    bool has_length;
    bool is_chunked;
    uint64_t length;
};

/* Takes what has come, as far as it can, and adds what is of the body to `body`. Returns how many
 * bytes it took: the others are the beginning of a line whose end is to come, or behind the
 * answer. */
size_t http_answer_take(struct http_answer *answer, struct str bytes, struct buf *body);

/* `len` bytes of the body (ANSWER_BODY) were put there by the caller. */
void http_answer_took(struct http_answer *answer, size_t len);

/* The connection has ended; whether the answer was whole. */
bool http_answer_end(struct http_answer *answer);

#endif
