#include "engine/recall.h"

#include <assert.h>
#include <stdlib.h>

#include "core/evolve.h"
#include "core/job_state.h"
#include "core/request_memo.h"
#include "core/token.h"

static enum error_code damaged(struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "the record of this request is damaged: it was executed before, but its "
                   "response cannot be repeated");
}

/* ---- whole responses ---------------------------------------------------------------------- */

void recall_write(const struct verb_call *call, struct buf *buf)
{
    buf_add_int(buf, call->result.status);
    buf_add_char(buf, ' ');
    verb_write(call, buf);
}

static enum error_code recall_text(struct verb_call *call, struct str record, struct err *err)
{
    int status = 0;
    size_t i = 0;
    while (i < record.len && i < 3 && record.at[i] >= '0' && record.at[i] <= '9')
        status = status * 10 + (record.at[i++] - '0');
    if (i >= record.len || record.at[i] != ' ')
        return damaged(err);
    struct str text = {record.at + i + 1, record.len - i - 1};
    enum error_code code = json_check_answer(text, "the record", call->arena, NULL);
    if (code == ERR_NO_MEMORY)
        return verb_no_memory(err);
    if (code != ERR_OK || status < 200 || status > 299)
        return damaged(err);
    call->result = (struct verb_result){.status = status, .has_come = true, .text = text};
    return ERR_OK;
}

/* ---- jobs as they were -------------------------------------------------------------------- */

/* A job as the response shows it, and where it goes: into the operation, or one of its leases. */
struct sighting {
    struct uuid job;
    int64_t version;
    struct op *op;
    const struct request_entry *entry;
    const struct request_lease *lease; /* NULL: the job itself */
    struct grant *grant;
};

/* So many events are read at a time, and so much of what was read is let lie before it is dropped
 * but for what the job still has of it. */
enum { REPLAY_EVENTS = 16, REPLAY_BYTES = 4 * 1024 * 1024 };

/* A job on its way through its history. */
struct replay {
    struct verb_call *call;
    struct store_txn *txn;
    struct arena arenas[2];
    struct arena *arena; /* which of them has the job */
    size_t room;         /* it is left for the other when it is larger */
    bool parts;          /* the response shows an effect or a step */
    uint64_t seed;
    struct job_slice slice;
    bool gone;
    bool redacted; /* `slice` is the job as it is now */
};

static int by_job_and_version(const void *a, const void *b)
{
    const struct sighting *left = a;
    const struct sighting *right = b;
    int order = memcmp(left->job.bytes, right->job.bytes, sizeof left->job.bytes);
    return order != 0 ? order : (left->version > right->version) - (left->version < right->version);
}

static void replay_begin(struct replay *replay, struct uuid job)
{
    arena_clear(replay->arena);
    replay->room = REPLAY_BYTES;
    job_slice_init(&replay->slice, job, replay->seed);
    replay->gone = replay->redacted = false;
}

/* The job as it is now, with all of its parts. */
static enum error_code load_redacted(struct replay *replay, struct err *err)
{
    struct store_job job;
    struct verb_call any = {.arena = replay->arena}; /* the caller was authorised the first time */
    enum error_code code = verb_load_job(&any, replay->txn, replay->slice.job.id, true, &job, err);
    replay->gone = code == ERR_NOT_FOUND;
    replay->redacted = code == ERR_OK;
    if (code == ERR_OK)
        replay->slice = job.slice;
    return replay->gone ? ERR_OK : code;
}

/* A copy of a step with its texts. */
static enum error_code copy_step(const struct step *from, struct arena *arena, struct step *ret,
                                 struct err *err)
{
    struct buf plan;
    struct buf state;
    buf_init(&plan, arena, 256);
    buf_init(&state, arena, 256);
    step_plan_write(from, &plan);
    step_state_write(from, &state);
    if (plan.failed || state.failed)
        return verb_no_memory(err);
    *ret = (struct step){.ordinal = from->ordinal};
    enum error_code code = step_plan_read(buf_str(&plan), arena, ret, err);
    return code == ERR_OK ? step_state_read(buf_str(&state), arena, ret, err) : code;
}

