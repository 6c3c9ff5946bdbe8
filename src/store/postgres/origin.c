/* Asking a connection where it leads, and moving the handle there. */
#include "store/postgres/origin.h"

#include <stdio.h>

#include "store/postgres/postgres.h"

enum { ADD_TRIES = 3 };

/* ---- what is allowed ---- */

static const char old_primary[] =
    "it is on a lower timeline than one that was seen of the same cluster, so it is an old primary "
    "that was not fenced";
static const char noted[] =
    "a server has seen a later timeline of the same cluster and left a note here, so it is an old "
    "primary that was not fenced";
static const char twin[] =
    "it is another primary on the same timeline of the same cluster, so two standbys were promoted";
static const char left_behind[] = "the handle has moved on from this store to a later one";
static const char lagging[] = "it is a standby that has not caught up";

static bool both_know(int64_t a, int64_t b)
{
    return a != 0 && b != 0;
}

/* What the timeline alone says. NULL: nothing against it. */
static const char *refuse_timeline(const struct origin *known, const struct origin *seen)
{
    bool same_cluster = both_know(known->system, seen->system) && known->system == seen->system;
    if (seen->superseded_by > seen->timeline && seen->timeline != 0)
        return noted;
    if (known->number == 0 || !same_cluster || !both_know(known->timeline, seen->timeline))
        return NULL;
    if (seen->timeline < known->timeline)
        return old_primary;
    if (seen->timeline == known->timeline && !uuid_eq(known->id, seen->id) && !seen->is_restored)
        return twin;
    return NULL;
}

enum origin_verdict origin_judge(const struct origin *known, const struct origin *seen,
                                 const char **ret_why)
{
    bool same = known->number == seen->number && uuid_eq(known->id, seen->id);
    *ret_why = refuse_timeline(known, seen);
    if (*ret_why != NULL)
        return ORIGIN_REFUSED;
    if (known->number == 0 && seen->number == 0)
        return ORIGIN_SAME;
    if (same && (known->timeline == seen->timeline || !both_know(known->timeline, seen->timeline)))
        return ORIGIN_SAME;
    if (known->number != 0 && seen->is_standby)
        *ret_why = lagging;
    else if (seen->number < known->number)
        *ret_why = left_behind;
    return *ret_why == NULL ? ORIGIN_FORWARD : ORIGIN_REFUSED;
}

/* ---- asking ---- */

/* What the server says of itself. */
struct facts {
    bool is_standby;
    bool is_read_only;
    bool has_table;
    int64_t database;
    int64_t system;
    int64_t timeline;
    int64_t flushed;
};

/* The newest row of pawl.incarnations; number 0: none. */
struct row {
    int64_t number;
    struct uuid id;
    int64_t system;
    int64_t timeline;
    int64_t database;
    int64_t superseded_by;
    bool is_restored;
    bool is_loaded; /* from a dump */
    char mark[ORIGIN_MARK_MAX];
};

/* One row of integers, in a transaction of its own. *ret_refused: the server does not tell. */
static enum error_code ask_ints(struct connection *connection, const char *sql, int64_t *ret,
                                int count, bool *ret_refused, struct err *err)
{
    struct arena arena;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = connection_ask(connection, sql, NULL, &result, err);
    *ret_refused = false;
    if (code != ERR_OK) {
        connection_rollback(connection);
        *ret_refused = !connection->broken;
        return connection->broken ? code : ERR_OK;
    }
    arena_init(&arena);
    reader_init(&reader, result, &arena);
    reader_row(&reader, 0);
    for (int i = 0; i < count; i++)
        ret[i] = reader_int(&reader);
    code = reader_check(&reader, "what a server says of itself", err);
    PQclear(result);
    arena_release(&arena);
    return code == ERR_OK ? connection_sync(connection, err) : code;
}

