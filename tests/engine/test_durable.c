/* Durable execution as users see it: waits, timers, parked jobs, people, effects, and what a worker
 * is told when it takes a job up again. Each on every store, through pawl.h. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/library_case.h"

#define FIRST_ATTEMPT "job_created job_leased job_running"
#define NEXT_ATTEMPT " job_leased job_running"

enum { HOUR_MS = 60 * 60 * 1000 };

static void complete(struct talk *t, const char *token)
{
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    says_text(t, "status", "completed");
}

/* ---- waits -------------------------------------------------------------------------------- */

static void a_wait_gives_the_lease_up_and_a_signal_lets_anybody_go_on(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume", "");
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"webhook\",\"correlation_key\":\"paid\"}",
         token);
    says_text(t, "status", "waiting");
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"webhook\",\"correlation_key\":\"paid\"}",
         token);
    says_text(t, "repeated", "true"); /* as if the answer had been lost */
    refuses(t, pawl_heartbeat, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    does(t, pawl_claim, "{\"worker_id\":\"w2\"}");
    assert_string_equal(t->answer, "{\"claims\":[]}");
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "wait.type", "webhook");
    says_text(t, "wait.correlation_key", "paid");
    says_text(t, "wait.until", "");
    says_text(t, "lease", "");

    /* However long it takes, nothing but the signal wakes it. */
    pass(c, 365LL * 24 * HOUR_MS);
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":{\"amount\":5}}",
         id);
    says_text(t, "signal", "delivered");
    says_text(t, "job.status", "queued");
    token = claim_job(t, "w2");
    says_text(t, "claims.0.resume.correlation_key", "paid");
    says_text(t, "claims.0.resume.outcome", "signal");
    says_text(t, "claims.0.resume.payload", "{\"amount\":5}");
    complete(t, token);
    trace_is(t, id, FIRST_ATTEMPT " job_waiting wait_completed" NEXT_ATTEMPT " job_completed");
    is_sound(t, id);
}

static void a_timer_of_some_delay_ends_by_itself(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"timer\",\"delay_ms\":100}",
         claim_job(t, "w1"));
    says_text(t, "status", "waiting");
    pass(c, 99);
    does(t, pawl_events, "{\"id\":\"%s\",\"after\":4,\"wait_ms\":250}", id);
    says_text(t, "events.0.type", ""); /* not a moment too early */
    pass(c, 1);
    trace_becomes(t, id, FIRST_ATTEMPT " job_waiting wait_completed");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.outcome", "timeout");
    complete(t, token);
    is_sound(t, id);
}

static void a_timer_until_some_time_ends_then(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    does(t, pawl_wait,
         "{\"token\":\"%s\",\"type\":\"timer\",\"until\":\"2026-01-01T00:00:00.100Z\"}",
         claim_job(t, "w1"));
    says_text(t, "status", "waiting");
    pass(c, 100);
    trace_becomes(t, id, FIRST_ATTEMPT " job_waiting wait_completed");

    /* A time that is over does not block. */
    does(t, pawl_wait,
         "{\"token\":\"%s\",\"type\":\"timer\",\"until\":\"2026-01-01T00:00:00.050Z\"}",
         claim_job(t, "w1"));
    says_text(t, "status", "queued");
    complete(t, claim_job(t, "w1"));
    trace_is(t, id,
             FIRST_ATTEMPT " job_waiting wait_completed" NEXT_ATTEMPT " wait_completed" NEXT_ATTEMPT
                           " job_completed");
    is_sound(t, id);
}

static void a_wait_that_makes_no_sense_is_refused_and_the_lease_goes_on(void **state)
{
    static const char *const wrong[] = {
        "\"type\":\"timer\"",
        "\"type\":\"timer\",\"delay_ms\":5,\"until\":\"2026-01-01T00:00:00.000Z\"",
        "\"type\":\"timer\",\"delay_ms\":5,\"timeout_ms\":5",
        "\"type\":\"timer\",\"delay_ms\":-5",
        "\"type\":\"signal\"",
        "\"type\":\"signal\",\"correlation_key\":\"\"",
        "\"type\":\"signal\",\"correlation_key\":\"k\",\"delay_ms\":5",
        "\"type\":\"signal\",\"correlation_key\":\"k\",\"timeout_ms\":-1",
        "\"type\":\"human\",\"correlation_key\":\"k\",\"choices\":\"yes\"",
        "\"type\":\"sleep\",\"correlation_key\":\"k\"",
    };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refuses(t, pawl_wait, PAWL_BAD_REQUEST, "{\"token\":\"%s\",%s}", token, wrong[i]);
    complete(t, token);
    trace_is(t, id, FIRST_ATTEMPT " job_completed");
}

