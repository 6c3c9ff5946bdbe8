/* Names that users choose, as labels: the first NAMES_MAX that come have a place of their own, and
 * all others share the first place, whose name is "other".
 *
 * One thread adds names. Any other may read the places that there are meanwhile: a place stays as
 * it is once it is there. */
#ifndef PAWL_SERVER_METRICS_NAMES_H
#define PAWL_SERVER_METRICS_NAMES_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"

enum { NAMES_MAX = 200, NAME_PARTS_MAX = 2 };

struct name_place {
    struct str parts[NAME_PARTS_MAX];
    void *series; /* what is counted for it: zeroed memory */
};

struct name_table {
    struct arena *arena; /* only the thread that adds uses it */
    size_t series_size;
    uint32_t parts;
    struct map numbers;
    struct name_place places[NAMES_MAX + 1]; /* the first is for all others */
    _Atomic(uint32_t) count;
    uint32_t last; /* found last: work of a kind often comes together */
};

/* Names with `parts` parts, each with so much to be counted. False: no memory. */
bool names_init(struct name_table *table, struct arena *arena, uint32_t parts, size_t series_size,
                uint64_t seed);

/* What is counted for a name, which may be new. */
void *names_find(struct name_table *table, const struct str *parts);

/* How many places there are, for readers. */
static inline uint32_t names_count(struct name_table *table)
{
    return atomic_load_explicit(&table->count, memory_order_acquire);
}

#endif
