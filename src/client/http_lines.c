#include "client/http_lines.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "pawl.h"

enum {
    IDLE_MAX = 8,          /* connections that are kept while nobody uses them */
    CONNECT_MS_MIN = 1000, /* however little the patience is */
    CONNECT_MS_MAX = 10 * 1000,
    POLL_MS = 1000,
    KEEPALIVE_S = 15, /* silence after which we ask whether the other side is there */
};

_Static_assert((int)HTTP_REASON_BYTES == (int)CURL_ERROR_SIZE, "libcurl's texts fit");

/* A connection: libcurl keeps it in the multi handle, which another thread may wake. */
struct line {
    CURL *easy;
    CURLM *multi;
};

struct http_lines {
    char *base;
    char *authorization; /* the header; NULL: none */
    char *actor;         /* the same */
    char *ca_file;
    int64_t patience_ms;
    size_t answer_bytes_max;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t freed;  /* a connection is free, or there may be another one */
    uint32_t waiting_count;
    uint32_t busy_count;
    struct line *busy[HTTP_LINES_MAX]; /* NULL: free place */
    uint32_t idle_count;
    struct line *idle[IDLE_MAX];
};

/* ---- making and freeing ---- */

static char *joined(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *text = malloc(size);
    if (text != NULL)
        (void)snprintf(text, size, "%s%s", a, b);
    return text;
}

enum error_code http_lines_new(const struct http_lines_options *options, struct http_lines **ret,
                               struct err *err)
{
    struct http_lines *lines = calloc(1, sizeof *lines);
    if (lines == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is not enough memory to reach the server");
    lines->patience_ms = options->patience_ms;
    lines->answer_bytes_max = options->answer_bytes_max;
    lines->base = joined(options->base, "");
    if (options->token != NULL)
        lines->authorization = joined("Authorization: Bearer ", options->token);
    if (options->actor != NULL)
        lines->actor = joined("Pawl-Actor: ", options->actor);
    if (options->ca_file != NULL)
        lines->ca_file = joined(options->ca_file, "");
    (void)pthread_mutex_init(&lines->mutex, NULL);
    (void)condition_init(&lines->freed);
    bool whole = lines->base != NULL && (options->token == NULL || lines->authorization != NULL) &&
                 (options->actor == NULL || lines->actor != NULL) &&
                 (options->ca_file == NULL || lines->ca_file != NULL);
    if (!whole) {
        http_lines_free(lines);
        return err_set(err, ERR_NO_MEMORY, "there is not enough memory to reach the server");
    }
    *ret = lines;
    return ERR_OK;
}

static void free_line(struct line *line)
{
    if (line == NULL)
        return;
    curl_easy_cleanup(line->easy);
    (void)curl_multi_cleanup(line->multi);
    free(line);
}

static struct line *new_line(void)
{
    struct line *line = calloc(1, sizeof *line);
    if (line == NULL)
        return NULL;
    line->easy = curl_easy_init();
    line->multi = curl_multi_init();
    if (line->easy != NULL && line->multi != NULL &&
        curl_multi_setopt(line->multi, CURLMOPT_MAXCONNECTS, 1L) == CURLM_OK)
        return line;
    free_line(line);
    return NULL;
}

void http_lines_free(struct http_lines *lines)
{
    if (lines == NULL)
        return;
    assert(lines->busy_count == 0);
    while (lines->idle_count > 0)
        free_line(lines->idle[--lines->idle_count]);
    (void)pthread_cond_destroy(&lines->freed);
    (void)pthread_mutex_destroy(&lines->mutex);
    if (lines->authorization != NULL)
        explicit_bzero(lines->authorization, strlen(lines->authorization));
    free(lines->authorization);
    free(lines->actor);
    free(lines->ca_file);
    free(lines->base);
    free(lines);
}

/* ---- who has which ---- */

static bool has_room(const struct http_lines *lines, bool waits)
{
    return lines->busy_count < HTTP_LINES_MAX &&
           (!waits || lines->waiting_count < HTTP_LINES_WAITING_MAX);
}

/* Waits for room; with the mutex held. */
static enum http_outcome await_room(struct http_lines *lines, const struct http_exchange *exchange)
{
    struct timespec until = condition_deadline(lines->patience_ms);
    int waited = 0;
    bool stopped = false;
    while (!has_room(lines, exchange->waits) && waited == 0 && !stopped) {
        waited = pthread_cond_timedwait(&lines->freed, &lines->mutex, &until);
        stopped = exchange->stop != NULL && atomic_load(exchange->stop);
    }
    if (stopped)
        return HTTP_STOPPED;
    return has_room(lines, exchange->waits) ? HTTP_ANSWERED : HTTP_BUSY;
}

static enum http_outcome take_line(struct http_lines *lines, const struct http_exchange *exchange,
                                   struct line **ret)
{
    (void)pthread_mutex_lock(&lines->mutex);
    enum http_outcome outcome = await_room(lines, exchange);
    if (outcome != HTTP_ANSWERED) {
        (void)pthread_mutex_unlock(&lines->mutex);
        return outcome;
    }
    struct line *line = lines->idle_count > 0 ? lines->idle[--lines->idle_count] : new_line();
    if (line != NULL) {
        uint32_t place = 0;
        while (lines->busy[place] != NULL)
            place++;
        lines->busy[place] = line;
        lines->busy_count++;
        lines->waiting_count += exchange->waits;
    }
    (void)pthread_mutex_unlock(&lines->mutex);
    *ret = line;
    return line == NULL ? HTTP_NO_MEMORY : HTTP_ANSWERED;
}

static void give_line(struct http_lines *lines, bool waits, struct line *line)
{
    uint32_t place = 0;
    (void)pthread_mutex_lock(&lines->mutex);
    while (lines->busy[place] != line)
        place++;
    lines->busy[place] = NULL;
    lines->busy_count--;
    lines->waiting_count -= waits;
    if (lines->idle_count < IDLE_MAX) {
        lines->idle[lines->idle_count++] = line;
        line = NULL;
    }
    (void)pthread_cond_broadcast(&lines->freed);
    (void)pthread_mutex_unlock(&lines->mutex);
    free_line(line);
}

void http_lines_wake(struct http_lines *lines)
{
    (void)pthread_mutex_lock(&lines->mutex);
    for (uint32_t i = 0; i < HTTP_LINES_MAX; i++)
        if (lines->busy[i] != NULL)
            (void)curl_multi_wakeup(lines->busy[i]->multi);
    (void)pthread_cond_broadcast(&lines->freed);
    (void)pthread_mutex_unlock(&lines->mutex);
}

/* ---- an exchange ---- */

/* What comes in. */
struct incoming {
    struct buf *body;
    size_t body_left; /* bytes that it may still have */
    size_t header_left;
    bool head_over; /* all headers are here */
    bool too_large;
};

static size_t take_body(const char *bytes, size_t size, size_t count, void *arg)
{
    struct incoming *incoming = arg;
    size_t len = size * count;
    if (len > incoming->body_left) {
        incoming->too_large = true;
        return 0;
    }
    incoming->body_left -= len;
    buf_add(incoming->body, (struct str){bytes, len});
    return incoming->body->failed ? 0 : len;
}

/* Headers are libcurl's business, as long as they come to an end. When the connection ends amid
 * them it takes what has come for an answer without a body. */
static size_t count_header(const char *bytes, size_t size, size_t count, void *arg)
{
    struct incoming *incoming = arg;
    size_t len = size * count;
    incoming->head_over = len > 0 && (bytes[0] == '\r' || bytes[0] == '\n');
    if (len > incoming->header_left) {
        incoming->too_large = true;
        return 0;
    }
    incoming->header_left -= len;
    return len;
}

static bool add_header(struct curl_slist **headers, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*headers, text);
    if (longer == NULL)
        return false;
    *headers = longer;
    return true;
}

