/* What approve and reject have in common: a person's answer to a job or to one of its steps. */
#ifndef PAWL_CLI_VERDICT_H
#define PAWL_CLI_VERDICT_H

#include "cli/cli.h"

enum cli_exit verdict_run(const struct args *args, bool approved);

#define VERDICT_OPTIONS                                                                            \
    {.name = "--answer", .value = "A", .text = "the answer: JSON, or else a text"},                \
    {                                                                                              \
        .name = "--by", .value = "NAME", .text = "who answers; else USER"                          \
    }

#endif
