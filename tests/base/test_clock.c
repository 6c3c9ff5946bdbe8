/* The clocks: that they go on, that a pause lasts, and where a deadline is. */
#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static int64_t ms_of(struct timespec at)
{
    return (int64_t)at.tv_sec * 1000 + at.tv_nsec / 1000000;
}

static void the_units_of_a_clock_agree(void **state)
{
    (void)state;
    int64_t before_ms = clock_monotonic_ms();
    int64_t us = clock_monotonic_us();
    assert_in_range(us / 1000, before_ms, clock_monotonic_ms());
    int64_t wall = clock_wall_ms();
    assert_in_range(wall / 1000, time(NULL) - 1, time(NULL) + 1);
}

static void a_deadline_is_that_far_away_and_at_most_a_year(void **state)
{
    static const int64_t year = INT64_C(365) * 24 * 60 * 60 * 1000;
    const int64_t waits[][2] = {{0, 0},         {1, 1},           {999, 999},   {1000, 1000},
                                {1500, 1500},   {-1, 0},          {year, year}, {year + 1, year},
                                {INT64_MIN, 0}, {INT64_MAX, year}};
    (void)state;
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        int64_t before = clock_monotonic_ms();
        struct timespec at = condition_deadline(waits[i][0]);
        int64_t after = clock_monotonic_ms();
        assert_in_range(at.tv_nsec, 0, 999999999);
        assert_in_range(ms_of(at), before + waits[i][1], after + waits[i][1]);
    }
}

static void a_condition_waits_until_its_deadline(void **state)
{
    pthread_cond_t condition;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)state;
    assert_true(condition_init(&condition));
    int64_t start = clock_monotonic_us();
    struct timespec until = condition_deadline(20);
    int result = 0;
    pthread_mutex_lock(&lock);
    while (result == 0)
        result = pthread_cond_timedwait(&condition, &lock, &until);
    pthread_mutex_unlock(&lock);
    assert_int_equal(result, ETIMEDOUT);
    assert_true(clock_monotonic_us() - start >= 20 * 1000);
    (void)pthread_cond_destroy(&condition);
}

static void on_alarm(int number)
{
    (void)number;
}

static void a_pause_lasts_whatever_signals_come(void **state)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerspec often = {.it_interval = {.tv_nsec = 2000000},
                                     .it_value = {.tv_nsec = 2000000}};
    struct sigaction before;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;
    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
    int64_t start = clock_monotonic_us();
    clock_pause(30);
    int64_t took = clock_monotonic_us() - start;
    (void)timer_delete(timer);
    (void)sigaction(SIGALRM, &before, NULL);
    assert_true(took >= 30 * 1000);
    start = clock_monotonic_us();
    clock_pause(0);
    clock_pause(INT64_MIN);
    assert_true(clock_monotonic_us() - start < 1000 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_units_of_a_clock_agree),
        cmocka_unit_test(a_deadline_is_that_far_away_and_at_most_a_year),
        cmocka_unit_test(a_condition_waits_until_its_deadline),
        cmocka_unit_test(a_pause_lasts_whatever_signals_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
