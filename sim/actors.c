/* Who submits, answers, signals, operates and looks. Each does one thing at a time and waits for
 * what comes of it. What they know of jobs they take from the ledger, as if they had been told. */
#include <stdlib.h>

#include "base/json.h"
#include "pawl.h"
#include "world.h"

enum {
    STREAM_ACTORS = 1000,
    STREAM_LUCK = 2000,
    PLAN_STEPS_MAX = 5,
    HEALING_MS = 200, /* between two things that one does then */
    PARCEL_PER_MILLE = 120,
    LOOKS = 5,
};

static const char *const keys[] = {"alpha", "beta", "gamma"};
static const char *const queues[] = {"q1", "q2"};

#define PICK(rng, list) (list)[rng_below(rng, sizeof(list) / sizeof((list)[0]))]

/* ---- what they share ---- */

struct str said(struct world *world, const struct sim_call *call, const char *path)
{
    struct pawl_json found =
        pawl_json_get((struct pawl_json){call->answer.at, call->answer.len}, path);
    struct str raw = {found.at, found.len};
    struct str text;
    if (!str_is_set(raw) || json_type(raw) != JSON_STRING)
        return raw;
    return json_string(raw, &world->arena, &text) ? text : (struct str){NULL, 0};
}

static const struct recorded_job *random_job(struct world *world, struct rng *rng)
{
    const struct ledger *ledger = &world->ledger;
    return ledger->job_count == 0 ? NULL : &ledger->jobs[rng_below(rng, ledger->job_count)];
}

static struct sim_call *about(struct sim_call *call, const struct recorded_job *job)
{
    call->job = job->text;
    return call;
}

/* ---- producers ---- */

static void add_step(struct buf *buf, struct rng *rng, uint32_t number)
{
    bool waits = rng_chance(rng, 150);
    bool first = true;
    buf_addf(buf, "%s{\"id\":\"s%u\",\"deps\":[", number > 0 ? "," : "", number);
    for (uint32_t dep = 0; dep < number; dep++)
        if (rng_chance(rng, 350)) {
            buf_addf(buf, "%s\"s%u\"", first ? "" : ",", dep);
            first = false;
        }
    buf_addf(buf, "],\"retry\":{\"max_attempts\":%d,\"initial_ms\":50}",
             (int)rng_between(rng, 1, 3));
    if (waits && rng_chance(rng, 500))
        buf_addf(buf, ",\"wait\":{\"type\":\"timer\",\"delay_ms\":700}");
    else if (waits)
        buf_addf(buf,
                 ",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"%s\","
                 "\"timeout_ms\":4000}",
                 PICK(rng, keys));
    if (!waits && rng_chance(rng, 250))
        buf_addf(buf, ",\"critic\":true");
    if (!waits && rng_chance(rng, 150))
        buf_addf(buf, ",\"timeout_ms\":2500");
    if (!waits && rng_chance(rng, 150))
        buf_addf(buf, ",\"avoid\":[\"r1.0\"]");
    if (!waits && rng_chance(rng, 100))
        buf_addf(buf, ",\"selector\":\"zone in (a), !old\"");
    if (!waits && rng_chance(rng, 100))
        buf_addf(buf, ",\"capabilities\":[\"gpu\"]");
    if (rng_chance(rng, 400))
        buf_addf(buf, ",\"on_failure\":\"continue\"");
    buf_add_char(buf, '}');
}

struct str random_plan(struct world *world, struct rng *rng)
{
    struct buf buf;
    uint32_t count = (uint32_t)rng_between(rng, 1, PLAN_STEPS_MAX);
    buf_init(&buf, &world->arena, 512);
    buf_add_char(&buf, '[');
    for (uint32_t i = 0; i < count; i++)
        add_step(&buf, rng, i);
    buf_add_char(&buf, ']');
    return buf_str(&buf);
}

