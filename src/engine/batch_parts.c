/* Which parts of its jobs a batch loads: what its commands need, in two calls at most, since a step
 * tells which effects and signals go with it. */
#include <assert.h>

#include "core/load_set.h"
#include "engine/batch_private.h"

/* Lists of one job's load set; each has room for all of its intents. */
struct wanted {
    struct batch_job *job;
    struct store_parts parts;
    uint32_t *ordinals;
    struct str *step_ids;
    struct str *asking_keys;
    struct str *open_of;
    struct str *effect_names;
    struct str *signal_keys;
    struct str *signal_ids;
    bool any;
};

static bool has_step(const struct job_slice *slice, uint32_t ordinal)
{
    return job_step_at(slice, ordinal) != NULL;
}

/* Adds steps that are not there yet, keeping the order of ordinals. */
static enum error_code merge_steps(struct batch *batch, struct job_slice *slice,
                                   const struct step *steps, uint32_t count)
{
    struct step *merged =
        arena_zalloc(batch->arena, (size_t)slice->step_count + count + 1, sizeof *merged);
    uint32_t total = 0;
    uint32_t old = 0;
    if (merged == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < count; i++) {
        if (has_step(slice, steps[i].ordinal))
            continue;
        while (old < slice->step_count && slice->steps[old].ordinal < steps[i].ordinal)
            merged[total++] = slice->steps[old++];
        merged[total++] = steps[i];
    }
    while (old < slice->step_count)
        merged[total++] = slice->steps[old++];
    slice->steps = merged;
    slice->step_count = total;
    return job_slice_index(slice, batch->arena) == ERR_OK ? ERR_OK : batch_no_memory(batch);
}

/* Effects and signals stand in the order in which events brought them. */
static enum error_code merge_effects(struct batch *batch, struct job_slice *slice,
                                     const struct effect *effects, uint32_t count)
{
    struct job_slice merged = *slice;
    merged.effects = NULL;
    merged.effect_count = merged.effect_cap = 0;
    merged.effect_index = (struct map){0};
    uint32_t old = 0;
    for (uint32_t i = 0; i <= count; i++) {
        while (old < slice->effect_count &&
               (i == count || slice->effects[old].version <= effects[i].version)) {
            struct effect *added = job_effect_add(&merged, slice->effects[old].name, batch->arena);
            if (added == NULL)
                return batch_no_memory(batch);
            *added = slice->effects[old++];
        }
        bool known = false;
        for (uint32_t k = 0; i < count && k < slice->effect_count && !known; k++)
            known = str_eq(slice->effects[k].name, effects[i].name);
        if (i == count || known)
            continue;
        struct effect *added = job_effect_add(&merged, effects[i].name, batch->arena);
        if (added == NULL)
            return batch_no_memory(batch);
        *added = effects[i];
    }
    *slice = merged;
    return ERR_OK;
}

static enum error_code merge_signals(struct batch *batch, struct job_slice *slice,
                                     const struct signal *signals, uint32_t count)
{
    uint32_t room = slice->signal_count + count;
    struct signal *merged = arena_zalloc(batch->arena, (size_t)room + 1, sizeof *merged);
    uint32_t total = 0;
    uint32_t old = 0;
    if (merged == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < count; i++) {
        while (old < slice->signal_count && slice->signals[old].version < signals[i].version)
            merged[total++] = slice->signals[old++];
        if (old == slice->signal_count || slice->signals[old].version != signals[i].version)
            merged[total++] = signals[i];
    }
    while (old < slice->signal_count)
        merged[total++] = slice->signals[old++];
    slice->signals = merged;
    slice->signal_count = total;
    slice->signal_cap = room + 1;
    return ERR_OK;
}

static enum error_code merge(struct batch *batch, struct job_slice *slice,
                             const struct store_parts *parts)
{
    enum error_code code = ERR_OK;
    if (parts->step_count > 0)
        code = merge_steps(batch, slice, parts->steps, parts->step_count);
    if (code == ERR_OK && parts->effect_count > 0)
        code = merge_effects(batch, slice, parts->effects, parts->effect_count);
    if (code == ERR_OK && parts->signal_count > 0)
        code = merge_signals(batch, slice, parts->signals, parts->signal_count);
    return code;
}

/* Parts go to the state as loaded and to the state as it is now: they have not changed between. */
static enum error_code keep(struct batch *batch, struct wanted *wanted, uint32_t count)
{
    struct store_parts *parts = arena_zalloc(batch->arena, count + 1, sizeof *parts);
    uint32_t asked = 0;
    if (parts == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < count; i++)
        if (wanted[i].any)
            parts[asked++] = wanted[i].parts;
    enum error_code code = store_load_parts(batch->txn, parts, asked, batch->arena, batch->err);
    asked = 0;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        if (!wanted[i].any)
            continue;
        struct batch_job *job = wanted[i].job;
        bool untouched = job->event_count == 0;
        code = merge(batch, job->before, &parts[asked]);
        if (code == ERR_OK && untouched)
            batch_job_reset(job);
        else if (code == ERR_OK)
            code = merge(batch, job->now, &parts[asked]);
        asked++;
    }
    return code;
}

