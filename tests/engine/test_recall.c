/* Requests that are sent again: the response of the first time is made once more, from a record of
 * a few bytes and from the histories of its jobs, whatever has become of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/request_memo.h"
#include "engine/desk.h"
#include "store/store_driver.h"

enum { KEYED_MAX = 64 };

struct keyed {
    char key[16];
    enum verb_name verb;
    const char *request;
    const char *response;
    int status;
};

struct notes {
    struct keyed at[KEYED_MAX];
    int count;
    int first; /* of those that are asked for again */
};

static struct notes *notes_of(struct desk *d)
{
    if (d->notes == NULL)
        d->notes = arena_zalloc(&d->arena, 1, sizeof(struct notes));
    assert_non_null(d->notes);
    return d->notes;
}

static void expect_same(struct desk *d, const struct keyed *keyed)
{
    d->key = keyed->key;
    ask(d, keyed->verb, keyed->request);
    if (d->code != ERR_OK)
        fail_msg("%s %s: %s", keyed->key, keyed->request, d->err.detail);
    assert_string_equal(d->answer, keyed->response);
    assert_int_equal(d->status, keyed->status);
}

/* Asks under a key of its own, and at once again. */
static void once(struct desk *d, enum verb_name verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void once(struct desk *d, enum verb_name verb, const char *format, ...)
{
    struct notes *notes = notes_of(d);
    char *request = arena_alloc(&d->arena, 4096);
    va_list arguments;
    assert_non_null(request);
    va_start(arguments, format);
    (void)vsnprintf(request, 4096, format, arguments);
    va_end(arguments);
    assert_true(notes->count < KEYED_MAX);
    struct keyed *keyed = &notes->at[notes->count++];
    (void)snprintf(keyed->key, sizeof keyed->key, "k%d", notes->count);
    d->key = keyed->key;
    keyed->verb = verb;
    keyed->request = request;
    keyed->response = well(d, verb, "%s", request);
    keyed->status = d->status;
    expect_same(d, keyed);
}

/* Asks for everything once more. */
static void all_again(struct desk *d)
{
    struct notes *notes = notes_of(d);
    for (int i = notes->first; i < notes->count; i++)
        expect_same(d, &notes->at[i]);
}

static void forget(struct desk *d)
{
    notes_of(d)->first = notes_of(d)->count;
}

static const char *submit(struct desk *d, const char *kind)
{
    well(d, VERB_submit, "{\"kind\":\"%s\",\"payload\":{\"cents\":250}}", kind);
    return said(d, "id");
}

static const char *claim(struct desk *d, const char *kind)
{
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"kinds\":[\"%s\"]}", kind);
    const char *token = said(d, "claims.0.lease.token");
    assert_string_not_equal(token, "");
    return token;
}

/* ---- jobs --------------------------------------------------------------------------------- */

static void does_it_once(struct desk *d)
{
    once(d, VERB_submit, "{\"kind\":\"a\"}");
    once(d, VERB_submit, "{\"jobs\":[{\"kind\":\"a\"},{\"kind\":\"a\"}]}");
    well(d, VERB_list, "{}");
    says(d, "jobs.2.kind", "a");
    says(d, "jobs.3", "");
    const char *id = said(d, "jobs.0.id");
    once(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\"}]}", id);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "version", "2");
}

static void a_repeated_request_is_not_done_again(void **state)
{
    (void)state;
    at_every_desk(does_it_once);
}

