/* Access tokens. */
#include "store/memory/memory.h"

static void token_pack(const struct access_token *token, struct memory_txn *txn, struct buf *value)
{
    struct buf queues = memory_buf(txn);
    access_queues_write(&token->queues, &queues);
    value->failed = value->failed || queues.failed;
    value_bytes(value, token->id.bytes, sizeof token->id.bytes);
    value_bytes(value, token->hash, sizeof token->hash);
    value_text(value, token->name);
    value_int(value, token->scopes);
    value_text(value, buf_str(&queues));
    value_int(value, token->created_at);
    value_int(value, token->expires_at);
    value_int(value, token->revoked_at);
}

/* Views of `value` are kept. */
static enum error_code token_unpack(struct str value, struct arena *arena, struct access_token *ret,
                                    struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct access_token){0};
    read_bytes(&reader, ret->id.bytes, sizeof ret->id.bytes);
    read_bytes(&reader, ret->hash, sizeof ret->hash);
    ret->name = read_text(&reader);
    ret->scopes = (uint32_t)read_int(&reader);
    struct str queues = read_text(&reader);
    ret->created_at = read_int(&reader);
    ret->expires_at = read_int(&reader);
    ret->revoked_at = read_int(&reader);
    if (reader.bad || reader.at != reader.end)
        return err_set(err, ERR_CORRUPT, "a token in memory is damaged");
    return access_queues_read(queues, arena, &ret->queues, err);
}

static struct buf bytes_key(struct memory_txn *txn, const uint8_t *bytes, size_t len)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, (struct str){(const char *)bytes, len});
    return key;
}

enum error_code memory_put_token(struct memory_txn *txn, const struct access_token *token,
                                 struct err *err)
{
    struct buf key = bytes_key(txn, token->id.bytes, sizeof token->id.bytes);
    struct buf hash = bytes_key(txn, token->hash, sizeof token->hash);
    struct buf value = memory_buf(txn);
    struct access_token put = *token;
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_TOKENS, &key, &entry);
    if (code == ERR_OK && entry != NULL) {
        code = token_unpack(entry_value(entry), &txn->scratch, &put, err);
        if (put.revoked_at == 0)
            put.revoked_at = token->revoked_at;
        hash = bytes_key(txn, put.hash, sizeof put.hash);
    }
    if (code != ERR_OK)
        return code;
    token_pack(&put, txn, &value);
    code = memory_put(txn, TABLE_TOKENS, &key, &value);
    return code == ERR_OK ? memory_put(txn, TABLE_TOKEN_HASHES, &hash, &key) : code;
}

enum error_code memory_drop_token(struct memory_txn *txn, struct uuid id, struct err *err)
{
    struct buf key = bytes_key(txn, id.bytes, sizeof id.bytes);
    struct access_token token;
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_TOKENS, &key, &entry);
    if (code != ERR_OK || entry == NULL)
        return code;
    code = token_unpack(entry_value(entry), &txn->scratch, &token, err);
    if (code != ERR_OK)
        return code;
    struct buf hash = bytes_key(txn, token.hash, sizeof token.hash);
    code = memory_take_buf(txn, TABLE_TOKENS, &key, NULL);
    return code == ERR_OK ? memory_take_buf(txn, TABLE_TOKEN_HASHES, &hash, NULL) : code;
}

/* Adds what is in an entry. */
static enum error_code add_token(const struct entry *entry, struct store_tokens *tokens,
                                 uint32_t *cap, struct arena *arena, struct err *err)
{
    struct str value = arena_copy(arena, entry_value(entry));
    struct access_token *token =
        memory_more(arena, (void **)&tokens->at, tokens->count, cap, sizeof *token);
    if (!str_is_set(value) || token == NULL)
        return ERR_NO_MEMORY;
    enum error_code code = token_unpack(value, arena, token, err);
    tokens->count += code == ERR_OK;
    return code;
}

static enum error_code find_token(struct memory_txn *txn, struct store_tokens *tokens,
                                  struct arena *arena, struct err *err)
{
    struct buf key = memory_buf(txn);
    const struct entry *entry;
    enum error_code code = ERR_OK;
    uint32_t cap = 0;
    if (tokens->hash == NULL) {
        key = bytes_key(txn, tokens->id->bytes, sizeof tokens->id->bytes);
    } else {
        struct buf hash = bytes_key(txn, tokens->hash, HASH_LEN);
        code = memory_get(txn, TABLE_TOKEN_HASHES, &hash, &entry);
        if (code != ERR_OK || entry == NULL)
            return code;
        buf_add(&key, entry_value(entry));
    }
    code = memory_get(txn, TABLE_TOKENS, &key, &entry);
    return code == ERR_OK && entry != NULL ? add_token(entry, tokens, &cap, arena, err) : code;
}

static enum error_code read_tokens(struct memory_txn *txn, struct store_tokens *tokens,
                                   struct arena *arena, struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_TOKENS, STR(""));
    enum error_code code = ERR_OK;
    uint32_t cap = 0;
    const struct entry *entry;
    while (code == ERR_OK && tokens->count < STORE_TOKENS_MAX && (entry = scan_next(&scan)) != NULL)
        code = add_token(entry, tokens, &cap, arena, err);
    return code;
}

enum error_code memory_tokens(struct store_txn *handle, struct store_tokens *tokens,
                              struct arena *arena, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    bool one = tokens->hash != NULL || tokens->id != NULL;
    tokens->at = NULL;
    tokens->count = 0;
    tokens->now = txn->now;
    if (code != ERR_OK)
        return code;
    code = one ? find_token(txn, tokens, arena, err) : read_tokens(txn, tokens, arena, err);
    return memory_verb_end(txn, code, err);
}
