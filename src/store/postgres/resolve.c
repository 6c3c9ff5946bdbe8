#include "store/postgres/resolve.h"

/* Both want the row (session, batch), and only one can have it. If the old transaction still runs
 * the insert waits for its end; if its writes have not reached the server yet, they will fail on
 * our row. Asking again after an answer was lost finds the same row: nothing is decided twice.
 *
 * The row is written in either case: a transaction that writes nothing waits for no standby when it
 * commits, and the old transaction's end may have been seen before any standby had it. */
static const char take_row[] =
    "INSERT INTO pawl.batch_rows AS b (session, batch, fenced) VALUES ($1, $2, true)"
    " ON CONFLICT (session, batch) DO UPDATE SET at = excluded.at RETURNING b.fenced";

static enum error_code ask_fate(struct connection *connection, struct uuid session, int64_t batch,
                                bool *ret_fenced, struct err *err)
{
    struct arena arena;
    struct params params;
    struct params none;
    struct reader reader;
    PGresult *result = NULL;
    arena_init(&arena);
    params_init(&params, &arena);
    params_add_uuid(&params, session);
    params_add_int8(&params, batch);
    enum error_code code = connection_send_quiet(
        connection, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", NULL, err);
    params_init(&none, &arena);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, TXN_SYNCHRONOUS, &none, err);
    if (code == ERR_OK)
        code = connection_ask(connection, take_row, &params, &result, err);
    bool found = code == ERR_OK && PQntuples(result) == 1;
    bool fenced = false;
    if (found) {
        reader_init(&reader, result, &arena);
        reader_row(&reader, 0);
        fenced = reader_bool(&reader);
    }
    PQclear(result);
    arena_release(&arena);
    /* Only what is committed counts. */
    if (code == ERR_OK)
        code = connection_send_quiet(connection, "COMMIT", NULL, err);
    if (code == ERR_OK)
        code = connection_sync(connection, err);
    if (code == ERR_OK && connection->rolled_back)
        code = err_set(err, ERR_UNAVAILABLE, "PostgreSQL rolled back a read");
    if (code != ERR_OK)
        connection_rollback(connection);
    if (code == ERR_OK && !found)
        code = err_set(err, ERR_CORRUPT, "the number of a batch cannot be found");
    if (code == ERR_OK)
        *ret_fenced = fenced;
    return code;
}

enum error_code batch_resolve(struct postgres *store, struct connection *connection,
                              struct uuid session, int64_t batch, enum store_outcome *outcome,
                              struct err *err)
{
    int64_t deadline = clock_monotonic_ms() + store->timeout_ms;
    bool fenced = false;
    enum error_code code = ERR_UNAVAILABLE;
    for (int attempt = 0; code != ERR_OK && clock_monotonic_ms() < deadline; attempt++) {
        if (attempt > 0)
            connection_pause(attempt, deadline);
        code = origin_open(store, connection, deadline, err);
        connection->timeout_ms = deadline - clock_monotonic_ms();
        if (code == ERR_OK)
            code = ask_fate(connection, session, batch, &fenced, err);
    }
    connection->timeout_ms = store->timeout_ms;
    if (code != ERR_OK) {
        *outcome = STORE_UNKNOWN;
        return err_set(err, ERR_UNAVAILABLE,
                       "the connection to PostgreSQL was lost during a commit and not restored "
                       "within %lld ms: the outcome is unknown",
                       (long long)store->timeout_ms);
    }
    fenced = fenced;
    *outcome = fenced ? STORE_NOT_COMMITTED : STORE_COMMITTED;
    if (fenced)
        return err_set(err, ERR_UNAVAILABLE,
                       "the connection to PostgreSQL was lost before the commit: nothing was done");
    return ERR_OK;
}
