/* What is written and what a later transaction loads: jobs, keys, requests, resources, settings. */
#include "store/conformance.h"

static void a_job_that_was_never_there_loads_as_none(void **state)
{
    struct trial *t = *state;
    struct uuid id = new_id(t);
    struct job_slice slice = whole(t, id);
    assert_int_equal(slice.job.status, JOB_NONE);
    assert_true(uuid_eq(slice.job.id, id));
    assert_int_equal(slice.job.version, 0);
}

static void loading_tells_the_time_of_the_store(void **state)
{
    struct trial *t = *state;
    struct store_load load;
    advance(t, 12);
    struct store_txn *txn = begin_empty(t, &load);
    assert_true(load.now == at(12));
    rollback(t, txn);
}

/* act compares after every command; this goes through the members that a job can have. */
static void a_job_comes_back_as_it_was_written_all_its_life(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.payload = js(&t->w, "{'to':'ann','n':1.10}");
    spec.priority = -5;
    spec.idempotency_key = STR("order 7");
    spec.labels = js(&t->w, "{'team':'a','zone':'eu'}");
    spec.agent_id = STR("agent-1");
    spec.correlation_id = STR("corr-1");
    spec.capabilities = js(&t->w, "['gpu','fast']");
    spec.timeout_ms = 60000;
    struct uuid id = submit_spec(t, "a", spec);
    struct names capabilities = {(struct str[]){STR("fast"), STR("gpu")}, 2};
    struct command claim = claim_by("w1", true);
    claim.claim.capabilities = &capabilities;
    act(t, id, claim);
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = js(&t->w, "{'done':3}");
    beat.heartbeat.cursor = STR("page 3");
    advance(t, 1);
    act(t, id, beat);
    act(t, id, begin_of(&t->w, "charge", "{'amount':1}"));
    act(t, id, commit_of(&t->w, "charge", "{'ok':true}"));
    act(t, id, signal_of(&t->w, "early", "{'n':1}"));
    act(t, id, wait_for(&t->w, "paid", 30000));
    act(t, id, signal_of(&t->w, "paid", "{'n':2}"));
    act(t, id, claim);
    act(t, id, fail_as(&t->w, CLASS_TRANSIENT));
    advance(t, 3600);
    act(t, id, claim);
    act(t, id, fail_as(&t->w, CLASS_PERMANENT));
    assert_text(job_status_name(whole(t, id).job.status), "failed");
    act(t, id, requeue_by("again", true));
    act(t, id, claim);
    act(t, id, begin_of(&t->w, "charge", "{'amount':2}"));
    act(t, id, commit_of(&t->w, "charge", NULL));
    act(t, id, complete_with(&t->w, "{'sent':true}"));
    assert_text(job_status_name(whole(t, id).job.status), "completed");
}

static void texts_that_are_absent_and_texts_that_are_empty_stay_apart(void **state)
{
    struct trial *t = *state;
    struct uuid empty = submit(t, "");
    struct job_slice slice = whole(t, empty);
    assert_text(slice.job.spec.goal, "");
    assert_text(slice.job.cursor, NULL);
    assert_text(slice.job.spec.labels, NULL);
    act(t, empty, claim_by("w1", true));
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("");
    act(t, empty, beat);
    slice = whole(t, empty);
    assert_text(slice.job.cursor, "");
    assert_text(slice.job.progress, NULL);
    act(t, empty, complete_with(&t->w, NULL));
    assert_text(whole(t, empty).job.result, NULL);
}

/* Quotes of every dialect, escapes, wild cards, comments, and letters of four bytes. */
#define HOSTILE                                                                                    \
    "'; DROP TABLE jobs; -- \\ \"x\" %s %n {} $1 :a @b ?1 \xc3\xa9\xe2\x82\xac\xf0\x9f\x90\xa2"

