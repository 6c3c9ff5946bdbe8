/* PostgreSQL without a store: the same changes of the same rows by statements that a person would
 * write, an array a column, prepared, and sent in one flight with their COMMIT. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/json.h"
#include "contenders.h"
#include "store/postgres/params.h"

enum bare_statement {
    BARE_BEGIN,
    BARE_JOBS_INSERT,
    BARE_READY_INSERT,
    BARE_READY_DELETE,
    BARE_CLAIMS_INSERT,
    BARE_COMPLETE,
    BARE_BATCH,
    BARE_COMMIT,
    BARE_STATEMENTS,
};

static const struct {
    const char *name;
    const char *sql;
} statements[BARE_STATEMENTS] = {
    [BARE_BEGIN] = {"bare_begin", "BEGIN"},
    [BARE_JOBS_INSERT] =
        {"bare_jobs_insert",
         "INSERT INTO pawl.job_rows (id, created_at, priority, status, redacted, salt, kind, queue,"
         " agent_id, correlation_id, idempotency_key, labels, state, hash, first, created)"
         " SELECT unnest($1::uuid[]), unnest($2::timestamptz[]), unnest($3::int4[]),"
         " unnest($4::int4[]), unnest($5::bool[]), unnest($6::bytea[]), unnest($7::text[]),"
         " unnest($8::text[]), unnest($9::text[]), unnest($10::text[]), unnest($11::text[]),"
         " unnest($12::json[]), unnest($13::text[]), unnest($14::bytea[]), unnest($15::text[]),"
         " unnest($16::text[])"},
    [BARE_READY_INSERT] =
        {"bare_ready_insert",
         "INSERT INTO pawl.ready (lane, rank, run_at, job_id, step)"
         " SELECT 1, rank, run_at, job_id, -1"
         " FROM unnest($1::int4[], $2::int8[], $3::uuid[]) u (rank, run_at, job_id)"},
    [BARE_READY_DELETE] =
        {"bare_ready_delete",
         "DELETE FROM pawl.ready WHERE ctid = ANY (ARRAY("
         "SELECT (SELECT r.ctid FROM pawl.ready r WHERE r.lane = 1 AND r.rank = u.rank"
         " AND r.run_at = u.run_at AND r.job_id = u.job_id AND r.step = -1)"
         " FROM unnest($1::int4[], $2::int8[], $3::uuid[]) u (rank, run_at, job_id)))"},
    [BARE_CLAIMS_INSERT] =
        {"bare_claims_insert",
         "INSERT INTO pawl.claim_rows (job_id, step, attempt, expires_at, beat_at, due_at,"
         " worker_id, resource_id, progress, cursor, updated_at, version, status, retry_count,"
         " reason_code, state, hashes, record)"
         " SELECT unnest($1::uuid[]), -1, unnest($2::int8[]), unnest($3::timestamptz[]),"
         " unnest($4::int8[]), unnest($5::int8[]), unnest($6::text[]), unnest($7::text[]),"
         " unnest($8::text[]), unnest($9::text[]), unnest($10::timestamptz[]), unnest($11::int8[]),"
         " unnest($12::int4[]), unnest($13::int4[]), unnest($14::int4[]), unnest($15::text[]),"
         " unnest($16::bytea[]), unnest($17::text[])"},
    [BARE_COMPLETE] =
        {"bare_complete",
         "WITH u AS MATERIALIZED (SELECT unnest($1::uuid[]) AS job_id,"
         " unnest($2::timestamptz[]) AS created_at, unnest($3::int8[]) AS purge_at,"
         " unnest($4::text[]) AS queue, unnest($5::text[]) AS cursor,"
         " unnest($6::timestamptz[]) AS updated_at, unnest($7::int8[]) AS version,"
         " unnest($8::int4[]) AS status, unnest($9::int4[]) AS retry_count,"
         " unnest($10::int4[]) AS reason_code, unnest($11::text[]) AS state,"
         " unnest($12::bytea[]) AS hashes, unnest($13::text[]) AS record"
         "), gone AS (DELETE FROM pawl.claim_rows c USING u WHERE c.job_id = u.job_id"
         " AND c.step = -1 RETURNING u.*, c.hashes AS held_hashes, c.record AS held_record)"
         " INSERT INTO pawl.state_rows (job_id, created_at, updated_at, version, purge_at, status,"
         " retry_count, reason_code, asking, queue, hashes, cursor, state, record)"
         " SELECT job_id, created_at, updated_at, version, purge_at, status, retry_count,"
         " reason_code, false, queue, held_hashes || hashes, cursor, state, held_record || record"
         " FROM gone"},
    [BARE_BATCH] = {"bare_batch",
                    "INSERT INTO pawl.batch_rows (session, batch, seq, jobs, versions, counts)"
                    " VALUES ('00000000-0000-0000-0000-000000000000', $1::int8,"
                    " nextval('pawl.feed_seq'), $2::uuid[], ARRAY[$3::int8],"
                    " ARRAY[$4::int8]::int4[])"},
    [BARE_COMMIT] = {"bare_commit", "COMMIT"},
};

/* Statements are planned once, and with the indexes whatever the statistics say: those of tables
 * that were empty a moment ago mislead. */
