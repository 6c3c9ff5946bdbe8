/* Why a job is where it is, in words: every state, and the commands that would move it. */
#include "core/scenario.h"

#include "core/action.h"
#include "core/explain.h"
#include "core/job_state.h"

static bool queue_paused;
static struct kind_settings *kind;
static uint32_t may = JOB_ACTIONS_ALL;

/* What explain says, as text that ends in NUL. */
static const char *explained(struct world *w)
{
    struct explain_context context = {
        .now = w->now, .queue_paused = queue_paused, .kind = kind, .may = may, .arena = &w->arena};
    struct buf buf;
    struct json_writer writer;
    struct err err = {0};
    buf_init(&buf, &w->arena, 1024);
    json_writer_init(&writer, &buf);
    job_explain(&w->slice, &context, &writer);
    assert_false(buf.failed);
    if (json_check(buf_str(&buf), 1 << 20, "explain", &w->arena, &err) != ERR_OK)
        fail_msg("%s: %.*s", err.detail, (int)buf.len, buf.at);
    buf_add_char(&buf, '\0');
    return buf.at;
}

/* The text, with {job} for the id, is in what explain says. */
#define says(w, text) says_(w, text, true, __FILE__, __LINE__)
#define says_not(w, text) says_(w, text, false, __FILE__, __LINE__)
static void says_(struct world *w, const char *text, bool expected, const char *file, int line)
{
    struct str wanted = message_text(w, text);
    struct buf nul;
    buf_init(&nul, &w->arena, wanted.len + 1);
    buf_add(&nul, wanted);
    buf_add_char(&nul, '\0');
    const char *all = explained(w);
    if ((strstr(all, nul.at) != NULL) == expected)
        return;
    print_error("\"%s\" is%s in %s\n", nul.at, expected ? " not" : "", all);
    _fail(file, line);
}

static void a_queued_job_waits_for_a_worker_of_its_kind(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.priority = 7;
    spec.capabilities = js(w, "['gpu','eu']");
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    do_ok(w, command);
    w->now += 3000;
    says(w, "{\"status\":\"queued\",\"summary\":\"Ready: waiting for a worker to claim it.\"");
    says(w, "Ready since 2026-01-01T00:00:00.000Z (3s ago).");
    says(w, "with the capabilities gpu, eu.");
    says(w, "Priority 7: ");
    says(w, "\"pawl work --kind mail --queue default --capability gpu --capability eu -- COMMAND\","
            "\"pawl cancel {job}\"]");
}

static void a_job_of_a_paused_queue_needs_a_resume(void **state)
{
    struct world *w = *state;
    submitted(w);
    queue_paused = true;
    says(w, "Ready, but the queue is paused.");
    says(w, "Queue \\\"default\\\" is paused: no job of it can be claimed.");
    says(w, "\"moves\":[\"pawl resume default\"");
    queue_paused = false;
    says_not(w, "pawl resume");
}

static void a_job_with_a_delay_says_when_it_is_due(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 90 * 60 * 1000;
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    do_ok(w, command);
    says(w, "Scheduled: it can be claimed at 2026-01-01T01:30:00.000Z (in 1h 30m).");
    says(w, "\"moves\":[\"A worker can claim it when it is due.\",\"pawl run "
            "{job}\",\"pawl cancel {job}\"]");
    w->now += spec.delay_ms;
    says(w, "Ready: waiting for a worker to claim it.");
    says(w, "pawl work --kind mail");
}

static void spans_are_rounded_to_the_nearest_in_at_most_two_units(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {1000, "(in 1s)"},     {1499, "(in 1s)"},          {1500, "(in 2s)"},
        {59999, "(in 1m)"},    {90400, "(in 1m 30s)"},     {599600, "(in 10m)"},
        {659000, "(in 11m)"},  {3599980, "(in 1h)"},       {5400000, "(in 1h 30m)"},
        {86399000, "(in 1d)"}, {602000000, "(in 6d 23h)"}, {604799000, "(in 7d)"},
    };
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = INT64_C(20) * 24 * 60 * 60 * 1000;
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    int64_t start = w->now;
    do_ok(w, command);
    says(w, "(in 20d)");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        w->now = start + spec.delay_ms - cases[i].ms;
        says(w, cases[i].text);
    }
}

static void a_leased_job_has_a_worker_that_has_not_begun(void **state)
{
    struct world *w = *state;
    submitted(w);
    do_ok(w, claim_by("w1", false));
    says(w, "\"status\":\"leased\",\"summary\":\"\\\"w1\\\" has claimed but not started "
            "attempt 1.\"");
    says(w, "The lease expires at 2026-01-01T00:00:30.000Z (in 30s)");
    says(w, "pawl cancel {job} --hard");
}

