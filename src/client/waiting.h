/* Calls that wait for something to happen, seen from outside: whether a request asks for that, the
 * same request with another time to wait, and whether a server's response is what was waited for.
 * One that waits is sent as many. */
#ifndef PAWL_CLIENT_WAITING_H
#define PAWL_CLIENT_WAITING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "engine/verb.h"

/* A request that asks to wait, in pieces of its text. */
struct waiting {
    struct str before;
    struct str after;
    int64_t wait_ms;
};

/* False: it does not ask to wait, or not as it should, which the verb itself will report. */
bool waiting_find(enum verb_name name, struct str request, struct waiting *ret);

/* Adds the request with `wait_ms` in the place of its own. */
void waiting_write(const struct waiting *waiting, int64_t wait_ms, struct buf *request);

/* Whether the response is what was waited for. */
bool waiting_has_come(enum verb_name name, struct str answer, struct arena *arena);

#endif
