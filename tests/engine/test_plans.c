/* The machine of steps as users see it: every move with exactly one event, and every other one
 * refused; leases that are lost; plans that cannot be taken. On every store, through pawl.h, and
 * once more over HTTP. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan_case.h"

enum { MOVES_MAX = 64 };

/* ---- every move of the machine ------------------------------------------------------------ */

/* Moves of steps, as "from to". */
struct moves {
    char at[MOVES_MAX][64];
    int count;
};

static bool moves_have(const struct moves *moves, const char *move)
{
    for (int i = 0; i < moves->count; i++)
        if (strcmp(moves->at[i], move) == 0)
            return true;
    return false;
}

static void moves_add(struct moves *moves, const char *from, const char *to)
{
    char move[64];
    (void)snprintf(move, sizeof move, "%s %s", from, to);
    if (moves_have(moves, move))
        return;
    assert_in_range(moves->count, 0, MOVES_MAX - 1);
    memcpy(moves->at[moves->count++], move, sizeof move);
}

/* What the machine allows, from the library itself; the docs and the seed have the same. */
static struct moves legal_moves(void)
{
    struct moves legal = {.count = 0};
    char *text = NULL;
    char *rest = NULL;
    assert_int_equal(pawl_machine(PAWL_MACHINE_STEP, PAWL_FORMAT_TSV, &text), PAWL_OK);
    for (char *from = strtok_r(text, "\t", &rest); from != NULL;
         from = strtok_r(NULL, "\t", &rest)) {
        const char *to = strtok_r(NULL, "\n", &rest);
        assert_non_null(to);
        moves_add(&legal, from, to);
    }
    pawl_free(text);
    return legal;
}

/* Adds the moves that the history of every step of a job shows. An event that enters no state, such
 * as a result that is held, is no move. */
static void add_history(struct talk *t, const char *id, const struct moves *legal,
                        struct moves *moves)
{
    does(t, pawl_steps, "{\"id\":\"%s\"}", id);
    struct pawl_json steps = pawl_json_get(pawl_json_read(t->answer), "steps");
    struct pawl_json step = {0};
    while (pawl_json_next(steps, &step, NULL)) {
        struct pawl_json history = pawl_json_get(step, "history");
        struct pawl_json moment = {0};
        char state[32] = "pending";
        while (pawl_json_next(history, &moment, NULL)) {
            char *type = pawl_json_text(pawl_json_get(moment, "type"));
            bool moves_it = strncmp(type, "step_", 5) == 0 && strcmp(type, "step_finished") != 0 &&
                            strcmp(type, "step_judging") != 0;
            if (moves_it) {
                moves_add(moves, state, type + 5);
                (void)snprintf(state, sizeof state, "%s", type + 5);
            }
            pawl_free(type);
        }
        if (!pawl_json_is(pawl_json_get(step, "state"), state))
            fail_msg("a step is not where its history leads, %s: %s", state, t->answer);
    }
    for (int i = 0; i < moves->count; i++)
        if (!moves_have(legal, moves->at[i]))
            fail_msg("a step has moved from %s", moves->at[i]);
}

static const char *goes_well(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_steps(t, "[{'id':'a'},{'id':'b','deps':['a']}]");
    trace_is(t, id, BEGUN " step_waiting_deps");
    const char *token = claim_step(t, "r1", ",'start':false");
    trace_is(t, id, BEGUN " step_waiting_deps job_running step_leased");
    tell(t, pawl_start, token, "");
    trace_is(t, id, BEGUN " step_waiting_deps job_running step_leased step_running");
    complete_step(t, token);
    complete_step(t, claim_step(t, "r1", ""));
    trace_is(t, id,
             BEGUN " step_waiting_deps job_running step_leased step_running step_succeeded"
                   " step_leased step_running step_succeeded job_completed");
    return id;
}

