/* The feed beside transactions that stay open, news from other processes, locks, rows where none
 * should be, and text that PostgreSQL does not take as it is. */
#include <pthread.h>
#include <unistd.h>

#include "run_ops.h"
#include "store/postgres_case.h"

/* All events that the feed shows behind `after`. */
static uint32_t feed(struct postgres_case *c, struct store_position after, struct store_fed **ret)
{
    struct store_txn *txn;
    uint32_t count = 0;
    assert_int_equal(store_begin(c->store, STORE_READ, &txn, &c->err), ERR_OK);
    assert_int_equal(store_feed(txn, after, STORE_EVENTS_MAX, &c->arena, ret, &count, &c->err),
                     ERR_OK);
    store_rollback(txn);
    return count;
}

static const struct store_position beginning = {0};

/* Another reader may be about to give numbers: the feed is asked until it shows as many events as
 * it should. */
static void feed_shows(struct postgres_case *c, struct store_position after, uint32_t expected,
                       struct store_fed **ret)
{
    enum { TRIES = 10000 };
    uint32_t count = feed(c, after, ret);
    for (int i = 0; i < TRIES && count < expected; i++) {
        (void)usleep(1000);
        count = feed(c, after, ret);
    }
    assert_int_equal(count, expected);
}

static void nothing_comes_to_stand_before_what_the_feed_has_shown(void **state)
{
    struct postgres_case *c = *state;
    struct store_fed *fed;
    struct uuid before = submit_job(c);
    feed_shows(c, beginning, 1, &fed);
    struct store_position seen = fed[0].position;

    /* An older batch has its place in the sequence, and is not committed when a younger one is. */
    sql(c, "BEGIN");
    sql(c, "INSERT INTO pawl.batch_rows (session, batch, seq, jobs, versions, counts)"
           " SELECT gen_random_uuid(), 1, nextval('pawl.feed_seq'), jobs, versions, counts"
           " FROM pawl.batch_rows WHERE seq IS NOT NULL");
    struct uuid younger = submit_job(c);
    assert_int_equal(feed(c, seen, &fed), 1);
    assert_true(uuid_eq(fed[0].event.job_id, younger));
    struct store_position then = fed[0].position;
    sql(c, "COMMIT");
    feed_shows(c, seen, 2, &fed);
    assert_true(uuid_eq(fed[0].event.job_id, younger));
    assert_true(uuid_eq(fed[1].event.job_id, before));
    feed_shows(c, then, 1, &fed);
    feed_shows(c, beginning, 3, &fed);
}

static void a_transaction_that_stays_open_does_not_hold_the_feed_back(void **state)
{
    struct postgres_case *c = *state;
    struct store_fed *fed;
    sql(c, "BEGIN");
    sql(c, "SELECT pg_current_xact_id()");
    submit_job(c);
    assert_int_equal(feed(c, beginning, &fed), 1);
    sql(c, "ROLLBACK");
}

/* ---- versions of one job ---- */

struct sender {
    struct store *store;
    struct uuid *jobs;
    uint32_t count;
    struct str who;
    enum error_code code;
};

/* Sends a signal to each job, in one batch. */
static void *send_signals(void *arg)
{
    struct sender *sender = arg;
    struct batcher batcher;
    struct arena arena;
    struct op ops[3] = {{.type = OP_COMMAND}};
    enum store_outcome outcome;
    struct err err;
    batcher_init(&batcher, sender->store, NULL, NULL);
    arena_init(&arena);
    for (uint32_t i = 0; i < sender->count; i++) {
        ops[i] = (struct op){.type = OP_COMMAND, .job = sender->jobs[i]};
        ops[i].command = (struct command){.type = COMMAND_SIGNAL, .actor = sender->who};
        ops[i].command.signal.correlation_key = STR("k");
    }
    sender->code = run_ops(&batcher, ops, sender->count, &arena, &outcome, &err);
    arena_release(&arena);
    batcher_release(&batcher);
    return NULL;
}

/* A batch gets its number with the first row that it locks, and may then wait for the next one
 * while younger batches write the jobs that it will write last. */
