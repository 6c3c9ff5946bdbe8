#include "engine/claim_order.h"

#include <stdlib.h>

/* So many jobs of its own batch are looked at for a claim: one that finds none among them is woken
 * by the batch. */
enum { LOOK_MAX = 64 };

/* Whether nothing of the queue is given to the claim: it is paused, or not the caller's. */
static bool is_closed(const struct batch *batch, const struct op *op, struct str queue)
{
    return names_have(&batch->load.paused, queue) ||
           (op->queues != NULL && !names_have(op->queues, queue));
}

bool claim_may_have(const struct op *op, const struct job *job)
{
    const struct claimer *claimer = &op->claim.claimer;
    return (claimer->queues.count == 0 || names_have(&claimer->queues, job->spec.queue)) &&
           (claimer->kinds.count == 0 || claimer->work != LANE_JOBS ||
            names_have(&claimer->kinds, job->spec.kind)) &&
           (op->queues == NULL || names_have(op->queues, job->spec.queue));
}

/* ---- lanes ---- */

/* A lane that a claim may look into. */
struct open_lane {
    uint32_t number;
    struct str queue;
};

static int by_queue(const void *a, const void *b)
{
    const struct open_lane *left = a;
    const struct open_lane *right = b;
    int order = str_cmp(left->queue, right->queue);
    return order != 0 ? order : (left->number > right->number) - (left->number < right->number);
}

/* The lanes that a claim may look into now. */
static uint32_t find_lanes(const struct batch *batch, const struct op *op, struct open_lane *ret)
{
    const struct claimer *claimer = &op->claim.claimer;
    const struct lane_table *table = &batch->batcher->lanes;
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const struct lane *lane = &table->at[i].lane;
        if (!lane_takes(lane, claimer) || is_closed(batch, op, lane->queue))
            continue;
        ret[count++] = (struct open_lane){table->at[i].number, lane->queue};
    }
    if (count > 1)
        qsort(ret, count, sizeof *ret, by_queue);
    return count;
}

enum error_code claim_order_lanes(struct batch *batch, const struct op *op,
                                  struct store_search *search)
{
    struct open_lane *open =
        arena_zalloc(batch->arena, batch->batcher->lanes.count + 1, sizeof *open);
    uint32_t count = open == NULL ? 0 : find_lanes(batch, op, open);
    uint32_t *lanes = arena_zalloc(batch->arena, count + 1, sizeof *lanes);
    uint32_t *ends = arena_zalloc(batch->arena, count + 1, sizeof *ends);
    uint32_t *starts = arena_zalloc(batch->arena, count + 1, sizeof *starts);
    uint32_t groups = 0;
    uint32_t filled = 0;
    if (open == NULL || lanes == NULL || ends == NULL || starts == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || !str_eq(open[i - 1].queue, open[i].queue))
            starts[groups++] = i;
    starts[groups] = count;
    for (uint32_t g = 0; g < groups; g++) {
        uint32_t group = (g + batch->batcher->turn) % groups;
        for (uint32_t i = starts[group]; i < starts[group + 1]; i++)
            lanes[filled++] = open[i].number;
        ends[g] = filled;
    }
    search->lanes = lanes;
    search->group_ends = ends;
    search->group_count = groups;
    batch->batcher->turn++;
    return ERR_OK;
}

/* ---- jobs of the same batch ---- */

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

static enum error_code may_have_new(struct batch *batch, const struct op *op,
                                    const struct batch_job *job, bool *ret)
{
    struct schedule_entry place = {0};
    struct lane lane;
    *ret = false;
    if (!claim_may_have(op, &job->now->job) || is_closed(batch, op, job->now->job.spec.queue))
        return ERR_OK;
    enum error_code code = schedule_entry_of_job(&job->now->job, batch->arena, &place, batch->err);
    if (code != ERR_OK || !str_is_set(place.lane) || place.run_at > batch->load.now)
        return code;
    code = lane_read(place.lane, batch->arena, &lane, batch->err);
    if (code == ERR_OK)
        *ret = lane_takes(&lane, &op->claim.claimer);
    return code;
}

enum error_code claim_first_new(struct batch *batch, const struct op *op, struct batch_job **ret)
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
            (*ret != NULL && (*ret)->now->job.spec.priority >= job->now->job.spec.priority))
            continue;
        looks++;
        code = may_have_new(batch, op, job, &may);
        if (code != ERR_OK)
            return code;
        if (may)
            *ret = job;
        if (may && !batch->new_ranked)
            break;
    }
    return code;
}
