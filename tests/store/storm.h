/* A claim storm: many claimers on one store at once, and a count of everything that must be so
 * afterwards. */
#ifndef PAWL_TESTS_STORM_H
#define PAWL_TESTS_STORM_H

#include <stdint.h>

#include "store/store.h"

struct storm {
    uint32_t claimers; /* threads */
    uint32_t jobs;
    uint32_t max; /* asked for in one claim: 1 to this */
    uint64_t seed;
};

/* Submits the jobs, in batches. Aborts, saying why, when the store fails; so does the rest. */
void storm_submit(struct store *store, const struct storm *storm);

/* Lets the claimers claim and complete until nothing is left to claim. `taken` has room for the
 * number of each job that was claimed, as its payload tells: each claim adds one to its entry.
 * Returns how many times a claim was given more than it asked for. */
uint64_t storm_run(struct store *store, const struct storm *storm, uint32_t *taken);

/* Reads every job again: each must have ended, with exactly one event for each transition: created,
 * leased, running, completed. Returns how many have not. */
uint64_t storm_check(struct store *store, const struct storm *storm, uint64_t *ret_jobs);

#endif
