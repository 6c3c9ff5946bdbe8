/* Opening by URL, as far as it is the same for all stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store/store.h"

static const char *refused(struct str url)
{
    static struct err err;
    struct store_options options = {.create = true, .seed = 1};
    struct store *store = NULL;
    err = (struct err){0};
    assert_int_equal(store_open(url, &options, &store, &err), ERR_BAD_REQUEST);
    assert_null(store);
    return err.detail;
}

static void assert_begins(const char *text, const char *beginning)
{
    if (strncmp(text, beginning, strlen(beginning)) != 0)
        fail_msg("%s: does not begin with %s", text, beginning);
}

static void what_is_no_url_of_a_store_is_refused_and_repeated(void **state)
{
    (void)state;
    assert_begins(refused(STR("")), "\"\" is not the URL of a store");
    assert_begins(refused(STR("jobs.db")), "\"jobs.db\" is not the URL of a store");
    assert_begins(refused(STR("memory:x")), "\"memory:x\" is not");
    assert_begins(refused(STR("sqlite:")), "\"sqlite:\" is not");
    assert_begins(refused(STR("mysql://h:3306/x")), "\"mysql://h:3306/x\" is not");
    assert_begins(refused(STR("postgres:/u@h:5432/x")), "\"postgres:/u@h:5432/x\" is not");
    assert_non_null(strstr(refused(STR("me\0mory:")), "NUL"));
}

static void a_password_is_not_repeated(void **state)
{
    (void)state;
    static const struct {
        struct str url;
        const char *shown;
    } all[] = {
        {STR_INIT("postgres:/u:secret@h/x"), "\"postgres:/u:***@h/x\" is not"},
        {STR_INIT("postgres:u:secret@h/x"), "\"postgres:u:***@h/x\" is not"},
        {STR_INIT("Postgres://u:secret@h/x"), "\"Postgres://u:***@h/x\" is not"},
        {STR_INIT("mysql:///u:secret@h:3306/x"), "\"mysql:///u:***@h:3306/x\" is not"},
        {STR_INIT(" postgres://u:se@c:ret/secret@h/x"), "\" postgres://u:***@h/x\" is not"},
        {STR_INIT("//u:secret@h/x"), "\"//u:***@h/x\" is not"},
        {STR_INIT("u:secret@h"), "\"u:***@h\" is not"},
        {STR_INIT("pg://:secret@h"), "\"pg://:***@h\" is not"},
        {STR_INIT("host=h password=secret nonsense=x"), "malformed store URL"},
        {STR_INIT("pg://h/x?password=secret&a=b@c"), "\"pg://h/x?password=***\" is not"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_begins(refused(all[i].url), all[i].shown);
        assert_null(strstr(refused(all[i].url), "secret"));
    }
    /* A '/' that is not written as %2F would make it a port. */
    assert_null(strstr(refused(STR("postgres://u:secret/more@h/x")), "secret"));
    assert_null(strstr(refused(STR("postgresql://u:12/more@h:5432/x?a=b")), "12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_url_of_a_store_is_refused_and_repeated),
        cmocka_unit_test(a_password_is_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