/* A key, with the fingerprint that goes with it or now and then another one. Payloads are marked,
 * so that without a fingerprint no two submissions would be the same. */
static void random_key(struct rng *rng, struct buf *buf)
{
    int key = (int)rng_below(rng, 4);
    int fingerprint = rng_chance(rng, 800) ? key : key + 4;
    buf_addf(buf, ",\"idempotency_key\":\"key-%d\",\"fingerprint\":\"%064d\"", key,
             fingerprint + 1);
}

/* Everything about a job but its payload. */
static struct str random_terms(struct world *world, struct rng *rng)
{
    static const char *const kinds[] = {"task", "flow", "brief"};
    static const char *const doubts[] = {"fail", "retry", "ask"};
    struct buf buf;
    buf_init(&buf, &world->arena, 512);
    buf_addf(&buf, "\"kind\":\"%s\",\"queue\":\"%s\",\"in_doubt\":\"%s\",\"lease_ttl_ms\":%d",
             PICK(rng, kinds), PICK(rng, queues), PICK(rng, doubts),
             (int)rng_between(rng, 500, 4000));
    buf_addf(&buf,
             ",\"retry\":{\"max_attempts\":%d,\"initial_ms\":%d,\"max_ms\":1000,"
             "\"on_exhausted\":\"%s\",\"on_permanent\":\"%s\"}",
             (int)rng_between(rng, 1, 4), (int)rng_between(rng, 0, 400),
             rng_chance(rng, 500) ? "fail" : "dead_letter",
             rng_chance(rng, 700) ? "fail" : "dead_letter");
    if (rng_chance(rng, 40)) /* seldom more than half of the lease, and then refused */
        buf_addf(&buf, ",\"heartbeat_ms\":%d", (int)rng_between(rng, 100, 600));
    if (rng_chance(rng, 250))
        buf_addf(&buf, ",\"delay_ms\":%d", (int)rng_between(rng, 1, 5000));
    if (rng_chance(rng, 150))
        buf_addf(&buf, ",\"timeout_ms\":%d", (int)rng_between(rng, 1000, 6000));
    if (rng_chance(rng, 100))
        buf_addf(&buf, ",\"expires_ms\":%d", (int)rng_between(rng, 5001, 20000));
    if (rng_chance(rng, 100))
        buf_addf(&buf, ",\"deadline_ms\":%d", (int)rng_between(rng, 5001, 30000));
    if (rng_chance(rng, 100))
        buf_addf(&buf, ",\"capabilities\":[\"gpu\"]");
    if (rng_chance(rng, 200))
        buf_addf(&buf, ",\"priority\":%d", (int)rng_between(rng, -5, 5));
    if (rng_chance(rng, 200))
        buf_addf(&buf, ",\"correlation_id\":\"order-7\"");
    if (rng_chance(rng, 150))
        random_key(rng, &buf);
    return buf_str(&buf);
}

static void producer_act(struct world *world, struct actor *actor)
{
    struct rng *rng = &actor->rng;
    char mark[MARK_BYTES];
    next_mark(world, mark);
    struct str terms = random_terms(world, rng);
    struct str plan = rng_chance(rng, 400) ? random_plan(world, rng) : (struct str){NULL, 0};
    struct sim_call *call =
        str_is_set(plan) ? say(world, actor, VERB_submit,
                               "{%.*s,\"payload\":{\"by\":\"%s\"},\"plan\":{\"steps\":%.*s}}",
                               (int)terms.len, terms.at, mark, (int)plan.len, plan.at)
                         : say(world, actor, VERB_submit, "{%.*s,\"payload\":{\"by\":\"%s\"}}",
                               (int)terms.len, terms.at, mark);
    call_send(world, call);
}

/* ---- people ---- */

/* A job that waits for somebody, or a step of it. */
struct asking {
    const struct recorded_job *job;
    struct wait wait;
    struct str step; /* absent: the job itself */
    bool by_signal;
};

