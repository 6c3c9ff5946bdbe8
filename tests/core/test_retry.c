#include "core/retry.h"

#include "../base/fixture.h"
#include "core/spec.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- defaults ---- */

static void jobs_get_20_attempts_from_half_a_second_up_to_an_hour(void **state)
{
    struct retry_policy policy = retry_policy_for_jobs();
    struct err err;
    (void)state;
    assert_int_equal(policy.max_attempts, 20);
    assert_int_equal(policy.strategy, RETRY_EXPONENTIAL);
    assert_int_equal(policy.initial_ms, 500);
    assert_int_equal(policy.factor_milli, 2000);
    assert_int_equal(policy.max_ms, 3600 * 1000);
    assert_int_equal(policy.jitter, JITTER_EQUAL);
    assert_int_equal(policy.on_exhausted, EXHAUSTED_DEAD_LETTER);
    assert_int_equal(retry_policy_check(&policy, "retry", &err), ERR_OK);
}

static void steps_get_3_retries_from_a_second_up_to_half_a_minute(void **state)
{
    struct retry_policy policy = retry_policy_for_steps();
    struct err err;
    (void)state;
    assert_int_equal(policy.max_attempts, 4);
    assert_int_equal(policy.strategy, RETRY_EXPONENTIAL);
    assert_int_equal(policy.initial_ms, 1000);
    assert_int_equal(policy.factor_milli, 2000);
    assert_int_equal(policy.max_ms, 30 * 1000);
    assert_int_equal(policy.jitter, JITTER_NONE);
    assert_int_equal(policy.on_exhausted, EXHAUSTED_NONE);
    assert_int_equal(retry_policy_check(&policy, "retry", &err), ERR_OK);
}

/* ---- delays ---- */

static void delays_are(const struct retry_policy *policy, const int64_t *delays, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(retry_delay_ms(policy, (int64_t)i + 1, 12345), delays[i]);
}

