#include "cli/fate.h"

#include <stdio.h>
#include <string.h>

#include "cli/duration.h"

static struct pawl_json get(struct pawl_json value, const char *path)
{
    return pawl_json_get(value, path);
}

/* A text of an event; "" when it is not there. */
static void copy_text(struct pawl_json value, char *ret, size_t size)
{
    char *text = pawl_json_text(value);
    (void)snprintf(ret, size, "%s", text != NULL ? text : "");
    pawl_free(text);
}

/* Adds `before` and a text, if there is one. */
static void add_text(struct fate *fate, const char *before, struct pawl_json value)
{
    size_t len = strlen(fate->detail);
    char *text = value.at != NULL ? pawl_json_text(value) : NULL;
    if (text != NULL)
        (void)snprintf(fate->detail + len, sizeof fate->detail - len, "%s%s", before, text);
    pawl_free(text);
}

static void read_error(struct pawl_json event, struct fate *fate)
{
    add_text(fate, "", get(event, "payload.error.class"));
    add_text(fate, ": ", get(event, "payload.error.message"));
}

static void read_waiting(struct pawl_json event, struct fate *fate)
{
    struct pawl_json key = get(event, "payload.correlation_key");
    struct pawl_json effect = get(event, "payload.effect");
    if (pawl_json_true(get(event, "payload.parked")))
        fate->how = "parked";
    if (effect.at != NULL)
        add_text(fate, "a decision about effect ", effect);
    else if (key.at != NULL)
        add_text(fate, "key ", key);
    else
        add_text(fate, "until ", get(event, "payload.until"));
}

static void read_woken(struct pawl_json event, struct fate *fate)
{
    add_text(fate, "key ", get(event, "payload.correlation_key"));
    add_text(fate, " was already answered: ", get(event, "payload.outcome"));
}

/* A job that somebody else may take now, or at its time. */
static void read_requeued(struct pawl_json event, struct fate *fate)
{
    long long at;
    long long run_at;
    char text[WHEN_LEN_MAX];
    add_text(fate, "its lease had expired: ", get(event, "reason"));
    fate->next = "retry";
    copy_text(get(event, "at"), text, sizeof text);
    copy_text(get(event, "payload.not_before"), fate->run_at, sizeof fate->run_at);
    if (when_parse(text, &at) && when_parse(fate->run_at, &run_at) && run_at > at)
        fate->pause_ms = run_at - at;
}

static void read_failed(struct pawl_json event, struct fate *fate)
{
    read_error(event, fate);
    fate->next = "final";
}

static void read_dead(struct pawl_json event, struct fate *fate)
{
    read_error(event, fate);
    fate->next = "dead_letter";
    copy_text(get(event, "payload.reason_code"), fate->reason_code, sizeof fate->reason_code);
}

static void read_cancelled(struct pawl_json event, struct fate *fate)
{
    add_text(fate, "", get(event, "payload.mode"));
    add_text(fate, ": ", get(event, "payload.reason"));
}

static void read_completed(struct pawl_json event, struct fate *fate)
{
    add_text(fate, "by ", get(event, "actor"));
}

/* The events that end a lease. */
static const struct {
    const char *type;
    const char *how;
    void (*read)(struct pawl_json event, struct fate *fate);
} ends[] = {
    {"job_waiting", "waiting", read_waiting},       {"wait_completed", "queued", read_woken},
    {"job_requeued", "lost", read_requeued},        {"job_failed", "failed", read_failed},
    {"job_dead_lettered", "failed", read_dead},     {"job_cancelled", "cancelled", read_cancelled},
    {"job_completed", "completed", read_completed},
};

/* Reads a page of events. True when there is no point in reading on. */
static bool read_page(struct pawl_json events, long long *after, struct fate *fate)
{
    struct pawl_json event = {NULL, 0};
    long long before = *after;
    while (pawl_json_next(events, &event, NULL) != 0) {
        *after = pawl_json_int(get(event, "version"), *after);
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            if (!pawl_json_is(get(event, "type"), ends[i].type))
                continue;
            fate->how = ends[i].how;
            ends[i].read(event, fate);
            return true;
        }
    }
    return *after == before;
}

void fate_read(struct pawl *pawl, const struct pawl_task *task, struct fate *ret)
{
    *ret = (struct fate){0};
    long long after = pawl_json_int(get(pawl_json_read(task->claim), "job.version"), 0);
    bool over = after == 0;
    while (!over) {
        char *answer = NULL;
        struct pawl_object *request = pawl_object_new();
        pawl_object_text(request, "id", task->job_id);
        pawl_object_int(request, "after", after);
        const char *text = request != NULL ? pawl_object_str(request) : NULL;
        over = text == NULL || pawl_events(pawl, text, &answer, NULL) != PAWL_OK ||
               read_page(get(pawl_json_read(answer), "events"), &after, ret);
        pawl_free(answer);
        pawl_object_free(request);
    }
}

void fate_next(const struct fate *fate, char *ret, size_t size)
{
    char pause[DURATION_LEN_MAX];
    ret[0] = '\0';
    if (fate->next == NULL)
        return;
    duration_write(fate->pause_ms, pause);
    if (strcmp(fate->next, "dead_letter") == 0)
        (void)snprintf(ret, size, "dead letter (%s)", fate->reason_code);
    else if (strcmp(fate->next, "final") == 0)
        (void)snprintf(ret, size, "final");
    else if (fate->pause_ms > 0)
        (void)snprintf(ret, size, "retried in %s", pause);
    else
        (void)snprintf(ret, size, "retried now");
}