/* A step of the job that asks, if one does. */
static bool find_asking_step(struct world *world, struct store_txn *txn, struct rng *rng,
                             struct asking *ret)
{
    struct store_parts parts = {.job = ret->job->id, .all_steps = true};
    if (store_load_parts(txn, &parts, 1, &world->arena, NULL) != ERR_OK)
        return false;
    uint32_t first = (uint32_t)rng_below(rng, parts.step_count + (uint64_t)1);
    for (uint32_t i = 0; i < parts.step_count; i++) {
        const struct step *step = &parts.steps[(first + i) % parts.step_count];
        if (step_standing(step) != STANDING_ASKING || step->question.type == WAIT_TIMER)
            continue;
        ret->wait = step->question;
        ret->step = step->spec.id;
        ret->by_signal = str_is_set(step->spec.wait);
        return true;
    }
    return false;
}

static bool find_asking(struct world *world, const struct recorded_job *job, struct rng *rng,
                        struct asking *ret)
{
    struct store_job row = {.id = job->id};
    struct store_load load = {.jobs = &row, .job_count = 1};
    struct store_txn *txn;
    bool found = false;
    if (world->store == NULL || store_begin(world->store, STORE_READ, &txn, NULL) != ERR_OK)
        return false;
    if (store_load(txn, &load, &world->arena, NULL) == ERR_OK) {
        const struct wait *wait = &row.slice.job.wait;
        *ret = (struct asking){.job = job, .wait = *wait, .by_signal = true};
        found = wait->type != WAIT_NONE && wait->type != WAIT_STEPS && wait->type != WAIT_TIMER;
        if (!found && row.slice.job.steps[STANDING_ASKING] > 0)
            found = find_asking_step(world, txn, rng, ret);
    }
    store_rollback(txn);
    return found;
}

/* Whether it is worth a look. */
static bool may_ask(const struct recorded_job *job)
{
    return job->status == JOB_WAITING || job->status == JOB_PARKED ||
           (job->asked && !job_status_terminal(job->status));
}

/* Looks through all jobs, from any of them on. */
static bool look_around(struct world *world, struct rng *rng, struct asking *ret)
{
    const struct ledger *ledger = &world->ledger;
    uint32_t first = (uint32_t)rng_below(rng, ledger->job_count + (uint64_t)1);
    for (uint32_t i = 0; i < ledger->job_count; i++) {
        const struct recorded_job *job = &ledger->jobs[(first + i) % ledger->job_count];
        if (may_ask(job) && find_asking(world, job, rng, ret))
            return true;
    }
    return false;
}

