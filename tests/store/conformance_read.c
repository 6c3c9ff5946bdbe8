/* Reading: lists with filters and pages, streams, the feed, leases on a resource. */
#include "store/conformance.h"

/* The names of the jobs that pass, "c b a". */
static const char *listed(struct trial *t, struct store_filter filter)
{
    struct store_job *jobs;
    uint32_t count;
    struct buf buf;
    buf_init(&buf, &t->w.arena, 64);
    if (filter.limit == 0)
        filter.limit = STORE_LIST_MAX;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    rollback(t, txn);
    assert_in_range(count, 0, filter.limit);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(uuid_eq(jobs[i].id, jobs[i].slice.job.id));
        buf_addf(&buf, "%s%s", i > 0 ? " " : "", name_of(t, jobs[i].id, STEP_NONE));
    }
    buf_add_char(&buf, '\0');
    return buf.at;
}

static void a_list_has_the_newest_first_and_is_bounded(void **state)
{
    struct trial *t = *state;
    assert_string_equal(listed(t, (struct store_filter){0}), "");
    submit(t, "a");
    submit(t, "b");
    submit(t, "c");
    assert_string_equal(listed(t, (struct store_filter){0}), "c b a");
    assert_string_equal(listed(t, (struct store_filter){.limit = 2}), "c b");
    assert_string_equal(listed(t, (struct store_filter){.before = t->ids[1]}), "a");
    assert_string_equal(listed(t, (struct store_filter){.before = t->ids[0]}), "");
}

/* Six jobs that differ in all that can be asked for. */
static void fill(struct trial *t)
{
    struct spec spec = world_spec();
    submit_spec(t, "plain", spec);
    advance(t, 1);
    spec.kind = STR("video");
    spec.queue = STR("q2");
    submit_spec(t, "video", spec);
    advance(t, 1);
    spec.agent_id = STR("ann");
    spec.correlation_id = STR("c1");
    submit_spec(t, "ann", spec);
    spec.labels = js(&t->w, "{'team':'x','zone':'eu'}");
    submit_spec(t, "labelled", spec);
    spec.kind = STR("mail");
    spec.labels = js(&t->w, "{'team':'xy','t\\u0065am2':'x'}");
    struct uuid running = submit_spec(t, "running", spec);
    act(t, running, claim_by("w1", true));
    struct uuid dead = submit(t, "dead");
    struct command drop = by_user(COMMAND_DEAD_LETTER);
    drop.dead_letter.reason_code = DEAD_POLICY_VIOLATION;
    act(t, dead, drop);
}

static void each_filter_passes_what_it_names(void **state)
{
    struct trial *t = *state;
    fill(t);
    assert_string_equal(listed(t, (struct store_filter){.kind = STR("video")}),
                        "labelled ann video");
    assert_string_equal(listed(t, (struct store_filter){.queue = STR("default")}), "dead plain");
    assert_string_equal(listed(t, (struct store_filter){.agent_id = STR("ann")}),
                        "running labelled ann");
    assert_string_equal(listed(t, (struct store_filter){.correlation_id = STR("c1")}),
                        "running labelled ann");
    assert_string_equal(listed(t, (struct store_filter){.statuses = 1u << JOB_RUNNING}), "running");
    assert_string_equal(
        listed(t, (struct store_filter){.statuses = 1u << JOB_RUNNING | 1u << JOB_DEAD_LETTERED}),
        "dead running");
    assert_string_equal(listed(t, (struct store_filter){.created_after = at(0)}),
                        "dead running labelled ann video");
    assert_string_equal(listed(t, (struct store_filter){.created_after = at(1)}),
                        "dead running labelled ann");
    assert_string_equal(listed(t, (struct store_filter){.id = t->ids[2]}), "ann");
    assert_string_equal(listed(t, (struct store_filter){.id = new_id(t)}), "");
    assert_string_equal(listed(t, (struct store_filter){.reason_code = DEAD_POLICY_VIOLATION}),
                        "dead");
    assert_string_equal(listed(t, (struct store_filter){.reason_code = DEAD_TIMEOUT}), "");
}

