/* The JSON of pawl.h: what a program can be given to read, and what it can make. */
#include <stdio.h>

#include "../base/starve.h"
#include "pawl.h"

/* The value on a path as text; valid until the next call. */
static const char *text_at(const char *json, const char *path)
{
    static char shown[256];
    char *text = pawl_json_text(pawl_json_get(pawl_json_read(json), path));
    assert_non_null(text);
    assert_true(strlen(text) < sizeof shown);
    memcpy(shown, text, strlen(text) + 1);
    pawl_free(text);
    return shown;
}

static bool is_none(struct pawl_json value)
{
    return value.at == NULL && value.len == 0;
}

static struct pawl_json unchecked(const char *text)
{
    return (struct pawl_json){text, strlen(text)};
}

/* ---- reading ---- */

static void only_strict_json_is_a_value(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "01",
        "1.",
        "nul",
        "'a'",
        "\"\x01\"",
        "\"\\ud800\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "[1] [2]",
        "{a:1}",
        "\xef\xbb\xbf{}",
        "\"abc",
        "// x\n1",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (!is_none(pawl_json_read(refused[i])))
            fail_msg("%s was taken", refused[i]);
    assert_true(is_none(pawl_json_read(NULL)));
    struct pawl_json value = pawl_json_read(" \n[1, 2]\t");
    assert_int_equal(value.len, 6);
    assert_memory_equal(value.at, "[1, 2]", 6);
}

static void a_hundred_thousand_brackets_are_no_value(void **state)
{
    (void)state;
    enum { HALF = 100 * 1000 };
    char *deep = malloc(HALF * 2 + 1);
    assert_non_null(deep);
    memset(deep, '[', HALF);
    memset(deep + HALF, ']', HALF);
    deep[(size_t)HALF * 2] = '\0';
    assert_true(is_none(pawl_json_read(deep)));
    assert_true(is_none(pawl_json_get(unchecked(deep), "0.0.0.0.0")));
    free(deep);
}

static void a_path_leads_through_objects_and_arrays(void **state)
{
    (void)state;
    static const char answer[] =
        " {\"claims\" : [ {\"lease\":{\"token\":\"a\"}}, {\"lease\" : {\"token\" : \"b\\n\"} } ],"
        "\"0\":\"zero\", \"\":{\"\":7}, \"a b\":1, \"t\\u00e4g\":[2], \"none\":null} ";
    assert_string_equal(text_at(answer, "claims.0.lease.token"), "a");
    assert_string_equal(text_at(answer, "claims.1.lease.token"), "b\n");
    assert_string_equal(text_at(answer, "0"), "zero");
    assert_string_equal(text_at(answer, "a b"), "1");
    assert_string_equal(text_at(answer, "t\xc3\xa4g.0"), "2");
    assert_string_equal(text_at(answer, "."), "7");
    assert_string_equal(text_at(answer, "claims.0.lease"), "{\"token\":\"a\"}");
    assert_string_equal(text_at("[5]", ""), "[5]");
    assert_string_equal(text_at("[5]", NULL), "[5]");
    static const char *const absent[] = {
        "none",       "none.x",
        "claims.2",   "claims.-1",
        "claims.00",  "claims.1e0",
        "claims.x",   "claims. 0",
        "claims.0.0", "claims.0.lease.token.x",
        "Claims",     "claims..0",
        "a",          "claims.99999999999999999999",
    };
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++)
        if (!is_none(pawl_json_get(pawl_json_read(answer), absent[i])))
            fail_msg("%s was found", absent[i]);
    assert_true(is_none(pawl_json_get((struct pawl_json){NULL, 0}, "a")));
    assert_true(is_none(pawl_json_get((struct pawl_json){NULL, 5}, "a")));
}

static void a_path_may_be_as_deep_as_a_value(void **state)
{
    (void)state;
    char json[64 * 6 + 1];
    char path[64 * 2 + 1];
    size_t len = 0;
    for (int i = 0; i < 63; i++) {
        memcpy(json + len, "{\"a\":", 5);
        len += 5;
        memcpy(path + (size_t)i * 2, "a.", 2);
    }
    json[len++] = '9';
    memset(json + len, '}', 63);
    json[len + 63] = '\0';
    path[63 * 2 - 1] = '\0';
    assert_int_equal(pawl_json_int(pawl_json_get(pawl_json_read(json), path), 0), 9);
    memcpy(path + (size_t)63 * 2 - 1, ".a", 3);
    assert_true(is_none(pawl_json_get(pawl_json_read(json), path)));
}

