#include "store/trace.h"
#include "store/store_driver.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* So many names of a sort are told; of the others how many there are. */
enum { NAMES_SHOWN = 3 };

struct trace_store {
    struct store base;
    struct store *inner;
    store_trace_sink sink;
    void *arg;
    atomic_uint_fast64_t transactions;
};

struct trace_txn {
    struct store_txn base;
    struct store_txn *inner;
    uint64_t number;
};

/* ---- lines ---- */

struct line {
    const struct trace_store *store;
    int64_t started_ns;
    size_t len;
    char text[STORE_TRACE_LINE_MAX];
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void __attribute__((format(printf, 2, 3))) add(struct line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int written = vsnprintf(line->text + line->len, sizeof line->text - line->len, format, args);
    va_end(args);
    if (written < 0)
        return;
    size_t room = sizeof line->text - line->len - 1;
    line->len += (size_t)written < room ? (size_t)written : room;
}

static void add_job(struct line *line, struct uuid id)
{
    char text[UUID_TEXT_LEN];
    uuid_format(id, text);
    add(line, " %.*s", UUID_TEXT_LEN, text);
}

static void add_rest(struct line *line, uint32_t count)
{
    if (count > NAMES_SHOWN)
        add(line, " and %u more", count - NAMES_SHOWN);
}

static void line_begin(struct line *line, const struct trace_store *store)
{
    line->store = store;
    line->len = 0;
    line->text[0] = '\0';
    line->started_ns = now_ns();
}

static struct trace_txn *txn_begin(struct line *line, struct store_txn *handle, const char *verb)
{
    struct trace_txn *txn = (struct trace_txn *)handle;
    line_begin(line, (const struct trace_store *)handle->store);
    add(line, "#%llu %s", (unsigned long long)txn->number, verb);
    return txn;
}

/* What came of it: `what` was found, where it is about finding something. */
static enum error_code line_end(struct line *line, enum error_code code, const struct err *err,
                                uint32_t found, const char *what)
{
    if (code != ERR_OK)
        add(line, ": %s (%s)", error_info(code)->name,
            err == NULL || err->code != code ? "" : err->detail);
    else if (what != NULL)
        add(line, ": ok, %u %s", found, what);
    else
        add(line, ": ok");
    add(line, ", %lld us", (long long)((now_ns() - line->started_ns) / 1000));
    line->store->sink(line->store->arg, (struct str){line->text, line->len});
    return code;
}

/* ---- transactions ---- */

static void trace_close(struct store *handle)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    line_begin(&line, store);
    add(&line, "close");
    store_close(store->inner);
    line_end(&line, ERR_OK, NULL, 0, NULL);
    free(store);
}

static enum error_code trace_begin(struct store *handle, enum store_mode mode,
                                   struct store_txn **ret, struct err *err)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    line_begin(&line, store);
    struct trace_txn *txn = malloc(sizeof *txn);
    if (txn == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is not enough memory for a transaction");
    *txn = (struct trace_txn){.base = {.store = handle, .mode = mode},
                              .number = ++store->transactions};
    add(&line, "#%llu begin %s", (unsigned long long)txn->number,
        mode == STORE_READ ? "reading" : "writing");
    enum error_code code = store_begin(store->inner, mode, &txn->inner, err);
    line_end(&line, code, err, 0, NULL);
    if (code != ERR_OK) {
        free(txn);
        return code;
    }
    *ret = &txn->base;
    return ERR_OK;
}

static enum error_code trace_commit(struct store_txn *handle, enum store_outcome *outcome,
                                    struct err *err)
{
    static const char *const outcomes[] = {
        [STORE_COMMITTED] = "",
        [STORE_NOT_COMMITTED] = " (not committed)",
        [STORE_UNKNOWN] = " (nobody knows)",
    };
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "commit");
    enum error_code code = store_commit(txn->inner, outcome, err);
    add(&line, "%s", outcomes[*outcome]);
    line_end(&line, code, err, 0, NULL);
    free(txn);
    return code;
}

static void trace_rollback(struct store_txn *handle)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "rollback");
    store_rollback(txn->inner);
    line_end(&line, ERR_OK, NULL, 0, NULL);
    free(txn);
}

/* ---- loading ---- */

