#include "server/reload.h"

#include "base/json.h"
#include "server/rate.h"
#include "server/tls.h"

enum { KINDS_BYTES_MAX = REQUEST_BYTES_MAX };

enum error_code reload_check(const struct server_options *options, struct err *err)
{
    if (str_is_set(options->certificate) != str_is_set(options->key))
        return err_set(err, ERR_BAD_REQUEST, "TLS requires both a certificate and its key");
    if (options->rate_per_s > RATE_PER_S_MAX)
        return err_set(err, ERR_BAD_REQUEST, "rate_per_s must be from 0 to %d, not %u",
                       RATE_PER_S_MAX, options->rate_per_s);
    return ERR_OK;
}

/* ---- kinds ---- */

/* Whether the verb would take it. */
static enum error_code check_kind(struct server *server, struct str kind, struct arena *arena,
                                  struct err *err)
{
    struct verb_call call = {
        .engine = server->engine, .arena = arena, .name = VERB_kind_set, .request = kind};
    if (json_type(kind) != JSON_OBJECT)
        return err_set(err, ERR_BAD_REQUEST, "kinds must be an array of objects");
    enum error_code code = verb_prepare(&call, err);
    if (code == ERR_OK)
        verb_call_release(&call);
    return code;
}

static enum error_code set_kind(struct server *server, struct str kind, struct arena *arena,
                                struct err *err)
{
    struct buf answer;
    buf_init(&answer, arena, 512);
    return handle_call(server->handle, VERB_kind_set, kind, (struct str){NULL, 0}, arena, &answer,
                       err);
}

static enum error_code each_kind(struct server *server, struct str kinds,
                                 enum error_code (*what)(struct server *server, struct str kind,
                                                         struct arena *arena, struct err *err),
                                 struct err *err)
{
    struct arena arena;
    struct json_iter iter;
    struct str kind;
    enum error_code code = ERR_OK;
    arena_init(&arena);
    (void)json_array_begin(&iter, kinds);
    while (code == ERR_OK && json_array_next(&iter, &kind)) {
        code = what(server, kind, &arena, err);
        arena_clear(&arena);
    }
    arena_release(&arena);
    return code;
}

enum error_code reload_kinds(struct server *server, struct str kinds, struct err *err)
{
    struct arena arena;
    if (!str_is_set(kinds))
        return ERR_OK;
    arena_init(&arena);
    enum error_code code = json_check_request(kinds, KINDS_BYTES_MAX, "kinds", &arena, err);
    arena_release(&arena);
    kinds = json_trim(kinds);
    if (code == ERR_OK && json_type(kinds) != JSON_ARRAY)
        code = err_set(err, ERR_BAD_REQUEST, "kinds must be an array");
    if (code == ERR_OK)
        code = each_kind(server, kinds, check_kind, err);
    return code == ERR_OK ? each_kind(server, kinds, set_kind, err) : code;
}

/* ---- all of it ---- */

enum error_code server_reload(struct server *server, const struct server_options *options,
                              struct err *err)
{
    struct tls_pair *pair = NULL;
    enum error_code code = reload_check(options, err);
    if (code == ERR_OK)
        code = authority_may_require(server->authority, options->require_tokens, err);
    if (code == ERR_OK && server->tls != NULL && str_is_set(options->certificate))
        code = tls_read(options->certificate, options->key, &pair, err);
    if (code == ERR_OK)
        code = reload_kinds(server, options->kinds, err);
    if (code != ERR_OK) {
        tls_drop(pair);
        return code;
    }
    if (pair != NULL)
        tls_use(server->tls, pair);
    authority_require(server->authority, options->require_tokens);
    rate_set(server->rate, options->rate_per_s);
    log_set_level(server->log, options->log_level != LOG_NONE ? options->log_level : LOG_INFO);
    return ERR_OK;
}
