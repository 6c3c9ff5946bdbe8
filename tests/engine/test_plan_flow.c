/* Plans at work: where steps run, what they mean for their job, and who judges them. On every
 * store, through pawl.h, and once more over HTTP. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan_case.h"

/* ---- resources ---------------------------------------------------------------------------- */

/* A step fails for the sake of the resource that it is on. */
static void let_fail(struct talk *t, const char *resource)
{
    (void)submit_steps(t, "[{'id':'a','on_failure':'continue'}]");
    tell(t, pawl_fail, claim_step(t, resource, ""), failure(t, "resource"));
}

static void resource_says(struct talk *t, const char *id, const char *path, const char *expected)
{
    does(t, pawl_resource_get, "{\"id\":\"%s\"}", id);
    says_text(t, path, expected);
}

#define RESTS ",'slots':9,'rest':{'failures':3,'within_ms':10000,'for_ms':2000}"

static void a_resource_that_fails_often_is_rested_for_a_while(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", RESTS);
    have_resource(t, "r2", ",'slots':9");
    for (int i = 0; i < 3; i++) {
        resource_says(t, "r1", "failures", phrase(t, "%d", i));
        resource_says(t, "r1", "rested_until", "");
        let_fail(t, "r1");
        complete_step(t, claim_step(t, "r2", ""));
    }
    resource_says(t, "r1", "rests", "1");
    resource_says(t, "r1", "rested_until", "2026-01-01T00:00:02.000Z");
    (void)submit_steps(t, "[{'id':'a'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    /* To renew is not to recover. */
    have_resource(t, "r1", RESTS);
    assert_string_equal(try_claim(t, "r1", ""), "");
    pass(c, 2000);
    /* One more soon after that, and it is rested twice as long. */
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "resource"));
    resource_says(t, "r1", "rested_until", "2026-01-01T00:00:06.000Z");
    complete_step(t, claim_step(t, "r2", ""));
    pass(c, 4000);
    (void)submit_steps(t, "[{'id':'a'}]");
    complete_step(t, claim_step(t, "r1", ""));
    /* Having stood for a while it is as good as new. */
    pass(c, 4900);
    have_resource(t, "r1", RESTS);
    have_resource(t, "r2", ",'slots':9");
    pass(c, 4900);
    pass(c, 300);
    let_fail(t, "r1");
    resource_says(t, "r1", "failures", "1");
    complete_step(t, claim_step(t, "r2", ""));
}

static void a_claim_that_waits_gets_its_step_when_the_rest_is_over(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'rest':{'failures':1,'for_ms':300}");
    let_fail(t, "r1");
    (void)submit_steps(t, "[{'id':'a'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    complete_step(t, claim_step(t, "r1", ""));
}

static void a_lease_that_is_lost_counts_against_its_resource(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'rest':{'failures':1,'for_ms':60000}");
    const char *id = submit_steps(t, "[{'id':'a'}]");
    (void)claim_step(t, "r1", "");
    pass(c, STEP_TTL_MS + 1);
    trace_becomes(t, id, FIRST_RUN " step_failed_resource step_switching_resource");
    (void)submit_steps(t, "[{'id':'a'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    resource_says(t, "r1", "rests", "1");
}

static void what_a_step_gets_wrong_by_itself_rests_nobody(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'rest':{'failures':1}");
    (void)submit_steps(t, "[{'id':'a','retry':{'initial_ms':0}}]");
    for (int i = 0; i < 3; i++)
        tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "transient"));
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "permanent"));
    resource_says(t, "r1", "failures", "0");
    resource_says(t, "r1", "rests", "0");
    refuses(t, pawl_resource_put, PAWL_BAD_REQUEST, "%s",
            json(t, "{'id':'r1','rest':{'failures':-1}}"));
    have_resource(t, "r1", ",'rest':{'failures':0}");
    for (int i = 0; i < 9; i++)
        let_fail(t, "r1");
    resource_says(t, "r1", "rests", "0");
}

/* Which labels a selector takes: {"zone":"a","gpu":""}. */
static const struct {
    const char *selector;
    bool takes;
} selectors[] = {
    {"zone=a", true},
    {"zone==a", true},
    {"zone=b", false},
    {"zone!=a", false},
    {"zone!=b", true},
    {"disk!=ssd", true},
    {"zone in (a,b)", true},
    {"zone in (b,c)", false},
    {"disk in (ssd)", false},
    {"zone notin (b)", true},
    {"zone notin (a,b)", false},
    {"disk notin (ssd)", true},
    {"gpu", true},
    {"disk", false},
    {"!disk", true},
    {"!gpu", false},
    {"gpu=", true},
    {"zone=a,gpu,!disk", true},
    {"zone=a,disk", false},
    {"", true},
};

