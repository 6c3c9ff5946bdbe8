#include "core/verify.h"

#include <assert.h>

#include "base/times.h"
#include "core/evolve.h"
#include "core/verifier.h"

/* ---- the rules ---- */

struct rule_info {
    struct str name;
    struct str text;
};

static const struct rule_info rules[] = {
#define VERIFY_RULE(symbol, name, text)                                                            \
    [VERIFY_##symbol] = {{name, sizeof(name) - 1}, {text, sizeof(text) - 1}},
#include "core/verify.def"
#undef VERIFY_RULE
};

struct str verify_rule_name(enum verify_rule rule)
{
    assert(rule < VERIFY_RULE_COUNT);
    return rules[rule].name;
}

struct str verify_rule_text(enum verify_rule rule)
{
    assert(rule < VERIFY_RULE_COUNT);
    return rules[rule].text;
}

/* ---- the report ---- */

enum { DETAIL_GUESS = 96 };

static struct buf *violate_at(struct verifier *v, enum verify_rule rule, int64_t version)
{
    if (report_is_full(v)) {
        v->spare.len = 0;
        return &v->spare;
    }
    struct buf *detail = &v->details[v->violation_count];
    v->violations[v->violation_count] = (struct violation){.rule = rule, .version = version};
    v->violation_count++;
    buf_init(detail, v->arena, DETAIL_GUESS);
    return detail;
}

struct buf *violate(struct verifier *v, enum verify_rule rule)
{
    assert(v->event != NULL);
    return violate_at(v, rule, v->event->version);
}

bool report_is_full(const struct verifier *v)
{
    return v->violation_count >= VIOLATIONS_MAX;
}

bool account_reserve(struct verifier *v, void **at, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return true;
    uint32_t larger = *cap < 8 ? 8 : *cap * 2;
    void *moved = arena_grow(v->arena, *at, *cap * size, larger * size);
    if (moved == NULL) {
        v->no_memory = true;
        return false;
    }
    *at = moved;
    *cap = larger;
    return true;
}

struct str event_text(const struct verifier *v)
{
    return event_name(v->event);
}

struct str command_text(const struct verifier *v)
{
    return command_type_name(v->event->cause.command);
}

/* ---- the stream ---- */

static bool type_is_listed(enum event_type type)
{
    switch (type) {
    case EVENT_UNKNOWN:
#define EVENT(symbol, number, name, class_, fields) case EVENT_##symbol:
#include "core/event.def"
        return true;
    }
    return false;
}

static bool command_is_listed(enum command_type command)
{
    switch (command) {
    case COMMAND_NONE:
#define COMMAND(symbol, number, name, by) case COMMAND_##symbol:
#include "core/command.def"
#undef COMMAND
        return true;
    }
    return false;
}

/* The event, or where its numbers are in no list a copy that says unknown: the tables have no place
 * for other numbers. */
static const struct event *sanitize(struct verifier *v, const struct event *event)
{
    bool type_listed = type_is_listed(event->type);
    bool command_listed = command_is_listed(event->cause.command);
    if (type_listed && command_listed)
        return event;

    v->types_listed = v->types_listed && type_listed;
    v->sanitized = *event;
    if (!type_listed)
        v->sanitized.type = EVENT_UNKNOWN;
    if (!command_listed)
        v->sanitized.cause = (struct cause){.command = COMMAND_NONE};
    return &v->sanitized;
}

static void verify_place(struct verifier *v)
{
    const struct event *event = v->event;
    if (!uuid_eq(event->job_id, v->id)) {
        char text[UUID_TEXT_LEN];
        uuid_format(event->job_id, text);
        buf_addf(violate(v, VERIFY_JOB_ID), "the event is of job %.*s", UUID_TEXT_LEN, text);
    }

    int64_t expected = v->version + 1;
    if (event->version != expected)
        buf_addf(violate(v, VERIFY_VERSION), "version %lld stands where %lld belongs",
                 INT_ARG(event->version), INT_ARG(expected));
    v->version = count_or(event->version, expected);

    if (event->at < v->at || event->at > TIME_MAX_MS)
        buf_addf(violate(v, VERIFY_TIME), "time is %lld ms after %lld ms", INT_ARG(event->at),
                 INT_ARG(v->at));
    v->at = event->at;
}

/* Called with the event in the account. Where the spec is gone, the first event has it. */
static void verify_correlation(struct verifier *v)
{
    if (!v->begun)
        v->correlation_id = v->event->correlation_id;
    v->begun = true;
    struct str expected = v->has_spec ? v->spec.correlation_id : v->correlation_id;
    if (!text_eq(v->event->correlation_id, expected))
        buf_addf(violate(v, VERIFY_CORRELATION), "correlation_id is \"%.*s\", the job's \"%.*s\"",
                 STR_ARG(v->event->correlation_id), STR_ARG(expected));
}

/* Reported once: the salt is one for all events. */
static void verify_redaction(struct verifier *v)
{
    if (!v->event->redacted)
        return;
    if (!v->redacted && v->salt != NULL)
        buf_addf(violate(v, VERIFY_REDACTION),
                 "the payload is erased, and the salt is still there");
    v->redacted = true;
    v->blind = true;
}

static void verify_type(struct verifier *v)
{
    const struct event *event = v->event;
    struct str name = event_text(v);
    if (event->type == EVENT_UNKNOWN) {
        buf_addf(violate(v, VERIFY_EVENT_TYPE), "type \"%.*s\" is not known", STR_ARG(name));
    } else if (event->type == EVENT_CUSTOM) {
        if (name.len == 0 || memchr(name.at, '.', name.len) == NULL)
            buf_addf(violate(v, VERIFY_EVENT_TYPE), "custom type \"%.*s\" has no dot",
                     STR_ARG(name));
    } else if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY) {
        buf_addf(violate(v, VERIFY_EVENT_TYPE), "%.*s is telemetry, kept beside the stream",
                 STR_ARG(name));
    }
}

