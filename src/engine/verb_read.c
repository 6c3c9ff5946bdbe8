/* Verbs that look at jobs: get, list, events, feed. */
#include <assert.h>
#include <stdlib.h>

#include "engine/access.h"
#include "engine/answer.h"
#include "engine/event_filter.h"
#include "engine/filter.h"
#include "engine/listed.h"
#include "engine/position.h"
#include "engine/verb.h"

enum {
    EVENTS_DEFAULT = 100,
    AT_ONCE = 32, /* jobs or events that are read together: each may have a payload of a MiB */
    /* A search reads more at once as long as they are small, and goes on in the next page when it
     * has looked at so many, or for so long. */
    SMALL_BYTES = 4 * 1024 * 1024,
    SEARCHED_MAX = 50 * 1000,
    SEARCH_MS_MAX = 1000,
    SEARCH_LEN_MAX = 128,
    /* Events of one job that are read at once for those that a filter lets pass. */
    EXAMINED_MAX = 2000,
};

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)
#define RANGE(type, member, min, max)                                                              \
    RECORD_FIELD_RANGE(struct type, member, #member, INT, min, max)

/* ---- get ---------------------------------------------------------------------------------- */

struct get_request {
    struct str id;
    int64_t wait_ms;
};

static const struct record_field get_fields[] = {
    FIELD(get_request, id, TEXT),
    RANGE(get_request, wait_ms, 0, WAIT_MS_MAX),
};
RECORD_TABLE(get);

static enum error_code run_get(struct verb_call *call, struct err *err)
{
    struct get_request request = {0};
    struct store_txn *txn;
    struct uuid id;
    struct store_job *job = verb_data(call, sizeof *job);
    if (job == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &get_record, &request, err);
    if (code == ERR_OK)
        code = verb_job_id(request.id, &id, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = verb_load_job(call, txn, id, false, job, err);
    store_rollback(txn);
    call->wait_ms = request.wait_ms;
    call->result.version = job->slice.job.version;
    call->result.has_come = job_status_terminal(job->slice.job.status);
    return code;
}

static void write_get(const struct verb_call *call, struct json_writer *writer)
{
    const struct store_job *job = call->result.data;
    answer_job(writer, &job->slice.job, access_sight(call));
}

const struct verb verb_get = {.request = &get_record, .run = run_get, .write = write_get};

/* ---- list --------------------------------------------------------------------------------- */

struct list_request {
    struct filter_request filter;
    struct str idempotency_key;
    struct str search;
    struct str id_prefix;
    struct str include;
    int64_t limit;
    struct str cursor;
};

static const struct record_field list_fields[] = {
    FILTER_FIELDS(struct list_request), FIELD(list_request, idempotency_key, NAME),
    FIELD(list_request, search, TEXT),  FIELD(list_request, id_prefix, TEXT),
    FIELD(list_request, include, TEXT), RANGE(list_request, limit, 1, STORE_LIST_MAX),
    FIELD(list_request, cursor, TEXT),
};
RECORD_TABLE(list);

/* "payload,result", in any order. */
static enum error_code read_include(struct str list, int *ret, struct err *err)
{
    int parts = ANSWER_DETAILS;
    for (size_t at = 0; str_is_set(list) && at <= list.len;) {
        const char *comma = at == list.len ? NULL : memchr(list.at + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.at);
        struct str name = {list.at + at, end - at};
        if (str_eq(name, STR("payload")))
            parts |= ANSWER_PAYLOAD;
        else if (str_eq(name, STR("result")))
            parts |= ANSWER_RESULT;
        else
            return err_set(err, ERR_BAD_REQUEST, "unknown include \"%.*s\"; valid: payload, result",
                           STR_ARG(name));
        at = end + 1;
    }
    *ret = parts;
    return ERR_OK;
}

/* A page of jobs. */
struct listing {
    struct listed list;
    struct store_filter filter;  /* `before` and `limit` move on */
    struct str search;           /* absent: all of them */
    struct filter_request which; /* what the store does not look for is sifted */
    struct uuid first;           /* the smallest id that is listed */
    uint32_t limit;              /* of jobs that are listed */
    int64_t until;               /* of a search, on the engine's steady clock */
    uint32_t at_once;
    uint32_t looked_at;
    struct store_reach reach; /* of the last read */
    bool more;
};

static bool is_full(const struct listing *listing)
{
    return listing->list.jobs.count == listing->limit || listing->list.bytes >= PAGE_BYTES_MAX;
}

/* Whether jobs are looked at here that the store knows nothing against. Then more are read than are
 * listed, and a page ends when enough was looked at. */
static bool searches(const struct listing *listing)
{
    return str_is_set(listing->search) || filter_sifts(&listing->which);
}

static bool is_found(const struct listing *listing, const struct store_job *job)
{
    const struct job *found = &job->slice.job;
    if (!searches(listing))
        return true;
    if (str_is_set(job->damaged))
        return false;
    return (!str_is_set(listing->search) || filter_has_text(found, listing->search)) &&
           filter_passes(&listing->which, found);
}

/* Reads the next jobs. */
static enum error_code read_some(struct store_txn *txn, struct listing *listing, struct arena *page,
                                 struct arena *arena, struct err *err)
{
    struct store_job *jobs = NULL;
    uint32_t count = 0;
    uint32_t at = 0;
    uint32_t wanted = listing->limit - listing->list.jobs.count;
    bool sifts = searches(listing);
    listing->filter.limit = sifts || wanted > listing->at_once ? listing->at_once : wanted;
    enum error_code code = store_list(txn, &listing->filter, page, &jobs, &count, err);
    for (; code == ERR_OK && at < count && !is_full(listing); at++) {
        if (memcmp(&jobs[at].id, &listing->first, sizeof listing->first) < 0) {
            listing->more = false;
            return ERR_OK;
        }
        listing->filter.before = jobs[at].id;
        if (is_found(listing, &jobs[at]) && !listed_add(&listing->list, &jobs[at], arena))
            code = verb_no_memory(err);
    }
    listing->looked_at += at;
    listing->more = at < count || count == listing->filter.limit;
    if (at == count && listing->reach.stopped) {
        listing->filter.before = listing->reach.at;
        listing->more = memcmp(&listing->reach.at, &listing->first, sizeof listing->first) >= 0;
    }
    bool small = arena_size(page) < SMALL_BYTES;
    if (sifts)
        listing->at_once = !small                                  ? AT_ONCE
                           : listing->at_once * 2 < STORE_LIST_MAX ? listing->at_once * 2
                                                                   : STORE_LIST_MAX;
    return code;
}

/* Whether a search has looked far enough for one answer. */
static bool is_tired(struct engine *engine, const struct listing *listing)
{
    return (searches(listing) || listing->reach.stopped) &&
           (listing->looked_at >= SEARCHED_MAX || engine_steady(engine) >= listing->until);
}

/* Reads jobs, some at a time: each may have a payload of a MiB, and a page ends long before there
 * are 500 of those. */
static enum error_code read_jobs(struct verb_call *call, struct listing *listing, struct err *err)
{
    struct store_txn *txn;
    struct arena page;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    arena_init(&page);
    while (code == ERR_OK && listing->more && !is_full(listing) &&
           !is_tired(call->engine, listing)) {
        code = read_some(txn, listing, &page, call->arena, err);
        arena_clear(&page);
    }
    arena_release(&page);
    store_rollback(txn);
    return code;
}

static enum error_code check_search(struct str text, struct err *err)
{
    if (!str_is_set(text) || (text.len > 0 && text.len <= SEARCH_LEN_MAX))
        return ERR_OK;
    return err_set(err, ERR_BAD_REQUEST, "search has %zu bytes; it must have 1 to %d", text.len,
                   SEARCH_LEN_MAX);
}

/* Limits a page to ids with a prefix. Ids are listed from the largest on, so that the page begins
 * behind them or, further down, at the cursor. */
static enum error_code read_prefix(struct str prefix, struct listing *listing, struct err *err)
{
    struct id_range range;
    if (!str_is_set(prefix))
        return ERR_OK;
    enum error_code code = id_prefix_read(prefix, &range, err);
    if (code != ERR_OK)
        return code;
    const struct uuid none = {0};
    struct uuid *before = &listing->filter.before;
    if (uuid_eq(*before, none) ||
        (!uuid_eq(range.behind, none) && memcmp(&range.behind, before, sizeof range.behind) < 0))
        *before = range.behind;
    listing->first = range.first;
    return ERR_OK;
}

/* Ids begin with the time at which they were made, by the clock of the server that made them: the
 * page begins a day behind that, so that a clock may be wrong by as much. */
static void begin_before(struct listing *listing)
{
    enum { CLOCKS_APART_MS = 24 * 60 * 60 * 1000 };
    static const struct uuid none;
    static const uint8_t zeros[10];
    struct uuid *before = &listing->filter.before;
    int64_t at = listing->which.created_before;
    if (at == 0 || at > INT64_MAX - CLOCKS_APART_MS || at + CLOCKS_APART_MS >= INT64_C(1) << 48)
        return;
    struct uuid first = uuid_v7(at + CLOCKS_APART_MS, zeros);
    if (uuid_eq(*before, none) || memcmp(&first, before, sizeof first) < 0)
        *before = first;
}

/* Finds the one job that has an idempotency key in a queue, as submit does. If it is missing, `ret`
 * is an id that no job has. */
static enum error_code find_by_key(struct verb_call *call, const struct list_request *request,
                                   struct uuid *ret, struct err *err)
{
    struct str queue = str_is_set(request->filter.queue) ? request->filter.queue : STR("default");
    struct store_key key = {.queue = queue, .key = request->idempotency_key};
    struct store_load load = {.keys = &key, .key_count = 1};
    struct store_txn *txn;
    enum error_code code = access_check_queue(call->queues, queue, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, call->arena, err);
    store_rollback(txn);
    memset(ret, 0xff, sizeof *ret);
    if (code == ERR_OK && key.slice.job.status != JOB_NONE)
        *ret = key.slice.job.id;
    return code;
}

static enum error_code run_list(struct verb_call *call, struct err *err)
{
    struct list_request request = {.limit = PAGE_LIMIT_DEFAULT};
    struct listing *listing = verb_data(call, sizeof *listing);
    int parts = 0;
    if (listing == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &list_record, &request, err);
    if (code == ERR_OK)
        code = filter_read(&request.filter, &listing->filter, err);
    if (code == ERR_OK)
        code = access_filter(call, &listing->filter, err);
    if (code == ERR_OK)
        code = cursor_read(request.cursor, &listing->filter.before, err);
    if (code == ERR_OK)
        code = read_prefix(request.id_prefix, listing, err);
    if (code == ERR_OK)
        code = read_include(request.include, &parts, err);
    if (code == ERR_OK)
        code = check_search(request.search, err);
    if (code == ERR_OK && str_is_set(request.idempotency_key))
        code = find_by_key(call, &request, &listing->filter.id, err);
    if (code != ERR_OK)
        return code;
    listing->list.sight = access_sight_of(call, parts);
    listing->at_once = AT_ONCE;
    listing->filter.reach = &listing->reach;
    listing->more = true;
    listing->search = request.search;
    listing->which = request.filter;
    begin_before(listing);
    listing->limit = (uint32_t)request.limit;
    listing->until = engine_steady(call->engine) + SEARCH_MS_MAX;
    code = read_jobs(call, listing, err);
    call->result.bytes = listing->list.bytes;
    return code;
}

static void write_list(const struct verb_call *call, struct json_writer *writer)
{
    const struct listing *listing = call->result.data;
    json_begin_object(writer);
    listed_write(&listing->list, writer);
    cursor_write(writer, listing->more, listing->filter.before);
    json_end_object(writer);
}

const struct verb verb_list = {.request = &list_record, .run = run_list, .write = write_list};

/* ---- events ------------------------------------------------------------------------------- */

struct events_request {
    struct str id;
    int64_t after;
    struct str cursor; /* another name of after: what next_cursor said */
    struct str type;
    int64_t limit;
    bool telemetry;
    int64_t wait_ms;
};

static const struct record_field events_fields[] = {
    FIELD(events_request, id, TEXT),
    FIELD(events_request, after, INT),
    FIELD(events_request, cursor, TEXT),
    FIELD(events_request, type, TEXT),
    RANGE(events_request, limit, 1, STORE_EVENTS_MAX),
    FIELD(events_request, telemetry, BOOL),
    RANGE(events_request, wait_ms, 0, WAIT_MS_MAX),
};
RECORD_TABLE(events);

struct seen_events {
    struct store_job job;
    struct event *events;
    uint32_t count;
    int64_t next; /* the version, or the time, behind which to go on */
    bool more;    /* there may be more by now */
};

/* Leaves as many events as a response may have, and says of them where to go on; returns about how
 * long they are. */
static size_t cut_page(struct verb_result *result, bool *ret_cut)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < result->event_count; i++) {
        bytes += shown_event_bytes(&result->events[i]);
        *ret_cut = bytes >= PAGE_BYTES_MAX && i + 1 < result->event_count;
        if (*ret_cut)
            result->event_count = i + 1;
    }
    return bytes;
}

