/* A store that was written by an older Pawl: real jobs, put back into the older schema, must after
 * the migration be found as if they had been written with the new one. */
#include <libpq-fe.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/job_state.h"
#include "store/conformance.h"
#include "store/migrations.h"
#include "store/test_stores.h"

/* What fills a store of version 1 with what one of today, which is attached, has. */
static const char sqlite_back[] =
    "INSERT INTO job_rows SELECT job, status, version, retry_count, created_at, updated_at, queue,"
    " kind, priority, reason_code, purge_at, redacted, agent_id, correlation_id, idempotency_key,"
    " (SELECT e.hash FROM today.job_events e WHERE e.no = j.no ORDER BY e.version DESC LIMIT 1),"
    " (SELECT r.salt FROM today.job_rows r WHERE r.no = j.no), cursor, goal, labels,"
    " job_text(coalesce((SELECT c.state FROM today.claim_rows c WHERE c.no = j.no),"
    " (SELECT s.state FROM today.state_rows s WHERE s.no = j.no),"
    " (SELECT r.state FROM today.job_rows r WHERE r.no = j.no)))"
    " FROM today.jobs j;"
    "INSERT INTO event_rows (job, version, type, created_at, redacted, actor, cause,"
    " correlation_id, digest, hash, payload)"
    " SELECT job, version, type, created_at, redacted, actor, cause, correlation_id, zeroblob(32),"
    " hash, payload FROM today.job_events ORDER BY no, version;"
    "INSERT INTO claim_rows SELECT job, step, worker_id, resource_id, attempt, expires_at, beat_at,"
    " due_at, progress, cursor FROM today.job_claims;"
    "INSERT INTO lanes SELECT * FROM today.lanes; INSERT INTO ready SELECT * FROM today.ready;"
    "INSERT INTO timers SELECT * FROM today.timers;"
    "INSERT INTO job_steps SELECT * FROM today.job_steps;"
    "INSERT INTO job_effects SELECT job, name, step, key, version, open, effect_text(state)"
    " FROM today.job_effects;"
    "INSERT INTO job_signals SELECT * FROM today.job_signals;"
    "INSERT INTO job_telemetry SELECT number, job, at, type, actor, cause, correlation_id, payload"
    " FROM today.job_telemetry;"
    "INSERT INTO resources SELECT * FROM today.resources;"
    "INSERT INTO kinds SELECT * FROM today.kinds; INSERT INTO queues SELECT * FROM today.queues;"
    "CREATE TABLE pawl_schema (version INTEGER PRIMARY KEY, usable_from INTEGER NOT NULL);"
    "INSERT INTO pawl_schema VALUES (1, 1);"
    "PRAGMA main.user_version = 1; PRAGMA main.application_id = 0x5061776c; DETACH today;";

