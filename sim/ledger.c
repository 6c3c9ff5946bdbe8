/* The events as they are committed, read from the store itself after every turn of a server, so
 * that nothing is missed that is deleted or redacted later.
 *
 *   versions  those of a job have no gaps
 *   feed      what the store feeds can be read
 *   first     a queue gives its jobs away by priority, then by age
 *   woken     when the world is healed no claim waits, or ends with nothing, beside a job that is
 *             ready and that it may take (in worlds in memory with one server, and no queue that
 * was paused) */
#include <stdlib.h>

#include "world.h"

enum { WOKEN_MS = 200 }; /* by then anyone who waits for a job has it, or knows why not */

const struct recorded_job *ledger_find(const struct ledger *ledger, struct uuid id)
{
    for (uint32_t i = 0; i < ledger->job_count; i++)
        if (uuid_eq(ledger->jobs[i].id, id))
            return &ledger->jobs[i];
    return NULL;
}

bool ledger_is_brief(const struct recorded_job *job)
{
    return job->spec != NULL && str_eq(job->spec->kind, STR("brief")) &&
           (job->status == JOB_COMPLETED || job->status == JOB_CANCELLED);
}

static uint32_t find_job(struct world *world, struct uuid id)
{
    struct ledger *ledger = &world->ledger;
    const struct recorded_job *known = ledger_find(ledger, id);
    if (known != NULL)
        return (uint32_t)(known - ledger->jobs);
    if (ledger->job_count == ledger->job_cap) {
        ledger->job_cap = ledger->job_cap == 0 ? 64 : ledger->job_cap * 2;
        ledger->jobs = need(realloc(ledger->jobs, ledger->job_cap * sizeof *ledger->jobs));
    }
    char text[UUID_TEXT_LEN];
    uuid_format(id, text);
    ledger->jobs[ledger->job_count] = (struct recorded_job){
        .id = id, .text = arena_copy(&world->arena, (struct str){text, UUID_TEXT_LEN})};
    return ledger->job_count++;
}

/* Whether it stands where it was put when it was submitted, to be given away at once. */
static bool is_fresh(const struct recorded_job *job)
{
    return job->spec != NULL && job->spec->run_at == 0 && !job->planned && !job->requeued;
}

/* Whether it could have been given away instead, by anybody, and before the other: by priority,
 * then by age. */
static bool comes_first(const struct recorded_job *job, const struct recorded_job *given,
                        int64_t at)
{
    const struct spec *spec = job->spec;
    if (job->status != JOB_QUEUED || job->updated_at >= at || !is_fresh(job) ||
        str_is_set(spec->capabilities) || !str_eq(spec->queue, given->spec->queue))
        return false;
    return spec->priority > given->spec->priority ||
           (spec->priority == given->spec->priority && is_fresh(given) &&
            job->created_at < given->created_at);
}

/* Who was given a job since that event, while one that comes first stays where it is. */
static void check_first(struct world *world, uint32_t since)
{
    const struct ledger *ledger = &world->ledger;
    for (uint32_t i = since; i < ledger->event_count; i++) {
        const struct recorded_event *lease = &ledger->events[i];
        const struct recorded_job *given = &ledger->jobs[lease->job];
        if (lease->event.type != EVENT_JOB_LEASED || given->spec == NULL)
            continue;
        for (uint32_t k = 0; k < ledger->job_count; k++)
            if (comes_first(&ledger->jobs[k], given, lease->event.at))
                world_fail(world, "first", "job %u was given away, and job %u comes first",
                           lease->job + 1, k + 1);
    }
}

static void take(struct world *world, const struct event *event)
{
    struct ledger *ledger = &world->ledger;
    uint32_t at = find_job(world, event->job_id);
    struct recorded_job *job = &ledger->jobs[at];
    enum job_status target = event_target(event);
    if (event->version != job->version + 1)
        world_fail(world, "versions", "job %u has version %lld behind %lld", at + 1,
                   (long long)event->version, (long long)job->version);
    job->version = event->version;
    world->veiled = world->veiled || event->redacted;
    job->updated_at = event->at;
    if (target != JOB_NONE)
        job->status = target;
    job->planned = job->planned || event->type == EVENT_PLAN_GENERATED;
    job->asked = job->asked || event->type == EVENT_STEP_NEEDS_USER;
    job->requeued =
        job->requeued || event->type == EVENT_JOB_REQUEUED || event->type == EVENT_WAIT_COMPLETED;
    if (event->type == EVENT_JOB_CREATED) {
        job->created_at = event->at;
        job->spec = event->data.spec;
    }
    if (ledger->event_count == ledger->event_cap) {
        ledger->event_cap = ledger->event_cap == 0 ? 512 : ledger->event_cap * 2;
        ledger->events = need(realloc(ledger->events, ledger->event_cap * sizeof *ledger->events));
    }
    ledger->events[ledger->event_count++] = (struct recorded_event){*event, at};
    trace(world, "      job %u: %lld %.*s (%.*s, by %.*s)", at + 1, (long long)event->version,
          STR_ARG(event_name(event)), STR_ARG(event->cause_text), STR_ARG(event->actor));
}

void ledger_read(struct world *world)
{
    uint32_t count = STORE_EVENTS_MAX;
    uint32_t known = world->ledger.event_count;
    bool healing = world->healing;
    if (world->store == NULL)
        return;
    world->healing = true; /* anyone who reads has a good line */
    world->read_at = world->now;
    world->read_offset = world->offset;
    while (count == STORE_EVENTS_MAX) {
        struct store_txn *txn;
        struct store_fed *fed;
        struct err err = {0};
        if (store_begin(world->store, STORE_READ, &txn, &err) != ERR_OK)
            abort();
        enum error_code code = store_feed(txn, world->ledger.position, STORE_EVENTS_MAX,
                                          &world->arena, &fed, &count, &err);
        store_rollback(txn);
        for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
            world->ledger.position = fed[i].position;
            code = event_open(&fed[i].event, world->scenario->seed, &world->arena, &err);
            if (code == ERR_OK)
                take(world, &fed[i].event);
        }
        if (code != ERR_OK) {
            world_fail(world, "feed", "%s", err.detail);
            break;
        }
    }
    world->healing = healing;
    check_first(world, known);
}

void ledger_check_idle(struct world *world, const struct sim_call *claim)
{
    const struct ledger *ledger = &world->ledger;
    int64_t before = world_store_time(world) - WOKEN_MS;
    /* Servers here do not tell each other of changes but look now and then, and nobody hurries to
     * write what SQLite has in its log. */
    if (world->server_count > 1 || world->scenario->store != SIM_MEMORY ||
        claim->started_at < world->healed_at || world->now - claim->started_at < WOKEN_MS)
        return;
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next)
        if (call->verb == VERB_pause)
            return;
    for (uint32_t i = 0; i < ledger->job_count; i++) {
        const struct recorded_job *job = &ledger->jobs[i];
        if (job->status == JOB_QUEUED && !job->planned && job->spec != NULL &&
            job->spec->run_at < before && job->updated_at < before)
            world_fail(world, "woken", "#%u has nothing, and job %u is there", claim->number,
                       i + 1);
    }
}

bool ledger_all_ended(const struct world *world)
{
    for (uint32_t i = 0; i < world->ledger.job_count; i++)
        if (!job_status_terminal(world->ledger.jobs[i].status))
            return false;
    return true;
}
