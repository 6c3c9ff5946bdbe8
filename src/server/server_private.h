/* What the parts of the server share. */
#ifndef PAWL_SERVER_SERVER_PRIVATE_H
#define PAWL_SERVER_SERVER_PRIVATE_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "engine/handle.h"
#include "server/auth.h"
#include "server/connection.h"
#include "server/log_events.h"
#include "server/pool.h"
#include "server/server.h"
#include "server/watch.h"

struct metrics;
struct loops;
struct otlp;
struct store_figures;
struct rate;
struct tls;

struct server {
    struct server_options options; /* with all defaults filled in; texts in `arena` */
    struct arena arena;
    struct handle *handle;
    struct engine *engine;
    /* NULL until there is one: the engine, which tells it of revoked tokens, runs before. */
    _Atomic(struct authority *) authority;
    struct rate *rate;   /* how often each token may ask */
    struct tls *tls;     /* NULL: plain HTTP */
    struct loops *loops; /* NULL: it does not serve yet */
    struct connections *connections;
    struct pool *readers;    /* reads */
    struct pool *short_pool; /* what is short and others wait for: who asks, the ends of writes */
    struct pool *bulk_pool;  /* verbs that take long */
    struct watch *watch;
    struct metrics *metrics; /* told by the engine: see observe.h */
    struct log *log;         /* NULL: nobody wants lines */
    struct log_events log_events;
    struct otlp *otlp; /* NULL: nobody collects traces */
    struct store_figures *figures;
    struct pool *scrapers; /* those who ask for figures */
    unsigned long sweeper;
    bool has_sweeper;
    int ending; /* can be read from when the sweeper shall end; -1: it will see */
    uint16_t port;
    struct str openapi;

    atomic_bool retired; /* it will be asked to drain soon */
    atomic_bool draining;
    atomic_bool closing;
    atomic_uint parked;  /* requests that wait for something */
    atomic_uint working; /* connections that are suspended */
    atomic_size_t held;  /* bytes of requests and answers */
    struct readiness *readiness;
};

/* Whether a write would succeed, as far as is known: see readiness.h. */
bool server_sees_store(const struct server *server);

#endif
