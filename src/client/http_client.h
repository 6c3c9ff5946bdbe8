/* A server as if it were here: the verbs of pawl.h over HTTP.
 *
 * A request whose answer was lost is sent again, until the timeout. Those that must not be
 * carried out twice have an Idempotency-Key from the start. So a server that is restarted or
 * replaced is no more to callers than a moment's delay. A server that says that it has too much to
 * do is left alone for as long as it wants, if that is within the timeout. */
#ifndef PAWL_CLIENT_HTTP_CLIENT_H
#define PAWL_CLIENT_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/verb.h"

struct http_client;

struct http_client_options {
    const char *token;   /* NULL: none */
    const char *actor;   /* who acts, as histories will say if the server believes us; NULL: as it
                            likes */
    const char *ca_file; /* of the authorities to trust instead of the system's; NULL: those */
    int64_t timeout_ms;  /* how long to try; 0: 30 s */
    int64_t answer_ms;   /* how long the server may take for an answer, besides waits that were
                            asked for; 0: 35 s, or the timeout when that is more, and ten minutes
                            for verbs that do a lot at once */
};

/* Whether it is for this file to open. */
bool http_client_is_url(struct str url);

/* Makes sure that there is a server at "http://HOST:PORT" or "https://...", with a path before /v1
 * if it has one. bad_request: the URL or the token is invalid; unavailable: nobody
 * answers there as Pawl does; what the server says against us; no_memory. */
enum error_code http_client_open(struct str url, const struct http_client_options *options,
                                 struct http_client **ret, struct err *err);

/* Closes it, when all calls on it have returned; their waits are ended. NULL does nothing. */
void http_client_close(struct http_client *client);

/* Has a verb carried out by the server. `request` is JSON; absent: the empty one. `key` is the
 * caller's request key; absent: one that nobody else has. Any number of threads may do so at once.
 */
enum error_code http_client_call(struct http_client *client, enum verb_name name,
                                 struct str request, struct str key, struct arena *arena,
                                 struct buf *answer, struct err *err);

/* Ends every wait for work, for a job or for events, now and from now on. A claim that the server
 * has granted in that moment is not lost: it is the answer. */
void http_client_interrupt(struct http_client *client);

#endif
