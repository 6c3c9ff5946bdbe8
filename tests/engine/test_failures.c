/* What can go wrong around a job, and what comes of it: each on every store, through pawl.h.
 *
 * TORTURE=1 lets completions race the reaper for longer. */
#include <libpq-fe.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/library_case.h"
#include "store/proxy.h"

#define FIRST_ATTEMPT "job_created job_leased job_running"
#define NEXT_ATTEMPT " job_leased job_running"

enum { HOUR_MS = 60 * 60 * 1000 };

/* The holder of the lease that was given out last is never heard of again. */
static void let_worker_die(struct library_case *c, const char *id)
{
    does(&c->talk, pawl_get, "{\"id\":\"%s\"}", id);
    long long version = int_at(&c->talk, "version");
    pass(c, LEASE_MS + 1);
    (void)wait_for_event(&c->talk, id, version, "job_requeued");
}

static const char *begin_effect(struct talk *t, const char *token, const char *key)
{
    does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":\"%s\",\"input\":{\"to\":\"ada\"}}",
         token, key);
    return text_at(t, "status");
}

static void commit_effect(struct talk *t, const char *token, const char *key)
{
    does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"%s\",\"result\":{\"sent\":1}}", token,
         key);
}

static void complete(struct talk *t, const char *token)
{
    does(t, pawl_complete, "{\"token\":\"%s\",\"result\":\"done\"}", token);
    says_text(t, "status", "completed");
}

static const char *submit_and_claim(struct talk *t)
{
    (void)submit_job(t, "");
    return claim_job(t, "w1");
}

/* ---- a worker dies ------------------------------------------------------------------------ */

static void a_worker_that_dies_before_the_tool_is_replaced_and_the_tool_runs(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    (void)claim_job(t, "w1");
    let_worker_die(c, id);
    const char *token = claim_job(t, "w2");
    says_text(t, "claims.0.lease.attempt", "2");
    says_text(t, "claims.0.job.failures", "1");
    assert_string_equal(begin_effect(t, token, "mail"), "execute");
    commit_effect(t, token, "mail");
    complete(t, token);
    trace_is(t, id,
             FIRST_ATTEMPT " job_requeued" NEXT_ATTEMPT " tool_called tool_returned job_completed");
    is_sound(t, id);
}

/* Leaves a job with an effect that was begun and never committed, claimed by the next worker. */
static const char *in_doubt_job(struct library_case *c, const char *policy, const char **ret_token,
                                const char **ret_key)
{
    struct talk *t = &c->talk;
    const char *id = submit_job(t, phrase(t, ",\"in_doubt\":\"%s\"", policy));
    const char *token = claim_job(t, "w1");
    assert_string_equal(begin_effect(t, token, "mail"), "execute");
    *ret_key = text_at(t, "idempotency_key");
    let_worker_die(c, id);
    *ret_token = claim_job(t, "w2");
    return id;
}

static void
a_tool_that_may_be_repeated_runs_again_when_its_worker_died_before_the_commit(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *token;
    const char *key;
    const char *id = in_doubt_job(c, "retry", &token, &key);
    assert_string_equal(begin_effect(t, token, "mail"), "execute");
    says_text(t, "idempotency_key", key); /* so that the tool can see that it is the same */
    commit_effect(t, token, "mail");
    complete(t, token);
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called job_requeued" NEXT_ATTEMPT
                           " tool_called tool_returned job_completed");
    is_sound(t, id);
}

static void
a_tool_that_must_not_be_repeated_fails_the_job_when_its_worker_died_before_the_commit(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *token;
    const char *key;
    const char *id = in_doubt_job(c, "fail", &token, &key);
    assert_string_equal(begin_effect(t, token, "mail"), "in_doubt");
    refuses(t, pawl_complete, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    trace_is(t, id, FIRST_ATTEMPT " tool_called job_requeued" NEXT_ATTEMPT " job_failed");
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "error.class", "permanent");
    says_text(t, "error.stage", "commit");
    is_sound(t, id);
}

