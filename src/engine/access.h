/* Who may do what: which scopes each verb asks for, and jobs of which queues a call may touch. */
#ifndef PAWL_ENGINE_ACCESS_H
#define PAWL_ENGINE_ACCESS_H

#include "core/access.h"
#include "engine/answer.h"
#include "engine/verb.h"

/* The scopes of which one is needed for the verb; admin is always enough. */
uint32_t access_scopes_of(enum verb_name name);

/* Whether scopes (0: all there are) are enough for the verb: forbidden, saying which it needs. */
enum error_code access_check_scopes(uint32_t scopes, enum verb_name name, struct err *err);

/* Whether a call may be carried out at all, as far as that can be said without looking at jobs: its
 * scopes, and for a call that is limited to queues that the verb is not about all of them. */
enum error_code access_check(const struct verb_call *call, struct err *err);

/* For requests which only some may make: forbidden, saying that `what` needs admin. */
enum error_code access_check_admin(const struct verb_call *call, const char *what, struct err *err);

/* Whether `queues` (NULL: all) has the queue; access_check_queue, of a queue that the caller has
 * named itself: forbidden. A job of another queue is not found, as if it did not exist. */
bool access_has_queue(const struct names *queues, struct str queue);
enum error_code access_check_queue(const struct names *queues, struct str queue, struct err *err);

/* What the call may see of a job of its queues: all of it with the scope read (or admin), and
 * nothing but id, status and version without. Every verb that writes jobs asks here, whatever it
 * does. */
struct sight access_sight(const struct verb_call *call);

/* The same, of which only the parts in `parts` were asked for. */
struct sight access_sight_of(const struct verb_call *call, int parts);

/* What a worker sees of the job that it was leased a moment ago: all of it. */
struct sight access_sight_of_holder(void);

/* Whether the call may see nothing of a job but id, status and version: what commands tell core,
 * for refusals. */
bool access_blind(const struct verb_call *call);

/* Whether the call may answer questions to people: scope answer. */
bool access_may_answer(const struct verb_call *call);

/* Limits a filter to the queues of the call: forbidden when it names another. */
enum error_code access_filter(const struct verb_call *call, struct store_filter *filter,
                              struct err *err);

#endif
