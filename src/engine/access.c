#include "engine/access.h"

#include "base/planted.h"

enum {
    R = ACCESS_READ,
    S = ACCESS_SUBMIT,
    W = ACCESS_WORK,
    A = ACCESS_ADMIN,
    N = ACCESS_ANSWER,
};

struct entry {
    uint8_t scopes;  /* one of them is needed; 0: admin */
    bool all_queues; /* it is about more than the jobs of some queues */
};

/* A verb that is not here is for admins of everything. */
static const struct entry entries[VERB_COUNT] = {
    [VERB_submit] = {S, false},
    [VERB_list] = {R, false},
    [VERB_bulk] = {A, false},
    [VERB_get] = {R | S, false}, /* without read: id, status and version */
    [VERB_events] = {R, false},
    [VERB_append] = {W, false}, /* without the token of a lease: admin */
    [VERB_cancel] = {S, false},
    [VERB_signal] = {S | N, false}, /* one that ends a question to a person: answer */
    [VERB_requeue] = {A, false},
    [VERB_run_now] = {A, false},
    [VERB_dead_letter] = {A, false},
    [VERB_redact] = {A, false},
    [VERB_verify] = {R, false},
    [VERB_explain] = {R, false},
    [VERB_export] = {R, false},
    [VERB_plan] = {S | W, false},
    [VERB_plan_diff] = {R, false},
    [VERB_steps] = {R, false},
    [VERB_verdict] = {W, false}, /* without the token of a lease: admin */
    [VERB_answer] = {N, false},
    [VERB_answer_job] = {N, false},
    [VERB_inbox] = {R, false},
    [VERB_claim] = {W, false},
    [VERB_claim_steps] = {W, false},
    [VERB_start] = {W, false},
    [VERB_heartbeat] = {W, false},
    [VERB_complete] = {W, false},
    [VERB_fail] = {W, false},
    [VERB_wait] = {W, false},
    [VERB_release] = {W, false},
    [VERB_cancelled] = {W, false},
    [VERB_abandon] = {W, false},
    [VERB_effect_begin] = {W, false},
    [VERB_effect_commit] = {W, false},
    [VERB_effect_abort] = {W, false},
    [VERB_effects] = {W, false},
    [VERB_batch] = {S | W | N, false}, /* each of its entries is checked as if it were alone */
    [VERB_resources] = {R | W, false},
    [VERB_resource_put] = {W, false},
    [VERB_resource_get] = {R | W, false},
    [VERB_resource_delete] = {W, false},
    [VERB_dead_letters] = {R, false},
    [VERB_dead_letter_groups] = {R, false},
    [VERB_redrive] = {A, false},
    [VERB_drop] = {A, false},
    [VERB_queues] = {R, false},
    [VERB_pause] = {A, false},
    [VERB_resume] = {A, false},
    [VERB_kinds] = {R, false},
    [VERB_kind_set] = {A, true},
    [VERB_kind_patch] = {A, true},
    [VERB_kind_get] = {R, false},
    [VERB_workers] = {R, false},
    [VERB_worker_put] = {W, false},
    [VERB_worker_delete] = {W, false},
    [VERB_stats] = {R, false},
    [VERB_feed] = {R, false},
    [VERB_import] = {A, false},
    [VERB_backup] = {A, true},
    [VERB_doctor] = {A, true},
    [VERB_token_create] = {A, true},
    [VERB_token_list] = {A, true},
    [VERB_token_revoke] = {A, true},
};

static const struct entry *entry_of(enum verb_name name)
{
    static const struct entry unknown = {A, true};
    const struct entry *entry = &entries[name];
    return entry->scopes == 0 ? &unknown : entry;
}

uint32_t access_scopes_of(enum verb_name name)
{
    return entry_of(name)->scopes | (uint32_t)A;
}

enum error_code access_check_scopes(uint32_t scopes, enum verb_name name, struct err *err)
{
    uint32_t wanted = entry_of(name)->scopes;
    char text[64];
    struct buf buf = {.at = text, .cap = sizeof text};
    if (scopes == 0 || (scopes & (wanted | A)) != 0 || PLANTED(SCOPE_NOT_LOOKED_AT))
        return ERR_OK;
    for (uint32_t scope = R; scope <= N; scope <<= 1) {
        if ((wanted & scope) == 0)
            continue;
        buf_add(&buf, buf.len > 0 ? STR(" or ") : STR(""));
        buf_add(&buf, access_scope_name((enum access_scope)scope));
    }
    return err_set(err, ERR_FORBIDDEN, "%.*s needs a token with the scope %.*s",
                   STR_ARG(verb_text(name)), STR_ARG(buf_str(&buf)));
}

enum error_code access_check(const struct verb_call *call, struct err *err)
{
    enum error_code code = access_check_scopes(call->scopes, call->name, err);
    if (code == ERR_OK && call->queues != NULL && entry_of(call->name)->all_queues)
        code = err_set(err, ERR_FORBIDDEN,
                       "%.*s is about all queues, and the token is for some of them",
                       STR_ARG(verb_text(call->name)));
    return code;
}

enum error_code access_check_admin(const struct verb_call *call, const char *what, struct err *err)
{
    if (call->scopes == 0 || (call->scopes & A) != 0)
        return ERR_OK;
    return err_set(err, ERR_FORBIDDEN, "%s needs a token with the scope admin", what);
}

bool access_has_queue(const struct names *queues, struct str queue)
{
    return queues == NULL || names_have(queues, queue) || PLANTED(FOREIGN_QUEUE_SERVED);
}

enum error_code access_check_queue(const struct names *queues, struct str queue, struct err *err)
{
    return access_has_queue(queues, queue)
               ? ERR_OK
               : (enum error_code)err_set(
                     err, ERR_FORBIDDEN, "the token is not for the queue \"%.*s\"", STR_ARG(queue));
}

struct sight access_sight_of(const struct verb_call *call, int parts)
{
    bool reads =
        call->scopes == 0 || (call->scopes & (R | A)) != 0 || PLANTED(JOBS_SHOWN_TO_ANYBODY);
    return (struct sight){.parts = reads ? parts : 0};
}

bool access_may_answer(const struct verb_call *call)
{
    return call->scopes == 0 || (call->scopes & (N | A)) != 0 || PLANTED(ANSWERED_BY_ANYBODY);
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
