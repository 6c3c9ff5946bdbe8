/* Parts of a job: steps, effects and signals, just those that are asked for. */
#include "store/conformance.h"

/* Ordinals, keys of effects and versions of signals that were loaded: "steps 0 2 effects a signals
 * 3". */
static const char *parts_of(struct trial *t, struct store_parts *parts)
{
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &(struct store_load){0}, &t->w.arena, &t->w.err));
    ok(t, store_load_parts(txn, parts, 1, &t->w.arena, &t->w.err));
    rollback(t, txn);
    struct buf buf;
    buf_init(&buf, &t->w.arena, 64);
    for (uint32_t i = 0; i < parts->step_count; i++)
        buf_addf(&buf, " %u", parts->steps[i].ordinal);
    for (uint32_t i = 0; i < parts->effect_count; i++)
        buf_addf(&buf, " %.*s%s%.*s", STR_ARG(parts->effects[i].step),
                 str_is_set(parts->effects[i].step) ? "/" : "", STR_ARG(parts->effects[i].key));
    for (uint32_t i = 0; i < parts->signal_count; i++)
        buf_addf(&buf, " v%lld", (long long)parts->signals[i].version);
    buf_add_char(&buf, '\0');
    assert_false(buf.failed);
    return buf.len > 1 ? buf.at + 1 : "";
}

#define DIAMOND                                                                                    \
    "[{'id':'top'},{'id':'left','deps':['top']},{'id':'right','deps':['top']},"                    \
    "{'id':'end','deps':['left','right']},{'id':'apart'}]"

static void all_steps_come_by_ordinal(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", DIAMOND);
    struct store_parts parts = {.job = id, .all_steps = true};
    assert_string_equal(parts_of(t, &parts), "0 1 2 3 4");
    assert_text(parts.steps[3].spec.id, "end");
    assert_int_equal(parts.steps[3].open_deps, 2);
    assert_int_equal(parts.steps[0].child_count, 2);
    assert_int_equal(parts.steps[0].children[1], 2);
}

static void a_job_without_parts_has_none(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct store_parts parts = {
        .job = id, .all_steps = true, .all_effects = true, .all_signals = true};
    assert_string_equal(parts_of(t, &parts), "");
    parts = (struct store_parts){.job = id};
    assert_string_equal(parts_of(t, &parts), "");
}

static void a_step_comes_with_its_children_unless_they_are_not_wanted(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", DIAMOND);
    uint32_t ordinals[] = {0};
    struct store_parts parts = {.job = id, .ordinals = ordinals, .ordinal_count = 1};
    assert_string_equal(parts_of(t, &parts), "0 1 2");
    parts.no_children = true;
    assert_string_equal(parts_of(t, &parts), "0");
    struct str ids[] = {STR("left"), STR("nobody")};
    parts = (struct store_parts){.job = id, .step_ids = ids, .step_id_count = 2};
    assert_string_equal(parts_of(t, &parts), "1 3");
    parts.no_children = true;
    assert_string_equal(parts_of(t, &parts), "1");
}

static void steps_named_in_several_ways_come_once(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", DIAMOND);
    uint32_t ordinals[] = {3, 1, 99};
    struct str ids[] = {STR("right"), STR("left")};
    struct store_parts parts = {
        .job = id, .ordinals = ordinals, .ordinal_count = 3, .step_ids = ids, .step_id_count = 2};
    assert_string_equal(parts_of(t, &parts), "1 2 3");
}

static void a_step_is_found_by_the_key_that_it_asks_for(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z','deps':['y']}]");
    act(t, id, step_claim_of(&t->w, "y", "r1", true));
    struct command ask = with_token(verdict_on(NULL, VERDICT_NEEDS_USER), t->w.token);
    ask.actor = STR("w1");
    act(t, id, ask);
    struct str keys[] = {STR("y")};
    struct store_parts parts = {.job = id, .asking_keys = keys, .asking_key_count = 1};
    assert_string_equal(parts_of(t, &parts), "1 2");
    parts.no_children = true;
    assert_string_equal(parts_of(t, &parts), "1");
    assert_text(parts.steps[0].question.prompt, "Really?");
    /* Once it is answered it does not ask any more. */
    act(t, id, answer_of(&t->w, "y", "1"));
    assert_string_equal(parts_of(t, &parts), "");
}

