/* Signing in from a browser. What is kept is a cookie, and in it the access token itself, which
 * scripts of the page cannot read: so there is nothing for a server to remember. A session holds
 * over a restart and on every server of a store, and ends with its token, when that is revoked or
 * expires, on all of them; else after SESSION_S, or when the user signs out.
 *
 * A browser sends the cookie along whichever page makes it ask. So what comes with a cookie must
 * come from our own page (guard.h), and what changes something must also have the header
 * X-Pawl-CSRF, with a text that only our own page can have read: a hash of the token. */
#ifndef PAWL_SERVER_SESSION_H
#define PAWL_SERVER_SESSION_H

#include "server/connection.h"

enum {
    SESSION_S = 7 * 24 * 60 * 60,
    SESSION_TOKEN_MAX = 512, /* bytes of a token that fits into a cookie */
};

/* The token in the cookie of a request, in its arena; absent: there is no cookie, or not one of
 * ours. */
struct str session_token(struct connection *connection);

/* Whether the request has the header that goes with the token. */
bool session_has_proof(const struct connection *connection, struct str token);

/* Answers GET, POST and DELETE of /session. */
enum MHD_Result session_answer(struct connection *connection);

#endif
