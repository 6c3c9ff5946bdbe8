/* Clients that do what clients do, for tests that make trouble for the server meanwhile: threads
 * that submit and threads that work, over the C library.
 *
 * usage: server_load URL PREFIX SUBMITTERS WORKERS PAUSE_MS [PATIENCE_MS LEASE_MS]
 *
 * With PATIENCE_MS they try no longer than that, so that of some calls it is not known what came.
 * Some of what they ask for cannot be had.
 *
 * Every thread has a handle of its own. They go on until standard input ends; then nothing more is
 * submitted, and whoever works goes on until nothing is left. Facts go to standard output, one line
 * each, after they were told, in one write:
 *
 *   S id name       a job was acknowledged, whose payload has that name
 *   R id attempt    a worker has got it
 *   D id attempt    its completion was acknowledged
 *   L id attempt    the lease was not the worker's any more when it had done the work
 *   T name begin end how      a submit, in microseconds of a clock that all clients share
 *   K worker begin end how    a claim; each is another worker, whose name says which claim it was
 *   G id attempt worker begin end how    what that claim got
 *   C id attempt begin end how    a completion
 *   X id attempt begin end how    one with a forged token and the result false
 *   F verb code message   a call has failed in another way, which is never to be seen
 *
 * `how` is ok, refused (nothing was done) or unknown (nobody could say). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

enum {
    THREADS_MAX = 256,
    LINE_BYTES = 1024,
    EVERY_CLI = 16,
    EVERY_BAD = 13,
    EVERY_FORGED = 7,
    CLAIM_MAX = 2
};

struct load {
    const char *url;
    const char *prefix;
    int pause_ms;
    int patience_ms; /* 0: as ever, and then every failure is one too many */
    int lease_ms;
    atomic_bool over;      /* nothing more is submitted */
    atomic_int submitting; /* threads that still do */
};

struct client {
    struct load *load;
    int number;
};

static void note(const char *line, int len)
{
    if (len < 0 || write(STDOUT_FILENO, line, (size_t)len) != len)
        _exit(3);
}

static void note_fact(const char *fact, const char *id, const char *rest)
{
    char line[LINE_BYTES];
    note(line, snprintf(line, sizeof line, "%s %s %s\n", fact, id, rest));
}

static void note_failure(const char *verb, const struct pawl_error *error)
{
    char line[LINE_BYTES];
    note(line, snprintf(line, sizeof line, "F %s %d %s\n", verb, (int)error->code, error->message));
}

static long long now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* How a call that has just ended is logged. */
static void note_call(const char *fact, const char *what, long long begin, enum pawl_code code)
{
    char line[LINE_BYTES];
    const char *how = code == PAWL_OK ? "ok" : code == PAWL_UNAVAILABLE ? "unknown" : "refused";
    note(line,
         snprintf(line, sizeof line, "%s %s %lld %lld %s\n", fact, what, begin, now_us(), how));
}

/* Where nobody is patient the store may be away. */
static void note_unless_away(const struct load *load, const char *verb,
                             const struct pawl_error *error)
{
    if (load->patience_ms == 0 || error->code != PAWL_UNAVAILABLE)
        note_failure(verb, error);
}

static struct pawl *open_store(const struct load *load)
{
    struct pawl_options options = {.patience_ms = load->patience_ms, .token = getenv("PAWL_TOKEN")};
    struct pawl_error error = {0};
    struct pawl *pawl = NULL;
    if (pawl_open(load->url, &options, &pawl, &error) != PAWL_OK) {
        note_failure("open", &error);
        _exit(4);
    }
    return pawl;
}

static void *submit(void *arg)
{
    struct client *client = arg;
    struct load *load = client->load;
    struct pawl *pawl = open_store(load);
    for (int i = 0; !atomic_load(&load->over); i++) {
        char name[64];
        char request[256];
        char *answer;
        struct pawl_error error = {0};
        /* Some are for workers of the command line, which are slow. */
        const char *kind = i % EVERY_CLI == 0 ? "cli" : "library";
        bool is_bad = i % EVERY_BAD == EVERY_BAD - 1;
        (void)snprintf(name, sizeof name, "%s-%d-%d", load->prefix, client->number, i);
        (void)snprintf(request, sizeof request,
                       "{\"kind\":\"%s\",\"payload\":{\"name\":\"%s\"},\"lease_ttl_ms\":%d}", kind,
                       name, is_bad ? -1 : load->lease_ms);
        long long begin = now_us();
        enum pawl_code code = pawl_submit(pawl, request, &answer, &error);
        note_call("T", name, begin, code);
        if (is_bad && code == PAWL_BAD_REQUEST)
            continue;
        if (code != PAWL_OK) {
            note_unless_away(load, "submit", &error);
            continue;
        }
        char *id = pawl_json_text(pawl_json_get(pawl_json_read(answer), "id"));
        note_fact("S", id, name);
        pawl_free(id);
        pawl_free(answer);
        nanosleep(&(struct timespec){.tv_nsec = load->pause_ms * 1000000L}, NULL);
    }
    (void)atomic_fetch_sub(&load->submitting, 1);
    pawl_close(pawl);
    return NULL;
}

