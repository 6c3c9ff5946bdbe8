/* Access tokens: token_create, token_list, token_revoke. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "engine/answer.h"
#include "engine/page.h"
#include "engine/verb.h"

#define TTL_MS_MAX INT64_C(315360000000) /* ten years */

enum { TTL_MS_MIN = 1000, SCOPES_MAX = 5 };

struct token_request {
    struct str id;
    struct str name;
    struct str scopes;
    struct str queues;
    int64_t ttl_ms;
};

#define FIELD(member, kind) RECORD_FIELD(struct token_request, member, #member, kind)

static const struct record_field create_fields[] = {
    FIELD(name, NAME),
    FIELD(scopes, ARRAY),
    FIELD(queues, ARRAY),
    RECORD_FIELD_RANGE(struct token_request, ttl_ms, "ttl_ms", INT, TTL_MS_MIN, TTL_MS_MAX),
};
static const struct record_type create_record = {create_fields,
                                                 sizeof create_fields / sizeof create_fields[0]};

static const struct record_field revoke_fields[] = {FIELD(id, TEXT)};
static const struct record_type revoke_record = {revoke_fields, 1};

/* A token that is being made, and what is shown of it this once. */
struct new_token {
    struct access_token token;
    char text[ACCESS_TEXT_LEN];
};

