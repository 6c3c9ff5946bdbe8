#include "server/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct task *first;
    struct task *last;
    uint32_t waiting;
    uint32_t waiting_max;
    bool closing;
    uint32_t thread_count;
    pthread_t threads[];
};

static void *pool_run(void *arg)
{
    struct pool *pool = arg;
    (void)pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->first == NULL && !pool->closing)
            (void)pthread_cond_wait(&pool->changed, &pool->mutex);
        struct task *task = pool->first;
        if (task == NULL)
            break;
        pool->first = task->next;
        if (pool->first == NULL)
            pool->last = NULL;
        pool->waiting--;
        (void)pthread_mutex_unlock(&pool->mutex);
        task->run(task);
        (void)pthread_mutex_lock(&pool->mutex);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

bool pool_start_thread(void *(*run)(void *arg), void *arg, unsigned long *ret_thread)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, run, arg) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        *ret_thread = thread;
    return started;
}

struct pool *pool_open(uint32_t threads, uint32_t waiting_max)
{
    struct pool *pool = calloc(1, sizeof *pool + threads * sizeof pool->threads[0]);
    if (pool == NULL)
        return NULL;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_cond_init(&pool->changed, NULL);
    pool->waiting_max = waiting_max;
    while (pool->thread_count < threads &&
           pool_start_thread(pool_run, pool, &pool->threads[pool->thread_count]))
        pool->thread_count++;
    if (pool->thread_count > 0)
        return pool;
    pool_close(pool);
    return NULL;
}

void pool_close(struct pool *pool)
{
    if (pool == NULL)
        return;
    (void)pthread_mutex_lock(&pool->mutex);
    pool->closing = true;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        (void)pthread_join(pool->threads[i], NULL);
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static bool put(struct pool *pool, struct task *task, uint32_t waiting_max)
{
    task->next = NULL;
    (void)pthread_mutex_lock(&pool->mutex);
    bool room = pool->waiting < waiting_max;
    if (room) {
        if (pool->last == NULL)
            pool->first = task;
        else
            pool->last->next = task;
        pool->last = task;
        pool->waiting++;
        (void)pthread_cond_signal(&pool->changed);
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return room;
}

bool pool_put(struct pool *pool, struct task *task)
{
    return put(pool, task, pool->waiting_max);
}

void pool_put_always(struct pool *pool, struct task *task)
{
    (void)put(pool, task, UINT32_MAX);
}
