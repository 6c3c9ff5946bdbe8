#include "base/arena.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef ARENA_FENCES
#include <sanitizer/asan_interface.h>
#define ARENA_FENCE(at, size) __asan_poison_memory_region((at), (size))
#define ARENA_UNFENCE(at, size) __asan_unpoison_memory_region((at), (size))
#else
#define ARENA_FENCE(at, size) ((void)(at), (void)(size))
#define ARENA_UNFENCE(at, size) ((void)(at), (void)(size))
#endif

enum {
    ARENA_ALIGN = 16,
    ARENA_BLOCK_MIN = 4096,
    ARENA_BLOCK_MAX =
        1024 * 1024, /* blocks double up to here; only larger pieces get larger ones */
    ARENA_BLOCK_POOLED = 64 * 1024, /* from here on those of a pool are of that size at once */
};

/* Far above what malloc can give, and low enough that no sum of sizes here can wrap. */
#define ARENA_PIECE_MAX ((size_t)PTRDIFF_MAX / 4)

struct arena_block {
    struct arena_block *older;
    size_t size; /* bytes after this header */
};

_Static_assert(sizeof(struct arena_block) % ARENA_ALIGN == 0, "the first piece must be aligned");
_Static_assert(_Alignof(max_align_t) >= ARENA_ALIGN, "malloc must give aligned blocks");

