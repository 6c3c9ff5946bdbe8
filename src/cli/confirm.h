/* Asking before something is destroyed. */
#ifndef PAWL_CLI_CONFIRM_H
#define PAWL_CLI_CONFIRM_H

#include "cli/cli.h"

#define CONFIRM_OPTION                                                                             \
    {                                                                                              \
        .name = "--yes", .text = "do not ask for confirmation"                                     \
    }

/* CLI_DONE with --yes, or when "yes" is typed on a terminal. `format` says what will happen, as the
 * rest of "This ...". CLI_USAGE without a terminal, CLI_FAILED when something else is typed; both
 * were said. The verb must take CONFIRM_OPTION. */
enum cli_exit confirm(const struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
