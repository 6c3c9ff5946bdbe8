#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "server/exchange.h"
#include "server/guard.h"
#include "server/listen.h"
#include "server/loop.h"
#include "server/metrics.h"
#include "server/metrics_store.h"
#include "server/observe.h"
#include "server/openapi.h"
#include "server/rate.h"
#include "server/readiness.h"
#include "server/reload.h"
#include "server/request.h"
#include "server/respond.h"
#include "server/server_private.h"
#include "server/session.h"
#include "server/telemetry.h"
#include "server/tls.h"
#include "store/store.h"

enum {
    THREADS_MAX = 64,
    THREADS_DEFAULT_MAX = 4,
    READERS = 4,
    READS_WAITING_MAX = 1024,
    SHORT_POOL_THREADS = 2,
    BULK_POOL_THREADS = 2,
    MOVES_WAITING_MAX = 64,
    SCRAPERS = 1,
    SCRAPES_WAITING_MAX = 64,
    CONNECTIONS_DEFAULT = 8192,
    FILES_KEPT =
        128 + CONNECTIONS_EXCESS_MAX, /* descriptors that connections leave for everything else */
    PARKED_PER_THREAD = 1024,
    RECEIVE_MS_DEFAULT = 30 * 1000,
    IDLE_MS_DEFAULT = 75 * 1000,
    SEND_MS_DEFAULT = 120 * 1000,
    BYTES_DEFAULT = 256 * 1024 * 1024,
    SWEEP_MS = 500,
    REFUSED_MS = 30 * 1000, /* between two lines about a primary that is refused */
    /* Enough that nobody who writes waits until a reader is done: for every thread of the pools,
     * and for the engine, the watch and the figures. */
    STORE_CONNECTIONS = READERS + SHORT_POOL_THREADS + BULK_POOL_THREADS + 4,
};

/* ---- pages ---- */

bool server_sees_store(const struct server *server)
{
    return readiness_is_given(server->readiness, NULL, 0);
}

static bool is_ending(const struct server *server)
{
    return atomic_load(&server->retired) || atomic_load(&server->draining);
}

static bool is_ready(const struct server *server)
{
    return !is_ending(server) && server_sees_store(server);
}

static enum MHD_Result answer_asset(struct connection *connection)
{
    struct str name = connection->match.values[0];
    const struct asset *asset = asset_find(name);
    if (asset != NULL && !str_eq(name, STR("index.html")))
        return respond_asset(connection, asset, true);
    connection->code = err_set(&connection->err, ERR_NOT_FOUND,
                               "file not found: \"%.*s\"; reload the page", STR_ARG(name));
    return respond_error(connection, false);
}

static enum MHD_Result refuse_readiness(struct connection *connection)
{
    const struct server *server = connection->server;
    char why[sizeof connection->err.detail] = "the server is shutting down";
    if (!is_ending(server))
        (void)readiness_is_given(server->readiness, why, sizeof why);
    connection->code = err_set(&connection->err, ERR_UNAVAILABLE, "%s", why);
    return respond_error(connection, false);
}

static enum MHD_Result answer_page(struct connection *connection)
{
    const struct server *server = connection->server;
    switch (connection->match.route->page) {
    case PAGE_ROOT:
        return respond_asset(connection, asset_find(STR("index.html")), false);
    case PAGE_ASSET:
        return answer_asset(connection);
    case PAGE_SESSION:
    case PAGE_SIGN_IN:
    case PAGE_SIGN_OUT:
        return session_answer(connection);
    case PAGE_HEALTH:
        return respond_text(connection, 200, "text/plain", STR("ok\n"));
    case PAGE_READY:
        if (is_ready(server))
            return respond_text(connection, 200, "text/plain", STR("ready\n"));
        return refuse_readiness(connection);
    case PAGE_OPENAPI:
        return respond_text(connection, 200, "application/json", server->openapi);
    case PAGE_METRICS:
    case PAGE_VERB:
        break;
    }
    connection->code = err_set(&connection->err, ERR_NOT_FOUND, "page not found");
    return respond_error(connection, false);
}

