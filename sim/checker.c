/* What clients were told, held against what was committed.
 *
 *   present      what was acknowledged is there; not of queues and resources
 *   absent       what was refused is not
 *   once         nothing is there twice, whether it was acknowledged or not
 *   order        what began after something else had been acknowledged stands behind it
 *   stale_read   who looks sees at least what had been acknowledged before
 *   forged       a token that nobody was given opens nothing
 *   two_owners   no attempt is given to two
 *   slots        no resource is given more steps than it has room for
 *   token        a claim that was answered gave out the lease that the history has
 *   version      an append stands where it was expected
 *   lease_end    no write comes after the end of its lease (in worlds without breaks)
 *   reaped_early no lease is taken away before the time that its holder was told
 *   early_signal a wait takes a signal that came before it, the oldest that is one of the
 *                choices, unless the wait asks a person
 *   key          a job's idempotency key is there once
 *   policy       a job with a plan ends as its policy says; no heartbeat takes more than half of
 *                its lease
 *   paused       a queue that is paused gives nothing away
 *
 * A call finds its events again by its mark. check_answers.c has the rules about what is answered,
 * check_store.c those about the store itself. */
#include <stdlib.h>

#include "base/json.h"
#include "base/times.h"
#include "checker.h"
#include "core/failure.h"
#include "core/plan.h"
#include "pawl.h"

/* ---- which command a verb gives ---- */

static enum command_type command_of(enum verb_name verb)
{
    if (verb == VERB_claim_steps)
        return COMMAND_STEP_CLAIM;
    if (verb == VERB_answer_job)
        return COMMAND_ANSWER;
    /* All others are called as their commands are. */
    return command_type_parse(verb_text(verb));
}

/* ---- gathering ---- */

static void note_fact(struct fact *fact, const struct event *event, uint32_t place)
{
    uint64_t type = UINT64_C(1) << event->type;
    fact->again += (fact->types & type) != 0 && !verb_is_claim(fact->call->verb);
    fact->types |= type;
    if (event_type_begins_lease(event->type)) {
        fact->apart = fact->apart || (fact->grants > 0 && event->at != fact->granted_at);
        fact->granted_at = event->at;
        if (fact->grants < CLAIMS_MAX)
            fact->granted[fact->grants] = event->job_id;
        fact->grants++;
    }
    if (fact->place == 0)
        fact->place = place;
}

/* An event may tell of several calls; those that did not cause it do not count, nor does a signal
 * that is only taken now. */
static void note_event(struct facts *facts, const struct event *event, uint32_t place)
{
    const char *at = str_start(event->payload);
    const char *end = at + event->payload.len;
    uint32_t last = 0;
    while (event->data.signal_version == 0 && end - at > 5) {
        at = memchr(at, 'c', (size_t)(end - at));
        if (at == NULL || end - at <= 5)
            return;
        if (memcmp(at, "call-", 5) != 0) {
            at++;
            continue;
        }
        uint32_t number = 0;
        for (at += 5; at < end && *at >= '0' && *at <= '9'; at++)
            number = number * 10 + (uint32_t)(*at - '0');
        if (number == 0 || number > facts->world->call_count || number == last)
            continue;
        struct fact *fact = &facts->of[number];
        if (fact->call != NULL && command_of(fact->call->verb) == event->cause.command)
            note_fact(fact, event, place);
        last = number;
    }
}

static struct facts gather(struct world *world)
{
    const struct ledger *ledger = &world->ledger;
    struct facts facts = {
        .world = world,
        .of = need(calloc(world->call_count + (size_t)1, sizeof *facts.of)),
    };
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next) {
        struct fact *fact = &facts.of[call->number];
        fact->call = call;
        for (uint32_t i = 0; i < call->granted_count; i++)
            if (!token_parse(call->granted[i], &fact->leases[i]))
                world_fail(world, "token", "#%u was given what is no token", call->number);
    }
    for (uint32_t i = 0; i < ledger->event_count; i++)
        note_event(&facts, &ledger->events[i].event, i + 1);
    return facts;
}

