/* The worker of pawl.h: its threads, from start to join. */
#include "base/clock.h"
#include "pawl.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/random.h"
#include "base/utf8.h"
#include "engine/worker_private.h"

enum {
    CONCURRENCY_MAX = 1000,
    CLAIM_WAIT_MS = 1000, /* how long a claim waits: a stop is seen after this at the latest */
    DRAIN_WAIT_MS = 200,
    RELEASED_REST_MS = 500, /* before a slot takes work again that it has just given back */
    HEARTBEAT_MS_DEFAULT = 15000,
};

/* ---- slots -------------------------------------------------------------------------------- */

static void slot_clear(struct slot *slot)
{
    pawl_free(slot->job_id);
    pawl_free(slot->step);
    pawl_free(slot->kind);
    pawl_free(slot->payload);
    pawl_free(slot->token);
    pawl_free(slot->traceparent);
    pawl_free(slot->claim);
    slot->job_id = slot->kind = slot->payload = slot->token = slot->claim = NULL;
    slot->traceparent = slot->step = NULL;
}

/* Releases a claim that no slot can run; without the lock. If that fails its lease expires. */
static void return_claim(struct pawl_worker *worker, struct pawl_json claim)
{
    char *token = pawl_json_text(pawl_json_get(claim, "lease.token"));
    if (token != NULL && *token != '\0') {
        struct worker_ops ops;
        char *answer = NULL;
        worker_ops_init(&ops);
        worker_op_lease(&ops, STR("release"), token);
        json_end_object(&ops.writer);
        if (worker_ops_send(worker, &ops, &answer, NULL) == PAWL_OK)
            pawl_free(answer);
        worker_ops_release(&ops);
    }
    pawl_free(token);
}

/* Makes the claim, whose text becomes the slot's, into the task of a slot that has none. Without
 * the lock: nobody else looks at the texts of a slot whose lease is not kept. */
static bool slot_fill(struct slot *slot, char *claim)
{
    struct pawl_json whole = pawl_json_read(claim);
    bool steps = slot->worker->steps;
    struct pawl_json payload = pawl_json_get(whole, steps ? "step.payload" : "job.payload");
    struct pawl_json trace = pawl_json_get(whole, "traceparent");
    slot->claim = claim;
    slot->job_id = pawl_json_text(pawl_json_get(whole, steps ? "job_id" : "job.id"));
    slot->step = steps ? pawl_json_text(pawl_json_get(whole, "step.id")) : NULL;
    slot->kind = pawl_json_text(pawl_json_get(whole, steps ? "step.kind" : "job.kind"));
    slot->token = pawl_json_text(pawl_json_get(whole, "lease.token"));
    slot->traceparent = trace.at != NULL ? pawl_json_text(trace) : NULL;
    slot->payload = pawl_copy("null");
    if (payload.at != NULL) {
        pawl_free(slot->payload);
        slot->payload = malloc(payload.len + 1);
        if (slot->payload != NULL) {
            memcpy(slot->payload, payload.at, payload.len);
            slot->payload[payload.len] = '\0';
        }
    }
    slot->heartbeat_ms =
        pawl_json_int(pawl_json_get(whole, "lease.heartbeat_ms"), HEARTBEAT_MS_DEFAULT);
    int64_t timeout_ms = pawl_json_int(pawl_json_get(whole, "lease.timeout_ms"), 0);
    slot->over_at = timeout_ms > 0 ? clock_monotonic_ms() + timeout_ms : INT64_MAX;
    if (slot->job_id == NULL || slot->kind == NULL || slot->token == NULL ||
        slot->payload == NULL || *slot->token == '\0' || (steps && slot->step == NULL)) {
        return_claim(slot->worker, whole);
        slot_clear(slot);
        return false;
    }

    slot->task = (struct pawl_task){
        .pawl = slot->worker->pawl,
        .job_id = slot->job_id,
        .kind = slot->kind,
        .payload = slot->payload,
        .token = slot->token,
        .attempt = pawl_json_int(pawl_json_get(whole, "lease.attempt"), 0),
        .claim = slot->claim,
        .traceparent = slot->traceparent,
        .step = slot->step,
    };
    atomic_store(&slot->end, PAWL_GO_ON);
    return true;
}

