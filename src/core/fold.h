/* What the parts of evolve share; no one else includes this. */
#ifndef PAWL_CORE_FOLD_H
#define PAWL_CORE_FOLD_H

#include "core/event.h"
#include "core/job.h"

/* corrupt: the event names something that the slice does not have. */
enum error_code fold_corrupt(struct err *err, const struct event *event, const char *what,
                             struct str name);

/* Begins a lease with the event's terms. */
void lease_begin(struct lease *lease, const struct event *event);

/* Ends a live lease. It forgets what heartbeats moved: the event that ends it carries what must
 * stay. */
void lease_end(struct lease *lease, const struct event *event);

/* What the event says is waited for. */
struct wait wait_of(const struct event *event);

/* Before a claim: who was never claimed has no effects and no waits. Of any other whose row does
 * not say so nothing is known. */
void note_no_records(int64_t attempt, int64_t *records_end);

/* Takes over what the event recorded of the heartbeats, and notes that in `changed`. */
void keep_beats(const struct event_data *data, struct str *progress, struct str *cursor,
                uint8_t *changed);

/* Takes the signal that the event delivers: one that came with it, or a stored one. */
enum error_code take_signal(struct job_slice *slice, const struct event *event, struct arena *arena,
                            struct err *err);

/* plan_generated: the steps of a new plan, or of the same one again (evolve_steps.c). */
enum error_code plan_fold(struct job_slice *slice, const struct event *event, struct arena *arena,
                          struct err *err);

/* step_*: one step, and what its success means for those that depend on it (evolve_steps.c). */
enum error_code step_fold(struct job_slice *slice, const struct event *event, struct arena *arena,
                          struct err *err);

#endif
