/* Errors of workers: what makes two of them the same for somebody who counts. */
#include <stdio.h>

#include "../base/fixture.h"
#include "core/failure.h"

static struct failure_group group(struct arena *arena, const char *error)
{
    struct failure_group ret = {0};
    assert_true(failure_group_of(str_from(error), arena, &ret));
    return ret;
}

static void messages_that_differ_in_numbers_ids_and_quotes_are_one_group(void **state)
{
    static const struct {
        const char *message;
        const char *pattern;
    } cases[] = {
        {"took 30 ms", "took * ms"},
        {"took 30ms, not 5ms", "took *ms, not *ms"},
        {"no user 'ada'", "no user '*'"},
        {"no user \\\"a b\\\" here", "no user \"*\" here"},
        {"job 01a1e278-ed88-73d1-9060-3f3f311c080a is gone", "job * is gone"},
        {"at 0xdeadBEEF", "at *"},
        {"commit 1f2e3d4c5b", "commit *"},
        {"connect to 10.0.0.7:443", "connect to *.*.*.*:*"},
        {"it can't be the user's", "it can't be the user's"},
        {"deadbeef is a word", "deadbeef is a word"},
        {"first line\\nsecond 1", "first line"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char error[256];
        (void)snprintf(error, sizeof error, "{\"class\":\"transient\",\"message\":\"%s\"}",
                       cases[i].message);
        struct failure_group same = group(*state, error);
        assert_false(str_is_set(same.type));
        assert_str_equal(same.pattern, str_from(cases[i].pattern));
    }
}

static void an_error_with_a_type_is_grouped_by_it_alone(void **state)
{
    struct failure_group same = group(*state, "{\"message\":\"7\",\"type\":\"KeyError\"}");
    assert_str_equal(same.type, STR("KeyError"));
    assert_false(str_is_set(same.pattern));
    same = group(*state, "{\"message\":7}");
    assert_false(str_is_set(same.type) || str_is_set(same.pattern));
}

static void a_long_message_is_cut_between_characters(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 2048);
    buf_add(&buf, STR("{\"message\":\"x"));
    for (int i = 0; i < 400; i++)
        buf_add(&buf, STR("\xc3\xa9"));
    buf_add(&buf, STR("\"}"));
    struct failure_group same = {0};
    assert_true(failure_group_of(buf_str(&buf), *state, &same));
    assert_int_equal(same.pattern.len, FAILURE_PATTERN_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(messages_that_differ_in_numbers_ids_and_quotes_are_one_group),
        WITH_ARENA(an_error_with_a_type_is_grouped_by_it_alone),
        WITH_ARENA(a_long_message_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
