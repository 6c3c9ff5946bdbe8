/* Memory that runs out: at whatever allocation, a command then fails with no_memory and nothing has
 * changed. */
#include "../base/starve.h"
#include "scenario.h"

/* One decision, tried with less and less memory. */
struct trial {
    struct world *world;
    const struct command *command;
    struct job_slice before; /* of the world's slice, member by member */
    struct effect effects[32];
    struct signal signals[32];
    struct step steps[32];
    enum error_code code;
    const char *flaw;
};

static bool same(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

static bool slice_is_as_before(const struct trial *trial)
{
    const struct job_slice *now = &trial->world->slice;
    return same(now, &trial->before, sizeof *now) &&
           same(now->effects, trial->effects, now->effect_count * sizeof *now->effects) &&
           same(now->signals, trial->signals, now->signal_count * sizeof *now->signals) &&
           same(now->steps, trial->steps, now->step_count * sizeof *now->steps);
}

static struct trial trial_of(struct world *w, const struct command *command)
{
    struct trial trial = {.world = w, .command = command};
    memcpy(&trial.before, &w->slice, sizeof w->slice);
    assert_true(w->slice.effect_count <= 32 && w->slice.signal_count <= 32 &&
                w->slice.step_count <= 32);
    for (uint32_t i = 0; i < w->slice.effect_count; i++)
        memcpy(&trial.effects[i], &w->slice.effects[i], sizeof trial.effects[i]);
    for (uint32_t i = 0; i < w->slice.signal_count; i++)
        memcpy(&trial.signals[i], &w->slice.signals[i], sizeof trial.signals[i]);
    for (uint32_t i = 0; i < w->slice.step_count; i++)
        memcpy(&trial.steps[i], &w->slice.steps[i], sizeof trial.steps[i]);
    return trial;
}

/* Decides and seals in `arena`; true when the memory was enough. */
static bool try_to_decide(struct arena *arena, void *data)
{
    static const struct decision untouched = {.count = 77};
    struct trial *trial = data;
    struct context context = {
        .now = trial->world->now,
        .random = 7,
        .kind = NULL,
        .arena = arena,
    };
    struct err err = {0};
    struct decision decision;
    memcpy(&decision, &untouched, sizeof decision);
    trial->code = job_decide(&trial->world->slice, trial->command, &context, &decision, &err);
    if (!slice_is_as_before(trial))
        trial->flaw = "the slice changed";
    if (trial->code != ERR_OK && !same(&decision, &untouched, sizeof decision))
        trial->flaw = "the decision was touched";
    if (trial->code != err.code)
        trial->flaw = "code and error differ";
    if (trial->code == ERR_OK) {
        uint8_t head[HASH_LEN];
        memcpy(head, trial->world->slice.job.head, HASH_LEN);
        trial->code = decision_seal(&decision, head, arena, &err);
    }
    return trial->code != ERR_NO_MEMORY;
}

#define starved(w, ...) starved_(w, __VA_ARGS__, __FILE__, __LINE__)
static void starved_(struct world *w, struct command command, const char *file, int line)
{
    if (!STARVING)
        return;
    struct trial trial = trial_of(w, &command);
    int failed = starve(try_to_decide, &trial);
    if (trial.code == ERR_OK && trial.flaw == NULL && failed > 0)
        return;
    print_error("%s after %d failures: %s\n", error_info(trial.code)->name, failed,
                trial.flaw == NULL ? "" : trial.flaw);
    _fail(file, line);
}

/* Starves the command, then carries it out. */
#define starved_ok(w, ...)                                                                         \
    do {                                                                                           \
        struct command command_ = __VA_ARGS__;                                                     \
        starved(w, command_);                                                                      \
        do_ok(w, command_);                                                                        \
    } while (0)

static void commands_of_a_workers_day_survive_without_memory(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.payload = js(w, "{'to':'bob'}");
    spec.capabilities = js(w, "['gp\\u0075']");
    spec.labels = js(w, "{'a':'b'}");
    spec.in_doubt = DOUBT_ASK;
    spec.timeout_ms = 3600000;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    starved_ok(w, submit);
    struct str gpu = STR("gpu");
    struct names have = {&gpu, 1};
    struct command claim = claim_by("w1", true);
    claim.claim.capabilities = &have;
    starved_ok(w, claim);
    struct command beat = by_worker(w, COMMAND_HEARTBEAT);
    beat.heartbeat.progress = STR("1");
    starved_ok(w, beat);
    starved_ok(w, begin_of(w, "mail", "1"));
    starved_ok(w, commit_of(w, "mail", "1"));
    starved_ok(w, signal_of(w, "k", "1"));
    starved_ok(w, wait_for(w, "k", 0));
    starved_ok(w, claim);
    struct command wait = wait_for(w, "other", 1000);
    wait.wait.prompt = STR("?");
    starved_ok(w, wait);
    starved(w, signal_of(w, "other", "1"));
    w->now += 1000;
    starved_ok(w, by_engine(COMMAND_WAKE));
    starved_ok(w, claim);
    starved(w, fail_as(w, CLASS_TRANSIENT));
    starved(w, fail_as(w, CLASS_PERMANENT));
    starved(w, complete_with(w, "1"));
    starved(w, cancel_by(CANCEL_SOFT, "stop"));
    starved(w, cancel_by(CANCEL_HARD, "stop"));
    starved_ok(w, by_worker(w, COMMAND_RELEASE));
    assert_null(world_check(w));
}

static void commands_after_an_end_survive_without_memory(void **state)
{
    struct world *w = *state;
    submitted(w);
    struct command letter = by_user(COMMAND_DEAD_LETTER);
    letter.dead_letter.reason_code = DEAD_TIMEOUT;
    letter.dead_letter.message = STR("no");
    starved(w, letter);
    starved_ok(w, claim_by("w1", false));
    starved_ok(w, by_worker(w, COMMAND_START));
    struct command abandon = by_worker(w, COMMAND_ABANDON);
    abandon.dead_letter = letter.dead_letter;
    starved(w, abandon);
    struct appended events[] = {
        {STR("a.b"), STR("1")}, {STR("a.c"), STR("1")}, {STR("a.d"), STR("1")}};
    struct command append = by_worker(w, COMMAND_APPEND);
    append.append.events = events;
    append.append.count = 3;
    append.append.expected_version = -1;
    starved_ok(w, append);
    struct command cancel = cancel_by(CANCEL_SOFT, "stop");
    do_ok(w, cancel);
    starved(w, by_worker(w, COMMAND_CANCELLED));
    w->now += 30000;
    starved(w, by_engine(COMMAND_CANCEL_DUE));
    starved(w, expire_of(1));
    world_clear(w, 2);
    running(w);
    w->now += 30000;
    starved_ok(w, expire_of(1));
    starved(w, requeue_by("now", false));
    starved_ok(w, plan_of(w, "[{'id':'a'},{'id':'b','deps':['a']}]"));
    assert_null(world_check(w));
}

/* Up to the doubt about "mail" of an attempt that is gone. */
static void doubted(struct world *w, enum doubt_policy policy)
{
    struct spec spec = world_spec();
    spec.in_doubt = policy;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, claim_by("w1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, claim_by("w1", true));
}

static void effects_in_doubt_survive_without_memory(void **state)
{
    struct world *w = *state;
    doubted(w, DOUBT_FAIL);
    starved_ok(w, begin_of(w, "mail", "1"));
    world_clear(w, 2);
    doubted(w, DOUBT_RETRY);
    starved_ok(w, begin_of(w, "mail", "1"));
    world_clear(w, 3);
    doubted(w, DOUBT_ASK);
    starved_ok(w, begin_of(w, "mail", "1"));
    starved(w, signal_of(w, "mail", "{'decision':'d\\u006fne','result':1}"));
    starved_ok(w, signal_of(w, "mail", "'retry'"));
    assert_null(world_check(w));
}

static void many_effects_survive_without_memory(void **state)
{
    struct world *w = *state;
    running(w);
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                       "j", "k", "l", "m", "n", "o", "p", "q", "r"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        starved_ok(w, begin_of(w, keys[i], "1"));
    assert_null(world_check(w));
}

static void steps_survive_without_memory(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_ASK;
    spec.plan = js(w, "{'steps':[{'id':'a','critic':true,'capabilities':[],'avoid':['x'],"
                      "'selector':'!spot'},{'id':'b','deps':['a']},"
                      "{'id':'g','deps':['a'],'wait':{'type':'signal','correlation_key':'k'}}]}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    starved_ok(w, submit);
    starved_ok(w, step_claim_of(w, "a", "r1", false));
    starved(w, by_worker(w, COMMAND_RELEASE));
    starved(w, fail_as(w, CLASS_TRANSIENT));
    starved_ok(w, by_worker(w, COMMAND_START));
    starved_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    starved(w, fail_as(w, CLASS_RESOURCE));
    starved(w, fail_as(w, CLASS_PERMANENT));
    starved_ok(w, begin_of(w, "mail", "1"));
    starved_ok(w, by_worker(w, COMMAND_RELEASE));
    starved_ok(w, step_claim_of(w, "a", "r1", true));
    starved_ok(w, begin_of(w, "mail", "1"));
    starved_ok(w, answer_of(w, "a", "{'decision':'done','result':1}"));
    starved_ok(w, step_claim_of(w, "a", "r1", true));
    w->now += 30000;
    starved(w, on_step(expire_of(3), "a"));
    w->now -= 30000;
    starved_ok(w, complete_with(w, "1"));
    starved_ok(w, judge_of("a"));
    starved(w, with_token(verdict_on(NULL, VERDICT_RETRY), w->token));
    starved(w, with_token(verdict_on(NULL, VERDICT_NEEDS_USER), w->token));
    starved(w, with_token(verdict_on(NULL, VERDICT_REPLAN), w->token));
    starved_ok(w, with_token(verdict_on(NULL, VERDICT_ACCEPT), w->token));
    starved(w, signal_of(w, "k", "1"));
    starved_ok(w, step_claim_of(w, "b", "r1", true));
    starved(w, complete_with(w, "1"));
    starved_ok(w, fail_as(w, CLASS_PERMANENT));
    starved_ok(w, requeue_by("again", false));
    assert_null(world_check(w));
}

static void plans_survive_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    starved_ok(w, verdict_on("a", VERDICT_REPLAN));
    starved(w, plan_of(w, "[{'id':'c'},{'id':'d','deps':['c']}]"));
    starved_ok(w, plan_of(w, "[{'id':'c'},{'id':'t','wait':{'type':'timer','delay_ms':5}}]"));
    w->now += 5;
    starved_ok(w, on_step(by_engine(COMMAND_WAKE), "t"));
    do_ok(w, step_claim_of(w, "c", "r1", true));
    do_ok(w, cancel_by(CANCEL_SOFT, ""));
    starved(w, by_worker(w, COMMAND_CANCELLED));
    starved_ok(w, complete_with(w, "1"));
    assert_null(world_check(w));
}

/* Each of these plans makes another event of the cascade the one that the list has no room for. */
static void cascades_survive_without_memory(void **state)
{
    static const char *const plans[] = {
        "{'steps':[{'id':'g','wait':{'type':'timer','delay_ms':5}},{'id':'b','deps':['g']}]}",
        "{'steps':[{'id':'g','wait':{'type':'timer','delay_ms':5}},{'id':'b','deps':['g']},"
        "{'id':'c','deps':['g']},{'id':'d','deps':['g']}]}",
    };
    struct world *w = *state;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        struct spec spec = world_spec();
        spec.plan = js(w, plans[i]);
        struct command submit = by_user(COMMAND_SUBMIT);
        submit.submit.spec = &spec;
        starved_ok(w, submit);
        w->now += 5;
        starved_ok(w, on_step(by_engine(COMMAND_WAKE), "g"));
        assert_null(world_check(w));
        world_clear(w, i + 2);
    }
    planned(w, "[{'id':'a'},{'id':'g','deps':['a'],'wait':{'type':'human','prompt':'?'}},"
               "{'id':'h','deps':['a'],'wait':{'type':'human','prompt':'?'}}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    starved_ok(w, complete_with(w, "1"));
    assert_null(world_check(w));
}

/* A wait step is answered while the job is queued, since another step was answered before. */
static void an_answer_to_a_queued_job_survives_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'g','wait':{'type':'human','prompt':'?'}}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, verdict_on("a", VERDICT_NEEDS_USER));
    do_ok(w, answer_of(w, "a", "1"));
    assert_status(w, "queued");
    starved_ok(w, answer_of(w, "g", "1"));
    assert_null(world_check(w));
}