/* What a piece really takes. Even nothing takes something, so that each piece has its own place. */
static size_t piece_size(size_t size)
{
    return size == 0 ? ARENA_ALIGN : (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

/* Makes `block` the one that pieces are taken from. */
static void use_block(struct arena *arena, struct arena_block *block)
{
    arena->blocks = block;
    arena->next = (char *)(block + 1);
    arena->end = arena->next + block->size;
    ARENA_FENCE(arena->next, block->size);
}

/* ---- pools: of blocks of ARENA_BLOCK_MAX ---- */

static struct arena_block *pool_take(struct arena_pool *pool)
{
    for (size_t i = 0; i < ARENA_POOL_BLOCKS; i++) {
        if (atomic_load_explicit(&pool->blocks[i], memory_order_relaxed) == NULL)
            continue;
        struct arena_block *block = atomic_exchange(&pool->blocks[i], NULL);
        if (block != NULL)
            return block;
    }
    return NULL;
}

/* Gives a block back: to the pool, when it is one of its blocks and there is room. */
static void give_block(const struct arena *arena, struct arena_block *block)
{
    bool pooled = arena->pool != NULL && block->size == ARENA_BLOCK_MAX;
    for (size_t i = 0; pooled && i < ARENA_POOL_BLOCKS; i++) {
        struct arena_block *none = NULL;
        if (atomic_compare_exchange_strong(&arena->pool->blocks[i], &none, block))
            return;
    }
    free(block);
}

struct arena_pool *arena_pool_new(void)
{
    struct arena_pool *pool = calloc(1, sizeof *pool);
    if (pool != NULL)
        atomic_init(&pool->users, 1);
    return pool;
}

void arena_pool_hold(struct arena_pool *pool)
{
    (void)atomic_fetch_add(&pool->users, 1);
}

void arena_pool_trim(struct arena_pool *pool)
{
    struct arena_block *block;
    while ((block = pool_take(pool)) != NULL)
        free(block);
}

void arena_pool_drop(struct arena_pool *pool)
{
    if (pool == NULL || atomic_fetch_sub(&pool->users, 1) > 1)
        return;
    arena_pool_trim(pool);
    free(pool);
}

/* ---- arenas ---- */

/* Takes a new block that has room for `need` bytes. Doubling keeps the number of blocks small, so
 * that after arena_clear one block soon serves a whole operation. */
static bool add_block(struct arena *arena, size_t need)
{
    size_t size = ARENA_BLOCK_MIN - sizeof(struct arena_block);
    if (arena->blocks != NULL && arena->blocks->size < ARENA_BLOCK_MAX)
        size = arena->blocks->size * 2;
    else if (arena->blocks != NULL)
        size = ARENA_BLOCK_MAX;
    bool pooled = arena->pool != NULL && size >= ARENA_BLOCK_POOLED && need <= ARENA_BLOCK_MAX;
    if (pooled)
        size = ARENA_BLOCK_MAX;
    if (size < need)
        size = need;
    struct arena_block *block = pooled ? pool_take(arena->pool) : NULL;
    if (block == NULL)
        block = malloc(sizeof *block + size);
    if (block == NULL)
        return false;
    block->older = arena->blocks;
    block->size = size;
    use_block(arena, block);
    return true;
}

void arena_init(struct arena *arena)
{
    assert(arena != NULL);
    *arena = (struct arena){NULL, NULL, NULL, NULL};
}

void arena_init_pooled(struct arena *arena, struct arena_pool *pool)
{
    arena_init(arena);
    arena->pool = pool;
}

void *arena_alloc_slow(struct arena *arena, size_t size)
{
    assert(arena != NULL);
    assert((uintptr_t)arena->next % ARENA_ALIGN == 0);
    if (size > ARENA_PIECE_MAX)
        return NULL;
    size_t need = piece_size(size);
    if ((size_t)(arena->end - arena->next) < need && !add_block(arena, need))
        return NULL;
    char *piece = arena->next;
    arena->next += need;
    ARENA_UNFENCE(piece, size);
    return piece;
}

void *arena_zalloc(struct arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > ARENA_PIECE_MAX / size)
        return NULL;
    void *piece = arena_alloc(arena, count * size);
    if (piece != NULL)
        memset(piece, 0, count * size);
    return piece;
}

void *arena_grow(struct arena *arena, void *old, size_t old_size, size_t new_size)
{
    assert(arena != NULL);
    assert(old != NULL || old_size == 0);
    if (new_size > ARENA_PIECE_MAX)
        return NULL;
    char *start = old;
    if (start != NULL && start + piece_size(old_size) == arena->next &&
        piece_size(new_size) <= (size_t)(arena->end - start)) {
        ARENA_FENCE(start, (size_t)(arena->next - start));
        ARENA_UNFENCE(start, new_size);
        arena->next = start + piece_size(new_size);
        return old;
    }
    if (start != NULL && new_size <= old_size)
        return old;
    void *piece = arena_alloc(arena, new_size);
    if (piece != NULL && old_size > 0)
        memcpy(piece, old, old_size);
    return piece;
}

struct str arena_copy(struct arena *arena, struct str s)
{
    assert(s.at != NULL || s.len == 0);
    if (s.len == 0)
        return (struct str){s.at == NULL ? NULL : "", 0};
    char *copy = arena_alloc(arena, s.len);
    if (copy == NULL)
        return (struct str){NULL, 0};
    memcpy(copy, s.at, s.len);
    return (struct str){copy, s.len};
}

void arena_clear(struct arena *arena)
{
    assert(arena != NULL);
    struct arena_block *largest = arena->blocks;
    if (largest == NULL)
        return;
    for (struct arena_block *block = largest->older; block != NULL; block = block->older)
        largest = block->size > largest->size ? block : largest;
    struct arena_block *block = arena->blocks;
    while (block != NULL) {
        struct arena_block *older = block->older;
        if (block != largest)
            give_block(arena, block);
        block = older;
    }
    largest->older = NULL;
    use_block(arena, largest);
}

size_t arena_size(const struct arena *arena)
{
    size_t size = 0;
    for (const struct arena_block *block = arena->blocks; block != NULL; block = block->older)
        size += block->size;
    return size;
}

void arena_release(struct arena *arena)
{
    assert(arena != NULL);
    while (arena->blocks != NULL) {
        struct arena_block *older = arena->blocks->older;
        give_block(arena, arena->blocks);
        arena->blocks = older;
    }
    arena_init_pooled(arena, arena->pool);
}
