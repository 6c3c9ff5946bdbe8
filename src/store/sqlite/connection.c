#include "store/sqlite/connection.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static const struct str texts[STATEMENT_COUNT] = {
#define STATEMENT(symbol, sql) [STATEMENT_##symbol] = STR_INIT(sql),
#include "store/sqlite/statements.def"
#undef STATEMENT
};

/* ---- errors ---- */

static _Noreturn void end_process(const char *doing)
{
    (void)fprintf(
        stderr,
        "pawl: cannot %s: fsync failed. What reached the disk is not known: ending now, so "
        "that the next start recovers from what did.\n",
        doing);
    abort();
}

static const char *why_not_opened(struct connection *connection)
{
    int error = connection->db != NULL ? sqlite3_system_errno(connection->db) : 0;
    return error != 0 ? strerror(error) : "the system gave no reason";
}

enum error_code lite_fail(struct connection *connection, int result, const char *doing,
                          struct err *err)
{
    if (result == SQLITE_IOERR_FSYNC || result == SQLITE_IOERR_DIR_FSYNC)
        end_process(doing);
    if (result == SQLITE_IOERR_SHMSIZE) /* the file that connections share has no room */
        result = SQLITE_FULL;
    const char *text = connection->db != NULL ? sqlite3_errmsg(connection->db) : NULL;
    if (text == NULL)
        text = sqlite3_errstr(result);
    switch (result & 0xff) {
    case SQLITE_NOMEM:
        return err_set(err, ERR_NO_MEMORY, "cannot %s: out of memory", doing);
    case SQLITE_FULL:
        return err_set(err, ERR_UNAVAILABLE, "cannot %s: the disk is full", doing);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        /* SQLite says so of what the disk could not read too. */
        return err_set(err, ERR_CORRUPT,
                       "cannot %s: the database is damaged, or the disk cannot be read (%s)", doing,
                       text);
    case SQLITE_BUSY:
        return err_set(err, ERR_UNAVAILABLE,
                       "cannot %s: another program has locked the database; close it", doing);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(err, ERR_UNAVAILABLE,
                       "cannot %s: it is read-only; allow writing to the file and its directory",
                       doing);
    case SQLITE_CONSTRAINT:
        if (result == SQLITE_CONSTRAINT_UNIQUE || result == SQLITE_CONSTRAINT_PRIMARYKEY)
            return err_set(err, ERR_VERSION_MISMATCH, "already written (%s)", text);
        return err_set(err, ERR_CORRUPT, "cannot %s: %s", doing, text);
    case SQLITE_CANTOPEN:
        return err_set(err, ERR_UNAVAILABLE, "cannot %s: %s: %s", doing, text,
                       why_not_opened(connection));
    default:
        return err_set(err, ERR_UNAVAILABLE, "cannot %s: %s (SQLite %d)", doing, text, result);
    }
}

/* ---- opening ---- */

static int note_wal_pages(void *arg, sqlite3 *db, const char *name, int pages)
{
    struct connection *connection = arg;
    (void)db, (void)name;
    /* A log whose pages were all moved is written from its start again. */
    if (pages < connection->wal_pages)
        connection->moved_pages = 0;
    connection->wal_pages = pages;
    return SQLITE_OK;
}

static int configure(struct connection *connection, enum connection_kind kind, int64_t timeout_ms)
{
    sqlite3 *db = connection->db;
    int timeout = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
    int result = sqlite3_extended_result_codes(db, 1);
    if (result == SQLITE_OK)
        result = sqlite3_busy_timeout(db, timeout);
    /* Rows of some kilobytes are made in memory of this kind. */
    if (result == SQLITE_OK)
        result = sqlite3_db_config(db, SQLITE_DBCONFIG_LOOKASIDE, NULL, 2304,
                                   kind == CONNECTION_WRITER ? 256 : 64);
    /* The file may have been made by somebody else: its schema gets no more than it needs. */
    if (result == SQLITE_OK)
        result = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    if (result == SQLITE_OK && kind != CONNECTION_WRITER)
        result = sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    /* Checkpoints are made by hand, so that their errors are seen. The hook takes the place of
     * SQLite's own. */
    (void)sqlite3_wal_hook(db, note_wal_pages, connection);
    return result;
}

