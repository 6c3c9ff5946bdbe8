/* Memory for one operation: allocate piece by piece, free all at once.
 *
 * An arena takes blocks from malloc and hands out 16-byte aligned pieces of them. Nothing is freed
 * alone. The pieces live until arena_clear or arena_release. An arena belongs to one thread. */
#ifndef PAWL_BASE_ARENA_H
#define PAWL_BASE_ARENA_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/str.h"

struct arena_block;

/* Large blocks that arenas have done with, for the next to use: what goes back to the system has to
 * be made anew page by page. Any number of threads may use one. */
enum { ARENA_POOL_BLOCKS = 64 };

struct arena_pool {
    _Atomic(struct arena_block *) blocks[ARENA_POOL_BLOCKS];
    atomic_uint users;
};

struct arena {
    struct arena_block *blocks; /* newest first */
    char *next;                 /* first free byte of the newest block */
    char *end;                  /* one past its last byte */
    struct arena_pool *pool;    /* NULL: none */
};

/* An empty pool with one user; NULL: no memory. It is there until its last user has dropped it:
 * anyone who has an arena with a pool sees to that. */
struct arena_pool *arena_pool_new(void);
void arena_pool_hold(struct arena_pool *pool);
void arena_pool_drop(struct arena_pool *pool);

/* Gives what nobody uses back to the system. */
void arena_pool_trim(struct arena_pool *pool);

/* Makes an empty arena; takes no memory yet. */
void arena_init(struct arena *arena);

/* The same with a pool, which lives longer. */
void arena_init_pooled(struct arena *arena, struct arena_pool *pool);

/* For arena_alloc only: takes a new block where the newest has no room. */
void *arena_alloc_slow(struct arena *arena, size_t size);

/* Under the address sanitizer each piece is fenced off to the byte, which only the slow way does.
 */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_FENCES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_FENCES 1
#endif
#endif

/* `size` bytes, not zeroed; NULL when there is no memory. A size of 0 gives a valid pointer. */
static inline void *arena_alloc(struct arena *arena, size_t size)
{
#ifndef ARENA_FENCES
    /* A size of 0, and one so large that rounding wraps, both give SIZE_MAX here and go slow. */
    size_t last = ((size + 15) & ~(size_t)15) - 1;
    if (last < (size_t)(arena->end - arena->next)) {
        char *piece = arena->next;
        arena->next += last + 1;
        return piece;
    }
#endif
    return arena_alloc_slow(arena, size);
}

/* `count` elements of `size` bytes, zeroed; NULL when there is no memory or the product overflows.
 */
void *arena_zalloc(struct arena *arena, size_t count, size_t size);

/* Makes the piece at `old` (`old_size` bytes) `new_size` bytes long, in place where it is the
 * newest piece, else by copying; NULL when there is no memory, and then `old` is as it was. */
void *arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size);

/* A copy of `s` in the arena. Absent stays absent. at == NULL with len > 0 never comes back: when
 * there is no memory an absent view is returned although `s` was set. */
struct str arena_copy(struct arena *arena, struct str s);

/* Forgets every piece and keeps the largest block for the next operation. */
void arena_clear(struct arena *arena);

/* How many bytes its blocks have, used or not. */
size_t arena_size(const struct arena *arena);

/* Gives all memory back. The arena is as after arena_init. */
void arena_release(struct arena *arena);

#endif