static void write_shown(const struct verb_call *call, struct json_writer *writer)
{
    json_key(writer, STR("events"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < call->result.event_count; i++)
        shown_event_write(&call->result.events[i], writer);
    json_end_array(writer);
}

/* Some at a time, until it is as much as a response may have. What the filter leaves out counts as
 * read: a response may have few events or none, and still say where to go on. */
static enum error_code read_events(struct store_txn *txn, struct store_stream stream,
                                   const struct event_filter *filter, struct arena *arena,
                                   struct seen_events *ret, struct err *err)
{
    uint32_t limit = stream.limit;
    uint32_t examined = 0;
    size_t bytes = 0;
    ret->count = 0;
    ret->more = true;
    ret->next = stream.after;
    ret->events = arena_zalloc(arena, limit, sizeof *ret->events);
    if (ret->events == NULL)
        return verb_no_memory(err);
    while (ret->more && ret->count < limit && bytes < PAGE_BYTES_MAX && examined < EXAMINED_MAX) {
        struct event *some = NULL;
        uint32_t count = 0;
        uint32_t at = 0;
        /* Of telemetry several may have the same time, by which it would go on. */
        uint32_t rest = filter->limited ? STORE_EVENTS_MAX : limit - ret->count;
        stream.limit = rest < AT_ONCE || stream.telemetry ? rest : AT_ONCE;
        enum error_code code = store_events(txn, &stream, arena, &some, &count, err);
        if (code != ERR_OK)
            return code;
        for (; at < count && ret->count < limit; at++) {
            if (event_filter_passes(filter, &some[at]))
                ret->events[ret->count++] = some[at];
            bytes += some[at].payload.len;
            stream.after = ret->next = stream.telemetry ? some[at].at : some[at].version;
        }
        examined += at;
        ret->more = at < count || count == stream.limit;
    }
    return ERR_OK;
}

static enum error_code look_at_events(struct verb_call *call, const struct store_stream *stream,
                                      const struct event_filter *filter, struct seen_events *ret,
                                      struct err *err)
{
    struct store_txn *txn;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = verb_load_job(call, txn, stream->job, false, &ret->job, err);
    if (code == ERR_OK)
        code = read_events(txn, *stream, filter, call->arena, ret, err);
    store_rollback(txn);
    return code;
}

/* Where to begin: after, or what next_cursor said. */
static enum error_code read_after(const struct events_request *request, int64_t *ret,
                                  struct err *err)
{
    *ret = request->after;
    if (!str_is_set(request->cursor))
        return ERR_OK;
    if (request->after != 0)
        return err_set(err, ERR_BAD_REQUEST, "after and cursor exclude each other");
    return json_int64(request->cursor, ret)
               ? ERR_OK
               : (enum error_code)err_set(
                     err, ERR_BAD_REQUEST,
                     "invalid cursor \"%.*s\": use next_cursor of an earlier response",
                     STR_ARG(request->cursor));
}

/* Shows what was seen. */
static enum error_code show_events(struct verb_call *call, struct seen_events *seen, bool telemetry,
                                   struct err *err)
{
    struct verb_result *result = &call->result;
    bool cut = false;
    struct shown_event *shown = arena_zalloc(call->arena, seen->count + (size_t)1, sizeof *shown);
    if (shown == NULL)
        return verb_no_memory(err);
    for (uint32_t i = 0; i < seen->count; i++) {
        shown[i].event = &seen->events[i];
        shown[i].traceparent = seen->job.slice.job.spec.traceparent;
    }
    result->events = shown;
    result->event_count = seen->count;
    result->bytes = cut_page(result, &cut);
    if (cut) {
        const struct event *last = shown[result->event_count - 1].event;
        seen->next = telemetry ? last->at : last->version;
        seen->more = true;
    }
    result->has_come = seen->count > 0;
    result->passed = seen->count == 0 && seen->more;
    result->next = (struct event_place){.set = true, .version = seen->next};
    return ERR_OK;
}

static enum error_code run_events(struct verb_call *call, struct err *err)
{
    struct events_request request = {.limit = EVENTS_DEFAULT};
    struct store_stream stream = {0};
    struct event_filter filter;
    struct seen_events *seen = verb_data(call, sizeof *seen);
    if (seen == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &events_record, &request, err);
    if (code == ERR_OK)
        code = verb_job_id(request.id, &stream.job, err);
    if (code == ERR_OK && !call->after.set)
        code = read_after(&request, &stream.after, err);
    if (code == ERR_OK)
        code = event_filter_read(request.type, call->arena, &filter, err);
    if (code != ERR_OK)
        return code;
    if (call->after.set)
        stream.after = call->after.version;
    stream.limit = (uint32_t)request.limit;
    stream.telemetry = request.telemetry;
    call->wait_ms = request.wait_ms;
    code = look_at_events(call, &stream, &filter, seen, err);
    return code == ERR_OK ? show_events(call, seen, request.telemetry, err) : code;
}

static void write_events(const struct verb_call *call, struct json_writer *writer)
{
    const struct seen_events *seen = call->result.data;
    char text[24];
    struct buf cursor = {.at = text, .cap = sizeof text};
    json_begin_object(writer);
    write_shown(call, writer);
    answer_int(writer, STR("next"), seen->next);
    buf_add_int(&cursor, seen->next);
    answer_text(writer, STR("next_cursor"), seen->more ? buf_str(&cursor) : (struct str){NULL, 0});
    json_end_object(writer);
}

const struct verb verb_events = {
    .request = &events_record, .run = run_events, .write = write_events};

/* ---- feed --------------------------------------------------------------------------------- */

struct feed_request {
    struct str after;
    struct str type;
    struct str kind;
    struct str queue;
    struct str job_id;
    int64_t limit;
    int64_t wait_ms;
};

static const struct record_field feed_fields[] = {
    FIELD(feed_request, after, TEXT),
    FIELD(feed_request, type, TEXT),
    FIELD(feed_request, kind, NAME),
    FIELD(feed_request, queue, NAME),
    FIELD(feed_request, job_id, TEXT),
    RANGE(feed_request, limit, 1, STORE_EVENTS_MAX),
    RANGE(feed_request, wait_ms, 0, WAIT_MS_MAX),
};
RECORD_TABLE(feed);

/* Which events of the feed a caller wants. */
struct feed_filter {
    struct event_filter types;
    struct str kind;
    struct str queue;
    struct uuid job;
    bool one_job;
};

/* A job that events of the feed are about. */
struct fed_job {
    struct str kind; /* absent: the job is not there any more */
    struct str queue;
    struct str traceparent;
};

/* Events of the feed, as far as the caller may see and wants them. */
struct feed_page {
    struct store_fed *fed;
    struct shown_event *shown;
    uint32_t count;
    struct store_position end; /* behind all that was read, seen or not */
    bool moved;                /* something was read */
};

static enum error_code read_feed_filter(struct verb_call *call, const struct feed_request *request,
                                        struct feed_filter *ret, struct err *err)
{
    *ret = (struct feed_filter){
        .kind = request->kind, .queue = request->queue, .one_job = str_is_set(request->job_id)};
    enum error_code code = event_filter_read(request->type, call->arena, &ret->types, err);
    if (code == ERR_OK && ret->one_job && !uuid_parse(request->job_id, &ret->job))
        code = err_set(err, ERR_BAD_REQUEST, "job_id: \"%.*s\" is not a job id",
                       STR_ARG(request->job_id));
    if (code == ERR_OK && str_is_set(ret->queue))
        code = access_check_queue(call->queues, ret->queue, err);
    return code;
}

static int by_job(const void *a, const void *b)
{
    const struct store_job *left = a;
    const struct store_job *right = b;
    return memcmp(left->id.bytes, right->id.bytes, sizeof left->id.bytes);
}

/* What the feed says of some jobs, which are sorted. */
static enum error_code read_fed_jobs(struct verb_call *call, struct store_job *jobs, uint32_t count,
                                     struct fed_job *ret, struct err *err)
{
    struct arena arena;
    enum error_code code = ERR_OK;
    arena_init(&arena);
    for (uint32_t at = 0; at < count && code == ERR_OK; at += AT_ONCE) {
        uint32_t some = count - at < AT_ONCE ? count - at : AT_ONCE;
        struct store_load load = {.jobs = jobs + at, .job_count = some};
        struct store_txn *txn;
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
        if (code != ERR_OK)
            break;
        code = store_load(txn, &load, &arena, err);
        store_rollback(txn);
        for (uint32_t i = at; i < at + some && code == ERR_OK; i++) {
            const struct job *job = &jobs[i].slice.job;
            if (job->status == JOB_NONE)
                continue;
            ret[i].kind = arena_copy(call->arena, job->spec.kind);
            ret[i].queue = arena_copy(call->arena, job->spec.queue);
            ret[i].traceparent = arena_copy(call->arena, job->spec.traceparent);
            if (!str_is_set(ret[i].kind) || !str_is_set(ret[i].queue) ||
                str_is_set(ret[i].traceparent) != str_is_set(job->spec.traceparent))
                code = verb_no_memory(err);
        }
        arena_clear(&arena);
    }
    arena_release(&arena);
    return code;
}

/* Leaves out what needs no look at jobs to be left out. */
static void drop_events(const struct feed_filter *filter, struct feed_page *page)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < page->count; i++) {
        const struct event *event = &page->fed[i].event;
        if (event_filter_passes(&filter->types, event) &&
            (!filter->one_job || uuid_eq(event->job_id, filter->job)))
            page->fed[kept++] = page->fed[i];
    }
    page->count = kept;
}

