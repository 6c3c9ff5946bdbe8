#include "measure.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char directory[256];

__attribute__((noinline)) void measure_begin(void)
{
    __asm__ volatile(""); /* a call that the compiler leaves alone */
}

__attribute__((noinline)) void measure_end(void)
{
    __asm__ volatile("");
}

void measure_fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    measure_leave();
    exit(1);
}

const char *measure_place(void)
{
    static char url[sizeof directory + 32];
    const char *wanted = getenv("TMPDIR");
    int len = snprintf(directory, sizeof directory, "%s/pawl-measure.XXXXXX",
                       wanted != NULL && *wanted != '\0' ? wanted : "/tmp");
    if (len >= (int)sizeof directory || mkdtemp(directory) == NULL) {
        directory[0] = '\0';
        measure_fail("no place for a store", wanted != NULL ? wanted : "/tmp");
    }
    (void)snprintf(url, sizeof url, "sqlite:%s/pawl.db", directory);
    return url;
}

void measure_leave(void)
{
    const struct dirent *entry;
    DIR *opened = directory[0] != '\0' ? opendir(directory) : NULL;
    if (opened == NULL)
        return;
    while ((entry = readdir(opened)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(opened), entry->d_name, 0);
    (void)closedir(opened);
    (void)rmdir(directory);
}
