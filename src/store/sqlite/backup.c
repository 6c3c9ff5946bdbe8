/* Copies of the whole database: for users, and before a migration.
 *
 * SQLite's backup runs on a connection whose reading transaction is open, so that all pages are of
 * one moment: without that it would begin anew whenever somebody else writes, and under load never
 * end. Writers go on meanwhile; only their log cannot be emptied until the copy is done. */
#include "store/sqlite/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"

enum { PAGES_AT_ONCE = 1024, REASON_BYTES = 128 };

/* What is added to a path while the copy is not complete. */
#define UNFINISHED ".unfinished-XXXXXX"

/* ---- the copy itself ---- */

/* Nothing is synced on the way, so that a disk that fails here ends the copy and not the process:
 * see lite_fail. */
static enum error_code open_copy(const char *path, struct connection *ret, struct err *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    int result = sqlite3_open_v2(path, &ret->db, flags, NULL);
    if (result != SQLITE_OK)
        return lite_fail(ret, result, "copy the database", err);
    return lite_run_sql(ret, STR("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF"),
                        "copy the database", err);
}

static enum error_code copy_pages(struct connection *from, struct connection *to, struct err *err)
{
    sqlite3_backup *backup = sqlite3_backup_init(to->db, "main", from->db, "main");
    int result = backup == NULL ? sqlite3_errcode(to->db) : SQLITE_OK;
    while (result == SQLITE_OK)
        result = sqlite3_backup_step(backup, PAGES_AT_ONCE);
    int finished = sqlite3_backup_finish(backup);
    if (result == SQLITE_DONE)
        result = finished;
    return result == SQLITE_OK ? ERR_OK : lite_fail(to, result, "copy the database", err);
}

static enum error_code fail_with(int number, const char *doing, struct err *err)
{
    char text[REASON_BYTES];
    if (strerror_r(number, text, sizeof text) != 0)
        (void)snprintf(text, sizeof text, "error %d", number);
    return err_set(err, ERR_UNAVAILABLE, "cannot %s: %s", doing, text);
}

/* Not before SQLite has closed it: closing a file ends all locks that the process has on it. */
static enum error_code sync_copy(const char *path, int64_t *ret_bytes, struct err *err)
{
    struct stat status;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return fail_with(errno, "read the copy of the database", err);
    bool synced = fsync(file) == 0 && fstat(file, &status) == 0;
    int number = errno;
    (void)close(file);
    if (!synced)
        return fail_with(number, "sync the copy of the database", err);
    *ret_bytes = status.st_size;
    return ERR_OK;
}

enum error_code sqlite_copy(struct connection *from, const char *path, int64_t *ret_bytes,
                            struct err *err)
{
    struct connection to = {0};
    enum error_code code = open_copy(path, &to, err);
    if (code == ERR_OK)
        code = copy_pages(from, &to, err);
    (void)sqlite3_close(to.db);
    return code == ERR_OK ? sync_copy(path, ret_bytes, err) : code;
}

/* ---- copies for users ---- */

/* Something about the path that the caller gave. */
static enum error_code bad_path(const char *path, int number, struct err *err)
{
    char text[REASON_BYTES];
    if (number == ENOSPC || number == EDQUOT || number == EIO || number == ENFILE ||
        number == EMFILE || number == ENOMEM)
        return fail_with(number, "copy the store", err);
    if (strerror_r(number, text, sizeof text) != 0)
        (void)snprintf(text, sizeof text, "error %d", number);
    return err_set(err, ERR_BAD_REQUEST, "cannot write a copy to %.200s: %s; choose another path",
                   path, text);
}

static enum error_code there_already(const char *path, struct err *err)
{
    return err_set(
        err, ERR_BAD_REQUEST,
        "%.200s already exists and is not overwritten: choose another path, or move the file away",
        path);
}

/* SQLite and Pawl keep files beside a database under its name and one of these. A copy with such a
 * name would be taken for a part of that database, and deleted: SQLite does so with a journal when
 * it opens the database. Which databases are in the directory, now or later, is not asked. */