static const char *is_lost_before_it_starts(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_steps(t, "[{'id':'a'}]");
    const char *token = claim_step(t, "r1", ",'start':false");
    pass(c, STEP_TTL_MS + 1);
    trace_becomes(t, id, FIRST_LEASE " step_lease_timeout step_pending");
    refuses(t, pawl_start, PAWL_STALE_LEASE, "%s", json(t, "{'token':'%s'}", token));
    /* It is the resource's to have again: nothing shows that it was at fault. */
    complete_step(t, claim_step(t, "r1", ""));
    trace_is(t, id,
             FIRST_LEASE " step_lease_timeout step_pending step_leased step_running"
                         " step_succeeded job_completed");
    return id;
}

static const char *is_lost_while_it_runs(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_steps(t, "[{'id':'a'}]");
    const char *token = claim_step(t, "r1", "");
    pass(c, STEP_TTL_MS + 1);
    trace_becomes(t, id, FIRST_RUN " step_failed_resource step_switching_resource");
    refuses(t, pawl_complete, PAWL_STALE_LEASE, "%s", json(t, "{'token':'%s'}", token));
    for (int i = 0; i < 3; i++)
        assert_string_equal(try_claim(t, "r1", ""), "");
    complete_step(t, claim_step(t, "r2", ""));
    trace_is(t, id,
             FIRST_RUN " step_failed_resource step_switching_resource step_leased step_running"
                       " step_succeeded job_completed");
    return id;
}

static const char *fails_and_is_tried_again(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_steps(t, "[{'id':'a'}]");
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "transient"));
    trace_is(t, id, FIRST_RUN " step_failed_retryable step_retrying");
    assert_string_equal(try_claim(t, "r1", ""), "");
    pass(c, 1000);
    complete_step(t, claim_step(t, "r1", ""));
    trace_is(t, id,
             FIRST_RUN " step_failed_retryable step_retrying step_running step_succeeded"
                       " job_completed");
    return id;
}

static const char *fails_for_good(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_steps(t, "[{'id':'a'}]");
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "permanent"));
    trace_is(t, id, FIRST_RUN " step_failed_fatal step_failed job_failed");
    return id;
}

static const char *asks_a_person(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_steps(t, "[{'id':'a'}]");
    const char *token = claim_step(t, "r1", "");
    does(t, pawl_verdict, "%s",
         json(t,
              "{'id':'%s','step':'a','token':'%s','decision':'needs_user',"
              "'question':{'prompt':'go?','choices':['yes','no']}}",
              id, token));
    trace_is(t, id, FIRST_RUN " step_needs_user job_waiting");
    does(t, pawl_answer, "%s", json(t, "{'id':'%s','step':'a','answer':'yes','by':'ann'}", id));
    trace_is(t, id, FIRST_RUN " step_needs_user job_waiting signal_received wait_completed");
    token = claim_step(t, "r1", "");
    says_text(t, "claims.0.answer", "yes");
    complete_step(t, token);
    trace_is(t, id,
             FIRST_RUN " step_needs_user job_waiting signal_received wait_completed job_running"
                       " step_running step_succeeded job_completed");
    return id;
}

static void every_move_of_a_step_is_one_event(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    static const char *(*const lives[])(struct library_case * c) = {
        goes_well,
        is_lost_before_it_starts,
        is_lost_while_it_runs,
        fails_and_is_tried_again,
        fails_for_good,
        asks_a_person,
    };
    struct moves legal = legal_moves();
    struct moves seen = {.count = 0};
    have_resource(t, "r1", "");
    have_resource(t, "r2", "");
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
        const char *id = lives[i](c);
        add_history(t, id, &legal, &seen);
        does(t, pawl_verify, "{\"id\":\"%s\"}", id);
        says_text(t, "ok", "true");
    }
    assert_int_equal(legal.count, 17);
    for (int i = 0; i < legal.count; i++)
        if (!moves_have(&seen, legal.at[i]))
            fail_msg("no step has moved from %s", legal.at[i]);
}

/* ---- and no other ------------------------------------------------------------------------- */

/* A job whose step "a" is in a state, and the last token that was given out for it. */
struct stand {
    const char *id;
    const char *token;
};

static struct stand leased(struct library_case *c)
{
    struct talk *t = &c->talk;
    struct stand stand = {.id = submit_steps(t, "[{'id':'a'}]")};
    stand.token = claim_step(t, "r1", ",'start':false");
    return stand;
}

