#include "server/metrics_page.h"

#include "pawl.h"
#include "server/metrics.h"
#include "server/metrics_process.h"
#include "server/metrics_store.h"
#include "server/metrics_text.h"
#include "server/otlp.h"
#include "server/server_private.h"

static void write_telemetry(struct server *server, struct buf *text)
{
    struct otlp_counts spans = otlp_counts(server->otlp);
    text_family(text, METRIC_TRACE_SPANS);
    text_sample(text, METRIC_TRACE_SPANS, &STR("exported"), spans.exported);
    text_sample(text, METRIC_TRACE_SPANS, &STR("dropped"), spans.dropped);
    text_sample(text, METRIC_TRACE_SPANS, &STR("failed"), spans.failed);
    text_family(text, METRIC_LOG_DROPPED);
    text_sample(text, METRIC_LOG_DROPPED, NULL, log_dropped(server->log));
}

static void write_server(struct server *server, struct buf *text)
{
    uint32_t busy;
    text_family(text, METRIC_HTTP_CONNECTIONS);
    text_sample(text, METRIC_HTTP_CONNECTIONS, NULL, connections_count(server->connections, &busy));
    text_family(text, METRIC_HTTP_PARKED);
    text_sample(text, METRIC_HTTP_PARKED, NULL, atomic_load(&server->parked));
    write_telemetry(server, text);
    text_family(text, METRIC_BUILD_INFO);
    text_sample(text, METRIC_BUILD_INFO, &STR(PAWL_VERSION), 1);
}

void metrics_page_write(struct server *server, struct buf *text)
{
    /* The store first: all else is then as new as can be. */
    store_figures_write(server->figures, server_sees_store(server), text);
    metrics_write(server->metrics, text);
    write_server(server, text);
    process_figures_write(text);
}
