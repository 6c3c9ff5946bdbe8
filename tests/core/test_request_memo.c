/* What is kept of a request: a few bytes for each operation, read back as they were written, and
 * refused as damaged where they are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/request_memo.h"

#define LATEST INT64_C(253402300799999)

static const struct uuid some_job = {{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80, 10, 11, 12, 13, 14, 15, 16}};

static struct request_lease leases[] = {
    {.version = 3, .secret = {7}},
    {.version = INT64_C(1) << 32, .of_step = true, .step = 9999, .secret = {8}},
    {.version = 2, .of_step = true, .step = 0, .secret = {9}},
};

/* One entry of every type, with everything in it. */
static struct request_memo everything(struct request_entry entries[5])
{
    for (size_t i = 0; i < 3; i++)
        leases[i].job = some_job;
    memset(entries, 0, 5 * sizeof *entries);
    entries[0].type = REQUEST_JOB;
    entries[0].job.job = some_job;
    entries[0].job.version = 1;
    entries[1].type = REQUEST_JOB;
    entries[1].job.job = some_job;
    entries[1].job.version = 300;
    entries[1].job.result = (struct decision_result){.repeated = true,
                                                     .duplicate = true,
                                                     .cancel_requested = true,
                                                     .expires_at = LATEST,
                                                     .signal = SIGNAL_STORED,
                                                     .effect = EFFECT_IN_DOUBT};
    entries[1].job.has_effect_key = true;
    entries[1].job.beats = (struct request_beats){.set = true,
                                                  .beat_at = 5,
                                                  .expires_at = 700,
                                                  .progress = STR("{\"at\":1}"),
                                                  .cursor = STR("")};
    entries[2].type = REQUEST_CLAIM;
    entries[2].claim.leases = leases;
    entries[2].claim.count = 3;
    entries[3].type = REQUEST_REFUSED;
    entries[3].refused.code = ERR_STALE_LEASE;
    entries[3].refused.at = 999;
    entries[3].refused.detail = STR("the lease has ended");
    entries[4].type = REQUEST_BODY;
    entries[4].body.status = 201;
    entries[4].body.text = STR("{\"queue\":\"q\"}");
    return (struct request_memo){entries, 5};
}

static struct str written(const struct request_memo *memo, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 64);
    request_memo_write(memo, &buf);
    assert_false(buf.failed);
    return buf_str(&buf);
}

static void assert_same_entry(const struct request_entry *a, const struct request_entry *b)
{
    assert_int_equal(a->type, b->type);
    switch (a->type) {
    case REQUEST_JOB:
        assert_true(uuid_eq(a->job.job, b->job.job));
        assert_int_equal(a->job.version, b->job.version);
        assert_int_equal(a->job.result.repeated, b->job.result.repeated);
        assert_int_equal(a->job.result.duplicate, b->job.result.duplicate);
        assert_int_equal(a->job.result.cancel_requested, b->job.result.cancel_requested);
        assert_int_equal(a->job.result.expires_at, b->job.result.expires_at);
        assert_int_equal(a->job.result.signal, b->job.result.signal);
        assert_int_equal(a->job.result.effect, b->job.result.effect);
        assert_int_equal(a->job.has_effect_key, b->job.has_effect_key);
        assert_int_equal(a->job.beats.set, b->job.beats.set);
        assert_int_equal(a->job.beats.beat_at, b->job.beats.beat_at);
        assert_int_equal(a->job.beats.expires_at, b->job.beats.expires_at);
        assert_true(str_eq(a->job.beats.progress, b->job.beats.progress));
        assert_true(str_eq(a->job.beats.cursor, b->job.beats.cursor));
        break;
    case REQUEST_CLAIM:
        assert_int_equal(a->claim.count, b->claim.count);
        for (uint32_t i = 0; i < a->claim.count; i++) {
            assert_true(uuid_eq(a->claim.leases[i].job, b->claim.leases[i].job));
            assert_int_equal(a->claim.leases[i].version, b->claim.leases[i].version);
            assert_int_equal(a->claim.leases[i].of_step, b->claim.leases[i].of_step);
            assert_int_equal(a->claim.leases[i].step, b->claim.leases[i].step);
            assert_memory_equal(a->claim.leases[i].secret, b->claim.leases[i].secret,
                                TOKEN_SECRET_LEN);
        }
        break;
    case REQUEST_REFUSED:
        assert_int_equal(a->refused.code, b->refused.code);
        assert_int_equal(a->refused.at, b->refused.at);
        assert_true(str_eq(a->refused.detail, b->refused.detail));
        break;
    case REQUEST_BODY:
        assert_int_equal(a->body.status, b->body.status);
        assert_true(str_eq(a->body.text, b->body.text));
        break;
    }
}

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    struct arena arena;
    struct request_entry entries[5];
    struct request_memo memo = everything(entries);
    struct request_memo read;
    struct err err;
    arena_init(&arena);
    struct str kept = written(&memo, &arena);
    assert_true(request_is_memo(kept));
    assert_int_equal(request_memo_read(kept, &arena, &read, &err), ERR_OK);
    assert_int_equal(read.count, memo.count);
    for (uint32_t i = 0; i < memo.count; i++)
        assert_same_entry(&read.entries[i], &memo.entries[i]);
    arena_release(&arena);
}

