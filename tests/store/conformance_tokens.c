/* Access tokens, and lists that are limited to some queues. */
#include "store/conformance.h"

static struct access_token a_token(uint8_t number)
{
    struct access_token token = {
        .name = STR("ann"),
        .scopes = ACCESS_READ | ACCESS_WORK,
        .created_at = at(1),
        .expires_at = at(60),
    };
    memset(token.id.bytes, number, sizeof token.id.bytes);
    memset(token.hash, 100 + number, sizeof token.hash);
    return token;
}

static void put_token(struct trial *t, const struct access_token *token)
{
    write_other(t, &(struct store_write){.tokens = token, .token_count = 1});
}

static struct store_tokens find(struct trial *t, struct store_tokens wanted)
{
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_tokens(txn, &wanted, &t->w.arena, &t->w.err));
    rollback(t, txn);
    return wanted;
}

static void a_token_is_found_by_its_hash_and_by_its_id(void **state)
{
    struct trial *t = *state;
    struct str queues[] = {STR("a b"), STR("\"quoted\\\"")};
    struct access_token put = a_token(1);
    struct access_token other = a_token(2);
    put.queues = (struct names){queues, 2};
    put_token(t, &other);
    put_token(t, &put);
    struct store_tokens by_hash = find(t, (struct store_tokens){.hash = put.hash});
    struct store_tokens by_id = find(t, (struct store_tokens){.id = &put.id});
    assert_true(by_hash.count == 1 && by_id.count == 1);
    const struct access_token *found[] = {by_hash.at, by_id.at};
    for (int i = 0; i < 2; i++) {
        assert_true(uuid_eq(found[i]->id, put.id));
        assert_memory_equal(found[i]->hash, put.hash, HASH_LEN);
        assert_text(found[i]->name, "ann");
        assert_int_equal(found[i]->scopes, ACCESS_READ | ACCESS_WORK);
        assert_int_equal(found[i]->queues.count, 2);
        assert_text(found[i]->queues.at[0], "a b");
        assert_text(found[i]->queues.at[1], "\"quoted\\\"");
        assert_true(found[i]->created_at == at(1));
        assert_true(found[i]->expires_at == at(60));
        assert_true(found[i]->revoked_at == 0);
    }
}

static void a_token_that_is_not_there_is_not_found_and_the_time_is_told(void **state)
{
    struct trial *t = *state;
    struct access_token put = a_token(1);
    struct access_token other = a_token(2);
    put_token(t, &put);
    struct store_tokens by_hash = find(t, (struct store_tokens){.hash = other.hash});
    struct store_tokens by_id = find(t, (struct store_tokens){.id = &other.id});
    assert_int_equal(by_hash.count, 0);
    assert_int_equal(by_id.count, 0);
    struct store_load load = {0};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_true(by_hash.now == load.now);
}

static void a_token_for_all_queues_that_never_ends_stays_one(void **state)
{
    struct trial *t = *state;
    struct access_token put = a_token(1);
    put.expires_at = 0;
    put.scopes = ACCESS_ALL;
    put_token(t, &put);
    struct store_tokens found = find(t, (struct store_tokens){.hash = put.hash});
    assert_int_equal(found.count, 1);
    assert_int_equal(found.at[0].queues.count, 0);
    assert_int_equal(found.at[0].scopes, ACCESS_ALL);
    assert_true(found.at[0].expires_at == 0);
}

static void revoking_changes_nothing_else_and_happens_once(void **state)
{
    struct trial *t = *state;
    struct access_token put = a_token(1);
    put_token(t, &put);
    struct access_token revoked = put;
    revoked.revoked_at = at(5);
    revoked.name = STR("bob");
    revoked.scopes = ACCESS_ALL;
    put_token(t, &revoked);
    revoked.revoked_at = at(9);
    put_token(t, &revoked);
    struct store_tokens found = find(t, (struct store_tokens){.hash = put.hash});
    assert_int_equal(found.count, 1);
    assert_true(found.at[0].revoked_at == at(5));
    assert_text(found.at[0].name, "ann");
    assert_int_equal(found.at[0].scopes, ACCESS_READ | ACCESS_WORK);
}

