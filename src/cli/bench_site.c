/* Where 'pawl bench' works: a store of its own, or a queue of its own in somebody's store, in this
 * process or behind a server. Whatever was there before stays as it was. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/progress.h"

enum {
    SAMPLE = 100,                    /* jobs that are looked at to count their events */
    RETENTION_MS = 60 * 60 * 1000,   /* of our jobs in somebody's store */
    SYNC_NS_MAX = 250 * 1000 * 1000, /* for measuring the disk */
    SYNC_BYTES = 4096,
    TMPFS = 0x01021994,
};

static const char sqlite_scheme[] = "sqlite:";

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* ---- files ---- */

static long long file_bytes(const char *path, const char *suffix)
{
    char name[BENCH_URL_MAX + 16];
    struct stat file;
    (void)snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &file) == 0 ? (long long)file.st_size : 0;
}

static long long store_bytes(const char *path)
{
    return *path == '\0' ? -1 : file_bytes(path, "") + file_bytes(path, "-wal");
}

/* Deletes a directory of ours, which has no others in it. */
static void delete_directory(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory != NULL)
        (void)closedir(directory);
    (void)rmdir(path);
}

/* A directory of our own on a disk, rather than in memory where that can be had. */
static bool make_directory(char *ret, size_t size)
{
    const char *wanted = getenv("TMPDIR");
    const char *const places[] = {wanted != NULL && *wanted != '\0' ? wanted : "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int len = snprintf(ret, size, "%s/pawl-bench-XXXXXX", places[i]);
        if (len > 0 && (size_t)len < size && mkdtemp(ret) != NULL)
            return true;
    }
    *ret = '\0';
    return false;
}

/* How often a second the disk syncs a page to where the store is; less than 0: nobody knows. */
static double measure_syncs(const char *path)
{
    char page[SYNC_BYTES];
    char name[BENCH_URL_MAX + 32];
    long long count = 0;
    (void)snprintf(name, sizeof name, "%s-sync-XXXXXX", path);
    int file = mkstemp(name);
    if (file < 0)
        return -1;
    (void)unlink(name);
    memset(page, 'x', sizeof page);
    /* Into room that is there already, as a log has it. */
    bool well = posix_fallocate(file, 0, 256L * SYNC_BYTES) == 0 && fdatasync(file) == 0;
    long long start = bench_now_ns();
    long long now = start;
    while (well && now - start < SYNC_NS_MAX) {
        well = pwrite(file, page, sizeof page, (off_t)(count % 256) * SYNC_BYTES) == SYNC_BYTES &&
               fdatasync(file) == 0;
        now = bench_now_ns();
        count++;
    }
    (void)close(file);
    return well ? (double)count * 1e9 / (double)(now - start) : -1;
}

static bool is_in_memory(const char *path)
{
    struct statfs place;
    return statfs(path, &place) == 0 && (unsigned long)place.f_type == TMPFS;
}

/* ---- opening ---- */

void bench_name_queue(struct bench *bench)
{
    unsigned char random[8];
    size_t len = (size_t)snprintf(bench->queue, sizeof bench->queue, "bench-");
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        long long now = bench_now_ns() ^ (long long)getpid() << 40;
        memcpy(random, &now, sizeof random);
    }
    for (size_t i = 0; i < sizeof random; i++)
        len += (size_t)snprintf(bench->queue + len, sizeof bench->queue - len, "%02x", random[i]);
}

static bool somebody_chose(const struct args *args)
{
    const char *setting = getenv("PAWL_STORE");
    return cli_has(args, "--store") || (setting != NULL && *setting != '\0');
}

