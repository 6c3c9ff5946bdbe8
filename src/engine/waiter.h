/* A claim that waits for work, as a state machine.
 *
 *   Work that is ready and allowed wakes a waiter that may take it; no wake-up is lost, and none is
 *   spent on a waiter that is gone.
 *
 *                 empty                    work, unlocked*
 *      +-----+ ----------> +-----------+ ------------------> +---------+
 *  --> | NEW |             | PARKED    |                     | HANDED  | --> over
 *      +-----+             | SHADOWED* | <------------------ | PROBING | --> over, pass on
 *         |                +-----------+        empty        +---------+
 *         |                      | gone             rumour: PROBING |  ^
 *         |                      v                                 |  | empty, again
 *         |                    over        work, rumour, unlocked  v  |
 *         |                                while it is in a batch +--------+
 *         +------------------------------------------------------>| MISSED |
 *                                                                 +--------+
 *
 * A wake-up is a duty: other waiters sleep on because this one is on its way. A claim that cannot
 * do its duty, since its caller is gone or its batch failed, passes it on. A waiter that was only
 * told that there may be work passes the wake-up on when it finds some, since nobody knows how much
 * there is.
 *
 * Batches of two runners overlap. A claim that finds nothing beside another batch, which may have
 * work locked, is SHADOWED: it looks again when that batch has ended. When work comes, or is
 * unlocked, while the claim itself is in a batch, it is MISSED: its search may have been before
 * that, so it looks again instead of going to sleep.
 *
 * Pure: no lock, no clock. engine_waiters.c does what a move says. */
#ifndef PAWL_ENGINE_WAITER_H
#define PAWL_ENGINE_WAITER_H

enum waiter_state {
    WAITER_NEW,      /* waits for its batch, or is in it; no other claim sleeps because of it */
    WAITER_PARKED,   /* asleep */
    WAITER_SHADOWED, /* asleep, and another batch may have had work locked when it looked */
    WAITER_HANDED,   /* woken for work that is counted: nobody else is woken for it */
    WAITER_PROBING,  /* woken to look: nobody knows how much work there is */
    WAITER_MISSED,   /* in a batch, and work has come that its search may not have seen */
    WAITER_OVER,     /* its caller has the response, or is gone */
    WAITER_STATE_COUNT,
};

enum waiter_event {
    WAITER_EMPTY,        /* its batch was committed and had nothing for it */
    WAITER_EMPTY_BESIDE, /* the same, and another batch is under way */
    WAITER_SERVED,       /* it has its response */
    WAITER_FAILED,       /* it was refused, or its batch was not committed */
    WAITER_AGAIN,        /* its batch has settled nothing: it is to be run once more */
    WAITER_GONE,         /* its caller is gone, or its time is over */
    WAITER_WORK,         /* so much work has come that this one is woken for a part of it */
    WAITER_RUMOUR,       /* work may have come */
    WAITER_UNLOCKED,     /* a batch has ended that may have had work locked */
    WAITER_EVENT_COUNT,
};

enum waiter_action {
    WAITER_CANNOT, /* the event cannot come in this state */
    WAITER_STAYS,  /* where it is */
    WAITER_PARKS,  /* goes to sleep */
    WAITER_QUEUES, /* goes into the next batch */
    WAITER_ENDS,   /* its caller is told */
};

/* Who is told that there may be work, because of a move. */
enum waiter_pass {
    PASS_NOBODY,
    PASS_SAME, /* the next waiter that takes the same work */
    PASS_ANY,  /* of all waiters that may take some of the same work, one of each kind */
};

struct waiter_move {
    enum waiter_state to;
    enum waiter_action action;
    enum waiter_pass pass;
};

/* What an event means in a state. CANNOT: the two never meet, since a waiter that is asleep has no
 * batch, and one that is over has no events. */
struct waiter_move waiter_move(enum waiter_state state, enum waiter_event event);

#endif
