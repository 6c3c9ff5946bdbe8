/* Verbs of operators and of resources: queues, pause, resume, stats, resources, resource_put,
 * resource_get, resource_delete. */
#include <assert.h>
#include <stdlib.h>

#include "core/machine.h"
#include "core/resource.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/page.h"
#include "engine/timings.h"
#include "engine/verb.h"

enum {
    RESOURCE_TTL_MS_DEFAULT = 30 * 1000,
    RESOURCE_TTL_MS_MIN = 1000,
    RESOURCE_TTL_MS_MAX = 24 * 60 * 60 * 1000,
    SLOTS_MAX = 100 * 1000,
    LOST_ROUNDS_MAX = 20,
};

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)
#define RANGE(type, member, min, max)                                                              \
    RECORD_FIELD_RANGE(struct type, member, #member, INT, min, max)

static enum error_code missing(const char *member, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "%s is required", member);
}

/* A request that says nothing. */
static const struct record_type nothing_record = {NULL, 0};

/* One for a list, which may be for a page of it. */
struct paged_request {
    struct page_request page;
};

static const struct record_field paged_fields[] = {PAGE_FIELDS(struct paged_request)};
RECORD_TABLE(paged);

/* ---- queues and numbers ------------------------------------------------------------------- */

static enum error_code read_paged(struct verb_call *call, struct page *ret, struct err *err)
{
    struct paged_request request = {0};
    enum error_code code = verb_read(call, &paged_record, &request, err);
    return code == ERR_OK ? page_begin(&request.page, PAGE_BY_NAME, ret, err) : code;
}

/* Everything that is counted, as of one moment. */
struct census {
    struct page page;       /* of the list of queues */
    struct store_load load; /* now, and which queues are paused */
    struct store_queue_count *counts;
    uint32_t count;
    struct store_worker *workers;
    uint32_t worker_count;
};

/* `timings` NULL: they are not asked for. */
static enum error_code take_census(struct verb_call *call, bool workers, struct timings *timings,
                                   struct census *ret, struct err *err)
{
    struct store_txn *txn;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &ret->load, call->arena, err);
    if (code == ERR_OK)
        code = store_queues(txn, call->arena, &ret->counts, &ret->count, err);
    if (code == ERR_OK && workers)
        code = store_workers(txn, NULL, call->arena, &ret->workers, &ret->worker_count, err);
    if (code == ERR_OK && timings != NULL)
        code = timings_read(call, txn, timings, err);
    store_rollback(txn);
    return code;
}

/* Leaves out the queues that the call is not for. */
static void limit_census(const struct verb_call *call, struct census *census)
{
    struct names *paused = &census->load.paused;
    uint32_t counts = 0;
    uint32_t queues = 0;
    for (uint32_t i = 0; i < census->count; i++)
        if (access_has_queue(call->queues, census->counts[i].queue))
            census->counts[counts++] = census->counts[i];
    for (uint32_t i = 0; i < paused->count; i++)
        if (access_has_queue(call->queues, paused->at[i]))
            paused->at[queues++] = paused->at[i];
    census->count = counts;
    paused->count = queues;
}

/* Jobs by status, and those of them that wait to be taken, now or later. */
struct tally {
    int64_t by_status[JOB_STATUS_COUNT];
    int64_t depth;
    int64_t oldest_at;
};

static void tally_add(struct tally *tally, const struct store_queue_count *count)
{
    enum job_status to;
    tally->by_status[count->status] += count->count;
    if (!job_move(count->status, EVENT_JOB_LEASED, MOVE_PLAIN, &to))
        return;
    tally->depth += count->count;
    if (tally->oldest_at == 0 || count->oldest_at < tally->oldest_at)
        tally->oldest_at = count->oldest_at;
}

static void write_by_status(struct json_writer *writer, struct str key, const struct tally *tally)
{
    json_key(writer, key);
    json_begin_object(writer);
    for (int i = 0; i < JOB_STATUS_COUNT; i++)
        answer_int(writer, job_status_name((enum job_status)i), tally->by_status[i]);
    json_end_object(writer);
}

