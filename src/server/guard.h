/* Who may ask. A server on loopback is open to processes of its own user and of root (peer.h), but
 * not to web pages that a browser of theirs shows, and not to what a proxy forwards from elsewhere.
 * Anyone who has signed in with a browser may ask through our own page alone (session.h).
 *
 * What tells that a page of somebody else asks: Sec-Fetch-Site, which browsers send to servers that
 * they trust (TLS, loopback), Origin, which they send with all that is no plain GET, and Host, when
 * a name was made to lead here. */
#ifndef PAWL_SERVER_GUARD_H
#define PAWL_SERVER_GUARD_H

#include "server/connection.h"

/* Fills in connection->asked: who asks, for what. */
void guard_ask(struct connection *connection);

/* Whether everybody may ask for this: pages that tell how the server is. */
bool guard_is_open(const struct connection *connection);

/* Fills in connection->auth; or unauthorized, forbidden, rate_limited: the request must not be
 * answered. May block when auth_must_read says so. */
enum error_code guard_check(struct connection *connection, struct err *err);

/* A write is about to be carried out, and it is known how many operations it has: rate_limited when
 * they are too many. The first operation was paid for by guard_check, but for those of a batch. */
enum error_code guard_charge(struct connection *connection, struct err *err);

/* Whether the text is a name or address of this machine alone, perhaps with a port. */
bool guard_is_loopback(struct str host);

#endif
