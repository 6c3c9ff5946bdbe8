#include "server/readiness.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/uuid.h"

struct readiness {
    struct engine *engine;
    struct pool *pool;
    struct task task;
    struct uuid id; /* of this server: the key of its record */
    char key[UUID_TEXT_LEN];
    pthread_mutex_t lock; /* of what follows; its times are steady */
    bool is_probing;
    bool is_ending;      /* nobody waits any more */
    int64_t probed_at;   /* when the last small write was begun */
    int64_t trying_from; /* the same of the first one since it was not ready any more */
    int64_t written_at;  /* when one last succeeded */
    int64_t failed_at;   /* when one last failed */
    struct err failure;  /* of the last one; ok: it succeeded */
    struct readiness_waiter *waiters;
};

struct readiness *readiness_open(struct engine *engine, struct pool *pool)
{
    struct readiness *readiness = calloc(1, sizeof *readiness);
    if (readiness == NULL)
        return NULL;
    if (pthread_mutex_init(&readiness->lock, NULL) != 0) {
        free(readiness);
        return NULL;
    }
    readiness->engine = engine;
    readiness->pool = pool;
    random_fill(readiness->id.bytes, sizeof readiness->id.bytes);
    uuid_format(readiness->id, readiness->key);
    readiness->written_at = engine_steady(engine);
    return readiness;
}

void readiness_close(struct readiness *readiness)
{
    if (readiness == NULL)
        return;
    (void)pthread_mutex_destroy(&readiness->lock);
    free(readiness);
}

/* ---- what is known, under the lock -------------------------------------------------------- */

/* When a write last succeeded, anybody's. */
static int64_t last_write(const struct readiness *readiness)
{
    int64_t others = engine_written_at(readiness->engine);
    return readiness->written_at > others ? readiness->written_at : others;
}

static bool is_proven(const struct readiness *readiness, int64_t now)
{
    return now - last_write(readiness) < READINESS_PROOF_MS;
}

static bool is_hanging(const struct readiness *readiness, int64_t now)
{
    return readiness->is_probing && now - readiness->probed_at >= READINESS_WAIT_MS;
}

static bool is_given(const struct readiness *readiness, int64_t now)
{
    if (is_proven(readiness, now))
        return true;
    bool failed =
        readiness->failure.code != ERR_OK && readiness->failed_at >= last_write(readiness);
    return !failed && !is_hanging(readiness, now);
}

/* Whether there is nothing to wait for. */
static bool is_known(const struct readiness *readiness, int64_t now)
{
    bool failed_now = !readiness->is_probing && readiness->failure.code != ERR_OK &&
                      now - readiness->failed_at < READINESS_RETRY_MS;
    return is_proven(readiness, now) || is_hanging(readiness, now) || failed_now;
}

/* ---- finding out -------------------------------------------------------------------------- */

/* Takes all who wait, for run_all without the lock. */
static struct readiness_waiter *take_waiters(struct readiness *readiness)
{
    struct readiness_waiter *waiters = readiness->waiters;
    readiness->waiters = NULL;
    return waiters;
}

static void run_all(struct readiness_waiter *waiters)
{
    while (waiters != NULL) {
        struct readiness_waiter *waiter = waiters;
        waiters = waiter->next;
        waiter->run(waiter);
    }
}

/* Blocks for as long as a write of a caller would. */
static void probe(struct task *task)
{
    struct readiness *readiness =
        (struct readiness *)(void *)((char *)task - offsetof(struct readiness, task));
    struct op op = {.type = OP_PROBE, .probe = {readiness->key, sizeof readiness->key}};
    struct op *ops[] = {&op};
    struct call call = {.ops = ops, .count = 1, .class = CALL_RESULT};
    struct err err = {0};
    enum error_code code = engine_run(readiness->engine, &call, &err);
    if (code == ERR_OK) {
        code = op.code;
        err = op.err;
        call_release(&call);
    }
    err.code = code;
    (void)pthread_mutex_lock(&readiness->lock);
    readiness->failure = err;
    *(code == ERR_OK ? &readiness->written_at : &readiness->failed_at) =
        engine_steady(readiness->engine);
    readiness->is_probing = false;
    struct readiness_waiter *waiters = take_waiters(readiness);
    (void)pthread_mutex_unlock(&readiness->lock);
    run_all(waiters);
}

/* Under the lock. */
static void begin_probe(struct readiness *readiness, int64_t now)
{
    if (readiness->is_probing)
        return;
    if (is_given(readiness, now))
        readiness->trying_from = now;
    readiness->is_probing = true;
    readiness->probed_at = now;
    readiness->task.run = probe;
    pool_put_always(readiness->pool, &readiness->task);
}

void readiness_look(struct readiness *readiness)
{
    struct readiness_waiter *waiters = NULL;
    (void)pthread_mutex_lock(&readiness->lock);
    int64_t now = engine_steady(readiness->engine);
    int64_t wrote = last_write(readiness);
    int64_t last = wrote > readiness->probed_at ? wrote : readiness->probed_at;
    if (now - last >= (is_given(readiness, now) ? READINESS_IDLE_MS : READINESS_RETRY_MS))
        begin_probe(readiness, now);
    if (is_known(readiness, now))
        waiters = take_waiters(readiness);
    (void)pthread_mutex_unlock(&readiness->lock);
    run_all(waiters);
}

bool readiness_wait(struct readiness *readiness, struct readiness_waiter *waiter)
{
    (void)pthread_mutex_lock(&readiness->lock);
    int64_t now = engine_steady(readiness->engine);
    bool waits = !readiness->is_ending && !is_known(readiness, now);
    if (waits) {
        waiter->next = readiness->waiters;
        readiness->waiters = waiter;
        begin_probe(readiness, now);
    }
    (void)pthread_mutex_unlock(&readiness->lock);
    return waits;
}

void readiness_end_waits(struct readiness *readiness)
{
    if (readiness == NULL)
        return;
    (void)pthread_mutex_lock(&readiness->lock);
    readiness->is_ending = true;
    struct readiness_waiter *waiters = take_waiters(readiness);
    (void)pthread_mutex_unlock(&readiness->lock);
    run_all(waiters);
}

bool readiness_is_given(struct readiness *readiness, char *ret_why, size_t size)
{
    (void)pthread_mutex_lock(&readiness->lock);
    int64_t now = engine_steady(readiness->engine);
    bool given = is_given(readiness, now);
    int64_t silent = now - readiness->trying_from;
    int64_t waiting = now - readiness->probed_at;
    struct err failure = readiness->failure;
    (void)pthread_mutex_unlock(&readiness->lock);
    if (given || size == 0)
        return given;
    if (failure.code != ERR_OK)
        (void)snprintf(ret_why, size, "no write has succeeded for %lld ms; the last one failed: %s",
                       (long long)silent, failure.detail);
    else
        (void)snprintf(ret_why, size,
                       "no write has succeeded for %lld ms; one has been waiting for %lld ms: the "
                       "store is unavailable, or a synchronous standby is missing",
                       (long long)silent, (long long)waiting);
    return false;
}
