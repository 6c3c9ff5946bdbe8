/* What is in a store, as texts that a test can compare. */
#include <time.h>

#include "core/job_state.h"
#include "store/fixture.h"

static const char *text(struct buf *buf)
{
    buf_add_char(buf, '\0');
    assert_false(buf->failed);
    return buf->at;
}

static struct buf empty(struct trial *t)
{
    struct buf buf;
    buf_init(&buf, &t->w.arena, 256);
    return buf;
}

static void add_word(struct buf *buf, const char *word)
{
    if (buf->len > 0 && buf->at[buf->len - 1] != '\n')
        buf_add_char(buf, ' ');
    buf_add(buf, str_from(word));
}

static long long seconds(int64_t time_ms)
{
    return (long long)((time_ms - WORLD_START_MS) / 1000);
}

const char *name_of(struct trial *t, struct uuid id, uint32_t step)
{
    struct buf buf = empty(t);
    uint32_t i = 0;
    while (i < t->job_count && !uuid_eq(t->ids[i], id))
        i++;
    buf_add(&buf, i < t->job_count ? t->names[i] : STR("?"));
    if (step != STEP_NONE)
        buf_addf(&buf, ".%u", step);
    return text(&buf);
}

struct job_slice whole(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_READ);
    struct job_slice slice = load_whole(t, txn, id);
    rollback(t, txn);
    return slice;
}

static int by_version(const void *a, const void *b)
{
    int64_t left = ((const struct effect *)a)->version;
    int64_t right = ((const struct effect *)b)->version;
    return (left > right) - (left < right);
}

struct str row_of(struct trial *t, const struct job_slice *slice)
{
    /* An effect that is begun again after a fresh start keeps its place in a fold; stores sort. */
    struct job_slice sorted = *slice;
    struct buf buf = empty(t);
    if (slice->effect_count > 0) {
        size_t size = slice->effect_count * sizeof *slice->effects;
        sorted.effects = arena_alloc(&t->w.arena, size);
        assert_non_null(sorted.effects);
        memcpy(sorted.effects, slice->effects, size);
        qsort(sorted.effects, sorted.effect_count, sizeof *sorted.effects, by_version);
    }
    job_row_write(&sorted, &buf);
    assert_false(buf.failed);
    return buf_str(&buf);
}

void assert_same_row_(struct trial *t, const struct job_slice *a, const struct job_slice *b,
                      const char *file, int line)
{
    struct str left = row_of(t, a);
    struct str right = row_of(t, b);
    if (str_eq(left, right))
        return;
    print_error("%.*s\n  is not\n%.*s\n", (int)left.len, left.at, (int)right.len, right.at);
    _fail(file, line);
}

const char *ready(struct trial *t)
{
    struct buf buf = empty(t);
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_search search = search_all(t, txn, 1000);
    rollback(t, txn);
    for (uint32_t i = 0; i < search.found_count; i++)
        add_word(&buf, name_of(t, search.found[i].slice.job.id, search.found[i].step));
    return text(&buf);
}

static void add_due(struct trial *t, struct buf *buf, const struct store_due *one)
{
    if (one->what == DUE_RESOURCE) {
        add_word(buf, "resource:");
        buf_add(buf, one->resource_id);
    } else {
        add_word(buf, one->what == DUE_PURGE ? "purge:" : "");
        buf_add(buf, str_from(name_of(t, one->job, one->step)));
    }
    buf_addf(buf, "@%lld", seconds(one->at));
}

const char *due_at_most(struct trial *t, uint32_t limit)
{
    struct buf buf = empty(t);
    struct store_due *list;
    uint32_t count;
    int64_t now;
    int64_t next;
    ok(t, store_due(t->store, limit, &t->w.arena, &list, &count, &now, &next, &t->w.err));
    assert_true(now == t->now);
    for (int what = DUE_JOB; what <= DUE_RESOURCE; what++) {
        int64_t last = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (list[i].what != (enum store_due_what)what)
                continue;
            assert_true(list[i].at >= last && list[i].at <= now);
            last = list[i].at;
            add_due(t, &buf, &list[i]);
        }
    }
    return text(&buf);
}

const char *due(struct trial *t)
{
    return due_at_most(t, 100);
}

int64_t next_due(struct trial *t)
{
    struct store_due *list;
    uint32_t count;
    int64_t now;
    int64_t next;
    ok(t, store_due(t->store, 100, &t->w.arena, &list, &count, &now, &next, &t->w.err));
    return next;
}

