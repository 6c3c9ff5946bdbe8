#include "server/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "server/pool.h"
#include "store/store.h"

enum {
    TICK_MS = 200,    /* between two looks at the clock */
    WANTED_MS = 2000, /* between two looks whether everybody is still there */
    PAUSE_MS = 5,     /* between two looks at the store, at least, */
    SHARE = 4,        /* and so many times as long as a look has taken, */
    PAUSE_MS_MAX = 1000,
    LOOK_MAX = 1000, /* jobs in one transaction */
};

struct watch {
    struct engine *engine;
    unsigned long thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct watcher *first;
    uint64_t seen;  /* the state that everybody in the list has seen */
    int64_t ask_at; /* when to ask who is still there */
    bool interrupted;
    bool closing;
};

static void unlink_watcher(struct watch *watch, struct watcher *watcher)
{
    if (watcher->next != NULL)
        watcher->next->previous = watcher->previous;
    if (watcher->previous != NULL)
        watcher->previous->next = watcher->next;
    else
        watch->first = watcher->next;
    watcher->next = watcher->previous = NULL;
}

/* Takes those out of the list whose time has come, those for whom any change will do and who have
 * not seen the state `seen`, and now and then those who are gone; to be woken once the lock is
 * free. */
static struct watcher *take(struct watch *watch, int64_t now, uint64_t seen)
{
    struct watcher *taken = NULL;
    struct watcher *next;
    bool ask = now >= watch->ask_at;
    if (ask)
        watch->ask_at = now + WANTED_MS;
    for (struct watcher *at = watch->first; at != NULL; at = next) {
        bool over = watch->interrupted || at->until <= now || (at->any && at->seen < seen) ||
                    (ask && !at->wanted(at));
        next = at->next;
        if (!over)
            continue;
        unlink_watcher(watch, at);
        at->next = taken;
        taken = at;
    }
    return taken;
}

static void wake_all(struct watcher *taken)
{
    while (taken != NULL) {
        struct watcher *next = taken->next;
        taken->next = NULL;
        taken->wake(taken);
        taken = next;
    }
}

/* ---- jobs ---- */

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

/* The jobs that are waited for, each once. */
static struct store_job *list_jobs(struct watch *watch, struct arena *arena, uint32_t *ret_count)
{
    uint32_t count = 0;
    uint32_t distinct = 0;
    (void)pthread_mutex_lock(&watch->mutex);
    for (const struct watcher *at = watch->first; at != NULL; at = at->next)
        count += at->any ? 0 : 1;
    struct uuid *ids = arena_zalloc(arena, count + 1, sizeof *ids);
    struct store_job *jobs = arena_zalloc(arena, count + 1, sizeof *jobs);
    count = 0;
    for (const struct watcher *at = watch->first; at != NULL && ids != NULL; at = at->next)
        if (!at->any)
            ids[count++] = at->job;
    (void)pthread_mutex_unlock(&watch->mutex);
    if (ids == NULL || jobs == NULL)
        return NULL;
    qsort(ids, count, sizeof *ids, by_id);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || by_id(&ids[i], &ids[i - 1]) != 0)
            jobs[distinct++].id = ids[i];
    *ret_count = distinct;
    return jobs;
}

static int job_by_id(const void *key, const void *job)
{
    return memcmp(key, &((const struct store_job *)job)->id, sizeof(struct uuid));
}