/* The largest numbers that can come up: a job of 2^34 events, the last moment that there is. */
static void an_operation_and_a_lease_take_at_most_48_bytes(void **state)
{
    (void)state;
    struct arena arena;
    struct request_entry entry = {.type = REQUEST_JOB};
    struct request_memo memo = {&entry, 1};
    arena_init(&arena);
    entry.job.job = some_job;
    entry.job.version = (INT64_C(1) << 35) - 1;
    entry.job.result.expires_at = LATEST;
    entry.job.beats = (struct request_beats){.set = true, .beat_at = LATEST, .expires_at = LATEST};
    assert_true(written(&memo, &arena).len - 1 <= REQUEST_OP_BYTES_MAX);
    struct request_lease lease = {.job = some_job,
                                  .version = (INT64_C(1) << 35) - 1,
                                  .of_step = true,
                                  .step = UINT32_MAX - 1};
    entry = (struct request_entry){.type = REQUEST_CLAIM};
    entry.claim.leases = &lease;
    size_t none = written(&memo, &arena).len;
    entry.claim.count = 1;
    assert_true(written(&memo, &arena).len - none <= REQUEST_OP_BYTES_MAX);
    arena_release(&arena);
}

static void a_response_of_version_0_1_0_is_not_a_memo(void **state)
{
    (void)state;
    struct arena arena;
    struct request_memo memo;
    arena_init(&arena);
    assert_false(request_is_memo(STR("200 {}")));
    assert_false(request_is_memo(STR("")));
    assert_false(request_is_memo((struct str){NULL, 0}));
    assert_int_equal(request_memo_read(STR("200 {}"), &arena, &memo, NULL), ERR_CORRUPT);
    arena_release(&arena);
}

static void a_memo_that_was_cut_is_damaged_wherever_it_was(void **state)
{
    (void)state;
    struct arena arena;
    struct request_entry entries[5];
    arena_init(&arena);
    for (uint32_t i = 0; i < 5; i++) {
        everything(entries);
        struct request_memo memo = {entries + i, 1};
        struct request_memo read;
        struct str kept = written(&memo, &arena);
        for (size_t len = 0; len < kept.len; len++) {
            /* A copy of just that length, so that reading on is seen. */
            char *copy = malloc(len + 1);
            assert_non_null(copy);
            memcpy(copy, kept.at, len);
            assert_int_equal(request_memo_read((struct str){copy, len}, &arena, &read, NULL),
                             ERR_CORRUPT);
            free(copy);
        }
    }
    arena_release(&arena);
}

/* Any byte changed to any other: it is damaged, or another memo, and never a crash. */
static void a_memo_with_a_changed_byte_is_read_or_refused(void **state)
{
    (void)state;
    struct arena arena;
    struct request_entry entries[5];
    struct request_memo memo = everything(entries);
    arena_init(&arena);
    struct str kept = written(&memo, &arena);
    char *copy = malloc(kept.len);
    assert_non_null(copy);
    struct arena scratch;
    arena_init(&scratch);
    for (size_t i = 0; i < kept.len; i++)
        for (int value = 0; value < 256; value++) {
            struct request_memo read;
            memcpy(copy, kept.at, kept.len);
            copy[i] = (char)value;
            enum error_code code =
                request_memo_read((struct str){copy, kept.len}, &scratch, &read, NULL);
            assert_true(code == ERR_OK || code == ERR_CORRUPT);
            if (code == ERR_OK)
                (void)written(&read, &scratch);
            arena_clear(&scratch);
        }
    arena_release(&scratch);
    free(copy);
    arena_release(&arena);
}

