/* Verbs on one job that its submitter, an operator or a person gives: append, cancel, signal,
 * requeue, run_now, dead_letter, redact, plan, verdict, answer, answer_job. */
#include <assert.h>

#include "core/job_state.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/verb.h"

/* The members of all of these requests; each verb has a table of its own with those it takes. */
struct job_request {
    struct str id;
    struct str token;
    struct str step;
    struct str reason;
    int64_t expected_version;
    struct str events;
    enum cancel_mode mode;
    int64_t grace_ms;
    struct str correlation_key;
    struct str payload;
    struct str signal_id;
    bool early;
    bool fresh;
    enum dead_letter_reason reason_code;
    enum stage stage;
    struct str message;
    struct str steps;
    enum verdict decision;
    struct str result;
    struct question question;
    struct str answer;
    struct str resolution; /* "decision": what 0.1.0 called the answer about an effect in doubt */
    struct str by;
    struct str comment;
    int64_t attempt; /* below 0: not given */
};

#define FIELD(member, kind) RECORD_FIELD(struct job_request, member, #member, kind)
#define ENUM_FIELD(member, names) RECORD_FIELD_ENUM(struct job_request, member, #member, names)

static const struct record_field append_fields[] = {
    FIELD(id, TEXT),
    FIELD(expected_version, INT),
    FIELD(token, TEXT),
    FIELD(events, ARRAY),
};
RECORD_TABLE(append);

static const struct record_field appended_fields[] = {
    RECORD_FIELD(struct appended, type, "type", NAME),
    RECORD_FIELD(struct appended, payload, "payload", JSON),
};
RECORD_TABLE(appended);

static const struct record_field cancel_fields[] = {
    FIELD(id, TEXT),
    ENUM_FIELD(mode, cancel_mode_names),
    FIELD(reason, TEXT),
    RECORD_FIELD_RANGE(struct job_request, grace_ms, "grace_ms", INT, 1, DELAY_MS_MAX),
};
RECORD_TABLE(cancel);

static const struct record_field signal_fields[] = {
    FIELD(id, TEXT),        FIELD(correlation_key, NAME), FIELD(payload, JSON),
    FIELD(signal_id, NAME), FIELD(early, BOOL),
};
RECORD_TABLE(signal);

static const struct record_field requeue_fields[] = {
    FIELD(id, TEXT),
    FIELD(reason, TEXT),
    FIELD(fresh, BOOL),
};
RECORD_TABLE(requeue);

static const struct record_field run_fields[] = {
    FIELD(id, TEXT),
    FIELD(reason, TEXT),
};
RECORD_TABLE(run);

static const struct record_field dead_letter_fields[] = {
    FIELD(id, TEXT),
    ENUM_FIELD(reason_code, dead_letter_reason_names),
    ENUM_FIELD(stage, stage_names),
    FIELD(message, TEXT),
};
RECORD_TABLE(dead_letter);

static const struct record_field redact_fields[] = {FIELD(id, TEXT)};
RECORD_TABLE(redact);

static const struct record_field plan_fields[] = {
    FIELD(id, TEXT),
    FIELD(steps, ARRAY),
    FIELD(reason, TEXT),
};
RECORD_TABLE(plan);

static const struct record_field question_fields[] = {
    RECORD_FIELD(struct question, prompt, "prompt", TEXT),
    RECORD_FIELD(struct question, choices, "choices", ARRAY),
    RECORD_FIELD(struct question, assignee, "assignee", NAME),
    RECORD_FIELD_RANGE(struct question, timeout_ms, "timeout_ms", INT, 0, DELAY_MS_MAX),
    RECORD_FIELD(struct question, default_answer, "default_answer", JSON),
};
RECORD_TABLE(question);

static const struct record_field verdict_fields[] = {
    FIELD(id, TEXT),
    FIELD(step, NAME),
    ENUM_FIELD(decision, verdict_names),
    FIELD(reason, TEXT),
    FIELD(token, TEXT),
    FIELD(result, JSON),
    RECORD_FIELD_NESTED(struct job_request, question, "question", question_record),
};
RECORD_TABLE(verdict);