static enum error_code read_scopes(struct verb_call *call, struct str json, uint32_t *ret,
                                   struct err *err)
{
    struct names names;
    uint32_t scopes = 0;
    enum error_code code = names_read(json, SCOPES_MAX, "scopes", call->arena, &names, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < names.count; i++) {
        uint32_t scope = access_scope_parse(names.at[i]);
        if (scope == 0)
            return err_set(
                err, ERR_BAD_REQUEST,
                "scopes: unknown scope \"%.*s\"; valid: read, submit, work, answer, admin",
                STR_ARG(names.at[i]));
        scopes |= scope;
    }
    if (scopes == 0)
        return err_set(err, ERR_BAD_REQUEST,
                       "scopes is required; valid: read, submit, work, answer, admin");
    *ret = scopes;
    return ERR_OK;
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static enum error_code read_token(struct verb_call *call, const struct token_request *request,
                                  struct access_token *ret, struct err *err)
{
    if (!str_is_set(request->name))
        return err_set(err, ERR_BAD_REQUEST, "name is required: the owner of the token");
    if (request->name.len > NAME_BYTES_MAX - strlen(ACCESS_ACTOR_PREFIX) ||
        str_eq(request->name, STR(ACCESS_ADMIN_NAME)))
        return err_set(err, ERR_BAD_REQUEST,
                       "invalid token name \"%.*s\": use at most %zu bytes, not starting with "
                       "\"" ACCESS_ADMIN_NAME "\", which is reserved",
                       STR_ARG(request->name), NAME_BYTES_MAX - strlen(ACCESS_ACTOR_PREFIX));
    enum error_code code = read_scopes(call, request->scopes, &ret->scopes, err);
    if (code == ERR_OK)
        code = names_read(request->queues, ACCESS_QUEUES_MAX, "queues", call->arena, &ret->queues,
                          err);
    /* Somebody who forgot to fill it in shall not get a token for all. */
    if (code == ERR_OK && str_is_set(request->queues) && ret->queues.count == 0)
        code = err_set(err, ERR_BAD_REQUEST, "queues must not be empty: omit it for all queues");
    if (code != ERR_OK)
        return code;
    if (ret->queues.count > 1)
        qsort(ret->queues.at, ret->queues.count, sizeof *ret->queues.at, by_text);
    ret->name = request->name;
    return ERR_OK;
}

/* Ids sort as tokens were made. */
static struct uuid new_id(void)
{
    uint8_t random[10];
    random_fill(random, sizeof random);
    return uuid_v7(clock_wall_ms(), random);
}

static enum error_code create_prepare(struct verb_call *call, struct err *err)
{
    struct token_request request = {0};
    uint8_t secret[ACCESS_SECRET_LEN];
    struct new_token *fresh = arena_zalloc(call->arena, 1, sizeof *fresh);
    call->call.class = CALL_RESULT;
    if (fresh == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &create_record, &request, err);
    if (code == ERR_OK)
        code = read_token(call, &request, &fresh->token, err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    random_fill(secret, sizeof secret);
    access_text(secret, fresh->text);
    access_hash((struct str){fresh->text, sizeof fresh->text}, fresh->token.hash);
    fresh->token.id = new_id();
    op->type = OP_TOKEN;
    op->token = &fresh->token;
    op->ttl_ms = request.ttl_ms;
    call->state = fresh;
    return ERR_OK;
}

/* The token with what is known of it, and its object left open. */
static void write_token(struct json_writer *writer, const struct access_token *token)
{
    json_begin_object(writer);
    answer_id(writer, STR("id"), token->id);
    answer_text(writer, STR("name"), token->name);
    json_key(writer, STR("scopes"));
    json_begin_array(writer);
    for (uint32_t scope = 1; scope <= ACCESS_ANSWER; scope <<= 1)
        if ((token->scopes & scope) != 0)
            json_put_string(writer, access_scope_name((enum access_scope)scope));
    json_end_array(writer);
    json_key(writer, STR("queues"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < token->queues.count; i++)
        json_put_string(writer, token->queues.at[i]);
    json_end_array(writer);
    answer_time(writer, STR("created_at"), token->created_at);
    answer_time(writer, STR("expires_at"), token->expires_at);
    answer_time(writer, STR("revoked_at"), token->revoked_at);
}

/* The answer that is kept for repetitions is without the token: that is nowhere but with the one
 * who asked. */
static enum error_code create_finish(struct verb_call *call, struct err *err)
{
    call->result.status = 201;
    return verb_outcome(call, err);
}

static void create_write(const struct verb_call *call, struct json_writer *writer)
{
    const struct new_token *fresh = call->state;
    struct str text = {fresh->text, sizeof fresh->text};
    write_token(writer, &fresh->token);
    answer_text(writer, STR("token"), call->rendering ? (struct str){NULL, 0} : text);
    json_end_object(writer);
}

const struct verb verb_token_create = {.request = &create_record,
                                       .prepare = create_prepare,
                                       .finish = create_finish,
                                       .write = create_write};

struct list_request {
    struct page_request page;
};

static const struct record_field list_fields[] = {PAGE_FIELDS(struct list_request)};
static const struct record_type list_record = {list_fields,
                                               sizeof list_fields / sizeof list_fields[0]};

struct token_page {
    struct page page;
    struct store_tokens tokens;
};

static enum error_code run_list(struct verb_call *call, struct err *err)
{
    struct list_request request = {0};
    struct store_txn *txn;
    struct token_page *list = verb_data(call, sizeof *list);
    if (list == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &list_record, &request, err);
    if (code == ERR_OK)
        code = page_begin(&request.page, PAGE_BY_NAME, &list->page, err);
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_tokens(txn, &list->tokens, call->arena, err);
    store_rollback(txn);
    return code;
}

static void write_list(const struct verb_call *call, struct json_writer *writer)
{
    const struct token_page *list = call->result.data;
    struct page page = list->page;
    char ids[2][UUID_TEXT_LEN]; /* the page keeps the last one */
    json_begin_object(writer);
    json_key(writer, STR("tokens"));
    json_begin_array(writer);
    for (uint32_t i = 0, taken = 0; i < list->tokens.count; i++) {
        char *id = ids[taken % 2];
        uuid_format(list->tokens.at[i].id, id);
        if (!page_takes(&page, (struct str){id, UUID_TEXT_LEN}))
            continue;
        taken++;
        write_token(writer, &list->tokens.at[i]);
        json_end_object(writer);
    }
    json_end_array(writer);
    page_end(&page, writer);
    json_end_object(writer);
}

const struct verb verb_token_list = {.request = &list_record, .run = run_list, .write = write_list};

static enum error_code revoke_prepare(struct verb_call *call, struct err *err)
{
    struct token_request request = {0};
    struct access_token *token = arena_zalloc(call->arena, 1, sizeof *token);
    call->call.class = CALL_RESULT;
    if (token == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &revoke_record, &request, err);
    if (code != ERR_OK)
        return code;
    if (!str_is_set(request.id))
        return err_set(err, ERR_BAD_REQUEST, "id is required: a token id");
    if (!uuid_parse(request.id, &token->id))
        return err_set(err, ERR_BAD_REQUEST, "\"%.*s\" is not a token id: see token_list",
                       request.id.len < UUID_TEXT_LEN ? (int)request.id.len : UUID_TEXT_LEN,
                       request.id.at);
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    op->type = OP_TOKEN_REVOKE;
    op->token = token;
    return ERR_OK;
}

static void revoke_write(const struct verb_call *call, struct json_writer *writer)
{
    write_token(writer, call->call.ops[0]->token);
    json_end_object(writer);
}

const struct verb verb_token_revoke = {
    .request = &revoke_record, .prepare = revoke_prepare, .write = revoke_write};
