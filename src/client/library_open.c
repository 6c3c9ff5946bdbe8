/* The functions of pawl.h that work on an open store: opening, closing, and all verbs. Here, since
 * what is open may be a store or a server. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/record.h"
#include "client/http_client.h"
#include "engine/handle.h"
#include "engine/library_private.h"
#include "pawl.h"

struct pawl {
    struct handle *handle;      /* NULL: it is a server */
    struct http_client *server; /* NULL: it is a store */
    struct arena_pool *pool;    /* for the memory of calls */
    long long (*clock)(void *arg);
    void *clock_arg;
};

/* The public clock counts in another type. */
static int64_t read_clock(void *arg)
{
    const struct pawl *pawl = arg;
    return pawl->clock(pawl->clock_arg);
}

static enum error_code open_store(struct pawl *pawl, const char *url,
                                  const struct pawl_options *options, struct err *err)
{
    struct handle_options inner = {.actor = str_from(options->actor)};
    inner.engine.queue_bytes_max = (size_t)options->queue_bytes_max;
    inner.engine.store.create = options->create != 0;
    inner.engine.store.timeout_ms = options->patience_ms;
    inner.engine.store.clock = options->clock == NULL ? NULL : read_clock;
    inner.engine.store.clock_arg = pawl;
    return handle_open(str_from(url), &inner, &pawl->handle, err);
}

static enum error_code open_server(struct pawl *pawl, const char *url,
                                   const struct pawl_options *options, struct err *err)
{
    const struct http_client_options inner = {
        .token = options->token,
        .actor = options->actor,
        .ca_file = options->ca_file,
        .timeout_ms = options->patience_ms,
    };
    return http_client_open(str_from(url), &inner, &pawl->server, err);
}

enum pawl_code pawl_open(const char *url, const struct pawl_options *options,
                         struct pawl **ret_pawl, struct pawl_error *error)
{
    static const struct pawl_options defaults = {0};
    struct err err = {0};
    if (url == NULL || ret_pawl == NULL)
        return library_fail(
            err_set(&err, ERR_BAD_REQUEST, "pawl_open requires a URL and an output argument"), &err,
            error);
    if (options == NULL)
        options = &defaults;
    if (options->patience_ms < 0 || options->queue_bytes_max < 0)
        return library_fail(
            err_set(&err, ERR_BAD_REQUEST, "patience_ms and queue_bytes_max must not be negative"),
            &err, error);
    struct pawl *pawl = calloc(1, sizeof *pawl);
    if (pawl == NULL)
        return library_fail(err_set(&err, ERR_NO_MEMORY, "out of memory"), &err, error);
    pawl->clock = options->clock;
    pawl->clock_arg = options->clock_arg;
    pawl->pool = arena_pool_new();
    enum error_code code = pawl->pool == NULL ? err_set(&err, ERR_NO_MEMORY, "out of memory")
                           : http_client_is_url(str_from(url))
                               ? open_server(pawl, url, options, &err)
                               : open_store(pawl, url, options, &err);
    if (code != ERR_OK) {
        arena_pool_drop(pawl->pool);
        free(pawl);
        return library_fail(code, &err, error);
    }
    *ret_pawl = pawl;
    return PAWL_OK;
}

void pawl_close(struct pawl *pawl)
{
    if (pawl == NULL)
        return;
    handle_close(pawl->handle);
    http_client_close(pawl->server);
    arena_pool_drop(pawl->pool);
    free(pawl);
}

void pawl_interrupt(struct pawl *pawl)
{
    if (pawl == NULL)
        return;
    if (pawl->server != NULL)
        http_client_interrupt(pawl->server);
    else
        handle_interrupt(pawl->handle);
}

/* Takes "request_key" out of a request that may have one: *ret_rest is the request without it. A
 * request that is not an object is left as it is, for the verb to refuse. */
static enum error_code take_key(enum verb_name name, struct str request, struct arena *arena,
                                struct str *ret_key, struct str *ret_rest, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct buf rest;
    *ret_key = (struct str){NULL, 0};
    *ret_rest = request;
    if (!str_is_set(request) || strstr(request.at, "request_key") == NULL ||
        !verb_needs_key(name) ||
        json_check_request(request, SIZE_MAX, "the request", arena, NULL) != ERR_OK ||
        !json_object_begin(&iter, request))
        return ERR_OK;
    buf_init(&rest, arena, request.len + 1);
    buf_add_char(&rest, '{');
    while (json_object_next(&iter, &key, &value)) {
        if (!json_key_is(key, STR("request_key"))) {
            buf_add(&rest, rest.len > 1 ? STR(",") : STR(""));
            buf_add(&rest, key);
            buf_add_char(&rest, ':');
            buf_add(&rest, value);
            continue;
        }
        if (json_type(value) != JSON_STRING || !json_string(value, arena, ret_key))
            return err_set(err, ERR_BAD_REQUEST, "request_key must be a string, not %.*s",
                           value.len < 100 ? (int)value.len : 100, value.at);
        enum error_code code = record_check_name(*ret_key, "request_key", err);
        /* It may become a header. */
        for (size_t i = 0; i < ret_key->len && code == ERR_OK; i++)
            if (ret_key->at[i] <= ' ' || ret_key->at[i] > '~')
                code =
                    err_set(err, ERR_BAD_REQUEST,
                            "request_key must contain only visible ASCII characters, not \"%.*s\"",
                            STR_ARG(*ret_key));
        if (code != ERR_OK)
            return code;
    }
    buf_add_char(&rest, '}');
    if (rest.failed)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *ret_rest = buf_str(&rest);
    return ERR_OK;
}

static enum pawl_code call(struct pawl *pawl, enum verb_name name, const char *request,
                           char **ret_answer, struct pawl_error *error)
{
    struct str key;
    struct str rest;
    struct arena arena;
    struct buf answer;
    struct err err = {0};
    char *copy = NULL;
    if (pawl == NULL || ret_answer == NULL)
        return library_fail(err_set(&err, ERR_BAD_REQUEST,
                                    "pawl_%.*s requires an open store and an output argument",
                                    STR_ARG(verb_text(name))),
                            &err, error);
    arena_init_pooled(&arena, pawl->pool);
    buf_init(&answer, &arena, 1024);
    enum error_code code = take_key(name, str_from(request), &arena, &key, &rest, &err);
    if (code == ERR_OK)
        code = pawl->server != NULL
                   ? http_client_call(pawl->server, name, rest, key, &arena, &answer, &err)
                   : handle_call(pawl->handle, name, rest, key, &arena, &answer, &err);
    if (code == ERR_OK) {
        copy = malloc(answer.len + 1);
        if (copy == NULL)
            code = err_set(&err, ERR_NO_MEMORY, "out of memory");
    }
    if (copy != NULL) {
        assert(answer.len > 0 && memchr(answer.at, '\0', answer.len) == NULL);
        memcpy(copy, answer.at, answer.len);
        copy[answer.len] = '\0';
        *ret_answer = copy;
    }
    arena_release(&arena);
    return code == ERR_OK ? PAWL_OK : library_fail(code, &err, error);
}

#define VERB(name, ...)                                                                            \
    enum pawl_code pawl_##name(struct pawl *pawl, const char *request, char **ret_answer,          \
                               struct pawl_error *error)                                           \
    {                                                                                              \
        return call(pawl, VERB_##name, request, ret_answer, error);                                \
    }
#include "engine/verbs.def"
#undef VERB