static void lives_on(struct desk *d)
{
    once(d, VERB_submit,
         "{\"kind\":\"a\",\"idempotency_key\":\"i\",\"payload\":[1.10, 2],\"labels\":{\"a\":\"b\"},"
         "\"goal\":\"to see\"}");
    const char *id = said(d, "id");
    once(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":1}]}", id);
    once(d, VERB_run_now, "{\"id\":\"%s\"}",
         (well(d, VERB_submit, "{\"kind\":\"late\",\"delay_ms\":60000}"), said(d, "id")));
    const char *token = claim(d, "a");
    /* What heartbeats have moved is in no history yet. */
    let_time_pass(d, 1000);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":{\"at\":1},\"cursor\":\"c\"}", token);
    once(d, VERB_submit, "{\"kind\":\"a\",\"idempotency_key\":\"i\",\"payload\":[1.1,2]}");
    says(d, "duplicate", "true");
    says(d, "progress", "{\"at\":1}");
    once(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"early\",\"payload\":7}", id);
    assert_int_equal(d->status, 202);
    let_time_pass(d, 1000);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":{\"at\":2}}", token);
    once(d, VERB_cancel, "{\"id\":\"%s\",\"reason\":\"no\"}", id);
    says(d, "lease.beat_at", "2026-01-01T00:00:02.000Z");
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":{\"at\":3}}", token);
    all_again(d);
    well(d, VERB_cancelled, "{\"token\":\"%s\"}", token);
    all_again(d);
}

static void dies_and_rises(struct desk *d)
{
    const char *id = submit(d, "d");
    once(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"policy_violation\"}", id);
    once(d, VERB_requeue, "{\"id\":\"%s\",\"reason\":\"again\"}", id);
    const char *token = claim(d, "d");
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"k\"}", token);
    once(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":[1]}", id);
    says(d, "signal", "delivered");
    once(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":[1]}", id);
    says(d, "signal", "repeated");
    token = claim(d, "d");
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"q\"}", token);
    once(d, VERB_answer_job, "{\"id\":\"%s\",\"answer\":\"yes\"}", id);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":1}", claim(d, "d"));
    all_again(d);
    once(d, VERB_redact, "{\"id\":\"%s\"}", id);
}

static void goes_by_plan(struct desk *d)
{
    once(d, VERB_submit, "%s", DESK_PLAN);
    const char *id = said(d, "id");
    const char *token = step_claimed(d);
    once(d, VERB_verdict,
         "{\"id\":\"%s\",\"step\":\"a\",\"decision\":\"needs_user\",\"token\":\"%s\","
         "\"question\":{\"prompt\":\"which?\"}}",
         id, token);
    once(d, VERB_answer, "{\"id\":\"%s\",\"step\":\"a\",\"answer\":\"this\"}", id);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":1}", step_claimed(d));
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":2}", step_claimed(d));
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "status", "completed");
    once(d, VERB_plan, "{\"id\":\"%s\",\"steps\":[{\"id\":\"a\",\"kind\":\"k\"}]}", submit(d, "p"));
    well(d, VERB_complete, "{\"token\":\"%s\"}", step_claimed(d));
    all_again(d);
}

static void repeats_jobs(struct desk *d)
{
    lives_on(d);
    forget(d);
    dies_and_rises(d);
    forget(d);
    goes_by_plan(d);
}

static void a_repeated_response_is_the_first_one_whatever_has_become_of_the_job(void **state)
{
    (void)state;
    at_every_desk(repeats_jobs);
}

/* ---- claims ------------------------------------------------------------------------------- */

static void repeats_claims(struct desk *d)
{
    well(d, VERB_submit,
         "{\"jobs\":[{\"kind\":\"a\",\"payload\":1,\"timeout_ms\":60000},"
         "{\"kind\":\"a\",\"payload\":2},{\"kind\":\"b\"}]}");
    once(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":5,\"history\":true,\"kinds\":[\"a\"]}");
    const char *token = said(d, "claims.1.lease.token");
    says(d, "claims.1.events.2.type", "job_running");
    once(d, VERB_claim, "{\"worker_id\":\"w\",\"start\":false}");
    /* The token that was given again is the lease's. */
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":1}", token);
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}", token);
    all_again(d);
    forget(d);
    well(d, VERB_submit, "%s", DESK_PLAN);
    well(d, VERB_resource_put, "{\"id\":\"r1\",\"slots\":2}");
    once(d, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\"}");
    token = said(d, "claims.0.lease.token");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":{\"sum\":3}}", token);
    once(d, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\"}");
    says(d, "claims.0.inputs", "{\"a\":{\"sum\":3}}");
    well(d, VERB_release, "{\"token\":\"%s\"}", said(d, "claims.0.lease.token"));
    all_again(d);
}

static void a_repeated_claim_gives_the_same_tokens(void **state)
{
    (void)state;
    at_every_desk(repeats_claims);
}

