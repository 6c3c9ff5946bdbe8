/* Workers that have registered, on every store: who is listed, until when, and what explain makes
 * of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "core/worker.h"
#include "engine/desk.h"

enum { SECOND = 1000, TTL = 60 * 1000 };

/* ---- who is listed ---- */

static void registers(struct desk *d)
{
    well(d, VERB_worker_put,
         "{\"id\":\"w2\",\"kinds\":[\"mail\",\"call\"],\"queues\":[\"fast\"],\"slots\":4,"
         "\"code_version\":\"v1.2\",\"labels\":{\"zone\":\"eu\",\"q\\\"\":\"\"},\"ttl_ms\":5000}");
    says(d, "worker_id", "w2");
    says(d, "kinds", "[\"call\",\"mail\"]");
    says(d, "queues", "[\"fast\"]");
    says(d, "slots", "4");
    says(d, "code_version", "v1.2");
    says(d, "labels.zone", "eu");
    says(d, "ttl_ms", "5000");
    says(d, "registered_at", "2026-01-01T00:00:00.000Z");
    says(d, "registered_until", "2026-01-01T00:00:05.000Z");
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "w2");
    says(d, "workers.0.leases", "0");
    says(d, "workers.0.last_beat_at", "");
    says(d, "workers.0.expires_at", "");
    says(d, "workers.0.registered", "true");
    says(d, "workers.0.kinds", "[\"call\",\"mail\"]");
    says(d, "workers.0.slots", "4");
    says(d, "workers.0.code_version", "v1.2");
    says(d, "workers.1", "");
    /* Whoever says nothing handles everything. */
    d->clock += SECOND;
    well(d, VERB_worker_put, "{\"id\":\"w1\"}");
    says(d, "kinds", "[]");
    says(d, "queues", "[]");
    says(d, "slots", "1");
    says(d, "code_version", "");
    says(d, "labels", "{}");
    says(d, "registered_until", "2026-01-01T00:01:01.000Z");
    /* What is said anew takes the place of all that was said. */
    well(d, VERB_worker_put, "{\"id\":\"w2\",\"ttl_ms\":10000}");
    says(d, "kinds", "[]");
    says(d, "labels", "{}");
    says(d, "code_version", "");
    says(d, "registered_at", "2026-01-01T00:00:00.000Z");
    says(d, "registered_until", "2026-01-01T00:00:11.000Z");
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "w1");
    says(d, "workers.1.worker_id", "w2");
    says(d, "workers.2", "");
    well(d, VERB_worker_delete, "{\"id\":\"w1\"}");
    says(d, "worker_id", "w1");
    ill(d, VERB_worker_delete, ERR_NOT_FOUND, "\"w1\"", "{\"id\":\"w1\"}");
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "w2");
    says(d, "workers.1", "");
}

static void an_idle_worker_is_listed_from_its_registration_to_its_deregistration(void **state)
{
    (void)state;
    at_every_desk(registers);
}

static void holds_leases(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    well(d, VERB_worker_put, "{\"id\":\"b\",\"slots\":3}");
    well(d, VERB_worker_put, "{\"id\":\"c\"}");
    well(d, VERB_claim, "{\"worker_id\":\"a\"}");
    well(d, VERB_claim, "{\"worker_id\":\"b\"}");
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    well(d, VERB_submit, DESK_PLAN);
    well(d, VERB_claim_steps, "{\"worker_id\":\"b\",\"resource_id\":\"r1\"}");
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "a");
    says(d, "workers.0.registered", "false");
    says(d, "workers.0.slots", "");
    says(d, "workers.1.worker_id", "b");
    says(d, "workers.1.leases", "1");
    says(d, "workers.1.resource_id", "");
    says(d, "workers.1.slots", "3");
    says(d, "workers.2.worker_id", "b");
    says(d, "workers.2.leases", "1");
    says(d, "workers.2.resource_id", "r1");
    says(d, "workers.2.slots", "3");
    says(d, "workers.3.worker_id", "c");
    says(d, "workers.3.leases", "0");
    well(d, VERB_workers, "{\"limit\":2}");
    says(d, "workers.2.worker_id", "b"); /* one worker is never on two pages */
    says(d, "workers.3", "");
    says(d, "next_cursor", "b");
    well(d, VERB_workers, "{\"limit\":2,\"cursor\":\"b\"}");
    says(d, "workers.0.worker_id", "c");
}

