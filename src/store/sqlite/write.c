/* What a batch changes. */
#include "core/job_state.h"
#include "store/sqlite/sqlite.h"

/* ---- events ---- */

static enum error_code put_telemetry(struct sqlite_txn *txn, const struct event *event,
                                     struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TELEMETRY_INSERT, NULL, err);
    lite_put_uuid(&query, &event->job_id);
    lite_put_int(&query, event->at);
    lite_put_text(&query, event_name(event));
    lite_put_text(&query, event->actor);
    lite_put_text(&query, event->cause_text);
    lite_put_text(&query, event->correlation_id);
    lite_put_text(&query, event->payload);
    lite_put_int(&query, event->version);
    return lite_run(&query);
}

static enum error_code insert_event(struct sqlite_txn *txn, const struct ahead_event *event,
                                    struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_EVENT_INSERT, NULL, err);
    lite_put_int(&query, event->position);
    lite_put_uuid(&query, &event->job);
    lite_put_int(&query, event->version);
    lite_put_text(&query, event->type);
    lite_put_int(&query, event->at);
    lite_put_int(&query, event->redacted);
    lite_put_text(&query, event->actor);
    lite_put_text(&query, event->cause);
    lite_put_text(&query, event->correlation_id);
    lite_put_blob(&query, event->digest, HASH_LEN);
    lite_put_blob(&query, event->hash, HASH_LEN);
    lite_put_text(&query, event->payload);
    return lite_run(&query);
}

static enum error_code put_event(struct sqlite_txn *txn, const struct event *event, struct err *err)
{
    if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY)
        return put_telemetry(txn, event, err);
    struct ahead_event row = {
        .position = txn->feed_end + 1,
        .job = event->job_id,
        .version = event->version,
        .at = event->at,
        .redacted = event->redacted,
        .type = event_name(event),
        .actor = event->actor,
        .cause = event->cause_text,
        .correlation_id = event->correlation_id,
        .payload = event->payload,
        .digest = event->digest,
        .hash = event->hash,
    };
    enum error_code code = insert_event(txn, &row, err);
    if (code == ERR_OK)
        txn->feed_end++;
    return code;
}

/* ---- rows of jobs ---- */

/* Runs a statement whose one parameter is a job. */
static enum error_code run_on_job(struct sqlite_txn *txn, enum statement statement,
                                  const struct uuid *job, bool *ret_found, struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_uuid(&query, job);
    return lite_run_found(&query, ret_found);
}

static enum error_code insert_job(struct sqlite_txn *txn, const struct job_row *row,
                                  struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_JOB_INSERT, NULL, err);
    lite_put_uuid(&query, &row->id);
    lite_put_int(&query, row->status);
    lite_put_int(&query, row->version);
    lite_put_int(&query, row->retry_count);
    lite_put_int(&query, row->created_at);
    lite_put_int(&query, row->updated_at);
    lite_put_text(&query, row->queue);
    lite_put_text(&query, row->kind);
    lite_put_int(&query, row->priority);
    lite_put_int(&query, row->reason_code);
    lite_put_int(&query, row->purge_at);
    lite_put_int(&query, row->redacted);
    lite_put_text(&query, row->agent_id);
    lite_put_text(&query, row->correlation_id);
    lite_put_text(&query, row->idempotency_key);
    lite_put_blob(&query, row->head, sizeof row->head);
    lite_put_blob(&query, row->salt, sizeof row->salt);
    lite_put_text(&query, row->cursor);
    lite_put_text(&query, row->goal);
    lite_put_text(&query, row->labels);
    lite_put_text(&query, row->state);
    lite_put_int(&query, row->asking);
    enum error_code code = lite_run(&query);
    /* The id has an error of its own: this is the key. */
    if (code == ERR_VERSION_MISMATCH &&
        sqlite3_extended_errcode(txn->connection->db) == SQLITE_CONSTRAINT_UNIQUE)
        return err_set(err, ERR_UNAVAILABLE,
                       "the idempotency key \"%.*s\" has been taken by another job: try again",
                       STR_ARG(row->idempotency_key));
    return code;
}

static enum error_code update_job(struct sqlite_txn *txn, const struct job_row *row,
                                  struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_JOB_UPDATE, NULL, err);
    bool found = false;
    lite_put_uuid(&query, &row->id);
    lite_put_int(&query, row->status);
    lite_put_int(&query, row->version);
    lite_put_int(&query, row->retry_count);
    lite_put_int(&query, row->updated_at);
    lite_put_int(&query, row->reason_code);
    lite_put_int(&query, row->purge_at);
    lite_put_blob(&query, row->head, sizeof row->head);
    lite_put_text(&query, row->cursor);
    lite_put_text(&query, row->state);
    lite_put_int(&query, row->asking);
    enum error_code code = lite_run_found(&query, &found);
    if (code == ERR_OK && !found)
        return err_set(err, ERR_VERSION_MISMATCH, "the job is not there any more");
    return code;
}

static enum error_code put_job(struct sqlite_txn *txn, const struct store_job_write *write,
                               struct err *err)
{
    struct job_row row;
    if (row_of_job(write, &txn->scratch, &row) != ERR_OK)
        return sqlite_no_memory(err);
    return write->created ? insert_job(txn, &row, err) : update_job(txn, &row, err);
}

/* What is free text in the row and in the stream. The parts are listed by the caller. */
static enum error_code redact_job(struct sqlite_txn *txn, const struct job *job, struct err *err)
{
    static const uint8_t no_salt[SALT_LEN];
    bool found;
    struct query query = lite_query(txn->connection, STATEMENT_JOB_REDACT, NULL, err);
    lite_put_uuid(&query, &job->id);
    lite_put_blob(&query, no_salt, sizeof no_salt);
    lite_put_text(&query, job->spec.goal);
    lite_put_text(&query, job->spec.labels);
    enum error_code code = lite_run(&query);
    if (code == ERR_OK)
        code = run_on_job(txn, STATEMENT_EVENTS_REDACT, &job->id, &found, err);
    if (code == ERR_OK)
        code = run_on_job(txn, STATEMENT_TELEMETRY_DELETE, &job->id, &found, err);
    return code;
}

