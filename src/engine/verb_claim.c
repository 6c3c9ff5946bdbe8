/* claim and claim_steps: work for a worker, with what it needs to begin. */
#include <assert.h>
#include <stdlib.h>

#include "base/refs.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/claim_inputs.h"
#include "engine/claim_records.h"
#include "engine/verb.h"

enum {
    LIST_MAX = 1000,                     /* queues or kinds that a claim may name */
    HISTORY_BYTES_MAX = 4 * 1024 * 1024, /* of all claims in one answer */
    INPUTS_BYTES_MAX = 32 * 1024 * 1024,
    PAGE_MIN = 16, /* events that are read at once */
    PAGE_MAX = 256,
    PAGE_BYTES_MAX = 256 * 1024, /* no longer pages when one had so much */
    EVENT_BYTES = 512,           /* about what an event has besides its payload */
};

struct claim_request {
    struct str worker_id;
    struct str queues;
    struct str kinds;
    struct str capabilities;
    int64_t max;
    struct lease_terms terms;
    int64_t wait_ms;
    bool start;
    bool history;
    struct str resource_id;
    bool judge;
    struct str code_version;
};

#define FIELD(member, kind) RECORD_FIELD(struct claim_request, member, #member, kind)

#define CLAIM_FIELDS                                                                               \
    FIELD(worker_id, NAME), FIELD(queues, ARRAY), FIELD(kinds, ARRAY), FIELD(capabilities, ARRAY), \
        RECORD_FIELD_RANGE(struct claim_request, max, "max", INT, 1, CLAIM_MAX),                   \
        RECORD_FIELD_RANGE(struct claim_request, terms.lease_ttl_ms, "lease_ttl_ms", INT,          \
                           LEASE_TTL_MS_MIN, LEASE_TTL_MS_MAX),                                    \
        RECORD_FIELD_RANGE(struct claim_request, terms.heartbeat_ms, "heartbeat_ms", INT,          \
                           HEARTBEAT_MS_MIN, LEASE_TTL_MS_MAX),                                    \
        RECORD_FIELD_RANGE(struct claim_request, wait_ms, "wait_ms", INT, 0, WAIT_MS_MAX),         \
        FIELD(start, BOOL), FIELD(history, BOOL)

static const struct record_field claim_fields[] = {CLAIM_FIELDS, FIELD(code_version, NAME)};
static const struct record_type claim_record = {claim_fields,
                                                sizeof claim_fields / sizeof claim_fields[0]};

static const struct record_field claim_steps_fields[] = {CLAIM_FIELDS, FIELD(resource_id, NAME),
                                                         FIELD(judge, BOOL)};
static const struct record_type claim_steps_record = {
    claim_steps_fields, sizeof claim_steps_fields / sizeof claim_steps_fields[0]};

/* ---- asking ------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* In one order, so that two who ask for the same can be seen to. */
static enum error_code read_names(struct verb_call *call, struct str json, uint32_t count_max,
                                  const char *what, struct names *ret, struct err *err)
{
    enum error_code code = names_read(json, count_max, what, call->arena, ret, err);
    if (code == ERR_OK && ret->count > 1)
        qsort(ret->at, ret->count, sizeof *ret->at, by_text);
    return code;
}

static enum error_code read_claimer(struct verb_call *call, const struct claim_request *request,
                                    struct claimer *ret, struct err *err)
{
    enum error_code code = read_names(call, request->queues, LIST_MAX, "queues", &ret->queues, err);
    for (uint32_t i = 0; i < ret->queues.count && code == ERR_OK; i++)
        code = access_check_queue(call->queues, ret->queues.at[i], err);
    if (ret->queues.count == 0 && call->queues != NULL)
        ret->queues = *call->queues; /* all that it may take */
    if (code == ERR_OK)
        code = read_names(call, request->kinds, LIST_MAX, "kinds", &ret->kinds, err);
    if (code == ERR_OK)
        code = read_names(call, request->capabilities, CAPABILITIES_MAX, "capabilities",
                          &ret->capabilities, err);
    return code;
}