static struct stand running(struct library_case *c)
{
    struct stand stand = leased(c);
    tell(&c->talk, pawl_start, stand.token, "");
    return stand;
}

static struct stand pending(struct library_case *c)
{
    return (struct stand){submit_steps(&c->talk, "[{'id':'a','capabilities':['none']}]"), "x"};
}

static struct stand waiting_deps(struct library_case *c)
{
    const char *steps = "[{'id':'b','capabilities':['none']},{'id':'a','deps':['b']}]";
    return (struct stand){submit_steps(&c->talk, steps), "x"};
}

static struct stand retrying(struct library_case *c)
{
    struct stand stand = running(c);
    tell(&c->talk, pawl_fail, stand.token, failure(&c->talk, "transient"));
    return stand;
}

static struct stand switching(struct library_case *c)
{
    struct stand stand = running(c);
    tell(&c->talk, pawl_fail, stand.token, failure(&c->talk, "resource"));
    return stand;
}

static struct stand failed(struct library_case *c)
{
    struct stand stand = running(c);
    tell(&c->talk, pawl_fail, stand.token, failure(&c->talk, "permanent"));
    return stand;
}

static struct stand succeeded(struct library_case *c)
{
    struct stand stand = running(c);
    tell(&c->talk, pawl_complete, stand.token, "");
    return stand;
}

static struct stand asking(struct library_case *c)
{
    struct talk *t = &c->talk;
    struct stand stand = running(c);
    does(t, pawl_verdict, "%s",
         json(t,
              "{'id':'%s','step':'a','token':'%s','decision':'needs_user',"
              "'question':{'prompt':'go?'}}",
              stand.id, stand.token));
    return stand;
}

/* What can be said about a step, and where it leads from which state; nothing: it is refused. */
struct word {
    pawl_verb verb;
    const char *more;
    bool by_step; /* it names job and step, as an operator does */
    const char *from_leased;
    const char *from_running;
    const char *from_asking;
};

#define VERDICT(decision, to)                                                                      \
    {                                                                                              \
        pawl_verdict, ",'decision':'" decision "','question':{'prompt':'?'}", true, NULL, to, NULL \
    }

static const struct word words[] = {
    {pawl_start, "", false, "running", "running", NULL},
    {pawl_complete, ",'result':2", false, NULL, "succeeded", NULL},
    {pawl_fail, ",'error':{'message':'x'}", false, "retrying", "retrying", NULL},
    {pawl_fail, ",'error':{'class':'timeout','message':'x'}", false, "retrying", "retrying", NULL},
    {pawl_fail, ",'error':{'class':'resource','message':'x'}", false, "switching_resource",
     "switching_resource", NULL},
    {pawl_fail, ",'error':{'class':'permanent','message':'x'}", false, "failed", "failed", NULL},
    {pawl_fail, ",'error':{'class':'validation','message':'x'}", false, "failed", "failed", NULL},
    {pawl_release, "", false, "pending", "retrying", NULL},
    {pawl_heartbeat, ",'progress':0.5", false, "leased", "running", NULL},
    {pawl_cancelled, "", false, NULL, NULL, NULL},
    {pawl_answer, ",'answer':1", true, NULL, NULL, "needs_user"},
    VERDICT("accept", "succeeded"),
    VERDICT("retry", "retrying"),
    VERDICT("switch_resource", "switching_resource"),
    VERDICT("replan", "failed"),
    VERDICT("needs_user", "needs_user"),
};

static const struct {
    const char *state;
    struct stand (*make)(struct library_case *c);
} stands[] = {
    {"pending", pending},   {"waiting_deps", waiting_deps}, {"leased", leased},
    {"running", running},   {"retrying", retrying},         {"switching_resource", switching},
    {"needs_user", asking}, {"succeeded", succeeded},       {"failed", failed},
};

static long long version_of(struct talk *t, const char *id)
{
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    return int_at(t, "version");
}

/* The state of step "a", which is the last of its plan. */
static const char *state_of(struct talk *t, const char *id)
{
    does(t, pawl_steps, "{\"id\":\"%s\"}", id);
    const char *second = text_at(t, "steps.1.state");
    return *second != '\0' ? second : text_at(t, "steps.0.state");
}

