/* What is in the file of a SQLite store, and what is not: for people who open it, for those who had
 * something erased, and for the query planner. */
#include <fcntl.h>
#include <time.h>

#include "store/conformance.h"
#include "store/sqlite_trial.h"

/* ---- a store with jobs, in a place ---- */

static void purge(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct store_write write = {.purged = &id, .purged_count = 1};
    (void)load_whole(t, txn, id);
    ok(t, store_write(txn, &write, &t->w.err));
    commit(t, txn);
}

static void redact(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct change change = {
        .before = load_whole(t, txn, id), .taken_step = STEP_NONE, .redact = true};
    ok(t, job_slice_copy(&change.before, &t->w.arena, &change.after));
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
}

/* ---- for people ---- */

static void ids_can_be_read_as_people_write_them(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    char text[UUID_TEXT_LEN + 1] = "";
    uuid_format(id, text);
    struct store_txn *txn = begin(t, STORE_READ);
    struct event *events;
    uint32_t count;
    char event[UUID_TEXT_LEN + 1] = "";
    ok(t, store_events(
              txn, &(struct store_stream){.job = id, .after = 0, .limit = 10, .telemetry = false},
              &t->w.arena, &events, &count, &t->w.err));
    uuid_format(event_id(&events[1]), event);
    rollback(t, txn);
    end(t);
    assert_string_equal(ask(place, "SELECT id FROM jobs"), text);
    assert_string_equal(ask(place, "SELECT job_id FROM job_events WHERE version = 2"), text);
    assert_string_equal(ask(place, "SELECT job_id FROM job_claims"), text);
    assert_string_equal(ask(place, "SELECT id FROM job_events WHERE version = 2"), event);
}

/* ---- positions ---- */

static uint64_t last_position(struct trial *t)
{
    struct store_txn *txn = begin(t, STORE_READ);
    struct store_fed *fed;
    uint32_t count;
    ok(t, store_feed(txn, (struct store_position){0}, 100, &t->w.arena, &fed, &count, &t->w.err));
    rollback(t, txn);
    return count == 0 ? 0 : fed[count - 1].position.major;
}

static void positions_are_not_given_out_again_when_the_newest_events_are_deleted(void **state)
{
    struct trial *t = trial_in(*state);
    (void)submit(t, "a");
    struct uuid last = submit(t, "b");
    act(t, last, cancel_by(CANCEL_HARD, "no"));
    uint64_t before = last_position(t);
    purge(t, last);
    assert_true(last_position(t) < before);
    reopen(t);
    (void)submit(t, "c");
    assert_true(last_position(t) > before);
    end(t);
}

static void a_lane_of_a_transaction_that_was_rolled_back_gets_its_number_again(void **state)
{
    struct trial *t = trial_in(*state);
    struct spec spec = world_spec();
    (void)submit(t, "a");
    spec.queue = STR("never");
    struct command command = {.type = COMMAND_SUBMIT, .submit = {.spec = &spec}};
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice none = load_whole(t, txn, new_id(t));
    struct change change;
    ok(t, decide(t, &none, &command, &change));
    ok(t, write_one(t, txn, &change));
    rollback(t, txn);
    spec.queue = STR("other");
    (void)submit_spec(t, "b", spec);
    txn = begin_empty(t, NULL);
    struct store_lane *lanes;
    uint32_t count;
    ok(t, store_lanes(txn, 0, &t->w.arena, &lanes, &count, &t->w.err));
    rollback(t, txn);
    assert_int_equal(count, 2);
    assert_int_equal(lanes[1].number, 2);
    char key[128];
    (void)snprintf(key, sizeof key, "%.*s", STR_ARG(lanes[1].key));
    assert_non_null(strstr(key, "other"));
    assert_string_equal(ready(t), "a b");
    end(t);
}

/* ---- erasing ---- */

static bool file_has(struct place *place, const char *suffix, const char *word)
{
    struct str bytes = read_file(place, beside(place, suffix));
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= bytes.len; i++)
        if (memcmp(bytes.at + i, word, len) == 0)
            return true;
    return false;
}

/* A payload that is long enough for pages of its own, and its end, which no index has. */
static struct spec secret_spec(struct trial *t)
{
    struct spec spec = world_spec();
    struct buf buf;
    buf_init(&buf, &t->w.arena, 20000);
    buf_add_char(&buf, '"');
    for (int i = 0; i < 1000; i++)
        buf_addf(&buf, "secret%04d ", i);
    buf_add_char(&buf, '"');
    spec.payload = buf_str(&buf);
    return spec;
}

