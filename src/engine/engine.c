/* The engine's door: opening, threads, the queue of calls, and who is told what. */
#include "engine/engine.h"

#include <assert.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "engine/engine_private.h"

void call_list_add(struct call_list *list, struct call *call)
{
    call->next = NULL;
    call->previous = list->last;
    if (list->last != NULL)
        list->last->next = call;
    else
        list->first = call;
    list->last = call;
    list->count++;
}

void call_list_remove(struct call_list *list, struct call *call)
{
    assert(list->count > 0);
    if (call->previous != NULL)
        call->previous->next = call->next;
    else
        list->first = call->next;
    if (call->next != NULL)
        call->next->previous = call->previous;
    else
        list->last = call->previous;
    call->next = call->previous = NULL;
    list->count--;
}

void call_done(struct call *call)
{
    call->done(call, call->arg);
}

bool call_is_wanted(const struct call *call)
{
    return call->wanted == NULL || call->wanted(call->wanted_arg);
}

void call_refuse(struct call *call, enum error_code code, const char *why)
{
    for (uint32_t i = 0; i < call->count; i++) {
        call->ops[i]->grant_count = 0;
        call->ops[i]->request.disposition = DISPOSITION_NEW;
        call->ops[i]->code = err_set(&call->ops[i]->err, code, "%s", why);
    }
}

struct call_kept *call_kept_new(struct engine *engine)
{
    struct call_kept *kept = calloc(1, sizeof *kept);
    if (kept != NULL) {
        arena_init_pooled(&kept->arena, engine->pool);
        arena_pool_hold(engine->pool);
    }
    return kept;
}

static void free_kept(struct call_kept *kept)
{
    while (kept != NULL) {
        struct call_kept *next = kept->next;
        arena_release(&kept->arena);
        arena_pool_drop(kept->arena.pool);
        free(kept);
        kept = next;
    }
}

void call_release(struct call *call)
{
    struct call_memory *memory = call->memory;
    call->memory = NULL;
    free_kept(call->kept);
    call->kept = NULL;
    if (memory == NULL || atomic_fetch_sub(&memory->users, 1) > 1)
        return;
    free_kept(memory->kept);
    arena_release(&memory->arena);
    arena_pool_drop(memory->arena.pool);
    free(memory);
}

static int64_t steady_ms(void *arg)
{
    (void)arg;
    return clock_monotonic_ms();
}

int64_t engine_steady(struct engine *engine)
{
    return engine->options.steady(engine->options.steady_arg);
}

struct str engine_backup_dir(const struct engine *engine)
{
    return str_is_set(engine->options.backup_dir) ? engine->options.backup_dir
                                                  : engine->store->home;
}

struct str engine_url(const struct engine *engine)
{
    return str_from(engine->url);
}

struct store *engine_store(struct engine *engine)
{
    return engine->store;
}

/* ---- threads ------------------------------------------------------------------------------ */

static bool has_work(const struct engine *engine)
{
    return engine->waiting.count > 0 || engine->changed || engine->nudged || engine->stop;
}

static void wait_for_work(struct engine *engine, int64_t wait_ms)
{
    struct timespec until = condition_deadline(wait_ms);
    bool late = false;
    pthread_mutex_lock(&engine->lock);
    engine->resting = true;
    while (engine->borrowed || !(late || has_work(engine))) {
        engine->awaited = engine->borrowed && (late || engine->stop);
        if (engine->awaited)
            pthread_cond_wait(&engine->work, &engine->lock);
        else
            late = pthread_cond_timedwait(&engine->work, &engine->lock, &until) != 0;
    }
    engine->resting = engine->awaited = false;
    pthread_mutex_unlock(&engine->lock);
}

/* Whether so much waits that a batch of its own is worth its price: what is done once for each.
 * Less had better share the next one. Under the lock. */
static bool is_much(const struct engine *engine)
{
    uint32_t pieces = 0;
    for (const struct call *call = engine->waiting.first; call != NULL && pieces < HELP_MIN;
         call = call->next) {
        const struct op *op = call->ops[0];
        pieces += call->count + (op->type == OP_CLAIM ? op->claim.max : 0);
    }
    return pieces >= HELP_MIN;
}