static void hostile_bytes_come_back_as_they_went_in(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.kind = STR(HOSTILE);
    spec.queue = STR(HOSTILE);
    spec.idempotency_key = STR(HOSTILE);
    spec.agent_id = STR(HOSTILE);
    spec.correlation_id = STR(HOSTILE);
    spec.payload = STR("{ \"a\\u0000\\\\\\\"\" : \"'\\n\xf0\x9f\x90\xa2\" , \"b\":1.10e+2 }");
    struct uuid id = submit_spec(t, HOSTILE, spec);
    struct job_slice slice = whole(t, id);
    assert_str(slice.job.spec.payload, spec.payload);
    assert_str(slice.job.spec.kind, spec.kind);
    assert_str(slice.job.spec.queue, spec.queue);
    assert_str(slice.job.spec.goal, STR(HOSTILE));
    assert_string_equal(ready(t), HOSTILE);
    struct command claim = claim_by(HOSTILE, true);
    act(t, id, claim);
    act(t, id, begin_of(&t->w, HOSTILE, NULL));
    act(t, id, signal_of(&t->w, HOSTILE, NULL));
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = spec.payload;
    beat.heartbeat.cursor = STR(HOSTILE "\n\t");
    act(t, id, beat);

    struct store_key key = {.queue = STR(HOSTILE), .key = STR(HOSTILE)};
    struct store_load load = {.keys = &key, .key_count = 1};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_true(uuid_eq(key.slice.job.id, id));
}

static void a_payload_of_one_mebibyte_comes_back(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    struct str payload = filled(t, 'x', PAYLOAD_BYTES_MAX);
    ((char *)(uintptr_t)payload.at)[0] = '"';
    ((char *)(uintptr_t)payload.at)[payload.len - 1] = '"';
    spec.payload = payload;
    struct uuid id = submit_spec(t, "a", spec);
    assert_str(whole(t, id).job.spec.payload, payload);
    act(t, id, claim_by("w1", true));
    struct command complete = by_worker(&t->w, COMMAND_COMPLETE);
    complete.complete.result = payload;
    act(t, id, complete);
    assert_str(whole(t, id).job.result, payload);
}

static void names_of_128_bytes_come_back(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.kind = filled(t, 'k', NAME_BYTES_MAX);
    spec.queue = filled(t, 'q', NAME_BYTES_MAX);
    spec.idempotency_key = filled(t, 'i', NAME_BYTES_MAX);
    spec.agent_id = filled(t, 'a', NAME_BYTES_MAX);
    spec.correlation_id = filled(t, 'c', NAME_BYTES_MAX);
    struct uuid id = submit_spec(t, "a", spec);
    assert_str(whole(t, id).job.spec.idempotency_key, spec.idempotency_key);
    assert_string_equal(claim_next(t, NULL), "a");
}

static void many_jobs_load_at_once_whether_or_not_they_are_there(void **state)
{
    struct trial *t = *state;
    enum { COUNT = 50 };
    struct store_job jobs[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        jobs[i].id = new_id(t);
        if (i % 3 != 0)
            submit(t, numbered(&t->w, "job", i));
        else
            t->job_count++; /* passes over an id */
    }
    struct store_load load = {.jobs = jobs, .job_count = COUNT};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    for (int i = 0; i < COUNT; i++) {
        assert_true(uuid_eq(jobs[i].slice.job.id, jobs[i].id));
        assert_int_equal(jobs[i].slice.job.status, i % 3 != 0 ? JOB_QUEUED : JOB_NONE);
        if (i % 3 != 0)
            assert_text(jobs[i].slice.job.spec.goal, numbered(&t->w, "job", i));
        assert_false(jobs[i].redacted);
    }
}

static struct job_slice job_of_key(struct trial *t, const char *queue, const char *text)
{
    struct store_key key = {.queue = str_from(queue), .key = str_from(text)};
    struct store_load load = {.keys = &key, .key_count = 1};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    return key.slice;
}

static void an_idempotency_key_finds_its_job_in_its_own_queue_only(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.idempotency_key = STR("k");
    struct uuid a = submit_spec(t, "a", spec);
    spec.queue = STR("other");
    struct uuid b = submit_spec(t, "b", spec);
    struct job_slice found = job_of_key(t, "default", "k");
    assert_true(uuid_eq(found.job.id, a));
    assert_text(found.job.spec.goal, "a");
    assert_true(uuid_eq(job_of_key(t, "other", "k").job.id, b));
    assert_int_equal(job_of_key(t, "third", "k").job.status, JOB_NONE);
    assert_int_equal(job_of_key(t, "default", "K").job.status, JOB_NONE);
    assert_int_equal(job_of_key(t, "default", "").job.status, JOB_NONE);
}

