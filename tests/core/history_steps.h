/* Plans and steps for histories written by hand: see history.h. */
#ifndef PAWL_TESTS_CORE_HISTORY_STEPS_H
#define PAWL_TESTS_CORE_HISTORY_STEPS_H

#include "core/history.h"

/* fetch → parse → store, in JSON of the contract. */
static const char chain[] = "[{\"id\":\"fetch\",\"avoid\":[\"bad\"]},"
                            "{\"id\":\"parse\",\"deps\":[\"fetch\"]},"
                            "{\"id\":\"store\",\"deps\":[\"parse\"]}]";
static const char two[] = "[{\"id\":\"a\"},{\"id\":\"b\"}]";
static const char single[] = "[{\"id\":\"a\",\"retry\":{\"max_attempts\":2}}]";
static const char judged[] = "[{\"id\":\"a\",\"critic\":true}]";
static const char waits[] = "[{\"id\":\"a\"},{\"id\":\"gate\",\"deps\":[\"a\"],"
                            "\"wait\":{\"type\":\"signal\",\"correlation_key\":\"go\"}}]";

/* The plan as it is stored: with every default written out. */
static inline struct str steps_of(struct history *h, const char *json)
{
    struct plan plan;
    struct err err;
    assert_int_equal(plan_read(str_from(json), RECORD_REQUEST, 1, &h->arena, &plan, &err), ERR_OK);
    return plan.source;
}

static inline void planned(struct history *h, const char *json)
{
    created(h);
    ADD(h, PLAN_GENERATED, "submit", .plan_version = 1, .steps = steps_of(h, json));
}

static inline void runs(struct history *h, const char *cause, int64_t attempt)
{
    ADD(h, JOB_RUNNING, cause, .attempt = attempt);
}

/* "step_claim:a" and the like, kept as long as the history. */
static inline const char *cause(struct history *h, const char *command, const char *step,
                                int64_t attempt)
{
    enum { CAUSE_MAX = 64 };
    char *text = arena_alloc(&h->arena, CAUSE_MAX);
    if (attempt == 0)
        (void)snprintf(text, CAUSE_MAX, "%s:%s", command, step);
    else
        (void)snprintf(text, CAUSE_MAX, "%s:%s#%lld", command, step, (long long)attempt);
    return text;
}

static inline struct event *claim_as(struct history *h, enum event_type type, const char *step,
                                     int64_t attempt, const char *resource)
{
    return history_add(h, type, cause(h, "step_claim", step, 0),
                       (struct event_data){.step = str_from(step),
                                           .worker_id = STR("w1"),
                                           .resource_id = str_from(resource),
                                           .attempt = attempt,
                                           .lease_ttl_ms = 30000,
                                           .heartbeat_ms = 15000,
                                           .expires_at = h->now + 30000});
}

/* Leased and started in one commit. */
static inline void step_claimed(struct history *h, const char *step, int64_t attempt,
                                const char *resource)
{
    claim_as(h, EVENT_STEP_LEASED, step, attempt, resource);
    history_add(h, EVENT_STEP_RUNNING, cause(h, "step_claim", step, 0),
                (struct event_data){.step = str_from(step)});
}

static inline struct event *step_does(struct history *h, enum event_type type, const char *command,
                                      const char *step, int64_t attempt)
{
    return history_add(h, type, cause(h, command, step, attempt),
                       (struct event_data){.step = str_from(step)});
}

/* A lease that ran out before the start; returns the count of failures that the event carries. */
static inline int64_t *lease_timeout(struct history *h, const char *step)
{
    struct event_data *data = &step_does(h, EVENT_STEP_LEASE_TIMEOUT, "expire", step, 0)->data;
    data->reason = STR("lease_expired");
    return &data->failures;
}

/* The first failure of a step, which asks for a new plan. */
static inline void replanned(struct history *h, const char *step)
{
    struct event_data *data = &step_does(h, EVENT_STEP_FAILED_FATAL, "verdict", step, 0)->data;
    data->verdict = VERDICT_REPLAN;
    data->failures = 1;
}

static inline void step_succeeds(struct history *h, const char *step, int64_t attempt)
{
    step_does(h, EVENT_STEP_SUCCEEDED, "complete", step, attempt)->data.result = STR("1");
}

static inline void step_retries(struct history *h, const char *step, int64_t attempt,
                                int64_t failures)
{
    step_does(h, EVENT_STEP_FAILED_RETRYABLE, "fail", step, attempt)->data.failures = failures;
    step_does(h, EVENT_STEP_RETRYING, "fail", step, attempt)->data.not_before = h->now + 1000;
}

static inline void step_asks(struct history *h, const char *step, int64_t attempt)
{
    struct event_data *data = &step_does(h, EVENT_STEP_NEEDS_USER, "verdict", step, attempt)->data;
    data->verdict = VERDICT_NEEDS_USER;
    data->wait_type = WAIT_HUMAN;
    data->prompt = STR("May I?");
    data->until = h->now + 60000;
}

/* The first step of a plan, "a", is claimed and runs. */
static inline void started(struct history *h, const char *json)
{
    planned(h, json);
    runs(h, "step_claim:a", 1);
    step_claimed(h, "a", 1, "r1");
}

/* "fetch" succeeded, "parse" asked for another plan. */
static inline void replans(struct history *h)
{
    planned(h, chain);
    runs(h, "step_claim:fetch", 1);
    step_claimed(h, "fetch", 1, "r1");
    step_succeeds(h, "fetch", 1);
    step_claimed(h, "parse", 1, "r1");
    replanned(h, "parse");
    step_does(h, EVENT_STEP_FAILED, "verdict", "parse", 0);
    ADD(h, JOB_WAITING, "verdict:parse", .wait_type = WAIT_REPLAN);
}

#endif
