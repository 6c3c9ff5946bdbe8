/* Every interleaving of two servers' operations on the same jobs, on PostgreSQL: claim, heartbeat,
 * expire, complete and cancel, each cut into the verbs of its transaction.
 *
 * Each schedule begins with a job J that w1 holds and runs, and a queued job Q. Afterwards both
 * streams verify (so every write was under the lease that was live then, and every transition has
 * one event), what the sessions were told agrees with the streams, and all of that and where the
 * jobs stand in the tables is what one of the orders without interleaving gives too. TORTURE=1 adds
 * three servers: every interleaving, or of each three acts that have more than a few thousand,
 * those that come first and as many at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/verify.h"
#include "players.h"
#include "stepping.h"
#include "test_stores.h"

enum act {
    ACT_CLAIM,
    ACT_HEARTBEAT,
    ACT_EXPIRE,
    ACT_COMPLETE,
    ACT_CANCEL,        /* J, hard */
    ACT_CANCEL_SOFTLY, /* J */
    ACT_CANCEL_QUEUED, /* Q */
    ACT_BOTH,          /* a heartbeat for J, and Q is cancelled, in one batch */
    ACT_COUNT,
};

static const char *const act_names[ACT_COUNT] = {
    "claim", "heartbeat", "expire", "complete", "cancel", "cancel_softly", "cancel_queued", "both",
};

/* When each act happens, after the start: J's lease ends at 30 s, or at 40 s after the heartbeat.
 * The clock of who expires is ahead of the worker's. */
static const int64_t act_at_ms[ACT_COUNT] = {36000, 10000, 35000, 10000,
                                             10000, 10000, 10000, 10000};

#define START_MS INT64_C(1767225600000)

/* The jobs are of two kinds, so that a claim can be kept from one of them. */
enum { OFFER_J = 1, OFFER_Q = 2, OFFERS = 4 };

enum {
    SCHEDULE_MS = 60 * 60 * 1000, /* from the start of one schedule to that of the next */
    LEASE_ENDS_MS = 30 * 1000,
    STEPS_MAX = 64,
    ORDERS = 6, /* of three sessions; the first two are those of two */
    OUTCOMES_MAX = 512,
    TRIPLE_SCHEDULES_MAX = 1200, /* of three sessions, for each choice of acts */
};

static const char *session_name(uint32_t number)
{
    return number == 0 ? "s0" : number == 1 ? "s1" : "s2";
}

/* A choice between sessions, and what was chosen. */
struct branch {
    uint32_t ready[SESSIONS_MAX];
    uint32_t count;
    uint32_t taken;
};

struct path {
    struct branch at[STEPS_MAX];
    uint32_t depth;
};

struct world {
    struct test_stores stores;
    struct player player; /* sets up and looks after */
    int64_t clock;
    struct stepping stepping;
    enum act acts[SESSIONS_MAX];
    uint32_t count;   /* sessions that take part */
    int64_t start;    /* of this schedule */
    struct uuid j, q; /* its jobs */
    bool q_first;     /* which of them is locked first by who wants both */
    char token[256];
    uint32_t offers[SESSIONS_MAX];     /* what claims may find: OFFER_J, OFFER_Q */
    struct str outcomes[OUTCOMES_MAX]; /* of one session after the other */
    uint32_t outcome_count;
    bool has_passed_over;    /* they include those of claims that passed something over */
    struct arena arena;      /* for outcomes */
    char schedule[4096];     /* as text, for who reads a failure */
    uint64_t schedule_count; /* in all */
    uint64_t blocked_count;  /* of which so many had somebody wait for a lock */
    uint64_t random;
};

/* ---- the start of a schedule ---- */

static struct uuid new_id(struct world *world)
{
    uint64_t words[2] = {next_random(&world->random), next_random(&world->random)};
    return uuid_v7(world->start, (const uint8_t *)words);
}