/* As far as the question to a person, who says `word`; returns the token of the next attempt. */
static const char *ask_person(struct library_case *c, const char *word, const char **ret_id)
{
    struct talk *t = &c->talk;
    const char *token;
    const char *key;
    const char *id = in_doubt_job(c, "ask", &token, &key);
    assert_string_equal(begin_effect(t, token, "mail"), "in_doubt");
    assert_string_equal(status_of(t, id), "waiting");
    says_text(t, "wait.type", "human");
    says_text(t, "wait.effect", "mail");
    does(t, pawl_inbox, "{}");
    says_text(t, "questions.0.id", id);
    says_text(t, "questions.0.correlation_key", "mail");
    says_text(t, "questions.0.choices", "[\"retry\",\"done\",\"fail\"]");
    refuses(t, pawl_signal, PAWL_BAD_REQUEST,
            "{\"id\":\"%s\",\"correlation_key\":\"mail\",\"payload\":\"maybe\"}", id);
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"mail\",\"payload\":%s}", id, word);
    says_text(t, "signal", "delivered");
    does(t, pawl_inbox, "{}");
    says_text(t, "questions.0.id", "");
    *ret_id = id;
    return claim_job(t, "w3");
}

static void a_person_may_say_that_a_tool_in_doubt_is_to_run_again(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id;
    const char *token = ask_person(c, "\"retry\"", &id);
    assert_string_equal(begin_effect(t, token, "mail"), "execute");
    commit_effect(t, token, "mail");
    complete(t, token);
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called job_requeued" NEXT_ATTEMPT
                           " job_waiting wait_completed" NEXT_ATTEMPT
                           " tool_called tool_returned job_completed");
    is_sound(t, id);
}

static void a_person_may_say_that_a_tool_in_doubt_is_done(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id;
    const char *token = ask_person(c, "{\"decision\":\"done\",\"result\":{\"sent\":7}}", &id);
    assert_string_equal(begin_effect(t, token, "mail"), "recorded");
    says_text(t, "result", "{\"sent\":7}");
    complete(t, token);
    is_sound(t, id);
}

static void a_person_may_say_that_a_tool_in_doubt_fails_the_job(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id;
    const char *token = ask_person(c, "\"fail\"", &id);
    assert_string_equal(begin_effect(t, token, "mail"), "in_doubt");
    assert_string_equal(status_of(t, id), "failed");
    is_sound(t, id);
}

static void a_tool_is_never_run_again_when_its_worker_died_after_the_commit(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"in_doubt\":\"retry\"");
    const char *token = claim_job(t, "w1");
    assert_string_equal(begin_effect(t, token, "mail"), "execute");
    commit_effect(t, token, "mail");
    for (int worker = 2; worker <= 4; worker++) {
        let_worker_die(c, id);
        token = claim_job(t, phrase(t, "w%d", worker));
        assert_string_equal(begin_effect(t, token, "mail"), "recorded");
        says_text(t, "result", "{\"sent\":1}");
    }
    complete(t, token);
    trace_is(t, id,
             FIRST_ATTEMPT " tool_called tool_returned job_requeued" NEXT_ATTEMPT
                           " job_requeued" NEXT_ATTEMPT " job_requeued" NEXT_ATTEMPT
                           " job_completed");
    is_sound(t, id);
}

/* ---- two workers -------------------------------------------------------------------------- */

struct rival {
    struct talk talk;
    const char *queue;
    enum pawl_code code;
    const char *token;
};

static void *claim_at_once(void *argument)
{
    struct rival *rival = argument;
    rival->code = attempt(&rival->talk, pawl_claim, "{\"worker_id\":\"w\",\"queues\":[\"%s\"]}",
                          rival->queue);
    rival->token = text_at(&rival->talk, "claims.0.lease.token");
    return NULL;
}

