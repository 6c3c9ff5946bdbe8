/* Serving a connection, as a state machine.
 *
 *   A request is answered once, or its connection is closed; a connection is touched by one thread
 *   at a time.
 *
 *              line            admitted          started (or: finished at once)
 *   +------+ -------> +------+ -------> +------+ -------> +---------+
 *   | IDLE |          | HEAD |          | BODY |          | WORKING |*
 *   +------+          +------+          +------+          +---------+
 *      ^                 | asks           ^                    | resumed
 *      |                 v                | admitted           v
 *      |          +-------------+   +------------+        +------+
 *      |          | IDENTIFYING |*->| IDENTIFIED |        | DONE |
 *      |          +-------------+   +------------+        +------+
 *      |                      resumed     | answered          | answered
 *      |    over                          v                   v       (HEAD and BODY, too:
 *      +------------------------------ +---------+ <----------+        what is refused is
 *      |                               | SENDING |                     answered at once)
 *      |                               +---------+
 *      |                                    | streamed
 *      |    over     +--------+   last      v       emptied
 *      +------------ | ENDING | <----+ +-----------+ -------> +---------+
 *      |             +--------+      | | STREAMING |          | LOOKING |*
 *      |                             | +-----------+ <------- +---------+
 *      |    over                     |      |       resumed      |
 *      +-----------------------------|------+                    |
 *                                    +---------------------------+
 *
 * While it is in a state with a star the connection is suspended: libmicrohttpd does not touch it,
 * and it belongs to the thread that carries the request out (the engine's, a pool's, the watch's).
 * `resumed` and `last` give it back to its loop. In all other states it is its loop's.
 *
 * Each state says how long it may last: see serving_limit.
 *
 * Pure: no lock, no clock. connection_move does what a move says. */
#ifndef PAWL_SERVER_SERVING_H
#define PAWL_SERVER_SERVING_H

#include <stdbool.h>

enum serving_state {
    SERVING_IDLE,        /* no request has begun */
    SERVING_HEAD,        /* its first line has come */
    SERVING_IDENTIFYING, /* a thread looks who asks */
    SERVING_IDENTIFIED,  /* that is known */
    SERVING_BODY,        /* its body is coming in */
    SERVING_WORKING,     /* it is being carried out */
    SERVING_DONE,        /* it is to be answered */
    SERVING_SENDING,     /* the response is on its way */
    SERVING_STREAMING, /* events are on their way: the head of the response was sent, so that there
                          is no error to respond with any more */
    SERVING_LOOKING,   /* a thread looks for more events, or waits for some */
    SERVING_ENDING,    /* the last of them are on their way */
    SERVING_STATE_COUNT,
};

enum serving_event {
    SERVING_LINE,     /* the first line of a request has come */
    SERVING_ASKS,     /* who asks must be read from the store */
    SERVING_ADMITTED, /* it may ask: the body is read */
    SERVING_STARTED,  /* the request is complete, and somebody carries it out */
    SERVING_FINISHED, /* the request is complete, and was carried out at once */
    SERVING_RESUMED,  /* the thread that had the connection gives it back */
    SERVING_ANSWERED, /* there is a response */
    SERVING_STREAMED, /* and it is a stream of events */
    SERVING_EMPTIED,  /* all events that there are were sent */
    SERVING_LAST,     /* the connection is given back, with the last events */
    SERVING_OVER,     /* the response was sent, or cannot be */
    SERVING_EVENT_COUNT,
};

/* Which of the limits of a server holds for how long a state may last. */
enum serving_limit {
    LIMIT_NONE, /* as long as it takes */
    LIMIT_IDLE,
    LIMIT_RECEIVE,
    LIMIT_SEND,
};

/* What comes of an event in a state; SERVING_STATE_COUNT: the two never meet. */
enum serving_state serving_move(enum serving_state state, enum serving_event event);

enum serving_limit serving_limit(enum serving_state state);

/* Whether the connection is suspended. */
bool serving_is_suspended(enum serving_state state);

/* Whether a stream has begun. */
bool serving_is_stream(enum serving_state state);

#endif
