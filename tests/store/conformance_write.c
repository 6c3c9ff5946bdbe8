/* Writing: all of it or nothing, streams as they were sealed, leases, purging, erasing. */
#include "store/conformance.h"

/* A little of everything, so that a trace of anything would show. */
static void fill(struct trial *t)
{
    struct spec spec = world_spec();
    spec.idempotency_key = STR("k");
    submit_spec(t, "kept", spec);
    struct uuid leased = submit(t, "leased");
    act(t, leased, claim_by("w1", true));
    put_resource(t, "r1", at(500));
}

/* Writes one of everything, in a transaction that the caller ends. */
static struct store_txn *write_everything(struct trial *t)
{
    struct store_job jobs[] = {{.id = t->ids[0]}, {.id = t->ids[1]}, {.id = new_id(t)}};
    struct store_key key = {.queue = STR("default"), .key = STR("new")};
    struct store_request request = {.scope = STR("s"), .key = STR("k")};
    struct store_resource resource = {.id = STR("r1")};
    struct store_load load = {.jobs = jobs,
                              .job_count = 3,
                              .keys = &key,
                              .key_count = 1,
                              .requests = &request,
                              .request_count = 1,
                              .resources = &resource,
                              .resource_count = 1};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));

    struct change changes[3];
    struct command claim = claim_by("w9", true);
    ok(t, decide(t, &jobs[0].slice, &claim, &changes[0]));
    struct command cancel = cancel_by(CANCEL_HARD, "no");
    ok(t, decide(t, &jobs[1].slice, &cancel, &changes[1]));
    struct spec spec = world_spec();
    spec.kind = STR("another lane");
    spec.idempotency_key = STR("new");
    spec.run_at = at(60);
    struct command submit_new = by_user(COMMAND_SUBMIT);
    submit_new.submit.spec = &spec;
    ok(t, decide(t, &jobs[2].slice, &submit_new, &changes[2]));
    struct store_job_write writes[3];
    for (int i = 0; i < 3; i++)
        writes[i] = write_of(t, &changes[i]);

    struct request_record record = {.scope = STR("s"), .key = STR("k"), .answer = STR("answer")};
    struct resource renewed = {.id = STR("r1"), .slots = 99, .expires_at = at(900)};
    struct store_kind kind = {STR("mail"), {.retention_ms = 5}};
    struct store_queue queue = {STR("default"), true};
    struct store_write write = {
        .jobs = writes,
        .job_count = 3,
        .requests = &record,
        .request_count = 1,
        .resources = &renewed,
        .resource_count = 1,
        .kinds = &kind,
        .kind_count = 1,
        .queues = &queue,
        .queue_count = 1,
    };
    ok(t, store_write(txn, &write, &t->w.err));
    return txn;
}

static void a_rollback_leaves_no_trace(void **state)
{
    struct trial *t = *state;
    fill(t);
    const char *before = everything(t);
    rollback(t, write_everything(t));
    assert_string_equal(everything(t), before);
    /* And it can be done again. */
    commit(t, write_everything(t));
    assert_string_not_equal(everything(t), before);
}

static void one_write_changes_all_that_a_batch_names(void **state)
{
    struct trial *t = *state;
    fill(t);
    struct uuid id = new_id(t);
    commit(t, write_everything(t));
    assert_text(job_status_name(whole(t, t->ids[0]).job.status), "running");
    assert_text(job_status_name(whole(t, t->ids[1]).job.status), "cancelled");
    assert_text(job_status_name(whole(t, id).job.status), "queued");
    struct store_load load;
    rollback(t, begin_empty(t, &load));
    assert_int_equal(load.kind_count, 1);
    assert_int_equal(load.paused.count, 1);
}

static void a_rolled_back_search_and_promotion_leave_no_trace(void **state)
{
    struct trial *t = *state;
    fill(t);
    struct spec spec = world_spec();
    spec.run_at = at(10);
    submit_spec(t, "later", spec);
    advance(t, 10);
    const char *before = everything(t);
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t count;
    ok(t, store_promote(txn, 10, &count, &t->w.err));
    assert_int_equal(count, 1);
    assert_int_equal(search_all(t, txn, 10).found_count, 2);
    rollback(t, txn);
    assert_string_equal(everything(t), before);
}

