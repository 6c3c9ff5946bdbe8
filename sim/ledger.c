/* The events as they are committed, read from the store itself after every turn of a server, so
 * that nothing is missed that is deleted or redacted later. */
#include <stdlib.h>

#include "world.h"

static uint32_t find_job(struct world *world, struct uuid id)
{
    struct ledger *ledger = &world->ledger;
    for (uint32_t i = 0; i < ledger->job_count; i++)
        if (uuid_eq(ledger->jobs[i].id, id))
            return i;
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
    if (target != JOB_NONE)
        job->status = target;
    job->asked = job->asked || event->type == EVENT_STEP_NEEDS_USER;
    if (event->type == EVENT_JOB_CREATED && event->data.spec != NULL)
        job->brief = str_eq(event->data.spec->kind, STR("brief"));
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
    bool healing = world->healing;
    if (world->store == NULL)
        return;
    world->healing = true; /* whoever reads has a good line */
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
}

bool ledger_all_ended(const struct world *world)
{
    for (uint32_t i = 0; i < world->ledger.job_count; i++)
        if (!job_status_terminal(world->ledger.jobs[i].status))
            return false;
    return true;
}