static void slot_begin(struct slot *slot)
{
    struct pawl_worker *worker = slot->worker;
    pthread_mutex_lock(&worker->lock);
    slot->busy = true;
    slot->generation++;
    worker_heart_begin(slot);
    pthread_cond_signal(&slot->given);
    pthread_mutex_unlock(&worker->lock);
}

static void wake_claimer(struct pawl_worker *worker)
{
    uint64_t one = 1;
    /* It can only fail when it is awake anyway. */
    ssize_t written = write(worker->wake, &one, sizeof one);
    (void)written;
}

static void slot_end(struct slot *slot)
{
    struct pawl_worker *worker = slot->worker;
    pthread_mutex_lock(&worker->lock);
    slot->busy = false;
    slot->beating = false;
    pthread_mutex_unlock(&worker->lock);
    wake_claimer(worker);
}

/* ---- handlers ----------------------------------------------------------------------------- */

/* Runs the handler and reports. True when the slot has its next task already. */
static bool slot_run(struct slot *slot)
{
    struct pawl_worker *worker = slot->worker;
    struct pawl_outcome outcome = {.how = PAWL_COMPLETE};
    struct pawl_error error = {0};
    char *next = NULL;

    worker->handler(worker->arg, &slot->task, &outcome);

    bool more = !worker->once && !atomic_load(&worker->stopped) && outcome.how != PAWL_RELEASE;
    enum pawl_code code = worker_report(slot, &outcome, more, &next, &error);
    if (worker->reported != NULL)
        worker->reported(worker->arg, &slot->task, &outcome, code == PAWL_OK ? NULL : &error);

    pthread_mutex_lock(&worker->lock);
    slot->beating = false;
    worker_heart_forget(slot);
    if (code == PAWL_OK && outcome.how != PAWL_RELEASE)
        worker->done++;
    bool ending = worker->ending;
    if (outcome.how == PAWL_RELEASE && !ending)
        worker_cond_until(&slot->given, &worker->lock, clock_monotonic_ms() + RELEASED_REST_MS);
    pthread_mutex_unlock(&worker->lock);

    pawl_free(outcome.result);
    pawl_free(outcome.details);
    pawl_free(outcome.stack);
    slot_clear(slot);
    if (next == NULL)
        return false;
    if (ending || atomic_load(&worker->stopped)) {
        return_claim(worker, pawl_json_read(next));
        pawl_free(next);
        return false;
    }
    if (!slot_fill(slot, next))
        return false;
    slot_begin(slot);
    return true;
}

static void thread_ended(struct pawl_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->alive--;
    if (worker->alive == 0)
        pthread_cond_broadcast(&worker->ended);
    pthread_mutex_unlock(&worker->lock);
}

static void *handler_main(void *arg)
{
    struct slot *slot = arg;
    struct pawl_worker *worker = slot->worker;
    for (;;) {
        pthread_mutex_lock(&worker->lock);
        while (!slot->busy && !worker->ending)
            pthread_cond_wait(&slot->given, &worker->lock);
        bool busy = slot->busy;
        pthread_mutex_unlock(&worker->lock);
        if (!busy)
            break;
        bool more = true;
        while (more)
            more = slot_run(slot);
        slot_end(slot);
    }
    thread_ended(worker);
    return NULL;
}

/* ---- the claimer -------------------------------------------------------------------------- */

