/* Plans that are replaced, closed and ended: what becomes of steps that a write does not list. */
#include "store/conformance.h"

static void steps_whose_dependencies_are_open_stand_in_no_lane(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y','deps':['x']},{'id':'z'}]");
    assert_string_equal(ready(t), "a.0 a.2");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    assert_string_equal(ready(t), "a.2");
    act(t, id, complete_with(&t->w, NULL));
    assert_string_equal(ready(t), "a.1 a.2");
}

static void a_step_is_claimed_with_its_own_lease_and_fenced_by_it(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    struct job_slice slice = whole(t, id);
    assert_true(slice.steps[0].lease.live);
    assert_false(slice.job.lease.live);
    assert_text(slice.steps[0].lease.worker_id, "w1");
    assert_int_equal(slice.steps[0].attempt, 1);
}

/* The worker of the next step asks for another plan, and gets it. */
static void replan(struct trial *t, struct uuid id, const char *steps)
{
    assert_string_not_equal(claim_next(t, "r1"), "");
    struct command ask = with_token(verdict_on(NULL, VERDICT_REPLAN), t->w.token);
    ask.actor = STR("w1");
    act(t, id, ask);
    assert_string_equal(ready(t), "");
    act(t, id, plan_of(&t->w, steps));
}

static void a_new_plan_takes_the_steps_of_the_old_away(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    replan(t, id, "[{'id':'new','kind':'other'}]");
    struct job_slice slice = whole(t, id);
    assert_int_equal(slice.step_count, 1);
    assert_text(slice.steps[0].spec.id, "new");
    assert_string_equal(ready(t), "a.0");
    struct str old_ids[] = {STR("x"), STR("y"), STR("z")};
    struct store_parts parts = {.job = id, .step_ids = old_ids, .step_id_count = 3};
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_load_parts(txn, &parts, 1, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(parts.step_count, 0);
}

static void a_new_plan_keeps_what_is_finished(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    act(t, id, complete_with(&t->w, "{'done':1}"));
    replan(t, id, "[{'id':'z'},{'id':'x'},{'id':'w','deps':['x']},{'id':'v','deps':['z']}]");
    struct job_slice slice = whole(t, id);
    assert_int_equal(slice.step_count, 4);
    assert_text(slice.steps[1].spec.id, "x");
    assert_str(slice.steps[1].result, js(&t->w, "{'done':1}"));
    assert_string_equal(ready(t), "a.0 a.2");
}

/* Written by hand: no decision replaces a plan whose steps are still to be had. */
static void steps_that_a_new_plan_does_not_list_leave_lanes_leases_and_timers(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a",
                                 "[{'id':'x'},{'id':'y'},{'id':'z'},"
                                 "{'id':'g','wait':{'type':'timer','delay_ms':5000}}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct command signal = signal_of(&t->w, "k", NULL);
    struct change change;
    ok(t, decide(t, &slice, &signal, &change));
    struct store_job_write write = write_of(t, &change);
    struct store_step_write kept = {.step = &change.after.steps[2]};
    ok(t, schedule_entry_of_step(&slice.job, kept.step, &t->w.arena, &kept.was, &t->w.err));
    kept.now = kept.was;
    write.plan_replaced = true;
    write.steps = &kept;
    write.step_count = 1;
    ok(t, write_job(t, txn, &write));
    commit(t, txn);
    assert_string_equal(ready(t), "a.2");
    advance(t, 3600);
    assert_string_equal(due(t), "");
    slice = whole(t, id);
    assert_int_equal(slice.step_count, 1);
    assert_text(slice.steps[0].spec.id, "z");
}

/* A batch may ask for a new plan and bring it, all at once: its steps are new, wherever the old
 * ones of the same ordinals stood. */
static void a_step_of_a_new_plan_does_not_stand_where_the_old_one_did(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a",
                                 "[{'id':'x','kind':'old'},{'id':'y','kind':'old'},"
                                 "{'id':'g','wait':{'type':'timer','delay_ms':5000}}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct command ask = with_token(verdict_on(NULL, VERDICT_REPLAN), t->w.token);
    struct command plan = plan_of(&t->w, "[{'id':'new','kind':'other'},{'id':'y','kind':'other'},"
                                         "{'id':'z','deps':['y'],'kind':'other'}]");
    ask.actor = STR("w1");
    struct change first;
    struct change second;
    ok(t, decide(t, &slice, &ask, &first));
    ok(t, decide(t, &first.after, &plan, &second));
    struct event events[32];
    uint32_t count = 0;
    for (uint32_t i = 0; i < first.event_count; i++)
        events[count++] = first.events[i];
    for (uint32_t i = 0; i < second.event_count; i++)
        events[count++] = second.events[i];
    struct change both = {.before = slice,
                          .after = second.after,
                          .events = events,
                          .event_count = count,
                          .taken_step = STEP_NONE};
    ok(t, write_one(t, txn, &both));
    commit(t, txn);
    struct job_slice read = whole(t, id);
    assert_same_row(t, &read, &second.after);
    assert_string_equal(ready(t), "a.0 a.1");
    advance(t, 3600);
    assert_string_equal(due(t), "");
    assert_int_equal(promote(t, 10), 0);
    assert_string_equal(ready(t), "a.0 a.1");
}

static void a_job_that_takes_no_claims_closes_its_steps_and_leaves_leases_alone(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    assert_string_equal(ready(t), "a.1 a.2");
    act(t, id, cancel_by(CANCEL_SOFT, "stop"));
    assert_string_equal(ready(t), "");
    assert_true(whole(t, id).steps[0].lease.live);
    advance(t, 3600);
    /* The lease ends, and so does the patience of the cancel. */
    assert_string_equal(due(t), "a@30 a.0@30");
}

static void a_job_that_ends_ends_the_leases_and_timers_of_its_steps(void **state)
{
    struct trial *t = *state;
    put_resource(t, "r1", at(100000));
    struct uuid id = submit_plan(t, "a",
                                 "[{'id':'x'},{'id':'y'},{'id':'z'},"
                                 "{'id':'g','wait':{'type':'timer','delay_ms':5000}}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    assert_string_equal(claim_next(t, "r1"), "a.1");
    act(t, id, cancel_by(CANCEL_HARD, "now"));
    assert_string_equal(ready(t), "");
    advance(t, 3600);
    assert_string_equal(due(t), "");
    struct store_txn *txn = begin(t, STORE_READ);
    struct store_lease *leases;
    uint32_t count;
    ok(t, store_leases_on(txn, STR("r1"), &t->w.arena, &leases, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 0);
    /* The steps themselves stay as they were. */
    struct job_slice slice = whole(t, id);
    assert_int_equal(slice.step_count, 4);
    assert_int_equal(slice.steps[0].state, STEP_RUNNING);
}

static void a_closed_step_stays_out_of_its_lane_when_its_time_comes(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x','retry':{'initial_ms':20000}},{'id':'y'}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    act(t, id, fail_as(&t->w, CLASS_TRANSIENT));
    assert_string_equal(claim_next(t, "r1"), "a.1");
    act(t, id, cancel_by(CANCEL_SOFT, "stop"));
    advance(t, 3600);
    assert_int_equal(promote(t, 10), 0);
    assert_string_equal(ready(t), "");
}

static void a_requeued_plan_opens_its_steps_again(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z','deps':['x']}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    act(t, id, complete_with(&t->w, NULL));
    assert_string_equal(claim_next(t, "r1"), "a.1");
    act(t, id, fail_as(&t->w, CLASS_PERMANENT));
    assert_text(job_status_name(whole(t, id).job.status), "failed");
    assert_string_equal(ready(t), "");
    act(t, id, requeue_by("again", false));
    assert_string_equal(ready(t), "a.1 a.2");
    while (*claim_next(t, "r1") != '\0')
        act(t, id, complete_with(&t->w, NULL));
    assert_text(job_status_name(whole(t, id).job.status), "completed");
}

static void a_step_held_for_a_critic_stands_in_a_lane_of_its_own(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x','critic':true}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    act(t, id, complete_with(&t->w, "1"));
    assert_string_equal(ready(t), "a.0");
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_lane *lanes;
    uint32_t count;
    ok(t, store_lanes(txn, 0, &t->w.arena, &lanes, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 2);
    struct command judge = judge_of("x");
    act(t, id, judge);
    assert_string_equal(ready(t), "");
    act(t, id, with_token(verdict_on(NULL, VERDICT_ACCEPT), t->w.token));
    assert_text(job_status_name(whole(t, id).job.status), "completed");
}

static void a_wait_step_is_due_and_stands_in_no_lane(void **state)
{
    struct trial *t = *state;
    struct uuid id =
        submit_plan(t, "a", "[{'id':'g','wait':{'type':'timer','delay_ms':5000}},{'id':'x'}]");
    assert_string_equal(ready(t), "a.1");
    assert_string_equal(due(t), "");
    assert_true(next_due(t) == at(5));
    advance(t, 5);
    assert_string_equal(due(t), "a.0@5");
    act(t, id, on_step(by_engine(COMMAND_WAKE), "g"));
    assert_string_equal(due(t), "");
}

struct conformance_tests conformance_plans(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(steps_whose_dependencies_are_open_stand_in_no_lane),
        TRIAL(a_step_is_claimed_with_its_own_lease_and_fenced_by_it),
        TRIAL(a_new_plan_takes_the_steps_of_the_old_away),
        TRIAL(a_new_plan_keeps_what_is_finished),
        TRIAL(steps_that_a_new_plan_does_not_list_leave_lanes_leases_and_timers),
        TRIAL(a_step_of_a_new_plan_does_not_stand_where_the_old_one_did),
        TRIAL(a_job_that_takes_no_claims_closes_its_steps_and_leaves_leases_alone),
        TRIAL(a_job_that_ends_ends_the_leases_and_timers_of_its_steps),
        TRIAL(a_closed_step_stays_out_of_its_lane_when_its_time_comes),
        TRIAL(a_requeued_plan_opens_its_steps_again),
        TRIAL(a_step_held_for_a_critic_stands_in_a_lane_of_its_own),
        TRIAL(a_wait_step_is_due_and_stands_in_no_lane),
    };
    return TRIALS(tests);
}
