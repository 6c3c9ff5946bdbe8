/* What a batch names, read at its start; and headers of jobs for anyone who needs one. The writer's
 * transaction is all the locking there is. */
#include "core/job_state.h"
#include "store/sqlite/packed.h"
#include "store/sqlite/sqlite.h"

/* ---- headers ---- */

static void read_claim(struct query *query, bool present, struct job_row *row)
{
    row->claim = (struct claim_row){.present = present, .worker_id = lite_read_text(query)};
    row->claim.attempt = lite_read_int(query);
    row->claim.expires_at = lite_read_int(query);
    row->claim.beat_at = lite_read_int(query);
    row->claim.due_at = lite_read_int(query);
    row->claim.progress = lite_read_text(query);
    row->claim.cursor = lite_read_text(query);
}

/* The columns of HEADER_COLUMNS, in their order; `ret_created` is the first event. */
static void header_read(struct query *query, struct header *header, struct job_row *row,
                        struct str *ret_created)
{
    header->no = lite_read_int(query);
    row->id = lite_read_uuid(query);
    row->created_at = lite_read_int(query);
    row->priority = lite_read_int(query);
    row->redacted = lite_read_int(query) != 0;
    row->queue = lite_read_text(query);
    row->kind = lite_read_text(query);
    row->agent_id = lite_read_text(query);
    row->correlation_id = lite_read_text(query);
    row->idempotency_key = lite_read_text(query);
    lite_read_blob(query, row->salt, sizeof row->salt);
    *ret_created = lite_read_text(query);
    header->stated = !lite_next_is_null(query);
    lite_skip(query, 1);
    header->claimed = !lite_next_is_null(query);
    lite_skip(query, 1);
    row->status = lite_read_int(query);
    row->version = lite_read_int(query);
    row->retry_count = lite_read_int(query);
    row->updated_at = lite_read_int(query);
    row->state = lite_read_text(query);
    lite_read_blob(query, row->head, sizeof row->head);
    header->state_bytes = lite_read_int(query);
    header->claim_bytes = lite_read_int(query);
    row->cursor = lite_read_text(query);
    read_claim(query, header->claimed, row);
    header->effects = lite_read_text(query);
    /* A job that has only been made has none. */
    if (!header->stated && !header->claimed)
        header->effects = STR("");
}

/* Ends the query, which gives one header or none (no 0). */
static enum error_code read_one(struct sqlite_txn *txn, struct query *query, struct header *ret)
{
    struct header header = {0};
    struct job_row row = {0};
    struct job_slice slice;
    struct str created = {NULL, 0};
    if (lite_next(query))
        header_read(query, &header, &row, &created);
    enum error_code code = lite_end(query);
    if (code == ERR_OK && header.no != 0) {
        sqlite_apply_beat(txn->store, &row.id, STEP_NONE, &row.claim);
        code = row_name_job(row.id, packed_payload(created, &row.created, query->err), query->err);
        if (code == ERR_OK)
            code =
                row_to_job(&row, txn->store->base.options.seed, query->arena, &slice, query->err);
        if (code == ERR_OK) {
            header.id = row.id;
            header.job = slice.job;
        }
        if (code == ERR_OK && txn->reader == NULL)
            header_cache_put(&txn->store->headers, &header);
    }
    if (code == ERR_OK)
        *ret = header;
    return code;
}

/* Whether the job cannot be in the database, since all that are have lower ids. */
static bool is_new(const struct sqlite_txn *txn, const struct uuid *id)
{
    return txn->reader == NULL && memcmp(id->bytes, txn->store->newest.bytes, sizeof id->bytes) > 0;
}

enum error_code sqlite_find_header(struct sqlite_txn *txn, const struct uuid *id,
                                   struct arena *arena, struct header *ret, struct err *err)
{
    const struct header *known = NULL;
    bool new = is_new(txn, id);
    if (txn->reader == NULL && !new)
        known = header_cache_find(&txn->store->headers, id);
    if (known != NULL || new) {
        *ret = known != NULL ? *known : (struct header){0};
        return ERR_OK;
    }
    struct query query = lite_query(txn->connection, STATEMENT_JOB_BY_ID, arena, err);
    lite_put_uuid(&query, id);
    return read_one(txn, &query, ret);
}

/* A slice of the caller's: what is in the cache may go. */
static enum error_code give_slice(struct sqlite_txn *txn, const struct header *header,
                                  struct uuid id, struct arena *arena, struct job_slice *ret,
                                  struct err *err)
{
    job_slice_init(ret, id, txn->store->base.options.seed);
    if (header->no == 0)
        return ERR_OK;
    ret->job = header->job;
    bool ours = txn->reader != NULL; /* it has just been read into the arena */
    return ours || job_copy_texts(&ret->job, NULL, arena) ? ERR_OK : sqlite_no_memory(err);
}

enum error_code sqlite_read_job(struct sqlite_txn *txn, struct uuid id, struct arena *arena,
                                struct job_slice *ret, struct err *err)
{
    struct header header;
    enum error_code code = sqlite_find_header(txn, &id, arena, &header, err);
    return code == ERR_OK ? give_slice(txn, &header, id, arena, ret, err) : code;
}

enum error_code sqlite_remember(struct sqlite_txn *txn, const struct header *header, bool forget,
                                struct err *err)
{
    if (memcmp(header->id.bytes, txn->store->newest.bytes, sizeof header->id.bytes) > 0)
        txn->store->newest = header->id;
    if (forget) {
        header_cache_drop(&txn->store->headers, &header->id);
        return ERR_OK;
    }
    if (!sqlite_more(&txn->notes, (void **)&txn->remembered, txn->remembered_count,
                     &txn->remembered_cap, sizeof *txn->remembered))
        return sqlite_no_memory(err);
    txn->remembered[txn->remembered_count++] = header->id;
    header_cache_put(&txn->store->headers, header);
    return ERR_OK;
}

/* ---- keys, requests, resources ---- */

static enum error_code load_key(struct sqlite_txn *txn, struct store_key *key, struct arena *arena,
                                struct err *err)
{
    struct header header;
    struct query query = lite_query(txn->connection, STATEMENT_JOB_BY_KEY, arena, err);
    lite_put_text(&query, key->queue);
    lite_put_text(&query, key->key);
    enum error_code code = read_one(txn, &query, &header);
    return code == ERR_OK ? give_slice(txn, &header, header.id, arena, &key->slice, err) : code;
}

static enum error_code load_request(struct sqlite_txn *txn, struct store_request *request,
                                    struct arena *arena, struct err *err)
{
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
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < load->job_count && code == ERR_OK; i++) {
        struct store_job *job = &load->jobs[i];
        code = sqlite_read_job(txn, job->id, arena, &job->slice, err);
        job->redacted = code == ERR_OK && job->slice.job.redacted;
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
