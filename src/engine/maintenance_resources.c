/* Resources that did not renew are lost, with the leases of the steps on them; and failures that
 * steps have put on a resource are counted on it. */
#include "engine/engine_private.h"

/* The steps on it go elsewhere, then it is forgotten: in a later round, when the budget has no room
 * for all of that. */
static enum error_code lose(struct maintenance_run *run, const struct store_due *due,
                            struct err *err)
{
    struct store_txn *txn;
    struct store_lease *leases = NULL;
    uint32_t count = 0;
    enum error_code code = store_begin(run->engine->store, STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_leases_on(txn, due->resource_id, run->arena, &leases, &count, err);
    store_rollback(txn);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = maintenance_op(run, OP_TIMER_FIRED);
        if (op == NULL)
            return ERR_OK;
        op->job = leases[i].job;
        op->timer.step = leases[i].step;
        op->timer.at = due->at;
        op->timer.resource_id = due->resource_id;
    }
    struct op *op = maintenance_op(run, OP_RESOURCE_GONE);
    if (op != NULL) {
        op->resource_gone.id = due->resource_id;
        op->resource_gone.if_expired = true;
    }
    return ERR_OK;
}

enum error_code maintain_resources(struct maintenance_run *run, struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < run->due_count && code == ERR_OK; i++)
        if (run->due[i].what == DUE_RESOURCE)
            code = lose(run, &run->due[i], err);
    return code == ERR_OK ? maintenance_run_ops(run, err) : code;
}

uint32_t engine_resource_failures(struct runner *runner, uint32_t count, struct arena *arena)
{
    uint32_t failures = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct op *op = runner->ops[i];
        bool failed = (op->type == OP_COMMAND || op->type == OP_TIMER_FIRED) &&
                      op->code == ERR_OK && !op_is_repeated(op) &&
                      str_is_set(op->result.failed_resource);
        struct op *failure = failed ? arena_zalloc(arena, 1, sizeof *failure) : NULL;
        if (failure == NULL)
            continue;
        failure->type = OP_RESOURCE_FAILED;
        failure->failed_resource = op->result.failed_resource;
        runner->ops[failures++] = failure; /* none behind it was looked at before */
    }
    return failures;
}

void engine_record_failures(struct runner *runner, uint32_t failures, struct arena *arena)
{
    enum store_outcome outcome;
    if (failures > 0)
        (void)batch_run(&runner->batcher, runner->ops, failures, arena, &outcome, NULL);
}