/* Waits until a slot has become free or the worker is stopped; -1: for ever. */
static void wait_for_wake(struct pawl_worker *worker, int64_t wait_ms)
{
    struct pollfd poll_fd = {.fd = worker->wake, .events = POLLIN};
    if (poll(&poll_fd, 1, (int)wait_ms) > 0) {
        uint64_t count;
        ssize_t got = read(worker->wake, &count, sizeof count);
        (void)got;
    }
}

static void count_slots(struct pawl_worker *worker, uint32_t *ret_free, uint32_t *ret_busy)
{
    uint32_t busy = 0;
    pthread_mutex_lock(&worker->lock);
    for (uint32_t i = 0; i < worker->slot_count; i++)
        busy += worker->slots[i].busy;
    pthread_mutex_unlock(&worker->lock);
    *ret_busy = busy;
    *ret_free = worker->slot_count - busy;
}

/* Only the claimer makes slots busy that are free, so what it finds stays free. */
static struct slot *free_slot(struct pawl_worker *worker)
{
    struct slot *found = NULL;
    pthread_mutex_lock(&worker->lock);
    for (uint32_t i = 0; i < worker->slot_count && found == NULL; i++)
        found = worker->slots[i].busy ? NULL : &worker->slots[i];
    pthread_mutex_unlock(&worker->lock);
    return found;
}

/* Hands out what a claim was given. */
static uint32_t hand_out(struct pawl_worker *worker, const char *answer)
{
    struct pawl_json claims = pawl_json_get(pawl_json_read(answer), "claims");
    struct pawl_json claim = {0};
    uint32_t count = 0;
    while (pawl_json_next(claims, &claim, NULL)) {
        struct slot *slot = free_slot(worker);
        char *text = NULL;
        if (slot != NULL && !atomic_load(&worker->stopped))
            text = pawl_json_text(claim);
        if (text == NULL) {
            return_claim(worker, claim);
            continue;
        }
        if (slot_fill(slot, text)) {
            slot_begin(slot);
            count++;
        }
    }
    return count;
}

/* Whether the resource is registered; only the claimer and the heart change that. */
static bool is_registered(struct pawl_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    bool registered = worker->resource == NULL || worker->registered;
    pthread_mutex_unlock(&worker->lock);
    return registered;
}

static enum pawl_code claim_once(struct pawl_worker *worker, uint32_t max, int64_t wait_ms,
                                 uint32_t *ret_count, struct pawl_error *error)
{
    enum pawl_code code = PAWL_OK;
    if (!is_registered(worker))
        code = worker_resource_put(worker, error);
    if (code != PAWL_OK)
        return code;
    struct arena arena;
    struct buf request;
    char *answer = NULL;
    arena_init(&arena);
    buf_init(&request, &arena, worker->terms.len + 64);
    buf_add_char(&request, '{');
    buf_add(&request, worker->terms);
    buf_addf(&request, ",\"max\":%u,\"wait_ms\":%lld}", max, (long long)wait_ms);
    buf_add_char(&request, '\0');
    if (request.failed)
        code = worker_error(error, PAWL_NO_MEMORY, "out of memory");
    else
        code = worker->steps ? pawl_claim_steps(worker->pawl, request.at, &answer, error)
                             : pawl_claim(worker->pawl, request.at, &answer, error);
    arena_release(&arena);
    if (code == PAWL_OK) {
        *ret_count = hand_out(worker, answer);
        pawl_free(answer);
    }
    return code;
}

/* A resource that was not renewed in time, since this machine slept, is to be registered anew. */
static bool resource_was_lost(struct pawl_worker *worker, enum pawl_code code)
{
    pthread_mutex_lock(&worker->lock);
    bool lost = code == PAWL_NOT_FOUND && worker->registered;
    if (lost)
        worker->registered = false;
    pthread_mutex_unlock(&worker->lock);
    return lost;
}