static const char *leads_to(const struct word *word, const char *state)
{
    return strcmp(state, "leased") == 0       ? word->from_leased
           : strcmp(state, "running") == 0    ? word->from_running
           : strcmp(state, "needs_user") == 0 ? word->from_asking
                                              : NULL;
}

static void hears(struct library_case *c, size_t place, const struct word *word, bool with_token)
{
    struct talk *t = &c->talk;
    const char *state = stands[place].state;
    struct stand stand = stands[place].make(c);
    const char *to = leads_to(word, state);
    assert_string_equal(state_of(t, stand.id), state);
    long long before = version_of(t, stand.id);
    const char *named = word->by_step ? json(t, "'id':'%s','step':'a'", stand.id) : "";
    const char *token =
        with_token ? json(t, "%s'token':'%s'", *named != '\0' ? "," : "", stand.token) : "";
    enum pawl_code code =
        attempt(t, word->verb, "%s", json(t, "{%s%s%s}", named, token, word->more));
    /* Whoever has asked may say so again, when the answer was lost. */
    bool again =
        with_token && strcmp(state, "needs_user") == 0 && strstr(word->more, "needs_user") != NULL;
    if (to == NULL) {
        if (code != (again ? PAWL_OK : PAWL_STALE_LEASE) && code != PAWL_INVALID_TRANSITION)
            fail_msg("word %d in %s: \"%s\"", (int)(word - words), state,
                     code == PAWL_OK ? t->answer : t->error.message);
        assert_int_equal(version_of(t, stand.id), before);
        to = state;
    } else if (code != PAWL_OK) {
        fail_msg("word %d in %s: \"%s\"", (int)(word - words), state, t->error.message);
    }
    assert_string_equal(state_of(t, stand.id), to);
    struct moves moves = {.count = 0};
    struct moves legal = legal_moves();
    add_history(t, stand.id, &legal, &moves);
    /* The next claim is to find its own step. */
    (void)attempt(t, pawl_cancel, "%s", json(t, "{'id':'%s','mode':'hard'}", stand.id));
}

static void every_other_move_is_refused_and_changes_nothing(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':1000,'rest':{'failures':0}");
    for (size_t i = 0; i < sizeof stands / sizeof stands[0]; i++)
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            bool verdict = words[k].verb == pawl_verdict;
            if (words[k].verb != pawl_answer)
                hears(c, i, &words[k], true);
            if (verdict || words[k].verb == pawl_answer)
                hears(c, i, &words[k], false);
        }
}

/* Nobody else's claim, a critic's neither, moves a step that is held, done or not due. */
static void a_step_that_is_not_to_be_had_is_given_to_nobody(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    have_resource(t, "r1", ",'slots':1000,'rest':{'failures':0}");
    for (size_t i = 0; i < sizeof stands / sizeof stands[0]; i++) {
        struct stand stand = stands[i].make(c);
        long long before = version_of(t, stand.id);
        assert_string_equal(try_claim(t, "r1", ""), "");
        does(t, pawl_claim_steps, "{\"worker_id\":\"critic\",\"judge\":true}");
        says_text(t, "claims", "[]");
        assert_int_equal(version_of(t, stand.id), before);
    }
}

/* ---- plans that cannot be taken ----------------------------------------------------------- */