static void add_load(struct line *line, const struct store_load *load)
{
    for (uint32_t i = 0; i < load->job_count && i < NAMES_SHOWN; i++) {
        add(line, i == 0 ? " job" : "");
        add_job(line, load->jobs[i].id);
    }
    add_rest(line, load->job_count);
    for (uint32_t i = 0; i < load->key_count && i < NAMES_SHOWN; i++)
        add(line, " key %.*s/%.*s", STR_ARG(load->keys[i].queue), STR_ARG(load->keys[i].key));
    add_rest(line, load->key_count);
    for (uint32_t i = 0; i < load->request_count && i < NAMES_SHOWN; i++)
        add(line, " request %.*s/%.*s", STR_ARG(load->requests[i].scope),
            STR_ARG(load->requests[i].key));
    add_rest(line, load->request_count);
    for (uint32_t i = 0; i < load->resource_count && i < NAMES_SHOWN; i++)
        add(line, " resource %.*s", STR_ARG(load->resources[i].id));
    add_rest(line, load->resource_count);
    for (uint32_t i = 0; i < load->registration_count && i < NAMES_SHOWN; i++)
        add(line, " worker %.*s", STR_ARG(load->registrations[i].id));
    add_rest(line, load->registration_count);
}

static enum error_code trace_load(struct store_txn *handle, struct store_load *load,
                                  struct arena *arena, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "load");
    add_load(&line, load);
    enum error_code code = store_load(txn->inner, load, arena, err);
    uint32_t found = 0;
    for (uint32_t i = 0; code == ERR_OK && i < load->job_count; i++)
        found += load->jobs[i].slice.job.status != JOB_NONE;
    return line_end(&line, code, err, found, load->job_count > 0 ? "jobs" : NULL);
}

static enum error_code trace_load_parts(struct store_txn *handle, struct store_parts *parts,
                                        uint32_t count, struct arena *arena, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "load_parts");
    for (uint32_t i = 0; i < count && i < NAMES_SHOWN; i++) {
        add(&line, i == 0 ? " job" : "");
        add_job(&line, parts[i].job);
    }
    add_rest(&line, count);
    enum error_code code = store_load_parts(txn->inner, parts, count, arena, err);
    uint32_t found = 0;
    for (uint32_t i = 0; code == ERR_OK && i < count; i++)
        found += parts[i].step_count + parts[i].effect_count + parts[i].signal_count;
    return line_end(&line, code, err, found, "parts");
}

/* ---- finding work ---- */

static enum error_code trace_lanes(struct store_txn *handle, uint32_t after, struct arena *arena,
                                   struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "lanes");
    uint32_t count = 0;
    add(&line, " after %u", after);
    enum error_code code = store_lanes(txn->inner, after, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "lanes");
}

static enum error_code trace_candidates(struct store_txn *handle, struct store_search *searches,
                                        uint32_t count, struct arena *arena, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "candidates");
    for (uint32_t i = 0; i < count && i < NAMES_SHOWN; i++) {
        const struct store_search *search = &searches[i];
        uint32_t groups = search->group_count;
        add(&line, " %u of %u lanes in %u groups", search->max,
            groups > 0 ? search->group_ends[groups - 1] : 0, groups);
    }
    add_rest(&line, count);
    enum error_code code = store_candidates(txn->inner, searches, count, arena, err);
    uint32_t found = 0;
    for (uint32_t i = 0; code == ERR_OK && i < count; i++)
        found += searches[i].found_count;
    return line_end(&line, code, err, found, "found");
}

static enum error_code trace_promote(struct store_txn *handle, uint32_t limit, uint32_t *ret_count,
                                     struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "promote");
    uint32_t count = 0;
    add(&line, " at most %u", limit);
    enum error_code code = store_promote(txn->inner, limit, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "promoted");
}

static enum error_code trace_admit(struct store_txn *handle, const struct store_admission *wanted,
                                   struct arena *arena, struct store_submission **ret,
                                   uint32_t *ret_count, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "admit");
    uint32_t count = 0;
    add(&line, " at most %u", wanted->limit);
    enum error_code code = store_admit(txn->inner, wanted, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "admitted");
}

/* ---- writing ---- */

static void add_job_write(struct line *line, const struct store_job_write *write)
{
    add(line, " job");
    add_job(line, write->after->job.id);
    if (write->created)
        add(line, " created");
    if (store_row_same(write->changed))
        add(line, " row same");
    for (uint32_t i = 0; i < write->event_count && i < NAMES_SHOWN; i++)
        add(line, " %.*s", STR_ARG(event_name(&write->events[i])));
    add_rest(line, write->event_count);
    uint32_t parts = write->effect_count + write->signal_count + write->step_count;
    if (parts > 0)
        add(line, " %u parts", parts);
    if (write->plan_replaced || write->steps_closed || write->steps_ended)
        add(line, " steps %s",
            write->plan_replaced ? "replaced" : (write->steps_ended ? "ended" : "closed"));
    if (write->redact)
        add(line, " redact");
}

