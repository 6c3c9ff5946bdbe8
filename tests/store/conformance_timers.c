/* Time: work that may not be claimed yet, what comes due, and what is kept for a day. */
#include "store/conformance.h"

static struct uuid submit_at(struct trial *t, const char *name, int64_t seconds, int64_t priority)
{
    struct spec spec = world_spec();
    spec.run_at = at(seconds);
    spec.priority = priority;
    return submit_spec(t, name, spec);
}

static void work_of_the_future_is_in_no_lane_until_it_is_promoted(void **state)
{
    struct trial *t = *state;
    submit_at(t, "a", 10, 0);
    assert_string_equal(ready(t), "");
    assert_int_equal(promote(t, 10), 0);
    advance(t, 9);
    assert_int_equal(promote(t, 10), 0);
    advance(t, 1);
    assert_string_equal(ready(t), "");
    assert_int_equal(promote(t, 10), 1);
    assert_string_equal(ready(t), "a");
    assert_int_equal(promote(t, 10), 0);
    assert_string_equal(claim_next(t, NULL), "a");
}

static void promotion_is_bounded_and_the_oldest_come_first(void **state)
{
    struct trial *t = *state;
    submit_at(t, "c", 3, 0);
    submit_at(t, "a", 1, -9);
    submit_at(t, "d", 4, 9);
    submit_at(t, "b", 2, 0);
    submit_at(t, "e", 50, 0);
    advance(t, 10);
    assert_int_equal(promote(t, 2), 2);
    assert_string_equal(ready(t), "b a");
    assert_int_equal(promote(t, 2), 2);
    assert_string_equal(ready(t), "d b c a");
    assert_int_equal(promote(t, 2), 0);
}

static void promoted_work_waits_in_the_order_of_its_lane(void **state)
{
    struct trial *t = *state;
    submit_at(t, "soon", 1, 0);
    submit_at(t, "later", 2, 0);
    submit_at(t, "urgent", 3, 5);
    submit(t, "now");
    advance(t, 5);
    assert_int_equal(promote(t, 10), 3);
    assert_string_equal(ready(t), "urgent now soon later");
}

static void work_leaves_the_timers_when_it_is_cancelled_before_its_time(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_at(t, "a", 10, 0);
    submit_at(t, "b", 10, 0);
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    advance(t, 10);
    assert_int_equal(promote(t, 10), 1);
    assert_string_equal(ready(t), "b");
}

static void work_leaves_its_lane_after_it_was_promoted(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_at(t, "a", 10, 0);
    advance(t, 10);
    promote(t, 10);
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(ready(t), "");
}

static void work_whose_time_has_come_is_claimed_by_id_before_it_is_promoted(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_at(t, "a", 10, 0);
    advance(t, 10);
    act(t, a, claim_by("w1", true));
    assert_int_equal(promote(t, 10), 0);
    assert_string_equal(ready(t), "");
}

