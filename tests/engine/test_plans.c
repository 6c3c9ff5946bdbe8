/* Plans as users see them: every move of the step machine with exactly one event, and every other
 * one refused; leases that are lost; plans that cannot be taken. On every store, through pawl.h,
 * and once more over HTTP. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/library_case.h"

enum { TTL_MS = 100, MOVES_MAX = 64, MINUTE_MS = 60 * 1000 };

/* A text as of printf, with " for every '. */
__attribute__((format(printf, 2, 3))) static const char *json(struct talk *t, const char *format,
                                                              ...)
{
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert_in_range(len, 0, (int)sizeof text - 1);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    return phrase(t, "%s", text);
}

static const char *submit_plan(struct talk *t, const char *steps)
{
    does(t, pawl_submit, "%s", json(t, "{'kind':'crew','plan':{'steps':%s}}", steps));
    return text_at(t, "id");
}

static void put_resource(struct talk *t, const char *id, const char *more)
{
    does(t, pawl_resource_put, "%s", json(t, "{'id':'%s','ttl_ms':%d%s}", id, MINUTE_MS, more));
}

/* Claims a step on a resource without waiting; "" when there is none to be had. */
static const char *try_claim(struct talk *t, const char *resource, const char *more)
{
    does(t, pawl_claim_steps, "%s",
         json(t, "{'worker_id':'w','resource_id':'%s','lease_ttl_ms':%d%s}", resource, TTL_MS,
              more));
    return text_at(t, "claims.0.lease.token");
}

static const char *claim_step(struct talk *t, const char *resource, const char *more)
{
    const char *token = try_claim(t, resource, json(t, ",'wait_ms':%d%s", PATIENCE_MS, more));
    if (*token == '\0')
        fail_msg("%s got no step: %s", resource, t->answer);
    return token;
}

static void tell(struct talk *t, pawl_verb verb, const char *token, const char *more)
{
    does(t, verb, "%s", json(t, "{'token':'%s'%s}", token, more));
}

static void complete(struct talk *t, const char *token)
{
    tell(t, pawl_complete, token, ",'result':1");
}

static const char *failure(struct talk *t, const char *class)
{
    return json(t, ",'error':{'class':'%s','message':'no'}", class);
}

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

#define BEGUN "job_created plan_generated"
#define FIRST_LEASE BEGUN " job_running step_leased"
#define FIRST_RUN FIRST_LEASE " step_running"

static const char *goes_well(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_plan(t, "[{'id':'a'},{'id':'b','deps':['a']}]");
    trace_is(t, id, BEGUN " step_waiting_deps");
    const char *token = claim_step(t, "r1", ",'start':false");
    trace_is(t, id, BEGUN " step_waiting_deps job_running step_leased");
    tell(t, pawl_start, token, "");
    trace_is(t, id, BEGUN " step_waiting_deps job_running step_leased step_running");
    complete(t, token);
    complete(t, claim_step(t, "r1", ""));
    trace_is(t, id,
             BEGUN " step_waiting_deps job_running step_leased step_running step_succeeded"
                   " step_leased step_running step_succeeded job_completed");
    return id;
}

static const char *is_lost_before_it_starts(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_plan(t, "[{'id':'a'}]");
    const char *token = claim_step(t, "r1", ",'start':false");
    pass(c, TTL_MS + 1);
    trace_becomes(t, id, FIRST_LEASE " step_lease_timeout step_pending");
    refuses(t, pawl_start, PAWL_STALE_LEASE, "%s", json(t, "{'token':'%s'}", token));
    /* It is the resource's to have again: nothing shows that it was at fault. */
    complete(t, claim_step(t, "r1", ""));
    trace_is(t, id,
             FIRST_LEASE " step_lease_timeout step_pending step_leased step_running"
                         " step_succeeded job_completed");
    return id;
}

