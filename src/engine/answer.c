#include "engine/answer.h"

#include <assert.h>

#include "base/times.h"
#include "core/lifetime.h"
#include "core/trace_context.h"
#include "engine/access.h"

/* ---- members ------------------------------------------------------------------------------ */

void answer_text(struct json_writer *writer, struct str key, struct str text)
{
    json_key(writer, key);
    json_put_string(writer, text);
}

void answer_raw(struct json_writer *writer, struct str key, struct str raw)
{
    json_key(writer, key);
    json_put_raw(writer, raw);
}

void answer_int(struct json_writer *writer, struct str key, int64_t value)
{
    json_key(writer, key);
    json_put_int(writer, value);
}

void answer_int_set(struct json_writer *writer, struct str key, int64_t value)
{
    json_key(writer, key);
    if (value != 0)
        json_put_int(writer, value);
    else
        json_put_null(writer);
}

void answer_bool(struct json_writer *writer, struct str key, bool value)
{
    json_key(writer, key);
    json_put_bool(writer, value);
}

void answer_time(struct json_writer *writer, struct str key, int64_t time_ms)
{
    json_key(writer, key);
    if (time_ms > 0 && time_ms <= TIME_MAX_MS)
        json_put_time(writer, time_ms);
    else
        json_put_null(writer);
}

void answer_word(struct json_writer *writer, struct str key, const struct record_names *names,
                 int word)
{
    json_key(writer, key);
    if (word > 0 && (size_t)word < names->count)
        json_put_string(writer, names->at[word]);
    else
        json_put_null(writer);
}

void answer_id(struct json_writer *writer, struct str key, struct uuid id)
{
    char text[UUID_TEXT_LEN];
    uuid_format(id, text);
    json_key(writer, key);
    json_put_string(writer, (struct str){text, UUID_TEXT_LEN});
}

void answer_correlation(struct json_writer *writer, struct str stored, struct uuid job)
{
    char text[UUID_TEXT_LEN];
    answer_text(writer, STR("correlation_id"), correlation_shown(stored, job, text));
}

