/* batch: many calls in one commit, each of which succeeds or fails alone, or all or none. */
#include <assert.h>
#include <stdio.h>

#include "engine/access.h"
#include "engine/answer.h"
#include "engine/verb.h"

/* When so much was read for the response already, nothing more is. */
enum { ANSWER_BYTES_MAX = 32 * 1024 * 1024 };

/* One of the calls. */
struct entry {
    struct verb_call call;
    bool refused; /* it could not be prepared, and has no operations */
    enum error_code code;
    struct err err;
};

struct entries {
    struct entry *at;
    uint32_t count;
    bool atomic;
};

struct batch_request {
    struct str ops;
    bool atomic;
};

static const struct record_field batch_fields[] = {
    RECORD_FIELD(struct batch_request, ops, "ops", ARRAY),
    RECORD_FIELD(struct batch_request, atomic, "atomic", BOOL),
};
static const struct record_type batch_record = {batch_fields,
                                                sizeof batch_fields / sizeof batch_fields[0]};

/* Which verb the entry is for, and its request, which is the entry without "op". */
static enum error_code read_entry(struct verb_call *call, struct str json, enum verb_name *ret_name,
                                  struct str *ret_request, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str name = {NULL, 0};
    struct buf request;
    if (!json_object_begin(&iter, json))
        return err_set(err, ERR_BAD_REQUEST, "it must be an object");
    buf_init(&request, call->arena, json.len);
    buf_add_char(&request, '{');
    while (json_object_next(&iter, &key, &value)) {
        if (json_key_is(key, STR("op"))) {
            enum error_code code = record_string(value, "op", call->arena, &name, err);
            if (code != ERR_OK)
                return code;
            continue;
        }
        if (request.len > 1)
            buf_add_char(&request, ',');
        buf_add(&request, key);
        buf_add_char(&request, ':');
        buf_add(&request, value);
    }
    buf_add_char(&request, '}');
    if (request.failed)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (!str_is_set(name))
        return err_set(err, ERR_BAD_REQUEST, "op is required: the operation");
    enum verb_name verb = verb_find(name);
    if (verb == VERB_COUNT || !verb_is_write(verb) || verb == VERB_batch)
        return err_set(err, ERR_BAD_REQUEST,
                       "op must be a writing operation other than batch, not \"%.*s\"",
                       STR_ARG(name));
    *ret_name = verb;
    *ret_request = buf_str(&request);
    return ERR_OK;
}

/* How much the entry adds to the batch, within its limits. `claims` is what claims may still ask
 * for. */
static enum error_code check_size(const struct entry *entry, uint32_t op_count, uint32_t *claims,
                                  struct err *err)
{
    const struct call *call = &entry->call.call;
    uint32_t asked = 0;
    if (call->wait_ms != 0)
        return err_set(err, ERR_BAD_REQUEST, "wait_ms must be 0 in a batch, not %lld",
                       (long long)call->wait_ms);
    if (call->count > BATCH_OPS_MAX - op_count)
        return err_set(err, ERR_BAD_REQUEST,
                       "a batch may have at most %d operations, counting each submitted job",
                       BATCH_OPS_MAX);
    for (uint32_t i = 0; i < call->count; i++)
        asked += call->ops[i]->type == OP_CLAIM ? call->ops[i]->claim.max : 0;
    if (asked > *claims)
        return err_set(err, ERR_BAD_REQUEST, "the claims of a batch may request at most %d jobs",
                       CLAIM_MAX);
    *claims -= asked;
    return ERR_OK;
}

static enum error_code prepare_entry(struct verb_call *call, struct str json, struct entry *entry)
{
    struct verb_call *sub = &entry->call;
    *sub = (struct verb_call){
        .engine = call->engine,
        .arena = call->arena,
        .actor = call->actor,
        .traceparent = call->traceparent,
        .no_claims = call->no_claims,
        .scopes = call->scopes,
        .queues = call->queues,
    };
    enum error_code code = read_entry(call, json, &sub->name, &sub->request, &entry->err);
    if (code == ERR_OK)
        code = access_check(sub, &entry->err);
    return code == ERR_OK ? verb_at(sub->name)->prepare(sub, &entry->err) : code;
}

/* All or nothing goes for what happens to jobs, steps and leases. Settings, resources, access
 * tokens and what is erased are not undone with the rest, and so are no part of it. */
static enum error_code check_atomic(const struct entry *entry, struct err *err)
{
    const struct call *call = &entry->call.call;
    for (uint32_t i = 0; i < call->count; i++)
        if (call->ops[i]->type != OP_COMMAND && call->ops[i]->type != OP_CLAIM)
            return err_set(err, ERR_BAD_REQUEST,
                           "an atomic batch takes only operations on jobs, steps and leases, not "
                           "%.*s: send it separately",
                           STR_ARG(verb_text(entry->call.name)));
    return ERR_OK;
}

/* Which operation of an atomic batch was refused, and why. `in` is its place among the operations
 * of the entry. */
static enum error_code refuse_all(struct err *err, const struct entries *entries, uint32_t index,
                                  uint32_t in, enum error_code code, const char *detail)
{
    const struct entry *entry = &entries->at[index];
    char at[48];
    int len = snprintf(at, sizeof at, "ops[%u]: ", index);
    if (entry->call.call.count > 1)
        err_write(err, ERR_BATCH_REFUSED, "%sjobs[%u]: %s", at, in, detail);
    else
        err_write(err, ERR_BATCH_REFUSED, "%s%s", at, detail);
    err->part.index = index;
    err->part.code = code;
    err->part.detail_at = (uint32_t)len;
    return ERR_BATCH_REFUSED;
}

