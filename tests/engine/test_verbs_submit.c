/* Idempotency keys of jobs and fingerprints of their payloads, on every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

static void submits_twice(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":{\"a\":1,\"b\":2}}");
    const char *id = said(d, "id");
    says(d, "duplicate", "");
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":{\"b\":2.0,\"a\":1},"
         "\"priority\":3}");
    assert_int_equal(d->status, 200);
    says(d, "id", id);
    says(d, "payload", "{\"a\":1,\"b\":2}");
    says(d, "priority", "0");
    says(d, "duplicate", "true");
    well(d, VERB_submit,
         "{\"jobs\":[{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":{\"a\":1,\"b\":2}},{"
         "\"kind\":"
         "\"mail\",\"idempotency_key\":\"l\"},{\"kind\":\"mail\",\"idempotency_key\":\"l\"}]}");
    assert_int_equal(d->status, 201);
    says(d, "jobs.0.id", id);
    says(d, "jobs.0.duplicate", "true");
    says(d, "jobs.1.duplicate", "");
    says(d, "jobs.2.duplicate", "true");
    says(d, "jobs.2.id", said(d, "jobs.1.id"));
}

static void a_known_idempotency_key_gives_the_job_that_has_it(void **state)
{
    (void)state;
    at_every_desk(submits_twice);
}

#define FINGERPRINT(last) "\"fingerprint\":\"" ZEROS_60 "abc" last "\""
#define ZEROS_60 "000000000000000000000000000000000000000000000000000000000000"

static void submits_another_under_a_key(struct desk *d)
{
    static const char another[] =
        "the idempotency_key \"k\" belongs to a job with another payload: use a different key";
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":1}");
    const char *id = said(d, "id");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH, another,
        "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":2}");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH, another,
        "{\"kind\":\"mail\",\"idempotency_key\":\"k\"}");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"k\" belongs to a job of kind \"mail\", not \"pay\": use a different "
        "key",
        "{\"kind\":\"pay\",\"idempotency_key\":\"k\",\"payload\":1}");
    /* The same key in another queue is another key. */
    well(d, VERB_submit,
         "{\"kind\":\"pay\",\"queue\":\"q\",\"idempotency_key\":\"k\",\"payload\":2}");

    /* Of many, all or none: by what is stored, and by one another. */
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "jobs[1]: the idempotency_key \"k\" belongs to a job with another payload: use a different "
        "key",
        "{\"jobs\":[{\"kind\":\"mail\"},{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":2}"
        "]}");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "jobs[2]: the idempotency_key \"n\" belongs to a job with another payload: use a different "
        "key",
        "{\"jobs\":[{\"kind\":\"mail\",\"idempotency_key\":\"n\",\"payload\":1},{\"kind\":\"mail\"}"
        ","
        "{\"kind\":\"mail\",\"idempotency_key\":\"n\",\"payload\":2}]}");
    well(d, VERB_list, "{\"queue\":\"default\"}");
    says(d, "jobs.0.id", id);
    says(d, "jobs.0.version", "1");
    says(d, "jobs.1", "");

    /* In a batch each stands alone. */
    well(d, VERB_batch,
         "{\"ops\":[{\"op\":\"submit\",\"kind\":\"mail\",\"idempotency_key\":\"m\",\"payload\":1},"
         "{\"op\":\"submit\",\"kind\":\"mail\",\"idempotency_key\":\"m\",\"payload\":2}]}");
    says(d, "results.0.status", "201");
    says(d, "results.1.status", "422");
    says(d, "results.1.body.code", "idempotency_mismatch");
}

static void a_known_idempotency_key_with_another_kind_or_payload_is_refused(void **state)
{
    (void)state;
    at_every_desk(submits_another_under_a_key);
}