static void the_versions_of_a_job_are_in_order_however_long_a_batch_waited(void **state)
{
    enum { TRIES = 10000 };
    struct postgres_case *c = *state;
    struct store_fed *fed;
    char text[128];
    char id[UUID_TEXT_LEN + 1] = "";
    struct uuid jobs[3] = {submit_job(c), submit_job(c), submit_job(c)};
    struct sender slow = {c->store, jobs, 3, STR("slow"), ERR_OK};
    struct sender quick = {c->store, &jobs[2], 1, STR("quick"), ERR_OK};
    pthread_t thread;
    uuid_format(jobs[1], id);
    (void)snprintf(text, sizeof text, "SELECT 1 FROM pawl.job_rows WHERE id = '%s' FOR UPDATE", id);
    sql(c, "BEGIN");
    sql(c, text);
    assert_int_equal(pthread_create(&thread, NULL, send_signals, &slow), 0);
    int64_t waiting = 0;
    for (int i = 0; i < TRIES && waiting == 0; i++) {
        (void)usleep(1000);
        waiting = sql_int(c, "SELECT count(*) FROM pg_stat_activity"
                             " WHERE datname = current_database() AND wait_event_type = 'Lock'");
    }
    (void)send_signals(&quick);
    sql(c, "ROLLBACK");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(waiting > 0);
    assert_int_equal(slow.code, ERR_OK);
    assert_int_equal(quick.code, ERR_OK);
    feed_shows(c, beginning, 7, &fed);
    int64_t version = 0;
    for (uint32_t i = 0; i < 7; i++)
        if (uuid_eq(fed[i].event.job_id, jobs[2]))
            assert_int_equal(fed[i].event.version, ++version);
    assert_int_equal(version, 3);
}

/* ---- news ---- */

static struct store *another_handle(struct postgres_case *c)
{
    struct store_options options = case_options();
    struct store *other;
    if (store_open(str_from(c->url), &options, &other, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    return other;
}

/* Lets whatever has happened so far be over. */
static uint64_t settled(struct postgres_case *c, struct store *store)
{
    uint64_t seen = 0;
    uint64_t last;
    do {
        last = seen;
        assert_int_equal(store_watch(store, last, 1500, &seen, &c->err), ERR_OK);
    } while (seen != last);
    return seen;
}

static void commits_of_other_processes_are_heard_of(void **state)
{
    struct postgres_case *c = *state;
    struct store *other = another_handle(c);
    uint64_t seen = settled(c, other);
    uint64_t now = seen;
    submit_job(c);
    int64_t start = monotonic_ms();
    assert_int_equal(store_watch(other, seen, 20 * 1000, &now, &c->err), ERR_OK);
    assert_true(now != seen);
    assert_true(monotonic_ms() - start < 10 * 1000);
    store_close(other);
}

/* A look now and then cannot tell whose a commit was, so that one of them may come in between. */
static void own_commits_are_no_news_for_those_who_wait_for_others(void **state)
{
    enum { TRIES = 5 };
    struct postgres_case *c = *state;
    struct store *other = another_handle(c);
    int quiet = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t seen = 0;
        uint64_t now = 0;
        assert_int_equal(store_watch_others(c->store, UINT64_MAX, 0, &seen, &c->err), ERR_OK);
        submit_job(c);
        assert_int_equal(store_watch_others(c->store, seen, 20, &now, &c->err), ERR_OK);
        quiet += now == seen;
    }
    assert_true(quiet > 0);
    uint64_t seen = 0;
    uint64_t now = 0;
    (void)settled(c, other);
    assert_int_equal(store_watch_others(other, UINT64_MAX, 0, &seen, &c->err), ERR_OK);
    submit_job(c);
    assert_int_equal(store_watch_others(other, seen, 20 * 1000, &now, &c->err), ERR_OK);
    assert_true(now != seen);
    store_close(other);
}

static void a_claim_leaves_the_row_of_the_job_as_it_was_made(void **state)
{
    struct postgres_case *c = *state;
    submit_job(c);
    assert_int_equal(claim_jobs(c, 1), 1);
    assert_int_equal(sql_int(c, "SELECT status FROM pawl.job_rows"), JOB_QUEUED);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.state_rows"), 0);
    assert_int_equal(sql_int(c, "SELECT status FROM pawl.jobs"), JOB_RUNNING);
}

static void the_end_of_what_held_the_feed_back_is_news(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "BEGIN");
    sql(c, "SELECT pg_current_xact_id()");
    submit_job(c);
    uint64_t seen = settled(c, c->store);
    uint64_t now = seen;
    sql(c, "ROLLBACK");
    assert_int_equal(store_watch(c->store, seen, 20 * 1000, &now, &c->err), ERR_OK);
    assert_true(now != seen);
}

