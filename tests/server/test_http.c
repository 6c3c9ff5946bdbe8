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
    static const char payload[] = "{ \"a\" :\t1.10, \"b\":123456789012345678901234567890,"
                                  "\"c\":1E+2,\"d\":\"\\u00e9\xc3\xa9\\/\"}";
    struct reply *reply =
        http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\",\"payload\":%s}", payload);
    reply_is(reply, 201);
    reply = http_call(c, "GET", http_phrase(c, "/v1/jobs/%s", reply_text(c, reply, "id")), NULL);
    assert_string_equal(reply_text(c, reply, "payload"), payload);
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

static void a_job_has_a_tag_that_is_its_version(void **state)
{
    struct http_case *c = *state;
    struct reply *reply = http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\"}");
    const char *path = http_phrase(c, "/v1/jobs/%s", reply_text(c, reply, "id"));
    reply = http_call(c, "GET", path, NULL);
    assert_non_null(strstr(reply->head, "ETag: \"1\""));
    reply = http_with(c, "GET", path, "If-None-Match: \"1\"\r\n", NULL, 0);
    reply_is(reply, 304);
    assert_int_equal(reply->body_len, 0);
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

static void many_at_once_go_in_one_batch(void **state)
{
    struct http_case *c = *state;
    struct reply *reply =
        http_call(c, "POST", "/v1/batch",
                  "{\"ops\":[{\"op\":\"submit\",\"kind\":\"k\"},{\"op\":\"submit\"}]}");
    reply_is(reply, 200);
    assert_int_equal(reply_int(reply, "results.0.status"), 201);
    assert_int_equal(reply_int(reply, "results.1.status"), 400);
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
#define VERB(name, method, path, class, safe)                                                      \
    {                                                                                              \
        struct reply *reply = http_call(c, #method, path, NULL);                                   \
        if (reply->status == 0 || (reply->status == 404 && strstr(reply->body, "no route")))       \
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
        HTTP_ON_MEMORY(a_job_has_a_tag_that_is_its_version),
        HTTP_ON_MEMORY(names_in_paths_may_have_any_character),
        HTTP_ON_MEMORY(many_at_once_go_in_one_batch),
        HTTP_ON_MEMORY(the_server_tells_how_it_is_and_what_it_can),
        HTTP_ON_MEMORY(all_routes_of_the_list_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
