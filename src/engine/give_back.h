/* What becomes of leases whose holders will never hear of them: they are given back at once, so
 * that others need not wait until they end. */
#ifndef PAWL_ENGINE_GIVE_BACK_H
#define PAWL_ENGINE_GIVE_BACK_H

#include "base/str.h"
#include "engine/engine.h"
#include "engine/verb.h"

/* Gives back the leases in an answer of `name` that could not be delivered; other verbs have none.
 * Waits until that is done; what fails ends by itself, in its time. */
void give_back_leases(struct engine *engine, enum verb_name name, struct str answer);

#endif
