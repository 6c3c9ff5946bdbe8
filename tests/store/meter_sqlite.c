/* The part of a meter that knows SQLite. */
#include <stdio.h>
#include <stdlib.h>

#include "meter_private.h"
#include "store/sqlite/sqlite.h"

static int count_row(unsigned what, void *arg, void *statement, void *nothing)
{
    (void)what, (void)nothing;
    meter_line(arg, sqlite3_sql(statement))->rows++;
    return 0;
}

static uint64_t status(sqlite3_stmt *statement, int what)
{
    return (uint64_t)sqlite3_stmt_status(statement, what, 0);
}

static void read_connection(const struct connection *connection, struct meter_reading *ret)
{
    for (sqlite3_stmt *at = sqlite3_next_stmt(connection->db, NULL); at != NULL;
         at = sqlite3_next_stmt(connection->db, at)) {
        struct meter_line *line = meter_line(ret, sqlite3_sql(at));
        line->runs += status(at, SQLITE_STMTSTATUS_RUN);
        line->operations += status(at, SQLITE_STMTSTATUS_VM_STEP);
        line->scanned += status(at, SQLITE_STMTSTATUS_FULLSCAN_STEP);
        line->sorted += status(at, SQLITE_STMTSTATUS_SORT);
        line->sorted += status(at, SQLITE_STMTSTATUS_AUTOINDEX);
    }
}

/* Readers that are not in use are all that there are while nobody reads. */
static void watch_connection(const struct connection *connection, struct meter_reading *rows)
{
    if (sqlite3_trace_v2(connection->db, SQLITE_TRACE_ROW, count_row, rows) != SQLITE_OK)
        abort();
}

void meter_sqlite_start(struct meter *meter)
{
    const struct sqlite_store *store = (const struct sqlite_store *)meter->store;
    meter->rows.count = 0;
    watch_connection(&store->writer, &meter->rows);
    for (const struct reader_connection *at = store->idle; at != NULL; at = at->next)
        watch_connection(&at->connection, &meter->rows);
}

void meter_sqlite_read(struct meter *meter, struct meter_reading *ret)
{
    const struct sqlite_store *store = (const struct sqlite_store *)meter->store;
    *ret = meter->rows;
    read_connection(&store->writer, ret);
    for (const struct reader_connection *at = store->idle; at != NULL; at = at->next)
        read_connection(&at->connection, ret);
}
