/* The part of a meter that knows PostgreSQL. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "meter_private.h"
#include "store/postgres/postgres.h"

/* What this server process has counted, whether it has told the others yet or not. */
static const char read_counts[] =
    "SELECT t.relname::text, (pg_stat_get_tuples_returned(t.oid)"
    " + pg_stat_get_xact_tuples_returned(t.oid) + coalesce(sum("
    "pg_stat_get_tuples_returned(i.indexrelid) + pg_stat_get_xact_tuples_returned(i.indexrelid)),"
    " 0))::text FROM pg_class t LEFT JOIN pg_index i ON i.indrelid = t.oid"
    " WHERE t.relnamespace = 'pawl'::regnamespace AND t.relkind = 'r'"
    " GROUP BY t.oid, t.relname ORDER BY 1";

static void must(const char *what, enum error_code code, const struct err *err)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, error_info(code)->name, err->detail);
    abort();
}

static void read_in(struct store_txn *txn, struct meter_reading *ret)
{
    struct postgres_txn *own = (struct postgres_txn *)txn;
    PGresult *result;
    struct err err = {0};
    must("begin", txn_start(own, &err), &err);
    must("counts", txn_ask(own, read_counts, NULL, &result, &err), &err);
    ret->count = 0;
    for (int row = 0; row < PQntuples(result); row++) {
        struct meter_line *line = meter_line(ret, PQgetvalue(result, row, 0));
        line->rows = strtoull(PQgetvalue(result, row, 1), NULL, 10);
    }
    PQclear(result);
}

/* Up to PostgreSQL 14 counts travel from one process to another, twice a second at most. */
static void wait_for_counts(struct store_txn *txn)
{
    PGconn *pg = ((struct postgres_txn *)txn)->connection->pg;
    struct timespec pause = {.tv_sec = 1, .tv_nsec = 200 * 1000 * 1000};
    if (PQserverVersion(pg) < 150000)
        (void)nanosleep(&pause, NULL);
}

/* Index entries of rows that are dead are walked over until somebody has marked them, which nobody
 * may as long as some transaction could still see the rows: one in this database that began
 * earlier, or one that writes anywhere in the server, since it holds everybody's horizon back. $1:
 * the first transaction that need not be over. */
static const char read_is_settled[] =
    "SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::int8 >= $1 AND NOT EXISTS (SELECT 1"
    " FROM pg_stat_activity WHERE (datid IS NULL OR datname = current_database())"
    " AND pid <> pg_backend_pid() AND backend_xmin::text::int8 < $1))::int4::text";

static int64_t read_number(struct meter *meter, const char *sql, const int64_t *param)
{
    struct store_txn *txn;
    struct params params;
    struct arena arena;
    struct err err = {0};
    PGresult *result;
    arena_init(&arena);
    params_init(&params, &arena);
    if (param != NULL)
        params_add_int8(&params, *param);
    must("begin", store_begin(meter->store, STORE_READ, &txn, &err), &err);
    struct postgres_txn *own = (struct postgres_txn *)txn;
    must("begin", txn_start(own, &err), &err);
    must("settle", txn_ask(own, sql, param == NULL ? NULL : &params, &result, &err), &err);
    int64_t number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    store_rollback(txn);
    arena_release(&arena);
    return number;
}

void meter_postgres_settle(struct meter *meter)
{
    enum { TRIES = 60 * 1000 };
    const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
    int64_t end = read_number(meter, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text", NULL);
    for (int i = 0; i < TRIES; i++) {
        if (read_number(meter, read_is_settled, &end) != 0)
            return;
        (void)nanosleep(&pause, NULL);
    }
    fprintf(stderr, "a transaction on the server stays open: rows cannot be counted\n");
    abort();
}

void meter_postgres_read(struct meter *meter, struct store_txn *txn, struct meter_reading *ret)
{
    struct err err = {0};
    if (txn != NULL) {
        read_in(txn, ret);
        return;
    }
    must("begin", store_begin(meter->store, STORE_READ, &txn, &err), &err);
    wait_for_counts(txn);
    read_in(txn, ret);
    store_rollback(txn);
}
