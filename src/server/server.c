#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/exchange.h"
#include "server/guard.h"
#include "server/listen.h"
#include "server/openapi.h"
#include "server/request.h"
#include "server/respond.h"
#include "server/server_private.h"
#include "store/store.h"

enum {
    THREADS_MAX = 64,
    THREADS_DEFAULT_MAX = 4,
    READERS = 4,
    READS_WAITING_MAX = 1024,
    MOVERS = 2,
    MOVES_WAITING_MAX = 64,
    CONNECTIONS_DEFAULT = 8192,
    FILES_KEPT = 128, /* descriptors that connections leave for everything else */
    PARKED_DEFAULT = 1024,
    RECEIVE_MS_DEFAULT = 30 * 1000,
    IDLE_MS_DEFAULT = 75 * 1000,
    SEND_MS_DEFAULT = 120 * 1000,
    BYTES_DEFAULT = 256 * 1024 * 1024,
    HEAD_BYTES_MAX = 32 * 1024, /* what libmicrohttpd keeps of a connection, headers and all */
    SWEEP_MS = 500,
    READY_MS = 6000, /* a store that was not seen for so long is away */
    PING_ROUNDS = 4, /* sweeps between two looks at the store */
    PEM_BYTES_MAX = 1024 * 1024,
};

void server_log(const struct server *server, const char *format, ...)
{
    char line[1024];
    va_list args;
    if (server->options.log == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    server->options.log(server->options.log_arg, line);
}

static void pause_for(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000 * 1000};
    int result;
    do
        result = nanosleep(&left, &left);
    while (result != 0 && errno == EINTR);
}

/* ---- pages ---- */

static bool is_ready(const struct server *server)
{
    int64_t seen = atomic_load(&server->store_seen);
    return !atomic_load(&server->draining) && engine_steady(server->engine) - seen < READY_MS;
}

static enum MHD_Result answer_page(struct connection *connection)
{
    const struct server *server = connection->server;
    switch (connection->match.route->page) {
    case PAGE_ROOT:
        return respond_text(connection, 200, "text/html; charset=utf-8",
                            STR("<!doctype html><title>Pawl</title><p>Pawl is here. "
                                "<a href=\"/openapi.json\">What it can do</a>.\n"));
    case PAGE_HEALTH:
        return respond_text(connection, 200, "text/plain", STR("ok\n"));
    case PAGE_READY:
        if (is_ready(server))
            return respond_text(connection, 200, "text/plain", STR("ready\n"));
        connection->code = err_set(&connection->err, ERR_UNAVAILABLE, "%s",
                                   atomic_load(&server->draining) ? "the server is about to end"
                                                                  : "the store is out of reach");
        return respond_error(connection, false);
    case PAGE_OPENAPI:
        return respond_text(connection, 200, "application/json", server->openapi);
    case PAGE_METRICS:
    case PAGE_VERB:
        break;
    }
    connection->code = err_set(&connection->err, ERR_NOT_FOUND, "there are no figures yet");
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
    if (connection != NULL)
        connection_enter(connection, PHASE_RECEIVING);
    return NULL;
}

/* It is known who asks. What is refused is answered at once, with the body unread, and the
 * connection is closed. */
static enum MHD_Result admit(struct connection *connection)
{
    connection->stage = EXCHANGE_RECEIVING;
    connection_enter(connection, PHASE_RECEIVING);
    if (connection->code != ERR_OK || !request_admit(connection))
        return respond_error(connection, true);
    return MHD_YES;
}

static enum MHD_Result begin(struct connection *connection, const char *method, const char *path)
{
    connection->stage = EXCHANGE_RECEIVING;
    if (!request_route(connection, method, path))
        return respond_error(connection, true);
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
    (void)version;
    if (connection == NULL)
        return MHD_NO;
    *request_context = connection;
    switch (connection->stage) {
    case EXCHANGE_IDLE:
        return begin(connection, method, path);
    case EXCHANGE_ASKED:
        return admit(connection);
    case EXCHANGE_RECEIVING:
        if (*data_len == 0)
            return go_on(connection);
        if (!request_take(connection, data, *data_len))
            return MHD_NO;
        *data_len = 0;
        return MHD_YES;
    case EXCHANGE_DONE:
        return exchange_answer(connection);
    case EXCHANGE_ASKING:
    case EXCHANGE_WORKING:
    case EXCHANGE_ANSWERING:
        break;
    }
    return MHD_NO;
}

