/* That an engine looks after the store, which time it was then, and which time may be trusted. */
#include "engine/engine_private.h"

int64_t engine_trusted_limit(struct engine *engine)
{
    /* A caller that sets only the wall clock is trusted: there is no steady clock to compare. */
    if (engine->options.trusts_clock ||
        (engine->store->options.clock != NULL && engine->options.steady == NULL))
        return INT64_MAX;
    int64_t trusted = trusted_time_now(&engine->trusted, engine_steady(engine));
    return trusted > 0 ? trusted : 1;
}

int64_t engine_trusted(struct engine *engine, int64_t now)
{
    pthread_mutex_lock(&engine->lock);
    int64_t limit = engine_trusted_limit(engine);
    pthread_mutex_unlock(&engine->lock);
    return limit < now ? limit : now;
}

void engine_begin_trusting(struct engine *engine, const struct store_liveness *seen)
{
    /* A version that did not note the trusted time noted the time itself. */
    int64_t noted = seen->trusted_before > 0 ? seen->trusted_before : seen->before;
    /* While its clock is behind, the store's time is not what people call the time. */
    int64_t clock = seen->wall < seen->now ? seen->wall : seen->now;
    trusted_time_begin(&engine->trusted, noted, clock, engine_steady(engine));
}

enum error_code engine_record_liveness(struct engine *engine, struct err *err)
{
    struct store_liveness seen = {0};
    pthread_mutex_lock(&engine->lock);
    seen.trusted = trusted_time_now(&engine->trusted, engine_steady(engine));
    pthread_mutex_unlock(&engine->lock);
    enum error_code code = store_record_liveness(engine->store, &seen, err);
    if (code != ERR_OK)
        return code;
    int64_t clock = seen.wall < seen.now ? seen.wall : seen.now;
    pthread_mutex_lock(&engine->lock);
    if (engine->trusted.is_known)
        trusted_time_see(&engine->trusted, clock, engine_steady(engine));
    else
        engine_begin_trusting(engine, &seen);
    pthread_mutex_unlock(&engine->lock);
    return ERR_OK;
}

enum error_code maintain_liveness(struct maintenance_run *run, struct err *err)
{
    enum error_code code = engine_record_liveness(run->engine, err);
    run->done = code == ERR_OK;
    return code;
}
