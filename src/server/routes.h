/* Which verb a request is for: the routes of verbs.def, and the few pages that are no verbs. */
#ifndef PAWL_SERVER_ROUTES_H
#define PAWL_SERVER_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/verb.h"

enum {
    ROUTE_MEMBERS_MAX = 3,
    ROUTE_COUNT_MAX = VERB_COUNT + 16,
    METHODS_BYTES_MAX = 64,
};

enum route_page {
    PAGE_VERB, /* none: a verb */
    PAGE_ROOT,
    PAGE_ASSET,   /* what it is made of */
    PAGE_SESSION, /* who is signed in */
    PAGE_SIGN_IN,
    PAGE_SIGN_OUT,
    PAGE_HEALTH,
    PAGE_READY,
    PAGE_METRICS,
    PAGE_OPENAPI,
};

struct route {
    struct str method;
    struct str path;
    enum route_page page;
    enum verb_name verb; /* PAGE_VERB */
    const char *text;    /* PAGE_VERB: what verbs.def says of it, a JSON object */
};

/* Where a request goes, with what its path says. */
struct route_match {
    const struct route *route;
    struct str names[ROUTE_MEMBERS_MAX];
    struct str values[ROUTE_MEMBERS_MAX]; /* decoded, UTF-8 */
    uint32_t count;
};

/* All routes, the verbs' first. */
const struct route *routes_all(uint32_t *ret_count);

/* Finds the route of a method and a path that is still encoded. not_found: none;
 * method_not_allowed: there are others for the path; bad_request: the path is not encoded as it
 * should be. */
enum error_code route_find(struct str method, struct str path, struct arena *arena,
                           struct route_match *ret, struct err *err);

/* Adds the methods that a path has, as the header Allow wants them: at most METHODS_BYTES_MAX. */
void route_methods(struct str path, struct buf *ret);

/* Decodes %XX; bad_request when it is wrong, or what comes out is not UTF-8 or has a NUL. */
enum error_code route_decode(struct str text, const char *what, struct arena *arena,
                             struct str *ret, struct err *err);

/* Whether the request may have a body: POST and PUT of verbs. */
bool route_has_body(const struct route *route);

#endif
