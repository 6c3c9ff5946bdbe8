/* Clocks that run a thousand times slower, in place of libc's, for programs under callgrind, which
 * run fifty times slower themselves: what is done after so many milliseconds would else be done
 * after more or fewer jobs, as the machine is faster or slower, and no count would be like the
 * other. Whoever waits until a time waits as much longer. */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

enum { SLOWER = 1000 };

#define NS_A_S 1000000000LL

typedef int get_time(clockid_t clock, struct timespec *ret);
typedef int timed_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until);

/* These are what everybody else calls by libc's names. */
get_time slow_get_time __asm__("clock_gettime");
timed_wait slow_timed_wait __asm__("pthread_cond_timedwait");

static struct {
    get_time *get_time;
    timed_wait *timed_wait;
    struct timespec start[CLOCK_MONOTONIC + 1]; /* of the clocks that are slowed down */
} real;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin(void)
{
    void *found = dlsym(RTLD_NEXT, "clock_gettime");
    real.get_time = *(get_time **)&found;
    found = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    real.timed_wait = *(timed_wait **)&found;
    (void)real.get_time(CLOCK_REALTIME, &real.start[CLOCK_REALTIME]);
    (void)real.get_time(CLOCK_MONOTONIC, &real.start[CLOCK_MONOTONIC]);
}

static long long ns_since(const struct timespec *at, const struct timespec *start)
{
    return (long long)(at->tv_sec - start->tv_sec) * NS_A_S + at->tv_nsec - start->tv_nsec;
}

static struct timespec after(const struct timespec *start, long long ns)
{
    long long at = start->tv_nsec + ns;
    return (struct timespec){.tv_sec = start->tv_sec + (time_t)(at / NS_A_S),
                             .tv_nsec = (long)(at % NS_A_S)};
}

int slow_get_time(clockid_t clock, struct timespec *ret)
{
    (void)pthread_once(&once, begin);
    int result = real.get_time(clock, ret);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC))
        *ret = after(&real.start[clock], ns_since(ret, &real.start[clock]) / SLOWER);
    return result;
}

/* All conditions of ours go by the steady clock (base/clock.h). */
int slow_timed_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    (void)pthread_once(&once, begin);
    const struct timespec *start = &real.start[CLOCK_MONOTONIC];
    long long ns = ns_since(until, start);
    struct timespec then = ns > 0 ? after(start, ns * SLOWER) : *start;
    return real.timed_wait(condition, mutex, &then);
}