static enum error_code trace_write(struct store_txn *handle, const struct store_write *write,
                                   struct err *err)
{
    const struct {
        uint32_t count;
        const char *what;
    } others[] = {
        {write->request_count, "requests"},       {write->resource_count, "resources"},
        {write->resource_gone_count, "gone"},     {write->kind_count, "kinds"},
        {write->queue_count, "queues"},           {write->token_count, "tokens"},
        {write->token_gone_count, "tokens gone"}, {write->purged_count, "purged"},
        {write->registration_count, "workers"},   {write->registration_gone_count, "workers gone"},
        {write->renewal_count, "renewals"},
    };
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "write");
    for (uint32_t i = 0; i < write->job_count && i < NAMES_SHOWN; i++)
        add_job_write(&line, &write->jobs[i]);
    add_rest(&line, write->job_count);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].count > 0)
            add(&line, " %u %s", others[i].count, others[i].what);
    return line_end(&line, store_write(txn->inner, write, err), err, 0, NULL);
}

/* ---- timers, reading, watching ---- */

static enum error_code trace_due(struct store *handle, uint32_t limit, struct arena *arena,
                                 struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                                 int64_t *ret_next, struct err *err)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    uint32_t count = 0;
    line_begin(&line, store);
    add(&line, "due at most %u", limit);
    enum error_code code =
        store_due(store->inner, limit, arena, ret, &count, ret_now, ret_next, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "due");
}

static void add_filter(struct line *line, const struct store_filter *filter)
{
    static const struct uuid none;
    const struct {
        const char *name;
        struct str text;
    } texts[] = {
        {"kind", filter->kind},         {"queue", filter->queue},
        {"agent_id", filter->agent_id}, {"correlation_id", filter->correlation_id},
        {"label", filter->label_key},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (str_is_set(texts[i].text))
            add(line, " %s %.*s", texts[i].name, STR_ARG(texts[i].text));
    if (filter->statuses != 0)
        add(line, " statuses %#x", filter->statuses);
    if (filter->asking)
        add(line, " asking");
    if (!uuid_eq(filter->before, none)) {
        add(line, " before");
        add_job(line, filter->before);
    }
}

static enum error_code trace_list(struct store_txn *handle, const struct store_filter *filter,
                                  struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                                  struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "list");
    uint32_t count = 0;
    add_filter(&line, filter);
    enum error_code code = store_list(txn->inner, filter, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "jobs");
}

static enum error_code trace_events(struct store_txn *handle, const struct store_stream *stream,
                                    struct arena *arena, struct event **ret, uint32_t *ret_count,
                                    struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, stream->telemetry ? "telemetry" : "events");
    uint32_t count = 0;
    add(&line, " job");
    add_job(&line, stream->job);
    add(&line, " after %lld", (long long)stream->after);
    enum error_code code = store_events(txn->inner, stream, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "events");
}

static enum error_code trace_feed(struct store_txn *handle, struct store_position after,
                                  uint32_t limit, struct arena *arena, struct store_fed **ret,
                                  uint32_t *ret_count, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "feed");
    uint32_t count = 0;
    add(&line, " after %llu.%llu", (unsigned long long)after.major,
        (unsigned long long)after.minor);
    enum error_code code = store_feed(txn->inner, after, limit, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "events");
}

static enum error_code trace_feed_state(struct store_txn *handle, struct store_position after,
                                        struct store_feed_state *ret, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "feed_state");
    add(&line, " after %llu.%llu", (unsigned long long)after.major,
        (unsigned long long)after.minor);
    return line_end(&line, store_feed_state(txn->inner, after, ret, err), err, 0, NULL);
}

static enum error_code trace_watch(struct store *handle, uint64_t seen, int64_t wait_ms,
                                   uint64_t *ret_seen, struct err *err)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    line_begin(&line, store);
    add(&line, "watch for %lld ms", (long long)wait_ms);
    return line_end(&line, store_watch(store->inner, seen, wait_ms, ret_seen, err), err, 0, NULL);
}

static enum error_code trace_leases_on(struct store_txn *handle, struct str resource_id,
                                       struct arena *arena, struct store_lease **ret,
                                       uint32_t *ret_count, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "leases_on");
    uint32_t count = 0;
    add(&line, " %.*s", STR_ARG(resource_id));
    enum error_code code = store_leases_on(txn->inner, resource_id, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "leases");
}

static enum error_code trace_queues(struct store_txn *handle, struct arena *arena,
                                    struct store_queue_count **ret, uint32_t *ret_count,
                                    struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "queues");
    uint32_t count = 0;
    enum error_code code = store_queues(txn->inner, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "counts");
}

