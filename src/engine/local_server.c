#define _GNU_SOURCE /* NOLINT: accept4 */
#include "engine/local_server.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/record.h"
#include "core/access.h"
#include "engine/local_protocol.h"
#include "engine/undelivered_claims.h"
#include "engine/verb.h"
#include "pawl.h"

enum {
    SEND_MS = 30 * 1000,          /* to take an answer, which may be large */
    STOP_MS = 5 * 1000,           /* then connections are cut, answered or not */
    LOOK_MS = 2 * 1000,           /* between two looks whether the socket is still there */
    PAUSE_MS = 50,                /* before the next try when there are no descriptors left */
    KEPT_BYTES_MAX = 1024 * 1024, /* what a connection that does nothing may hold on to */
};

struct connection {
    struct local_server *server;
    struct connection *next;
    pthread_t thread;
    int socket; /* -1 when it has ended */
};

struct local_server {
    struct engine *engine;
    int listener;    /* of the thread that takes connections, */
    int64_t look_at; /* which looks then whether its socket is still there */
    int wake;        /* readable when it is to stop */
    pthread_t thread;
    pthread_mutex_t mutex;       /* guards what follows */
    pthread_cond_t ended;        /* a connection has */
    struct connection *live;     /* at most LOCAL_CONNECTIONS_MAX, */
    uint32_t live_count;         /* which is so many, */
    struct connection *finished; /* and those whose threads are to be joined */
    bool stopping;
    struct local_place place; /* of the socket */
    char path[PATH_MAX];
};

static bool is_stopping(struct local_server *server)
{
    (void)pthread_mutex_lock(&server->mutex);
    bool stopping = server->stopping;
    (void)pthread_mutex_unlock(&server->mutex);
    return stopping;
}

/* ---- answers ---- */

static enum local_result send_answer(int socket, const struct local_frame *frame)
{
    return local_send(socket, frame, clock_monotonic_ms() + SEND_MS);
}

static enum local_result send_error(int socket, const struct err *err)
{
    struct local_frame frame = {
        .type = LOCAL_ANSWER,
        .code = (uint32_t)err->code,
        .status = (uint32_t)error_info(err->code)->http_status,
        .texts = {[LOCAL_MESSAGE] = str_from(err->detail)},
    };
    return send_answer(socket, &frame);
}

/* Tells what was wrong with a frame that could not be read; the connection is of no use then. */
static void complain(int socket, enum local_result result)
{
    struct err err;
    switch (result) {
    case LOCAL_DONE:
    case LOCAL_GONE:
        return;
    case LOCAL_LATE:
    case LOCAL_CUT:
        err_write(&err, ERR_BAD_REQUEST, "a frame was not complete within %d seconds",
                  LOCAL_FRAME_MS / 1000);
        break;
    case LOCAL_BROKEN:
        err_write(&err, ERR_BAD_REQUEST,
                  "not a Pawl frame: only the Pawl library may use this socket");
        break;
    case LOCAL_TOO_LARGE:
        err_write(&err, ERR_PAYLOAD_TOO_LARGE, "the request is too large: at most %d bytes",
                  LOCAL_REQUEST_BYTES_MAX);
        break;
    case LOCAL_NO_MEMORY:
        err_write(&err, ERR_NO_MEMORY, "out of memory");
        break;
    }
    (void)send_error(socket, &err);
}

/* ---- calls ---- */

static bool is_wanted(void *arg)
{
    struct connection *connection = arg;
    /* When the server stops it closes its ears, which looks as if the other side was gone. */
    return is_stopping(connection->server) || !local_is_gone(connection->socket);
}

