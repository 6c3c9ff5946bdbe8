/* What people answer to jobs: choices, approvals, comments and names, effects in doubt, default
 * answers; and signals that end such waits, which follow the same rules. */
#include "scenario.h"

#define ASKED "job_created job_leased job_running job_waiting"

static struct command human_wait(struct world *w, const char *choices, int64_t timeout_ms,
                                 const char *default_answer)
{
    struct command wait = wait_for(w, "refund", timeout_ms);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.prompt = STR("Refund 250 euros?");
    wait.wait.choices = choices == NULL ? absent : js(w, choices);
    wait.wait.default_answer = default_answer == NULL ? absent : js(w, default_answer);
    return wait;
}

static struct command job_answer(struct world *w, const char *answer)
{
    struct command command = by_user(COMMAND_ANSWER);
    command.answer.answer = answer == NULL ? absent : js(w, answer);
    return command;
}

static void asked(struct world *w, const char *choices)
{
    running(w);
    do_ok(w, human_wait(w, choices, 0, NULL));
}

/* A job that asks about the effect "charge", begun by a worker that died. */
static void asked_about_charge(struct world *w)
{
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_ASK;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "charge", "5"));
    w->now += 30000;
    do_ok(w, expire_of(w->slice.job.attempt));
    w->now += 60000;
    do_ok(w, claim_by("w2", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_status(w, "waiting");
}

#define DOUBTED                                                                                    \
    "job_created job_leased job_running tool_called job_requeued job_leased job_running "          \
    "job_waiting"

/* ---- choices ---- */

static void a_choice_reaches_the_worker_as_it_is_with_name_and_comment(void **state)
{
    struct world *w = *state;
    asked(w, "['yes','no']");
    struct command answer = job_answer(w, " 'no' ");
    answer.answer.by = STR("grace");
    answer.answer.comment = STR("Out of warranty.");
    do_ok(w, answer);
    const struct resume *resume = &w->slice.job.resume;
    assert_status(w, "queued");
    assert_int_equal(resume->outcome, OUTCOME_SIGNAL);
    assert_text(resume->correlation_key, "refund");
    assert_str(resume->payload, js(w, "'no'"));
    assert_text(resume->by, "grace");
    assert_text(resume->comment, "Out of warranty.");
    assert_str(last_event(w)->actor, answer.actor);
    assert_text(last_event(w)->cause_text, "answer");
    do_ok(w, claim_by("w2", true));
    assert_str(w->slice.job.resume.payload, js(w, "'no'"));
    story(w, ASKED " wait_completed job_leased job_running");
}

static void an_answer_that_is_not_a_choice_is_refused_and_names_the_choices(void **state)
{
    struct world *w = *state;
    asked(w, "['yes','no']");
    refused(w, job_answer(w, "'maybe'"), ERR_BAD_REQUEST,
            "answer \"maybe\" is not one of [\"yes\",\"no\"]");
    refused(w, job_answer(w, "{'approved':true,'answer':'no'}"), ERR_BAD_REQUEST,
            "answer {\"approved\":true,\"answer\":\"no\"} is not one of [\"yes\",\"no\"]");
    refused(w, job_answer(w, "true"), ERR_BAD_REQUEST,
            "answer true is not one of [\"yes\",\"no\"]");
    story(w, ASKED);
}

static void a_signal_that_ends_a_wait_with_choices_carries_one_of_them(void **state)
{
    struct world *w = *state;
    asked(w, "['yes','no']");
    refused(w, signal_of(w, "refund", "{'approved':true,'answer':'no'}"), ERR_BAD_REQUEST,
            "answer {\"approved\":true,\"answer\":\"no\"} is not one of [\"yes\",\"no\"]");
    refused(w, signal_of(w, "refund", NULL), ERR_BAD_REQUEST,
            "answer null is not one of [\"yes\",\"no\"]");
    do_ok(w, signal_of(w, "refund", "'no'"));
    assert_str(w->slice.job.resume.payload, js(w, "'no'"));
    assert_str(w->slice.job.resume.by, last_event(w)->actor);
    story(w, ASKED " wait_completed");
}

static void a_stored_signal_that_is_not_a_choice_answers_nothing(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, signal_of(w, "refund", "{'approved':true}"));
    do_ok(w, human_wait(w, "['yes','no']", 0, NULL));
    assert_status(w, "waiting");
    do_ok(w, job_answer(w, "'yes'"));
    assert_str(w->slice.job.resume.payload, js(w, "'yes'"));
    assert_int_equal(w->slice.job.stored_signals, 1);
    story(w, "job_created job_leased job_running signal_received job_waiting wait_completed");
}

