/* What the documents that Pawl comes from ask of jobs and their events as they are shown, on every
 * store. docs/internals/seeds.md says where each of their sentences is tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "engine/desk.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"

/* A text as of printf, for paths and expectations. Lives as long as the desk. */
static const char *text_of(struct desk *d, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *text_of(struct desk *d, const char *format, ...)
{
    char *text = arena_zalloc(&d->arena, 256, 1);
    va_list args;
    assert_non_null(text);
    va_start(args, format);
    (void)vsnprintf(text, 256, format, args);
    va_end(args);
    return text;
}

/* Reads so many events of the feed. PostgreSQL holds it back while any older transaction of the
 * server is open. */
static void read_feed(struct desk *d, int count)
{
    for (int i = 0; i < 1000; i++) {
        well(d, VERB_feed, "{}");
        if (said(d, text_of(d, "events.%d.type", count - 1))[0] != '\0')
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("the feed never has %d events", count);
}

/* ---- correlation and trace ---------------------------------------------------------------- */

/* An id of 36 characters as that of a trace. */
static const char *without_dashes(struct desk *d, const char *id)
{
    char *text = arena_zalloc(&d->arena, UUID_TEXT_LEN + 1, 1);
    size_t len = 0;
    assert_non_null(text);
    for (; *id != '\0'; id++)
        if (*id != '-')
            text[len++] = *id;
    return text;
}

/* Every event of the last answer says both. Returns how many there are. */
static int all_say(struct desk *d, const char *correlation, const char *trace)
{
    int count = 0;
    while (said(d, text_of(d, "events.%d.type", count))[0] != '\0') {
        says(d, text_of(d, "events.%d.correlation_id", count), correlation);
        says(d, text_of(d, "events.%d.trace_id", count), trace);
        count++;
    }
    return count;
}

static void show_own_ids(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    const char *trace = without_dashes(d, id);
    says(d, "correlation_id", id);
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"history\":true}");
    says(d, "claims.0.job.correlation_id", id);
    says(d, "claims.0.events.0.correlation_id", id);
    says(d, "claims.0.events.0.trace_id", trace);
    const char *token = said(d, "claims.0.lease.token");
    assert_memory_equal(said(d, "claims.0.traceparent") + 3, trace, 32);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":1}", token);
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
    well(d, VERB_events, "{\"id\":\"%s\"}", id);
    assert_int_equal(all_say(d, id, trace), 4);
    well(d, VERB_events, "{\"id\":\"%s\",\"telemetry\":true}", id);
    assert_int_equal(all_say(d, id, trace), 1);
    read_feed(d, 4);
    assert_int_equal(all_say(d, id, trace), 4);
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
}

static void without_a_correlation_id_everything_says_the_id_of_the_job(void **state)
{
    (void)state;
    at_every_desk(show_own_ids);
}

static void show_given_ids(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"correlation_id\":\"order-17\",\"traceparent\":\"00-" TRACE
         "-b7ad6b7169203331-01\",\"agent_id\":\"ada\",\"goal\":\"pay\"}");
    const char *id = said(d, "id");
    well(d, VERB_claim, "{\"worker_id\":\"w\"}");
    says(d, "claims.0.job.correlation_id", "order-17");
    says(d, "claims.0.job.agent_id", "ada");
    says(d, "claims.0.job.goal", "pay");
    well(d, VERB_events, "{\"id\":\"%s\"}", id);
    assert_int_equal(all_say(d, "order-17", TRACE), 3);
    read_feed(d, 3);
    assert_int_equal(all_say(d, "order-17", TRACE), 3);
}

static void a_correlation_id_and_a_trace_that_are_given_stay(void **state)
{
    (void)state;
    at_every_desk(show_given_ids);
}

static void tell_steps(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"agent\",\"agent_id\":\"ada\",\"goal\":\"pay\",\"plan\":{\"steps\":[{\"id\":"
         "\"a\",\"kind\":\"k\"}]}}");
    const char *id = said(d, "id");
    (void)step_claimed(d);
    says(d, "claims.0.correlation_id", id);
    says(d, "claims.0.agent_id", "ada");
    says(d, "claims.0.goal", "pay");
}

static void a_claim_of_a_step_says_correlation_agent_and_goal_of_its_job(void **state)
{
    (void)state;
    at_every_desk(tell_steps);
}

