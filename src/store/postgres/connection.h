/* One connection to PostgreSQL in pipeline mode: statements are queued, sent in flights, and their
 * results read in the same order. Nothing here blocks past a deadline.
 *
 * The server works on a statement as soon as it has it, but keeps the results to itself until it is
 * asked for them: connection_flush asks within a transaction, connection_sync ends it. When a
 * statement fails the server skips all others up to the next sync.
 *
 * Errors say where the server is and never a password. A connection that failed in a way that
 * nobody knows what it will do next is broken: it is closed and opened anew. */
#ifndef PAWL_STORE_POSTGRES_CONNECTION_H
#define PAWL_STORE_POSTGRES_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/uuid.h"
#include "store/postgres/origin.h"
#include "store/postgres/params.h"
#include "store/postgres/prepared.h"

enum { CONNECTION_WHERE_MAX = 256 };

/* One of several hosts that a URL names; what is absent is as the URL says. */
struct connection_host {
    const char *name;
    const char *address;
    const char *port;
};

struct connection {
    PGconn *pg;          /* NULL: not connected */
    struct uuid session; /* of this connection: a new one for each */
    int64_t batch;       /* number of its last writing transaction */
    int64_t timeout_ms;  /* for each flight */
    uint64_t flights;    /* that were sent: each is a round trip */
    uint32_t quiet;      /* statements sent whose results nobody wants */
    bool broken;
    bool conflicted;   /* the last sync met a row that was there already */
    bool is_naming;    /* statements with parameters may go out under names */
    bool is_stale;     /* the server does not know what it should: to be closed, not kept */
    bool is_settled;   /* the session has the settings of writing transactions */
    bool is_forgetful; /* it does not even know a statement that was prepared */
    struct prepared prepared;
    bool rolled_back; /* the last sync ended a transaction that the server rolled back */
    bool unsent;      /* something was queued since the last flush or sync */
    bool warned;      /* the server has warned of something since this was cleared */

    /* Where it leads: see origin.h. */
    uint64_t generation; /* the handle's when it was opened */
    int64_t timeline;
    char mark[ORIGIN_MARK_MAX];
};

/* Connects, trying again with growing pauses until `deadline` (monotonic). unavailable when it
 * cannot, at once when trying again would not help. */
enum error_code connection_open(struct connection *connection, const char *url, int64_t deadline,
                                struct err *err);
void connection_close(struct connection *connection);

/* The same with one of the hosts only, and one attempt. */
enum error_code connection_open_at(struct connection *connection, const char *url,
                                   const struct connection_host *host, int64_t deadline,
                                   struct err *err);

/* "HOST:PORT/DATABASE", as far as libpq knows. */
const char *connection_where(const struct connection *connection, char text[CONNECTION_WHERE_MAX]);

/* Sleeps before the next attempt, longer each time and never the same, but not past `deadline`. */
void connection_pause(int attempt, int64_t deadline);

/* Whether an idle connection is still there, as far as can be seen without asking the server. */
bool connection_alive(struct connection *connection);

/* Prepares what was met since the last time, if that can be done here. Not within a transaction.
 * Fails only when the connection is lost. */
enum error_code connection_prepare(struct connection *connection, struct err *err);

/* Queues a statement. `params` may be NULL. Results come in binary. */
enum error_code connection_send(struct connection *connection, const char *sql,
                                struct params *params, struct err *err);

/* The same for a statement whose result is only checked. Its turn comes before the next result that
 * is asked for, so it must not be queued behind a statement whose result was not read. */
enum error_code connection_send_quiet(struct connection *connection, const char *sql,
                                      struct params *params, struct err *err);

/* The result of the next statement, which the caller clears. Fails as connection_error does. */
enum error_code connection_result(struct connection *connection, PGresult **ret, struct err *err);

/* Sends the statements and one result is read: for flights of one. */
enum error_code connection_ask(struct connection *connection, const char *sql,
                               struct params *params, PGresult **ret, struct err *err);

/* Asks for the results of what was sent so far. */
enum error_code connection_flush(struct connection *connection, struct err *err);

/* Ends the flight and with it the transaction, if that was told to; reads up to the sync and checks
 * every result that is left. The first failure is returned; `broken` tells whether the server has
 * come to the sync at all. */
enum error_code connection_sync(struct connection *connection, struct err *err);

/* Throws away whatever the transaction did. Never fails: a connection that does not answer is
 * broken. */
void connection_rollback(struct connection *connection);

/* Runs a script of several statements outside the pipeline, until `deadline`. */
enum error_code connection_script(struct connection *connection, const char *sql, int64_t deadline,
                                  struct err *err);

/* Waits up to `deadline` until the server has said something, or `other_fd` (-1: none) can be
 * read. */
enum error_code connection_listen(struct connection *connection, int other_fd, int64_t deadline,
                                  struct err *err);

#endif