static void describe_hashes(struct buf *detail, const char *what, const uint8_t *stored,
                            const uint8_t *computed)
{
    buf_addf(detail, "%s is ", what);
    buf_add_hex(detail, stored, HASH_LEN);
    buf_addf(detail, ", computed ");
    buf_add_hex(detail, computed, HASH_LEN);
}

/* The next event is held against the stored hash of this one, so that an edit is reported where it
 * is. */
static void verify_chain(struct verifier *v)
{
    const struct event *event = v->event;
    uint8_t computed[HASH_LEN];
    if (!event->redacted && v->salt != NULL) {
        event_digest(event, v->salt, computed);
        if (!hash_eq(computed, event->digest, HASH_LEN))
            describe_hashes(violate(v, VERIFY_DIGEST), "digest", event->digest, computed);
    }
    event_hash(event, v->head, computed);
    if (!hash_eq(computed, event->hash, HASH_LEN))
        describe_hashes(violate(v, VERIFY_HASH), "hash", event->hash, computed);
    memcpy(v->head, event->hash, HASH_LEN);
}

/* ---- facts and steps ---- */

static void verify_fact(struct verifier *v)
{
    /* The end of a job is the end of its steps, tools and signals too; notes may still be appended.
     */
    if (job_status_terminal(v->status))
        buf_addf(violate(v, VERIFY_TERMINAL), "%.*s after the job was %.*s", STR_ARG(event_text(v)),
                 STR_ARG(job_status_name(v->status)));
    else if (v->status == JOB_NONE)
        buf_addf(violate(v, VERIFY_LEGAL_MOVE), "%.*s before the job was created",
                 STR_ARG(event_text(v)));

    switch (v->event->type) {
    case EVENT_SIGNAL_RECEIVED:
        verify_signal_received(v);
        break;
    case EVENT_JOB_CANCEL_REQUESTED:
        verify_cancel_requested(v);
        break;
    case EVENT_JOB_REPINNED:
        verify_repinned(v);
        break;
    case EVENT_TOOL_CALLED:
    case EVENT_TOOL_RETURNED:
    case EVENT_TOOL_ABORTED:
        verify_tool(v);
        break;
    case EVENT_PLAN_GENERATED:
        verify_plan_generated(v);
        break;
    default:
        verify_step(v);
        break;
    }
}