static void a_running_job_shows_its_lease_and_how_far_it_is(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.timeout_ms = 60 * 1000;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, claim_by("w1", true));
    w->now += 10 * 1000;
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = js(w, "{'percent':40}");
    do_ok(w, beat);
    do_ok(w, begin_of(w, "charge", NULL));
    w->now += 1000;
    says(w, "\\\"w1\\\" is running attempt 1.");
    says(w, "Last heartbeat at 2026-01-01T00:00:10.000Z (1s ago).");
    says(w, "The lease expires at 2026-01-01T00:00:40.000Z (in 29s)");
    says(w, "The attempt times out at 2026-01-01T00:01:00.000Z (in 49s).");
    says(w, "Progress: {\\\"percent\\\":40}");
    says(w, "Effects started but not committed: 1.");
    says(w, "\"pawl cancel {job}\",\"pawl cancel {job} --hard\"");
    w->now += 60 * 1000;
    says(w, "the job is about to be retried.");
}

static void a_running_job_that_is_to_be_cancelled_says_until_when(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_SOFT, "not needed"));
    says(w, "Cancellation was requested, because: \\\"not needed\\\". If the worker does not stop, "
            "Pawl cancels the job at 2026-01-01T00:00:30.000Z (in 30s).");
    says(w, "pawl cancel {job} --hard");
    says_not(w, "\"pawl cancel {job}\"");
}

static void a_waiting_job_names_its_key_and_the_signal_that_wakes_it(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "it's paid", 60 * 1000));
    says(w, "\"status\":\"waiting\",\"summary\":\"Waiting for a signal with the key \\\"it's "
            "paid\\\" until 2026-01-01T00:01:00.000Z (in 1m).\"");
    says(w, "pawl signal {job} 'it'\\\\''s paid' --payload JSON");
    says(w, "It continues by itself when the wait times out.");
    says(w, "pawl cancel {job}");
}

static void a_parked_job_that_asks_a_person_names_the_question(void **state)
{
    struct world *w = *state;
    running(w);
    struct command wait = wait_for(w, "approval", 0);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.park = true;
    wait.wait.prompt = STR("Ship it?");
    wait.wait.choices = js(w, "['yes','no']");
    wait.wait.assignee = STR("ada");
    do_ok(w, wait);
    says(w, "\"status\":\"parked\",\"summary\":\"Needs input: waiting for a person with the key "
            "\\\"approval\\\", without a timeout.\"");
    says(w, "Question: \\\"Ship it?\\\"; choices: yes, no; assignee: \\\"ada\\\"");
    says(w, "pawl approve {job} --answer CHOICE");
    /* With choices there is neither a plain no nor any other payload. */
    says(w, "\"moves\":[\"pawl approve {job} --answer CHOICE\",\"pawl cancel {job}\"]");
}

static void a_job_that_sleeps_cannot_be_signalled(void **state)
{
    struct world *w = *state;
    running(w);
    struct command wait = by_worker(w, COMMAND_WAIT);
    wait.wait.type = WAIT_TIMER;
    wait.wait.delay_ms = 500;
    do_ok(w, wait);
    says(w, "Waiting for a timer until 2026-01-01T00:00:00.500Z (now).");
    says_not(w, "pawl signal");
}

static void an_effect_in_doubt_offers_its_three_answers(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_ASK;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "charge", NULL));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "charge", NULL));
    says(w, "Needs input: waiting for a decision about an effect in doubt");
    says(w, "Effect \\\"charge\\\" was started by an earlier attempt");
    says(w, "\"moves\":[\"pawl approve {job} --answer retry\",\"pawl approve {job} --answer "
            "done --result JSON\",\"pawl reject {job}\",\"pawl cancel {job}\"]");
}

static void a_job_that_woke_says_why(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "go", 0));
    do_ok(w, signal_of(w, "go", "1"));
    says(w, "\"status\":\"queued\"");
    says(w, "The wait for \\\"go\\\" was answered.");
}

static void a_retrying_job_says_what_failed_and_when_it_is_tried_again(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = 5000;
    do_ok(w, fail);
    says(w, "\"status\":\"retrying\"");
    says(w, "next attempt at 2026-01-01T00:00:05.000Z (in 5s).");
    says(w, "Failures: 1 of at most ");
    says(w, "Last error: \\\"it broke\\\"");
    says(w, "pawl run {job}");
    w->now += 5000;
    says(w, "ready again since 2026-01-01T00:00:05.000Z (now).");
    says(w, "pawl work --kind mail --queue default -- COMMAND");
    says_not(w, "pawl run");
}