static void tokens_are_listed_by_id(void **state)
{
    struct trial *t = *state;
    struct store_tokens all = {0};
    struct access_token put[] = {a_token(3), a_token(1), a_token(2)};
    put[1].revoked_at = at(2);
    write_other(t, &(struct store_write){.tokens = put, .token_count = 3});
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_tokens(txn, &all, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_int_equal(all.count, 3);
    for (uint32_t i = 0; i < all.count; i++)
        assert_int_equal(all.at[i].id.bytes[0], i + 1);
    assert_true(all.at[0].revoked_at == at(2));
}

static void tokens_can_be_deleted(void **state)
{
    struct trial *t = *state;
    struct access_token put[] = {a_token(1), a_token(2), a_token(3)};
    struct uuid gone[] = {put[0].id, put[2].id, a_token(9).id};
    write_other(t, &(struct store_write){.tokens = put, .token_count = 3});
    write_other(t, &(struct store_write){.tokens_gone = gone, .token_gone_count = 3});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(find(t, (struct store_tokens){.hash = put[i].hash}).count, i == 1);
        assert_int_equal(find(t, (struct store_tokens){.id = &put[i].id}).count, i == 1);
    }
    /* Nothing of it is left in the way, also not of one that comes in the same write. */
    struct access_token again = a_token(4);
    memcpy(again.hash, put[0].hash, sizeof again.hash);
    write_other(t, &(struct store_write){.tokens = &again,
                                         .token_count = 1,
                                         .tokens_gone = &put[1].id,
                                         .token_gone_count = 1});
    struct store_tokens found = find(t, (struct store_tokens){.hash = put[0].hash});
    assert_true(found.count == 1 && uuid_eq(found.at[0].id, again.id));
    assert_int_equal(find(t, (struct store_tokens){.id = &put[1].id}).count, 0);
}

static void a_token_that_was_rolled_back_is_not_there(void **state)
{
    struct trial *t = *state;
    struct access_token put = a_token(1);
    struct store_load load = {0};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    ok(t, store_write(txn, &(struct store_write){.tokens = &put, .token_count = 1}, &t->w.err));
    rollback(t, txn);
    assert_int_equal(find(t, (struct store_tokens){.hash = put.hash}).count, 0);
    assert_int_equal(find(t, (struct store_tokens){.id = &put.id}).count, 0);
}

/* ---- lists ---- */

static struct uuid submit_to(struct trial *t, const char *name, const char *queue)
{
    struct spec spec = world_spec();
    spec.queue = str_from(queue);
    return submit_spec(t, name, spec);
}

static uint32_t listed(struct trial *t, struct store_filter filter)
{
    struct store_job *jobs;
    uint32_t count;
    filter.limit = 10;
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    rollback(t, txn);
    for (uint32_t i = 0; i < count; i++)
        assert_true(names_have(filter.queues, jobs[i].slice.job.spec.queue));
    return count;
}

static void a_list_can_be_limited_to_some_queues(void **state)
{
    struct trial *t = *state;
    struct str some[] = {STR("a"), STR("c\"")};
    struct str nowhere[] = {STR("x")};
    struct names queues = {some, 2};
    struct names none = {nowhere, 1};
    submit_to(t, "1", "a");
    struct uuid other = submit_to(t, "2", "b");
    submit_to(t, "3", "c\"");
    struct uuid last = submit_to(t, "4", "a");
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues}), 3);
    assert_int_equal(listed(t, (struct store_filter){.queues = &none}), 0);
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues, .id = other}), 0);
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues, .id = last}), 1);
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues, .before = last}), 2);
    assert_int_equal(
        listed(t, (struct store_filter){.queues = &queues, .statuses = 1U << JOB_QUEUED}), 3);
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues, .queue = STR("a")}), 2);
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues, .queue = STR("b")}), 0);
    assert_int_equal(listed(t, (struct store_filter){.queues = &queues, .asking = true}), 0);
}

struct conformance_tests conformance_tokens(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(a_token_is_found_by_its_hash_and_by_its_id),
        TRIAL(a_token_that_is_not_there_is_not_found_and_the_time_is_told),
        TRIAL(a_token_for_all_queues_that_never_ends_stays_one),
        TRIAL(revoking_changes_nothing_else_and_happens_once),
        TRIAL(tokens_are_listed_by_id),
        TRIAL(tokens_can_be_deleted),
        TRIAL(a_token_that_was_rolled_back_is_not_there),
        TRIAL(a_list_can_be_limited_to_some_queues),
    };
    return TRIALS(tests);
}
