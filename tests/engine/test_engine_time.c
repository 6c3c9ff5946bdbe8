/* What the engine does when time passes: delays and waits that end, leases of crashed workers,
 * retention, and a clock that jumps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/scene.h"

static void check_delay_wakes(struct scene *s)
{
    struct caller *claimer = scene_claim(s, NULL, 50000);
    struct caller *job = scene_prepare_submit(s, "mail");
    job->spec.run_at = s->clock + 3000;
    scene_hand_over(s, job);
    scene_pass(s, 2000);
    assert_true(job->done);
    assert_false(claimer->done);
    scene_pass(s, 2000);
    assert_true(claimer->done);
    assert_int_equal(claimer->op.grant_count, 1);
}

static void check_delays_wake_all(struct scene *s)
{
    struct caller *claimers[3];
    for (int i = 0; i < 3; i++) {
        claimers[i] = scene_claim(s, NULL, 50000);
        struct caller *job = scene_prepare_submit(s, "mail");
        job->spec.run_at = s->clock + 3000;
        scene_hand_over(s, job);
    }
    scene_pass(s, 4000);
    for (int i = 0; i < 3; i++) {
        assert_true(claimers[i]->done);
        assert_int_equal(claimers[i]->op.grant_count, 1);
    }
}

static void check_time_over(struct scene *s)
{
    struct caller *claimer = scene_claim(s, NULL, 3000);
    scene_pass(s, 2500);
    assert_false(claimer->done);
    scene_pass(s, 1000);
    assert_true(claimer->done);
    assert_int_equal(claimer->op.code, ERR_OK);
    assert_int_equal(claimer->op.grant_count, 0);
}

static void check_lease_ends(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    assert_int_equal(claimer->op.grant_count, 1);
    scene_pass(s, 29000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RUNNING);
    scene_pass(s, 2000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RETRYING);
    struct caller *late = scene_say(s, COMMAND_COMPLETE, claimer);
    scene_settle(s);
    assert_int_equal(late->op.code, ERR_STALE_LEASE);
}

/* An hour that nobody saw pass: the worker gets one heartbeat to say that it lives. */
static void check_jump(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    s->clock += INT64_C(3600) * 1000;
    s->steady += 500;
    scene_settle(s);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RUNNING);
    struct caller *beat = scene_say(s, COMMAND_HEARTBEAT, claimer);
    scene_settle(s);
    assert_int_equal(beat->op.code, ERR_OK);
    scene_pass(s, 20000);
    struct caller *result = scene_say(s, COMMAND_COMPLETE, claimer);
    scene_settle(s);
    assert_int_equal(result->op.code, ERR_OK);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
}

/* The second break comes while the worker has not yet had its chance. */
static void check_two_breaks(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    s->clock += INT64_C(3600) * 1000;
    s->steady += 500;
    scene_settle(s);
    scene_pass(s, 2000);
    s->clock += 6000;
    s->steady += 6000;
    struct caller *beat = scene_say(s, COMMAND_HEARTBEAT, claimer);
    scene_settle(s);
    assert_int_equal(beat->op.code, ERR_OK);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RUNNING);
}

static void check_jump_of_the_dead(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    scene_claim(s, NULL, 0);
    scene_settle(s);
    s->clock += INT64_C(3600) * 1000;
    s->steady += 500;
    scene_settle(s);
    scene_pass(s, 14000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RUNNING);
    scene_pass(s, 2000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RETRYING);
}

/* A resource is over and has its grace: nothing can be done about it yet. */
static void check_timer_beside_grace(struct scene *s)
{
    struct resource resource = {.id = STR("r"), .slots = 1};
    struct caller *registers = scene_caller(s, CALL_RESULT);
    registers->op.type = OP_RESOURCE;
    registers->op.resource = &resource;
    registers->op.ttl_ms = 60000;
    scene_hand_over(s, registers);
    scene_settle(s);
    assert_int_equal(registers->op.code, ERR_OK);
    s->clock += INT64_C(3600) * 1000;
    s->steady += 500;
    struct caller *claimer = scene_claim(s, NULL, 50000);
    struct caller *job = scene_prepare_submit(s, "mail");
    job->spec.run_at = s->clock + 2300;
    scene_hand_over(s, job);
    for (int i = 0; i < 100 && !claimer->done; i++) {
        int64_t wait_ms;
        engine_turn(s->engine, &wait_ms);
        s->clock += wait_ms;
        s->steady += wait_ms;
    }
    assert_true(claimer->done);
    assert_in_range(s->clock, job->spec.run_at, job->spec.run_at + 100);
}

/* Programs that are started now and then and end soon: each gives leases their grace, but not for
 * the time before the one that came before it. */
static void check_short_lives(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    scene_claim(s, NULL, 0);
    scene_settle(s);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(scene_status_of(s, job->op.job), JOB_RUNNING);
        scene_reopen(s, 20000);
        scene_settle(s);
    }
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RETRYING);
}

