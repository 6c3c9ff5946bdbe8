/* What is behind a struct pawl: an engine, or for a SQLite file that another process has, the way
 * to that process; and how the one becomes the other.
 *
 * The first process that opens a SQLite file becomes its owner, with an engine and a socket for the
 * others, or else talks to the owner. When the owner ends, one of the others takes its place: once
 * an owner, a handle stays that until it is closed. A call that was lost with the owner is made
 * again. Calls that must not be carried out twice have a request key from the start, whose record
 * is in the same commit as their effect, so that the next owner knows what the last one has done.
 */
#ifndef PAWL_ENGINE_HANDLE_H
#define PAWL_ENGINE_HANDLE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/verb.h"

struct handle;

struct handle_options {
    /* store.create: make it when it is not there; store.timeout_ms: how long to look for an owner
     * who answers, too. The clock is that of the owner. */
    struct engine_options engine;
    struct str actor; /* 1 to 128 bytes without control characters; absent: "library" */
};

/* Opens the store at `url`. Fails as engine_open, and with bad_request when `actor` is no name. */
enum error_code handle_open(struct str url, const struct handle_options *options,
                            struct handle **ret, struct err *err);

/* Closes it, when all calls on it have returned; their waits are ended. NULL does nothing. */
void handle_close(struct handle *handle);

/* Has a verb carried out, here or by the owner. `request` is JSON; absent: the empty one. `key` is
 * the caller's request key for this verb; absent: none. Any number of threads may do so at once.
 */
enum error_code handle_call(struct handle *handle, enum verb_name name, struct str request,
                            struct str key, struct arena *arena, struct buf *answer,
                            struct err *err);

/* Ends every wait for work, for a job or for events of this handle, now and from now on. */
void handle_interrupt(struct handle *handle);

/* Whether this process has the store, for tests and those who tell people. */
bool handle_is_owner(struct handle *handle);

/* The engine of a handle that has its store, for those who serve it; NULL: another process has it.
 */
struct engine *handle_engine(struct handle *handle);

#endif