/* ---- what libmicrohttpd calls ---- */

/* Paths and queries stay encoded, since %2F in a name is no slash between two. */
static size_t leave_encoded(void *cls, struct MHD_Connection *http, char *text)
{
    (void)cls;
    (void)http;
    return strlen(text);
}

/* A request line has come. */
static void *on_line(void *cls, const char *uri, struct MHD_Connection *http)
{
    struct connection *connection = connection_of(http);
    (void)cls;
    (void)uri;
    if (connection != NULL) {
        connection->began_us = clock_monotonic_us();
        connection_move(connection, SERVING_LINE);
    }
    return NULL;
}

/* It is known who asks. What is refused is answered at once, with the body unread, and the
 * connection is closed. */
static enum MHD_Result admit(struct connection *connection)
{
    if (connection->code != ERR_OK || !request_admit(connection))
        return respond_error(connection, true);
    connection_move(connection, SERVING_ADMITTED);
    return MHD_YES;
}

static enum MHD_Result begin(struct connection *connection, const char *method, const char *path,
                             const char *version)
{
    if (!request_route(connection, method, path, version))
        return respond_error(connection, true);
    bool late =
        connection->reception == RECEPTION_LATE || atomic_load(&connection->server->closing);
    if (late && !guard_is_open(connection)) {
        connection->code = err_set(&connection->err, ERR_UNAVAILABLE,
                                   "the server is shutting down: retry on another instance");
        return respond_error(connection, true);
    }
    if (connection->reception == RECEPTION_EXCESS && !guard_is_open(connection)) {
        connection->code = err_set(
            &connection->err, ERR_UNAVAILABLE,
            "too many connections to this server or from this address: close some, or retry later");
        return respond_error(connection, true);
    }
    if (!guard_is_open(connection) &&
        auth_must_read(connection->server->authority, &connection->asked))
        return exchange_ask(connection);
    connection->code = guard_check(connection, &connection->err);
    return admit(connection);
}

static enum MHD_Result go_on(struct connection *connection)
{
    if (connection->code != ERR_OK)
        return respond_error(connection, true);
    if (connection->match.route->page == PAGE_METRICS)
        return exchange_figures(connection);
    if (connection->match.route->page == PAGE_READY && !is_ending(connection->server))
        return exchange_readiness(connection);
    if (connection->match.route->page != PAGE_VERB)
        return answer_page(connection);
    connection->code = request_finish(connection);
    if (connection->code != ERR_OK)
        return respond_error(connection, false);
    return exchange_start(connection);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *http, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **request_context)
{
    struct connection *connection = connection_of(http);
    (void)cls;
    if (connection == NULL)
        return MHD_NO;
    *request_context = connection;
    switch (connection_state(connection)) {
    case SERVING_HEAD:
        return begin(connection, method, path, version);
    case SERVING_IDENTIFIED:
        return admit(connection);
    case SERVING_BODY:
        if (*data_len == 0)
            return go_on(connection);
        if (!request_take(connection, data, *data_len))
            return MHD_NO;
        *data_len = 0;
        return MHD_YES;
    case SERVING_DONE:
        return connection->match.route->page == PAGE_READY ? answer_page(connection)
                                                           : exchange_answer(connection);
    default:
        return MHD_NO;
    }
}

static void count_answer(const struct connection *connection)
{
    struct metrics *metrics = connection->server->metrics;
    uint32_t count;
    const struct route *routes = routes_all(&count);
    const struct route *route = connection->match.route;
    bool stream = serving_is_stream(connection_state(connection));
    if (stream)
        metrics_stream(metrics, -1);
    if (connection->status != 0)
        metrics_answered(metrics, route == NULL ? ROUTE_COUNT_MAX : (uint32_t)(route - routes),
                         connection->status,
                         stream ? -1 : clock_monotonic_us() - connection->began_us);
}