/* Whether an event of this job is for the caller. One that is not there any more is in no queue. */
static bool is_for(const struct verb_call *call, const struct feed_filter *filter,
                   const struct fed_job *job)
{
    bool there = str_is_set(job->queue);
    return (call->queues == NULL || (there && access_has_queue(call->queues, job->queue))) &&
           (!str_is_set(filter->queue) || str_eq(filter->queue, job->queue)) &&
           (!str_is_set(filter->kind) || str_eq(filter->kind, job->kind));
}

/* Shows the events but those of jobs that the call is not for. */
static enum error_code limit_feed(struct verb_call *call, const struct feed_filter *filter,
                                  struct feed_page *page, struct err *err)
{
    drop_events(filter, page);
    size_t room = page->count + (size_t)1;
    struct store_job *jobs = arena_zalloc(call->arena, room, sizeof *jobs);
    struct fed_job *seen = arena_zalloc(call->arena, room, sizeof *seen);
    uint32_t count = 0;
    uint32_t kept = 0;
    page->shown = arena_zalloc(call->arena, room, sizeof *page->shown);
    if (jobs == NULL || seen == NULL || page->shown == NULL)
        return verb_no_memory(err);
    for (uint32_t i = 0; i < page->count; i++)
        jobs[i].id = page->fed[i].event.job_id;
    qsort(jobs, page->count, sizeof *jobs, by_job);
    for (uint32_t i = 0; i < page->count; i++)
        if (count == 0 || by_job(&jobs[count - 1], &jobs[i]) != 0)
            jobs[count++].id = jobs[i].id;
    enum error_code code = read_fed_jobs(call, jobs, count, seen, err);
    for (uint32_t i = 0; i < page->count && code == ERR_OK; i++) {
        struct store_job wanted = {.id = page->fed[i].event.job_id};
        const struct store_job *job = bsearch(&wanted, jobs, count, sizeof *jobs, by_job);
        assert(job != NULL);
        const struct fed_job *known = &seen[job - jobs];
        if (is_for(call, filter, known))
            page->shown[kept++] = (struct shown_event){
                .event = &page->fed[i].event,
                .traceparent = known->traceparent,
                .fed = true,
                .kind = known->kind,
                .queue = known->queue,
                .position = page->fed[i].position,
            };
    }
    page->count = kept;
    return code;
}

