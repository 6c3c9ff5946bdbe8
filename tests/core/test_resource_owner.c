/* Whose a resource is: who may use it, change it and take it over. */
#include "base/fixture.h"
#include "core/resource_owner.h"

static struct str one_name[] = {STR_INIT("q1")};
static struct str two_name[] = {STR_INIT("q2")};
static struct str both_names[] = {STR_INIT("q1"), STR_INIT("q2")};
static const struct names one = {one_name, 1};
static const struct names two = {two_name, 1};
static const struct names both = {both_names, 2};

static struct resource of(const struct names *queues)
{
    return (struct resource){
        .id = STR("r"), .queues = queues == NULL ? (struct names){0} : *queues, .owned = true};
}

static const struct resource shared = {.id = STR_INIT("r"), .shared = true, .owned = true};
static const struct resource unowned = {.id = STR_INIT("r")};

static void a_resource_is_used_by_tokens_of_all_its_queues(void **state)
{
    (void)state;
    struct resource resource = of(&both);
    assert_true(resource_may_use(&resource, &both));
    assert_true(resource_may_use(&resource, NULL));
    assert_false(resource_may_use(&resource, &one));
    resource = of(&one);
    assert_true(resource_may_use(&resource, &both));
    assert_false(resource_may_use(&resource, &two));
    assert_false(resource_may_change(&resource, &two));
    assert_true(resource_may_change(&resource, &one));
}

static void a_resource_of_all_queues_is_for_tokens_of_all_queues(void **state)
{
    (void)state;
    struct resource resource = of(NULL);
    assert_true(resource_may_use(&resource, NULL));
    assert_false(resource_may_use(&resource, &one));
    assert_false(resource_may_change(&resource, &one));
    assert_false(resource_may_adopt(&resource));
}

static void a_shared_resource_is_used_by_everybody_and_changed_by_tokens_of_all_queues(void **state)
{
    (void)state;
    struct err err = {0};
    assert_true(resource_may_use(&shared, &one));
    assert_false(resource_may_change(&shared, &one));
    assert_true(resource_may_change(&shared, NULL));
    assert_true(resource_serves(&shared, STR("q1")));
    assert_int_equal(resource_check_delete(&shared, &one, &err), ERR_FORBIDDEN);
    assert_int_equal(resource_check_delete(&shared, NULL, &err), ERR_OK);
}

static void a_resource_serves_its_own_queues_only(void **state)
{
    (void)state;
    struct resource resource = of(&one);
    assert_true(resource_serves(&resource, STR("q1")));
    assert_false(resource_serves(&resource, STR("q2")));
    resource = of(NULL);
    assert_true(resource_serves(&resource, STR("q2")));
}

static void a_foreign_resource_cannot_be_deleted_and_is_not_there(void **state)
{
    (void)state;
    struct resource resource = of(&one);
    struct err foreign = {0};
    struct err unknown = {0};
    assert_int_equal(resource_check_delete(&resource, &two, &foreign), ERR_NOT_FOUND);
    assert_int_equal(resource_unknown(STR("r"), &unknown), ERR_NOT_FOUND);
    assert_string_equal(foreign.detail, unknown.detail);
}

static enum error_code decide(const struct resource *known, struct resource_claimant claimant,
                              struct resource *ret, struct err *err)
{
    *ret = (struct resource){.id = STR("r")};
    *err = (struct err){0};
    return resource_decide_owner(known, &claimant, ret, err);
}

static void a_registered_resource_gets_the_queues_of_its_token(void **state)
{
    (void)state;
    struct resource got;
    struct err err;
    assert_int_equal(decide(NULL, (struct resource_claimant){.by = &both}, &got, &err), ERR_OK);
    assert_true(got.owned && !got.shared && got.queues.count == 2);
    assert_int_equal(decide(NULL, (struct resource_claimant){0}, &got, &err), ERR_OK);
    assert_true(got.owned && !got.shared && got.queues.count == 0);
    /* Tokens of more queues leave it with its owner unless they name queues. */
    struct resource known = of(&one);
    known.owned = true;
    assert_int_equal(decide(&known, (struct resource_claimant){.by = &both}, &got, &err), ERR_OK);
    assert_int_equal(got.queues.count, 1);
    assert_int_equal(decide(&known, (struct resource_claimant){0}, &got, &err), ERR_OK);
    assert_int_equal(got.queues.count, 1);
}

