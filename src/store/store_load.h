/* What a transaction loads, and where it finds work: jobs, keys, requests, resources and
 * registrations that a batch names, parts of jobs, candidates from lanes, submissions. */
#ifndef PAWL_STORE_STORE_LOAD_H
#define PAWL_STORE_STORE_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/uuid.h"
#include "core/job.h"
#include "core/lane.h"
#include "core/request.h"
#include "core/resource.h"
#include "core/spec.h"
#include "core/worker.h"

/* Stands for the job itself where a step's ordinal could be. */
#define STEP_NONE UINT32_MAX

/* A job by its id. `slice` has the header only; its status is JOB_NONE when there is no such job.
 */
struct store_job {
    struct uuid id;
    struct job_slice slice; /* out */
    bool redacted;          /* out */
    struct str damaged; /* out, in a list: why the job cannot be read, and slice is that of none */
};

/* A job by its own idempotency key, which is unique in its queue. The key is locked whether or not
 * there is a job; the job is only read. */
struct store_key {
    struct str queue;
    struct str key;
    struct job_slice slice; /* out: the header, or JOB_NONE */
};

/* The record of a request by scope and key, which are locked. */
struct store_request {
    struct str scope;
    struct str key;
    bool found;                   /* out */
    struct request_record record; /* out */
};

/* A resource by id, which is locked; `used` is counted from the live leases on it. */
struct store_resource {
    struct str id;
    bool found;               /* out */
    struct resource resource; /* out */
};

/* The registration of a worker by its id, which is locked if store_load says so; also one whose
 * time is over. */
struct store_registration {
    struct str id;
    bool found;           /* out */
    struct worker worker; /* out */
};

struct store_kind {
    struct str kind;
    struct kind_settings settings;
};

struct store_search;

/* Everything that a batch names. Each array is sorted (jobs by id, the others by their texts as
 * str_cmp orders them, in the order of the members) and has nothing twice. */
struct store_load {
    struct store_job *jobs;
    uint32_t job_count;
    struct store_key *keys;
    uint32_t key_count;
    struct store_request *requests;
    uint32_t request_count;
    struct store_resource *resources;
    uint32_t resource_count;
    struct store_registration *registrations;
    uint32_t registration_count;
    bool registrations_locked; /* no: they are only looked at, and nobody waits for them */
    /* A hint: `candidates` will probably be called with these. A store may look for their work at
     * once. What no search takes in the end stays where it is. */
    const struct store_search *searches;
    uint32_t search_count;

    /* Out: time, and what an operator has set, all as of this transaction. */
    int64_t now;
    struct store_kind *kinds; /* by kind */
    uint32_t kind_count;
    struct names paused; /* queues, sorted */
    uint64_t lanes_era;  /* another one than before: lanes were deleted meanwhile, so that what
                            was known of them is to be forgotten */
};

/* All effects of one step, or (an absent one) of the job itself, open or not: the first `max` of
 * those with a later version than `after`. For transactions that only read, and beside no other
 * selection of effects. */
struct store_effects {
    bool wanted;
    struct str step;
    int64_t after;
    uint32_t max;
};

/* Parts of one job that load has locked (or, when only reading, of any). The first members say
 * which, the others are filled: effects and signals by version, steps by ordinal, nothing twice. */
struct store_parts {
    struct uuid job;

    bool all_steps;
    const uint32_t *ordinals; /* these steps and their children */
    uint32_t ordinal_count;
    const struct str *step_ids; /* these and their children */
    uint32_t step_id_count;
    const struct str *asking_keys; /* the steps whose open question has this key, and children */
    uint32_t asking_key_count;
    bool no_children; /* just the steps that are named */

    bool all_effects;
    bool all_open_effects;
    const struct str *open_of; /* open effects of these steps; an absent one: of the job itself */
    uint32_t open_of_count;
    const struct str *effect_names; /* as effect_name makes them */
    uint32_t effect_name_count;
    struct store_effects effects_of;

    bool all_signals;
    bool stored_signals;           /* all that are not delivered */
    const struct str *signal_keys; /* the newest and the oldest not delivered, of each */
    uint32_t signal_key_count;
    const struct str *signal_ids;
    uint32_t signal_id_count;

    struct step *steps; /* out */
    uint32_t step_count;
    struct effect *effects; /* out */
    uint32_t effect_count;
    struct signal *signals; /* out */
    uint32_t signal_count;
};

/* ---- finding work ---- */

struct store_lane {
    uint32_t number; /* from 1 on, in the order in which lanes were first used in this era */
    struct str key;
};

/* A piece of work that may be claimed now. It is taken out of its lane: the caller writes it anew
 * with its schedule entry after the claim, or puts it back, before commit. */
struct store_candidate {
    struct job_slice slice; /* the header */
    uint32_t step;          /* ordinal, or STEP_NONE */
    uint32_t lane;          /* where it stood */
};

enum { SKIPPED_COUNT_MAX = 16 };

/* One search: at most `max` pieces from lanes that stand in groups. Within a group work comes in
 * the order of priority (higher first), run_at, job id, step; groups take turns, the first group
 * first. Work that another transaction is busy with is passed over. */
struct store_search {
    const uint32_t *lanes;      /* numbers, group by group */
    const uint32_t *group_ends; /* index in `lanes` one past the last of each group */
    uint32_t group_count;
    uint32_t max;
    struct store_candidate *found; /* out */
    uint32_t found_count;          /* out */
    bool locked_unclaimed;         /* out: more was locked than was found, and stays in its lane */
    uint32_t skipped_locked;       /* out, when nothing was found: heads of these lanes that another
                                      transaction was busy with, SKIPPED_COUNT_MAX at most */
};

/* ---- transactional enqueue ---- */

/* A job that a user put in with a transaction of theirs (PostgreSQL's pawl_submit). The options say
 * everything, with the queue and the key, which are also here: they passed as names. */
struct store_submission {
    struct uuid id;
    struct str kind;
    struct str queue;
    struct str idempotency_key;
    struct str payload; /* raw JSON, not checked */
    struct str options; /* raw JSON, not checked */
};

/* Which submissions to take: the oldest, except those that are quarantined. */
struct store_outbox_request {
    uint32_t limit;
    const struct uuid *quarantined;
    uint32_t quarantined_count;
};

#endif
