#include "core/resource_owner.h"

#include <assert.h>

/* Whether it belongs to queues that are all among these. */
static bool belongs_to(const struct resource *resource, const struct names *queues)
{
    return queues == NULL ||
           (resource->queues.count > 0 && names_cover(queues, &resource->queues, NULL));
}

bool resource_may_use(const struct resource *resource, const struct names *queues)
{
    return resource->shared || belongs_to(resource, queues);
}

bool resource_may_change(const struct resource *resource, const struct names *queues)
{
    return queues == NULL || (!resource->shared && belongs_to(resource, queues));
}

bool resource_may_adopt(const struct resource *resource)
{
    return !resource->owned && !resource->shared;
}

bool resource_serves(const struct resource *resource, struct str queue)
{
    return resource->shared || resource->queues.count == 0 || names_have(&resource->queues, queue);
}

enum error_code resource_unknown(struct str id, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "unknown resource \"%.*s\"", STR_ARG(id));
}

static enum error_code refuse_shared(const struct resource *resource, struct err *err)
{
    return err_set(err, ERR_FORBIDDEN,
                   "the resource \"%.*s\" is shared: changing it requires a token for all queues",
                   STR_ARG(resource->id));
}

enum error_code resource_check_delete(const struct resource *resource, const struct names *queues,
                                      struct err *err)
{
    if (resource_may_change(resource, queues))
        return ERR_OK;
    return resource_may_use(resource, queues) ? refuse_shared(resource, err)
                                              : resource_unknown(resource->id, err);
}

/* The queues that were named must be the token's own: it could not give away what it has not. */
static enum error_code check_named(const struct resource_claimant *claimant, struct err *err)
{
    struct str foreign;
    if (claimant->by == NULL)
        return ERR_OK;
    if (claimant->queues.count == 0)
        return err_set(err, ERR_FORBIDDEN,
                       "queues is empty, which means all, but the token is limited to some queues");
    if (!names_cover(claimant->by, &claimant->queues, &foreign))
        return err_set(err, ERR_FORBIDDEN, "the token does not cover the queue \"%.*s\"",
                       STR_ARG(foreign));
    return ERR_OK;
}

static enum error_code check_sharing(const struct resource_claimant *claimant, bool was,
                                     bool shared, struct err *err)
{
    if (shared != was && (claimant->by != NULL || !claimant->admin))
        return err_set(err, ERR_FORBIDDEN,
                       "%s requires a token with the scope admin for all queues",
                       shared ? "to share a resource" : "to unshare a resource");
    if (shared && claimant->names_queues && claimant->queues.count > 0)
        return err_set(err, ERR_BAD_REQUEST,
                       "queues and shared exclude each other: a shared resource serves all queues");
    return ERR_OK;
}

enum error_code resource_decide_owner(const struct resource *known,
                                      const struct resource_claimant *claimant,
                                      struct resource *ret, struct err *err)
{
    assert(ret != NULL);
    bool was_shared = known != NULL && known->shared;
    bool shared =
        claimant->shared == SHARED_AS_BEFORE ? was_shared : claimant->shared == SHARED_YES;
    if (known != NULL && !resource_may_change(known, claimant->by) && !resource_may_adopt(known))
        return known->shared
                   ? refuse_shared(known, err)
                   : (enum error_code)err_set(err, ERR_FORBIDDEN,
                                              "the resource name \"%.*s\" is already taken",
                                              STR_ARG(ret->id));
    enum error_code code = check_sharing(claimant, was_shared, shared, err);
    if (code == ERR_OK && claimant->names_queues)
        code = check_named(claimant, err);
    if (code != ERR_OK)
        return code;
    ret->shared = shared;
    ret->owned = true;
    if (shared)
        ret->queues = (struct names){0};
    else if (claimant->names_queues)
        ret->queues = claimant->queues;
    else if (known != NULL && known->owned) /* a token of more queues may renew it for its owner */
        ret->queues = known->queues;
    else
        ret->queues = claimant->by != NULL ? *claimant->by : (struct names){0};
    return ERR_OK;
}
