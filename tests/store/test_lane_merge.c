/* The order in which a search finds work. */
#include "store/lane_merge.h"

#include "../base/starve.h"

enum { LANES_MAX = 12, PLACES_MAX = 8, GROUPS_MAX = 6 };

/* Lanes as a store would have them: places in order. */
struct lanes {
    struct lane_place places[LANES_MAX][PLACES_MAX];
    uint32_t counts[LANES_MAX];
    uint32_t given[LANES_MAX];
    uint32_t asked[LANES_MAX];
    uint32_t fails_at; /* this lane is out of reach; LANES_MAX: none is */
};

static enum error_code next_place(void *arg, uint32_t index, struct lane_place *ret,
                                  bool *ret_found, struct err *err)
{
    struct lanes *lanes = arg;
    if (index == lanes->fails_at)
        return err_set(err, ERR_UNAVAILABLE, "the store is gone");
    lanes->asked[index]++;
    *ret_found = lanes->given[index] < lanes->counts[index];
    if (*ret_found)
        *ret = lanes->places[index][lanes->given[index]++];
    return ERR_OK;
}

static struct lane_place place_of(int64_t priority, int64_t run_at, uint8_t job, uint32_t step)
{
    struct lane_place place = {.rank = -priority, .run_at = run_at, .step = step};
    place.job.bytes[15] = job;
    return place;
}

static void put(struct lanes *lanes, uint32_t lane, struct lane_place place)
{
    uint32_t at = lanes->counts[lane]++;
    for (; at > 0 && lane_place_cmp(&lanes->places[lane][at - 1], &place) > 0; at--)
        lanes->places[lane][at] = lanes->places[lane][at - 1];
    lanes->places[lane][at] = place;
}

static uint32_t merge_ok(struct arena *arena, struct lanes *lanes, const uint32_t *ends,
                         uint32_t groups, uint32_t max, struct lane_pick *picks)
{
    struct store_search search = {.group_ends = ends, .group_count = groups, .max = max};
    struct err err = {0};
    uint32_t count = UINT32_MAX;
    assert_int_equal(lane_merge(&search, next_place, lanes, arena, picks, &count, &err), ERR_OK);
    for (uint32_t i = 0; i < LANES_MAX; i++) {
        uint32_t picked = 0;
        for (uint32_t k = 0; k < count; k++)
            picked += picks[k].index == i;
        assert_true(lanes->asked[i] <= picked + 1);
    }
    return count;
}

/* The jobs that were picked, as digits. */
static void assert_jobs(const struct lane_pick *picks, uint32_t count, const char *jobs)
{
    char found[LANES_MAX * PLACES_MAX + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        found[i] = (char)('0' + picks[i].place.job.bytes[15]);
    assert_string_equal(found, jobs);
}

static void places_are_ordered_by_priority_then_time_then_job_then_step(void **state)
{
    (void)state;
    const struct lane_place order[] = {
        place_of(INT32_MAX, 9, 9, 9), place_of(1, 9, 9, 9),         place_of(0, -1, 9, 9),
        place_of(0, 0, 0, STEP_NONE), place_of(0, 0, 0, 0),         place_of(0, 0, 0, 1),
        place_of(0, 0, 0, 9999),      place_of(0, 0, 1, STEP_NONE), place_of(0, 0, 0x80, 0),
        place_of(0, 0, 0xff, 0),      place_of(0, INT64_MAX, 0, 0), place_of(-1, 0, 0, 0),
    };
    size_t count = sizeof order / sizeof order[0];
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            int order_of = lane_place_cmp(&order[i], &order[k]);
            assert_int_equal((order_of > 0) - (order_of < 0), (i > k) - (i < k));
        }
}

static void jobs_are_ordered_by_their_whole_id(void **state)
{
    (void)state;
    struct lane_place a = place_of(0, 0, 1, 0);
    struct lane_place b = place_of(0, 0, 2, 0);
    a.job.bytes[0] = 1;
    assert_true(lane_place_cmp(&a, &b) > 0);
}