static void beats_of_a_step_show_in_the_step(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'}]");
    act(t, id, step_claim_of(&t->w, "x", "r1", true));
    advance(t, 5);
    struct command beat = by_worker(&t->w, COMMAND_HEARTBEAT);
    beat.heartbeat.cursor = STR("half");
    beat.heartbeat.progress = js(&t->w, "0.5");
    act(t, id, beat);
    struct store_parts parts = {.job = id, .all_steps = true};
    assert_string_equal(parts_of(t, &parts), "0");
    assert_text(parts.steps[0].cursor, "half");
    assert_text(parts.steps[0].progress, "0.5");
    assert_true(parts.steps[0].lease.beat_at == at(5));
    assert_text(parts.steps[0].lease.resource_id, "r1");
}

/* Effects "one" and "two" of the job, of which "one" has returned. */
static struct uuid with_effects(struct trial *t)
{
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    act(t, id, begin_of(&t->w, "one", "1"));
    act(t, id, begin_of(&t->w, "two", "2"));
    act(t, id, commit_of(&t->w, "one", "{'r':1}"));
    return id;
}

static void effects_come_all_or_by_name(void **state)
{
    struct trial *t = *state;
    struct uuid id = with_effects(t);
    struct store_parts parts = {.job = id, .all_effects = true};
    assert_string_equal(parts_of(t, &parts), "one two");
    assert_true(parts.effects[0].returned && !parts.effects[1].returned);
    assert_str(parts.effects[0].result, js(&t->w, "{'r':1}"));
    assert_str(parts.effects[0].name, STR("one"));
    struct str names[] = {STR("two"), STR("three"), STR("two ")};
    parts = (struct store_parts){.job = id, .effect_names = names, .effect_name_count = 3};
    assert_string_equal(parts_of(t, &parts), "two");
}

static void open_effects_come_by_their_step_or_all_together(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    act(t, id, step_claim_of(&t->w, "x", "r1", true));
    act(t, id, begin_of(&t->w, "one", "1"));
    act(t, id, begin_of(&t->w, "two", "1"));
    act(t, id, commit_of(&t->w, "one", NULL));
    act(t, id, step_claim_of(&t->w, "y", "r1", true));
    act(t, id, begin_of(&t->w, "one", "1"));
    struct store_parts parts = {.job = id, .all_open_effects = true};
    assert_string_equal(parts_of(t, &parts), "x/two y/one");
    struct str of[] = {STR("y"), STR("z")};
    parts = (struct store_parts){.job = id, .open_of = of, .open_of_count = 2};
    assert_string_equal(parts_of(t, &parts), "y/one");
    of[0] = absent;
    assert_string_equal(parts_of(t, &parts), "");
    struct str names[] = {effect_name(STR("x"), STR("one"), &t->w.arena)};
    parts = (struct store_parts){.job = id, .effect_names = names, .effect_name_count = 1};
    assert_string_equal(parts_of(t, &parts), "x/one");
    parts.all_open_effects = true;
    assert_string_equal(parts_of(t, &parts), "x/one x/two y/one");
}

/* For those who only read: everybody else has what is ahead of the database. */
static const char *read_parts_of(struct trial *t, struct store_parts *parts)
{
    struct store_txn *txn;
    struct buf text;
    buf_init(&text, &t->w.arena, 64);
    ok(t, store_begin(t->store, STORE_READ, &txn, &t->w.err));
    ok(t, store_load_parts(txn, parts, 1, &t->w.arena, &t->w.err));
    store_rollback(txn);
    for (uint32_t i = 0; i < parts->effect_count; i++)
        buf_addf(&text, "%s%.*s", i > 0 ? " " : "", STR_ARG(parts->effects[i].key));
    buf_add_char(&text, '\0');
    return text.at;
}

static void effects_of_one_owner_come_page_by_page(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    act(t, id, claim_by("w1", true));
    static const char *const keys[] = {"d", "a", "c", "b", "e"};
    for (size_t i = 0; i < 5; i++)
        act(t, id, begin_of(&t->w, keys[i], "1"));
    act(t, id, commit_of(&t->w, "d", NULL));
    act(t, id, abort_of(&t->w, "c", "{'message':'429'}"));
    struct store_parts parts = {.job = id, .effects_of = {.wanted = true, .max = 3}};
    assert_string_equal(read_parts_of(t, &parts), "d a c");
    assert_true(parts.effects[0].returned && parts.effects[2].aborted);
    assert_text(json_member(parts.effects[2].error, STR("message")), "\"429\"");
    parts.effects_of.after = parts.effects[2].version;
    assert_string_equal(read_parts_of(t, &parts), "b e");
    parts.effects_of.after = parts.effects[1].version;
    assert_string_equal(read_parts_of(t, &parts), "");
    parts.effects_of = (struct store_effects){.wanted = true, .step = STR("d"), .max = 9};
    assert_string_equal(read_parts_of(t, &parts), "");
}

