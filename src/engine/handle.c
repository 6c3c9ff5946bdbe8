#include "engine/handle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/record.h"
#include "base/uuid.h"
#include "core/access.h"
#include "engine/local_client.h"
#include "engine/local_protocol.h"
#include "engine/local_server.h"
#include "engine/standard_files.h"

enum {
    TIMEOUT_MS_DEFAULT = 30 * 1000,
    PAUSE_MS_MIN = 2, /* between two looks for an owner */
    PAUSE_MS_MAX = 50,
    UNLOCKED_MAX = 3, /* as often as a file may be found unlocked and yet not be ours to open */
    SLICE_MS = 1000,  /* the longest that an owner is asked to wait at once */
    POLL_MS = 100,    /* between two questions to an owner who does not wait any more */
};

struct handle {
    struct handle_options options;
    char actor[NAME_BYTES_MAX + 1];
    int64_t timeout_ms;
    char path[PATH_MAX]; /* of a SQLite file, absolute and without links; else empty */
    atomic_bool interrupted;

    pthread_mutex_t mutex;       /* guards what follows */
    pthread_cond_t changed;      /* any of it has */
    struct engine *engine;       /* NULL: somebody else has the store */
    struct local_server *server; /* for the others */
    struct local_client *client; /* NULL: needs no other */
    bool looking;                /* a thread is looking for an owner */
    uint32_t calls;              /* under way */
};

/* ---- time ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- who has the store ---- */

/* Whether somebody holds the lock beside the file. To look takes the lock for a moment, together
 * with others who look. */
static bool is_locked(const char *path)
{
    char name[PATH_MAX + 16];
    (void)snprintf(name, sizeof name, "%s.lock", path);
    int lock = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (lock < 0)
        return false;
    bool locked = flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    (void)close(lock);
    return locked;
}

/* Becomes the owner, or fails as engine_open. */
static enum error_code become_owner(struct handle *handle, const char *path, bool create,
                                    struct err *err)
{
    struct engine_options options = handle->options.engine;
    struct local_server *server = NULL;
    struct engine *engine;
    char url[PATH_MAX + 16];
    int len = snprintf(url, sizeof url, "sqlite:%s", path);
    options.store.create = create;
    enum error_code code = engine_open((struct str){url, (size_t)len}, &options, &engine, err);
    if (code != ERR_OK)
        return code;
    if (handle->path[0] == '\0' && realpath(path, handle->path) == NULL)
        code = err_set(err, ERR_UNAVAILABLE, "%s: the file was removed", path);
    if (code == ERR_OK)
        code = local_server_start(engine, handle->path, &server, err);
    if (code != ERR_OK) {
        engine_close(engine);
        return code;
    }
    (void)pthread_mutex_lock(&handle->mutex);
    handle->engine = engine;
    handle->server = server;
    (void)pthread_mutex_unlock(&handle->mutex);
    if (atomic_load(&handle->interrupted))
        engine_interrupt(engine);
    return ERR_OK;
}

/* Reaches the owner, if there is one. */
static enum error_code reach_owner(struct handle *handle, const char *path, int64_t deadline,
                                   bool *ret_again, struct err *err)
{
    *ret_again = true;
    if (handle->client == NULL) {
        char real[PATH_MAX];
        if (realpath(path, real) == NULL)
            return err_set(err, ERR_UNAVAILABLE, "%s: no store yet", path);
        enum error_code code = local_client_new(real, handle->timeout_ms, &handle->client, err);
        if (code != ERR_OK)
            return code;
        memcpy(handle->path, real, sizeof real);
    }
    return local_client_reach(handle->client, deadline, ret_again, err);
}

