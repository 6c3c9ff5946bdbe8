/* Verbs that look at plans and at what people are asked: steps, plan_diff, inbox. */
#include <assert.h>

#include "base/map.h"
#include "core/plan.h"
#include "core/plan_diff.h"
#include "core/plan_times.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/filter.h"
#include "engine/page.h"
#include "engine/verb.h"

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)
#define RANGE(type, member, min, max)                                                              \
    RECORD_FIELD_RANGE(struct type, member, #member, INT, min, max)

/* ---- steps -------------------------------------------------------------------------------- */

struct steps_request {
    struct str id;
    struct page_request page;
};

static const struct record_field steps_fields[] = {
    FIELD(steps_request, id, TEXT),
    PAGE_FIELDS(struct steps_request),
};
RECORD_TABLE(steps);

/* What happened to a step, oldest first. */
struct moment {
    struct event event;
    enum step_state state; /* of the step from then on */
    struct moment *next;
};

struct histories {
    struct moment **first; /* of each step, by place in the slice */
    struct moment **last;
    struct step_times *times;
    struct critical_path path;
    int64_t now; /* of the job: the moment that its steps last until, when they have no end */
};

/* The state of a step after an event that is about it, or about the plan. */
static enum step_state state_after(const struct event *event, const struct moment *before)
{
    enum step_state state = before != NULL ? before->state : STEP_PENDING;
    bool keeps_result = state == STEP_SUCCEEDED && !event->data.fresh;
    if (event->type == EVENT_PLAN_GENERATED)
        return keeps_result ? STEP_SUCCEEDED : STEP_PENDING;
    (void)step_event_state(event->type, &state);
    return state;
}

static enum error_code keep_moment(struct verb_call *call, size_t place, const struct event *event,
                                   struct histories *histories, struct err *err)
{
    struct moment *moment = arena_alloc(call->arena, sizeof *moment);
    if (moment == NULL)
        return verb_no_memory(err);
    *moment = (struct moment){.event = *event, .state = state_after(event, histories->last[place])};
    if (histories->last[place] != NULL)
        histories->last[place]->next = moment;
    else
        histories->first[place] = moment;
    histories->last[place] = moment;
    return ERR_OK;
}

/* A plan puts each of its steps into its first state. One without steps is the same plan, which
 * starts again. */
static enum error_code keep_plan(struct verb_call *call, const struct job_slice *slice,
                                 const struct event *event, struct histories *histories,
                                 struct err *err)
{
    const struct plan *plan = event->data.plan;
    uint32_t count = plan != NULL ? plan->count : slice->step_count;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        const struct step *step =
            plan != NULL ? job_step(slice, plan->steps[i].spec.id) : &slice->steps[i];
        if (step != NULL)
            code = keep_moment(call, (size_t)(step - slice->steps), event, histories, err);
    }
    return code;
}

/* Adds an event to the history of each step that it is about. */
static enum error_code keep_event(struct verb_call *call, const struct job_slice *slice,
                                  const struct event *event, struct histories *histories,
                                  struct err *err)
{
    if (event->type == EVENT_PLAN_GENERATED)
        return keep_plan(call, slice, event, histories, err);
    const struct step *step =
        str_is_set(event->data.step) ? job_step(slice, event->data.step) : NULL;
    if (step == NULL)
        return ERR_OK;
    return keep_moment(call, (size_t)(step - slice->steps), event, histories, err);
}

