/* A server for 'pawl bench': started in a process of its own, so that what it costs and what its
 * clients cost can be told apart. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/bench.h"
#include "cli/child.h"

enum {
    START_MS = 30 * 1000, /* for it to come up */
    STOP_MS = 30 * 1000,  /* and to end, before it is killed */
    ASK_MS = 2000,        /* for its /metrics */
    SAID_MAX = 4096,
};

#define SCHEME "http://"

/* ---- starting ---- */

/* In the child: never returns. It has a process group of its own, so that an interrupt from the
 * keyboard is ours alone; it ends when we do. */
static _Noreturn void become_server(const struct bench *bench, char *store, int log,
                                    char *const *environment)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigprocmask(SIG_UNBLOCK, &bench->signals, NULL);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 &&
        dup2(log, STDERR_FILENO) >= 0) {
        char self[] = "/proc/self/exe";
        char name[] = "pawl";
        char verb[] = "serve";
        char store_option[] = "--store";
        char listen_option[] = "--listen";
        char listen[] = "127.0.0.1:0";
        char *arguments[] = {name, verb, store_option, store, listen_option, listen, NULL};
        (void)execve(self, arguments, environment);
    }
    _exit(127);
}

/* Reads what it says until it says which port it has; false: it ends, or is silent. */
static bool await_port(struct served *served, char said[SAID_MAX])
{
    long long until = bench_now_ns() + START_MS * 1000000LL;
    size_t len = 0;
    said[0] = '\0';
    while (len + 1 < SAID_MAX && bench_now_ns() < until) {
        struct pollfd ready = {.fd = served->log, .events = POLLIN};
        if (poll(&ready, 1, 100) <= 0)
            continue;
        ssize_t got = read(served->log, said + len, SAID_MAX - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        len += (size_t)got;
        said[len] = '\0';
        const char *port = strstr(said, " on port ");
        char *end = NULL;
        long number = port != NULL ? strtol(port + strlen(" on port "), &end, 10) : 0;
        /* The line may be cut in the middle of the number. */
        if (number > 0 && number < 65536 && *end != '\0') {
            served->port = (int)number;
            return true;
        }
    }
    return false;
}

/* Whatever else it says is read and forgotten, so that it is never held up. */
static void *read_on(void *arg)
{
    const struct served *served = arg;
    char said[SAID_MAX];
    ssize_t got;
    do
        got = read(served->log, said, sizeof said);
    while (got > 0 || (got < 0 && errno == EINTR));
    return NULL;
}

static void close_log(struct served *served)
{
    if (served->log >= 0)
        (void)close(served->log);
    served->log = -1;
}

enum cli_exit served_start(struct bench *bench, char *store, struct served *ret)
{
    /* What the environment says about servers is about another one. */
    static const char *const settings[] = {
        "PAWL_LISTEN", NULL, "PAWL_CERTIFICATE", NULL, "PAWL_KEY", NULL, "PAWL_CONFIG", NULL, NULL};
    const struct verb *verb = bench->args->verb;
    char said[SAID_MAX];
    int ends[2];
    *ret = (struct served){.log = -1};
    char **environment = child_environment(settings);
    if (environment == NULL)
        return cli_no_memory(verb);
    if (pipe(ends) != 0) {
        cli_complain(verb, "the server could not be started: %s", strerror(errno));
        free(environment);
        return CLI_FAILED;
    }
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    ret->pid = fork();
    if (ret->pid == 0)
        become_server(bench, store, ends[1], environment);
    int why = errno;
    free(environment);
    (void)close(ends[1]);
    ret->log = ends[0];
    if (ret->pid < 0) {
        ret->pid = 0;
        close_log(ret);
        cli_complain(verb, "the server could not be started: %s", strerror(why));
        return CLI_FAILED;
    }
    if (!await_port(ret, said)) {
        cli_complain(verb, "the server did not become ready: %s",
                     said[0] != '\0' ? said : "no output");
        served_stop(ret);
        return CLI_OUT_OF_REACH;
    }
    ret->reading = pthread_create(&ret->reader, NULL, read_on, ret) == 0;
    return CLI_DONE;
}

void served_stop(struct served *served)
{
    if (served->pid <= 0)
        return;
    long long until = bench_now_ns() + STOP_MS * 1000000LL;
    (void)kill(served->pid, SIGTERM);
    while (waitpid(served->pid, NULL, WNOHANG) == 0) {
        if (bench_now_ns() > until)
            (void)kill(served->pid, SIGKILL);
        bench_sleep_until(bench_now_ns() + 2000000);
    }
    if (served->reading)
        (void)pthread_join(served->reader, NULL);
    close_log(served);
    served->pid = 0;
    served->reading = false;
}

/* ---- what servers cost ---- */

double served_cpu(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return -1;
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Connects to "http://HOST:PORT"; -1: it does not work, or is not of that form. */
static int connect_to(const char *url)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct timeval timeout = {.tv_sec = ASK_MS / 1000};
    char port[8] = "80";
    char host[256];
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0)
        return -1;
    const char *start = url + strlen(SCHEME);
    size_t len = strcspn(start, "/");
    const char *end = start + len;
    const char *colon = end;
    for (const char *c = start; c < end; c++)
        colon = *c == ':' ? c : *c == ']' ? end : colon;
    if (colon < end)
        (void)snprintf(port, sizeof port, "%.*s", (int)(end - colon - 1), colon + 1);
    bool bracketed = start[0] == '[' && colon > start + 1;
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - start - (bracketed ? 2 : 0)),
                   start + bracketed);
    if (getaddrinfo(host, port, &wanted, &found) != 0)
        return -1;
    int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    (void)setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (file >= 0 && connect(file, found->ai_addr, found->ai_addrlen) != 0) {
        (void)close(file);
        file = -1;
    }
    freeaddrinfo(found);
    return file;
}

/* The answer to a request, as far as it comes; to be freed with draft_free. */
static void ask(int file, const char *url, struct draft *ret)
{
    enum { ANSWER_MAX = 4 * 1024 * 1024 };
    const char *token = getenv("PAWL_TOKEN");
    struct draft request = {0};
    bool has_token = token != NULL && *token != '\0';
    const char *host = url + strlen(SCHEME);
    draft_print(&request, "GET /metrics HTTP/1.0\r\nHost: %.*s\r\n%s%s%s\r\n",
                (int)strcspn(host, "/"), host, has_token ? "Authorization: Bearer " : "",
                has_token ? token : "", has_token ? "\r\n" : "");
    bool sent = !request.failed &&
                send(file, request.at, request.len, MSG_NOSIGNAL) == (ssize_t)request.len;
    draft_free(&request);
    while (sent && ret->len < ANSWER_MAX) {
        char piece[16 * 1024];
        ssize_t got = recv(file, piece, sizeof piece, 0);
        if (got <= 0)
            return;
        draft_add(ret, piece, (size_t)got);
    }
}

double served_remote_cpu(const char *url)
{
    static const char name[] = "\nprocess_cpu_seconds_total ";
    struct draft answer = {0};
    double cpu = -1;
    int file = connect_to(url);
    if (file < 0)
        return -1;
    ask(file, url, &answer);
    (void)close(file);
    const char *line = answer.at != NULL ? strstr(answer.at, name) : NULL;
    if (line != NULL)
        cpu = strtod(line + strlen(name), NULL);
    draft_free(&answer);
    return cpu;
}
