/* Where a connection leads: what a handle does when another store is behind the same URL. Failovers
 * themselves are in tests/server/test_failover.py, with a primary and a standby. */
#include "store/postgres/origin.h"

#include "base/clock.h"
#include "engine/mend.h"
#include "engine/position.h"
#include "store/postgres/hosts.h"
#include "store/postgres_case.h"

/* ---- what is allowed ---- */

static struct origin origin(int64_t number, int64_t system, int64_t timeline)
{
    return (struct origin){
        .number = number, .id = {{(uint8_t)number}}, .system = system, .timeline = timeline};
}

static void expect(struct origin known, struct origin seen, enum origin_verdict wanted)
{
    const char *why = NULL;
    enum origin_verdict verdict = origin_judge(&known, &seen, &why);
    if (verdict != wanted)
        fail_msg("%d, not %d: %s", verdict, wanted, why == NULL ? "" : why);
    assert_true((why != NULL) == (wanted == ORIGIN_REFUSED));
}

static void a_handle_stays_where_it_is(void **state)
{
    (void)state;
    expect(origin(5, 7, 1), origin(5, 7, 1), ORIGIN_SAME);
    expect(origin(0, 0, 0), origin(0, 7, 1), ORIGIN_SAME);
    expect(origin(0, 0, 0), origin(5, 7, 1), ORIGIN_FORWARD);
    /* A standby of it, which does not say its timeline, and a server that says nothing. */
    struct origin standby = origin(5, 7, 0);
    standby.is_standby = true;
    expect(origin(5, 7, 1), standby, ORIGIN_SAME);
    expect(origin(5, 0, 0), origin(5, 7, 1), ORIGIN_SAME);
}

static void a_handle_moves_to_a_higher_timeline_and_to_a_later_store(void **state)
{
    (void)state;
    expect(origin(5, 7, 1), origin(6, 7, 2), ORIGIN_FORWARD);
    expect(origin(5, 7, 1), origin(6, 8, 1), ORIGIN_FORWARD);
    expect(origin(5, 0, 0), origin(6, 0, 0), ORIGIN_FORWARD);
    struct origin restored = origin(6, 7, 1);
    restored.is_restored = true;
    expect(origin(5, 7, 1), restored, ORIGIN_FORWARD);
}

static void a_lower_timeline_of_the_same_cluster_is_refused(void **state)
{
    (void)state;
    expect(origin(6, 7, 2), origin(5, 7, 1), ORIGIN_REFUSED);
    expect(origin(6, 7, 2), origin(9, 7, 1), ORIGIN_REFUSED);
}

static void a_second_primary_of_the_same_timeline_is_refused(void **state)
{
    (void)state;
    expect(origin(6, 7, 2), origin(8, 7, 2), ORIGIN_REFUSED);
}

static void a_store_that_was_left_is_not_returned_to(void **state)
{
    (void)state;
    expect(origin(6, 8, 1), origin(5, 7, 1), ORIGIN_REFUSED);
    struct origin standby = origin(5, 7, 0);
    standby.is_standby = true;
    expect(origin(6, 7, 2), standby, ORIGIN_REFUSED);
}

static void a_primary_with_a_note_is_refused_by_everybody(void **state)
{
    (void)state;
    struct origin noted = origin(5, 7, 1);
    noted.superseded_by = 2;
    expect(origin(0, 0, 0), noted, ORIGIN_REFUSED);
    expect(origin(5, 7, 1), noted, ORIGIN_REFUSED);
    /* Promoted since, it is the latest again. */
    noted.timeline = 2;
    expect(origin(0, 0, 0), noted, ORIGIN_FORWARD);
}

/* ---- hosts ---- */

static void hosts_are_read_from_every_form_of_a_url(void **state)
{
    struct hosts hosts;
    (void)state;
    assert_int_equal(hosts_read(&hosts, "postgres://u@a:1,b:2/d", NULL), ERR_OK);
    assert_int_equal(hosts.count, 2);
    assert_string_equal(hosts.at[1].name, "b");
    assert_string_equal(hosts.at[1].port, "2");
    hosts_release(&hosts);
    assert_int_equal(hosts_read(&hosts, "postgres:///d?host=a,b,c&port=7", NULL), ERR_OK);
    assert_int_equal(hosts.count, 3);
    assert_string_equal(hosts.at[2].name, "c");
    assert_string_equal(hosts.at[2].port, "7");
    hosts_release(&hosts);
    assert_int_equal(hosts_read(&hosts, "postgres:///d?hostaddr=127.0.0.1,127.0.0.2", NULL),
                     ERR_OK);
    assert_int_equal(hosts.count, 2);
    assert_string_equal(hosts.at[0].address, "127.0.0.1");
    assert_null(hosts.at[0].name);
    hosts_release(&hosts);
}

