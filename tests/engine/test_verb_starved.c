/* Answers for which there is no memory: they are not given in part, or as nothing. */
#include "../base/starve.h"
#include "engine/recall.h"

static const struct str kept = STR_INIT("200 {\"claims\":[],\"left\":0}");

struct given {
    enum error_code code;
    bool is_whole;
};

static bool repeat_it(struct arena *arena, void *data)
{
    struct given *given = data;
    struct verb_call call = {.arena = arena};
    struct buf answer;
    struct err err = {0};
    buf_init(&answer, arena, 0);
    given->code = recall(&call, kept, &err);
    verb_write(&call, &answer);
    given->is_whole = call.result.status == 200 && answer.len == kept.len - 4;
    return !answer.failed;
}

static void an_answer_that_was_kept_is_given_whole_or_not_at_all(void **state)
{
    (void)state;
    struct given given = {0};
    if (!STARVING)
        skip();
    assert_true(starve(repeat_it, &given) > 0);
    assert_int_equal(given.code, ERR_OK);
    assert_true(given.is_whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_was_kept_is_given_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
