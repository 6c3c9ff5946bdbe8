/* Claims: what each finds, in its lanes or among the jobs that its own batch makes, so that nobody
 * has to wait for a second commit; and what it gets of that. Which work it may have, and in which
 * order, claim_order.c says. */
#include <assert.h>
#include <stdlib.h>

#include "core/lifetime.h"
#include "engine/claim_order.h"

/* Begins anew when numbers may mean other lanes than they did. */
static void begin_era(struct lane_table *table, uint64_t era)
{
    arena_clear(&table->arena);
    *table = (struct lane_table){.arena = table->arena, .era = era, .batches = table->batches};
}

static enum error_code learn_lane(struct batch *batch, const struct store_lane *fresh)
{
    struct lane_table *table = &batch->batcher->lanes;
    if (table->count > 0 && fresh->number <= table->at[table->count - 1].number)
        return err_set(batch->err, ERR_CORRUPT, "a lane has the number %u", fresh->number);
    if (table->count == table->cap) {
        uint32_t cap = table->cap < 32 ? 64 : table->cap * 2;
        struct known_lane *at =
            arena_grow(&table->arena, table->at, table->cap * sizeof *at, cap * sizeof *at);
        if (at == NULL)
            return batch_no_memory(batch);
        table->at = at;
        table->cap = cap;
    }
    struct str key = arena_copy(&table->arena, fresh->key);
    if (!str_is_set(key))
        return batch_no_memory(batch);
    struct known_lane known = {.number = fresh->number};
    enum error_code code = lane_read(key, &table->arena, &known.lane, batch->err);
    if (code == ERR_OK)
        table->at[table->count++] = known;
    return code;
}

/* Reads the lanes that came since the last time. */
static enum error_code learn_lanes(struct batch *batch)
{
    struct lane_table *table = &batch->batcher->lanes;
    struct store_lane *fresh = NULL;
    uint32_t count = 0;
    if (table->era != batch->load.lanes_era)
        begin_era(table, batch->load.lanes_era);
    uint32_t after = table->count > 0 ? table->at[table->count - 1].number : 0;
    enum error_code code = store_lanes(batch->txn, after, batch->arena, &fresh, &count, batch->err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = learn_lane(batch, &fresh[i]);
    return code;
}

/* A claim of steps needs its resource, alive and with a free slot; more than that it cannot hold.
 */
static enum error_code check_resource(struct batch *batch, struct op *op, uint32_t *max)
{
    if (op->claim.claimer.work != LANE_STEPS)
        return ERR_OK;
    struct resource *resource = batch_resource(batch, op->claim.resource_id);
    if (resource != NULL && !resource_may_use(resource, op->queues))
        resource = NULL; /* another's is not there */
    op->claim.claimer.resource = resource;
    op->command.claim.resource = resource;
    if (!str_is_set(op->claim.resource_id))
        return err_set(&op->err, ERR_BAD_REQUEST, "resource_id is required to claim a step");
    if (resource == NULL)
        return err_set(&op->err, ERR_NOT_FOUND, "unknown resource \"%.*s\": register it first",
                       STR_ARG(op->claim.resource_id));
    if (resource_in_cooldown(resource, batch->load.now))
        op->free_at = resource->cooldown_until;
    if (resource_check_free(resource, batch->load.now, NULL) != ERR_OK)
        *max = 0;
    else if (resource->slots - resource->used < *max)
        *max = (uint32_t)(resource->slots - resource->used);
    return ERR_OK;
}

/* What would be refused for any work is refused at once: anyone who claims that way shall not think
 * that there is no work. */
static enum error_code check_terms(const struct command *command, struct err *err)
{
    enum error_code code = record_check_name(command->claim.worker_id, "worker_id", err);
    return code != ERR_OK ? code
                          : lease_terms_check(command->claim.terms.lease_ttl_ms,
                                              command->claim.terms.heartbeat_ms, err);
}

static enum error_code prepare(struct batch *batch, struct op *op, struct store_search *search)
{
    uint32_t max = op->claim.max;
    if (max == 0 || max > CLAIM_MAX) {
        op->code =
            err_set(&op->err, ERR_BAD_REQUEST, "max must be from 1 to %d, not %u", CLAIM_MAX, max);
        return ERR_OK;
    }
    op->code = check_terms(&op->command, &op->err);
    if (op->code == ERR_OK)
        op->code = check_resource(batch, op, &max);
    if (op->code != ERR_OK || max == 0)
        return ERR_OK;
    search->max = max;
    return claim_order_lanes(batch, op, search);
}

enum error_code batch_look_ahead(struct batch *batch)
{
    uint32_t turn = batch->batcher->turn;
    uint32_t count = 0;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < batch->op_count; i++)
        count += batch->ops[i]->type == OP_CLAIM;
    if (count == 0 || batch->batcher->lanes.count == 0)
        return ERR_OK;
    struct store_search *searches = arena_zalloc(batch->arena, count, sizeof *searches);
    if (searches == NULL)
        return batch_no_memory(batch);
    count = 0;
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++) {
        const struct op *op = batch->ops[i];
        if (op->type != OP_CLAIM || op->claim.claimer.work != LANE_JOBS || op->claim.max == 0 ||
            op->claim.max > CLAIM_MAX)
            continue;
        searches[count] = (struct store_search){.max = op->claim.max};
        code = claim_order_lanes(batch, op, &searches[count]);
        count += searches[count].group_count > 0;
    }
    batch->batcher->turn = turn;
    batch->load.searches = searches;
    batch->load.search_count = count;
    return code;
}