/* Which store it is; `ret_store` is its URL, also behind a server that is to be started. */
static enum cli_exit choose_store(struct site *site, char ret_store[BENCH_URL_MAX])
{
    const struct args *args = site->bench->args;
    if (!somebody_chose(args)) {
        if (!make_directory(site->directory, sizeof site->directory - 16)) {
            cli_complain(args->verb, "no directory for a temporary store: %s", strerror(errno));
            return CLI_FAILED;
        }
        (void)snprintf(ret_store, BENCH_URL_MAX, "%s%.*s/pawl.db", sqlite_scheme,
                       BENCH_URL_MAX - 32, site->directory);
    } else if (strlen(cli_store_url(args)) >= BENCH_URL_MAX) {
        return cli_usage(args->verb, "the store URL is too long");
    } else {
        (void)snprintf(ret_store, BENCH_URL_MAX, "%s", cli_store_url(args));
    }
    if (starts_with(ret_store, sqlite_scheme))
        (void)snprintf(site->path, sizeof site->path, "%s", ret_store + strlen(sqlite_scheme));
    site->is_server = starts_with(ret_store, "http:") || starts_with(ret_store, "https:");
    site->is_ours = site->directory[0] != '\0' || strcmp(ret_store, "memory:") == 0;
    if (site->is_server && site->bench->serve)
        return cli_usage(args->verb, "--serve starts a server, but %s is already a server",
                         ret_store);
    return CLI_DONE;
}

static struct pawl *open_url(const char *url, struct pawl_error *error)
{
    const char *token = getenv("PAWL_TOKEN");
    const char *ca_file = getenv("PAWL_CA_FILE");
    struct pawl_options options = {
        .actor = "bench",
        .create = 1,
        .token = token != NULL && *token != '\0' ? token : NULL,
        .ca_file = ca_file != NULL && *ca_file != '\0' ? ca_file : NULL,
    };
    struct pawl *pawl = NULL;
    return pawl_open(url, &options, &pawl, error) == PAWL_OK ? pawl : NULL;
}

/* A server for the store, in a process of its own. The store is made first, if it is not there. */
static enum cli_exit start_server(struct site *site, char *store)
{
    struct pawl *there;
    enum cli_exit code = CLI_DONE;
    if (!site->is_ours) {
        code = cli_open(site->bench->args, true, &there);
        if (code == CLI_DONE)
            pawl_close(there);
    }
    if (code == CLI_DONE)
        code = served_start(site->bench, store, &site->served);
    if (code == CLI_DONE)
        (void)snprintf(site->url, sizeof site->url, "http://127.0.0.1:%d", site->served.port);
    site->is_server = true;
    return code;
}

static enum cli_exit open_store(struct site *site, char *store)
{
    const struct args *args = site->bench->args;
    struct pawl_error error = {0};
    if (site->bench->serve) {
        enum cli_exit code = start_server(site, store);
        if (code != CLI_DONE)
            return code;
    } else {
        (void)snprintf(site->url, sizeof site->url, "%s", store);
        if (!site->is_ours)
            return cli_open(args, true, &site->pawl);
    }
    site->pawl = open_url(site->url, &error);
    return site->pawl != NULL ? CLI_DONE : cli_failed(args->verb, &error);
}

/* What is measured, in words. */
static void describe(struct site *site, const char *store)
{
    struct bench *bench = site->bench;
    char *shown = cli_url_text(store);
    bool in_memory = site->path[0] != '\0' && is_in_memory(site->path);
    (void)snprintf(bench->where, sizeof bench->where, "%s%s",
                   site->directory[0] != '\0' ? "sqlite, a temporary file"
                   : shown != NULL            ? shown
                                              : "a store",
                   in_memory ? " (in memory, without sync)" : "");
    free(shown);
    bench->manner = bench->serve      ? "pawl serve, over HTTP"
                    : site->is_server ? "over HTTP"
                                      : "in process";
    if (site->path[0] != '\0' && bench->syncs < 0)
        bench->syncs = measure_syncs(site->path);
}

/* Jobs that have ended stay in somebody's store for an hour instead of a week. Who may not ask for
 * that lets them stay. */
static void shorten_retention(struct site *site)
{
    char request[96];
    char *answer;
    (void)snprintf(request, sizeof request, "{\"kind\":\"" BENCH_KIND "\",\"retention_ms\":%d}",
                   RETENTION_MS);
    if (pawl_kind_set(site->pawl, request, &answer, NULL) == PAWL_OK)
        pawl_free(answer);
}