static void a_job_is_parked_when_asked_or_when_the_wait_is_long(void **state)
{
    static const char *const waits[] = {
        "\"type\":\"signal\",\"correlation_key\":\"k\",\"park\":true",
        "\"type\":\"signal\",\"correlation_key\":\"k\",\"timeout_ms\":3600001",
        "\"type\":\"timer\",\"correlation_key\":\"k\",\"delay_ms\":86400000",
    };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        const char *id = submit_job(t, "");
        does(t, pawl_wait, "{\"token\":\"%s\",%s}", claim_job(t, "w1"), waits[i]);
        says_text(t, "status", "parked");
        does(t, pawl_events, "{\"id\":\"%s\",\"after\":3}", id);
        says_text(t, "events.0.payload.parked", "true");
        does(t, pawl_claim, "{\"worker_id\":\"w2\"}");
        assert_string_equal(t->answer, "{\"claims\":[]}");
        refuses(t, pawl_signal, PAWL_WRONG_CORRELATION_KEY,
                "{\"id\":\"%s\",\"correlation_key\":\"other\"}", id);
        does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":1}", id);
        says_text(t, "signal", "delivered");
        const char *token = claim_job(t, "w1");
        says_text(t, "claims.0.resume.payload", "1");
        complete(t, token);
        is_sound(t, id);
    }
}

static void a_parked_job_is_woken_by_its_timeout_and_ended_by_cancellation(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *late = submit_job(t, "");
    does(t, pawl_wait,
         "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\",\"timeout_ms\":%d}",
         claim_job(t, "w1"), 2 * HOUR_MS);
    says_text(t, "status", "parked");
    const char *ended = submit_job(t, "");
    does(t, pawl_wait,
         "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\",\"park\":true}",
         claim_job(t, "w1"));
    does(t, pawl_cancel, "{\"id\":\"%s\",\"reason\":\"no longer wanted\"}", ended);
    says_text(t, "status", "cancelled");
    pass(c, 2 * HOUR_MS);
    trace_becomes(t, late, FIRST_ATTEMPT " job_waiting wait_completed");
    trace_is(t, ended, FIRST_ATTEMPT " job_waiting job_cancelled");
    complete(t, claim_job(t, "w1"));
    is_sound(t, late);
    is_sound(t, ended);
}

static void timers_and_signals_run_on_while_the_store_is_closed(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *timer = submit_job(t, "");
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"timer\",\"delay_ms\":1000}",
         claim_job(t, "w1"));
    const char *early = submit_job(t, ",\"queue\":\"early\"");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":[1]}", early);
    case_close(c);
    pass(c, 1000);
    case_reopen(c);
    trace_becomes(t, timer, FIRST_ATTEMPT " job_waiting wait_completed");
    does(t, pawl_claim, "{\"worker_id\":\"w1\",\"queues\":[\"early\"]}");
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}",
         text_at(t, "claims.0.lease.token"));
    says_text(t, "status", "queued");
    does(t, pawl_claim, "{\"worker_id\":\"w1\",\"queues\":[\"early\"]}");
    says_text(t, "claims.0.resume.payload", "[1]");
    is_sound(t, timer);
    is_sound(t, early);
}

/* ---- people ------------------------------------------------------------------------------- */

static void a_question_to_a_person_is_in_the_inbox_until_it_is_answered(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    does(t, pawl_wait,
         "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"refund\","
         "\"prompt\":\"Refund 500 to Ada?\",\"choices\":[\"yes\",\"no\"],\"assignee\":\"bob\","
         "\"timeout_ms\":60000}",
         claim_job(t, "w1"));
    says_text(t, "status", "waiting");
    does(t, pawl_inbox, "{}");
    says_text(t, "questions.0.id", id);
    says_text(t, "questions.0.kind", "work");
    says_text(t, "questions.0.correlation_key", "refund");
    says_text(t, "questions.0.prompt", "Refund 500 to Ada?");
    says_text(t, "questions.0.choices", "[\"yes\",\"no\"]");
    says_text(t, "questions.0.assignee", "bob");
    says_text(t, "questions.0.since", "2026-01-01T00:00:00.000Z");
    says_text(t, "questions.0.until", "2026-01-01T00:01:00.000Z");
    says_text(t, "questions.1", "");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"refund\",\"payload\":\"yes\"}", id);
    says_text(t, "signal", "delivered");
    does(t, pawl_inbox, "{}");
    says_text(t, "questions.0", "");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.payload", "yes");
    complete(t, token);
    is_sound(t, id);
}

