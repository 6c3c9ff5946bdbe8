/* Heartbeats in the owner's memory: what they do not write, who sees them, and when they go. */
#include "store/sqlite_trial.h"

/* In tests a place is a directory. */
#define place placed_work
#include "store/sqlite/sqlite.h"
#undef place

static const struct sqlite_store *inside(const struct trial *t)
{
    return (const struct sqlite_store *)t->store;
}

static void beat(struct trial *t, struct uuid id)
{
    (void)act(t, id, by_worker(&t->w, COMMAND_HEARTBEAT));
}

static int64_t end_of(struct trial *t, struct uuid id)
{
    return whole(t, id).job.lease.expires_at;
}

/* As a transaction that writes loads it. */
static int64_t loaded_end(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    int64_t end = load_whole(t, txn, id).job.lease.expires_at;
    rollback(t, txn);
    return end;
}

static int64_t listed_end(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_READ);
    struct store_filter filter = {.id = id, .limit = 1};
    struct store_job *jobs;
    uint32_t count;
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    assert_int_equal(count, 1);
    rollback(t, txn);
    return jobs[0].slice.job.lease.expires_at;
}

/* Changes that are rolled back: the header of the job is not in memory any more. */
static void forget_header(struct trial *t, struct uuid id)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct command command = by_worker(&t->w, COMMAND_HEARTBEAT);
    command.heartbeat.progress = STR("1");
    struct change change;
    ok(t, decide(t, &slice, &command, &change));
    ok(t, write_one(t, txn, &change));
    rollback(t, txn);
    assert_null(header_cache_find(&inside(t)->headers, &id));
}

/* But for the first one of a process, which leaves a mark. */
static void a_heartbeat_writes_nothing_and_wakes_nobody(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    beat(t, id);
    uint64_t before;
    uint64_t after;
    ok(t, store_watch(t->store, 0, 0, &before, &t->w.err));
    sqlite3_int64 changes = sqlite3_total_changes64(inside(t)->writer.db);
    int pages = inside(t)->writer.wal_pages;
    advance(t, 20);
    beat(t, id);
    assert_int_equal(sqlite3_total_changes64(inside(t)->writer.db), changes);
    assert_int_equal(inside(t)->writer.wal_pages, pages);
    ok(t, store_watch(t->store, before, 0, &after, &t->w.err));
    assert_int_equal(after, before);
    struct store_txn *txn = begin(t, STORE_READ);
    struct store_stream stream = {.job = id, .limit = 10, .telemetry = true};
    struct event *events;
    uint32_t count;
    ok(t, store_events(txn, &stream, &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 0);
    rollback(t, txn);
    end(t);
}

static void everybody_who_reads_sees_the_moved_end(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    advance(t, 20);
    beat(t, id);
    assert_true(end_of(t, id) == at(50));
    assert_true(listed_end(t, id) == at(50));
    assert_true(loaded_end(t, id) == at(50));
    assert_string_equal(workers(t), "w1 1 beat 20 ends 50");
    forget_header(t, id);
    assert_true(loaded_end(t, id) == at(50));
    /* What is stored is found too early by who looks for what is due, and never too late. */
    advance(t, 10);
    assert_string_equal(due(t), "a@30");
    end(t);
}

static void a_heartbeat_of_a_step_is_kept_in_the_same_way(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit_plan(t, "p", "[{'id':'x'},{'id':'y'}]");
    act(t, id, step_claim_of(&t->w, "x", "r1", true));
    beat(t, id);
    sqlite3_int64 changes = sqlite3_total_changes64(inside(t)->writer.db);
    advance(t, 20);
    beat(t, id);
    assert_int_equal(sqlite3_total_changes64(inside(t)->writer.db), changes);
    assert_true(whole(t, id).steps[0].lease.expires_at == at(50));
    assert_int_equal(inside(t)->beats.live, 1);
    (void)act(t, id, by_worker(&t->w, COMMAND_RELEASE));
    assert_int_equal(inside(t)->beats.live, 0);
    end(t);
}

static void a_heartbeat_that_is_rolled_back_moves_nothing(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    advance(t, 20);
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct command command = by_worker(&t->w, COMMAND_HEARTBEAT);
    struct change change;
    ok(t, decide(t, &slice, &command, &change));
    ok(t, write_one(t, txn, &change));
    rollback(t, txn);
    assert_true(end_of(t, id) == at(30));
    assert_true(loaded_end(t, id) == at(30));
    end(t);
}

static void a_later_write_of_the_lease_stores_the_moved_end(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", false));
    advance(t, 20);
    beat(t, id);
    assert_int_equal(strtoll(ask(place, "SELECT expires_at FROM claim_rows"), NULL, 10), at(30));
    act(t, id, by_worker(&t->w, COMMAND_START));
    assert_int_equal(strtoll(ask(place, "SELECT expires_at FROM claim_rows"), NULL, 10), at(50));
    end(t);
}

static void what_is_known_of_a_lease_ends_with_it(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    advance(t, 20);
    beat(t, id);
    assert_int_equal(inside(t)->beats.live, 1);
    (void)act(t, id, by_worker(&t->w, COMMAND_RELEASE));
    assert_int_equal(inside(t)->beats.live, 0);
    struct command claim = claim_by("w2", true);
    claim.claim.terms.lease_ttl_ms = 1000;
    act(t, id, claim);
    assert_true(end_of(t, id) == at(21));
    end(t);
}

static void who_closes_the_store_writes_what_is_in_memory(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    struct str token = t->w.token;
    struct uuid plan = submit_plan(t, "p", "[{'id':'x'}]");
    act(t, plan, step_claim_of(&t->w, "x", "r1", true));
    advance(t, 20);
    beat(t, plan);
    t->w.token = token;
    beat(t, id);
    reopen(t);
    assert_true(end_of(t, id) == at(50));
    assert_true(whole(t, plan).steps[0].lease.expires_at == at(50));
    assert_true(t->store->beats_since == 0);
    end(t);
}

/* The files of a store that is in use, as another process finds them when its owner was killed. */
static void kill_and_open(struct trial *t, const struct place *place)
{
    static const char *const suffixes[] = {"", "-wal"};
    struct store_options options = t->store->options;
    char command[512];
    char path[128];
    (void)snprintf(path, sizeof path, "%s-killed", place->path);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(command, sizeof command, "cp %s%s %s%s", place->path, suffixes[i], path,
                       suffixes[i]);
        assert_int_equal(system(command), 0);
    }
    store_close(t->store);
    ok(t, sqlite_store_open(str_from(path), &options, &t->store, &t->w.err));
}

