/* The backlog: who takes sleeps until there is something, gathers for a while, and rests no longer
 * than until the end. */
#include "server/backlog.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"

enum { ROOM = 4096, LONG_MS = 20 * 1000 };

/* Somebody who takes, or rests. */
struct taker {
    struct backlog *backlog;
    pthread_t thread;
    int64_t gather_ms;
    atomic_bool begun;
    atomic_bool done;
    uint32_t count; /* in the first batch */
    bool closed;
};

static void *take(void *arg)
{
    struct taker *taker = arg;
    struct backlog_batch batch;
    atomic_store(&taker->begun, true);
    backlog_take(taker->backlog, taker->gather_ms, &batch);
    taker->count = batch.count;
    taker->closed = batch.closed;
    atomic_store(&taker->done, true);
    return NULL;
}

static void *rest(void *arg)
{
    struct taker *taker = arg;
    atomic_store(&taker->begun, true);
    backlog_rest(taker->backlog, LONG_MS);
    atomic_store(&taker->done, true);
    return NULL;
}

static void begin(struct taker *taker, uint32_t wake_count, void *(*run)(void *arg))
{
    taker->backlog = backlog_new(ROOM, wake_count);
    assert_non_null(taker->backlog);
    assert_int_equal(pthread_create(&taker->thread, NULL, run, taker), 0);
    while (!atomic_load(&taker->begun))
        clock_pause(1);
}

static void end(struct taker *taker)
{
    assert_int_equal(pthread_join(taker->thread, NULL), 0);
    backlog_free(taker->backlog);
}

static void put(struct taker *taker)
{
    assert_true(backlog_put(taker->backlog, &STR("record"), 1));
}

static void who_takes_sleeps_until_there_is_a_record(void **state)
{
    struct taker taker = {.gather_ms = 1};
    (void)state;
    begin(&taker, 2, take);
    clock_pause(20);
    assert_false(atomic_load(&taker.done));
    put(&taker);
    end(&taker);
    assert_int_equal(taker.count, 1);
}

static void a_record_waits_for_others_but_not_for_more_than_enough(void **state)
{
    struct taker taker = {.gather_ms = LONG_MS};
    (void)state;
    int64_t start = clock_monotonic_ms();
    begin(&taker, 3, take);
    put(&taker);
    put(&taker);
    clock_pause(20);
    assert_false(atomic_load(&taker.done));
    put(&taker);
    end(&taker);
    assert_int_equal(taker.count, 3);
    assert_true(clock_monotonic_ms() - start < LONG_MS);
}

static void the_end_wakes_whoever_takes_or_rests(void **state)
{
    void *(*const runs[])(void *arg) = {take, rest};
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct taker taker = {.gather_ms = LONG_MS};
        int64_t start = clock_monotonic_ms();
        begin(&taker, 3, runs[i]);
        put(&taker);
        clock_pause(10);
        assert_false(atomic_load(&taker.done));
        backlog_close(taker.backlog);
        end(&taker);
        assert_true(clock_monotonic_ms() - start < LONG_MS);
        assert_int_equal(taker.closed, runs[i] == take);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_takes_sleeps_until_there_is_a_record),
        cmocka_unit_test(a_record_waits_for_others_but_not_for_more_than_enough),
        cmocka_unit_test(the_end_wakes_whoever_takes_or_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