const struct event *event_at(const struct facts *facts, uint32_t place)
{
    return &facts->world->ledger.events[place - 1].event;
}

/* ---- present, absent, once ---- */

static bool is_said(struct world *world, const struct sim_call *call, const char *path,
                    struct str text)
{
    return str_eq(said(world, call, path), text);
}

bool call_says(const struct sim_call *call, const char *words)
{
    size_t len = strlen(words);
    for (size_t i = 0; i + len <= call->request.len; i++)
        if (memcmp(call->request.at + i, words, len) == 0)
            return true;
    return false;
}

const struct event *grant_of(const struct facts *facts, struct str token)
{
    const struct ledger *ledger = &facts->world->ledger;
    uint8_t hash[TOKEN_HASH_LEN];
    token_hash(token, hash);
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        if (event_type_begins_lease(event->type) &&
            memcmp(event->data.token_hash, hash, TOKEN_HASH_LEN) == 0)
            return event;
    }
    return NULL;
}

/* Whether an event is about the job, or the step of it, that the token was given out for, and does
 * not stand before that. */
static bool is_under(const struct event *event, const struct event *grant)
{
    return uuid_eq(event->job_id, grant->job_id) && event->version >= grant->version &&
           str_eq(event->cause.step, grant->data.step);
}

/* Whether there is an event of that command under that token. An operator's verdict ends the lease
 * of the worker, whose own is then taken for the same if it decides the same. */
static bool caused(const struct facts *facts, enum command_type command, const struct event *grant)
{
    const struct ledger *ledger = &facts->world->ledger;
    for (uint32_t i = 0; grant != NULL && i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        bool by_token = event->cause.attempt == grant->data.attempt ||
                        (command == COMMAND_VERDICT && event->cause.attempt == 0);
        if (event->cause.command == command && by_token && is_under(event, grant))
            return true;
    }
    return false;
}

/* Whether the job has been cancelled, or asked to end, before it was asked so again. */
static bool was_cancelled(const struct facts *facts, const struct sim_call *call)
{
    const struct ledger *ledger = &facts->world->ledger;
    bool hard = call_says(call, "\"hard\"");
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        enum event_type type = ledger->events[i].event.type;
        if ((type == EVENT_JOB_CANCELLED || (type == EVENT_JOB_CANCEL_REQUESTED && !hard)) &&
            str_eq(ledger->jobs[ledger->events[i].job].text, call->job))
            return true;
    }
    return false;
}

/* Whether the attempt has begun to run, by itself, or one with its claim. */
static bool has_started(const struct facts *facts, const struct event *grant)
{
    const struct ledger *ledger = &facts->world->ledger;
    for (uint32_t i = 0; grant != NULL && i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        bool runs = event->type == EVENT_STEP_RUNNING || event->type == EVENT_JOB_RUNNING;
        if (runs && is_under(event, grant) &&
            (event->cause.command != COMMAND_START || event->cause.attempt == grant->data.attempt))
            return true;
    }
    return false;
}

/* Whether the tool was called for this attempt. */
static bool tool_called(const struct facts *facts, struct str key, const struct token *token)
{
    const struct ledger *ledger = &facts->world->ledger;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        if (event->type == EVENT_TOOL_CALLED && event->data.attempt == token->attempt &&
            uuid_eq(event->job_id, token->job) && str_eq(event->data.key, key))
            return true;
    }
    return false;
}

