#include "base/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "fixture.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static bool accepted(struct arena *arena, struct str text)
{
    return json_check(text, SIZE_MAX, "text", arena, NULL) == ERR_OK;
}

/* `count` times `before`, then `middle`, then `count` times `after`. */
static struct str nested(struct arena *arena, const char *before, const char *middle,
                         const char *after, int count)
{
    struct buf buf;
    buf_init(&buf, arena, 0);
    for (int i = 0; i < count; i++)
        buf_add(&buf, str_from(before));
    buf_add(&buf, str_from(middle));
    for (int i = 0; i < count; i++)
        buf_add(&buf, str_from(after));
    return buf_str(&buf);
}

static void types_are_told_by_the_first_byte(void **state)
{
    (void)state;
    assert_int_equal(json_type(STR("{}")), JSON_OBJECT);
    assert_int_equal(json_type(STR("[]")), JSON_ARRAY);
    assert_int_equal(json_type(STR("\"\"")), JSON_STRING);
    assert_int_equal(json_type(STR("true")), JSON_BOOL);
    assert_int_equal(json_type(STR("false")), JSON_BOOL);
    assert_int_equal(json_type(STR("null")), JSON_NULL);
    assert_int_equal(json_type(STR("-1")), JSON_NUMBER);
    for (const char *digit = "0123456789"; *digit != '\0'; digit++)
        assert_int_equal(json_type((struct str){digit, 1}), JSON_NUMBER);
    assert_int_equal(json_type(STR("")), JSON_INVALID);
    assert_int_equal(json_type((struct str){NULL, 0}), JSON_INVALID);
    assert_int_equal(json_type(STR("x")), JSON_INVALID);
    assert_int_equal(json_type(STR(" 1")), JSON_INVALID);
}

static void trimming_takes_off_only_white_space(void **state)
{
    (void)state;
    assert_str_equal(json_trim(STR(" \t\r\n[ 1 ]\n ")), STR("[ 1 ]"));
    assert_str_equal(json_trim(STR("1")), STR("1"));
    assert_int_equal(json_trim(STR("   ")).len, 0);
    assert_int_equal(json_trim(STR("")).len, 0);
    assert_false(str_is_set(json_trim((struct str){NULL, 0})));
    assert_str_equal(json_trim(STR("\v1\f")), STR("\v1\f"));
}

static void members_come_in_order_as_raw_views(void **state)
{
    (void)state;
    struct json_iter iter;
    struct str key;
    struct str value;
    assert_true(
        json_object_begin(&iter, STR(" { \"a\" : 1.10 , \"b\\n\":[1, 2],\"c\":{\"d\":\"}\"}} ")));
    assert_true(json_object_next(&iter, &key, &value));
    assert_str_equal(key, STR("\"a\""));
    assert_str_equal(value, STR("1.10"));
    assert_false(json_iter_ok(&iter));
    assert_true(json_object_next(&iter, &key, &value));
    assert_str_equal(key, STR("\"b\\n\""));
    assert_str_equal(value, STR("[1, 2]"));
    assert_true(json_object_next(&iter, &key, &value));
    assert_str_equal(key, STR("\"c\""));
    assert_str_equal(value, STR("{\"d\":\"}\"}"));
    assert_false(json_object_next(&iter, &key, &value));
    assert_true(json_iter_ok(&iter));
    assert_false(json_object_next(&iter, &key, &value));
    assert_true(json_iter_ok(&iter));
}

static void elements_come_in_order_as_raw_views(void **state)
{
    (void)state;
    static const char *const expected[] = {"null",      "true",    "false", "-1e5",
                                           "\"]\\\"\"", "[[],{}]", "{}",    "\"\""};
    struct json_iter iter;
    struct str value;
    assert_true(json_array_begin(&iter, STR("[null,true, false ,-1e5,\"]\\\"\",[[],{}],{},\"\"]")));
    for (size_t i = 0; i < 8; i++) {
        assert_true(json_array_next(&iter, &value));
        assert_str_equal(value, str_from(expected[i]));
    }
    assert_false(json_array_next(&iter, &value));
    assert_true(json_iter_ok(&iter));
}