static void who_opens_it_after_a_kill_knows_until_when_heartbeats_may_be_lost(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    assert_true(t->store->beats_since == 0);
    advance(t, 20);
    beat(t, id);
    advance(t, 5);
    kill_and_open(t, *state);
    assert_true(t->store->beats_since == at(25));
    assert_true(end_of(t, id) == at(30));
    advance(t, 1);
    beat(t, id);
    assert_true(end_of(t, id) == at(56));
    end(t);
}

/* Programs that come and go must not give a lease a new term each time. */
static void what_was_lost_stays_known_as_it_was_when_the_store_is_closed(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    beat(t, id);
    advance(t, 25);
    kill_and_open(t, place);
    (void)strcat(place->path, "-killed");
    for (int i = 0; i < 3; i++) {
        advance(t, 7);
        reopen(t);
        assert_true(t->store->beats_since == at(25));
    }
    t->now = at(3);
    assert_int_equal(unlink(beside(place, ".lock")), 0);
    reopen(t);
    assert_true(t->store->beats_since <= at(25));
    end(t);
}

static void without_room_in_memory_a_heartbeat_is_written(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    ((struct sqlite_store *)t->store)->beats.live = BEATS_MAX;
    advance(t, 20);
    beat(t, id);
    ((struct sqlite_store *)t->store)->beats.live = 0;
    assert_true(end_of(t, id) == at(50));
    reopen(t);
    assert_true(end_of(t, id) == at(50));
    end(t);
}

/* ---- the table ---- */

static struct uuid numbered_id(uint32_t number)
{
    struct uuid id = {{0}};
    memcpy(id.bytes, &number, sizeof number);
    return id;
}

