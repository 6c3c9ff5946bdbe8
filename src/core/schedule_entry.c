#include "core/schedule_entry.h"

#include <assert.h>

#include "core/lane.h"
#include "core/lifetime.h"

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The earlier of two times of which 0 means never. */
static int64_t sooner(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

bool job_takes_step_claims(const struct job *job)
{
    enum job_status to;
    bool open =
        job->status == JOB_RUNNING || job_move(job->status, EVENT_JOB_RUNNING, MOVE_PLAIN, &to);
    return job_has_plan(job) && open && !job->cancel_requested && !job->replan;
}

static bool job_can_be_claimed(const struct job *job)
{
    enum job_status to;
    return !job_has_plan(job) && job_move(job->status, EVENT_JOB_LEASED, MOVE_PLAIN, &to);
}

bool job_asks(const struct job *job)
{
    bool steps_ask = job->steps[STANDING_ASKING] > 0 && !job->replan;
    return !job_status_terminal(job->status) && (job->wait.type == WAIT_HUMAN || steps_ask);
}

static int64_t job_wakes_at(const struct job *job)
{
    return job->wait.type != WAIT_NONE ? job->wait.until : 0;
}

/* When the engine must look at a job that nobody holds, or whose holder was asked to stop. */
static int64_t job_due_at(const struct job *job)
{
    if (job_status_terminal(job->status))
        return 0;
    int64_t until = sooner(job->cancel_requested ? job->cancel_at : 0, job_lifetime_at(job));
    return sooner(until, job->lease.live ? job->lease.expires_at : job_wakes_at(job));
}

bool lease_holds(const struct lease *lease, const struct job *job)
{
    return lease->live && !job_status_terminal(job->status);
}

enum error_code schedule_entry_of_job(const struct job *job, struct arena *arena,
                                      struct schedule_entry *ret, struct err *err)
{
    struct schedule_entry entry = {
        .due_at = job_due_at(job),
        .leased = lease_holds(&job->lease, job),
    };
    if (job_can_be_claimed(job)) {
        enum error_code code = lane_key_of_job(job, arena, &entry.lane, err);
        if (code != ERR_OK)
            return code;
        entry.priority = job->spec.priority;
        entry.run_at = job->run_at;
    }
    *ret = entry;
    return ERR_OK;
}

static int64_t step_due_at(const struct job *job, const struct step *step)
{
    enum step_standing standing = step_standing(step);
    if (job_status_terminal(job->status))
        return 0;
    if (step->lease.live)
        return step->lease.expires_at;
    /* A step that waits by itself begins when its job is due. */
    if (str_is_set(step->spec.wait) && standing == STANDING_READY)
        return job_takes_step_claims(job) ? job->run_at : 0;
    return standing == STANDING_ASKING && !job->replan ? step->question.until : 0;
}

static bool step_can_be_claimed(const struct job *job, const struct step *step)
{
    enum step_standing standing = step_standing(step);
    return job_takes_step_claims(job) && !str_is_set(step->spec.wait) &&
           (standing == STANDING_READY || standing == STANDING_HELD);
}

enum error_code schedule_entry_of_step(const struct job *job, const struct step *step,
                                       struct arena *arena, struct schedule_entry *ret,
                                       struct err *err)
{
    struct schedule_entry entry = {
        .due_at = step_due_at(job, step),
        .leased = lease_holds(&step->lease, job),
    };
    if (step_can_be_claimed(job, step)) {
        enum error_code code = lane_key_of_step(job, step, arena, &entry.lane, err);
        if (code != ERR_OK)
            return code;
        entry.priority = job->spec.priority;
        entry.run_at = later(job->run_at, step->held ? 0 : step->not_before);
    }
    *ret = entry;
    return ERR_OK;
}

/* The command for what is due, and when else to look. */
static enum command_type due_command(int64_t at, enum command_type command, int64_t now,
                                     int64_t *next)
{
    if (at > 0 && at <= now)
        return command;
    *next = sooner(*next, at);
    return COMMAND_NONE;
}

enum command_type schedule_entry_due(const struct job *job, const struct step *step,
                                     const struct context *context, int64_t *ret_next)
{
    const struct lease *lease = step != NULL ? &step->lease : &job->lease;
    enum command_type command = COMMAND_NONE;
    int64_t now = later(context->now, job->updated_at); /* as job_decide has it */
    int64_t next = 0;
    if (job_status_terminal(job->status)) {
        *ret_next = 0;
        return COMMAND_NONE;
    }
    if (step == NULL && job->cancel_requested)
        command = due_command(job->cancel_at, COMMAND_CANCEL_DUE, now, &next);
    if (step == NULL && command == COMMAND_NONE)
        command = due_command(job_lifetime_at(job), COMMAND_LIFETIME, now, &next);
    if (command == COMMAND_NONE && lease->live)
        command = due_command(lease_ends_at(lease, context), COMMAND_EXPIRE, now, &next);
    else if (command == COMMAND_NONE)
        command = due_command(step != NULL ? step_due_at(job, step) : job_wakes_at(job),
                              COMMAND_WAKE, now, &next);
    if (command == COMMAND_NONE)
        *ret_next = next;
    return command;
}
