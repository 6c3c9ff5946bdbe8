#include "core/action.h"

#include "core/decide.h"

static const struct str names[JOB_ACTION_COUNT] = {
#define ACTION_TEXT(symbol, name) [ACTION_##symbol] = STR_INIT(name),
    JOB_ACTIONS(ACTION_TEXT)
#undef ACTION_TEXT
};

uint32_t job_actions(const struct job *job, bool queue_paused, int64_t now)
{
    bool ended = job_status_terminal(job->status);
    const bool takes[JOB_ACTION_COUNT] = {
        [ACTION_ANSWER] = job->wait.type == WAIT_HUMAN,
        [ACTION_SIGNAL] = !ended,
        [ACTION_RUN] = job_takes(job, COMMAND_RUN) && job->run_at > now,
        [ACTION_REQUEUE] = job_takes(job, COMMAND_REQUEUE),
        [ACTION_RESUME] = queue_paused && !ended,
        [ACTION_PLAN] = job_takes(job, COMMAND_PLAN),
        [ACTION_CANCEL] = job_takes(job, COMMAND_CANCEL) && !ended,
        [ACTION_DEAD_LETTER] = job_takes(job, COMMAND_DEAD_LETTER),
        [ACTION_DROP] = job->status == JOB_DEAD_LETTERED,
        [ACTION_REDACT] = ended && !job->redacted,
    };
    uint32_t actions = 0;
    for (int i = 0; i < JOB_ACTION_COUNT; i++)
        actions |= (uint32_t)takes[i] << i;
    return actions;
}

void job_actions_write(uint32_t actions, struct json_writer *writer)
{
    json_begin_array(writer);
    for (int i = 0; i < JOB_ACTION_COUNT; i++)
        if ((actions & UINT32_C(1) << i) != 0)
            json_put_string(writer, names[i]);
    json_end_array(writer);
}