static void work_that_was_promoted_and_work_that_was_not_leave_together(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_at(t, "a", 10, 0);
    struct uuid b = submit(t, "b");
    struct uuid c = submit_at(t, "c", 10, 0);
    assert_string_equal(ready(t), "b");
    advance(t, 10);
    act(t, a, claim_by("w1", true));
    act(t, b, claim_by("w1", true));
    act(t, c, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(ready(t), "");
    assert_int_equal(promote(t, 10), 0);
}

static void a_retry_waits_among_the_timers(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    act(t, a, claim_by("w1", true));
    struct command fail = fail_as(&t->w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = 20000;
    act(t, a, fail);
    assert_string_equal(ready(t), "");
    assert_true(next_due(t) == at(20));
    advance(t, 20);
    assert_int_equal(promote(t, 10), 1);
    assert_string_equal(claim_next(t, NULL), "a");
}

static void steps_of_a_delayed_job_wait_with_it(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.run_at = at(10);
    spec.plan = js(&t->w, "{'steps':[{'id':'x'},{'id':'y'}]}");
    submit_spec(t, "a", spec);
    assert_string_equal(ready(t), "");
    advance(t, 10);
    assert_int_equal(promote(t, 1), 1);
    assert_int_equal(promote(t, 10), 1);
    assert_string_equal(ready(t), "a.0 a.1");
}

/* ---- what is due ---- */

static void nothing_is_due_in_an_empty_store(void **state)
{
    struct trial *t = *state;
    assert_string_equal(due(t), "");
    assert_true(next_due(t) == INT64_MAX);
    submit(t, "a");
    assert_true(next_due(t) == INT64_MAX);
}

static void a_lease_is_due_when_it_expires(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    act(t, a, claim_by("w1", true));
    assert_string_equal(due(t), "");
    assert_true(next_due(t) == at(30));
    advance(t, 29);
    assert_string_equal(due(t), "");
    advance(t, 1);
    assert_string_equal(due(t), "a@30");
    act(t, a, expire_of(1));
    assert_string_equal(due(t), "");
}

static void a_wait_is_due_when_its_patience_ends(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    act(t, a, claim_by("w1", true));
    act(t, a, wait_for(&t->w, "k", 7000));
    assert_true(next_due(t) == at(7));
    struct uuid b = submit(t, "b");
    act(t, b, claim_by("w1", true));
    act(t, b, wait_for(&t->w, "k", 0));
    advance(t, 7);
    assert_string_equal(due(t), "a@7");
    act(t, a, by_engine(COMMAND_WAKE));
    assert_string_equal(due(t), "");
    assert_string_equal(ready(t), "a");
}

static void a_signal_takes_the_timer_of_its_wait_away(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    act(t, a, claim_by("w1", true));
    act(t, a, wait_for(&t->w, "k", 7000));
    act(t, a, signal_of(&t->w, "k", NULL));
    advance(t, 100);
    assert_string_equal(due(t), "");
    assert_true(next_due(t) == INT64_MAX);
}

static void a_question_of_a_step_is_due_when_nobody_has_answered(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_plan(t, "a", "[{'id':'x'}]");
    act(t, a, step_claim_of(&t->w, "x", "r1", true));
    struct command ask = with_token(verdict_on(NULL, VERDICT_NEEDS_USER), t->w.token);
    ask.actor = STR("w1");
    ask.verdict.question.timeout_ms = 40000;
    act(t, a, ask);
    advance(t, 40);
    assert_string_equal(due(t), "a.0@40");
    act(t, a, answer_of(&t->w, "x", "1"));
    assert_string_equal(due(t), "");
}

static void ended_jobs_are_due_to_be_purged(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct uuid b = submit(t, "b");
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    act(t, b, claim_by("w1", true));
    act(t, b, fail_as(&t->w, CLASS_PERMANENT));
    assert_true(next_due(t) == at(7 * 24 * 3600));
    advance(t, 7 * 24 * 3600);
    assert_string_equal(due(t), "purge:a@604800");
}

static void a_job_that_lives_again_is_not_purged(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, a);
    struct change change;
    struct command signal = signal_of(&t->w, "k", NULL);
    ok(t, decide(t, &slice, &signal, &change));
    struct store_job_write write = write_of(t, &change);
    write.purge_at = at(60);
    ok(t, write_job(t, txn, &write));
    commit(t, txn);
    advance(t, 60);
    assert_string_equal(due(t), "purge:a@60");
    act(t, a, claim_by("w1", true));
    assert_string_equal(due(t), "");
}

static void resources_are_due_until_they_renew_or_go(void **state)
{
    struct trial *t = *state;
    put_resource(t, "r1", at(10));
    put_resource(t, "r2", at(5));
    put_resource(t, "r3", at(100));
    assert_true(next_due(t) == at(5));
    advance(t, 10);
    assert_string_equal(due(t), "resource:r2@5 resource:r1@10");
    put_resource(t, "r2", at(50));
    assert_string_equal(due(t), "resource:r1@10");
    struct str gone = STR("r1");
    write_other(t, &(struct store_write){.resources_gone = &gone, .resource_gone_count = 1});
    assert_string_equal(due(t), "");
    assert_true(next_due(t) == at(50));
}

static void what_is_due_comes_oldest_first_and_bounded_by_sort(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 4; i++) {
        struct uuid id = submit(t, numbered(&t->w, "j", i));
        act(t, id, claim_by("w1", true));
        if (i % 2 == 0)
            act(t, id, wait_for(&t->w, "k", 20000)); /* beside the leases */
        advance(t, 1);
    }
    put_resource(t, "r1", at(1));
    put_resource(t, "r2", at(2));
    put_resource(t, "r3", at(3));
    advance(t, 1000);
    assert_string_equal(due(t),
                        "j0@20 j2@22 j1@31 j3@33 resource:r1@1 resource:r2@2 resource:r3@3");
    assert_string_equal(due_at_most(t, 3), "j0@20 j2@22 j1@31 "
                                           "resource:r1@1 resource:r2@2 resource:r3@3");
    assert_string_equal(due_at_most(t, 2), "j0@20 j2@22 resource:r1@1 resource:r2@2");
    assert_string_equal(due_at_most(t, 1), "j0@20 resource:r1@1");
}

