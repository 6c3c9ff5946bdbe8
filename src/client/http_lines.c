#include "client/http_lines.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "client/http_answer.h"
#include "pawl.h"

enum {
    IDLE_MAX = 8,          /* connections that are kept while nobody uses them */
    CONNECT_MS_MIN = 1000, /* however short the timeout is */
    CONNECT_MS_MAX = 10 * 1000,
    KEEPALIVE_S = 15,             /* silence after which we ask whether the other side is there */
    JOINED_BYTES_MAX = 64 * 1024, /* a longer body is not copied behind its headers */
};

_Static_assert((int)HTTP_REASON_BYTES == (int)CURL_ERROR_SIZE, "libcurl's texts fit");

/* A connection. libcurl makes it, encrypts it and ends it: `easy` is in
 * `multi`, which is its only one, as long as it is open. What goes over it is
 * ours, and without encryption (`plain`) bytes go to the socket directly: an
 * exchange that nobody can stop is then one send and one receive that blocks,
 * without a poll in between. */
struct line {
    CURL *easy;
    CURLM *multi;
    int wake; /* an eventfd: somebody wants it to look whether it is to stop */
    bool added;
    bool connected;
    bool reused; /* it has had an exchange before */
    bool plain;  /* no TLS: the socket blocks, unless a call says otherwise */
    int socket;
    int64_t blocks_ms;  /* how long a receive blocks; 0: not set */
    struct arena arena; /* of the request */
    char reason[HTTP_REASON_BYTES];
    size_t in_len; /* bytes that came and were not taken */
    char in[HTTP_HEADER_BYTES_MAX];
};