static void the_best_of_all_lanes_of_a_group_comes_first(void **state)
{
    struct lanes lanes = {.fails_at = LANES_MAX};
    struct lane_pick picks[8];
    static const uint32_t ends[] = {3};
    put(&lanes, 0, place_of(0, 10, 1, STEP_NONE));
    put(&lanes, 0, place_of(0, 30, 2, STEP_NONE));
    put(&lanes, 1, place_of(5, 99, 3, STEP_NONE));
    put(&lanes, 2, place_of(0, 20, 4, STEP_NONE));
    put(&lanes, 2, place_of(0, 20, 5, STEP_NONE));
    uint32_t count = merge_ok(*state, &lanes, ends, 1, 8, picks);
    assert_jobs(picks, count, "31452");
    assert_int_equal(picks[0].index, 1);
    assert_int_equal(picks[4].index, 0);
}

static void groups_take_turns(void **state)
{
    struct lanes lanes = {.fails_at = LANES_MAX};
    struct lane_pick picks[8];
    static const uint32_t ends[] = {1, 1, 2, 3};
    put(&lanes, 0, place_of(9, 0, 1, STEP_NONE));
    put(&lanes, 0, place_of(9, 0, 2, STEP_NONE));
    put(&lanes, 0, place_of(9, 0, 3, STEP_NONE));
    put(&lanes, 1, place_of(0, 0, 4, STEP_NONE));
    put(&lanes, 2, place_of(5, 0, 5, STEP_NONE));
    put(&lanes, 2, place_of(5, 0, 6, STEP_NONE));
    uint32_t count = merge_ok(*state, &lanes, ends, 4, 8, picks);
    assert_jobs(picks, count, "145263");
}

static void no_more_is_picked_than_was_asked_for(void **state)
{
    struct lane_pick picks[4];
    static const uint32_t ends[] = {1, 2};
    for (uint32_t max = 0; max <= 4; max++) {
        struct lanes lanes = {.fails_at = LANES_MAX};
        for (uint8_t i = 0; i < 4; i++) {
            put(&lanes, 0, place_of(0, 0, (uint8_t)(2 * i), STEP_NONE));
            put(&lanes, 1, place_of(0, 0, (uint8_t)(2 * i + 1), STEP_NONE));
        }
        uint32_t count = merge_ok(*state, &lanes, ends, 2, max, picks);
        assert_int_equal(count, max);
        assert_int_equal(lanes.given[0] + lanes.given[1], max);
    }
}

static void a_search_without_lanes_or_work_finds_nothing(void **state)
{
    struct lanes lanes = {.fails_at = LANES_MAX};
    struct lane_pick picks[4];
    static const uint32_t ends[] = {0, 0, 3};
    assert_int_equal(merge_ok(*state, &lanes, NULL, 0, 4, picks), 0);
    assert_int_equal(merge_ok(*state, &lanes, ends, 2, 4, picks), 0);
    assert_int_equal(merge_ok(*state, &lanes, ends, 3, 4, picks), 0);
    /* What is dry is not asked again. */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(lanes.asked[i], 1);
}

static void a_store_that_fails_ends_the_search(void **state)
{
    struct lanes lanes = {.fails_at = 1};
    struct lane_pick picks[4];
    static const uint32_t ends[] = {1, 2};
    struct store_search search = {.group_ends = ends, .group_count = 2, .max = 4};
    struct err err = {0};
    uint32_t count = 77;
    put(&lanes, 0, place_of(0, 0, 1, STEP_NONE));
    assert_int_equal(lane_merge(&search, next_place, &lanes, *state, picks, &count, &err),
                     ERR_UNAVAILABLE);
    assert_string_equal(err.detail, "the store is gone");
    assert_int_equal(count, 77);
}

/* ---- against a slow one ---- */

