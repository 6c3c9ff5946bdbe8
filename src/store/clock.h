/* The clock of a store that lives in this process: the system's, but it never goes back.
 *
 * When the system's clock is set back, time goes on at half its speed until the two agree, so that
 * leases still end and nothing happens before what came earlier. When it is set forward, time
 * jumps with it: the engine sees that and gives leases their grace. */
#ifndef PAWL_STORE_CLOCK_H
#define PAWL_STORE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

struct store_clock {
    int64_t (*wall)(void *arg); /* milliseconds since 1970, as somebody sets them */
    void *wall_arg;
    int64_t (*steady)(void *arg); /* milliseconds that nobody sets */
    void *steady_arg;
    pthread_mutex_t lock;
    int64_t last;          /* the last time that was told */
    int64_t anchor;        /* while it is slow: since when, */
    int64_t anchor_steady; /* on both clocks; 0: it is not */
};

/* NULL for the system's clocks. A wall clock without a steady one is taken at its word: tests set
 * it as they like. */
void store_clock_init(struct store_clock *clock, int64_t (*wall)(void *arg), void *wall_arg,
                      int64_t (*steady)(void *arg), void *steady_arg);
void store_clock_release(struct store_clock *clock);

/* The clock told `last` to somebody before: it does not go back behind that, unless it must have
 * been wrong then, by more than a day. */
void store_clock_resume(struct store_clock *clock, int64_t last);

/* Any thread. What the clock says, and the time that is made of it. */
int64_t store_clock_now(struct store_clock *clock);
int64_t store_clock_wall(const struct store_clock *clock);

#endif
