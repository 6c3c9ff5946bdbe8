#define _GNU_SOURCE /* NOLINT: POLLRDHUP */
#include "server/connection.h"

#include <assert.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/clients.h"
#include "server/server_private.h"

enum {
    KEPT_BYTES_MAX = 16 * 1024, /* what a connection that does nothing may hold on to */
    HASTE = 8,                  /* when there is little room, times are so much shorter */
    CROWD = 512,                /* so many connections are worth a look at memory when they go */
    LARGE_BYTES = 1024 * 1024,  /* so much is worth it, too */
    EXCESS_MS = 1000,           /* beyond the limit a request must have come by then */
    LEFT_MS = 1000,             /* what does not go on for so long may have been left alone */
};

struct connections {
    const struct server *server;
    pthread_mutex_t mutex;
    struct connection *first;
    struct clients *clients;
    uint32_t count;
    uint32_t peak; /* since memory was last given back */
    /* Large pieces that were freed: in all, as of the sweep before, and when memory was last given
     * back. */
    atomic_uint freed;
    unsigned freed_before;
    unsigned freed_then;
};

struct connections *connections_new(const struct server *server)
{
    struct connections *connections = calloc(1, sizeof *connections);
    if (connections == NULL)
        return NULL;
    connections->clients = clients_new();
    if (connections->clients == NULL) {
        free(connections);
        return NULL;
    }
    connections->server = server;
    (void)pthread_mutex_init(&connections->mutex, NULL);
    return connections;
}

void connections_free(struct connections *connections)
{
    if (connections == NULL)
        return;
    assert(connections->first == NULL);
    clients_free(connections->clients);
    (void)pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

/* ---- one ---- */

uint32_t connections_max(const struct connections *connections)
{
    return connections->server->options.limits.connections + CONNECTIONS_EXCESS_MAX;
}

bool connections_have_room(struct connections *connections)
{
    (void)pthread_mutex_lock(&connections->mutex);
    bool room = connections->count < connections_max(connections);
    (void)pthread_mutex_unlock(&connections->mutex);
    return room;
}

bool connections_take(struct connections *connections, const struct sockaddr *address)
{
    uint32_t max =
        connections->server->options.limits.connections_per_client + CONNECTIONS_EXCESS_MAX;
    (void)pthread_mutex_lock(&connections->mutex);
    struct client *client = clients_join(connections->clients, address);
    bool taken = client == NULL || client->count <= max;
    clients_leave(connections->clients, client);
    (void)pthread_mutex_unlock(&connections->mutex);
    return taken;
}

static void add(struct loop *loop, struct MHD_Connection *http, void **socket_context)
{
    struct server *server = loop_server(loop);
    struct connections *connections = server->connections;
    const struct server_limits *limits = &server->options.limits;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL || info == NULL) {
        free(connection);
        return;
    }
    connection->server = server;
    connection->loop = loop;
    connection->http = http;
    connection->socket = info->connect_fd;
    connection->pair = tls_attach(server->tls, http);
    arena_init(&connection->arena);
    arena_init(&connection->scratch);
    connection_move(connection, SERVING_OVER);
    info = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    (void)pthread_mutex_lock(&connections->mutex);
    connection->client =
        clients_join(connections->clients, info == NULL ? NULL : info->client_addr);
    connection->next = connections->first;
    if (connection->next != NULL)
        connection->next->previous = connection;
    connections->first = connection;
    connections->count++;
    if (atomic_load(&server->draining))
        connection->reception = RECEPTION_LATE;
    else if (connections->count > limits->connections ||
             (connection->client != NULL &&
              connection->client->count > limits->connections_per_client))
        connection->reception = RECEPTION_EXCESS;
    (void)pthread_mutex_unlock(&connections->mutex);
    *socket_context = connection;
}

static void drop(struct server *server, struct connection *connection)
{
    struct connections *connections = server->connections;
    (void)pthread_mutex_lock(&connections->mutex);
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        connections->first = connection->next;
    connections->count--;
    clients_leave(connections->clients, connection->client);
    (void)pthread_mutex_unlock(&connections->mutex);
    tls_detach(server->tls, connection->pair);
    arena_release(&connection->scratch);
    arena_release(&connection->arena);
    free(connection);
}

void connection_notify(void *cls, struct MHD_Connection *http, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
    struct loop *loop = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        add(loop, http, socket_context);
        return;
    }
    loop_forget(loop);
    if (*socket_context != NULL)
        drop(loop_server(loop), *socket_context);
}

