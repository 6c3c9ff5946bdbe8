/* The I/O threads. Each owns an event loop: one daemon of libmicrohttpd that runs when the loop
 * says so, the connections on it, and everything libmicrohttpd may call.
 *
 *          +--------------------------------------------------------------------+
 *          v                                                                    |
 *   take the inbox ----> MHD_run ----> hand the engine one list ----> wait ------+
 *   responses to send,   reads all     of the calls that came; an     until a socket, the listener
 *   new connections      that came,    idle engine runs them here     or the inbox has something
 *                        writes what
 *                        is done
 *
 * Other threads touch a loop in one way only: they put a connection that is done into its inbox
 * (loop_resume), and then wake it, once for all that a batch has done (loop_wake). A loop that is
 * not asleep is not woken: it looks into its inbox before it sleeps.
 *
 * What must hold: a connection is only ever touched by its loop, or, while it is suspended, by the
 * one thread that carries its request out. */
#ifndef PAWL_SERVER_LOOP_H
#define PAWL_SERVER_LOOP_H

#include <microhttpd.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"

struct connection;
struct loop;
struct loops;
struct server;

/* What libmicrohttpd calls, on the thread of the loop: see server.c. */
struct loop_callbacks {
    MHD_AcceptPolicyCallback accept;
    MHD_AccessHandlerCallback request;
    MHD_NotifyConnectionCallback connection; /* its `cls` is the loop */
    MHD_RequestCompletedCallback completed;
    void *(*line)(void *cls, const char *uri, struct MHD_Connection *http);
    size_t (*unescape)(void *cls, struct MHD_Connection *http, char *text);
};

/* Starts the loops of a server, as many as its options say, which all accept from `listener`; that
 * becomes theirs. unavailable: no threads, no memory or no descriptors are left. */
enum error_code loops_open(struct server *server, int listener,
                           const struct loop_callbacks *callbacks, struct loops **ret,
                           struct err *err);

/* Ends their threads, when there are no connections any more; and forgets them, when the engine,
 * which may be about to wake one, has ended. NULL does nothing. */
void loops_close(struct loops *loops);
void loops_free(struct loops *loops);

/* The server that a loop belongs to. */
struct server *loop_server(const struct loop *loop);

/* On the loop's thread: a call goes to the engine with all others of this round. */
void loop_submit(struct loop *loop, struct call *call);

/* From any thread: a suspended connection goes on, once the loop is awake. */
void loop_resume(struct loop *loop, struct connection *connection);
void loop_wake(struct loop *loop);

/* The same, as those who are told by the engine use it: all of a batch, then one wake-up. */
struct call_sink *loop_sink(struct loop *loop);

/* On the loop's thread: one of its connections is gone. */
void loop_forget(struct loop *loop);

#endif
