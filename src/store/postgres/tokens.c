/* Access tokens. */
#include "store/postgres/postgres.h"

#define TOKEN_COLUMNS                                                                              \
    "t.id, t.hash, t.name, t.scopes, t.queues, t.created_at, t.expires_at, t.revoked_at"

/* The time comes along, with or without tokens. */
#define READ_TOKENS                                                                                \
    "SELECT n.now, " TOKEN_COLUMNS " FROM (SELECT " SQL_NOW                                        \
    " AS now) AS n LEFT JOIN pawl.tokens t ON "

static const char find_token[] = READ_TOKENS "t.hash = $1 OR t.id = $2";
static const char read_tokens[] = READ_TOKENS "true ORDER BY t.id LIMIT $1";

#define TOKEN_FIELDS(F, X)                                                                         \
    F(1, id, uuid, uuid, token->id)                                                                \
    X(2, hash, bytea, bytes, token->hash, sizeof token->hash)                                      \
    X(3, name, text, str, token->name)                                                             \
    X(4, scopes, text, str, buf_str(&scopes))                                                      \
    X(5, queues, json, str, buf_str(&queues))                                                      \
    X(6, created_at, timestamptz, time, token->created_at)                                         \
    X(7, expires_at, timestamptz, time_set, token->expires_at)                                     \
    X(8, revoked_at, timestamptz, time_set, token->revoked_at)

/* Sorted, so that two batches that revoke the same ones cannot wait for each other. */
static const char upsert_tokens[] =
    "INSERT INTO pawl.tokens AS t (" FIELD_NAMES(TOKEN_FIELDS) ") SELECT * FROM " FIELD_ROWS(
        TOKEN_FIELDS) " ORDER BY id"
                      " ON CONFLICT (id) DO UPDATE SET revoked_at = EXCLUDED.revoked_at WHERE "
                      "t.revoked_at IS NULL";

/* In the same order, for the same reason. */
static const char delete_tokens[] =
    "DELETE FROM pawl.tokens WHERE id IN"
    " (SELECT id FROM pawl.tokens WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE)";

static enum error_code drop_tokens(struct postgres_txn *txn, const struct store_write *write,
                                   struct err *err)
{
    struct columns columns;
    columns_init(&columns, &txn->scratch, (const enum param_type[]){PARAM_UUID}, 1);
    for (uint32_t i = 0; i < write->token_gone_count; i++)
        array_add_uuid(&columns.at[0], write->tokens_gone[i]);
    return send_columns(txn, delete_tokens, &columns, err);
}

static void array_add_time_set(struct array *array, int64_t time_ms)
{
    if (time_ms > 0)
        array_add_time(array, time_ms);
    else
        array_add_null(array);
}

enum error_code write_tokens(struct postgres_txn *txn, const struct store_write *write,
                             struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, TOKEN_FIELDS);
    for (uint32_t i = 0; i < write->token_count; i++) {
        const struct access_token *token = &write->tokens[i];
        struct buf scopes;
        struct buf queues;
        buf_init(&scopes, &txn->scratch, 32);
        buf_init(&queues, &txn->scratch, 256);
        access_scopes_write(token->scopes, &scopes);
        access_queues_write(&token->queues, &queues);
        if (scopes.failed || queues.failed)
            return out_of_memory(err);
        COLUMNS_ADD(&columns, TOKEN_FIELDS);
    }
    enum error_code code = send_columns(txn, upsert_tokens, &columns, err);
    return code == ERR_OK ? drop_tokens(txn, write, err) : code;
}

static enum error_code take_token(struct reader *reader, struct access_token *ret, struct err *err)
{
    *ret = (struct access_token){.id = reader_uuid(reader)};
    reader_bytes(reader, ret->hash, sizeof ret->hash);
    ret->name = reader_str(reader);
    struct str scopes = reader_str(reader);
    struct str queues = reader_str(reader);
    ret->created_at = reader_time(reader);
    ret->expires_at = reader_time(reader);
    ret->revoked_at = reader_time(reader);
    enum error_code code = reader_check(reader, "a token", err);
    if (code == ERR_OK)
        code = access_scopes_read(scopes, &ret->scopes, err);
    return code == ERR_OK ? access_queues_read(queues, reader->arena, &ret->queues, err) : code;
}

static void add_wanted(struct params *params, const struct store_tokens *tokens)
{
    if (tokens->hash != NULL) {
        params_add_str(params, PARAM_BYTEA, (struct str){(const char *)tokens->hash, HASH_LEN});
        params_add_null(params, PARAM_UUID);
    } else {
        params_add_null(params, PARAM_BYTEA);
        params_add_uuid(params, *tokens->id);
    }
}

static enum error_code take_tokens(struct postgres_txn *txn, PGresult *result,
                                   struct store_tokens *tokens, struct arena *arena,
                                   struct err *err)
{
    const struct store_options *options = &txn->store->base.options;
    struct reader reader;
    enum error_code code = ERR_OK;
    int rows = PQntuples(result);
    tokens->at = arena_zalloc(arena, (size_t)rows, sizeof *tokens->at);
    if (tokens->at == NULL)
        return out_of_memory(err);
    reader_init(&reader, result, arena);
    for (int i = 0; i < rows && code == ERR_OK; i++) {
        reader_row(&reader, i);
        tokens->now = clock_tell(txn->store, reader_int(&reader));
        if (PQgetisnull(result, i, 1) == 0)
            code = take_token(&reader, &tokens->at[tokens->count++], err);
    }
    if (options->clock != NULL)
        tokens->now = options->clock(options->clock_arg);
    return code;
}

enum error_code postgres_tokens(struct store_txn *handle, struct store_tokens *tokens,
                                struct arena *arena, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    bool one = tokens->hash != NULL || tokens->id != NULL;
    struct params params;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    tokens->count = 0;
    params_init(&params, &txn->scratch);
    if (one)
        add_wanted(&params, tokens);
    else
        params_add_int8(&params, STORE_TOKENS_MAX);
    if (code == ERR_OK)
        code = txn_ask(txn, one ? find_token : read_tokens, &params, &result, err);
    if (code == ERR_OK)
        code = take_tokens(txn, result, tokens, arena, err);
    PQclear(result);
    return txn_end_verb(txn, code);
}
