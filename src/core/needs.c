#include "core/needs.h"

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

struct step_needs command_step_needs(const struct job *job, const struct command *command)
{
    struct step_needs needs = {.all = takes_all_steps(job, command)};
    struct token token;
    if (needs.all || !job_has_plan(job))
        return needs;
    if (str_is_set(command->token)) {
        bool of_step = token_parse(command->token, &token) && token.of_step;
        needs.one = needs.by_ordinal = of_step;
        needs.ordinal = of_step ? token.step : 0;
    } else if (str_is_set(command->step)) {
        needs.one = true;
        needs.id = command->step;
    } else if (command->type == COMMAND_SIGNAL) {
        needs.one = true;
        needs.asking_key = command->signal.correlation_key;
    }
    needs.children = needs.one && may_succeed(command);
    return needs;
}

/* A wait takes the oldest signal that is stored for it; with choices the oldest that is one of
 * them, and which that is can be said of no other than those that are loaded. */
static void need_stored(struct part_needs *needs, const struct job *job,
                        const struct wait_request *wait)
{
    if (job->stored_signals == 0)
        return;
    needs->signal_key = wait->correlation_key;
    needs->all_stored = str_is_set(wait->choices);
}

struct part_needs command_part_needs(const struct job *job, const struct step *step,
                                     const struct command *command)
{
    const struct wait *wait = step != NULL ? &step->question : &job->wait;
    int64_t open = step != NULL ? step->open_effects : job->open_effects;
    struct part_needs needs = {
        .open_effects = open > 0 || str_is_set(wait->effect),
        .all_open_effects = command->type == COMMAND_PLAN || command->type == COMMAND_REQUEUE,
    };
    if (step != NULL)
        needs.step = step->spec.id;
    if (command->type == COMMAND_EFFECT_BEGIN) {
        needs.effect_keys[0] = command->effect_begin.key;
    } else if (command->type == COMMAND_EFFECT_COMMIT) {
        needs.effect_keys[0] = command->effect_commit.key;
        if (command->effect_commit.then == THEN_BEGIN)
            needs.effect_keys[1] = command->effect_commit.begin.key;
        if (command->effect_commit.then == THEN_WAIT)
            need_stored(&needs, job, &command->effect_commit.wait);
    } else if (command->type == COMMAND_EFFECT_ABORT) {
        needs.effect_keys[0] = command->effect_abort.key;
    } else if (command->type == COMMAND_SIGNAL) {
        needs.signal_key = command->signal.correlation_key;
        needs.signal_id = command->signal.signal_id;
        needs.all_stored =
            step != NULL && job->stored_signals > 0 && str_is_set(step->question.choices);
    } else if (command->type == COMMAND_WAIT) {
        need_stored(&needs, job, &command->wait);
    } else if (command->type == COMMAND_WAKE && step != NULL && job->stored_signals > 0) {
        needs.signal_key = step->question.correlation_key;
        needs.all_stored = str_is_set(step->question.choices);
    }
    return needs;
}

bool step_needs_any(const struct step_needs *needs)
{
    return needs->all || needs->one;
}

bool part_needs_any(const struct part_needs *needs)
{
    return needs->open_effects || needs->all_open_effects || needs->all_stored ||
           str_is_set(needs->effect_keys[0]) || str_is_set(needs->effect_keys[1]) ||
           str_is_set(needs->signal_key) || str_is_set(needs->signal_id);
}
