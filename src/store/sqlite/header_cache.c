#include "store/sqlite/header_cache.h"

#include "core/job_state.h"

/* Of one generation. A header takes a kilobyte beside what its spec and its state say. */
enum {
    HEADERS_MAX = 16 * 1024,
    HEADER_BYTES_MAX = 32 * 1024 * 1024,
    LARGE_BYTES = 16 * 1024, /* of a payload, after which the memory is looked at */
};

static struct str key_of(const struct uuid *id)
{
    return (struct str){(const char *)id->bytes, sizeof id->bytes};
}

static void begin(struct header_cache *cache, struct header_generation *generation)
{
    arena_clear(&generation->arena);
    map_init(&generation->map, &generation->arena, HEADERS_MAX / 8, cache->seed);
    generation->at = NULL;
    generation->count = generation->cap = 0;
    generation->bytes = 0;
}

void header_cache_init(struct header_cache *cache, uint64_t seed)
{
    *cache = (struct header_cache){.seed = seed};
    for (int i = 0; i < 2; i++) {
        arena_init(&cache->generations[i].arena);
        begin(cache, &cache->generations[i]);
    }
}

void header_cache_release(struct header_cache *cache)
{
    for (int i = 0; i < 2; i++)
        arena_release(&cache->generations[i].arena);
}

static struct header *find_in(const struct header_generation *generation, const struct uuid *id)
{
    uint32_t index = map_get(&generation->map, key_of(id));
    return index == MAP_NONE ? NULL : generation->at[index];
}

const struct header *header_cache_find(const struct header_cache *cache, const struct uuid *id)
{
    const struct header *header = find_in(&cache->generations[cache->young], id);
    if (header == NULL)
        header = find_in(&cache->generations[1 - cache->young], id);
    return header == NULL || header->gone ? NULL : header;
}

void header_cache_drop(struct header_cache *cache, const struct uuid *id)
{
    for (int i = 0; i < 2; i++) {
        struct header *header = find_in(&cache->generations[i], id);
        if (header != NULL)
            header->gone = true;
    }
}

static struct header *add(struct header_generation *generation, const struct uuid *id)
{
    struct header *header = arena_alloc(&generation->arena, sizeof *header);
    uint32_t found;
    if (header == NULL)
        return NULL;
    *header = (struct header){.id = *id, .gone = true};
    if (generation->count == generation->cap) {
        uint32_t cap = generation->cap < 64 ? 64 : generation->cap * 2;
        struct header **at = arena_grow(&generation->arena, generation->at,
                                        generation->cap * sizeof(void *), cap * sizeof(void *));
        if (at == NULL)
            return NULL;
        generation->at = at;
        generation->cap = cap;
    }
    if (map_put(&generation->map, key_of(&header->id), generation->count, &found) != ERR_OK)
        return NULL;
    generation->at[generation->count++] = header;
    return header;
}

static bool copy(struct arena *arena, struct str *text)
{
    bool was_set = str_is_set(*text);
    *text = arena_copy(arena, *text);
    return str_is_set(*text) == was_set;
}

void header_cache_put(struct header_cache *cache, const struct header *header)
{
    struct header_generation *young = &cache->generations[cache->young];
    struct header *kept = find_in(young, &header->id);
    if (kept == NULL)
        kept = add(young, &header->id);
    struct header fresh = *header;
    fresh.gone = false;
    /* The spec of a job that is known here is there already. */
    const struct spec *spec = kept != NULL && !kept->gone ? &kept->job.spec : NULL;
    if (kept == NULL || !job_copy_texts(&fresh.job, spec, &young->arena) ||
        !copy(&young->arena, &fresh.hashes) || !copy(&young->arena, &fresh.record) ||
        !copy(&young->arena, &fresh.effects)) {
        header_cache_drop(cache, &header->id);
        return;
    }
    *kept = fresh;
    /* What is replaced stays there until all of it goes. */
    if ((++young->puts & 63) == 0 || fresh.job.spec.payload.len >= LARGE_BYTES)
        young->bytes = arena_size(&young->arena);
    /* Last, since what was put may be of the older generation, which goes now. */
    if (young->count >= HEADERS_MAX || young->bytes >= HEADER_BYTES_MAX) {
        cache->young = 1 - cache->young;
        begin(cache, &cache->generations[cache->young]);
    }
}