static void of_two_workers_on_one_job_one_gets_it(void **state)
{
    enum { ROUNDS = 20 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    /* A store in memory has one handle; of the others each worker has its own. */
    struct pawl *second = c->sort == TEST_MEMORY ? NULL : case_open(c, true);
    for (int round = 0; round < ROUNDS; round++) {
        struct rival rivals[2];
        const char *queue = phrase(t, "q%d", round);
        const char *id = submit_job(t, phrase(t, ",\"queue\":\"%s\"", queue));
        for (int i = 0; i < 2; i++) {
            talk_init(&rivals[i].talk, i == 1 && second != NULL ? second : t->pawl);
            rivals[i].queue = queue;
        }
        in_threads(2, claim_at_once, rivals, sizeof rivals[0]);
        assert_int_equal(rivals[0].code, PAWL_OK);
        assert_int_equal(rivals[1].code, PAWL_OK);
        bool first = *rivals[0].token != '\0';
        assert_int_equal(first, *rivals[1].token == '\0');
        complete(t, first ? rivals[0].token : rivals[1].token);
        trace_is(t, id, FIRST_ATTEMPT " job_completed");
        is_sound(t, id);
        talk_release(&rivals[0].talk);
        talk_release(&rivals[1].talk);
    }
    pawl_close(second);
}

/* ---- a worker that was paused ------------------------------------------------------------- */

/* Everything that the holder of a lease can say. */
static void nothing_is_taken_from(struct talk *t, const char *id, const char *token)
{
    static const struct {
        pawl_verb verb;
        const char *more;
    } writes[] = {
        {pawl_start, ""},
        {pawl_heartbeat, ",\"progress\":{\"done\":99},\"cursor\":\"far\""},
        {pawl_complete, ",\"result\":\"late\""},
        {pawl_fail, ",\"error\":{\"message\":\"late\"}"},
        {pawl_wait, ",\"type\":\"signal\",\"correlation_key\":\"late\""},
        {pawl_release, ""},
        {pawl_cancelled, ""},
        {pawl_abandon, ",\"reason_code\":\"policy_violation\""},
        {pawl_effect_begin, ",\"key\":\"late\""},
        {pawl_effect_commit, ",\"key\":\"mail\",\"result\":\"late\""},
    };
    const char *before = does(t, pawl_export, "{\"id\":\"%s\"}", id);
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        refuses(t, writes[i].verb, PAWL_STALE_LEASE, "{\"token\":\"%s\"%s}", token, writes[i].more);
    refuses(t, pawl_append, PAWL_STALE_LEASE,
            "{\"id\":\"%s\",\"token\":\"%s\",\"events\":[{\"type\":\"node_started\"}]}", id, token);
    assert_string_equal(does(t, pawl_export, "{\"id\":\"%s\"}", id), before);
}

static void a_paused_worker_that_wakes_after_its_lease_changes_nothing(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *late = claim_job(t, "w1");
    assert_string_equal(begin_effect(t, late, "mail"), "execute");
    let_worker_die(c, id);
    nothing_is_taken_from(t, id, late); /* nobody has it */
    const char *token = claim_job(t, "w2");
    nothing_is_taken_from(t, id, late); /* somebody else has it */
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"no\"}}",
         token);
    nothing_is_taken_from(t, id, late); /* it has ended */
    is_sound(t, id);
}

static void a_worker_whose_lease_is_over_is_refused_before_anybody_has_noticed(void **state)
{
    enum { ROUNDS = 5 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    for (int round = 0; round < ROUNDS; round++) {
        const char *id = submit_job(t, phrase(t, ",\"priority\":%d", round));
        const char *token = claim_job(t, "w1");
        pass(c, LEASE_MS);
        refuses(t, pawl_complete, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
        trace_becomes(t, id, FIRST_ATTEMPT " job_requeued");
    }
}

/* ---- signals ------------------------------------------------------------------------------ */

static void wait_for_key(struct talk *t, const char *token, const char *key, const char *more)
{
    does(t, pawl_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"%s\"%s}", token,
         key, more);
}

static void a_signal_that_is_lost_ends_in_the_timeout_of_the_wait(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    wait_for_key(t, claim_job(t, "w1"), "paid", ",\"timeout_ms\":100");
    says_text(t, "status", "waiting");
    pass(c, 100);
    trace_becomes(t, id, FIRST_ATTEMPT " job_waiting wait_completed");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.outcome", "timeout");
    says_text(t, "claims.0.resume.correlation_key", "paid");
    says_text(t, "claims.0.job.failures", "0");
    complete(t, token);
    is_sound(t, id);
}

static void a_repeated_signal_wakes_the_job_once(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *signal = phrase(
        t, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":5,\"signal_id\":\"s1\"}", id);
    wait_for_key(t, claim_job(t, "w1"), "paid", "");
    does(t, pawl_signal, "%s", signal);
    says_text(t, "signal", "delivered");
    does(t, pawl_signal, "%s", signal);
    says_text(t, "signal", "repeated");
    /* Without an id the same payload on the same key is a repeat, too. */
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":5}", id);
    says_text(t, "signal", "repeated");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.outcome", "signal");
    says_text(t, "claims.0.resume.payload", "5");
    wait_for_key(t, token, "paid", "");
    says_text(t, "status", "waiting"); /* the repeats woke nobody */
    does(t, pawl_signal, "%s", signal);
    says_text(t, "signal", "repeated");
    /* With a wait open an identical payload is news, unless an id says otherwise. */
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":5}", id);
    says_text(t, "signal", "delivered");
    complete(t, claim_job(t, "w1"));
    does(t, pawl_signal, "%s", signal);
    says_text(t, "signal", "repeated"); /* even after the end */
    trace_is(t, id,
             FIRST_ATTEMPT " job_waiting wait_completed" NEXT_ATTEMPT
                           " job_waiting wait_completed" NEXT_ATTEMPT " job_completed");
    is_sound(t, id);
}

