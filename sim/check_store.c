/* What is stored: each job by core's own checker, against the ledger of what was committed, and
 * counted.
 *
 *   verify    every history holds by the rules of core/verify.def, and the row is its fold
 *   stored    what is stored is what was committed, and only what may be deleted is gone
 *   erased    what was redacted stays so
 *   counts    the counts of the store are those of its jobs
 *   leases    when everything has ended nobody holds a lease
 *   ends      when the world is healed everything ends */
#include "checker.h"
#include "engine/history.h"

static void report(struct world *world, uint32_t job, const struct violation *violation)
{
    if (violation != NULL)
        world_fail(world, "verify", "job %u: version %lld: %.*s: %.*s", job + 1,
                   (long long)violation->version, STR_ARG(verify_rule_name(violation->rule)),
                   STR_ARG(violation->detail));
}

enum { LATE_MS = 5000 }; /* what is due to be deleted may wait for so long */

/* A job that is gone: its events are in the ledger. */
static void check_gone(struct world *world, uint32_t number)
{
    const struct ledger *ledger = &world->ledger;
    struct recorded_job *job = &world->ledger.jobs[number];
    struct arena arena;
    struct verify_report found;
    struct err err = {0};
    job->gone = true;
    if (!ledger_is_brief(job))
        world_fail(world, "stored", "job %u is gone", number + 1);
    arena_init(&arena);
    struct event *events = need(arena_zalloc(&arena, (size_t)job->version + 1, sizeof *events));
    size_t count = 0;
    for (uint32_t i = 0; i < ledger->event_count; i++)
        if (ledger->events[i].job == number)
            events[count++] = ledger->events[i].event;
    struct verify_input input = {
        .id = job->id, .events = events, .count = count, .seed = world->scenario->seed};
    if (job_verify(&input, &arena, &found, &err) != ERR_OK)
        world_fail(world, "verify", "job %u: %s", number + 1, err.detail);
    else if (found.violation_count > 0)
        report(world, number, &found.violations[0]);
    arena_release(&arena);
}

static const struct event *last_event(const struct ledger *ledger, uint32_t job)
{
    uint32_t i = ledger->event_count;
    while (i > 0 && ledger->events[i - 1].job != job)
        i--;
    return i == 0 ? NULL : &ledger->events[i - 1].event;
}

/* Whether somebody was told that the job's payloads are erased. */
static bool told_erased(const struct world *world, struct str job)
{
    for (const struct sim_call *call = world->calls; call != NULL; call = call->next)
        if (call->verb == VERB_redact && call->outcome == CALL_OK && str_eq(call->job, job))
            return true;
    return false;
}

static void check_job(struct world *world, struct engine *engine, uint32_t number, bool ended)
{
    const struct recorded_job *job = &world->ledger.jobs[number];
    struct arena arena;
    struct history history;
    struct history_report found;
    struct err err = {0};
    arena_init(&arena);
    struct verb_call call = {.engine = engine, .arena = &arena, .name = VERB_verify};
    enum error_code code = history_load(&call, job->id, &history, &err);
    if (code == ERR_NOT_FOUND) {
        check_gone(world, number);
        arena_release(&arena);
        return;
    }
    if (code == ERR_OK)
        code = history_verify(&call, job->id, &history, &found, &err);
    if (code != ERR_OK) {
        world_fail(world, "verify", "job %u: %s", number + 1, err.detail);
        arena_release(&arena);
        return;
    }
    report(world, number, history_violation(&found));
    const struct event *last = last_event(&world->ledger, number);
    if (last == NULL || history.job.slice.job.status != job->status ||
        history.count != job->version ||
        memcmp(history.job.slice.job.head, last->hash, HASH_LEN) != 0)
        world_fail(world, "stored", "job %u is stored as %.*s, version %u, and was %.*s, %lld",
                   number + 1, STR_ARG(job_status_name(history.job.slice.job.status)),
                   history.count, STR_ARG(job_status_name(job->status)), (long long)job->version);
    /* Those whose time has come for certain. */
    if (ended && ledger_is_brief(job) &&
        job->updated_at + BRIEF_KEPT_MS + LATE_MS < engine_trusted(engine, world_store_time(world)))
        world_fail(world, "stored", "job %u is still there", number + 1);
    if (!history.job.slice.job.redacted && told_erased(world, job->text))
        world_fail(world, "erased", "job %u was redacted, and still has its payloads", number + 1);
    arena_release(&arena);
}

/* ---- counts ---- */

static void check_counts(struct world *world, bool ended)
{
    const struct ledger *ledger = &world->ledger;
    int64_t stored[JOB_STATUS_COUNT] = {0};
    struct store_queue_count *queues;
    struct store_worker *workers;
    uint32_t queue_count = 0;
    uint32_t worker_count = 0;
    struct store_txn *txn;
    struct arena arena;
    if (store_begin(world->store, STORE_READ, &txn, NULL) != ERR_OK) {
        world_fail(world, "counts", "the store cannot be read");
        return;
    }
    arena_init(&arena);
    if (store_queues(txn, &arena, &queues, &queue_count, NULL) != ERR_OK ||
        store_workers(txn, NULL, &arena, &workers, &worker_count, NULL) != ERR_OK)
        world_fail(world, "counts", "the store cannot count");
    store_rollback(txn);
    for (uint32_t i = 0; i < queue_count; i++)
        stored[queues[i].status] += queues[i].count;
    for (uint32_t i = 0; i < ledger->job_count; i++)
        stored[ledger->jobs[i].status] -= !ledger->jobs[i].gone;
    for (int status = 0; status < JOB_STATUS_COUNT; status++)
        if (stored[status] != 0)
            world_fail(world, "counts", "there are %lld jobs too many that are %.*s",
                       (long long)stored[status],
                       STR_ARG(job_status_name((enum job_status)status)));
    if (ended && worker_count > 0)
        world_fail(world, "leases", "%.*s still holds a lease", STR_ARG(workers[0].worker_id));
    arena_release(&arena);
}

/* ---- the end ---- */

static void check_ended(struct world *world, struct engine *engine, uint32_t number)
{
    const struct recorded_job *job = &world->ledger.jobs[number];
    struct arena arena;
    struct buf answer;
    struct buf request;
    if (job_status_terminal(job->status))
        return;
    arena_init(&arena);
    buf_init(&answer, &arena, 512);
    buf_init(&request, &arena, 64);
    buf_addf(&request, "{\"id\":\"%.*s\"}", STR_ARG(job->text));
    struct verb_call call = {
        .engine = engine, .arena = &arena, .name = VERB_explain, .request = buf_str(&request)};
    (void)verb_respond(&call, &answer, NULL);
    world_fail(world, "ends", "job %u is %.*s for ever: %.*s", number + 1,
               STR_ARG(job_status_name(job->status)), STR_ARG(buf_str(&answer)));
    arena_release(&arena);
}

bool check_store(struct world *world, bool ended)
{
    struct engine *engine = NULL;
    bool healing = world->healing;
    for (uint32_t i = 0; i < world->server_count && engine == NULL; i++)
        engine = world->servers[i].engine;
    if (engine == NULL)
        return false;
    ledger_read(world);
    world->healing = true; /* anyone who checks has a good line */
    for (uint32_t i = 0; i < world->ledger.job_count; i++) {
        check_job(world, engine, i, ended);
        if (ended)
            check_ended(world, engine, i);
    }
    check_counts(world, ended);
    world->healing = healing;
    return true;
}