static void a_stored_signal_that_is_a_choice_is_taken_from_behind_others(void **state)
{
    struct world *w = *state;
    running(w);
    struct command wait = wait_for(w, "mode", 0);
    do_ok(w, signal_of(w, "mode", "'fast'"));
    do_ok(w, signal_of(w, "mode", "{'n':1}"));
    do_ok(w, signal_of(w, "mode", "'no'"));
    do_ok(w, signal_of(w, "mode", "'yes'"));
    wait.wait.choices = js(w, "['yes','no']");
    do_ok(w, wait);
    assert_status(w, "queued");
    assert_str(w->slice.job.resume.payload, js(w, "'no'"));
    assert_str(last_event(w)->data.choices, js(w, "['yes','no']"));
    /* What was passed over is there for a wait that takes it. */
    do_ok(w, claim_by("w1", true));
    wait.token = w->last.result.token;
    wait.wait.choices = (struct str){NULL, 0};
    do_ok(w, wait);
    assert_str(w->slice.job.resume.payload, js(w, "'fast'"));
    assert_int_equal(w->slice.job.stored_signals, 2);
    story_since(w, 7, "wait_completed job_leased job_running wait_completed");
}

static void a_wait_whose_stored_signals_are_all_no_choices_blocks(void **state)
{
    struct world *w = *state;
    running(w);
    struct command wait = wait_for(w, "mode", 0);
    do_ok(w, signal_of(w, "mode", "'fast'"));
    do_ok(w, signal_of(w, "mode", "{'n':1}"));
    wait.wait.choices = js(w, "['yes','no']");
    do_ok(w, wait);
    assert_status(w, "waiting");
    do_ok(w, signal_of(w, "mode", "'yes'"));
    assert_str(w->slice.job.resume.payload, js(w, "'yes'"));
    assert_int_equal(w->slice.job.stored_signals, 2);
}

static void nobody_answers_a_question_in_advance(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, signal_of(w, "refund", "'no'"));
    do_ok(w, human_wait(w, "['yes','no']", 0, NULL));
    assert_status(w, "waiting");
    do_ok(w, job_answer(w, "'yes'"));
    assert_str(w->slice.job.resume.payload, js(w, "'yes'"));
    story(w, "job_created job_leased job_running signal_received job_waiting wait_completed");
}

/* ---- without choices ---- */

static void without_choices_any_answer_is_taken_as_it_is(void **state)
{
    struct world *w = *state;
    asked(w, NULL);
    do_ok(w, job_answer(w, "{'approved':false}"));
    assert_str(w->slice.job.resume.payload, js(w, "{'approved':false}"));
    /* Who says no name answers under the name that was authenticated. */
    assert_str(w->slice.job.resume.by, last_event(w)->actor);
    assert_false(str_is_set(w->slice.job.resume.comment));
    story(w, ASKED " wait_completed");
}

