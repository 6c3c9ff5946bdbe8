#include "server/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "core/machine.h"
#include "engine/batch.h"
#include "engine/maintenance.h"
#include "server/metrics_names.h"
#include "server/metrics_text.h"
#include "server/routes.h"

enum {
    STATUSES = JOB_STATUS_COUNT + 1, /* JOB_NONE too */
    CAPABILITY_MAX = 128,
    ENDS = STEP_STATE_COUNT + 1, /* of a lease on a step: the state that it became, or: */
    END_FINISHED = STEP_STATE_COUNT,
};

enum work { WORK_JOB, WORK_STEP, WORK_COUNT };

static const struct str work_names[] = {STR_INIT("job"), STR_INIT("step")};

/* Everything that a server answers; the last stands for what it does not. (The formatter would move
 * these about at every run.) */
/* clang-format off */
#define STATUS_LIST(STATUS) \
    STATUS(200) STATUS(201) STATUS(202) STATUS(204) STATUS(304) STATUS(400) \
    STATUS(401) STATUS(403) STATUS(404) STATUS(405) STATUS(409) STATUS(410) STATUS(413) \
    STATUS(415) STATUS(422) STATUS(429) STATUS(500) STATUS(503)
/* clang-format on */
#define STATUS_PLACE(status) STATUS_AT_##status,
#define STATUS_NUMBER(status) status,
enum { STATUS_LIST(STATUS_PLACE) STATUS_AT_OTHER, HTTP_STATUSES };
static const uint16_t http_statuses[HTTP_STATUSES] = {STATUS_LIST(STATUS_NUMBER)};

#define REASON_PLACE(symbol, text) REASON_AT_##symbol,
enum { REASON_AT_NONE, DEAD_LETTER_REASONS(REASON_PLACE) REASONS };

/* Every error has a place, by its number, and its status is in the list above. */
enum {
#define ERROR(symbol, number, name, http, exit, title) CODE_AT_##symbol,
#include "base/error.def"
#undef ERROR
    CODES,
};
#define ERROR(symbol, number, name, http, exit, title)                                             \
    _Static_assert((number) < CODES && (int)STATUS_AT_##http < (int)STATUS_AT_OTHER, name);
#include "base/error.def"
#undef ERROR

struct kind_series {
    struct histogram wait;
    struct histogram run;
    struct histogram commit;
    counter failures;
    counter retries;
};

struct step_series {
    counter moves[STEP_STATE_COUNT][STEP_STATE_COUNT];
};

/* Of a step and what it asks for. */
struct effort_series {
    _Atomic(struct histogram *) ends[ENDS]; /* made when they are needed */
    counter retries;
};

struct route_series {
    counter statuses[HTTP_STATUSES];
    struct histogram duration;
};

/* A step while the events of its job are counted. */
struct step_course {
    uint64_t round; /* of which change this is; else it is old */
    enum step_state state;
    int64_t since;
    bool live;
    bool held;
};

struct metrics {
    struct arena arena; /* of the engine's thread */
    struct name_table kinds;
    struct name_table steps;
    struct name_table efforts;
    struct step_course *courses;
    uint32_t course_cap;
    uint64_t round;
    bool claimable[STATUSES];

    counter transitions[STATUSES][STATUSES];
    counter events;
    counter claims[WORK_COUNT];
    counter claim_conflicts;
    counter rests;
    counter renewals;
    counter expiries[WORK_COUNT];
    counter stale_writes;
    counter dead_letters[REASONS];
    counter operations;
    counter refusals[CODES];
    struct histogram batch_size;
    struct histogram batch_time;
    struct histogram commit_time;
    counter store_errors[CODES];
    struct {
        counter items;
        counter us;
        counter errors;
    } tasks[MAINTENANCE_TASK_COUNT];

    /* Written by many. */
    counter shed;
    struct route_series routes[ROUTE_COUNT_MAX + 1];
    _Atomic(int64_t) streams;
};

struct metrics *metrics_new(uint64_t seed)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL)
        return NULL;
    struct arena *arena = &metrics->arena;
    arena_init(arena);
    for (int i = 0; i < JOB_STATUS_COUNT; i++) {
        enum job_status to;
        metrics->claimable[i] = job_move((enum job_status)i, EVENT_JOB_LEASED, MOVE_PLAIN, &to);
    }
    if (!names_init(&metrics->kinds, arena, 1, sizeof(struct kind_series), seed) ||
        !names_init(&metrics->steps, arena, 1, sizeof(struct step_series), seed) ||
        !names_init(&metrics->efforts, arena, 2, sizeof(struct effort_series), seed)) {
        metrics_free(metrics);
        return NULL;
    }
    return metrics;
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    arena_release(&metrics->arena);
    free(metrics->courses);
    free(metrics);
}

