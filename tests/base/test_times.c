#include "base/times.h"

#include "fixture.h"

#define DAY_MS INT64_C(86400000)

/* The time that `text` stands for, or -1. */
static int64_t parsed(struct str text)
{
    struct str copy = exact(text);
    int64_t time_ms = -7;
    bool ok = time_parse(copy, &time_ms);
    exact_free(copy);
    if (!ok) {
        assert_int_equal(time_ms, -7); /* untouched on failure */
        return -1;
    }
    assert_true(time_ms >= 0 && time_ms <= TIME_MAX_MS);
    return time_ms;
}

static int64_t parsed_duration(struct str text)
{
    struct str copy = exact(text);
    int64_t duration_ms = -7;
    bool ok = duration_parse(copy, &duration_ms);
    exact_free(copy);
    if (!ok) {
        assert_int_equal(duration_ms, -7);
        return -1;
    }
    return duration_ms;
}

static void assert_formatted(int64_t time_ms, const char *expected)
{
    char *text = malloc(TIME_TEXT_LEN);
    time_format(time_ms, text);
    assert_memory_equal(text, expected, TIME_TEXT_LEN);
    assert_int_equal(parsed((struct str){text, TIME_TEXT_LEN}), time_ms);
    free(text);
}

static void known_times_are_written_and_read(void **state)
{
    (void)state;
    assert_formatted(0, "1970-01-01T00:00:00.000Z");
    assert_formatted(1, "1970-01-01T00:00:00.001Z");
    assert_formatted(DAY_MS - 1, "1970-01-01T23:59:59.999Z");
    assert_formatted(INT64_C(951782400000), "2000-02-29T00:00:00.000Z");
    assert_formatted(INT64_C(951868800000), "2000-03-01T00:00:00.000Z");
    assert_formatted(INT64_C(1709164800000), "2024-02-29T00:00:00.000Z");
    assert_formatted(INT64_C(4107542400000), "2100-03-01T00:00:00.000Z");
    assert_formatted(INT64_C(4107456000000), "2100-02-28T00:00:00.000Z");
    assert_formatted(INT64_C(1794772395042), "2026-11-15T19:53:15.042Z");
    assert_formatted(TIME_MAX_MS, "9999-12-31T23:59:59.999Z");
}

static void every_day_up_to_9999_is_written_and_read_in_order(void **state)
{
    (void)state;
    char previous[TIME_TEXT_LEN] = "0000";
    for (int64_t day = 0; day <= TIME_MAX_MS / DAY_MS; day++) {
        int64_t time_ms = day * DAY_MS + day * 7919 % DAY_MS;
        char text[TIME_TEXT_LEN];
        time_format(time_ms, text);
        int64_t again = -1;
        if (!time_parse((struct str){text, TIME_TEXT_LEN}, &again) || again != time_ms ||
            memcmp(previous, text, TIME_TEXT_LEN) >= 0)
            fail_msg("day %lld: %.24s", (long long)day, text);
        memcpy(previous, text, TIME_TEXT_LEN);
    }
}

static void offsets_are_taken_off(void **state)
{
    (void)state;
    int64_t noon = parsed(STR("2026-11-15T12:00:00Z"));
    assert_true(noon > 0);
    assert_int_equal(parsed(STR("2026-11-15T13:00:00+01:00")), noon);
    assert_int_equal(parsed(STR("2026-11-15T06:30:00-05:30")), noon);
    assert_int_equal(parsed(STR("2026-11-16T11:59:00+23:59")), noon);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00-00:00")), noon);
    assert_int_equal(parsed(STR("2026-11-15t12:00:00z")), noon);
}

static void offsets_may_cross_the_ends_of_time(void **state)
{
    (void)state;
    assert_int_equal(parsed(STR("1969-12-31T23:30:00-01:00")), 1800000);
    assert_int_equal(parsed(STR("1970-01-01T01:00:00+01:00")), 0);
    assert_int_equal(parsed(STR("1970-01-01T00:59:59.999+01:00")), -1);
    assert_int_equal(parsed(STR("9999-12-31T23:59:59.999Z")), TIME_MAX_MS);
    assert_int_equal(parsed(STR("9999-12-31T23:59:59.999-00:01")), -1);
    assert_int_equal(parsed(STR("9999-12-31T23:59:59.9999+00:00")), TIME_MAX_MS);
    assert_int_equal(parsed(STR("0000-01-01T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("1969-12-31T23:59:59.999Z")), -1);
}

static void fractions_are_cut_to_milliseconds(void **state)
{
    (void)state;
    int64_t second = parsed(STR("2026-11-15T12:00:00Z"));
    assert_int_equal(parsed(STR("2026-11-15T12:00:00.5Z")), second + 500);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00.05Z")), second + 50);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00.9999Z")), second + 999);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00.0009999Z")), second);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00.123456789012345678901234567890Z")),
                     second + 123);
}

static void days_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    assert_int_equal(parsed(STR("2026-02-29T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2100-02-29T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2000-02-30T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2026-04-31T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2026-01-32T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2026-01-00T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2026-00-01T00:00:00Z")), -1);
    assert_int_equal(parsed(STR("2026-13-01T00:00:00Z")), -1);
    assert_true(parsed(STR("2024-02-29T00:00:00Z")) > 0);
    assert_true(parsed(STR("2000-02-29T00:00:00Z")) > 0);
}

