#include "engine/local_client.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/local_protocol.h"
#include "pawl.h"

enum {
    IDLE_MAX = 8, /* connections that are kept while nobody uses them */
    REASON_BYTES = 128,
};

struct local_client {
    int64_t timeout_ms;
    pthread_mutex_t mutex;  /* guards what follows */
    pthread_cond_t freed;   /* a connection is free, or there may be another one */
    uint32_t open_count;    /* connections, in use or not */
    uint32_t waiting_count; /* in use for calls that wait */
    uint64_t owner;         /* rises whenever the owner was lost */
    uint32_t idle_count;
    int idle[IDLE_MAX]; /* all of the same owner */
    char path[PATH_MAX];
};

/* A connection in use. */
struct line {
    int socket;
    bool waits;
    uint64_t owner;
};

enum error_code local_client_new(const char *db_path, int64_t timeout_ms, struct local_client **ret,
                                 struct err *err)
{
    assert(strlen(db_path) < PATH_MAX);
    struct local_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    client->timeout_ms = timeout_ms;
    (void)snprintf(client->path, sizeof client->path, "%s", db_path);
    (void)pthread_mutex_init(&client->mutex, NULL);
    (void)condition_init(&client->freed);
    *ret = client;
    return ERR_OK;
}

/* With the mutex held. */
static void close_idle(struct local_client *client)
{
    client->open_count -= client->idle_count;
    while (client->idle_count > 0)
        (void)close(client->idle[--client->idle_count]);
}

void local_client_free(struct local_client *client)
{
    if (client == NULL)
        return;
    close_idle(client);
    assert(client->open_count == 0);
    (void)pthread_cond_destroy(&client->freed);
    (void)pthread_mutex_destroy(&client->mutex);
    free(client);
}

/* ---- connecting ---- */

static enum error_code cannot_connect(int number, bool *ret_again, struct err *err)
{
    char text[REASON_BYTES];
    if (number == EACCES || number == EPERM) {
        *ret_again = false;
        return err_set(err, ERR_UNAVAILABLE, "the store is in use by another user's process");
    }
    if (strerror_r(number, text, sizeof text) != 0)
        (void)snprintf(text, sizeof text, "error %d", number);
    return err_set(err, ERR_UNAVAILABLE, "cannot reach the process that owns the store: %s", text);
}

/* A code that came from the other side, which may know more of them. */
static enum error_code known_code(uint32_t number)
{
    switch (number) {
#define ERROR(symbol, code, name, http, exit, title)                                               \
    case (code):                                                                                   \
        return ERR_##symbol;
#include "base/error.def"
#undef ERROR
    default:
        return ERR_UNAVAILABLE;
    }
}

/* What an answer says went wrong. */
static enum error_code read_error(const struct local_frame *frame, struct err *err)
{
    enum error_code code = known_code(frame->code);
    return code == ERR_OK ? ERR_OK
                          : err_set(err, code, "%.*s", (int)frame->texts[LOCAL_MESSAGE].len,
                                    str_start(frame->texts[LOCAL_MESSAGE]));
}

/* Says hello. That the other side hangs up while we speak matters only if it has said nothing. */
static enum error_code say_hello(int socket, int64_t deadline, bool *ret_again, struct err *err)
{
    struct arena arena;
    struct local_frame answer = {0};
    struct local_frame hello = {
        .type = LOCAL_HELLO,
        .texts = {[LOCAL_LIBRARY] = str_from(pawl_version())},
    };
    arena_init(&arena);
    (void)local_send(socket, &hello, deadline);
    enum local_result result = local_receive(socket, deadline, &arena, &answer);
    enum error_code code = ERR_OK;
    if (result == LOCAL_DONE && answer.type == LOCAL_ANSWER) {
        code = read_error(&answer, err);
        /* That there is no room passes by itself; to be of another version does not. */
        *ret_again = code == ERR_UNAVAILABLE && answer.version == LOCAL_VERSION;
    } else if (result == LOCAL_GONE || result == LOCAL_LATE || result == LOCAL_CUT) {
        code =
            err_set(err, ERR_UNAVAILABLE,
                    result == LOCAL_GONE ? "the process that owns the store closed the connection"
                                         : "the process that owns the store does not respond");
    } else {
        *ret_again = false;
        code = err_set(err, ERR_UNAVAILABLE, "unexpected response on the socket next to the store");
    }
    arena_release(&arena);
    return code;
}

