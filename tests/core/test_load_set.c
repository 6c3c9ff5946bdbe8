/* Which parts of a job a command needs. That they are enough is proved by the random lives, which
 * decide on them and on the whole job. */
#include "core/load_set.h"

#include "scenario.h"

static const struct job bare = {.status = JOB_QUEUED};
static const struct job with_plan = {.status = JOB_RUNNING, .plan_version = 1};

static struct command command_of(enum command_type type)
{
    return (struct command){.type = type};
}

static void needs_no_steps(const struct job *job, struct command command)
{
    struct step_load_set needs = command_step_load_set(job, &command);
    assert_false(step_load_set_any(&needs));
    assert_false(needs.all || needs.one || needs.by_ordinal);
    assert_str(needs.id, absent);
    assert_str(needs.asking_key, absent);
}

static void needs_nothing_more(const struct part_load_set *needs)
{
    assert_false(part_load_set_any(needs));
    assert_false(needs->open_effects || needs->all_open_effects);
}

/* ---- steps ---- */

static void a_job_without_a_plan_has_no_steps_to_load(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    for (int type = COMMAND_SUBMIT; type <= COMMAND_CANCEL_DUE; type++) {
        struct command command = command_of((enum command_type)type);
        needs_no_steps(&bare, command);
        needs_no_steps(&bare, on_step(command, "a"));
        needs_no_steps(&bare, with_token(command, w->token));
    }
}

static void what_is_about_a_whole_plan_needs_all_of_it(void **state)
{
    (void)state;
    for (int type = COMMAND_SUBMIT; type <= COMMAND_CANCEL_DUE; type++) {
        struct command command = command_of((enum command_type)type);
        bool whole = type == COMMAND_PLAN || type == COMMAND_REQUEUE || type == COMMAND_WAKE;
        if (type == COMMAND_SIGNAL)
            continue;
        struct step_load_set needs = command_step_load_set(&with_plan, &command);
        assert_int_equal(needs.all, whole);
        assert_int_equal(step_load_set_any(&needs), whole);
        assert_false(needs.one);
    }
}

static void a_command_on_a_step_needs_that_step(void **state)
{
    (void)state;
    for (int type = COMMAND_SUBMIT; type <= COMMAND_CANCEL_DUE; type++) {
        struct command command = on_step(command_of((enum command_type)type), "a");
        struct step_load_set needs = command_step_load_set(&with_plan, &command);
        assert_false(needs.all || needs.by_ordinal);
        assert_true(needs.one);
        assert_true(step_load_set_any(&needs));
        assert_text(needs.id, "a");
        assert_str(needs.asking_key, absent);
    }
}

static void a_token_says_which_step_it_is_about(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    struct command beat = with_token(command_of(COMMAND_HEARTBEAT), w->token);
    struct step_load_set needs = command_step_load_set(&w->slice.job, &beat);
    assert_true(needs.one && needs.by_ordinal && !needs.all);
    assert_int_equal(needs.ordinal, 1);
    /* The step that is named beside a token is only compared with it. */
    beat = on_step(beat, "a");
    needs = command_step_load_set(&w->slice.job, &beat);
    assert_true(needs.by_ordinal);
    assert_str(needs.id, absent);
}

static void a_token_of_no_step_needs_none(void **state)
{
    struct world *w = *state;
    static const char *const tokens[] = {"", "not-a-token", "\xff\"", "0"};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        needs_no_steps(&with_plan, with_token(command_of(COMMAND_HEARTBEAT), str_from(tokens[i])));
    running(w);
    needs_no_steps(&with_plan, with_token(command_of(COMMAND_HEARTBEAT), w->token));
    needs_no_steps(&with_plan, with_token(signal_of(w, "k", "1"), w->token));
}