static void effects_of_a_step_survive_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    starved_ok(w, begin_of(w, "mail", "1"));
    starved_ok(w, commit_of(w, "mail", "1"));
    do_ok(w, begin_of(w, "post", "1"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    starved_ok(w, begin_of(w, "post", "1")); /* in doubt, which fails the step */
    assert_status(w, "failed");
    assert_null(world_check(w));
}

static void a_plan_of_finished_steps_survives_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_REPLAN));
    starved_ok(w, plan_of(w, "[{'id':'a'}]"));
    assert_null(world_check(w));

    world_clear(w, 2);
    planned(w, "[{'id':'a'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    do_ok(w, verdict_on("b", VERDICT_NEEDS_USER));
    do_ok(w, answer_of(w, "b", "1"));
    assert_status(w, "queued");
    starved_ok(w, plan_of(w, "[{'id':'a'}]"));
    assert_status(w, "completed");
    assert_null(world_check(w));
}

static void a_delayed_wait_step_survives_without_memory(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.delay_ms = 10;
    spec.plan = js(w, "{'steps':[{'id':'g','wait':{'type':'human','prompt':'\\u003f'}}]}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    starved_ok(w, submit);
    w->now += 10;
    starved_ok(w, on_step(by_engine(COMMAND_WAKE), "g"));
    starved_ok(w, answer_of(w, "g", "1"));
    assert_status(w, "completed");
    assert_null(world_check(w));
}

/* The plan fails by a step that moved before: the job's error is written anew. */
static void the_end_of_a_plan_survives_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','on_failure':'continue'},{'id':'b'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    do_ok(w, step_claim_of(w, "b", "r1", true));
    starved_ok(w, complete_with(w, "1"));
    assert_status(w, "failed");
    assert_null(world_check(w));
}