static void effects_of_a_step_are_not_those_of_its_neighbours(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'x '},{'id':'x\\u00e9'}]");
    static const char *const steps[] = {"x", "x ", "x\xc3\xa9"};
    for (size_t i = 0; i < 3; i++) {
        act(t, id, step_claim_of(&t->w, steps[i], "r1", true));
        act(t, id, begin_of(&t->w, numbered(&t->w, "two", (int)i), "1"));
        act(t, id, begin_of(&t->w, numbered(&t->w, "one", (int)i), "1"));
    }
    for (size_t i = 0; i < 3; i++) {
        struct store_parts parts = {
            .job = id, .effects_of = {.wanted = true, .step = str_from(steps[i]), .max = 9}};
        char expected[32];
        (void)snprintf(expected, sizeof expected, "two%zu one%zu", i, i);
        assert_string_equal(read_parts_of(t, &parts), expected);
    }
    struct store_parts own = {.job = id, .effects_of = {.wanted = true, .max = 9}};
    assert_string_equal(read_parts_of(t, &own), "");
}

static void an_aborted_effect_is_not_among_the_open(void **state)
{
    struct trial *t = *state;
    struct uuid id = with_effects(t);
    act(t, id, abort_of(&t->w, "two", "{'message':'429'}"));
    struct store_parts parts = {.job = id, .all_open_effects = true};
    assert_string_equal(parts_of(t, &parts), "");
    act(t, id, begin_of(&t->w, "two", "2"));
    parts = (struct store_parts){.job = id, .all_open_effects = true};
    assert_string_equal(parts_of(t, &parts), "two");
}

static void open_effects_of_the_job_itself_have_no_step(void **state)
{
    struct trial *t = *state;
    struct uuid id = with_effects(t);
    struct str of[] = {absent};
    struct store_parts parts = {.job = id, .open_of = of, .open_of_count = 1};
    assert_string_equal(parts_of(t, &parts), "two");
    act(t, id, commit_of(&t->w, "two", NULL));
    assert_string_equal(parts_of(t, &parts), "");
}

static void an_effect_begun_again_after_a_fresh_start_takes_the_place_of_the_old(void **state)
{
    struct trial *t = *state;
    struct uuid id = with_effects(t);
    act(t, id, fail_as(&t->w, CLASS_PERMANENT));
    act(t, id, requeue_by("again", true));
    act(t, id, claim_by("w1", true));
    act(t, id, begin_of(&t->w, "one", "3"));
    struct store_parts parts = {.job = id, .all_effects = true};
    assert_string_equal(parts_of(t, &parts), "two one");
    assert_false(parts.effects[1].returned);
}

static void send(struct trial *t, struct uuid id, const char *key, const char *signal_id)
{
    struct command command = signal_of(&t->w, key, "{'n':1}");
    command.signal.signal_id = str_from(signal_id);
    command.signal.early = true;
    act(t, id, command);
}

static void the_newest_and_the_oldest_stored_signal_of_a_key_come(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a"); /* version 1 */
    send(t, id, "k", "one");         /* 2 */
    send(t, id, "k", "two");         /* 3 */
    send(t, id, "other", "three");   /* 4 */
    send(t, id, "k", "four");        /* 5 */
    struct str keys[] = {STR("k")};
    struct store_parts parts = {.job = id, .signal_keys = keys, .signal_key_count = 1};
    assert_string_equal(parts_of(t, &parts), "v2 v5");
    /* A wait takes the oldest. */
    act(t, id, claim_by("w1", true));
    act(t, id, wait_for(&t->w, "k", 0));
    assert_string_equal(parts_of(t, &parts), "v3 v5");
    assert_false(parts.signals[0].delivered);
    keys[0] = STR("other");
    assert_string_equal(parts_of(t, &parts), "v4");
    keys[0] = STR("l");
    assert_string_equal(parts_of(t, &parts), "");
}

static void all_stored_signals_come_by_version_whatever_their_key(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a"); /* version 1 */
    send(t, id, "z", "one");         /* 2 */
    send(t, id, "k", "two");         /* 3 */
    send(t, id, "k", "three");       /* 4 */
    send(t, id, "a", NULL);          /* 5 */
    struct store_parts parts = {.job = id, .stored_signals = true};
    assert_string_equal(parts_of(t, &parts), "v2 v3 v4 v5");
    act(t, id, claim_by("w1", true));
    act(t, id, wait_for(&t->w, "k", 0));
    assert_string_equal(parts_of(t, &parts), "v2 v4 v5");
    assert_text(parts.signals[1].correlation_key, "k");
    assert_str(parts.signals[1].payload, js(&t->w, "{'n':1}"));
    struct str keys[] = {STR("k")};
    parts.signal_keys = keys;
    parts.signal_key_count = 1;
    assert_string_equal(parts_of(t, &parts), "v2 v4 v5"); /* each once */
}

