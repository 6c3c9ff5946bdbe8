/* Plans that a verb is given: JSON or YAML, as an argument, in a file or on stdin. */
#ifndef PAWL_CLI_PLAN_FILE_H
#define PAWL_CLI_PLAN_FILE_H

#include "cli/cli.h"

/* Reads what was said: a plan in JSON, @FILE or - (stdin). `what` says where, for complaints. A
 * file is JSON, or YAML which becomes JSON; a list alone becomes {"steps": [...]}. To be freed.
 * CLI_USAGE: it is neither. CLI_FAILED: the file cannot be read. */
enum cli_exit plan_input(const struct args *args, const char *what, const char *said,
                         char **ret_plan);

/* The same for an argument that is a file: PATH, @PATH or -. */
enum cli_exit plan_file(const struct args *args, const char *path, char **ret_plan);

#endif
