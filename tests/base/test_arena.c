#include "base/arena.h"

#include "fixture.h"

#define TOO_LARGE ((size_t)PTRDIFF_MAX)

static void an_empty_arena_takes_no_memory(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_null(arena.blocks);
    arena_clear(&arena);
    assert_null(arena.blocks);
    arena_release(&arena);
    assert_null(arena.blocks);
}

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    unsigned char *pieces[300];
    for (size_t i = 0; i < 300; i++) {
        pieces[i] = arena_alloc(&arena, i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xff), i);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(pieces[i][k], i & 0xff);
    arena_release(&arena);
}

static void a_piece_of_nothing_is_a_pointer_of_its_own(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    void *first = arena_alloc(&arena, 0);
    void *second = arena_alloc(&arena, 0);
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    arena_release(&arena);
}

static void a_piece_larger_than_any_block_gets_a_block(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *small = arena_alloc(&arena, 10);
    char *large = arena_alloc(&arena, 5 * 1024 * 1024);
    assert_non_null(small);
    assert_non_null(large);
    memset(small, 1, 10);
    memset(large, 2, 5 * 1024 * 1024);
    assert_int_equal(small[9], 1);
    arena_release(&arena);
}

static void sizes_that_wrap_are_refused(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_non_null(arena_alloc(&arena, 1));
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(arena_alloc(&arena, TOO_LARGE));
    assert_null(arena_zalloc(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_zalloc(&arena, (SIZE_MAX >> 4) + 2, 16));
    assert_non_null(arena_zalloc(&arena, 0, 16));
    assert_non_null(arena_zalloc(&arena, 16, 0));
    arena_release(&arena);
}

static void zalloc_gives_zeroes_even_in_used_memory(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    memset(arena_alloc(&arena, 1000), 0xff, 1000);
    arena_clear(&arena);
    const char *zeroes = arena_zalloc(&arena, 100, 10);
    assert_non_null(zeroes);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(zeroes[i], 0);
    arena_release(&arena);
}

static void the_newest_piece_grows_in_place(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *piece = arena_alloc(&arena, 20);
    memset(piece, 7, 20);
    char *grown = arena_grow(&arena, piece, 20, 500);
    assert_ptr_equal(grown, piece);
    assert_int_equal(grown[19], 7);
    memset(grown, 8, 500);
    char *next = arena_alloc(&arena, 1);
    assert_true(next >= grown + 500);
    arena_release(&arena);
}

static void an_older_piece_grows_by_copying(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *piece = arena_alloc(&arena, 20);
    memset(piece, 7, 20);
    char *newer = arena_alloc(&arena, 20);
    memset(newer, 9, 20);
    char *grown = arena_grow(&arena, piece, 20, 100);
    assert_ptr_not_equal(grown, piece);
    assert_int_equal(grown[0], 7);
    assert_int_equal(grown[19], 7);
    assert_int_equal(newer[19], 9);
    arena_release(&arena);
}

static void a_piece_grows_past_its_block(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    size_t size = 1;
    char *piece = arena_alloc(&arena, size);
    piece[0] = 'a';
    while (size < 3 * 1024 * 1024) {
        piece = arena_grow(&arena, piece, size, size * 2);
        assert_non_null(piece);
        memset(piece + size, 'a', size);
        size *= 2;
    }
    for (size_t i = 0; i < size; i++)
        assert_int_equal(piece[i], 'a');
    arena_release(&arena);
}

static void a_piece_that_cannot_grow_is_as_it_was(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *piece = arena_alloc(&arena, 3);
    memset(piece, 5, 3);
    assert_null(arena_grow(&arena, piece, 3, TOO_LARGE));
    assert_int_equal(piece[2], 5);
    assert_ptr_equal(arena_grow(&arena, piece, 3, 4), piece);
    arena_release(&arena);
}

static void growing_nothing_is_allocating(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *piece = arena_grow(&arena, NULL, 0, 10);
    assert_non_null(piece);
    memset(piece, 1, 10);
    arena_release(&arena);
}

static void a_piece_may_shrink(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    char *older = arena_alloc(&arena, 100);
    char *newest = arena_alloc(&arena, 100);
    assert_ptr_equal(arena_grow(&arena, older, 100, 10), older);
    assert_ptr_equal(arena_grow(&arena, newest, 100, 10), newest);
    assert_ptr_equal(arena_alloc(&arena, 1), newest + 16);
    arena_release(&arena);
}

static void a_copy_keeps_absent_and_empty_apart(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_false(str_is_set(arena_copy(&arena, (struct str){NULL, 0})));
    struct str empty = arena_copy(&arena, STR(""));
    assert_true(str_is_set(empty));
    assert_int_equal(empty.len, 0);
    struct str source = exact(STR("hello\0there"));
    struct str copy = arena_copy(&arena, source);
    exact_free(source);
    assert_str_equal(copy, STR("hello\0there"));
    arena_release(&arena);
}

static void a_copy_without_memory_is_absent(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_false(str_is_set(arena_copy(&arena, (struct str){"x", TOO_LARGE})));
    arena_release(&arena);
}

static void clearing_keeps_the_largest_block(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    (void)arena_alloc(&arena, 100);
    char *large = arena_alloc(&arena, 3 * 1024 * 1024);
    (void)arena_alloc(&arena, 1024 * 1024);
    (void)arena_alloc(&arena, 1024 * 1024);
    arena_clear(&arena);
    assert_ptr_equal(arena_alloc(&arena, 3 * 1024 * 1024), large);
    arena_clear(&arena);
    assert_ptr_equal(arena_alloc(&arena, 1), large);
    arena_release(&arena);
}

static void repeated_operations_settle_on_one_block(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 1000; i++)
            memset(arena_alloc(&arena, 100), round, 100);
        arena_clear(&arena);
    }
    struct arena_block *block = arena.blocks;
    for (int i = 0; i < 1000; i++)
        (void)arena_alloc(&arena, 100);
    assert_ptr_equal(arena.blocks, block);
    arena_release(&arena);
}

