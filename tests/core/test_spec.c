#include "core/spec.h"

#include <stdio.h>

#include "../base/starve.h"
#include "base/buf.h"
#include "base/times.h"
#include "core/plan.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- reading a request ---- */

static enum error_code submit(struct str json, struct arena *arena, struct spec *spec,
                              struct err *err)
{
    enum error_code code = json_check(json, SIZE_MAX, "the test's own text", arena, err);
    assert_int_equal(code, ERR_OK);
    *spec = spec_defaults(NULL);
    return spec_read(json, arena, spec, err);
}

static struct spec submitted(struct str json, struct arena *arena)
{
    struct spec spec;
    struct err err;
    if (submit(json, arena, &spec, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return spec;
}

static void refused(struct arena *arena, const char *json, enum error_code code, const char *detail)
{
    struct spec spec;
    struct err err = {0};
    assert_int_equal(submit(str_from(json), arena, &spec, &err), code);
    assert_int_equal(err.code, code);
    if (strstr(err.detail, detail) == NULL)
        fail_msg("%.200s gives: %s", json, err.detail);
    /* Outputs are untouched on failure. */
    assert_false(str_is_set(spec.kind));
    assert_str_equal(spec.queue, STR("default"));
    assert_int_equal(spec_read(str_from(json), arena, &spec, NULL), code);
}

static void a_kind_is_enough(void **state)
{
    struct spec spec = submitted(STR("{\"kind\":\"mail\"}"), *state);
    struct retry_policy policy = retry_policy_for_jobs();
    policy.on_exhausted = EXHAUSTED_NONE; /* whether it has a plan decides */
    assert_str_equal(spec.kind, STR("mail"));
    assert_str_equal(spec.queue, STR("default"));
    assert_false(str_is_set(spec.payload));
    assert_int_equal(spec.priority, 0);
    assert_int_equal(spec.run_at, 0);
    assert_null(record_differs(&retry_policy_record, &spec.retry, &policy, RECORD_ALL));
    assert_int_equal(spec.in_doubt, DOUBT_FAIL);
    assert_int_equal(spec.lease_ttl_ms, 0);
    assert_int_equal(spec.heartbeat_ms, 0);
    assert_int_equal(spec.timeout_ms, 0);
}

static void every_field_of_the_contract_is_read(void **state)
{
    struct spec spec = submitted(
        STR("{\"kind\":\"mail\",\"queue\":\"fast\",\"payload\":{\"n\": 1.10},\"priority\":-7,"
            "\"run_at\":\"1970-01-01T00:00:02Z\",\"idempotency_key\":\"k\","
            "\"retry\":{\"max_attempts\":3,\"factor\":1.5},\"lease_ttl_ms\":60000,"
            "\"heartbeat_ms\":20000,\"timeout_ms\":5000,\"in_doubt\":\"ask\","
            "\"capabilities\":[\"gpu\"],\"correlation_id\":\"c\","
            "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\","
            "\"labels\":{\"team\":\"a\"},\"agent_id\":\"agent\",\"goal\":\"a goal\","
            "\"plan\":{\"steps\":[]}}"),
        *state);
    assert_str_equal(spec.queue, STR("fast"));
    assert_str_equal(spec.payload, STR("{\"n\": 1.10}"));
    assert_int_equal(spec.priority, -7);
    assert_int_equal(spec.run_at, 2000);
    assert_str_equal(spec.idempotency_key, STR("k"));
    assert_int_equal(spec.retry.max_attempts, 3);
    assert_int_equal(spec.retry.factor_milli, 1500);
    assert_int_equal(spec.lease_ttl_ms, 60000);
    assert_int_equal(spec.heartbeat_ms, 20000);
    assert_int_equal(spec.timeout_ms, 5000);
    assert_int_equal(spec.in_doubt, DOUBT_ASK);
    assert_str_equal(spec.capabilities, STR("[\"gpu\"]"));
    assert_str_equal(spec.correlation_id, STR("c"));
    assert_int_equal(spec.traceparent.len, 55);
    assert_str_equal(spec.labels, STR("{\"team\":\"a\"}"));
    assert_str_equal(spec.agent_id, STR("agent"));
    assert_str_equal(spec.goal, STR("a goal"));
    assert_str_equal(spec.plan, STR("{\"steps\":[]}"));
    assert_int_equal(submitted(STR("{\"kind\":\"a\",\"delay_ms\":7}"), *state).delay_ms, 7);
}

static void a_partial_retry_overrides_only_what_it_names(void **state)
{
    struct spec spec =
        submitted(STR("{\"kind\":\"a\",\"retry\":{\"strategy\":\"fixed\"}}"), *state);
    assert_int_equal(spec.retry.strategy, RETRY_FIXED);
    assert_int_equal(spec.retry.max_attempts, 20);
    assert_int_equal(spec.retry.initial_ms, 500);
    assert_int_equal(spec.retry.max_ms, 3600000);
    assert_int_equal(spec.retry.jitter, JITTER_EQUAL);
}

static void a_kinds_policy_comes_before_the_default(void **state)
{
    struct kind_settings kind = {.lease_ttl_ms = 5000, .timeout_ms = 7};
    struct spec spec = spec_defaults(&kind);
    struct err err;
    assert_int_equal(spec.retry.max_attempts, 20);
    kind.retry = retry_policy_for_steps();
    spec = spec_defaults(&kind);
    assert_int_equal(spec.retry.max_attempts, 4);
    assert_int_equal(spec.retry.jitter, JITTER_NONE);
    /* Lease terms and timeout of a kind are taken at the claim, so that a change reaches old jobs.
     */
    assert_int_equal(spec.lease_ttl_ms, 0);
    assert_int_equal(spec.timeout_ms, 0);
    assert_int_equal(
        spec_read(STR("{\"kind\":\"a\",\"retry\":{\"max_attempts\":9}}"), *state, &spec, &err),
        ERR_OK);
    assert_int_equal(spec.retry.max_attempts, 9);
    assert_int_equal(spec.retry.initial_ms, 1000);
}

static void what_is_read_is_written_and_read_again(void **state)
{
    struct spec spec = submitted(STR("{\"kind\":\"a\",\"payload\":[1.10],\"priority\":3,"
                                     "\"retry\":{\"factor\":1.25},\"labels\":{\"x\":\"y\"}}"),
                                 *state);
    struct spec again = {0};
    struct buf buf;
    struct json_writer writer;
    struct err err;
    buf_init(&buf, *state, 0);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    record_write(&spec_record, &spec, RECORD_ALL, &writer);
    json_end_object(&writer);
    assert_int_equal(record_read(&spec_record, buf_str(&buf), RECORD_ALL, RECORD_REQUEST,
                                 "job_created", *state, &again, &err),
                     ERR_OK);
    assert_null(record_differs(&spec_record, &spec, &again, RECORD_ALL));
    assert_int_equal(spec_check(&again, *state, &err), ERR_OK);
}

/* ---- what is refused ---- */

static void unknown_and_wrong_fields_are_refused(void **state)
{
    refused(*state, "{\"kind\":\"a\",\"colour\":1}", ERR_UNKNOWN_FIELD,
            "submit: unknown field \"colour\"");
    refused(*state, "{\"kind\":\"a\",\"retry\":{\"tries\":1}}", ERR_UNKNOWN_FIELD,
            "submit: unknown field \"retry.tries\"");
    refused(*state, "{\"kind\":\"a\",\"retry\":{\"max_attempts\":\"x\"}}", ERR_BAD_REQUEST,
            "retry.max_attempts must be a whole number from 1 to 1000000, not \"x\"");
    refused(*state, "{\"kind\":\"a\",\"retry\":{\"initial_ms\":9000,\"max_ms\":10}}",
            ERR_BAD_REQUEST, "retry.initial_ms must be at most max_ms, but 9000 is more than 10");
    refused(*state, "{\"kind\":\"a\",\"in_doubt\":\"maybe\"}", ERR_BAD_REQUEST,
            "in_doubt must be one of fail, retry, ask, not \"maybe\"");
    refused(*state, "{\"kind\":\"a\",\"plan\":[]}", ERR_BAD_REQUEST,
            "plan must be an object, not an array");
    refused(*state, "[]", ERR_BAD_REQUEST, "submit must be an object, not an array");
}

static void kind_and_queue_are_names(void **state)
{
    refused(*state, "{}", ERR_BAD_REQUEST, "kind is required");
    refused(*state, "{\"kind\":\"\"}", ERR_BAD_REQUEST, "kind must not be empty");
    refused(*state, "{\"kind\":5}", ERR_BAD_REQUEST, "kind must be a string, not 5");
    refused(*state, "{\"kind\":\"a\",\"queue\":\"\\t\"}", ERR_BAD_REQUEST,
            "queue must not contain control characters");
    struct spec spec = spec_defaults(NULL);
    struct err err;
    spec.kind = STR("");
    assert_int_equal(spec_check(&spec, *state, &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "kind must not be empty");
    spec.kind = STR("a");
    assert_int_equal(spec_check(&spec, *state, &err), ERR_OK);
    spec.queue = (struct str){NULL, 0};
    assert_int_equal(spec_check(&spec, *state, &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "queue must not be empty");
}

static void numbers_out_of_bounds_are_refused(void **state)
{
    static const struct {
        const char *field;
        const char *detail;
    } cases[] = {
        {"\"priority\":1000001", "priority must be a whole number from -1000000 to 1000000"},
        {"\"priority\":-1000001", "priority must be a whole number from -1000000 to 1000000"},
        {"\"delay_ms\":-1", "delay_ms must be a whole number from 0 to 316224000000, not -1"},
        {"\"delay_ms\":316224000001", "delay_ms must be a whole number from 0 to 316224000000"},
        {"\"timeout_ms\":0", "timeout_ms must be a whole number from 1 to 316224000000, not 0"},
        {"\"timeout_ms\":316224000001", "timeout_ms must be a whole number from 1 to"},
        {"\"lease_ttl_ms\":99", "lease_ttl_ms must be a whole number from 100 to 86400000, not 99"},
        {"\"lease_ttl_ms\":86400001", "lease_ttl_ms must be a whole number from 100 to 86400000"},
        {"\"heartbeat_ms\":49", "heartbeat_ms must be a whole number from 50 to 86400000, not 49"},
        {"\"lease_ttl_ms\":1000,\"heartbeat_ms\":1001",
         "heartbeat_ms must be at most half of lease_ttl_ms, but 1001 is more than half of 1000"},
        {"\"lease_ttl_ms\":1000,\"heartbeat_ms\":501",
         "heartbeat_ms must be at most half of lease_ttl_ms, but 501 is more than half of 1000"},
        {"\"heartbeat_ms\":43200001", "heartbeat_ms must be at most half of lease_ttl_ms"},
        {"\"delay_ms\":1,\"run_at\":\"2026-01-01T00:00:00Z\"",
         "run_at and delay_ms exclude each other"},
        {"\"run_at\":\"soon\"", "run_at must be a time such as"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256] = "{\"kind\":\"a\",";
        (void)snprintf(json + strlen(json), sizeof json - strlen(json), "%s}", cases[i].field);
        refused(*state, json, ERR_BAD_REQUEST, cases[i].detail);
    }
}

static void lists_are_checked_element_by_element(void **state)
{
    static const struct {
        const char *field;
        const char *detail;
    } cases[] = {
        {"\"capabilities\":\"gpu\"", "capabilities must be an array, not \"gpu\""},
        {"\"capabilities\":[1]", "capabilities[0] must be a string, not 1"},
        {"\"capabilities\":[\"a\",\"a\"]", "capabilities[1] has the duplicate entry \"a\""},
        {"\"labels\":[]", "labels must be an object, not an array"},
        {"\"labels\":{\"a\":{}}", "labels[\"a\"] must be a string, not an object"},
        {"\"labels\":{\"1\":\"\",\"2\":\"\",\"3\":\"\",\"4\":\"\",\"5\":\"\",\"6\":\"\","
         "\"7\":\"\",\"8\":\"\",\"9\":\"\",\"10\":\"\",\"11\":\"\",\"12\":\"\",\"13\":\"\","
         "\"14\":\"\",\"15\":\"\",\"16\":\"\",\"17\":\"\"}",
         "labels may have at most 16 entries, not 17"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[512] = "{\"kind\":\"a\",";
        (void)snprintf(json + strlen(json), sizeof json - strlen(json), "%s}", cases[i].field);
        refused(*state, json, ERR_BAD_REQUEST, cases[i].detail);
    }
}

static void at_most_64_capabilities_are_taken(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("{\"kind\":\"a\",\"capabilities\":[\"0\""));
    for (int i = 1; i < 64; i++)
        buf_addf(&buf, ",\"%d\"", i);
    buf_add(&buf, STR("]}"));
    (void)submitted(buf_str(&buf), *state);
    buf.len -= 2;
    buf_addf(&buf, ",\"64\"]}%c", 0);
    refused(*state, buf.at, ERR_BAD_REQUEST, "capabilities may have at most 64 entries, not 65");
}

static void a_traceparent_is_as_w3c_has_it(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333x-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char json[256];
        (void)snprintf(json, sizeof json, "{\"kind\":\"a\",\"traceparent\":\"%s\"}", bad[i]);
        refused(*state, json, ERR_BAD_REQUEST, "traceparent must follow W3C Trace Context");
        refused(*state, json, ERR_BAD_REQUEST, bad[i]);
    }
}

/* {"kind":"a","FIELD":"xxx…"} with a value of `len` bytes in all. */
static char *with_long_value(const char *field, size_t len, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, len + 64);
    buf_addf(&buf, "{\"kind\":\"a\",\"%s\":\"", field);
    for (size_t i = 2; i < len; i++)
        buf_add_char(&buf, 'x');
    buf_addf(&buf, "\"}%c", 0);
    return buf.at;
}

static void payload_and_goal_are_limited_in_bytes(void **state)
{
    char *json = with_long_value("payload", PAYLOAD_BYTES_MAX, *state);
    assert_int_equal(submitted(str_from(json), *state).payload.len, PAYLOAD_BYTES_MAX);
    refused(*state, with_long_value("payload", PAYLOAD_BYTES_MAX + 1, *state),
            ERR_PAYLOAD_TOO_LARGE, "payload must be at most 1048576 bytes long, not 1048577");
    json = with_long_value("goal", TEXT_BYTES_MAX + 2, *state);
    assert_int_equal(submitted(str_from(json), *state).goal.len, TEXT_BYTES_MAX);
    refused(*state, with_long_value("goal", TEXT_BYTES_MAX + 3, *state), ERR_BAD_REQUEST,
            "goal must be at most 65536 bytes long, not 65537");
}

/* ---- a spec that was filled by hand is held to the same ---- */

static struct spec a_spec(void)
{
    struct spec spec = spec_defaults(NULL);
    spec.kind = STR("a");
    return spec;
}

static void check_refuses(const struct spec *spec, struct arena *arena, enum error_code code,
                          const char *detail)
{
    struct err err = {0};
    assert_int_equal(spec_check(spec, arena, &err), code);
    assert_string_equal(err.detail, detail);
    assert_int_equal(spec_check(spec, arena, NULL), code);
}

static void numbers_filled_by_hand_are_checked(void **state)
{
    struct spec spec = a_spec();
    spec.priority = -1000001;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "priority must be a whole number from -1000000 to 1000000, not -1000001");
    spec = a_spec();
    spec.delay_ms = -1;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "delay_ms must be a whole number from 0 to 316224000000, not -1");
    spec = a_spec();
    spec.run_at = -1;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "run_at must be a time up to the year 9999, not -1");
    spec.run_at = TIME_MAX_MS + 1;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "run_at must be a time up to the year 9999, not 253402300800000");
    spec = a_spec();
    spec.timeout_ms = -1;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "timeout_ms must be a whole number from 0 to 316224000000, not -1");
    spec = a_spec();
    spec.in_doubt = (enum doubt_policy)7;
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "in_doubt has no word number 7");
    spec.in_doubt = (enum doubt_policy) - 1;
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "in_doubt has no word number -1");
    spec = a_spec();
    spec.retry.max_attempts = 0;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "retry.max_attempts must be a whole number from 1 to 1000000, not 0");
    spec = a_spec();
    spec.lease_ttl_ms = -1;
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "lease_ttl_ms must be a whole number from 100 to 86400000, not -1");
}

