/* The frames that processes exchange over the socket beside a SQLite file, and that socket itself.
 *
 * A frame is a header of fixed size and up to five texts:
 *
 *    0  magic, "PAWL"
 *    4  version of the protocol, 2 bytes
 *    6  type, 2 bytes
 *    8  code, 4 bytes      answers: enum error_code; calls: the longest to wait at once, in ms,
 *                          0 for as long as the request says
 *   12  status, 4 bytes    answers: HTTP's, else 0
 *   16  lengths, 5 times 4 bytes, of the texts that follow; all bits set: the text is absent
 *   36  the texts
 *
 * Numbers have their highest byte first. The one who connects says hello with its version and gets
 * an answer; then calls and answers take turns. Header, hello and answer are the same in every
 * version, so that two that do not understand each other can say so.
 *
 * The socket is PATH.sock, where PATH is that of the database without links. Only the user who runs
 * the owner, and root, are let in. */
#ifndef PAWL_ENGINE_LOCAL_PROTOCOL_H
#define PAWL_ENGINE_LOCAL_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/verb.h"

enum {
    LOCAL_VERSION = 1,
    LOCAL_HEADER_BYTES = 36,
    LOCAL_TEXTS = 5,
    LOCAL_REQUEST_BYTES_MAX = IMPORT_BYTES_MAX, /* the longest; verbs have limits of their own */
    LOCAL_ANSWER_BYTES_MAX = EXPORT_BYTES_MAX,
    LOCAL_FRAME_MS = 10 * 1000, /* from the first byte of a frame to its last */
};

/* A deadline that never comes. */
#define LOCAL_NEVER INT64_MAX

enum local_type {
    LOCAL_HELLO = 1,
    LOCAL_CALL = 2,
    LOCAL_ANSWER = 3,
};

/* Which text is which. */
enum {
    LOCAL_LIBRARY = 0, /* of a hello: the version of the library */

    LOCAL_VERB = 0, /* of a call */
    LOCAL_SCOPE = 1,
    LOCAL_KEY = 2,
    LOCAL_ACTOR = 3,
    LOCAL_REQUEST = 4,

    LOCAL_MESSAGE = 0, /* of an answer: what was wrong, */
    LOCAL_BODY = 1,    /* or the answer; to a hello, the version of the owner's library */
    LOCAL_UNMET = 2,   /* empty: what the call may wait for has not come; else absent */
};

struct local_frame {
    uint32_t version;
    enum local_type type;
    uint32_t code;
    uint32_t status;
    struct str texts[LOCAL_TEXTS];
};

/* What came of sending or receiving. */
enum local_result {
    LOCAL_DONE,
    LOCAL_GONE,      /* the other side is not there any more */
    LOCAL_LATE,      /* the deadline has come, and nothing else */
    LOCAL_CUT,       /* it has come in the middle of a frame */
    LOCAL_BROKEN,    /* this is no frame */
    LOCAL_TOO_LARGE, /* a text is longer than it may be */
    LOCAL_NO_MEMORY,
};

/* Sends a whole frame, of this version of the protocol, until `deadline`. */
enum local_result local_send(int socket, const struct local_frame *frame, int64_t deadline);

/* Receives a whole frame, into `arena`. Its first byte must come until `deadline`, the others
 * within LOCAL_FRAME_MS from then on. Lengths are checked before memory is taken. */
enum local_result local_receive(int socket, int64_t deadline, struct arena *arena,
                                struct local_frame *ret);

/* Whether the other side has gone away, as far as can be told without waiting. */
bool local_is_gone(int socket);

/* For the owner: whether who has connected may use the store. That is our own user, or root. */
bool local_may_call(int socket);

/* For who has connected: whether the other side is to be believed that it has the database at
 * `path`. It is our own user, or root; when we are root, also the user whose file that is. */
bool local_may_own(int socket, const char *path);

/* Connects to the owner of the database at `path`; the socket is the caller's. Minus errno when it
 * cannot be reached. Does not wait. */
int local_connect(const char *path);

struct local_place_file {
    dev_t device;
    ino_t inode;
};

/* What was there when the socket had been made. */
struct local_place {
    struct local_place_file socket;
    struct local_place_file lock;
};

/* Makes the socket of the database at `path`, in place of one that a dead owner has left; the
 * caller must be the owner. `ret_socket` is -1 when there can be no sockets in that place.
 * unavailable, with the reason. */
enum error_code local_listen(const char *path, int *ret_socket, struct local_place *ret_place,
                             struct err *err);

/* Whether the socket is not there any more, although the lock beside it still is, so that anyone
 * who made it is the owner and may make it again. */
bool local_is_lost(const char *path, const struct local_place *place);

/* Takes it away again, so that nobody tries; but not that of another owner. */
void local_unlisten(const char *path, const struct local_place *place);

#endif
