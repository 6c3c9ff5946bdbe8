/* How far a read of the SQLite store goes: histories in parts, lists that no index helps, and
 * sweeps. */
#include "engine/engine.h"
#include "engine/verb.h"
#include "store/sqlite_trial.h"

/* In tests a place is a directory. */
#define place placed_work
#include "store/sqlite/sqlite.h"
#undef place

/* ---- histories ---- */

enum { COMMITS = 140, VERSIONS = 1 + 2 * COMMITS };

/* A job each of whose commits but the last became a part of history, with two events. */
static struct uuid job_of_many_parts(struct trial *t)
{
    struct uuid id = submit(t, "a");
    struct buf payload;
    buf_init(&payload, &t->w.arena, 2048);
    buf_add_char(&payload, '"');
    buf_add(&payload, filled(t, 'x', 1600));
    buf_add_char(&payload, '"');
    const struct appended events[] = {{STR("my.note"), buf_str(&payload)},
                                      {STR("my.end"), STR("1")}};
    for (int i = 0; i < COMMITS; i++) {
        struct command append = by_user(COMMAND_APPEND);
        append.append.events = events;
        append.append.count = 2;
        append.append.expected_version = -1;
        act(t, id, append);
    }
    return id;
}

static uint32_t events_behind(struct trial *t, struct uuid id, int64_t after, const char *type,
                              uint32_t limit, struct arena *arena, struct event **ret)
{
    struct store_txn *txn = begin(t, STORE_READ);
    struct store_stream stream = {
        .job = id, .after = after, .type = str_from(type), .limit = limit};
    uint32_t count;
    ok(t, store_events(txn, &stream, arena, ret, &count, &t->w.err));
    rollback(t, txn);
    return count;
}

static void a_history_in_many_parts_is_read_from_anywhere_to_its_end(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = job_of_many_parts(t);
    for (int64_t after = 0; after <= VERSIONS; after++) {
        static const uint32_t limits[] = {1, 2, 3, 127, 128, 129, 1000};
        uint32_t limit = limits[after % 7];
        struct event *events;
        uint32_t count = events_behind(t, id, after, NULL, limit, &t->w.arena, &events);
        int64_t left = VERSIONS - after;
        assert_int_equal(count, left < limit ? left : limit);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(events[i].version, after + 1 + i);
    }
    struct event *ends;
    assert_int_equal(events_behind(t, id, 0, "my.end", 1000, &t->w.arena, &ends), COMMITS);
    assert_int_equal(events_behind(t, id, 100, "job_created", 1000, &t->w.arena, &ends), 0);
    end(t);
}

static void who_reads_one_event_does_not_read_all_parts(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid id = job_of_many_parts(t);
    struct arena arena;
    struct event *events;
    arena_init(&arena);
    assert_int_equal(events_behind(t, id, 20, NULL, 1, &arena, &events), 1);
    assert_true(arena_size(&arena) < 20 * 1024);
    arena_release(&arena);
    end(t);
}

/* Of a part whose hashes are cut off the rest is not told; all others are, however many. */
static void damage_to_a_part_hides_no_other(void **state)
{
    struct place *place = *state;
    struct trial *t = trial_in(place);
    struct uuid id = job_of_many_parts(t);
    struct event *events;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE history SET hashes = substr(hashes, 1, 32) WHERE first = 4", NULL,
                     NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    (void)sqlite3_close(db);
    uint32_t count = events_behind(t, id, 4, NULL, 1000, &t->w.arena, &events);
    assert_true(count >= VERSIONS - 5);
    for (uint32_t i = 0; i < VERSIONS - 5; i++)
        assert_int_equal(events[count - 1 - i].version, VERSIONS - i);
    end(t);
}

/* ---- lists ---- */

enum { JOBS = 10, FEW = 4 };

static void look_at_few(struct trial *t)
{
    ((struct sqlite_store *)t->store)->list_rows_max = FEW;
}

static uint32_t list_some(struct trial *t, struct store_filter *filter, struct store_job **ret)
{
    struct store_txn *txn = begin(t, STORE_READ);
    uint32_t count;
    ok(t, store_list(txn, filter, &t->w.arena, ret, &count, &t->w.err));
    rollback(t, txn);
    return count;
}

