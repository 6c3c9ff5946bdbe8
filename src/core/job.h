/* A job as the fold of its events, and the parts of it that a command needs.
 *
 * struct job is the header, always loaded. Effects, signals and steps are kept apart and
 * only those that a command touches are loaded: header and loaded parts are a struct job_slice. A
 * slice with all parts is a whole job, which is what replay and verify work on.
 *
 * Members marked (beside) are not derived from the stream while a lease is live: heartbeats move
 * them. The event that ends the lease records what they came to, so that without a live lease every
 * member is a fold of the stream. Views point into the events or into the arena that the slice was
 * loaded with.
 *
 * `changed` of a job and of its parts is no member of theirs: the fold notes there what it has
 * touched since the slice was loaded, so that a store is told what to write and compares nothing.
 */
#ifndef PAWL_CORE_JOB_H
#define PAWL_CORE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/record.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/command_type.h"
#include "core/machine.h"
#include "core/spec.h"

enum { TOKEN_HASH_LEN = 16, SALT_LEN = 16, INPUT_HASH_LEN = 16 };

/* Groups of members that change together, as bits. A group that is noted may be as it was; one that
 * is not noted is. */
enum changed {
    CHANGED_STREAM = 1 << 0,   /* version, updated_at, head, records_end: every event with a
                                  version; of a step records_end */
    CHANGED_LEASE = 1 << 1,    /* status or state, attempt, the lease: it began, moved or ended */
    CHANGED_BEAT = 1 << 2,     /* beat_at and expires_at of a live lease */
    CHANGED_PROGRESS = 1 << 3, /* progress, cursor */
    CHANGED_COUNTS = 1 << 4,   /* open_effects, stored_signals, steps, final_steps, open_deps */
    CHANGED_REST = 1 << 5,
    CHANGED_BESIDE = CHANGED_BEAT | CHANGED_PROGRESS, /* all that a heartbeat moves */
    CHANGED_ALL = (1 << 6) - 1,
};

/* A lease, live or ended. An ended one stays until the next, so that its holder's last call can be
 * answered again when the answer was lost. */
struct lease {
    bool live;
    enum command_type ended_by; /* how it ended; COMMAND_NONE while live */
    struct str worker_id;
    struct str resource_id; /* steps only */
    uint8_t token_hash[TOKEN_HASH_LEN];
    int64_t lease_ttl_ms;
    int64_t heartbeat_ms;
    int64_t beat_at;    /* (beside) last sign of life */
    int64_t expires_at; /* (beside) from when the lease can be taken */
    int64_t since;      /* when it was given */
    int64_t timeout_at; /* end of this attempt however well it beats; 0: none */
};

/* What a blocked job waits for. */
struct wait {
    enum wait_type type; /* WAIT_NONE: it does not wait */
    struct str correlation_key;
    int64_t since;
    int64_t until; /* 0: for ever */
    struct str prompt;
    struct str choices; /* raw JSON array */
    struct str assignee;
    struct str effect;         /* key of the effect in doubt that a person is asked about */
    struct str default_answer; /* raw JSON: the payload when the time is over. Of a job's wait; a
                                  step keeps its own beside the question */
};

/* Why a job woke, for the worker that goes on with it. Stays until the next wait or the end. */
struct resume {
    enum outcome outcome; /* OUTCOME_NONE: it did not wait */
    struct str correlation_key;
    struct str payload; /* raw JSON: a person's answer itself */
    struct str by;      /* the person who answered; absent: no person did */
    struct str comment; /* what they added */
};

struct dead_letter {
    enum dead_letter_reason reason_code;
    enum stage stage;
    struct str last_error; /* raw JSON */
    int64_t attempts;
    struct str last_owner;
    int64_t last_lease_expires_at;
    int64_t at;
};

/* Where the steps of a plan stand, as far as their job cares. */
enum step_standing {
    STANDING_BLOCKED, /* a dependency is open */
    STANDING_READY,   /* may be claimed, now or when its delay is over */
    STANDING_ACTIVE,  /* leased or running, or between two states in one decision */
    STANDING_HELD,    /* finished, its result held for a critic */
    STANDING_ASKING,  /* a person is asked, or a wait step waits */
    STANDING_SUCCEEDED,
    STANDING_FAILED,
    STANDING_COUNT,
};

