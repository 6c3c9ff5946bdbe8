/* A job's life over HTTP, on every store, and what the routes promise. */
#define _GNU_SOURCE /* NOLINT: strcasestr */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pawl.h"
#include "server/http_case.h"

static const char *lease_path(struct http_case *c, const char *token, const char *what)
{
    return http_phrase(c, "/v1/leases/%s/%s", token, what);
}

static const char *claim(struct http_case *c)
{
    struct reply *reply =
        http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w1\",\"wait_ms\":5000}");
    reply_is(reply, 200);
    return reply_text(c, reply, "claims.0.lease.token");
}

static void a_job_lives_its_life_over_http(void **state)
{
    struct http_case *c = *state;
    struct reply *reply =
        http_call(c, "POST", "/v1/jobs",
                  "{\"kind\":\"report\",\"payload\":{\"price\":1.10},\"retry\":{\"initial_ms\":1,"
                  "\"max_ms\":1,\"jitter\":\"none\"}}");
    reply_is(reply, 201);
    const char *id = reply_text(c, reply, "id");
    const char *path = http_phrase(c, "/v1/jobs/%s", id);
    const char *token = claim(c);
    reply = http_call(c, "POST", lease_path(c, token, "heartbeat"), "{\"progress\":{\"done\":1}}");
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "cancel_requested"), "false");
    reply_is(
        http_call(c, "POST", lease_path(c, token, "fail"), "{\"error\":{\"message\":\"no luck\"}}"),
        200);
    reply_refuses(http_call(c, "POST", lease_path(c, token, "complete"), "{\"result\":1}"), 409,
                  "stale_lease");
    token = claim(c);
    reply_is(http_call(c, "POST", lease_path(c, token, "wait"),
                       "{\"type\":\"signal\",\"correlation_key\":\"ok\"}"),
             200);
    reply_refuses(
        http_call(c, "POST", http_phrase(c, "%s/signal", path), "{\"correlation_key\":\"other\"}"),
        409, "wrong_correlation_key");
    reply_is(http_call(c, "POST", http_phrase(c, "%s/signal", path),
                       "{\"correlation_key\":\"ok\",\"payload\":{\"yes\":true}}"),
             200);
    token = claim(c);
    reply_is(http_call(c, "POST", lease_path(c, token, "complete"), "{\"result\":{\"n\":2.50}}"),
             200);
    reply = http_call(c, "GET", http_phrase(c, "%s?wait_ms=5000", path), NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "status"), "completed");
    assert_string_equal(reply_text(c, reply, "payload"), "{\"price\":1.10}");
    assert_string_equal(reply_text(c, reply, "result"), "{\"n\":2.50}");
    assert_int_equal(reply_int(reply, "attempt"), 3);
    reply = http_call(c, "GET", http_phrase(c, "%s/verify", path), NULL);
    assert_string_equal(reply_text(c, reply, "ok"), "true");
    reply = http_call(c, "GET", http_phrase(c, "%s/events?after=1&limit=2", path), NULL);
    assert_int_equal(reply_int(reply, "events.1.version"), 3);
}

static void payloads_come_back_byte_for_byte(void **state)
{
    struct http_case *c = *state;
    static const char *const payloads[] = {
        "{ \"a\" :\t1.10, \"b\":123456789012345678901234567890,\"c\":1E+2}",
        "{\"d\":\"\\u00e9\xc3\xa9\\/\"}",
        "{\"z\":1,\"a\":2,\"m\":{\"y\":-0,\"x\":0.0}}",
        "\"\\ud83d\\ude00 \xf0\x9f\x98\x80 \\u0000 \\b\\f\\n\\r\\t \\\" \\\\\"",
        "[1e-400,1e400,-123456789012345678901234567890.000]",
        "null",
        "\"\"",
        "false",
    };
    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        const char *wanted = http_phrase(c, "\"payload\":%s,\"result\"", payloads[i]);
        struct reply *reply =
            http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\",\"payload\":%s}", payloads[i]);
        reply_is(reply, 201);
        assert_non_null(strstr(reply->body, wanted));
        const char *path = http_phrase(c, "/v1/jobs/%s", reply_text(c, reply, "id"));
        assert_non_null(strstr(http_call(c, "GET", path, NULL)->body, wanted));
        const char *token = claim(c);
        reply = http_call(c, "GET", http_phrase(c, "%s/events", path), NULL);
        /* null is as good as none there. */
        if (strcmp(payloads[i], "null") != 0)
            assert_non_null(strstr(reply->body, http_phrase(c, "\"payload\":%s", payloads[i])));
        reply =
            http_call(c, "POST", lease_path(c, token, "complete"), "{\"result\":%s}", payloads[i]);
        reply_is(reply, 200);
        assert_non_null(strstr(http_call(c, "GET", path, NULL)->body,
                               http_phrase(c, "\"result\":%s,\"error\"", payloads[i])));
    }
}