/* Adds what was found to the jobs of the batch and has the parts loaded that a claim needs. */
static enum error_code take_in(struct batch *batch, struct op *op, struct store_search *search,
                               struct intent *intents, uint32_t *intent_count)
{
    for (uint32_t i = 0; i < search->found_count; i++) {
        struct store_candidate *found = &search->found[i];
        struct batch_job *job = batch_job_find(batch, found->slice.job.id);
        enum error_code code = ERR_OK;
        if (job == NULL)
            code = batch_job_add(batch, &found->slice, &job);
        /* It was named before it was there: another server has made it since. */
        else if (job->before->job.status == JOB_NONE && job->event_count == 0)
            job->before = job->now = &found->slice;
        if (code != ERR_OK)
            return code;
        if (found->step == STEP_NONE) {
            job->taken = true;
        } else {
            struct step_mark *mark = batch_step_mark(batch, job, found->step);
            if (mark == NULL)
                return batch_no_memory(batch);
            mark->taken = true;
        }
        intents[(*intent_count)++] =
            (struct intent){.job = job, .command = &op->command, .step = found->step};
    }
    return ERR_OK;
}

static enum error_code load_found(struct batch *batch, uint32_t total)
{
    struct intent *intents = arena_zalloc(batch->arena, total + 1, sizeof *intents);
    uint32_t count = 0;
    if (intents == NULL)
        return batch_no_memory(batch);
    enum error_code code = batch_jobs_reserve(batch, total);
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++)
        code = take_in(batch, batch->ops[i], &batch->searches[i], intents, &count);
    return code == ERR_OK ? batch_load_parts(batch, intents, count) : code;
}

/* ---- claims that lose ---- */

static struct known_lane *known_lane_find(struct lane_table *table, uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = table->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->at[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && table->at[low].number == number ? &table->at[low] : NULL;
}

/* Whether a lane that the search looked into has given its work to a claim before it. */
static bool is_outrun(struct lane_table *table, const struct store_search *search)
{
    uint32_t lanes = search->group_count == 0 ? 0 : search->group_ends[search->group_count - 1];
    for (uint32_t i = 0; i < lanes; i++) {
        const struct known_lane *lane = known_lane_find(table, search->lanes[i]);
        if (lane != NULL && lane->taken_in == table->batches)
            return true;
    }
    return false;
}

/* Notes which claims went away with nothing since others were faster: claims of this batch, or of
 * another transaction. */
static void note_losers(struct batch *batch)
{
    struct lane_table *table = &batch->batcher->lanes;
    table->batches++;
    for (uint32_t i = 0; i < batch->op_count; i++) {
        const struct store_search *search = &batch->searches[i];
        for (uint32_t k = 0; k < search->found_count; k++) {
            struct known_lane *lane = known_lane_find(table, search->found[k].lane);
            if (lane != NULL)
                lane->taken_in = table->batches;
        }
        batch->claim_conflicts += search->skipped_locked;
        if (search->max > 0 && search->found_count == 0)
            batch->ops[i]->claim.lost = is_outrun(table, search);
    }
}

enum error_code batch_search(struct batch *batch)
{
    uint32_t count = 0;
    uint32_t total = 0;
    for (uint32_t i = 0; i < batch->op_count; i++)
        count += batch->ops[i]->type == OP_CLAIM && !op_is_repeated(batch->ops[i]);
    if (count == 0)
        return ERR_OK;
    batch->searches = arena_zalloc(batch->arena, batch->op_count, sizeof *batch->searches);
    struct store_search *asked = arena_zalloc(batch->arena, count, sizeof *asked);
    if (batch->searches == NULL || asked == NULL)
        return batch_no_memory(batch);
    enum error_code code = learn_lanes(batch);
    count = 0;
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++) {
        struct op *op = batch->ops[i];
        if (op->type != OP_CLAIM || op->code != ERR_OK || op_is_repeated(op))
            continue;
        code = prepare(batch, op, &batch->searches[i]);
        if (batch->searches[i].max > 0 && batch->searches[i].group_count > 0)
            asked[count++] = batch->searches[i];
    }
    if (code == ERR_OK)
        code = store_candidates(batch->txn, asked, count, batch->arena, batch->err);
    batch->searched = count > 0;
    count = 0;
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++) {
        if (batch->searches[i].max > 0 && batch->searches[i].group_count > 0)
            batch->searches[i] = asked[count++];
        total += batch->searches[i].found_count;
    }
    if (code == ERR_OK)
        note_losers(batch);
    return code == ERR_OK && total > 0 ? load_found(batch, total) : code;
}

