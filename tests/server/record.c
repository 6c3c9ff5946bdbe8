/* Records what servers respond, for test_recorded.py to hold against /openapi.json. Tests of the
 * HTTP server run with this library in LD_PRELOAD: it stands between a server and libmicrohttpd, so
 * that the program under test is the one that is shipped.
 *
 * Each response with a body of JSON becomes a line in the file PAWL_RECORD names: method, URL,
 * status and body. A response whose shape a process has recorded before is left out: the same
 * members in the same order, with the same types and the same words. Responses are queued within
 * the handler of their request, on its thread, so that thread-locals know the request. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

enum {
    SHAPES_MAX = 1 << 16, /* a power of two */
    WORD_LEN_MAX = 24,    /* a longer string is somebody's text */
};

typedef struct MHD_Daemon *(*start_daemon)(unsigned flags, uint16_t port,
                                           MHD_AcceptPolicyCallback accept, void *accept_arg,
                                           MHD_AccessHandlerCallback handler, void *arg,
                                           va_list options);
typedef enum MHD_Result (*queue_response)(struct MHD_Connection *connection, unsigned status,
                                          struct MHD_Response *response);
typedef struct MHD_Response *(*create_response)(size_t len, void *at,
                                                enum MHD_ResponseMemoryMode mode);
typedef const char *(*get_header)(struct MHD_Response *response, const char *key);

struct handler {
    MHD_AccessHandlerCallback callback;
    void *arg;
};

static __thread const char *method;
static __thread const char *url;
static __thread const struct MHD_Response *created;
static __thread const char *body;
static __thread size_t body_len;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shapes[SHAPES_MAX]; /* under the lock; 0: free */
static size_t shape_count;

/* A function of libmicrohttpd itself. A union, since C does not convert between the two pointers.
 */
#define REAL(type, name)                                                                           \
    ((union {                                                                                      \
        void *object;                                                                              \
        type function;                                                                             \
    }){.object = dlsym(RTLD_NEXT, name)})                                                          \
        .function

/* ---- shapes ------------------------------------------------------------------------------- */

static uint64_t add(uint64_t hash, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)at[i]) * UINT64_C(1099511628211);
    return hash;
}

static bool is_word(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((at[i] < 'a' || at[i] > 'z') && at[i] != '_')
            return false;
    return len <= WORD_LEN_MAX;
}

/* The end of the string that begins with the quote at `at`. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at : end;
}

/* A hash of the text with numbers and longer strings left out. */
static uint64_t shape_of(uint64_t hash, const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '"') {
            const char *close = string_end(at, end);
            bool key = close + 1 < end && close[1] == ':';
            size_t len = (size_t)(close - at - 1);
            hash = key || is_word(at + 1, len) ? add(hash, at, len + 1) : add(hash, "\"s", 2);
            at = close;
        } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
            while (at + 1 < end && strchr("0123456789.eE+-", at[1]) != NULL)
                at++;
            hash = add(hash, "0", 1);
        } else {
            hash = add(hash, at, 1);
        }
    }
    return hash == 0 ? 1 : hash;
}

/* Whether the shape is new; with the lock held. When there are too many, all are. */
static bool is_new(uint64_t shape)
{
    if (shape_count > SHAPES_MAX / 2)
        return true;
    size_t at = shape % SHAPES_MAX;
    while (shapes[at] != 0 && shapes[at] != shape)
        at = (at + 1) % SHAPES_MAX;
    if (shapes[at] == shape)
        return false;
    shapes[at] = shape;
    shape_count++;
    return true;
}

/* ---- recording ---------------------------------------------------------------------------- */

static void write_line(const char *path, unsigned status)
{
    size_t cap = body_len + strlen(url) * 2 + 256;
    char *line = malloc(cap);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (line == NULL || file < 0)
        abort(); /* a record that is not written would pass for one that is valid */
    size_t len =
        (size_t)snprintf(line, cap, "{\"method\":\"%s\",\"status\":%u,\"url\":\"", method, status);
    for (const char *at = url; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            line[len++] = '\\';
        line[len++] = (unsigned char)*at < ' ' || (unsigned char)*at > '~' ? '?' : *at;
    }
    len += (size_t)snprintf(line + len, cap - len, "\",\"body\":");
    /* A payload is kept as it was sent, and may have ends of lines in it: outside of strings. */
    for (size_t i = 0; i < body_len; i++)
        line[len++] = body[i] == '\n' || body[i] == '\r' ? ' ' : body[i];
    line[len++] = '}';
    line[len++] = '\n';
    if (write(file, line, len) != (ssize_t)len)
        abort();
    (void)close(file);
    free(line);
}

static void record(unsigned status, struct MHD_Response *response)
{
    const char *path = getenv("PAWL_RECORD");
    const char *type = REAL(get_header, "MHD_get_response_header")(response, "Content-Type");
    if (path == NULL || method == NULL || response != created || body_len == 0 || type == NULL ||
        strstr(type, "json") == NULL)
        return;
    uint64_t hash = add(UINT64_C(14695981039346656037), method, strlen(method));
    hash = add(hash, (const char *)&status, sizeof status);
    /* Of the URL what is no id and no name: how many segments it has, and the first two. */
    size_t len = strcspn(url, "?");
    size_t segments = 0;
    for (size_t i = 0; i < len; i++)
        segments += url[i] == '/';
    const char *last = url + len;
    while (last > url && last[-1] != '/')
        last--;
    hash = add(hash, (const char *)&segments, sizeof segments);
    if (is_word(last, (size_t)(url + len - last)))
        hash = add(hash, last, (size_t)(url + len - last));
    hash = add(hash, url, len < 8 ? len : 8);
    (void)pthread_mutex_lock(&lock);
    if (is_new(shape_of(hash, body, body + body_len)))
        write_line(path, status);
    (void)pthread_mutex_unlock(&lock);
}

/* ---- between a server and libmicrohttpd --------------------------------------------------- */

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *verb, const char *version, const char *upload,
                                  size_t *upload_len, void **state)
{
    const struct handler *handler = arg;
    url = path;
    method = verb;
    enum MHD_Result result =
        handler->callback(handler->arg, connection, path, verb, version, upload, upload_len, state);
    method = NULL;
    return result;
}

__attribute__((visibility("default"))) struct MHD_Daemon *
MHD_start_daemon(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept, void *accept_arg,
                 MHD_AccessHandlerCallback callback, void *arg, ...)
{
    /* Lives as long as the daemon, which nobody tells us the end of. */
    struct handler *handler = malloc(sizeof *handler);
    if (handler == NULL)
        return NULL;
    *handler = (struct handler){callback, arg};
    va_list options;
    va_start(options, arg);
    struct MHD_Daemon *daemon = REAL(start_daemon, "MHD_start_daemon_va")(
        flags, port, accept, accept_arg, on_request, handler, options);
    va_end(options);
    return daemon;
}

__attribute__((visibility("default"))) struct MHD_Response *
MHD_create_response_from_buffer(size_t len, void *at, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response =
        REAL(create_response, "MHD_create_response_from_buffer")(len, at, mode);
    created = response;
    body = at;
    body_len = len;
    return response;
}

__attribute__((visibility("default"))) enum MHD_Result
MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                   struct MHD_Response *response)
{
    record(status, response);
    return REAL(queue_response, "MHD_queue_response")(connection, status, response);
}
