/* Requests under a key: which of them were carried out before, and what is kept of the others.
 *
 * A record is written in the commit that it is about. It has an entry for each operation of the
 * request (core/request_memo.h); the response is made of it only when the request comes again
 * (engine/recall.h). */
#include <assert.h>

#include "core/request_memo.h"
#include "engine/batch_private.h"

/* ---- known requests ----------------------------------------------------------------------- */

/* A request that came twice and is twice in this batch: the first is carried out. */
static enum error_code check_duplicate(const struct op *first, struct op *op)
{
    if (memcmp(first->request.body_hash, op->request.body_hash, HASH_LEN) != 0)
        return err_set(&op->err, ERR_IDEMPOTENCY_MISMATCH,
                       "the key \"%.*s\" was used with a different request: use a new key",
                       STR_ARG(op->request.key));
    op->request.disposition = DISPOSITION_DUPLICATE;
    return err_set(&op->err, ERR_UNAVAILABLE, "the request \"%.*s\" is still running: retry later",
                   STR_ARG(op->request.key));
}

/* A lease that never arrived: if the record is of it, anyone who repeats the request in this batch
 * comes after it. A record that cannot be read stays. */
static enum error_code check_disclaimer(struct batch *batch, const struct store_request *known,
                                        struct op *op, struct op **first)
{
    struct request_memo memo = {0};
    struct err quiet;
    if (!known->found || *first != NULL)
        return ERR_OK;
    enum error_code code = request_memo_read(known->record.answer, batch->arena, &memo, &quiet);
    if (code == ERR_NO_MEMORY)
        return batch_no_memory(batch);
    if (code != ERR_OK || !request_memo_holds(&memo, op->request.lost))
        return ERR_OK;
    op->request.disposition = DISPOSITION_DISCLAIMS;
    memcpy(op->request.body_hash, known->record.body_hash, HASH_LEN);
    *first = op;
    return ERR_OK;
}

/* Whether the request of an operation was carried out before, or stands twice in this batch.
 * `firsts` has the operations that came first with their keys, by the place of the key. */
static enum error_code check_request(struct batch *batch, struct op *op, struct op **firsts)
{
    const struct store_request *known = batch_request(batch, &op->request);
    enum request_standing standing = REQUEST_NEW;
    if (known == NULL || op->code != ERR_OK)
        return ERR_OK;
    struct op **first = &firsts[known - batch->load.requests];
    if (op->request.lost != NULL)
        return check_disclaimer(batch, known, op, first);
    op->code = request_check(known->found ? &known->record : NULL, op->request.body_hash,
                             batch_trusted(batch), &standing, &op->err);
    if (op->code == ERR_OK && standing == REQUEST_REPEATED) {
        op->request.disposition = DISPOSITION_REPEATED;
        op->request.record = known->record.answer;
    } else if (op->code == ERR_OK && *first != NULL) {
        op->code = check_duplicate(*first, op);
    } else if (op->code == ERR_OK) {
        *first = op;
    }
    if (op->code == ERR_IDEMPOTENCY_MISMATCH)
        op->request.disposition = DISPOSITION_CLASHED;
    return ERR_OK;
}

enum error_code batch_check_requests(struct batch *batch)
{
    uint32_t count = batch->load.request_count;
    struct op **firsts = arena_zalloc(batch->arena, count + (size_t)1, sizeof(void *));
    enum error_code code = ERR_OK;
    if (firsts == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++) {
        struct op *op = batch->ops[i];
        const struct op *before = i > 0 && op->same_request ? batch->ops[i - 1] : NULL;
        if (before != NULL && before->code != ERR_OK) {
            op->code = before->code;
            op->err = before->err;
        } else if (before != NULL && op_is_repeated(before)) {
            op->request.disposition = DISPOSITION_REPEATED;
        }
        code = check_request(batch, op, firsts);
    }
    /* Only now, since work that was given out before is told of in any case. */
    for (uint32_t i = 0; i < batch->op_count; i++) {
        struct op *op = batch->ops[i];
        if (op->type == OP_CLAIM && op->claim.refusal != NULL && op->code == ERR_OK &&
            !op_is_repeated(op))
            op->code = err_set(&op->err, ERR_UNAVAILABLE, "%s", op->claim.refusal);
    }
    return code;
}

/* ---- records ------------------------------------------------------------------------------ */

/* Whether anything came of a request, all of its operations counted. A claim that found nothing has
 * changed nothing, and may be waiting still. */
static bool has_done_something(const struct batch *batch, uint32_t first)
{
    for (uint32_t i = first; i < batch->op_count && (i == first || batch->ops[i]->same_request);
         i++) {
        const struct op *op = batch->ops[i];
        if (op->code == ERR_OK && (op->type != OP_CLAIM || op->grant_count > 0))
            return true;
    }
    return false;
}

/* Whether there is something to write under the key of an operation. */
static bool has_record(const struct batch *batch, uint32_t index)
{
    const struct op_request *request = &batch->ops[index]->request;
    if (!str_is_set(request->scope))
        return false;
    if (request->lost != NULL)
        return request->disposition == DISPOSITION_DISCLAIMS;
    return request->disposition == DISPOSITION_NEW && has_done_something(batch, index);
}

/* What heartbeats have moved is in no history while the lease lives. A response to the holder of
 * the lease does not show it. */