/* ---- jobs ---- */

static bool has_field(const struct event *event, enum event_field field)
{
    return (event_type_fields(event->type) >> field & 1) != 0;
}

/* A job while its events are counted. */
struct job_course {
    enum job_status status;
    int64_t failures;
    int64_t since;
    int64_t run_at;
    bool live;
};

static void count_state(struct metrics *metrics, struct kind_series *kind,
                        const struct event *event, struct job_course *job)
{
    enum job_status to = event_target(event);
    counter_bump(&metrics->transitions[job->status][to], 1);
    if (metrics->claimable[job->status] &&
        (event->type == EVENT_JOB_LEASED || event->type == EVENT_JOB_RUNNING))
        histogram_bump(&kind->wait, &bounds_work, (event->at - job->run_at) * 1000);
    if (event_type_begins_lease(event->type)) {
        job->since = event->at;
        job->live = true;
    } else if (job->live && event_type_ends_lease(event->type)) {
        histogram_bump(&kind->run, &bounds_work, (event->at - job->since) * 1000);
        job->live = false;
    }
    if (has_field(event, EVENT_FIELD_FAILURES)) {
        if (event->data.failures > job->failures) {
            counter_bump(&kind->failures, 1);
            counter_bump(&kind->retries, metrics->claimable[to] ? 1 : 0);
        }
        job->failures = event->data.failures;
    }
    if (event->type == EVENT_JOB_DEAD_LETTERED && (int)event->data.reason_code < REASONS)
        counter_bump(&metrics->dead_letters[event->data.reason_code], 1);
    job->status = to;
}

/* ---- steps ---- */

/* Where a step was before the event that is being counted; NULL: there is no memory. The slices
 * have it in the same place, unless its plan is new. */
static struct step_course *course_of(struct metrics *metrics, const struct job_change *change,
                                     const struct step *step, bool planned)
{
    uint32_t place = (uint32_t)(step - change->after->steps);
    if (place >= metrics->course_cap) {
        uint32_t cap = change->after->step_count + 16;
        struct step_course *courses = realloc(metrics->courses, cap * sizeof *courses);
        if (courses == NULL)
            return NULL;
        memset(courses + metrics->course_cap, 0, (cap - metrics->course_cap) * sizeof *courses);
        metrics->courses = courses;
        metrics->course_cap = cap;
    }
    struct step_course *course = &metrics->courses[place];
    if (course->round == metrics->round)
        return course;
    const struct step *before = planned ? NULL : job_step_at(change->before, step->ordinal);
    *course = (struct step_course){.round = metrics->round};
    if (before != NULL && str_eq(before->spec.id, step->spec.id)) {
        course->state = before->state;
        course->since = before->lease.since;
        course->live = before->lease.live;
        course->held = before->held;
    }
    return course;
}

/* The names in a JSON array with commas between, as far as there is room. */
static struct str join_names(struct str json, char text[CAPABILITY_MAX])
{
    struct json_iter iter;
    struct str value;
    size_t len = 0;
    if (str_is_set(json) && json_array_begin(&iter, json))
        while (json_array_next(&iter, &value) && value.len >= 2) {
            size_t more = value.len - 2 + (len > 0 ? 1 : 0);
            if (len + more > CAPABILITY_MAX)
                break;
            if (len > 0)
                text[len++] = ',';
            memcpy(text + len, value.at + 1, value.len - 2);
            len += value.len - 2;
        }
    return (struct str){text, len};
}

static struct effort_series *effort_of(struct metrics *metrics, const struct step *step)
{
    char text[CAPABILITY_MAX];
    struct str parts[] = {step->spec.id, join_names(step->spec.capabilities, text)};
    return names_find(&metrics->efforts, parts);
}

