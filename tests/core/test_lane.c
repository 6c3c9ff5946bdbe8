/* Lanes: their keys, and who may take what stands in them. */
#include "core/lane.h"

#include "../base/starve.h"
#include "scenario.h"

/* A job with these capabilities in this queue. */
static void submitted_as(struct world *w, const char *kind, const char *queue,
                         const char *capabilities)
{
    struct spec spec = world_spec();
    spec.kind = str_from(kind);
    spec.queue = str_from(queue);
    spec.capabilities = capabilities == NULL ? absent : js(w, capabilities);
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
}

static struct str job_key(struct world *w)
{
    struct str key = absent;
    assert_int_equal(lane_key_of_job(&w->slice.job, &w->arena, &key, &w->err), ERR_OK);
    return key;
}

static struct str step_key(struct world *w, const char *step)
{
    struct str key = absent;
    assert_int_equal(lane_key_of_step(&w->slice.job, step_named(w, step), &w->arena, &key, &w->err),
                     ERR_OK);
    return key;
}

static struct lane read_ok(struct world *w, struct str key)
{
    struct lane lane;
    assert_int_equal(lane_read(key, &w->arena, &lane, &w->err), ERR_OK);
    return lane;
}

static struct names names_of(struct world *w, const char *list)
{
    struct names names;
    assert_int_equal(names_read(js(w, list), UINT32_MAX, "names", &w->arena, &names, &w->err),
                     ERR_OK);
    return names;
}

/* ---- keys ---- */

static void the_key_of_a_job_leaves_out_what_it_does_not_say(void **state)
{
    struct world *w = *state;
    submitted(w);
    assert_str(job_key(w), js(w, "['job','default','mail']"));
    world_clear(w, 2);
    submitted_as(w, "mail", "fast", "[]");
    assert_str(job_key(w), js(w, "['job','fast','mail']"));
    world_clear(w, 3);
    submitted_as(w, "mail", "fast", "['gpu']");
    assert_str(job_key(w), js(w, "['job','fast','mail',['gpu']]"));
}

static void lists_in_another_order_are_the_same_lane(void **state)
{
    struct world *w = *state;
    submitted_as(w, "mail", "q", "['b','ab','a','c']");
    assert_str(job_key(w), js(w, "['job','q','mail',['a','ab','b','c']]"));
    world_clear(w, 2);
    submitted_as(w, "mail", "q", " [ 'c' , 'a' , '\\u0062' , 'ab' ] ");
    assert_str(job_key(w), js(w, "['job','q','mail',['a','ab','b','c']]"));
}

static void the_key_of_a_step_has_its_selector_and_avoid_list(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','kind':'render'},{'id':'c','capabilities':['y','x']},"
               "{'id':'d','selector':'zone=a'},{'id':'e','avoid':['r2','r1']},"
               "{'id':'f','kind':'k','capabilities':['x'],'selector':'!old','avoid':['r1']},"
               "{'id':'g','selector':''}]");
    assert_str(step_key(w, "a"), js(w, "['step','default',null]"));
    assert_str(step_key(w, "b"), js(w, "['step','default','render']"));
    assert_str(step_key(w, "c"), js(w, "['step','default',null,['x','y']]"));
    assert_str(step_key(w, "d"), js(w, "['step','default',null,[],'zone=a',[]]"));
    assert_str(step_key(w, "e"), js(w, "['step','default',null,[],null,['r1','r2']]"));
    assert_str(step_key(w, "f"), js(w, "['step','default','k',['x'],'!old',['r1']]"));
    assert_str(step_key(w, "g"), js(w, "['step','default',null]"));
}

static void a_resource_that_a_step_was_lost_on_is_avoided_once(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','avoid':['r5','r2']}]");
    static const char *const lost[] = {"r9", "r1"};
    for (size_t i = 0; i < 2; i++) {
        do_ok(w, step_claim_of(w, "a", lost[i], true));
        do_ok(w, fail_as(w, CLASS_RESOURCE));
    }
    assert_str(step_key(w, "a"), js(w, "['step','default',null,[],null,['r1','r2','r5','r9']]"));
    struct step step = *step_named(w, "a");
    step.spec.avoid = js(w, "['r1','r2','r5']");
    struct str key;
    assert_int_equal(lane_key_of_step(&w->slice.job, &step, &w->arena, &key, &w->err), ERR_OK);
    assert_str(key, js(w, "['step','default',null,[],null,['r1','r2','r5','r9']]"));
}