static void a_step_goes_only_where_its_selector_lets_it(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':99,'labels':{'zone':'a','gpu':''}");
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        const char *id =
            submit_steps(t, json(t, "[{'id':'a','selector':'%s'}]", selectors[i].selector));
        const char *token = try_claim(t, "r1", "");
        if ((*token != '\0') != selectors[i].takes)
            fail_msg("\"%s\" is wrong: %s", selectors[i].selector, t->answer);
        does(t, pawl_cancel, "%s", json(t, "{'id':'%s','mode':'hard'}", id));
    }
}

static void a_step_fits_by_capabilities_slots_and_the_avoid_list(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':2,'capabilities':['net']");
    have_resource(t, "r2", ",'slots':2,'capabilities':['net','gpu']");
    (void)submit_steps(t, "[{'id':'a','capabilities':['gpu','net']}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    (void)claim_step(t, "r2", "");
    (void)submit_steps(t, "[{'id':'a','avoid':['r2']},{'id':'b','avoid':['r2']},{'id':'c'}]");
    (void)claim_step(t, "r2", "");
    says_text(t, "claims.0.step.id", "c");
    assert_string_equal(try_claim(t, "r2", ""), "");
    does(t, pawl_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"max\":9}");
    says_text(t, "claims.1.step.id", "b");
    resource_says(t, "r1", "used", "2");
    (void)submit_steps(t, "[{'id':'d'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    refuses(t, pawl_claim_steps, PAWL_NOT_FOUND, "{\"worker_id\":\"w\",\"resource_id\":\"r9\"}");
}

static void a_resource_that_drains_keeps_what_it_has_and_gets_no_more(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':5");
    (void)submit_steps(t, "[{'id':'a'},{'id':'b'}]");
    const char *token = claim_step(t, "r1", "");
    have_resource(t, "r1", ",'slots':5,'draining':true");
    assert_string_equal(try_claim(t, "r1", ""), "");
    complete_step(t, token);
    have_resource(t, "r1", ",'slots':5");
    complete_step(t, claim_step(t, "r1", ""));
}

static void a_resource_that_does_not_renew_is_lost_with_its_steps(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"ttl_ms\":3000}");
    have_resource(t, "r2", "");
    const char *id = submit_steps(t, "[{'id':'a'}]");
    does(t, pawl_claim_steps,
         "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"lease_ttl_ms\":60000}");
    const char *token = text_at(t, "claims.0.lease.token");
    pass(c, 2000);
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"ttl_ms\":3000}");
    pass(c, 2000);
    tell(t, pawl_heartbeat, token, "");
    pass(c, 1001);
    trace_becomes(t, id, FIRST_RUN " step_failed_resource step_switching_resource");
    refuses(t, pawl_heartbeat, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_resource_get, PAWL_NOT_FOUND, "{\"id\":\"r1\"}");
    have_resource(t, "r1", "");
    assert_string_equal(try_claim(t, "r1", ""), "");
    complete_step(t, claim_step(t, "r2", ""));
    assert_string_equal(status_of(t, id), "completed");
}

/* ---- what the steps mean for their job ---------------------------------------------------- */

static void a_step_that_fails_ends_the_job_unless_others_may_finish(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':9");
    const char *id = submit_steps(t, "[{'id':'a'},{'id':'b'},{'id':'c','deps':['b']}]");
    const char *a = claim_step(t, "r1", "");
    const char *b = claim_step(t, "r1", "");
    tell(t, pawl_fail, a, failure(t, "permanent"));
    assert_string_equal(status_of(t, id), "failed");
    refuses(t, pawl_complete, PAWL_STALE_LEASE, "%s", json(t, "{'token':'%s'}", b));
    assert_string_equal(try_claim(t, "r1", ""), "");

    id = submit_steps(t, "[{'id':'a','on_failure':'continue'},{'id':'b'},"
                         "{'id':'c','deps':['b']},{'id':'d','deps':['a','c']}]");
    a = claim_step(t, "r1", "");
    says_text(t, "claims.0.step.id", "a");
    b = claim_step(t, "r1", "");
    tell(t, pawl_fail, a, failure(t, "permanent"));
    assert_string_equal(status_of(t, id), "running");
    complete_step(t, b);
    const char *last = claim_step(t, "r1", "");
    says_text(t, "claims.0.step.id", "c");
    complete_step(t, last);
    /* "d" can never run. */
    assert_string_equal(status_of(t, id), "failed");
    assert_string_equal(try_claim(t, "r1", ""), "");
    does(t, pawl_steps, "{\"id\":\"%s\"}", id);
    says_text(t, "steps.3.state", "waiting_deps");
}

