/* What approve and reject have in common: a person's answer to a job or to one of its steps. */
#ifndef PAWL_CLI_VERDICT_H
#define PAWL_CLI_VERDICT_H

#include "cli/cli.h"

enum cli_exit verdict_run(const struct args *args, bool approved);

#define VERDICT_OPTIONS                                                                            \
    {.name = "--answer", .value = "A", .text = "the answer: one of the choices, JSON or text"},    \
        {.name = "--result",                                                                       \
         .value = "JSON",                                                                          \
         .field = "result",                                                                        \
         .text = "with --answer done: the result of the effect"},                                  \
        {.name = "--comment",                                                                      \
         .value = "TEXT",                                                                          \
         .field = "comment",                                                                       \
         .text = "comment, stored with the answer and passed to the worker"},                      \
    {                                                                                              \
        .name = "--by", .value = "NAME", .field = "by", .text = "who answers (default: USER)"      \
    }

#endif