static struct sim_call *answer(struct world *world, struct actor *actor,
                               const struct asking *asking)
{
    static const char *const words[] = {"\"yes\"", "\"no\"", "\"perhaps\""};
    static const char *const resolutions[] = {"\"retry\"", "\"fail\"",
                                              "{\"decision\":\"done\",\"result\":7}"};
    static const char *const words_in_doubt[] = {"\"retry\"", "\"fail\"", "\"done\"",
                                                 "\"done\",\"result\":7"};
    struct rng *rng = &actor->rng;
    struct str id = asking->job->text;
    struct str key = asking->wait.correlation_key;
    bool doubt = str_is_set(asking->wait.effect);
    char mark[MARK_BYTES];
    next_mark(world, mark);
    if (asking->wait.type == WAIT_REPLAN) {
        struct str plan = random_plan(world, rng);
        return say(world, actor, VERB_plan, "{\"id\":\"%.*s\",\"reason\":\"%s\",\"steps\":%.*s}",
                   STR_ARG(id), mark, (int)plan.len, plan.at);
    }
    if (!asking->by_signal)
        return say(world, actor, VERB_answer,
                   "{\"id\":\"%.*s\",\"step\":\"%.*s\",\"answer\":%s,\"by\":\"%s\"}", STR_ARG(id),
                   STR_ARG(asking->step), doubt ? PICK(rng, words_in_doubt) : PICK(rng, words),
                   mark);
    bool asks = !str_is_set(asking->step) && asking->wait.type == WAIT_HUMAN;
    if (asks && rng_chance(rng, 600))
        return say(world, actor, VERB_answer_job,
                   "{\"id\":\"%.*s\",\"answer\":%s,\"by\":\"%s\",\"comment\":\"%s\"}", STR_ARG(id),
                   doubt ? PICK(rng, words_in_doubt) : PICK(rng, words), mark, mark);
    if (doubt)
        return say(world, actor, VERB_signal,
                   "{\"id\":\"%.*s\",\"correlation_key\":\"%.*s\",\"payload\":%s,"
                   "\"signal_id\":\"%s\"}",
                   STR_ARG(id), STR_ARG(key), PICK(rng, resolutions), mark);
    if (str_is_set(asking->wait.choices))
        return say(world, actor, VERB_signal,
                   "{\"id\":\"%.*s\",\"correlation_key\":\"%.*s\",\"payload\":%s,"
                   "\"signal_id\":\"%s\"}",
                   STR_ARG(id), STR_ARG(key), PICK(rng, words), mark);
    return say(world, actor, VERB_signal,
               "{\"id\":\"%.*s\",\"correlation_key\":\"%.*s\",\"payload\":\"%s\","
               "\"signal_id\":\"%s\"}",
               STR_ARG(id), STR_ARG(key), mark, mark);
}

static void person_act(struct world *world, struct actor *actor)
{
    struct asking asking;
    if (look_around(world, &actor->rng, &asking))
        call_send(world, about(answer(world, actor, &asking), asking.job));
}

/* One that has not ended, if a few looks find one: what has ended takes no signal. */
static const struct recorded_job *random_live_job(struct world *world, struct rng *rng)
{
    const struct recorded_job *job = random_job(world, rng);
    for (int i = 0; i < LOOKS && job != NULL && job_status_terminal(job->status); i++)
        job = random_job(world, rng);
    return job;
}

/* One of the choices of many waits, under a mark of its own, for the key that most wait for. */
static void signal_choice(struct world *world, struct actor *actor, struct str job)
{
    char mark[MARK_BYTES];
    next_mark(world, mark);
    struct sim_call *call =
        say(world, actor, VERB_signal,
            "{\"id\":\"%.*s\",\"correlation_key\":\"%s\",\"payload\":\"%s\","
            "\"signal_id\":\"%s\",\"early\":true}",
            STR_ARG(job), keys[0], rng_chance(&actor->rng, 500) ? "yes" : "no", mark);
    call->job = job;
    call_send(world, call);
}

static void signaller_act(struct world *world, struct actor *actor)
{
    struct rng *rng = &actor->rng;
    const struct recorded_job *job =
        rng_chance(rng, 800) ? random_live_job(world, rng) : random_job(world, rng);
    char mark[MARK_BYTES];
    next_mark(world, mark);
    if (job == NULL)
        return;
    /* After one that is no choice, one that is: it must not be hidden. */
    if (str_is_set(actor->asked) && rng_chance(rng, 500)) {
        signal_choice(world, actor, actor->asked);
        actor->asked = (struct str){NULL, 0};
        return;
    }
    actor->asked = job->text;
    bool again = rng_chance(rng, 300);
    struct sim_call *call =
        again ? say(world, actor, VERB_signal,
                    "{\"id\":\"%.*s\",\"correlation_key\":\"%s\",\"payload\":\"again\","
                    "\"signal_id\":\"id-%d\",\"early\":%s}",
                    STR_ARG(job->text), PICK(rng, keys), (int)rng_below(rng, 3),
                    rng_chance(rng, 500) ? "true" : "false")
              : say(world, actor, VERB_signal,
                    "{\"id\":\"%.*s\",\"correlation_key\":\"%s\",\"payload\":\"%s\",\"early\":%s}",
                    STR_ARG(job->text), rng_chance(rng, 500) ? keys[0] : PICK(rng, keys), mark,
                    rng_chance(rng, 500) ? "true" : "false");
    call_send(world, about(call, job));
}

