#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/screen.h"

/* The same file by a path without links and "..", where its directory is there; frees `path`. */
static char *without_links(char *path)
{
    char directory[PATH_MAX];
    char *slash = strrchr(path, '/');
    const char *above = slash == path ? "/" : path;
    *slash = '\0';
    char *found = realpath(above, directory);
    *slash = '/';
    if (found == NULL || slash[1] == '\0')
        return path;
    const char *parent = strcmp(directory, "/") == 0 ? "" : directory;
    size_t size = strlen(parent) + strlen(slash) + 1;
    char *whole = malloc(size);
    if (whole != NULL)
        snprintf(whole, size, "%s%s", parent, slash);
    free(path);
    return whole;
}

/* The path as every process understands it: the one that has the store may be elsewhere. To be
 * freed; NULL: errno says why. */
static char *absolute(const char *path)
{
    char *directory = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
    if (directory == NULL)
        return NULL;
    size_t size = strlen(directory) + strlen(path) + 2;
    char *whole = malloc(size);
    if (whole != NULL)
        snprintf(whole, size, "%s%s%s", directory, path[0] == '/' ? "" : "/", path);
    free(directory);
    return whole != NULL ? without_links(whole) : NULL;
}

static void print_copy(const char *answer)
{
    enum { KIB = 1024 };
    struct pawl_json copy = pawl_json_read(answer);
    long long bytes = pawl_json_int(pawl_json_get(copy, "bytes"), 0);
    fputs("backup written to ", stdout);
    print_value(pawl_json_get(copy, "path"));
    printf(" (%lld KiB)\n", (bytes + KIB - 1) / KIB);
}

static enum cli_exit run(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    char *path = absolute(cli_word(args, 0));
    char *answer;
    if (path == NULL) {
        cli_complain(args->verb, "cannot resolve the path %s: %s", cli_word(args, 0),
                     strerror(errno));
        pawl_object_free(request);
        return CLI_FAILED;
    }
    pawl_object_text(request, "path", path);
    free(path);
    enum cli_exit code = cli_ask_once(args, pawl_backup, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        print_copy(answer);
    pawl_free(answer);
    return CLI_DONE;
}

const struct verb verb_backup = {
    .name = "backup",
    .summary = "back up a SQLite store while it is in use",
    .arguments = "FILE",
    .about =
        "Writes a consistent copy of a SQLite store while workers keep running. The copy is a\n"
        "complete store; existing files are not overwritten. If another process, such as a\n"
        "server, owns the store, that process writes the copy, and only below its backup_dir\n"
        "(default: the directory of the store). For PostgreSQL use pg_dump.\n",
    .examples = "  pawl backup /backups/pawl-2030-01-31.db\n"
                "  pawl verify --all --store sqlite:/backups/pawl-2030-01-31.db\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
