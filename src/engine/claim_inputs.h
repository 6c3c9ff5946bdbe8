/* What the steps of a claim get from those that they depend on. It is read for all of them
 * together: a thousand steps that were claimed at once may depend on the same one, or on one each.
 */
#ifndef PAWL_ENGINE_CLAIM_INPUTS_H
#define PAWL_ENGINE_CLAIM_INPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/uuid.h"
#include "store/store.h"

struct claim_inputs {
    struct arena *arena; /* of everything below */
    struct map index;    /* from job and step to a place in `at` */
    struct claim_input *at;
    uint32_t count;
    uint32_t cap;
    uint32_t read; /* of them, in their order */
    size_t bytes;  /* of the results that were read */
};

/* `seed` is for the look-up table. */
void claim_inputs_init(struct claim_inputs *inputs, struct arena *arena, uint64_t seed);

/* Notes the steps of a job that are named in a raw JSON array. False, here and below: memory ran
 * out. */
bool claim_inputs_want(struct claim_inputs *inputs, struct uuid job, struct str steps);

/* Reads what they came to, until there are more than `bytes_max` bytes of results. What could not
 * be read is not there. */
bool claim_inputs_read(struct claim_inputs *inputs, struct store_txn *txn, size_t bytes_max);

/* What a step came to; false: that was not read. */
bool claim_inputs_find(const struct claim_inputs *inputs, struct uuid job, struct str step,
                       struct str *ret);

#endif
