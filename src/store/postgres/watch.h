/* Tells who waits that something was committed, here or elsewhere.
 *
 * Commits of this process are told at once. Those of others come by NOTIFY, which a thread of its
 * own hears on a connection of its own and also sends, some time after the commits that it is about
 * and never more than once in a few milliseconds. Where nothing can be heard (behind a pooler), or
 * what is waited for needs no commit of ours to come, the thread looks for itself now and then.
 *
 * Some wait for others only. What a look finds may be of this process: where notifications are
 * heard it counts as others' when this process has committed nothing meanwhile, and else once in a
 * while, since a notification can be lost. */
#ifndef PAWL_STORE_POSTGRES_WATCH_H
#define PAWL_STORE_POSTGRES_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/postgres/connection.h"

enum {
    WATCH_NOTIFY_MS = 5,   /* between two notifications */
    WATCH_POLL_MS = 100,   /* without notifications */
    WATCH_LOOK_MS = 500,   /* with them: for commits that came before an older one ended */
    WATCH_UNSURE_MAX = 10, /* so many looks in a row may be put down to this process */
    WATCH_RETRY_MS = 1000,
    WATCH_CLOSE_MS = 2000, /* for the last notification */
};

typedef enum error_code (*watch_open_fn)(void *arg, struct connection *connection, int64_t deadline,
                                         struct err *err);

struct watch {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_cond_t changed_by_others;
    watch_open_fn open;
    void *open_arg;
    const _Atomic uint64_t *generation;
    uint64_t commits; /* how many there were, or may have been */
    uint64_t others;  /* and of other processes */
    uint64_t own;     /* of this one, notifications included */
    uint32_t waiting; /* threads */
    bool is_due;      /* a notification is to be sent */
    bool started;
    bool stopping;
    int wake[2]; /* a pipe that wakes the thread */
    pthread_t thread;

    /* The thread's own. */
    struct connection connection;
    bool listening;
    char seen[256];    /* the last snapshot that was looked at, */
    uint64_t own_seen; /* how many of our own there were then, */
    uint32_t unsure;   /* and how many looks in a row may have seen nothing but these */
};

/* `open` opens a connection, `arg` is its own; when *generation changes the connection that there
 * is leads elsewhere, and another one is opened. */
enum error_code watch_init(struct watch *watch, watch_open_fn open, void *arg,
                           const _Atomic uint64_t *generation, struct err *err);

/* Stops the thread, if there is one; what is to be sent is sent first, if it can be in time. */
void watch_release(struct watch *watch);

/* The store is another one than before: everybody had better look. */
void watch_moved(struct watch *watch);

/* This process has committed something. */
void watch_committed(struct watch *watch);

/* Waits as store_watch does; for others as store_watch_others does. */
uint64_t watch_wait(struct watch *watch, bool for_others, uint64_t seen, int64_t wait_ms);

#endif