static void the_last_lease_of_a_step_survives_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a','retry':{'max_attempts':1}}]");
    do_ok(w, step_claim_of(w, "a", "r1", false));
    w->now += 30000;
    starved_ok(w, on_step(expire_of(1), "a"));
    assert_step(w, "a", "failed");
    assert_null(world_check(w));
}

static void a_repeated_failure_survives_without_memory(void **state)
{
    struct world *w = *state;
    running(w);
    struct command fail = fail_as(w, CLASS_PERMANENT);
    do_ok(w, fail);
    starved(w, fail);
    assert_null(world_check(w));
}

/* "g" asks for what is stored: a second signal is stored behind the first, which is delivered. */
static void a_signal_behind_another_survives_without_memory(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'g','deps':['a'],"
               "'wait':{'type':'signal','correlation_key':'k'}}]");
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    starved_ok(w, signal_of(w, "k", "2"));
    assert_step(w, "g", "succeeded");
    assert_null(world_check(w));
}

/* ---- replay ---- */

struct replay {
    struct world *world;
    enum error_code code;
};

/* Opens and folds the whole log in `arena`; true when the memory was enough. */
static bool try_to_replay(struct arena *arena, void *data)
{
    struct replay *replay = data;
    struct job_slice slice;
    struct err err = {0};
    job_slice_init(&slice, replay->world->slice.job.id, 7);
    replay->code = ERR_OK;
    for (size_t i = 0; i < replay->world->log_count && replay->code == ERR_OK; i++) {
        struct event event = replay->world->log[i];
        replay->code = event_open(&event, 1, arena, &err);
        if (replay->code == ERR_OK)
            replay->code = job_evolve(&slice, &event, arena, &err);
    }
    return replay->code != ERR_NO_MEMORY;
}