struct job {
    struct uuid id;
    enum job_status status;
    int64_t version; /* number of events */
    int64_t attempt; /* rises with every claim, across epochs: the fencing number */
    int64_t epoch;
    int64_t epoch_at; /* when this epoch began; 0 in the first: with the job */
    int64_t failures; /* in this epoch */
    int64_t run_at;
    int64_t created_at;
    int64_t updated_at; /* of the last event */
    struct spec spec;
    struct lease lease;
    struct wait wait;
    struct resume resume;
    struct dead_letter dead_letter;
    struct str result;   /* raw JSON */
    struct str error;    /* raw JSON, the last one */
    struct str progress; /* raw JSON (beside) */
    struct str cursor;   /* (beside) */
    bool cancel_requested;
    struct str cancel_reason;
    int64_t cancel_at;         /* when a soft cancel turns hard */
    int64_t effects_from;      /* version of the last fresh start: earlier effects do not count */
    int64_t open_effects;      /* begun for the job itself, neither committed nor aborted */
    int64_t records_end;       /* see job_has_records */
    int64_t stored_signals;    /* received, not yet taken by a wait */
    int64_t plan_version;      /* 0: no plan */
    int64_t step_attempt_base; /* no step that a new plan brings starts below this */
    bool replan;               /* a step asked for a new plan */
    struct str replan_reason;
    int64_t steps[STANDING_COUNT]; /* how many stand where */
    int64_t final_steps;           /* on which no other depends */
    struct str pin;                /* only claims of this code version get it; absent: any does */
    uint8_t head[HASH_LEN];        /* hash of the last event */
    uint8_t salt[SALT_LEN];        /* beside the stream, erased by redaction */
    bool redacted;                 /* beside the stream: payloads and salt are erased */
    uint8_t changed;               /* enum changed */
};

/* A side effect that must not be repeated.
 *
 *            begin              commit
 *   (none) --------->  open  -------------> recorded: `returned`, with `result` or `error`
 *                      |  ^
 *                abort |  | begin, by this attempt or a later one
 *                      v  |
 *                     aborted: it certainly did not happen, `error` says why
 *
 * What an earlier attempt left open is in doubt when it is begun again. */
struct effect {
    struct str name; /* the key, or for a step's effect "step\x1fkey": see effect_name */
    struct str step; /* absent: the job's own */
    struct str key;
    int64_t version;   /* of the first tool_called */
    int64_t called_at; /* when it was last called */
    int64_t attempt;   /* that called last */
    int64_t epoch;     /* in which it did */
    uint8_t input_hash[INPUT_HASH_LEN];
    struct str fingerprint;     /* compared instead of the input, where both begins have one */
    enum doubt_policy in_doubt; /* what its first begin said, since the last abort */
    bool returned;
    bool aborted;
    int64_t ended_at; /* when it returned or was aborted; 0: it is open, or its row is of an older
                         version */
    enum resolution resolution; /* a person's word when it was in doubt */
    int64_t resolved_epoch;     /* the word holds in this epoch only */
    struct str result;          /* raw JSON */
    struct str error;           /* raw JSON: of a failure that is recorded, or why it was aborted */
    bool changed;
};

static inline bool effect_is_open(const struct effect *effect)
{
    return !effect->returned && !effect->aborted;
}

/* A signal that was received: stored, or delivered to a wait. */
struct signal {
    struct str correlation_key;
    struct str signal_id;
    struct str payload; /* raw JSON */
    int64_t version;    /* of the event that received it */
    bool delivered;
    bool changed;
};

/* What a plan says of one step, as it was given. */
struct step_spec {
    struct str id;
    struct str kind;
    struct str deps;         /* raw JSON array of ids */
    struct str payload;      /* raw JSON */
    struct str capabilities; /* raw JSON array of names */
    struct str selector;     /* Kubernetes syntax */
    struct str avoid;        /* raw JSON array of resource ids */
    struct retry_policy retry;
    int64_t timeout_ms;
    bool critic;
    enum failure_policy on_failure;
    struct str wait; /* raw JSON object; set: no worker runs this step */
};

