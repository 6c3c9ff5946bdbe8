/* A store that was written by an older Pawl: real jobs, put back into the older schema, must after
 * the migration be found as if they had been written with the new one. */
#include <libpq-fe.h>
#include <sqlite3.h>

#include "store/conformance.h"
#include "store/test_stores.h"

/* What takes a store of today back to version 1. */
static const char sqlite_back[] =
    "DROP VIEW jobs; DROP INDEX jobs_asking; DROP INDEX jobs_by_status; DROP TABLE tokens;"
    "DROP TABLE ahead; DROP INDEX purged_by_age; ALTER TABLE purged DROP COLUMN at;"
    "ALTER TABLE job_telemetry DROP COLUMN version; DROP INDEX job_effects_by_owner;"
    "DROP INDEX job_events_by_type; DROP TABLE workers;"
    "CREATE INDEX job_events_by_type ON event_rows (type, created_at);"
    "ALTER TABLE job_rows DROP COLUMN asking;"
    "CREATE VIEW jobs AS SELECT status, state, job FROM job_rows;"
    "CREATE INDEX jobs_by_status ON job_rows (status) WHERE status NOT IN (2, 4);"
    "DELETE FROM pawl_schema WHERE version > 1; PRAGMA user_version = 1;";

static const char postgres_back[] =
    "DROP TABLE pawl.lanes_given_back; DROP TABLE pawl.attended; DROP TABLE pawl.tokens;"
    "ALTER TABLE pawl.purged DROP COLUMN at; DROP TABLE pawl.incarnations;"
    "ALTER TABLE pawl.batches DROP COLUMN oldest;"
    "DROP TABLE pawl.clock; DROP FUNCTION pawl.wall_ms();"
    "DROP FUNCTION pawl.check_repeat;"
    "DROP FUNCTION pawl.same_payload(json, json);"
    "ALTER TABLE pawl.job_telemetry DROP COLUMN version; DROP TABLE pawl.workers;"
    "ALTER TABLE pawl.jobs DROP COLUMN parent_id, DROP COLUMN root_id, DROP COLUMN schedule_id,"
    " DROP COLUMN dedupe_key; DROP TABLE pawl.limits, pawl.limit_keys, pawl.schedules,"
    " pawl.schedule_events, pawl.child_ends, pawl.job_logs;"
    "DROP INDEX pawl.jobs_asking; DROP INDEX pawl.jobs_shelf; DROP INDEX pawl.job_events_type;"
    "ALTER TABLE pawl.jobs DROP COLUMN asking; ALTER TABLE pawl.jobs DROP COLUMN shelf;"
    "ALTER TABLE pawl.job_events DROP COLUMN id;"
    "ALTER TABLE pawl.job_events ADD COLUMN id uuid GENERATED ALWAYS AS (encode("
    "set_byte(set_byte(substring(hash FROM 1 FOR 16), 6, (get_byte(hash, 6) & 15) | 128),"
    " 8, (get_byte(hash, 8) & 63) | 128), 'hex')::uuid) STORED;"
    "CREATE INDEX job_events_type ON pawl.job_events (type, created_at);"
    "CREATE INDEX jobs_status ON pawl.jobs (status, id) WHERE status NOT IN (2, 4);"
    "DELETE FROM pawl.schema WHERE version > 1";

/* One store, by its URL, which tests close and open again. */
struct old_store {
    struct test_stores stores;
    enum test_store sort;
    char url[1024];
};

static enum error_code open_old(void *arg, const struct store_options *options, struct store **ret,
                                struct err *err)
{
    struct old_store *old = arg;
    (void)snprintf(old->url, sizeof old->url, "%s", test_stores_fresh(&old->stores, old->sort));
    return store_open(str_from(old->url), options, ret, err);
}

static void discard_old(void *arg)
{
    (void)arg; /* all go in the end */
}

