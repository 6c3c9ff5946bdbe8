#include "core/access.h"

#include "base/fixture.h"
#include "base/record.h"

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

static void a_token_is_kept_for_a_month_after_its_end(void **state)
{
    (void)state;
    const int64_t now = 10 * ACCESS_KEPT_MS;
    struct access_token tokens[] = {
        {.created_at = 1},                                               /* for ever */
        {.created_at = 1, .expires_at = now + 1},                        /* not yet */
        {.created_at = 1, .expires_at = now},                            /* just now */
        {.created_at = 1, .expires_at = now - ACCESS_KEPT_MS + 1},       /* a month */
        {.created_at = 1, .expires_at = now - ACCESS_KEPT_MS},           /* and more */
        {.created_at = 1, .revoked_at = now - ACCESS_KEPT_MS},           /* revoked then */
        {.created_at = 1, .revoked_at = now, .expires_at = now + 5},     /* now */
        {.created_at = 1, .revoked_at = now, .expires_at = now / 2},     /* too late */
        {.created_at = 1, .revoked_at = now / 2, .expires_at = now + 5}, /* in time */
    };
    enum { COUNT = sizeof tokens / sizeof tokens[0] };
    struct uuid gone[COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        tokens[i].id.bytes[0] = (uint8_t)i;
    assert_int_equal(access_sort_out(tokens, COUNT, now, gone, &count), 2);
    assert_int_equal(count, 4);
    const uint8_t wanted[] = {4, 5, 7, 8};
    for (int i = 0; i < 4; i++)
        assert_int_equal(gone[i].bytes[0], wanted[i]);
    assert_int_equal(access_sort_out(tokens, 0, now, gone, &count), 0);
    assert_int_equal(count, 0);
}

static void of_many_that_have_ended_the_oldest_go_first(void **state)
{
    (void)state;
    enum { COUNT = ACCESS_ENDED_MAX + 3 };
    static struct access_token tokens[COUNT];
    static struct uuid gone[COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        tokens[i] = (struct access_token){.revoked_at = 5, .id.bytes = {(uint8_t)(i < 3 ? i : 9)}};
    tokens[1].revoked_at = 0;
    assert_int_equal(access_sort_out(tokens, COUNT, 10, gone, &count), 1);
    assert_int_equal(count, 2);
    assert_int_equal(gone[0].bytes[0], 0);
    assert_int_equal(gone[1].bytes[0], 2);
}

static void who_acts_with_a_token_cannot_be_anybody_else(void **state)
{
    (void)state;
    struct arena arena;
    char name[NAME_BYTES_MAX];
    arena_init(&arena);
    assert_true(str_eq(access_actor(STR("ci"), &arena), STR("token:ci")));
    /* A name that is too long is cut, but not within a character. */
    memset(name, 'x', sizeof name);
    struct str actor = access_actor((struct str){name, sizeof name}, &arena);
    assert_int_equal(actor.len, NAME_BYTES_MAX);
    assert_true(access_is_reserved(actor));
    name[NAME_BYTES_MAX - 7] = '\xc3';
    name[NAME_BYTES_MAX - 6] = '\xa4';
    actor = access_actor((struct str){name, sizeof name}, &arena);
    assert_int_equal(actor.len, NAME_BYTES_MAX - 1);
    assert_true(access_is_reserved(STR("token:")));
    assert_false(access_is_reserved(STR("token")));
    assert_false(access_is_reserved(STR("Token:ci")));
    assert_false(access_is_reserved(STR("")));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_url_safe_base64_of_its_bytes),
        cmocka_unit_test(what_is_no_token_is_seen),
        cmocka_unit_test(scopes_are_written_and_read_back),
        cmocka_unit_test(a_token_lives_until_it_expires_or_is_revoked),
        cmocka_unit_test(a_token_is_kept_for_a_month_after_its_end),
        cmocka_unit_test(of_many_that_have_ended_the_oldest_go_first),
        cmocka_unit_test(who_acts_with_a_token_cannot_be_anybody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
