/* The state machine of claims that wait (engine/waiter.h): every pair of state and event, and a
 * small world in which every interleaving of arrivals, locks, failures and departures is tried. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/waiter.h"

/* ---- every pair ---- */

/* A letter for each state, in the order of the enum. */
static const char state_letters[] = "NPSHRMO"; /* R: probing */

/* In the order of the events: the state that comes of each, then what is done (. stays, p parks,
 * q queues, e ends) and who is told (- nobody, s same, a any); "   " where the two cannot meet. */
static const char *const expected[WAITER_STATE_COUNT] = {
    [WAITER_NEW] = "Pp- Sp- Oe- Oe- Nq- Oe- M.- M.- M.-",
    [WAITER_PARKED] = "                    Oe- Hq- Rq- P.-",
    [WAITER_SHADOWED] = "                    Oea Hqa Rq- Hq-",
    [WAITER_HANDED] = "Pp- Sp- Oe- Oea Hq- Oea M.- M.- M.-",
    [WAITER_PROBING] = "Pp- Sp- Oes Oes Rq- Oes M.s M.s M.s",
    [WAITER_MISSED] = "Hq- Hq- Oe- Oea Hq-     M.- M.- M.-",
    [WAITER_OVER] = "                                   ",
};

static void each_event_means_in_each_state_what_the_diagram_says(void **state)
{
    (void)state;
    for (int from = 0; from < WAITER_STATE_COUNT; from++)
        for (int event = 0; event < WAITER_EVENT_COUNT; event++) {
            const char *want = expected[from] + (size_t)event * 4;
            struct waiter_move move =
                waiter_move((enum waiter_state)from, (enum waiter_event)event);
            char got[4] = {state_letters[move.to], "?.pqe"[move.action], "-sa"[move.pass]};
            if (move.action == WAITER_CANNOT)
                memset(got, ' ', 3);
            if (strncmp(got, want, 3) != 0)
                fail_msg("state %d, event %d: %s instead of %.3s", from, event, got, want);
        }
}

/* ---- every interleaving ---- */

enum { WAITERS = 3, KNOWN_MAX = 1 << 22 };

enum place { QUEUE, BATCH, FOUND_NOTHING, FOUND_WORK, ASLEEP, ENDED };

/* Two runners: one runs the batch of the claims, the other a batch that may have a piece of work
 * locked. The first two waiters take the same work; the third claims in another way, and may take
 * it too. */
struct tiny {
    uint8_t state[WAITERS];
    uint8_t place[WAITERS];
    uint8_t gone[WAITERS];
    uint8_t ready;  /* pieces of work that can be found */
    uint8_t locked; /* pieces that the other batch has */
    uint8_t beside; /* the other batch is under way */
    uint8_t batch;  /* so is that of the claims */
    uint8_t arrivals;
    uint8_t failures;
    uint8_t locks;
    uint8_t agains;
};

struct explorer {
    struct tiny *known;
    uint32_t count;
    bool broken;
};

static int signature(int waiter)
{
    return waiter == WAITERS - 1;
}

static void tell(struct tiny *t, int waiter, enum waiter_event event);

/* One waiter of each signature, or the first of one. */
static void rumour(struct tiny *t, int only)
{
    for (int sort = 0; sort < 2; sort++)
        for (int i = 0; i < WAITERS && (only < 0 || only == sort); i++)
            if (signature(i) == sort && t->place[i] == ASLEEP) {
                tell(t, i, WAITER_RUMOUR);
                break;
            }
}

static void tell(struct tiny *t, int waiter, enum waiter_event event)
{
    static const uint8_t places[] = {
        [WAITER_PARKS] = ASLEEP, [WAITER_QUEUES] = QUEUE, [WAITER_ENDS] = ENDED};
    struct waiter_move move = waiter_move((enum waiter_state)t->state[waiter], event);
    t->state[waiter] = (uint8_t)move.to;
    if (move.action != WAITER_STAYS)
        t->place[waiter] = places[move.action];
    if (move.pass != PASS_NOBODY)
        rumour(t, move.pass == PASS_ANY ? -1 : signature(waiter));
}