/* ---- operators ---- */

/* Anyone who was asked to end may be made to, soon after. */
static struct sim_call *cancel(struct world *world, struct actor *actor, struct str job,
                               const char *mode)
{
    char mark[MARK_BYTES];
    next_mark(world, mark);
    actor->asked = mode[0] == 's' ? job : (struct str){NULL, 0};
    struct sim_call *call =
        say(world, actor, VERB_cancel, "{\"id\":\"%.*s\",\"mode\":\"%s\",\"reason\":\"%s\"}",
            STR_ARG(job), mode, mark);
    call->job = job;
    return call;
}

static struct sim_call *operate_on_job(struct world *world, struct actor *actor,
                                       const struct recorded_job *job)
{
    struct rng *rng = &actor->rng;
    char mark[MARK_BYTES];
    next_mark(world, mark);
    uint64_t what = rng_below(rng, 100);
    if (what < 20)
        return cancel(world, actor, job->text, rng_chance(rng, 300) ? "hard" : "soft");
    if (what < 28)
        return say(world, actor, VERB_run_now, "{\"id\":\"%.*s\",\"reason\":\"%s\"}",
                   STR_ARG(job->text), mark);
    if (what < 55)
        return say(world, actor, VERB_requeue, "{\"id\":\"%.*s\",\"reason\":\"%s\",\"fresh\":%s}",
                   STR_ARG(job->text), mark, rng_chance(rng, 300) ? "true" : "false");
    if (what < 65)
        return say(world, actor, VERB_dead_letter,
                   "{\"id\":\"%.*s\",\"reason_code\":\"policy_violation\",\"message\":\"%s\"}",
                   STR_ARG(job->text), mark);
    if (what < 73)
        return say(world, actor, VERB_redact, "{\"id\":\"%.*s\"}", STR_ARG(job->text));
    if (what < 90) {
        int64_t expected = job->version - (rng_chance(rng, 400) ? 1 : 0);
        struct sim_call *call =
            say(world, actor, VERB_append,
                "{\"id\":\"%.*s\",\"expected_version\":%lld,\"events\":[{\"type\":"
                "\"desk.note\",\"payload\":{\"by\":\"%s\"}}]}",
                STR_ARG(job->text), (long long)expected, mark);
        call->expected_version = expected;
        return call;
    }
    struct str plan = random_plan(world, rng);
    return say(world, actor, VERB_plan, "{\"id\":\"%.*s\",\"reason\":\"%s\",\"steps\":%.*s}",
               STR_ARG(job->text), mark, (int)plan.len, plan.at);
}

static void operator_act(struct world *world, struct actor *actor)
{
    static const char *const verdicts[] = {"accept", "retry", "switch_resource", "replan",
                                           "needs_user"};
    struct rng *rng = &actor->rng;
    const struct recorded_job *job = random_job(world, rng);
    uint64_t what = rng_below(rng, 100);
    char mark[MARK_BYTES];
    next_mark(world, mark);
    if (str_is_set(actor->asked) && rng_chance(rng, 400))
        call_send(world, cancel(world, actor, actor->asked, "hard"));
    else if (what < 12)
        call_send(world, say(world, actor, rng_chance(rng, 350) ? VERB_pause : VERB_resume,
                             "{\"queue\":\"%s\"}", PICK(rng, queues)));
    else if (what < 15)
        call_send(world, say(world, actor, VERB_resource_delete, "{\"id\":\"r%d.0\"}",
                             (int)rng_below(rng, 4)));
    else if (what < 25 && job != NULL)
        call_send(world,
                  about(say(world, actor, VERB_verdict,
                            "{\"id\":\"%.*s\",\"step\":\"s%d\",\"decision\":\"%s\",\"reason\":"
                            "\"%s\",\"question\":{\"prompt\":\"Go on?\"}}",
                            STR_ARG(job->text), (int)rng_below(rng, 3), PICK(rng, verdicts), mark),
                        job));
    else if (job != NULL)
        call_send(world, about(operate_on_job(world, actor, job), job));
}

