/* What an event changes is noted, so that a store writes that and compares nothing. The random
 * lives hold every note against a comparison of all members (random_changes.h). */
#include "random_changes.h"
#include "scenario.h"

/* Carries a command out on the job as a store would load it: what is noted is the command's. */
static uint8_t noted(struct world *w, struct command command)
{
    changes_forget(&w->slice);
    struct job_slice given = w->slice;
    do_ok(w, command);
    assert_string_equal("", changes_are_noted(&given, &w->slice) == NULL
                                ? ""
                                : changes_are_noted(&given, &w->slice));
    return w->slice.job.changed;
}

static void a_claim_and_a_start_change_the_lease_and_nothing_else_of_a_job(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    assert_int_equal(world_submit(w, &spec), ERR_OK);
    assert_int_equal(noted(w, claim_by("w1", false)), CHANGED_STREAM | CHANGED_LEASE);
    assert_int_equal(noted(w, by_worker(w, COMMAND_START)), CHANGED_STREAM | CHANGED_LEASE);
}

static void
a_heartbeat_changes_the_lease_s_end_and_the_progress_only_when_it_brings_some(void **state)
{
    struct world *w = *state;
    running(w);
    w->now += 10;
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    assert_int_equal(noted(w, beat), CHANGED_BEAT);
    beat.heartbeat.cursor = STR("page 2");
    assert_int_equal(noted(w, beat), CHANGED_BEAT | CHANGED_PROGRESS);
}

static void a_signal_that_is_stored_and_one_that_is_taken_are_each_noted(void **state)
{
    struct world *w = *state;
    running(w);
    assert_int_equal(noted(w, signal_of(w, "k", "1")), CHANGED_STREAM | CHANGED_COUNTS);
    assert_int_equal(noted(w, signal_of(w, "other", "2")), CHANGED_STREAM | CHANGED_COUNTS);
    assert_false(w->slice.signals[0].changed);
    assert_true(w->slice.signals[1].changed);
    noted(w, wait_for(w, "k", 0));
    assert_true(w->slice.signals[0].changed);
    assert_false(w->slice.signals[1].changed);
}

static void an_effect_that_begins_changes_itself_and_how_many_are_open(void **state)
{
    struct world *w = *state;
    running(w);
    struct command begin = by_worker(w, COMMAND_EFFECT_BEGIN);
    begin.effect_begin.key = STR("a");
    assert_int_equal(noted(w, begin), CHANGED_STREAM | CHANGED_COUNTS);
    begin.effect_begin.key = STR("b");
    assert_int_equal(noted(w, begin), CHANGED_STREAM | CHANGED_COUNTS);
    assert_false(w->slice.effects[0].changed);
    assert_true(w->slice.effects[1].changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_claim_and_a_start_change_the_lease_and_nothing_else_of_a_job),
        SCENARIO(a_heartbeat_changes_the_lease_s_end_and_the_progress_only_when_it_brings_some),
        SCENARIO(a_signal_that_is_stored_and_one_that_is_taken_are_each_noted),
        SCENARIO(an_effect_that_begins_changes_itself_and_how_many_are_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
