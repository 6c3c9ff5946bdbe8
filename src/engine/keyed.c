#include "engine/keyed.h"

#include "base/planted.h"

/* The record of the request, if it was carried out before. */
static enum error_code look(struct verb_call *call, const uint8_t hash[HASH_LEN],
                            enum request_standing *ret, struct str *ret_answer, struct err *err)
{
    struct store_txn *txn;
    struct store_request known = {.scope = call->scope, .key = call->key};
    struct store_load load = {.requests = &known, .request_count = 1};
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, call->arena, err);
    store_rollback(txn);
    if (code == ERR_OK)
        code = request_check(known.found ? &known.record : NULL, hash,
                             engine_trusted(call->engine, load.now), ret, err);
    if (code == ERR_OK)
        *ret_answer = known.record.answer;
    return code;
}

/* What is kept: the status and the body, as of any other verb. */
struct kept {
    const struct verb_call *call;
    struct str body;
};

static void render(void *arg, struct buf *buf)
{
    const struct kept *kept = arg;
    verb_keep_answer(kept->call->result.status, kept->body, buf);
}

/* Writes the record. Should that fail the answer is given all the same: it is done. */
static void keep(struct verb_call *call, const uint8_t hash[HASH_LEN], struct str body)
{
    struct kept kept = {.call = call, .body = body};
    struct op op = {.type = OP_ANSWERED};
    struct op *ops[] = {&op};
    struct call record = {.ops = ops, .count = 1, .class = CALL_RESULT, .bytes = body.len};
    op.request =
        (struct op_request){.scope = call->scope, .key = call->key, .render = render, .arg = &kept};
    memcpy(op.request.body_hash, hash, HASH_LEN);
    if (engine_run(call->engine, &record, NULL) == ERR_OK)
        call_release(&record);
}

enum error_code keyed_run(struct verb_call *call, struct err *err)
{
    uint8_t hash[HASH_LEN];
    enum request_standing standing;
    struct str kept;
    struct buf body;
    verb_hash_request(call, hash);
    enum error_code code = look(call, hash, &standing, &kept, err);
    if (code != ERR_OK)
        return code;
    if (standing == REQUEST_REPEATED)
        return verb_repeat_answer(call, kept, err);
    code = verb_run_own(call, err);
    if (code != ERR_OK || PLANTED(ANSWER_NOT_KEPT))
        return code;
    buf_init(&body, call->arena, 1024);
    verb_write(call, &body);
    if (!body.failed)
        keep(call, hash, buf_str(&body));
    return ERR_OK;
}