static void a_label_passes_with_its_own_value_only(void **state)
{
    struct trial *t = *state;
    fill(t);
    struct store_filter filter = {.label_key = STR("team"), .label_value = STR("x")};
    assert_string_equal(listed(t, filter), "labelled");
    filter.label_value = STR("xy");
    assert_string_equal(listed(t, filter), "running");
    filter.label_value = STR("");
    assert_string_equal(listed(t, filter), "");
    filter.label_value = STR("%");
    assert_string_equal(listed(t, filter), "");
    filter = (struct store_filter){.label_key = STR("team2"), .label_value = STR("x")};
    assert_string_equal(listed(t, filter), "running"); /* its key was written with an escape */
    filter = (struct store_filter){.label_key = STR("tea"), .label_value = STR("x")};
    assert_string_equal(listed(t, filter), "");
}

static void filters_together_pass_what_all_of_them_do(void **state)
{
    struct trial *t = *state;
    fill(t);
    struct store_filter filter = {
        .statuses = 1u << JOB_QUEUED,
        .kind = STR("video"),
        .queue = STR("q2"),
        .agent_id = STR("ann"),
        .correlation_id = STR("c1"),
        .label_key = STR("zone"),
        .label_value = STR("eu"),
        .created_after = at(1),
    };
    assert_string_equal(listed(t, filter), "labelled");
    filter.statuses = 1u << JOB_RUNNING;
    assert_string_equal(listed(t, filter), "");
    filter = (struct store_filter){.kind = STR("video"), .limit = 2, .before = t->ids[3]};
    assert_string_equal(listed(t, filter), "ann video");
    filter = (struct store_filter){.id = t->ids[3], .kind = STR("mail")};
    assert_string_equal(listed(t, filter), "");
}

static void hostile_texts_in_filters_are_only_texts(void **state)
{
    struct trial *t = *state;
    fill(t);
    struct str hostile[] = {STR("' OR '1'='1"), STR("%"),  STR("_ail"), STR("\\"),
                            STR("{"),           STR("\""), STR("$."),   STR("")};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        assert_string_equal(listed(t, (struct store_filter){.kind = hostile[i]}), "");
        assert_string_equal(listed(t, (struct store_filter){.agent_id = hostile[i]}), "");
        assert_string_equal(
            listed(t, (struct store_filter){.label_key = hostile[i], .label_value = STR("x")}), "");
        assert_string_equal(
            listed(t, (struct store_filter){.label_key = STR("team"), .label_value = hostile[i]}),
            "");
    }
}

static void pages_stay_as_they_are_while_jobs_arrive(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 10; i++)
        submit(t, numbered(&t->w, "j", i));
    struct store_filter filter = {.limit = 4};
    assert_string_equal(listed(t, filter), "j9 j8 j7 j6");
    submit(t, "new1");
    filter.before = t->ids[6];
    assert_string_equal(listed(t, filter), "j5 j4 j3 j2");
    submit(t, "new2");
    filter.before = t->ids[2];
    assert_string_equal(listed(t, filter), "j1 j0");
}

static void a_listed_job_is_as_load_would_give_it(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.payload = js(&t->w, "{'a':1}");
    struct uuid id = submit_spec(t, "a", spec);
    act(t, id, claim_by("w1", true));
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("c");
    advance(t, 3);
    act(t, id, beat);
    struct job_slice loaded = whole(t, id);
    struct store_job *jobs;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t,
       store_list(txn, &(struct store_filter){.limit = 1}, &t->w.arena, &jobs, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 1);
    assert_same_row(t, &jobs[0].slice, &loaded);
    assert_true(jobs[0].slice.job.lease.beat_at == at(3));
}

/* ---- streams ---- */

