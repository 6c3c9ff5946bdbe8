/* What is in the owner's memory is what the database has, whatever happens between. */
#include "store/sqlite_trial.h"

/* In tests a place is a directory. */
#define place placed_work
#include "store/sqlite/sqlite.h"
#undef place

static const struct header *known(const struct trial *t, struct uuid id)
{
    return header_cache_find(&((const struct sqlite_store *)t->store)->headers, &id);
}

/* What a transaction that writes loads is what one that reads does, which has no memory. */
static void assert_coherent(struct trial *t, struct uuid id)
{
    struct job_slice read = whole(t, id);
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice loaded = load_whole(t, txn, id);
    assert_same_row(t, &loaded, &read);
    rollback(t, txn);
}

/* Writes what the command makes of a job, and leaves the transaction open. */
static struct store_txn *half_done(struct trial *t, struct uuid id, struct command command)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct change change;
    ok(t, decide(t, &slice, &command, &change));
    ok(t, write_one(t, txn, &change));
    return txn;
}

static void what_was_rolled_back_is_not_remembered(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    rollback(t, half_done(t, id, claim_by("w1", true)));
    assert_null(known(t, id));
    assert_coherent(t, id);
    assert_string_equal(claim_next(t, NULL), "a");
    rollback(t, half_done(t, id, complete_with(&t->w, "1")));
    assert_coherent(t, id);
    act(t, id, complete_with(&t->w, "2"));
    assert_coherent(t, id);
    assert_string_equal(stream(t, id), "job_created job_leased job_running job_completed");
    end(t);
}

/* A job that is not there may come with an id that is lower than that of one that was rolled
 * back. */
static void a_job_whose_submission_was_rolled_back_is_not_there(void **state)
{
    struct trial *t = trial_in(*state);
    (void)submit(t, "a");
    struct uuid gone = new_id(t);
    struct spec spec = world_spec();
    rollback(t, half_done(t, gone, submit_of(&spec)));
    assert_null(known(t, gone));
    struct store_txn *txn = begin(t, STORE_WRITE);
    assert_int_equal(load_whole(t, txn, gone).job.status, JOB_NONE);
    rollback(t, txn);
    struct uuid next = submit(t, "b");
    assert_coherent(t, next);
    end(t);
}

static void a_job_that_is_purged_or_redacted_is_not_remembered(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct change change = {
        .before = load_whole(t, txn, id), .taken_step = STEP_NONE, .redact = true};
    ok(t, job_slice_copy(&change.before, &t->w.arena, &change.after));
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
    assert_null(known(t, id));
    assert_coherent(t, id);
    txn = begin(t, STORE_WRITE);
    struct store_write write = {.purged = &id, .purged_count = 1};
    (void)load_whole(t, txn, id);
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
    assert_null(known(t, id));
    end(t);
}

static void damage(struct place *place, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 10 * 1000);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    (void)sqlite3_close(db);
}

/* What cannot be read is told each time, and nothing of it is kept. */
static void a_job_whose_row_is_damaged_is_not_remembered_and_others_are(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit(t, "a");
    struct uuid other = submit(t, "b");
    act(t, id, claim_by("w1", true));
    store_close(t->store);
    damage(place, "UPDATE claim_rows SET state = '{' || state");
    struct store_options options = {.seed = 7, .timeout_ms = 2000};
    ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
    for (int i = 0; i < 2; i++) {
        struct store_job job = {.id = id};
        struct store_load load = {.jobs = &job, .job_count = 1};
        struct store_txn *txn = begin(t, STORE_WRITE);
        assert_int_equal(store_load(txn, &load, &t->w.arena, &t->w.err), ERR_CORRUPT);
        rollback(t, txn);
        assert_null(known(t, id));
    }
    assert_coherent(t, other);
    assert_non_null(known(t, other));
    store_close(t->store);
    damage(place, "UPDATE claim_rows SET state = substr(state, 2)");
    ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
    assert_coherent(t, id);
    end(t);
}

/* Another process has the file for a while. */
static void whoever_comes_back_sees_what_another_process_did(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    struct store_options options = t->store->options;
    store_close(t->store);
    pid_t child = fork();
    if (child == 0) {
        ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
        act(t, id, complete_with(&t->w, "1"));
        _exit(0); /* as one that is killed: nothing is closed */
    }
    assert_int_equal(child_end(child), 0);
    ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
    assert_coherent(t, id);
    assert_int_equal(whole(t, id).job.status, JOB_COMPLETED);
    end(t);
}