static const char *is_lost_while_it_runs(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_plan(t, "[{'id':'a'}]");
    const char *token = claim_step(t, "r1", "");
    pass(c, TTL_MS + 1);
    trace_becomes(t, id, FIRST_RUN " step_failed_resource step_switching_resource");
    refuses(t, pawl_complete, PAWL_STALE_LEASE, "%s", json(t, "{'token':'%s'}", token));
    for (int i = 0; i < 3; i++)
        assert_string_equal(try_claim(t, "r1", ""), "");
    complete(t, claim_step(t, "r2", ""));
    trace_is(t, id,
             FIRST_RUN " step_failed_resource step_switching_resource step_leased step_running"
                       " step_succeeded job_completed");
    return id;
}

static const char *fails_and_is_tried_again(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_plan(t, "[{'id':'a'}]");
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "transient"));
    trace_is(t, id, FIRST_RUN " step_failed_retryable step_retrying");
    assert_string_equal(try_claim(t, "r1", ""), "");
    pass(c, 1000);
    complete(t, claim_step(t, "r1", ""));
    trace_is(t, id,
             FIRST_RUN " step_failed_retryable step_retrying step_running step_succeeded"
                       " job_completed");
    return id;
}

static const char *fails_for_good(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_plan(t, "[{'id':'a'}]");
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "permanent"));
    trace_is(t, id, FIRST_RUN " step_failed_fatal step_failed job_failed");
    return id;
}

static const char *asks_a_person(struct library_case *c)
{
    struct talk *t = &c->talk;
    const char *id = submit_plan(t, "[{'id':'a'}]");
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
    complete(t, token);
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
    put_resource(t, "r1", "");
    put_resource(t, "r2", "");
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
    struct stand stand = {.id = submit_plan(t, "[{'id':'a'}]")};
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
    return (struct stand){submit_plan(&c->talk, "[{'id':'a','capabilities':['none']}]"), "x"};
}

static struct stand waiting_deps(struct library_case *c)
{
    const char *steps = "[{'id':'b','capabilities':['none']},{'id':'a','deps':['b']}]";
    return (struct stand){submit_plan(&c->talk, steps), "x"};
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
    put_resource(t, "r1", ",'slots':1000,'rest':{'failures':0}");
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
    put_resource(t, "r1", ",'slots':1000,'rest':{'failures':0}");
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
    {"[{'kind':'k'}]", "steps[0]", "id is missing"},
    {"[{'id':'a'},{'id':'a'}]", "\"a\"", "used twice"},
    {"[{'id':'a','deps':['b']}]", "\"a\"", "\"b\""},
    {"[{'id':'a','deps':['a']}]", "\"a\"", "itself"},
    {"[{'id':'a','deps':['b']},{'id':'b','deps':['a']}]", "a \u2192 b \u2192 a", "cycle"},
    {"[{'id':'a'},{'id':'b','deps':['a','a']}]", "\"b\"", "twice"},
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
    {"[{'id':'a','capabilities':['x','x']}]", "\"a\"", "twice"},
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

/* ---- resources ---------------------------------------------------------------------------- */

/* A step fails for the sake of the resource that it is on. */
static void let_fail(struct talk *t, const char *resource)
{
    (void)submit_plan(t, "[{'id':'a','on_failure':'continue'}]");
    tell(t, pawl_fail, claim_step(t, resource, ""), failure(t, "resource"));
}

static void resource_says(struct talk *t, const char *id, const char *path, const char *expected)
{
    does(t, pawl_resource_get, "{\"id\":\"%s\"}", id);
    says_text(t, path, expected);
}

#define RESTS ",'slots':9,'rest':{'failures':3,'within_ms':10000,'for_ms':2000}"

static void a_resource_that_fails_often_is_rested_for_a_while(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", RESTS);
    put_resource(t, "r2", ",'slots':9");
    for (int i = 0; i < 3; i++) {
        resource_says(t, "r1", "failures", phrase(t, "%d", i));
        resource_says(t, "r1", "rested_until", "");
        let_fail(t, "r1");
        complete(t, claim_step(t, "r2", ""));
    }
    resource_says(t, "r1", "rests", "1");
    resource_says(t, "r1", "rested_until", "2026-01-01T00:00:02.000Z");
    (void)submit_plan(t, "[{'id':'a'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    /* To renew is not to recover. */
    put_resource(t, "r1", RESTS);
    assert_string_equal(try_claim(t, "r1", ""), "");
    pass(c, 2000);
    /* One more soon after that, and it is rested twice as long. */
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "resource"));
    resource_says(t, "r1", "rested_until", "2026-01-01T00:00:06.000Z");
    complete(t, claim_step(t, "r2", ""));
    pass(c, 4000);
    (void)submit_plan(t, "[{'id':'a'}]");
    complete(t, claim_step(t, "r1", ""));
    /* Having stood for a while it is as good as new. */
    pass(c, 4900);
    put_resource(t, "r1", RESTS);
    put_resource(t, "r2", ",'slots':9");
    pass(c, 4900);
    pass(c, 300);
    let_fail(t, "r1");
    resource_says(t, "r1", "failures", "1");
    complete(t, claim_step(t, "r2", ""));
}

