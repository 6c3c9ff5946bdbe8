/* What may be erased: whole jobs, or the payloads in their histories. */
#ifndef PAWL_CORE_RETENTION_H
#define PAWL_CORE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/job.h"

/* How long (id, version, head) of a deleted job is kept, so that a head noted elsewhere can still
 * be compared. */
#define PURGED_KEPT_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* Whether a job whose time to be deleted is `purge_at` (job_purge_at; 0: never) may be deleted, now
 * that trusted time (core/trusted_time.h) is `trusted`. */
bool retention_is_over(int64_t purge_at, int64_t trusted);

/* Only a job that has ended may be deleted, or have its payloads erased: ok, or invalid_transition;
 * not_found when there is no such job. */
enum error_code job_check_drop(const struct job *job, struct err *err);
enum error_code job_check_redact(const struct job *job, struct err *err);

#endif
