/* Steps that ask: needs_user with its answers and deadlines, effects in doubt, and steps that only
 * wait. */
#include "scenario.h"

#define ONE "[{'id':'a'}]"
#define BEGUN "job_created plan_generated job_running step_leased:a step_running:a"
#define ASKED BEGUN " step_needs_user:a job_waiting"

/* The worker of "a" asks with these choices, for so long, with this default. */
static struct command ask_of(struct world *w, const char *choices, int64_t timeout_ms,
                             const char *default_answer)
{
    struct command command = with_token(verdict_on(NULL, VERDICT_NEEDS_USER), w->token);
    command.actor = STR("w1");
    command.verdict.question.assignee = STR("bob");
    command.verdict.question.choices = choices == NULL ? absent : js(w, choices);
    command.verdict.question.timeout_ms = timeout_ms;
    command.verdict.question.default_answer =
        default_answer == NULL ? absent : js(w, default_answer);
    return command;
}

/* ---- needs_user ---- */

static void a_question_drops_the_lease_and_the_job_waits_when_nothing_else_can_run(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct command ask = ask_of(w, "['yes','no']", 60000, "'no'");
    do_ok(w, ask);
    const struct step *step = step_named(w, "a");
    assert_step(w, "a", "needs_user");
    assert_false(step->lease.live);
    assert_text(step->question.prompt, "Really?");
    assert_text(step->question.assignee, "bob");
    assert_text(step->question.correlation_key, "a");
    assert_int_equal(step->question.until, w->now + 60000);
    assert_status(w, "waiting");
    assert_int_equal(w->slice.job.wait.type, WAIT_STEPS);
    do_again(w, ask);
    refused(w, step_claim_of(w, "a", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim a step of job {job}: it is waiting");
    refused(w, by_engine(COMMAND_WAKE), ERR_INVALID_TRANSITION,
            "the wait of this job has no timeout");
    story(w, ASKED);
}

static void an_answered_step_is_claimed_straight_into_running(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, "['yes','no']", 0, NULL));
    do_ok(w, answer_of(w, "a", " 'yes' "));
    assert_status(w, "queued");
    assert_step(w, "a", "needs_user");
    do_ok(w, step_claim_of(w, "a", "r2", false));
    assert_step(w, "a", "running");
    assert_str(step_named(w, "a")->answer, js(w, "'yes'"));
    assert_text(step_named(w, "a")->answered_by, "bob");
    assert_int_equal(w->slice.job.attempt, 2);
    do_ok(w, complete_with(w, "1"));
    story(w, ASKED " signal_received:a wait_completed job_running step_running:a "
                   "step_succeeded:a job_completed");
}

static void an_answer_to_an_earlier_question_is_refused(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, NULL, 0, NULL));
    int64_t first = step_named(w, "a")->attempt;
    do_ok(w, answer_of(w, "a", "1"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, ask_of(w, NULL, 0, NULL));
    struct command late = answer_of(w, "a", "2");
    late.answer.has_attempt = true;
    late.answer.attempt = first;
    refused(w, late, ERR_VERSION_MISMATCH,
            "the question of step \"a\" has changed: the current attempt is 2, not 1");
    late.answer.attempt = step_named(w, "a")->attempt;
    do_ok(w, late);
    assert_str(step_named(w, "a")->answer, js(w, "2"));
}

static void the_job_runs_on_while_another_step_can(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, ask_of(w, NULL, 0, NULL));
    assert_status(w, "running");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, complete_with(w, "1"));
    assert_status(w, "waiting"); /* now nothing else can run */
    do_ok(w, answer_of(w, "a", "1"));
    story(w, BEGUN " step_needs_user:a step_leased:b step_running:b step_succeeded:b "
                   "job_waiting signal_received:a wait_completed");
}