static void a_stored_signal_that_is_not_a_choice_hides_no_other_and_stays_stored(void **state)
{
    static const char *const sent[] = {"\"fast\"", "{\"n\":1}", "\"no\"", "\"yes\""};
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++)
        does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"mode\",\"payload\":%s}", id,
             sent[i]);
    wait_for_key(t, claim_job(t, "w1"), "mode", ",\"choices\":[\"yes\",\"no\"]");
    says_text(t, "status", "queued");
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.payload", "no");
    wait_for_key(t, token, "mode", ",\"choices\":[\"stop\"]");
    says_text(t, "status", "waiting");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"mode\",\"payload\":\"stop\"}", id);
    wait_for_key(t, claim_job(t, "w1"), "mode", "");
    token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.payload", "fast"); /* what was passed over comes first again */
    complete(t, token);
    is_sound(t, id);
}

static void an_early_signal_is_kept_for_the_wait_which_then_does_not_block(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":1}", id);
    says_text(t, "signal", "stored");
    const char *token = claim_job(t, "w1");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":2}", id);
    says_text(t, "signal", "stored");
    wait_for_key(t, token, "paid", "");
    says_text(t, "status", "queued");
    token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.payload", "1"); /* the first comes first */
    wait_for_key(t, token, "paid", "");
    token = claim_job(t, "w1");
    says_text(t, "claims.0.resume.payload", "2");
    wait_for_key(t, token, "paid", "");
    says_text(t, "status", "waiting"); /* each woke it once */
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\",\"payload\":3}", id);
    complete(t, claim_job(t, "w1"));
    trace_is(t, id,
             "job_created signal_received job_leased job_running signal_received"
             " wait_completed" NEXT_ATTEMPT " wait_completed" NEXT_ATTEMPT
             " job_waiting wait_completed" NEXT_ATTEMPT " job_completed");
    is_sound(t, id);
}

static void a_wrong_signal_is_refused_and_wakes_nobody(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    wait_for_key(t, claim_job(t, "w1"), "paid", "");
    refuses(t, pawl_signal, PAWL_WRONG_CORRELATION_KEY,
            "{\"id\":\"%s\",\"correlation_key\":\"shipped\",\"payload\":1}", id);
    trace_is(t, id, FIRST_ATTEMPT " job_waiting");
    /* Who knows that it is early may say so. */
    does(t, pawl_signal,
         "{\"id\":\"%s\",\"correlation_key\":\"shipped\",\"payload\":1,\"early\":true}", id);
    says_text(t, "signal", "stored");
    assert_string_equal(status_of(t, id), "waiting");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\"}", id);
    wait_for_key(t, claim_job(t, "w1"), "shipped", "");
    says_text(t, "status", "queued");
    complete(t, claim_job(t, "w1"));
    refuses(t, pawl_signal, PAWL_INVALID_TRANSITION,
            "{\"id\":\"%s\",\"correlation_key\":\"other\"}", id);
    refuses(t, pawl_signal, PAWL_NOT_FOUND,
            "{\"id\":\"00000000-0000-7000-8000-000000000000\",\"correlation_key\":\"paid\"}");
    is_sound(t, id);
}