/* ---- batches ------------------------------------------------------------------------------ */

static void repeats_batches(struct desk *d)
{
    (void)submit(d, "a");
    (void)submit(d, "a");
    const char *id = submit(d, "x");
    const char *one = claim(d, "a");
    const char *two = claim(d, "a");
    once(
        d, VERB_batch,
        "{\"ops\":[{\"op\":\"start\",\"token\":\"%s\"},"
        "{\"op\":\"effect_begin\",\"token\":\"%s\",\"key\":\"pay\",\"input\":1},"
        "{\"op\":\"effect_commit\",\"token\":\"%s\",\"key\":\"pay\",\"result\":[2],"
        "\"then\":{\"begin\":{\"key\":\"mail\"}}},"
        "{\"op\":\"effect_begin\",\"token\":\"%s\",\"key\":\"pay\",\"input\":1},"
        "{\"op\":\"effect_abort\",\"token\":\"%s\",\"key\":\"mail\",\"error\":{\"message\":\"m\"}},"
        "{\"op\":\"effect_commit\",\"token\":\"%s\",\"key\":\"never\",\"result\":1},"
        "{\"op\":\"heartbeat\",\"token\":\"%s\",\"progress\":5},"
        "{\"op\":\"complete\",\"token\":\"%s\",\"result\":6},"
        "{\"op\":\"complete\",\"token\":\"%s\",\"result\":7}]}",
        one, one, one, one, one, one, two, two, one);
    says(d, "results.3.body.result", "[2]");
    says(d, "results.5.body.code", "not_found");
    let_time_pass(d, 2000);
    once(d, VERB_batch,
         "{\"ops\":[{\"op\":\"submit\",\"jobs\":[{\"kind\":\"n\"},{\"kind\":\"n\",\"payload\":9}]},"
         "{\"op\":\"claim\",\"worker_id\":\"w\",\"kinds\":[\"n\"],\"max\":2},"
         "{\"op\":\"claim\",\"worker_id\":\"w\",\"kinds\":[\"none\"]},"
         "{\"op\":\"claim\",\"worker_id\":\"w\",\"max\":0},"
         "{\"op\":\"complete\",\"token\":\"%s\",\"result\":8},"
         "{\"op\":\"pause\",\"queue\":\"q9\"},{\"op\":\"cancel\",\"id\":\"%s\"},"
         "{\"op\":\"kind_set\",\"kind\":\"a\",\"lease_ttl_ms\":5000},"
         "{\"op\":\"resource_put\",\"id\":\"r7\",\"slots\":1},"
         "{\"op\":\"resource_delete\",\"id\":\"r7\"}]}",
         one, id);
    says(d, "results.1.body.claims.1.job.payload", "9");
    says(d, "results.4.body.code", "stale_lease");
    well(d, VERB_complete, "{\"token\":\"%s\"}", said(d, "results.1.body.claims.0.lease.token"));
    well(d, VERB_kind_set, "{\"kind\":\"a\",\"lease_ttl_ms\":9000}");
    once(d, VERB_pause, "{\"queue\":\"q8\"}");
    well(d, VERB_resume, "{\"queue\":\"q8\"}");
    all_again(d);
}

static void a_repeated_batch_tells_of_each_operation_what_it_came_to(void **state)
{
    (void)state;
    at_every_desk(repeats_batches);
}

static void repeats_long_details(struct desk *d)
{
    char kind[NAME_BYTES_MAX + 1] = {0};
    memset(kind, 'k', NAME_BYTES_MAX);
    once(d, VERB_batch,
         "{\"ops\":[{\"op\":\"submit\",\"kind\":\"%s\",\"idempotency_key\":\"i\"},"
         "{\"op\":\"submit\",\"kind\":\"%.100s\",\"idempotency_key\":\"i\"}]}",
         kind, kind);
    says(d, "results.1.body.code", "idempotency_mismatch");
    assert_true(strlen(said(d, "results.1.body.detail")) > 200);
}

static void a_repeated_batch_tells_why_it_refused_in_as_many_words(void **state)
{
    (void)state;
    at_every_desk(repeats_long_details);
}