const char *queues(struct trial *t)
{
    struct buf buf = empty(t);
    struct store_queue_count *rows;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_queues(txn, &t->w.arena, &rows, &count, &t->w.err));
    rollback(t, txn);
    for (uint32_t i = 0; i < count; i++) {
        buf_addf(&buf, "%s%.*s %.*s %lld", i > 0 ? ", " : "", STR_ARG(rows[i].queue),
                 STR_ARG(job_status_name(rows[i].status)), (long long)rows[i].count);
        if (rows[i].oldest_at != 0)
            buf_addf(&buf, "@%lld", seconds(rows[i].oldest_at));
    }
    return text(&buf);
}

const char *workers(struct trial *t)
{
    struct buf buf = empty(t);
    struct store_worker *rows;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_workers(txn, NULL, &t->w.arena, &rows, &count, &t->w.err));
    rollback(t, txn);
    assert_in_range(count, 0, STORE_WORKERS_MAX);
    for (uint32_t i = 0; i < count; i++)
        buf_addf(&buf, "%s%.*s%s%.*s %lld beat %lld ends %lld", i > 0 ? ", " : "",
                 STR_ARG(rows[i].worker_id), str_is_set(rows[i].resource_id) ? "/" : "",
                 STR_ARG(rows[i].resource_id), (long long)rows[i].leases, seconds(rows[i].beat_at),
                 seconds(rows[i].expires_at));
    return text(&buf);
}

const char *step_counts(struct trial *t)
{
    struct buf buf = empty(t);
    int64_t counts[STEP_STATE_COUNT];
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_step_counts(txn, counts, &t->w.err));
    rollback(t, txn);
    for (int i = 0; i < STEP_STATE_COUNT; i++)
        if (counts[i] != 0)
            buf_addf(&buf, "%s%.*s %lld", buf.len > 0 ? ", " : "",
                     STR_ARG(step_state_name((enum step_state)i)), (long long)counts[i]);
    return text(&buf);
}

const char *resources(struct trial *t)
{
    struct buf buf = empty(t);
    struct resource *rows;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_resources(txn, &t->w.arena, &rows, &count, &t->w.err));
    rollback(t, txn);
    assert_in_range(count, 0, STORE_RESOURCES_MAX);
    for (uint32_t i = 0; i < count; i++)
        buf_addf(&buf, "%s%.*s %lld/%lld", i > 0 ? ", " : "", STR_ARG(rows[i].id),
                 (long long)rows[i].used, (long long)rows[i].slots);
    return text(&buf);
}

const char *asking(struct trial *t)
{
    struct buf buf = empty(t);
    struct store_filter filter = {.asking = true, .limit = STORE_LIST_MAX};
    struct store_job *jobs;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    rollback(t, txn);
    for (uint32_t i = 0; i < count; i++)
        add_word(&buf, name_of(t, jobs[i].id, STEP_NONE));
    return text(&buf);
}

static void add_stream(struct trial *t, struct store_txn *txn, struct uuid id, struct buf *buf)
{
    struct event *events;
    uint32_t count;
    ok(t, store_events(txn,
                       &(struct store_stream){
                           .job = id, .after = 0, .limit = STORE_EVENTS_MAX, .telemetry = false},
                       &t->w.arena, &events, &count, &t->w.err));
    for (uint32_t i = 0; i < count; i++) {
        ok(t, event_open(&events[i], 1, &t->w.arena, &t->w.err));
        add_word(buf, "");
        buf_add(buf, event_name(&events[i]));
        if (str_is_set(events[i].data.step)) {
            buf_add_char(buf, ':');
            buf_add(buf, events[i].data.step);
        }
    }
}

const char *stream(struct trial *t, struct uuid id)
{
    struct buf buf = empty(t);
    struct store_txn *txn = begin(t, STORE_READ);
    add_stream(t, txn, id, &buf);
    rollback(t, txn);
    return text(&buf);
}

static void add_jobs(struct trial *t, struct store_txn *txn, struct buf *buf)
{
    struct store_filter filter = {.limit = STORE_LIST_MAX};
    struct store_job *jobs;
    uint32_t count;
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    for (uint32_t i = 0; i < count; i++) {
        struct job_slice slice = load_rest(t, txn, &jobs[i].slice);
        buf_add(buf, row_of(t, &slice));
        buf_add(buf, jobs[i].redacted ? STR(" redacted\n") : STR("\n"));
        add_stream(t, txn, jobs[i].id, buf);
        struct event *events;
        uint32_t beats;
        ok(t, store_events(
                  txn,
                  &(struct store_stream){
                      .job = jobs[i].id, .after = 0, .limit = STORE_EVENTS_MAX, .telemetry = true},
                  &t->w.arena, &events, &beats, &t->w.err));
        uint32_t kept = 0;
        for (uint32_t b = 0; b < beats; b++)
            kept += events[b].type != EVENT_JOB_LEASE_RENEWED; /* which need not be */
        buf_addf(buf, "\nbeats %u\n", kept);
    }
}