enum error_code lite_open(struct connection *connection, const char *path,
                          enum connection_kind kind, int64_t timeout_ms, struct err *err)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    flags |= kind == CONNECTION_READER ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    *connection = (struct connection){0};
    enum error_code code = ERR_OK;
    int result = sqlite3_open_v2(path, &connection->db, flags, NULL);
    /* SQLite takes a file that it may not write as one to read. */
    if (result == SQLITE_OK && kind != CONNECTION_READER &&
        sqlite3_db_readonly(connection->db, "main") != 0)
        result = SQLITE_READONLY;
    if (result == SQLITE_OK)
        result = configure(connection, kind, timeout_ms);
    if (result != SQLITE_OK)
        code = lite_fail(connection, result, "open the database", err);
    if (code == ERR_OK)
        code = lite_run_sql(
            connection,
            kind == CONNECTION_READER
                ? STR("PRAGMA query_only = 1; PRAGMA cache_size = -8000; PRAGMA temp_store = 2")
            : kind == CONNECTION_CHECKPOINTER
                ? STR("PRAGMA synchronous = NORMAL; PRAGMA cache_size = -100")
                : STR("PRAGMA page_size = 4096; PRAGMA synchronous = NORMAL; "
                      "PRAGMA cache_size = -32000; PRAGMA temp_store = 2; "
                      "PRAGMA secure_delete = ON"),
            "open the database", err);
    if (code != ERR_OK)
        lite_close(connection);
    return code;
}

void lite_close(struct connection *connection)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        (void)sqlite3_finalize(connection->statements[i]);
    for (size_t i = 0; i < CURSORS_MAX; i++)
        (void)sqlite3_finalize(connection->cursors[i]);
    (void)sqlite3_finalize(connection->begin_write);
    (void)sqlite3_finalize(connection->begin_read);
    (void)sqlite3_finalize(connection->look);
    (void)sqlite3_finalize(connection->commit);
    (void)sqlite3_finalize(connection->rollback);
    int result = sqlite3_close(connection->db);
    assert(result == SQLITE_OK);
    (void)result;
    *connection = (struct connection){0};
}

/* ---- statements ---- */

static int prepare(struct connection *connection, struct str sql, sqlite3_stmt **ret)
{
    return sqlite3_prepare_v3(connection->db, sql.at, (int)sql.len + 1, SQLITE_PREPARE_PERSISTENT,
                              ret, NULL);
}

enum error_code lite_run_sql(struct connection *connection, struct str sql, const char *doing,
                             struct err *err)
{
    const char *at = sql.at;
    const char *end = sql.at + sql.len;
    int result = SQLITE_OK;
    while (result == SQLITE_OK && at < end) {
        sqlite3_stmt *statement = NULL;
        result = sqlite3_prepare_v2(connection->db, at, (int)(end - at), &statement, &at);
        if (result != SQLITE_OK || statement == NULL)
            continue;
        do
            result = sqlite3_step(statement);
        while (result == SQLITE_ROW);
        int finalized = sqlite3_finalize(statement);
        result = result == SQLITE_DONE ? finalized : result;
    }
    return result == SQLITE_OK ? ERR_OK : lite_fail(connection, result, doing, err);
}

enum error_code lite_get_int(struct connection *connection, struct str sql, int64_t *ret,
                             struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int64_t value = 0;
    int result = sqlite3_prepare_v2(connection->db, sql.at, (int)sql.len, &statement, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_step(statement);
        if (result == SQLITE_ROW)
            value = sqlite3_column_int64(statement, 0);
        if (result == SQLITE_ROW || result == SQLITE_DONE)
            result = SQLITE_OK;
    }
    enum error_code code =
        result == SQLITE_OK ? ERR_OK : lite_fail(connection, result, "read the database", err);
    (void)sqlite3_finalize(statement);
    if (code == ERR_OK)
        *ret = value;
    return code;
}

/* ---- transactions ---- */

static int run_kept(struct connection *connection, sqlite3_stmt **kept, struct str sql)
{
    int result = *kept == NULL ? prepare(connection, sql, kept) : SQLITE_OK;
    if (result != SQLITE_OK)
        return result;
    result = sqlite3_step(*kept);
    int reset = sqlite3_reset(*kept);
    return result == SQLITE_DONE || result == SQLITE_ROW ? reset : result;
}

