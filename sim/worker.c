/* Who works: on jobs, on steps, and as critics. In the first phase they beat or forget to, stand
 * still past their leases, fail, wait, begin effects and leave them open, and use tokens that are
 * not theirs to use. When the world is healed each brings what it holds to an end. */
#include <stdlib.h>

#include "world.h"

enum { IDLE_MAX = 20, KEY_COUNT = 3 };

static const char *const keys[KEY_COUNT] = {"alpha", "beta", "gamma"};

#define PICK(rng, list) (list)[rng_below(rng, sizeof(list) / sizeof((list)[0]))]

/* Goes on with the next one that it has. */
static void drop_lease(struct actor *actor)
{
    actor->old[actor->old_count++ % TOKENS_OLD] = actor->held.token;
    actor->held = (struct held_lease){0};
    if (actor->later_count > 0)
        actor->held = actor->later[--actor->later_count];
}

/* ---- claims ---- */

static void register_resource(struct world *world, struct actor *actor)
{
    bool able = actor->resource > 0 || world->healing;
    call_send(world, say(world, actor, VERB_resource_put,
                         "{\"id\":\"r%u.%u\",\"slots\":%d,\"ttl_ms\":4000,\"capabilities\":[%s],"
                         "\"labels\":{\"zone\":\"%s\"}}",
                         actor->resource, actor->generation, RESOURCE_SLOTS, able ? "\"gpu\"" : "",
                         actor->resource == 1 && !world->healing ? "b" : "a"));
}

static void claim(struct world *world, struct actor *actor)
{
    struct rng *rng = &actor->rng;
    char mark[MARK_BYTES];
    const char *start = world->healing || rng_chance(rng, 800) ? "true" : "false";
    int wait_ms = (world->healing || rng_chance(rng, 400)) && !actor->gathering ? 900 : 0;
    int max = rng_chance(rng, 800) ? 1 : (int)rng_between(rng, 2, CLAIMS_MAX);
    next_mark(world, mark);
    if (actor->role == ROLE_STEPPER &&
        (!actor->registered || rng_chance(rng, world->healing ? 0 : 200))) {
        register_resource(world, actor);
    } else if (actor->role == ROLE_WORKER) {
        bool able = world->healing || rng_chance(rng, 500);
        call_send(world, say(world, actor, VERB_claim,
                             "{\"worker_id\":\"%.*s/%s\",\"max\":%d,\"wait_ms\":%d,\"start\":%s,"
                             "\"capabilities\":[%s]%s}",
                             STR_ARG(actor->name), mark, max, wait_ms, start, able ? "\"gpu\"" : "",
                             rng_chance(rng, 200) ? ",\"lease_ttl_ms\":800" : ""));
    } else if (actor->role == ROLE_STEPPER) {
        call_send(world, say(world, actor, VERB_claim_steps,
                             "{\"worker_id\":\"%.*s/%s\",\"max\":%d,\"wait_ms\":%d,\"start\":%s,"
                             "\"resource_id\":\"r%u.%u\",\"lease_ttl_ms\":%d}",
                             STR_ARG(actor->name), mark, max, wait_ms, start, actor->resource,
                             actor->generation, (int)rng_between(rng, 500, 3000)));
    } else {
        call_send(world, say(world, actor, VERB_claim_steps,
                             "{\"worker_id\":\"%.*s/%s\",\"max\":%d,\"wait_ms\":%d,\"judge\":true,"
                             "\"lease_ttl_ms\":2000}",
                             STR_ARG(actor->name), mark, max, wait_ms));
    }
}

/* ---- what the holder of a lease says ---- */

/* Sends a call with a token; `words` are what it says besides. */
static void say_with(struct world *world, struct actor *actor, enum verb_name verb,
                     struct str token, const char *words)
{
    struct sim_call *call = say(world, actor, verb, "{\"token\":\"%.*s\"%s%s}", STR_ARG(token),
                                words[0] != '\0' ? "," : "", words);
    call->token = token;
    call->job = actor->held.job;
    call_send(world, call);
}

static void say_marked(struct world *world, struct actor *actor, enum verb_name verb,
                       struct str token, const char *format)
{
    char mark[MARK_BYTES];
    char words[200];
    next_mark(world, mark);
    /* The mark is the only thing that the formats below ask for. */
    const char *place = strstr(format, "@");
    int before = (int)(place - format);
    (void)snprintf(words, sizeof words, "%.*s%s%s", before, format, mark, place + 1);
    say_with(world, actor, verb, token, words);
}

