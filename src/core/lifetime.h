/* How long a job may live: until when it must have started (expires_ms), and until when it must
 * have ended (deadline_ms).
 *
 * Both count from the submission. A requeue by an operator opens a new epoch: the deadline counts
 * from then on, and the job does not expire any more, since somebody wants it. */
#ifndef PAWL_CORE_LIFETIME_H
#define PAWL_CORE_LIFETIME_H

#include <stdint.h>

#include "core/job.h"

/* When the job is cancelled unless it was claimed before; 0: never, or it has started or ended. */
int64_t job_expires_at(const struct job *job);

/* When the job ends by itself, whatever its state; 0: never, or it has ended. */
int64_t job_deadline_at(const struct job *job);

/* The earlier of both; 0: neither. */
int64_t job_lifetime_at(const struct job *job);

/* Whether its life is over at `now`. */
bool job_outlived(const struct job *job, int64_t now);

#endif