static void run_sqlite(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sqlite_back, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void run_postgres(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    PGresult *result = PQexec(connection, postgres_back);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s", PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
}

/* Closes the store, makes an old one of it, and opens that. */
static void take_back_and_migrate(struct trial *t)
{
    const struct old_store *old = t->factory->arg;
    struct store_options options = t->store->options;
    store_close(t->store);
    t->store = NULL;
    if (old->sort == TEST_SQLITE)
        run_sqlite(old->url + strlen("sqlite:"));
    else
        run_postgres(old->url);
    options.migrate = true;
    ok(t, store_open(str_from(old->url), &options, &t->store, &t->w.err));
    assert_int_equal(t->store->schema_found, 1);
    assert_int_equal(t->store->schema_version, 6);
}

static void wait_for_a_person(struct trial *t, struct uuid id, const char *progress)
{
    act(t, id, claim_by("w1", true));
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = js(&t->w, progress);
    act(t, id, beat);
    struct command wait = wait_for(&t->w, "ok?", 0);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.prompt = STR("Really?");
    act(t, id, wait);
}

static void verdict_in_step(struct trial *t, struct uuid id, const char *step, enum verdict verdict)
{
    act(t, id, step_claim_of(&t->w, step, "r1", true));
    struct command said = with_token(verdict_on(NULL, verdict), t->w.token);
    said.actor = STR("w1");
    act(t, id, said);
}

/* Jobs in all the ways in which they ask, and almost ask. */
static void fill(struct trial *t)
{
    submit(t, "queued");
    act(t, submit(t, "held"), claim_by("w1", true));
    wait_for_a_person(t, submit(t, "plain"), "1");
    wait_for_a_person(t, submit(t, "zero"), "'\\u0000'");
    wait_for_a_person(t, submit(t, "backslash"), "'\\\\u0000 \\\\\\u0000 \\\\'");
    struct uuid cancelled = submit(t, "cancelled");
    wait_for_a_person(t, cancelled, "2");
    act(t, cancelled, cancel_by(CANCEL_HARD, "no"));
    struct uuid signal = submit(t, "signal");
    act(t, signal, claim_by("w1", true));
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = js(&t->w, "{'wait':{'type':'human'},'steps_asking':3}");
    act(t, signal, beat);
    act(t, signal, wait_for(&t->w, "paid", 0));
    struct uuid plan = submit_plan(t, "plan", "[{'id':'x'},{'id':'y'}]");
    verdict_in_step(t, plan, "x", VERDICT_NEEDS_USER);
    struct uuid replan = submit_plan(t, "replan", "[{'id':'x'},{'id':'y'}]");
    verdict_in_step(t, replan, "x", VERDICT_NEEDS_USER);
    verdict_in_step(t, replan, "y", VERDICT_REPLAN);
    struct uuid answered = submit_plan(t, "answered", "[{'id':'x'}]");
    verdict_in_step(t, answered, "x", VERDICT_NEEDS_USER);
    act(t, answered, answer_of(&t->w, "x", "1"));
}

static void jobs_that_ask_are_found_after_the_migration(void **state)
{
    struct trial *t = *state;
    fill(t);
    assert_string_equal(asking(t), "plan backslash zero plain");
    take_back_and_migrate(t);
    assert_string_equal(asking(t), "plan backslash zero plain");
}

static void all_is_as_it_was_after_the_migration(void **state)
{
    struct trial *t = *state;
    fill(t);
    put_resource(t, "r1", at(60));
    const char *before = everything(t);
    take_back_and_migrate(t);
    assert_string_equal(everything(t), before);
}

static void a_migrated_store_goes_on(void **state)
{
    struct trial *t = *state;
    struct uuid old = submit(t, "old");
    take_back_and_migrate(t);
    wait_for_a_person(t, old, "1");
    wait_for_a_person(t, submit(t, "new"), "1");
    assert_string_equal(asking(t), "new old");
    assert_string_equal(queues(t), "default waiting 2@0");
}

static int run_on(enum test_store sort)
{
    static struct old_store old;
    old.sort = sort;
    const struct store_factory factory = {
        .name = test_store_names[sort],
        .one_writer = sort == TEST_SQLITE,
        .open = open_old,
        .discard = discard_old,
        .arg = &old,
    };
    struct CMUnitTest tests[] = {
        TRIAL(jobs_that_ask_are_found_after_the_migration),
        TRIAL(all_is_as_it_was_after_the_migration),
        TRIAL(a_migrated_store_goes_on),
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tests[i].initial_state = (void *)(uintptr_t)&factory;
    test_stores_init(&old.stores);
    int failed = cmocka_run_group_tests_name(test_store_names[sort], tests, NULL, NULL);
    test_stores_release(&old.stores);
    return failed;
}

int main(void)
{
    int failed = run_on(TEST_SQLITE);
    return failed + run_on(TEST_POSTGRES);
}
