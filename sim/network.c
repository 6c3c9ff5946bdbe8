/* Calls of clients over a network that loses, doubles and delays; and the log of them.
 *
 * A client that hears nothing sends the same request again, under the same key if it has one, a few
 * times. Then it does not know. */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

#include "world.h"

enum {
    DROP_PER_MILLE = 40,
    DOUBLE_PER_MILLE = 40,
    DELAY_PER_MILLE = 40,
    LATE_MS_MAX = 6000,
    TIMEOUT_MS = 3000,
    HANGS_UP_PER_MILLE = 60,
    TRIES_MAX = 3,
    KEYED_PER_MILLE = 200,   /* of those that need no key */
    UNKEYED_PER_MILLE = 100, /* of submits and appends, which may be carried out as often as they
                              * arrive, and are sent once */
    REQUEST_BYTES = 8192,
};

void next_mark(const struct world *world, char ret[MARK_BYTES])
{
    (void)snprintf(ret, MARK_BYTES, "call-%u.", world->call_count + 1);
}

static bool is_skipped(const struct world *world, const struct actor *actor)
{
    const struct scenario *scenario = world->scenario;
    for (uint32_t i = 0; i < scenario->skipped_count; i++)
        if (scenario->skipped[i].actor == actor->number && scenario->skipped[i].nth == actor->nth)
            return true;
    return false;
}

static void note_given(struct world *world, const struct actor *actor)
{
    struct sim_result *result = world->result;
    if (result->given_count == world->given_cap) {
        world->given_cap = world->given_cap == 0 ? 256 : world->given_cap * 2;
        result->given = need(realloc(result->given, world->given_cap * sizeof *result->given));
    }
    result->given[result->given_count++] =
        (struct sim_command){(uint16_t)actor->number, (uint16_t)actor->nth};
}

