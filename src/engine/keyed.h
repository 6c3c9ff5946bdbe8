/* Requests under a key for verbs that take long: bulk, redrive, drop, import, backup.
 *
 * What they do is many transactions, so that the record of the request cannot be in the same one:
 * it is written when all is done, with the answer. Anyone who repeats the request before that must
 * be kept out by others (the server does); anyone who repeats it after a crash has it carried out
 * again, which these verbs allow: what was done before is not there to be done any more. */
#ifndef PAWL_ENGINE_KEYED_H
#define PAWL_ENGINE_KEYED_H

#include "engine/verb.h"

/* Carries out a LONG verb whose call has a key, or gives the result of the first time:
 * idempotency_mismatch when that was another request. A request that fails leaves no record. */
enum error_code keyed_run(struct verb_call *call, struct err *err);

#endif
