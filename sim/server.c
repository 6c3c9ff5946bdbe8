/* Servers: an engine each, run by hand, all over one store. What a server was about to say when it
 * crashes nobody hears. */
#include <assert.h>
#include <stdlib.h>

#include "world.h"

enum {
    FULL_BYTES = 16 * 1024, /* a few calls */
    DOWN_MS_MAX = 12 * 1000,
    TURNS_MAX = 10 * 1000, /* without any time going by */
};

static int64_t server_steady(void *arg)
{
    const struct server *server = arg;
    return server->world->now + server->world->now * server->drift / 1000;
}

void server_start(struct server *server)
{
    struct world *world = server->world;
    bool full = world_strikes(world, &server->rng, FAULT_FULL, 300);
    if (world->scenario->store == SIM_SQLITE) {
        server_open_store(server);
        ledger_read(world); /* before anything is deleted whose time is over */
    }
    struct engine_options options = {
        .lent = server->store,
        .queue_bytes_max = full ? FULL_BYTES : 0,
        .by_hand = true,
        .steady = server_steady,
        .steady_arg = server,
    };
    struct err err = {0};
    assert(server->engine == NULL);
    server->doomed = false;
    if (engine_open(STR("memory:"), &options, &server->engine, &err) != ERR_OK)
        abort();
    server->turn_at = world->now;
    trace(world, "%s is up%s", server->name, full ? ", with room for a few calls" : "");
}

/* ---- requests ---- */

static void note_done(struct call *call, void *arg)
{
    (void)call;
    *(bool *)arg = true;
}

static bool is_wanted_now(const struct delivery *delivery)
{
    return delivery->call->outcome == CALL_OPEN;
}

static bool is_wanted(void *arg)
{
    return is_wanted_now(arg);
}

static void delivery_free(struct delivery *delivery)
{
    arena_release(&delivery->arena);
    free(delivery);
}

static void reply(struct server *server, struct delivery *delivery, enum error_code code,
                  const struct buf *answer, const struct err *err)
{
    struct world *world = server->world;
    struct str text = code == ERR_OK ? buf_str(answer) : str_from(err->detail);
    call_ran(world, delivery->call);
    if (server->doomed)
        return;
    network_reply(world, delivery->call, code, arena_copy(&world->arena, text));
}

/* Hands a request to the engine; what can be said at once is. Returns whether it is there now. */
static bool take_in(struct server *server, struct delivery *delivery)
{
    struct verb_call *verb = &delivery->verb;
    struct buf answer;
    struct err err = {0};
    enum error_code code;
    buf_init(&answer, &delivery->arena, 512);
    if (!verb_is_write(verb->name)) {
        code = verb_run(verb, &err);
        if (code == ERR_OK)
            verb_write(verb, &answer);
        verb_call_release(verb);
        reply(server, delivery, code, &answer, &err);
        return false;
    }
    code = verb_prepare(verb, &err);
    if (code != ERR_OK) {
        reply(server, delivery, code, &answer, &err);
        return false;
    }
    verb->call.done = note_done;
    verb->call.arg = &delivery->done;
    verb->call.wanted = is_wanted;
    verb->call.wanted_arg = delivery;
    /* A batch may have nothing in it that can be done. */
    bool idle = verb->call.count == 0;
    code = idle ? verb_finish(verb, &err) : engine_submit(server->engine, &verb->call, &err);
    if (code == ERR_OK && !idle)
        return true;
    if (code == ERR_OK)
        verb_write(verb, &answer);
    verb_call_release(verb);
    reply(server, delivery, code, &answer, &err);
    return false;
}

void server_receive(struct server *server, struct sim_call *call)
{
    struct world *world = server->world;
    if (server->engine == NULL || server->doomed) {
        trace(world, "%s is down: #%u goes nowhere", server->name, call->number);
        return;
    }
    struct delivery *delivery = need(calloc(1, sizeof *delivery));
    delivery->call = call;
    arena_init(&delivery->arena);
    delivery->verb = (struct verb_call){
        .engine = server->engine,
        .arena = &delivery->arena,
        .name = call->verb,
        .request = call->request,
        .actor = call->actor->name,
    };
    if (str_is_set(call->key)) {
        delivery->verb.scope = call->actor->name;
        delivery->verb.key = call->key;
    }
    if (!take_in(server, delivery)) {
        delivery_free(delivery);
        return;
    }
    delivery->next = server->deliveries;
    server->deliveries = delivery;
    if (world->now < server->turn_at)
        server->turn_at = world->now;
}

