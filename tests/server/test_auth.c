/* Who is let in: tokens, the admin token, loopback; and how those who guess are slowed down. */
#include <arpa/inet.h>
#include <stdio.h>

#include "base/fixture.h"
#include "server/auth.h"
#include "store/test_stores.h"

#define TOKEN_A "pawl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define TOKEN_B "pawl_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
#define ADMIN "an admin token that is long enough"
#define CLOCK INT64_C(1767225600000)

struct gate {
    struct test_stores stores;
    struct engine *engine;
    struct authority *authority;
    int64_t clock;
    int64_t steady;
    struct arena arena;
    struct sockaddr_in peer;

    enum error_code code;
    struct err err;
    struct auth auth;
    int64_t retry_ms;
};

static int64_t tell_time(void *arg)
{
    return *(int64_t *)arg;
}

static void gate_store(struct gate *gate, enum test_store sort)
{
    struct engine_options options = {
        .store = {.clock = tell_time, .clock_arg = &gate->clock, .create = true},
        .by_hand = true,
        .steady = tell_time,
        .steady_arg = &gate->steady,
    };
    struct err err = {0};
    *gate = (struct gate){.clock = CLOCK, .steady = 1000};
    gate->peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(0x0a000001)}};
    test_stores_init(&gate->stores);
    arena_init(&gate->arena);
    if (engine_open(str_from(test_stores_fresh(&gate->stores, sort)), &options, &gate->engine,
                    &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

static enum error_code gate_open(struct gate *gate, const char *address, const char *admin,
                                 bool required)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    struct authority_options options = {
        .engine = gate->engine,
        .address = (const struct sockaddr *)&at,
        .tokens_required = required,
    };
    if (admin != NULL)
        options.admin_token = str_from(admin);
    return authority_open(&options, &gate->authority, &gate->err);
}

static void gate_close(struct gate *gate)
{
    authority_close(gate->authority);
    engine_close(gate->engine);
    arena_release(&gate->arena);
    test_stores_release(&gate->stores);
}

static struct access_token put(struct gate *gate, const char *text, struct access_token token)
{
    struct store_txn *txn;
    struct store_load load = {0};
    enum store_outcome outcome;
    access_hash(str_from(text), token.hash);
    memcpy(token.id.bytes, token.hash, sizeof token.id.bytes);
    token.name = STR("ci");
    token.created_at = CLOCK;
    struct store_write write = {.tokens = &token, .token_count = 1};
    assert_int_equal(store_begin(engine_store(gate->engine), STORE_WRITE, &txn, NULL), ERR_OK);
    assert_int_equal(store_load(txn, &load, &gate->arena, NULL), ERR_OK);
    assert_int_equal(store_write(txn, &write, NULL), ERR_OK);
    assert_int_equal(store_commit(txn, &outcome, NULL), ERR_OK);
    return token;
}

static enum error_code show(struct gate *gate, const char *header, enum verb_name verb)
{
    struct auth_request request = {.verb = verb, .peer = (const struct sockaddr *)&gate->peer};
    if (header != NULL)
        request.authorization = str_from(header);
    gate->err = (struct err){0};
    gate->auth = (struct auth){0};
    gate->retry_ms = -1;
    gate->code = auth_check(gate->authority, &request, &gate->arena, &gate->auth, &gate->retry_ms,
                            &gate->err);
    assert_int_equal(gate->code, gate->code == ERR_OK ? ERR_OK : gate->err.code);
    return gate->code;
}

static bool must_read(struct gate *gate, const char *header)
{
    struct auth_request request = {.verb = VERB_get,
                                   .peer = (const struct sockaddr *)&gate->peer,
                                   .authorization = str_from(header)};
    return auth_must_read(gate->authority, &request);
}

static void pass(struct gate *gate, int64_t ms)
{
    gate->clock += ms;
    gate->steady += ms;
}

/* ---- opening ---- */

static void an_address_for_others_needs_a_token(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", NULL, false), ERR_BAD_REQUEST);
    assert_non_null(strstr(gate.err.detail, "PAWL_TOKEN"));
    put(&gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ, .expires_at = CLOCK - 1});
    put(&gate, TOKEN_B, (struct access_token){.scopes = ACCESS_READ, .revoked_at = CLOCK - 1});
    assert_int_equal(gate_open(&gate, "192.168.0.1", NULL, false), ERR_BAD_REQUEST);
    assert_int_equal(gate_open(&gate, "127.0.0.1", NULL, true), ERR_BAD_REQUEST);
    put(&gate, ADMIN, (struct access_token){.scopes = ACCESS_ADMIN});
    assert_int_equal(gate_open(&gate, "0.0.0.0", NULL, false), ERR_OK);
    gate_close(&gate);
}

