/* The database's clock is set back, and time does not stand still. The clock is a function in the
 * schema, pawl.wall_ms, which these tests replace: all else is a real server and a real store. */
#include "store/postgres_case.h"

#define HOUR (INT64_C(60) * 60 * 1000)

/* From now on the clock is so far from the machine's. */
static void set_clock(struct postgres_case *c, int64_t offset_ms)
{
    char statement[512];
    (void)snprintf(statement, sizeof statement,
                   "CREATE OR REPLACE FUNCTION pawl.wall_ms() RETURNS int8 LANGUAGE sql VOLATILE AS"
                   " 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 + (%lld)'",
                   (long long)offset_ms);
    (void)sql(c, statement);
}

static int64_t wall(struct postgres_case *c)
{
    return sql_int(c, "SELECT pawl.wall_ms()");
}

/* The store's time, in a transaction that may write, as a batch has it. */
static int64_t now_of(struct store *store, struct arena *arena)
{
    struct store_txn *txn;
    struct store_load load = {0};
    struct err err;
    if (store_begin(store, STORE_WRITE, &txn, &err) != ERR_OK ||
        store_load(txn, &load, arena, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    store_rollback(txn);
    return load.now;
}

static int64_t now(struct postgres_case *c)
{
    return now_of(c->store, &c->arena);
}

static void until_wall(struct postgres_case *c, int64_t at)
{
    int64_t deadline = monotonic_ms() + 60 * 1000;
    while (wall(c) < at)
        if (monotonic_ms() > deadline)
            fail_msg("the clock does not go on");
}

static void time_goes_on_at_half_speed_when_the_clock_is_set_back(void **state)
{
    struct postgres_case *c = *state;
    int64_t before = now(c);
    set_clock(c, -HOUR);
    /* The first who is told an earlier time leaves where to go on from. */
    assert_true(now(c) >= before);
    int64_t first = now(c);
    int64_t wall_first = wall(c);
    assert_true(first >= before);
    assert_true(first < before + 60 * 1000);
    until_wall(c, wall_first + 1000);
    int64_t second = now(c);
    int64_t wall_second = wall(c);
    assert_true(second >= first + 400);
    assert_true(second <= first + (wall_second - wall_first) / 2 + 1000);
}

static void every_server_goes_by_the_same_time(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    struct store *other;
    int64_t before = now(c);
    set_clock(c, -HOUR);
    (void)now(c);
    (void)now(c);
    /* One that has seen nothing of it. */
    assert_int_equal(store_open(str_from(c->url), &options, &other, &c->err), ERR_OK);
    int64_t there = now_of(other, &c->arena);
    assert_true(there >= before);
    assert_true(there - now(c) <= 0);
    store_close(other);
}

static void a_clock_that_is_set_back_twice_still_goes_on(void **state)
{
    struct postgres_case *c = *state;
    set_clock(c, -HOUR);
    (void)now(c);
    int64_t before = now(c);
    set_clock(c, -3 * HOUR);
    (void)now(c);
    int64_t first = now(c);
    int64_t wall_first = wall(c);
    assert_true(first >= before);
    until_wall(c, wall_first + 1000);
    assert_true(now(c) >= first + 400);
}

static void when_the_clock_is_put_right_it_counts_again(void **state)
{
    struct postgres_case *c = *state;
    set_clock(c, -HOUR);
    (void)now(c);
    (void)now(c);
    set_clock(c, 0);
    int64_t from = wall(c);
    int64_t told = now(c);
    assert_true(told >= from);
    assert_true(told <= wall(c) + 5000);
}

/* Who looks after the store moves the anchor on, so that time goes on for as long as it takes. */
static void time_goes_on_for_as_long_as_it_is_looked_after(void **state)
{
    struct postgres_case *c = *state;
    struct store_liveness liveness = {.trusted = 1};
    set_clock(c, -HOUR);
    (void)now(c);
    int64_t first = now(c);
    for (int i = 1; i <= 6; i++) {
        set_clock(c, -HOUR + i * 5000);
        assert_int_equal(store_record_liveness(c->store, &liveness, &c->err), ERR_OK);
        assert_true(liveness.wall < liveness.now);
    }
    int64_t last = now(c);
    assert_true(last >= first + 15 * 1000);
    assert_true(last <= first + 15 * 1000 + 60 * 1000);
}

static void a_clock_that_was_set_back_while_nobody_looked_is_seen(void **state)
{
    struct postgres_case *c = *state;
    struct store_liveness liveness = {.trusted = now(c)};
    assert_int_equal(store_record_liveness(c->store, &liveness, &c->err), ERR_OK);
    int64_t noted = liveness.now;
    batcher_release(&c->batcher);
    store_close(c->store);
    c->store = NULL;
    set_clock(c, -HOUR);
    case_open(c, c->url);
    assert_true(now(c) >= noted);
    int64_t first = now(c);
    int64_t wall_first = wall(c);
    until_wall(c, wall_first + 1000);
    assert_true(now(c) >= first + 400);
}

static void a_note_that_is_days_ahead_was_wrong(void **state)
{
    struct postgres_case *c = *state;
    struct store_liveness liveness = {.trusted = now(c)};
    assert_int_equal(store_record_liveness(c->store, &liveness, &c->err), ERR_OK);
    (void)sql(c, "UPDATE pawl.attended SET at = at + 48 * 3600 * 1000");
    batcher_release(&c->batcher);
    store_close(c->store);
    c->store = NULL;
    case_open(c, c->url);
    assert_true(now(c) <= wall(c));
}

static void a_clock_that_was_days_ahead_is_forgotten_when_all_have_left(void **state)
{
    struct postgres_case *c = *state;
    set_clock(c, 365 * 24 * HOUR);
    (void)now(c);
    set_clock(c, 0);
    (void)now(c);
    assert_true(now(c) > wall(c) + 24 * HOUR);
    batcher_release(&c->batcher);
    store_close(c->store);
    c->store = NULL;
    case_open(c, c->url);
    assert_true(now(c) <= wall(c));
}

/* A lease of a worker that is gone, and a delay: both set before the clock went back. */
static void what_was_set_before_the_clock_went_back_comes_due(void **state)
{
    struct postgres_case *c = *state;
    struct uuid id = submit_job(c);
    assert_int_equal(claim_jobs(c, 1), 1);
    (void)sql(c, "UPDATE pawl.claim_rows SET due_at = pawl.wall_ms() + 300");
    (void)now(c);
    set_clock(c, -HOUR);
    int64_t deadline = monotonic_ms() + 60 * 1000;
    for (uint32_t count = 0; count == 0;) {
        struct store_due *due;
        int64_t at;
        int64_t next;
        (void)now(c);
        assert_int_equal(store_due(c->store, 9, &c->arena, &due, &count, &at, &next, &c->err),
                         ERR_OK);
        if (count > 0)
            assert_memory_equal(due[0].job.bytes, id.bytes, sizeof id.bytes);
        if (monotonic_ms() > deadline)
            fail_msg("the lease does not come due");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(time_goes_on_at_half_speed_when_the_clock_is_set_back),
        CASE(every_server_goes_by_the_same_time),
        CASE(a_clock_that_is_set_back_twice_still_goes_on),
        CASE(when_the_clock_is_put_right_it_counts_again),
        CASE(time_goes_on_for_as_long_as_it_is_looked_after),
        CASE(a_clock_that_was_set_back_while_nobody_looked_is_seen),
        CASE(a_note_that_is_days_ahead_was_wrong),
        CASE(a_clock_that_was_days_ahead_is_forgotten_when_all_have_left),
        CASE(what_was_set_before_the_clock_went_back_comes_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
