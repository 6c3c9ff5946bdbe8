/* Requests that were carried out before: what their operations came to, from the record and from
 * the histories of their jobs, so that the verb can make its response once more.
 *
 * A history is read up to the version that the record names and folded: the job is as it was then,
 * whatever has become of it. Two things cannot be told again. A job that was redacted since is
 * shown as it is now, since its history says no longer what it was; of an append the version is
 * told that it had. A job that was deleted since is not_found, for a reason that says that the
 * request was carried out. Leases of either are left out of what a claim was given: nobody holds
 * them any more. */
#ifndef PAWL_ENGINE_RECALL_H
#define PAWL_ENGINE_RECALL_H

#include "engine/verb.h"

/* Fills in the operations of the call from the record of its request. Reads the store, in one
 * transaction; holds a page of a history in memory, and the job. A record with the whole response
 * becomes the result (call->result.text). corrupt: the record is damaged; no_memory. */
enum error_code recall(struct verb_call *call, struct str record, struct err *err);

/* The record of a verb that takes long: its whole response, as version 0.1.0 kept all. */
void recall_write(const struct verb_call *call, struct buf *buf);

#endif