/* Finds an owner or becomes it, until `deadline`. On one thread at a time. */
static enum error_code find_owner(struct handle *handle, const char *path, bool create,
                                  int64_t deadline, struct err *err)
{
    int unlocked = 0;
    for (int64_t pause_ms = PAUSE_MS_MIN;; pause_ms = least(pause_ms * 2, PAUSE_MS_MAX)) {
        struct err why = {0};
        struct err reason = {0};
        bool again;
        enum error_code code = reach_owner(handle, path, deadline, &again, &why);
        if (code == ERR_OK)
            return ERR_OK;
        code = become_owner(handle, path, create, &reason);
        if (code == ERR_OK)
            return ERR_OK;
        /* The lock of those who just look makes a file seem to be owned for a moment, so that what
         * is not locked and cannot be opened gets another chance or two. */
        bool locked = is_locked(handle->path[0] != '\0' ? handle->path : path);
        bool late = clock_monotonic_ms() >= deadline;
        unlocked = locked ? 0 : unlocked + 1;
        if (code == ERR_UNAVAILABLE && !late && unlocked < UNLOCKED_MAX && (again || !locked)) {
            clock_pause(pause_ms);
            continue;
        }
        /* The owner that does not let us in has said why. */
        bool is_refused = code == ERR_UNAVAILABLE && locked && !again;
        if (is_refused)
            return err_set(err, why.code, "%s: %s", path, why.detail);
        return err_set(err, code, "%s", reason.detail);
    }
}

/* Looks for a new owner, or waits for another thread that does so already. */
static enum error_code look(struct handle *handle, int64_t deadline, struct err *err)
{
    (void)pthread_mutex_lock(&handle->mutex);
    if (handle->looking) {
        while (handle->looking)
            (void)pthread_cond_wait(&handle->changed, &handle->mutex);
        (void)pthread_mutex_unlock(&handle->mutex);
        return ERR_OK;
    }
    enum error_code code = ERR_OK;
    bool needed = handle->engine == NULL;
    handle->looking = needed;
    (void)pthread_mutex_unlock(&handle->mutex);
    if (!needed)
        return ERR_OK;
    code = find_owner(handle, handle->path, false, deadline, err);
    (void)pthread_mutex_lock(&handle->mutex);
    handle->looking = false;
    (void)pthread_cond_broadcast(&handle->changed);
    (void)pthread_mutex_unlock(&handle->mutex);
    /* What was there when the store was opened is out of reach now, whatever has become of it. */
    if (code == ERR_NOT_FOUND)
        return err_set(err, ERR_UNAVAILABLE, "%s: the store no longer exists", handle->path);
    return code;
}

/* ---- one call ---- */

static struct engine *own_engine(struct handle *handle)
{
    (void)pthread_mutex_lock(&handle->mutex);
    struct engine *engine = handle->engine;
    (void)pthread_mutex_unlock(&handle->mutex);
    return engine;
}

bool handle_is_owner(struct handle *handle)
{
    return own_engine(handle) != NULL;
}

struct engine *handle_engine(struct handle *handle)
{
    return own_engine(handle);
}

/* A call on its way. */
struct message {
    enum verb_name name;
    struct str request;
    int64_t wait_ms;  /* what the request asks for */
    int64_t slice_ms; /* see verb_call */
    struct str scope; /* absent: it may be sent twice as it is */
    struct str key;
    char key_text[UUID_TEXT_LEN];
    char scope_text[NAME_BYTES_MAX];
};

static enum error_code do_here(const struct handle *handle, struct engine *engine,
                               const struct message *message, struct arena *arena,
                               struct buf *answer, bool *ret_unmet, struct err *err)
{
    struct verb_call call = {
        .engine = engine,
        .arena = arena,
        .name = message->name,
        .request = message->request,
        .actor = str_from(handle->actor),
        .scope = message->scope,
        .key = message->key,
        .slice_ms = message->slice_ms,
        .own = true,
    };
    enum error_code code = verb_respond(&call, answer, err);
    *ret_unmet = code == ERR_OK && !call.result.has_come;
    return code;
}