/* A server that is about to end, and the next one. */
static void repeats_elsewhere(struct desk *d)
{
    static const char ops[] = "{\"ops\":[{\"op\":\"submit\",\"kind\":\"n\"},"
                              "{\"op\":\"claim\",\"worker_id\":\"w\"},"
                              "{\"op\":\"pause\",\"queue\":\"q9\"}]}";
    d->no_claims = "the server is shutting down";
    ill(d, VERB_claim, ERR_UNAVAILABLE, "shutting down", "{\"worker_id\":\"w\"}");
    once(d, VERB_batch, "%s", ops);
    says(d, "results.1.status", "503");
    d->no_claims = NULL;
    all_again(d);
    forget(d);
    once(d, VERB_batch, "%s", ops);
    says(d, "results.1.status", "200");
    once(d, VERB_claim, "{\"worker_id\":\"w\"}");
    d->no_claims = "the server is shutting down";
    all_again(d);
}

static void a_batch_is_repeated_on_a_server_that_gives_out_no_work_and_on_the_next(void **state)
{
    (void)state;
    at_every_desk(repeats_elsewhere);
}

/* ---- jobs that are not what they were ----------------------------------------------------- */

static void repeats_after_redaction(struct desk *d)
{
    static const char one[] = "{\"kind\":\"a\",\"payload\":{\"cents\":250}}";
    static const char claims[] = "{\"worker_id\":\"w\"}";
    d->key = "s";
    well(d, VERB_submit, one);
    const char *id = said(d, "id");
    d->key = "a";
    const char *appended =
        well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\"}]}", id);
    d->key = "c";
    well(d, VERB_claim, claims);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":1}", said(d, "claims.0.lease.token"));
    d->key = "r";
    const char *redacted = well(d, VERB_redact, "{\"id\":\"%s\"}", id);
    d->key = "r";
    assert_string_equal(well(d, VERB_redact, "{\"id\":\"%s\"}", id), redacted);
    d->key = "s";
    well(d, VERB_submit, one);
    assert_int_equal(d->status, 201);
    says(d, "id", id);
    says(d, "kind", "a");
    says(d, "payload", "");
    says(d, "redacted", "true");
    /* Nothing of it was a payload. */
    d->key = "a";
    assert_string_equal(well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\"}]}", id),
                        appended);
    d->key = "c";
    well(d, VERB_claim, claims);
    says(d, "claims", "[]");
    well(d, VERB_list, "{}");
    says(d, "jobs.1", "");
}

static void a_repeated_response_shows_what_redaction_has_left(void **state)
{
    (void)state;
    at_every_desk(repeats_after_redaction);
}

static void repeats_after_deletion(struct desk *d)
{
    static const char one[] = "{\"kind\":\"a\"}";
    static const char ops[] = "{\"ops\":[{\"op\":\"submit\",\"kind\":\"b\"},"
                              "{\"op\":\"submit\",\"kind\":\"c\",\"idempotency_key\":\"i\"},"
                              "{\"op\":\"claim\",\"worker_id\":\"w\",\"kinds\":[\"b\"]},"
                              "{\"op\":\"claim\",\"worker_id\":\"w\",\"kinds\":[\"c\"]}]}";
    well(d, VERB_kind_set, "{\"kind\":\"a\",\"retention_ms\":1000}");
    well(d, VERB_kind_set, "{\"kind\":\"b\",\"retention_ms\":1000}");
    d->key = "s";
    well(d, VERB_submit, one);
    const char *id = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\"}", claim(d, "a"));
    d->key = "ops";
    well(d, VERB_batch, ops);
    const char *kept = said(d, "results.1.body.id");
    const char *token = said(d, "results.3.body.claims.0.lease.token");
    well(d, VERB_complete, "{\"token\":\"%s\"}", said(d, "results.2.body.claims.0.lease.token"));
    let_time_pass(d, 5000);
    ill(d, VERB_get, ERR_NOT_FOUND, "", "{\"id\":\"%s\"}", id);
    d->key = "s";
    ill(d, VERB_submit, ERR_NOT_FOUND, "was executed", one);
    assert_non_null(strstr(d->err.detail, id));
    d->key = "ops";
    well(d, VERB_batch, ops);
    says(d, "results.0.status", "404");
    says(d, "results.0.body.code", "not_found");
    says(d, "results.1.status", "201");
    says(d, "results.1.body.id", kept);
    says(d, "results.2.body.claims", "[]");
    says(d, "results.3.body.claims.0.lease.token", token);
    well(d, VERB_list, "{}");
    says(d, "jobs.0.id", kept);
    says(d, "jobs.1", "");
}