static void add_settings(struct trial *t, const struct store_load *load, struct buf *buf)
{
    for (uint32_t i = 0; i < load->kind_count; i++) {
        buf_addf(buf, "kind %.*s ", STR_ARG(load->kinds[i].kind));
        kind_settings_write(&load->kinds[i].settings, buf);
        buf_add_char(buf, '\n');
    }
    for (uint32_t i = 0; i < load->paused.count; i++)
        buf_addf(buf, "paused %.*s\n", STR_ARG(load->paused.at[i]));
    for (uint32_t i = 0; i < load->request_count; i++)
        if (load->requests[i].found)
            buf_addf(buf, "request %.*s %lld %.*s\n", STR_ARG(load->requests[i].key),
                     (long long)load->requests[i].record.at,
                     STR_ARG(load->requests[i].record.answer));
    for (uint32_t i = 0; i < load->resource_count; i++)
        if (load->resources[i].found) {
            buf_addf(buf, "resource used %lld ", (long long)load->resources[i].resource.used);
            resource_state_write(&load->resources[i].resource, buf);
            buf_add_char(buf, '\n');
        }
    (void)t;
}

/* ---- the feed ---- */

/* Events of all jobs that are there. */
static int64_t count_events(struct trial *t, struct store_txn *txn)
{
    struct store_filter filter = {.limit = STORE_LIST_MAX};
    int64_t events = 0;
    for (;;) {
        struct store_job *jobs;
        uint32_t count;
        ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
        for (uint32_t i = 0; i < count; i++)
            events += jobs[i].slice.job.version;
        if (count < filter.limit)
            return events;
        filter.before = jobs[count - 1].id;
    }
}

static int64_t count_fed(struct trial *t, struct store_txn *txn)
{
    struct store_position position = {0};
    int64_t events = 0;
    for (;;) {
        struct store_fed *fed;
        uint32_t count;
        ok(t, store_feed(txn, position, STORE_EVENTS_MAX, &t->w.arena, &fed, &count, &t->w.err));
        events += count;
        if (count < STORE_EVENTS_MAX)
            return events;
        position = fed[count - 1].position;
    }
}

void settle_feed(struct trial *t)
{
    enum { TRIES = 10 * 1000 };
    for (int i = 0; i < TRIES; i++) {
        struct store_txn *txn = begin(t, STORE_READ);
        bool is_late = count_fed(t, txn) < count_events(t, txn);
        rollback(t, txn);
        if (!is_late)
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 3 * 1000 * 1000}, NULL);
    }
    fail_msg("the feed does not show all that was committed");
}

static void add_feed(struct trial *t, struct store_txn *txn, struct buf *buf)
{
    struct store_fed *fed;
    uint32_t count;
    ok(t, store_feed(txn, (struct store_position){0}, STORE_EVENTS_MAX, &t->w.arena, &fed, &count,
                     &t->w.err));
    for (uint32_t i = 0; i < count; i++)
        buf_addf(buf, "%s %lld ", name_of(t, fed[i].event.job_id, STEP_NONE),
                 (long long)fed[i].event.version);
}

const char *everything(struct trial *t)
{
    struct buf buf = empty(t);
    struct store_key key = {.queue = STR("default"), .key = STR("k")};
    struct store_request request = {.scope = STR("s"), .key = STR("k")};
    struct store_resource resource = {.id = STR("r1")};
    struct store_load load = {
        .keys = &key,
        .key_count = 1,
        .requests = &request,
        .request_count = 1,
        .resources = &resource,
        .resource_count = 1,
    };
    settle_feed(t);
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    add_jobs(t, txn, &buf);
    add_settings(t, &load, &buf);
    if (key.slice.job.status != JOB_NONE)
        buf_addf(&buf, "key %s\n", name_of(t, key.slice.job.id, STEP_NONE));
    add_feed(t, txn, &buf);
    rollback(t, txn);
    buf_addf(&buf, "\nready %s\nqueues %s\nworkers %s\nsteps %s\n", ready(t), queues(t), workers(t),
             step_counts(t));
    buf_addf(&buf, "resources %s\nasking %s\n", resources(t), asking(t));
    /* Timers are due one day. */
    int64_t now = t->now;
    t->now = at(100 * 24 * 3600);
    buf_addf(&buf, "due %s\nnext %lld\n", due(t), (long long)next_due(t));
    t->now = now;
    return text(&buf);
}