struct connection *connection_of(struct MHD_Connection *http)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

enum serving_state connection_state(const struct connection *connection)
{
    return atomic_load_explicit(&connection->state, memory_order_relaxed);
}

void connection_move(struct connection *connection, enum serving_event event)
{
    enum serving_state to = serving_move(connection_state(connection), event);
    assert(to != SERVING_STATE_COUNT);
    atomic_store_explicit(&connection->state_since, engine_steady(connection->server->engine),
                          memory_order_relaxed);
    atomic_store_explicit(&connection->state, to, memory_order_release);
}

static void forget(struct connection *connection, struct arena *arena)
{
    if (arena_size(arena) >= LARGE_BYTES)
        (void)atomic_fetch_add(&connection->server->connections->freed, 1);
    arena_clear(arena);
    if (arena->end - arena->next > KEPT_BYTES_MAX)
        arena_release(arena);
}

/* ---- what answers take ---- */

/* Answers that nobody takes shall not turn away what comes in: a part of the room is for requests
 * only. */
static size_t room_of(const struct server_limits *limits)
{
    return limits->bytes_max - limits->bytes_max / 4;
}

bool connection_hold(struct connection *connection, size_t bytes)
{
    struct server *server = connection->server;
    assert(connection->answer_held == 0);
    size_t others = atomic_fetch_add(&server->held, bytes) - connection->held;
    connection->answer_held = bytes;
    /* One that is too large for the limit is let through when it is alone. */
    if (others == 0 || others + bytes <= room_of(&server->options.limits))
        return true;
    (void)atomic_fetch_sub(&server->held, bytes);
    connection->answer_held = 0;
    return false;
}

bool connection_has_room(const struct connection *connection)
{
    const struct server *server = connection->server;
    return atomic_load(&server->held) < server->options.limits.bytes_max;
}

bool connection_keep(struct connection *connection, bool always, struct str *answer)
{
    struct arena *scratch = &connection->scratch;
    struct arena exact;
    (void)atomic_fetch_sub(&connection->server->held, connection->answer_held);
    connection->answer_held = 0;
    if (arena_size(scratch) <= KEPT_BYTES_MAX)
        return true;
    arena_init(&exact);
    struct str copy = arena_copy(&exact, *answer);
    if (str_is_set(copy)) {
        forget(connection, scratch);
        arena_release(scratch);
        *scratch = exact;
        *answer = copy;
    }
    size_t bytes = arena_size(scratch);
    if (connection_hold(connection, bytes))
        return true;
    if (!always) {
        connection_let_go(connection);
        return false;
    }
    (void)atomic_fetch_add(&connection->server->held, bytes);
    connection->answer_held = bytes;
    return true;
}

void connection_let_go(struct connection *connection)
{
    forget(connection, &connection->scratch);
    (void)atomic_fetch_sub(&connection->server->held, connection->answer_held);
    connection->answer_held = 0;
    connection->answer = (struct buf){0};
    connection->pending = (struct str){0};
    connection->sent = 0;
}

void connection_reset(struct connection *connection)
{
    forget(connection, &connection->arena);
    connection_let_go(connection);
    (void)atomic_fetch_sub(&connection->server->held, connection->held);
    connection->status = 0;
    connection->match = (struct route_match){0};
    connection->is_head = false;
    connection->allow = (struct str){0};
    connection->asked = (struct auth_request){0};
    connection->auth = (struct auth){0};
    connection->retry_ms = 0;
    connection->request = (struct buf){0};
    connection->head_len = connection->held = connection->dropped = 0;
    connection->code = ERR_OK;
    connection->err = (struct err){0};
    connection->call = (struct verb_call){0};
    connection->claims = (struct undelivered_claims){0};
    connection->response = RESPONSE_NONE;
    connection->wait_until = 0;
    connection->stream = false;
    connection_move(connection, SERVING_OVER);
}

bool connection_is_gone(const struct connection *connection)
{
    struct pollfd entry = {.fd = connection->socket, .events = POLLRDHUP};
    return poll(&entry, 1, 0) > 0;
}

/* ---- all ---- */

bool connection_take_key(struct connection *connection)
{
    struct connections *connections = connection->server->connections;
    const struct verb_call *call = &connection->call;
    bool taken = false;
    (void)pthread_mutex_lock(&connections->mutex);
    for (const struct connection *at = connections->first; at != NULL && !taken; at = at->next)
        taken =
            at->has_key && str_eq(at->call.key, call->key) && str_eq(at->call.scope, call->scope);
    connection->has_key = !taken;
    (void)pthread_mutex_unlock(&connections->mutex);
    return !taken;
}