/* Whether a call that went well has left what it must. */
static bool is_present(const struct facts *facts, const struct fact *fact)
{
    const struct sim_call *call = fact->call;
    struct world *world = facts->world;
    struct token token = {0};
    bool by_token = str_is_set(call->token) && token_parse(call->token, &token);
    bool present = fact->place != 0 || world->veiled;
    switch (call->verb) {
    case VERB_submit:
        return present || is_said(world, call, "duplicate", STR("true"));
    case VERB_signal:
        return present || !call_says(call, call->mark) ||
               is_said(world, call, "signal", STR("repeated"));
    case VERB_claim:
    case VERB_claim_steps:
        return present || call->granted_count == 0;
    case VERB_effect_begin:
        return !is_said(world, call, "status", STR("execute")) || world->veiled ||
               tool_called(facts, call->effect, &token);
    case VERB_effect_commit: /* with the begin that follows it; the mark of an end is in the end */
        return present &&
               (!str_is_set(call->next_effect) || !is_said(world, call, "status", STR("execute")) ||
                world->veiled || tool_called(facts, call->next_effect, &token));
    case VERB_complete:
    case VERB_effect_abort:
        return present;
    case VERB_fail: /* which may be said again in other words where these are not kept */
    case VERB_abandon:
        return present || (is_said(world, call, "repeated", STR("true")) &&
                           caused(facts, command_of(call->verb), grant_of(facts, call->token)));
    case VERB_wait: /* which a signal that came before may end at once */
    case VERB_release:
    case VERB_cancelled:
        return world->veiled || caused(facts, command_of(call->verb), grant_of(facts, call->token));
    case VERB_verdict:
        return by_token && !world->veiled
                   ? caused(facts, COMMAND_VERDICT, grant_of(facts, call->token))
                   : present;
    case VERB_append:
    case VERB_requeue:
    case VERB_dead_letter:
    case VERB_plan:
    case VERB_answer:
    case VERB_answer_job:
        return present;
    case VERB_start:
        return world->veiled || has_started(facts, grant_of(facts, call->token));
    case VERB_cancel:
        return present || was_cancelled(facts, call);
    default: /* reads, and what is in no history; redact: see check_store.c */
        return true;
    }
}

static bool has_ended(const struct facts *facts, struct uuid job)
{
    const struct ledger *ledger = &facts->world->ledger;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        if (uuid_eq(event->job_id, job) && event_type_class(event->type) == EVENT_CLASS_STATE &&
            job_status_terminal(event_target(event)))
            return true;
    }
    return false;
}

/* Whether a claim was told of every lease that it was given. One that was sent again is not told of
 * leases of jobs that were deleted or redacted since, which they can only be when they have ended.
 */
static bool told_of_all(const struct facts *facts, const struct fact *fact)
{
    const struct sim_call *call = fact->call;
    uint32_t untold = 0;
    if (fact->grants > CLAIMS_MAX)
        return false;
    for (uint32_t i = 0; i < fact->grants && call->copies > 1; i++) {
        bool told = false;
        for (uint32_t k = 0; k < call->granted_count; k++)
            told = told || uuid_eq(fact->leases[k].job, fact->granted[i]);
        untold += !told && has_ended(facts, fact->granted[i]);
    }
    return fact->grants - untold == call->granted_count;
}

static void check_call(const struct facts *facts, const struct fact *fact)
{
    const struct sim_call *call = fact->call;
    struct world *world = facts->world;
    if (call->outcome == CALL_OK && call->forged)
        world_fail(world, "forged", "#%u was accepted with a forged token", call->number);
    if (call->forged && fact->place != 0)
        world_fail(world, "forged", "#%u was carried out with a forged token", call->number);
    if (call->outcome == CALL_OK && !is_present(facts, fact))
        world_fail(world, "present", "#%u %.*s was acknowledged and left nothing", call->number,
                   STR_ARG(verb_text(call->verb)));
    /* Of several copies one may be refused and another not. */
    if (call->outcome == CALL_REFUSED && call->copies == 1 && fact->place != 0)
        world_fail(world, "absent", "#%u %.*s was refused and has been carried out", call->number,
                   STR_ARG(verb_text(call->verb)));
    if (call->outcome == CALL_SKIPPED && fact->place != 0)
        world_fail(world, "absent", "#%u was never sent and has been carried out", call->number);
    /* Without a key each copy may be; it has one event with its mark. */
    bool claimed = verb_is_claim(call->verb);
    if (fact->again > (call_may_repeat(call) ? 0 : call->copies - 1) || (claimed && fact->apart))
        world_fail(world, "once", "#%u %.*s was carried out again", call->number,
                   STR_ARG(verb_text(call->verb)));
    if (claimed && call->granted_count > 0 && !told_of_all(facts, fact) && !world->veiled)
        world_fail(world, "token", "#%u was given %u leases, and the history has %u", call->number,
                   call->granted_count, fact->grants);
    if (call->expected_version >= 0 && fact->place != 0 &&
        event_at(facts, fact->place)->version != call->expected_version + 1)
        world_fail(world, "version", "#%u expected version %lld and got %lld", call->number,
                   (long long)call->expected_version,
                   (long long)event_at(facts, fact->place)->version);
}

