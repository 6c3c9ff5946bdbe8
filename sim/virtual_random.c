#include "virtual_random.h"

#include "base/random.h"

/* random_fill has no argument to keep it in. */
static struct rng filling;
static bool repeating;
static struct rng repeated;

struct rng rng_new(uint64_t seed, uint64_t stream)
{
    struct rng rng = {seed * UINT64_C(0x9e3779b97f4a7c15) + stream};
    rng.state = rng_next(&rng) ^ (stream << 32);
    return rng;
}

/* SplitMix64. */
uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    return rng_next(rng) % limit;
}

int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(rng, (uint64_t)(high - low + 1));
}

bool rng_chance(struct rng *rng, uint32_t per_mille)
{
    return rng_below(rng, 1000) < per_mille;
}

void virtual_random_start(uint64_t seed)
{
    filling = rng_new(seed, UINT64_C(0x66696c6c));
    repeating = false;
}

void virtual_random_repeat(uint64_t seed)
{
    virtual_random_start(seed);
    repeated = filling;
    repeating = true;
}

void random_fill(void *ret, size_t len)
{
    uint8_t *at = ret;
    uint64_t word = 0;
    if (repeating)
        filling = repeated;
    for (size_t i = 0; i < len; i++) {
        if (i % 8 == 0)
            word = rng_next(&filling);
        at[i] = (uint8_t)(word >> (i % 8 * 8));
    }
}
