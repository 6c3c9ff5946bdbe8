/* Beside the random lives: what is told to stores of a job is true.
 *
 * After each command the job and its parts are written as stores keep them and read back, and where
 * they stand is compared with what job_decide would do to them. */
#ifndef PAWL_TESTS_RANDOM_PLACEMENT_H
#define PAWL_TESTS_RANDOM_PLACEMENT_H

#include "core/resource.h"
#include "world.h"

/* A command that was carried out: `given` became world->slice. */
struct placed {
    struct world *world;
    const struct job_slice *given;
    const struct command *command;
    const struct resource *resources; /* on which steps may be claimed */
    uint32_t resource_count;
    const struct str *tokens; /* handed out in this life; absent ones are passed over */
    uint32_t token_count;
};

/* The job as texts and back: the header and the parts that the command changed; `all`: every part,
 * and the spec. NULL when all is well, else what is wrong; so below. */
const char *states_survive(const struct placed *placed, bool all);

/* What a command changed for steps that it did not move, which nobody writes, is no more than a
 * store is told of them all. */
const char *schedule_entries_follow(const struct placed *placed);

/* Schedule entries against decisions: every claim, token and deadline is tried. Slow. */
const char *schedule_entries_hold(const struct placed *placed);

#endif