static enum error_code check_name(const char *path, struct err *err)
{
    static const char *const kept[] = {"-journal", "-wal",  "-shm", "-ahead0",
                                       "-ahead1",  ".lock", ".sock"};
    size_t len = strlen(path);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        size_t of_end = strlen(kept[i]);
        if (len >= of_end && strcmp(path + len - of_end, kept[i]) == 0)
            return err_set(err, ERR_BAD_REQUEST,
                           "cannot write a copy to %.200s: names that end in %s are reserved for "
                           "files next to a store; choose another path",
                           path, kept[i]);
    }
    return ERR_OK;
}

/* Neither the file may be there nor a log: SQLite would take that for one of the copy. */
static enum error_code check_free(const char *path, struct err *err)
{
    static const char *const suffixes[] = {"", "-wal", "-journal", "-ahead0", "-ahead1"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[PATH_MAX + OWNER_SUFFIX_MAX];
        struct stat status;
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (lstat(name, &status) == 0)
            return there_already(name, err);
        if (errno != ENOENT)
            return bad_path(path, errno, err);
    }
    return ERR_OK;
}

/* An empty file beside `path`, with the rights that the store's own file has. */
static enum error_code make_unfinished(const struct sqlite_store *store, const char *path,
                                       char *unfinished, struct err *err)
{
    struct stat own;
    int file = mkstemp(unfinished);
    if (file < 0)
        return bad_path(path, errno, err);
    bool made = stat(store->owner.path, &own) == 0 && fchmod(file, own.st_mode & (mode_t)0666) == 0;
    int number = errno;
    (void)close(file);
    if (made)
        return ERR_OK;
    (void)unlink(unfinished);
    return fail_with(number, "copy the store", err);
}

/* Gives the complete copy its name, unless something has come to be there meanwhile. */
static enum error_code publish(const char *unfinished, const char *path, struct err *err)
{
    enum error_code code = ERR_OK;
    if (link(unfinished, path) == 0) {
        (void)unlink(unfinished);
    } else if (errno == EEXIST) {
        return there_already(path, err);
    } else {
        /* A file system without links: between looking and renaming there is a moment. */
        code = check_free(path, err);
        if (code == ERR_OK && rename(unfinished, path) != 0)
            code = bad_path(path, errno, err);
    }
    if (code == ERR_OK && !owner_sync_directory(path))
        code = fail_with(errno, "sync the directory of the copy", err);
    return code;
}

static enum error_code copy_moment(struct store *base, const char *path, int64_t *ret_bytes,
                                   struct err *err)
{
    struct store_txn *txn;
    enum error_code code = sqlite_begin(base, STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = sqlite_copy(((struct sqlite_txn *)txn)->connection, path, ret_bytes, err);
    sqlite_rollback(txn);
    return code;
}

enum error_code sqlite_backup(struct store *base, struct str path, int64_t *ret_bytes,
                              struct err *err)
{
    char final[PATH_MAX];
    char unfinished[PATH_MAX + OWNER_SUFFIX_MAX];
    int64_t bytes = 0;
    if (path.len >= PATH_MAX - OWNER_SUFFIX_MAX)
        return err_set(err, ERR_BAD_REQUEST, "the path of the copy is too long: at most %d bytes",
                       PATH_MAX - OWNER_SUFFIX_MAX - 1);
    memcpy(final, path.at, path.len);
    final[path.len] = '\0';
    (void)snprintf(unfinished, sizeof unfinished, "%s" UNFINISHED, final);
    enum error_code code = check_name(final, err);
    if (code == ERR_OK)
        code = check_free(final, err);
    if (code == ERR_OK)
        code = make_unfinished((const struct sqlite_store *)base, final, unfinished, err);
    if (code != ERR_OK)
        return code;
    code = copy_moment(base, unfinished, &bytes, err);
    if (code == ERR_OK)
        code = publish(unfinished, final, err);
    if (code != ERR_OK) {
        (void)unlink(unfinished);
        return code;
    }
    *ret_bytes = bytes;
    return ERR_OK;
}
