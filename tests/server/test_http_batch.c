/* Batches over HTTP: in one, every operation is as it is alone. It is paid for, it is refused by a
 * server that ends, it has the trace of its caller, and what it revokes is revoked at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http_case.h"

enum { PATIENCE_MS = 10 * 1000 };

#define ADMIN "a token of the server itself"

/* The same server, with other options. */
static void open_again(struct http_case *c, const struct server_options *wanted)
{
    struct server_options options = *wanted;
    server_close(c->server);
    c->server = NULL;
    options.listen = STR("127.0.0.1:0");
    options.engine.store.create = true;
    http_open(c, &options);
}

static struct reply *call_as(struct http_case *c, const char *token, const char *path,
                             const char *body)
{
    const char *headers =
        http_phrase(c, "Content-Type: application/json\r\nAuthorization: Bearer %s\r\n", token);
    return http_with(c, "POST", path, headers, body, strlen(body));
}

/* A new token, and its id. */
static const char *make_token(struct http_case *c, const char *token, const char **ret_id)
{
    static const char body[] = "{\"name\":\"n\",\"scopes\":[\"submit\",\"work\",\"read\"]}";
    struct reply *reply = call_as(c, token, "/v1/tokens", body);
    reply_is(reply, 201);
    *ret_id = reply_text(c, reply, "id");
    return reply_text(c, reply, "token");
}

static void a_batch_is_paid_for_however_it_is_written(void **state)
{
    struct http_case *c = *state;
    static const char *const bodies[] = {
        "{\"ops\":[{\"op\":\"submit\",\"kind\":\"k\"}]}",
        "{\"ops\":[{\"op\":\"submit\",\"kind\":\"k\",\"payload\":\"\\u00e9\"}]}",
        "{\"ops\":[{\"\\u006fp\":\"\\u0073ubmit\",\"kind\":\"k\"}]}",
        "{\"ops\":[{\"op\":\"resource_delete\",\"id\":\"r\"}]}",
        "{\"ops\":[{\"op\":\"submit\",\"kind\":\"resource_delete\"}]}",
    };
    const char *id;
    open_again(c, &(struct server_options){.admin_token = STR_INIT(ADMIN), .rate_per_s = 10});
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        const char *token = make_token(c, ADMIN, &id);
        /* Twelve at once are owed for, and nothing passes until they are paid. */
        const char *many = http_phrase(c, "{\"ops\":[%s,%s,%s]}", "{\"op\":\"x\"},{\"op\":\"x\"}",
                                       "{\"op\":\"x\"},{\"op\":\"x\"},{\"op\":\"x\"}",
                                       "{\"op\":\"x\"},{\"op\":\"x\"},{\"op\":\"x\"}");
        int refused = 0;
        reply_is(call_as(c, token, "/v1/batch", bodies[i]), 200);
        reply_is(call_as(c, token, "/v1/batch", many), 200);
        for (int k = 0; k < 100 && refused == 0; k++) {
            struct reply *reply = call_as(c, token, "/v1/batch", bodies[i]);
            if (reply->status != 200)
                reply_refuses(reply, 429, "rate_limited");
            refused += reply->status != 200;
        }
        if (refused == 0)
            fail_msg("%s is not counted", bodies[i]);
    }
}

static void a_resource_is_deleted_alone_and_with_others(void **state)
{
    struct http_case *c = *state;
    for (int i = 0; i < 2; i++) {
        reply_is(http_call(c, "PUT", "/v1/resources/r", "{\"slots\":1,\"ttl_ms\":60000}"), 200);
        struct reply *reply =
            i == 0 ? http_call(c, "DELETE", "/v1/resources/r", NULL)
                   : http_call(c, "POST", "/v1/batch",
                               "{\"ops\":[{\"op\":\"resource_delet\\u0065\",\"id\":\"r\"}]}");
        reply_is(reply, 200);
        assert_string_equal(reply_text(c, reply, i == 0 ? "id" : "results.0.body.id"), "r");
        reply_refuses(http_call(c, "GET", "/v1/resources/r", NULL), 404, "not_found");
        reply_refuses(http_call(c, "DELETE", "/v1/resources/r", NULL), 404, "not_found");
    }
}