struct step {
    uint32_t ordinal; /* place in the plan */
    enum step_state state;
    struct step_spec spec;
    uint32_t *children; /* ordinals of the steps that depend on this one */
    uint32_t child_count;
    int64_t open_deps; /* dependencies that have not succeeded */
    int64_t attempt;
    int64_t failures;
    int64_t not_before; /* while retrying */
    int64_t open_effects;
    int64_t records_end; /* see step_has_records */
    struct lease lease;
    struct str *avoided; /* resources lost on the way, besides the plan's avoid list */
    uint32_t avoided_count;
    struct wait question; /* needs_user: what is asked; type WAIT_NONE: nothing */
    struct str default_answer;
    bool answered;
    struct str answer; /* raw JSON */
    struct str answered_by;
    struct str answer_comment;
    bool held;            /* finished, result held for a critic */
    enum verdict verdict; /* the last one given */
    struct str result;
    struct str error;
    struct str progress; /* (beside) */
    struct str cursor;   /* (beside) */
    uint8_t changed;     /* enum changed */
};

struct job_slice {
    struct job job;
    struct effect *effects;
    uint32_t effect_count;
    uint32_t effect_cap;
    struct signal *signals;
    uint32_t signal_count;
    uint32_t signal_cap;
    struct step *steps; /* by ordinal, rising; all of them, or those that job_decide asks for */
    uint32_t step_count;
    uint64_t seed; /* for the look-up tables; changes no result */
    struct map effect_index;
    struct map step_index;
};

/* The empty slice: a job before its first event. */
void job_slice_init(struct job_slice *slice, struct uuid id, uint64_t seed);

/* A deep enough copy for evolve to work on without touching `from`; no_memory, with `ret` to be
 * thrown away, otherwise. */
enum error_code job_slice_copy(const struct job_slice *from, struct arena *arena,
                               struct job_slice *ret);

/* Loaded parts by name; NULL if missing. An effect older than the last fresh start does not
 * count. */
struct effect *job_effect(const struct job_slice *slice, struct str name);
struct step *job_step(const struct job_slice *slice, struct str id);
struct step *job_step_at(const struct job_slice *slice, uint32_t ordinal);

/* Whether the job itself, or a step of it, may have effects or waits that count since the last
 * fresh start, for a claim to carry. records_end is one past the version of the last event that
 * made one, and 1 from the first claim on while there is no such event. After a claim it is 0 in
 * rows of older versions, which did not keep it, and for a step that a new plan brings back: then
 * there may be some. */
bool job_has_records(const struct job *job);
bool step_has_records(const struct job *job, const struct step *step);

/* Makes look-ups in a slice with many steps fast: for anyone who loads one from elsewhere. */
enum error_code job_slice_index(struct job_slice *slice, struct arena *arena);

/* Adds an effect or a signal to the slice; NULL when there is no memory. */
struct effect *job_effect_add(struct job_slice *slice, struct str name, struct arena *arena);
struct signal *job_signal_add(struct job_slice *slice, struct arena *arena);

/* The name under which an effect is looked up. The separator cannot occur in a name. */
struct str effect_name(struct str step, struct str key, struct arena *arena);

/* Where a step stands. */
enum step_standing step_standing(const struct step *step);

/* The resource of which the lease of a step takes a slot; absent for a critic's, who judges the
 * work of a resource and needs none. */
struct str step_slot(const struct step *step);

static inline bool job_has_plan(const struct job *job)
{
    return job->plan_version > 0;
}

/* Writes the row: header and loaded parts, as canonical JSON. Two slices are equal when their rows
 * are. */
void job_row_write(const struct job_slice *slice, struct buf *buf);

/* Where two rows differ first: in the "job", or an "effect", "signal" or "step" of that name, and
 * in which member. `part` is absent when they are equal. */
struct row_difference {
    struct str part;
    struct str name;
    struct str member;
};

/* Compares two slices with the same parts loaded, signals and steps in the same order.
 * Members (beside) are compared only where no lease is live in either. */
struct row_difference job_row_differs(const struct job_slice *a, const struct job_slice *b);

#endif
