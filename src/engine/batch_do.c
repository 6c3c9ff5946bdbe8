/* The operations of a batch, one by one: decided, and folded into their jobs. */
#include <assert.h>

#include "core/retention.h"
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

static enum error_code decide_one(struct batch *batch, struct batch_job *job,
                                  const struct command *command, struct answer *ret_answer,
                                  enum error_code *ret_refusal, struct err *refusal)
{
    struct context context = batch_context(batch, &job->now.job);
    struct decision decision;
    uint8_t head[HASH_LEN];
    memcpy(head, job->now.job.head, HASH_LEN);
    enum error_code code = job_decide(&job->now, command, &context, &decision, refusal);
    *ret_refusal = code;
    if (code == ERR_NO_MEMORY || code == ERR_CORRUPT)
        return err_set(batch->err, code, "%s", refusal->detail);
    if (code != ERR_OK)
        return ERR_OK;
    *ret_answer = decision.answer;
    if (decision.answer.duplicate)
        return ERR_OK;
    code = decision_seal(&decision, head, batch->arena, batch->err);
    if (code == ERR_OK)
        code = keep_events(batch, job, &decision);
    if (code == ERR_OK)
        job->now = decision.after;
    return code;
}

/* Wakes the steps that began to wait although a signal for them is stored. */
static enum error_code wake_steps(struct batch *batch, struct batch_job *job,
                                  const struct job_slice *before)
{
    for (uint32_t i = 0; i < job->now.step_count; i++) {
        const struct step *step = &job->now.steps[i];
        const struct step *was = job_step_at(before, step->ordinal);
        bool began = step_standing(step) == STANDING_ASKING &&
                     (was == NULL || step_standing(was) != STANDING_ASKING);
        if (!began || !str_is_set(step->question.correlation_key))
            continue;
        struct command wake = {.type = COMMAND_WAKE, .actor = STR("pawl"), .step = step->spec.id};
        struct answer answer;
        enum error_code refusal;
        struct err why = {0};
        enum error_code code = batch_load_wait(batch, job, step->ordinal);
        if (code == ERR_OK)
            code = decide_one(batch, job, &wake, &answer, &refusal, &why);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

enum error_code batch_decide(struct batch *batch, struct batch_job *job,
                             const struct command *command, struct answer *ret_answer,
                             enum error_code *ret_refusal, struct err *refusal)
{
    struct job_slice before = job->now;
    enum error_code code = decide_one(batch, job, command, ret_answer, ret_refusal, refusal);
    bool wake = code == ERR_OK && *ret_refusal == ERR_OK && ret_answer->wake;
    for (uint32_t i = 0; wake && code == ERR_OK && i < WAKES_MAX; i++) {
        uint32_t events = job->event_count;
        struct job_slice begun = job->now;
        code = wake_steps(batch, job, &before);
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
    enum error_code code = batch_decide(batch, job, &command, &op->answer, &op->code, &op->err);
    if (code != ERR_OK || op->code != ERR_OK)
        return code;
    command = (struct command){.type = COMMAND_DEAD_LETTER, .actor = STR("pawl")};
    command.dead_letter.reason_code = DEAD_VALIDATION_FAILED;
    command.dead_letter.stage = STAGE_INPUT;
    command.dead_letter.message = buf_str(&message);
    code = batch_decide(batch, job, &command, &op->answer, &op->code, &op->err);
    op->after = job->now;
    return code;
}

static enum error_code do_submit(struct batch *batch, struct batch_job *job, struct op *op)
{
    struct command command = op->command;
    struct store_key *key = batch_key(batch, command.submit.spec);
    bool known = key != NULL && key->slice.job.status != JOB_NONE;
    if (known && op->keeps_id)
        return bury_duplicate(batch, job, op, &key->slice.job);
    command.submit.duplicate = known ? &key->slice.job : NULL;
    enum error_code code = batch_decide(batch, job, &command, &op->answer, &op->code, &op->err);
    op->after = known ? key->slice : job->now;
    if (code == ERR_OK && op->code == ERR_OK && key != NULL)
        key->slice = op->after;
    return code;
}

static enum error_code do_command(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    if (op->command.type == COMMAND_SUBMIT)
        return do_submit(batch, job, op);
    enum error_code code = batch_decide(batch, job, &op->command, &op->answer, &op->code, &op->err);
    op->after = job->now;
    return code;
}

/* The timer that fired is at the time that the store said, unless it is kept with a lease. */
static enum error_code retime(struct batch *batch, struct batch_job *job, const struct op *op,
                              bool leased, int64_t next)
{
    struct retiming retiming = {
        .set = true, .was = leased ? 0 : op->due.at, .now = next, .events = job->event_count};
    if (op->due.step == STEP_NONE) {
        job->retiming = retiming;
        return ERR_OK;
    }
    struct step_mark *mark = batch_step_mark(batch, job, op->due.step);
    if (mark == NULL)
        return batch_no_memory(batch);
    mark->retiming = retiming;
    return ERR_OK;
}

static enum error_code do_due(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    const struct step *step =
        op->due.step == STEP_NONE ? NULL : job_step_at(&job->now, op->due.step);
    op->after = job->now;
    if (job->now.job.status == JOB_NONE || (op->due.step != STEP_NONE && step == NULL))
        return ERR_OK; /* deleted or replanned since */
    const struct lease *lease = step != NULL ? &step->lease : &job->now.job.lease;
    struct context context = batch_context(batch, &job->now.job);
    struct command command = {.actor = STR("pawl")};
    int64_t next = 0;
    command.type = placement_due(&job->now.job, step, &context, &next);
    if (command.type == COMMAND_NONE)
        return retime(batch, job, op, lease->live, next);
    if (step != NULL)
        command.step = step->spec.id;
    if (command.type == COMMAND_EXPIRE)
        command.expire.attempt = step != NULL ? step->attempt : job->now.job.attempt;
    bool leased = lease->live;
    enum error_code refusal = ERR_OK;
    enum error_code code = batch_decide(batch, job, &command, &op->answer, &refusal, &op->err);
    op->after = job->now;
    if (code != ERR_OK || refusal == ERR_OK || refusal == ERR_UNAVAILABLE)
        return code;
    /* There was nothing to do after all. A timer has done its duty; a lease is looked at again. */
    return retime(batch, job, op, leased, leased ? batch->load.now + LOOK_AGAIN_MS : 0);
}

static enum error_code do_erase(struct batch *batch, struct op *op)
{
    struct batch_job *job = batch_job_find(batch, op->job);
    assert(job != NULL);
    const struct job *now = &job->now.job;
    op->code =
        op->type == OP_REDACT ? job_check_redact(now, &op->err) : job_check_drop(now, &op->err);
    if (op->code != ERR_OK)
        return ERR_OK;
    int64_t purge_at = job_purge_at(now, batch_context(batch, now).kind);
    if (op->type == OP_PURGE && (purge_at == 0 || purge_at > batch->load.now)) {
        job->redate = true;
        op->code = err_set(&op->err, ERR_INVALID_TRANSITION, "the job is to be kept for longer");
        return ERR_OK;
    }
    /* What comes after it in this batch must see it. */
    if (op->type == OP_REDACT)
        job->redact = job->now.job.redacted = true;
    else
        job->purge = true;
    return ERR_OK;
}

static enum error_code do_setting(struct op *op)
{
    if (op->type == OP_KIND) {
        op->code = record_check_name(op->kind->kind, "kind", &op->err);
        if (op->code == ERR_OK)
            op->code = kind_settings_check(&op->kind->settings, &op->err);
    } else if (op->type == OP_QUEUE) {
        op->code = record_check_name(op->queue.queue, "queue", &op->err);
    } else if (op->type == OP_RESOURCE) {
        op->code = record_check_name(op->resource->id, "resource_id", &op->err);
    }
    return ERR_OK;
}

enum error_code batch_do(struct batch *batch, uint32_t index)
{
    struct op *op = &batch->ops[index];
    const struct batch_job *job = batch_job_find(batch, op->job);
    op->answer = (struct answer){0};
    if (job != NULL && job->purge) {
        op->code = err_set(&op->err, ERR_NOT_FOUND, "the job was deleted just now");
        return ERR_OK;
    }
    switch (op->type) {
    case OP_COMMAND:
        return do_command(batch, op);
    case OP_CLAIM:
        return batch_claim(batch, op, &batch->searches[index]);
    case OP_DUE:
        return do_due(batch, op);
    case OP_PURGE:
    case OP_DROP:
    case OP_REDACT:
        return do_erase(batch, op);
    case OP_RESOURCE_GONE:
        if (batch_resource(batch, op->resource_gone) == NULL)
            op->code = err_set(&op->err, ERR_NOT_FOUND, "there is no resource \"%.*s\"",
                               STR_ARG(op->resource_gone));
        return ERR_OK;
    case OP_RESOURCE:
    case OP_KIND:
    case OP_QUEUE:
        return do_setting(op);
    }
    return ERR_OK;
}
