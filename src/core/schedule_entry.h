/* In which lane a job or step can be claimed, and when the engine must look at it again. Computed
 * from its state alone, so that a store knows the old entry without searching for it. */
#ifndef PAWL_CORE_SCHEDULE_ENTRY_H
#define PAWL_CORE_SCHEDULE_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/command_type.h"
#include "core/decide.h"
#include "core/job.h"

struct schedule_entry {
    struct str lane; /* key of the lane that it can be claimed from; absent: from none */
    int64_t priority;
    int64_t run_at; /* from when it can be claimed */
    int64_t due_at; /* when the engine must act: a lease, a wait or a life ends, a cancel turns
                       hard, a step that waits by itself begins; 0: never. With a live lease
                       heartbeats may have moved it since: then the engine finds nothing to do and
                       looks again at the new time */
    bool leased;    /* somebody holds it: the lease is live, and so is the job */
};

/* Whether somebody holds it: the steps of a job that has ended stay as they are, but no lease of
 * theirs counts. */
bool lease_holds(const struct lease *lease, const struct job *job);

/* Where the job itself stands; a job with a plan is never in a lane, its steps are. Fails as
 * lane_key_of_job. */
enum error_code schedule_entry_of_job(const struct job *job, struct arena *arena,
                                      struct schedule_entry *ret, struct err *err);

/* Where a step stands. What `job` says of all its steps counts too: see job_takes_step_claims. */
enum error_code schedule_entry_of_step(const struct job *job, const struct step *step,
                                       struct arena *arena, struct schedule_entry *ret,
                                       struct err *err);

/* Whether steps of this job may be claimed at all (when they are due). When this turns false, every
 * step of the job leaves its lane. It turns true again with PLAN or REQUEUE, which have all steps
 * at hand, or with the answer that ends a wait for steps: while a job waits for its steps none of
 * them is ready or held, so that only the step that was answered and its children, which are at
 * hand, come to stand in a lane. */
bool job_takes_step_claims(const struct job *job);

/* Whether somebody is asked something in this job, so that it is to be shown to people: the job
 * itself waits for a person, or a step of its plan waits for an answer (steps that wait for
 * something else by themselves count too: the header cannot tell them apart). Ended jobs ask
 * nobody, nor does a plan that is about to be replaced. */
bool job_asks(const struct job *job);

/* The command to give at `context->now` to a job (`step` NULL) or step whose time has come: EXPIRE,
 * WAKE, CANCEL_DUE or LIFETIME; COMMAND_NONE when it is not due after all. `ret_next` is then when
 * to look again, or 0 for never. */
enum command_type schedule_entry_due(const struct job *job, const struct step *step,
                                     const struct context *context, int64_t *ret_next);

#endif
