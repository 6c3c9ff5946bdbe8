/* The schema: which version is there, and bringing it up to date. */
#include <stdio.h>
#include <stdlib.h>

#include "store/postgres/postgres.h"

/* Rewriting a large table takes its time; so does waiting for another process that does it. */
#define MIGRATE_MS (INT64_C(60) * 60 * 1000)

enum { MOVED_JOBS = 1000 }; /* in one transaction */

struct standing {
    bool schema;       /* there is a schema `pawl` */
    int64_t strangers; /* relations in it although it has no version */
    int64_t version;   /* 0: none */
    int64_t usable_from;
    bool moving; /* jobs of an older schema are to be moved yet */
};

/* One row of integers. */
static enum error_code ask_ints(struct connection *connection, const char *sql, int64_t *ret,
                                int count, struct err *err)
{
    PGresult *result;
    enum error_code code = connection_ask(connection, sql, NULL, &result, err);
    if (code != ERR_OK)
        return code;
    struct arena arena;
    struct reader reader;
    arena_init(&arena);
    reader_init(&reader, result, &arena);
    for (int i = 0; i < count; i++)
        ret[i] = 0;
    if (PQntuples(result) > 0) {
        reader_row(&reader, 0);
        for (int i = 0; i < count; i++)
            ret[i] = reader_int(&reader);
    }
    code = reader_check(&reader, "the version of the schema", err);
    PQclear(result);
    arena_release(&arena);
    return code;
}

static enum error_code read_standing(struct connection *connection, struct standing *ret,
                                     struct err *err)
{
    int64_t found[4];
    int64_t versions[2] = {0, 0};
    enum error_code code = ask_ints(
        connection,
        "SELECT (to_regnamespace('pawl') IS NOT NULL)::int4,"
        " (to_regclass('pawl.schema') IS NOT NULL)::int4,"
        " (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('pawl')::oid),"
        " (to_regclass('pawl.old_jobs') IS NOT NULL)::int4",
        found, 4, err);
    if (code == ERR_OK && found[1] != 0)
        code = ask_ints(connection,
                        "SELECT version, usable_from FROM pawl.schema"
                        " ORDER BY version DESC LIMIT 1",
                        versions, 2, err);
    if (code == ERR_OK)
        *ret = (struct standing){
            .schema = found[0] != 0,
            .strangers = found[1] != 0 ? 0 : found[2],
            .version = versions[0],
            .usable_from = versions[1],
            .moving = found[3] != 0,
        };
    return code;
}

/* Whether there is something to do, and whether it may be done. */
static enum error_code judge(const struct postgres *store, const struct standing *standing,
                             const struct migrations *migrations, bool *ret_todo, struct err *err)
{
    const struct store_options *options = &store->base.options;
    enum schema_standing stands;
    if (standing->strangers > 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the database has a schema \"pawl\" that does not belong to Pawl: use "
                       "another database");
    enum error_code code =
        schema_standing(migrations, standing->version, standing->usable_from, &stands, err);
    if (code != ERR_OK)
        return code;
    if (stands == SCHEMA_EMPTY && !options->create)
        return err_set(err, ERR_NOT_FOUND, "the database has no Pawl store yet");
    if (stands == SCHEMA_OLDER && !options->migrate)
        return err_set(
            err, ERR_UNAVAILABLE,
            "the schema has version %lld, but this version of Pawl needs %lld: run `pawl migrate`",
            (long long)standing->version, (long long)migrations->at[migrations->count - 1].version);
    if (standing->moving && !options->migrate)
        return err_set(err, ERR_UNAVAILABLE,
                       "a schema migration is incomplete: run `pawl migrate`");
    *ret_todo = stands != SCHEMA_CURRENT;
    return ERR_OK;
}

static enum error_code run(struct connection *connection, const char *sql, struct err *err)
{
    return connection_script(connection, sql, clock_monotonic_ms() + MIGRATE_MS, err);
}

