/* pawl_submit: jobs that users put in with transactions of their own. */
#include "run_ops.h"
#include "store/postgres_case.h"

/* Takes in what was submitted; how many there were. */
static uint32_t admit(struct postgres_case *c)
{
    uint32_t count = 0;
    if (batch_drain_outbox(&c->batcher, 100, &c->arena, &count, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    return count;
}

static int64_t jobs(struct postgres_case *c)
{
    return sql_int(c, "SELECT count(*) FROM pawl.jobs");
}

static void what_is_committed_becomes_one_job_with_that_id(void **state)
{
    struct postgres_case *c = *state;
    char id[64];
    char check[256];
    sql(c, "BEGIN");
    (void)snprintf(id, sizeof id, "%.60s",
                   sql(c, "SELECT pawl_submit('mail', '{\"to\": 1.10}', '{\"priority\": 5}')"));
    assert_int_equal(admit(c), 0);
    sql(c, "COMMIT");
    assert_int_equal(admit(c), 1);
    assert_int_equal(admit(c), 0);
    assert_int_equal(jobs(c), 1);
    (void)snprintf(check, sizeof check,
                   "SELECT kind || priority FROM pawl.jobs WHERE id = '%s'::uuid", id);
    assert_string_equal(sql(c, check), "mail5");
    assert_int_equal(claim_jobs(c, 10), 1);
    assert_true(has_text(sql(c, "SELECT payload FROM pawl.job_events WHERE version = 1"), "1.10"));
}

static void what_is_rolled_back_never_was(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "BEGIN");
    sql(c, "SELECT pawl_submit('mail')");
    sql(c, "ROLLBACK");
    assert_int_equal(admit(c), 0);
    assert_int_equal(jobs(c), 0);
}

static void an_admission_that_is_rolled_back_can_be_made_again(void **state)
{
    struct postgres_case *c = *state;
    struct store_submission *submissions;
    struct store_txn *txn;
    uint32_t count = 0;
    sql(c, "SELECT pawl_submit('mail')");
    assert_int_equal(store_begin(c->store, STORE_WRITE, &txn, &c->err), ERR_OK);
    struct store_outbox_request all = {.limit = 10};
    assert_int_equal(store_outbox_drain(txn, &all, &c->arena, &submissions, &count, &c->err),
                     ERR_OK);
    assert_int_equal(count, 1);
    /* Another server passes over what is being taken in. */
    assert_int_equal(admit(c), 0);
    store_rollback(txn);
    assert_int_equal(admit(c), 1);
}

static void nonsense_is_refused_with_a_reason(void **state)
{
    struct postgres_case *c = *state;
    static const struct {
        const char *arguments;
        const char *reason;
    } refused[] = {
        {"NULL", "kind must not be empty"},
        {"''", "kind must not be empty"},
        {"repeat('x', 129)", "at most 128 bytes long, not 129"},
        {"repeat('\u00e4', 65)", "at most 128 bytes long, not 130"},
        {"E'a\\nb'", "control characters"},
        {"U&'a\\0085b'", "control characters"},
        {"'mail', to_json(repeat('x', 1048576))", "payload must be at most 1048576 bytes"},
        {"'mail', '{}', '[]'", "options must be a JSON object, not array"},
        {"'mail', '{}', 'null'", "options must be a JSON object, not null"},
        {"'mail', '{}', '{\"queue\": 7}'", "options.queue must be a string, not 7"},
        {"'mail', '{}', '{\"queue\": null}'", "options.queue must be a string, not null"},
        {"'mail', '{}', '{\"queue\": \"\"}'", "options.queue must not be empty"},
        {"'mail', '{}', '{\"idempotency_key\": {}}'", "options.idempotency_key must be a string"},
        {"'mail', '{', '{}'", "json"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char statement[512];
        (void)snprintf(statement, sizeof statement, "SELECT pawl_submit(%s)", refused[i].arguments);
        const char *message = sql_refused(c, statement);
        if (!has_text(message, refused[i].reason))
            fail_msg("%s: %s", refused[i].arguments, message);
    }
    sql(c, "SELECT pawl_submit('mail', to_json(repeat('x', 1048574)))");
    sql(c, "SELECT pawl_submit(repeat('x', 128), NULL, NULL)");
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.submissions"), 2);
}

static void refuses_sql(struct postgres_case *c, const char *statement, const char *reason)
{
    const char *message = sql_refused(c, statement);
    if (!has_text(message, reason))
        fail_msg("%s: %s", statement, message);
}

static void the_same_key_gives_the_same_id(void **state)
{
    struct postgres_case *c = *state;
    static const char submit[] = "SELECT pawl_submit('mail', '{}', '{\"idempotency_key\": \"k\"}')";
    char first[64];
    (void)snprintf(first, sizeof first, "%.60s", sql(c, submit));
    assert_string_equal(sql(c, submit), first);
    assert_int_equal(admit(c), 1);
    assert_string_equal(sql(c, submit), first);
    assert_int_equal(admit(c), 0);
    assert_int_equal(jobs(c), 1);
    assert_string_not_equal(sql(c, "SELECT pawl_submit('mail', '{}', '{\"idempotency_key\": \"k\","
                                   " \"queue\": \"other\"}')"),
                            first);
    assert_int_equal(admit(c), 1);
    assert_int_equal(jobs(c), 2);
}

static void a_key_that_a_job_of_the_engine_has_gives_its_id(void **state)
{
    struct postgres_case *c = *state;
    struct uuid id = next_id(c);
    enum store_outcome outcome;
    char text[UUID_TEXT_LEN + 1] = "";
    assert_int_equal(submit_with(c, id, "k", &outcome), ERR_OK);
    uuid_format(id, text);
    assert_string_equal(
        sql(c, "SELECT pawl_submit('mail', '{\"to\": 1.1}', '{\"idempotency_key\": \"k\"}')"),
        text);
    assert_int_equal(admit(c), 0);
    refuses_sql(c, "SELECT pawl_submit('mail', '{\"to\": 2}', '{\"idempotency_key\": \"k\"}')",
                "the idempotency_key \"k\" belongs to a job with another payload");
    refuses_sql(c, "SELECT pawl_submit('pay', '{\"to\": 1.1}', '{\"idempotency_key\": \"k\"}')",
                "belongs to a job of kind \"mail\", not \"pay\"");
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.submissions"), 0);
}

static void a_key_that_another_submission_has_is_refused(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "SELECT pawl_submit('mail', '[1]', '{\"idempotency_key\": \"k\"}')");
    refuses_sql(c, "SELECT pawl_submit('mail', '[2]', '{\"idempotency_key\": \"k\"}')",
                "belongs to a job with another payload");
    sql(c, "SELECT pawl_submit('mail', '\"sealed 1\"', ('{\"idempotency_key\": \"f\","
           " \"fingerprint\": \"' || repeat('a', 64) || '\"}')::json)");
    sql(c, "SELECT pawl_submit('mail', '\"sealed 2\"', ('{\"idempotency_key\": \"f\","
           " \"fingerprint\": \"' || repeat('a', 64) || '\"}')::json)");
    sql(c, "SELECT pawl_submit('mail', '\"sealed 3\"', ('{\"idempotency_key\": \"f\","
           " \"fingerprint\": \"' || repeat('A', 64) || '\"}')::json)");
    refuses_sql(c,
                "SELECT pawl_submit('mail', '\"sealed 1\"', ('{\"idempotency_key\": \"f\","
                " \"fingerprint\": \"' || repeat('b', 64) || '\"}')::json)",
                "belongs to a job with another fingerprint");
    assert_int_equal(admit(c), 2);
    assert_int_equal(jobs(c), 2);
}

/* A submission, as arguments of pawl_submit and as what the engine makes of them. */
struct submission {
    const char *kind;
    const char *payload;
    const char *options; /* members, each with a comma before it */
};

#define PRINT_A                                                                                    \
    ",\"fingerprint\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""
#define PRINT_B                                                                                    \
    ",\"fingerprint\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\""

static const struct submission submissions[] = {
    {"mail", "{\"to\":1}", ""},
    {"mail", " { \"to\" : 1.0 } ", ""},
    {"mail", "{\"to\":\"1\"}", ",\"priority\":5"},
    {"mail", "{\"to\":1,\"cc\":[2,3]}", ""},
    {"mail", "{\"cc\":[2,3],\"to\":10e-1}", ""},
    {"mail", "{\"cc\":[3,2],\"to\":1}", ""},
    {"mail", "null", ""},
    {"pay", "{\"to\":1}", ""},
    {"mail", "{\"to\":1}", PRINT_A},
    {"mail", "{\"to\":2}", PRINT_A},
    {"mail", "{\"to\":2}", PRINT_B},
    {"mail", "{\"to\":1}", ",\"plan\":{\"steps\":[{\"id\":\"a\"}]}"},
    {"mail", "\"\\u00e4\"", ""},
    {"mail", "\"\u00e4\"", ""},
    {"mail", "12345678901234567890.1", ""},
    {"mail", "12345678901234567890.2", ""},
};

enum { SUBMISSIONS = sizeof submissions / sizeof submissions[0] };

static void spec_of(struct postgres_case *c, const struct submission *submission, struct spec *ret)
{
    char json[512];
    (void)snprintf(json, sizeof json, "{\"kind\":\"%s\",\"payload\":%s%s}", submission->kind,
                   submission->payload, submission->options);
    *ret = spec_defaults(NULL);
    struct str kept = arena_copy(&c->arena, str_from(json));
    if (spec_read(kept, &c->arena, ret, &c->err) != ERR_OK)
        fail_msg("%s: %s", json, c->err.detail);
}

static void submit_sql(const struct submission *submission, uint32_t key, char *ret, size_t len)
{
    (void)snprintf(ret, len, "SELECT pawl_submit('%s', '%s', '{\"idempotency_key\":\"k%u\"%s}')",
                   submission->kind, submission->payload, key, submission->options);
}

/* The rule is there twice, and 0006_corrections.sql says why. Each submission repeats the key of
 * each other one: while that is in the outbox, and when it is a job. */
static void the_database_refuses_what_core_refuses(void **state)
{
    struct postgres_case *c = *state;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 2 * SUBMISSIONS * SUBMISSIONS; i++) {
        const struct submission *first = &submissions[i / 2 / SUBMISSIONS];
        const struct submission *again = &submissions[i / 2 % SUBMISSIONS];
        struct spec known;
        struct spec asked;
        char statement[512];
        spec_of(c, first, &known);
        spec_of(c, again, &asked);
        struct err err = {0};
        struct submitted before = {.spec = &known, .planned = str_is_set(known.plan)};
        enum error_code code = spec_check_repeat(&asked, &before, 1, &c->arena, &err);
        submit_sql(first, i, statement, sizeof statement);
        sql(c, statement);
        if (i % 2 == 1)
            assert_int_equal(admit(c), 2); /* with the one before, which was left in the outbox */
        submit_sql(again, i, statement, sizeof statement);
        refused += code != ERR_OK;
        if (code == ERR_OK)
            sql(c, statement);
        else
            refuses_sql(c, statement, "belongs to a job");
    }
    assert_in_range(refused, SUBMISSIONS, 2 * SUBMISSIONS * SUBMISSIONS - SUBMISSIONS);
}