static enum error_code prepare_entries(struct verb_call *call, struct str ops,
                                       struct entries *entries, struct op **ret_ops,
                                       struct err *err)
{
    struct json_iter iter;
    struct str json;
    uint32_t claims = CLAIM_MAX;
    enum call_class class = CALL_SUBMIT;
    (void)json_array_begin(&iter, ops);
    for (uint32_t i = 0; i < entries->count && json_array_next(&iter, &json); i++) {
        struct entry *entry = &entries->at[i];
        const struct call *made = &entry->call.call;
        entry->code = prepare_entry(call, json, entry);
        if (entry->code == ERR_OK)
            entry->code = check_size(entry, call->call.count, &claims, &entry->err);
        if (entry->code == ERR_OK && entries->atomic)
            entry->code = check_atomic(entry, &entry->err);
        if (entry->code == ERR_NO_MEMORY)
            return err_set(err, ERR_NO_MEMORY, "%s", entry->err.detail);
        if (entry->code != ERR_OK && entries->atomic)
            return refuse_all(err, entries, i, 0, entry->code, entry->err.detail);
        entry->refused = entry->code != ERR_OK;
        if (entry->refused)
            continue;
        for (uint32_t k = 0; k < made->count; k++) {
            made->ops[k]->atomic = entries->atomic;
            made->ops[k]->atomic_with_previous =
                made->ops[k]->atomic_with_previous || (entries->atomic && call->call.count > 0);
            ret_ops[call->call.count++] = made->ops[k];
        }
        /* It is refused no sooner than the most precious of its entries would be. */
        class = made->class > class ? made->class : class;
    }
    call->call.class = class;
    return ERR_OK;
}

static enum error_code batch_prepare(struct verb_call *call, struct err *err)
{
    struct batch_request request = {0};
    enum error_code code = verb_read(call, &batch_record, &request, err);
    if (code != ERR_OK)
        return code;
    if (!str_is_set(request.ops))
        return err_set(err, ERR_BAD_REQUEST, "ops is required: the list of operations");
    size_t count = json_count(request.ops);
    if (count == 0 || count > BATCH_OPS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "ops may have from 1 to %d entries, not %zu",
                       BATCH_OPS_MAX, count);
    struct entries *entries = arena_zalloc(call->arena, 1, sizeof *entries);
    struct op **ops = arena_zalloc(call->arena, BATCH_OPS_MAX, sizeof(void *));
    if (entries != NULL)
        entries->at = arena_zalloc(call->arena, count, sizeof *entries->at);
    if (entries == NULL || entries->at == NULL || ops == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    entries->count = (uint32_t)count;
    entries->atomic = request.atomic;
    call->state = entries;
    call->call.ops = ops;
    call->op_cap = BATCH_OPS_MAX;
    return prepare_entries(call, request.ops, entries, ops, err);
}

/* What an atomic batch was refused for, if it was. */
static enum error_code atomic_outcome(const struct entries *entries, struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < entries->count; i++) {
        const struct call *call = &entries->at[i].call.call;
        for (uint32_t k = 0; k < call->count; k++) {
            const struct op *op = call->ops[k];
            if (op->code == ERR_UNAVAILABLE || op->code == ERR_NO_MEMORY)
                return err_set(err, op->code, "%s", op->err.detail);
            if (op->code != ERR_OK && op->code != ERR_BATCH_REFUSED)
                return refuse_all(err, entries, i, k, op->code, op->err.detail);
            code = op->code;
        }
    }
    assert(code == ERR_OK); /* else an operation was to blame, and has its own code */
    return code;
}

/* Completes the result of one entry, or says what was wrong with it. A brief one reads nothing for
 * that. */
static void finish_entry(struct entry *entry, bool brief)
{
    struct verb_call *sub = &entry->call;
    if (entry->refused)
        return;
    sub->brief = brief;
    entry->code = verb_finish_own(sub, &entry->err);
}

static enum error_code batch_finish(struct verb_call *call, struct err *err)
{
    const struct entries *entries = call->state;
    size_t bytes = 0;
    enum error_code refusal = entries->atomic ? atomic_outcome(entries, err) : ERR_OK;
    if (refusal != ERR_OK)
        return refusal;
    for (uint32_t i = 0; i < entries->count; i++) {
        struct entry *entry = &entries->at[i];
        finish_entry(entry, bytes > ANSWER_BYTES_MAX);
        bytes += entry->call.result.bytes;
    }
    return ERR_OK;
}

static void batch_write(const struct verb_call *call, struct json_writer *writer)
{
    const struct entries *entries = call->state;
    json_begin_object(writer);
    json_key(writer, STR("results"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < entries->count; i++) {
        const struct entry *entry = &entries->at[i];
        bool done = entry->code == ERR_OK;
        json_begin_object(writer);
        answer_int(writer, STR("status"),
                   done ? entry->call.result.status : error_info(entry->code)->http_status);
        json_key(writer, STR("body"));
        if (done)
            verb_put(&entry->call, writer);
        else
            answer_error(writer, entry->code, &entry->err);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

static bool batch_reads(const struct verb_call *call)
{
    const struct entries *entries = call->state;
    if (entries->atomic && call->call.ops[0]->code != ERR_OK)
        return false;
    bool reads = false;
    for (uint32_t i = 0; i < entries->count && !reads; i++)
        reads = !entries->at[i].refused && verb_finish_reads(&entries->at[i].call);
    return reads;
}

/* What its entries are is known only when they have been read: one of them may read the store. */
const struct verb verb_batch = {
    .request = &batch_record,
    .prepare = batch_prepare,
    .finish = batch_finish,
    .write = batch_write,
    .reads_first = true,
    .reads = batch_reads,
};