static void a_step_that_is_held_stands_in_a_lane_for_critics(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','kind':'k','critic':true,'selector':'!old','avoid':['r7']}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    assert_true(step_named(w, "a")->held);
    assert_str(step_key(w, "a"), js(w, "['judge','default','k']"));
}

static void hostile_names_come_back_as_they_were(void **state)
{
    struct world *w = *state;
    static const char *const names[] = {"\"", "\\",   "\\\"],[\"", "müll 工作 \xf0\x9f\x90\x8d",
                                        "'",  "null", "%s%n",      "[]",
                                        " ",  "a,b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct str name = str_from(names[i]);
        struct buf list;
        struct json_writer writer;
        buf_init(&list, &w->arena, 64);
        json_writer_init(&writer, &list);
        json_begin_array(&writer);
        json_put_string(&writer, name);
        json_end_array(&writer);
        struct job job = {.spec = {.kind = name, .queue = name, .capabilities = buf_str(&list)}};
        struct step step = {
            .spec = {.kind = name, .capabilities = buf_str(&list), .avoid = buf_str(&list)}};
        struct str key;
        assert_int_equal(lane_key_of_job(&job, &w->arena, &key, &w->err), ERR_OK);
        struct lane lane = read_ok(w, key);
        assert_int_equal(lane.work, LANE_JOBS);
        assert_str(lane.queue, name);
        assert_str(lane.kind, name);
        assert_int_equal(lane.capabilities.count, 1);
        assert_str(lane.capabilities.at[0], name);
        assert_int_equal(lane_key_of_step(&job, &step, &w->arena, &key, &w->err), ERR_OK);
        assert_int_equal(json_check(key, key.len, "key", &w->arena, &w->err), ERR_OK);
        lane = read_ok(w, key);
        assert_int_equal(lane.work, LANE_STEPS);
        assert_str(lane.selector, absent);
        assert_int_equal(lane.avoid.count, 1);
        assert_str(lane.avoid.at[0], name);
    }
}

static void damaged_lists_of_a_job_are_corrupt(void **state)
{
    struct world *w = *state;
    static const char *const lists[] = {
        "[", "{}", "[1]", "[\"a\",\"a\"]", "[\"\"]", "[\"a\" \"b\"]", ""};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct str list = exact(str_from(lists[i]));
        struct job job = {.spec = {.queue = STR("q"), .capabilities = list}};
        struct step steps[] = {{.spec = {.capabilities = list}}, {.spec = {.avoid = list}}};
        struct str key = STR("untouched");
        assert_int_equal(lane_key_of_job(&job, &w->arena, &key, &w->err), ERR_CORRUPT);
        assert_string_equal(w->err.detail, "the capabilities of a job cannot be read");
        assert_int_equal(lane_key_of_job(&job, &w->arena, &key, NULL), ERR_CORRUPT);
        assert_int_equal(lane_key_of_step(&job, &steps[0], &w->arena, &key, &w->err), ERR_CORRUPT);
        assert_int_equal(lane_key_of_step(&job, &steps[1], &w->arena, &key, &w->err), ERR_CORRUPT);
        assert_string_equal(w->err.detail, "the avoid list of a job cannot be read");
        assert_str(key, STR("untouched"));
        exact_free(list);
    }
}

/* ---- reading ---- */