static void a_signal_needs_the_step_that_asks_for_its_key(void **state)
{
    struct world *w = *state;
    struct command signal = signal_of(w, "a \"key\"", "1");
    struct step_load_set needs = command_step_load_set(&with_plan, &signal);
    assert_true(needs.one && !needs.all && !needs.by_ordinal);
    assert_str(needs.id, absent);
    assert_text(needs.asking_key, "a \"key\"");
}

/* ---- effects and signals ---- */

static void most_commands_need_nothing_but_the_header(void **state)
{
    (void)state;
    for (int type = COMMAND_SUBMIT; type <= COMMAND_CANCEL_DUE; type++) {
        struct command command = command_of((enum command_type)type);
        struct part_load_set needs = command_part_load_set(&bare, NULL, &command);
        bool open = type == COMMAND_PLAN || type == COMMAND_REQUEUE;
        assert_int_equal(needs.all_open_effects, open);
        assert_int_equal(part_load_set_any(&needs), open);
        assert_str(needs.step, absent);
    }
}

static void open_effects_of_the_job_or_the_step_are_needed(void **state)
{
    (void)state;
    struct command beat = command_of(COMMAND_HEARTBEAT);
    struct job job = {.open_effects = 1};
    struct step step = {.spec = {.id = STR("a")}};
    struct part_load_set needs = command_part_load_set(&job, NULL, &beat);
    assert_true(needs.open_effects && part_load_set_any(&needs));
    needs = command_part_load_set(&job, &step, &beat);
    needs_nothing_more(&needs);
    assert_text(needs.step, "a");
    step.open_effects = 2;
    needs = command_part_load_set(&bare, &step, &beat);
    assert_true(needs.open_effects);
    /* What a person is asked about has not returned either. */
    step.open_effects = 0;
    step.question.effect = STR("mail");
    needs = command_part_load_set(&bare, &step, &beat);
    assert_true(needs.open_effects);
    job.open_effects = 0;
    job.wait.effect = STR("mail");
    needs = command_part_load_set(&job, NULL, &beat);
    assert_true(needs.open_effects);
}

static void effects_are_needed_by_the_keys_that_a_command_names(void **state)
{
    struct world *w = *state;
    struct command begin = begin_of(w, "mail", "1");
    struct part_load_set needs = command_part_load_set(&bare, NULL, &begin);
    assert_true(part_load_set_any(&needs));
    assert_text(needs.effect_keys[0], "mail");
    assert_str(needs.effect_keys[1], absent);
    struct command commit = commit_of(w, "mail", "1");
    commit.effect_commit.then = THEN_BEGIN;
    commit.effect_commit.begin.key = STR("post");
    needs = command_part_load_set(&bare, NULL, &commit);
    assert_text(needs.effect_keys[0], "mail");
    assert_text(needs.effect_keys[1], "post");
    commit.effect_commit.then = THEN_COMPLETE; /* then nothing of that name is begun */
    assert_str(command_part_load_set(&bare, NULL, &commit).effect_keys[1], absent);
    struct command abort = abort_of(w, "mail", "{'message':'429'}");
    assert_text(command_part_load_set(&bare, NULL, &abort).effect_keys[0], "mail");
    needs.effect_keys[0] = absent;
    assert_true(part_load_set_any(&needs));
}

static void a_signal_needs_those_with_its_key_and_its_id(void **state)
{
    struct world *w = *state;
    struct command signal = signal_of(w, "k", "1");
    signal.signal.signal_id = STR("id-1");
    struct part_load_set needs = command_part_load_set(&bare, NULL, &signal);
    assert_text(needs.signal_key, "k");
    assert_text(needs.signal_id, "id-1");
    assert_true(part_load_set_any(&needs));
    needs.signal_key = absent;
    assert_true(part_load_set_any(&needs));
}

static void a_wait_needs_what_is_stored_for_it_if_anything_is(void **state)
{
    struct world *w = *state;
    struct command wait = wait_for(w, "k", 0);
    struct job job = bare;
    struct part_load_set needs = command_part_load_set(&job, NULL, &wait);
    needs_nothing_more(&needs);
    job.stored_signals = 1;
    needs = command_part_load_set(&job, NULL, &wait);
    assert_text(needs.signal_key, "k");
    assert_str(needs.signal_id, absent);
}

