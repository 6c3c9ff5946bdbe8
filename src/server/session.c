#include "server/session.h"

#include <stdio.h>
#include <strings.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/json.h"
#include "server/request.h"
#include "server/respond.h"
#include "server/server_private.h"

enum { PROOF_LEN = 2 * HASH_LEN, COOKIE_BYTES_MAX = 2 * SESSION_TOKEN_MAX + 128 };

/* Whether the browser speaks TLS, with us or with a proxy before us. Who lies about it changes only
 * their own cookie. */
static bool is_secure(const struct connection *connection)
{
    static const struct str https = STR_INIT("https");
    struct str proto = request_header(connection, HEADER_X_FORWARDED_PROTO);
    return connection->pair != NULL ||
           (proto.len >= https.len && strncasecmp(proto.at, https.at, https.len) == 0);
}

/* Over TLS the name has a prefix that browsers take from this host alone, and over TLS alone. */
static const char *cookie_name(const struct connection *connection)
{
    return is_secure(connection) ? "__Host-pawl_session" : "pawl_session";
}

struct str session_token(struct connection *connection)
{
    static const struct str none = {NULL, 0};
    struct str value = str_from(
        MHD_lookup_connection_value(connection->http, MHD_COOKIE_KIND, cookie_name(connection)));
    size_t len = value.len / 2;
    if (len == 0 || len > SESSION_TOKEN_MAX || value.len % 2 != 0)
        return none;
    char *token = arena_alloc(&connection->arena, len);
    for (size_t i = 0; i < len && token != NULL; i++) {
        int high = hex_value(value.at[2 * i]);
        int low = hex_value(value.at[2 * i + 1]);
        if (high < 0 || low < 0)
            return none;
        token[i] = (char)(high << 4 | low);
    }
    return token == NULL ? none : (struct str){token, len};
}

static void write_proof(struct str token, struct buf *ret)
{
    const struct str parts[] = {STR_INIT("pawl csrf "), token};
    uint8_t hash[HASH_LEN];
    hash_sha256(parts, sizeof parts / sizeof parts[0], hash);
    buf_add_hex(ret, hash, sizeof hash);
}

bool session_has_proof(const struct connection *connection, struct str token)
{
    char text[PROOF_LEN];
    struct buf proof = {.at = text, .cap = sizeof text};
    struct str given = request_header(connection, HEADER_X_PAWL_CSRF);
    write_proof(token, &proof);
    return given.len == proof.len &&
           hash_eq((const uint8_t *)given.at, (const uint8_t *)proof.at, proof.len);
}

/* ---- answers ---- */

static void put_scopes(struct json_writer *writer, uint32_t scopes)
{
    json_key(writer, STR("scopes"));
    json_begin_array(writer);
    for (uint32_t scope = ACCESS_READ; scope <= ACCESS_ANSWER; scope <<= 1)
        if ((scopes & scope) != 0)
            json_put_string(writer, access_scope_name((enum access_scope)scope));
    json_end_array(writer);
}

static void put_queues(struct json_writer *writer, const struct names *queues)
{
    json_begin_array(writer);
    for (uint32_t i = 0; i < queues->count; i++)
        json_put_string(writer, queues->at[i]);
    json_end_array(writer);
}

static void put_text(struct json_writer *writer, struct str key, struct str text)
{
    json_key(writer, key);
    if (str_is_set(text))
        json_put_string(writer, text);
    else
        json_put_null(writer);
}

/* Who is signed in, and what they may do. */
static void write_session(const struct connection *connection, struct buf *body)
{
    static const struct str prefix = STR_INIT(ACCESS_ACTOR_PREFIX);
    const struct auth *auth = &connection->auth;
    struct str token = auth->open ? (struct str){NULL, 0} : auth->token;
    char proof_text[PROOF_LEN];
    struct buf proof = {.at = proof_text, .cap = sizeof proof_text};
    struct json_writer writer;
    if (str_is_set(token))
        write_proof(token, &proof);
    json_writer_init(&writer, body);
    json_begin_object(&writer);
    json_key(&writer, STR("auth"));
    json_put_bool(&writer,
                  connection->asked.stranger || !authority_is_open(connection->server->authority));
    json_key(&writer, STR("signed_in"));
    json_put_bool(&writer, auth->scopes != 0);
    put_text(&writer, STR("name"),
             str_is_set(token)
                 ? (struct str){auth->actor.at + prefix.len, auth->actor.len - prefix.len}
                 : token);
    put_scopes(&writer, auth->scopes);
    json_key(&writer, STR("queues"));
    if (auth->queues != NULL)
        put_queues(&writer, auth->queues);
    else
        json_put_null(&writer);
    put_text(&writer, STR("csrf"), str_is_set(token) ? buf_str(&proof) : token);
    json_end_object(&writer);
}

/* A cookie that has the token, or, absent, takes it away. */
static void write_cookie(const struct connection *connection, struct str token, struct buf *ret)
{
    buf_addf(ret, "%s=", cookie_name(connection));
    if (str_is_set(token))
        buf_add_hex(ret, (const uint8_t *)token.at, token.len);
    buf_addf(ret, "; Path=/; HttpOnly; SameSite=Strict; Max-Age=%d%s",
             str_is_set(token) ? SESSION_S : 0, is_secure(connection) ? "; Secure" : "");
    buf_add_char(ret, '\0');
}

static enum MHD_Result answer_with(struct connection *connection, unsigned status, struct str body,
                                   const char *cookie)
{
    struct MHD_Response *response = respond_make(body);
    if (response != NULL && cookie != NULL)
        (void)MHD_add_response_header(response, "Set-Cookie", cookie);
    return respond_queue(connection, status, status == 204 ? NULL : "application/json", response);
}

enum MHD_Result session_answer(struct connection *connection)
{
    enum route_page page = connection->match.route->page;
    struct buf body;
    struct buf cookie;
    buf_init(&body, &connection->arena, 512);
    buf_init(&cookie, &connection->arena, COOKIE_BYTES_MAX);
    struct str token = page == PAGE_SIGN_IN ? connection->auth.token : (struct str){NULL, 0};
    if (token.len > SESSION_TOKEN_MAX) {
        connection->code = err_set(&connection->err, ERR_BAD_REQUEST,
                                   "the token has %zu bytes; a cookie holds at most %d", token.len,
                                   SESSION_TOKEN_MAX);
        return respond_error(connection, false);
    }
    if (page == PAGE_SIGN_OUT || str_is_set(token))
        write_cookie(connection, token, &cookie);
    if (page != PAGE_SIGN_OUT)
        write_session(connection, &body);
    if (body.failed || cookie.failed) {
        connection->code = err_set(&connection->err, ERR_NO_MEMORY, "out of memory");
        return respond_error(connection, false);
    }
    return answer_with(connection, page == PAGE_SIGN_OUT ? 204 : 200, buf_str(&body),
                       cookie.len > 0 ? cookie.at : NULL);
}
