/* Where jobs and steps stand, and when the engine must look at them. */
#include "core/schedule_entry.h"

#include "../base/starve.h"
#include "core/retention.h"
#include "scenario.h"

#define NOW WORLD_START_MS

static struct schedule_entry job_place(struct world *w)
{
    struct schedule_entry entry;
    assert_int_equal(schedule_entry_of_job(&w->slice.job, &w->arena, &entry, &w->err), ERR_OK);
    return entry;
}

static struct schedule_entry step_place(struct world *w, const char *step)
{
    struct schedule_entry entry;
    assert_int_equal(
        schedule_entry_of_step(&w->slice.job, step_named(w, step), &w->arena, &entry, &w->err),
        ERR_OK);
    return entry;
}

#define assert_place(place, lane_, run_at_, due_at_, leased_)                                      \
    do {                                                                                           \
        struct schedule_entry place_ = (place);                                                    \
        assert_str(place_.lane, (lane_) == NULL ? absent : js(w, lane_));                          \
        assert_int_equal(place_.run_at, run_at_);                                                  \
        assert_int_equal(place_.due_at, due_at_);                                                  \
        assert_int_equal(place_.leased, leased_);                                                  \
    } while (0)

#define assert_nowhere(place) assert_place(place, NULL, 0, 0, false)

/* What is due for the job (step NULL) at the world's time; and when to look again, if nothing. */
static void due(struct world *w, const char *step, enum command_type expected, int64_t next)
{
    struct context context = {.now = w->now, .up_since = w->up_since};
    int64_t looked = -1;
    enum command_type type = schedule_entry_due(
        &w->slice.job, step == NULL ? NULL : step_named(w, step), &context, &looked);
    assert_int_equal(type, expected);
    assert_int_equal(looked, expected == COMMAND_NONE ? next : -1);
}

static void submitted_later(struct world *w, int64_t delay_ms, int64_t priority, const char *plan)
{
    struct spec spec = world_spec();
    spec.delay_ms = delay_ms;
    spec.priority = priority;
    spec.plan = plan == NULL ? absent : js(w, plan);
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
}

/* ---- jobs ---- */

static void a_job_that_is_not_there_is_nowhere(void **state)
{
    struct world *w = *state;
    assert_nowhere(job_place(w));
    due(w, NULL, COMMAND_NONE, 0);
}

static void a_queued_job_stands_in_its_lane_from_when_it_is_due(void **state)
{
    struct world *w = *state;
    submitted_later(w, 0, -5, NULL);
    assert_place(job_place(w), "['job','default','mail']", NOW, 0, false);
    assert_int_equal(job_place(w).priority, -5);
    due(w, NULL, COMMAND_NONE, 0);
    world_clear(w, 2);
    submitted_later(w, 500, 7, NULL);
    assert_place(job_place(w), "['job','default','mail']", NOW + 500, 0, false);
    assert_int_equal(job_place(w).priority, 7);
    due(w, NULL, COMMAND_NONE, 0);
}

static void a_job_that_retries_stands_in_its_lane_from_when_its_delay_is_over(void **state)
{
    struct world *w = *state;
    running(w);
    struct command failed = fail_as(w, CLASS_TRANSIENT);
    failed.fail.has_retry_after = true;
    failed.fail.retry_after_ms = 700;
    do_ok(w, failed);
    assert_status(w, "retrying");
    assert_place(job_place(w), "['job','default','mail']", NOW + 700, 0, false);
}

static void a_job_that_is_held_is_due_when_its_lease_ends(void **state)
{
    struct world *w = *state;
    running(w);
    assert_place(job_place(w), NULL, 0, NOW + 30000, true);
    due(w, NULL, COMMAND_NONE, NOW + 30000);
    w->now += 10000;
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    assert_place(job_place(w), NULL, 0, NOW + 40000, true);
    w->now = NOW + 39999;
    due(w, NULL, COMMAND_NONE, NOW + 40000);
    w->now = NOW + 40000;
    due(w, NULL, COMMAND_EXPIRE, 0);
}

static void a_lease_that_a_break_cut_off_is_looked_at_after_its_grace(void **state)
{
    struct world *w = *state;
    running(w);
    w->now = w->up_since = NOW + 29999;
    assert_int_equal(job_place(w).due_at, NOW + 30000);
    w->now = NOW + 30000;
    due(w, NULL, COMMAND_NONE, NOW + 29999 + 15000);
    w->now = NOW + 29999 + 15000;
    due(w, NULL, COMMAND_EXPIRE, 0);
}