/* A new connection to the owner, if that says hello before `deadline`. */
static enum error_code open_line(const struct local_client *client, int64_t deadline, int *ret,
                                 bool *ret_again, struct err *err)
{
    int64_t frame_end = clock_monotonic_ms() + LOCAL_FRAME_MS;
    *ret_again = true;
    int socket = local_connect(client->path);
    if (socket < 0)
        return cannot_connect(-socket, ret_again, err);
    enum error_code code = ERR_OK;
    if (!local_may_own(socket, client->path)) {
        *ret_again = false;
        code = err_set(err, ERR_FORBIDDEN, "the store is in use by another user's process");
    }
    if (code == ERR_OK)
        code = say_hello(socket, deadline < frame_end ? deadline : frame_end, ret_again, err);
    if (code != ERR_OK) {
        (void)close(socket);
        return code;
    }
    *ret = socket;
    return ERR_OK;
}

/* ---- the pool ---- */

static bool has_room(const struct local_client *client, bool waits)
{
    bool any = client->idle_count > 0 || client->open_count < LOCAL_POOL_MAX;
    return any && (!waits || client->waiting_count < LOCAL_WAITING_MAX);
}

/* Waits for room; with the mutex held. */
static bool await_room(struct local_client *client, bool waits)
{
    struct timespec until = condition_deadline(client->timeout_ms);
    int waited = 0;
    while (!has_room(client, waits) && waited == 0)
        waited = pthread_cond_timedwait(&client->freed, &client->mutex, &until);
    return has_room(client, waits);
}

static void give_line(struct local_client *client, const struct line *line)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->waiting_count -= line->waits;
    if (line->owner == client->owner && client->idle_count < IDLE_MAX) {
        client->idle[client->idle_count++] = line->socket;
    } else {
        client->open_count--;
        (void)close(line->socket);
    }
    (void)pthread_cond_broadcast(&client->freed);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* Closes a connection that is of no use any more; `lost`: nor are the others of that owner. */
static void drop_line(struct local_client *client, const struct line *line, bool lost)
{
    (void)pthread_mutex_lock(&client->mutex);
    client->waiting_count -= line->waits;
    client->open_count--;
    if (line->socket >= 0)
        (void)close(line->socket);
    if (lost && line->owner == client->owner) {
        client->owner++;
        close_idle(client);
    }
    (void)pthread_cond_broadcast(&client->freed);
    (void)pthread_mutex_unlock(&client->mutex);
}

static enum error_code take_line(struct local_client *client, bool waits, struct line *ret,
                                 bool *ret_again, struct err *err)
{
    struct line line = {.socket = -1, .waits = waits};
    *ret_again = false;
    (void)pthread_mutex_lock(&client->mutex);
    if (!await_room(client, waits)) {
        (void)pthread_mutex_unlock(&client->mutex);
        return err_set(err, ERR_UNAVAILABLE,
                       "%d calls to the process that owns the store are in progress: retry later",
                       LOCAL_POOL_MAX);
    }
    line.owner = client->owner;
    client->waiting_count += waits;
    if (client->idle_count > 0)
        line.socket = client->idle[--client->idle_count];
    else
        client->open_count++;
    (void)pthread_mutex_unlock(&client->mutex);
    if (line.socket < 0) {
        enum error_code code = open_line(client, clock_monotonic_ms() + client->timeout_ms,
                                         &line.socket, ret_again, err);
        if (code != ERR_OK) {
            drop_line(client, &line, false);
            return code;
        }
    }
    *ret = line;
    return ERR_OK;
}

enum error_code local_client_reach(struct local_client *client, int64_t deadline, bool *ret_again,
                                   struct err *err)
{
    struct line line;
    /* Not one that is idle: that may be of somebody who is gone. */
    (void)pthread_mutex_lock(&client->mutex);
    line = (struct line){.socket = -1, .owner = client->owner};
    client->open_count++;
    (void)pthread_mutex_unlock(&client->mutex);
    enum error_code code = open_line(client, deadline, &line.socket, ret_again, err);
    if (code == ERR_OK)
        give_line(client, &line);
    else
        drop_line(client, &line, false);
    return code;
}

