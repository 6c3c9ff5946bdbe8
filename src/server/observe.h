/* Who is told what the server's engine does: figures, and anyone else the server's options name.
 *
 * It is told on the engine's thread, so that nobody here may block. */
#ifndef PAWL_SERVER_OBSERVE_H
#define PAWL_SERVER_OBSERVE_H

#include "engine/observer.h"

struct server;

/* The one observer of the server's engine. What it tells is made before the store is opened, and
 * lives until the store is closed. */
struct observer observe_all(struct server *server);

#endif
