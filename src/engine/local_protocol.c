#define _GNU_SOURCE /* NOLINT: O_PATH and struct ucred */
#include "engine/local_protocol.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/record.h"
#include "base/utf8.h"

enum {
    BACKLOG = 128,
    REASON_BYTES = 128,
    SOCKET_PATH_MAX = PATH_MAX + 16,
};

#define ABSENT UINT32_MAX

static const char magic[4] = {'P', 'A', 'W', 'L'};

/* ---- bytes ---- */

/* Waits until the socket is ready for `events`. */
static enum local_result wait_for(int socket, short events, int64_t deadline)
{
    for (;;) {
        struct pollfd entry = {.fd = socket, .events = events};
        int64_t left = deadline == LOCAL_NEVER ? -1 : deadline - clock_monotonic_ms();
        if (deadline != LOCAL_NEVER && left <= 0)
            return LOCAL_LATE;
        int ready = poll(&entry, 1, left > INT_MAX ? INT_MAX : (int)left);
        if (ready > 0)
            return LOCAL_DONE; /* or broken, which the next call will see */
        if (ready < 0 && errno != EINTR)
            return LOCAL_GONE;
    }
}

static enum local_result receive_bytes(int socket, char *at, size_t len, int64_t deadline)
{
    while (len > 0) {
        ssize_t got = recv(socket, at, len, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            len -= (size_t)got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return LOCAL_GONE;
        enum local_result result = wait_for(socket, POLLIN, deadline);
        if (result != LOCAL_DONE)
            return result;
    }
    return LOCAL_DONE;
}

/* Sends `pieces`, which are used up on the way. */
static enum local_result send_pieces(int socket, struct iovec *pieces, size_t count,
                                     int64_t deadline)
{
    while (count > 0) {
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
        ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return LOCAL_GONE;
        if (sent < 0) {
            enum local_result result = wait_for(socket, POLLOUT, deadline);
            if (result != LOCAL_DONE)
                return result;
            continue;
        }
        size_t left = (size_t)sent;
        while (count > 0 && left >= pieces->iov_len) {
            left -= pieces->iov_len;
            pieces++;
            count--;
        }
        if (count > 0) {
            pieces->iov_base = (char *)pieces->iov_base + left;
            pieces->iov_len -= left;
        }
    }
    return LOCAL_DONE;
}

static void put_number(uint8_t *at, size_t bytes, uint32_t number)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
}

