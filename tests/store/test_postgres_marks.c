/* Where scans start: marks rise with what was taken, fall with what was put before them, and full
 * scans happen often enough but never too often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/postgres/marks.h"

enum { LINE = LINE_LANES + 7 };

static struct mark_place place(int64_t at)
{
    return (struct mark_place){.rank = 0, .at = at, .job = {{(uint8_t)at}}, .step = -1};
}

static int setup(void **state)
{
    struct marks *marks = malloc(sizeof *marks);
    if (marks == NULL)
        return -1;
    marks_init(marks);
    *state = marks;
    return 0;
}

static int teardown(void **state)
{
    marks_release(*state);
    free(*state);
    return 0;
}

/* A scan at `now` that took all up to `taken` (0: nothing). */
static void scan(struct marks *marks, int64_t now, int64_t took, bool was_short, int64_t taken)
{
    struct mark_scan scan = marks_start(marks, LINE, now);
    struct mark_found found = {
        .is_full = scan.full,
        .was_short = was_short,
        .now = now + took,
        .took = took,
        .has_taken = taken != 0,
        .taken = place(taken),
    };
    marks_end(marks, &scan, &found);
}

static bool next_is_full(struct marks *marks, int64_t now)
{
    struct mark_scan scan = marks_start(marks, LINE, now);
    marks_end(marks, &scan, NULL);
    return scan.full;
}

/* Where a scan from the mark would start. */
static struct mark_place start_of(struct marks *marks, int64_t now)
{
    struct mark_scan scan = marks_start(marks, LINE, now);
    marks_end(marks, &scan, NULL);
    return scan.from;
}

#define assert_place(a, b)                                                                         \
    do {                                                                                           \
        struct mark_place left_ = (a);                                                             \
        struct mark_place right_ = (b);                                                            \
        assert_int_equal(mark_place_cmp(&left_, &right_), 0);                                      \
    } while (0)

static void places_are_ordered_by_rank_time_job_and_step(void **state)
{
    (void)state;
    struct mark_place a = {1, 5, {{1}}, 3};
    struct mark_place other = a;
    other.rank = 2;
    assert_true(mark_place_cmp(&a, &other) < 0);
    other = a;
    other.at = 4;
    assert_true(mark_place_cmp(&a, &other) > 0);
    other = a;
    other.job.bytes[15] = 1;
    assert_true(mark_place_cmp(&a, &other) < 0);
    other = mark_place_before(a);
    assert_true(mark_place_cmp(&other, &a) < 0);
    assert_true(mark_place_cmp(&MARK_FIRST, &a) < 0);
    assert_true(mark_place_cmp(&a, &MARK_LAST) < 0);
}

static void the_first_scan_is_full_and_the_next_starts_behind_what_was_taken(void **state)
{
    struct marks *marks = *state;
    assert_true(next_is_full(marks, 0));
    scan(marks, 0, 50, false, 10);
    assert_false(next_is_full(marks, 60));
    assert_place(start_of(marks, 60), place(10));
    scan(marks, 60, 1, false, 20);
    assert_place(start_of(marks, 61), place(20));
}

static void a_scan_that_takes_nothing_leaves_the_mark(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 10);
    scan(marks, 60, 50, true, 0);
    assert_place(start_of(marks, 120), place(10));
}

static void what_is_put_before_the_mark_lowers_it(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 10);
    marks_lower(marks, LINE, place(20));
    assert_place(start_of(marks, 60), place(10));
    marks_lower(marks, LINE, place(5));
    assert_place(start_of(marks, 60), mark_place_before(place(5)));
}

static void a_scan_under_way_does_not_raise_the_mark_over_what_was_put_in(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 10);
    struct mark_scan slow = marks_start(marks, LINE, 60);
    marks_lower(marks, LINE, place(15));
    struct mark_found found = {.now = 70, .took = 10, .has_taken = true, .taken = place(20)};
    marks_end(marks, &slow, &found);
    assert_place(start_of(marks, 80), mark_place_before(place(15)));
}

static void what_is_put_behind_does_not_hold_the_mark_back(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 10);
    struct mark_scan slow = marks_start(marks, LINE, 60);
    marks_lower(marks, LINE, place(100));
    struct mark_found found = {.now = 70, .took = 10, .has_taken = true, .taken = place(20)};
    marks_end(marks, &slow, &found);
    assert_place(start_of(marks, 80), place(20));
}

/* Scans that overlap for ever must not remember for ever. */
static void overlapping_scans_forget_what_was_put_in_before_them(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 10);
    struct mark_scan older = marks_start(marks, LINE, 60);
    marks_lower(marks, LINE, place(11));
    struct mark_found found = {.now = 70, .took = 10, .has_taken = true};
    for (int64_t at = 20; at < 100; at++) {
        struct mark_scan younger = marks_start(marks, LINE, 60);
        found.taken = place(at);
        marks_end(marks, &older, &found);
        older = younger;
    }
    marks_end(marks, &older, NULL);
    struct mark_place reached = start_of(marks, 70);
    struct mark_place most = place(97);
    assert_true(mark_place_cmp(&reached, &most) >= 0);
}