static void two_questions_are_answered_one_by_one(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, ask_of(w, NULL, 0, NULL));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, ask_of(w, NULL, 0, NULL));
    assert_status(w, "waiting");
    do_ok(w, answer_of(w, "b", "2"));
    assert_status(w, "queued");
    do_ok(w, answer_of(w, "a", "1"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    assert_status(w, "completed");
    assert_text(w->slice.job.result, NULL); /* two final steps: none speaks for the job */
    story_since(w, 5,
                "step_needs_user:a step_leased:b step_running:b step_needs_user:b "
                "job_waiting signal_received:b wait_completed signal_received:a job_running "
                "step_running:b step_succeeded:b step_running:a step_succeeded:a "
                "job_completed");
}

static void a_choice_is_the_same_however_it_is_written(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, "['caf\\u00e9','yes\\/no']", 0, NULL));
    refused(w, answer_of(w, "a", "'cafe'"), ERR_BAD_REQUEST,
            "answer \"cafe\" is not one of [\"caf\\u00e9\",\"yes\\/no\"]");
    do_ok(w, answer_of(w, "a", "'yes/no'"));
}

static void an_answer_is_one_of_the_choices_and_given_once(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    refused(w, answer_of(w, "a", "'yes'"), ERR_INVALID_TRANSITION,
            "cannot answer step \"a\": it is running");
    do_ok(w, ask_of(w, "['yes','no']", 0, NULL));
    refused(w, answer_of(w, "a", "'maybe'"), ERR_BAD_REQUEST,
            "answer \"maybe\" is not one of [\"yes\",\"no\"]");
    refused(w, answer_of(w, "a", NULL), ERR_BAD_REQUEST, "answer is required");
    struct command answer = answer_of(w, "a", "'yes'");
    answer.answer.by = STR("");
    refused(w, answer, ERR_BAD_REQUEST, "by must not be empty");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    struct command long_answer = answer_of(w, "a", NULL);
    long_answer.answer.answer = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, long_answer, ERR_PAYLOAD_TOO_LARGE,
            "answer has 1048577 bytes; the limit is 1048576");
    do_ok(w, answer_of(w, "a", "'yes'"));
    do_again(w, answer_of(w, "a", "'yes'"));
    refused(w, answer_of(w, "a", "'no'"), ERR_INVALID_TRANSITION,
            "cannot answer step \"a\": it is needs_user and already answered");
    answer.answer.by = STR("eve");
    refused(w, answer, ERR_INVALID_TRANSITION,
            "cannot answer step \"a\": it is needs_user and already answered");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_again(w, answer_of(w, "a", "'yes'"));
    story(w, ASKED " signal_received:a wait_completed job_running step_running:a");
}

static void a_question_that_is_not_sound_is_refused(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    struct command ask = ask_of(w, NULL, 0, NULL);
    ask.verdict.question.prompt = STR("");
    refused(w, ask, ERR_BAD_REQUEST, "needs_user requires a question with a prompt");
    ask.verdict.question.prompt = STR("\xff");
    refused(w, ask, ERR_BAD_REQUEST, "question.prompt is not valid UTF-8");
    ask = ask_of(w, NULL, -1, NULL);
    refused(w, ask, ERR_BAD_REQUEST, "question.timeout_ms must be from 0 to 316224000000, not -1");
    ask = ask_of(w, NULL, DELAY_MS_MAX + 1, NULL);
    refused(w, ask, ERR_BAD_REQUEST,
            "question.timeout_ms must be from 0 to 316224000000, not 316224000001");
    ask = ask_of(w, "{'yes':1}", 0, NULL);
    refused(w, ask, ERR_BAD_REQUEST, "choices must be an array");
    ask = ask_of(w, "['yes']", 0, "'no'");
    refused(w, ask, ERR_BAD_REQUEST, "default_answer \"no\" is not one of the choices");
    ask = ask_of(w, NULL, 0, NULL);
    ask.verdict.question.assignee = STR("");
    refused(w, ask, ERR_BAD_REQUEST, "question.assignee must not be empty");
    char *large = arena_alloc(&w->arena, PAYLOAD_BYTES_MAX + 1);
    memset(large, '7', PAYLOAD_BYTES_MAX + 1);
    ask = ask_of(w, NULL, 0, NULL);
    ask.verdict.question.choices = (struct str){large, PAYLOAD_BYTES_MAX + 1};
    refused(w, ask, ERR_PAYLOAD_TOO_LARGE,
            "question.choices has 1048577 bytes; the limit is 1048576");
    story(w, BEGUN);
}

