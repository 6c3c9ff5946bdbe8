/* claim and claim_steps: work for a worker, with what it needs to begin. */
#include <assert.h>
#include <stdlib.h>

#include "base/planted.h"
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
    EVENT_BYTES = 1024,          /* about what an event has besides its payload */
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

static const struct record_field claim_fields[] = {CLAIM_FIELDS};
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
        return err_set(err, ERR_BAD_REQUEST, "worker_id is missing: it says who will do the work");
    if (access_is_reserved(request->worker_id))
        return err_set(err, ERR_BAD_REQUEST,
                       "worker_id must not begin with \"" ACCESS_ACTOR_PREFIX "\": that is how "
                       "histories name the tokens of requests");
    if (call->name == VERB_claim_steps && !request->judge && !str_is_set(request->resource_id))
        return err_set(err, ERR_BAD_REQUEST,
                       "resource_id is missing: a step runs on a resource, unless it is only to "
                       "be judged");
    return lease_terms_check(request->terms.lease_ttl_ms, request->terms.heartbeat_ms, err);
}

static enum error_code claim_prepare(struct verb_call *call, struct err *err)
{
    bool steps = call->name == VERB_claim_steps;
    struct claim_request *request = arena_zalloc(call->arena, 1, sizeof *request);
    struct op *op = verb_op(call);
    if (request == NULL || op == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is no memory for a claim");
    if (call->no_claims != NULL)
        return err_set(err, ERR_UNAVAILABLE, "%s", call->no_claims);
    request->max = 1;
    request->start = true;
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
    op->claim.max = (uint32_t)request->max;
    op->claim.wait_ms = request->wait_ms;
    op->command = (struct command){
        .type = steps ? COMMAND_STEP_CLAIM : COMMAND_CLAIM,
        .actor = request->worker_id,
    };
    op->command.claim.worker_id = request->worker_id;
    op->command.claim.terms = request->terms;
    op->command.claim.capabilities = &op->claim.claimer.capabilities;
    op->command.claim.start = request->start;
    op->command.claim.judge = request->judge;
    call->call.wait_ms = request->wait_ms;
    call->state = request;
    return ERR_OK;
}

/* ---- answering ---------------------------------------------------------------------------- */

/* One who writes an answer with what is read for it. There is no transaction when the answer is
 * written before the claim is committed, to be kept for repetitions, and when there is none to be
 * had: then the answer says what is left to read, since the work itself must not get lost. */
struct teller {
    struct store_txn *txn; /* NULL: nothing can be read */
    struct arena page;     /* for what is read, thrown away once it is written */
    struct json_writer writer;
    size_t history_left; /* bytes that may still be written */
    size_t inputs_left;
    struct claim_inputs inputs;
    struct claim_records records;
    bool failed; /* memory ran out */
};

/* Reads one page of the events behind `after`; false when there is none to be had. */
static bool read_page(struct teller *teller, struct uuid job, int64_t after, uint32_t limit,
                      struct event **ret, uint32_t *ret_count)
{
    struct store_stream stream = {.job = job, .after = after, .limit = limit};
    arena_clear(&teller->page);
    return teller->txn != NULL &&
           store_events(teller->txn, &stream, &teller->page, ret, ret_count, NULL) == ERR_OK &&
           *ret_count > 0;
}

/* Writes events up to the job's version as far as there is room; returns the last one written. */
static int64_t put_events(struct teller *teller, const struct job *job)
{
    int64_t after = 0;
    uint32_t limit = PAGE_MIN;
    struct event *events = NULL;
    uint32_t count = 0;
    while (after < job->version && read_page(teller, job->id, after, limit, &events, &count)) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < count && after < job->version; i++) {
            size_t before = teller->writer.buf->len;
            if (events[i].payload.len + EVENT_BYTES > teller->history_left)
                return after;
            answer_event(&teller->writer, &events[i], job->spec.traceparent);
            size_t written = teller->writer.buf->len - before;
            teller->history_left -= written < teller->history_left ? written : teller->history_left;
            bytes += written;
            after = events[i].version;
        }
        if (bytes < PAGE_BYTES_MAX && limit < PAGE_MAX)
            limit *= 2;
        else if (bytes >= PAGE_BYTES_MAX)
            limit = PAGE_MIN;
    }
    return after;
}

static void put_history(struct teller *teller, const struct job *job)
{
    json_key(&teller->writer, STR("events"));
    json_begin_array(&teller->writer);
    int64_t after = put_events(teller, job);
    json_end_array(&teller->writer);
    if (after < job->version)
        answer_int(&teller->writer, STR("events_next"), after);
}

