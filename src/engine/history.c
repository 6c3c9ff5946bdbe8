#include "engine/history.h"

/* Adds a page to what is there. */
static enum error_code add_page(struct verb_call *call, struct history *history,
                                const struct event *page, uint32_t count, uint32_t *cap,
                                struct err *err)
{
    if (history->count + count > *cap) {
        uint32_t wanted = (history->count + count) * 2;
        struct event *events = arena_grow(call->arena, history->events, *cap * sizeof *events,
                                          wanted * sizeof *events);
        if (events == NULL)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        history->events = events;
        *cap = wanted;
    }
    if (count > 0)
        memcpy(history->events + history->count, page, count * sizeof *page);
    history->count += count;
    return ERR_OK;
}

static enum error_code read_all(struct verb_call *call, struct store_txn *txn, struct uuid id,
                                struct history *history, struct err *err)
{
    struct store_stream stream = {.job = id, .limit = STORE_EVENTS_MAX};
    uint32_t count = stream.limit;
    uint32_t cap = 0;
    enum error_code code = verb_load_job(call, txn, id, true, &history->job, err);
    while (code == ERR_OK && count == stream.limit) {
        struct event *page;
        code = store_events(txn, &stream, call->arena, &page, &count, err);
        if (code == ERR_OK)
            code = add_page(call, history, page, count, &cap, err);
        if (code == ERR_OK && count > 0)
            stream.after = page[count - 1].version;
    }
    return code;
}

enum error_code history_load(struct verb_call *call, struct uuid id, struct history *ret,
                             struct err *err)
{
    struct store_txn *txn;
    struct history history = {0};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = read_all(call, txn, id, &history, err);
    store_rollback(txn);
    if (code == ERR_OK)
        *ret = history;
    return code;
}

static enum error_code note_unreadable(struct verb_call *call, struct event *event,
                                       const struct err *why, struct history_report *report,
                                       struct err *err)
{
    if (report->unreadable_count == VIOLATIONS_MAX)
        return ERR_OK;
    if (report->unreadable == NULL)
        report->unreadable = arena_zalloc(call->arena, VIOLATIONS_MAX, sizeof *report->unreadable);
    struct str detail = arena_copy(call->arena, str_from(why->detail));
    if (report->unreadable == NULL || !str_is_set(detail))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    report->unreadable[report->unreadable_count++] =
        (struct violation){.rule = VERIFY_FOLD, .version = event->version, .detail = detail};
    /* What is left of it can still be held against its neighbours. */
    event->data = (struct event_data){0};
    return ERR_OK;
}

static enum error_code open_all(struct verb_call *call, struct history *history, uint64_t seed,
                                struct history_report *report, struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < history->count && code == ERR_OK; i++) {
        struct err why = {0};
        code = event_open(&history->events[i], seed, call->arena, &why);
        if (code == ERR_CORRUPT)
            code = note_unreadable(call, &history->events[i], &why, report, err);
        else if (code != ERR_OK)
            code = err_set(err, code, "%s", why.detail);
    }
    return code;
}

enum error_code history_verify(struct verb_call *call, struct uuid id, struct history *history,
                               struct history_report *ret, struct err *err)
{
    struct history_report report = {0};
    struct verify_input input = {
        .id = id,
        .salt = history->job.slice.job.redacted ? NULL : history->job.slice.job.salt,
        .row = &history->job.slice,
        .seed = engine_store(call->engine)->options.seed,
    };
    enum error_code code = open_all(call, history, input.seed, &report, err);
    input.events = history->events;
    input.count = history->count;
    if (code == ERR_OK)
        code = job_verify(&input, call->arena, &report.report, err);
    if (code == ERR_OK)
        *ret = report;
    return code;
}

const struct violation *history_violation(const struct history_report *report)
{
    if (report->unreadable_count > 0)
        return &report->unreadable[0];
    return report->report.violation_count > 0 ? &report->report.violations[0] : NULL;
}
