/* How a worker reports what came of a task: again and again while the store is out of reach, and as
 * a failure where the store does not take it. */
#include <stdio.h>

#include "base/clock.h"
#include "base/record.h"
#include "base/utf8.h"
#include "engine/worker_private.h"

/* One report, from the first try to the last. */
struct report {
    struct slot *slot;
    struct pawl_outcome *outcome;
    bool more;
    bool changed;     /* the outcome is no longer the handler's */
    uint32_t says_at; /* where the outcome is in the batch; UINT32_MAX: it is not */
    uint32_t claim_at;
};

/* `text` with what is not UTF-8 replaced. */
static void put_message(struct worker_ops *ops, const char *text, size_t len)
{
    struct buf clean;
    const char *end = text + len;
    buf_init(&clean, &ops->arena, len + 1);
    while (text < end) {
        size_t width = utf8_length(text, end);
        if (width > 0)
            buf_add(&clean, (struct str){text, width});
        else
            buf_add(&clean, STR("\xEF\xBF\xBD"));
        text += width > 0 ? width : 1;
    }
    if (clean.failed)
        ops->buf.failed = true;
    json_put_string(&ops->writer, buf_str(&clean));
}

/* A name that the handler gave, if it is one. */
static void put_name(struct worker_ops *ops, struct str key, const char *text, size_t size)
{
    struct str name = {text, strnlen(text, size)};
    if (!record_is_name(name))
        return;
    json_key(&ops->writer, key);
    json_put_string(&ops->writer, name);
}

static void put_failure(struct worker_ops *ops, const struct pawl_outcome *outcome)
{
    struct json_writer *writer = &ops->writer;
    size_t len = strnlen(outcome->message, sizeof outcome->message);
    json_key(writer, STR("error"));
    json_begin_object(writer);
    if (outcome->error_class != NULL) {
        json_key(writer, STR("class"));
        put_message(ops, outcome->error_class, strlen(outcome->error_class));
    }
    json_key(writer, STR("message"));
    put_message(ops, outcome->message, len);
    put_name(ops, STR("type"), outcome->error_type, sizeof outcome->error_type);
    put_name(ops, STR("code"), outcome->error_code, sizeof outcome->error_code);
    if (outcome->stage != NULL) {
        json_key(writer, STR("stage"));
        put_message(ops, outcome->stage, strlen(outcome->stage));
    }
    if (outcome->details != NULL) {
        json_key(writer, STR("details"));
        json_put_raw(writer, str_from(outcome->details));
    }
    if (outcome->stack != NULL) {
        json_key(writer, STR("stack"));
        put_message(ops, outcome->stack, strnlen(outcome->stack, TEXT_BYTES_MAX / 3));
    }
    json_end_object(writer);
    if (outcome->retry_after_ms != 0) {
        json_key(writer, STR("retry_after_ms"));
        json_put_int(writer, outcome->retry_after_ms);
    }
}

static struct str verb_of(enum pawl_how how)
{
    switch (how) {
    case PAWL_FAIL:
        return STR("fail");
    case PAWL_RELEASE:
        return STR("release");
    case PAWL_CANCELLED:
        return STR("cancelled");
    case PAWL_COMPLETE:
    case PAWL_ENDED:
        break;
    }
    return STR("complete");
}

/* Makes the batch: progress that still waits, the outcome, and a claim. */
static void prepare(struct report *report, struct worker_ops *ops)
{
    struct slot *slot = report->slot;
    struct pawl_worker *worker = slot->worker;
    const struct pawl_outcome *outcome = report->outcome;

    report->says_at = UINT32_MAX;
    report->claim_at = UINT32_MAX;
    if (outcome->how != PAWL_ENDED) {
        pthread_mutex_lock(&worker->lock);
        if (slot->progress != NULL || slot->cursor != NULL) {
            worker_op_lease(ops, STR("heartbeat"), slot->token);
            worker_heart_progress(slot, ops);
            json_end_object(&ops->writer);
        }
        pthread_mutex_unlock(&worker->lock);

        report->says_at = ops->count;
        worker_op_lease(ops, verb_of(outcome->how), slot->token);
        if (outcome->how == PAWL_FAIL)
            put_failure(ops, outcome);
        if (outcome->how == PAWL_COMPLETE && outcome->result != NULL) {
            json_key(&ops->writer, STR("result"));
            json_put_raw(&ops->writer, str_from(outcome->result));
        }
        json_end_object(&ops->writer);
    }
    if (report->more) {
        report->claim_at = ops->count;
        worker_op(ops, worker->steps ? STR("claim_steps") : STR("claim"));
        buf_add_char(&ops->buf, ',');
        buf_add(&ops->buf, worker->terms);
        json_end_object(&ops->writer);
    }
}

