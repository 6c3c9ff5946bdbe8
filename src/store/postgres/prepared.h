/* Statements that a connection has prepared under names, so that the server plans them once and not
 * at every use.
 *
 * Only where the server itself is at the other end: behind a pooler the next transaction may meet
 * another server process, which knows no such name. A statement that is met for the first time goes
 * out as it is, and is prepared before the next transaction.
 *
 * Names are made from what the statements say: should there be a pooler after all that nobody has
 * noticed, another process knows a name either not at all or as the same statement. */
#ifndef PAWL_STORE_POSTGRES_PREPARED_H
#define PAWL_STORE_POSTGRES_PREPARED_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "store/postgres/params.h"

enum { PREPARED_MAX = 64, PREPARED_NAME_MAX = 24 };

struct prepared_statement {
    const char *sql; /* where the caller has it, */
    char *text;      /* and a copy, since something else may be there the next time */
    char name[PREPARED_NAME_MAX];
    int count;
    Oid types[PARAMS_MAX];
};

struct prepared {
    struct prepared_statement at[PREPARED_MAX];
    uint32_t count;  /* met so far */
    uint32_t ready;  /* so many of them, the first, are known to the server */
    bool is_refused; /* it is not to be done on this connection */
};

void prepared_release(struct prepared *prepared);

/* The name of a statement that is ready; NULL if it is not: it is noted for later. */
const char *prepared_find(struct prepared *prepared, const char *sql, const struct params *params);

/* Queues what has been noted; the caller syncs and, when that went well, sets `ready`. False when
 * libpq could not. */
bool prepared_send(const struct prepared *prepared, PGconn *pg);

#endif
