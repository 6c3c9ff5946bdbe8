/* Random lives of jobs, from a seed: commands good and bad, stale tokens, clocks that jump, and a
 * judge beside each.
 *
 * A run submits one job and gives it random commands. Each answer is held against what the state
 * before allows, told in a few lines that share nothing with decide; in the end the whole history
 * is checked. */
#ifndef PAWL_TESTS_RANDOM_COMMANDS_H
#define PAWL_TESTS_RANDOM_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

struct random_stats {
    uint64_t runs;
    uint64_t commands;
    uint64_t accepted;
    uint64_t events;
    uint64_t by_command[COMMAND_CANCEL_DUE + 1]; /* accepted */
    uint64_t by_status[JOB_STATUS_COUNT];        /* at the end */
    uint64_t by_step_state[STEP_STATE_COUNT];    /* entered */
};

/* One life. NULL when all is well; else what is wrong, as text in the world's arena. `plans`: the
 * job carries a plan. */
const char *random_run(struct world *world, uint64_t seed, bool plans, struct random_stats *stats);

#endif