static void a_version_that_is_there_is_refused_and_nothing_is_written(void **state)
{
    struct trial *t = *state;
    fill(t);
    struct uuid id = t->ids[0];
    struct job_slice old = whole(t, id);
    act(t, id, claim_by("w1", true));
    const char *before = everything(t);
    /* Decided on what is no longer so. */
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice now = load_whole(t, txn, id);
    struct change change;
    struct command cancel = cancel_by(CANCEL_HARD, "no");
    ok(t, decide(t, &old, &cancel, &change));
    struct store_job_write write = write_of(t, &change);
    ok(t, schedule_entry_of_job(&now.job, &t->w.arena, &write.was, &t->w.err));
    struct store_queue queue = {STR("default"), true};
    struct store_write all = {.jobs = &write, .job_count = 1, .queues = &queue, .queue_count = 1};
    assert_int_equal(refused_write(t, txn, &all), ERR_VERSION_MISMATCH);
    assert_true(strlen(t->w.err.detail) > 0);
    assert_string_equal(everything(t), before);
}

static void a_job_cannot_be_created_twice(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct job_slice none;
    job_slice_init(&none, id, 7);
    struct spec spec = world_spec();
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    const char *before = everything(t);
    struct store_txn *txn = begin(t, STORE_WRITE);
    load_whole(t, txn, id);
    struct change change;
    ok(t, decide(t, &none, &command, &change));
    struct store_job_write write = write_of(t, &change);
    struct store_write all = {.jobs = &write, .job_count = 1};
    assert_int_equal(refused_write(t, txn, &all), ERR_VERSION_MISMATCH);
    assert_string_equal(everything(t), before);
}

static void a_batch_of_many_jobs_is_written_at_once(void **state)
{
    struct trial *t = *state;
    enum { COUNT = 300 };
    static struct change changes[COUNT];
    static struct store_job_write writes[COUNT];
    struct store_txn *txn = begin_empty(t, NULL);
    for (int i = 0; i < COUNT; i++) {
        struct job_slice none;
        struct spec spec = world_spec();
        struct command command = by_user(COMMAND_SUBMIT);
        command.submit.spec = &spec;
        spec.priority = i % 3;
        job_slice_init(&none, new_id(t), 7);
        t->ids[t->job_count] = none.job.id;
        t->names[t->job_count++] = STR("many");
        ok(t, decide(t, &none, &command, &changes[i]));
        writes[i] = write_of(t, &changes[i]);
    }
    struct store_write write = {.jobs = writes, .job_count = COUNT};
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
    for (int i = 0; i < COUNT; i += 37) {
        struct job_slice read = whole(t, t->ids[i]);
        assert_same_row(t, &read, &changes[i].after);
    }
    txn = begin_empty(t, NULL);
    assert_int_equal(search_all(t, txn, 1000).found_count, COUNT);
    rollback(t, txn);
}

/* ---- events ---- */

static void assert_same_event(const struct event *a, const struct event *b)
{
    assert_true(uuid_eq(a->job_id, b->job_id));
    assert_int_equal(a->version, b->version);
    assert_true(a->at == b->at);
    assert_int_equal(a->type, b->type);
    assert_str(event_name(a), event_name(b));
    assert_str(a->actor, b->actor);
    assert_str(a->correlation_id, b->correlation_id);
    assert_str(a->cause_text, b->cause_text);
    assert_str(a->payload, b->payload);
    assert_false(a->redacted);
    assert_memory_equal(a->digest, b->digest, HASH_LEN);
    assert_memory_equal(a->hash, b->hash, HASH_LEN);
}

static struct event *events_of(struct trial *t, struct uuid id, uint32_t *ret_count)
{
    struct event *events;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_events(txn,
                       &(struct store_stream){
                           .job = id, .after = 0, .limit = STORE_EVENTS_MAX, .telemetry = false},
                       &t->w.arena, &events, ret_count, &t->w.err));
    rollback(t, txn);
    return events;
}

/* Each event is bound to the one before by hashes that need nothing but what is stored. */
static void assert_chain(struct trial *t, struct uuid id)
{
    struct job_slice slice = whole(t, id);
    uint8_t previous[HASH_LEN] = {0};
    uint32_t count;
    struct event *events = events_of(t, id, &count);
    assert_int_equal(count, slice.job.version);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t digest[HASH_LEN];
        uint8_t hash[HASH_LEN];
        assert_int_equal(events[i].version, i + 1);
        event_digest(&events[i], slice.job.salt, digest);
        if (!events[i].redacted)
            assert_memory_equal(events[i].digest, digest, HASH_LEN);
        event_hash(&events[i], previous, hash);
        assert_memory_equal(events[i].hash, hash, HASH_LEN);
        memcpy(previous, hash, HASH_LEN);
    }
    assert_memory_equal(previous, slice.job.head, HASH_LEN);
}

