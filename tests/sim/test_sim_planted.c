/* The simulator sees bugs: with one of planted.def switched on, a world is broken within so many
 * seeds, by a rule of the checker or by an assertion.
 *
 * Linked with the core built with -DPAWL_PLANTED. Each bug is hunted in a child process, since an
 * assertion ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/planted.h"
#include "sim.h"

/* The rarest bug that is hunted breaks one world in several hundred. */
enum { SEEDS = 600, HUNT_SEEDS = 2000 };

static const char *const bug_names[] = {
    "none",
#define PLANTED_BUG(symbol, layer, text, test, name) #symbol,
#include "base/planted.def"
#undef PLANTED_BUG
};

static const char *const bug_layers[] = {
    "",
#define PLANTED_BUG(symbol, layer, text, test, name) #layer,
#include "base/planted.def"
#undef PLANTED_BUG
};

/* What no world can meet. */
static const enum planted_bug out_of_reach[] = {
    /* The engine asks core when something may be done before it asks core to do it, and its clock
     * never goes back: core/test_planted.c finds these. */
    PLANTED_REAPER_TOO_EARLY,
    PLANTED_CLAIM_BEFORE_DUE,
    PLANTED_WAKE_TOO_EARLY,
    PLANTED_DEPENDENCY_IGNORED,
    PLANTED_AVOID_LIST_IGNORED,
    PLANTED_HEARTBEAT_SHORTENS,
    PLANTED_LIFETIME_TOO_SHORT,
    /* Worlds in memory lose no heartbeats. */
    PLANTED_LOST_BEATS_NO_GRACE,
    /* No kind of a world has a grace for cancellations: the judge of core/test_planted.c finds
     * this. */
    PLANTED_CANCEL_GRACE_OF_KIND_IGNORED,
    /* The engine looks before it writes: store/conformance_*.c finds these. And in a world a commit
     * that fails is one of which nobody can say whether it was made. */
    PLANTED_MEMORY_EVENT_REPLACED,
    PLANTED_MEMORY_KEY_TWICE,
    PLANTED_MEMORY_KEEPS_WHAT_FAILED,
    /* No world has callers with tokens, imports, backups, long verbs under a key, a
     * standby, commits lost in a failover or lanes that another program wrote. */
    PLANTED_MEMORY_REVOKED_LIVES,
    PLANTED_FOREIGN_QUEUE_SERVED,
    PLANTED_FOREIGN_RESOURCE_USED,
    PLANTED_FOREIGN_RESOURCE_CHANGED,
    PLANTED_RESOURCE_SERVES_ANY_QUEUE,
    PLANTED_QUESTION_PLANNED_AWAY,
    PLANTED_REFUSAL_SHOWS_THE_JOB,
    PLANTED_REJECTED_STEP_SUCCEEDS, /* nor has one persons who reject */
    PLANTED_SCOPE_NOT_LOOKED_AT,
    PLANTED_IMPORT_NOT_CHECKED,
    PLANTED_ANSWER_NOT_KEPT,
    PLANTED_LOST_LEASES_STAY,
    PLANTED_REPEATED_IS_NOT_AWAITED,
    PLANTED_LANES_BELIEVED,
    PLANTED_LOST_EVENTS_PASSED_OVER,
    PLANTED_BACKUP_ANYWHERE,
    PLANTED_ANSWERED_BY_ANYBODY,
    PLANTED_JOBS_SHOWN_TO_ANYBODY,
    /* No actor asks for some types of events, for the next page of a list or for groups of dead
     * letters. */
    PLANTED_GROUP_WITHOUT_ERROR,
    PLANTED_GROUP_FILTER_DROPPED,
    PLANTED_EVENT_TYPE_NOT_LOOKED_AT,
    PLANTED_PAGE_REPEATS_ITS_LAST,
    /* No rule says which queue comes first, or how fast: everything ends all the same. */
    PLANTED_QUEUES_TAKE_NO_TURNS,
    PLANTED_LOST_RESOURCE_KEEPS_STEPS,
    /* Nor which of the jobs of one moment comes first. */
    PLANTED_NEWEST_JOB_FIRST,
    /* No actor lists by labels, and no worker of a world registers. */
    PLANTED_LABELS_NOT_LOOKED_AT,
    PLANTED_EVERY_CLAIM_LOOKS_AT_ITS_WORKER,
    PLANTED_EXPIRED_WORKER_IS_LIVE,
    PLANTED_FOREIGN_WORKER_SHOWN,
    PLANTED_CLAIM_RENEWS_NO_WORKER,
    PLANTED_WORKER_OF_ANY_QUEUE_FITS,
    /* It takes thousands of seeds. */
    PLANTED_MEMORY_KEY_STAYS,
    PLANTED_CLAIM_CARRIES_OLD_EFFECTS,
    PLANTED_WOKEN_IN_VAIN_TELLS_NOBODY,
    PLANTED_GONE_WAITER_TELLS_NOBODY,
    PLANTED_PROBE_KEEPS_ALL,
    PLANTED_NEXT_TIME_FORGOTTEN,
    /* A server has one batch at the store at a time, and between a look for what is due and what
     * it leads to there is none. */
    PLANTED_RENEWED_RESOURCE_LOST,
    PLANTED_PASSED_OVER_SLEEP_ON,
    PLANTED_MISSED_GOES_TO_SLEEP,
    PLANTED_SHADOWED_LEAVES_IN_SILENCE,
    PLANTED_SOONER_TIME_FORGOTTEN,
    /* Worlds submit jobs one by one, and small ones. */
    PLANTED_SUBMIT_TORN,
    PLANTED_CUT_SHORT_TELLS_NOBODY,
};

