/* Simulated worlds on a SQLite store: one server on a disk in memory, whose process is killed and
 * whose power is cut at any file call, and which is full now and then. None is broken, each gives
 * the same trace when it is run again, and a disk that forgets is found out.
 *
 * PAWL_SEED=… PAWL_WORLDS=1 runs one of them; build/sim/pawl-sim --store sqlite shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

enum { RUNS = 150, TWICE_EVERY = 20, LIE_SEEDS = 100 };

/* What all worlds came to, for the test that comes after. */
static struct sim_counts counts;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static struct scenario of_seed(uint64_t seed)
{
    return (struct scenario){.seed = seed,
                             .store = SIM_SQLITE,
                             .commands = COMMANDS_DEFAULT,
                             .faults = FAULTS_ALL,
                             .actors = ACTORS_ALL};
}

static void no_world_on_sqlite_is_broken_and_each_can_be_repeated(void **state)
{
    (void)state;
    uint64_t first = setting("PAWL_SEED", 1);
    uint64_t runs = setting("PAWL_WORLDS", RUNS);
    uint64_t repeated = 0;
    for (uint64_t i = 0; i < runs; i++) {
        struct scenario scenario = of_seed(first + i);
        struct sim_result result;
        sim_run(&scenario, NULL, &counts, &result);
        if (result.failed)
            fail_msg("seed %llu: %s: %s; build/sim/pawl-sim --store sqlite --seed %llu --count 1 "
                     "shows it",
                     (unsigned long long)scenario.seed, result.rule, result.detail,
                     (unsigned long long)scenario.seed);
        if (i % TWICE_EVERY == 0) {
            struct sim_counts ignored = {0};
            struct sim_result again;
            sim_run(&scenario, NULL, &ignored, &again);
            assert_memory_equal(result.hash, again.hash, HASH_LEN);
            sim_result_release(&again);
            repeated++;
        }
        sim_result_release(&result);
    }
    print_message("%llu worlds, %llu of them twice: %llu commands, %llu jobs, %llu events, %llu "
                  "crashes\n",
                  (unsigned long long)counts.runs, (unsigned long long)repeated,
                  (unsigned long long)counts.commands, (unsigned long long)counts.jobs,
                  (unsigned long long)counts.events, (unsigned long long)counts.crashes);
}

static void every_fault_has_struck(void **state)
{
    (void)state;
    if (counts.runs < RUNS)
        skip();
    for (int fault = 0; fault < FAULT_COUNT; fault++)
        if (counts.faults[fault] == 0)
            fail_msg("%s never happened", sim_fault_name((enum sim_fault)fault));
    assert_true(counts.crashes > 0);
    assert_true(counts.purged > 0);
}

/* Runs one world with a disk that lies, in a process of its own: damage may end that. */
static bool is_broken(uint64_t seed, enum disk_lie lie)
{
    int status = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct scenario scenario = of_seed(seed);
        struct sim_counts ignored = {0};
        struct sim_result result;
        (void)close(STDERR_FILENO);
        scenario.disk_lie = lie;
        sim_run(&scenario, NULL, &ignored, &result);
        _exit(result.failed ? 1 : 0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status != 0;
}

static void a_disk_that_forgets_is_found_out(void **state)
{
    static const enum disk_lie lies[] = {
        DISK_LIE_WAL_SYNCED_LATE,
        DISK_LIE_WAL_NOT_SYNCED,
        DISK_LIE_FULL_IGNORED,
        DISK_LIE_DIRECTORY_NOT_SYNCED,
    };
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        uint64_t seed = 1;
        while (seed <= LIE_SEEDS && !is_broken(seed, lies[i]))
            seed++;
        if (seed > LIE_SEEDS)
            fail_msg("nobody sees that %s", disk_lie_text(lies[i]));
        print_message("seed %llu: %s\n", (unsigned long long)seed, disk_lie_text(lies[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_world_on_sqlite_is_broken_and_each_can_be_repeated),
        cmocka_unit_test(every_fault_has_struck),
        cmocka_unit_test(a_disk_that_forgets_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