static void events_come_back_byte_for_byte(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct appended appended[] = {
        {STR("billing.invoice_sent"), STR("{ \"n\" : 1.10 , \"s\":\"\\u00e9'\\\\\" }")},
        {STR("node_started"), absent},
        {STR("x.y"), STR("null")},
    };
    struct command append = by_worker(&t->w, COMMAND_APPEND);
    append.append.expected_version = -1;
    append.append.events = appended;
    append.append.count = 3;
    append.actor = STR("w1 'the \"first\"");
    struct change change;
    ok(t, decide(t, &slice, &append, &change));
    assert_int_equal(change.event_count, 3);
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
    uint32_t count;
    struct event *events = events_of(t, id, &count);
    assert_int_equal(count, 6);
    for (uint32_t i = 0; i < 3; i++)
        assert_same_event(&events[3 + i], &change.events[i]);
    assert_chain(t, id);
}

static void the_chain_holds_over_a_whole_life(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.correlation_id = STR("corr");
    struct uuid id = submit_spec(t, "a", spec);
    act(t, id, claim_by("w1", false));
    act(t, id, by_worker(&t->w, COMMAND_START));
    act(t, id, begin_of(&t->w, "one", NULL));
    act(t, id, commit_of(&t->w, "one", "{'a':1}"));
    act(t, id, complete_with(&t->w, "[1, 2]"));
    assert_chain(t, id);
    assert_string_equal(stream(t, id), "job_created job_leased job_running tool_called "
                                       "tool_returned job_completed");
}

/* ---- leases ---- */

static struct command beat_of(struct trial *t, const char *progress, const char *cursor)
{
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = progress == NULL ? absent : js(&t->w, progress);
    beat.heartbeat.cursor = str_from(cursor);
    return beat;
}

static void a_heartbeat_moves_the_lease_and_nothing_else(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    struct job_slice before = whole(t, id);
    const char *events = stream(t, id);
    advance(t, 10);
    act(t, id, beat_of(t, "{'n':1}", "page 1"));
    struct job_slice after = whole(t, id);
    assert_true(after.job.lease.beat_at == at(10));
    assert_true(after.job.lease.expires_at == before.job.lease.expires_at + 10000);
    assert_text(after.job.cursor, "page 1");
    assert_str(after.job.progress, js(&t->w, "{'n':1}"));
    assert_int_equal(after.job.version, before.job.version);
    assert_true(after.job.updated_at == before.job.updated_at);
    assert_string_equal(stream(t, id), events);
    after.job.lease.beat_at = before.job.lease.beat_at;
    after.job.lease.expires_at = before.job.lease.expires_at;
    after.job.cursor = before.job.cursor;
    after.job.progress = before.job.progress;
    assert_same_row(t, &after, &before);
}

static void a_heartbeat_without_progress_keeps_what_the_last_one_brought(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    act(t, id, beat_of(t, "1", "c1"));
    advance(t, 1);
    act(t, id, beat_of(t, NULL, NULL));
    assert_text(whole(t, id).job.cursor, "c1");
    assert_text(whole(t, id).job.progress, "1");
}

static void an_ended_lease_is_gone_and_its_progress_stays(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    act(t, id, beat_of(t, "{'n':1}", "page 1"));
    act(t, id, by_worker(&t->w, COMMAND_RELEASE));
    struct job_slice slice = whole(t, id);
    assert_false(slice.job.lease.live);
    assert_text(slice.job.cursor, "page 1");
    advance(t, 3600);
    assert_string_equal(due(t), "");
    assert_string_equal(claim_next(t, NULL), "a");
    slice = whole(t, id);
    assert_true(slice.job.lease.beat_at == at(3600));
    assert_text(slice.job.cursor, "page 1");
}

/* ---- purging ---- */

static void purge(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    load_whole(t, txn, id);
    struct store_write write = {.purged = &id, .purged_count = 1};
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
}

