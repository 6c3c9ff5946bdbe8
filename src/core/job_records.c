/* The tables of a job and its parts: every persisted member, once. */
#include "core/job_records.h"

#include "core/plan.h"

#define FIELD(member, text, kind) RECORD_FIELD(RECORD_OF, member, text, kind)

static const struct record_field lease_fields[] = {
#define RECORD_OF struct lease
    FIELD(live, "live", BOOL),
    FIELD(ended_by, "ended_by", NUMBER),
    FIELD(worker_id, "worker_id", NAME),
    FIELD(resource_id, "resource_id", NAME),
    FIELD(token_hash, "token_hash", HEX),
    FIELD(lease_ttl_ms, "lease_ttl_ms", INT),
    FIELD(heartbeat_ms, "heartbeat_ms", INT),
    FIELD(beat_at, "beat_at", TIME),
    FIELD(expires_at, "expires_at", TIME),
    FIELD(timeout_at, "timeout_at", TIME),
    FIELD(since, "since", TIME),
#undef RECORD_OF
};
#define TYPE(name)                                                                                 \
    {                                                                                              \
        name, sizeof name / sizeof name[0]                                                         \
    }
static const struct record_type lease_record = TYPE(lease_fields);

static const struct record_field wait_fields[] = {
#define RECORD_OF struct wait
    RECORD_FIELD_ENUM(struct wait, type, "type", wait_type_names),
    FIELD(correlation_key, "correlation_key", NAME),
    FIELD(since, "since", TIME),
    FIELD(until, "until", TIME),
    FIELD(prompt, "prompt", TEXT),
    FIELD(choices, "choices", JSON),
    FIELD(assignee, "assignee", NAME),
    FIELD(effect, "effect", TEXT),
    FIELD(default_answer, "default_answer", JSON),
#undef RECORD_OF
};
static const struct record_type wait_record = TYPE(wait_fields);

static const struct record_field resume_fields[] = {
#define RECORD_OF struct resume
    RECORD_FIELD_ENUM(struct resume, outcome, "outcome", outcome_names),
    FIELD(correlation_key, "correlation_key", NAME),
    FIELD(payload, "payload", JSON),
    FIELD(by, "by", NAME),
    FIELD(comment, "comment", TEXT),
#undef RECORD_OF
};
static const struct record_type resume_record = TYPE(resume_fields);

static const struct record_field dead_letter_fields[] = {
#define RECORD_OF struct dead_letter
    RECORD_FIELD_ENUM(struct dead_letter, reason_code, "reason_code", dead_letter_reason_names),
    RECORD_FIELD_ENUM(struct dead_letter, stage, "stage", stage_names),
    FIELD(last_error, "last_error", JSON),
    FIELD(attempts, "attempts", INT),
    FIELD(last_owner, "last_owner", NAME),
    FIELD(last_lease_expires_at, "last_lease_expires_at", TIME),
    FIELD(at, "at", TIME),
#undef RECORD_OF
};
static const struct record_type dead_letter_record = TYPE(dead_letter_fields);

static const struct record_field job_fields[] = {
#define RECORD_OF struct job
    /* JOB_COLUMNS of them */
    FIELD(id, "id", HEX),
    FIELD(status, "status", NUMBER),
    FIELD(version, "version", INT),
    FIELD(failures, "failures", INT),
    FIELD(created_at, "created_at", TIME),
    FIELD(updated_at, "updated_at", TIME),
    RECORD_FIELD_NESTED(struct job, spec, "spec", spec_record),
    FIELD(cursor, "cursor", TEXT),
    FIELD(head, "head", HEX),
    FIELD(salt, "salt", HEX),

    /* In the state. */
    FIELD(attempt, "attempt", INT),
    FIELD(epoch, "epoch", INT),
    FIELD(epoch_at, "epoch_at", TIME),
    FIELD(run_at, "run_at", TIME),
    RECORD_FIELD_NESTED(struct job, lease, "lease", lease_record),
    RECORD_FIELD_NESTED(struct job, wait, "wait", wait_record),
    RECORD_FIELD_NESTED(struct job, resume, "resume", resume_record),
    RECORD_FIELD_NESTED(struct job, dead_letter, "dead_letter", dead_letter_record),
    FIELD(result, "result", JSON),
    FIELD(error, "error", JSON),
    FIELD(progress, "progress", JSON),
    FIELD(cancel_requested, "cancel_requested", BOOL),
    FIELD(cancel_reason, "cancel_reason", TEXT),
    FIELD(cancel_at, "cancel_at", TIME),
    FIELD(effects_from, "effects_from", INT),
    FIELD(open_effects, "open_effects", INT),
    FIELD(records_end, "records_end", INT),
    FIELD(stored_signals, "stored_signals", INT),
    FIELD(plan_version, "plan_version", INT),
    FIELD(step_attempt_base, "step_attempt_base", INT),
    FIELD(replan, "replan", BOOL),
    FIELD(replan_reason, "replan_reason", TEXT),
    FIELD(steps[STANDING_BLOCKED], "steps_blocked", INT),
    FIELD(steps[STANDING_READY], "steps_ready", INT),
    FIELD(steps[STANDING_ACTIVE], "steps_active", INT),
    FIELD(steps[STANDING_HELD], "steps_held", INT),
    FIELD(steps[STANDING_ASKING], "steps_asking", INT),
    FIELD(steps[STANDING_SUCCEEDED], "steps_succeeded", INT),
    FIELD(steps[STANDING_FAILED], "steps_failed", INT),
    FIELD(final_steps, "final_steps", INT),
    FIELD(pin, "pin", NAME),
#undef RECORD_OF
};
const struct record_type job_record = TYPE(job_fields);

