/* One TCP connection, and the request that is on it; and all of them, so that those who take too
 * long can be cut off.
 *
 * A connection is libmicrohttpd's: it is made when a client connects and freed when the socket is
 * about to be closed. While it is suspended (EXCHANGE_WORKING) it belongs to whoever carries the
 * request out, and libmicrohttpd does not touch it. */
#ifndef PAWL_SERVER_CONNECTION_H
#define PAWL_SERVER_CONNECTION_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/undelivered_claims.h"
#include "engine/verb.h"
#include "server/auth.h"
#include "server/header.h"
#include "server/pool.h"
#include "server/readiness.h"
#include "server/routes.h"
#include "server/tls.h"
#include "server/watch.h"

/* Where the request on a connection is. */
enum exchange_stage {
    EXCHANGE_IDLE,      /* none has begun */
    EXCHANGE_ASKING,    /* somebody looks who it is, and the connection is suspended */
    EXCHANGE_ASKED,     /* that is known */
    EXCHANGE_RECEIVING, /* its body is coming in */
    EXCHANGE_WORKING,   /* it is being carried out, and the connection is suspended */
    EXCHANGE_DONE,      /* it is to be answered */
    EXCHANGE_ANSWERING, /* the answer is on its way */
};

struct client;

/* What the watchdog looks at. */
enum phase {
    PHASE_IDLE,
    PHASE_RECEIVING,
    PHASE_WORKING, /* may take as long as it takes */
    PHASE_SENDING,
};

/* Whether a peer without a token is one whom the server trusts: asked once a connection. */
enum peer_standing {
    PEER_NOT_ASKED,
    PEER_TRUSTED,
    PEER_STRANGER,
};

struct connection {
    struct server *server;
    struct MHD_Connection *http;
    int socket;
    struct tls_pair *pair;   /* the certificate that it began with; NULL: no TLS */
    struct connection *next; /* of all, under the mutex of struct connections */
    struct connection *previous;
    struct client *client; /* whose it is: see clients.h; NULL: there was no memory */
    enum peer_standing peer;
    bool excess; /* it came when there were too many, which is all that it is told */
    bool late;   /* it came when the server was about to end, which is all that it is told */
    atomic_int phase;
    _Atomic(int64_t) phase_since; /* on the engine's steady clock */

    /* The request, until it has been answered. */
    enum exchange_stage stage;
    int64_t began_us;                 /* when its first line came, on the system's steady clock */
    unsigned status;                  /* of the answer; 0: there is none yet */
    struct arena arena;               /* its text, and what the engine needs of it */
    struct arena scratch;             /* of one look at the store */
    struct str headers[HEADER_COUNT]; /* the first of each; absent: it was not sent */
    bool forwarded;                   /* by another server, as its headers say */
    struct route_match match;
    bool is_head;     /* only the head of the answer is wanted */
    struct str allow; /* method_not_allowed: the methods that there are */
    struct auth_request asked;
    struct auth auth;
    int64_t retry_ms;     /* when to come back; 0: as usual */
    struct buf request;   /* what the path and the query say, then the body */
    size_t head_len;      /* of the first */
    size_t held;          /* bytes of it that count against the server's limit, */
    size_t answer_held;   /* and those of the answer, in `scratch` */
    size_t dropped;       /* bytes of the body that came although it was too large */
    enum error_code code; /* what came of it */
    struct err err;
    struct verb_call call;
    bool has_answer_memory;           /* verb_call_release is needed */
    struct undelivered_claims claims; /* that it has given out, until the response has arrived */
    bool finished;                    /* `answer` is written */
    bool parked;                      /* counts among those that wait */
    bool has_key;                     /* its request key is taken: see connection_take_key */
    struct buf answer;
    struct task task;
    struct readiness_waiter ready; /* of /readyz and the metrics */

    /* A read that waits, or a stream. */
    int64_t wait_until; /* on the engine's steady clock; 0: it does not wait */
    struct watcher watcher;
    bool stream;
    bool stream_begun; /* its head was sent, so that there is no error to answer any more */
    bool stream_over;
    struct str pending; /* text that is to be sent, in `scratch` */
    size_t sent;
};

struct connections;

struct connections *connections_new(const struct server *server);
void connections_free(struct connections *connections);

/* libmicrohttpd's MHD_NotifyConnectionCallback: `cls` is the server. */
void connection_notify(void *cls, struct MHD_Connection *http, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* The connection that libmicrohttpd means; NULL: there was no memory for one. */
struct connection *connection_of(struct MHD_Connection *http);

/* Notes what it is doing now, for the watchdog. */
void connection_enter(struct connection *connection, enum phase phase);

/* Makes it ready for the next request. */
void connection_reset(struct connection *connection);

/* Counts bytes of an answer to come against the server's limit; false: there is no room. */
bool connection_hold(struct connection *connection, size_t bytes);

/* `answer`, in `scratch`, is all that is needed of it any more: moves it to a place of its size,
 * and counts that instead of what was held before. False: there is no room, and it is gone; never
 * when `always`, for what has been done and cannot be refused any more. */
bool connection_keep(struct connection *connection, bool always, struct str *answer);

/* Whether there is room for answers that cannot be refused later, in all of the limit. */
bool connection_has_room(const struct connection *connection);

/* Gives back `scratch`, and the answer in it, before it waits or looks anew. */
void connection_let_go(struct connection *connection);

/* Takes the request key for this one; false: another request is being carried out under it. It must
 * be left when that is over, on the same thread. */
bool connection_take_key(struct connection *connection);
void connection_leave_key(struct connection *connection);

/* Whether the client has gone away. Only while it is suspended, or on its own thread. */
bool connection_is_gone(const struct connection *connection);

/* Cuts off those who take too long; called about once a second. */
void connections_sweep(struct connections *connections);

/* How many there are, and how many of them have a request that is not answered completely; those
 * that came late are not among these. */
uint32_t connections_count(struct connections *connections, uint32_t *ret_busy);

#endif