static void what_is_redacted_is_gone_from_the_file_and_from_the_log(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit_spec(t, "a", secret_spec(t));
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    redact(t, id);
    /* A child looks, since this process has the file open. */
    pid_t child = fork();
    if (child == 0)
        _exit(file_has(place, "", "secret0") || file_has(place, "-wal", "secret0") ||
                      file_has(place, "", "secret0999")
                  ? 1
                  : 0);
    assert_int_equal(child_end(child), 0);
    end(t);
}

static int64_t monotonic_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The log cannot be emptied while somebody reads in it: that is waited for, but not each time. */
static void a_reader_that_stays_does_not_make_every_commit_wait(void **state)
{
    enum { JOBS = 8 };
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid ids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        ids[i] = submit_spec(t, numbered(&t->w, "j", i), secret_spec(t));
        act(t, ids[i], cancel_by(CANCEL_HARD, "no"));
    }
    struct store_txn *reader = begin(t, STORE_READ);
    (void)load_whole(t, reader, ids[0]);
    int64_t start = monotonic_ms();
    for (int i = 0; i < JOBS; i++)
        redact(t, ids[i]);
    assert_true(monotonic_ms() - start < JOBS * 1000 / 2);
    rollback(t, reader);
    /* Whatever is written next, the log goes. */
    submit(t, "last");
    pid_t child = fork();
    if (child == 0)
        _exit(file_has(place, "", "secret0") || file_has(place, "-wal", "secret0") ? 1 : 0);
    assert_int_equal(child_end(child), 0);
    end(t);
}

static void what_is_purged_is_gone_from_the_file(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit_spec(t, "a", secret_spec(t));
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    reopen(t);
    purge(t, id);
    end(t);
    assert_false(file_has(place, "", "secret0"));
    assert_false(file_has(place, "", "secret0999"));
}

static void without_that_it_is_there(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    (void)submit_spec(t, "a", secret_spec(t));
    end(t);
    assert_true(file_has(place, "", "secret0999"));
}

/* ---- plans of queries ---- */

static const char *const names[] = {
#define STATEMENT(symbol, sql) #symbol,
#include "store/sqlite/statements.def"
#undef STATEMENT
};

static const char *const statements[] = {
#define STATEMENT(symbol, sql) sql,
#include "store/sqlite/statements.def"
#undef STATEMENT
};

/* Small tables that are read as a whole, in order; the values of one row's labels; the queues that
 * a caller may see. */
static bool may_scan(const char *detail)
{
    static const char *const wholes[] = {"SCAN beats",
                                         "SCAN feed_end",
                                         "SCAN kinds",
                                         "SCAN queues",
                                         "SCAN l ",
                                         "SCAN q ",
                                         "SCAN resources USING COVERING INDEX resources_by_end"};
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
        if (strncmp(detail, wholes[i], strlen(wholes[i])) == 0)
            return true;
    return false;
}

/* What an operator asks for now and then is all of something, and takes no lock. Lanes are looked
 * through when there are twice as many as were needed before. Leases are few, and so are the parts
 * of one job's stream that are read at once; what waits in lanes is walked only while it is few. */
static bool walks_seldom(const char *name)
{
    static const char *const shown[] = {
        "CLAIMS_HELD_IN",  "WORKERS",        "WORKERS_COUNT", "COUNTS",        "CLAIMS_HELD",
        "RESOURCES",       "STEP_COUNTS",    "TOKENS",        "LANES_SWEEP",   "LIST_AS_MADE",
        "OLDEST_CLAIMED",  "OLDEST_READY",   "LIST_CLAIMED",  "EVENTS_OF_JOB", "EFFECTS_OF_JOB",
        "EFFECTS_OF_STEP", "OLDEST_DELAYED", "CLAIMS_DUE"};
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        if (strcmp(name, shown[i]) == 0)
            return true;
    return false;
}

static void no_statement_walks_over_a_table_or_sorts(void **state)
{
    struct place *place = *state;
    sqlite3 *db;
    end(trial_in(place));
    assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        sqlite3_stmt *plan;
        char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", statements[i]);
        if (sqlite3_prepare_v2(db, sql, -1, &plan, NULL) != SQLITE_OK)
            fail_msg("%s: %s", names[i], sqlite3_errmsg(db));
        while (sqlite3_step(plan) == SQLITE_ROW) {
            const char *detail = (const char *)sqlite3_column_text(plan, 3);
            bool scans = strncmp(detail, "SCAN", 4) == 0 && !may_scan(detail);
            if (walks_seldom(names[i])) /* but not over all jobs */
                scans = strcmp(detail, "SCAN j") == 0;
            if (scans || (!walks_seldom(names[i]) && strstr(detail, "TEMP B-TREE") != NULL))
                fail_msg("%s: %s", names[i], detail);
        }
        (void)sqlite3_finalize(plan);
        sqlite3_free(sql);
    }
    (void)sqlite3_close(db);
}

