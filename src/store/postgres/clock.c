/* The time of a store in PostgreSQL: the database's clock, but it never goes back.
 *
 * Happy path: the store's time is what the clock says. Every handle remembers the latest time that
 * it was told.
 *
 * The clock was set back, or a standby whose clock is behind took over: the next time that is told
 * is earlier than one before. The server that notices leaves the latest time and what the clock
 * says
 * (`anchor` and `wall` in pawl.clock). From then on the store's time is the anchor plus half of
 * what has gone by on the clock since, for every server alike, until the clock has caught up.
 * Leases still end, timers fire, and nothing happens before what came earlier. Every few seconds
 * those who look after the store move the anchor on (postgres_record_liveness), and no more than a
 * few seconds are added to it: a clock that is put right meanwhile does not count as time that has
 * gone by.
 *
 * All servers were down meanwhile: the first server goes on from the time that was last
 * noted in pawl.attended, unless that must have been wrong, by more than a day. */
#include "store/postgres/postgres.h"

enum { SLACK_MS = 100 }; /* answers of two connections may come in another order */

#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)
#define ALONE_MS 10000 /* nobody else has looked after the store for so long, by its clock */

int64_t clock_tell(struct postgres *store, int64_t now)
{
    int64_t seen = atomic_load(&store->clock_seen);
    if (store->base.options.clock != NULL)
        return now;
    if (seen - now > SLACK_MS)
        atomic_store(&store->clock_is_behind, true);
    while (now > seen && !atomic_compare_exchange_weak(&store->clock_seen, &seen, now))
        ;
    return now > seen ? now : seen;
}

/* $1: the latest time that was told. Should another server have been told a later one, it will
 * leave that. The row is locked before the condition is looked at for the last time. Whether it is
 * on the disk, or on a standby, does not matter: the next server that notices does it again. */
static const char leave_anchor[] =
    "WITH left_there AS (INSERT INTO pawl.clock AS c (one, anchor, wall)"
    " VALUES (true, $1, pawl.wall_ms())"
    " ON CONFLICT (one) DO UPDATE SET anchor = excluded.anchor, wall = excluded.wall"
    " WHERE greatest(excluded.wall, " SQL_SLOW(
        "excluded.wall") ") < excluded.anchor)"
                         " SELECT set_config('synchronous_commit', 'off', true)";

void clock_settle(struct postgres *store, struct connection *connection)
{
    struct arena arena;
    struct params params;
    struct err ignored;
    if (!atomic_exchange(&store->clock_is_behind, false))
        return;
    arena_init(&arena);
    params_init(&params, &arena);
    params_add_int8(&params, atomic_load(&store->clock_seen));
    enum error_code code = connection_send_quiet(connection, leave_anchor, &params, &ignored);
    if (code == ERR_OK)
        code = connection_sync(connection, &ignored);
    if (code != ERR_OK) {
        atomic_store(&store->clock_is_behind, true); /* the next one tries it again */
        connection_rollback(connection);
    }
    arena_release(&arena);
}

/* A time that is further ahead of the clock than this was wrong when it was left, and nobody is
 * there who goes by it. */
static const char take_anchor_away[] =
    "UPDATE pawl.clock c SET anchor = 0, wall = 0"
    " WHERE " SQL_SLOW("pawl.wall_ms()") " - pawl.wall_ms() >= $1"
                                         " AND abs(pawl.wall_ms() - coalesce((SELECT wall FROM "
                                         "pawl.attended), 0)) > $2";

/* What was noted, and what the clock says. */
static enum error_code read_clock(struct connection *connection, struct arena *arena,
                                  int64_t *ret_noted, int64_t *ret_wall, struct err *err)
{
    struct params none;
    struct reader reader;
    PGresult *result = NULL;
    params_init(&none, arena);
    enum error_code code = connection_ask(
        connection, "SELECT coalesce((SELECT at FROM pawl.attended), 0), pawl.wall_ms()", &none,
        &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, arena);
    reader_row(&reader, 0);
    *ret_noted = reader_int(&reader);
    *ret_wall = reader_int(&reader);
    code = reader_check(&reader, "the time", err);
    PQclear(result);
    return code == ERR_OK ? connection_sync(connection, err) : code;
}

void clock_resume(struct postgres *store, struct connection *connection)
{
    struct arena arena;
    struct params params;
    struct err ignored;
    int64_t noted = 0;
    int64_t wall = 0;
    if (store->base.options.clock != NULL)
        return;
    arena_init(&arena);
    enum error_code code = read_clock(connection, &arena, &noted, &wall, &ignored);
    if (code == ERR_OK && noted - wall < DAY_MS) {
        (void)clock_tell(store, noted);
        (void)clock_tell(store, wall);
    }
    params_init(&params, &arena);
    params_add_int8(&params, DAY_MS);
    params_add_int8(&params, ALONE_MS);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, take_anchor_away, &params, &ignored);
    if (code == ERR_OK)
        code = connection_sync(connection, &ignored);
    if (code != ERR_OK)
        connection_rollback(connection);
    arena_release(&arena);
}
