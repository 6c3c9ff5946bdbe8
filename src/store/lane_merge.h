/* The order in which a search finds work: the heads of its lanes merged, groups taking turns. */
#ifndef PAWL_STORE_LANE_MERGE_H
#define PAWL_STORE_LANE_MERGE_H

#include "store/store.h"

/* A place in a lane. Lanes are sorted by (rank, run_at, job, step), all rising. */
struct lane_place {
    int64_t rank; /* minus the priority */
    int64_t run_at;
    struct uuid job;
    uint32_t step; /* STEP_NONE sorts as stores keep it: as -1, before step 0 */
};

int lane_place_cmp(const struct lane_place *a, const struct lane_place *b);

/* Gives the next place of lane `index` (in search->lanes), or found = false at the end. */
typedef enum error_code (*lane_next)(void *arg, uint32_t index, struct lane_place *ret,
                                     bool *ret_found, struct err *err);

/* What was picked, in order: a place and the index of its lane. */
struct lane_pick {
    struct lane_place place;
    uint32_t index;
};

/* Picks at most search->max places into `ret` (room for that many). Of each lane at most one place
 * more is asked for than was picked from it. */
enum error_code lane_merge(const struct store_search *search, lane_next next, void *arg,
                           struct arena *arena, struct lane_pick *ret, uint32_t *ret_count,
                           struct err *err);

#endif