#define ANSWER_FIELDS                                                                              \
    FIELD(answer, JSON), RECORD_FIELD(struct job_request, resolution, "decision", JSON),           \
        FIELD(result, JSON), FIELD(by, NAME), FIELD(comment, TEXT),                                \
        RECORD_FIELD_RANGE(struct job_request, attempt, "attempt", INT, 0, INT64_MAX)

static const struct record_field answer_fields[] = {
    FIELD(id, TEXT),
    FIELD(step, NAME),
    ANSWER_FIELDS,
};
RECORD_TABLE(answer);

static const struct record_field answer_job_fields[] = {
    FIELD(id, TEXT),
    ANSWER_FIELDS,
    FIELD(correlation_key, NAME),
};
RECORD_TABLE(answer_job);

/* Reads the request, and adds the operation on its job, which is without a command yet. */
static enum error_code begin(struct verb_call *call, const struct record_type *type,
                             struct job_request *ret, struct op **ret_op, struct err *err)
{
    struct uuid id;
    call->call.class = CALL_RESULT;
    enum error_code code = verb_read(call, type, ret, err);
    if (code == ERR_OK)
        code = verb_job_id(ret->id, &id, err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    op->type = OP_COMMAND;
    op->job = id;
    op->command.actor = call->actor;
    op->command.blind = access_blind(call);
    op->command.no_answer = !access_may_answer(call);
    *ret_op = op;
    return ERR_OK;
}

static void write_job(const struct verb_call *call, struct json_writer *writer)
{
    answer_job(writer, &call->call.ops[0]->after->job, access_sight(call));
}

/* ---- append ------------------------------------------------------------------------------- */

static enum error_code read_appended(struct verb_call *call, struct str events,
                                     struct appended **ret, uint32_t *ret_count, struct err *err)
{
    struct json_iter iter;
    struct str json;
    size_t count = json_count(events);
    if (count == 0 || count > APPEND_MAX)
        return err_set(err, ERR_BAD_REQUEST, "append takes 1 to %d events, not %zu", APPEND_MAX,
                       count);
    struct appended *appended = arena_zalloc(call->arena, count, sizeof *appended);
    if (appended == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu events", count);
    (void)json_array_begin(&iter, events);
    uint32_t done = 0;
    while (done < count && json_array_next(&iter, &json)) {
        struct err why = {0};
        struct appended *one = &appended[done];
        enum error_code code = record_read(&appended_record, json, RECORD_ALL, RECORD_REQUEST,
                                           "event", call->arena, one, &why);
        if (code == ERR_OK && !str_is_set(one->type))
            code = err_set(&why, ERR_BAD_REQUEST, "type is required");
        if (code == ERR_OK && str_is_set(one->payload))
            code = verb_check_payload(one->payload, "payload", &why);
        if (code != ERR_OK)
            return err_set(err, code, "events[%u]: %s", done, why.detail);
        done++;
    }
    *ret = appended;
    *ret_count = done;
    return ERR_OK;
}

static enum error_code append_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {.expected_version = -1};
    struct op *op;
    struct appended *events;
    uint32_t count;
    enum error_code code = begin(call, &append_record, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.token))
        code = access_check_admin(call, "append without a lease token", err);
    if (code == ERR_OK)
        code = read_appended(call, request.events, &events, &count, err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_APPEND;
    op->command.token = request.token;
    op->command.append.expected_version = request.expected_version;
    op->command.append.events = events;
    op->command.append.count = count;
    return ERR_OK;
}

static void write_version(const struct verb_call *call, struct json_writer *writer)
{
    json_begin_object(writer);
    answer_int(writer, STR("version"), call->call.ops[0]->after->job.version);
    json_end_object(writer);
}

const struct verb verb_append = {
    .request = &append_record, .prepare = append_prepare, .write = write_version};

/* ---- cancel, requeue, dead_letter --------------------------------------------------------- */

static enum error_code cancel_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &cancel_record, &request, &op, err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_CANCEL;
    op->command.cancel.mode = request.mode;
    op->command.cancel.reason = request.reason;
    op->command.cancel.soft_ms = request.grace_ms;
    if (request.grace_ms > 0 && request.mode == CANCEL_HARD)
        return err_set(err, ERR_BAD_REQUEST, "grace_ms is for a soft cancel; mode is hard");
    return ERR_OK;
}