/* ---- calls ---- */

/* Whether the owner is alive, when it is silent: somebody who is busy still says hello. */
static bool is_alive(const struct local_client *client, int64_t deadline)
{
    bool again;
    int socket;
    enum error_code code = open_line(client, deadline, &socket, &again, NULL);
    if (code == ERR_OK)
        (void)close(socket);
    return code == ERR_OK;
}

/* Waits for the answer for as long as the owner is alive. Half of the timeout is for the answer,
 * and the other half for a sign of life, so that both together take no longer than it. */
static enum local_result await_answer(const struct local_client *client, const struct line *line,
                                      int64_t wait_ms, struct arena *arena, struct local_frame *ret)
{
    for (;;) {
        int64_t end = clock_monotonic_ms() + wait_ms + client->timeout_ms;
        enum local_result result =
            local_receive(line->socket, end - client->timeout_ms / 2, arena, ret);
        if (result != LOCAL_LATE)
            return result;
        if (!is_alive(client, end))
            return local_receive(line->socket, end, arena, ret);
        wait_ms = 0;
    }
}

static enum error_code lose(struct local_client *client, const struct line *line,
                            struct local_reply *ret, struct err *err)
{
    drop_line(client, line, true);
    ret->lost = true;
    return err_set(err, ERR_UNAVAILABLE, "the process that owned the store has ended");
}

/* Takes what came of waiting for an answer, and gives the connection back or up. */
static enum error_code take_answer(struct local_client *client, const struct line *line,
                                   enum local_result result, const struct local_frame *answer,
                                   struct local_reply *ret, struct err *err)
{
    switch (result) {
    case LOCAL_DONE:
        break;
    case LOCAL_GONE:
        return lose(client, line, ret, err);
    case LOCAL_LATE:
    case LOCAL_CUT:
        drop_line(client, line, false);
        return err_set(err, ERR_UNAVAILABLE,
                       "the process that owns the store does not respond: check whether it is "
                       "stopped, or end it. The call may or may not have been executed");
    case LOCAL_NO_MEMORY:
        drop_line(client, line, false);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    case LOCAL_BROKEN:
    case LOCAL_TOO_LARGE:
        drop_line(client, line, false);
        return err_set(err, ERR_UNAVAILABLE,
                       "unexpected response from the process that owns the store");
    }
    enum error_code code = read_error(answer, err);
    ret->status = (int)answer->status;
    ret->unmet = str_is_set(answer->texts[LOCAL_UNMET]);
    ret->answer = answer->texts[LOCAL_BODY];
    give_line(client, line);
    if (code == ERR_OK && !str_is_set(ret->answer))
        return err_set(err, ERR_UNAVAILABLE, "no response from the process that owns the store");
    return code;
}

enum error_code local_client_call(struct local_client *client, const struct local_request *request,
                                  struct arena *arena, struct local_reply *ret, struct err *err)
{
    struct line line;
    struct local_frame answer = {0};
    size_t bytes_max = verb_bytes_max(verb_find(request->verb));
    *ret = (struct local_reply){0};
    if (request->request.len > bytes_max)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE,
                       "the request has %zu bytes, but at most %zu are allowed",
                       request->request.len, bytes_max);
    enum error_code code = take_line(client, request->wait_ms > 0, &line, &ret->lost, err);
    if (code != ERR_OK)
        return code;
    ret->sent = true;
    struct local_frame call = {
        .type = LOCAL_CALL,
        .code = (uint32_t)request->slice_ms,
        .texts = {[LOCAL_VERB] = request->verb,
                  [LOCAL_SCOPE] = request->scope,
                  [LOCAL_KEY] = request->key,
                  [LOCAL_ACTOR] = request->actor,
                  [LOCAL_REQUEST] = request->request},
    };
    enum local_result result =
        local_send(line.socket, &call, clock_monotonic_ms() + client->timeout_ms);
    if (result == LOCAL_TOO_LARGE) {
        give_line(client, &line);
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "a field name in the request is too long");
    }
    if (result == LOCAL_DONE)
        result = await_answer(client, &line, request->wait_ms, arena, &answer);
    if (result == LOCAL_DONE && answer.type != LOCAL_ANSWER)
        result = LOCAL_BROKEN;
    return take_answer(client, &line, result, &answer, ret, err);
}