static enum error_code ask_facts(struct connection *connection, struct facts *ret, struct err *err)
{
    int64_t plain[4] = {0};
    int64_t system[1] = {0};
    int64_t log[2] = {0};
    bool refused;
    enum error_code code =
        ask_ints(connection,
                 "SELECT pg_is_in_recovery()::int4,"
                 " (current_setting('transaction_read_only') = 'on')::int4,"
                 " (to_regclass('pawl.incarnations') IS NOT NULL)::int4,"
                 " (SELECT oid::int8 FROM pg_database WHERE datname = current_database())",
                 plain, 4, &refused, err);
    if (code == ERR_OK && refused)
        return err_set(err, ERR_UNAVAILABLE, "cannot identify the PostgreSQL server");
    if (code == ERR_OK)
        code = ask_ints(connection, "SELECT system_identifier FROM pg_control_system()", system, 1,
                        &refused, err);
    if (code == ERR_OK && plain[0] == 0)
        code = ask_ints(connection, "SELECT " ORIGIN_TIMELINE ", " ORIGIN_FLUSHED, log, 2, &refused,
                        err);
    if (code == ERR_OK)
        *ret = (struct facts){
            .is_standby = plain[0] != 0,
            .is_read_only = plain[1] != 0,
            .has_table = plain[2] != 0,
            .database = plain[3],
            .system = system[0],
            .timeline = log[0],
            .flushed = log[1],
        };
    return code;
}

static void copy_mark(char *ret, struct str text)
{
    size_t len = text.len < ORIGIN_MARK_MAX - 1 ? text.len : ORIGIN_MARK_MAX - 1;
    memcpy(ret, str_start(text), len);
    ret[len] = '\0';
}

static enum error_code ask_row(struct connection *connection, struct row *ret, struct err *err)
{
    struct arena arena;
    struct reader reader;
    PGresult *result = NULL;
    *ret = (struct row){0};
    enum error_code code = connection_ask(
        connection,
        "SELECT i.number, i.id, i.system, i.timeline, i.database, i.superseded_by, i.restored,"
        " i.xact::text::int8 % 4294967296 <> i.xmin::text::int8, " ORIGIN_MARK
        " FROM pawl.incarnations i ORDER BY i.number DESC LIMIT 1",
        NULL, &result, err);
    if (code != ERR_OK) {
        connection_rollback(connection);
        return code;
    }
    arena_init(&arena);
    reader_init(&reader, result, &arena);
    if (PQntuples(result) > 0) {
        reader_row(&reader, 0);
        ret->number = reader_int(&reader);
        ret->id = reader_uuid(&reader);
        ret->system = reader_int(&reader);
        ret->timeline = reader_int(&reader);
        ret->database = reader_int(&reader);
        ret->superseded_by = reader_int(&reader);
        ret->is_restored = reader_bool(&reader);
        ret->is_loaded = reader_bool(&reader);
        copy_mark(ret->mark, reader_str(&reader));
    }
    code = reader_check(&reader, "an incarnation of the store", err);
    PQclear(result);
    arena_release(&arena);
    return code == ERR_OK ? connection_sync(connection, err) : code;
}

/* ---- a new row ---- */

/* $1: the newest number that was seen, $2: the newest that the handle knows. Numbers are times, so
 * that they grow over restores too. */
static const char add_row[] =
    "INSERT INTO pawl.incarnations (number, id, system, timeline, database, restored, feed_floor)"
    " SELECT greatest(n.newest + 1, $2 + 1, " SQL_NOW "), gen_random_uuid(), $3, $4, $5, $6 <> 0,"
    " CASE WHEN n.newest = 0 THEN 9223372036854775807"
    " ELSE coalesce((SELECT number FROM pawl.feed_end), 0) END"
    " FROM (SELECT coalesce(max(number), 0) AS newest FROM pawl.incarnations) AS n"
    " WHERE n.newest = $1";

/* A transaction that needs no standby: what it says is of this server only, and anyone who comes
 * after a failover says it anew. */
static const char be_local[] = "SELECT set_config('synchronous_commit', 'local', true)";
static const char lock_rows[] = "SELECT pg_advisory_xact_lock($1)::text";

