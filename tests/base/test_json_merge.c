/* JSON Merge Patch: the examples of RFC 7396, and some more. */
#include "base/json.h"
#include "fixture.h"

static void the_examples_of_rfc_7396_hold(void **state)
{
    static const struct {
        const char *target;
        const char *patch;
        const char *merged;
    } cases[] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
        {"{\"\\u0061\":1}", " { \"a\" : 2 } ", "{\"\\u0061\":2}"},
        {NULL, "{\"a\":1,\"b\":null}", "{\"a\":1}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str merged = {NULL, 0};
        assert_int_equal(
            json_merge_patch(str_from(cases[i].target), str_from(cases[i].patch), *state, &merged),
            ERR_OK);
        assert_str_equal(merged, str_from(cases[i].merged));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(the_examples_of_rfc_7396_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