static void a_second_job_with_the_same_key_in_the_same_queue_is_refused(void **state)
{
    struct trial *t = *state;
    struct spec spec = world_spec();
    spec.idempotency_key = STR("k");
    submit_spec(t, "a", spec);
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice none = load_whole(t, txn, new_id(t));
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    struct change change;
    ok(t, decide(t, &none, &command, &change));
    struct store_job_write write = write_of(t, &change);
    struct store_write all = {.jobs = &write, .job_count = 1};
    assert_int_not_equal(refused_write(t, txn, &all), ERR_OK);
    assert_text(job_of_key(t, "default", "k").job.spec.goal, "a");
    assert_int_equal(whole(t, none.job.id).job.status, JOB_NONE);
}

static struct store_request request_of(struct trial *t, const char *scope, const char *key)
{
    struct store_request request = {.scope = str_from(scope), .key = str_from(key)};
    struct store_load load = {.requests = &request, .request_count = 1};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    return request;
}

static void put_request(struct trial *t, const char *scope, const char *key, struct str answer)
{
    struct request_record record = {
        .scope = str_from(scope), .key = str_from(key), .at = t->now, .answer = answer};
    for (int i = 0; i < HASH_LEN; i++)
        record.body_hash[i] = (uint8_t)(answer.len + (size_t)i);
    write_other(t, &(struct store_write){.requests = &record, .request_count = 1});
}

static void a_request_is_kept_and_a_later_one_takes_its_place(void **state)
{
    struct trial *t = *state;
    assert_false(request_of(t, "s", "k").found);
    put_request(t, "s", "k", STR("{\"first\":1}"));
    put_request(t, "s", "other", STR("no"));
    put_request(t, "s2", "k", STR("no"));
    struct store_request request = request_of(t, "s", "k");
    assert_true(request.found);
    assert_str(request.record.answer, STR("{\"first\":1}"));
    assert_str(request.record.scope, STR("s"));
    assert_str(request.record.key, STR("k"));
    assert_true(request.record.at == at(0));
    assert_int_equal(request.record.body_hash[0], 11);
    assert_int_equal(request.record.body_hash[31], 11 + 31);
    advance(t, 5);
    put_request(t, "s", "k", STR("second\0and a zero"));
    request = request_of(t, "s", "k");
    assert_str(request.record.answer, STR("second\0and a zero"));
    assert_true(request.record.at == at(5));
    assert_str(request_of(t, "s", "other").record.answer, STR("no"));
}

static void an_answer_may_be_empty(void **state)
{
    struct trial *t = *state;
    put_request(t, "s", "k", STR(""));
    struct store_request request = request_of(t, "s", "k");
    assert_true(request.found);
    assert_str(request.record.answer, STR(""));
}

static struct store_resource resource_of(struct trial *t, const char *id)
{
    struct store_resource resource = {.id = str_from(id)};
    struct store_load load = {.resources = &resource, .resource_count = 1};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    return resource;
}

static void a_resource_comes_back_renews_and_goes(void **state)
{
    struct trial *t = *state;
    assert_false(resource_of(t, "r1").found);
    struct str capabilities[] = {STR("gpu"), STR("'\"\\")};
    struct label labels[] = {{STR("zone"), STR("eu")}, {STR("empty"), STR("")}};
    struct resource resource = {
        .id = STR("r1"),
        .capabilities = {capabilities, 2},
        .labels = labels,
        .label_count = 2,
        .slots = 3,
        .expires_at = at(30),
        .draining = true,
        .queues = {capabilities, 2},
        .shared = true,
        .owned = true,
    };
    struct store_write write = {.resources = &resource, .resource_count = 1};
    write_other(t, &write);
    struct store_resource read = resource_of(t, "r1");
    assert_true(read.found);
    assert_str(read.resource.id, STR("r1"));
    assert_int_equal(read.resource.slots, 3);
    assert_int_equal(read.resource.used, 0);
    assert_true(read.resource.draining);
    assert_true(read.resource.expires_at == at(30));
    assert_int_equal(read.resource.capabilities.count, 2);
    assert_str(read.resource.capabilities.at[1], STR("'\"\\"));
    assert_int_equal(read.resource.label_count, 2);
    assert_str(read.resource.labels[1].key, STR("empty"));
    assert_str(read.resource.labels[1].value, STR(""));
    assert_int_equal(read.resource.queues.count, 2);
    assert_str(read.resource.queues.at[1], STR("'\"\\"));
    assert_true(read.resource.shared && read.resource.owned);
    resource.expires_at = at(60);
    resource.draining = resource.shared = false;
    resource.queues.count = 0;
    write_other(t, &write);
    read = resource_of(t, "r1");
    assert_true(read.resource.expires_at == at(60));
    assert_false(read.resource.draining || read.resource.shared);
    assert_int_equal(read.resource.queues.count, 0);
    struct str gone[] = {STR("r1"), STR("never there")};
    write_other(t, &(struct store_write){.resources_gone = gone, .resource_gone_count = 2});
    assert_false(resource_of(t, "r1").found);
}

