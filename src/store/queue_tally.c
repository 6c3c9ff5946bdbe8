#include "store/queue_tally.h"

#include <stdlib.h>

struct queue_tallied {
    struct str queue;
    int64_t counts[JOB_STATUS_COUNT];
    int64_t oldest[JOB_STATUS_COUNT];
};

void queue_tally_init(struct queue_tally *tally, struct arena *arena, uint64_t seed)
{
    *tally = (struct queue_tally){.arena = arena};
    map_init(&tally->numbers, arena, 0, seed);
}

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory to count the jobs");
}

static enum error_code add_queue(struct queue_tally *tally, struct str queue, struct err *err)
{
    if (tally->count == tally->cap) {
        uint32_t larger = tally->cap == 0 ? 8 : tally->cap * 2;
        struct queue_tallied *moved =
            arena_grow(tally->arena, tally->at, tally->cap * sizeof *moved, larger * sizeof *moved);
        if (moved == NULL)
            return no_memory(err);
        tally->at = moved;
        tally->cap = larger;
    }
    struct queue_tallied *tallied = &tally->at[tally->count];
    uint32_t found;
    *tallied = (struct queue_tallied){.queue = arena_copy(tally->arena, queue)};
    if (str_is_set(tallied->queue) != str_is_set(queue) ||
        map_put(&tally->numbers, tallied->queue, tally->count, &found) != ERR_OK)
        return no_memory(err);
    tally->last = tally->count++;
    return ERR_OK;
}

enum error_code queue_tally_add(struct queue_tally *tally, struct str queue, int64_t status,
                                int64_t created_at, struct err *err)
{
    if (status < 0 || status >= JOB_STATUS_COUNT)
        return err_set(err, ERR_CORRUPT, "a job has the unknown status %lld", (long long)status);
    if (tally->count == 0 || !str_eq(tally->at[tally->last].queue, queue)) {
        uint32_t found = tally->count == 0 ? MAP_NONE : map_get(&tally->numbers, queue);
        enum error_code code = found == MAP_NONE ? add_queue(tally, queue, err) : ERR_OK;
        if (code != ERR_OK)
            return code;
        if (found != MAP_NONE)
            tally->last = found;
    }
    struct queue_tallied *tallied = &tally->at[tally->last];
    if (tallied->counts[status] == 0 || created_at < tallied->oldest[status])
        tallied->oldest[status] = created_at;
    tallied->counts[status]++;
    return ERR_OK;
}

static int by_queue(const void *a, const void *b)
{
    return str_cmp(((const struct queue_tallied *)a)->queue,
                   ((const struct queue_tallied *)b)->queue);
}

enum error_code queue_tally_finish(struct queue_tally *tally, struct store_queue_count **ret,
                                   uint32_t *ret_count, struct err *err)
{
    struct store_queue_count *rows =
        arena_zalloc(tally->arena, (size_t)tally->count * JOB_STATUS_COUNT + 1, sizeof *rows);
    uint32_t count = 0;
    if (rows == NULL)
        return no_memory(err);
    if (tally->count > 1)
        qsort(tally->at, tally->count, sizeof *tally->at, by_queue);
    for (uint32_t i = 0; i < tally->count; i++)
        for (int status = 0; status < JOB_STATUS_COUNT; status++) {
            const struct queue_tallied *tallied = &tally->at[i];
            if (tallied->counts[status] == 0)
                continue;
            struct store_queue_count *row = &rows[count++];
            row->queue = tallied->queue;
            row->status = (enum job_status)status;
            row->count = tallied->counts[status];
            row->oldest_at = tallied->oldest[status];
        }
    *ret = rows;
    *ret_count = count;
    return ERR_OK;
}
