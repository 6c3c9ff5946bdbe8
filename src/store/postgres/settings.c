/* What a batch writes besides jobs: records of requests, resources, settings of kinds and queues,
 * access tokens. */
#include "core/job_state.h"
#include "store/postgres/postgres.h"

/* Names are locked, so that an absent one is known to be absent: see places.c for why that matters.
 */
#define REQUEST_FIELDS(F, X)                                                                       \
    F(1, id, bytea, bytes, id, sizeof id)                                                          \
    X(2, at, int8, int8, record->at)                                                               \
    X(3, scope, text, str, record->scope)                                                          \
    X(4, key, text, str, record->key)                                                              \
    X(5, body_hash, bytea, bytes, record->body_hash, sizeof record->body_hash)                     \
    X(6, answer, bytea, str, record->answer)
#define INSERT_REQUESTS INSERT_FIELDS("requests", REQUEST_FIELDS)

static const char *const insert_requests[] = {
    INSERT_REQUESTS,
    INSERT_REQUESTS " ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at,"
                    " body_hash = EXCLUDED.body_hash, answer = EXCLUDED.answer",
};

static enum error_code write_requests(struct postgres_txn *txn, const struct store_write *write,
                                      struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, REQUEST_FIELDS);
    for (uint32_t i = 0; i < write->request_count; i++) {
        const struct request_record *record = &write->requests[i];
        uint8_t id[HASH_LEN];
        request_id(record->scope, record->key, id);
        COLUMNS_ADD(&columns, REQUEST_FIELDS);
    }
    bool may_be_there = txn->has_requests || txn_is_careful(txn);
    return send_columns(txn, insert_requests[may_be_there], &columns, err);
}

/* A list of names as the one parameter of a statement. */
#define NAME_FIELDS(F, X) F(1, name, text, str, *name)

static enum error_code send_names(struct postgres_txn *txn, const char *sql,
                                  const struct str *names, uint32_t count, struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, NAME_FIELDS);
    for (const struct str *name = names; name < names + count; name++)
        COLUMNS_ADD(&columns, NAME_FIELDS);
    return send_columns(txn, sql, &columns, err);
}

/* ---- resources and workers ---- */

#define END_FIELDS(F, X)                                                                           \
    F(1, id, text, str, id)                                                                        \
    X(2, expires_at, timestamptz, time, expires_at)
#define STATE_FIELDS(F, X)                                                                         \
    END_FIELDS(F, X)                                                                               \
    X(3, state, json, str, buf_str(&state))

/* Sorted, so that two batches that bring the same new ones cannot wait for each other. */
#define UPSERT_STATES(table)                                                                       \
    INSERT_FIELDS(table, STATE_FIELDS)                                                             \
    " ORDER BY id COLLATE \"C\""                                                                   \
    " ON CONFLICT (id) DO UPDATE SET expires_at = EXCLUDED.expires_at, state = EXCLUDED.state"

static enum error_code write_resources(struct postgres_txn *txn, const struct store_write *write,
                                       struct err *err)
{
    struct columns columns;
    enum error_code code = ERR_OK;
    COLUMNS_INIT(&columns, &txn->scratch, STATE_FIELDS);
    for (uint32_t i = 0; i < write->resource_count && code == ERR_OK; i++) {
        struct str id = write->resources[i].id;
        int64_t expires_at = write->resources[i].expires_at;
        struct buf state;
        buf_init(&state, &txn->scratch, 256);
        resource_state_write(&write->resources[i], &state);
        if (state.failed)
            return out_of_memory(err);
        COLUMNS_ADD(&columns, STATE_FIELDS);
        code = txn_note(txn, &txn->puts, LINE_RESOURCES,
                        (struct mark_place){.at = expires_at, .step = -1}, err);
    }
    return code == ERR_OK ? send_columns(txn, UPSERT_STATES("resources"), &columns, err) : code;
}

static enum error_code write_registrations(struct postgres_txn *txn,
                                           const struct store_write *write, struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, STATE_FIELDS);
    for (uint32_t i = 0; i < write->registration_count; i++) {
        struct str id = write->registrations[i].id;
        int64_t expires_at = write->registrations[i].expires_at;
        struct buf state;
        buf_init(&state, &txn->scratch, 256);
        worker_state_write(&write->registrations[i], &state);
        if (state.failed)
            return out_of_memory(err);
        COLUMNS_ADD(&columns, STATE_FIELDS);
    }
    return send_columns(txn, UPSERT_STATES("workers"), &columns, err);
}

/* Nobody has locked them; a worker that uses one has renewed it, or is about to. */
static const char renew_registrations[] =
    "WITH renewed AS MATERIALIZED (SELECT w.id, u.expires_at FROM " FIELD_ROWS(
        END_FIELDS) " JOIN pawl.workers w ON w.id = u.id WHERE w.expires_at < u.expires_at"
                    " FOR UPDATE OF w SKIP LOCKED)"
                    " UPDATE pawl.workers w SET expires_at = r.expires_at FROM renewed r WHERE "
                    "w.id = r.id";