static void count_effort(struct metrics *metrics, const struct step *step, uint32_t end,
                         int64_t took_ms)
{
    struct effort_series *series = effort_of(metrics, step);
    struct histogram *histogram = atomic_load_explicit(&series->ends[end], memory_order_relaxed);
    if (histogram == NULL) {
        histogram = arena_zalloc(&metrics->arena, 1, sizeof *histogram);
        if (histogram == NULL)
            return;
        atomic_store_explicit(&series->ends[end], histogram, memory_order_release);
    }
    histogram_bump(histogram, &bounds_work, took_ms * 1000);
}

static void count_step(struct metrics *metrics, const struct job_change *change,
                       const struct event *event, bool planned)
{
    const struct step *step = job_step(change->after, event->data.step);
    struct step_course *course = step == NULL ? NULL : course_of(metrics, change, step, planned);
    if (course == NULL)
        return;
    enum step_state to = course->state;
    bool moves = step_event_state(event->type, &to);
    if (moves) {
        struct step_series *series = names_find(&metrics->steps, &step->spec.id);
        counter_bump(&series->moves[course->state][to], 1);
        /* Who gives a step back has not failed. */
        if (event->type == EVENT_STEP_RETRYING && event->cause.command != COMMAND_RELEASE &&
            event->cause.command != COMMAND_CANCELLED)
            counter_bump(&effort_of(metrics, step)->retries, 1);
    }
    if (event_type_begins_lease(event->type) && !course->live) {
        course->since = event->at;
        course->live = true;
    } else if (event_type_ends_lease(event->type)) {
        /* A lease of a critic, who judges work that is done, is no work of the step. */
        if (course->live && !course->held && !str_is_set(step->spec.wait))
            count_effort(metrics, step, moves ? (uint32_t)to : END_FINISHED,
                         event->at - course->since);
        course->live = false;
        course->held = !moves;
    }
    course->state = to;
}

/* ---- batches ---- */

static void count_change(struct metrics *metrics, const struct job_change *change,
                         int64_t commit_us)
{
    const struct job *before = &change->before->job;
    struct kind_series *kind = names_find(&metrics->kinds, &change->after->job.spec.kind);
    struct job_course job = {
        .status = before->status,
        .failures = before->failures,
        .since = before->lease.since,
        .run_at = change->after->job.run_at,
        .live = before->lease.live,
    };
    const struct event *last = NULL;
    uint64_t kept = 0;
    bool planned = false;
    metrics->round++;
    histogram_bump(&kind->commit, &bounds_call, commit_us);
    for (uint32_t i = 0; i < change->event_count; i++) {
        const struct event *event = &change->events[i];
        enum event_class class = event_type_class(event->type);
        bool of_step = str_is_set(event->cause.step);
        if (class == EVENT_CLASS_TELEMETRY)
            continue;
        kept++;
        if (event->cause.command == COMMAND_EXPIRE &&
            (last == NULL || last->cause.command != COMMAND_EXPIRE ||
             last->cause.attempt != event->cause.attempt ||
             !str_eq(last->cause.step, event->cause.step)))
            counter_bump(&metrics->expiries[of_step ? WORK_STEP : WORK_JOB], 1);
        last = event;
        if (class == EVENT_CLASS_STATE) {
            count_state(metrics, kind, event, &job);
        } else if (event->type == EVENT_PLAN_GENERATED) {
            planned = true;
            metrics->round++;
        } else if (class != EVENT_CLASS_APPENDED && str_is_set(event->data.step)) {
            count_step(metrics, change, event, planned);
        }
    }
    counter_bump(&metrics->events, kept);
}

static void count_op(struct metrics *metrics, const struct op *op)
{
    bool by_worker = op->type == OP_COMMAND && str_is_set(op->command.token);
    if (op->code != ERR_OK) {
        /* What was due and is not any more, and a request that is sent again, are no refusals. */
        if (op->type == OP_TIMER_FIRED || op->type == OP_RESOURCE_FAILED ||
            op->request.disposition == DISPOSITION_DUPLICATE)
            return;
        counter_bump(&metrics->refusals[op->code], 1);
        if (by_worker && (op->code == ERR_STALE_LEASE || op->code == ERR_NOT_FOUND))
            counter_bump(&metrics->stale_writes, 1);
        return;
    }
    if (op_is_repeated(op))
        return;
    counter_bump(&metrics->rests, op->cooldown);
    if (op->type == OP_COMMAND && op->command.type == COMMAND_HEARTBEAT)
        counter_bump(&metrics->renewals, 1);
    for (uint32_t i = 0; op->type == OP_CLAIM && i < op->grant_count; i++)
        counter_bump(&metrics->claims[op->grants[i].step != NULL ? WORK_STEP : WORK_JOB], 1);
}