static void what_the_engine_refuses_does_not_stop_the_others(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "SELECT pawl_submit('mail', '{}', '{\"nonsense\": 1}')");
    sql(c, "SELECT pawl_submit('mail', '{\"a\": \"\\u0000\"}', '{\"priority\": \"high\"}')");
    sql(c, "SELECT pawl_submit('mail')");
    assert_int_equal(admit(c), 3);
    assert_int_equal(jobs(c), 3);
    assert_int_equal(claim_jobs(c, 10), 1);
}

static void a_dead_letter_keeps_what_was_submitted_with_it(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "SELECT pawl_submit('mail', '{\"to\": 1.10}', '{\"queue\": \"slow\","
           " \"idempotency_key\": \"k\", \"nonsense\": 1}')");
    assert_int_equal(admit(c), 1);
    assert_string_equal(sql(c, "SELECT status || ' ' || kind || ' ' || queue || ' '"
                               " || idempotency_key FROM pawl.jobs"),
                        "9 mail slow k");
    assert_true(has_text(sql(c, "SELECT payload FROM pawl.job_events WHERE version = 1"),
                         "{\"to\": 1.10}"));
    assert_true(has_text(sql(c, "SELECT state FROM pawl.jobs"), "nonsense"));
    /* A payload that nobody could read is not kept. */
    sql(c, "SELECT pawl_submit('mail', (repeat('[', 100) || repeat(']', 100))::json)");
    assert_int_equal(admit(c), 1);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.jobs WHERE status = 9"), 2);
    assert_false(has_text(sql(c, "SELECT payload FROM pawl.job_events e WHERE version = 1"
                                 " AND job_id <> (SELECT id FROM pawl.jobs WHERE queue = 'slow')"),
                          "[[[["));
}