/* What a begin says of its effect. Now and then it says what doubt means, and which input it is by
 * a fingerprint too, seldom a wrong one. */
static void add_call(struct buf *buf, struct rng *rng, const char *key, bool right)
{
    static const char *const doubts[] = {"fail", "retry", "ask"};
    int print = (key[0] - 'a') * 2 + 1 + (rng_chance(rng, 100) ? 1 : 0);
    buf_addf(buf, "\"key\":\"%s\",\"input\":{\"to\":\"%s\"}", key, right ? key : "elsewhere");
    if (rng_chance(rng, 300))
        buf_addf(buf, ",\"in_doubt\":\"%s\"", PICK(rng, doubts));
    if (rng_chance(rng, 300))
        buf_addf(buf, ",\"fingerprint\":\"%064d\"", print);
}

static void begin_effect(struct world *world, struct actor *actor, const char *key, bool right)
{
    const struct held_lease *held = &actor->held;
    struct buf buf;
    buf_init(&buf, &world->arena, 256);
    add_call(&buf, &actor->rng, key, right);
    struct sim_call *call = say(world, actor, VERB_effect_begin, "{\"token\":\"%.*s\",%.*s}",
                                STR_ARG(held->token), (int)buf.len, buf.at);
    call->token = held->token;
    call->job = held->job;
    call->effect = str_from(key);
    call_send(world, call);
}

/* What the holder of a lease waits for. */
static void add_wait(struct buf *buf, struct rng *rng, const char *mark)
{
    if (rng_chance(rng, 250)) {
        buf_addf(buf, "\"type\":\"timer\",\"delay_ms\":%d,\"prompt\":\"%s\"",
                 (int)rng_between(rng, 1, 3000), mark);
        return;
    }
    buf_addf(buf,
             "\"type\":\"%s\",\"correlation_key\":\"%s\",\"prompt\":\"%s\",\"timeout_ms\":%d,"
             "\"park\":%s",
             rng_chance(rng, 500) ? "human" : "signal", PICK(rng, keys), mark,
             rng_chance(rng, 500) ? 2500 : 0, rng_chance(rng, 200) ? "true" : "false");
    if (rng_chance(rng, 500))
        buf_addf(buf, ",\"choices\":[\"yes\",\"no\"],\"default_answer\":\"no\"");
}

static void wait_for(struct world *world, struct actor *actor)
{
    char mark[MARK_BYTES];
    struct buf buf;
    next_mark(world, mark);
    buf_init(&buf, &world->arena, 256);
    add_wait(&buf, &actor->rng, mark);
    buf_add_char(&buf, '\0');
    say_with(world, actor, VERB_wait, actor->held.token, buf.at);
}

/* Commits an effect and says what follows, in one: that must be there when the commit is. The end
 * of the work is found again by its mark; a wait may end at once, and is found by that of the
 * commit. */
static void commit_then(struct world *world, struct actor *actor, struct str key)
{
    struct rng *rng = &actor->rng;
    const struct held_lease *held = &actor->held;
    bool completes = rng_chance(rng, 400);
    bool waits = !completes && !str_is_set(held->step) && rng_chance(rng, 500);
    const char *next = PICK(rng, keys);
    char mark[MARK_BYTES];
    struct buf then;
    next_mark(world, mark);
    buf_init(&then, &world->arena, 512);
    buf_addf(&then, "\"result\":{\"%s\":\"%s\"},\"then\":{\"%s\":{", completes ? "of" : "by",
             completes ? "effect" : mark,
             completes ? "complete"
             : waits   ? "wait"
                       : "begin");
    if (completes)
        buf_addf(&then, "\"result\":{\"by\":\"%s\"}", mark);
    else if (waits)
        add_wait(&then, rng, "Go on?");
    else
        add_call(&then, rng, next, true);
    struct sim_call *call =
        say(world, actor, VERB_effect_commit, "{\"token\":\"%.*s\",\"key\":\"%.*s\",%.*s}}}",
            STR_ARG(held->token), STR_ARG(key), (int)then.len, then.at);
    call->token = held->token;
    call->job = held->job;
    call->effect = key;
    call->ends = completes || waits;
    call->next_effect = call->ends ? (struct str){NULL, 0} : str_from(next);
    call_send(world, call);
}

