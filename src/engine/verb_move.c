/* export and import: a job with all of its history as one text, and back again.
 *
 *   {"format": 1, "id", "salt", "events": [{"version", "type", "at", "actor", "cause",
 *    "correlation_id", "payload", "redacted", "digest", "hash"}], "row"}
 *
 * A payload is a string that holds the JSON as it was written, since it is hashed byte by byte:
 * whatever program the text goes through may lay it out anew and changes nothing. What is absent is
 * left out. A correlation_id that is the job's own id stands for none: it is not in the hash.
 *
 * A job whose payloads are erased has events that are "redacted": true, no salt, and instead a row:
 * see engine/erased.h. */
#include <assert.h>

#include "core/evolve.h"
#include "core/trace_context.h"
#include "core/verify.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/erased.h"
#include "engine/history.h"

enum {
    BUNDLE_FORMAT = 1,
    IMPORT_JOBS_MAX = 100,
    EVENT_BYTES = 384, /* more than an event of a bundle has besides its texts */
};

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)

/* ---- export ------------------------------------------------------------------------------- */

struct bundle_event {
    int64_t version;
    struct str type;
    int64_t at;
    struct str actor;
    struct str cause;
    struct str correlation_id;
    struct str payload;
    bool redacted;
    uint8_t digest[HASH_LEN];
    uint8_t hash[HASH_LEN];
};

static const struct record_field bundle_event_fields[] = {
    FIELD(bundle_event, version, INT),
    FIELD(bundle_event, type, TEXT),
    FIELD(bundle_event, at, TIME),
    FIELD(bundle_event, actor, TEXT),
    FIELD(bundle_event, cause, TEXT),
    FIELD(bundle_event, correlation_id, TEXT),
    RECORD_FIELD_RANGE(struct bundle_event, payload, "payload", TEXT, 0, EXPORT_BYTES_MAX),
    FIELD(bundle_event, redacted, BOOL),
    FIELD(bundle_event, digest, HEX),
    FIELD(bundle_event, hash, HEX),
};
RECORD_TABLE(bundle_event);

struct bundle {
    int64_t format;
    struct str id;
    uint8_t salt[SALT_LEN];
    struct str events;
    struct str row;
};

static const struct record_field bundle_fields[] = {
    FIELD(bundle, format, INT),   FIELD(bundle, id, TEXT),    FIELD(bundle, salt, HEX),
    FIELD(bundle, events, ARRAY), FIELD(bundle, row, OBJECT),
};
RECORD_TABLE(bundle);

static void write_event(struct json_writer *writer, const struct event *event)
{
    char id[UUID_TEXT_LEN];
    struct bundle_event written = {
        .version = event->version,
        .type = event_name(event),
        .at = event->at,
        .actor = event->actor,
        .cause = event->cause_text,
        .correlation_id = correlation_shown(event->correlation_id, event->job_id, id),
        .payload = event->payload,
        .redacted = event->redacted,
    };
    memcpy(written.digest, event->digest, HASH_LEN);
    memcpy(written.hash, event->hash, HASH_LEN);
    json_begin_object(writer);
    record_write(&bundle_event_record, &written, RECORD_ALL, writer);
    json_end_object(writer);
}

/* The first of what is wrong with a history. */
static enum error_code not_right(const struct violation *violation, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "invalid history: event %lld violates the rule %.*s: %.*s",
                   (long long)violation->version, STR_ARG(verify_rule_name(violation->rule)),
                   STR_ARG(violation->detail));
}

/* What import would not take is not given out. */
static enum error_code check_export(struct verb_call *call, struct uuid id, struct history *history,
                                    struct err *err)
{
    struct history_report report;
    enum error_code code = history_verify(call, id, history, &report, err);
    if (code != ERR_OK)
        return code;
    const struct violation *violation = history_violation(&report);
    return violation != NULL ? not_right(violation, err) : ERR_OK;
}

struct export_request {
    struct str id;
};

static const struct record_field export_fields[] = {FIELD(export_request, id, TEXT)};
RECORD_TABLE(export);

struct exported {
    struct uuid id;
    struct history history;
    struct str row; /* JSON: of a job that was redacted, what its events do not say any more */
};

