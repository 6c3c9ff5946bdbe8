/* The operations of a batch, one by one: decided, and folded into their jobs. */
#include <assert.h>

#include "core/job_state.h"
#include "core/kind.h"
#include "core/retention.h"
#include "core/token.h"
#include "engine/batch_private.h"

/* A wait step that begins may find its signal stored, end, and let the next one begin: at most so
 * many rounds for one operation. */
enum { WAKES_MAX = 1000, LOOK_AGAIN_MS = 1000 };

static enum error_code keep_events(struct batch *batch, struct batch_job *job,
                                   const struct decision *decision)
{
    uint32_t count = job->event_count + decision->count;
    if (decision->count > 0 && job->event_count == 0) {
        job->events = decision->events;
        job->event_cap = decision->count;
    } else if (count > job->event_cap) {
        uint32_t cap = count * 2;
        struct event *events = arena_alloc(batch->arena, cap * sizeof *events);
        if (events == NULL)
            return batch_no_memory(batch);
        memcpy(events, job->events, job->event_count * sizeof *events);
        job->events = events;
        job->event_cap = cap;
    }
    if (job->events != decision->events && decision->count > 0)
        memcpy(job->events + job->event_count, decision->events,
               decision->count * sizeof *decision->events);
    job->event_count = count;
    return ERR_OK;
}

/* Decides on `*slice`, which is the job or a part of it, and makes it what comes of that. */
static enum error_code decide_on(struct batch *batch, struct batch_job *job,
                                 struct job_slice **slice, const struct command *command,
                                 struct decision_result *ret_result, enum error_code *ret_refusal,
                                 struct err *refusal)
{
    struct context context = batch_context(batch, &(*slice)->job);
    struct decision decision;
    enum error_code code = job_decide(*slice, command, &context, &decision, refusal);
    *ret_refusal = code;
    if (code == ERR_NO_MEMORY || code == ERR_CORRUPT)
        return err_set(batch->err, code, "%s", refusal->detail);
    if (code != ERR_OK)
        return ERR_OK;
    *ret_result = decision.result;
    if (decision.result.duplicate)
        return ERR_OK;
    code = decision_seal(&decision, (*slice)->job.head, batch->arena, batch->err);
    if (code == ERR_OK)
        code = keep_events(batch, job, &decision);
    struct job_slice *after = code == ERR_OK ? batch_slice_copy(batch, &decision.after) : NULL;
    if (code == ERR_OK && after == NULL)
        return batch_no_memory(batch);
    if (code == ERR_OK)
        *slice = after;
    return code;
}

static enum error_code wake_step(struct batch *batch, struct batch_job *job, uint32_t ordinal)
{
    struct command wake = {.type = COMMAND_WAKE, .actor = STR("pawl")};
    struct job_slice narrow;
    struct decision_result answer;
    enum error_code refusal;
    struct err why = {0};
    enum error_code code = batch_narrow(batch, job, ordinal, &narrow);
    if (code != ERR_OK)
        return code;
    wake.step = job_step_at(&narrow, ordinal)->spec.id;
    struct job_slice *woken = &narrow;
    code = decide_on(batch, job, &woken, &wake, &answer, &refusal, &why);
    if (code == ERR_OK && refusal == ERR_OK)
        batch_widen(job, woken);
    return code;
}

/* Wakes the steps that began to wait although a signal for them is stored. */
static enum error_code wake_steps(struct batch *batch, struct batch_job *job,
                                  const struct job_slice *before)
{
    uint32_t *began = arena_zalloc(batch->arena, job->now->step_count, sizeof *began);
    uint32_t count = 0;
    if (began == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < job->now->step_count; i++) {
        const struct step *step = &job->now->steps[i];
        const struct step *was = job_step_at(before, step->ordinal);
        bool fresh = step_standing(step) == STANDING_ASKING &&
                     (was == NULL || step_standing(was) != STANDING_ASKING);
        if (fresh && str_is_set(step->question.correlation_key))
            began[count++] = step->ordinal;
    }
    enum error_code code = count > 0 ? batch_load_waits(batch, job, began, count) : ERR_OK;
    /* They change in place from here on; the caller goes on to compare with what there was. */
    if (code != ERR_OK)
        return code;
    struct job_slice *own = arena_alloc(batch->arena, sizeof *own);
    if (own == NULL || job_slice_copy(job->now, batch->arena, own) != ERR_OK)
        return batch_no_memory(batch);
    job->now = own;
    /* Each signal wakes one step: when none is left nobody else has to be asked. */
    for (uint32_t i = 0; i < count && code == ERR_OK && job->now->job.stored_signals > 0; i++)
        code = wake_step(batch, job, began[i]);
    return code;
}

