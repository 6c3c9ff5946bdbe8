/* Whether a write would succeed now: what /readyz says, and why not.
 *
 * Happy path: callers write, and the last commit is the proof. When none was committed for a
 * second, a small write goes through the engine as a caller's would; it may take as long as it
 * wants, since there is one at a time. When the last one that succeeded is READINESS_MS old, writes
 * fail or hang: a synchronous standby is away, the host is read-only, the disk is full, the owner
 * of the file is another. */
#ifndef PAWL_SERVER_READINESS_H
#define PAWL_SERVER_READINESS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "server/pool.h"

enum {
    READINESS_MS = 4000,       /* without a write that has succeeded */
    READINESS_PROBE_MS = 1000, /* a write that is older is followed by a small one */
};

struct readiness;

/* NULL: no memory. Until it is looked at it is ready. `pool` runs the small writes, and is closed
 * before readiness_close. */
struct readiness *readiness_open(struct engine *engine, struct pool *pool);
void readiness_close(struct readiness *readiness);

/* Looks whether a small write is needed, and has it made. Called every half second or so. */
void readiness_look(struct readiness *readiness);

/* Any thread. False: `ret_why`, of `size` bytes (0: not wanted), says what is wrong. */
bool readiness_is_given(struct readiness *readiness, char *ret_why, size_t size);

#endif