static void write_queue(struct json_writer *writer, struct str queue, bool paused,
                        const struct tally *tally, int64_t now)
{
    int64_t age_ms = now > tally->oldest_at ? now - tally->oldest_at : 0;
    json_begin_object(writer);
    answer_text(writer, STR("queue"), queue);
    answer_bool(writer, STR("paused"), paused);
    answer_int(writer, STR("depth"), tally->depth);
    answer_time(writer, STR("oldest_at"), tally->oldest_at);
    json_key(writer, STR("oldest_age_ms"));
    if (tally->oldest_at > 0)
        json_put_int(writer, age_ms);
    else
        json_put_null(writer);
    write_by_status(writer, STR("by_status"), tally);
    json_end_object(writer);
}

/* Both lists are in the order of names: queues with jobs, and queues that are paused. */
static void write_queues(const struct verb_call *call, struct json_writer *writer)
{
    const struct census *census = call->result.data;
    const struct names *paused = &census->load.paused;
    struct page page = census->page;
    uint32_t at = 0;
    uint32_t p = 0;
    json_begin_object(writer);
    json_key(writer, STR("queues"));
    json_begin_array(writer);
    while (at < census->count || p < paused->count) {
        struct tally tally = {0};
        bool has_jobs =
            at < census->count &&
            (p == paused->count || str_cmp(census->counts[at].queue, paused->at[p]) <= 0);
        struct str queue = has_jobs ? census->counts[at].queue : paused->at[p];
        bool is_paused = p < paused->count && str_eq(queue, paused->at[p]);
        while (at < census->count && str_eq(census->counts[at].queue, queue))
            tally_add(&tally, &census->counts[at++]);
        p += is_paused;
        if (page_takes(&page, queue))
            write_queue(writer, queue, is_paused, &tally, census->load.now);
    }
    json_end_array(writer);
    page_end(&page, writer);
    json_end_object(writer);
}

static enum error_code run_queues(struct verb_call *call, struct err *err)
{
    struct census *census = verb_data(call, sizeof *census);
    if (census == NULL)
        return verb_no_memory(err);
    enum error_code code = read_paged(call, &census->page, err);
    if (code == ERR_OK)
        code = take_census(call, false, NULL, census, err);
    if (code == ERR_OK)
        limit_census(call, census);
    return code;
}

const struct verb verb_queues = {
    .request = &paged_record, .run = run_queues, .write = write_queues};

struct stats {
    struct tally jobs;
    bool all; /* queues: else nobody knows how many leases and workers there are */
    int64_t leases;
    int64_t workers;
    int64_t queues;
    int64_t paused;
    int64_t now;
    struct timings timings;
};

static void sum_up(const struct census *census, struct stats *ret)
{
    for (uint32_t i = 0; i < census->count; i++) {
        const struct store_queue_count *count = &census->counts[i];
        ret->queues += i == 0 || !str_eq(count->queue, count[-1].queue);
        tally_add(&ret->jobs, count);
    }
    for (uint32_t i = 0; i < census->worker_count; i++) {
        const struct store_worker *worker = &census->workers[i];
        ret->workers += i == 0 || !str_eq(worker->worker_id, worker[-1].worker_id);
        ret->leases += worker->leases;
    }
    ret->paused = census->load.paused.count;
    ret->now = census->load.now;
}

static enum error_code run_stats(struct verb_call *call, struct err *err)
{
    struct census census = {0};
    struct stats *stats = verb_data(call, sizeof *stats);
    char none;
    if (stats == NULL)
        return verb_no_memory(err);
    stats->all = call->queues == NULL;
    enum error_code code = verb_read(call, &nothing_record, &none, err);
    if (code == ERR_OK)
        code = take_census(call, stats->all, &stats->timings, &census, err);
    if (code != ERR_OK)
        return code;
    limit_census(call, &census);
    sum_up(&census, stats);
    return ERR_OK;
}

