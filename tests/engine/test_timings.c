/* How long jobs took, by kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "engine/desk.h"
#include "engine/timings.h"

static void the_percentile_is_the_nearest_rank(void **state)
{
    static const int64_t numbers[] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
    (void)state;
    assert_int_equal(timing_percentile(numbers, 10, 50), 50);
    assert_int_equal(timing_percentile(numbers, 10, 95), 100);
    assert_int_equal(timing_percentile(numbers, 10, 90), 90);
    assert_int_equal(timing_percentile(numbers, 10, 91), 100);
    assert_int_equal(timing_percentile(numbers, 10, 1), 10);
    assert_int_equal(timing_percentile(numbers, 10, 100), 100);
    assert_int_equal(timing_percentile(numbers, 9, 50), 50);
    assert_int_equal(timing_percentile(numbers, 2, 50), 10);
    assert_int_equal(timing_percentile(numbers, 2, 95), 20);
    assert_int_equal(timing_percentile(numbers, 1, 50), 10);
    assert_int_equal(timing_percentile(numbers, 0, 50), -1);
}

static void the_last_attempt_counts(void **state)
{
    (void)state;
    /* Submitted at 1,000, put back at 5,000 to be tried from 6,000 on, taken at 6,200, done at
     * 7,000. */
    struct job job = {.created_at = 1000, .run_at = 6000, .updated_at = 7000};
    job.spec.kind = STR("mail");
    job.lease.since = 6200;
    struct job_timing timing = timing_of(&job);
    assert_true(str_eq(timing.kind, STR("mail")));
    assert_int_equal(timing.ms[TIMING_WAIT], 200);
    assert_int_equal(timing.ms[TIMING_RUN], 800);
    assert_int_equal(timing.ms[TIMING_TOTAL], 6000);
}

static void a_job_that_nobody_held_has_a_total_only(void **state)
{
    (void)state;
    struct job job = {.created_at = 1000, .run_at = 1000, .updated_at = 4000};
    struct job_timing timing = timing_of(&job);
    assert_int_equal(timing.ms[TIMING_WAIT], -1);
    assert_int_equal(timing.ms[TIMING_RUN], -1);
    assert_int_equal(timing.ms[TIMING_TOTAL], 3000);
}

static void kinds_come_in_order_and_each_once(void **state)
{
    struct job_timing jobs[] = {
        {STR("mail"), {5, 10, 15}, 0},
        {STR("crew"), {-1, -1, 99}, 0},
        {STR("mail"), {1, 20, 21}, 0},
        {STR("mail"), {9, 30, 300}, 0},
    };
    struct timings timings = {.jobs = jobs, .count = 4};
    struct arena arena;
    struct buf text;
    struct json_writer writer;
    (void)state;
    arena_init(&arena);
    assert_true(timings_sort(&timings, &arena));
    buf_init(&text, &arena, 64);
    json_writer_init(&writer, &text);
    json_begin_object(&writer);
    timings_write(&timings, &writer);
    json_end_object(&writer);
    buf_add_char(&text, '\0');
    assert_string_equal(text.at,
                        "{\"kinds\":["
                        "{\"kind\":\"crew\",\"count\":1,\"total_ms\":{\"p50\":99,\"p95\":99}},"
                        "{\"kind\":\"mail\",\"count\":3,\"wait_ms\":{\"p50\":5,\"p95\":9},"
                        "\"run_ms\":{\"p50\":20,\"p95\":30},\"total_ms\":{\"p50\":21,\"p95\":300}}"
                        "]}");
    arena_release(&arena);
}

static void a_rate_is_of_the_last_minute_or_of_all_that_were_read(void **state)
{
    const int64_t now = INT64_C(1767225600000);
    const int64_t ended[] = {now, now - 10 * 1000, now - 59 * 1000, now - 60 * 1000, now - 90000};
    (void)state;
    assert_int_equal(timing_per_minute(ended, 0, 3, now), 0);
    assert_int_equal(timing_per_minute(ended, 5, 5, now), 3);
    assert_int_equal(timing_per_minute(ended, 2, 5, now), 2);
    /* There are more than were read: two in ten seconds are twelve a minute. */
    assert_int_equal(timing_per_minute(ended, 2, 2, now), 12);
    /* All at once, and with a clock behind that of the jobs. */
    assert_int_equal(timing_per_minute(ended, 1, 1, now), 60000);
    assert_int_equal(timing_per_minute(ended, 1, 1, now - 5), 60000);
}

