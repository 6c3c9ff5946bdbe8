/* What the holder of a lease says: start, heartbeat, complete, fail, wait, release, cancelled,
 * abandon, effect_begin, effect_commit, effect_abort; and asks: effects. The token names the job.
 */
#include <assert.h>

#include "core/token.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/claim_records.h"
#include "engine/verb.h"

struct complete_request {
    struct str result;
};

/* What follows a commit: one of these, as the request names it. */
struct then_request {
    struct effect_call begin;
    struct wait_request wait;
    struct complete_request complete;
};

/* The members of all of these requests; each verb has a table of its own with those it takes. */
struct lease_request {
    struct str token;
    struct str progress;
    struct str cursor;
    struct str result;
    struct failure error;
    int64_t retry_after_ms; /* -1: not said */
    struct wait_request wait;
    enum dead_letter_reason reason_code;
    enum stage stage;
    struct str message;
    struct effect_call effect;
    struct effect_call next;
    struct then_request then;
};

#define FIELD(member, kind) RECORD_FIELD(struct lease_request, member, #member, kind)
#define ENUM_FIELD(member, names) RECORD_FIELD_ENUM(struct lease_request, member, #member, names)

static const struct record_field token_fields[] = {FIELD(token, TEXT)};
RECORD_TABLE(token);

static const struct record_field heartbeat_fields[] = {
    FIELD(token, TEXT),
    FIELD(progress, JSON),
    FIELD(cursor, TEXT),
};
RECORD_TABLE(heartbeat);

static const struct record_field complete_fields[] = {FIELD(token, TEXT), FIELD(result, JSON)};
RECORD_TABLE(complete);

static const struct record_field fail_fields[] = {
    FIELD(token, TEXT),
    RECORD_FIELD_NESTED(struct lease_request, error, "error", failure_record),
    RECORD_FIELD_RANGE(struct lease_request, retry_after_ms, "retry_after_ms", INT, 0,
                       DELAY_MS_MAX),
};
RECORD_TABLE(fail);

/* Of a wait_request that is `in` a struct, or is the struct itself. */
#define WAIT_FIELDS(type_, in)                                                                     \
    RECORD_FIELD_ENUM(type_, in type, "type", wait_request_names),                                 \
        RECORD_FIELD(type_, in correlation_key, "correlation_key", NAME),                          \
        RECORD_FIELD_RANGE(type_, in timeout_ms, "timeout_ms", INT, 0, DELAY_MS_MAX),              \
        RECORD_FIELD_RANGE(type_, in delay_ms, "delay_ms", INT, 1, DELAY_MS_MAX),                  \
        RECORD_FIELD(type_, in until, "until", TIME), RECORD_FIELD(type_, in park, "park", BOOL),  \
        RECORD_FIELD(type_, in prompt, "prompt", TEXT),                                            \
        RECORD_FIELD(type_, in choices, "choices", ARRAY),                                         \
        RECORD_FIELD(type_, in assignee, "assignee", NAME),                                        \
        RECORD_FIELD(type_, in default_answer, "default_answer", JSON)

static const struct record_field wait_fields[] = {
    FIELD(token, TEXT),
    WAIT_FIELDS(struct lease_request, wait.),
};
RECORD_TABLE(wait);

static const struct record_field abandon_fields[] = {
    FIELD(token, TEXT),
    ENUM_FIELD(reason_code, dead_letter_reason_names),
    ENUM_FIELD(stage, stage_names),
    FIELD(message, TEXT),
};
RECORD_TABLE(abandon);

/* The same of an effect_call. */
#define CALL_FIELDS(type_, in)                                                                     \
    RECORD_FIELD(type_, in key, "key", NAME), RECORD_FIELD(type_, in input, "input", JSON),        \
        RECORD_FIELD(type_, in fingerprint, "fingerprint", TEXT),                                  \
        RECORD_FIELD_ENUM(type_, in in_doubt, "in_doubt", doubt_policy_names)

static const struct record_field effect_begin_fields[] = {
    FIELD(token, TEXT),
    CALL_FIELDS(struct lease_request, effect.),
};
RECORD_TABLE(effect_begin);

static const struct record_field call_fields[] = {CALL_FIELDS(struct effect_call, )};
RECORD_TABLE(call);

static const struct record_field then_wait_fields[] = {WAIT_FIELDS(struct wait_request, )};
RECORD_TABLE(then_wait);

static const struct record_field then_complete_fields[] = {
    RECORD_FIELD(struct complete_request, result, "result", JSON),
};
RECORD_TABLE(then_complete);