/* What a text is as a string of JSON, at most. */
static size_t string_bytes(struct str text)
{
    size_t bytes = text.len;
    for (size_t i = 0; i < text.len; i++)
        bytes += text.at[i] == '"' || text.at[i] == '\\' ? 1
                 : (unsigned char)text.at[i] < 0x20      ? 5
                                                         : 0;
    return bytes;
}

/* An event of a bundle has no more bytes. */
static size_t event_bytes(const struct event *event)
{
    return EVENT_BYTES + string_bytes(event->payload) + string_bytes(event_name(event)) +
           string_bytes(event->actor) + string_bytes(event->cause_text) +
           string_bytes(event->correlation_id);
}

static enum error_code check_size(const struct exported *exported, size_t *ret, struct err *err)
{
    const struct history *history = &exported->history;
    size_t bytes = EVENT_BYTES + exported->row.len;
    for (uint32_t i = 0; i < history->count; i++)
        bytes += event_bytes(&history->events[i]);
    *ret = bytes;
    return bytes <= EXPORT_BYTES_MAX
               ? ERR_OK
               : (enum error_code)err_set(
                     err, ERR_PAYLOAD_TOO_LARGE,
                     "the history of this job has about %zu bytes; the limit is %d", bytes,
                     EXPORT_BYTES_MAX);
}

static enum error_code make_row(struct verb_call *call, struct exported *exported, struct err *err)
{
    const struct job_slice *slice = &exported->history.job.slice;
    struct json_writer writer;
    struct buf row;
    if (!slice->job.redacted)
        return ERR_OK;
    buf_init(&row, call->arena, 1024);
    json_writer_init(&writer, &row);
    enum error_code code = erased_write(slice, call->arena, &writer, err);
    exported->row = buf_str(&row);
    return code == ERR_OK && row.failed ? verb_no_memory(err) : code;
}

static enum error_code run_export(struct verb_call *call, struct err *err)
{
    struct export_request request = {0};
    struct exported *exported = verb_data(call, sizeof *exported);
    if (exported == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &export_record, &request, err);
    if (code == ERR_OK)
        code = verb_job_id(request.id, &exported->id, err);
    if (code == ERR_OK)
        code = history_load(call, exported->id, &exported->history, err);
    if (code == ERR_OK)
        code = check_export(call, exported->id, &exported->history, err);
    if (code == ERR_OK)
        code = make_row(call, exported, err);
    return code == ERR_OK ? check_size(exported, &call->result.bytes, err) : code;
}

