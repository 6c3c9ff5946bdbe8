#include "random_schedule_entry.h"

#include "core/job_state.h"
#include "core/lane.h"
#include "core/lifetime.h"
#include "core/schedule_entry.h"

#define YEAR_MS (INT64_C(366) * 24 * 60 * 60 * 1000)

/* ---- states ---- */

static bool was_before(const void *parts, uint32_t count, uint32_t at, const void *part,
                       size_t size)
{
    return at < count && memcmp((const char *)parts + at * size, part, size) == 0;
}

static struct str text_of(struct world *world, void (*write)(const void *part, struct buf *buf),
                          const void *part)
{
    struct buf buf;
    buf_init(&buf, &world->arena, 512);
    write(part, &buf);
    return buf.failed ? (struct str){NULL, 0} : buf_str(&buf);
}

static void write_job(const void *job, struct buf *buf)
{
    job_state_write(job, STATE_JSON, buf);
}

static void write_effect(const void *effect, struct buf *buf)
{
    effect_state_write(effect, STATE_JSON, buf);
}

static void write_plan(const void *step, struct buf *buf)
{
    step_plan_write(step, buf);
}

static void write_step(const void *step, struct buf *buf)
{
    step_state_write(step, buf);
}

/* The header again, from its text and what stores keep in columns. */
static bool read_job(struct world *world, bool spec, struct job *ret)
{
    const struct job *job = &world->slice.job;
    struct job read = {
        .id = job->id,
        .status = job->status,
        .version = job->version,
        .failures = job->failures,
        .created_at = job->created_at,
        .updated_at = job->updated_at,
        .cursor = job->cursor,
    };
    memcpy(read.head, job->head, HASH_LEN);
    memcpy(read.salt, job->salt, SALT_LEN);
    if (!spec)
        read.spec = job->spec;
    *ret = read;
    return job_state_read(text_of(world, write_job, job), &world->arena, ret, &world->err) ==
               ERR_OK &&
           (!spec ||
            job_spec_read(world->log[0].payload, &world->arena, &ret->spec, &world->err) == ERR_OK);
}

static bool read_step(struct world *world, const struct step *step, struct step *ret)
{
    *ret = (struct step){.ordinal = step->ordinal};
    struct str plan = text_of(world, write_plan, step);
    struct str state = text_of(world, write_step, step);
    return step_plan_read(plan, &world->arena, ret, &world->err) == ERR_OK &&
           step_state_read(state, &world->arena, ret, &world->err) == ERR_OK &&
           ret->child_count == step->child_count &&
           (step->child_count == 0 ||
            memcmp(ret->children, step->children, step->child_count * sizeof *step->children) == 0);
}

static bool read_effect(struct world *world, const struct effect *effect, struct effect *ret)
{
    *ret = (struct effect){.step = effect->step, .key = effect->key, .version = effect->version};
    struct str state = text_of(world, write_effect, effect);
    return effect_state_read(state, &world->arena, ret, &world->err) == ERR_OK &&
           str_eq(ret->name, effect->name);
}

const char *states_survive(const struct placed *placed, bool all)
{
    struct world *world = placed->world;
    const struct job_slice *now = &world->slice;
    const struct job_slice *given = placed->given;
    struct job_slice written = {.job = now->job};
    struct job_slice read = {0};
    written.effects = arena_zalloc(&world->arena, now->effect_count + 1, sizeof *written.effects);
    written.steps = arena_zalloc(&world->arena, now->step_count + 1, sizeof *written.steps);
    read.effects = arena_zalloc(&world->arena, now->effect_count + 1, sizeof *read.effects);
    read.steps = arena_zalloc(&world->arena, now->step_count + 1, sizeof *read.steps);
    if (!read_job(world, all, &read.job))
        return "a job cannot be read back";
    for (uint32_t i = 0; i < now->effect_count; i++) {
        const struct effect *effect = &now->effects[i];
        if (!all && was_before(given->effects, given->effect_count, i, effect, sizeof *effect))
            continue;
        written.effects[written.effect_count++] = *effect;
        if (!read_effect(world, effect, &read.effects[read.effect_count++]))
            return "an effect cannot be read back";
    }
    for (uint32_t i = 0; i < now->step_count; i++) {
        const struct step *step = &now->steps[i];
        if (!all && was_before(given->steps, given->step_count, i, step, sizeof *step))
            continue;
        written.steps[written.step_count++] = *step;
        if (!read_step(world, step, &read.steps[read.step_count++]))
            return "a step cannot be read back";
    }
    return str_eq(world_row(world, &written), world_row(world, &read))
               ? NULL
               : "what was read back is not what was written";
}

/* ---- what a store is told ---- */

static bool is_nowhere(const struct schedule_entry *entry)
{
    return !str_is_set(entry->lane) && entry->due_at == 0 && !entry->leased;
}