/* Says what came of the calls that are done; a server that has crashed says nothing. */
static void answer_done(struct server *server, bool silent)
{
    struct delivery **link = &server->deliveries;
    while (*link != NULL) {
        struct delivery *delivery = *link;
        if (!delivery->done) {
            link = &delivery->next;
            continue;
        }
        *link = delivery->next;
        if (!silent) {
            struct buf answer;
            struct err err = {0};
            buf_init(&answer, &delivery->arena, 512);
            enum error_code code = verb_finish(&delivery->verb, &err);
            if (code == ERR_OK)
                verb_write(&delivery->verb, &answer);
            reply(server, delivery, code, &answer, &err);
        } else {
            call_ran(server->world, delivery->call);
        }
        verb_call_release(&delivery->verb);
        delivery_free(delivery);
    }
}

enum error_code server_ask(struct server *server, enum verb_name verb, const char *request,
                           struct err *err)
{
    struct arena arena;
    struct buf answer;
    arena_init(&arena);
    buf_init(&answer, &arena, 512);
    struct verb_call call = {
        .engine = server->engine,
        .arena = &arena,
        .name = verb,
        .request = str_from(request),
        .actor = STR("god"),
    };
    enum error_code code = verb_respond(&call, &answer, err);
    arena_release(&arena);
    return code;
}

/* ---- turns ---- */

void server_close(struct server *server)
{
    if (server->engine == NULL)
        return;
    server->doomed = true; /* not even a last note that it was there */
    engine_close(server->engine);
    server->engine = NULL;
    answer_done(server, true);
    assert(server->deliveries == NULL);
    if (server->world->scenario->store == SIM_SQLITE)
        server_close_store(server);
}

void server_crash(struct server *server)
{
    struct world *world = server->world;
    server_close(server);
    /* The note is not synced. */
    if (world->scenario->store == SIM_SQLITE) {
        world->liveness_recorded = false;
        world->jump_at = 0;
    }
    server->turn_at = world->now + rng_between(&server->rng, 1, DOWN_MS_MAX);
    world->counts->crashes++;
    trace(world, "%s has crashed, and will be back at %lld ms", server->name,
          (long long)server->turn_at);
}

/* Notes whose callers are gone before a turn; work that they are given in it is wasted. */
static void note_gone(struct server *server)
{
    for (struct delivery *delivery = server->deliveries; delivery != NULL;
         delivery = delivery->next)
        delivery->gone = !is_wanted_now(delivery);
}

static void check_wasted(const struct server *server)
{
    for (const struct delivery *delivery = server->deliveries; delivery != NULL;
         delivery = delivery->next) {
        const struct call *call = &delivery->verb.call;
        if (delivery->done && delivery->gone && delivery->verb.name == VERB_claim &&
            call->ops[0]->code == ERR_OK && call->ops[0]->grant_count > 0)
            world_fail(server->world, "wasted", "#%u was given a job, and its caller was gone",
                       delivery->call->number);
    }
}

/* The server has nothing to do: a claim that waits here has nothing to take. Not at once after a
 * time in which the store was away, of which the engine has yet to see the end. */
static void check_waiting(const struct server *server)
{
    enum { RECOVERED_MS = 1500 };
    if (!server->world->healing || server->world->now < server->world->healed_at + RECOVERED_MS)
        return;
    for (const struct delivery *delivery = server->deliveries; delivery != NULL;
         delivery = delivery->next)
        if (delivery->verb.name == VERB_claim && is_wanted_now(delivery))
            ledger_check_idle(server->world, delivery->call);
}

void server_turn(struct server *server)
{
    struct world *world = server->world;
    int64_t wait_ms = 0;
    if (server->engine == NULL) {
        server_start(server);
        return;
    }
    bool on_sqlite = world->scenario->store == SIM_SQLITE;
    for (uint32_t i = 0; wait_ms == 0 && !server->doomed; i++) {
        if (on_sqlite)
            sqlite_world_before_turn(world);
        note_gone(server);
        engine_turn(server->engine, &wait_ms);
        check_wasted(server);
        if (!on_sqlite)
            ledger_read(world);
        else if (!server->doomed)
            sqlite_world_after_turn(world);
        if (i == TURNS_MAX) {
            world_fail(world, "busy", "%s has been busy for %d turns", server->name, TURNS_MAX);
            break;
        }
    }
    if (server->doomed) {
        server_crash(server);
        return;
    }
    answer_done(server, false);
    check_waiting(server);
    server->turn_at = world->now + (wait_ms > 0 ? wait_ms : 1);
}