static void only_the_right_container_is_walked(void **state)
{
    (void)state;
    struct json_iter iter;
    assert_false(json_object_begin(&iter, STR("[]")));
    assert_false(json_array_begin(&iter, STR("{}")));
    assert_false(json_object_begin(&iter, STR("\"{\"")));
    assert_false(json_object_begin(&iter, STR("")));
    assert_false(json_object_begin(&iter, (struct str){NULL, 0}));
    assert_false(json_array_begin(&iter, STR("null")));
}

static void counting_counts_only_whole_containers(void **state)
{
    (void)state;
    assert_int_equal(json_count(STR("[]")), 0);
    assert_int_equal(json_count(STR("[1]")), 1);
    assert_int_equal(json_count(STR(" [1,[2,3],{\"a\":4}] ")), 3);
    assert_int_equal(json_count(STR("{}")), 0);
    assert_int_equal(json_count(STR("{\"a\":1,\"b\":2}")), 2);
    assert_int_equal(json_count(STR("12")), 0);
    assert_int_equal(json_count(STR("[1,2")), 0);
    assert_int_equal(json_count(STR("[1,2]]")), 0);
    assert_int_equal(json_count(STR("{\"a\":1,}")), 0);
    assert_int_equal(json_count((struct str){NULL, 0}), 0);
}

/* Walks a container to its end; true when it ended well. */
static bool walks(struct str text)
{
    struct str copy = exact(text);
    struct json_iter iter;
    struct str key = STR("key");
    struct str value = STR("value");
    bool ok = false;
    if (json_object_begin(&iter, copy)) {
        while (json_object_next(&iter, &key, &value)) {
        }
        ok = json_iter_ok(&iter);
        assert_false(json_object_next(&iter, &key, &value));
    } else if (json_array_begin(&iter, copy)) {
        while (json_array_next(&iter, &value)) {
        }
        ok = json_iter_ok(&iter);
        assert_false(json_array_next(&iter, &value));
    }
    exact_free(copy);
    return ok;
}

static void damage_ends_a_walk_and_is_told(void **state)
{
    (void)state;
    static const char *const texts[] = {"[",
                                        "{",
                                        "[1",
                                        "[1,",
                                        "[1,]",
                                        "[,1]",
                                        "[1 2]",
                                        "[1}",
                                        "[1]]",
                                        "[1]x",
                                        "[\"a]",
                                        "[\"a\\",
                                        "[tru]",
                                        "[nul",
                                        "[01]",
                                        "[1.]",
                                        "[-]",
                                        "[x]",
                                        "[{]",
                                        "[{]}",
                                        "[[1}]",
                                        "[\"\\\"]",
                                        "{\"a\"",
                                        "{\"a\":",
                                        "{\"a\":1",
                                        "{\"a\":1,",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "{\"a\" 1}",
                                        "{\"a\":}",
                                        "{\"a\":1 \"b\":2}",
                                        "{\"a\":1]",
                                        "{\"a\":[}",
                                        "{\"a\":{]}",
                                        "{1:2}",
                                        "{\"a:1}",
                                        "{\"a\":\"}",
                                        "{,}",
                                        "{:}",
                                        "[]]",
                                        "{}}"};
    for (size_t i = 0; i < LENGTH(texts); i++)
        if (walks(str_from(texts[i])))
            fail_msg("%s was walked to its end", texts[i]);
    assert_true(walks(STR("[]")));
    assert_true(walks(STR("{}")));
    assert_true(walks(STR(" [ ] ")));
    assert_true(walks(STR("[1,{\"a\":[]}]")));
}

