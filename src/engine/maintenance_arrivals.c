/* Work that arrives without a call: its delay or backoff is over, or a user has submitted it inside
 * a transaction of their own. */
#include "engine/engine_private.h"

enum error_code maintain_promotion(struct maintenance_run *run, struct err *err)
{
    struct engine *engine = run->engine;
    enum error_code code = batch_promote(&run->runner->batcher, run->budget, &run->done, err);
    run->more = run->done > 0; /* and when is the next? */
    if (code != ERR_OK || run->done == 0)
        return code;
    pthread_mutex_lock(&engine->lock);
    engine_tell_rumour(engine, RUMOUR_OF_WORK);
    pthread_mutex_unlock(&engine->lock);
    return code;
}

enum error_code maintain_outbox(struct maintenance_run *run, struct err *err)
{
    struct engine *engine = run->engine;
    struct batcher *batcher = &run->runner->batcher;
    if (!engine->store->shared)
        return ERR_OK;
    enum error_code code = batch_drain_outbox(batcher, run->budget, run->arena, &run->done, err);
    run->more = run->done == run->budget;
    if (code != ERR_OK || run->done == 0)
        return code;
    pthread_mutex_lock(&engine->lock);
    engine_tell_wakeups(engine, &batcher->wakeups);
    pthread_mutex_unlock(&engine->lock);
    return code;
}
