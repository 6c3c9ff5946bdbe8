/* Makes a failing scenario smaller. Each trial runs in a child, so that a failed assertion, or a
 * crash, is a failure like any other. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

enum { TRIAL_SECONDS = 20, SAME = 1 };

/* Whether the scenario fails by the same rule; `rule` NULL: the process dies, though not for taking
 * too long. */
static bool still_fails(const struct scenario *scenario, const char *rule)
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        struct sim_counts counts = {0};
        struct sim_result result;
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)alarm(TRIAL_SECONDS);
        (void)close(STDERR_FILENO);
        sim_run(scenario, NULL, &counts, &result);
        bool same = result.failed && rule != NULL && strcmp(result.rule, rule) == 0;
        _exit(same ? SAME : 0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child)
        abort();
    return rule != NULL ? WIFEXITED(status) && WEXITSTATUS(status) == SAME
                        : WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM;
}

/* Takes away what is not needed, one bit of a set after the other. */
static void shrink_set(struct scenario *scenario, uint32_t *set, uint32_t count, const char *rule)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = *set;
        *set &= ~(UINT32_C(1) << i);
        if (*set != before && !still_fails(scenario, rule))
            *set = before;
    }
}

static void shrink_commands(struct scenario *scenario, const char *rule)
{
    for (uint32_t step = scenario->commands / 2; step > 0; step /= 2)
        while (scenario->commands > step) {
            scenario->commands -= step;
            if (!still_fails(scenario, rule)) {
                scenario->commands += step;
                break;
            }
        }
}

/* Skips commands in ever smaller groups. The world is run here to see which it gives. */
static void skip_commands(struct scenario *scenario, const char *rule)
{
    struct sim_counts counts = {0};
    struct sim_result result;
    sim_run(scenario, NULL, &counts, &result);
    struct sim_command *given = result.given;
    uint32_t count = result.given_count;
    struct sim_command *skipped =
        calloc((size_t)scenario->skipped_count + count + 1, sizeof *skipped);
    if (skipped == NULL)
        abort();
    for (uint32_t i = 0; i < scenario->skipped_count; i++)
        skipped[i] = scenario->skipped[i];
    for (uint32_t group = count / 2; group > 0; group /= 2)
        for (uint32_t at = 0; at < count;) {
            uint32_t taken = count - at < group ? count - at : group;
            memcpy(skipped + scenario->skipped_count, given + at, taken * sizeof *skipped);
            scenario->skipped = skipped;
            scenario->skipped_count += taken;
            if (still_fails(scenario, rule)) {
                memmove(given + at, given + at + taken, (count - at - taken) * sizeof *given);
                count -= taken;
            } else {
                scenario->skipped_count -= taken;
                at += taken;
            }
        }
    scenario->skipped = skipped;
    sim_result_release(&result);
}

struct scenario sim_minimise(const struct scenario *scenario, const char *rule)
{
    struct scenario small = *scenario;
    shrink_commands(&small, rule);
    shrink_set(&small, &small.faults, FAULT_COUNT, rule);
    shrink_set(&small, &small.actors, ACTORS_MAX, rule);
    shrink_commands(&small, rule);
    if (rule != NULL)
        skip_commands(&small, rule);
    return small;
}
