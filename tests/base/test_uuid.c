#include "base/uuid.h"

#include "fixture.h"

static const uint8_t all_ones[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t all_zeroes[16] = {0};

static void assert_text(struct uuid id, const char *expected)
{
    char *text = malloc(UUID_TEXT_LEN);
    uuid_format(id, text);
    assert_memory_equal(text, expected, UUID_TEXT_LEN);
    struct uuid again = {{0}};
    assert_true(uuid_parse((struct str){text, UUID_TEXT_LEN}, &again));
    assert_true(uuid_eq(again, id));
    free(text);
}

static bool taken(struct str text)
{
    struct str copy = exact(text);
    struct uuid id = {{0x55}};
    bool ok = uuid_parse(copy, &id);
    exact_free(copy);
    if (!ok)
        assert_int_equal(id.bytes[0], 0x55); /* untouched on failure */
    return ok;
}

static void version_7_carries_time_version_and_variant(void **state)
{
    (void)state;
    /* The example of RFC 9562, appendix A.6. */
    const uint8_t random[10] = {0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f};
    assert_text(uuid_v7(INT64_C(0x017f22e279b0), random), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    assert_text(uuid_v7(0, all_zeroes), "00000000-0000-7000-8000-000000000000");
    assert_text(uuid_v7((INT64_C(1) << 48) - 1, all_ones), "ffffffff-ffff-7fff-bfff-ffffffffffff");
}

static void version_7_sorts_by_time_then_by_the_random_bytes(void **state)
{
    (void)state;
    struct uuid previous = uuid_v7(0, all_zeroes);
    for (int64_t time_ms = 0; time_ms < 100; time_ms++) {
        for (uint8_t i = 1; i < 200; i++) {
            const uint8_t random[10] = {0, i, 0, i};
            struct uuid id = uuid_v7(time_ms, random);
            assert_true(memcmp(previous.bytes, id.bytes, 16) < 0);
            previous = id;
        }
    }
}

static void version_7_keeps_every_random_bit_but_six(void **state)
{
    (void)state;
    struct uuid zero = uuid_v7(0, all_zeroes);
    int kept = 0;
    for (size_t bit = 0; bit < 80; bit++) {
        uint8_t random[10] = {0};
        random[bit / 8] = (uint8_t)(1U << bit % 8);
        kept += uuid_eq(uuid_v7(0, random), zero) ? 0 : 1;
    }
    assert_int_equal(kept, 74);
}

static void version_8_carries_a_hash(void **state)
{
    (void)state;
    const uint8_t hash[16] = {0x5c, 0x14, 0x6b, 0x14, 0x3c, 0x52, 0x4a, 0xfd,
                              0x13, 0x8a, 0x37, 0x5d, 0x0d, 0xf1, 0xfb, 0xf6};
    assert_text(uuid_v8(hash), "5c146b14-3c52-8afd-938a-375d0df1fbf6");
    assert_text(uuid_v8(all_ones), "ffffffff-ffff-8fff-bfff-ffffffffffff");
}

static void either_case_is_read(void **state)
{
    (void)state;
    struct uuid lower;
    struct uuid upper;
    assert_true(uuid_parse(STR("abcdef01-2345-6789-abcd-ef0123456789"), &lower));
    assert_true(uuid_parse(STR("ABCDEF01-2345-6789-ABcd-EF0123456789"), &upper));
    assert_true(uuid_eq(lower, upper));
    assert_int_equal(lower.bytes[0], 0xab);
    assert_int_equal(lower.bytes[15], 0x89);
}

static void every_changed_byte_is_refused(void **state)
{
    (void)state;
    struct str good = STR("abcdef01-2345-6789-abcd-ef0123456789");
    assert_true(taken(good));
    for (size_t i = 0; i < good.len; i++) {
        for (int c = 0; c < 256; c++) {
            char text[UUID_TEXT_LEN];
            memcpy(text, good.at, sizeof text);
            text[i] = (char)c;
            bool dash = good.at[i] == '-';
            bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            if (taken((struct str){text, sizeof text}) != (dash ? c == '-' : hex))
                fail_msg("byte %zu changed to %d", i, c);
        }
    }
}

static void other_lengths_are_refused(void **state)
{
    (void)state;
    struct str text = STR("abcdef01-2345-6789-abcd-ef01234567890000");
    for (size_t len = 0; len <= text.len; len++)
        assert_int_equal(taken((struct str){text.at, len}), len == UUID_TEXT_LEN);
    assert_false(taken(STR("{abcdef01-2345-6789-abcd-ef0123456789}")));
    assert_false(taken(STR("abcdef0123456789abcdef0123456789")));
    struct uuid ignored;
    assert_false(uuid_parse((struct str){NULL, 0}, &ignored));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_7_carries_time_version_and_variant),
        cmocka_unit_test(version_7_sorts_by_time_then_by_the_random_bytes),
        cmocka_unit_test(version_7_keeps_every_random_bit_but_six),
        cmocka_unit_test(version_8_carries_a_hash),
        cmocka_unit_test(either_case_is_read),
        cmocka_unit_test(every_changed_byte_is_refused),
        cmocka_unit_test(other_lengths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