/* ---- parts ---- */

enum error_code sqlite_put_effect(struct sqlite_txn *txn, const struct uuid *job,
                                  const struct effect *effect, struct err *err)
{
    struct effect_row row;
    if (row_of_effect(effect, &txn->scratch, &row) != ERR_OK)
        return sqlite_no_memory(err);
    struct query query = lite_query(txn->connection, STATEMENT_EFFECT_PUT, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_text(&query, row.name);
    lite_put_text(&query, row.step);
    lite_put_text(&query, row.key);
    lite_put_int(&query, row.version);
    lite_put_int(&query, row.open);
    lite_put_text(&query, row.state);
    return lite_run(&query);
}

static enum error_code put_signal(struct sqlite_txn *txn, const struct uuid *job,
                                  const struct signal *signal, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_SIGNAL_PUT, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_int(&query, signal->version);
    lite_put_text(&query, signal->correlation_key);
    lite_put_text(&query, signal->signal_id);
    lite_put_int(&query, signal->delivered);
    lite_put_text(&query, signal->payload);
    return lite_run(&query);
}

enum error_code sqlite_write_job(struct sqlite_txn *txn, const struct store_job_write *write,
                                 struct err *err)
{
    const struct job *job = &write->after->job;
    struct place place;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->event_count && code == ERR_OK; i++)
        code = put_event(txn, &write->events[i], err);
    if (code == ERR_OK && !store_row_same(write->changed))
        code = put_job(txn, write, err);
    if (code == ERR_OK)
        code = sqlite_replace(txn, job, NULL, &write->was, &write->now,
                              store_row_same(write->changed), &place, err);
    for (uint32_t i = 0; i < write->effect_count && code == ERR_OK; i++)
        code = sqlite_put_effect(txn, &job->id, write->effects[i], err);
    for (uint32_t i = 0; i < write->signal_count && code == ERR_OK; i++)
        code = put_signal(txn, &job->id, write->signals[i], err);
    if (code == ERR_OK)
        code = sqlite_write_steps(txn, write, err);
    if (code == ERR_OK && write->redact)
        code = redact_job(txn, job, err);
    return code;
}

/* ---- all that is not a job ---- */

enum error_code sqlite_put_request(struct sqlite_txn *txn, const struct request_record *record,
                                   struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_REQUEST_PUT, NULL, err);
    lite_put_text(&query, record->scope);
    lite_put_text(&query, record->key);
    lite_put_int(&query, record->at);
    lite_put_blob(&query, record->body_hash, sizeof record->body_hash);
    lite_put_blob(&query, record->answer.at, record->answer.len);
    return lite_run(&query);
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
        code = sqlite_put_request(txn, &write->requests[i], err);
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

/* ---- purging ---- */

static enum error_code purge_job(struct sqlite_txn *txn, const struct uuid *job, struct err *err)
{
    static const enum statement statements[] = {
        STATEMENT_CLAIMS_DELETE,    STATEMENT_EFFECTS_DELETE, STATEMENT_SIGNALS_DELETE,
        STATEMENT_TELEMETRY_DELETE, STATEMENT_EVENTS_DELETE,  STATEMENT_JOB_DELETE,
    };
    bool found = false;
    int changes = 0;
    struct query query = lite_query(txn->connection, STATEMENT_JOB_PURGED, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_int(&query, txn->now);
    enum error_code code = lite_run_counted(&query, &changes);
    if (code != ERR_OK || changes == 0)
        return code;
    code = sqlite_delete_steps(txn, job, err);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && code == ERR_OK; i++)
        code = run_on_job(txn, statements[i], job, &found, err);
    return code;
}

static enum error_code purge(struct sqlite_txn *txn, const struct store_write *write,
                             struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->purged_count && code == ERR_OK; i++) {
        code = purge_job(txn, &write->purged[i], err);
        arena_clear(&txn->scratch);
    }
    if (code != ERR_OK || write->purged_count == 0)
        return code;
    /* The newest events may be among what went: their positions are not given out again. */
    struct query query = lite_query(txn->connection, STATEMENT_FEED_END_KEEP, NULL, err);
    lite_put_int(&query, txn->feed_end);
    return lite_run(&query);
}

/* ---- all of it ---- */

/* What is erased must be gone from the log too. */
static bool redacts(const struct store_write *write)
{
    for (uint32_t i = 0; i < write->job_count; i++)
        if (write->jobs[i].redact)
            return true;
    return false;
}

enum error_code sqlite_write(struct store_txn *base, const struct store_write *write,
                             struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin_ahead(txn, err);
    bool staged = false;
    if (code == ERR_OK && !txn->through && txn->reader == NULL)
        code = sqlite_stage_write(txn, write, &staged, err);
    if (code != ERR_OK || staged)
        return sqlite_verb_end(txn, code);
    code = sqlite_verb_begin(txn, err);
    txn->redacting = redacts(write);
    for (uint32_t i = 0; i < write->job_count && code == ERR_OK; i++) {
        code = sqlite_write_job(txn, &write->jobs[i], err);
        sqlite_note_newest(txn->store, &write->jobs[i].after->job.id);
        arena_clear(&txn->scratch);
    }
    if (code == ERR_OK)
        code = write_others(txn, write, err);
    if (code == ERR_OK)
        code = purge(txn, write, err);
    return sqlite_verb_end(txn, code);
}