static void results_are_inputs_and_the_last_one_is_the_jobs(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':9");
    const char *id = submit_steps(t, "[{'id':'a'},{'id':'b'},{'id':'c','deps':['a','b']}]");
    tell(t, pawl_complete, claim_step(t, "r1", ""), ",'result':{'n':1}");
    tell(t, pawl_complete, claim_step(t, "r1", ""), "");
    const char *token = claim_step(t, "r1", "");
    says_text(t, "claims.0.inputs.a", "{\"n\":1}");
    says_text(t, "claims.0.inputs", "{\"a\":{\"n\":1},\"b\":null}");
    tell(t, pawl_complete, token, ",'result':'sum'");
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "status", "completed");
    says_text(t, "result", "sum");
}

static void a_plan_may_come_later_and_the_job_is_then_its_steps(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", "");
    const char *id = submit_job(t, "");
    does(t, pawl_plan, "%s", json(t, "{'id':'%s','steps':[{'id':'a'}],'reason':'thought'}", id));
    does(t, pawl_claim, "{\"worker_id\":\"w\"}");
    says_text(t, "claims", "[]");
    complete_step(t, claim_step(t, "r1", ""));
    assert_string_equal(status_of(t, id), "completed");
}

static void a_step_beats_shows_progress_and_has_its_time(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", "");
    const char *id = submit_steps(t, "[{'id':'a','timeout_ms':250,'retry':{'max_attempts':2,"
                                     "'strategy':'fixed','initial_ms':500}}]");
    const char *token = claim_step(t, "r1", "");
    for (int i = 0; i < 3; i++) {
        pass(c, 80);
        tell(t, pawl_heartbeat, token, ",'progress':{'page':7},'cursor':'p7'");
    }
    does(t, pawl_steps, "{\"id\":\"%s\"}", id);
    says_text(t, "steps.0.progress.page", "7");
    pass(c, 11);
    trace_becomes(t, id, FIRST_RUN " step_failed_retryable step_retrying");
    refuses(t, pawl_heartbeat, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    pass(c, 499);
    assert_string_equal(try_claim(t, "r1", ""), "");
    pass(c, 1);
    (void)claim_step(t, "r1", "");
    says_text(t, "claims.0.step.cursor", "p7");
    pass(c, 251);
    trace_becomes(t, id,
                  FIRST_RUN " step_failed_retryable step_retrying step_running"
                            " step_failed_fatal step_failed job_failed");
}

static void steps_wait_for_a_time_a_signal_or_a_person(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", "");
    const char *id =
        submit_steps(t, "[{'id':'nap','wait':{'type':'timer','delay_ms':1000}},"
                        "{'id':'paid','deps':['nap'],'wait':{'type':'signal',"
                        "'correlation_key':'order'}},"
                        "{'id':'ok','deps':['paid'],'wait':{'type':'human','prompt':'ship?',"
                        "'choices':['yes','no'],'timeout_ms':2000,'default_answer':'no'}},"
                        "{'id':'ship','deps':['ok']}]");
    assert_string_equal(status_of(t, id), "waiting");
    assert_string_equal(try_claim(t, "r1", ""), "");
    pass(c, 1000);
    (void)wait_for_event(t, id, 0, "step_succeeded");
    does(t, pawl_signal, "%s", json(t, "{'id':'%s','correlation_key':'order','payload':9}", id));
    does(t, pawl_inbox, "{}");
    says_text(t, "questions.0.step", "ok");
    pass(c, 2000);
    (void)claim_step(t, "r1", "");
    says_text(t, "claims.0.inputs.ok", "no");
}

/* ---- verdicts ----------------------------------------------------------------------------- */

static const char *judge(struct talk *t, const char *id, const char *verdict)
{
    does(t, pawl_claim_steps, "{\"worker_id\":\"critic\",\"judge\":true,\"lease_ttl_ms\":100}");
    const char *token = text_at(t, "claims.0.lease.token");
    assert_string_not_equal(token, "");
    does(t, pawl_verdict, "%s",
         json(t, "{'id':'%s','step':'a','token':'%s','reason':'seen',%s}", id, token, verdict));
    return token;
}

#define JUDGED FIRST_RUN " step_finished step_judging"

static void a_critic_judges_what_is_finished(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    static const struct {
        const char *verdict;
        const char *after;
    } verdicts[] = {
        {"'decision':'accept'", " step_succeeded job_completed"},
        {"'decision':'retry'", " step_failed_retryable step_retrying"},
        {"'decision':'switch_resource'", " step_failed_resource step_switching_resource"},
        {"'decision':'replan'", " step_failed_fatal step_failed job_waiting"},
        {"'decision':'needs_user','question':{'prompt':'?'}", " step_needs_user job_waiting"},
    };
    have_resource(t, "r1", ",'slots':9");
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        const char *id = submit_steps(t, "[{'id':'a','critic':true}]");
        tell(t, pawl_complete, claim_step(t, "r1", ""), ",'result':5");
        trace_is(t, id, FIRST_RUN " step_finished");
        /* Whoever did it cannot judge it, and a critic that is lost changes nothing. */
        assert_string_equal(try_claim(t, "r1", ""), "");
        if (i == 0) {
            does(t, pawl_claim_steps,
                 "{\"worker_id\":\"critic\",\"judge\":true,\"lease_ttl_ms\":100}");
            pass(c, STEP_TTL_MS + 1);
            trace_becomes(t, id, JUDGED " step_finished");
        }
        const char *before = i == 0 ? JUDGED " step_finished step_judging" : JUDGED;
        (void)judge(t, id, verdicts[i].verdict);
        trace_is(t, id, phrase(t, "%s%s", before, verdicts[i].after));
        does(t, pawl_verify, "{\"id\":\"%s\"}", id);
        says_text(t, "ok", "true");
        does(t, pawl_events, "{\"id\":\"%s\",\"limit\":100,\"after\":%d}", id, i == 0 ? 9 : 7);
        says_text(t, "events.0.actor", "critic");
        says_text(t, "events.0.reason", "seen");
        (void)attempt(t, pawl_cancel, "%s", json(t, "{'id':'%s','mode':'hard'}", id));
    }
}

