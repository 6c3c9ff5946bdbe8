#include "server/telemetry.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/otlp.h"

enum { FLUSH_MS = 2000 };

/* The base, with the path that OpenTelemetry says. */
static struct str whole_endpoint(struct server *server)
{
    const struct server_options *options = &server->options;
    struct str base = options->otlp_endpoint;
    struct buf url;
    if (str_is_set(options->otlp_traces_endpoint) || !str_is_set(base))
        return options->otlp_traces_endpoint;
    while (base.len > 0 && base.at[base.len - 1] == '/')
        base.len--;
    buf_init(&url, &server->arena, base.len + 16);
    buf_add(&url, base);
    buf_add(&url, STR("/v1/traces"));
    return url.failed ? (struct str){NULL, 0} : buf_str(&url);
}

static enum error_code open_traces(struct server *server, struct err *err)
{
    char instance[256];
    const struct server_options *options = &server->options;
    struct otlp_options wanted = {
        .endpoint = whole_endpoint(server),
        .headers = options->otlp_headers,
        .ca_file = options->otlp_ca_file,
        .service = options->service_name,
        .log = server->log,
    };
    if (!str_is_set(wanted.endpoint))
        return ERR_OK;
    /* Which of several servers it was: enough to tell them apart. */
    if (gethostname(instance, sizeof instance - 16) == 0) {
        instance[sizeof instance - 17] = '\0';
        size_t len = strlen(instance);
        (void)snprintf(instance + len, 16, ":%ld", (long)getpid());
        wanted.instance = str_from(instance);
    }
    enum error_code code = otlp_open(&wanted, &server->otlp, err);
    /* It has copies: what the caller gave need not live on. */
    server->options.otlp_endpoint = server->options.otlp_traces_endpoint = (struct str){NULL, 0};
    server->options.otlp_headers = server->options.otlp_ca_file = (struct str){NULL, 0};
    server->options.service_name = (struct str){NULL, 0};
    return code;
}

enum error_code telemetry_open(struct server *server, struct err *err)
{
    const struct server_options *options = &server->options;
    if (options->log != NULL) {
        const struct log_options wanted = {
            .level = options->log_level != LOG_NONE ? options->log_level : LOG_INFO,
            .write = options->log,
            .arg = options->log_arg,
        };
        server->log = log_open(&wanted);
        if (server->log == NULL)
            return err_set(err, ERR_UNAVAILABLE, "out of memory or threads");
    }
    return open_traces(server, err);
}

void telemetry_close(struct server *server)
{
    otlp_close(server->otlp, FLUSH_MS);
    log_events_release(&server->log_events);
    if (server->loops != NULL)
        log_fact(server->log, LOG_INFO, STR("server_stopped"), (struct str){NULL, 0});
    log_close(server->log, FLUSH_MS);
}

void telemetry_drained(const struct server *server, uint32_t busy)
{
    struct log_line line;
    if (!log_begin(server->log, LOG_INFO, STR("server_drained"), NULL, &line))
        return;
    log_int(&line, STR("unanswered"), busy);
    log_end(&line);
}

void telemetry_request(const struct connection *connection, bool sent)
{
    struct log_line line;
    const struct route *route = connection->match.route;
    const struct server *server = connection->server;
    if (!log_begin(server->log, LOG_DEBUG, STR("http_request"), NULL, &line))
        return;
    if (route != NULL) {
        log_text(&line, STR("method"), route->method);
        /* The route, and not what is in the path: that may be the token of a lease. */
        log_text(&line, STR("route"), route->path);
    }
    if (connection->status > 0)
        log_int(&line, STR("status"), (int64_t)connection->status);
    log_int(&line, STR("ms"), (clock_monotonic_us() - connection->began_us) / 1000);
    log_text(&line, STR("caller"), connection->auth.actor);
    if (!sent)
        log_text(&line, STR("message"), STR("the client did not read the response"));
    log_end(&line);
}