struct http_lines {
    char *base;
    char *path;    /* of the base, without a slash at the end */
    char *headers; /* that are the same for every request, the token among them */
    char *ca_file;
    int64_t timeout_ms;
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

static char *part_of(CURLU *parts, CURLUPart part)
{
    char *text = NULL;
    return curl_url_get(parts, part, &text, 0) == CURLUE_OK ? text : NULL;
}

static void add_headers(const struct http_lines_options *options, const char *host,
                        const char *port, struct buf *ret)
{
    buf_addf(ret, "Host: %s%s%s\r\nUser-Agent: pawl/" PAWL_VERSION "\r\n", host,
             port != NULL ? ":" : "", port != NULL ? port : "");
    buf_add(ret, STR("Accept: application/json, application/problem+json\r\n"));
    if (options->token != NULL)
        buf_addf(ret, "Authorization: Bearer %s\r\n", options->token);
    if (options->actor != NULL)
        buf_addf(ret, "Pawl-Actor: %s\r\n", options->actor);
    buf_add_char(ret, '\0');
}

/* Writes what is the same for all requests. */
static bool write_fixed(struct http_lines *lines, const struct http_lines_options *options)
{
    struct arena arena;
    struct buf headers;
    CURLU *parts = curl_url();
    arena_init(&arena);
    buf_init(&headers, &arena, 1024);
    if (parts != NULL && curl_url_set(parts, CURLUPART_URL, options->base, 0) == CURLUE_OK) {
        char *host = part_of(parts, CURLUPART_HOST);
        char *port = part_of(parts, CURLUPART_PORT);
        char *path = part_of(parts, CURLUPART_PATH);
        size_t len = path == NULL ? 0 : strlen(path);
        while (len > 0 && path[len - 1] == '/')
            len--;
        if (host != NULL && path != NULL) {
            add_headers(options, host, port, &headers);
            lines->path = strndup(path, len);
        }
        curl_free(host);
        curl_free(port);
        curl_free(path);
    }
    curl_url_cleanup(parts);
    if (lines->path != NULL && !headers.failed)
        lines->headers = strdup(headers.at);
    if (headers.at != NULL)
        explicit_bzero(headers.at, headers.len);
    arena_release(&arena);
    return lines->headers != NULL;
}

enum error_code http_lines_new(const struct http_lines_options *options, struct http_lines **ret,
                               struct err *err)
{
    struct http_lines *lines = calloc(1, sizeof *lines);
    if (lines == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    lines->timeout_ms = options->timeout_ms;
    lines->answer_bytes_max = options->answer_bytes_max;
    lines->base = strdup(options->base);
    if (options->ca_file != NULL)
        lines->ca_file = strdup(options->ca_file);
    (void)pthread_mutex_init(&lines->mutex, NULL);
    (void)condition_init(&lines->freed);
    bool whole = lines->base != NULL && (options->ca_file == NULL || lines->ca_file != NULL) &&
                 write_fixed(lines, options);
    if (!whole) {
        http_lines_free(lines);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    *ret = lines;
    return ERR_OK;
}

static void free_line(struct line *line)
{
    if (line == NULL)
        return;
    if (line->added)
        (void)curl_multi_remove_handle(line->multi, line->easy);
    curl_easy_cleanup(line->easy);
    (void)curl_multi_cleanup(line->multi);
    if (line->wake >= 0)
        (void)close(line->wake);
    arena_release(&line->arena);
    free(line);
}

static int64_t connect_ms(const struct http_lines *lines)
{
    if (lines->timeout_ms > CONNECT_MS_MAX)
        return CONNECT_MS_MAX;
    return lines->timeout_ms < CONNECT_MS_MIN ? CONNECT_MS_MIN : lines->timeout_ms;
}

/* All options: CURLE_OK, or the first that libcurl does not take. */
static CURLcode set_up(const struct http_lines *lines, struct line *line)
{
    CURL *easy = line->easy;
    CURLcode code = CURLE_OK;
#define SET(option, value)                                                                         \
    do {                                                                                           \
        if (code == CURLE_OK)                                                                      \
            code = curl_easy_setopt(easy, option, value);                                          \
    } while (0)
    SET(CURLOPT_URL, lines->base);
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_ERRORBUFFER, line->reason);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms(lines));
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    SET(CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
    if (lines->ca_file != NULL)
        SET(CURLOPT_CAINFO, lines->ca_file);
#undef SET
    return code;
}

static struct line *new_line(const struct http_lines *lines)
{
    struct line *line = calloc(1, sizeof *line);
    if (line == NULL)
        return NULL;
    arena_init(&line->arena);
    line->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    line->easy = curl_easy_init();
    line->multi = curl_multi_init();
    if (line->wake >= 0 && line->easy != NULL && line->multi != NULL &&
        set_up(lines, line) == CURLE_OK &&
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
    if (lines->headers != NULL)
        explicit_bzero(lines->headers, strlen(lines->headers));
    free(lines->headers);
    free(lines->path);
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
    struct timespec until = condition_deadline(lines->timeout_ms);
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
    struct line *line = lines->idle_count > 0 ? lines->idle[--lines->idle_count] : new_line(lines);
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
            (void)eventfd_write(lines->busy[i]->wake, 1);
    (void)pthread_cond_broadcast(&lines->freed);
    (void)pthread_mutex_unlock(&lines->mutex);
}

/* ---- bytes ---- */

/* Like curl_easy_send, and like that never blocks. */
static CURLcode send_some(struct line *line, const char *at, size_t len, size_t *ret_count)
{
    if (!line->plain)
        return curl_easy_send(line->easy, at, len, ret_count);
    ssize_t count = send(line->socket, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    *ret_count = count > 0 ? (size_t)count : 0;
    if (count >= 0)
        return CURLE_OK;
    return errno == EAGAIN || errno == EINTR ? CURLE_AGAIN : CURLE_SEND_ERROR;
}

/* Like curl_easy_recv; of a connection that is not encrypted it waits for bytes
 * if it `blocks`. */
static CURLcode receive_some(struct line *line, char *at, size_t room, bool blocks,
                             size_t *ret_count)
{
    if (!line->plain)
        return curl_easy_recv(line->easy, at, room, ret_count);
    ssize_t count = recv(line->socket, at, room, blocks ? 0 : MSG_DONTWAIT);
    *ret_count = count > 0 ? (size_t)count : 0;
    if (count >= 0)
        return CURLE_OK;
    return errno == EAGAIN || errno == EINTR ? CURLE_AGAIN : CURLE_RECV_ERROR;
}

/* Whether a receive may wait for bytes itself, for so long; else that is done
 * by `await`. */
static bool may_block(struct line *line, const struct http_exchange *exchange)
{
    if (!line->plain || exchange->stop != NULL || exchange->answer_ms <= 0)
        return false;
    if (line->blocks_ms == exchange->answer_ms)
        return true;
    const struct timeval wait = {.tv_sec = (time_t)(exchange->answer_ms / 1000),
                                 .tv_usec = (suseconds_t)(exchange->answer_ms % 1000 * 1000)};
    bool set = setsockopt(line->socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0;
    line->blocks_ms = set ? exchange->answer_ms : 0;
    return set;
}

/* ---- connecting ---- */

static bool is_stopped(const struct http_exchange *exchange)
{
    return exchange->stop != NULL && atomic_load(exchange->stop);
}

/* Forgets that somebody wanted it to look. */
static void calm(const struct line *line)
{
    eventfd_t count;
    (void)eventfd_read(line->wake, &count);
}

static void disconnect(struct line *line)
{
    /* libcurl closes the connection then. */
    if (line->added)
        (void)curl_multi_remove_handle(line->multi, line->easy);
    line->added = line->connected = line->reused = false;
}

static enum http_outcome judge(CURLcode result)
{
    switch (result) {
    case CURLE_OK:
        return HTTP_ANSWERED;
    case CURLE_OUT_OF_MEMORY:
        return HTTP_NO_MEMORY;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        return HTTP_UNTRUSTED;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return HTTP_BROKEN;
    default:
        return HTTP_NOT_SENT;
    }
}

static CURLcode run_connect(struct line *line, const struct http_exchange *exchange, int64_t until)
{
    struct curl_waitfd wake = {.fd = line->wake, .events = CURL_WAIT_POLLIN};
    CURLMcode code = CURLM_OK;
    int running = 1;
    int left;
    while (code == CURLM_OK && running > 0 && !is_stopped(exchange)) {
        int64_t now = clock_monotonic_ms();
        code = curl_multi_perform(line->multi, &running);
        if (code != CURLM_OK || running == 0)
            break;
        if (now >= until)
            return CURLE_OPERATION_TIMEDOUT;
        code = curl_multi_poll(line->multi, &wake, 1, (int)(until - now), NULL);
        if (wake.revents != 0)
            calm(line);
    }
    const CURLMsg *message = curl_multi_info_read(line->multi, &left);
    if (message != NULL && message->msg == CURLMSG_DONE)
        return message->data.result;
    return code == CURLM_OK ? CURLE_COULDNT_CONNECT : CURLE_OUT_OF_MEMORY;
}

static enum http_outcome connect_line(const struct http_lines *lines, struct line *line,
                                      struct http_exchange *exchange, int64_t deadline)
{
    curl_socket_t socket = CURL_SOCKET_BAD;
    int64_t until = clock_monotonic_ms() + connect_ms(lines);
    disconnect(line);
    line->reason[0] = '\0';
    if (curl_multi_add_handle(line->multi, line->easy) != CURLM_OK)
        return HTTP_NO_MEMORY;
    line->added = true;
    CURLcode result = run_connect(line, exchange, until < deadline ? until : deadline);
    if (result == CURLE_OK)
        result = curl_easy_getinfo(line->easy, CURLINFO_ACTIVESOCKET, &socket);
    line->connected = result == CURLE_OK && socket != CURL_SOCKET_BAD;
    line->socket = socket;
    line->blocks_ms = 0;
    if (line->connected) {
        int flags = fcntl(socket, F_GETFL);
        line->plain = strncasecmp(lines->base, "http:", 5) == 0 && flags >= 0 &&
                      fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) == 0;
        return HTTP_ANSWERED;
    }
    (void)snprintf(exchange->reason, sizeof exchange->reason, "%s",
                   line->reason[0] != '\0' ? line->reason : curl_easy_strerror(result));
    return is_stopped(exchange) ? HTTP_STOPPED : judge(result);
}

/* ---- an exchange ---- */

/* What is sent: all headers, and with them a body that is not large, so that it
 * is one packet. */
static bool write_request(const struct http_lines *lines, const struct http_exchange *exchange,
                          struct buf *out)
{
    const struct http_request *request = &exchange->request;
    buf_add(out, str_from(request->method));
    buf_add_char(out, ' ');
    buf_add(out, str_from(lines->path));
    buf_add(out, str_from(request->target));
    buf_add(out, STR(" HTTP/1.1\r\n"));
    buf_add(out, str_from(lines->headers));
    if (str_is_set(request->body)) {
        buf_add(out, STR("Content-Type: application/json\r\nContent-Length: "));
        buf_add_int(out, (int64_t)request->body.len);
        buf_add(out, STR("\r\n"));
    }
    if (exchange->key != NULL) {
        buf_add(out, STR("Idempotency-Key: "));
        buf_add(out, str_from(exchange->key));
        buf_add(out, STR("\r\n"));
    }
    buf_add(out, STR("\r\n"));
    if (str_is_set(request->body) && request->body.len <= JOINED_BYTES_MAX)
        buf_add(out, request->body);
    return !out->failed;
}

/* Waits until the connection is ready for `events`, or for a byte to read. */
static enum http_outcome await(struct line *line, struct http_exchange *exchange, short events,
                               int64_t deadline)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = line->socket, .events = (short)(events | POLLIN)},
                               {.fd = line->wake, .events = POLLIN}};
        int64_t left = deadline - clock_monotonic_ms();
        if (is_stopped(exchange))
            return HTTP_STOPPED;
        if (left <= 0)
            return HTTP_LATE;
        int ready = poll(fds, exchange->stop != NULL ? 2 : 1, left < INT_MAX ? (int)left : INT_MAX);
        if (ready > 0 && fds[1].revents != 0)
            calm(line);
        if (ready > 0 && fds[0].revents != 0)
            return HTTP_ANSWERED;
    }
}

