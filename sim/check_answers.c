/* What clients were answered: whether it is true.
 *
 *   answer       a submit is answered with its own job, or the one that has its key; what was
 *                recorded of an effect is given back as it was
 *   carried      a claim carries the effects since the last fresh start, as they are
 *   cancel_told  anyone who holds a lease hears that the job is to end
 *   heard        where nothing gets lost, every call is answered */
#include "checker.h"

/* ---- submits ---- */

static const struct recorded_job *job_called(const struct ledger *ledger, struct str id)
{
    for (uint32_t i = 0; i < ledger->job_count; i++)
        if (str_eq(ledger->jobs[i].text, id))
            return &ledger->jobs[i];
    return NULL;
}

/* Whether the request names this key, in this queue, and is the same submission; of a job that was
 * redacted there is no fingerprint to compare. */
static bool asks_for(const struct sim_call *call, const struct spec *spec, bool redacted)
{
    char words[128];
    (void)snprintf(words, sizeof words, "\"kind\":\"%.*s\"", STR_ARG(spec->kind));
    if (!call_says(call, words))
        return false;
    (void)snprintf(words, sizeof words, "\"%.*s\"", STR_ARG(spec->fingerprint));
    if (!redacted && !call_says(call, words))
        return false;
    (void)snprintf(words, sizeof words, "\"queue\":\"%.*s\"", STR_ARG(spec->queue));
    if (!call_says(call, words))
        return false;
    (void)snprintf(words, sizeof words, "\"idempotency_key\":\"%.*s\"",
                   STR_ARG(spec->idempotency_key));
    return call_says(call, words);
}

static void check_submit(const struct facts *facts, const struct fact *fact)
{
    struct world *world = facts->world;
    const struct sim_call *call = fact->call;
    const struct recorded_job *job = job_called(&world->ledger, said(world, call, "id"));
    const struct spec *spec = job == NULL ? NULL : spec_of(&world->ledger, job->id);
    /* Of copies without a key one may find its job's key taken, and a later one may not. */
    bool apart = !call_may_repeat(call) && call->copies > 1 &&
                 str_eq(said(world, call, "duplicate"), STR("true"));
    bool own = fact->place != 0 && fact->again == 0 && !apart;
    if (job == NULL)
        world_fail(world, "answer", "#%u was told of a job that is not there", call->number);
    else if (own && !uuid_eq(event_at(facts, fact->place)->job_id, job->id))
        world_fail(world, "answer", "#%u was told of another job", call->number);
    else if ((fact->place == 0 || apart) && spec != NULL &&
             !asks_for(call, spec, str_eq(said(world, call, "redacted"), STR("true"))))
        world_fail(world, "answer", "#%u was told of a job with another key", call->number);
}

/* ---- effects ---- */

static bool is_committed(const struct ledger *ledger, const struct sim_call *call,
                         struct str result)
{
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        if (event->type == EVENT_TOOL_RETURNED && str_eq(event->data.key, call->effect) &&
            str_eq(ledger->jobs[ledger->events[i].job].text, call->job) &&
            str_eq(event->data.result, result))
            return true;
    }
    return false;
}

/* Whether a person has said of an effect of the job that was in doubt that it is done. */
static bool is_settled(const struct world *world, struct str job)
{
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next)
        if ((call->verb == VERB_signal || call->verb == VERB_answer ||
             call->verb == VERB_answer_job) &&
            str_eq(call->job, job) && call_says(call, "\"done\""))
            return true;
    return false;
}

static void check_effect(const struct facts *facts, const struct sim_call *call)
{
    struct world *world = facts->world;
    struct str result = said(world, call, "result");
    bool settled = str_eq(result, STR("7")) && is_settled(world, call->job);
    if (!settled && !world->veiled && !is_committed(&world->ledger, call, result))
        world_fail(world, "answer", "#%u was given a result that nobody has committed",
                   call->number);
}

/* What became of an effect before a lease was given out; absent: it was not begun since the last
 * fresh start. */
