#include "core/worker.h"

#include "../base/starve.h"
#include "base/buf.h"

enum { NOW = 1000 * 1000, TTL = 60 * 1000 };

static struct str a_and_b[] = {STR_INIT("a"), STR_INIT("b")};

static struct worker worker_of(uint32_t kinds, uint32_t queues)
{
    return (struct worker){
        .id = STR("w1"),
        .kinds = {a_and_b, kinds},
        .queues = {a_and_b, queues},
        .slots = 2,
        .ttl_ms = TTL,
        .expires_at = NOW + TTL,
    };
}

static void a_worker_is_live_until_its_time_is_over(void **state)
{
    (void)state;
    struct worker worker = worker_of(0, 0);
    assert_true(worker_is_live(&worker, NOW));
    assert_true(worker_is_live(&worker, NOW + TTL - 1));
    assert_false(worker_is_live(&worker, NOW + TTL));
}

static void a_worker_is_visible_to_those_whose_queues_have_all_of_its_own(void **state)
{
    (void)state;
    struct names all = {a_and_b, 2};
    struct names one = {a_and_b, 1};
    struct worker everywhere = worker_of(0, 0);
    struct worker in_a = worker_of(0, 1);
    struct worker in_both = worker_of(0, 2);
    assert_true(worker_is_visible(&everywhere, NULL));
    assert_true(worker_is_visible(&in_both, NULL));
    assert_false(worker_is_visible(&everywhere, &all));
    assert_true(worker_is_visible(&in_both, &all));
    assert_true(worker_is_visible(&in_a, &all));
    assert_true(worker_is_visible(&in_a, &one));
    assert_false(worker_is_visible(&in_both, &one));
}

static void a_claim_renews_a_worker_when_half_of_its_ttl_has_passed(void **state)
{
    (void)state;
    struct worker worker = worker_of(0, 0);
    assert_false(worker_renew(&worker, NOW, 0));
    assert_false(worker_renew(&worker, NOW + TTL / 2 - 1, 0));
    assert_true(worker.expires_at == NOW + TTL);
    assert_true(worker_renewal_at(&worker) == NOW + TTL / 2);
    assert_true(worker_renew(&worker, NOW + TTL / 2, 0));
    assert_true(worker.expires_at == NOW + TTL / 2 + TTL);
    /* However often it claims. */
    int renewals = 0;
    for (int64_t now = NOW + TTL; now < NOW + 11 * TTL; now += 100)
        renewals += worker_renew(&worker, now, 0);
    assert_in_range(renewals, 19, 20);
    /* One whose time is over is there again. */
    assert_true(worker_renew(&worker, NOW + 100 * TTL, 0));
    assert_true(worker_is_live(&worker, NOW + 100 * TTL));
}

static void a_worker_that_waits_for_work_is_live_as_long_as_it_waits(void **state)
{
    (void)state;
    struct worker worker = worker_of(0, 0);
    worker.ttl_ms = 1000;
    worker.expires_at = NOW + 1000;
    assert_true(worker_renew(&worker, NOW, 20000));
    assert_true(worker.expires_at == NOW + 21000);
    assert_false(worker_renew(&worker, NOW + 400, 20000));
    assert_true(worker_renew(&worker, NOW + 500, 20000));
}

static void a_job_is_covered_by_live_workers_of_its_kind_and_queue(void **state)
{
    (void)state;
    struct worker_coverage seen = {0};
    struct worker workers[] = {worker_of(1, 1), worker_of(0, 0), worker_of(2, 1), worker_of(1, 2)};
    for (int i = 0; i < 4; i++) /* busy: two of two, more than it can hold; the others free */
        worker_cover(&seen, &workers[i], i == 0 ? 2 : i == 1 ? 9 : 1, STR("a"), STR("b"), NOW);
    assert_int_equal(seen.of_kind, 4);
    assert_int_equal(seen.fitting, 2); /* everywhere, and a and b */
    assert_int_equal(seen.free, 1);
    assert_int_equal(seen.slots, 4);
    assert_int_equal(seen.used, 3);
    worker_cover(&seen, &workers[1], 0, STR("a"), STR("b"), NOW + TTL); /* it has expired */
    worker_cover(&seen, &workers[0], 0, STR("b"), STR("a"), NOW);       /* it has another kind */
    assert_int_equal(seen.of_kind, 4);
}

