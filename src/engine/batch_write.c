/* What has become of the jobs of a batch, as a store wants it: rows that changed, and schedule
 * entries before and after. */
#include <assert.h>
#include <stdlib.h>

#include "core/job_state.h"
#include "core/retention.h"
#include "engine/batch_private.h"

static bool is_touched(const struct batch_job *job)
{
    return job->event_count > 0 || job->taken || job->mark_count > 0 || job->retiming.set ||
           job->redact || job->redate;
}

static enum error_code changed_effects(struct batch *batch, const struct batch_job *job,
                                       struct store_job_write *write)
{
    const struct job_slice *now = job->now;
    if (now->effect_count == 0)
        return ERR_OK;
    const struct effect **list =
        arena_zalloc(batch->arena, now->effect_count, sizeof(const void *));
    if (list == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < now->effect_count; i++)
        if (write->changed == CHANGED_ALL || now->effects[i].changed)
            list[write->effect_count++] = &now->effects[i];
    write->effects = list;
    return ERR_OK;
}

static enum error_code changed_signals(struct batch *batch, const struct batch_job *job,
                                       struct store_job_write *write)
{
    const struct job_slice *now = job->now;
    if (now->signal_count == 0)
        return ERR_OK;
    const struct signal **list =
        arena_zalloc(batch->arena, now->signal_count, sizeof(const void *));
    if (list == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < now->signal_count; i++)
        if (write->changed == CHANGED_ALL || now->signals[i].changed)
            list[write->signal_count++] = &now->signals[i];
    write->signals = list;
    return ERR_OK;
}

/* Heartbeats leave the timer where it is: the engine moves it when it fires. What has happened to
 * the job after that says better when to look again. */
static void keep_timer(const struct batch_job *job, const struct retiming *retiming,
                       uint8_t changed, struct schedule_entry *was, struct schedule_entry *now)
{
    if (retiming->set) {
        was->due_at = retiming->was;
        if (retiming->events == job->event_count)
            now->due_at = retiming->now;
    } else if (store_row_same(changed) && was->leased && now->leased) {
        now->due_at = was->due_at;
    }
}

static const struct step_mark *mark_of(const struct batch_job *job, uint32_t ordinal)
{
    static const struct step_mark none;
    for (uint32_t i = 0; i < job->mark_count; i++)
        if (job->marks[i].ordinal == ordinal)
            return &job->marks[i];
    return &none;
}

static enum error_code step_write(struct batch *batch, const struct batch_job *job,
                                  const struct step *before, const struct step *step,
                                  uint8_t changed, struct store_step_write *ret)
{
    const struct step_mark *mark = mark_of(job, step->ordinal);
    *ret = (struct store_step_write){.step = step, .changed = changed};
    enum error_code code = ERR_OK;
    if (before != NULL)
        code =
            schedule_entry_of_step(&job->before->job, before, batch->arena, &ret->was, batch->err);
    if (code == ERR_OK)
        code = schedule_entry_of_step(&job->now->job, step, batch->arena, &ret->now, batch->err);
    if (mark->taken)
        ret->was.lane = (struct str){NULL, 0};
    keep_timer(job, &mark->retiming, changed, &ret->was, &ret->now);
    return code;
}

static enum error_code changed_steps(struct batch *batch, const struct batch_job *job,
                                     struct store_job_write *write)
{
    const struct job_slice *now = job->now;
    if (now->step_count == 0)
        return ERR_OK;
    struct store_step_write *list = arena_zalloc(batch->arena, now->step_count, sizeof *list);
    if (list == NULL)
        return batch_no_memory(batch);
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < now->step_count && code == ERR_OK; i++) {
        const struct step *step = &now->steps[i];
        const struct step *before =
            write->plan_replaced ? NULL : job_step_at(job->before, step->ordinal);
        const struct step_mark *mark = mark_of(job, step->ordinal);
        /* When the job may run is where its steps stand. */
        bool marked = mark->taken || mark->retiming.set ||
                      (before != NULL && job->before->job.run_at != now->job.run_at);
        uint8_t changed = write->changed == CHANGED_ALL ? CHANGED_ALL : step->changed;
        if (changed == 0 && !marked)
            continue;
        code = step_write(batch, job, before, step, changed, &list[write->step_count++]);
    }
    write->steps = list;
    return code;
}