static void texts_filled_by_hand_are_checked(void **state)
{
    struct spec spec = a_spec();
    spec.idempotency_key = STR("");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "idempotency_key must not be empty");
    spec = a_spec();
    spec.correlation_id = STR("\x7f");
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "correlation_id must not contain control characters: \"?\"");
    spec = a_spec();
    spec.agent_id = STR("\xff");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "agent_id must be valid UTF-8: \"?\"");
    spec = a_spec();
    spec.goal = (struct str){"", TEXT_BYTES_MAX + 1};
    check_refuses(&spec, *state, ERR_BAD_REQUEST,
                  "goal must be at most 65536 bytes long, not 65537");
    spec.goal = STR("\xff");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "goal is not valid UTF-8");
    spec = a_spec();
    spec.payload = STR("");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "payload must be JSON, not \"\"");
    spec.payload = STR("hello");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "payload must be JSON, not \"hello\"");
    spec = a_spec();
    spec.plan = STR("[]");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "plan must be an object, not \"[]\"");
    spec.plan = (struct str){"", PLAN_BYTES_MAX + 1};
    check_refuses(&spec, *state, ERR_PAYLOAD_TOO_LARGE,
                  "plan must be at most 8388608 bytes long, not 8388609");
    spec = a_spec();
    spec.labels = STR("{\"a\":1}");
    check_refuses(&spec, *state, ERR_BAD_REQUEST, "labels[\"a\"] must be a string, not 1");
}