static void an_answer_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    asked(w, NULL);
    refused(w, job_answer(w, NULL), ERR_BAD_REQUEST, "answer is required");
    refused(w, job_answer(w, "null"), ERR_BAD_REQUEST, "answer is required");
    struct command answer = job_answer(w, "1");
    answer.answer.by = STR("");
    refused(w, answer, ERR_BAD_REQUEST, "by must not be empty");
    answer = job_answer(w, "1");
    answer.answer.comment = STR("\xff");
    refused(w, answer, ERR_BAD_REQUEST, "comment is not valid UTF-8");
    answer = job_answer(w, "1");
    answer.answer.has_result = true;
    answer.answer.result = STR("5");
    refused(w, answer, ERR_BAD_REQUEST, "result is only for an effect in doubt");
    story(w, ASKED);
}

static void the_same_answer_again_is_a_repeat_and_another_one_is_refused(void **state)
{
    struct world *w = *state;
    asked(w, "['yes','no']");
    do_ok(w, job_answer(w, "'no'"));
    do_again(w, job_answer(w, "'no'"));
    refused(w, job_answer(w, "'yes'"), ERR_INVALID_TRANSITION,
            "cannot answer job {job}: it is queued");
    story(w, ASKED " wait_completed");
}

/* ---- which question ---- */

static void an_answer_to_another_question_is_refused(void **state)
{
    struct world *w = *state;
    asked(w, NULL);
    struct command answer = job_answer(w, "1");
    answer.answer.correlation_key = STR("invoice");
    refused(w, answer, ERR_WRONG_CORRELATION_KEY,
            "the question of the job has the key \"refund\", not \"invoice\"");
    answer.answer.correlation_key = STR("refund");
    answer.answer.has_attempt = true;
    answer.answer.attempt = 2;
    refused(w, answer, ERR_VERSION_MISMATCH,
            "the question of job \"mail\" has changed: the current attempt is 1, not 2");
    answer.answer.attempt = 1;
    do_ok(w, answer);
    story(w, ASKED " wait_completed");
}

/* ---- who may not read ---- */

static struct command blind(struct command command)
{
    command.blind = true;
    return command;
}

static void a_refusal_names_nothing_of_the_job_to_who_may_not_read_it(void **state)
{
    struct world *w = *state;
    asked(w, "['yes','no']");
    struct command answer = blind(job_answer(w, "'maybe'"));
    refused(w, answer, ERR_BAD_REQUEST, "answer \"maybe\" is not one of the choices");
    refused(w, blind(signal_of(w, "refund", "'maybe'")), ERR_BAD_REQUEST,
            "answer \"maybe\" is not one of the choices");
    refused(w, blind(signal_of(w, "invoice", "'yes'")), ERR_WRONG_CORRELATION_KEY,
            "the job does not wait for the key \"invoice\"; use early: true to store the signal");
    answer.answer.correlation_key = STR("invoice");
    refused(w, answer, ERR_WRONG_CORRELATION_KEY,
            "the job has no open question with the key \"invoice\"");
    answer.answer.correlation_key = STR("refund");
    answer.answer.has_attempt = true;
    answer.answer.attempt = 2;
    refused(w, answer, ERR_VERSION_MISMATCH,
            "the question of this job has changed; attempt 2 is outdated");
    do_ok(w, blind(job_answer(w, "'yes'")));
    story(w, ASKED " wait_completed");
}

static void a_refused_answer_does_not_say_what_the_job_does_to_who_may_not_read_it(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, blind(job_answer(w, "1")), ERR_INVALID_TRANSITION,
            "cannot answer job {job}: it is running");
    do_ok(w, wait_for(w, "k", 0));
    refused(w, blind(job_answer(w, "1")), ERR_INVALID_TRANSITION, "the job has no open question");
    story(w, ASKED);
}

