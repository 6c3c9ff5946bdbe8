/* The suite on PostgreSQL. The server is that of PAWL_TEST_POSTGRES (scripts/with-postgres starts
 * one). There is one database for all tests, emptied before each: to make and drop one for each
 * takes a server far longer than the tests themselves. */
#include <libpq-fe.h>

#include "store/conformance.h"
#include "store/test_stores.h"

struct database {
    struct test_stores stores;
    char url[1024];
};

/* All rows but those about the schema itself, and numbers from 1 again. */
static const char empty_it[] =
    "DO $$ DECLARE name text; BEGIN"
    " FOR name IN SELECT tablename FROM pg_tables"
    "   WHERE schemaname = 'pawl' AND tablename NOT LIKE 'schema%'"
    " LOOP EXECUTE format('DELETE FROM pawl.%I', name); END LOOP;"
    " FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'pawl'"
    " LOOP EXECUTE format('ALTER SEQUENCE pawl.%I RESTART', name); END LOOP;"
    " END $$";

static enum error_code open_postgres(void *arg, const struct store_options *options,
                                     struct store **ret, struct err *err)
{
    struct database *database = arg;
    PGconn *connection = PQconnectdb(database->url);
    PGresult *result = PQexec(connection, empty_it);
    bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!done)
        print_error("%s\n", PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
    if (!done)
        return err_set(err, ERR_UNAVAILABLE, "the database cannot be emptied");
    return store_open(str_from(database->url), options, ret, err);
}

static void discard_postgres(void *arg)
{
    (void)arg;
}

/* An empty store, for the tests to fill. */
static bool make_database(struct database *database)
{
    struct store_options options = {.create = true, .seed = 1};
    struct store *store;
    struct err err;
    test_stores_init(&database->stores);
    (void)snprintf(database->url, sizeof database->url, "%s",
                   test_stores_fresh(&database->stores, TEST_POSTGRES));
    if (store_open(str_from(database->url), &options, &store, &err) != ERR_OK) {
        print_error("%s\n", err.detail);
        return false;
    }
    store_close(store);
    return true;
}

int main(void)
{
    struct database database;
    const struct store_factory factory = {
        .name = "postgres",
        .open = open_postgres,
        .discard = discard_postgres,
        .arg = &database,
    };
    int failed = make_database(&database) ? conformance_run(&factory) : 1;
    test_stores_release(&database.stores);
    return failed;
}