static void a_walk_meets_every_member_once(void **state)
{
    (void)state;
    struct pawl_json object = pawl_json_read("{ \"a\" : 1 , \"b\\\"\":[ 2,3 ], \"c\": {} }");
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    char seen[128] = "";
    size_t len = 0;
    while (pawl_json_next(object, &item, &key))
        len += (size_t)snprintf(seen + len, sizeof seen - len, "%.*s=%.*s;", (int)key.len, key.at,
                                (int)item.len, item.at);
    assert_string_equal(seen, "\"a\"=1;\"b\\\"\"=[ 2,3 ];\"c\"={};");
    assert_true(is_none(item));

    long long sum = 0;
    while (pawl_json_next(pawl_json_get(object, "b\""), &item, NULL))
        sum = sum * 10 + pawl_json_int(item, 0);
    assert_int_equal(sum, 23);
    struct pawl_json array = pawl_json_read("[true]");
    assert_true(pawl_json_next(array, &item, &key));
    assert_true(pawl_json_true(item));
    assert_true(is_none(key));
    assert_false(pawl_json_next(array, &item, &key));
}

static void there_is_nothing_to_walk_in_other_values(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}", "[]", " [ ] ", "1", "\"[1]\"", "null", "true"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct pawl_json item = {NULL, 0};
        assert_false(pawl_json_next(pawl_json_read(texts[i]), &item, NULL));
    }
    struct pawl_json item = {NULL, 0};
    assert_false(pawl_json_next((struct pawl_json){NULL, 0}, &item, NULL));
}

static void a_walk_that_is_given_a_foreign_item_or_damage_ends(void **state)
{
    (void)state;
    static const char list[] = "[1,2,3]";
    struct pawl_json item = {"4,5", 1};
    assert_false(pawl_json_next(pawl_json_read(list), &item, NULL));
    item = (struct pawl_json){list + 1, 1000};
    assert_false(pawl_json_next(pawl_json_read(list), &item, NULL));
    item = (struct pawl_json){list + 1, SIZE_MAX};
    assert_false(pawl_json_next(pawl_json_read(list), &item, NULL));
    static const char *const damaged[] = {"[1",    "[1,",  "[,",    "{\"a\"", "{\"a\":", "{\"a\":1",
                                          "{1:2}", "[\"a", "[\"\\", "[[[",    "[}",      "[1 2]"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        struct str text = exact(str_from(damaged[i]));
        item = (struct pawl_json){NULL, 0};
        int count = 0;
        while (pawl_json_next((struct pawl_json){text.at, text.len}, &item, NULL))
            count++;
        assert_in_range(count, 0, 1);
        exact_free(text);
    }
}

static void a_type_is_its_first_letter(void **state)
{
    (void)state;
    assert_int_equal(pawl_json_type(pawl_json_read("{}")), 'o');
    assert_int_equal(pawl_json_type(pawl_json_read("[]")), 'a');
    assert_int_equal(pawl_json_type(pawl_json_read("\"\"")), 's');
    assert_int_equal(pawl_json_type(pawl_json_read("-1.5e3")), 'n');
    assert_int_equal(pawl_json_type(pawl_json_read("true")), 't');
    assert_int_equal(pawl_json_type(pawl_json_read("false")), 'f');
    assert_int_equal(pawl_json_type(pawl_json_read("null")), '0');
    assert_int_equal(pawl_json_type(pawl_json_read("nope")), 0);
    assert_int_equal(pawl_json_type((struct pawl_json){NULL, 0}), 0);
}

static void text_is_decoded_and_never_cut_short(void **state)
{
    (void)state;
    assert_string_equal(text_at("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", ""),
                        "a\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80");
    assert_string_equal(text_at("\"\"", ""), "");
    assert_string_equal(text_at("\"admin\\u0000guest\"", ""), "admin\xef\xbf\xbdguest");
    assert_string_equal(text_at("1.10", ""), "1.10");
    assert_string_equal(text_at("[ 1 ]", ""), "[ 1 ]");
    assert_string_equal(text_at("null", "x"), "");
    assert_string_equal(text_at("nonsense", ""), "");
    char *damaged = pawl_json_text(unchecked("\"\\q\""));
    assert_string_equal(damaged, "\"\\q\"");
    pawl_free(damaged);
    damaged = pawl_json_text(unchecked("\""));
    assert_string_equal(damaged, "\"");
    pawl_free(damaged);
}