/* Copies the texts of a job's parts, without what neither the fold nor the response needs. */
static enum error_code copy_parts(struct job_slice *slice, bool parts, struct arena *arena,
                                  struct err *err)
{
    static const struct str none = {NULL, 0};
    bool copied = true;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < slice->effect_count && copied; i++) {
        struct effect *effect = &slice->effects[i];
        if (!parts)
            effect->result = effect->error = none;
        copied = effect_copy_texts(effect, arena);
    }
    for (uint32_t i = 0; i < slice->signal_count; i++) {
        /* By its version an event names it; its texts are the decision's. */
        struct signal *signal = &slice->signals[i];
        signal->payload = signal->correlation_key = signal->signal_id = none;
    }
    for (uint32_t i = 0; i < slice->step_count && copied && code == ERR_OK; i++) {
        struct step step = slice->steps[i];
        if (!parts)
            step.result = step.error = step.answer = step.progress = none;
        code = copy_step(&step, arena, &slice->steps[i], err);
    }
    return copied ? code : verb_no_memory(err);
}

/* Leaves what was read behind, but for what the job has of it. Jobs that are large themselves have
 * to grow to twice their size before they are copied again. */
static enum error_code replay_move(struct replay *replay, struct err *err)
{
    struct arena *to = replay->arena == replay->arenas ? replay->arenas + 1 : replay->arenas;
    struct job_slice slice;
    if (arena_size(replay->arena) <= replay->room)
        return ERR_OK;
    enum error_code code = copy_parts(&replay->slice, replay->parts, to, err);
    if (code != ERR_OK)
        return code;
    if (!job_copy_texts(&replay->slice.job, NULL, to) ||
        job_slice_copy(&replay->slice, to, &slice) != ERR_OK ||
        (slice.step_index.count > 0 && job_slice_index(&slice, to) != ERR_OK))
        return verb_no_memory(err);
    arena_release(replay->arena);
    replay->arena = to;
    replay->slice = slice;
    if (arena_size(to) * 2 > replay->room)
        replay->room = arena_size(to) * 2;
    return ERR_OK;
}

static enum error_code fold_page(struct replay *replay, struct event *events, uint32_t count,
                                 struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        code = event_open(&events[i], replay->seed, replay->arena, err);
        if (code == ERR_OK)
            code = job_evolve(&replay->slice, &events[i], replay->arena, err);
    }
    return code == ERR_OK ? replay_move(replay, err) : code;
}

/* Goes on until the job has that version. */
static enum error_code replay_to(struct replay *replay, int64_t version, struct err *err)
{
    struct job *job = &replay->slice.job;
    enum error_code code = ERR_OK;
    while (code == ERR_OK && !replay->gone && !replay->redacted && job->version < version) {
        int64_t left = version - job->version;
        struct store_stream stream = {
            .job = job->id,
            .after = job->version,
            .limit = left < REPLAY_EVENTS ? (uint32_t)left : REPLAY_EVENTS,
        };
        struct event *events = NULL;
        uint32_t count = 0;
        code = store_events(replay->txn, &stream, replay->arena, &events, &count, err);
        if (code == ERR_OK && count == 0 && job->version > 0)
            return err_set(
                err, ERR_CORRUPT,
                "the record of the request is for version %lld of a job that has version %lld",
                (long long)version, (long long)job->version);
        if (code == ERR_OK && count == 0)
            replay->gone = true;
        else if (code == ERR_OK && events[0].redacted)
            code = load_redacted(replay, err);
        else if (code == ERR_OK)
            code = fold_page(replay, events, count, err);
    }
    return code;
}

/* ---- what is shown of them ---------------------------------------------------------------- */

/* A copy of the header, and of the step with that ordinal when `of_step`, for as long as the call
 * lives. */
static enum error_code keep_slice(struct verb_call *call, const struct job_slice *from,
                                  bool of_step, uint32_t ordinal, struct job_slice **ret,
                                  struct err *err)
{
    struct job_slice *slice = arena_zalloc(call->arena, 1, sizeof *slice);
    const struct step *step = of_step ? job_step_at(from, ordinal) : NULL;
    if (slice == NULL)
        return verb_no_memory(err);
    job_slice_init(slice, from->job.id, from->seed);
    slice->job = from->job;
    if (!job_copy_texts(&slice->job, NULL, call->arena))
        return verb_no_memory(err);
    *ret = slice;
    if (step == NULL)
        return ERR_OK;
    slice->steps = arena_zalloc(call->arena, 1, sizeof *slice->steps);
    if (slice->steps == NULL)
        return verb_no_memory(err);
    slice->step_count = 1;
    return copy_step(step, call->arena, slice->steps, err);
}

