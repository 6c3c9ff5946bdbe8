#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    ASK_MS = 100,     /* how often we ask what is wished */
    NO_PIDFD_MS = 20, /* how often we look whether it has ended, where the kernel cannot tell */
    CHUNK = 16 * 1024,
};

static long long now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- finding a program, making its environment -------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return false;
    if (!S_ISREG(file.st_mode)) {
        errno = EACCES;
        return false;
    }
    return access(path, X_OK) == 0;
}

/* DIRECTORY/NAME; an empty directory is the one we are in. */
static char *join(const char *directory, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    char *path = malloc(len + name_len + 3);
    if (path == NULL)
        return NULL;
    size_t at = 0;
    if (len == 0)
        path[at++] = '.';
    memcpy(path + at, directory, len);
    at += len;
    path[at++] = '/';
    memcpy(path + at, name, name_len + 1);
    return path;
}

char *child_find(const char *name)
{
    if (name[0] == '\0') {
        errno = ENOENT;
        return NULL;
    }
    if (strchr(name, '/') != NULL)
        return is_program(name) ? strdup(name) : NULL;

    const char *place = getenv("PATH");
    int why = ENOENT;
    if (place == NULL)
        place = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t len = strcspn(place, ":");
        char *path = join(place, len, name);
        if (path == NULL || is_program(path))
            return path;
        if (errno == EACCES)
            why = EACCES;
        free(path);
        if (place[len] == '\0')
            break;
        place += len + 1;
    }
    errno = why;
    return NULL;
}

/* Whether a setting, NAME=VALUE, is one of those that are changed. */
static bool is_changed(const char *setting, const char *const *pairs)
{
    for (; *pairs != NULL; pairs += 2) {
        size_t len = strlen(*pairs);
        if (strncmp(setting, *pairs, len) == 0 && setting[len] == '=')
            return true;
    }
    return false;
}

char **child_environment(const char *const *pairs)
{
    size_t count = 1;
    size_t bytes = 0;
    for (char **setting = environ; *setting != NULL; setting++)
        count++;
    for (const char *const *pair = pairs; *pair != NULL; pair += 2) {
        count++;
        bytes += strlen(pair[0]) + 2 + (pair[1] != NULL ? strlen(pair[1]) : 0);
    }

    char **environment = malloc(count * sizeof *environment + bytes);
    if (environment == NULL)
        return NULL;
    char **next = environment;
    char *text = (char *)(environment + count);
    for (char **setting = environ; *setting != NULL; setting++)
        if (!is_changed(*setting, pairs))
            *next++ = *setting;
    for (const char *const *pair = pairs; *pair != NULL; pair += 2) {
        size_t name_len = strlen(pair[0]);
        if (pair[1] == NULL)
            continue;
        size_t value_len = strlen(pair[1]);
        *next++ = text;
        memcpy(text, pair[0], name_len);
        text[name_len] = '=';
        memcpy(text + name_len + 1, pair[1], value_len + 1);
        text += name_len + value_len + 2;
    }
    *next = NULL;
    return environment;
}

/* ---- starting it -------------------------------------------------------------------------- */

/* Ends of pipes; [0] is read from, -1: none. */
struct pipes {
    int in[2];
    int out[2];
    int err[2];
    int failure[2]; /* why it could not be started */
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void close_pipe(int ends[2])
{
    close_end(&ends[0]);
    close_end(&ends[1]);
}

static void close_pipes(struct pipes *pipes)
{
    close_pipe(pipes->in);
    close_pipe(pipes->out);
    close_pipe(pipes->err);
    close_pipe(pipes->failure);
}

/* A pipe beyond the standard files, also where we were started without those. */
static bool make_pipe(int ends[2])
{
    int low[2];
    if (pipe(low) != 0)
        return false;
    ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, 3);
    ends[1] = fcntl(low[1], F_DUPFD_CLOEXEC, 3);
    (void)close(low[0]);
    (void)close(low[1]);
    return ends[0] >= 0 && ends[1] >= 0;
}

static bool make_pipes(const struct child_task *task, struct pipes *ret)
{
    *ret = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    if (make_pipe(ret->failure) && make_pipe(ret->out) &&
        (task->input == NULL || make_pipe(ret->in)) && (!task->keep_tail || make_pipe(ret->err)))
        return true;
    int why = errno;
    close_pipes(ret);
    errno = why;
    return false;
}

/* Everything but the standard files is closed at exec. The library opens its files like that, but
 * there are other libraries, and the process that started us. */
static void close_the_rest(void)
{
#ifndef CLOSE_RANGE_CLOEXEC
    enum { CLOSE_RANGE_CLOEXEC = 4 };
#endif
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3U, ~0U, (unsigned)CLOSE_RANGE_CLOEXEC) == 0)
        return;
