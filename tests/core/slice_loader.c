#include "slice_loader.h"

#include <assert.h>

static bool loads_all(const struct job *job, enum command_type type)
{
    return type == COMMAND_PLAN || type == COMMAND_REQUEUE ||
           (type == COMMAND_WAKE && job_has_plan(job));
}

/* The step that the command is about: by its id, its token, or the key that it asks for. */
static const struct step *step_of(const struct job_slice *whole, const struct command *command)
{
    struct token token;
    if (str_is_set(command->token) && token_parse(command->token, &token))
        return token.of_step ? job_step_at(whole, token.step) : NULL;
    if (str_is_set(command->step))
        return job_step(whole, command->step);
    for (uint32_t i = 0; command->type == COMMAND_SIGNAL && i < whole->step_count; i++)
        if (step_standing(&whole->steps[i]) == STANDING_ASKING &&
            str_eq(whole->steps[i].question.correlation_key, command->signal.correlation_key))
            return &whole->steps[i];
    return NULL;
}

static void load_steps(const struct job_slice *whole, bool all, const struct step *step,
                       struct job_slice *part)
{
    for (uint32_t i = 0; i < whole->step_count; i++) {
        bool wanted = all || (step != NULL && step->ordinal == i);
        for (uint32_t c = 0; step != NULL && c < step->child_count; c++)
            wanted = wanted || step->children[c] == i;
        if (wanted)
            part->steps[part->step_count++] = whole->steps[i];
    }
}

static bool names_effect(const struct job_slice *whole, const struct command *command,
                         const struct step *step, const struct effect *effect)
{
    struct str own_step = step != NULL ? step->spec.id : (struct str){NULL, 0};
    struct str asked = step != NULL ? step->question.effect : whole->job.wait.effect;
    struct str keys[3] = {asked, {NULL, 0}, {NULL, 0}};
    if (command->type == COMMAND_EFFECT_BEGIN)
        keys[1] = command->effect_begin.key;
    if (command->type == COMMAND_EFFECT_COMMIT) {
        keys[1] = command->effect_commit.key;
        keys[2] = command->effect_commit.next_key;
    }
    for (int i = 0; i < 3; i++)
        if (str_is_set(keys[i]) && str_eq(effect->key, keys[i]) && str_eq(effect->step, own_step))
            return true;
    return false;
}

static void load_effects(const struct job_slice *whole, const struct command *command, bool all,
                         const struct step *step, struct job_slice *part)
{
    struct str own_step = step != NULL ? step->spec.id : (struct str){NULL, 0};
    bool has_open = false;
    for (uint32_t i = 0; i < whole->effect_count; i++) {
        const struct effect *effect = &whole->effects[i];
        bool open = !effect->returned && effect->version > whole->job.effects_from;
        bool first_open = open && !has_open && str_eq(effect->step, own_step);
        has_open = has_open || first_open;
        if (first_open || (all && open) || names_effect(whole, command, step, effect))
            part->effects[part->effect_count++] = *effect;
    }
}

static void load_signals(const struct job_slice *whole, const struct command *command,
                         const struct step *step, struct job_slice *part)
{
    bool signal_comes = command->type == COMMAND_SIGNAL;
    struct str key = {NULL, 0};
    if (signal_comes)
        key = command->signal.correlation_key;
    else if (command->type == COMMAND_WAIT)
        key = command->wait.correlation_key;
    else if (command->type == COMMAND_WAKE && step != NULL)
        key = step->question.correlation_key;

    uint32_t newest = whole->signal_count;
    for (uint32_t i = 0; i < whole->signal_count; i++)
        if (str_eq(whole->signals[i].correlation_key, key))
            newest = i;
    bool has_stored = false;
    for (uint32_t i = 0; i < whole->signal_count; i++) {
        const struct signal *signal = &whole->signals[i];
        bool oldest_stored =
            !has_stored && !signal->delivered && str_eq(signal->correlation_key, key);
        has_stored = has_stored || oldest_stored;
        bool same_id = signal_comes && str_is_set(command->signal.signal_id) &&
                       str_eq(signal->signal_id, command->signal.signal_id);
        if (str_is_set(key) && (oldest_stored || same_id || (signal_comes && i == newest)))
            part->signals[part->signal_count++] = *signal;
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
    const struct step *step = step_of(whole, command);
    bool all = loads_all(&whole->job, command->type) && step == NULL;
    load_steps(whole, all, step, &part);
    load_effects(whole, command, all, step, &part);
    load_signals(whole, command, step, &part);
    return part;
}
