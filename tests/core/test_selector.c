#include "core/selector.h"

#include "../base/starve.h"
#include "base/buf.h"

/* ---- matching ---- */

static const struct label labels[] = {
    {{"gpu", 3}, {"a100", 4}}, {{"zone", 4}, {"eu-1", 4}},
    {{"empty", 5}, {"", 0}},   {{"example.com/tier", 16}, {"spot", 4}},
    {{"in", 2}, {"notin", 5}},
};

static bool matches(const char *text, struct arena *arena)
{
    struct selector selector;
    struct err err;
    if (selector_parse(str_from(text), arena, &selector, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return selector_matches(&selector, labels, sizeof labels / sizeof labels[0]);
}

static void selectors_match_as_kubernetes_does(void **state)
{
    static const struct {
        const char *text;
        bool matches;
    } cases[] = {
        {"", true},
        {"  \t\r\n ", true},
        {"gpu=a100", true},
        {"gpu==a100", true},
        {"gpu = a100", true},
        {" gpu\t==\na100 ", true},
        {"gpu=h100", false},
        {"gpu!=h100", true},
        {"gpu != a100", false},
        {"missing=x", false},
        {"missing!=x", true},
        {"gpu in (a100)", true},
        {"gpu in(h100,a100)", true},
        {"gpu in ( h100 , l4 )", false},
        {"gpu notin (h100,l4)", true},
        {"gpu notin (h100,a100)", false},
        {"missing in (a)", false},
        {"missing notin (a)", true},
        {"gpu", true},
        {"missing", false},
        {"!gpu", false},
        {"! missing", true},
        {"gpu,zone", true},
        {"gpu , ! missing, zone in (eu-1)", true},
        {"gpu,!zone", false},
        {"example.com/tier=spot", true},
        {"tier=spot", false},
        {"empty=", true},
        {"empty==", true},
        {"empty=,gpu", true},
        {"empty!=", false},
        {"empty in (,)", true},
        {"empty in (x,)", true},
        {"empty in (,x)", true},
        {"gpu in (,x)", false},
        {"missing=", false},
        {"missing!=", true},
        {"in", true},
        {"!notin", true},
        {"in in (notin)", true},
        {"in=notin", true},
        {"in notin (in,notin)", false},
        {"GPU=a100", false},
        {"gpu=A100", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (matches(cases[i].text, *state) != cases[i].matches)
            fail_msg("%s", cases[i].text);
}

static void an_absent_selector_matches_everything(void **state)
{
    struct selector selector;
    struct err err;
    assert_int_equal(selector_parse((struct str){NULL, 0}, *state, &selector, &err), ERR_OK);
    assert_int_equal(selector.count, 0);
    assert_true(selector_matches(&selector, NULL, 0));
}

static void without_labels_only_what_may_be_missing_matches(void **state)
{
    static const char *const texts[] = {"a", "a=b", "a in (b)", "!a", "a!=b", "a notin (b)"};
    for (size_t i = 0; i < 6; i++) {
        struct selector selector;
        struct err err;
        assert_int_equal(selector_parse(str_from(texts[i]), *state, &selector, &err), ERR_OK);
        assert_int_equal(selector_matches(&selector, NULL, 0), i >= 3);
    }
}

static void a_label_is_found_by_its_key(void **state)
{
    (void)state;
    assert_ptr_equal(label_find(labels, 5, STR("zone")), &labels[1]);
    assert_null(label_find(labels, 1, STR("zone")));
    assert_null(label_find(NULL, 0, STR("zone")));
}

/* ---- what is read ---- */

static void requirements_and_values_come_in_the_order_of_the_text(void **state)
{
    struct selector selector;
    struct err err;
    struct str text = STR("a in (x, y,x),!b,c!=z,d");
    assert_int_equal(selector_parse(text, *state, &selector, &err), ERR_OK);
    assert_int_equal(selector.count, 4);
    assert_int_equal(selector.at[0].op, SELECTOR_IN);
    assert_int_equal(selector.at[0].value_count, 3);
    assert_str_equal(selector.at[0].values[1], STR("y"));
    assert_ptr_equal(selector.at[0].key.at, text.at);
    assert_int_equal(selector.at[1].op, SELECTOR_NOT_EXISTS);
    assert_str_equal(selector.at[1].key, STR("b"));
    assert_int_equal(selector.at[1].value_count, 0);
    assert_int_equal(selector.at[2].op, SELECTOR_NOT_IN);
    assert_int_equal(selector.at[2].value_count, 1);
    assert_str_equal(selector.at[2].values[0], STR("z"));
    assert_int_equal(selector.at[3].op, SELECTOR_EXISTS);
}

static void keys_and_values_may_have_dots_dashes_and_underscores(void **state)
{
    struct selector selector;
    struct err err;
    assert_int_equal(selector_parse(STR("a.b-c_d/E.f-G_9=0.x-Y_z"), *state, &selector, &err),
                     ERR_OK);
    assert_str_equal(selector.at[0].key, STR("a.b-c_d/E.f-G_9"));
    assert_str_equal(selector.at[0].values[0], STR("0.x-Y_z"));
}

static void what_is_wrong_is_shown_with_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *place;
        const char *problem;
    } cases[] = {
        {"=", "byte 0: ", "expected a label's key, not \"=\""},
        {",", "byte 0: ", "expected a label's key, not \",\""},
        {"a,", "byte 2: ", "expected a label's key, but it ends"},
        {"a,,b", "byte 2: ", "expected a label's key, not \",\""},
        {"!", "byte 1: ", "expected a label's key, but it ends"},
        {"!!a", "byte 1: ", "expected a label's key, not \"!\""},
        {"!=a", "byte 0: ", "expected a label's key, not \"!=\""},
        {"!a=b", "byte 2: ", "expected ',', not \"=\""},
        {"a b", "byte 2: ", "expected '=', '==', '!=', 'in', 'notin' or ',', not \"b\""},
        {"a (b)", "byte 2: ", "expected '=', '==', '!=', 'in', 'notin' or ',', not \"(\""},
        {"a)", "byte 1: ", "expected '=', '==', '!=', 'in', 'notin' or ',', not \")\""},
        {"a!b", "byte 1: ", "expected '=', '==', '!=', 'in', 'notin' or ',', not \"!\""},
        {"a IN (b)", "byte 2: ", "not \"IN\""},
        {"a===b", "byte 3: ", "expected ',', not \"=\""},
        {"a= =b", "byte 3: ", "expected ',', not \"=\""},
        {"a=b c", "byte 4: ", "expected ',', not \"c\""},
        {"a=b=c", "byte 3: ", "expected ',', not \"=\""},
        {"a in b", "byte 5: ", "expected '(' after in or notin, not \"b\""},
        {"a notin", "byte 7: ", "expected '(' after in or notin, but it ends"},
        {"a in ()", "byte 6: ", "expected at least one value, not \")\""},
        {"a in (b", "byte 7: ", "expected ',' or ')', but it ends"},
        {"a in (b c)", "byte 8: ", "expected ',' or ')', not \"c\""},
        {"a in (", "byte 6: ", "expected ',' or ')', but it ends"},
        {"a in ((b))", "byte 6: ", "expected ',' or ')', not \"(\""},
        {"a in (b))", "byte 8: ", "expected ',', not \")\""},
        {"a/b/c", "byte 0: ", "may have one prefix with '/', not \"a/b/c\""},
        {"/b", "byte 0: ", "a key has letters, digits"},
        {"a/", "byte 0: ", "a key has letters, digits"},
        {"-a", "byte 0: ", "a key has letters, digits"},
        {"~a", "byte 0: ", "a key has letters, digits"},
        {"a.", "byte 0: ", "a key has letters, digits"},
        {"a$b", "byte 0: ", "not \"a$b\""},
        {"x,é", "byte 2: ", "not \"é\""},
        {"a>1", "byte 0: ", "not \"a>1\""},
        {"a=b/c", "byte 2: ", "a value has letters, digits, '-', '_' and '.'"},
        {"a=-b", "byte 2: ", "starts and ends with a letter or digit, not \"-b\""},
        {"a=b_", "byte 2: ", "starts and ends with a letter or digit, not \"b_\""},
        {"a in (b,c*)", "byte 8: ", "not \"c*\""},
        {"a=\x01", "byte 2: ", "not \"?\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str text = exact(str_from(cases[i].text));
        struct selector selector = {.count = 99};
        struct err err = {0};
        assert_int_equal(selector_parse(text, *state, &selector, &err), ERR_BAD_REQUEST);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
        assert_int_equal(selector.count, 99);
        if (strncmp(err.detail, "selector \"", 10) != 0 ||
            strstr(err.detail, cases[i].place) == NULL ||
            strstr(err.detail, cases[i].problem) == NULL)
            fail_msg("%s gives: %s", cases[i].text, err.detail);
        assert_int_equal(selector_parse(text, *state, &selector, NULL), ERR_BAD_REQUEST);
        exact_free(text);
    }
}

/* ---- limits ---- */

static struct str repeated(const char *piece, int count, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 0);
    for (int i = 0; i < count; i++)
        buf_add(&buf, str_from(piece));
    return buf_str(&buf);
}

static void at_most_64_requirements_are_taken(void **state)
{
    struct selector selector;
    struct err err;
    struct str text = repeated("a,", 64, *state);
    text.len--;
    assert_int_equal(selector_parse(text, *state, &selector, &err), ERR_OK);
    assert_int_equal(selector.count, 64);
    text = repeated("a,", 65, *state);
    text.len--;
    assert_int_equal(selector_parse(text, *state, &selector, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "more than 64 requirements"));
}

static void at_most_4096_bytes_are_taken(void **state)
{
    struct selector selector;
    struct err err;
    assert_int_equal(selector_parse(repeated(" ", 4096, *state), *state, &selector, &err), ERR_OK);
    assert_int_equal(selector_parse(repeated(" ", 4097, *state), *state, &selector, &err),
                     ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "selector must be at most 4096 bytes long, not 4097");
}

static void a_set_may_fill_all_the_bytes(void **state)
{
    struct selector selector;
    struct err err;
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("a in ("));
    buf_add(&buf, repeated(",", 4089, *state));
    buf_add_char(&buf, ')');
    assert_int_equal(selector_parse(buf_str(&buf), *state, &selector, &err), ERR_OK);
    assert_int_equal(selector.at[0].value_count, 4090);
}

static void keys_and_values_have_at_most_128_bytes(void **state)
{
    struct selector selector;
    struct err err;
    assert_int_equal(selector_parse(repeated("k", 128, *state), *state, &selector, &err), ERR_OK);
    assert_int_equal(selector_parse(repeated("k", 129, *state), *state, &selector, &err),
                     ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "a key has at most 128 bytes"));
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("k="));
    buf_add(&buf, repeated("v", 128, *state));
    assert_int_equal(selector_parse(buf_str(&buf), *state, &selector, &err), ERR_OK);
    buf_add_char(&buf, 'v');
    assert_int_equal(selector_parse(buf_str(&buf), *state, &selector, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "a value has at most 128 bytes"));
}

static bool parse_in(struct arena *arena, void *data)
{
    struct selector selector;
    return selector_parse(*(struct str *)data, arena, &selector, NULL) != ERR_NO_MEMORY;
}

static void without_memory_it_fails_as_no_memory(void **state)
{
    struct str text = STR("a=b");
    (void)state;
    if (!STARVING)
        skip();
    assert_true(starve(parse_in, &text) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(selectors_match_as_kubernetes_does),
        WITH_ARENA(an_absent_selector_matches_everything),
        WITH_ARENA(without_labels_only_what_may_be_missing_matches),
        WITH_ARENA(a_label_is_found_by_its_key),
        WITH_ARENA(requirements_and_values_come_in_the_order_of_the_text),
        WITH_ARENA(keys_and_values_may_have_dots_dashes_and_underscores),
        WITH_ARENA(what_is_wrong_is_shown_with_its_place),
        WITH_ARENA(at_most_64_requirements_are_taken),
        WITH_ARENA(at_most_4096_bytes_are_taken),
        WITH_ARENA(a_set_may_fill_all_the_bytes),
        WITH_ARENA(keys_and_values_have_at_most_128_bytes),
        WITH_ARENA(without_memory_it_fails_as_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