/* Goes through all events of a job, page by page. */
static enum error_code read_histories(struct verb_call *call, struct store_txn *txn,
                                      const struct job_slice *slice, struct histories *ret,
                                      struct err *err)
{
    uint64_t seed = engine_store(call->engine)->options.seed;
    struct store_stream stream = {.job = slice->job.id, .limit = STORE_EVENTS_MAX};
    uint32_t count = stream.limit;
    enum error_code code = ERR_OK;
    ret->first = arena_zalloc(call->arena, slice->step_count + (size_t)1, sizeof(void *));
    ret->last = arena_zalloc(call->arena, slice->step_count + (size_t)1, sizeof(void *));
    ret->times = arena_zalloc(call->arena, slice->step_count + (size_t)1, sizeof *ret->times);
    if (ret->first == NULL || ret->last == NULL || ret->times == NULL)
        return verb_no_memory(err);
    while (code == ERR_OK && count == stream.limit && slice->step_count > 0) {
        struct event *events;
        code = store_events(txn, &stream, call->arena, &events, &count, err);
        for (uint32_t i = 0; code == ERR_OK && i < count; i++) {
            stream.after = events[i].version;
            code = event_open(&events[i], seed, call->arena, err);
            if (code == ERR_OK)
                code = keep_event(call, slice, &events[i], ret, err);
            if (code == ERR_OK)
                step_times_note(slice, &events[i], ret->times);
        }
    }
    step_times_settle(slice, ret->times);
    return code;
}

/* A page of the steps of a job. */
struct steps {
    struct store_job job;
    struct histories histories;
    struct page page;
};

static void write_moment(struct json_writer *writer, const struct moment *moment)
{
    const struct event *event = &moment->event;
    json_begin_object(writer);
    answer_int(writer, STR("version"), event->version);
    answer_text(writer, STR("type"), event_name(event));
    answer_text(writer, STR("state"), step_state_name(moment->state));
    answer_time(writer, STR("at"), event->at);
    answer_text(writer, STR("actor"), event->actor);
    answer_text(writer, STR("cause"), event->cause_text);
    answer_int_set(writer, STR("attempt"), event->data.attempt);
    answer_text(writer, STR("worker_id"), event->data.worker_id);
    answer_text(writer, STR("resource_id"), event->data.resource_id);
    answer_text(writer, STR("reason"), event->data.reason);
    answer_word(writer, STR("verdict"), &verdict_names, (int)event->data.verdict);
    answer_text(writer, STR("by"), event->data.by);
    answer_raw(writer, STR("error"), event->data.error);
    json_end_object(writer);
}

static void write_times(struct json_writer *writer, const struct histories *histories, uint32_t at)
{
    const struct step_times *times = &histories->times[at];
    answer_time(writer, STR("started_at"), times->started_at);
    answer_time(writer, STR("ended_at"), times->ended_at);
    json_key(writer, STR("duration_ms"));
    if (times->started_at != 0)
        json_put_int(writer, step_duration_ms(times, histories->now));
    else
        json_put_null(writer);
    answer_time(writer, STR("answered_at"), times->answered_at);
}

