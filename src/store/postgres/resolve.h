/* Finds out what became of a transaction whose COMMIT was sent and never answered. */
#ifndef PAWL_STORE_POSTGRES_RESOLVE_H
#define PAWL_STORE_POSTGRES_RESOLVE_H

#include "store/postgres/postgres.h"

/* The connection that it ran on, which is broken, is opened anew with another session. OK and
 * COMMITTED; or unavailable with NOT_COMMITTED (it never was and never can be) or UNKNOWN (the
 * server did not come back in time). */
enum error_code batch_resolve(struct postgres *store, struct connection *connection,
                              struct uuid session, int64_t batch, enum store_outcome *outcome,
                              struct err *err);

#endif
