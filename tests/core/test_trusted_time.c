/* Trusted time: what a clock that can be wrong is believed, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/retention.h"
#include "core/trusted_time.h"

#define START INT64_C(1767225600000)
#define HOUR (INT64_C(60) * 60 * 1000)
#define YEAR (365 * 24 * HOUR)

/* A clock that people set, a steady one, and what is trusted; looked at every two seconds. */
struct watch {
    struct trusted_time trusted;
    int64_t clock;
    int64_t steady;
};

static struct watch watch_new(int64_t noted)
{
    struct watch w = {.clock = START, .steady = 1000};
    trusted_time_begin(&w.trusted, noted, w.clock, w.steady);
    return w;
}

static int64_t now(const struct watch *w)
{
    return trusted_time_now(&w->trusted, w->steady);
}

static void pass(struct watch *w, int64_t ms)
{
    for (int64_t step; ms > 0; ms -= step) {
        step = ms < 2000 ? ms : 2000;
        w->clock += step;
        w->steady += step;
        trusted_time_see(&w->trusted, w->clock, w->steady);
        assert_true(now(w) <= w->clock);
    }
}

static void a_clock_that_goes_steadily_is_trusted(void **state)
{
    (void)state;
    struct watch w = watch_new(0);
    assert_int_equal(now(&w), START);
    pass(&w, 5 * HOUR);
    assert_int_equal(now(&w), w.clock);
    w.steady += 700;
    assert_int_equal(now(&w), w.clock + 700);
}

static void nothing_is_trusted_before_a_clock_was_seen(void **state)
{
    (void)state;
    struct trusted_time none = {0};
    assert_int_equal(trusted_time_now(&none, 123456), 0);
    assert_false(retention_is_over(1, trusted_time_now(&none, 123456)));
}

static void a_clock_that_jumps_ahead_and_back_has_moved_nothing(void **state)
{
    (void)state;
    struct watch w = watch_new(0);
    int64_t purge_at = START + 7 * 24 * HOUR;
    pass(&w, HOUR);
    w.clock += YEAR;
    pass(&w, 3000);
    assert_true(now(&w) <= START + HOUR + 6000);
    assert_false(retention_is_over(purge_at, now(&w)));
    w.clock -= YEAR;
    pass(&w, 1000);
    assert_int_equal(now(&w), w.clock);
    pass(&w, 2 * HOUR);
    assert_int_equal(now(&w), w.clock);
    assert_false(retention_is_over(purge_at, now(&w)));
}

static void a_jump_is_believed_after_an_hour(void **state)
{
    (void)state;
    struct watch w = watch_new(0);
    int64_t purge_at = START + 7 * 24 * HOUR;
    w.clock += YEAR;
    pass(&w, HOUR);
    assert_false(retention_is_over(purge_at, now(&w)));
    pass(&w, 2000);
    assert_int_equal(now(&w), w.clock);
    assert_true(retention_is_over(purge_at, now(&w)));
}

static void a_second_jump_begins_the_hour_anew(void **state)
{
    (void)state;
    struct watch w = watch_new(0);
    w.clock += YEAR;
    pass(&w, HOUR - 2000);
    w.clock += YEAR;
    pass(&w, HOUR - 2000);
    assert_true(now(&w) < START + 4 * HOUR);
    pass(&w, 4000);
    assert_int_equal(now(&w), w.clock);
}

static void a_small_jump_is_caught_up_with_in_as_long_as_it_was(void **state)
{
    (void)state;
    struct watch w = watch_new(0);
    w.clock += 60 * 1000;
    pass(&w, 30 * 1000);
    assert_true(now(&w) <= w.clock - 30 * 1000);
    pass(&w, 32 * 1000);
    assert_int_equal(now(&w), w.clock);
}

static void after_a_long_time_down_the_clock_is_believed_after_an_hour(void **state)
{
    (void)state;
    struct watch w = watch_new(START - 14 * 24 * HOUR);
    assert_int_equal(now(&w), START - 14 * 24 * HOUR);
    pass(&w, HOUR - 2000);
    assert_true(now(&w) < START - 13 * 24 * HOUR);
    pass(&w, 4000);
    assert_int_equal(now(&w), w.clock);
}

static void who_starts_while_the_clock_is_wrong_believes_it_no_sooner(void **state)
{
    (void)state;
    struct watch w = watch_new(START - YEAR);
    pass(&w, 10 * 1000);
    struct watch again = watch_new(now(&w)); /* crashed, and is back at once */
    pass(&again, 10 * 1000);
    assert_true(now(&again) < START - YEAR + HOUR);
    again.clock -= YEAR;
    pass(&again, 60 * 1000);
    assert_int_equal(now(&again), again.clock);
}

static void a_clock_that_was_set_back_is_not_behind_what_is_trusted(void **state)
{
    (void)state;
    struct watch w = watch_new(START + HOUR);
    assert_int_equal(now(&w), START);
    w.clock -= HOUR;
    pass(&w, 2000);
    assert_int_equal(now(&w), w.clock);
}

static void what_is_kept_for_ever_is_never_over(void **state)
{
    (void)state;
    assert_false(retention_is_over(0, INT64_MAX));
    assert_true(retention_is_over(10, 10));
    assert_false(retention_is_over(10, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_goes_steadily_is_trusted),
        cmocka_unit_test(nothing_is_trusted_before_a_clock_was_seen),
        cmocka_unit_test(a_clock_that_jumps_ahead_and_back_has_moved_nothing),
        cmocka_unit_test(a_jump_is_believed_after_an_hour),
        cmocka_unit_test(a_second_jump_begins_the_hour_anew),
        cmocka_unit_test(a_small_jump_is_caught_up_with_in_as_long_as_it_was),
        cmocka_unit_test(after_a_long_time_down_the_clock_is_believed_after_an_hour),
        cmocka_unit_test(who_starts_while_the_clock_is_wrong_believes_it_no_sooner),
        cmocka_unit_test(a_clock_that_was_set_back_is_not_behind_what_is_trusted),
        cmocka_unit_test(what_is_kept_for_ever_is_never_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
