/* Running a program: what it reads, what it says, how it ends, and how it is ended.
 *
 * A program that runs here has none of our files but the three standard ones, takes signals as any
 * program does, and is killed when we die. */
#ifndef PAWL_CLI_CHILD_H
#define PAWL_CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>

enum { CHILD_TAIL_MAX = 4096 };

/* What is to become of a program that runs. */
enum child_wish {
    CHILD_GO_ON,
    CHILD_END,  /* SIGTERM to all of its group; SIGKILL if it still runs after `grace_ms` */
    CHILD_KILL, /* SIGKILL now */
};

struct child_task {
    const char *path; /* from child_find */
    char *const *argv;
    char *const *environment; /* from child_environment */

    const char *input; /* on its stdin; NULL: it has ours */
    size_t input_len;
    size_t output_max; /* of its stdout so much is kept; if there is more it is ended */
    bool own_group;    /* it leads a process group of its own, and all of that is ended with it */
    bool keep_tail;    /* the end of its stderr is kept, and passed on to ours; else it has ours */
    int grace_ms;

    /* Asked some times a second while it runs; NULL: let it run. */
    enum child_wish (*wish)(void *arg);
    void *arg;
};

struct child_end {
    int code;   /* what it exited with; -1: a signal killed it */
    int signal; /* which one; 0: none */
    char *output;
    size_t output_len;
    bool output_cut; /* there was more */
    char tail[CHILD_TAIL_MAX];
    size_t tail_len;
};

/* The path of a program, as a shell would find it; to be freed. NULL: errno says why not, ENOENT
 * when it is nowhere. */
char *child_find(const char *name);

/* Our environment with some settings changed: pairs of name and value, ended by NULL. A value of
 * NULL takes the setting out. All in one piece, to be freed; NULL: no memory. */
char **child_environment(const char *const *pairs);

/* Runs a program to its end. 0, or an errno: it could not be started. `ret->output` is to be freed,
 * and has a NUL behind its end. May be called from several threads. */
int child_run(const struct child_task *task, struct child_end *ret);

#endif
