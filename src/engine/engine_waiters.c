/* Claims that wait for work: where they sleep, and which of them are told of what. What becomes of
 * one of them waiter.h says.
 *
 * Thousands may wait, and most new jobs are for few of them. So those that name one queue, as most
 * do, sleep in the line of their queue (of some queues, by a hash), all others in a line of their
 * own: work is for waiters of these two lines. Each line is in the order of arrival, and
 * `parked_order` says which of two waiters came first. */
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
    hash = mix(hash, "\2", 1);
    hash = mix(hash, claimer->code_version.at, claimer->code_version.len);
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

/* Whether the claim may take work of the lane. Which resource may take which step is known in a
 * batch only. */
static bool may_take(const struct call *call, const struct lane *lane)
{
    const struct claimer *claimer = &call->ops[0]->claim.claimer;
    return claimer->work == lane->work && lane->work != LANE_STEPS && lane_takes(lane, claimer);
}

/* ---- moves ---- */

static void park(struct engine *engine, struct call *call)
{
    int64_t now = engine_steady(engine);
    call->parked_order = engine->parked_order++;
    call_list_add(line_of(engine, call), call);
    engine->parked_count++;
    engine->shadowed_count += call->waiter == WAITER_SHADOWED;
    look_later(engine, call, now);
}

static bool is_parked(const struct call *call)
{
    return call->waiter == WAITER_PARKED || call->waiter == WAITER_SHADOWED;
}

static void unpark(struct engine *engine, struct call *call)
{
    call_list_remove(line_of(engine, call), call);
    engine->parked_count--;
    engine->shadowed_count -= call->waiter == WAITER_SHADOWED;
}

static void pass_on(struct engine *engine, const struct call *from, enum waiter_pass pass);

/* All of a move but where the waiter goes. Others may leave their lines. */
static enum waiter_action move_to(struct engine *engine, struct call *call, enum waiter_event event)
{
    struct waiter_move move = waiter_move(call->waiter, event);
    assert(move.action != WAITER_CANNOT);
    if (is_parked(call) && move.action != WAITER_STAYS)
        unpark(engine, call);
    call->waiter = move.to;
    if (move.pass != PASS_NOBODY)
        pass_on(engine, call, move.pass);
    return move.action;
}

enum waiter_action engine_waiter_move(struct engine *engine, struct call *call,
                                      enum waiter_event event)
{
    enum waiter_action action = move_to(engine, call, event);
    if (action == WAITER_PARKS)
        park(engine, call);
    if (action == WAITER_QUEUES) {
        engine->bytes += call->bytes;
        call_list_add(&engine->waiting, call);
    }
    return action;
}

/* Tells waiters that are in a batch of another runner: all of them, or those that may take work of
 * a lane. */
static void tell_running(struct engine *engine, enum waiter_event event, const struct lane *lane)
{
    for (uint32_t i = 0; i < engine->runner_count && engine->in_flight > 0; i++)
        for (struct call *call = engine->runners[i].calls.first; call != NULL; call = call->next)
            if (call->wait_ms > 0 && (lane == NULL || may_take(call, lane)))
                (void)engine_waiter_move(engine, call, event);
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

/* The next waiter, which the caller may then remove from its line, or NULL. */
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
static bool is_choosy(const struct call *call, const struct wakeups *wakeups)
{
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < wakeups->ready_count; i++)
        lanes += may_take(call, &wakeups->ready[i].lane);
    return lanes == 1;
}

/* Wakes claims for a lane that has work, one for each piece: those that may take of no other lane,
 * or those that have a choice. */
static void wake_for(struct engine *engine, const struct wakeups *wakeups, struct ready_lane *ready,
                     bool choosy)
{
    struct walk walk = walk_of(engine, ready->lane.queue);
    struct call *call;
    while (ready->count > 0 && (call = walk_on(&walk)) != NULL) {
        uint32_t max = call->ops[0]->claim.max;
        if (!may_take(call, &ready->lane) || is_choosy(call, wakeups) != choosy)
            continue;
        ready->count -= max < ready->count ? max : ready->count;
        bool passes = call->waiter == WAITER_SHADOWED;
        (void)engine_waiter_move(engine, call, WAITER_WORK);
        if (passes) /* others may have left their lines */
            walk = walk_of(engine, ready->lane.queue);
    }
}

void engine_tell_wakeups(struct engine *engine, const struct wakeups *wakeups)
{
    bool steps = wakeups->slots_freed;
    for (uint32_t i = 0; i < wakeups->ready_count; i++) {
        steps = steps || wakeups->ready[i].lane.work == LANE_STEPS;
        tell_running(engine, WAITER_WORK, &wakeups->ready[i].lane);
    }
    if (engine->parked_count == 0)
        return;
    if (steps)
        engine_tell_rumour(engine, RUMOUR_OF_STEPS);
    /* Who has a choice could take from those who have none. */
    for (uint32_t i = 0; i < wakeups->ready_count; i++)
        wake_for(engine, wakeups, &wakeups->ready[i], true);
    for (uint32_t i = 0; i < wakeups->ready_count; i++)
        wake_for(engine, wakeups, &wakeups->ready[i], false);
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

/* Not whose caller is gone: it is told so when its time has come. */
static struct call *find_for(struct engine *engine, const struct lane *lane)
{
    struct walk walk = walk_of(engine, lane->queue);
    struct call *call;
    do {
        call = walk_on(&walk);
    } while (call != NULL && (!may_take(call, lane) || !call_is_wanted(call)));
    return call;
}

void engine_join(struct runner *runner, uint32_t *count)
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
        if (call == NULL)
            continue;
        (void)move_to(engine, call, WAITER_WORK);
        call_list_add(&runner->calls, call);
        runner->ops[(*count)++] = call->ops[0];
        last = call;
        room = call->ops[0]->claim.max - 1;
    }
}