static enum http_outcome lose(struct http_exchange *exchange, const char *why)
{
    (void)snprintf(exchange->reason, sizeof exchange->reason, "%s", why);
    return HTTP_LOST;
}

/* Whether the server has said something: then it may not want the rest of the
 * request. TLS records alone do not count. A connection that ended is, too.
 */
static bool has_spoken(struct line *line)
{
    size_t count = 0;
    if (line->in_len == sizeof line->in)
        return true;
    CURLcode code =
        receive_some(line, line->in + line->in_len, sizeof line->in - line->in_len, false, &count);
    line->in_len += count;
    return code != CURLE_AGAIN;
}

static enum http_outcome send_text(struct line *line, struct http_exchange *exchange,
                                   struct str text, int64_t deadline, bool *ret_cut)
{
    size_t at = 0;
    while (at < text.len) {
        size_t count = 0;
        CURLcode code = send_some(line, text.at + at, text.len - at, &count);
        at += count;
        if (code == CURLE_OK)
            continue;
        *ret_cut = code != CURLE_AGAIN;
        if (*ret_cut)
            return HTTP_ANSWERED;
        enum http_outcome outcome = await(line, exchange, POLLOUT, deadline);
        if (outcome != HTTP_ANSWERED)
            return outcome;
        *ret_cut = has_spoken(line);
        if (*ret_cut)
            return HTTP_ANSWERED;
    }
    return HTTP_ANSWERED;
}