static void the_next_time_counts_work_to_promote(void **state)
{
    struct trial *t = *state;
    submit_at(t, "a", 15, 0);
    put_resource(t, "r1", at(40));
    assert_true(next_due(t) == at(15));
    advance(t, 20);
    assert_true(next_due(t) <= t->now); /* it is still to be promoted */
    promote(t, 10);
    assert_true(next_due(t) == at(40));
}

/* A store that writes rows later must not take what it has yet to write for the next to come. */
static void the_next_time_does_not_count_work_that_was_cancelled(void **state)
{
    struct trial *t = *state;
    struct store_txn *txn;
    struct uuid id = submit_at(t, "a", 15, 0);
    submit_at(t, "b", 25, 0);
    assert_true(next_due(t) == at(15));
    ok(t, store_begin(t->store, STORE_READ, &txn, &t->w.err)); /* all have their rows then */
    store_rollback(txn);
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    advance(t, 20);
    assert_true(next_due(t) == at(25));
}

/* Whoever looks too early finds nothing to do, and says when to look again. */
static void a_heartbeat_leaves_the_timer_and_the_engine_moves_it(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    act(t, a, claim_by("w1", true));
    advance(t, 20);
    act(t, a, by_worker(&t->w, COMMAND_HEARTBEAT));
    advance(t, 10);
    assert_string_equal(due(t), "a@30");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, a);
    assert_true(slice.job.lease.expires_at == at(50));
    struct store_job_write write = {.after = &slice};
    ok(t, schedule_entry_of_job(&slice.job, &t->w.arena, &write.now, &t->w.err));
    write.was = write.now;
    write.was.due_at = 0;
    ok(t, write_job(t, txn, &write));
    commit(t, txn);
    assert_string_equal(due(t), "");
    assert_true(next_due(t) == at(50));
    assert_true(whole(t, a).job.lease.beat_at == at(20));
    advance(t, 20);
    assert_string_equal(due(t), "a@50");
}

static void a_soft_cancel_brings_the_time_of_a_lease_forward(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct command claim = claim_by("w1", true);
    claim.claim.terms.lease_ttl_ms = 3600 * 1000;
    act(t, a, claim);
    assert_true(next_due(t) == at(3600));
    act(t, a, cancel_by(CANCEL_SOFT, "stop"));
    assert_true(next_due(t) == at(30));
    advance(t, 30);
    assert_string_equal(due(t), "a@30");
    act(t, a, by_engine(COMMAND_CANCEL_DUE));
    assert_string_equal(due(t), "");
}

/* ---- looking after ---- */

