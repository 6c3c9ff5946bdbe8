/* Effects as workers use them: aborted, recorded as failures, with a policy and a fingerprint of
 * their own, and committed together with what follows. Each on every store, through pawl.h. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/library_case.h"

#define FIRST_ATTEMPT "job_created job_leased job_running"
#define NEXT_ATTEMPT " job_requeued job_leased job_running"
#define PRINT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *begin(struct talk *t, const char *token, const char *key, const char *members)
{
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"%s\"%s}", token, key, members);
    return text_at(t, "status");
}

static void commit(struct talk *t, const char *token, const char *key, const char *members)
{
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"%s\"%s}", token, key, members);
}

/* The worker dies; the next one claims. */
static const char *taken_over(struct library_case *c)
{
    pass(c, LEASE_MS + 1);
    return claim_job(&c->talk, "w2");
}

/* ---- abort -------------------------------------------------------------------------------- */

static void an_aborted_effect_is_in_no_doubt(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"in_doubt\":\"fail\"");
    const char *token = claim_job(t, "w1");
    assert_string_equal(begin(t, token, "model", ",\"input\":1"), "execute");
    const char *abort = phrase(t,
                               "{\"token\":\"%s\",\"key\":\"model\","
                               "\"error\":{\"message\":\"429\",\"details\":{\"after\":3}}}",
                               token);
    does(t, pawl_effect_abort, "%s", abort);
    assert_string_equal(t->answer, "{\"status\":\"aborted\"}");
    does(t, pawl_effect_abort, "%s", abort);
    says_text(t, "repeated", "true");
    assert_string_equal(begin(t, token, "model", ",\"input\":1"), "execute");
    does(t, pawl_effect_abort, "%s", abort);
    token = taken_over(c);
    assert_string_equal(begin(t, token, "model", ",\"input\":1"), "execute");
    commit(t, token, "model", ",\"result\":\"hello\"");
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called tool_aborted tool_called tool_aborted" NEXT_ATTEMPT
                           " tool_called tool_returned job_completed");
    does(t, pawl_events, "{\"id\":\"%s\",\"after\":4,\"limit\":1}", id);
    says_text(t, "events.0.payload.error.message", "429");
    is_sound(t, id);
}

static void an_abort_that_makes_no_sense_is_refused(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"in_doubt\":\"retry\"");
    const char *token = claim_job(t, "w1");
    const char *why = "\"error\":{\"message\":\"429\"}";
    refuses(t, pawl_effect_abort, PAWL_NOT_FOUND, "{\"token\":\"%s\",\"key\":\"a\",%s}", token,
            why);
    begin(t, token, "a", "");
    begin(t, token, "b", "");
    commit(t, token, "b", "");
    refuses(t, pawl_effect_abort, PAWL_INVALID_TRANSITION, "{\"token\":\"%s\",\"key\":\"b\",%s}",
            token, why);
    refuses(t, pawl_effect_abort, PAWL_BAD_REQUEST, "{\"token\":\"%s\",\"key\":\"a\"}", token);
    assert_non_null(strstr(t->error.message, "error.message is required"));
    refuses(t, pawl_effect_abort, PAWL_BAD_REQUEST,
            "{\"token\":\"%s\",\"key\":\"a\",\"error\":\"429\"}", token);
    assert_non_null(strstr(t->error.message, "error"));
    refuses(t, pawl_effect_abort, PAWL_UNKNOWN_FIELD,
            "{\"token\":\"%s\",\"key\":\"a\",\"error\":{\"message\":\"m\",\"colour\":1}}", token);
    assert_non_null(strstr(t->error.message, "colour"));
    refuses(t, pawl_effect_abort, PAWL_UNKNOWN_FIELD,
            "{\"token\":\"%s\",\"key\":\"a\",%s,\"result\":1}", token, why);
    refuses(t, pawl_effect_abort, PAWL_STALE_LEASE, "{\"token\":\"no\",\"key\":\"a\",%s}", why);
    token = taken_over(c);
    refuses(t, pawl_effect_abort, PAWL_INVALID_TRANSITION, "{\"token\":\"%s\",\"key\":\"a\",%s}",
            token, why);
    trace_is(t, id, FIRST_ATTEMPT " tool_called tool_called tool_returned" NEXT_ATTEMPT);
    is_sound(t, id);
}

/* ---- failures that are recorded ----------------------------------------------------------- */