void answer_key(struct json_writer *writer, struct str name)
{
    assert(writer->depth > 0 && str_is_set(name));
    json_put_string(writer, name);
    buf_add_char(writer->buf, ':');
    writer->after_key = true;
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* Thousandths as a decimal number. */
static void put_milli(struct json_writer *writer, int64_t value)
{
    char text[24];
    struct buf buf = {.at = text, .cap = sizeof text};
    int64_t rest = value % 1000;
    assert(value >= 0 && value <= INT32_MAX);
    buf_add_int(&buf, value / 1000);
    if (rest > 0) {
        buf_add_char(&buf, '.');
        for (int64_t unit = 100; rest > 0; unit /= 10) {
            buf_add_char(&buf, (char)('0' + rest / unit));
            rest %= unit;
        }
    }
    json_put_raw(writer, buf_str(&buf));
}

void answer_retry(struct json_writer *writer, const struct retry_policy *policy)
{
    json_begin_object(writer);
    answer_int(writer, STR("max_attempts"), policy->max_attempts);
    answer_word(writer, STR("strategy"), &retry_strategy_names, (int)policy->strategy);
    answer_int(writer, STR("initial_ms"), policy->initial_ms);
    json_key(writer, STR("factor"));
    if (policy->factor_milli > 0 && policy->factor_milli <= INT32_MAX)
        put_milli(writer, policy->factor_milli);
    else
        json_put_null(writer);
    answer_int(writer, STR("max_ms"), policy->max_ms);
    answer_word(writer, STR("jitter"), &jitter_names, (int)policy->jitter);
    answer_word(writer, STR("on_exhausted"), &exhausted_policy_names, (int)policy->on_exhausted);
    /* A job that does not say fails; steps say neither. */
    bool says = policy->on_permanent != EXHAUSTED_NONE || policy->on_exhausted == EXHAUSTED_NONE;
    answer_word(writer, STR("on_permanent"), &exhausted_policy_names,
                says ? (int)policy->on_permanent : EXHAUSTED_FAIL);
    json_end_object(writer);
}

/* A lease as anybody may see it: without its token. */
static void put_lease(struct json_writer *writer, const struct lease *lease, int64_t attempt)
{
    json_key(writer, STR("lease"));
    if (!lease->live) {
        json_put_null(writer);
        return;
    }
    json_begin_object(writer);
    answer_text(writer, STR("worker_id"), lease->worker_id);
    if (str_is_set(lease->resource_id))
        answer_text(writer, STR("resource_id"), lease->resource_id);
    answer_int(writer, STR("attempt"), attempt);
    answer_int(writer, STR("lease_ttl_ms"), lease->lease_ttl_ms);
    answer_int(writer, STR("heartbeat_ms"), lease->heartbeat_ms);
    answer_time(writer, STR("since"), lease->since);
    answer_time(writer, STR("beat_at"), lease->beat_at);
    answer_time(writer, STR("expires_at"), lease->expires_at);
    answer_time(writer, STR("timeout_at"), lease->timeout_at);
    json_end_object(writer);
}

static void put_wait(struct json_writer *writer, struct str key, const struct wait *wait,
                     struct str default_answer)
{
    json_key(writer, key);
    if (wait->type == WAIT_NONE) {
        json_put_null(writer);
        return;
    }
    json_begin_object(writer);
    answer_word(writer, STR("type"), &wait_type_names, (int)wait->type);
    answer_text(writer, STR("correlation_key"), wait->correlation_key);
    answer_time(writer, STR("since"), wait->since);
    answer_time(writer, STR("until"), wait->until);
    answer_text(writer, STR("prompt"), wait->prompt);
    answer_raw(writer, STR("choices"), wait->choices);
    answer_text(writer, STR("assignee"), wait->assignee);
    answer_text(writer, STR("effect"), wait->effect);
    answer_raw(writer, STR("default_answer"), default_answer);
    json_end_object(writer);
}

static void put_dead_letter(struct json_writer *writer, const struct job *job)
{
    const struct dead_letter *letter = &job->dead_letter;
    json_key(writer, STR("dead_letter"));
    if (letter->reason_code == DEAD_NONE) {
        json_put_null(writer);
        return;
    }
    json_begin_object(writer);
    answer_word(writer, STR("reason_code"), &dead_letter_reason_names, (int)letter->reason_code);
    answer_word(writer, STR("stage"), &stage_names, (int)letter->stage);
    answer_raw(writer, STR("last_error"), letter->last_error);
    answer_int(writer, STR("attempts"), letter->attempts);
    answer_text(writer, STR("last_owner"), letter->last_owner);
    answer_time(writer, STR("last_lease_expires_at"), letter->last_lease_expires_at);
    answer_time(writer, STR("at"), letter->at);
    answer_correlation(writer, job->spec.correlation_id, job->id);
    json_end_object(writer);
}

static void put_plan(struct json_writer *writer, const struct job *job)
{
    static const struct str names[STANDING_COUNT] = {
        [STANDING_BLOCKED] = STR_INIT("blocked"), [STANDING_READY] = STR_INIT("ready"),
        [STANDING_ACTIVE] = STR_INIT("active"),   [STANDING_HELD] = STR_INIT("held"),
        [STANDING_ASKING] = STR_INIT("asking"),   [STANDING_SUCCEEDED] = STR_INIT("succeeded"),
        [STANDING_FAILED] = STR_INIT("failed"),
    };
    json_key(writer, STR("plan"));
    if (!job_has_plan(job)) {
        json_put_null(writer);
        return;
    }
    json_begin_object(writer);
    answer_int(writer, STR("version"), job->plan_version);
    json_key(writer, STR("steps"));
    json_begin_object(writer);
    for (int i = 0; i < STANDING_COUNT; i++)
        answer_int(writer, names[i], job->steps[i]);
    json_end_object(writer);
    json_end_object(writer);
}

/* Where the job stands. */
static void put_standing(struct json_writer *writer, const struct job *job)
{
    answer_id(writer, STR("id"), job->id);
    answer_text(writer, STR("kind"), job->spec.kind);
    answer_text(writer, STR("queue"), job->spec.queue);
    answer_text(writer, STR("status"), job_status_name(job->status));
    answer_int(writer, STR("version"), job->version);
    answer_int(writer, STR("attempt"), job->attempt);
    answer_int(writer, STR("epoch"), job->epoch);
    answer_int(writer, STR("failures"), job->failures);
    answer_int(writer, STR("priority"), job->spec.priority);
    answer_time(writer, STR("run_at"), job->run_at);
    answer_time(writer, STR("created_at"), job->created_at);
    answer_time(writer, STR("updated_at"), job->updated_at);
}

/* What it was submitted as, as far as that is not said before. */
static void put_spec(struct json_writer *writer, const struct job *job)
{
    const struct spec *spec = &job->spec;
    answer_text(writer, STR("idempotency_key"), spec->idempotency_key);
    answer_correlation(writer, spec->correlation_id, job->id);
    answer_text(writer, STR("traceparent"), spec->traceparent);
    answer_raw(writer, STR("labels"), spec->labels);
    answer_text(writer, STR("agent_id"), spec->agent_id);
    answer_text(writer, STR("goal"), spec->goal);
    json_key(writer, STR("retry"));
    answer_retry(writer, &spec->retry);
    put_plan(writer, job);
    answer_word(writer, STR("in_doubt"), &doubt_policy_names, (int)spec->in_doubt);
    answer_raw(writer, STR("capabilities"), spec->capabilities);
    answer_int_set(writer, STR("timeout_ms"), spec->timeout_ms);
    answer_time(writer, STR("expires_at"), job_expires_at(job));
    answer_time(writer, STR("deadline_at"), job_deadline_at(job));
    answer_text(writer, STR("fingerprint"), spec->fingerprint);
    answer_text(writer, STR("pin"), job->pin);
}

/* What everybody may see who may name the job. */
static void put_outline(struct json_writer *writer, const struct job *job)
{
    answer_id(writer, STR("id"), job->id);
    answer_text(writer, STR("status"), job_status_name(job->status));
    answer_int(writer, STR("version"), job->version);
}

/* As an object that is still open. */
static void put_job(struct json_writer *writer, const struct job *job, struct sight sight)
{
    json_begin_object(writer);
    if ((sight.parts & ANSWER_DETAILS) == 0) {
        put_outline(writer, job);
        return;
    }
    put_standing(writer, job);
    if ((sight.parts & ANSWER_PAYLOAD) != 0)
        answer_raw(writer, STR("payload"), job->spec.payload);
    if ((sight.parts & ANSWER_RESULT) != 0)
        answer_raw(writer, STR("result"), job->result);
    answer_raw(writer, STR("error"), job->error);
    answer_raw(writer, STR("progress"), job->progress);
    answer_text(writer, STR("cursor"), job->cursor);
    put_lease(writer, &job->lease, job->attempt);
    put_wait(writer, STR("wait"), &job->wait, job->wait.default_answer);
    put_dead_letter(writer, job);
    answer_bool(writer, STR("cancel_requested"), job->cancel_requested);
    put_spec(writer, job);
    answer_bool(writer, STR("redacted"), job->redacted);
}

void answer_job(struct json_writer *writer, const struct job *job, struct sight sight)
{
    put_job(writer, job, sight);
    json_end_object(writer);
}

void answer_submitted(struct json_writer *writer, const struct job *job, bool duplicate,
                      struct sight sight)
{
    put_job(writer, job, sight);
    if (duplicate)
        answer_bool(writer, STR("duplicate"), true);
    json_end_object(writer);
}

/* ---- events ------------------------------------------------------------------------------- */

/* A string of an event's own payload, raw. */
static struct str payload_text(const struct event *event, struct str name)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    if (!json_object_begin(&iter, event->payload))
        return (struct str){NULL, 0};
    while (json_object_next(&iter, &key, &value))
        if (json_key_is(key, name) && json_type(value) == JSON_STRING)
            return value;
    return (struct str){NULL, 0};
}

