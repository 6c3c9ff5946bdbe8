/* What a batch names: sorted, once each, so that locks are taken in one order by everybody. */
#include <assert.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "engine/batch_private.h"

enum { REQUEST_KEY_MAX = 255, REQUEST_SCOPE_MAX = 512 };

static bool names_job(const struct op *op)
{
    return op->type == OP_COMMAND || op->type == OP_TIMER_FIRED || op->type == OP_PURGE ||
           op->type == OP_DROP || op->type == OP_REDACT || op->type == OP_IMPORT;
}

static int by_id(const void *a, const void *b)
{
    const struct store_job *left = a;
    const struct store_job *right = b;
    return memcmp(left->id.bytes, right->id.bytes, sizeof left->id.bytes);
}

static int by_key(const void *a, const void *b)
{
    const struct store_key *left = a;
    const struct store_key *right = b;
    int order = str_cmp(left->queue, right->queue);
    return order != 0 ? order : str_cmp(left->key, right->key);
}

static int by_request(const void *a, const void *b)
{
    const struct store_request *left = a;
    const struct store_request *right = b;
    int order = str_cmp(left->scope, right->scope);
    return order != 0 ? order : str_cmp(left->key, right->key);
}

static int by_resource(const void *a, const void *b)
{
    const struct store_resource *left = a;
    const struct store_resource *right = b;
    return str_cmp(left->id, right->id);
}

static int by_registration(const void *a, const void *b)
{
    const struct store_registration *left = a;
    const struct store_registration *right = b;
    return str_cmp(left->id, right->id);
}

/* Sorts and drops what is there twice. */
static uint32_t sort_once(void *at, uint32_t count, size_t size,
                          int (*order)(const void *a, const void *b))
{
    char *bytes = at;
    uint32_t kept = 0;
    if (count > 1)
        qsort(at, count, size, order);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && order(bytes + (kept - 1) * size, bytes + i * size) == 0)
            continue;
        if (kept != i)
            memcpy(bytes + kept * size, bytes + i * size, size);
        kept++;
    }
    return kept;
}

/* A key comes from outside, and stores keep text. */
static enum error_code check_request(const struct op_request *request, struct err *err)
{
    if (!str_is_set(request->scope))
        return ERR_OK;
    if (request->key.len == 0 || request->key.len > REQUEST_KEY_MAX ||
        request->scope.len > REQUEST_SCOPE_MAX)
        return err_set(err, ERR_BAD_REQUEST, "Idempotency-Key must have 1 to %d bytes, not %zu",
                       REQUEST_KEY_MAX, request->key.len);
    if (!utf8_valid(request->key) || !utf8_valid(request->scope) ||
        memchr(request->key.at, '\0', request->key.len) != NULL)
        return err_set(err, ERR_BAD_REQUEST, "Idempotency-Key must be text");
    return ERR_OK;
}

/* The spec of the job that an operation makes; NULL: it makes none. */
static const struct spec *new_spec(const struct op *op)
{
    if (op->type == OP_IMPORT)
        return &op->import->slice.job.spec;
    return op->type == OP_COMMAND && op->command.type == COMMAND_SUBMIT ? op->command.submit.spec
                                                                        : NULL;
}

static void collect_op(const struct op *op, struct store_load *load)
{
    const struct spec *spec = new_spec(op);
    if (names_job(op))
        load->jobs[load->job_count++].id = op->job;
    if (spec != NULL && str_is_set(spec->idempotency_key) && str_is_set(spec->queue))
        load->keys[load->key_count++] =
            (struct store_key){.queue = spec->queue, .key = spec->idempotency_key};
    /* So that two servers cannot both change what they have read. */
    if (op->type == OP_KIND)
        load->keys[load->key_count++] =
            (struct store_key){.queue = STR("pawl.kinds"), .key = op->kind.kind->kind};
    if (str_is_set(op->request.scope))
        load->requests[load->request_count++] =
            (struct store_request){.scope = op->request.scope, .key = op->request.key};
    if (op->type == OP_CLAIM && str_is_set(op->claim.resource_id))
        load->resources[load->resource_count++].id = op->claim.resource_id;
    if (op->type == OP_RESOURCE)
        load->resources[load->resource_count++].id = op->resource->id;
    if (op->type == OP_RESOURCE_GONE)
        load->resources[load->resource_count++].id = op->resource_gone.id;
    if (op->type == OP_RESOURCE_FAILED)
        load->resources[load->resource_count++].id = op->failed_resource;
    if (op->type == OP_TIMER_FIRED && str_is_set(op->timer.resource_id))
        load->resources[load->resource_count++].id = op->timer.resource_id;
    if (op->type == OP_CLAIM && op->claim.looks)
        load->registrations[load->registration_count++].id = op->command.claim.worker_id;
    if (op->type == OP_WORKER)
        load->registrations[load->registration_count++].id = op->worker->id;
    if (op->type == OP_WORKER_GONE)
        load->registrations[load->registration_count++].id = op->worker_gone;
}

