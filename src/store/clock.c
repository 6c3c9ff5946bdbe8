#include "store/clock.h"

#include <stddef.h>

#include "base/clock.h"

static int64_t system_wall(void *arg)
{
    (void)arg;
    return clock_wall_ms();
}

static int64_t system_steady(void *arg)
{
    (void)arg;
    return clock_monotonic_ms();
}

void store_clock_init(struct store_clock *clock, int64_t (*wall)(void *arg), void *wall_arg,
                      int64_t (*steady)(void *arg), void *steady_arg)
{
    *clock = (struct store_clock){
        .wall = wall != NULL ? wall : system_wall,
        .wall_arg = wall_arg,
        .steady = wall == NULL && steady == NULL ? system_steady : steady,
        .steady_arg = steady_arg,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
}

void store_clock_release(struct store_clock *clock)
{
    (void)pthread_mutex_destroy(&clock->lock);
}

void store_clock_resume(struct store_clock *clock, int64_t last)
{
    const int64_t day_ms = INT64_C(24) * 3600 * 1000;
    if (clock->steady != NULL && last - clock->wall(clock->wall_arg) < day_ms)
        clock->last = last;
}

int64_t store_clock_now(struct store_clock *clock)
{
    if (clock->steady == NULL)
        return clock->wall(clock->wall_arg);
    pthread_mutex_lock(&clock->lock);
    int64_t now = clock->wall(clock->wall_arg);
    if (now >= clock->last) {
        clock->anchor = 0;
    } else {
        int64_t steady = clock->steady(clock->steady_arg);
        if (clock->anchor == 0) {
            clock->anchor = clock->last;
            clock->anchor_steady = steady;
        }
        now = clock->anchor + (steady - clock->anchor_steady) / 2;
    }
    clock->last = now;
    pthread_mutex_unlock(&clock->lock);
    return now;
}

int64_t store_clock_wall(const struct store_clock *clock)
{
    return clock->wall(clock->wall_arg);
}
