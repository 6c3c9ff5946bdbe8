/* Rows as stores keep them, made from real jobs and read back. */
#include "store/row.h"

#include "../base/starve.h"
#include "../core/scenario.h"
#include "core/job_state.h"

/* The row of the world's job, with what a store would add when it reads. */
static struct job_row job_row_of(struct world *w)
{
    struct store_job_write write = {.after = &w->slice, .purge_at = 77};
    struct job_row row;
    assert_int_equal(row_of_job(&write, STATE_JSON, &w->arena, &row), ERR_OK);
    row.created = w->log[0].payload;
    if (w->slice.job.lease.live)
        row.claim = row_of_lease(&w->slice.job, NULL, 5);
    return row;
}

static struct step_row step_row_of(struct world *w, const struct step *step)
{
    struct step_row row;
    assert_int_equal(row_of_step(step, &w->arena, &row), ERR_OK);
    assert_false(str_is_set(row.plan));
    assert_int_equal(row_add_plan(step, &w->arena, &row), ERR_OK);
    if (step->lease.live)
        row.claim = row_of_lease(&w->slice.job, step, 5);
    return row;
}

/* The world's job is the same after it was written and read. */
static void survives(struct world *w)
{
    const struct job_slice *slice = &w->slice;
    struct job_row row = job_row_of(w);
    struct job_slice read;
    assert_int_equal(row_to_job(&row, 3, &w->arena, &read, &w->err), ERR_OK);
    assert_int_equal(read.seed, 3);
    read.steps = arena_zalloc(&w->arena, slice->step_count + 1, sizeof *read.steps);
    read.effects = arena_zalloc(&w->arena, slice->effect_count + 1, sizeof *read.effects);
    for (uint32_t i = 0; i < slice->step_count; i++) {
        struct step_row step = step_row_of(w, &slice->steps[i]);
        assert_int_equal(row_to_step(&step, &w->arena, &read.steps[i], &w->err), ERR_OK);
        assert_int_equal(read.steps[i].ordinal, i);
        assert_int_equal(read.steps[i].child_count, slice->steps[i].child_count);
    }
    for (uint32_t i = 0; i < slice->effect_count; i++) {
        struct effect_row effect;
        assert_int_equal(row_of_effect(&slice->effects[i], STATE_PACKED, &w->arena, &effect),
                         ERR_OK);
        assert_int_equal(effect.open, !slice->effects[i].returned);
        assert_str(effect.name, slice->effects[i].name);
        assert_int_equal(row_to_effect(&effect, &w->arena, &read.effects[i], &w->err), ERR_OK);
        assert_str(read.effects[i].name, effect.name);
    }
    read.step_count = slice->step_count;
    read.effect_count = slice->effect_count;
    read.signals = slice->signals;
    read.signal_count = slice->signal_count;
    assert_str(world_row(w, &read), world_row(w, slice));
}

