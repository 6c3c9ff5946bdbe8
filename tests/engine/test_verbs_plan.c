/* The verbs that look at plans and at what people are asked, on every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

#define NOBODY "01234567-89ab-7def-8123-456789abcdef"

static const char *submit(struct desk *d)
{
    d->clock++; /* so that ids tell who came first */
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    return said(d, "id");
}

static void tells_steps(struct desk *d)
{
    well(d, VERB_submit, DESK_PLAN);
    const char *id = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":7}", step_claimed(d));
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "steps.0.id", "a");
    says(d, "steps.0.state", "succeeded");
    says(d, "steps.0.history.1.type", "step_leased");
    says(d, "steps.0.history.1.worker_id", "w1");
    says(d, "steps.0.history.1.resource_id", "r1");
    says(d, "steps.0.history.2.type", "step_running");
    says(d, "steps.0.history.3.type", "step_succeeded");
    says(d, "steps.1.id", "b");
    says(d, "steps.2", "");
    submit(d);
    well(d, VERB_steps, "{\"id\":\"%s\"}", said(d, "id"));
    assert_string_equal(d->answer, "{\"status\":\"queued\",\"plan_version\":null,"
                                   "\"critical_path\":null,\"steps\":[],\"next_cursor\":null}");
    ill(d, VERB_steps, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
}

static void steps_are_told_with_what_happened_to_each(void **state)
{
    (void)state;
    at_every_desk(tells_steps);
}

/* A step is taken, and done `ms` later. */
static void do_step(struct desk *d, const char *id, int64_t ms)
{
    const char *token = step_claimed(d);
    says(d, "claims.0.step.id", id);
    d->clock += ms;
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
}

#define DIAMOND                                                                                    \
    "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\",\"deps\":[\"a\"]},"     \
    "{\"id\":\"c\",\"deps\":[\"a\"]},{\"id\":\"d\",\"deps\":[\"b\",\"c\"]}]}}"

static void times_steps(struct desk *d)
{
    well(d, VERB_submit, DIAMOND);
    const char *id = said(d, "id");
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "plan_version", "1");
    says(d, "critical_path", "{\"duration_ms\":0,\"steps\":[\"a\",\"b\",\"d\"]}");
    says(d, "steps.0.started_at", "");
    says(d, "steps.0.duration_ms", "");
    d->clock += 5;
    do_step(d, "a", 100);
    do_step(d, "b", 20);
    do_step(d, "c", 30);
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "critical_path", "{\"duration_ms\":130,\"steps\":[\"a\",\"c\",\"d\"]}");
    says(d, "steps.0.started_at", "2026-01-01T00:00:00.005Z");
    says(d, "steps.0.ended_at", "2026-01-01T00:00:00.105Z");
    says(d, "steps.0.duration_ms", "100");
    says(d, "steps.3.duration_ms", "");
    /* What runs has taken so long as of now; a retry is part of it. */
    const char *token = step_claimed(d);
    d->clock += 7;
    well(d, VERB_release, "{\"token\":\"%s\"}", token);
    d->clock += 3;
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "steps.3.duration_ms", "10");
    says(d, "steps.3.ended_at", "");
    says(d, "critical_path.duration_ms", "140");
    do_step(d, "d", 40);
    d->clock += 1000;
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "status", "completed");
    says(d, "steps.3.duration_ms", "50");
    says(d, "critical_path", "{\"duration_ms\":180,\"steps\":[\"a\",\"c\",\"d\"]}");
}

static void steps_are_told_with_their_times_and_the_critical_path(void **state)
{
    (void)state;
    at_every_desk(times_steps);
}

/* A step of a job that ended under it was at work until then, and not longer. */
static void times_a_failed_job(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\"}]}}");
    const char *id = said(d, "id");
    const char *token = step_claimed(d);
    (void)step_claimed(d);
    d->clock += 8;
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"no\"}}",
         token);
    d->clock += 500;
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "status", "failed");
    says(d, "steps.0.duration_ms", "8");
    says(d, "steps.1.state", "running");
    says(d, "steps.1.duration_ms", "8");
}

static void the_times_of_steps_end_with_their_job(void **state)
{
    (void)state;
    at_every_desk(times_a_failed_job);
}

/* One step is to be done again later, the other asks for another plan, and gets it: without c, with
 * e, and d after other steps. */
