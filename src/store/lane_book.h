/* The numbers of lanes, as far as one process knows them: a cache in front of a store's table. */
#ifndef PAWL_STORE_LANE_BOOK_H
#define PAWL_STORE_LANE_BOOK_H

#include "base/map.h"
#include "store/store.h"

/* Not locked: its owner sees to that. */
struct lane_book {
    struct arena arena;
    struct map numbers; /* key -> number */
    uint32_t highest;   /* number known */
};

void lane_book_init(struct lane_book *book, uint64_t seed);
void lane_book_release(struct lane_book *book);

/* The number of a lane, or 0 when it is not known here. */
uint32_t lane_book_find(const struct lane_book *book, struct str key);

/* How many lanes are known. */
uint32_t lane_book_count(const struct lane_book *book);

/* Forgets everything. */
void lane_book_clear(struct lane_book *book);

/* Learns a number, copying the key. Fails with no_memory, with rate_limited for more lanes than
 * STORE_LANES_MAX, and with corrupt when the number is 0 or the key has another. */
enum error_code lane_book_add(struct lane_book *book, uint32_t number, struct str key,
                              struct err *err);

#endif