static void a_key_with_limits_and_a_fair_key_comes_back_and_its_work_is_left_alone(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = {
        "['job','q','k',[],null,[],[['api',null],['tenant','t-1']]]",
        "['job','q','k',['gpu'],null,[],[],'t-1']",
        "['step','q',null,[],'zone=a',['r1'],[['api',null]],'caf\u00e9']",
    };
    struct claimer claimer = {.work = LANE_JOBS, .capabilities = names_of(w, "['gpu']")};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct lane lane = read_ok(w, js(w, keys[i]));
        struct str again = absent;
        assert_int_equal(lane_key(&lane, &w->arena, &again, &w->err), ERR_OK);
        struct lane reread = read_ok(w, again);
        assert_str(reread.limits, lane.limits);
        assert_str(reread.fair_key, lane.fair_key);
        assert_str(again, js(w, i < 2 ? keys[i]
                                      : "['step','q',null,[],'zone=a',['r1'],[['api',null]],"
                                        "'caf\xc3\xa9']"));
        assert_false(lane_takes(&lane, &claimer));
    }
    struct lane plain = read_ok(w, js(w, "['job','q','k',['gpu'],null,[],[]]"));
    assert_true(lane_takes(&plain, &claimer));
}

static void what_is_no_key_is_corrupt(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = {
        "",
        "null",
        "{}",
        "'job'",
        "[",
        "[]",
        "['job']",
        "['job',null,'k']",
        "['other','q','k']",
        "[null,'q','k']",
        "[1,'q','k']",
        "['job',1,'k']",
        "['job','q',1]",
        "['job','q','k',1]",
        "['job','q','k',null]",
        "['job','q','k',[1]]",
        "['job','q','k',['a','a']]",
        "['step','q','k',[],1,[]]",
        "['step','q','k',[],'=',[]]",
        "['step','q','k',[],'a in (',[]]",
        "['step','q','k',[],null,1]",
        "['step','q','k',[],null,['']]",
        "['step','q','k',[],null,[],1]",
        "['job','q','k'",
        "['job','q','k']x",
        "['job','q' 'k']",
        "['job','q','\\ud800']",
        "['job','q','\\x']",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct str key = exact(js(w, keys[i]));
        struct lane lane = {.work = LANE_JUDGING};
        assert_int_equal(lane_read(key, &w->arena, &lane, &w->err), ERR_CORRUPT);
        assert_int_equal(w->err.code, ERR_CORRUPT);
        assert_non_null(strstr(w->err.detail, "is not the key of a lane"));
        assert_int_equal(lane_read(key, &w->arena, &lane, NULL), ERR_CORRUPT);
        assert_int_equal(lane.work, LANE_JUDGING);
        exact_free(key);
    }
    struct lane lane;
    assert_int_equal(lane_read(absent, &w->arena, &lane, &w->err), ERR_CORRUPT);
}

/* Whatever a byte turns into, reading ends well or says corrupt. */
static void a_key_with_a_wrong_byte_is_read_or_refused(void **state)
{
    struct world *w = *state;
    struct str key =
        js(w, "['step','q\\u0041','k',['a','\\n'],'zone in (a,b), !old',['r1','r\\'']]");
    static const char bytes[] = "\"[]{},:\\x0n\x80 ";
    for (size_t len = 0; len < key.len; len++) {
        struct str cut = exact((struct str){key.at, len});
        struct lane lane;
        assert_int_equal(lane_read(cut, &w->arena, &lane, &w->err), ERR_CORRUPT);
        exact_free(cut);
    }
    for (size_t at = 0; at < key.len; at++) {
        for (size_t i = 0; i < sizeof bytes - 1; i++) {
            struct str bad = exact(key);
            ((char *)(uintptr_t)bad.at)[at] = bytes[i];
            struct lane lane;
            enum error_code code = lane_read(bad, &w->arena, &lane, &w->err);
            assert_true(code == ERR_OK || code == ERR_CORRUPT);
            exact_free(bad);
        }
    }
}

/* ---- who takes what ---- */

