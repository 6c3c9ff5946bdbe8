/* Jobs, events, steps, leases and resources as callers see them: JSON. One form for the library,
 * the command line and HTTP.
 *
 * Members are always there, in the same order, null when there is nothing to say; so that anyone
 * who reads need not guess. Payloads are copied byte for byte. Nothing here takes memory but the
 * buffer of the writer. */
#ifndef PAWL_ENGINE_ANSWER_H
#define PAWL_ENGINE_ANSWER_H

#include <stdbool.h>

#include "base/json.h"
#include "core/decide.h"
#include "core/event.h"
#include "core/job.h"
#include "core/resource.h"
#include "engine/batch.h"

/* What of a job is shown, besides its id, status and version, which every caller who may name the
 * job is told. */
enum answer_parts {
    ANSWER_PAYLOAD = 1,
    ANSWER_RESULT = 2,
    ANSWER_DETAILS = 4, /* all other fields */
    ANSWER_WHOLE = ANSWER_PAYLOAD | ANSWER_RESULT | ANSWER_DETAILS,
};

/* What a caller may see of a job. Only engine/access.c makes one (access_sight and its sisters), so
 * that no verb decides for itself what its response shows. */
struct sight {
    int parts; /* of enum answer_parts */
};

/* A job: id kind queue status version attempt epoch failures priority run_at created_at updated_at
 * payload result error progress cursor lease wait dead_letter cancel_requested idempotency_key
 * correlation_id traceparent labels agent_id goal retry plan in_doubt capabilities timeout_ms
 * expires_at deadline_at fingerprint redacted, as far as the caller may see them; id, status and
 * version in any case.
 * `lease` is that of a worker who holds the job now; `plan` is null or {"version", "steps":
 * {"blocked", "ready", ...}}. As a value where the writer stands. */
void answer_job(struct json_writer *writer, const struct job *job, struct sight sight);

/* The same with "duplicate": true at its end when `duplicate`. */
void answer_submitted(struct json_writer *writer, const struct job *job, bool duplicate,
                      struct sight sight);

/* id job_id version type at actor reason correlation_id trace_id cause payload hash. `traceparent`
 * is the job's, `event` must have its payload; it need not be opened. reason is that of the
 * payload, else its reason_code or outcome, else the command of cause. Telemetry has no hash, and
 * the version that the job had. A payload that is no JSON any more is left out, and "damaged": true
 * stands at the end. As an object that is still open. */
void answer_event_open(struct json_writer *writer, const struct event *event,
                       struct str traceparent);
void answer_event(struct json_writer *writer, const struct event *event, struct str traceparent);

/* id status version attempt, and repeated when it is. With a step (NULL: none) whose lease it is
 * about, the attempt is the step's, and its id and state are told too. As an object that is still
 * open. */
void answer_brief(struct json_writer *writer, const struct job *job, const struct step *step,
                  const struct decision_result *answer);

/* A claim: {"job", "lease", "traceparent", "resume"} for a job, or {"step", "job_id",
 * "correlation_id", "agent_id", "goal", "answer", "lease", "traceparent"} for a step; resume and
 * answer only where there is one. As an object that is still open, so that the caller can add
 * inputs and history, which a claim does not bring. */
void answer_grant(struct json_writer *writer, const struct grant *grant);

/* A step without its history: id kind state deps payload capabilities selector avoid retry
 * timeout_ms critic on_failure wait attempt failures not_before lease question held verdict answer
 * answered_by result error progress cursor. As an object that is still open. */
void answer_step(struct json_writer *writer, const struct step *step);

/* id capabilities labels slots used draining expires_at */
void answer_resource(struct json_writer *writer, const struct resource *resource);

/* A retry policy, with every member. */
void answer_retry(struct json_writer *writer, const struct retry_policy *policy);

/* status title detail code: the body of an error. */
void answer_error(struct json_writer *writer, enum error_code code, const struct err *err);

/* Members of the object that the writer is in; null for a time or number that is not set, an absent
 * view, and word 0. */
void answer_text(struct json_writer *writer, struct str key, struct str text);
void answer_raw(struct json_writer *writer, struct str key, struct str raw);
void answer_int(struct json_writer *writer, struct str key, int64_t value);
void answer_int_set(struct json_writer *writer, struct str key, int64_t value);
void answer_bool(struct json_writer *writer, struct str key, bool value);
void answer_time(struct json_writer *writer, struct str key, int64_t time_ms);
void answer_word(struct json_writer *writer, struct str key, const struct record_names *names,
                 int word);
void answer_id(struct json_writer *writer, struct str key, struct uuid id);

/* "correlation_id": the job's, or its id when it has none. */
void answer_correlation(struct json_writer *writer, struct str stored, struct uuid job);

/* As json_key, for a name that may need escaping. */
void answer_key(struct json_writer *writer, struct str name);

#endif