/* Nothing is wanted, with the lists to be filled. */
static void wanted_clear(struct wanted *wanted)
{
    wanted->any = false;
    wanted->parts = (struct store_parts){
        .job = wanted->job->before->job.id,
        .no_children = true,
        .ordinals = wanted->ordinals,
        .step_ids = wanted->step_ids,
        .asking_keys = wanted->asking_keys,
        .open_of = wanted->open_of,
        .effect_names = wanted->effect_names,
        .signal_keys = wanted->signal_keys,
        .signal_ids = wanted->signal_ids,
    };
}

static enum error_code wanted_init(struct batch *batch, struct batch_job *job, uint32_t intents,
                                   struct wanted *ret)
{
    struct arena *arena = batch->arena;
    *ret = (struct wanted){
        .job = job,
        .ordinals = arena_zalloc(arena, intents, sizeof *ret->ordinals),
        .step_ids = arena_zalloc(arena, intents, sizeof *ret->step_ids),
        .asking_keys = arena_zalloc(arena, intents, sizeof *ret->asking_keys),
        .open_of = arena_zalloc(arena, intents, sizeof *ret->open_of),
        .effect_names = arena_zalloc(arena, 2 * (size_t)intents, sizeof *ret->effect_names),
        .signal_keys = arena_zalloc(arena, intents, sizeof *ret->signal_keys),
        .signal_ids = arena_zalloc(arena, intents, sizeof *ret->signal_ids),
    };
    if (ret->ordinals == NULL || ret->step_ids == NULL || ret->asking_keys == NULL ||
        ret->open_of == NULL || ret->effect_names == NULL || ret->signal_keys == NULL ||
        ret->signal_ids == NULL)
        return batch_no_memory(batch);
    wanted_clear(ret);
    return ERR_OK;
}

static struct step_load_set step_load_set_of(const struct intent *intent)
{
    struct step_load_set set = command_step_load_set(&intent->job->before->job, intent->command);
    if (intent->step == STEP_NONE)
        return set;
    return (struct step_load_set){.one = true,
                                  .by_ordinal = true,
                                  .ordinal = intent->step,
                                  .children = intent->command->type != COMMAND_STEP_CLAIM};
}

static void want_steps(struct wanted *wanted, const struct intent *intent)
{
    struct step_load_set set = step_load_set_of(intent);
    struct store_parts *parts = &wanted->parts;
    wanted->any = wanted->any || step_load_set_any(&set);
    parts->all_steps = parts->all_steps || set.all;
    parts->no_children = parts->no_children && !set.children;
    if (!set.one)
        return;
    if (set.by_ordinal)
        wanted->ordinals[parts->ordinal_count++] = set.ordinal;
    else if (str_is_set(set.id))
        wanted->step_ids[parts->step_id_count++] = set.id;
    else
        wanted->asking_keys[parts->asking_key_count++] = set.asking_key;
}

static const struct step *find_step(const struct job_slice *slice, const struct step_load_set *set)
{
    if (set->by_ordinal)
        return job_step_at(slice, set->ordinal);
    if (str_is_set(set->id))
        return job_step(slice, set->id);
    for (uint32_t i = 0; str_is_set(set->asking_key) && i < slice->step_count; i++)
        if (step_standing(&slice->steps[i]) == STANDING_ASKING &&
            str_eq(slice->steps[i].question.correlation_key, set->asking_key))
            return &slice->steps[i];
    return NULL;
}

static const struct step *step_of(const struct intent *intent)
{
    struct step_load_set set = step_load_set_of(intent);
    return find_step(intent->job->before, &set);
}

const struct step *batch_step_of(const struct job_slice *slice, const struct command *command)
{
    struct step_load_set set = command_step_load_set(&slice->job, command);
    return set.one ? find_step(slice, &set) : NULL;
}

