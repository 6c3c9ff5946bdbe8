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

/* The id of a group, by its place among the groups, until the next one is asked for. */
static const char *group_at(struct desk *d, const char *path)
{
    well(d, VERB_dead_letter_groups, "{}");
    return said(d, path);
}

static void three_groups(struct desk *d)
{
    for (int i = 0; i < 3; i++) {
        fail_for_good(d, "{\"message\":\"no user 'ada'\"}");
        fail_for_good(d, "{\"message\":\"the disk is full\"}");
    }
    fail_for_good(d, "{\"message\":\"the disk is full\",\"type\":\"IOError\"}");
}

static void acts_on_one_group(struct desk *d)
{
    three_groups(d);
    const char *users = group_at(d, "groups.0.group");
    says(d, "groups.0.message", "no user '*'");
    const char *disks = said(d, "groups.1.group");
    const char *typed = said(d, "groups.2.group");
    says(d, "groups.2.type", "IOError");

    /* Listed, some at a time: two of the group, then the third. */
    well(d, VERB_dead_letters, "{\"group\":\"%s\",\"limit\":2}", users);
    says(d, "jobs.0.dead_letter.last_error.message", "no user 'ada'");
    says(d, "jobs.1.dead_letter.last_error.message", "no user 'ada'");
    says(d, "jobs.2", "");
    well(d, VERB_dead_letters, "{\"group\":\"%s\",\"cursor\":\"%s\"}", users,
         said(d, "next_cursor"));
    says(d, "jobs.0.dead_letter.last_error.message", "no user 'ada'");
    says(d, "jobs.1", "");
    says(d, "next_cursor", "");

    /* With what a dry run has counted, and no other job is touched. */
    well(d, VERB_redrive, "{\"group\":\"%s\",\"dry_run\":true}", users);
    says(d, "matched", "3");
    well(d, VERB_redrive, "{\"group\":\"%s\",\"limit\":2}", users);
    says(d, "done", "2");
    well(d, VERB_redrive, "{\"group\":\"%s\",\"cursor\":\"%s\"}", users, said(d, "next_cursor"));
    says(d, "matched", "1");
    says(d, "done", "1");
    says(d, "next_cursor", "");
    well(d, VERB_drop, "{\"group\":\"%s\",\"kind\":\"mail\"}", disks);
    says(d, "done", "3");
    well(d, VERB_drop, "{\"group\":\"%s\",\"kind\":\"other\"}", typed);
    says(d, "matched", "0");

    says(d, "next_cursor", "");
    (void)group_at(d, "groups");
    says(d, "groups.0.group", typed);
    says(d, "groups.0.count", "1");
    says(d, "groups.1", "");
    well(d, VERB_stats, "{}");
    says(d, "jobs.queued", "3");
    says(d, "jobs.dead_lettered", "1");
}

static void a_group_of_dead_letters_is_listed_redriven_and_dropped_alone(void **state)
{
    (void)state;
    at_every_desk(acts_on_one_group);
}

static void takes_one_of_another_group(struct desk *d)
{
    three_groups(d);
    const char *typed = group_at(d, "groups.2.group");
    well(d, VERB_dead_letters, "{\"group\":\"%s\"}", said(d, "groups.0.group"));
    ill(d, VERB_drop, ERR_INVALID_TRANSITION, "not a matching dead letter",
        "{\"id\":\"%s\",\"group\":\"%s\"}", said(d, "jobs.0.id"), typed);
    well(d, VERB_stats, "{}");
    says(d, "jobs.dead_lettered", "7");
}

static void a_dead_letter_of_another_group_is_not_dropped_by_its_id(void **state)
{
    (void)state;
    at_every_desk(takes_one_of_another_group);
}

static void takes_no_bad_group(struct desk *d)
{
    static const char *const bad[] = {"\"\"", "\"12\"", "\"zzzzzzzzzzzzzzzz\"",
                                      "\"00000000000000000\"", "17"};
    static const enum verb_name verbs[] = {VERB_dead_letters, VERB_redrive, VERB_drop};
    fail_for_good(d, "{\"message\":\"the disk is full\"}");
    for (size_t v = 0; v < sizeof verbs / sizeof verbs[0]; v++)
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
            ill(d, verbs[v], ERR_BAD_REQUEST, "group", "{\"group\":%s}", bad[i]);
    /* One that no dead letter has is none, and not all of them. */
    well(d, VERB_drop, "{\"group\":\"0000000000000000\"}");
    says(d, "matched", "0");
    well(d, VERB_stats, "{}");
    says(d, "jobs.dead_lettered", "1");
}

static void a_group_that_is_none_touches_nothing(void **state)
{
    (void)state;
    at_every_desk(takes_no_bad_group);
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
    says(d, "dead_letter.last_error.message", "an operator dead-lettered the job: timeout");
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
        cmocka_unit_test(a_group_of_dead_letters_is_listed_redriven_and_dropped_alone),
        cmocka_unit_test(a_dead_letter_of_another_group_is_not_dropped_by_its_id),
        cmocka_unit_test(a_group_that_is_none_touches_nothing),
        cmocka_unit_test(a_dead_letter_tells_its_error_stage_and_correlation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