/* Decides on no more of the job than the command is about, when more is loaded. Stored signals may
 * wake any step that begins to wait, so that then all are compared with what they were. */
static enum error_code decide(struct batch *batch, struct batch_job *job,
                              const struct command *command, struct decision_result *ret_result,
                              enum error_code *ret_refusal, struct err *refusal)
{
    const struct step *step = job->now->step_count > 1 && job->now->job.stored_signals == 0
                                  ? batch_step_of(job->now, command)
                                  : NULL;
    if (step == NULL || job->now->step_count <= step->child_count + 1) {
        job->shown = NULL;
        return decide_on(batch, job, &job->now, command, ret_result, ret_refusal, refusal);
    }
    struct job_slice narrow;
    struct job_slice *decided = &narrow;
    enum error_code code = batch_narrow_steps(batch, job->now, step, &narrow);
    if (code == ERR_OK)
        code = decide_on(batch, job, &decided, command, ret_result, ret_refusal, refusal);
    if (code == ERR_OK && decided != &narrow) {
        assert(!ret_result->wake);
        return batch_widen_steps(batch, job, decided);
    }
    job->shown = NULL; /* nothing has changed: the operation keeps all of it */
    return code;
}

enum error_code batch_decide(struct batch *batch, struct batch_job *job,
                             const struct command *command, struct decision_result *ret_result,
                             enum error_code *ret_refusal, struct err *refusal)
{
    const struct job_slice *before = job->now;
    enum error_code code = decide(batch, job, command, ret_result, ret_refusal, refusal);
    bool wake = code == ERR_OK && *ret_refusal == ERR_OK && ret_result->wake;
    for (uint32_t i = 0; wake && code == ERR_OK && i < WAKES_MAX; i++) {
        uint32_t events = job->event_count;
        const struct job_slice *begun = job->now;
        code = wake_steps(batch, job, before);
        before = begun;
        wake = job->event_count > events;
    }
    return code;
}

/* The key is taken and the id is promised: the job is made without the key, and buried. */
static enum error_code bury_duplicate(struct batch *batch, struct batch_job *job, struct op *op,
                                      const struct job *other)
{
    struct spec spec = *op->command.submit.spec;
    struct command command = op->command;
    char id[UUID_TEXT_LEN];
    struct buf message;
    spec.idempotency_key = (struct str){NULL, 0};
    command.submit.spec = &spec;
    uuid_format(other->id, id);
    buf_init(&message, batch->arena, 256);
    buf_addf(&message, "the idempotency_key \"%.*s\" belongs to job %.*s",
             STR_ARG(op->command.submit.spec->idempotency_key), UUID_TEXT_LEN, id);
    enum error_code code = batch_decide(batch, job, &command, &op->result, &op->code, &op->err);
    if (code != ERR_OK || op->code != ERR_OK)
        return code;
    command = (struct command){.type = COMMAND_DEAD_LETTER, .actor = STR("pawl")};
    command.dead_letter.reason_code = DEAD_VALIDATION_FAILED;
    command.dead_letter.stage = STAGE_INPUT;
    command.dead_letter.message = buf_str(&message);
    code = batch_decide(batch, job, &command, &op->result, &op->code, &op->err);
    op->after = job->now;
    return code;
}

