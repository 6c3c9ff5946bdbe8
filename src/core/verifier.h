/* What the parts of the checker share; no one else includes this.
 *
 * struct verifier is an account of one job, kept from the events alone: nothing in it comes from
 * decide or from the fold. After a violation the account follows what the stream says, so that one
 * fault gives one report and not a trail of them. After a redacted event the verifier is blind:
 * payloads are unknown from then on, and only what types and causes tell is checked.
 *
 *   verify.c          stream, chain, fold and row; the report
 *   verify_cause.c    which command may produce what, and under which lease
 *   verify_job.c      the job's moves, claims, leases and failures
 *   verify_waits.c    waits and signals
 *   verify_effects.c  effects
 *   verify_plan.c     plans, and how a planned job ends
 *   verify_steps.c    steps */
#ifndef PAWL_CORE_VERIFIER_H
#define PAWL_CORE_VERIFIER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/str.h"
#include "core/event.h"
#include "core/job.h"
#include "core/machine.h"
#include "core/verify.h"

struct lease_account {
    bool live;
    int64_t attempt;
    int64_t expires_at; /* as given out: heartbeats can only make it later */
    int64_t timeout_at;
    uint64_t life; /* a step's: live only in the life of the plan that gave it */
};

struct wait_account {
    enum wait_type type;
    struct str key;
    int64_t until;
    struct str effect; /* in doubt, a person is asked */
    struct str choices;
    struct str default_answer;
};

struct signal_account {
    int64_t version; /* of its event */
    struct str key;
    struct str id;
    struct str payload;
    bool taken;
    uint32_t next; /* that was stored for the same key; SIGNAL_NONE: it is the last */
};

#define SIGNAL_NONE UINT32_MAX

/* Signals of one key that were stored, oldest first. Those that were taken stay in the list until
 * a walk along it passes them. */
struct stored_account {
    uint32_t first;
    uint32_t last;
};

struct effect_account {
    struct str step; /* absent: the job's own */
    struct str key;
    uint64_t start; /* the fresh start that it belongs to */
    int64_t version;
    int64_t attempt;
    uint8_t input_hash[INPUT_HASH_LEN];
    struct str fingerprint;
    enum doubt_policy in_doubt; /* of its first call, since the last abort */
    bool returned;
    bool aborted;
    bool may_retry; /* a person said so */
    uint32_t owner;
};

/* Open effects of the job or of one step. They outlive plans, as effects do. */
struct effect_owner {
    uint64_t start;
    int64_t open;
};

struct lost_resource {
    struct str id;
    const struct lost_resource *next;
};

/* Where a step stands, as far as its job cares. */
enum step_place {
    PLACE_BLOCKED, /* a dependency is open */
    PLACE_READY,   /* may be claimed, now or later */
    PLACE_WORKING, /* a worker or a critic has it */
    PLACE_HELD,    /* finished, no critic has it yet */
    PLACE_ASKING,
    PLACE_SUCCEEDED,
    PLACE_FAILED,
    PLACE_REPLANNED, /* failed by the verdict that asks for another plan */
    PLACE_COUNT,
};

struct step_account {
    const struct step *planned; /* id, policy and children, as the plan has them */
    enum step_state state;
    int64_t entered; /* version of the event that entered the state */
    int64_t open_deps;
    int64_t attempt;
    int64_t failures;
    int64_t not_before;
    struct lease_account lease;
    struct str resource_id; /* that it ran on last */
    const struct lost_resource *lost;
    struct wait_account question;
    bool answered;
    bool held;    /* finished, waiting for a critic's verdict */
    bool replans; /* the verdict on it asked for a new plan */
};

struct verifier {
    struct arena *arena;
    const uint8_t *salt;
    uint64_t seed;
    struct uuid id;
    bool no_memory;

    struct violation *violations;
    struct buf *details; /* of each violation */
    uint32_t violation_count;
    struct buf spare; /* takes the details of what the report has no room for */

    /* The stream. */
    const struct event *event; /* at hand */
    struct event sanitized;    /* the event at hand, when its numbers are in no list */
    bool blind;
    bool redacted;
    bool begun;                /* an event has been seen */
    bool types_listed;         /* so far */
    struct str correlation_id; /* of the first event */
    int64_t version;
    int64_t at;
    uint8_t head[HASH_LEN];
    struct cause cause; /* of the event before, and whether its lease was live at the start */
    int64_t cause_at;
    bool cause_live;

    /* The job. */
    enum job_status status;
    enum job_status other; /* what the status may be instead, when only types are known */
    enum job_status from;  /* status before the state event at hand */
    bool has_spec;
    struct spec spec;
    int64_t epoch;
    int64_t claims;
    int64_t failures;
    int64_t run_at;
    int64_t created_at;
    int64_t epoch_at; /* when the epoch began that its deadline counts from */
    struct lease_account lease;
    bool pinned;
    bool cancel_requested;
    int64_t cancel_at;
    int64_t position_epoch; /* how far the job has come */
    int64_t position_attempt;
    int position_rank;

