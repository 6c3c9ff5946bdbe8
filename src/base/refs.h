/* A growing list of pointers in an arena, for what was read page by page and stays where it is. */
#ifndef PAWL_BASE_REFS_H
#define PAWL_BASE_REFS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct refs {
    const void **at;
    uint32_t count;
    uint32_t cap;
};

/* False: no memory, and the list is as it was. All of a list is in one arena. */
static inline bool refs_add(struct refs *refs, struct arena *arena, const void *item)
{
    if (refs->count == refs->cap) {
        uint32_t cap = refs->cap < 8 ? 8 : refs->cap * 2;
        const void **at =
            arena_grow(arena, (void *)refs->at, refs->cap * sizeof *at, cap * sizeof *at);
        if (at == NULL)
            return false;
        refs->at = at;
        refs->cap = cap;
    }
    refs->at[refs->count++] = item;
    return true;
}

#endif