static void an_admin_token_will_do_unless_it_is_short(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", "secret", false), ERR_BAD_REQUEST);
    assert_int_equal(gate_open(&gate, "127.0.0.1", "", false), ERR_BAD_REQUEST);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    assert_int_equal(show(&gate, NULL, VERB_get), ERR_UNAUTHORIZED);
    assert_int_equal(show(&gate, "Bearer " ADMIN, VERB_token_create), ERR_OK);
    assert_int_equal(gate.auth.scopes, ACCESS_ALL);
    assert_null(gate.auth.queues);
    assert_false(gate.auth.open);
    gate_close(&gate);
}

static void loopback_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {
        {"::1", true},      {"::", false}, {"::ffff:127.0.0.1", true}, {"::ffff:8.8.8.8", false},
        {"fe80::1", false}, {"::2", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        assert_int_equal(inet_pton(AF_INET6, cases[i].text, &v6.sin6_addr), 1);
        assert_int_equal(address_is_loopback((const struct sockaddr *)&v6), cases[i].loopback);
    }
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f010203)}};
    assert_true(address_is_loopback((const struct sockaddr *)&v4));
    v4.sin_addr.s_addr = htonl(0);
    assert_false(address_is_loopback((const struct sockaddr *)&v4));
    assert_false(address_is_loopback(NULL));
}

static void loopback_is_open_unless_tokens_are_required(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "127.0.0.1", NULL, false), ERR_OK);
    assert_int_equal(show(&gate, NULL, VERB_token_create), ERR_OK);
    assert_true(gate.auth.open);
    assert_int_equal(gate.auth.scopes, ACCESS_ALL);
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_UNAUTHORIZED);
    assert_int_equal(show(&gate, "Basic YWJj", VERB_get), ERR_UNAUTHORIZED);
    authority_close(gate.authority);
    assert_int_equal(gate_open(&gate, "127.0.0.1", ADMIN, true), ERR_OK);
    assert_int_equal(show(&gate, NULL, VERB_get), ERR_UNAUTHORIZED);
    gate_close(&gate);
}

/* ---- tokens ---- */

static void on_every_store(void (*test)(struct gate *gate))
{
    for (int sort = 0; sort < TEST_STORE_COUNT; sort++) {
        struct gate gate;
        gate_store(&gate, (enum test_store)sort);
        assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
        test(&gate);
        gate_close(&gate);
    }
}

static void tokens_can_be_required_and_not_any_more(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "127.0.0.1", NULL, false), ERR_OK);
    assert_int_equal(show(&gate, NULL, VERB_get), ERR_OK);
    assert_true(str_eq(gate.auth.actor, STR("http")));
    /* Not when nobody could get in then. */
    assert_int_equal(authority_may_require(gate.authority, true, &gate.err), ERR_BAD_REQUEST);
    assert_int_equal(authority_may_require(gate.authority, false, &gate.err), ERR_OK);
    put(&gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ});
    assert_int_equal(authority_may_require(gate.authority, true, &gate.err), ERR_OK);
    authority_require(gate.authority, true);
    assert_int_equal(show(&gate, NULL, VERB_get), ERR_UNAUTHORIZED);
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    authority_require(gate.authority, false);
    assert_int_equal(show(&gate, NULL, VERB_get), ERR_OK);
    gate_close(&gate);
    /* Others are never let in without one. */
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, true), ERR_OK);
    authority_require(gate.authority, false);
    assert_int_equal(show(&gate, NULL, VERB_get), ERR_UNAUTHORIZED);
    assert_int_equal(show(&gate, "Bearer " ADMIN, VERB_get), ERR_OK);
    assert_true(str_eq(gate.auth.actor, STR("token:PAWL_TOKEN")));
    gate_close(&gate);
}