static void a_failure_that_is_committed_is_given_again(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    begin(t, token, "charge", ",\"input\":5");
    refuses(t, pawl_effect_commit, PAWL_BAD_REQUEST,
            "{\"token\":\"%s\",\"key\":\"charge\",\"result\":1,\"error\":{\"message\":\"no\"}}",
            token);
    refuses(t, pawl_effect_commit, PAWL_BAD_REQUEST,
            "{\"token\":\"%s\",\"key\":\"charge\",\"error\":{\"class\":\"permanent\"}}", token);
    commit(t, token, "charge", ",\"error\":{\"message\":\"declined\", \"class\":\"permanent\"}");
    assert_string_equal(t->answer, "{\"status\":\"recorded\"}");
    token = taken_over(c);
    assert_string_equal(begin(t, token, "charge", ",\"input\":5"), "recorded");
    says_text(t, "error",
              "{\"message\":\"declined\", \"class\":\"permanent\"}"); /* byte for byte */
    assert_null(strstr(t->answer, "\"result\""));
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    is_sound(t, id);
}

/* ---- what follows a commit ---------------------------------------------------------------- */

static void a_commit_is_one_with_what_follows(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    begin(t, token, "a", "");
    commit(t, token, "a", ",\"result\":1,\"then\":{\"begin\":{\"key\":\"b\",\"input\":2}}");
    says_text(t, "status", "execute");
    assert_non_null(strstr(text_at(t, "idempotency_key"), "/b"));
    commit(t, token, "b",
           ",\"result\":2,\"then\":{\"wait\":{\"type\":\"signal\",\"correlation_key\":\"k\"}}");
    says_text(t, "status", "waiting");
    says_text(t, "id", id);
    commit(t, token, "b",
           ",\"result\":2,\"then\":{\"wait\":{\"type\":\"signal\",\"correlation_key\":\"k\"}}");
    says_text(t, "repeated", "true");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":7}", id);
    token = claim_job(t, "w2");
    begin(t, token, "c", "");
    commit(t, token, "c", ",\"then\":{\"complete\":{\"result\":{\"all\":true}}}");
    says_text(t, "status", "completed");
    commit(t, token, "c", ",\"then\":{\"complete\":{\"result\":{\"all\":true}}}");
    says_text(t, "repeated", "true");
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "result", "{\"all\":true}");
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called tool_returned tool_called tool_returned job_waiting "
                           "wait_completed job_leased job_running tool_called tool_returned "
                           "job_completed");
    is_sound(t, id);
}

static void a_commit_may_wait_for_a_time_and_for_what_is_there(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":7}", id);
    begin(t, token, "a", "");
    commit(t, token, "a", ",\"then\":{\"wait\":{\"type\":\"webhook\",\"correlation_key\":\"k\"}}");
    says_text(t, "status", "queued"); /* it did not have to wait */
    token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.payload", "7");
    begin(t, token, "b", "");
    commit(t, token, "b", ",\"then\":{\"wait\":{\"delay_ms\":500}}");
    says_text(t, "status", "waiting");
    pass(c, 500);
    token = claim_job(t, "w1");
    begin(t, token, "c", "");
    commit(t, token, "c", ",\"then\":{\"complete\":{}}");
    says_text(t, "status", "completed");
    is_sound(t, id);
}