static const struct record_field effect_fields[] = {
#define RECORD_OF struct effect
    /* EFFECT_COLUMNS of them */
    FIELD(step, "step", NAME),
    FIELD(key, "key", NAME),
    FIELD(version, "version", INT),

    FIELD(attempt, "attempt", INT),
    FIELD(epoch, "epoch", INT),
    FIELD(called_at, "called_at", TIME),
    FIELD(input_hash, "input_hash", HEX),
    FIELD(returned, "returned", BOOL),
    RECORD_FIELD_ENUM(struct effect, resolution, "resolution", resolution_names),
    FIELD(resolved_epoch, "resolved_epoch", INT),
    FIELD(result, "result", JSON),
    FIELD(fingerprint, "fingerprint", TEXT),
    RECORD_FIELD_ENUM(struct effect, in_doubt, "in_doubt", doubt_policy_names),
    FIELD(aborted, "aborted", BOOL),
    FIELD(ended_at, "ended_at", TIME),
    FIELD(error, "error", JSON),
#undef RECORD_OF
};
const struct record_type effect_record = TYPE(effect_fields);

static const struct record_field signal_fields[] = {
#define RECORD_OF struct signal
    FIELD(correlation_key, "correlation_key", NAME),
    FIELD(signal_id, "signal_id", NAME),
    FIELD(payload, "payload", JSON),
    FIELD(version, "version", INT),
    FIELD(delivered, "delivered", BOOL),
#undef RECORD_OF
};
const struct record_type signal_record = TYPE(signal_fields);

static const struct record_field step_fields[] = {
#define RECORD_OF struct step
    RECORD_FIELD_NESTED(struct step, spec, "spec", step_spec_record), /* the STEP_COLUMNS */
    FIELD(state, "state", NUMBER),
    FIELD(open_deps, "open_deps", INT),
    FIELD(attempt, "attempt", INT),
    FIELD(failures, "failures", INT),
    FIELD(not_before, "not_before", TIME),
    FIELD(open_effects, "open_effects", INT),
    FIELD(records_end, "records_end", INT),
    RECORD_FIELD_NESTED(struct step, lease, "lease", lease_record),
    RECORD_FIELD_NESTED(struct step, question, "question", wait_record),
    FIELD(default_answer, "default_answer", JSON),
    FIELD(answered, "answered", BOOL),
    FIELD(answer, "answer", JSON),
    FIELD(answered_by, "answered_by", NAME),
    FIELD(answer_comment, "answer_comment", TEXT),
    FIELD(held, "held", BOOL),
    RECORD_FIELD_ENUM(struct step, verdict, "verdict", verdict_names),
    FIELD(result, "result", JSON),
    FIELD(error, "error", JSON),
    FIELD(progress, "progress", JSON),
    FIELD(cursor, "cursor", TEXT),
#undef RECORD_OF
};
const struct record_type step_record = TYPE(step_fields);

static const struct record_field kind_fields[] = {
#define RECORD_OF struct kind_settings
    FIELD(lease_ttl_ms, "lease_ttl_ms", INT),
    FIELD(heartbeat_ms, "heartbeat_ms", INT),
    FIELD(timeout_ms, "timeout_ms", INT),
    RECORD_FIELD_NESTED(struct kind_settings, retry, "retry", retry_policy_record),
    FIELD(retention_ms, "retention_ms", INT),
    FIELD(cancel_grace_ms, "cancel_grace_ms", INT),
    FIELD(pin, "pin", BOOL),
    FIELD(version, "version", INT),
#undef RECORD_OF
};
const struct record_type kind_settings_record = TYPE(kind_fields);

static const struct record_field rest_policy_fields[] = {
#define RECORD_OF struct cooldown_policy
    FIELD(failures, "failures", INT),
    FIELD(within_ms, "within_ms", INT),
    FIELD(for_ms, "for_ms", INT),
#undef RECORD_OF
};
static const struct record_type rest_policy_record = TYPE(rest_policy_fields);

static const struct record_field resource_fields[] = {
#define RECORD_OF struct resource
    FIELD(id, "id", NAME),
    FIELD(slots, "slots", INT),
    FIELD(expires_at, "expires_at", TIME),
    FIELD(draining, "draining", BOOL),
    FIELD(ttl_ms, "ttl_ms", INT),
    RECORD_FIELD_NESTED(struct resource, rest, "rest", rest_policy_record),
    FIELD(failures, "failures", INT),
    FIELD(failing_since, "failing_since", TIME),
    FIELD(cooldown_until, "rested_until", TIME),
    FIELD(rests, "rests", INT),
    FIELD(shared, "shared", BOOL),
    FIELD(owned, "owned", BOOL),
#undef RECORD_OF
};
const struct record_type resource_record = TYPE(resource_fields);
