#include "store/postgres/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/postgres/reader.h"

/* ---- the thread ---- */

/* Whether this connection can hear notifications: a pooler makes up the numbers of backends. */
static bool can_listen(struct connection *connection, struct arena *arena)
{
    PGresult *result = NULL;
    struct err ignored;
    struct reader reader;
    if (connection_ask(connection, "SELECT pg_backend_pid()::int8", NULL, &result, &ignored) !=
        ERR_OK)
        return false;
    reader_init(&reader, result, arena);
    reader_row(&reader, 0);
    int64_t pid = reader_int(&reader);
    PQclear(result);
    return connection_sync(connection, &ignored) == ERR_OK && pid == PQbackendPID(connection->pg);
}

static bool connect_watch(struct watch *watch)
{
    struct err ignored;
    struct arena arena;
    if (watch->connection.pg != NULL && !watch->connection.broken &&
        watch->connection.generation == *watch->generation)
        return true;
    watch->listening = false;
    if (watch->open(watch->open_arg, &watch->connection, clock_monotonic_ms() + WATCH_CLOSE_MS,
                    &ignored) != ERR_OK)
        return false;
    arena_init(&arena);
    if (can_listen(&watch->connection, &arena) &&
        connection_send_quiet(&watch->connection, "LISTEN pawl", NULL, &ignored) == ERR_OK)
        watch->listening = connection_sync(&watch->connection, &ignored) == ERR_OK;
    arena_release(&arena);
    return !watch->connection.broken;
}

