#include "engine/waiter.h"

#include <stdbool.h>

/* A move: what is done, the next state, and who is told. */
/* clang-format off */
#define park(to)    {WAITER_##to, WAITER_PARKS, PASS_NOBODY}
#define queue(to)   {WAITER_##to, WAITER_QUEUES, PASS_NOBODY}
#define stay(to)    {WAITER_##to, WAITER_STAYS, PASS_NOBODY}
#define missed_same {WAITER_MISSED, WAITER_STAYS, PASS_SAME}
#define handed_any  {WAITER_HANDED, WAITER_QUEUES, PASS_ANY}
#define end         {WAITER_OVER, WAITER_ENDS, PASS_NOBODY}
#define end_same    {WAITER_OVER, WAITER_ENDS, PASS_SAME}
#define end_any     {WAITER_OVER, WAITER_ENDS, PASS_ANY}
#define cannot      {WAITER_OVER, WAITER_CANNOT, PASS_NOBODY}

/* HANDED that finds nothing: another claim was faster. PROBING that finds some: there may be more;
 * told of other work in its batch, it looks again for the sake of that, and another goes on with
 * the last. MISSED that is served: those asleep were woken too. SHADOWED: the work that is locked
 * may have been handed to it, so when it leaves, or goes for other work, others see to that. */
static const struct waiter_move moves[WAITER_STATE_COUNT][WAITER_EVENT_COUNT] = {
/* first line:  EMPTY, EMPTY_BESIDE, SERVED, FAILED, AGAIN, GONE; second: WORK, RUMOUR, UNLOCKED */
[WAITER_NEW] = {
      park(PARKED),  park(SHADOWED), end,      end,      queue(NEW),     end,
      stay(MISSED),  stay(MISSED),   stay(MISSED)},
[WAITER_PARKED] = {
      cannot,        cannot,         cannot,   cannot,   cannot,         end,
      queue(HANDED), queue(PROBING), stay(PARKED)},
[WAITER_SHADOWED] = {
      cannot,        cannot,         cannot,   cannot,   cannot,         end_any,
      handed_any,    queue(PROBING), queue(HANDED)},
[WAITER_HANDED] = {
      park(PARKED),  park(SHADOWED), end,      end_any,  queue(HANDED),  end_any,
      stay(MISSED),  stay(MISSED),   stay(MISSED)},
[WAITER_PROBING] = {
      park(PARKED),  park(SHADOWED), end_same, end_same, queue(PROBING), end_same,
      missed_same,   missed_same,    missed_same},
[WAITER_MISSED] = {
      queue(HANDED), queue(HANDED),  end,      end_any,  queue(HANDED),  cannot,
      stay(MISSED),  stay(MISSED),   stay(MISSED)},
[WAITER_OVER] = {
      cannot,        cannot,         cannot,   cannot,   cannot,         cannot,
      cannot,        cannot,         cannot},
};
/* clang-format on */

struct waiter_move waiter_move(enum waiter_state state, enum waiter_event event)
{
    return moves[state][event];
}
