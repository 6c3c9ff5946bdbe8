#include <stdio.h>

#include "base/buf.h"
#include "base/json.h"
#include "fixture.h"
#include "starve.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum { MEBIBYTE = 1024 * 1024 };

static enum error_code check_detail(struct arena *arena, struct str text, struct err *err)
{
    struct str copy = exact(text);
    enum error_code code = json_check(copy, MEBIBYTE, "payload", arena, err);
    exact_free(copy);
    return code;
}

static bool accepted(struct arena *arena, struct str text)
{
    struct err err = {.code = ERR_OK};
    enum error_code code = check_detail(arena, text, &err);
    if (code != ERR_OK) {
        assert_int_equal(err.code, code);
        assert_int_equal(strncmp(err.detail, "payload: ", 9), 0);
    }
    return code == ERR_OK;
}

static void assert_refused(struct arena *arena, struct str text, const char *detail)
{
    struct err err = {.code = ERR_OK};
    assert_int_equal(check_detail(arena, text, &err), ERR_BAD_REQUEST);
    assert_int_equal(err.code, ERR_BAD_REQUEST);
    assert_string_equal(err.detail, detail);
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

static const char *const good_texts[] = {"{}",
                                         "[]",
                                         "0",
                                         "-0",
                                         "1",
                                         "-1",
                                         "10",
                                         "1234567890123456789012345678901234567890",
                                         "0.0",
                                         "-0.5",
                                         "1.10",
                                         "1e5",
                                         "1E5",
                                         "1e+5",
                                         "1E-5",
                                         "1.5e10",
                                         "0e0",
                                         "1e999999",
                                         "true",
                                         "false",
                                         "null",
                                         "\"\"",
                                         "\"a\"",
                                         "\"\x7f\"",
                                         "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                         "\"\\u0000\"",
                                         "\"\\uD83D\\uDE00\"",
                                         "\"\\ud83d\\ude00\"",
                                         "\"\\uFFFF\\ufffe\"",
                                         "\"\xc3\xa9\"",
                                         "\"\xef\xbf\xbf\"",
                                         "\"\xf4\x8f\xbf\xbf\"",
                                         "\"\xe2\x80\xa8\"",
                                         "[1]",
                                         "[1,2]",
                                         "[[],[]]",
                                         "[[[[[]]]]]",
                                         "{\"\":0}",
                                         "{\"a\":1,\"b\":2}",
                                         "{\"a\":{\"a\":{\"a\":1}}}",
                                         "{\"a\":[{\"a\":1},{\"a\":2}],\"b\":{\"a\":1}}",
                                         " 1 ",
                                         "\t\n\r 1\t\n\r ",
                                         " { \"a\" : [ 1 , 2 ] , \"b\" : { } } ",
                                         "{\"\\u0000\":1,\"\":2}",
                                         "\"/\"",
                                         "[null,true,false]",
                                         "{\"a\":1,\"A\":2}",
                                         "{\"a\":1,\"a\\u0000\":2}",
                                         "{\"e\xcc\x81\":1,\"\xc3\xa9\":2}"};

static const char *const bad_texts[] = {"",   " ", "\n",          "1 2",       "{}{}", "[] []",
                                        "1,", ",", "\"a\" \"b\"", "null null", "{}}",  "[]]"};

static const char *const bad_literals[] = {
    "nul", "nulll",    "True",      "FALSE", "tru", "truth", "fals",  "none",       "undefined",
    "NaN", "Infinity", "-Infinity", "t",     "f",   "n",     "[nul]", "[truefalse]"};

static const char *const bad_numbers[] = {"-",     "+1",   "01",    "-01",          "00",   "1.",
                                          ".5",    "-.5",  "1.e5",  "1e",           "1e+",  "1E-",
                                          "1e1.5", "0x10", "1_000", "--1",          "1-",   "1e5e5",
                                          "1.2.3", "- 1",  "1 e5",  "\xef\xbc\x91", "[1a]", "0b1"};

static const char *const bad_strings[] = {"\"",
                                          "\"a",
                                          "a\"",
                                          "'a'",
                                          "\"\\\"",
                                          "\"\\x\"",
                                          "\"\\u\"",
                                          "\"\\u1\"",
                                          "\"\\u12\"",
                                          "\"\\u123\"",
                                          "\"\\u123g\"",
                                          "\"\\u 123\"",
                                          "\"\\u+123\"",
                                          "\"\\U0041\"",
                                          "\"\\a\"",
                                          "\"\\'\"",
                                          "\"\n\"",
                                          "\"\t\"",
                                          "\"\x01\"",
                                          "\"\x1f\"",
                                          "\"\\ud800\"",
                                          "\"\\udfff\"",
                                          "\"\\ud800\\ud800\"",
                                          "\"\\ud800x\"",
                                          "\"\\ud800\\n\"",
                                          "\"\\ud800\\u0041\"",
                                          "\"\\udc00\\udc00\"",
                                          "\"\\udc00\\ud800\"",
                                          "\"\\ud83d\\ude0\""};

static const char *const bad_utf8[] = {"\"\x80\"",
                                       "\"\xbf\"",
                                       "\"\xc0\x80\"",
                                       "\"\xc1\xbf\"",
                                       "\"\xc3\"",
                                       "\"\xe2\x82\"",
                                       "\"\xe0\x80\x80\"",
                                       "\"\xe0\x9f\xbf\"",
                                       "\"\xed\xa0\x80\"",
                                       "\"\xed\xbf\xbf\"",
                                       "\"\xf0\x80\x80\x80\"",
                                       "\"\xf0\x8f\xbf\xbf\"",
                                       "\"\xf4\x90\x80\x80\"",
                                       "\"\xf5\x80\x80\x80\"",
                                       "\"\xff\"",
                                       "\"\xfe\xff\"",
                                       "\xef\xbb\xbf{}",
                                       "\xef\xbb\xbf",
                                       "\xc2\xa0 1"};

static const char *const bad_arrays[] = {"[",      "]",     "[1",    "[1,",  "[1,]", "[,1]",
                                         "[1,,2]", "[1 2]", "[1:2]", "[1}",  "[",    "[[]",
                                         "[\"a\"", "[,]",   "[1,]]", "[1;2]"};

static const char *const bad_objects[] = {"{",
                                          "}",
                                          "{]",
                                          "{\"a\"",
                                          "{\"a\":",
                                          "{\"a\":}",
                                          "{\"a\":1",
                                          "{\"a\":1,",
                                          "{\"a\":1,}",
                                          "{,}",
                                          "{a:1}",
                                          "{'a':1}",
                                          "{1:1}",
                                          "{\"a\" 1}",
                                          "{\"a\"::1}",
                                          "{\"a\",1}",
                                          "{\"a\":1 \"b\":2}",
                                          "{\"a\":1,,\"b\":2}",
                                          "{\"a\":1]",
                                          "{\"a\":1:2}",
                                          "{null:1}",
                                          "{[]:1}",
                                          "{\"a\":1;}",
                                          "{{}}"};

static const char *const bad_spaces[] = {"\v1",     "\f1",    "1\v",    "/* c */ 1",
                                         "// c\n1", "# c\n1", "[1]\x01"};

static void every_text_of_the_grammar_is_accepted(void **state)
{
    for (size_t i = 0; i < LENGTH(good_texts); i++) {
        struct err err;
        if (check_detail(*state, str_from(good_texts[i]), &err) != ERR_OK)
            fail_msg("%s: %s", good_texts[i], err.detail);
    }
}

static void assert_all_refused(struct arena *arena, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (accepted(arena, str_from(texts[i])))
            fail_msg("%s was accepted", texts[i]);
}

/* Also where they stand in an array or an object. */
static void assert_all_refused_inside(struct arena *arena, const char *const *texts, size_t count)
{
    assert_all_refused(arena, texts, count);
    for (size_t i = 0; i < count; i++)
        if (accepted(arena, nested(arena, "[", texts[i], "]", 1)) ||
            accepted(arena, nested(arena, "{\"k\":", texts[i], "}", 1)))
            fail_msg("%s was accepted inside a container", texts[i]);
}

static void a_text_is_exactly_one_value(void **state)
{
    assert_all_refused(*state, bad_texts, LENGTH(bad_texts));
}

static void literals_out_of_grammar_are_refused(void **state)
{
    assert_all_refused_inside(*state, bad_literals, LENGTH(bad_literals));
}

static void numbers_out_of_grammar_are_refused(void **state)
{
    assert_all_refused_inside(*state, bad_numbers, LENGTH(bad_numbers));
}

static void strings_out_of_grammar_are_refused(void **state)
{
    assert_all_refused_inside(*state, bad_strings, LENGTH(bad_strings));
}

static void what_is_not_utf8_is_refused(void **state)
{
    assert_all_refused_inside(*state, bad_utf8, LENGTH(bad_utf8));
}

static void arrays_out_of_grammar_are_refused(void **state)
{
    assert_all_refused_inside(*state, bad_arrays, LENGTH(bad_arrays));
}

static void objects_out_of_grammar_are_refused(void **state)
{
    assert_all_refused_inside(*state, bad_objects, LENGTH(bad_objects));
}

static void white_space_and_comments_that_others_allow_are_refused(void **state)
{
    assert_all_refused_inside(*state, bad_spaces, LENGTH(bad_spaces));
}

static void an_absent_text_is_refused(void **state)
{
    struct err err;
    assert_int_equal(json_check((struct str){NULL, 0}, 10, "payload", *state, &err),
                     ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "payload: byte 0: expected a value, but the text ends");
}

static void errors_name_the_byte_and_what_is_wrong_there(void **state)
{
    assert_refused(*state, STR("[1,2"), "payload: byte 4: expected ',' or ']', but the text ends");
    assert_refused(*state, STR("{\"a\":1]"), "payload: byte 6: expected ',' or '}', but found ']'");
    assert_refused(*state, STR("{\"a\" 1}"), "payload: byte 5: expected ':', but found '1'");
    assert_refused(*state, STR("{a:1}"),
                   "payload: byte 1: expected a key in quotes, but found 'a'");
    assert_refused(*state, STR("[\x01]"), "payload: byte 1: expected a value, but found byte 0x01");
    assert_refused(*state, STR("{} x"),
                   "payload: byte 3: expected the end of the text, but found 'x'");
    assert_refused(*state, STR("[01]"), "payload: byte 1: a number must not begin with 0");
    assert_refused(*state, STR("[1.]"), "payload: byte 3: a digit must follow the decimal point");
    assert_refused(*state, STR("[1e]"), "payload: byte 3: the exponent needs a digit");
    assert_refused(*state, STR("[-]"), "payload: byte 2: a number needs a digit here");
    assert_refused(*state, STR("\"ab\\q\""), "payload: byte 3: unknown escape after '\\'");
    assert_refused(*state, STR("\"\\u00\""), "payload: byte 1: \\u needs four hex digits");
    assert_refused(*state, STR("\"\\ud800\""), "payload: byte 1: unpaired surrogate");
    assert_refused(*state, STR("\"ab"), "payload: byte 3: the string is not closed");
    assert_refused(*state, STR("\"a\xff\""), "payload: byte 2: the string is not valid UTF-8");
    assert_refused(*state, STR("\"a\nb\""),
                   "payload: byte 2: a control character in a string must be escaped");
    assert_refused(*state, STR("nil"), "payload: byte 0: expected true, false or null");
    assert_refused(*state, STR("\xef\xbb\xbf{}"),
                   "payload: byte 0: a byte order mark is not allowed");
}

static void nul_bytes_are_refused_wherever_they_stand(void **state)
{
    struct str text = STR("{\"a\":[1,true,\"b\"]} ");
    for (size_t i = 0; i <= text.len; i++) {
        char changed[64];
        memcpy(changed, text.at, i);
        changed[i] = '\0';
        memcpy(changed + i + 1, text.at + i, text.len - i);
        assert_false(accepted(*state, (struct str){changed, text.len + 1}));
    }
}

static void every_control_character_and_special_byte_is_seen_at_every_place(void **state)
{
    char text[42];
    for (size_t len = 3; len <= sizeof text; len++) {
        for (size_t at = 1; at < len - 1; at++) {
            for (int c = 0; c < 256; c++) {
                memset(text, 'a', len);
                text[0] = '"';
                text[len - 1] = '"';
                text[at] = (char)c;
                /* A backslash before the last 'a' run makes "\a", and before the quote an open end.
                 */
                bool good = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
                struct err err;
                if ((json_check((struct str){text, len}, MEBIBYTE, "t", *state, &err) == ERR_OK) !=
                    good)
                    fail_msg("byte %d at %zu of %zu", c, at, len);
            }
        }
    }
}

static const struct {
    const char *text;
    const char *detail;
} duplicate_keys[] = {
    {"{\"a\":1,\"a\":2}", "payload: byte 7: duplicate key \"a\""},
    {"{\"a\":1,\"b\":{},\"a\":2}", "payload: byte 14: duplicate key \"a\""},
    {"{\"\":1,\"\":2}", "payload: byte 6: duplicate key \"\""},
    {"{\"a\":1,\"\\u0061\":2}", "payload: byte 7: duplicate key \"a\""},
    {"{\"\\u0061\":1,\"a\":2}", "payload: byte 12: duplicate key \"a\""},
    {"{\"\\n\":1,\"\\u000A\":2}", "payload: byte 8: duplicate key \"?\""},
    {"{\"/\":1,\"\\/\":2}", "payload: byte 7: duplicate key \"/\""},
    {"{\"\\u00e9\":1,\"\xc3\xa9\":2}", "payload: byte 12: duplicate key \"\xc3\xa9\""},
    {"{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":2}",
     "payload: byte 18: duplicate key \"\xf0\x9f\x98\x80\""},
    {"[{\"x\":{\"y\":1,\"z\":2,\"y\":3}}]", "payload: byte 19: duplicate key \"y\""},
    {"{\"a\":{\"b\":1},\"b\":2,\"c\":{\"a\":1},\"b\":3}", "payload: byte 31: duplicate key \"b\""},
};

