#include "base/map.h"

#include "base/buf.h"
#include "fixture.h"
#include "starve.h"

static struct str numbered_key(struct arena *arena, const char *format_before, int number)
{
    struct buf buf;
    buf_init(&buf, arena, 0);
    buf_addf(&buf, "%s%d", format_before, number);
    return buf_str(&buf);
}

static void an_empty_map_has_nothing(void **state)
{
    struct map map;
    map_init(&map, *state, 0, 1);
    assert_int_equal(map_get(&map, STR("a")), MAP_NONE);
    assert_null(map.slots);
}

static void what_was_put_is_found(void **state)
{
    struct map map;
    uint32_t found = 5;
    map_init(&map, *state, 0, 1);
    assert_int_equal(map_put(&map, STR("a"), 10, &found), ERR_OK);
    assert_int_equal(found, MAP_NONE);
    assert_int_equal(map_put(&map, STR("b"), 0, &found), ERR_OK);
    assert_int_equal(map_get(&map, STR("a")), 10);
    assert_int_equal(map_get(&map, STR("b")), 0);
    assert_int_equal(map_get(&map, STR("c")), MAP_NONE);
    assert_int_equal(map.count, 2);
}

static void a_key_that_is_there_keeps_its_number(void **state)
{
    struct map map;
    uint32_t found = 5;
    map_init(&map, *state, 0, 1);
    assert_int_equal(map_put(&map, STR("a"), 10, &found), ERR_OK);
    assert_int_equal(map_put(&map, STR("a"), 11, &found), ERR_OK);
    assert_int_equal(found, 10);
    assert_int_equal(map_get(&map, STR("a")), 10);
    assert_int_equal(map.count, 1);
}

static void keys_differ_by_every_byte_and_by_length(void **state)
{
    struct map map;
    uint32_t found;
    char zeroes[40] = {0};
    map_init(&map, *state, 0, 3);
    for (uint32_t len = 0; len < sizeof zeroes; len++) {
        assert_int_equal(map_put(&map, (struct str){zeroes, len}, len, &found), ERR_OK);
        assert_int_equal(found, MAP_NONE);
    }
    for (uint32_t len = 0; len < sizeof zeroes; len++)
        assert_int_equal(map_get(&map, (struct str){zeroes, len}), len);
    assert_int_equal(map_get(&map, STR("\0\0\x01")), MAP_NONE);
}

static void a_map_holds_100_000_keys(void **state)
{
    struct map map;
    uint32_t found;
    map_init(&map, *state, 0, 42);
    for (int i = 0; i < 100000; i++) {
        struct str key = numbered_key(*state, "job-", i);
        if (map_put(&map, key, (uint32_t)i, &found) != ERR_OK || found != MAP_NONE)
            fail_msg("key %d", i);
    }
    assert_int_equal(map.count, 100000);
    for (int i = 0; i < 100000; i++)
        if (map_get(&map, numbered_key(*state, "job-", i)) != (uint32_t)i ||
            map_get(&map, numbered_key(*state, "jub-", i)) != MAP_NONE)
            fail_msg("key %d", i);
}

static void keys_with_a_long_equal_prefix_are_told_apart(void **state)
{
    char prefix[1001];
    memset(prefix, 'a', 1000);
    prefix[1000] = '\0';
    struct map map;
    uint32_t found;
    map_init(&map, *state, 0, 7);
    for (int i = 0; i < 2000; i++) {
        struct str key = numbered_key(*state, prefix, i);
        assert_int_equal(map_put(&map, key, (uint32_t)i, &found), ERR_OK);
        assert_int_equal(found, MAP_NONE);
    }
    for (int i = 0; i < 2000; i++)
        assert_int_equal(map_get(&map, numbered_key(*state, prefix, i)), i);
    assert_int_equal(map_get(&map, str_from(prefix)), MAP_NONE);
}