static enum error_code apply_one(struct connection *connection, const struct migration *migration,
                                 struct err *err)
{
    char *script = calloc(1, migration->sql.len + 1);
    char note[160];
    if (script == NULL)
        return out_of_memory(err);
    memcpy(script, migration->sql.at, migration->sql.len);
    enum error_code code = run(connection, script, err);
    free(script);
    if (code != ERR_OK) {
        char why[sizeof err->detail] = "";
        if (err != NULL)
            memcpy(why, err->detail, sizeof why);
        return err_set(err, ERR_UNAVAILABLE, "migration %s failed: %.300s", migration->name, why);
    }
    (void)snprintf(note, sizeof note,
                   "INSERT INTO pawl.schema (version, usable_from) VALUES (%lld, %lld)",
                   (long long)migration->version, (long long)migration->usable_from);
    return run(connection, note, err);
}

static enum error_code apply(struct connection *connection, const struct standing *standing,
                             const struct migrations *migrations, struct err *err)
{
    enum error_code code = ERR_OK;
    if (!standing->schema)
        code = run(connection, "CREATE SCHEMA pawl", err);
    if (code == ERR_OK && standing->version == 0)
        code = run(connection,
                   "CREATE TABLE IF NOT EXISTS pawl.schema ("
                   "version bigint PRIMARY KEY, usable_from bigint NOT NULL,"
                   " applied_at timestamptz NOT NULL DEFAULT now())",
                   err);
    for (uint32_t i = 0; i < migrations->count && code == ERR_OK; i++)
        if (migrations->at[i].version > standing->version)
            code = apply_one(connection, &migrations->at[i], err);
    return code;
}

/* In one transaction, behind a lock: of two processes that start at once the second finds all
 * done. */
static enum error_code migrate(struct postgres *store, struct connection *connection,
                               const struct migrations *migrations, struct err *err)
{
    char begin[128];
    struct standing standing;
    bool todo = false;
    (void)snprintf(begin, sizeof begin,
                   "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
                   " SELECT pg_advisory_xact_lock(%lld)",
                   (long long)LOCK_MIGRATION);
    enum error_code code = run(connection, begin, err);
    if (code == ERR_OK)
        code = read_standing(connection, &standing, err);
    if (code == ERR_OK)
        code = connection_sync(connection, err);
    if (code == ERR_OK)
        code = judge(store, &standing, migrations, &todo, err);
    if (code == ERR_OK && todo)
        code = apply(connection, &standing, migrations, err);
    if (code == ERR_OK)
        return run(connection, "COMMIT", err);
    connection_rollback(connection);
    return code;
}

/* Moves what an older schema has, some jobs in each transaction, so that nobody waits for long and
 * what is done stays done when the process is killed. Several processes take turns. */
static enum error_code move_old(struct connection *connection, struct err *err)
{
    char move[160];
    char end[160];
    struct standing standing = {.moving = true};
    int64_t moved = 0;
    (void)snprintf(move, sizeof move, "SELECT pawl.move_old(%d) FROM pg_advisory_xact_lock(%lld)",
                   MOVED_JOBS, (long long)LOCK_MIGRATION);
    (void)snprintf(end, sizeof end,
                   "BEGIN; SELECT pg_advisory_xact_lock(%lld); SELECT pawl.end_move(); COMMIT",
                   (long long)LOCK_MIGRATION);
    enum error_code code = ERR_OK;
    while (code == ERR_OK && standing.moving) {
        code = read_standing(connection, &standing, err);
        if (code == ERR_OK && standing.moving)
            code = ask_ints(connection, move, &moved, 1, err);
        if (code == ERR_OK)
            code = connection_sync(connection, err);
        if (code == ERR_OK && standing.moving && moved == 0)
            code = run(connection, end, err);
    }
    if (code != ERR_OK)
        connection_rollback(connection);
    return code;
}

enum error_code postgres_migrate(struct postgres *store, struct connection *connection,
                                 const struct migrations *migrations, struct err *err)
{
    struct standing standing;
    bool todo = false;
    enum error_code code = read_standing(connection, &standing, err);
    if (code == ERR_OK)
        code = connection_sync(connection, err);
    else
        connection_rollback(connection);
    if (code == ERR_OK)
        code = judge(store, &standing, migrations, &todo, err);
    if (code == ERR_OK && todo)
        code = migrate(store, connection, migrations, err);
    if (code == ERR_OK && (todo || standing.moving))
        code = move_old(connection, err);
    if (code != ERR_OK)
        return code;
    store->base.schema_found = standing.version;
    store->base.schema_version =
        todo ? migrations->at[migrations->count - 1].version : standing.version;
    return ERR_OK;
}