static void check_retention(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    scene_say(s, COMMAND_COMPLETE, claimer);
    scene_settle(s);
    s->clock += INT64_C(6) * 24 * 3600 * 1000;
    scene_pass(s, 3610 * 1000); /* until that is believed */
    assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
    /* A clock that has jumped is not believed before an hour is over. */
    s->clock += INT64_C(2) * 24 * 3600 * 1000;
    scene_pass(s, 3590 * 1000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
    scene_pass(s, 20 * 1000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_NONE);
}

/* For some seconds the clock is a year ahead, and servers are started meanwhile. */
static void check_glitch(struct scene *s, int restarts)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    scene_say(s, COMMAND_COMPLETE, claimer);
    scene_settle(s);
    const int64_t year = INT64_C(365) * 24 * 3600 * 1000;
    s->clock += year;
    scene_pass(s, 3000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
    for (int i = 0; i < restarts; i++) {
        scene_reopen(s, 1000);
        scene_pass(s, 3000);
        assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
    }
    s->clock -= year;
    scene_pass(s, 2 * 3600 * 1000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
    s->clock += INT64_C(7) * 24 * 3600 * 1000;
    scene_pass(s, 2 * 3600 * 1000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_NONE);
}

static void check_glitch_alone(struct scene *s)
{
    check_glitch(s, 0);
}

/* Nobody had the store open for a month. */
static void check_retention_after_a_month(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    scene_say(s, COMMAND_COMPLETE, claimer);
    scene_settle(s);
    scene_reopen(s, INT64_C(30) * 24 * 3600 * 1000);
    scene_pass(s, 10 * 1000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_COMPLETED);
    scene_pass(s, 3600 * 1000);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_NONE);
}

ON_EVERY_STORE(a_break_soon_after_another_takes_no_grace_away, check_two_breaks)
ON_EVERY_STORE(a_job_whose_delay_is_over_wakes_a_claimer, check_delay_wakes)
ON_EVERY_STORE(jobs_whose_delays_are_over_go_to_all_who_wait, check_delays_wake_all)
ON_EVERY_STORE(a_claimer_that_has_waited_long_enough_gets_nothing, check_time_over)
ON_EVERY_STORE(a_lease_without_heartbeats_ends_and_its_holder_is_refused, check_lease_ends)
ON_EVERY_STORE(an_hour_that_the_clock_jumps_expires_no_lease_that_lives, check_jump)
ON_EVERY_STORE(after_a_jump_the_dead_are_found_one_heartbeat_later, check_jump_of_the_dead)
ON_EVERY_STORE(a_timer_beside_a_resource_that_has_its_grace_is_seen_in_time,
               check_timer_beside_grace)
ON_EVERY_STORE(old_jobs_are_deleted, check_retention)
ON_EVERY_STORE(a_clock_that_is_a_year_ahead_for_seconds_deletes_nothing, check_glitch_alone)

static void who_starts_while_the_clock_is_a_year_ahead_deletes_nothing(void **state)
{
    (void)state;
    struct scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int sort = TEST_SQLITE; sort <= TEST_POSTGRES; sort++) {
        scene_open(s, (enum test_store)sort, 0);
        check_glitch(s, 3);
        scene_close(s);
    }
    free(s);
}

static void after_a_month_down_old_jobs_are_deleted_an_hour_later(void **state)
{
    (void)state;
    struct scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int sort = TEST_SQLITE; sort <= TEST_POSTGRES; sort++) {
        scene_open(s, (enum test_store)sort, 0);
        check_retention_after_a_month(s);
        scene_close(s);
    }
    free(s);
}

static void a_dead_workers_job_is_taken_back_by_programs_that_never_stay(void **state)
{
    (void)state;
    struct scene *s = malloc(sizeof *s);
    assert_non_null(s);
    for (int sort = TEST_SQLITE; sort <= TEST_POSTGRES; sort++) {
        scene_open(s, (enum test_store)sort, 0);
        check_short_lives(s);
        scene_close(s);
    }
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_break_soon_after_another_takes_no_grace_away),
        cmocka_unit_test(a_job_whose_delay_is_over_wakes_a_claimer),
        cmocka_unit_test(jobs_whose_delays_are_over_go_to_all_who_wait),
        cmocka_unit_test(a_claimer_that_has_waited_long_enough_gets_nothing),
        cmocka_unit_test(a_lease_without_heartbeats_ends_and_its_holder_is_refused),
        cmocka_unit_test(an_hour_that_the_clock_jumps_expires_no_lease_that_lives),
        cmocka_unit_test(after_a_jump_the_dead_are_found_one_heartbeat_later),
        cmocka_unit_test(a_timer_beside_a_resource_that_has_its_grace_is_seen_in_time),
        cmocka_unit_test(a_dead_workers_job_is_taken_back_by_programs_that_never_stay),
        cmocka_unit_test(old_jobs_are_deleted),
        cmocka_unit_test(a_clock_that_is_a_year_ahead_for_seconds_deletes_nothing),
        cmocka_unit_test(who_starts_while_the_clock_is_a_year_ahead_deletes_nothing),
        cmocka_unit_test(after_a_month_down_old_jobs_are_deleted_an_hour_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
