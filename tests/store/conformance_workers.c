/* Registrations of workers, and who holds leases in which queues. */
#include "store/conformance.h"

static struct worker worker_of(const char *id, int64_t expires_at)
{
    return (struct worker){
        .id = str_from(id), .slots = 1, .ttl_ms = 5000, .expires_at = expires_at};
}

static void put_worker(struct trial *t, const char *id, int64_t expires_at)
{
    struct worker worker = worker_of(id, expires_at);
    write_other(t, &(struct store_write){.registrations = &worker, .registration_count = 1});
}

/* "w1 5, w2 60": who is registered, and for how many seconds from the start. */
static const char *registered(struct trial *t)
{
    struct worker *rows = NULL;
    uint32_t count = 0;
    int64_t counted = -1;
    struct buf text;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_registrations(txn, &t->w.arena, &rows, &count, &t->w.err));
    ok(t, store_registration_count(txn, &counted, &t->w.err));
    rollback(t, txn);
    assert_true(counted == count);
    buf_init(&text, &t->w.arena, 64);
    for (uint32_t i = 0; i < count; i++)
        buf_addf(&text, "%s%.*s %lld", i > 0 ? ", " : "", STR_ARG(rows[i].id),
                 (long long)(rows[i].expires_at - at(0)) / 1000);
    buf_add_char(&text, '\0');
    assert_false(text.failed);
    return text.at;
}

static void registrations_come_by_id_until_they_are_taken_back(void **state)
{
    struct trial *t = *state;
    struct str gone[] = {STR_INIT("w1"), STR_INIT("unknown")};
    assert_string_equal(registered(t), "");
    put_worker(t, "w2", at(60));
    put_worker(t, "w1", at(5));
    put_worker(t, "W", at(30));
    assert_string_equal(registered(t), "W 30, w1 5, w2 60");
    put_worker(t, "w2", at(10));
    assert_string_equal(registered(t), "W 30, w1 5, w2 10");
    advance(t, 3600); /* whose time is over is known to those who ask */
    assert_string_equal(registered(t), "W 30, w1 5, w2 10");
    write_other(t, &(struct store_write){.registrations_gone = gone, .registration_gone_count = 2});
    assert_string_equal(registered(t), "W 30, w2 10");
}

static void a_registration_is_loaded_as_it_was_written(void **state)
{
    struct trial *t = *state;
    struct str kinds[] = {STR_INIT("call"), STR_INIT("mail")};
    struct str queue = STR("fast");
    struct label label = {.key = STR("zone"), .value = STR("eu")};
    struct worker put = worker_of("w1", at(60));
    struct store_registration wanted[] = {{.id = STR("nobody")}, {.id = STR("w1")}};
    struct store_load load = {.registrations = wanted, .registration_count = 2};
    put.kinds = (struct names){kinds, 2};
    put.queues = (struct names){&queue, 1};
    put.slots = 7;
    put.code_version = STR("v1");
    put.labels = &label;
    put.label_count = 1;
    put.registered_at = at(1);
    write_other(t, &(struct store_write){.registrations = &put, .registration_count = 1});
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++) {
        struct store_txn *txn = begin(t, (enum store_mode)mode);
        load.registrations_locked = mode == STORE_WRITE;
        ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
        rollback(t, txn);
        assert_false(wanted[0].found);
        assert_true(wanted[1].found);
        const struct worker *worker = &wanted[1].worker;
        assert_text(worker->id, "w1");
        assert_int_equal(worker->kinds.count, 2);
        assert_text(worker->kinds.at[1], "mail");
        assert_int_equal(worker->queues.count, 1);
        assert_text(worker->queues.at[0], "fast");
        assert_int_equal(worker->slots, 7);
        assert_text(worker->code_version, "v1");
        assert_int_equal(worker->label_count, 1);
        assert_text(worker->labels[0].value, "eu");
        assert_true(worker->ttl_ms == 5000 && worker->registered_at == at(1) &&
                    worker->expires_at == at(60));
    }
}

