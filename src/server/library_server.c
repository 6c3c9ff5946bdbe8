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

static enum error_code read_options(const struct pawl_server_options *options,
                                    struct server_options *ret, struct err *err)
{
    if (options->patience_ms < 0 || options->threads < 0 || options->connections_max < 0 ||
        options->connections_per_client_max < 0 || options->rate_per_s < 0 ||
        options->lease_ttl_ms < 0 || options->cancel_grace_ms < 0)
        return err_set(err, ERR_BAD_REQUEST, "server options must not be negative");
    if ((int)options->log_level < 0 || options->log_level > PAWL_LOG_DEBUG)
        return err_set(err, ERR_BAD_REQUEST, "unknown log level %d", (int)options->log_level);
    *ret = (struct server_options){
        .listen = str_from(options->listen),
        .threads = (uint32_t)options->threads,
        .certificate = str_from(options->certificate),
        .key = str_from(options->key),
        .admin_token = str_from(options->token),
        .require_tokens = options->require_tokens != 0,
        .rate_per_s = (uint32_t)options->rate_per_s,
        .kinds = str_from(options->kinds),
        .limits.connections = (uint32_t)options->connections_max,
        .limits.connections_per_client = (uint32_t)options->connections_per_client_max,
        .log = options->log,
        .log_arg = options->log_arg,
        .log_level = (enum log_level)options->log_level,
        .otlp_endpoint = str_from(options->otlp_endpoint),
        .otlp_traces_endpoint = str_from(options->otlp_traces_endpoint),
        .otlp_headers = str_from(options->otlp_headers),
        .otlp_ca_file = str_from(options->otlp_ca_file),
        .service_name = str_from(options->service_name),
    };
    ret->engine.store.create = options->create != 0;
    ret->engine.store.timeout_ms = options->patience_ms;
    ret->engine.lease_ttl_ms = options->lease_ttl_ms;
    ret->engine.backup_dir = str_from(options->backup_dir);
    ret->engine.manual_clock = options->manual_clock != 0;
    ret->engine.cancel_grace_ms = options->cancel_grace_ms;
    return options->lease_ttl_ms > 0 ? lease_terms_check(options->lease_ttl_ms, 0, err) : ERR_OK;
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
    struct server_options wanted;
    enum error_code code = read_options(options, &wanted, &err);
    if (code == ERR_OK)
        code = server_open(str_from(url), &wanted, &server, &err);
    if (code != ERR_OK)
        return library_fail(code, &err, error);
    *ret_server = (struct pawl_server *)(void *)server;
    return PAWL_OK;
}

enum pawl_code pawl_server_reload(struct pawl_server *server,
                                  const struct pawl_server_options *options,
                                  struct pawl_error *error)
{
    struct err err = {0};
    struct server_options wanted;
    assert(server != NULL && options != NULL);
    enum error_code code = read_options(options, &wanted, &err);
    if (code == ERR_OK)
        code = server_reload(inner(server), &wanted, &err);
    return code == ERR_OK ? PAWL_OK : library_fail(code, &err, error);
}

int pawl_server_port(const struct pawl_server *server)
{
    return server_port((const struct server *)(const void *)server);
}

void pawl_server_retire(struct pawl_server *server)
{
    server_retire(inner(server));
}

void pawl_server_stop(struct pawl_server *server, int drain_ms)
{
    if (server == NULL)
        return;
    server_drain(inner(server), drain_ms < 0 ? 0 : drain_ms);
    server_close(inner(server));
}
