#include "core/job.h"

#include <assert.h>

/* Below this many effects a scan beats a table. */
enum { EFFECTS_SCANNED_MAX = 16 };

void job_slice_init(struct job_slice *slice, struct uuid id, uint64_t seed)
{
    *slice = (struct job_slice){.seed = seed};
    slice->job.id = id;
    slice->job.status = JOB_NONE;
}

/* Copies an array into the arena, in place; false when there is no memory. */
static bool array_copy(struct arena *arena, void **at, uint32_t count, size_t size)
{
    if (count == 0)
        return true;
    void *copy = arena_alloc(arena, count * size);
    if (copy == NULL)
        return false;
    memcpy(copy, *at, count * size);
    *at = copy;
    return true;
}

static enum error_code effects_index(struct job_slice *slice, struct arena *arena)
{
    map_init(&slice->effect_index, arena, slice->effect_count * 2, slice->seed);
    for (uint32_t i = 0; i < slice->effect_count; i++) {
        uint32_t found;
        if (map_put(&slice->effect_index, slice->effects[i].name, i, &found) != ERR_OK)
            return ERR_NO_MEMORY;
    }
    return ERR_OK;
}

enum error_code job_slice_copy(const struct job_slice *from, struct arena *arena,
                               struct job_slice *ret)
{
    *ret = *from;
    ret->effect_cap = from->effect_count;
    ret->signal_cap = from->signal_count;
    ret->effect_index = (struct map){0};
    if (!array_copy(arena, (void **)&ret->effects, from->effect_count, sizeof *from->effects) ||
        !array_copy(arena, (void **)&ret->signals, from->signal_count, sizeof *from->signals) ||
        !array_copy(arena, (void **)&ret->steps, from->step_count, sizeof *from->steps))
        return ERR_NO_MEMORY;
    return from->effect_count > EFFECTS_SCANNED_MAX ? effects_index(ret, arena) : ERR_OK;
}

static struct effect *effect_slot(const struct job_slice *slice, struct str name)
{
    if (slice->effect_index.count > 0) {
        uint32_t found = map_get(&slice->effect_index, name);
        return found == MAP_NONE ? NULL : &slice->effects[found];
    }
    for (uint32_t i = 0; i < slice->effect_count; i++)
        if (str_eq(slice->effects[i].name, name))
            return &slice->effects[i];
    return NULL;
}

struct effect *job_effect(const struct job_slice *slice, struct str name)
{
    struct effect *effect = effect_slot(slice, name);
    return effect != NULL && effect->version > slice->job.effects_from ? effect : NULL;
}

static bool counts(int64_t records_end, const struct job *job)
{
    return records_end == 0 || records_end - 1 > job->effects_from;
}

bool job_has_records(const struct job *job)
{
    return counts(job->records_end, job);
}

bool step_has_records(const struct job *job, const struct step *step)
{
    return counts(step->records_end, job);
}

/* Makes room for one more element; the array may move. */
static bool array_reserve(struct arena *arena, void **at, uint32_t count, uint32_t *cap,
                          size_t size)
{
    if (count < *cap)
        return true;
    uint32_t larger = *cap < 4 ? 4 : *cap * 2;
    void *moved = arena_grow(arena, *at, *cap * size, larger * size);
    if (moved == NULL)
        return false;
    *at = moved;
    *cap = larger;
    return true;
}

struct effect *job_effect_add(struct job_slice *slice, struct str name, struct arena *arena)
{
    /* After a fresh start the same name comes again and takes the place of what is forgotten. */
    struct effect *effect = effect_slot(slice, name);
    if (effect == NULL) {
        if (!array_reserve(arena, (void **)&slice->effects, slice->effect_count, &slice->effect_cap,
                           sizeof *slice->effects))
            return NULL;
        assert(slice->effects != NULL);
        effect = &slice->effects[slice->effect_count++];
        *effect = (struct effect){.name = name};
        if (slice->effect_index.count > 0) {
            uint32_t found;
            if (map_put(&slice->effect_index, name, slice->effect_count - 1, &found) != ERR_OK)
                return NULL;
        } else if (slice->effect_count > EFFECTS_SCANNED_MAX &&
                   effects_index(slice, arena) != ERR_OK) {
            return NULL;
        }
    }
    *effect = (struct effect){.name = name};
    return effect;
}

struct signal *job_signal_add(struct job_slice *slice, struct arena *arena)
{
    if (!array_reserve(arena, (void **)&slice->signals, slice->signal_count, &slice->signal_cap,
                       sizeof *slice->signals))
        return NULL;
    struct signal *signal = &slice->signals[slice->signal_count++];
    *signal = (struct signal){0};
    return signal;
}

struct step *job_step(const struct job_slice *slice, struct str id)
{
    if (slice->step_index.count > 0) {
        uint32_t found = map_get(&slice->step_index, id);
        return found == MAP_NONE ? NULL : &slice->steps[found];
    }
    for (uint32_t i = 0; i < slice->step_count; i++)
        if (str_eq(slice->steps[i].spec.id, id))
            return &slice->steps[i];
    return NULL;
}

struct step *job_step_at(const struct job_slice *slice, uint32_t ordinal)
{
    uint32_t low = 0;
    uint32_t high = slice->step_count;
    if (ordinal < high && slice->steps[ordinal].ordinal == ordinal)
        return &slice->steps[ordinal];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (slice->steps[middle].ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < slice->step_count && slice->steps[low].ordinal == ordinal;
    return found ? &slice->steps[low] : NULL;
}

enum error_code job_slice_index(struct job_slice *slice, struct arena *arena)
{
    map_init(&slice->step_index, arena, slice->step_count, slice->seed);
    for (uint32_t i = 0; i < slice->step_count; i++) {
        uint32_t found;
        if (map_put(&slice->step_index, slice->steps[i].spec.id, i, &found) != ERR_OK)
            return ERR_NO_MEMORY;
    }
    return ERR_OK;
}

struct str effect_name(struct str step, struct str key, struct arena *arena)
{
    if (!str_is_set(step))
        return key;
    char *name = arena_alloc(arena, step.len + 1 + key.len);
    if (name == NULL)
        return (struct str){NULL, 0};
    memcpy(name, step.at, step.len);
    name[step.len] = '\x1f';
    memcpy(name + step.len + 1, key.at, key.len);
    return (struct str){name, step.len + 1 + key.len};
}

struct str step_slot(const struct step *step)
{
    return step->held ? (struct str){NULL, 0} : step->lease.resource_id;
}

enum step_standing step_standing(const struct step *step)
{
    switch (step->state) {
    case STEP_PENDING:
    case STEP_WAITING_DEPS:
        return step->open_deps > 0 ? STANDING_BLOCKED : STANDING_READY;
    case STEP_RETRYING:
    case STEP_SWITCHING_RESOURCE:
        return STANDING_READY;
    case STEP_NEEDS_USER:
        return step->answered ? STANDING_READY : STANDING_ASKING;
    case STEP_RUNNING:
        /* A critic at work counts as work. */
        return step->held && !step->lease.live ? STANDING_HELD : STANDING_ACTIVE;
    case STEP_SUCCEEDED:
        return STANDING_SUCCEEDED;
    case STEP_FAILED:
        return STANDING_FAILED;
    default:
        return STANDING_ACTIVE;
    }
}