static void a_critic_cannot_send_a_step_back_for_ever(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", "");
    const char *id =
        submit_steps(t, "[{'id':'a','critic':true,'retry':{'max_attempts':3,'initial_ms':0}}]");
    for (int i = 0; i < 3; i++) {
        assert_string_equal(status_of(t, id), i == 0 ? "queued" : "running");
        complete_step(t, claim_step(t, "r1", ""));
        (void)judge(t, id, "'decision':'retry'");
    }
    assert_string_equal(status_of(t, id), "failed");
    does(t, pawl_steps, "{\"id\":\"%s\"}", id);
    says_text(t, "steps.0.failures", "3");
    says_text(t, "steps.0.verdict", "retry");
}

static void a_new_plan_keeps_what_is_finished(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", "");
    const char *id = submit_steps(t, "[{'id':'a'},{'id':'b','deps':['a']}]");
    tell(t, pawl_complete, claim_step(t, "r1", ""), ",'result':'kept'");
    const char *token = claim_step(t, "r1", "");
    does(t, pawl_verdict, "%s",
         json(t, "{'id':'%s','step':'b','token':'%s','decision':'replan'}", id, token));
    assert_string_equal(status_of(t, id), "waiting");
    does(t, pawl_plan, "%s",
         json(t, "{'id':'%s','steps':[{'id':'a'},{'id':'x','deps':['a']}]}", id));
    token = claim_step(t, "r1", "");
    says_text(t, "claims.0.step.id", "x");
    says_text(t, "claims.0.inputs.a", "kept");
    complete_step(t, token);
    assert_string_equal(status_of(t, id), "completed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_resource_that_fails_often_is_rested_for_a_while),
        ON_EVERY_STORE_TICKING(a_claim_that_waits_gets_its_step_when_the_rest_is_over),
        ON_EVERY_STORE(a_lease_that_is_lost_counts_against_its_resource),
        ON_EVERY_STORE(what_a_step_gets_wrong_by_itself_rests_nobody),
        ON_EVERY_STORE(a_step_goes_only_where_its_selector_lets_it),
        ON_EVERY_STORE(a_step_fits_by_capabilities_slots_and_the_avoid_list),
        ON_EVERY_STORE(a_resource_that_drains_keeps_what_it_has_and_gets_no_more),
        ON_EVERY_STORE(a_resource_that_does_not_renew_is_lost_with_its_steps),
        ON_EVERY_STORE(a_step_that_fails_ends_the_job_unless_others_may_finish),
        ON_EVERY_STORE(results_are_inputs_and_the_last_one_is_the_jobs),
        ON_EVERY_STORE(a_plan_may_come_later_and_the_job_is_then_its_steps),
        ON_EVERY_STORE(a_step_beats_shows_progress_and_has_its_time),
        ON_EVERY_STORE(steps_wait_for_a_time_a_signal_or_a_person),
        ON_EVERY_STORE(a_critic_judges_what_is_finished),
        ON_EVERY_STORE(a_critic_cannot_send_a_step_back_for_ever),
        ON_EVERY_STORE(a_new_plan_keeps_what_is_finished),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
