#include "client/http_client.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/random.h"
#include "base/record.h"
#include "base/uuid.h"
#include "client/http_lines.h"
#include "client/http_request.h"
#include "client/waiting.h"
#include "core/access.h"

enum {
    TIMEOUT_MS_DEFAULT = 30 * 1000,
    ANSWER_MS = 35 * 1000, /* a server tries for 30 s before it says that its store is away */
    ANSWER_MS_LONG = 10 * 60 * 1000,
    PAUSE_MS_MIN = 10, /* between two tries; doubles up to */
    PAUSE_MS_MAX = 1000,
    POLL_MS = 250,        /* between two questions to a server who does not wait for us */
    PARTING_MS = 5000,    /* timeout of a wait that was interrupted */
    HEALTH_MS_MIN = 1000, /* that a server has to say that it is there */
    URL_BYTES_MAX = 1024,
    TOKEN_BYTES_MAX = 1024,
};

struct http_client {
    struct http_lines *lines;
    int64_t timeout_ms;
    int64_t answer_ms; /* 0: as the verb needs */
    char shown[256];   /* the server in messages */
    atomic_bool interrupted;

    pthread_mutex_t mutex;  /* guards what follows */
    pthread_cond_t changed; /* that, or interrupted */
    uint32_t calls;         /* under way */
};