/* ---- order ---- */

/* Whether its answer told of what is there. A claim that found nothing leaves no trace, nor
 * does a submit that found its key taken; another copy of either may fare better later. */
static bool is_told(const struct facts *facts, const struct fact *fact)
{
    const struct sim_call *call = fact->call;
    bool traceless =
        (verb_is_claim(call->verb) && call->granted_count == 0) ||
        (call->verb == VERB_submit && is_said(facts->world, call, "duplicate", STR("true")));
    return call->outcome == CALL_OK && !traceless;
}

static void check_read(const struct facts *facts, const struct sim_call *call)
{
    struct world *world = facts->world;
    struct str text = said(world, call, "version");
    long long version = 0;
    for (size_t i = 0; i < text.len; i++)
        version = version * 10 + (text.at[i] - '0');
    for (const struct sim_call *before = world->calls; before != NULL; before = before->next) {
        const struct fact *fact = &facts->of[before->number];
        if (fact->place == 0 || before->ended_at >= call->started_at || !is_told(facts, fact))
            continue;
        const struct event *event = event_at(facts, fact->place);
        uint32_t job = world->ledger.events[fact->place - 1].job;
        if (str_eq(world->ledger.jobs[job].text, call->job) && event->version > version)
            world_fail(world, "stale_read", "#%u saw version %lld after #%u had been told %lld",
                       call->number, version, before->number, (long long)event->version);
    }
}

static void check_order(const struct facts *facts)
{
    struct world *world = facts->world;
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next) {
        const struct fact *fact = &facts->of[call->number];
        if (call->verb == VERB_get && call->outcome == CALL_OK)
            check_read(facts, call);
        if (fact->place == 0)
            continue;
        for (const struct sim_call *before = world->calls; before != call; before = before->next) {
            const struct fact *older = &facts->of[before->number];
            if (is_told(facts, older) && before->ended_at < call->started_at &&
                older->place > fact->place)
                world_fail(world, "order", "#%u began after #%u had ended, and stands before it",
                           call->number, before->number);
        }
    }
}

/* ---- leases ---- */

static bool same_lease(const struct token *a, const struct token *b)
{
    return uuid_eq(a->job, b->job) && a->of_step == b->of_step && a->attempt == b->attempt;
}

/* Whether one of the leases that the other call was given is this one. */
static bool is_given(const struct fact *fact, const struct token *lease)
{
    for (uint32_t i = 0; fact->call != NULL && i < fact->call->granted_count; i++)
        if (same_lease(&fact->leases[i], lease))
            return true;
    return false;
}

/* The attempts of steps begin anew with some plans, so only jobs are held apart by theirs. */
static void check_lease(const struct facts *facts, const struct fact *fact, uint32_t nth)
{
    struct world *world = facts->world;
    uint32_t number = fact->call->number;
    const struct token *lease = &fact->leases[nth];
    const struct event *grant = grant_of(facts, fact->call->granted[nth]);
    bool right = grant == NULL
                     ? world->veiled
                     : uuid_eq(grant->job_id, lease->job) && grant->data.attempt == lease->attempt;
    if (!right)
        world_fail(world, "token", "#%u was given a token that the history does not have", number);
    for (uint32_t j = number + 1; j <= world->call_count && !lease->of_step; j++)
        if (is_given(&facts->of[j], lease))
            world_fail(world, "two_owners", "#%u and #%u were both given attempt %lld", number, j,
                       (long long)lease->attempt);
}