static void workers_with_leases_and_idle_ones_come_in_one_list(void **state)
{
    (void)state;
    at_every_desk(holds_leases);
}

/* ---- until when ---- */

static void expires(struct desk *d)
{
    well(d, VERB_worker_put, "{\"id\":\"w\",\"ttl_ms\":5000}");
    d->clock += 4999;
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "w");
    d->clock += 1;
    well(d, VERB_workers, "{}");
    says(d, "workers", "[]");
    ill(d, VERB_worker_delete, ERR_NOT_FOUND, "\"w\"", "{\"id\":\"w\"}");
    well(d, VERB_worker_put, "{\"id\":\"w\",\"ttl_ms\":5000}");
    says(d, "registered_at", "2026-01-01T00:00:05.000Z");
    /* It is forgotten by itself. */
    let_time_pass(d, 5000 + WORKER_KEPT_MS + 60 * 60 * 1000);
    well(d, VERB_claim, "{\"worker_id\":\"w\"}");
    well(d, VERB_workers, "{}");
    says(d, "workers", "[]");
}

static void a_worker_that_is_not_heard_of_for_its_ttl_is_gone(void **state)
{
    (void)state;
    at_every_desk(expires);
}

static void claims(struct desk *d)
{
    well(d, VERB_worker_put, "{\"id\":\"w\",\"kinds\":[\"mail\"],\"ttl_ms\":%d}", TTL);
    for (int i = 0; i < 40; i++) {
        d->clock += TTL / 4;
        well(d, VERB_claim, "{\"worker_id\":\"w\"}");
        well(d, VERB_workers, "{}");
        says(d, "workers.0.worker_id", "w");
    }
    says(d, "workers.0.kinds", "[\"mail\"]");
    says(d, "workers.0.registered_at", "2026-01-01T00:00:00.000Z");
    /* Claims of others do not keep it there. */
    for (int i = 0; i < 8; i++) {
        d->clock += TTL / 4;
        well(d, VERB_claim, "{\"worker_id\":\"v\"}");
    }
    well(d, VERB_workers, "{}");
    says(d, "workers", "[]");
    /* A claim that comes late brings it back. */
    well(d, VERB_claim, "{\"worker_id\":\"w\"}");
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "w");
}

static void claims_keep_a_worker_registered_and_bring_it_back(void **state)
{
    (void)state;
    at_every_desk(claims);
}

static void claims_with_work(struct desk *d)
{
    well(d, VERB_worker_put, "{\"id\":\"w\",\"ttl_ms\":%d}", TTL);
    for (int i = 0; i < 8; i++) {
        d->clock += TTL / 2;
        well(d, VERB_submit, "{\"kind\":\"mail\"}");
        well(d, VERB_complete, "{\"token\":\"%s\"}", claimed(d));
        well(d, VERB_submit, "{\"kind\":\"mail\"}");
        well(d, VERB_claim, "{\"worker_id\":\"w\"}");
        well(d, VERB_complete, "{\"token\":\"%s\"}", said(d, "claims.0.lease.token"));
        well(d, VERB_workers, "{}");
        says(d, "workers.0.worker_id", "w");
    }
}

static void claims_that_find_work_renew_too(void **state)
{
    (void)state;
    at_every_desk(claims_with_work);
}

struct looks {
    int claims;
    int looks;
};

static void count_looks(void *arg, const struct batch_report *report)
{
    struct looks *seen = ((struct desk *)arg)->notes;
    for (uint32_t i = 0; seen != NULL && i < report->op_count; i++) {
        seen->claims += report->ops[i]->type == OP_CLAIM;
        seen->looks += report->ops[i]->type == OP_CLAIM && report->ops[i]->claim.looks;
    }
}

