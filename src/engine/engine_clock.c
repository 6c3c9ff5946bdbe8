/* A clock for tests: time stands still until a caller moves it.
 *
 * The caller hands its wish to the first runner, which alone runs maintenance, and waits. The
 * runner moves the clock from one moment at which something is due to the next, runs rounds of
 * maintenance at each until a round finds nothing more to do, and only then goes on: a lease that
 * expires after a minute and is retried after two has both at their times, however far the clock
 * is moved at once. Callers' batches wait meanwhile, so that nothing happens between two moments.
 *
 * Waits of callers (long polls, streams) go by the system's clock: what they wait for may come at
 * any moment of real time. */
#include <semaphore.h>

#include "base/times.h"
#include "engine/engine_private.h"

enum { ADVANCE_MS_MAX = 55 * 1000 }; /* of real time, for one call */

/* 2000-01-01T00:00:00Z: the same in every run, so that runs can be compared. */
#define MANUAL_CLOCK_START INT64_C(946684800000)

/* A caller that waits until the clock is where it wants it. */
struct advance {
    struct advance *next;
    const struct clock_move *move;
    struct clock_state state; /* out */
    enum error_code code;     /* out */
    struct err err;
    sem_t done;
};

static int64_t manual_now(void *arg)
{
    struct engine *engine = arg;
    return atomic_load(&engine->manual_now);
}

enum error_code engine_clock_init(struct engine *engine, struct str url, struct err *err)
{
    if (engine->options.lent == NULL && !str_eq(url, STR("memory:")))
        return err_set(err, ERR_BAD_REQUEST,
                       "a manual clock requires the store memory:, not \"%.*s\"", STR_ARG(url));
    atomic_store(&engine->manual_now, MANUAL_CLOCK_START);
    engine->options.store.clock = manual_now;
    engine->options.store.clock_arg = engine;
    engine->options.trusts_clock = true;
    return ERR_OK;
}

static enum error_code no_clock(struct err *err)
{
    return err_set(err, ERR_NOT_FOUND,
                   "this server uses the system clock; start it with --clock manual");
}

/* Does all that is due at this moment; what comes of it may be due at once, too. */
static void settle_moment(struct engine *engine)
{
    uint64_t before;
    do {
        before = engine->maintenance.fired;
        engine_maintain(engine);
    } while (engine->maintenance.fired != before);
}

/* The next moment that is not after `to`; `to` if nothing is due before. */
static int64_t next_moment(const struct engine *engine, int64_t now, int64_t to)
{
    int64_t next = engine->maintenance.next_due;
    return next > now && next < to ? next : to;
}

/* Old records go at the end, once: they are looked at once a minute of real time otherwise. */
static void finish(struct engine *engine)
{
    engine->maintenance.run_at[MAINTENANCE_RECORDS] = 0;
    settle_moment(engine);
    pthread_mutex_lock(&engine->lock);
    engine_tell_rumour(engine, RUMOUR_OF_WORK);
    engine_tell_rumour(engine, RUMOUR_OF_STEPS); /* the cooldown of a resource may be over */
    pthread_mutex_unlock(&engine->lock);
}

/* Where the clock is to go from `now`, after all that is due there was done. */
static enum error_code destination(const struct engine *engine, const struct clock_move *move,
                                   int64_t now, int64_t *ret, struct err *err)
{
    int64_t next = engine->maintenance.next_due;
    if (move->to_next)
        *ret = next != INT64_MAX && next > now ? next : now;
    else if (move->ms != CLOCK_UNSAID && move->ms > TIME_MAX_MS - now)
        return err_set(err, ERR_BAD_REQUEST, "ms is %lld: the clock would pass the year 9999",
                       (long long)move->ms);
    else
        *ret = move->ms != CLOCK_UNSAID ? now + move->ms : move->to;
    if (*ret < now)
        return err_set(err, ERR_BAD_REQUEST,
                       "to is %lld ms in the past; the clock cannot go backwards",
                       (long long)(now - *ret));
    return ERR_OK;
}

static void execute(struct engine *engine, struct advance *advance)
{
    int64_t give_up_at = engine_steady(engine) + ADVANCE_MS_MAX;
    uint64_t before = engine->maintenance.fired;
    int64_t now = atomic_load(&engine->manual_now);
    int64_t to = now;
    settle_moment(engine);
    advance->code = destination(engine, advance->move, now, &to, &advance->err);
    if (advance->code != ERR_OK)
        return;
    while (now < to && engine_steady(engine) < give_up_at) {
        now = next_moment(engine, now, to);
        atomic_store(&engine->manual_now, now);
        settle_moment(engine);
    }
    finish(engine);
    advance->state = (struct clock_state){.now = now,
                                          .next_due = engine->maintenance.next_due,
                                          .fired = engine->maintenance.fired - before};
}

bool engine_clock_turn(struct engine *engine)
{
    if (!engine->options.manual_clock)
        return false;
    pthread_mutex_lock(&engine->lock);
    struct advance *advance = engine->advancing;
    if (advance != NULL)
        engine->advancing = advance->next;
    pthread_mutex_unlock(&engine->lock);
    if (advance == NULL)
        return false;
    execute(engine, advance);
    (void)sem_post(&advance->done);
    return true;
}

static void hand_over(struct engine *engine, struct advance *advance)
{
    pthread_mutex_lock(&engine->lock);
    struct advance **last = &engine->advancing;
    while (*last != NULL)
        last = &(*last)->next;
    *last = advance;
    engine->nudged = true;
    pthread_cond_signal(&engine->work);
    pthread_mutex_unlock(&engine->lock);
}

enum error_code engine_advance(struct engine *engine, const struct clock_move *move,
                               struct clock_state *ret, struct err *err)
{
    struct advance advance = {.move = move};
    if (!engine->options.manual_clock)
        return no_clock(err);
    if ((move->ms != CLOCK_UNSAID) + (move->to != CLOCK_UNSAID) + (move->to_next ? 1 : 0) != 1)
        return err_set(err, ERR_BAD_REQUEST,
                       "exactly one of ms, to and \"to_next\": true is required");
    if (sem_init(&advance.done, 0, 0) != 0)
        return err_set(err, ERR_UNAVAILABLE, "no semaphore available");
    hand_over(engine, &advance);
    while (engine->options.by_hand && sem_trywait(&advance.done) != 0) {
        int64_t wait_ms;
        engine_turn(engine, &wait_ms);
    }
    while (!engine->options.by_hand && sem_wait(&advance.done) != 0) {
        /* interrupted by a signal */
    }
    (void)sem_destroy(&advance.done);
    if (advance.code != ERR_OK)
        return err_set(err, advance.code, "%s", advance.err.detail);
    *ret = advance.state;
    return ERR_OK;
}

enum error_code engine_clock(struct engine *engine, struct clock_state *ret, struct err *err)
{
    struct arena arena;
    struct store_due *due = NULL;
    uint32_t count = 0;
    struct clock_state state = {0};
    if (!engine->options.manual_clock)
        return no_clock(err);
    arena_init(&arena);
    enum error_code code =
        store_due(engine->store, 1, &arena, &due, &count, &state.now, &state.next_due, err);
    if (code == ERR_OK && count > 0 && due[0].at < state.next_due)
        state.next_due = due[0].at;
    arena_release(&arena);
    if (code == ERR_OK)
        *ret = state;
    return code;
}
