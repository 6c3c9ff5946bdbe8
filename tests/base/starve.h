/* Memory that runs out where a test wants it: an arena of exactly so many bytes, and a malloc that
 * then gives no more. Include in one file of a program.
 *
 * Sanitizers bring a malloc of their own, so under them STARVING is 0 and such tests skip. */
#ifndef PAWL_TESTS_BASE_STARVE_H
#define PAWL_TESTS_BASE_STARVE_H

#include <stdbool.h>

#include "fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARVING 0
static inline void malloc_fails(bool fails)
{
    (void)fails;
}
#else
#define STARVING 1
static bool malloc_is_failing;

static inline void malloc_fails(bool fails)
{
    malloc_is_failing = fails;
}

void *__libc_malloc(size_t size); /* NOLINT: glibc's own, under the name that is not replaced */

void *malloc(size_t size)
{
    return malloc_is_failing ? NULL : __libc_malloc(size);
}
#endif

/* Calls `attempt` with an arena of 0 bytes, then of 16, 32, … until it does not fail with no_memory
 * any more, and returns how often it did. Each allocation that `attempt` makes is so the one that
 * fails at least once. `attempt` must not assert, since that allocates. */
static inline int starve(bool (*attempt)(struct arena *arena, void *data), void *data)
{
    enum { BYTES_MAX = 64 * 1024 };
    char *memory = aligned_alloc(16, BYTES_MAX);
    assert_non_null(memory);
    int failed = 0;
    bool enough = false;
    for (size_t bytes = 0; !enough && bytes <= BYTES_MAX; bytes += 16) {
        struct arena arena = {.next = memory, .end = memory + bytes};
        malloc_fails(true);
        enough = attempt(&arena, data);
        malloc_fails(false);
        failed += enough ? 0 : 1;
    }
    free(memory);
    assert_true(enough);
    return failed;
}

#endif
