/* What may be erased: whole jobs, or the payloads in their histories. */
#ifndef PAWL_CORE_RETENTION_H
#define PAWL_CORE_RETENTION_H

#include "base/error.h"
#include "core/job.h"

/* Only a job that has ended may be deleted, or have its payloads erased: ok, or invalid_transition;
 * not_found when there is no such job. */
enum error_code job_check_drop(const struct job *job, struct err *err);
enum error_code job_check_redact(const struct job *job, struct err *err);

#endif
