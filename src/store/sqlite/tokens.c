/* Access tokens. */
#include "store/sqlite/sqlite.h"

enum error_code sqlite_put_token(struct sqlite_txn *txn, const struct access_token *token,
                                 struct err *err)
{
    struct buf scopes;
    struct buf queues;
    buf_init(&scopes, &txn->scratch, 32);
    buf_init(&queues, &txn->scratch, 256);
    access_scopes_write(token->scopes, &scopes);
    access_queues_write(&token->queues, &queues);
    if (scopes.failed || queues.failed)
        return sqlite_no_memory(err);
    struct query query = lite_query(txn->connection, STATEMENT_TOKEN_PUT, NULL, err);
    lite_put_uuid(&query, &token->id);
    lite_put_blob(&query, token->hash, sizeof token->hash);
    lite_put_text(&query, token->name);
    lite_put_text(&query, buf_str(&scopes));
    lite_put_text(&query, buf_str(&queues));
    lite_put_int(&query, token->created_at);
    lite_put_int(&query, token->expires_at);
    lite_put_int(&query, token->revoked_at);
    return lite_run(&query);
}

enum error_code sqlite_drop_token(struct sqlite_txn *txn, const struct uuid *id, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TOKEN_DELETE, NULL, err);
    lite_put_uuid(&query, id);
    return lite_run(&query);
}

static void read_token(struct query *query, struct access_token *ret)
{
    *ret = (struct access_token){.id = lite_read_uuid(query)};
    lite_read_blob(query, ret->hash, sizeof ret->hash);
    ret->name = lite_read_text(query);
    struct str scopes = lite_read_text(query);
    struct str queues = lite_read_text(query);
    ret->created_at = lite_read_int(query);
    ret->expires_at = lite_read_int(query);
    ret->revoked_at = lite_read_int(query);
    if (query->out_of_memory || query->code != ERR_OK)
        return;
    query->code = access_scopes_read(scopes, &ret->scopes, query->err);
    if (query->code == ERR_OK)
        query->code = access_queues_read(queues, query->arena, &ret->queues, query->err);
}

enum error_code sqlite_tokens(struct store_txn *base, struct store_tokens *tokens,
                              struct arena *arena, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    uint32_t cap = 0;
    tokens->at = NULL;
    tokens->count = 0;
    tokens->now = txn->now;
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection,
                                    tokens->hash != NULL ? STATEMENT_TOKEN_BY_HASH
                                    : tokens->id != NULL ? STATEMENT_TOKEN_BY_ID
                                                         : STATEMENT_TOKENS,
                                    arena, err);
    if (tokens->hash != NULL)
        lite_put_blob(&query, tokens->hash, HASH_LEN);
    else if (tokens->id != NULL)
        lite_put_uuid(&query, tokens->id);
    else
        lite_put_int(&query, STORE_TOKENS_MAX);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&tokens->at, tokens->count, &cap, sizeof *tokens->at)) {
            query.out_of_memory = true;
            break;
        }
        read_token(&query, &tokens->at[tokens->count++]);
    }
    return sqlite_verb_end(txn, lite_end(&query));
}