static void replans(struct desk *d, const char *id)
{
    const char *first = step_claimed(d);
    const char *second = step_claimed(d);
    d->clock += 5;
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"later\"}}", first);
    well(d, VERB_verdict, "{\"id\":\"%s\",\"step\":\"c\",\"token\":\"%s\",\"decision\":\"replan\"}",
         id, second);
    well(d, VERB_plan,
         "{\"id\":\"%s\",\"reason\":\"better\",\"steps\":[{\"id\":\"a\"},{\"id\":\"b\",\"deps\":[ "
         "\"a\" "
         "]},{\"id\":\"e\",\"payload\":1,\"deps\":[\"a\"]},{\"id\":\"d\",\"deps\":[\"b\",\"e\"],"
         "\"timeout_ms\":5}]}",
         id);
}

static void compares_plans(struct desk *d)
{
    submit(d);
    ill(d, VERB_plan_diff, ERR_NOT_FOUND, "no plan", "{\"id\":\"%s\"}", said(d, "id"));
    ill(d, VERB_plan_diff, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
    well(d, VERB_submit, DIAMOND);
    const char *id = said(d, "id");
    well(d, VERB_plan_diff, "{\"id\":\"%s\"}", id);
    says(d, "from", "0");
    says(d, "to", "1");
    says(d, "changes.3.step", "d");
    says(d, "changes.3.change", "added");
    says(d, "changes.3.to.deps", "[\"b\",\"c\"]");
    says(d, "changes.4", "");
    says(d, "kept", "[]");
    do_step(d, "a", 10);
    replans(d, id);
    well(d, VERB_plan_diff, "{\"id\":\"%s\"}", id);
    says(d, "from", "1");
    says(d, "to", "2");
    says(d, "versions.1.reason", "better");
    says(d, "versions.1.steps", "4");
    says(d, "versions.2", "");
    says(d, "changes.0.step", "e");
    says(d, "changes.0.change", "added");
    says(d, "changes.0.from", "");
    says(d, "changes.0.to.payload", "1");
    says(d, "changes.1.step", "d");
    says(d, "changes.1.change", "changed");
    says(d, "changes.1.from", "{\"deps\":[\"b\",\"c\"]}");
    says(d, "changes.1.to", "{\"deps\":[\"b\",\"e\"],\"timeout_ms\":5}");
    says(d, "changes.2.step", "c");
    says(d, "changes.2.change", "removed");
    says(d, "changes.2.to", "");
    says(d, "changes.3", "");
    says(d, "same", "2");
    says(d, "kept", "[\"a\"]");
    well(d, VERB_plan_diff, "{\"id\":\"%s\",\"from\":2,\"to\":1}", id);
    says(d, "changes.0.step", "c");
    says(d, "changes.0.change", "added");
    says(d, "kept", "[]");
    well(d, VERB_plan_diff, "{\"id\":\"%s\",\"from\":2,\"to\":2}", id);
    says(d, "changes", "[]");
    says(d, "same", "4");
    ill(d, VERB_plan_diff, ERR_NOT_FOUND, "versions 1 to 2, but no version 3",
        "{\"id\":\"%s\",\"to\":3}", id);
    /* A step that begins anew has no time yet; one that was kept has that which it had. */
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "plan_version", "2");
    says(d, "steps.0.duration_ms", "10");
    says(d, "steps.1.started_at", "");
}

static void two_versions_of_a_plan_are_compared(void **state)
{
    (void)state;
    at_every_desk(compares_plans);
}

