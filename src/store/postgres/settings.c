/* What a batch writes besides jobs: records of requests, resources, settings of kinds and queues,
 * access tokens. */
#include "core/job_state.h"
#include "store/postgres/postgres.h"

/* Names are locked, so that it is known when there is none: see places.c for why that matters. */
#define INSERT_REQUESTS                                                                            \
    "INSERT INTO pawl.requests (id, at, scope, key, body_hash, answer)"                            \
    " SELECT * FROM unnest($1::bytea[], $2::int8[], $3::text[], $4::text[], $5::bytea[],"          \
    " $6::bytea[])"

static const char *const insert_requests[] = {
    INSERT_REQUESTS,
    INSERT_REQUESTS " ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at,"
                    " body_hash = EXCLUDED.body_hash, answer = EXCLUDED.answer",
};

static enum error_code write_requests(struct postgres_txn *txn, const struct store_write *write,
                                      struct err *err)
{
    static const enum param_type types[] = {PARAM_BYTEA, PARAM_INT8,  PARAM_TEXT,
                                            PARAM_TEXT,  PARAM_BYTEA, PARAM_BYTEA};
    enum { COLUMNS = sizeof types / sizeof types[0] };
    struct array columns[COLUMNS];
    struct params params;
    if (write->request_count == 0)
        return ERR_OK;
    for (int i = 0; i < COLUMNS; i++)
        array_init(&columns[i], &txn->scratch, types[i], write->request_count);
    for (uint32_t i = 0; i < write->request_count; i++) {
        const struct request_record *record = &write->requests[i];
        uint8_t id[HASH_LEN];
        request_id(record->scope, record->key, id);
        array_add_bytes(&columns[0], id, sizeof id);
        array_add_int8(&columns[1], record->at);
        array_add_str(&columns[2], record->scope);
        array_add_str(&columns[3], record->key);
        array_add_bytes(&columns[4], record->body_hash, sizeof record->body_hash);
        array_add_str(&columns[5], record->answer);
    }
    params_init(&params, &txn->scratch);
    for (int i = 0; i < COLUMNS; i++)
        params_add_array(&params, &columns[i]);
    bool may_be_there = txn->has_requests || txn_is_careful(txn);
    return connection_send_quiet(txn->connection, insert_requests[may_be_there], &params, err);
}

/* ---- resources ---- */

/* Sorted, so that two batches that bring the same new ones cannot wait for each other. */
static const char upsert_resources[] =
    "INSERT INTO pawl.resources (id, expires_at, state)"
    " SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::json[]) AS u (id, expires_at, state)"
    " ORDER BY id COLLATE \"C\""
    " ON CONFLICT (id) DO UPDATE SET expires_at = EXCLUDED.expires_at, state = EXCLUDED.state";

static enum error_code write_resources(struct postgres_txn *txn, const struct store_write *write,
                                       struct err *err)
{
    struct array ids;
    struct array ends;
    struct array states;
    struct params params;
    if (write->resource_count == 0)
        return ERR_OK;
    array_init(&ids, &txn->scratch, PARAM_TEXT, write->resource_count);
    array_init(&ends, &txn->scratch, PARAM_TIME, write->resource_count);
    array_init(&states, &txn->scratch, PARAM_JSON, write->resource_count);
    for (uint32_t i = 0; i < write->resource_count; i++) {
        struct buf state;
        buf_init(&state, &txn->scratch, 256);
        resource_state_write(&write->resources[i], &state);
        if (state.failed)
            return out_of_memory(err);
        array_add_str(&ids, write->resources[i].id);
        array_add_time(&ends, write->resources[i].expires_at);
        array_add_str(&states, buf_str(&state));
        enum error_code code =
            txn_note(txn, &txn->puts, LINE_RESOURCES,
                     (struct mark_place){.at = write->resources[i].expires_at, .step = -1}, err);
        if (code != ERR_OK)
            return code;
    }
    params_init(&params, &txn->scratch);
    params_add_array(&params, &ids);
    params_add_array(&params, &ends);
    params_add_array(&params, &states);
    return connection_send_quiet(txn->connection, upsert_resources, &params, err);
}

