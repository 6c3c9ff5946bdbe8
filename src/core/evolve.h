/* The fold: one event into the state of its job. Production, replay, recovery, verify and the
 * simulator all use this and nothing else. */
#ifndef PAWL_CORE_EVOLVE_H
#define PAWL_CORE_EVOLVE_H

#include "base/arena.h"
#include "base/error.h"
#include "core/event.h"
#include "core/job.h"

/* Folds `event` into `slice`. The event must be opened (or come from decide). What it says
 * happened, legal or not: judging is verify's work. Fails, with the slice to be thrown away, with
 * no_memory, or with corrupt when the event names an effect, signal or step that the slice does not
 * have, or is not the next version. Views of the event are kept. */
enum error_code job_evolve(struct job_slice *slice, const struct event *event, struct arena *arena,
                           struct err *err);

#endif
