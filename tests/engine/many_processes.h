/* What the tests of many processes on one SQLite file share: handles and calls that must succeed,
 * and children. They fork while this process has no threads, and talk with their children by a
 * line. */
#ifndef PAWL_TESTS_ENGINE_MANY_PROCESSES_H
#define PAWL_TESTS_ENGINE_MANY_PROCESSES_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "../store/sqlite_place.h"
#include "pawl.h"

static inline void rest_ms(long ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000 * 1000};
    while (nanosleep(&rest, &rest) != 0)
        continue;
}

/* ---- calls ---- */

typedef enum pawl_code (*verb_function)(struct pawl *pawl, const char *request, char **ret_answer,
                                        struct pawl_error *error);

/* Whether this is a child, which must not go back into cmocka, as a failure does. */
static bool is_child;

static inline void fail_here(const char *doing, const char *why)
{
    if (is_child) {
        (void)fprintf(stderr, "%s: %s\n", doing, why);
        _exit(99);
    }
    fail_msg("%s: %s", doing, why);
}

static inline struct pawl *open_at(const char *path, int create)
{
    char url[4096 + 16];
    struct pawl_options options = {.create = create, .patience_ms = 20 * 1000};
    struct pawl *pawl = NULL;
    struct pawl_error error;
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    if (pawl_open(url, &options, &pawl, &error) != PAWL_OK)
        fail_here(url, error.message);
    return pawl;
}

static inline enum pawl_code open_fails(const char *path, int create, struct pawl_error *error)
{
    char url[4096 + 16];
    struct pawl_options options = {.create = create, .patience_ms = 20 * 1000};
    struct pawl *pawl = NULL;
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    enum pawl_code code = pawl_open(url, &options, &pawl, error);
    assert_int_not_equal(code, PAWL_OK);
    assert_null(pawl);
    return code;
}

/* The answer, to be freed; the call must succeed. */
static inline char *ask(struct pawl *pawl, verb_function verb, const char *request)
{
    char *answer = NULL;
    struct pawl_error error;
    if (verb(pawl, request, &answer, &error) != PAWL_OK)
        fail_here(request, error.message);
    return answer;
}

static inline void ask_and_forget(struct pawl *pawl, verb_function verb, const char *request)
{
    pawl_free(ask(pawl, verb, request));
}

static inline char *text_of(const char *answer, const char *path)
{
    char *text = pawl_json_text(pawl_json_get(pawl_json_read(answer), path));
    assert_non_null(text);
    return text;
}

/* How many jobs there are of a kind, of at most 500. */
static inline int count_jobs(struct pawl *pawl, const char *kind)
{
    char request[128];
    (void)snprintf(request, sizeof request, "{\"kind\":\"%s\",\"limit\":500}", kind);
    char *answer = ask(pawl, pawl_list, request);
    struct pawl_json item = {NULL, 0};
    int count = 0;
    while (pawl_json_next(pawl_json_get(pawl_json_read(answer), "jobs"), &item, NULL))
        count++;
    pawl_free(answer);
    return count;
}

/* The process that has the store, as its lock says. */
static inline pid_t owner_of(const struct place *place)
{
    char text[32] = "";
    FILE *file = fopen(beside(place, ".lock"), "r");
    if (file == NULL)
        return 0;
    bool read = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    return read ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* ---- children ---- */

struct child {
    pid_t pid;
    int line; /* a byte down lets it go on, a byte up says how far it is */
};

static inline void say(int line)
{
    (void)send(line, "x", 1, MSG_NOSIGNAL);
}

static inline bool hear(int line)
{
    char byte;
    return read(line, &byte, 1) == 1;
}

static inline struct child start(void (*run)(const struct place *place, int line),
                                 const struct place *place)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        is_child = true;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(ends[1]);
        run(place, ends[0]);
        _exit(0);
    }
    (void)close(ends[0]);
    return (struct child){pid, ends[1]};
}

/* Lets it go on to its end. */
static inline void finish(struct child *child)
{
    say(child->line);
    assert_int_equal(child_end(child->pid), 0);
    (void)close(child->line);
}

static inline void kill_child(struct child *child)
{
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    (void)close(child->line);
    assert_int_equal(child_end(child->pid), -SIGKILL);
}

/* Failures in a child end it with another code than 0. */
static inline void own_until_told(const struct place *place, int line)
{
    struct pawl *pawl = open_at(place->path, 1);
    say(line);
    (void)hear(line);
    pawl_close(pawl);
}

#endif
