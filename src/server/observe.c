#include "server/observe.h"

#include "server/metrics.h"
#include "server/otlp.h"
#include "server/server_private.h"

/* A token that was revoked, by whatever call, opens nothing here from now on. */
static void forget_revoked(struct authority *authority, const struct batch_report *report)
{
    for (uint32_t i = 0; i < report->op_count; i++) {
        const struct op *op = report->ops[i];
        if (op->type == OP_TOKEN_REVOKE && op->code == ERR_OK && authority != NULL)
            authority_forget(authority, &op->token->id);
    }
}

static void committed(void *arg, const struct batch_report *report)
{
    struct server *server = arg;
    const struct observer *other = &server->options.engine.observer;
    metrics_committed(server->metrics, report);
    otlp_committed(server->otlp, report);
    log_committed(&server->log_events, report);
    forget_revoked(atomic_load(&server->authority), report);
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

static void maintained(void *arg, const struct maintenance_report *report)
{
    struct server *server = arg;
    const struct observer *other = &server->options.engine.observer;
    metrics_maintained(server->metrics, report);
    if (other->maintained != NULL)
        other->maintained(other->arg, report);
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
    return (struct observer){.committed = committed,
                             .failed = failed,
                             .maintained = maintained,
                             .shed = shed,
                             .arg = server};
}
