/* Sends spans to a collector: OTLP over HTTP, in its JSON form, from a thread of its own.
 *
 * Anyone who has spans puts them into a bounded backlog and goes on. A collector that is slow or
 * away costs spans, which are counted, and nothing else. */
#ifndef PAWL_SERVER_OTLP_H
#define PAWL_SERVER_OTLP_H

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/observer.h"
#include "server/log.h"
#include "server/trace.h"

struct otlp;

struct otlp_options {
    struct str endpoint;  /* the whole URL: "http://127.0.0.1:4318/v1/traces" */
    struct str headers;   /* "name=value,name=value", as OpenTelemetry writes them; absent: none */
    struct str ca_file;   /* PEM, instead of the system's authorities; absent: those */
    struct str service;   /* its name; absent: "pawl" */
    struct str instance;  /* which one of several; absent: not said */
    int64_t timeout_ms;   /* of one request; 0: 10 s */
    size_t backlog_bytes; /* of spans that wait; 0: 4 MiB, which is some 8,000 */
    struct log *log; /* told when the collector is away, and when it is back; NULL: nobody is */
};

/* What became of all spans so far. */
struct otlp_counts {
    uint64_t exported; /* the collector has them */
    uint64_t dropped;  /* there was no room */
    uint64_t failed;   /* the collector did not take them, or could not be reached for too long */
};

/* bad_request: an option is wrong; unavailable, no_memory. Nobody is asked at that address yet. */
enum error_code otlp_open(const struct otlp_options *options, struct otlp **ret, struct err *err);

/* Sends what is waiting, within `wait_ms`, and ends. NULL does nothing. */
void otlp_close(struct otlp *otlp, int64_t wait_ms);

/* As struct observer tells it. NULL does nothing. */
void otlp_committed(struct otlp *otlp, const struct batch_report *report);

/* Takes a span; never waits. From any thread. */
void otlp_put(struct otlp *otlp, const struct span *span);

/* All zero for NULL. From any thread. */
struct otlp_counts otlp_counts(struct otlp *otlp);

/* ---- its form ---- */

/* A span as bytes that can be kept, and read again: `ret` points into them. False: invalid. */
bool span_read(struct str record, struct span *ret);

/* Writes one span as OTLP has it. */
void otlp_write_span(const struct span *span, struct buf *buf);

#endif