static enum error_code job_write(struct batch *batch, struct batch_job *job,
                                 struct store_job_write *ret)
{
    const struct job *before = &job->before->job;
    if (job->redact) {
        job->now = batch_slice_copy(batch, job->now);
        if (job->now == NULL)
            return batch_no_memory(batch);
        job_redact(job->now);
    }
    const struct job *now = &job->now->job;
    bool ends = job_status_terminal(now->status);
    bool ended = before->status != JOB_NONE && job_status_terminal(before->status);
    *ret = (struct store_job_write){
        .after = job->now,
        .events = job->events,
        .event_count = job->event_count,
        .created = before->status == JOB_NONE,
        .changed = now->changed | (job->redate ? CHANGED_REST : 0),
        .purge_at = job_purge_at(now, batch_kind(batch, now->spec.kind)),
        .plan_replaced = before->status != JOB_NONE && before->plan_version > 0 &&
                         before->plan_version != now->plan_version,
        .steps_closed = job_takes_step_claims(before) && !job_takes_step_claims(now),
        .steps_ended = job_has_plan(now) && ends && !ended,
        .redact = job->redact,
    };
    if (ret->created || job->redact)
        ret->changed = CHANGED_ALL;
    enum error_code code = ERR_OK;
    if (before->status != JOB_NONE)
        code = schedule_entry_of_job(before, batch->arena, &ret->was, batch->err);
    if (code == ERR_OK)
        code = schedule_entry_of_job(now, batch->arena, &ret->now, batch->err);
    if (job->taken)
        ret->was.lane = (struct str){NULL, 0};
    keep_timer(job, &job->retiming, ret->changed, &ret->was, &ret->now);
    if (code == ERR_OK)
        code = changed_effects(batch, job, ret);
    if (code == ERR_OK)
        code = changed_signals(batch, job, ret);
    return code == ERR_OK ? changed_steps(batch, job, ret) : code;
}

static int by_id(const void *a, const void *b)
{
    const struct store_job_write *left = a;
    const struct store_job_write *right = b;
    return memcmp(left->after->job.id.bytes, right->after->job.id.bytes, 16);
}

static void note_time(struct wakeups *wakeups, int64_t at)
{
    if (at > 0 && at < wakeups->next_at)
        wakeups->next_at = at;
}

void batch_note_ready(struct batch *batch, struct str key)
{
    struct wakeups *wakeups = &batch->batcher->wakeups;
    for (uint32_t i = wakeups->ready_count; i-- > 0;) {
        struct ready_lane *known = &wakeups->ready[i];
        if (str_eq(known->key, key)) {
            known->count++;
            return;
        }
    }
    if (wakeups->ready_count == wakeups->ready_cap) {
        uint32_t cap = wakeups->ready_cap < 8 ? 8 : wakeups->ready_cap * 2;
        struct ready_lane *ready = arena_grow(
            batch->arena, wakeups->ready, wakeups->ready_cap * sizeof *ready, cap * sizeof *ready);
        if (ready == NULL)
            return;
        wakeups->ready = ready;
        wakeups->ready_cap = cap;
    }
    struct ready_lane *fresh = &wakeups->ready[wakeups->ready_count];
    *fresh = (struct ready_lane){.key = key, .count = 1};
    if (lane_read(key, batch->arena, &fresh->lane, NULL) == ERR_OK)
        wakeups->ready_count++;
}

/* `changed`: an event has brought it there; else it was only looked at, or put back. */
static void note_place(struct batch *batch, const struct schedule_entry *was,
                       const struct schedule_entry *now, bool changed)
{
    note_time(&batch->batcher->wakeups, now->due_at);
    if (!str_is_set(now->lane))
        return;
    if (now->run_at > batch->load.now)
        note_time(&batch->batcher->wakeups, now->run_at);
    else if (changed && (!str_eq(was->lane, now->lane) || was->run_at > batch->load.now))
        batch_note_ready(batch, now->lane);
}

