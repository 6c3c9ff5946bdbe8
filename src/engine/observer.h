/* What the engine tells anyone who watches it, for figures, traces and logs: what was committed,
 * what was refused, and what the store could not do.
 *
 * An observer never changes anything, and must never block: it is called on the threads that do the
 * work. What it is shown is gone when it returns. */
#ifndef PAWL_ENGINE_OBSERVER_H
#define PAWL_ENGINE_OBSERVER_H

#include <stdint.h>

#include "base/error.h"
#include "core/event.h"
#include "core/job.h"

struct op;
struct maintenance_report;

/* The events of one job in a batch. Steps and effects are there as far as they were loaded: those
 * that the events are about always are. */
struct job_change {
    const struct job_slice *before; /* its status is JOB_NONE when the job is new */
    const struct job_slice *after;
    const struct event *events; /* TELEMETRY ones too */
    uint32_t event_count;
};

struct batch_report {
    int64_t now;       /* the store's time */
    int64_t took_us;   /* all of it, from loading to the end of the commit, */
    int64_t commit_us; /* and the commit of that */
    struct op *const *ops;
    uint32_t op_count;        /* with what came of each */
    uint32_t claim_conflicts; /* how often a claim lost work to somebody else: it was found taken or
                                 locked, or nothing was left of what the claim was woken for */
    const struct job_change *changes;
    uint32_t change_count;
};

struct observer {
    /* A batch was committed: told once for each, on the thread that runs batches, before any of its
     * callers is. */
    void (*committed)(void *arg, const struct batch_report *report);
    /* A batch was not: the store is away, or there is no memory, or it refused. On that thread. */
    void (*failed)(void *arg, enum error_code code);
    /* A maintenance task has run (engine/maintenance.h). On that thread. */
    void (*maintained)(void *arg, const struct maintenance_report *report);
    /* A call was turned away, since too much was waiting. On the caller's thread. */
    void (*shed)(void *arg);
    void *arg;
};

#endif
