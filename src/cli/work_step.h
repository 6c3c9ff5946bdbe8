/* What 'pawl work' does differently for steps of plans: what their command is given, and what a
 * critic says of one. */
#ifndef PAWL_CLI_WORK_STEP_H
#define PAWL_CLI_WORK_STEP_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"

/* What the command of a task gets on stdin: the payload of a job; of a step {"payload", "inputs",
 * "answer"?}, for a critic also its "result". To be freed; NULL: no memory. */
char *step_input(const struct pawl_task *task, bool judge);

/* Passes on what a critic has printed: a decision, as a text or in {"decision", "reason"?,
 * "result"?, "question"?}. */
enum pawl_code step_verdict(const struct pawl_task *task, const char *output, size_t len,
                            struct pawl_error *error);

#endif