const struct verb verb_cancel = {
    .request = &cancel_record, .prepare = cancel_prepare, .write = write_job};

static enum error_code requeue_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &requeue_record, &request, &op, err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_REQUEUE;
    op->command.requeue.reason = request.reason;
    op->command.requeue.fresh = request.fresh;
    return ERR_OK;
}

const struct verb verb_requeue = {
    .request = &requeue_record, .prepare = requeue_prepare, .write = write_job};

static enum error_code run_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &run_record, &request, &op, err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_RUN;
    op->command.run.reason = request.reason;
    return ERR_OK;
}

const struct verb verb_run_now = {
    .request = &run_record, .prepare = run_prepare, .write = write_job};

static enum error_code dead_letter_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &dead_letter_record, &request, &op, err);
    if (code != ERR_OK)
        return code;
    if (request.reason_code == DEAD_NONE)
        return verb_missing("reason_code", "the reason", err);
    op->command.type = COMMAND_DEAD_LETTER;
    op->command.dead_letter.reason_code = request.reason_code;
    op->command.dead_letter.stage = request.stage;
    op->command.dead_letter.message = request.message;
    return ERR_OK;
}

const struct verb verb_dead_letter = {
    .request = &dead_letter_record, .prepare = dead_letter_prepare, .write = write_job};

/* ---- signal ------------------------------------------------------------------------------- */

static enum error_code signal_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &signal_record, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.correlation_key))
        code = verb_missing("correlation_key", "the name of the wait", err);
    if (code == ERR_OK && str_is_set(request.payload))
        code = verb_check_payload(request.payload, "payload", err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_SIGNAL;
    op->command.signal.correlation_key = request.correlation_key;
    op->command.signal.payload = request.payload;
    op->command.signal.signal_id = request.signal_id;
    op->command.signal.early = request.early;
    return ERR_OK;
}

static enum error_code signal_finish(struct verb_call *call, struct err *err)
{
    enum error_code code = verb_outcome(call, err);
    if (code == ERR_OK && call->call.ops[0]->result.signal == SIGNAL_STORED)
        call->result.status = 202;
    return code;
}

static void signal_write(const struct verb_call *call, struct json_writer *writer)
{
    static const struct str fates[] = {
        [SIGNAL_DELIVERED] = STR_INIT("delivered"),
        [SIGNAL_STORED] = STR_INIT("stored"),
        [SIGNAL_REPEATED] = STR_INIT("repeated"),
    };
    const struct op *op = call->call.ops[0];
    json_begin_object(writer);
    answer_text(writer, STR("signal"), fates[op->result.signal]);
    json_key(writer, STR("job"));
    answer_job(writer, &op->after->job, access_sight(call));
    json_end_object(writer);
}

const struct verb verb_signal = {.request = &signal_record,
                                 .prepare = signal_prepare,
                                 .finish = signal_finish,
                                 .write = signal_write};

/* ---- redact ------------------------------------------------------------------------------- */

static enum error_code redact_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &redact_record, &request, &op, err);
    if (code == ERR_OK)
        op->type = OP_REDACT;
    return code;
}

static void redact_write(const struct verb_call *call, struct json_writer *writer)
{
    /* Later operations of the batch may need what the job was, so this one erases a copy. */
    struct job_slice erased;
    job_slice_init(&erased, call->call.ops[0]->job, 0);
    erased.job = call->call.ops[0]->after->job;
    job_redact(&erased);
    answer_job(writer, &erased.job, access_sight(call));
}

const struct verb verb_redact = {
    .request = &redact_record, .prepare = redact_prepare, .write = redact_write};

/* ---- plans and people --------------------------------------------------------------------- */

