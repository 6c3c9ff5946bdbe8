#include "server/metrics_store.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "core/machine.h"
#include "server/metrics_names.h"
#include "server/metrics_text.h"
#include "server/pool.h"
#include "store/store.h"

enum {
    WAIT_MS = 2000,
    QUICK_MS = 250, /* what takes less is counted anew every time; */
    REST = 20,      /* all else is used for so many times as long as it took */
};

struct store_figures {
    struct engine *engine;
    unsigned long thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool wanted;
    bool closing;
    uint64_t begun; /* counts that were begun, */
    uint64_t ended; /* and those that came to an end */
    bool up;        /* the last one went well: */
    struct arena arena;
    struct str text; /* in `arena` */
    int64_t at;      /* when, on the engine's steady clock */
    int64_t took_ms;
};

/* ---- counting ---- */

/* Everything that is counted, as of one moment. */
struct census {
    struct store_load load; /* now, and which queues are paused */
    struct store_queue_count *counts;
    uint32_t count;
    struct store_worker *workers;
    uint32_t worker_count;
    struct resource *resources;
    uint32_t resource_count;
    int64_t steps[STEP_STATE_COUNT];
};

static enum error_code take_census(struct store *store, struct arena *arena, struct census *ret)
{
    struct store_txn *txn;
    enum error_code code = store_begin(store, STORE_READ, &txn, NULL);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &ret->load, arena, NULL);
    if (code == ERR_OK)
        code = store_queues(txn, arena, &ret->counts, &ret->count, NULL);
    if (code == ERR_OK)
        code = store_workers(txn, NULL, arena, &ret->workers, &ret->worker_count, NULL);
    if (code == ERR_OK)
        code = store_resources(txn, arena, &ret->resources, &ret->resource_count, NULL);
    if (code == ERR_OK)
        code = store_step_counts(txn, ret->steps, NULL);
    store_rollback(txn);
    return code;
}

/* A queue, or all that came after the first NAMES_MAX. */
struct queue_figures {
    struct str queue;
    int64_t count[JOB_STATUS_COUNT];
    int64_t oldest_at[JOB_STATUS_COUNT];
    bool paused;
};

struct queue_list {
    struct queue_figures *at;
    uint32_t count;
};

static struct queue_figures *queue_at(struct queue_list *list, struct str queue)
{
    if (str_eq(queue, STR("other")))
        return &list->at[0];
    for (uint32_t i = list->count; i-- > 1;)
        if (str_eq(list->at[i].queue, queue))
            return &list->at[i];
    if (list->count > NAMES_MAX)
        return &list->at[0];
    list->at[list->count].queue = queue;
    return &list->at[list->count++];
}

static bool list_queues(const struct census *census, struct arena *arena, struct queue_list *ret)
{
    const struct names *paused = &census->load.paused;
    ret->at = arena_zalloc(arena, NAMES_MAX + 1, sizeof *ret->at);
    if (ret->at == NULL)
        return false;
    ret->at[0].queue = STR("other");
    ret->count = 1;
    for (uint32_t i = 0; i < census->count; i++) {
        const struct store_queue_count *count = &census->counts[i];
        struct queue_figures *queue = queue_at(ret, count->queue);
        int64_t *oldest_at = &queue->oldest_at[count->status];
        queue->count[count->status] += count->count;
        if (*oldest_at == 0 || count->oldest_at < *oldest_at)
            *oldest_at = count->oldest_at;
    }
    for (uint32_t i = 0; i < paused->count; i++)
        queue_at(ret, paused->at[i])->paused = true;
    return true;
}

static void write_queues(const struct queue_list *queues, struct buf *text)
{
    text_family(text, METRIC_QUEUE_JOBS);
    for (uint32_t i = 0; i < queues->count; i++)
        for (int status = 0; status < JOB_STATUS_COUNT; status++) {
            const struct queue_figures *queue = &queues->at[i];
            if (i == 0 && queue->count[status] == 0)
                continue;
            struct str labels[] = {queue->queue, job_status_name((enum job_status)status)};
            text_sample(text, METRIC_QUEUE_JOBS, labels, (uint64_t)queue->count[status]);
        }
    text_family(text, METRIC_QUEUE_PAUSED);
    for (uint32_t i = 0; i < queues->count; i++)
        if (queues->at[i].paused)
            text_sample(text, METRIC_QUEUE_PAUSED, &queues->at[i].queue, 1);
}

static void write_ages(const struct queue_list *queues, int64_t now, struct buf *text)
{
    text_family(text, METRIC_QUEUE_OLDEST);
    for (uint32_t i = 0; i < queues->count; i++)
        for (int status = 0; status < JOB_STATUS_COUNT; status++) {
            const struct queue_figures *queue = &queues->at[i];
            if (queue->count[status] == 0 || job_status_terminal((enum job_status)status))
                continue;
            struct str labels[] = {queue->queue, job_status_name((enum job_status)status)};
            text_sample_us(text, METRIC_QUEUE_OLDEST, labels,
                           (now - queue->oldest_at[status]) * 1000);
        }
}

static void write_gauge(struct buf *text, enum metric metric, int64_t value)
{
    text_family(text, metric);
    text_sample(text, metric, NULL, (uint64_t)value);
}

