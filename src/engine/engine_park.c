/* Claims that wait for work: who is woken by what. */
#include <assert.h>

#include "engine/engine_private.h"

/* How often those who wait are asked whether they are still there. */
enum { WANTED_MS = 2000 };

/* FNV-1a: it decides nothing but who is woken first. */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_names(uint64_t hash, const struct names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        hash = mix(mix(hash, names->at[i].at, names->at[i].len), "", 1);
    return mix(hash, "\1", 1);
}

static uint64_t signature_of(const struct op *op)
{
    const struct claimer *claimer = &op->claim.claimer;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = mix(hash, &claimer->work, sizeof claimer->work);
    hash = mix_names(hash, &claimer->queues);
    hash = mix_names(hash, &claimer->kinds);
    hash = mix_names(hash, &claimer->capabilities);
    hash = mix(hash, op->claim.resource_id.at, op->claim.resource_id.len);
    return hash != 0 ? hash : 1;
}

/* When a parked call has to be looked at again. */
static void look_at(struct engine *engine, const struct call *call, int64_t now)
{
    int64_t at = call->park_until;
    if (call->wanted != NULL && now + WANTED_MS < at)
        at = now + WANTED_MS;
    if (call->again_at < at)
        at = call->again_at;
    if (at < engine->park_next)
        engine->park_next = at;
}

bool engine_park(struct engine *engine, struct call *call)
{
    struct op *op = call->ops[0];
    int64_t now = engine_steady(engine);
    if (call->wait_ms == 0 || op->code != ERR_OK || op->grant_count > 0 || op->request.repeated)
        return false;
    if (engine_interrupted(engine) || engine->stop || engine->parked.count >= PARKED_MAX ||
        call->park_until <= now)
        return false;
    call->signature = signature_of(op);
    call->again_at = INT64_MAX;
    if (op->free_at > 0)
        call->again_at = now + (op->free_at - engine->batcher.news.now);
    call_list_add(&engine->parked, call);
    look_at(engine, call, now);
    return true;
}

static void wake(struct engine *engine, struct call *call, bool chained)
{
    call_list_remove(&engine->parked, call);
    call->woken = true;
    call->chained = chained;
    engine->bytes += call->bytes;
    call_list_add(&engine->waiting, call);
}

/* Whether the claim may take work of the lane. Steps are another matter: see engine_wake_news. */
static bool may_take(const struct call *call, const struct lane *lane)
{
    const struct claimer *claimer = &call->ops[0]->claim.claimer;
    return claimer->work == lane->work && lane->work != LANE_STEPS && lane_takes(lane, claimer);
}

/* Wakes claims for the lanes that have work, one for each piece: those that may take of one lane
 * only, or those that have a choice. */
static void wake_for(struct engine *engine, const struct batch_news *news, bool choosy)
{
    struct call *next;
    for (struct call *call = engine->parked.first; call != NULL; call = next) {
        uint32_t max = call->ops[0]->claim.max;
        struct ready_lane *found = NULL;
        uint32_t lanes = 0;
        bool any = false;
        next = call->next;
        for (uint32_t i = 0; i < news->ready_count; i++) {
            struct ready_lane *ready = &news->ready[i];
            any = any || ready->count > 0;
            if (!may_take(call, &ready->lane))
                continue;
            lanes++;
            if (ready->count > 0)
                found = ready;
        }
        if (!any)
            return;
        if (found == NULL || (lanes == 1) != choosy)
            continue;
        found->count -= max < found->count ? max : found->count;
        wake(engine, call, false);
    }
}

void engine_wake_news(struct engine *engine, const struct batch_news *news)
{
    bool steps = news->slots_freed;
    for (uint32_t i = 0; i < news->ready_count; i++)
        steps = steps || news->ready[i].lane.work == LANE_STEPS;
    /* Which resource may take which step is known in a batch only. */
    if (steps)
        engine_wake_each(engine, true);
    /* Who has a choice could take from those who have none. */
    wake_for(engine, news, true);
    wake_for(engine, news, false);
}

/* Whether a sort is in the table; it is from now on. */
static bool is_known(uint64_t *sorts, uint64_t signature)
{
    uint32_t at = (uint32_t)signature & (SORTS_MAX - 1);
    while (sorts[at] != 0 && sorts[at] != signature)
        at = (at + 1) & (SORTS_MAX - 1);
    bool known = sorts[at] == signature;
    sorts[at] = signature;
    return known;
}

void engine_wake_each(struct engine *engine, bool steps_only)
{
    struct call *next;
    if (engine->parked.count == 0)
        return;
    memset(engine->sorts, 0, sizeof engine->sorts);
    for (struct call *call = engine->parked.first; call != NULL; call = next) {
        bool steps = call->ops[0]->claim.claimer.work == LANE_STEPS;
        next = call->next;
        if ((steps || !steps_only) && !is_known(engine->sorts, call->signature))
            wake(engine, call, true);
    }
}

void engine_wake_next(struct engine *engine, const struct call *lucky)
{
    for (struct call *call = engine->parked.first; call != NULL; call = call->next) {
        if (call->signature == lucky->signature) {
            wake(engine, call, true);
            return;
        }
    }
}

void engine_unpark(struct engine *engine, bool all, struct call_list *ret_over)
{
    int64_t now = engine_steady(engine);
    struct call *next;
    engine->park_next = INT64_MAX;
    for (struct call *call = engine->parked.first; call != NULL; call = next) {
        next = call->next;
        if (all || call->park_until <= now ||
            (call->wanted != NULL && !call->wanted(call->wanted_arg))) {
            call_list_remove(&engine->parked, call);
            call_list_add(ret_over, call);
        } else if (call->again_at <= now) {
            wake(engine, call, true);
        } else {
            look_at(engine, call, now);
        }
    }
}