static const char settings[] =
    "SET plan_cache_mode = force_generic_plan; SET jit = off; SET enable_seqscan = off;"
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_bitmapscan = off";

struct bare {
    struct contender base;
    PGconn *pg;
    struct arena arena;
    int64_t batch;
    bool by_row;
    bool has_lane;
    char url[1024];
};

/* The rows of a stage that go into one statement. */
struct part {
    const struct lives *lives;
    enum life_stage stage;
    uint32_t from;
    uint32_t to;
};

/* ---- the server ---- */

static void check_result(PGconn *pg, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    bench_check(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ||
                    status == PGRES_PIPELINE_SYNC,
                "PostgreSQL: %s", PQerrorMessage(pg));
}

static PGresult *ask(PGconn *pg, const char *sql)
{
    PGresult *result = PQexec(pg, sql);
    check_result(pg, result);
    return result;
}

static PGconn *connect_to(const char *url)
{
    PGconn *pg = PQconnectdb(url);
    bench_check(PQstatus(pg) == CONNECTION_OK, "PostgreSQL: %s", PQerrorMessage(pg));
    return pg;
}

static void send_statement(struct bare *bare, enum bare_statement statement, struct params *params)
{
    bench_check(params == NULL || !params->failed, "there is no memory for a statement");
    int sent =
        params == NULL
            ? PQsendQueryPrepared(bare->pg, statements[statement].name, 0, NULL, NULL, NULL, 1)
            : PQsendQueryPrepared(bare->pg, statements[statement].name, params->count,
                                  params->values, params->lengths, params->formats, 1);
    bench_check(sent == 1, "PostgreSQL: %s", PQerrorMessage(bare->pg));
}

/* Hears what came of all that was sent. */
static void hear_all(struct bare *bare)
{
    bench_check(PQpipelineSync(bare->pg) == 1, "PostgreSQL: %s", PQerrorMessage(bare->pg));
    for (bool synced = false; !synced;) {
        PGresult *result = PQgetResult(bare->pg);
        if (result == NULL)
            continue; /* between two statements */
        check_result(bare->pg, result);
        synced = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        PQclear(result);
    }
}

/* ---- rows ---- */

/* A column: one array, made by a function of the row. */
typedef void (*fill)(struct array *array, const void *row);

struct column {
    enum param_type type;
    fill fill;
};

static void add_columns(struct params *params, const struct column *columns, size_t count,
                        const char *rows, size_t size, uint32_t row_count)
{
    for (size_t i = 0; i < count; i++) {
        struct array array;
        array_init(&array, params->arena, columns[i].type, row_count);
        for (uint32_t k = 0; k < row_count; k++)
            columns[i].fill(&array, rows + k * size);
        params_add_array(params, &array);
    }
}

#define COLUMNS(list) list, sizeof(list) / sizeof((list)[0])

#define COLUMN(name, row_type, adder, value)                                                       \
    static void name(struct array *array, const void *at)                                          \
    {                                                                                              \
        const row_type *row = at;                                                                  \
        adder(array, value);                                                                       \
    }

