/* Who owns a database file: the process that holds the lock beside it, PATH.lock.
 *
 * The lock is the kernel's and ends with its holder, however that ends. It is taken before the
 * database is touched in any way: opening and closing the file would make SQLite's own locks of
 * another store in this process void. The file of the lock stays where it is, with the number of
 * the process that held it last; only when opening came to nothing and the lock is new, it is
 * deleted, and whoever then has just opened it sees that it is no longer there, and opens anew. */
#ifndef PAWL_STORE_SQLITE_OWNER_H
#define PAWL_STORE_SQLITE_OWNER_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

/* Room for the path, and for what is added to it: PATH.v123.bak.new */
enum { OWNER_SUFFIX_MAX = 64 };

struct owner {
    char path[PATH_MAX]; /* of the database, absolute and without links */
    int lock;
    bool made_lock; /* it was not there before */
    bool made_file; /* nor was the database */
};

/* What is in the database file. */
enum file_content { FILE_EMPTY, FILE_OURS };

/* Takes the lock on the database at `path`, which need not be there if `create` is set. not_found:
 * it is not there; bad_request: this cannot be a path; unavailable: it has an owner, or cannot be
 * used, with the reason. */
enum error_code owner_take(struct str path, bool create, struct owner *ret, struct err *err);

/* Looks at the file without SQLite, so that nothing of somebody else's is touched; makes an empty
 * one where there is none and `create` is set. not_found: there is nothing yet; unavailable: it is
 * not ours, or cannot be used. */
enum error_code owner_look(struct owner *owner, bool create, enum file_content *ret,
                           struct err *err);

/* Gives the lock back. */
void owner_release(struct owner *owner);

/* The same when opening came to nothing: what was made on the way is deleted. */
void owner_undo(struct owner *owner);

/* PATH with a suffix. */
void owner_path(const struct owner *owner, const char *suffix,
                char ret[PATH_MAX + OWNER_SUFFIX_MAX]);

/* Whether the database has a log that is not empty. */
bool owner_has_log(const struct owner *owner);

#endif