/* Whether a change is a history that was brought from elsewhere, where it was counted. */
static bool is_import(const struct batch_report *report, const struct job_change *change)
{
    for (uint32_t i = 0; i < report->op_count; i++)
        if (report->ops[i]->type == OP_IMPORT && report->ops[i]->import->events == change->events)
            return true;
    return false;
}

void metrics_committed(struct metrics *metrics, const struct batch_report *report)
{
    bool imports = false;
    for (uint32_t i = 0; i < report->op_count; i++) {
        imports = imports || report->ops[i]->type == OP_IMPORT;
        count_op(metrics, report->ops[i]);
    }
    for (uint32_t i = 0; i < report->change_count; i++)
        if (!imports || !is_import(report, &report->changes[i]))
            count_change(metrics, &report->changes[i], report->commit_us);
    counter_bump(&metrics->operations, report->op_count);
    counter_bump(&metrics->claim_conflicts, report->claim_conflicts);
    histogram_bump(&metrics->batch_size, &bounds_count, report->op_count);
    histogram_bump(&metrics->batch_time, &bounds_call, report->took_us);
    histogram_bump(&metrics->commit_time, &bounds_call, report->commit_us);
}

void metrics_failed(struct metrics *metrics, enum error_code code)
{
    counter_bump(&metrics->store_errors[code], 1);
}

void metrics_maintained(struct metrics *metrics, const struct maintenance_report *report)
{
    counter_bump(&metrics->tasks[report->task].items, report->done);
    counter_bump(&metrics->tasks[report->task].us, (uint64_t)report->took_us);
    counter_bump(&metrics->tasks[report->task].errors, report->code != ERR_OK);
}

void metrics_shed(struct metrics *metrics)
{
    counter_add(&metrics->shed, 1);
}

/* ---- requests ---- */

void metrics_answered(struct metrics *metrics, uint32_t route, unsigned status, int64_t us)
{
    struct route_series *series =
        &metrics->routes[route < ROUTE_COUNT_MAX ? route : ROUTE_COUNT_MAX];
    uint32_t at = 0;
    while (at < HTTP_STATUSES - 1 && http_statuses[at] != status)
        at++;
    counter_add(&series->statuses[at], 1);
    if (us >= 0)
        histogram_add(&series->duration, &bounds_call, us);
}

void metrics_stream(struct metrics *metrics, int change)
{
    (void)atomic_fetch_add_explicit(&metrics->streams, change, memory_order_relaxed);
}

/* ---- as text ---- */

static void write_one(struct buf *text, enum metric metric, counter *value)
{
    text_family(text, metric);
    text_sample(text, metric, NULL, counter_read(value));
}

static void write_by_work(struct buf *text, enum metric metric, counter values[WORK_COUNT])
{
    text_family(text, metric);
    for (int i = 0; i < WORK_COUNT; i++)
        text_sample(text, metric, &work_names[i], counter_read(&values[i]));
}

static void write_by_code(struct buf *text, enum metric metric, counter values[CODES])
{
    text_family(text, metric);
    for (int i = 0; i < CODES; i++) {
        uint64_t value = counter_read(&values[i]);
        struct str code =
            value == 0 ? (struct str){NULL, 0} : str_from(error_info((enum error_code)i)->name);
        if (value > 0)
            text_sample(text, metric, &code, value);
    }
}

static void write_maintenance(struct metrics *metrics, struct buf *text)
{
    struct str names[MAINTENANCE_TASK_COUNT];
    for (int i = 0; i < MAINTENANCE_TASK_COUNT; i++)
        names[i] = maintenance_task_name((enum maintenance_task)i);
    text_family(text, METRIC_MAINTENANCE_ITEMS);
    for (int i = 0; i < MAINTENANCE_TASK_COUNT; i++)
        text_sample(text, METRIC_MAINTENANCE_ITEMS, &names[i],
                    counter_read(&metrics->tasks[i].items));
    text_family(text, METRIC_MAINTENANCE_TIME);
    for (int i = 0; i < MAINTENANCE_TASK_COUNT; i++)
        text_sample_us(text, METRIC_MAINTENANCE_TIME, &names[i],
                       (int64_t)counter_read(&metrics->tasks[i].us));
    text_family(text, METRIC_MAINTENANCE_ERRORS);
    for (int i = 0; i < MAINTENANCE_TASK_COUNT; i++)
        text_sample(text, METRIC_MAINTENANCE_ERRORS, &names[i],
                    counter_read(&metrics->tasks[i].errors));
}

