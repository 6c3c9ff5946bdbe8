/* Retention: when a job is deleted, and which jobs may be deleted or have their payloads erased. */
#ifndef PAWL_CORE_RETENTION_H
#define PAWL_CORE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/job.h"
#include "core/spec.h"

/* How long a completed or cancelled job is kept when its kind has no retention of its own. */
#define RETENTION_MS_DEFAULT (INT64_C(7) * 24 * 60 * 60 * 1000)

/* How long (id, version, head) of a deleted job is kept, so that a head noted elsewhere can still
 * be compared. */
#define PURGED_KEPT_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* From when the job may be deleted, 0 for never: completed and cancelled jobs after the kind's
 * retention (NULL: no settings) or seven days; failed and dead-lettered ones stay until somebody
 * handles them. */
int64_t job_purge_at(const struct job *job, const struct kind_settings *kind);

/* Whether a job whose time to be deleted is `purge_at` (job_purge_at; 0: never) may be deleted, now
 * that trusted time (core/trusted_time.h) is `trusted`. */
bool retention_is_over(int64_t purge_at, int64_t trusted);

/* Only a job that has ended may be deleted, or have its payloads erased: ok, or invalid_transition;
 * not_found when there is no such job. */
enum error_code job_check_drop(const struct job *job, struct err *err);
enum error_code job_check_redact(const struct job *job, struct err *err);

#endif