static void add_hash(struct array *array, const uint8_t hash[HASH_LEN])
{
    array_add_bytes(array, hash, HASH_LEN);
}

static void add_salt(struct array *array, const uint8_t salt[SALT_LEN])
{
    array_add_bytes(array, salt, SALT_LEN);
}

COLUMN(job_id, struct job_row, array_add_uuid, row->id)
COLUMN(job_created_at, struct job_row, array_add_time, row->created_at)
COLUMN(job_updated_at, struct job_row, array_add_time, row->updated_at)
COLUMN(job_version, struct job_row, array_add_int8, row->version)
COLUMN(job_purge, struct job_row, array_add_int8, row->purge_at)
COLUMN(job_status, struct job_row, array_add_int4, row->status)
COLUMN(job_retry_count, struct job_row, array_add_int4, row->retry_count)
COLUMN(job_reason_code, struct job_row, array_add_int4, row->reason_code)
COLUMN(job_priority, struct job_row, array_add_int4, row->priority)
COLUMN(job_redacted, struct job_row, array_add_bool, row->redacted)
COLUMN(job_salt, struct job_row, add_salt, row->salt)
COLUMN(job_cursor, struct job_row, array_add_str, row->cursor)
COLUMN(job_state, struct job_row, array_add_str, row->state)
COLUMN(job_kind, struct job_row, array_add_str, row->kind)
COLUMN(job_queue, struct job_row, array_add_str, row->queue)
COLUMN(job_agent_id, struct job_row, array_add_str, row->agent_id)
COLUMN(job_correlation_id, struct job_row, array_add_str, row->correlation_id)
COLUMN(job_idempotency_key, struct job_row, array_add_str, row->idempotency_key)
COLUMN(job_labels, struct job_row, array_add_str, row->labels)

static const struct column new_job[] = {
    {PARAM_UUID, job_id},
    {PARAM_TIME, job_created_at},
    {PARAM_INT4, job_priority},
    {PARAM_INT4, job_status},
    {PARAM_BOOL, job_redacted},
    {PARAM_BYTEA, job_salt},
    {PARAM_TEXT, job_kind},
    {PARAM_TEXT, job_queue},
    {PARAM_TEXT, job_agent_id},
    {PARAM_TEXT, job_correlation_id},
    {PARAM_TEXT, job_idempotency_key},
    {PARAM_JSON, job_labels},
    {PARAM_TEXT, job_state},
};

static const struct column ended_job[] = {
    {PARAM_UUID, job_id},    {PARAM_TIME, job_created_at}, {PARAM_INT8, job_purge},
    {PARAM_TEXT, job_queue}, {PARAM_TEXT, job_cursor},
};

static const struct column changed_job[] = {
    {PARAM_TIME, job_updated_at},  {PARAM_INT8, job_version},     {PARAM_INT4, job_status},
    {PARAM_INT4, job_retry_count}, {PARAM_INT4, job_reason_code}, {PARAM_TEXT, job_state},
};

COLUMN(claim_attempt, struct claim_row, array_add_int8, row->attempt)
COLUMN(claim_expires_at, struct claim_row, array_add_time, row->expires_at)
COLUMN(claim_beat_at, struct claim_row, array_add_int8, row->beat_at)
COLUMN(claim_due_at, struct claim_row, array_add_int8, row->due_at)
COLUMN(claim_worker_id, struct claim_row, array_add_str, row->worker_id)
COLUMN(claim_resource_id, struct claim_row, array_add_str, row->resource_id)
COLUMN(claim_progress, struct claim_row, array_add_str, row->progress)
COLUMN(claim_cursor, struct claim_row, array_add_str, row->cursor)

static const struct column lease[] = {
    {PARAM_INT8, claim_attempt},  {PARAM_TIME, claim_expires_at}, {PARAM_INT8, claim_beat_at},
    {PARAM_INT8, claim_due_at},   {PARAM_TEXT, claim_worker_id},  {PARAM_TEXT, claim_resource_id},
    {PARAM_TEXT, claim_progress}, {PARAM_TEXT, claim_cursor},
};