static void tell(struct watch *watch, bool by_others)
{
    (void)pthread_mutex_lock(&watch->mutex);
    watch->commits++;
    (void)pthread_cond_broadcast(&watch->changed);
    if (by_others) {
        watch->others++;
        (void)pthread_cond_broadcast(&watch->changed_by_others);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
}

/* Reads what has been heard; what we sent ourselves is no news. */
static void hear(struct watch *watch)
{
    bool news = false;
    PGnotify *notify;
    while ((notify = PQnotifies(watch->connection.pg)) != NULL) {
        news = news || notify->be_pid != PQbackendPID(watch->connection.pg);
        PQfreemem(notify);
    }
    if (news)
        tell(watch, true);
}

/* Whether what a look has found counts as others'. */
static bool is_of_others(struct watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    bool own = watch->own != watch->own_seen;
    watch->own_seen = watch->own;
    (void)pthread_mutex_unlock(&watch->mutex);
    if (watch->listening && own && ++watch->unsure < WATCH_UNSURE_MAX)
        return false;
    watch->unsure = 0;
    return true;
}

/* Any commit changes what a snapshot sees; so does the end of whatever holds the feed back. */
static void look(struct watch *watch)
{
    PGresult *result = NULL;
    struct err ignored;
    char text[sizeof watch->seen] = "";
    if (connection_ask(&watch->connection, "SELECT pg_current_snapshot()::text", NULL, &result,
                       &ignored) == ERR_OK) {
        size_t len = (size_t)PQgetlength(result, 0, 0);
        len = len < sizeof text - 1 ? len : sizeof text - 1;
        memcpy(text, PQgetvalue(result, 0, 0), len);
        PQclear(result);
    }
    if (connection_sync(&watch->connection, &ignored) != ERR_OK)
        return;
    if (strcmp(text, watch->seen) != 0) {
        memcpy(watch->seen, text, sizeof text);
        tell(watch, is_of_others(watch));
    }
}

/* A hint need not outlive the server: nobody waits for the disk. */
static void send_news(struct watch *watch)
{
    struct connection *connection = &watch->connection;
    struct err ignored;
    (void)pthread_mutex_lock(&watch->mutex);
    watch->own++;
    (void)pthread_mutex_unlock(&watch->mutex);
    enum error_code code = connection_send_quiet(
        connection,
        "SELECT set_config('synchronous_commit', 'off', true), pg_notify('pawl', '')::text", NULL,
        &ignored);
    if (code == ERR_OK)
        code = connection_sync(connection, &ignored);
    if (code != ERR_OK)
        connection_rollback(connection);
}

static void drain_pipe(int fd)
{
    char bytes[64];
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

/* Sleeps until something is to be done. */
static void rest(struct watch *watch, bool connected, int64_t until)
{
    struct err ignored;
    if (connected) {
        (void)connection_listen(&watch->connection, watch->wake[0], until, &ignored);
    } else {
        int64_t left = until - clock_monotonic_ms();
        struct pollfd entry = {.fd = watch->wake[0], .events = POLLIN};
        (void)poll(&entry, 1, left <= 0 ? 0 : (int)left);
    }
    drain_pipe(watch->wake[0]);
}

struct watch_plan {
    bool stop;
    bool notify;
    bool look;
};

static struct watch_plan plan(struct watch *watch, int64_t now, int64_t notified, int64_t looked)
{
    (void)pthread_mutex_lock(&watch->mutex);
    int64_t every = watch->listening ? WATCH_LOOK_MS : WATCH_POLL_MS;
    struct watch_plan plan = {
        .stop = watch->stopping && !watch->is_due,
        .notify = watch->is_due && (now - notified >= WATCH_NOTIFY_MS || watch->stopping),
        .look = watch->waiting > 0 && now - looked >= every,
    };
    if (plan.notify)
        watch->is_due = false;
    (void)pthread_mutex_unlock(&watch->mutex);
    return plan;
}

/* Until when there is nothing to do. */
static int64_t next_time(struct watch *watch, int64_t now, int64_t notified, int64_t looked)
{
    (void)pthread_mutex_lock(&watch->mutex);
    int64_t every = watch->listening ? WATCH_LOOK_MS : WATCH_POLL_MS;
    int64_t until = now + 60 * 1000;
    if (watch->waiting > 0 && looked + every < until)
        until = looked + every;
    if (watch->is_due && notified + WATCH_NOTIFY_MS < until)
        until = notified + WATCH_NOTIFY_MS;
    if (watch->stopping)
        until = now;
    (void)pthread_mutex_unlock(&watch->mutex);
    return until;
}

/* Waits for the next attempt to connect. True when it is time to give up for good. */
static bool wait_unconnected(struct watch *watch)
{
    rest(watch, false, clock_monotonic_ms() + WATCH_RETRY_MS);
    (void)pthread_mutex_lock(&watch->mutex);
    bool stop = watch->stopping;
    (void)pthread_mutex_unlock(&watch->mutex);
    return stop;
}

static void *watch_run(void *arg)
{
    struct watch *watch = arg;
    int64_t notified = clock_monotonic_ms() - WATCH_NOTIFY_MS;
    int64_t looked = 0;
    for (;;) {
        if (!connect_watch(watch)) {
            if (wait_unconnected(watch))
                break;
            continue;
        }
        int64_t now = clock_monotonic_ms();
        struct watch_plan todo = plan(watch, now, notified, looked);
        if (todo.stop)
            break;
        if (todo.notify) {
            send_news(watch);
            notified = clock_monotonic_ms();
        }
        if (todo.look) {
            look(watch);
            looked = clock_monotonic_ms();
        }
        if (watch->connection.broken)
            continue;
        hear(watch);
        now = clock_monotonic_ms();
        rest(watch, true, next_time(watch, now, notified, looked));
    }
    connection_close(&watch->connection);
    return NULL;
}

/* ---- the handle ---- */

enum error_code watch_init(struct watch *watch, watch_open_fn open, void *arg,
                           const _Atomic uint64_t *generation, struct err *err)
{
    *watch = (struct watch){
        .open_arg = arg, .generation = generation, .connection = {.timeout_ms = WATCH_CLOSE_MS}};
    if (pipe(watch->wake) != 0)
        return err_set(err, ERR_UNAVAILABLE, "cannot create a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        (void)fcntl(watch->wake[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(watch->wake[i], F_SETFD, FD_CLOEXEC);
    }
    (void)pthread_mutex_init(&watch->mutex, NULL);
    bool first = condition_init(&watch->changed);
    bool second = condition_init(&watch->changed_by_others);
    if (!first || !second) {
        if (first)
            (void)pthread_cond_destroy(&watch->changed);
        if (second)
            (void)pthread_cond_destroy(&watch->changed_by_others);
        (void)pthread_mutex_destroy(&watch->mutex);
        (void)close(watch->wake[0]);
        (void)close(watch->wake[1]);
        return err_set(err, ERR_UNAVAILABLE, "cannot create a condition variable for the store");
    }
    watch->open = open; /* from here on it is told of things */
    return ERR_OK;
}

static void wake(const struct watch *watch)
{
    /* A full pipe wakes just as well. */
    if (write(watch->wake[1], "", 1) < 0)
        return;
}

void watch_release(struct watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    watch->stopping = true;
    bool started = watch->started;
    (void)pthread_mutex_unlock(&watch->mutex);
    if (started) {
        wake(watch);
        (void)pthread_join(watch->thread, NULL);
    }
    (void)close(watch->wake[0]);
    (void)close(watch->wake[1]);
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_cond_destroy(&watch->changed_by_others);
    (void)pthread_mutex_destroy(&watch->mutex);
}

/* Starts the thread when it is first needed; it takes no signals. Without one, waits are just
 * waits. */
static void start(struct watch *watch)
{
    sigset_t all;
    sigset_t before;
    if (watch->started || watch->stopping)
        return;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->started = pthread_create(&watch->thread, NULL, watch_run, watch) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void watch_moved(struct watch *watch)
{
    tell(watch, true);
    wake(watch);
}

void watch_committed(struct watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    watch->commits++;
    watch->own++;
    bool was_due = watch->is_due;
    watch->is_due = true;
    start(watch);
    (void)pthread_cond_broadcast(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    if (!was_due)
        wake(watch);
}

uint64_t watch_wait(struct watch *watch, bool for_others, uint64_t seen, int64_t wait_ms)
{
    struct timespec until = condition_deadline(wait_ms);
    const uint64_t *commits = for_others ? &watch->others : &watch->commits;
    pthread_cond_t *changed = for_others ? &watch->changed_by_others : &watch->changed;
    (void)pthread_mutex_lock(&watch->mutex);
    int waited = 0;
    start(watch);
    watch->waiting++;
    if (*commits == seen)
        wake(watch);
    while (*commits == seen && waited == 0)
        waited = pthread_cond_timedwait(changed, &watch->mutex, &until);
    watch->waiting--;
    uint64_t now = *commits;
    (void)pthread_mutex_unlock(&watch->mutex);
    return now;
}