static enum error_code do_submit(struct batch *batch, struct batch_job *job, struct op *op)
{
    struct command command = op->command;
    struct store_key *key = batch_key(batch, command.submit.spec);
    const struct job_slice *known =
        key != NULL && key->slice.job.status != JOB_NONE ? &key->slice : NULL;
    if (known != NULL && op->keeps_id)
        return bury_duplicate(batch, job, op, &known->job);
    command.submit.duplicate = known != NULL ? &known->job : NULL;
    enum error_code code = batch_decide(batch, job, &command, &op->result, &op->code, &op->err);
    op->after = known != NULL ? known : job->now;
    if (code != ERR_OK || op->code != ERR_OK || known != NULL)
        return code;
    batch_note_new(batch, &job->now->job);
    if (key != NULL)
        key->slice = *op->after;
    return code;
}

/* Who shows a token is the worker that was given it, as far as that is known. */
static struct str holder_of(const struct batch_job *job, struct str text)
{
    struct token token;
    const struct lease *lease = &job->now->job.lease;
    if (token_parse(text, &token) && token.of_step) {
        const struct step *step = job_step_at(job->now, token.step);
        lease = step != NULL ? &step->lease : NULL;
    }
    return lease != NULL && str_is_set(lease->worker_id) ? lease->worker_id : STR("worker");
}

static enum error_code do_command(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    if (op->command.type == COMMAND_SUBMIT)
        return do_submit(batch, job, op);
    struct command command = op->command;
    if (!str_is_set(command.actor))
        command.actor = holder_of(job, command.token);
    enum error_code code = batch_decide(batch, job, &command, &op->result, &op->code, &op->err);
    op->after = batch_job_view(job);
    return code;
}

/* The timer that fired is at the time that the store said, unless it is kept with a lease. */
static enum error_code retime(struct batch *batch, struct batch_job *job, const struct op *op,
                              bool leased, int64_t next)
{
    struct retiming retiming = {
        .set = true, .was = leased ? 0 : op->timer.at, .now = next, .events = job->event_count};
    if (op->timer.step == STEP_NONE) {
        job->retiming = retiming;
        return ERR_OK;
    }
    struct step_mark *mark = batch_step_mark(batch, job, op->timer.step);
    if (mark == NULL)
        return batch_no_memory(batch);
    mark->retiming = retiming;
    return ERR_OK;
}

static bool has_ended(struct batch *batch, const struct resource *resource)
{
    struct context context = batch_times(batch);
    return resource_ends_at(resource, &context) <= batch->load.now;
}

/* Whether a lease is on that resource, the resource was not renewed meanwhile, and the job has not
 * ended: another step on the resource may have seen to that, in this very batch. */
static bool is_lost(struct batch *batch, const struct batch_job *job, struct str resource_id,
                    const struct lease *lease)
{
    const struct resource *resource = batch_resource(batch, resource_id);
    return lease_holds(lease, &job->now->job) && str_eq(lease->resource_id, resource_id) &&
           (resource == NULL || has_ended(batch, resource));
}

static enum error_code do_timer(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    const struct step *step =
        op->timer.step == STEP_NONE ? NULL : job_step_at(job->now, op->timer.step);
    op->after = job->now;
    if (job->now->job.status == JOB_NONE || (op->timer.step != STEP_NONE && step == NULL)) {
        op->code = err_set(&op->err, ERR_NOT_FOUND, "it was deleted or replanned meanwhile");
        return ERR_OK;
    }
    const struct lease *lease = step != NULL ? &step->lease : &job->now->job.lease;
    struct context context = batch_context(batch, &job->now->job);
    struct command command = {.actor = STR("pawl")};
    int64_t next = 0;
    if (str_is_set(op->timer.resource_id)) {
        if (!is_lost(batch, job, op->timer.resource_id, lease)) {
            op->code = err_set(&op->err, ERR_INVALID_TRANSITION, "it is not lost any more");
            return ERR_OK;
        }
        command.type = COMMAND_EXPIRE;
        command.expire.resource_lost = true;
    } else {
        command.type = schedule_entry_due(&job->now->job, step, &context, &next);
    }
    bool leased = lease_holds(lease, &job->before->job); /* in the store */
    if (command.type == COMMAND_NONE)
        return retime(batch, job, op, leased, next);
    if (step != NULL)
        command.step = step->spec.id;
    if (command.type == COMMAND_EXPIRE)
        command.expire.attempt = step != NULL ? step->attempt : job->now->job.attempt;
    enum error_code refusal = ERR_OK;
    enum error_code code = batch_decide(batch, job, &command, &op->result, &refusal, &op->err);
    op->after = batch_job_view(job);
    if (code != ERR_OK || refusal == ERR_OK || refusal == ERR_UNAVAILABLE)
        return code;
    /* There was nothing to do after all. A timer has done its duty; a lease is looked at again. */
    return retime(batch, job, op, leased, leased ? batch->load.now + LOOK_AGAIN_MS : 0);
}