static void outputs_are_untouched_by_damage(void **state)
{
    (void)state;
    struct json_iter iter;
    struct str key = STR("key");
    struct str value = STR("value");
    assert_true(json_object_begin(&iter, STR("{\"a\":tru}")));
    assert_false(json_object_next(&iter, &key, &value));
    assert_str_equal(key, STR("key"));
    assert_str_equal(value, STR("value"));
    assert_true(json_array_begin(&iter, STR("[\"open]")));
    assert_false(json_array_next(&iter, &value));
    assert_str_equal(value, STR("value"));
}

static void no_truncation_or_change_makes_a_walk_read_outside(void **state)
{
    struct str text = STR("{\"a\\n\":[1,\"b\\u0041\xc3\xa9\",{\"c\":[true,null]}],\"d\":-1.5e3}");
    assert_true(walks(text));
    for (size_t len = 0; len < text.len; len++)
        assert_false(walks((struct str){text.at, len}));
    static const char bytes[] = "\"\\[]{},:0e. \0\xc3";
    for (size_t i = 0; i < text.len; i++) {
        for (size_t b = 0; b < sizeof bytes - 1; b++) {
            char changed[100];
            memcpy(changed, text.at, text.len);
            changed[i] = bytes[b];
            struct str damaged = {changed, text.len};
            /* What passes the check must also walk; what does not may, since it looks less close.
             */
            if (accepted(*state, damaged))
                assert_true(walks(damaged));
            (void)walks(damaged);
        }
    }
}

static void values_nested_too_deep_are_damage(void **state)
{
    assert_true(walks(nested(*state, "[", "1", "]", 129)));
    assert_false(walks(nested(*state, "[", "1", "]", 130)));
    assert_false(walks(nested(*state, "[", "1", "]", 100000)));
    assert_false(walks(nested(*state, "{\"a\":", "1", "}", 130)));
    assert_false(walks(nested(*state, "[", "", "", 100000)));
}

static bool key_is(struct str raw, struct str name)
{
    struct str copy = exact(raw);
    bool is = json_key_is(copy, name);
    exact_free(copy);
    return is;
}

static void keys_are_compared_after_decoding(void **state)
{
    (void)state;
    assert_true(key_is(STR("\"id\""), STR("id")));
    assert_true(key_is(STR("\"\""), STR("")));
    assert_true(key_is(STR("\"\\u0069d\""), STR("id")));
    assert_true(key_is(STR("\"\\u0069\\u0064\""), STR("id")));
    assert_true(key_is(STR("\"a\\/b\""), STR("a/b")));
    assert_false(key_is(STR("\"ie\""), STR("id")));
    assert_false(key_is(STR("\"i\""), STR("id")));
    assert_false(key_is(STR("\"idx\""), STR("id")));
    assert_false(key_is(STR("\"\\u0069dx\""), STR("id")));
    assert_false(key_is(STR("\"\\u0069\""), STR("id")));
    assert_false(key_is(STR("\"\\u0169d\""), STR("id")));
    assert_false(key_is(STR("\"ID\""), STR("id")));
}

static void damaged_keys_equal_nothing(void **state)
{
    (void)state;
    static const char *const keys[] = {"",        "\"",          "id",          "\"id",
                                       "id\"",    "\"\\u006\"",  "\"\\u0069\\", "\"\\\"",
                                       "\"i\\\"", "\"\\ud83d\"", "\"\\q\\q\"",  "\"i\\u0064"};
    for (size_t i = 0; i < LENGTH(keys); i++)
        if (key_is(str_from(keys[i]), STR("id")))
            fail_msg("%s equals id", keys[i]);
    assert_false(json_key_is((struct str){NULL, 0}, STR("id")));
}

static void assert_string(struct arena *arena, struct str raw, struct str expected)
{
    struct str copy = exact(raw);
    struct str text = STR("untouched");
    assert_true(json_string(copy, arena, &text));
    assert_str_equal(text, expected);
    exact_free(copy);
}