static void one_host_or_a_list_that_does_not_match_is_left_to_libpq(void **state)
{
    static const char *const urls[] = {"postgres://u@a:1/d", "postgres:///d",
                                       "postgres:///d?host=a,b,c&port=1,2", "no url"};
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct hosts hosts;
        assert_int_equal(hosts_read(&hosts, urls[i], NULL), ERR_OK);
        assert_int_equal(hosts.count, 0);
        hosts_release(&hosts);
    }
}

/* ---- on a database ---- */

/* Until the handle has found out that the store is another one. */
static void submit_again(struct postgres_case *c)
{
    enum store_outcome outcome;
    struct uuid id = next_id(c);
    enum error_code code = ERR_UNAVAILABLE;
    for (int i = 0; i < 3 && code == ERR_UNAVAILABLE; i++)
        code = submit_with(c, id, NULL, &outcome);
    if (code != ERR_OK)
        fail_msg("%s", c->err.detail);
}

/* Rows that were loaded from a dump have been written by another transaction than they say. */
static const char load_rows[] = "UPDATE pawl.incarnations SET xact = xact";

static void the_first_server_says_what_the_store_is(void **state)
{
    struct postgres_case *c = *state;
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.incarnations"), 1);
    assert_int_equal(sql_int(c,
                             "SELECT count(*) FROM pawl.incarnations, pg_control_system() AS s"
                             " WHERE system = s.system_identifier AND timeline = 1 AND NOT restored"
                             " AND feed_floor = 9223372036854775807"),
                     1);
    /* The next one finds it said. */
    batcher_release(&c->batcher);
    store_close(c->store);
    case_open(c, c->url);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.incarnations"), 1);
}

static void a_restored_store_has_its_own_numbers_of_lanes(void **state)
{
    struct postgres_case *c = *state;
    uint64_t generation = c->store->generation;
    submit_job(c);
    assert_int_equal(sql_int(c, "SELECT number FROM pawl.lanes"), 1);
    sql(c, "BEGIN");
    sql(c, "UPDATE pawl.lanes SET number = 9 WHERE number = 1");
    sql(c, "UPDATE pawl.ready SET lane = 9");
    sql(c, load_rows);
    sql(c, "COMMIT");
    submit_again(c);
    assert_true(c->store->generation > generation);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.ready WHERE lane = 9"), 2);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.incarnations WHERE restored"), 1);
    assert_int_equal(claim_jobs(c, 10), 2);
}

static void a_transaction_that_began_before_a_restore_is_not_committed(void **state)
{
    struct postgres_case *c = *state;
    enum store_outcome outcome;
    submit_job(c);
    sql(c, load_rows);
    assert_int_equal(submit_with(c, next_id(c), NULL, &outcome), ERR_UNAVAILABLE);
    assert_int_equal(outcome, STORE_NOT_COMMITTED);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.jobs"), 1);
    submit_again(c);
}

static void a_note_about_a_later_timeline_stops_writing_until_it_is_taken_away(void **state)
{
    struct postgres_case *c = *state;
    struct store_origin origin;
    submit_job(c);
    sql(c, "UPDATE pawl.incarnations SET superseded_by = 99, xact = pg_current_xact_id()");
    for (int i = 0; i < 3; i++) {
        enum store_outcome outcome;
        assert_int_equal(submit_with(c, next_id(c), NULL, &outcome), ERR_UNAVAILABLE);
    }
    assert_true(has_text(c->err.detail, "timeline"));
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.jobs"), 1);
    store_origin(c->store, &origin);
    assert_true(origin.refused > 0);
    assert_true(has_text(origin.refusal, "was not fenced"));
    sql(c, "UPDATE pawl.incarnations SET superseded_by = 0, xact = pg_current_xact_id()");
    submit_again(c);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.incarnations"), 1);
}

/* ---- work in wrong lanes ---- */