static void what_is_found_does_not_depend_on_the_seed(void **state)
{
    const uint64_t seeds[] = {0, 1, UINT64_MAX, UINT64_C(0x123456789abcdef0)};
    for (size_t s = 0; s < 4; s++) {
        struct map map;
        uint32_t found;
        map_init(&map, *state, 0, seeds[s]);
        for (int i = 0; i < 500; i++) {
            struct str key = numbered_key(*state, "", i % 300);
            assert_int_equal(map_put(&map, key, (uint32_t)i, &found), ERR_OK);
            assert_int_equal(found, i < 300 ? MAP_NONE : (uint32_t)(i - 300));
        }
        assert_int_equal(map.count, 300);
    }
}

static void expected_keys_fit_without_growing(void **state)
{
    const uint32_t counts[] = {1, 6, 7, 100, 1000, 5000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        struct map map;
        uint32_t found;
        map_init(&map, *state, counts[c], 9);
        uint32_t mask = map.mask;
        for (uint32_t i = 0; i < counts[c]; i++) {
            struct str key = numbered_key(*state, "k", (int)i);
            assert_int_equal(map_put(&map, key, i, &found), ERR_OK);
        }
        assert_int_equal(map.mask, mask);
        assert_int_equal(map.count, counts[c]);
    }
}

static void keys_that_were_reserved_need_no_memory(void **state)
{
    struct map map;
    uint32_t found;
    map_init(&map, *state, 4, 9);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(map_put(&map, numbered_key(*state, "k", (int)i), i, &found), ERR_OK);
    assert_true(map_reserve(&map, 5000));
    uint32_t mask = map.mask;
    for (uint32_t i = 10; i < 5010; i++)
        assert_int_equal(map_put(&map, numbered_key(*state, "k", (int)i), i, &found), ERR_OK);
    assert_int_equal(map.mask, mask);
    for (uint32_t i = 0; i < 5010; i++)
        assert_int_equal(map_get(&map, numbered_key(*state, "k", (int)i)), i);
}

static void keys_are_read_only_within_their_length(void **state)
{
    struct map map;
    uint32_t found;
    struct str keys[33];
    map_init(&map, *state, 0, 5);
    for (size_t len = 0; len < 33; len++) {
        char text[33];
        memset(text, 'k', sizeof text);
        keys[len] = exact((struct str){text, len});
        assert_int_equal(map_put(&map, keys[len], (uint32_t)len, &found), ERR_OK);
    }
    for (size_t len = 0; len < 33; len++) {
        assert_int_equal(map_get(&map, keys[len]), len);
        exact_free(keys[len]);
    }
}

/* Puts keys until it fails or has put all; what was put before must still be found. */
static bool put_starved(struct arena *arena, void *data)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    bool *intact = data;
    struct map map;
    uint32_t count = 0;
    uint32_t found = 77;
    map_init(&map, arena, 0, 3);
    while (count < 26 && map_put(&map, (struct str){letters + count, 1}, count, &found) == ERR_OK) {
        count++;
        found = 77;
    }
    for (uint32_t i = 0; i < 26; i++) {
        uint32_t expected = i < count ? i : MAP_NONE;
        *intact = *intact && map_get(&map, (struct str){letters + i, 1}) == expected;
    }
    *intact = *intact && found == 77; /* untouched on failure */
    return count == 26;
}

static void without_memory_the_map_stays_as_it_was(void **state)
{
    (void)state;
    if (!STARVING)
        skip();
    bool intact = true;
    assert_true(starve(put_starved, &intact) > 10);
    assert_true(intact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(an_empty_map_has_nothing),
        WITH_ARENA(what_was_put_is_found),
        WITH_ARENA(a_key_that_is_there_keeps_its_number),
        WITH_ARENA(keys_differ_by_every_byte_and_by_length),
        WITH_ARENA(a_map_holds_100_000_keys),
        WITH_ARENA(keys_with_a_long_equal_prefix_are_told_apart),
        WITH_ARENA(what_is_found_does_not_depend_on_the_seed),
        WITH_ARENA(expected_keys_fit_without_growing),
        WITH_ARENA(keys_that_were_reserved_need_no_memory),
        WITH_ARENA(keys_are_read_only_within_their_length),
        WITH_ARENA(without_memory_the_map_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