static void a_bad_submission_whose_key_is_taken_meanwhile_is_one_dead_letter(void **state)
{
    struct postgres_case *c = *state;
    enum store_outcome outcome;
    sql(c, "SELECT pawl_submit('mail', '{}', '{\"idempotency_key\": \"k\", \"nonsense\": 1}')");
    assert_int_equal(submit_with(c, next_id(c), "k", &outcome), ERR_OK);
    assert_int_equal(admit(c), 1);
    assert_int_equal(jobs(c), 2);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.jobs WHERE status = 9"), 1);
}

/* ---- what the store refuses ---- */

static void what_the_store_refuses_is_buried_and_does_not_stop_the_others(void **state)
{
    struct postgres_case *c = *state;
    submit_job(c);
    /* There is no room for a lane more, which the queue of the second would need. */
    sql(c, "INSERT INTO pawl.lanes (number, hash, key)"
           " SELECT n, sha256(n::text::bytea), 'lane ' || n FROM generate_series(2, 100000) AS n");
    sql(c, "SELECT pawl_submit('mail')");
    sql(c, "SELECT pawl_submit('mail', '{\"to\": 2}', '{\"queue\": \"new\"}')");
    sql(c, "SELECT pawl_submit('mail')");
    assert_int_equal(admit(c), 3);
    assert_int_equal(admit(c), 0);
    assert_int_equal(jobs(c), 4);
    assert_string_equal(sql(c, "SELECT queue FROM pawl.jobs WHERE status = 9"), "new");
    assert_true(has_text(sql(c, "SELECT state FROM pawl.jobs WHERE status = 9"), "combinations"));
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.ready"), 3);
}

