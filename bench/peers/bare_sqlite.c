/* The bare SQLite as a queue: in process, one writer, one row a job, no history, every commit
 * synced (WAL, synchronous=FULL). */
#include <sqlite3.h>
#include <stdlib.h>

#include "driver.h"

struct queue {
    sqlite3 *db;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *insert;
    sqlite3_stmt *claim;
    sqlite3_stmt *complete;
    int64_t ids[DRIVE_BATCH_MAX]; /* of what was claimed last */
};

static void check(struct queue *queue, bool good)
{
    if (!good)
        drive_die("sqlite: %s", sqlite3_errmsg(queue->db));
}

static sqlite3_stmt *prepared(struct queue *queue, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    check(queue, sqlite3_prepare_v3(queue->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
                                    NULL) == SQLITE_OK);
    return statement;
}

static void step(struct queue *queue, sqlite3_stmt *statement)
{
    check(queue, sqlite3_step(statement) == SQLITE_DONE);
    check(queue, sqlite3_reset(statement) == SQLITE_OK);
}

static struct queue *queue_open(const char *path)
{
    struct queue *queue = drive_alloc(1, sizeof *queue);
    check(queue, sqlite3_open(path, &queue->db) == SQLITE_OK);
    check(queue, sqlite3_exec(queue->db,
                              "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                              "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cache_size=-65536;"
                              "CREATE TABLE job (id INTEGER PRIMARY KEY, claimed INTEGER NOT NULL"
                              " DEFAULT 0, payload TEXT NOT NULL)",
                              NULL, NULL, NULL) == SQLITE_OK);
    queue->begin = prepared(queue, "BEGIN IMMEDIATE");
    queue->commit = prepared(queue, "COMMIT");
    queue->insert = prepared(queue, "INSERT INTO job (payload) VALUES (?1)");
    /* In the order of the key: what is claimed is deleted soon, so that little stands in front. */
    queue->claim = prepared(queue, "UPDATE job SET claimed = 1 WHERE id IN (SELECT id FROM job"
                                   " WHERE claimed = 0 ORDER BY id LIMIT ?1)"
                                   " RETURNING id, payload");
    queue->complete = prepared(queue, "DELETE FROM job WHERE id = ?1");
    return queue;
}

static void queue_close(struct queue *queue)
{
    sqlite3_finalize(queue->begin);
    sqlite3_finalize(queue->commit);
    sqlite3_finalize(queue->insert);
    sqlite3_finalize(queue->claim);
    sqlite3_finalize(queue->complete);
    sqlite3_close(queue->db);
    free(queue);
}

static void enqueue(struct queue *queue, const char *payload, uint64_t count)
{
    step(queue, queue->begin);
    for (uint64_t i = 0; i < count; i++) {
        sqlite3_bind_text(queue->insert, 1, payload, DRIVE_PAYLOAD_BYTES, SQLITE_STATIC);
        step(queue, queue->insert);
    }
    step(queue, queue->commit);
}

static void enqueue_all(struct queue *queue, const char *payload, uint64_t count, uint64_t batch)
{
    for (uint64_t i = 0; i < count; i += batch)
        enqueue(queue, payload, count - i < batch ? count - i : batch);
}

/* One commit; the number of jobs that were claimed. */
static uint32_t claim(struct queue *queue, uint32_t max)
{
    uint32_t count = 0;
    int got = SQLITE_DONE;
    step(queue, queue->begin);
    sqlite3_bind_int64(queue->claim, 1, max);
    while ((got = sqlite3_step(queue->claim)) == SQLITE_ROW)
        queue->ids[count++] = sqlite3_column_int64(queue->claim, 0);
    check(queue, got == SQLITE_DONE && sqlite3_reset(queue->claim) == SQLITE_OK);
    step(queue, queue->commit);
    return count;
}

static void complete(struct queue *queue, uint32_t count)
{
    step(queue, queue->begin);
    for (uint32_t i = 0; i < count; i++) {
        sqlite3_bind_int64(queue->complete, 1, queue->ids[i]);
        step(queue, queue->complete);
    }
    step(queue, queue->commit);
}

static uint64_t left(struct queue *queue)
{
    sqlite3_stmt *count = prepared(queue, "SELECT count(*) FROM job");
    check(queue, sqlite3_step(count) == SQLITE_ROW);
    uint64_t rows = (uint64_t)sqlite3_column_int64(count, 0);
    sqlite3_finalize(count);
    return rows;
}

static void work(struct queue *queue, uint64_t jobs, uint32_t batch)
{
    for (uint64_t done = 0; done < jobs;) {
        uint32_t max = jobs - done < batch ? (uint32_t)(jobs - done) : batch;
        uint32_t count = claim(queue, max);
        if (count == 0)
            drive_die("the queue is empty too early");
        complete(queue, count);
        done += count;
    }
}

/* Enqueued and claimed by turns: the only way in which one writer is two. */
static void both(struct queue *queue, const struct drive *drive)
{
    for (uint64_t i = 0; i < drive->jobs; i += drive->batch) {
        uint64_t rest = drive->jobs - i;
        uint32_t count = rest < drive->batch ? (uint32_t)rest : drive->batch;
        enqueue(queue, drive->payload, count);
        work(queue, count, count);
    }
}

static void latency(struct queue *queue, struct drive *drive)
{
    double *ms = drive_alloc(drive->jobs, sizeof *ms);
    drive_begin(drive);
    for (uint64_t i = 0; i < drive->jobs; i++) {
        drive_sleep_until(drive->started + (double)i / drive->rate);
        double asked = drive_now();
        enqueue(queue, drive->payload, 1);
        uint32_t count = claim(queue, 1);
        ms[i] = (drive_now() - asked) * 1e3;
        complete(queue, count);
    }
    drive_end(drive);
    drive_tell_latencies(drive, ms, drive->jobs, left(queue));
    free(ms);
}

int main(int argc, char **argv)
{
    struct drive drive;
    drive_parse(argc, argv, &drive);
    struct queue *queue = queue_open(drive.target);

    enqueue_all(queue, drive.payload, drive.waiting + (drive_is(&drive, "work") ? drive.jobs : 0),
                1000);
    if (drive_is(&drive, "latency")) {
        latency(queue, &drive);
        queue_close(queue);
        return 0;
    }
    drive_begin(&drive);
    if (drive_is(&drive, "enqueue"))
        enqueue_all(queue, drive.payload, drive.jobs, drive.batch);
    else if (drive_is(&drive, "work"))
        work(queue, drive.jobs, drive.batch);
    else if (drive_is(&drive, "both"))
        both(queue, &drive);
    else
        drive_die("bare SQLite cannot do '%s'", drive.operation);
    drive_end(&drive);
    drive_tell(&drive, drive.jobs, left(queue));
    queue_close(queue);
    return 0;
}