static void remember_beats(const struct op *op, struct request_beats *ret)
{
    const struct job *job = &op->after->job;
    if (!job->lease.live || str_is_set(op->command.token))
        return;
    *ret = (struct request_beats){
        .set = true,
        .beat_at = job->lease.beat_at,
        .expires_at = job->lease.expires_at,
        .progress = job->progress,
        .cursor = job->cursor,
    };
}

static bool remember_leases(const struct op *op, struct arena *arena, struct request_entry *ret)
{
    ret->claim.leases = arena_zalloc(arena, op->grant_count, sizeof *ret->claim.leases);
    if (ret->claim.leases == NULL && op->grant_count > 0)
        return false;
    for (uint32_t i = 0; i < op->grant_count; i++) {
        const struct grant *grant = &op->grants[i];
        struct request_lease *lease = &ret->claim.leases[ret->claim.count++];
        struct token token;
        bool parsed = token_parse(grant->result.token, &token);
        assert(parsed);
        (void)parsed;
        *lease = (struct request_lease){.job = token.job,
                                        .version = grant->slice->job.version,
                                        .of_step = token.of_step,
                                        .step = token.of_step ? token.step : 0};
        memcpy(lease->secret, token.secret, TOKEN_SECRET_LEN);
    }
    return true;
}

/* What an operation came to; false: no memory. */
static bool remember(const struct op *op, struct arena *arena, struct request_entry *ret)
{
    if (op->code != ERR_OK) {
        ret->type = REQUEST_REFUSED;
        ret->refused.code = op->code;
        ret->refused.at = op->refused_at;
        ret->refused.detail = str_from(op->err.detail);
    } else if (op->type == OP_CLAIM) {
        ret->type = REQUEST_CLAIM;
        return remember_leases(op, arena, ret);
    } else if (!op_is_of_jobs(op)) {
        struct buf body;
        buf_init(&body, arena, 256);
        ret->type = REQUEST_BODY;
        ret->body.status = op->request.render(op->request.arg, &body);
        ret->body.text = buf_str(&body);
        return !body.failed;
    } else {
        ret->type = REQUEST_JOB;
        ret->job.job = op->after->job.id;
        ret->job.version = op->after->job.version;
        ret->job.result = op->result;
        ret->job.has_effect_key = str_is_set(op->result.effect_idempotency_key);
        remember_beats(op, &ret->job.beats);
    }
    return true;
}

/* Writes what the operations of the request came to that begins at `first`. */
static enum error_code write_memo(struct batch *batch, uint32_t first, struct buf *buf)
{
    struct request_memo memo = {0};
    uint32_t end = first + 1;
    while (end < batch->op_count && batch->ops[end]->same_request)
        end++;
    memo.entries = arena_zalloc(batch->arena, end - first, sizeof *memo.entries);
    if (memo.entries == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = first; i < end; i++)
        if (op_is_recorded(batch->ops[i]) &&
            !remember(batch->ops[i], batch->arena, &memo.entries[memo.count++]))
            return batch_no_memory(batch);
    request_memo_write(&memo, buf);
    return ERR_OK;
}

/* Writes what is left of a record without its leases. One of which nothing is left is as old as
 * those that count as none: anyone who sweeps them takes it along. */
static enum error_code disclaim(struct batch *batch, const struct op_request *request,
                                struct request_record *record, struct buf *buf)
{
    const struct request_record *known = &batch_request(batch, request)->record;
    struct request_memo memo;
    enum error_code code = request_memo_read(known->answer, batch->arena, &memo, batch->err);
    if (code != ERR_OK)
        return code;
    bool any = request_memo_disclaim(&memo);
    record->at = any ? known->at : batch->load.now - REQUEST_KEPT_MS;
    if (any)
        request_memo_write(&memo, buf);
    return ERR_OK;
}

static enum error_code write_record(struct batch *batch, uint32_t index, struct request_record *ret)
{
    const struct op *op = batch->ops[index];
    const struct op_request *request = &op->request;
    struct buf buf;
    enum error_code code = ERR_OK;
    buf_init(&buf, batch->arena, 64);
    *ret = (struct request_record){
        .scope = request->scope, .key = request->key, .at = batch->load.now};
    memcpy(ret->body_hash, request->body_hash, HASH_LEN);
    if (op->type == OP_ANSWERED)
        buf_add(&buf, op->response);
    else if (request->lost != NULL)
        code = disclaim(batch, request, ret, &buf);
    else
        code = write_memo(batch, index, &buf);
    ret->answer = buf_str(&buf);
    return code == ERR_OK && buf.failed ? batch_no_memory(batch) : code;
}

static bool has_probe(const struct batch *batch)
{
    for (uint32_t i = 0; i < batch->op_count; i++)
        if (batch->ops[i]->type == OP_PROBE)
            return true;
    return false;
}

enum error_code batch_write_requests(struct batch *batch, struct store_write *write)
{
    enum error_code code = ERR_OK;
    if (batch->load.request_count == 0 && !has_probe(batch))
        return ERR_OK;
    struct request_record *records = arena_zalloc(batch->arena, batch->op_count, sizeof *records);
    if (records == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++)
        if (batch->ops[i]->type == OP_PROBE)
            records[write->request_count++] = (struct request_record){.scope = STR("pawl:probe"),
                                                                      .key = batch->ops[i]->probe,
                                                                      .at = batch->load.now,
                                                                      .answer = STR("{}")};
        else if (has_record(batch, i))
            code = write_record(batch, i, &records[write->request_count++]);
    write->requests = records;
    return code;
}