/* A job that is there already with the same history is left alone. */
static enum error_code do_import(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    const struct job_import *import = op->import;
    struct store_key *key = batch_key(batch, &import->slice.job.spec);
    bool known = job->now->job.status != JOB_NONE;
    op->after = job->now;
    if (known && job->now->job.version == import->slice.job.version &&
        memcmp(job->now->job.head, import->slice.job.head, HASH_LEN) == 0) {
        op->result.repeated = true;
        return ERR_OK;
    }
    if (known) {
        op->code = err_set(&op->err, ERR_VERSION_MISMATCH,
                           "the job exists with a different history, at version %lld",
                           (long long)job->now->job.version);
        return ERR_OK;
    }
    if (key != NULL && key->slice.job.status != JOB_NONE) {
        op->code =
            err_set(&op->err, ERR_IDEMPOTENCY_MISMATCH,
                    "the idempotency_key \"%.*s\" belongs to another job", STR_ARG(key->key));
        return ERR_OK;
    }
    job->now = batch_slice_copy(batch, &import->slice);
    if (job->now == NULL)
        return batch_no_memory(batch);
    job->events = import->events;
    job->event_count = job->event_cap = import->count;
    op->after = job->now;
    if (key != NULL)
        key->slice = *job->now;
    return ERR_OK;
}

static enum error_code do_erase(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    const struct job *now = &job->now->job;
    op->code =
        op->type == OP_REDACT ? job_check_redact(now, &op->err) : job_check_drop(now, &op->err);
    if (op->code != ERR_OK)
        return ERR_OK;
    int64_t purge_at = job_purge_at(now, batch_context(batch, now).kind);
    if (op->type == OP_PURGE && !retention_is_over(purge_at, batch_trusted(batch))) {
        job->redate = true;
        op->code =
            err_set(&op->err, ERR_INVALID_TRANSITION, "the retention of the job has not ended");
        return ERR_OK;
    }
    /* What comes after it in this batch must see it. */
    if (op->type == OP_REDACT) {
        job->now = batch_slice_copy(batch, job->now);
        if (job->now == NULL)
            return batch_no_memory(batch);
        job->now->job.redacted = true;
        job->shown = NULL;
        job->redact = true;
    } else {
        job->purge = true;
    }
    op->after = job->now;
    return ERR_OK;
}

static void register_resource(struct batch *batch, struct op *op)
{
    struct resource *known = batch_resource(batch, op->resource->id);
    bool gone = known == NULL || known->expires_at == 0; /* by an operation of this batch */
    op->registered = *op->resource;
    op->code = resource_decide_owner(gone ? NULL : known, &op->claimant, &op->registered, &op->err);
    if (op->code != ERR_OK)
        return;
    /* Renewing is not recovering. */
    if (known != NULL) {
        op->registered.used = known->used;
        op->registered.failures = known->failures;
        op->registered.failing_since = known->failing_since;
        op->registered.cooldown_until = known->cooldown_until;
        op->registered.rests = known->rests;
    }
    if (op->ttl_ms > 0)
        op->registered.expires_at = batch->load.now + op->ttl_ms;
    op->registered.ttl_ms = op->ttl_ms;
    /* What comes after it in this batch must see it, and whose it is. */
    batch_resource_put(batch, &op->registered);
}

static void do_record_failure(struct batch *batch, struct op *op)
{
    struct resource *resource = batch_resource(batch, op->failed_resource);
    if (resource == NULL || resource->expires_at == 0) {
        op->code = resource_unknown(op->failed_resource, &op->err);
        return;
    }
    op->cooldown = resource_record_failure(resource, batch->load.now);
    op->registered = *resource;
}