static void events_come_by_their_type(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    for (int i = 0; i < 3; i++) {
        act(t, id, signal_of(&t->w, numbered(&t->w, "k", i), NULL));
        act(t, id, begin_of(&t->w, numbered(&t->w, "e", i), NULL));
    }
    struct event *events;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    struct store_stream stream = {.job = id, .limit = 2, .type = STR("signal_received")};
    ok(t, store_events(txn, &stream, &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 2);
    assert_true(events[0].version == 4 && events[1].version == 6);
    stream.after = 6;
    ok(t, store_events(txn, &stream, &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 1);
    assert_int_equal(events[0].version, 8);
    stream.type = STR("job_completed");
    ok(t, store_events(txn, &stream, &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
}

static void events_come_after_a_version_and_bounded(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    for (int i = 0; i < 9; i++)
        act(t, id, signal_of(&t->w, numbered(&t->w, "k", i), NULL));
    struct event *events;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    int64_t after = 0;
    for (int page = 0; page < 4; page++) {
        ok(t, store_events(
                  txn,
                  &(struct store_stream){.job = id, .after = after, .limit = 3, .telemetry = false},
                  &t->w.arena, &events, &count, &t->w.err));
        assert_int_equal(count, page < 3 ? 3 : 1);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(events[i].version, ++after);
    }
    ok(t,
       store_events(
           txn, &(struct store_stream){.job = id, .after = after, .limit = 3, .telemetry = false},
           &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 0);
    ok(t, store_events(
              txn,
              &(struct store_stream){.job = new_id(t), .after = 0, .limit = 3, .telemetry = false},
              &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
}

static void telemetry_stands_beside_the_stream_by_time(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct uuid other = submit(t, "b");
    struct command claim = claim_by("w1", true);
    claim.claim.terms.lease_ttl_ms = 3600 * 1000;
    act(t, other, claim);
    act(t, other, by_worker(&t->w, COMMAND_HEARTBEAT));
    act(t, id, claim);
    for (int i = 0; i < 5; i++) {
        struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
        beat.heartbeat.progress = js(&t->w, numbered(&t->w, "", i));
        advance(t, 1000);
        act(t, id, beat);
    }
    struct event *events;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_events(
              txn, &(struct store_stream){.job = id, .after = 0, .limit = 100, .telemetry = true},
              &t->w.arena, &events, &count, &t->w.err));
    rollback(t, txn);
    assert_true(count > 0);
    int64_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(uuid_eq(events[i].job_id, id));
        assert_int_equal(events[i].version, 3); /* the job's, at that moment */
        assert_true(events[i].at >= last);
        assert_int_equal(event_type_class(events[i].type), EVENT_CLASS_TELEMETRY);
        ok(t, event_open(&events[i], 1, &t->w.arena, &t->w.err));
        last = events[i].at;
    }
    assert_string_equal(stream(t, id), "job_created job_leased job_running");
    txn = begin(t, STORE_READ);
    ok(t, store_events(txn,
                       &(struct store_stream){.job = id, .after = 0, .limit = 1, .telemetry = true},
                       &t->w.arena, &events, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 1);
}

/* ---- the feed ---- */

static bool position_after(struct store_position a, struct store_position b)
{
    return a.major != b.major ? a.major > b.major : a.minor > b.minor;
}

/* Events behind `*position` as "a1 a2 b1"; `*position` moves behind them. */
static const char *fed(struct trial *t, struct store_position *position, uint32_t limit)
{
    struct store_fed *list;
    uint32_t count;
    struct buf buf;
    buf_init(&buf, &t->w.arena, 64);
    settle_feed(t);
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_feed(txn, *position, limit, &t->w.arena, &list, &count, &t->w.err));
    rollback(t, txn);
    assert_in_range(count, 0, limit);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(position_after(list[i].position, *position));
        *position = list[i].position;
        buf_addf(&buf, "%s%s%lld", i > 0 ? " " : "", name_of(t, list[i].event.job_id, STEP_NONE),
                 (long long)list[i].event.version);
    }
    buf_add_char(&buf, '\0');
    return buf.at;
}

static void the_feed_has_every_event_once_in_the_order_of_commits(void **state)
{
    struct trial *t = *state;
    struct store_position position = {0};
    assert_string_equal(fed(t, &position, 10), "");
    struct uuid a = submit(t, "a");
    struct uuid b = submit(t, "b");
    act(t, a, claim_by("w1", true));
    act(t, a, by_worker(&t->w, COMMAND_HEARTBEAT));
    act(t, b, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(fed(t, &position, 100), "a1 b1 a2 a3 b2");
    assert_string_equal(fed(t, &position, 100), "");
    act(t, a, complete_with(&t->w, NULL));
    assert_string_equal(fed(t, &position, 100), "a4");
}

static void the_feed_goes_on_wherever_it_was_left(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 7; i++)
        submit(t, numbered(&t->w, "j", i));
    struct store_position position = {0};
    assert_string_equal(fed(t, &position, 3), "j01 j11 j21");
    struct store_position kept = position;
    assert_string_equal(fed(t, &position, 3), "j31 j41 j51");
    submit(t, "new");
    assert_string_equal(fed(t, &position, 3), "j61 new1");
    assert_string_equal(fed(t, &kept, 100), "j31 j41 j51 j61 new1");
}

static void a_rolled_back_event_is_never_in_the_feed(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, a);
    struct change change;
    struct command claim = claim_by("w1", true);
    ok(t, decide(t, &slice, &claim, &change));
    ok(t, write_one(t, txn, &change));
    rollback(t, txn);
    submit(t, "b");
    struct store_position position = {0};
    assert_string_equal(fed(t, &position, 100), "a1 b1");
}

static void the_feed_passes_over_jobs_that_were_purged(void **state)
{
    struct trial *t = *state;
    struct store_position position = {0};
    submit(t, "a");
    struct uuid b = submit(t, "b");
    act(t, b, cancel_by(CANCEL_HARD, "no"));
    submit(t, "c");
    assert_string_equal(fed(t, &position, 1), "a1");
    struct store_txn *txn = begin(t, STORE_WRITE);
    load_whole(t, txn, b);
    struct store_write write = {.purged = &b, .purged_count = 1};
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
    assert_string_equal(fed(t, &position, 100), "c1");
}

/* ---- leases on a resource ---- */

static void the_leases_on_a_resource_are_found(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    submit_plan(t, "b", "[{'id':'x'}]");
    claim_next(t, "r1");
    claim_next(t, "r2");
    struct str token = t->w.token;
    claim_next(t, "r1");
    struct store_lease *leases;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_leases_on(txn, STR("r1"), &t->w.arena, &leases, &count, &t->w.err));
    assert_int_equal(count, 2);
    assert_true(uuid_eq(leases[0].job, a) != uuid_eq(leases[1].job, a));
    assert_int_equal(leases[0].step, 0);
    assert_int_equal(leases[1].step, 0);
    ok(t, store_leases_on(txn, STR("r2"), &t->w.arena, &leases, &count, &t->w.err));
    assert_int_equal(count, 1);
    assert_int_equal(leases[0].step, 1);
    ok(t, store_leases_on(txn, STR("r"), &t->w.arena, &leases, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
    act(t, a, with_token(by_worker(&t->w, COMMAND_RELEASE), token));
    txn = begin(t, STORE_READ);
    ok(t, store_leases_on(txn, STR("r2"), &t->w.arena, &leases, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 0);
}

struct conformance_tests conformance_read(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(a_list_has_the_newest_first_and_is_bounded),
        TRIAL(each_filter_passes_what_it_names),
        TRIAL(a_label_passes_with_its_own_value_only),
        TRIAL(filters_together_pass_what_all_of_them_do),
        TRIAL(hostile_texts_in_filters_are_only_texts),
        TRIAL(pages_stay_as_they_are_while_jobs_arrive),
        TRIAL(a_listed_job_is_as_load_would_give_it),
        TRIAL(events_come_by_their_type),
        TRIAL(events_come_after_a_version_and_bounded),
        TRIAL(telemetry_stands_beside_the_stream_by_time),
        TRIAL(the_feed_has_every_event_once_in_the_order_of_commits),
        TRIAL(the_feed_goes_on_wherever_it_was_left),
        TRIAL(a_rolled_back_event_is_never_in_the_feed),
        TRIAL(the_feed_passes_over_jobs_that_were_purged),
        TRIAL(the_leases_on_a_resource_are_found),
    };
    return TRIALS(tests);
}