static void a_duplicate_key_after_decoding_is_refused(void **state)
{
    for (size_t i = 0; i < LENGTH(duplicate_keys); i++)
        assert_refused(*state, str_from(duplicate_keys[i].text), duplicate_keys[i].detail);
}

/* An object of `count` keys, of which key number `copy` has the name of key number `original`. */
static struct str object_of(struct arena *arena, int count, const char *prefix, const char *suffix,
                            int original, int copy)
{
    struct buf buf;
    buf_init(&buf, arena, 0);
    buf_add_char(&buf, '{');
    for (int i = 0; i < count; i++) {
        buf_addf(&buf, "%s\"%s%d%s\":%d", i == 0 ? "" : ",", prefix, i == copy ? original : i,
                 suffix, i);
    }
    buf_add_char(&buf, '}');
    return buf_str(&buf);
}

static void one_duplicate_is_found_in_objects_of_every_size(void **state)
{
    for (int count = 2; count < 150; count++) {
        assert_true(accepted(*state, object_of(*state, count, "key", "", -1, -1)));
        for (int original = 0; original < count; original += 1 + count / 7) {
            for (int copy = original + 1; copy < count; copy += 1 + count / 5) {
                struct str text = object_of(*state, count, "key", "", original, copy);
                if (accepted(*state, text))
                    fail_msg("%d keys, %d is a copy of %d", count, copy, original);
            }
        }
        arena_clear(*state);
    }
}