/* What is set of a kind at this point of the batch, to be changed; NULL: no memory. */
static struct store_kind *known_kind(struct batch *batch, struct str name)
{
    struct store_load *load = &batch->load;
    for (uint32_t i = 0; i < load->kind_count; i++)
        if (str_eq(load->kinds[i].kind, name))
            return &load->kinds[i];
    struct store_kind *kinds =
        arena_zalloc(batch->arena, load->kind_count + (size_t)1, sizeof *kinds);
    if (kinds == NULL)
        return NULL;
    if (load->kind_count > 0)
        memcpy(kinds, load->kinds, load->kind_count * sizeof *kinds);
    load->kinds = kinds;
    kinds[load->kind_count].kind = name;
    return &kinds[load->kind_count++];
}

/* The version rises when something changes, and outlives the settings. */
static enum error_code do_kind(struct batch *batch, struct op *op)
{
    struct store_kind *kind = op->kind.kind;
    op->code = record_check_name(kind->kind, "kind", &op->err);
    if (op->code != ERR_OK)
        return ERR_OK;
    struct store_kind *known = known_kind(batch, kind->kind);
    if (known == NULL)
        return batch_no_memory(batch);
    int64_t version = known->settings.version;
    if (op->kind.expected_version >= 0 && op->kind.expected_version != version) {
        op->code = err_set(&op->err, ERR_VERSION_MISMATCH,
                           "the kind has version %lld, not the expected %lld", (long long)version,
                           (long long)op->kind.expected_version);
        return ERR_OK;
    }
    op->code = str_is_set(op->kind.change)
                   ? kind_settings_changed(&known->settings, op->kind.change, batch->arena,
                                           &kind->settings, &op->err)
                   : kind_settings_check(&kind->settings, &op->err);
    if (op->code != ERR_OK)
        return op->code == ERR_NO_MEMORY ? batch_no_memory(batch) : ERR_OK;
    kind->settings.version = version;
    if (!kind_settings_same(&kind->settings, &known->settings))
        kind->settings.version++;
    known->settings = kind->settings;
    return ERR_OK;
}

static enum error_code do_setting(struct batch *batch, struct op *op)
{
    if (op->type == OP_KIND) {
        return do_kind(batch, op);
    } else if (op->type == OP_QUEUE) {
        op->code = record_check_name(op->queue.queue, "queue", &op->err);
    } else if (op->type == OP_RESOURCE) {
        op->code = record_check_name(op->resource->id, "resource_id", &op->err);
        if (op->code == ERR_OK)
            register_resource(batch, op);
    }
    return ERR_OK;
}

/* Steps of other queues may be on the resource, if it was given away with them, and would be lost
 * with it. */
static bool may_lose_resource(struct batch *batch, uint32_t index)
{
    const struct op *op = batch->ops[index];
    for (uint32_t i = index + 1; i < batch->op_count && batch->ops[i]->atomic_with_previous; i++) {
        const struct op *lost = batch->ops[i];
        const struct batch_job *job =
            lost->type == OP_TIMER_FIRED ? batch_job_find(batch, lost->job) : NULL;
        if (job != NULL && job->now->job.status != JOB_NONE && op->queues != NULL &&
            !names_have(op->queues, job->now->job.spec.queue))
            return false;
    }
    return true;
}

static enum error_code do_resource_gone(struct batch *batch, uint32_t index)
{
    struct op *op = batch->ops[index];
    struct resource *resource = batch_resource(batch, op->resource_gone.id);
    op->code = resource == NULL ? resource_unknown(op->resource_gone.id, &op->err)
                                : resource_check_delete(resource, op->queues, &op->err);
    if (op->code != ERR_OK)
        return ERR_OK;
    if (!may_lose_resource(batch, index))
        op->code = err_set(
            &op->err, ERR_FORBIDDEN,
            "the token is limited to some queues, but steps of another queue run on \"%.*s\"",
            STR_ARG(op->resource_gone.id));
    else if (op->resource_gone.if_expired && !has_ended(batch, resource))
        op->code = err_set(&op->err, ERR_INVALID_TRANSITION, "the resource is not lost any more");
    else /* what comes after it in this batch must see it */
        resource->expires_at = resource->ttl_ms = 0;
    return ERR_OK;
}

