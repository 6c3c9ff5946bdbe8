#define _GNU_SOURCE /* NOLINT: accept4 */
#include "server/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/server_private.h"

enum {
    ACCEPT_MAX = 16,            /* connections in one round */
    PAUSE_MS = 100,             /* without accepting, when there is no room for connections */
    HEAD_BYTES_MAX = 16 * 1024, /* what libmicrohttpd keeps of a connection, and clears each time */
};

/* A connection on its way from the loop that accepted it to its own. */
struct arrival {
    struct arrival *next;
    int socket;
    socklen_t len;
    struct sockaddr_storage address;
};

struct loop {
    struct call_sink sink;
    struct loops *loops;
    struct MHD_Daemon *daemon;
    unsigned long thread;
    bool started;
    bool listening;     /* the listener is among what is waited for */
    int events;         /* of epoll: the daemon's, the listener, `wakeup` */
    int wakeup;         /* an eventfd */
    struct call *calls; /* of this round, in order; of the loop alone */
    struct call *calls_last;
    atomic_uint count;   /* of connections, those on their way included */
    atomic_bool asleep;  /* or about to be */
    atomic_bool working; /* it may be running a batch, and the store may make it wait */
    pthread_mutex_t mutex;
    struct connection *done;  /* the inbox: what goes on, the last first; under the mutex */
    struct arrival *arrivals; /* and who has come; under the mutex */
};

struct loops {
    struct server *server;
    int listener;
    atomic_bool stop;
    uint32_t count;
    struct loop loops[];
};

struct server *loop_server(const struct loop *loop)
{
    return loop->loops->server;
}

/* ---- the inbox ---- */

void loop_wake(struct loop *loop)
{
    if (atomic_exchange(&loop->asleep, false))
        (void)eventfd_write(loop->wakeup, 1);
}

static void wake_sink(struct call_sink *sink)
{
    loop_wake((struct loop *)(void *)sink);
}

struct call_sink *loop_sink(struct loop *loop)
{
    return &loop->sink;
}

void loop_resume(struct loop *loop, struct connection *connection)
{
    (void)pthread_mutex_lock(&loop->mutex);
    connection->next_done = loop->done;
    loop->done = connection;
    (void)pthread_mutex_unlock(&loop->mutex);
}

static bool has_inbox(struct loop *loop)
{
    (void)pthread_mutex_lock(&loop->mutex);
    bool some = loop->done != NULL || loop->arrivals != NULL;
    (void)pthread_mutex_unlock(&loop->mutex);
    return some;
}

static void admit(struct loop *loop, int socket, const struct sockaddr *address, socklen_t len)
{
    /* It closes the socket when it does not take it. */
    if (MHD_add_connection(loop->daemon, socket, address, len) != MHD_YES)
        loop_forget(loop);
}

static void take_inbox(struct loop *loop)
{
    (void)pthread_mutex_lock(&loop->mutex);
    struct connection *done = loop->done;
    struct arrival *arrivals = loop->arrivals;
    loop->done = NULL;
    loop->arrivals = NULL;
    (void)pthread_mutex_unlock(&loop->mutex);
    while (done != NULL) {
        struct connection *next = done->next_done;
        MHD_resume_connection(done->http);
        done = next;
    }
    while (arrivals != NULL) {
        struct arrival *next = arrivals->next;
        admit(loop, arrivals->socket, (const struct sockaddr *)(const void *)&arrivals->address,
              arrivals->len);
        free(arrivals);
        arrivals = next;
    }
}

/* ---- accepting ---- */

void loop_forget(struct loop *loop)
{
    (void)atomic_fetch_sub(&loop->count, 1);
}

static void listen_on(struct loop *loop, bool listening)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = -1};
    event.data.fd = loop->loops->listener;
    if (loop->listening != listening &&
        epoll_ctl(loop->events, listening ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, loop->loops->listener,
                  &event) == 0)
        loop->listening = listening;
}

/* The loop that has the fewest connections, of those that run no batch; this one when it is no
 * worse. A probe of the server's health must not wait for a disk that hangs. */
