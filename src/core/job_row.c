/* The row of a job: every persisted member in one table each, for writing and for comparing. */
#include <assert.h>

#include "core/event.h"
#include "core/job.h"
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
#undef RECORD_OF
};
static const struct record_type wait_record = TYPE(wait_fields);

static const struct record_field resume_fields[] = {
#define RECORD_OF struct resume
    RECORD_FIELD_ENUM(struct resume, outcome, "outcome", outcome_names),
    FIELD(correlation_key, "correlation_key", NAME),
    FIELD(payload, "payload", JSON),
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
    FIELD(id, "id", HEX),
    FIELD(status, "status", NUMBER),
    FIELD(version, "version", INT),
    FIELD(attempt, "attempt", INT),
    FIELD(epoch, "epoch", INT),
    FIELD(failures, "failures", INT),
    FIELD(run_at, "run_at", TIME),
    FIELD(created_at, "created_at", TIME),
    FIELD(updated_at, "updated_at", TIME),
    RECORD_FIELD_NESTED(struct job, spec, "spec", spec_record),
    RECORD_FIELD_NESTED(struct job, lease, "lease", lease_record),
    RECORD_FIELD_NESTED(struct job, wait, "wait", wait_record),
    RECORD_FIELD_NESTED(struct job, resume, "resume", resume_record),
    RECORD_FIELD_NESTED(struct job, dead_letter, "dead_letter", dead_letter_record),
    FIELD(result, "result", JSON),
    FIELD(error, "error", JSON),
    FIELD(progress, "progress", JSON),
    FIELD(cursor, "cursor", TEXT),
    FIELD(cancel_requested, "cancel_requested", BOOL),
    FIELD(cancel_reason, "cancel_reason", TEXT),
    FIELD(cancel_at, "cancel_at", TIME),
    FIELD(effects_from, "effects_from", INT),
    FIELD(open_effects, "open_effects", INT),
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
    FIELD(head, "head", HEX),
    FIELD(salt, "salt", HEX),
#undef RECORD_OF
};
static const struct record_type job_record = TYPE(job_fields);

static const struct record_field effect_fields[] = {
#define RECORD_OF struct effect
    FIELD(step, "step", NAME),
    FIELD(key, "key", NAME),
    FIELD(version, "version", INT),
    FIELD(attempt, "attempt", INT),
    FIELD(epoch, "epoch", INT),
    FIELD(input_hash, "input_hash", HEX),
    FIELD(returned, "returned", BOOL),
    RECORD_FIELD_ENUM(struct effect, resolution, "resolution", resolution_names),
    FIELD(resolved_epoch, "resolved_epoch", INT),
    FIELD(result, "result", JSON),
#undef RECORD_OF
};
static const struct record_type effect_record = TYPE(effect_fields);

static const struct record_field signal_fields[] = {
#define RECORD_OF struct signal
    FIELD(correlation_key, "correlation_key", NAME),
    FIELD(signal_id, "signal_id", NAME),
    FIELD(payload, "payload", JSON),
    FIELD(version, "version", INT),
    FIELD(delivered, "delivered", BOOL),
#undef RECORD_OF
};
static const struct record_type signal_record = TYPE(signal_fields);

static const struct record_field step_fields[] = {
#define RECORD_OF struct step
    FIELD(state, "state", NUMBER),
    RECORD_FIELD_NESTED(struct step, spec, "spec", step_spec_record),
    FIELD(open_deps, "open_deps", INT),
    FIELD(attempt, "attempt", INT),
    FIELD(failures, "failures", INT),
    FIELD(not_before, "not_before", TIME),
    FIELD(open_effects, "open_effects", INT),
    RECORD_FIELD_NESTED(struct step, lease, "lease", lease_record),
    RECORD_FIELD_NESTED(struct step, question, "question", wait_record),
    FIELD(default_answer, "default_answer", JSON),
    FIELD(answered, "answered", BOOL),
    FIELD(answer, "answer", JSON),
    FIELD(answered_by, "answered_by", NAME),
    FIELD(held, "held", BOOL),
    RECORD_FIELD_ENUM(struct step, verdict, "verdict", verdict_names),
    FIELD(result, "result", JSON),
    FIELD(error, "error", JSON),
    FIELD(progress, "progress", JSON),
    FIELD(cursor, "cursor", TEXT),
#undef RECORD_OF
};
static const struct record_type step_record = TYPE(step_fields);

