/* Claims that wait for work: who is woken by what.
 *
 * Thousands may wait, and of most of them a new job means nothing. So those that name one queue, as
 * most do, stand in a line of their queue (of some queues, by a hash), and all others in a line of
 * their own: news are for the line of their queue and that one. In each they stand as they came,
 * and `parked_order` tells who came first of two. */
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

/* Says when a parked call has to be looked at again. */
static void look_later(struct engine *engine, struct call *call, int64_t now)
{
    call->look_at = call->park_until;
    if (call->wanted != NULL && now + WANTED_MS < call->look_at)
        call->look_at = now + WANTED_MS;
    if (call->again_at < call->look_at)
        call->look_at = call->again_at;
    if (call->look_at >= engine->park_next)
        return;
    engine->park_next = call->look_at;
    engine->nudged = true;
}

static struct call_list *line_of_queue(struct engine *engine, struct str queue)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), queue.at, queue.len);
    return &engine->parked[hash % PARK_LINES];
}

/* The line in which a claim waits; the last is for those that do not name one queue. */
static struct call_list *line_of(struct engine *engine, const struct call *call)
{
    const struct claimer *claimer = &call->ops[0]->claim.claimer;
    return claimer->queues.count == 1 ? line_of_queue(engine, claimer->queues.at[0])
                                      : &engine->parked[PARK_LINES];
}

bool engine_park(struct runner *runner, struct call *call)
{
    struct engine *engine = runner->engine;
    struct op *op = call->ops[0];
    int64_t now = engine_steady(engine);
    if (call->wait_ms == 0 || op->code != ERR_OK || op->grant_count > 0 || op->request.repeated)
        return false;
    if (engine_interrupted(engine) || engine->stop || engine->parked_count >= PARKED_MAX ||
        call->park_until <= now)
        return false;
    call->signature = signature_of(op);
    call->again_at = INT64_MAX;
    if (op->free_at > 0)
        call->again_at = now + (op->free_at - runner->batcher.news.now);
    call->parked_order = engine->parked_order++;
    call->passed_over = engine->in_flight > 0;
    engine->passed_over += call->passed_over;
    call_list_add(line_of(engine, call), call);
    engine->parked_count++;
    look_later(engine, call, now);
    return true;
}

static void unpark(struct engine *engine, struct call *call)
{
    call_list_remove(line_of(engine, call), call);
    engine->parked_count--;
    engine->passed_over -= call->passed_over;
    call->passed_over = false;
}

static void wake(struct engine *engine, struct call *call, bool chained)
{
    unpark(engine, call);
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

/* Walks over those who may want work of a queue, as they came. */
struct walk {
    struct call *of_queue;
    struct call *others;
};

static struct walk walk_of(struct engine *engine, struct str queue)
{
    return (struct walk){line_of_queue(engine, queue)->first, engine->parked[PARK_LINES].first};
}

/* The next one, which may leave its line then; NULL: there is none. */
static struct call *walk_on(struct walk *walk)
{
    struct call **from =
        walk->of_queue != NULL &&
                (walk->others == NULL || walk->of_queue->parked_order < walk->others->parked_order)
            ? &walk->of_queue
            : &walk->others;
    struct call *call = *from;
    if (call != NULL)
        *from = call->next;
    return call;
}

/* Whether the claim has no choice but one of the lanes that have got work. */
static bool is_choosy(const struct call *call, const struct batch_news *news)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < news->ready_count; i++)
        lanes += may_take(call, &news->ready[i].lane);
    return lanes == 1;
}

/* Wakes claims for a lane that has work, one for each piece: those that may take of no other lane,
 * or those that have a choice. */
