/* Where a connection leads: to which cluster, which timeline of it, and which life of the store.
 *
 * Everything that a handle remembers (numbers of lanes, marks, names of statements) was read from
 * one origin. A failover that loses the end of the log, a restore, and a second primary that nobody
 * has fenced all put another origin behind the same URL, and what was remembered is wrong there.
 * So:
 *
 * - Every new connection is asked where it leads before anything else is. When that is another
 *   origin than the handle's, the handle moves there: a new generation begins, everything that was
 *   remembered is forgotten, and connections of older generations are closed, not used. The pool
 *   therefore never has connections to two origins that can both be used.
 * - A handle only moves on, never back. A primary with a lower timeline than one that was seen is
 * an old primary without fencing, and a second primary of the same timeline is its twin: both are
 *   refused, and nothing is read from them or written to them.
 * - Every transaction reads, with the statement that reads the settings, whether it is still where
 *   its connection was when it was opened: behind a pooler, or while a dump is restored, the origin
 *   changes without a new connection.
 *
 * The store's own part is the newest row of pawl.incarnations. It names the cluster, the timeline
 * and the database that it was written for, and the transaction that wrote it, which is also the
 * row's xmin: a copy that was loaded from a dump has another one. Anyone who finds that the newest
 * row was written for something else adds one, with a random id, so that all servers learn of it
 * from the database. PostgreSQL tells the timeline and the system identifier to everybody, but a
 * managed service may not; what is not known (0) is not compared. */
#ifndef PAWL_STORE_POSTGRES_ORIGIN_H
#define PAWL_STORE_POSTGRES_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"

enum { ORIGIN_MARK_MAX = 128 };

struct origin {
    int64_t number; /* of the row; 0: none (yet) */
    struct uuid id;
    int64_t system;        /* the cluster's identifier; 0: not known */
    int64_t timeline;      /* 0: not known, as on a standby */
    int64_t flushed;       /* how far the log was written then; 0: not known */
    int64_t superseded_by; /* a timeline that a server has seen elsewhere; 0: none */
    bool is_restored;      /* the row was added since the store was put back to an earlier state */
    bool is_standby;
    char mark[ORIGIN_MARK_MAX]; /* what a transaction reads to compare */
};

/* What ORIGIN_MARK makes of the newest row, `i`. */
#define ORIGIN_MARK                                                                                \
    "i.number || ' ' || i.id || ' ' || i.superseded_by ||"                                         \
    " CASE WHEN i.xact::text::int8 % 4294967296 = i.xmin::text::int8 THEN '' ELSE ' loaded' END"

/* The timeline and the end of the log, on a primary; where these functions may be called. */
#define ORIGIN_TIMELINE                                                                            \
    "('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::int8"
#define ORIGIN_FLUSHED "(pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::int8"

enum origin_verdict {
    ORIGIN_SAME,    /* as before */
    ORIGIN_FORWARD, /* another one, to which the handle moves */
    ORIGIN_REFUSED,
};

/* What a handle that knows `known` (number 0: nothing) does with a connection that leads to `seen`.
 * `ret_why` is set when it is refused: a text without parameters of its own. */
enum origin_verdict origin_judge(const struct origin *known, const struct origin *seen,
                                 const char **ret_why);

#endif