static void a_refused_answer_does_not_say_what_the_step_does_to_who_may_not_read_it(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    refused(w, blind(answer_of(w, "a", "1")), ERR_INVALID_TRANSITION,
            "cannot answer step \"a\" in its state");
    refused(w, blind(job_answer(w, "1")), ERR_INVALID_TRANSITION,
            "cannot answer job {job}: it is running");
    struct command forged = blind(complete_with(w, "1"));
    char *text = arena_alloc(&w->arena, forged.token.len);
    memcpy(text, forged.token.at, forged.token.len);
    text[forged.token.len - 1] ^= 1;
    forged.token.at = text;
    refused(w, forged, ERR_STALE_LEASE,
            "the token of attempt 1 of job {job} is not live: its secret does not match");
    /* The holder of the lease may read it all. */
    do_ok(w, begin_of(w, "mail", "1"));
    refused(
        w, blind(complete_with(w, "1")), ERR_INVALID_TRANSITION,
        "cannot complete while the effect \"mail\" is open: commit, abort or begin it again first");
}

static void only_a_job_that_asks_a_person_can_be_answered(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, job_answer(w, "1"), ERR_INVALID_TRANSITION,
            "cannot answer job {job}: it is running");
    do_ok(w, wait_for(w, "k", 0));
    refused(w, job_answer(w, "1"), ERR_INVALID_TRANSITION,
            "the job has no open question: it waits for a signal");
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    refused(w, job_answer(w, "1"), ERR_INVALID_TRANSITION,
            "cannot answer job {job}: it is cancelled");
    story(w, ASKED " job_cancelled");
}

static void a_job_whose_steps_ask_is_answered_by_step(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    struct command ask = with_token(verdict_on(NULL, VERDICT_NEEDS_USER), w->token);
    ask.actor = STR("w1");
    ask.verdict.question.prompt = STR("Really?");
    do_ok(w, ask);
    refused(w, job_answer(w, "1"), ERR_INVALID_TRANSITION,
            "the open questions are those of its steps: answer a step by its id");
    struct command answer = answer_of(w, "a", "1");
    answer.answer.comment = STR("go on");
    do_ok(w, answer);
    assert_text(step_named(w, "a")->answer_comment, "go on");
    do_again(w, answer);
}

/* ---- time ---- */

static void a_wait_of_a_job_that_times_out_gets_its_default_answer(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, human_wait(w, "['yes','no']", 5000, "'no'"));
    assert_str(w->slice.job.wait.default_answer, js(w, "'no'"));
    w->now += 5000;
    do_ok(w, by_engine(COMMAND_WAKE));
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_TIMEOUT);
    assert_str(w->slice.job.resume.payload, js(w, "'no'"));
    assert_false(str_is_set(w->slice.job.resume.by));
    story(w, ASKED " wait_completed");
}

static void a_choice_that_is_there_twice_is_refused_however_it_is_escaped(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, human_wait(w, "['yes','no','yes']", 0, NULL), ERR_BAD_REQUEST,
            "duplicate choice \"yes\"");
    refused(w, human_wait(w, "['no','n\\u006f']", 0, NULL), ERR_BAD_REQUEST,
            "duplicate choice \"no\"");
    do_ok(w, human_wait(w, "['yes','Yes']", 0, NULL));
}

static void a_default_answer_is_one_of_the_choices_and_not_for_timers(void **state)
{
    struct world *w = *state;
    running(w);
    refused(w, human_wait(w, "['yes','no']", 5000, "'maybe'"), ERR_BAD_REQUEST,
            "default_answer \"maybe\" is not one of the choices");
    struct command timer = by_worker(w, COMMAND_WAIT);
    timer.wait.type = WAIT_TIMER;
    timer.wait.delay_ms = 5;
    timer.wait.default_answer = STR("1");
    refused(w, timer, ERR_BAD_REQUEST, "a timer takes no default_answer");
    story(w, "job_created job_leased job_running");
}

/* ---- effects in doubt ---- */

