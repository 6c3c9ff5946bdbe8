#include "store/sqlite/owner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/sqlite/sqlite_schema.h"

/* How often to open the lock anew when somebody deletes it meanwhile. */
enum { LOCK_TRIES = 100 };

enum { REASON_BYTES = 128, NUMBER_BYTES = 24, NUMBER_WIDTH = 11, SECONDS_WIDTH = 10 };

/* What must stay in its place while the store is in use. The log holds what is not in the database
 * yet, and its index says where. */
static const char *const file_suffixes[OWNER_FILES] = {"",     ".lock",   "-wal",
                                                       "-shm", "-ahead0", "-ahead1"};

/* SQLite's header: the first bytes, and where the application's number is. */
static const char magic[16] = "SQLite format 3";
enum { HEADER_BYTES = 100, APPLICATION_ID_AT = 68 };

/* The same of its rollback journal, and where the size that the database had before is. */
static const uint8_t journal_magic[8] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};
enum { JOURNAL_HEADER_BYTES = 28, JOURNAL_PAGES_AT = 16 };

static const char *reason(int number, char text[REASON_BYTES])
{
    if (strerror_r(number, text, REASON_BYTES) != 0)
        (void)snprintf(text, REASON_BYTES, "error %d", number);
    return text;
}

static enum error_code cannot(const char *doing, int number, struct err *err)
{
    char text[REASON_BYTES];
    const char *advice = "";
    if (number == ENOMEM)
        return err_set(err, ERR_NO_MEMORY, "cannot %s: out of memory", doing);
    if (number == EACCES || number == EPERM)
        advice = ": give this user access to the file and its directory";
    else if (number == EROFS)
        advice = ": choose a place that can be written to";
    else if (number == ENOSPC || number == EDQUOT)
        advice = ": free some space";
    return err_set(err, ERR_UNAVAILABLE, "cannot %s: %s%s", doing, reason(number, text), advice);
}

void owner_path(const struct owner *owner, const char *suffix,
                char ret[PATH_MAX + OWNER_SUFFIX_MAX])
{
    (void)snprintf(ret, PATH_MAX + OWNER_SUFFIX_MAX, "%s%s", owner->path, suffix);
}

/* ---- the path ---- */

/* The path of a file that is not there: its directory must be. */
static enum error_code resolve_new(const char *path, char ret[PATH_MAX], struct err *err)
{
    char directory[PATH_MAX];
    char real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    if (*name == '\0')
        return err_set(err, ERR_UNAVAILABLE, "this is a directory; use the path of a file");
    memcpy(directory, path, len);
    directory[len] = '\0';
    if (realpath(slash == NULL ? "." : len == 0 ? "/" : directory, real) == NULL)
        return cannot("use the directory", errno, err);
    int made = snprintf(ret, PATH_MAX, "%s%s%s", real, strcmp(real, "/") == 0 ? "" : "/", name);
    if (made < 0 || made >= PATH_MAX - OWNER_SUFFIX_MAX)
        return cannot("use the path", ENAMETOOLONG, err);
    return ERR_OK;
}

static enum error_code resolve(struct str path, bool create, char ret[PATH_MAX], struct err *err)
{
    char given[PATH_MAX];
    struct stat status;
    if (path.len == 0 || memchr(path.at, '\0', path.len) != NULL)
        return err_set(err, ERR_BAD_REQUEST, "the path is empty or contains a NUL byte");
    if (path.len >= PATH_MAX - OWNER_SUFFIX_MAX)
        return cannot("use the path", ENAMETOOLONG, err);
    memcpy(given, path.at, path.len);
    given[path.len] = '\0';
    if (realpath(given, ret) != NULL)
        return strlen(ret) >= PATH_MAX - OWNER_SUFFIX_MAX
                   ? cannot("use the path", ENAMETOOLONG, err)
                   : ERR_OK;
    if (errno != ENOENT)
        return cannot("use the path", errno, err);
    if (lstat(given, &status) == 0)
        return err_set(err, ERR_UNAVAILABLE, "the symbolic link is broken");
    if (!create)
        return err_set(err, ERR_NOT_FOUND, "no store yet");
    return resolve_new(given, ret, err);
}

