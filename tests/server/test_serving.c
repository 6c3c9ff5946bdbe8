/* The state machine of a connection (server/serving.h): every pair of state and event, and what
 * must hold for all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/serving.h"

/* A letter for each state, in the order of the enum; I: idle, N: identifying, F: identified,
 * K: working, G: ending. */
static const char letters[] = "IHNFBKDSTLG";

/* What comes of each event, in their order; a dot where the two never meet. */
static const char *const expected[SERVING_STATE_COUNT] = {
    /*                       line, asks, admitted, started, finished, resumed, answered, streamed,
                             emptied, last, over */
    [SERVING_IDLE] = "H.........I",        [SERVING_HEAD] = ".NB...S...I",
    [SERVING_IDENTIFYING] = ".....F.....", [SERVING_IDENTIFIED] = "..B...S...I",
    [SERVING_BODY] = "...KD.S...I",        [SERVING_WORKING] = ".....D.....",
    [SERVING_DONE] = "......S...I",        [SERVING_SENDING] = ".......T..I",
    [SERVING_STREAMING] = "........L.I",   [SERVING_LOOKING] = ".....T...G.",
    [SERVING_ENDING] = "..........I",
};

static void each_event_means_in_each_state_what_the_diagram_says(void **state)
{
    (void)state;
    for (int from = 0; from < SERVING_STATE_COUNT; from++)
        for (int event = 0; event < SERVING_EVENT_COUNT; event++) {
            enum serving_state to =
                serving_move((enum serving_state)from, (enum serving_event)event);
            char got = to == SERVING_STATE_COUNT ? '.' : letters[to];
            if (got != expected[from][event])
                fail_msg("state %c, event %d: %c instead of %c", letters[from], event, got,
                         expected[from][event]);
        }
}

/* Only the thread that has a suspended connection moves it, and giving it back is all that can
 * happen to it. */
static void a_suspended_connection_is_only_ever_given_back(void **state)
{
    (void)state;
    for (int from = 0; from < SERVING_STATE_COUNT; from++)
        for (int event = 0; event < SERVING_EVENT_COUNT; event++) {
            enum serving_state to =
                serving_move((enum serving_state)from, (enum serving_event)event);
            bool gives_back = event == SERVING_RESUMED || event == SERVING_LAST;
            if (to == SERVING_STATE_COUNT)
                continue;
            assert_int_equal(serving_is_suspended((enum serving_state)from), gives_back);
            assert_false(gives_back && serving_is_suspended(to));
        }
}

static void every_state_leads_back_to_idle_and_lasts_for_a_limited_time(void **state)
{
    bool leads[SERVING_STATE_COUNT] = {[SERVING_IDLE] = true};
    (void)state;
    for (int round = 0; round < SERVING_STATE_COUNT; round++)
        for (int from = 0; from < SERVING_STATE_COUNT; from++)
            for (int event = 0; event < SERVING_EVENT_COUNT; event++) {
                enum serving_state to =
                    serving_move((enum serving_state)from, (enum serving_event)event);
                leads[from] = leads[from] || (to != SERVING_STATE_COUNT && leads[to]);
            }
    for (int from = 0; from < SERVING_STATE_COUNT; from++) {
        enum serving_state each = (enum serving_state)from;
        assert_true(leads[from]);
        assert_int_equal(serving_limit(each) == LIMIT_NONE, serving_is_suspended(each));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_means_in_each_state_what_the_diagram_says),
        cmocka_unit_test(a_suspended_connection_is_only_ever_given_back),
        cmocka_unit_test(every_state_leads_back_to_idle_and_lasts_for_a_limited_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