static void a_soft_cancel_is_due_when_it_turns_hard(void **state)
{
    struct world *w = *state;
    running(w);
    struct command cancel = cancel_by(CANCEL_SOFT, "stop");
    cancel.cancel.soft_ms = 400;
    do_ok(w, cancel);
    assert_place(job_place(w), NULL, 0, NOW + 400, true);
    due(w, NULL, COMMAND_NONE, NOW + 400);
    w->now += 400;
    due(w, NULL, COMMAND_CANCEL_DUE, 0);
    w->now += 100000;
    due(w, NULL, COMMAND_CANCEL_DUE, 0);

    world_clear(w, 2);
    running(w);
    cancel.cancel.soft_ms = 100000;
    do_ok(w, cancel);
    assert_place(job_place(w), NULL, 0, NOW + 30000, true);
    due(w, NULL, COMMAND_NONE, NOW + 30000);
    w->now += 30000;
    due(w, NULL, COMMAND_EXPIRE, 0);
}

static void a_job_that_waits_is_due_when_its_time_is_over(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 900));
    assert_place(job_place(w), NULL, 0, NOW + 900, false);
    due(w, NULL, COMMAND_NONE, NOW + 900);
    w->now += 900;
    due(w, NULL, COMMAND_WAKE, 0);
    do_ok(w, by_engine(COMMAND_WAKE));
    assert_place(job_place(w), "['job','default','mail']", NOW + 900, 0, false);

    world_clear(w, 2);
    running(w);
    do_ok(w, wait_for(w, "k", 0));
    assert_nowhere(job_place(w));
    due(w, NULL, COMMAND_NONE, 0);
}

static void a_job_that_has_ended_is_nowhere(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "1"));
    assert_nowhere(job_place(w));
    w->now += 1000000;
    due(w, NULL, COMMAND_NONE, 0);
}

/* job_decide does not go back in time, so neither does what it is given. */
static void a_clock_that_went_back_keeps_nothing_from_being_due(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, wait_for(w, "k", 900));
    w->now += 900;
    struct command early = signal_of(w, "other", "1");
    early.signal.early = true;
    do_ok(w, early);
    w->now -= 500;
    due(w, NULL, COMMAND_WAKE, 0);
    do_ok(w, by_engine(COMMAND_WAKE));
}

/* ---- steps ---- */

static void a_planned_job_is_in_no_lane_and_its_ready_steps_are(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    assert_nowhere(job_place(w));
    assert_place(step_place(w, "a"), "['step','default',null]", NOW, 0, false);
    assert_nowhere(step_place(w, "b"));
    due(w, "a", COMMAND_NONE, 0);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    assert_place(step_place(w, "a"), NULL, 0, NOW + 30000, true);
    assert_nowhere(job_place(w));
    due(w, "a", COMMAND_NONE, NOW + 30000);
    due(w, NULL, COMMAND_NONE, 0);
    w->now += 10;
    do_ok(w, complete_with(w, "1"));
    assert_nowhere(step_place(w, "a"));
    assert_place(step_place(w, "b"), "['step','default',null]", NOW, 0, false);
}

static void a_steps_lease_is_due_when_it_ends(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    w->now += 30000;
    due(w, "a", COMMAND_EXPIRE, 0);
    due(w, NULL, COMMAND_NONE, 0);
}

static void a_step_that_retries_stands_in_its_lane_from_when_its_delay_is_over(void **state)
{
    struct world *w = *state;
    submitted_later(w, 0, 3, "{'steps':[{'id':'a'}]}");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct command failed = fail_as(w, CLASS_TRANSIENT);
    failed.fail.has_retry_after = true;
    failed.fail.retry_after_ms = 700;
    do_ok(w, failed);
    assert_place(step_place(w, "a"), "['step','default',null]", NOW + 700, 0, false);
    assert_int_equal(step_place(w, "a").priority, 3);
}

static void a_held_step_stands_in_the_lane_of_critics_at_once(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a','critic':true}]");
    do_ok(w, complete_with(w, "1"));
    assert_place(step_place(w, "a"), "['judge','default',null]", NOW, 0, false);
    do_ok(w, judge_of("a"));
    assert_place(step_place(w, "a"), NULL, 0, NOW + 30000, true);
}

