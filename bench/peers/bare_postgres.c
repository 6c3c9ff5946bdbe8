/* The bare PostgreSQL as a queue: one row a job, claimed with SKIP LOCKED and deleted when done, no
 * history. A connection and a thread for each client; prepared statements; every statement is a
 * commit of its own. */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { ID_BYTES_MAX = 22 }; /* with a comma, and the end of the string */

struct shared {
    struct drive *drive;
    _Atomic uint64_t done;
    double *sent; /* when, for each job; latency only, and so the next */
    double *ms;
    uint64_t stop_at; /* completions */
};

struct client {
    struct shared *shared;
    PGconn *connection;
    pthread_t thread;
    uint64_t jobs; /* a producer's share */
};

static PGconn *connected(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    if (PQstatus(connection) != CONNECTION_OK)
        drive_die("postgres: %s", PQerrorMessage(connection));
    return connection;
}

static PGresult *good(PGconn *connection, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        drive_die("postgres: %s", PQerrorMessage(connection));
    return result;
}

static void execute(PGconn *connection, const char *sql)
{
    PQclear(good(connection, PQexec(connection, sql)));
}

static void prepare(PGconn *connection, const char *name, const char *sql)
{
    PQclear(good(connection, PQprepare(connection, name, sql, 0, NULL)));
}

static PGresult *call(PGconn *connection, const char *name, const char *argument)
{
    const char *arguments[] = {argument};
    return good(connection, PQexecPrepared(connection, name, 1, arguments, NULL, NULL, 0));
}

static void prepare_all(PGconn *connection)
{
    prepare(connection, "enqueue", "INSERT INTO job (payload) VALUES ($1)");
    prepare(connection, "enqueue_many", "INSERT INTO job (payload) SELECT unnest($1::text[])");
    prepare(connection, "enqueue_notify",
            "WITH row AS (INSERT INTO job (payload) VALUES ($1)) SELECT pg_notify('job', '')");
    prepare(connection, "claim",
            "UPDATE job SET claimed = true WHERE id IN (SELECT id FROM job WHERE NOT claimed"
            " ORDER BY id LIMIT $1::int FOR UPDATE SKIP LOCKED) RETURNING id, payload");
    prepare(connection, "complete", "DELETE FROM job WHERE id = $1::bigint");
    prepare(connection, "complete_many", "DELETE FROM job WHERE id = ANY ($1::bigint[])");
}

/* {"…","…"} with the quotes of the payload escaped. */
static char *array_of(const char *payload, uint32_t count)
{
    char one[2 * DRIVE_PAYLOAD_BYTES + 4];
    size_t size = 0;
    one[size++] = '"';
    for (const char *c = payload; *c != '\0'; c++) {
        if (*c == '"')
            one[size++] = '\\';
        one[size++] = *c;
    }
    one[size++] = '"';
    one[size++] = ',';

    char *array = drive_alloc(count * size + 2, 1);
    array[0] = '{';
    for (uint32_t i = 0; i < count; i++)
        memcpy(array + 1 + i * size, one, size);
    array[count * size] = '}';
    return array;
}

static void enqueue_many(PGconn *connection, const struct drive *drive, uint64_t jobs)
{
    char *full = array_of(drive->payload, drive->batch);
    uint64_t sent = 0;
    for (; jobs - sent >= drive->batch; sent += drive->batch)
        PQclear(call(connection, "enqueue_many", full));
    free(full);
    if (sent < jobs) {
        char *rest = array_of(drive->payload, (uint32_t)(jobs - sent));
        PQclear(call(connection, "enqueue_many", rest));
        free(rest);
    }
}

static void *produce(void *argument)
{
    struct client *client = argument;
    const struct drive *drive = client->shared->drive;
    if (drive->batch > 1) {
        enqueue_many(client->connection, drive, client->jobs);
        return NULL;
    }
    for (uint64_t i = 0; i < client->jobs; i++)
        PQclear(call(client->connection, "enqueue", drive->payload));
    return NULL;
}

/* Claims up to a batch and completes it; says how many there were. */
static uint32_t claim_and_complete(PGconn *connection, uint32_t max)
{
    char text[16];
    snprintf(text, sizeof text, "%u", max);
    PGresult *claimed = call(connection, "claim", text);
    int count = PQntuples(claimed);
    if (count == 1) {
        PQclear(call(connection, "complete", PQgetvalue(claimed, 0, 0)));
    } else if (count > 1) {
        char *ids = drive_alloc((size_t)count + 1, ID_BYTES_MAX);
        size_t size = 0;
        for (int i = 0; i < count; i++)
            size += (size_t)snprintf(ids + size, ID_BYTES_MAX, "%c%s", i == 0 ? '{' : ',',
                                     PQgetvalue(claimed, i, 0));
        ids[size] = '}';
        PQclear(call(connection, "complete_many", ids));
        free(ids);
    }
    PQclear(claimed);
    return (uint32_t)count;
}

static void *consume(void *argument)
{
    struct client *client = argument;
    struct shared *shared = client->shared;
    while (atomic_load(&shared->done) < shared->stop_at) {
        uint32_t count = claim_and_complete(client->connection, shared->drive->batch);
        atomic_fetch_add(&shared->done, count);
        if (count == 0)
            drive_sleep_until(drive_now() + 0.001);
    }
    return NULL;
}