/* Names and what is to be set for each. */
static enum error_code send_settings(struct postgres_txn *txn, const char *sql, struct array *names,
                                     struct array *settings, struct err *err)
{
    struct params params;
    if (names->count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    params_add_array(&params, names);
    params_add_array(&params, settings);
    return connection_send_quiet(txn->connection, sql, &params, err);
}

/* A list of names as the one parameter of a statement. */
static enum error_code send_names(struct postgres_txn *txn, const char *sql, struct array *names,
                                  struct err *err)
{
    struct params params;
    if (names->count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    params_add_array(&params, names);
    return connection_send_quiet(txn->connection, sql, &params, err);
}

static enum error_code write_resources_gone(struct postgres_txn *txn,
                                            const struct store_write *write, struct err *err)
{
    struct array ids;
    array_init(&ids, &txn->scratch, PARAM_TEXT, write->resource_gone_count);
    for (uint32_t i = 0; i < write->resource_gone_count; i++)
        array_add_str(&ids, write->resources_gone[i]);
    return send_names(txn, "DELETE FROM pawl.resources WHERE id = ANY ($1)", &ids, err);
}

/* ---- workers ---- */

static const char upsert_registrations[] =
    "INSERT INTO pawl.workers (id, expires_at, state)"
    " SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::json[]) AS u (id, expires_at, state)"
    " ORDER BY id COLLATE \"C\""
    " ON CONFLICT (id) DO UPDATE SET expires_at = EXCLUDED.expires_at, state = EXCLUDED.state";

static enum error_code write_registrations(struct postgres_txn *txn,
                                           const struct store_write *write, struct err *err)
{
    struct array ids;
    struct array ends;
    struct array states;
    struct params params;
    if (write->registration_count == 0)
        return ERR_OK;
    array_init(&ids, &txn->scratch, PARAM_TEXT, write->registration_count);
    array_init(&ends, &txn->scratch, PARAM_TIME, write->registration_count);
    array_init(&states, &txn->scratch, PARAM_JSON, write->registration_count);
    for (uint32_t i = 0; i < write->registration_count; i++) {
        struct buf state;
        buf_init(&state, &txn->scratch, 256);
        worker_state_write(&write->registrations[i], &state);
        if (state.failed)
            return out_of_memory(err);
        array_add_str(&ids, write->registrations[i].id);
        array_add_time(&ends, write->registrations[i].expires_at);
        array_add_str(&states, buf_str(&state));
    }
    params_init(&params, &txn->scratch);
    params_add_array(&params, &ids);
    params_add_array(&params, &ends);
    params_add_array(&params, &states);
    return connection_send_quiet(txn->connection, upsert_registrations, &params, err);
}

/* Nobody has locked them; whoever is busy with one has renewed it, or is about to. */
static const char renew_registrations[] =
    "WITH renewed AS MATERIALIZED (SELECT w.id, u.expires_at"
    " FROM unnest($1::text[], $2::timestamptz[]) AS u (id, expires_at)"
    " JOIN pawl.workers w ON w.id = u.id WHERE w.expires_at < u.expires_at"
    " FOR UPDATE OF w SKIP LOCKED)"
    " UPDATE pawl.workers w SET expires_at = r.expires_at FROM renewed r WHERE w.id = r.id";

static enum error_code write_renewals(struct postgres_txn *txn, const struct store_write *write,
                                      struct err *err)
{
    struct array ids;
    struct array ends;
    array_init(&ids, &txn->scratch, PARAM_TEXT, write->renewal_count);
    array_init(&ends, &txn->scratch, PARAM_TIME, write->renewal_count);
    for (uint32_t i = 0; i < write->renewal_count; i++) {
        array_add_str(&ids, write->renewals[i].id);
        array_add_time(&ends, write->renewals[i].expires_at);
    }
    return send_settings(txn, renew_registrations, &ids, &ends, err);
}

static enum error_code write_registrations_gone(struct postgres_txn *txn,
                                                const struct store_write *write, struct err *err)
{
    struct array ids;
    array_init(&ids, &txn->scratch, PARAM_TEXT, write->registration_gone_count);
    for (uint32_t i = 0; i < write->registration_gone_count; i++)
        array_add_str(&ids, write->registrations_gone[i]);
    return send_names(txn, "DELETE FROM pawl.workers WHERE id = ANY ($1)", &ids, err);
}

/* ---- kinds and queues ----
 *
 * Nobody has locked them. What is to go is put in with the others first, so that all rows are
 * locked in the order of their names, whatever a batch does with each: two batches that set the
 * same ones cannot wait for each other. */

static const char upsert_kinds[] =
    "INSERT INTO pawl.kinds (kind, settings) SELECT kind, coalesce(settings, '{}')"
    " FROM unnest($1::text[], $2::json[]) AS u (kind, settings) ORDER BY kind COLLATE \"C\""
    " ON CONFLICT (kind) DO UPDATE SET settings = EXCLUDED.settings";

static const char upsert_queues[] =
    "INSERT INTO pawl.queues (queue, paused) SELECT queue, paused"
    " FROM unnest($1::text[], $2::bool[]) AS u (queue, paused) ORDER BY queue COLLATE \"C\""
    " ON CONFLICT (queue) DO UPDATE SET paused = EXCLUDED.paused";

static bool nothing_set(const struct kind_settings *settings)
{
    static const struct kind_settings nothing;
    return kind_settings_same(settings, &nothing);
}

static enum error_code write_kinds(struct postgres_txn *txn, const struct store_write *write,
                                   struct err *err)
{
    struct array kinds;
    struct array settings;
    struct array gone;
    array_init(&kinds, &txn->scratch, PARAM_TEXT, write->kind_count);
    array_init(&settings, &txn->scratch, PARAM_JSON, write->kind_count);
    array_init(&gone, &txn->scratch, PARAM_TEXT, write->kind_count);
    for (uint32_t i = 0; i < write->kind_count; i++) {
        struct buf text;
        array_add_str(&kinds, write->kinds[i].kind);
        if (nothing_set(&write->kinds[i].settings)) {
            array_add_str(&gone, write->kinds[i].kind);
            array_add_null(&settings);
            continue;
        }
        buf_init(&text, &txn->scratch, 256);
        kind_settings_write(&write->kinds[i].settings, &text);
        if (text.failed)
            return out_of_memory(err);
        array_add_str(&settings, buf_str(&text));
    }
    enum error_code code = send_settings(txn, upsert_kinds, &kinds, &settings, err);
    return code != ERR_OK
               ? code
               : send_names(txn, "DELETE FROM pawl.kinds WHERE kind = ANY ($1)", &gone, err);
}

static enum error_code write_queues(struct postgres_txn *txn, const struct store_write *write,
                                    struct err *err)
{
    struct array queues;
    struct array paused;
    struct array resumed;
    array_init(&queues, &txn->scratch, PARAM_TEXT, write->queue_count);
    array_init(&paused, &txn->scratch, PARAM_BOOL, write->queue_count);
    array_init(&resumed, &txn->scratch, PARAM_TEXT, write->queue_count);
    for (uint32_t i = 0; i < write->queue_count; i++) {
        array_add_str(&queues, write->queues[i].queue);
        array_add_bool(&paused, write->queues[i].paused);
        if (!write->queues[i].paused)
            array_add_str(&resumed, write->queues[i].queue);
    }
    enum error_code code = send_settings(txn, upsert_queues, &queues, &paused, err);
    return code != ERR_OK
               ? code
               : send_names(txn, "DELETE FROM pawl.queues WHERE queue = ANY ($1)", &resumed, err);
}

enum error_code write_settings(struct postgres_txn *txn, const struct store_write *write,
                               struct err *err)
{
    enum error_code code = write_requests(txn, write, err);
    if (code == ERR_OK)
        code = write_resources(txn, write, err);
    if (code == ERR_OK)
        code = write_resources_gone(txn, write, err);
    if (code == ERR_OK)
        code = write_registrations(txn, write, err);
    if (code == ERR_OK)
        code = write_renewals(txn, write, err);
    if (code == ERR_OK)
        code = write_registrations_gone(txn, write, err);
    if (code == ERR_OK)
        code = write_kinds(txn, write, err);
    if (code == ERR_OK)
        code = write_queues(txn, write, err);
    if (code == ERR_OK)
        code = write_tokens(txn, write, err);
    return code;
}
