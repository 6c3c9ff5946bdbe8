/* The clock of a store: it follows the system's, and never goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/clock.h"

struct clocks {
    struct store_clock clock;
    int64_t wall;
    int64_t steady;
};

static int64_t tell(void *arg)
{
    return *(int64_t *)arg;
}

static void clocks_init(struct clocks *c)
{
    c->wall = 1000000;
    c->steady = 5000;
    store_clock_init(&c->clock, tell, &c->wall, tell, &c->steady);
    assert_int_equal(store_clock_now(&c->clock), 1000000);
}

static void time_is_the_systems(void **state)
{
    (void)state;
    struct clocks c;
    clocks_init(&c);
    c.wall += 3600 * 1000;
    assert_int_equal(store_clock_now(&c.clock), 1000000 + 3600 * 1000);
    store_clock_release(&c.clock);
}

static void a_clock_that_is_set_back_slows_time_down_until_both_agree(void **state)
{
    (void)state;
    struct clocks c;
    clocks_init(&c);
    c.wall -= 10000;
    assert_int_equal(store_clock_now(&c.clock), 1000000);
    for (int ms = 1; ms < 19990; ms++) {
        c.wall++;
        c.steady++;
        assert_int_equal(store_clock_now(&c.clock), 1000000 + ms / 2);
    }
    c.wall += 20;
    c.steady += 20;
    assert_int_equal(store_clock_now(&c.clock), c.wall);
    store_clock_release(&c.clock);
}

static void a_clock_that_is_set_back_twice_still_goes_on(void **state)
{
    (void)state;
    struct clocks c;
    clocks_init(&c);
    c.wall -= 3600 * 1000;
    assert_int_equal(store_clock_now(&c.clock), 1000000);
    c.steady += 100;
    c.wall -= 3600 * 1000;
    assert_int_equal(store_clock_now(&c.clock), 1000050);
    store_clock_release(&c.clock);
}

static void a_clock_that_was_set_back_between_two_runs_is_seen(void **state)
{
    (void)state;
    struct clocks c;
    clocks_init(&c);
    store_clock_resume(&c.clock, c.wall + 3600 * 1000);
    c.steady += 10;
    assert_int_equal(store_clock_now(&c.clock), 1000000 + 3600 * 1000);
    c.steady += 10;
    assert_int_equal(store_clock_now(&c.clock), 1000000 + 3600 * 1000 + 5);
    store_clock_release(&c.clock);
    /* Who was two days ahead was wrong. */
    clocks_init(&c);
    store_clock_resume(&c.clock, c.wall + INT64_C(2) * 24 * 3600 * 1000);
    assert_int_equal(store_clock_now(&c.clock), 1000000);
    store_clock_release(&c.clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_is_the_systems),
        cmocka_unit_test(a_clock_that_is_set_back_slows_time_down_until_both_agree),
        cmocka_unit_test(a_clock_that_is_set_back_twice_still_goes_on),
        cmocka_unit_test(a_clock_that_was_set_back_between_two_runs_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