/* Each of those who work on steps has a resource of its own. */
static void check_slots(const struct facts *facts, const struct sim_call *parcel)
{
    uint32_t given = parcel->granted_count;
    for (uint32_t i = 0; i < parcel->part_count; i++)
        given += parcel->parts[i]->granted_count;
    if (parcel->actor->role == ROLE_STEPPER && given > RESOURCE_SLOTS)
        world_fail(facts->world, "slots", "#%u was given %u steps", parcel->number, given);
}

static void check_owners(const struct facts *facts)
{
    for (const struct sim_call *call = facts->world->calls; call != NULL; call = call->next) {
        check_slots(facts, call);
        for (uint32_t i = 0; i < call->granted_count; i++)
            check_lease(facts, &facts->of[call->number], i);
    }
}

/* Until when a lease can have lasted: as it was given, and longer with each beat. */
static int64_t lease_bound(const struct facts *facts, const struct event *write)
{
    const struct ledger *ledger = &facts->world->ledger;
    const struct event *grant = NULL;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        if (uuid_eq(event->job_id, write->job_id) && event->version <= write->version &&
            event_type_begins_lease(event->type) && event->data.attempt == write->cause.attempt &&
            event->data.expires_at > 0 && str_eq(event->data.step, write->cause.step))
            grant = event;
    }
    if (grant == NULL)
        return NEVER; /* the checker of core says what it thinks of that */
    int64_t beats_ms = 2 * grant->data.heartbeat_ms;
    int64_t lasts_ms = beats_ms < grant->data.lease_ttl_ms ? beats_ms : grant->data.lease_ttl_ms;
    int64_t bound = grant->data.expires_at;
    for (const struct sim_call *call = facts->world->calls; call != NULL; call = call->next) {
        struct token token;
        if ((call->verb != VERB_heartbeat && call->verb != VERB_start) || call->ran_at == 0 ||
            !token_parse(call->token, &token) || !uuid_eq(token.job, write->job_id) ||
            token.attempt != write->cause.attempt)
            continue;
        if (call->ran_at + lasts_ms > bound)
            bound = call->ran_at + lasts_ms;
    }
    return bound;
}

static void check_lease_ends(const struct facts *facts)
{
    struct world *world = facts->world;
    const struct ledger *ledger = &world->ledger;
    for (uint32_t i = 0; i < ledger->event_count && world->calm; i++) {
        const struct event *event = &ledger->events[i].event;
        if (command_type_by(event->cause.command) == COMMAND_BY_WORKER &&
            event->cause.attempt > 0 && event->at >= lease_bound(facts, event))
            world_fail(world, "lease_end", "job %u: version %lld was written after its lease",
                       ledger->events[i].job + 1, (long long)event->version);
    }
}

/* When the lease of a job's attempt was taken away; NEVER: it was not. */
static int64_t reaped_at(const struct ledger *ledger, const struct token *token)
{
    int64_t attempt = 0;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        if (!uuid_eq(event->job_id, token->job))
            continue;
        if (event->type == EVENT_JOB_LEASED)
            attempt = event->data.attempt;
        else if (event->cause.command == COMMAND_EXPIRE && !str_is_set(event->cause.step) &&
                 attempt == token->attempt)
            return event->at;
    }
    return NEVER;
}

/* Of jobs only: steps are also lost with their resources. */
static void check_told(const struct facts *facts, const struct sim_call *call,
                       struct str token_text, struct str until_text)
{
    struct world *world = facts->world;
    struct token token;
    int64_t until;
    if (token_parse(token_text, &token) && !token.of_step && time_parse(until_text, &until) &&
        reaped_at(&world->ledger, &token) < until)
        world_fail(world, "reaped_early", "#%u was told that its lease would last longer",
                   call->number);
}