static void the_last_commit_is_told_before_the_handle_is_gone(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "LISTEN pawl");
    submit_job(c);
    batcher_release(&c->batcher);
    store_close(c->store);
    c->store = NULL;
    sql(c, "SELECT 1");
    PGnotify *notify = PQnotifies(c->sql);
    assert_non_null(notify);
    PQfreemem(notify);
}

/* A list that no index helps goes on from where it has stopped. */
static void a_list_of_what_is_rare_looks_at_some_jobs_at_a_time(void **state)
{
    struct postgres_case *c = *state;
    submit_job(c);
    sql(c, "UPDATE pawl.job_rows SET kind = 'rare'");
    sql(c,
        "INSERT INTO pawl.job_rows (id, created_at, priority, status, redacted, salt, hash, kind,"
        " queue, state, first, created) SELECT ('ffffffff' || substr(gen_random_uuid()::text, 9))"
        "::uuid, created_at, priority, status, redacted, salt, hash, 'many', queue, state, first,"
        " created FROM pawl.job_rows, generate_series(1, 7000)");
    struct store_reach reach = {.stopped = true};
    struct store_filter filter = {.kind = STR("rare"), .limit = 10, .reach = &reach};
    uint32_t count = 0;
    int reads = 0;
    for (; reach.stopped; reads++) {
        struct store_job *jobs;
        struct store_txn *txn;
        assert_int_equal(count, 0);
        assert_int_equal(store_begin(c->store, STORE_READ, &txn, &c->err), ERR_OK);
        assert_int_equal(store_list(txn, &filter, &c->arena, &jobs, &count, &c->err), ERR_OK);
        store_rollback(txn);
        filter.before = reach.at;
    }
    assert_int_equal(reads, 2);
    assert_int_equal(count, 1);
}

/* ---- locks ---- */

/* A server has room for some thousands of locks on names in all. */
static void many_names_take_one_lock(void **state)
{
    enum { NAMES = 1000 };
    static struct store_request requests[NAMES];
    static char keys[NAMES][16];
    struct postgres_case *c = *state;
    struct store_txn *txn;
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%04d", i);
        requests[i] = (struct store_request){.scope = STR("s"), .key = str_from(keys[i])};
    }
    struct store_load load = {.requests = requests, .request_count = NAMES};
    assert_int_equal(store_begin(c->store, STORE_WRITE, &txn, &c->err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &c->arena, &c->err), ERR_OK);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                                " AND database = (SELECT oid FROM pg_database"
                                " WHERE datname = current_database())"),
                     1);
    /* And whoever wants one of them waits. */
    struct store_options options = case_options();
    struct store *other;
    struct store_txn *second;
    options.timeout_ms = 400;
    assert_int_equal(store_open(str_from(c->url), &options, &other, &c->err), ERR_OK);
    assert_int_equal(store_begin(other, STORE_WRITE, &second, &c->err), ERR_OK);
    load = (struct store_load){.requests = requests, .request_count = 1};
    assert_int_equal(store_load(second, &load, &c->arena, &c->err), ERR_UNAVAILABLE);
    store_rollback(second);
    store_rollback(txn);
    assert_int_equal(store_begin(other, STORE_WRITE, &second, &c->err), ERR_OK);
    assert_int_equal(store_load(second, &load, &c->arena, &c->err), ERR_OK);
    store_rollback(second);
    store_close(other);
}

/* ---- rows where none should be ---- */

