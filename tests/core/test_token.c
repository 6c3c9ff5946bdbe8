#include "core/token.h"

#include "../base/fixture.h"

static const struct token job_token = {
    .job = {{0x01, 0x8f, 0x23, 0x45, 0x67, 0x89, 0x7a, 0xbc, 0x8d, 0xef, 0x01, 0x23, 0x45, 0x67,
             0x89, 0xab}},
    .attempt = 3,
    .secret = {0xde, 0xad, 0xbe, 0xef, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255},
};

#define JOB_TEXT                                                                                   \
    "018f23456789"                                                                                 \
    "7abc8def0123456789ab"
#define SECRET_TEXT "deadbeef000102030405060708090aff"

static bool tokens_equal(const struct token *a, const struct token *b)
{
    return uuid_eq(a->job, b->job) && a->of_step == b->of_step && a->step == b->step &&
           a->attempt == b->attempt && memcmp(a->secret, b->secret, sizeof a->secret) == 0;
}

static struct str formatted(const struct token *token, char ret[TOKEN_TEXT_MAX])
{
    size_t len = token_format(token, ret);
    assert_true(len <= TOKEN_TEXT_MAX);
    return (struct str){ret, len};
}

static void a_jobs_token_names_job_attempt_and_secret(void **state)
{
    char text[TOKEN_TEXT_MAX];
    (void)state;
    assert_str_equal(formatted(&job_token, text), STR(JOB_TEXT ".3." SECRET_TEXT));
}

static void a_steps_token_names_its_place_in_the_plan_too(void **state)
{
    char text[TOKEN_TEXT_MAX];
    struct token token = job_token;
    (void)state;
    token.of_step = true;
    token.step = 17;
    assert_str_equal(formatted(&token, text), STR(JOB_TEXT ".17.3." SECRET_TEXT));
}

static void any_token_comes_back_as_it_was_written(void **state)
{
    static const int64_t attempts[] = {0, 1, 9, 10, 4294967296, INT64_MAX - 1, INT64_MAX};
    static const uint32_t steps[] = {0, 1, 9999, UINT32_MAX};
    (void)state;
    for (size_t i = 0; i < 7 * 5; i++) {
        char text[TOKEN_TEXT_MAX];
        struct token token = job_token;
        struct token again;
        token.attempt = attempts[i % 7];
        token.of_step = i / 7 < 4;
        token.step = token.of_step ? steps[i / 7] : 0;
        assert_true(token_parse(formatted(&token, text), &again));
        assert_true(tokens_equal(&token, &again));
    }
}

static void only_what_is_written_is_read(void **state)
{
    static const char *const texts[] = {
        "",
        ".",
        "not a token",
        JOB_TEXT,
        JOB_TEXT ".",
        JOB_TEXT ".3",
        JOB_TEXT ".3.",
        JOB_TEXT "..",
        JOB_TEXT ".." SECRET_TEXT,
        JOB_TEXT ".03." SECRET_TEXT,
        JOB_TEXT ".+3." SECRET_TEXT,
        JOB_TEXT ".-3." SECRET_TEXT,
        JOB_TEXT ".3a." SECRET_TEXT,
        JOB_TEXT ". 3." SECRET_TEXT,
        JOB_TEXT ".9223372036854775808." SECRET_TEXT,
        JOB_TEXT ".99999999999999999999." SECRET_TEXT,
        JOB_TEXT ".4294967296.3." SECRET_TEXT,
        JOB_TEXT ".1.00." SECRET_TEXT,
        JOB_TEXT ".1..3." SECRET_TEXT,
        JOB_TEXT ".1.2.3." SECRET_TEXT,
        JOB_TEXT ".3." SECRET_TEXT "0",
        JOB_TEXT ".3." SECRET_TEXT " ",
        JOB_TEXT ".3." SECRET_TEXT ".",
        JOB_TEXT ".1.3." SECRET_TEXT "0",
        JOB_TEXT ".3.deadbeef000102030405060708090af",
        JOB_TEXT ".3.deadbeef000102030405060708090afg",
        JOB_TEXT ".3.DEADBEEF000102030405060708090aff",
        JOB_TEXT ".1.3.DEADBEEF000102030405060708090aff",
        "018F234567897abc8def0123456789ab.3." SECRET_TEXT,
        "018f2345-6789-7abc-8def-0123456789ab.3." SECRET_TEXT,
        " " JOB_TEXT ".3." SECRET_TEXT,
        JOB_TEXT "x3." SECRET_TEXT,
        JOB_TEXT ".3x" SECRET_TEXT,
        JOB_TEXT ".1.3x" SECRET_TEXT,
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct str text = exact(str_from(texts[i]));
        struct token token = {.attempt = 77};
        if (token_parse(text, &token))
            fail_msg("read as a token: %s", texts[i]);
        assert_int_equal(token.attempt, 77);
        exact_free(text);
    }
    assert_false(token_parse((struct str){NULL, 0}, &(struct token){.attempt = 1}));
}

static void every_cut_and_every_changed_byte_gives_another_token_or_none(void **state)
{
    char text[TOKEN_TEXT_MAX];
    char again[TOKEN_TEXT_MAX];
    struct token token = job_token;
    struct token changed;
    (void)state;
    token.of_step = true;
    token.step = 12;
    struct str good = formatted(&token, text);
    for (size_t len = 0; len < good.len; len++)
        assert_false(token_parse((struct str){good.at, len}, &changed));
    for (size_t i = 0; i < good.len * 256; i++) {
        char old = text[i / 256];
        text[i / 256] = (char)(i % 256);
        if (token_parse(good, &changed)) {
            assert_int_equal(tokens_equal(&token, &changed), text[i / 256] == old);
            assert_str_equal(formatted(&changed, again), good);
        }
        text[i / 256] = old;
    }
}

static void the_hash_is_the_first_half_of_sha_256(void **state)
{
    /* printf abc | sha256sum */
    static const uint8_t expected[TOKEN_HASH_LEN] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01,
                                                     0xcf, 0xea, 0x41, 0x41, 0x40, 0xde,
                                                     0x5d, 0xae, 0x22, 0x23};
    uint8_t hash[TOKEN_HASH_LEN];
    (void)state;
    token_hash(STR("abc"), hash);
    assert_memory_equal(hash, expected, sizeof hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jobs_token_names_job_attempt_and_secret),
        cmocka_unit_test(a_steps_token_names_its_place_in_the_plan_too),
        cmocka_unit_test(any_token_comes_back_as_it_was_written),
        cmocka_unit_test(only_what_is_written_is_read),
        cmocka_unit_test(every_cut_and_every_changed_byte_gives_another_token_or_none),
        cmocka_unit_test(the_hash_is_the_first_half_of_sha_256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
