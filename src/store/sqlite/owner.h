/* Who owns a database file: the process that holds the lock beside it, PATH.lock, and the one on
 * the file itself, which keeps out processes that use another name of it (a hard link, a file
 * mounted elsewhere).
 *
 * The locks are the kernel's and end with their holder, however that ends. The one beside the
 * database is taken before that is touched in any way. The file of the lock stays where it is, with
 * the number of the process that held it last; only when opening came to nothing and the lock is
 * new, it is deleted, and a process that has just opened it sees that it is no longer there, and
 * opens anew.
 *
 * The database is opened here once, before SQLite opens it, and closed after SQLite has closed it:
 * closing any descriptor of a file ends all locks of the other kind, SQLite's, that the process has
 * on it. */
#ifndef PAWL_STORE_SQLITE_OWNER_H
#define PAWL_STORE_SQLITE_OWNER_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

/* Room for the path, and for what is added to it: PATH.v123.bak.new */
enum { OWNER_SUFFIX_MAX = 64, OWNER_FILES = 6 };

/* A file that was there. */
struct owner_file {
    bool known;
    dev_t device;
    ino_t inode;
};

struct owner {
    char path[PATH_MAX]; /* of the database, absolute and without links */
    int lock;            /* on PATH.lock */
    int file;            /* the database, locked too */
    int64_t noted_at;    /* when somebody last noted that they look after it; 0: never */
    int64_t trusted_at;  /* and the time that they trusted then, cut to seconds; 0: not known */
    struct owner_file files[OWNER_FILES];
    struct owner_file directory;
    _Atomic int64_t calm_since; /* its time when all files were last found there; 0: not yet */
    bool made_lock;             /* it was not there before */
    bool made_file;             /* nor was the database */
};

/* What is in the database file. */
enum file_content { FILE_EMPTY, FILE_OURS };

/* Takes the lock on the database at `path`, which need not be there if `create` is set. not_found:
 * it is not there; bad_request: this cannot be a path; unavailable: it has an owner, or cannot be
 * used, with the reason. */
enum error_code owner_take(struct str path, bool create, struct owner *ret, struct err *err);

/* Opens the file, locks it and looks at it, without SQLite, so that nothing of somebody else's is
 * touched; makes an empty one where it is missing and `create` is set. not_found: there is nothing
 * yet; unavailable: it is not ours, has an owner, or cannot be used. */
enum error_code owner_look(struct owner *owner, bool create, enum file_content *ret,
                           struct err *err);

/* Notes that the database is looked after at `now`, and which time is `trusted`, without syncing
 * anything: they are the time of PATH.lock, and in it. */
void owner_note(struct owner *owner, int64_t now, int64_t trusted);

/* Notes which files are there, when SQLite has opened them all; and whether they still are. People
 * delete and move files: what is written to one without a name is lost. unavailable: one is gone,
 * or, when `ret_gone` is false then, nobody can tell.
 */
void owner_remember(struct owner *owner);
enum error_code owner_check(struct owner *owner, bool *ret_gone, struct err *err);

/* Gives the locks back. SQLite must have closed the file. */
void owner_release(struct owner *owner);

/* The same when opening came to nothing: what was made on the way is deleted. */
void owner_undo(struct owner *owner);

/* PATH with a suffix. */
void owner_path(const struct owner *owner, const char *suffix,
                char ret[PATH_MAX + OWNER_SUFFIX_MAX]);

/* Makes sure that the name at `path` is on the disk, in its directory; false, with errno, else. */
bool owner_sync_directory(const char *path);

/* Whether the database has a log that is not empty. */
bool owner_has_log(const struct owner *owner);

#endif