static void a_hundred_waits_in_one_job_cost_no_retry(void **state)
{
    enum { WAITS = 100 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"retry\":{\"max_attempts\":1}");
    for (int i = 0; i < WAITS; i++) {
        wait_for_key(t, claim_job(t, "w1"), phrase(t, "k%d", i), "");
        does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"k%d\",\"payload\":%d}", id, i,
             i);
        says_text(t, "signal", "delivered");
    }
    const char *token = claim_job(t, "w1");
    says_text(t, "claims.0.job.failures", "0");
    assert_int_equal(int_at(t, "claims.0.lease.attempt"), WAITS + 1);
    says_text(t, "claims.0.resume.payload", "99");
    complete(t, token);
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "failures", "0");
    assert_int_equal(int_at(t, "version"), 1 + 4 * WAITS + 3);
    is_sound(t, id);
}

/* ---- the store goes away ------------------------------------------------------------------ */

/* What is away for an hour, with a worker in the middle of something, loses nothing. */
struct outage {
    const char *id;
    const char *token;
    const char *waiting; /* another job */
};

static struct outage before_outage(struct talk *t)
{
    struct outage outage;
    outage.waiting = submit_job(t, ",\"priority\":9");
    wait_for_key(t, claim_job(t, "w1"), "paid", "");
    outage.id = submit_job(t, "");
    outage.token = claim_job(t, "w1");
    assert_string_equal(begin_effect(t, outage.token, "mail"), "execute");
    return outage;
}

static void after_outage(struct talk *t, const struct outage *outage)
{
    commit_effect(t, outage->token, "mail");
    complete(t, outage->token);
    trace_is(t, outage->id, FIRST_ATTEMPT " tool_called tool_returned job_completed");
    does(t, pawl_signal, "{\"id\":\"%s\",\"correlation_key\":\"paid\"}", outage->waiting);
    complete(t, claim_job(t, "w1"));
    trace_is(t, outage->waiting,
             FIRST_ATTEMPT " job_waiting wait_completed" NEXT_ATTEMPT " job_completed");
    is_sound(t, outage->id);
    is_sound(t, outage->waiting);
}

/* A store in memory is never away: it ends with its handle. */
static void a_store_that_was_closed_for_an_hour_goes_on_where_it_was(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    struct outage outage = before_outage(t);
    case_close(c);
    pass(c, HOUR_MS);
    case_reopen(c);
    after_outage(t, &outage);
}

static void a_file_whose_owner_ends_is_taken_over_by_another(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    not_over_http();
    struct outage outage = before_outage(t);
    struct talk other;
    talk_init(&other, case_open(c, true));
    assert_string_equal(status_of(&other, outage.id), "running");
    case_close(c);
    assert_string_equal(status_of(&other, outage.id), "running");
    const char *more = submit_job(&other, ",\"priority\":-9");
    case_reopen(c); /* and reaches the new owner */
    assert_string_equal(status_of(t, more), "queued");
    after_outage(t, &outage);
    complete(&other, claim_job(&other, "w2"));
    is_sound(t, more);
    pawl_close(other.pawl);
    assert_string_equal(status_of(t, more), "completed");
    talk_release(&other);
}

/* The name of the case's database: between the last slash and the question mark. */
static const char *database_of(struct library_case *c)
{
    const char *end = c->url + strcspn(c->url, "?");
    const char *name = end;
    while (name[-1] != '/')
        name--;
    return phrase(&c->talk, "%.*s", (int)(end - name), name);
}

/* Runs a statement on the server, not in the case's database. */
static void on_server(const char *statement)
{
    PGconn *connection = PQconnectdb(getenv("PAWL_TEST_POSTGRES"));
    PGresult *result = PQexec(connection, statement);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
}

