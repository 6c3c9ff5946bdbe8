/* Pausing and resuming queues. */
#ifndef PAWL_CLI_QUEUE_SWITCH_H
#define PAWL_CLI_QUEUE_SWITCH_H

#include "cli/cli.h"

struct queue_switch {
    cli_call call;
    const char *past; /* "paused" */
    bool can_create;  /* the verb takes --create, for queues that are not known yet */
};

/* Switches every queue that is named, and goes on when one fails; the exit code is that of the
 * first that did. CLI_NOT_FOUND: no queue with that name holds jobs or is paused. */
enum cli_exit queue_switch(const struct args *args, const struct queue_switch *how);

#endif
