/* Finding work: lanes, the order in them, and that nothing is given out twice. */
#include "store/conformance.h"

static struct uuid submit_to(struct trial *t, const char *name, const char *queue, int64_t priority)
{
    struct spec spec = world_spec();
    spec.queue = str_from(queue);
    spec.priority = priority;
    return submit_spec(t, name, spec);
}

/* The number of the lane of a queue, among jobs of kind "mail". */
static uint32_t lane_of(struct trial *t, struct store_txn *txn, const char *queue)
{
    struct store_lane *lanes;
    uint32_t count;
    struct buf buf;
    buf_init(&buf, &t->w.arena, 64);
    buf_addf(&buf, "[\"job\",\"%s\",\"mail\"]", queue);
    struct str key = buf_str(&buf);
    ok(t, store_lanes(txn, 0, &t->w.arena, &lanes, &count, &t->w.err));
    for (uint32_t i = 0; i < count; i++)
        if (str_eq(lanes[i].key, key))
            return lanes[i].number;
    fail_msg("queue %s has no lane", queue);
    return 0;
}

static const char *found(struct trial *t, const struct store_search *search)
{
    struct buf buf;
    buf_init(&buf, &t->w.arena, 64);
    for (uint32_t i = 0; i < search->found_count; i++)
        buf_addf(&buf, "%s%s", i > 0 ? " " : "",
                 name_of(t, search->found[i].slice.job.id, search->found[i].step));
    buf_add_char(&buf, '\0');
    return buf.at;
}