static void check_reaper(const struct facts *facts)
{
    struct world *world = facts->world;
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next) {
        for (uint32_t i = 0; i < call->granted_count; i++) {
            char path[40];
            (void)snprintf(path, sizeof path, "claims.%u.lease.expires_at", i);
            check_told(facts, call, call->granted[i], said(world, call, path));
        }
        if ((call->verb == VERB_heartbeat || call->verb == VERB_start) && call->outcome == CALL_OK)
            check_told(facts, call, call->token, said(world, call, "expires_at"));
    }
}

/* ---- signals and keys ---- */

/* The oldest signal that was stored before `place` and not taken, and that the wait which begins or
 * is skipped there may take; NULL: none. */
static const struct event *oldest_stored(struct world *world, uint32_t place)
{
    const struct ledger *ledger = &world->ledger;
    const struct recorded_event *waiting = &ledger->events[place];
    struct str key = waiting->event.data.correlation_key;
    struct str choices = waiting->event.data.choices;
    for (uint32_t i = 0; i < place; i++) {
        const struct recorded_event *stored = &ledger->events[i];
        bool taken = false;
        if (stored->job != waiting->job || stored->event.type != EVENT_SIGNAL_RECEIVED ||
            str_is_set(stored->event.data.step) || stored->event.data.signal_version != 0 ||
            !str_eq(stored->event.data.correlation_key, key) ||
            (str_is_set(choices) &&
             !choices_have(choices, stored->event.data.payload, &world->arena)))
            continue;
        for (uint32_t j = i + 1; j < place && !taken; j++)
            taken = ledger->events[j].job == stored->job &&
                    ledger->events[j].event.data.signal_version == stored->event.version;
        if (!taken)
            return &stored->event;
    }
    return NULL;
}

/* A question to a person is not answered in advance. A wait that ends before it blocks says what it
 * took. */
static void check_signals(struct world *world)
{
    const struct ledger *ledger = &world->ledger;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        bool blocks = event->type == EVENT_JOB_WAITING && event->cause.command == COMMAND_WAIT &&
                      event->data.wait_type != WAIT_HUMAN;
        bool takes = event->type == EVENT_WAIT_COMPLETED && event->data.signal_version != 0;
        if ((!blocks && !takes) || !str_is_set(event->data.correlation_key))
            continue;
        const struct event *stored = oldest_stored(world, i);
        if (blocks && stored != NULL)
            world_fail(world, "early_signal", "job %u waits for \"%.*s\", which had come",
                       ledger->events[i].job + 1, STR_ARG(event->data.correlation_key));
        if (takes && (stored == NULL || stored->version != event->data.signal_version))
            world_fail(world, "early_signal", "job %u took signal %lld before its turn",
                       ledger->events[i].job + 1, (long long)event->data.signal_version);
    }
}

static void check_keys(struct world *world)
{
    const struct ledger *ledger = &world->ledger;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct spec *spec = ledger->events[i].event.data.spec;
        if (spec == NULL || !str_is_set(spec->idempotency_key) ||
            ledger->jobs[ledger->events[i].job].gone)
            continue;
        for (uint32_t j = i + 1; j < ledger->event_count; j++) {
            const struct spec *other = ledger->events[j].event.data.spec;
            if (other != NULL && str_eq(spec->idempotency_key, other->idempotency_key) &&
                str_eq(spec->queue, other->queue))
                world_fail(world, "key", "jobs %u and %u have the key \"%.*s\"",
                           ledger->events[i].job + 1, ledger->events[j].job + 1,
                           STR_ARG(spec->idempotency_key));
        }
    }
}

/* ---- terms and policies ---- */

/* Of several steps that failed the last one may not be the one to blame, and then it is not named.
 */
