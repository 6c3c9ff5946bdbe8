#include "store/row.h"

#include <assert.h>

/* Most states fit; longer ones grow. */
enum { STATE_BYTES = 768 };

static enum error_code finish(const struct buf *buf, struct str *ret)
{
    *ret = buf_str(buf);
    return buf->failed ? ERR_NO_MEMORY : ERR_OK;
}

enum error_code row_of_job(const struct store_job_write *write, enum state_form form,
                           struct arena *arena, struct job_row *ret)
{
    const struct job *job = &write->after->job;
    struct buf buf;
    buf_init(&buf, arena, STATE_BYTES);
    job_state_write(job, form, &buf);
    *ret = (struct job_row){
        .id = job->id,
        .status = job->status,
        .version = job->version,
        .retry_count = job->failures,
        .created_at = job->created_at,
        .updated_at = job->updated_at,
        .cursor = job->cursor,
        .redacted = write->redact || job->redacted,
        .kind = job->spec.kind,
        .queue = job->spec.queue,
        .priority = job->spec.priority,
        .agent_id = job->spec.agent_id,
        .goal = job->spec.goal,
        .correlation_id = job->spec.correlation_id,
        .idempotency_key = job->spec.idempotency_key,
        .labels = job->spec.labels,
        .reason_code = job->dead_letter.reason_code,
        .purge_at = write->purge_at,
        .asking = job_asks(job),
    };
    memcpy(ret->head, job->head, sizeof ret->head);
    memcpy(ret->salt, job->salt, sizeof ret->salt);
    return finish(&buf, &ret->state);
}

enum error_code row_add_plan(const struct step *step, struct arena *arena, struct step_row *row)
{
    struct buf plan;
    buf_init(&plan, arena, STATE_BYTES);
    step_plan_write(step, &plan);
    return finish(&plan, &row->plan);
}

enum error_code row_of_step(const struct step *step, struct arena *arena, struct step_row *ret)
{
    struct buf state;
    *ret = (struct step_row){
        .ordinal = step->ordinal,
        .id = step->spec.id,
        .state_number = step->state,
    };
    if (step_standing(step) == STANDING_ASKING)
        ret->asking_key = step->question.correlation_key;
    buf_init(&state, arena, STATE_BYTES);
    step_state_write(step, &state);
    return finish(&state, &ret->state);
}

enum error_code row_of_effect(const struct effect *effect, enum state_form form,
                              struct arena *arena, struct effect_row *ret)
{
    struct buf buf;
    buf_init(&buf, arena, STATE_BYTES / 2);
    effect_state_write(effect, form, &buf);
    *ret = (struct effect_row){
        .name = effect->name,
        .step = effect->step,
        .key = effect->key,
        .version = effect->version,
        .open = effect_is_open(effect),
    };
    return finish(&buf, &ret->state);
}

struct claim_row row_of_lease(const struct job *job, const struct step *step, int64_t due_at)
{
    const struct lease *lease = step != NULL ? &step->lease : &job->lease;
    return (struct claim_row){
        .present = true,
        .worker_id = lease->worker_id,
        .resource_id = step != NULL ? step_slot(step) : (struct str){NULL, 0},
        .attempt = step != NULL ? step->attempt : job->attempt,
        .beat_at = lease->beat_at,
        .expires_at = lease->expires_at,
        .due_at = due_at,
        .progress = step != NULL ? step->progress : job->progress,
        .cursor = step != NULL ? step->cursor : job->cursor,
    };
}

bool row_step_beats_only(const struct store_step_write *write, const struct schedule_entry *was)
{
    return store_row_same(write->changed) && was->leased && write->now.leased;
}

/* Heartbeats write the claim and nothing else: it knows better than the state. */
static void take_beats(const struct claim_row *claim, struct lease *lease, struct str *progress,
                       struct str *cursor)
{
    if (!claim->present)
        return;
    lease->beat_at = claim->beat_at;
    lease->expires_at = claim->expires_at;
    *progress = claim->progress;
    *cursor = claim->cursor;
}