/* What can be told without opening. */
static enum error_code check_file_kind(const struct owner *owner, struct stat *status,
                                       bool *ret_there, struct err *err)
{
    *ret_there = stat(owner->path, status) == 0;
    if (!*ret_there)
        return errno == ENOENT ? ERR_OK : cannot("look at the file", errno, err);
    if (S_ISDIR(status->st_mode))
        return err_set(err, ERR_UNAVAILABLE, "this is a directory; use the path of a file");
    if (!S_ISREG(status->st_mode))
        return err_set(err, ERR_UNAVAILABLE, "this is not a file, but a device or pipe");
    if (access(owner->path, R_OK | W_OK) != 0)
        return cannot("write to the file", errno, err);
    return ERR_OK;
}

/* ---- the lock ---- */

static int open_lock(const char *path, bool *ret_made)
{
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    *ret_made = false;
    int lock = open(path, flags);
    if (lock >= 0 || errno != ENOENT)
        return lock;
    lock = open(path, flags | O_CREAT | O_EXCL, 0644);
    *ret_made = lock >= 0;
    return lock;
}

static enum error_code refuse_own(struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE,
                   "the store is already open in this process (%jd): use that, or close it",
                   (intmax_t)getpid());
}

/* Anyone who is refused goes through the owner's socket instead, so that people see this only where
 * nobody listens there. */
static enum error_code refuse_second(int lock, struct err *err)
{
    char text[NUMBER_BYTES] = "";
    ssize_t len = pread(lock, text, sizeof text - 1, 0);
    intmax_t number = len > 0 ? strtoimax(text, NULL, 10) : 0;
    if (number == (intmax_t)getpid())
        return refuse_own(err);
    if (number <= 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the store is in use by another process, which cannot be reached: retry, or "
                       "end it first");
    return err_set(
        err, ERR_UNAVAILABLE,
        "the store is in use by process %jd, which cannot be reached: retry, or end it first",
        number);
}