static void what_cannot_follow_leaves_the_effect_open(void **state)
{
    static const struct {
        enum pawl_code code;
        const char *members;
        const char *says;
    } cases[] = {
        {PAWL_BAD_REQUEST, ",\"then\":{}", "then must contain one of begin, wait and complete"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"wait\":{\"delay_ms\":5},\"complete\":{}}", "not several"},
        {PAWL_UNKNOWN_FIELD, ",\"then\":{\"sleep\":{}}", "sleep"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"begin\":{\"input\":1}}", "then.begin.key is required"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"wait\":{\"type\":\"rain\"}}", "rain"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"wait\":{\"type\":\"signal\"}}", "correlation_key"},
        {PAWL_BAD_REQUEST, ",\"then\":7", "then"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"complete\":{}},\"next\":{\"key\":\"b\"}", "exclude"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"begin\":{\"key\":\"b\",\"fingerprint\":\"ab\"}}",
         "64 hex digits"},
        {PAWL_BAD_REQUEST, ",\"then\":{\"begin\":{\"key\":\"b\",\"in_doubt\":\"maybe\"}}", "maybe"},
        {PAWL_INVALID_TRANSITION, ",\"then\":{\"complete\":{}}", "\"b\" is open"},
    };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    begin(t, token, "a", "");
    begin(t, token, "b", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuses(t, pawl_effect_commit, cases[i].code, "{\"token\":\"%s\",\"key\":\"a\"%s}", token,
                cases[i].members);
        if (strstr(t->error.message, cases[i].says) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", t->error.message, cases[i].says);
    }
    trace_is(t, id, FIRST_ATTEMPT " tool_called tool_called");
    is_sound(t, id);
}

static void a_batch_takes_effects_as_well(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_batch,
         "{\"ops\":[{\"op\":\"effect_begin\",\"token\":\"%s\",\"key\":\"a\"},"
         "{\"op\":\"effect_begin\",\"token\":\"%s\",\"key\":\"b\"}]}",
         token, token);
    says_text(t, "results.1.body.status", "execute");
    does(t, pawl_batch,
         "{\"ops\":[{\"op\":\"effect_abort\",\"token\":\"%s\",\"key\":\"a\","
         "\"error\":{\"message\":\"429\"}},"
         "{\"op\":\"effect_commit\",\"token\":\"%s\",\"key\":\"b\",\"result\":1,"
         "\"then\":{\"complete\":{\"result\":2}}}]}",
         token, token);
    says_text(t, "results.0.body.status", "aborted");
    says_text(t, "results.1.body.status", "completed");
    is_sound(t, id);
}

/* ---- of steps ----------------------------------------------------------------------------- */

static const char *claim_step(struct talk *t)
{
    does(t, pawl_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    return text_at(t, "claims.0.lease.token");
}

static void a_commit_of_a_step_completes_it_and_waits_for_nothing(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"slots\":10}");
    const char *id = submit_job(t, ",\"plan\":{\"steps\":[{\"id\":\"s\",\"kind\":\"x\"},"
                                   "{\"id\":\"u\",\"kind\":\"x\",\"deps\":[\"s\"]}]}");
    const char *token = claim_step(t);
    begin(t, token, "a", "");
    refuses(t, pawl_effect_commit, PAWL_INVALID_TRANSITION,
            "{\"token\":\"%s\",\"key\":\"a\",\"then\":{\"wait\":{\"delay_ms\":5}}}", token);
    assert_non_null(strstr(t->error.message, "a step cannot wait"));
    does(t, pawl_effect_abort, "{\"token\":\"%s\",\"key\":\"a\",\"error\":{\"message\":\"429\"}}",
         token);
    begin(t, token, "a", "");
    commit(t, token, "a", ",\"result\":1,\"then\":{\"complete\":{\"result\":\"S\"}}");
    says_text(t, "state", "succeeded");
    token = claim_step(t);
    says_text(t, "claims.0.inputs.s", "S");
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    says_text(t, "status", "completed");
    does(t, pawl_verify, "{\"id\":\"%s\"}", id);
    says_text(t, "ok", "true");
}

/* ---- what a claim carries ----------------------------------------------------------------- */

#define EFFECT_OF "claims.0.effects."