/* A request on its way. */
struct message {
    struct http_request request;
    int64_t answer_ms;
    int64_t timeout_ms;
    bool waits;      /* and ends when the client is interrupted */
    bool any_body;   /* what is answered does not matter */
    const char *key; /* NULL: it may be sent twice as it is */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* Waits a while; not when `waits` and the client is interrupted. */
static void pause_for(struct http_client *client, int64_t ms, bool waits)
{
    struct timespec until = condition_deadline(ms);
    (void)pthread_mutex_lock(&client->mutex);
    int waited = 0;
    while (waited == 0 && !(waits && atomic_load(&client->interrupted)))
        waited = pthread_cond_timedwait(&client->changed, &client->mutex, &until);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* ---- answers ---- */

/* The code of that name; unavailable when a newer server has one that we do not know. */
static enum error_code code_of(struct str name, long status)
{
    enum error_code by_status = ERR_UNAVAILABLE;
#define ERROR(symbol, number, text, http, exit, title)                                             \
    if ((number) != 0 && str_eq(name, STR(text)))                                                  \
        return ERR_##symbol;
#include "base/error.def"
#undef ERROR
    if (status == 400 || status == 422)
        by_status = ERR_BAD_REQUEST;
    else if (status == 401)
        by_status = ERR_UNAUTHORIZED;
    else if (status == 403)
        by_status = ERR_FORBIDDEN;
    else if (status == 404)
        by_status = ERR_NOT_FOUND;
    else if (status == 409)
        by_status = ERR_INVALID_TRANSITION;
    return by_status;
}

static enum error_code read_problem(const struct http_client *client, long status, struct str body,
                                    struct arena *arena, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str name = {NULL, 0};
    struct str detail = {NULL, 0};
    struct str title = {NULL, 0};
    bool is_object = json_check_answer(body, "the response", arena, NULL) == ERR_OK &&
                     json_object_begin(&iter, json_trim(body));
    while (is_object && json_object_next(&iter, &key, &value)) {
        struct str *wanted = json_key_is(key, STR("code"))     ? &name
                             : json_key_is(key, STR("detail")) ? &detail
                             : json_key_is(key, STR("title"))  ? &title
                                                               : NULL;
        if (wanted != NULL)
            (void)json_string(value, arena, wanted);
    }
    if (!str_is_set(name))
        return err_set(err, ERR_UNAVAILABLE, "%s responded with %ld, which is not a Pawl response",
                       client->shown, status);
    if (!str_is_set(detail))
        detail = title;
    return err_set(err, code_of(name, status), "%.*s", (int)least((int64_t)detail.len, 1000),
                   str_start(detail));
}

/* What the answer says; leaves its body in `answer` only when that is what was asked for. */
static enum error_code read_answer(const struct http_client *client, const struct message *message,
                                   const struct http_exchange *exchange, size_t start,
                                   struct buf *answer, struct err *err)
{
    struct str body = {buf_str(answer).at + start, answer->len - start};
    struct arena arena;
    struct err why = {0};
    enum error_code code = ERR_OK;
    arena_init(&arena);
    if (exchange->is_problem)
        code = read_problem(client, exchange->status, body, &arena, err);
    else if (exchange->status < 200 || exchange->status > 299)
        code = err_set(err, ERR_UNAVAILABLE, "%s responded with %ld, which is not a Pawl response",
                       client->shown, exchange->status);
    else if (!message->any_body && json_check_answer(body, "its response", &arena, &why) != ERR_OK)
        code = err_set(err, ERR_UNAVAILABLE, "unexpected response from %s: %s", client->shown,
                       why.detail);
    arena_release(&arena);
    return code;
}

/* There was no answer. */
static enum error_code read_failure(const struct http_client *client, enum http_outcome outcome,
                                    const struct http_exchange *exchange, struct err *err)
{
    switch (outcome) {
    case HTTP_NO_MEMORY:
        return no_memory(err);
    case HTTP_BUSY:
        return err_set(err, ERR_UNAVAILABLE, "%d calls to %s are in progress: retry later",
                       HTTP_LINES_MAX, client->shown);
    case HTTP_TOO_LARGE:
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the response of %s is too large: request less",
                       client->shown);
    case HTTP_UNTRUSTED:
        return err_set(err, ERR_UNAVAILABLE, "cannot verify the certificate of %s: %s",
                       client->shown, exchange->reason);
    case HTTP_BROKEN:
        return err_set(err, ERR_UNAVAILABLE, "unexpected response from %s: %s", client->shown,
                       exchange->reason);
    case HTTP_LATE:
        return err_set(
            err, ERR_UNAVAILABLE,
            "%s did not respond within %lld s; the request may or may not have been executed",
            client->shown, (long long)(exchange->answer_ms + 999) / 1000);
    case HTTP_LOST:
        return err_set(
            err, ERR_UNAVAILABLE,
            "the connection to %s was lost (%s); the request may or may not have been executed",
            client->shown, exchange->reason);
    case HTTP_ANSWERED:
    case HTTP_NOT_SENT:
    case HTTP_STOPPED:
        break;
    }
    return err_set(err, ERR_UNAVAILABLE, "cannot reach %s: %s", client->shown, exchange->reason);
}

/* ---- one request ---- */

/* Whether to try again, after a moment or after the time that the server wants to be left alone. */
static bool is_worth_a_try(enum http_outcome outcome, const struct http_exchange *exchange,
                           enum error_code code)
{
    if (outcome == HTTP_NOT_SENT || outcome == HTTP_LOST)
        return true;
    if (outcome != HTTP_ANSWERED)
        return false;
    bool is_away = exchange->status == 502 || exchange->status == 503 || exchange->status == 504;
    return (is_away && code == ERR_UNAVAILABLE) ||
           (exchange->status == 429 && exchange->retry_after_ms > 0);
}

/* A pause that is not the same for all who lost the same server. */
static int64_t jittered(int64_t pause_ms)
{
    uint8_t random;
    random_fill(&random, sizeof random);
    return pause_ms / 2 + pause_ms * random / 510;
}

/* Sends a request until it is answered or times out. *ret_stopped: it was interrupted
 * before that, and nobody knows what has become of it. */
static enum error_code deliver(struct http_client *client, const struct message *message,
                               struct buf *answer, bool *ret_stopped, struct err *err)
{
    struct http_exchange exchange = {
        .request = message->request,
        .key = message->key,
        .answer_ms = message->answer_ms,
        .waits = message->waits,
        .stop = message->waits ? &client->interrupted : NULL,
    };
    size_t start = answer->len;
    int64_t sent_at = clock_monotonic_ms();
    int64_t deadline = 0;
    *ret_stopped = false;
    for (int64_t pause_ms = PAUSE_MS_MIN;; pause_ms = least(pause_ms * 2, PAUSE_MS_MAX)) {
        enum http_outcome outcome = http_lines_exchange(client->lines, &exchange, answer);
        *ret_stopped = outcome == HTTP_STOPPED;
        enum error_code code = outcome == HTTP_ANSWERED
                                   ? read_answer(client, message, &exchange, start, answer, err)
                                   : read_failure(client, outcome, &exchange, err);
        if (code == ERR_OK)
            return ERR_OK;
        answer->len = start;
        if (*ret_stopped || !is_worth_a_try(outcome, &exchange, code))
            return code;
        /* A server that was busy for all of the time has used it up; one that is gone has not. */
        int64_t now = clock_monotonic_ms();
        if (deadline == 0)
            deadline = (outcome == HTTP_ANSWERED ? sent_at : now) + message->timeout_ms;
        if (now >= deadline || exchange.retry_after_ms > deadline - now)
            return code;
        int64_t wanted_ms = exchange.retry_after_ms;
        if (wanted_ms == 0)
            wanted_ms = jittered(pause_ms);
        pause_for(client, least(wanted_ms, deadline - now), message->waits);
        if (message->waits && atomic_load(&client->interrupted)) {
            *ret_stopped = true;
            return code;
        }
    }
}

/* A key that nobody else has. Later ones are greater, so that the store's index of them grows at
 * its end, instead of being written all over. */
static const char *new_key(char ret[UUID_TEXT_LEN + 1])
{
    uint8_t random[10];
    random_fill(random, sizeof random);
    uuid_format(uuid_v7(clock_wall_ms(), random), ret);
    ret[UUID_TEXT_LEN] = '\0';
    return ret;
}

static int64_t answer_ms_of(const struct http_client *client, enum verb_name name)
{
    if (client->answer_ms > 0)
        return client->answer_ms;
    if (verb_is_long(name))
        return ANSWER_MS_LONG;
    return client->timeout_ms > ANSWER_MS ? client->timeout_ms : ANSWER_MS;
}

/* `key` is the caller's own, or NULL; it waits for `wait_ms` at most. */
static enum error_code call_once(struct http_client *client, enum verb_name name,
                                 struct str request, const char *key, int64_t wait_ms,
                                 struct arena *arena, struct buf *answer, struct err *err)
{
    char own[UUID_TEXT_LEN + 1];
    bool stopped;
    bool lacks_key = key == NULL && verb_needs_key(name);
    struct message message = {
        .answer_ms = answer_ms_of(client, name) + wait_ms,
        .timeout_ms = client->timeout_ms,
        .key = lacks_key ? new_key(own) : key,
    };
    enum error_code code = http_request_make(name, request, arena, &message.request, err);
    return code == ERR_OK ? deliver(client, &message, answer, &stopped, err) : code;
}

/* ---- calls that wait ---- */

static enum error_code make_waiting(enum verb_name name, const struct waiting *waiting,
                                    int64_t wait_ms, struct arena *arena, struct http_request *ret,
                                    struct err *err)
{
    struct buf request;
    buf_init(&request, arena, waiting->before.len + waiting->after.len + 32);
    waiting_write(waiting, wait_ms, &request);
    if (request.failed)
        return no_memory(err);
    return http_request_make(name, buf_str(&request), arena, ret, err);
}

/* After an interruption: asks for what there is now. A claim may have been granted in that moment,
 * with nobody there to hear of it. So it is asked for under its key, with another time to wait: if
 * the first one was granted, the server says that they differ, and gives its answer again to
 * anyone who sends it as it was; if not, it never will be. */
static enum error_code part(struct http_client *client, enum verb_name name,
                            const struct waiting *waiting, const struct message *interrupted,
                            struct arena *arena, struct buf *answer, struct err *err)
{
    struct message message = *interrupted;
    bool stopped;
    message.waits = false;
    message.answer_ms = least(answer_ms_of(client, name), PARTING_MS);
    message.timeout_ms = least(client->timeout_ms, PARTING_MS);
    enum error_code code = make_waiting(name, waiting, 0, arena, &message.request, err);
    if (code == ERR_OK)
        code = deliver(client, &message, answer, &stopped, err);
    if (code != ERR_IDEMPOTENCY_MISMATCH)
        return code;
    message.request = interrupted->request;
    return deliver(client, &message, answer, &stopped, err);
}

/* One request that waits for `wait_ms`. */
static enum error_code wait_once(struct http_client *client, enum verb_name name,
                                 const struct waiting *waiting, int64_t wait_ms,
                                 struct arena *arena, struct buf *answer, struct err *err)
{
    char key[UUID_TEXT_LEN + 1];
    bool stopped = false;
    struct message message = {
        .answer_ms = answer_ms_of(client, name) + wait_ms,
        .timeout_ms = client->timeout_ms,
        .waits = wait_ms > 0,
        .key = verb_needs_key(name) ? new_key(key) : NULL,
    };
    enum error_code code = make_waiting(name, waiting, wait_ms, arena, &message.request, err);
    if (code == ERR_OK)
        code = deliver(client, &message, answer, &stopped, err);
    return stopped ? part(client, name, waiting, &message, arena, answer, err) : code;
}

/* A server that has too many who wait answers at once, so that it is asked again until the time is
 * over. */
static enum error_code call_waiting(struct http_client *client, enum verb_name name,
                                    const struct waiting *waiting, struct buf *answer,
                                    struct err *err)
{
    int64_t end = clock_monotonic_ms() + waiting->wait_ms;
    size_t start = answer->len;
    for (;;) {
        struct arena arena;
        int64_t now = clock_monotonic_ms();
        int64_t wait_ms = atomic_load(&client->interrupted) || now > end ? 0 : end - now;
        arena_init(&arena);
        enum error_code code = wait_once(client, name, waiting, wait_ms, &arena, answer, err);
        struct str body = {buf_str(answer).at + start, answer->len - start};
        bool over = code != ERR_OK || waiting_has_come(name, body, &arena) ||
                    atomic_load(&client->interrupted) || clock_monotonic_ms() >= end;
        arena_release(&arena);
        if (over)
            return code;
        answer->len = start;
        if (clock_monotonic_ms() - now < wait_ms / 2)
            pause_for(client, least(POLL_MS, end - clock_monotonic_ms()), true);
    }
}

enum error_code http_client_call(struct http_client *client, enum verb_name name,
                                 struct str request, struct str key, struct arena *arena,
                                 struct buf *answer, struct err *err)
{
    struct waiting waiting;
    char *own_key = str_is_set(key) ? arena_zalloc(arena, key.len + 1, 1) : NULL;
    if (str_is_set(key) && own_key == NULL)
        return no_memory(err);
    if (own_key != NULL)
        memcpy(own_key, key.at, key.len);
    (void)pthread_mutex_lock(&client->mutex);
    client->calls++;
    (void)pthread_mutex_unlock(&client->mutex);
    bool waits = waiting_find(name, request, &waiting);
    /* Under a key it is one request, and not another one for each part of the time. */
    enum error_code code = waits && own_key == NULL
                               ? call_waiting(client, name, &waiting, answer, err)
                               : call_once(client, name, request, own_key,
                                           waits ? waiting.wait_ms : 0, arena, answer, err);
    (void)pthread_mutex_lock(&client->mutex);
    if (--client->calls == 0)
        (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->mutex);
    return code;
}

void http_client_interrupt(struct http_client *client)
{
    atomic_store(&client->interrupted, true);
    (void)pthread_mutex_lock(&client->mutex);
    (void)pthread_cond_broadcast(&client->changed);
    (void)pthread_mutex_unlock(&client->mutex);
    http_lines_wake(client->lines);
}

/* ---- opening and closing ---- */

static bool starts_with(struct str text, struct str start)
{
    return text.len >= start.len && strncasecmp(text.at, start.at, start.len) == 0;
}

bool http_client_is_url(struct str url)
{
    return starts_with(url, STR("http://")) || starts_with(url, STR("https://"));
}

static bool has_part(CURLU *parts, CURLUPart part)
{
    char *text = NULL;
    bool has = curl_url_get(parts, part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return has;
}

/* Checks the URL, and writes it as requests begin: without a slash at the end. */
static enum error_code read_url(struct str url, char ret[URL_BYTES_MAX], struct err *err)
{
    char given[URL_BYTES_MAX];
    char *whole = NULL;
    enum error_code code = ERR_OK;
    if (url.len >= sizeof given || memchr(url.at, '\0', url.len) != NULL)
        return err_set(err, ERR_BAD_REQUEST, "the server URL must be at most %d bytes long",
                       URL_BYTES_MAX - 1);
    memcpy(given, url.at, url.len);
    given[url.len] = '\0';
    CURLU *parts = curl_url();
    if (parts == NULL)
        return no_memory(err);
    if (curl_url_set(parts, CURLUPART_URL, given, 0) != CURLUE_OK)
        code = err_set(err, ERR_BAD_REQUEST,
                       "\"%.*s\" is not a server URL: use http://HOST:PORT or https://HOST:PORT",
                       STR_ARG(url));
    else if (has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_PASSWORD))
        code = err_set(err, ERR_BAD_REQUEST,
                       "the server URL must not contain a user or password: use a token instead");
    else if (has_part(parts, CURLUPART_QUERY) || has_part(parts, CURLUPART_FRAGMENT))
        code = err_set(err, ERR_BAD_REQUEST, "the server URL must not contain ? or #");
    else if (curl_url_get(parts, CURLUPART_URL, &whole, 0) != CURLUE_OK)
        code = no_memory(err);
    size_t len = whole == NULL ? 0 : strlen(whole);
    while (len > 0 && whole[len - 1] == '/')
        len--;
    if (code == ERR_OK && len >= URL_BYTES_MAX)
        code = err_set(err, ERR_BAD_REQUEST, "the server URL is too long");
    if (code == ERR_OK)
        (void)snprintf(ret, URL_BYTES_MAX, "%.*s", (int)len, whole);
    curl_free(whole);
    curl_url_cleanup(parts);
    return code;
}

/* It becomes a header: what is not one word would become others. */
static enum error_code check_token(const char *token, struct err *err)
{
    size_t len = token == NULL ? 1 : strlen(token);
    bool is_word = len > 0 && len <= TOKEN_BYTES_MAX;
    for (size_t i = 0; token != NULL && is_word && i < len; i++)
        is_word = (token[i] > ' ' && token[i] <= '~');
    return is_word ? ERR_OK : (enum error_code)err_set(err, ERR_BAD_REQUEST, "malformed token");
}

/* So is this, and must be what a server takes for a name. */
static enum error_code check_actor(const char *actor, struct err *err)
{
    struct str name = str_from(actor);
    if (!str_is_set(name))
        return ERR_OK;
    bool good = record_is_name(name) && !access_is_reserved(name) && name.at[0] != ' ' &&
                name.at[name.len - 1] != ' ';
    return good ? ERR_OK
                : (enum error_code)err_set(
                      err, ERR_BAD_REQUEST,
                      "invalid actor \"%.*s\": use 1 to %d bytes without control characters, not "
                      "starting with \"" ACCESS_ACTOR_PREFIX "\" at the beginning",
                      STR_ARG(name), NAME_BYTES_MAX);
}

static enum error_code new_client(struct str url, const struct http_client_options *options,
                                  struct http_client **ret, struct err *err)
{
    char base[URL_BYTES_MAX];
    enum error_code code = read_url(url, base, err);
    if (code == ERR_OK)
        code = check_token(options->token, err);
    if (code == ERR_OK)
        code = check_actor(options->actor, err);
    if (code != ERR_OK)
        return code;
    struct http_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return no_memory(err);
    client->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    client->answer_ms = options->answer_ms;
    (void)snprintf(client->shown, sizeof client->shown, "%.200s", base);
    const struct http_lines_options lines = {
        .base = base,
        .token = options->token,
        .actor = options->actor,
        .ca_file = options->ca_file,
        .timeout_ms = client->timeout_ms,
        .answer_bytes_max = EXPORT_BYTES_MAX,
    };
    code = http_lines_new(&lines, &client->lines, err);
    if (code != ERR_OK) {
        free(client);
        return code;
    }
    (void)pthread_mutex_init(&client->mutex, NULL);
    (void)condition_init(&client->changed);
    *ret = client;
    return ERR_OK;
}

/* Whether somebody is there. */
static enum error_code reach(struct http_client *client, struct err *err)
{
    struct arena arena;
    struct buf answer;
    bool stopped;
    const struct message message = {
        .request = {.method = "GET", .target = "/healthz"},
        .answer_ms = client->timeout_ms > HEALTH_MS_MIN ? client->timeout_ms : HEALTH_MS_MIN,
        .timeout_ms = client->timeout_ms,
        .any_body = true,
    };
    arena_init(&arena);
    buf_init(&answer, &arena, 256);
    enum error_code code = deliver(client, &message, &answer, &stopped, err);
    arena_release(&arena);
    return code;
}

enum error_code http_client_open(struct str url, const struct http_client_options *options,
                                 struct http_client **ret, struct err *err)
{
    struct http_client *client;
    enum error_code code = new_client(url, options, &client, err);
    if (code != ERR_OK)
        return code;
    code = reach(client, err);
    if (code != ERR_OK) {
        http_client_close(client);
        return code;
    }
    *ret = client;
    return ERR_OK;
}

void http_client_close(struct http_client *client)
{
    if (client == NULL)
        return;
    http_client_interrupt(client);
    (void)pthread_mutex_lock(&client->mutex);
    while (client->calls > 0)
        (void)pthread_cond_wait(&client->changed, &client->mutex);
    (void)pthread_mutex_unlock(&client->mutex);
    http_lines_free(client->lines);
    (void)pthread_cond_destroy(&client->changed);
    (void)pthread_mutex_destroy(&client->mutex);
    free(client);
}