enum error_code row_name_job(struct uuid id, enum error_code code, struct err *err)
{
    char text[UUID_TEXT_LEN];
    if (code != ERR_CORRUPT || err == NULL)
        return code;
    struct err why = *err;
    uuid_format(id, text);
    return err_set(err, ERR_CORRUPT, "job %.*s cannot be read: %s", UUID_TEXT_LEN, text,
                   why.detail);
}

enum error_code row_to_job(const struct job_row *row, uint64_t seed, struct arena *arena,
                           struct job_slice *ret, struct err *err)
{
    struct job_slice slice;
    job_slice_init(&slice, row->id, seed);
    struct job *job = &slice.job;
    if (row->status < 0 || row->status >= JOB_STATUS_COUNT)
        return row_name_job(
            row->id,
            err_set(err, ERR_CORRUPT, "it has the unknown status %lld", (long long)row->status),
            err);
    job->status = (enum job_status)row->status;
    job->version = row->version;
    job->failures = row->retry_count;
    job->created_at = row->created_at;
    job->updated_at = row->updated_at;
    job->cursor = row->cursor;
    memcpy(job->head, row->head, sizeof job->head);
    memcpy(job->salt, row->salt, sizeof job->salt);
    enum error_code code = job_state_read(row->state, arena, job, err);
    if (code == ERR_OK)
        code = job_spec_read(row->created, arena, &job->spec, err);
    if (code != ERR_OK)
        return row_name_job(row->id, code, err);
    job->redacted = row->redacted;
    if (row->redacted) {
        /* Of the spec only what the job is found by is left. */
        job->spec.kind = row->kind;
        job->spec.queue = row->queue;
        job->spec.priority = row->priority;
        job->spec.agent_id = row->agent_id;
        job->spec.correlation_id = row->correlation_id;
        job->spec.idempotency_key = row->idempotency_key;
    }
    take_beats(&row->claim, &job->lease, &job->progress, &job->cursor);
    *ret = slice;
    return ERR_OK;
}

enum error_code row_damaged(struct store_job *job, uint64_t seed, enum error_code code,
                            struct arena *arena, const struct err *err)
{
    static const struct str unknown = STR_INIT("it is not readable");
    job->damaged = (struct str){NULL, 0};
    if (code != ERR_CORRUPT)
        return code;
    job_slice_init(&job->slice, job->id, seed);
    job->redacted = false;
    job->damaged = arena_copy(arena, err == NULL ? unknown : str_from(err->detail));
    return str_is_set(job->damaged) ? ERR_OK : ERR_NO_MEMORY;
}

enum error_code row_to_step(const struct step_row *row, struct arena *arena, struct step *ret,
                            struct err *err)
{
    struct step step = {.ordinal = row->ordinal};
    enum error_code code = step_plan_read(row->plan, arena, &step, err);
    if (code == ERR_OK)
        code = step_state_read(row->state, arena, &step, err);
    if (code != ERR_OK)
        return code;
    take_beats(&row->claim, &step.lease, &step.progress, &step.cursor);
    *ret = step;
    return ERR_OK;
}

enum error_code row_to_effect(const struct effect_row *row, struct arena *arena, struct effect *ret,
                              struct err *err)
{
    struct effect effect = {.step = row->step, .key = row->key, .version = row->version};
    enum error_code code = effect_state_read(row->state, arena, &effect, err);
    if (code == ERR_OK)
        *ret = effect;
    return code;
}

enum error_code row_count_steps(int64_t state_number, int64_t count,
                                int64_t counts[STEP_STATE_COUNT], struct err *err)
{
    if (state_number < 0 || state_number >= STEP_STATE_COUNT)
        return err_set(err, ERR_CORRUPT, "a step has the unknown state %lld",
                       (long long)state_number);
    counts[state_number] += count;
    return ERR_OK;
}
