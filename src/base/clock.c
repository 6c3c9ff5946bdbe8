#include "base/clock.h"

#include <errno.h>

enum { MS_PER_S = 1000, US_PER_S = 1000 * 1000, NS_PER_MS = 1000 * 1000, NS_PER_US = 1000 };

#define NS_PER_S 1000000000L
#define WAIT_MS_MAX (INT64_C(365) * 24 * 60 * 60 * 1000)

static struct timespec read_clock(clockid_t which)
{
    struct timespec now;
    (void)clock_gettime(which, &now);
    return now;
}

int64_t clock_wall_ms(void)
{
    struct timespec now = read_clock(CLOCK_REALTIME);
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

int64_t clock_monotonic_ms(void)
{
    struct timespec now = read_clock(CLOCK_MONOTONIC);
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

int64_t clock_monotonic_us(void)
{
    struct timespec now = read_clock(CLOCK_MONOTONIC);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / NS_PER_US;
}

void clock_pause(int64_t ms)
{
    if (ms <= 0)
        return;
    struct timespec left = {
        .tv_sec = (time_t)(ms / MS_PER_S),
        .tv_nsec = (long)(ms % MS_PER_S) * NS_PER_MS,
    };
    int result;
    do
        result = nanosleep(&left, &left);
    while (result != 0 && errno == EINTR);
}

bool condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(condition, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    return made;
}

struct timespec condition_deadline(int64_t wait_ms)
{
    return condition_deadline_us((wait_ms < 0             ? 0
                                  : wait_ms > WAIT_MS_MAX ? WAIT_MS_MAX
                                                          : wait_ms) *
                                 1000);
}

struct timespec condition_deadline_us(int64_t wait_us)
{
    struct timespec at = read_clock(CLOCK_MONOTONIC);
    wait_us = wait_us < 0 ? 0 : wait_us > WAIT_MS_MAX * 1000 ? WAIT_MS_MAX * 1000 : wait_us;
    at.tv_sec += (time_t)(wait_us / (MS_PER_S * 1000));
    at.tv_nsec += (long)(wait_us % (MS_PER_S * 1000)) * (NS_PER_MS / 1000);
    if (at.tv_nsec >= NS_PER_S) {
        at.tv_sec++;
        at.tv_nsec -= NS_PER_S;
    }
    return at;
}
