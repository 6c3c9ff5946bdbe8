#include "store/sqlite/rows.h"

#include <stddef.h>
#include <stdlib.h>

#include "store/row.h"
#include "store/sqlite/ahead.h"

struct rows_table {
    sqlite3_vtab base;
    const struct rows_offer *offer;
};

struct rows_cursor {
    sqlite3_vtab_cursor base;
    const struct ahead_table *table;
    enum rows_sort sort;
    const struct ahead_events *events; /* ROWS_EVENTS: of this batch; NULL: there are no more */
    uint32_t at;
    struct job_row job; /* ROWS_JOBS: the row, whose texts are in the arena or the table */
    struct arena arena;
};

/* ---- columns ---- */

enum value {
    VALUE_INT,
    VALUE_BOOL,
    VALUE_TEXT,
    VALUE_BYTES,
    VALUE_HASH, /* a pointer to one */
    VALUE_NO_STEP,
};

struct column {
    enum value value;
    size_t offset;
    size_t len; /* of VALUE_BYTES */
};

#define BYTES(sort, member) VALUE_BYTES, offsetof(sort, member), sizeof(((sort *)NULL)->member)
#define INT(sort, member) VALUE_INT, offsetof(sort, member), 0
#define BOOL(sort, member) VALUE_BOOL, offsetof(sort, member), 0
#define TEXT(sort, member) VALUE_TEXT, offsetof(sort, member), 0
#define HASH(sort, member) VALUE_HASH, offsetof(sort, member), 0

typedef struct ahead_event event_row;
typedef struct job_row job_row;
typedef struct ahead_job ready_row;

/* In the order in which they are declared below. */
static const struct column event_columns[] = {
    {INT(event_row, position)}, {BYTES(event_row, job)},  {INT(event_row, version)},
    {TEXT(event_row, type)},    {INT(event_row, at)},     {BOOL(event_row, redacted)},
    {TEXT(event_row, actor)},   {TEXT(event_row, cause)}, {TEXT(event_row, correlation_id)},
    {HASH(event_row, digest)},  {HASH(event_row, hash)},  {TEXT(event_row, payload)},
};

static const struct column job_columns[] = {
    {BYTES(job_row, id)},        {INT(job_row, status)},          {INT(job_row, version)},
    {INT(job_row, retry_count)}, {INT(job_row, created_at)},      {INT(job_row, updated_at)},
    {TEXT(job_row, queue)},      {TEXT(job_row, kind)},           {INT(job_row, priority)},
    {INT(job_row, reason_code)}, {INT(job_row, purge_at)},        {BOOL(job_row, redacted)},
    {TEXT(job_row, agent_id)},   {TEXT(job_row, correlation_id)}, {TEXT(job_row, idempotency_key)},
    {BYTES(job_row, head)},      {BYTES(job_row, salt)},          {TEXT(job_row, cursor)},
    {TEXT(job_row, goal)},       {TEXT(job_row, labels)},         {TEXT(job_row, state)},
    {BOOL(job_row, asking)},
};

static const struct column left_columns[] = {
    {INT(ready_row, was.lane)}, {INT(ready_row, was.rank)}, {INT(ready_row, was.run_at)},
    {BYTES(ready_row, job.id)}, {VALUE_NO_STEP, 0, 0},
};

static const struct column ready_columns[] = {
    {INT(ready_row, now.lane)}, {INT(ready_row, now.rank)}, {INT(ready_row, now.run_at)},
    {BYTES(ready_row, job.id)}, {VALUE_NO_STEP, 0, 0},
};

#define JOB_ROW                                                                                    \
    "CREATE TABLE x (job, status, version, retry_count, created_at, updated_at, queue, kind, "     \
    "priority, reason_code, purge_at, redacted, agent_id, correlation_id, idempotency_key, head, " \
    "salt, cursor, goal, labels, state, asking)"
#define PLACE_ROW "CREATE TABLE x (lane, rank, run_at, job, step)"

static const struct {
    const char *name;
    const char *declared;
    const struct column *columns;
} sorts[ROWS_SORT_COUNT] = {
    [ROWS_EVENTS] = {"ahead_events",
                     "CREATE TABLE x (position, job, version, type, created_at, redacted, actor, "
                     "cause, correlation_id, digest, hash, payload)",
                     event_columns},
    [ROWS_JOBS] = {"ahead_jobs", JOB_ROW, job_columns},
    [ROWS_CHANGED] = {"ahead_changed", JOB_ROW, job_columns},
    [ROWS_READY] = {"ahead_ready", PLACE_ROW, ready_columns},
    [ROWS_LEFT] = {"ahead_left", PLACE_ROW, left_columns},
};

bool rows_is_ready(const struct ahead_job *job)
{
    return job->created && job->now.lane != 0 && job->now.run_at <= job->at && !job->now.leased &&
           job->now.due_at == 0;
}

bool rows_has_left(const struct ahead_job *job)
{
    const struct place *was = &job->was;
    const struct place *now = &job->now;
    bool stays = was->lane == now->lane && was->rank == now->rank && was->run_at == now->run_at;
    return !job->created && was->lane != 0 && was->run_at <= job->at && !stays;
}

/* ---- the tables ---- */

static int rows_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **ret, char **ret_error)
{
    const struct rows_offer *offer = aux;
    (void)argc, (void)argv, (void)ret_error;
    struct rows_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return SQLITE_NOMEM;
    table->offer = offer;
    int result = sqlite3_declare_vtab(db, sorts[offer->sort].declared);
    if (result != SQLITE_OK) {
        free(table);
        return result;
    }
    *ret = &table->base;
    return SQLITE_OK;
}

