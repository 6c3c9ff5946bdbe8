/* Whether a write would succeed now: what /readyz says, and why not.
 *
 * Happy path: callers write, and the last commit is the proof. When somebody asks and it is older
 * than READINESS_PROOF_MS, a small write goes through the engine as a caller's would, and who asked
 * waits for what comes of it. It may take as long as it wants, since there is one at a time; but
 * after READINESS_WAIT_MS it counts as hanging: a synchronous standby is away, the store is out of
 * reach. When it fails, the host is read-only, the disk is full, the owner of the file is another.
 *
 * While nobody asks and nobody writes, such a write is made once in READINESS_IDLE_MS, so that an
 * idle server writes little and its log still tells of a store that is away; while writes
 * fail, once in READINESS_RETRY_MS, so that it tells soon when the store is back. */
#ifndef PAWL_SERVER_READINESS_H
#define PAWL_SERVER_READINESS_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/engine.h"
#include "server/pool.h"

/* Who asks waits at most until the look after READINESS_WAIT_MS, and what they are told is at most
 * READINESS_PROOF_MS old: together less than 5 s. */
enum {
    READINESS_PROOF_MS = 2000,
    READINESS_WAIT_MS = 2000,
    READINESS_RETRY_MS = 1000,
    READINESS_IDLE_MS = 60 * 1000,
};

struct readiness;

/* Somebody who asked, and waits. Memory of the caller, who leaves it alone until it was run. */
struct readiness_waiter {
    void (*run)(struct readiness_waiter *waiter); /* it may be gone when that returns */
    struct readiness_waiter *next;                /* the readiness' own */
};

/* NULL: no memory. Until it is looked at it is ready. `pool` runs the small writes, and is closed
 * before readiness_close. */
struct readiness *readiness_open(struct engine *engine, struct pool *pool);
void readiness_close(struct readiness *readiness);

/* Looks whether a small write is needed although nobody asks, and tells those who have waited long
 * enough. Called every half second or so. */
void readiness_look(struct readiness *readiness);

/* Any thread. True: something must be found out first, and the waiter is run, by any thread, when
 * it is. False: it is known already, and the waiter is left alone. */
bool readiness_wait(struct readiness *readiness, struct readiness_waiter *waiter);

/* Runs all who wait. From now on nobody does. NULL does nothing. */
void readiness_end_waits(struct readiness *readiness);

/* Any thread; does not block. What is known. False: `ret_why`, of `size` bytes (0: not wanted),
 * says what is wrong. */
bool readiness_is_given(struct readiness *readiness, char *ret_why, size_t size);

#endif