/* Writes what the dependencies of a step came to, and what of it is left to read: it would be too
 * much, or could not be read. */
static void put_inputs(struct teller *teller, struct uuid job, struct str deps)
{
    struct json_iter iter;
    struct json_writer left;
    struct buf names;
    struct str raw;
    struct str id;
    struct str result;
    buf_init(&names, teller->writer.buf->arena, 0);
    json_writer_init(&left, &names);
    json_begin_array(&left);
    json_key(&teller->writer, STR("inputs"));
    json_begin_object(&teller->writer);
    bool more = json_array_begin(&iter, deps);
    while (more && json_array_next(&iter, &raw)) {
        if (!json_string(raw, &teller->page, &id) ||
            !claim_inputs_find(&teller->inputs, job, id, &result) ||
            result.len > teller->inputs_left) {
            json_put_raw(&left, raw);
            continue;
        }
        teller->inputs_left -= result.len;
        answer_key(&teller->writer, id);
        json_put_raw(&teller->writer, result);
    }
    arena_clear(&teller->page);
    json_end_object(&teller->writer);
    json_end_array(&left);
    if (names.len > 2)
        answer_raw(&teller->writer, STR("inputs_left"), buf_str(&names));
    teller->failed = teller->failed || names.failed;
}

/* Whether there are effects or waits to carry. */
static bool has_records(const struct grant *grant)
{
    const struct job *job = &grant->slice->job;
    return grant->step != NULL ? step_has_records(job, grant->step) : job_has_records(job);
}

static void put_records(struct teller *teller, const struct grant *grant)
{
    const struct job *job = &grant->slice->job;
    struct str step = grant->step != NULL ? grant->step->spec.id : (struct str){NULL, 0};
    if (has_records(grant))
        claim_records_put(&teller->records, &teller->writer, job->id, step,
                          PLANTED(CLAIM_CARRIES_OLD_EFFECTS) ? 0 : job->effects_from);
    else
        claim_records_put_none(&teller->writer);
}