static void a_job_tells_what_can_be_done_to_it_now(void **state)
{
    struct world *w = *state;
    submitted(w);
    says(w, "\"actions\":[\"signal\",\"plan\",\"cancel\",\"dead_letter\"]");
    queue_paused = true;
    says(w, "\"actions\":[\"signal\",\"resume\",\"plan\",\"cancel\",\"dead_letter\"]");
    queue_paused = false;
    may = 1U << ACTION_CANCEL | 1U << ACTION_REDACT;
    says(w, "\"actions\":[\"cancel\"]");
    may = JOB_ACTIONS_ALL;
    do_ok(w, claim_by("w1", true));
    says(w, "\"actions\":[\"signal\",\"cancel\"]");
    struct command fail = fail_as(w, CLASS_TRANSIENT);
    fail.fail.has_retry_after = true;
    fail.fail.retry_after_ms = 5000;
    do_ok(w, fail);
    says(w, "\"actions\":[\"signal\",\"run\",\"requeue\",\"plan\",\"cancel\",\"dead_letter\"]");
    w->now += 5000;
    says(w, "\"actions\":[\"signal\",\"requeue\",\"plan\",\"cancel\",\"dead_letter\"]");
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    says(w, "\"actions\":[\"requeue\",\"redact\"]");
}

static void a_completed_job_is_kept_for_a_while_and_stays(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "1"));
    says(w, "\"status\":\"completed\",\"summary\":\"Completed in attempt 1 at ");
    says(w, "Kept until 2026-01-08T00:00:00.000Z (in 7d).");
    says(w, "\"moves\":[\"No further actions; submit a new job to run it again.\"]");
    struct kind_settings settings = {.retention_ms = 60 * 1000};
    kind = &settings;
    says(w, "Kept until 2026-01-01T00:01:00.000Z (in 1m).");
    kind = NULL;
}

static void a_cancelled_job_names_who_wanted_that(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, cancel_by(CANCEL_HARD, "a mistake"));
    says(w, "\"status\":\"cancelled\",\"summary\":\"Cancelled at 2026");
    says(w, "No further actions");
}

static void a_failed_job_can_be_requeued(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.retry.on_exhausted = EXHAUSTED_FAIL;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    says(w, "\"status\":\"failed\",\"summary\":\"Failed permanently: \\\"it broke\\\".\"");
    says(w, "Kept until it is redriven or dropped.");
    says(w, "\"moves\":[\"pawl requeue {job}\",\"pawl requeue {job} --fresh\"]");
    job_redact(&w->slice);
    says(w, "Payloads erased.");
    says(w, "\"moves\":[\"No further actions: its payloads are erased.\"]");
}

static void a_dead_letter_has_its_reason_and_can_be_redriven_or_dropped(void **state)
{
    struct world *w = *state;
    running(w);
    struct command abandon = by_worker(w, COMMAND_ABANDON);
    abandon.dead_letter.reason_code = DEAD_VALIDATION_FAILED;
    abandon.dead_letter.stage = STAGE_INPUT;
    abandon.dead_letter.message = STR("it broke");
    do_ok(w, abandon);
    says(w, "\"status\":\"dead_lettered\",\"summary\":\"Dead letter: validation_failed, "
            "\\\"it broke\\\".\"");
    says(w, "Dead-lettered (attempts: 1), stage input; last worker: \\\"w1\\\"");
    says(w, "\"moves\":[\"pawl requeue {job}\",\"pawl requeue {job} --fresh\",\"pawl dlq drop "
            "{job}\"]");
}

/* ---- plans ---- */

#define TWO_STEPS                                                                                  \
    "[{'id':'a','capabilities':['gpu'],'selector':'zone=eu','avoid':['r9']},"                      \
    "{'id':'b','deps':['a']}]"

static void a_plan_tells_which_step_waits_for_what(void **state)
{
    struct world *w = *state;
    planned(w, TWO_STEPS);
    says(w, "Ready: waiting for a worker to claim one of its steps.");
    says(w, "Plan version 1. Steps: 1 blocked by dependencies, 1 ready to be claimed.");
    says(w,
         "Step \\\"a\\\" is ready for a worker with a matching resource; requires gpu; selector: "
         "\\\"zone=eu\\\"; avoids r9.");
    says(w, "Step \\\"b\\\" waits for \\\"a\\\" (pending).");
    says(w, "Start a worker with a matching resource");
    says_not(w, "/v1/");
    says_not(w, "pawl work --kind");
}