static void write_object(struct json_writer *writer, const struct record_type *type,
                         const void *record)
{
    json_begin_object(writer);
    record_write(type, record, RECORD_ALL, writer);
    json_end_object(writer);
}

static void write_step(struct json_writer *writer, const struct step *step)
{
    json_begin_object(writer);
    record_write(&step_record, step, RECORD_ALL, writer);
    json_key(writer, STR("avoided"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < step->avoided_count; i++)
        json_put_string(writer, step->avoided[i]);
    json_end_array(writer);
    json_end_object(writer);
}

void job_row_write(const struct job_slice *slice, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(&job_record, &slice->job, RECORD_ALL, &writer);
    json_key(&writer, STR("effects"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < slice->effect_count; i++)
        write_object(&writer, &effect_record, &slice->effects[i]);
    json_end_array(&writer);
    json_key(&writer, STR("signals"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < slice->signal_count; i++)
        write_object(&writer, &signal_record, &slice->signals[i]);
    json_end_array(&writer);
    json_key(&writer, STR("steps"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < slice->step_count; i++)
        write_step(&writer, &slice->steps[i]);
    json_end_array(&writer);
    json_end_object(&writer);
}

/* While a lease is live, heartbeats move these beside the stream. */
static void forget_beats(struct lease *lease, struct str *progress, struct str *cursor)
{
    lease->beat_at = 0;
    lease->expires_at = 0;
    *progress = (struct str){NULL, 0};
    *cursor = (struct str){NULL, 0};
}

static struct str job_differs(const struct job *a, const struct job *b)
{
    struct job left = *a;
    struct job right = *b;
    if (a->lease.live || b->lease.live) {
        forget_beats(&left.lease, &left.progress, &left.cursor);
        forget_beats(&right.lease, &right.progress, &right.cursor);
    }
    const struct record_field *field = record_differs(&job_record, &left, &right, RECORD_ALL);
    return field == NULL ? (struct str){NULL, 0} : field->name;
}

static struct str step_differs(const struct step *a, const struct step *b)
{
    struct step left = *a;
    struct step right = *b;
    if (a->lease.live || b->lease.live) {
        forget_beats(&left.lease, &left.progress, &left.cursor);
        forget_beats(&right.lease, &right.progress, &right.cursor);
    }
    const struct record_field *field = record_differs(&step_record, &left, &right, RECORD_ALL);
    if (field != NULL)
        return field->name;
    if (a->avoided_count != b->avoided_count)
        return STR("avoided");
    for (uint32_t i = 0; i < a->avoided_count; i++)
        if (!str_eq(a->avoided[i], b->avoided[i]))
            return STR("avoided");
    return (struct str){NULL, 0};
}

struct row_difference job_row_differs(const struct job_slice *a, const struct job_slice *b)
{
    struct str member = job_differs(&a->job, &b->job);
    if (str_is_set(member))
        return (struct row_difference){STR("job"), {NULL, 0}, member};
    if (a->effect_count != b->effect_count)
        return (struct row_difference){STR("effects"), {NULL, 0}, STR("count")};
    for (uint32_t i = 0; i < a->effect_count; i++) {
        const struct record_field *field =
            record_differs(&effect_record, &a->effects[i], &b->effects[i], RECORD_ALL);
        if (field != NULL)
            return (struct row_difference){STR("effect"), a->effects[i].key, field->name};
    }
    if (a->signal_count != b->signal_count)
        return (struct row_difference){STR("signals"), {NULL, 0}, STR("count")};
    for (uint32_t i = 0; i < a->signal_count; i++) {
        const struct record_field *field =
            record_differs(&signal_record, &a->signals[i], &b->signals[i], RECORD_ALL);
        if (field != NULL)
            return (struct row_difference){STR("signal"), a->signals[i].correlation_key,
                                           field->name};
    }
    if (a->step_count != b->step_count)
        return (struct row_difference){STR("steps"), {NULL, 0}, STR("count")};
    for (uint32_t i = 0; i < a->step_count; i++) {
        member = step_differs(&a->steps[i], &b->steps[i]);
        if (str_is_set(member))
            return (struct row_difference){STR("step"), a->steps[i].spec.id, member};
    }
    return (struct row_difference){{NULL, 0}, {NULL, 0}, {NULL, 0}};
}