static enum error_code write_renewals(struct postgres_txn *txn, const struct store_write *write,
                                      struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, END_FIELDS);
    for (uint32_t i = 0; i < write->renewal_count; i++) {
        struct str id = write->renewals[i].id;
        int64_t expires_at = write->renewals[i].expires_at;
        COLUMNS_ADD(&columns, END_FIELDS);
    }
    return send_columns(txn, renew_registrations, &columns, err);
}

/* ---- kinds and queues ----
 *
 * Nobody has locked them. What is to go is put in with the others first, so that all rows are
 * locked in the order of their names, whatever a batch does with each: two batches that set the
 * same ones cannot wait for each other. */

#define KIND_FIELDS(F, X)                                                                          \
    F(1, kind, text, str, write->kinds[i].kind)                                                    \
    X(2, settings, json, str, is_gone ? STR("{}") : buf_str(&settings))
#define QUEUE_FIELDS(F, X)                                                                         \
    F(1, queue, text, str, write->queues[i].queue)                                                 \
    X(2, paused, bool, bool, write->queues[i].paused)

static const char upsert_kinds[] = INSERT_FIELDS(
    "kinds", KIND_FIELDS) " ORDER BY kind COLLATE \"C\""
                          " ON CONFLICT (kind) DO UPDATE SET settings = EXCLUDED.settings";

static const char upsert_queues[] = INSERT_FIELDS(
    "queues", QUEUE_FIELDS) " ORDER BY queue COLLATE \"C\""
                            " ON CONFLICT (queue) DO UPDATE SET paused = EXCLUDED.paused";

static bool nothing_set(const struct kind_settings *settings)
{
    static const struct kind_settings nothing;
    return kind_settings_same(settings, &nothing);
}

static enum error_code write_kinds(struct postgres_txn *txn, const struct store_write *write,
                                   struct err *err)
{
    struct columns columns;
    struct str *gone = arena_alloc(&txn->scratch, (write->kind_count + (size_t)1) * sizeof *gone);
    uint32_t gone_count = 0;
    COLUMNS_INIT(&columns, &txn->scratch, KIND_FIELDS);
    if (gone == NULL)
        return out_of_memory(err);
    for (uint32_t i = 0; i < write->kind_count; i++) {
        bool is_gone = nothing_set(&write->kinds[i].settings);
        struct buf settings;
        buf_init(&settings, &txn->scratch, 256);
        kind_settings_write(&write->kinds[i].settings, &settings);
        if (settings.failed)
            return out_of_memory(err);
        COLUMNS_ADD(&columns, KIND_FIELDS);
        if (is_gone)
            gone[gone_count++] = write->kinds[i].kind;
    }
    enum error_code code = send_columns(txn, upsert_kinds, &columns, err);
    return code == ERR_OK ? send_names(txn, "DELETE FROM pawl.kinds WHERE kind = ANY ($1)", gone,
                                       gone_count, err)
                          : code;
}

static enum error_code write_queues(struct postgres_txn *txn, const struct store_write *write,
                                    struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, QUEUE_FIELDS);
    for (uint32_t i = 0; i < write->queue_count; i++)
        COLUMNS_ADD(&columns, QUEUE_FIELDS);
    enum error_code code = send_columns(txn, upsert_queues, &columns, err);
    return code == ERR_OK
               ? send_columns(txn,
                              "DELETE FROM pawl.queues q USING " FIELD_ROWS(
                                  QUEUE_FIELDS) " WHERE q.queue = u.queue AND NOT u.paused",
                              &columns, err)
               : code;
}

enum error_code write_settings(struct postgres_txn *txn, const struct store_write *write,
                               struct err *err)
{
    enum error_code code = write_requests(txn, write, err);
    if (code == ERR_OK)
        code = write_resources(txn, write, err);
    if (code == ERR_OK)
        code = send_names(txn, "DELETE FROM pawl.resources WHERE id = ANY ($1)",
                          write->resources_gone, write->resource_gone_count, err);
    if (code == ERR_OK)
        code = write_registrations(txn, write, err);
    if (code == ERR_OK)
        code = write_renewals(txn, write, err);
    if (code == ERR_OK)
        code = send_names(txn, "DELETE FROM pawl.workers WHERE id = ANY ($1)",
                          write->registrations_gone, write->registration_gone_count, err);
    if (code == ERR_OK)
        code = write_kinds(txn, write, err);
    if (code == ERR_OK)
        code = write_queues(txn, write, err);
    if (code == ERR_OK)
        code = write_tokens(txn, write, err);
    return code;
}
