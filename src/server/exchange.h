/* A request being carried out: by the engine, or by a thread of the pools, while the connection is
 * suspended; then answered. */
#ifndef PAWL_SERVER_EXCHANGE_H
#define PAWL_SERVER_EXCHANGE_H

#include "server/connection.h"

/* Has a thread look who asks; the connection is suspended, and then resumed as IDENTIFIED. */
enum MHD_Result exchange_ask(struct connection *connection);

/* Begins with a request that has come in completely. It is answered at once, or its connection is
 * suspended, and then resumed as DONE. */
enum MHD_Result exchange_start(struct connection *connection);

/* Answers what is DONE. */
enum MHD_Result exchange_answer(struct connection *connection);

/* The request is over: gives back what its answer holds, if that could not be sent. */
void exchange_end(struct connection *connection, bool sent);

/* For streams: suspends the connection; has a thread look for more to send; gives the connection
 * back to its loop, with more or with the last events. After the others than the first it is not to
 * be touched. */
void exchange_suspend(struct connection *connection, enum serving_event event);
void exchange_look(struct connection *connection);
void exchange_resume(struct connection *connection);
void exchange_resume_last(struct connection *connection);

/* Of a connection that is parked in the watch: whether its client is still there. */
bool exchange_is_watched(const struct watcher *watcher);

/* Takes a place among those that wait; false: none left. */
bool exchange_park(struct connection *connection);

/* Answers whether the server is ready as soon as that is known. */
enum MHD_Result exchange_readiness(struct connection *connection);

/* Has the page of all figures written, by a thread that may block, once it is known whether the
 * server is ready. */
enum MHD_Result exchange_figures(struct connection *connection);

#endif