static struct str effect_status(const struct ledger *ledger, const struct event *grant,
                                struct str key)
{
    struct str status = {NULL, 0};
    struct str asked = {NULL, 0}; /* the effect in doubt that a person is asked about */
    for (uint32_t i = 0; i < ledger->event_count; i++) {
        const struct event *event = &ledger->events[i].event;
        const struct event_data *data = &event->data;
        if (!uuid_eq(event->job_id, grant->job_id) || event->version >= grant->version)
            continue;
        if (event->type == EVENT_JOB_REQUEUED && data->fresh)
            status = (struct str){NULL, 0};
        if (!str_eq(data->step, grant->data.step))
            continue;
        if (event->type == EVENT_JOB_WAITING || event->type == EVENT_STEP_NEEDS_USER)
            asked = data->effect;
        if (str_eq(asked, key) && data->resolution == RESOLVE_DONE)
            status = STR("recorded");
        if (!str_eq(data->key, key))
            continue;
        if (event->type == EVENT_TOOL_CALLED)
            status = STR("open");
        else if (event->type == EVENT_TOOL_RETURNED)
            status = STR("recorded");
        else if (event->type == EVENT_TOOL_ABORTED)
            status = STR("aborted");
    }
    return status;
}

/* Not of a claim that was sent again, since by then its holder may have begun more; and what could
 * not be read may be left out, where the answer says so. */
static void check_carried(const struct facts *facts, const struct sim_call *call)
{
    static const char *const keys[] = {"alpha", "beta", "gamma"};
    struct world *world = facts->world;
    for (uint32_t i = 0; i < call->granted_count && call->copies == 1 && !world->veiled; i++) {
        const struct event *grant = grant_of(facts, call->granted[i]);
        char path[64];
        (void)snprintf(path, sizeof path, "claims.%u.effects_next", i);
        bool cut = str_is_set(said(world, call, path));
        for (size_t k = 0; grant != NULL && k < sizeof keys / sizeof keys[0]; k++) {
            (void)snprintf(path, sizeof path, "claims.%u.effects.%s.status", i, keys[k]);
            struct str told = said(world, call, path);
            struct str status = effect_status(&world->ledger, grant, str_from(keys[k]));
            if (!str_eq(told, status) && (str_is_set(told) || !cut))
                world_fail(world, "carried", "#%u was told something else of effect \"%s\"",
                           call->number, keys[k]);
        }
    }
}

/* ---- cancels ---- */

/* Whether a cancel that was answered before it had asked the holder of the lease to end. */
static void check_beat(const struct facts *facts, const struct sim_call *beat)
{
    struct world *world = facts->world;
    const struct event *grant = grant_of(facts, beat->token);
    if (grant == NULL || str_eq(said(world, beat, "cancel_requested"), STR("true")))
        return;
    for (const struct sim_call *call = world->calls; call != beat; call = call->next) {
        const struct fact *fact = &facts->of[call->number];
        const struct event *event = fact->place != 0 ? event_at(facts, fact->place) : NULL;
        if (call->verb == VERB_cancel && call->outcome == CALL_OK &&
            call->ended_at < beat->started_at && event != NULL &&
            event->type == EVENT_JOB_CANCEL_REQUESTED && uuid_eq(event->job_id, grant->job_id) &&
            event->version > grant->version)
            world_fail(world, "cancel_told", "#%u does not hear of #%u", beat->number,
                       call->number);
    }
}

/* ---- all of them ---- */

/* Whether nothing could get lost, or was late, while it was on its way. */
static bool must_be_heard(const struct world *world, const struct sim_call *call)
{
    bool quiet = (world->faults & ~(UINT32_C(1) << FAULT_STALL)) == 0;
    if (call->hangs_up)
        return false;
    return quiet || (world->healing && call->started_at > world->healed_at);
}

void check_answers(const struct facts *facts)
{
    struct world *world = facts->world;
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next) {
        const struct fact *fact = &facts->of[call->number];
        if (call->outcome == CALL_UNKNOWN && must_be_heard(world, call))
            world_fail(world, "heard", "#%u %.*s was never answered", call->number,
                       STR_ARG(verb_text(call->verb)));
        if (call->outcome != CALL_OK)
            continue;
        if (call->verb == VERB_submit)
            check_submit(facts, fact);
        else if (call->verb == VERB_effect_begin &&
                 str_eq(said(world, call, "status"), STR("recorded")))
            check_effect(facts, call);
        else if (verb_is_claim(call->verb))
            check_carried(facts, call);
        else if (call->verb == VERB_heartbeat)
            check_beat(facts, call);
    }
}