static int64_t known_end(const struct beats *beats, uint32_t number)
{
    struct uuid id = numbered_id(number);
    struct claim_row claim = {.attempt = 1};
    beats_apply(beats, &id, STEP_NONE, &claim);
    return claim.expires_at;
}

static void put_end(struct beats *beats, uint32_t number, int64_t attempt, int64_t expires_at)
{
    struct uuid id = numbered_id(number);
    struct claim_row claim = {.attempt = attempt, .expires_at = expires_at, .beat_at = 1};
    struct beat one = beat_of(&id, STEP_NONE, &claim);
    assert_true(beats_reserve(beats, 1));
    beats_put(beats, &one);
}

/* Which needs no room. */
static void end_lease(struct beats *beats, uint32_t number)
{
    static const struct claim_row ended;
    struct uuid id = numbered_id(number);
    struct beat one = beat_of(&id, STEP_NONE, &ended);
    beats_put(beats, &one);
}

static void the_table_holds_live_leases_and_stays_small(void **state)
{
    (void)state;
    struct beats beats;
    beats_init(&beats, 7);
    for (uint32_t i = 0; i < 100 * 1000; i++) {
        put_end(&beats, i, 1, 1000 + i);
        if (i >= 100)
            put_end(&beats, i - 100, 0, 0);
        assert_true(beats.live <= 101 && beats.cap <= 1024);
    }
    for (uint32_t i = 100 * 1000 - 100; i < 100 * 1000; i++)
        assert_true(known_end(&beats, i) == 1000 + i);
    assert_true(known_end(&beats, 100 * 1000 - 101) == 0);
    beats_release(&beats);
}

static void the_table_is_bounded(void **state)
{
    (void)state;
    struct beats beats;
    beats_init(&beats, 7);
    for (uint32_t i = 0; i < BEATS_MAX; i++)
        put_end(&beats, i, 1, 1000 + i);
    assert_false(beats_reserve(&beats, beats.cap - beats.count + 1));
    for (uint32_t i = 0; i < BEATS_MAX; i++)
        assert_true(known_end(&beats, i) == 1000 + i);
    beats_release(&beats);
}

/* The table is made twice as large as what is live: the room in it is not all to be used. */
static void leases_that_end_make_no_room_beyond_the_bound(void **state)
{
    (void)state;
    struct beats beats;
    beats_init(&beats, 7);
    for (uint32_t i = 0; i < BEATS_MAX; i++)
        put_end(&beats, i, 1, 1000 + i);
    for (uint32_t i = 0; i < BEATS_MAX / 4; i++)
        end_lease(&beats, i);
    for (uint32_t i = 0; i < BEATS_MAX / 4; i++)
        put_end(&beats, BEATS_MAX + i, 1, 1000 + i);
    assert_int_equal(beats.live, BEATS_MAX);
    assert_true(beats.cap > BEATS_MAX);
    assert_false(beats_reserve(&beats, 1));
    end_lease(&beats, BEATS_MAX);
    assert_true(beats_reserve(&beats, 1));
    beats_release(&beats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_heartbeat_writes_nothing_and_wakes_nobody),
        IN_PLACE(everybody_who_reads_sees_the_moved_end),
        IN_PLACE(a_heartbeat_of_a_step_is_kept_in_the_same_way),
        IN_PLACE(a_heartbeat_that_is_rolled_back_moves_nothing),
        IN_PLACE(a_later_write_of_the_lease_stores_the_moved_end),
        IN_PLACE(what_is_known_of_a_lease_ends_with_it),
        IN_PLACE(who_closes_the_store_writes_what_is_in_memory),
        IN_PLACE(who_opens_it_after_a_kill_knows_until_when_heartbeats_may_be_lost),
        IN_PLACE(what_was_lost_stays_known_as_it_was_when_the_store_is_closed),
        IN_PLACE(without_room_in_memory_a_heartbeat_is_written),
        cmocka_unit_test(the_table_holds_live_leases_and_stays_small),
        cmocka_unit_test(the_table_is_bounded),
        cmocka_unit_test(leases_that_end_make_no_room_beyond_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