static void a_place_that_is_taken_already_does_not_hold_a_job_for_ever(void **state)
{
    struct postgres_case *c = *state;
    enum store_outcome outcome;
    submit_job(c);
    sql(c,
        "INSERT INTO pawl.claim_rows (job_id, step, version, attempt, expires_at, beat_at, due_at)"
        " SELECT id, -1, 1, 9, now(), 0, 0 FROM pawl.job_rows");
    struct op claim = {
        .type = OP_CLAIM,
        .command = {.type = COMMAND_CLAIM, .actor = STR("w1")},
        .claim = {.claimer = {.work = LANE_JOBS}, .max = 1},
    };
    claim.command.claim.worker_id = STR("w1");
    (void)run_ops(&c->batcher, &claim, 1, &c->arena, &outcome, &c->err);
    if (claim.grant_count == 0)
        assert_int_equal(claim_jobs(c, 1), 1);
    assert_int_equal(sql_int(c, "SELECT attempt FROM pawl.job_claims"), 1);
}

/* ---- text ---- */

/* Text may have any character, U+0000 too. */
static void text_with_a_nul_comes_back(void **state)
{
    struct postgres_case *c = *state;
    enum store_outcome outcome;
    submit_job(c);
    struct op claim = {
        .type = OP_CLAIM,
        .command = {.type = COMMAND_CLAIM, .actor = STR("w1")},
        .claim = {.claimer = {.work = LANE_JOBS}, .max = 1},
    };
    claim.command.claim.worker_id = STR("w1");
    claim.command.claim.start = true;
    assert_int_equal(run_ops(&c->batcher, &claim, 1, &c->arena, &outcome, &c->err), ERR_OK);
    assert_int_equal(claim.grant_count, 1);
    struct op beat = {
        .type = OP_COMMAND,
        .job = claim.grants[0].slice->job.id,
        .command = {.type = COMMAND_HEARTBEAT,
                    .actor = STR("w1"),
                    .token = claim.grants[0].result.token,
                    .heartbeat = {.cursor = STR("a\0b\1c")}},
    };
    assert_int_equal(run_ops(&c->batcher, &beat, 1, &c->arena, &outcome, &c->err), ERR_OK);
    assert_int_equal(beat.code, ERR_OK);
    struct store_job job = {.id = beat.job};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_txn *txn;
    assert_int_equal(store_begin(c->store, STORE_READ, &txn, &c->err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &c->arena, &c->err), ERR_OK);
    store_rollback(txn);
    assert_true(str_eq(job.slice.job.cursor, STR("a\0b\1c")));
}

/* Whoever has a job locked finds its rows by their places: a repair waits for them. */
static void a_repair_of_lanes_waits_for_those_who_have_the_job(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    struct store *impatient;
    char key[4096];
    submit_job(c);
    (void)snprintf(key, sizeof key, "%s", sql(c, "SELECT key FROM pawl.lanes"));
    sql(c, "UPDATE pawl.ready SET lane = 999");
    options.timeout_ms = 1000;
    assert_int_equal(store_open(str_from(c->url), &options, &impatient, &c->err), ERR_OK);
    sql(c, "BEGIN");
    sql(c, "SELECT id FROM pawl.job_rows FOR UPDATE");
    assert_int_equal(store_mend(impatient, 999, str_from(key), &c->err), ERR_UNAVAILABLE);
    assert_int_equal(sql_int(c, "SELECT lane FROM pawl.ready"), 999);
    sql(c, "COMMIT");
    assert_int_equal(store_mend(impatient, 999, str_from(key), &c->err), ERR_OK);
    store_close(impatient);
    assert_int_equal(claim_jobs(c, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nothing_comes_to_stand_before_what_the_feed_has_shown),
        CASE(a_transaction_that_stays_open_does_not_hold_the_feed_back),
        CASE(the_versions_of_a_job_are_in_order_however_long_a_batch_waited),
        CASE(commits_of_other_processes_are_heard_of),
        CASE(own_commits_are_no_news_for_those_who_wait_for_others),
        CASE(a_claim_leaves_the_row_of_the_job_as_it_was_made),
        CASE(the_end_of_what_held_the_feed_back_is_news),
        CASE(the_last_commit_is_told_before_the_handle_is_gone),
        CASE(a_list_of_what_is_rare_looks_at_some_jobs_at_a_time),
        CASE(many_names_take_one_lock),
        CASE(a_place_that_is_taken_already_does_not_hold_a_job_for_ever),
        CASE(text_with_a_nul_comes_back),
        CASE(a_repair_of_lanes_waits_for_those_who_have_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
