/* Claims that wait for work: who is woken by what. */
#include <assert.h>

#include "engine/engine_private.h"

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
    return mix(hash, op->claim.resource_id.at, op->claim.resource_id.len);
}

bool engine_park(struct engine *engine, struct call *call)
{
    struct op *op = call->ops[0];
    if (call->wait_ms == 0 || op->code != ERR_OK || op->grant_count > 0 || op->request.repeated)
        return false;
    if (engine_interrupted(engine) || engine->stop || engine->parked.count >= PARKED_MAX ||
        call->park_until <= engine_steady(engine))
        return false;
    call->signature = signature_of(op);
    call_list_add(&engine->parked, call);
    if (call->park_until < engine->park_next)
        engine->park_next = call->park_until;
    return true;
}

static void wake(struct engine *engine, struct call *call, bool chained)
{
    call_list_remove(&engine->parked, call);
    call->chained = chained;
    engine->bytes += call->bytes;
    call_list_add(&engine->waiting, call);
}

/* Whether the claim may take work of the lane. What its resource can do is known in the batch. */
static bool may_take(const struct call *call, const struct lane *lane)
{
    const struct claimer *claimer = &call->ops[0]->claim.claimer;
    if (claimer->work != lane->work)
        return false;
    return lane->work == LANE_STEPS || lane_takes(lane, claimer);
}

void engine_wake_news(struct engine *engine, const struct batch_news *news)
{
    for (uint32_t i = 0; i < news->ready_count; i++) {
        const struct ready_lane *ready = &news->ready[i];
        uint32_t left = ready->count;
        struct call *next;
        if (ready->lane.work == LANE_STEPS) {
            engine_wake_each(engine);
            continue;
        }
        for (struct call *call = engine->parked.first; call != NULL && left > 0; call = next) {
            uint32_t max = call->ops[0]->claim.max;
            next = call->next;
            if (!may_take(call, &ready->lane))
                continue;
            wake(engine, call, false);
            left -= max < left ? max : left;
        }
    }
}

void engine_wake_each(struct engine *engine)
{
    enum { SORTS = 256 };
    uint64_t seen[SORTS];
    uint32_t sorts = 0;
    struct call *next;
    for (struct call *call = engine->parked.first; call != NULL && sorts < SORTS; call = next) {
        bool known = false;
        next = call->next;
        for (uint32_t i = 0; i < sorts; i++)
            known = known || seen[i] == call->signature;
        if (known)
            continue;
        seen[sorts++] = call->signature;
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
        if (all || call->park_until <= now) {
            call_list_remove(&engine->parked, call);
            call_list_add(ret_over, call);
        } else if (call->park_until < engine->park_next) {
            engine->park_next = call->park_until;
        }
    }
}
