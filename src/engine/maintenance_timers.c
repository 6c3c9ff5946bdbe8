/* Timers that have fired: a lease has expired, a wait times out, the grace of a soft cancel or a
 * lifetime is over. Which command that means is asked of core in the transaction that carries it
 * out, for meanwhile the job may have moved on. */
#include "engine/engine_private.h"

enum error_code maintain_timers(struct maintenance_run *run, struct err *err)
{
    for (uint32_t i = 0; i < run->due_count; i++) {
        const struct store_due *due = &run->due[i];
        struct op *op = due->what == DUE_JOB ? maintenance_op(run, OP_TIMER_FIRED) : NULL;
        if (op == NULL)
            continue;
        op->job = due->job;
        op->timer.step = due->step;
        op->timer.at = due->at;
    }
    return maintenance_run_ops(run, err);
}