static void reader_act(struct world *world, struct actor *actor)
{
    static const enum verb_name verbs[] = {VERB_get,     VERB_get,   VERB_get,   VERB_events,
                                           VERB_explain, VERB_steps, VERB_verify};
    const struct recorded_job *job = random_job(world, &actor->rng);
    if (job != NULL)
        call_send(world, about(say(world, actor, PICK(&actor->rng, verbs), "{\"id\":\"%.*s\"}",
                                   STR_ARG(job->text)),
                               job));
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    uint32_t count;
    void (*act)(struct world *world, struct actor *actor);
    bool heals; /* has something to do when nobody begins anything new */
    int64_t pause_ms_max;
} roles[] = {
#define SIM_ROLE(symbol, name, count, act, heals, pause) {name, count, act, heals, pause},
#include "role.def"
#undef SIM_ROLE
};

void actors_make(struct world *world)
{
    uint64_t seed = world->scenario->seed;
    for (int role = 0; role < ROLE_COUNT; role++)
        for (uint32_t i = 0; i < roles[role].count; i++) {
            uint32_t number = world->actor_count++;
            struct actor *actor = &world->actors[number];
            char name[32];
            int len = snprintf(name, sizeof name, "%s-%u", roles[role].name, i + 1);
            *actor = (struct actor){
                .number = number,
                .role = (enum role)role,
                .name = arena_copy(&world->arena, (struct str){name, (size_t)len}),
                .absent = (world->scenario->actors & UINT32_C(1) << number) == 0,
                .rng = rng_new(seed, STREAM_ACTORS + number),
                .luck = rng_new(seed, STREAM_LUCK + number),
                .resource = i,
            };
            if (world_strikes(world, &actor->luck, FAULT_DRIFT, 400))
                actor->drift = rng_between(&actor->luck, -300, 900);
            actor->wake_at = rng_between(&actor->luck, 0, 500);
        }
}

/* How many things it does: more than one goes as a batch, in which nobody can look at anything. */
static uint32_t times_at_once(const struct world *world, struct actor *actor)
{
    if (world->healing || actor->role == ROLE_READER || world->commands_left < PARCEL_MAX ||
        !rng_chance(&actor->rng, PARCEL_PER_MILLE))
        return 1;
    return (uint32_t)rng_between(&actor->rng, 2, PARCEL_MAX);
}

void actor_turn(struct world *world, struct actor *actor)
{
    if (actor->call != NULL) {
        call_times_out(world, actor->call);
        return;
    }
    bool acts = !actor->absent && (!world->healing || roles[actor->role].heals);
    int64_t pause_ms =
        world->healing ? HEALING_MS : rng_between(&actor->rng, 1, roles[actor->role].pause_ms_max);
    actor->wake_at = acts ? world->now + pause_ms : NEVER;
    if (!acts)
        return;
    uint32_t times = times_at_once(world, actor);
    actor->gathering = times > 1;
    for (uint32_t i = 0; i < times; i++)
        roles[actor->role].act(world, actor);
    actor->gathering = false;
    parcel_send(world, actor);
}

void actor_told(struct world *world, struct actor *actor, const struct sim_call *call)
{
    int64_t pause_ms =
        world->healing ? HEALING_MS : rng_between(&actor->rng, 1, roles[actor->role].pause_ms_max);
    actor->wake_at = world->now + pause_ms;
    if (actor->role == ROLE_WORKER || actor->role == ROLE_STEPPER || actor->role == ROLE_CRITIC)
        worker_told(world, actor, call);
}
