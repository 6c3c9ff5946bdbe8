/* Opens the PostgreSQL store: see README.md beside it for how it works. */
#ifndef PAWL_STORE_POSTGRES_POSTGRES_STORE_H
#define PAWL_STORE_POSTGRES_POSTGRES_STORE_H

#include "store/schema.h"
#include "store/store.h"

/* As store_open, for a URL that begins with postgres:// or postgresql://. */
enum error_code postgres_store_open(struct str url, const struct store_options *options,
                                    struct store **ret, struct err *err);

/* The same with other migrations than those of this binary: for tests of upgrades. */
enum error_code postgres_store_open_with(struct str url, const struct store_options *options,
                                         const struct migrations *migrations, struct store **ret,
                                         struct err *err);

#endif
