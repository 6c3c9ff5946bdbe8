#include "server/metrics_process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/metrics_text.h"

/* Reads a file of /proc, as far as there is room; false: none. */
static bool read_text(const char *path, char *ret, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t len = fread(ret, 1, size - 1, file);
    (void)fclose(file);
    ret[len] = '\0';
    return len > 0;
}

static void write_us(struct buf *text, enum metric metric, int64_t us)
{
    text_family(text, metric);
    text_sample_us(text, metric, NULL, us);
}

static void write_number(struct buf *text, enum metric metric, uint64_t value)
{
    text_family(text, metric);
    text_sample(text, metric, NULL, value);
}

/* When the machine was started, in seconds since 1970; 0: unknown. */
static long long booted_at(void)
{
    char text[16 * 1024];
    const char *line = read_text("/proc/stat", text, sizeof text) ? strstr(text, "\nbtime ") : NULL;
    long long at = 0;
    return line != NULL && sscanf(line, "\nbtime %lld", &at) == 1 ? at : 0; /* NOLINT */
}

/* Times are in ticks; the name of the program may have spaces and brackets, and ends at the last
 * one. */
static void write_stat(struct buf *text)
{
    char stat[1024];
    unsigned long long user = 0;
    unsigned long long system = 0;
    unsigned long long start = 0;
    unsigned long long bytes = 0;
    unsigned long long pages = 0;
    long long ticks = sysconf(_SC_CLK_TCK);
    const char *rest = read_text("/proc/self/stat", stat, sizeof stat) ? strrchr(stat, ')') : NULL;
    if (rest == NULL || ticks <= 0 ||
        sscanf(rest, /* NOLINT: numbers of the kernel's */
               ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d "
               "%llu %llu %llu",
               &user, &system, &start, &bytes, &pages) != 5)
        return;
    int64_t tick_us = 1000 * 1000 / ticks;
    write_us(text, METRIC_PROCESS_CPU, (int64_t)(user + system) * tick_us);
    write_number(text, METRIC_PROCESS_VIRTUAL, bytes);
    write_number(text, METRIC_PROCESS_RSS, pages * (uint64_t)sysconf(_SC_PAGESIZE));
    long long booted = booted_at();
    if (booted > 0)
        write_us(text, METRIC_PROCESS_START, booted * 1000 * 1000 + (int64_t)start * tick_us);
}

static void write_files(struct buf *text)
{
    DIR *directory = opendir("/proc/self/fd");
    struct rlimit limit;
    if (directory != NULL) {
        uint64_t count = 0;
        const struct dirent *entry;
        while ((entry = readdir(directory)) != NULL) /* NOLINT: nobody else reads this one */
            count += entry->d_name[0] != '.';
        (void)closedir(directory);
        /* The directory itself was one of them. */
        write_number(text, METRIC_PROCESS_FDS, count > 0 ? count - 1 : 0);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        write_number(text, METRIC_PROCESS_MAX_FDS, limit.rlim_cur);
}

void process_figures_write(struct buf *text)
{
    write_stat(text);
    write_files(text);
}
