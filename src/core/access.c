#include "core/access.h"

#include <string.h>

#include "base/json.h"
#include "base/record.h"

static const struct str prefix = STR_INIT("pawl_");

static const struct {
    enum access_scope scope;
    struct str name;
} scopes_by_name[] = {
    {ACCESS_READ, STR_INIT("read")},     {ACCESS_SUBMIT, STR_INIT("submit")},
    {ACCESS_WORK, STR_INIT("work")},     {ACCESS_ADMIN, STR_INIT("admin")},
    {ACCESS_ANSWER, STR_INIT("answer")},
};

enum { SCOPES = sizeof scopes_by_name / sizeof scopes_by_name[0] };

bool access_is_live(const struct access_token *token, int64_t now)
{
    return token->revoked_at == 0 && (token->expires_at == 0 || now < token->expires_at);
}

/* When it has ended; only of one that is not live. */
static int64_t ended_at(const struct access_token *token)
{
    bool expired_first = token->expires_at > 0 && token->expires_at < token->revoked_at;
    return token->revoked_at == 0 || expired_first ? token->expires_at : token->revoked_at;
}

uint32_t access_sort_out(const struct access_token *tokens, uint32_t count, int64_t now,
                         struct uuid *ret_gone, uint32_t *ret_gone_count)
{
    uint32_t live = 0;
    uint32_t gone = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (access_is_live(&tokens[i], now))
            live++;
        else if (now - ended_at(&tokens[i]) < ACCESS_KEPT_MS)
            kept++;
    for (uint32_t i = 0; i < count; i++) {
        if (access_is_live(&tokens[i], now))
            continue;
        bool is_old = now - ended_at(&tokens[i]) >= ACCESS_KEPT_MS;
        if (!is_old && kept <= ACCESS_ENDED_MAX)
            continue;
        kept -= is_old ? 0 : 1;
        ret_gone[gone++] = tokens[i].id;
    }
    *ret_gone_count = gone;
    return live;
}

/* ---- who acts ----------------------------------------------------------------------------- */

static const struct str actor_prefix = STR_INIT(ACCESS_ACTOR_PREFIX);

struct str access_actor(struct str name, struct arena *arena)
{
    char *actor = arena_alloc(arena, actor_prefix.len + name.len);
    size_t len = name.len;
    if (actor == NULL)
        return (struct str){NULL, 0};
    if (len > NAME_BYTES_MAX - actor_prefix.len)
        len = NAME_BYTES_MAX - actor_prefix.len;
    /* Not in the middle of a character. */
    while (len > 0 && len < name.len && ((unsigned char)name.at[len] & 0xc0) == 0x80)
        len--;
    memcpy(actor, actor_prefix.at, actor_prefix.len);
    if (len > 0)
        memcpy(actor + actor_prefix.len, name.at, len);
    return (struct str){actor, actor_prefix.len + len};
}

bool access_is_reserved(struct str name)
{
    return name.len >= actor_prefix.len && memcmp(name.at, actor_prefix.at, actor_prefix.len) == 0;
}

/* ---- text --------------------------------------------------------------------------------- */

void access_text(const uint8_t secret[ACCESS_SECRET_LEN], char ret[ACCESS_TEXT_LEN])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    memcpy(ret, prefix.at, prefix.len);
    size_t at = prefix.len;
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < ACCESS_SECRET_LEN; i++) {
        bits = (bits << 8 | secret[i]) & 0xffff;
        for (count += 8; count >= 6; count -= 6)
            ret[at++] = digits[bits >> (count - 6) & 63];
    }
    /* 256 bits are 42 digits and four bits. */
    ret[at] = digits[bits << (6 - count) & 63];
}

bool access_text_is_valid(struct str text)
{
    if (text.len != ACCESS_TEXT_LEN || memcmp(text.at, prefix.at, prefix.len) != 0)
        return false;
    for (size_t i = prefix.len; i < text.len; i++) {
        char c = text.at[i];
        bool digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_';
        if (!digit)
            return false;
    }
    return true;
}

void access_hash(struct str text, uint8_t ret[HASH_LEN])
{
    hash_sha256(&text, 1, ret);
}

/* ---- scopes and queues -------------------------------------------------------------------- */

uint32_t access_scope_parse(struct str name)
{
    for (int i = 0; i < SCOPES; i++)
        if (str_eq(scopes_by_name[i].name, name))
            return scopes_by_name[i].scope;
    return 0;
}

struct str access_scope_name(enum access_scope scope)
{
    for (int i = 0; i < SCOPES; i++)
        if (scopes_by_name[i].scope == scope)
            return scopes_by_name[i].name;
    return STR("none");
}

void access_scopes_write(uint32_t scopes, struct buf *buf)
{
    bool first = true;
    for (int i = 0; i < SCOPES; i++) {
        if ((scopes & scopes_by_name[i].scope) == 0)
            continue;
        buf_add(buf, first ? STR("") : STR(","));
        buf_add(buf, scopes_by_name[i].name);
        first = false;
    }
}

enum error_code access_scopes_read(struct str text, uint32_t *ret, struct err *err)
{
    uint32_t scopes = 0;
    for (size_t at = 0; at <= text.len;) {
        const char *comma = at == text.len ? NULL : memchr(text.at + at, ',', text.len - at);
        size_t end = comma == NULL ? text.len : (size_t)(comma - text.at);
        uint32_t scope = access_scope_parse((struct str){str_start(text) + at, end - at});
        if (scope == 0)
            return err_set(err, ERR_CORRUPT, "a stored token has invalid scopes \"%.*s\"",
                           STR_ARG(text));
        scopes |= scope;
        at = end + 1;
    }
    *ret = scopes;
    return ERR_OK;
}

void access_queues_write(const struct names *queues, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_array(&writer);
    for (uint32_t i = 0; i < queues->count; i++)
        json_put_string(&writer, queues->at[i]);
    json_end_array(&writer);
}

enum error_code access_queues_read(struct str json, struct arena *arena, struct names *ret,
                                   struct err *err)
{
    enum error_code code = names_read(json, ACCESS_QUEUES_MAX, "queues", arena, ret, err);
    if (code == ERR_OK || code == ERR_NO_MEMORY)
        return code;
    return err_set(err, ERR_CORRUPT, "a stored token has invalid queues \"%.*s\"", STR_ARG(json));
}