static void a_token_names_queues_of_its_own_only(void **state)
{
    (void)state;
    struct resource got;
    struct err err;
    struct resource_claimant claimant = {.by = &both, .names_queues = true, .queues = one};
    assert_int_equal(decide(NULL, claimant, &got, &err), ERR_OK);
    assert_int_equal(got.queues.count, 1);
    claimant.by = &two;
    assert_int_equal(decide(NULL, claimant, &got, &err), ERR_FORBIDDEN);
    assert_non_null(strstr(err.detail, "\"q1\""));
    claimant.queues = (struct names){0};
    assert_int_equal(decide(NULL, claimant, &got, &err), ERR_FORBIDDEN);
    claimant.by = NULL;
    struct resource known = of(&one);
    assert_int_equal(decide(&known, claimant, &got, &err), ERR_OK);
    assert_int_equal(got.queues.count, 0);
}

static void a_name_that_is_taken_is_refused_without_detail(void **state)
{
    (void)state;
    struct resource got;
    struct err err;
    struct resource known = of(&one);
    assert_int_equal(decide(&known, (struct resource_claimant){.by = &two}, &got, &err),
                     ERR_FORBIDDEN);
    assert_null(strstr(err.detail, "q1"));
    known = of(NULL);
    assert_int_equal(
        decide(&known, (struct resource_claimant){.by = &two, .admin = true}, &got, &err),
        ERR_FORBIDDEN);
    assert_int_equal(decide(&shared, (struct resource_claimant){.by = &two}, &got, &err),
                     ERR_FORBIDDEN);
}

static void sharing_takes_an_admin_of_all_queues(void **state)
{
    (void)state;
    static const struct resource_claimant others[] = {
        {.shared = SHARED_YES},
        {.shared = SHARED_YES, .by = &one},
        {.shared = SHARED_YES, .by = &one, .admin = true},
    };
    struct resource got;
    struct err err;
    struct resource known = of(&one);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(decide(&known, others[i], &got, &err), ERR_FORBIDDEN);
    struct resource_claimant admin = {.shared = SHARED_YES, .admin = true};
    assert_int_equal(decide(&known, admin, &got, &err), ERR_OK);
    assert_true(got.shared && got.queues.count == 0);
    admin.names_queues = true;
    admin.queues = one;
    assert_int_equal(decide(&known, admin, &got, &err), ERR_BAD_REQUEST);
    /* To renew it is not to share it. */
    assert_int_equal(decide(&shared, (struct resource_claimant){0}, &got, &err), ERR_OK);
    assert_true(got.shared);
    assert_int_equal(decide(&shared, (struct resource_claimant){.shared = SHARED_NO}, &got, &err),
                     ERR_FORBIDDEN);
    admin.shared = SHARED_NO;
    assert_int_equal(decide(&shared, admin, &got, &err), ERR_OK);
    assert_true(!got.shared && got.queues.count == 1);
}

static void an_unowned_resource_is_adopted_by_the_first_that_registers_it(void **state)
{
    (void)state;
    struct resource got;
    struct err err;
    assert_false(resource_may_use(&unowned, &one));
    assert_true(resource_may_use(&unowned, NULL));
    assert_int_equal(resource_check_delete(&unowned, &one, &err), ERR_NOT_FOUND);
    assert_int_equal(decide(&unowned, (struct resource_claimant){.by = &one}, &got, &err), ERR_OK);
    assert_true(got.owned && got.queues.count == 1);
    struct resource adopted = got;
    assert_int_equal(decide(&adopted, (struct resource_claimant){.by = &two}, &got, &err),
                     ERR_FORBIDDEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resource_is_used_by_tokens_of_all_its_queues),
        cmocka_unit_test(a_resource_of_all_queues_is_for_tokens_of_all_queues),
        cmocka_unit_test(
            a_shared_resource_is_used_by_everybody_and_changed_by_tokens_of_all_queues),
        cmocka_unit_test(a_resource_serves_its_own_queues_only),
        cmocka_unit_test(a_foreign_resource_cannot_be_deleted_and_is_not_there),
        cmocka_unit_test(a_registered_resource_gets_the_queues_of_its_token),
        cmocka_unit_test(a_token_names_queues_of_its_own_only),
        cmocka_unit_test(a_name_that_is_taken_is_refused_without_detail),
        cmocka_unit_test(sharing_takes_an_admin_of_all_queues),
        cmocka_unit_test(an_unowned_resource_is_adopted_by_the_first_that_registers_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