static void a_claimer_takes_what_it_names(void **state)
{
    struct world *w = *state;
    struct lane lane = read_ok(w, js(w, "['job','q','k',['gpu','ssd']]"));
    struct lane no_kind = read_ok(w, js(w, "['job','q',null]"));
    struct claimer claimer = {.work = LANE_JOBS, .capabilities = names_of(w, "['ssd','x','gpu']")};
    assert_true(lane_takes(&lane, &claimer));
    claimer.queues = names_of(w, "['p','q']");
    claimer.kinds = names_of(w, "['k','l']");
    assert_true(lane_takes(&lane, &claimer));
    assert_false(lane_takes(&no_kind, &claimer));
    claimer.kinds = names_of(w, "['l']");
    assert_false(lane_takes(&lane, &claimer));
    claimer.kinds = (struct names){0};
    assert_true(lane_takes(&no_kind, &claimer));
    claimer.queues = names_of(w, "['p']");
    assert_false(lane_takes(&lane, &claimer));
    claimer.queues = (struct names){0};
    claimer.capabilities = names_of(w, "['gpu']");
    assert_false(lane_takes(&lane, &claimer));
    claimer.work = LANE_STEPS;
    assert_false(lane_takes(&lane, &claimer));
}

static void a_resource_takes_steps_that_fit_it(void **state)
{
    struct world *w = *state;
    struct lane lane = read_ok(w, js(w, "['step','q','k',['gpu'],'zone in (a,b)',['r1']]"));
    struct label labels[] = {{STR("zone"), STR("b")}};
    struct resource resource = {.id = STR("r2"),
                                .capabilities = names_of(w, "['gpu']"),
                                .labels = labels,
                                .label_count = 1};
    struct claimer claimer = {.work = LANE_STEPS, .resource = &resource};
    assert_true(lane_takes(&lane, &claimer));
    labels[0].value = STR("c");
    assert_false(lane_takes(&lane, &claimer));
    labels[0].value = STR("a");
    resource.id = STR("r1");
    assert_false(lane_takes(&lane, &claimer));
    resource.id = STR("r3");
    resource.capabilities.count = 0;
    assert_false(lane_takes(&lane, &claimer));
    claimer.resource = NULL;
    assert_false(lane_takes(&lane, &claimer));
    lane = read_ok(w, js(w, "['step','q','k']"));
    claimer.resource = &resource;
    assert_true(lane_takes(&lane, &claimer));
}

static void a_critic_needs_nothing_to_judge(void **state)
{
    struct world *w = *state;
    struct lane lane = read_ok(w, js(w, "['judge','q','k']"));
    struct claimer claimer = {.work = LANE_JUDGING};
    assert_true(lane_takes(&lane, &claimer));
    claimer.work = LANE_JOBS;
    assert_false(lane_takes(&lane, &claimer));
}

/* What job_decide says to a claim, lane_takes says before. */
static void a_worker_takes_the_lanes_of_the_jobs_that_it_can_claim(void **state)
{
    struct world *w = *state;
    static const char *const lists[] = {"[]", "['a']", "['b']", "['a','b']", "['a','b','c']"};
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < 5; k++) {
            world_clear(w, i * 5 + k + 1);
            submitted_as(w, "mail", "q", lists[i]);
            struct lane lane = read_ok(w, job_key(w));
            struct names have = names_of(w, lists[k]);
            struct claimer claimer = {.work = LANE_JOBS, .capabilities = have};
            struct command claim = claim_by("w1", true);
            claim.claim.capabilities = &have;
            bool accepted = world_do(w, &claim) == ERR_OK;
            assert_int_equal(lane_takes(&lane, &claimer), accepted);
        }
    }
}

/* ---- without memory ---- */

struct starved {
    const struct job *job;
    const struct step *step;
    struct str key;
    struct lane lane;
    enum error_code code;
    bool flaw;
};

static bool try_job_key(struct arena *arena, void *data)
{
    struct starved *starved = data;
    struct err err = {0};
    starved->code = lane_key_of_job(starved->job, arena, &starved->key, &err);
    starved->flaw = starved->flaw || starved->code != err.code;
    return starved->code != ERR_NO_MEMORY;
}

static bool try_step_key(struct arena *arena, void *data)
{
    struct starved *starved = data;
    struct err err = {0};
    starved->code = lane_key_of_step(starved->job, starved->step, arena, &starved->key, &err);
    starved->flaw = starved->flaw || starved->code != err.code;
    return starved->code != ERR_NO_MEMORY;
}