static void a_step_at_work_names_its_worker_and_resource(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    says(w, "\"status\":\"running\",\"summary\":\"Steps: 1 blocked by dependencies, 1 "
            "running.\"");
    says(w,
         "Step \\\"a\\\" is leased by \\\"w1\\\" on \\\"r1\\\" until 2026-01-01T00:00:30.000Z (in "
         "30s).");
    says(w, "A worker completes or fails its step");
    do_ok(w, fail_as(w, CLASS_TRANSIENT));
    says(w, "Step \\\"a\\\" can be claimed at 2026-01-01T00:00:01.000Z (in 1s); failures: 1 of "
            "at most 4; last error: \\\"it broke\\\".");
}

static void a_plan_that_has_ended_tells_only_what_failed(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    says(w, "Step \\\"a\\\" is failed");
    says_not(w, "Step \\\"b\\\"");
    says(w, "pawl requeue {job}");
}

static void a_step_that_asks_a_person_shows_how_to_answer(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    do_ok(w, with_token(verdict_on("a", VERDICT_NEEDS_USER), w->token));
    says(w, "\"status\":\"waiting\",\"summary\":\"Needs input: waiting for answers to its steps");
    says(w, "Step \\\"a\\\" is needs_user: \\\"Really?\\\"");
    says(w, "pawl approve {job} a");
    says(w, "pawl reject {job} a");
}

static void a_step_that_is_held_waits_for_its_critic(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','critic':true}]");
    do_ok(w, complete_with(w, "1"));
    says(w, "Step \\\"a\\\" is finished and awaits review.");
    says(w, "A reviewer claims finished steps");
}

static void a_job_that_needs_a_new_plan_says_so(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    do_ok(w, with_token(verdict_on("a", VERDICT_REPLAN), w->token));
    says(w, "Waiting for a new plan, without a timeout.");
    says(w, "A step requested a new plan, because: \\\"because\\\".");
    says(w, "Submit a new plan.");
    says_not(w, "/v1/");
}

static void a_large_plan_is_cut(void **state)
{
    struct world *w = *state;
    struct buf steps;
    buf_init(&steps, &w->arena, 4096);
    for (int i = 0; i < 50; i++)
        buf_addf(&steps, "%s{'id':'s%d'}", i == 0 ? "[" : ",", i);
    buf_add(&steps, STR("]"));
    buf_add_char(&steps, '\0');
    planned(w, steps.at);
    says(w, "And 30 more steps: pawl steps {job} shows all.");
}

static void a_long_error_is_cut_between_characters(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_PERMANENT);
    struct buf message;
    buf_init(&message, &w->arena, 1024);
    buf_add_char(&message, 'x');
    for (int i = 0; i < 200; i++)
        buf_add(&message, STR("\xc3\xa9"));
    fail.fail.message = buf_str(&message);
    do_ok(w, fail);
    says(w, "\xc3\xa9...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_queued_job_waits_for_a_worker_of_its_kind),
        SCENARIO(a_job_of_a_paused_queue_needs_a_resume),
        SCENARIO(a_job_with_a_delay_says_when_it_is_due),
        SCENARIO(spans_are_rounded_to_the_nearest_in_at_most_two_units),
        SCENARIO(a_leased_job_has_a_worker_that_has_not_begun),
        SCENARIO(a_running_job_shows_its_lease_and_how_far_it_is),
        SCENARIO(a_running_job_that_is_to_be_cancelled_says_until_when),
        SCENARIO(a_waiting_job_names_its_key_and_the_signal_that_wakes_it),
        SCENARIO(a_parked_job_that_asks_a_person_names_the_question),
        SCENARIO(a_job_that_sleeps_cannot_be_signalled),
        SCENARIO(an_effect_in_doubt_offers_its_three_answers),
        SCENARIO(a_job_that_woke_says_why),
        SCENARIO(a_retrying_job_says_what_failed_and_when_it_is_tried_again),
        SCENARIO(a_completed_job_is_kept_for_a_while_and_stays),
        SCENARIO(a_cancelled_job_names_who_wanted_that),
        SCENARIO(a_job_tells_what_can_be_done_to_it_now),
        SCENARIO(a_failed_job_can_be_requeued),
        SCENARIO(a_dead_letter_has_its_reason_and_can_be_redriven_or_dropped),
        SCENARIO(a_plan_tells_which_step_waits_for_what),
        SCENARIO(a_step_at_work_names_its_worker_and_resource),
        SCENARIO(a_plan_that_has_ended_tells_only_what_failed),
        SCENARIO(a_step_that_asks_a_person_shows_how_to_answer),
        SCENARIO(a_step_that_is_held_waits_for_its_critic),
        SCENARIO(a_job_that_needs_a_new_plan_says_so),
        SCENARIO(a_large_plan_is_cut),
        SCENARIO(a_long_error_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