/* Room for what the operations can name; most batches have nothing but jobs, and those are large.
 */
static enum error_code make_room(struct batch *batch)
{
    struct store_load *load = &batch->load;
    uint32_t jobs = 0;
    uint32_t submits = 0;
    uint32_t requests = 0;
    uint32_t resources = 0;
    uint32_t workers = 0;
    for (uint32_t i = 0; i < batch->op_count; i++) {
        struct op *op = batch->ops[i];
        jobs += names_job(op);
        submits += new_spec(op) != NULL || op->type == OP_KIND;
        requests += str_is_set(op->request.scope);
        resources += op->type == OP_CLAIM || op->type == OP_RESOURCE ||
                     op->type == OP_RESOURCE_GONE || op->type == OP_RESOURCE_FAILED ||
                     op->type == OP_TIMER_FIRED;
        if (op->type == OP_CLAIM)
            op->claim.looks =
                batch_worker_looks(batch->batcher, op->command.claim.worker_id, op->claim.wait_ms);
        bool registers = op->type == OP_WORKER || op->type == OP_WORKER_GONE;
        load->registrations_locked = load->registrations_locked || registers;
        workers += registers || (op->type == OP_CLAIM && op->claim.looks);
    }
    load->jobs = arena_alloc(batch->arena, jobs * sizeof *load->jobs); /* the store fills them in */
    load->keys = arena_zalloc(batch->arena, submits, sizeof *load->keys);
    load->requests = arena_zalloc(batch->arena, requests, sizeof *load->requests);
    load->resources = arena_zalloc(batch->arena, resources, sizeof *load->resources);
    load->registrations = arena_zalloc(batch->arena, workers, sizeof *load->registrations);
    batch->fates = arena_zalloc(batch->arena, workers, sizeof *batch->fates);
    return load->jobs == NULL || load->keys == NULL || load->requests == NULL ||
                   load->resources == NULL || load->registrations == NULL || batch->fates == NULL
               ? batch_no_memory(batch)
               : ERR_OK;
}

enum error_code batch_collect(struct batch *batch)
{
    struct store_load *load = &batch->load;
    enum error_code code = make_room(batch);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < batch->op_count; i++) {
        struct op *op = batch->ops[i];
        op->code = check_request(&op->request, &op->err);
        if (op->code == ERR_OK)
            collect_op(op, load);
    }
    load->job_count = sort_once(load->jobs, load->job_count, sizeof *load->jobs, by_id);
    load->key_count = sort_once(load->keys, load->key_count, sizeof *load->keys, by_key);
    load->request_count =
        sort_once(load->requests, load->request_count, sizeof *load->requests, by_request);
    load->resource_count =
        sort_once(load->resources, load->resource_count, sizeof *load->resources, by_resource);
    load->registration_count = sort_once(load->registrations, load->registration_count,
                                         sizeof *load->registrations, by_registration);
    return ERR_OK;
}

static struct store_resource *find_resource(struct batch *batch, struct str id)
{
    struct store_resource wanted = {.id = id};
    return batch->load.resource_count == 0
               ? NULL
               : bsearch(&wanted, batch->load.resources, batch->load.resource_count, sizeof wanted,
                         by_resource);
}

struct resource *batch_resource(struct batch *batch, struct str id)
{
    struct store_resource *found = find_resource(batch, id);
    return found != NULL && found->found ? &found->resource : NULL;
}

void batch_resource_put(struct batch *batch, const struct resource *resource)
{
    struct store_resource *place = find_resource(batch, resource->id);
    assert(place != NULL);
    place->resource = *resource;
    place->found = true;
}

struct store_key *batch_key(struct batch *batch, const struct spec *spec)
{
    struct store_key wanted = {.queue = spec->queue, .key = spec->idempotency_key};
    if (!str_is_set(wanted.key) || !str_is_set(wanted.queue) || batch->load.key_count == 0)
        return NULL;
    return bsearch(&wanted, batch->load.keys, batch->load.key_count, sizeof wanted, by_key);
}

const struct store_request *batch_request(struct batch *batch, const struct op_request *request)
{
    struct store_request wanted = {.scope = request->scope, .key = request->key};
    if (!str_is_set(wanted.scope) || batch->load.request_count == 0)
        return NULL;
    return bsearch(&wanted, batch->load.requests, batch->load.request_count, sizeof wanted,
                   by_request);
}