static const struct record_field then_fields[] = {
    RECORD_FIELD_NESTED(struct then_request, begin, "begin", call_record),
    RECORD_FIELD_NESTED(struct then_request, wait, "wait", then_wait_record),
    RECORD_FIELD_NESTED(struct then_request, complete, "complete", then_complete_record),
};
RECORD_TABLE(then);

static const struct record_field effect_commit_fields[] = {
    FIELD(token, TEXT),
    RECORD_FIELD(struct lease_request, effect.key, "key", NAME),
    FIELD(result, JSON),
    RECORD_FIELD_NESTED(struct lease_request, error, "error", failure_record),
    RECORD_FIELD_NESTED(struct lease_request, next, "next", call_record),
    RECORD_FIELD_NESTED(struct lease_request, then, "then", then_record),
};
RECORD_TABLE(effect_commit);

static const struct record_field effect_abort_fields[] = {
    FIELD(token, TEXT),
    RECORD_FIELD(struct lease_request, effect.key, "key", NAME),
    RECORD_FIELD_NESTED(struct lease_request, error, "error", failure_record),
};
RECORD_TABLE(effect_abort);

/* Reads the request, and adds the operation on the job that its token names. */
static enum error_code begin(struct verb_call *call, const struct record_type *type,
                             enum command_type command, struct lease_request *ret,
                             struct op **ret_op, struct err *err)
{
    struct token token;
    call->call.class = CALL_RESULT;
    enum error_code code = verb_read(call, type, ret, err);
    if (code != ERR_OK)
        return code;
    if (!str_is_set(ret->token)) {
        (void)verb_missing("token", "the token of the claim", err);
        return ERR_BAD_REQUEST;
    }
    if (!token_parse(ret->token, &token))
        return err_set(err, ERR_STALE_LEASE, "stale or unknown lease token \"%.*s\"",
                       STR_ARG(ret->token));
    struct op *op = verb_op(call);
    if (op == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    op->type = OP_COMMAND;
    op->job = token.job;
    op->command =
        (struct command){.type = command, .token = ret->token, .blind = access_blind(call)};
    *ret_op = op;
    return ERR_OK;
}

/* The step whose lease the call is about; NULL: the job's own. */
static const struct step *step_of(const struct op *op)
{
    struct token token;
    bool of_step = token_parse(op->command.token, &token) && token.of_step;
    return of_step ? job_step_at(op->after, token.step) : NULL;
}

static void write_brief(const struct verb_call *call, struct json_writer *writer)
{
    const struct op *op = call->call.ops[0];
    answer_brief(writer, &op->after->job, step_of(op), &op->result);
    json_end_object(writer);
}

/* ---- verbs without anything but the token ------------------------------------------------- */

static enum error_code prepare_plain(struct verb_call *call, enum command_type command,
                                     struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    return begin(call, &token_record, command, &request, &op, err);
}

static enum error_code start_prepare(struct verb_call *call, struct err *err)
{
    return prepare_plain(call, COMMAND_START, err);
}

static void start_write(const struct verb_call *call, struct json_writer *writer)
{
    const struct op *op = call->call.ops[0];
    answer_brief(writer, &op->after->job, step_of(op), &op->result);
    answer_time(writer, STR("expires_at"), op->result.expires_at);
    json_end_object(writer);
}

const struct verb verb_start = {
    .request = &token_record, .prepare = start_prepare, .write = start_write};

static enum error_code release_prepare(struct verb_call *call, struct err *err)
{
    return prepare_plain(call, COMMAND_RELEASE, err);
}

const struct verb verb_release = {
    .request = &token_record, .prepare = release_prepare, .write = write_brief};

static enum error_code cancelled_prepare(struct verb_call *call, struct err *err)
{
    return prepare_plain(call, COMMAND_CANCELLED, err);
}

const struct verb verb_cancelled = {
    .request = &token_record, .prepare = cancelled_prepare, .write = write_brief};

/* ---- heartbeat ---------------------------------------------------------------------------- */

static enum error_code heartbeat_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &heartbeat_record, COMMAND_HEARTBEAT, &request, &op, err);
    if (code == ERR_OK && str_is_set(request.progress))
        code = verb_check_payload(request.progress, "progress", err);
    if (code != ERR_OK)
        return code;
    op->command.heartbeat.progress = request.progress;
    op->command.heartbeat.cursor = request.cursor;
    return ERR_OK;
}