static uint64_t random_from(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* Picks by looking at everything each time. */
static uint32_t merge_slowly(const struct lanes *lanes, const uint32_t *ends, uint32_t groups,
                             uint32_t max, struct lane_pick *ret)
{
    uint32_t taken[LANES_MAX] = {0};
    uint32_t count = 0;
    bool found = true;
    while (found && count < max) {
        found = false;
        for (uint32_t group = 0; group < groups && count < max; group++) {
            uint32_t best = LANES_MAX;
            for (uint32_t i = group == 0 ? 0 : ends[group - 1]; i < ends[group]; i++)
                if (taken[i] < lanes->counts[i] &&
                    (best == LANES_MAX || lane_place_cmp(&lanes->places[i][taken[i]],
                                                         &lanes->places[best][taken[best]]) < 0))
                    best = i;
            if (best == LANES_MAX)
                continue;
            ret[count++] = (struct lane_pick){lanes->places[best][taken[best]++], best};
            found = true;
        }
    }
    return count;
}

static void random_searches_find_what_a_slow_search_finds(void **state)
{
    uint64_t seed = 1;
    for (int run = 0; run < 2000; run++) {
        struct lanes lanes = {.fails_at = LANES_MAX};
        struct lane_pick picks[LANES_MAX * PLACES_MAX] = {0};
        struct lane_pick slow[LANES_MAX * PLACES_MAX] = {0};
        uint32_t ends[GROUPS_MAX];
        uint32_t groups = (uint32_t)(random_from(&seed) % GROUPS_MAX) + 1;
        uint32_t max = (uint32_t)(random_from(&seed) % (LANES_MAX * PLACES_MAX));
        uint32_t end = 0;
        for (uint32_t i = 0; i < groups; i++)
            ends[i] = end += (uint32_t)(random_from(&seed) % (LANES_MAX / GROUPS_MAX + 1));
        for (uint32_t i = 0; i < end; i++)
            for (uint32_t k = (uint32_t)(random_from(&seed) % (PLACES_MAX + 1)); k > 0; k--)
                put(&lanes, i,
                    place_of((int64_t)(random_from(&seed) % 3), (int64_t)(random_from(&seed) % 4),
                             (uint8_t)random_from(&seed), (uint32_t)(i * PLACES_MAX + k)));
        uint32_t expected = merge_slowly(&lanes, ends, groups, max, slow);
        uint32_t count = merge_ok(*state, &lanes, ends, groups, max, picks);
        assert_int_equal(count, expected);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(picks[i].index, slow[i].index);
            assert_int_equal(lane_place_cmp(&picks[i].place, &slow[i].place), 0);
        }
    }
}

/* ---- memory ---- */

static bool try_to_merge(struct arena *arena, void *data)
{
    enum error_code *code = data;
    struct lanes lanes = {.fails_at = LANES_MAX};
    struct lane_pick picks[2];
    static const uint32_t ends[] = {LANES_MAX};
    struct store_search search = {.group_ends = ends, .group_count = 1, .max = 2};
    struct err err = {0};
    uint32_t count;
    *code = lane_merge(&search, next_place, &lanes, arena, picks, &count, &err);
    return *code != ERR_NO_MEMORY;
}

static void a_search_survives_without_memory(void **state)
{
    (void)state;
    enum error_code code = ERR_CORRUPT;
    if (!STARVING)
        skip();
    assert_true(starve(try_to_merge, &code) >= 3);
    assert_int_equal(code, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(places_are_ordered_by_priority_then_time_then_job_then_step),
        WITH_ARENA(jobs_are_ordered_by_their_whole_id),
        WITH_ARENA(the_best_of_all_lanes_of_a_group_comes_first),
        WITH_ARENA(groups_take_turns),
        WITH_ARENA(no_more_is_picked_than_was_asked_for),
        WITH_ARENA(a_search_without_lanes_or_work_finds_nothing),
        WITH_ARENA(a_store_that_fails_ends_the_search),
        WITH_ARENA(random_searches_find_what_a_slow_search_finds),
        WITH_ARENA(a_search_survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
