/* A world from its beginning to its end: time, who is next, and the two phases. */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "store/memory/memory_store.h"

enum {
    HEAL_MS_MAX = 10 * 60 * 1000, /* by then everything has ended, or never will */
    SAFETY_MS_MAX = 20 * 60 * 1000,
    RESUME_MS = 15 * 1000,
    CHECKED_EVERY = 4,
    QUIET_MS = 5000, /* after everything has ended: what is kept briefly is deleted */
    WEATHER_MS_MAX = 5000,
    PAUSE_MS_MAX = 20 * 1000,
    PAUSE_MS_MAX_CALM = 2000,
    JUMP_MS_MAX = 2 * 60 * 60 * 1000,
    JUMP_BACK_MS_MAX = 4000,
    CALM_FAULTS = 1 << FAULT_DROP | 1 << FAULT_DOUBLE | 1 << FAULT_DELAY | 1 << FAULT_STALL |
                  1 << FAULT_FULL | 1 << FAULT_PAUSE | 1 << FAULT_SLOW,
};

/* Streams of randomness; each server and actor has its own behind these. */
enum { STREAM_WORLD = 1, STREAM_WEATHER, STREAM_SERVERS = 100 };

const char *sim_fault_name(enum sim_fault fault)
{
    static const char *const names[] = {
#define SIM_FAULT(symbol, name, text) name,
#include "fault.def"
#undef SIM_FAULT
    };
    return names[fault];
}

