/* What a transaction writes: jobs with what changed of them, and all that is not a job. */
#ifndef PAWL_STORE_STORE_WRITE_H
#define PAWL_STORE_STORE_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/uuid.h"
#include "core/access.h"
#include "core/event.h"
#include "core/retention.h"
#include "core/schedule_entry.h"
#include "store/store_load.h"

struct store_step_write {
    const struct step *step;
    uint8_t changed;           /* enum changed: as for jobs */
    struct schedule_entry was; /* as loaded; zeroed for a new step, and `lane` absent when
                             candidates took it out */
    struct schedule_entry now;
};

/* One job and what became of it. */
struct store_job_write {
    const struct job_slice *after;
    const struct event *events; /* sealed; with versions that go on from the last, or telemetry */
    uint32_t event_count;
    bool created;    /* there is no row yet */
    uint8_t changed; /* enum changed: members of no other group are as they are stored, so that
                        nothing needs to be compared; CHANGED_ALL for a new job. A heartbeat's
                        is within CHANGED_BESIDE, a claim's CHANGED_STREAM | CHANGED_LEASE */
    struct schedule_entry was; /* as for steps */
    struct schedule_entry now;
    int64_t purge_at; /* 0: never */

    /* Parts that are new or have changed. */
    const struct effect *const *effects;
    uint32_t effect_count;
    const struct signal *const *signals;
    uint32_t signal_count;
    const struct store_step_write *steps;
    uint32_t step_count;

    bool plan_replaced; /* all steps that there were are gone, with their schedule entries */
    bool steps_closed;  /* no step that is not listed may be claimed from now on */
    bool steps_ended;   /* nor has one a lease or a due time */
    bool redact;        /* erase the payloads of all events, telemetry, effects and signals, and the
                           salt; `after` has been through job_redact */
};

/* Whether the row of a job or step stays as it is: only its live lease, if it has one, and its
 * entry are written. */
static inline bool store_row_same(uint8_t changed)
{
    return (changed & ~CHANGED_BESIDE) == 0;
}

struct store_queue {
    struct str queue;
    bool paused;
};

/* Everything that a batch changes. Nothing is there twice. */
struct store_write {
    const struct store_job_write *jobs; /* by id, rising */
    uint32_t job_count;
    const struct request_record *requests; /* take the place of an older one */
    uint32_t request_count;
    const struct resource *resources; /* registered or renewed */
    uint32_t resource_count;
    const struct str *resources_gone; /* ids */
    uint32_t resource_gone_count;
    const struct worker *registrations; /* registered or renewed */
    uint32_t registration_count;
    const struct str *registrations_gone; /* ids */
    uint32_t registration_gone_count;
    /* Prolonged: of one that is there expires_at alone is written, if it is later. Who is busy with
     * a registration is not waited for. */
    const struct worker *renewals;
    uint32_t renewal_count;
    const struct store_kind *kinds; /* all zero: nothing is set any more */
    uint32_t kind_count;
    const struct store_queue *queues;
    uint32_t queue_count;
    /* New, or to be revoked: of one that is there nothing else changes, and not when it is revoked
     * already. */
    const struct access_token *tokens;
    uint32_t token_count;
    const struct uuid *tokens_gone; /* to delete; those that are not there do not matter */
    uint32_t token_gone_count;
    const struct uuid *purged; /* jobs to delete, which load has locked; (id, version, head) stays
                                  for PURGED_KEPT_MS */
    uint32_t purged_count;
};

enum store_outcome {
    STORE_COMMITTED,     /* durable */
    STORE_NOT_COMMITTED, /* certainly not: run it again */
    STORE_UNKNOWN,       /* the store went away and did not come back in time to ask it */
};

#endif
