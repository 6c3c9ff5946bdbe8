/* A new plan and the questions of the one before it: who may end them so, on every store. */
#include "engine/office.h"

enum { R = ACCESS_READ, S = ACCESS_SUBMIT, W = ACCESS_WORK, N = ACCESS_ANSWER };

static void plan_with_every_scope(struct office *office)
{
    static const uint32_t without[] = {S, W, S | W | R};
    well(office, VERB_submit,
         "{'kind':'k','plan':{'steps':[{'id':'ok','wait':{'type':'human'}},"
         "{'id':'pay','deps':['ok']}]}}");
    const char *id = said(office, "id");
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        limit(office, without[i], NULL);
        ask(office, VERB_plan, "{'id':'%s','steps':[{'id':'pay'}]}", id);
        assert_int_equal(office->code, ERR_FORBIDDEN);
        assert_non_null(strstr(office->err.detail, "scope answer"));
        assert_int_equal(strstr(office->err.detail, "\"ok\"") != NULL, (without[i] & R) != 0);
        well(office, VERB_batch, "{'ops':[{'op':'plan','id':'%s','steps':[{'id':'pay'}]}]}", id);
        assert_string_equal(said(office, "results.0.status"), "403");
    }
    limit(office, 0, NULL);
    well(office, VERB_inbox, "{}");
    assert_non_null(strstr(office->answer, id));
    limit(office, S | N, NULL);
    well(office, VERB_plan, "{'id':'%s','steps':[{'id':'pay'}]}", id);
}

static void a_question_to_a_person_cannot_be_planned_away(void **state)
{
    (void)state;
    at_every_office(plan_with_every_scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_to_a_person_cannot_be_planned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
