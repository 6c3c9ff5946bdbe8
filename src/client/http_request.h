/* How a verb's request looks as one of HTTP: the other way round from what the server's routes do.
 *
 * Members that the path of the verb names go into it. What is left is the body for POST and PUT,
 * and goes into the query else. */
#ifndef PAWL_CLIENT_HTTP_REQUEST_H
#define PAWL_CLIENT_HTTP_REQUEST_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/verb.h"

enum { HTTP_TARGET_BYTES_MAX = 16 * 1024 }; /* path and query: more is for a body */

struct http_request {
    const char *method;
    const char *target; /* path and query, encoded, NUL-terminated */
    struct str body;    /* absent: none */
};

/* Checks `request` (absent: the empty one) as verb_do does, and turns it around. Everything is in
 * `arena`, or in the request itself. bad_request, payload_too_large, no_memory. */
enum error_code http_request_make(enum verb_name name, struct str request, struct arena *arena,
                                  struct http_request *ret, struct err *err);

#endif