/* Some at a time, as events of one job are read. */
static enum error_code read_feed(struct store_txn *txn, uint32_t limit, struct arena *arena,
                                 struct feed_page *page, struct err *err)
{
    size_t bytes = 0;
    bool more = true;
    page->fed = arena_zalloc(arena, limit, sizeof *page->fed);
    if (page->fed == NULL)
        return verb_no_memory(err);
    while (more && page->count < limit && bytes < PAGE_BYTES_MAX) {
        struct store_fed *some = NULL;
        uint32_t count = 0;
        uint32_t wanted = limit - page->count < AT_ONCE ? limit - page->count : AT_ONCE;
        enum error_code code = store_feed(txn, page->end, wanted, arena, &some, &count, err);
        if (code != ERR_OK)
            return code;
        for (uint32_t i = 0; i < count; i++) {
            some[i].position.era = page->end.era;
            page->fed[page->count++] = some[i];
            bytes += some[i].event.payload.len;
            page->end = some[i].position;
        }
        more = count == wanted;
    }
    return ERR_OK;
}

static enum error_code look_at_feed(struct verb_call *call, struct store_position after,
                                    uint32_t limit, const struct feed_filter *filter,
                                    struct feed_page *ret, struct err *err)
{
    struct store_txn *txn;
    *ret = (struct feed_page){.end = after};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = position_check(txn, after, &ret->end.era, err);
    if (code == ERR_OK)
        code = read_feed(txn, limit, call->arena, ret, err);
    store_rollback(txn);
    if (code != ERR_OK || ret->count == 0)
        return code;
    ret->moved = true;
    return limit_feed(call, filter, ret, err);
}