static void a_claim_carries_effects_and_waits_since_the_last_fresh_start(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"retry\":{\"max_attempts\":9,\"initial_ms\":0}");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.effects", "{}");
    says_text(t, "claims.0.waits", "{}");
    begin(t, token, "a", ",\"input\":\"x\"");
    commit(t, token, "a", ",\"result\":{\"n\":1.10}");
    begin(t, token, "declined", "");
    commit(t, token, "declined", ",\"error\":{\"message\":\"no\"}");
    begin(t, token, "model", ",\"fingerprint\":\"" PRINT "\"");
    does(t, pawl_effect_abort,
         "{\"token\":\"%s\",\"key\":\"model\",\"error\":{\"message\":\"429\"}}", token);
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}", token);
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":[ 7 ]}", id);
    token = claim_job(t, "w1");
    does(t, pawl_wait, "{\"token\":\"%s\",\"delay_ms\":5,\"correlation_key\":\"nap\"}", token);
    pass(c, 5);
    token = claim_job(t, "w1");
    begin(t, token, "pay", ",\"in_doubt\":\"ask\"");
    token = taken_over(c);
    says_text(t, EFFECT_OF "a.status", "recorded");
    says_text(t, EFFECT_OF "a.result", "{\"n\":1.10}");
    says_text(t, EFFECT_OF "a.input_hash", "ba2df4903a2c14e86dc3bcca58911b44");
    says_text(t, EFFECT_OF "a.at", "2026-01-01T00:00:00.000Z");
    says_text(t, EFFECT_OF "declined.status", "recorded");
    says_text(t, EFFECT_OF "declined.error.message", "no");
    says_text(t, EFFECT_OF "model.status", "aborted");
    says_text(t, EFFECT_OF "model.error.message", "429");
    says_text(t, EFFECT_OF "model.input_hash", PRINT);
    says_text(t, EFFECT_OF "pay.status", "open");
    says_text(t, EFFECT_OF "pay.result", "");
    says_text(t, "claims.0.waits.k.outcome", "signal");
    says_text(t, "claims.0.waits.k.payload", "[ 7 ]");
    says_text(t, "claims.0.waits.nap.outcome", "timeout");
    says_text(t, "claims.0.waits.nap.at", "2026-01-01T00:00:00.005Z");
    says_text(t, "claims.0.effects_next", "");

    /* A question about an effect in doubt is in the effect, and a redrive keeps all of it. */
    begin(t, token, "pay", "");
    does(t, pawl_signal,
         "{\"id\":\"%s\",\"correlation_key\":\"pay\","
         "\"payload\":{\"decision\":\"done\",\"result\":\"paid\"}}",
         id);
    token = claim_job(t, "w1");
    says_text(t, EFFECT_OF "pay.result", "paid");
    says_text(t, "claims.0.waits.pay", "");
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"m\"}}",
         token);
    does(t, pawl_requeue, "{\"id\":\"%s\"}", id);
    token = claim_job(t, "w1");
    says_text(t, EFFECT_OF "a.result", "{\"n\":1.10}");
    says_text(t, "claims.0.waits.k.payload", "[ 7 ]");

    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"m\"}}",
         token);
    does(t, pawl_requeue, "{\"id\":\"%s\",\"fresh\":true}", id);
    token = claim_job(t, "w1");
    says_text(t, "claims.0.effects", "{}");
    says_text(t, "claims.0.waits", "{}");
    begin(t, token, "a", ",\"input\":\"y\"");
    token = taken_over(c);
    says_text(t, EFFECT_OF "a.status", "open");
    says_text(t, EFFECT_OF "declined", "");
    says_text(t, "claims.0.waits", "{}");
    is_sound(t, id);
}

static void a_claim_of_a_step_carries_the_effects_of_that_step(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"slots\":10,\"ttl_ms\":60000}");
    submit_job(t, ",\"plan\":{\"steps\":[{\"id\":\"s\",\"kind\":\"x\",\"retry\":{\"initial_ms\":0}}"
                  ",{\"id\":\"s2\",\"kind\":\"x\"}]}");
    const char *token = claim_step(t);
    says_text(t, "claims.0.effects", "{}");
    says_text(t, "claims.0.waits", "{}");
    const char *other = claim_step(t);
    begin(t, token, "a", "");
    commit(t, token, "a", ",\"result\":1");
    begin(t, other, "a", "");
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"m\"}}", token);
    token = claim_step(t);
    says_text(t, "claims.0.step.id", "s");
    says_text(t, "claims.0.effects.a.status", "recorded");
    says_text(t, "claims.0.effects.a.result", "1");
    says_text(t, "claims.0.waits", "{}");
    does(t, pawl_effects, "{\"token\":\"%s\"}", other);
    says_text(t, "effects.a.status", "open");
}

#define WAIT_OF "claims.0.waits."

/* Ends the lease of a step with a question, and answers it. */
static void ask_and_answer(struct talk *t, const char *id, const char *token, const char *answer)
{
    does(t, pawl_start, "{\"token\":\"%s\"}", token);
    does(t, pawl_verdict,
         "{\"id\":\"%s\",\"step\":\"s\",\"decision\":\"needs_user\","
         "\"question\":{\"prompt\":\"?\"}}",
         id);
    does(t, pawl_answer, "{\"id\":\"%s\",\"step\":\"s\",%s}", id, answer);
}