static void a_step_that_asks_is_due_when_its_time_is_over(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct command verdict = verdict_on("a", VERDICT_NEEDS_USER);
    verdict.verdict.question.timeout_ms = 600;
    do_ok(w, verdict);
    assert_place(step_place(w, "a"), NULL, 0, NOW + 600, false);
    due(w, "a", COMMAND_NONE, NOW + 600);
    w->now += 600;
    due(w, "a", COMMAND_WAKE, 0);
    due(w, NULL, COMMAND_NONE, 0);
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_REPLAN));
    assert_nowhere(step_place(w, "a"));
    due(w, "a", COMMAND_NONE, 0);
}

static void an_answer_brings_a_step_back_into_its_lane(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, verdict_on("a", VERDICT_NEEDS_USER));
    assert_status(w, "waiting");
    assert_false(job_takes_step_claims(&w->slice.job));
    assert_nowhere(step_place(w, "a"));
    w->now += 50;
    do_ok(w, answer_of(w, "a", "1"));
    assert_true(job_takes_step_claims(&w->slice.job));
    assert_place(step_place(w, "a"), "['step','default',null]", NOW + 50, 0, false);
}

static void steps_leave_their_lanes_when_their_job_is_cancelled_or_replanned(void **state)
{
    struct world *w = *state;
    static const char *const plan = "[{'id':'a'},{'id':'b'},{'id':'c','critic':true}]";
    for (int replan = 0; replan < 2; replan++) {
        world_clear(w, 1);
        planned(w, plan);
        do_ok(w, step_claim_of(w, "c", "r1", true));
        do_ok(w, complete_with(w, "1"));
        do_ok(w, step_claim_of(w, "a", "r1", true));
        assert_true(job_takes_step_claims(&w->slice.job));
        if (replan) {
            do_ok(w, step_claim_of(w, "b", "r1", true));
            do_ok(w, verdict_on("b", VERDICT_REPLAN));
        } else {
            do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
        }
        assert_false(job_takes_step_claims(&w->slice.job));
        assert_nowhere(step_place(w, "b"));
        assert_nowhere(step_place(w, "c"));
        assert_place(step_place(w, "a"), NULL, 0, NOW + 30000, true);
        assert_int_equal(job_place(w).due_at, replan ? 0 : NOW + 30000);
    }
}

static void steps_of_a_job_that_has_ended_are_nowhere(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'},{'id':'c'}]");
    do_ok(w, step_claim_of(w, "c", "r1", true));
    struct command verdict = verdict_on("c", VERDICT_NEEDS_USER);
    verdict.verdict.question.timeout_ms = 600;
    do_ok(w, verdict);
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, cancel_by(CANCEL_HARD, "stop"));
    assert_true(step_named(w, "a")->lease.live);
    static const char *const steps[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++) {
        assert_nowhere(step_place(w, steps[i]));
        due(w, steps[i], COMMAND_NONE, 0);
    }
}

static void a_plan_for_later_stands_in_its_lanes_from_then_on(void **state)
{
    struct world *w = *state;
    submitted_later(w, 800, 0,
                    "{'steps':[{'id':'a'},{'id':'t','wait':{'type':'timer','delay_ms':50}},"
                    "{'id':'u','deps':['t'],'wait':{'type':'timer','delay_ms':50}}]}");
    assert_nowhere(job_place(w));
    assert_place(step_place(w, "a"), "['step','default',null]", NOW + 800, 0, false);
    assert_place(step_place(w, "t"), NULL, 0, NOW + 800, false);
    assert_nowhere(step_place(w, "u"));
    due(w, "t", COMMAND_NONE, NOW + 800);
    due(w, "u", COMMAND_NONE, 0);
    w->now += 800;
    due(w, "t", COMMAND_WAKE, 0);
    do_ok(w, on_step(by_engine(COMMAND_WAKE), "t"));
    assert_place(step_place(w, "t"), NULL, 0, NOW + 850, false);
}