static void hours_minutes_and_seconds_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_int_equal(parsed(STR("2026-11-15T24:00:00Z")), -1);
    assert_int_equal(parsed(STR("2026-11-15T12:60:00Z")), -1);
    assert_int_equal(parsed(STR("2016-12-31T23:59:60Z")), -1);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00+24:00")), -1);
    assert_int_equal(parsed(STR("2026-11-15T12:00:00+01:60")), -1);
}

static void other_texts_are_no_times(void **state)
{
    (void)state;
    static const char *const texts[] = {"now",
                                        "2026-11-15",
                                        "2026-11-15T12:00Z",
                                        "2026-11-15T12:00:00",
                                        "2026-11-15 12:00:00Z",
                                        "2026-11-15T12:00:00.Z",
                                        "2026-11-15T12:00:00,5Z",
                                        "2026-11-15T12:00:00+0100",
                                        "2026-11-15T12:00:00+01",
                                        "2026-11-15T12:00:00Z ",
                                        " 2026-11-15T12:00:00Z",
                                        "2026-11-15T12:00:00ZZ",
                                        "+2026-11-15T12:00:00Z",
                                        "20261-11-15T12:00:00Z",
                                        "2026-1-15T12:00:00Z",
                                        "2026-11-15T-1:00:00Z",
                                        "2026-11-15T12:00:0 Z",
                                        "2026/11/15T12:00:00Z",
                                        "2026-11-15T12.00.00Z"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (parsed(str_from(texts[i])) != -1)
            fail_msg("%s was taken", texts[i]);
    int64_t ignored = 0;
    assert_false(time_parse((struct str){NULL, 0}, &ignored));
}

static void every_truncation_and_every_changed_byte_is_handled(void **state)
{
    (void)state;
    struct str text = STR("2026-11-15T19:53:15.042+01:30");
    for (size_t len = 0; len < text.len; len++)
        assert_int_equal(parsed((struct str){text.at, len}), -1);
    for (size_t i = 0; i < text.len; i++) {
        char changed[64];
        memcpy(changed, text.at, text.len);
        changed[i] = '\0';
        assert_int_equal(parsed((struct str){changed, text.len}), -1);
        changed[i] = ':' + (text.at[i] == ':');
        assert_int_equal(parsed((struct str){changed, text.len}), -1);
    }
}

static void durations_add_up_their_units(void **state)
{
    (void)state;
    assert_int_equal(parsed_duration(STR("500ms")), 500);
    assert_int_equal(parsed_duration(STR("30s")), 30000);
    assert_int_equal(parsed_duration(STR("1h30m")), 5400000);
    assert_int_equal(parsed_duration(STR("2d")), 2 * DAY_MS);
    assert_int_equal(parsed_duration(STR("1d2h3m4s5ms")), 93784005);
    assert_int_equal(parsed_duration(STR("1m5ms")), 60005);
    assert_int_equal(parsed_duration(STR("1ms")), 1);
    assert_int_equal(parsed_duration(STR("1m1s")), 61000);
    assert_int_equal(parsed_duration(STR("0s")), 0);
    assert_int_equal(parsed_duration(STR("90m")), 5400000);
    assert_int_equal(parsed_duration(STR("007s")), 7000);
}

static void a_hundred_years_is_the_longest_duration(void **state)
{
    (void)state;
    assert_int_equal(parsed_duration(STR("36525d")), 36525 * DAY_MS);
    assert_int_equal(parsed_duration(STR("36525d0ms")), 36525 * DAY_MS);
    assert_int_equal(parsed_duration(STR("36525d1ms")), -1);
    assert_int_equal(parsed_duration(STR("36526d")), -1);
    assert_int_equal(parsed_duration(STR("3155760000000ms")), 36525 * DAY_MS);
    assert_int_equal(parsed_duration(STR("3155760000001ms")), -1);
    assert_int_equal(parsed_duration(STR("99999999999999999999999999d")), -1);
    assert_int_equal(parsed_duration(STR("9223372036854775808ms")), -1);
    assert_int_equal(parsed_duration(STR("213503982335d")), -1);
}

static void other_texts_are_no_durations(void **state)
{
    (void)state;
    static const char *const texts[] = {"",       "5",
                                        "s",      "5 s",
                                        "5s ",    " 5s",
                                        "-5s",    "+5s",
                                        "1.5s",   "1e3s",
                                        "5S",     "5sec",
                                        "5w",     "5us",
                                        "1s1s",   "1s1m",
                                        "1ms1s",  "1h1d",
                                        "1sm",    "1mss",
                                        "1m1",    "1d1h1m1s1ms1ms",
                                        "ms",     "P1D",
                                        "1h 30m", "1hm"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (parsed_duration(str_from(texts[i])) != -1)
            fail_msg("\"%s\" was taken", texts[i]);
    int64_t ignored = 0;
    assert_false(duration_parse((struct str){NULL, 0}, &ignored));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_times_are_written_and_read),
        cmocka_unit_test(every_day_up_to_9999_is_written_and_read_in_order),
        cmocka_unit_test(offsets_are_taken_off),
        cmocka_unit_test(offsets_may_cross_the_ends_of_time),
        cmocka_unit_test(fractions_are_cut_to_milliseconds),
        cmocka_unit_test(days_that_do_not_exist_are_refused),
        cmocka_unit_test(hours_minutes_and_seconds_out_of_range_are_refused),
        cmocka_unit_test(other_texts_are_no_times),
        cmocka_unit_test(every_truncation_and_every_changed_byte_is_handled),
        cmocka_unit_test(durations_add_up_their_units),
        cmocka_unit_test(a_hundred_years_is_the_longest_duration),
        cmocka_unit_test(other_texts_are_no_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