/* One turn of the claimer. False when the worker is to end. */
static bool claim_turn(struct pawl_worker *worker, int64_t *pause_ms)
{
    uint32_t free_count;
    uint32_t busy;
    struct pawl_error error = {0};
    count_slots(worker, &free_count, &busy);
    if (free_count == 0) {
        wait_for_wake(worker, -1);
        return true;
    }

    int64_t wait_ms = worker->drain ? 0 : CLAIM_WAIT_MS;
    int64_t asked_at = clock_monotonic_ms();
    uint32_t count = 0;
    enum pawl_code code = claim_once(worker, free_count, wait_ms, &count, &error);
    if (worker_may_retry(worker, code, &error) || resource_was_lost(worker, code)) {
        *pause_ms = worker_pause(*pause_ms);
        wait_for_wake(worker, *pause_ms);
        return true;
    }
    if (code != PAWL_OK) {
        pthread_mutex_lock(&worker->lock);
        worker->error = error;
        worker->error.code = code;
        pthread_mutex_unlock(&worker->lock);
        return false;
    }
    if (count > 0) {
        *pause_ms = 0;
        return !worker->once;
    }
    if (worker->drain) {
        if (busy > 0)
            wait_for_wake(worker, DRAIN_WAIT_MS);
        return busy > 0;
    }
    /* Waits on the handle were interrupted: now we must keep the time ourselves. */
    if (clock_monotonic_ms() - asked_at < wait_ms / 2) {
        *pause_ms = *pause_ms < CLAIM_WAIT_MS ? worker_pause(*pause_ms) : CLAIM_WAIT_MS;
        wait_for_wake(worker, *pause_ms);
    } else {
        *pause_ms = 0;
    }
    return true;
}

static void *claimer_main(void *arg)
{
    struct pawl_worker *worker = arg;
    int64_t pause_ms = 0;
    bool more = true;
    while (more && !atomic_load(&worker->stopped))
        more = claim_turn(worker, &pause_ms);

    pthread_mutex_lock(&worker->lock);
    worker->ending = true;
    for (uint32_t i = 0; i < worker->slot_count; i++)
        pthread_cond_signal(&worker->slots[i].given);
    pthread_mutex_unlock(&worker->lock);
    worker_registration_end(worker);
    thread_ended(worker);
    return NULL;
}

/* ---- start, stop, join -------------------------------------------------------------------- */

enum pawl_code worker_put_names(struct json_writer *writer, struct str key,
                                const char *const *names, size_t count, struct pawl_error *error)
{
    if (count == 0)
        return PAWL_OK;
    json_key(writer, key);
    json_begin_array(writer);
    for (size_t i = 0; i < count; i++) {
        struct str name = str_from(names[i]);
        if (!str_is_set(name) || !utf8_valid(name))
            return worker_error(error, PAWL_BAD_REQUEST,
                                "a kind, queue or capability of the worker is missing or not "
                                "UTF-8");
        json_put_string(writer, name);
    }
    json_end_array(writer);
    return PAWL_OK;
}

/* HOST-PID-RANDOM: tells people where to look, and no two are the same. */
static void make_worker_id(char *ret, size_t size)
{
    char host[65] = "";
    uint32_t random;
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0' || !utf8_valid(str_from(host)))
        (void)snprintf(host, sizeof host, "worker");
    random_fill(&random, sizeof random);
    (void)snprintf(ret, size, "%.64s-%ld-%08x", host, (long)getpid(), random);
}

/* Writes what all claims of the worker have in common. */
static enum pawl_code make_terms(struct pawl_worker *worker,
                                 const struct pawl_worker_options *options,
                                 struct pawl_error *error)
{
    char made[128];
    struct buf buf;
    struct json_writer writer;
    const char *worker_id = options->worker_id;
    if (worker_id == NULL) {
        make_worker_id(made, sizeof made);
        worker_id = made;
    }
    if (!utf8_valid(str_from(worker_id)))
        return worker_error(error, PAWL_BAD_REQUEST, "the worker's id is not UTF-8");