/* What happens to the job when its time has come must not make anybody forget its wait steps. */
static void a_wait_step_begins_although_something_else_happened_first(void **state)
{
    struct world *w = *state;
    submitted_later(w, 800, 0,
                    "{'steps':[{'id':'a'},{'id':'t','wait':{'type':'timer',"
                    "'delay_ms':50}}]}");
    w->now += 800;
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    assert_int_equal(step_place(w, "t").due_at, NOW + 800);
    due(w, "t", COMMAND_WAKE, 0);
    do_ok(w, cancel_by(CANCEL_SOFT, "stop"));
    assert_nowhere(step_place(w, "t"));
    due(w, "t", COMMAND_NONE, 0);
}

/* ---- questions ---- */

static void a_job_asks_while_it_waits_for_a_person(void **state)
{
    struct world *w = *state;
    static const enum wait_type others[] = {WAIT_SIGNAL, WAIT_WEBHOOK};
    submitted_later(w, 0, 0, NULL);
    assert_false(job_asks(&w->slice.job));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        do_ok(w, claim_by("w1", true));
        struct command other = wait_for(w, "paid", 0);
        other.wait.type = others[i];
        do_ok(w, other);
        assert_false(job_asks(&w->slice.job));
        do_ok(w, signal_of(w, "paid", i == 0 ? "1" : "2"));
    }
    do_ok(w, claim_by("w1", true));
    struct command wait = wait_for(w, "ok?", 0);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.prompt = STR("Really?");
    do_ok(w, wait);
    assert_true(job_asks(&w->slice.job));
    do_ok(w, signal_of(w, "ok?", "true"));
    assert_false(job_asks(&w->slice.job));
}

/* The worker of a step says what is to become of it. */
static void verdict_in(struct world *w, const char *step, enum verdict verdict)
{
    do_ok(w, step_claim_of(w, step, "r1", true));
    struct command said = with_token(verdict_on(NULL, verdict), w->token);
    said.actor = STR("w1");
    do_ok(w, said);
}

static void a_planned_job_asks_while_a_step_does(void **state)
{
    struct world *w = *state;
    submitted_later(w, 0, 0, "{'steps':[{'id':'a'},{'id':'b'},{'id':'c'}]}");
    assert_false(job_asks(&w->slice.job));
    verdict_in(w, "a", VERDICT_NEEDS_USER);
    assert_true(job_asks(&w->slice.job));
    do_ok(w, answer_of(w, "a", "1"));
    assert_false(job_asks(&w->slice.job));
    verdict_in(w, "b", VERDICT_NEEDS_USER);
    assert_true(job_asks(&w->slice.job));
    verdict_in(w, "c", VERDICT_REPLAN);
    assert_false(job_asks(&w->slice.job)); /* nobody could answer any more */
}

static void a_job_that_has_ended_asks_nobody(void **state)
{
    struct world *w = *state;
    submitted_later(w, 0, 0, "{'steps':[{'id':'a'}]}");
    verdict_in(w, "a", VERDICT_NEEDS_USER);
    do_ok(w, cancel_by(CANCEL_HARD, "no"));
    assert_true(w->slice.job.steps[STANDING_ASKING] > 0);
    assert_false(job_asks(&w->slice.job));
}

/* ---- damage and memory ---- */

static void damaged_lists_leave_the_schedule_entry_untouched(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    struct job job = w->slice.job;
    struct step step = *step_named(w, "a");
    struct schedule_entry entry = {.run_at = 77};
    step.spec.avoid = STR("[1]");
    assert_int_equal(schedule_entry_of_step(&job, &step, &w->arena, &entry, &w->err), ERR_CORRUPT);
    world_clear(w, 2);
    submitted(w);
    job = w->slice.job;
    job.spec.capabilities = STR("{");
    assert_int_equal(schedule_entry_of_job(&job, &w->arena, &entry, &w->err), ERR_CORRUPT);
    assert_int_equal(entry.run_at, 77);
    assert_false(str_is_set(entry.lane));
}

struct starved {
    const struct job *job;
    const struct step *step;
    struct schedule_entry entry;
    enum error_code code;
};

static bool try_to_place(struct arena *arena, void *data)
{
    struct starved *starved = data;
    struct err err = {0};
    starved->code =
        starved->step != NULL
            ? schedule_entry_of_step(starved->job, starved->step, arena, &starved->entry, &err)
            : schedule_entry_of_job(starved->job, arena, &starved->entry, &err);
    return starved->code != ERR_NO_MEMORY;
}

