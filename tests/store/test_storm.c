/* Claim storms on every store: no job is claimed twice, no claim gets more than it asked for, every
 * job is claimed, and every transition has exactly one event. TORTURE=1 makes them larger: 1,024
 * claimers, on PostgreSQL in 8 processes, and a million jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "storm.h"
#include "test_stores.h"

enum { PROCESSES = 8 };

static struct store *open_store(const char *url)
{
    struct store_options options = {
        .create = true, .seed = 1, .connections = 16, .timeout_ms = 600 * 1000};
    struct store *store;
    struct err err = {0};
    if (store_open(str_from(url), &options, &store, &err) != ERR_OK)
        fail_msg("%s: %s", url, err.detail);
    return store;
}

/* Counts that processes can share. */
static uint32_t *shared_counts(uint32_t count)
{
    uint32_t *counts = mmap(NULL, count * sizeof *counts, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(counts, MAP_FAILED);
    return counts;
}

static void check(struct store *store, const struct storm *storm, const uint32_t *taken,
                  uint64_t too_many)
{
    uint64_t jobs = 0;
    uint64_t bad = storm_check(store, storm, &jobs);
    uint64_t twice = 0;
    uint64_t never = 0;
    for (uint32_t i = 0; i < storm->jobs; i++) {
        twice += taken[i] > 1;
        never += taken[i] == 0;
    }
    print_message("%u claimers, %u jobs: %llu claimed twice, %llu never, %llu claims given too "
                  "much, %llu jobs without exactly one event a transition\n",
                  storm->claimers, storm->jobs, (unsigned long long)twice,
                  (unsigned long long)never, (unsigned long long)too_many, (unsigned long long)bad);
    assert_int_equal(twice, 0);
    assert_int_equal(never, 0);
    assert_int_equal(too_many, 0);
    assert_int_equal(bad, 0);
    assert_int_equal(jobs, storm->jobs);
}

static void storm_in_threads(enum test_store sort, uint32_t claimers, uint32_t jobs)
{
    struct storm storm = {.claimers = claimers, .jobs = jobs, .max = 5, .seed = claimers};
    struct test_stores stores;
    test_stores_init(&stores);
    struct store *store = open_store(test_stores_fresh(&stores, sort));
    uint32_t *taken = shared_counts(jobs);
    storm_submit(store, &storm);
    uint64_t too_many = storm_run(store, &storm, taken);
    check(store, &storm, taken, too_many);
    store_close(store);
    (void)munmap(taken, jobs * sizeof *taken);
    test_stores_release(&stores);
}

/* Each process is a server of its own on the same database. */
static void storm_in_processes(uint32_t claimers, uint32_t jobs)
{
    struct storm storm = {.claimers = claimers / PROCESSES, .jobs = jobs, .max = 5, .seed = 1};
    struct test_stores stores;
    pid_t children[PROCESSES];
    uint32_t *taken = shared_counts(jobs * PROCESSES);
    uint64_t too_many = 0;
    test_stores_init(&stores);
    const char *url = test_stores_fresh(&stores, TEST_POSTGRES);
    struct store *store = open_store(url);
    storm_submit(store, &storm);
    store_close(store);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0)
            continue;
        struct store *mine = open_store(url);
        storm.seed = i + 2;
        uint64_t wrong = storm_run(mine, &storm, taken + i * jobs);
        store_close(mine);
        _exit(wrong == 0 ? 0 : 1);
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        int status = 1;
        (void)waitpid(children[i], &status, 0);
        too_many += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    for (uint32_t i = jobs; i < jobs * PROCESSES; i++)
        taken[i % jobs] += taken[i];
    store = open_store(url);
    storm.claimers = claimers;
    check(store, &storm, taken, too_many);
    store_close(store);
    (void)munmap(taken, jobs * PROCESSES * sizeof *taken);
    test_stores_release(&stores);
}

static bool torture(void)
{
    return getenv("TORTURE") != NULL;
}

static void sixty_four_claimers_on_memory(void **state)
{
    (void)state;
    storm_in_threads(TEST_MEMORY, 64, 1000);
}

static void sixty_four_claimers_on_sqlite(void **state)
{
    (void)state;
    storm_in_threads(TEST_SQLITE, 64, 1000);
}

static void sixty_four_claimers_on_postgres(void **state)
{
    (void)state;
    storm_in_threads(TEST_POSTGRES, 64, 1000);
}

static void many_claimers_on_memory(void **state)
{
    (void)state;
    storm_in_threads(TEST_MEMORY, torture() ? 1024 : 256, torture() ? 1000000 : 1000);
}

static void many_claimers_on_sqlite(void **state)
{
    (void)state;
    storm_in_threads(TEST_SQLITE, torture() ? 1024 : 256, torture() ? 1000000 : 1000);
}

static void many_claimers_on_postgres(void **state)
{
    (void)state;
    if (torture())
        storm_in_processes(1024, 1000000);
    else
        storm_in_threads(TEST_POSTGRES, 256, 1000);
}

static void claimers_in_eight_processes_on_postgres(void **state)
{
    (void)state;
    storm_in_processes(64, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_claimers_on_memory),
        cmocka_unit_test(sixty_four_claimers_on_sqlite),
        cmocka_unit_test(sixty_four_claimers_on_postgres),
        cmocka_unit_test(many_claimers_on_memory),
        cmocka_unit_test(many_claimers_on_sqlite),
        cmocka_unit_test(many_claimers_on_postgres),
        cmocka_unit_test(claimers_in_eight_processes_on_postgres),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
