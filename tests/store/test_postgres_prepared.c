/* Statements that a connection prepares under names. tests/store/test_postgres_pooler.c has what
 * must not happen behind a pooler. */
#include "store/postgres/postgres.h"
#include "store/postgres_case.h"

static struct connection open_connection(struct postgres_case *c)
{
    struct connection connection = {.timeout_ms = 10 * 1000};
    if (connection_open(&connection, c->url, clock_monotonic_ms() + 10 * 1000, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    connection.is_naming = true;
    return connection;
}

/* What a statement with one parameter, 40, comes to. */
static enum error_code ask(struct postgres_case *c, struct connection *connection,
                           const char *statement, int64_t *ret)
{
    struct params params;
    PGresult *result = NULL;
    struct reader reader;
    params_init(&params, &c->arena);
    params_add_int8(&params, 40);
    enum error_code code = connection_ask(connection, statement, &params, &result, &c->err);
    if (code != ERR_OK) {
        connection_rollback(connection);
        return code;
    }
    reader_init(&reader, result, &c->arena);
    reader_row(&reader, 0);
    *ret = reader_int(&reader);
    PQclear(result);
    return connection_sync(connection, &c->err);
}

static int64_t answer(struct postgres_case *c, struct connection *connection, const char *statement)
{
    int64_t value = 0;
    if (ask(c, connection, statement, &value) != ERR_OK)
        fail_msg("%s", c->err.detail);
    return value;
}

static const char add_two[] = "SELECT $1::int8 + 2";
static const char count_names[] =
    "SELECT count(*) + 0 * $1::int8 FROM pg_prepared_statements WHERE name LIKE 'pawl%'";

static void a_statement_that_was_met_is_prepared_before_the_next_transaction(void **state)
{
    struct postgres_case *c = *state;
    struct connection connection = open_connection(c);
    assert_int_equal(answer(c, &connection, add_two), 42);
    assert_int_equal(answer(c, &connection, add_two), 42);
    assert_int_equal(connection.prepared.count, 1);
    assert_int_equal(connection.prepared.ready, 0);
    assert_int_equal(connection_prepare(&connection, &c->err), ERR_OK);
    assert_int_equal(connection.prepared.ready, 1);
    assert_int_equal(answer(c, &connection, add_two), 42);
    assert_int_equal(answer(c, &connection, count_names), 1);
    assert_int_equal(connection_prepare(&connection, &c->err), ERR_OK);
    assert_int_equal(answer(c, &connection, count_names), 2);
    connection_close(&connection);
}

static void another_text_at_the_same_place_is_another_statement(void **state)
{
    struct postgres_case *c = *state;
    struct connection connection = open_connection(c);
    char text[32];
    (void)snprintf(text, sizeof text, "SELECT $1::int8 + 2");
    assert_int_equal(answer(c, &connection, text), 42);
    assert_int_equal(connection_prepare(&connection, &c->err), ERR_OK);
    (void)snprintf(text, sizeof text, "SELECT $1::int8 + 3");
    assert_int_equal(answer(c, &connection, text), 43);
    connection_close(&connection);
}

static void a_connection_whose_statements_were_forgotten_is_not_kept(void **state)
{
    struct postgres_case *c = *state;
    struct connection connection = open_connection(c);
    int64_t value = 0;
    assert_int_equal(answer(c, &connection, add_two), 42);
    assert_int_equal(connection_prepare(&connection, &c->err), ERR_OK);
    assert_int_equal(connection_send_quiet(&connection, "DEALLOCATE ALL", NULL, &c->err), ERR_OK);
    assert_int_equal(connection_sync(&connection, &c->err), ERR_OK);
    assert_int_equal(ask(c, &connection, add_two, &value), ERR_UNAVAILABLE);
    assert_true(connection.is_stale);
    connection_close(&connection);
    assert_false(connection.is_stale);
}

static void what_cannot_be_prepared_is_sent_as_it_is(void **state)
{
    struct postgres_case *c = *state;
    struct connection connection = open_connection(c);
    int64_t value = 0;
    assert_int_equal(ask(c, &connection, "SELECT $1::int8 +", &value), ERR_UNAVAILABLE);
    assert_int_equal(answer(c, &connection, add_two), 42);
    assert_int_equal(connection_prepare(&connection, &c->err), ERR_OK);
    assert_true(connection.prepared.is_refused);
    assert_int_equal(answer(c, &connection, add_two), 42);
    assert_int_equal(answer(c, &connection, count_names), 0);
    connection_close(&connection);
}

static void more_statements_than_there_is_room_for_are_sent_as_they_are(void **state)
{
    struct postgres_case *c = *state;
    struct connection connection = open_connection(c);
    static char texts[PREPARED_MAX + 2][32];
    for (int i = 0; i < PREPARED_MAX + 2; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "SELECT $1::int8 + %d", i);
        assert_int_equal(answer(c, &connection, texts[i]), 40 + i);
    }
    assert_int_equal(connection_prepare(&connection, &c->err), ERR_OK);
    assert_int_equal(connection.prepared.ready, PREPARED_MAX);
    for (int i = 0; i < PREPARED_MAX + 2; i++)
        assert_int_equal(answer(c, &connection, texts[i]), 40 + i);
    connection_close(&connection);
}

/* Which of two connections comes first must not decide what a name means. */
static void a_name_stands_for_the_same_statement_on_every_connection(void **state)
{
    struct postgres_case *c = *state;
    struct connection one = open_connection(c);
    struct connection other = open_connection(c);
    assert_int_equal(answer(c, &one, add_two), 42);
    assert_int_equal(answer(c, &one, count_names), 0);
    assert_int_equal(answer(c, &other, count_names), 0);
    assert_int_equal(answer(c, &other, add_two), 42);
    assert_int_equal(one.prepared.count, 2);
    assert_int_equal(other.prepared.count, 2);
    assert_string_equal(one.prepared.at[0].name, other.prepared.at[1].name);
    assert_string_equal(one.prepared.at[1].name, other.prepared.at[0].name);
    assert_string_not_equal(one.prepared.at[0].name, one.prepared.at[1].name);
    connection_close(&one);
    connection_close(&other);
}

/* As behind a pooler that hands on the numbers of real processes. */
static void a_store_whose_statements_were_forgotten_uses_no_names_any_more(void **state)
{
    struct postgres_case *c = *state;
    struct postgres *store = (struct postgres *)c->store;
    struct connection *connection;
    enum store_outcome outcome;
    submit_job(c);
    submit_job(c);
    assert_int_equal(pool_take(store, &connection, &c->err), ERR_OK);
    assert_true(connection->prepared.ready > 0);
    assert_int_equal(connection_send_quiet(connection, "DEALLOCATE ALL", NULL, &c->err), ERR_OK);
    assert_int_equal(connection_sync(connection, &c->err), ERR_OK);
    pool_give(store, connection);
    assert_int_equal(submit_with(c, next_id(c), NULL, &outcome), ERR_UNAVAILABLE);
    assert_int_equal(outcome, STORE_NOT_COMMITTED);
    for (int i = 0; i < 3; i++)
        submit_job(c);
    assert_int_equal(pool_take(store, &connection, &c->err), ERR_OK);
    uint32_t ready = connection->prepared.ready;
    pool_give(store, connection);
    assert_int_equal(ready, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BARE_CASE(a_statement_that_was_met_is_prepared_before_the_next_transaction),
        BARE_CASE(another_text_at_the_same_place_is_another_statement),
        BARE_CASE(a_connection_whose_statements_were_forgotten_is_not_kept),
        BARE_CASE(what_cannot_be_prepared_is_sent_as_it_is),
        BARE_CASE(more_statements_than_there_is_room_for_are_sent_as_they_are),
        BARE_CASE(a_name_stands_for_the_same_statement_on_every_connection),
        CASE(a_store_whose_statements_were_forgotten_uses_no_names_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