/* ---- work that nobody has counted ---- */

/* Whether a signature is in the table; it is from now on. */
static bool is_known(uint64_t *signatures, uint64_t signature)
{
    uint32_t at = (uint32_t)signature & (SIGNATURES_MAX - 1);
    while (signatures[at] != 0 && signatures[at] != signature)
        at = (at + 1) & (SIGNATURES_MAX - 1);
    bool known = signatures[at] == signature;
    signatures[at] = signature;
    return known;
}

static bool names_meet(const struct names *a, const struct names *b)
{
    bool meet = a->count == 0 || b->count == 0;
    for (uint32_t i = 0; i < a->count && !meet; i++)
        meet = names_have(b, a->at[i]);
    return meet;
}

/* Tells one waiter of each signature: of all, of those that claim steps, or, where `like` is set,
 * of those that may take some of the same work. */
static void tell_each(struct engine *engine, bool steps_only, const struct call *like)
{
    const struct claimer *same = like != NULL ? &like->ops[0]->claim.claimer : NULL;
    struct call *next;
    if (engine->parked_count == 0)
        return;
    memset(engine->signatures, 0, sizeof engine->signatures);
    for (uint32_t line = 0; line <= PARK_LINES; line++)
        for (struct call *call = engine->parked[line].first; call != NULL; call = next) {
            const struct claimer *claimer = &call->ops[0]->claim.claimer;
            next = call->next;
            if ((steps_only && claimer->work != LANE_STEPS) ||
                (same != NULL &&
                 (claimer->work != same->work || !names_meet(&claimer->queues, &same->queues) ||
                  !names_meet(&claimer->kinds, &same->kinds))))
                continue;
            if (!is_known(engine->signatures, call->signature))
                (void)engine_waiter_move(engine, call, WAITER_RUMOUR);
        }
}

void engine_tell_rumour(struct engine *engine, enum rumour rumour)
{
    tell_running(engine, WAITER_RUMOUR, NULL);
    tell_each(engine, rumour == RUMOUR_OF_STEPS, NULL);
}

static void pass_on(struct engine *engine, const struct call *from, enum waiter_pass pass)
{
    if (pass == PASS_ANY) {
        tell_each(engine, false, from);
        return;
    }
    /* Claims of one signature sleep in one line. */
    for (struct call *call = line_of(engine, from)->first; call != NULL; call = call->next) {
        if (call->signature == from->signature) {
            (void)engine_waiter_move(engine, call, WAITER_RUMOUR);
            return;
        }
    }
}

void engine_tell_unlocked(struct engine *engine)
{
    struct call *next;
    tell_running(engine, WAITER_UNLOCKED, NULL);
    for (uint32_t line = 0; line <= PARK_LINES && engine->shadowed_count > 0; line++)
        for (struct call *call = engine->parked[line].first; call != NULL; call = next) {
            next = call->next;
            (void)engine_waiter_move(engine, call, WAITER_UNLOCKED);
        }
}

/* ---- the ends of batches and of waiting ---- */

/* Whether a claim that found nothing may wait on. */
static bool may_wait(struct engine *engine, const struct call *call)
{
    return !engine_interrupted(engine) && !engine->stop && engine->parked_count < PARKED_MAX &&
           call->park_until > engine_steady(engine);
}

/* A request of which a duplicate was in the same batch: its response is on record now; or a claim
 * that met nothing but a job whose life was over: what stands behind it is in reach now. */
static bool goes_again(const struct call *call)
{
    const struct op *first = call->ops[0];
    if (call->count == 1 && first->type == OP_CLAIM && first->code == ERR_OK &&
        first->met_outlived && first->grant_count == 0)
        return true;
    for (uint32_t i = 0; i < call->count; i++)
        if (call->ops[i]->request.disposition == DISPOSITION_DUPLICATE)
            return true;
    return false;
}

static enum waiter_event event_of(const struct engine *engine, const struct call *call)
{
    const struct op *op = call->ops[0];
    if (goes_again(call))
        return WAITER_AGAIN;
    if (op->code != ERR_OK)
        return WAITER_FAILED;
    if (call->wait_ms > 0 && op->grant_count == 0 && !op_is_repeated(op))
        return engine->in_flight > 0 ? WAITER_EMPTY_BESIDE : WAITER_EMPTY;
    return WAITER_SERVED;
}

bool engine_settle_call(struct runner *runner, struct call *call)
{
    struct engine *engine = runner->engine;
    const struct op *op = call->ops[0];
    enum waiter_event event = event_of(engine, call);
    if (event == WAITER_EMPTY || event == WAITER_EMPTY_BESIDE) {
        call->signature = signature_of(op);
        call->again_at = op->free_at > 0
                             ? engine_steady(engine) + (op->free_at - runner->batcher.wakeups.now)
                             : INT64_MAX;
    }
    enum waiter_action action = engine_waiter_move(engine, call, event);
    if (action == WAITER_PARKS && !may_wait(engine, call))
        action = engine_waiter_move(engine, call, WAITER_GONE);
    return action == WAITER_ENDS;
}

void engine_end_waits(struct engine *engine, bool all, struct call_list *ret_over)
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
            if (all || call->park_until <= now || !call_is_wanted(call)) {
                bool passes = call->waiter == WAITER_SHADOWED;
                (void)engine_waiter_move(engine, call, WAITER_GONE);
                call_list_add(ret_over, call);
                if (passes) /* others may have left their lines */
                    next = engine->parked[line].first;
            } else if (call->again_at <= now) {
                (void)engine_waiter_move(engine, call, WAITER_RUMOUR);
            } else {
                look_later(engine, call, now);
            }
        }
}
