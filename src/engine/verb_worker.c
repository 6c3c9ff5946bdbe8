/* Workers: who is there, registered or with leases (workers), and what each says of itself
 * (worker_put, worker_delete). */
#include <stdlib.h>

#include "core/worker.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/page.h"
#include "engine/verb.h"

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)

/* ---- the list ----------------------------------------------------------------------------- */

struct workers_request {
    struct page_request page;
};

static const struct record_field workers_fields[] = {PAGE_FIELDS(struct workers_request)};
RECORD_TABLE(workers);

/* Everybody who is there, as of one moment: who holds leases, and who has registered. */
struct roll {
    struct page page; /* of the list of both */
    int64_t now;
    struct store_worker *holders;
    uint32_t holder_count;
    struct worker *registered;
    uint32_t registered_count;
};

static enum error_code read_roll(const struct verb_call *call, struct roll *ret, struct err *err)
{
    struct store_txn *txn;
    struct store_load load = {0};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, call->arena, err);
    if (code == ERR_OK)
        code =
            store_workers(txn, call->queues, call->arena, &ret->holders, &ret->holder_count, err);
    if (code == ERR_OK)
        code = store_registrations(txn, call->arena, &ret->registered, &ret->registered_count, err);
    store_rollback(txn);
    ret->now = load.now;
    return code;
}

/* Leaves out those whose time is over, and those that the call may not see. */
static void limit_roll(const struct verb_call *call, struct roll *roll)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < roll->registered_count; i++) {
        const struct worker *worker = &roll->registered[i];
        if (worker_is_live(worker, roll->now) && worker_is_visible(worker, call->queues))
            roll->registered[kept++] = *worker;
    }
    roll->registered_count = kept;
}

static void write_names(struct json_writer *writer, struct str key, const struct names *names)
{
    json_key(writer, key);
    json_begin_array(writer);
    for (uint32_t i = 0; i < names->count; i++)
        json_put_string(writer, names->at[i]);
    json_end_array(writer);
}

