#include "server/observe.h"

#include "server/metrics.h"
#include "server/otlp.h"
#include "server/server_private.h"

static void committed(void *arg, const struct batch_report *report)
{
    struct server *server = arg;
    const struct observer *other = &server->options.engine.observer;
    metrics_committed(server->metrics, report);
    otlp_committed(server->otlp, report);
    log_committed(&server->log_events, report);
    if (other->committed != NULL)
        other->committed(other->arg, report);
}

static void failed(void *arg, enum error_code code)
{
    struct server *server = arg;
    const struct observer *other = &server->options.engine.observer;
    metrics_failed(server->metrics, code);
    log_failed(&server->log_events, code);
    if (other->failed != NULL)
        other->failed(other->arg, code);
}

static void shed(void *arg)
{
    struct server *server = arg;
    const struct observer *other = &server->options.engine.observer;
    metrics_shed(server->metrics);
    log_shed(&server->log_events);
    if (other->shed != NULL)
        other->shed(other->arg);
}

struct observer observe_all(struct server *server)
{
    return (struct observer){.committed = committed, .failed = failed, .shed = shed, .arg = server};
}