static void when_somebody_last_looked_after_the_store_is_remembered(void **state)
{
    struct trial *t = *state;
    struct store_liveness liveness = {.before = -1, .trusted_before = -1};
    int64_t first = t->now;
    ok(t, store_record_liveness(t->store, &liveness, &t->w.err));
    assert_int_equal(liveness.before, 0);
    assert_int_equal(liveness.trusted_before, 0);
    assert_int_equal(liveness.now, first);
    assert_int_equal(liveness.wall, first);
    liveness.trusted = first - 3600 * 1000;
    ok(t, store_record_liveness(t->store, &liveness, &t->w.err));
    assert_int_equal(liveness.before, 0);
    advance(t, 5);
    liveness.trusted = first - 3500 * 1000;
    ok(t, store_record_liveness(t->store, &liveness, &t->w.err));
    assert_int_equal(liveness.before, first);
    assert_int_equal(liveness.trusted_before, first - 3600 * 1000);
    assert_int_equal(liveness.now, first + 5000);
    liveness.trusted = 0;
    ok(t, store_record_liveness(t->store, &liveness, &t->w.err));
    ok(t, store_record_liveness(t->store, &liveness, &t->w.err));
    assert_int_equal(liveness.before, first + 5000);
    assert_int_equal(liveness.trusted_before, first - 3500 * 1000);
}

/* ---- sweeping ---- */

static uint32_t sweep(struct trial *t, uint32_t limit)
{
    uint32_t count = UINT32_MAX;
    ok(t, store_sweep(t->store, t->now, limit, &count, &t->w.err));
    return count;
}

static bool has_request(struct trial *t, const char *key)
{
    struct store_request request = {.scope = STR("s"), .key = str_from(key)};
    struct store_load load = {.requests = &request, .request_count = 1};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    return request.found;
}

static uint32_t beats_of(struct trial *t, struct uuid id)
{
    struct event *events;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_events(
              txn, &(struct store_stream){.job = id, .after = 0, .limit = 100, .telemetry = true},
              &t->w.arena, &events, &count, &t->w.err));
    rollback(t, txn);
    return count;
}

static void put_request(struct trial *t, const char *key)
{
    struct request_record record = {
        .scope = STR("s"), .key = str_from(key), .at = t->now, .answer = STR("{}")};
    write_other(t, &(struct store_write){.requests = &record, .request_count = 1});
}

static void requests_and_telemetry_are_swept_after_a_day(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct command claim = claim_by("w1", true);
    claim.claim.terms.lease_ttl_ms = LEASE_TTL_MS_MAX;
    act(t, a, claim);
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("1"); /* others need not be kept */
    act(t, a, beat);
    uint32_t beats = beats_of(t, a);
    assert_true(beats > 0);
    put_request(t, "old");
    advance(t, 3600);
    put_request(t, "young");
    assert_int_equal(sweep(t, 100), 0);
    advance(t, 23 * 3600 + 1);
    assert_int_equal(sweep(t, 100), beats + 1);
    assert_false(has_request(t, "old"));
    assert_true(has_request(t, "young"));
    assert_int_equal(beats_of(t, a), 0);
    assert_int_equal(sweep(t, 100), 0);
    assert_true(whole(t, a).job.lease.live);
}

static void a_sweep_is_bounded(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 5; i++)
        put_request(t, numbered(&t->w, "k", i));
    advance(t, 25 * 3600);
    assert_int_equal(sweep(t, 2), 2);
    assert_int_equal(sweep(t, 2), 2);
    assert_int_equal(sweep(t, 2), 1);
    assert_int_equal(sweep(t, 2), 0);
}

static void a_request_that_was_made_anew_is_as_young_as_the_last(void **state)
{
    struct trial *t = *state;
    put_request(t, "k");
    advance(t, 20 * 3600);
    put_request(t, "k");
    advance(t, 5 * 3600);
    assert_int_equal(sweep(t, 10), 0);
    assert_true(has_request(t, "k"));
}