static void tell_running(struct tiny *t, enum waiter_event event)
{
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == BATCH || t->place[i] == FOUND_NOTHING || t->place[i] == FOUND_WORK)
            tell(t, i, event);
}

/* ---- what can happen; each returns whether it can now ---- */

static bool one_job_comes(struct tiny *t, int waiter)
{
    if (waiter > 0 || t->arrivals == 0)
        return false;
    t->arrivals--;
    t->ready++;
    tell_running(t, WAITER_WORK);
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == ASLEEP) {
            tell(t, i, WAITER_WORK);
            break;
        }
    return true;
}

static bool two_delays_end(struct tiny *t, int waiter)
{
    if (waiter > 0 || t->arrivals < 2)
        return false;
    t->arrivals = (uint8_t)(t->arrivals - 2);
    t->ready = (uint8_t)(t->ready + 2);
    tell_running(t, WAITER_RUMOUR);
    rumour(t, -1);
    return true;
}

static bool another_batch_locks_a_job(struct tiny *t, int waiter)
{
    if (waiter > 0 || t->beside || t->locks == 0 || t->ready == 0)
        return false;
    t->locks--;
    t->ready--;
    t->locked = t->beside = 1;
    return true;
}

static bool that_batch_leaves_it(struct tiny *t, int waiter)
{
    if (waiter > 0 || !t->beside)
        return false;
    t->beside = 0;
    t->ready = (uint8_t)(t->ready + t->locked);
    t->locked = 0;
    tell_running(t, WAITER_UNLOCKED);
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == ASLEEP)
            tell(t, i, WAITER_UNLOCKED);
    return true;
}

static bool that_batch_ends_it(struct tiny *t, int waiter)
{
    if (waiter > 0 || !t->beside)
        return false;
    t->beside = t->locked = 0;
    return true;
}

static bool a_caller_goes_away(struct tiny *t, int waiter)
{
    if (t->gone[waiter] || t->place[waiter] == ENDED)
        return false;
    t->gone[waiter] = 1;
    return true;
}

static bool a_sleeper_that_is_gone_is_noticed(struct tiny *t, int waiter)
{
    if (!t->gone[waiter] || t->place[waiter] != ASLEEP)
        return false;
    tell(t, waiter, WAITER_GONE);
    return true;
}

/* As gather does: those that are woken on the way come along. */
static bool a_batch_begins(struct tiny *t, int waiter)
{
    bool any = false;
    if (waiter > 0 || t->batch)
        return false;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < WAITERS; i++) {
            if (t->place[i] != QUEUE)
                continue;
            more = any = true;
            if (t->gone[i])
                tell(t, i, WAITER_GONE);
            else
                t->place[i] = BATCH;
        }
    }
    for (int i = 0; i < WAITERS; i++)
        t->batch = t->batch || t->place[i] == BATCH;
    return any;
}

static bool a_claim_searches(struct tiny *t, int waiter)
{
    if (t->place[waiter] != BATCH)
        return false;
    t->place[waiter] = t->ready > 0 ? FOUND_WORK : FOUND_NOTHING;
    if (t->ready > 0)
        t->ready--;
    return true;
}

static bool has_searched(const struct tiny *t)
{
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == BATCH)
            return false;
    return t->batch;
}

static bool the_batch_is_committed(struct tiny *t, int waiter)
{
    if (waiter > 0 || !has_searched(t))
        return false;
    t->batch = 0;
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == FOUND_WORK)
            tell(t, i, WAITER_SERVED);
        else if (t->place[i] == FOUND_NOTHING)
            tell(t, i, t->beside ? WAITER_EMPTY_BESIDE : WAITER_EMPTY);
    return true;
}

static bool the_batch_fails(struct tiny *t, int waiter)
{
    if (waiter > 0 || t->failures == 0 || !has_searched(t))
        return false;
    t->batch = 0;
    t->failures--;
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == FOUND_WORK)
            t->ready++;
    for (int i = 0; i < WAITERS; i++)
        if (t->place[i] == FOUND_WORK || t->place[i] == FOUND_NOTHING)
            tell(t, i, WAITER_FAILED);
    return true;
}

