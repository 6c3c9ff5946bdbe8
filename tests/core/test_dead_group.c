/* Groups of dead letters: which are the same one, and how callers name them. */
#include <string.h>

#include "../base/fixture.h"
#include "core/dead_group.h"

static struct dead_group group_of(struct arena *arena, const char *kind,
                                  enum dead_letter_reason reason, const char *error)
{
    struct dead_group ret;
    struct job job = {.spec.kind = str_from(kind),
                      .dead_letter = {.reason_code = reason, .last_error = str_from(error)}};
    assert_true(dead_group_of(&job, arena, &ret));
    return ret;
}

static bool same(const struct dead_group *a, const struct dead_group *b)
{
    return memcmp(a->id, b->id, sizeof a->id) == 0;
}

static void dead_letters_with_different_errors_have_different_group_ids(void **state)
{
    const struct dead_group groups[] = {
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"no user 'ada'\"}"),
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"the disk is full\"}"),
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"T\"}"),
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"m\",\"type\":\"T\"}"),
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"\"}"),
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{}"),
        group_of(*state, "mail", DEAD_TIMEOUT, "{}"),
        group_of(*state, "post", DEAD_TIMEOUT, "{}"),
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(same(&groups[i], &groups[j]));
    struct dead_group other =
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"no user 'bob'\"}");
    assert_true(same(&groups[0], &other));
    assert_str_equal(other.error.pattern, STR("no user '*'"));
}

/* Pages and scripts keep it for a while: it must be the same after a new start and elsewhere. */
static void a_group_id_is_the_same_everywhere(void **state)
{
    static const uint8_t known[DEAD_GROUP_LEN] = {0x4f, 0x68, 0xb3, 0xec, 0x62, 0x29, 0x9c, 0x56};
    struct dead_group group =
        group_of(*state, "mail", DEAD_EXHAUSTED_RETRIES, "{\"message\":\"no user 'ada'\"}");
    assert_memory_equal(group.id, known, sizeof known);
}

static void a_group_is_named_by_hex_digits_and_nothing_else(void **state)
{
    static const char *const bad[] = {"", "0123456789abcde", "0123456789abcdef0",
                                      "0123456789abcdeg", "01234567-9abcdef"};
    const uint8_t wanted[DEAD_GROUP_LEN] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    uint8_t id[DEAD_GROUP_LEN] = {7};
    struct err err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(dead_group_read(str_from(bad[i]), id, &err), ERR_BAD_REQUEST);
        assert_non_null(strstr(err.detail, bad[i]));
        assert_int_equal(id[0], 7);
    }
    assert_int_equal(dead_group_read(STR("0123456789abCDEF"), id, &err), ERR_OK);
    assert_memory_equal(id, wanted, sizeof id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(dead_letters_with_different_errors_have_different_group_ids),
        WITH_ARENA(a_group_id_is_the_same_everywhere),
        WITH_ARENA(a_group_is_named_by_hex_digits_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
