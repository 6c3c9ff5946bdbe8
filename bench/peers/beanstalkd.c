/* A client of beanstalkd: any number of connections in one thread. Producers keep `batch` puts
 * under way (pipelining is the only batch there is); workers reserve and delete one job at a time.
 */
#define _GNU_SOURCE /* NOLINT: ppoll */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver.h"

enum {
    INPUT_BYTES = 64 * 1024,
    PUT_BYTES_MAX = DRIVE_PAYLOAD_BYTES + 64,
};

struct peer;

struct connection {
    struct peer *peer;
    int fd;
    /* Takes one whole answer: its line without the line's end. */
    void (*answered)(struct connection *connection, const char *line);
    uint64_t to_send; /* puts that are still to be sent */
    uint64_t window;  /* how many of them may be under way */
    uint64_t sent;    /* under way */
    size_t input_size;
    char input[INPUT_BYTES];
};

struct peer {
    struct drive *drive;
    struct connection **connections;
    struct pollfd *polled;
    uint32_t count;
    uint64_t put;
    uint64_t done;
    double *when; /* each job was put; latency only, and so the next */
    double *ms;
};

static void send_all(struct connection *connection, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(connection->fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            drive_die("beanstalkd: the connection was lost: %s", strerror(errno));
        bytes += sent;
        size -= (size_t)sent;
    }
}

static void send_puts(struct connection *connection, uint64_t count)
{
    char *text = drive_alloc(count, PUT_BYTES_MAX);
    size_t size = 0;
    for (uint64_t i = 0; i < count; i++)
        size += (size_t)snprintf(text + size, PUT_BYTES_MAX, "put 0 0 600 %d\r\n%s\r\n",
                                 DRIVE_PAYLOAD_BYTES, connection->peer->drive->payload);
    send_all(connection, text, size);
    free(text);
    connection->sent += count;
    connection->to_send -= count;
}

static void send_window(struct connection *connection)
{
    uint64_t count =
        connection->to_send < connection->window ? connection->to_send : connection->window;
    if (count > 0)
        send_puts(connection, count);
}

static void put_answered(struct connection *connection, const char *line)
{
    if (strncmp(line, "INSERTED ", 9) != 0)
        drive_die("beanstalkd: put: %s", line);
    connection->peer->put++;
    if (--connection->sent == 0)
        send_window(connection);
}

/* Jobs are numbered from 1 in the order of their puts. */
static void note_start(struct peer *peer, uint64_t id)
{
    if (peer->ms == NULL)
        return;
    if (id == 0 || id > peer->drive->jobs)
        drive_die("beanstalkd: there are more jobs than were put");
    peer->ms[id - 1] = (drive_now() - peer->when[id - 1]) * 1e3;
}

static void work_answered(struct connection *connection, const char *line)
{
    struct peer *peer = connection->peer;
    if (strncmp(line, "RESERVED ", 9) == 0) {
        uint64_t id = strtoull(line + 9, NULL, 10);
        char command[64];
        int size = snprintf(command, sizeof command, "delete %llu\r\n", (unsigned long long)id);
        note_start(peer, id);
        send_all(connection, command, (size_t)size);
    } else if (strcmp(line, "DELETED") == 0) {
        if (++peer->done < peer->drive->jobs)
            send_all(connection, "reserve\r\n", 9);
    } else {
        drive_die("beanstalkd: %s", line);
    }
}

/* Length of the body that follows a line. */
static size_t body_size(const char *line)
{
    const char *number = NULL;
    if (strncmp(line, "RESERVED ", 9) == 0)
        number = strchr(line + 9, ' ');
    else if (strncmp(line, "OK ", 3) == 0)
        number = line + 2;
    return number == NULL ? 0 : strtoul(number, NULL, 10) + 2;
}

/* Takes whole answers from the front of the input. */
static void take_answers(struct connection *connection)
{
    size_t used = 0;
    for (;;) {
        char *line = connection->input + used;
        size_t rest = connection->input_size - used;
        char *end = memchr(line, '\n', rest);
        if (end == NULL || end == line)
            break;
        end[-1] = '\0';
        size_t size = (size_t)(end + 1 - line) + body_size(line);
        if (size > rest) {
            end[-1] = '\r';
            break;
        }
        used += size;
        connection->answered(connection, line);
    }
    memmove(connection->input, connection->input + used, connection->input_size - used);
    connection->input_size -= used;
}

static void receive(struct connection *connection)
{
    size_t room = INPUT_BYTES - connection->input_size;
    ssize_t got = recv(connection->fd, connection->input + connection->input_size, room, 0);
    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0)
        drive_die("beanstalkd: the connection was lost: %s", strerror(errno));
    connection->input_size += (size_t)got;
    take_answers(connection);
}

/* Waits until `until` at most, 0 for ever, and takes what has come. */
static void turn(struct peer *peer, double until)
{
    struct timespec span = {0};
    double wait = until - drive_now();
    if (wait > 0) {
        span.tv_sec = (time_t)wait;
        span.tv_nsec = (long)((wait - (double)span.tv_sec) * 1e9);
    }
    if (ppoll(peer->polled, peer->count, until > 0 ? &span : NULL, NULL) < 0 && errno != EINTR)
        drive_die("poll: %s", strerror(errno));
    for (uint32_t i = 0; i < peer->count; i++)
        if (peer->polled[i].revents != 0)
            receive(peer->connections[i]);
}