static void check_planned_end(struct world *world, const struct recorded_event *recorded)
{
    const struct event *event = &recorded->event;
    const struct spec *spec = spec_of(&world->ledger, event->job_id);
    bool dead = event->type == EVENT_JOB_DEAD_LETTERED;
    if ((!dead && event->type != EVENT_JOB_FAILED) || spec == NULL ||
        !str_eq(event->data.reason, STR("step_failed")) ||
        !str_is_set(json_member(event->data.error, STR("step"))))
        return;
    enum error_class class = failure_class_of(event->data.error);
    bool final = class == CLASS_PERMANENT || class == CLASS_VALIDATION;
    enum exhausted_policy then = final ? spec->retry.on_permanent : spec->retry.on_exhausted;
    if (dead != (then == EXHAUSTED_DEAD_LETTER))
        world_fail(world, "policy", "job %u did not end as its policy says", recorded->job + 1);
}

static void check_terms(struct world *world)
{
    const struct ledger *ledger = &world->ledger;
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct spec *spec = ledger->events[i].event.data.spec;
        if (spec != NULL && spec->lease_ttl_ms > 0 && spec->heartbeat_ms > spec->lease_ttl_ms / 2)
            world_fail(world, "policy", "job %u has a heartbeat of more than half of its lease",
                       ledger->events[i].job + 1);
        check_planned_end(world, &ledger->events[i]);
    }
}

/* ---- queues that are paused ---- */

const struct spec *spec_of(const struct ledger *ledger, struct uuid job)
{
    const struct recorded_job *known = ledger_find(ledger, job);
    return known == NULL ? NULL : known->spec;
}

static bool names_queue(const struct sim_call *call, struct str queue)
{
    struct pawl_json name =
        pawl_json_get((struct pawl_json){call->request.at, call->request.len}, "queue");
    struct str text = {name.at + 1, name.len - 2}; /* without its quotes */
    return str_eq(text, queue);
}

/* Whether the queue may have been let go on between the pause and the claim: copies come late. */
static bool may_go_on(const struct world *world, const struct sim_call *pause,
                      const struct sim_call *claim)
{
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next)
        if (call->verb == VERB_resume && str_eq(call->request, pause->request) &&
            call->started_at <= claim->ended_at &&
            (call->outcome != CALL_OK || call->copies > 1 || call->ended_at >= pause->started_at))
            return true;
    return world->healing && claim->ended_at >= world->healed_at;
}

/* Whether a claim was given a job of a queue that was paused. */
static void check_pause(const struct facts *facts, const struct sim_call *claim, struct uuid job)
{
    struct world *world = facts->world;
    const struct spec *spec = spec_of(&world->ledger, job);
    for (const struct sim_call *pause = world->calls; spec != NULL && pause != claim;
         pause = pause->next)
        if (pause->verb == VERB_pause && pause->outcome == CALL_OK &&
            pause->ended_at < claim->started_at && names_queue(pause, spec->queue) &&
            !may_go_on(world, pause, claim))
            world_fail(world, "paused", "#%u was given a job of \"%.*s\", which #%u had paused",
                       claim->number, STR_ARG(spec->queue), pause->number);
}

static void check_pauses(const struct facts *facts)
{
    for (const struct sim_call *claim = facts->world->calls; claim != NULL; claim = claim->next)
        for (uint32_t i = 0; i < claim->granted_count; i++)
            check_pause(facts, claim, facts->of[claim->number].leases[i].job);
}

void check_world(struct world *world, bool ended)
{
    if (!check_store(world, ended))
        return;
    struct facts facts = gather(world);
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next)
        check_call(&facts, &facts.of[call->number]);
    check_order(&facts);
    check_owners(&facts);
    check_lease_ends(&facts);
    check_reaper(&facts);
    check_signals(world);
    check_keys(world);
    check_terms(world);
    check_pauses(&facts);
    check_answers(&facts);
    free(facts.of);
}