static void the_newest_signal_comes_also_when_all_are_delivered(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    send(t, id, "k", "one");
    act(t, id, claim_by("w1", true));
    act(t, id, wait_for(&t->w, "k", 0));
    struct str keys[] = {STR("k")};
    struct store_parts parts = {.job = id, .signal_keys = keys, .signal_key_count = 1};
    assert_string_equal(parts_of(t, &parts), "v2");
    assert_true(parts.signals[0].delivered);
}

static void signals_come_by_their_id_and_all_by_version(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    send(t, id, "k", "one");
    send(t, id, "k", "two");
    send(t, id, "l", NULL);
    struct str ids[] = {STR("two"), STR("three")};
    struct store_parts parts = {.job = id, .signal_ids = ids, .signal_id_count = 2};
    assert_string_equal(parts_of(t, &parts), "v3");
    assert_text(parts.signals[0].signal_id, "two");
    assert_text(parts.signals[0].correlation_key, "k");
    assert_str(parts.signals[0].payload, js(&t->w, "{'n':1}"));
    struct str keys[] = {STR("k")};
    parts.signal_keys = keys;
    parts.signal_key_count = 1;
    assert_string_equal(parts_of(t, &parts), "v2 v3");
    parts = (struct store_parts){.job = id, .all_signals = true};
    assert_string_equal(parts_of(t, &parts), "v2 v3 v4");
    assert_text(parts.signals[2].signal_id, NULL);
}

static void parts_of_several_jobs_come_in_one_call_and_do_not_mix(void **state)
{
    struct trial *t = *state;
    struct uuid a = submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    struct uuid b = submit_plan(t, "b", "[{'id':'x'}]");
    struct uuid c = submit(t, "c");
    send(t, c, "k", "one");
    struct store_parts parts[] = {
        {.job = a, .all_steps = true, .all_signals = true},
        {.job = b, .all_steps = true, .all_effects = true},
        {.job = c, .all_steps = true, .all_signals = true},
        {.job = new_id(t), .all_steps = true, .all_signals = true, .all_effects = true},
    };
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_load_parts(txn, parts, 4, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(parts[0].step_count, 2);
    assert_int_equal(parts[0].signal_count, 0);
    assert_int_equal(parts[1].step_count, 1);
    assert_int_equal(parts[2].step_count, 0);
    assert_int_equal(parts[2].signal_count, 1);
    assert_int_equal(parts[3].step_count + parts[3].signal_count + parts[3].effect_count, 0);
}

static void a_plan_of_a_thousand_steps_comes_back(void **state)
{
    struct trial *t = *state;
    struct buf plan;
    buf_init(&plan, &t->w.arena, 64 * 1024);
    buf_add(&plan, STR("[{'id':'s0'}"));
    for (int i = 1; i < 1000; i++)
        buf_addf(&plan, ",{'id':'s%d','deps':['s%d']}", i, i / 2);
    buf_add(&plan, (struct str){"]", 2});
    struct uuid id = submit_plan(t, "a", plan.at);
    struct store_parts parts = {.job = id, .all_steps = true};
    parts_of(t, &parts);
    assert_int_equal(parts.step_count, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(parts.steps[i].ordinal, i);
}

struct conformance_tests conformance_parts(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(all_steps_come_by_ordinal),
        TRIAL(a_job_without_parts_has_none),
        TRIAL(a_step_comes_with_its_children_unless_they_are_not_wanted),
        TRIAL(steps_named_in_several_ways_come_once),
        TRIAL(a_step_is_found_by_the_key_that_it_asks_for),
        TRIAL(beats_of_a_step_show_in_the_step),
        TRIAL(effects_come_all_or_by_name),
        TRIAL(open_effects_come_by_their_step_or_all_together),
        TRIAL(effects_of_one_owner_come_page_by_page),
        TRIAL(effects_of_a_step_are_not_those_of_its_neighbours),
        TRIAL(an_aborted_effect_is_not_among_the_open),
        TRIAL(open_effects_of_the_job_itself_have_no_step),
        TRIAL(an_effect_begun_again_after_a_fresh_start_takes_the_place_of_the_old),
        TRIAL(the_newest_and_the_oldest_stored_signal_of_a_key_come),
        TRIAL(the_newest_signal_comes_also_when_all_are_delivered),
        TRIAL(all_stored_signals_come_by_version_whatever_their_key),
        TRIAL(signals_come_by_their_id_and_all_by_version),
        TRIAL(parts_of_several_jobs_come_in_one_call_and_do_not_mix),
        TRIAL(a_plan_of_a_thousand_steps_comes_back),
    };
    return TRIALS(tests);
}
