/* Settings of kinds: kinds, kind_set, kind_patch, kind_get; and kind_versions: how many live jobs
 * are pinned to which code version.
 *
 * kind_set puts settings in the place of all there were, kind_patch changes some of them (RFC
 * 7396). A kind has a version that rises with every change, so that a caller can make sure that
 * nobody else has changed what it has read. */
#include "core/job_state.h"
#include "core/kind.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/verb.h"

enum {
    KINDS_MAX = 500,
    KINDS_DEFAULT = 50,
    VERSIONS_MAX = 1000,
    COUNT_MS_MAX = 1500, /* an answer that would take longer says that there are more jobs */
};

struct kind_request {
    struct str kind;
    int64_t expected_version; /* -1: any */
    int64_t limit;
    struct str cursor;
    struct str setting; /* what is only here to be known by name: it is read from the text */
};

#define FIELD(member, kind) RECORD_FIELD(struct kind_request, member, #member, kind)
#define SETTING(text) RECORD_FIELD(struct kind_request, setting, text, JSON)
#define SETTINGS                                                                                   \
    SETTING("lease_ttl_ms"), SETTING("heartbeat_ms"), SETTING("timeout_ms"), SETTING("retry"),     \
        SETTING("retention_ms"), SETTING("cancel_grace_ms"), SETTING("pin")

static const struct record_field kind_set_fields[] = {FIELD(kind, NAME), SETTINGS,
                                                      FIELD(expected_version, INT)};
RECORD_TABLE(kind_set);

static const struct record_field kind_get_fields[] = {FIELD(kind, NAME)};
RECORD_TABLE(kind_get);

static const struct record_field kinds_fields[] = {
    RECORD_FIELD_RANGE(struct kind_request, limit, "limit", INT, 1, KINDS_MAX),
    FIELD(cursor, NAME),
};
RECORD_TABLE(kinds);

static enum error_code read_kind(struct verb_call *call, const struct record_type *type,
                                 struct kind_request *ret, struct err *err)
{
    enum error_code code = verb_read(call, type, ret, err);
    if (code == ERR_OK && !str_is_set(ret->kind))
        code = verb_missing("kind", "the name of a kind", err);
    return code;
}

/* The settings of a request: what is left without the kind and the version. */
static enum error_code settings_of(struct verb_call *call, struct str *ret, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct buf buf;
    bool first = true;
    buf_init(&buf, call->arena, call->request.len + 2);
    buf_add_char(&buf, '{');
    (void)json_object_begin(&iter, call->request);
    while (json_object_next(&iter, &key, &value)) {
        if (json_key_is(key, STR("kind")) || json_key_is(key, STR("expected_version")))
            continue;
        if (!first)
            buf_add_char(&buf, ',');
        first = false;
        buf_add(&buf, key);
        buf_add_char(&buf, ':');
        buf_add(&buf, value);
    }
    buf_add_char(&buf, '}');
    if (buf.failed)
        return verb_no_memory(err);
    *ret = buf_str(&buf);
    return ERR_OK;
}

static enum error_code prepare(struct verb_call *call, bool change, struct err *err)
{
    struct kind_request request = {.expected_version = -1};
    struct kind_settings given = {0};
    struct str settings = {NULL, 0};
    call->call.class = CALL_RESULT;
    enum error_code code = read_kind(call, &kind_set_record, &request, err);
    if (code == ERR_OK)
        code = settings_of(call, &settings, err);
    /* A change is read in the batch, together with what there is. */
    if (code == ERR_OK && !change)
        code = kind_settings_given(settings, call->arena, &given, err);
    if (code != ERR_OK)
        return code;
    struct store_kind *kind = arena_zalloc(call->arena, 1, sizeof *kind);
    struct op *op = verb_op(call);
    if (kind == NULL || op == NULL)
        return verb_no_memory(err);
    *kind = (struct store_kind){.kind = request.kind, .settings = given};
    op->type = OP_KIND;
    op->kind.kind = kind;
    op->kind.expected_version = request.expected_version;
    op->kind.change = change ? settings : (struct str){NULL, 0};
    return ERR_OK;
}

