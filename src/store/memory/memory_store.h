/* The store that lives in memory: the reference for the others, and what simulations run on. */
#ifndef PAWL_STORE_MEMORY_MEMORY_STORE_H
#define PAWL_STORE_MEMORY_MEMORY_STORE_H

#include "store/store.h"

/* Opens an empty store that is gone when it is closed. There is nothing to create or to migrate.
 * Fails with no_memory, or unavailable when the system has no locks left. */
enum error_code memory_store_open(const struct store_options *options, struct store **ret,
                                  struct err *err);

#endif
