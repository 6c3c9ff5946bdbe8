/* explain: why a job is where it is, and what moves it next. */
#include "core/action.h"
#include "core/explain.h"
#include "core/machine.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/verb.h"

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)

struct id_request {
    struct str id;
};

static const struct record_field id_fields[] = {FIELD(id_request, id, TEXT)};
RECORD_TABLE(id);

static enum error_code read_id_request(const struct verb_call *call, struct uuid *ret,
                                       struct err *err)
{
    struct id_request request = {0};
    enum error_code code = verb_read(call, &id_record, &request, err);
    return code == ERR_OK ? verb_job_id(request.id, ret, err) : code;
}

/* Who could claim the job. Only numbers are told, so that all workers count, also those that the
 * caller may not see. */
static enum error_code count_workers(struct verb_call *call, struct store_txn *txn,
                                     const struct job *job, int64_t now,
                                     struct worker_coverage *ret, struct err *err)
{
    struct worker *workers = NULL;
    struct store_worker *holders = NULL;
    uint32_t count = 0;
    uint32_t holder_count = 0;
    enum error_code code = store_registrations(txn, call->arena, &workers, &count, err);
    if (code == ERR_OK && count > 0)
        code = store_workers(txn, NULL, call->arena, &holders, &holder_count, err);
    ret->pin = job->pin;
    /* Both lists are in the order of ids. */
    uint32_t h = 0;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        int64_t leases = 0;
        while (h < holder_count && str_cmp(holders[h].worker_id, workers[i].id) < 0)
            h++;
        for (; h < holder_count && str_eq(holders[h].worker_id, workers[i].id); h++)
            leases += holders[h].leases;
        worker_cover(ret, &workers[i], leases, job->spec.kind, job->spec.queue, now);
    }
    return code;
}

/* The job with its steps, what an operator has set, and who could claim it, as of one moment. */
static enum error_code load_explained(struct verb_call *call, struct uuid id,
                                      struct store_load *ret, struct job_slice *ret_slice,
                                      struct worker_coverage *ret_workers, struct err *err)
{
    struct store_txn *txn;
    struct store_job *job = arena_zalloc(call->arena, 1, sizeof *job);
    struct store_parts parts = {.job = id, .all_steps = true};
    enum job_status to;
    if (job == NULL)
        return verb_no_memory(err);
    job->id = id;
    *ret = (struct store_load){.jobs = job, .job_count = 1};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, ret, call->arena, err);
    if (code == ERR_OK && !verb_may_see(call, &job->slice.job))
        code = verb_no_job(id, err);
    if (code == ERR_OK && job_has_plan(&job->slice.job))
        code = store_load_parts(txn, &parts, 1, call->arena, err);
    if (code == ERR_OK && job_move(job->slice.job.status, EVENT_JOB_LEASED, MOVE_PLAIN, &to))
        code = count_workers(call, txn, &job->slice.job, ret->now, ret_workers, err);
    store_rollback(txn);
    if (code != ERR_OK)
        return code;
    *ret_slice = job->slice;
    ret_slice->steps = parts.steps;
    ret_slice->step_count = parts.step_count;
    return job_slice_index(ret_slice, call->arena);
}

/* What the caller's token is good for, whatever the state of the job. */
static uint32_t actions_of(const struct verb_call *call)
{
    static const enum verb_name verbs[JOB_ACTION_COUNT] = {
        [ACTION_ANSWER] = VERB_answer_job, [ACTION_SIGNAL] = VERB_signal,
        [ACTION_RUN] = VERB_run_now,       [ACTION_REQUEUE] = VERB_requeue,
        [ACTION_RESUME] = VERB_resume,     [ACTION_PLAN] = VERB_plan,
        [ACTION_CANCEL] = VERB_cancel,     [ACTION_DEAD_LETTER] = VERB_dead_letter,
        [ACTION_DROP] = VERB_drop,         [ACTION_REDACT] = VERB_redact,
    };
    uint32_t actions = 0;
    for (int i = 0; i < JOB_ACTION_COUNT; i++)
        if (call->scopes == 0 || (call->scopes & access_scopes_of(verbs[i])) != 0)
            actions |= UINT32_C(1) << i;
    return actions;
}

/* A job, and what is known of what could move it. */
struct explained {
    struct job_slice slice;
    struct worker_coverage workers;
    struct explain_context context;
};

static enum error_code run_explain(struct verb_call *call, struct err *err)
{
    struct uuid id;
    struct store_load load = {0};
    struct explained *explained = verb_data(call, sizeof *explained);
    if (explained == NULL)
        return verb_no_memory(err);
    enum error_code code = read_id_request(call, &id, err);
    if (code == ERR_OK)
        code = load_explained(call, id, &load, &explained->slice, &explained->workers, err);
    if (code != ERR_OK)
        return code;
    const struct spec *spec = &explained->slice.job.spec;
    explained->context = (struct explain_context){
        .now = load.now,
        .queue_paused = names_have(&load.paused, spec->queue),
        .may = actions_of(call),
        .workers = &explained->workers,
    };
    for (uint32_t i = 0; i < load.kind_count; i++)
        if (str_eq(load.kinds[i].kind, spec->kind))
            explained->context.kind = &load.kinds[i].settings;
    return ERR_OK;
}

static void write_explained(const struct verb_call *call, struct json_writer *writer)
{
    const struct explained *explained = call->result.data;
    struct explain_context context = explained->context;
    context.arena = writer->buf->arena;
    job_explain(&explained->slice, &context, writer);
}

const struct verb verb_explain = {
    .request = &id_record, .run = run_explain, .write = write_explained};