static int roll_back(struct connection *connection)
{
    /* After some errors SQLite has rolled back already. */
    if (sqlite3_get_autocommit(connection->db) != 0)
        return SQLITE_OK;
    return run_kept(connection, &connection->rollback, STR("ROLLBACK"));
}

void lite_rollback(struct connection *connection)
{
    /* Without memory it may fail: then lite_begin does it, or lite_close, which needs none. */
    (void)roll_back(connection);
}

enum error_code lite_begin(struct connection *connection, enum store_mode mode, struct err *err)
{
    int result = roll_back(connection);
    if (result == SQLITE_OK)
        result = mode == STORE_WRITE
                     ? run_kept(connection, &connection->begin_write, STR("BEGIN IMMEDIATE"))
                     : run_kept(connection, &connection->begin_read, STR("BEGIN"));
    if (result == SQLITE_OK && mode == STORE_READ)
        result = run_kept(connection, &connection->look, STR("SELECT 1 FROM pawl_schema"));
    if (result == SQLITE_OK)
        return ERR_OK;
    enum error_code code = lite_fail(connection, result, "begin a transaction", err);
    lite_rollback(connection);
    return code;
}

enum error_code lite_commit(struct connection *connection, struct err *err)
{
    int result = run_kept(connection, &connection->commit, STR("COMMIT"));
    /* Before the log is turned on this is a journal. */
    if (result == SQLITE_OK)
        result = sqlite3_file_control(connection->db, "main", SQLITE_FCNTL_JOURNAL_POINTER,
                                      (void *)&connection->log);
    if (result == SQLITE_OK)
        return ERR_OK;
    enum error_code code = lite_fail(connection, result, "commit", err);
    lite_rollback(connection);
    return code;
}

bool lite_checkpoint(struct connection *connection, int how)
{
    int result =
        sqlite3_wal_checkpoint_v2(connection->db, "main", how, NULL, &connection->moved_pages);
    if (result != SQLITE_OK && (result & 0xff) != SQLITE_BUSY)
        (void)lite_fail(connection, result, "checkpoint the log", NULL);
    return result == SQLITE_OK;
}

void lite_sync_file(sqlite3_file *log)
{
    if (log == NULL || log->pMethods == NULL)
        return;
    if (log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) != SQLITE_OK)
        end_process("sync the log");
}

void lite_sync_log(struct connection *connection)
{
    lite_sync_file(connection->log);
}

/* ---- queries ---- */

static void query_fail(struct query *query, int result)
{
    if (query->code == ERR_OK)
        query->code = lite_fail(query->connection, result, "use the database", query->err);
}

static struct query begin(struct connection *connection, sqlite3_stmt **kept, struct str sql,
                          struct arena *arena, struct err *err)
{
    struct query query = {.connection = connection, .arena = arena, .err = err, .column = -1};
    int result = *kept == NULL ? prepare(connection, sql, kept) : SQLITE_OK;
    if (result != SQLITE_OK)
        query_fail(&query, result);
    else
        query.statement = *kept;
    return query;
}

struct query lite_query(struct connection *connection, enum statement statement,
                        struct arena *arena, struct err *err)
{
    return begin(connection, &connection->statements[statement], texts[statement], arena, err);
}

struct query lite_query_cursor(struct connection *connection, sqlite3_stmt **cursor,
                               struct err *err)
{
    return begin(connection, cursor, texts[STATEMENT_READY_NEXT], NULL, err);
}

static void put(struct query *query, int result)
{
    if (result != SQLITE_OK)
        query_fail(query, result);
}

void lite_put_int(struct query *query, int64_t value)
{
    query->parameter++;
    if (query->code == ERR_OK)
        put(query, sqlite3_bind_int64(query->statement, query->parameter, value));
}

void lite_put_text(struct query *query, struct str text)
{
    query->parameter++;
    if (query->code == ERR_OK)
        put(query, sqlite3_bind_text64(query->statement, query->parameter, text.at, text.len,
                                       SQLITE_STATIC, SQLITE_UTF8));
}

void lite_put_blob(struct query *query, const void *bytes, size_t len)
{
    query->parameter++;
    if (query->code == ERR_OK)
        put(query,
            sqlite3_bind_blob64(query->statement, query->parameter, bytes, len, SQLITE_STATIC));
}

