/* Rows as the stores keep them, and slices made from them: what the three have in common.
 *
 * A row has columns that people search by, and JSON texts for the rest (core/job_state.h). While a
 * lease is live its beats, progress and cursor are in a row of their own (job_claims), so that a
 * heartbeat writes little; they go over those in the text. */
#ifndef PAWL_STORE_ROW_H
#define PAWL_STORE_ROW_H

#include "core/job_state.h"
#include "store/store.h"

/* job_claims: a live lease on a job, or on a step of it. */
struct claim_row {
    bool present;
    struct str worker_id;
    struct str resource_id; /* steps only */
    int64_t attempt;
    int64_t beat_at;
    int64_t expires_at;
    int64_t due_at;
    struct str progress; /* raw JSON */
    struct str cursor;
};

/* jobs */
struct job_row {
    struct uuid id;
    int64_t status; /* enum job_status as its number */
    int64_t version;
    int64_t retry_count; /* failures */
    int64_t created_at;
    int64_t updated_at;
    struct str cursor;
    struct str state; /* job_state_write */
    uint8_t head[HASH_LEN];
    uint8_t salt[SALT_LEN];
    bool redacted;
    struct str kind;
    struct str queue;
    int64_t priority;
    struct str agent_id;
    struct str goal;
    struct str correlation_id;
    struct str idempotency_key;
    struct str labels;      /* raw JSON object */
    int64_t reason_code;    /* enum dead_letter_reason as its number; 0: no dead letter */
    int64_t purge_at;       /* 0: never */
    bool asking;            /* job_asks; where a store reads the row whole, else writing only */
    struct str created;     /* reading only: payload of the first event; absent: redacted */
    struct claim_row claim; /* reading only: the live lease on the job itself */
};

/* job_steps */
struct step_row {
    uint32_t ordinal;
    struct str id;
    int64_t state_number;   /* enum step_state */
    struct str plan;        /* step_plan_write; written once, see row_add_plan */
    struct str state;       /* step_state_write */
    struct str asking_key;  /* of an open question; else absent */
    struct claim_row claim; /* reading only */
};

/* job_effects: `name` is its key in the job; `open` effects have neither returned nor been aborted.
 */
struct effect_row {
    struct str name;
    struct str step; /* absent: the job's own */
    struct str key;
    int64_t version;
    bool open;        /* effect_is_open */
    struct str state; /* effect_state_write */
};

/* The row of a job as it is to be written. Texts are in `arena`; no_memory otherwise. */
enum error_code row_of_job(const struct store_job_write *write, enum state_form form,
                           struct arena *arena, struct job_row *ret);
/* The row without the plan, which is added where it is not stored yet: it never changes, and a step
 * that many others must come before has a long one. */
enum error_code row_of_step(const struct step *step, struct arena *arena, struct step_row *ret);
enum error_code row_add_plan(const struct step *step, struct arena *arena, struct step_row *row);
enum error_code row_of_effect(const struct effect *effect, enum state_form form,
                              struct arena *arena, struct effect_row *ret);

/* For lists: one job that cannot be read (corrupt, with `err`) must not hide the others, so it is
 * told as damaged. Any other code comes back as it is. */
enum error_code row_damaged(struct store_job *job, uint64_t seed, enum error_code code,
                            struct arena *arena, const struct err *err);

/* The lease as it is to be written, for a job or (step not NULL) for a step. */
struct claim_row row_of_lease(const struct job *job, const struct step *step, int64_t due_at);

/* Whether of a listed step only the live lease has changed: a heartbeat's news is all in
 * job_claims, and the step's own row stays as it is. */
bool row_step_beats_only(const struct store_step_write *write, const struct schedule_entry *was);

/* Back again: every text of `row` must be in `arena` already. Fails with corrupt or no_memory. */
enum error_code row_to_job(const struct job_row *row, uint64_t seed, struct arena *arena,
                           struct job_slice *ret, struct err *err);
enum error_code row_to_step(const struct step_row *row, struct arena *arena, struct step *ret,
                            struct err *err);
enum error_code row_to_effect(const struct effect_row *row, struct arena *arena, struct effect *ret,
                              struct err *err);

/* Names the job whose row cannot be read (corrupt): a list of a thousand must say which it is. Any
 * other code comes back as it is. */
enum error_code row_name_job(struct uuid id, enum error_code code, struct err *err);

/* Counts steps that are in a state; corrupt: there is no such state. */
enum error_code row_count_steps(int64_t state_number, int64_t count,
                                int64_t counts[STEP_STATE_COUNT], struct err *err);

#endif