static bool try_to_read(struct arena *arena, void *data)
{
    struct starved *starved = data;
    struct err err = {0};
    starved->code = lane_read(starved->key, arena, &starved->lane, &err);
    starved->flaw = starved->flaw || starved->code != err.code;
    return starved->code != ERR_NO_MEMORY;
}

static void lanes_survive_without_memory(void **state)
{
    struct world *w = *state;
    struct job job = {.spec = {.kind = STR("a \"kind\""),
                               .queue = STR("q"),
                               .capabilities = js(w, "['\\u0041','b']")}};
    struct str lost[] = {STR("r1"), STR("r2")};
    struct step step = {.spec = {.kind = STR("a \"kind\""),
                                 .selector = STR("zone in (a,b), !old"),
                                 .capabilities = js(w, "['\\u0041','b']"),
                                 .avoid = js(w, "['\\u0042','b']")},
                        .avoided = lost,
                        .avoided_count = 2};
    if (!STARVING)
        skip();
    struct starved starved = {.job = &job, .step = &step};
    assert_true(starve(try_job_key, &starved) > 0);
    assert_int_equal(starved.code, ERR_OK);
    assert_true(starve(try_step_key, &starved) > 0);
    assert_int_equal(starved.code, ERR_OK);
    starved.key = js(w, "['step','q\\u0041','k\\u0041',['\\u0041'],'zone in (a\\u002cb)',"
                        "['\\u0041','b']]");
    assert_true(starve(try_to_read, &starved) > 0);
    assert_int_equal(starved.code, ERR_OK);
    assert_false(starved.flaw);
}

static void a_pinned_job_stands_in_a_lane_of_its_version(void **state)
{
    struct world *w = *state;
    struct job job = {.spec = {.queue = STR("q"), .kind = STR("k")}, .pin = STR("v41")};
    struct claimer claimer = {.work = LANE_JOBS};
    struct lane lane = {0};
    struct str key;
    assert_int_equal(lane_key_of_job(&job, &w->arena, &key, NULL), ERR_OK);
    assert_str(key, STR("[\"job\",\"q\",\"k\",[],null,[],[],null,\"v41\"]"));
    assert_int_equal(lane_read(key, &w->arena, &lane, NULL), ERR_OK);
    assert_str(lane.pin, STR("v41"));
    assert_false(lane_takes(&lane, &claimer));
    claimer.code_version = STR("v42");
    assert_false(lane_takes(&lane, &claimer));
    claimer.code_version = STR("v41");
    assert_true(lane_takes(&lane, &claimer));
    job.pin = (struct str){NULL, 0};
    assert_int_equal(lane_key_of_job(&job, &w->arena, &key, NULL), ERR_OK);
    assert_int_equal(lane_read(key, &w->arena, &lane, NULL), ERR_OK);
    assert_true(lane_takes(&lane, &claimer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(the_key_of_a_job_leaves_out_what_it_does_not_say),
        SCENARIO(lists_in_another_order_are_the_same_lane),
        SCENARIO(the_key_of_a_step_has_its_selector_and_avoid_list),
        SCENARIO(a_resource_that_a_step_was_lost_on_is_avoided_once),
        SCENARIO(a_step_that_is_held_stands_in_a_lane_for_critics),
        SCENARIO(hostile_names_come_back_as_they_were),
        SCENARIO(damaged_lists_of_a_job_are_corrupt),
        SCENARIO(a_key_with_limits_and_a_fair_key_comes_back_and_its_work_is_left_alone),
        SCENARIO(what_is_no_key_is_corrupt),
        SCENARIO(a_key_with_a_wrong_byte_is_read_or_refused),
        SCENARIO(a_claimer_takes_what_it_names),
        SCENARIO(a_resource_takes_steps_that_fit_it),
        SCENARIO(a_critic_needs_nothing_to_judge),
        SCENARIO(a_worker_takes_the_lanes_of_the_jobs_that_it_can_claim),
        SCENARIO(lanes_survive_without_memory),
        SCENARIO(a_pinned_job_stands_in_a_lane_of_its_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