static bool may_stand_in_lane(const struct job *job)
{
    return job->status == JOB_QUEUED || job->status == JOB_RETRYING || job_has_plan(job);
}

/* Whether somebody who searched beside this batch may have passed over work because of it. */
static bool has_locked_unclaimed(const struct batch *batch)
{
    if (batch->load.search_count > 0 && !batch->searched)
        return true;
    for (uint32_t i = 0; i < batch->op_count && batch->searches != NULL; i++)
        if (batch->searches[i].locked_unclaimed)
            return true;
    for (uint32_t i = 0; i < batch->job_count; i++) {
        const struct batch_job *job = &batch->jobs[i];
        if (job->before->job.status != JOB_NONE && may_stand_in_lane(&job->before->job) &&
            may_stand_in_lane(&job->now->job))
            return true;
    }
    return false;
}

/* What those who wait, for work or for a time, must know of this batch. */
static void note_wakeups(struct batch *batch, const struct store_write *write)
{
    struct wakeups *wakeups = &batch->batcher->wakeups;
    wakeups->now = batch->load.now;
    wakeups->locked_unclaimed = wakeups->locked_unclaimed || has_locked_unclaimed(batch);
    wakeups->slots_freed = write->resource_count > 0;
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        note_time(wakeups, job->purge_at);
        note_place(batch, &job->was, &job->now, job->event_count > 0);
        wakeups->slots_freed = wakeups->slots_freed || job->steps_ended;
        for (uint32_t k = 0; k < job->step_count; k++) {
            const struct store_step_write *step = &job->steps[k];
            note_place(batch, &step->was, &step->now, job->event_count > 0);
            wakeups->slots_freed = wakeups->slots_freed || (step->was.leased && !step->now.leased);
        }
    }
    for (uint32_t i = 0; i < write->resource_count; i++)
        note_time(wakeups, write->resources[i].expires_at);
}

static enum error_code write_jobs(struct batch *batch, struct store_write *write)
{
    struct store_job_write *jobs = arena_zalloc(batch->arena, batch->job_count + 1, sizeof *jobs);
    struct uuid *purged = arena_zalloc(batch->arena, batch->job_count + 1, sizeof *purged);
    enum error_code code = ERR_OK;
    if (jobs == NULL || purged == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < batch->job_count && code == ERR_OK; i++) {
        struct batch_job *job = &batch->jobs[i];
        if (job->purge)
            purged[write->purged_count++] = job->before->job.id;
        if (is_touched(job))
            code = job_write(batch, job, &jobs[write->job_count++]);
    }
    if (write->job_count > 1)
        qsort(jobs, write->job_count, sizeof *jobs, by_id);
    write->jobs = jobs;
    write->purged = purged;
    return code;
}

/* What an operator or a resource has set; the last word on a name counts. */
struct settings {
    struct resource *resources;
    struct str *gone;
    struct store_kind *kinds;
    struct store_queue *queues;
    struct access_token *tokens;
};

static void put_resource(struct store_write *write, struct settings *settings, const struct op *op)
{
    bool gone = op->type == OP_RESOURCE_GONE;
    struct str id = gone ? op->resource_gone.id : op->registered.id;
    for (uint32_t i = 0; i < write->resource_count; i++)
        if (str_eq(settings->resources[i].id, id))
            settings->resources[i] = settings->resources[--write->resource_count];
    for (uint32_t i = 0; i < write->resource_gone_count; i++)
        if (str_eq(settings->gone[i], id))
            settings->gone[i] = settings->gone[--write->resource_gone_count];
    if (gone)
        settings->gone[write->resource_gone_count++] = id;
    else
        settings->resources[write->resource_count++] = op->registered;
}

static void put_kind(struct store_write *write, struct settings *settings,
                     const struct store_kind *kind)
{
    for (uint32_t i = 0; i < write->kind_count; i++)
        if (str_eq(settings->kinds[i].kind, kind->kind))
            settings->kinds[i] = settings->kinds[--write->kind_count];
    settings->kinds[write->kind_count++] = *kind;
}

