/* What a batch changes beside jobs, which write_job.c has. */
#include "core/job_state.h"
#include "store/sqlite/sqlite.h"

/* ---- all that is not a job ---- */

static enum error_code run_request(struct sqlite_txn *txn, enum statement statement,
                                   const struct request_record *record, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_text(&query, record->scope);
    lite_put_text(&query, record->key);
    lite_put_int(&query, record->at);
    lite_put_blob(&query, record->body_hash, sizeof record->body_hash);
    lite_put_blob(&query, record->answer.at, record->answer.len);
    return lite_run(&query);
}

/* A key that was used before is rare: its record is older than a day. */
static enum error_code put_request(struct sqlite_txn *txn, const struct request_record *record,
                                   struct err *err)
{
    enum error_code code = run_request(txn, STATEMENT_REQUEST_INSERT, record, err);
    return code == ERR_VERSION_MISMATCH ? run_request(txn, STATEMENT_REQUEST_UPDATE, record, err)
                                        : code;
}

static enum error_code put_resource(struct sqlite_txn *txn, const struct resource *resource,
                                    struct err *err)
{
    struct buf state;
    buf_init(&state, &txn->scratch, 256);
    resource_state_write(resource, &state);
    if (state.failed)
        return sqlite_no_memory(err);
    struct query query = lite_query(txn->connection, STATEMENT_RESOURCE_PUT, NULL, err);
    lite_put_text(&query, resource->id);
    lite_put_int(&query, resource->expires_at);
    lite_put_text(&query, buf_str(&state));
    return lite_run(&query);
}

/* Runs a statement whose one parameter is a text. */
static enum error_code run_on_text(struct sqlite_txn *txn, enum statement statement,
                                   struct str text, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_text(&query, text);
    return lite_run(&query);
}

static enum error_code put_kind(struct sqlite_txn *txn, const struct store_kind *kind,
                                struct err *err)
{
    static const struct kind_settings nothing;
    struct buf settings;
    struct buf empty;
    buf_init(&settings, &txn->scratch, 256);
    buf_init(&empty, &txn->scratch, 16);
    kind_settings_write(&kind->settings, &settings);
    kind_settings_write(&nothing, &empty);
    if (settings.failed || empty.failed)
        return sqlite_no_memory(err);
    if (str_eq(buf_str(&settings), buf_str(&empty)))
        return run_on_text(txn, STATEMENT_KIND_DELETE, kind->kind, err);
    struct query query = lite_query(txn->connection, STATEMENT_KIND_PUT, NULL, err);
    lite_put_text(&query, kind->kind);
    lite_put_text(&query, buf_str(&settings));
    return lite_run(&query);
}

static enum error_code put_queue(struct sqlite_txn *txn, const struct store_queue *queue,
                                 struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_QUEUE_PUT, NULL, err);
    lite_put_text(&query, queue->queue);
    lite_put_int(&query, queue->paused);
    return lite_run(&query);
}

static enum error_code write_others(struct sqlite_txn *txn, const struct store_write *write,
                                    struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->request_count && code == ERR_OK; i++)
        code = put_request(txn, &write->requests[i], err);
    for (uint32_t i = 0; i < write->resource_count && code == ERR_OK; i++)
        code = put_resource(txn, &write->resources[i], err);
    for (uint32_t i = 0; i < write->resource_gone_count && code == ERR_OK; i++)
        code = run_on_text(txn, STATEMENT_RESOURCE_DELETE, write->resources_gone[i], err);
    for (uint32_t i = 0; i < write->registration_count && code == ERR_OK; i++)
        code = sqlite_put_registration(txn, &write->registrations[i], err);
    for (uint32_t i = 0; i < write->renewal_count && code == ERR_OK; i++)
        code = sqlite_renew_registration(txn, &write->renewals[i], err);
    for (uint32_t i = 0; i < write->registration_gone_count && code == ERR_OK; i++)
        code = run_on_text(txn, STATEMENT_WORKER_DELETE, write->registrations_gone[i], err);
    for (uint32_t i = 0; i < write->kind_count && code == ERR_OK; i++)
        code = put_kind(txn, &write->kinds[i], err);
    for (uint32_t i = 0; i < write->queue_count && code == ERR_OK; i++)
        code = put_queue(txn, &write->queues[i], err);
    for (uint32_t i = 0; i < write->token_count && code == ERR_OK; i++)
        code = sqlite_put_token(txn, &write->tokens[i], err);
    for (uint32_t i = 0; i < write->token_gone_count && code == ERR_OK; i++)
        code = sqlite_drop_token(txn, &write->tokens_gone[i], err);
    return code;
}

/* ---- all of it ---- */

enum error_code sqlite_write(struct store_txn *base, const struct store_write *write,
                             struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code == ERR_OK)
        code = sqlite_write_jobs(txn, write, err);
    if (code == ERR_OK)
        code = write_others(txn, write, err);
    return sqlite_verb_end(txn, code);
}