static void a_number_that_is_not_whole_or_does_not_fit_is_otherwise(void **state)
{
    (void)state;
    assert_int_equal(pawl_json_int(pawl_json_read("-12"), 7), -12);
    assert_true(pawl_json_int(pawl_json_read("9223372036854775807"), 7) == INT64_MAX);
    assert_true(pawl_json_int(pawl_json_read("-9223372036854775808"), 7) == INT64_MIN);
    static const char *const others[] = {
        "9223372036854775808", "1.0", "1e3", "\"1\"", "true", "null", "[1]", "nope", ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(pawl_json_int(pawl_json_read(others[i]), 7), 7);
}

static void truth_and_sameness_are_exact(void **state)
{
    (void)state;
    assert_true(pawl_json_true(pawl_json_read(" true ")));
    assert_false(pawl_json_true(pawl_json_read("false")));
    assert_false(pawl_json_true(pawl_json_read("\"true\"")));
    assert_false(pawl_json_true(pawl_json_read("1")));
    assert_false(pawl_json_true((struct pawl_json){NULL, 0}));
    assert_true(pawl_json_is(pawl_json_read("\"queued\""), "queued"));
    assert_true(pawl_json_is(pawl_json_read("\"qu\\u0065ued\""), "queued"));
    assert_true(pawl_json_is(pawl_json_read("\"\""), ""));
    assert_false(pawl_json_is(pawl_json_read("\"queued\\u0000\""), "queued"));
    assert_false(pawl_json_is(pawl_json_read("\"queue\""), "queued"));
    assert_false(pawl_json_is(pawl_json_read("5"), "5"));
    assert_false(pawl_json_is(pawl_json_read("\"a\""), NULL));
    assert_false(pawl_json_is((struct pawl_json){NULL, 0}, ""));
}

/* ---- writing ---- */

static void an_object_can_be_read_while_it_grows(void **state)
{
    (void)state;
    static const char *const kinds[] = {"email", NULL, "a\"b\\c\n\x1b"};
    struct pawl_object *object = pawl_object_new();
    assert_string_equal(pawl_object_str(object), "{}");
    pawl_object_text(object, "a", "x\"y");
    assert_string_equal(pawl_object_str(object), "{\"a\":\"x\\\"y\"}");
    pawl_object_int(object, "b", INT64_MIN);
    pawl_object_flag(object, "c", 5);
    pawl_object_flag(object, "d", 0);
    pawl_object_json(object, "e", " {\"f\": [1.10]} ");
    pawl_object_list(object, "kinds", kinds, 3);
    pawl_object_list(object, "empty", kinds, 0);
    assert_string_equal(
        pawl_object_str(object),
        "{\"a\":\"x\\\"y\",\"b\":-9223372036854775808,\"c\":true,\"d\":false,"
        "\"e\":{\"f\": [1.10]},\"kinds\":[\"email\",\"a\\\"b\\\\c\\n\\u001b\"],\"empty\":[]}");
    assert_false(is_none(pawl_json_read(pawl_object_str(object))));
    pawl_object_free(object);
}

static void what_is_null_is_left_out(void **state)
{
    (void)state;
    struct pawl_object *object = pawl_object_new();
    pawl_object_text(object, "a", NULL);
    pawl_object_json(object, "b", NULL);
    pawl_object_list(object, "c", NULL, 3);
    assert_string_equal(pawl_object_str(object), "{}");
    pawl_object_free(object);
}

static void names_are_escaped_as_texts_are(void **state)
{
    (void)state;
    struct pawl_object *object = pawl_object_new();
    pawl_object_int(object, "a\":1,\"b", 2);
    pawl_object_int(object, "\xc3\xa9\n", 3);
    assert_string_equal(pawl_object_str(object), "{\"a\\\":1,\\\"b\":2,\"\xc3\xa9\\n\":3}");
    pawl_object_free(object);
}

static void what_cannot_be_written_spoils_the_object_for_good(void **state)
{
    (void)state;
    static const char *const values[] = {"fine", "\xff"};
    for (int i = 0; i < 7; i++) {
        struct pawl_object *object = pawl_object_new();
        pawl_object_int(object, "before", 1);
        switch (i) {
        case 0:
            pawl_object_text(object, "a", "\xed\xa0\x80");
            break;
        case 1:
            pawl_object_text(object, "\xff", "a");
            break;
        case 2:
            pawl_object_json(object, "a", "{\"b\":}");
            break;
        case 3:
            pawl_object_json(object, "a", "");
            break;
        case 4:
            pawl_object_json(object, "a", "1,\"b\":2");
            break;
        case 5:
            pawl_object_list(object, "a", values, 2);
            break;
        default:
            pawl_object_int(object, NULL, 1);
            break;
        }
        assert_null(pawl_object_str(object));
        pawl_object_int(object, "after", 1);
        pawl_object_text(object, "after", "x");
        pawl_object_json(object, "after", "1");
        pawl_object_list(object, "after", values, 1);
        assert_null(pawl_object_str(object));
        pawl_object_free(object);
    }
}

static void no_object_at_all_is_taken_everywhere(void **state)
{
    (void)state;
    static const char *const values[] = {"a"};
    pawl_object_text(NULL, "a", "b");
    pawl_object_text(NULL, "a", "\xff");
    pawl_object_int(NULL, "a", 1);
    pawl_object_flag(NULL, "a", 1);
    pawl_object_json(NULL, "a", "1");
    pawl_object_json(NULL, "a", "nonsense");
    pawl_object_list(NULL, "a", values, 1);
    assert_null(pawl_object_str(NULL));
    pawl_object_free(NULL);
}

static void an_object_may_be_large(void **state)
{
    (void)state;
    enum { COUNT = 20 * 1000 };
    struct pawl_object *object = pawl_object_new();
    char key[32];
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(key, sizeof key, "key %d", i);
        pawl_object_int(object, key, i);
    }
    struct pawl_json value = pawl_json_read(pawl_object_str(object));
    assert_int_equal(pawl_json_int(pawl_json_get(value, "key 19999"), 0), 19999);
    pawl_object_free(object);
}