static void write_stats(const struct verb_call *call, struct json_writer *writer)
{
    const struct stats *stats = call->result.data;
    json_begin_object(writer);
    write_by_status(writer, STR("jobs"), &stats->jobs);
    if (stats->all) {
        answer_int(writer, STR("leases"), stats->leases);
        answer_int(writer, STR("workers"), stats->workers);
    }
    answer_int(writer, STR("queues"), stats->queues);
    answer_int(writer, STR("queues_paused"), stats->paused);
    answer_int(writer, STR("queue_depth"), stats->jobs.depth);
    answer_time(writer, STR("oldest_queued_at"), stats->jobs.oldest_at);
    answer_time(writer, STR("now"), stats->now);
    timings_write_recent(&stats->timings, stats->now, writer);
    timings_write(&stats->timings, writer);
    json_end_object(writer);
}

const struct verb verb_stats = {.request = &nothing_record, .run = run_stats, .write = write_stats};

/* ---- pausing ------------------------------------------------------------------------------ */

struct queue_request {
    struct str queue;
};

static const struct record_field queue_fields[] = {FIELD(queue_request, queue, NAME)};
RECORD_TABLE(queue);

static enum error_code prepare_queue(struct verb_call *call, bool paused, struct err *err)
{
    struct queue_request request = {0};
    call->call.class = CALL_RESULT;
    enum error_code code = verb_read(call, &queue_record, &request, err);
    if (code == ERR_OK && !str_is_set(request.queue))
        code = missing("queue", err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    op->type = OP_QUEUE;
    op->queue = (struct store_queue){.queue = request.queue, .paused = paused};
    return ERR_OK;
}

static enum error_code prepare_pause(struct verb_call *call, struct err *err)
{
    return prepare_queue(call, true, err);
}

static enum error_code prepare_resume(struct verb_call *call, struct err *err)
{
    return prepare_queue(call, false, err);
}

static void write_switch(const struct verb_call *call, struct json_writer *writer)
{
    const struct store_queue *queue = &call->call.ops[0]->queue;
    json_begin_object(writer);
    answer_text(writer, STR("queue"), queue->queue);
    answer_bool(writer, STR("paused"), queue->paused);
    json_end_object(writer);
}

const struct verb verb_pause = {
    .request = &queue_record, .prepare = prepare_pause, .write = write_switch};
const struct verb verb_resume = {
    .request = &queue_record, .prepare = prepare_resume, .write = write_switch};

/* ---- resources ---------------------------------------------------------------------------- */

struct resource_page {
    struct page page;
    struct resource *resources;
    uint32_t count;
};

static enum error_code run_resources(struct verb_call *call, struct err *err)
{
    struct store_txn *txn;
    struct resource_page *list = verb_data(call, sizeof *list);
    if (list == NULL)
        return verb_no_memory(err);
    enum error_code code = read_paged(call, &list->page, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_resources(txn, call->arena, &list->resources, &list->count, err);
    store_rollback(txn);
    return code;
}

static void write_resources(const struct verb_call *call, struct json_writer *writer)
{
    const struct resource_page *list = call->result.data;
    struct page page = list->page;
    json_begin_object(writer);
    json_key(writer, STR("resources"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < list->count; i++)
        if (resource_may_use(&list->resources[i], call->queues) &&
            page_takes(&page, list->resources[i].id))
            answer_resource(writer, &list->resources[i]);
    json_end_array(writer);
    page_end(&page, writer);
    json_end_object(writer);
}

const struct verb verb_resources = {
    .request = &paged_record, .run = run_resources, .write = write_resources};

struct resource_request {
    struct str id;
    struct str capabilities;
    struct str labels;
    int64_t slots;
    int64_t ttl_ms;
    bool draining;
    struct cooldown_policy rest;
    struct str queues;
    bool shared;
};

static const struct record_field rest_fields[] = {
    RANGE(cooldown_policy, failures, 0, REST_FAILURES_MAX),
    RANGE(cooldown_policy, within_ms, 1, DELAY_MS_MAX),
    RANGE(cooldown_policy, for_ms, 1, REST_FOR_MS_MAX),
};
RECORD_TABLE(rest);

static const struct record_field resource_put_fields[] = {
    FIELD(resource_request, id, NAME),
    FIELD(resource_request, capabilities, ARRAY),
    FIELD(resource_request, labels, OBJECT),
    RANGE(resource_request, slots, 1, SLOTS_MAX),
    RANGE(resource_request, ttl_ms, RESOURCE_TTL_MS_MIN, RESOURCE_TTL_MS_MAX),
    FIELD(resource_request, draining, BOOL),
    RECORD_FIELD_NESTED(struct resource_request, rest, "rest", rest_record),
    FIELD(resource_request, queues, ARRAY),
    FIELD(resource_request, shared, BOOL),
};
RECORD_TABLE(resource_put);

static const struct record_field resource_id_fields[] = {FIELD(resource_request, id, NAME)};
RECORD_TABLE(resource_id);

static enum error_code read_resource(const struct verb_call *call, const struct record_type *type,
                                     struct resource_request *ret, struct err *err)
{
    enum error_code code = verb_read(call, type, ret, err);
    return code == ERR_OK && !str_is_set(ret->id) ? missing("id", err) : code;
}

/* A resource, and the steps that are on it, as of one moment. */
struct tenancy {
    struct store_resource resource;
    struct store_lease *leases;
    uint32_t count;
};

static enum error_code load_tenancy(struct verb_call *call, struct str id, struct tenancy *ret,
                                    struct err *err)
{
    struct store_txn *txn;
    struct tenancy tenancy = {.resource = {.id = id}};
    struct store_load load = {.resources = &tenancy.resource, .resource_count = 1};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, call->arena, err);
    if (code == ERR_OK)
        code = store_leases_on(txn, id, call->arena, &tenancy.leases, &tenancy.count, err);
    store_rollback(txn);
    if (code == ERR_OK)
        *ret = tenancy;
    return code;
}

static int by_id(const void *a, const void *b)
{
    const struct store_job *left = a;
    const struct store_job *right = b;
    return memcmp(left->id.bytes, right->id.bytes, sizeof left->id.bytes);
}

/* The jobs of the steps on a resource, each once. */
static enum error_code load_tenants(struct verb_call *call, const struct tenancy *tenancy,
                                    struct store_load *ret, struct err *err)
{
    struct store_txn *txn;
    struct store_load load = {.jobs = arena_zalloc(call->arena, tenancy->count, sizeof *load.jobs)};
    if (load.jobs == NULL)
        return verb_no_memory(err);
    for (uint32_t i = 0; i < tenancy->count; i++)
        load.jobs[i].id = tenancy->leases[i].job;
    qsort(load.jobs, tenancy->count, sizeof *load.jobs, by_id);
    for (uint32_t i = 0; i < tenancy->count; i++)
        if (i == 0 || !uuid_eq(load.jobs[i].id, load.jobs[load.job_count - 1].id))
            load.jobs[load.job_count++].id = load.jobs[i].id;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, call->arena, err);
    store_rollback(txn);
    if (code == ERR_OK)
        *ret = load;
    return code;
}

/* A token for some queues must not change or adopt a resource on which steps of other queues run:
 * they would lose it. Reads the store then. */
static enum error_code check_tenants(struct verb_call *call, struct str id, struct err *err)
{
    struct tenancy tenancy;
    struct store_load load = {0};
    if (call->queues == NULL)
        return ERR_OK;
    enum error_code code = load_tenancy(call, id, &tenancy, err);
    if (code != ERR_OK || tenancy.count == 0)
        return code;
    const struct resource *known = &tenancy.resource.resource;
    if (tenancy.resource.found && !resource_may_change(known, call->queues) &&
        !resource_may_adopt(known))
        return ERR_OK; /* the batch refuses it, and says nothing of steps */
    code = load_tenants(call, &tenancy, &load, err);
    for (uint32_t i = 0; i < load.job_count && code == ERR_OK; i++) {
        const struct job *job = &load.jobs[i].slice.job;
        if (job->status != JOB_NONE && !access_has_queue(call->queues, job->spec.queue))
            code = err_set(
                err, ERR_FORBIDDEN,
                "the token is limited to some queues, but steps of another queue run on \"%.*s\"",
                STR_ARG(id));
    }
    return code;
}

/* Whose the resource shall be, as far as the request and the token say. */
static enum error_code read_claimant(struct verb_call *call, const struct resource_request *request,
                                     struct resource_claimant *ret, struct err *err)
{
    bool says_shared = str_is_set(json_member(call->request, STR("shared")));
    ret->by = call->queues;
    ret->admin = access_check_admin(call, "", NULL) == ERR_OK;
    ret->names_queues = str_is_set(request->queues);
    ret->shared = !says_shared ? SHARED_AS_BEFORE : request->shared ? SHARED_YES : SHARED_NO;
    enum error_code code =
        names_read(request->queues, ACCESS_QUEUES_MAX, "queues", call->arena, &ret->queues, err);
    return code == ERR_OK ? names_check_shown(&ret->queues, "queues", err) : code;
}

/* What steps are matched by, and people read. */
static enum error_code read_lists(struct verb_call *call, const struct resource_request *request,
                                  struct resource *ret, struct err *err)
{
    enum error_code code = names_read(request->capabilities, CAPABILITIES_MAX, "capabilities",
                                      call->arena, &ret->capabilities, err);
    if (code == ERR_OK)
        code = labels_read(request->labels, LABELS_MAX, "labels", call->arena, &ret->labels,
                           &ret->label_count, err);
    if (code == ERR_OK)
        code = names_check_shown(&ret->capabilities, "capabilities", err);
    return code == ERR_OK ? labels_check_shown(ret->labels, ret->label_count, err) : code;
}

static enum error_code prepare_resource_put(struct verb_call *call, struct err *err)
{
    struct resource_request request = {
        .slots = 1, .ttl_ms = RESOURCE_TTL_MS_DEFAULT, .rest = cooldown_policy_default()};
    struct resource *resource = arena_zalloc(call->arena, 1, sizeof *resource);
    call->call.class = CALL_RESULT;
    if (resource == NULL)
        return verb_no_memory(err);
    enum error_code code = read_resource(call, &resource_put_record, &request, err);
    if (code == ERR_OK)
        code = read_lists(call, &request, resource, err);
    if (code == ERR_OK)
        code = check_tenants(call, request.id, err);
    struct resource_claimant claimant = {0};
    if (code == ERR_OK)
        code = read_claimant(call, &request, &claimant, err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    op->claimant = claimant;
    resource->id = request.id;
    resource->slots = request.slots;
    resource->draining = request.draining;
    resource->rest = request.rest;
    op->type = OP_RESOURCE;
    op->resource = resource;
    op->ttl_ms = request.ttl_ms;
    return ERR_OK;
}

static void write_resource_put(const struct verb_call *call, struct json_writer *writer)
{
    answer_resource(writer, &call->call.ops[0]->registered);
}

const struct verb verb_resource_put = {.request = &resource_put_record,
                                       .prepare = prepare_resource_put,
                                       .write = write_resource_put,
                                       .reads_first = true};

static enum error_code run_resource_get(struct verb_call *call, struct err *err)
{
    struct resource_request request = {0};
    struct tenancy *tenancy = verb_data(call, sizeof *tenancy);
    if (tenancy == NULL)
        return verb_no_memory(err);
    enum error_code code = read_resource(call, &resource_id_record, &request, err);
    if (code == ERR_OK)
        code = load_tenancy(call, request.id, tenancy, err);
    if (code == ERR_OK &&
        !(tenancy->resource.found && resource_may_use(&tenancy->resource.resource, call->queues)))
        code = resource_unknown(request.id, err);
    return code;
}

static void write_resource(const struct verb_call *call, struct json_writer *writer)
{
    const struct tenancy *tenancy = call->result.data;
    answer_resource(writer, &tenancy->resource.resource);
}

const struct verb verb_resource_get = {
    .request = &resource_id_record, .run = run_resource_get, .write = write_resource};

/* Adds what becomes of the steps on a resource that is gone: at most as much as one batch holds. */
static enum error_code add_lost(struct verb_call *call, const struct tenancy *tenancy,
                                bool together, struct err *err)
{
    for (uint32_t i = 0; i < tenancy->count && call->call.count < BATCH_OPS_MAX; i++) {
        struct op *op = verb_op(call);
        if (op == NULL)
            return verb_no_memory(err);
        op->type = OP_TIMER_FIRED;
        op->job = tenancy->leases[i].job;
        op->timer.step = tenancy->leases[i].step;
        op->timer.resource_id = tenancy->resource.id;
        op->atomic_with_previous = together;
    }
    return ERR_OK;
}

/* The resource goes first: the steps on it are then lost with it, in the same batch. */
static enum error_code prepare_resource_delete(struct verb_call *call, struct err *err)
{
    struct resource_request request = {0};
    struct tenancy *tenancy = arena_zalloc(call->arena, 1, sizeof *tenancy);
    call->call.class = CALL_RESULT;
    if (tenancy == NULL)
        return verb_no_memory(err);
    enum error_code code = read_resource(call, &resource_id_record, &request, err);
    if (code == ERR_OK)
        code = load_tenancy(call, request.id, tenancy, err);
    if (code != ERR_OK)
        return code;
    /* Of another's resource nothing is touched or told. */
    if (tenancy->resource.found && !resource_may_change(&tenancy->resource.resource, call->queues))
        *tenancy = (struct tenancy){.resource = {.id = request.id}};
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    op->type = OP_RESOURCE_GONE;
    op->resource_gone.id = request.id;
    call->state = tenancy;
    return add_lost(call, tenancy, true, err);
}

/* Sees to steps that were leased after we had looked and before the resource was gone, and to those
 * for which there was no room. Should this fail their leases end by themselves. */
static void lose_the_rest(const struct verb_call *call, struct str id)
{
    for (int round = 0; round < LOST_ROUNDS_MAX; round++) {
        struct tenancy tenancy;
        struct err err = {0};
        struct verb_call rest = {
            .engine = call->engine,
            .arena = call->arena,
            .actor = call->actor,
            .call = {.class = CALL_RESULT},
        };
        /* If it is there, somebody has registered it again, and the leases may be new. */
        if (load_tenancy(&rest, id, &tenancy, &err) != ERR_OK || tenancy.resource.found ||
            tenancy.count == 0 || add_lost(&rest, &tenancy, false, &err) != ERR_OK ||
            engine_run(rest.engine, &rest.call, &err) != ERR_OK)
            return;
        call_release(&rest.call);
    }
}

static enum error_code finish_resource_delete(struct verb_call *call, struct err *err)
{
    const struct tenancy *tenancy = call->state;
    enum error_code code = verb_outcome(call, err);
    if (code != ERR_OK)
        return code;
    if (!call->rendering)
        lose_the_rest(call, tenancy->resource.id);
    return ERR_OK;
}

static void write_resource_delete(const struct verb_call *call, struct json_writer *writer)
{
    const struct tenancy *tenancy = call->state;
    struct resource gone = {.id = tenancy->resource.id};
    answer_resource(writer, tenancy->resource.found ? &tenancy->resource.resource : &gone);
}

static bool resource_delete_reads(const struct verb_call *call)
{
    return call->call.ops[0]->code == ERR_OK; /* lose_the_rest does */
}

const struct verb verb_resource_delete = {.request = &resource_id_record,
                                          .prepare = prepare_resource_delete,
                                          .finish = finish_resource_delete,
                                          .reads_first = true,
                                          .reads = resource_delete_reads,
                                          .write = write_resource_delete};