static struct op cancel_op(struct uuid job, struct str actor, enum cancel_mode mode)
{
    struct op op = {.type = OP_COMMAND, .job = job};
    op.command = (struct command){.type = COMMAND_CANCEL, .actor = actor};
    op.command.cancel.mode = mode;
    return op;
}

static struct op claim_op(struct str worker, uint32_t max, uint32_t offer)
{
    static struct str kinds[] = {STR_INIT("J"), STR_INIT("Q"), STR_INIT("neither")};
    struct op op = {.type = OP_CLAIM};
    op.command = (struct command){.type = COMMAND_CLAIM, .actor = worker};
    op.command.claim.worker_id = worker;
    op.command.claim.start = true;
    op.claim.claimer.work = LANE_JOBS;
    op.claim.claimer.kinds.at = offer == 0 ? &kinds[2] : offer == OFFER_Q ? &kinds[1] : kinds;
    op.claim.claimer.kinds.count = offer == (OFFER_J | OFFER_Q) ? 2 : 1;
    op.claim.max = max;
    return op;
}

static struct op submit_op(struct uuid job, const struct spec *spec)
{
    struct op op = {.type = OP_COMMAND, .job = job};
    op.command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("test")};
    op.command.submit.spec = spec;
    return op;
}

/* Cancels what is left of the last schedule, and makes J and Q anew. J is tried again at once when
 * its lease has ended, so that claims can find it. */
static void set_up(struct world *world)
{
    struct player *player = &world->player;
    struct spec spec = spec_defaults(NULL);
    spec.kind = STR("J");
    spec.retry.initial_ms = 0;
    arena_clear(&player->arena);
    struct op first[] = {
        cancel_op(world->j, STR("test"), CANCEL_HARD),
        cancel_op(world->q, STR("test"), CANCEL_HARD),
        {0},
    };
    world->start += SCHEDULE_MS;
    world->clock = world->start;
    struct uuid ids[2] = {new_id(world), new_id(world)};
    bool rising = memcmp(ids[0].bytes, ids[1].bytes, sizeof ids[0].bytes) < 0;
    world->j = ids[rising == world->q_first];
    world->q = ids[rising != world->q_first];
    first[2] = submit_op(world->j, &spec);
    player_run(player, first, 3);
    assert_int_equal(player->ops[2].code, ERR_OK);
    struct spec other = spec;
    other.kind = STR("Q");
    struct op second[] = {claim_op(STR("w1"), 1, OFFER_J), submit_op(world->q, &other)};
    player_run(player, second, 2);
    assert_int_equal(player->ops[0].grant_count, 1);
    assert_int_equal(player->ops[1].code, ERR_OK);
    const struct grant *grant = &player->ops[0].grants[0];
    assert_true(uuid_eq(grant->slice->job.id, world->j));
    assert_int_equal(grant->result.expires_at, world->start + LEASE_ENDS_MS);
    (void)snprintf(world->token, sizeof world->token, "%.*s", STR_ARG(grant->result.token));
}

static struct op token_op(const struct world *world, enum command_type type, struct str actor)
{
    struct op op = {.type = OP_COMMAND, .job = world->j};
    op.command = (struct command){.type = type, .actor = actor};
    op.command.token = str_from(world->token);
    return op;
}