static void what_can_be_no_job_stays_and_does_not_stop_the_others(void **state)
{
    struct postgres_case *c = *state;
    struct uuid id = submit_job(c);
    char text[UUID_TEXT_LEN + 1] = "";
    char statement[256];
    uuid_format(id, text);
    /* With the id of a job that is there: somebody has put it in by hand. */
    (void)snprintf(
        statement, sizeof statement,
        "INSERT INTO pawl.submissions (id, kind, queue) VALUES ('%s', 'mail', 'default')", text);
    sql(c, statement);
    sql(c, "SELECT pawl_submit('mail')");
    sql(c, "SELECT pawl_submit('mail')");
    assert_int_equal(admit(c), 2);
    assert_int_equal(jobs(c), 3);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.submissions"), 1);
    sql(c, "SELECT pawl_submit('mail')");
    assert_int_equal(admit(c), 1);
    assert_int_equal(admit(c), 0);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.submissions"), 1);
    assert_int_equal(sql_int(c, "SELECT max(version) FROM pawl.jobs"), 1);
}

static void a_plan_that_cannot_be_carried_out_becomes_a_dead_letter(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "SELECT pawl_submit('mail', '{}', '{\"plan\": {\"steps\": [{\"id\": \"a\", \"deps\":"
           " [\"a\"]}]}}')");
    assert_int_equal(admit(c), 1);
    assert_int_equal(sql_int(c, "SELECT status FROM pawl.jobs"), JOB_DEAD_LETTERED);
    assert_true(has_text(sql(c, "SELECT state FROM pawl.jobs"), "itself"));
}