static enum error_code trace_workers(struct store_txn *handle, const struct names *queues,
                                     struct arena *arena, struct store_worker **ret,
                                     uint32_t *ret_count, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "workers");
    uint32_t count = 0;
    enum error_code code = store_workers(txn->inner, queues, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "workers");
}

static enum error_code trace_registrations(struct store_txn *handle, struct arena *arena,
                                           struct worker **ret, uint32_t *ret_count,
                                           struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "registrations");
    uint32_t count = 0;
    enum error_code code = store_registrations(txn->inner, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "workers");
}

static enum error_code trace_registration_count(struct store_txn *handle, int64_t *ret,
                                                struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "registration_count");
    enum error_code code = store_registration_count(txn->inner, ret, err);
    return line_end(&line, code, err, code == ERR_OK ? (uint32_t)*ret : 0, "workers");
}

static enum error_code trace_step_counts(struct store_txn *handle, int64_t ret[STEP_STATE_COUNT],
                                         struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "step_counts");
    enum error_code code = store_step_counts(txn->inner, ret, err);
    uint32_t count = code == ERR_OK ? STEP_STATE_COUNT : 0;
    return line_end(&line, code, err, count, "counts");
}

static enum error_code trace_resources(struct store_txn *handle, struct arena *arena,
                                       struct resource **ret, uint32_t *ret_count, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "resources");
    uint32_t count = 0;
    enum error_code code = store_resources(txn->inner, arena, ret, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "resources");
}

static enum error_code trace_tokens(struct store_txn *handle, struct store_tokens *tokens,
                                    struct arena *arena, struct err *err)
{
    struct line line;
    struct trace_txn *txn = txn_begin(&line, handle, "tokens");
    enum error_code code = store_tokens(txn->inner, tokens, arena, err);
    return line_end(&line, code, err, code == ERR_OK ? tokens->count : 0, "tokens");
}

static enum error_code trace_backup(struct store *handle, struct str path, int64_t *ret_bytes,
                                    struct err *err)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    int64_t bytes = 0;
    line_begin(&line, store);
    add(&line, "backup to %.*s", STR_ARG(path));
    enum error_code code = store_backup(store->inner, path, &bytes, err);
    if (code == ERR_OK) {
        add(&line, " of %lld bytes", (long long)bytes);
        *ret_bytes = bytes;
    }
    return line_end(&line, code, err, 0, NULL);
}

static enum error_code trace_sweep(struct store *handle, int64_t now, uint32_t limit,
                                   uint32_t *ret_count, struct err *err)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    uint32_t count = 0;
    line_begin(&line, store);
    add(&line, "sweep at most %u", limit);
    enum error_code code = store_sweep(store->inner, now, limit, &count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return line_end(&line, code, err, count, "swept");
}

static enum error_code trace_attend(struct store *handle, struct store_attendance *attendance,
                                    struct err *err)
{
    struct trace_store *store = (struct trace_store *)handle;
    struct line line;
    line_begin(&line, store);
    add(&line, "attend");
    enum error_code code = store_attend(store->inner, attendance, err);
    return line_end(&line, code, err, code == ERR_OK, "noted");
}

static const struct store_driver trace_driver = {
    .name = "trace",
    .close = trace_close,
    .begin = trace_begin,
    .load = trace_load,
    .load_parts = trace_load_parts,
    .lanes = trace_lanes,
    .candidates = trace_candidates,
    .promote = trace_promote,
    .admit = trace_admit,
    .write = trace_write,
    .commit = trace_commit,
    .rollback = trace_rollback,
    .due = trace_due,
    .list = trace_list,
    .events = trace_events,
    .feed = trace_feed,
    .feed_state = trace_feed_state,
    .watch = trace_watch,
    .leases_on = trace_leases_on,
    .queues = trace_queues,
    .workers = trace_workers,
    .step_counts = trace_step_counts,
    .resources = trace_resources,
    .registrations = trace_registrations,
    .registration_count = trace_registration_count,
    .tokens = trace_tokens,
    .backup = trace_backup,
    .sweep = trace_sweep,
    .attend = trace_attend,
};

enum error_code store_trace(struct store *inner, store_trace_sink sink, void *arg,
                            struct store **ret, struct err *err)
{
    struct trace_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is not enough memory to trace a store");
    store->base = *inner;
    store->base.driver = &trace_driver;
    store->inner = inner;
    store->sink = sink;
    store->arg = arg;
    *ret = &store->base;
    return ERR_OK;
}