static void a_question_that_nobody_answers_ends_with_its_deadline(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    does(t, pawl_wait,
         "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"refund\","
         "\"prompt\":\"Refund?\",\"timeout_ms\":100}",
         claim_job(t, "w1"));
    pass(c, 100);
    trace_becomes(t, id, FIRST_ATTEMPT " job_waiting wait_completed");
    does(t, pawl_inbox, "{}");
    says_text(t, "questions.0", "");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.outcome", "timeout");
    complete(t, token);
    is_sound(t, id);
}

/* ---- effects ------------------------------------------------------------------------------ */

static void one_call_commits_an_effect_and_begins_the_next(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"a\",\"input\":1}", token);
    says_text(t, "status", "execute");
    const char *commit = phrase(t,
                                "{\"token\":\"%s\",\"key\":\"a\",\"result\":\"A\","
                                "\"next\":{\"key\":\"b\",\"input\":2}}",
                                token);
    does(t, pawl_effect_commit, "%s", commit);
    says_text(t, "status", "execute");
    assert_string_not_equal(text_at(t, "idempotency_key"), "");
    trace_is(t, id, FIRST_ATTEMPT " tool_called tool_returned tool_called");
    /* Its answer was lost: the same once more, and nothing is added. */
    does(t, pawl_effect_commit, "%s", commit);
    says_text(t, "status", "execute");
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"b\",\"result\":\"B\"}", token);
    says_text(t, "status", "recorded");
    complete(t, token);
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called tool_returned tool_called tool_returned job_completed");
    is_sound(t, id);
}

static void an_attempt_that_asks_again_may_execute_and_leaves_one_event(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    for (int i = 0; i < 3; i++) {
        does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"a\",\"input\":1}", token);
        says_text(t, "status", "execute");
    }
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"a\",\"result\":[1]}", token);
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"a\",\"input\":1}", token);
    says_text(t, "status", "recorded");
    says_text(t, "result", "[1]");
    trace_is(t, id, FIRST_ATTEMPT " tool_called tool_returned");
    complete(t, token);
    is_sound(t, id);
}

static void a_replay_that_differs_is_refused(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"a\",\"input\":1}", token);
    refuses(t, pawl_effect_begin, PAWL_REPLAY_MISMATCH,
            "{\"token\":\"%s\",\"key\":\"a\",\"input\":2}", token);
    refuses(t, pawl_effect_begin, PAWL_REPLAY_MISMATCH, "{\"token\":\"%s\",\"key\":\"a\"}", token);
    refuses(t, pawl_effect_commit, PAWL_NOT_FOUND, "{\"token\":\"%s\",\"key\":\"b\",\"result\":1}",
            token);
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"a\",\"result\":\"A\"}", token);
    refuses(t, pawl_effect_commit, PAWL_REPLAY_MISMATCH,
            "{\"token\":\"%s\",\"key\":\"a\",\"result\":\"B\"}", token);
    does(t, pawl_release, "{\"token\":\"%s\"}", token);
    token = claim_job(t, "w2");
    refuses(t, pawl_effect_begin, PAWL_REPLAY_MISMATCH,
            "{\"token\":\"%s\",\"key\":\"a\",\"input\":3}", token);
    /* Nor does half of a call that fails happen. */
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"c\"}", token);
    refuses(t, pawl_effect_commit, PAWL_REPLAY_MISMATCH,
            "{\"token\":\"%s\",\"key\":\"c\",\"result\":1,\"next\":{\"key\":\"a\",\"input\":3}}",
            token);
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called tool_returned job_requeued" NEXT_ATTEMPT " tool_called");
    is_sound(t, id);
}

/* Has the job call two tools, in the order of the keys. */
static void call_two(struct talk *t, const char *keys)
{
    const char *token = claim_job(t, "w1");
    for (int i = 0; i < 2; i++) {
        does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"%c\"}", token, keys[i]);
        says_text(t, "status", "execute");
    }
    for (int i = 0; i < 2; i++)
        does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"%c\",\"result\":%d}", token,
             keys[i], i);
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"no\"}}",
         token);
}

static void a_fresh_start_may_call_tools_in_another_order(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    call_two(t, "ab");
    is_sound(t, id);
    does(t, pawl_requeue, "{\"id\":\"%s\",\"fresh\":true}", id);
    call_two(t, "ba");
    is_sound(t, id);
    does(t, pawl_requeue, "{\"id\":\"%s\",\"fresh\":true}", id);
    const char *token = claim_job(t, "w1");
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"b\"}", token);
    is_sound(t, id);
}