static void the_first_of_many_duplicates_is_named(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, object_of(*state, 100, "key", "", -1, -1));
    buf.len--;
    size_t offset = buf.len + 1;
    buf_add(&buf, STR(",\"key55\":1,\"key7\":2,\"key55\":3,\"key99\":4}"));
    char expected[100];
    (void)snprintf(expected, sizeof expected, "payload: byte %zu: duplicate key \"key55\"", offset);
    assert_refused(*state, buf_str(&buf), expected);
}

static void keys_of_other_objects_are_no_duplicates(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add_char(&buf, '[');
    for (int i = 0; i < 200; i++)
        buf_add(&buf, STR("{\"a\":{\"a\":1,\"b\":[{\"a\":1,\"b\":2}]},\"b\":{\"a\":1},\"c\":0},"));
    buf_add(&buf, STR("0]"));
    assert_true(accepted(*state, buf_str(&buf)));
    buf_init(&buf, *state, 0);
    for (int i = 0; i < 60; i++)
        buf_add(&buf, STR("{\"a\":1,\"b\":2,\"c\":"));
    buf_add_char(&buf, '0');
    for (int i = 0; i < 60; i++)
        buf_add(&buf, STR(",\"d\":3}"));
    assert_true(accepted(*state, buf_str(&buf)));
    buf.len--;
    buf_add(&buf, STR(",\"a\":4}"));
    assert_false(accepted(*state, buf_str(&buf)));
}