static void change(struct report *report, const char *error_class, const char *why)
{
    struct pawl_outcome *outcome = report->outcome;
    pawl_free(outcome->result);
    pawl_free(outcome->details);
    pawl_free(outcome->stack);
    *outcome = (struct pawl_outcome){.how = PAWL_FAIL, .error_class = error_class};
    (void)snprintf(outcome->message, sizeof outcome->message, "the outcome was rejected: %s", why);
    report->changed = true;
}

/* A text that is no JSON would spoil the batch that it is in. */
static void check_outcome(struct report *report)
{
    const struct pawl_outcome *outcome = report->outcome;
    if (outcome->how < PAWL_COMPLETE || outcome->how > PAWL_ENDED)
        change(report, "permanent", "its kind is unknown");
    else if (outcome->result != NULL && pawl_json_read(outcome->result).at == NULL)
        change(report, "permanent", "its result is not JSON");
    else if (outcome->details != NULL && pawl_json_read(outcome->details).at == NULL)
        change(report, outcome->error_class, "its details are not JSON");
}

/* Sends it once. */
static enum pawl_code try(struct report *report, char **ret_claim, struct pawl_error *error)
{
    struct worker_ops ops;
    struct pawl_json body = {0};
    char *answer = NULL;

    worker_ops_init(&ops);
    prepare(report, &ops);
    enum pawl_code code = PAWL_OK;
    if (ops.count > 0)
        code = worker_ops_send(report->slot->worker, &ops, &answer, error);
    struct pawl_json results = pawl_json_read(answer);
    if (code == PAWL_OK && report->claim_at != UINT32_MAX &&
        worker_op_result(results, report->claim_at, &body, NULL) == PAWL_OK) {
        struct pawl_json claim = pawl_json_get(body, "claims.0");
        if (claim.at != NULL)
            *ret_claim = pawl_json_text(claim);
    }
    if (code == PAWL_OK && report->says_at != UINT32_MAX)
        code = worker_op_result(results, report->says_at, &body, error);
    pawl_free(answer);
    worker_ops_release(&ops);
    return code;
}

/* Pauses, and says whether there is a point in trying again: after a stop only as long as the lease
 * may be alive. */
static bool pause_for(struct slot *slot, int64_t pause_ms)
{
    enum { SLICE_MS = 100 };
    struct pawl_worker *worker = slot->worker;
    int64_t until = clock_monotonic_ms() + pause_ms;
    for (;;) {
        int64_t now = clock_monotonic_ms();
        if (atomic_load(&worker->stopped)) {
            pthread_mutex_lock(&worker->lock);
            int64_t alive_until = slot->alive_until;
            pthread_mutex_unlock(&worker->lock);
            if (now >= alive_until)
                return false;
        }
        if (now >= until)
            return true;
        clock_pause(SLICE_MS);
    }
}

static void set_beating(struct slot *slot, bool beating)
{
    pthread_mutex_lock(&slot->worker->lock);
    slot->beating = beating;
    if (beating)
        worker_heart_poke(slot->worker, slot->beat_at);
    pthread_mutex_unlock(&slot->worker->lock);
}

enum pawl_code worker_report(struct slot *slot, struct pawl_outcome *outcome, bool more,
                             char **ret_claim, struct pawl_error *error)
{
    struct report report = {.slot = slot, .outcome = outcome, .more = more};
    int64_t pause_ms = 0;
    *ret_claim = NULL;

    /* The heart rests while this is sent: a heartbeat that came in after it would look lost. */
    set_beating(slot, false);
    check_outcome(&report);
    for (;;) {
        enum pawl_code code = try(&report, ret_claim, error);
        bool retry = worker_may_retry(slot->worker, code, error);
        report.more = false;
        if (code == PAWL_OK || code == PAWL_STALE_LEASE)
            return code;
        if (retry) {
            set_beating(slot, outcome->how != PAWL_ENDED);
            pause_ms = worker_pause(pause_ms);
            if (outcome->how == PAWL_ENDED || !pause_for(slot, pause_ms))
                return outcome->how == PAWL_ENDED ? PAWL_OK : code;
            set_beating(slot, false);
            continue;
        }
        /* An open effect, for example, may be found closed by the next attempt; what is too large
         * stays so. */
        if (report.changed || outcome->how == PAWL_ENDED)
            return code;
        change(&report, code == PAWL_INVALID_TRANSITION ? NULL : "permanent", error->message);
    }
}