/* What a worker has said of itself, as members of an object. */
static void write_registration(struct json_writer *writer, const struct worker *worker)
{
    write_names(writer, STR("kinds"), &worker->kinds);
    write_names(writer, STR("queues"), &worker->queues);
    answer_int(writer, STR("slots"), worker->slots);
    answer_text(writer, STR("code_version"), worker->code_version);
    json_key(writer, STR("labels"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < worker->label_count; i++) {
        answer_key(writer, worker->labels[i].key);
        json_put_string(writer, worker->labels[i].value);
    }
    json_end_object(writer);
    answer_int(writer, STR("ttl_ms"), worker->ttl_ms);
    answer_time(writer, STR("registered_at"), worker->registered_at);
    answer_time(writer, STR("registered_until"), worker->expires_at);
}

/* A worker's leases on one resource, or on none; `worker` is NULL when it has not registered. */
static void write_entry(struct json_writer *writer, const struct store_worker *holder,
                        const struct worker *worker)
{
    json_begin_object(writer);
    answer_text(writer, STR("worker_id"), holder->worker_id);
    answer_int(writer, STR("leases"), holder->leases);
    answer_time(writer, STR("last_beat_at"), holder->beat_at);
    answer_time(writer, STR("expires_at"), holder->expires_at);
    answer_text(writer, STR("resource_id"), holder->resource_id);
    answer_bool(writer, STR("registered"), worker != NULL);
    if (worker != NULL)
        write_registration(writer, worker);
    json_end_object(writer);
}

/* Both lists are in the order of ids. */
static void write_roll(struct json_writer *writer, const struct roll *roll, struct page *page)
{
    uint32_t h = 0;
    uint32_t r = 0;
    while (h < roll->holder_count || r < roll->registered_count) {
        const struct store_worker *holder = h < roll->holder_count ? &roll->holders[h] : NULL;
        const struct worker *worker = r < roll->registered_count ? &roll->registered[r] : NULL;
        int order = holder == NULL   ? 1
                    : worker == NULL ? -1
                                     : str_cmp(holder->worker_id, worker->id);
        struct store_worker idle = {.worker_id = order > 0 ? worker->id : holder->worker_id};
        if (page_takes(page, idle.worker_id))
            write_entry(writer, order > 0 ? &idle : holder, order >= 0 ? worker : NULL);
        h += order <= 0;
        /* A worker with leases on several resources is there once for each. */
        r += order > 0 || (order == 0 && (h == roll->holder_count ||
                                          !str_eq(roll->holders[h].worker_id, worker->id)));
    }
}

static enum error_code run_workers(struct verb_call *call, struct err *err)
{
    struct workers_request request = {0};
    struct roll *roll = verb_data(call, sizeof *roll);
    if (roll == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &workers_record, &request, err);
    if (code == ERR_OK)
        code = page_begin(&request.page, PAGE_BY_NAME, &roll->page, err);
    if (code == ERR_OK)
        code = read_roll(call, roll, err);
    if (code == ERR_OK)
        limit_roll(call, roll);
    return code;
}

static void write_workers(const struct verb_call *call, struct json_writer *writer)
{
    const struct roll *roll = call->result.data;
    struct page page = roll->page;
    json_begin_object(writer);
    json_key(writer, STR("workers"));
    json_begin_array(writer);
    write_roll(writer, roll, &page);
    json_end_array(writer);
    page_end(&page, writer);
    json_end_object(writer);
}

const struct verb verb_workers = {
    .request = &workers_record, .run = run_workers, .write = write_workers};

/* ---- registering -------------------------------------------------------------------------- */

struct worker_request {
    struct str id;
    struct str kinds;
    struct str queues;
    int64_t slots;
    struct str code_version;
    struct str labels;
    int64_t ttl_ms;
};

static const struct record_field worker_put_fields[] = {
    FIELD(worker_request, id, NAME),
    FIELD(worker_request, kinds, ARRAY),
    FIELD(worker_request, queues, ARRAY),
    RECORD_FIELD_RANGE(struct worker_request, slots, "slots", INT, 1, WORKER_SLOTS_MAX),
    FIELD(worker_request, code_version, NAME),
    FIELD(worker_request, labels, OBJECT),
    RECORD_FIELD_RANGE(struct worker_request, ttl_ms, "ttl_ms", INT, WORKER_TTL_MS_MIN,
                       WORKER_TTL_MS_MAX),
};
RECORD_TABLE(worker_put);

static const struct record_field worker_id_fields[] = {FIELD(worker_request, id, NAME)};
RECORD_TABLE(worker_id);

static enum error_code check_id(struct str id, struct err *err)
{
    if (!str_is_set(id))
        return err_set(err, ERR_BAD_REQUEST, "id is required: the worker_id of the claims");
    if (access_is_reserved(id))
        return err_set(err, ERR_BAD_REQUEST,
                       "id must not start with \"" ACCESS_ACTOR_PREFIX
                       "\": this prefix is reserved for tokens in histories");
    return ERR_OK;
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static enum error_code read_sorted(struct verb_call *call, struct str json, const char *what,
                                   struct names *ret, struct err *err)
{
    enum error_code code = names_read(json, WORKER_NAMES_MAX, what, call->arena, ret, err);
    if (code == ERR_OK && ret->count > 1)
        qsort(ret->at, ret->count, sizeof *ret->at, by_text);
    return code;
}

/* A worker that names no queues takes what its token may take. */
static enum error_code read_queues(struct verb_call *call, struct str json, struct names *ret,
                                   struct err *err)
{
    enum error_code code = read_sorted(call, json, "queues", ret, err);
    for (uint32_t i = 0; i < ret->count && code == ERR_OK; i++)
        code = access_check_queue(call->queues, ret->at[i], err);
    if (code == ERR_OK && ret->count == 0 && call->queues != NULL)
        *ret = *call->queues;
    return code;
}

static enum error_code prepare_put(struct verb_call *call, struct err *err)
{
    struct worker_request request = {.slots = 1, .ttl_ms = WORKER_TTL_MS_DEFAULT};
    struct worker *worker = arena_zalloc(call->arena, 1, sizeof *worker);
    call->call.class = CALL_RESULT;
    if (worker == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &worker_put_record, &request, err);
    if (code == ERR_OK)
        code = check_id(request.id, err);
    if (code == ERR_OK)
        code = read_sorted(call, request.kinds, "kinds", &worker->kinds, err);
    if (code == ERR_OK)
        code = read_queues(call, request.queues, &worker->queues, err);
    if (code == ERR_OK)
        code = labels_read(request.labels, LABELS_MAX, "labels", call->arena, &worker->labels,
                           &worker->label_count, err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    worker->id = request.id;
    worker->slots = request.slots;
    worker->code_version = request.code_version;
    if (call->scopes != 0 && (call->scopes & ACCESS_ADMIN) == 0)
        worker->registered_by = call->actor;
    op->type = OP_WORKER;
    op->worker = worker;
    op->ttl_ms = request.ttl_ms;
    return ERR_OK;
}

static enum error_code prepare_delete(struct verb_call *call, struct err *err)
{
    struct worker_request request = {0};
    call->call.class = CALL_RESULT;
    enum error_code code = verb_read(call, &worker_id_record, &request, err);
    if (code == ERR_OK)
        code = check_id(request.id, err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    op->type = OP_WORKER_GONE;
    op->worker_gone = request.id;
    return ERR_OK;
}

static void write_worker(const struct verb_call *call, struct json_writer *writer)
{
    const struct worker *worker = &call->call.ops[0]->worker_now;
    json_begin_object(writer);
    answer_text(writer, STR("worker_id"), worker->id);
    write_registration(writer, worker);
    json_end_object(writer);
}

const struct verb verb_worker_put = {
    .request = &worker_put_record, .prepare = prepare_put, .write = write_worker};
const struct verb verb_worker_delete = {
    .request = &worker_id_record, .prepare = prepare_delete, .write = write_worker};