/* Anyone who makes a token clears away those that ended long ago, so that there is a bound. */
static enum error_code sort_tokens(struct batch *batch)
{
    struct store_tokens all = {0};
    if (batch->tokens_sorted)
        return ERR_OK;
    enum error_code code = store_tokens(batch->txn, &all, batch->arena, batch->err);
    if (code != ERR_OK)
        return code;
    batch->tokens_gone =
        arena_zalloc(batch->arena, all.count + (size_t)1, sizeof *batch->tokens_gone);
    if (batch->tokens_gone == NULL)
        return batch_no_memory(batch);
    batch->tokens_live = access_sort_out(all.at, all.count, batch_trusted(batch),
                                         batch->tokens_gone, &batch->token_gone_count);
    batch->tokens_sorted = true;
    return ERR_OK;
}

/* A new token gets its times; one that is revoked is read first, so that the answer can say what it
 * was. */
static enum error_code do_token(struct batch *batch, struct op *op)
{
    if (op->type == OP_TOKEN) {
        enum error_code sorted = sort_tokens(batch);
        if (sorted != ERR_OK)
            return sorted;
        if (batch->tokens_live++ >= ACCESS_LIVE_MAX)
            op->code = err_set(&op->err, ERR_FORBIDDEN,
                               "the limit of %d tokens is reached: revoke some", ACCESS_LIVE_MAX);
        op->token->created_at = batch->load.now;
        op->token->expires_at = op->ttl_ms > 0 ? batch->load.now + op->ttl_ms : 0;
        return ERR_OK;
    }
    struct store_tokens known = {.id = &op->token->id};
    enum error_code code = store_tokens(batch->txn, &known, batch->arena, batch->err);
    if (code != ERR_OK)
        return code;
    if (known.count == 0) {
        op->code = err_set(&op->err, ERR_NOT_FOUND, "unknown token");
        return ERR_OK;
    }
    *op->token = known.at[0];
    if (op->token->revoked_at == 0)
        op->token->revoked_at = batch->load.now;
    return ERR_OK;
}

/* Whether a job that is named is in one of the queues; one that is not there is in none. */
static bool may_touch(const struct op *op, const struct batch_job *job)
{
    if (op->type == OP_COMMAND && op->command.type == COMMAND_SUBMIT)
        return names_have(op->queues, op->command.submit.spec->queue);
    return job == NULL || job->now->job.status == JOB_NONE ||
           names_have(op->queues, job->now->job.spec.queue);
}

/* Whether the operation is about what its queues allow. */
static bool may_do(struct batch *batch, uint32_t index, const struct batch_job *job)
{
    const struct op *op = batch->ops[index];
    if (op->queues == NULL)
        return true;
    switch (op->type) {
    case OP_COMMAND:
    case OP_DROP:
    case OP_PURGE:
    case OP_REDACT:
        return may_touch(op, job);
    case OP_IMPORT:
        return names_have(op->queues, op->import->slice.job.spec.queue) && may_touch(op, job);
    case OP_QUEUE:
        return names_have(op->queues, op->queue.queue);
    case OP_CLAIM:       /* it has looked only where it may */
    case OP_TIMER_FIRED: /* not what a caller asks for */
    case OP_RESOURCE:    /* core/resource_owner.h says whose it is */
    case OP_RESOURCE_GONE:
    case OP_RESOURCE_FAILED: /* not what a caller asks for either */
    case OP_ANSWERED:        /* it is done */
    case OP_PROBE:
    case OP_WORKER:      /* whose worker it is, batch_worker.c asks */
    case OP_WORKER_GONE: /* too */
        return true;
    case OP_KIND:
    case OP_TOKEN:
    case OP_TOKEN_REVOKE:
        break;
    }
    return false;
}

/* A job of another queue does not exist for the caller, and one that was deleted just now for
 * nobody: what is asked of it is answered as for an id that is unknown, by the same rules. What the
 * caller has named itself, a queue, it is told. */