static void a_database_that_was_away_for_an_hour_goes_on_where_it_was(void **state)
{
    enum { AWAY_MS = 1000 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *name = database_of(c);
    struct pawl_options options = case_options(c);
    options.patience_ms = AWAY_MS;
    case_close(c);
    assert_int_equal(pawl_open(c->url, &options, &t->pawl, NULL), PAWL_OK);
    struct outage outage = before_outage(t);
    on_server(phrase(t, "ALTER DATABASE \"%s\" ALLOW_CONNECTIONS false", name));
    on_server(phrase(t,
                     "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                     " WHERE datname = '%s'",
                     name));
    refuses(t, pawl_effect_commit, PAWL_UNAVAILABLE,
            "{\"token\":\"%s\",\"key\":\"mail\",\"result\":{\"sent\":1}}", outage.token);
    refuses(t, pawl_submit, PAWL_UNAVAILABLE, "{\"kind\":\"lost\"}");
    refuses(t, pawl_get, PAWL_UNAVAILABLE, "{\"id\":\"%s\"}", outage.id);
    pass(c, HOUR_MS);
    on_server(phrase(t, "ALTER DATABASE \"%s\" ALLOW_CONNECTIONS true", name));
    after_outage(t, &outage);
    does(t, pawl_list, "{\"kind\":\"lost\"}");
    says_text(t, "jobs.0.id", ""); /* what was refused has not happened */
}

/* The database of the case by way of a proxy, with connections that are new: the proxy knows a
 * batch by the text of its statements, which old connections do not send any more. */
static void reopen_through(struct library_case *c, struct proxy *proxy)
{
    struct pawl_options options = case_options(c);
    struct pawl_error error = {0};
    const char *url =
        phrase(&c->talk, "postgres://postgres@127.0.0.1:%u/%s", proxy->port, database_of(c));
    case_close(c);
    if (pawl_open(url, &options, &c->talk.pawl, &error) != PAWL_OK)
        fail_msg("%s: %s", url, error.message);
}

/* Cuts the connection at the next commit, and has something done. What the library says was not
 * done is done again, as any caller would. */
static void through_a_cut(struct library_case *c, struct proxy *proxy, enum proxy_mode mode,
                          pawl_verb verb, const char *request)
{
    struct talk *t = &c->talk;
    reopen_through(c, proxy);
    proxy_set(proxy, mode);
    if (attempt(t, verb, "%s", request) == PAWL_UNAVAILABLE)
        does(t, verb, "%s", request);
    if (t->code != PAWL_OK)
        fail_msg("%s: %s", request, t->error.message);
    assert_int_equal(proxy->met, 1);
}

static void a_connection_that_is_lost_at_the_commit_makes_nothing_happen_twice(void **state)
{
    static const enum proxy_mode modes[] = {PROXY_LOSE_ANSWER, PROXY_LATE_COMMIT};
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    struct proxy *proxy = calloc(1, sizeof *proxy);
    const char *tcp = getenv("PAWL_TEST_POSTGRES_TCP");
    assert_true(proxy != NULL && tcp != NULL);
    proxy_start(proxy, (uint16_t)strtoul(strrchr(tcp, ':') + 1, NULL, 10));
    complete(t, submit_and_claim(t)); /* its lane is known from now on */
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        through_a_cut(c, proxy, modes[i], pawl_submit, "{\"kind\":\"work\"}");
        const char *id = text_at(t, "id");
        does(t, pawl_list, "{\"status\":\"queued\"}");
        says_text(t, "jobs.0.id", id);
        says_text(t, "jobs.1.id", "");
        through_a_cut(c, proxy, modes[i], pawl_claim, "{\"worker_id\":\"w1\"}");
        says_text(t, "claims.0.job.id", id);
        const char *token = text_at(t, "claims.0.lease.token");
        through_a_cut(c, proxy, modes[i], pawl_complete, phrase(t, "{\"token\":\"%s\"}", token));
        says_text(t, "status", "completed");
        trace_is(t, id, FIRST_ATTEMPT " job_completed");
        is_sound(t, id);
    }
    case_close(c);
    proxy_stop(proxy);
    free(proxy);
}

/* ---- the reaper --------------------------------------------------------------------------- */

enum { RACERS = 16 };

/* One who completes a job at about the moment when its lease ends. */
struct finisher {
    struct talk talk;
    const char *id;
    const char *token;
    int wait_ms;
    enum pawl_code code;
};

