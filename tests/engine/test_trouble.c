/* Requests that come again after part of them was refused, breaks and resources, and a job that
 * cannot be read: what is wrong with one stays with that one. */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "desk.h"
#include "store/sqlite/sqlite.h"

static void check_keyed_batch(struct desk *desk)
{
    const char *const request = "{\"ops\":[{\"op\":\"complete\",\"token\":\"%s\"},"
                                "{\"op\":\"submit\",\"kind\":\"mail\"}]}";
    const char *first;
    well(desk, VERB_submit, "{\"kind\":\"other\"}");
    const char *token = claimed(desk);
    well(desk, VERB_release, "{\"token\":\"%s\"}", token);
    desk->key = "k1";
    well(desk, VERB_batch, request, token);
    says(desk, "results.0.status", "409");
    says(desk, "results.1.status", "201");
    first = said(desk, "results.1.body.id");
    desk->key = "k1";
    well(desk, VERB_batch, request, token);
    says(desk, "results.1.body.id", first);
    desk->key = NULL;
    well(desk, VERB_list, "{\"kind\":\"mail\"}");
    assert_string_not_equal(said(desk, "jobs.0.id"), "");
    assert_string_equal(said(desk, "jobs.1.id"), "");
}

static void a_keyed_batch_whose_first_part_is_refused_is_carried_out_once(void **state)
{
    (void)state;
    at_every_desk(check_keyed_batch);
}

static void check_resource_jump(struct desk *desk)
{
    well(desk, VERB_resource_put, "{\"id\":\"r1\",\"ttl_ms\":30000}");
    well(desk, VERB_submit,
         "{\"kind\":\"k\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"k\"}]}}");
    well(desk, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\"}");
    const char *token = said(desk, "claims.0.lease.token");
    desk->clock += INT64_C(3600) * 1000;
    let_time_pass(desk, 500);
    well(desk, VERB_heartbeat, "{\"token\":\"%s\"}", token);
    well(desk, VERB_resource_put, "{\"id\":\"r1\",\"ttl_ms\":30000}");
    let_time_pass(desk, 1000);
    well(desk, VERB_complete, "{\"token\":\"%s\"}", token);
    says(desk, "status", "completed");
}

static void an_hour_that_the_clock_jumps_loses_no_resource_that_lives(void **state)
{
    (void)state;
    at_every_desk(check_resource_jump);
}

static void check_lost_resource(struct desk *desk)
{
    well(desk, VERB_resource_put, "{\"id\":\"r1\",\"ttl_ms\":30000}");
    well(desk, VERB_submit,
         "{\"kind\":\"k\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"k\"}]}}");
    const char *id = said(desk, "id");
    well(desk, VERB_claim_steps,
         "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"lease_ttl_ms\":3600000}");
    desk->clock += INT64_C(3600) * 1000;
    for (int i = 0; i < 80; i++)
        let_time_pass(desk, 500);
    well(desk, VERB_steps, "{\"id\":\"%s\"}", id);
    says(desk, "steps.0.state", "switching_resource");
}

static void after_a_jump_a_resource_that_is_dead_is_lost_when_it_could_have_renewed(void **state)
{
    (void)state;
    at_every_desk(check_lost_resource);
}

/* As whoever has the file finds it after a restart: what it knows by heart is not damaged. */
static void damage(struct desk *desk, const char *id)
{
    struct sqlite_store *store = (struct sqlite_store *)engine_store(desk->engine);
    sqlite3 *file;
    char sql[200];
    struct uuid job;
    assert_int_equal(sqlite3_open(desk->stores.url + sizeof "sqlite:" - 1, &file), SQLITE_OK);
    (void)snprintf(
        sql, sizeof sql,
        "UPDATE claim_rows SET state = '{' WHERE lower(hex(job)) = replace('%s', '-', '')", id);
    assert_int_equal(sqlite3_exec(file, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(file), 1);
    (void)sqlite3_close(file);
    assert_true(uuid_parse(str_from(id), &job));
    header_cache_drop(&store->headers, &job);
}

static void check_damaged(struct desk *desk)
{
    if (strncmp(desk->stores.url, "sqlite:", 7) != 0)
        return;
    for (int i = 0; i < 3; i++) {
        well(desk, VERB_submit, "{\"kind\":\"bad\",\"lease_ttl_ms\":1000}");
        const char *id = said(desk, "id");
        well(desk, VERB_claim, "{\"worker_id\":\"w\"}");
        damage(desk, id);
    }
    well(desk, VERB_submit, "{\"kind\":\"good\",\"delay_ms\":5000}");
    for (int i = 0; i < 14; i++)
        let_time_pass(desk, 500);
    well(desk, VERB_claim, "{\"worker_id\":\"w\"}");
    says(desk, "claims.0.job.kind", "good");
}

static void jobs_that_cannot_be_read_do_not_stop_the_timers_of_others(void **state)
{
    (void)state;
    at_every_desk(check_damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_keyed_batch_whose_first_part_is_refused_is_carried_out_once),
        cmocka_unit_test(an_hour_that_the_clock_jumps_loses_no_resource_that_lives),
        cmocka_unit_test(after_a_jump_a_resource_that_is_dead_is_lost_when_it_could_have_renewed),
        cmocka_unit_test(jobs_that_cannot_be_read_do_not_stop_the_timers_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