/* What a begin was told of its effect. */
static enum error_code recall_effect(struct verb_call *call, const struct replay *replay,
                                     struct op *op, const struct step *step, struct err *err)
{
    struct decision_result *answer = &op->result;
    struct str key = op->command.type == COMMAND_EFFECT_BEGIN ? op->command.effect_begin.key
                                                              : op->command.effect_commit.begin.key;
    struct str of = step != NULL ? step->spec.id : (struct str){NULL, 0};
    answer->effect_idempotency_key = effect_idempotency_key(&op->after->job, of, key, call->arena);
    struct str name = effect_name(of, key, call->arena);
    if (!str_is_set(answer->effect_idempotency_key) || !str_is_set(name))
        return verb_no_memory(err);
    const struct effect *effect = job_effect(&replay->slice, name);
    if (answer->effect != EFFECT_RECORDED || effect == NULL)
        return ERR_OK;
    answer->effect_result = arena_copy(call->arena, effect->result);
    answer->effect_error = arena_copy(call->arena, effect->error);
    bool whole = str_is_set(answer->effect_result) == str_is_set(effect->result) &&
                 str_is_set(answer->effect_error) == str_is_set(effect->error);
    return whole ? ERR_OK : verb_no_memory(err);
}

static enum error_code recall_job(struct replay *replay, const struct sighting *sighting,
                                  struct err *err)
{
    struct verb_call *call = replay->call;
    struct op *op = sighting->op;
    const struct request_beats *beats = &sighting->entry->job.beats;
    struct token token;
    struct job_slice *slice;
    bool of_step = token_parse(op->command.token, &token) && token.of_step;
    enum error_code code =
        keep_slice(call, &replay->slice, of_step, of_step ? token.step : 0, &slice, err);
    if (code != ERR_OK)
        return code;
    if (beats->set && slice->job.lease.live) {
        slice->job.lease.beat_at = beats->beat_at;
        slice->job.lease.expires_at = beats->expires_at;
        slice->job.progress = beats->progress;
        slice->job.cursor = beats->cursor;
    }
    /* This is all that its response has, and nothing that redaction erases. */
    if (op->command.type == COMMAND_APPEND)
        slice->job.version = sighting->version;
    op->after = slice;
    op->result = sighting->entry->job.result;
    return sighting->entry->job.has_effect_key
               ? recall_effect(call, replay, op, slice->step_count > 0 ? slice->steps : NULL, err)
               : ERR_OK;
}

static enum error_code recall_lease(struct replay *replay, const struct sighting *sighting,
                                    struct err *err)
{
    const struct request_lease *lease = sighting->lease;
    struct grant *grant = sighting->grant;
    struct job_slice *slice;
    enum error_code code =
        keep_slice(replay->call, &replay->slice, lease->of_step, lease->step, &slice, err);
    if (code != ERR_OK)
        return code;
    const struct step *step = slice->step_count > 0 ? &slice->steps[0] : NULL;
    if (lease->of_step && step == NULL)
        return damaged(err);
    char *text = arena_alloc(replay->call->arena, TOKEN_TEXT_MAX);
    if (text == NULL)
        return verb_no_memory(err);
    struct token token = {
        .job = lease->job,
        .of_step = lease->of_step,
        .step = lease->step,
        .attempt = step != NULL ? step->attempt : slice->job.attempt,
    };
    memcpy(token.secret, lease->secret, TOKEN_SECRET_LEN);
    *grant = (struct grant){.slice = slice, .step = step};
    grant->result.token = (struct str){text, token_format(&token, text)};
    grant->result.expires_at = step != NULL ? step->lease.expires_at : slice->job.lease.expires_at;
    return ERR_OK;
}

/* Whether the response shows more than the header of a job. */
static bool shows_parts(const struct sighting *sighting)
{
    struct token token;
    if (sighting->lease != NULL)
        return sighting->lease->of_step;
    return sighting->entry->job.has_effect_key ||
           (token_parse(sighting->op->command.token, &token) && token.of_step);
}

static enum error_code recall_one(struct replay *replay, const struct sighting *sighting,
                                  struct err *err)
{
    char id[UUID_TEXT_LEN];
    enum error_code code = replay_to(replay, sighting->version, err);
    if (code != ERR_OK)
        return code;
    if (sighting->lease != NULL)
        return replay->gone || replay->redacted ? ERR_OK : recall_lease(replay, sighting, err);
    if (!replay->gone)
        return recall_job(replay, sighting, err);
    uuid_format(sighting->job, id);
    sighting->op->code =
        err_set(&sighting->op->err, ERR_NOT_FOUND,
                "the request was executed, but job %.*s was deleted later", UUID_TEXT_LEN, id);
    return ERR_OK;
}