static enum error_code do_there(struct handle *handle, const struct message *message,
                                struct arena *arena, struct local_reply *ret, struct buf *answer,
                                struct err *err)
{
    struct local_request request = {
        .verb = verb_text(message->name),
        .scope = message->scope,
        .key = message->key,
        .actor = str_from(handle->actor),
        .request = message->request,
        .wait_ms = message->wait_ms,
        .slice_ms = message->slice_ms,
    };
    enum error_code code = local_client_call(handle->client, &request, arena, ret, err);
    if (code != ERR_OK)
        return code;
    buf_add(answer, ret->answer);
    return answer->failed ? (enum error_code)err_set(err, ERR_NO_MEMORY, "out of memory") : ERR_OK;
}

/* A key that nobody else has. */
static void give_key(struct message *message)
{
    uint8_t random[16];
    random_fill(random, sizeof random);
    uuid_format(uuid_v8(random), message->key_text);
    message->scope = STR("local");
    message->key = (struct str){message->key_text, sizeof message->key_text};
}

/* Has a call carried out by the owner of the store, once, however often that changes. `ret_unmet`:
 * what it may wait for has not come. */
static enum error_code do_once(struct handle *handle, struct message *message, struct arena *arena,
                               struct buf *answer, bool *ret_unmet, struct err *err)
{
    int64_t deadline = 0;
    struct engine *engine = own_engine(handle);
    if (engine == NULL && verb_needs_key(message->name) && !str_is_set(message->key))
        give_key(message);
    while (engine == NULL) {
        struct local_reply reply;
        int64_t start = clock_monotonic_ms();
        enum error_code code = do_there(handle, message, arena, &reply, answer, err);
        *ret_unmet = reply.unmet;
        if (!reply.lost)
            return code;
        if (deadline == 0)
            deadline = (reply.sent ? clock_monotonic_ms() : start) + handle->timeout_ms;
        else if (clock_monotonic_ms() >= deadline)
            return code;
        code = look(handle, deadline, err);
        if (code != ERR_OK)
            return code;
        engine = own_engine(handle);
    }
    return do_here(handle, engine, message, arena, answer, ret_unmet, err);
}

/* ---- calls that wait ---- */

/* Sends a call that waits as many that wait for a moment each: so this side sees when it is
 * interrupted, and the other when nobody waits any more. */
static enum error_code do_in_slices(struct handle *handle, const struct message *call,
                                    struct buf *answer, struct err *err)
{
    int64_t end = clock_monotonic_ms() + call->wait_ms;
    enum error_code code;
    bool over;
    do {
        struct arena arena;
        struct buf slice;
        int64_t start = clock_monotonic_ms();
        int64_t left = atomic_load(&handle->interrupted) || start >= end ? 1 : end - start;
        struct message message = *call;
        bool unmet = false;
        message.slice_ms = least(left, SLICE_MS);
        arena_init(&arena);
        buf_init(&slice, &arena, 4096);
        code = do_once(handle, &message, &arena, &slice, &unmet, err);
        over = code != ERR_OK || !unmet || atomic_load(&handle->interrupted) ||
               clock_monotonic_ms() >= end;
        if (code == ERR_OK && over)
            buf_add(answer, buf_str(&slice));
        arena_release(&arena);
        /* An owner who is about to close does not wait any more, but it must not be asked all the
         * time. */
        if (!over && clock_monotonic_ms() - start < message.slice_ms / 2)
            clock_pause(least(POLL_MS, end - clock_monotonic_ms()));
    } while (!over);
    return code;
}

