/* What the threads of a worker share: batches of operations, time, and trouble with the store. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "engine/worker_private.h"

enum pawl_code worker_error(struct pawl_error *error, enum pawl_code code, const char *message)
{
    if (error != NULL) {
        error->code = code;
        (void)snprintf(error->message, sizeof error->message, "%s", message);
    }
    return code;
}

bool worker_may_retry(struct pawl_worker *worker, enum pawl_code code,
                      const struct pawl_error *error)
{
    bool trouble = code == PAWL_UNAVAILABLE || code == PAWL_RATE_LIMITED || code == PAWL_NO_MEMORY;
    pthread_mutex_lock(&worker->lock);
    bool news = trouble != worker->troubled;
    worker->troubled = trouble;
    pthread_mutex_unlock(&worker->lock);
    if (news && worker->trouble != NULL)
        worker->trouble(worker->arg, trouble ? error : NULL);
    return trouble;
}

int64_t worker_pause(int64_t last_ms)
{
    enum { PAUSE_MS_MIN = 50, PAUSE_MS_MAX = 5000 };
    if (last_ms < PAUSE_MS_MIN)
        return PAUSE_MS_MIN;
    return last_ms < PAUSE_MS_MAX / 2 ? last_ms * 2 : PAUSE_MS_MAX;
}

void worker_cond_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t at)
{
    struct timespec until = {
        .tv_sec = (time_t)(at / 1000),
        .tv_nsec = (long)(at % 1000) * 1000000,
    };
    (void)pthread_cond_timedwait(cond, lock, &until);
}

bool worker_thread(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(ret, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0;
}

void worker_ops_init(struct worker_ops *ops)
{
    arena_init(&ops->arena);
    buf_init(&ops->buf, &ops->arena, 1024);
    json_writer_init(&ops->writer, &ops->buf);
    ops->count = 0;
    json_begin_object(&ops->writer);
    json_key(&ops->writer, STR("ops"));
    json_begin_array(&ops->writer);
}

void worker_ops_release(struct worker_ops *ops)
{
    arena_release(&ops->arena);
}

void worker_op(struct worker_ops *ops, struct str name)
{
    json_begin_object(&ops->writer);
    json_key(&ops->writer, STR("op"));
    json_put_string(&ops->writer, name);
    ops->count++;
}

void worker_op_lease(struct worker_ops *ops, struct str name, const char *token)
{
    worker_op(ops, name);
    json_key(&ops->writer, STR("token"));
    json_put_string(&ops->writer, str_from(token));
}

enum pawl_code worker_ops_send(struct pawl_worker *worker, struct worker_ops *ops,
                               char **ret_answer, struct pawl_error *error)
{
    assert(ops->count > 0);
    json_end_array(&ops->writer);
    json_end_object(&ops->writer);
    buf_add_char(&ops->buf, '\0');
    if (ops->buf.failed)
        return worker_error(error, PAWL_NO_MEMORY, "out of memory");
    return pawl_batch(worker->pawl, ops->buf.at, ret_answer, error);
}

static enum pawl_code code_of(struct pawl_json name)
{
#define ERROR(symbol, number, text, http, exit, title)                                             \
    if (pawl_json_is(name, text))                                                                  \
        return PAWL_##symbol;
#include "base/error.def"
#undef ERROR
    return PAWL_CORRUPT;
}

enum pawl_code worker_op_result(struct pawl_json answer, uint32_t at, struct pawl_json *ret_body,
                                struct pawl_error *error)
{
    char path[32];
    (void)snprintf(path, sizeof path, "results.%u", at);
    struct pawl_json result = pawl_json_get(answer, path);
    struct pawl_json body = pawl_json_get(result, "body");
    long long status = pawl_json_int(pawl_json_get(result, "status"), 0);
    if (status >= 200 && status < 300) {
        *ret_body = body;
        return PAWL_OK;
    }
    if (status == 0)
        return worker_error(error, PAWL_CORRUPT, "the response of the store cannot be read");

    enum pawl_code code = code_of(pawl_json_get(body, "code"));
    char *detail = pawl_json_text(pawl_json_get(body, "detail"));
    (void)worker_error(error, code, detail != NULL && *detail != '\0' ? detail : "refused");
    pawl_free(detail);
    return code == PAWL_OK ? PAWL_CORRUPT : code;
}
