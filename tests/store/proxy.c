#include "store/proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void give_up(const char *what)
{
    perror(what);
    abort();
}

static struct sockaddr_in local(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* Whether the bytes have these among them. */
static bool has(const char *bytes, size_t count, const char *text, size_t len)
{
    for (size_t i = 0; i + len <= count; i++)
        if (memcmp(bytes + i, text, len) == 0)
            return true;
    return false;
}

/* The whole statement, with its NUL. */
static bool has_commit(const char *bytes, size_t count)
{
    return has(bytes, count, "COMMIT", sizeof "COMMIT");
}

/* By this the connection of a batch is told from the one that carries news. */
static bool has_batch(const char *bytes, size_t count)
{
    return has(bytes, count, "pawl.batch_rows", sizeof "pawl.batch_rows" - 1);
}

static void cut(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void cut_pair(struct proxy_pair *pair)
{
    cut(&pair->client);
    cut(&pair->server);
    pair->late_at = 0;
    pair->held_count = 0;
    pair->kept_count = 0;
    pair->started = false;
    pair->in_batch = false;
}

static void forward(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        count -= (size_t)sent;
    }
}

/* What is to become of a connection at its COMMIT, which `bytes` begin with. */
static void meet_commit(struct proxy *proxy, struct proxy_pair *pair, const char *bytes,
                        size_t count)
{
    enum proxy_mode mode = (enum proxy_mode)proxy->mode;
    atomic_fetch_add(&proxy->met, 1);
    if (mode != PROXY_VANISH)
        proxy->mode = PROXY_PASS;
    switch (mode) {
    case PROXY_LATE_DROP:
    case PROXY_LATE_COMMIT:
        /* Time for the server to come to the batch's number, before somebody else asks for it. */
        (void)usleep(PROXY_AHEAD_MS * 1000);
        pair->held_count = mode == PROXY_LATE_COMMIT ? count : 0;
        memcpy(pair->held, bytes, pair->held_count);
        pair->late_at = now_ms() + PROXY_LATE_MS;
        cut(&pair->client);
        return;
    case PROXY_LOSE_ANSWER:
        forward(pair->server, bytes, count);
        /* The client hears nothing more; the server's answer is waited for. */
        pair->late_at = INT64_MAX;
        return;
    default:
        cut_pair(pair);
    }
}

static uint32_t read_uint32(const char *bytes)
{
    const uint8_t *at = (const uint8_t *)bytes;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Length of the message that the bytes begin with; 0 when not all of it is there. Messages have a
 * type in front of their length, but for those before the connection has started. */
static size_t message_len(const struct proxy_pair *pair, const char *bytes, size_t count)
{
    size_t head = pair->started ? 1 : 0;
    if (count < head + 8 && !(pair->started && count >= 5))
        return 0;
    size_t len = head + read_uint32(bytes + head);
    if (len > sizeof pair->kept)
        give_up("a message is too long for the proxy");
    return len <= count ? len : 0;
}

static void from_client(struct proxy *proxy, struct proxy_pair *pair)
{
    enum { VERSION_3 = 3 << 16 };
    ssize_t got =
        recv(pair->client, pair->kept + pair->kept_count, sizeof pair->kept - pair->kept_count, 0);
    if (got <= 0) {
        cut_pair(pair);
        return;
    }
    size_t count = pair->kept_count + (size_t)got;
    size_t done = 0;
    for (;;) {
        const char *message = pair->kept + done;
        size_t len = message_len(pair, message, count - done);
        if (len == 0)
            break;
        if (!pair->started)
            pair->started = read_uint32(message + 4) == VERSION_3;
        else if (proxy->mode != PROXY_PASS && pair->in_batch && has_commit(message, len)) {
            meet_commit(proxy, pair, message, count - done);
            pair->kept_count = 0;
            return;
        }
        pair->in_batch = (pair->in_batch || has_batch(message, len)) && !has_commit(message, len);
        forward(pair->server, message, len);
        done += len;
    }
    memmove(pair->kept, pair->kept + done, count - done);
    pair->kept_count = count - done;
}

static void from_server(struct proxy_pair *pair)
{
    static char bytes[PROXY_BYTES];
    ssize_t count = recv(pair->server, bytes, sizeof bytes, 0);
    if (count <= 0 || (pair->late_at == INT64_MAX && has_commit(bytes, (size_t)count)))
        cut_pair(pair);
    else if (pair->client >= 0 && pair->late_at == 0)
        forward(pair->client, bytes, (size_t)count);
}

static void accept_one(struct proxy *proxy)
{
    int client = accept(proxy->listener, NULL, NULL);
    if (client < 0)
        return;
    struct sockaddr_in address = local(proxy->server_port);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    struct proxy_pair *free_pair = NULL;
    for (int i = 0; i < PROXY_PAIRS; i++)
        if (proxy->pairs[i].client < 0 && proxy->pairs[i].server < 0)
            free_pair = &proxy->pairs[i];
    if (free_pair == NULL || server < 0 || (proxy->mode == PROXY_VANISH && proxy->met > 0) ||
        connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        cut(&client);
        cut(&server);
        return;
    }
    free_pair->client = client;
    free_pair->server = server;
}

static void end_late(struct proxy_pair *pair)
{
    if (pair->late_at == 0 || pair->late_at == INT64_MAX || now_ms() < pair->late_at)
        return;
    if (pair->held_count > 0) {
        forward(pair->server, pair->held, pair->held_count);
        pair->held_count = 0;
        pair->late_at = now_ms() + PROXY_LATE_MS;
        return;
    }
    cut_pair(pair);
}

static void *run(void *arg)
{
    struct proxy *proxy = arg;
    while (!proxy->stopping) {
        struct pollfd entries[1 + 2 * PROXY_PAIRS];
        entries[0] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (int i = 0; i < PROXY_PAIRS; i++) {
            entries[1 + 2 * i] = (struct pollfd){.fd = proxy->pairs[i].client, .events = POLLIN};
            entries[2 + 2 * i] = (struct pollfd){.fd = proxy->pairs[i].server, .events = POLLIN};
        }
        (void)poll(entries, 1 + 2 * PROXY_PAIRS, 20);
        for (int i = 0; i < PROXY_PAIRS; i++) {
            struct proxy_pair *pair = &proxy->pairs[i];
            if (entries[1 + 2 * i].revents != 0 && pair->client == entries[1 + 2 * i].fd)
                from_client(proxy, pair);
            if (entries[2 + 2 * i].revents != 0 && pair->server == entries[2 + 2 * i].fd)
                from_server(pair);
            end_late(pair);
        }
        if (entries[0].revents != 0)
            accept_one(proxy);
    }
    return NULL;
}

void proxy_start(struct proxy *proxy, uint16_t server_port)
{
    memset(proxy, 0, sizeof *proxy);
    proxy->server_port = server_port;
    for (int i = 0; i < PROXY_PAIRS; i++)
        proxy->pairs[i].client = proxy->pairs[i].server = -1;
    struct sockaddr_in address = local(0);
    socklen_t len = sizeof address;
    proxy->listener = socket(AF_INET, SOCK_STREAM, 0);
    if (proxy->listener < 0 ||
        bind(proxy->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(proxy->listener, PROXY_PAIRS) != 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &len) != 0)
        give_up("proxy");
    proxy->port = ntohs(address.sin_port);
    if (pthread_create(&proxy->thread, NULL, run, proxy) != 0)
        give_up("proxy");
}

void proxy_stop(struct proxy *proxy)
{
    proxy->stopping = true;
    (void)pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PROXY_PAIRS; i++)
        cut_pair(&proxy->pairs[i]);
    cut(&proxy->listener);
}

void proxy_set(struct proxy *proxy, enum proxy_mode mode)
{
    proxy->met = 0;
    proxy->mode = mode;
}