/* ---- from enqueue to start ---------------------------------------------------------------- */

static void *produce_slowly(void *argument)
{
    struct client *client = argument;
    struct shared *shared = client->shared;
    const struct drive *drive = shared->drive;
    for (uint64_t i = 0; i < drive->jobs; i++) {
        drive_sleep_until(drive->started + (double)i / drive->rate);
        shared->sent[i] = drive_now();
        PQclear(call(client->connection, "enqueue_notify", drive->payload));
    }
    return NULL;
}

/* One producer and a fresh table: the job with the id n is the n-th that was sent. */
static void claim_what_is_there(struct client *client)
{
    struct shared *shared = client->shared;
    for (;;) {
        PGresult *claimed = call(client->connection, "claim", "1");
        if (PQntuples(claimed) == 0) {
            PQclear(claimed);
            return;
        }
        uint64_t which = strtoull(PQgetvalue(claimed, 0, 0), NULL, 10) - 1;
        if (which >= shared->drive->jobs)
            drive_die("postgres: there are more jobs than were sent");
        shared->ms[which] = (drive_now() - shared->sent[which]) * 1e3;
        PQclear(call(client->connection, "complete", PQgetvalue(claimed, 0, 0)));
        PQclear(claimed);
        atomic_fetch_add(&shared->done, 1);
    }
}

static void *consume_when_told(void *argument)
{
    struct client *client = argument;
    struct shared *shared = client->shared;
    execute(client->connection, "LISTEN job");
    while (atomic_load(&shared->done) < shared->stop_at) {
        claim_what_is_there(client);
        PGnotify *notice = PQnotifies(client->connection);
        if (notice != NULL) {
            for (; notice != NULL; notice = PQnotifies(client->connection))
                PQfreemem(notice);
            continue;
        }
        struct pollfd wait = {.fd = PQsocket(client->connection), .events = POLLIN};
        poll(&wait, 1, 100);
        if (PQconsumeInput(client->connection) == 0)
            drive_die("postgres: %s", PQerrorMessage(client->connection));
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------- */

static struct client *clients_open(struct shared *shared, uint32_t count)
{
    struct client *clients = drive_alloc(count, sizeof *clients);
    for (uint32_t i = 0; i < count; i++) {
        clients[i].shared = shared;
        clients[i].connection = connected(shared->drive->target);
        clients[i].jobs = drive_share(shared->drive->jobs, i, count);
        prepare_all(clients[i].connection);
    }
    return clients;
}

static void clients_start(struct client *clients, uint32_t count, void *(*run)(void *))
{
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0)
            drive_die("no thread could be started");
}

static void clients_join(struct client *clients, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        pthread_join(clients[i].thread, NULL);
}

static void clients_close(struct client *clients, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        PQfinish(clients[i].connection);
    free(clients);
}

static void fill(PGconn *connection, const struct drive *drive, uint64_t jobs)
{
    struct drive filling = *drive;
    filling.batch = 1000;
    if (jobs == 0)
        return;
    enqueue_many(connection, &filling, jobs);
    execute(connection, "ANALYZE job");
}

static uint64_t left(PGconn *connection)
{
    PGresult *count = good(connection, PQexec(connection, "SELECT count(*) FROM job"));
    uint64_t rows = strtoull(PQgetvalue(count, 0, 0), NULL, 10);
    PQclear(count);
    return rows;
}

int main(int argc, char **argv)
{
    struct drive drive;
    drive_parse(argc, argv, &drive);
    PGconn *connection = connected(drive.target);
    execute(connection, "CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                        " claimed boolean NOT NULL DEFAULT false, payload text NOT NULL)");
    execute(connection, "CREATE INDEX job_waiting ON job (id) WHERE NOT claimed");
    prepare_all(connection);

    struct shared shared = {.drive = &drive, .stop_at = drive.jobs};
    shared.sent = drive_alloc(drive.jobs, sizeof *shared.sent);
    shared.ms = drive_alloc(drive.jobs, sizeof *shared.ms);
    bool slow = drive_is(&drive, "latency");
    uint32_t producers = drive_is(&drive, "work") ? 0 : slow ? 1 : drive.producers;
    uint32_t consumers = drive_is(&drive, "enqueue") ? 0 : drive.clients;
    fill(connection, &drive, drive.waiting + (drive_is(&drive, "work") ? drive.jobs : 0));
    struct client *producing = clients_open(&shared, producers);
    struct client *consuming = clients_open(&shared, consumers);

    drive_begin(&drive);
    clients_start(consuming, consumers, slow ? consume_when_told : consume);
    clients_start(producing, producers, slow ? produce_slowly : produce);
    clients_join(producing, producers);
    clients_join(consuming, consumers);
    drive_end(&drive);

    /* With jobs to spare the last batches may have taken a few more than were asked for. */
    uint64_t rows = left(connection);
    if (slow)
        drive_tell_latencies(&drive, shared.ms, drive.jobs, rows);
    else if (consumers == 0)
        drive_tell(&drive, drive.jobs, rows);
    else
        drive_tell(&drive, drive.jobs + drive.waiting - rows, rows);
    clients_close(producing, producers);
    clients_close(consuming, consumers);
    free(shared.sent);
    free(shared.ms);
    PQfinish(connection);
    return 0;
}