static void a_copy_is_the_callers_own(void **state)
{
    (void)state;
    char *copy = pawl_copy("text");
    assert_string_equal(copy, "text");
    pawl_free(copy);
    assert_null(pawl_copy(NULL));
}

static void without_memory_there_is_nothing_and_nothing_breaks(void **state)
{
    (void)state;
    if (!STARVING)
        skip();
    struct pawl_object *object = pawl_object_new();
    struct pawl_json value = pawl_json_read("\"a\\n\"");
    char large[8192];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    malloc_fails(true);
    struct pawl_object *none = pawl_object_new();
    char *text = pawl_json_text(value);
    char *copy = pawl_copy("x");
    pawl_object_text(object, "large", large);
    malloc_fails(false);
    assert_null(none);
    assert_null(text);
    assert_null(copy);
    pawl_object_int(object, "after", 1);
    assert_null(pawl_object_str(object));
    pawl_object_free(object);
}

static void a_check_says_what_is_wrong_and_where(void **state)
{
    (void)state;
    struct pawl_error error = {0};
    assert_int_equal(pawl_json_check("{\"a\": [1, null]}", &error), PAWL_OK);
    assert_int_equal(pawl_json_check("{\"a\": 1, \"a\": 2}", &error), PAWL_BAD_REQUEST);
    assert_int_equal(error.code, PAWL_BAD_REQUEST);
    assert_string_equal(error.message, "byte 9: duplicate key \"a\"");
    assert_int_equal(pawl_json_check("", &error), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_json_check(NULL, &error), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_json_check("nul", NULL), PAWL_BAD_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_says_what_is_wrong_and_where),
        cmocka_unit_test(only_strict_json_is_a_value),
        cmocka_unit_test(a_hundred_thousand_brackets_are_no_value),
        cmocka_unit_test(a_path_leads_through_objects_and_arrays),
        cmocka_unit_test(a_path_may_be_as_deep_as_a_value),
        cmocka_unit_test(a_walk_meets_every_member_once),
        cmocka_unit_test(there_is_nothing_to_walk_in_other_values),
        cmocka_unit_test(a_walk_that_is_given_a_foreign_item_or_damage_ends),
        cmocka_unit_test(a_type_is_its_first_letter),
        cmocka_unit_test(text_is_decoded_and_never_cut_short),
        cmocka_unit_test(a_number_that_is_not_whole_or_does_not_fit_is_otherwise),
        cmocka_unit_test(truth_and_sameness_are_exact),
        cmocka_unit_test(an_object_can_be_read_while_it_grows),
        cmocka_unit_test(what_is_null_is_left_out),
        cmocka_unit_test(names_are_escaped_as_texts_are),
        cmocka_unit_test(what_cannot_be_written_spoils_the_object_for_good),
        cmocka_unit_test(no_object_at_all_is_taken_everywhere),
        cmocka_unit_test(an_object_may_be_large),
        cmocka_unit_test(a_copy_is_the_callers_own),
        cmocka_unit_test(without_memory_there_is_nothing_and_nothing_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