/* Whether there is anything behind all events of the transaction `major`; then *ret_major is the
 * next one that has some. */
static enum error_code is_behind(struct store_txn *txn, uint64_t major, bool *ret,
                                 uint64_t *ret_major, struct err *err)
{
    struct arena arena;
    struct store_fed *fed = NULL;
    uint32_t count = 0;
    struct store_position after = {.major = major, .minor = INT64_MAX};
    arena_init(&arena);
    enum error_code code = store_feed(txn, after, 1, &arena, &fed, &count, err);
    *ret = code == ERR_OK && count > 0;
    if (*ret)
        *ret_major = fed[0].position.major;
    arena_release(&arena);
    return code;
}

/* Finds the end of the feed, in steps that double as long as there is more, and then halve. */
static enum error_code find_feed_end(struct verb_call *call, struct store_position *ret,
                                     struct err *err)
{
    struct store_txn *txn;
    uint64_t low = 0;           /* the end is here or behind */
    uint64_t high = UINT64_MAX; /* there is nothing behind this */
    uint64_t era = 0;
    *ret = (struct store_position){0};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = position_check(txn, *ret, &era, err);
    for (uint64_t step = 1; code == ERR_OK && low < high;) {
        bool more;
        uint64_t probe = high == UINT64_MAX ? low + step : low + (high - low) / 2;
        if (low == 0 && step == 1)
            probe = 0;
        code = is_behind(txn, probe, &more, &low, err);
        if (!more)
            high = probe;
        step = step < INT64_MAX / 4 ? step * 2 : step;
    }
    store_rollback(txn);
    if (code == ERR_OK)
        *ret = (struct store_position){.major = low, .minor = low == 0 ? 0 : INT64_MAX, .era = era};
    return code;
}