static enum error_code read_call(struct connection *connection, struct arena *arena,
                                 const struct local_frame *frame, struct verb_call *ret,
                                 struct err *err)
{
    struct str scope = frame->texts[LOCAL_SCOPE];
    struct str key = frame->texts[LOCAL_KEY];
    enum verb_name name = verb_find(frame->texts[LOCAL_VERB]);
    if (name == VERB_COUNT)
        return err_set(err, ERR_BAD_REQUEST,
                       "Pawl %s, which owns the store, does not know the command \"%.*s\"",
                       pawl_version(), STR_ARG(frame->texts[LOCAL_VERB]));
    if (!record_is_name(frame->texts[LOCAL_ACTOR]) || access_is_reserved(frame->texts[LOCAL_ACTOR]))
        return err_set(err, ERR_BAD_REQUEST, "the actor must have 1 to %d bytes", NAME_BYTES_MAX);
    if (str_is_set(scope) != str_is_set(key) || (str_is_set(key) && !record_is_name(key)) ||
        (str_is_set(scope) && !record_is_name(scope)))
        return err_set(err, ERR_BAD_REQUEST, "a request key must have 1 to %d bytes and a scope",
                       NAME_BYTES_MAX);
    *ret = (struct verb_call){
        .engine = connection->server->engine,
        .arena = arena,
        .name = name,
        .request = frame->texts[LOCAL_REQUEST],
        .actor = frame->texts[LOCAL_ACTOR],
        .scope = scope,
        .key = key,
        .wanted = is_wanted,
        .wanted_arg = connection,
        .slice_ms = frame->code,
    };
    return ERR_OK;
}

/* Does everything for a call, and tells which leases it gives out. */
static enum error_code respond(struct verb_call *call, struct buf *answer,
                               struct undelivered_claims *ret_claims, struct err *err)
{
    enum error_code code = verb_do(call, err);
    if (code != ERR_OK)
        return code;
    verb_write(call, answer);
    *ret_claims = undelivered_claims_of(call, call->arena);
    verb_call_release(call);
    return answer->failed ? verb_no_memory(err) : ERR_OK;
}

/* Carries out a call and answers it; false when there is nobody to talk to any more. */
static bool answer_call(struct connection *connection, struct arena *arena,
                        const struct local_frame *frame)
{
    struct verb_call call;
    struct undelivered_claims claims;
    struct buf answer;
    struct err err = {0};
    buf_init(&answer, arena, 4096);
    enum error_code code = read_call(connection, arena, frame, &call, &err);
    /* Anyone who has given up since has been told that nothing was done. */
    if (code == ERR_OK && !is_wanted(connection))
        return false;
    if (code == ERR_OK)
        code = respond(&call, &answer, &claims, &err);
    if (code != ERR_OK) {
        err.code = code;
        return send_error(connection->socket, &err) == LOCAL_DONE;
    }
    struct local_frame reply = {
        .type = LOCAL_ANSWER,
        .status = (uint32_t)call.result.status,
        .texts = {[LOCAL_BODY] = buf_str(&answer)},
    };
    if (!call.result.has_come && (verb_is_claim(call.name) || verb_is_watch(call.name)))
        reply.texts[LOCAL_UNMET] = STR("");
    enum local_result result = send_answer(connection->socket, &reply);
    if (result != LOCAL_DONE)
        undelivered_claims_release(call.engine, &claims);
    if (result != LOCAL_TOO_LARGE)
        return result == LOCAL_DONE;
    (void)err_set(&err, ERR_PAYLOAD_TOO_LARGE,
                  "the response has %zu bytes; the limit between processes is %d: request less",
                  answer.len, LOCAL_ANSWER_BYTES_MAX);
    return send_error(connection->socket, &err) == LOCAL_DONE;
}

/* ---- connections ---- */

/* The first exchange: who the other side is, and whether it is understood. */
static bool greet(struct connection *connection, struct arena *arena)
{
    struct local_frame hello = {0};
    struct err err;
    int socket = connection->socket;
    enum local_result result =
        local_receive(socket, clock_monotonic_ms() + LOCAL_FRAME_MS, arena, &hello);
    if (result == LOCAL_DONE && hello.type != LOCAL_HELLO)
        result = LOCAL_BROKEN;
    if (result != LOCAL_DONE) {
        complain(socket, result);
        return false;
    }
    if (!local_may_call(socket)) {
        err_write(&err, ERR_FORBIDDEN, "the store is in use by another user's process");
        (void)send_error(socket, &err);
        return false;
    }
    if (hello.version != LOCAL_VERSION) {
        err_write(&err, ERR_UNAVAILABLE,
                  "the store is in use by Pawl %s, which is incompatible with %.*s: use the same "
                  "version, or end the other process",
                  pawl_version(), STR_ARG(hello.texts[LOCAL_LIBRARY]));
        (void)send_error(socket, &err);
        return false;
    }
    struct local_frame answer = {
        .type = LOCAL_ANSWER,
        .status = 200,
        .texts = {[LOCAL_BODY] = str_from(pawl_version())},
    };
    return send_answer(socket, &answer) == LOCAL_DONE;
}