static void a_key_replays_the_first_answer(void **state)
{
    struct http_case *c = *state;
    static const char headers[] = "Content-Type: application/json\r\nIdempotency-Key: k1\r\n";
    static const char body[] = "{\"kind\":\"once\"}";
    static const char other[] = "{\"kind\":\"twice\"}";
    struct reply *first = http_with(c, "POST", "/v1/jobs", headers, body, strlen(body));
    struct reply *again = http_with(c, "POST", "/v1/jobs", headers, body, strlen(body));
    reply_is(first, 201);
    reply_is(again, 201);
    assert_string_equal(first->body, again->body);
    reply_refuses(http_with(c, "POST", "/v1/jobs", headers, other, strlen(other)), 422,
                  "idempotency_mismatch");
    struct reply *list = http_call(c, "GET", "/v1/jobs", NULL);
    assert_string_equal(reply_text(c, list, "jobs.1"), "");
}

/* The ETag of a reply. */
static const char *tag_of(struct http_case *c, const struct reply *reply)
{
    const char *at = strstr(reply->head, "ETag: ");
    assert_non_null(at);
    return http_phrase(c, "%.*s", (int)strcspn(at + 6, "\r\n"), at + 6);
}

static void a_job_that_has_not_changed_is_not_sent_again(void **state)
{
    struct http_case *c = *state;
    struct reply *reply = http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\"}");
    const char *path = http_phrase(c, "/v1/jobs/%s", reply_text(c, reply, "id"));
    const char *tag = tag_of(c, http_call(c, "GET", path, NULL));
    const char *const same[] = {
        http_phrase(c, "If-None-Match: %s\r\n", tag),
        http_phrase(c, "If-None-Match: \"x\", W/%s\r\n", tag),
        "If-None-Match: *\r\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        reply = http_with(c, "GET", path, same[i], NULL, 0);
        reply_is(reply, 304);
        assert_int_equal(reply->body_len, 0);
        assert_string_equal(tag_of(c, reply), tag);
    }
    /* A heartbeat changes the job, but not its version. */
    const char *token = claim(c);
    const char *leased = tag_of(c, http_call(c, "GET", path, NULL));
    assert_string_not_equal(tag, leased);
    reply_is(http_call(c, "POST", lease_path(c, token, "heartbeat"), "{\"progress\":7}"), 200);
    reply = http_with(c, "GET", path, http_phrase(c, "If-None-Match: %s\r\n", leased), NULL, 0);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "progress"), "7");
}

static void the_head_of_an_answer_comes_alone_and_at_once(void **state)
{
    struct http_case *c = *state;
    struct reply *reply = http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\"}");
    const char *const paths[] = {
        http_phrase(c, "/v1/jobs/%s?wait_ms=50000", reply_text(c, reply, "id")),
        "/v1/jobs",
        "/v1/feed",
        "/v1/feed?wait_ms=50000",
        "/healthz",
        "/openapi.json",
    };
    int64_t start = http_now();
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        reply = http_call(c, "HEAD", paths[i], NULL);
        reply_is(reply, 200);
        assert_int_equal(reply->body_len, 0);
        assert_null(strstr(reply->head, "Content-Length: 0\r\n"));
    }
    assert_true(http_now() - start < 5000);
    reply = http_call(c, "HEAD", "/v1/nothing", NULL);
    reply_is(reply, 404);
    assert_int_equal(reply->body_len, 0);
}

static void other_methods_are_told_those_that_there_are(void **state)
{
    struct http_case *c = *state;
    static const struct {
        const char *method;
        const char *path;
        const char *allow;
    } cases[] = {
        {"PATCH", "/v1/jobs", "Allow: POST, GET, HEAD\r\n"},
        {"PUT", "/v1/jobs", "Allow: POST, GET, HEAD\r\n"},
        {"OPTIONS", "/v1/claims", "Allow: POST\r\n"},
        {"DELETE", "/v1/tokens", "Allow: POST, GET, HEAD\r\n"},
        {"POST", "/v1/resources/a", "Allow: PUT, GET, HEAD, DELETE\r\n"},
        {"GET", "/v1/leases/t/complete", "Allow: POST\r\n"},
        {"POST", "/healthz", "Allow: GET, HEAD\r\n"},
        {"get", "/v1/jobs", "Allow: POST, GET, HEAD\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reply *reply = http_call(c, cases[i].method, cases[i].path, NULL);
        reply_refuses(reply, 405, "method_not_allowed");
        if (strstr(reply->head, cases[i].allow) == NULL)
            fail_msg("%s %s: %s", cases[i].method, cases[i].path, reply->head);
    }
}

static void one_request_may_follow_the_other(void **state)
{
    struct http_case *c = *state;
    static const char two[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                              "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                              "Content-Type: application/json\r\nContent-Length: 12\r\n\r\n"
                              "{\"kind\":\"k\"}";
    struct reply *reply = http_raw(c, two, sizeof two - 1);
    reply_is(reply, 200);
    assert_non_null(strstr(reply->body, "HTTP/1.1 201 Created"));
}

static void names_in_paths_may_have_any_character(void **state)
{
    struct http_case *c = *state;
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\",\"queue\":\"a/b c\xc3\xa9\"}"), 201);
    struct reply *reply = http_call(c, "POST", "/v1/queues/a%2Fb%20c%C3%A9/pause", "{}");
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "queue"), "a/b c\xc3\xa9");
    reply = http_call(c, "GET", "/v1/jobs?queue=a%2Fb+c%C3%A9", NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "jobs.0.kind"), "k");
}

