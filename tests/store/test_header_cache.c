/* Headers of jobs in memory: two generations, of which the older one goes. */
#include "store/sqlite/header_cache.h"

#include "core/scenario.h"

static struct uuid id_of(uint32_t number)
{
    struct uuid id = {{1}};
    memcpy(id.bytes + 4, &number, sizeof number);
    return id;
}

static void put(struct header_cache *cache, uint32_t number)
{
    struct header header = {
        .id = id_of(number),
        .no = number,
        .record = STR("what a job gained"),
        .hashes = STR("and its hashes"),
        .job.spec.kind = STR("mail"),
    };
    header.job.id = header.id;
    header_cache_put(cache, &header);
}

static const struct header *find(const struct header_cache *cache, uint32_t number)
{
    struct uuid id = id_of(number);
    return header_cache_find(cache, &id);
}

/* Puts headers numbered from `first` on until the younger generation takes the place of the older
 * one; how many. */
static uint32_t fill(struct header_cache *cache, uint32_t first)
{
    uint32_t young = cache->young;
    uint32_t count = 0;
    while (cache->young == young)
        put(cache, first + count++);
    return count;
}

static void what_is_put_last_is_found(void **state)
{
    (void)state;
    struct header_cache cache;
    header_cache_init(&cache, 7);
    uint32_t last = fill(&cache, 1);
    for (uint32_t number = 1; number <= last; number++)
        assert_int_equal(find(&cache, number)->no, number);
    uint32_t more = fill(&cache, last + 1);
    for (uint32_t number = last + 1; number <= last + more; number++)
        assert_int_equal(find(&cache, number)->no, number);
    assert_null(find(&cache, 1));
    header_cache_release(&cache);
}

/* One that was found is put again as it was, but for what has changed: its texts are those of the
 * generation that may be about to go. */
static void a_header_of_the_older_generation_can_be_put_again(void **state)
{
    (void)state;
    struct header_cache cache;
    header_cache_init(&cache, 7);
    uint32_t first = fill(&cache, 1);
    uint32_t second = fill(&cache, first + 1);
    header_cache_release(&cache);
    for (uint32_t left = 1; left <= 3; left++) {
        header_cache_init(&cache, 7);
        (void)fill(&cache, 1);
        for (uint32_t i = 1; i + left <= second; i++)
            put(&cache, first + i);
        assert_non_null(find(&cache, 1));
        struct header again = *find(&cache, 1);
        again.claim_bytes = 5;
        header_cache_put(&cache, &again);
        const struct header *known = find(&cache, 1);
        assert_non_null(known);
        assert_int_equal(known->claim_bytes, 5);
        assert_text(known->record, "what a job gained");
        assert_text(known->hashes, "and its hashes");
        assert_text(known->job.spec.kind, "mail");
        header_cache_release(&cache);
    }
}

static void what_is_dropped_is_known_in_no_generation(void **state)
{
    (void)state;
    struct header_cache cache;
    header_cache_init(&cache, 7);
    (void)fill(&cache, 1);
    put(&cache, 1);
    struct uuid id = id_of(1);
    header_cache_drop(&cache, &id);
    assert_null(find(&cache, 1));
    put(&cache, 1);
    assert_non_null(find(&cache, 1));
    header_cache_release(&cache);
}

static void large_jobs_take_no_more_memory_than_small_ones(void **state)
{
    (void)state;
    enum { PAYLOAD = 1024 * 1024, TWO_GENERATIONS = 2 * 34 * PAYLOAD };
    static char payload[PAYLOAD];
    struct header_cache cache;
    header_cache_init(&cache, 7);
    for (uint32_t i = 1; i <= 100; i++) {
        struct header header = {.id = id_of(i), .no = i};
        header.job.id = header.id;
        header.job.spec.payload = (struct str){payload, sizeof payload};
        header_cache_put(&cache, &header);
        assert_non_null(find(&cache, i));
        size_t bytes = 0;
        for (int g = 0; g < 2; g++)
            bytes += arena_size(&cache.generations[g].arena);
        assert_true(bytes <= TWO_GENERATIONS);
    }
    header_cache_release(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_last_is_found),
        cmocka_unit_test(a_header_of_the_older_generation_can_be_put_again),
        cmocka_unit_test(what_is_dropped_is_known_in_no_generation),
        cmocka_unit_test(large_jobs_take_no_more_memory_than_small_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
