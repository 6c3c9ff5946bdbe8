/* One TCP connection, and the request that is on it; and all of them, so that those who take too
 * long can be cut off.
 *
 * A connection is libmicrohttpd's: it is made when a client connects and freed when the socket is
 * about to be closed. serving.h says what it goes through, and whose it is when. */
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
#include "server/loop.h"
#include "server/pool.h"
#include "server/readiness.h"
#include "server/routes.h"
#include "server/serving.h"
#include "server/tls.h"
#include "server/watch.h"

struct client;

/* What a new connection is told. */
enum reception {
    RECEPTION_WELCOME,
    RECEPTION_EXCESS, /* that there are too many, and nothing else */
    RECEPTION_LATE,   /* that the server is about to end, and nothing else */
};

/* What there is of the response of a verb. */
enum response_state {
    RESPONSE_NONE,
    RESPONSE_HELD,    /* operations and their results, in memory of the engine: verb_call_release
                         is needed */
    RESPONSE_WRITTEN, /* `answer` has the text, or there was no memory for it */
};

/* Whether a peer without a token is one whom the server trusts: asked once a connection. */
enum peer_standing {
    PEER_NOT_ASKED,
    PEER_TRUSTED,
    PEER_STRANGER,
};

struct connection {
    struct server *server;
    struct loop *loop; /* whose it is */
    struct MHD_Connection *http;
    struct connection *next_done; /* in the inbox of its loop */
    int socket;
    struct tls_pair *pair;   /* the certificate that it began with; NULL: no TLS */
    struct connection *next; /* of all, under the mutex of struct connections */
    struct connection *previous;
    struct client *client; /* whose it is: see clients.h; NULL: there was no memory */
    enum peer_standing peer;
    enum reception reception;
    _Atomic(enum serving_state) state; /* see serving.h; changed by connection_move alone */
    _Atomic(int64_t) state_since;      /* on the engine's steady clock */

    /* The request, until it has been answered. */
    int64_t began_us;                 /* when its first line came, on the system's steady clock */
    unsigned status;                  /* of the answer; 0: none yet */
    struct arena arena;               /* its text, and what the engine needs of it */
    struct arena scratch;             /* of one look at the store */
    struct str headers[HEADER_COUNT]; /* the first of each; absent: it was not sent */
    const char *forwarded;            /* the header that says that another server sent it on */
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
    enum response_state response;
    struct undelivered_claims claims; /* that it has given out, until the response has arrived */
    bool parked;                      /* counts among those that wait */
    bool has_key;                     /* its request key is taken: see connection_take_key */
    struct buf answer;
    struct task task;
    struct readiness_waiter ready; /* of /readyz and the metrics */

    /* A read that waits, or a stream. */
    int64_t wait_until; /* on the engine's steady clock; 0: it does not wait */
    struct watcher watcher;
    bool stream;        /* it asks for one */
    struct str pending; /* text that is to be sent, in `scratch` */
    size_t sent;
};

struct connections;

struct connections *connections_new(const struct server *server);
void connections_free(struct connections *connections);

/* Connections beyond the limit that are told so. */
enum { CONNECTIONS_EXCESS_MAX = 64 };

/* How many there may be, those included; whether there may be more; and whether an address may have
 * one more. */
uint32_t connections_max(const struct connections *connections);
bool connections_have_room(struct connections *connections);
bool connections_take(struct connections *connections, const struct sockaddr *address);

/* libmicrohttpd's MHD_NotifyConnectionCallback: `cls` is the loop. */
void connection_notify(void *cls, struct MHD_Connection *http, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* The connection that libmicrohttpd means; NULL: there was no memory for one. */
struct connection *connection_of(struct MHD_Connection *http);

/* Something has happened to it. The event must be one of those that its state has. */
void connection_move(struct connection *connection, enum serving_event event);

enum serving_state connection_state(const struct connection *connection);

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

/* Cuts all of them off, and says how many there still are: libmicrohttpd closes them in its time.
 */
uint32_t connections_cut(struct connections *connections);

/* How many there are, and how many of them have a request that is not answered completely; those
 * that came late are not among these. */
uint32_t connections_count(struct connections *connections, uint32_t *ret_busy);

#endif