/* Calls wait, or something else does: wakes a thread that can see to it. Under the lock. */
static void wake_runner(struct engine *engine)
{
    if (engine->resting)
        pthread_cond_signal(&engine->work);
    else if (engine->runner_count > 1 && is_much(engine))
        pthread_cond_signal(&engine->help);
}

/* Whether what waits had better wait a little longer: beside a batch under way, for its end or for
 * more; and just after a batch, for those callers that will call again. Sets until when. Under the
 * lock. */
static bool wants_company(const struct engine *engine, int64_t now_us, int64_t *until_us)
{
    if (engine->stop || engine->waiting.count == 0)
        return false;
    if (engine->waiting.count < engine->returning && now_us < engine->returning_until) {
        *until_us = engine->returning_until;
        return true;
    }
    return engine->in_flight > 0 && !is_much(engine) && now_us < *until_us;
}

void engine_await_company(struct engine *engine)
{
    int64_t now_us = clock_monotonic_us();
    int64_t until_us = now_us + COMPANY_US;
    pthread_mutex_lock(&engine->lock);
    engine->resting = true;
    while (wants_company(engine, now_us, &until_us)) {
        struct timespec until = condition_deadline_us(until_us - now_us);
        (void)pthread_cond_timedwait(&engine->work, &engine->lock, &until);
        now_us = clock_monotonic_us();
    }
    engine->resting = false;
    pthread_mutex_unlock(&engine->lock);
}

static bool is_stopped(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool stop = engine->stop;
    pthread_mutex_unlock(&engine->lock);
    return stop;
}

static void *run_turns(void *arg)
{
    struct engine *engine = ((struct runner *)arg)->engine;
    while (!is_stopped(engine)) {
        int64_t wait_ms = 0;
        engine_turn(engine, &wait_ms);
        if (wait_ms > 0)
            wait_for_work(engine, wait_ms);
    }
    return NULL;
}