/* Why it happened, as far as that is known: the reason that was given, else the code or outcome of
 * the event, else the command behind it ("complete#3": complete). What users append is theirs. */
static void put_reason(struct json_writer *writer, const struct event *event, bool damaged)
{
    static const struct str names[] = {STR_INIT("reason"), STR_INIT("reason_code"),
                                       STR_INIT("outcome")};
    struct str cause = event->cause_text;
    size_t len = 0;
    json_key(writer, STR("reason"));
    if (event_type_class(event->type) == EVENT_CLASS_APPENDED) {
        json_put_null(writer);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !damaged; i++) {
        struct str value = payload_text(event, names[i]);
        if (str_is_set(value)) {
            json_put_raw(writer, value);
            return;
        }
    }
    while (len < cause.len && cause.at[len] != ':' && cause.at[len] != '#')
        len++;
    json_put_string(writer, len > 0 ? (struct str){cause.at, len} : (struct str){NULL, 0});
}

static void put_trace_id(struct json_writer *writer, struct uuid job_id, struct str traceparent)
{
    struct job job = {.id = job_id, .spec.traceparent = traceparent};
    struct trace_context context = trace_of_job(&job);
    json_key(writer, STR("trace_id"));
    json_put_hex(writer, context.trace_id, TRACE_ID_LEN);
}