static uint32_t act_ops(const struct world *world, uint32_t session, struct op *ret)
{
    struct str actor = str_from(session_name(session));
    switch (world->acts[session]) {
    case ACT_CLAIM:
        ret[0] = claim_op(actor, 2, world->offers[session]);
        return 1;
    case ACT_EXPIRE:
        ret[0] = (struct op){.type = OP_TIMER_FIRED, .job = world->j};
        ret[0].timer.step = STEP_NONE;
        ret[0].timer.at = world->start + LEASE_ENDS_MS;
        return 1;
    case ACT_CANCEL:
        ret[0] = cancel_op(world->j, actor, CANCEL_HARD);
        return 1;
    case ACT_CANCEL_SOFTLY:
        ret[0] = cancel_op(world->j, actor, CANCEL_SOFT);
        return 1;
    case ACT_CANCEL_QUEUED:
        ret[0] = cancel_op(world->q, actor, CANCEL_HARD);
        return 1;
    case ACT_COMPLETE:
        ret[0] = token_op(world, COMMAND_COMPLETE, actor);
        return 1;
    case ACT_BOTH:
        ret[1] = cancel_op(world->q, actor, CANCEL_HARD);
        ret[0] = token_op(world, COMMAND_HEARTBEAT, actor);
        return 2;
    default:
        ret[0] = token_op(world, COMMAND_HEARTBEAT, actor);
        return 1;
    }
}

/* ---- the end of a schedule ---- */

static void fail_schedule(const struct world *world, const char *what, struct str detail)
{
    print_error("schedule: %s\n", world->schedule);
    print_error("%.*s\n", (int)detail.len, str_start(detail));
    fail_msg("%s", what);
}

/* What became of a job. */
struct fate {
    struct job job;
    struct event *events;
    uint32_t count;
};

static void verify_job(struct world *world, struct store_txn *txn, const struct store_job *job,
                       struct fate *ret)
{
    struct arena *arena = &world->player.arena;
    struct verify_report report;
    struct err err = {0};
    assert_int_equal(
        store_events(txn,
                     &(struct store_stream){
                         .job = job->id, .after = 0, .limit = STORE_EVENTS_MAX, .telemetry = false},
                     arena, &ret->events, &ret->count, &err),
        ERR_OK);
    for (uint32_t i = 0; i < ret->count; i++)
        assert_int_equal(event_open(&ret->events[i], 1, arena, &err), ERR_OK);
    ret->job = job->slice.job;
    struct verify_input input = {
        .id = job->id,
        .events = ret->events,
        .count = ret->count,
        .salt = ret->job.salt,
        .row = &job->slice,
        .seed = 1,
    };
    assert_int_equal(job_verify(&input, arena, &report, &err), ERR_OK);
    if (report.violation_count > 0)
        fail_schedule(world, "a history does not verify", report.violations[0].detail);
}

static void read_fates(struct world *world, struct fate *j, struct fate *q)
{
    struct err err = {0};
    struct store_txn *txn;
    struct store_job jobs[2] = {{.id = world->j}, {.id = world->q}};
    bool swapped = memcmp(world->j.bytes, world->q.bytes, 16) > 0;
    if (swapped) {
        jobs[0].id = world->q;
        jobs[1].id = world->j;
    }
    struct store_load load = {.jobs = jobs, .job_count = 2};
    assert_int_equal(store_begin(world->player.store, STORE_READ, &txn, &err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &world->player.arena, &err), ERR_OK);
    verify_job(world, txn, &jobs[swapped ? 1 : 0], j);
    verify_job(world, txn, &jobs[swapped ? 0 : 1], q);
    store_rollback(txn);
}

/* Where the two jobs stand in the tables, as text. */
static void read_places(struct world *world, struct buf *buf)
{
    static const char sql[] =
        "SELECT coalesce(string_agg(line, ', ' ORDER BY line), '') FROM ("
        " SELECT CASE WHEN job_id = $1 THEN 'J' ELSE 'Q' END, job_id, 'ready ' || run_at - $3::int8"
        " FROM pawl.ready UNION ALL"
        " SELECT CASE WHEN job_id = $1 THEN 'J' ELSE 'Q' END, job_id,"
        " 'timer ' || kind || ' ' || at - $3::int8 FROM pawl.timers UNION ALL"
        " SELECT CASE WHEN job_id = $1 THEN 'J' ELSE 'Q' END, job_id, 'claim ' || attempt || ' ' ||"
        " beat_at - $3::int8 || ' ' || due_at - $3::int8 FROM pawl.job_claims) AS p (name, job_id,"
        " place), LATERAL (SELECT name || ' ' || place) AS l (line) WHERE job_id IN ($1, $2)";
    static const Oid types[] = {2950, 2950, 20};
    char texts[3][UUID_TEXT_LEN + 1] = {{0}};
    const char *values[] = {texts[0], texts[1], texts[2]};
    uuid_format(world->j, texts[0]);
    uuid_format(world->q, texts[1]);
    (void)snprintf(texts[2], sizeof texts[2], "%lld", (long long)world->start);
    PGresult *result = PQexecParams(world->stepping.observer, sql, 3, types, values, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(world->stepping.observer));
    buf_addf(buf, "places: %s\n", PQgetvalue(result, 0, 0));
    PQclear(result);
}