static uint32_t get_number(const uint8_t *at, size_t bytes)
{
    uint32_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

/* ---- frames ---- */

/* How long a text may be. */
static uint32_t text_bytes_max(enum local_type type, size_t text)
{
    static const uint32_t call[LOCAL_TEXTS] = {64, 256, 256, 256, LOCAL_REQUEST_BYTES_MAX};
    switch (type) {
    case LOCAL_HELLO:
        return text == LOCAL_LIBRARY ? 64 : 0;
    case LOCAL_CALL:
        return call[text];
    case LOCAL_ANSWER:
        return text == LOCAL_MESSAGE ? 4096 : text == LOCAL_BODY ? LOCAL_ANSWER_BYTES_MAX : 0;
    }
    return 0;
}

enum local_result local_send(int socket, const struct local_frame *frame, int64_t deadline)
{
    uint8_t header[LOCAL_HEADER_BYTES];
    struct iovec pieces[1 + LOCAL_TEXTS] = {{header, sizeof header}};
    size_t count = 1;
    memcpy(header, magic, sizeof magic);
    put_number(header + 4, 2, LOCAL_VERSION);
    put_number(header + 6, 2, (uint32_t)frame->type);
    put_number(header + 8, 4, frame->code);
    put_number(header + 12, 4, frame->status);
    for (size_t i = 0; i < LOCAL_TEXTS; i++) {
        struct str text = frame->texts[i];
        if (text.len > text_bytes_max(frame->type, i))
            return LOCAL_TOO_LARGE;
        put_number(header + 16 + 4 * i, 4, str_is_set(text) ? (uint32_t)text.len : ABSENT);
        if (text.len > 0)
            pieces[count++] = (struct iovec){(void *)(uintptr_t)text.at, text.len};
    }
    return send_pieces(socket, pieces, count, deadline);
}

static enum local_result read_header(const uint8_t header[LOCAL_HEADER_BYTES],
                                     struct local_frame *ret, uint32_t lengths[LOCAL_TEXTS])
{
    uint32_t type = get_number(header + 6, 2);
    if (memcmp(header, magic, sizeof magic) != 0)
        return LOCAL_BROKEN;
    if (type != LOCAL_HELLO && type != LOCAL_CALL && type != LOCAL_ANSWER)
        return LOCAL_BROKEN;
    *ret = (struct local_frame){
        .version = get_number(header + 4, 2),
        .type = (enum local_type)type,
        .code = get_number(header + 8, 4),
        .status = get_number(header + 12, 4),
    };
    for (size_t i = 0; i < LOCAL_TEXTS; i++) {
        lengths[i] = get_number(header + 16 + 4 * i, 4);
        if (lengths[i] != ABSENT && lengths[i] > text_bytes_max(ret->type, i))
            return LOCAL_TOO_LARGE;
    }
    return LOCAL_DONE;
}

enum local_result local_receive(int socket, int64_t deadline, struct arena *arena,
                                struct local_frame *ret)
{
    uint8_t header[LOCAL_HEADER_BYTES];
    uint32_t lengths[LOCAL_TEXTS];
    struct local_frame frame;
    enum local_result result = receive_bytes(socket, (char *)header, 1, deadline);
    if (result != LOCAL_DONE)
        return result;
    int64_t end = clock_monotonic_ms() + LOCAL_FRAME_MS;
    result = receive_bytes(socket, (char *)header + 1, sizeof header - 1, end);
    if (result == LOCAL_DONE)
        result = read_header(header, &frame, lengths);
    for (size_t i = 0; i < LOCAL_TEXTS && result == LOCAL_DONE; i++) {
        if (lengths[i] == ABSENT)
            continue;
        char *text = arena_alloc(arena, lengths[i]);
        if (text == NULL)
            return LOCAL_NO_MEMORY;
        frame.texts[i] = (struct str){text, lengths[i]};
        result = receive_bytes(socket, text, lengths[i], end);
    }
    if (result == LOCAL_DONE)
        *ret = frame;
    return result == LOCAL_LATE ? LOCAL_CUT : result;
}

/* ---- the other side ---- */

bool local_is_gone(int socket)
{
    char byte;
    ssize_t got = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* The user on the other side: of who has connected, or of who has made the socket. */
static bool other_user(int socket, uid_t *ret)
{
    struct ucred other;
    socklen_t len = sizeof other;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &len) != 0 || len != sizeof other)
        return false;
    *ret = other.uid;
    return true;
}

bool local_may_call(int socket)
{
    uid_t user;
    return other_user(socket, &user) && (user == geteuid() || user == 0);
}

bool local_may_own(int socket, const char *path)
{
    uid_t user;
    struct stat status;
    if (!other_user(socket, &user))
        return false;
    if (user == geteuid() || user == 0)
        return true;
    /* Whose file it is could write into it anyway. */
    return geteuid() == 0 && lstat(path, &status) == 0 && status.st_uid == user;
}

/* ---- the socket ---- */

static void socket_path(const char *path, char ret[SOCKET_PATH_MAX])
{
    (void)snprintf(ret, SOCKET_PATH_MAX, "%s.sock", path);
}

static bool fits(const char *path)
{
    struct sockaddr_un address;
    return strlen(path) < sizeof address.sun_path;
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert(fits(path));
    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = address_of(path);
    int result = new_socket();
    if (result < 0)
        return -errno;
    if (connect(result, (const struct sockaddr *)&address, sizeof address) == 0)
        return result;
    int number = errno;
    (void)close(result);
    return -number;
}

