#include "core/retention.h"

static enum error_code check_ended(const struct job *job, const char *verb, struct err *err)
{
    char id[UUID_TEXT_LEN];
    uuid_format(job->id, id);
    if (job->status == JOB_NONE)
        return err_set(err, ERR_NOT_FOUND, "unknown job %.*s", UUID_TEXT_LEN, id);
    if (!job_status_terminal(job->status))
        return err_set(err, ERR_INVALID_TRANSITION, "cannot %s job %.*s: it is %.*s", verb,
                       UUID_TEXT_LEN, id, STR_ARG(job_status_name(job->status)));
    return ERR_OK;
}

int64_t job_purge_at(const struct job *job, const struct kind_settings *kind)
{
    if (job->status != JOB_COMPLETED && job->status != JOB_CANCELLED)
        return 0;
    int64_t kept =
        kind != NULL && kind->retention_ms > 0 ? kind->retention_ms : RETENTION_MS_DEFAULT;
    return job->updated_at + kept;
}

bool retention_is_over(int64_t purge_at, int64_t trusted)
{
    return purge_at > 0 && purge_at <= trusted;
}

enum error_code job_check_drop(const struct job *job, struct err *err)
{
    return check_ended(job, "delete", err);
}

enum error_code job_check_redact(const struct job *job, struct err *err)
{
    return check_ended(job, "erase the payloads of", err);
}