static void find_own_ids(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"parent\"}");
    const char *parent = said(d, "id");
    d->clock++;
    well(d, VERB_submit, "{\"kind\":\"child\",\"correlation_id\":\"%s\"}", parent);
    const char *child = said(d, "id");
    d->clock++;
    well(d, VERB_submit, "{\"kind\":\"other\",\"correlation_id\":\"order-17\"}");
    const char *other = said(d, "id");
    static const char *const more[] = {"", ",\"status\":\"queued\"",
                                       ",\"status\":\"queued,running\",\"limit\":5"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        well(d, VERB_list, "{\"correlation_id\":\"%s\"%s}", parent, more[i]);
        says(d, "jobs.0.id", child);
        says(d, "jobs.1.id", parent);
        says(d, "jobs.2", "");
    }
    well(d, VERB_list, "{\"correlation_id\":\"%s\",\"limit\":1}", parent);
    says(d, "jobs.0.id", child);
    const char *cursor = said(d, "next_cursor");
    well(d, VERB_list, "{\"correlation_id\":\"%s\",\"limit\":1,\"cursor\":\"%s\"}", parent, cursor);
    says(d, "jobs.0.id", parent);
    well(d, VERB_list, "{\"correlation_id\":\"%s\",\"kind\":\"child\"}", parent);
    says(d, "jobs.0.id", child);
    says(d, "jobs.1", "");
    /* One that has another is not found by its id. */
    well(d, VERB_list, "{\"correlation_id\":\"%s\"}", other);
    says(d, "jobs.0", "");
}

static void jobs_are_listed_by_a_correlation_id_that_is_derived(void **state)
{
    (void)state;
    at_every_desk(find_own_ids);
}

static void move_own_ids(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\"}", claimed(d));
    const char *bundle = well(d, VERB_export, "{\"id\":\"%s\"}", id);
    says(d, "events.0.correlation_id", id);
    /* The history with it is the one that is there: it is in no hash. */
    well(d, VERB_import, "{\"jobs\":[%s]}", bundle);
    says(d, "present", "1");
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
}

static void an_export_shows_the_derived_correlation_id_and_import_forgets_it(void **state)
{
    (void)state;
    at_every_desk(move_own_ids);
}

/* ---- events ------------------------------------------------------------------------------- */

static void tell_telemetry(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    const char *token = claimed(d);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":1}", token);
    d->clock += 10000;
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"k\"}", token);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":2}", token);
    well(d, VERB_events, "{\"id\":\"%s\",\"telemetry\":true}", id);
    says(d, "events.0.version", "3");
    says(d, "events.0.type", "job_heartbeat");
    says(d, "events.0.reason", "heartbeat");
    says(d, "events.0.hash", "");
    says(d, "events.1.version", "4");
    says(d, "events.2", "");
    const char *first = said(d, "events.0.id");
    const char *second = said(d, "events.1.id");
    assert_int_equal(strlen(first), UUID_TEXT_LEN);
    assert_int_equal(strlen(second), UUID_TEXT_LEN);
    assert_string_not_equal(first, second);
    well(d, VERB_events, "{\"id\":\"%s\",\"telemetry\":true}", id);
    says(d, "events.0.id", first);
    /* It is beside the stream, as ever. */
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "version", "4");
}

static void telemetry_has_an_id_and_the_version_that_the_job_had(void **state)
{
    (void)state;
    at_every_desk(tell_telemetry);
}

static void tell_reasons(struct desk *d)
{
    static const char *const expected[] = {"submit", "claim",   "claim",         "wait",  "signal",
                                           "claim",  "claim",   "lease_expired", "claim", "claim",
                                           "failed", "timeout", "again",         "cancel"};
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"initial_ms\":1,\"jitter\":\"none\"}}");
    const char *id = said(d, "id");
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"go\"}",
         claimed(d));
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"go\"}", id);
    (void)claimed(d);
    for (int i = 0; i < 40; i++)
        let_time_pass(d, 1000);
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"no\"}}", claimed(d));
    well(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"timeout\"}", id);
    well(d, VERB_requeue, "{\"id\":\"%s\",\"reason\":\"again\"}", id);
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    well(d, VERB_events, "{\"id\":\"%s\"}", id);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        says(d, text_of(d, "events.%zu.reason", i), expected[i]);
    says(d, text_of(d, "events.%zu", sizeof expected / sizeof expected[0]), "");
}

static void every_transition_says_its_reason(void **state)
{
    (void)state;
    at_every_desk(tell_reasons);
}