static enum error_code do_foreign(struct batch *batch, struct op *op)
{
    struct job_slice *nothing = arena_zalloc(batch->arena, 1, sizeof *nothing);
    struct decision decision;
    if (nothing == NULL)
        return batch_no_memory(batch);
    bool of_job = op->type == OP_DROP || op->type == OP_REDACT || op->type == OP_PURGE ||
                  (op->type == OP_COMMAND && op->command.type != COMMAND_SUBMIT);
    if (!of_job) {
        op->code = err_set(&op->err, ERR_FORBIDDEN, "the token does not cover this queue");
        return ERR_OK;
    }
    job_slice_init(nothing, op->job, 0);
    op->after = nothing;
    if (op->type == OP_COMMAND) {
        struct context context = batch_context(batch, &nothing->job);
        op->code = job_decide(nothing, &op->command, &context, &decision, &op->err);
    } else {
        op->code = op->type == OP_REDACT ? job_check_redact(&nothing->job, &op->err)
                                         : job_check_drop(&nothing->job, &op->err);
    }
    assert(op->code != ERR_OK);
    return ERR_OK;
}

/* Nothing that stood in a lane is passed over for a job that is new. */
static enum error_code do_claim(struct batch *batch, struct op *op, struct store_search *search)
{
    enum error_code code = batch_claim(batch, op, search);
    if (op->claim.looks)
        batch_renew_worker(batch, op);
    return code == ERR_OK && search->max > search->found_count ? batch_claim_new(batch, op) : code;
}

enum error_code batch_execute(struct batch *batch, uint32_t index)
{
    struct op *op = batch->ops[index];
    const struct batch_job *job = batch_job_find(batch, op->job);
    op->result = (struct decision_result){0};
    bool purged = job != NULL && job->purge;
    if (!may_do(batch, index, job) || (purged && op->type == OP_COMMAND))
        return do_foreign(batch, op);
    if (purged) {
        op->code = err_set(&op->err, ERR_NOT_FOUND, "the job was deleted meanwhile");
        return ERR_OK;
    }
    switch (op->type) {
    case OP_COMMAND:
        return do_command(batch, op);
    case OP_CLAIM:
        return do_claim(batch, op, &batch->searches[index]);
    case OP_TIMER_FIRED:
        return do_timer(batch, op);
    case OP_PURGE:
    case OP_DROP:
    case OP_REDACT:
        return do_erase(batch, op);
    case OP_IMPORT:
        return do_import(batch, op);
    case OP_RESOURCE_GONE:
        return do_resource_gone(batch, index);
    case OP_RESOURCE_FAILED:
        do_record_failure(batch, op);
        return ERR_OK;
    case OP_RESOURCE:
    case OP_KIND:
    case OP_QUEUE:
        return do_setting(batch, op);
    case OP_TOKEN:
    case OP_TOKEN_REVOKE:
        return do_token(batch, op);
    case OP_WORKER:
        return batch_register(batch, op);
    case OP_WORKER_GONE:
        return batch_deregister(batch, op);
    case OP_ANSWERED:
    case OP_PROBE:
        break;
    }
    return ERR_OK;
}

/* Lays the settings of the kind under a new job's spec. The spec is the caller's: another run of
 * the batch may find other settings. */
static enum error_code apply_kind_defaults(struct batch *batch, struct op *op)
{
    const struct spec *asked = op->command.submit.spec;
    const struct kind_settings *kind = batch_kind(batch, asked->kind);
    if (kind == NULL || kind->retry.max_attempts == 0 || !op->takes_kind)
        return ERR_OK;
    struct spec *spec = arena_alloc(batch->arena, sizeof *spec);
    if (spec == NULL)
        return batch_no_memory(batch);
    *spec = *asked;
    op->code = spec_take_kind(spec, kind, &op->err);
    if (op->code == ERR_OK)
        op->command.submit.spec = spec;
    return ERR_OK;
}

