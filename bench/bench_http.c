/* What a job costs a server with a SQLite file, all of its threads together, and nothing of what it
 * costs the client: that is another process, which callgrind does not count.
 *
 *   submit   made one by one
 *   work     claimed and completed, one by one
 *   batch    whole lives, 100 jobs in a call
 *
 * usage: bench_http --list | SCENARIO
 *        bench_http --client PORT SCENARIO     (by the other form; it says when it is ready, is
 * told to go on, and says when it is done)
 *
 * scripts/bench runs this under callgrind; on its own it only says how much it did. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

/* ---- the client ---- */

static void say(int to)
{
    if (write(to, "", 1) != 1)
        measure_fail("the other process", "is gone");
}

static void hear(int from)
{
    char byte;
    if (read(from, &byte, 1) != 1)
        measure_fail("the other process", "is gone");
}

static int be_client(const char *port, const struct measured *scenario)
{
    const struct pawl_options options = {.actor = "bench"};
    struct pawl_error error;
    struct pawl *pawl;
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%s", port);
    if (pawl_open(url, &options, &pawl, &error) != PAWL_OK)
        measure_fail(url, error.message);
    scenario->prepare(pawl);
    say(STDIN_FILENO);
    hear(STDIN_FILENO);
    scenario->work(pawl);
    say(STDIN_FILENO);
    pawl_close(pawl);
    return 0;
}

/* Its standard input is the line to us. */
static pid_t start_client(const char *self, int port, const char *scenario, int *ret_line)
{
    char port_text[16];
    int ends[2];
    (void)snprintf(port_text, sizeof port_text, "%d", port);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        measure_fail("no client", "socketpair");
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (dup2(ends[1], STDIN_FILENO) == STDIN_FILENO)
            (void)execl(self, self, "--client", port_text, scenario, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    if (pid < 0)
        measure_fail("no client", "fork");
    *ret_line = ends[0];
    return pid;
}

/* ---- the server ---- */

static int serve(const char *self, const struct measured *scenario)
{
    /* One thread that talks with clients: there is but one of them. */
    const struct pawl_server_options options = {.listen = "127.0.0.1:0", .create = 1, .threads = 1};
    struct pawl_error error;
    struct pawl_server *server;
    int line;
    int status;
    if (pawl_server_start(measure_place(), &options, &server, &error) != PAWL_OK)
        measure_fail("no server", error.message);
    pid_t client = start_client(self, pawl_server_port(server), scenario->name, &line);
    hear(line);
    measure_begin();
    say(line);
    hear(line);
    measure_end();
    if (waitpid(client, &status, 0) != client || status != 0)
        measure_fail("the client", "did not end well");
    pawl_server_stop(server, 1000);
    measure_leave();
    return printf("%d job\n", scenario->jobs) < 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--client") == 0)
        return be_client(argv[2], measured_find(argv[3]));
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "--list") == 0)
        return measured_list();
    return serve(argv[0], measured_find(argv[1]));
}