static void tell_fate(const struct world *world, struct buf *buf, const char *name,
                      const struct fate *fate)
{
    const struct job *job = &fate->job;
    buf_addf(buf, "%s: %.*s version=%lld attempt=%lld failures=%lld", name,
             STR_ARG(job_status_name(job->status)), (long long)job->version,
             (long long)job->attempt, (long long)job->failures);
    if (job->lease.live)
        buf_addf(buf, " lease of %.*s until %lld", STR_ARG(job->lease.worker_id),
                 (long long)(job->lease.expires_at - world->start));
    for (uint32_t i = 0; i < fate->count; i++)
        buf_addf(buf, " %.*s(%.*s)", STR_ARG(event_name(&fate->events[i])),
                 STR_ARG(fate->events[i].actor));
    buf_add_char(buf, '\n');
}

static void tell_session(const struct world *world, struct buf *buf, uint32_t number)
{
    const struct session *session = &world->stepping.sessions[number];
    buf_addf(buf, "%s %s:", session_name(number), act_names[world->acts[number]]);
    for (uint32_t i = 0; i < session->op_count; i++) {
        const struct op *op = &session->ops[i];
        buf_addf(buf, " %s repeated=%d cancel=%d", error_info(op->code)->name, op->result.repeated,
                 op->result.cancel_requested);
        for (uint32_t k = 0; k < op->grant_count; k++)
            buf_addf(buf, " %s#%lld", uuid_eq(op->grants[k].slice->job.id, world->j) ? "J" : "Q",
                     (long long)op->grants[k].slice->job.attempt);
    }
    buf_add_char(buf, '\n');
}

static uint32_t count_events(const struct fate *fate, enum event_type type, struct str actor)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fate->count; i++)
        count += (type == EVENT_UNKNOWN || fate->events[i].type == type) &&
                 (!str_is_set(actor) || str_eq(fate->events[i].actor, actor));
    return count;
}

/* How many events an operation has made if its session was told the truth. */
static uint32_t events_told(const struct op *op)
{
    if (op->type == OP_CLAIM)
        return 2 * op->grant_count; /* leased and running */
    if (op->type == OP_TIMER_FIRED || op->command.type == COMMAND_HEARTBEAT)
        return 0; /* what expires is pawl's own doing */
    return op->code == ERR_OK && !op->result.repeated ? 1 : 0;
}

