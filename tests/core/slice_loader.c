#include "slice_loader.h"

#include <assert.h>

#include "core/load_set.h"

static const struct step *find_step(const struct job_slice *whole,
                                    const struct step_load_set *needs)
{
    if (needs->by_ordinal)
        return job_step_at(whole, needs->ordinal);
    if (str_is_set(needs->id))
        return job_step(whole, needs->id);
    for (uint32_t i = 0; str_is_set(needs->asking_key) && i < whole->step_count; i++)
        if (step_standing(&whole->steps[i]) == STANDING_ASKING &&
            str_eq(whole->steps[i].question.correlation_key, needs->asking_key))
            return &whole->steps[i];
    return NULL;
}

static void load_steps(const struct job_slice *whole, const struct step_load_set *needs,
                       const struct step *step, struct job_slice *part)
{
    for (uint32_t i = 0; i < whole->step_count; i++) {
        bool wanted = needs->all || (step != NULL && step->ordinal == i);
        for (uint32_t c = 0; step != NULL && needs->children && c < step->child_count; c++)
            wanted = wanted || step->children[c] == i;
        if (wanted)
            part->steps[part->step_count++] = whole->steps[i];
    }
}

static bool is_named(const struct part_load_set *needs, const struct effect *effect)
{
    for (size_t i = 0; i < sizeof needs->effect_keys / sizeof needs->effect_keys[0]; i++)
        if (str_is_set(needs->effect_keys[i]) && str_eq(effect->key, needs->effect_keys[i]) &&
            str_eq(effect->step, needs->step))
            return true;
    return false;
}

static void load_effects(const struct job_slice *whole, const struct part_load_set *needs,
                         struct job_slice *part)
{
    for (uint32_t i = 0; i < whole->effect_count; i++) {
        const struct effect *effect = &whole->effects[i];
        bool open = effect_is_open(effect);
        bool own = str_eq(effect->step, needs->step);
        if ((open && (needs->all_open_effects || (needs->open_effects && own))) ||
            is_named(needs, effect))
            part->effects[part->effect_count++] = *effect;
    }
}

static void load_signals(const struct job_slice *whole, const struct part_load_set *needs,
                         struct job_slice *part)
{
    struct str key = needs->signal_key;
    uint32_t newest = whole->signal_count;
    uint32_t oldest = whole->signal_count;
    for (uint32_t i = whole->signal_count; i-- > 0;) {
        if (!str_is_set(key) || !str_eq(whole->signals[i].correlation_key, key))
            continue;
        newest = newest == whole->signal_count ? i : newest;
        oldest = whole->signals[i].delivered ? oldest : i;
    }
    for (uint32_t i = 0; i < whole->signal_count; i++) {
        bool same_id =
            str_is_set(needs->signal_id) && str_eq(whole->signals[i].signal_id, needs->signal_id);
        bool stored = needs->all_stored && !whole->signals[i].delivered;
        if (i == newest || i == oldest || same_id || stored)
            part->signals[part->signal_count++] = whole->signals[i];
    }
}

struct job_slice slice_for(const struct job_slice *whole, const struct command *command,
                           struct arena *arena)
{
    struct job_slice part;
    job_slice_init(&part, whole->job.id, whole->seed);
    part.job = whole->job;
    part.effects = arena_zalloc(arena, whole->effect_count + 1, sizeof *part.effects);
    part.signals = arena_zalloc(arena, whole->signal_count + 1, sizeof *part.signals);
    part.steps = arena_zalloc(arena, whole->step_count + 1, sizeof *part.steps);
    assert(part.effects != NULL && part.signals != NULL && part.steps != NULL);
    struct step_load_set steps = command_step_load_set(&whole->job, command);
    const struct step *step = find_step(whole, &steps);
    struct part_load_set parts = command_part_load_set(&whole->job, step, command);
    load_steps(whole, &steps, step, &part);
    load_effects(whole, &parts, &part);
    load_signals(whole, &parts, &part);
    return part;
}
