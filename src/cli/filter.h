/* Which jobs are meant: filters as options and as --filter KEY=VALUE, and the rules of retries that
 * several verbs take. */
#ifndef PAWL_CLI_FILTER_H
#define PAWL_CLI_FILTER_H

#include "cli/cli.h"

/* What pawl_list takes, made of --filter KEY=VALUE. *ret_filter is for pawl_object_free. CLI_USAGE:
 * a filter is wrong, and that was said. */
enum cli_exit filter_read(const struct args *args, struct pawl_object **ret_filter);

/* Adds --created-after or the like: a time, or a duration for so long ago. */
enum cli_exit filter_put_time(const struct args *args, const char *what, const char *said,
                              struct pawl_object *request, const char *key);

#define RETRY_OPTIONS                                                                              \
    {.name = "--max-attempts",                                                                     \
     .value = "N",                                                                                 \
     .field = "retry.max_attempts",                                                                \
     .text = "maximum number of attempts"},                                                        \
        {.name = "--strategy",                                                                     \
         .value = "exponential|linear|fixed",                                                      \
         .field = "retry.strategy",                                                                \
         .text = "backoff strategy"},                                                              \
        {.name = "--initial-delay",                                                                \
         .value = "D",                                                                             \
         .field = "retry.initial_ms",                                                              \
         .text = "delay after the first failure"},                                                 \
        {.name = "--max-delay",                                                                    \
         .value = "D",                                                                             \
         .field = "retry.max_ms|max_ms",                                                           \
         .text = "maximum delay"},                                                                 \
        {.name = "--jitter", .value = "none|equal|full", .text = "jitter of the delay"},           \
        {.name = "--on-exhausted",                                                                 \
         .value = "dead_letter|fail",                                                              \
         .text = "outcome when the retries are exhausted"},                                        \
    {                                                                                              \
        .name = "--on-permanent", .value = "fail|dead_letter",                                     \
        .text = "outcome of a failure that is not retried"                                         \
    }

/* Adds "retry" to a request when one of the RETRY_OPTIONS was given. */
enum cli_exit retry_put(const struct args *args, struct pawl_object *request);

#endif