static void *finish_at_the_end(void *argument)
{
    struct finisher *f = argument;
    /* Nothing happens to the job meanwhile, unless the reaper is faster. */
    (void)attempt(&f->talk, pawl_events, "{\"id\":\"%s\",\"after\":3,\"wait_ms\":%d}", f->id,
                  f->wait_ms);
    f->code = attempt(&f->talk, pawl_complete, "{\"token\":\"%s\"}", f->token);
    return NULL;
}

static void finish_round(struct library_case *c, struct pawl *finishing, int round, int *completed)
{
    enum { SPREAD_MS = 2 };
    struct talk *t = &c->talk;
    struct finisher finishers[RACERS];
    const char *queue = phrase(t, "round%d", round);
    for (int i = 0; i < RACERS; i++)
        (void)submit_job(t, phrase(t, ",\"queue\":\"%s\"", queue));
    does(t, pawl_claim, "{\"worker_id\":\"w\",\"queues\":[\"%s\"],\"max\":%d,\"lease_ttl_ms\":%d}",
         queue, RACERS, LEASE_MS);
    for (int i = 0; i < RACERS; i++) {
        struct finisher *f = &finishers[i];
        *f = (struct finisher){.wait_ms = LEASE_MS - 12 + SPREAD_MS * (i - RACERS / 2)};
        talk_init(&f->talk, finishing);
        f->id = text_at(t, phrase(t, "claims.%d.job.id", i));
        f->token = text_at(t, phrase(t, "claims.%d.lease.token", i));
        assert_string_not_equal(f->token, "");
    }
    in_threads(RACERS, finish_at_the_end, finishers, sizeof finishers[0]);
    for (int i = 0; i < RACERS; i++) {
        struct finisher *f = &finishers[i];
        *completed += f->code == PAWL_OK ? 1 : 0;
        if (f->code != PAWL_OK)
            assert_int_equal(f->code, PAWL_STALE_LEASE);
        trace_becomes(t, f->id,
                      f->code == PAWL_OK ? FIRST_ATTEMPT " job_completed"
                                         : FIRST_ATTEMPT " job_requeued");
        is_sound(t, f->id);
        talk_release(&f->talk);
    }
}

static void a_completion_that_races_the_reaper_has_exactly_one_outcome(void **state)
{
    enum { ROUNDS = 6, LONG_ROUNDS = 300 };
    struct library_case *c = *state;
    struct pawl *second = c->sort == TEST_MEMORY ? NULL : case_open(c, false);
    int rounds = getenv("TORTURE") != NULL ? LONG_ROUNDS : ROUNDS;
    int completed = 0;
    for (int round = 0; round < rounds; round++)
        finish_round(c, second != NULL ? second : c->talk.pawl, round, &completed);
    print_message("# completed in time: %d of %d\n", completed, rounds * RACERS);
    pawl_close(second);
}

/* ---- the clock ---------------------------------------------------------------------------- */

static void a_clock_that_jumps_an_hour_ahead_takes_no_lease_from_a_live_worker(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *dead = submit_job(t, "");
    (void)claim_job(t, "w1");
    const char *live = submit_job(t, "");
    const char *token = claim_job(t, "w2");
    const char *later = submit_job(t, ",\"delay_ms\":1800000");
    pass(c, HOUR_MS);
    /* The engine looks several times meanwhile, and ends nothing. */
    does(t, pawl_events, "{\"id\":\"%s\",\"after\":3,\"wait_ms\":%d}", dead, 3 * LEASE_MS);
    says_text(t, "events.0.type", "");
    does(t, pawl_heartbeat, "{\"token\":\"%s\"}", token);
    pass(c, BEAT_MS);
    trace_becomes(t, dead, FIRST_ATTEMPT " job_requeued");
    complete(t, token);
    trace_is(t, live, FIRST_ATTEMPT " job_completed");
    for (int i = 0; i < 2; i++)
        complete(t, claim_job(t, "w3"));
    assert_string_equal(status_of(t, later), "completed");
    assert_string_equal(status_of(t, dead), "completed");
    is_sound(t, dead);
    is_sound(t, live);
    is_sound(t, later);
}

