#include "engine/keyed.h"

#include "engine/recall.h"

/* The record of the request, if it was carried out before. */
static enum error_code look(struct verb_call *call, const uint8_t hash[HASH_LEN],
                            enum request_standing *ret, struct str *ret_record, struct err *err)
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
        *ret_record = known.record.answer;
    return code;
}

/* Writes the record. Should that fail the response is given all the same: it is done. */
static void keep(struct verb_call *call, const uint8_t hash[HASH_LEN])
{
    struct op op = {.type = OP_ANSWERED, .request = {.scope = call->scope, .key = call->key}};
    struct op *ops[] = {&op};
    struct buf record;
    buf_init(&record, call->arena, 1024);
    recall_write(call, &record);
    if (record.failed)
        return;
    op.response = buf_str(&record);
    memcpy(op.request.body_hash, hash, HASH_LEN);
    struct call write = {.ops = ops, .count = 1, .class = CALL_RESULT, .bytes = record.len};
    if (engine_run(call->engine, &write, NULL) == ERR_OK)
        call_release(&write);
}

enum error_code keyed_run(struct verb_call *call, struct err *err)
{
    uint8_t hash[HASH_LEN];
    enum request_standing standing;
    struct str record;
    verb_hash_request(call, hash);
    enum error_code code = look(call, hash, &standing, &record, err);
    if (code != ERR_OK)
        return code;
    if (standing == REQUEST_REPEATED)
        return recall(call, record, err);
    code = verb_run_own(call, err);
    if (code == ERR_OK)
        keep(call, hash);
    return code;
}