static void a_question_that_times_out_takes_its_default_answer(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, "['yes','no']", 60000, "'no'"));
    w->now += 59999;
    refused(w, on_step(by_engine(COMMAND_WAKE), "a"), ERR_INVALID_TRANSITION,
            "cannot wake step \"a\": it is needs_user and its timeout has not passed");
    w->now += 1;
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "a"));
    assert_str(step_named(w, "a")->answer, js(w, "'no'"));
    assert_text(step_named(w, "a")->answered_by, "pawl");
    refused(w, on_step(by_engine(COMMAND_WAKE), "a"), ERR_INVALID_TRANSITION,
            "cannot wake step \"a\": it is needs_user and already answered");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    story(w, ASKED " signal_received:a wait_completed job_running step_running:a");
}

static void a_question_that_times_out_without_a_default_says_timeout(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, NULL, 1000, NULL));
    w->now += 1000;
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "a"));
    assert_str(step_named(w, "a")->answer, js(w, "'timeout'"));
    assert_int_equal(w->slice.job.resume.outcome, OUTCOME_TIMEOUT);
    story(w, ASKED " signal_received:a wait_completed");
}

static void a_question_without_a_deadline_never_times_out(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, NULL, 0, NULL));
    w->now += DELAY_MS_MAX;
    refused(w, on_step(by_engine(COMMAND_WAKE), "a"), ERR_INVALID_TRANSITION,
            "cannot wake step \"a\": it is needs_user and its timeout has not passed");
    story(w, ASKED);
}

static void a_signal_with_the_name_of_the_step_answers_it(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, NULL, 0, NULL));
    struct command signal = signal_of(w, "a", "'go'");
    signal.signal.signal_id = STR("s-1");
    do_ok(w, signal);
    assert_int_equal(w->last.result.signal, SIGNAL_DELIVERED);
    assert_text(step_named(w, "a")->answered_by, "alice");
    do_again(w, signal);
    assert_int_equal(w->last.result.signal, SIGNAL_REPEATED);
    do_ok(w, signal_of(w, "other", "1")); /* not blocked any more */
    assert_int_equal(w->last.result.signal, SIGNAL_STORED);
    story(w, ASKED " signal_received:a wait_completed signal_received");
}

/* A question is a wait on its key like any other: the second time it is asked, the same answer
 * counts. */