static bool make_headers(const struct http_lines *lines, const struct http_exchange *exchange,
                         struct curl_slist **ret)
{
    bool made = add_header(ret, "Accept: application/json, application/problem+json") &&
                /* To be asked for the body first would cost a round trip. */
                add_header(ret, "Expect:");
    if (made && lines->authorization != NULL)
        made = add_header(ret, lines->authorization);
    if (made && lines->actor != NULL)
        made = add_header(ret, lines->actor);
    if (made && str_is_set(exchange->request.body))
        made = add_header(ret, "Content-Type: application/json");
    if (made && exchange->key != NULL) {
        char key[160];
        (void)snprintf(key, sizeof key, "Idempotency-Key: %s", exchange->key);
        made = add_header(ret, key);
    }
    return made;
}

/* All options at once: CURLE_OK, or the first that libcurl does not take. */
static CURLcode set_up(const struct http_lines *lines, struct line *line,
                       struct http_exchange *exchange, const char *url, struct curl_slist *headers,
                       struct incoming *incoming)
{
    CURL *easy = line->easy;
    const struct http_request *request = &exchange->request;
    int64_t connect_ms = lines->patience_ms;
    if (connect_ms > CONNECT_MS_MAX)
        connect_ms = CONNECT_MS_MAX;
    else if (connect_ms < CONNECT_MS_MIN)
        connect_ms = CONNECT_MS_MIN;
    CURLcode code = CURLE_OK;
    curl_easy_reset(easy); /* keeps connections */
#define SET(option, value)                                                                         \
    do {                                                                                           \
        if (code == CURLE_OK)                                                                      \
            code = curl_easy_setopt(easy, option, value);                                          \
    } while (0)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "pawl/" PAWL_VERSION);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_ERRORBUFFER, exchange->reason);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)exchange->answer_ms);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    SET(CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, incoming);
    SET(CURLOPT_HEADERFUNCTION, count_header);
    SET(CURLOPT_HEADERDATA, incoming);
    if (lines->ca_file != NULL)
        SET(CURLOPT_CAINFO, lines->ca_file);
    if (str_is_set(request->body)) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        SET(CURLOPT_POSTFIELDS, request->body.at);
    }
    SET(CURLOPT_CUSTOMREQUEST, request->method);