static void without_jobs_there_are_no_kinds(void **state)
{
    struct timings timings = {0};
    struct arena arena;
    struct buf text;
    struct json_writer writer;
    (void)state;
    arena_init(&arena);
    assert_true(timings_sort(&timings, &arena));
    buf_init(&text, &arena, 64);
    json_writer_init(&writer, &text);
    json_begin_object(&writer);
    timings_write(&timings, &writer);
    json_end_object(&writer);
    buf_add_char(&text, '\0');
    assert_string_equal(text.at, "{\"kinds\":[]}");
    arena_release(&arena);
}

/* A job that is submitted, waits, and is worked on. */
static void live(struct desk *d, const char *kind, int64_t wait_ms, int64_t run_ms)
{
    well(d, VERB_submit, "{\"kind\":\"%s\",\"queue\":\"q-%s\"}", kind, kind);
    d->clock += wait_ms;
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"lease_ttl_ms\":3600000}");
    const char *token = said(d, "claims.0.lease.token");
    d->clock += run_ms;
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
}

static void tells_timings(struct desk *d)
{
    well(d, VERB_stats, "{}");
    says(d, "kinds", "[]");
    for (int64_t i = 1; i <= 20; i++)
        live(d, "mail", i * 10, i * 100);
    live(d, "video", 7, 5000);

    /* What has failed, or is not done, does not count. */
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":1}}");
    well(d, VERB_claim, "{\"worker_id\":\"w1\"}");
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"no\"}}",
         said(d, "claims.0.lease.token"));
    well(d, VERB_submit, "{\"kind\":\"later\"}");

    well(d, VERB_stats, "{}");
    says(d, "kinds.0",
         "{\"kind\":\"mail\",\"count\":20,\"wait_ms\":{\"p50\":100,\"p95\":190},"
         "\"run_ms\":{\"p50\":1000,\"p95\":1900},\"total_ms\":{\"p50\":1100,\"p95\":2090}}");
    says(d, "kinds.1.kind", "video");
    says(d, "kinds.1.run_ms.p95", "5000");
    says(d, "kinds.2", "");
}

static void tells_recent(struct desk *d)
{
    well(d, VERB_stats, "{}");
    says(d, "recent", "{\"completed_per_min\":0,\"failed_per_min\":0}");
    live(d, "mail", 10, 20);
    d->clock += RECENT_MS;
    live(d, "mail", 30, 400);
    live(d, "mail", 10, 200);
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":1}}");
    well(d, VERB_claim, "{\"worker_id\":\"w1\"}");
    well(d, VERB_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"no\"}}",
         said(d, "claims.0.lease.token"));
    well(d, VERB_stats, "{}");
    says(d, "recent",
         "{\"completed_per_min\":2,\"failed_per_min\":1,\"wait_p50_ms\":10,\"wait_p95_ms\":30,"
         "\"run_p50_ms\":200,\"run_p95_ms\":400}");
    d->clock += RECENT_MS;
    well(d, VERB_stats, "{}");
    says(d, "recent", "{\"completed_per_min\":0,\"failed_per_min\":0}");
}

static void stats_tell_how_many_jobs_ended_in_the_last_minute(void **state)
{
    (void)state;
    at_every_desk(tells_recent);
}

static void stats_tell_how_long_each_kind_takes(void **state)
{
    (void)state;
    at_every_desk(tells_timings);
}

/* Only of the queues that a caller may see. */
static void limits_timings(struct desk *d)
{
    live(d, "mail", 10, 20);
    live(d, "video", 10, 20);
    struct names queues = {&STR("q-video"), 1};
    struct arena arena;
    arena_init(&arena);
    struct verb_call call = {.engine = d->engine, .arena = &arena, .queues = &queues};
    struct store_txn *txn;
    struct timings timings;
    struct err err = {0};
    assert_int_equal(store_begin(engine_store(d->engine), STORE_READ, &txn, &err), ERR_OK);
    assert_int_equal(timings_read(&call, txn, &timings, &err), ERR_OK);
    store_rollback(txn);
    assert_int_equal(timings.count, 1);
    assert_true(str_eq(timings.jobs[0].kind, STR("video")));
    arena_release(&arena);
}

static void timings_are_limited_to_the_queues_of_the_caller(void **state)
{
    (void)state;
    at_every_desk(limits_timings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_percentile_is_the_nearest_rank),
        cmocka_unit_test(the_last_attempt_counts),
        cmocka_unit_test(a_job_that_nobody_held_has_a_total_only),
        cmocka_unit_test(kinds_come_in_order_and_each_once),
        cmocka_unit_test(without_jobs_there_are_no_kinds),
        cmocka_unit_test(a_rate_is_of_the_last_minute_or_of_all_that_were_read),
        cmocka_unit_test(stats_tell_how_many_jobs_ended_in_the_last_minute),
        cmocka_unit_test(stats_tell_how_long_each_kind_takes),
        cmocka_unit_test(timings_are_limited_to_the_queues_of_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