/* It met a job whose life was over, which is gone then; what is behind that it has not seen. */
static bool a_claim_goes_again(struct tiny *t, int waiter)
{
    if (t->agains == 0 || !has_searched(t) || t->place[waiter] != FOUND_WORK)
        return false;
    t->agains--;
    tell(t, waiter, WAITER_AGAIN);
    t->batch = 0;
    for (int i = 0; i < WAITERS; i++)
        t->batch = t->batch || t->place[i] == FOUND_WORK || t->place[i] == FOUND_NOTHING;
    return true;
}

static const struct {
    const char *name;
    bool (*happens)(struct tiny *t, int waiter);
} happenings[] = {
#define HAPPENING(name)                                                                            \
    {                                                                                              \
#name, name                                                                                \
    }
    HAPPENING(one_job_comes),
    HAPPENING(two_delays_end),
    HAPPENING(another_batch_locks_a_job),
    HAPPENING(that_batch_leaves_it),
    HAPPENING(that_batch_ends_it),
    HAPPENING(a_caller_goes_away),
    HAPPENING(a_sleeper_that_is_gone_is_noticed),
    HAPPENING(a_batch_begins),
    HAPPENING(a_claim_searches),
    HAPPENING(the_batch_is_committed),
    HAPPENING(the_batch_fails),
    HAPPENING(a_claim_goes_again),
#undef HAPPENING
};

/* Nothing is under way, work is ready, and a waiter whose caller is there sleeps. */
static bool is_lost(const struct tiny *t)
{
    bool sleeps = false;
    for (int i = 0; i < WAITERS; i++) {
        if (t->place[i] == QUEUE)
            return false;
        sleeps = sleeps || (t->place[i] == ASLEEP && !t->gone[i]);
    }
    return sleeps && t->ready > 0 && !t->batch && !t->beside;
}

static uint64_t hash_of(const struct tiny *t)
{
    const unsigned char *at = (const unsigned char *)t;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *t; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Whether it was met before; it was from now on. An entry that is not used has no place 255. */
static bool is_known(struct explorer *explorer, const struct tiny *t)
{
    uint32_t at = (uint32_t)(hash_of(t) >> 20) & (KNOWN_MAX - 1);
    while (explorer->known[at].agains != UINT8_MAX) {
        if (memcmp(&explorer->known[at], t, sizeof *t) == 0)
            return true;
        at = (at + 1) & (KNOWN_MAX - 1);
    }
    assert_true(++explorer->count < KNOWN_MAX / 4 * 3);
    explorer->known[at] = *t;
    return false;
}

static void explore(struct explorer *explorer, const struct tiny *t)
{
    if (explorer->broken || is_known(explorer, t))
        return;
    explorer->broken = is_lost(t);
    for (size_t i = 0; i < sizeof happenings / sizeof happenings[0]; i++)
        for (int waiter = 0; waiter < WAITERS && !explorer->broken; waiter++) {
            struct tiny next = *t;
            if (!happenings[i].happens(&next, waiter))
                continue;
            explore(explorer, &next);
            if (explorer->broken) /* the last thing is told first */
                print_message("%s (%d)\n", happenings[i].name, waiter);
        }
}

static void no_interleaving_loses_a_wake_up(void **state)
{
    (void)state;
    struct explorer explorer = {.known = malloc(KNOWN_MAX * sizeof *explorer.known)};
    struct tiny start = {.arrivals = 3, .failures = 1, .locks = 1, .agains = 1};
    assert_non_null(explorer.known);
    memset(explorer.known, UINT8_MAX, KNOWN_MAX * sizeof *explorer.known);
    explore(&explorer, &start);
    free(explorer.known);
    print_message("%u states\n", explorer.count);
    assert_false(explorer.broken);
    assert_true(explorer.count > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_means_in_each_state_what_the_diagram_says),
        cmocka_unit_test(no_interleaving_loses_a_wake_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