static void write_histogram(struct buf *text, enum metric metric, struct histogram *histogram,
                            const struct bounds *bounds)
{
    text_family(text, metric);
    text_histogram(text, metric, NULL, histogram, bounds);
}

static void write_transitions(struct metrics *metrics, struct buf *text)
{
    text_family(text, METRIC_JOB_TRANSITIONS);
    for (int from = 0; from < STATUSES; from++)
        for (int to = 0; to < STATUSES; to++) {
            uint64_t value = counter_read(&metrics->transitions[from][to]);
            if (value == 0)
                continue;
            struct str labels[] = {job_status_name((enum job_status)from),
                                   job_status_name((enum job_status)to)};
            text_sample(text, METRIC_JOB_TRANSITIONS, labels, value);
        }
}

static void write_dead_letters(struct metrics *metrics, struct buf *text)
{
    text_family(text, METRIC_DEAD_LETTERS);
    for (size_t i = 1; i < dead_letter_reason_names.count && i < REASONS; i++)
        text_sample(text, METRIC_DEAD_LETTERS, &dead_letter_reason_names.at[i],
                    counter_read(&metrics->dead_letters[i]));
}

/* A place that was never used is not shown: that of all others, as long as there are none. */
static void write_kind_counter(struct metrics *metrics, struct buf *text, enum metric metric,
                               size_t offset)
{
    text_family(text, metric);
    for (uint32_t i = 0; i < names_count(&metrics->kinds); i++) {
        const struct name_place *place = &metrics->kinds.places[i];
        uint64_t value = counter_read((counter *)(void *)((char *)place->series + offset));
        if (i > 0 || value > 0)
            text_sample(text, metric, place->parts, value);
    }
}

static void write_kind_histogram(struct metrics *metrics, struct buf *text, enum metric metric,
                                 size_t offset, const struct bounds *bounds)
{
    text_family(text, metric);
    for (uint32_t i = 0; i < names_count(&metrics->kinds); i++) {
        const struct name_place *place = &metrics->kinds.places[i];
        text_histogram(text, metric, place->parts,
                       (struct histogram *)(void *)((char *)place->series + offset), bounds);
    }
}

static void write_kinds(struct metrics *metrics, struct buf *text)
{
    write_kind_counter(metrics, text, METRIC_FAILURES, offsetof(struct kind_series, failures));
    write_kind_counter(metrics, text, METRIC_RETRIES, offsetof(struct kind_series, retries));
    write_kind_histogram(metrics, text, METRIC_JOB_WAIT, offsetof(struct kind_series, wait),
                         &bounds_work);
    write_kind_histogram(metrics, text, METRIC_JOB_RUN, offsetof(struct kind_series, run),
                         &bounds_work);
    write_kind_histogram(metrics, text, METRIC_JOB_COMMIT, offsetof(struct kind_series, commit),
                         &bounds_call);
}

static void write_step_moves(struct metrics *metrics, struct buf *text)
{
    text_family(text, METRIC_STEP_TRANSITIONS);
    for (uint32_t i = 0; i < names_count(&metrics->steps); i++) {
        const struct name_place *place = &metrics->steps.places[i];
        struct step_series *series = place->series;
        for (int move = 0; move < STEP_STATE_COUNT * STEP_STATE_COUNT; move++) {
            int from = move / STEP_STATE_COUNT;
            int to = move % STEP_STATE_COUNT;
            uint64_t value = counter_read(&series->moves[from][to]);
            if (value == 0)
                continue;
            struct str labels[] = {place->parts[0], step_state_name((enum step_state)from),
                                   step_state_name((enum step_state)to)};
            text_sample(text, METRIC_STEP_TRANSITIONS, labels, value);
        }
    }
}

