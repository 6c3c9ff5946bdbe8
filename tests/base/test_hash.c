#include "base/hash.h"

#include "base/buf.h"
#include "fixture.h"

static void assert_hash(const struct str *parts, size_t count, const char *expected)
{
    struct arena arena;
    arena_init(&arena);
    struct buf hex;
    buf_init(&hex, &arena, 64);
    uint8_t hash[HASH_LEN];
    hash_sha256(parts, count, hash);
    buf_add_hex(&hex, hash, sizeof hash);
    assert_str_equal(buf_str(&hex), str_from(expected));
    arena_release(&arena);
}

static void the_known_vectors_of_fips_180_hold(void **state)
{
    (void)state;
    assert_hash(&STR(""), 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash(&STR("abc"), 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash(&STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), 1,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    assert_hash(&(struct str){million, 1000000}, 1,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void parts_hash_as_if_they_were_one_string(void **state)
{
    (void)state;
    const struct str parts[] = {STR("a"), STR(""), {NULL, 0}, STR("bc")};
    assert_hash(parts, 4, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void every_split_of_a_text_gives_the_same_hash(void **state)
{
    (void)state;
    char text[200];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 31);
    uint8_t whole[HASH_LEN];
    hash_sha256(&(struct str){text, sizeof text}, 1, whole);
    for (size_t cut = 0; cut <= sizeof text; cut++) {
        const struct str parts[] = {{text, cut}, {text + cut, sizeof text - cut}};
        uint8_t hash[HASH_LEN];
        hash_sha256(parts, 2, hash);
        assert_true(hash_eq(hash, whole, HASH_LEN));
    }
}

static void equal_means_equal_in_every_byte(void **state)
{
    (void)state;
    uint8_t a[HASH_LEN] = {0};
    uint8_t b[HASH_LEN] = {0};
    assert_true(hash_eq(a, b, sizeof a));
    assert_true(hash_eq(NULL, NULL, 0));
    for (size_t i = 0; i < sizeof a; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b[i] = (uint8_t)(1U << bit);
            assert_false(hash_eq(a, b, sizeof a));
            assert_true(hash_eq(a, b, i));
        }
        b[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_vectors_of_fips_180_hold),
        cmocka_unit_test(parts_hash_as_if_they_were_one_string),
        cmocka_unit_test(every_split_of_a_text_gives_the_same_hash),
        cmocka_unit_test(equal_means_equal_in_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