    buf_init(&buf, &worker->arena, 512);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    json_key(&writer, STR("worker_id"));
    json_put_string(&writer, str_from(worker_id));
    enum pawl_code code =
        worker_put_names(&writer, STR("kinds"), options->kinds, options->kind_count, error);
    if (code == PAWL_OK)
        code =
            worker_put_names(&writer, STR("queues"), options->queues, options->queue_count, error);
    if (code == PAWL_OK)
        code = worker_put_names(&writer, STR("capabilities"), options->capabilities,
                                options->capability_count, error);
    if (code != PAWL_OK)
        return code;
    if (options->resource_id != NULL) {
        json_key(&writer, STR("resource_id"));
        json_put_string(&writer, str_from(options->resource_id));
    } else if (options->judge != 0) {
        json_key(&writer, STR("judge"));
        json_put_bool(&writer, true);
    }
    if (options->code_version != NULL && options->resource_id == NULL && !options->judge) {
        json_key(&writer, STR("code_version"));
        json_put_string(&writer, str_from(options->code_version));
    }
    if (options->lease_ttl_ms != 0) {
        json_key(&writer, STR("lease_ttl_ms"));
        json_put_int(&writer, options->lease_ttl_ms);
    }
    if (buf.failed)
        return worker_error(error, PAWL_NO_MEMORY, "out of memory");
    worker->terms = (struct str){buf.at + 1, buf.len - 1};
    return worker_registration_make(worker, str_from(worker_id), options, error);
}

/* Ends the threads that run, and frees everything. */
static void worker_free(struct pawl_worker *worker)
{
    if (worker->claimer_runs)
        pthread_join(worker->claimer, NULL);
    pthread_mutex_lock(&worker->lock);
    worker->ending = true;
    for (uint32_t i = 0; i < worker->threads; i++)
        pthread_cond_signal(&worker->slots[i].given);
    pthread_mutex_unlock(&worker->lock);
    for (uint32_t i = 0; i < worker->threads; i++)
        pthread_join(worker->slots[i].thread, NULL);

    pthread_mutex_lock(&worker->lock);
    worker->heart_ends = true;
    pthread_cond_signal(&worker->heart_due);
    pthread_mutex_unlock(&worker->lock);
    if (worker->heart_runs)
        pthread_join(worker->heart, NULL);
    if (worker->registered)
        worker_resource_delete(worker);

    for (uint32_t i = 0; i < worker->slot_count; i++) {
        struct slot *slot = &worker->slots[i];
        slot_clear(slot);
        worker_heart_forget(slot);
        pthread_cond_destroy(&slot->given);
    }
    pthread_cond_destroy(&worker->heart_due);
    pthread_cond_destroy(&worker->ended);
    pthread_mutex_destroy(&worker->lock);
    if (worker->wake >= 0)
        (void)close(worker->wake);
    free(worker->slots);
    arena_release(&worker->arena);
    free(worker);
}

/* A worker without threads. */
static struct pawl_worker *worker_new(struct pawl *pawl, const struct pawl_worker_options *options)
{
    uint32_t concurrency = options->concurrency == 0 ? 1 : (uint32_t)options->concurrency;
    struct pawl_worker *worker = calloc(1, sizeof *worker);
    struct slot *slots = calloc(concurrency, sizeof *slots);
    if (worker == NULL || slots == NULL) {
        free(worker);
        free(slots);
        return NULL;
    }

    worker->pawl = pawl;
    worker->handler = options->handler;
    worker->reported = options->reported;
    worker->trouble = options->trouble;
    worker->arg = options->arg;
    worker->once = options->once != 0;
    worker->drain = options->drain != 0;
    worker->steps = options->resource_id != NULL || options->judge != 0;
    worker->renew_at = INT64_MAX;
    worker->slots = slots;
    worker->slot_count = options->once != 0 ? 1 : concurrency;
    worker->wake = -1;
    worker->heart_until = INT64_MAX;
    arena_init(&worker->arena);
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)condition_init(&worker->heart_due);
    (void)condition_init(&worker->ended);
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        slots[i].worker = worker;
        (void)condition_init(&slots[i].given);
    }
    return worker;
}

