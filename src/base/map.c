#include "base/map.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum { MAP_SLOTS_MIN = 8 };

#define MAP_SLOTS_MAX (UINT32_C(1) << 31)

struct map_slot {
    struct str key;
    uint32_t hash;
    uint32_t value; /* MAP_NONE: the slot is free */
};

/* The four words of SipHash's state. */
struct sip {
    uint64_t a;
    uint64_t b;
    uint64_t c;
    uint64_t d;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Inlined, or the state would live in memory instead of registers. */
__attribute__((always_inline)) static inline void sip_round(struct sip *sip)
{
    sip->a += sip->b;
    sip->b = rotate(sip->b, 13) ^ sip->a;
    sip->a = rotate(sip->a, 32);
    sip->c += sip->d;
    sip->d = rotate(sip->d, 16) ^ sip->c;
    sip->a += sip->d;
    sip->d = rotate(sip->d, 21) ^ sip->a;
    sip->c += sip->b;
    sip->b = rotate(sip->b, 17) ^ sip->c;
    sip->c = rotate(sip->c, 32);
}

__attribute__((always_inline)) static inline void sip_take(struct sip *sip, uint64_t word)
{
    sip->d ^= word;
    sip_round(sip);
    sip->a ^= word;
}

/* SipHash-1-3 with the seed as the first half of its key; the other half is fixed. */
static uint32_t hash_key(uint64_t seed, struct str key)
{
    const uint64_t second = UINT64_C(0x9e3779b97f4a7c15);
    struct sip sip = {
        seed ^ UINT64_C(0x736f6d6570736575),
        second ^ UINT64_C(0x646f72616e646f6d),
        seed ^ UINT64_C(0x6c7967656e657261),
        second ^ UINT64_C(0x7465646279746573),
    };
    const char *at = key.at;
    size_t rest = key.len;
    uint64_t word;
    for (; rest >= sizeof word; rest -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sip_take(&sip, word);
        at += sizeof word;
    }
    word = (uint64_t)key.len << 56;
    for (size_t i = 0; i < rest; i++)
        word |= (uint64_t)(unsigned char)at[i] << (8 * i);
    sip_take(&sip, word);
    sip.c ^= 0xff;
    sip_round(&sip);
    sip_round(&sip);
    sip_round(&sip);
    return (uint32_t)(sip.a ^ sip.b ^ sip.c ^ sip.d);
}

/* How many keys `slots` slots may hold: three in four, so that runs stay short. */
static uint32_t keys_max(uint32_t slots)
{
    return slots / 4 * 3;
}

void map_init(struct map *map, struct arena *arena, uint32_t expected, uint64_t seed)
{
    assert(map != NULL);
    assert(arena != NULL);
    uint32_t slots = MAP_SLOTS_MIN;
    while (keys_max(slots) < expected && slots < MAP_SLOTS_MAX)
        slots *= 2;
    *map = (struct map){.arena = arena, .mask = slots - 1, .seed = seed};
}

/* The slot that holds `key`, or the free one where it belongs. */
static struct map_slot *find_slot(const struct map *map, struct str key, uint32_t hash)
{
    assert(map->slots != NULL);
    assert(map->count <= map->mask);
    uint32_t index = hash & map->mask;
    for (;;) {
        struct map_slot *slot = &map->slots[index];
        if (slot->value == MAP_NONE || (slot->hash == hash && str_eq(slot->key, key)))
            return slot;
        index = (index + 1) & map->mask;
    }
}

uint32_t map_get(const struct map *map, struct str key)
{
    assert(key.at != NULL);
    if (map->count == 0)
        return MAP_NONE;
    return find_slot(map, key, hash_key(map->seed, key))->value;
}

/* Moves the map into new slots, `slots` of them; false when there is no memory. */
static bool resize(struct map *map, uint32_t slots)
{
    assert((slots & (slots - 1)) == 0);
    assert(map->count <= keys_max(slots));
    struct map larger = *map;
    larger.slots = arena_zalloc(map->arena, slots, sizeof *larger.slots);
    larger.mask = slots - 1;
    if (larger.slots == NULL)
        return false;
    for (uint32_t i = 0; i < slots; i++)
        larger.slots[i].value = MAP_NONE;
    for (uint32_t i = 0; map->slots != NULL && i <= map->mask; i++) {
        struct map_slot *slot = &map->slots[i];
        if (slot->value != MAP_NONE)
            *find_slot(&larger, slot->key, slot->hash) = *slot;
    }
    *map = larger;
    return true;
}

bool map_reserve(struct map *map, uint32_t count)
{
    uint32_t slots = map->mask + 1;
    while (keys_max(slots) < map->count + count && slots < MAP_SLOTS_MAX)
        slots *= 2;
    return (map->slots != NULL && slots == map->mask + 1) || resize(map, slots);
}

enum error_code map_put(struct map *map, struct str key, uint32_t value, uint32_t *ret_found)
{
    assert(key.at != NULL);
    assert(value != MAP_NONE);
    if (map->slots == NULL && !resize(map, map->mask + 1))
        return ERR_NO_MEMORY;
    uint32_t hash = hash_key(map->seed, key);
    struct map_slot *slot = find_slot(map, key, hash);
    if (slot->value != MAP_NONE) {
        *ret_found = slot->value;
        return ERR_OK;
    }
    if (map->count == keys_max(map->mask + 1)) {
        if (map->mask + 1 == MAP_SLOTS_MAX || !resize(map, (map->mask + 1) * 2))
            return ERR_NO_MEMORY;
        slot = find_slot(map, key, hash);
    }
    *slot = (struct map_slot){key, hash, value};
    map->count++;
    *ret_found = MAP_NONE;
    return ERR_OK;
}
