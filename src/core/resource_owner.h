/* Whose a resource is: the queues that it belongs to, and which tokens may use or change it.
 *
 *   a resource is    when                                may be used by        may be changed by
 *   of some queues   a token of some queues registered   tokens of all these   tokens of all these
 *                    it, or its queues were named        queues                queues
 *   of all queues    a token of all queues did           tokens of all queues  tokens of all queues
 *   shared           an admin of all queues shared it    every token           tokens of all queues
 *   unowned          0.1.0 registered it                 tokens of all queues  these, and a caller
 * that adopts it
 *
 * A resource holds steps of its own queues only, so that deleting it ends no steps of other
 * queues. An unowned one is adopted by the first token of some queues that registers it again, as
 * its worker does to renew it. */
#ifndef PAWL_CORE_RESOURCE_OWNER_H
#define PAWL_CORE_RESOURCE_OWNER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "core/resource.h"

enum resource_sharing { SHARED_AS_BEFORE, SHARED_NO, SHARED_YES };

/* What a registration says of the owner, and who says it. */
struct resource_claimant {
    const struct names *by;       /* the queues of the token; NULL: all */
    bool admin;                   /* it has the scope admin */
    bool names_queues;            /* the registration says whose it shall be: */
    struct names queues;          /* of these; none: of all */
    enum resource_sharing shared; /* or of everybody */
};

/* Whether a token of these queues (NULL: all) may see the resource, and claim steps on it. */
bool resource_may_use(const struct resource *resource, const struct names *queues);

/* Whether it may change, renew and delete it. */
bool resource_may_change(const struct resource *resource, const struct names *queues);

/* Whether it may take over a resource that nobody owns. */
bool resource_may_adopt(const struct resource *resource);

/* Whether steps of the queue may run on it. */
bool resource_serves(const struct resource *resource, struct str queue);

/* Whether it may be deleted: not_found when the token may not even see it, forbidden when it is
 * shared and the token is for some queues. */
enum error_code resource_check_delete(const struct resource *resource, const struct names *queues,
                                      struct err *err);

/* Decides whose `ret`, which is registered, will be; `known` is the resource of that id, NULL when
 * the resource is new. forbidden: it is another's, or only an admin may say that; bad_request:
 * shared and of queues. */
enum error_code resource_decide_owner(const struct resource *known,
                                      const struct resource_claimant *claimant,
                                      struct resource *ret, struct err *err);

/* Not found, as every verb says it of resources. */
enum error_code resource_unknown(struct str id, struct err *err);

#endif