static void lanes_are_numbered_from_one_as_they_are_first_used(void **state)
{
    struct trial *t = *state;
    struct store_lane *lanes;
    uint32_t count;
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_lanes(txn, 0, &t->w.arena, &lanes, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
    submit_to(t, "a", "q1", 0);
    submit_to(t, "b", "q2", 0);
    submit_to(t, "c", "q1", 9);
    struct spec spec = world_spec();
    spec.run_at = at(100);
    submit_spec(t, "d", spec);
    txn = begin_empty(t, NULL);
    ok(t, store_lanes(txn, 0, &t->w.arena, &lanes, &count, &t->w.err));
    assert_int_equal(count, 3);
    assert_int_equal(lanes[0].number, 1);
    assert_str(lanes[0].key, js(&t->w, "['job','q1','mail']"));
    assert_true(lanes[1].number > 1);
    assert_str(lanes[1].key, js(&t->w, "['job','q2','mail']"));
    assert_true(lanes[2].number > lanes[1].number);
    uint32_t after = lanes[1].number;
    uint32_t last = lanes[2].number;
    ok(t, store_lanes(txn, after, &t->w.arena, &lanes, &count, &t->w.err));
    assert_int_equal(count, 1);
    assert_int_equal(lanes[0].number, last);
    ok(t, store_lanes(txn, last, &t->w.arena, &lanes, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
}

static void work_comes_by_priority_then_time_then_submission(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.queue = STR("q");
    spec.run_at = at(8);
    submit_spec(t, "late", spec);
    spec.run_at = at(4);
    submit_spec(t, "early", spec);
    advance(t, 10);
    assert_int_equal(promote(t, 10), 2);
    submit_to(t, "latest", "q", 0);
    submit_to(t, "first", "q", 5);
    submit_to(t, "second", "q", 5);
    submit_to(t, "last", "q", -5);
    submit_to(t, "top", "q", 1000);
    assert_string_equal(ready(t), "top first second early late latest last");
}

static void lanes_of_one_group_are_merged(void **state)
{
    struct trial *t = *state;
    submit_to(t, "a", "q1", 0);
    submit_to(t, "b", "q2", 3);
    submit_to(t, "c", "q1", 2);
    submit_to(t, "d", "q3", 1);
    submit_to(t, "e", "q2", 0);
    assert_string_equal(ready(t), "b c d a e");
}

static void steps_come_by_ordinal_behind_their_job(void **state)
{
    struct trial *t = *state;
    submit_plan(t, "a", "[{'id':'z'},{'id':'y'},{'id':'x'}]");
    submit_plan(t, "b", "[{'id':'z'}]");
    assert_string_equal(ready(t), "a.0 a.1 a.2 b.0");
}

static void groups_take_turns_the_first_group_first(void **state)
{
    struct trial *t = *state;
    submit_to(t, "a1", "a", 9);
    submit_to(t, "a2", "a", 8);
    submit_to(t, "a3", "a", 7);
    submit_to(t, "b1", "b", 0);
    submit_to(t, "c1", "c", 0);
    submit_to(t, "c2", "c", 5);
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t lanes[] = {lane_of(t, txn, "b"), lane_of(t, txn, "a"), lane_of(t, txn, "c")};
    uint32_t ends[] = {1, 2, 3};
    struct store_search search = {lanes, ends, 3, 5, NULL, 0, false, 0};
    ok(t, store_candidates(txn, &search, 1, &t->w.arena, &t->w.err));
    assert_string_equal(found(t, &search), "b1 a1 c2 a2 c1");
    rollback(t, txn);
    /* Two lanes in one group count as one. */
    txn = begin_empty(t, NULL);
    uint32_t two[] = {2, 3};
    search = (struct store_search){lanes, two, 2, 10, NULL, 0, false, 0};
    ok(t, store_candidates(txn, &search, 1, &t->w.arena, &t->w.err));
    assert_string_equal(found(t, &search), "a1 c2 a2 c1 a3 b1");
    rollback(t, txn);
}

static void a_search_takes_no_more_than_it_asks_for(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 10; i++)
        submit(t, numbered(&t->w, "j", i));
    for (uint32_t max = 0; max <= 12; max += 3) {
        struct store_txn *txn = begin_empty(t, NULL);
        struct store_search search = search_all(t, txn, max);
        assert_int_equal(search.found_count, max < 10 ? max : 10);
        rollback(t, txn);
    }
}

static void a_search_without_lanes_or_in_empty_lanes_finds_nothing(void **state)
{
    struct trial *t = *state;
    submit_to(t, "a", "q", 0);
    assert_string_equal(claim_next(t, NULL), "a");
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t lanes[] = {lane_of(t, txn, "q"), 99999};
    uint32_t ends[] = {2};
    struct store_search searches[] = {{NULL, NULL, 0, 10, NULL, 0, false, 0},
                                      {lanes, ends, 1, 10, NULL, 0, false, 0}};
    ok(t, store_candidates(txn, searches, 2, &t->w.arena, &t->w.err));
    assert_int_equal(searches[0].found_count, 0);
    assert_int_equal(searches[1].found_count, 0);
    rollback(t, txn);
}

static void a_search_sees_only_the_lanes_that_it_names(void **state)
{
    struct trial *t = *state;
    submit_to(t, "a", "q1", 9);
    submit_to(t, "b", "q2", 0);
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t lanes[] = {lane_of(t, txn, "q2")};
    uint32_t ends[] = {1};
    struct store_search search = {lanes, ends, 1, 10, NULL, 0, false, 0};
    ok(t, store_candidates(txn, &search, 1, &t->w.arena, &t->w.err));
    assert_string_equal(found(t, &search), "b");
    rollback(t, txn);
}

static void nothing_is_found_twice_in_a_transaction(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 5; i++)
        submit_to(t, numbered(&t->w, "j", i), "q", 0);
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t lanes[] = {lane_of(t, txn, "q")};
    uint32_t ends[] = {1};
    struct store_search searches[] = {
        {.lanes = lanes, .group_ends = ends, .group_count = 1, .max = 2},
        {.lanes = lanes, .group_ends = ends, .group_count = 1, .max = 1}};
    ok(t, store_candidates(txn, searches, 2, &t->w.arena, &t->w.err));
    assert_string_equal(found(t, &searches[0]), "j0 j1");
    assert_string_equal(found(t, &searches[1]), "j2");
    struct store_search again = {.lanes = lanes, .group_ends = ends, .group_count = 1, .max = 10};
    ok(t, store_candidates(txn, &again, 1, &t->w.arena, &t->w.err));
    assert_string_equal(found(t, &again), "j3 j4");
    rollback(t, txn);
    assert_string_equal(ready(t), "j0 j1 j2 j3 j4");
}

static void what_was_claimed_is_not_there_for_the_next(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    submit(t, "b");
    assert_string_equal(claim_next(t, NULL), "a");
    assert_string_equal(ready(t), "b");
    assert_string_equal(claim_next(t, NULL), "b");
    assert_string_equal(claim_next(t, NULL), "");
}

static void what_was_taken_and_rolled_back_is_there_again(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    struct store_txn *txn = begin_empty(t, NULL);
    assert_int_equal(search_all(t, txn, 1).found_count, 1);
    rollback(t, txn);
    assert_string_equal(claim_next(t, NULL), "a");
}

static void what_was_taken_and_is_not_wanted_is_put_back(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    submit(t, "b");
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_search search = search_all(t, txn, 1);
    struct store_job_write put_back = {.after = &search.found[0].slice};
    ok(t, schedule_entry_of_job(&search.found[0].slice.job, &t->w.arena, &put_back.now, &t->w.err));
    put_back.was = put_back.now;
    put_back.was.lane = absent;
    search.found[0].slice.job.failures = 9; /* the header is not written */
    ok(t, write_job(t, txn, &put_back));
    commit(t, txn);
    assert_string_equal(ready(t), "a b");
    assert_int_equal(whole(t, a).job.version, 1);
    assert_int_equal(whole(t, a).job.failures, 0);
    assert_string_equal(claim_next(t, NULL), "a");
}

static void a_step_that_is_not_wanted_is_put_back(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_search search = search_all(t, txn, 1);
    struct job_slice slice = load_rest(t, txn, &search.found[0].slice);
    struct change change = {.before = slice, .after = slice, .taken_step = search.found[0].step};
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
    assert_string_equal(ready(t), "a.0 a.1");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    assert_true(whole(t, id).steps[0].lease.live);
}

static void a_candidate_is_the_job_as_load_would_give_it(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.payload = js(&t->w, "{'a':1}");
    struct uuid id = submit_spec(t, "a", spec);
    act(t, id, claim_by("w1", true));
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("c");
    act(t, id, beat);
    act(t, id, by_worker(&t->w, COMMAND_RELEASE));
    struct job_slice loaded = whole(t, id);
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_search search = search_all(t, txn, 1);
    assert_int_equal(search.found_count, 1);
    assert_int_equal(search.found[0].step, STEP_NONE);
    assert_same_row(t, &search.found[0].slice, &loaded);
    rollback(t, txn);
}

static void a_claim_by_id_takes_the_job_out_of_its_lane(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    struct uuid b = submit(t, "b");
    act(t, b, claim_by("w1", true));
    assert_string_equal(ready(t), "a");
    act(t, b, by_worker(&t->w, COMMAND_RELEASE));
    assert_string_equal(ready(t), "a b");
}

static void ended_and_waiting_jobs_stand_in_no_lane(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct uuid b = submit(t, "b");
    struct uuid c = submit(t, "c");
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    act(t, b, claim_by("w1", true));
    act(t, b, wait_for(&t->w, "k", 0));
    act(t, c, claim_by("w1", true));
    act(t, c, complete_with(&t->w, NULL));
    assert_string_equal(ready(t), "");
    act(t, b, signal_of(&t->w, "k", NULL));
    assert_string_equal(ready(t), "b");
}

/* One search may take a job that load has locked, another a second piece of the same plan. */
static void several_steps_of_one_job_are_claimed_in_one_transaction(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_search search = search_all(t, txn, 2);
    assert_string_equal(found(t, &search), "a.0 a.1");
    struct job_slice slice = load_rest(t, txn, &search.found[0].slice);
    struct change first;
    struct change second;
    struct command claim = step_claim_of(&t->w, "x", "r1", true);
    ok(t, decide(t, &slice, &claim, &first));
    claim.step = STR("y");
    ok(t, decide(t, &first.after, &claim, &second));
    struct event events[16];
    uint32_t count = 0;
    for (uint32_t i = 0; i < first.event_count; i++)
        events[count++] = first.events[i];
    for (uint32_t i = 0; i < second.event_count; i++)
        events[count++] = second.events[i];
    struct change both = {.before = slice,
                          .after = second.after,
                          .events = events,
                          .event_count = count,
                          .taken_step = 0};
    struct store_job_write write = write_of(t, &both);
    assert_int_equal(write.step_count, 2);
    ((struct store_step_write *)(uintptr_t)write.steps)[1].was.lane = absent;
    ok(t, write_job(t, txn, &write));
    commit(t, txn);
    struct job_slice read = whole(t, id);
    assert_same_row(t, &read, &second.after);
    assert_string_equal(ready(t), "a.2");
}

static void a_store_of_its_own_admits_nothing(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    struct store_submission *list;
    uint32_t count = 99;
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_outbox_drain(txn, &(struct store_outbox_request){.limit = 10}, &t->w.arena, &list,
                             &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
}

struct conformance_tests conformance_claims(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(lanes_are_numbered_from_one_as_they_are_first_used),
        TRIAL(work_comes_by_priority_then_time_then_submission),
        TRIAL(lanes_of_one_group_are_merged),
        TRIAL(steps_come_by_ordinal_behind_their_job),
        TRIAL(groups_take_turns_the_first_group_first),
        TRIAL(a_search_takes_no_more_than_it_asks_for),
        TRIAL(a_search_without_lanes_or_in_empty_lanes_finds_nothing),
        TRIAL(a_search_sees_only_the_lanes_that_it_names),
        TRIAL(nothing_is_found_twice_in_a_transaction),
        TRIAL(what_was_claimed_is_not_there_for_the_next),
        TRIAL(what_was_taken_and_rolled_back_is_there_again),
        TRIAL(what_was_taken_and_is_not_wanted_is_put_back),
        TRIAL(a_step_that_is_not_wanted_is_put_back),
        TRIAL(a_candidate_is_the_job_as_load_would_give_it),
        TRIAL(a_claim_by_id_takes_the_job_out_of_its_lane),
        TRIAL(ended_and_waiting_jobs_stand_in_no_lane),
        TRIAL(several_steps_of_one_job_are_claimed_in_one_transaction),
        TRIAL(a_store_of_its_own_admits_nothing),
    };
    return TRIALS(tests);
}
