/* The log and the traces of a server: from its options to what they need. */
#ifndef PAWL_SERVER_TELEMETRY_H
#define PAWL_SERVER_TELEMETRY_H

#include "server/server_private.h"

/* Opens what the options ask for. bad_request: an address or a header is wrong; unavailable,
 * no_memory. What was opened is for telemetry_close, also when it fails. */
enum error_code telemetry_open(struct server *server, struct err *err);

/* Sends and writes what is left, for a moment, and ends both. When nobody is told anything any
 * more. */
void telemetry_close(struct server *server);

/* Tells that the server takes nothing new, and how many requests are left. */
void telemetry_drained(const struct server *server, uint32_t busy);

/* Tells of a request that has been answered, or never will be. */
void telemetry_request(const struct connection *connection, bool sent);

#endif
