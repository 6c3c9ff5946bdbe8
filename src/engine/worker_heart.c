/* The heart of a worker: one thread that keeps all of its leases alive, with one call for many of
 * them; hears of cancellations and lost leases; and sends how far tasks are. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/worker_private.h"

enum {
    BEATS_MAX = 256,                   /* heartbeats in one call */
    BEATS_BYTES_MAX = 4 * 1024 * 1024, /* and how large it may get */
    PROGRESS_MS = 1000,                /* progress is sent after this, at the latest */
    INTERVAL_MS_MAX = 2000,            /* so soon a cancellation or a lost lease is heard of */
};

/* A heartbeat that was sent. */
struct beat {
    struct slot *slot;
    uint64_t generation;
    uint64_t progress_version;
};

/* At least four beats in the life of a lease: it takes three lost ones to lose it. */
static int64_t interval_of(const struct slot *slot)
{
    int64_t interval = slot->heartbeat_ms / 2;
    if (interval > INTERVAL_MS_MAX)
        return INTERVAL_MS_MAX;
    return interval < 10 ? 10 : interval;
}

void worker_heart_poke(struct pawl_worker *worker, int64_t at)
{
    if (at < worker->heart_until) {
        worker->heart_until = at;
        pthread_cond_signal(&worker->heart_due);
    }
}

void worker_heart_begin(struct slot *slot)
{
    int64_t now = clock_monotonic_ms();
    slot->beating = true;
    slot->beat_at = now + interval_of(slot);
    slot->alive_until = now + 2 * slot->heartbeat_ms;
    worker_heart_poke(slot->worker, slot->beat_at);
}

void worker_heart_progress(const struct slot *slot, struct worker_ops *ops)
{
    if (slot->progress != NULL) {
        json_key(&ops->writer, STR("progress"));
        json_put_raw(&ops->writer, str_from(slot->progress));
    }
    if (slot->cursor != NULL) {
        json_key(&ops->writer, STR("cursor"));
        json_put_string(&ops->writer, str_from(slot->cursor));
    }
}

void worker_heart_forget(struct slot *slot)
{
    free(slot->progress);
    free(slot->cursor);
    slot->progress = NULL;
    slot->cursor = NULL;
}

/* Gathers what is due, or nearly, so that leases that were taken together stay together. */
static uint32_t gather(struct pawl_worker *worker, int64_t now, struct worker_ops *ops,
                       struct beat beats[BEATS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < worker->slot_count && count < BEATS_MAX; i++) {
        struct slot *slot = &worker->slots[i];
        if (!slot->busy || !slot->beating || slot->beat_at > now + interval_of(slot) / 4)
            continue;
        if (now >= slot->over_at) {
            slot->beating = false;
            continue;
        }
        worker_op_lease(ops, STR("heartbeat"), slot->token);
        worker_heart_progress(slot, ops);
        json_end_object(&ops->writer);
        beats[count++] = (struct beat){slot, slot->generation, slot->progress_version};
        slot->beat_at = now + interval_of(slot);
        if (ops->buf.len > BEATS_BYTES_MAX)
            break;
    }
    return count;
}

/* What came of one heartbeat. Under the lock. */
static void heard(const struct beat *beat, int64_t sent_at, enum pawl_code code,
                  struct pawl_json body)
{
    struct slot *slot = beat->slot;
    if (slot->generation != beat->generation || !slot->beating)
        return;

    int64_t soon = clock_monotonic_ms() + (interval_of(slot) < 1000 ? interval_of(slot) : 1000);
    if (code == PAWL_OK) {
        slot->alive_until = sent_at + 2 * slot->heartbeat_ms;
        if (slot->progress_version == beat->progress_version)
            worker_heart_forget(slot);
        if (pawl_json_true(pawl_json_get(body, "cancel_requested")))
            atomic_store(&slot->end, PAWL_CANCEL_ASKED);
        return;
    }
    if (code == PAWL_STALE_LEASE || code == PAWL_NOT_FOUND) {
        slot->beating = false;
        atomic_store(&slot->end, PAWL_LEASE_LOST);
        return;
    }
    /* Progress that the store does not take must not cost the lease. */
    if (code != PAWL_UNAVAILABLE && code != PAWL_RATE_LIMITED && code != PAWL_NO_MEMORY &&
        slot->progress_version == beat->progress_version)
        worker_heart_forget(slot);
    slot->beat_at = slot->beat_at < soon ? slot->beat_at : soon;
}

