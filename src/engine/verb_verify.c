/* verify: holds the whole history of a job against the rules, and the job's row against it. */
#include "engine/answer.h"
#include "engine/history.h"

struct verify_request {
    struct str id;
};

static const struct record_field verify_fields[] = {
    RECORD_FIELD(struct verify_request, id, "id", TEXT),
};
static const struct record_type verify_record = {verify_fields, 1};

static void write_violation(struct json_writer *writer, const struct violation *violation)
{
    json_begin_object(writer);
    answer_text(writer, STR("rule"), verify_rule_name(violation->rule));
    answer_int(writer, STR("version"), violation->version);
    answer_text(writer, STR("detail"), violation->detail);
    json_end_object(writer);
}

static void write_report(const struct verb_call *call, struct json_writer *writer)
{
    const struct history_report *found = call->result.data;
    const struct verify_report *report = &found->report;
    json_begin_object(writer);
    answer_bool(writer, STR("ok"), history_violation(found) == NULL);
    answer_int(writer, STR("version"), report->version);
    answer_text(writer, STR("status"), job_status_name(report->status));
    json_key(writer, STR("chain_head"));
    json_put_hex(writer, report->head, HASH_LEN);
    answer_bool(writer, STR("partial"), report->partial);
    json_key(writer, STR("violations"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < found->unreadable_count; i++)
        write_violation(writer, &found->unreadable[i]);
    for (uint32_t i = 0; i < report->violation_count; i++)
        write_violation(writer, &report->violations[i]);
    json_end_array(writer);
    json_end_object(writer);
}

static enum error_code run_verify(struct verb_call *call, struct err *err)
{
    struct verify_request request = {0};
    struct uuid id;
    struct history history;
    struct history_report *report = verb_data(call, sizeof *report);
    if (report == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &verify_record, &request, err);
    if (code == ERR_OK)
        code = verb_job_id(request.id, &id, err);
    if (code == ERR_OK)
        code = history_load(call, id, &history, err);
    return code == ERR_OK ? history_verify(call, id, &history, report, err) : code;
}

const struct verb verb_verify = {
    .request = &verify_record, .run = run_verify, .write = write_report};