static const char postgres_back[] =
    "CREATE TABLE pawl.older_jobs AS SELECT v.id, v.created_at, v.updated_at, v.version, "
    "v.purge_at,"
    " v.status, v.retry_count, v.reason_code, v.priority, v.redacted, (SELECT e.hash FROM"
    " pawl.job_events e WHERE e.job_id = v.id AND e.version = v.version) AS head, j.salt, v.cursor,"
    " v.state, v.kind, v.queue, v.agent_id, v.goal, v.correlation_id, v.idempotency_key, v.labels"
    " FROM pawl.jobs v JOIN pawl.job_rows j ON j.id = v.id;"
    "CREATE TABLE pawl.older_events AS SELECT e.job_id, e.version, e.created_at,"
    " b.seq::text::xid8 AS xact, row_number() OVER (ORDER BY b.seq, b.n, e.version) AS seq,"
    " e.redacted, e.type, e.payload, e.actor, e.cause, e.correlation_id, e.digest, e.hash"
    " FROM (SELECT b.seq, u.job_id, u.n, coalesce(u.version, b.versions[1]) AS version,"
    " coalesce(u.count, b.counts[1]) AS count FROM pawl.batch_rows b,"
    " unnest(b.jobs, b.versions, b.counts)"
    " WITH ORDINALITY AS u (job_id, version, count, n) WHERE b.seq IS NOT NULL) AS b,"
    " pawl.events_of(b.job_id, b.version - 1, b.version + b.count - 1) AS e;"
    "CREATE TABLE pawl.older_claims AS SELECT * FROM pawl.job_claims;"
    "DROP VIEW pawl.jobs, pawl.job_events, pawl.job_claims; DROP FUNCTION pawl.events_of,"
    " pawl.unpacked, pawl.erased, pawl.end_move;"
    "DROP TABLE pawl.job_rows, pawl.state_rows, pawl.claim_rows, pawl.history, pawl.feed_end;"
    "DROP VIEW pawl.batches; DROP FUNCTION pawl.refuse_older;"
    "ALTER TABLE pawl.batch_rows RENAME TO batches;"
    "DELETE FROM pawl.batches; ALTER TABLE pawl.batches DROP COLUMN seq, DROP COLUMN number,"
    " DROP COLUMN jobs, DROP COLUMN versions, DROP COLUMN counts, DROP COLUMN seqs;"
    "DROP SEQUENCE pawl.feed_seq;"
    "ALTER TABLE pawl.older_jobs RENAME TO jobs; ALTER TABLE pawl.older_events RENAME TO "
    "job_events;"
    "ALTER TABLE pawl.older_claims RENAME TO job_claims;"
    "CREATE UNIQUE INDEX jobs_idempotency_key ON pawl.jobs (queue, idempotency_key);"
    "CREATE INDEX jobs_correlation_id ON pawl.jobs (correlation_id, id);"
    "CREATE INDEX jobs_agent_id ON pawl.jobs (agent_id, id);"
    "CREATE INDEX jobs_purge_at ON pawl.jobs (purge_at, id);"
    "CREATE INDEX job_events_feed ON pawl.job_events (xact, seq);"
    "CREATE INDEX job_events_correlation_id ON pawl.job_events (correlation_id);"
    "CREATE INDEX job_claims_due_at ON pawl.job_claims (due_at);"
    "CREATE INDEX job_claims_resource_id ON pawl.job_claims (resource_id);"
    "DROP TABLE pawl.lanes_given_back; DROP TABLE pawl.attended; DROP TABLE pawl.tokens;"
    "ALTER TABLE pawl.purged DROP COLUMN at; DROP TABLE pawl.incarnations;"
    "DROP TABLE pawl.clock; DROP FUNCTION pawl.wall_ms();"
    "DROP FUNCTION pawl.check_repeat;"
    "DROP FUNCTION pawl.same_payload(json, json);"
    "ALTER TABLE pawl.job_telemetry DROP COLUMN version; DROP TABLE pawl.workers;"
    "DROP TABLE pawl.limits, pawl.limit_keys, pawl.schedules, pawl.schedule_events,"
    " pawl.child_ends, pawl.job_logs;"
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

/* What is packed today was JSON then. */
static void give_text(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct str state = {sqlite3_value_blob(values[0]), (size_t)sqlite3_value_bytes(values[0])};
    struct job job = {0};
    struct effect effect = {.key = STR("key")};
    struct arena arena;
    struct buf text;
    (void)count;
    arena_init(&arena);
    buf_init(&text, &arena, 512);
    if (sqlite3_user_data(context) == NULL) {
        assert_int_equal(job_state_read(state, &arena, &job, NULL), ERR_OK);
        job_state_write(&job, STATE_JSON, &text);
    } else {
        assert_int_equal(effect_state_read(state, &arena, &effect, NULL), ERR_OK);
        effect_state_write(&effect, STATE_JSON, &text);
    }
    assert_false(text.failed);
    sqlite3_result_text(context, text.at, (int)text.len, SQLITE_TRANSIENT);
    arena_release(&arena);
}