void connection_leave_key(struct connection *connection)
{
    struct connections *connections = connection->server->connections;
    (void)pthread_mutex_lock(&connections->mutex);
    connection->has_key = false;
    (void)pthread_mutex_unlock(&connections->mutex);
}

static int64_t allowed_ms(const struct server_limits *limits, enum serving_state state)
{
    switch (serving_limit(state)) {
    case LIMIT_IDLE:
        return limits->idle_ms;
    case LIMIT_RECEIVE:
        return limits->receive_ms;
    case LIMIT_SEND:
        return limits->send_ms;
    case LIMIT_NONE:
        break;
    }
    return INT64_MAX;
}

/* Whether the client has hung up amid its request, of which nothing is left to be read. When that
 * is in the first line or in the body libmicrohttpd waits for the rest. */
static bool is_left(const struct connection *connection, int64_t now)
{
    enum serving_limit limit =
        serving_limit(atomic_load_explicit(&connection->state, memory_order_acquire));
    char byte;
    return (limit == LIMIT_IDLE || limit == LIMIT_RECEIVE) &&
           now - atomic_load(&connection->state_since) > LEFT_MS &&
           recv(connection->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Whether a crowd was here and is gone. */
static bool has_left(struct connections *connections)
{
    if (connections->peak < connections->count)
        connections->peak = connections->count;
    bool left = connections->peak >= CROWD && connections->count < connections->peak / 4;
    if (left)
        connections->peak = connections->count;
    return left;
}

/* Whether there is little room left for others. */
static bool is_crowded(uint32_t count, uint32_t max)
{
    return count > max / 10 * 9;
}

/* Whether large pieces were freed, and none for a while: then they are not needed at once again. */
static bool is_quiet(struct connections *connections)
{
    unsigned freed = atomic_load(&connections->freed);
    bool quiet = freed != connections->freed_then && freed == connections->freed_before;
    connections->freed_before = freed;
    if (quiet)
        connections->freed_then = freed;
    return quiet;
}

void connections_sweep(struct connections *connections)
{
    const struct server_limits *limits = &connections->server->options.limits;
    int64_t now = engine_steady(connections->server->engine);
    (void)pthread_mutex_lock(&connections->mutex);
    bool crowded = is_crowded(connections->count, limits->connections);
    for (struct connection *at = connections->first; at != NULL; at = at->next) {
        /* In the other order than they are written: a new state never goes with an old time. */
        int64_t allowed =
            allowed_ms(limits, atomic_load_explicit(&at->state, memory_order_acquire));
        int64_t since = atomic_load(&at->state_since);
        bool hurried = crowded || (at->client != NULL &&
                                   is_crowded(at->client->count, limits->connections_per_client));
        if (hurried && allowed != INT64_MAX)
            allowed /= HASTE;
        if (at->reception == RECEPTION_EXCESS && allowed > EXCESS_MS)
            allowed = EXCESS_MS;
        /* libmicrohttpd sees the end and closes it. */
        if (now - since > allowed || is_left(at, now))
            (void)shutdown(at->socket, SHUT_RDWR);
    }
    bool left = has_left(connections);
    bool quiet = is_quiet(connections);
    (void)pthread_mutex_unlock(&connections->mutex);
    /* libmicrohttpd's memory of them is in pieces that would stay with us; and of what is large the
     * system's malloc keeps up to 64 MiB for each thread. */
    if (left || quiet)
        (void)malloc_trim(0);
}

uint32_t connections_cut(struct connections *connections)
{
    (void)pthread_mutex_lock(&connections->mutex);
    uint32_t count = connections->count;
    for (struct connection *at = connections->first; at != NULL; at = at->next)
        (void)shutdown(at->socket, SHUT_RDWR);
    (void)pthread_mutex_unlock(&connections->mutex);
    return count;
}

uint32_t connections_count(struct connections *connections, uint32_t *ret_busy)
{
    uint32_t busy = 0;
    (void)pthread_mutex_lock(&connections->mutex);
    uint32_t count = connections->count;
    for (struct connection *at = connections->first; at != NULL; at = at->next)
        busy += atomic_load(&at->state) != SERVING_IDLE && at->reception != RECEPTION_LATE;
    (void)pthread_mutex_unlock(&connections->mutex);
    *ret_busy = busy;
    return count;
}