static void nothing_ends_well_while_an_effect_is_open(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"charge\"}", token);
    refuses(t, pawl_complete, PAWL_INVALID_TRANSITION, "{\"token\":\"%s\"}", token);
    assert_non_null(strstr(t->error.message, "charge")); /* it says which */
    refuses(t, pawl_wait, PAWL_INVALID_TRANSITION,
            "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}", token);
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"charge\"}", token);
    complete(t, token);
    trace_is(t, id, FIRST_ATTEMPT " tool_called tool_returned job_completed");
    is_sound(t, id);
}

static void results_of_effects_survive_a_requeue_unless_it_starts_afresh(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *keys[3];
    for (int round = 0; round < 3; round++) {
        const char *token = claim_job(t, "w1");
        does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"a\"}", token);
        says_text(t, "status", round == 1 ? "recorded" : "execute");
        keys[round] = text_at(t, "idempotency_key");
        if (round != 1)
            does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"a\",\"result\":7}", token);
        does(t, pawl_fail,
             "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"no\"}}", token);
        says_text(t, "status", "failed");
        does(t, pawl_requeue, "{\"id\":\"%s\",\"fresh\":%s}", id, round == 0 ? "false" : "true");
        says_text(t, "status", "queued");
        assert_int_equal(int_at(t, "epoch"), round + 2);
        says_text(t, "failures", "0");
    }
    assert_string_equal(keys[0], keys[1]);
    assert_string_not_equal(keys[1], keys[2]);
    complete(t, claim_job(t, "w1"));
    is_sound(t, id);
}

/* ---- taking a job up again ---------------------------------------------------------------- */

static void whoever_takes_a_job_up_again_is_told_what_happened_so_far(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"payload\":{\"n\":1}");
    const char *token = claim_job(t, "w1");
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"a\",\"input\":1}", token);
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"a\",\"result\":\"A\"}", token);
    does(t, pawl_append,
         "{\"id\":\"%s\",\"token\":\"%s\",\"events\":[{\"type\":\"agent.thought\","
         "\"payload\":{\"text\":\"hm\"}}]}",
         id, token);
    does(t, pawl_heartbeat, "{\"token\":\"%s\",\"progress\":{\"pages\":3},\"cursor\":\"page 4\"}",
         token);
    says_text(t, "cancel_requested", "false");
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}", token);
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":8}", id);
    does(t, pawl_claim, "{\"worker_id\":\"w2\",\"history\":true}");
    says_text(t, "claims.0.job.payload", "{\"n\":1}");
    says_text(t, "claims.0.job.progress", "{\"pages\":3}");
    says_text(t, "claims.0.job.cursor", "page 4");
    says_text(t, "claims.0.resume.payload", "8");
    says_text(t, "claims.0.events_next", "");
    static const char *const types[] = {
        "job_created",   "job_leased",  "job_running",    "tool_called", "tool_returned",
        "agent.thought", "job_waiting", "wait_completed", "job_leased",  "job_running",
    };
    for (int i = 0; i < 10; i++)
        says_text(t, phrase(t, "claims.0.events.%d.type", i), types[i]);
    says_text(t, "claims.0.events.10", "");
    says_text(t, "claims.0.events.3.payload.input", "1");
    says_text(t, "claims.0.events.4.payload.result", "A");
    says_text(t, "claims.0.events.5.payload.text", "hm");
    says_text(t, "claims.0.events.7.payload.payload", "8");
    complete(t, text_at(t, "claims.0.lease.token"));
    is_sound(t, id);
}

static void what_a_dead_worker_had_told_is_there_for_the_next(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_heartbeat, "{\"token\":\"%s\",\"progress\":{\"pages\":3},\"cursor\":\"page 4\"}",
         token);
    pass(c, LEASE_MS + 1);
    trace_becomes(t, id, FIRST_ATTEMPT " job_requeued");
    token = claim_job(t, "w2");
    says_text(t, "claims.0.job.cursor", "page 4");
    says_text(t, "claims.0.job.progress", "{\"pages\":3}");
    says_text(t, "claims.0.job.error.class", "timeout");
    says_text(t, "claims.0.resume", ""); /* it did not wait */
    complete(t, token);
    is_sound(t, id);
}

/* ---- an agent ----------------------------------------------------------------------------- */

/* A loop over tools with a question in the middle, that dies before its nth word to the store. */
struct agent {
    struct talk *talk;
    const char *id;
    const char *token;
    int words;        /* until it dies */
    int calls[4];     /* how often each tool was called */
    const char *seen; /* what the tools and the person said */
};

