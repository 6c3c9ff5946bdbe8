/* Randomness from a seed, of two kinds: streams that each part of the world has for itself, and
 * random_fill, which the engine calls for ids and tokens, in place of the system's. */
#ifndef PAWL_SIM_VIRTUAL_RANDOM_H
#define PAWL_SIM_VIRTUAL_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

/* A stream of its own for each pair of numbers, so that what one draws changes nothing for others.
 */
struct rng rng_new(uint64_t seed, uint64_t stream);

uint64_t rng_next(struct rng *rng);

/* From 0 to `limit` - 1; from `low` to `high`; and whether something happens, in thousandths. */
uint64_t rng_below(struct rng *rng, uint64_t limit);
int64_t rng_between(struct rng *rng, int64_t low, int64_t high);
bool rng_chance(struct rng *rng, uint32_t per_mille);

/* Starts what random_fill gives anew. */
void virtual_random_start(uint64_t seed);

/* The same, and every call of it gives the same bytes: what is tried again comes to the same. */
void virtual_random_repeat(uint64_t seed);

#endif
