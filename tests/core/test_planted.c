/* Every planted bug is caught: by an assertion in the core, by the judge beside the random
 * commands, or by the checker.
 *
 * Linked with the core built with -DPAWL_PLANTED. Each bug runs in a child process, since an
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
#include "random_commands.h"

enum { LIVES = 8000, FAULT_BYTES = 160 };

static const char *const bug_names[] = {
    "none",
#define PLANTED_BUG(symbol, layer, text, test, name) #symbol ": " text,
#include "base/planted.def"
#undef PLANTED_BUG
};

/* No life deletes anything, and so none has a use for trusted time (core/test_trusted_time.c); none
 * counts dead letters (core/test_dead_group.c) or reads the terms of leases from a request
 * (core/test_spec.c); and none has tokens, to which resources would belong
 * (core/test_resource_owner.c) and which might not read (core/test_decide_answer.c), workers that
 * register (core/test_worker.c), persons who reject (core/test_decide_question.c), or a store that
 * may have lost heartbeats (core/test_decide_lease.c). */
static bool is_hunted(enum planted_bug bug)
{
    return bug != PLANTED_JUMP_IS_TRUSTED && bug != PLANTED_GROUP_WITHOUT_ERROR &&
           bug != PLANTED_HEARTBEAT_OF_A_WHOLE_LEASE && bug != PLANTED_FOREIGN_RESOURCE_USED &&
           bug != PLANTED_FOREIGN_RESOURCE_CHANGED && bug != PLANTED_RESOURCE_SERVES_ANY_QUEUE &&
           bug != PLANTED_QUESTION_PLANNED_AWAY && bug != PLANTED_REFUSAL_SHOWS_THE_JOB &&
           bug != PLANTED_EXPIRED_WORKER_IS_LIVE && bug != PLANTED_FOREIGN_WORKER_SHOWN &&
           bug != PLANTED_CLAIM_RENEWS_NO_WORKER && bug != PLANTED_WORKER_OF_ANY_QUEUE_FITS &&
           bug != PLANTED_REJECTED_STEP_SUCCEEDS && bug != PLANTED_LOST_BEATS_NO_GRACE;
}

struct finding {
    int lives; /* until it was caught; 0: not caught */
    char fault[FAULT_BYTES];
};

/* Lives with the bug switched on until one is caught. */
static struct finding hunt(enum planted_bug bug)
{
    struct world world;
    struct random_stats stats = {0};
    struct finding finding = {0};
    planted_bug = bug;
    world_init(&world, 1);
    for (int i = 0; i < LIVES && finding.lives == 0; i++) {
        const char *fault = random_run(&world, (uint64_t)i + 1, i % 2 == 1, &stats);
        if (fault == NULL)
            continue;
        finding.lives = i + 1;
        (void)snprintf(finding.fault, sizeof finding.fault, "%.*s", (int)strcspn(fault, "\n"),
                       fault);
    }
    world_release(&world);
    planted_bug = PLANTED_NONE;
    return finding;
}

/* Hunts in a child, so that an assertion counts as a catch too. */
static struct finding hunt_in_child(enum planted_bug bug)
{
    int pipe_ends[2];
    struct finding finding = {0};
    assert_int_equal(pipe(pipe_ends), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)close(STDERR_FILENO);
        finding = hunt(bug);
        _exit(write(pipe_ends[1], &finding, sizeof finding) == sizeof finding ? 0 : 1);
    }
    (void)close(pipe_ends[1]);
    ssize_t got = read(pipe_ends[0], &finding, sizeof finding);
    (void)close(pipe_ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (got == sizeof finding)
        return finding;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    finding.lives = -1;
    (void)snprintf(finding.fault, sizeof finding.fault, "an assertion in the core");
    return finding;
}

static void without_a_planted_bug_nothing_is_reported(void **state)
{
    (void)state;
    struct finding finding = hunt(PLANTED_NONE);
    if (finding.lives != 0)
        print_error("life %d: %s\n", finding.lives, finding.fault);
    assert_int_equal(finding.lives, 0);
}

static void every_planted_bug_is_caught(void **state)
{
    (void)state;
    int caught = 0;
    int hunted = 0;
    for (int bug = PLANTED_NONE + 1; bug <= PLANTED_CORE_COUNT; bug++) {
        if (!is_hunted((enum planted_bug)bug))
            continue;
        struct finding finding = hunt_in_child((enum planted_bug)bug);
        if (finding.lives == 0)
            print_error("NOT CAUGHT %s\n", bug_names[bug]);
        else
            print_message("%s\n    life %d: %s\n", bug_names[bug], finding.lives, finding.fault);
        caught += finding.lives != 0;
        hunted++;
    }
    print_message("%d of %d planted bugs caught\n", caught, hunted);
    assert_true(hunted >= 20);
    assert_int_equal(caught, hunted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_planted_bug_nothing_is_reported),
        cmocka_unit_test(every_planted_bug_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