static enum error_code check_request(const struct verb_call *call,
                                     const struct claim_request *request, struct err *err)
{
    if (!str_is_set(request->worker_id))
        return err_set(err, ERR_BAD_REQUEST, "worker_id is required");
    if (access_is_reserved(request->worker_id))
        return err_set(err, ERR_BAD_REQUEST,
                       "worker_id must not start with \"" ACCESS_ACTOR_PREFIX
                       "\": this prefix is reserved for tokens in histories");
    if (call->name == VERB_claim_steps && !request->judge && !str_is_set(request->resource_id))
        return err_set(err, ERR_BAD_REQUEST, "resource_id is required, except to judge a step");
    return lease_terms_check(request->terms.lease_ttl_ms, request->terms.heartbeat_ms, err);
}

static enum error_code claim_prepare(struct verb_call *call, struct err *err)
{
    bool steps = call->name == VERB_claim_steps;
    struct claim_request *request = arena_zalloc(call->arena, 1, sizeof *request);
    struct op *op = verb_op(call);
    if (request == NULL || op == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    request->max = 1;
    request->start = true;
    request->wait_ms = -1;
    call->call.class = CALL_CLAIM;
    enum error_code code =
        verb_read(call, steps ? &claim_steps_record : &claim_record, request, err);
    if (code == ERR_OK)
        code = check_request(call, request, err);
    if (code == ERR_OK)
        code = read_claimer(call, request, &op->claim.claimer, err);
    if (code != ERR_OK)
        return code;
    op->type = OP_CLAIM;
    op->claim.claimer.work = !steps ? LANE_JOBS : request->judge ? LANE_JUDGING : LANE_STEPS;
    if (!request->judge)
        op->claim.resource_id = request->resource_id;
    op->claim.claimer.code_version = request->code_version;
    op->claim.max = (uint32_t)request->max;
    op->claim.wait_ms = request->wait_ms > 0 ? request->wait_ms : 0;
    op->claim.refusal = call->no_claims;
    op->command = (struct command){
        .type = steps ? COMMAND_STEP_CLAIM : COMMAND_CLAIM,
        .actor = request->worker_id,
    };
    op->command.claim.worker_id = request->worker_id;
    op->command.claim.terms = request->terms;
    op->command.claim.capabilities = &op->claim.claimer.capabilities;
    op->command.claim.start = request->start;
    op->command.claim.code_version = request->code_version;
    op->command.claim.judge = request->judge;
    call->wait_ms = request->wait_ms;
    call->call.wait_ms = op->claim.wait_ms;
    call->state = request;
    return ERR_OK;
}

/* ---- the result --------------------------------------------------------------------------- */

/* What a step gets from one that it depends on. */
struct input {
    struct str id;
    struct str result; /* raw JSON */
};

/* One claim, with what is read for it. */
struct granted {
    struct input *inputs; /* of a step */
    uint32_t input_count;
    struct refs unread; /* of struct str, raw JSON: inputs that are left to read */
    struct claim_found records;
    struct refs events;  /* of struct event, when the claim asks for history */
    int64_t events_next; /* the version up to which they go */
};

struct claim_result {
    struct granted *granted; /* one a grant */
    bool history;
};

/* One who reads for the claims of a response. There is no transaction when the response is to be
 * brief, and when it cannot be had: then the response says what is left to read, since the
 * work itself must not get lost. */
struct reader {
    struct store_txn *txn; /* NULL: nothing can be read */
    struct arena *arena;
    size_t history_left; /* bytes that may still be read */
    size_t inputs_left;
    struct claim_inputs inputs;
    struct claim_records records;
    bool failed; /* memory ran out */
};

/* Reads one page of the events behind `after`; false when it cannot be had. */
static bool read_page(struct reader *reader, struct uuid job, int64_t after, uint32_t limit,
                      struct event **ret, uint32_t *ret_count)
{
    struct store_stream stream = {.job = job, .after = after, .limit = limit};
    return reader->txn != NULL &&
           store_events(reader->txn, &stream, reader->arena, ret, ret_count, NULL) == ERR_OK &&
           *ret_count > 0;
}

/* Reads events up to the job's version as far as there is room. */
static void read_history(struct reader *reader, const struct job *job, struct granted *ret)
{
    uint32_t limit = PAGE_MIN;
    struct event *events = NULL;
    uint32_t count = 0;
    while (ret->events_next < job->version &&
           read_page(reader, job->id, ret->events_next, limit, &events, &count)) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < count && ret->events_next < job->version; i++) {
            size_t size = events[i].payload.len + EVENT_BYTES;
            if (size > reader->history_left || reader->failed)
                return;
            reader->failed = !refs_add(&ret->events, reader->arena, &events[i]);
            reader->history_left -= size;
            bytes += size;
            ret->events_next = events[i].version;
        }
        if (bytes < PAGE_BYTES_MAX && limit < PAGE_MAX)
            limit *= 2;
        else if (bytes >= PAGE_BYTES_MAX)
            limit = PAGE_MIN;
    }
}

