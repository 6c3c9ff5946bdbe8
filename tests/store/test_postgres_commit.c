/* Connections that go away: before, at and after COMMIT, while idle, in the middle of a batch. What
 * is acknowledged is there, what is not said to be unknown is certain, and work goes on. And what a
 * COMMIT waits for. */
#include "core/schedule_entry.h"
#include "store/postgres/postgres.h"
#include "store/postgres_case.h"
#include "store/proxy.h"

static struct proxy proxy;

/* The database's port over TCP, as the server itself tells it. */
static uint16_t server_port(struct postgres_case *c)
{
    return (uint16_t)sql_int(c, "SELECT current_setting('port')");
}

/* A store that reaches its database through the proxy, with one connection to write through. */
static int setup_proxied(void **state)
{
    if (case_setup_bare(state) != 0)
        return -1;
    struct postgres_case *c = *state;
    char url[256];
    proxy_start(&proxy, server_port(c));
    (void)snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%u/%.100s", proxy.port,
                   sql(c, "SELECT current_database()"));
    struct store_options options = case_options();
    options.connections = 1;
    options.timeout_ms = 3000;
    if (store_open(str_from(url), &options, &c->store, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    batcher_init(&c->batcher, c->store, NULL, NULL);
    /* The lane gets its number now: no other commit than the batch's is on the way. */
    submit_job(c);
    return 0;
}

static int teardown_proxied(void **state)
{
    struct postgres_case *c = *state;
    batcher_release(&c->batcher);
    store_close(c->store);
    c->store = NULL;
    proxy_stop(&proxy);
    return case_teardown(state);
}

static bool has_job(struct postgres_case *c, struct uuid id)
{
    char text[UUID_TEXT_LEN + 1] = "";
    char statement[128];
    uuid_format(id, text);
    (void)snprintf(statement, sizeof statement, "SELECT count(*) FROM pawl.jobs WHERE id = '%s'",
                   text);
    return sql_int(c, statement) == 1;
}

/* A transaction of the store's own in which a job is written, so that nobody tries again behind our
 * back. */
static struct store_txn *write_job(struct postgres_case *c, struct uuid id)
{
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_txn *txn;
    struct spec spec = spec_defaults(NULL);
    struct decision decision;
    spec.kind = STR("mail");
    struct command command = {.type = COMMAND_SUBMIT, .actor = STR("me")};
    command.submit.spec = &spec;
    assert_int_equal(store_begin(c->store, STORE_WRITE, &txn, &c->err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &c->arena, &c->err), ERR_OK);
    struct context context = {.now = load.now, .arena = &c->arena};
    assert_int_equal(job_decide(&job.slice, &command, &context, &decision, &c->err), ERR_OK);
    assert_int_equal(decision_seal(&decision, job.slice.job.head, &c->arena, &c->err), ERR_OK);
    struct store_job_write write = {.after = &decision.after,
                                    .events = decision.events,
                                    .event_count = decision.count,
                                    .changed = CHANGED_ALL,
                                    .created = true};
    assert_int_equal(schedule_entry_of_job(&decision.after.job, &c->arena, &write.now, &c->err),
                     ERR_OK);
    struct store_write all = {.jobs = &write, .job_count = 1};
    assert_int_equal(store_write(txn, &all, &c->err), ERR_OK);
    return txn;
}

/* What is said to have become of a commit that met the proxy; it must be so. */
static enum store_outcome cut_commit(struct postgres_case *c, enum proxy_mode mode)
{
    struct uuid id = next_id(c);
    enum store_outcome outcome = STORE_UNKNOWN;
    proxy_set(&proxy, mode);
    enum error_code code = store_commit(write_job(c, id), &outcome, &c->err);
    assert_int_equal(proxy.met, 1);
    assert_int_not_equal(outcome, STORE_UNKNOWN);
    assert_int_equal(code, outcome == STORE_COMMITTED ? ERR_OK : ERR_UNAVAILABLE);
    assert_int_equal(has_job(c, id), outcome == STORE_COMMITTED);
    return outcome;
}

static void a_commit_that_never_arrived_is_known_not_to_be(void **state)
{
    struct postgres_case *c = *state;
    assert_int_equal(cut_commit(c, PROXY_DROP_COMMIT), STORE_NOT_COMMITTED);
    submit_job(c);
}

static void a_commit_whose_answer_was_lost_is_known_to_be(void **state)
{
    struct postgres_case *c = *state;
    assert_int_equal(cut_commit(c, PROXY_LOSE_ANSWER), STORE_COMMITTED);
    submit_job(c);
}

/* Whoever asks may be faster than the server that has yet to come to the batch's number: then the
 * batch has lost. That is as good, but not what these two are about. */
enum { TRIES = 10 };

static void a_transaction_that_the_server_still_holds_is_waited_for(void **state)
{
    struct postgres_case *c = *state;
    bool waited = false;
    for (int i = 0; i < TRIES && !waited; i++) {
        int64_t start = monotonic_ms();
        assert_int_equal(cut_commit(c, PROXY_LATE_DROP), STORE_NOT_COMMITTED);
        waited = monotonic_ms() - start >= PROXY_LATE_MS;
    }
    assert_true(waited);
    submit_job(c);
}

static void a_commit_that_is_still_on_its_way_counts(void **state)
{
    struct postgres_case *c = *state;
    bool counted = false;
    for (int i = 0; i < TRIES && !counted; i++)
        counted = cut_commit(c, PROXY_LATE_COMMIT) == STORE_COMMITTED;
    assert_true(counted);
    submit_job(c);
}

static void a_server_that_does_not_come_back_leaves_it_unknown(void **state)
{
    struct postgres_case *c = *state;
    enum store_outcome outcome = STORE_COMMITTED;
    proxy_set(&proxy, PROXY_VANISH);
    int64_t start = monotonic_ms();
    assert_int_equal(store_commit(write_job(c, next_id(c)), &outcome, &c->err), ERR_UNAVAILABLE);
    assert_int_equal(outcome, STORE_UNKNOWN);
    assert_true(monotonic_ms() - start < 10 * 1000);
    proxy_set(&proxy, PROXY_PASS);
    submit_job(c);
}

static void the_engine_runs_a_batch_again_that_was_not_committed(void **state)
{
    struct postgres_case *c = *state;
    struct uuid id = next_id(c);
    enum store_outcome outcome = STORE_UNKNOWN;
    proxy_set(&proxy, PROXY_DROP_COMMIT);
    enum error_code code = submit_with(c, id, NULL, &outcome);
    assert_int_equal(proxy.met, 1);
    /* Whether it tries by itself is its business; what it says must be so. */
    assert_true((code == ERR_OK) == has_job(c, id));
    assert_true(code == ERR_OK ? outcome == STORE_COMMITTED : outcome == STORE_NOT_COMMITTED);
}

/* ---- backends that are ended ---- */

static void end_backends(struct postgres_case *c)
{
    sql(c, "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
           " WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

static void idle_connections_that_were_ended_are_replaced(void **state)
{
    struct postgres_case *c = *state;
    submit_job(c);
    end_backends(c);
    submit_job(c);
    assert_int_equal(claim_jobs(c, 10), 2);
}

static void a_transaction_whose_backend_is_ended_does_nothing_and_says_so(void **state)
{
    struct postgres_case *c = *state;
    struct uuid id = submit_job(c);
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_lane *lanes;
    uint32_t count;
    struct store_txn *txn;
    assert_int_equal(store_begin(c->store, STORE_WRITE, &txn, &c->err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &c->arena, &c->err), ERR_OK);
    end_backends(c);
    assert_int_equal(store_lanes(txn, 0, &c->arena, &lanes, &count, &c->err), ERR_UNAVAILABLE);
    assert_true(strlen(c->err.detail) > 0);
    store_rollback(txn);
    assert_int_equal(claim_jobs(c, 10), 1);
}

static void a_commit_of_a_transaction_that_failed_is_none(void **state)
{
    struct postgres_case *c = *state;
    struct uuid id = next_id(c);
    enum store_outcome outcome = STORE_COMMITTED;
    struct store_txn *txn = write_job(c, id);
    struct connection *connection = ((struct postgres_txn *)txn)->connection;
    /* The transaction fails where the store does not see it. */
    assert_int_equal(connection_send_quiet(connection, "SELECT 1 / 0", NULL, &c->err), ERR_OK);
    assert_int_not_equal(connection_sync(connection, &c->err), ERR_OK);
    assert_int_equal(store_commit(txn, &outcome, &c->err), ERR_UNAVAILABLE);
    assert_int_equal(outcome, STORE_NOT_COMMITTED);
    assert_false(has_job(c, id));
    submit_job(c);
}

static void a_search_that_was_lost_leaves_its_work_to_be_found(void **state)
{
    struct postgres_case *c = *state;
    struct store_txn *txn;
    submit_job(c);
    submit_job(c);
    assert_int_equal(store_begin(c->store, STORE_WRITE, &txn, &c->err), ERR_OK);
    const uint32_t lane = 1;
    const uint32_t end = 1;
    struct store_search search = {.lanes = &lane, .group_ends = &end, .group_count = 1, .max = 2};
    assert_int_equal(store_candidates(txn, &search, 1, &c->arena, &c->err), ERR_OK);
    assert_int_equal(search.found_count, 2);
    store_rollback(txn);
    assert_int_equal(claim_jobs(c, 10), 2);
}

static void numbers_of_batches_do_not_pile_up(void **state)
{
    struct postgres_case *c = *state;
    struct store_queue queue = {STR("q"), true};
    struct store_write write = {.queues = &queue, .queue_count = 1};
    for (int i = 0; i < 600; i++) {
        struct store_txn *txn;
        enum store_outcome outcome;
        assert_int_equal(store_begin(c->store, STORE_WRITE, &txn, &c->err), ERR_OK);
        assert_int_equal(store_write(txn, &write, &c->err), ERR_OK);
        assert_int_equal(store_commit(txn, &outcome, &c->err), ERR_OK);
    }
    assert_true(sql_int(c, "SELECT count(*) FROM pawl.batch_rows") <= 300);
    batcher_release(&c->batcher);
    store_close(c->store);
    c->store = NULL;
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.batch_rows"), 0);
}

/* Notes what holds for a transaction that makes a job, at its COMMIT. */
static void note_settings(struct postgres_case *c)
{
    sql(c, "CREATE TABLE public.noted (value text)");
    sql(c, "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " INSERT INTO public.noted VALUES (current_setting('synchronous_commit'));"
           " RETURN NULL; END $$");
    sql(c, "CREATE CONSTRAINT TRIGGER note AFTER INSERT ON pawl.job_rows"
           " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.note()");
}

static void a_commit_waits_for_the_disk_whatever_the_database_is_set_to(void **state)
{
    static const struct {
        const char *set;
        const char *noted;
    } rows[] = {
        {"off", "on"},
        {"on", "on"},
        {"local", "local"},
        {"remote_write", "remote_write"},
        {"remote_apply", "remote_apply"},
    };
    struct postgres_case *c = *state;
    case_open(c, c->url);
    note_settings(c);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char statement[256];
        batcher_release(&c->batcher);
        store_close(c->store);
        (void)snprintf(
            statement, sizeof statement,
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET synchronous_commit = %s',"
            " current_database()); END $$",
            rows[i].set);
        sql(c, statement);
        case_open(c, c->url);
        submit_job(c);
        assert_string_equal(sql(c, "DELETE FROM public.noted RETURNING value"), rows[i].noted);
    }
}

#define PROXIED(test) cmocka_unit_test_setup_teardown(test, setup_proxied, teardown_proxied)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROXIED(a_commit_that_never_arrived_is_known_not_to_be),
        PROXIED(a_commit_whose_answer_was_lost_is_known_to_be),
        PROXIED(a_transaction_that_the_server_still_holds_is_waited_for),
        PROXIED(a_commit_that_is_still_on_its_way_counts),
        PROXIED(a_server_that_does_not_come_back_leaves_it_unknown),
        PROXIED(the_engine_runs_a_batch_again_that_was_not_committed),
        CASE(idle_connections_that_were_ended_are_replaced),
        CASE(a_transaction_whose_backend_is_ended_does_nothing_and_says_so),
        CASE(a_commit_of_a_transaction_that_failed_is_none),
        CASE(a_search_that_was_lost_leaves_its_work_to_be_found),
        CASE(numbers_of_batches_do_not_pile_up),
        BARE_CASE(a_commit_waits_for_the_disk_whatever_the_database_is_set_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