static void the_same_answer_is_no_repeat_when_it_is_asked_again(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, NULL, 0, NULL));
    do_ok(w, signal_of(w, "a", "'go'"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_again(w, signal_of(w, "a", "'go'"));
    do_ok(w, ask_of(w, NULL, 0, NULL));
    do_ok(w, signal_of(w, "a", "'go'"));
    assert_int_equal(w->last.result.signal, SIGNAL_DELIVERED);
    assert_true(step_named(w, "a")->answered);
    story(w, ASKED " signal_received:a wait_completed job_running step_running:a "
                   "step_needs_user:a job_waiting signal_received:a wait_completed");
}

static void a_job_that_has_ended_takes_no_answers(void **state)
{
    struct world *w = *state;
    step_running(w, ONE);
    do_ok(w, ask_of(w, NULL, 1000, NULL));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    assert_status(w, "cancelled");
    refused(w, answer_of(w, "a", "1"), ERR_INVALID_TRANSITION,
            "cannot answer a step of job {job}: it is cancelled");
    w->now += 1000;
    refused(w, on_step(by_engine(COMMAND_WAKE), "a"), ERR_INVALID_TRANSITION,
            "cannot answer a step of job {job}: it is cancelled");
    story(w, ASKED " job_cancelled");
}

/* ---- effects in doubt ---- */

/* Up to the question whether "mail" was sent. */
static void asked_about_mail(struct world *w)
{
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_ASK;
    spec.plan = js(w, "{'steps':" ONE "}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_IN_DOUBT);
    assert_step(w, "a", "needs_user");
    assert_text(step_named(w, "a")->question.effect, "mail");
    assert_status(w, "waiting");
}

#define DOUBTED                                                                                    \
    BEGUN " tool_called:a step_failed_retryable:a step_retrying:a step_running:a "                 \
          "step_needs_user:a job_waiting"

static void a_person_says_that_the_effect_of_a_step_is_tried_again(void **state)
{
    struct world *w = *state;
    asked_about_mail(w);
    refused(w, answer_of(w, "a", "'perhaps'"), ERR_BAD_REQUEST,
            "the answer for an effect in doubt must be retry, done or fail, not \"perhaps\"");
    do_ok(w, answer_of(w, "a", "'retry'"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_EXECUTE);
    do_ok(w, commit_of(w, "mail", "2"));
    do_ok(w, complete_with(w, "1"));
    story(w, DOUBTED " signal_received:a wait_completed job_running step_running:a "
                     "tool_called:a tool_returned:a step_succeeded:a job_completed");
}

static void a_person_says_that_the_effect_of_a_step_is_done(void **state)
{
    struct world *w = *state;
    asked_about_mail(w);
    do_ok(w, answer_of(w, "a", "{'decision':'done','result':'m-1'}"));
    assert_int_equal(step_named(w, "a")->open_effects, 0);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    assert_int_equal(w->last.result.effect, EFFECT_RECORDED);
    assert_str(w->last.result.effect_result, js(w, "'m-1'"));
    do_ok(w, complete_with(w, "1"));
    story(w, DOUBTED " signal_received:a wait_completed job_running step_running:a "
                     "step_succeeded:a job_completed");
}

static void a_person_says_that_the_effect_of_a_step_fails(void **state)
{
    struct world *w = *state;
    asked_about_mail(w);
    do_ok(w, signal_of(w, "a", "'fail'"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    assert_step(w, "a", "failed");
    assert_status(w, "failed");
    story(w, DOUBTED " signal_received:a wait_completed job_running step_running:a "
                     "step_failed_fatal:a step_failed:a job_failed");
}

/* ---- steps that only wait ---- */

#define GATE "[{'id':'gate','wait':{'type':'signal','correlation_key':'open'}}]"

static void a_wait_step_waits_from_the_start_and_ends_with_its_signal(void **state)
{
    struct world *w = *state;
    planned(w, GATE);
    assert_step(w, "gate", "needs_user");
    assert_int_equal(step_named(w, "gate")->question.type, WAIT_SIGNAL);
    assert_status(w, "waiting");
    refused(w, signal_of(w, "shut", "1"), ERR_WRONG_CORRELATION_KEY,
            "the job waits for its steps, not for \"shut\"; use early: true to store the signal");
    do_ok(w, signal_of(w, "open", "{'by':'wind'}"));
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "{'by':'wind'}"));
    story(w, "job_created plan_generated job_running step_leased:gate step_running:gate "
             "step_needs_user:gate job_waiting signal_received:gate wait_completed job_running "
             "step_running:gate step_succeeded:gate job_completed");
}

static void a_wait_step_begins_when_its_dependencies_are_done(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'ok','deps':['a'],'wait':{'type':'human','prompt':'Ship?',"
               "'choices':['yes','no'],'assignee':'bob','timeout_ms':5000,"
               "'default_answer':'no'}},{'id':'b','deps':['ok']}]");
    refused(w, on_step(by_engine(COMMAND_WAKE), "ok"), ERR_INVALID_TRANSITION,
            "cannot wake step \"ok\": it is waiting_deps");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    const struct wait *question = &step_named(w, "ok")->question;
    assert_status(w, "waiting");
    assert_int_equal(question->type, WAIT_HUMAN);
    assert_text(question->prompt, "Ship?");
    assert_text(question->assignee, "bob");
    assert_text(question->correlation_key, "ok");
    assert_int_equal(question->until, w->now + 5000);
    refused(w, answer_of(w, "ok", "'perhaps'"), ERR_BAD_REQUEST,
            "answer \"perhaps\" is not one of [\"yes\",\"no\"]");
    do_ok(w, answer_of(w, "ok", "'yes'"));
    assert_str(step_named(w, "ok")->result, js(w, "'yes'"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, complete_with(w, "2"));
    story(w, "job_created plan_generated step_waiting_deps:ok step_waiting_deps:b job_running "
             "step_leased:a step_running:a step_succeeded:a step_leased:ok step_running:ok "
             "step_needs_user:ok job_waiting signal_received:ok wait_completed job_running "
             "step_running:ok step_succeeded:ok step_leased:b step_running:b step_succeeded:b "
             "job_completed");
}

static void a_rejected_wait_step_fails_and_nothing_behind_it_runs(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'gate','wait':{'type':'human'}},{'id':'pay','deps':['gate']}]");
    do_ok(w, answer_of(w, "gate", "{ 'approved' : false, 'because':'too much'}"));
    assert_step(w, "gate", "failed");
    assert_status(w, "failed");
    story(w, "job_created plan_generated step_waiting_deps:pay job_running step_leased:gate "
             "step_running:gate step_needs_user:gate job_waiting signal_received:gate "
             "wait_completed job_running step_running:gate step_failed_fatal:gate "
             "step_failed:gate job_failed");
}

static void a_wait_step_that_is_not_rejected_succeeds_with_its_answer(void **state)
{
    /* Neither a choice nor a signal is a rejection. */
    static const struct {
        const char *step;
        const char *answer;
    } cases[] = {
        {"a", "{'approved':true}"},
        {"b", "{'approved':'false'}"},
        {"c", "false"},
        {"d", "{'answer':{'approved':false}}"},
        {"choice", "'no'"},
    };
    struct world *w = *state;
    planned(w, "[{'id':'a','wait':{'type':'human'}},{'id':'b','wait':{'type':'human'}},"
               "{'id':'c','wait':{'type':'human'}},{'id':'d','wait':{'type':'human'}},"
               "{'id':'choice','wait':{'type':'human','choices':['yes','no']}},"
               "{'id':'gate','wait':{'type':'signal','correlation_key':'open'}}]");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        do_ok(w, answer_of(w, cases[i].step, cases[i].answer));
        assert_step(w, cases[i].step, "succeeded");
        assert_str(step_named(w, cases[i].step)->result, js(w, cases[i].answer));
    }
    do_ok(w, signal_of(w, "open", "{'approved':false}"));
    assert_step(w, "gate", "succeeded");
    assert_status(w, "completed");
}

static void a_wait_step_that_times_out_has_its_default_as_the_result(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'ok','wait':{'type':'human','timeout_ms':5000,'default_answer':'no'}}]");
    w->now += 5000;
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "ok"));
    assert_str(w->slice.job.result, js(w, "'no'"));
    story_since(w, 7,
                "signal_received:ok wait_completed job_running step_running:ok "
                "step_succeeded:ok job_completed");
}

