/* Which work a claim may have, and in which order; nowhere else.
 *
 *   1. Work in a lane comes before jobs that the batch of the claim creates.
 *   2. Queues take turns: each claim begins with another queue, and goes on to the next one when
 * the first has nothing left.
 *   3. Within a queue, and among new jobs: by priority, then by due time and age. (In lanes the
 *      store sees to that: store/lane_merge.h.)
 *
 * A paused queue gives nothing away. */
#ifndef PAWL_ENGINE_CLAIM_ORDER_H
#define PAWL_ENGINE_CLAIM_ORDER_H

#include "engine/batch_private.h"

/* Fills in the lanes of a search, as groups: one for each queue, the first one first. */
enum error_code claim_order_lanes(struct batch *batch, const struct op *op,
                                  struct store_search *search);

/* The first job created by this batch that the claim may take, or NULL. */
enum error_code claim_first_new(struct batch *batch, const struct op *op, struct batch_job **ret);

/* Whether what was found is what the claim may have. It always is, unless the store has work in a
 * lane that it does not belong to: that is put back, into the right one. */
bool claim_may_have(const struct op *op, const struct job *job);

#endif