/* ---- counts of jobs and ends of leases, which are in memory too ---- */

static void what_is_counted_and_due_is_the_same_after_a_kill(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct store_options options = t->store->options;
    struct uuid id = submit(t, "a");
    /* The counts are stored with the next batch, as after many, and not with the last one. */
    ((struct sqlite_store *)t->store)->counts.stored = -1000 * 1000;
    (void)submit(t, "b");
    assert_true(((struct sqlite_store *)t->store)->counts.stored > 0);
    act(t, id, claim_by("w1", true));
    const char *counted = queues(t);
    int64_t next = next_due(t);
    assert_true(next < INT64_MAX);
    store_close(t->store);
    pid_t child = fork();
    if (child == 0) {
        ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
        assert_string_equal(queues(t), counted);
        assert_true(next_due(t) == next);
        act(t, id, complete_with(&t->w, "1"));
        _exit(0);
    }
    assert_int_equal(child_end(child), 0);
    ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
    struct uuid other = submit(t, "c");
    counted = queues(t);
    assert_non_null(strstr(counted, "queued 2@"));
    assert_non_null(strstr(counted, "completed 1"));
    assert_null(strstr(counted, "running"));
    assert_true(next_due(t) > next);
    rollback(t, half_done(t, other, claim_by("w1", true)));
    assert_string_equal(queues(t), counted);
    end(t);
}

static void jobs_that_are_deleted_are_not_counted_after_a_kill_either(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct store_options options = t->store->options;
    struct uuid id = submit(t, "a");
    (void)submit(t, "b");
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    store_close(t->store);
    pid_t child = fork();
    if (child == 0) {
        ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
        struct store_txn *txn = begin(t, STORE_WRITE);
        struct store_write write = {.purged = &id, .purged_count = 1};
        (void)load_whole(t, txn, id);
        ok(t, store_write(txn, &write, &t->w.err));
        commit(t, txn);
        _exit(0);
    }
    assert_int_equal(child_end(child), 0);
    ok(t, sqlite_store_open(str_from(place->path), &options, &t->store, &t->w.err));
    assert_null(strstr(queues(t), "cancelled"));
    assert_non_null(strstr(queues(t), "queued 1@"));
    end(t);
}

/* ---- effects ---- */

enum { EFFECTS = 24 };

static void put_effect(struct trial *t, struct uuid id, int number)
{
    const char *key = numbered(&t->w, "call", number);
    act(t, id, begin_of(&t->w, key, "1"));
    assert_coherent(t, id);
    act(t, id, commit_of(&t->w, key, "{'text':'a result that takes some room in the row'}"));
    assert_coherent(t, id);
}

/* In the row of the job while they are few, each in a row of its own when they are many. */
static void effects_are_the_same_when_they_become_too_many_for_the_row(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    put_effect(t, id, 0);
    assert_true(known(t, id)->effects.len > 0);
    for (int i = 1; i < EFFECTS; i++)
        put_effect(t, id, i);
    assert_false(str_is_set(known(t, id)->effects));
    reopen(t);
    struct job_slice after = whole(t, id);
    assert_int_equal(after.effect_count, EFFECTS);
    for (int i = 0; i < EFFECTS; i++)
        assert_true(after.effects[i].returned);
    act(t, id, complete_with(&t->w, "1"));
    assert_int_equal(whole(t, id).effect_count, EFFECTS);
    end(t);
}

static void few_effects_outlive_their_lease(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    put_effect(t, id, 0);
    act(t, id, by_worker(&t->w, COMMAND_RELEASE));
    assert_coherent(t, id);
    reopen(t);
    act(t, id, claim_by("w2", true));
    put_effect(t, id, 1);
    reopen(t);
    assert_int_equal(whole(t, id).effect_count, 2);
    end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(what_was_rolled_back_is_not_remembered),
        IN_PLACE(a_job_whose_submission_was_rolled_back_is_not_there),
        IN_PLACE(a_job_that_is_purged_or_redacted_is_not_remembered),
        IN_PLACE(a_job_whose_row_is_damaged_is_not_remembered_and_others_are),
        IN_PLACE(whoever_comes_back_sees_what_another_process_did),
        IN_PLACE(what_is_counted_and_due_is_the_same_after_a_kill),
        IN_PLACE(jobs_that_are_deleted_are_not_counted_after_a_kill_either),
        IN_PLACE(effects_are_the_same_when_they_become_too_many_for_the_row),
        IN_PLACE(few_effects_outlive_their_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