int local_connect(const char *path)
{
    char name[SOCKET_PATH_MAX];
    char short_name[64];
    socket_path(path, name);
    if (fits(name))
        return connect_to(name);
    /* An address holds only 107 bytes, but the kernel has shorter names for what is open. */
    int file = open(name, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return -errno;
    (void)snprintf(short_name, sizeof short_name, "/proc/self/fd/%d", file);
    int result = connect_to(short_name);
    (void)close(file);
    return result;
}

/* A name for a socket that is going to be renamed: none that anybody else would choose. */
static void temporary_name(char *ret, size_t size)
{
    uint64_t random;
    random_fill(&random, sizeof random);
    (void)snprintf(ret, size, ".pawl-%016llx", (unsigned long long)random);
}

/* Binds where the address is too long: under a short name, by way of the directory, and then
 * renames that. 0, or errno. */
static int bind_long(int listener, const char *name)
{
    char directory[SOCKET_PATH_MAX];
    char temporary[32];
    char short_name[64];
    const char *slash = strrchr(name, '/');
    assert(slash != NULL);
    (void)snprintf(directory, sizeof directory, "%.*s/", (int)(slash - name), name);
    int opened = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0)
        return errno;
    temporary_name(temporary, sizeof temporary);
    (void)snprintf(short_name, sizeof short_name, "/proc/self/fd/%d/%s", opened, temporary);
    struct sockaddr_un address = address_of(short_name);
    int number = 0;
    if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0)
        number = errno;
    else if (renameat(opened, temporary, opened, slash + 1) != 0) {
        number = errno;
        (void)unlinkat(opened, temporary, 0);
    }
    (void)close(opened);
    return number;
}

static int bind_short(int listener, const char *name)
{
    struct sockaddr_un address = address_of(name);
    return bind(listener, (const struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
}

static enum error_code cannot_listen(const char *name, int number, struct err *err)
{
    char text[REASON_BYTES];
    const char *reason = strerror_r(number, text, sizeof text);
    return err_set(err, ERR_UNAVAILABLE, "cannot create the socket %s for other processes: %s",
                   name, reason);
}

/* Some file systems, of other machines and of other systems, have no sockets. */
static bool has_no_sockets(int number)
{
    return number == EPERM || number == EOPNOTSUPP || number == ENOTSUP || number == ENOSYS ||
           number == EAFNOSUPPORT;
}

static void lock_path(const char *path, char ret[SOCKET_PATH_MAX])
{
    (void)snprintf(ret, SOCKET_PATH_MAX, "%s.lock", path);
}

static bool look(const char *name, struct local_place_file *ret)
{
    struct stat status;
    if (lstat(name, &status) != 0)
        return false;
    *ret = (struct local_place_file){status.st_dev, status.st_ino};
    return true;
}

static bool is_same(const char *name, const struct local_place_file *file)
{
    struct local_place_file there;
    return look(name, &there) && there.device == file->device && there.inode == file->inode;
}

bool local_is_lost(const char *path, const struct local_place *place)
{
    char name[SOCKET_PATH_MAX];
    /* Who has lost the lock has no right to the socket either: another owner may be there. */
    lock_path(path, name);
    if (!is_same(name, &place->lock))
        return false;
    socket_path(path, name);
    return !is_same(name, &place->socket);
}

enum error_code local_listen(const char *path, int *ret_socket, struct local_place *ret_place,
                             struct err *err)
{
    char name[SOCKET_PATH_MAX];
    struct stat status;
    socket_path(path, name);
    if (lstat(name, &status) == 0) {
        if (!S_ISSOCK(status.st_mode))
            return err_set(err, ERR_UNAVAILABLE, "%s exists and is not a socket: remove it", name);
        if (unlink(name) != 0)
            return cannot_listen(name, errno, err);
    }
    int listener = new_socket();
    if (listener < 0)
        return cannot_listen(name, errno, err);
    /* The mode of the socket becomes that of its file, so that it never was another one. */
    int number = fchmod(listener, S_IRUSR | S_IWUSR) == 0 ? 0 : errno;
    if (number == 0)
        number = fits(name) ? bind_short(listener, name) : bind_long(listener, name);
    if (number == 0 && listen(listener, BACKLOG) != 0)
        number = errno;
    if (number == 0) {
        *ret_place = (struct local_place){0};
        (void)look(name, &ret_place->socket);
        lock_path(path, name);
        (void)look(name, &ret_place->lock);
        *ret_socket = listener;
        return ERR_OK;
    }
    (void)close(listener);
    if (!has_no_sockets(number))
        return cannot_listen(name, number, err);
    *ret_socket = -1;
    return ERR_OK;
}

void local_unlisten(const char *path, const struct local_place *place)
{
    char name[SOCKET_PATH_MAX];
    socket_path(path, name);
    if (is_same(name, &place->socket))
        (void)unlink(name);
}