struct sim_call *say(struct world *world, struct actor *actor, enum verb_name verb,
                     const char *format, ...)
{
    struct sim_call *call = need(arena_zalloc(&world->arena, 1, sizeof *call));
    char text[REQUEST_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(len < (int)sizeof text);

    next_mark(world, call->mark);
    call->number = ++world->call_count;
    call->actor = actor;
    call->verb = verb;
    call->request = arena_copy(&world->arena, (struct str){text, (size_t)len});
    call->expected_version = -1;
    call->started_at = world->now;
    call->ended_at = NEVER;
    bool unkeyed =
        (verb == VERB_submit || verb == VERB_append) && rng_chance(&actor->rng, UNKEYED_PER_MILLE);
    if ((verb_needs_key(verb) && !unkeyed) || rng_chance(&actor->rng, KEYED_PER_MILLE))
        call->key = str_from(call->mark);
    return call;
}

bool call_may_repeat(const struct sim_call *call)
{
    if (call->parcel != NULL)
        return call_may_repeat(call->parcel);
    return str_is_set(call->key) || !verb_needs_key(call->verb);
}

void call_ran(struct world *world, struct sim_call *call)
{
    call->ran_at = world_store_time(world);
    for (uint32_t i = 0; i < call->part_count; i++)
        call->parts[i]->ran_at = call->ran_at;
}

/* ---- messages ---- */

static void post(struct world *world, struct message message)
{
    struct message *kept = need(arena_alloc(&world->arena, sizeof *kept));
    struct message **link = &world->messages;
    while (*link != NULL && (*link)->at <= message.at)
        link = &(*link)->next;
    message.next = *link;
    *kept = message;
    *link = kept;
}

static int64_t travel_ms(struct world *world, struct rng *luck)
{
    int64_t ms = rng_between(luck, 0, 15);
    return world_strikes(world, luck, FAULT_DELAY, DELAY_PER_MILLE)
               ? ms + rng_between(luck, 200, LATE_MS_MAX)
               : ms;
}

/* Sends a request, to any server, or a reply: once, twice or not at all. */
static uint32_t dispatch(struct world *world, struct rng *luck, struct message message,
                         bool request)
{
    uint32_t copies = world_strikes(world, luck, FAULT_DOUBLE, DOUBLE_PER_MILLE) ? 2 : 1;
    if (world_strikes(world, luck, FAULT_DROP, DROP_PER_MILLE)) {
        trace(world, "      #%u is lost on its way%s", message.call->number,
              request ? "" : " back");
        copies--;
    }
    for (uint32_t i = 0; i < copies; i++) {
        message.at = world->now + travel_ms(world, luck);
        if (request)
            message.server = &world->servers[rng_below(luck, world->server_count)];
        post(world, message);
    }
    return copies;
}

static void send_copies(struct world *world, struct sim_call *call)
{
    struct actor *actor = call->actor;
    struct message message = {.call = call};
    call->tries++;
    call->copies += dispatch(world, &actor->luck, message, true);
    for (uint32_t i = 0; i < call->part_count; i++)
        call->parts[i]->copies = call->copies;
    actor->wake_at = world->now + TIMEOUT_MS;
    call->hangs_up = verb_is_claim(call->verb) && call->parcel == NULL &&
                     rng_chance(&actor->luck, HANGS_UP_PER_MILLE);
    if (call->hangs_up)
        actor->wake_at = world->now + rng_between(&actor->luck, 20, 900);
}

static void log_call(struct world *world, struct sim_call *call)
{
    if (world->last_call != NULL)
        world->last_call->next = call;
    else
        world->calls = call;
    world->last_call = call;
}

static void set_off(struct world *world, struct sim_call *call)
{
    trace(world, "%.*s #%u %.*s %.*s%s", STR_ARG(call->actor->name), call->number,
          STR_ARG(verb_text(call->verb)), STR_ARG(call->request),
          call_may_repeat(call) ? "" : " (without a key)");
    call->actor->call = call;
    send_copies(world, call);
}

void call_send(struct world *world, struct sim_call *call)
{
    struct actor *actor = call->actor;
    bool skipped = !world->healing && is_skipped(world, actor);
    log_call(world, call);
    if (!world->healing) {
        note_given(world, actor);
        world->commands_left--;
        world->counts->commands++;
    }
    world->counts->calls++;
    actor->nth++;
    if (skipped) {
        call->outcome = CALL_SKIPPED;
        call->ended_at = world->now;
    } else if (actor->gathering) {
        actor->gathered[actor->gathered_count++] = call;
    } else {
        set_off(world, call);
    }
}

/* Whether an atomic batch takes such calls: what is about jobs, steps and leases. */
static bool may_be_atomic(const struct actor *actor)
{
    for (uint32_t i = 0; i < actor->gathered_count; i++) {
        enum verb_name verb = actor->gathered[i]->verb;
        if (verb == VERB_redact || verb == VERB_resource_put || verb == VERB_resource_delete ||
            verb == VERB_pause || verb == VERB_resume || verb == VERB_kind_set)
            return false;
    }
    return true;
}

void parcel_send(struct world *world, struct actor *actor)
{
    enum { ATOMIC_PER_MILLE = 400 };
    struct buf ops;
    if (actor->gathered_count == 0)
        return;
    buf_init(&ops, &world->arena, 1024);
    for (uint32_t i = 0; i < actor->gathered_count; i++) {
        const struct sim_call *part = actor->gathered[i];
        buf_addf(&ops, "%s{\"op\":\"%.*s\",", i > 0 ? "," : "", STR_ARG(verb_text(part->verb)));
        buf_add(&ops, (struct str){part->request.at + 1, part->request.len - 1});
    }
    struct str text = buf_str(&ops);
    bool atomic = may_be_atomic(actor) && rng_chance(&actor->rng, ATOMIC_PER_MILLE);
    struct sim_call *call = say(world, actor, VERB_batch, "{\"ops\":[%.*s]%s}", (int)text.len,
                                text.at, atomic ? ",\"atomic\":true" : "");
    for (uint32_t i = 0; i < actor->gathered_count; i++) {
        call->parts[call->part_count++] = actor->gathered[i];
        actor->gathered[i]->parcel = call;
    }
    actor->gathered_count = 0;
    log_call(world, call);
    world->counts->calls++;
    set_off(world, call);
}

/* What a code says of the call. Unavailable may mean that it was carried out, and nobody was there
 * to say so. */
static enum call_outcome outcome_of(enum error_code code)
{
    return code == ERR_OK ? CALL_OK : code == ERR_UNAVAILABLE ? CALL_UNKNOWN : CALL_REFUSED;
}

static void call_over(struct world *world, struct sim_call *call, enum call_outcome outcome)
{
    struct actor *actor = call->actor;
    call->outcome = outcome;
    call->ended_at = world->now;
    for (uint32_t i = 0; i < CLAIMS_MAX && verb_is_claim(call->verb) && outcome == CALL_OK; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "claims.%u.lease.token", i);
        call->granted[i] = said(world, call, path);
        call->granted_count += str_is_set(call->granted[i]);
    }
    actor->call = NULL;
    actor->wake_at = world->now;
    actor_told(world, actor, call);
    world->counts->ok += outcome == CALL_OK;
    world->counts->refused += outcome == CALL_REFUSED;
    world->counts->unknown += outcome == CALL_UNKNOWN;
    world->counts->many += call->granted_count > 1;
    world->counts->verbs[call->verb] += outcome == CALL_OK;
}

