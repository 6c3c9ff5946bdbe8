/* The calls of the C library by which this program, and SQLite in it, come to files: those about
 * the simulated disk (disk.h) go there, all others to the library. They stand in for it in every
 * program that is linked with this file, as a malloc of one's own would.
 *
 * Large files are on in every build, so that what is called open here is open64 to the linker. */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE /* NOLINT: RTLD_NEXT */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "disk.h"

typedef void anything(void);

static anything *find_real(const char *name)
{
    /* ISO C knows no way from a pointer to a function. */
    union {
        void *found;
        anything *call;
    } pointer = {.found = dlsym(RTLD_NEXT, name)};
    if (pointer.call == NULL)
        abort();
    return pointer.call;
}

/* Declares `real`, the library's own call of that name. */
#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (real == NULL)                                                                              \
    real = (type(*)(__VA_ARGS__))find_real(name)

/* ---- by path ---- */

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    REAL(int, "open64", const char *, int, ...);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return disk_has_path(path) ? disk_open(path, flags) : real(path, flags, mode);
}

int stat(const char *restrict path, struct stat *restrict ret)
{
    REAL(int, "stat64", const char *, struct stat *);
    return disk_has_path(path) ? disk_stat(path, ret) : real(path, ret);
}

int lstat(const char *restrict path, struct stat *restrict ret)
{
    REAL(int, "lstat64", const char *, struct stat *);
    return disk_has_path(path) ? disk_stat(path, ret) : real(path, ret);
}

int access(const char *path, int mode)
{
    REAL(int, "access", const char *, int);
    return disk_has_path(path) ? disk_access(path) : real(path, mode);
}

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    return disk_has_path(path) ? disk_unlink(path) : real(path);
}

int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    return disk_has_path(from) ? disk_rename(from, to, false) : real(from, to);
}

int link(const char *from, const char *to)
{
    REAL(int, "link", const char *, const char *);
    return disk_has_path(from) ? disk_rename(from, to, true) : real(from, to);
}

ssize_t readlink(const char *restrict path, char *restrict ret, size_t len)
{
    REAL(ssize_t, "readlink", const char *, char *, size_t);
    if (!disk_has_path(path))
        return real(path, ret, len);
    errno = EINVAL; /* there are no links */
    return -1;
}

static char *real_path(const char *path, char *ret)
{
    struct stat status;
    if (disk_stat(path, &status) != 0)
        return NULL;
    memcpy(ret, path, strlen(path) + 1);
    return ret;
}

char *realpath(const char *restrict path, char *restrict ret)
{
    REAL(char *, "realpath", const char *, char *);
    return disk_has_path(path) ? real_path(path, ret) : real(path, ret);
}

/* What realpath is in a fortified build. */
char *__realpath_chk(const char *path, char *ret, size_t len); /* NOLINT: the library's name */
char *__realpath_chk(const char *path, char *ret, size_t len)
{
    return len < PATH_MAX ? NULL : realpath(path, ret);
}

/* ---- by descriptor ---- */

int close(int descriptor)
{
    REAL(int, "close", int);
    return disk_has_descriptor(descriptor) ? disk_close(descriptor) : real(descriptor);
}

ssize_t pread(int descriptor, void *ret, size_t len, off_t at)
{
    REAL(ssize_t, "pread64", int, void *, size_t, off_t);
    return disk_has_descriptor(descriptor) ? disk_read(descriptor, ret, len, (size_t)at)
                                           : real(descriptor, ret, len, at);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t len, off_t at)
{
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    return disk_has_descriptor(descriptor) ? disk_write(descriptor, bytes, len, (size_t)at)
                                           : real(descriptor, bytes, len, at);
}

int ftruncate(int descriptor, off_t size)
{
    REAL(int, "ftruncate64", int, off_t);
    return disk_has_descriptor(descriptor) ? disk_truncate(descriptor, (size_t)size)
                                           : real(descriptor, size);
}

int fsync(int descriptor)
{
    REAL(int, "fsync", int);
    return disk_has_descriptor(descriptor) ? disk_sync(descriptor) : real(descriptor);
}

int fdatasync(int descriptor)
{
    REAL(int, "fdatasync", int);
    return disk_has_descriptor(descriptor) ? disk_sync(descriptor) : real(descriptor);
}

int fstat(int descriptor, struct stat *ret)
{
    REAL(int, "fstat64", int, struct stat *);
    return disk_has_descriptor(descriptor) ? disk_stat_open(descriptor, ret)
                                           : real(descriptor, ret);
}

int fstatfs(int descriptor, struct statfs *ret)
{
    REAL(int, "fstatfs64", int, struct statfs *);
    if (!disk_has_descriptor(descriptor))
        return real(descriptor, ret);
    *ret = (struct statfs){0};
    return 0;
}

int flock(int descriptor, int operation)
{
    REAL(int, "flock", int, int);
    return disk_has_descriptor(descriptor) ? disk_lock(descriptor, operation)
                                           : real(descriptor, operation);
}

int futimens(int descriptor, const struct timespec times[2])
{
    REAL(int, "futimens", int, const struct timespec *);
    return disk_has_descriptor(descriptor) ? disk_note(descriptor, &times[1])
                                           : real(descriptor, times);
}

int fchmod(int descriptor, mode_t mode)
{
    REAL(int, "fchmod", int, mode_t);
    return disk_has_descriptor(descriptor) ? 0 : real(descriptor, mode);
}

int fchown(int descriptor, uid_t owner, gid_t group)
{
    REAL(int, "fchown", int, uid_t, gid_t);
    return disk_has_descriptor(descriptor) ? 0 : real(descriptor, owner, group);
}

/* SQLite's locks keep processes apart, of which there is one. */
int fcntl(int descriptor, int command, ...)
{
    REAL(int, "fcntl64", int, int, ...);
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (!disk_has_descriptor(descriptor))
        return real(descriptor, command, argument);
    if (command == F_GETLK)
        ((struct flock *)argument)->l_type = F_UNLCK;
    return 0;
}

void *mmap(void *at, size_t len, int protection, int flags, int descriptor, off_t offset)
{
    REAL(void *, "mmap64", void *, size_t, int, int, int, off_t);
    if (!disk_has_descriptor(descriptor))
        return real(at, len, protection, flags, descriptor, offset);
    void *mapped = disk_map(descriptor, len);
    return mapped != NULL ? mapped : MAP_FAILED;
}

int munmap(void *at, size_t len)
{
    REAL(int, "munmap", void *, size_t);
    return disk_unmap(at) ? 0 : real(at, len);
}