static void schedule_entries_survive_without_memory(void **state)
{
    struct world *w = *state;
    if (!STARVING)
        skip();
    submitted(w);
    struct starved starved = {.job = &w->slice.job};
    assert_true(starve(try_to_place, &starved) > 0);
    assert_int_equal(starved.code, ERR_OK);
    world_clear(w, 2);
    planned(w, "[{'id':'a','capabilities':['x']}]");
    starved.step = step_named(w, "a");
    assert_true(starve(try_to_place, &starved) > 0);
    assert_int_equal(starved.code, ERR_OK);
}

/* ---- purging ---- */

static void jobs_that_ended_well_are_kept_for_a_while_and_others_until_handled(void **state)
{
    (void)state;
    struct kind_settings kind = {.retention_ms = 5};
    struct kind_settings silent = {.timeout_ms = 5};
    static const int64_t week = INT64_C(7) * 24 * 60 * 60 * 1000;
    for (int status = 0; status <= JOB_NONE; status++) {
        struct job job = {.status = (enum job_status)status, .updated_at = NOW};
        bool ends = status == JOB_COMPLETED || status == JOB_CANCELLED;
        assert_int_equal(job_purge_at(&job, &kind), ends ? NOW + 5 : 0);
        assert_int_equal(job_purge_at(&job, &silent), ends ? NOW + week : 0);
        assert_int_equal(job_purge_at(&job, NULL), ends ? NOW + week : 0);
    }
}

static void only_a_job_that_has_ended_may_be_erased(void **state)
{
    (void)state;
    for (int status = 0; status <= JOB_NONE; status++) {
        struct job job = {.status = (enum job_status)status};
        struct err err = {0};
        enum error_code expected = status == JOB_NONE                ? ERR_NOT_FOUND
                                   : job_status_terminal(job.status) ? ERR_OK
                                                                     : ERR_INVALID_TRANSITION;
        assert_int_equal(job_check_drop(&job, &err), expected);
        assert_int_equal(err.code, expected);
        assert_int_equal(job_check_redact(&job, NULL), expected);
    }
    struct job job = {.status = JOB_RUNNING};
    struct err err = {0};
    (void)job_check_redact(&job, &err);
    assert_string_equal(err.detail, "cannot erase the payloads of job "
                                    "00000000-0000-0000-0000-000000000000: it is running");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_job_that_is_not_there_is_nowhere),
        SCENARIO(a_queued_job_stands_in_its_lane_from_when_it_is_due),
        SCENARIO(a_job_that_retries_stands_in_its_lane_from_when_its_delay_is_over),
        SCENARIO(a_job_that_is_held_is_due_when_its_lease_ends),
        SCENARIO(a_lease_that_a_break_cut_off_is_looked_at_after_its_grace),
        SCENARIO(a_soft_cancel_is_due_when_it_turns_hard),
        SCENARIO(a_job_that_waits_is_due_when_its_time_is_over),
        SCENARIO(a_job_that_has_ended_is_nowhere),
        SCENARIO(a_clock_that_went_back_keeps_nothing_from_being_due),
        SCENARIO(a_planned_job_is_in_no_lane_and_its_ready_steps_are),
        SCENARIO(a_steps_lease_is_due_when_it_ends),
        SCENARIO(a_step_that_retries_stands_in_its_lane_from_when_its_delay_is_over),
        SCENARIO(a_held_step_stands_in_the_lane_of_critics_at_once),
        SCENARIO(a_step_that_asks_is_due_when_its_time_is_over),
        SCENARIO(an_answer_brings_a_step_back_into_its_lane),
        SCENARIO(steps_leave_their_lanes_when_their_job_is_cancelled_or_replanned),
        SCENARIO(steps_of_a_job_that_has_ended_are_nowhere),
        SCENARIO(a_plan_for_later_stands_in_its_lanes_from_then_on),
        SCENARIO(a_wait_step_begins_although_something_else_happened_first),
        SCENARIO(a_job_asks_while_it_waits_for_a_person),
        SCENARIO(a_planned_job_asks_while_a_step_does),
        SCENARIO(a_job_that_has_ended_asks_nobody),
        SCENARIO(damaged_lists_leave_the_schedule_entry_untouched),
        SCENARIO(schedule_entries_survive_without_memory),
        SCENARIO(jobs_that_ended_well_are_kept_for_a_while_and_others_until_handled),
        SCENARIO(only_a_job_that_has_ended_may_be_erased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
