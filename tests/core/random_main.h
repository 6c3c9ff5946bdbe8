/* The main of the random tests: as many lives as the budget says, from a seed.
 *
 * PAWL_SEED=N starts elsewhere, PAWL_RUNS=N runs that many, TORTURE=1 runs twenty times as many. A
 * failing seed prints its history; PAWL_SEED=<seed> PAWL_RUNS=1 repeats it. */
#ifndef PAWL_TESTS_RANDOM_MAIN_H
#define PAWL_TESTS_RANDOM_MAIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_commands.h"

static uint64_t random_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* Runs the lives and fails on the first that is not clean. Every command and status must have been
 * reached. */
static inline struct random_stats random_lives(uint64_t runs, bool plans)
{
    struct world world;
    struct random_stats stats = {0};
    uint64_t seed = random_setting("PAWL_SEED", 1);
    if (getenv("TORTURE") != NULL)
        runs *= 20;
    runs = random_setting("PAWL_RUNS", runs);
    world_init(&world, seed);
    for (uint64_t i = 0; i < runs; i++) {
        const char *fault = random_run(&world, seed + i, plans, &stats);
        if (fault != NULL) {
            print_error("seed %" PRIu64 ": %s\n%s\n", seed + i, fault, world_trace(&world));
            world_release(&world);
            fail();
        }
    }
    world_release(&world);
    print_message("%" PRIu64 " lives, %" PRIu64 " commands, %" PRIu64 " accepted, %" PRIu64
                  " events\n",
                  stats.runs, stats.commands, stats.accepted, stats.events);
    return stats;
}

#endif