/* Commits it, or now and then says that it did not happen. */
static void end_effect(struct world *world, struct actor *actor)
{
    const struct held_lease *held = &actor->held;
    char mark[MARK_BYTES];
    next_mark(world, mark);
    struct str key = held->open[held->open_count - 1];
    bool aborts = rng_below(&actor->rng, 5) == 0;
    if (!aborts && !world->healing && rng_chance(&actor->rng, 300)) {
        commit_then(world, actor, key);
        return;
    }
    struct sim_call *call =
        say(world, actor, aborts ? VERB_effect_abort : VERB_effect_commit,
            "{\"token\":\"%.*s\",\"key\":\"%.*s\",\"%s\":{\"%s\":\"%s\"}}", STR_ARG(held->token),
            STR_ARG(key), aborts ? "error" : "result", aborts ? "message" : "by", mark);
    call->token = held->token;
    call->job = held->job;
    call->effect = key;
    call_send(world, call);
}

static void give_verdict(struct world *world, struct actor *actor, const char *decision)
{
    const struct held_lease *held = &actor->held;
    char mark[MARK_BYTES];
    next_mark(world, mark);
    struct sim_call *call =
        say(world, actor, VERB_verdict,
            "{\"id\":\"%.*s\",\"step\":\"%.*s\",\"decision\":\"%s\",\"reason\":\"%s\","
            "\"token\":\"%.*s\",\"question\":{\"prompt\":\"Go on?\",\"choices\":[\"yes\",\"no\"],"
            "\"timeout_ms\":3000,\"default_answer\":\"no\"}}",
            STR_ARG(held->job), STR_ARG(held->step), decision, mark, STR_ARG(held->token));
    call->token = held->token;
    call->job = held->job;
    call_send(world, call);
}

static void append_note(struct world *world, struct actor *actor)
{
    const struct held_lease *held = &actor->held;
    char mark[MARK_BYTES];
    next_mark(world, mark);
    struct sim_call *call = say(world, actor, VERB_append,
                                "{\"id\":\"%.*s\",\"token\":\"%.*s\",\"events\":[{\"type\":"
                                "\"work.note\",\"payload\":{\"by\":\"%s\"}}]}",
                                STR_ARG(held->job), STR_ARG(held->token), mark);
    call->token = held->token;
    call->job = held->job;
    call_send(world, call);
}

/* A token that nobody was given: the last digit of its secret is another. */
static void forge(struct world *world, struct actor *actor)
{
    struct str token = actor->held.token;
    char *text = need(arena_alloc(&world->arena, token.len));
    memcpy(text, token.at, token.len);
    text[token.len - 1] = text[token.len - 1] == '0' ? '1' : '0';
    struct str forged = {text, token.len};
    char mark[MARK_BYTES];
    next_mark(world, mark);
    struct sim_call *call =
        say(world, actor, VERB_complete, "{\"token\":\"%.*s\",\"result\":{\"by\":\"%s\"}}",
            STR_ARG(forged), mark);
    call->token = forged;
    call->forged = true;
    call->job = actor->held.job;
    call_send(world, call);
}

static void use_old_token(struct world *world, struct actor *actor)
{
    struct rng *rng = &actor->rng;
    uint32_t kept = actor->old_count < TOKENS_OLD ? actor->old_count : TOKENS_OLD;
    if (kept == 0)
        return;
    struct str token = actor->old[rng_below(rng, kept)];
    if (rng_chance(rng, 500))
        say_marked(world, actor, VERB_complete, token, "\"result\":{\"by\":\"@\"}");
    else if (rng_chance(rng, 500))
        say_marked(world, actor, VERB_fail, token, "\"error\":{\"message\":\"@\"}");
    else
        say_with(world, actor, VERB_heartbeat, token, "");
}

/* ---- acting ---- */

static void fail_somehow(struct world *world, struct actor *actor)
{
    static const char *const formats[] = {
        "\"error\":{\"message\":\"@\"}",
        "\"error\":{\"message\":\"@\"}",
        "\"error\":{\"message\":\"@\",\"class\":\"permanent\"}",
        "\"error\":{\"message\":\"@\",\"class\":\"resource\"}",
        "\"error\":{\"message\":\"@\"},\"retry_after_ms\":700",
    };
    say_marked(world, actor, VERB_fail, actor->held.token, PICK(&actor->rng, formats));
}