COLUMN(place_rank, struct store_job_write, array_add_int4, -row->now.priority)
COLUMN(place_run_at, struct store_job_write, array_add_int8, row->now.run_at)
COLUMN(place_job, struct store_job_write, array_add_uuid, row->after->job.id)

static const struct column in_lane[] = {
    {PARAM_INT4, place_rank},
    {PARAM_INT8, place_run_at},
    {PARAM_UUID, place_job},
};

COLUMN(id, struct uuid, array_add_uuid, *row)

static const struct column just_id[] = {{PARAM_UUID, id}};

/* What a job gains: see src/store/postgres/migrations/0007_packed.sql for the form. */
struct packed {
    const struct event *first;
    struct str about; /* the first event without its payload */
    struct str hashes;
    struct str record;
};

COLUMN(first_hash, struct packed, add_hash, row->first->hash)
COLUMN(first_about, struct packed, array_add_str, row->about)
COLUMN(first_payload, struct packed, array_add_str, row->first->payload)
COLUMN(all_hashes, struct packed, array_add_str, row->hashes)
COLUMN(all_events, struct packed, array_add_str, row->record)

static const struct column first_event[] = {
    {PARAM_BYTEA, first_hash}, {PARAM_TEXT, first_about}, {PARAM_TEXT, first_payload}};
static const struct column later_events[] = {{PARAM_BYTEA, all_hashes}, {PARAM_TEXT, all_events}};

static void add_about(struct buf *buf, const struct event *event)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_array(&writer);
    json_put_int(&writer, event->version);
    json_put_string(&writer, event_name(event));
    json_put_int(&writer, event->at);
    json_put_string(&writer, event->actor);
    json_put_string(&writer, event->cause_text);
    json_put_string(&writer, event->correlation_id);
    json_end_array(&writer);
}

static struct packed pack(const struct store_job_write *write, struct arena *arena)
{
    struct buf about;
    struct buf hashes;
    struct buf record;
    buf_init(&about, arena, 128);
    buf_init(&hashes, arena, LIFE_EVENTS * HASH_LEN);
    buf_init(&record, arena, 512);
    add_about(&about, &write->events[0]);
    for (uint32_t i = 0; i < write->event_count; i++) {
        const struct event *event = &write->events[i];
        buf_add_char(&record, ',');
        add_about(&record, event);
        buf_add_char(&record, ',');
        buf_add(&record, str_is_set(event->payload) ? event->payload : STR("null"));
        buf_add(&hashes, (struct str){(const char *)event->hash, HASH_LEN});
    }
    bench_check(!about.failed && !hashes.failed && !record.failed, "there is no memory for events");
    return (struct packed){write->events, buf_str(&about), buf_str(&hashes), buf_str(&record)};
}

/* ---- statements of a part ---- */

static void send_rows(struct bare *bare, enum bare_statement statement,
                      const struct column *columns, size_t column_count, const void *rows,
                      size_t size, uint32_t count)
{
    struct params params;
    params_init(&params, &bare->arena);
    add_columns(&params, columns, column_count, rows, size, count);
    send_statement(bare, statement, &params);
    arena_clear(&bare->arena);
}

/* The rows of jobs, with what they gain. */
static void send_jobs(struct bare *bare, const struct part *part)
{
    uint32_t count = part->to - part->from;
    const char *rows = (const char *)&part->lives->rows[part->stage][part->from];
    size_t size = sizeof(struct job_row);
    struct params params;
    struct packed *packed = arena_zalloc(&bare->arena, count, sizeof *packed);
    bench_check(packed != NULL, "there is no memory for events");
    for (uint32_t i = 0; i < count; i++)
        packed[i] = pack(&part->lives->writes[part->stage][part->from + i], &bare->arena);
    params_init(&params, &bare->arena);
    if (part->stage == LIFE_SUBMIT) {
        add_columns(&params, COLUMNS(new_job), rows, size, count);
        add_columns(&params, COLUMNS(first_event), (const char *)packed, sizeof *packed, count);
        send_statement(bare, BARE_JOBS_INSERT, &params);
        arena_clear(&bare->arena);
        return;
    }
    if (part->stage == LIFE_CLAIM) {
        add_columns(&params, COLUMNS(just_id), (const char *)&part->lives->ids[part->from],
                    sizeof *part->lives->ids, count);
        add_columns(&params, COLUMNS(lease), (const char *)&part->lives->claims[part->from],
                    sizeof *part->lives->claims, count);
    } else {
        add_columns(&params, COLUMNS(ended_job), rows, size, count);
    }
    add_columns(&params, COLUMNS(changed_job), rows, size, count);
    add_columns(&params, COLUMNS(later_events), (const char *)packed, sizeof *packed, count);
    send_statement(bare, part->stage == LIFE_CLAIM ? BARE_CLAIMS_INSERT : BARE_COMPLETE, &params);
    arena_clear(&bare->arena);
}

