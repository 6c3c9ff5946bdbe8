#include "engine/undelivered_claims.h"

#include <assert.h>

struct undelivered_claims undelivered_claims_of(const struct verb_call *call, struct arena *arena)
{
    struct undelivered_claims claims = {.scope = call->scope, .key = call->key};
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->call.count; i++)
        count += call->call.ops[i]->grant_count;
    struct token *tokens = count > 0 ? arena_zalloc(arena, count, sizeof *tokens) : NULL;
    for (uint32_t i = 0; tokens != NULL && i < call->call.count; i++) {
        const struct op *op = call->call.ops[i];
        for (uint32_t k = 0; k < op->grant_count; k++)
            claims.count += token_parse(op->grants[k].result.token, &tokens[claims.count]);
    }
    claims.tokens = tokens;
    return claims;
}

/* Adds the release of one lease; false: no memory. */
static bool add_release(struct call *call, const struct token *token, struct arena *arena)
{
    struct op *op = arena_zalloc(arena, 1, sizeof *op);
    char *text = arena_alloc(arena, TOKEN_TEXT_MAX);
    if (op == NULL || text == NULL)
        return false;
    op->type = OP_COMMAND;
    op->job = token->job;
    op->command.type = COMMAND_RELEASE;
    op->command.token = (struct str){text, token_format(token, text)};
    call->ops[call->count++] = op;
    return true;
}

/* Has the record of the request give way together with the leases. */
static void take_record(struct call *call, const struct undelivered_claims *claims)
{
    struct op_request *request = &call->ops[0]->request;
    if (!str_is_set(claims->scope))
        return;
    request->scope = claims->scope;
    request->key = claims->key;
    request->lost = &claims->tokens[0];
    for (uint32_t i = 1; i < call->count; i++)
        call->ops[i]->same_request = true;
}

void undelivered_claims_release(struct engine *engine, const struct undelivered_claims *claims)
{
    assert(claims->count <= CLAIM_MAX);
    if (claims->count == 0)
        return;
    struct call_kept *kept = call_kept_new(engine);
    struct call call = {.class = CALL_RESULT, .kept = kept};
    bool ok = kept != NULL;
    call.ops = ok ? arena_zalloc(&kept->arena, claims->count, sizeof(void *)) : NULL;
    for (uint32_t i = 0; i < claims->count && call.ops != NULL; i++)
        ok = ok && add_release(&call, &claims->tokens[i], &kept->arena);
    if (ok && call.ops != NULL) {
        take_record(&call, claims);
        (void)engine_run(engine, &call, NULL);
    }
    call_release(&call);
}