static void sweeping_goes_by_the_time_that_it_is_given(void **state)
{
    struct trial *t = *state;
    uint32_t count = UINT32_MAX;
    int64_t trusted = t->now;
    put_request(t, "k");
    advance(t, 365 * 24 * 3600);
    ok(t, store_sweep(t->store, trusted, 10, &count, &t->w.err));
    assert_int_equal(count, 0);
    assert_true(has_request(t, "k"));
}

static void purge(struct trial *t, struct uuid id)
{
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_write write = {.purged = &id, .purged_count = 1};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
}

static void what_is_left_of_a_deleted_job_goes_after_a_month(void **state)
{
    enum { DAY = 24 * 3600 };
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct uuid b = submit(t, "b");
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    act(t, b, cancel_by(CANCEL_HARD, "no"));
    purge(t, a);
    advance(t, DAY);
    purge(t, b);
    advance(t, 29 * DAY - 1);
    assert_int_equal(sweep(t, 100), 0);
    advance(t, 1);
    assert_int_equal(sweep(t, 100), 1);
    assert_int_equal(sweep(t, 100), 0);
    advance(t, DAY);
    assert_int_equal(sweep(t, 100), 1);
}

static void a_job_that_is_deleted_twice_leaves_its_head_for_a_month_after_the_last(void **state)
{
    enum { DAY = 24 * 3600 };
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    purge(t, a);
    advance(t, 20 * DAY);
    struct spec spec = world_spec();
    struct command again = by_user(COMMAND_SUBMIT);
    again.submit.spec = &spec;
    act(t, a, again);
    act(t, a, cancel_by(CANCEL_HARD, "no"));
    purge(t, a);
    advance(t, 20 * DAY);
    assert_int_equal(sweep(t, 100), 0);
    advance(t, 10 * DAY);
    assert_int_equal(sweep(t, 100), 1);
}

struct conformance_tests conformance_timers(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(work_of_the_future_is_in_no_lane_until_it_is_promoted),
        TRIAL(promotion_is_bounded_and_the_oldest_come_first),
        TRIAL(promoted_work_waits_in_the_order_of_its_lane),
        TRIAL(work_leaves_the_timers_when_it_is_cancelled_before_its_time),
        TRIAL(work_leaves_its_lane_after_it_was_promoted),
        TRIAL(work_whose_time_has_come_is_claimed_by_id_before_it_is_promoted),
        TRIAL(work_that_was_promoted_and_work_that_was_not_leave_together),
        TRIAL(the_next_time_does_not_count_work_that_was_cancelled),
        TRIAL(a_retry_waits_among_the_timers),
        TRIAL(steps_of_a_delayed_job_wait_with_it),
        TRIAL(nothing_is_due_in_an_empty_store),
        TRIAL(a_lease_is_due_when_it_expires),
        TRIAL(a_wait_is_due_when_its_patience_ends),
        TRIAL(a_signal_takes_the_timer_of_its_wait_away),
        TRIAL(a_question_of_a_step_is_due_when_nobody_has_answered),
        TRIAL(ended_jobs_are_due_to_be_purged),
        TRIAL(a_job_that_lives_again_is_not_purged),
        TRIAL(resources_are_due_until_they_renew_or_go),
        TRIAL(what_is_due_comes_oldest_first_and_bounded_by_sort),
        TRIAL(the_next_time_counts_work_to_promote),
        TRIAL(a_heartbeat_leaves_the_timer_and_the_engine_moves_it),
        TRIAL(a_soft_cancel_brings_the_time_of_a_lease_forward),
        TRIAL(when_somebody_last_looked_after_the_store_is_remembered),
        TRIAL(requests_and_telemetry_are_swept_after_a_day),
        TRIAL(a_sweep_is_bounded),
        TRIAL(a_request_that_was_made_anew_is_as_young_as_the_last),
        TRIAL(sweeping_goes_by_the_time_that_it_is_given),
        TRIAL(what_is_left_of_a_deleted_job_goes_after_a_month),
        TRIAL(a_job_that_is_deleted_twice_leaves_its_head_for_a_month_after_the_last),
    };
    return TRIALS(tests);
}
