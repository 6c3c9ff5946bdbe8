/* SQLite without a store: the same changes of the same rows by prepared statements. */
#include <stdlib.h>

#include <sqlite3.h>

#include "base/hash.h"
#include "contenders.h"

/* Of a life: job_rows 1 + 2 updates, event_rows 4, ready 1 + 1 deleted, claim_rows 1 + 1 deleted.
 */
enum { LIFE_CHANGES = 11 };

enum bare_statement {
    BARE_BEGIN,
    BARE_COMMIT,
    BARE_JOB_INSERT,
    BARE_JOB_UPDATE,
    BARE_EVENT_INSERT,
    BARE_READY_INSERT,
    BARE_READY_DELETE,
    BARE_CLAIM_INSERT,
    BARE_CLAIM_DELETE,
    BARE_STATEMENTS,
};

static const char *const texts[BARE_STATEMENTS] = {
    [BARE_BEGIN] = "BEGIN IMMEDIATE",
    [BARE_COMMIT] = "COMMIT",
    [BARE_JOB_INSERT] =
        "INSERT INTO job_rows (job, status, version, retry_count, created_at, updated_at, queue, "
        "kind,"
        " priority, reason_code, purge_at, redacted, agent_id, correlation_id, idempotency_key,"
        " head, salt, cursor, goal, labels, state)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [BARE_JOB_UPDATE] =
        "UPDATE job_rows SET status = ?, version = ?, retry_count = ?, updated_at = ?,"
        " reason_code = ?, purge_at = ?, head = ?, cursor = ?, state = ?"
        " WHERE job = ?",
    [BARE_EVENT_INSERT] =
        "INSERT INTO event_rows (position, job, version, type, created_at, redacted, actor, cause,"
        " correlation_id, digest, hash, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [BARE_READY_INSERT] =
        "INSERT INTO ready (lane, rank, run_at, job, step) VALUES (1, ?, ?, ?, -1)",
    [BARE_READY_DELETE] =
        "DELETE FROM ready WHERE lane = 1 AND rank = ? AND run_at = ? AND job = ? AND step = -1",
    [BARE_CLAIM_INSERT] =
        "INSERT INTO claim_rows (job, step, worker_id, resource_id, attempt, expires_at, beat_at,"
        " due_at, progress, cursor) VALUES (?, -1, ?, ?, ?, ?, ?, ?, ?, ?)",
    [BARE_CLAIM_DELETE] = "DELETE FROM claim_rows WHERE job = ? AND step = -1",
};

struct bare {
    struct contender base;
    sqlite3 *db;
    sqlite3_stmt *statements[BARE_STATEMENTS];
    int64_t position; /* of the last event */
    bool has_lane;
    uint64_t jobs;
};

/* ---- statements ---- */

static void check(sqlite3 *db, int result)
{
    bench_check(result == SQLITE_OK || result == SQLITE_DONE || result == SQLITE_ROW, "SQLite: %s",
                sqlite3_errmsg(db));
}

/* A statement that gets its values one by one. */
struct use {
    struct bare *bare;
    sqlite3_stmt *statement;
    int place;
};

static struct use use(struct bare *bare, enum bare_statement statement)
{
    return (struct use){bare, bare->statements[statement], 0};
}

static void put_int(struct use *use, int64_t value)
{
    check(use->bare->db, sqlite3_bind_int64(use->statement, ++use->place, value));
}

static void put_text(struct use *use, struct str text)
{
    check(use->bare->db,
          sqlite3_bind_text(use->statement, ++use->place, text.at, (int)text.len, SQLITE_STATIC));
}

static void put_blob(struct use *use, const void *at, int len)
{
    check(use->bare->db, sqlite3_bind_blob(use->statement, ++use->place, at, len, SQLITE_STATIC));
}

static void run(struct use *use)
{
    check(use->bare->db, sqlite3_step(use->statement));
    check(use->bare->db, sqlite3_reset(use->statement));
}

static void run_plain(struct bare *bare, enum bare_statement statement)
{
    struct use plain = use(bare, statement);
    run(&plain);
}

