/* What may be erased: whole jobs, or the payloads in their histories. */
#ifndef PAWL_CORE_RETENTION_H
#define PAWL_CORE_RETENTION_H

#include <stdint.h>

#include "base/error.h"
#include "core/job.h"

/* How long (id, version, head) of a deleted job is kept, so that a head noted elsewhere can still
 * be compared. */
#define PURGED_KEPT_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* Only a job that has ended may be deleted, or have its payloads erased: ok, or invalid_transition;
 * not_found when there is no such job. */
enum error_code job_check_drop(const struct job *job, struct err *err);
enum error_code job_check_redact(const struct job *job, struct err *err);

#endif