static void a_step_rests_longer_each_time_up_to_half_a_minute(void **state)
{
    static const int64_t delays[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    delays_are(&policy, delays, COUNT(delays));
}

static void a_job_without_jitter_doubles_from_half_a_second_to_a_minute(void **state)
{
    static const int64_t delays[] = {500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    struct retry_policy policy = retry_policy_for_jobs();
    (void)state;
    policy.max_ms = 60000;
    policy.jitter = JITTER_NONE;
    delays_are(&policy, delays, COUNT(delays));
}

static void a_job_by_default_comes_to_an_hour_at_the_fourteenth_failure(void **state)
{
    static const int64_t delays[] = {500,    1000,    2000,    4000,    8000,
                                     16000,  32000,   64000,   128000,  256000,
                                     512000, 1024000, 2048000, 3600000, 3600000};
    struct retry_policy policy = retry_policy_for_jobs();
    (void)state;
    policy.jitter = JITTER_NONE;
    delays_are(&policy, delays, COUNT(delays));
}

static void a_delay_that_doubles_to_the_longest_exactly_is_the_longest(void **state)
{
    static const int64_t delays[] = {15000, 30000, 30000};
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.initial_ms = 15000;
    delays_are(&policy, delays, COUNT(delays));
}

static void linear_adds_the_first_delay_each_time(void **state)
{
    static const int64_t delays[] = {700, 1400, 2100, 2800, 3000, 3000};
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.strategy = RETRY_LINEAR;
    policy.initial_ms = 700;
    policy.max_ms = 3000;
    delays_are(&policy, delays, COUNT(delays));
    policy.initial_ms = 0;
    assert_int_equal(retry_delay_ms(&policy, 7, 0), 0);
}

static void fixed_stays_as_it_is(void **state)
{
    static const int64_t delays[] = {1000, 1000, 1000};
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.strategy = RETRY_FIXED;
    delays_are(&policy, delays, COUNT(delays));
    assert_int_equal(retry_delay_ms(&policy, INT64_MAX, 0), 1000);
    policy.max_ms = 10;
    assert_int_equal(retry_delay_ms(&policy, 1, 0), 10);
}

static void a_factor_with_decimals_rounds_down_only_at_the_end(void **state)
{
    /* 1 × 1.5^n: 1, 1.5, 2.25, 3.375, 5.0625, 7.59…, 11.39…, 17.08…, 25.6…, 38.4… */
    static const int64_t slow[] = {1, 1, 2, 3, 5, 7, 11, 17, 25, 38};
    static const int64_t fast[] = {1000, 1500, 2250, 3375, 5062, 7593, 10000, 10000};
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.factor_milli = 1500;
    policy.max_ms = 10000;
    delays_are(&policy, fast, COUNT(fast));
    policy.initial_ms = 1;
    delays_are(&policy, slow, COUNT(slow));
}

static void a_factor_of_1_never_grows(void **state)
{
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.factor_milli = 1000;
    assert_int_equal(retry_delay_ms(&policy, 1, 0), 1000);
    assert_int_equal(retry_delay_ms(&policy, INT64_MAX, 0), 1000);
}

static void however_many_failures_the_delay_stays_below_the_longest(void **state)
{
    static const int64_t failures[] = {
        1, 2, 10, 1000, 26400, 30000, INT64_C(1) << 40, INT64_MAX - 1, INT64_MAX};
    static const int64_t factors[] = {1000, 1001, 2000, 100000};
    static const int64_t initials[] = {0, 1, 500, DELAY_MS_MAX};
    (void)state;
    for (size_t i = 0; i < COUNT(failures) * COUNT(factors) * COUNT(initials) * 3; i++) {
        struct retry_policy policy = {
            .max_attempts = 1,
            .strategy = (enum retry_strategy)(RETRY_EXPONENTIAL + i % 3),
            .factor_milli = factors[i / 3 % COUNT(factors)],
            .initial_ms = initials[i / 3 / COUNT(factors) % COUNT(initials)],
            .max_ms = DELAY_MS_MAX,
            .jitter = JITTER_NONE,
        };
        int64_t count = failures[i / 3 / COUNT(factors) / COUNT(initials)];
        int64_t delay = retry_delay_ms(&policy, count, 1);
        int64_t later = retry_delay_ms(&policy, count < INT64_MAX ? count + 1 : count, 1);
        assert_true(delay >= policy.initial_ms);
        assert_true(delay <= later);
        assert_true(later <= DELAY_MS_MAX);
    }
}

static void the_slowest_growth_still_reaches_ten_years(void **state)
{
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.initial_ms = 1;
    policy.factor_milli = 1001;
    policy.max_ms = DELAY_MS_MAX;
    assert_true(retry_delay_ms(&policy, 26000, 0) < DELAY_MS_MAX);
    assert_int_equal(retry_delay_ms(&policy, 27000, 0), DELAY_MS_MAX);
}

static void a_policy_that_was_never_checked_does_not_overflow(void **state)
{
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.max_ms = INT64_MAX;
    policy.initial_ms = INT64_MAX;
    policy.factor_milli = INT64_MAX;
    assert_int_equal(retry_delay_ms(&policy, INT64_MAX, UINT64_MAX), DELAY_MS_MAX);
    policy.initial_ms = 1;
    assert_int_equal(retry_delay_ms(&policy, INT64_MAX, UINT64_MAX), DELAY_MS_MAX);
    assert_int_equal(retry_delay_ms(&policy, 2, 0), 100);
    policy.strategy = RETRY_LINEAR;
    assert_int_equal(retry_delay_ms(&policy, INT64_MAX, UINT64_MAX), DELAY_MS_MAX);
}

/* ---- jitter ---- */

/* Draws many delays and puts them into ten buckets of the range, which must all be about as full.
 */
static void spreads_evenly_over(const struct retry_policy *policy, int64_t min, int64_t max)
{
    enum { DRAWS = 100000, BUCKETS = 10 };
    int buckets[BUCKETS] = {0};
    uint64_t seed = 42;
    for (int i = 0; i < DRAWS; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int64_t delay = retry_delay_ms(policy, 1, seed ^ seed >> 32);
        assert_true(delay >= min && delay <= max);
        buckets[(delay - min) * BUCKETS / (max - min + 1)]++;
    }
    for (int i = 0; i < BUCKETS; i++)
        assert_in_range(buckets[i], DRAWS / BUCKETS * 9 / 10, DRAWS / BUCKETS * 11 / 10);
}

static void equal_jitter_keeps_half_and_draws_the_other_half(void **state)
{
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.jitter = JITTER_EQUAL;
    spreads_evenly_over(&policy, 500, 1000);
    assert_int_equal(retry_delay_ms(&policy, 1, 0), 500);
    assert_int_equal(retry_delay_ms(&policy, 1, 500), 1000);
    assert_int_equal(retry_delay_ms(&policy, 1, 501), 500);
    policy.initial_ms = 1;
    assert_int_equal(retry_delay_ms(&policy, 1, 0), 0);
    assert_int_equal(retry_delay_ms(&policy, 1, 1), 1);
}

static void full_jitter_draws_all_of_it(void **state)
{
    struct retry_policy policy = retry_policy_for_steps();
    (void)state;
    policy.jitter = JITTER_FULL;
    spreads_evenly_over(&policy, 0, 1000);
    assert_int_equal(retry_delay_ms(&policy, 1, 0), 0);
    assert_int_equal(retry_delay_ms(&policy, 1, 1000), 1000);
    policy.initial_ms = 0;
    assert_int_equal(retry_delay_ms(&policy, 1, UINT64_MAX), 0);
}

/* ---- what is refused ---- */

static void refused(struct retry_policy policy, const char *detail)
{
    struct err err = {0};
    assert_int_equal(retry_policy_check(&policy, "retry", &err), ERR_BAD_REQUEST);
    assert_int_equal(err.code, ERR_BAD_REQUEST);
    assert_string_equal(err.detail, detail);
    assert_int_equal(retry_policy_check(&policy, "retry", NULL), ERR_BAD_REQUEST);
}

static void nonsense_is_refused_with_the_values(void **state)
{
    const struct retry_policy good = retry_policy_for_jobs();
    struct retry_policy policy = good;
    (void)state;
    policy.max_attempts = 0;
    refused(policy, "retry.max_attempts must be a whole number from 1 to 1000000, not 0");
    policy.max_attempts = 1000001;
    refused(policy, "retry.max_attempts must be a whole number from 1 to 1000000, not 1000001");
    policy = good;
    policy.initial_ms = -1;
    refused(policy, "retry.initial_ms must be a whole number from 0 to 316224000000, not -1");
    policy.initial_ms = DELAY_MS_MAX + 1;
    refused(policy,
            "retry.initial_ms must be a whole number from 0 to 316224000000, not 316224000001");
    policy = good;
    policy.max_ms = -5;
    refused(policy, "retry.max_ms must be a whole number from 0 to 316224000000, not -5");
    policy.max_ms = 499;
    refused(policy, "retry.initial_ms must be at most max_ms, but 500 is more than 499");
}

static void a_factor_outside_1_to_100_is_refused(void **state)
{
    struct retry_policy policy = retry_policy_for_jobs();
    struct err err;
    (void)state;
    policy.factor_milli = 999;
    refused(policy, "retry.factor must be from 1 to 100, not 0.999");
    policy.factor_milli = 100001;
    refused(policy, "retry.factor must be from 1 to 100, not 100.001");
    policy.factor_milli = -500;
    refused(policy, "retry.factor must be from 1 to 100, not -0.500");
    policy.factor_milli = -2500;
    refused(policy, "retry.factor must be from 1 to 100, not -2.500");
    policy.factor_milli = 0;
    refused(policy, "retry.factor must be from 1 to 100, not 0.000");
    policy.strategy = RETRY_FIXED;
    assert_int_equal(retry_policy_check(&policy, "retry", &err), ERR_OK);
    policy.factor_milli = 1;
    refused(policy, "retry.factor must be from 1 to 100, not 0.001");
}

static void strategy_and_jitter_must_be_said(void **state)
{
    struct retry_policy policy = retry_policy_for_jobs();
    (void)state;
    policy.strategy = RETRY_NONE;
    refused(policy, "retry.strategy is required");
    policy.strategy = (enum retry_strategy)4;
    refused(policy, "retry.strategy has no word number 4");
    policy = retry_policy_for_jobs();
    policy.jitter = JITTER_UNSET;
    refused(policy, "retry.jitter is required");
    policy.jitter = (enum jitter)9;
    refused(policy, "retry.jitter has no word number 9");
}

/* ---- as JSON ---- */

static void a_policy_is_read_as_the_contract_has_it(void **state)
{
    struct retry_policy policy = retry_policy_for_jobs();
    struct err err;
    assert_int_equal(record_read(&retry_policy_record,
                                 STR("{\"max_attempts\":3,\"strategy\":\"linear\","
                                     "\"initial_ms\":10,\"factor\":1.5,\"max_ms\":20,"
                                     "\"jitter\":\"full\",\"on_exhausted\":\"fail\"}"),
                                 RECORD_ALL, RECORD_REQUEST, "retry", *state, &policy, &err),
                     ERR_OK);
    assert_int_equal(policy.max_attempts, 3);
    assert_int_equal(policy.strategy, RETRY_LINEAR);
    assert_int_equal(policy.initial_ms, 10);
    assert_int_equal(policy.factor_milli, 1500);
    assert_int_equal(policy.max_ms, 20);
    assert_int_equal(policy.jitter, JITTER_FULL);
    assert_int_equal(policy.on_exhausted, EXHAUSTED_FAIL);
}

static void a_policy_is_written_as_the_contract_has_it(void **state)
{
    struct retry_policy policy = retry_policy_for_jobs();
    struct buf buf;
    struct json_writer writer;
    buf_init(&buf, *state, 0);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    record_write(&retry_policy_record, &policy, RECORD_ALL, &writer);
    json_end_object(&writer);
    assert_str_equal(buf_str(&buf),
                     STR("{\"max_attempts\":20,\"strategy\":\"exponential\",\"initial_ms\":500,"
                         "\"factor\":2,\"max_ms\":3600000,\"jitter\":\"equal\","
                         "\"on_exhausted\":\"dead_letter\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_get_20_attempts_from_half_a_second_up_to_an_hour),
        cmocka_unit_test(steps_get_3_retries_from_a_second_up_to_half_a_minute),
        cmocka_unit_test(a_step_rests_longer_each_time_up_to_half_a_minute),
        cmocka_unit_test(a_job_without_jitter_doubles_from_half_a_second_to_a_minute),
        cmocka_unit_test(a_job_by_default_comes_to_an_hour_at_the_fourteenth_failure),
        cmocka_unit_test(a_delay_that_doubles_to_the_longest_exactly_is_the_longest),
        cmocka_unit_test(linear_adds_the_first_delay_each_time),
        cmocka_unit_test(fixed_stays_as_it_is),
        cmocka_unit_test(a_factor_with_decimals_rounds_down_only_at_the_end),
        cmocka_unit_test(a_factor_of_1_never_grows),
        cmocka_unit_test(however_many_failures_the_delay_stays_below_the_longest),
        cmocka_unit_test(the_slowest_growth_still_reaches_ten_years),
        cmocka_unit_test(a_policy_that_was_never_checked_does_not_overflow),
        cmocka_unit_test(equal_jitter_keeps_half_and_draws_the_other_half),
        cmocka_unit_test(full_jitter_draws_all_of_it),
        cmocka_unit_test(nonsense_is_refused_with_the_values),
        cmocka_unit_test(a_factor_outside_1_to_100_is_refused),
        cmocka_unit_test(strategy_and_jitter_must_be_said),
        WITH_ARENA(a_policy_is_read_as_the_contract_has_it),
        WITH_ARENA(a_policy_is_written_as_the_contract_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