static void a_clock_that_jumps_an_hour_back_takes_nothing_back(void **state)
{
    enum { LONG_MS = 30 * 1000 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *live = submit_job(t, "");
    does(t, pawl_claim, "{\"worker_id\":\"w1\",\"lease_ttl_ms\":%d}", LONG_MS);
    const char *token = text_at(t, "claims.0.lease.token");
    const char *expires_at = text_at(t, "claims.0.lease.expires_at");
    const char *dead = submit_job(t, "");
    (void)claim_job(t, "w2");
    pass(c, -HOUR_MS);
    does(t, pawl_heartbeat, "{\"token\":\"%s\"}", token);
    assert_true(strcmp(text_at(t, "expires_at"), expires_at) >= 0);
    const char *next = submit_job(t, ",\"queue\":\"next\"");
    does(t, pawl_claim, "{\"worker_id\":\"w3\",\"queues\":[\"next\"]}");
    complete(t, text_at(t, "claims.0.lease.token"));
    complete(t, token);
    pass(c, HOUR_MS + LEASE_MS); /* it is set right again */
    trace_becomes(t, dead, FIRST_ATTEMPT " job_requeued");
    complete(t, claim_job(t, "w3"));
    is_sound(t, live);
    is_sound(t, dead);
    is_sound(t, next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(a_worker_that_dies_before_the_tool_is_replaced_and_the_tool_runs),
        ON_EVERY_STORE(
            a_tool_that_may_be_repeated_runs_again_when_its_worker_died_before_the_commit),
        ON_EVERY_STORE(
            a_tool_that_must_not_be_repeated_fails_the_job_when_its_worker_died_before_the_commit),
        ON_EVERY_STORE(a_person_may_say_that_a_tool_in_doubt_is_to_run_again),
        ON_EVERY_STORE(a_person_may_say_that_a_tool_in_doubt_is_done),
        ON_EVERY_STORE(a_person_may_say_that_a_tool_in_doubt_fails_the_job),
        ON_EVERY_STORE(a_tool_is_never_run_again_when_its_worker_died_after_the_commit),
        ON_EVERY_STORE(of_two_workers_on_one_job_one_gets_it),
        ON_EVERY_STORE(a_paused_worker_that_wakes_after_its_lease_changes_nothing),
        ON_EVERY_STORE(a_worker_whose_lease_is_over_is_refused_before_anybody_has_noticed),
        ON_EVERY_STORE(a_signal_that_is_lost_ends_in_the_timeout_of_the_wait),
        ON_EVERY_STORE(a_repeated_signal_wakes_the_job_once),
        ON_EVERY_STORE(an_early_signal_is_kept_for_the_wait_which_then_does_not_block),
        ON_EVERY_STORE(a_stored_signal_that_is_not_a_choice_hides_no_other_and_stays_stored),
        ON_EVERY_STORE(a_wrong_signal_is_refused_and_wakes_nobody),
        ON_EVERY_STORE(a_hundred_waits_in_one_job_cost_no_retry),
        CASE_ON("sqlite", TEST_SQLITE, a_store_that_was_closed_for_an_hour_goes_on_where_it_was,
                case_setup),
        CASE_ON("postgres", TEST_POSTGRES, a_store_that_was_closed_for_an_hour_goes_on_where_it_was,
                case_setup),
        CASE_ON("sqlite", TEST_SQLITE, a_file_whose_owner_ends_is_taken_over_by_another,
                case_setup),
        CASE_ON("postgres", TEST_POSTGRES,
                a_database_that_was_away_for_an_hour_goes_on_where_it_was, case_setup_own_database),
        CASE_ON("postgres", TEST_POSTGRES,
                a_connection_that_is_lost_at_the_commit_makes_nothing_happen_twice,
                case_setup_own_database),
        ON_EVERY_STORE_TICKING(a_completion_that_races_the_reaper_has_exactly_one_outcome),
        ON_EVERY_STORE(a_clock_that_jumps_an_hour_ahead_takes_no_lease_from_a_live_worker),
        ON_EVERY_STORE(a_clock_that_jumps_an_hour_back_takes_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