static void write_export(const struct verb_call *call, struct json_writer *writer)
{
    const struct exported *exported = call->result.data;
    const struct history *history = &exported->history;
    const struct job *job = &history->job.slice.job;
    json_begin_object(writer);
    answer_int(writer, STR("format"), BUNDLE_FORMAT);
    answer_id(writer, STR("id"), exported->id);
    if (!job->redacted) {
        json_key(writer, STR("salt"));
        json_put_hex(writer, job->salt, SALT_LEN);
    }
    json_key(writer, STR("events"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < history->count; i++)
        write_event(writer, &history->events[i]);
    json_end_array(writer);
    if (job->redacted)
        answer_raw(writer, STR("row"), exported->row);
    json_end_object(writer);
}

const struct verb verb_export = {
    .request = &export_record, .run = run_export, .write = write_export};

/* ---- reading a bundle --------------------------------------------------------------------- */

static enum error_code read_event(struct verb_call *call, struct str json, struct uuid id,
                                  struct event *ret, struct err *err)
{
    struct bundle_event read = {0};
    enum error_code code = record_read(&bundle_event_record, json, RECORD_ALL, RECORD_REQUEST,
                                       "event", call->arena, &read, err);
    if (code == ERR_OK && (!str_is_set(read.type) || read.version == 0))
        code = err_set(err, ERR_BAD_REQUEST, "an event has no type or no version");
    if (code == ERR_OK && read.redacted && str_is_set(read.payload))
        code = err_set(err, ERR_BAD_REQUEST, "a redacted event has a payload");
    if (code == ERR_OK && str_is_set(read.payload))
        code = json_check_request(read.payload, EXPORT_BYTES_MAX, "the payload of an event",
                                  call->arena, err);
    if (code != ERR_OK)
        return code;
    *ret = (struct event){
        .job_id = id,
        .version = read.version,
        .at = read.at,
        .type = event_type_parse(read.type),
        .actor = read.actor,
        .correlation_id = correlation_stored(read.correlation_id, id),
        .cause_text = read.cause,
        .payload = read.payload,
        .redacted = read.redacted,
    };
    /* A seed's name is read as the canonical one, which is what is hashed and kept. */
    if (ret->type == EVENT_CUSTOM || ret->type == EVENT_UNKNOWN)
        ret->type_name = read.type;
    memcpy(ret->digest, read.digest, HASH_LEN);
    memcpy(ret->hash, read.hash, HASH_LEN);
    return event_open(ret, engine_store(call->engine)->options.seed, call->arena, err);
}

static enum error_code read_events(struct verb_call *call, struct str json, struct uuid id,
                                   struct job_import *ret, struct err *err)
{
    size_t count = json_count(json);
    struct json_iter iter;
    struct str raw;
    enum error_code code = ERR_OK;
    if (count == 0 || count > UINT32_MAX)
        return err_set(err, ERR_BAD_REQUEST, "a job must have at least one event");
    ret->events = arena_zalloc(call->arena, count, sizeof *ret->events);
    if (ret->events == NULL)
        return verb_no_memory(err);
    (void)json_array_begin(&iter, json);
    while (code == ERR_OK && ret->count < count && json_array_next(&iter, &raw))
        code = read_event(call, raw, id, &ret->events[ret->count++], err);
    return code;
}

/* The history must be right in itself; with erased payloads, so far as that can be told, and the
 * row must be one that it could have. */
static enum error_code check_history(struct verb_call *call, const struct bundle *bundle,
                                     struct uuid id, const struct job_import *import,
                                     struct err *err)
{
    bool erased = str_is_set(bundle->row);
    struct verify_report report;
    struct verify_input input = {
        .id = id,
        .events = import->events,
        .count = import->count,
        .salt = erased ? NULL : bundle->salt,
        .row = erased ? &import->slice : NULL,
        .seed = engine_store(call->engine)->options.seed,
    };
    enum error_code code = job_verify(&input, call->arena, &report, err);
    if (code != ERR_OK || report.violation_count == 0)
        return code;
    return not_right(&report.violations[0], err);
}

/* The job that its events make. */
static enum error_code fold(struct verb_call *call, struct uuid id, const uint8_t *salt,
                            struct job_import *import, struct err *err)
{
    struct job_slice *slice = &import->slice;
    enum error_code code = ERR_OK;
    job_slice_init(slice, id, engine_store(call->engine)->options.seed);
    memcpy(slice->job.salt, salt, SALT_LEN);
    for (uint32_t i = 0; i < import->count && code == ERR_OK; i++)
        code = job_evolve(slice, &import->events[i], call->arena, err);
    /* What comes from elsewhere must not bring names that could not be given here. */
    return code == ERR_OK ? spec_check(&slice->job.spec, call->arena, err) : code;
}

/* The job that its row and what is left of its events make. */
static enum error_code take_row(struct verb_call *call, const struct bundle *bundle, struct uuid id,
                                struct job_import *import, struct err *err)
{
    static const uint8_t none[SALT_LEN];
    if (!import->events[0].redacted)
        return err_set(err, ERR_BAD_REQUEST, "row is only for jobs with erased payloads");
    if (memcmp(bundle->salt, none, SALT_LEN) != 0)
        return err_set(err, ERR_BAD_REQUEST, "its payloads are erased, but the salt remains");
    return erased_read(bundle->row, id, engine_store(call->engine)->options.seed, call->arena,
                       import, err);
}

static enum error_code read_bundle(struct verb_call *call, struct str json, struct job_import *ret,
                                   struct err *err)
{
    struct bundle bundle = {0};
    struct uuid id = {0};
    enum error_code code = record_read(&bundle_record, json, RECORD_ALL, RECORD_REQUEST, NULL,
                                       call->arena, &bundle, err);
    bool erased = str_is_set(bundle.row);
    if (code == ERR_OK && bundle.format != BUNDLE_FORMAT)
        code =
            err_set(err, ERR_BAD_REQUEST, "the export format is %lld; this version reads format %d",
                    (long long)bundle.format, BUNDLE_FORMAT);
    if (code == ERR_OK)
        code = verb_job_id(bundle.id, &id, err);
    if (code == ERR_OK)
        code = read_events(call, bundle.events, id, ret, err);
    if (code == ERR_OK && erased)
        code = take_row(call, &bundle, id, ret, err);
    if (code == ERR_OK)
        code = check_history(call, &bundle, id, ret, err);
    return code == ERR_OK && !erased ? fold(call, id, bundle.salt, ret, err) : code;
}

/* ---- import ------------------------------------------------------------------------------- */

struct import_request {
    struct str jobs;
};

static const struct record_field import_fields[] = {FIELD(import_request, jobs, ARRAY)};
RECORD_TABLE(import);

struct imports {
    struct job_import *at;
    uint32_t count;
};

static enum error_code read_imports(struct verb_call *call, struct imports *ret, struct err *err)
{
    struct import_request request = {0};
    struct json_iter iter;
    struct str raw;
    enum error_code code = verb_read(call, &import_record, &request, err);
    if (code != ERR_OK)
        return code;
    size_t count = json_count(request.jobs);
    if (count == 0 || count > IMPORT_JOBS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "jobs must have 1 to %d exported jobs, not %zu",
                       IMPORT_JOBS_MAX, count);
    ret->at = arena_zalloc(call->arena, count, sizeof *ret->at);
    if (ret->at == NULL)
        return verb_no_memory(err);
    (void)json_array_begin(&iter, request.jobs);
    while (code == ERR_OK && ret->count < count && json_array_next(&iter, &raw)) {
        struct err why = {0};
        uint32_t place = ret->count;
        code = json_type(raw) == JSON_OBJECT
                   ? read_bundle(call, raw, &ret->at[place], &why)
                   : err_set(&why, ERR_BAD_REQUEST, "it is not an object");
        ret->count++;
        /* What is damaged in a store is wrong in a request. */
        if (code == ERR_CORRUPT)
            code = ERR_BAD_REQUEST;
        if (code != ERR_OK)
            code = err_set(err, code, "jobs[%u]: %s", place, why.detail);
    }
    return code;
}

/* Refuses two jobs of one import that cannot both be taken. */
static enum error_code check_duplicates_in_batch(const struct imports *imports, struct err *err)
{
    for (uint32_t i = 0; i < imports->count; i++) {
        const struct job *a = &imports->at[i].slice.job;
        for (uint32_t k = i + 1; k < imports->count; k++) {
            const struct job *b = &imports->at[k].slice.job;
            bool same_key = str_is_set(a->spec.idempotency_key) &&
                            str_eq(a->spec.idempotency_key, b->spec.idempotency_key) &&
                            str_eq(a->spec.queue, b->spec.queue);
            if (uuid_eq(a->id, b->id))
                return err_set(err, ERR_BAD_REQUEST, "jobs[%u] and jobs[%u] are the same job", i,
                               k);
            if (same_key)
                return err_set(err, ERR_BAD_REQUEST,
                               "jobs[%u] and jobs[%u] have the same idempotency_key", i, k);
        }
    }
    return ERR_OK;
}

/* A lease of a step takes a slot of its resource, which must not be another queue's: and whose a
 * resource will be, no history can say. */
static enum error_code check_slots(const struct verb_call *call, const struct job_slice *slice,
                                   struct err *err)
{
    for (uint32_t i = 0; i < slice->step_count && call->queues != NULL; i++) {
        const struct step *step = &slice->steps[i];
        if (lease_holds(&step->lease, &slice->job) && str_is_set(step_slot(step)))
            return err_set(err, ERR_FORBIDDEN,
                           "step \"%.*s\" is leased on a resource, but the token is limited to "
                           "some queues: use a token for all queues, or wait until the lease ends",
                           STR_ARG(step->spec.id));
    }
    return ERR_OK;
}

/* Says before anything is done whether one of them cannot be taken: it is all of them or none. */
static enum error_code check_one(struct verb_call *call, const struct job_slice *slice,
                                 struct err *err)
{
    const struct job *job = &slice->job;
    struct store_txn *txn;
    struct store_job known = {.id = job->id};
    struct store_key key = {.queue = job->spec.queue, .key = job->spec.idempotency_key};
    struct store_load load = {.jobs = &known, .job_count = 1, .keys = &key};
    char id[UUID_TEXT_LEN];
    load.key_count = str_is_set(key.key);
    uuid_format(job->id, id);
    enum error_code code = access_check_queue(call->queues, job->spec.queue, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, call->arena, err);
    store_rollback(txn);
    if (code != ERR_OK)
        return code;
    const struct job *there = &known.slice.job;
    const struct job *owner = &key.slice.job;
    if (there->status != JOB_NONE && !access_has_queue(call->queues, there->spec.queue))
        return err_set(err, ERR_VERSION_MISMATCH, "the id %.*s already exists", UUID_TEXT_LEN, id);
    if (there->status != JOB_NONE &&
        (there->version != job->version || memcmp(there->head, job->head, HASH_LEN) != 0))
        return err_set(err, ERR_VERSION_MISMATCH,
                       "the job %.*s exists with a different history of %lld event%s",
                       UUID_TEXT_LEN, id, (long long)there->version,
                       there->version == 1 ? "" : "s");
    if (load.key_count > 0 && owner->status != JOB_NONE && !uuid_eq(owner->id, job->id))
        return err_set(err, ERR_IDEMPOTENCY_MISMATCH,
                       "the idempotency_key \"%.*s\" of job %.*s belongs to another job",
                       STR_ARG(key.key), UUID_TEXT_LEN, id);
    return there->status == JOB_NONE ? check_slots(call, slice, err) : ERR_OK;
}

static enum error_code run_ops(struct verb_call *call, const struct imports *imports,
                               int64_t *ret_present, struct err *err)
{
    int64_t present = 0;
    for (uint32_t i = 0; i < imports->count; i++) {
        struct op *op = verb_op(call);
        if (op == NULL)
            return verb_no_memory(err);
        op->type = OP_IMPORT;
        op->job = imports->at[i].slice.job.id;
        op->import = &imports->at[i];
        op->same_request = op->atomic_with_previous = i > 0;
    }
    call->call.class = CALL_SUBMIT;
    /* A long history must not be too much for the queue for ever. */
    call->call.bytes =
        call->request.len < REQUEST_BYTES_MAX ? call->request.len : REQUEST_BYTES_MAX;
    enum error_code code = engine_run(call->engine, &call->call, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < imports->count && code == ERR_OK; i++) {
        const struct op *op = call->call.ops[i];
        present += op->result.repeated;
        if (op->code != ERR_OK)
            code = err_set(err, op->code, "jobs[%u]: %s", i, op->err.detail);
    }
    call_release(&call->call);
    *ret_present = present;
    return code;
}

struct import_result {
    int64_t imported;
    int64_t present;
};

static enum error_code run_import(struct verb_call *call, struct err *err)
{
    struct imports imports = {0};
    struct import_result *result = verb_data(call, sizeof *result);
    if (result == NULL)
        return verb_no_memory(err);
    enum error_code code = read_imports(call, &imports, err);
    if (code == ERR_OK)
        code = check_duplicates_in_batch(&imports, err);
    for (uint32_t i = 0; i < imports.count && code == ERR_OK; i++) {
        struct err why = {0};
        code = check_one(call, &imports.at[i].slice, &why);
        if (code != ERR_OK)
            code = err_set(err, code, "jobs[%u]: %s", i, why.detail);
    }
    if (code == ERR_OK)
        code = run_ops(call, &imports, &result->present, err);
    result->imported = imports.count - result->present;
    return code;
}

static void write_import(const struct verb_call *call, struct json_writer *writer)
{
    const struct import_result *result = call->result.data;
    json_begin_object(writer);
    answer_int(writer, STR("imported"), result->imported);
    answer_int(writer, STR("present"), result->present);
    json_end_object(writer);
}

const struct verb verb_import = {
    .request = &import_record, .run = run_import, .write = write_import};
