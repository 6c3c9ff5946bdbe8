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

uint32_t lane_book_find(const struct lane_book *book, struct str key)
{
    uint32_t number = map_get(&book->numbers, key);
    return number == MAP_NONE ? 0 : number;
}

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "there is no memory for another lane");
}

enum error_code lane_book_add(struct lane_book *book, uint32_t number, struct str key,
                              struct err *err)
{
    assert(str_is_set(key));
    if (number > STORE_LANES_MAX)
        return err_set(err, ERR_RATE_LIMITED,
                       "there are over %d different combinations of queue, kind, capabilities, "
                       "selector and avoid list",
                       STORE_LANES_MAX);
    uint32_t known = lane_book_find(book, key);
    bool taken = number > 0 && number <= book->count && str_is_set(book->keys[number - 1]);
    if (taken && known == number)
        return ERR_OK;
    if (number == 0 || known != 0 || taken)
        return err_set(err, ERR_CORRUPT,
                       "the lane %.*s cannot be number %u: one of them is known as another",
                       STR_ARG(key), number);
    if (number > book->cap) {
        uint32_t cap = number < 32 ? 64 : number * 2;
        struct str *keys =
            arena_grow(&book->arena, book->keys, book->cap * sizeof *keys, cap * sizeof *keys);
        if (keys == NULL)
            return no_memory(err);
        for (uint32_t i = book->cap; i < cap; i++)
            keys[i] = (struct str){NULL, 0};
        book->keys = keys;
        book->cap = cap;
    }
    struct str copy = arena_copy(&book->arena, key);
    uint32_t found;
    if (!str_is_set(copy) || map_put(&book->numbers, copy, number, &found) != ERR_OK)
        return no_memory(err);
    book->keys[number - 1] = copy;
    if (number > book->count)
        book->count = number;
    return ERR_OK;
}
