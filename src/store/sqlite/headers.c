/* What a batch names, read at its start; and headers of jobs for whoever needs one. The writer's
 * transaction is all the locking there is. */
#include "core/job_state.h"
#include "store/sqlite/sqlite.h"

/* ---- headers ---- */

struct claim_row sqlite_read_claim(struct query *query)
{
    struct claim_row claim = {
        .worker_id = lite_read_text(query),
        .resource_id = lite_read_text(query),
    };
    claim.present = !lite_next_is_null(query);
    claim.attempt = lite_read_int(query);
    claim.expires_at = lite_read_int(query);
    claim.beat_at = lite_read_int(query);
    claim.due_at = lite_read_int(query);
    claim.progress = lite_read_text(query);
    claim.cursor = lite_read_text(query);
    return claim;
}

/* The columns of HEADER_COLUMNS, in their order. */
static void header_read(struct query *query, struct job_row *row)
{
    row->id = lite_read_uuid(query);
    row->status = lite_read_int(query);
    row->version = lite_read_int(query);
    row->retry_count = lite_read_int(query);
    row->created_at = lite_read_int(query);
    row->updated_at = lite_read_int(query);
    row->redacted = lite_read_int(query) != 0;
    lite_read_blob(query, row->head, sizeof row->head);
    lite_read_blob(query, row->salt, sizeof row->salt);
    row->cursor = lite_read_text(query);
    row->state = lite_read_text(query);
    row->created = lite_read_text(query);
    row->claim = sqlite_read_claim(query);
}

/* By what a redacted job is found: its first event does not say it any more. */
static enum error_code read_job_names(struct sqlite_txn *txn, struct arena *arena,
                                      struct job_row *row, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_JOB_NAMES, arena, err);
    lite_put_uuid(&query, &row->id);
    if (lite_next(&query)) {
        row->queue = lite_read_text(&query);
        row->kind = lite_read_text(&query);
        row->priority = lite_read_int(&query);
        row->agent_id = lite_read_text(&query);
        row->correlation_id = lite_read_text(&query);
        row->idempotency_key = lite_read_text(&query);
    }
    return lite_end(&query);
}

/* Ends the query, which gives one header or none. */
static enum error_code read_one(struct sqlite_txn *txn, struct query *query, struct uuid id,
                                struct job_slice *ret, bool *ret_redacted)
{
    uint64_t seed = txn->store->base.options.seed;
    struct job_row row = {0};
    bool found = lite_next(query);
    if (found)
        header_read(query, &row);
    enum error_code code = lite_end(query);
    if (code == ERR_OK && row.redacted)
        code = read_job_names(txn, query->arena, &row, query->err);
    if (code == ERR_OK && found)
        code = row_to_job(&row, seed, query->arena, ret, query->err);
    else if (code == ERR_OK)
        job_slice_init(ret, id, seed);
    if (code == ERR_OK)
        *ret_redacted = row.redacted;
    return code;
}

/* Whether the job cannot be in the database, since all that are have lower ids. */
static bool is_new(const struct sqlite_txn *txn, const struct uuid *id)
{
    return !txn->through && txn->reader == NULL &&
           memcmp(id->bytes, txn->store->newest.bytes, sizeof id->bytes) > 0;
}

enum error_code sqlite_read_job(struct sqlite_txn *txn, struct uuid id, struct arena *arena,
                                struct job_slice *ret, bool *ret_redacted, struct err *err)
{
    bool found;
    enum error_code code = sqlite_ahead_job(txn, &id, arena, ret, &found, err);
    if (code == ERR_OK && found)
        *ret_redacted = ret->job.redacted;
    if (code != ERR_OK || found)
        return code;
    if (is_new(txn, &id)) {
        job_slice_init(ret, id, txn->store->base.options.seed);
        *ret_redacted = false;
    } else {
        struct query query = lite_query(txn->connection, STATEMENT_JOB_BY_ID, arena, err);
        lite_put_uuid(&query, &id);
        code = read_one(txn, &query, id, ret, ret_redacted);
    }
    return code == ERR_OK ? sqlite_note_version(txn, &ret->job.id, ret->job.version, err) : code;
}

/* ---- keys, requests, resources ---- */

static enum error_code load_key(struct sqlite_txn *txn, struct store_key *key, struct arena *arena,
                                struct err *err)
{
    struct uuid none = {{0}};
    bool redacted;
    bool found = false;
    const struct ahead_job *known;
    enum error_code code = sqlite_ahead_key(txn, key->queue, key->key, &known, err);
    if (code != ERR_OK)
        return code;
    if (known != NULL)
        return sqlite_ahead_job(txn, &known->job.id, arena, &key->slice, &found, err);
    struct query query = lite_query(txn->connection, STATEMENT_JOB_BY_KEY, arena, err);
    lite_put_text(&query, key->queue);
    lite_put_text(&query, key->key);
    code = read_one(txn, &query, none, &key->slice, &redacted);
    /* The database says which it is, but may not know how it stands. */
    if (code == ERR_OK && key->slice.job.status != JOB_NONE)
        code = sqlite_ahead_job(txn, &key->slice.job.id, arena, &key->slice, &found, err);
    return code;
}