/* Finds what the dependencies of a step came to, and what of it is left to read: it would be too
 * much, or could not be read. */
static void find_inputs(struct reader *reader, struct uuid job, struct str deps,
                        struct granted *ret)
{
    struct json_iter iter;
    struct input input;
    size_t count = json_count(deps);
    struct str *raws = arena_alloc(reader->arena, (count + 1) * sizeof *raws);
    ret->inputs = arena_alloc(reader->arena, count * sizeof *ret->inputs);
    if (raws == NULL || ret->inputs == NULL)
        reader->failed = true;
    bool more = !reader->failed && json_array_begin(&iter, deps);
    while (more && json_array_next(&iter, raws)) {
        if (json_string(*raws, reader->arena, &input.id) &&
            claim_inputs_find(&reader->inputs, job, input.id, &input.result) &&
            input.result.len <= reader->inputs_left) {
            reader->inputs_left -= input.result.len;
            ret->inputs[ret->input_count++] = input;
        } else if (!refs_add(&ret->unread, reader->arena, raws++)) {
            reader->failed = true;
        }
    }
}

/* Whether there are effects or waits to carry. */
static bool has_records(const struct grant *grant)
{
    const struct job *job = &grant->slice->job;
    return grant->step != NULL ? step_has_records(job, grant->step) : job_has_records(job);
}

static void read_records(struct reader *reader, const struct grant *grant, struct claim_found *ret)
{
    const struct job *job = &grant->slice->job;
    struct str step = grant->step != NULL ? grant->step->spec.id : (struct str){NULL, 0};
    int64_t after = job->effects_from;
    if (has_records(grant) &&
        !claim_records_read(&reader->records, job->id, step, after, reader->arena, ret))
        reader->failed = true;
}

/* Whether there is something to read for the response. */
static bool needs_reading(const struct op *op, bool history)
{
    bool needs = false;
    for (uint32_t i = 0; i < op->grant_count; i++) {
        const struct step *step = op->grants[i].step;
        needs = needs || history || (step != NULL && json_count(step->spec.deps) > 0) ||
                has_records(&op->grants[i]);
    }
    return needs;
}

static void reader_begin(struct reader *reader, struct verb_call *call, bool reads)
{
    struct store *store = reads ? engine_store(call->engine) : NULL;
    uint64_t seed = reads ? store->options.seed : 0;
    *reader = (struct reader){
        .arena = call->arena,
        .history_left = HISTORY_BYTES_MAX,
        .inputs_left = INPUTS_BYTES_MAX,
    };
    if (reads && store_begin(store, STORE_READ, &reader->txn, NULL) != ERR_OK)
        reader->txn = NULL;
    claim_inputs_init(&reader->inputs, call->arena, seed);
    reader->records = (struct claim_records){reader->txn, seed, RECORDS_BYTES_MAX};
}

static enum error_code reader_end(struct reader *reader, struct err *err)
{
    if (reader->txn != NULL)
        store_rollback(reader->txn);
    return reader->failed ? err_set(err, ERR_NO_MEMORY, "out of memory") : ERR_OK;
}

