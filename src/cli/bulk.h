/* Verbs that act on many jobs: page by page, with a progress bar, and one count at the end. */
#ifndef PAWL_CLI_BULK_H
#define PAWL_CLI_BULK_H

#include "cli/cli.h"

struct bulk {
    cli_call call;    /* pawl_bulk, pawl_redrive or pawl_drop */
    const char *past; /* "cancelled" */

    /* Makes the request, but for what bulk_run adds: limit, rate_per_s, dry_run, cursor. NULL: no
     * memory. */
    struct pawl_object *(*request)(const struct args *args, void *arg);
    void *arg;
};

#define BULK_OPTIONS                                                                               \
    {.name = "--rate", .value = "N", .text = "maximum number of jobs per second"},                 \
    {                                                                                              \
        .name = "--dry-run", .text = "only count, change nothing"                                  \
    }

/* Does all of it and prints the counts: as words, or with --json as {"matched", "done",
 * "refused"}. */
enum cli_exit bulk_run(const struct args *args, struct pawl *pawl, const struct bulk *bulk);

/* How many jobs it would be, as a dry run counts them. */
enum cli_exit bulk_count(const struct args *args, struct pawl *pawl, const struct bulk *bulk,
                         long long *ret_count);

/* Does `call` for each word from `first` on: `put` adds to the request what else it needs. Prints
 * each job and its status, or with --json the answers. Goes on when one fails; the exit code is the
 * first one's that did. */
enum cli_exit each_run(const struct args *args, struct pawl *pawl, size_t first, cli_call call,
                       void (*put)(const struct args *args, struct pawl_object *request));

#endif
