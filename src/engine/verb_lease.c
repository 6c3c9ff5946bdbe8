/* What the holder of a lease says: start, heartbeat, complete, fail, wait, release, cancelled,
 * abandon, effect_begin, effect_commit. The token names the job. */
#include <assert.h>

#include "base/planted.h"
#include "core/token.h"
#include "engine/answer.h"
#include "engine/verb.h"

struct effect_request {
    struct str key;
    struct str input;
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
    struct str key;
    struct str input;
    struct effect_request next;
};

#define FIELD(member, kind) RECORD_FIELD(struct lease_request, member, #member, kind)
#define ENUM_FIELD(member, names) RECORD_FIELD_ENUM(struct lease_request, member, #member, names)
#define WAIT_FIELD(member, kind) RECORD_FIELD(struct lease_request, wait.member, #member, kind)

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

static const struct record_field wait_fields[] = {
    FIELD(token, TEXT),
    RECORD_FIELD_ENUM(struct lease_request, wait.type, "type", wait_request_names),
    WAIT_FIELD(correlation_key, NAME),
    RECORD_FIELD_RANGE(struct lease_request, wait.timeout_ms, "timeout_ms", INT, 0, DELAY_MS_MAX),
    RECORD_FIELD_RANGE(struct lease_request, wait.delay_ms, "delay_ms", INT, 1, DELAY_MS_MAX),
    WAIT_FIELD(until, TIME),
    WAIT_FIELD(park, BOOL),
    WAIT_FIELD(prompt, TEXT),
    WAIT_FIELD(choices, ARRAY),
    WAIT_FIELD(assignee, NAME),
};
RECORD_TABLE(wait);

static const struct record_field abandon_fields[] = {
    FIELD(token, TEXT),
    ENUM_FIELD(reason_code, dead_letter_reason_names),
    ENUM_FIELD(stage, stage_names),
    FIELD(message, TEXT),
};
RECORD_TABLE(abandon);

static const struct record_field effect_begin_fields[] = {
    FIELD(token, TEXT),
    FIELD(key, NAME),
    FIELD(input, JSON),
};
RECORD_TABLE(effect_begin);

static const struct record_field next_fields[] = {
    RECORD_FIELD(struct effect_request, key, "key", NAME),
    RECORD_FIELD(struct effect_request, input, "input", JSON),
};
RECORD_TABLE(next);

static const struct record_field effect_commit_fields[] = {
    FIELD(token, TEXT),
    FIELD(key, NAME),
    FIELD(result, JSON),
    RECORD_FIELD_NESTED(struct lease_request, next, "next", next_record),
};
RECORD_TABLE(effect_commit);

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
        (void)verb_missing("token", "it is what the claim gave", err);
        return ERR_BAD_REQUEST;
    }
    if (!token_parse(ret->token, &token))
        return err_set(err, ERR_STALE_LEASE, "the token is not that of a live lease: \"%.*s\"",
                       STR_ARG(ret->token));
    struct op *op = verb_op(call);
    if (op == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is no memory for a request");
    op->type = OP_COMMAND;
    op->job = token.job;
    op->command = (struct command){.type = command, .token = ret->token};
    *ret_op = op;
    return ERR_OK;
}

/* What came of the operation. A token of a job that is not there, or not any more, is like any
 * other that is not live. */
static enum error_code outcome_of(const struct verb_call *call, struct err *err)
{
    const struct op *op = call->call.ops[0];
    bool no_job = op->code == ERR_NOT_FOUND && (op->after == NULL || op->after->job.version == 0);
    return no_job ? err_set(err, ERR_STALE_LEASE, "the token is not that of a live lease: %s",
                            op->err.detail)
                  : verb_outcome(call, err);
}

/* The step whose lease the call is about; NULL: the job's own. */
static const struct step *step_of(const struct op *op)
{
    struct token token;
    bool of_step = token_parse(op->command.token, &token) && token.of_step;
    return of_step ? job_step_at(op->after, token.step) : NULL;
}

