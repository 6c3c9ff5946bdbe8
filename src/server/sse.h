/* Streams of events (text/event-stream): of one job, and of all. A stream is suspended while there
 * is nothing to send; the watch wakes it. */
#ifndef PAWL_SERVER_SSE_H
#define PAWL_SERVER_SSE_H

#include "server/connection.h"

/* Looks for events behind connection->call.after, and goes on with the connection when there are
 * any, or else waits. On a thread that may block; must be the last to touch the connection. */
void sse_look(struct connection *connection);

/* Answers with the stream, once the first look went well. */
enum MHD_Result sse_begin(struct connection *connection);

#endif
