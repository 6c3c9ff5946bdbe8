/* What has been kept for long enough is deleted: jobs that have ended, and old records. A mistake
 * could not be taken back, so both go by the trusted time (core/trusted_time.h). */
#include "core/retention.h"
#include "engine/engine_private.h"

enum error_code maintain_retention(struct maintenance_run *run, struct err *err)
{
    for (uint32_t i = 0; i < run->due_count; i++) {
        const struct store_due *due = &run->due[i];
        bool over =
            due->what == DUE_PURGE && retention_is_over(due->at, run->runner->batcher.trusted);
        struct op *op = over ? maintenance_op(run, OP_PURGE) : NULL;
        if (op != NULL)
            op->job = due->job;
    }
    return maintenance_run_ops(run, err);
}

enum error_code maintain_records(struct maintenance_run *run, struct err *err)
{
    int64_t trusted = engine_trusted(run->engine, run->runner->batcher.seen_at);
    enum error_code code = store_sweep(run->engine->store, trusted, run->budget, &run->done, err);
    run->more = code == ERR_OK && run->done == run->budget;
    return code;
}
