/* Random lives of jobs that carry a plan. */
#include "random_main.h"

static void forty_thousand_random_plans_are_clean_and_replay_to_the_same_row(void **state)
{
    (void)state;
    struct random_stats stats = random_lives(40000, true);
    if (stats.runs < 40000)
        return;
    for (int step_state = 0; step_state < STEP_STATE_COUNT; step_state++)
        assert_true(stats.by_step_state[step_state] > 0);
    assert_true(stats.by_command[COMMAND_STEP_CLAIM] > 0);
    assert_true(stats.by_command[COMMAND_VERDICT] > 0);
    assert_true(stats.by_command[COMMAND_ANSWER] > 0);
    assert_true(stats.by_command[COMMAND_PLAN] > 0);
    assert_true(stats.by_status[JOB_COMPLETED] > 0);
    assert_true(stats.by_status[JOB_FAILED] > 0);
    assert_true(stats.by_status[JOB_WAITING] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forty_thousand_random_plans_are_clean_and_replay_to_the_same_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
