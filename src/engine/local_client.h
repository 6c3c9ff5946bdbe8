/* The other side of the socket beside a SQLite file: calls that the owner of the file carries out.
 *
 * A client keeps a few connections, which any thread may use, one call at a time on each. It knows
 * nothing of who the owner is: when that ends, calls are lost, and as soon as there is a new one,
 * calls reach that. Whether a call that was lost was carried out cannot be told; its caller sees to
 * it that it can be sent again. */
#ifndef PAWL_ENGINE_LOCAL_CLIENT_H
#define PAWL_ENGINE_LOCAL_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum {
    LOCAL_POOL_MAX = 64,    /* connections of one client */
    LOCAL_WAITING_MAX = 48, /* of which so many for calls that wait, so that others get through */
};

struct local_client;

struct local_request {
    struct str verb;
    struct str scope; /* with `key`; absent: none */
    struct str key;
    struct str actor;
    struct str request; /* JSON; absent: the empty one */
    int64_t wait_ms;    /* how long the owner may keep it because that was asked for, */
    int64_t slice_ms;   /* and how long it is to: see verb_call; 0: as the request says */
};

struct local_reply {
    bool lost;  /* the owner cannot be reached, or was gone before it answered */
    bool sent;  /* it was reached, so that the timeout begins anew with the next owner */
    bool unmet; /* what the call may wait for has not come */
    int status;
    struct str answer; /* in the arena of the call */
};

/* A client for the database at `db_path`, which must be absolute and without links, so that it
 * stands for the same file for ever. Connects to nobody yet. `timeout_ms` is how long the owner
 * may be silent before it counts as stuck. no_memory. */
enum error_code local_client_new(const char *db_path, int64_t timeout_ms, struct local_client **ret,
                                 struct err *err);

/* No call may be under way. NULL does nothing. */
void local_client_free(struct local_client *client);

/* Makes sure that there is an owner who answers, before `deadline`. unavailable, forbidden: with
 * `ret_again`, it may be worth to try again soon. */
enum error_code local_client_reach(struct local_client *client, int64_t deadline, bool *ret_again,
                                   struct err *err);

/* Has the owner carry out a call, and gives what came of it: its code, and in `err` its message.
 * unavailable with `lost`, see above; without, the owner said so, or it does not answer, or all
 * connections are in use. `ret` is filled in on failure too. */
enum error_code local_client_call(struct local_client *client, const struct local_request *request,
                                  struct arena *arena, struct local_reply *ret, struct err *err);

#endif
