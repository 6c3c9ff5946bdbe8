#include "core/lifetime.h"

int64_t job_expires_at(const struct job *job)
{
    bool applies = job->spec.expires_ms > 0 && job->attempt == 0 && job->epoch == 1;
    return applies && !job_status_terminal(job->status) ? job->created_at + job->spec.expires_ms
                                                        : 0;
}

int64_t job_deadline_at(const struct job *job)
{
    if (job->spec.deadline_ms <= 0 || job_status_terminal(job->status))
        return 0;
    return (job->epoch_at > 0 ? job->epoch_at : job->created_at) + job->spec.deadline_ms;
}

int64_t job_lifetime_at(const struct job *job)
{
    int64_t expires_at = job_expires_at(job);
    int64_t deadline_at = job_deadline_at(job);
    if (expires_at == 0 || deadline_at == 0)
        return expires_at + deadline_at;
    return expires_at < deadline_at ? expires_at : deadline_at;
}

bool job_outlived(const struct job *job, int64_t now)
{
    int64_t at = job_lifetime_at(job);
    return at > 0 && at <= now;
}