static void work_on_effects(struct world *world, struct actor *actor)
{
    struct rng *rng = &actor->rng;
    const struct held_lease *held = &actor->held;
    if (held->open_count > 0 && (held->open_count == KEYS_HELD || rng_chance(rng, 700)))
        end_effect(world, actor);
    else
        begin_effect(world, actor, PICK(rng, keys), rng_chance(rng, 920));
}

/* In the first phase: anything. */
static void work(struct world *world, struct actor *actor)
{
    static const char *const verdicts[] = {"accept",          "accept", "retry",
                                           "switch_resource", "replan", "needs_user"};
    struct rng *rng = &actor->rng;
    struct held_lease *held = &actor->held;
    bool of_step = str_is_set(held->step);
    uint64_t what = rng_below(rng, 100);
    if (world_strikes(world, rng, FAULT_STALL, 80)) {
        actor->wake_at = world->now + rng_between(rng, 500, 6000);
        trace(world, "%.*s stands still", STR_ARG(actor->name));
    } else if (held->judging && what < 80) {
        give_verdict(world, actor, PICK(rng, verdicts));
    } else if (held->cancel_requested && what < 60) {
        say_with(world, actor, VERB_cancelled, held->token, "");
    } else if (what < 15) {
        say_marked(world, actor, VERB_heartbeat, held->token, "\"progress\":{\"by\":\"@\"}");
    } else if (what < 20 || (!held->started && what < 60)) {
        say_with(world, actor, VERB_start, held->token, "");
    } else if (what < 45) {
        work_on_effects(world, actor);
    } else if (what < 70) {
        say_marked(world, actor, VERB_complete, held->token, "\"result\":{\"by\":\"@\"}");
    } else if (what < 78) {
        fail_somehow(world, actor);
    } else if (what < 86 && !of_step) {
        wait_for(world, actor);
    } else if (what < 86) {
        give_verdict(world, actor, PICK(rng, verdicts));
    } else if (what < 90) {
        append_note(world, actor);
    } else if (what < 93) {
        say_with(world, actor, VERB_release, held->token, "");
    } else if (what < 95 && !of_step) {
        say_marked(world, actor, VERB_abandon, held->token,
                   "\"reason_code\":\"parse_error\",\"message\":\"@\"");
    } else if (what < 97) {
        forge(world, actor);
    } else {
        use_old_token(world, actor);
    }
}

/* Its end was refused: an effect is open, perhaps one of an earlier attempt. Each is looked after,
 * then the end is tried once more, then a bad one. */
static void mend(struct world *world, struct actor *actor)
{
    struct held_lease *held = &actor->held;
    uint32_t stage = held->mended++;
    if (stage < KEY_COUNT)
        begin_effect(world, actor, keys[stage], true);
    else if (stage == KEY_COUNT)
        say_marked(world, actor, VERB_complete, held->token, "\"result\":{\"by\":\"@\"}");
    else if (stage == KEY_COUNT + 1)
        say_marked(world, actor, VERB_fail, held->token,
                   "\"error\":{\"message\":\"@\",\"class\":\"permanent\"}");
    else
        drop_lease(actor);
}

/* When the world is healed. */
static void finish(struct world *world, struct actor *actor)
{
    struct held_lease *held = &actor->held;
    if (held->cancel_requested)
        say_with(world, actor, VERB_cancelled, held->token, "");
    else if (!held->started)
        say_with(world, actor, VERB_start, held->token, "");
    else if (held->open_count > 0)
        end_effect(world, actor);
    else if (held->refused)
        mend(world, actor);
    else if (held->judging)
        give_verdict(world, actor, "accept");
    else
        say_marked(world, actor, VERB_complete, held->token, "\"result\":{\"by\":\"@\"}");
}

static bool ends_lease(const struct sim_call *call)
{
    switch (call->verb) {
    case VERB_complete:
    case VERB_fail:
    case VERB_wait:
    case VERB_release:
    case VERB_cancelled:
    case VERB_abandon:
    case VERB_verdict:
        return true;
    default:
        return call->ends;
    }
}

/* Whether what it says with its lease is said, and it can ask for the next one in the same batch.
 */
static bool has_ended_it(const struct actor *actor)
{
    return actor->gathered_count > 0 && ends_lease(actor->gathered[actor->gathered_count - 1]);
}