static void run_sqlite(const char *path)
{
    static char of_effects[] = "effects";
    char old[1024];
    sqlite3 *db;
    (void)snprintf(old, sizeof old, "%s.old", path);
    (void)unlink(old);
    assert_int_equal(sqlite3_open(old, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_create_function(db, "job_text", 1, SQLITE_UTF8, NULL, give_text, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_create_function(db, "effect_text", 1, SQLITE_UTF8, of_effects,
                                             give_text, NULL, NULL),
                     SQLITE_OK);
    char *attach = sqlite3_mprintf("ATTACH %Q AS today", path);
    if (sqlite3_exec(db, sqlite_migrations.at[0].sql.at, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db, attach, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_exec(db, sqlite_back, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    sqlite3_free(attach);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(rename(old, path), 0);
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

/* Closes the store and makes an old one of it; returns how to open that. */
static struct store_options take_back(struct trial *t)
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
    return options;
}

static void take_back_and_migrate(struct trial *t)
{
    const struct old_store *old = t->factory->arg;
    struct store_options options = take_back(t);
    ok(t, store_open(str_from(old->url), &options, &t->store, &t->w.err));
    assert_int_equal(t->store->schema_found, 1);
    assert_int_equal(t->store->schema_version, 7);
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

/* ---- PostgreSQL alone ---- */

static void ask(PGconn *connection, const char *sql, const char *expected)
{
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(connection));
    if (expected != NULL)
        assert_string_equal(PQgetvalue(result, 0, 0), expected);
    PQclear(result);
}

/* A process that is about to migrate, and waits for the lock that `connection` has. */
static pid_t start_migrating(PGconn *connection, const char *url, struct store_options options)
{
    static const char waiting[] =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct store *store;
        struct err err;
        _exit(store_open(str_from(url), &options, &store, &err) == ERR_OK ? 0 : 1);
    }
    for (bool is_waiting = false; !is_waiting;) {
        PGresult *result = PQexec(connection, waiting);
        assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
        is_waiting = strcmp(PQgetvalue(result, 0, 0), "0") != 0;
        PQclear(result);
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    }
    return child;
}

/* Whoever waits for the lock of migrations gets it in turn: the process changes the schema, and is
 * killed when two jobs have been moved. */
static void a_migration_that_was_killed_midway_goes_on(void **state)
{
    struct trial *t = *state;
    const struct old_store *old = t->factory->arg;
    fill(t);
    const char *before = everything(t);
    struct store_options options = take_back(t);
    PGconn *connection = PQconnectdb(old->url);
    ask(connection, "SELECT pg_advisory_lock(x'7061776c00000001'::int8)::text", NULL);
    pid_t child = start_migrating(connection, old->url, options);
    ask(connection, "SELECT pg_advisory_unlock(x'7061776c00000001'::int8)", "t");
    ask(connection, "SELECT pg_advisory_lock(x'7061776c00000001'::int8)::text", NULL);
    ask(connection, "SELECT pawl.move_old(2)", "2");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    PQfinish(connection);

    options.migrate = false;
    assert_int_equal(store_open(str_from(old->url), &options, &t->store, &t->w.err),
                     ERR_UNAVAILABLE);
    assert_non_null(strstr(t->w.err.detail, "run `pawl migrate`"));
    options.migrate = true;
    ok(t, store_open(str_from(old->url), &options, &t->store, &t->w.err));
    assert_string_equal(everything(t), before);
}

/* As a server does that was running when another one migrated. */
static void an_older_server_can_commit_nothing_after_the_migration(void **state)
{
    struct trial *t = *state;
    const struct old_store *old = t->factory->arg;
    take_back_and_migrate(t);
    PGconn *connection = PQconnectdb(old->url);
    PGresult *result = PQexec(
        connection, "INSERT INTO pawl.batches (session, batch) VALUES (gen_random_uuid(), 1)");
    assert_int_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
    assert_non_null(strstr(PQerrorMessage(connection), "this server is of an older Pawl"));
    PQclear(result);
    result = PQexec(connection, "SELECT id FROM pawl.jobs ORDER BY id FOR UPDATE");
    assert_int_equal(PQresultStatus(result), PGRES_FATAL_ERROR);
    PQclear(result);
    PQfinish(connection);
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
    struct CMUnitTest of_postgres[] = {
        TRIAL(a_migration_that_was_killed_midway_goes_on),
        TRIAL(an_older_server_can_commit_nothing_after_the_migration),
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tests[i].initial_state = (void *)(uintptr_t)&factory;
    for (size_t i = 0; i < sizeof of_postgres / sizeof of_postgres[0]; i++)
        of_postgres[i].initial_state = (void *)(uintptr_t)&factory;
    test_stores_init(&old.stores);
    int failed = cmocka_run_group_tests_name(test_store_names[sort], tests, NULL, NULL);
    if (sort == TEST_POSTGRES)
        failed += cmocka_run_group_tests_name("postgres alone", of_postgres, NULL, NULL);
    test_stores_release(&old.stores);
    return failed;
}

int main(void)
{
    int failed = run_on(TEST_SQLITE);
    return failed + run_on(TEST_POSTGRES);
}