static void a_full_scan_can_take_the_mark_back(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 50);
    assert_true(next_is_full(marks, 2000));
    scan(marks, 2000, 50, false, 30);
    assert_place(start_of(marks, 2051), place(30));
}

static void a_full_scan_is_made_every_second_but_not_twenty_times_as_often_as_it_takes(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 50, false, 10);
    assert_false(next_is_full(marks, 999));
    assert_true(next_is_full(marks, 1050));
    scan(marks, 2000, 500, false, 10);
    assert_false(next_is_full(marks, 2500 + 1000));
    assert_false(next_is_full(marks, 2500 + 9999));
    assert_true(next_is_full(marks, 2500 + 10000));
}

static void a_short_scan_may_look_back_when_that_is_cheap_or_long_ago(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 100, false, 10);
    struct mark_scan from_mark = marks_start(marks, LINE, 200);
    assert_false(from_mark.full);
    assert_false(marks_may_look_back(marks, &from_mark, 200));
    assert_true(marks_may_look_back(marks, &from_mark, 100 + 20 * 100));
    marks_end(marks, &from_mark, NULL);
    struct mark_scan whole = marks_start(marks, LINE, 10 * 1000);
    assert_true(whole.full);
    assert_false(marks_may_look_back(marks, &whole, 10 * 1000));
    marks_end(marks, &whole, NULL);
}

static void where_full_scans_are_cheap_a_short_one_is_followed_by_a_full_one(void **state)
{
    struct marks *marks = *state;
    scan(marks, 0, 1, false, 10);
    assert_false(next_is_full(marks, 2));
    scan(marks, 2, 1, true, 0);
    assert_true(next_is_full(marks, 4));
    scan(marks, 4, MARKS_CHEAP_MS, true, 0);
    assert_false(next_is_full(marks, 10));
}

static void take_up_to(struct marks *marks, uint32_t line, int64_t at)
{
    struct mark_scan scan = marks_start(marks, line, 0);
    struct mark_found found = {
        .is_full = scan.full, .took = MARKS_CHEAP_MS, .has_taken = true, .taken = place(at)};
    marks_end(marks, &scan, &found);
}

static void a_line_of_any_number_has_a_mark(void **state)
{
    struct marks *marks = *state;
    const uint32_t numbers[] = {LINE_WORK, LINE_LANES + 1, 300 * 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        take_up_to(marks, numbers[i], (int64_t)i + 10);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct mark_scan scan = marks_start(marks, numbers[i], 1);
        assert_false(scan.full);
        assert_int_equal(scan.from.at, (int64_t)i + 10);
    }
}

static void of_too_many_lines_those_that_nobody_scans_are_forgotten(void **state)
{
    struct marks *marks = *state;
    take_up_to(marks, 7, 10);
    struct mark_scan busy = marks_start(marks, 7, 1);
    for (uint32_t line = 100; line < 100 + 3 * MARKED_MAX; line++)
        take_up_to(marks, line, 20);
    assert_true(marks->count <= MARKED_MAX);
    assert_true(marks_start(marks, 100, 1).full);
    marks_end(marks, &busy, NULL);
    struct mark_scan kept = marks_start(marks, 7, 1);
    assert_false(kept.full);
    assert_int_equal(kept.from.at, 10);
}

#define MARKS_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_ordered_by_rank_time_job_and_step),
        MARKS_TEST(the_first_scan_is_full_and_the_next_starts_behind_what_was_taken),
        MARKS_TEST(a_scan_that_takes_nothing_leaves_the_mark),
        MARKS_TEST(what_is_put_before_the_mark_lowers_it),
        MARKS_TEST(a_scan_under_way_does_not_raise_the_mark_over_what_was_put_in),
        MARKS_TEST(what_is_put_behind_does_not_hold_the_mark_back),
        MARKS_TEST(overlapping_scans_forget_what_was_put_in_before_them),
        MARKS_TEST(a_full_scan_can_take_the_mark_back),
        MARKS_TEST(a_full_scan_is_made_every_second_but_not_twenty_times_as_often_as_it_takes),
        MARKS_TEST(a_short_scan_may_look_back_when_that_is_cheap_or_long_ago),
        MARKS_TEST(where_full_scans_are_cheap_a_short_one_is_followed_by_a_full_one),
        MARKS_TEST(a_line_of_any_number_has_a_mark),
        MARKS_TEST(of_too_many_lines_those_that_nobody_scans_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