/* Sends what is due. Called and left with the lock held, which is let go meanwhile. */
static bool beat_once(struct pawl_worker *worker)
{
    struct beat beats[BEATS_MAX];
    struct worker_ops ops;
    struct pawl_error error;
    char *answer = NULL;
    int64_t now = clock_monotonic_ms();

    worker_ops_init(&ops);
    uint32_t count = gather(worker, now, &ops, beats);
    if (count > 0) {
        pthread_mutex_unlock(&worker->lock);
        enum pawl_code code = worker_ops_send(worker, &ops, &answer, &error);
        (void)worker_may_retry(worker, code, &error);
        pthread_mutex_lock(&worker->lock);
        struct pawl_json results = pawl_json_read(answer);
        for (uint32_t i = 0; i < count; i++) {
            struct pawl_json body = {0};
            enum pawl_code each = code;
            if (each == PAWL_OK)
                each = worker_op_result(results, i, &body, NULL);
            heard(&beats[i], now, each, body);
        }
        pawl_free(answer);
    }
    worker_ops_release(&ops);
    return count > 0;
}

/* Renews the worker's resource when it is time. Called and left with the lock held, which is let go
 * meanwhile. */
static bool renew(struct pawl_worker *worker)
{
    struct pawl_error error;
    if (worker->renew_at > clock_monotonic_ms())
        return false;
    pthread_mutex_unlock(&worker->lock);
    (void)worker_may_retry(worker, worker_resource_put(worker, &error), &error);
    pthread_mutex_lock(&worker->lock);
    return true;
}

/* When the next heartbeat, or renewal, is due. Under the lock. */
static int64_t next_beat(const struct pawl_worker *worker)
{
    int64_t at = worker->renew_at < worker->register_at ? worker->renew_at : worker->register_at;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        const struct slot *slot = &worker->slots[i];
        if (slot->busy && slot->beating && slot->beat_at < at)
            at = slot->beat_at;
    }
    return at;
}

void *worker_heart(void *arg)
{
    struct pawl_worker *worker = arg;
    pthread_mutex_lock(&worker->lock);
    while (!worker->heart_ends) {
        int64_t at = next_beat(worker);
        if (at <= clock_monotonic_ms() &&
            (beat_once(worker) || renew(worker) || worker_registration_renew(worker)))
            continue;
        worker->heart_until = at;
        if (at == INT64_MAX) {
            pthread_cond_wait(&worker->heart_due, &worker->lock);
            continue;
        }
        worker_cond_until(&worker->heart_due, &worker->lock, at);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

enum pawl_code pawl_task_progress(const struct pawl_task *task, const char *progress,
                                  const char *cursor, struct pawl_error *error)
{
    /* The task is the first member of a slot, which is ours to change. */
    struct slot *slot = (struct slot *)(uintptr_t)task;
    struct pawl_worker *worker = slot->worker;
    if (pawl_task_cancelled(task) == PAWL_LEASE_LOST)
        return worker_error(error, PAWL_STALE_LEASE, "the lease of the task is lost");
    if (progress != NULL && pawl_json_read(progress).at == NULL)
        return worker_error(error, PAWL_BAD_REQUEST, "the progress is not JSON");
    if (cursor != NULL && !utf8_valid(str_from(cursor)))
        return worker_error(error, PAWL_BAD_REQUEST, "the cursor is not UTF-8");

    char *progress_copy = pawl_copy(progress);
    char *cursor_copy = pawl_copy(cursor);
    if ((progress != NULL && progress_copy == NULL) || (cursor != NULL && cursor_copy == NULL)) {
        free(progress_copy);
        free(cursor_copy);
        return worker_error(error, PAWL_NO_MEMORY, "out of memory");
    }

    pthread_mutex_lock(&worker->lock);
    if (progress_copy != NULL) {
        free(slot->progress);
        slot->progress = progress_copy;
    }
    if (cursor_copy != NULL) {
        free(slot->cursor);
        slot->cursor = cursor_copy;
    }
    slot->progress_version++;
    int64_t soon = clock_monotonic_ms() + PROGRESS_MS;
    if (soon < slot->beat_at)
        slot->beat_at = soon;
    worker_heart_poke(worker, slot->beat_at);
    pthread_mutex_unlock(&worker->lock);
    return PAWL_OK;
}

enum pawl_end pawl_task_cancelled(const struct pawl_task *task)
{
    const struct slot *slot = (const struct slot *)task;
    /* The holder of a lease has to keep its timeout too: the next attempt may begin as soon as it
     * is over, and no store that is slow to answer may keep us from seeing that. */
    if (clock_monotonic_ms() >= slot->over_at)
        return PAWL_LEASE_LOST;
    return (enum pawl_end)atomic_load(&slot->end);
}
