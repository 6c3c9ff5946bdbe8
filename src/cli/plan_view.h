/* Plans for people: the steps as a tree, and what changed from one version to another. */
#ifndef PAWL_CLI_PLAN_VIEW_H
#define PAWL_CLI_PLAN_VIEW_H

#include "cli/cli.h"

/* Prints what pawl_steps answered: each step once, below the one of its dependencies that it had to
 * wait for longest. CLI_FAILED: there was no memory, which was said. */
enum cli_exit plan_print(const struct verb *verb, struct pawl_json answer);

/* Prints what pawl_plan_diff answered. */
void plan_diff_print(struct pawl_json answer);

#endif
