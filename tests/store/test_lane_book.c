/* The book of lane numbers. */
#include "store/lane_book.h"

#include <stdio.h>

#include "../base/starve.h"

static int book_setup(void **state)
{
    struct lane_book *book = malloc(sizeof *book);
    if (book == NULL)
        return -1;
    lane_book_init(book, 7);
    *state = book;
    return 0;
}

static int book_teardown(void **state)
{
    lane_book_release(*state);
    free(*state);
    return 0;
}

#define WITH_BOOK(test) cmocka_unit_test_setup_teardown(test, book_setup, book_teardown)

static void add_ok(struct lane_book *book, uint32_t number, struct str key)
{
    struct err err = {0};
    assert_int_equal(lane_book_add(book, number, key, &err), ERR_OK);
    assert_int_equal(lane_book_find(book, key), number);
}

static void refuses(struct lane_book *book, uint32_t number, struct str key, enum error_code code)
{
    struct err err = {0};
    uint32_t count = lane_book_count(book);
    uint32_t known = lane_book_find(book, key);
    assert_int_equal(lane_book_add(book, number, key, &err), code);
    assert_int_equal(err.code, code);
    assert_int_equal(lane_book_add(book, number, key, NULL), code);
    assert_int_equal(lane_book_count(book), count);
    assert_int_equal(lane_book_find(book, key), known);
}

static void an_empty_book_knows_nothing(void **state)
{
    struct lane_book *book = *state;
    assert_int_equal(lane_book_find(book, STR("a")), 0);
    assert_int_equal(lane_book_find(book, STR("")), 0);
    assert_int_equal(lane_book_count(book), 0);
}

static void a_number_is_found_by_its_key(void **state)
{
    struct lane_book *book = *state;
    add_ok(book, 1, STR("[\"job\",\"q\",\"k\"]"));
    add_ok(book, 2, STR("[\"job\",\"q\",\"\\\"\\u0000工\"]"));
    add_ok(book, 3, (struct str){"a\0b", 3});
    add_ok(book, 4, (struct str){"a\0c", 3});
    add_ok(book, 5, STR(""));
    assert_int_equal(lane_book_find(book, STR("a")), 0);
    assert_int_equal(lane_book_count(book), 5);
}

static void the_key_is_copied(void **state)
{
    struct lane_book *book = *state;
    char text[] = "lane";
    add_ok(book, 1, (struct str){text, 4});
    memset(text, 'x', 4);
    assert_int_equal(lane_book_find(book, STR("lane")), 1);
}

static void what_is_known_may_be_told_again(void **state)
{
    struct lane_book *book = *state;
    add_ok(book, 1, STR("a"));
    add_ok(book, 1, STR("a"));
    assert_int_equal(lane_book_count(book), 1);
}

static void numbers_may_come_in_any_order_and_leave_gaps(void **state)
{
    struct lane_book *book = *state;
    add_ok(book, 900, STR("c"));
    assert_int_equal(book->highest, 900);
    add_ok(book, 5, STR("a"));
    add_ok(book, 31, STR("b"));
    add_ok(book, 2000, STR("d"));
    assert_int_equal(book->highest, 2000);
    assert_int_equal(lane_book_count(book), 4);
    assert_int_equal(lane_book_find(book, STR("b")), 31);
}

static void a_book_that_is_cleared_knows_nothing(void **state)
{
    struct lane_book *book = *state;
    add_ok(book, 900, STR("c"));
    lane_book_clear(book);
    assert_int_equal(lane_book_find(book, STR("c")), 0);
    assert_int_equal(lane_book_count(book), 0);
    assert_int_equal(book->highest, 0);
    add_ok(book, 1, STR("c"));
}

static void a_key_of_two_numbers_is_corrupt(void **state)
{
    struct lane_book *book = *state;
    add_ok(book, 1, STR("a"));
    add_ok(book, 3, STR("c"));
    refuses(book, 2, STR("a"), ERR_CORRUPT);
    refuses(book, 3, STR("a"), ERR_CORRUPT);
    refuses(book, 9, STR("a"), ERR_CORRUPT);
    refuses(book, 0, STR("b"), ERR_CORRUPT);
    refuses(book, 0, STR("a"), ERR_CORRUPT);
    add_ok(book, 2, STR("b"));
}

static void there_are_so_many_lanes_and_no_more(void **state)
{
    struct lane_book *book = *state;
    char key[16];
    for (uint32_t number = 1; number <= STORE_LANES_MAX; number++) {
        int len = snprintf(key, sizeof key, "%u", number);
        assert_int_equal(lane_book_add(book, number, (struct str){key, (size_t)len}, NULL), ERR_OK);
    }
    refuses(book, STORE_LANES_MAX + 1, STR("more"), ERR_RATE_LIMITED);
    refuses(book, UINT32_MAX, STR("more"), ERR_RATE_LIMITED);
    assert_int_equal(lane_book_count(book), STORE_LANES_MAX);
    for (uint32_t number = 1; number <= STORE_LANES_MAX; number += 997) {
        int len = snprintf(key, sizeof key, "%u", number);
        assert_int_equal(lane_book_find(book, (struct str){key, (size_t)len}), number);
    }
}

/* ---- memory ---- */

struct trial {
    enum error_code code;
    bool flaw;
};

/* Three lanes of a book in `arena`: what was not learned is not known. */
static bool try_to_learn(struct arena *arena, void *data)
{
    static const struct str keys[] = {STR_INIT("a lane"), STR_INIT("another lane"),
                                      STR_INIT("a lane far away")};
    static const uint32_t numbers[] = {1, 2, 200};
    struct trial *trial = data;
    struct lane_book book;
    lane_book_init(&book, 7);
    book.arena = *arena;
    trial->code = ERR_OK;
    for (int i = 0; i < 3 && trial->code == ERR_OK; i++) {
        struct err err = {0};
        trial->code = lane_book_add(&book, numbers[i], keys[i], &err);
        uint32_t known = trial->code == ERR_OK ? numbers[i] : 0;
        if (err.code != trial->code || lane_book_find(&book, keys[i]) != known ||
            (i > 0 && lane_book_find(&book, keys[0]) != 1))
            trial->flaw = true;
    }
    return trial->code != ERR_NO_MEMORY;
}

static void a_book_survives_without_memory(void **state)
{
    (void)state;
    struct trial trial = {0};
    if (!STARVING)
        skip();
    assert_true(starve(try_to_learn, &trial) > 3);
    assert_int_equal(trial.code, ERR_OK);
    assert_false(trial.flaw);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOOK(an_empty_book_knows_nothing),
        WITH_BOOK(a_number_is_found_by_its_key),
        WITH_BOOK(the_key_is_copied),
        WITH_BOOK(what_is_known_may_be_told_again),
        WITH_BOOK(numbers_may_come_in_any_order_and_leave_gaps),
        WITH_BOOK(a_book_that_is_cleared_knows_nothing),
        WITH_BOOK(a_key_of_two_numbers_is_corrupt),
        WITH_BOOK(there_are_so_many_lanes_and_no_more),
        WITH_BOOK(a_book_survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