static void show_a_token(struct gate *gate)
{
    struct str queues[] = {STR("a"), STR("b")};
    put(gate, TOKEN_A,
        (struct access_token){.scopes = ACCESS_READ | ACCESS_WORK, .queues = {queues, 2}});
    put(gate, TOKEN_B, (struct access_token){.scopes = ACCESS_SUBMIT});
    for (int i = 0; i < 2; i++) { /* from the store, and from what is remembered */
        assert_int_equal(must_read(gate, "bearer  " TOKEN_A), i == 0);
        assert_int_equal(show(gate, "bearer  " TOKEN_A " ", VERB_claim), ERR_OK);
        assert_true(str_eq(gate->auth.actor, STR("token:ci")));
        assert_int_equal(gate->auth.caller.len, UUID_TEXT_LEN);
        assert_int_equal(gate->auth.scopes, ACCESS_READ | ACCESS_WORK);
        assert_int_equal(gate->auth.queues->count, 2);
        assert_true(str_eq(gate->auth.queues->at[1], STR("b")));
        assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_submit), ERR_FORBIDDEN);
        assert_non_null(strstr(gate->err.detail, "submit"));
        assert_int_equal(show(gate, "Bearer " TOKEN_B, VERB_submit), ERR_OK);
        assert_null(gate->auth.queues);
    }
}

static void a_token_opens_what_its_scopes_say(void **state)
{
    (void)state;
    on_every_store(show_a_token);
}

static void revoke_a_token(struct gate *gate)
{
    struct access_token token = put(gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ});
    assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    token.revoked_at = CLOCK + 1;
    put(gate, TOKEN_A, token);
    pass(gate, AUTH_KEPT_MS - 1);
    assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    pass(gate, 1);
    assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_get), ERR_UNAUTHORIZED);
    token = put(gate, TOKEN_B, (struct access_token){.scopes = ACCESS_READ});
    assert_int_equal(show(gate, "Bearer " TOKEN_B, VERB_get), ERR_OK);
    token.revoked_at = CLOCK + 1;
    put(gate, TOKEN_B, token);
    authority_forget(gate->authority, NULL);
    assert_int_equal(show(gate, "Bearer " TOKEN_B, VERB_get), ERR_UNAUTHORIZED);
}

static void a_revoked_token_opens_nothing_after_a_few_seconds(void **state)
{
    (void)state;
    on_every_store(revoke_a_token);
}

static void let_a_token_expire(struct gate *gate)
{
    put(gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ, .expires_at = CLOCK + 500});
    assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    pass(gate, 499);
    assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    pass(gate, 1);
    assert_int_equal(show(gate, "Bearer " TOKEN_A, VERB_get), ERR_UNAUTHORIZED);
}

static void a_token_that_is_remembered_expires_on_time(void **state)
{
    (void)state;
    on_every_store(let_a_token_expire);
}

static void only_what_could_be_a_token_is_looked_for(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer x",
                                        "Bearer " TOKEN_A "A",
                                        "Basic",
                                        "Bearer\tx",
                                        "Bearerx " TOKEN_A,
                                        TOKEN_A,
                                        "Bearer " TOKEN_A " " TOKEN_B,
                                        "Bearer pawl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+/"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct gate gate;
        gate_store(&gate, TEST_MEMORY);
        assert_int_equal(gate_open(&gate, "127.0.0.1", ADMIN, false), ERR_OK);
        assert_false(must_read(&gate, wrong[i]));
        assert_int_equal(show(&gate, wrong[i], VERB_get), ERR_UNAUTHORIZED);
        gate_close(&gate);
    }
}

/* ---- guessing ---- */

static char *guess(int number)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "Bearer pawl_%043d", number);
    return text;
}

