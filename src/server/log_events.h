/* What the engine does, as lines of the log: events of jobs, and what operators do.
 *
 * What went wrong and what somebody decided is told at info and above, everything else at debug.
 * Of what people and workers write, only names are told: ids, kinds, queues, keys. */
#ifndef PAWL_SERVER_LOG_EVENTS_H
#define PAWL_SERVER_LOG_EVENTS_H

#include <stdatomic.h>

#include "base/arena.h"
#include "engine/observer.h"
#include "server/log.h"

/* What the lines of a server's engine need besides the log. */
struct log_events {
    struct log *log;    /* NULL: none */
    struct arena arena; /* of the engine's thread */
    int64_t failed_at;  /* when a failure was last told, on a steady clock; the engine's thread */
    uint64_t failures;  /* since then */
    _Atomic(int64_t) shed_at;
    _Atomic(uint64_t) shed;
};

void log_events_init(struct log_events *events, struct log *log);
void log_events_release(struct log_events *events);

/* As struct observer tells it. */
void log_committed(struct log_events *events, const struct batch_report *report);
void log_failed(struct log_events *events, enum error_code code);
void log_shed(struct log_events *events);

#endif
