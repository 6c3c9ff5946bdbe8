/* Two parents of one child finish at the same moment, on two servers.
 *
 * Each says "done" in a transaction that locks the job, marks its parent, and lets the child begin
 * when no parent is left; an answer that is lost makes it say so again. BROKEN_JOIN has no lock: a
 * server reads, and writes what follows from what it has read. BROKEN_TWICE takes what is said again
 * for news, and BROKEN_EARLY does not ask for the other parent. */
#define PARENTS 2

bool done[PARENTS];
byte released; /* times that the child was let begin */

#define ALL_DONE (done[0] && done[1])

#if defined(BROKEN_TWICE)
#define IS_LAST(me) (done[1 - me])
#elif defined(BROKEN_EARLY)
#define IS_LAST(me) (!done[me] && released == 0)
#else
#define IS_LAST(me) (!done[me] && done[1 - me])
#endif

active [PARENTS] proctype server()
{
    bool answered;
    bool last;
    byte me = _pid;
    do
    :: !answered ->
#ifdef BROKEN_JOIN
        last = IS_LAST(me);
        atomic {
            done[me] = true;
            if
            :: last -> released++
            :: else
            fi
        };
#else
        atomic {
            last = IS_LAST(me);
            done[me] = true;
            if
            :: last -> released++
            :: else
            fi
        };
#endif
        if
        :: answered = true
        :: true /* the answer is lost */
        fi
    :: answered -> break
    od
}

ltl released_once { [] (released <= 1) }
ltl never_before { [] (released > 0 -> ALL_DONE) }
ltl released_at_last { [] (ALL_DONE -> <> (released > 0)) }
