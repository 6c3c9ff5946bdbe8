/* Jobs one after the other: those that are named, all of them, or all that pass a filter. */
#ifndef PAWL_CLI_WALK_H
#define PAWL_CLI_WALK_H

#include "cli/cli.h"
#include "cli/filter.h"
#include "cli/progress.h"
#include "cli/steer.h"

struct walk {
    const struct args *args;
    struct pawl *pawl;
    const char *past;         /* what becomes of them, "verified" */
    bool silent;              /* without a progress bar */
    struct progress progress; /* a visitor that prints something takes it away first */

    /* Called for each job. Anything but CLI_DONE ends the walk and is what came of it. */
    enum cli_exit (*visit)(struct walk *walk, const char *id);
    void *arg;

    bool named; /* by the user: one that is not there is an error, and else was deleted since */
    long long count; /* of jobs that were visited */
};

#define WALK_OPTIONS {.name = "--all", .text = "all jobs of the store"}, FILTER_OPTION

/* Whether it was said which jobs are meant, in one way only. */
enum cli_exit walk_check(const struct args *args);

/* Goes through them, the newest first, page after page. Jobs that come in meanwhile may be left
 * out. */
enum cli_exit walk_run(struct walk *walk);

#endif