    /* Waits and signals. */
    struct wait_account wait;
    struct signal_account *signals; /* in stream order */
    uint32_t signal_count;
    uint32_t signal_cap;
    struct map signal_ids;
    struct stored_account *stored; /* signals that no wait has taken, by key */
    uint32_t stored_count;
    uint32_t stored_cap;
    struct map stored_index;

    /* Effects. */
    struct effect_account *effects;
    uint32_t effect_count;
    uint32_t effect_cap;
    struct map effect_index; /* by step and key */
    struct effect_owner *owners;
    uint32_t owner_count;
    uint32_t owner_cap;
    struct map owner_index; /* by step, "" for the job */
    uint64_t start;         /* number of fresh starts */

    /* Plan and steps. */
    bool has_plan;
    bool replan; /* a verdict asked for a new plan */
    int64_t plan_version;
    struct step_account *steps;
    uint32_t step_count;
    struct map step_index;
    int64_t step_attempt_base; /* steps that were not there before start here */
    uint64_t life;             /* raised when all steps' leases die at once */
    int64_t steps_in[PLACE_COUNT];
    int64_t steps_fatal; /* failed, and by their policy the job with them */
    bool unsettled;
    uint32_t command_violations; /* before the command at hand */
};

/* Notes a violation by the event at hand and returns the buffer for its detail. */
struct buf *violate(struct verifier *v, enum verify_rule rule);

/* True when the report has no room left: details need not be searched for. */
bool report_is_full(const struct verifier *v);

/* Makes room for one more element; false, and noted, when there is no memory. The array may move.
 */
bool account_reserve(struct verifier *v, void **at, uint32_t count, uint32_t *cap, size_t size);

/* For details: the type of the event at hand and the name of its command. */
struct str event_text(const struct verifier *v);
struct str command_text(const struct verifier *v);

/* "%lld" for numbers of 64 bits. */
#define INT_ARG(value) ((long long)(value))

/* Views of equal text; absent and empty are the same, since stores may not tell them apart. */
static inline bool text_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* For details: the text of an enum's value. */
static inline struct str word(const struct record_names *names, int value)
{
    return value > 0 && (size_t)value < names->count ? names->at[value] : STR("none");
}

static inline bool event_caused_by(const struct verifier *v, enum command_type command)
{
    return v->event->cause.command == command;
}

/* A count read from a payload, if it is one that can go on being counted; `otherwise` if not. */
static inline int64_t count_or(int64_t count, int64_t otherwise)
{
    return count >= 0 && count < INT64_MAX / 2 ? count : otherwise;
}

/* verify_cause.c */
void verify_cause(struct verifier *v);

/* verify_job.c */
void verify_state(struct verifier *v);
void verify_cancel_requested(struct verifier *v);
void verify_repinned(struct verifier *v);

/* The class that a worker's error says; CLASS_NONE when it says none. */
enum error_class error_class_of(struct str error);

static inline bool error_is_final(struct str error)
{
    enum error_class of = error_class_of(error);
    return of == CLASS_PERMANENT || of == CLASS_VALIDATION;
}

void verify_lease_holder(struct verifier *v);
void verify_lease_terms(struct verifier *v, int64_t timeout_ms);
void verify_lease_over(struct verifier *v, const struct lease_account *lease);

/* verify_waits.c */
void verify_waiting(struct verifier *v);
void verify_wait_completed(struct verifier *v);
void verify_signal_received(struct verifier *v);

/* verify_effects.c */
void verify_tool(struct verifier *v);
void verify_no_open_effect(struct verifier *v, struct str step);
void effects_start_fresh(struct verifier *v);

/* What a person said of an effect in doubt. Reports an effect that is not open. */
void verify_resolution(struct verifier *v, struct str step, struct str key);

/* A question is asked of an effect: it must be open. */
void verify_doubt(struct verifier *v, struct str step, struct str key);

/* verify_plan.c */
void verify_plan_generated(struct verifier *v);
void verify_planned_state(struct verifier *v);
void verify_plan_rest(struct verifier *v);

/* At the end of each command: the last event is still at hand. */
void verify_settled(struct verifier *v);

/* The account of a step, or NULL. */
struct step_account *step_account(const struct verifier *v, struct str id);

/* The same for the event at hand, reported if absent. */
struct step_account *event_step_account(struct verifier *v);

static inline bool step_lease_live(const struct verifier *v, const struct step_account *step)
{
    return step->lease.live && step->lease.life == v->life && !job_status_terminal(v->status);
}

/* A wait step is run by the engine alone. */
static inline bool step_waits(const struct step_account *step)
{
    return str_is_set(step->planned->spec.wait);
}

bool step_is_passing(enum step_state state);

/* verify_steps.c */

/* Keeps the sums over all steps: called with -1 before a step changes and with 1 after. */
void count_step(struct verifier *v, const struct step_account *step, int64_t change);
void verify_step(struct verifier *v);
void verify_answer(struct verifier *v);

/* The event at hand answers a question with choices: it brings one of them. */
void verify_choice(struct verifier *v, const struct wait_account *question, enum verify_rule rule);

/* Facts about a step enter no state, yet nothing may happen in a passing one: reported, and false.
 */
bool verify_not_passing(struct verifier *v, const struct step_account *step);

#endif