static void strings_are_decoded(void **state)
{
    assert_string(*state, STR("\"\""), STR(""));
    assert_string(*state, STR("\"plain\""), STR("plain"));
    assert_string(*state, STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), STR("\"\\/\b\f\n\r\t"));
    assert_string(*state, STR("\"\\u0041\\u00e9\\u20aC\""), STR("A\xc3\xa9\xe2\x82\xac"));
    assert_string(*state, STR("\"\\uD83D\\uDE00!\""), STR("\xf0\x9f\x98\x80!"));
    assert_string(*state, STR("\"\\uDBFF\\uDFFF\""), STR("\xf4\x8f\xbf\xbf"));
    assert_string(*state, STR("\"a\\u0000b\""), STR("a\0b"));
    assert_string(*state, STR("\"z\xc3\xb6lf\\n\xe2\x82\xac\""), STR("z\xc3\xb6lf\n\xe2\x82\xac"));
}

static void every_basic_escape_decodes_to_its_code_point(void **state)
{
    for (uint32_t code_point = 0; code_point < 0x10000; code_point++) {
        char raw[9];
        char expected[4];
        struct str text;
        (void)snprintf(raw, sizeof raw, "\"\\u%04x\"", code_point);
        bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
        if (json_string((struct str){raw, 8}, *state, &text) == surrogate)
            fail_msg("%s", raw);
        if (!surrogate) {
            size_t len = utf8_encode(code_point, expected);
            assert_true(str_eq(text, (struct str){expected, len}));
        }
        arena_clear(*state);
    }
}

static void a_string_without_escapes_is_not_copied(void **state)
{
    struct str raw = STR("\"z\xc3\xb6lf plain\"");
    struct str text;
    assert_true(json_string(raw, *state, &text));
    assert_ptr_equal(text.at, raw.at + 1);
    assert_int_equal(text.len, raw.len - 2);
}

static void damaged_strings_are_not_read(void **state)
{
    static const char *const texts[] = {"",
                                        "\"",
                                        "a",
                                        "1",
                                        "null",
                                        "\"a",
                                        "a\"",
                                        "\"a\"b",
                                        "\"a\"\"",
                                        "\"\\\"",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\ud83d\"",
                                        "\"\\ud83d\\u\"",
                                        "\"\\ude00\"",
                                        "\"\xff\"",
                                        "\"\xc3\"",
                                        "\"\n\"",
                                        "\"\\u",
                                        "\"\\",
                                        "\"\\ud83d\\ude0\"",
                                        "\"a\" ",
                                        " \"a\""};
    for (size_t i = 0; i < LENGTH(texts); i++) {
        struct str copy = exact(str_from(texts[i]));
        struct str text = STR("untouched");
        if (json_string(copy, *state, &text))
            fail_msg("%s was read", texts[i]);
        assert_str_equal(text, STR("untouched"));
        exact_free(copy);
    }
    struct str ignored;
    assert_false(json_string((struct str){NULL, 0}, *state, &ignored));
    assert_false(json_string(STR("\"a\0\""), *state, &ignored));
}

static bool reads_int(struct str raw, int64_t expected)
{
    struct str copy = exact(raw);
    int64_t value = 77;
    bool ok = json_int64(copy, &value);
    exact_free(copy);
    assert_int_equal(value, ok ? expected : 77);
    return ok;
}

static void integers_that_fit_are_exact(void **state)
{
    (void)state;
    assert_true(reads_int(STR("0"), 0));
    assert_true(reads_int(STR("-0"), 0));
    assert_true(reads_int(STR("-1"), -1));
    assert_true(reads_int(STR("1234567890"), 1234567890));
    assert_true(reads_int(STR("9223372036854775807"), INT64_MAX));
    assert_true(reads_int(STR("-9223372036854775807"), -INT64_MAX));
    assert_true(reads_int(STR("-9223372036854775808"), INT64_MIN));
}

