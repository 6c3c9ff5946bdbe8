/* Errors of workers and dead letters, on every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

static const char *queued_job(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"queue\":\"q\"}");
    return said(d, "id");
}

/* Fails the only job there is for good. */
static void fail_for_good(struct desk *d, const char *error)
{
    d->clock++; /* ids are by time */
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":1,\"on_permanent\":\"dead_letter\"}}");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":0}");
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":%s}", said(d, "claims.0.lease.token"), error);
}

static void groups_by_error(struct desk *d)
{
    fail_for_good(d, "{\"message\":\"no user 'ada' in 30 ms\"}");
    fail_for_good(d, "{\"message\":\"no user 'bob' in 7 ms\"}");
    fail_for_good(d, "{\"message\":\"the disk is full\"}");
    fail_for_good(d,
                  "{\"message\":\"one\",\"type\":\"KeyError\",\"code\":\"503\",\"stack\":\"a:1\"}");
    fail_for_good(d, "{\"message\":\"two\",\"type\":\"KeyError\"}");
    fail_for_good(d, "{\"message\":\"three\",\"type\":\"KeyError\"}");
    well(d, VERB_dead_letter_groups, "{}");
    says(d, "groups.0.count", "3");
    says(d, "groups.0.type", "KeyError");
    says(d, "groups.0.message", "");
    says(d, "groups.0.last_error.message", "three");
    says(d, "groups.1.count", "2");
    says(d, "groups.1.type", "");
    says(d, "groups.1.message", "no user '*' in * ms");
    says(d, "groups.2.message", "the disk is full");
    says(d, "groups.3", "");
}

static void dead_letters_with_different_errors_are_different_groups(void **state)
{
    (void)state;
    at_every_desk(groups_by_error);
}

static void ends_as_dead_letter(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"correlation_id\":\"order-7\",\"retry\":{\"on_permanent\":\"dead_"
         "letter\"}}");
    const char *id = said(d, "id");
    says(d, "retry.on_permanent", "dead_letter");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":0}");
    well(d, VERB_fail,
         "{\"token\":\"%s\",\"error\":{\"class\":\"permanent\",\"message\":\"m\",\"type\":\"T\","
         "\"code\":\"C\","
         "\"stack\":\"S\"}}",
         said(d, "claims.0.lease.token"));
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "status", "dead_lettered");
    says(d, "error",
         "{\"class\":\"permanent\",\"message\":\"m\",\"type\":\"T\",\"code\":\"C\",\"stack\":"
         "\"S\"}");
    says(d, "dead_letter.last_error", said(d, "error"));
    says(d, "dead_letter.correlation_id", "order-7");
    says(d, "dead_letter.stage", "exec");
    says(d, "dead_letter.reason_code", "exhausted_retries");
    well(d, VERB_explain, "{\"id\":\"%s\"}", id);
    assert_non_null(strstr(said(d, "summary"), "\"m\" (T, code C)"));
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");

    /* By an operator, without a word: it has a message and a correlation all the same. */
    const char *queued = queued_job(d);
    well(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"timeout\"}", queued);
    says(d, "dead_letter.correlation_id", queued);
    says(d, "dead_letter.last_error.message", "an operator made the job a dead letter: timeout");
    ill(d, VERB_submit, ERR_BAD_REQUEST, "retry.on_permanent",
        "{\"kind\":\"mail\",\"retry\":{\"on_permanent\":\"retry\"}}");
}

static void a_dead_letter_tells_its_error_stage_and_correlation(void **state)
{
    (void)state;
    at_every_desk(ends_as_dead_letter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_letters_with_different_errors_are_different_groups),
        cmocka_unit_test(a_dead_letter_tells_its_error_stage_and_correlation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
