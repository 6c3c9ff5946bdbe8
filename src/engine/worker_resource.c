/* The resource that a worker of steps stands for: registered before its first claim, renewed by the
 * heart, gone with the worker. One that others share, which the worker's token may use and not
 * change, is used as it is. */
#include "base/clock.h"
#include "base/utf8.h"
#include "engine/answer.h"
#include "engine/worker_private.h"

enum {
    RESOURCE_TTL_MS = 30 * 1000,
    RENEW_MS = RESOURCE_TTL_MS / 3, /* two renewals may get lost */
    RENEW_AGAIN_MS = 1000,          /* after one that has failed */
};

static enum pawl_code put_labels(struct json_writer *writer,
                                 const struct pawl_worker_options *options,
                                 struct pawl_error *error)
{
    json_key(writer, STR("labels"));
    json_begin_object(writer);
    for (size_t i = 0; i < options->label_count; i++) {
        struct str label = str_from(options->labels[i]);
        const char *colon = str_is_set(label) ? memchr(label.at, ':', label.len) : NULL;
        if (colon == NULL || colon == label.at || !utf8_valid(label))
            return worker_error(error, PAWL_BAD_REQUEST,
                                "a label of the worker's resource is not KEY:VALUE");
        size_t len = (size_t)(colon - label.at);
        answer_key(writer, (struct str){label.at, len});
        json_put_string(writer, (struct str){colon + 1, label.len - len - 1});
    }
    json_end_object(writer);
    return PAWL_OK;
}

enum pawl_code worker_resource_make(struct pawl_worker *worker,
                                    const struct pawl_worker_options *options,
                                    struct pawl_error *error)
{
    struct str id = str_from(options->resource_id);
    struct json_writer writer;
    struct buf buf;
    worker->renew_at = INT64_MAX;
    if (!str_is_set(id) && options->label_count > 0)
        return worker_error(error, PAWL_BAD_REQUEST, "labels require a resource");
    if (!str_is_set(id) && options->resource_shared != 0)
        return worker_error(error, PAWL_BAD_REQUEST, "shared requires a resource");
    if (!str_is_set(id))
        return PAWL_OK;
    if (options->judge != 0)
        return worker_error(error, PAWL_BAD_REQUEST, "judging takes no resource");
    if (!utf8_valid(id))
        return worker_error(error, PAWL_BAD_REQUEST, "the resource's id is not UTF-8");
    buf_init(&buf, &worker->arena, 512);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    json_key(&writer, STR("id"));
    json_put_string(&writer, id);
    enum pawl_code code = worker_put_names(&writer, STR("capabilities"), options->capabilities,
                                           options->capability_count, error);
    if (code == PAWL_OK)
        code = put_labels(&writer, options, error);
    if (code != PAWL_OK)
        return code;
    json_key(&writer, STR("slots"));
    json_put_int(&writer, worker->slot_count);
    json_key(&writer, STR("ttl_ms"));
    json_put_int(&writer, RESOURCE_TTL_MS);
    if (options->resource_shared != 0) {
        json_key(&writer, STR("shared"));
        json_put_bool(&writer, true);
    }
    json_end_object(&writer);
    buf_add_char(&buf, '\0');
    if (buf.failed)
        return worker_error(error, PAWL_NO_MEMORY, "out of memory");
    worker->resource = buf.at;
    return PAWL_OK;
}

/* Calls a verb that takes nothing but the id of the resource. */
static enum pawl_code ask_by_id(struct pawl_worker *worker,
                                enum pawl_code (*verb)(struct pawl *pawl, const char *request,
                                                       char **ret, struct pawl_error *error),
                                char **ret_answer)
{
    char *text = pawl_json_text(pawl_json_get(pawl_json_read(worker->resource), "id"));
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", text);
    const char *asked = request != NULL ? pawl_object_str(request) : NULL;
    enum pawl_code code =
        asked != NULL ? verb(worker->pawl, asked, ret_answer, NULL) : PAWL_NO_MEMORY;
    pawl_object_free(request);
    pawl_free(text);
    return code;
}

/* Whether it is one that somebody else looks after and everybody may use. */
static bool is_shared(struct pawl_worker *worker)
{
    char *answer;
    if (ask_by_id(worker, pawl_resource_get, &answer) != PAWL_OK)
        return false;
    bool shared = pawl_json_true(pawl_json_get(pawl_json_read(answer), "shared")) != 0;
    pawl_free(answer);
    return shared;
}

enum pawl_code worker_resource_put(struct pawl_worker *worker, struct pawl_error *error)
{
    char *answer;
    enum pawl_code code = pawl_resource_put(worker->pawl, worker->resource, &answer, error);
    bool borrowed = code == PAWL_FORBIDDEN && is_shared(worker);
    if (code == PAWL_OK)
        pawl_free(answer);
    if (borrowed)
        code = PAWL_OK;
    pthread_mutex_lock(&worker->lock);
    worker->registered = worker->registered || code == PAWL_OK;
    worker->borrowed = borrowed;
    worker->renew_at =
        borrowed ? INT64_MAX : clock_monotonic_ms() + (code == PAWL_OK ? RENEW_MS : RENEW_AGAIN_MS);
    worker_heart_poke(worker, worker->renew_at);
    pthread_mutex_unlock(&worker->lock);
    return code;
}

void worker_resource_delete(struct pawl_worker *worker)
{
    char *answer;
    /* If that fails it is gone when its time is over. */
    if (!worker->borrowed && ask_by_id(worker, pawl_resource_delete, &answer) == PAWL_OK)
        pawl_free(answer);
}