static void nothing_failed(void *arg, enum error_code code)
{
    (void)arg;
    (void)code;
}

static void claims_all_the_time(struct desk *d)
{
    struct looks seen = {0};
    int writes = 0;
    const char *until = "";
    d->notes = &seen;
    well(d, VERB_worker_put, "{\"id\":\"w\",\"ttl_ms\":%d}", TTL);
    for (int i = 0; i < 10 * 60; i++) { /* ten times its ttl */
        d->clock += SECOND;
        well(d, VERB_claim, "{\"worker_id\":\"w\"}");
        well(d, VERB_claim, "{\"worker_id\":\"unregistered\"}");
        well(d, VERB_workers, "{}");
        writes += strcmp(until, said(d, "workers.0.registered_until")) != 0;
        until = said(d, "workers.0.registered_until");
    }
    assert_int_equal(seen.claims, 1200);
    assert_in_range(seen.looks, 2 * 90, 2 * 125);
    assert_in_range(writes, 18, 21);
}

static void a_worker_that_claims_all_the_time_is_looked_at_now_and_then(void **state)
{
    (void)state;
    static const struct observer observer = {.committed = count_looks, .failed = nothing_failed};
    at_every_watched_desk(claims_all_the_time, &observer);
}

/* ---- what is refused ---- */

static const struct {
    const char *request;
    const char *words;
} wrong[] = {
    {"{}", "id is required"},
    {"{\"id\":5}", "id must be a string"},
    {"{\"id\":\"\"}", "id must not be empty"},
    {"{\"id\":\"a\\u0001\"}", "id must not contain control characters"},
    {"{\"id\":\"token:a\"}", "id must not start with \"token:\""},
    {"{\"id\":\"w\",\"kinds\":\"mail\"}", "kinds must be an array"},
    {"{\"id\":\"w\",\"kinds\":[5]}", "kinds[0] must be a string, not 5"},
    {"{\"id\":\"w\",\"kinds\":[\"\"]}", "kinds[0] must not be empty"},
    {"{\"id\":\"w\",\"kinds\":[\"a\",\"a\"]}", "kinds[1] has the duplicate entry \"a\""},
    {"{\"id\":\"w\",\"queues\":{}}", "queues must be an array"},
    {"{\"id\":\"w\",\"queues\":[\"a\\n\"]}", "queues[0] must not contain control characters"},
    {"{\"id\":\"w\",\"slots\":0}", "slots must be a whole number from 1 to 100000, not 0"},
    {"{\"id\":\"w\",\"slots\":100001}",
     "slots must be a whole number from 1 to 100000, not 100001"},
    {"{\"id\":\"w\",\"slots\":\"2\"}", "slots must be"},
    {"{\"id\":\"w\",\"slots\":1.5}", "slots must be"},
    {"{\"id\":\"w\",\"code_version\":1}", "code_version must be a string"},
    {"{\"id\":\"w\",\"code_version\":\"\"}", "code_version must not be empty"},
    {"{\"id\":\"w\",\"labels\":[]}", "labels must be an object"},
    {"{\"id\":\"w\",\"labels\":{\"a\":1}}", "labels[\"a\"] must be a string, not 1"},
    {"{\"id\":\"w\",\"ttl_ms\":999}",
     "ttl_ms must be a whole number from 1000 to 86400000, not 999"},
    {"{\"id\":\"w\",\"ttl_ms\":86400001}", "ttl_ms must be a whole number from 1000 to 86400000"},
    {"{\"id\":\"w\",\"ttl_ms\":\"1000\"}", "ttl_ms must be"},
    {"{\"id\":\"w\",\"capabilities\":[]}", "capabilities"},
};