/* Whether the agent is still alive. */
static bool lives(struct agent *agent)
{
    return agent->words-- > 0;
}

/* Calls a tool under its key unless its result is known. */
static bool use_tool(struct agent *agent, int tool)
{
    struct talk *t = agent->talk;
    if (!lives(agent))
        return false;
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"tool%d\",\"input\":{\"n\":%d}}",
         agent->token, tool, tool);
    const char *status = text_at(t, "status");
    const char *result = text_at(t, "result");
    if (strcmp(status, "recorded") != 0) {
        assert_string_equal(status, "execute");
        agent->calls[tool]++;
        if (!lives(agent))
            return false;
        does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"tool%d\",\"result\":%d}",
             agent->token, tool, tool * 10);
        result = phrase(t, "%d", tool * 10);
    }
    agent->seen = phrase(t, "%s %s", agent->seen, result);
    return true;
}

/* One attempt, from the beginning as every time. True: the job is done. */
static bool run_agent(struct agent *agent)
{
    struct talk *t = agent->talk;
    agent->token = claim_job(t, "agent");
    bool answered = strcmp(text_at(t, "claims.0.resume.outcome"), "signal") == 0 ||
                    strstr(trace_of(t, agent->id), "wait_completed") != NULL;
    agent->seen = "";
    if (!use_tool(agent, 0) || !use_tool(agent, 1))
        return false;
    if (!answered) {
        if (!lives(agent))
            return false;
        does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"ok\"}",
             agent->token);
        does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"ok\",\"payload\":\"go\"}",
             agent->id);
        return run_agent(agent);
    }
    if (!use_tool(agent, 2) || !use_tool(agent, 3) || !lives(agent))
        return false;
    complete(t, agent->token);
    return true;
}

static void an_agent_that_dies_anywhere_goes_on_as_if_it_had_not(void **state)
{
    enum { WORDS = 12 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    for (int words = 0; words <= WORDS; words++) {
        struct agent agent = {.talk = t, .words = words};
        agent.id = submit_job(t, ",\"in_doubt\":\"retry\"");
        bool done = run_agent(&agent);
        if (!done) {
            pass(c, LEASE_MS + 1);
            does(t, pawl_get, "{\"id\":\"%s\"}", agent.id);
            (void)wait_for_event(t, agent.id, int_at(t, "version") - 1, "job_requeued");
            agent.words = 1000;
            done = run_agent(&agent);
        }
        assert_true(done);
        assert_string_equal(agent.seen, " 0 10 20 30");
        int calls = 0;
        for (int tool = 0; tool < 4; tool++)
            calls += agent.calls[tool];
        assert_in_range(calls, 4, 5); /* one at most was in doubt */
        is_sound(t, agent.id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_wait_gives_the_lease_up_and_a_signal_lets_anybody_go_on),
        ON_EVERY_STORE(a_timer_of_some_delay_ends_by_itself),
        ON_EVERY_STORE(a_timer_until_some_time_ends_then),
        ON_EVERY_STORE(a_wait_that_makes_no_sense_is_refused_and_the_lease_goes_on),
        ON_EVERY_STORE(a_job_is_parked_when_asked_or_when_the_wait_is_long),
        ON_EVERY_STORE(a_parked_job_is_woken_by_its_timeout_and_ended_by_cancellation),
        CASE_ON("sqlite", TEST_SQLITE, timers_and_signals_run_on_while_the_store_is_closed,
                case_setup),
        CASE_ON("postgres", TEST_POSTGRES, timers_and_signals_run_on_while_the_store_is_closed,
                case_setup),
        ON_EVERY_STORE(a_question_to_a_person_is_in_the_inbox_until_it_is_answered),
        ON_EVERY_STORE(a_question_that_nobody_answers_ends_with_its_deadline),
        ON_EVERY_STORE(one_call_commits_an_effect_and_begins_the_next),
        ON_EVERY_STORE(an_attempt_that_asks_again_may_execute_and_leaves_one_event),
        ON_EVERY_STORE(a_replay_that_differs_is_refused),
        ON_EVERY_STORE(a_fresh_start_may_call_tools_in_another_order),
        ON_EVERY_STORE(nothing_ends_well_while_an_effect_is_open),
        ON_EVERY_STORE(results_of_effects_survive_a_requeue_unless_it_starts_afresh),
        ON_EVERY_STORE(whoever_takes_a_job_up_again_is_told_what_happened_so_far),
        ON_EVERY_STORE(what_a_dead_worker_had_told_is_there_for_the_next),
        ON_EVERY_STORE(an_agent_that_dies_anywhere_goes_on_as_if_it_had_not),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