static void wake_for(struct engine *engine, const struct batch_news *news, struct ready_lane *ready,
                     bool choosy)
{
    struct walk walk = walk_of(engine, ready->lane.queue);
    struct call *call;
    while (ready->count > 0 && (call = walk_on(&walk)) != NULL) {
        uint32_t max = call->ops[0]->claim.max;
        if (!may_take(call, &ready->lane) || is_choosy(call, news) != choosy)
            continue;
        ready->count -= max < ready->count ? max : ready->count;
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
    for (uint32_t i = 0; i < news->ready_count; i++)
        wake_for(engine, news, &news->ready[i], true);
    for (uint32_t i = 0; i < news->ready_count; i++)
        wake_for(engine, news, &news->ready[i], false);
}

/* ---- new jobs ---- */

/* The lane of a job that is about to be made, as far as a claim must know before it is: whether it
 * can have it shows in the batch. False: it will not be there for claims at once. */
static bool lane_of_new(const struct op *op, struct lane *ret)
{
    if (op->type != OP_COMMAND || op->command.type != COMMAND_SUBMIT)
        return false;
    const struct spec *spec = op->command.submit.spec;
    *ret = (struct lane){.work = LANE_JOBS, .queue = spec->queue, .kind = spec->kind};
    return spec->run_at == 0 && spec->delay_ms == 0 && !str_is_set(spec->capabilities);
}

static struct call *find_for(struct engine *engine, const struct lane *lane)
{
    struct walk walk = walk_of(engine, lane->queue);
    struct call *call;
    do {
        call = walk_on(&walk);
    } while (call != NULL && !may_take(call, lane));
    return call;
}

void engine_join(struct runner *runner, struct call_list *calls, uint32_t *count)
{
    struct engine *engine = runner->engine;
    const struct call *last = NULL; /* who was found for the job before, */
    uint32_t room = 0;              /* and how many more it takes */
    uint32_t jobs = *count;
    for (uint32_t i = 0; i < jobs && engine->parked_count > 0 && *count < BATCH_OPS_MAX; i++) {
        struct lane lane;
        if (!lane_of_new(runner->ops[i], &lane))
            continue;
        if (room > 0 && may_take(last, &lane)) {
            room--;
            continue;
        }
        struct call *call = find_for(engine, &lane);
        /* Whoever is gone is found out by engine_unpark. */
        if (call == NULL || (call->wanted != NULL && !call->wanted(call->wanted_arg)))
            continue;
        unpark(engine, call);
        call->woken = true;
        call_list_add(calls, call);
        runner->ops[(*count)++] = call->ops[0];
        last = call;
        room = call->ops[0]->claim.max - 1;
    }
}

/* ---- those whom nobody told ---- */

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
    if (engine->parked_count == 0)
        return;
    memset(engine->sorts, 0, sizeof engine->sorts);
    for (uint32_t line = 0; line <= PARK_LINES; line++)
        for (struct call *call = engine->parked[line].first; call != NULL; call = next) {
            bool steps = call->ops[0]->claim.claimer.work == LANE_STEPS;
            next = call->next;
            if ((steps || !steps_only) && !is_known(engine->sorts, call->signature))
                wake(engine, call, true);
        }
}

void engine_wake_next(struct engine *engine, const struct call *lucky)
{
    /* Who takes the same work waits in the same line. */
    for (struct call *call = line_of(engine, lucky)->first; call != NULL; call = call->next) {
        if (call->signature == lucky->signature) {
            wake(engine, call, true);
            return;
        }
    }
}

void engine_wake_passed(struct engine *engine)
{
    struct call *next;
    for (uint32_t line = 0; line <= PARK_LINES && engine->passed_over > 0; line++)
        for (struct call *call = engine->parked[line].first; call != NULL; call = next) {
            next = call->next;
            if (call->passed_over)
                wake(engine, call, false);
        }
}

void engine_unpark(struct engine *engine, bool all, struct call_list *ret_over)
{
    int64_t now = engine_steady(engine);
    struct call *next;
    engine->park_next = INT64_MAX;
    for (uint32_t line = 0; line <= PARK_LINES; line++)
        for (struct call *call = engine->parked[line].first; call != NULL; call = next) {
            next = call->next;
            /* To ask whether somebody is still there is dear. */
            if (!all && now < call->look_at) {
                if (call->look_at < engine->park_next)
                    engine->park_next = call->look_at;
                continue;
            }
            if (all || call->park_until <= now ||
                (call->wanted != NULL && !call->wanted(call->wanted_arg))) {
                unpark(engine, call);
                call_list_add(ret_over, call);
            } else if (call->again_at <= now) {
                wake(engine, call, true);
            } else {
                look_later(engine, call, now);
            }
        }
}
