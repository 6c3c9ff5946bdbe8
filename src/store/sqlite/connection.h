/* One connection to the file: its prepared statements, values in and out, and what SQLite's errors
 * mean here.
 *
 * A connection belongs to one thread at a time; its owner sees to that. */
#ifndef PAWL_STORE_SQLITE_CONNECTION_H
#define PAWL_STORE_SQLITE_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/store.h"

enum statement {
#define STATEMENT(symbol, sql) STATEMENT_##symbol,
#include "store/sqlite/statements.def"
#undef STATEMENT
    STATEMENT_COUNT,
};

/* How many lanes are walked with a statement of their own; those beyond look up each place. */
enum { CURSORS_MAX = 32 };

struct connection {
    sqlite3 *db;
    sqlite3_file *log; /* SQLite's, after the first commit */
    int wal_pages;     /* in the log after the last commit of this connection */
    int moved_pages;   /* of these, so many are in the database */
    sqlite3_stmt *statements[STATEMENT_COUNT];
    sqlite3_stmt *cursors[CURSORS_MAX]; /* all READY_NEXT */
    sqlite3_stmt *begin_write;
    sqlite3_stmt *begin_read;
    sqlite3_stmt *look; /* reads one row, which is what makes a snapshot */
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
};

/* What a connection is for. */
enum connection_kind {
    CONNECTION_WRITER,       /* the only one that writes rows */
    CONNECTION_CHECKPOINTER, /* moves the log to the database, but not when it is closed */
    CONNECTION_READER,       /* cannot write, and never checkpoints, not even when it is closed */
};

/* Opens; the file must be there. unavailable (also when the file can only be read), corrupt or
 * no_memory, as lite_fail. Locks of others are waited for up to `timeout_ms`. */
enum error_code lite_open(struct connection *connection, const char *path,
                          enum connection_kind kind, int64_t timeout_ms, struct err *err);

/* Closes, if it is open. */
void lite_close(struct connection *connection);

/* What a result of SQLite's means: no_memory, corrupt, version_mismatch (there is such a row
 * already), or unavailable with the reason. `doing` is
 * what was tried: "cannot <doing>". A failed fsync ends the process: what is then on the disk is
 * not known, and asking the kernel again would not tell. */
enum error_code lite_fail(struct connection *connection, int result, const char *doing,
                          struct err *err);

/* Runs SQL without parameters, of which rows are thrown away. */
enum error_code lite_run_sql(struct connection *connection, struct str sql, const char *doing,
                             struct err *err);

/* The one number that a SQL text without parameters gives; 0 when it gives no row. */
enum error_code lite_get_int(struct connection *connection, struct str sql, int64_t *ret,
                             struct err *err);

/* The transaction as a whole. What could not be rolled back for want of memory is when the next one
 * begins. */
enum error_code lite_begin(struct connection *connection, enum store_mode mode, struct err *err);
enum error_code lite_commit(struct connection *connection, struct err *err);
void lite_rollback(struct connection *connection);

/* Moves what is in the log to the database file, as SQLITE_CHECKPOINT_* says. What cannot be moved
 * yet stays in the log, which is no failure; false then. */
bool lite_checkpoint(struct connection *connection, int how);

/* Waits until the disk has what is in a log of SQLite's (NULL: none yet): SQLite itself
 * waits for that only when it moves the log to the database. Any thread may call this, while
 * another writes. A disk that fails ends the process. */
void lite_sync_file(sqlite3_file *log);

/* The same for the connection's own log. */
void lite_sync_log(struct connection *connection);

/* A use of a statement: values in by their order, then run, or rows out. Views that are put in must
 * live until the query has ended. After a failure the rest does nothing and the code is kept. */
struct query {
    struct connection *connection;
    sqlite3_stmt *statement;
    struct err *err;
    enum error_code code;
    int parameter; /* the last that was put in */
    int column;    /* the last that was read */
    struct arena *arena;
    bool out_of_memory; /* a text did not fit in the arena */
};

/* Begins; `arena` is for texts that are read, NULL when there are none. */
struct query lite_query(struct connection *connection, enum statement statement,
                        struct arena *arena, struct err *err);

/* The same with a statement of the caller's, which is prepared (as READY_NEXT) when it is NULL. */
struct query lite_query_cursor(struct connection *connection, sqlite3_stmt **cursor,
                               struct err *err);

void lite_put_int(struct query *query, int64_t value);
void lite_put_text(struct query *query, struct str text); /* absent: NULL */
void lite_put_blob(struct query *query, const void *bytes, size_t len);
void lite_put_null(struct query *query);
void lite_put_uuid(struct query *query, const struct uuid *id);
void lite_put_step(struct query *query, uint32_t step); /* STEP_NONE is -1 */

/* Runs it to its end. Rows, if any, are not looked at. */
enum error_code lite_run(struct query *query);

/* The next row; false at the end, and after a failure. */
bool lite_next(struct query *query);

int64_t lite_read_int(struct query *query);
struct str lite_read_text(struct query *query);                     /* a copy in the arena */
struct str lite_read_text_view(struct query *query);                /* valid until the next row */
void lite_read_blob(struct query *query, uint8_t *ret, size_t len); /* corrupt for another length */
struct uuid lite_read_uuid(struct query *query);
uint32_t lite_read_step(struct query *query);
void lite_skip(struct query *query, int count);
bool lite_next_is_null(const struct query *query);

/* Ends the query and says how it went. Must be called for every query that is not run. */
enum error_code lite_end(struct query *query);

/* lite_run, and how many rows it changed, or whether it changed any. */
enum error_code lite_run_counted(struct query *query, int *ret_changes);
enum error_code lite_run_found(struct query *query, bool *ret_found);

#endif