static void large_blocks_of_a_pool_are_used_again(void **state)
{
    (void)state;
    struct arena_pool *pool = arena_pool_new();
    struct arena first;
    struct arena second;
    assert_non_null(pool);
    arena_init_pooled(&first, pool);
    arena_init_pooled(&second, pool);
    for (int i = 0; i < 30; i++)
        assert_non_null(arena_alloc(&first, 100 * 1000));
    struct arena_block *block = first.blocks;
    arena_release(&first);
    bool again = false;
    for (int i = 0; i < 30; i++) {
        assert_non_null(arena_alloc(&second, 100 * 1000));
        again = again || second.blocks == block;
    }
    assert_true(again);
    arena_release(&second);
    arena_pool_drop(pool);
}

static void a_pool_is_there_until_its_last_user_has_dropped_it(void **state)
{
    (void)state;
    struct arena_pool *pool = arena_pool_new();
    struct arena arena;
    assert_non_null(pool);
    arena_pool_hold(pool);
    arena_init_pooled(&arena, pool);
    arena_pool_drop(pool);
    assert_non_null(arena_alloc(&arena, 1000 * 1000));
    arena_release(&arena);
    arena_pool_drop(arena.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_arena_takes_no_memory),
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(a_piece_of_nothing_is_a_pointer_of_its_own),
        cmocka_unit_test(a_piece_larger_than_any_block_gets_a_block),
        cmocka_unit_test(sizes_that_wrap_are_refused),
        cmocka_unit_test(zalloc_gives_zeroes_even_in_used_memory),
        cmocka_unit_test(the_newest_piece_grows_in_place),
        cmocka_unit_test(an_older_piece_grows_by_copying),
        cmocka_unit_test(a_piece_grows_past_its_block),
        cmocka_unit_test(a_piece_that_cannot_grow_is_as_it_was),
        cmocka_unit_test(growing_nothing_is_allocating),
        cmocka_unit_test(a_piece_may_shrink),
        cmocka_unit_test(a_copy_keeps_absent_and_empty_apart),
        cmocka_unit_test(a_copy_without_memory_is_absent),
        cmocka_unit_test(clearing_keeps_the_largest_block),
        cmocka_unit_test(repeated_operations_settle_on_one_block),
        cmocka_unit_test(large_blocks_of_a_pool_are_used_again),
        cmocka_unit_test(a_pool_is_there_until_its_last_user_has_dropped_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