static struct loop *least_busy(struct loop *loop)
{
    struct loop *least = loop;
    for (uint32_t i = 0; i < loop->loops->count; i++)
        if (!atomic_load(&loop->loops->loops[i].working) &&
            atomic_load(&loop->loops->loops[i].count) < atomic_load(&least->count))
            least = &loop->loops->loops[i];
    return least;
}

static void pass_on(struct loop *loop, const struct arrival *arrival)
{
    struct arrival *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        (void)close(arrival->socket);
        loop_forget(loop);
        return;
    }
    *copy = *arrival;
    (void)pthread_mutex_lock(&loop->mutex);
    copy->next = loop->arrivals;
    loop->arrivals = copy;
    (void)pthread_mutex_unlock(&loop->mutex);
    loop_wake(loop);
}

static void accept_some(struct loop *loop)
{
    for (int i = 0; i < ACCEPT_MAX; i++) {
        struct arrival arrival = {.len = sizeof arrival.address};
        struct sockaddr *address = (struct sockaddr *)(void *)&arrival.address;
        bool room = connections_have_room(loop->loops->server->connections);
        if (room)
            arrival.socket =
                accept4(loop->loops->listener, address, &arrival.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (room && arrival.socket < 0 &&
            (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
            return;
        /* There is no room, or there are no descriptors: new clients wait. */
        if (!room || arrival.socket < 0) {
            listen_on(loop, false);
            return;
        }
        struct loop *to = least_busy(loop);
        (void)atomic_fetch_add(&to->count, 1);
        if (to == loop)
            admit(loop, arrival.socket, address, arrival.len);
        else
            pass_on(to, &arrival);
    }
}

/* ---- the loop ---- */

void loop_submit(struct loop *loop, struct call *call)
{
    call->next = NULL;
    if (loop->calls == NULL)
        loop->calls = call;
    else
        loop->calls_last->next = call;
    loop->calls_last = call;
}

static void hand_over(struct loop *loop)
{
    struct call *calls = loop->calls;
    loop->calls = loop->calls_last = NULL;
    if (calls == NULL)
        return;
    atomic_store(&loop->working, true);
    engine_submit_all(loop->loops->server->engine, calls, loop->loops->count > 1);
    atomic_store(&loop->working, false);
}

static int time_to_wait(struct loop *loop)
{
    MHD_UNSIGNED_LONG_LONG ms;
    int most = loop->listening ? -1 : PAUSE_MS;
    if (MHD_get_timeout(loop->daemon, &ms) != MHD_YES)
        return most;
    return most >= 0 && ms > PAUSE_MS ? PAUSE_MS : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static void wait_for_events(struct loop *loop)
{
    struct epoll_event events[4];
    int ms = time_to_wait(loop);
    atomic_store(&loop->asleep, true);
    if (ms != 0 && has_inbox(loop))
        ms = 0;
    int count = epoll_wait(loop->events, events, 4, ms);
    atomic_store(&loop->asleep, false);
    if (!loop->listening)
        listen_on(loop, true);
    for (int i = 0; i < count; i++)
        if (events[i].data.fd == loop->loops->listener)
            accept_some(loop);
}

static void *run(void *arg)
{
    struct loop *loop = arg;
    while (!atomic_load(&loop->loops->stop)) {
        take_inbox(loop);
        (void)MHD_run(loop->daemon);
        hand_over(loop);
        wait_for_events(loop);
    }
    return NULL;
}

/* ---- from start to end ---- */

static struct MHD_Daemon *start_daemon(struct loop *loop, const struct loop_callbacks *callbacks)
{
    struct server *server = loop->loops->server;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
                     (server->tls == NULL ? 0U : (unsigned)MHD_USE_TLS);
    struct MHD_OptionItem more[] = {{MHD_OPTION_END, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    if (server->tls != NULL)
        more[0] = tls_option();
    return MHD_start_daemon(
        flags, 0, callbacks->accept, server, callbacks->request, server,
        MHD_OPTION_NOTIFY_CONNECTION, callbacks->connection, loop, MHD_OPTION_NOTIFY_COMPLETED,
        callbacks->completed, server, MHD_OPTION_URI_LOG_CALLBACK, callbacks->line, server,
        MHD_OPTION_UNESCAPE_CALLBACK, callbacks->unescape, server,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_CONNECTION_LIMIT, connections_max(server->connections), MHD_OPTION_ARRAY, more,
        MHD_OPTION_END);
}

static bool watch_fd(const struct loop *loop, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(loop->events, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool init(struct loop *loop, const struct loop_callbacks *callbacks)
{
    loop->sink.flush = wake_sink;
    loop->events = epoll_create1(EPOLL_CLOEXEC);
    loop->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->daemon = loop->events < 0 || loop->wakeup < 0 ? NULL : start_daemon(loop, callbacks);
    const union MHD_DaemonInfo *info =
        loop->daemon == NULL ? NULL : MHD_get_daemon_info(loop->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    /* The edge of the eventfd will do: it is never read. */
    if (info == NULL || !watch_fd(loop, info->epoll_fd, EPOLLIN) ||
        !watch_fd(loop, loop->wakeup, EPOLLIN | EPOLLET))
        return false;
    listen_on(loop, true);
    return loop->listening;
}

static void stop(struct loop *loop)
{
    while (loop->arrivals != NULL) {
        struct arrival *next = loop->arrivals->next;
        (void)close(loop->arrivals->socket);
        free(loop->arrivals);
        loop->arrivals = next;
    }
    if (loop->daemon != NULL)
        MHD_stop_daemon(loop->daemon);
    loop->daemon = NULL;
}

enum error_code loops_open(struct server *server, int listener,
                           const struct loop_callbacks *callbacks, struct loops **ret,
                           struct err *err)
{
    uint32_t count = server->options.threads;
    struct loops *loops = calloc(1, sizeof *loops + count * sizeof loops->loops[0]);
    char room[128];
    const char *why = "no more threads available";
    if (loops == NULL) {
        (void)close(listener);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    loops->server = server;
    loops->listener = listener;
    loops->count = count;
    for (uint32_t i = 0; i < count; i++) {
        loops->loops[i].loops = loops;
        loops->loops[i].events = loops->loops[i].wakeup = -1;
        (void)pthread_mutex_init(&loops->loops[i].mutex, NULL);
    }
    bool started = true;
    for (uint32_t i = 0; i < count && started; i++) {
        errno = 0;
        started = init(&loops->loops[i], callbacks);
        if (!started)
            why = strerror_r(errno, room, sizeof room);
    }
    /* A loop that runs may give connections to any other. */
    for (uint32_t i = 0; i < count && started; i++) {
        struct loop *loop = &loops->loops[i];
        started = loop->started = pool_start_thread(run, loop, &loop->thread);
    }
    if (started) {
        *ret = loops;
        return ERR_OK;
    }
    loops_close(loops);
    loops_free(loops);
    return err_set(err, ERR_UNAVAILABLE, "cannot start the HTTP server: %s", why);
}

void loops_close(struct loops *loops)
{
    if (loops == NULL)
        return;
    atomic_store(&loops->stop, true);
    for (uint32_t i = 0; i < loops->count; i++) {
        struct loop *loop = &loops->loops[i];
        if (loop->started) {
            (void)eventfd_write(loop->wakeup, 1);
            (void)pthread_join(loop->thread, NULL);
        }
    }
    for (uint32_t i = 0; i < loops->count; i++)
        stop(&loops->loops[i]);
    (void)close(loops->listener);
}

void loops_free(struct loops *loops)
{
    for (uint32_t i = 0; loops != NULL && i < loops->count; i++) {
        struct loop *loop = &loops->loops[i];
        if (loop->wakeup >= 0)
            (void)close(loop->wakeup);
        if (loop->events >= 0)
            (void)close(loop->events);
        (void)pthread_mutex_destroy(&loop->mutex);
    }
    free(loops);
}
