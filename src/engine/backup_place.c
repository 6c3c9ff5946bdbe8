#include "engine/backup_place.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_parent(struct str path)
{
    size_t start = 0;
    for (size_t i = 0; i <= path.len; i++) {
        if (i < path.len && path.at[i] != '/')
            continue;
        if (i - start == 2 && memcmp(path.at + start, "..", 2) == 0)
            return true;
        start = i + 1;
    }
    return false;
}

static bool is_below(const char *path, const char *directory)
{
    size_t len = strlen(directory);
    if (len == 1) /* the root itself */
        return true;
    return strncmp(path, directory, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static enum error_code refuse(struct str path, const char *directory, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST,
                   "backups may be written only below %.200s, the backup_dir of the process that "
                   "owns the store, without symbolic links and \"..\": not to \"%.*s\"",
                   directory, STR_ARG(path));
}

enum error_code backup_place(struct str directory, struct str path, struct arena *arena,
                             struct str *ret, struct err *err)
{
    char base[PATH_MAX];
    char wanted[PATH_MAX];
    char above[PATH_MAX];
    char whole[2 * PATH_MAX];
    char file[2 * PATH_MAX];
    (void)snprintf(wanted, sizeof wanted, "%.*s", (int)directory.len, directory.at);
    if (directory.len >= PATH_MAX || realpath(wanted, base) == NULL)
        return err_set(err, ERR_BAD_REQUEST, "backup_dir: directory not found: \"%.*s\"",
                       STR_ARG(directory));
    bool absolute = path.len > 0 && path.at[0] == '/';
    int len = snprintf(whole, sizeof whole, "%s%s%.*s", absolute ? "" : base, absolute ? "" : "/",
                       (int)(path.len < PATH_MAX ? path.len : PATH_MAX), path.at);
    const char *name = strrchr(whole, '/') + 1;
    if (len < 0 || len >= PATH_MAX || strlen(name) > NAME_MAX)
        return err_set(err, ERR_BAD_REQUEST, "the path \"%.*s...\" is too long", STR_ARG(path));
    if (*name == '\0' || strcmp(name, ".") == 0)
        return err_set(err, ERR_BAD_REQUEST, "\"%.*s\" does not name a file: name a new one",
                       STR_ARG(path));
    (void)snprintf(wanted, sizeof wanted, "%.*s/", (int)(name - whole - 1), whole);
    if (has_parent(path))
        return refuse(path, base, err);
    if (realpath(wanted, above) == NULL)
        return is_below(wanted, base)
                   ? err_set(err, ERR_BAD_REQUEST, "directory not found: \"%.200s\"", wanted)
                   : refuse(path, base, err);
    if (!is_below(above, base))
        return refuse(path, base, err);
    len = snprintf(file, sizeof file, "%s/%s", strcmp(above, "/") == 0 ? "" : above, name);
    *ret = arena_copy(arena, (struct str){file, (size_t)len});
    return str_is_set(*ret) ? ERR_OK
                            : (enum error_code)err_set(err, ERR_NO_MEMORY, "out of memory");
}