static enum error_code plan_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &plan_record, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.steps))
        code = verb_missing("steps", "the steps of the plan", err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_PLAN;
    op->command.plan.steps = request.steps;
    op->command.plan.reason = request.reason;
    return ERR_OK;
}

const struct verb verb_plan = {
    .request = &plan_record, .prepare = plan_prepare, .write = write_job};

static enum error_code verdict_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {0};
    struct op *op;
    enum error_code code = begin(call, &verdict_record, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.token))
        code = access_check_admin(call, "a verdict without a lease token", err);
    if (code == ERR_OK && !str_is_set(request.step))
        code = verb_missing("step", "the step to judge", err);
    if (code == ERR_OK && request.decision == VERDICT_NONE)
        code =
            verb_missing("decision", "accept, retry, switch_resource, replan or needs_user", err);
    if (code == ERR_OK && str_is_set(request.result))
        code = verb_check_payload(request.result, "result", err);
    if (code != ERR_OK)
        return code;
    op->command.type = COMMAND_VERDICT;
    op->command.token = request.token;
    if (str_is_set(request.token)) /* then the holder of the lease says so */
        op->command.actor = (struct str){NULL, 0};
    op->command.step = request.step;
    op->command.verdict.decision = request.decision;
    op->command.verdict.reason = request.reason;
    op->command.verdict.result = request.result;
    op->command.verdict.question = request.question;
    return ERR_OK;
}

const struct verb verb_verdict = {
    .request = &verdict_record, .prepare = verdict_prepare, .write = write_job};

/* A result of null counts: the effect has happened and gave nothing back. Only one that is left out
 * is missing. */
static bool has_result(const struct verb_call *call)
{
    return str_is_set(json_member(call->request, STR("result")));
}

/* What a person says, to a job or to a step. */
static enum error_code read_answer(struct verb_call *call, const struct record_type *type,
                                   struct job_request *ret, struct op **ret_op, struct err *err)
{
    enum error_code code = begin(call, type, ret, ret_op, err);
    if (code == ERR_OK && str_is_set(ret->answer) && str_is_set(ret->resolution))
        code = err_set(err, ERR_BAD_REQUEST, "answer and decision exclude each other");
    if (code == ERR_OK && !str_is_set(ret->answer))
        ret->answer = ret->resolution;
    if (code == ERR_OK && !str_is_set(ret->answer))
        code = verb_missing("answer", "null is not an answer", err);
    if (code == ERR_OK)
        code = verb_check_payload(ret->answer, "answer", err);
    if (code == ERR_OK && str_is_set(ret->result))
        code = verb_check_payload(ret->result, "result", err);
    if (code != ERR_OK)
        return code;
    struct command *command = &(*ret_op)->command;
    command->type = COMMAND_ANSWER;
    command->answer.answer = ret->answer;
    command->answer.by = ret->by;
    command->answer.comment = ret->comment;
    command->answer.has_result = has_result(call);
    command->answer.result = ret->result;
    command->answer.has_attempt = ret->attempt >= 0;
    command->answer.attempt = ret->attempt;
    return ERR_OK;
}

static enum error_code answer_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {.attempt = -1};
    struct op *op;
    enum error_code code = read_answer(call, &answer_record, &request, &op, err);
    if (code == ERR_OK && !str_is_set(request.step))
        code = verb_missing("step", "the step with the question", err);
    if (code == ERR_OK)
        op->command.step = request.step;
    return code;
}

const struct verb verb_answer = {
    .request = &answer_record, .prepare = answer_prepare, .write = write_job};

static enum error_code answer_job_prepare(struct verb_call *call, struct err *err)
{
    struct job_request request = {.attempt = -1};
    struct op *op;
    enum error_code code = read_answer(call, &answer_job_record, &request, &op, err);
    if (code == ERR_OK)
        op->command.answer.correlation_key = request.correlation_key;
    return code;
}

const struct verb verb_answer_job = {
    .request = &answer_job_record, .prepare = answer_job_prepare, .write = write_job};