static void integers_that_do_not_fit_or_are_not_plain_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"9223372036854775808",
                                        "-9223372036854775809",
                                        "18446744073709551616",
                                        "92233720368547758070",
                                        "123456789012345678901234567890",
                                        "1.0",
                                        "1e3",
                                        "1E0",
                                        "",
                                        "-",
                                        "+1",
                                        "01",
                                        "1x",
                                        " 1",
                                        "1 ",
                                        "true",
                                        "\"1\"",
                                        "0x1",
                                        "1."};
    for (size_t i = 0; i < LENGTH(texts); i++)
        if (reads_int(str_from(texts[i]), 0))
            fail_msg("%s was read", texts[i]);
    int64_t ignored;
    assert_false(json_int64((struct str){NULL, 0}, &ignored));
}

static void a_number_of_thirty_digits_stays_as_it_is(void **state)
{
    struct str text = STR("{\"n\":123456789012345678901234567890.10}");
    struct json_iter iter;
    struct str key;
    struct str value;
    assert_true(accepted(*state, text));
    assert_true(json_object_begin(&iter, text));
    assert_true(json_object_next(&iter, &key, &value));
    assert_str_equal(value, STR("123456789012345678901234567890.10"));
}

static const struct {
    const char *text;
    double value;
} doubles[] = {
    {"0", 0.0},
    {"1", 1.0},
    {"-1.5", -1.5},
    {"0.1", 0.1},
    {"1.10", 1.1},
    {"129.90", 129.9},
    {"1e22", 1e22},
    {"1e23", 1e23},
    {"123456789012345678", 123456789012345678.0},
    {"9007199254740993", 9007199254740992.0},
    {"9007199254740993.0000000000000000000000000000000000000000001", 9007199254740994.0},
    {"1.7976931348623157e308", 1.7976931348623157e308},
    {"2.2250738585072011e-308", 2.2250738585072011e-308},
    {"4.9e-324", 4.9e-324},
    {"1e-400", 0.0},
    {"0e999999999999999999999", 0.0},
    {"0.000000000000000000000000000000000000000000000001e48", 1.0},
    {"100000000000000000000000000000000000000000000000000e-50", 1.0},
    {"0.30000000000000004", 0.30000000000000004},
    {"3.14159265358979323846264338327950288", 3.14159265358979323846},
};

static void doubles_are_the_nearest(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(doubles); i++) {
        struct str copy = exact(str_from(doubles[i].text));
        double value = 77;
        assert_true(json_double(copy, &value));
        exact_free(copy);
        if (value != doubles[i].value)
            fail_msg("%s was read as %.17g", doubles[i].text, value);
    }
    double zero = 1;
    assert_true(json_double(STR("-0.0"), &zero));
    assert_true(zero == 0 && signbit(zero));
}

static void a_number_of_a_million_digits_is_rounded_by_all_of_them(void **state)
{
    /* 2^53 + 1 lies in the middle between two doubles; one digit far behind the point decides. */
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("9007199254740993."));
    for (int i = 0; i < 1000000; i++)
        buf_add_char(&buf, '0');
    double value;
    assert_true(json_double(buf_str(&buf), &value));
    assert_true(value == 9007199254740992.0);
    buf_add_char(&buf, '1');
    assert_true(json_double(buf_str(&buf), &value));
    assert_true(value == 9007199254740994.0);
    buf_add(&buf, STR("e-16"));
    assert_true(json_double(buf_str(&buf), &value));
    assert_true(value == 0.9007199254740993);
}

static void long_shifts_of_the_decimal_point_cancel_out(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("0."));
    for (int i = 0; i < 100000; i++)
        buf_add_char(&buf, '0');
    buf_add(&buf, STR("25e100001"));
    double value;
    assert_true(json_double(buf_str(&buf), &value));
    assert_true(value == 2.5);
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("25"));
    for (int i = 0; i < 100000; i++)
        buf_add_char(&buf, '0');
    buf_add(&buf, STR("e-100001"));
    assert_true(json_double(buf_str(&buf), &value));
    assert_true(value == 2.5);
}