static void asks_for_too_many(struct desk *d, const char *member, const char *words)
{
    struct buf request;
    buf_init(&request, &d->arena, 0);
    buf_addf(&request, "{\"id\":\"w\",\"%s\":[", member);
    for (int i = 0; i <= WORKER_NAMES_MAX; i++)
        buf_addf(&request, "%s\"n%d\"", i > 0 ? "," : "", i);
    buf_add(&request, STR("]}"));
    buf_add_char(&request, '\0');
    ask(d, VERB_worker_put, request.at);
    assert_int_equal(d->code, ERR_BAD_REQUEST);
    assert_string_equal(d->err.detail, words);
}

static void asks_wrong_things(struct desk *d)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ask(d, VERB_worker_put, wrong[i].request);
        assert_true(d->code == ERR_BAD_REQUEST || d->code == ERR_UNKNOWN_FIELD);
        if (strstr(d->err.detail, wrong[i].words) == NULL)
            fail_msg("%s: %s", wrong[i].request, d->err.detail);
    }
    asks_for_too_many(d, "kinds", "kinds may have at most 200 entries, not 201");
    asks_for_too_many(d, "queues", "queues may have at most 200 entries, not 201");
    ill(d, VERB_worker_put, ERR_BAD_REQUEST, "id must be at most 128 bytes", "{\"id\":%s}",
        long_text(d, 129));
    ill(d, VERB_worker_put, ERR_BAD_REQUEST, "code_version must be at most 128 bytes",
        "{\"id\":\"w\",\"code_version\":%s}", long_text(d, 129));
    ill(d, VERB_worker_delete, ERR_BAD_REQUEST, "id is required", "{}");
    ill(d, VERB_worker_delete, ERR_NOT_FOUND, "unknown worker \"w\"", "{\"id\":\"w\"}");
    ill(d, VERB_workers, ERR_BAD_REQUEST, "limit", "{\"limit\":0}");
    well(d, VERB_workers, "{}");
    says(d, "workers", "[]");
}

static void what_is_wrong_with_a_registration_is_named_and_nothing_is_registered(void **state)
{
    (void)state;
    at_every_desk(asks_wrong_things);
}

/* Registers w0, w1 and so on, in batches. */
static void registers_many(struct desk *d, int first, int end)
{
    struct buf ops;
    buf_init(&ops, &d->arena, 1024 * 1024);
    for (int i = first; i < end; i++) {
        buf_addf(&ops, "%s{\"op\":\"worker_put\",\"id\":\"w%d\",\"ttl_ms\":5000}",
                 i % 500 == 0 ? "{\"ops\":[" : ",", i);
        if (i % 500 != 499)
            continue;
        buf_add(&ops, STR("]}"));
        buf_add_char(&ops, '\0');
        ask(d, VERB_batch, ops.at);
        assert_int_equal(d->code, ERR_OK);
        says(d, "results.499.status", "200");
        ops.len = 0;
    }
}

static void registers_too_many(struct desk *d)
{
    registers_many(d, 0, WORKERS_MAX);
    ill(d, VERB_worker_put, ERR_FORBIDDEN, "the limit of 10000 registered workers",
        "{\"id\":\"more\"}");
    well(d, VERB_worker_put, "{\"id\":\"w17\"}"); /* it is there already */
    well(d, VERB_worker_delete, "{\"id\":\"w18\"}");
    well(d, VERB_worker_put, "{\"id\":\"more\"}");
    ill(d, VERB_worker_put, ERR_FORBIDDEN, "limit of 10000 registered workers", "{\"id\":\"w18\"}");
    let_time_pass(d, 5000 + WORKER_KEPT_MS + 60 * 60 * 1000);
    well(d, VERB_worker_put, "{\"id\":\"w18\"}");
}

static void there_is_a_limit_to_how_many_workers_are_registered(void **state)
{
    (void)state;
    at_every_desk(registers_too_many);
}