static void on_completed(void *cls, struct MHD_Connection *http, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    struct connection *connection = *request_context;
    (void)cls;
    (void)http;
    if (connection != NULL)
        exchange_end(connection, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

/* ---- the thread that looks after the others ---- */

/* Whether the store answers. Blocks as long as the store has patience. */
static bool ping(struct server *server)
{
    struct arena arena;
    struct store_txn *txn;
    struct store_load load = {0};
    if (store_begin(engine_store(server->engine), STORE_READ, &txn, NULL) != ERR_OK)
        return false;
    arena_init(&arena);
    enum error_code code = store_load(txn, &load, &arena, NULL);
    store_rollback(txn);
    arena_release(&arena);
    return code == ERR_OK;
}

static void run_ping(struct task *task)
{
    struct server *server = (struct server *)(void *)((char *)task - offsetof(struct server, ping));
    if (ping(server))
        atomic_store(&server->store_seen, engine_steady(server->engine));
    atomic_store(&server->pinging, false);
}

static void *sweep(void *arg)
{
    struct server *server = arg;
    bool was_ready = true;
    for (uint32_t round = 0; !atomic_load(&server->closing); round++) {
        bool ready = is_ready(server) || atomic_load(&server->draining);
        if (ready != was_ready)
            server_log(server, "the store is %s", ready ? "back" : "out of reach");
        was_ready = ready;
        connections_sweep(server->connections);
        if (round % PING_ROUNDS == 0 && !atomic_exchange(&server->pinging, true)) {
            server->ping.run = run_ping;
            pool_put_always(server->readers, &server->ping);
        }
        pause_for(SWEEP_MS);
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
    if (copy->threads == 0)
        copy->threads = processors > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX
                        : processors > 1                 ? (uint32_t)processors
                                                         : 1;
    fill(&limits->connections, connections_possible());
    fill(&limits->connections_per_client, limits->connections / 2);
    fill(&limits->parked_per_thread, PARKED_DEFAULT);
    fill_ms(&limits->receive_ms, RECEIVE_MS_DEFAULT);
    fill_ms(&limits->idle_ms, IDLE_MS_DEFAULT);
    fill_ms(&limits->send_ms, SEND_MS_DEFAULT);
    if (limits->bytes_max == 0)
        limits->bytes_max = BYTES_DEFAULT;
    if (copy->threads > THREADS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "%u threads are too many: at most %d", copy->threads,
                       THREADS_MAX);
    if (str_is_set(copy->certificate) != str_is_set(copy->key))
        return err_set(err, ERR_BAD_REQUEST, "TLS needs both a certificate and its key");
    return ERR_OK;
}

/* The text of a file, ended by NUL; NULL: it cannot be read. */
static char *read_file(struct server *server, struct str path, struct err *err)
{
    char name[4096];
    (void)snprintf(name, sizeof name, "%.*s", (int)(path.len < 4095 ? path.len : 4095), path.at);
    FILE *file = fopen(name, "re");
    char *text = arena_alloc(&server->arena, PEM_BYTES_MAX);
    size_t len = file == NULL || text == NULL ? 0 : fread(text, 1, PEM_BYTES_MAX - 1, file);
    if (file != NULL)
        (void)fclose(file);
    if (len == 0) {
        err_write(err, ERR_BAD_REQUEST, "%s cannot be read", name);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

/* ---- from start to end ---- */

/* A server that is about to end takes no new connections. (MHD_quiesce_daemon would be the way, but
 * with epoll and a pool of threads it may end the process: two threads then take the same socket
 * out of their sets.) */
static enum MHD_Result may_connect(void *arg, const struct sockaddr *address, socklen_t len)
{
    struct server *server = arg;
    (void)address, (void)len;
    return atomic_load(&server->draining) ? MHD_NO : MHD_YES;
}

static struct MHD_Daemon *start_daemon(struct server *server, const struct listener *listener,
                                       const char *certificate, const char *key)
{
    const struct server_limits *limits = &server->options.limits;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                     (certificate == NULL ? 0U : (unsigned)MHD_USE_TLS) |
                     (listener->ipv6 ? (unsigned)MHD_USE_IPv6 : 0U);
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    union {
        const char *from;
        void *to;
    } views[2] = {{.from = certificate}, {.from = key}};
    tls[0].ptr_value = views[0].to;
    tls[1].ptr_value = views[1].to;
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, server->port, may_connect, server, on_request, server, MHD_OPTION_LISTEN_SOCKET,
        listener->socket, MHD_OPTION_NOTIFY_CONNECTION, connection_notify, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_URI_LOG_CALLBACK, on_line,
        server, MHD_OPTION_UNESCAPE_CALLBACK, leave_encoded, server, MHD_OPTION_THREAD_POOL_SIZE,
        server->options.threads, MHD_OPTION_CONNECTION_LIMIT, limits->connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, limits->connections_per_client,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_ARRAY, certificate == NULL ? none : tls, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static enum error_code start_serving(struct server *server, struct err *err)
{
    struct listener listener;
    char *certificate = NULL;
    char *key = NULL;
    if (str_is_set(server->options.certificate)) {
        certificate = read_file(server, server->options.certificate, err);
        key = certificate == NULL ? NULL : read_file(server, server->options.key, err);
        if (key == NULL)
            return ERR_BAD_REQUEST;
    }
    enum error_code code = listen_open(server->options.listen, &listener, err);
    if (code != ERR_OK)
        return code;
    server->port = listener.port;
    const struct authority_options authority = {
        .engine = server->engine,
        .admin_token = server->options.admin_token,
        .address = (const struct sockaddr *)(const void *)&listener.address,
    };
    code = authority_open(&authority, &server->authority, err);
    if (code == ERR_OK) {
        server->daemon = start_daemon(server, &listener, certificate, key);
        if (server->daemon == NULL)
            code = err_set(err, ERR_UNAVAILABLE,
                           certificate == NULL
                               ? "the HTTP server could not be started"
                               : "the HTTPS server could not be started: are the certificate and "
                                 "the key right?");
    }
    if (code != ERR_OK)
        (void)close(listener.socket);
    return code;
}

static enum error_code start_parts(struct server *server, struct err *err)
{
    struct buf document;
    buf_init(&document, &server->arena, 64 * 1024);
    openapi_write(&document);
    server->openapi = buf_str(&document);
    server->connections = connections_new(server);
    server->readers = pool_open(READERS, READS_WAITING_MAX);
    server->movers = pool_open(MOVERS, MOVES_WAITING_MAX);
    server->watch = watch_open(server->engine);
    atomic_store(&server->store_seen, engine_steady(server->engine));
    if (document.failed || server->connections == NULL || server->readers == NULL ||
        server->movers == NULL || server->watch == NULL)
        return err_set(err, ERR_UNAVAILABLE, "there is no memory, or there are no threads left");
    enum error_code code = start_serving(server, err);
    if (code != ERR_OK)
        return code;
    server->has_sweeper = pool_start_thread(sweep, server, &server->sweeper);
    return server->has_sweeper
               ? ERR_OK
               : (enum error_code)err_set(err, ERR_UNAVAILABLE, "there are no threads left");
}

enum error_code server_open(struct str url, const struct server_options *options,
                            struct server **ret, struct err *err)
{
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is no memory for a server");
    arena_init(&server->arena);
    enum error_code code = copy_options(server, options, err);
    struct handle_options handle = {.engine = options->engine, .actor = STR("server")};
    if (code == ERR_OK)
        code = handle_open(url, &handle, &server->handle, err);
    if (code == ERR_OK) {
        server->engine = handle_engine(server->handle);
        if (server->engine == NULL)
            code = err_set(err, ERR_UNAVAILABLE,
                           "%.*s is in use by another process of Pawl, which has to serve it or to "
                           "end first",
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

void server_drain(struct server *server, int64_t wait_ms)
{
    enum { LOOK_MS = 10 };
    if (atomic_exchange(&server->draining, true))
        return;
    int64_t until = engine_steady(server->engine) + wait_ms;
    engine_interrupt(server->engine);
    watch_interrupt(server->watch);
    uint32_t busy;
    while (connections_count(server->connections, &busy) > 0 && busy > 0 &&
           engine_steady(server->engine) < until)
        pause_for(LOOK_MS);
}

void server_close(struct server *server)
{
    enum { LOOK_MS = 2 };
    if (server == NULL)
        return;
    if (server->daemon != NULL)
        server_drain(server, 0);
    atomic_store(&server->closing, true);
    if (server->has_sweeper)
        (void)pthread_join(server->sweeper, NULL);
    /* The engine and the pools finish what they have; then all connections are resumed. */
    while (atomic_load(&server->working) > 0)
        pause_for(LOOK_MS);
    if (server->daemon != NULL)
        MHD_stop_daemon(server->daemon);
    watch_close(server->watch);
    pool_close(server->movers);
    pool_close(server->readers);
    connections_free(server->connections);
    authority_close(server->authority);
    handle_close(server->handle);
    arena_release(&server->arena);
    free(server);
}