static enum error_code want_rest(struct batch *batch, struct wanted *wanted,
                                 const struct intent *intent)
{
    struct part_load_set set =
        command_part_load_set(&intent->job->before->job, step_of(intent), intent->command);
    struct store_parts *parts = &wanted->parts;
    wanted->any = wanted->any || part_load_set_any(&set);
    parts->all_open_effects = parts->all_open_effects || set.all_open_effects;
    parts->stored_signals = parts->stored_signals || set.all_stored;
    if (set.open_effects)
        wanted->open_of[parts->open_of_count++] = set.step;
    for (size_t i = 0; i < 2; i++) {
        if (!str_is_set(set.effect_keys[i]))
            continue;
        struct str name = effect_name(set.step, set.effect_keys[i], batch->arena);
        if (!str_is_set(name))
            return batch_no_memory(batch);
        wanted->effect_names[parts->effect_name_count++] = name;
    }
    if (str_is_set(set.signal_key))
        wanted->signal_keys[parts->signal_key_count++] = set.signal_key;
    if (str_is_set(set.signal_id))
        wanted->signal_ids[parts->signal_id_count++] = set.signal_id;
    return ERR_OK;
}

/* A job that is only now coming to be has nothing to load. */
static bool is_stored(const struct intent *intent)
{
    return intent->job->before->job.status != JOB_NONE;
}

static bool loads_parts(const struct intent *intent)
{
    struct step_load_set steps = step_load_set_of(intent);
    struct part_load_set rest =
        command_part_load_set(&intent->job->before->job, NULL, intent->command);
    return is_stored(intent) && (step_load_set_any(&steps) || part_load_set_any(&rest));
}

/* How many intents each job of the batch has, and so how many of its lists may hold. */
static enum error_code count_intents(struct batch *batch, const struct intent *intents,
                                     uint32_t count, struct wanted **ret, uint32_t *ret_count,
                                     uint32_t **ret_place)
{
    uint32_t *counts = arena_zalloc(batch->arena, batch->job_count + 1, sizeof *counts);
    uint32_t *place = arena_zalloc(batch->arena, batch->job_count + 1, sizeof *place);
    uint32_t needy = 0;
    if (counts == NULL || place == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < count; i++)
        if (loads_parts(&intents[i]))
            needy += counts[intents[i].job - batch->jobs]++ == 0;
    struct wanted *wanted = arena_zalloc(batch->arena, needy + 1, sizeof *wanted);
    if (wanted == NULL)
        return batch_no_memory(batch);
    enum error_code code = ERR_OK;
    needy = 0;
    for (uint32_t i = 0; i < batch->job_count && code == ERR_OK; i++) {
        if (counts[i] == 0)
            continue;
        place[i] = needy;
        code = wanted_init(batch, &batch->jobs[i], counts[i], &wanted[needy++]);
    }
    *ret = wanted;
    *ret_count = needy;
    *ret_place = place;
    return code;
}

enum error_code batch_load_parts(struct batch *batch, const struct intent *intents, uint32_t count)
{
    struct wanted *wanted = NULL;
    uint32_t *place = NULL; /* of each job in `wanted` */
    uint32_t wanted_count = 0;
    enum error_code code = count_intents(batch, intents, count, &wanted, &wanted_count, &place);
    if (code != ERR_OK || wanted_count == 0)
        return code;
    for (uint32_t i = 0; i < count; i++)
        if (loads_parts(&intents[i]))
            want_steps(&wanted[place[intents[i].job - batch->jobs]], &intents[i]);
    code = keep(batch, wanted, wanted_count);
    for (uint32_t i = 0; i < wanted_count; i++)
        wanted_clear(&wanted[i]);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        if (loads_parts(&intents[i]))
            code = want_rest(batch, &wanted[place[intents[i].job - batch->jobs]], &intents[i]);
    return code == ERR_OK ? keep(batch, wanted, wanted_count) : code;
}

/* Erasing payloads touches every part. */
static enum error_code load_whole(struct batch *batch, struct batch_job *job)
{
    struct store_parts parts = {
        .job = job->before->job.id,
        .all_steps = true,
        .all_effects = true,
        .all_signals = true,
    };
    enum error_code code = store_load_parts(batch->txn, &parts, 1, batch->arena, batch->err);
    if (code == ERR_OK)
        code = merge(batch, job->before, &parts);
    batch_job_reset(job);
    return code;
}

enum error_code batch_load_named(struct batch *batch)
{
    struct intent *intents = arena_zalloc(batch->arena, batch->op_count, sizeof *intents);
    static const struct command wake = {.type = COMMAND_WAKE};
    uint32_t count = 0;
    if (intents == NULL)
        return batch_no_memory(batch);
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++) {
        const struct op *op = batch->ops[i];
        struct batch_job *job = batch_job_find(batch, op->job);
        if (op->code != ERR_OK || job == NULL || op_is_repeated(op))
            continue;
        if (op->type == OP_REDACT)
            code = load_whole(batch, job);
        if (op->type != OP_COMMAND && op->type != OP_TIMER_FIRED)
            continue;
        struct intent *intent = &intents[count++];
        *intent = (struct intent){.job = job, .command = &op->command, .step = STEP_NONE};
        if (op->type == OP_COMMAND)
            continue;
        /* Which command is due is known only later: parts are loaded for the one that set most.
         */
        intent->command = &wake;
        intent->step = op->timer.step;
    }
    return code == ERR_OK ? batch_load_parts(batch, intents, count) : code;
}