static void on_completed(void *cls, struct MHD_Connection *http, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    struct connection *connection = *request_context;
    (void)cls;
    (void)http;
    if (connection == NULL)
        return;
    count_answer(connection);
    telemetry_request(connection, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    exchange_end(connection, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* ---- the thread that looks after the others ---- */

static void log_away(struct server *server)
{
    char why[512] = "the store is unavailable";
    (void)readiness_is_given(server->readiness, why, sizeof why);
    log_fact(server->log, LOG_ERROR, STR("store_away"), str_from(why));
}

/* Says that the store is another one than before, and which one it must not be. */
static void tell_origin(struct server *server, struct store_origin *told, int64_t *told_at)
{
    struct store_origin now;
    struct log_line line;
    int64_t at = engine_steady(server->engine);
    store_origin(engine_store(server->engine), &now);
    if (now.generation != told->generation &&
        log_begin(server->log, LOG_WARN, STR("store_moved"), NULL, &line)) {
        log_text(&line, STR("message"),
                 STR("the store failed over or was restored: cached data was discarded"));
        log_int(&line, STR("timeline"), now.timeline);
        log_end(&line);
    }
    told->generation = now.generation;
    if (now.refused == told->refused || (*told_at != 0 && at - *told_at < REFUSED_MS))
        return;
    if (log_begin(server->log, LOG_ERROR, STR("primary_refused"), NULL, &line)) {
        log_text(&line, STR("message"), str_from(now.refusal));
        log_int(&line, STR("count"), (int64_t)(now.refused - told->refused));
        log_end(&line);
    }
    told->refused = now.refused;
    *told_at = at;
}

static void *sweep(void *arg)
{
    struct server *server = arg;
    struct store_origin told;
    int64_t told_at = 0;
    bool was_ready = true;
    store_origin(engine_store(server->engine), &told);
    told.refused = 0;
    while (!atomic_load(&server->closing)) {
        bool ready = is_ready(server) || is_ending(server);
        if (ready && !was_ready)
            log_fact(server->log, LOG_INFO, STR("store_back"), STR("the store is available again"));
        else if (!ready && was_ready)
            log_away(server);
        was_ready = ready;
        tell_origin(server, &told, &told_at);
        connections_sweep(server->connections);
        readiness_look(server->readiness);
        struct pollfd ending = {.fd = server->ending, .events = POLLIN};
        (void)poll(&ending, 1, SWEEP_MS);
    }
    return NULL;
}

/* ---- options ---- */

static void fill(uint32_t *value, uint32_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void fill_ms(int64_t *value, int64_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static uint32_t connections_possible(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= CONNECTIONS_DEFAULT + FILES_KEPT)
        return CONNECTIONS_DEFAULT;
    return limit.rlim_cur > 2 * FILES_KEPT ? (uint32_t)limit.rlim_cur - FILES_KEPT : FILES_KEPT;
}

static enum error_code copy_options(struct server *server, const struct server_options *options,
                                    struct err *err)
{
    struct server_options *copy = &server->options;
    struct server_limits *limits = &copy->limits;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *copy = *options;
    copy->listen = arena_copy(&server->arena, str_is_set(options->listen) ? options->listen
                                                                          : STR("127.0.0.1:7295"));
    copy->certificate = arena_copy(&server->arena, options->certificate);
    copy->key = arena_copy(&server->arena, options->key);
    copy->admin_token = arena_copy(&server->arena, options->admin_token);
    copy->kinds = arena_copy(&server->arena, options->kinds);
    copy->engine.backup_dir = arena_copy(&server->arena, options->engine.backup_dir);
    if (copy->threads == 0)
        copy->threads = processors > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX
                        : processors > 1                 ? (uint32_t)processors
                                                         : 1;
    fill(&limits->connections, connections_possible());
    fill(&limits->connections_per_client, limits->connections / 2);
    fill(&limits->parked, PARKED_PER_THREAD * copy->threads);
    fill_ms(&limits->receive_ms, RECEIVE_MS_DEFAULT);
    fill_ms(&limits->idle_ms, IDLE_MS_DEFAULT);
    fill_ms(&limits->send_ms, SEND_MS_DEFAULT);
    if (limits->bytes_max == 0)
        limits->bytes_max = BYTES_DEFAULT;
    if (copy->threads > THREADS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "%u threads are too many: at most %d", copy->threads,
                       THREADS_MAX);
    return reload_check(copy, err);
}

/* ---- from start to end ---- */

/* While a server is about to end new connections are told so, since a load balancer would
 * take a closed one for a fault; when what was begun is answered none are taken. */
static enum MHD_Result may_connect(void *arg, const struct sockaddr *address, socklen_t len)
{
    struct server *server = arg;
    (void)len;
    return atomic_load(&server->closing) || !connections_take(server->connections, address)
               ? MHD_NO
               : MHD_YES;
}

static enum error_code start_serving(struct server *server, struct err *err)
{
    struct listener listener;
    enum error_code code = ERR_OK;
    if (str_is_set(server->options.certificate))
        code = tls_open(server->options.certificate, server->options.key, &server->tls, err);
    if (code == ERR_OK)
        code = listen_open(server->options.listen, &listener, err);
    if (code != ERR_OK)
        return code;
    server->port = listener.port;
    const struct authority_options authority = {
        .engine = server->engine,
        .admin_token = server->options.admin_token,
        .address = (const struct sockaddr *)(const void *)&listener.address,
        .tokens_required = server->options.require_tokens,
    };
    struct authority *opened = NULL;
    code = authority_open(&authority, &opened, err);
    atomic_store(&server->authority, opened);
    /* Nothing but the threads of the loops can fail now. */
    if (code == ERR_OK)
        code = reload_kinds(server, server->options.kinds, err);
    if (code != ERR_OK) {
        (void)close(listener.socket);
        return code;
    }
    const struct loop_callbacks callbacks = {
        .accept = may_connect,
        .request = on_request,
        .connection = connection_notify,
        .completed = on_completed,
        .line = on_line,
        .unescape = leave_encoded,
    };
    return loops_open(server, listener.socket, &callbacks, &server->loops, err);
}

static enum error_code start_parts(struct server *server, struct err *err)
{
    struct buf document;
    buf_init(&document, &server->arena, 64 * 1024);
    openapi_write(&document);
    server->openapi = buf_str(&document);
    server->connections = connections_new(server);
    server->readers = pool_open(READERS, READS_WAITING_MAX);
    server->short_pool = pool_open(SHORT_POOL_THREADS, READS_WAITING_MAX);
    server->bulk_pool = pool_open(BULK_POOL_THREADS, MOVES_WAITING_MAX);
    server->watch = watch_open(server->engine);
    server->figures = store_figures_open(server->engine);
    server->scrapers = pool_open(SCRAPERS, SCRAPES_WAITING_MAX);
    server->readiness =
        server->short_pool == NULL ? NULL : readiness_open(server->engine, server->short_pool);
    server->rate = rate_new();
    if (document.failed || server->readiness == NULL || server->rate == NULL ||
        server->connections == NULL || server->readers == NULL || server->short_pool == NULL ||
        server->bulk_pool == NULL || server->watch == NULL || server->figures == NULL ||
        server->scrapers == NULL)
        return err_set(err, ERR_UNAVAILABLE, "out of memory or threads");
    rate_set(server->rate, server->options.rate_per_s);
    enum error_code code = start_serving(server, err);
    if (code != ERR_OK)
        return code;
    server->ending = eventfd(0, EFD_CLOEXEC);
    server->has_sweeper = pool_start_thread(sweep, server, &server->sweeper);
    if (server->has_sweeper)
        return ERR_OK;
    (void)close(server->ending);
    return err_set(err, ERR_UNAVAILABLE, "no more threads available");
}

/* Those who are told what the engine does: before there is one. */
static enum error_code make_watchers(struct server *server, struct err *err)
{
    uint64_t seed;
    random_fill(&seed, sizeof seed);
    server->metrics = metrics_new(seed);
    if (server->metrics == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    enum error_code code = telemetry_open(server, err);
    log_events_init(&server->log_events, server->log);
    return code;
}

enum error_code server_open(struct str url, const struct server_options *options,
                            struct server **ret, struct err *err)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    arena_init(&server->arena);
    enum error_code code = copy_options(server, options, err);
    struct handle_options handle = {.engine = options->engine, .actor = STR("server")};
    handle.engine.observer = observe_all(server);
    handle.engine.backup_dir = server->options.engine.backup_dir;
    if (handle.engine.store.connections == 0)
        handle.engine.store.connections = STORE_CONNECTIONS;
    if (code == ERR_OK)
        code = make_watchers(server, err);
    if (code == ERR_OK)
        code = handle_open(url, &handle, &server->handle, err);
    if (code == ERR_OK) {
        server->engine = handle_engine(server->handle);
        if (server->engine == NULL)
            code = err_set(err, ERR_UNAVAILABLE,
                           "%.*s is in use by another Pawl process: let that process serve it, or "
                           "end it first",
                           STR_ARG(url));
    }
    if (code == ERR_OK)
        code = start_parts(server, err);
    if (code != ERR_OK) {
        server_close(server);
        return code;
    }
    *ret = server;
    return ERR_OK;
}

uint16_t server_port(const struct server *server)
{
    return server->port;
}

void server_retire(struct server *server)
{
    atomic_store(&server->retired, true);
}

void server_drain(struct server *server, int64_t wait_ms)
{
    enum { LOOK_MS = 10 };
    if (atomic_exchange(&server->draining, true))
        return;
    int64_t until = engine_steady(server->engine) + wait_ms;
    engine_interrupt(server->engine);
    watch_interrupt(server->watch);
    uint32_t busy = 0;
    while (connections_count(server->connections, &busy) > 0 && busy > 0 &&
           engine_steady(server->engine) < until)
        clock_pause(LOOK_MS);
    telemetry_drained(server, busy);
}

/* Waits until the engine and the pools have finished what they have, and libmicrohttpd has closed
 * every connection. It must not have any when it is stopped: one that is suspended ends the
 * process, and so does a request that libmicrohttpd 0.9.75 refuses itself, since it no longer takes
 * any response by then, not even its own. */
static void close_connections(struct server *server)
{
    enum { LOOK_MS = 2, LOOKS_MAX = 2500 };
    int looks = 0;
    do
        clock_pause(LOOK_MS);
    while (atomic_load(&server->working) > 0 ||
           (connections_cut(server->connections) > 0 && ++looks < LOOKS_MAX));
}

void server_close(struct server *server)
{
    if (server == NULL)
        return;
    if (server->loops != NULL)
        server_drain(server, 0);
    atomic_store(&server->closing, true);
    if (server->has_sweeper) {
        (void)eventfd_write(server->ending, 1);
        (void)pthread_join(server->sweeper, NULL);
        (void)close(server->ending);
    }
    readiness_end_waits(server->readiness);
    if (server->loops != NULL)
        close_connections(server);
    loops_close(server->loops);
    watch_close(server->watch);
    pool_close(server->scrapers);
    store_figures_close(server->figures);
    pool_close(server->bulk_pool);
    pool_close(server->readers);
    pool_close(server->short_pool);
    connections_free(server->connections);
    tls_close(server->tls);
    rate_free(server->rate);
    readiness_close(server->readiness);
    handle_close(server->handle);
    loops_free(server->loops);
    authority_close(server->authority); /* revoked tokens are told to it as long as it runs */
    telemetry_close(server);
    metrics_free(server->metrics);
    arena_release(&server->arena);
    free(server);
}