static void a_claim_of_a_step_carries_the_answers_to_that_step(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"slots\":10,\"ttl_ms\":60000}");
    const char *id = submit_job(
        t, ",\"plan\":{\"steps\":[{\"id\":\"s\",\"kind\":\"x\",\"retry\":{\"initial_ms\":0}},"
           "{\"id\":\"s2\",\"kind\":\"x\",\"retry\":{\"initial_ms\":0}}]}");
    const char *token = claim_step(t);
    const char *other = claim_step(t);
    begin(t, token, "a", "");
    commit(t, token, "a", ",\"result\":1");
    begin(t, other, "b", "");
    commit(t, other, "b", ",\"result\":1");
    ask_and_answer(t, id, token, "\"answer\":\"red\"");
    token = claim_step(t);
    says_text(t, "claims.0.step.id", "s");
    says_text(t, WAIT_OF "s.payload", "red");
    ask_and_answer(t, id, token, "\"answer\":\"blue\",\"by\":\"ann\",\"comment\":\"sure\"");
    token = claim_step(t);
    says_text(t, "claims.0.answer", "blue");
    says_text(t, WAIT_OF "s.outcome", "signal");
    says_text(t, WAIT_OF "s.payload", "blue");
    says_text(t, WAIT_OF "s.by", "ann");
    says_text(t, WAIT_OF "s.comment", "sure");
    says_text(t, WAIT_OF "s.at", "2026-01-01T00:00:00.000Z");
    says_text(t, EFFECT_OF "a.status", "recorded");
    does(t, pawl_effects, "{\"token\":\"%s\"}", token);
    says_text(t, "waits.s.comment", "sure");

    /* They stay for a later attempt, and are nobody else's. */
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"m\"}}", token);
    token = claim_step(t);
    says_text(t, WAIT_OF "s.by", "ann");
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"m\"}}", other);
    claim_step(t);
    says_text(t, "claims.0.step.id", "s2");
    says_text(t, EFFECT_OF "b.status", "recorded");
    says_text(t, "claims.0.waits", "{}");
    does(t, pawl_verify, "{\"id\":\"%s\"}", id);
    says_text(t, "ok", "true");

    /* A fresh start begins without. */
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"m\"}}",
         token);
    does(t, pawl_requeue, "{\"id\":\"%s\",\"fresh\":true}", id);
    claim_step(t);
    says_text(t, "claims.0.waits", "{}");
    does(t, pawl_verify, "{\"id\":\"%s\"}", id);
    says_text(t, "ok", "true");
}

/* Results of 100 KiB, of which 4 MiB hold 40 or so. */
static void what_does_not_fit_into_a_claim_is_read_page_by_page(void **state)
{
    enum { EFFECTS = 60, BYTES = 100 * 1024 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    submit_job(t, "");
    const char *token = claim_job(t, "w1");
    char *large = malloc(BYTES + 1);
    assert_non_null(large);
    memset(large, 'x', BYTES);
    large[BYTES] = '\0';
    for (int i = 0; i < EFFECTS; i++) {
        begin(t, token, phrase(t, "e%d", i), "");
        commit(t, token, phrase(t, "e%d", i), phrase(t, ",\"result\":\"%s\"", large));
    }
    free(large);
    does(t, pawl_wait, "{\"token\":\"%s\",\"delay_ms\":5,\"correlation_key\":\"nap\"}", token);
    pass(c, 5);
    token = claim_job(t, "w1");
    assert_true(strlen(t->answer) < 5 * 1024 * 1024);
    says_text(t, EFFECT_OF "e0.status", "recorded");
    says_text(t, "claims.0.waits", "{}"); /* it came later than all effects */
    long long after = int_at(t, "claims.0.effects_next");
    assert_true(after > 0);
    int seen = 0;
    while (text_at(t, phrase(t, EFFECT_OF "e%d.status", seen))[0] != '\0')
        seen++;
    assert_in_range(seen, 30, 45);
    does(t, pawl_effects, "{\"token\":\"%s\",\"after\":%lld}", token, after);
    for (; seen < EFFECTS; seen++)
        says_text(t, phrase(t, "effects.e%d.status", seen), "recorded");
    says_text(t, "effects.e0", "");
    says_text(t, "waits.nap.outcome", "timeout");
    says_text(t, "effects_next", "");
    refuses(t, pawl_effects, PAWL_BAD_REQUEST, "{\"token\":\"%s\",\"after\":-1}", token);
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_effects, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_effects, PAWL_STALE_LEASE, "{\"token\":\"no\"}");
}

