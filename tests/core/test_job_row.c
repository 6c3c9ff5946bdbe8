/* The row of a job: what is written, and where two rows differ. */
#include "scenario.h"

/* Where a changed copy of the world's job differs from it. */
#define differs(w, other, part_, name_, member_)                                                   \
    do {                                                                                           \
        struct row_difference difference_ = job_row_differs(&(w)->slice, other);                   \
        assert_text(difference_.part, part_);                                                      \
        assert_text(difference_.name, name_);                                                      \
        assert_text(difference_.member, member_);                                                  \
    } while (0)

static struct job_slice copied(struct world *w)
{
    struct job_slice slice;
    assert_int_equal(job_slice_copy(&w->slice, &w->arena, &slice), ERR_OK);
    return slice;
}

static void a_row_has_every_member_that_is_set(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct job *job = &w->slice.job;
    memset(&job->id, 0, sizeof job->id);
    memset(job->head, 0, sizeof job->head);
    memset(job->salt, 0, sizeof job->salt);
    job->spec = (struct spec){.kind = STR("mail")};
    assert_str(world_row(w, &w->slice),
               js(w, "{'status':0,'version':1,'created_at':'2026-01-01T00:00:00.000Z',"
                     "'updated_at':'2026-01-01T00:00:00.000Z','spec':{'kind':'mail'},"
                     "'epoch':1,'run_at':'2026-01-01T00:00:00.000Z',"
                     "'effects':[],'signals':[],'steps':[]}"));
}

static void a_row_has_the_parts_that_are_loaded(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, signal_of(w, "k", "[2]"));
    do_ok(w, commit_of(w, "mail", "3"));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    struct str row = world_row(w, &w->slice);
    assert_int_equal(json_check(row, row.len, "row", &w->arena, &w->err), ERR_OK);
    static const char *const parts[] = {
        "\"effects\":[{\"step\":\"a\",\"key\":\"mail\",\"version\":7,\"attempt\":1,",
        "\"returned\":true,\"result\":3,\"ended_at\":",
        "\"signals\":[{\"correlation_key\":\"k\",\"payload\":[2],\"version\":8}]",
        "\"steps\":[{\"spec\":{\"id\":\"a\",",
        "},\"state\":8,",
        "\"avoided\":[\"r1\"]}",
        "\"avoided\":[]}",
    };
    struct buf text;
    buf_init(&text, &w->arena, row.len + 1);
    buf_add(&text, row);
    buf_add_char(&text, '\0');
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_non_null(strstr(text.at, parts[i]));
    assert_null(world_check(w));
}

static void equal_jobs_have_no_difference(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, signal_of(w, "k", "[2]"));
    struct job_slice slice = copied(w);
    differs(w, &slice, NULL, NULL, NULL);
    assert_str(world_row(w, &slice), world_row(w, &w->slice));
}

static void a_difference_in_the_job_names_its_member(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct job_slice slice = copied(w);
    slice.job.version++;
    differs(w, &slice, "job", NULL, "version");
    slice = copied(w);
    slice.job.status = JOB_LEASED;
    differs(w, &slice, "job", NULL, "status");
    slice = copied(w);
    slice.job.spec.kind = STR("other");
    differs(w, &slice, "job", NULL, "spec");
    slice = copied(w);
    slice.job.steps[STANDING_HELD] = 1;
    differs(w, &slice, "job", NULL, "steps_held");
    slice = copied(w);
    slice.job.salt[0] ^= 1;
    differs(w, &slice, "job", NULL, "salt");
}

static void a_difference_in_a_part_names_it_and_its_member(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, signal_of(w, "k", "[2]"));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    struct job_slice slice = copied(w);
    slice.effects[0].returned = true;
    differs(w, &slice, "effect", "mail", "returned");
    slice = copied(w);
    slice.signals[0].delivered = true;
    differs(w, &slice, "signal", "k", "delivered");
    slice = copied(w);
    slice.steps[1].failures = 1;
    differs(w, &slice, "step", "b", "failures");
    slice = copied(w);
    slice.steps[0].avoided_count = 0;
    differs(w, &slice, "step", "a", "avoided");
    slice = copied(w);
    struct str other = STR("r2");
    slice.steps[0].avoided = &other;
    differs(w, &slice, "step", "a", "avoided");
}

static void what_rows_of_older_versions_do_not_have_is_no_difference(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, commit_of(w, "mail", "1"));
    struct job_slice slice = copied(w);
    slice.job.records_end = 0;
    slice.steps[0].records_end = 0;
    slice.effects[0].ended_at = 0;
    assert_str(job_row_differs(&w->slice, &slice).part, absent);
    slice.steps[0].records_end = 2;
    differs(w, &slice, "step", "a", "records_end");
    slice = copied(w);
    slice.effects[0].ended_at++;
    differs(w, &slice, "effect", "mail", "ended_at");
}