static void verify_appended(struct verifier *v)
{
    if (v->status == JOB_NONE && v->event->type != EVENT_UNKNOWN)
        buf_addf(violate(v, VERIFY_LEGAL_MOVE), "%.*s before the job was created",
                 STR_ARG(event_text(v)));
}

static void verify_event(struct verifier *v, const struct event *event)
{
    v->event = sanitize(v, event);
    verify_redaction(v);
    enum event_class class = event_type_class(v->event->type);
    verify_place(v);
    verify_type(v);
    if (class == EVENT_CLASS_TELEMETRY)
        return;
    verify_chain(v);
    verify_cause(v);

    if (class == EVENT_CLASS_STATE)
        verify_state(v);
    else if (class == EVENT_CLASS_APPENDED)
        verify_appended(v);
    else
        verify_fact(v);
    verify_correlation(v);
}

/* ---- fold and row ---- */

struct fold {
    struct job_slice slice;
    bool whole; /* every event so far is in it */
};

/* What redaction took away cannot be folded, nor can what follows a plan that could not be read,
 * nor an event that does not name its step or effect. Each of these has been reported by now. */
static bool is_foldable(const struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    enum event_type type = v->event->type;
    enum event_class class = event_type_class(type);
    bool of_step =
        class == EVENT_CLASS_STEP || type == EVENT_STEP_FINISHED || type == EVENT_STEP_JUDGING;
    bool of_effect =
        type == EVENT_TOOL_CALLED || type == EVENT_TOOL_RETURNED || type == EVENT_TOOL_ABORTED;
    return !v->blind && class != EVENT_CLASS_TELEMETRY && (!of_step || str_is_set(data->step)) &&
           (!of_effect || str_is_set(data->key));
}

static void fold_event(struct verifier *v, struct fold *fold, uint32_t violations_before)
{
    const struct event *event = v->event;
    if (!fold->whole || !is_foldable(v)) {
        fold->whole = false;
        return;
    }

    struct err detail = {0};
    enum error_code code = job_evolve(&fold->slice, event, v->arena, &detail);
    if (code == ERR_OK)
        return;
    fold->whole = false;
    if (code == ERR_NO_MEMORY)
        v->no_memory = true;
    else if (v->violation_count == violations_before)
        buf_addf(violate(v, VERIFY_FOLD), "the event cannot be folded: %s", detail.detail);
}

static void row_violation(struct verifier *v, const char *member, int64_t of_row, int64_t of_events)
{
    buf_addf(violate_at(v, VERIFY_ROW, 0), "%s is %lld in the row, %lld by the events", member,
             INT_ARG(of_row), INT_ARG(of_events));
}

static struct str row_status_text(const struct job *row)
{
    return row->status <= JOB_NONE ? job_status_name(row->status) : STR("unknown");
}

/* What a row can be held against when the payloads are gone. */
static void verify_row_header(struct verifier *v, const struct job *row, size_t count)
{
    if (row->version != (int64_t)count)
        row_violation(v, "version", row->version, (int64_t)count);
    if (row->status != v->status && row->status != v->other)
        buf_addf(violate_at(v, VERIFY_ROW, 0), "status is %.*s in the row, %.*s by the events",
                 STR_ARG(row_status_text(row)), STR_ARG(job_status_name(v->status)));
    if (row->attempt != v->claims)
        row_violation(v, "attempt", row->attempt, v->claims);
    if (memcmp(row->head, v->head, HASH_LEN) != 0)
        describe_hashes(violate_at(v, VERIFY_ROW, 0), "head", row->head, v->head);
}

static void verify_row(struct verifier *v, struct fold *fold, const struct job_slice *row,
                       size_t count)
{
    if (!fold->whole) {
        verify_row_header(v, &row->job, count);
        return;
    }
    if (row->job.version != (int64_t)count)
        row_violation(v, "version", row->job.version, (int64_t)count);

    /* The salt is kept beside the stream: no event can tell it. */
    memcpy(fold->slice.job.salt, row->job.salt, SALT_LEN);
    struct row_difference differs = job_row_differs(&fold->slice, row);
    if (!str_is_set(differs.part))
        return;
    struct buf *detail = violate_at(v, VERIFY_ROW, 0);
    buf_addf(detail, "%.*s", STR_ARG(differs.part));
    if (str_is_set(differs.name))
        buf_addf(detail, " \"%.*s\"", STR_ARG(differs.name));
    buf_addf(detail, ": %.*s is not what the events give", STR_ARG(differs.member));
}

