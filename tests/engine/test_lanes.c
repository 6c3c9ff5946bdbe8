/* Lanes that nobody needs any more are given back, on every store: a store in which new queues,
 * selectors and avoid lists come and go can do so for ever, and whoever knew a lane by its number
 * learns that the number means nothing now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/players.h"
#include "store/test_stores.h"

enum { QUEUES = STORE_LANES_FEW + 100, AT_ONCE = 1000 };

struct yard {
    struct test_stores stores;
    struct player player;
    struct player other; /* PostgreSQL: as of another process */
    bool shared;
    int64_t clock;
    uint32_t ids;
    char names[QUEUES][8];
    struct spec specs[QUEUES];
};

static void yard_open(struct yard *y, enum test_store sort)
{
    *y = (struct yard){.clock = INT64_C(1767225600000), .shared = sort == TEST_POSTGRES};
    test_stores_init(&y->stores);
    const char *url = test_stores_fresh(&y->stores, sort);
    player_open(&y->player, test_store_names[sort], url, &y->clock, 1);
    if (y->shared)
        player_open(&y->other, "another process", url, &y->clock, 2);
    for (int i = 0; i < QUEUES; i++) {
        int len = snprintf(y->names[i], sizeof y->names[i], "q%d", i);
        y->specs[i] = spec_defaults(NULL);
        y->specs[i].kind = STR("mail");
        y->specs[i].queue = (struct str){y->names[i], (size_t)len};
    }
}

static void yard_close(struct yard *y)
{
    player_close(&y->player);
    if (y->shared)
        player_close(&y->other);
    test_stores_release(&y->stores);
}

static struct op submit_op(struct yard *y, int queue)
{
    uint8_t random[10] = {0};
    y->ids++;
    memcpy(random + 6, &y->ids, sizeof y->ids);
    struct op op = {.type = OP_COMMAND, .job = uuid_v7(y->clock, random)};
    op.command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
    op.command.submit.spec = &y->specs[queue];
    return op;
}

/* One job for each of the queues. */
static void submit_to(struct yard *y, struct player *player, int from, int to)
{
    static struct op ops[AT_ONCE];
    for (int i = from; i < to;) {
        uint32_t count = 0;
        while (i < to && count < AT_ONCE)
            ops[count++] = submit_op(y, i++);
        player_run(player, ops, count);
        for (uint32_t k = 0; k < count; k++)
            assert_int_equal(player->ops[k].code, ERR_OK);
    }
}

/* Claims up to `max` jobs of the queues, or of all, and lets them run. Returns how many there were.
 */
static uint32_t claim_of(struct player *player, struct names queues, uint32_t max)
{
    struct op op = {.type = OP_CLAIM};
    op.claim.claimer.queues = queues;
    op.command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
    op.command.claim.worker_id = STR("w");
    op.command.claim.start = true;
    op.claim.max = max;
    player_run(player, &op, 1);
    assert_int_equal(player->ops[0].code, ERR_OK);
    return player->ops[0].grant_count;
}

static uint32_t claim(struct player *player, uint32_t max)
{
    return claim_of(player, (struct names){0}, max);
}

static void sweep(struct yard *y)
{
    struct err err = {0};
    uint32_t count;
    if (store_sweep(y->player.store, 0, 100, &count, &err) != ERR_OK)
        fail_msg("%s: %s", y->player.name, err.detail);
}

static uint32_t lanes(struct player *player, struct store_lane **ret)
{
    struct store_txn *txn;
    struct err err = {0};
    uint32_t count;
    assert_int_equal(store_begin(player->store, STORE_READ, &txn, &err), ERR_OK);
    assert_int_equal(store_lanes(txn, 0, &player->arena, ret, &count, &err), ERR_OK);
    store_rollback(txn);
    return count;
}

/* A lane of every queue, and nothing in any of them. */
static void use_all(struct yard *y)
{
    submit_to(y, &y->player, 0, QUEUES);
    assert_int_equal(claim(&y->player, AT_ONCE), AT_ONCE);
    assert_int_equal(claim(&y->player, AT_ONCE), QUEUES - AT_ONCE);
}

static void lanes_with_work_stay(struct yard *y)
{
    struct store_lane *left;
    use_all(y);
    y->specs[3].run_at = y->clock + 1000;
    submit_to(y, &y->player, 3, 4);
    submit_to(y, &y->player, 7, 8);
    assert_int_equal(lanes(&y->player, &left), QUEUES);
    sweep(y);
    assert_int_equal(lanes(&y->player, &left), 2);
    assert_memory_equal(left[0].key.at, "[\"job\",\"q3\",\"mail\"]", left[0].key.len);
    assert_memory_equal(left[1].key.at, "[\"job\",\"q7\",\"mail\"]", left[1].key.len);
    assert_int_equal(claim(&y->player, 10), 1);
    y->clock += 1000;
    player_promote(&y->player, 10);
    assert_int_equal(claim(&y->player, 10), 1);
}

