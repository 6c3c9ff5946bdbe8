#include "engine/access.h"

enum {
    READS = ACCESS_READ,
    SUBMITS = ACCESS_SUBMIT,
    WORKS = ACCESS_WORK,
    ADMIN = ACCESS_ADMIN,
    ANSWERS = ACCESS_ANSWER,
};

enum queues { OWN, ALL };

struct entry {
    uint8_t scopes; /* one of them is needed */
    enum queues queues;
    struct str route; /* what callers know the verb by */
};

static const struct entry entries[VERB_COUNT] = {
#define VERB(name, method, path, class, safe, scopes, queues, ...)                                 \
    [VERB_##name] = {scopes, queues, STR_INIT(#method " " path)},
#include "engine/verbs.def"
#undef VERB
};

uint32_t access_scopes_of(enum verb_name name)
{
    return entries[name].scopes | (uint32_t)ADMIN;
}

enum error_code access_check_scopes(uint32_t scopes, enum verb_name name, struct err *err)
{
    uint32_t wanted = entries[name].scopes;
    char text[64];
    struct buf buf = {.at = text, .cap = sizeof text};
    if (scopes == 0 || (scopes & (wanted | ADMIN)) != 0)
        return ERR_OK;
    for (uint32_t scope = READS; scope <= ANSWERS; scope <<= 1) {
        if ((wanted & scope) == 0)
            continue;
        buf_add(&buf, buf.len > 0 ? STR(" or ") : STR(""));
        buf_add(&buf, access_scope_name((enum access_scope)scope));
    }
    return err_set(err, ERR_FORBIDDEN, "%.*s requires a token with the scope %.*s",
                   STR_ARG(entries[name].route), STR_ARG(buf_str(&buf)));
}

enum error_code access_check(const struct verb_call *call, struct err *err)
{
    enum error_code code = access_check_scopes(call->scopes, call->name, err);
    if (code == ERR_OK && call->queues != NULL && entries[call->name].queues == ALL)
        code = err_set(err, ERR_FORBIDDEN,
                       "%.*s concerns all queues, but the token is limited to some",
                       STR_ARG(entries[call->name].route));
    return code;
}

enum error_code access_check_admin(const struct verb_call *call, const char *what, struct err *err)
{
    if (call->scopes == 0 || (call->scopes & ADMIN) != 0)
        return ERR_OK;
    return err_set(err, ERR_FORBIDDEN, "%s requires a token with the scope admin", what);
}

bool access_has_queue(const struct names *queues, struct str queue)
{
    return queues == NULL || names_have(queues, queue);
}

enum error_code access_check_queue(const struct names *queues, struct str queue, struct err *err)
{
    return access_has_queue(queues, queue)
               ? ERR_OK
               : (enum error_code)err_set(err, ERR_FORBIDDEN,
                                          "the token does not cover the queue \"%.*s\"",
                                          STR_ARG(queue));
}

struct sight access_sight_of(const struct verb_call *call, int parts)
{
    bool reads = call->scopes == 0 || (call->scopes & (READS | ADMIN)) != 0;
    return (struct sight){.parts = reads ? parts : 0};
}

bool access_may_answer(const struct verb_call *call)
{
    return call->scopes == 0 || (call->scopes & (ANSWERS | ADMIN)) != 0;
}

struct sight access_sight(const struct verb_call *call)
{
    return access_sight_of(call, ANSWER_WHOLE);
}

bool access_blind(const struct verb_call *call)
{
    return access_sight(call).parts == 0;
}

struct sight access_sight_of_holder(void)
{
    return (struct sight){.parts = ANSWER_WHOLE};
}

enum error_code access_filter(const struct verb_call *call, struct store_filter *filter,
                              struct err *err)
{
    if (call->queues == NULL)
        return ERR_OK;
    if (str_is_set(filter->queue))
        return access_check_queue(call->queues, filter->queue, err);
    filter->queues = call->queues;
    return ERR_OK;
}