static void read_inputs(struct reader *reader)
{
    if (reader->txn != NULL && !reader->failed)
        reader->failed = !claim_inputs_read(&reader->inputs, reader->txn, INPUTS_BYTES_MAX);
}

/* Reads what goes with the grants. */
static void read_granted(struct reader *reader, const struct op *op, struct claim_result *ret)
{
    for (uint32_t i = 0; i < op->grant_count && reader->txn != NULL && !reader->failed; i++)
        if (op->grants[i].step != NULL)
            reader->failed = !claim_inputs_want(&reader->inputs, op->grants[i].slice->job.id,
                                                op->grants[i].step->spec.deps);
    read_inputs(reader);
    for (uint32_t i = 0; i < op->grant_count && !reader->failed; i++) {
        const struct grant *grant = &op->grants[i];
        if (grant->step != NULL)
            find_inputs(reader, grant->slice->job.id, grant->step->spec.deps, &ret->granted[i]);
        read_records(reader, grant, &ret->granted[i].records);
        if (ret->history)
            read_history(reader, &grant->slice->job, &ret->granted[i]);
    }
}

static enum error_code claim_finish(struct verb_call *call, struct err *err)
{
    const struct op *op = call->call.ops[0];
    const struct claim_request *request = call->state;
    struct reader reader;
    enum error_code code = verb_outcome(call, err);
    if (code != ERR_OK)
        return code;
    struct claim_result *result = arena_zalloc(call->arena, 1, sizeof *result);
    struct granted *granted = arena_zalloc(call->arena, op->grant_count, sizeof *result->granted);
    if (result == NULL || granted == NULL)
        return verb_no_memory(err);
    *result = (struct claim_result){granted, request->history};
    reader_begin(&reader, call, !call->brief && needs_reading(op, request->history));
    read_granted(&reader, op, result);
    call->result.data = result;
    call->result.has_come = op->grant_count > 0;
    call->result.bytes = HISTORY_BYTES_MAX - reader.history_left + INPUTS_BYTES_MAX -
                         reader.inputs_left + RECORDS_BYTES_MAX - reader.records.bytes_left;
    return reader_end(&reader, err);
}

static void put_inputs(struct json_writer *writer, const struct granted *granted)
{
    json_key(writer, STR("inputs"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < granted->input_count; i++) {
        answer_key(writer, granted->inputs[i].id);
        json_put_raw(writer, granted->inputs[i].result);
    }
    json_end_object(writer);
    if (granted->unread.count == 0)
        return;
    json_key(writer, STR("inputs_left"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < granted->unread.count; i++)
        json_put_raw(writer, *(const struct str *)granted->unread.at[i]);
    json_end_array(writer);
}

static void put_history(struct json_writer *writer, const struct job *job,
                        const struct granted *granted)
{
    json_key(writer, STR("events"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < granted->events.count; i++)
        answer_event(writer, granted->events.at[i], job->spec.traceparent);
    json_end_array(writer);
    if (granted->events_next < job->version)
        answer_int(writer, STR("events_next"), granted->events_next);
}

static void claim_write(const struct verb_call *call, struct json_writer *writer)
{
    const struct op *op = call->call.ops[0];
    const struct claim_result *result = call->result.data;
    json_begin_object(writer);
    json_key(writer, STR("claims"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < op->grant_count; i++) {
        const struct grant *grant = &op->grants[i];
        answer_grant(writer, grant);
        if (grant->step != NULL)
            put_inputs(writer, &result->granted[i]);
        claim_found_write(&result->granted[i].records, writer);
        if (result->history)
            put_history(writer, &grant->slice->job, &result->granted[i]);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

static bool claim_reads(const struct verb_call *call)
{
    const struct claim_request *request = call->state;
    return needs_reading(call->call.ops[0], request->history);
}

const struct verb verb_claim = {.request = &claim_record,
                                .prepare = claim_prepare,
                                .finish = claim_finish,
                                .write = claim_write,
                                .reads = claim_reads};
const struct verb verb_claim_steps = {.request = &claim_steps_record,
                                      .prepare = claim_prepare,
                                      .finish = claim_finish,
                                      .write = claim_write,
                                      .reads = claim_reads};
