#include "core/access.h"

#include "base/fixture.h"

static void a_token_is_url_safe_base64_of_its_bytes(void **state)
{
    (void)state;
    uint8_t secret[ACCESS_SECRET_LEN];
    char text[ACCESS_TEXT_LEN];
    for (int i = 0; i < ACCESS_SECRET_LEN; i++)
        secret[i] = (uint8_t)i;
    access_text(secret, text);
    assert_memory_equal(text, "pawl_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", ACCESS_TEXT_LEN);
    memset(secret, 0xff, sizeof secret);
    access_text(secret, text);
    assert_memory_equal(text, "pawl___________________________________________8", ACCESS_TEXT_LEN);
    assert_true(access_text_is_valid((struct str){text, sizeof text}));
}

static void what_is_no_token_is_seen(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "pawl_",
        "pawl_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh",
        "pawl_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8A",
        "pawl-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
        "pawl_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+",
        "pawl_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh=",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(access_text_is_valid(str_from(wrong[i])));
}

static void scopes_are_written_and_read_back(void **state)
{
    (void)state;
    for (uint32_t scopes = 1; scopes <= ACCESS_ALL; scopes++) {
        char text[64];
        struct buf buf = {.at = text, .cap = sizeof text};
        uint32_t read = 0;
        access_scopes_write(scopes, &buf);
        assert_int_equal(access_scopes_read(buf_str(&buf), &read, NULL), ERR_OK);
        assert_int_equal(read, scopes);
    }
    static const char *const wrong[] = {"", ",", "read,", ",read", "read,,work", "Read", "all"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint32_t read;
        assert_int_equal(access_scopes_read(str_from(wrong[i]), &read, NULL), ERR_CORRUPT);
    }
}

static void a_token_lives_until_it_expires_or_is_revoked(void **state)
{
    (void)state;
    struct access_token token = {.created_at = 1};
    assert_true(access_is_live(&token, INT64_MAX));
    token.expires_at = 10;
    assert_true(access_is_live(&token, 9));
    assert_false(access_is_live(&token, 10));
    token.revoked_at = 5;
    assert_false(access_is_live(&token, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_url_safe_base64_of_its_bytes),
        cmocka_unit_test(what_is_no_token_is_seen),
        cmocka_unit_test(scopes_are_written_and_read_back),
        cmocka_unit_test(a_token_lives_until_it_expires_or_is_revoked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
