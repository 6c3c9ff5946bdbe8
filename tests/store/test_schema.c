/* Which binaries may use which schema. */
#include "store/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct migration three[] = {
    {1, 1, "0001_initial.sql", STR_INIT("")},
    {2, 1, "0002_more.sql", STR_INIT("")},
    {3, 2, "0003_other.sql", STR_INIT("")},
};
static const struct migrations known = {three, 3};

static void stands(int64_t version, int64_t usable_from, enum schema_standing expected)
{
    enum schema_standing standing = (enum schema_standing)77;
    struct err err = {0};
    assert_int_equal(schema_standing(&known, version, usable_from, &standing, &err), ERR_OK);
    assert_int_equal(standing, expected);
}

static void refused(int64_t version, int64_t usable_from, const char *detail)
{
    enum schema_standing standing = (enum schema_standing)77;
    struct err err = {0};
    assert_int_equal(schema_standing(&known, version, usable_from, &standing, &err),
                     ERR_UNAVAILABLE);
    assert_int_equal((int)standing, 77);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_string_equal(err.detail, detail);
    assert_int_equal(schema_standing(&known, version, usable_from, &standing, NULL),
                     ERR_UNAVAILABLE);
}

static void an_empty_database_has_version_0(void **state)
{
    (void)state;
    stands(0, 0, SCHEMA_EMPTY);
}

static void an_older_schema_is_to_be_migrated(void **state)
{
    (void)state;
    stands(1, 1, SCHEMA_OLDER);
    stands(2, 1, SCHEMA_OLDER);
    stands(2, 0, SCHEMA_OLDER);
}

static void a_schema_of_this_version_is_current(void **state)
{
    (void)state;
    stands(3, 2, SCHEMA_CURRENT);
    stands(3, 3, SCHEMA_CURRENT);
}

static void a_newer_schema_is_usable_while_it_says_so(void **state)
{
    (void)state;
    stands(4, 3, SCHEMA_CURRENT);
    stands(INT64_MAX, 1, SCHEMA_CURRENT);
    refused(4, 4,
            "the schema has version 4 and needs a Pawl that knows version 4; this one knows 3: use "
            "a newer pawl");
    refused(9, 5,
            "the schema has version 9 and needs a Pawl that knows version 5; this one knows 3: use "
            "a newer pawl");
}

static void a_schema_of_impossible_versions_is_damaged(void **state)
{
    (void)state;
    refused(-1, 0, "the schema says version -1, usable from 0: it is damaged");
    refused(1, -1, "the schema says version 1, usable from -1: it is damaged");
    refused(2, 3, "the schema says version 2, usable from 3: it is damaged");
    refused(0, 1, "the schema says version 0, usable from 1: it is damaged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_database_has_version_0),
        cmocka_unit_test(an_older_schema_is_to_be_migrated),
        cmocka_unit_test(a_schema_of_this_version_is_current),
        cmocka_unit_test(a_newer_schema_is_usable_while_it_says_so),
        cmocka_unit_test(a_schema_of_impossible_versions_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