/* What the sessions were told against what is in the streams. */
static void check_told(struct world *world, const struct fate *j, const struct fate *q,
                       struct str told)
{
    struct str anybody = {NULL, 0};
    uint32_t completed = count_events(j, EVENT_JOB_COMPLETED, anybody);
    uint32_t expired = count_events(j, EVENT_JOB_REQUEUED, anybody);
    uint32_t cancelled = count_events(j, EVENT_JOB_CANCELLED, anybody);
    uint32_t grants[2][8] = {{0}};
    for (uint32_t i = 0; i < world->count; i++) {
        const struct session *session = &world->stepping.sessions[i];
        struct str actor = str_from(session_name(i));
        if (session->code != ERR_OK)
            fail_schedule(world, "a batch failed", str_from(session->err.detail));
        uint32_t events = 0;
        for (uint32_t k = 0; k < session->op_count; k++)
            events += events_told(&session->ops[k]);
        if (count_events(j, EVENT_UNKNOWN, actor) + count_events(q, EVENT_UNKNOWN, actor) != events)
            fail_schedule(world, "a session was told something else than what is stored", told);
        for (uint32_t k = 0; k < session->ops[0].grant_count; k++) {
            const struct job *job = &session->ops[0].grants[k].slice->job;
            grants[uuid_eq(job->id, world->j)][job->attempt % 8]++;
        }
    }
    for (uint32_t i = 0; i < 16; i++)
        if (grants[i / 8][i % 8] > 1)
            fail_schedule(world, "an attempt was given out twice", told);
    if (completed + expired > 1 || completed + cancelled > 1 || expired > 1 || cancelled > 1)
        fail_schedule(world, "more than one result was accepted", told);
    if (count_events(j, EVENT_UNKNOWN, STR("pawl")) > 1)
        fail_schedule(world, "a lease has expired twice", told);
}

/* What came of a schedule, as text without anything random in it; all checks that need no other
 * schedule are made. The text is in the player's arena. */
static struct str finish(struct world *world)
{
    struct fate j = {0};
    struct fate q = {0};
    struct buf buf;
    buf_init(&buf, &world->player.arena, 4096);
    read_fates(world, &j, &q);
    for (uint32_t i = 0; i < world->count; i++)
        tell_session(world, &buf, i);
    tell_fate(world, &buf, "J", &j);
    tell_fate(world, &buf, "Q", &q);
    read_places(world, &buf);
    check_told(world, &j, &q, buf_str(&buf));
    return buf_str(&buf);
}

/* ---- schedules ---- */

static void note(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct world *world, const char *format, ...)
{
    size_t len = strlen(world->schedule);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->schedule + len, sizeof world->schedule - len, format, args);
    va_end(args);
}

static void settle(struct world *world)
{
    if (!stepping_settle(&world->stepping))
        fail_schedule(world, "a session never came back", (struct str){NULL, 0});
}

static void begin(struct world *world)
{
    set_up(world);
    world->schedule[0] = '\0';
    world->schedule_count++;
    for (uint32_t i = 0; i < world->count; i++) {
        struct op ops[SESSION_OPS_MAX];
        uint32_t count = act_ops(world, i, ops);
        note(world, "%s%s=%s", i == 0 ? "" : " ", session_name(i), act_names[world->acts[i]]);
        stepping_begin(&world->stepping, i, ops, count, world->start + act_at_ms[world->acts[i]]);
    }
    note(world, ":");
    settle(world);
}

/* Lets one session take its next step. */
static void step(struct world *world, uint32_t number)
{
    const struct session *session = &world->stepping.sessions[number];
    note(world, " %s.%s", session_name(number), gate_names[session->gate]);
    stepping_go(&world->stepping, number);
    settle(world);
    if (session->blocked)
        note(world, "(blocked)");
}

/* Who can take a step, as bits; 0 when all have finished. Where everybody waits for somebody the
 * server will fail a batch in the end. */
static uint32_t who_is_ready(struct world *world)
{
    for (;;) {
        uint32_t ready = stepping_ready(&world->stepping);
        if (ready != 0 || !stepping_busy(&world->stepping))
            return ready;
        note(world, " DEADLOCK");
        if (!stepping_stir(&world->stepping))
            fail_schedule(world, "deadlock", (struct str){NULL, 0});
    }
}

/* Lets the sessions go as far as they can, the first in `order` always first. */
static struct str run_in_order(struct world *world, const uint32_t *order)
{
    begin(world);
    for (uint32_t ready; (ready = who_is_ready(world)) != 0;) {
        uint32_t next = 0;
        for (uint32_t i = world->count; i-- > 0;)
            if (ready >> order[i] & 1)
                next = order[i];
        step(world, next);
    }
    return finish(world);
}