/* ---- files that people delete ---- */

static void when_a_file_is_deleted_or_replaced_nothing_more_is_written(void **state)
{
    static const char *const suffixes[] = {"", ".lock", "-wal", "-shm"};
    struct place *place = *state;
    for (size_t i = 0; i < 2 * sizeof suffixes / sizeof suffixes[0]; i++) {
        const char *suffix = suffixes[i / 2];
        struct store *store = open_ok(place, true);
        struct store_txn *txn;
        struct err err;
        struct store_liveness liveness = {0};
        pause_ok(store, "mail");
        assert_int_equal(store_record_liveness(store, &liveness, &err), ERR_OK);
        assert_int_equal(unlink(beside(place, suffix)), 0);
        if (i % 2 == 1)
            write_file(beside(place, suffix), STR(""));
        if (i % 2 == 1)
            assert_int_equal(store_record_liveness(store, &liveness, &err), ERR_UNAVAILABLE);
        assert_int_equal(pause_queue(store, "post", &err), ERR_UNAVAILABLE);
        assert_says(err.detail, beside(place, suffix));
        assert_says(err.detail, "deleted or replaced");
        assert_int_equal(store_begin(store, STORE_READ, &txn, &err), ERR_UNAVAILABLE);
        store_close(store);
        /* What was acknowledged is there, unless it was the database that was deleted. */
        bool whole = suffix[0] != '\0';
        store = open_ok(place, true);
        assert_int_equal(is_paused(place, store, "mail"), whole);
        assert_false(is_paused(place, store, "post"));
        store_close(store);
    }
}

/* Nothing was made or deleted beside it for a while: then its files are not looked for one by one,
 * until something is; also by somebody who then puts the directory's time back, as restores do. */
static void a_file_that_is_deleted_after_a_calm_time_is_missed_too(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct timespec calm = {.tv_sec = 3}; /* no shorter one counts */
    struct stat status;
    struct err err;
    assert_int_equal(nanosleep(&calm, NULL), 0);
    pause_ok(store, "mail");
    pause_ok(store, "mail");
    assert_int_equal(stat(place->directory, &status), 0);
    struct timespec times[2] = {status.st_atim, status.st_mtim};
    assert_int_equal(unlink(beside(place, "-wal")), 0);
    write_file(beside(place, "-wal"), STR(""));
    assert_int_equal(utimensat(AT_FDCWD, place->directory, times, 0), 0);
    assert_int_equal(pause_queue(store, "post", &err), ERR_UNAVAILABLE);
    assert_says(err.detail, "deleted or replaced");
    store_close(store);
}

static void a_file_that_was_moved_away_and_back_needs_a_new_start(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct err err;
    char away[128];
    (void)snprintf(away, sizeof away, "%s.away", place->path);
    pause_ok(store, "mail");
    assert_int_equal(rename(place->path, away), 0);
    assert_int_equal(pause_queue(store, "post", &err), ERR_UNAVAILABLE);
    assert_int_equal(rename(away, place->path), 0);
    assert_int_equal(pause_queue(store, "post", &err), ERR_UNAVAILABLE);
    assert_says(err.detail, "restart this process");
    store_close(store);
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "mail"));
    assert_false(is_paused(place, store, "post"));
    store_close(store);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_PLACE(when_a_file_is_deleted_or_replaced_nothing_more_is_written),
        IN_PLACE(a_file_that_is_deleted_after_a_calm_time_is_missed_too),
        IN_PLACE(a_file_that_was_moved_away_and_back_needs_a_new_start),
        IN_PLACE(ids_can_be_read_as_people_write_them),
        IN_PLACE(positions_are_not_given_out_again_when_the_newest_events_are_deleted),
        IN_PLACE(a_lane_of_a_transaction_that_was_rolled_back_gets_its_number_again),
        IN_PLACE(what_is_redacted_is_gone_from_the_file_and_from_the_log),
        IN_PLACE(a_reader_that_stays_does_not_make_every_commit_wait),
        IN_PLACE(what_is_purged_is_gone_from_the_file),
        IN_PLACE(without_that_it_is_there),
        IN_PLACE(no_statement_walks_over_a_table_or_sorts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