static void heartbeat_write(const struct verb_call *call, struct json_writer *writer)
{
    const struct op *op = call->call.ops[0];
    json_begin_object(writer);
    answer_time(writer, STR("expires_at"), op->result.expires_at);
    answer_bool(writer, STR("cancel_requested"), op->result.cancel_requested);
    json_end_object(writer);
}

const struct verb verb_heartbeat = {.request = &heartbeat_record,
                                    .prepare = heartbeat_prepare,

                                    .write = heartbeat_write};

/* ---- how the work ended ------------------------------------------------------------------- */

static enum error_code complete_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &complete_record, COMMAND_COMPLETE, &request, &op, err);
    if (code == ERR_OK && str_is_set(request.result))
        code = verb_check_payload(request.result, "result", err);
    if (code == ERR_OK)
        op->command.complete.result = request.result;
    return code;
}

const struct verb verb_complete = {.request = &complete_record,
                                   .prepare = complete_prepare,

                                   .write = write_brief};

static enum error_code fail_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {.retry_after_ms = -1};
    struct op *op = NULL;
    enum error_code code = begin(call, &fail_record, COMMAND_FAIL, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.error.message))
        code = verb_missing("error.message", "the error", err);
    if (code == ERR_OK && str_is_set(request.error.details))
        code = verb_check_payload(request.error.details, "error.details", err);
    if (code != ERR_OK)
        return code;
    op->command.fail = request.error;
    op->command.fail.has_retry_after = request.retry_after_ms >= 0;
    op->command.fail.retry_after_ms = request.retry_after_ms >= 0 ? request.retry_after_ms : 0;
    return ERR_OK;
}

const struct verb verb_fail = {
    .request = &fail_record, .prepare = fail_prepare, .write = write_brief};

static enum error_code check_wait(struct wait_request *wait, struct err *err)
{
    /* Anyone who says how long or until when need not say what that is called. */
    bool timed = wait->delay_ms != 0 || wait->until != 0;
    if (wait->type == WAIT_NONE && timed)
        wait->type = WAIT_TIMER;
    enum error_code code = ERR_OK;
    if (str_is_set(wait->choices))
        code = verb_check_payload(wait->choices, "choices", err);
    if (code == ERR_OK && str_is_set(wait->default_answer))
        code = verb_check_payload(wait->default_answer, "default_answer", err);
    return code;
}

static enum error_code wait_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &wait_record, COMMAND_WAIT, &request, &op, err);
    if (code == ERR_OK)
        code = check_wait(&request.wait, err);
    if (code != ERR_OK)
        return code;
    op->command.wait = request.wait;
    return ERR_OK;
}

const struct verb verb_wait = {
    .request = &wait_record, .prepare = wait_prepare, .write = write_brief};

static enum error_code abandon_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &abandon_record, COMMAND_ABANDON, &request, &op, err);
    if (code == ERR_OK && request.reason_code == DEAD_NONE)
        code = verb_missing("reason_code", "the reason", err);
    if (code != ERR_OK)
        return code;
    op->command.dead_letter.reason_code = request.reason_code;
    op->command.dead_letter.stage = request.stage;
    op->command.dead_letter.message = request.message;
    return ERR_OK;
}

const struct verb verb_abandon = {
    .request = &abandon_record, .prepare = abandon_prepare, .write = write_brief};

/* ---- effects ------------------------------------------------------------------------------ */

static enum error_code check_key(struct str key, const char *member, struct err *err)
{
    return str_is_set(key) ? ERR_OK : verb_missing(member, "the key of the effect", err);
}

static enum error_code check_call(const struct effect_call *effect, const char *key,
                                  const char *input, struct err *err)
{
    enum error_code code = check_key(effect->key, key, err);
    return code == ERR_OK && str_is_set(effect->input)
               ? verb_check_payload(effect->input, input, err)
               : code;
}

/* The error of an effect as it is kept: the bytes that were sent, which the table has read. */
static enum error_code take_error(const struct verb_call *call, const struct failure *read,
                                  struct str *ret, struct err *err)
{
    struct str raw = json_member(call->request, STR("error"));
    if (!str_is_set(raw) || json_type(json_trim(raw)) == JSON_NULL)
        return ERR_OK;
    if (!str_is_set(read->message))
        return verb_missing("error.message", "the error", err);
    *ret = raw;
    return verb_check_payload(raw, "error", err);
}

static enum error_code effect_begin_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code =
        begin(call, &effect_begin_record, COMMAND_EFFECT_BEGIN, &request, &op, err);
    if (code == ERR_OK)
        code = check_call(&request.effect, "key", "input", err);
    if (code != ERR_OK)
        return code;
    op->command.effect_begin = request.effect;
    return ERR_OK;
}