enum cli_exit site_open(struct bench *bench, struct site *ret)
{
    char store[BENCH_URL_MAX];
    struct tally tally = {0};
    *ret = (struct site){.bench = bench, .queue = bench->queue, .served = {.log = -1}};
    enum cli_exit code = choose_store(ret, store);
    if (code == CLI_DONE)
        code = open_store(ret, store);
    if (code == CLI_DONE)
        code = site_tally(ret, &tally);
    if (code != CLI_DONE) {
        ret->is_ours = true; /* there is nothing to clean up, and nobody to do it */
        (void)site_close(ret, NULL);
        return code;
    }
    ret->jobs = tally.all;
    describe(ret, store);
    ret->bytes = store_bytes(ret->path);
    if (!ret->is_ours && !bench->keep)
        shorten_retention(ret);
    return CLI_DONE;
}

struct pawl *site_handle(struct site *site, struct pawl_error *error)
{
    return site->is_server ? open_url(site->url, error) : site->pawl;
}

void site_drop_handle(struct site *site, struct pawl *pawl)
{
    if (pawl != site->pawl)
        pawl_close(pawl);
}

/* ---- looking ---- */

void site_settle(struct site *site)
{
    char *answer = NULL;
    if (pawl_list(site->pawl, "{\"limit\":1}", &answer, NULL) == PAWL_OK)
        pawl_free(answer);
}