#undef SET
    return code;
}

/* Sends and receives, until it is over or is to stop. */
static CURLcode perform(struct line *line, const atomic_bool *stop, bool *ret_stopped)
{
    CURLcode result = CURLE_OUT_OF_MEMORY;
    CURLMcode code = curl_multi_add_handle(line->multi, line->easy);
    if (code != CURLM_OK)
        return result;
    int running = 1;
    int left;
    while (code == CURLM_OK && running > 0 && !*ret_stopped) {
        code = curl_multi_perform(line->multi, &running);
        *ret_stopped = running > 0 && stop != NULL && atomic_load(stop);
        if (code == CURLM_OK && running > 0 && !*ret_stopped)
            code = curl_multi_poll(line->multi, NULL, 0, POLL_MS, NULL);
    }
    const CURLMsg *message = curl_multi_info_read(line->multi, &left);
    if (message != NULL && message->msg == CURLMSG_DONE)
        result = message->data.result;
    /* Whatever is under way is given up: libcurl closes the connection then. */
    (void)curl_multi_remove_handle(line->multi, line->easy);
    return result;
}

static bool was_sent(CURL *easy)
{
    curl_off_t sent_after_us = 0;
    return curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &sent_after_us) == CURLE_OK &&
           sent_after_us > 0;
}

static void read_answer(CURL *easy, struct http_exchange *exchange)
{
    const struct str problem = STR("application/problem+json");
    curl_off_t retry_after_s = 0;
    char *type = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &exchange->status);
    if (curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK && type != NULL)
        exchange->is_problem = strncasecmp(type, problem.at, problem.len) == 0;
    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after_s) == CURLE_OK &&
        retry_after_s > 0 && retry_after_s < INT32_MAX)
        exchange->retry_after_ms = retry_after_s * 1000;
}

static enum http_outcome judge(CURL *easy, CURLcode result, const struct incoming *incoming)
{
    switch (result) {
    case CURLE_OK:
        return incoming->head_over ? HTTP_ANSWERED : HTTP_LOST;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
        return HTTP_NOT_SENT;
    case CURLE_OPERATION_TIMEDOUT:
        return was_sent(easy) ? HTTP_LATE : HTTP_NOT_SENT;
    case CURLE_WRITE_ERROR:
        return incoming->too_large ? HTTP_TOO_LARGE : HTTP_NO_MEMORY;
    case CURLE_OUT_OF_MEMORY:
        return HTTP_NO_MEMORY;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        return HTTP_UNTRUSTED;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_URL_MALFORMAT:
        return HTTP_BROKEN;
    default:
        return HTTP_LOST;
    }
}

enum http_outcome http_lines_exchange(struct http_lines *lines, struct http_exchange *exchange,
                                      struct buf *answer)
{
    struct incoming incoming = {
        .body = answer,
        .body_left = lines->answer_bytes_max,
        .header_left = HTTP_HEADER_BYTES_MAX,
    };
    struct curl_slist *headers = NULL;
    struct line *line;
    bool stopped = false;
    exchange->status = 0;
    exchange->is_problem = false;
    exchange->retry_after_ms = 0;
    exchange->reason[0] = '\0';
    enum http_outcome outcome = take_line(lines, exchange, &line);
    if (outcome != HTTP_ANSWERED)
        return outcome;
    char *url = joined(lines->base, exchange->request.target);
    CURLcode result = CURLE_OUT_OF_MEMORY;
    if (url != NULL && make_headers(lines, exchange, &headers))
        result = set_up(lines, line, exchange, url, headers, &incoming);
    if (result == CURLE_OK)
        result = perform(line, exchange->stop, &stopped);
    outcome = stopped ? HTTP_STOPPED : judge(line->easy, result, &incoming);
    if (outcome == HTTP_ANSWERED)
        read_answer(line->easy, exchange);
    else if (exchange->reason[0] == '\0')
        (void)snprintf(exchange->reason, sizeof exchange->reason, "%s", curl_easy_strerror(result));
    curl_easy_reset(line->easy); /* it must not point at what goes away now */
    curl_slist_free_all(headers);
    free(url);
    give_line(lines, exchange->waits, line);
    return outcome;
}