/* Goes along `path`, and where that ends takes the first choice each time, or any. */
static struct str run_along(struct world *world, struct path *path, bool any)
{
    bool blocked = false;
    uint32_t depth = 0;
    begin(world);
    for (uint32_t ready; (ready = who_is_ready(world)) != 0;) {
        struct branch branch = {.count = 0};
        for (uint32_t i = 0; i < world->count; i++) {
            if (ready >> i & 1)
                branch.ready[branch.count++] = i;
            blocked = blocked || world->stepping.sessions[i].blocked;
        }
        assert_true(depth < STEPS_MAX);
        if (any)
            branch.taken = (uint32_t)(next_random(&world->random) % branch.count);
        if (depth == path->depth)
            path->at[path->depth++] = branch;
        else if (path->at[depth].count != branch.count ||
                 memcmp(path->at[depth].ready, branch.ready, sizeof branch.ready) != 0)
            fail_schedule(world, "the same steps led elsewhere", (struct str){NULL, 0});
        step(world, branch.ready[path->at[depth].taken]);
        depth++;
    }
    world->blocked_count += blocked;
    return finish(world);
}

/* The next path that was not gone yet; false when there is none. */
static bool advance(struct path *path)
{
    while (path->depth > 0) {
        struct branch *last = &path->at[path->depth - 1];
        if (++last->taken < last->count)
            return true;
        path->depth--;
    }
    return false;
}

static bool is_known(const struct world *world, struct str told)
{
    for (uint32_t i = 0; i < world->outcome_count; i++)
        if (str_eq(world->outcomes[i], told))
            return true;
    return false;
}

/* Adds what comes of the sessions one after the other, in every order. */
static void learn_orders(struct world *world)
{
    static const uint32_t orders[ORDERS][SESSIONS_MAX] = {
        {0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0},
    };
    for (uint32_t i = 0; i < (world->count == 2 ? 2 : ORDERS); i++) {
        struct str told = run_in_order(world, orders[i]);
        if (is_known(world, told))
            continue;
        assert_true(world->outcome_count < OUTCOMES_MAX);
        world->outcomes[world->outcome_count++] = arena_copy(&world->arena, told);
    }
}

static void offer_all(struct world *world)
{
    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        world->offers[i] = OFFER_J | OFFER_Q;
}

/* A claim passes over what somebody is busy with, even if nothing comes of that: then it is as if
 * that had not been there for it. */
static void learn_passing_over(struct world *world)
{
    uint32_t claims = 0;
    uint32_t combinations = 1;
    for (uint32_t i = 0; i < world->count; i++)
        claims += world->acts[i] == ACT_CLAIM;
    for (uint32_t i = 0; i < claims; i++)
        combinations *= OFFERS;
    for (uint32_t number = 0; number < combinations; number++) {
        uint32_t rest = number;
        for (uint32_t i = 0; i < world->count; i++)
            if (world->acts[i] == ACT_CLAIM) {
                world->offers[i] = rest % OFFERS;
                rest /= OFFERS;
            }
        learn_orders(world);
    }
    offer_all(world);
    world->has_passed_over = true;
}

/* With two sessions who is busy with something always changes it. */
static void check_outcome(struct world *world, struct str told)
{
    char schedule[sizeof world->schedule];
    if (is_known(world, told))
        return;
    struct str kept = arena_copy(&world->arena, told);
    memcpy(schedule, world->schedule, sizeof schedule);
    if (world->count > 2 && !world->has_passed_over)
        learn_passing_over(world);
    if (is_known(world, kept))
        return;
    print_error("in order:\n");
    for (uint32_t i = 0; i < world->outcome_count; i++)
        print_error("%.*s\n", (int)world->outcomes[i].len, world->outcomes[i].at);
    memcpy(world->schedule, schedule, sizeof schedule);
    fail_schedule(world, "no order without interleaving gives this", kept);
}

