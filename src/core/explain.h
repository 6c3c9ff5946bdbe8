/* Why a job is where it is, and what would move it: in plain words, for people.
 *
 * Everything is read off the state; nothing is decided here. Commands that are named are those of
 * the command line, complete with ids, so that they can be copied. */
#ifndef PAWL_CORE_EXPLAIN_H
#define PAWL_CORE_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "core/job.h"
#include "core/spec.h"
#include "core/worker.h"

struct explain_context {
    int64_t now;
    bool queue_paused;                     /* the job's queue is */
    const struct kind_settings *kind;      /* of the job's kind; NULL: none set */
    uint32_t may;                          /* bit per enum job_action: what the caller may do */
    const struct worker_coverage *workers; /* that are registered, for the job; NULL: not known */
    struct arena *arena;                   /* for what is needed on the way */
};

/* Writes {"status", "summary", "reasons": [text], "moves": [text], "actions": [name]} where the
 * writer stands. `slice` is the job with all of its steps; a job that there is. `actions` are those
 * of core/action.h that the job takes and the caller may do. What memory is lacking for shows in
 * the writer's buffer. */
void job_explain(const struct job_slice *slice, const struct explain_context *context,
                 struct json_writer *writer);

#endif
