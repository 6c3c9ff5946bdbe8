/* Those who wait for a change of a job, without a thread of their own, on every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "engine/desk.h"
#include "server/watch.h"

enum { PATIENCE_S = 10 };

/* One who waits until the job has another version than when it looked. */
struct sleeper {
    struct watcher watcher;
    sem_t woken;
};

static void wake(struct watcher *watcher)
{
    (void)sem_post(&((struct sleeper *)watcher)->woken);
}

static bool is_wanted(const struct watcher *watcher)
{
    (void)watcher;
    return true;
}

static void look(struct sleeper *sleeper, struct watch *watch, struct desk *desk, const char *id)
{
    *sleeper = (struct sleeper){.watcher = {.wake = wake, .wanted = is_wanted, .until = INT64_MAX}};
    sleeper->watcher.seen = watch_seen(watch);
    well(desk, VERB_get, "{\"id\":\"%s\"}", id);
    sleeper->watcher.version = strtoll(said(desk, "version"), NULL, 10);
    assert_true(uuid_parse(str_from(id), &sleeper->watcher.job));
    assert_int_equal(sem_init(&sleeper->woken, 0, 0), 0);
}

static bool is_woken(struct sleeper *sleeper)
{
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    return sem_timedwait(&sleeper->woken, &end) == 0;
}

/* The desk's clock stands still: nobody is woken since their time is over. */
static void check_late(struct desk *desk)
{
    struct sleeper early;
    struct sleeper late;
    struct watch *watch = watch_open(desk->engine);
    assert_non_null(watch);
    well(desk, VERB_submit, "{\"kind\":\"k\"}");
    const char *id = said(desk, "id");
    look(&early, watch, desk, id);
    look(&late, watch, desk, id);
    watch_park(watch, &early.watcher);
    well(desk, VERB_cancel, "{\"id\":\"%s\"}", id);
    bool early_woken = is_woken(&early);
    /* The watch has seen the change that this one has not. */
    watch_park(watch, &late.watcher);
    bool late_woken = is_woken(&late);
    watch_interrupt(watch);
    watch_close(watch);
    assert_true(early_woken);
    assert_true(late_woken);
    (void)sem_destroy(&early.woken);
    (void)sem_destroy(&late.woken);
}

static void who_looked_before_a_change_and_parks_after_it_is_woken(void **state)
{
    (void)state;
    at_every_desk(check_late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_looked_before_a_change_and_parks_after_it_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