#endif
    enum { FILES_MAX = 4096 };
    for (int fd = 3; fd < FILES_MAX; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* In the new process, where only what signal handlers may call may be called. */
static void become(const struct child_task *task, const struct pipes *pipes, char *const *sh_argv,
                   pid_t parent)
{
    sigset_t none;
    struct sigaction fresh = {.sa_handler = SIG_DFL};
    int why;

    if (task->own_group)
        (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if ((pipes->in[0] >= 0 && dup2(pipes->in[0], STDIN_FILENO) < 0) ||
        dup2(pipes->out[1], STDOUT_FILENO) < 0 ||
        (pipes->err[1] >= 0 && dup2(pipes->err[1], STDERR_FILENO) < 0))
        goto out;
    close_the_rest();
    (void)sigaction(SIGPIPE, &fresh, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execve(task->path, task->argv, task->environment);
    /* A script that does not say what it is for. */
    if (errno == ENOEXEC)
        (void)execve(sh_argv[0], sh_argv, task->environment);

out:
    why = errno;
    if (write(pipes->failure[1], &why, sizeof why) != (ssize_t)sizeof why)
        _exit(126);
    _exit(127);
}

/* The words of a shell that runs the program; to be freed. */
static char **shell_words(const struct child_task *task)
{
    size_t count = 0;
    while (task->argv[count] != NULL)
        count++;
    char **words = calloc(count + 2, sizeof *words);
    if (words == NULL)
        return NULL;
    /* exec changes no word; its prototype is older than const. */
    words[0] = (char *)(uintptr_t) "/bin/sh";
    words[1] = (char *)(uintptr_t)task->path;
    for (size_t i = 1; i < count; i++)
        words[i + 1] = task->argv[i];
    return words;
}

/* Waits for its end and says how it was. */
static int reap(pid_t pid)
{
    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    return status;
}

/* 0, or why it could not be started. */
static int start(const struct child_task *task, struct pipes *pipes, pid_t *ret_pid)
{
    char **sh_argv = shell_words(task);
    if (sh_argv == NULL)
        return ENOMEM;
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(task, pipes, sh_argv, self);
    int why = pid < 0 ? errno : 0;
    free(sh_argv);
    if (why != 0)
        return why;

    if (task->own_group)
        (void)setpgid(pid, pid);
    close_end(&pipes->in[0]);
    close_end(&pipes->out[1]);
    close_end(&pipes->err[1]);
    close_end(&pipes->failure[1]);
    ssize_t got;
    do
        got = read(pipes->failure[0], &why, sizeof why);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof why) {
        (void)reap(pid);
        return why;
    }
    *ret_pid = pid;
    return 0;
}

/* ---- while it runs ------------------------------------------------------------------------ */

struct running {
    const struct child_task *task;
    struct child_end *end;
    struct pipes pipes;
    pid_t pid;
    int pidfd; /* -1: the kernel has none */
    size_t input_at;
    size_t output_cap;
    bool starved; /* there was no memory for its output */
    bool asked;   /* it was asked to end */
    bool killed;
    long long kill_at;
};

static void send_signal(const struct running *running, int signal)
{
    (void)kill(running->task->own_group ? -running->pid : running->pid, signal);
}

/* Gives it as much of its input as it takes. */
static void feed(struct running *running)
{
    const struct child_task *task = running->task;
    while (running->input_at < task->input_len) {
        ssize_t wrote = write(running->pipes.in[1], task->input + running->input_at,
                              task->input_len - running->input_at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EAGAIN)
            return;
        /* It may well end, or close its stdin, without having read it all. */
        if (wrote < 0)
            break;
        running->input_at += (size_t)wrote;
    }
    close_end(&running->pipes.in[1]);
}

static void keep_output(struct running *running, const char *bytes, size_t len)
{
    struct child_end *end = running->end;
    size_t room = running->task->output_max - end->output_len;
    if (len > room) {
        end->output_cut = true;
        len = room;
    }
    if (end->output_len + len + 1 > running->output_cap) {
        size_t cap = (end->output_len + len + 1) * 2;
        char *more = realloc(end->output, cap);
        if (more == NULL) {
            running->starved = true;
            return;
        }
        end->output = more;
        running->output_cap = cap;
    }
    memcpy(end->output + end->output_len, bytes, len);
    end->output_len += len;
}

static void keep_tail(struct running *running, const char *bytes, size_t len)
{
    struct child_end *end = running->end;
    for (size_t at = 0; at < len;) {
        ssize_t wrote = write(STDERR_FILENO, bytes + at, len - at);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        at += (size_t)wrote;
    }
    if (len >= CHILD_TAIL_MAX) {
        memcpy(end->tail, bytes + len - CHILD_TAIL_MAX, CHILD_TAIL_MAX);
        end->tail_len = CHILD_TAIL_MAX;
        return;
    }
    size_t kept = end->tail_len;
    if (kept + len > CHILD_TAIL_MAX) {
        kept = CHILD_TAIL_MAX - len;
        memmove(end->tail, end->tail + end->tail_len - kept, kept);
    }
    memcpy(end->tail + kept, bytes, len);
    end->tail_len = kept + len;
}

/* Takes what is there to be read. Bounded, so that a flood cannot keep us from looking at anything
 * else. */
static void drain(struct running *running, int *fd,
                  void (*keep)(struct running *running, const char *bytes, size_t len))
{
    enum { CHUNKS_AT_ONCE = 64 };
    char chunk[CHUNK];
    for (int i = 0; i < CHUNKS_AT_ONCE && *fd >= 0; i++) {
        ssize_t got = read(*fd, chunk, sizeof chunk);
        if (got > 0)
            keep(running, chunk, (size_t)got);
        else if (got == 0 || (errno != EINTR && errno != EAGAIN))
            close_end(fd);
        else if (errno == EAGAIN)
            return;
    }
}

/* Does what is wished. */
static void heed(struct running *running)
{
    const struct child_task *task = running->task;
    enum child_wish wish = task->wish != NULL ? task->wish(task->arg) : CHILD_GO_ON;
    if (wish == CHILD_GO_ON && (running->end->output_cut || running->starved))
        wish = CHILD_END;
    if (wish == CHILD_END && !running->asked) {
        running->asked = true;
        running->kill_at = now_ms() + task->grace_ms;
        send_signal(running, SIGTERM);
    }
    if (!running->killed &&
        (wish == CHILD_KILL || (running->asked && now_ms() >= running->kill_at))) {
        running->killed = true;
        running->asked = true;
        send_signal(running, SIGKILL);
    }
}

/* Whether it has ended. It stays to be waited for, so that its number is not given away. */
static bool has_ended(const struct running *running)
{
    siginfo_t info = {0};
    int got = waitid(P_PID, (id_t)running->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return got == 0 ? info.si_pid == running->pid : errno == ECHILD;
}

static void watch(struct running *running)
{
    struct pipes *pipes = &running->pipes;
    while (!has_ended(running)) {
        struct pollfd polls[] = {
            {.fd = pipes->in[1], .events = POLLOUT},
            {.fd = pipes->out[0], .events = POLLIN},
            {.fd = pipes->err[0], .events = POLLIN},
            {.fd = running->pidfd, .events = POLLIN},
        };
        (void)poll(polls, sizeof polls / sizeof polls[0],
                   running->pidfd >= 0 ? ASK_MS : NO_PIDFD_MS);
        if (polls[0].revents != 0)
            feed(running);
        if (polls[1].revents != 0)
            drain(running, &pipes->out[0], keep_output);
        if (polls[2].revents != 0)
            drain(running, &pipes->err[0], keep_tail);
        heed(running);
    }
    /* What it said before it ended is in the pipes. Others that it has left behind may still hold
     * them, so their ends are not waited for. */
    drain(running, &pipes->out[0], keep_output);
    drain(running, &pipes->err[0], keep_tail);
}

static void set_nonblocking(int fd)
{
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

int child_run(const struct child_task *task, struct child_end *ret)
{
    *ret = (struct child_end){.code = -1};
    struct running running = {.task = task, .end = ret, .pidfd = -1};
    if (!make_pipes(task, &running.pipes))
        return errno;
    int why = start(task, &running.pipes, &running.pid);
    if (why != 0) {
        close_pipes(&running.pipes);
        return why;
    }

#ifdef SYS_pidfd_open
    running.pidfd = (int)syscall(SYS_pidfd_open, running.pid, 0);
#endif
    set_nonblocking(running.pipes.in[1]);
    set_nonblocking(running.pipes.out[0]);
    set_nonblocking(running.pipes.err[0]);
    watch(&running);
    /* Those whom it leaves behind are ended with it, if it was ended. */
    if (running.asked && task->own_group)
        send_signal(&running, SIGKILL);

    int status = reap(running.pid);
    close_end(&running.pidfd);
    close_pipes(&running.pipes);
    if (WIFEXITED(status))
        ret->code = WEXITSTATUS(status);
    else if (WIFSIGNALED(status))
        ret->signal = WTERMSIG(status);
    if (ret->output == NULL)
        ret->output = calloc(1, 1);
    else
        ret->output[ret->output_len] = '\0';
    if (running.starved || ret->output == NULL) {
        free(ret->output);
        *ret = (struct child_end){.code = -1};
        return ENOMEM;
    }
    return 0;
}
