#include "base/error.h"

#include "base/utf8.h"
#include "fixture.h"

static void every_code_has_an_entry_of_its_own(void **state)
{
    (void)state;
    static const enum error_code codes[] = {
#define ERROR(symbol, number, name, http, exit, title) ERR_##symbol,
#include "base/error.def"
#undef ERROR
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        const struct error_info *info = error_info(codes[i]);
        assert_non_null(info);
        assert_int_equal(info->code, codes[i]);
        assert_true(strlen(info->name) > 0);
        assert_true(strlen(info->title) > 0);
        assert_true(info->http_status >= 200 && info->http_status < 600);
        assert_true(info->exit_code >= 0 && info->exit_code <= 5);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(error_info(codes[k])->name, info->name);
    }
}

static void known_codes_keep_their_numbers(void **state)
{
    (void)state;
    assert_int_equal(ERR_OK, 0);
    assert_int_equal(ERR_STALE_LEASE, 6);
    assert_int_equal(ERR_CORRUPT, 18);
    assert_string_equal(error_info(ERR_STALE_LEASE)->name, "stale_lease");
    assert_int_equal(error_info(ERR_STALE_LEASE)->http_status, 409);
    assert_int_equal(error_info(ERR_STALE_LEASE)->exit_code, 4);
}

static void setting_returns_the_code_and_keeps_the_detail(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(err_set(&err, ERR_NOT_FOUND, "no job %d in %s", 7, "mail"), ERR_NOT_FOUND);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.detail, "no job 7 in mail");
}

static void a_caller_that_wants_no_detail_gets_the_code(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_CORRUPT, "%s", "nobody reads this"), ERR_CORRUPT);
}

static void words_may_be_put_before_the_old_detail(void **state)
{
    (void)state;
    struct err err;
    (void)err_set(&err, ERR_BAD_REQUEST, "too deep");
    (void)err_set(&err, ERR_UNPROCESSABLE_PLAN, "step 3: %s", err.detail);
    assert_string_equal(err.detail, "step 3: too deep");
}

static void bytes_that_do_not_print_come_out_as_question_marks(void **state)
{
    (void)state;
    static const struct {
        const char *raw;
        const char *shown;
    } cases[] = {
        {"plain", "plain"},
        {"tab\tline\nend", "tab?line?end"},
        {"\x01\x1f\x7f", "???"},
        {"\x1b[31mred", "?[31mred"},
        {"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xff\xfe", "??"},
        {"\xc3", "?"},
        {"\xc0\xaf", "??"},
        {"\xed\xa0\x80", "???"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0"},
    };
    struct err err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)err_set(&err, ERR_BAD_REQUEST, "%s", cases[i].raw);
        assert_string_equal(err.detail, cases[i].shown);
    }
}

static void long_details_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t c = 0; c < 4; c++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char text[4 * 600 + 8] = {0};
            memset(text, 'x', shift);
            for (size_t i = 0; i < 600; i++) {
                size_t len = strlen(characters[c]);
                memcpy(text + shift + i * len, characters[c], len);
            }
            struct err err;
            (void)err_set(&err, ERR_BAD_REQUEST, "%s", text);
            size_t len = strlen(err.detail);
            assert_true(len <= sizeof err.detail - 1);
            assert_true(len >= sizeof err.detail - 4);
            assert_true(utf8_valid((struct str){err.detail, len}));
            assert_null(strchr(err.detail, '?'));
            assert_memory_equal(err.detail, text, len);
        }
    }
}

static void a_full_detail_of_damaged_bytes_stays_inside(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 0xf0, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct err err;
    (void)err_set(&err, ERR_BAD_REQUEST, "%s", text);
    assert_true(strlen(err.detail) >= sizeof err.detail - 4);
    assert_int_equal(strspn(err.detail, "?"), strlen(err.detail));
}

static void a_view_in_a_message_is_cut_at_200_bytes(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'y', sizeof text);
    struct err err;
    (void)err_set(&err, ERR_BAD_REQUEST, "<%.*s>", STR_ARG(((struct str){text, sizeof text})));
    assert_int_equal(strlen(err.detail), 202);
    (void)err_set(&err, ERR_BAD_REQUEST, "<%.*s>", STR_ARG(((struct str){NULL, 0})));
    assert_string_equal(err.detail, "<>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_an_entry_of_its_own),
        cmocka_unit_test(known_codes_keep_their_numbers),
        cmocka_unit_test(setting_returns_the_code_and_keeps_the_detail),
        cmocka_unit_test(a_caller_that_wants_no_detail_gets_the_code),
        cmocka_unit_test(words_may_be_put_before_the_old_detail),
        cmocka_unit_test(bytes_that_do_not_print_come_out_as_question_marks),
        cmocka_unit_test(long_details_are_cut_between_characters),
        cmocka_unit_test(a_full_detail_of_damaged_bytes_stays_inside),
        cmocka_unit_test(a_view_in_a_message_is_cut_at_200_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