static void asks_people(struct desk *d)
{
    well(d, VERB_inbox, "{}");
    assert_string_equal(d->answer, "{\"questions\":[],\"next_cursor\":null}");
    const char *id = submit(d);
    well(d, VERB_wait,
         "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"ok\",\"prompt\":\"Ship it?\","
         "\"choices\":[\"yes\",\"no\"],\"assignee\":\"ada\"}",
         claimed(d));
    submit(d);
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"go\"}",
         claimed(d));
    d->clock++;
    well(d, VERB_submit, DESK_PLAN);
    const char *plan = said(d, "id");
    well(d, VERB_verdict,
         "{\"id\":\"%s\",\"step\":\"a\",\"token\":\"%s\",\"decision\":\"needs_user\",\"question\":"
         "{\"prompt\":\"Which?\",\"assignee\":\"bob\",\"timeout_ms\":1000,\"default_answer\":3}}",
         plan, step_claimed(d));
    well(d, VERB_inbox, "{\"assignee\":\"bob\"}");
    says(d, "questions.0.id", plan);
    says(d, "questions.1", "");
    well(d, VERB_inbox, "{\"assignee\":\"ada\"}");
    says(d, "questions.0.id", id);
    says(d, "questions.1", "");
    well(d, VERB_inbox, "{}");
    says(d, "questions.0.until", "2026-01-01T00:00:01.003Z");
    says(d, "questions.0.default_answer", "3");
    says(d, "questions.0.id", plan);
    says(d, "questions.0.step", "a");
    says(d, "questions.0.prompt", "Which?");
    says(d, "questions.1.id", id);
    says(d, "questions.1.step", "");
    says(d, "questions.1.kind", "mail");
    says(d, "questions.1.choices", "[\"yes\",\"no\"]");
    says(d, "questions.1.assignee", "ada");
    says(d, "questions.1.correlation_key", "ok");
    says(d, "questions.2", "");
    well(d, VERB_inbox, "{\"limit\":1}");
    says(d, "questions.1", "");
    well(d, VERB_inbox, "{\"limit\":1,\"cursor\":\"%s\"}", said(d, "next_cursor"));
    says(d, "questions.0.id", id);
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"ok\",\"payload\":\"yes\"}", id);
    d->clock += 9;
    well(d, VERB_answer, "{\"id\":\"%s\",\"step\":\"a\",\"answer\":1,\"by\":\"bob\"}", plan);
    well(d, VERB_inbox, "{}");
    says(d, "questions.0", "");
    /* Who has answered and when; the deadline comes too late. */
    let_time_pass(d, 5000);
    well(d, VERB_steps, "{\"id\":\"%s\"}", plan);
    says(d, "steps.0.answer", "1");
    says(d, "steps.0.answered_by", "bob");
    says(d, "steps.0.answered_at", "2026-01-01T00:00:00.012Z");
    says(d, "steps.0.history.3.verdict", "needs_user");
    says(d, "steps.0.history.3.actor", "w1");
    says(d, "steps.0.history.4.by", "bob");
    says(d, "steps.0.history.5", "");
}

static void open_questions_are_in_the_inbox_until_they_are_answered(void **state)
{
    (void)state;
    at_every_desk(asks_people);
}

/* The job ends with the first of the steps that are lost, and the others have nothing to expire. */
static void loses_a_resource(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"agent\",\"plan\":{\"steps\":["
         "{\"id\":\"a\",\"retry\":{\"max_attempts\":1}},"
         "{\"id\":\"b\",\"retry\":{\"max_attempts\":1}}]}}");
    const char *id = said(d, "id");
    well(d, VERB_resource_put, "{\"id\":\"r1\",\"slots\":2,\"ttl_ms\":2000}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\",\"max\":2}");
    says(d, "claims.1.step.id", "b");
    /* This fails when there is always something to do. */
    let_time_pass(d, 60 * 1000);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "status", "failed");
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
}

static void a_resource_that_is_lost_with_two_steps_of_a_job_leaves_nothing_due(void **state)
{
    (void)state;
    at_every_desk(loses_a_resource);
}

#define CLAIM_STEPS "{\"op\":\"claim_steps\",\"worker_id\":\"w1\",\"resource_id\":\"r1\"}"

/* Each claim sees what those before it in the batch were given. */
static void fills_a_resource(struct desk *d)
{
    well(
        d, VERB_submit,
        "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"}]}}");
    well(d, VERB_resource_put, "{\"id\":\"r1\",\"slots\":1}");
    well(d, VERB_batch, "{\"ops\":[" CLAIM_STEPS "," CLAIM_STEPS "," CLAIM_STEPS "]}");
    says(d, "results.0.body.claims.0.step.id", "a");
    says(d, "results.1.body.claims", "[]");
    says(d, "results.2.body.claims", "[]");
    const char *token = said(d, "results.0.body.claims.0.lease.token");
    well(d, VERB_resource_get, "{\"id\":\"r1\"}");
    says(d, "used", "1");
    /* What was not given away is still there. */
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
    well(d, VERB_batch, "{\"ops\":[" CLAIM_STEPS "," CLAIM_STEPS "]}");
    says(d, "results.0.body.claims.0.step.id", "b");
    says(d, "results.1.body.claims", "[]");
}

static void claims_of_one_batch_do_not_take_more_than_the_slots_of_their_resource(void **state)
{
    (void)state;
    at_every_desk(fills_a_resource);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_told_with_what_happened_to_each),
        cmocka_unit_test(steps_are_told_with_their_times_and_the_critical_path),
        cmocka_unit_test(the_times_of_steps_end_with_their_job),
        cmocka_unit_test(two_versions_of_a_plan_are_compared),
        cmocka_unit_test(open_questions_are_in_the_inbox_until_they_are_answered),
        cmocka_unit_test(a_resource_that_is_lost_with_two_steps_of_a_job_leaves_nothing_due),
        cmocka_unit_test(claims_of_one_batch_do_not_take_more_than_the_slots_of_their_resource),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
