/* How often each token may ask: a bucket a token, which fills at so many requests a second and
 * holds those of one second, at least one. Anyone who finds it empty is told when to come back.
 *
 * A bucket that nobody has touched for a second and owes nothing is full, as a new one is: so there
 * is a fixed number of places, and who was quiet for the longest makes room. */
#ifndef PAWL_SERVER_RATE_H
#define PAWL_SERVER_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { RATE_PER_S_MAX = 1000 * 1000 };

struct rate;

/* NULL: no memory. There is no limit until one is set. */
struct rate *rate_new(void);
void rate_free(struct rate *rate);

/* From now on: requests a second, at most RATE_PER_S_MAX; 0: no limit. */
void rate_set(struct rate *rate, uint32_t per_s);

/* Takes `cost` requests from the bucket of `caller`, at `now` in ms on a clock that never goes
 * back. Returns 0; or, when there is not one whole request in it, how many ms to wait for that,
 * and takes nothing. One request is enough to take more: what is missing is owed, and must fill up
 * first. When `always`, it is taken whatever is in it. Any number of threads may ask. */
int64_t rate_take(struct rate *rate, struct str caller, uint32_t cost, bool always, int64_t now);

#endif
