#include "client/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct line {
    int socket; /* -1: none */
    bool flooding;
    const char *flood;
    size_t len;
    char bytes[FAKE_REQUEST_BYTES];
};

static void must(bool well)
{
    if (!well)
        abort();
}

static void send_all(int socket, const char *bytes)
{
    size_t left = strlen(bytes);
    while (left > 0) {
        ssize_t sent = send(socket, bytes, left, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        left -= (size_t)sent;
    }
}

static void send_answer(int socket, const struct fake_step *step)
{
    char head[1024];
    const char *body = step->body == NULL ? "" : step->body;
    if (step->status != NULL) {
        (void)snprintf(head, sizeof head,
                       "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                       step->status, step->type == NULL ? "application/json" : step->type,
                       strlen(body), step->headers == NULL ? "" : step->headers);
        send_all(socket, head);
    }
    send_all(socket, body);
}

static void close_line(struct line *line, bool reset)
{
    struct linger linger = {.l_onoff = 1};
    if (reset)
        (void)setsockopt(line->socket, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    (void)close(line->socket);
    line->socket = -1;
    line->len = 0;
    line->flooding = false;
}

const char *fake_body(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    return end == NULL ? "" : end + 4;
}

void fake_header(const char *request, const char *name, char ret[256])
{
    const char *end = strstr(request, "\r\n\r\n");
    size_t len = strlen(name);
    ret[0] = '\0';
    const char *at = strstr(request, "\r\n");
    for (; at != NULL && at < end; at = strstr(at + 2, "\r\n")) {
        if (strncasecmp(at + 2, name, len) != 0 || at[2 + len] != ':')
            continue;
        const char *value = at + 2 + len + 1;
        value += strspn(value, " ");
        (void)snprintf(ret, 256, "%.*s", (int)strcspn(value, "\r"), value);
        return;
    }
}

/* Whether the request in `line` is there to its end. */
static bool is_whole(const struct line *line)
{
    char length[256];
    if (strstr(line->bytes, "\r\n\r\n") == NULL)
        return false;
    fake_header(line->bytes, "Content-Length", length);
    return strlen(fake_body(line->bytes)) >= strtoul(length, NULL, 10);
}

static void note(struct fake_server *server, const char *request)
{
    (void)pthread_mutex_lock(&server->mutex);
    if (server->log_count < FAKE_LOG_MAX) {
        server->log[server->log_count] = strdup(request);
        must(server->log[server->log_count] != NULL);
    }
    server->log_count++;
    (void)pthread_mutex_unlock(&server->mutex);
}

static void answer(struct fake_server *server, struct line *line)
{
    static const struct fake_step fine = {.status = "200 OK", .body = "{}"};
    const struct fake_step *step = &fine;
    bool is_health = strncmp(line->bytes, "GET /healthz ", 13) == 0;
    if (!is_health || server->scripts_health) {
        size_t at = atomic_fetch_add(&server->answered, 1);
        if (at < server->script_count)
            step = &server->script[at];
    }
    if (!is_health)
        note(server, line->bytes);
    line->len = 0;
    send_answer(line->socket, step);
    line->flooding = step->then == FAKE_FLOOD;
    line->flood = step->status == NULL && step->headers != NULL ? step->headers : step->body;
    if (step->then == FAKE_CLOSE || step->then == FAKE_RESET)
        close_line(line, step->then == FAKE_RESET);
}

static void receive(struct fake_server *server, struct line *line)
{
    size_t room = sizeof line->bytes - 1 - line->len;
    ssize_t len = recv(line->socket, line->bytes + line->len, room, 0);
    if (len <= 0) {
        close_line(line, false);
        return;
    }
    line->len += (size_t)len;
    line->bytes[line->len] = '\0';
    if (is_whole(line))
        answer(server, line);
}

static void take(struct fake_server *server, struct line *lines)
{
    int socket = accept(server->listener, NULL, NULL);
    size_t place = 0;
    while (place < FAKE_LINES_MAX && lines[place].socket >= 0)
        place++;
    must(socket >= 0 && place < FAKE_LINES_MAX);
    lines[place].socket = socket;
    (void)pthread_mutex_lock(&server->mutex);
    server->connections++;
    (void)pthread_mutex_unlock(&server->mutex);
}

static void serve(struct fake_server *server, struct line *lines)
{
    struct pollfd polls[FAKE_LINES_MAX + 1];
    polls[0] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    for (size_t i = 0; i < FAKE_LINES_MAX; i++)
        polls[i + 1] =
            (struct pollfd){.fd = lines[i].socket, .events = lines[i].flooding ? POLLOUT : POLLIN};
    (void)poll(polls, FAKE_LINES_MAX + 1, 20);
    for (size_t i = 0; i < FAKE_LINES_MAX; i++) {
        short events = polls[i + 1].revents;
        if (events == 0)
            continue;
        if ((events & (POLLERR | POLLHUP)) != 0)
            close_line(&lines[i], false);
        else if (lines[i].flooding)
            send_all(lines[i].socket, lines[i].flood);
        else
            receive(server, &lines[i]);
    }
    if (polls[0].revents != 0)
        take(server, lines);
}

static void *run(void *arg)
{
    struct fake_server *server = arg;
    struct line *lines = calloc(FAKE_LINES_MAX, sizeof *lines);
    must(lines != NULL);
    for (size_t i = 0; i < FAKE_LINES_MAX; i++)
        lines[i].socket = -1;
    while (!atomic_load(&server->stopping))
        serve(server, lines);
    for (size_t i = 0; i < FAKE_LINES_MAX; i++)
        if (lines[i].socket >= 0)
            close_line(&lines[i], false);
    free(lines);
    return NULL;
}

void fake_server_start(struct fake_server *server, const struct fake_step *script, size_t count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    bool scripts_health = server->scripts_health;
    memset(server, 0, sizeof *server);
    server->scripts_health = scripts_health;
    server->script = script;
    server->script_count = count;
    (void)pthread_mutex_init(&server->mutex, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(server->listener >= 0 &&
         bind(server->listener, (struct sockaddr *)&address, sizeof address) == 0 &&
         listen(server->listener, 64) == 0 &&
         getsockname(server->listener, (struct sockaddr *)&address, &len) == 0);
    server->port = ntohs(address.sin_port);
    (void)snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", server->port);
    must(pthread_create(&server->thread, NULL, run, server) == 0);
}

void fake_server_stop(struct fake_server *server)
{
    atomic_store(&server->stopping, true);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->listener);
    for (size_t i = 0; i < server->log_count && i < FAKE_LOG_MAX; i++)
        free(server->log[i]);
    (void)pthread_mutex_destroy(&server->mutex);
}

const char *fake_server_request(struct fake_server *server, size_t at)
{
    (void)pthread_mutex_lock(&server->mutex);
    bool has = at < server->log_count && at < FAKE_LOG_MAX;
    const char *found = has ? server->log[at] : "";
    (void)pthread_mutex_unlock(&server->mutex);
    return found;
}

size_t fake_server_count(struct fake_server *server, size_t least)
{
    enum { TRIES = 20 * 1000 };
    const struct timespec moment = {.tv_nsec = 1000 * 1000};
    size_t count = 0;
    for (int i = 0; i < TRIES; i++) {
        (void)pthread_mutex_lock(&server->mutex);
        count = server->log_count;
        (void)pthread_mutex_unlock(&server->mutex);
        if (count >= least)
            break;
        (void)nanosleep(&moment, NULL);
    }
    return count;
}