static enum error_code recall_all(struct verb_call *call, struct sighting *sightings,
                                  uint32_t count, struct err *err)
{
    struct store *store = engine_store(call->engine);
    struct replay replay = {.call = call, .seed = store->options.seed};
    if (count == 0)
        return ERR_OK;
    qsort(sightings, count, sizeof *sightings, by_job_and_version);
    enum error_code code = store_begin(store, STORE_READ, &replay.txn, err);
    if (code != ERR_OK)
        return code;
    arena_init(&replay.arenas[0]);
    arena_init(&replay.arenas[1]);
    replay.arena = replay.arenas;
    for (uint32_t i = 0; i < count; i++)
        replay.parts = replay.parts || shows_parts(&sightings[i]);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        if (i == 0 || !uuid_eq(sightings[i].job, sightings[i - 1].job))
            replay_begin(&replay, sightings[i].job);
        code = recall_one(&replay, &sightings[i], err);
    }
    arena_release(&replay.arenas[0]);
    arena_release(&replay.arenas[1]);
    store_rollback(replay.txn);
    return code;
}

/* ---- records ------------------------------------------------------------------------------ */

/* Notes which jobs the entry shows, and fills in what else the operation came to. */
static enum error_code take_entry(struct verb_call *call, const struct request_entry *entry,
                                  struct op *op, struct sighting *sightings, uint32_t *count,
                                  struct err *err)
{
    op->code = ERR_OK;
    switch (entry->type) {
    case REQUEST_JOB:
        sightings[(*count)++] = (struct sighting){
            .job = entry->job.job, .version = entry->job.version, .op = op, .entry = entry};
        return ERR_OK;
    case REQUEST_CLAIM:
        op->grants = arena_zalloc(call->arena, entry->claim.count, sizeof *op->grants);
        if (op->grants == NULL && entry->claim.count > 0)
            return verb_no_memory(err);
        op->grant_count = entry->claim.count;
        for (uint32_t i = 0; i < entry->claim.count; i++) {
            const struct request_lease *lease = &entry->claim.leases[i];
            sightings[(*count)++] = (struct sighting){.job = lease->job,
                                                      .version = lease->version,
                                                      .lease = lease,
                                                      .grant = &op->grants[i]};
        }
        return ERR_OK;
    case REQUEST_REFUSED:
        op->code = err_set(&op->err, entry->refused.code, "%.*s", (int)entry->refused.detail.len,
                           entry->refused.detail.at);
        op->refused_at = entry->refused.at;
        return ERR_OK;
    case REQUEST_BODY:
        op->request.status = entry->body.status;
        op->request.body = entry->body.text;
        return ERR_OK;
    }
    return ERR_OK;
}

/* Leaves out the leases that could not be told again. */
static void close_gaps(struct op *op)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < op->grant_count; i++)
        if (op->grants[i].slice != NULL)
            op->grants[kept++] = op->grants[i];
    op->grant_count = kept;
}

/* Whether an entry is of an operation like this one. The same request makes the same operations,
 * unless another version of Pawl reads it. */
static bool fits(const struct op *op, const struct request_entry *entry)
{
    switch (entry->type) {
    case REQUEST_JOB:
        return op->type == OP_COMMAND;
    case REQUEST_CLAIM:
        return op->type == OP_CLAIM;
    case REQUEST_REFUSED:
        return true;
    case REQUEST_BODY:
        return !op_is_of_jobs(op);
    }
    return false;
}

enum error_code recall(struct verb_call *call, struct str record, struct err *err)
{
    struct request_memo memo;
    uint32_t most = 0;
    uint32_t at = 0;
    uint32_t count = 0;
    if (!request_is_memo(record))
        return recall_text(call, record, err);
    enum error_code code = request_memo_read(record, call->arena, &memo, err);
    if (code != ERR_OK)
        return code == ERR_CORRUPT ? damaged(err) : code;
    for (uint32_t i = 0; i < memo.count; i++)
        most += memo.entries[i].type == REQUEST_CLAIM ? memo.entries[i].claim.count : 1;
    struct sighting *sightings = arena_zalloc(call->arena, most + (size_t)1, sizeof *sightings);
    if (sightings == NULL)
        return verb_no_memory(err);
    for (uint32_t i = 0; i < call->call.count && code == ERR_OK; i++) {
        struct op *op = call->call.ops[i];
        if (!op_is_recorded(op))
            continue;
        if (at == memo.count || !fits(op, &memo.entries[at]))
            return damaged(err);
        code = take_entry(call, &memo.entries[at++], op, sightings, &count, err);
    }
    if (code == ERR_OK && at < memo.count)
        return damaged(err);
    if (code == ERR_OK)
        code = recall_all(call, sightings, count, err);
    for (uint32_t i = 0; i < call->call.count; i++)
        close_gaps(call->call.ops[i]);
    return code;
}