void *need(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

void world_fail(struct world *world, const char *rule, const char *format, ...)
{
    struct sim_result *result = world->result;
    va_list arguments;
    if (result->failed)
        return;
    result->failed = true;
    (void)snprintf(result->rule, sizeof result->rule, "%s", rule);
    va_start(arguments, format);
    (void)vsnprintf(result->detail, sizeof result->detail, format, arguments);
    va_end(arguments);
    trace(world, "BROKEN %s: %s", result->rule, result->detail);
}

/* ---- time ---- */

static int64_t wall_time(void *arg)
{
    const struct world *world = arg;
    return WORLD_BEGINS + world->now + world->offset;
}

static int64_t steady_time(void *arg)
{
    return ((const struct world *)arg)->now;
}

int64_t world_store_time(void *world)
{
    return store_clock_now(&((struct world *)world)->clock);
}

bool world_strikes(struct world *world, struct rng *rng, enum sim_fault fault, uint32_t per_mille)
{
    bool strikes = rng_chance(rng, per_mille) && !world->healing &&
                   (world->faults & UINT32_C(1) << fault) != 0;
    world->counts->faults[fault] += strikes;
    return strikes;
}

/* ---- what happens to servers and to the clock ---- */

static void weather_turn(struct world *world)
{
    struct rng *rng = &world->weather;
    struct server *server = &world->servers[rng_below(rng, world->server_count)];
    world->weather_at = world->now + rng_between(rng, 200, WEATHER_MS_MAX);
    /* One that stands still does so no longer than that: several pauses would be a break. */
    if (world_strikes(world, rng, FAULT_PAUSE, 200) && server->engine != NULL &&
        world->now > server->paused_until) {
        server->paused_until =
            world->now + rng_between(rng, 500, world->calm ? PAUSE_MS_MAX_CALM : PAUSE_MS_MAX);
        server->turn_at = server->paused_until;
        trace(world, "%s stands still until %lld ms", server->name,
              (long long)server->paused_until);
    }
    if (world_strikes(world, rng, FAULT_CRASH, 100) && server->engine != NULL)
        server_crash(server);
    if (world_strikes(world, rng, FAULT_JUMP, 100)) {
        int64_t by = rng_chance(rng, 500) ? rng_between(rng, 1000, JUMP_MS_MAX)
                                          : -rng_between(rng, 100, JUMP_BACK_MS_MAX);
        if (by > TRUSTED_JUMP_MS && world->liveness_recorded) {
            world->jump_at = world->now;
            world->jump_clock = world_store_time(world);
        }
        world->offset += by;
        trace(world, "the clock is set by %lld ms", (long long)by);
    }
}

/* ---- making a world ---- */

static void choose_faults(struct world *world, struct rng *rng)
{
    uint64_t kind = rng_below(rng, 8);
    for (int fault = 0; fault < FAULT_COUNT && kind > 0; fault++)
        if (rng_chance(rng, 650))
            world->faults |= UINT32_C(1) << fault;
    if (kind <= 2)
        world->faults &= CALM_FAULTS;
    if (kind == 0)
        world->faults |= 1 << FAULT_STALL;
    world->faults &= world->scenario->faults;
    world->calm = (world->faults & ~(uint32_t)CALM_FAULTS) == 0;
}

static bool is_on_sqlite(const struct world *world)
{
    return world->scenario->store == SIM_SQLITE;
}

static void open_store(struct world *world)
{
    struct store_options options = {
        .clock = world_store_time,
        .clock_arg = world,
        .create = true,
        .seed = world->scenario->seed,
    };
    store_clock_init(&world->clock, wall_time, world, steady_time, world);
    if (is_on_sqlite(world))
        sqlite_world_begin(world);
    else if (memory_store_open(&options, &world->store, NULL) != ERR_OK)
        abort();
}

static void make_servers(struct world *world, struct rng *rng)
{
    world->server_count = (uint32_t)rng_between(rng, 1, SERVERS_MAX);
    if (is_on_sqlite(world))
        world->server_count = 1;
    for (uint32_t i = 0; i < world->server_count; i++) {
        struct server *server = &world->servers[i];
        server->world = world;
        (void)snprintf(server->name, sizeof server->name, "S%u", i + 1);
        server->rng = rng_new(world->scenario->seed, STREAM_SERVERS + i);
        if (world_strikes(world, &server->rng, FAULT_DRIFT, 500))
            server->drift = rng_between(&server->rng, -100, 100);
        if (!is_on_sqlite(world))
            server->store = faulty_store_new(server);
        server_start(server);
    }
}

static void world_open(struct world *world)
{
    uint64_t seed = world->scenario->seed;
    struct rng rng = rng_new(seed, STREAM_WORLD);
    virtual_random_start(seed);
    arena_init(&world->arena);
    choose_faults(world, &rng);
    world->weather = rng_new(seed, STREAM_WEATHER);
    world->commands_left = world->scenario->commands;
    open_store(world);
    make_servers(world, &rng);
    actors_make(world);
    for (int fault = 0; fault < FAULT_COUNT; fault++)
        if ((world->faults & UINT32_C(1) << fault) != 0)
            trace(world, "there may be: %s", sim_fault_name((enum sim_fault)fault));
}

static void world_close(struct world *world)
{
    for (uint32_t i = 0; i < world->server_count; i++) {
        server_close(&world->servers[i]);
        faulty_store_free(world->servers[i].store);
    }
    if (is_on_sqlite(world))
        sqlite_world_end(world);
    else
        store_close(world->store);
    store_clock_release(&world->clock);
    free(world->ledger.jobs);
    free(world->ledger.events);
    arena_release(&world->arena);
}

/* ---- who is next ---- */

/* What is to happen first, of all that is: messages, then servers, actors, the weather. */
static void world_step(struct world *world)
{
    int64_t first = world->messages != NULL ? world->messages->at : NEVER;
    struct server *server = NULL;
    struct actor *actor = NULL;
    for (uint32_t i = 0; i < world->server_count; i++)
        if (world->servers[i].turn_at < first) {
            server = &world->servers[i];
            first = server->turn_at;
        }
    for (uint32_t i = 0; i < world->actor_count; i++)
        if (world->actors[i].wake_at < first) {
            actor = &world->actors[i];
            first = actor->wake_at;
        }
    bool weather = !world->healing && world->weather_at < first;
    if (weather)
        first = world->weather_at;
    if (first > world->now)
        world->now = first;
    if (weather)
        weather_turn(world);
    else if (actor != NULL)
        actor_turn(world, actor);
    else if (server != NULL)
        server_turn(server);
    else
        network_arrive(world);
}

/* ---- the phases ---- */

static void set_up(struct world *world)
{
    struct err err = {0};
    char request[64];
    (void)snprintf(request, sizeof request, "{\"kind\":\"brief\",\"retention_ms\":%d}",
                   BRIEF_KEPT_MS);
    world->healing = true; /* no fault yet */
    if (server_ask(&world->servers[0], VERB_kind_set, request, &err) != ERR_OK)
        world_fail(world, "set_up", "%s", err.detail);
    world->healing = false;
}

static void wake_actors(struct world *world, int64_t at)
{
    for (uint32_t i = 0; i < world->actor_count; i++)
        if (world->actors[i].call == NULL)
            world->actors[i].wake_at = at;
}

static void heal(struct world *world)
{
    trace(world, "---- the world is healed ----");
    world->healing = true;
    world->healed_at = world->now;
    for (uint32_t i = 0; i < world->server_count; i++) {
        struct server *server = &world->servers[i];
        server->paused_until = server->away_until = 0;
        if (server->engine == NULL)
            server_start(server);
        server->turn_at = world->now;
    }
    for (uint32_t i = 0; i < world->actor_count; i++) {
        struct actor *actor = &world->actors[i];
        actor->absent = false;
        actor->drift = 0;
    }
    wake_actors(world, world->now);
}

static bool is_quiet(const struct world *world)
{
    for (uint32_t i = 0; i < world->actor_count; i++)
        if (world->actors[i].call != NULL)
            return false;
    return world->messages == NULL;
}

/* Nobody begins anything new, until what was begun is over and some time has gone by. */
static void be_quiet(struct world *world)
{
    int64_t end = world->now + QUIET_MS;
    while ((world->now < end || !is_quiet(world)) && !world->result->failed) {
        wake_actors(world, NEVER);
        world_step(world);
    }
}

/* Also later, since the order to pause one may have been late. */
static void resume_queues(struct world *world)
{
    (void)server_ask(&world->servers[0], VERB_resume, "{\"queue\":\"q1\"}", NULL);
    (void)server_ask(&world->servers[0], VERB_resume, "{\"queue\":\"q2\"}", NULL);
}

/* Runs until everything has ended; a request that was late may bring something new even then. */
static void run_to_the_end(struct world *world)
{
    int64_t end = world->now + HEAL_MS_MAX;
    int64_t resume_at = world->now;
    bool over = false;
    while (!over && world->now < end && !world->result->failed) {
        if (world->now >= resume_at) {
            resume_queues(world);
            resume_at = world->now + RESUME_MS;
        }
        world_step(world);
        if (!ledger_all_ended(world))
            continue;
        uint32_t events = world->ledger.event_count;
        be_quiet(world);
        over = world->ledger.event_count == events;
        wake_actors(world, world->now);
    }
}

static void live_through(struct world *world)
{
    set_up(world);
    while (world->commands_left > 0 && world->now < SAFETY_MS_MAX && !world->result->failed)
        world_step(world);
    /* At the end all of it is checked once more: now and then is often enough. */
    if (!world->result->failed && world->scenario->seed % CHECKED_EVERY == 0)
        check_world(world, false);
    heal(world);
    run_to_the_end(world);
    if (!world->result->failed)
        check_world(world, true);
}

static void add_counts(struct world *world)
{
    struct sim_counts *counts = world->counts;
    counts->runs++;
    counts->jobs += world->ledger.job_count;
    counts->events += world->ledger.event_count;
    counts->virtual_ms += (uint64_t)world->now;
    for (uint32_t i = 0; i < world->ledger.job_count; i++) {
        counts->ended[world->ledger.jobs[i].status]++;
        counts->purged += world->ledger.jobs[i].gone;
    }
}

void sim_run(const struct scenario *scenario, FILE *live, struct sim_counts *counts,
             struct sim_result *ret)
{
    struct world *world = need(calloc(1, sizeof *world));
    *ret = (struct sim_result){0};
    world->scenario = scenario;
    world->counts = counts;
    world->result = ret;
    world->trace.live = live;
    world_open(world);
    live_through(world);
    add_counts(world);
    trace_finish(world);
    world_close(world);
    free(world);
}

void sim_result_release(struct sim_result *result)
{
    free(result->trace);
    free(result->given);
    *result = (struct sim_result){0};
}
