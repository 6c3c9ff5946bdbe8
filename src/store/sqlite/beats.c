#include "store/sqlite/beats.h"

#include <assert.h>
#include <stddef.h>

void beats_init(struct beats *beats, uint64_t seed)
{
    *beats = (struct beats){.seed = seed};
    arena_init(&beats->arenas[0]);
    arena_init(&beats->arenas[1]);
    map_init(&beats->map, &beats->arenas[0], 0, seed);
}

void beats_release(struct beats *beats)
{
    arena_release(&beats->arenas[0]);
    arena_release(&beats->arenas[1]);
}

/* The job's id and the step, which stand one behind the other. */
static struct str key_of(const struct beat *beat)
{
    _Static_assert(offsetof(struct beat, step) == sizeof beat->job, "a key without a gap");
    return (struct str){(const char *)beat, sizeof beat->job + sizeof beat->step};
}

struct beat beat_of(const struct uuid *job, uint32_t step, const struct claim_row *claim)
{
    return (struct beat){
        .job = *job,
        .step = step,
        .attempt = claim->attempt,
        .expires_at = claim->expires_at,
        .beat_at = claim->beat_at,
    };
}

/* Moves the table to the other arena, without what has ended and with room for `cap`. On failure
 * the table stays where it is. */
static bool rebuild(struct beats *beats, uint32_t cap)
{
    struct arena *arena = &beats->arenas[1 - beats->arena];
    struct map map;
    map_init(&map, arena, cap, beats->seed);
    struct beat *at = arena_zalloc(arena, cap, sizeof *at);
    if (at == NULL || !map_reserve(&map, cap)) {
        arena_release(arena);
        return false;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < beats->count; i++) {
        uint32_t found;
        if (beats->at[i].attempt == 0)
            continue;
        at[count] = beats->at[i];
        (void)map_put(&map, key_of(&at[count]), count, &found);
        count++;
    }
    arena_release(&beats->arenas[beats->arena]);
    beats->arena = 1 - beats->arena;
    beats->map = map;
    beats->at = at;
    beats->count = beats->live = count;
    beats->cap = cap;
    return true;
}

bool beats_reserve(struct beats *beats, uint32_t more)
{
    assert(beats->live <= BEATS_MAX);
    if (more > BEATS_MAX - beats->live)
        return false;
    if (more <= beats->cap - beats->count)
        return true;
    uint32_t cap = 64;
    while (cap < 2 * (beats->live + more))
        cap *= 2;
    return rebuild(beats, cap);
}

void beats_put(struct beats *beats, const struct beat *beat)
{
    uint32_t index = map_get(&beats->map, key_of(beat));
    if (index == MAP_NONE && beat->attempt == 0)
        return;
    if (index == MAP_NONE) {
        uint32_t found;
        assert(beats->count < beats->cap);
        index = beats->count++;
        beats->at[index] = (struct beat){.job = beat->job, .step = beat->step};
        (void)map_put(&beats->map, key_of(&beats->at[index]), index, &found);
    }
    struct beat *kept = &beats->at[index];
    beats->live += beat->attempt != 0;
    beats->live -= kept->attempt != 0;
    *kept = *beat;
}

void beats_apply(const struct beats *beats, const struct uuid *job, uint32_t step,
                 struct claim_row *claim)
{
    const struct beat wanted = {.job = *job, .step = step};
    if (beats->live == 0)
        return;
    uint32_t index = map_get(&beats->map, key_of(&wanted));
    const struct beat *beat = index != MAP_NONE ? &beats->at[index] : NULL;
    if (beat == NULL || beat->attempt != claim->attempt || beat->beat_at < claim->beat_at)
        return;
    claim->expires_at = beat->expires_at;
    claim->beat_at = beat->beat_at;
}
