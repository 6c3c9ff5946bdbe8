/* What tests of base share: an arena for each test, and texts in blocks of exactly their size, so
 * that the address sanitizer sees every byte that is read outside them. */
#ifndef PAWL_TESTS_BASE_FIXTURE_H
#define PAWL_TESTS_BASE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/str.h"

static inline int arena_setup(void **state)
{
    struct arena *arena = malloc(sizeof *arena);
    if (arena == NULL)
        return -1;
    arena_init(arena);
    *state = arena;
    return 0;
}

static inline int arena_teardown(void **state)
{
    arena_release(*state);
    free(*state);
    return 0;
}

/* A test whose state is an empty arena. */
#define WITH_ARENA(test) cmocka_unit_test_setup_teardown(test, arena_setup, arena_teardown)

/* A copy of `text`, to be given to exact_free. */
static inline struct str exact(struct str text)
{
    char *block = calloc(1, text.len);
    assert_non_null(block);
    if (text.len > 0)
        memcpy(block, text.at, text.len);
    return (struct str){block, text.len};
}

static inline void exact_free(struct str text)
{
    free((void *)(uintptr_t)text.at);
}

#define assert_str_equal(actual, expected)                                                         \
    do {                                                                                           \
        struct str actual_ = (actual);                                                             \
        struct str expected_ = (expected);                                                         \
        assert_int_equal(actual_.len, expected_.len);                                              \
        assert_memory_equal(actual_.at, expected_.at, expected_.len);                              \
    } while (0)

#endif