static void ops_is_the_name_of_batch_and_says_which_operation_was_refused(void **state)
{
    struct http_case *c = *state;
    static const char body[] = "{\"atomic\":true,\"ops\":[{\"op\":\"submit\",\"kind\":\"k\"},"
                               "{\"op\":\"complete\",\"token\":\"none\"}]}";
    static const char *const paths[] = {"/v1/ops", "/v1/batch"};
    for (int i = 0; i < 2; i++) {
        struct reply *reply = http_call(c, "POST", paths[i], body);
        reply_refuses(reply, 409, "batch_refused");
        assert_string_equal(reply_text(c, reply, "index"), "1");
        assert_string_equal(reply_text(c, reply, "problem.status"), "409");
        assert_string_equal(reply_text(c, reply, "problem.code"), "stale_lease");
        const char *detail = reply_text(c, reply, "detail");
        assert_memory_equal(detail, "ops[1]: ", 8);
        assert_string_equal(reply_text(c, reply, "problem.detail"), detail + 8);
        assert_string_equal(reply_text(c, http_call(c, "GET", "/v1/jobs", NULL), "jobs"), "[]");
    }
    struct reply *reply = http_call(c, "POST", "/v1/ops", "{\"ops\":[{\"op\":\"submit\"}]}");
    reply_is(reply, 200);
    assert_string_equal(reply_text(c, reply, "results.0.status"), "400");
}

static void a_server_that_ends_gives_out_no_work_in_a_batch(void **state)
{
    struct http_case *c = *state;
    static const char body[] = "{\"ops\":[{\"op\":\"claim\",\"worker_id\":\"w\"},"
                               "{\"op\":\"claim_steps\",\"worker_id\":\"w\",\"judge\":true},"
                               "{\"op\":\"submit\",\"kind\":\"late\"}]}";
    reply_is(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"k\"}"), 201);
    int fd = http_connect(c->port);
    /* It is served, and so accepted, before the server begins to end. */
    static const char first[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_true(http_send(fd, first, sizeof first - 1));
    size_t len;
    char *text = http_read(fd, 200, &len);
    assert_true(len > 0);
    free(text);
    server_drain(c->server, PATIENCE_MS);
    const char *request =
        http_phrase(c,
                    "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                    strlen(body), body);
    assert_true(http_send(fd, request, strlen(request)));
    text = http_read(fd, PATIENCE_MS, &len);
    (void)close(fd);
    const char *answer = http_phrase(c, "%s", text);
    free(text);
    const struct reply reply = {.status = 200, .head = "", .body = strstr(answer, "{\"results\"")};
    if (reply.body == NULL)
        fail_msg("%s", answer);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reply_int(&reply, http_phrase(c, "results.%d.status", i)), 503);
        assert_string_equal(reply_text(c, &reply, http_phrase(c, "results.%d.body.code", i)),
                            "unavailable");
    }
    assert_int_equal(reply_int(&reply, "results.2.status"), 201);
}

static void jobs_of_a_batch_have_the_trace_of_their_caller(void **state)
{
    struct http_case *c = *state;
    static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    static const char own[] = "00-11111111111111111111111111111111-2222222222222222-01";
    const char *headers =
        http_phrase(c, "Content-Type: application/json\r\ntraceparent: %s\r\n", parent);
    const char *body = http_phrase(
        c,
        "{\"ops\":[{\"op\":\"submit\",\"kind\":\"k\"},{\"op\":\"submit\",\"kind\":\"k\","
        "\"traceparent\":\"%s\"}]}",
        own);
    struct reply *reply = http_with(c, "POST", "/v1/batch", headers, body, strlen(body));
    reply_is(reply, 200);
    const char *ids[] = {reply_text(c, reply, "results.0.body.id"),
                         reply_text(c, reply, "results.1.body.id")};
    for (int i = 0; i < 2; i++) {
        struct reply *job = http_call(c, "GET", http_phrase(c, "/v1/jobs/%s", ids[i]), NULL);
        reply_is(job, 200);
        assert_string_equal(reply_text(c, job, "traceparent"), i == 0 ? parent : own);
    }
}

static void a_token_that_a_batch_revokes_opens_nothing_from_then_on(void **state)
{
    struct http_case *c = *state;
    static const char submit[] = "{\"kind\":\"k\"}";
    const char *id;
    open_again(c, &(struct server_options){.admin_token = STR_INIT(ADMIN)});
    const char *token = make_token(c, ADMIN, &id);
    reply_is(call_as(c, token, "/v1/jobs", submit), 201);
    const char *body = http_phrase(c, "{\"ops\":[{\"op\":\"token_revoke\",\"id\":\"%s\"}]}", id);
    reply_is(call_as(c, ADMIN, "/v1/batch", body), 200);
    reply_refuses(call_as(c, token, "/v1/jobs", submit), 401, "unauthorized");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_MEMORY(a_batch_is_paid_for_however_it_is_written),
        HTTP_ON_EVERY_STORE(a_resource_is_deleted_alone_and_with_others),
        HTTP_ON_EVERY_STORE(ops_is_the_name_of_batch_and_says_which_operation_was_refused),
        HTTP_ON_MEMORY(a_server_that_ends_gives_out_no_work_in_a_batch),
        HTTP_ON_EVERY_STORE(jobs_of_a_batch_have_the_trace_of_their_caller),
        HTTP_ON_EVERY_STORE(a_token_that_a_batch_revokes_opens_nothing_from_then_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