static void a_resource_counts_the_live_leases_on_it(void **state)
{
    struct trial *t = *state;
    put_resource(t, "r1", at(1000));
    put_resource(t, "r2", at(1000));
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    assert_string_equal(claim_next(t, "r1"), "a.1");
    assert_string_equal(claim_next(t, "r2"), "a.2");
    assert_int_equal(resource_of(t, "r1").resource.used, 2);
    assert_int_equal(resource_of(t, "r2").resource.used, 1);
    act(t, id, complete_with(&t->w, NULL));
    assert_int_equal(resource_of(t, "r1").resource.used, 2);
    assert_int_equal(resource_of(t, "r2").resource.used, 0);
}

static void a_critic_takes_no_slot_of_the_resource_that_it_judges(void **state)
{
    struct trial *t = *state;
    put_resource(t, "r1", at(1000));
    struct uuid id = submit_plan(t, "a", "[{'id':'x','critic':true}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    assert_int_equal(resource_of(t, "r1").resource.used, 1);
    act(t, id, complete_with(&t->w, "1"));
    assert_int_equal(resource_of(t, "r1").resource.used, 0);
    act(t, id, judge_of("x"));
    assert_int_equal(resource_of(t, "r1").resource.used, 0);
    act(t, id, with_token(verdict_on(NULL, VERDICT_SWITCH_RESOURCE), t->w.token));
    struct job_slice slice = whole(t, id);
    assert_int_equal(slice.steps[0].avoided_count, 1);
    assert_text(slice.steps[0].avoided[0], "r1");
}

static void settings_of_kinds_are_loaded_by_name_until_nothing_is_set(void **state)
{
    struct trial *t = *state;
    struct store_kind kinds[] = {
        {STR("video"), {.lease_ttl_ms = 1000, .heartbeat_ms = 100, .timeout_ms = 5}},
        {STR("mail"), {.retention_ms = 77, .retry = {.max_attempts = 3}}},
    };
    write_other(t, &(struct store_write){.kinds = kinds, .kind_count = 2});
    struct store_load load;
    rollback(t, begin_empty(t, &load));
    assert_int_equal(load.kind_count, 2);
    assert_str(load.kinds[0].kind, STR("mail"));
    assert_int_equal(load.kinds[0].settings.retention_ms, 77);
    assert_int_equal(load.kinds[0].settings.retry.max_attempts, 3);
    assert_int_equal(load.kinds[0].settings.lease_ttl_ms, 0);
    assert_str(load.kinds[1].kind, STR("video"));
    assert_int_equal(load.kinds[1].settings.lease_ttl_ms, 1000);
    assert_int_equal(load.kinds[1].settings.heartbeat_ms, 100);
    kinds[0].settings = (struct kind_settings){0};
    kinds[1].settings.retention_ms = 78;
    write_other(t, &(struct store_write){.kinds = kinds, .kind_count = 2});
    rollback(t, begin_empty(t, &load));
    assert_int_equal(load.kind_count, 1);
    assert_int_equal(load.kinds[0].settings.retention_ms, 78);
}

static void paused_queues_are_loaded_sorted_until_they_resume(void **state)
{
    struct trial *t = *state;
    struct store_load load;
    rollback(t, begin_empty(t, &load));
    assert_int_equal(load.paused.count, 0);
    assert_int_equal(load.kind_count, 0);
    struct store_queue queues[] = {
        {STR("zoo"), true}, {STR("Bar"), true}, {STR("a'b"), true}, {STR("open"), false}};
    write_other(t, &(struct store_write){.queues = queues, .queue_count = 4});
    rollback(t, begin_empty(t, &load));
    assert_int_equal(load.paused.count, 3);
    assert_str(load.paused.at[0], STR("Bar"));
    assert_str(load.paused.at[1], STR("a'b"));
    assert_str(load.paused.at[2], STR("zoo"));
    queues[0].paused = false;
    write_other(t, &(struct store_write){.queues = queues, .queue_count = 4});
    rollback(t, begin_empty(t, &load));
    assert_int_equal(load.paused.count, 2);
    assert_str(load.paused.at[1], STR("a'b"));
}

static void a_reader_loads_what_a_writer_would(void **state)
{
    struct trial *t = *state;
    put_resource(t, "r1", at(1000));
    put_request(t, "s", "k", STR("answer"));
    struct spec spec = world_spec();
    spec.idempotency_key = STR("k");
    struct uuid id = submit_spec(t, "a", spec);
    struct store_job job = {.id = id};
    struct store_key key = {.queue = STR("default"), .key = STR("k")};
    struct store_request request = {.scope = STR("s"), .key = STR("k")};
    struct store_resource resource = {.id = STR("r1")};
    struct store_load load = {.jobs = &job,
                              .job_count = 1,
                              .keys = &key,
                              .key_count = 1,
                              .requests = &request,
                              .request_count = 1,
                              .resources = &resource,
                              .resource_count = 1};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(job.slice.job.status, JOB_QUEUED);
    assert_same_row(t, &job.slice, &key.slice);
    assert_true(request.found && resource.found);
    assert_true(load.now == at(0));
}

static void what_was_loaded_does_not_change_when_its_source_does(void **state)
{
    struct trial *t = *state;
    char goal[] = "goal";
    char payload[] = "{\"a\":1}";
    struct spec spec = world_spec();
    spec.payload = str_from(payload);
    struct uuid id = submit_spec(t, goal, spec);
    memset(goal, 'x', 4);
    memset(payload, 'x', sizeof payload - 1);
    struct job_slice slice = whole(t, id);
    assert_text(slice.job.spec.goal, "goal");
    assert_text(slice.job.spec.payload, "{\"a\":1}");
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    assert_int_equal(slice.job.status, JOB_QUEUED);
    assert_text(slice.job.spec.goal, "goal");
}

struct conformance_tests conformance_load(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(a_job_that_was_never_there_loads_as_none),
        TRIAL(loading_tells_the_time_of_the_store),
        TRIAL(a_job_comes_back_as_it_was_written_all_its_life),
        TRIAL(texts_that_are_absent_and_texts_that_are_empty_stay_apart),
        TRIAL(hostile_bytes_come_back_as_they_went_in),
        TRIAL(a_payload_of_one_mebibyte_comes_back),
        TRIAL(names_of_128_bytes_come_back),
        TRIAL(many_jobs_load_at_once_whether_or_not_they_are_there),
        TRIAL(an_idempotency_key_finds_its_job_in_its_own_queue_only),
        TRIAL(a_second_job_with_the_same_key_in_the_same_queue_is_refused),
        TRIAL(a_request_is_kept_and_a_later_one_takes_its_place),
        TRIAL(an_answer_may_be_empty),
        TRIAL(a_resource_comes_back_renews_and_goes),
        TRIAL(a_resource_counts_the_live_leases_on_it),
        TRIAL(a_critic_takes_no_slot_of_the_resource_that_it_judges),
        TRIAL(settings_of_kinds_are_loaded_by_name_until_nothing_is_set),
        TRIAL(paused_queues_are_loaded_sorted_until_they_resume),
        TRIAL(a_reader_loads_what_a_writer_would),
        TRIAL(what_was_loaded_does_not_change_when_its_source_does),
    };
    return TRIALS(tests);
}
