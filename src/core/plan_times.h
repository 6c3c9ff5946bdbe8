/* When the steps of a plan ran, read off the job's history, and the chain of them that decides how
 * long the plan takes. */
#ifndef PAWL_CORE_PLAN_TIMES_H
#define PAWL_CORE_PLAN_TIMES_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "core/event.h"
#include "core/job.h"

struct step_times {
    int64_t started_at;  /* its first lease, under the plan that holds; 0: not yet */
    int64_t ended_at;    /* succeeded or failed; 0: not yet */
    int64_t answered_at; /* its last question; 0: never */
};

/* Takes one event of the history after the other, opened and oldest first. `times` has a place,
 * zero at first, for each step of the slice, in which the whole plan is loaded. */
void step_times_note(const struct job_slice *slice, const struct event *event,
                     struct step_times *times);

/* After the last event: forgets times of an earlier life of steps that begin anew. */
void step_times_settle(const struct job_slice *slice, struct step_times *times);

/* From the first lease to the end, or to `now`: retries, rests and questions are part of it. 0 when
 * it has not begun. */
int64_t step_duration_ms(const struct step_times *times, int64_t now);

/* The chain of steps, each depending on the one before it, that took longest, or has taken so far;
 * of several the one with the most steps. */
struct critical_path {
    uint32_t *steps; /* places in the slice */
    uint32_t count;
    int64_t duration_ms;  /* of its steps together */
    uint32_t *reached_by; /* of each step: the one before it on its longest chain; MAP_NONE: none */
};

/* Fails with no_memory, and with corrupt when a child is not in the slice. */
enum error_code critical_path_find(const struct job_slice *slice, const struct step_times *times,
                                   int64_t now, struct arena *arena, struct critical_path *ret,
                                   struct err *err);

#endif