static enum cli_exit find_queue(struct site *site, char **ret_answer, struct pawl_json *ret_queue)
{
    struct pawl_json item = {NULL, 0};
    enum cli_exit code =
        cli_ask(site->bench->args, site->pawl, pawl_queues, pawl_object_new(), ret_answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_json queues = pawl_json_get(pawl_json_read(*ret_answer), "queues");
    while (pawl_json_next(queues, &item, NULL) != 0)
        if (pawl_json_is(pawl_json_get(item, "queue"), site->queue) != 0)
            break;
    *ret_queue = item;
    return CLI_DONE;
}

enum cli_exit site_tally(struct site *site, struct tally *ret)
{
    char *answer;
    struct pawl_json queue;
    struct pawl_json item = {NULL, 0};
    struct tally tally = {0};
    enum cli_exit code = find_queue(site, &answer, &queue);
    if (code != CLI_DONE)
        return code;
    struct pawl_json by_status = pawl_json_get(queue, "by_status");
    while (pawl_json_next(by_status, &item, NULL) != 0)
        tally.all += pawl_json_int(item, 0);
    tally.completed = pawl_json_int(pawl_json_get(by_status, "completed"), 0);
    tally.depth = pawl_json_int(pawl_json_get(queue, "depth"), 0);
    pawl_free(answer);
    *ret = tally;
    return CLI_DONE;
}

enum cli_exit site_events(struct site *site, const char *status, long long jobs, double *ret)
{
    char *answer;
    struct pawl_json job = {NULL, 0};
    long long seen = 0;
    long long events = 0;
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "queue", site->queue);
    pawl_object_text(request, "status", status);
    pawl_object_int(request, "limit", jobs < SAMPLE ? jobs : SAMPLE);
    enum cli_exit code = cli_ask(site->bench->args, site->pawl, pawl_list, request, &answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_json list = pawl_json_get(pawl_json_read(answer), "jobs");
    for (; pawl_json_next(list, &job, NULL) != 0; seen++)
        events += pawl_json_int(pawl_json_get(job, "version"), 0);
    pawl_free(answer);
    *ret = seen > 0 ? (double)events / (double)seen : 0;
    return CLI_DONE;
}

double site_server_cpu(const struct site *site)
{
    if (site->served.pid > 0)
        return served_cpu(site->served.pid);
    return site->is_server ? served_remote_cpu(site->url) : -1;
}

/* ---- closing ---- */

/* The statuses of jobs that have not ended, "queued,running", as the library's machine says. */
static enum cli_exit open_statuses(struct site *site, struct draft *ret)
{
    char *answer;
    struct pawl_json queue;
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    enum cli_exit code = find_queue(site, &answer, &queue);
    if (code != CLI_DONE)
        return code;
    while (pawl_json_next(pawl_json_get(queue, "by_status"), &item, &key) != 0) {
        char *status = pawl_json_text(key);
        if (status != NULL && !cli_has_ended(status) && pawl_json_int(item, 0) > 0)
            draft_print(ret, "%s%s", ret->len > 0 ? "," : "", status);
        pawl_free(status);
    }
    pawl_free(answer);
    return CLI_DONE;
}

/* Cancels a page of what is left; *cursor is where to go on, NULL when that was all. */
static enum cli_exit cancel_some(struct site *site, const char *kind, const char *statuses,
                                 char **cursor, long long *done)
{
    char *answer;
    struct pawl_object *filter = pawl_object_new();
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(filter, "queue", site->queue);
    pawl_object_text(filter, "kind", kind);
    pawl_object_text(filter, "status", statuses);
    pawl_object_text(request, "action", "cancel");
    pawl_object_text(request, "mode", "hard");
    pawl_object_text(request, "reason", "the benchmark is over");
    pawl_object_json(request, "filter", filter != NULL ? pawl_object_str(filter) : NULL);
    pawl_object_text(request, "cursor", *cursor);
    pawl_object_free(filter);
    pawl_free(*cursor);
    *cursor = NULL;
    enum cli_exit code = cli_ask(site->bench->args, site->pawl, pawl_bulk, request, &answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_json said = pawl_json_read(answer);
    struct pawl_json next = pawl_json_get(said, "next_cursor");
    *done += pawl_json_int(pawl_json_get(said, "done"), 0);
    if (next.at != NULL)
        *cursor = pawl_json_text(next);
    pawl_free(answer);
    return CLI_DONE;
}

/* Of our own jobs only: others may have some in a queue that was named. */
static enum cli_exit cancel_the_rest(struct site *site)
{
    static const char *const kinds[] = {BENCH_KIND, BENCH_KIND_OTHER};
    struct draft statuses = {0};
    struct progress progress = progress_begin("left jobs cancelled", 0);
    char *cursor = NULL;
    long long done = 0;
    sigset_t before;
    /* It may take long: signals end us as they always do. */
    (void)pthread_sigmask(SIG_UNBLOCK, &site->bench->signals, &before);
    enum cli_exit code = open_statuses(site, &statuses);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && statuses.len > 0; i++)
        while (code == CLI_DONE) {
            code = cancel_some(site, kinds[i], statuses.at, &cursor, &done);
            progress_show(&progress, done);
            if (cursor == NULL)
                break;
        }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    progress_end(&progress);
    pawl_free(cursor);
    draft_free(&statuses);
    return code;
}

/* The same in the queue whose name has this suffix. */
static enum cli_exit cancel_in(struct site *site, const char *suffix)
{
    char name[sizeof site->bench->queue + 32];
    const char *queue = site->queue;
    (void)snprintf(name, sizeof name, "%s%s", queue, suffix);
    site->queue = name;
    enum cli_exit code = cancel_the_rest(site);
    site->queue = queue;
    return code;
}

/* In all queues of the benchmark; a paused one is resumed. */
static enum cli_exit cancel_everywhere(struct site *site)
{
    enum cli_exit code = cancel_the_rest(site);
    for (long long i = 0; i < site->background_queues && code == CLI_DONE; i++) {
        char more[sizeof BENCH_BACKGROUND + 24];
        (void)snprintf(more, sizeof more, BENCH_BACKGROUND "%lld", i);
        code = cancel_in(site, more);
    }
    if (code == CLI_DONE && site->bench->mix)
        code = cancel_in(site, BENCH_PAUSED);
    return code == CLI_DONE && site->bench->mix ? mix_pause(site, false) : code;
}

enum cli_exit site_close(struct site *site, double *ret_bytes)
{
    bool keep = site->bench->keep;
    struct tally tally = {0};
    enum cli_exit code = CLI_DONE;
    if (site->pawl != NULL && site->bytes >= 0)
        code = site_tally(site, &tally);
    if (code == CLI_DONE && !site->is_ours && !keep)
        code = cancel_everywhere(site);
    pawl_close(site->pawl);
    served_stop(&site->served);
    long long bytes = store_bytes(site->path) - site->bytes;
    if (ret_bytes != NULL && site->bytes >= 0 && tally.all > site->jobs && bytes >= 0)
        *ret_bytes = (double)bytes / (double)(tally.all - site->jobs);
    if (site->directory[0] != '\0' && keep)
        cli_remark("kept %s%s", sqlite_scheme, site->path);
    else if (site->directory[0] != '\0')
        delete_directory(site->directory);
    else if (keep && !site->is_ours)
        cli_remark("kept the jobs of queue %s", site->queue);
    return code;
}