void lite_put_null(struct query *query)
{
    query->parameter++;
    if (query->code == ERR_OK)
        put(query, sqlite3_bind_null(query->statement, query->parameter));
}

void lite_put_uuid(struct query *query, const struct uuid *id)
{
    lite_put_blob(query, id->bytes, sizeof id->bytes);
}

void lite_put_step(struct query *query, uint32_t step)
{
    lite_put_int(query, step == STEP_NONE ? -1 : (int64_t)step);
}

bool lite_next(struct query *query)
{
    if (query->code != ERR_OK)
        return false;
    query->column = -1;
    int result = sqlite3_step(query->statement);
    if (result == SQLITE_ROW)
        return true;
    if (result != SQLITE_DONE)
        query_fail(query, result);
    return false;
}

enum error_code lite_run(struct query *query)
{
    bool more = lite_next(query);
    while (more)
        more = lite_next(query);
    return lite_end(query);
}

enum error_code lite_run_counted(struct query *query, int *ret_changes)
{
    enum error_code code = lite_run(query);
    if (code == ERR_OK)
        *ret_changes = sqlite3_changes(query->connection->db);
    return code;
}

enum error_code lite_run_found(struct query *query, bool *ret_found)
{
    int changes = 0;
    enum error_code code = lite_run_counted(query, &changes);
    if (code == ERR_OK)
        *ret_found = changes > 0;
    return code;
}

enum error_code lite_end(struct query *query)
{
    /* What reset returns is what step has returned already. */
    if (query->statement != NULL)
        (void)sqlite3_reset(query->statement);
    if (query->code == ERR_OK && query->out_of_memory)
        query->code = err_set(query->err, ERR_NO_MEMORY, "out of memory");
    return query->code;
}

/* ---- rows ---- */

int64_t lite_read_int(struct query *query)
{
    return sqlite3_column_int64(query->statement, ++query->column);
}

struct str lite_read_text_view(struct query *query)
{
    int column = ++query->column;
    if (sqlite3_column_type(query->statement, column) == SQLITE_NULL)
        return (struct str){NULL, 0};
    /* As a blob: asked for a text, SQLite would make a copy with a NUL behind it. */
    const char *text = sqlite3_column_blob(query->statement, column);
    int len = sqlite3_column_bytes(query->statement, column);
    if (text == NULL && len > 0) {
        query->out_of_memory = true;
        return (struct str){NULL, 0};
    }
    return (struct str){text == NULL ? "" : text, (size_t)len};
}

struct str lite_read_text(struct query *query)
{
    struct str view = lite_read_text_view(query);
    struct str copy = arena_copy(query->arena, view);
    if (str_is_set(view) && !str_is_set(copy))
        query->out_of_memory = true;
    return copy;
}

void lite_read_blob(struct query *query, uint8_t *ret, size_t len)
{
    int column = ++query->column;
    const void *bytes = sqlite3_column_blob(query->statement, column);
    if (bytes != NULL && (size_t)sqlite3_column_bytes(query->statement, column) == len) {
        memcpy(ret, bytes, len);
        return;
    }
    memset(ret, 0, len);
    if (query->code == ERR_OK)
        query->code =
            err_set(query->err, ERR_CORRUPT, "the database is damaged: column %s has not %zu bytes",
                    sqlite3_column_name(query->statement, column), len);
}

struct uuid lite_read_uuid(struct query *query)
{
    struct uuid id = {{0}};
    lite_read_blob(query, id.bytes, sizeof id.bytes);
    return id;
}

uint32_t lite_read_step(struct query *query)
{
    int64_t step = lite_read_int(query);
    if (step >= 0 && step < STEP_NONE)
        return (uint32_t)step;
    if (step != -1 && query->code == ERR_OK)
        query->code = err_set(query->err, ERR_CORRUPT,
                              "the database is damaged: there is no step %" PRId64, step);
    return STEP_NONE;
}

void lite_skip(struct query *query, int count)
{
    query->column += count;
}

bool lite_next_is_null(const struct query *query)
{
    return sqlite3_column_type(query->statement, query->column + 1) == SQLITE_NULL;
}