static void run_text(sqlite3 *db, const char *sql)
{
    check(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

/* ---- rows ---- */

static void insert_job(struct bare *bare, const struct job_row *row)
{
    struct use insert = use(bare, BARE_JOB_INSERT);
    put_blob(&insert, row->id.bytes, 16);
    put_int(&insert, row->status);
    put_int(&insert, row->version);
    put_int(&insert, row->retry_count);
    put_int(&insert, row->created_at);
    put_int(&insert, row->updated_at);
    put_text(&insert, row->queue);
    put_text(&insert, row->kind);
    put_int(&insert, row->priority);
    put_int(&insert, row->reason_code);
    put_int(&insert, row->purge_at);
    put_int(&insert, row->redacted);
    put_text(&insert, row->agent_id);
    put_text(&insert, row->correlation_id);
    put_text(&insert, row->idempotency_key);
    put_blob(&insert, row->head, HASH_LEN);
    put_blob(&insert, row->salt, SALT_LEN);
    put_text(&insert, row->cursor);
    put_text(&insert, row->goal);
    put_text(&insert, row->labels);
    put_text(&insert, row->state);
    run(&insert);
}

static void update_job(struct bare *bare, const struct job_row *row)
{
    struct use update = use(bare, BARE_JOB_UPDATE);
    put_int(&update, row->status);
    put_int(&update, row->version);
    put_int(&update, row->retry_count);
    put_int(&update, row->updated_at);
    put_int(&update, row->reason_code);
    put_int(&update, row->purge_at);
    put_blob(&update, row->head, HASH_LEN);
    put_text(&update, row->cursor);
    put_text(&update, row->state);
    put_blob(&update, row->id.bytes, 16);
    run(&update);
}

static void insert_event(struct bare *bare, const struct event *event)
{
    struct use insert = use(bare, BARE_EVENT_INSERT);
    put_int(&insert, ++bare->position);
    put_blob(&insert, event->job_id.bytes, 16);
    put_int(&insert, event->version);
    put_text(&insert, event_name(event));
    put_int(&insert, event->at);
    put_int(&insert, event->redacted);
    put_text(&insert, event->actor);
    put_text(&insert, event->cause_text);
    put_text(&insert, event->correlation_id);
    put_blob(&insert, event->digest, HASH_LEN);
    put_blob(&insert, event->hash, HASH_LEN);
    put_text(&insert, event->payload);
    run(&insert);
}

static void put_ready(struct bare *bare, enum bare_statement statement,
                      const struct store_job_write *submit)
{
    struct use ready = use(bare, statement);
    put_int(&ready, -submit->now.priority);
    put_int(&ready, submit->now.run_at);
    put_blob(&ready, submit->after->job.id.bytes, 16);
    run(&ready);
}

static void insert_claim(struct bare *bare, const struct uuid *job, const struct claim_row *claim)
{
    struct use insert = use(bare, BARE_CLAIM_INSERT);
    put_blob(&insert, job->bytes, 16);
    put_text(&insert, claim->worker_id);
    put_text(&insert, claim->resource_id);
    put_int(&insert, claim->attempt);
    put_int(&insert, claim->expires_at);
    put_int(&insert, claim->beat_at);
    put_int(&insert, claim->due_at);
    put_text(&insert, claim->progress);
    put_text(&insert, claim->cursor);
    run(&insert);
}

static void delete_claim(struct bare *bare, const struct uuid *job)
{
    struct use delete = use(bare, BARE_CLAIM_DELETE);
    put_blob(&delete, job->bytes, 16);
    run(&delete);
}

/* ---- the contender ---- */

/* The lane's row is written once, when a store first meets it. */
static void prepare_lane(struct contender *base, const struct lives *lives)
{
    struct bare *bare = (struct bare *)base;
    struct str lane = lives_lane(lives);
    sqlite3_stmt *statement;
    if (bare->has_lane)
        return;
    check(bare->db, sqlite3_prepare_v2(bare->db, "INSERT INTO lanes (number, key) VALUES (1, ?)",
                                       -1, &statement, NULL));
    check(bare->db, sqlite3_bind_text(statement, 1, lane.at, (int)lane.len, SQLITE_STATIC));
    check(bare->db, sqlite3_step(statement));
    check(bare->db, sqlite3_finalize(statement));
    bare->has_lane = true;
}

static void run_bare(struct contender *base, const struct lives *lives)
{
    struct bare *bare = (struct bare *)base;
    for (int stage = 0; stage < LIFE_STAGES; stage++) {
        run_plain(bare, BARE_BEGIN);
        for (uint32_t i = 0; i < lives->count; i++) {
            const struct store_job_write *write = &lives->writes[stage][i];
            const struct store_job_write *submit = &lives->writes[LIFE_SUBMIT][i];
            for (uint32_t k = 0; k < write->event_count; k++)
                insert_event(bare, &write->events[k]);
            if (stage == LIFE_SUBMIT) {
                insert_job(bare, &lives->rows[stage][i]);
                put_ready(bare, BARE_READY_INSERT, submit);
            } else if (stage == LIFE_CLAIM) {
                put_ready(bare, BARE_READY_DELETE, submit);
                update_job(bare, &lives->rows[stage][i]);
                insert_claim(bare, &lives->ids[i], &lives->claims[i]);
            } else {
                update_job(bare, &lives->rows[stage][i]);
                delete_claim(bare, &lives->ids[i]);
            }
        }
        run_plain(bare, BARE_COMMIT);
    }
    bare->jobs += lives->count;
}

static void settle_nothing(struct contender *base)
{
    (void)base;
}

static void close_bare(struct contender *base)
{
    struct bare *bare = (struct bare *)base;
    uint64_t changes = (uint64_t)sqlite3_total_changes64(bare->db);
    bench_check(bare->jobs == 0 || changes == bare->jobs * LIFE_CHANGES + 1,
                "bare SQLite changed %llu rows for %llu jobs", (unsigned long long)changes,
                (unsigned long long)bare->jobs);
    for (int i = 0; i < BARE_STATEMENTS; i++)
        (void)sqlite3_finalize(bare->statements[i]);
    check(bare->db, sqlite3_close(bare->db));
    free(bare);
}

static const char *path_of(const char *url)
{
    bench_check(strncmp(url, "sqlite:", 7) == 0, "%s is no file of SQLite's", url);
    return url + 7;
}

/* With the settings that the store uses. */
struct contender *contend_bare_sqlite(const char *url)
{
    struct bare *bare = calloc(1, sizeof *bare);
    bench_check(bare != NULL, "there is no memory");
    contender_make_schema(url);
    check(bare->db, sqlite3_open_v2(path_of(url), &bare->db,
                                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
    run_text(bare->db,
             "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -64000;"
             "PRAGMA temp_store = 2; PRAGMA secure_delete = ON; PRAGMA wal_autocheckpoint = 4000");
    for (int i = 0; i < BARE_STATEMENTS; i++)
        check(bare->db, sqlite3_prepare_v3(bare->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                           &bare->statements[i], NULL));
    bare->base = (struct contender){prepare_lane, run_bare, settle_nothing, close_bare};
    return &bare->base;
}

/* ---- comparing ---- */

static const char *const tables[] = {"jobs",   "job_events",  "job_claims",   "ready",
                                     "timers", "lanes",       "job_steps",    "job_effects",
                                     "purged", "job_signals", "job_telemetry"};

enum { TABLES = sizeof tables / sizeof tables[0] };

struct content {
    uint64_t rows;
    uint8_t hash[HASH_LEN]; /* over all values of all rows, in the order of the key */
};

static struct content read_content(sqlite3 *db, const char *table)
{
    struct content content = {0};
    sqlite3_stmt *statement;
    char sql[64];
    (void)sqlite3_snprintf(sizeof sql, sql, "SELECT * FROM %s", table);
    check(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL));
    int result = sqlite3_step(statement);
    for (; result == SQLITE_ROW; result = sqlite3_step(statement)) {
        content.rows++;
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            char type = (char)sqlite3_column_type(statement, i);
            const void *at = sqlite3_column_blob(statement, i);
            int len = sqlite3_column_bytes(statement, i);
            struct str parts[] = {{(const char *)content.hash, HASH_LEN},
                                  {&type, 1},
                                  {at == NULL ? "" : at, (size_t)len}};
            uint8_t next[HASH_LEN];
            hash_sha256(parts, 3, next);
            memcpy(content.hash, next, HASH_LEN);
        }
    }
    check(db, result);
    check(db, sqlite3_finalize(statement));
    return content;
}

uint64_t sqlite_check_same(const char *const *urls, uint32_t count)
{
    struct content first[TABLES] = {{0}};
    for (uint32_t i = 0; i < count; i++) {
        sqlite3 *db;
        check(NULL, sqlite3_open_v2(path_of(urls[i]), &db, SQLITE_OPEN_READONLY, NULL));
        for (int k = 0; k < TABLES; k++) {
            struct content content = read_content(db, tables[k]);
            if (i == 0)
                first[k] = content;
            bench_check(
                content.rows == first[k].rows && memcmp(content.hash, first[k].hash, HASH_LEN) == 0,
                "the rows of %s are not the same in %s (%llu) and %s (%llu)", tables[k], urls[0],
                (unsigned long long)first[k].rows, urls[i], (unsigned long long)content.rows);
        }
        check(db, sqlite3_close(db));
    }
    return first[1].rows;
}