static void a_renewal_prolongs_a_registration_and_makes_none(void **state)
{
    struct trial *t = *state;
    struct worker renewals[] = {worker_of("nobody", at(90)), worker_of("w1", at(50)),
                                worker_of("w2", at(90))};
    renewals[2].slots = 99; /* nothing but the time is written */
    put_worker(t, "w1", at(60));
    put_worker(t, "w2", at(60));
    write_other(t, &(struct store_write){.renewals = renewals, .renewal_count = 3});
    assert_string_equal(registered(t), "w1 60, w2 90");
    struct store_registration wanted = {.id = STR("w2")};
    struct store_load load = {.registrations = &wanted, .registration_count = 1};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(wanted.worker.slots, 1);
}

static uint32_t sweep(struct trial *t, uint32_t limit)
{
    uint32_t count = UINT32_MAX;
    ok(t, store_sweep(t->store, t->now, limit, &count, &t->w.err));
    return count;
}

static void registrations_whose_time_is_over_are_swept(void **state)
{
    struct trial *t = *state;
    struct worker renewed = worker_of("d", at(4000));
    for (int i = 0; i < 3; i++)
        put_worker(t, i == 0 ? "a" : i == 1 ? "b" : "c", at(10 + i));
    put_worker(t, "d", at(10));
    write_other(t, &(struct store_write){.renewals = &renewed, .renewal_count = 1});
    advance(t, 10 + WORKER_KEPT_MS / 1000 - 1);
    assert_int_equal(sweep(t, 100), 0);
    advance(t, 1);
    assert_int_equal(sweep(t, 100), 1);
    assert_string_equal(registered(t), "b 11, c 12, d 4000");
    advance(t, 60);
    assert_int_equal(sweep(t, 1), 1);
    assert_int_equal(sweep(t, 100), 1);
    assert_string_equal(registered(t), "d 4000");
}

static void what_is_rolled_back_registers_nobody(void **state)
{
    struct trial *t = *state;
    struct worker worker = worker_of("w1", at(60));
    struct str gone = STR("w2");
    struct store_write write = {.registrations = &worker,
                                .registration_count = 1,
                                .registrations_gone = &gone,
                                .registration_gone_count = 1};
    put_worker(t, "w2", at(60));
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_write(txn, &write, &t->w.err));
    rollback(t, txn);
    assert_string_equal(registered(t), "w2 60");
}

static struct uuid submit_to(struct trial *t, const char *name, const char *queue)
{
    struct spec spec = world_spec();
    spec.queue = str_from(queue);
    return submit_spec(t, name, spec);
}

static void leases_are_counted_by_the_queues_of_their_jobs(void **state)
{
    struct trial *t = *state;
    struct str names[] = {STR_INIT("mail"), STR_INIT("none")};
    struct names queues = {names, 2};
    struct store_worker *rows = NULL;
    uint32_t count = 0;
    act(t, submit_to(t, "a", "mail"), claim_by("w1", true));
    act(t, submit_to(t, "b", "video"), claim_by("w1", true));
    act(t, submit_to(t, "c", "video"), claim_by("w2", true));
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_workers(txn, &queues, &t->w.arena, &rows, &count, &t->w.err));
    assert_int_equal(count, 1);
    assert_text(rows[0].worker_id, "w1");
    assert_int_equal(rows[0].leases, 1);
    ok(t, store_workers(txn, NULL, &t->w.arena, &rows, &count, &t->w.err));
    assert_int_equal(count, 2);
    assert_int_equal(rows[0].leases, 2);
    rollback(t, txn);
}

struct conformance_tests conformance_workers(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(registrations_come_by_id_until_they_are_taken_back),
        TRIAL(a_registration_is_loaded_as_it_was_written),
        TRIAL(a_renewal_prolongs_a_registration_and_makes_none),
        TRIAL(registrations_whose_time_is_over_are_swept),
        TRIAL(what_is_rolled_back_registers_nobody),
        TRIAL(leases_are_counted_by_the_queues_of_their_jobs),
    };
    return TRIALS(tests);
}
