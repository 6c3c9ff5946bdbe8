/* The page /metrics: everything that is counted, in Prometheus' text format. */
#ifndef PAWL_SERVER_METRICS_PAGE_H
#define PAWL_SERVER_METRICS_PAGE_H

#include "base/buf.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct server;

/* Writes it. May block for a moment: see metrics_store.h. */
void metrics_page_write(struct server *server, struct buf *text);

#endif
