/* The suite that every store must pass: each verb of store.h, each promise, each error.
 *
 * Tests are in files by topic. One program a store runs them all, each test on a fresh store. */
#ifndef PAWL_TESTS_STORE_CONFORMANCE_H
#define PAWL_TESTS_STORE_CONFORMANCE_H

#include "store/fixture.h"

struct conformance_tests {
    const struct CMUnitTest *at;
    size_t count;
};

struct conformance_tests conformance_load(void);
struct conformance_tests conformance_parts(void);
struct conformance_tests conformance_write(void);
struct conformance_tests conformance_plans(void);
struct conformance_tests conformance_claims(void);
struct conformance_tests conformance_timers(void);
struct conformance_tests conformance_read(void);
struct conformance_tests conformance_counts(void);
struct conformance_tests conformance_threads(void);
struct conformance_tests conformance_tokens(void);
struct conformance_tests conformance_workers(void);

/* Entries of the files' tables. */
#define TRIAL(test) cmocka_unit_test_setup_teardown(test, trial_setup, trial_teardown)
#define TRIALS(tests)                                                                              \
    (struct conformance_tests)                                                                     \
    {                                                                                              \
        tests, sizeof tests / sizeof tests[0]                                                      \
    }

/* Runs the suite; what main returns. */
int conformance_run(const struct store_factory *factory);

#endif
