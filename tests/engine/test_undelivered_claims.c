/* Answers that never arrived: their leases are given back, and whoever asks again under the same
 * key gets no lease that is dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/desk.h"
#include "engine/undelivered_claims.h"

/* The last response, which was given under the key, is lost. */
static void lose(struct desk *d, const char *key)
{
    struct undelivered_claims lost = d->claims;
    lost.scope = key == NULL ? (struct str){NULL, 0} : STR("ann");
    lost.key = key == NULL ? (struct str){NULL, 0} : str_from(key);
    undelivered_claims_release(d->engine, &lost);
}

static void submit_two(struct desk *d)
{
    well(d, VERB_submit, "{\"jobs\":[{\"kind\":\"k\"},{\"kind\":\"k\"}]}");
}

static void asks_for_work_again(struct desk *d)
{
    submit_two(d);
    d->key = "once";
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":2}");
    const char *token = said(d, "claims.0.lease.token");
    const char *other = said(d, "claims.1.lease.token");
    lose(d, "once");
    ill(d, VERB_heartbeat, ERR_STALE_LEASE, "", "{\"token\":\"%s\"}", token);
    ill(d, VERB_heartbeat, ERR_STALE_LEASE, "", "{\"token\":\"%s\"}", other);
    d->key = "once";
    const char *first = well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":2}");
    says(d, "claims.0.lease.attempt", "2");
    token = said(d, "claims.1.lease.token");
    well(d, VERB_heartbeat, "{\"token\":\"%s\"}", token);
    /* That one has arrived: what is given again from now on is it. */
    d->key = "once";
    assert_string_equal(well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":2}"), first);
    well(d, VERB_heartbeat, "{\"token\":\"%s\"}", token);
}

static void a_claim_whose_answer_was_lost_claims_anew_under_its_key(void **state)
{
    (void)state;
    at_every_desk(asks_for_work_again);
}

static void loses_twice(struct desk *d)
{
    submit_two(d);
    d->key = "once";
    well(d, VERB_claim, "{\"worker_id\":\"w\"}");
    const struct undelivered_claims first = d->claims;
    lose(d, "once");
    d->key = "once";
    const char *second = well(d, VERB_claim, "{\"worker_id\":\"w\"}");
    const char *token = said(d, "claims.0.lease.token");
    d->claims = first;
    lose(d, "once");
    d->key = "once";
    assert_string_equal(well(d, VERB_claim, "{\"worker_id\":\"w\"}"), second);
    well(d, VERB_heartbeat, "{\"token\":\"%s\"}", token);
}

static void an_answer_that_is_lost_late_leaves_the_next_one_alone(void **state)
{
    (void)state;
    at_every_desk(loses_twice);
}

static void repeats_a_batch(struct desk *d)
{
    static const char ops[] = "{\"ops\":[{\"op\":\"submit\",\"kind\":\"other\"},"
                              "{\"op\":\"claim\",\"worker_id\":\"w\",\"kinds\":[\"k\"]}]}";
    submit_two(d);
    d->key = "once";
    well(d, VERB_batch, "%s", ops);
    const char *id = said(d, "results.0.body.id");
    const char *token = said(d, "results.1.body.claims.0.lease.token");
    assert_true(*id != '\0' && *token != '\0');
    lose(d, "once");
    ill(d, VERB_heartbeat, ERR_STALE_LEASE, "", "{\"token\":\"%s\"}", token);
    d->key = "once";
    well(d, VERB_batch, "%s", ops);
    says(d, "results.0.status", "201");
    says(d, "results.0.body.id", id);
    says(d, "results.1.status", "200");
    says(d, "results.1.body.claims", "[]");
    d->key = "once";
    ill(d, VERB_batch, ERR_IDEMPOTENCY_MISMATCH, "once",
        "{\"ops\":[{\"op\":\"submit\",\"kind\":\"k\"}]}");
    well(d, VERB_list, "{\"kind\":\"other\"}");
    says(d, "jobs.0.id", id);
    says(d, "jobs.1", "");
}

static void a_batch_whose_answer_was_lost_is_not_done_twice_and_holds_no_dead_lease(void **state)
{
    (void)state;
    at_every_desk(repeats_a_batch);
}

static void loses_without_a_key(struct desk *d)
{
    submit_two(d);
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"max\":2}");
    lose(d, NULL);
    well(d, VERB_claim, "{\"worker_id\":\"v\",\"max\":2}");
    says(d, "claims.0.lease.attempt", "2");
    says(d, "claims.1.lease.attempt", "2");
    /* What has no leases has nothing to give back. */
    well(d, VERB_claim, "{\"worker_id\":\"v\"}");
    lose(d, "none");
    submit_two(d);
    lose(d, "none");
}

static void without_a_key_only_the_leases_are_given_back(void **state)
{
    (void)state;
    at_every_desk(loses_without_a_key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_whose_answer_was_lost_claims_anew_under_its_key),
        cmocka_unit_test(an_answer_that_is_lost_late_leaves_the_next_one_alone),
        cmocka_unit_test(a_batch_whose_answer_was_lost_is_not_done_twice_and_holds_no_dead_lease),
        cmocka_unit_test(without_a_key_only_the_leases_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