/* Whether the path still leads to the file that was opened. */
static bool is_same_file(int lock, const char *path, bool *ret_regular)
{
    struct stat opened;
    struct stat there;
    if (fstat(lock, &opened) != 0 || stat(path, &there) != 0)
        return false;
    *ret_regular = S_ISREG(opened.st_mode);
    return opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

static int lock_now(int lock)
{
    int result;
    do
        result = flock(lock, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Whether there is nothing in a lock file but what we write: the number of a process and, after
 * zeros, a time in seconds. It is not synced, so that a power cut may leave zeros in its place. */
static enum error_code check_lock(int lock, const char *path, struct err *err)
{
    char text[NUMBER_BYTES];
    ssize_t len = pread(lock, text, sizeof text, 0);
    if (len < 0)
        return cannot("read the lock file beside it", errno, err);
    ssize_t digits = 0;
    while (digits < len && (isdigit((unsigned char)text[digits]) || text[digits] == '\0'))
        digits++;
    ssize_t end = digits;
    while (end < len && (text[end] == '\n' || text[end] == '\0'))
        end++;
    if (len < (ssize_t)sizeof text && end == len && (digits > 0 || len == 0))
        return ERR_OK;
    return err_set(err, ERR_UNAVAILABLE,
                   "the lock file %.200s does not belong to Pawl and was not changed: move it "
                   "away, or choose another path",
                   path);
}

static enum error_code take_lock(struct owner *owner, struct err *err)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    owner_path(owner, ".lock", path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        bool regular = false;
        bool made;
        int lock = open_lock(path, &made);
        if (lock < 0 && errno == EEXIST)
            continue;
        if (lock < 0)
            return cannot("make the lock file beside it", errno, err);
        if (lock_now(lock) != 0) {
            enum error_code code =
                errno == EWOULDBLOCK ? refuse_second(lock, err) : cannot("lock it", errno, err);
            (void)close(lock);
            return code;
        }
        if (is_same_file(lock, path, &regular) && regular) {
            enum error_code code = made ? ERR_OK : check_lock(lock, path, err);
            if (code != ERR_OK) {
                (void)close(lock);
                return code;
            }
            owner->lock = lock;
            owner->made_lock = made;
            return ERR_OK;
        }
        (void)close(lock);
    }
    return err_set(err, ERR_UNAVAILABLE, "cannot lock the store: the lock file keeps disappearing");
}

static void put_seconds(int64_t ms, char ret[SECONDS_WIDTH])
{
    int64_t seconds = ms / 1000;
    for (int i = SECONDS_WIDTH - 1; i >= 0; i--, seconds /= 10)
        ret[i] = (char)('0' + seconds % 10);
}

/* For people, and for the message to the next one: on a full disk the lock works without it. It is
 * always as long, so that a power cut which leaves parts of two of them leaves such a thing too. */
static void write_number(const struct owner *owner)
{
    char text[NUMBER_BYTES] = {0};
    (void)snprintf(text, sizeof text, "%jd", (intmax_t)getpid());
    put_seconds(owner->trusted_at, text + NUMBER_WIDTH);
    size_t len = NUMBER_WIDTH + SECONDS_WIDTH;
    text[len++] = '\n';
    bool written =
        ftruncate(owner->lock, 0) == 0 && pwrite(owner->lock, text, len, 0) == (ssize_t)len;
    (void)written;
}

/* In its place: on a full disk too. */
static void write_trusted(const struct owner *owner)
{
    char text[SECONDS_WIDTH];
    put_seconds(owner->trusted_at, text);
    bool written = pwrite(owner->lock, text, SECONDS_WIDTH, NUMBER_WIDTH) == SECONDS_WIDTH;
    (void)written;
}

/* What a lock file says of the time that was trusted; 0: nothing. */
static int64_t read_trusted(const struct owner *owner)
{
    char text[SECONDS_WIDTH + 1] = "";
    ssize_t len = pread(owner->lock, text, SECONDS_WIDTH, NUMBER_WIDTH);
    return len == SECONDS_WIDTH ? (int64_t)strtoimax(text, NULL, 10) * 1000 : 0;
}

enum error_code owner_take(struct str path, bool create, struct owner *ret, struct err *err)
{
    struct owner owner = {.lock = -1, .file = -1};
    struct stat status;
    bool there;
    enum error_code code = resolve(path, create, owner.path, err);
    if (code == ERR_OK)
        code = check_file_kind(&owner, &status, &there, err);
    if (code == ERR_OK)
        code = take_lock(&owner, err);
    if (code != ERR_OK)
        return code;
    if (!owner.made_lock && fstat(owner.lock, &status) == 0 && status.st_size > 0) {
        owner.noted_at = (int64_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000;
        owner.trusted_at = read_trusted(&owner);
    }
    write_number(&owner);
    *ret = owner;
    return ERR_OK;
}

void owner_note(struct owner *owner, int64_t now, int64_t trusted)
{
    owner->trusted_at = trusted / 1000 * 1000;
    write_trusted(owner);
    const struct timespec at = {.tv_sec = (time_t)(now / 1000),
                                .tv_nsec = (long)(now % 1000) * 1000000};
    const struct timespec times[2] = {at, at};
    (void)futimens(owner->lock, times); /* without it leases get some grace that they do not need */
    owner->noted_at = now;
}

void owner_release(struct owner *owner)
{
    if (owner->file >= 0) {
        (void)flock(owner->file, LOCK_UN);
        (void)close(owner->file);
        owner->file = -1;
    }
    (void)flock(owner->lock, LOCK_UN);
    (void)close(owner->lock);
    owner->lock = -1;
}

void owner_undo(struct owner *owner)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    for (size_t i = 0; owner->made_file && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        owner_path(owner, suffixes[i], path);
        (void)unlink(path);
    }
    if (owner->made_lock) {
        owner_path(owner, ".lock", path);
        (void)unlink(path);
    }
    owner_release(owner);
}

/* ---- the file ---- */

static enum error_code not_ours(struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE,
                   "this file is not a Pawl store and was not changed: choose another path");
}

/* Whether a journal will roll the file back to an empty one: nothing was ever committed to it. */
static bool is_rolled_back_to_nothing(const char *journal)
{
    static const uint8_t no_pages[4] = {0};
    uint8_t header[JOURNAL_HEADER_BYTES];
    int file = open(journal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0)
        return false;
    bool whole = pread(file, header, sizeof header, 0) == (ssize_t)sizeof header;
    (void)close(file);
    return whole && memcmp(header, journal_magic, sizeof journal_magic) == 0 &&
           memcmp(header + JOURNAL_PAGES_AT, no_pages, sizeof no_pages) == 0;
}

/* If the power is cut during set-up, the header of the file may be missing, torn, or whatever its
 * blocks held before, and a journal rolls the file back. Only zeros are accepted as they are: other
 * bytes could be another program's, unless Pawl's lock file shows that Pawl was here before. */
static bool is_cut_off(const struct owner *owner, const uint8_t header[HEADER_BYTES])
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    struct stat status;
    bool is_zero = true;
    for (size_t i = 0; i < HEADER_BYTES && is_zero; i++)
        is_zero = header[i] == 0;
    owner_path(owner, "-journal", path);
    if (is_zero)
        return stat(path, &status) == 0 && status.st_size > 0;
    return !owner->made_lock && is_rolled_back_to_nothing(path);
}

