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
        "the idempotency_key \"k\" belongs to a job with another payload: use a new key";
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":1}");
    const char *id = said(d, "id");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH, another,
        "{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":2}");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH, another,
        "{\"kind\":\"mail\",\"idempotency_key\":\"k\"}");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "the idempotency_key \"k\" belongs to a job of kind \"mail\", not \"pay\": use a new key",
        "{\"kind\":\"pay\",\"idempotency_key\":\"k\",\"payload\":1}");
    /* The same key in another queue is another key. */
    well(d, VERB_submit,
         "{\"kind\":\"pay\",\"queue\":\"q\",\"idempotency_key\":\"k\",\"payload\":2}");

    /* Of many, all or none: by what is stored, and by one another. */
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "jobs[1]: the idempotency_key \"k\" belongs to a job with another payload: use a new key",
        "{\"jobs\":[{\"kind\":\"mail\"},{\"kind\":\"mail\",\"idempotency_key\":\"k\",\"payload\":2}"
        "]}");
    ill(d, VERB_submit, ERR_IDEMPOTENCY_MISMATCH,
        "jobs[2]: the idempotency_key \"n\" belongs to a job with another payload: use a new key",
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
        "the idempotency_key \"k\" belongs to a job with another fingerprint: use a new key",
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
        "the idempotency_key \"k\" belongs to a job of kind \"mail\", not \"pay\": use a new key",
        "{\"kind\":\"pay\",\"idempotency_key\":\"k\"}");
}

static void a_fingerprint_stands_for_a_payload_that_cannot_be_compared(void **state)
{
    (void)state;
    at_every_desk(submits_with_fingerprints);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_idempotency_key_gives_the_job_that_has_it),
        cmocka_unit_test(a_known_idempotency_key_with_another_kind_or_payload_is_refused),
        cmocka_unit_test(a_fingerprint_stands_for_a_payload_that_cannot_be_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