static void send_part(struct bare *bare, struct part *part)
{
    const struct store_job_write *submits = &part->lives->writes[LIFE_SUBMIT][part->from];
    uint32_t count = part->to - part->from;
    if (part->stage == LIFE_CLAIM)
        send_rows(bare, BARE_READY_DELETE, COLUMNS(in_lane), submits, sizeof *submits, count);
    send_jobs(bare, part);
    if (part->stage == LIFE_SUBMIT)
        send_rows(bare, BARE_READY_INSERT, COLUMNS(in_lane), submits, sizeof *submits, count);
}

/* What the batch is in the feed. */
static void send_batch(struct bare *bare, const struct lives *lives, enum life_stage stage)
{
    const struct store_job_write *write = lives->writes[stage];
    struct params params;
    params_init(&params, &bare->arena);
    params_add_int8(&params, ++bare->batch);
    add_columns(&params, COLUMNS(just_id), (const char *)lives->ids, sizeof *lives->ids,
                lives->count);
    params_add_int8(&params, write->events[0].version);
    params_add_int8(&params, write->event_count);
    send_statement(bare, BARE_BATCH, &params);
    arena_clear(&bare->arena);
}

/* ---- the contender ---- */

static void run_bare(struct contender *base, const struct lives *lives)
{
    struct bare *bare = (struct bare *)base;
    uint32_t step = bare->by_row ? 1 : lives->count;
    for (int stage = 0; stage < LIFE_STAGES; stage++) {
        struct part part = {.lives = lives, .stage = (enum life_stage)stage};
        send_statement(bare, BARE_BEGIN, NULL);
        for (; part.from < lives->count; part.from += step) {
            part.to = part.from + step;
            send_part(bare, &part);
        }
        send_batch(bare, lives, part.stage);
        send_statement(bare, BARE_COMMIT, NULL);
        hear_all(bare);
    }
}

/* The lane's row is written once, when a store first meets it. */
static void prepare_lane(struct contender *base, const struct lives *lives)
{
    struct bare *bare = (struct bare *)base;
    struct str lane = lives_lane(lives);
    struct params params;
    if (bare->has_lane)
        return;
    params_init(&params, &bare->arena);
    params_add_str(&params, PARAM_TEXT, lane);
    int sent =
        PQsendQueryParams(bare->pg,
                          "INSERT INTO pawl.lanes (number, hash, key)"
                          " VALUES (1, sha256(convert_to($1::text, 'UTF8')), $1::text)",
                          params.count, NULL, params.values, params.lengths, params.formats, 1);
    bench_check(sent == 1, "PostgreSQL: %s", PQerrorMessage(bare->pg));
    hear_all(bare);
    bare->has_lane = true;
}

static void settle_bare(struct contender *base)
{
    postgres_settle(((struct bare *)base)->url);
}

static void close_bare(struct contender *base)
{
    struct bare *bare = (struct bare *)base;
    PQfinish(bare->pg);
    arena_release(&bare->arena);
    free(bare);
}