/* Refuses all operations that stand or fall together for the sake of one of them. */
static void refuse_group(struct batch *batch, uint32_t first, uint32_t culprit)
{
    const struct op refused = *batch->ops[culprit];
    for (uint32_t i = first;
         i < batch->op_count && (i == first || batch->ops[i]->atomic_with_previous); i++) {
        if (refused.atomic && i != culprit) {
            batch->ops[i]->code = err_set(&batch->ops[i]->err, ERR_BATCH_REFUSED,
                                          "another operation of the batch was rejected");
            continue;
        }
        batch->ops[i]->code = refused.code;
        batch->ops[i]->err = refused.err;
        batch->ops[i]->refused_at = culprit - first;
    }
}

void batch_take_back(struct batch *batch, uint32_t culprit)
{
    uint32_t first = culprit;
    if (batch->ops[culprit]->type != OP_COMMAND ||
        batch->ops[culprit]->command.type != COMMAND_SUBMIT || batch->ops[culprit]->atomic)
        return;
    while (first > 0 && batch->ops[first]->atomic_with_previous)
        first--;
    for (uint32_t i = first; i < culprit; i++) {
        struct op *op = batch->ops[i];
        struct batch_job *job = batch_job_find(batch, op->job);
        struct store_key *key = batch_key(batch, op->command.submit.spec);
        assert(job != NULL && op->command.type == COMMAND_SUBMIT);
        if (op->result.duplicate)
            continue;
        *job = (struct batch_job){.before = job->before, .now = job->before};
        if (key != NULL)
            key->slice = *job->before;
    }
    refuse_group(batch, first, culprit);
}

enum error_code batch_apply_kind_defaults(struct batch *batch)
{
    uint32_t first = 0; /* of those that stand or fall together */
    for (uint32_t i = 0; i < batch->op_count && batch->load.kind_count > 0; i++) {
        struct op *op = batch->ops[i];
        if (!op->atomic_with_previous)
            first = i;
        if (op->type != OP_COMMAND || op->command.type != COMMAND_SUBMIT || op->code != ERR_OK)
            continue;
        enum error_code code = apply_kind_defaults(batch, op);
        if (code != ERR_OK)
            return code;
        if (op->code != ERR_OK)
            refuse_group(batch, first, i);
    }
    return ERR_OK;
}

/* Compares a submission with the job that has its key, or with the one before it in its group that
 * will have it: `firsts` has those, by the place of their key. */
static enum error_code check_key(struct batch *batch, struct op *op, const struct spec **firsts)
{
    const struct spec *spec = op->command.submit.spec;
    const struct store_key *key = batch_key(batch, spec);
    if (key == NULL)
        return ERR_OK;
    const struct job *job = &key->slice.job;
    assert(firsts != NULL);
    const struct spec **first = &firsts[key - batch->load.keys];
    bool stored = job->status != JOB_NONE;
    struct submitted known = {.spec = stored ? &job->spec : *first, .hidden = op->command.blind};
    if (known.spec == NULL) {
        *first = spec;
        return ERR_OK;
    }
    known.planned = stored ? job_has_plan(job) : str_is_set(known.spec->plan);
    known.redacted = stored && job->redacted;
    op->code = spec_check_repeat(spec, &known, batch->batcher->store->options.seed, batch->arena,
                                 &op->err);
    return op->code == ERR_NO_MEMORY ? batch_no_memory(batch) : ERR_OK;
}

enum error_code batch_check_keys(struct batch *batch, uint32_t index)
{
    uint32_t end = index + 1;
    while (end < batch->op_count && batch->ops[end]->atomic_with_previous)
        end++;
    if (batch->ops[index]->atomic_with_previous || end == index + 1 || batch->load.key_count == 0)
        return ERR_OK;
    const struct spec **firsts = arena_zalloc(batch->arena, batch->load.key_count, sizeof(void *));
    enum error_code code = firsts == NULL ? batch_no_memory(batch) : ERR_OK;
    for (uint32_t i = index; i < end && code == ERR_OK; i++) {
        struct op *op = batch->ops[i];
        if (op->type != OP_COMMAND || op->command.type != COMMAND_SUBMIT || op->code != ERR_OK)
            continue;
        code = check_key(batch, op, firsts);
        if (op->code != ERR_OK) {
            refuse_group(batch, index, i);
            break;
        }
    }
    return code;
}
