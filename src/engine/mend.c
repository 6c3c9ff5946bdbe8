#include "engine/mend.h"

#include "core/lane.h"

/* The key of the lane that a piece of work belongs to; absent when it belongs to none. */
static enum error_code find_key(struct store *store, const struct store_stray *stray,
                                struct arena *arena, struct str *ret, struct err *err)
{
    struct store_job job = {.id = stray->job};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_parts parts = {.job = stray->job, .ordinals = &stray->step, .ordinal_count = 1};
    struct store_txn *txn;
    bool is_step = stray->step != STEP_NONE;
    enum error_code code = store_begin(store, STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, arena, err);
    bool found = code == ERR_OK && job.slice.job.status != JOB_NONE;
    if (found && is_step)
        code = store_load_parts(txn, &parts, 1, arena, err);
    store_rollback(txn);
    if (code != ERR_OK || !found || (is_step && parts.step_count == 0))
        return code;
    if (!is_step)
        return lane_key_of_job(&job.slice.job, arena, ret, err);
    for (uint32_t i = 0; i < parts.step_count; i++)
        if (parts.steps[i].ordinal == stray->step)
            return lane_key_of_step(&job.slice.job, &parts.steps[i], arena, ret, err);
    return ERR_OK;
}

enum error_code mend_lanes(struct store *store, struct arena *arena, uint64_t *ret_count,
                           struct err *err)
{
    struct store_stray *strays = NULL;
    uint32_t count = 0;
    uint64_t mended = 0;
    enum error_code code = store_strays(store, arena, &strays, &count, err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct str key = {NULL, 0};
        code = find_key(store, &strays[i], arena, &key, err);
        if (code == ERR_OK && str_is_set(key))
            code = store_mend(store, strays[i].lane, key, err);
        if (code == ERR_OK && str_is_set(key))
            mended += strays[i].count;
    }
    if (code == ERR_OK)
        *ret_count = mended;
    return code;
}