static enum error_code prepare_set(struct verb_call *call, struct err *err)
{
    return prepare(call, false, err);
}

static enum error_code prepare_patch(struct verb_call *call, struct err *err)
{
    return prepare(call, true, err);
}

static void write_kind(struct json_writer *writer, const struct store_kind *kind)
{
    const struct kind_settings *settings = &kind->settings;
    json_begin_object(writer);
    answer_text(writer, STR("kind"), kind->kind);
    answer_int_set(writer, STR("lease_ttl_ms"), settings->lease_ttl_ms);
    answer_int_set(writer, STR("heartbeat_ms"), settings->heartbeat_ms);
    answer_int_set(writer, STR("timeout_ms"), settings->timeout_ms);
    json_key(writer, STR("retry"));
    if (settings->retry.max_attempts > 0)
        answer_retry(writer, &settings->retry);
    else
        json_put_null(writer);
    answer_int_set(writer, STR("retention_ms"), settings->retention_ms);
    answer_int_set(writer, STR("cancel_grace_ms"), settings->cancel_grace_ms);
    answer_bool(writer, STR("pin"), settings->pin);
    answer_int(writer, STR("version"), settings->version);
    json_end_object(writer);
}

static void write_changed(const struct verb_call *call, struct json_writer *writer)
{
    write_kind(writer, call->call.ops[0]->kind.kind);
}

const struct verb verb_kind_set = {
    .request = &kind_set_record, .prepare = prepare_set, .write = write_changed};
const struct verb verb_kind_patch = {
    .request = &kind_set_record, .prepare = prepare_patch, .write = write_changed};

static enum error_code load_kinds(struct verb_call *call, struct store_load *load, struct err *err)
{
    struct store_txn *txn;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, load, call->arena, err);
    store_rollback(txn);
    return code;
}

static enum error_code run_kind_get(struct verb_call *call, struct err *err)
{
    struct kind_request request = {0};
    struct store_load load = {0};
    struct store_kind *kind = verb_data(call, sizeof *kind);
    if (kind == NULL)
        return verb_no_memory(err);
    enum error_code code = read_kind(call, &kind_get_record, &request, err);
    if (code == ERR_OK)
        code = load_kinds(call, &load, err);
    kind->kind = request.kind;
    for (uint32_t i = 0; i < load.kind_count; i++)
        if (str_eq(load.kinds[i].kind, request.kind))
            *kind = load.kinds[i];
    return code;
}

static void write_one(const struct verb_call *call, struct json_writer *writer)
{
    write_kind(writer, call->result.data);
}

const struct verb verb_kind_get = {
    .request = &kind_get_record, .run = run_kind_get, .write = write_one};

/* Whether anything is set of a kind, besides its version. */
static bool is_set(const struct kind_settings *settings)
{
    struct kind_settings nothing = {.version = settings->version};
    return !kind_settings_same(settings, &nothing);
}

struct kind_page {
    struct store_load load;
    struct str cursor;
    int64_t limit;
};

static enum error_code run_kinds(struct verb_call *call, struct err *err)
{
    struct kind_request request = {.limit = KINDS_DEFAULT};
    struct kind_page *page = verb_data(call, sizeof *page);
    if (page == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &kinds_record, &request, err);
    page->cursor = request.cursor;
    page->limit = request.limit;
    return code == ERR_OK ? load_kinds(call, &page->load, err) : code;
}

