/* Copies of the whole database into a new file. */
#ifndef PAWL_STORE_SQLITE_BACKUP_H
#define PAWL_STORE_SQLITE_BACKUP_H

#include "store/sqlite/connection.h"

/* Copies all that `from` sees to the file at `path`, which must be empty or not there, and puts it
 * on the disk. When it fails, what is at `path` is for the caller to delete. To be of one moment
 * while others write, `from` must have a transaction open. */
enum error_code sqlite_copy(struct connection *from, const char *path, int64_t *ret_bytes,
                            struct err *err);

#endif
