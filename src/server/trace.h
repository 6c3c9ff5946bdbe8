/* Spans: what has ended in a batch, as traces show it.
 *
 * A span is made when it ends, from what the store says: which server saw it begin, and whether
 * that one still lives, makes no difference. Ids are those of core/trace_context.h. Payloads,
 * results, messages and reasons that people write are in none of them.
 *
 * What never ends has no span: an effect that was begun and not committed, and a step that somebody
 * works on while its job is cancelled or fails (the end of a job does not load its steps). */
#ifndef PAWL_SERVER_TRACE_H
#define PAWL_SERVER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/trace_context.h"
#include "engine/observer.h"

/* clang-format off */
/* The tree of them:
 *
 *   job KIND          from its creation, or its new start, to its end; a child of the caller's span
 *     attempt KIND    from the lease to its end
 *       effect        from tool_called to tool_returned or tool_aborted
 *     step KIND       the same for a step of a plan
 *       effect
 *     wait TYPE       of the job, or of a step that asks
 */
/* clang-format on */

/* As OTLP numbers them. */
enum span_kind { SPAN_INTERNAL = 1, SPAN_CLIENT = 3, SPAN_CONSUMER = 5 };

/* What a span says, each text as an attribute of that name. */
#define SPAN_TEXTS(TEXT)                                                                           \
    TEXT(JOB_KIND, "pawl.job.kind")                                                                \
    TEXT(QUEUE, "pawl.queue")                                                                      \
    TEXT(CORRELATION_ID, "pawl.correlation_id")                                                    \
    TEXT(AGENT_ID, "pawl.agent.id")                                                                \
    TEXT(WORKER_ID, "pawl.worker.id")                                                              \
    TEXT(RESOURCE_ID, "pawl.resource.id")                                                          \
    TEXT(STEP, "pawl.step.id")                                                                     \
    TEXT(STEP_KIND, "pawl.step.kind")                                                              \
    TEXT(EFFECT_KEY, "pawl.effect.key")                                                            \
    TEXT(WAIT_TYPE, "pawl.wait.type")                                                              \
    TEXT(OUTCOME, "pawl.outcome")                                                                  \
    TEXT(CAUSE, "pawl.cause")                                                                      \
    TEXT(ERROR, "error.type")

enum span_text {
#define SPAN_SYMBOL(symbol, name) SPAN_##symbol,
    SPAN_TEXTS(SPAN_SYMBOL)
#undef SPAN_SYMBOL
        SPAN_TEXT_COUNT,
};

struct span {
    struct trace_context context;
    uint8_t parent_id[SPAN_ID_LEN]; /* all zero: none */
    enum span_kind kind;
    int64_t start_ms;
    int64_t end_ms;
    struct uuid job;
    int64_t epoch;
    int64_t attempt; /* 0: it is not of one */
    struct str name; /* "attempt"; what follows it is the text `of` */
    enum span_text of;
    struct str texts[SPAN_TEXT_COUNT]; /* absent: it says nothing of that. ERROR: it went wrong */
};

/* Receivers of spans copy them. */
struct span_taker {
    void (*take)(void *arg, const struct span *span);
    void *arg;
};

/* Tells of every span that ends in a change of a job; of none when the trace is not to be kept. */
void trace_change(const struct job_change *change, const struct span_taker *taker);

/* The name of a text, as an attribute. */
struct str span_text_name(enum span_text text);

#endif
