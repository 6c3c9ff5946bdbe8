/* What cancel and requeue have in common: jobs by id, or all that pass a filter. */
#ifndef PAWL_CLI_STEER_H
#define PAWL_CLI_STEER_H

#include "cli/cli.h"

struct steer {
    const char *action; /* for pawl_bulk */
    const char *past;
    cli_call one;
    /* Adds what the verb's own options say to a request. */
    void (*put)(const struct args *args, struct pawl_object *request);
};

enum cli_exit steer_run(const struct args *args, const struct steer *steer);

#define FILTER_OPTION                                                                              \
    {                                                                                              \
        .name = "--filter", .value = "KEY=VALUE", .text = "jobs that match all filters",           \
        .times = OPTION_REPEATED                                                                   \
    }

#define FILTER_ABOUT                                                                               \
    "The keys of filters are status, kind, queue, agent, correlation, label (K:V) and\n"           \
    "created_after (a time, or 1h for the last hour).\n"

#endif
