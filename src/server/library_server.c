/* The functions of pawl.h that serve a store over HTTP. */
#include <assert.h>

#include "engine/library_private.h"
#include "pawl.h"
#include "server/server.h"

/* A struct pawl_server is a struct server under its public name. */
static struct server *inner(struct pawl_server *server)
{
    return (struct server *)(void *)server;
}

enum pawl_code pawl_server_start(const char *url, const struct pawl_server_options *options,
                                 struct pawl_server **ret_server, struct pawl_error *error)
{
    static const struct pawl_server_options defaults = {0};
    struct err err = {0};
    struct server *server;
    assert(url != NULL && ret_server != NULL);
    if (options == NULL)
        options = &defaults;
    if (options->patience_ms < 0 || options->threads < 0 || options->connections_max < 0 ||
        options->connections_per_client_max < 0)
        return library_fail(
            err_set(&err, ERR_BAD_REQUEST, "an option of the server cannot be less than 0"), &err,
            error);
    struct server_options wanted = {
        .listen = str_from(options->listen),
        .threads = (uint32_t)options->threads,
        .certificate = str_from(options->certificate),
        .key = str_from(options->key),
        .admin_token = str_from(options->token),
        .limits.connections = (uint32_t)options->connections_max,
        .limits.connections_per_client = (uint32_t)options->connections_per_client_max,
        .log = options->log,
        .log_arg = options->log_arg,
    };
    wanted.engine.store.create = options->create != 0;
    wanted.engine.store.patience_ms = options->patience_ms;
    enum error_code code = server_open(str_from(url), &wanted, &server, &err);
    if (code != ERR_OK)
        return library_fail(code, &err, error);
    *ret_server = (struct pawl_server *)(void *)server;
    return PAWL_OK;
}

int pawl_server_port(const struct pawl_server *server)
{
    return server_port((const struct server *)(const void *)server);
}

void pawl_server_stop(struct pawl_server *server, int drain_ms)
{
    if (server == NULL)
        return;
    server_drain(inner(server), drain_ms < 0 ? 0 : drain_ms);
    server_close(inner(server));
}
