/* Runs operations that stand in one array as a batch. */
#ifndef PAWL_TESTS_RUN_OPS_H
#define PAWL_TESTS_RUN_OPS_H

#include <stdlib.h>

#include "engine/batch.h"

static inline enum error_code run_ops(struct batcher *batcher, struct op *ops, uint32_t count,
                                      struct arena *arena, enum store_outcome *outcome,
                                      struct err *err)
{
    struct op **list = arena_zalloc(arena, count, sizeof(void *));
    if (list == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++)
        list[i] = &ops[i];
    return batch_run(batcher, list, count, arena, outcome, err);
}

#endif