struct contender *contend_bare_postgres(const char *url, bool by_row)
{
    struct bare *bare = calloc(1, sizeof *bare);
    bench_check(bare != NULL, "there is no memory");
    contender_make_schema(url);
    bare->pg = connect_to(url);
    bare->by_row = by_row;
    arena_init(&bare->arena);
    bench_check(strlen(url) < sizeof bare->url, "the URL is too long");
    memcpy(bare->url, url, strlen(url) + 1);
    PQclear(ask(bare->pg, settings));
    for (int i = 0; i < BARE_STATEMENTS; i++) {
        PGresult *result = PQprepare(bare->pg, statements[i].name, statements[i].sql, 0, NULL);
        check_result(bare->pg, result);
        PQclear(result);
    }
    bench_check(PQenterPipelineMode(bare->pg) == 1, "PostgreSQL: %s", PQerrorMessage(bare->pg));
    bare->base = (struct contender){prepare_lane, run_bare, settle_bare, close_bare};
    return &bare->base;
}

void postgres_settle(const char *url)
{
    PGconn *pg = connect_to(url);
    PQclear(ask(pg, "VACUUM (ANALYZE) pawl.job_rows, pawl.state_rows, pawl.claim_rows,"
                    " pawl.ready, pawl.timers, pawl.batch_rows"));
    PQclear(ask(pg, "CHECKPOINT"));
    PQfinish(pg);
}

/* ---- comparing ---- */

/* Who committed a batch is not a job's. */
#define CONTENT(table, columns)                                                                    \
    "SELECT '" table "', count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)"        \
    " FROM (SELECT " columns " FROM pawl." table ") t"
#define AND_THEN " UNION ALL "
#define EVENT_COLUMNS                                                                              \
    "job_id, version, created_at, redacted, type, payload, actor, cause, correlation_id,"          \
    " digest, hash"

/* clang-format off */
static const char contents[] =
    CONTENT("jobs", "*") AND_THEN
    CONTENT("job_events", EVENT_COLUMNS) AND_THEN
    CONTENT("job_claims", "*") AND_THEN
    CONTENT("ready", "*") AND_THEN
    CONTENT("timers", "*") AND_THEN
    CONTENT("lanes", "*")
    " ORDER BY 1";
/* clang-format on */

static const char changes[] =
    "SELECT relname, n_tup_ins, n_tup_upd, CASE relname WHEN 'batch_rows' THEN 0 ELSE n_tup_del END"
    " FROM pg_stat_user_tables WHERE schemaname = 'pawl' AND relname IN ('job_rows', 'state_rows',"
    " 'claim_rows', 'ready', 'timers', 'lanes', 'batch_rows') ORDER BY 1";

/* The first row in which two results differ; -1: they do not. */
static int difference(const PGresult *a, const PGresult *b)
{
    for (int row = 0; row < PQntuples(a); row++)
        for (int column = 0; column < PQnfields(a); column++)
            if (strcmp(PQgetvalue(a, row, column), PQgetvalue(b, row, column)) != 0)
                return row;
    return -1;
}

static void show(const PGresult *result, int row, char ret[200])
{
    (void)snprintf(ret, 200, "%s: %s, %s, %s", PQgetvalue(result, row, 0),
                   PQgetvalue(result, row, 1), PQgetvalue(result, row, 2),
                   PQnfields(result) > 3 ? PQgetvalue(result, row, 3) : "");
}

/* Sessions report what they did when they end, which takes them a moment. */
static void check_equal(const char *sql, PGconn *first, PGconn *other)
{
    char a[200];
    char b[200];
    for (int attempt = 0;; attempt++) {
        PGresult *left = ask(first, sql);
        PGresult *right = ask(other, sql);
        int row = difference(left, right);
        if (row >= 0 && attempt == 50) {
            show(left, row, a);
            show(right, row, b);
            bench_fail("the databases are not the same: %s in %s, %s in %s", a, PQdb(first), b,
                       PQdb(other));
        }
        PQclear(left);
        PQclear(right);
        if (row < 0)
            return;
        (void)usleep(100 * 1000);
    }
}

uint64_t postgres_check_same(const char *const *urls, uint32_t count)
{
    PGconn *first = connect_to(urls[0]);
    for (uint32_t i = 1; i < count; i++) {
        PGconn *other = connect_to(urls[i]);
        check_equal(contents, first, other);
        check_equal(changes, first, other);
        PQfinish(other);
    }
    PGresult *result = ask(first, "SELECT count(*) FROM pawl.job_events");
    uint64_t events = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    PQfinish(first);
    return events;
}