/* What a begin came to; of a commit that begins no other effect, that it is on record. */
static void put_effect(struct json_writer *writer, const struct decision_result *said)
{
    static const struct str words[] = {
        [EFFECT_EXECUTE] = STR_INIT("execute"),
        [EFFECT_RECORDED] = STR_INIT("recorded"),
        [EFFECT_IN_DOUBT] = STR_INIT("in_doubt"),
    };
    bool begun = said->effect != 0;
    json_begin_object(writer);
    answer_text(writer, STR("status"), words[begun ? said->effect : EFFECT_RECORDED]);
    if (begun && said->effect == EFFECT_RECORDED && str_is_set(said->effect_error))
        answer_raw(writer, STR("error"), said->effect_error);
    else if (begun && said->effect == EFFECT_RECORDED)
        answer_raw(writer, STR("result"), said->effect_result);
    if (begun)
        answer_text(writer, STR("idempotency_key"), said->effect_idempotency_key);
}

static void effect_write(const struct verb_call *call, struct json_writer *writer)
{
    const struct op *op = call->call.ops[0];
    bool commits = op->command.type == COMMAND_EFFECT_COMMIT;
    enum effect_then then = commits ? op->command.effect_commit.then : THEN_NONE;
    /* After a wait or the end there is nothing to tell but where that left the job. */
    if (then == THEN_WAIT || then == THEN_COMPLETE) {
        write_brief(call, writer);
        return;
    }
    put_effect(writer, &op->result);
    if (op->result.repeated)
        answer_bool(writer, STR("repeated"), true);
    json_end_object(writer);
}

const struct verb verb_effect_begin = {.request = &effect_begin_record,
                                       .prepare = effect_begin_prepare,

                                       .write = effect_write};

/* Which of the members of "then" the request names: one, also when it is empty. */
static enum error_code read_then(struct str then, enum effect_then *ret, struct err *err)
{
    static const struct str words[] = {[THEN_BEGIN] = STR_INIT("begin"),
                                       [THEN_WAIT] = STR_INIT("wait"),
                                       [THEN_COMPLETE] = STR_INIT("complete")};
    struct json_iter iter;
    struct str key;
    struct str value;
    int named = 0;
    *ret = THEN_NONE;
    for (bool more = json_object_begin(&iter, then); more && json_object_next(&iter, &key, &value);)
        for (int i = THEN_BEGIN; i <= THEN_COMPLETE; i++)
            if (json_key_is(key, words[i]) && json_type(json_trim(value)) != JSON_NULL) {
                *ret = (enum effect_then)i;
                named++;
            }
    if (named == 1)
        return ERR_OK;
    return err_set(err, ERR_BAD_REQUEST,
                   "then must contain one of begin, wait and complete, not %s",
                   named == 0 ? "none" : "several");
}

/* What follows the commit, which "next", the older word for a begin, says too. */
static enum error_code take_then(const struct verb_call *call, struct lease_request *request,
                                 struct effect_end *ret, struct err *err)
{
    struct str then = json_member(call->request, STR("then"));
    struct str next = json_member(call->request, STR("next"));
    bool has_then = str_is_set(then) && json_type(json_trim(then)) != JSON_NULL;
    bool has_next = str_is_set(next) && json_type(json_trim(next)) != JSON_NULL;
    enum error_code code = ERR_OK;
    if (has_then && has_next)
        return err_set(err, ERR_BAD_REQUEST, "next and then exclude each other");
    if (has_next && (str_is_set(request->next.key) || str_is_set(request->next.input))) {
        ret->then = THEN_BEGIN;
        ret->begin = request->next;
        return check_call(&request->next, "next.key", "next.input", err);
    }
    if (has_then)
        code = read_then(then, &ret->then, err);
    if (code == ERR_OK && ret->then == THEN_BEGIN)
        code = check_call(&request->then.begin, "then.begin.key", "then.begin.input", err);
    if (code == ERR_OK && ret->then == THEN_WAIT)
        code = check_wait(&request->then.wait, err);
    if (code == ERR_OK && str_is_set(request->then.complete.result))
        code = verb_check_payload(request->then.complete.result, "then.complete.result", err);
    ret->begin = request->then.begin;
    ret->wait = request->then.wait;
    ret->complete_result = request->then.complete.result;
    return code;
}