static void write_efforts(struct metrics *metrics, struct buf *text)
{
    uint32_t count = names_count(&metrics->efforts);
    text_family(text, METRIC_STEP_DURATION);
    for (uint32_t i = 0; i < count; i++) {
        const struct name_place *place = &metrics->efforts.places[i];
        struct effort_series *series = place->series;
        for (int end = 0; end < ENDS; end++) {
            struct histogram *histogram =
                atomic_load_explicit(&series->ends[end], memory_order_acquire);
            if (histogram == NULL)
                continue;
            struct str labels[] = {place->parts[0], place->parts[1],
                                   end == END_FINISHED ? STR("finished")
                                                       : step_state_name((enum step_state)end)};
            text_histogram(text, METRIC_STEP_DURATION, labels, histogram, &bounds_work);
        }
    }
    text_family(text, METRIC_STEP_RETRIES);
    for (uint32_t i = 0; i < count; i++) {
        const struct name_place *place = &metrics->efforts.places[i];
        struct effort_series *series = place->series;
        uint64_t value = counter_read(&series->retries);
        if (i > 0 || value > 0)
            text_sample(text, METRIC_STEP_RETRIES, place->parts, value);
    }
}

static void write_requests(struct metrics *metrics, struct buf *text)
{
    uint32_t known;
    const struct route *routes = routes_all(&known);
    text_family(text, METRIC_HTTP_REQUESTS);
    for (uint32_t i = 0; i < ROUTE_COUNT_MAX + 1; i++)
        for (uint32_t s = 0; s < HTTP_STATUSES; s++) {
            uint64_t value = counter_read(&metrics->routes[i].statuses[s]);
            if (value == 0)
                continue;
            char status[16];
            (void)snprintf(status, sizeof status, "%u", http_statuses[s]);
            struct str labels[] = {i < known ? routes[i].method : STR("unknown"),
                                   i < known ? routes[i].path : STR("unknown"),
                                   s < HTTP_STATUSES - 1 ? str_from(status) : STR("other")};
            text_sample(text, METRIC_HTTP_REQUESTS, labels, value);
        }
    text_family(text, METRIC_HTTP_DURATION);
    for (uint32_t i = 0; i < ROUTE_COUNT_MAX + 1; i++) {
        struct str labels[] = {i < known ? routes[i].method : STR("unknown"),
                               i < known ? routes[i].path : STR("unknown")};
        text_histogram(text, METRIC_HTTP_DURATION, labels, &metrics->routes[i].duration,
                       &bounds_call);
    }
    int64_t streams = atomic_load_explicit(&metrics->streams, memory_order_relaxed);
    text_family(text, METRIC_HTTP_STREAMS);
    text_sample(text, METRIC_HTTP_STREAMS, NULL, streams > 0 ? (uint64_t)streams : 0);
}

void metrics_write(struct metrics *metrics, struct buf *text)
{
    write_transitions(metrics, text);
    write_one(text, METRIC_EVENTS, &metrics->events);
    write_by_work(text, METRIC_CLAIMS, metrics->claims);
    write_one(text, METRIC_CLAIM_CONFLICTS, &metrics->claim_conflicts);
    write_one(text, METRIC_RESOURCE_RESTS, &metrics->rests);
    write_one(text, METRIC_LEASE_RENEWALS, &metrics->renewals);
    write_by_work(text, METRIC_LEASE_EXPIRIES, metrics->expiries);
    write_one(text, METRIC_STALE_WRITES, &metrics->stale_writes);
    write_dead_letters(metrics, text);
    write_kinds(metrics, text);
    write_step_moves(metrics, text);
    write_efforts(metrics, text);
    write_one(text, METRIC_OPERATIONS, &metrics->operations);
    write_by_code(text, METRIC_REFUSALS, metrics->refusals);
    write_histogram(text, METRIC_BATCH_SIZE, &metrics->batch_size, &bounds_count);
    write_histogram(text, METRIC_BATCH_TIME, &metrics->batch_time, &bounds_call);
    write_histogram(text, METRIC_COMMIT_TIME, &metrics->commit_time, &bounds_call);
    write_one(text, METRIC_SHED, &metrics->shed);
    write_by_code(text, METRIC_STORE_ERRORS, metrics->store_errors);
    write_maintenance(metrics, text);
    write_requests(metrics, text);
}