/* In the layers that a world is made of. */
static bool is_hunted(enum planted_bug bug)
{
    const char *layer = bug_layers[bug];
    for (size_t i = 0; i < sizeof out_of_reach / sizeof out_of_reach[0]; i++)
        if (out_of_reach[i] == bug)
            return false;
    return strcmp(layer, "core") == 0 || strcmp(layer, "memory") == 0 ||
           strcmp(layer, "engine") == 0;
}

struct finding {
    uint32_t seeds; /* until a world was broken; 0: none was */
    bool over;      /* nothing more is to come */
    char rule[RULE_BYTES];
};

static struct scenario of_seed(uint64_t seed)
{
    return (struct scenario){
        .seed = seed, .commands = COMMANDS_DEFAULT, .faults = FAULTS_ALL, .actors = ACTORS_ALL};
}

/* Runs seeds until one is broken; tells how far it has got before each, in case that it ends. */
static void hunt(enum planted_bug bug, int to)
{
    struct sim_counts counts = {0};
    struct finding finding = {0};
    uint32_t seeds = bug == PLANTED_NONE ? SEEDS : HUNT_SEEDS;
    planted_bug = bug;
    for (uint32_t seed = 1; seed <= seeds && !finding.over; seed++) {
        struct scenario scenario = of_seed(seed);
        struct sim_result result;
        finding = (struct finding){.seeds = seed, .rule = "assertion"};
        if (write(to, &finding, sizeof finding) != sizeof finding)
            _exit(EXIT_FAILURE);
        sim_run(&scenario, NULL, &counts, &result);
        if (result.failed) {
            finding.over = true;
            (void)snprintf(finding.rule, sizeof finding.rule, "%s", result.rule);
        }
        sim_result_release(&result);
    }
    if (!finding.over)
        finding = (struct finding){.over = true};
    (void)!write(to, &finding, sizeof finding);
}

static struct finding hunt_in_child(enum planted_bug bug)
{
    int ends[2];
    struct finding finding = {0};
    struct finding next;
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)close(STDERR_FILENO);
        hunt(bug, ends[1]);
        _exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    while (read(ends[0], &next, sizeof next) == sizeof next)
        finding = next;
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(finding.over || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
    return finding;
}

static void without_a_planted_bug_no_world_is_broken(void **state)
{
    (void)state;
    struct finding finding = hunt_in_child(PLANTED_NONE);
    assert_int_equal(finding.seeds, 0);
}

static void planted_bugs_break_worlds(void **state)
{
    (void)state;
    int found = 0;
    int missed = 0;
    for (int bug = PLANTED_NONE + 1; bug < PLANTED_COUNT; bug++) {
        if (!is_hunted((enum planted_bug)bug))
            continue;
        struct finding finding = hunt_in_child((enum planted_bug)bug);
        if (finding.seeds == 0)
            print_message("%-28s not found in %d seeds\n", bug_names[bug], HUNT_SEEDS);
        else
            print_message("%-28s seed %u: %s\n", bug_names[bug], finding.seeds, finding.rule);
        found += finding.seeds != 0;
        missed += finding.seeds == 0;
    }
    print_message("%d of %d planted bugs found\n", found, found + missed);
    assert_int_equal(missed, 0);
}

/* A world that breaks the rule without faults, too, is left with few commands and none of them. */
static void a_broken_world_is_made_smaller(void **state)
{
    (void)state;
    uint32_t without_faults = 0;
    planted_bug = PLANTED_WOKEN_FOR_NOBODY;
    for (uint64_t seed = 1; seed <= 30 && without_faults == 0; seed++) {
        struct scenario large = of_seed(seed);
        struct sim_counts counts = {0};
        struct sim_result result;
        sim_run(&large, NULL, &counts, &result);
        bool broken = result.failed && strcmp(result.rule, "ends") == 0;
        sim_result_release(&result);
        if (!broken)
            continue;
        struct scenario small = sim_minimise(&large, "ends");
        sim_run(&small, NULL, &counts, &result);
        uint32_t left = result.given_count - small.skipped_count;
        print_message("%u of %u commands are left, without faults: %s\n", left, large.commands,
                      small.faults == 0 ? "yes" : "no");
        assert_true(result.failed);
        assert_string_equal(result.rule, "ends");
        assert_true(left <= large.commands / 4);
        without_faults += small.faults == 0;
        sim_result_release(&result);
        free(small.skipped);
    }
    planted_bug = PLANTED_NONE;
    assert_int_equal(without_faults, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_planted_bug_no_world_is_broken),
        cmocka_unit_test(planted_bugs_break_worlds),
        cmocka_unit_test(a_broken_world_is_made_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