void worker_act(struct world *world, struct actor *actor)
{
    if (!str_is_set(actor->held.token) || has_ended_it(actor))
        claim(world, actor);
    else if (world->healing)
        finish(world, actor);
    else
        work(world, actor);
    /* A clock that is slow makes for late beats. */
    if (actor->call == NULL && actor->drift > 0)
        actor->wake_at += (actor->wake_at - world->now) * actor->drift / 1000;
}

/* ---- hearing ---- */

static struct str said_of(struct world *world, const struct sim_call *call, uint32_t claim,
                          const char *what)
{
    char path[64];
    (void)snprintf(path, sizeof path, "claims.%u.%s", claim, what);
    return said(world, call, path);
}

static void take_lease(struct world *world, struct actor *actor, const struct sim_call *call,
                       uint32_t claim)
{
    bool of_job = actor->role == ROLE_WORKER;
    struct held_lease lease = {
        .token = call->granted[claim],
        .judging = actor->role == ROLE_CRITIC,
        .job = said_of(world, call, claim, of_job ? "job.id" : "job_id"),
    };
    if (!of_job)
        lease.step = said_of(world, call, claim, "step.id");
    struct str state = said_of(world, call, claim, of_job ? "job.status" : "step.state");
    lease.started = str_eq(state, STR("running"));
    if (!str_is_set(actor->held.token))
        actor->held = lease;
    else if (actor->later_count < LEASES_MAX)
        actor->later[actor->later_count++] = lease;
}

static void hear_of_claim(struct world *world, struct actor *actor, const struct sim_call *call)
{
    if (call->granted_count == 0) {
        if (world->healing && call->verb == VERB_claim)
            ledger_check_idle(world, call);
        actor->idle++;
        actor->wake_at = world->now + rng_between(&actor->rng, 300, world->healing ? 900 : 2500);
        return;
    }
    actor->idle = 0;
    for (uint32_t i = 0; i < call->granted_count; i++)
        take_lease(world, actor, call, i);
}

static void hear_effect(struct world *world, struct actor *actor, const struct sim_call *call)
{
    struct held_lease *held = &actor->held;
    struct str status = said(world, call, "status");
    if (str_eq(status, STR("in_doubt"))) {
        drop_lease(actor);
        return;
    }
    for (uint32_t i = 0; i < held->open_count; i++)
        if (str_eq(held->open[i], call->effect))
            held->open[i] = held->open[--held->open_count];
    if (str_eq(status, STR("execute")) && held->open_count < KEYS_HELD)
        held->open[held->open_count++] =
            call->verb == VERB_effect_begin ? call->effect : call->next_effect;
}

/* Something was said with the token that it holds. */
static void hear_of_lease(struct world *world, struct actor *actor, const struct sim_call *call)
{
    struct held_lease *held = &actor->held;
    bool ok = call->outcome == CALL_OK;
    if (call->outcome == CALL_REFUSED && call->code == ERR_STALE_LEASE) {
        drop_lease(actor);
    } else if (ends_lease(call) && call->outcome != CALL_REFUSED) {
        drop_lease(actor);
    } else if (ends_lease(call)) {
        held->refused = true;
        held->cancel_requested = held->cancel_requested && call->verb != VERB_cancelled;
    } else if (ok && call->verb == VERB_start) {
        held->started = true;
    } else if (ok && call->verb == VERB_heartbeat) {
        held->cancel_requested = str_eq(said(world, call, "cancel_requested"), STR("true"));
    } else if (ok && (call->verb == VERB_effect_begin || call->verb == VERB_effect_commit ||
                      call->verb == VERB_effect_abort)) {
        hear_effect(world, actor, call);
    } else if (call->outcome == CALL_REFUSED &&
               (call->verb == VERB_effect_commit || call->verb == VERB_effect_abort)) {
        held->open_count = 0;
    }
}

void worker_told(struct world *world, struct actor *actor, const struct sim_call *call)
{
    if (call->verb == VERB_resource_put)
        actor->registered = call->outcome == CALL_OK;
    else if (verb_is_claim(call->verb) && call->outcome == CALL_OK)
        hear_of_claim(world, actor, call);
    else if (verb_is_claim(call->verb))
        actor->registered = false;
    else if (str_is_set(call->token) && str_eq(call->token, actor->held.token))
        hear_of_lease(world, actor, call);
    /* Steps go back to no resource that they were lost on: in the end there must be a new one. */
    if (world->healing && actor->idle >= IDLE_MAX && actor->role == ROLE_STEPPER) {
        actor->idle = 0;
        actor->generation++;
        actor->registered = false;
    }
}