/* ---- heartbeats --------------------------------------------------------------------------- */

static void halve(struct desk *d)
{
    static const char words[] = "heartbeat_ms must be at most half of lease_ttl_ms";
#define TOO_SLOW "\"lease_ttl_ms\":1000,\"heartbeat_ms\":501"
    ill(d, VERB_submit, ERR_BAD_REQUEST, words, "{\"kind\":\"mail\"," TOO_SLOW "}");
    ill(d, VERB_claim, ERR_BAD_REQUEST, words, "{\"worker_id\":\"w\"," TOO_SLOW "}");
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    ill(d, VERB_claim_steps, ERR_BAD_REQUEST, words,
        "{\"worker_id\":\"w\",\"resource_id\":\"r1\"," TOO_SLOW "}");
    ill(d, VERB_kind_set, ERR_BAD_REQUEST, words, "{\"kind\":\"mail\"," TOO_SLOW "}");
    well(d, VERB_submit, "{\"kind\":\"mail\",\"heartbeat_ms\":20000}");
    /* The terms of a lease may come from several places: what does not fit is cut. */
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"lease_ttl_ms\":3000}");
    says(d, "claims.0.lease.heartbeat_ms", "1500");
}

static void a_heartbeat_is_at_most_half_of_the_lease_wherever_it_is_set(void **state)
{
    (void)state;
    at_every_desk(halve);
}

/* ---- cursors ------------------------------------------------------------------------------ */

static void move_cursor(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    const char *token = claimed(d);
    static const char *const pages[] = {"page-1", "page-2"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        well(d, VERB_heartbeat, "{\"token\":\"%s\",\"cursor\":\"%s\"}", token, pages[i]);
        well(d, VERB_get, "{\"id\":\"%s\"}", id);
        says(d, "cursor", pages[i]);
        well(d, VERB_list, "{}");
        says(d, "jobs.0.cursor", pages[i]);
    }
    well(d, VERB_release, "{\"token\":\"%s\"}", token);
    (void)claimed(d);
    says(d, "claims.0.job.cursor", "page-2");
}

static void the_cursor_is_current_while_a_worker_holds_the_job(void **state)
{
    (void)state;
    at_every_desk(move_cursor);
}

/* ---- steps -------------------------------------------------------------------------------- */

static void lose_resource(struct desk *d)
{
    well(
        d, VERB_submit,
        "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"k\",\"avoid\":[\"r9\"]},"
        "{\"id\":\"b\",\"deps\":[\"a\"]}]}}");
    const char *id = said(d, "id");
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"resource\",\"message\":\"no\"}}",
         step_claimed(d));
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "steps.0.avoid", "[\"r9\",\"r1\"]");
    says(d, "steps.1.avoid", "");
    static const char *const states[] = {"pending", "leased", "running", "failed_resource",
                                         "switching_resource"};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        says(d, text_of(d, "steps.0.history.%zu.state", i), states[i]);
    says(d, "steps.0.history.0.type", "plan_generated");
    says(d, "steps.0.history.5", "");
    says(d, "steps.1.history.0.state", "pending");
    says(d, "steps.1.history.1.state", "waiting_deps");
    well(d, VERB_resource_put, "{\"id\":\"r2\"}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r2\"}");
    says(d, "claims.0.step.avoid", "[\"r9\",\"r1\"]");
}

static void the_list_of_resources_to_avoid_is_shown_as_it_grows(void **state)
{
    (void)state;
    at_every_desk(lose_resource);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_correlation_id_everything_says_the_id_of_the_job),
        cmocka_unit_test(a_correlation_id_and_a_trace_that_are_given_stay),
        cmocka_unit_test(a_claim_of_a_step_says_correlation_agent_and_goal_of_its_job),
        cmocka_unit_test(jobs_are_listed_by_a_correlation_id_that_is_derived),
        cmocka_unit_test(telemetry_has_an_id_and_the_version_that_the_job_had),
        cmocka_unit_test(every_transition_says_its_reason),
        cmocka_unit_test(a_heartbeat_is_at_most_half_of_the_lease_wherever_it_is_set),
        cmocka_unit_test(the_cursor_is_current_while_a_worker_holds_the_job),
        cmocka_unit_test(the_list_of_resources_to_avoid_is_shown_as_it_grows),
        cmocka_unit_test(an_export_shows_the_derived_correlation_id_and_import_forgets_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
