/* The store in a SQLite file, which one process owns. */
#ifndef PAWL_STORE_SQLITE_SQLITE_STORE_H
#define PAWL_STORE_SQLITE_SQLITE_STORE_H

#include "store/schema.h"
#include "store/store.h"

/* Opens the file at `path`. As store_open; a failure leaves nothing behind. */
enum error_code sqlite_store_open(struct str path, const struct store_options *options,
                                  struct store **ret, struct err *err);

/* What nobody sees from outside, for those who simulate: everything in one thread, and logs that
 * are soon full. All zero is the usual. */
struct sqlite_habits {
    bool by_hand;        /* start no thread: who needs rows in the database writes them, and
                            sqlite_store_turn does what the thread would */
    size_t journal_long; /* bytes of a file of the log in front of the database, from which on
                            records go to the other */
    int log_pages_max;   /* pages in SQLite's log, from which on they are moved to the database */
};

/* The same with other habits. */
enum error_code sqlite_store_open_with(struct str path, const struct store_options *options,
                                       const struct sqlite_habits *habits, struct store **ret,
                                       struct err *err);

/* A turn of the thread that writes behind, in a store that has none: has it freeze what is
 * committed, or write what is frozen. What cannot be written is tried again the next time. */
void sqlite_store_turn(struct store *store);

/* sqlite_store_open for a binary that knows these versions of the schema. */
enum error_code sqlite_store_open_known(struct str path, const struct store_options *options,
                                        const struct migrations *known, struct store **ret,
                                        struct err *err);

#endif