static void a_megabyte_of_hostile_keys_is_checked(void **state)
{
    /* The same first and last bytes and length: only a full comparison tells them apart. */
    struct buf buf;
    buf_init(&buf, *state, MEBIBYTE);
    buf_add_char(&buf, '{');
    int count = 0;
    while (buf.len < MEBIBYTE - 100)
        buf_addf(&buf, "\"aaaaaaaa%08dbbbbbbbb\":0,", count++);
    size_t end = buf.len;
    buf_add(&buf, STR("\"last\":1}"));
    assert_true(accepted(*state, buf_str(&buf)));
    buf.len = end;
    buf_add(&buf, STR("\"aaaaaaaa00004321bbbbbbbb\":0}"));
    assert_false(accepted(*state, buf_str(&buf)));
}

static void the_first_of_many_duplicates_is_named_among_hostile_keys_too(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add_char(&buf, '{');
    for (int i = 0; i < 1000; i++)
        buf_addf(&buf, "\"aaaaaaaa%03dbbbbbbbb\":0,", i);
    char expected[100];
    (void)snprintf(expected, sizeof expected,
                   "payload: byte %zu: duplicate key \"aaaaaaaa500bbbbbbbb\"", buf.len);
    buf_add(&buf, STR("\"aaaaaaaa500bbbbbbbb\":1,\"aaaaaaaa007bbbbbbbb\":2,"
                      "\"aaaaaaaa999bbbbbbbb\":3,\"aaaaaaaa500bbbbbbbb\":4}"));
    assert_refused(*state, buf_str(&buf), expected);
}