static void a_claim_that_waits_gets_its_step_when_the_rest_is_over(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", ",'rest':{'failures':1,'for_ms':300}");
    let_fail(t, "r1");
    (void)submit_plan(t, "[{'id':'a'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    complete(t, claim_step(t, "r1", ""));
}

static void a_lease_that_is_lost_counts_against_its_resource(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", ",'rest':{'failures':1,'for_ms':60000}");
    const char *id = submit_plan(t, "[{'id':'a'}]");
    (void)claim_step(t, "r1", "");
    pass(c, TTL_MS + 1);
    trace_becomes(t, id, FIRST_RUN " step_failed_resource step_switching_resource");
    (void)submit_plan(t, "[{'id':'a'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    resource_says(t, "r1", "rests", "1");
}

static void what_a_step_gets_wrong_by_itself_rests_nobody(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", ",'rest':{'failures':1}");
    (void)submit_plan(t, "[{'id':'a','retry':{'initial_ms':0}}]");
    for (int i = 0; i < 3; i++)
        tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "transient"));
    tell(t, pawl_fail, claim_step(t, "r1", ""), failure(t, "permanent"));
    resource_says(t, "r1", "failures", "0");
    resource_says(t, "r1", "rests", "0");
    refuses(t, pawl_resource_put, PAWL_BAD_REQUEST, "%s",
            json(t, "{'id':'r1','rest':{'failures':-1}}"));
    put_resource(t, "r1", ",'rest':{'failures':0}");
    for (int i = 0; i < 9; i++)
        let_fail(t, "r1");
    resource_says(t, "r1", "rests", "0");
}

/* Which labels a selector takes: {"zone":"a","gpu":""}. */
static const struct {
    const char *selector;
    bool takes;
} selectors[] = {
    {"zone=a", true},
    {"zone==a", true},
    {"zone=b", false},
    {"zone!=a", false},
    {"zone!=b", true},
    {"disk!=ssd", true},
    {"zone in (a,b)", true},
    {"zone in (b,c)", false},
    {"disk in (ssd)", false},
    {"zone notin (b)", true},
    {"zone notin (a,b)", false},
    {"disk notin (ssd)", true},
    {"gpu", true},
    {"disk", false},
    {"!disk", true},
    {"!gpu", false},
    {"gpu=", true},
    {"zone=a,gpu,!disk", true},
    {"zone=a,disk", false},
    {"", true},
};

static void a_step_goes_only_where_its_selector_lets_it(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", ",'slots':99,'labels':{'zone':'a','gpu':''}");
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        const char *id =
            submit_plan(t, json(t, "[{'id':'a','selector':'%s'}]", selectors[i].selector));
        const char *token = try_claim(t, "r1", "");
        if ((*token != '\0') != selectors[i].takes)
            fail_msg("\"%s\" is wrong: %s", selectors[i].selector, t->answer);
        does(t, pawl_cancel, "%s", json(t, "{'id':'%s','mode':'hard'}", id));
    }
}