static void put_queue(struct store_write *write, struct settings *settings,
                      const struct store_queue *queue)
{
    for (uint32_t i = 0; i < write->queue_count; i++)
        if (str_eq(settings->queues[i].queue, queue->queue))
            settings->queues[i] = settings->queues[--write->queue_count];
    settings->queues[write->queue_count++] = *queue;
}

static void put_token(struct store_write *write, struct settings *settings,
                      const struct access_token *token)
{
    for (uint32_t i = 0; i < write->token_count; i++)
        if (uuid_eq(settings->tokens[i].id, token->id))
            settings->tokens[i] = settings->tokens[--write->token_count];
    settings->tokens[write->token_count++] = *token;
}

static bool is_setting(const struct op *op)
{
    return op->type == OP_RESOURCE || op->type == OP_RESOURCE_GONE ||
           op->type == OP_RESOURCE_FAILED || op->type == OP_KIND || op->type == OP_QUEUE ||
           op->type == OP_TOKEN || op->type == OP_TOKEN_REVOKE;
}

/* Adds what one operation has set. */
static void put_setting(struct store_write *write, struct settings *settings, const struct op *op)
{
    if (op->type == OP_RESOURCE || op->type == OP_RESOURCE_GONE || op->type == OP_RESOURCE_FAILED)
        put_resource(write, settings, op);
    else if (op->type == OP_KIND)
        put_kind(write, settings, op->kind.kind);
    else if (op->type == OP_QUEUE)
        put_queue(write, settings, &op->queue);
    else if (op->type == OP_TOKEN || op->type == OP_TOKEN_REVOKE)
        put_token(write, settings, op->token);
}

static enum error_code write_settings(struct batch *batch, struct store_write *write)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->op_count; i++)
        count += is_setting(batch->ops[i]);
    if (count == 0)
        return ERR_OK;
    struct settings settings = {
        .resources = arena_zalloc(batch->arena, count, sizeof *settings.resources),
        .gone = arena_zalloc(batch->arena, count, sizeof *settings.gone),
        .kinds = arena_zalloc(batch->arena, count, sizeof *settings.kinds),
        .queues = arena_zalloc(batch->arena, count, sizeof *settings.queues),
        .tokens = arena_zalloc(batch->arena, count, sizeof *settings.tokens),
    };
    if (settings.resources == NULL || settings.gone == NULL || settings.kinds == NULL ||
        settings.queues == NULL || settings.tokens == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < batch->op_count; i++) {
        const struct op *op = batch->ops[i];
        if (op->code != ERR_OK || op_is_repeated(op))
            continue;
        put_setting(write, &settings, op);
    }
    write->resources = settings.resources;
    write->resources_gone = settings.gone;
    write->kinds = settings.kinds;
    write->queues = settings.queues;
    write->tokens = settings.tokens;
    write->tokens_gone = batch->tokens_gone;
    write->token_gone_count = batch->token_gone_count;
    return ERR_OK;
}

/* Whether somebody is told that something was done, before. Where other servers can be, that may be
 * a commit of which a standby knows nothing yet: it is waited for like one of our own. */
static bool confirms(const struct batch *batch)
{
    if (!batch->batcher->store->shared)
        return false;
    for (uint32_t i = 0; i < batch->op_count; i++) {
        const struct op *op = batch->ops[i];
        if (op->code == ERR_OK && (op_is_repeated(op) || op->type == OP_COMMAND))
            return true;
    }
    return false;
}

enum error_code batch_write(struct batch *batch)
{
    struct store_write write = {0};
    enum error_code code = write_jobs(batch, &write);
    if (code == ERR_OK)
        code = write_settings(batch, &write);
    if (code == ERR_OK)
        code = batch_write_workers(batch, &write);
    if (code == ERR_OK)
        code = batch_write_requests(batch, &write);
    note_wakeups(batch, &write);
    bool any = write.job_count + write.purged_count + write.request_count + write.resource_count +
                   write.resource_gone_count + write.kind_count + write.queue_count +
                   write.token_count + write.registration_count + write.registration_gone_count +
                   write.renewal_count >
               0;
    batch->batcher->wrote = any || confirms(batch);
    return code == ERR_OK && batch->batcher->wrote ? store_write(batch->txn, &write, batch->err)
                                                   : code;
}