static void verify_status(struct verifier *v, const struct fold *fold, const struct event *events,
                          size_t count)
{
    if (v->types_listed && derive_status(events, count) != v->status)
        buf_addf(violate(v, VERIFY_FOLD), "derive_status says %.*s, the account %.*s",
                 STR_ARG(job_status_name(derive_status(events, count))),
                 STR_ARG(job_status_name(v->status)));
    if (fold->whole && fold->slice.job.status != v->status)
        buf_addf(violate(v, VERIFY_FOLD), "the fold is %.*s, the events say %.*s",
                 STR_ARG(job_status_name(fold->slice.job.status)),
                 STR_ARG(job_status_name(v->status)));
    if (fold->whole && fold->slice.job.version != (int64_t)count)
        buf_addf(violate(v, VERIFY_FOLD), "the fold has version %lld after %lld events",
                 INT_ARG(fold->slice.job.version), INT_ARG(count));
}

/* ---- the whole ---- */

/* Whether an event is of another command than the one before, as far as can be told. */
static bool begins_command(const struct event *before, const struct event *event)
{
    return before->at != event->at || before->cause.command != event->cause.command ||
           before->cause.attempt != event->cause.attempt ||
           !text_eq(before->cause.step, event->cause.step);
}

static bool verifier_init(struct verifier *v, const struct verify_input *input, struct arena *arena)
{
    uint64_t seed = input->seed;
    *v = (struct verifier){
        .arena = arena,
        .salt = input->salt,
        .seed = seed,
        .id = input->id,
        .types_listed = true,
        .status = JOB_NONE,
        .other = JOB_NONE,
        .from = JOB_NONE,
    };
    buf_init(&v->spare, arena, 0);
    map_init(&v->signal_ids, arena, 0, seed);
    map_init(&v->stored_index, arena, 0, seed);
    map_init(&v->effect_index, arena, 0, seed);
    map_init(&v->owner_index, arena, 0, seed);
    map_init(&v->step_index, arena, 0, seed);
    v->violations = arena_zalloc(arena, VIOLATIONS_MAX, sizeof *v->violations);
    v->details = arena_zalloc(arena, VIOLATIONS_MAX, sizeof *v->details);
    return v->violations != NULL && v->details != NULL;
}

static bool report_write(struct verifier *v, size_t count, struct verify_report *ret)
{
    for (uint32_t i = 0; i < v->violation_count; i++) {
        if (v->details[i].failed)
            return false;
        v->violations[i].detail = buf_str(&v->details[i]);
    }
    *ret = (struct verify_report){
        .violations = v->violations,
        .violation_count = v->violation_count,
        .partial = v->redacted,
        .version = (int64_t)count,
        .status = v->status,
    };
    memcpy(ret->head, v->head, HASH_LEN);
    return true;
}

static void verify_command_end(struct verifier *v)
{
    verify_settled(v);
    v->command_violations = v->violation_count;
}

enum error_code job_verify(const struct verify_input *input, struct arena *arena,
                           struct verify_report *ret, struct err *err)
{
    size_t count = input->count;
    assert(arena != NULL && ret != NULL);
    assert(input->events != NULL || count == 0);

    struct verifier v;
    struct fold fold = {.whole = true};
    if (!verifier_init(&v, input, arena))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    job_slice_init(&fold.slice, input->id, input->seed);

    for (size_t i = 0; i < count && !v.no_memory; i++) {
        if (i > 0 && begins_command(v.event, &input->events[i]))
            verify_command_end(&v);
        uint32_t violations_before = v.violation_count;
        verify_event(&v, &input->events[i]);
        fold_event(&v, &fold, violations_before);
    }
    if (count > 0 && !v.no_memory) {
        verify_command_end(&v);
        verify_plan_rest(&v);
        verify_status(&v, &fold, input->events, count);
    }
    if (input->row != NULL && !v.no_memory)
        verify_row(&v, &fold, input->row, count);
    if (v.no_memory || !report_write(&v, count, ret))
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu events", count);
    return ERR_OK;
}
