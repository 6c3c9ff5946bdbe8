/* Whether two JSON values mean the same, whatever they look like. */
#include "base/buf.h"
#include "base/json.h"
#include "fixture.h"

struct pair {
    const char *a;
    const char *b;
};

static bool equal(struct arena *arena, const char *a, const char *b)
{
    bool same = false;
    assert_int_equal(json_alike(str_from(a), str_from(b), 7, arena, &same), ERR_OK);
    return same;
}

static void values_that_mean_the_same_are_equal(void **state)
{
    static const struct pair pairs[] = {
        {"null", " null\n"},
        {"{\"a\":1,\"b\":[true,{}]}", "{ \"b\" : [ true , { } ] , \"a\" : 1 }"},
        {"{\"a\":{\"x\":1,\"y\":2},\"b\":3}", "{\"b\":3,\"a\":{\"y\":2,\"x\":1}}"},
        {"\"\\u00e9\\/\"", "\"\xc3\xa9/\""},
        {"{\"\\u0061\":1}", "{\"a\":1}"},
        {"1", "1.0"},
        {"100", "1e2"},
        {"0.01", "1E-2"},
        {"-0", "0.000"},
        {"12345678901234567890", "12345678901234567890.0"},
        {"1e0000000000000001", "10"},
        {"1e99999999999999999999", "1e99999999999999999999"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_true(equal(*state, pairs[i].a, pairs[i].b));
        assert_true(equal(*state, pairs[i].b, pairs[i].a));
    }
}

static void values_that_mean_something_else_are_not(void **state)
{
    static const struct pair pairs[] = {
        {"null", "false"},
        {"true", "false"},
        {"1", "\"1\""},
        {"1", "-1"},
        {"1", "10"},
        {"0", "0.1"},
        {"0.1", "0.01"},
        {"9007199254740993", "9007199254740992"},
        {"1e99999999999999999999", "1e99999999999999999998"},
        {"[1,2]", "[2,1]"},
        {"[1]", "[1,1]"},
        {"{\"a\":1}", "{}"},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}"},
        {"{\"a\":1,\"b\":2}", "{\"b\":1,\"a\":2}"},
        {"\"a\"", "\"A\""},
        {"\"a\"", "\"a \""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_false(equal(*state, pairs[i].a, pairs[i].b));
        assert_false(equal(*state, pairs[i].b, pairs[i].a));
    }
}

/* An object as large as a payload may be, with its members the other way round. */
static void a_large_object_in_another_order_is_equal(void **state)
{
    enum { MEMBERS = 50000 };
    struct arena *arena = *state;
    struct buf rising;
    struct buf falling;
    buf_init(&rising, arena, 1 << 20);
    buf_init(&falling, arena, 1 << 20);
    for (int i = 0; i < MEMBERS; i++) {
        buf_addf(&rising, "%s\"k%d\":%d", i == 0 ? "{" : ",", i, i);
        buf_addf(&falling, "%s\"k%d\":%d", i == 0 ? "{" : ",", MEMBERS - 1 - i, MEMBERS - 1 - i);
    }
    buf_add(&rising, STR("}"));
    buf_add(&falling, STR("}"));
    bool same = false;
    assert_int_equal(json_alike(buf_str(&rising), buf_str(&falling), 7, arena, &same), ERR_OK);
    assert_true(same);
}

/* `inner` inside as many objects as may be nested, each with its members in order or not. */
static struct str nest(struct arena *arena, const char *inner, const char *last)
{
    struct buf text;
    buf_init(&text, arena, 4096);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_addf(&text, "{\"a\":");
    buf_addf(&text, "%s", inner);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        buf_addf(&text, "%s", last);
    assert_false(text.failed);
    return buf_str(&text);
}

/* A value that is compared twice a level is compared 2^64 times here. */
static void deep_objects_in_another_order_are_compared_once(void **state)
{
    static const char in_order[] = ",\"x\":1,\"y\":2}";
    static const char swapped[] = ",\"y\":2,\"x\":1}";
    struct arena *arena = *state;
    bool same = false;
    assert_int_equal(
        json_alike(nest(arena, "0", in_order), nest(arena, "0", swapped), 7, arena, &same), ERR_OK);
    assert_true(same);
    assert_int_equal(
        json_alike(nest(arena, "0", in_order), nest(arena, "1", swapped), 7, arena, &same), ERR_OK);
    assert_false(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(values_that_mean_the_same_are_equal),
        WITH_ARENA(values_that_mean_something_else_are_not),
        WITH_ARENA(a_large_object_in_another_order_is_equal),
        WITH_ARENA(deep_objects_in_another_order_are_compared_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