static void submits_with_fingerprints(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":\"sealed 1\"," FINGERPRINT(
             "1") "}");
    const char *id = said(d, "id");
    says(d, "fingerprint", ZEROS_60 "abc1");
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":\"sealed 2\"," FINGERPRINT(
             "1") "}");
    says(d, "id", id);
    says(d, "duplicate", "true");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"k\" belongs to a job with another fingerprint: use a different key",
        "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":\"sealed 1\"," FINGERPRINT(
            "2") "}");
    /* Digits are digits, in either case; also when all of them are zeros. */
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":3,\"fingerprint\":\"" ZEROS_60
         "ABC1\"}");
    says(d, "id", id);
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"z\",\"payload\":1,\"fingerprint\":\"" ZEROS_60
         "0000\"}");
    says(d, "fingerprint", ZEROS_60 "0000");
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"z\",\"payload\":2,\"fingerprint\":\"" ZEROS_60
         "0000\"}");
    says(d, "duplicate", "true");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH, "with another fingerprint",
        "{\"kind\":\"mail\",\"idempotency_key\":\"z\",\"payload\":1," FINGERPRINT("1") "}");
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"idempotency_key\":\"u\",\"fingerprint\":\"" ZEROS_60 "ABCD\"}");
    says(d, "fingerprint", ZEROS_60 "abcd");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "fingerprint must be 64 hex digits, not",
        "{\"kind\":\"mail\",\"fingerprint\":\"" ZEROS_60 "abcg\"}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "fingerprint must be 64 hex digits, not \"\"",
        "{\"kind\":\"mail\",\"fingerprint\":\"\"}");
    /* One without a fingerprint is compared by its payload. */
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":\"sealed 1\"}");
    says(d, "id", id);
    ill(d, VERB_submit, ERR_BAD_REQUEST, "fingerprint",
        "{\"kind\":\"mail\",\"fingerprint\":\"abc\"}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "fingerprint", "{\"kind\":\"mail\",\"fingerprint\":7}");

    /* When its payloads are erased, the kind is left to compare. */
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    well(d, VERB_redact, "{\"id\":\"%s\"}", id);
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":3}");
    says(d, "id", id);
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"k\" belongs to a job of kind \"mail\", not \"pay\": use a different "
        "key",
        "{\"kind\":\"pay\",\"idempotency_key\":\"k\"}");
}

static void a_fingerprint_stands_for_a_payload_that_cannot_be_compared(void **state)
{
    (void)state;
    at_every_desk(submits_with_fingerprints);
}

static void submits_many_of_which_one_is_refused(struct desk *d)
{
    ill(d, VERB_submit, ERR_UNPROCESSABLE_PLAN, "jobs[2]: ",
        "{\"jobs\":[{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":1},"
        "{\"kind\":\"mail\",\"plan\":{\"steps\":[{\"id\":\"a\"}]}},"
        "{\"kind\":\"mail\",\"plan\":{\"steps\":[{\"id\":\"a\",\"deps\":[\"b\"]}]}},"
        "{\"kind\":\"mail\"}]}");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "jobs[1]: deadline_ms is 1000, but the earliest start",
        "{\"jobs\":[{\"kind\":\"mail\"},"
        "{\"kind\":\"mail\",\"deadline_ms\":1000,\"delay_ms\":5000}]}");
    well(d, VERB_list, "{}");
    says(d, "jobs.0", "");
    /* Others in the same batch do not suffer, and the key that one of them had is free. */
    well(d, VERB_batch,
         "{\"ops\":[{\"op\":\"submit\",\"kind\":\"mail\"},"
         "{\"op\":\"submit\",\"jobs\":[{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":1},"
         "{\"kind\":\"mail\",\"plan\":{\"steps\":[]}}]},"
         "{\"op\":\"submit\",\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":2}]}");
    says(d, "results.0.status", "201");
    says(d, "results.1.body.code", "unprocessable_plan");
    says(d, "results.2.status", "201");
    says(d, "results.2.body.duplicate", "");
    well(d, VERB_list, "{}");
    says(d, "jobs.1.version", "1");
    says(d, "jobs.2", "");
    ill(d, VERB_batch, ERR_BATCH_REFUSED, "ops[0]: jobs[1]: ",
        "{\"atomic\":true,\"ops\":[{\"op\":\"submit\",\"jobs\":[{\"kind\":\"mail\"},"
        "{\"kind\":\"mail\",\"plan\":{\"steps\":[]}}]}]}");
}

static void many_jobs_are_made_together_or_not_at_all(void **state)
{
    (void)state;
    at_every_desk(submits_many_of_which_one_is_refused);
}

static void submits_under_a_kind_with_a_retry_policy(struct desk *d)
{
    well(d, VERB_kind_set,
         "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":7,\"initial_ms\":100,\"max_ms\":200}}");
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    says(d, "retry.max_attempts", "7");
    says(d, "retry.initial_ms", "100");
    /* A member that is given counts also when it is as the default would be, or nothing. */
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":20,\"initial_ms\":0}}");
    says(d, "retry.max_attempts", "20");
    says(d, "retry.initial_ms", "0");
    says(d, "retry.max_ms", "200");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "jobs[1]: retry",
        "{\"jobs\":[{\"kind\":\"mail\"},{\"kind\":\"mail\",\"retry\":{\"initial_ms\":500}}]}");
}

static void a_request_stands_over_the_settings_of_its_kind_member_by_member(void **state)
{
    (void)state;
    at_every_desk(submits_under_a_kind_with_a_retry_policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_idempotency_key_gives_the_job_that_has_it),
        cmocka_unit_test(a_known_idempotency_key_with_another_kind_or_payload_is_refused),
        cmocka_unit_test(a_fingerprint_stands_for_a_payload_that_cannot_be_compared),
        cmocka_unit_test(many_jobs_are_made_together_or_not_at_all),
        cmocka_unit_test(a_request_stands_over_the_settings_of_its_kind_member_by_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