/* A job of a queue, and how many a claim limited to a queue gets. */
static void submit_to(struct postgres_case *c, const char *queue)
{
    struct spec spec = spec_defaults(NULL);
    enum store_outcome outcome;
    spec.kind = STR("mail");
    spec.queue = str_from(queue);
    struct op op = {
        .type = OP_COMMAND,
        .job = next_id(c),
        .command = {.type = COMMAND_SUBMIT, .actor = STR("tester"), .submit = {.spec = &spec}},
    };
    assert_int_equal(run_ops(&c->batcher, &op, 1, &c->arena, &outcome, &c->err), ERR_OK);
    assert_int_equal(op.code, ERR_OK);
}

static uint32_t claim_of(struct postgres_case *c, const char *queue)
{
    struct str names[] = {str_from(queue)};
    struct op op = {
        .type = OP_CLAIM,
        .command = {.type = COMMAND_CLAIM, .actor = STR("w1")},
        .claim = {.claimer = {.work = LANE_JOBS, .queues = {names, 1}}, .max = 10},
    };
    enum store_outcome outcome;
    op.command.claim.worker_id = STR("w1");
    assert_int_equal(run_ops(&c->batcher, &op, 1, &c->arena, &outcome, &c->err), ERR_OK);
    for (uint32_t i = 0; i < op.grant_count; i++)
        assert_true(str_eq(op.grants[i].slice->job.spec.queue, names[0]));
    return op.grant_count;
}

static void work_in_a_wrong_lane_is_given_to_nobody_of_another_queue(void **state)
{
    struct postgres_case *c = *state;
    submit_to(c, "q1");
    submit_to(c, "q2");
    sql(c, "UPDATE pawl.ready SET lane = 2");
    assert_int_equal(claim_of(c, "q2"), 1);
    /* It was put into its own lane. */
    assert_int_equal(sql_int(c, "SELECT lane FROM pawl.ready"), 1);
    assert_int_equal(claim_of(c, "q1"), 1);
}

static void work_in_lanes_that_do_not_exist_is_put_right(void **state)
{
    struct postgres_case *c = *state;
    uint64_t count = 99;
    submit_to(c, "q1");
    submit_to(c, "q1");
    submit_to(c, "q2");
    assert_int_equal(mend_lanes(c->store, &c->arena, &count, &c->err), ERR_OK);
    assert_int_equal(count, 0);
    sql(c, "UPDATE pawl.ready SET lane = lane + 70");
    sql(c, "INSERT INTO pawl.timers (kind, at, job_id, step, lane, rank)"
           " SELECT 0, 4102444800000, job_id, step, lane, rank FROM pawl.ready LIMIT 1");
    sql(c, "DELETE FROM pawl.ready r USING pawl.timers t WHERE r.job_id = t.job_id");
    assert_int_equal(claim_of(c, "q1") + claim_of(c, "q2"), 0);
    assert_int_equal(mend_lanes(c->store, &c->arena, &count, &c->err), ERR_OK);
    assert_int_equal(count, 3);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.ready WHERE lane IN (1, 2)"), 2);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.timers WHERE lane IN (1, 2)"), 1);
    assert_int_equal(claim_of(c, "q1") + claim_of(c, "q2"), 2);
    assert_int_equal(mend_lanes(c->store, &c->arena, &count, &c->err), ERR_OK);
    assert_int_equal(count, 0);
}

static struct store_position last_position(struct postgres_case *c)
{
    struct store_fed *fed = NULL;
    uint32_t count = 0;
    struct store_txn *txn;
    struct store_feed_state state = {0};
    int64_t until = clock_monotonic_us() + (int64_t)20 * 1000 * 1000;
    /* Transactions of other tests may hold events back for a while. */
    while (count == 0) {
        assert_int_equal(store_begin(c->store, STORE_READ, &txn, &c->err), ERR_OK);
        assert_int_equal(store_feed_state(txn, (struct store_position){0}, &state, &c->err),
                         ERR_OK);
        assert_false(state.is_reset);
        assert_int_equal(
            store_feed(txn, (struct store_position){0}, 100, &c->arena, &fed, &count, &c->err),
            ERR_OK);
        store_rollback(txn);
        assert_true(clock_monotonic_us() < until);
    }
    fed[count - 1].position.era = state.era;
    return fed[count - 1].position;
}

static enum error_code check_position(struct postgres_case *c, struct store_position position,
                                      uint64_t *ret_era)
{
    struct store_txn *txn;
    assert_int_equal(store_begin(c->store, STORE_READ, &txn, &c->err), ERR_OK);
    enum error_code code = position_check(txn, position, ret_era, &c->err);
    store_rollback(txn);
    return code;
}