static void a_part_too_many_is_a_difference_in_their_count(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, signal_of(w, "k", "[2]"));
    struct job_slice slice = copied(w);
    slice.effect_count = 0;
    differs(w, &slice, "effects", NULL, "count");
    slice = copied(w);
    slice.signal_count = 0;
    differs(w, &slice, "signals", NULL, "count");
    slice = copied(w);
    slice.step_count = 0;
    differs(w, &slice, "steps", NULL, "count");
}

/* While a lease is live, what heartbeats move is not in the stream. */
static void beats_are_compared_only_where_no_lease_is_live(void **state)
{
    struct world *w = *state;
    running(w);
    struct job_slice slice = copied(w);
    slice.job.lease.expires_at++;
    slice.job.lease.beat_at++;
    slice.job.progress = STR("1");
    slice.job.cursor = STR("c");
    differs(w, &slice, NULL, NULL, NULL);
    slice.job.lease.live = false;
    differs(w, &slice, "job", NULL, "lease");
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    slice = copied(w);
    slice.job.cursor = STR("c");
    differs(w, &slice, "job", NULL, "cursor");
    slice.job.lease.live = true;
    differs(w, &slice, "job", NULL, "lease");
}

static void beats_of_a_step_are_compared_only_where_its_lease_is_not_live(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct job_slice slice = copied(w);
    slice.steps[0].lease.expires_at++;
    slice.steps[0].progress = STR("1");
    differs(w, &slice, NULL, NULL, NULL);
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    slice = copied(w);
    slice.steps[0].progress = STR("1");
    differs(w, &slice, "step", "a", "progress");
    slice.steps[0].lease.live = true;
    differs(w, &slice, "step", "a", "lease");
}

/* Effects that a fresh start forgot are still rows. */
static void forgotten_effects_are_compared_too(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, requeue_by("", true));
    struct job_slice slice = copied(w);
    differs(w, &slice, NULL, NULL, NULL);
    slice.effects[0].attempt = 9;
    differs(w, &slice, "effect", "mail", "attempt");
    assert_null(world_check(w));
}

static void names_of_effects_hold_step_and_key_apart(void **state)
{
    struct world *w = *state;
    assert_text(effect_name(absent, STR("key"), &w->arena), "key");
    assert_text(effect_name(STR("a"), STR("key"), &w->arena), "a\x1fkey");
    assert_text(effect_name(STR("a"), STR(""), &w->arena), "a\x1f");
}

static void every_state_of_a_step_stands_somewhere(void **state)
{
    (void)state;
    static const enum step_standing expected[STEP_STATE_COUNT] = {
        [STEP_PENDING] = STANDING_READY,
        [STEP_WAITING_DEPS] = STANDING_READY,
        [STEP_LEASED] = STANDING_ACTIVE,
        [STEP_RUNNING] = STANDING_ACTIVE,
        [STEP_SUCCEEDED] = STANDING_SUCCEEDED,
        [STEP_FAILED_RETRYABLE] = STANDING_ACTIVE,
        [STEP_RETRYING] = STANDING_READY,
        [STEP_FAILED_RESOURCE] = STANDING_ACTIVE,
        [STEP_SWITCHING_RESOURCE] = STANDING_READY,
        [STEP_FAILED_FATAL] = STANDING_ACTIVE,
        [STEP_FAILED] = STANDING_FAILED,
        [STEP_NEEDS_USER] = STANDING_ASKING,
        [STEP_LEASE_TIMEOUT] = STANDING_ACTIVE,
    };
    for (int i = 0; i < STEP_STATE_COUNT; i++) {
        struct step step = {.state = (enum step_state)i};
        assert_int_equal(step_standing(&step), expected[i]);
    }
    struct step step = {.state = STEP_PENDING, .open_deps = 1};
    assert_int_equal(step_standing(&step), STANDING_BLOCKED);
    step = (struct step){.state = STEP_RUNNING, .held = true};
    assert_int_equal(step_standing(&step), STANDING_HELD);
    step = (struct step){.state = STEP_NEEDS_USER, .answered = true};
    assert_int_equal(step_standing(&step), STANDING_READY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(a_row_has_every_member_that_is_set),
        SCENARIO(a_row_has_the_parts_that_are_loaded),
        SCENARIO(equal_jobs_have_no_difference),
        SCENARIO(a_difference_in_the_job_names_its_member),
        SCENARIO(a_difference_in_a_part_names_it_and_its_member),
        SCENARIO(what_rows_of_older_versions_do_not_have_is_no_difference),
        SCENARIO(a_part_too_many_is_a_difference_in_their_count),
        SCENARIO(beats_are_compared_only_where_no_lease_is_live),
        SCENARIO(beats_of_a_step_are_compared_only_where_its_lease_is_not_live),
        SCENARIO(forgotten_effects_are_compared_too),
        SCENARIO(names_of_effects_hold_step_and_key_apart),
        SCENARIO(every_state_of_a_step_stands_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
