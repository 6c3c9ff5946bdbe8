/* Text, durations and times as the command line reads and writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/text.h"
#include "cli/when.h"

static void durations_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        long long ms;
    } good[] = {
        {"0s", 0},
        {"500ms", 500},
        {"30s", 30000},
        {"1h30m", 5400000},
        {"2d", 172800000LL},
        {"1m1ms", 60001},
        {"1d2h3m4s5ms", 93784005},
        {"90m", 5400000},
        {"007s", 7000},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        long long ms = -1;
        assert_true(duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
}

static void what_is_no_duration_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "s",
        "30",
        "1.5s",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1 s",
        "1h1h",
        "1m1h",
        "1sm",
        "1w",
        "1S",
        "ms",
        "1ms1s",
        "0x1s",
        "1e3s",
        "1h30",
        "99999999999999999999s",
        "36601d",
        "9223372036854775807ms",
        "3162240000000ms1s",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        long long ms = 42;
        assert_false(duration_parse(bad[i], &ms));
        assert_int_equal(ms, 42);
    }
}

static void durations_are_written_in_two_units(void **state)
{
    (void)state;
    static const struct {
        long long ms;
        const char *text;
    } cases[] = {
        {0, "0ms"},          {999, "999ms"},        {1000, "1s"},    {59999, "1m"},
        {90000, "1m 30s"},   {5400000, "1h 30m"},   {600000, "10m"}, {659000, "11m"},
        {93600000, "1d 2h"}, {1728000000LL, "20d"}, {-5, "0ms"},     {INT64_MAX, "106751991167d"},
        {3599980, "1h"},     {599600, "10m"},       {629999, "10m"}, {604799000, "7d"},
        {604000000, "7d"},   {602000000, "6d 23h"}, {1499, "1s"},    {1500, "2s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[DURATION_LEN_MAX];
        duration_write(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void times_are_read_and_written_back(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        long long ms;
    } cases[] = {
        {"1970-01-01T00:00:00.000Z", 0},
        {"2000-02-29T12:00:00.001Z", 951825600001LL},
        {"2038-01-19T03:14:08.000Z", 2147483648000LL},
        {"2100-03-01T00:00:00.000Z", 4107542400000LL},
        {"9999-12-31T23:59:59.999Z", 253402300799999LL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[WHEN_LEN_MAX];
        long long ms = -1;
        assert_true(when_parse(cases[i].text, &ms));
        assert_int_equal(ms, cases[i].ms);
        when_write(ms, text);
        assert_string_equal(text, cases[i].text);
    }
    long long ms;
    assert_true(when_parse("1970-01-01T00:00:01Z", &ms));
    assert_int_equal(ms, 1000);
    assert_true(when_parse("1970-01-01T00:00:01.5Z", &ms));
    assert_int_equal(ms, 1500);
    assert_true(when_parse("1970-01-01T00:00:01.123456789Z", &ms));
    assert_int_equal(ms, 1123);
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "now",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-01-01T00:00:00+01:00",
        "2030-13-01T00:00:00Z",
        "2030-00-01T00:00:00Z",
        "2030-01-32T00:00:00Z",
        "2030-01-01T24:00:00Z",
        "2030-01-01T00:60:00Z",
        "2030-01-01 00:00:00Z",
        "2030-01-01T00:00:00Zx",
        "203O-01-01T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        long long ms = 42;
        assert_false(when_parse(bad[i], &ms));
        assert_int_equal(ms, 42);
    }
}

static void relative_times_say_which_way(void **state)
{
    (void)state;
    char text[WHEN_LEN_MAX];
    when_relative(1000000, 1000999, text);
    assert_string_equal(text, "now");
    when_relative(1000000, 1180000, text);
    assert_string_equal(text, "3m ago");
    when_relative(8200000, 1000000, text);
    assert_string_equal(text, "in 2h");
}

static void expect_visible(const char *text, const char *shown)
{
    char *visible = text_visible(text, strlen(text));
    assert_string_equal(visible, shown);
    free(visible);
}

static void control_characters_become_visible(void **state)
{
    (void)state;
    expect_visible("plain", "plain");
    expect_visible("", "");
    expect_visible("\033[31m", "\\x1b[31m");
    expect_visible("a\nb\tc\rd", "a\\nb\\tc\\rd");
    expect_visible("\x7f", "\\x7f");
    expect_visible("\xc2\x9b", "\\x9b");
    expect_visible("\xe2\x80\xae", "\\u{202e}");
    expect_visible("\xf3\xa0\x81\x81", "\\u{e0041}");
    expect_visible("gr\xc3\xbc\xc3\x9f \xe6\x97\xa5", "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5");
}

static void bytes_that_are_not_utf8_become_visible(void **state)
{
    (void)state;
    expect_visible("\xff", "?");
    expect_visible("\xc0\xaf", "??");
    expect_visible("\xed\xa0\x80", "???");
    expect_visible("\xf4\x90\x80\x80", "????");
    expect_visible("a\xe6\x97", "a??");
    assert_true(text_is_utf8("\xe6\x97\xa5"));
    assert_false(text_is_utf8("\xe6\x97"));
    char *visible = text_visible("\0x", 2);
    assert_string_equal(visible, "\\x00x");
    free(visible);
}

static void json_stays_json_on_one_line(void **state)
{
    (void)state;
    static const char json[] = "{\n\t\"a\": \"\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\"\r}";
    char *visible = text_visible_json(json, strlen(json));
    assert_string_equal(visible, "{  \"a\": \"\\u007f\\u009b\\u202e\\udb40\\udc41\" }");
    free(visible);
}

static void widths_are_those_of_a_terminal(void **state)
{
    (void)state;
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("gr\xc3\xbc\xc3\x9f"), 4);
    assert_int_equal(text_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);
    assert_int_equal(text_width("e\xcc\x81"), 1);
    assert_int_equal(text_width("\xf0\x9f\x98\x80"), 2);
    /* A character of two columns is not cut in half. */
    assert_int_equal(text_fitting("\xe6\x97\xa5\xe6\x9c\xac", 3), 3);
    assert_int_equal(text_fitting("abc", 2), 2);
    assert_int_equal(text_fitting("abc", 9), 3);
    assert_int_equal(text_fitting("e\xcc\x81x", 1), 3);
}

static void the_nearest_word_is_found(void **state)
{
    (void)state;
    static const char *const words[] = {"submit", "show", "stats"};
    assert_string_equal(nearest_word("sumbit", words, 3), "submit");
    assert_string_equal(nearest_word("st", words, 3), "stats");
    assert_string_equal(nearest_word("shwo", words, 3), "show");
    assert_null(nearest_word("frobnicate", words, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(durations_are_written_in_two_units),
        cmocka_unit_test(times_are_read_and_written_back),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(relative_times_say_which_way),
        cmocka_unit_test(control_characters_become_visible),
        cmocka_unit_test(bytes_that_are_not_utf8_become_visible),
        cmocka_unit_test(json_stays_json_on_one_line),
        cmocka_unit_test(widths_are_those_of_a_terminal),
        cmocka_unit_test(the_nearest_word_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