/* One call; false when the connection has come to its end. */
static bool serve(struct connection *connection, struct arena *arena)
{
    struct local_frame frame = {0};
    enum local_result result = local_receive(connection->socket, LOCAL_NEVER, arena, &frame);
    if (result == LOCAL_DONE && (frame.type != LOCAL_CALL || frame.version != LOCAL_VERSION))
        result = LOCAL_BROKEN;
    if (result != LOCAL_DONE) {
        complain(connection->socket, result);
        return false;
    }
    return answer_call(connection, arena, &frame);
}

/* Makes room for the next call. */
static void forget(struct arena *arena)
{
    arena_clear(arena);
    if (arena->end - arena->next > KEPT_BYTES_MAX)
        arena_release(arena);
}

static void finish(struct connection *connection)
{
    struct local_server *server = connection->server;
    (void)pthread_mutex_lock(&server->mutex);
    struct connection **at = &server->live;
    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    server->live_count--;
    connection->next = server->finished;
    server->finished = connection;
    (void)close(connection->socket);
    connection->socket = -1;
    (void)pthread_cond_broadcast(&server->ended);
    (void)pthread_mutex_unlock(&server->mutex);
}

static void *connection_run(void *arg)
{
    struct connection *connection = arg;
    struct arena arena;
    arena_init(&arena);
    bool goes_on = greet(connection, &arena);
    while (goes_on && !is_stopping(connection->server)) {
        goes_on = serve(connection, &arena);
        forget(&arena);
    }
    arena_release(&arena);
    finish(connection);
    return NULL;
}