/* A store that is told that the steps are closed takes them out of their lanes by itself. What it
 * keeps of due times may then be in vain, which whoever looks at it finds out. */
static const char *step_follows(const struct schedule_entry *was, const struct schedule_entry *now,
                                bool closed, bool replan)
{
    bool same_lane = str_eq(was->lane, now->lane) && was->run_at == now->run_at &&
                     was->priority == now->priority;
    if (!same_lane && !(closed && !str_is_set(now->lane)))
        return "a step that did not move is in another lane";
    if (was->due_at != now->due_at && !((closed || replan) && now->due_at == 0))
        return "a step that did not move is due at another time";
    return was->leased == now->leased ? NULL : "a step that did not move changed its holder";
}

const char *schedule_entries_follow(const struct placed *placed)
{
    struct world *world = placed->world;
    const struct job_slice *given = placed->given;
    const struct job_slice *now = &world->slice;
    bool was_open = job_takes_step_claims(&given->job);
    bool open = job_takes_step_claims(&now->job);
    bool ended = job_status_terminal(now->job.status);
    enum command_type type = placed->command->type;
    bool has_all = type == COMMAND_SUBMIT || type == COMMAND_PLAN || type == COMMAND_REQUEUE ||
                   type == COMMAND_RUN;
    if (!was_open && open && !has_all && given->job.wait.type != WAIT_STEPS)
        return "steps came into reach although they were not all at hand";
    if (has_all)
        return NULL;
    for (uint32_t i = 0; i < now->step_count; i++) {
        struct schedule_entry before;
        struct schedule_entry after;
        if (schedule_entry_of_step(&given->job, &given->steps[i], &world->arena, &before,
                                   &world->err) != ERR_OK ||
            schedule_entry_of_step(&now->job, &now->steps[i], &world->arena, &after, &world->err) !=
                ERR_OK)
            return world->err.detail;
        if (ended && !is_nowhere(&after))
            return "a step of a job that has ended is somewhere";
        if (ended ||
            !was_before(given->steps, given->step_count, i, &now->steps[i], sizeof now->steps[i]))
            continue;
        const char *fault =
            step_follows(&before, &after, was_open && !open, !given->job.replan && now->job.replan);
        if (fault != NULL)
            return fault;
    }
    return NULL;
}

/* ---- decisions, tried and thrown away ---- */

struct trial {
    const struct placed *placed;
    const struct job_slice *slice;
    struct context context;
    struct err err;
};

static bool accepts(struct trial *trial, const struct command *command)
{
    struct decision decision;
    return job_decide(trial->slice, command, &trial->context, &decision, &trial->err) == ERR_OK;
}

/* When job_decide thinks it is. */
static int64_t decided_at(const struct trial *trial)
{
    int64_t updated_at = trial->slice->job.updated_at;
    return trial->context.now > updated_at ? trial->context.now : updated_at;
}

static struct command command_on(enum command_type type, const struct job *job,
                                 const struct step *step)
{
    struct command command = {.type = type, .actor = STR("pawl")};
    if (step != NULL)
        command.step = step->spec.id;
    if (type == COMMAND_CLAIM || type == COMMAND_STEP_CLAIM)
        command.claim.worker_id = STR("w9");
    else if (type == COMMAND_EXPIRE)
        command.expire.attempt = step != NULL ? step->attempt : job->attempt;
    return command;
}

static const char *check_job_claim(struct trial *trial, const struct schedule_entry *entry)
{
    struct command claim = command_on(COMMAND_CLAIM, &trial->slice->job, NULL);
    bool expected = str_is_set(entry->lane) && entry->run_at <= decided_at(trial) &&
                    !job_outlived(&trial->slice->job, decided_at(trial));
    if (accepts(trial, &claim) != expected)
        return expected ? "a job in a lane cannot be claimed"
                        : "a job that is in no lane can be claimed";
    return NULL;
}

static const char *check_step_claims(struct trial *trial, const struct step *step,
                                     const struct schedule_entry *entry)
{
    const struct placed *placed = trial->placed;
    bool due = str_is_set(entry->lane) && entry->run_at <= decided_at(trial) &&
               !job_outlived(&trial->slice->job, decided_at(trial));
    struct lane lane = {0};
    if (str_is_set(entry->lane) &&
        lane_read(entry->lane, trial->context.arena, &lane, &trial->err) != ERR_OK)
        return "the key of a lane cannot be read";
    struct claimer critic = {.work = LANE_JUDGING};
    struct command claim = command_on(COMMAND_STEP_CLAIM, &trial->slice->job, step);
    claim.claim.judge = true;
    if (accepts(trial, &claim) != (due && lane_takes(&lane, &critic)))
        return "critics do not find what they can judge";
    claim.claim.judge = false;
    for (uint32_t i = 0; i < placed->resource_count; i++) {
        struct claimer claimer = {.work = LANE_STEPS, .resource = &placed->resources[i]};
        claim.claim.resource = &placed->resources[i];
        if (accepts(trial, &claim) != (due && lane_takes(&lane, &claimer)))
            return "resources do not find the steps that they can run";
    }
    return NULL;
}