/* Shows what was seen. */
static void show_feed(struct verb_result *result, const struct feed_page *page)
{
    bool cut = false;
    result->events = page->shown;
    result->event_count = page->count;
    result->bytes = cut_page(result, &cut);
    result->next = (struct event_place){
        .set = true, .position = cut ? page->shown[result->event_count - 1].position : page->end};
    result->has_come = page->count > 0;
    result->passed = page->moved && page->count == 0;
}

static enum error_code run_feed(struct verb_call *call, struct err *err)
{
    struct feed_request request = {.limit = EVENTS_DEFAULT};
    struct store_position after = call->after.position;
    struct feed_filter filter;
    struct feed_page page = {.moved = true};
    enum error_code code = verb_read(call, &feed_record, &request, err);
    bool now = !call->after.set && str_eq(request.after, STR("now"));
    if (code == ERR_OK)
        code = read_feed_filter(call, &request, &filter, err);
    if (code == ERR_OK && !now && !call->after.set)
        code = position_read(request.after, &after, err);
    if (code != ERR_OK)
        return code;
    call->wait_ms = request.wait_ms;
    /* "now": tells where the feed ends, to go on from there. */
    code = now ? find_feed_end(call, &page.end, err)
               : look_at_feed(call, after, (uint32_t)request.limit, &filter, &page, err);
    show_feed(&call->result, &page);
    call->result.has_come = call->result.has_come || now;
    return code;
}

static void write_feed(const struct verb_call *call, struct json_writer *writer)
{
    json_begin_object(writer);
    write_shown(call, writer);
    position_write(writer, STR("next"), call->result.next.position);
    json_end_object(writer);
}

const struct verb verb_feed = {.request = &feed_record, .run = run_feed, .write = write_feed};