static const char *told(void **state, struct worker_coverage coverage)
{
    struct buf buf;
    buf_init(&buf, *state, 256);
    worker_coverage_tell(&coverage, STR("mail"), STR("slow"), &buf);
    buf_add_char(&buf, '\0');
    assert_false(buf.failed);
    return buf.at;
}

static void it_is_told_whether_anybody_handles_a_job(void **state)
{
    struct worker_coverage none = {0};
    struct worker_coverage elsewhere = {.of_kind = 2};
    struct worker_coverage busy = {.of_kind = 3, .fitting = 2, .slots = 8, .used = 8};
    struct worker_coverage free_one = {
        .of_kind = 3, .fitting = 2, .slots = 8, .used = 7, .free = 1};
    assert_string_equal(told(state, none), "No live worker is registered for the kind \"mail\". An "
                                           "unregistered worker may still claim it.");
    assert_string_equal(
        told(state, elsewhere),
        "No live worker is registered for the kind \"mail\" in the queue \"slow\" (in other "
        "queues: 2). An unregistered worker may still claim it.");
    assert_string_equal(told(state, busy),
                        "Live workers for it: 2, with 8 of 8 slots in use, all busy.");
    assert_string_equal(told(state, free_one), "Live workers for it: 2, with 7 of 8 slots in use.");
}

static void a_registration_is_read_as_it_was_written(void **state)
{
    struct worker worker = worker_of(2, 1);
    struct label label = {.key = STR("zo\"ne"), .value = STR("")};
    struct worker read = {0};
    struct err err = {0};
    struct buf text;
    worker.labels = &label;
    worker.label_count = 1;
    worker.code_version = STR("v\\1");
    worker.registered_at = NOW;
    buf_init(&text, *state, 0);
    worker_state_write(&worker, &text);
    assert_false(text.failed);
    assert_int_equal(worker_state_read(buf_str(&text), *state, &read, &err), ERR_OK);
    assert_int_equal(read.kinds.count, 2);
    assert_str_equal(read.kinds.at[1], STR("b"));
    assert_int_equal(read.queues.count, 1);
    assert_int_equal(read.slots, 2);
    assert_true(read.ttl_ms == TTL && read.registered_at == NOW);
    assert_str_equal(read.code_version, STR("v\\1"));
    assert_int_equal(read.label_count, 1);
    assert_str_equal(read.labels[0].key, STR("zo\"ne"));
    assert_int_equal(read.labels[0].value.len, 0);
}

static void what_cannot_be_read_is_corrupt(void **state)
{
    static const char *const texts[] = {
        "{\"kinds\":5,\"queues\":[],\"labels\":[]}",
        "{\"kinds\":[],\"queues\":[1],\"labels\":[]}",
        "{\"kinds\":[],\"queues\":[],\"labels\":[\"a\"]}",
        "{\"kinds\":[],\"queues\":[],\"labels\":{}}",
        "{\"slots\":\"many\",\"kinds\":[],\"queues\":[],\"labels\":[]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct worker worker = {0};
        struct err err = {0};
        assert_int_equal(worker_state_read(str_from(texts[i]), *state, &worker, &err), ERR_CORRUPT);
        assert_int_equal(err.code, ERR_CORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_is_live_until_its_time_is_over),
        cmocka_unit_test(a_worker_is_visible_to_those_whose_queues_have_all_of_its_own),
        cmocka_unit_test(a_claim_renews_a_worker_when_half_of_its_ttl_has_passed),
        cmocka_unit_test(a_worker_that_waits_for_work_is_live_as_long_as_it_waits),
        cmocka_unit_test(a_job_is_covered_by_live_workers_of_its_kind_and_queue),
        WITH_ARENA(it_is_told_whether_anybody_handles_a_job),
        WITH_ARENA(a_registration_is_read_as_it_was_written),
        WITH_ARENA(what_cannot_be_read_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