static void a_timer_step_ends_by_itself_and_takes_no_answer(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'nap','wait':{'type':'timer','delay_ms':2000}},"
               "{'id':'late','wait':{'type':'timer','until':'2026-01-01T00:00:10Z'}}]");
    assert_int_equal(step_named(w, "nap")->question.until, w->now + 2000);
    assert_int_equal(step_named(w, "late")->question.until, WORLD_START_MS + 10000);
    refused(w, answer_of(w, "nap", "1"), ERR_INVALID_TRANSITION,
            "cannot answer step \"nap\": it is needs_user: it waits for a timer");
    w->now += 2000;
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "nap"));
    assert_text(step_named(w, "nap")->result, NULL);
    assert_status(w, "waiting");
    w->now += 8000;
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "late"));
    assert_status(w, "completed");
    story_since(w, 10,
                "signal_received:nap wait_completed job_running step_running:nap "
                "step_succeeded:nap job_waiting signal_received:late wait_completed "
                "job_running step_running:late step_succeeded:late job_completed");
}

static void a_signal_stored_before_the_wait_step_began_ends_it(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'gate','deps':['a'],"
               "'wait':{'type':'webhook','correlation_key':'open'}}]");
    do_ok(w, signal_of(w, "open", "7"));
    assert_int_equal(w->last.result.signal, SIGNAL_STORED);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "gate"));
    assert_status(w, "completed");
    assert_text(w->slice.job.result, "7");
    assert_int_equal(w->slice.job.stored_signals, 0);
    story_since(w, 7,
                "step_succeeded:a step_leased:gate step_running:gate step_needs_user:gate "
                "job_waiting signal_received:gate wait_completed job_running "
                "step_running:gate step_succeeded:gate job_completed");
}

static void a_wait_step_with_choices_takes_the_oldest_stored_signal_that_is_one(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'gate','deps':['a'],'wait':{'type':'signal',"
               "'correlation_key':'mode','choices':['yes','no']}}]");
    do_ok(w, signal_of(w, "mode", "'fast'"));
    do_ok(w, signal_of(w, "mode", "'no'"));
    do_ok(w, signal_of(w, "mode", "'yes'"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "gate"));
    assert_status(w, "completed");
    assert_str(w->slice.job.result, js(w, "'no'"));
    assert_int_equal(w->slice.job.stored_signals, 2);
}