/* Serves callers while the first runner is busy. */
static void *run_beside(void *arg)
{
    struct runner *runner = arg;
    struct engine *engine = runner->engine;
    pthread_mutex_lock(&engine->lock);
    while (!engine->stop) {
        if (engine->resting || !is_much(engine)) {
            wake_runner(engine);
            pthread_cond_wait(&engine->help, &engine->lock);
            continue;
        }
        pthread_mutex_unlock(&engine->lock);
        (void)engine_run_calls(runner);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

/* Tells the runner when another server has changed something. */
static void *run_watch(void *arg)
{
    enum { WATCH_MS = 100 }; /* closing waits so long */
    struct engine *engine = arg;
    uint64_t seen = 0;
    while (!is_stopped(engine)) {
        uint64_t before = seen;
        enum error_code code = store_watch_others(engine->store, seen, WATCH_MS, &seen, NULL);
        pthread_mutex_lock(&engine->lock);
        engine->changed = engine->changed || (code == ERR_OK && seen != before);
        if (engine->changed)
            pthread_cond_signal(&engine->work);
        pthread_mutex_unlock(&engine->lock);
        if (code != ERR_OK || seen != before)
            clock_pause(code == ERR_OK ? CHANGE_MS : WATCH_MS);
    }
    return NULL;
}

static void stop_threads(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->stop = engine->stop || engine->runners[0].started;
    pthread_cond_broadcast(&engine->work);
    pthread_cond_broadcast(&engine->help);
    pthread_mutex_unlock(&engine->lock);
    for (uint32_t i = 0; i < engine->runner_count; i++)
        if (engine->runners[i].started)
            (void)pthread_join(engine->runners[i].thread, NULL);
    if (engine->watches)
        (void)pthread_join(engine->watcher, NULL);
}

/* Signals are the program's: its own threads shall have them. */
static enum error_code start_threads(struct engine *engine, struct err *err)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return err_set(err, ERR_UNAVAILABLE, "cannot block signals in the engine's threads");
    bool started = true;
    for (uint32_t i = 0; i < engine->runner_count && started; i++) {
        struct runner *runner = &engine->runners[i];
        runner->started =
            pthread_create(&runner->thread, NULL, i == 0 ? run_turns : run_beside, runner) == 0;
        started = runner->started;
    }
    if (started && engine->store->shared) {
        engine->watches = pthread_create(&engine->watcher, NULL, run_watch, engine) == 0;
        started = engine->watches;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return ERR_OK;
    stop_threads(engine);
    return err_set(err, ERR_UNAVAILABLE, "cannot start the engine's threads");
}

/* ---- opening and closing ------------------------------------------------------------------ */

static enum error_code init_lock(struct engine *engine, struct err *err)
{
    bool lock = pthread_mutex_init(&engine->lock, NULL) == 0;
    bool observing = pthread_mutex_init(&engine->observing, NULL) == 0;
    bool work = condition_init(&engine->work);
    bool help = condition_init(&engine->help);
    if (lock && observing && work && help)
        return ERR_OK;
    if (lock)
        (void)pthread_mutex_destroy(&engine->lock);
    if (observing)
        (void)pthread_mutex_destroy(&engine->observing);
    if (work)
        (void)pthread_cond_destroy(&engine->work);
    if (help)
        (void)pthread_cond_destroy(&engine->help);
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

static void release_lock(struct engine *engine)
{
    (void)pthread_cond_destroy(&engine->help);
    (void)pthread_cond_destroy(&engine->work);
    (void)pthread_mutex_destroy(&engine->observing);
    (void)pthread_mutex_destroy(&engine->lock);
}

static void tell_committed(void *arg, const struct batch_report *report)
{
    struct engine *engine = arg;
    const struct observer *observer = &engine->options.observer;
    pthread_mutex_lock(&engine->observing);
    observer->committed(observer->arg, report);
    pthread_mutex_unlock(&engine->observing);
}

static void tell_maintained(void *arg, const struct maintenance_report *report)
{
    struct engine *engine = arg;
    const struct observer *observer = &engine->options.observer;
    if (observer->maintained == NULL)
        return;
    pthread_mutex_lock(&engine->observing);
    observer->maintained(observer->arg, report);
    pthread_mutex_unlock(&engine->observing);
}

static void tell_failed(void *arg, enum error_code code)
{
    struct engine *engine = arg;
    const struct observer *observer = &engine->options.observer;
    pthread_mutex_lock(&engine->observing);
    observer->failed(observer->arg, code);
    pthread_mutex_unlock(&engine->observing);
}

int64_t engine_written_at(struct engine *engine)
{
    return atomic_load(&engine->written_at);
}

static void init_runners(struct engine *engine)
{
    struct store_liveness seen = {0};
    engine->observer = (struct observer){.committed = tell_committed,
                                         .failed = tell_failed,
                                         .maintained = tell_maintained,
                                         .arg = engine};
    /* What was not looked after since gets its grace; that nobody knows when it was, is no error.
     */
    if (store_record_liveness(engine->store, &seen, NULL) == ERR_OK) {
        engine_begin_trusting(engine, &seen);
        (void)engine_record_liveness(engine, NULL);
    }
    bool two = engine->store->shared || store_overlaps(engine->store);
    engine->runner_count = two && !engine->options.by_hand ? RUNNERS_MAX : 1;
    for (uint32_t i = 0; i < engine->runner_count; i++) {
        struct runner *runner = &engine->runners[i];
        runner->engine = engine;
        batcher_init(&runner->batcher, engine->store, NULL, NULL);
        /* A manual clock stops at all that is due: a long way is not a break. */
        runner->batcher.break_ms = engine->options.manual_clock ? 0 : BREAK_MS;
        runner->batcher.lease_ttl_ms = engine->options.lease_ttl_ms;
        runner->batcher.seen_at = seen.before;
        runner->batcher.cancel_grace_ms = engine->options.cancel_grace_ms;
        if (engine->options.observer.committed != NULL)
            runner->batcher.observer = &engine->observer;
    }
}

static void engine_free(struct engine *engine)
{
    if (!engine->store->shared)
        (void)engine_record_liveness(engine, NULL);
    for (uint32_t i = 0; i < engine->runner_count; i++)
        batcher_release(&engine->runners[i].batcher);
    if (engine->options.lent == NULL)
        store_close(engine->store);
    release_lock(engine);
    arena_pool_drop(engine->pool);
    free(engine->url);
    free(engine);
}

enum error_code engine_open(struct str url, const struct engine_options *options,
                            struct engine **ret, struct err *err)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    engine->options = *options;
    if (engine->options.steady == NULL)
        engine->options.steady = steady_ms;
    if (engine->options.queue_bytes_max == 0)
        engine->options.queue_bytes_max = QUEUE_BYTES_MAX;
    engine->park_next = INT64_MAX;
    engine->url = strndup(url.at, url.len);
    engine->pool = arena_pool_new();

    enum error_code code = engine->url != NULL && engine->pool != NULL
                               ? init_lock(engine, err)
                               : err_set(err, ERR_NO_MEMORY, "out of memory");
    if (code != ERR_OK) {
        arena_pool_drop(engine->pool);
        free(engine->url);
        free(engine);
        return code;
    }
    if (engine->options.manual_clock)
        code = engine_clock_init(engine, url, err);
    engine->store = engine->options.lent;
    if (code == ERR_OK && engine->store == NULL)
        code = store_open(url, &engine->options.store, &engine->store, err);
    if (code != ERR_OK) {
        release_lock(engine);
        arena_pool_drop(engine->pool);
        free(engine->url);
        free(engine);
        return code;
    }
    init_runners(engine);
    if (!options->by_hand)
        code = start_threads(engine, err);
    if (code != ERR_OK) {
        engine_free(engine);
        return code;
    }
    *ret = engine;
    return ERR_OK;
}

void engine_close(struct engine *engine)
{
    struct call_list over = {0};
    stop_threads(engine);
    pthread_mutex_lock(&engine->lock);
    engine->stop = true;
    engine_end_waits(engine, true, &over);
    while (engine->waiting.first != NULL) {
        struct call *call = engine->waiting.first;
        call_list_remove(&engine->waiting, call);
        call_refuse(call, ERR_UNAVAILABLE, "the engine is closing");
        call_list_add(&over, call);
    }
    pthread_mutex_unlock(&engine->lock);
    while (over.first != NULL) {
        struct call *call = over.first;
        call_list_remove(&over, call);
        call_done(call);
    }
    engine_free(engine);
}

void engine_interrupt(struct engine *engine)
{
    atomic_store(&engine->interrupted, true);
    pthread_mutex_lock(&engine->lock);
    engine->park_next = INT64_MIN;
    engine->changed = true; /* so that the runner looks */
    pthread_cond_signal(&engine->work);
    pthread_mutex_unlock(&engine->lock);
}

bool engine_interrupted(struct engine *engine)
{
    return atomic_load(&engine->interrupted);
}

enum error_code engine_watch(struct engine *engine, uint64_t seen, int64_t wait_ms,
                             uint64_t *ret_seen, struct err *err)
{
    enum { SLICE_MS = 200 };
    uint64_t now_seen = seen;
    enum error_code code = ERR_OK;
    while (code == ERR_OK && !engine_interrupted(engine)) {
        int64_t slice = wait_ms < SLICE_MS ? wait_ms : SLICE_MS;
        code = store_watch(engine->store, seen, slice, &now_seen, err);
        wait_ms -= slice;
        if (now_seen != seen || wait_ms <= 0)
            break;
    }
    if (code == ERR_OK)
        *ret_seen = now_seen;
    return code;
}

/* ---- the queue ---------------------------------------------------------------------------- */

static size_t room_for(const struct engine *engine, enum call_class class)
{
    size_t max = engine->options.queue_bytes_max;
    switch (class) {
    case CALL_SUBMIT:
        return max / 2;
    case CALL_CLAIM:
        return max / 4 * 3;
    case CALL_RESULT:
        return max;
    case CALL_OWN:
        break;
    }
    return SIZE_MAX;
}

/* Puts a call into the queue, if there is room for it. Under the lock. */
static enum error_code enqueue(struct engine *engine, struct call *call, bool *ret_shed,
                               struct err *err)
{
    assert(call->count > 0 && call->count <= BATCH_OPS_MAX && call->done != NULL);
    assert(call->wait_ms == 0 || (call->count == 1 && call->ops[0]->type == OP_CLAIM));
    call->memory = NULL;
    call->waiter = WAITER_NEW;
    call->bytes += CALL_WEIGHT * (size_t)call->count;
    if (engine->stop)
        return err_set(err, ERR_UNAVAILABLE, "the engine is closing");
    if (engine->bytes + call->bytes > room_for(engine, call->class)) {
        *ret_shed = true;
        return err_set(err, ERR_UNAVAILABLE,
                       "overloaded (%zu KiB of requests waiting): retry later",
                       engine->bytes / 1024);
    }
    engine->bytes += call->bytes;
    call_list_add(&engine->waiting, call);
    return ERR_OK;
}

static void tell_shed(const struct engine *engine)
{
    const struct observer *observer = &engine->options.observer;
    if (observer->shed != NULL)
        observer->shed(observer->arg);
}

enum error_code engine_submit(struct engine *engine, struct call *call, struct err *err)
{
    bool shed = false;
    call->park_until = engine_steady(engine) + call->wait_ms;
    pthread_mutex_lock(&engine->lock);
    enum error_code code = enqueue(engine, call, &shed, err);
    if (code == ERR_OK)
        wake_runner(engine);
    pthread_mutex_unlock(&engine->lock);
    if (shed)
        tell_shed(engine);
    return code;
}

/* Whether the caller's thread may be the first runner, for what waits now. A runner that has waited
 * for the end of such a batch goes first. Under the lock. */
static bool may_borrow(const struct engine *engine, int64_t now)
{
    return engine->resting && !engine->borrowed && !engine->awaited && !engine->stop &&
           !engine->store->shared && engine->in_flight == 0 && engine->waiting.count <= HERE_MAX &&
           now >= engine->slow_until;
}

/* Runs what waits, on the caller's thread. The runner whose part that is sleeps meanwhile, and is
 * woken only if it has something to do afterwards. */
static void run_here(struct engine *engine)
{
    (void)engine_run_calls(&engine->runners[0]);
    pthread_mutex_lock(&engine->lock);
    engine->borrowed = false;
    engine->resting = true;
    if (has_work(engine) || engine->awaited)
        pthread_cond_signal(&engine->work);
    pthread_mutex_unlock(&engine->lock);
}

void engine_submit_all(struct engine *engine, struct call *first, bool may_wait)
{
    int64_t now = engine_steady(engine);
    struct call_list refused = {0};
    struct call *next;
    struct err err = {0};
    enum error_code code = ERR_OK;
    bool shed = false;
    pthread_mutex_lock(&engine->lock);
    for (struct call *call = first; call != NULL; call = next) {
        next = call->next;
        call->park_until = now + call->wait_ms;
        enum error_code one = enqueue(engine, call, &shed, &err);
        if (one != ERR_OK) {
            code = one;
            call_list_add(&refused, call);
        }
    }
    bool here = may_wait && engine->waiting.count > 0 && may_borrow(engine, now);
    if (here) {
        engine->borrowed = true;
        engine->resting = false;
    } else if (engine->waiting.count > 0) {
        wake_runner(engine);
    }
    pthread_mutex_unlock(&engine->lock);
    while (refused.first != NULL) {
        struct call *call = refused.first;
        call_list_remove(&refused, call);
        call->refused(call, code, &err);
    }
    if (shed)
        tell_shed(engine);
    if (here)
        run_here(engine);
}

static void post(struct call *call, void *arg)
{
    (void)call;
    (void)sem_post(arg);
}

enum error_code engine_run(struct engine *engine, struct call *call, struct err *err)
{
    sem_t done;
    if (sem_init(&done, 0, 0) != 0)
        return err_set(err, ERR_UNAVAILABLE, "no semaphore available");
    call->done = post;
    call->arg = &done;
    enum error_code code = engine_submit(engine, call, err);
    if (code == ERR_OK && engine->options.by_hand) {
        while (sem_trywait(&done) != 0) {
            int64_t wait_ms;
            engine_turn(engine, &wait_ms);
        }
    } else if (code == ERR_OK) {
        while (sem_wait(&done) != 0) {
            /* interrupted by a signal */
        }
    }
    call->arg = NULL;
    (void)sem_destroy(&done);
    return code;
}
