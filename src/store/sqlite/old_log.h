/* The log that versions before 0.2.0 kept in front of the database, in PATH-ahead0 and PATH-ahead1:
 * what an owner that was killed had committed and not yet written to the tables. It is read once,
 * when such a store is migrated, and never written. */
#ifndef PAWL_STORE_SQLITE_OLD_LOG_H
#define PAWL_STORE_SQLITE_OLD_LOG_H

#include "store/sqlite/sqlite.h"

/* The first schema without it. */
enum { OLD_LOG_ENDS = 7 };

/* Within the transaction that migrates to that schema: applies the records that the tables do not
 * have. unavailable: the log is not that of this database; corrupt: it is damaged. */
enum error_code old_log_apply(struct sqlite_store *store, struct err *err);

/* Copies the files to the names that belong to a copy of the database at `path`. */
enum error_code old_log_copy(const struct owner *owner, const char *path, struct err *err);

/* Deletes the files. */
void old_log_delete(const struct owner *owner);

#endif
