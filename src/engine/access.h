/* Who may do what: which scopes each verb asks for, and jobs of which queues a call may touch. */
#ifndef PAWL_ENGINE_ACCESS_H
#define PAWL_ENGINE_ACCESS_H

#include "core/access.h"
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

/* Whether `queues` (NULL: all) has the queue: forbidden. Says nothing of a queue that a caller did
 * not name itself. */
bool access_has_queue(const struct names *queues, struct str queue);
enum error_code access_check_queue(const struct names *queues, struct str queue, struct err *err);
enum error_code access_no_job(struct err *err);

/* Limits a filter to the queues of the call: forbidden when it names another. */
enum error_code access_filter(const struct verb_call *call, struct store_filter *filter,
                              struct err *err);

#endif