static void a_repeated_request_says_that_its_job_was_deleted_and_is_not_done_again(void **state)
{
    (void)state;
    at_every_desk(repeats_after_deletion);
}

/* ---- records of other versions ------------------------------------------------------------ */

static void note_done(struct call *call, void *arg)
{
    (void)call;
    *(bool *)arg = true;
}

/* Puts a record under the key of a request. */
static void put_record(struct desk *d, const char *key, enum verb_name verb, struct str request,
                       struct str record)
{
    const struct verb_call asked = {.name = verb, .request = request};
    struct op op = {.type = OP_ANSWERED, .request = {.scope = STR("ann"), .key = str_from(key)}};
    struct op *ops[] = {&op};
    bool done = false;
    struct call call = {
        .ops = ops, .count = 1, .class = CALL_RESULT, .done = note_done, .arg = &done};
    int64_t wait_ms;
    op.response = record;
    verb_hash_request(&asked, op.request.body_hash);
    assert_int_equal(engine_submit(d->engine, &call, &d->err), ERR_OK);
    while (!done)
        engine_turn(d->engine, &wait_ms);
    assert_int_equal(op.code, ERR_OK);
    call_release(&call);
}

static void repeats_old_records(struct desk *d)
{
    static const char request[] = "{\"kind\":\"a\"}";
    put_record(d, "old", VERB_submit, STR("{\"kind\":\"a\"}"), STR("201 {\"id\":\"x\",\"old\":1}"));
    d->key = "old";
    assert_string_equal(well(d, VERB_submit, request), "{\"id\":\"x\",\"old\":1}");
    assert_int_equal(d->status, 201);
    well(d, VERB_list, "{}");
    says(d, "jobs", "[]");
}

static void a_response_that_version_0_1_0_kept_is_given_again(void **state)
{
    (void)state;
    at_every_desk(repeats_old_records);
}

static void tells_damage(struct desk *d)
{
    static const struct str records[] = {
        STR_INIT(""),
        STR_INIT("x"),
        STR_INIT("200"),
        STR_INIT("200 "),
        STR_INIT("200 {"),
        STR_INIT("999 {}"),
        STR_INIT("0 {}"),
        STR_INIT(" {}"),
        STR_INIT("\x01"),
        STR_INIT("\x01\x07"),
        STR_INIT("\x01\x02\x00"),           /* of another operation than the request makes */
        STR_INIT("\x01\x04\xc8\x01\x00"),   /* no body */
        STR_INIT("\x01\x04\x00\x02{}"),     /* no status */
        STR_INIT("\x01\x04\xc8\x01\x02{}"), /* again of another operation */
        STR_INIT("\x01\x03\x04\x00\x00\x03\x04\x00\x00"), /* one refusal too many */
    };
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "bad%zu", i);
        put_record(d, key, VERB_submit, STR("{\"kind\":\"a\"}"), records[i]);
        d->key = key;
        ill(d, VERB_submit, ERR_CORRUPT, "is damaged: it was executed before", "{\"kind\":\"a\"}");
    }
    static const struct str bodies[] = {STR_INIT("\x01\x04\xc8\x01\x00"),
                                        STR_INIT("\x01\x04\x00\x02{}")};
    for (size_t i = 0; i < 2; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "body%zu", i);
        put_record(d, key, VERB_pause, STR("{\"queue\":\"q\"}"), bodies[i]);
        d->key = key;
        ill(d, VERB_pause, ERR_CORRUPT, "is damaged: it was executed before", "{\"queue\":\"q\"}");
    }
    well(d, VERB_list, "{}");
    says(d, "jobs", "[]");
}

static void a_damaged_record_is_told_and_never_sent(void **state)
{
    (void)state;
    at_every_desk(tells_damage);
}