static void a_replay_survives_without_memory(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.in_doubt = DOUBT_ASK;
    spec.goal = STR("a \"goal\"");
    spec.plan = js(w, "{'steps':[{'id':'a'},{'id':'b','deps':['a']}]}");
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    do_ok(w, signal_of(w, "early", "1"));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    do_ok(w, step_claim_of(w, "a", "r2", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, by_worker(w, COMMAND_RELEASE));
    do_ok(w, step_claim_of(w, "a", "r2", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, answer_of(w, "a", "'retry'"));
    struct replay replay = {.world = w};
    if (STARVING)
        assert_true(starve(try_to_replay, &replay) > 0);
    assert_int_equal(replay.code, ERR_OK);
    assert_null(world_check(w));
}

/* More than the first look-up table has room for. */
static void a_replay_of_many_effects_survives_without_memory(void **state)
{
    struct world *w = *state;
    running(w);
    for (int i = 0; i < 50; i++) {
        char *key = arena_alloc(&w->arena, 16);
        (void)snprintf(key, 16, "k%d", i);
        do_ok(w, begin_of(w, key, NULL));
    }
    struct replay replay = {.world = w};
    if (STARVING)
        assert_true(starve(try_to_replay, &replay) > 0);
    assert_int_equal(replay.code, ERR_OK);
    assert_null(world_check(w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(commands_of_a_workers_day_survive_without_memory),
        SCENARIO(commands_after_an_end_survive_without_memory),
        SCENARIO(effects_in_doubt_survive_without_memory),
        SCENARIO(many_effects_survive_without_memory),
        SCENARIO(steps_survive_without_memory),
        SCENARIO(plans_survive_without_memory),
        SCENARIO(cascades_survive_without_memory),
        SCENARIO(an_answer_to_a_queued_job_survives_without_memory),
        SCENARIO(effects_of_a_step_survive_without_memory),
        SCENARIO(a_plan_of_finished_steps_survives_without_memory),
        SCENARIO(a_delayed_wait_step_survives_without_memory),
        SCENARIO(the_end_of_a_plan_survives_without_memory),
        SCENARIO(the_last_lease_of_a_step_survives_without_memory),
        SCENARIO(a_repeated_failure_survives_without_memory),
        SCENARIO(a_signal_behind_another_survives_without_memory),
        SCENARIO(a_replay_survives_without_memory),
        SCENARIO(a_replay_of_many_effects_survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