static void put_claims(struct teller *teller, const struct op *op, bool history)
{
    struct json_writer *writer = &teller->writer;
    json_begin_object(writer);
    json_key(writer, STR("claims"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < op->grant_count; i++) {
        const struct grant *grant = &op->grants[i];
        answer_grant(writer, grant);
        if (grant->step != NULL)
            put_inputs(teller, grant->slice->job.id, grant->step->spec.deps);
        put_records(teller, grant);
        if (history)
            put_history(teller, &grant->slice->job);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

/* Whether there is something to read for the answer. */
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

static void teller_begin(struct teller *teller, struct verb_call *call, bool reads,
                         struct buf *answer)
{
    *teller = (struct teller){
        .history_left = HISTORY_BYTES_MAX,
        .inputs_left = INPUTS_BYTES_MAX,
    };
    if (reads && store_begin(engine_store(call->engine), STORE_READ, &teller->txn, NULL) != ERR_OK)
        teller->txn = NULL;
    arena_init(&teller->page);
    uint64_t seed = reads ? engine_store(call->engine)->options.seed : 0;
    claim_inputs_init(&teller->inputs, seed);
    claim_records_init(&teller->records, teller->txn, seed);
    json_writer_init(&teller->writer, answer);
}

static enum error_code teller_end(struct teller *teller, struct err *err)
{
    bool failed = teller->failed || teller->records.failed;
    claim_inputs_release(&teller->inputs);
    claim_records_release(&teller->records);
    arena_release(&teller->page);
    if (teller->txn != NULL)
        store_rollback(teller->txn);
    return failed ? err_set(err, ERR_NO_MEMORY, "there is no memory for the answer") : ERR_OK;
}

static void read_inputs(struct teller *teller)
{
    if (teller->txn != NULL && !teller->failed)
        teller->failed = !claim_inputs_read(&teller->inputs, teller->txn, INPUTS_BYTES_MAX);
}

static enum error_code claim_text(struct verb_call *call, struct buf *answer, struct err *err)
{
    const struct op *op = call->call.ops[0];
    const struct claim_request *request = call->state;
    struct teller teller;
    if (op->code != ERR_OK)
        return err_set(err, op->code, "%s", op->err.detail);
    bool needs = needs_reading(op, request->history);
    bool reads = !call->rendering && needs;
    call->left_out = needs && !reads;
    teller_begin(&teller, call, reads, answer);
    for (uint32_t i = 0; i < op->grant_count && reads && !teller.failed; i++)
        if (op->grants[i].step != NULL)
            teller.failed = !claim_inputs_want(&teller.inputs, op->grants[i].slice->job.id,
                                               op->grants[i].step->spec.deps);
    read_inputs(&teller);
    put_claims(&teller, op, request->history);
    return teller_end(&teller, err);
}

/* ---- answering once more ------------------------------------------------------------------ */

/* The answer that was kept says which inputs and records are left to read: it was written before
 * the claim was committed. They are read now. Inputs are the same, since no step changes that has
 * succeeded; of effects there may be more, if the first answer did arrive. */
struct kept_claim {
    struct uuid job;
    struct str step; /* absent: it is of a job */
    struct str left; /* raw JSON; absent: it has no inputs */
    bool has_records;
    int64_t after; /* its records are those behind this version */
};

static struct kept_claim kept_claim(struct str claim, struct arena *arena)
{
    struct kept_claim kept = {0};
    struct str step = json_member(claim, STR("step"));
    struct str text = str_is_set(step) ? json_member(claim, STR("job_id"))
                                       : json_member(json_member(claim, STR("job")), STR("id"));
    struct str id;
    if (!json_string(text, arena, &id) || !uuid_parse(id, &kept.job))
        return kept;
    kept.left = json_member(claim, STR("inputs_left"));
    kept.has_records = json_int64(json_member(claim, STR("effects_next")), &kept.after);
    if (str_is_set(step) && !json_string(json_member(step, STR("id")), arena, &kept.step))
        kept.has_records = false;
    return kept;
}

/* Whether a member is written anew. */
static bool is_read_anew(const struct kept_claim *kept, struct str key)
{
    bool of_inputs = json_key_is(key, STR("inputs")) || json_key_is(key, STR("inputs_left"));
    bool of_records = json_key_is(key, STR("effects")) || json_key_is(key, STR("waits")) ||
                      json_key_is(key, STR("effects_next"));
    return (of_inputs && str_is_set(kept->left)) || (of_records && kept->has_records);
}

static void put_kept(struct teller *teller, struct str claim)
{
    struct kept_claim kept = kept_claim(claim, teller->writer.buf->arena);
    if (!str_is_set(kept.left) && !kept.has_records) {
        json_put_raw(&teller->writer, claim);
        return;
    }
    struct json_iter iter;
    struct str key;
    struct str value;
    json_begin_object(&teller->writer);
    (void)json_object_begin(&iter, claim);
    /* In the order of the first response, so that a repeated one has the same bytes. */
    while (json_object_next(&iter, &key, &value))
        if (!is_read_anew(&kept, key))
            answer_raw(&teller->writer, (struct str){key.at + 1, key.len - 2}, value);
        else if (json_key_is(key, STR("inputs")))
            put_inputs(teller, kept.job, kept.left);
        else if (json_key_is(key, STR("effects")))
            claim_records_put(&teller->records, &teller->writer, kept.job, kept.step, kept.after);
    json_end_object(&teller->writer);
}

static enum error_code claim_repeat(struct verb_call *call, struct str body, struct buf *answer,
                                    struct err *err)
{
    struct str claims = json_member(body, STR("claims"));
    struct json_iter iter;
    struct str claim;
    struct teller teller;
    teller_begin(&teller, call, true, answer);
    for (bool more = json_array_begin(&iter, claims); more && json_array_next(&iter, &claim);) {
        struct kept_claim kept = kept_claim(claim, &teller.page);
        if (str_is_set(kept.left) && !claim_inputs_want(&teller.inputs, kept.job, kept.left))
            teller.failed = true;
    }
    read_inputs(&teller);
    json_begin_object(&teller.writer);
    json_key(&teller.writer, STR("claims"));
    json_begin_array(&teller.writer);
    for (bool more = json_array_begin(&iter, claims); more && json_array_next(&iter, &claim);)
        put_kept(&teller, claim);
    json_end_array(&teller.writer);
    json_end_object(&teller.writer);
    return teller_end(&teller, err);
}

static bool claim_reads(const struct verb_call *call)
{
    const struct claim_request *request = call->state;
    return needs_reading(call->call.ops[0], request->history);
}

const struct verb verb_claim = {.request = &claim_record,
                                .prepare = claim_prepare,
                                .text = claim_text,
                                .repeat = claim_repeat,
                                .reads = claim_reads};
const struct verb verb_claim_steps = {.request = &claim_steps_record,
                                      .prepare = claim_prepare,
                                      .text = claim_text,
                                      .repeat = claim_repeat,
                                      .reads = claim_reads};