static enum error_code brief_answer(struct verb_call *call, struct buf *answer, struct err *err)
{
    struct json_writer writer;
    enum error_code code = outcome_of(call, err);
    if (code != ERR_OK)
        return code;
    const struct op *op = call->call.ops[0];
    json_writer_init(&writer, answer);
    answer_brief(&writer, &op->after->job, step_of(op), &op->answer);
    json_end_object(&writer);
    call->status = 200;
    return ERR_OK;
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

static enum error_code start_answer(struct verb_call *call, struct buf *answer, struct err *err)
{
    struct json_writer writer;
    enum error_code code = outcome_of(call, err);
    if (code != ERR_OK)
        return code;
    const struct op *op = call->call.ops[0];
    const struct step *step = step_of(op);
    const struct lease *lease = step != NULL ? &step->lease : &op->after->job.lease;
    json_writer_init(&writer, answer);
    answer_brief(&writer, &op->after->job, step, &op->answer);
    answer_time(&writer, STR("expires_at"), lease->expires_at);
    json_end_object(&writer);
    call->status = 200;
    return ERR_OK;
}

const struct verb verb_start = {
    .request = &token_record, .prepare = start_prepare, .answer = start_answer};

static enum error_code release_prepare(struct verb_call *call, struct err *err)
{
    return prepare_plain(call, COMMAND_RELEASE, err);
}

const struct verb verb_release = {
    .request = &token_record, .prepare = release_prepare, .answer = brief_answer};

static enum error_code cancelled_prepare(struct verb_call *call, struct err *err)
{
    return prepare_plain(call, COMMAND_CANCELLED, err);
}

const struct verb verb_cancelled = {
    .request = &token_record, .prepare = cancelled_prepare, .answer = brief_answer};

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

static enum error_code heartbeat_answer(struct verb_call *call, struct buf *answer, struct err *err)
{
    struct json_writer writer;
    enum error_code code = outcome_of(call, err);
    if (code != ERR_OK)
        return code;
    const struct op *op = call->call.ops[0];
    json_writer_init(&writer, answer);
    json_begin_object(&writer);
    answer_time(&writer, STR("expires_at"), op->answer.expires_at);
    answer_bool(&writer, STR("cancel_requested"),
                op->answer.cancel_requested && !PLANTED(CANCEL_NOT_TOLD));
    json_end_object(&writer);
    call->status = 200;
    return ERR_OK;
}

const struct verb verb_heartbeat = {
    .request = &heartbeat_record, .prepare = heartbeat_prepare, .answer = heartbeat_answer};

/* ---- how the work ended ------------------------------------------------------------------- */

static enum error_code complete_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &complete_record, COMMAND_COMPLETE, &request, &op, err);
    if (code == ERR_OK && str_is_set(request.result))
        code = verb_check_payload(request.result, "result", err);
    if (code == ERR_OK && !PLANTED(RESULT_DROPPED))
        op->command.complete.result = request.result;
    return code;
}

const struct verb verb_complete = {
    .request = &complete_record, .prepare = complete_prepare, .answer = brief_answer};

static enum error_code fail_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {.retry_after_ms = -1};
    struct op *op = NULL;
    enum error_code code = begin(call, &fail_record, COMMAND_FAIL, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.error.message))
        code = verb_missing("error.message", "it says what went wrong", err);
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
    .request = &fail_record, .prepare = fail_prepare, .answer = brief_answer};

static enum error_code wait_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &wait_record, COMMAND_WAIT, &request, &op, err);
    if (code == ERR_OK && str_is_set(request.wait.choices))
        code = verb_check_payload(request.wait.choices, "choices", err);
    if (code != ERR_OK)
        return code;
    /* Whoever says how long or until when need not say what that is called. */
    bool timed = request.wait.delay_ms != 0 || request.wait.until != 0;
    if (request.wait.type == WAIT_NONE && timed)
        request.wait.type = WAIT_TIMER;
    op->command.wait = request.wait;
    return ERR_OK;
}

