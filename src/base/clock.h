/* The system's clocks, and waiting by the one that nobody sets.
 *
 * What is not a matter of its arguments: core may not call it, and gets the time with its
 * context. */
#ifndef PAWL_BASE_CLOCK_H
#define PAWL_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Milliseconds since 1970, as somebody sets them. */
int64_t clock_wall_ms(void);

/* On the clock that only goes forward, since whenever. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_us(void);

/* Returns after that time and not before, whatever signals come; at once for 0 and less. */
void clock_pause(int64_t ms);

/* A condition whose deadlines are on that clock. False: the system has none left. */
bool condition_init(pthread_cond_t *condition);

/* The moment `wait_ms` from now, for pthread_cond_timedwait; never more than a year away. */
struct timespec condition_deadline(int64_t wait_ms);
struct timespec condition_deadline_us(int64_t wait_us);

#endif