static void registers_with_tokens(struct desk *d)
{
    d->token = "token:greedy";
    registers_many(d, 0, WORKERS_OF_TOKEN_MAX - 500);
    for (int i = 0; i < 499; i++)
        well(d, VERB_worker_put, "{\"id\":\"x%d\"}", i);
    /* Two in one batch, of which one fits. */
    ask(d, VERB_batch,
        "{\"ops\":[{\"op\":\"worker_put\",\"id\":\"b\"},{\"op\":\"worker_put\",\"id\":\"c\"}]}");
    says(d, "results.0.status", "200");
    says(d, "results.1.status", "403");
    ill(d, VERB_worker_put, ERR_FORBIDDEN, "the token has registered 2500 workers",
        "{\"id\":\"c\"}");
    well(d, VERB_worker_put, "{\"id\":\"b\",\"slots\":2}"); /* it is there already */
    d->token = "token:modest";
    well(d, VERB_worker_put, "{\"id\":\"c\"}");
    d->token = NULL;
    well(d, VERB_worker_put, "{\"id\":\"d\"}");
    d->token = "token:greedy";
    well(d, VERB_worker_delete, "{\"id\":\"b\"}");
    well(d, VERB_worker_put, "{\"id\":\"e\"}");
}

static void one_token_cannot_take_the_room_of_all_workers(void **state)
{
    (void)state;
    at_every_desk(registers_with_tokens);
}

/* ---- explain ---- */

static bool explains(struct desk *d, const char *id, const char *words)
{
    well(d, VERB_explain, "{\"id\":\"%s\"}", id);
    return strstr(said(d, "reasons"), words) != NULL;
}

static void explains_who_is_there(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"queue\":\"slow\"}");
    const char *id = said(d, "id");
    assert_true(explains(
        d, id, "No live worker is registered for the kind \\\"mail\\\". An unregistered worker"));
    well(d, VERB_worker_put, "{\"id\":\"v\",\"kinds\":[\"call\"]}");
    assert_true(explains(
        d, id, "No live worker is registered for the kind \\\"mail\\\". An unregistered worker"));
    well(d, VERB_worker_put, "{\"id\":\"w\",\"kinds\":[\"mail\"],\"queues\":[\"fast\"]}");
    assert_true(explains(d, id,
                         "No live worker is registered for the kind \\\"mail\\\" in the queue "
                         "\\\"slow\\\" (in other queues: 1)."));
    well(d, VERB_worker_put, "{\"id\":\"u\",\"queues\":[\"slow\",\"fast\"],\"slots\":2}");
    assert_true(explains(d, id, "Live workers for it: 1, with 0 of 2 slots in use."));
    for (int i = 0; i < 2; i++) {
        well(d, VERB_submit, "{\"kind\":\"mail\",\"queue\":\"fast\"}");
        well(d, VERB_claim, "{\"worker_id\":\"u\",\"queues\":[\"fast\"]}");
    }
    assert_true(explains(d, id, "Live workers for it: 1, with 2 of 2 slots in use, all busy."));
    d->clock += 60 * SECOND;
    assert_true(explains(
        d, id, "No live worker is registered for the kind \\\"mail\\\". An unregistered worker"));
    well(d, VERB_claim, "{\"worker_id\":\"x\",\"queues\":[\"slow\"]}");
    assert_false(explains(d, id, "live worker"));
}

static void explain_tells_whether_a_live_worker_handles_the_job(void **state)
{
    (void)state;
    at_every_desk(explains_who_is_there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_worker_is_listed_from_its_registration_to_its_deregistration),
        cmocka_unit_test(workers_with_leases_and_idle_ones_come_in_one_list),
        cmocka_unit_test(a_worker_that_is_not_heard_of_for_its_ttl_is_gone),
        cmocka_unit_test(claims_keep_a_worker_registered_and_bring_it_back),
        cmocka_unit_test(claims_that_find_work_renew_too),
        cmocka_unit_test(a_worker_that_claims_all_the_time_is_looked_at_now_and_then),
        cmocka_unit_test(what_is_wrong_with_a_registration_is_named_and_nothing_is_registered),
        cmocka_unit_test(there_is_a_limit_to_how_many_workers_are_registered),
        cmocka_unit_test(one_token_cannot_take_the_room_of_all_workers),
        cmocka_unit_test(explain_tells_whether_a_live_worker_handles_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