static enum error_code run_locally(struct connection *connection, const char *sql,
                                   struct params *params, struct err *err)
{
    struct params lock;
    params_init(&lock, params->arena);
    params_add_int8(&lock, LOCK_INCARNATION);
    enum error_code code = connection_send_quiet(
        connection, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", NULL, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, be_local, NULL, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, lock_rows, &lock, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, sql, params, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, "COMMIT", NULL, err);
    if (code == ERR_OK)
        code = connection_sync(connection, err);
    if (code != ERR_OK)
        connection_rollback(connection);
    return code;
}

static enum error_code add(struct connection *connection, const struct origin *known,
                           const struct facts *facts, const struct row *row, bool is_restored,
                           struct err *err)
{
    struct arena arena;
    struct params params;
    arena_init(&arena);
    params_init(&params, &arena);
    params_add_int8(&params, row->number);
    params_add_int8(&params, known->number);
    params_add_int8(&params, facts->system);
    params_add_int8(&params, facts->timeline);
    params_add_int8(&params, facts->database);
    params_add_int8(&params, is_restored);
    enum error_code code = run_locally(connection, add_row, &params, err);
    arena_release(&arena);
    return code;
}

enum error_code origin_note(struct connection *connection, int64_t timeline, struct err *err)
{
    struct arena arena;
    struct params params;
    arena_init(&arena);
    params_init(&params, &arena);
    params_add_int8(&params, timeline);
    enum error_code code = run_locally(
        connection,
        "UPDATE pawl.incarnations SET superseded_by = $1, xact = pg_current_xact_id()"
        " WHERE number = (SELECT max(number) FROM pawl.incarnations) AND superseded_by < $1",
        &params, err);
    arena_release(&arena);
    return code;
}

/* ---- where it leads ---- */

static struct origin origin_of(const struct facts *facts, const struct row *row)
{
    struct origin origin = {
        .number = row->number,
        .id = row->id,
        .system = facts->system,
        .timeline = facts->timeline,
        .flushed = facts->flushed,
        .superseded_by = row->superseded_by,
        .is_restored = row->is_restored,
        .is_standby = facts->is_standby,
    };
    memcpy(origin.mark, row->mark, sizeof origin.mark);
    return origin;
}

/* Whether the row was written for what is there now. */
static bool is_current(const struct origin *known, const struct facts *facts, const struct row *row,
                       bool *ret_restored)
{
    bool other_cluster = both_know(row->system, facts->system) && row->system != facts->system;
    bool other_timeline =
        both_know(row->timeline, facts->timeline) && row->timeline != facts->timeline;
    /* Put back from a copy of its files, say: the same in all but that it has gone back. */
    bool went_back = row->number == known->number && uuid_eq(row->id, known->id) &&
                     known->timeline == facts->timeline && facts->flushed != 0 &&
                     facts->flushed < known->flushed;
    bool is_loaded =
        row->number != 0 && (row->is_loaded || row->database != facts->database || other_cluster);
    *ret_restored = is_loaded || went_back;
    return row->number != 0 && !*ret_restored && !other_timeline;
}

enum error_code origin_look(struct connection *connection, struct origin *ret, struct err *err)
{
    struct facts facts;
    struct row row = {0};
    enum error_code code = ask_facts(connection, &facts, err);
    if (code == ERR_OK && facts.has_table)
        code = ask_row(connection, &row, err);
    if (code == ERR_OK)
        *ret = origin_of(&facts, &row);
    return code;
}

/* Finds out where a connection leads, and adds a row when the newest one was written for something
 * else, unless the connection is to be refused. */
static enum error_code identify(struct connection *connection, const struct origin *known,
                                struct origin *ret, struct err *err)
{
    struct facts facts;
    struct row row = {0};
    bool is_restored = false;
    enum error_code code = ask_facts(connection, &facts, err);
    if (code == ERR_OK && facts.has_table)
        code = ask_row(connection, &row, err);
    if (code != ERR_OK)
        return code;
    bool may_write = facts.has_table && !facts.is_standby && !facts.is_read_only;
    bool current = is_current(known, &facts, &row, &is_restored);
    *ret = origin_of(&facts, &row);
    ret->is_restored = current ? row.is_restored : is_restored;
    if (refuse_timeline(known, ret) != NULL)
        return ERR_OK;
    for (int i = 0; may_write && !current; i++) {
        if (i == ADD_TRIES)
            return err_set(err, ERR_UNAVAILABLE, "the PostgreSQL server keeps changing");
        code = add(connection, known, &facts, &row, is_restored, err);
        if (code == ERR_OK)
            code = ask_row(connection, &row, err);
        if (code != ERR_OK)
            return code;
        current = is_current(known, &facts, &row, &is_restored);
        *ret = origin_of(&facts, &row);
    }
    return ERR_OK;
}

/* Another origin: nothing that was remembered is true there. Under the mutex. */
static void begin_generation(struct postgres *store, const struct origin *seen)
{
    store->origin = *seen;
    store->base.generation++;
    lane_book_clear(&store->lanes);
    marks_clear(&store->marks);
}

static enum error_code refuse(struct postgres *store, const struct connection *connection,
                              const struct origin *seen, const char *why, struct err *err)
{
    char at[CONNECTION_WHERE_MAX];
    char text[sizeof store->refusal];
    (void)snprintf(
        text, sizeof text,
        "PostgreSQL at %s (timeline %lld) was rejected: %s. Stop it, or rebuild it as a standby",
        connection_where(connection, at), (long long)seen->timeline, why);
    (void)pthread_mutex_lock(&store->mutex);
    store->refused++;
    memcpy(store->refusal, text, sizeof text);
    (void)pthread_mutex_unlock(&store->mutex);
    return err_set(err, ERR_UNAVAILABLE, "%s", text);
}

enum error_code origin_settle(struct postgres *store, struct connection *connection,
                              enum origin_verdict *ret, struct err *err)
{
    struct origin seen;
    const char *why = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    struct origin known = store->origin;
    (void)pthread_mutex_unlock(&store->mutex);
    enum error_code code = identify(connection, &known, &seen, err);
    if (code != ERR_OK)
        return code;
    (void)pthread_mutex_lock(&store->mutex);
    *ret = origin_judge(&store->origin, &seen, &why);
    if (*ret == ORIGIN_FORWARD || store->base.generation == 0)
        begin_generation(store, &seen);
    if (*ret == ORIGIN_SAME && seen.timeline != 0)
        store->origin.timeline = seen.timeline;
    if (*ret == ORIGIN_SAME && seen.flushed > store->origin.flushed)
        store->origin.flushed = seen.flushed;
    connection->generation = store->base.generation;
    (void)pthread_mutex_unlock(&store->mutex);
    connection->timeline = seen.timeline;
    memcpy(connection->mark, seen.mark, sizeof connection->mark);
    if (*ret == ORIGIN_FORWARD && store->watch.open != NULL)
        watch_moved(&store->watch);
    return *ret == ORIGIN_REFUSED ? refuse(store, connection, &seen, why, err) : ERR_OK;
}

enum error_code origin_check(struct postgres_txn *txn, struct str mark, int64_t timeline,
                             int64_t flushed, struct err *err)
{
    struct connection *connection = txn->connection;
    struct postgres *store = txn->store;
    if (!str_eq(mark, str_from(connection->mark)) ||
        (both_know(timeline, connection->timeline) && timeline != connection->timeline)) {
        connection->is_stale = true;
        return err_set(
            err, ERR_UNAVAILABLE,
            "this connection to PostgreSQL now leads to another store: the batch must run again");
    }
    (void)pthread_mutex_lock(&store->mutex);
    if (connection->generation == store->base.generation && flushed > store->origin.flushed)
        store->origin.flushed = flushed;
    (void)pthread_mutex_unlock(&store->mutex);
    return ERR_OK;
}