static void given_back_lanes_are_used_again(struct yard *y)
{
    struct store_lane *left;
    use_all(y);
    sweep(y);
    assert_int_equal(lanes(&y->player, &left), 0);
    /* In another order than before: what knows a lane by its old number would look elsewhere. */
    submit_to(y, &y->player, 50, 60);
    submit_to(y, &y->player, 0, 50);
    struct names one = {&y->specs[50].queue, 1};
    assert_int_equal(claim_of(&y->player, one, AT_ONCE), 1);
    assert_int_equal(claim_of(&y->player, one, AT_ONCE), 0);
    assert_int_equal(claim(&y->player, AT_ONCE), 59);
    assert_int_equal(claim(&y->player, AT_ONCE), 0);
}

/* The other process has used all lanes, and hears of nothing but what it reads itself. */
static void others_learn_of_it(struct yard *y)
{
    struct player *other = y->shared ? &y->other : &y->player;
    use_all(y);
    submit_to(y, other, 0, 10);
    assert_int_equal(claim(other, AT_ONCE), 10);
    sweep(y);
    submit_to(y, other, 5, 25);
    assert_int_equal(claim(&y->player, 5), 5);
    assert_int_equal(claim(other, AT_ONCE), 15);
    submit_to(y, &y->player, 20, 30);
    assert_int_equal(claim(other, AT_ONCE), 10);
}

/* Whoever has a transaction open may be about to put work into any lane that it knows. */
static void nothing_goes_meanwhile(struct yard *y)
{
    struct store_lane *left;
    struct store_txn *txn;
    struct store_load load = {0};
    struct err err = {0};
    if (!y->shared)
        return;
    use_all(y);
    assert_int_equal(store_begin(y->other.store, STORE_WRITE, &txn, &err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &y->other.arena, &err), ERR_OK);
    sweep(y);
    assert_int_equal(lanes(&y->player, &left), QUEUES);
    store_rollback(txn);
    sweep(y);
    assert_int_equal(lanes(&y->player, &left), 0);
}

/* Much is kept by a lane's number where there is one process: numbers do not rise for ever, though
 * there is always a new lane with work. */
static void numbers_stay_low(struct yard *y)
{
    struct store_lane *left;
    if (strcmp(y->player.name, test_store_names[TEST_SQLITE]) != 0)
        return;
    for (int round = 0; round < 4; round++) {
        submit_to(y, &y->player, 0, QUEUES);
        y->specs[round].run_at = y->clock + 1000;
        y->specs[round].kind = STR("later");
        submit_to(y, &y->player, round, round + 1);
        y->specs[round].run_at = 0;
        y->specs[round].kind = STR("mail");
        assert_int_equal(claim(&y->player, AT_ONCE), AT_ONCE);
        assert_int_equal(claim(&y->player, AT_ONCE), QUEUES - AT_ONCE);
        sweep(y);
        uint32_t count = lanes(&y->player, &left);
        assert_int_equal(count, round + 1);
        assert_in_range(left[count - 1].number, 1, QUEUES + 4);
    }
    y->clock += 1000;
    player_promote(&y->player, 10);
    assert_int_equal(claim(&y->player, 10), 4);
}

static void few_lanes_are_left_alone(struct yard *y)
{
    struct store_lane *left;
    submit_to(y, &y->player, 0, 20);
    assert_int_equal(claim(&y->player, AT_ONCE), 20);
    sweep(y);
    assert_int_equal(lanes(&y->player, &left), 20);
}

static void on_every_store(void (*test)(struct yard *y))
{
    static struct yard yard;
    for (int sort = TEST_MEMORY; sort < TEST_STORE_COUNT; sort++) {
        yard_open(&yard, (enum test_store)sort);
        test(&yard);
        yard_close(&yard);
    }
}

static void lanes_in_which_nothing_stands_are_given_back_and_others_stay(void **state)
{
    (void)state;
    on_every_store(lanes_with_work_stay);
}

static void a_lane_that_was_given_back_can_be_used_again(void **state)
{
    (void)state;
    on_every_store(given_back_lanes_are_used_again);
}

static void another_process_puts_no_work_into_a_lane_that_was_given_back(void **state)
{
    (void)state;
    on_every_store(others_learn_of_it);
}

static void no_lane_is_given_back_while_another_process_is_in_a_transaction(void **state)
{
    (void)state;
    on_every_store(nothing_goes_meanwhile);
}

static void numbers_of_lanes_do_not_rise_for_ever_on_sqlite(void **state)
{
    (void)state;
    on_every_store(numbers_stay_low);
}

static void a_store_with_few_lanes_keeps_them(void **state)
{
    (void)state;
    on_every_store(few_lanes_are_left_alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_in_which_nothing_stands_are_given_back_and_others_stay),
        cmocka_unit_test(a_lane_that_was_given_back_can_be_used_again),
        cmocka_unit_test(another_process_puts_no_work_into_a_lane_that_was_given_back),
        cmocka_unit_test(no_lane_is_given_back_while_another_process_is_in_a_transaction),
        cmocka_unit_test(numbers_of_lanes_do_not_rise_for_ever_on_sqlite),
        cmocka_unit_test(a_store_with_few_lanes_keeps_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