static enum pawl_code start_threads(struct pawl_worker *worker, struct pawl_error *error)
{
    worker->alive = worker->slot_count + 1;
    worker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->wake < 0)
        return worker_error(error, PAWL_UNAVAILABLE, "too many open files; see 'ulimit -n'");
    worker->heart_runs = worker_thread(&worker->heart, worker_heart, worker);
    bool all = worker->heart_runs;
    for (uint32_t i = 0; i < worker->slot_count && all; i++) {
        all = worker_thread(&worker->slots[i].thread, handler_main, &worker->slots[i]);
        worker->threads += all;
    }
    if (all)
        worker->claimer_runs = worker_thread(&worker->claimer, claimer_main, worker);
    if (worker->claimer_runs)
        return PAWL_OK;
    return worker_error(
        error, PAWL_UNAVAILABLE,
        "cannot start the threads of the worker; see 'ulimit -u', or lower its concurrency");
}

enum pawl_code pawl_worker_start(struct pawl *pawl, const struct pawl_worker_options *options,
                                 struct pawl_worker **ret_worker, struct pawl_error *error)
{
    assert(pawl != NULL && options != NULL && ret_worker != NULL);

    if (options->handler == NULL)
        return worker_error(error, PAWL_BAD_REQUEST, "a worker requires a handler");
    if (options->concurrency < 0 || options->concurrency > CONCURRENCY_MAX)
        return worker_error(error, PAWL_BAD_REQUEST,
                            "the concurrency of a worker must be from 1 to 1000");
    if (options->lease_ttl_ms < 0)
        return worker_error(error, PAWL_BAD_REQUEST, "lease_ttl_ms must not be negative");

    struct pawl_worker *worker = worker_new(pawl, options);
    if (worker == NULL)
        return worker_error(error, PAWL_NO_MEMORY, "out of memory");
    enum pawl_code code = worker_resource_make(worker, options, error);
    if (code == PAWL_OK)
        code = make_terms(worker, options, error);
    if (code == PAWL_OK)
        code = start_threads(worker, error);
    if (code != PAWL_OK) {
        worker_free(worker);
        return code;
    }
    *ret_worker = worker;
    return PAWL_OK;
}

void pawl_worker_stop(struct pawl_worker *worker)
{
    if (worker == NULL)
        return;
    /* Signal handlers come in between other calls, whose errno is theirs. */
    int before = errno;
    if (!atomic_exchange(&worker->stopped, true))
        wake_claimer(worker);
    errno = before;
}

int pawl_worker_wait(struct pawl_worker *worker, long long wait_ms)
{
    assert(worker != NULL);

    int64_t until = wait_ms < 0 ? INT64_MAX : clock_monotonic_ms() + wait_ms;
    pthread_mutex_lock(&worker->lock);
    while (worker->alive > 0 && clock_monotonic_ms() < until)
        if (until == INT64_MAX)
            pthread_cond_wait(&worker->ended, &worker->lock);
        else
            worker_cond_until(&worker->ended, &worker->lock, until);
    bool ended = worker->alive == 0;
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

enum pawl_code pawl_worker_join(struct pawl_worker *worker, long long *ret_done,
                                struct pawl_error *error)
{
    assert(worker != NULL);

    /* Threads that run touch what is read here, so they end first; only then it is freed. */
    pthread_join(worker->claimer, NULL);
    worker->claimer_runs = false;
    for (uint32_t i = 0; i < worker->threads; i++)
        pthread_join(worker->slots[i].thread, NULL);
    worker->threads = 0;

    enum pawl_code code = worker->error.code;
    if (ret_done != NULL)
        *ret_done = worker->done;
    if (code != PAWL_OK && error != NULL)
        *error = worker->error;
    worker_free(worker);
    return code;
}
