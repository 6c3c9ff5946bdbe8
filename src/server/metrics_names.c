#include "server/metrics_names.h"

#include <assert.h>

#include "base/buf.h"

static const struct str other = STR_INIT("other");

/* Between two parts of a name, where it cannot occur. */
static const char between = '\x1f';

static bool is_at(const struct name_table *table, uint32_t number, const struct str *parts)
{
    const struct str *names = table->places[number].parts;
    return str_eq(names[0], parts[0]) && (table->parts == 1 || str_eq(names[1], parts[1]));
}

/* Takes memory once for each place: a name, what is counted, and its entry in the map. */
static void *add(struct name_table *table, const struct str *parts, struct str key)
{
    uint32_t number = atomic_load_explicit(&table->count, memory_order_relaxed);
    struct name_place place = {.series = arena_zalloc(table->arena, 1, table->series_size)};
    struct str kept = arena_copy(table->arena, key);
    uint32_t found;
    if (place.series == NULL || !str_is_set(kept) ||
        map_put(&table->numbers, kept, number, &found) != ERR_OK)
        return table->places[0].series;
    assert(found == MAP_NONE);
    place.parts[0] = (struct str){kept.at, parts[0].len};
    if (table->parts > 1)
        place.parts[1] = (struct str){kept.at + parts[0].len + 1, parts[1].len};
    table->places[number] = place;
    table->last = number;
    atomic_store_explicit(&table->count, number + 1, memory_order_release);
    return place.series;
}

bool names_init(struct name_table *table, struct arena *arena, uint32_t parts, size_t series_size,
                uint64_t seed)
{
    assert(parts >= 1 && parts <= NAME_PARTS_MAX);
    table->arena = arena;
    table->series_size = series_size;
    table->parts = parts;
    table->last = 0;
    atomic_init(&table->count, 1);
    map_init(&table->numbers, arena, NAMES_MAX + 1, seed);
    table->places[0] = (struct name_place){.series = arena_zalloc(arena, 1, series_size)};
    for (uint32_t i = 0; i < parts; i++)
        table->places[0].parts[i] = other;
    return table->places[0].series != NULL;
}

void *names_find(struct name_table *table, const struct str *parts)
{
    enum { KEY_MAX = 512 };
    char text[KEY_MAX];
    if (is_at(table, table->last, parts))
        return table->places[table->last].series;
    size_t len = parts[0].len + (table->parts > 1 ? parts[1].len + 1 : 0);
    /* What is called "other" by its users is counted with all others. */
    if (!str_is_set(parts[0]) || len > sizeof text || is_at(table, 0, parts))
        return table->places[0].series;
    struct str key = parts[0];
    if (table->parts > 1) {
        memcpy(text, parts[0].at, parts[0].len);
        text[parts[0].len] = between;
        if (parts[1].len > 0)
            memcpy(text + parts[0].len + 1, parts[1].at, parts[1].len);
        key = (struct str){text, len};
    }
    uint32_t number = map_get(&table->numbers, key);
    if (number != MAP_NONE) {
        table->last = number;
        return table->places[number].series;
    }
    bool full = atomic_load_explicit(&table->count, memory_order_relaxed) > NAMES_MAX;
    return full ? table->places[0].series : add(table, parts, key);
}