static void write_kinds(const struct verb_call *call, struct json_writer *writer)
{
    const struct kind_page *page = call->result.data;
    struct str last = {NULL, 0};
    bool more = false;
    int64_t count = 0;
    json_begin_object(writer);
    json_key(writer, STR("kinds"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < page->load.kind_count && !more; i++) {
        const struct store_kind *kind = &page->load.kinds[i];
        bool before = str_is_set(page->cursor) && str_cmp(kind->kind, page->cursor) <= 0;
        if (before || !is_set(&kind->settings))
            continue;
        more = count++ == page->limit;
        if (more)
            break;
        write_kind(writer, kind);
        last = kind->kind;
    }
    json_end_array(writer);
    answer_text(writer, STR("next_cursor"), more ? last : (struct str){NULL, 0});
    json_end_object(writer);
}

const struct verb verb_kinds = {.request = &kinds_record, .run = run_kinds, .write = write_kinds};

/* ---- versions ---- */

struct version_count {
    struct str pin; /* absent: jobs that are not pinned */
    int64_t jobs;
};

struct versions {
    struct str kind;
    struct version_count at[VERSIONS_MAX];
    uint32_t count;
    bool more; /* jobs were not counted */
};

static enum error_code count_version(struct versions *versions, struct str pin, struct arena *arena)
{
    for (uint32_t i = 0; i < versions->count; i++)
        if (str_is_set(versions->at[i].pin) == str_is_set(pin) &&
            str_eq(versions->at[i].pin, pin)) {
            versions->at[i].jobs++;
            return ERR_OK;
        }
    versions->more = versions->more || versions->count == VERSIONS_MAX;
    if (versions->count == VERSIONS_MAX)
        return ERR_OK;
    struct str kept = arena_copy(arena, pin);
    versions->at[versions->count++] = (struct version_count){kept, 1};
    return str_is_set(kept) == str_is_set(pin) ? ERR_OK : ERR_NO_MEMORY;
}

/* They are counted one by one: no store has to know of versions. */
static enum error_code count_versions(struct verb_call *call, struct store_txn *txn,
                                      struct store_filter *filter, struct versions *versions,
                                      struct err *err)
{
    int64_t until = engine_steady(call->engine) + COUNT_MS_MAX;
    struct arena page;
    bool left = true;
    enum error_code code = ERR_OK;
    arena_init(&page);
    while (code == ERR_OK && left && engine_steady(call->engine) < until) {
        struct store_job *jobs = NULL;
        uint32_t count = 0;
        code = store_list(txn, filter, &page, &jobs, &count, err);
        for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
            filter->before = jobs[i].id;
            if (!str_is_set(jobs[i].damaged) &&
                count_version(versions, jobs[i].slice.job.pin, call->arena) != ERR_OK)
                code = verb_no_memory(err);
        }
        left = count == filter->limit;
        arena_clear(&page);
    }
    versions->more = versions->more || left;
    arena_release(&page);
    return code;
}

static enum error_code run_kind_versions(struct verb_call *call, struct err *err)
{
    struct kind_request request = {0};
    struct store_txn *txn;
    struct store_filter filter = {.limit = STORE_LIST_MAX};
    struct versions *versions = verb_data(call, sizeof *versions);
    if (versions == NULL)
        return verb_no_memory(err);
    enum error_code code = read_kind(call, &kind_get_record, &request, err);
    versions->kind = filter.kind = request.kind;
    for (int status = 0; status < JOB_STATUS_COUNT; status++)
        if (!job_status_terminal((enum job_status)status))
            filter.statuses |= UINT32_C(1) << status;
    if (code == ERR_OK)
        code = access_filter(call, &filter, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = count_versions(call, txn, &filter, versions, err);
    store_rollback(txn);
    return code;
}

static void write_versions(const struct verb_call *call, struct json_writer *writer)
{
    const struct versions *versions = call->result.data;
    json_begin_object(writer);
    answer_text(writer, STR("kind"), versions->kind);
    json_key(writer, STR("versions"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < versions->count; i++) {
        json_begin_object(writer);
        answer_text(writer, STR("code_version"), versions->at[i].pin);
        answer_int(writer, STR("jobs"), versions->at[i].jobs);
        json_end_object(writer);
    }
    json_end_array(writer);
    answer_bool(writer, STR("more"), versions->more);
    json_end_object(writer);
}

const struct verb verb_kind_versions = {
    .request = &kind_get_record, .run = run_kind_versions, .write = write_versions};
