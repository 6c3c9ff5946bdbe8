#include "server/readiness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/planted.h"
#include "base/random.h"
#include "base/uuid.h"

struct readiness {
    struct engine *engine;
    struct pool *pool;
    struct task task;
    atomic_bool is_probing;
    _Atomic int64_t probed_at;  /* when the small write that is under way was begun, steady */
    _Atomic int64_t written_at; /* when one last succeeded, steady */
    struct uuid id;             /* of this server: the key of its record */
    char key[UUID_TEXT_LEN];
    pthread_mutex_t lock; /* of what follows */
    struct err failure;   /* of the last one; ok: it succeeded */
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
    atomic_store(&readiness->written_at, engine_steady(engine));
    return readiness;
}

void readiness_close(struct readiness *readiness)
{
    if (readiness == NULL)
        return;
    (void)pthread_mutex_destroy(&readiness->lock);
    free(readiness);
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
    (void)pthread_mutex_unlock(&readiness->lock);
    if (code == ERR_OK)
        atomic_store(&readiness->written_at, engine_steady(readiness->engine));
    atomic_store(&readiness->is_probing, false);
}

/* When a write last succeeded, anybody's. */
static int64_t last_write(struct readiness *readiness)
{
    int64_t own = atomic_load(&readiness->written_at);
    int64_t others = engine_written_at(readiness->engine);
    return own > others ? own : others;
}

void readiness_look(struct readiness *readiness)
{
    int64_t now = engine_steady(readiness->engine);
    if (now - last_write(readiness) < READINESS_PROBE_MS ||
        atomic_exchange(&readiness->is_probing, true))
        return;
    atomic_store(&readiness->probed_at, now);
    readiness->task.run = probe;
    pool_put_always(readiness->pool, &readiness->task);
}

bool readiness_is_given(struct readiness *readiness, char *ret_why, size_t size)
{
    int64_t now = engine_steady(readiness->engine);
    int64_t silent = now - last_write(readiness);
    if (silent < READINESS_MS || PLANTED(READY_WITHOUT_A_WRITE))
        return true;
    if (size == 0)
        return false;
    (void)pthread_mutex_lock(&readiness->lock);
    struct err failure = readiness->failure;
    (void)pthread_mutex_unlock(&readiness->lock);
    if (failure.code != ERR_OK)
        (void)snprintf(ret_why, size, "no write has succeeded for %lld ms; the last one failed: %s",
                       (long long)silent, failure.detail);
    else
        (void)snprintf(ret_why, size,
                       "no write has succeeded for %lld ms; one has been waiting for %lld ms: the "
                       "store is out of reach, or a synchronous standby is away",
                       (long long)silent, (long long)(now - atomic_load(&readiness->probed_at)));
    return false;
}
