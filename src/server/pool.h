/* Threads for what may block: reads of the store, and verbs that take long. They take no signals.
 *
 * A task is memory of its owner, who must leave it alone until it was run. */
#ifndef PAWL_SERVER_POOL_H
#define PAWL_SERVER_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

struct task {
    void (*run)(struct task *task); /* the task may be gone when it returns */
    struct task *next;              /* the pool's */
};

/* Threads that run tasks in the order in which they come; NULL: no memory, or no threads. */
struct pool *pool_open(uint32_t threads, uint32_t waiting_max);

/* Runs all that is waiting and ends. NULL does nothing. */
void pool_close(struct pool *pool);

/* Has a task run; false: too many are waiting. */
bool pool_put(struct pool *pool, struct task *task);

/* The same for a task that is part of what was begun, and cannot be refused. */
void pool_put_always(struct pool *pool, struct task *task);

/* Starts a thread that takes no signals. */
bool pool_start_thread(void *(*run)(void *arg), void *arg, unsigned long *ret_thread);

#endif