/* Whether the payload is what was stored once. One that is no JSON would take all others of the
 * same answer with it. */
static bool is_damaged(const struct event *event, struct arena *arena)
{
    return str_is_set(event->payload) &&
           json_check_answer(event->payload, "the payload", arena, NULL) == ERR_BAD_REQUEST;
}

void answer_event_open(struct json_writer *writer, const struct event *event,
                       struct str traceparent)
{
    bool chained = event_type_class(event->type) != EVENT_CLASS_TELEMETRY;
    bool damaged = is_damaged(event, writer->buf->arena);
    struct str none = {NULL, 0};
    json_begin_object(writer);
    answer_id(writer, STR("id"), event_id(event));
    answer_id(writer, STR("job_id"), event->job_id);
    answer_int(writer, STR("version"), event->version);
    answer_text(writer, STR("type"), event_name(event));
    answer_time(writer, STR("at"), event->at);
    answer_text(writer, STR("actor"), event->actor);
    put_reason(writer, event, damaged);
    answer_correlation(writer, event->correlation_id, event->job_id);
    put_trace_id(writer, event->job_id, traceparent);
    answer_text(writer, STR("cause"), event->cause_text);
    answer_raw(writer, STR("payload"), damaged ? none : event->payload);
    json_key(writer, STR("hash"));
    if (chained)
        json_put_hex(writer, event->hash, HASH_LEN);
    else
        json_put_null(writer);
    if (damaged)
        answer_bool(writer, STR("damaged"), true);
}

void answer_event(struct json_writer *writer, const struct event *event, struct str traceparent)
{
    answer_event_open(writer, event, traceparent);
    json_end_object(writer);
}

/* ---- leases ------------------------------------------------------------------------------- */

void answer_brief(struct json_writer *writer, const struct job *job, const struct step *step,
                  const struct decision_result *answer)
{
    json_begin_object(writer);
    answer_id(writer, STR("id"), job->id);
    answer_text(writer, STR("status"), job_status_name(job->status));
    answer_int(writer, STR("version"), job->version);
    answer_int(writer, STR("attempt"), step != NULL ? step->attempt : job->attempt);
    if (step != NULL) {
        answer_text(writer, STR("step"), step->spec.id);
        answer_text(writer, STR("state"), step_state_name(step->state));
    }
    if (answer->repeated)
        answer_bool(writer, STR("repeated"), true);
}

