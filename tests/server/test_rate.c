/* How often a token may ask, to the millisecond. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fixture.h"
#include "server/rate.h"

static int setup(void **state)
{
    *state = rate_new();
    return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    rate_free(*state);
    return 0;
}

/* A request of `caller` at a time: how long it is to wait. */
static int64_t ask(struct rate *rate, const char *caller, int64_t now)
{
    return rate_take(rate, str_from(caller), 1, false, now);
}

static void without_a_rate_everything_passes(void **state)
{
    for (int i = 0; i < 100000; i++)
        assert_int_equal(ask(*state, "a", 5), 0);
}

static void a_second_is_worth_its_rate_and_no_more(void **state)
{
    rate_set(*state, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ask(*state, "a", 1000), 0);
    assert_int_equal(ask(*state, "a", 1000), 100);
    assert_int_equal(ask(*state, "a", 1099), 1);
    assert_int_equal(ask(*state, "a", 1100), 0);
    assert_int_equal(ask(*state, "a", 1100), 100);
    /* However long nobody asks, the bucket holds one second. */
    int passed = 0;
    for (int i = 0; i < 100; i++)
        passed += ask(*state, "a", 1000 * 1000) == 0;
    assert_int_equal(passed, 10);
}

static void one_who_keeps_asking_gets_exactly_the_rate(void **state)
{
    for (uint32_t per_s = 1; per_s <= 1000; per_s = per_s * 3 + 1) {
        int64_t passed = 0;
        char caller[16];
        (void)snprintf(caller, sizeof caller, "%u", per_s);
        rate_set(*state, per_s);
        for (int64_t now = 0; now < 60 * 1000; now++)
            for (int i = 0; i < 3; i++)
                passed += ask(*state, caller, now) == 0;
        /* What was in it at first, and what came in until the last millisecond. */
        assert_int_equal(passed, per_s + (int64_t)per_s * (60 * 1000 - 1) / 1000);
    }
}

static void whoever_waits_as_told_is_let_in(void **state)
{
    int64_t now = 7;
    for (uint32_t per_s = 1; per_s < 1000000; per_s = per_s * 7 + 1) {
        rate_set(*state, per_s);
        for (int i = 0; i < 1000; i++) {
            int64_t wait_ms = ask(*state, "a", now);
            assert_true(wait_ms >= 0 && wait_ms <= 1000);
            now += wait_ms;
            if (wait_ms > 0)
                assert_int_equal(ask(*state, "a", now), 0);
        }
        now += 1000;
    }
}

static void one_request_a_second_is_the_least_that_a_bucket_holds(void **state)
{
    rate_set(*state, 1);
    assert_int_equal(ask(*state, "a", 0), 0);
    assert_int_equal(ask(*state, "a", 0), 1000);
    assert_int_equal(ask(*state, "a", 999), 1);
    assert_int_equal(ask(*state, "a", 1000), 0);
}

static void tokens_do_not_share(void **state)
{
    rate_set(*state, 1);
    assert_int_equal(ask(*state, "a", 0), 0);
    assert_int_equal(ask(*state, "b", 0), 0);
    assert_int_equal(ask(*state, "ab", 0), 0);
    assert_int_equal(ask(*state, "a", 0), 1000);
}

static void results_are_taken_whatever_is_in_it_and_are_owed(void **state)
{
    rate_set(*state, 10);
    for (int i = 0; i < 30; i++)
        assert_int_equal(rate_take(*state, STR("a"), 1, true, 0), 0);
    assert_int_equal(ask(*state, "a", 0), 2100);
    assert_int_equal(ask(*state, "a", 2099), 1);
    assert_int_equal(ask(*state, "a", 2100), 0);
}

static void a_batch_passes_with_one_and_owes_the_rest(void **state)
{
    rate_set(*state, 10);
    assert_int_equal(rate_take(*state, STR("a"), 1000, false, 0), 0);
    assert_int_equal(ask(*state, "a", 0), 99100);
    assert_int_equal(ask(*state, "a", 99100), 0);
}

static void what_is_owed_has_a_bound(void **state)
{
    rate_set(*state, 100);
    for (int i = 0; i < 100; i++)
        (void)rate_take(*state, STR("a"), 1000, true, 0);
    assert_int_equal(ask(*state, "a", 0), 60 * 1000 + 10);
}

static void a_new_rate_holds_at_once(void **state)
{
    rate_set(*state, 1000);
    assert_int_equal(ask(*state, "a", 0), 0);
    rate_set(*state, 1);
    assert_int_equal(ask(*state, "a", 0), 0);
    assert_int_equal(ask(*state, "a", 0), 1000);
    rate_set(*state, 0);
    assert_int_equal(ask(*state, "a", 0), 0);
}

static void any_number_of_tokens_has_room(void **state)
{
    rate_set(*state, 2);
    char caller[40];
    /* Those who were quiet for a second make room, and lose nothing by it. */
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(caller, sizeof caller, "0190163d-8694-739b-aea5-%012d", i);
        assert_int_equal(ask(*state, caller, i), 0);
        assert_int_equal(ask(*state, caller, i), 0);
        assert_int_equal(ask(*state, caller, i), 500);
    }
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(without_a_rate_everything_passes),
        CASE(a_second_is_worth_its_rate_and_no_more),
        CASE(one_who_keeps_asking_gets_exactly_the_rate),
        CASE(whoever_waits_as_told_is_let_in),
        CASE(one_request_a_second_is_the_least_that_a_bucket_holds),
        CASE(tokens_do_not_share),
        CASE(results_are_taken_whatever_is_in_it_and_are_owed),
        CASE(a_batch_passes_with_one_and_owes_the_rest),
        CASE(what_is_owed_has_a_bound),
        CASE(a_new_rate_holds_at_once),
        CASE(any_number_of_tokens_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
