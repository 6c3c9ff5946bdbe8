/* Random lives of jobs without a plan. */
#include "random_main.h"

static void sixty_thousand_random_lives_are_clean_and_replay_to_the_same_row(void **state)
{
    (void)state;
    struct random_stats stats = random_lives(60000, false);
    if (stats.runs < 60000)
        return;
    for (int status = 0; status < JOB_STATUS_COUNT; status++)
        assert_true(stats.by_status[status] > 0);
    for (int command = COMMAND_SUBMIT; command <= COMMAND_REQUEUE; command++)
        assert_true(stats.by_command[command] > 0);
    assert_true(stats.by_command[COMMAND_EXPIRE] > 0);
    assert_true(stats.by_command[COMMAND_WAKE] > 0);
    assert_true(stats.by_command[COMMAND_CANCEL_DUE] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_thousand_random_lives_are_clean_and_replay_to_the_same_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
