/* What becomes of leases whose holders will never hear of them: they are given back at once, so
 * that others need not wait until they end. */
#ifndef PAWL_ENGINE_GIVE_BACK_H
#define PAWL_ENGINE_GIVE_BACK_H

#include "base/str.h"
#include "engine/engine.h"
#include "engine/verb.h"

/* An answer that could not be delivered. */
struct lost_answer {
    enum verb_name name;
    struct str answer;
    struct str scope; /* with `key`: of the request key; absent: it had none */
    struct str key;
};

/* Gives back the leases in the answer; those of verbs that are no claims and no batch have none.
 * What is kept of the request under its key gives way in the same commit: a claim is carried out
 * anew when it comes again, and a batch, which has done other things, has claimed nothing. Waits
 * until that is done; should it fail the leases end by themselves, in their time. */
void give_back_leases(struct engine *engine, const struct lost_answer *lost);

#endif
