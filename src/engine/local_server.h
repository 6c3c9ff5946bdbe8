/* The owner's side of the socket beside a SQLite file: other processes' calls on this engine.
 *
 * One thread takes connections, and each connection has a thread of its own, which carries out one
 * call after the other. They take no signals. A claim whose caller has gone away is not run; when
 * the answer to a claim cannot be sent, its leases are given back. */
#ifndef PAWL_ENGINE_LOCAL_SERVER_H
#define PAWL_ENGINE_LOCAL_SERVER_H

#include "base/error.h"
#include "engine/engine.h"

enum { LOCAL_CONNECTIONS_MAX = 256 };

struct local_server;

/* Starts to serve the database at `db_path`, which `engine` has open: so that this process is its
 * owner. `ret` is NULL when there can be no socket in that place: then nobody else can reach the
 * store. unavailable, no_memory. */
enum error_code local_server_start(struct engine *engine, const char *db_path,
                                   struct local_server **ret, struct err *err);

/* Ends it: calls under way are answered, then connections are closed. Waits are not ended by this
 * but by engine_interrupt, which comes first. NULL does nothing. */
void local_server_stop(struct local_server *server);

#endif