enum error_code batch_load_waits(struct batch *batch, struct batch_job *job,
                                 const uint32_t *ordinals, uint32_t count)
{
    struct store_parts parts = {
        .job = job->before->job.id,
        .ordinals = ordinals,
        .ordinal_count = count,
        /* Several steps may begin to wait for one key: each takes the next signal. */
        .stored_signals = true,
    };
    if (job->before->job.status == JOB_NONE)
        return ERR_OK; /* all of it is in the slice */
    /* A plan that came with this batch is all in the slice; its ordinals mean nothing to the store.
     */
    if (job->before->job.plan_version != job->now->job.plan_version)
        parts.ordinal_count = 0;
    enum error_code code = store_load_parts(batch->txn, &parts, 1, batch->arena, batch->err);
    if (code == ERR_OK)
        code = merge(batch, job->before, &parts);
    return code == ERR_OK ? merge(batch, job->now, &parts) : code;
}

enum error_code batch_narrow_steps(struct batch *batch, const struct job_slice *slice,
                                   const struct step *step, struct job_slice *ret)
{
    *ret = *slice;
    ret->steps = arena_zalloc(batch->arena, (size_t)step->child_count + 1, sizeof *ret->steps);
    ret->step_index = (struct map){0};
    ret->step_count = 0;
    if (ret->steps == NULL)
        return batch_no_memory(batch);
    bool placed = false;
    for (uint32_t i = 0; i < step->child_count; i++) {
        const struct step *child = job_step_at(slice, step->children[i]);
        if (child == NULL)
            continue;
        if (!placed && child->ordinal > step->ordinal)
            ret->steps[ret->step_count++] = *step;
        placed = placed || child->ordinal > step->ordinal;
        ret->steps[ret->step_count++] = *child;
    }
    if (!placed)
        ret->steps[ret->step_count++] = *step;
    return ERR_OK;
}

enum error_code batch_narrow(struct batch *batch, const struct batch_job *job, uint32_t ordinal,
                             struct job_slice *ret)
{
    const struct step *step = job_step_at(job->now, ordinal);
    assert(step != NULL);
    struct job_slice narrow = *job->now;
    narrow.signal_cap = job->now->signal_count + 1;
    narrow.signals = arena_zalloc(batch->arena, narrow.signal_cap, sizeof *narrow.signals);
    narrow.signal_count = 0;
    if (narrow.signals == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < job->now->signal_count; i++) {
        const struct signal *signal = &job->now->signals[i];
        if (!signal->delivered && str_eq(signal->correlation_key, step->question.correlation_key))
            narrow.signals[narrow.signal_count++] = *signal;
    }
    return batch_narrow_steps(batch, &narrow, step, ret);
}

enum error_code batch_widen_steps(struct batch *batch, struct batch_job *job,
                                  const struct job_slice *narrow)
{
    struct job_slice *wide = batch_slice_copy(batch, narrow);
    uint32_t count = job->now->step_count;
    if (wide == NULL)
        return batch_no_memory(batch);
    wide->steps = job->now->steps;
    wide->step_count = count;
    wide->step_index = job->now->step_index;
    if (job->shown == NULL) {
        wide->steps = arena_alloc(batch->arena, count * sizeof *wide->steps);
        if (wide->steps == NULL)
            return batch_no_memory(batch);
        memcpy(wide->steps, job->now->steps, count * sizeof *wide->steps);
    }
    for (uint32_t i = 0; i < narrow->step_count; i++)
        *job_step_at(wide, narrow->steps[i].ordinal) = narrow->steps[i];
    job->now = wide;
    job->shown = narrow;
    return ERR_OK;
}

void batch_job_reset(struct batch_job *job)
{
    job->now = job->before;
    job->shown = NULL;
}

const struct job_slice *batch_job_view(const struct batch_job *job)
{
    return job->shown != NULL ? job->shown : job->now;
}

void batch_widen(struct batch_job *job, const struct job_slice *narrow)
{
    job->now->job = narrow->job;
    for (uint32_t i = 0; i < narrow->step_count; i++) {
        struct step *step = job_step_at(job->now, narrow->steps[i].ordinal);
        *step = narrow->steps[i];
    }
    /* Both are in the order of versions. */
    for (uint32_t i = 0, k = 0; i < narrow->signal_count; i++) {
        while (k < job->now->signal_count &&
               job->now->signals[k].version != narrow->signals[i].version)
            k++;
        assert(k < job->now->signal_count);
        job->now->signals[k] = narrow->signals[i];
    }
}