/* Wakes those whose jobs have changed, of `jobs`, which are in order. */
static void wake_changed(struct watch *watch, const struct store_job *jobs, uint32_t count)
{
    struct watcher *taken = NULL;
    struct watcher *next;
    (void)pthread_mutex_lock(&watch->mutex);
    for (struct watcher *at = watch->first; at != NULL; at = next) {
        next = at->next;
        const struct store_job *job =
            at->any ? NULL : bsearch(&at->job, jobs, count, sizeof *jobs, job_by_id);
        if (job == NULL || job->slice.job.version == at->version)
            continue;
        unlink_watcher(watch, at);
        at->next = taken;
        taken = at;
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    wake_all(taken);
}

/* Looks at the jobs that are waited for. */
static void look(struct watch *watch)
{
    struct arena arena;
    uint32_t count = 0;
    arena_init(&arena);
    struct store_job *jobs = list_jobs(watch, &arena, &count);
    for (uint32_t at = 0; jobs != NULL && at < count; at += LOOK_MAX) {
        struct store_txn *txn;
        uint32_t some = count - at < LOOK_MAX ? count - at : LOOK_MAX;
        struct store_load load = {.jobs = jobs + at, .job_count = some};
        if (store_begin(engine_store(watch->engine), STORE_READ, &txn, NULL) != ERR_OK)
            break;
        enum error_code code = store_load(txn, &load, &arena, NULL);
        store_rollback(txn);
        if (code == ERR_OK)
            wake_changed(watch, jobs + at, some);
    }
    arena_release(&arena);
}

/* ---- the thread ---- */

/* Waits until somebody waits; false: it is over. */
static bool await_watchers(struct watch *watch, uint64_t *ret_seen)
{
    (void)pthread_mutex_lock(&watch->mutex);
    while (watch->first == NULL && !watch->closing)
        (void)pthread_cond_wait(&watch->changed, &watch->mutex);
    bool over = watch->first == NULL;
    *ret_seen = watch->seen;
    (void)pthread_mutex_unlock(&watch->mutex);
    return !over;
}

static void *watch_run(void *arg)
{
    struct watch *watch = arg;
    uint64_t seen;
    while (await_watchers(watch, &seen)) {
        uint64_t now_seen = seen;
        bool failed = engine_watch(watch->engine, seen, TICK_MS, &now_seen, NULL) != ERR_OK;
        bool changed = now_seen != seen;
        int64_t start = engine_steady(watch->engine);
        (void)pthread_mutex_lock(&watch->mutex);
        /* Anyone who looked before this must not be parked behind it. */
        watch->seen = now_seen;
        struct watcher *taken = take(watch, start, now_seen);
        (void)pthread_mutex_unlock(&watch->mutex);
        wake_all(taken);
        if (changed)
            look(watch);
        int64_t took = engine_steady(watch->engine) - start;
        int64_t pause = took * SHARE < PAUSE_MS ? PAUSE_MS : took * SHARE;
        if (failed || engine_interrupted(watch->engine))
            pause = TICK_MS;
        if (changed || pause == TICK_MS)
            clock_pause(pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX);
    }
    return NULL;
}

struct watch *watch_open(struct engine *engine)
{
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return NULL;
    watch->engine = engine;
    (void)pthread_mutex_init(&watch->mutex, NULL);
    (void)pthread_cond_init(&watch->changed, NULL);
    if (pool_start_thread(watch_run, watch, &watch->thread))
        return watch;
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch);
    return NULL;
}

void watch_interrupt(struct watch *watch)
{
    (void)pthread_mutex_lock(&watch->mutex);
    watch->interrupted = true;
    struct watcher *taken = take(watch, 0, 0);
    (void)pthread_mutex_unlock(&watch->mutex);
    wake_all(taken);
}

void watch_close(struct watch *watch)
{
    if (watch == NULL)
        return;
    (void)pthread_mutex_lock(&watch->mutex);
    watch->closing = true;
    (void)pthread_cond_broadcast(&watch->changed);
    (void)pthread_mutex_unlock(&watch->mutex);
    (void)pthread_join(watch->thread, NULL);
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->mutex);
    free(watch);
}

uint64_t watch_seen(struct watch *watch)
{
    uint64_t seen = 0;
    /* When it fails everything looks new, and anyone who waits looks again. */
    (void)engine_watch(watch->engine, 0, 0, &seen, NULL);
    return seen;
}

void watch_park(struct watch *watch, struct watcher *watcher)
{
    (void)pthread_mutex_lock(&watch->mutex);
    bool idle = watch->first == NULL;
    if (idle && watch->seen < watcher->seen)
        watch->seen = watcher->seen;
    bool parked = !watch->interrupted && !watch->closing && watcher->seen >= watch->seen;
    if (parked) {
        watcher->previous = NULL;
        watcher->next = watch->first;
        if (watch->first != NULL)
            watch->first->previous = watcher;
        watch->first = watcher;
        (void)pthread_cond_signal(&watch->changed);
    }
    (void)pthread_mutex_unlock(&watch->mutex);
    if (!parked)
        watcher->wake(watcher);
}