/* ---- how much is kept --------------------------------------------------------------------- */

static size_t bytes_kept(struct desk *d, const char *key)
{
    struct store_txn *txn;
    struct store_request known = {.scope = STR("ann"), .key = str_from(key)};
    struct store_load load = {.requests = &known, .request_count = 1};
    assert_int_equal(store_begin(engine_store(d->engine), STORE_READ, &txn, NULL), ERR_OK);
    assert_int_equal(store_load(txn, &load, &d->arena, NULL), ERR_OK);
    store_rollback(txn);
    assert_true(known.found);
    return known.record.answer.len;
}

static const char *jobs_of(struct desk *d, int count)
{
    char *text = arena_alloc(&d->arena, 64 * (size_t)count);
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, 64, "%s{\"kind\":\"a\",\"payload\":{\"cents\":250}}",
                                i == 0 ? "{\"jobs\":[" : ",");
    (void)snprintf(text + len, 3, "]}");
    return text;
}

static void keeps_little(struct desk *d)
{
    static const int counts[] = {1, 100};
    for (size_t i = 0; i < 2; i++) {
        size_t most = 2 + (size_t)counts[i] * REQUEST_OP_BYTES_MAX;
        char submits[16];
        char claims[16];
        (void)snprintf(submits, sizeof submits, "s%d", counts[i]);
        (void)snprintf(claims, sizeof claims, "c%d", counts[i]);
        d->key = submits;
        well(d, VERB_submit, "%s", jobs_of(d, counts[i]));
        size_t whole = strlen(d->answer);
        d->key = claims;
        well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":%d}", counts[i]);
        print_message("%d jobs: submit keeps %zu of %zu bytes, claim %zu of %zu\n", counts[i],
                      bytes_kept(d, submits), whole, bytes_kept(d, claims), strlen(d->answer));
        assert_true(bytes_kept(d, submits) <= most);
        assert_true(bytes_kept(d, claims) <= most);
    }
}

static void a_record_has_at_most_48_bytes_an_operation(void **state)
{
    (void)state;
    at_every_desk(keeps_little);
}

/* Looks over the shoulder of a store: how much is in memory of the histories that it gives. */
static struct {
    const struct store_driver *driver;
    size_t most;
} history_meter;

static enum error_code metered_events(struct store_txn *txn, const struct store_stream *stream,
                                      struct arena *arena, struct event **ret, uint32_t *ret_count,
                                      struct err *err)
{
    enum error_code code = history_meter.driver->events(txn, stream, arena, ret, ret_count, err);
    if (arena_size(arena) > history_meter.most)
        history_meter.most = arena_size(arena);
    return code;
}

static void repeats_in_little_memory(struct desk *d)
{
    enum { EVENTS = 200, LARGE = 256 * 1024 };
    struct store *store = engine_store(d->engine);
    struct store_driver driver = *store->driver;
    once(d, VERB_submit, "{\"kind\":\"a\"}");
    const char *id = said(d, "id");
    const char *token = claim(d, "a");
    for (int i = 0; i < EVENTS; i += 2) {
        well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":%s}]}", id,
             long_text(d, LARGE));
        well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"k%d\",\"payload\":%s}", id, i,
             long_text(d, LARGE));
    }
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"e\"}", token);
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"e\",\"result\":%s}", token,
         long_text(d, LARGE));
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k0\"}", token);
    once(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\"}]}", id);
    once(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    history_meter.driver = store->driver;
    history_meter.most = 0;
    driver.events = metered_events;
    store->driver = &driver;
    all_again(d);
    store->driver = history_meter.driver;
    print_message("%d events: %zu bytes at most\n", EVENTS, history_meter.most);
    assert_true(history_meter.most > LARGE);
    assert_true(history_meter.most < EVENTS / 2 * LARGE);
    forget(d);
}

static void a_repeat_holds_a_page_of_a_history_and_no_more(void **state)
{
    (void)state;
    at_every_desk(repeats_in_little_memory);
}

/* ---- leases ------------------------------------------------------------------------------- */