/* Whether a token opens this lease, however long it lives. */
static const char *check_holder(struct trial *trial, const struct lease *lease, bool leased)
{
    for (uint32_t i = 0; i < trial->placed->token_count; i++) {
        struct command beat = {.type = COMMAND_HEARTBEAT, .token = trial->placed->tokens[i]};
        uint8_t hash[TOKEN_HASH_LEN];
        if (!str_is_set(beat.token))
            continue;
        token_hash(beat.token, hash);
        if (memcmp(hash, lease->token_hash, TOKEN_HASH_LEN) != 0)
            continue;
        bool lives =
            accepts(trial, &beat) || strstr(trial->err.detail, "the lease has expired") != NULL;
        if (lives != leased)
            return leased ? "the token of a lease is refused" : "a lease that is gone has a token";
    }
    return NULL;
}

/* A wait step that began while signals were stored is woken in the same commit, whatever its time;
 * in these lives it may come later. */
static bool has_stored_answer(const struct job_slice *slice, const struct step *step)
{
    for (uint32_t i = 0; step != NULL && i < slice->signal_count; i++)
        if (!slice->signals[i].delivered && step_standing(step) == STANDING_ASKING &&
            str_eq(slice->signals[i].correlation_key, step->question.correlation_key))
            return true;
    return false;
}

/* The engine's commands that would be carried out now. */
static bool anything_to_do(struct trial *trial, const struct step *step)
{
    static const enum command_type types[] = {COMMAND_EXPIRE, COMMAND_WAKE, COMMAND_CANCEL_DUE,
                                              COMMAND_LIFETIME};
    const struct job *job = &trial->slice->job;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct command command = command_on(types[i], job, step);
        /* A planned job's own WAKE is for its wait steps, each of which is due by itself. */
        bool for_steps = types[i] == COMMAND_WAKE && step == NULL && job_has_plan(job) &&
                         job->wait.type == WAIT_NONE;
        if (for_steps || (types[i] == COMMAND_WAKE && has_stored_answer(trial->slice, step)))
            continue;
        if (accepts(trial, &command))
            return true;
    }
    return false;
}

static const char *check_due(struct trial *trial, const struct step *step,
                             const struct schedule_entry *entry)
{
    const struct job *job = &trial->slice->job;
    int64_t due_at = entry->due_at;
    int64_t next = 0;
    enum command_type type = schedule_entry_due(job, step, &trial->context, &next);
    if (type != COMMAND_NONE) {
        struct command command = command_on(type, job, step);
        if (due_at == 0 || due_at > decided_at(trial))
            return "something is due although its time has not come";
        return accepts(trial, &command) ? NULL : "what is due is refused";
    }
    if (anything_to_do(trial, step))
        return "something can be done before it is due";
    if ((next == 0) != (due_at == 0) || next < due_at || (next != 0 && next <= decided_at(trial)))
        return "the next time to look is no time to look";

    struct trial then = *trial;
    then.context.now = next != 0 ? next : decided_at(trial) + YEAR_MS;
    if (next == 0)
        return anything_to_do(&then, step) ? "something can be done that is never due" : NULL;
    type = schedule_entry_due(job, step, &then.context, &next);
    struct command command = command_on(type, job, step);
    return type != COMMAND_NONE && accepts(&then, &command)
               ? NULL
               : "what was said to be due then is not, or is refused";
}

const char *schedule_entries_hold(const struct placed *placed)
{
    struct arena arena;
    arena_init(&arena);
    const struct job_slice *slice = &placed->world->slice;
    struct trial trial = {.placed = placed, .slice = slice, .context = placed->world->context};
    struct schedule_entry entry;
    trial.context.arena = &arena;
    const char *fault = "a schedule entry cannot be made";
    if (schedule_entry_of_job(&slice->job, &arena, &entry, &trial.err) == ERR_OK)
        fault = check_job_claim(&trial, &entry);
    if (fault == NULL)
        fault = check_holder(&trial, &slice->job.lease, entry.leased);
    if (fault == NULL)
        fault = check_due(&trial, NULL, &entry);
    for (uint32_t i = 0; i < slice->step_count && fault == NULL; i++) {
        const struct step *step = &slice->steps[i];
        fault = "a schedule entry of a step cannot be made";
        if (schedule_entry_of_step(&slice->job, step, &arena, &entry, &trial.err) == ERR_OK)
            fault = check_step_claims(&trial, step, &entry);
        if (fault == NULL)
            fault = check_holder(&trial, &step->lease, entry.leased);
        if (fault == NULL)
            fault = check_due(&trial, step, &entry);
    }
    arena_release(&arena);
    return fault;
}