static enum error_code effect_commit_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code =
        begin(call, &effect_commit_record, COMMAND_EFFECT_COMMIT, &request, &op, err);
    if (code == ERR_OK)
        code = check_key(request.effect.key, "key", err);
    if (code == ERR_OK && str_is_set(request.result))
        code = verb_check_payload(request.result, "result", err);
    if (code != ERR_OK)
        return code;
    struct effect_end *end = &op->command.effect_commit;
    end->key = request.effect.key;
    end->result = request.result;
    code = take_error(call, &request.error, &end->error, err);
    return code == ERR_OK ? take_then(call, &request, end, err) : code;
}

const struct verb verb_effect_commit = {.request = &effect_commit_record,
                                        .prepare = effect_commit_prepare,

                                        .write = effect_write};

static enum error_code effect_abort_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code =
        begin(call, &effect_abort_record, COMMAND_EFFECT_ABORT, &request, &op, err);
    if (code == ERR_OK)
        code = check_key(request.effect.key, "key", err);
    if (code != ERR_OK)
        return code;
    op->command.effect_abort.key = request.effect.key;
    code = take_error(call, &request.error, &op->command.effect_abort.error, err);
    if (code == ERR_OK && !str_is_set(op->command.effect_abort.error))
        code = verb_missing("error.message", "why the effect did not happen", err);
    return code;
}

static void effect_abort_write(const struct verb_call *call, struct json_writer *writer)
{
    json_begin_object(writer);
    answer_text(writer, STR("status"), STR("aborted"));
    if (call->call.ops[0]->result.repeated)
        answer_bool(writer, STR("repeated"), true);
    json_end_object(writer);
}

const struct verb verb_effect_abort = {.request = &effect_abort_record,
                                       .prepare = effect_abort_prepare,

                                       .write = effect_abort_write};

/* ---- what was done before ----------------------------------------------------------------- */

struct effects_request {
    struct str token;
    int64_t after;
};

static const struct record_field effects_fields[] = {
    RECORD_FIELD(struct effects_request, token, "token", TEXT),
    RECORD_FIELD(struct effects_request, after, "after", INT),
};
RECORD_TABLE(effects);

/* Reads the job, and the step, that the token names, and holds the token against its lease. */
static enum error_code load_leased(struct verb_call *call, struct store_txn *txn,
                                   const struct effects_request *request, struct store_job *ret,
                                   const struct step **ret_step, struct err *err)
{
    struct token token;
    struct store_parts parts = {.no_children = true};
    enum error_code code = ERR_OK;
    bool known = token_parse(request->token, &token);
    if (known)
        code = verb_load_job(call, txn, token.job, false, ret, err);
    if (code == ERR_OK && known && token.of_step) {
        parts.job = token.job;
        parts.ordinals = &token.step;
        parts.ordinal_count = 1;
        code = store_load_parts(txn, &parts, 1, call->arena, err);
        ret->slice.steps = parts.steps;
        ret->slice.step_count = parts.step_count;
    }
    if (code != ERR_OK && code != ERR_NOT_FOUND)
        return code;
    if (code == ERR_OK && known && token_is_live(&ret->slice, request->token, ret_step))
        return ERR_OK;
    return err_set(err, ERR_STALE_LEASE, "stale or unknown lease token \"%.*s\"",
                   STR_ARG(request->token));
}

static enum error_code effects_run(struct verb_call *call, struct err *err)
{
    struct effects_request request = {0};
    struct store_job job = {0};
    const struct step *step = NULL;
    struct store_txn *txn = NULL;
    struct claim_found *found = arena_zalloc(call->arena, 1, sizeof *found);
    if (found == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &effects_record, &request, err);
    if (code == ERR_OK && !str_is_set(request.token))
        code = verb_missing("token", "the token of the claim", err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = load_leased(call, txn, &request, &job, &step, err);
    if (code == ERR_OK) {
        struct claim_records records = {txn, engine_store(call->engine)->options.seed,
                                        RECORDS_BYTES_MAX};
        int64_t from = job.slice.job.effects_from;
        if (!claim_records_read(&records, job.slice.job.id,
                                step != NULL ? step->spec.id : (struct str){NULL, 0},
                                request.after > from ? request.after : from, call->arena, found))
            code = verb_no_memory(err);
    }
    store_rollback(txn);
    call->result.data = found;
    return code;
}

static void effects_write(const struct verb_call *call, struct json_writer *writer)
{
    json_begin_object(writer);
    claim_found_write(call->result.data, writer);
    json_end_object(writer);
}

const struct verb verb_effects = {
    .request = &effects_record, .run = effects_run, .write = effects_write};