/* *ret_cut: it was not taken, not all of it; perhaps the answer says why. */
static enum http_outcome send_request(struct line *line, struct http_exchange *exchange,
                                      struct str head, int64_t deadline, bool *ret_cut)
{
    struct str body = exchange->request.body;
    *ret_cut = false;
    enum http_outcome outcome = send_text(line, exchange, head, deadline, ret_cut);
    if (outcome == HTTP_ANSWERED && !*ret_cut && body.len > JOINED_BYTES_MAX)
        outcome = send_text(line, exchange, body, deadline, ret_cut);
    return outcome;
}

/* Takes what has come; true: that was all, whatever it was. */
static bool take(struct line *line, struct http_answer *answer, struct buf *body)
{
    size_t taken = http_answer_take(answer, (struct str){line->in, line->in_len}, body);
    line->in_len -= taken;
    if (line->in_len > 0 && taken > 0)
        memmove(line->in, line->in + taken, line->in_len);
    return answer->stage >= ANSWER_OVER;
}

/* One read. The body of an answer whose length is known goes where it belongs
 * at once. */
static CURLcode read_some(struct line *line, struct http_answer *answer, struct buf *body,
                          bool blocks, size_t *ret_count)
{
    bool direct = answer->stage == ANSWER_BODY && line->in_len == 0;
    char *at = direct ? buf_reserve(body, (size_t)answer->left) : line->in + line->in_len;
    size_t room = direct ? (size_t)answer->left : sizeof line->in - line->in_len;
    if (at == NULL)
        return CURLE_OUT_OF_MEMORY;
    CURLcode code = receive_some(line, at, room, blocks, ret_count);
    if (code != CURLE_OK)
        return code;
    if (direct) {
        body->len += *ret_count;
        http_answer_took(answer, *ret_count);
    } else {
        line->in_len += *ret_count;
    }
    return CURLE_OK;
}

