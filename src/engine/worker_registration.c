/* The registration of a worker: made by the heart when the worker starts, renewed by it, and taken
 * back when the worker claims no more. It only tells others who is there: when it cannot be had,
 * with an older server or a token that may not, the worker works all the same.
 *
 *   away ── heart ──> busy ── stored, or not ──> away      renewed at register_at
 *                      └── meanwhile the claimer ended: the heart takes it back ──> gone
 *   away ── the claimer ends ──> it takes it back ──> gone */
#include "base/clock.h"
#include "engine/worker_private.h"

enum {
    TTL_MS = 60 * 1000,
    RENEW_MS = TTL_MS / 2,
    RENEW_AGAIN_MS = 10 * 1000, /* after one that has failed */
};

enum pawl_code worker_registration_make(struct pawl_worker *worker, struct str id,
                                        const struct pawl_worker_options *options,
                                        struct pawl_error *error)
{
    struct json_writer writer;
    struct buf buf;
    buf_init(&buf, &worker->arena, 256);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    json_key(&writer, STR("id"));
    json_put_string(&writer, id);
    json_key(&writer, STR("slots"));
    json_put_int(&writer, worker->slot_count);
    if (options->code_version != NULL) {
        json_key(&writer, STR("code_version"));
        json_put_string(&writer, str_from(options->code_version));
    }
    json_key(&writer, STR("ttl_ms"));
    json_put_int(&writer, TTL_MS);
    enum pawl_code code =
        worker_put_names(&writer, STR("kinds"), options->kinds, options->kind_count, error);
    if (code == PAWL_OK)
        code =
            worker_put_names(&writer, STR("queues"), options->queues, options->queue_count, error);
    if (code != PAWL_OK)
        return code;
    json_end_object(&writer);
    buf_add_char(&buf, '\0');
    if (buf.failed)
        return worker_error(error, PAWL_NO_MEMORY, "out of memory");
    worker->registration = buf.at;
    worker->register_at = 0;
    return PAWL_OK;
}

/* Without the lock. If that fails it ends by itself. */
static void take_back(struct pawl_worker *worker)
{
    char *answer;
    char *id = pawl_json_text(pawl_json_get(pawl_json_read(worker->registration), "id"));
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", id);
    const char *asked = request != NULL ? pawl_object_str(request) : NULL;
    if (asked != NULL && pawl_worker_delete(worker->pawl, asked, &answer, NULL) == PAWL_OK)
        pawl_free(answer);
    pawl_object_free(request);
    pawl_free(id);
}

bool worker_registration_renew(struct pawl_worker *worker)
{
    char *answer;
    if (worker->register_at > clock_monotonic_ms())
        return false;
    worker->registering = true;
    pthread_mutex_unlock(&worker->lock);
    enum pawl_code code = pawl_worker_put(worker->pawl, worker->registration, &answer, NULL);
    if (code == PAWL_OK)
        pawl_free(answer);
    pthread_mutex_lock(&worker->lock);
    worker->registering = false;
    worker->is_listed = worker->is_listed || code == PAWL_OK;
    bool over = worker->register_at == INT64_MAX;
    if (!over)
        worker->register_at = clock_monotonic_ms() + (code == PAWL_OK ? RENEW_MS : RENEW_AGAIN_MS);
    if (over && code == PAWL_OK) {
        pthread_mutex_unlock(&worker->lock);
        take_back(worker);
        pthread_mutex_lock(&worker->lock);
    }
    return true;
}

void worker_registration_end(struct pawl_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->register_at = INT64_MAX;
    /* When the store is out of reach nobody should wait for this. */
    bool mine = worker->is_listed && !worker->registering && !worker->troubled;
    pthread_mutex_unlock(&worker->lock);
    if (mine)
        take_back(worker);
}
