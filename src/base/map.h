/* A hash table from strings to small numbers, in an arena.
 *
 * Keys come from requests, so the hash (SipHash-1-3) takes a seed that an attacker does not know.
 * What is found never depends on the seed, only how fast. Keys are views: their bytes must outlive
 * the map. */
#ifndef PAWL_BASE_MAP_H
#define PAWL_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#define MAP_NONE UINT32_MAX

struct map_slot;

struct map {
    struct arena *arena;
    struct map_slot *slots;
    uint32_t mask; /* slots - 1 */
    uint32_t count;
    uint64_t seed;
};

/* An empty map with room for `expected` keys before it grows; takes memory at the first map_put. */
void map_init(struct map *map, struct arena *arena, uint32_t expected, uint64_t seed);

/* The number put under `key`, or MAP_NONE. */
uint32_t map_get(const struct map *map, struct str key);

/* Makes room for `count` more keys: as many map_put cannot fail then. False: no memory. */
bool map_reserve(struct map *map, uint32_t count);

/* Puts `value` (not MAP_NONE) under `key` unless the key is there, and returns in `ret_found` the
 * number that was there before, or MAP_NONE. Fails with no_memory only. */
enum error_code map_put(struct map *map, struct str key, uint32_t value, uint32_t *ret_found);

#endif
