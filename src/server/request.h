/* A request as it comes in: whether it may be answered at all, which verb it is for, and its text.
 *
 * The text of a verb's request is one object, made of what the path says, what the query says, and
 * the members of the body; anyone who says the same twice is refused. */
#ifndef PAWL_SERVER_REQUEST_H
#define PAWL_SERVER_REQUEST_H

#include "server/connection.h"

/* Finds out where a request goes. False, here and below: it is refused, as connection->code and err
 * say. */
bool request_route(struct connection *connection, const char *method, const char *path,
                   const char *version);

/* Reads the rest of its head, once it is known who asks. */
bool request_admit(struct connection *connection);

/* Takes a piece of the body. False: so much is coming in that the connection must be cut. */
bool request_take(struct connection *connection, const char *data, size_t len);

/* Makes one checked object of it all, in connection->call.request. */
enum error_code request_finish(struct connection *connection);

/* A header of the request; absent: it is not there. */
struct str request_header(const struct connection *connection, enum header header);

/* How much the client wants something, in thousandths, as a header Accept or Accept-Encoding says:
 * 0 when it does not name it. */
int request_preference(struct str accept, struct str type);

#endif
