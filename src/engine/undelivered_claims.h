/* Leases whose response never reached the client: they are released at once, so that other workers
 * need not wait until they expire. */
#ifndef PAWL_ENGINE_UNDELIVERED_CLAIMS_H
#define PAWL_ENGINE_UNDELIVERED_CLAIMS_H

#include "base/str.h"
#include "core/token.h"
#include "engine/engine.h"
#include "engine/verb.h"

/* The leases of a response that could not be delivered. */
struct undelivered_claims {
    const struct token *tokens;
    uint32_t count;
    struct str scope; /* with `key`: of the request key; absent: the request had none */
    struct str key;
};

/* The leases that a call gives out which verb_finish has completed, in `arena`. Without memory
 * there are none: they expire in their time. */
struct undelivered_claims undelivered_claims_of(const struct verb_call *call, struct arena *arena);

/* Releases the leases. What is kept of the request under its key gives way in the same commit: a
 * claim is carried out anew when it comes again, and a batch that has done other things has claimed
 * nothing. Waits until that is done; should it fail the leases expire in their time. */
void undelivered_claims_release(struct engine *engine, const struct undelivered_claims *claims);

#endif