static enum http_outcome judge_answer(const struct line *line, const struct http_answer *answer,
                                      struct http_exchange *exchange)
{
    switch (answer->stage) {
    case ANSWER_OVER:
        exchange->status = answer->status;
        exchange->is_problem = answer->is_problem;
        exchange->retry_after_ms = answer->retry_after_ms;
        return HTTP_ANSWERED;
    case ANSWER_TOO_LARGE:
        return HTTP_TOO_LARGE;
    case ANSWER_NO_MEMORY:
        return HTTP_NO_MEMORY;
    case ANSWER_BROKEN:
        (void)snprintf(exchange->reason, sizeof exchange->reason, "the response is not HTTP");
        return HTTP_BROKEN;
    default:
        return lose(exchange, answer->stage == ANSWER_STATUS && line->in_len == 0
                                  ? "it was closed without a response"
                                  : "it was closed during the response");
    }
}

static enum http_outcome receive(struct line *line, struct http_exchange *exchange,
                                 struct http_answer *answer, struct buf *body, bool cut,
                                 int64_t deadline)
{
    bool waits = !cut; /* first: it has hardly answered yet */
    /* Once only, so that a server which sends byte after byte does not go beyond
     * the deadline. */
    bool blocks = waits && may_block(line, exchange);
    while (!take(line, answer, body)) {
        size_t count = 0;
        enum http_outcome outcome = HTTP_ANSWERED;
        if (waits && !blocks)
            outcome = await(line, exchange, 0, deadline);
        if (outcome != HTTP_ANSWERED)
            return outcome;
        CURLcode code = read_some(line, answer, body, blocks, &count);
        waits = code == CURLE_AGAIN;
        blocks = false;
        if (waits)
            continue;
        if (code == CURLE_OUT_OF_MEMORY)
            return HTTP_NO_MEMORY;
        if (code == CURLE_OK && count == 0)
            (void)http_answer_end(answer);
        if (code != CURLE_OK || count == 0)
            break;
    }
    return judge_answer(line, answer, exchange);
}

/* One try. A connection that was used before may have been closed meanwhile,
 * which shows when it is used again: *ret_stale. */
static enum http_outcome exchange_on(const struct http_lines *lines, struct line *line,
                                     struct http_exchange *exchange, struct str head,
                                     struct buf *body, int64_t deadline, bool *ret_stale)
{
    struct http_answer answer = {.head_left = HTTP_HEADER_BYTES_MAX,
                                 .body_left = lines->answer_bytes_max};
    bool cut = false;
    enum http_outcome outcome = HTTP_ANSWERED;
    *ret_stale = false;
    line->in_len = 0;
    if (!line->connected)
        outcome = connect_line(lines, line, exchange, deadline);
    if (outcome == HTTP_ANSWERED)
        outcome = send_request(line, exchange, head, deadline, &cut);
    if (outcome == HTTP_ANSWERED)
        outcome = receive(line, exchange, &answer, body, cut, deadline);
    *ret_stale =
        outcome == HTTP_LOST && line->reused && answer.stage == ANSWER_STATUS && line->in_len == 0;
    line->reused = true;
    if (outcome != HTTP_ANSWERED || cut || !answer.keeps || line->in_len > 0)
        disconnect(line);
    return outcome;
}

enum http_outcome http_lines_exchange(struct http_lines *lines, struct http_exchange *exchange,
                                      struct buf *answer)
{
    struct line *line;
    struct buf head;
    bool stale = false;
    exchange->status = 0;
    exchange->is_problem = false;
    exchange->retry_after_ms = 0;
    exchange->reason[0] = '\0';
    enum http_outcome outcome = take_line(lines, exchange, &line);
    if (outcome != HTTP_ANSWERED)
        return outcome;
    int64_t deadline = clock_monotonic_ms() + exchange->answer_ms;
    buf_init(&head, &line->arena, 2048);
    if (write_request(lines, exchange, &head))
        outcome = exchange_on(lines, line, exchange, buf_str(&head), answer, deadline, &stale);
    else
        outcome = HTTP_NO_MEMORY;
    if (stale)
        outcome = exchange_on(lines, line, exchange, buf_str(&head), answer, deadline, &stale);
    arena_clear(&line->arena);
    give_line(lines, exchange->waits, line);
    return outcome;
}
