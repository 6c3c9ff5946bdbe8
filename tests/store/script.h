/* Random scripts of operations, from a seed: jobs and plans, claims, heartbeats, results, waits,
 * signals, effects, cancels, timers, settings, purges, redactions; good and bad ones mixed. */
#ifndef PAWL_TESTS_SCRIPT_H
#define PAWL_TESTS_SCRIPT_H

#include "players.h"

enum { SCRIPT_OPS = 10, SCRIPT_TOKENS = 12, SCRIPT_JOBS = 16, SCRIPT_RESOURCES = 3 };

/* What a script remembers, to make operations that mean something. */
struct script {
    uint64_t random;
    int64_t now;
    struct arena arena; /* for everything that operations point to */
    struct str tokens[SCRIPT_TOKENS];
    uint32_t token_count;
    struct uuid jobs[SCRIPT_JOBS];
    uint32_t job_count;
    struct resource resources[SCRIPT_RESOURCES];
    uint32_t ids; /* handed out */
};

void script_init(struct script *script, uint64_t seed, int64_t start);
void script_release(struct script *script);

/* The next batch: 1 to SCRIPT_OPS operations. */
uint32_t script_batch(struct script *script, struct op ops[SCRIPT_OPS]);

/* Learns tokens and jobs from what came of a batch. */
void script_learn(struct script *script, const struct op *ops, uint32_t count);

#endif
