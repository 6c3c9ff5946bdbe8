#include "store/lane_merge.h"

#include <assert.h>

int lane_place_cmp(const struct lane_place *a, const struct lane_place *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->run_at != b->run_at)
        return a->run_at < b->run_at ? -1 : 1;
    int order = memcmp(a->job.bytes, b->job.bytes, sizeof a->job.bytes);
    /* Adding one takes STEP_NONE to 0, in front of every step. */
    uint32_t left = a->step + 1;
    uint32_t right = b->step + 1;
    return order != 0 ? order : (left > right) - (left < right);
}

struct merge {
    const struct store_search *search;
    lane_next next;
    void *arg;
    struct lane_place *heads; /* by index of the lane */
    bool *has_head;
    bool *is_dry;
};

/* Looks at the head of every lane of the group and takes the best; none: the group is dry. */
static enum error_code pick(struct merge *merge, uint32_t from, uint32_t to, struct lane_pick *ret,
                            bool *ret_found, struct err *err)
{
    uint32_t best = to;
    for (uint32_t i = from; i < to; i++) {
        if (merge->is_dry[i])
            continue;
        if (!merge->has_head[i]) {
            bool found = false;
            enum error_code code = merge->next(merge->arg, i, &merge->heads[i], &found, err);
            if (code != ERR_OK)
                return code;
            merge->has_head[i] = found;
            merge->is_dry[i] = !found;
        }
        if (merge->has_head[i] &&
            (best == to || (lane_place_cmp(&merge->heads[i], &merge->heads[best]) < 0)))
            best = i;
    }
    *ret_found = best != to;
    if (best == to)
        return ERR_OK;
    *ret = (struct lane_pick){merge->heads[best], best};
    merge->has_head[best] = false;
    return ERR_OK;
}

enum error_code lane_merge(const struct store_search *search, lane_next next, void *arg,
                           struct arena *arena, struct lane_pick *ret, uint32_t *ret_count,
                           struct err *err)
{
    uint32_t lanes = search->group_count > 0 ? search->group_ends[search->group_count - 1] : 0;
    struct merge merge = {
        .search = search,
        .next = next,
        .arg = arg,
        .heads = arena_zalloc(arena, lanes + 1, sizeof *merge.heads),
        .has_head = arena_zalloc(arena, lanes + 1, sizeof *merge.has_head),
        .is_dry = arena_zalloc(arena, lanes + 1, sizeof *merge.is_dry),
    };
    if (merge.heads == NULL || merge.has_head == NULL || merge.is_dry == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %u lanes", lanes);

    uint32_t count = 0;
    bool round_found = true;
    while (round_found && count < search->max) {
        round_found = false;
        for (uint32_t group = 0; group < search->group_count && count < search->max; group++) {
            uint32_t from = group == 0 ? 0 : search->group_ends[group - 1];
            bool found = false;
            assert(from <= search->group_ends[group]);
            enum error_code code =
                pick(&merge, from, search->group_ends[group], &ret[count], &found, err);
            if (code != ERR_OK)
                return code;
            count += found;
            round_found = round_found || found;
        }
    }
    *ret_count = count;
    return ERR_OK;
}
