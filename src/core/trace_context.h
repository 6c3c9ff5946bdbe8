/* The trace that a job belongs to, as W3C Trace Context has it, and the ids of the spans that stand
 * for it and its parts.
 *
 * Every id is made from what the job itself says, and nothing else: the server that ends a span
 * names the same one as the server that began it or has its child, whichever server that was and
 * whenever. */
#ifndef PAWL_CORE_TRACE_CONTEXT_H
#define PAWL_CORE_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "core/job.h"

enum {
    TRACE_ID_LEN = 16,
    SPAN_ID_LEN = 8,
    TRACEPARENT_LEN = 55, /* 00-(32 digits)-(16 digits)-(2 digits) */
    TRACE_SAMPLED = 1,    /* the flag: the caller wants this trace to be kept */
};

struct trace_context {
    uint8_t trace_id[TRACE_ID_LEN];
    uint8_t span_id[SPAN_ID_LEN]; /* all zero: none */
    uint8_t flags;
};

/* Reads a traceparent of version 00: lower-case digits, and no id that is all zero. */
bool trace_parse(struct str text, struct trace_context *ret);

/* The same for one that came with a message from anywhere: one of a later version is read as far as
 * it is like this one, as W3C asks for. */
bool trace_parse_any(struct str text, struct trace_context *ret);

/* Writes it, no NUL. */
void trace_format(const struct trace_context *context, char ret[TRACEPARENT_LEN]);

/* Where a job comes from: the traceparent that it was submitted with, or, without one, a trace of
 * its own, whose id is the job's id, without a span above it. */
struct trace_context trace_of_job(const struct job *job);

/* The correlation id of a job or of one of its events, as it is shown: the one it was submitted
 * with, or, without one, the job's own id, written to `text`. It is derived and never stored, so
 * neither rows nor hashes have it. */
struct str correlation_shown(struct str stored, struct uuid job, char text[UUID_TEXT_LEN]);

/* The other way around, for histories that were shown and come back: a job's own id stands for
 * none. (Nobody can submit a job with its own id as the correlation id, since the id is not known
 * before.) */
struct str correlation_stored(struct str shown, struct uuid job);

/* The spans. Their ids are made from the job's id and what is named here. */
struct trace_context trace_of_epoch(const struct job *job, int64_t epoch);
struct trace_context trace_of_attempt(const struct job *job, int64_t attempt);
struct trace_context trace_of_step(const struct job *job, struct str step, int64_t attempt);
struct trace_context trace_of_effect(const struct job *job, const struct effect *effect);
struct trace_context trace_of_wait(const struct job *job, struct str step, const struct wait *wait);

#endif