static void what_is_no_finite_number_is_not_read_as_a_double(void **state)
{
    (void)state;
    static const char *const texts[] = {"1e309", "-1e309", "1e99999999999999999999",
                                        "",      "-",      "1.",
                                        "x",     "NaN",    "inf",
                                        "0x1p3", "1e",     " 1",
                                        "1 ",    "\"1\"",  "01",
                                        "+1",    "1,5"};
    for (size_t i = 0; i < LENGTH(texts); i++) {
        struct str copy = exact(str_from(texts[i]));
        double value = 77;
        if (json_double(copy, &value) || value != 77)
            fail_msg("%s was read", texts[i]);
        exact_free(copy);
    }
    double ignored;
    assert_false(json_double((struct str){NULL, 0}, &ignored));
}

static void a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool found = false;
    for (size_t i = 0; i < 4 && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found)
        print_message("no locale with a decimal comma is installed; the C locale is tested\n");
    doubles_are_the_nearest(state);
    double value = 0;
    assert_true(json_double(STR("1234.5678901234567890123"), &value));
    assert_true(value == 1234.5678901234567890123);
    assert_false(json_double(STR("1234,5"), &value));
    assert_non_null(setlocale(LC_ALL, "C"));
}

static void flags_are_read_only_when_whole(void **state)
{
    (void)state;
    bool flag = false;
    assert_true(json_bool(STR("true"), &flag));
    assert_true(flag);
    assert_true(json_bool(STR("false"), &flag));
    assert_false(flag);
    assert_false(json_bool(STR("tru"), &flag));
    assert_false(json_bool(STR("truex"), &flag));
    assert_false(json_bool(STR("null"), &flag));
    assert_false(json_bool(STR("1"), &flag));
    assert_false(json_bool(STR(""), &flag));
    assert_false(json_bool((struct str){NULL, 0}, &flag));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(types_are_told_by_the_first_byte),
        WITH_ARENA(trimming_takes_off_only_white_space),
        WITH_ARENA(members_come_in_order_as_raw_views),
        WITH_ARENA(elements_come_in_order_as_raw_views),
        WITH_ARENA(only_the_right_container_is_walked),
        WITH_ARENA(counting_counts_only_whole_containers),
        WITH_ARENA(damage_ends_a_walk_and_is_told),
        WITH_ARENA(outputs_are_untouched_by_damage),
        WITH_ARENA(no_truncation_or_change_makes_a_walk_read_outside),
        WITH_ARENA(values_nested_too_deep_are_damage),
        WITH_ARENA(keys_are_compared_after_decoding),
        WITH_ARENA(damaged_keys_equal_nothing),
        WITH_ARENA(strings_are_decoded),
        WITH_ARENA(every_basic_escape_decodes_to_its_code_point),
        WITH_ARENA(a_string_without_escapes_is_not_copied),
        WITH_ARENA(damaged_strings_are_not_read),
        WITH_ARENA(integers_that_fit_are_exact),
        WITH_ARENA(integers_that_do_not_fit_or_are_not_plain_are_refused),
        WITH_ARENA(a_number_of_thirty_digits_stays_as_it_is),
        WITH_ARENA(doubles_are_the_nearest),
        WITH_ARENA(a_number_of_a_million_digits_is_rounded_by_all_of_them),
        WITH_ARENA(long_shifts_of_the_decimal_point_cancel_out),
        WITH_ARENA(what_is_no_finite_number_is_not_read_as_a_double),
        WITH_ARENA(a_locale_with_a_decimal_comma_changes_nothing),
        WITH_ARENA(flags_are_read_only_when_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