/* A job whose life was over before its timer fired is ended here, so that no claim meets it again.
 * One with a plan is left to its timer, which is due. */
static enum error_code end_outlived(struct batch *batch, struct op *op, struct batch_job *job)
{
    static const struct command end = {.type = COMMAND_LIFETIME, .actor = STR_INIT("pawl")};
    struct decision_result answer;
    enum error_code refusal = ERR_OK;
    struct err why = {0};
    if (!job_outlived(&job->now->job, batch->load.now) || job_has_plan(&job->now->job))
        return ERR_OK;
    op->met_outlived = true;
    return batch_decide(batch, job, &end, &answer, &refusal, &why);
}

/* A claim is too full for the rest of what it has found: that is put back, for other claims. */
static enum error_code leave_rest(struct batch *batch, const struct store_search *search,
                                  uint32_t first)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = first; i < search->found_count && code == ERR_OK; i++) {
        uint32_t ordinal = search->found[i].step;
        const struct job_slice *now = batch_job_find(batch, search->found[i].slice.job.id)->now;
        const struct step *step = ordinal == STEP_NONE ? NULL : job_step_at(now, ordinal);
        struct schedule_entry place = {0};
        code = step == NULL
                   ? schedule_entry_of_job(&now->job, batch->arena, &place, batch->err)
                   : schedule_entry_of_step(&now->job, step, batch->arena, &place, batch->err);
        if (str_is_set(place.lane))
            batch_note_ready(batch, place.lane);
    }
    return code;
}

enum error_code batch_claim(struct batch *batch, struct op *op, struct store_search *search)
{
    op->grants = arena_alloc(batch->arena, search->found_count * sizeof *op->grants);
    if (op->grants == NULL)
        return batch_no_memory(batch);
    size_t bytes = 0;
    for (uint32_t i = 0; i < search->found_count; i++) {
        if (bytes >= CLAIM_BYTES_MAX)
            return leave_rest(batch, search, i);
        uint32_t ordinal = search->found[i].step;
        struct batch_job *job = batch_job_find(batch, search->found[i].slice.job.id);
        struct grant *grant = &op->grants[op->grant_count];
        struct command command = op->command;
        const struct step *step = ordinal == STEP_NONE ? NULL : job_step_at(job->now, ordinal);
        enum error_code refusal = ERR_OK;
        struct err why = {0};
        if (!claim_may_have(op, &job->now->job))
            continue;
        command.step = step != NULL ? step->spec.id : (struct str){NULL, 0};
        if (ordinal != STEP_NONE && step == NULL)
            return err_set(batch->err, ERR_CORRUPT, "a claimable step does not exist");
        enum error_code code = batch_decide(batch, job, &command, &grant->result, &refusal, &why);
        if (code != ERR_OK)
            return code;
        /* What another operation of this batch has changed meanwhile stays where that put it. */
        if (refusal != ERR_OK) {
            batch->claim_conflicts++;
            code = end_outlived(batch, op, job);
            if (code != ERR_OK)
                return code;
            continue;
        }
        bytes += job->now->job.spec.payload.len;
        grant->slice = batch_job_view(job);
        grant->step = ordinal == STEP_NONE ? NULL : job_step_at(grant->slice, ordinal);
        if (op->claim.claimer.resource != NULL)
            batch_resource(batch, op->claim.resource_id)->used++;
        op->grant_count++;
    }
    return ERR_OK;
}

/* ---- jobs that this batch has made ---- */

void batch_note_new(struct batch *batch, const struct job *job)
{
    if (batch->new_count == 0 && !batch->new_ranked)
        batch->new_priority = job->spec.priority;
    batch->new_ranked = batch->new_ranked || job->spec.priority != batch->new_priority;
    batch->new_count++;
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
        enum error_code code = claim_first_new(batch, op, &job);
        if (code != ERR_OK || job == NULL)
            return code;
        if (!reserved)
            code = reserve(batch, op);
        reserved = true;
        if (code != ERR_OK)
            return code;
        struct grant *grant = &op->grants[op->grant_count];
        *grant = (struct grant){0};
        code = batch_decide(batch, job, &op->command, &grant->result, &refusal, &why);
        if (code != ERR_OK || refusal != ERR_OK)
            return code;
        bytes += job->now->job.spec.payload.len;
        grant->slice = job->now;
        op->grant_count++;
        batch->new_count--;
    }
    return ERR_OK;
}