static void lease_terms_have_bounds_and_0_means_not_given(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(lease_terms_check(0, 0, &err), ERR_OK);
    assert_int_equal(lease_terms_check(100, 50, &err), ERR_OK);
    assert_int_equal(lease_terms_check(86400000, 43200000, &err), ERR_OK);
    assert_int_equal(lease_terms_check(0, 43200000, &err), ERR_OK);
    assert_int_equal(lease_terms_check(100, 51, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "heartbeat_ms must be at most half"));
    assert_int_equal(lease_terms_check(0, 43200001, &err), ERR_BAD_REQUEST);
    assert_int_equal(lease_terms_check(86400001, 0, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "lease_ttl_ms"));
    assert_int_equal(lease_terms_check(0, 86400001, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "heartbeat_ms"));
    assert_int_equal(lease_terms_check(100, 101, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "101 is more than half of 100"));
    assert_int_equal(lease_terms_check(100, -1, NULL), ERR_BAD_REQUEST);
}

static bool read_in(struct arena *arena, void *data)
{
    struct spec spec = spec_defaults(NULL);
    return spec_read(*(struct str *)data, arena, &spec, NULL) != ERR_NO_MEMORY;
}

static void without_memory_it_fails_as_no_memory(void **state)
{
    struct str json = STR("{\"kind\":\"\\u0061\",\"capabilities\":[\"\\u0062\"],"
                          "\"labels\":{\"\\u0063\":\"\\u0064\"}}");
    (void)state;
    if (!STARVING)
        skip();
    assert_true(starve(read_in, &json) >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(a_kind_is_enough),
        WITH_ARENA(every_field_of_the_contract_is_read),
        WITH_ARENA(a_partial_retry_overrides_only_what_it_names),
        WITH_ARENA(a_kinds_policy_comes_before_the_default),
        WITH_ARENA(what_is_read_is_written_and_read_again),
        WITH_ARENA(unknown_and_wrong_fields_are_refused),
        WITH_ARENA(kind_and_queue_are_names),
        WITH_ARENA(numbers_out_of_bounds_are_refused),
        WITH_ARENA(lists_are_checked_element_by_element),
        WITH_ARENA(at_most_64_capabilities_are_taken),
        WITH_ARENA(a_traceparent_is_as_w3c_has_it),
        WITH_ARENA(payload_and_goal_are_limited_in_bytes),
        WITH_ARENA(numbers_filled_by_hand_are_checked),
        WITH_ARENA(texts_filled_by_hand_are_checked),
        WITH_ARENA(lease_terms_have_bounds_and_0_means_not_given),
        WITH_ARENA(without_memory_it_fails_as_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
