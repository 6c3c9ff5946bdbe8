#include "base/utf8.h"

#include "fixture.h"

static size_t length_of(struct str text)
{
    struct str copy = exact(text);
    size_t len = utf8_length(copy.at, copy.at + copy.len);
    exact_free(copy);
    return len;
}

static bool valid(struct str text)
{
    struct str copy = exact(text);
    bool ok = utf8_valid(copy);
    exact_free(copy);
    return ok;
}

static void every_code_point_is_encoded_and_recognised(void **state)
{
    (void)state;
    for (uint32_t code_point = 0; code_point <= 0x10ffff; code_point++) {
        if (code_point >= 0xd800 && code_point <= 0xdfff)
            continue;
        char encoded[4];
        size_t len = utf8_encode(code_point, encoded);
        size_t expected = code_point < 0x80      ? 1
                          : code_point < 0x800   ? 2
                          : code_point < 0x10000 ? 3
                                                 : 4;
        if (len != expected || utf8_length(encoded, encoded + len) != len)
            fail_msg("code point %x: length %zu", code_point, len);
        for (size_t cut = 0; cut < len; cut++)
            if (utf8_length(encoded, encoded + cut) != 0)
                fail_msg("code point %x cut to %zu bytes", code_point, cut);
    }
}

static void encoding_gives_the_known_bytes(void **state)
{
    (void)state;
    char encoded[4];
    assert_int_equal(utf8_encode(0x20ac, encoded), 3);
    assert_memory_equal(encoded, "\xe2\x82\xac", 3);
    assert_int_equal(utf8_encode(0x1f600, encoded), 4);
    assert_memory_equal(encoded, "\xf0\x9f\x98\x80", 4);
    assert_int_equal(utf8_encode(0xfc, encoded), 2);
    assert_memory_equal(encoded, "\xc3\xbc", 2);
    assert_int_equal(utf8_encode(0, encoded), 1);
    assert_int_equal(encoded[0], 0);
}

/* Decodes by arithmetic and encodes again: an independent way to tell what is valid. */
static size_t length_by_decoding(const unsigned char *bytes, size_t len)
{
    size_t need = bytes[0] < 0x80   ? 1
                  : bytes[0] < 0xc0 ? 9
                  : bytes[0] < 0xe0 ? 2
                  : bytes[0] < 0xf0 ? 3
                                    : 4;
    if (need > len)
        return 0;
    uint32_t code_point = need == 1 ? bytes[0] : bytes[0] & (0x7fU >> need);
    for (size_t i = 1; i < need; i++) {
        if (bytes[i] >> 6 != 2)
            return 0;
        code_point = code_point << 6 | (bytes[i] & 0x3f);
    }
    if (bytes[0] >= 0xf8 || code_point > 0x10ffff || (code_point >> 11) == 0x1b)
        return 0;
    char again[4];
    return utf8_encode(code_point, again) == need ? need : 0;
}

static void assert_judged_as_by_decoding(const unsigned char bytes[4])
{
    const char *at = (const char *)bytes;
    for (size_t len = 1; len <= 4; len++)
        if (utf8_length(at, at + len) != length_by_decoding(bytes, len))
            fail_msg("%02x %02x %02x %02x, %zu bytes", bytes[0], bytes[1], bytes[2], bytes[3], len);
}

static void every_pair_of_first_bytes_is_judged_as_by_decoding(void **state)
{
    (void)state;
    static const unsigned char tails[] = {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff};
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        for (size_t t = 0; t < 36; t++) {
            const unsigned char bytes[4] = {(unsigned char)(pair >> 8), (unsigned char)pair,
                                            tails[t / 6], tails[t % 6]};
            assert_judged_as_by_decoding(bytes);
        }
    }
}

static void nothing_is_read_behind_a_cut_sequence(void **state)
{
    (void)state;
    assert_int_equal(length_of(STR("")), 0);
    assert_int_equal(length_of(STR("\xc3")), 0);
    assert_int_equal(length_of(STR("\xe2\x82")), 0);
    assert_int_equal(length_of(STR("\xf0\x9f\x98")), 0);
    assert_int_equal(length_of(STR("\xf0\x9f\x98\x80")), 4);
}

static void a_text_is_valid_only_when_all_of_it_is(void **state)
{
    (void)state;
    assert_true(valid(STR("")));
    assert_true(utf8_valid((struct str){NULL, 0}));
    assert_true(valid(STR("plain text that is longer than eight bytes")));
    assert_true(valid(STR("zw\xc3\xb6lf \xe2\x82\xac \xf0\x9f\x98\x80 \0 end")));
    assert_false(valid(STR("\x80")));
    assert_false(valid(STR("eight ok\xff")));
    assert_false(valid(STR("cut at the end \xe2\x82")));
    assert_false(valid(STR("\xc0\x80")));
    assert_false(valid(STR("\xed\xbf\xbf")));
    assert_false(valid(STR("\xf4\x90\x80\x80")));
}

static void one_bad_byte_is_seen_wherever_it_stands(void **state)
{
    (void)state;
    char text[40];
    for (size_t len = 1; len <= sizeof text; len++) {
        for (size_t bad = 0; bad < len; bad++) {
            memset(text, 'a', sizeof text);
            assert_true(valid((struct str){text, len}));
            text[bad] = (char)0x80;
            assert_false(valid((struct str){text, len}));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_point_is_encoded_and_recognised),
        cmocka_unit_test(encoding_gives_the_known_bytes),
        cmocka_unit_test(every_pair_of_first_bytes_is_judged_as_by_decoding),
        cmocka_unit_test(nothing_is_read_behind_a_cut_sequence),
        cmocka_unit_test(a_text_is_valid_only_when_all_of_it_is),
        cmocka_unit_test(one_bad_byte_is_seen_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