enum error_code handle_call(struct handle *handle, enum verb_name name, struct str request,
                            struct str key, struct arena *arena, struct buf *answer,
                            struct err *err)
{
    struct message message = {.name = name, .request = request, .key = key};
    bool unmet;
    if (str_is_set(key)) {
        struct buf scope = {.at = message.scope_text, .cap = sizeof message.scope_text};
        buf_addf(&scope, "library %.*s", STR_ARG(verb_text(name)));
        message.scope = buf_str(&scope);
    }
    (void)pthread_mutex_lock(&handle->mutex);
    bool here = handle->engine != NULL;
    handle->calls++;
    (void)pthread_mutex_unlock(&handle->mutex);
    message.wait_ms = here ? 0 : verb_wait_ms(name, request);
    /* Under a key it is one request, and not another one for each slice of the time. */
    enum error_code code = message.wait_ms > 0 && !str_is_set(key)
                               ? do_in_slices(handle, &message, answer, err)
                               : do_once(handle, &message, arena, answer, &unmet, err);
    if (code == ERR_OK && answer->failed)
        code = err_set(err, ERR_NO_MEMORY, "out of memory");
    (void)pthread_mutex_lock(&handle->mutex);
    if (--handle->calls == 0)
        (void)pthread_cond_broadcast(&handle->changed);
    (void)pthread_mutex_unlock(&handle->mutex);
    return code;
}

void handle_interrupt(struct handle *handle)
{
    atomic_store(&handle->interrupted, true);
    struct engine *engine = own_engine(handle);
    if (engine != NULL)
        engine_interrupt(engine);
}

/* ---- opening and closing ---- */

static enum error_code new_handle(const struct handle_options *options, struct handle **ret,
                                  struct err *err)
{
    struct str actor = str_is_set(options->actor) ? options->actor : STR("library");
    if (!record_is_name(actor) || access_is_reserved(actor))
        return err_set(err, ERR_BAD_REQUEST,
                       "invalid actor \"%.*s\": use 1 to %d bytes without control characters, not "
                       "starting with \"" ACCESS_ACTOR_PREFIX "\" at the beginning",
                       STR_ARG(actor), NAME_BYTES_MAX);
    struct handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    handle->options = *options;
    handle->timeout_ms = options->engine.store.timeout_ms > 0 ? options->engine.store.timeout_ms
                                                              : TIMEOUT_MS_DEFAULT;
    memcpy(handle->actor, actor.at, actor.len);
    handle->options.actor = str_from(handle->actor);
    (void)pthread_mutex_init(&handle->mutex, NULL);
    (void)pthread_cond_init(&handle->changed, NULL);
    *ret = handle;
    return ERR_OK;
}

static void free_handle(struct handle *handle)
{
    local_client_free(handle->client);
    (void)pthread_cond_destroy(&handle->changed);
    (void)pthread_mutex_destroy(&handle->mutex);
    free(handle);
}

/* The path of a SQLite file, if it can be one; what cannot is for engine_open to refuse. */
static bool find_path(struct str url, char ret[PATH_MAX])
{
    const struct str scheme = STR("sqlite:");
    if (url.len <= scheme.len || memcmp(url.at, scheme.at, scheme.len) != 0)
        return false;
    struct str path = {url.at + scheme.len, url.len - scheme.len};
    if (path.len >= PATH_MAX - 64 || memchr(path.at, '\0', path.len) != NULL)
        return false;
    memcpy(ret, path.at, path.len);
    ret[path.len] = '\0';
    return true;
}

enum error_code handle_open(struct str url, const struct handle_options *options,
                            struct handle **ret, struct err *err)
{
    struct handle *handle;
    char path[PATH_MAX];
    standard_files_fill();
    enum error_code code = new_handle(options, &handle, err);
    if (code != ERR_OK)
        return code;
    if (find_path(url, path))
        code = find_owner(handle, path, options->engine.store.create,
                          clock_monotonic_ms() + handle->timeout_ms, err);
    else
        code = engine_open(url, &handle->options.engine, &handle->engine, err);
    if (code != ERR_OK) {
        free_handle(handle);
        return code;
    }
    *ret = handle;
    return ERR_OK;
}

void handle_close(struct handle *handle)
{
    if (handle == NULL)
        return;
    handle_interrupt(handle);
    (void)pthread_mutex_lock(&handle->mutex);
    while (handle->calls > 0)
        (void)pthread_cond_wait(&handle->changed, &handle->mutex);
    (void)pthread_mutex_unlock(&handle->mutex);
    local_server_stop(handle->server);
    if (handle->engine != NULL)
        engine_close(handle->engine);
    free_handle(handle);
}