static void put_granted_lease(struct json_writer *writer, const struct grant *grant)
{
    const struct step *step = grant->step;
    const struct lease *lease = step != NULL ? &step->lease : &grant->slice->job.lease;
    json_key(writer, STR("lease"));
    json_begin_object(writer);
    answer_text(writer, STR("token"), grant->result.token);
    answer_int(writer, STR("attempt"), step != NULL ? step->attempt : grant->slice->job.attempt);
    answer_time(writer, STR("expires_at"), grant->result.expires_at);
    answer_int(writer, STR("heartbeat_ms"), lease->heartbeat_ms);
    answer_int_set(writer, STR("timeout_ms"),
                   lease->timeout_at > 0 ? lease->timeout_at - lease->beat_at : 0);
    json_end_object(writer);
}

static void put_resume(struct json_writer *writer, const struct resume *resume)
{
    if (resume->outcome == OUTCOME_NONE)
        return;
    json_key(writer, STR("resume"));
    json_begin_object(writer);
    answer_text(writer, STR("correlation_key"), resume->correlation_key);
    answer_word(writer, STR("outcome"), &outcome_names, (int)resume->outcome);
    answer_raw(writer, STR("payload"), resume->payload);
    /* A person has answered. */
    if (str_is_set(resume->by) || str_is_set(resume->comment)) {
        answer_text(writer, STR("by"), resume->by);
        answer_text(writer, STR("comment"), resume->comment);
    }
    json_end_object(writer);
}

/* The span of this attempt, for the worker's own to be children of. */
static void put_traceparent(struct json_writer *writer, const struct grant *grant)
{
    const struct job *job = &grant->slice->job;
    const struct step *step = grant->step;
    char text[TRACEPARENT_LEN];
    struct trace_context context = step != NULL ? trace_of_step(job, step->spec.id, step->attempt)
                                                : trace_of_attempt(job, job->attempt);
    trace_format(&context, text);
    answer_text(writer, STR("traceparent"), (struct str){text, sizeof text});
}

void answer_grant(struct json_writer *writer, const struct grant *grant)
{
    const struct step *step = grant->step;
    json_begin_object(writer);
    if (step == NULL) {
        json_key(writer, STR("job"));
        answer_job(writer, &grant->slice->job, access_sight_of_holder());
        put_granted_lease(writer, grant);
        put_traceparent(writer, grant);
        put_resume(writer, &grant->slice->job.resume);
        return;
    }
    json_key(writer, STR("step"));
    answer_step(writer, step);
    json_end_object(writer);
    answer_id(writer, STR("job_id"), grant->slice->job.id);
    answer_correlation(writer, grant->slice->job.spec.correlation_id, grant->slice->job.id);
    answer_text(writer, STR("agent_id"), grant->slice->job.spec.agent_id);
    answer_text(writer, STR("goal"), grant->slice->job.spec.goal);
    if (step->answered)
        answer_raw(writer, STR("answer"), step->answer);
    put_granted_lease(writer, grant);
    put_traceparent(writer, grant);
}

/* ---- steps and resources ------------------------------------------------------------------ */

/* The plan's list, as it has grown by the resources that the step has lost. */
static void put_avoid(struct json_writer *writer, const struct step *step)
{
    struct json_iter iter;
    struct str raw;
    json_key(writer, STR("avoid"));
    if (step->avoided_count == 0) {
        json_put_raw(writer, step->spec.avoid);
        return;
    }
    json_begin_array(writer);
    if (json_array_begin(&iter, step->spec.avoid))
        while (json_array_next(&iter, &raw))
            json_put_raw(writer, raw);
    for (uint32_t i = 0; i < step->avoided_count; i++)
        json_put_string(writer, step->avoided[i]);
    json_end_array(writer);
}

static void put_step_spec(struct json_writer *writer, const struct step *step)
{
    const struct step_spec *spec = &step->spec;
    answer_raw(writer, STR("deps"), spec->deps);
    answer_raw(writer, STR("payload"), spec->payload);
    answer_raw(writer, STR("capabilities"), spec->capabilities);
    answer_text(writer, STR("selector"), spec->selector);
    put_avoid(writer, step);
    json_key(writer, STR("retry"));
    answer_retry(writer, &spec->retry);
    answer_int_set(writer, STR("timeout_ms"), spec->timeout_ms);
    answer_bool(writer, STR("critic"), spec->critic);
    answer_word(writer, STR("on_failure"), &failure_policy_names, (int)spec->on_failure);
    answer_raw(writer, STR("wait"), spec->wait);
}