static void the_row_of_a_job_has_columns_to_search_by(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.queue = STR("fast \"queue\"");
    spec.priority = -7;
    spec.agent_id = STR("agent");
    spec.goal = STR("a goal");
    spec.correlation_id = STR("order-7");
    spec.idempotency_key = STR("once");
    spec.labels = js(w, "{'a':'b'}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    w->now += 5;
    do_ok(w, claim_by("w1", true));
    struct job_row row = job_row_of(w);
    assert_true(uuid_eq(row.id, w->slice.job.id));
    assert_int_equal(row.status, JOB_RUNNING);
    assert_int_equal(row.version, 3);
    assert_int_equal(row.created_at, WORLD_START_MS);
    assert_int_equal(row.updated_at, WORLD_START_MS + 5);
    assert_text(row.kind, "mail");
    assert_text(row.queue, "fast \"queue\"");
    assert_int_equal(row.priority, -7);
    assert_text(row.agent_id, "agent");
    assert_text(row.goal, "a goal");
    assert_text(row.correlation_id, "order-7");
    assert_text(row.idempotency_key, "once");
    assert_str(row.labels, js(w, "{'a':'b'}"));
    assert_int_equal(row.reason_code, DEAD_NONE);
    assert_int_equal(row.purge_at, 77);
    assert_memory_equal(row.head, w->slice.job.head, HASH_LEN);
    assert_memory_equal(row.salt, w->slice.job.salt, SALT_LEN);
    assert_false(row.redacted);
    assert_str(row.cursor, absent);
    survives(w);
}

static void a_dead_letter_shows_its_reason(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct command dead = by_user(COMMAND_DEAD_LETTER);
    dead.dead_letter.reason_code = DEAD_POLICY_VIOLATION;
    do_ok(w, dead);
    assert_int_equal(job_row_of(w).reason_code, DEAD_POLICY_VIOLATION);
    survives(w);
}

static void the_beats_of_a_live_lease_come_from_its_claim(void **state)
{
    struct world *w = *state;
    running(w);
    struct job_row stale = job_row_of(w);
    w->now += 10;
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("0.5");
    beat.heartbeat.cursor = STR("page=2");
    do_ok(w, beat);
    struct claim_row claim = row_of_lease(&w->slice.job, NULL, 99);
    assert_true(claim.present);
    assert_text(claim.worker_id, "w1");
    assert_str(claim.resource_id, absent);
    assert_int_equal(claim.attempt, 1);
    assert_int_equal(claim.beat_at, WORLD_START_MS + 10);
    assert_int_equal(claim.expires_at, WORLD_START_MS + 30010);
    assert_int_equal(claim.due_at, 99);
    stale.claim = claim;
    struct job_slice read;
    assert_int_equal(row_to_job(&stale, 1, &w->arena, &read, &w->err), ERR_OK);
    assert_str(world_row(w, &read), world_row(w, &w->slice));
    survives(w);
}

static void the_beats_of_a_step_come_from_its_claim(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    struct step_row stale = step_row_of(w, step_named(w, "a"));
    w->now += 10;
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("0.5");
    beat.heartbeat.cursor = STR("page=2");
    do_ok(w, beat);
    stale.claim = row_of_lease(&w->slice.job, step_named(w, "a"), 99);
    assert_text(stale.claim.resource_id, "r1");
    assert_int_equal(stale.claim.attempt, 1);
    struct step read;
    assert_int_equal(row_to_step(&stale, &w->arena, &read, &w->err), ERR_OK);
    struct job_slice one = {.steps = &read, .step_count = 1};
    struct job_slice other = {.steps = w->slice.steps, .step_count = 1};
    assert_str(world_row(w, &one), world_row(w, &other));
    survives(w);
}

static void an_open_question_shows_its_key(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'g','wait':{'type':'signal','correlation_key':'k'}}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    assert_str(step_row_of(w, step_named(w, "a")).asking_key, absent);
    assert_text(step_row_of(w, step_named(w, "g")).asking_key, "k");
    assert_int_equal(step_row_of(w, step_named(w, "g")).state_number, STEP_NEEDS_USER);
    do_ok(w, signal_of(w, "k", "1"));
    assert_str(step_row_of(w, step_named(w, "g")).asking_key, absent);
    survives(w);
}

static void a_job_with_every_part_survives(void **state)
{
    struct world *w = *state;
    planned(w,
            "[{'id':'a \\\"step\\\"','capabilities':[],'avoid':['r9']},{'id':'b','deps':"
            "['a \\\"step\\\"'],'critic':true},{'id':'c','deps':['b'],'payload':{'x':'\\u00e9'}}]");
    do_ok(w, step_claim_of(w, "a \"step\"", "r1", true));
    do_ok(w, begin_of(w, "mail \\ 工", "1"));
    do_ok(w, signal_of(w, "k", "[2]"));
    survives(w);
    do_ok(w, commit_of(w, "mail \\ 工", "{'n':1.10}"));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    survives(w);
    do_ok(w, step_claim_of(w, "a \"step\"", "r2", true));
    do_ok(w, complete_with(w, "null"));
    do_ok(w, step_claim_of(w, "b", "r1", false));
    survives(w);
}

/* ---- redaction ---- */