static void a_step_fits_by_capabilities_slots_and_the_avoid_list(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", ",'slots':2,'capabilities':['net']");
    put_resource(t, "r2", ",'slots':2,'capabilities':['net','gpu']");
    (void)submit_plan(t, "[{'id':'a','capabilities':['gpu','net']}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    (void)claim_step(t, "r2", "");
    (void)submit_plan(t, "[{'id':'a','avoid':['r2']},{'id':'b','avoid':['r2']},{'id':'c'}]");
    (void)claim_step(t, "r2", "");
    says_text(t, "claims.0.step.id", "c");
    assert_string_equal(try_claim(t, "r2", ""), "");
    does(t, pawl_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"max\":9}");
    says_text(t, "claims.1.step.id", "b");
    resource_says(t, "r1", "used", "2");
    (void)submit_plan(t, "[{'id':'d'}]");
    assert_string_equal(try_claim(t, "r1", ""), "");
    refuses(t, pawl_claim_steps, PAWL_NOT_FOUND, "{\"worker_id\":\"w\",\"resource_id\":\"r9\"}");
}

static void a_resource_that_drains_keeps_what_it_has_and_gets_no_more(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    put_resource(t, "r1", ",'slots':5");
    (void)submit_plan(t, "[{'id':'a'},{'id':'b'}]");
    const char *token = claim_step(t, "r1", "");
    put_resource(t, "r1", ",'slots':5,'draining':true");
    assert_string_equal(try_claim(t, "r1", ""), "");
    complete(t, token);
    put_resource(t, "r1", ",'slots':5");
    complete(t, claim_step(t, "r1", ""));
}

static void a_resource_that_does_not_renew_is_lost_with_its_steps(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"ttl_ms\":3000}");
    put_resource(t, "r2", "");
    const char *id = submit_plan(t, "[{'id':'a'}]");
    does(t, pawl_claim_steps,
         "{\"worker_id\":\"w\",\"resource_id\":\"r1\",\"lease_ttl_ms\":60000}");
    const char *token = text_at(t, "claims.0.lease.token");
    pass(c, 2000);
    does(t, pawl_resource_put, "{\"id\":\"r1\",\"ttl_ms\":3000}");
    pass(c, 2000);
    tell(t, pawl_heartbeat, token, "");
    pass(c, 1001);
    trace_becomes(t, id, FIRST_RUN " step_failed_resource step_switching_resource");
    refuses(t, pawl_heartbeat, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_resource_get, PAWL_NOT_FOUND, "{\"id\":\"r1\"}");
    put_resource(t, "r1", "");
    assert_string_equal(try_claim(t, "r1", ""), "");
    complete(t, claim_step(t, "r2", ""));
    assert_string_equal(status_of(t, id), "completed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(every_move_of_a_step_is_one_event),
        ON_EVERY_STORE(every_other_move_is_refused_and_changes_nothing),
        ON_EVERY_STORE(a_step_that_is_not_to_be_had_is_given_to_nobody),
        ON_EVERY_STORE(a_plan_that_cannot_be_is_refused_with_step_and_reason),
        ON_EVERY_STORE(a_plan_of_more_steps_than_there_may_be_is_refused),
        ON_EVERY_STORE(a_resource_that_fails_often_is_rested_for_a_while),
        ON_EVERY_STORE_TICKING(a_claim_that_waits_gets_its_step_when_the_rest_is_over),
        ON_EVERY_STORE(a_lease_that_is_lost_counts_against_its_resource),
        ON_EVERY_STORE(what_a_step_gets_wrong_by_itself_rests_nobody),
        ON_EVERY_STORE(a_step_goes_only_where_its_selector_lets_it),
        ON_EVERY_STORE(a_step_fits_by_capabilities_slots_and_the_avoid_list),
        ON_EVERY_STORE(a_resource_that_drains_keeps_what_it_has_and_gets_no_more),
        ON_EVERY_STORE(a_resource_that_does_not_renew_is_lost_with_its_steps),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
