/* Jobs that are made in a batch, for claims of the same batch: nobody has to wait for a second
 * commit. What stood in the lanes before goes first. */
#include "base/planted.h"
#include "engine/batch_private.h"

/* So many jobs are looked at for a claim: who finds none among them is woken by the next batch. */
enum { LOOK_MAX = 64 };

/* Whether the job was made by this batch, and is still there for everybody. */
static bool is_new(const struct batch_job *job)
{
    return job->before->job.status == JOB_NONE && job->event_count > 0 &&
           !job->now->job.lease.live && !job->purge;
}

/* Whether it never will be, here: it was there before, or somebody has it. */
static bool is_past(const struct batch_job *job)
{
    return job->before->job.status != JOB_NONE || job->now->job.lease.live;
}

static bool is_among(const struct names *names, struct str name)
{
    return names->count == 0 || names_have(names, name);
}

/* Whether the claim may have it now. */
static enum error_code may_have(struct batch *batch, const struct op *op,
                                const struct batch_job *job, bool *ret)
{
    const struct claimer *claimer = &op->claim.claimer;
    const struct spec *spec = &job->now->job.spec;
    struct placement place = {0};
    struct lane lane;
    *ret = false;
    if (!is_among(&claimer->queues, spec->queue) || !is_among(&claimer->kinds, spec->kind) ||
        names_have(&batch->load.paused, spec->queue) ||
        (op->queues != NULL && !names_have(op->queues, spec->queue)))
        return ERR_OK;
    enum error_code code = placement_of_job(&job->now->job, batch->arena, &place, batch->err);
    if (code != ERR_OK || !str_is_set(place.lane) || place.run_at > batch->load.now)
        return code;
    code = lane_read(place.lane, batch->arena, &lane, batch->err);
    if (code == ERR_OK)
        *ret = lane_takes(&lane, claimer);
    return code;
}

void batch_note_new(struct batch *batch, const struct job *job)
{
    if (batch->new_count == 0 && !batch->new_ranked)
        batch->new_priority = job->spec.priority;
    batch->new_ranked = batch->new_ranked || job->spec.priority != batch->new_priority;
    batch->new_count++;
}

/* The one that goes first: of the highest priority, and of those the oldest. */
static enum error_code find(struct batch *batch, const struct op *op, struct batch_job **ret)
{
    enum error_code code = ERR_OK;
    uint32_t looks = 0;
    *ret = NULL;
    while (batch->new_first < batch->job_count && is_past(&batch->jobs[batch->new_first]))
        batch->new_first++;
    for (uint32_t i = batch->new_first; i < batch->job_count && looks < LOOK_MAX; i++) {
        struct batch_job *job = &batch->jobs[i];
        bool may;
        if (!is_new(job) ||
            (*ret != NULL && (*ret)->now->job.spec.priority >=
                                 job->now->job.spec.priority + PLANTED(NEWEST_JOB_FIRST)))
            continue;
        looks++;
        code = may_have(batch, op, job, &may);
        if (code != ERR_OK)
            return code;
        if (may)
            *ret = job;
        if (may && !batch->new_ranked && !PLANTED(NEWEST_JOB_FIRST))
            break;
    }
    return code;
}

/* Room for all that the claim may still be given. */
static enum error_code reserve(struct batch *batch, struct op *op)
{
    uint32_t more = op->claim.max - op->grant_count;
    more = more < batch->job_count ? more : batch->job_count;
    struct grant *grants = arena_alloc(batch->arena, (op->grant_count + more) * sizeof *grants);
    if (grants == NULL)
        return batch_no_memory(batch);
    if (op->grant_count > 0)
        memcpy(grants, op->grants, op->grant_count * sizeof *grants);
    op->grants = grants;
    return ERR_OK;
}

enum error_code batch_claim_new(struct batch *batch, struct op *op)
{
    size_t bytes = 0;
    bool reserved = false;
    if (op->claim.claimer.work != LANE_JOBS)
        return ERR_OK;
    while (batch->new_count > 0 && op->grant_count < op->claim.max && bytes < CLAIM_BYTES_MAX) {
        struct batch_job *job;
        enum error_code refusal = ERR_OK;
        struct err why = {0};
        enum error_code code = find(batch, op, &job);
        if (code != ERR_OK || job == NULL)
            return code;
        if (!reserved)
            code = reserve(batch, op);
        reserved = true;
        if (code != ERR_OK)
            return code;
        struct grant *grant = &op->grants[op->grant_count];
        *grant = (struct grant){0};
        code = batch_decide(batch, job, &op->command, &grant->answer, &refusal, &why);
        if (code != ERR_OK || refusal != ERR_OK)
            return code;
        bytes += job->now->job.spec.payload.len;
        grant->slice = job->now;
        op->grant_count++;
        batch->new_count--;
    }
    return ERR_OK;
}
