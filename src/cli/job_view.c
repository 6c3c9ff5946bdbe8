#include "cli/job_view.h"

#include <stdio.h>

#include "cli/duration.h"
#include "cli/screen.h"

static struct pawl_json get(struct pawl_json job, const char *path)
{
    return pawl_json_get(job, path);
}

/* Where it stands, and since when. */
static void print_standing(struct pawl_json job)
{
    print_field("id", get(job, "id"));
    print_field("kind", get(job, "kind"));
    print_field("queue", get(job, "queue"));
    print_field_status("status", get(job, "status"));
    if (pawl_json_true(get(job, "cancel_requested")) != 0)
        print_field_text("cancel", "requested");
    if (pawl_json_true(get(job, "redacted")) != 0)
        print_field_text("redacted", "payloads erased");
    print_field("version", get(job, "version"));
    print_field("attempt", get(job, "attempt"));
    print_field("epoch", get(job, "epoch"));
    print_field("failures", get(job, "failures"));
    print_field("priority", get(job, "priority"));
    print_field_time("created", get(job, "created_at"));
    print_field_time("updated", get(job, "updated_at"));
    print_field_time("run at", get(job, "run_at"));
}

void retry_print(struct pawl_json retry)
{
    if (retry.at == NULL)
        return;
    char initial[DURATION_LEN_MAX];
    char longest[DURATION_LEN_MAX];
    char line[256];
    long long attempts = pawl_json_int(get(retry, "max_attempts"), 0);
    char *strategy = pawl_json_text(get(retry, "strategy"));
    char *jitter = pawl_json_text(get(retry, "jitter"));
    char *then = pawl_json_text(get(retry, "on_exhausted"));
    duration_write(pawl_json_int(get(retry, "initial_ms"), 0), initial);
    duration_write(pawl_json_int(get(retry, "max_ms"), 0), longest);
    snprintf(line, sizeof line, "%lld attempt%s, %s from %s to %s, jitter %s, then %s", attempts,
             attempts == 1 ? "" : "s", strategy != NULL ? strategy : "?", initial, longest,
             jitter != NULL ? jitter : "?", then != NULL ? then : "?");
    print_field_text("retry", line);
    pawl_free(strategy);
    pawl_free(jitter);
    pawl_free(then);
}

static void print_spec(struct pawl_json job)
{
    print_field("key", get(job, "idempotency_key"));
    print_field("fingerprint", get(job, "fingerprint"));
    print_field("correlation", get(job, "correlation_id"));
    print_field("trace", get(job, "traceparent"));
    print_field_json("labels", get(job, "labels"));
    print_field("agent", get(job, "agent_id"));
    print_field("goal", get(job, "goal"));
    print_field_json("capabilities", get(job, "capabilities"));
    print_field("in doubt", get(job, "in_doubt"));
    print_field_duration("timeout", get(job, "timeout_ms"));
    print_field_time("expires", get(job, "expires_at"));
    print_field_time("deadline", get(job, "deadline_at"));
    retry_print(get(job, "retry"));
    print_field_json("plan", get(job, "plan"));
}

static void print_wait(struct pawl_json wait)
{
    if (wait.at == NULL)
        return;
    print_field("waiting for", get(wait, "type"));
    print_field("  key", get(wait, "correlation_key"));
    print_field_time("  since", get(wait, "since"));
    print_field_time("  until", get(wait, "until"));
    print_field("  question", get(wait, "prompt"));
    print_field_json("  choices", get(wait, "choices"));
    print_field("  asked", get(wait, "assignee"));
    print_field("  effect", get(wait, "effect"));
}

static void print_lease(struct pawl_json lease)
{
    if (lease.at == NULL)
        return;
    print_field("leased by", get(lease, "worker_id"));
    print_field("  resource", get(lease, "resource_id"));
    print_field_time("  last heartbeat", get(lease, "beat_at"));
    print_field_time("  expires", get(lease, "expires_at"));
    print_field_time("  timeout", get(lease, "timeout_at"));
}

static void print_dead_letter(struct pawl_json letter)
{
    if (letter.at == NULL)
        return;
    print_field("dead letter", get(letter, "reason_code"));
    print_field("  stage", get(letter, "stage"));
    print_field("  attempts", get(letter, "attempts"));
    print_field("  last owner", get(letter, "last_owner"));
    print_field("  correlation", get(letter, "correlation_id"));
    print_field_time("  since", get(letter, "at"));
    print_field_json("  last error", get(letter, "last_error"));
}

void job_print(struct pawl_json job)
{
    print_standing(job);
    print_lease(get(job, "lease"));
    print_wait(get(job, "wait"));
    print_dead_letter(get(job, "dead_letter"));
    print_spec(job);
    print_field_json("payload", get(job, "payload"));
    print_field_json("progress", get(job, "progress"));
    print_field("cursor", get(job, "cursor"));
    print_field_json("error", get(job, "error"));
    print_field_json("result", get(job, "result"));
}

static const struct column job_columns[] = {
    {.title = "ID"},
    {.title = "STATUS", .status = true},
    {.title = "KIND", .gives_way = true},
    {.title = "QUEUE", .gives_way = true},
    {.title = "PRIORITY", .optional = true, .right = true},
    {.title = "ATTEMPT", .optional = true, .right = true},
    {.title = "CREATED"},
    {.title = "UPDATED", .optional = true},
};

struct table *jobs_table(void)
{
    return table_new(job_columns, sizeof job_columns / sizeof job_columns[0]);
}

void jobs_table_add(struct table *table, struct pawl_json job)
{
    table_value(table, get(job, "id"));
    table_value(table, get(job, "status"));
    table_value(table, get(job, "kind"));
    table_value(table, get(job, "queue"));
    table_value(table, get(job, "priority"));
    table_value(table, get(job, "attempt"));
    table_time(table, get(job, "created_at"));
    table_time(table, get(job, "updated_at"));
}
