/* What pause and resume have in common: queues by name. */
#ifndef PAWL_CLI_QUEUE_SWITCH_H
#define PAWL_CLI_QUEUE_SWITCH_H

#include "cli/cli.h"

enum cli_exit queue_switch(const struct args *args, cli_call call, const char *past);

#endif