/* What came of a part of a batch, as the batch's answer has it. */
static enum error_code code_of(struct str status, struct str name)
{
    if (str_is_set(status) && status.at[0] == '2')
        return ERR_OK;
#define ERROR(symbol, number, text, http, exit, title)                                             \
    if (str_eq(name, STR(text)))                                                                   \
        return ERR_##symbol;
#include "base/error.def"
#undef ERROR
    return ERR_CORRUPT;
}

/* A batch is over, and so is each of its parts, in its own way. */
static void parcel_over(struct world *world, struct sim_call *parcel, enum call_outcome outcome)
{
    call_over(world, parcel, outcome);
    for (uint32_t i = 0; i < parcel->part_count; i++) {
        struct sim_call *part = parcel->parts[i];
        part->code = parcel->code;
        if (outcome == CALL_OK) {
            char body[32];
            char status[32];
            (void)snprintf(body, sizeof body, "results.%u.body", i);
            (void)snprintf(status, sizeof status, "results.%u.status", i);
            part->answer = said(world, parcel, body);
            part->code = code_of(said(world, parcel, status), said(world, part, "code"));
            trace(world, "      #%u: %s", part->number, error_info(part->code)->name);
        }
        call_over(world, part, outcome == CALL_OK ? outcome_of(part->code) : outcome);
    }
}

void call_times_out(struct world *world, struct sim_call *call)
{
    if (call_may_repeat(call) && call->tries < TRIES_MAX && !call->hangs_up) {
        trace(world, "%.*s sends #%u again", STR_ARG(call->actor->name), call->number);
        send_copies(world, call);
        return;
    }
    trace(world, "%.*s never hears of #%u", STR_ARG(call->actor->name), call->number);
    parcel_over(world, call, CALL_UNKNOWN);
}

void network_reply(struct world *world, struct sim_call *call, enum error_code code,
                   struct str answer)
{
    struct message message = {.call = call, .code = code, .answer = answer};
    (void)dispatch(world, &call->actor->luck, message, false);
}

/* Stands for the answer in the trace, where all of it would be too long (FNV-1a). */
static uint32_t sum_of(struct str answer)
{
    uint32_t sum = UINT32_C(0x811c9dc5);
    for (size_t i = 0; i < answer.len; i++)
        sum = (sum ^ (uint8_t)answer.at[i]) * UINT32_C(0x01000193);
    return sum;
}

static bool tells_redacted(struct str answer)
{
    static const char words[] = "\"redacted\":true";
    for (size_t i = 0; i + sizeof words <= answer.len; i++)
        if (memcmp(answer.at + i, words, sizeof words - 1) == 0)
            return true;
    return false;
}

/* Whether two responses to one request under a key must have the same bytes. A claim that found
 * nothing is tried afresh, and what was redacted meanwhile is not shown again. */
static bool must_be_same(const struct sim_call *call, const struct message *message)
{
    return str_is_set(call->key) && verb_needs_key(call->verb) && !verb_is_claim(call->verb) &&
           call->verb != VERB_batch && call->outcome == CALL_OK && message->code == ERR_OK &&
           !tells_redacted(call->answer) && !tells_redacted(message->answer);
}

static void hear(struct world *world, const struct message *message)
{
    struct sim_call *call = message->call;
    if (call->outcome != CALL_OPEN) {
        trace(world, "      #%u is answered again, too late", call->number);
        if (must_be_same(call, message) && !str_eq(call->answer, message->answer))
            world_fail(world, "same", "#%u was told something else when it was sent again",
                       call->number);
        return;
    }
    trace(world, "%.*s #%u: %s (%08x)%s%.*s", STR_ARG(call->actor->name), call->number,
          error_info(message->code)->name, sum_of(message->answer),
          message->code == ERR_OK ? "" : " ",
          STR_ARG(message->code == ERR_OK ? STR("") : message->answer));
    call->code = message->code;
    call->answer = message->answer;
    if (message->code == ERR_UNAVAILABLE && call_may_repeat(call) && call->tries < TRIES_MAX)
        call->actor->wake_at = world->now + rng_between(&call->actor->luck, 50, 500);
    else
        parcel_over(world, call, outcome_of(message->code));
}

void network_arrive(struct world *world)
{
    struct message *message = world->messages;
    struct server *server = message->server;
    world->messages = message->next;
    if (server == NULL) {
        hear(world, message);
    } else if (world->now < server->paused_until) {
        message->at = server->paused_until;
        post(world, *message);
    } else {
        server_receive(server, message->call);
    }
}