static const struct {
    const char *steps;
    const char *names;  /* the step, or where it stands */
    const char *reason; /* part of the message */
} bad_plans[] = {
    {"[]", "plan", "at least one step"},
    {"[{'kind':'k'}]", "steps[0]", "id is required"},
    {"[{'id':'a'},{'id':'a'}]", "\"a\"", "duplicate step id"},
    {"[{'id':'a','deps':['b']}]", "\"a\"", "\"b\""},
    {"[{'id':'a','deps':['a']}]", "\"a\"", "itself"},
    {"[{'id':'a','deps':['b']},{'id':'b','deps':['a']}]", "a \u2192 b \u2192 a", "cycle"},
    {"[{'id':'a'},{'id':'b','deps':['a','a']}]", "\"b\"", "duplicate"},
    {"[{'id':'a','selector':'x===1'}]", "\"a\"", "selector"},
    {"[{'id':'a','selector':'x in (1,2'}]", "\"a\"", "selector"},
    {"[{'id':'a','selector':'x notin ()'}]", "\"a\"", "selector"},
    {"[{'id':'a','selector':'!'}]", "\"a\"", "selector"},
    {"[{'id':'a','selector':'a=1,,b=2'}]", "\"a\"", "selector"},
    {"[{'id':'a','selector':'a=b c'}]", "\"a\"", "selector"},
    {"[{'id':'a','retry':{'max_attempts':0}}]", "\"a\"", "max_attempts"},
    {"[{'id':'a','retry':{'strategy':'never'}}]", "\"a\"", "strategy"},
    {"[{'id':'a','timeout_ms':0}]", "\"a\"", "timeout_ms"},
    {"[{'id':'a','on_failure':'shrug'}]", "\"a\"", "on_failure"},
    {"[{'id':'a','colour':'red'}]", "\"a\"", "colour"},
    {"[{'id':'a','capabilities':['x','x']}]", "\"a\"", "duplicate"},
    {"[{'id':'a','avoid':[1]}]", "\"a\"", "avoid"},
    {"[{'id':'a','wait':{'type':'timer'}}]", "\"a\"", "delay_ms"},
    {"[{'id':'a','wait':{'type':'signal'}}]", "\"a\"", "correlation_key"},
    {"[{'id':'a','wait':{'type':'human'},'critic':true}]", "\"a\"", "critic"},
    {"[{'id':'a','wait':{'type':'human','choices':[]}}]", "\"a\"", "choices"},
};

static void refuses_plan(struct talk *t, pawl_verb verb, const char *request, size_t i)
{
    if (attempt(t, verb, "%s", request) != PAWL_UNPROCESSABLE_PLAN)
        fail_msg("%s: \"%s\"", bad_plans[i].steps,
                 t->code == PAWL_OK ? t->answer : t->error.message);
    if (strstr(t->error.message, bad_plans[i].names) == NULL ||
        strstr(t->error.message, bad_plans[i].reason) == NULL)
        fail_msg("%s: \"%s\" names neither %s nor %s", bad_plans[i].steps, t->error.message,
                 bad_plans[i].names, bad_plans[i].reason);
}

static void a_plan_that_cannot_be_is_refused_with_step_and_reason(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    for (size_t i = 0; i < sizeof bad_plans / sizeof bad_plans[0]; i++) {
        const char *steps = bad_plans[i].steps;
        refuses_plan(t, pawl_submit, json(t, "{'kind':'crew','plan':{'steps':%s}}", steps), i);
        refuses_plan(t, pawl_plan, json(t, "{'id':'%s','steps':%s}", id, steps), i);
    }
    does(t, pawl_list, "{\"limit\":500}");
    says_text(t, "jobs.0.id", id);
    says_text(t, "jobs.1.id", "");
    assert_int_equal(version_of(t, id), 1);
}

static void a_plan_of_more_steps_than_there_may_be_is_refused(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    enum { STEPS = 10001, STEP_BYTES = 16 };
    char *steps = malloc((size_t)STEPS * STEP_BYTES + 64);
    assert_non_null(steps);
    int len = snprintf(steps, 64, "{\"kind\":\"crew\",\"plan\":{\"steps\":[");
    for (int i = 0; i < STEPS; i++)
        len += snprintf(steps + len, STEP_BYTES, "%s{\"id\":\"%d\"}", i > 0 ? "," : "", i);
    (void)snprintf(steps + len, 8, "]}}");
    refuses(t, pawl_submit, PAWL_UNPROCESSABLE_PLAN, "%s", steps);
    assert_non_null(strstr(t->error.message, "10000"));
    free(steps);
    does(t, pawl_list, "{}");
    says_text(t, "jobs", "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(every_move_of_a_step_is_one_event),
        ON_EVERY_STORE(every_other_move_is_refused_and_changes_nothing),
        ON_EVERY_STORE(a_step_that_is_not_to_be_had_is_given_to_nobody),
        ON_EVERY_STORE(a_plan_that_cannot_be_is_refused_with_step_and_reason),
        ON_EVERY_STORE(a_plan_of_more_steps_than_there_may_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