static void a_key_that_is_taken_meanwhile_leaves_a_dead_letter_with_the_id(void **state)
{
    struct postgres_case *c = *state;
    enum store_outcome outcome;
    char id[64];
    char check[256];
    (void)snprintf(id, sizeof id, "%.60s",
                   sql(c, "SELECT pawl_submit('mail', '{}', '{\"idempotency_key\": \"k\"}')"));
    assert_int_equal(submit_with(c, next_id(c), "k", &outcome), ERR_OK);
    assert_int_equal(admit(c), 1);
    (void)snprintf(check, sizeof check, "SELECT status FROM pawl.jobs WHERE id = '%s'", id);
    assert_int_equal(sql_int(c, check), JOB_DEAD_LETTERED);
    (void)snprintf(check, sizeof check, "SELECT state FROM pawl.jobs WHERE id = '%s'", id);
    assert_true(has_text(sql(c, check), "belongs to job"));
    assert_int_equal(jobs(c), 2);
}

static void the_settings_of_a_kind_hold_for_what_is_admitted(void **state)
{
    struct postgres_case *c = *state;
    struct store_kind kind = {.kind = STR("mail")};
    enum store_outcome outcome;
    kind.settings.retry = retry_policy_for_jobs();
    kind.settings.retry.max_attempts = 7;
    struct op op = {.type = OP_KIND};
    op.kind.kind = &kind;
    op.kind.expected_version = -1;
    assert_int_equal(run_ops(&c->batcher, &op, 1, &c->arena, &outcome, &c->err), ERR_OK);
    sql(c, "SELECT pawl_submit('mail')");
    assert_int_equal(admit(c), 1);
    assert_true(has_text(sql(c, "SELECT payload FROM pawl.job_events"), "\"max_attempts\":7"));
}

static void an_application_needs_execute_and_nothing_more(void **state)
{
    struct postgres_case *c = *state;
    char role[128];
    char statement[512];
    (void)snprintf(role, sizeof role, "app_%.100s", sql(c, "SELECT current_database()"));
    (void)snprintf(statement, sizeof statement, "CREATE ROLE \"%s\"", role);
    sql(c, statement);
    (void)snprintf(statement, sizeof statement, "SET ROLE \"%s\"", role);
    sql(c, statement);
    assert_true(has_text(sql_refused(c, "SELECT pawl_submit('mail')"), "permission denied"));
    sql(c, "RESET ROLE");
    (void)snprintf(statement, sizeof statement,
                   "GRANT EXECUTE ON FUNCTION public.pawl_submit(text, json, json) TO \"%s\"",
                   role);
    sql(c, statement);
    (void)snprintf(statement, sizeof statement, "SET ROLE \"%s\"", role);
    sql(c, statement);
    sql(c, "SELECT pawl_submit('mail')");
    assert_true(has_text(sql_refused(c, "SELECT * FROM pawl.submissions"), "permission denied"));
    sql(c, "RESET ROLE");
    (void)snprintf(statement, sizeof statement, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role,
                   role);
    sql(c, statement);
    assert_int_equal(admit(c), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_committed_becomes_one_job_with_that_id),
        CASE(what_is_rolled_back_never_was),
        CASE(an_admission_that_is_rolled_back_can_be_made_again),
        CASE(nonsense_is_refused_with_a_reason),
        CASE(the_same_key_gives_the_same_id),
        CASE(a_key_that_a_job_of_the_engine_has_gives_its_id),
        CASE(a_key_that_another_submission_has_is_refused),
        CASE(the_database_refuses_what_core_refuses),
        CASE(what_the_engine_refuses_does_not_stop_the_others),
        CASE(a_dead_letter_keeps_what_was_submitted_with_it),
        CASE(a_bad_submission_whose_key_is_taken_meanwhile_is_one_dead_letter),
        CASE(what_the_store_refuses_is_buried_and_does_not_stop_the_others),
        CASE(what_can_be_no_job_stays_and_does_not_stop_the_others),
        CASE(a_plan_that_cannot_be_carried_out_becomes_a_dead_letter),
        CASE(a_key_that_is_taken_meanwhile_leaves_a_dead_letter_with_the_id),
        CASE(the_settings_of_a_kind_hold_for_what_is_admitted),
        CASE(an_application_needs_execute_and_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