static struct connection *connection_open(struct peer *peer)
{
    struct connection *connection = drive_alloc(1, sizeof *connection);
    struct sockaddr_in address = {.sin_family = AF_INET};
    int one = 1;
    address.sin_port = htons((uint16_t)strtoul(peer->drive->target, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->peer = peer;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 ||
        connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
        drive_die("beanstalkd: cannot connect: %s", strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    peer->connections[peer->count] = connection;
    peer->polled[peer->count] = (struct pollfd){.fd = connection->fd, .events = POLLIN};
    peer->count++;
    return connection;
}

static void open_producers(struct peer *peer, uint32_t count, uint64_t jobs, uint32_t window)
{
    for (uint32_t i = 0; i < count; i++) {
        struct connection *connection = connection_open(peer);
        connection->answered = put_answered;
        connection->to_send = drive_share(jobs, i, count);
        connection->window = window;
    }
}

static void open_workers(struct peer *peer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        connection_open(peer)->answered = work_answered;
}

static void start_all(struct peer *peer)
{
    for (uint32_t i = 0; i < peer->count; i++) {
        struct connection *connection = peer->connections[i];
        if (connection->answered == work_answered)
            send_all(connection, "reserve\r\n", 9);
        else
            send_window(connection);
    }
}

static void close_all(struct peer *peer)
{
    for (uint32_t i = 0; i < peer->count; i++) {
        close(peer->connections[i]->fd);
        free(peer->connections[i]);
        peer->connections[i] = NULL;
    }
    peer->count = 0;
}

static void fill(struct peer *peer, uint64_t jobs)
{
    open_producers(peer, 4, jobs, 500);
    start_all(peer);
    while (peer->put < jobs)
        turn(peer, 0);
    close_all(peer);
}

/* Job i is sent at its moment; what has come is taken in between. */
static void put_slowly(struct peer *peer, struct connection *producer)
{
    struct drive *drive = peer->drive;
    for (uint64_t i = 0; i < drive->jobs; i++) {
        double moment = drive->started + (double)i / drive->rate;
        while (drive_now() < moment)
            turn(peer, moment);
        peer->when[i] = drive_now();
        producer->to_send = 1;
        send_puts(producer, 1);
    }
    while (peer->done < drive->jobs)
        turn(peer, 0);
}

/* What the server has of the tube: `ready` and `reserved` jobs together. */
static uint64_t left(struct peer *peer)
{
    struct connection *connection = connection_open(peer);
    char answer[8192];
    size_t size = 0;
    send_all(connection, "stats\r\n", 7);
    while (size < sizeof answer - 1) {
        ssize_t got = recv(connection->fd, answer + size, sizeof answer - 1 - size, 0);
        if (got <= 0)
            drive_die("beanstalkd: no stats");
        size += (size_t)got;
        answer[size] = '\0';
        char *end = strchr(answer, '\n');
        if (end != NULL && size >= (size_t)(end + 1 - answer) + body_size(answer))
            break;
    }
    const char *ready = strstr(answer, "current-jobs-ready: ");
    const char *reserved = strstr(answer, "current-jobs-reserved: ");
    if (ready == NULL || reserved == NULL)
        drive_die("beanstalkd: stats without counts");
    return strtoull(ready + 20, NULL, 10) + strtoull(reserved + 23, NULL, 10);
}

int main(int argc, char **argv)
{
    struct drive drive;
    drive_parse(argc, argv, &drive);
    struct peer peer = {.drive = &drive};
    peer.connections = drive_alloc(2 * DRIVE_CLIENTS_MAX + 1, sizeof(struct connection *));
    peer.polled = drive_alloc(2 * DRIVE_CLIENTS_MAX + 1, sizeof *peer.polled);
    bool slow = drive_is(&drive, "latency");
    bool puts = drive_is(&drive, "enqueue"); /* and does nothing else */
    bool produces = !drive_is(&drive, "work");

    fill(&peer, drive.waiting + (produces ? 0 : drive.jobs));
    if (produces)
        open_producers(&peer, slow ? 1 : drive.producers, slow ? 0 : drive.jobs, drive.batch);
    if (!puts)
        open_workers(&peer, drive.clients);
    if (slow) {
        peer.when = drive_alloc(drive.jobs, sizeof *peer.when);
        peer.ms = drive_alloc(drive.jobs, sizeof *peer.ms);
    }

    peer.put = 0;
    drive_begin(&drive);
    start_all(&peer);
    if (slow)
        put_slowly(&peer, peer.connections[0]);
    else
        while ((produces && peer.put < drive.jobs) || (!puts && peer.done < drive.jobs))
            turn(&peer, 0);
    drive_end(&drive);

    uint64_t jobs = left(&peer);
    if (slow)
        drive_tell_latencies(&drive, peer.ms, drive.jobs, jobs);
    else if (puts)
        drive_tell(&drive, drive.jobs, jobs);
    else
        drive_tell(&drive, drive.jobs + drive.waiting - jobs, jobs);
    close_all(&peer);
    free(peer.connections);
    free(peer.polled);
    free(peer.when);
    free(peer.ms);
    return 0;
}