static void done_needs_the_result_of_the_effect(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    refused(w, job_answer(w, "'done'"), ERR_BAD_REQUEST,
            "result is required with done: it is recorded as the effect's result");
    refused(w, signal_of(w, "charge", "'done'"), ERR_BAD_REQUEST,
            "result is required with done: it is recorded as the effect's result");
    struct command answer = job_answer(w, "'done'");
    answer.answer.has_result = true;
    answer.answer.result = js(w, "{'receipt':17}");
    do_ok(w, answer);
    assert_int_equal(w->slice.job.open_effects, 0);
    assert_true(w->slice.effects[0].returned);
    assert_str(w->slice.effects[0].result, js(w, "{'receipt':17}"));
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    story(w, DOUBTED " wait_completed job_leased job_running");
}

static void a_result_of_null_can_be_said_and_is_not_left_out(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    struct command answer = job_answer(w, "'done'");
    answer.answer.has_result = true;
    answer.answer.result = STR("null");
    do_ok(w, answer);
    assert_true(w->slice.effects[0].returned);
    assert_false(str_is_set(w->slice.effects[0].result));
    story(w, DOUBTED " wait_completed");
}

static void decision_is_the_old_word_for_answer(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    refused(w, signal_of(w, "charge", "{'decision':'done','answer':'done','result':1}"),
            ERR_BAD_REQUEST, "answer and decision exclude each other");
    refused(w, signal_of(w, "charge", "{'decision':'retry','result':1}"), ERR_BAD_REQUEST,
            "result is only for done, not for retry");
    do_ok(w, signal_of(w, "charge", "{'decision':'done','result':1}"));
    assert_str(w->slice.effects[0].result, STR("1"));
    story(w, DOUBTED " wait_completed");
}

static void an_effect_in_doubt_takes_no_other_word(void **state)
{
    struct world *w = *state;
    asked_about_charge(w);
    refused(w, job_answer(w, "'yes'"), ERR_BAD_REQUEST,
            "the answer for an effect in doubt must be retry, done or fail, not \"yes\"");
    refused(w, job_answer(w, "{'approved':true}"), ERR_UNKNOWN_FIELD, "unknown field \"approved\"");
    do_ok(w, job_answer(w, "'retry'"));
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge", "5"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    story(w, DOUBTED " wait_completed job_leased job_running tool_called");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_choice_reaches_the_worker_as_it_is_with_name_and_comment),
        SCENARIO(an_answer_that_is_not_a_choice_is_refused_and_names_the_choices),
        SCENARIO(a_signal_that_ends_a_wait_with_choices_carries_one_of_them),
        SCENARIO(a_stored_signal_that_is_not_a_choice_answers_nothing),
        SCENARIO(a_stored_signal_that_is_a_choice_is_taken_from_behind_others),
        SCENARIO(a_wait_whose_stored_signals_are_all_no_choices_blocks),
        SCENARIO(nobody_answers_a_question_in_advance),
        SCENARIO(without_choices_any_answer_is_taken_as_it_is),
        SCENARIO(an_answer_that_is_not_sound_is_refused),
        SCENARIO(the_same_answer_again_is_a_repeat_and_another_one_is_refused),
        SCENARIO(an_answer_to_another_question_is_refused),
        SCENARIO(a_refusal_names_nothing_of_the_job_to_who_may_not_read_it),
        SCENARIO(a_refused_answer_does_not_say_what_the_job_does_to_who_may_not_read_it),
        SCENARIO(a_refused_answer_does_not_say_what_the_step_does_to_who_may_not_read_it),
        SCENARIO(only_a_job_that_asks_a_person_can_be_answered),
        SCENARIO(a_job_whose_steps_ask_is_answered_by_step),
        SCENARIO(a_wait_of_a_job_that_times_out_gets_its_default_answer),
        SCENARIO(a_choice_that_is_there_twice_is_refused_however_it_is_escaped),
        SCENARIO(a_default_answer_is_one_of_the_choices_and_not_for_timers),
        SCENARIO(done_needs_the_result_of_the_effect),
        SCENARIO(a_result_of_null_can_be_said_and_is_not_left_out),
        SCENARIO(decision_is_the_old_word_for_answer),
        SCENARIO(an_effect_in_doubt_takes_no_other_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