static void a_few_very_long_keys_are_compared_in_full(void **state)
{
    char *prefix = calloc(1, 20001);
    memset(prefix, 'p', 20000);
    assert_true(accepted(*state, object_of(*state, 40, prefix, "suffix that is equal", -1, -1)));
    assert_false(accepted(*state, object_of(*state, 40, prefix, "suffix that is equal", 3, 39)));
    assert_false(accepted(*state, object_of(*state, 20, prefix, "suffix that is equal", 3, 19)));
    free(prefix);
}

static void sixty_four_levels_are_allowed_and_65_refused(void **state)
{
    static const char *const brackets[][2] = {{"[", "]"}, {"{\"a\":", "}"}};
    for (size_t i = 0; i < 2; i++) {
        const char *open = brackets[i][0];
        const char *close = brackets[i][1];
        assert_true(accepted(*state, nested(*state, open, "1", close, 64)));
        assert_false(accepted(*state, nested(*state, open, "1", close, 65)));
        assert_true(accepted(*state, nested(*state, open, i == 0 ? "" : "{}", close, 63)));
        assert_false(accepted(*state, nested(*state, open, "[]", close, 64)));
        assert_false(accepted(*state, nested(*state, open, "{}", close, 64)));
        assert_false(accepted(*state, nested(*state, open, "1", close, 100000 / 6)));
    }
    assert_true(accepted(*state, nested(*state, "[{\"a\":", "1", "}]", 32)));
    assert_refused(*state, nested(*state, "[", "", "]", 65),
                   "payload: byte 64: nested deeper than 64 levels");
}

static void many_shallow_values_are_not_deep(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add_char(&buf, '[');
    for (int i = 0; i < 1000; i++)
        buf_add(&buf, STR("[[]],{},"));
    buf_add(&buf, STR("1]"));
    assert_true(accepted(*state, buf_str(&buf)));
}