static void expect_damaged(struct request_entry entry)
{
    struct request_memo memo = {&entry, 1};
    struct request_memo read;
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(request_memo_read(written(&memo, &arena), &arena, &read, NULL), ERR_CORRUPT);
    arena_release(&arena);
}

static void what_no_response_could_have_is_damaged(void **state)
{
    (void)state;
    static const struct str no_json[] = {STR_INIT(""), STR_INIT("{"), STR_INIT("{} {}"),
                                         STR_INIT("\xff")};
    struct request_entry entries[5];
    for (size_t i = 0; i < sizeof no_json / sizeof no_json[0]; i++) {
        everything(entries);
        entries[4].body.text = no_json[i];
        expect_damaged(entries[4]);
        entries[1].job.beats.progress = no_json[i];
        expect_damaged(entries[1]);
    }
    static const int statuses[] = {0, 199, 300};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        everything(entries);
        entries[4].body.status = statuses[i];
        expect_damaged(entries[4]);
    }
    everything(entries);
    entries[1].job.beats.cursor = STR("\xff");
    expect_damaged(entries[1]);
    everything(entries);
    entries[1].job.beats.beat_at = LATEST + 1;
    expect_damaged(entries[1]);
}

static void numbers_that_lie_ask_for_no_memory(void **state)
{
    (void)state;
    static const char *const lies[] = {
        "\x01\x02\xff\xff\xff\xff\x0f",                     /* four thousand million leases */
        "\x01\x04\xc8\x01\xff\xff\xff\xff\xff\xff\xff\x7f", /* a body as long as all memory */
        "\x01\x02\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", /* a number that does not end */
        "\x01\x03\xe7\x07",                                 /* a code that there is not */
        "\x01\x07",                                         /* a type that there is not */
    };
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct request_memo memo;
        assert_int_equal(request_memo_read(str_from(lies[i]), &arena, &memo, NULL), ERR_CORRUPT);
    }
    assert_true(arena_size(&arena) < 64 * 1024);
    arena_release(&arena);
}

static void a_memo_knows_its_leases_by_job_and_secret(void **state)
{
    (void)state;
    struct request_entry entries[5];
    struct request_memo memo = everything(entries);
    struct token token = {.job = some_job, .attempt = 1};
    memcpy(token.secret, leases[1].secret, TOKEN_SECRET_LEN);
    assert_true(request_memo_holds(&memo, &token));
    token.secret[15] = 1;
    assert_false(request_memo_holds(&memo, &token));
    memcpy(token.secret, leases[1].secret, TOKEN_SECRET_LEN);
    token.job.bytes[0] = 99;
    assert_false(request_memo_holds(&memo, &token));
}

static void without_its_leases_a_claim_is_nothing_and_a_batch_the_rest(void **state)
{
    (void)state;
    struct request_entry entries[5];
    struct request_memo memo = everything(entries);
    assert_true(request_memo_disclaim(&memo));
    assert_int_equal(entries[2].claim.count, 0);
    everything(entries);
    memo = (struct request_memo){entries + 2, 2}; /* a claim, and what was refused beside it */
    assert_false(request_memo_disclaim(&memo));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(an_operation_and_a_lease_take_at_most_48_bytes),
        cmocka_unit_test(a_response_of_version_0_1_0_is_not_a_memo),
        cmocka_unit_test(a_memo_that_was_cut_is_damaged_wherever_it_was),
        cmocka_unit_test(a_memo_with_a_changed_byte_is_read_or_refused),
        cmocka_unit_test(what_no_response_could_have_is_damaged),
        cmocka_unit_test(numbers_that_lie_ask_for_no_memory),
        cmocka_unit_test(a_memo_knows_its_leases_by_job_and_secret),
        cmocka_unit_test(without_its_leases_a_claim_is_nothing_and_a_batch_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
