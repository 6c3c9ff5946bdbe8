/* Work that is in lanes which do not exist, so that no claim ever finds it: put into the lanes
 * that it belongs to. */
#ifndef PAWL_ENGINE_MEND_H
#define PAWL_ENGINE_MEND_H

#include "store/store.h"

/* Puts right what there is, lane by lane. `ret_count` is how many pieces of work that were. */
enum error_code mend_lanes(struct store *store, struct arena *arena, uint64_t *ret_count,
                           struct err *err);

#endif