static void a_list_that_no_index_helps_stops_and_says_where(void **state)
{
    struct trial *t = trial_in(*state);
    struct uuid ids[JOBS];
    for (int i = 0; i < JOBS; i++)
        ids[i] = submit(t, "a");
    act(t, ids[0], cancel_by(CANCEL_HARD, "no"));
    act(t, ids[7], cancel_by(CANCEL_HARD, "no"));
    look_at_few(t);
    struct store_reach reach;
    struct store_filter filter = {.statuses = 1u << JOB_CANCELLED, .limit = 5, .reach = &reach};
    struct store_job *jobs;
    assert_int_equal(list_some(t, &filter, &jobs), 1);
    assert_true(uuid_eq(jobs[0].id, ids[7]));
    assert_true(reach.stopped && uuid_eq(reach.at, ids[6]));
    filter.before = reach.at;
    assert_int_equal(list_some(t, &filter, &jobs), 0);
    assert_true(reach.stopped && uuid_eq(reach.at, ids[2]));
    filter.before = reach.at;
    assert_int_equal(list_some(t, &filter, &jobs), 1);
    assert_true(uuid_eq(jobs[0].id, ids[0]));
    assert_false(reach.stopped);
    /* A page that is full has not stopped, and who cannot go on is given all. */
    filter = (struct store_filter){.limit = FEW, .reach = &reach};
    assert_int_equal(list_some(t, &filter, &jobs), FEW);
    assert_false(reach.stopped);
    filter = (struct store_filter){.statuses = 1u << JOB_CANCELLED, .limit = 5};
    assert_int_equal(list_some(t, &filter, &jobs), 2);
    end(t);
}

static struct str ask_engine(struct trial *t, struct engine *engine, enum verb_name verb,
                             const char *request)
{
    struct verb_call call = {.engine = engine,
                             .arena = &t->w.arena,
                             .name = verb,
                             .request = js(&t->w, request),
                             .actor = STR("ann")};
    struct buf answer;
    buf_init(&answer, &t->w.arena, 512);
    ok(t, verb_respond(&call, &answer, &t->w.err));
    return buf_str(&answer);
}

/* With a NUL behind it. */
static const char *terminated(struct trial *t, struct str text)
{
    char *copy = arena_zalloc(&t->w.arena, 1, text.len + 1);
    assert_non_null(copy);
    memcpy(copy, text.at, text.len);
    return copy;
}

static void lists_and_bulk_operations_go_on_where_a_list_has_stopped(void **state)
{
    struct trial *t = trial_in(*state);
    struct engine *engine;
    struct engine_options options = {.lent = t->store, .by_hand = true};
    for (int i = 0; i < JOBS; i++) {
        struct spec spec = world_spec();
        spec.kind = i % 5 == 0 ? STR("rare") : STR("mail");
        (void)submit_spec(t, "a", spec);
    }
    look_at_few(t);
    ok(t, engine_open(STR("memory:"), &options, &engine, &t->w.err));
    struct str list = ask_engine(t, engine, VERB_list, "{'kind':'rare'}");
    const char *text = terminated(t, list);
    assert_non_null(strstr(text, "\"next_cursor\":null"));
    const char *first = strstr(text, "\"kind\":\"rare\"");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"kind\":\"rare\""));
    struct str done =
        ask_engine(t, engine, VERB_bulk, "{'action':'cancel','filter':{'kind':'rare'}}");
    assert_non_null(strstr(terminated(t, done), "\"matched\":2,\"done\":2"));
    engine_close(engine);
    end(t);
}

/* ---- requests ---- */

static void put_requests(struct trial *t, int first, int count, int64_t at)
{
    struct request_record *records = arena_zalloc(&t->w.arena, (size_t)count, sizeof *records);
    assert_non_null(records);
    for (int i = 0; i < count; i++)
        records[i] = (struct request_record){.scope = STR("s"),
                                             .key = str_from(numbered(&t->w, "k", first + i)),
                                             .at = at,
                                             .answer = STR("{}")};
    write_other(t, &(struct store_write){.requests = records, .request_count = (uint32_t)count});
}

static uint32_t swept(struct trial *t, int64_t now, uint32_t limit)
{
    uint32_t count = UINT32_MAX;
    ok(t, store_sweep(t->store, now, limit, &count, &t->w.err));
    return count;
}

/* Two thirds of them fit in one sweep. The old ones are the last by their keys. */
static void a_sweep_of_requests_goes_on_where_the_last_one_ended(void **state)
{
    struct trial *t = trial_in(*state);
    int count = REQUESTS_WALKED_MAX * 3 / 2;
    int64_t later = t->now + REQUEST_KEPT_MS;
    put_requests(t, 100000, count, later);
    put_requests(t, 900000, 3, t->now);
    assert_int_equal(swept(t, later, 2), 0);
    assert_int_equal(swept(t, later, 2), 2);
    assert_int_equal(swept(t, later, 2), 1);
    /* From the first again. */
    put_requests(t, 100000, 1, t->now);
    assert_int_equal(swept(t, later, 2), 1);
    end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_history_in_many_parts_is_read_from_anywhere_to_its_end),
        IN_PLACE(who_reads_one_event_does_not_read_all_parts),
        IN_PLACE(damage_to_a_part_hides_no_other),
        IN_PLACE(a_list_that_no_index_helps_stops_and_says_where),
        IN_PLACE(lists_and_bulk_operations_go_on_where_a_list_has_stopped),
        IN_PLACE(a_sweep_of_requests_goes_on_where_the_last_one_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
