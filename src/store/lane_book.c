#include "store/lane_book.h"

#include <assert.h>

void lane_book_init(struct lane_book *book, uint64_t seed)
{
    *book = (struct lane_book){0};
    arena_init(&book->arena);
    map_init(&book->numbers, &book->arena, 64, seed);
}

void lane_book_release(struct lane_book *book)
{
    arena_release(&book->arena);
}

void lane_book_clear(struct lane_book *book)
{
    uint64_t seed = book->numbers.seed;
    lane_book_release(book);
    lane_book_init(book, seed);
}

uint32_t lane_book_find(const struct lane_book *book, struct str key)
{
    uint32_t number = map_get(&book->numbers, key);
    return number == MAP_NONE ? 0 : number;
}

uint32_t lane_book_count(const struct lane_book *book)
{
    return book->numbers.count;
}

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

enum error_code lane_book_add(struct lane_book *book, uint32_t number, struct str key,
                              struct err *err)
{
    assert(str_is_set(key));
    uint32_t known = lane_book_find(book, key);
    if (number != 0 && known == number)
        return ERR_OK;
    if (number == 0 || known != 0)
        return err_set(err, ERR_CORRUPT, "the lane %.*s cannot be number %u: it is %u",
                       STR_ARG(key), number, known);
    if (lane_book_count(book) >= STORE_LANES_MAX)
        return err_set(err, ERR_RATE_LIMITED,
                       "the limit of %d combinations of queue, kind, capabilities, selector and "
                       "avoid list is reached",
                       STORE_LANES_MAX);
    struct str copy = arena_copy(&book->arena, key);
    uint32_t found;
    if (!str_is_set(copy) || map_put(&book->numbers, copy, number, &found) != ERR_OK)
        return no_memory(err);
    if (number > book->highest)
        book->highest = number;
    return ERR_OK;
}