static void those_who_guess_must_wait_longer_each_time(void **state)
{
    (void)state;
    struct gate gate;
    int64_t last = 0;
    int slowed = 0;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    for (int i = 0; i < 40; i++) {
        if (show(&gate, guess(i), VERB_get) == ERR_UNAUTHORIZED)
            continue;
        assert_int_equal(gate.code, ERR_RATE_LIMITED);
        assert_true(gate.retry_ms >= last && gate.retry_ms <= 60000);
        last = gate.retry_ms;
        assert_int_equal(show(&gate, "Bearer " ADMIN, VERB_get), ERR_OK);
        assert_int_equal(show(&gate, "Bearer nonsense", VERB_get), ERR_RATE_LIMITED);
        assert_int_equal(gate.retry_ms, last);
        slowed++;
        pass(&gate, gate.retry_ms);
    }
    assert_true(slowed > 10);
    assert_true(last == 60000);
    gate_close(&gate);
}

static void a_known_token_passes_where_others_guess(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    put(&gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ});
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    for (int i = 0; i < 100; i++)
        show(&gate, guess(i), VERB_get);
    assert_int_equal(gate.code, ERR_RATE_LIMITED);
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    pass(&gate, AUTH_KEPT_MS);
    for (int i = 0; i < 100; i++)
        show(&gate, guess(i), VERB_get);
    assert_int_equal(gate.code, ERR_RATE_LIMITED);
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    gate_close(&gate);
}

/* Many may share an address: a proxy, a company. */
static void a_right_token_that_was_never_seen_passes_where_others_guess(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    put(&gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ});
    for (int i = 0; i < 50; i++)
        show(&gate, guess(i), VERB_get);
    assert_int_equal(gate.code, ERR_RATE_LIMITED);
    assert_true(must_read(&gate, "Bearer " TOKEN_A));
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    assert_int_equal(show(&gate, guess(50), VERB_get), ERR_RATE_LIMITED);
    gate_close(&gate);
}

static void the_store_is_asked_for_wrong_tokens_only_so_often(void **state)
{
    (void)state;
    struct gate gate;
    int asked = 0;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    put(&gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ});
    for (int i = 0; i < 10000; i++) {
        asked += must_read(&gate, guess(i));
        show(&gate, guess(i), VERB_get);
        pass(&gate, i % 10 == 0);
    }
    /* A hundred at once, and one every 50 ms of the second. */
    assert_in_range(asked, 115, 125);
    /* Then a token that was never seen waits for its turn, which comes soon. */
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_RATE_LIMITED);
    assert_in_range(gate.retry_ms, 1, 50);
    assert_false(must_read(&gate, "Bearer " TOKEN_A));
    assert_int_equal(show(&gate, "Bearer " ADMIN, VERB_get), ERR_OK);
    pass(&gate, 50);
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    gate_close(&gate);
}

/* As a stream does, which goes on while others guess. */
static void one_that_was_let_in_is_asked_for_again_and_is_no_guess(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    struct access_token token = put(&gate, TOKEN_A, (struct access_token){.scopes = ACCESS_READ});
    struct access_token other = put(&gate, TOKEN_B, (struct access_token){.scopes = ACCESS_READ});
    assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
    assert_int_equal(show(&gate, "Bearer " TOKEN_B, VERB_get), ERR_OK);
    for (int i = 0; i < 1000; i++)
        show(&gate, guess(i), VERB_get);
    token.revoked_at = CLOCK;
    other.revoked_at = CLOCK;
    put(&gate, TOKEN_A, token);
    put(&gate, TOKEN_B, other);
    authority_forget(gate.authority, &token.id);
    struct auth_request request = {.verb = VERB_get,
                                   .peer = (const struct sockaddr *)&gate.peer,
                                   .authorization = STR("Bearer " TOKEN_A),
                                   .again = true};
    assert_int_equal(
        auth_check(gate.authority, &request, &gate.arena, &gate.auth, &gate.retry_ms, &gate.err),
        ERR_UNAUTHORIZED);
    /* Of what was forgotten the other is no part. */
    assert_int_equal(show(&gate, "Bearer " TOKEN_B, VERB_get), ERR_OK);
    /* From an address where nobody has guessed. */
    gate.peer.sin_addr.s_addr = htonl(0x0a000002);
    for (int i = 0; i < 20; i++)
        assert_int_equal(auth_check(gate.authority, &request, &gate.arena, &gate.auth,
                                    &gate.retry_ms, &gate.err),
                         ERR_UNAUTHORIZED);
    for (int i = 0; i < 6; i++)
        assert_int_equal(show(&gate, guess(i), VERB_get), ERR_UNAUTHORIZED);
    gate_close(&gate);
}