/* Starts a thread that takes no signals. */
static bool start_thread(pthread_t *ret, void *(*run)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(ret, NULL, run, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Says that there is no room, to somebody who has not even said hello, and hangs up. */
static void turn_away(int socket)
{
    struct err err;
    err_write(&err, ERR_UNAVAILABLE,
              "the process that owns the store already serves %d connections: retry later",
              LOCAL_CONNECTIONS_MAX);
    struct local_frame frame = {
        .type = LOCAL_ANSWER,
        .code = (uint32_t)err.code,
        .status = 503,
        .texts = {[LOCAL_MESSAGE] = str_from(err.detail)},
    };
    (void)local_send(socket, &frame, clock_monotonic_ms());
    (void)close(socket);
}

/* Takes up a connection, with a thread of its own. */
static void take_up(struct local_server *server, int socket)
{
    struct connection *connection = calloc(1, sizeof *connection);
    (void)pthread_mutex_lock(&server->mutex);
    bool taken = false;
    if (connection != NULL && server->live_count < LOCAL_CONNECTIONS_MAX && !server->stopping) {
        /* In the list before its thread can want to leave it. */
        *connection = (struct connection){.server = server, .next = server->live, .socket = socket};
        taken = start_thread(&connection->thread, connection_run, connection);
        if (taken) {
            server->live = connection;
            server->live_count++;
        }
    }
    (void)pthread_mutex_unlock(&server->mutex);
    if (taken)
        return;
    free(connection);
    turn_away(socket);
}

/* Joins the threads of connections that have ended. */
static void join_finished(struct local_server *server)
{
    (void)pthread_mutex_lock(&server->mutex);
    struct connection *connection = server->finished;
    server->finished = NULL;
    (void)pthread_mutex_unlock(&server->mutex);
    while (connection != NULL) {
        struct connection *next = connection->next;
        (void)pthread_join(connection->thread, NULL);
        free(connection);
        connection = next;
    }
}

/* Makes the socket anew when somebody has deleted it, or put something else in its place. */
static void look_after(struct local_server *server)
{
    int listener = -1;
    if (clock_monotonic_ms() < server->look_at)
        return;
    server->look_at = clock_monotonic_ms() + LOOK_MS;
    (void)pthread_mutex_lock(&server->mutex);
    if (!server->stopping && local_is_lost(server->path, &server->place) &&
        local_listen(server->path, &listener, &server->place, NULL) == ERR_OK && listener >= 0) {
        (void)close(server->listener);
        server->listener = listener;
    }
    (void)pthread_mutex_unlock(&server->mutex);
}

static void *server_run(void *arg)
{
    struct local_server *server = arg;
    for (;;) {
        struct pollfd entries[2] = {
            {.fd = server->wake, .events = POLLIN},
            {.fd = server->listener, .events = POLLIN},
        };
        (void)poll(entries, 2, LOOK_MS);
        if (is_stopping(server))
            return NULL;
        join_finished(server);
        int socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket >= 0)
            take_up(server, socket);
        else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            (void)poll(entries, 1, PAUSE_MS);
        look_after(server);
    }
}

/* ---- from start to stop ---- */

static void free_server(struct local_server *server)
{
    if (server->listener >= 0)
        (void)close(server->listener);
    if (server->wake >= 0)
        (void)close(server->wake);
    (void)pthread_cond_destroy(&server->ended);
    (void)pthread_mutex_destroy(&server->mutex);
    free(server);
}

static struct local_server *new_server(struct engine *engine, const char *db_path)
{
    struct local_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return NULL;
    server->engine = engine;
    server->listener = -1;
    server->wake = -1;
    (void)snprintf(server->path, sizeof server->path, "%s", db_path);
    (void)pthread_mutex_init(&server->mutex, NULL);
    (void)condition_init(&server->ended);
    return server;
}

enum error_code local_server_start(struct engine *engine, const char *db_path,
                                   struct local_server **ret, struct err *err)
{
    assert(strlen(db_path) < PATH_MAX);
    struct local_server *server = new_server(engine, db_path);
    if (server == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    enum error_code code = local_listen(db_path, &server->listener, &server->place, err);
    if (code != ERR_OK || server->listener < 0) {
        free_server(server);
        if (code == ERR_OK)
            *ret = NULL;
        return code;
    }
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake >= 0 && start_thread(&server->thread, server_run, server)) {
        *ret = server;
        return ERR_OK;
    }
    local_unlisten(db_path, &server->place);
    free_server(server);
    return err_set(
        err, ERR_UNAVAILABLE,
        "cannot share the store with other processes: no descriptors or threads available");
}

/* What is being carried out is answered, but nothing more is heard. Anyone who comes now finds no
 * socket, and tries again until there is a new owner. */
static void hang_up(struct local_server *server, int how)
{
    (void)pthread_mutex_lock(&server->mutex);
    server->stopping = true;
    local_unlisten(server->path, &server->place);
    for (struct connection *at = server->live; at != NULL; at = at->next)
        (void)shutdown(at->socket, how);
    (void)pthread_mutex_unlock(&server->mutex);
}

static void await_end(struct local_server *server, int64_t wait_ms)
{
    struct timespec until = condition_deadline(wait_ms);
    int waited = 0;
    (void)pthread_mutex_lock(&server->mutex);
    while (server->live_count > 0 && waited == 0)
        waited = wait_ms < 0 ? pthread_cond_wait(&server->ended, &server->mutex)
                             : pthread_cond_timedwait(&server->ended, &server->mutex, &until);
    (void)pthread_mutex_unlock(&server->mutex);
}

void local_server_stop(struct local_server *server)
{
    const uint64_t one = 1;
    ssize_t written;
    if (server == NULL)
        return;
    hang_up(server, SHUT_RD);
    do
        written = write(server->wake, &one, sizeof one);
    while (written < 0 && errno == EINTR);
    (void)pthread_join(server->thread, NULL);
    await_end(server, STOP_MS);
    hang_up(server, SHUT_RDWR);
    await_end(server, -1);
    join_finished(server);
    free_server(server);
}
