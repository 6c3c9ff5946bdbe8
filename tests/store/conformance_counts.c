/* What an operator looks at: counts of jobs, who holds leases, resources, open questions; and
 * copies of the store. */
#include "store/conformance.h"

static struct uuid submit_to(struct trial *t, const char *name, const char *queue)
{
    struct spec spec = world_spec();
    spec.queue = str_from(queue);
    return submit_spec(t, name, spec);
}

static void purge(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    load_whole(t, txn, id);
    struct store_write write = {.purged = &id, .purged_count = 1};
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
}

/* ---- queues ---- */

static void jobs_are_counted_by_queue_and_status(void **state)
{
    struct trial *t = *state;
    assert_string_equal(queues(t), "");
    submit_to(t, "a", "mail");
    submit_to(t, "b", "mail");
    submit_to(t, "c", "video");
    struct uuid d = submit_to(t, "d", "mail");
    act(t, d, claim_by("w1", true));
    struct uuid e = submit_to(t, "e", "mail");
    act(t, e, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(queues(t),
                        "mail queued 2@0, mail running 1@0, mail cancelled 1, video queued 1@0");
}

static void a_count_says_how_old_the_oldest_is(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_to(t, "a", "mail");
    advance(t, 5);
    submit_to(t, "b", "mail");
    advance(t, 5);
    submit_to(t, "c", "mail");
    assert_string_equal(queues(t), "mail queued 3@0");
    act(t, a, claim_by("w1", true));
    assert_string_equal(queues(t), "mail queued 2@5, mail running 1@0");
}

static void a_job_is_counted_where_it_stands_and_once(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", false));
    assert_string_equal(queues(t), "default leased 1@0");
    act(t, id, by_worker(&t->w, COMMAND_START));
    assert_string_equal(queues(t), "default running 1@0");
    act(t, id, complete_with(&t->w, "1"));
    assert_string_equal(queues(t), "default completed 1");
    purge(t, id);
    assert_string_equal(queues(t), "");
}

static void a_job_that_was_rolled_back_is_not_counted(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct command claim = claim_by("w1", true);
    struct change change;
    ok(t, decide(t, &slice, &claim, &change));
    ok(t, write_one(t, txn, &change));
    rollback(t, txn);
    assert_string_equal(queues(t), "default queued 1@0");
    assert_string_equal(workers(t), "");
}

static void queues_come_in_the_order_of_their_bytes(void **state)
{
    struct trial *t = *state;
    static const char *const names[] = {"b", "a", "\xc3\xa4", "Z", "a b", "aa", "A"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        submit_to(t, numbered(&t->w, "j", (int)i), names[i]);
    assert_string_equal(queues(t), "A queued 1@0, Z queued 1@0, a queued 1@0, a b queued 1@0, "
                                   "aa queued 1@0, b queued 1@0, \xc3\xa4 queued 1@0");
}

static void a_paused_queue_without_jobs_is_not_counted(void **state)
{
    struct trial *t = *state;
    struct store_queue queue = {.queue = STR("mail"), .paused = true};
    struct store_write write = {.queues = &queue, .queue_count = 1};
    write_other(t, &write);
    assert_string_equal(queues(t), "");
}

static void a_redacted_job_is_counted_in_its_queue(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_to(t, "a", "mail");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct change change = {.before = load_whole(t, txn, id), .taken_step = STEP_NONE};
    change.redact = true;
    ok(t, job_slice_copy(&change.before, &t->w.arena, &change.after));
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
    assert_string_equal(queues(t), "mail queued 1@0");
}

/* ---- workers ---- */

static void workers_are_those_who_hold_leases(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    submit(t, "b");
    assert_string_equal(workers(t), "");
    act(t, a, claim_by("w1", true));
    assert_string_equal(workers(t), "w1 1 beat 0 ends 30");
    act(t, a, complete_with(&t->w, NULL));
    assert_string_equal(workers(t), "");
}

static void a_worker_beats_as_late_and_ends_as_early_as_any_of_its_leases(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit(t, "a");
    struct uuid b = submit(t, "b");
    act(t, a, claim_by("w1", true));
    advance(t, 4);
    act(t, b, claim_by("w1", true));
    assert_string_equal(workers(t), "w1 2 beat 4 ends 30");
    advance(t, 4);
    act(t, b, by_worker(&t->w, COMMAND_HEARTBEAT));
    assert_string_equal(workers(t), "w1 2 beat 8 ends 30");
}

static void a_worker_is_told_apart_for_each_resource(void **state)
{
    struct trial *t = *state;
    struct uuid plan = submit_plan(t, "p", "[{'id':'x'},{'id':'y'},{'id':'z'}]");
    struct uuid job = submit(t, "a");
    struct uuid other = submit(t, "b");
    act(t, plan, step_claim_of(&t->w, "x", "r2", true));
    act(t, plan, step_claim_of(&t->w, "y", "r1", true));
    act(t, plan, step_claim_of(&t->w, "z", "r1", true));
    act(t, job, claim_by("w1", true));
    act(t, other, claim_by("w0", true));
    assert_string_equal(workers(t), "w0 1 beat 0 ends 30, w1 1 beat 0 ends 30, "
                                    "w1/r1 2 beat 0 ends 30, w1/r2 1 beat 0 ends 30");
}

static struct uuid id_of(uint32_t number)
{
    uint8_t random[10] = {0};
    for (int i = 0; i < 4; i++)
        random[4 + i] = (uint8_t)(number >> (24 - 8 * i));
    return uuid_v7(WORLD_START_MS, random);
}

/* Jobs that are created and claimed at once, each by a worker of its own. */
static void submit_claimed(struct trial *t, uint32_t count)
{
    struct change *changes = calloc(count, sizeof *changes);
    struct store_job_write *jobs = calloc(count, sizeof *jobs);
    assert_non_null(changes);
    assert_non_null(jobs);
    for (uint32_t i = 0; i < count; i++) {
        struct spec spec = world_spec();
        struct command submit = by_user(COMMAND_SUBMIT);
        struct command claim = claim_by(numbered(&t->w, "w", 10000 + (int)i), true);
        struct job_slice none;
        struct change first;
        struct change second;
        submit.submit.spec = &spec;
        job_slice_init(&none, id_of(i), 1);
        ok(t, decide(t, &none, &submit, &first));
        ok(t, decide(t, &first.after, &claim, &second));
        uint32_t events = first.event_count + second.event_count;
        struct event *all = arena_zalloc(&t->w.arena, events, sizeof *all);
        assert_non_null(all);
        memcpy(all, first.events, first.event_count * sizeof *all);
        memcpy(all + first.event_count, second.events, second.event_count * sizeof *all);
        changes[i] = second;
        changes[i].before = none;
        changes[i].events = all;
        changes[i].event_count = events;
        jobs[i] = write_of(t, &changes[i]);
    }
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_write write = {.jobs = jobs, .job_count = count};
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
    free(jobs);
    free(changes);
}

static void no_more_workers_are_told_than_there_is_room_for(void **state)
{
    struct trial *t = *state;
    struct store_worker *rows;
    uint32_t count;
    submit_claimed(t, STORE_WORKERS_MAX + 1);
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_workers(txn, NULL, &t->w.arena, &rows, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, STORE_WORKERS_MAX);
    assert_text(rows[0].worker_id, "w10000");
    assert_text(rows[count - 1].worker_id, "w19999");
}

/* ---- steps ---- */

static void steps_are_counted_by_state(void **state)
{
    struct trial *t = *state;
    assert_string_equal(step_counts(t), "");
    submit(t, "a");
    assert_string_equal(step_counts(t), "");
    struct uuid b = submit_plan(t, "b", "[{'id':'x'},{'id':'y','deps':['x']}]");
    struct uuid c = submit_plan(t, "c", "[{'id':'x'}]");
    assert_string_equal(step_counts(t), "pending 2, waiting_deps 1");
    put_resource(t, "r1", at(60));
    act(t, b, step_claim_of(&t->w, "x", "r1", true));
    assert_string_equal(step_counts(t), "pending 1, waiting_deps 1, running 1");
    act(t, b, complete_with(&t->w, "1"));
    assert_string_equal(step_counts(t), "pending 1, waiting_deps 1, succeeded 1");
    /* A job that has ended still has its steps, until it is deleted. */
    act(t, c, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(step_counts(t), "pending 1, waiting_deps 1, succeeded 1");
    purge(t, c);
    assert_string_equal(step_counts(t), "waiting_deps 1, succeeded 1");
}

/* ---- resources ---- */

static void resources_come_by_id_with_what_is_used_of_them(void **state)
{
    struct trial *t = *state;
    assert_string_equal(resources(t), "");
    put_resource(t, "r2", at(60));
    put_resource(t, "r1", at(60));
    put_resource(t, "R", at(60));
    struct uuid plan = submit_plan(t, "p", "[{'id':'x'},{'id':'y'}]");
    act(t, plan, step_claim_of(&t->w, "x", "r2", true));
    act(t, plan, step_claim_of(&t->w, "y", "r2", true));
    assert_string_equal(resources(t), "R 0/10, r1 0/10, r2 2/10");
    struct str gone = STR("r1");
    struct store_write write = {.resources_gone = &gone, .resource_gone_count = 1};
    write_other(t, &write);
    assert_string_equal(resources(t), "R 0/10, r2 2/10");
}

static void a_resource_is_as_load_would_give_it(void **state)
{
    struct trial *t = *state;
    struct resource put = {.id = STR("r1"), .slots = 3, .expires_at = at(60), .draining = true};
    struct str capability = STR("gpu");
    struct label label = {.key = STR("zone"), .value = STR("eu")};
    put.capabilities = (struct names){&capability, 1};
    put.labels = &label;
    put.label_count = 1;
    struct store_write write = {.resources = &put, .resource_count = 1};
    write_other(t, &write);
    struct resource *rows;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_resources(txn, &t->w.arena, &rows, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 1);
    assert_text(rows[0].id, "r1");
    assert_int_equal(rows[0].slots, 3);
    assert_true(rows[0].expires_at == at(60));
    assert_true(rows[0].draining);
    assert_int_equal(rows[0].capabilities.count, 1);
    assert_text(rows[0].capabilities.at[0], "gpu");
    assert_int_equal(rows[0].label_count, 1);
    assert_text(rows[0].labels[0].key, "zone");
    assert_text(rows[0].labels[0].value, "eu");
}

static void no_more_resources_are_told_than_there_is_room_for(void **state)
{
    struct trial *t = *state;
    enum { COUNT = STORE_RESOURCES_MAX + 1 };
    struct resource *all = calloc(COUNT, sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < COUNT; i++)
        all[i] = (struct resource){
            .id = str_from(numbered(&t->w, "r", 10000 + i)), .slots = 1, .expires_at = at(60)};
    struct store_write write = {.resources = all, .resource_count = COUNT};
    write_other(t, &write);
    free(all);
    struct resource *rows;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_resources(txn, &t->w.arena, &rows, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, STORE_RESOURCES_MAX);
    assert_text(rows[count - 1].id, "r19999");
}

/* ---- questions ---- */

static void wait_for_a_person(struct trial *t, struct uuid id)
{
    act(t, id, claim_by("w1", true));
    struct command wait = wait_for(&t->w, "ok?", 0);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.prompt = STR("Really?");
    act(t, id, wait);
}

/* The worker of a step asks a person. */
static void ask_in_step(struct trial *t, struct uuid id, const char *step)
{
    act(t, id, step_claim_of(&t->w, step, "r1", true));
    struct command ask = with_token(verdict_on(NULL, VERDICT_NEEDS_USER), t->w.token);
    ask.actor = STR("w1");
    act(t, id, ask);
}

static void a_job_that_waits_for_a_person_asks_until_it_is_answered(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    struct uuid b = submit(t, "b");
    assert_string_equal(asking(t), "");
    wait_for_a_person(t, b);
    assert_string_equal(asking(t), "b");
    act(t, b, signal_of(&t->w, "ok?", "true"));
    assert_string_equal(asking(t), "");
}

static void a_job_that_waits_for_something_else_does_not_ask(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    act(t, id, wait_for(&t->w, "paid", 0));
    assert_string_equal(asking(t), "");
}

static void a_plan_asks_while_one_of_its_steps_does(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    assert_string_equal(asking(t), "");
    ask_in_step(t, id, "x");
    ask_in_step(t, id, "y");
    assert_string_equal(asking(t), "a");
    act(t, id, answer_of(&t->w, "x", "1"));
    assert_string_equal(asking(t), "a");
    act(t, id, answer_of(&t->w, "y", "1"));
    assert_string_equal(asking(t), "");
}

static void an_ended_job_asks_nobody(void **state)
{
    struct trial *t = *state;
    struct uuid plan = submit_plan(t, "plan", "[{'id':'x'}]");
    struct uuid job = submit(t, "job");
    ask_in_step(t, plan, "x");
    wait_for_a_person(t, job);
    assert_string_equal(asking(t), "job plan");
    act(t, plan, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(asking(t), "job");
    act(t, job, cancel_by(CANCEL_HARD, "no"));
    assert_string_equal(asking(t), "");
}

static void asking_goes_with_other_filters_and_pages(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < 6; i++)
        wait_for_a_person(t, submit_to(t, numbered(&t->w, "j", i), i % 2 == 0 ? "even" : "odd"));
    submit_to(t, "other", "even");
    struct store_filter filter = {.asking = true,
                                  .queue = STR("even"),
                                  .statuses = 1U << JOB_WAITING,
                                  .before = t->ids[4],
                                  .limit = 1};
    struct store_job *jobs;
    uint32_t count;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    assert_int_equal(count, 1);
    assert_true(uuid_eq(jobs[0].id, t->ids[2]));
    filter.statuses = 1U << JOB_QUEUED;
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    assert_int_equal(count, 0);
    filter = (struct store_filter){.asking = true, .id = t->ids[1], .limit = 5};
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    assert_int_equal(count, 1);
    filter.id = t->ids[6];
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
    assert_string_equal(asking(t), "j5 j4 j3 j2 j1 j0");
}

/* ---- copies ---- */

static bool is_in_a_file(const struct trial *t)
{
    return strcmp(t->factory->name, "sqlite") == 0;
}

static void a_store_in_no_file_says_what_to_do_instead_of_a_copy(void **state)
{
    struct trial *t = *state;
    int64_t bytes = -1;
    if (is_in_a_file(t))
        skip();
    assert_int_equal(store_backup(t->store, STR("copy.db"), &bytes, &t->w.err), ERR_BAD_REQUEST);
    assert_non_null(strstr(t->w.err.detail, "pawl export"));
    assert_int_equal(bytes, -1);
}

static void a_copy_needs_a_path(void **state)
{
    struct trial *t = *state;
    int64_t bytes;
    assert_int_equal(store_backup(t->store, STR(""), &bytes, &t->w.err), ERR_BAD_REQUEST);
    assert_int_equal(store_backup(t->store, absent, &bytes, &t->w.err), ERR_BAD_REQUEST);
    assert_int_equal(store_backup(t->store, STR("/tmp/a\0b"), &bytes, &t->w.err), ERR_BAD_REQUEST);
}

struct conformance_tests conformance_counts(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(jobs_are_counted_by_queue_and_status),
        TRIAL(a_count_says_how_old_the_oldest_is),
        TRIAL(a_job_is_counted_where_it_stands_and_once),
        TRIAL(a_job_that_was_rolled_back_is_not_counted),
        TRIAL(queues_come_in_the_order_of_their_bytes),
        TRIAL(a_paused_queue_without_jobs_is_not_counted),
        TRIAL(a_redacted_job_is_counted_in_its_queue),
        TRIAL(workers_are_those_who_hold_leases),
        TRIAL(a_worker_beats_as_late_and_ends_as_early_as_any_of_its_leases),
        TRIAL(a_worker_is_told_apart_for_each_resource),
        TRIAL(no_more_workers_are_told_than_there_is_room_for),
        TRIAL(steps_are_counted_by_state),
        TRIAL(resources_come_by_id_with_what_is_used_of_them),
        TRIAL(a_resource_is_as_load_would_give_it),
        TRIAL(no_more_resources_are_told_than_there_is_room_for),
        TRIAL(a_job_that_waits_for_a_person_asks_until_it_is_answered),
        TRIAL(a_job_that_waits_for_something_else_does_not_ask),
        TRIAL(a_plan_asks_while_one_of_its_steps_does),
        TRIAL(an_ended_job_asks_nobody),
        TRIAL(asking_goes_with_other_filters_and_pages),
        TRIAL(a_store_in_no_file_says_what_to_do_instead_of_a_copy),
        TRIAL(a_copy_needs_a_path),
    };
    return TRIALS(tests);
}