static void another_address_does_not_wait_and_guesses_are_forgotten(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    for (int i = 0; i < 10; i++)
        show(&gate, guess(i), VERB_get);
    assert_int_equal(gate.code, ERR_RATE_LIMITED);
    struct sockaddr_in guesser = gate.peer;
    gate.peer.sin_addr.s_addr = htonl(0x0a000002);
    assert_int_equal(show(&gate, "Bearer " ADMIN, VERB_get), ERR_OK);
    /* As many addresses as there like: the table does not grow. */
    for (uint32_t i = 0; i < 20000; i++) {
        gate.peer.sin_addr.s_addr = htonl(0x0b000000 + i);
        assert_int_equal(show(&gate, guess(1), VERB_get), ERR_UNAUTHORIZED);
    }
    gate.peer = guesser;
    pass(&gate, 16 * 60 * 1000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(show(&gate, guess(i), VERB_get), ERR_UNAUTHORIZED);
    gate_close(&gate);
}

static void more_tokens_than_are_remembered_all_pass(void **state)
{
    (void)state;
    struct gate gate;
    gate_store(&gate, TEST_MEMORY);
    assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
    for (int i = 0; i < 2000; i++)
        put(&gate, guess(i) + strlen("Bearer "), (struct access_token){.scopes = ACCESS_READ});
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 2000; i++)
            assert_int_equal(show(&gate, guess(i), VERB_get), ERR_OK);
    gate_close(&gate);
}

static void a_clock_that_is_a_year_ahead_for_seconds_ends_no_token(void **state)
{
    const int64_t year = INT64_C(365) * 24 * 3600 * 1000;
    (void)state;
    for (int sort = TEST_MEMORY; sort <= TEST_POSTGRES; sort++) {
        struct gate gate;
        gate_store(&gate, (enum test_store)sort);
        put(&gate, TOKEN_A,
            (struct access_token){.scopes = ACCESS_READ, .expires_at = CLOCK + 7200 * 1000});
        assert_int_equal(gate_open(&gate, "0.0.0.0", ADMIN, false), ERR_OK);
        assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
        gate.clock += year;
        pass(&gate, AUTH_KEPT_MS + 1);
        assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
        gate.clock -= year;
        pass(&gate, AUTH_KEPT_MS + 1);
        assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_OK);
        /* Its time is over when it is. */
        pass(&gate, 7200 * 1000);
        assert_int_equal(show(&gate, "Bearer " TOKEN_A, VERB_get), ERR_UNAUTHORIZED);
        gate_close(&gate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_is_a_year_ahead_for_seconds_ends_no_token),
        cmocka_unit_test(an_address_for_others_needs_a_token),
        cmocka_unit_test(an_admin_token_will_do_unless_it_is_short),
        cmocka_unit_test(loopback_is_known),
        cmocka_unit_test(loopback_is_open_unless_tokens_are_required),
        cmocka_unit_test(tokens_can_be_required_and_not_any_more),
        cmocka_unit_test(a_token_opens_what_its_scopes_say),
        cmocka_unit_test(a_revoked_token_opens_nothing_after_a_few_seconds),
        cmocka_unit_test(a_token_that_is_remembered_expires_on_time),
        cmocka_unit_test(only_what_could_be_a_token_is_looked_for),
        cmocka_unit_test(those_who_guess_must_wait_longer_each_time),
        cmocka_unit_test(a_known_token_passes_where_others_guess),
        cmocka_unit_test(a_right_token_that_was_never_seen_passes_where_others_guess),
        cmocka_unit_test(the_store_is_asked_for_wrong_tokens_only_so_often),
        cmocka_unit_test(one_that_was_let_in_is_asked_for_again_and_is_no_guess),
        cmocka_unit_test(another_address_does_not_wait_and_guesses_are_forgotten),
        cmocka_unit_test(more_tokens_than_are_remembered_all_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