static void under_a_key(struct desk *d, enum verb_name verb, const char *request)
{
    d->key = "same";
    ask(d, verb, request);
    if (d->code != ERR_OK)
        fail_msg("%.*s: %s", STR_ARG(verb_text(verb)), d->err.detail);
}

/* Sends what the holder of a lease says twice under one key, and tells whether the second response
 * is the first but for "repeated". */
static void twice(struct desk *d, enum verb_name verb, const char *token, const char *rest)
{
    char request[512];
    char expected[1024];
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\"%s}", token, rest);
    under_a_key(d, verb, request);
    size_t len = strlen(d->answer);
    (void)snprintf(expected, sizeof expected, "%.*s,\"repeated\":true}", (int)len - 1, d->answer);
    under_a_key(d, verb, request);
    assert_string_equal(d->answer, expected);
}

static void repeats_lease_calls(struct desk *d)
{
    char request[512];
    for (int i = 0; i < 8; i++)
        (void)submit(d, "a");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"start\":false}");
    const char *token = said(d, "claims.0.lease.token");
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\"}", token);
    under_a_key(d, VERB_start, request);
    says(d, "repeated", "");
    under_a_key(d, VERB_start, request);
    says(d, "repeated", "true");
    under_a_key(d, VERB_heartbeat, request);
    under_a_key(d, VERB_heartbeat, request);
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"key\":\"e\"}", token);
    under_a_key(d, VERB_effect_begin, request);
    const char *first = d->answer;
    under_a_key(d, VERB_effect_begin, request);
    assert_string_equal(d->answer, first);
    twice(d, VERB_effect_commit, token, ",\"key\":\"e\",\"result\":1");
    twice(d, VERB_complete, token, ",\"result\":1");
    /* Another body under the key is what it says: the token refuses what did not happen. */
    d->key = "same";
    ill(d, VERB_complete, ERR_STALE_LEASE, "a different outcome", "{\"token\":\"%s\",\"result\":2}",
        token);
    twice(d, VERB_fail, claim(d, "a"), ",\"error\":{\"message\":\"m\"}");
    twice(d, VERB_wait, claim(d, "a"), ",\"type\":\"signal\",\"correlation_key\":\"k\"");
    twice(d, VERB_abandon, claim(d, "a"), ",\"reason_code\":\"timeout\"");
    token = claim(d, "a");
    well(d, VERB_cancel, "{\"id\":\"%s\"}", said(d, "claims.0.job.id"));
    twice(d, VERB_cancelled, token, "");
    token = claim(d, "a");
    twice(d, VERB_release, token, "");
    /* Once the work is given to another, the token is told apart from its. */
    while (strcmp(said(d, "claims.0.lease.attempt"), "2") != 0)
        (void)claim(d, "a");
    d->key = "same";
    ill(d, VERB_release, ERR_STALE_LEASE, "newer attempt", "{\"token\":\"%s\"}", token);
}

static void what_the_holder_of_a_lease_says_again_is_told_by_its_token(void **state)
{
    (void)state;
    at_every_desk(repeats_lease_calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_request_is_not_done_again),
        cmocka_unit_test(a_repeated_response_is_the_first_one_whatever_has_become_of_the_job),
        cmocka_unit_test(a_repeated_claim_gives_the_same_tokens),
        cmocka_unit_test(a_repeated_batch_tells_of_each_operation_what_it_came_to),
        cmocka_unit_test(a_repeated_batch_tells_why_it_refused_in_as_many_words),
        cmocka_unit_test(a_batch_is_repeated_on_a_server_that_gives_out_no_work_and_on_the_next),
        cmocka_unit_test(a_repeated_response_shows_what_redaction_has_left),
        cmocka_unit_test(a_repeated_request_says_that_its_job_was_deleted_and_is_not_done_again),
        cmocka_unit_test(a_response_that_version_0_1_0_kept_is_given_again),
        cmocka_unit_test(a_damaged_record_is_told_and_never_sent),
        cmocka_unit_test(a_record_has_at_most_48_bytes_an_operation),
        cmocka_unit_test(a_repeat_holds_a_page_of_a_history_and_no_more),
        cmocka_unit_test(what_the_holder_of_a_lease_says_again_is_told_by_its_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
