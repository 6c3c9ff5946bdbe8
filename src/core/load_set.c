#include "core/load_set.h"

#include "core/token.h"

/* These work on a plan as a whole. */
static bool takes_all_steps(const struct job *job, const struct command *command)
{
    if (str_is_set(command->step) || !job_has_plan(job))
        return false;
    return command->type == COMMAND_PLAN || command->type == COMMAND_REQUEUE ||
           command->type == COMMAND_WAKE || command->type == COMMAND_RUN;
}

/* A success is told to the steps that depend on it; whatever else becomes of a step is no matter of
 * theirs, and there may be thousands of them. */
static bool may_succeed(const struct command *command)
{
    enum command_type type = command->type;
    if (type == COMMAND_EFFECT_COMMIT)
        return command->effect_commit.then == THEN_COMPLETE;
    return type == COMMAND_COMPLETE || type == COMMAND_VERDICT || type == COMMAND_ANSWER ||
           type == COMMAND_SIGNAL || type == COMMAND_WAKE;
}

struct step_load_set command_step_load_set(const struct job *job, const struct command *command)
{
    struct step_load_set set = {.all = takes_all_steps(job, command)};
    struct token token;
    if (set.all || !job_has_plan(job))
        return set;
    if (str_is_set(command->token)) {
        bool of_step = token_parse(command->token, &token) && token.of_step;
        set.one = set.by_ordinal = of_step;
        set.ordinal = of_step ? token.step : 0;
    } else if (str_is_set(command->step)) {
        set.one = true;
        set.id = command->step;
    } else if (command->type == COMMAND_SIGNAL) {
        set.one = true;
        set.asking_key = command->signal.correlation_key;
    }
    set.children = set.one && may_succeed(command);
    return set;
}

/* A wait takes the oldest signal that is stored for it; with choices the oldest that is one of
 * them, and which that is can be said of no other than those that are loaded. */
static void load_stored(struct part_load_set *set, const struct job *job,
                        const struct wait_request *wait)
{
    if (job->stored_signals == 0)
        return;
    set->signal_key = wait->correlation_key;
    set->all_stored = str_is_set(wait->choices);
}

struct part_load_set command_part_load_set(const struct job *job, const struct step *step,
                                           const struct command *command)
{
    const struct wait *wait = step != NULL ? &step->question : &job->wait;
    int64_t open = step != NULL ? step->open_effects : job->open_effects;
    struct part_load_set set = {
        .open_effects = open > 0 || str_is_set(wait->effect),
        .all_open_effects = command->type == COMMAND_PLAN || command->type == COMMAND_REQUEUE,
    };
    if (step != NULL)
        set.step = step->spec.id;
    if (command->type == COMMAND_EFFECT_BEGIN) {
        set.effect_keys[0] = command->effect_begin.key;
    } else if (command->type == COMMAND_EFFECT_COMMIT) {
        set.effect_keys[0] = command->effect_commit.key;
        if (command->effect_commit.then == THEN_BEGIN)
            set.effect_keys[1] = command->effect_commit.begin.key;
        if (command->effect_commit.then == THEN_WAIT)
            load_stored(&set, job, &command->effect_commit.wait);
    } else if (command->type == COMMAND_EFFECT_ABORT) {
        set.effect_keys[0] = command->effect_abort.key;
    } else if (command->type == COMMAND_SIGNAL) {
        set.signal_key = command->signal.correlation_key;
        set.signal_id = command->signal.signal_id;
        set.all_stored =
            step != NULL && job->stored_signals > 0 && str_is_set(step->question.choices);
    } else if (command->type == COMMAND_WAIT) {
        load_stored(&set, job, &command->wait);
    } else if (command->type == COMMAND_WAKE && step != NULL && job->stored_signals > 0) {
        set.signal_key = step->question.correlation_key;
        set.all_stored = str_is_set(step->question.choices);
    }
    return set;
}

bool step_load_set_any(const struct step_load_set *set)
{
    return set->all || set->one;
}

bool part_load_set_any(const struct part_load_set *set)
{
    return set->open_effects || set->all_open_effects || set->all_stored ||
           str_is_set(set->effect_keys[0]) || str_is_set(set->effect_keys[1]) ||
           str_is_set(set->signal_key) || str_is_set(set->signal_id);
}