static void no_worker_claims_a_wait_step(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'gate','wait':{'type':'signal','correlation_key':'k'}}]");
    refused(w, step_claim_of(w, "gate", "r1", true), ERR_INVALID_TRANSITION,
            "cannot claim step \"gate\": it is needs_user and waits by itself; no worker runs it");
    story(w, "job_created plan_generated job_running step_leased:gate step_running:gate "
             "step_needs_user:gate");
}

static void a_wait_step_of_a_delayed_job_begins_when_the_job_is_due(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 60000;
    spec.plan = js(w, "{'steps':" GATE "}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    assert_status(w, "queued");
    refused(w, on_step(by_engine(COMMAND_WAKE), "gate"), ERR_INVALID_TRANSITION,
            "the job is not due for 60000 ms");
    w->now += 60000;
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "gate"));
    assert_step(w, "gate", "needs_user");
    assert_status(w, "waiting");
    story(w, "job_created plan_generated job_running step_leased:gate step_running:gate "
             "step_needs_user:gate job_waiting");
}

static void wait_steps_follow_each_other_without_a_worker(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'x','wait':{'type':'signal','correlation_key':'x'}},"
               "{'id':'y','deps':['x'],'wait':{'type':'signal','correlation_key':'y'}}]");
    do_ok(w, signal_of(w, "x", "1"));
    assert_step(w, "y", "needs_user");
    assert_status(w, "waiting");
    do_ok(w, signal_of(w, "y", "2"));
    assert_status(w, "completed");
    story_since(w, 8,
                "signal_received:x wait_completed job_running step_running:x "
                "step_succeeded:x step_leased:y step_running:y step_needs_user:y "
                "job_waiting signal_received:y wait_completed job_running step_running:y "
                "step_succeeded:y job_completed");
}

static void no_wait_step_begins_while_the_job_is_being_cancelled(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},"
               "{'id':'gate','deps':['a'],'wait':{'type':'signal','correlation_key':'k'}}]");
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    do_ok(w, complete_with(w, "1"));
    assert_step(w, "gate", "waiting_deps");
    assert_status(w, "running");
    story_since(w, 8, "job_cancel_requested step_succeeded:a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_question_drops_the_lease_and_the_job_waits_when_nothing_else_can_run),
        SCENARIO(an_answered_step_is_claimed_straight_into_running),
        SCENARIO(an_answer_to_an_earlier_question_is_refused),
        SCENARIO(the_job_runs_on_while_another_step_can),
        SCENARIO(two_questions_are_answered_one_by_one),
        SCENARIO(a_choice_is_the_same_however_it_is_written),
        SCENARIO(an_answer_is_one_of_the_choices_and_given_once),
        SCENARIO(a_question_that_is_not_sound_is_refused),
        SCENARIO(a_question_that_times_out_takes_its_default_answer),
        SCENARIO(a_question_that_times_out_without_a_default_says_timeout),
        SCENARIO(a_question_without_a_deadline_never_times_out),
        SCENARIO(a_signal_with_the_name_of_the_step_answers_it),
        SCENARIO(the_same_answer_is_no_repeat_when_it_is_asked_again),
        SCENARIO(a_job_that_has_ended_takes_no_answers),
        SCENARIO(a_person_says_that_the_effect_of_a_step_is_tried_again),
        SCENARIO(a_person_says_that_the_effect_of_a_step_is_done),
        SCENARIO(a_person_says_that_the_effect_of_a_step_fails),
        SCENARIO(a_wait_step_waits_from_the_start_and_ends_with_its_signal),
        SCENARIO(a_wait_step_begins_when_its_dependencies_are_done),
        SCENARIO(a_rejected_wait_step_fails_and_nothing_behind_it_runs),
        SCENARIO(a_wait_step_that_is_not_rejected_succeeds_with_its_answer),
        SCENARIO(a_wait_step_that_times_out_has_its_default_as_the_result),
        SCENARIO(a_timer_step_ends_by_itself_and_takes_no_answer),
        SCENARIO(a_signal_stored_before_the_wait_step_began_ends_it),
        SCENARIO(a_wait_step_with_choices_takes_the_oldest_stored_signal_that_is_one),
        SCENARIO(no_worker_claims_a_wait_step),
        SCENARIO(a_wait_step_of_a_delayed_job_begins_when_the_job_is_due),
        SCENARIO(wait_steps_follow_each_other_without_a_worker),
        SCENARIO(no_wait_step_begins_while_the_job_is_being_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