static void write_path(struct json_writer *writer, const struct job_slice *slice,
                       const struct critical_path *path)
{
    json_key(writer, STR("critical_path"));
    if (path->count == 0) {
        json_put_null(writer);
        return;
    }
    json_begin_object(writer);
    answer_int(writer, STR("duration_ms"), path->duration_ms);
    json_key(writer, STR("steps"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < path->count; i++)
        json_put_string(writer, slice->steps[path->steps[i]].spec.id);
    json_end_array(writer);
    json_end_object(writer);
}

static void write_steps(const struct verb_call *call, struct json_writer *writer)
{
    const struct steps *steps = call->result.data;
    const struct job_slice *slice = &steps->job.slice;
    const struct histories *histories = &steps->histories;
    struct page page = steps->page;
    json_begin_object(writer);
    answer_text(writer, STR("status"), job_status_name(slice->job.status));
    answer_int_set(writer, STR("plan_version"), slice->job.plan_version);
    write_path(writer, slice, &histories->path);
    json_key(writer, STR("steps"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < slice->step_count; i++) {
        if (!page_takes(&page, slice->steps[i].spec.id))
            continue;
        answer_step(writer, &slice->steps[i]);
        write_times(writer, histories, i);
        json_key(writer, STR("history"));
        json_begin_array(writer);
        for (const struct moment *at = histories->first[i]; at != NULL; at = at->next)
            write_moment(writer, at);
        json_end_array(writer);
        json_end_object(writer);
    }
    json_end_array(writer);
    page_end(&page, writer);
    json_end_object(writer);
}

static enum error_code run_steps(struct verb_call *call, struct err *err)
{
    struct steps_request request = {0};
    struct uuid id;
    struct store_txn *txn;
    struct steps *steps = verb_data(call, sizeof *steps);
    if (steps == NULL)
        return verb_no_memory(err);
    struct histories *histories = &steps->histories;
    const struct job_slice *slice = &steps->job.slice;
    enum error_code code = verb_read(call, &steps_record, &request, err);
    if (code == ERR_OK)
        code = page_begin(&request.page, PAGE_BY_PLACE, &steps->page, err);
    if (code == ERR_OK)
        code = verb_job_id(request.id, &id, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = verb_load_job_now(call, txn, id, true, &steps->job, &histories->now, err);
    if (code == ERR_OK)
        code = read_histories(call, txn, slice, histories, err);
    store_rollback(txn);
    /* The steps of a job that has ended stay as they are, and so do their times. */
    if (code == ERR_OK && job_status_terminal(slice->job.status))
        histories->now = slice->job.updated_at;
    if (code == ERR_OK)
        code = critical_path_find(slice, histories->times, histories->now, call->arena,
                                  &histories->path, err);
    return code;
}

const struct verb verb_steps = {.request = &steps_record, .run = run_steps, .write = write_steps};

/* ---- plan_diff ---------------------------------------------------------------------------- */

struct plan_diff_request {
    struct str id;
    int64_t from;
    int64_t to;
};

static const struct record_field plan_diff_fields[] = {
    FIELD(plan_diff_request, id, TEXT),
    FIELD(plan_diff_request, from, INT),
    FIELD(plan_diff_request, to, INT),
};
RECORD_TABLE(plan_diff);

/* One of the versions of a plan. */
struct version {
    int64_t number;
    int64_t at;
    struct str actor;
    struct str reason;
    uint32_t step_count;
    struct version *next;
};

/* What the history says of the plans of a job. */
struct versions {
    int64_t from;
    int64_t to;
    struct version *first;
    struct version *last;
    struct plan plan;      /* the one that holds so far */
    struct plan from_plan; /* of version `from`; none of version 0 */
    struct plan to_plan;
    struct map succeeded; /* ids of steps that have, so far: their number is 0 */
    struct map kept;      /* as that was when version `to` came */
    struct plan_diff diff;
};

/* Of the steps that have succeeded, those stay that are in the new plan too. */
static enum error_code keep_succeeded(struct verb_call *call, struct versions *versions,
                                      const struct event *event, struct err *err)
{
    struct map kept;
    uint32_t found;
    map_init(&kept, call->arena, versions->plan.count, engine_store(call->engine)->options.seed);
    for (uint32_t i = 0; i < versions->plan.count && !event->data.fresh; i++) {
        struct str id = versions->plan.steps[i].spec.id;
        if (map_get(&versions->succeeded, id) != MAP_NONE &&
            map_put(&kept, id, 0, &found) != ERR_OK)
            return verb_no_memory(err);
    }
    versions->succeeded = kept;
    return ERR_OK;
}

/* A requeue takes the plan up again, as a version of its own without steps. */
static enum error_code note_plan(struct verb_call *call, struct versions *versions,
                                 const struct event *event, struct err *err)
{
    struct version *version = arena_zalloc(call->arena, 1, sizeof *version);
    if (version == NULL)
        return verb_no_memory(err);
    if (event->data.plan != NULL)
        versions->plan = *event->data.plan;
    *version = (struct version){
        .number = event->data.plan_version,
        .at = event->at,
        .actor = event->actor,
        .reason = event->data.reason,
        .step_count = versions->plan.count,
    };
    if (versions->last != NULL)
        versions->last->next = version;
    else
        versions->first = version;
    versions->last = version;
    enum error_code code = keep_succeeded(call, versions, event, err);
    if (version->number == versions->from)
        versions->from_plan = versions->plan;
    if (version->number == versions->to) {
        versions->to_plan = versions->plan;
        versions->kept = versions->succeeded;
    }
    return code;
}

static enum error_code note_event(struct verb_call *call, struct versions *versions,
                                  const struct event *event, struct err *err)
{
    uint32_t found;
    if (event->type == EVENT_PLAN_GENERATED)
        return note_plan(call, versions, event, err);
    if (event->type == EVENT_STEP_SUCCEEDED && str_is_set(event->data.step) &&
        map_put(&versions->succeeded, event->data.step, 0, &found) != ERR_OK)
        return verb_no_memory(err);
    return ERR_OK;
}

static enum error_code read_versions(struct verb_call *call, struct store_txn *txn, struct uuid id,
                                     struct versions *versions, struct err *err)
{
    uint64_t seed = engine_store(call->engine)->options.seed;
    struct store_stream stream = {.job = id, .limit = STORE_EVENTS_MAX};
    uint32_t count = stream.limit;
    enum error_code code = ERR_OK;
    map_init(&versions->succeeded, call->arena, 0, seed);
    map_init(&versions->kept, call->arena, 0, seed);
    while (code == ERR_OK && count == stream.limit) {
        struct event *events;
        code = store_events(txn, &stream, call->arena, &events, &count, err);
        for (uint32_t i = 0; code == ERR_OK && i < count; i++) {
            stream.after = events[i].version;
            code = event_open(&events[i], seed, call->arena, err);
            if (code == ERR_OK)
                code = note_event(call, versions, &events[i], err);
        }
    }
    return code;
}

/* Which two: the newest and the one before it, unless others were asked for. */
static enum error_code choose_versions(const struct job *job,
                                       const struct plan_diff_request *request,
                                       struct versions *ret, struct err *err)
{
    int64_t newest = job->plan_version;
    int64_t to = request->to != 0 ? request->to : newest;
    int64_t from = request->from >= 0 ? request->from : to - 1;
    if (newest == 0)
        return err_set(err, ERR_NOT_FOUND, "the job has no plan");
    if (job->redacted)
        return err_set(err, ERR_NOT_FOUND, "the job was redacted: its plans are erased");
    if (to > newest || from > newest)
        return err_set(err, ERR_NOT_FOUND, "the plan has versions 1 to %lld, but no version %lld",
                       (long long)newest, (long long)(to > newest ? to : from));
    ret->from = from;
    ret->to = to;
    return ERR_OK;
}

static void write_versions(struct json_writer *writer, const struct versions *versions)
{
    json_key(writer, STR("versions"));
    json_begin_array(writer);
    for (const struct version *at = versions->first; at != NULL; at = at->next) {
        json_begin_object(writer);
        answer_int(writer, STR("version"), at->number);
        answer_time(writer, STR("at"), at->at);
        answer_text(writer, STR("actor"), at->actor);
        answer_text(writer, STR("reason"), at->reason);
        answer_int(writer, STR("steps"), at->step_count);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_spec(struct json_writer *writer, struct str key, const struct step_spec *spec,
                       uint64_t fields)
{
    json_key(writer, key);
    if (spec == NULL) {
        json_put_null(writer);
        return;
    }
    json_begin_object(writer);
    record_write(&step_spec_record, spec, fields, writer);
    json_end_object(writer);
}

static void write_changes(struct json_writer *writer, const struct plan_diff *diff)
{
    static const struct str names[] = {
        [STEP_ADDED] = STR_INIT("added"),
        [STEP_REMOVED] = STR_INIT("removed"),
        [STEP_CHANGED] = STR_INIT("changed"),
    };
    json_key(writer, STR("changes"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < diff->count; i++) {
        const struct plan_change *change = &diff->changes[i];
        uint64_t fields = change->type == STEP_CHANGED ? change->fields : RECORD_ALL;
        json_begin_object(writer);
        answer_text(writer, STR("step"), change->to != NULL ? change->to->id : change->from->id);
        answer_text(writer, STR("change"), names[change->type]);
        write_spec(writer, STR("from"), change->from, fields);
        write_spec(writer, STR("to"), change->to, fields);
        json_end_object(writer);
    }
    json_end_array(writer);
}

static void write_diff(const struct verb_call *call, struct json_writer *writer)
{
    const struct versions *versions = call->result.data;
    json_begin_object(writer);
    answer_int(writer, STR("from"), versions->from);
    answer_int(writer, STR("to"), versions->to);
    write_versions(writer, versions);
    write_changes(writer, &versions->diff);
    answer_int(writer, STR("same"), versions->diff.same);
    json_key(writer, STR("kept"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < versions->to_plan.count; i++) {
        struct str id = versions->to_plan.steps[i].spec.id;
        if (map_get(&versions->kept, id) != MAP_NONE)
            json_put_string(writer, id);
    }
    json_end_array(writer);
    json_end_object(writer);
}

static enum error_code run_plan_diff(struct verb_call *call, struct err *err)
{
    struct plan_diff_request request = {.from = -1};
    struct versions *versions = verb_data(call, sizeof *versions);
    struct store_job job;
    struct store_txn *txn;
    struct uuid id;
    if (versions == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &plan_diff_record, &request, err);
    if (code == ERR_OK)
        code = verb_job_id(request.id, &id, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = verb_load_job(call, txn, id, false, &job, err);
    if (code == ERR_OK)
        code = choose_versions(&job.slice.job, &request, versions, err);
    if (code == ERR_OK)
        code = read_versions(call, txn, id, versions, err);
    store_rollback(txn);
    if (code == ERR_OK)
        code =
            plan_diff(&versions->from_plan, &versions->to_plan,
                      engine_store(call->engine)->options.seed, call->arena, &versions->diff, err);
    return code;
}

const struct verb verb_plan_diff = {
    .request = &plan_diff_record, .run = run_plan_diff, .write = write_diff};

/* ---- inbox -------------------------------------------------------------------------------- */

enum { INBOX_PAYLOAD_BYTES_MAX = 16 * 1024, QUESTION_BYTES = 512 };

struct inbox_request {
    struct str assignee;
    int64_t limit;
    struct str cursor;
};

static const struct record_field inbox_fields[] = {
    FIELD(inbox_request, assignee, NAME),
    RANGE(inbox_request, limit, 1, STORE_LIST_MAX),
    FIELD(inbox_request, cursor, TEXT),
};
RECORD_TABLE(inbox);

/* Jobs in which somebody is asked, with the steps of those that have any. */
struct asking {
    struct str assignee; /* absent: anybody */
    struct store_job *jobs;
    struct store_parts *parts;
    uint32_t count; /* of those on the page */
    size_t bytes;   /* about what their questions are in JSON */
    bool more;
};

/* About what a question is in JSON, besides what is said of its job. */
static size_t question_bytes(const struct wait *wait, struct str default_answer)
{
    return QUESTION_BYTES + wait->prompt.len + wait->choices.len + default_answer.len;
}

/* About what the questions of a job are in JSON. */
static size_t asking_bytes(const struct job *job, const struct store_parts *parts)
{
    size_t asker = job->spec.goal.len + job->spec.labels.len +
                   (job->spec.payload.len <= INBOX_PAYLOAD_BYTES_MAX ? job->spec.payload.len : 0);
    size_t bytes = asker + question_bytes(&job->wait, job->wait.default_answer);
    for (uint32_t i = 0; i < parts->step_count; i++)
        if (step_standing(&parts->steps[i]) == STANDING_ASKING)
            bytes +=
                asker + question_bytes(&parts->steps[i].question, parts->steps[i].default_answer);
    return bytes;
}

/* Reads jobs until they are as much as a page may have. */
static enum error_code read_asking(struct verb_call *call, struct store_txn *txn,
                                   const struct store_filter *filter, struct asking *ret,
                                   struct err *err)
{
    uint32_t count = 0;
    enum error_code code = store_list(txn, filter, call->arena, &ret->jobs, &count, err);
    if (code != ERR_OK)
        return code;
    ret->parts = arena_zalloc(call->arena, count + (size_t)1, sizeof *ret->parts);
    if (ret->parts == NULL)
        return verb_no_memory(err);
    for (; ret->count < count && ret->bytes < PAGE_BYTES_MAX && code == ERR_OK; ret->count++) {
        const struct job *job = &ret->jobs[ret->count].slice.job;
        struct store_parts *parts = &ret->parts[ret->count];
        *parts = (struct store_parts){.job = job->id, .all_steps = true};
        if (job->steps[STANDING_ASKING] > 0)
            code = store_load_parts(txn, parts, 1, call->arena, err);
        ret->bytes += asking_bytes(job, parts);
    }
    ret->more = ret->count < count || count == filter->limit;
    return code;
}

/* What a person needs to know of the job to answer for it. A payload that is too long for a page of
 * questions is null; the job has it. */
static void write_asker(struct json_writer *writer, const struct job *job)
{
    bool fits = job->spec.payload.len <= INBOX_PAYLOAD_BYTES_MAX;
    answer_text(writer, STR("goal"), job->spec.goal);
    answer_text(writer, STR("agent_id"), job->spec.agent_id);
    answer_raw(writer, STR("labels"), job->spec.labels);
    answer_text(writer, STR("correlation_id"), job->spec.correlation_id);
    answer_raw(writer, STR("payload"), fits ? job->spec.payload : (struct str){NULL, 0});
    answer_bool(writer, STR("payload_left_out"), !fits);
}

/* A question of the job itself, or of a step. No person can answer a timer or a webhook. */
static void write_question(struct json_writer *writer, const struct job *job,
                           const struct step *step, struct str assignee)
{
    const struct wait *wait = step != NULL ? &step->question : &job->wait;
    if (wait->type != WAIT_HUMAN || (str_is_set(assignee) && !str_eq(wait->assignee, assignee)))
        return;
    json_begin_object(writer);
    answer_id(writer, STR("id"), job->id);
    answer_text(writer, STR("step"), step != NULL ? step->spec.id : (struct str){NULL, 0});
    json_key(writer, STR("attempt"));
    json_put_int(writer, step != NULL ? step->attempt : job->attempt);
    answer_text(writer, STR("kind"), job->spec.kind);
    answer_text(writer, STR("queue"), job->spec.queue);
    answer_text(writer, STR("prompt"), wait->prompt);
    answer_raw(writer, STR("choices"), wait->choices);
    answer_text(writer, STR("assignee"), wait->assignee);
    answer_text(writer, STR("correlation_key"), wait->correlation_key);
    answer_text(writer, STR("effect"), wait->effect);
    answer_time(writer, STR("since"), wait->since);
    answer_time(writer, STR("until"), wait->until);
    answer_raw(writer, STR("default_answer"),
               step != NULL ? step->default_answer : wait->default_answer);
    write_asker(writer, job);
    json_end_object(writer);
}

static void write_inbox(const struct verb_call *call, struct json_writer *writer)
{
    const struct asking *asking = call->result.data;
    json_begin_object(writer);
    json_key(writer, STR("questions"));
    json_begin_array(writer);
    for (uint32_t at = 0; at < asking->count; at++) {
        const struct job *job = &asking->jobs[at].slice.job;
        const struct store_parts *parts = &asking->parts[at];
        write_question(writer, job, NULL, asking->assignee);
        for (uint32_t i = 0; i < parts->step_count; i++)
            if (step_standing(&parts->steps[i]) == STANDING_ASKING)
                write_question(writer, job, &parts->steps[i], asking->assignee);
    }
    json_end_array(writer);
    cursor_write(writer, asking->more,
                 asking->more ? asking->jobs[asking->count - 1].id : (struct uuid){0});
    json_end_object(writer);
}

static enum error_code run_inbox(struct verb_call *call, struct err *err)
{
    struct inbox_request request = {.limit = PAGE_LIMIT_DEFAULT};
    struct store_filter filter = {.asking = true};
    struct store_txn *txn;
    struct asking *asking = verb_data(call, sizeof *asking);
    if (asking == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &inbox_record, &request, err);
    if (code == ERR_OK)
        code = cursor_read(request.cursor, &filter.before, err);
    if (code == ERR_OK)
        code = access_filter(call, &filter, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    filter.limit = (uint32_t)request.limit;
    asking->assignee = request.assignee;
    code = read_asking(call, txn, &filter, asking, err);
    store_rollback(txn);
    return code;
}

const struct verb verb_inbox = {.request = &inbox_record, .run = run_inbox, .write = write_inbox};