static void the_size_limit_counts_every_byte(void **state)
{
    struct err err;
    assert_int_equal(json_check(STR("[1] "), 4, "payload", *state, &err), ERR_OK);
    assert_int_equal(json_check(STR("[1]  "), 4, "payload", *state, &err), ERR_PAYLOAD_TOO_LARGE);
    assert_string_equal(err.detail, "payload: 5 bytes, but at most 4 are allowed");
    assert_int_equal(json_check(STR("broken"), 4, "payload", *state, NULL), ERR_PAYLOAD_TOO_LARGE);
}

static void every_truncation_is_refused(void **state)
{
    static const char *const texts[] = {
        "{\"id\":\"a\\u00e9\\ud83d\\ude00\",\"list\":[1,-2.5e+3,true,false,null,{\"x\":{}}]}",
        "[\"z\xc3\xb6lf \xe2\x82\xac \xf0\x9f\x98\x80\",[[[]]],{\"\\\"\":\"\\\\\"}]",
        "\"one string \\n alone\"", "null"};
    for (size_t i = 0; i < LENGTH(texts); i++) {
        struct str text = str_from(texts[i]);
        assert_true(accepted(*state, text));
        for (size_t len = 0; len < text.len; len++)
            assert_false(accepted(*state, (struct str){text.at, len}));
    }
}

static void small_texts_take_no_memory(void **state)
{
    struct arena *arena = *state;
    assert_true(accepted(arena, STR("{\"a\":{\"b\":[1,2,{\"c\":\"\\n\"}]},\"d\":\"e\"}")));
    assert_null(arena->blocks);
}

struct starved_check {
    struct str text;
    bool other_code; /* it failed, but not for want of memory */
};

static bool check_starved(struct arena *arena, void *data)
{
    struct starved_check *starved = data;
    struct err err = {.code = ERR_OK};
    enum error_code code = json_check(starved->text, MEBIBYTE, "payload", arena, &err);
    if (code != ERR_OK && (code != ERR_NO_MEMORY || err.code != ERR_NO_MEMORY))
        starved->other_code = true;
    return code == ERR_OK;
}

static void without_memory_the_check_fails_with_no_memory(void **state)
{
    if (!STARVING)
        skip();
    static const char *const formats[] = {"key", "\\u006bey"};
    for (size_t i = 0; i < LENGTH(formats); i++) {
        struct starved_check starved = {object_of(*state, 100, formats[i], "", -1, -1), false};
        assert_true(starve(check_starved, &starved) > 10);
        assert_false(starved.other_code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(every_text_of_the_grammar_is_accepted),
        WITH_ARENA(a_text_is_exactly_one_value),
        WITH_ARENA(literals_out_of_grammar_are_refused),
        WITH_ARENA(numbers_out_of_grammar_are_refused),
        WITH_ARENA(strings_out_of_grammar_are_refused),
        WITH_ARENA(what_is_not_utf8_is_refused),
        WITH_ARENA(arrays_out_of_grammar_are_refused),
        WITH_ARENA(objects_out_of_grammar_are_refused),
        WITH_ARENA(white_space_and_comments_that_others_allow_are_refused),
        WITH_ARENA(an_absent_text_is_refused),
        WITH_ARENA(errors_name_the_byte_and_what_is_wrong_there),
        WITH_ARENA(nul_bytes_are_refused_wherever_they_stand),
        WITH_ARENA(every_control_character_and_special_byte_is_seen_at_every_place),
        WITH_ARENA(a_duplicate_key_after_decoding_is_refused),
        WITH_ARENA(one_duplicate_is_found_in_objects_of_every_size),
        WITH_ARENA(the_first_of_many_duplicates_is_named),
        WITH_ARENA(keys_of_other_objects_are_no_duplicates),
        WITH_ARENA(a_megabyte_of_hostile_keys_is_checked),
        WITH_ARENA(the_first_of_many_duplicates_is_named_among_hostile_keys_too),
        WITH_ARENA(a_few_very_long_keys_are_compared_in_full),
        WITH_ARENA(sixty_four_levels_are_allowed_and_65_refused),
        WITH_ARENA(many_shallow_values_are_not_deep),
        WITH_ARENA(the_size_limit_counts_every_byte),
        WITH_ARENA(every_truncation_is_refused),
        WITH_ARENA(small_texts_take_no_memory),
        WITH_ARENA(without_memory_the_check_fails_with_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
