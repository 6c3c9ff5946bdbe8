/* The worker of pawl.h on a store that is out of reach for a while: its own sources once more, with
 * calls that can be made to fail before they get to the store, or after. */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/library_case.h"

enum weather {
    FINE,
    AWAY,   /* calls do not get there */
    UNHEARD /* they do, and the answer is lost */
};

/* The sources below have no handle of ours to find this by. */
static atomic_int weather;       /* NOLINT: see above */
static atomic_int calls_in_vain; /* NOLINT */

static enum pawl_code
through_weather(enum pawl_code (*verb)(struct pawl *, const char *, char **, struct pawl_error *),
                struct pawl *pawl, const char *request, char **ret_answer, struct pawl_error *error)
{
    int now = atomic_load(&weather);
    char *answer = NULL;
    if (now == FINE)
        return verb(pawl, request, ret_answer, error);
    atomic_fetch_add(&calls_in_vain, 1);
    if (now == UNHEARD && verb(pawl, request, &answer, NULL) == PAWL_OK)
        pawl_free(answer);
    if (error != NULL) {
        error->code = PAWL_UNAVAILABLE;
        (void)snprintf(error->message, sizeof error->message, "bad weather");
    }
    return PAWL_UNAVAILABLE;
}

static enum pawl_code weather_batch(struct pawl *pawl, const char *request, char **ret_answer,
                                    struct pawl_error *error)
{
    return through_weather(pawl_batch, pawl, request, ret_answer, error);
}

static enum pawl_code weather_claim(struct pawl *pawl, const char *request, char **ret_answer,
                                    struct pawl_error *error)
{
    return through_weather(pawl_claim, pawl, request, ret_answer, error);
}

#define pawl_batch weather_batch
#define pawl_claim weather_claim
#include "engine/worker.c"        /* NOLINT: with our calls in it */
#include "engine/worker_heart.c"  /* NOLINT */
#include "engine/worker_ops.c"    /* NOLINT */
#include "engine/worker_report.c" /* NOLINT */
#undef pawl_batch
#undef pawl_claim

struct log {
    atomic_int inside;
    atomic_bool go;
    atomic_int stored;
    atomic_int lost;
    atomic_int away;
    atomic_int back;
};

static void nap(int ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

static void wait_until(atomic_int *value, int at_least)
{
    for (int i = 0; i < PATIENCE_MS / 2 && atomic_load(value) < at_least; i++)
        nap(2);
    assert_true(atomic_load(value) >= at_least);
}

static void handle(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    struct log *log = arg;
    (void)task;
    (void)outcome;
    atomic_fetch_add(&log->inside, 1);
    while (!atomic_load(&log->go))
        nap(2);
}

static void reported(void *arg, const struct pawl_task *task, const struct pawl_outcome *outcome,
                     const struct pawl_error *error)
{
    struct log *log = arg;
    (void)task;
    (void)outcome;
    atomic_fetch_add(error == NULL ? &log->stored : &log->lost, 1);
}

static void trouble(void *arg, const struct pawl_error *error)
{
    struct log *log = arg;
    atomic_fetch_add(error != NULL ? &log->away : &log->back, 1);
}

static struct pawl_worker *start(struct library_case *c, struct log *log, long long lease_ttl_ms)
{
    struct pawl_worker *worker = NULL;
    struct pawl_error error;
    struct pawl_worker_options options = {.lease_ttl_ms = lease_ttl_ms,
                                          .handler = handle,
                                          .reported = reported,
                                          .trouble = trouble,
                                          .arg = log};
    atomic_store(&weather, FINE);
    atomic_store(&calls_in_vain, 0);
    assert_int_equal(pawl_worker_start(c->talk.pawl, &options, &worker, &error), PAWL_OK);
    return worker;
}

static void finish(struct pawl_worker *worker, long long expected)
{
    long long done;
    pawl_worker_stop(worker);
    assert_int_equal(pawl_worker_join(worker, &done, NULL), PAWL_OK);
    assert_int_equal(done, expected);
}

static void claims_are_tried_until_the_store_is_back(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    atomic_store(&log.go, true);
    struct pawl_worker *worker = start(c, &log, 0);
    atomic_store(&weather, AWAY);
    wait_until(&calls_in_vain, 3);
    submit_job(&c->talk, "");
    assert_int_equal(log.inside, 0);
    atomic_store(&weather, FINE);
    wait_until(&log.stored, 1);
    assert_int_equal(log.away, 1);
    assert_int_equal(log.back, 1);
    finish(worker, 1);
}

static void an_outcome_is_sent_until_the_store_is_back(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &log, 0);
    wait_until(&log.inside, 1);
    atomic_store(&weather, AWAY);
    atomic_store(&log.go, true);
    wait_until(&calls_in_vain, 3);
    assert_string_equal(status_of(&c->talk, id), "running");
    atomic_store(&weather, FINE);
    wait_until(&log.stored, 1);
    assert_string_equal(status_of(&c->talk, id), "completed");
    finish(worker, 1);
}

static void an_outcome_whose_answer_was_lost_counts_once(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &log, 0);
    wait_until(&log.inside, 1);
    atomic_store(&weather, UNHEARD);
    atomic_store(&log.go, true);
    wait_until(&calls_in_vain, 2);
    atomic_store(&weather, FINE);
    wait_until(&log.stored, 1);
    trace_is(&c->talk, id, "job_created job_leased job_running job_completed");
    finish(worker, 1);
}

static void a_lease_survives_heartbeats_that_fail_for_a_moment(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    const char *id = submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &log, 1000);
    wait_until(&log.inside, 1);
    for (int i = 0; i < 3; i++) {
        atomic_store(&weather, AWAY);
        nap(400);
        atomic_store(&weather, FINE);
        nap(400);
    }
    atomic_store(&log.go, true);
    wait_until(&log.stored, 1);
    does(&c->talk, pawl_get, "{\"id\": \"%s\"}", id);
    says_text(&c->talk, "status", "completed");
    says_text(&c->talk, "attempt", "1");
    finish(worker, 1);
}

static void a_worker_that_is_stopped_gives_up_when_the_lease_is_over(void **state)
{
    struct library_case *c = *state;
    struct log log = {0};
    submit_job(&c->talk, "");
    struct pawl_worker *worker = start(c, &log, 400);
    wait_until(&log.inside, 1);
    atomic_store(&weather, AWAY);
    atomic_store(&log.go, true);
    finish(worker, 0);
    assert_int_equal(log.lost, 1);
    atomic_store(&weather, FINE);
}

#define ON_MEMORY(test)                                                                            \
    cmocka_unit_test_prestate_setup_teardown(test, case_setup_ticking, case_teardown,              \
                                             (void *)(uintptr_t)TEST_MEMORY)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_MEMORY(claims_are_tried_until_the_store_is_back),
        ON_MEMORY(an_outcome_is_sent_until_the_store_is_back),
        ON_MEMORY(an_outcome_whose_answer_was_lost_counts_once),
        ON_MEMORY(a_lease_survives_heartbeats_that_fail_for_a_moment),
        ON_MEMORY(a_worker_that_is_stopped_gives_up_when_the_lease_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