/* All schedules of the acts that are set; or `max` of them and as many at random. */
static void explore(struct world *world, uint64_t max)
{
    struct path path = {.depth = 0};
    uint64_t count = 0;
    bool more = true;
    arena_clear(&world->arena);
    world->outcome_count = 0;
    world->has_passed_over = false;
    offer_all(world);
    learn_orders(world);
    for (; more && count < max; count++) {
        check_outcome(world, run_along(world, &path, false));
        more = advance(&path);
    }
    for (; more && count < 2 * max; count++) {
        path.depth = 0;
        check_outcome(world, run_along(world, &path, true));
    }
}

static void explore_two(struct world *world, enum act a, enum act b)
{
    world->acts[0] = a;
    world->acts[1] = b;
    for (uint32_t order = 0; order < (b == ACT_BOTH ? 2 : 1); order++) {
        world->q_first = order == 1;
        explore(world, UINT64_MAX / 2);
    }
}

static void explore_three(struct world *world, enum act a, enum act b, enum act c)
{
    world->acts[0] = a;
    world->acts[1] = b;
    world->acts[2] = c;
    for (uint32_t order = 0; order < (c == ACT_BOTH ? 2 : 1); order++) {
        world->q_first = order == 1;
        explore(world, TRIPLE_SCHEDULES_MAX);
    }
}

static void world_init(struct world *world, uint32_t count, uint32_t gates)
{
    *world = (struct world){.start = START_MS, .count = count, .random = 1};
    test_stores_init(&world->stores);
    const char *url = test_stores_fresh(&world->stores, TEST_POSTGRES);
    player_open(&world->player, "postgres", url, &world->clock, 1);
    stepping_open(&world->stepping, url, count, gates);
    arena_init(&world->arena);
}

static void world_release(struct world *world)
{
    stepping_close(&world->stepping);
    player_close(&world->player);
    arena_release(&world->arena);
    test_stores_release(&world->stores);
}

static void tell_counts(const struct world *world)
{
    print_message("%llu schedules of %u servers, %llu with somebody waiting for a lock\n",
                  (unsigned long long)world->schedule_count, world->count,
                  (unsigned long long)world->blocked_count);
}

/* Which session does which act makes no difference: all of their orders are run anyway. */
static void every_interleaving_of_two_servers_is_as_one_after_the_other(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 2, (1U << GATE_COUNT) - 1);
    for (enum act a = 0; a < ACT_COUNT; a++)
        for (enum act b = a; b < ACT_COUNT; b++)
            explore_two(&world, a, b);
    tell_counts(&world);
    world_release(&world);
}

/* While a third server holds one of the jobs, two that want both of them wait inside of a load. */
static void servers_that_want_the_same_jobs_take_them_in_one_order(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 3, 1U << GATE_LOAD | 1U << GATE_COMMIT);
    explore_three(&world, ACT_CANCEL_QUEUED, ACT_BOTH, ACT_BOTH);
    explore_three(&world, ACT_COMPLETE, ACT_BOTH, ACT_BOTH);
    tell_counts(&world);
    world_release(&world);
}

static void interleavings_of_three_servers_are_as_one_after_the_other(void **state)
{
    (void)state;
    struct world world;
    if (getenv("TORTURE") == NULL)
        skip();
    world_init(&world, 3, 1U << GATE_LOAD | 1U << GATE_WRITE | 1U << GATE_COMMIT);
    for (enum act a = 0; a < ACT_COUNT; a++)
        for (enum act b = a; b < ACT_COUNT; b++)
            for (enum act c = b; c < ACT_COUNT; c++)
                explore_three(&world, a, b, c);
    tell_counts(&world);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_interleaving_of_two_servers_is_as_one_after_the_other),
        cmocka_unit_test(servers_that_want_the_same_jobs_take_them_in_one_order),
        cmocka_unit_test(interleavings_of_three_servers_are_as_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
