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

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    (void)pthread_once(&once, begin);
    int result = real.get_time(clock_id, tp);
    if (result == 0 && (clock_id == CLOCK_REALTIME || clock_id == CLOCK_MONOTONIC))
        *tp = after(&real.start[clock_id], ns_since(tp, &real.start[clock_id]) / SLOWER);
    return result;
}

/* All conditions of ours go by the steady clock (base/clock.h). */
int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict abstime)
{
    (void)pthread_once(&once, begin);
    const struct timespec *start = &real.start[CLOCK_MONOTONIC];
    long long ns = ns_since(abstime, start);
    struct timespec then = ns > 0 ? after(start, ns * SLOWER) : *start;
    return real.timed_wait(cond, mutex, &then);
}