const struct verb verb_wait = {
    .request = &wait_record, .prepare = wait_prepare, .answer = brief_answer};

static enum error_code abandon_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code = begin(call, &abandon_record, COMMAND_ABANDON, &request, &op, err);
    if (code == ERR_OK && request.reason_code == DEAD_NONE)
        code = verb_missing("reason_code", "it says why", err);
    if (code != ERR_OK)
        return code;
    op->command.dead_letter.reason_code = request.reason_code;
    op->command.dead_letter.stage = request.stage;
    op->command.dead_letter.message = request.message;
    return ERR_OK;
}

const struct verb verb_abandon = {
    .request = &abandon_record, .prepare = abandon_prepare, .answer = brief_answer};

/* ---- effects ------------------------------------------------------------------------------ */

static enum error_code effect_begin_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code =
        begin(call, &effect_begin_record, COMMAND_EFFECT_BEGIN, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.key))
        code = verb_missing("key", "it is the name of the effect", err);
    if (code == ERR_OK && str_is_set(request.input))
        code = verb_check_payload(request.input, "input", err);
    if (code != ERR_OK)
        return code;
    op->command.effect_begin.key = request.key;
    op->command.effect_begin.input = request.input;
    return ERR_OK;
}

static enum error_code effect_answer(struct verb_call *call, struct buf *answer, struct err *err)
{
    static const struct str words[] = {
        [EFFECT_EXECUTE] = STR_INIT("execute"),
        [EFFECT_RECORDED] = STR_INIT("recorded"),
        [EFFECT_IN_DOUBT] = STR_INIT("in_doubt"),
    };
    struct json_writer writer;
    enum error_code code = outcome_of(call, err);
    if (code != ERR_OK)
        return code;
    const struct answer *said = &call->call.ops[0]->answer;
    /* A commit that begins no other effect says nothing of one. */
    bool begun = said->effect != 0;
    json_writer_init(&writer, answer);
    json_begin_object(&writer);
    answer_text(&writer, STR("status"), words[begun ? said->effect : EFFECT_RECORDED]);
    if (begun && said->effect == EFFECT_RECORDED && !PLANTED(RECORDED_RESULT_LOST))
        answer_raw(&writer, STR("result"), said->effect_result);
    if (begun)
        answer_text(&writer, STR("idempotency_key"), said->effect_idempotency_key);
    if (said->repeated)
        answer_bool(&writer, STR("repeated"), true);
    json_end_object(&writer);
    call->status = 200;
    return ERR_OK;
}

const struct verb verb_effect_begin = {
    .request = &effect_begin_record, .prepare = effect_begin_prepare, .answer = effect_answer};

static enum error_code effect_commit_prepare(struct verb_call *call, struct err *err)
{
    struct lease_request request = {0};
    struct op *op = NULL;
    enum error_code code =
        begin(call, &effect_commit_record, COMMAND_EFFECT_COMMIT, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.key))
        code = verb_missing("key", "it is the name of the effect", err);
    if (code == ERR_OK && str_is_set(request.next.input) && !str_is_set(request.next.key))
        code = verb_missing("next.key", "it is the name of the next effect", err);
    if (code == ERR_OK && str_is_set(request.result))
        code = verb_check_payload(request.result, "result", err);
    if (code == ERR_OK && str_is_set(request.next.input))
        code = verb_check_payload(request.next.input, "next.input", err);
    if (code != ERR_OK)
        return code;
    op->command.effect_commit.key = request.key;
    op->command.effect_commit.result = request.result;
    op->command.effect_commit.next_key = request.next.key;
    op->command.effect_commit.next_input = request.next.input;
    return ERR_OK;
}

const struct verb verb_effect_commit = {
    .request = &effect_commit_record, .prepare = effect_commit_prepare, .answer = effect_answer};
