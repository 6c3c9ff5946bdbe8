/* Time that may be acted on where a mistake cannot be taken back: deleting what was kept for long
 * enough, forgetting requests, ending access tokens.
 *
 * A clock can be wrong for some seconds by a year. So trusted time follows the clock only while
 * that goes as a steady clock does. When it has jumped ahead, trusted time does not jump: it goes
 * on, at double speed, until it has caught up, or until the clock has been plausible for
 * TRUSTED_AFTER_MS: then it is believed. So what is due because of a jump waits for as long as the
 * jump was, an hour at most, and a clock that is put right before that has done no harm. While
 * nobody looked, the clock may have jumped: a restart after a long time counts as a jump.
 *
 * Invariant: trusted time is never later than the clock was when it was last seen, plus what has
 * gone by on the steady clock since. */
#ifndef PAWL_CORE_TRUSTED_TIME_H
#define PAWL_CORE_TRUSTED_TIME_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TRUSTED_AFTER_MS = 60 * 60 * 1000,
    TRUSTED_JUMP_MS = 5 * 1000, /* more than this, against the steady clock, is a jump */
};

struct trusted_time {
    bool is_known;        /* a clock was seen */
    int64_t at;           /* trusted then, */
    int64_t clock_at;     /* when the clock said this */
    int64_t steady_at;    /* and the steady clock that */
    int64_t steady_since; /* the clock has not jumped since */
};

/* Sees the clock for the first time. `noted` is the trusted time that was noted before, by those
 * who looked at this clock then; 0: nobody did, and the clock is all that is known. */
void trusted_time_begin(struct trusted_time *trusted, int64_t noted, int64_t clock, int64_t steady);

/* Sees the clock again. */
void trusted_time_see(struct trusted_time *trusted, int64_t clock, int64_t steady);

/* The trusted time at this moment of the steady clock; 0 while nothing is known. The caller's own
 * idea of the time may be earlier, and counts then. */
int64_t trusted_time_now(const struct trusted_time *trusted, int64_t steady);

#endif