static void a_list_takes_several_labels(void **state)
{
    struct http_case *c = *state;
    reply_is(http_call(c, "POST", "/v1/jobs",
                       "{\"kind\":\"a\",\"labels\":{\"customer\":\"c17\",\"team\":\"red\"}}"),
             201);
    reply_is(http_call(c, "POST", "/v1/jobs",
                       "{\"kind\":\"b\",\"labels\":{\"customer\":\"c17\",\"team\":\"blue\"}}"),
             201);
    struct reply *reply = http_call(c, "GET", "/v1/jobs?label=customer:c17&label=team:red", NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "jobs.0.kind"), "a");
    assert_string_equal(reply_text(c, reply, "jobs.1"), "");
    reply = http_call(c, "GET", "/v1/jobs?labels=customer:c17&labels=team:blue", NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "jobs.0.kind"), "b");
    assert_string_equal(reply_text(c, reply, "jobs.1"), "");
}

static void many_at_once_go_in_one_batch(void **state)
{
    struct http_case *c = *state;
    struct reply *reply =
        http_call(c, "POST", "/v1/batch",
                  "{\"ops\":[{\"op\":\"submit\",\"kind\":\"k\"},{\"op\":\"submit\"}]}");
    reply_is(reply, 200);
    assert_int_equal(reply_int(reply, "results.0.status"), 201);
    assert_int_equal(reply_int(reply, "results.1.status"), 400);
    /* One that has to look at the store first goes with the others. */
    reply_is(http_call(c, "PUT", "/v1/resources/r", "{\"slots\":1,\"ttl_ms\":60000}"), 200);
    reply = http_call(c, "POST", "/v1/batch",
                      "{\"ops\":[{\"op\":\"resource_delete\",\"id\":\"r\"},{\"op\":\"submit\","
                      "\"kind\":\"k\"}]}");
    reply_is(reply, 200);
    assert_int_equal(reply_int(reply, "results.0.status"), 200);
    assert_int_equal(reply_int(reply, "results.1.status"), 201);
    reply_refuses(http_call(c, "GET", "/v1/resources/r", NULL), 404, "not_found");
}

static void the_server_tells_how_it_is_and_what_it_can(void **state)
{
    struct http_case *c = *state;
    reply_is(http_call(c, "GET", "/healthz", NULL), 200);
    reply_is(http_call(c, "GET", "/readyz", NULL), 200);
    reply_is(http_call(c, "GET", "/v1/stats", NULL), 200);
    reply_is(http_call(c, "GET", "/v1/doctor", NULL), 200);
    struct reply *reply = http_call(c, "GET", "/openapi.json", NULL);
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "openapi"), "3.1.0");
    assert_non_null(strstr(reply->body, "\"/v1/jobs/{id}/steps/{step}/verdict\":{\"post\""));
}

static void all_routes_of_the_list_are_served(void **state)
{
    struct http_case *c = *state;
#define VERB(name, method, path, ...)                                                              \
    {                                                                                              \
        struct reply *reply =                                                                      \
            http_with(c, #method, path, "Accept: application/json\r\n", NULL, 0);                  \
        if (reply->status == 0 || (reply->status == 404 && strstr(reply->body, "unknown route")))  \
            fail_msg("%s %s: %s", #method, path, reply->text);                                     \
    }
#include "engine/verbs.def"
#undef VERB
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_EVERY_STORE(a_job_lives_its_life_over_http),
        HTTP_ON_EVERY_STORE(payloads_come_back_byte_for_byte),
        HTTP_ON_EVERY_STORE(a_key_replays_the_first_answer),
        HTTP_ON_MEMORY(a_job_that_has_not_changed_is_not_sent_again),
        HTTP_ON_MEMORY(the_head_of_an_answer_comes_alone_and_at_once),
        HTTP_ON_MEMORY(other_methods_are_told_those_that_there_are),
        HTTP_ON_MEMORY(one_request_may_follow_the_other),
        HTTP_ON_MEMORY(names_in_paths_may_have_any_character),
        HTTP_ON_EVERY_STORE(a_list_takes_several_labels),
        HTTP_ON_MEMORY(many_at_once_go_in_one_batch),
        HTTP_ON_MEMORY(the_server_tells_how_it_is_and_what_it_can),
        HTTP_ON_MEMORY(all_routes_of_the_list_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