static void a_redacted_job_is_found_by_its_names(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.queue = STR("q");
    spec.priority = 5;
    spec.agent_id = STR("agent");
    spec.correlation_id = STR("order-7");
    spec.idempotency_key = STR("once");
    spec.goal = STR("a goal");
    spec.labels = js(w, "{'a':'b'}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, claim_by("w1", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    job_redact(&w->slice);
    struct store_job_write write = {.after = &w->slice, .redact = true};
    struct job_row row;
    struct job_slice read;
    assert_int_equal(row_of_job(&write, STATE_PACKED, &w->arena, &row), ERR_OK);
    assert_true(row.redacted);
    assert_str(row.goal, absent);
    assert_str(row.labels, absent);
    assert_int_equal(row_to_job(&row, 1, &w->arena, &read, &w->err), ERR_OK);
    assert_true(read.job.redacted);
    assert_text(read.job.spec.kind, "mail");
    assert_text(read.job.spec.queue, "q");
    assert_int_equal(read.job.spec.priority, 5);
    assert_text(read.job.spec.agent_id, "agent");
    assert_text(read.job.spec.correlation_id, "order-7");
    assert_text(read.job.spec.idempotency_key, "once");

    /* What is written later says it again, or the names would be lost. */
    write = (struct store_job_write){.after = &read};
    assert_int_equal(row_of_job(&write, STATE_PACKED, &w->arena, &row), ERR_OK);
    assert_true(row.redacted);
}

/* ---- damage ---- */

static void damaged_rows_are_corrupt_and_give_nothing(void **state)
{
    struct world *w = *state;
    step_running(w, "[{'id':'a'}]");
    do_ok(w, begin_of(w, "mail", "1"));
    struct job_slice slice = {.seed = 77};
    struct step step = {.ordinal = 77};
    struct effect effect = {.version = 77};
    static const int64_t statuses[] = {-1, JOB_STATUS_COUNT, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        struct job_row row = job_row_of(w);
        row.status = statuses[i];
        assert_int_equal(row_to_job(&row, 1, &w->arena, &slice, &w->err), ERR_CORRUPT);
    }
    static const char *const texts[] = {"", "{", "[]", "{\"lease\":1}", "{\"result\":}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct str text = str_from(texts[i]);
        struct job_row row = job_row_of(w);
        row.state = text;
        assert_int_equal(row_to_job(&row, 1, &w->arena, &slice, &w->err), ERR_CORRUPT);
        row = job_row_of(w);
        row.created = i == 3 ? STR("{\"kind\":1}") : text;
        if (i != 4)
            assert_int_equal(row_to_job(&row, 1, &w->arena, &slice, &w->err), ERR_CORRUPT);
        struct step_row step_row = step_row_of(w, step_named(w, "a"));
        step_row.state = text;
        assert_int_equal(row_to_step(&step_row, &w->arena, &step, &w->err), ERR_CORRUPT);
        step_row = step_row_of(w, step_named(w, "a"));
        step_row.plan = text;
        assert_int_equal(row_to_step(&step_row, &w->arena, &step, &w->err), ERR_CORRUPT);
        struct effect_row effect_row;
        assert_int_equal(row_of_effect(&w->slice.effects[0], STATE_PACKED, &w->arena, &effect_row),
                         ERR_OK);
        effect_row.state = i == 3 ? STR("{\"attempt\":true}") : text;
        assert_int_equal(row_to_effect(&effect_row, &w->arena, &effect, &w->err), ERR_CORRUPT);
    }
    assert_int_equal(slice.seed, 77);
    assert_int_equal(step.ordinal, 77);
    assert_int_equal(effect.version, 77);
}

/* ---- memory ---- */

struct starved {
    struct world *world;
    int what;
    enum error_code code;
};

static bool try_rows(struct arena *arena, void *data)
{
    struct starved *starved = data;
    const struct job_slice *slice = &starved->world->slice;
    struct store_job_write write = {.after = slice};
    struct job_row job;
    struct step_row step = {0};
    struct effect_row effect;
    starved->code = starved->what == 0   ? row_of_job(&write, STATE_JSON, arena, &job)
                    : starved->what == 1 ? row_of_step(&slice->steps[0], arena, &step)
                    : starved->what == 3
                        ? row_add_plan(&slice->steps[0], arena, &step)
                        : row_of_effect(&slice->effects[0], STATE_JSON, arena, &effect);
    return starved->code != ERR_NO_MEMORY;
}

struct starved_read {
    const struct job_row *job;
    const struct step_row *step;
    const struct effect_row *effect;
    int what;
    enum error_code code;
};

static bool try_reads(struct arena *arena, void *data)
{
    struct starved_read *starved = data;
    struct job_slice job;
    struct step step;
    struct effect effect;
    struct err err = {0};
    starved->code = starved->what == 0   ? row_to_job(starved->job, 1, arena, &job, &err)
                    : starved->what == 1 ? row_to_step(starved->step, arena, &step, &err)
                                         : row_to_effect(starved->effect, arena, &effect, &err);
    return starved->code != ERR_NO_MEMORY;
}

static void rows_survive_without_memory(void **state)
{
    struct world *w = *state;
    if (!STARVING)
        skip();
    planned(w, "[{'id':'a \\\" step'},{'id':'b','deps':['a \\\" step']}]");
    do_ok(w, step_claim_of(w, "a \" step", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, cancel_by(CANCEL_SOFT, "a \"reason\""));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    struct job_row job = job_row_of(w);
    struct step_row step = step_row_of(w, &w->slice.steps[0]);
    struct effect_row effect;
    assert_int_equal(row_of_effect(&w->slice.effects[0], STATE_JSON, &w->arena, &effect), ERR_OK);
    for (int what = 0; what < 3; what++) {
        struct starved starved = {.world = w, .what = what};
        assert_true(starve(try_rows, &starved) > 0);
        assert_int_equal(starved.code, ERR_OK);
        struct starved_read read = {&job, &step, &effect, what, ERR_OK};
        assert_true(starve(try_reads, &read) > 0);
        assert_int_equal(read.code, ERR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(the_row_of_a_job_has_columns_to_search_by),
        SCENARIO(a_dead_letter_shows_its_reason),
        SCENARIO(the_beats_of_a_live_lease_come_from_its_claim),
        SCENARIO(the_beats_of_a_step_come_from_its_claim),
        SCENARIO(an_open_question_shows_its_key),
        SCENARIO(a_job_with_every_part_survives),
        SCENARIO(a_redacted_job_is_found_by_its_names),
        SCENARIO(damaged_rows_are_corrupt_and_give_nothing),
        SCENARIO(rows_survive_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