void answer_step(struct json_writer *writer, const struct step *step)
{
    json_begin_object(writer);
    answer_text(writer, STR("id"), step->spec.id);
    answer_text(writer, STR("kind"), step->spec.kind);
    answer_text(writer, STR("state"), step_state_name(step->state));
    put_step_spec(writer, step);
    answer_int(writer, STR("attempt"), step->attempt);
    answer_int(writer, STR("failures"), step->failures);
    answer_time(writer, STR("not_before"), step->not_before);
    put_lease(writer, &step->lease, step->attempt);
    put_wait(writer, STR("question"), &step->question, step->default_answer);
    answer_bool(writer, STR("held"), step->held);
    answer_word(writer, STR("verdict"), &verdict_names, (int)step->verdict);
    answer_raw(writer, STR("answer"), step->answered ? step->answer : (struct str){NULL, 0});
    answer_text(writer, STR("answered_by"), step->answered_by);
    answer_text(writer, STR("answer_comment"), step->answer_comment);
    answer_raw(writer, STR("result"), step->result);
    answer_raw(writer, STR("error"), step->error);
    answer_raw(writer, STR("progress"), step->progress);
    answer_text(writer, STR("cursor"), step->cursor);
}

void answer_resource(struct json_writer *writer, const struct resource *resource)
{
    json_begin_object(writer);
    answer_text(writer, STR("id"), resource->id);
    json_key(writer, STR("capabilities"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < resource->capabilities.count; i++)
        json_put_string(writer, resource->capabilities.at[i]);
    json_end_array(writer);
    json_key(writer, STR("labels"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < resource->label_count; i++) {
        answer_key(writer, resource->labels[i].key);
        json_put_string(writer, resource->labels[i].value);
    }
    json_end_object(writer);
    answer_int(writer, STR("slots"), resource->slots);
    answer_int(writer, STR("used"), resource->used);
    answer_bool(writer, STR("draining"), resource->draining);
    json_key(writer, STR("queues"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < resource->queues.count; i++)
        json_put_string(writer, resource->queues.at[i]);
    json_end_array(writer);
    answer_bool(writer, STR("shared"), resource->shared);
    answer_time(writer, STR("expires_at"), resource->expires_at);
    json_key(writer, STR("rest"));
    json_begin_object(writer);
    answer_int(writer, STR("failures"), resource->rest.failures);
    answer_int(writer, STR("within_ms"), resource->rest.within_ms);
    answer_int(writer, STR("for_ms"), resource->rest.for_ms);
    json_end_object(writer);
    answer_int(writer, STR("failures"), resource->failures);
    answer_int(writer, STR("rests"), resource->rests);
    answer_time(writer, STR("rested_until"), resource->cooldown_until);
    json_end_object(writer);
}

/* ---- errors ------------------------------------------------------------------------------- */

static void write_problem(struct json_writer *writer, enum error_code code, const char *detail)
{
    const struct error_info *info = error_info(code);
    answer_int(writer, STR("status"), info->http_status);
    answer_text(writer, STR("title"), str_from(info->title));
    answer_text(writer, STR("detail"), str_from(detail));
    answer_text(writer, STR("code"), str_from(info->name));
}

void answer_error(struct json_writer *writer, enum error_code code, const struct err *err)
{
    json_begin_object(writer);
    write_problem(writer, code, err->detail);
    if (code == ERR_BATCH_REFUSED) {
        answer_int(writer, STR("index"), err->part.index);
        json_key(writer, STR("problem"));
        json_begin_object(writer);
        write_problem(writer, err->part.code, err->detail + err->part.detail_at);
        json_end_object(writer);
    }
    if (code == ERR_FEED_RESET)
        answer_text(writer, STR("cursor"), str_from(err->cursor));
    json_end_object(writer);
}