/* A token that nobody was given opens nothing: the last digit of its secret is another. */
static void try_forged(const struct load *load, struct pawl *pawl, const char *given,
                       const char *call)
{
    char token[160];
    char request[512];
    char *answer;
    struct pawl_error error = {0};
    (void)snprintf(token, sizeof token, "%s", given);
    size_t last = strlen(token) - 1;
    token[last] = token[last] == '0' ? '1' : '0';
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"result\":false}", token);
    long long begin = now_us();
    enum pawl_code code = pawl_complete(pawl, request, &answer, &error);
    note_call("X", call, begin, code);
    if (code == PAWL_OK) {
        note_fact("F", "forged", token);
        pawl_free(answer);
    } else if (code != PAWL_STALE_LEASE) {
        note_unless_away(load, "forged", &error);
    }
}

static void carry_out(const struct load *load, struct pawl *pawl, struct pawl_json claim,
                      const char *worker, long long claimed)
{
    char call[96];
    char given[192];
    char request[512];
    char attempt[24];
    char *answer;
    struct pawl_error error = {0};
    char *id = pawl_json_text(pawl_json_get(claim, "job.id"));
    char *token = pawl_json_text(pawl_json_get(claim, "lease.token"));
    (void)snprintf(attempt, sizeof attempt, "%lld",
                   pawl_json_int(pawl_json_get(claim, "lease.attempt"), 0));
    note_fact("R", id, attempt);
    (void)snprintf(call, sizeof call, "%s %s", id, attempt);
    (void)snprintf(given, sizeof given, "%s %s", call, worker);
    note_call("G", given, claimed, PAWL_OK);
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"result\":true}", token);
    long long begin = now_us();
    if (begin % EVERY_FORGED == 0)
        try_forged(load, pawl, token, call);
    enum pawl_code code = pawl_complete(pawl, request, &answer, &error);
    note_call("C", call, begin, code);
    if (code == PAWL_OK) {
        note_fact("D", id, attempt);
        pawl_free(answer);
    } else if (code == PAWL_STALE_LEASE) {
        note_fact("L", id, attempt);
    } else {
        note_unless_away(load, "complete", &error);
    }
    pawl_free(token);
    pawl_free(id);
}

static void *work(void *arg)
{
    struct client *client = arg;
    struct load *load = client->load;
    struct pawl *pawl = open_store(load);
    bool over = false;
    for (int i = 0; !over; i++) {
        char worker[64];
        char request[256];
        char *answer;
        struct pawl_error error = {0};
        bool is_bad = i % EVERY_BAD == EVERY_BAD - 1;
        (void)snprintf(worker, sizeof worker, "%s-%d-%d", load->prefix, client->number, i);
        (void)snprintf(request, sizeof request,
                       "{\"worker_id\":\"%s\",\"kinds\":[\"library\"],\"max\":%d,\"wait_ms\":500}",
                       worker, is_bad ? -1 : CLAIM_MAX);
        over = !is_bad && atomic_load(&load->over) && atomic_load(&load->submitting) == 0;
        long long begin = now_us();
        enum pawl_code code = pawl_claim(pawl, request, &answer, &error);
        note_call("K", worker, begin, code);
        if (is_bad && code == PAWL_BAD_REQUEST)
            continue;
        if (code != PAWL_OK) {
            note_unless_away(load, "claim", &error);
            continue;
        }
        struct pawl_json claims = pawl_json_get(pawl_json_read(answer), "claims");
        struct pawl_json claim = {0};
        for (; pawl_json_next(claims, &claim, NULL); over = false)
            carry_out(load, pawl, claim, worker, begin);
        pawl_free(answer);
    }
    pawl_close(pawl);
    return NULL;
}

/* Waits until standard input ends. */
static void await_end(void)
{
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    static struct client clients[THREADS_MAX];
    if (argc != 6 && argc != 8) {
        fprintf(stderr, "usage: server_load URL PREFIX SUBMITTERS WORKERS PAUSE_MS"
                        " [PATIENCE_MS LEASE_MS]\n");
        return 2;
    }
    int submitters = (int)strtol(argv[3], NULL, 10);
    int count = submitters + (int)strtol(argv[4], NULL, 10);
    struct load load = {.url = argv[1], .prefix = argv[2], .lease_ms = 60000};
    load.pause_ms = (int)strtol(argv[5], NULL, 10);
    if (argc == 8) {
        load.patience_ms = (int)strtol(argv[6], NULL, 10);
        load.lease_ms = (int)strtol(argv[7], NULL, 10);
    }
    if (submitters < 0 || count < submitters || count > THREADS_MAX)
        return 2;
    atomic_store(&load.submitting, submitters);
    for (int i = 0; i < count; i++) {
        clients[i] = (struct client){&load, i};
        if (pthread_create(&threads[i], NULL, i < submitters ? submit : work, &clients[i]) != 0)
            return 1;
    }
    await_end();
    atomic_store(&load.over, true);
    for (int i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}