static void a_wait_with_choices_needs_all_that_is_stored(void **state)
{
    struct world *w = *state;
    struct command wait = wait_for(w, "k", 0);
    struct command wake = command_of(COMMAND_WAKE);
    struct command signal = signal_of(w, "k", "1");
    struct job job = with_plan;
    struct step step = {.spec = {.id = STR("a")}, .question = {.correlation_key = STR("k")}};
    job.stored_signals = 1;
    assert_false(command_part_load_set(&job, NULL, &wait).all_stored);
    assert_false(command_part_load_set(&job, &step, &wake).all_stored);
    assert_false(command_part_load_set(&job, &step, &signal).all_stored);
    wait.wait.choices = step.question.choices = js(w, "['yes']");
    struct part_load_set needs = command_part_load_set(&job, NULL, &wait);
    assert_true(needs.all_stored);
    needs.signal_key = absent;
    assert_true(part_load_set_any(&needs));
    assert_true(command_part_load_set(&job, &step, &wake).all_stored);
    assert_true(command_part_load_set(&job, &step, &signal).all_stored);
    job.stored_signals = 0;
    assert_false(command_part_load_set(&job, NULL, &wait).all_stored);
    assert_false(command_part_load_set(&job, &step, &signal).all_stored);
}

static void what_follows_a_commit_needs_what_it_would_by_itself(void **state)
{
    struct world *w = *state;
    struct command commit = commit_of(w, "mail", "1");
    struct job job = {.stored_signals = 1};
    commit.effect_commit.then = THEN_WAIT;
    commit.effect_commit.wait = wait_for(w, "k", 0).wait;
    struct part_load_set needs = command_part_load_set(&job, NULL, &commit);
    assert_text(needs.signal_key, "k");
    assert_str(command_part_load_set(&bare, NULL, &commit).signal_key, absent);

    step_running(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    commit = commit_of(w, "mail", "1");
    assert_false(command_step_load_set(&w->slice.job, &commit).children);
    commit.effect_commit.then = THEN_COMPLETE;
    assert_true(command_step_load_set(&w->slice.job, &commit).children);
}

static void a_step_that_is_woken_needs_what_is_stored_for_it(void **state)
{
    (void)state;
    struct command wake = command_of(COMMAND_WAKE);
    struct job job = with_plan;
    struct step step = {.spec = {.id = STR("a")}, .question = {.correlation_key = STR("k")}};
    struct part_load_set needs = command_part_load_set(&job, &step, &wake);
    needs_nothing_more(&needs);
    job.stored_signals = 1;
    needs = command_part_load_set(&job, &step, &wake);
    assert_text(needs.signal_key, "k");
    needs = command_part_load_set(&job, NULL, &wake);
    needs_nothing_more(&needs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_job_without_a_plan_has_no_steps_to_load),
        SCENARIO(what_is_about_a_whole_plan_needs_all_of_it),
        SCENARIO(a_command_on_a_step_needs_that_step),
        SCENARIO(a_token_says_which_step_it_is_about),
        SCENARIO(a_token_of_no_step_needs_none),
        SCENARIO(a_signal_needs_the_step_that_asks_for_its_key),
        SCENARIO(most_commands_need_nothing_but_the_header),
        SCENARIO(open_effects_of_the_job_or_the_step_are_needed),
        SCENARIO(effects_are_needed_by_the_keys_that_a_command_names),
        SCENARIO(a_signal_needs_those_with_its_key_and_its_id),
        SCENARIO(a_wait_needs_what_is_stored_for_it_if_anything_is),
        SCENARIO(a_wait_with_choices_needs_all_that_is_stored),
        SCENARIO(what_follows_a_commit_needs_what_it_would_by_itself),
        SCENARIO(a_step_that_is_woken_needs_what_is_stored_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