static enum error_code look_inside(const struct owner *owner, struct err *err)
{
    uint8_t header[HEADER_BYTES] = {0};
    ssize_t len = pread(owner->file, header, sizeof header, 0);
    if (len < 0)
        return cannot("read the file", errno, err);
    const uint8_t *at = header + APPLICATION_ID_AT;
    uint32_t application =
        (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    if (is_cut_off(owner, header))
        return ERR_OK;
    if (len < HEADER_BYTES || memcmp(header, magic, sizeof magic) != 0 ||
        application != SQLITE_APPLICATION_ID)
        return not_ours(err);
    return ERR_OK;
}

/* Whether this process has the file open, by whatever name. */
static bool is_open_here(const struct stat *status, int except)
{
    DIR *list = opendir("/proc/self/fd");
    bool found = false;
    if (list == NULL)
        return false;
    for (const struct dirent *entry = readdir(list); entry != NULL && !found;
         entry = readdir(list)) {
        struct stat opened;
        int number = (int)strtol(entry->d_name, NULL, 10);
        /* By its name, so that a descriptor that another thread closes just now is not touched. */
        found = isdigit((unsigned char)entry->d_name[0]) && number != except &&
                fstatat(dirfd(list), entry->d_name, &opened, 0) == 0 &&
                opened.st_dev == status->st_dev && opened.st_ino == status->st_ino;
    }
    (void)closedir(list);
    return found;
}

/* Whether locks of this kind stand beside SQLite's: on these file systems they are the same. */
static bool has_file_locks(int file)
{
    enum { NFS = 0x6969, SMB = 0x517b };
    const uint32_t cifs = 0xff534d42;
    const uint32_t smb2 = 0xfe534d42;
    struct statfs status;
    if (fstatfs(file, &status) != 0)
        return false;
    uint32_t type = (uint32_t)status.f_type;
    return type != NFS && type != SMB && type != cifs && type != smb2;
}

/* Locks the file that was opened, and keeps it. */
static enum error_code hold_file(struct owner *owner, int file, struct err *err)
{
    struct stat status;
    owner->file = file;
    if (!has_file_locks(file) || lock_now(file) == 0 || errno != EWOULDBLOCK)
        return ERR_OK;
    if (fstat(file, &status) == 0 && is_open_here(&status, file)) {
        /* It was opened by another thread just now, and closing it would end that one's locks. */
        owner->file = -1;
        return refuse_own(err);
    }
    return err_set(err, ERR_UNAVAILABLE,
                   "the store is in use by another process under another name of the file (a link "
                   "or a mount): use that name too, or end it first");
}

static enum error_code open_file(struct owner *owner, const struct stat *status, struct err *err)
{
    if (is_open_here(status, -1))
        return refuse_own(err);
    int file = open(owner->path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return file < 0 ? cannot("open the file", errno, err) : hold_file(owner, file, err);
}

static enum error_code make_file(struct owner *owner, struct err *err)
{
    int file = open(owner->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return cannot("make the file", errno, err);
    owner->made_file = true;
    return hold_file(owner, file, err);
}

/* Whether the path leads to that file; errno is 0 when it surely does not. */
static bool is_place(const struct owner *owner, const char *suffix, const struct owner_file *file)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    struct stat status;
    owner_path(owner, suffix, path);
    if (!file->known)
        return true;
    bool there = stat(path, &status) == 0;
    if (there || errno == ENOENT || errno == ENOTDIR)
        errno = 0;
    return there && status.st_dev == file->device && status.st_ino == file->inode;
}

static struct owner_file find_place(const struct owner *owner, const char *suffix)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    struct stat status;
    owner_path(owner, suffix, path);
    if (stat(path, &status) != 0)
        return (struct owner_file){.known = false};
    return (struct owner_file){true, status.st_dev, status.st_ino};
}

static bool stat_directory(const struct owner *owner, struct stat *ret)
{
    char path[PATH_MAX];
    const char *slash = strrchr(owner->path, '/');
    size_t len = slash == NULL || slash == owner->path ? 1 : (size_t)(slash - owner->path);
    (void)snprintf(path, sizeof path, "%.*s", (int)len, owner->path);
    return stat(path, ret) == 0;
}

/* When a name was last made, moved or deleted there, in nanoseconds: as long as that stays the
 * same, so do the files that the names lead to. 0: not known, or so lately that the next change
 * could be noted with the same time. */
static int64_t directory_changed_at(const struct owner *owner)
{
    enum { COARSEST_S = 2 };
    struct stat status;
    if (!owner->directory.known || !stat_directory(owner, &status) ||
        status.st_dev != owner->directory.device || status.st_ino != owner->directory.inode ||
        status.st_ctim.tv_sec > clock_wall_ms() / 1000 - COARSEST_S)
        return 0;
    return (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
}

void owner_remember(struct owner *owner)
{
    struct stat status;
    for (size_t i = 0; i < OWNER_FILES; i++)
        owner->files[i] = find_place(owner, file_suffixes[i]);
    owner->directory = (struct owner_file){.known = false};
    if (stat_directory(owner, &status))
        owner->directory = (struct owner_file){true, status.st_dev, status.st_ino};
    atomic_store(&owner->calm_since, 0);
}

enum error_code owner_check(struct owner *owner, bool *ret_gone, struct err *err)
{
    int64_t changed_at = directory_changed_at(owner);
    *ret_gone = false;
    if (changed_at != 0 && changed_at == atomic_load(&owner->calm_since))
        return ERR_OK;
    for (size_t i = 0; i < OWNER_FILES; i++) {
        const char *suffix = file_suffixes[i];
        if (is_place(owner, suffix, &owner->files[i]))
            continue;
        if (errno != 0)
            return cannot("look at the files of the store", errno, err);
        *ret_gone = true;
        return err_set(err, ERR_UNAVAILABLE,
                       "%.300s%s was deleted or replaced while the store was in use; writing has "
                       "stopped: end this process, restore the right file, and restart",
                       owner->path, suffix);
    }
    atomic_store(&owner->calm_since, changed_at);
    return ERR_OK;
}

enum error_code owner_look(struct owner *owner, bool create, enum file_content *ret,
                           struct err *err)
{
    struct stat status;
    bool there;
    enum error_code code = check_file_kind(owner, &status, &there, err);
    if (code != ERR_OK)
        return code;
    bool is_empty = !there || status.st_size == 0;
    if (is_empty && !create)
        return err_set(err, ERR_NOT_FOUND, "no store yet");
    code = there ? open_file(owner, &status, err) : make_file(owner, err);
    if (code == ERR_OK && !is_empty)
        code = look_inside(owner, err);
    if (code == ERR_OK)
        *ret = is_empty ? FILE_EMPTY : FILE_OURS;
    return code;
}

bool owner_sync_directory(const char *path)
{
    char directory[PATH_MAX + OWNER_SUFFIX_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash != NULL) {
        size_t len = slash == path ? 1 : (size_t)(slash - path);
        memcpy(directory, path, len);
        directory[len] = '\0';
    }
    int opened = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0)
        return false;
    bool synced = fsync(opened) == 0;
    int number = errno;
    (void)close(opened);
    errno = number;
    return synced;
}

bool owner_has_log(const struct owner *owner)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    struct stat status;
    owner_path(owner, "-wal", path);
    return stat(path, &status) == 0 && status.st_size > 0;
}
