/* What a caller can do to a job as it stands: for pages with a button for each, which so know no
 * rules of their own. */
#ifndef PAWL_CORE_ACTION_H
#define PAWL_CORE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "core/job.h"

/* The names are those of the operations, in the order in which they are told. */
#define JOB_ACTIONS(ACTION)                                                                        \
    ACTION(ANSWER, "answer") /* the job itself asks a person */                                    \
    ACTION(SIGNAL, "signal")                                                                       \
    ACTION(RUN, "run")         /* it is not due yet */                                             \
    ACTION(REQUEUE, "requeue") /* of a dead letter: redrive */                                     \
    ACTION(RESUME, "resume")   /* its queue is paused */                                           \
    ACTION(PLAN, "plan")                                                                           \
    ACTION(CANCEL, "cancel")                                                                       \
    ACTION(DEAD_LETTER, "dead_letter")                                                             \
    ACTION(DROP, "drop")                                                                           \
    ACTION(REDACT, "redact")

enum job_action {
#define ACTION_SYMBOL(symbol, name) ACTION_##symbol,
    JOB_ACTIONS(ACTION_SYMBOL)
#undef ACTION_SYMBOL
        JOB_ACTION_COUNT,
};

enum { JOB_ACTIONS_ALL = (1U << JOB_ACTION_COUNT) - 1 };

/* A bit for each that would not be refused for the state of the job. An action may still be refused
 * for what it brings along, or for parts of the job that its header does not tell. */
uint32_t job_actions(const struct job *job, bool queue_paused, int64_t now);

/* Writes their names as an array. */
void job_actions_write(uint32_t actions, struct json_writer *writer);

#endif