static enum error_code load_request(struct sqlite_txn *txn, struct store_request *request,
                                    struct arena *arena, struct err *err)
{
    const struct request_record *known;
    enum error_code code = sqlite_ahead_request(txn, request->scope, request->key, &known, err);
    if (code != ERR_OK)
        return code;
    if (known != NULL) {
        request->found = true;
        request->record = *known;
        request->record.scope = arena_copy(arena, known->scope);
        request->record.key = arena_copy(arena, known->key);
        request->record.answer = arena_copy(arena, known->answer);
        bool whole = str_is_set(request->record.scope) && str_is_set(request->record.key) &&
                     str_is_set(request->record.answer) == str_is_set(known->answer);
        return whole ? ERR_OK : sqlite_no_memory(err);
    }
    struct query query = lite_query(txn->connection, STATEMENT_REQUEST_BY_KEY, arena, err);
    lite_put_text(&query, request->scope);
    lite_put_text(&query, request->key);
    request->found = lite_next(&query);
    if (request->found) {
        struct request_record *record = &request->record;
        *record = (struct request_record){
            .scope = arena_copy(arena, request->scope),
            .key = arena_copy(arena, request->key),
        };
        if (!str_is_set(record->scope) || !str_is_set(record->key))
            query.out_of_memory = true;
        record->at = lite_read_int(&query);
        lite_read_blob(&query, record->body_hash, sizeof record->body_hash);
        record->answer = lite_read_text(&query);
    }
    return lite_end(&query);
}

static enum error_code count_leases(struct sqlite_txn *txn, struct str resource_id, int64_t *ret,
                                    struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_CLAIMS_ON_COUNT, NULL, err);
    lite_put_text(&query, resource_id);
    if (lite_next(&query))
        *ret = lite_read_int(&query);
    return lite_end(&query);
}

static enum error_code load_resource(struct sqlite_txn *txn, struct store_resource *resource,
                                     struct arena *arena, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_RESOURCE_BY_ID, arena, err);
    struct resource found = {.id = arena_copy(arena, resource->id)};
    struct str state = {NULL, 0};
    int64_t expires_at = 0;
    lite_put_text(&query, resource->id);
    resource->found = lite_next(&query);
    if (resource->found) {
        expires_at = lite_read_int(&query);
        state = lite_read_text(&query);
    }
    query.out_of_memory = query.out_of_memory || !str_is_set(found.id);
    enum error_code code = lite_end(&query);
    if (code != ERR_OK || !resource->found)
        return code;
    struct str id = found.id;
    code = resource_state_read(state, arena, &found, err);
    found.id = id;
    found.expires_at = expires_at;
    if (code == ERR_OK)
        code = count_leases(txn, id, &found.used, err);
    if (code == ERR_OK)
        resource->resource = found;
    return code;
}

/* ---- what an operator has set: all of it, since there is little ---- */

static enum error_code load_kinds(struct sqlite_txn *txn, struct store_load *load,
                                  struct arena *arena, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_KINDS, arena, err);
    struct store_kind *kinds = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&kinds, count, &cap, sizeof *kinds)) {
            query.out_of_memory = true;
            break;
        }
        struct store_kind *kind = &kinds[count++];
        *kind = (struct store_kind){.kind = lite_read_text(&query)};
        struct str settings = lite_read_text(&query);
        if (query.code == ERR_OK && !query.out_of_memory)
            query.code = kind_settings_read(settings, arena, &kind->settings, err);
    }
    load->kinds = kinds;
    load->kind_count = count;
    return lite_end(&query);
}

static enum error_code load_paused(struct sqlite_txn *txn, struct store_load *load,
                                   struct arena *arena, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_QUEUES_PAUSED, arena, err);
    struct names paused = {NULL, 0};
    uint32_t cap = 0;
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&paused.at, paused.count, &cap, sizeof *paused.at)) {
            query.out_of_memory = true;
            break;
        }
        paused.at[paused.count++] = lite_read_text(&query);
    }
    load->paused = paused;
    return lite_end(&query);
}

enum error_code sqlite_load(struct store_txn *base, struct store_load *load, struct arena *arena,
                            struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin_ahead(txn, err);
    if (code != ERR_OK)
        return code;
    txn->staged.keys_loaded = load->key_count > 0;
    for (uint32_t i = 0; i < load->job_count && code == ERR_OK; i++) {
        struct store_job *job = &load->jobs[i];
        code = sqlite_read_job(txn, job->id, arena, &job->slice, &job->redacted, err);
    }
    for (uint32_t i = 0; i < load->key_count && code == ERR_OK; i++)
        code = load_key(txn, &load->keys[i], arena, err);
    for (uint32_t i = 0; i < load->request_count && code == ERR_OK; i++)
        code = load_request(txn, &load->requests[i], arena, err);
    for (uint32_t i = 0; i < load->resource_count && code == ERR_OK; i++)
        code = load_resource(txn, &load->resources[i], arena, err);
    for (uint32_t i = 0; i < load->registration_count && code == ERR_OK; i++)
        code = sqlite_load_registration(txn, &load->registrations[i], arena, err);
    if (code == ERR_OK)
        code = load_kinds(txn, load, arena, err);
    if (code == ERR_OK)
        code = load_paused(txn, load, arena, err);
    load->now = txn->now;
    load->lanes_era = txn->store->lanes_era;
    return sqlite_verb_end(txn, code);
}
