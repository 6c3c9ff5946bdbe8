/* The store in a SQLite file, which one process owns. */
#ifndef PAWL_STORE_SQLITE_SQLITE_STORE_H
#define PAWL_STORE_SQLITE_SQLITE_STORE_H

#include "store/schema.h"
#include "store/store.h"

/* Opens the file at `path`. As store_open; a failure leaves nothing behind. */
enum error_code sqlite_store_open(struct str path, const struct store_options *options,
                                  struct store **ret, struct err *err);

/* The same with a log that is moved to the database from so many pages on, by the writer, for
 * those who simulate. */
enum error_code sqlite_store_open_with(struct str path, const struct store_options *options,
                                       int log_pages_max, struct store **ret, struct err *err);

/* sqlite_store_open for a binary that knows these versions of the schema. */
enum error_code sqlite_store_open_known(struct str path, const struct store_options *options,
                                        const struct migrations *known, struct store **ret,
                                        struct err *err);

#endif