static void the_last_wait_of_a_key_counts(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    for (int i = 1; i <= 20; i++) {
        does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}",
             claim_job(t, "w1"));
        does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":%d}", id, i);
    }
    claim_job(t, "w1");
    says_text(t, "claims.0.waits.k.payload", "20");
    assert_null(strstr(strstr(t->answer, "\"waits\""), "\"payload\":19"));
}

/* ---- doubt and fingerprints --------------------------------------------------------------- */

static void an_effect_may_say_what_doubt_about_it_means(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"in_doubt\":\"fail\"");
    const char *token = claim_job(t, "w1");
    refuses(t, pawl_effect_begin, PAWL_BAD_REQUEST,
            "{\"token\":\"%s\",\"key\":\"model\",\"in_doubt\":\"perhaps\"}", token);
    begin(t, token, "model", ",\"in_doubt\":\"retry\"");
    begin(t, token, "payment", ",\"in_doubt\":\"ask\"");
    token = taken_over(c);
    assert_string_equal(begin(t, token, "model", ""), "execute");
    commit(t, token, "model", ",\"result\":1,\"then\":{\"begin\":{\"key\":\"payment\"}}");
    says_text(t, "status", "in_doubt");
    assert_string_equal(status_of(t, id), "waiting");
    does(t, pawl_signal,
         "{\"id\":\"%s\",\"correlation_key\":\"payment\","
         "\"payload\":{\"decision\":\"done\",\"result\":\"paid\"}}",
         id);
    token = claim_job(t, "w3");
    assert_string_equal(begin(t, token, "payment", ""), "recorded");
    says_text(t, "result", "paid");
    begin(t, token, "mail", ",\"in_doubt\":\"ask\"");
    token = taken_over(c);
    assert_string_equal(begin(t, token, "mail", ",\"in_doubt\":\"retry\""), "execute");
    commit(t, token, "mail", ",\"then\":{\"complete\":{}}");
    is_sound(t, id);
}

static void a_fingerprint_is_compared_instead_of_the_input(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    refuses(t, pawl_effect_begin, PAWL_BAD_REQUEST,
            "{\"token\":\"%s\",\"key\":\"a\",\"fingerprint\":\"" PRINT "0\"}", token);
    refuses(t, pawl_effect_begin, PAWL_BAD_REQUEST,
            "{\"token\":\"%s\",\"key\":\"a\",\"fingerprint\":17}", token);
    begin(t, token, "a", ",\"input\":\"cipher 1\",\"fingerprint\":\"" PRINT "\"");
    commit(t, token, "a", ",\"result\":1");
    token = taken_over(c);
    assert_string_equal(
        begin(t, token, "a", ",\"input\":\"cipher 2\",\"fingerprint\":\"" PRINT "\""), "recorded");
    refuses(t, pawl_effect_begin, PAWL_REPLAY_MISMATCH,
            "{\"token\":\"%s\",\"key\":\"a\",\"input\":\"cipher 1\",\"fingerprint\":\"%064d\"}",
            token, 7);
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    is_sound(t, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(an_aborted_effect_is_in_no_doubt),
        ON_EVERY_STORE(an_abort_that_makes_no_sense_is_refused),
        ON_EVERY_STORE(a_failure_that_is_committed_is_given_again),
        ON_EVERY_STORE(a_commit_is_one_with_what_follows),
        ON_EVERY_STORE(a_commit_may_wait_for_a_time_and_for_what_is_there),
        ON_EVERY_STORE(what_cannot_follow_leaves_the_effect_open),
        ON_EVERY_STORE(a_batch_takes_effects_as_well),
        ON_EVERY_STORE(a_commit_of_a_step_completes_it_and_waits_for_nothing),
        ON_EVERY_STORE(a_claim_carries_effects_and_waits_since_the_last_fresh_start),
        ON_EVERY_STORE(a_claim_of_a_step_carries_the_effects_of_that_step),
        ON_EVERY_STORE(a_claim_of_a_step_carries_the_answers_to_that_step),
        ON_EVERY_STORE(what_does_not_fit_into_a_claim_is_read_page_by_page),
        ON_EVERY_STORE(the_last_wait_of_a_key_counts),
        ON_EVERY_STORE(an_effect_may_say_what_doubt_about_it_means),
        ON_EVERY_STORE(a_fingerprint_is_compared_instead_of_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