static void a_purged_job_is_gone_with_all_that_it_had(void **state)
{
    struct trial *t = *state;
    struct uuid kept = submit(t, "kept");
    const char *before = everything(t);
    struct spec spec = world_spec();
    spec.idempotency_key = STR("k");
    struct uuid id = submit_spec(t, "a", spec);
    act(t, id, claim_by("w1", true));
    act(t, id, beat_of(t, "1", "c"));
    act(t, id, begin_of(&t->w, "one", NULL));
    act(t, id, signal_of(&t->w, "k", NULL));
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    purge(t, id);
    assert_string_equal(everything(t), before);
    assert_int_equal(whole(t, id).job.status, JOB_NONE);
    assert_string_equal(stream(t, id), "");
    struct store_parts parts = {.job = id, .all_effects = true, .all_signals = true};
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_load_parts(txn, &parts, 1, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(parts.effect_count + parts.signal_count, 0);
    assert_int_equal(whole(t, kept).job.status, JOB_QUEUED);
}

static void a_purged_plan_leaves_no_steps_in_lanes_and_no_leases(void **state)
{
    struct trial *t = *state;
    put_resource(t, "r1", at(500));
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    claim_next(t, "r1");
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    purge(t, id);
    assert_string_equal(ready(t), "");
    advance(t, 100);
    assert_string_equal(due(t), "");
    struct store_parts parts = {.job = id, .all_steps = true};
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_load_parts(txn, &parts, 1, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(parts.step_count, 0);
}

static void a_purged_job_frees_its_idempotency_key(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.idempotency_key = STR("k");
    struct uuid first = submit_spec(t, "a", spec);
    act(t, first, cancel_by(CANCEL_HARD, "no"));
    purge(t, first);
    struct uuid second = submit_spec(t, "b", spec);
    assert_int_equal(whole(t, second).job.status, JOB_QUEUED);
}

/* ---- erasing ---- */

static void redact(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct change change = {.before = load_whole(t, txn, id), .taken_step = STEP_NONE};
    change.redact = true;
    ok(t, job_slice_copy(&change.before, &t->w.arena, &change.after));
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
    struct job_slice read = whole(t, id);
    assert_text(read.job.spec.payload, NULL);
    assert_text(read.job.spec.goal, NULL);
    assert_text(read.job.spec.labels, NULL);
}

static void erasing_takes_payloads_and_salt_and_leaves_the_chain(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.payload = js(&t->w, "{'secret':1}");
    spec.labels = js(&t->w, "{'name':'secret'}");
    spec.idempotency_key = STR("k");
    struct uuid id = submit_spec(t, "secret", spec);
    act(t, id, claim_by("w1", true));
    act(t, id, beat_of(t, "'secret'", "secret"));
    act(t, id, begin_of(&t->w, "one", "{'secret':2}"));
    act(t, id, commit_of(&t->w, "one", "{'secret':3}"));
    act(t, id, signal_of(&t->w, "k", "{'secret':4}"));
    act(t, id, complete_with(&t->w, "{'secret':5}"));
    struct job_slice before = whole(t, id);
    redact(t, id);
    struct job_slice after = whole(t, id);
    static const uint8_t no_salt[SALT_LEN];
    assert_memory_equal(after.job.salt, no_salt, SALT_LEN);
    assert_memory_equal(after.job.head, before.job.head, HASH_LEN);
    assert_int_equal(after.job.version, before.job.version);
    assert_int_equal(after.job.status, JOB_COMPLETED);
    assert_text(after.job.result, NULL);
    assert_text(after.job.spec.idempotency_key, "k");
    assert_text(after.effects[0].result, NULL);
    assert_text(after.signals[0].payload, NULL);
    uint32_t count;
    struct event *events = events_of(t, id, &count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(events[i].redacted);
        assert_text(events[i].payload, NULL);
    }
    assert_chain(t, id);
    assert_null(strstr(everything(t), "secret\""));
}

/* Events of a text each, by an operator or by who holds the job. */
static void append_long(struct trial *t, struct uuid id, bool is_worker, uint32_t count)
{
    struct appended appended = {
        STR("billing.invoice_sent"),
        js(&t->w, "{'secret':'0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 "
                  "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789'}")};
    struct command append = is_worker ? by_worker(&t->w, COMMAND_APPEND) : by_user(COMMAND_APPEND);
    append.append.expected_version = -1;
    append.append.events = &appended;
    append.append.count = 1;
    for (uint32_t i = 0; i < count; i++)
        act(t, id, append);
}

/* However a store packs events, at some length it must begin anew: beside a lease, without one, and
 * when the one follows the other. */
static void a_long_history_is_whole_while_it_grows_and_after_it_is_erased(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "long");
    append_long(t, id, false, 30);
    assert_chain(t, id);
    for (uint32_t attempt = 0; attempt < 3; attempt++) {
        act(t, id, claim_by("w1", true));
        append_long(t, id, true, attempt * 15);
        assert_chain(t, id);
        act(t, id, by_worker(&t->w, COMMAND_RELEASE));
        append_long(t, id, false, 7);
        assert_chain(t, id);
    }
    uint32_t count;
    struct event *events = events_of(t, id, &count);
    for (uint32_t after = 1; after < count; after += 13) {
        struct event *page;
        uint32_t found;
        struct store_txn *txn = begin(t, STORE_READ);
        struct store_stream stream = {.job = id, .after = after, .limit = 5};
        ok(t, store_events(txn, &stream, &t->w.arena, &page, &found, &t->w.err));
        rollback(t, txn);
        assert_int_equal(found, count - after < 5 ? count - after : 5);
        for (uint32_t i = 0; i < found; i++)
            assert_same_event(&page[i], &events[after + i]);
    }
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    redact(t, id);
    assert_chain(t, id);
    assert_null(strstr(everything(t), "0123456789"));
    purge(t, id);
    assert_int_equal((events_of(t, id, &count), count), 0);
}

static void an_erased_job_says_so_wherever_it_is_found(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    act(t, id, beat_of(t, "1", "c"));
    act(t, id, fail_as(&t->w, CLASS_PERMANENT));
    redact(t, id);
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_job *list;
    struct event *beats;
    uint32_t count;
    uint32_t beat_count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    ok(t,
       store_list(txn, &(struct store_filter){.limit = 10}, &t->w.arena, &list, &count, &t->w.err));
    ok(t, store_events(
              txn, &(struct store_stream){.job = id, .after = 0, .limit = 10, .telemetry = true},
              &t->w.arena, &beats, &beat_count, &t->w.err));
    rollback(t, txn);
    assert_true(job.redacted);
    assert_int_equal(count, 1);
    assert_true(list[0].redacted);
    assert_int_equal(beat_count, 0);
    assert_text(job.slice.job.spec.kind, "mail");
    assert_text(job.slice.job.spec.queue, "default");
}

static void an_erased_job_stays_erased_when_it_is_written_again(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    act(t, id, fail_as(&t->w, CLASS_PERMANENT));
    redact(t, id);
    struct appended appended = {STR("job_compensated"), STR("{\"by\":\"hand\"}")};
    struct command append = by_user(COMMAND_APPEND);
    append.append.expected_version = -1;
    append.append.events = &appended;
    append.append.count = 1;
    act(t, id, append);
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_true(job.redacted);
    assert_int_equal(job.slice.job.version, 5);
    uint32_t count;
    struct event *events = events_of(t, id, &count);
    assert_true(events[0].redacted && !events[4].redacted);
    assert_str(events[4].payload, appended.payload);
}

struct conformance_tests conformance_write(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(a_rollback_leaves_no_trace),
        TRIAL(one_write_changes_all_that_a_batch_names),
        TRIAL(a_rolled_back_search_and_promotion_leave_no_trace),
        TRIAL(a_version_that_is_there_is_refused_and_nothing_is_written),
        TRIAL(a_job_cannot_be_created_twice),
        TRIAL(a_batch_of_many_jobs_is_written_at_once),
        TRIAL(events_come_back_byte_for_byte),
        TRIAL(the_chain_holds_over_a_whole_life),
        TRIAL(a_heartbeat_moves_the_lease_and_nothing_else),
        TRIAL(a_heartbeat_without_progress_keeps_what_the_last_one_brought),
        TRIAL(an_ended_lease_is_gone_and_its_progress_stays),
        TRIAL(a_purged_job_is_gone_with_all_that_it_had),
        TRIAL(a_purged_plan_leaves_no_steps_in_lanes_and_no_leases),
        TRIAL(a_purged_job_frees_its_idempotency_key),
        TRIAL(erasing_takes_payloads_and_salt_and_leaves_the_chain),
        TRIAL(a_long_history_is_whole_while_it_grows_and_after_it_is_erased),
        TRIAL(an_erased_job_says_so_wherever_it_is_found),
        TRIAL(an_erased_job_stays_erased_when_it_is_written_again),
    };
    return TRIALS(tests);
}
