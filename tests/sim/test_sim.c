/* Simulated worlds, one for each seed: none is broken, each gives the same trace when it is run
 * again, and all together have seen every fault and every verb that can be seen there.
 *
 * PAWL_SEED=… PAWL_WORLDS=1 runs one of them; build/sim/pawl-sim shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { RUNS = 3000, TWICE_EVERY = 20 };

/* What all worlds came to, for the tests that come after. */
static struct sim_counts counts;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static struct scenario of_seed(uint64_t seed)
{
    return (struct scenario){
        .seed = seed, .commands = COMMANDS_DEFAULT, .faults = FAULTS_ALL, .actors = ACTORS_ALL};
}

static void no_world_is_broken_and_each_can_be_repeated(void **state)
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
            fail_msg("seed %llu: %s: %s; build/sim/pawl-sim --seed %llu --count 1 shows it",
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
    print_message("%llu worlds, %llu of them twice: %llu commands, %llu jobs, %llu events\n",
                  (unsigned long long)counts.runs, (unsigned long long)repeated,
                  (unsigned long long)counts.commands, (unsigned long long)counts.jobs,
                  (unsigned long long)counts.events);
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
    assert_true(counts.unknown > 0);
    assert_true(counts.refused > 0);
    assert_true(counts.purged > 0);
    assert_true(counts.many > 0);
}

static void every_verb_of_the_world_went_well_at_least_once(void **state)
{
    static const enum verb_name verbs[] = {
        VERB_submit,        VERB_claim,       VERB_claim_steps,  VERB_start,
        VERB_heartbeat,     VERB_complete,    VERB_fail,         VERB_wait,
        VERB_release,       VERB_cancelled,   VERB_abandon,      VERB_effect_begin,
        VERB_append,        VERB_signal,      VERB_cancel,       VERB_requeue,
        VERB_effect_commit, VERB_dead_letter, VERB_redact,       VERB_plan,
        VERB_verdict,       VERB_answer,      VERB_answer_job,   VERB_pause,
        VERB_resume,        VERB_get,         VERB_resource_put, VERB_events,
        VERB_explain,       VERB_steps,       VERB_verify,       VERB_resource_delete,
        VERB_batch,
    };
    (void)state;
    if (counts.runs < RUNS)
        skip();
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (counts.verbs[verbs[i]] == 0)
            fail_msg("%.*s never went well", STR_ARG(verb_text(verbs[i])));
}

static void jobs_have_ended_in_every_way(void **state)
{
    (void)state;
    if (counts.runs < RUNS)
        skip();
    assert_true(counts.ended[JOB_COMPLETED] > 0);
    assert_true(counts.ended[JOB_FAILED] > 0);
    assert_true(counts.ended[JOB_CANCELLED] > 0);
    assert_true(counts.ended[JOB_DEAD_LETTERED] > 0);
}

static void other_seeds_give_other_traces(void **state)
{
    (void)state;
    struct sim_counts ignored = {0};
    struct sim_result one;
    struct sim_result other;
    struct scenario scenario = of_seed(1);
    sim_run(&scenario, NULL, &ignored, &one);
    scenario.seed = 2;
    sim_run(&scenario, NULL, &ignored, &other);
    assert_memory_not_equal(one.hash, other.hash, HASH_LEN);
    sim_result_release(&one);
    sim_result_release(&other);
}

/* The rule by which a world with that lie is broken first. */
static const char *found_out(enum sim_lie lie, char rule[RULE_BYTES])
{
    enum { SEEDS = 100 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct scenario scenario = of_seed(seed);
        struct sim_counts ignored = {0};
        struct sim_result result;
        scenario.lie = lie;
        sim_run(&scenario, NULL, &ignored, &result);
        bool failed = result.failed;
        memcpy(rule, result.rule, RULE_BYTES);
        sim_result_release(&result);
        if (!failed)
            continue;
        print_message("seed %llu: %s\n", (unsigned long long)seed, rule);
        return rule;
    }
    return "none";
}

static void a_store_that_acknowledges_what_it_does_not_commit_is_found_out(void **state)
{
    char rule[RULE_BYTES];
    (void)state;
    /* What is not there cannot be told of either: a response may be the first to show it. */
    const char *by = found_out(LIE_COMMIT, rule);
    assert_true(strcmp(by, "present") == 0 || strcmp(by, "answer") == 0);
}

static void a_store_that_forgets_requests_is_found_out(void **state)
{
    char rule[RULE_BYTES];
    (void)state;
    assert_string_equal(found_out(LIE_KEYS, rule), "same");
}

static void a_store_that_forgets_heartbeats_is_found_out(void **state)
{
    char rule[RULE_BYTES];
    (void)state;
    assert_string_equal(found_out(LIE_BEATS, rule), "reaped_early");
}

/* A world in which nothing is ever due cannot end once a lease is lost: one command and one fault
 * do for that. */
static void a_broken_world_is_made_smaller(void **state)
{
    (void)state;
    struct scenario large = of_seed(1);
    struct sim_counts ignored = {0};
    struct sim_result result;
    large.lie = LIE_TIMERS;
    sim_run(&large, NULL, &ignored, &result);
    assert_true(result.failed);
    assert_string_equal(result.rule, "ends");
    sim_result_release(&result);

    struct scenario small = sim_minimise(&large, "ends");
    sim_run(&small, NULL, &ignored, &result);
    uint32_t left = result.given_count - small.skipped_count;
    print_message("%u of %u commands and faults %x are left\n", left, large.commands, small.faults);
    assert_true(result.failed);
    assert_string_equal(result.rule, "ends");
    assert_true(left <= large.commands / 4);
    assert_true((small.faults & (small.faults - 1)) == 0);
    sim_result_release(&result);
    free(small.skipped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_world_is_broken_and_each_can_be_repeated),
        cmocka_unit_test(every_fault_has_struck),
        cmocka_unit_test(every_verb_of_the_world_went_well_at_least_once),
        cmocka_unit_test(jobs_have_ended_in_every_way),
        cmocka_unit_test(other_seeds_give_other_traces),
        cmocka_unit_test(a_store_that_acknowledges_what_it_does_not_commit_is_found_out),
        cmocka_unit_test(a_store_that_forgets_requests_is_found_out),
        cmocka_unit_test(a_store_that_forgets_heartbeats_is_found_out),
        cmocka_unit_test(a_broken_world_is_made_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