/* Takes the feed back to a position, as a dump from before the next one was given has it. */
static void take_feed_back(struct postgres_case *c, struct store_position position)
{
    char text[160];
    (void)snprintf(text, sizeof text,
                   "UPDATE pawl.batch_rows SET number = NULL WHERE number > %llu;"
                   " UPDATE pawl.feed_end SET number = %llu",
                   (unsigned long long)position.major, (unsigned long long)position.major);
    sql(c, text);
    sql(c, load_rows);
    submit_again(c);
}

static void a_follower_of_lost_events_is_told_where_to_go_on(void **state)
{
    struct postgres_case *c = *state;
    uint64_t era = 0;
    char expected[64];
    submit_job(c);
    struct store_position kept = last_position(c);
    submit_job(c);
    struct store_position lost = last_position(c);
    assert_int_equal(check_position(c, lost, &era), ERR_OK);
    assert_true(era == lost.era && era != 0);
    take_feed_back(c, kept);
    assert_int_equal(check_position(c, lost, &era), ERR_FEED_RESET);
    (void)snprintf(expected, sizeof expected, "%llu-", (unsigned long long)kept.major);
    assert_memory_equal(c->err.cursor, expected, strlen(expected));
    assert_int_equal(check_position(c, kept, &era), ERR_OK);
    assert_int_equal(check_position(c, last_position(c), &era), ERR_OK);
}

static void a_position_without_its_life_is_taken_while_nothing_speaks_against_it(void **state)
{
    struct postgres_case *c = *state;
    uint64_t era = 0;
    submit_job(c);
    struct store_position kept = last_position(c);
    submit_job(c);
    struct store_position position = last_position(c);
    position.era = 0;
    assert_int_equal(check_position(c, position, &era), ERR_OK);
    struct store_position ahead = {.major = position.major + 1000000};
    assert_int_equal(check_position(c, ahead, &era), ERR_FEED_RESET);
    struct store_position foreign = {.major = position.major, .era = INT64_MAX};
    assert_int_equal(check_position(c, foreign, &era), ERR_FEED_RESET);
    take_feed_back(c, kept);
    assert_int_equal(check_position(c, position, &era), ERR_FEED_RESET);
}

static void a_server_that_says_neither_cluster_nor_timeline_will_do(void **state)
{
    struct postgres_case *c = *state;
    char url[sizeof c->url + 64];
    sql(c, "DO $$ BEGIN CREATE ROLE pawl_plain LOGIN; EXCEPTION WHEN duplicate_object THEN NULL;"
           " END $$");
    sql(c, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
    sql(c, "REVOKE EXECUTE ON FUNCTION pg_current_wal_flush_lsn() FROM PUBLIC");
    sql(c, "CREATE SCHEMA pawl AUTHORIZATION pawl_plain");
    const char *at = strchr(c->url, '@');
    assert_non_null(at);
    (void)snprintf(url, sizeof url, "postgres://pawl_plain%s", at);
    case_open(c, url);
    submit_job(c);
    assert_int_equal(sql_int(c, "SELECT system + timeline FROM pawl.incarnations"), 0);
    sql(c, load_rows);
    submit_again(c);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.incarnations"), 2);
    assert_int_equal(claim_jobs(c, 10), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_stays_where_it_is),
        cmocka_unit_test(a_handle_moves_to_a_higher_timeline_and_to_a_later_store),
        cmocka_unit_test(a_lower_timeline_of_the_same_cluster_is_refused),
        cmocka_unit_test(a_second_primary_of_the_same_timeline_is_refused),
        cmocka_unit_test(a_store_that_was_left_is_not_returned_to),
        cmocka_unit_test(a_primary_with_a_note_is_refused_by_everybody),
        cmocka_unit_test(hosts_are_read_from_every_form_of_a_url),
        cmocka_unit_test(one_host_or_a_list_that_does_not_match_is_left_to_libpq),
        CASE(the_first_server_says_what_the_store_is),
        CASE(a_restored_store_has_its_own_numbers_of_lanes),
        CASE(a_transaction_that_began_before_a_restore_is_not_committed),
        CASE(a_note_about_a_later_timeline_stops_writing_until_it_is_taken_away),
        CASE(work_in_a_wrong_lane_is_given_to_nobody_of_another_queue),
        CASE(work_in_lanes_that_do_not_exist_is_put_right),
        CASE(a_follower_of_lost_events_is_told_where_to_go_on),
        CASE(a_position_without_its_life_is_taken_while_nothing_speaks_against_it),
        BARE_CASE(a_server_that_says_neither_cluster_nor_timeline_will_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