static void write_census(const struct census *census, const struct queue_list *queues,
                         struct buf *text)
{
    int64_t workers = 0;
    int64_t leases = 0;
    int64_t slots = 0;
    int64_t used = 0;
    int64_t resting = 0;
    for (uint32_t i = 0; i < census->worker_count; i++) {
        const struct store_worker *worker = &census->workers[i];
        workers += i == 0 || !str_eq(worker->worker_id, worker[-1].worker_id);
        leases += worker->leases;
    }
    for (uint32_t i = 0; i < census->resource_count; i++) {
        slots += census->resources[i].slots;
        used += census->resources[i].used;
        resting += resource_in_cooldown(&census->resources[i], census->load.now);
    }
    write_gauge(text, METRIC_STORE_UP, 1);
    write_queues(queues, text);
    write_ages(queues, census->load.now, text);
    write_gauge(text, METRIC_WORKERS, workers);
    write_gauge(text, METRIC_LEASES, leases);
    write_gauge(text, METRIC_RESOURCES, census->resource_count);
    write_gauge(text, METRIC_RESOURCES_RESTING, resting);
    write_gauge(text, METRIC_RESOURCE_SLOTS, slots);
    write_gauge(text, METRIC_RESOURCE_SLOTS_USED, used);
    text_family(text, METRIC_STEPS_BY_STATE);
    for (int i = 0; i < STEP_STATE_COUNT; i++) {
        struct str state = step_state_name((enum step_state)i);
        text_sample(text, METRIC_STEPS_BY_STATE, &state, (uint64_t)census->steps[i]);
    }
}

/* False: the store has not answered, or there is no memory. */
static bool count_all(struct store_figures *figures, struct arena *arena, struct str *ret)
{
    struct census census = {0};
    struct queue_list queues;
    struct buf text;
    if (take_census(engine_store(figures->engine), arena, &census) != ERR_OK ||
        !list_queues(&census, arena, &queues))
        return false;
    buf_init(&text, arena, 16 * 1024);
    write_census(&census, &queues, &text);
    *ret = buf_str(&text);
    return !text.failed;
}

static void *run(void *arg)
{
    struct store_figures *figures = arg;
    (void)pthread_mutex_lock(&figures->mutex);
    for (;;) {
        while (!figures->wanted && !figures->closing)
            (void)pthread_cond_wait(&figures->changed, &figures->mutex);
        if (figures->closing)
            break;
        figures->wanted = false;
        figures->begun++;
        (void)pthread_mutex_unlock(&figures->mutex);

        struct arena arena;
        struct str text = {NULL, 0};
        arena_init(&arena);
        int64_t began = engine_steady(figures->engine);
        bool up = count_all(figures, &arena, &text);

        (void)pthread_mutex_lock(&figures->mutex);
        arena_release(&figures->arena);
        figures->arena = arena;
        figures->text = text;
        figures->up = up;
        figures->at = engine_steady(figures->engine);
        figures->took_ms = figures->at - began;
        figures->ended = figures->begun;
        (void)pthread_cond_broadcast(&figures->changed);
    }
    (void)pthread_mutex_unlock(&figures->mutex);
    return NULL;
}

/* ---- asking ---- */

struct store_figures *store_figures_open(struct engine *engine)
{
    struct store_figures *figures = calloc(1, sizeof *figures);
    if (figures == NULL)
        return NULL;
    figures->engine = engine;
    arena_init(&figures->arena);
    (void)pthread_mutex_init(&figures->mutex, NULL);
    (void)condition_init(&figures->changed);
    if (pool_start_thread(run, figures, &figures->thread))
        return figures;
    (void)pthread_cond_destroy(&figures->changed);
    (void)pthread_mutex_destroy(&figures->mutex);
    free(figures);
    return NULL;
}

void store_figures_close(struct store_figures *figures)
{
    if (figures == NULL)
        return;
    (void)pthread_mutex_lock(&figures->mutex);
    figures->closing = true;
    (void)pthread_cond_broadcast(&figures->changed);
    (void)pthread_mutex_unlock(&figures->mutex);
    (void)pthread_join(figures->thread, NULL);
    (void)pthread_cond_destroy(&figures->changed);
    (void)pthread_mutex_destroy(&figures->mutex);
    arena_release(&figures->arena);
    free(figures);
}

static bool is_fresh(const struct store_figures *figures)
{
    int64_t age = engine_steady(figures->engine) - figures->at;
    return figures->up && figures->took_ms >= QUICK_MS && age < REST * figures->took_ms;
}

/* Waits until a count that was begun from now on has ended; false: it takes too long. */
static bool await_count(struct store_figures *figures)
{
    struct timespec until = condition_deadline(WAIT_MS);
    uint64_t next = figures->begun + 1;
    int result = 0;
    figures->wanted = true;
    (void)pthread_cond_broadcast(&figures->changed);
    while (figures->ended < next && result == 0)
        result = pthread_cond_timedwait(&figures->changed, &figures->mutex, &until);
    return figures->ended >= next;
}

void store_figures_write(struct store_figures *figures, bool seen, struct buf *text)
{
    (void)pthread_mutex_lock(&figures->mutex);
    bool current = is_fresh(figures) || await_count(figures);
    if ((current || seen) && figures->up) {
        buf_add(text, figures->text);
        text_family(text, METRIC_STORE_FIGURES_AGE);
        text_sample_us(text, METRIC_STORE_FIGURES_AGE, NULL,
                       (engine_steady(figures->engine) - figures->at) * 1000);
    } else {
        write_gauge(text, METRIC_STORE_UP, 0);
    }
    (void)pthread_mutex_unlock(&figures->mutex);
}