static int rows_disconnect(sqlite3_vtab *base)
{
    free(base);
    return SQLITE_OK;
}

/* There is one way to read them: all, in their order. */
static int rows_plan(sqlite3_vtab *base, sqlite3_index_info *info)
{
    (void)base;
    info->estimatedCost = 1;
    return SQLITE_OK;
}

/* ---- going through them ---- */

static int rows_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret)
{
    const struct rows_offer *offer = ((struct rows_table *)base)->offer;
    struct rows_cursor *cursor = calloc(1, sizeof *cursor);
    if (cursor == NULL)
        return SQLITE_NOMEM;
    cursor->table = offer->rows->table;
    cursor->sort = offer->sort;
    arena_init(&cursor->arena);
    *ret = &cursor->base;
    return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *base)
{
    struct rows_cursor *cursor = (struct rows_cursor *)base;
    arena_release(&cursor->arena);
    free(cursor);
    return SQLITE_OK;
}

static bool is_shown(const struct rows_cursor *cursor)
{
    const struct ahead_job *job = cursor->table->jobs[cursor->at];
    switch (cursor->sort) {
    case ROWS_JOBS:
        return job->created;
    case ROWS_CHANGED:
        return !job->created;
    case ROWS_READY:
        return rows_is_ready(job);
    default:
        return rows_has_left(job);
    }
}

/* Goes on to the first row from here on that is to be shown. */
static int rows_settle(struct rows_cursor *cursor)
{
    if (cursor->sort == ROWS_EVENTS) {
        if (cursor->events != NULL && cursor->at == cursor->events->count) {
            cursor->events = cursor->events->next;
            cursor->at = 0;
        }
        return SQLITE_OK;
    }
    while (cursor->at < cursor->table->job_count && !is_shown(cursor))
        cursor->at++;
    bool whole = cursor->sort == ROWS_JOBS || cursor->sort == ROWS_CHANGED;
    if (!whole || cursor->at == cursor->table->job_count)
        return SQLITE_OK;
    const struct ahead_job *job = cursor->table->jobs[cursor->at];
    struct job_slice slice = {.job = job->job};
    struct store_job_write write = {
        .after = &slice, .created = job->created, .purge_at = job->purge_at};
    arena_clear(&cursor->arena);
    return row_of_job(&write, &cursor->arena, &cursor->job) == ERR_OK ? SQLITE_OK : SQLITE_NOMEM;
}

static int rows_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    struct rows_cursor *cursor = (struct rows_cursor *)base;
    (void)number, (void)text, (void)argc, (void)argv;
    cursor->at = 0;
    cursor->events = cursor->table->events;
    return rows_settle(cursor);
}

static int rows_next(sqlite3_vtab_cursor *base)
{
    struct rows_cursor *cursor = (struct rows_cursor *)base;
    cursor->at++;
    return rows_settle(cursor);
}

static int rows_eof(sqlite3_vtab_cursor *base)
{
    const struct rows_cursor *cursor = (struct rows_cursor *)base;
    const struct ahead_table *table = cursor->table;
    return cursor->sort == ROWS_EVENTS ? cursor->events == NULL : cursor->at >= table->job_count;
}

static int rows_number(sqlite3_vtab_cursor *base, sqlite3_int64 *ret)
{
    *ret = ((struct rows_cursor *)base)->at;
    return SQLITE_OK;
}

/* ---- values: what they point to is there until the next row ---- */

static void give_value(sqlite3_context *context, const struct column *column, const char *row)
{
    const void *at = row + column->offset;
    const struct str *text = at;
    switch (column->value) {
    case VALUE_INT:
        sqlite3_result_int64(context, *(const int64_t *)at);
        break;
    case VALUE_BOOL:
        sqlite3_result_int(context, *(const bool *)at);
        break;
    case VALUE_TEXT:
        if (str_is_set(*text))
            sqlite3_result_text64(context, text->at, text->len, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case VALUE_BYTES:
        sqlite3_result_blob(context, at, (int)column->len, SQLITE_STATIC);
        break;
    case VALUE_HASH:
        sqlite3_result_blob(context, *(const uint8_t *const *)at, HASH_LEN, SQLITE_STATIC);
        break;
    case VALUE_NO_STEP:
        sqlite3_result_int(context, -1);
        break;
    }
}

static int rows_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
    const struct rows_cursor *cursor = (struct rows_cursor *)base;
    const void *row = &cursor->job;
    if (cursor->sort == ROWS_EVENTS)
        row = &cursor->events->at[cursor->at];
    else if (cursor->sort == ROWS_READY || cursor->sort == ROWS_LEFT)
        row = cursor->table->jobs[cursor->at];
    give_value(context, &sorts[cursor->sort].columns[column], row);
    return SQLITE_OK;
}

/* ---- offering them ---- */

enum error_code rows_offer(struct rows *rows, struct connection *connection, struct err *err)
{
    static const sqlite3_module module = {
        .xConnect = rows_connect,
        .xBestIndex = rows_plan,
        .xDisconnect = rows_disconnect,
        .xOpen = rows_open,
        .xClose = rows_close,
        .xFilter = rows_filter,
        .xNext = rows_next,
        .xEof = rows_eof,
        .xColumn = rows_column,
        .xRowid = rows_number,
    };
    for (size_t i = 0; i < ROWS_SORT_COUNT; i++) {
        struct rows_offer *offer = &rows->offers[i];
        *offer = (struct rows_offer){.rows = rows, .sort = (enum rows_sort)i};
        int result = sqlite3_create_module_v2(connection->db, sorts[i].name, &module, offer, NULL);
        if (result != SQLITE_OK)
            return lite_fail(connection, result, "use the database", err);
    }
    return ERR_OK;
}
