/* The verbs over HTTP, against a server that does not behave: what is sent, what is sent again, and
 * what callers are told. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/fake_server.h"
#include "client/http_client.h"
#include "client/http_lines.h"
#include "client/http_request.h"

#define PROBLEM "application/problem+json"
#define JOB "01890a5d-ac96-774b-bcce-b302099a8057"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A client of a fake server, and what came of its last call. */
struct remote {
    struct fake_server server;
    struct http_client_options options;
    struct http_client *client;
    struct arena arena;
    struct buf answer;
    struct err err;
};

static void reach(struct remote *r, const struct fake_step *script, size_t count)
{
    fake_server_start(&r->server, script, count);
    enum error_code code =
        http_client_open(str_from(r->server.url), &r->options, &r->client, &r->err);
    if (code != ERR_OK)
        fail_msg("%s", r->err.detail);
}

static enum error_code call(struct remote *r, enum verb_name name, const char *request)
{
    r->answer.len = 0;
    r->err = (struct err){0};
    return http_client_call(r->client, name, str_from(request), (struct str){NULL, 0}, &r->arena,
                            &r->answer, &r->err);
}

static void answer_is(struct remote *r, const char *expected)
{
    buf_add_char(&r->answer, '\0');
    assert_false(r->answer.failed);
    assert_string_equal(r->answer.at, expected);
}

static void detail_has(const struct remote *r, const char *part)
{
    if (strstr(r->err.detail, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", r->err.detail, part);
}

static void asked(struct remote *r, size_t at, const char *line, const char *body)
{
    const char *request = fake_server_request(&r->server, at);
    if (strncmp(request, line, strlen(line)) != 0)
        fail_msg("request %zu is not \"%s\": %.300s", at, line, request);
    assert_string_equal(fake_body(request), body);
}

static int setup(void **state)
{
    struct remote *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -1;
    r->options = (struct http_client_options){.timeout_ms = 5000};
    arena_init(&r->arena);
    buf_init(&r->answer, &r->arena, 256);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct remote *r = *state;
    http_client_close(r->client);
    if (r->server.port != 0)
        fake_server_stop(&r->server);
    arena_release(&r->arena);
    free(r);
    return 0;
}

/* ---- requests ----------------------------------------------------------------------------- */

static void a_verb_becomes_a_method_a_path_a_query_and_a_body(void **state)
{
    static const struct {
        enum verb_name name;
        const char *request;
        const char *method;
        const char *target;
        const char *body; /* NULL: none */
    } cases[] = {
        {VERB_submit, " {\"kind\": \"x\", \"payload\": 1.10} ", "POST", "/v1/jobs",
         "{\"kind\":\"x\",\"payload\":1.10}"},
        {VERB_get, "{\"id\":\"" JOB "\"}", "GET", "/v1/jobs/" JOB, NULL},
        {VERB_list, "{\"status\":\"a,b\",\"limit\":7,\"kind\":null,\"label\":\"k:v \\u00e9\"}",
         "GET", "/v1/jobs?status=a%2Cb&limit=7&label=k%3Av%20%C3%A9", NULL},
        {VERB_list, NULL, "GET", "/v1/jobs", NULL},
        {VERB_list, "{\"no such\":{\"a\":true}}", "GET", "/v1/jobs?no%20such=%7B%22a%22%3Atrue%7D",
         NULL},
        {VERB_verdict, "{\"step\":\"a/b\",\"id\":\"..\",\"decision\":\"accept\"}", "POST",
         "/v1/jobs/%2E%2E/steps/a%2Fb/verdict", "{\"decision\":\"accept\"}"},
        {VERB_complete, "{\"\\u0074oken\":\"t.1\",\"result\":[1,2]}", "POST",
         "/v1/leases/t.1/complete", "{\"result\":[1,2]}"},
        {VERB_pause, "{\"queue\":\"caf\xc3\xa9?#\"}", "POST", "/v1/queues/caf%C3%A9%3F%23/pause",
         "{}"},
        {VERB_resource_put, "{\"id\":\"r\",\"slots\":2}", "PUT", "/v1/resources/r",
         "{\"slots\":2}"},
        {VERB_resource_delete, "{\"id\":\"r\"}", "DELETE", "/v1/resources/r", NULL},
        {VERB_resource_delete, "{\"x\":1,\"id\":\"r\"}", "DELETE", "/v1/resources/r?x=1", NULL},
        {VERB_claim, "{\"worker_id\":\"w\"}", "POST", "/v1/claims",
         "{\"worker_id\":\"w\",\"wait_ms\":0}"},
        {VERB_claim, "{\"wait_ms\":5}", "POST", "/v1/claims", "{\"wait_ms\":5}"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena arena;
        struct http_request made;
        struct err err = {0};
        arena_init(&arena);
        enum error_code code =
            http_request_make(cases[i].name, str_from(cases[i].request), &arena, &made, &err);
        if (code != ERR_OK)
            fail_msg("%s: %s", cases[i].request, err.detail);
        assert_string_equal(made.method, cases[i].method);
        assert_string_equal(made.target, cases[i].target);
        if (!str_eq(made.body, str_from(cases[i].body)))
            fail_msg("%s: the body is %.*s", cases[i].request, STR_ARG(made.body));
        arena_release(&arena);
    }
}

static void what_cannot_be_asked_for_is_refused_without_asking(void **state)
{
    static const struct {
        enum verb_name name;
        const char *request;
        enum error_code code;
    } cases[] = {
        {VERB_get, "{}", ERR_BAD_REQUEST},
        {VERB_get, "{\"id\":null}", ERR_BAD_REQUEST},
        {VERB_get, "{\"id\":5}", ERR_BAD_REQUEST},
        {VERB_get, "{\"id\":\"\"}", ERR_BAD_REQUEST},
        {VERB_get, "{\"id\":\"a\\u0000b\"}", ERR_BAD_REQUEST},
        {VERB_get, "[1]", ERR_BAD_REQUEST},
        {VERB_get, "{\"id\":\"a\",\"id\":\"b\"}", ERR_BAD_REQUEST},
        {VERB_submit, "{\"kind\":", ERR_BAD_REQUEST},
        {VERB_complete, "{\"token\":\"\"}", ERR_STALE_LEASE},
    };
    struct remote *r = *state;
    reach(r, NULL, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(call(r, cases[i].name, cases[i].request), cases[i].code);
        assert_string_not_equal(r->err.detail, "");
    }
    assert_int_equal(fake_server_count(&r->server, 0), 0);
}

static void an_address_that_is_too_long_is_refused(void **state)
{
    struct remote *r = *state;
    struct buf request;
    reach(r, NULL, 0);
    buf_init(&request, &r->arena, 256);
    buf_add(&request, STR("{\"kind\":\""));
    for (int i = 0; i < HTTP_TARGET_BYTES_MAX; i++)
        buf_add_char(&request, 'x');
    buf_add(&request, STR("\"}\0"));
    assert_int_equal(call(r, VERB_list, request.at), ERR_PAYLOAD_TOO_LARGE);
}

/* ---- what goes well ----------------------------------------------------------------------- */

static void answers_come_back_byte_for_byte_on_one_connection(void **state)
{
    static const struct fake_step script[] = {
        {.status = "201 Created", .body = "{\"id\":\"j\",\"payload\":1.10}"},
        {.status = "200 OK", .body = "{\"jobs\":[],\"next_cursor\":null}"},
        {.status = "202 Accepted", .type = "application/json; charset=utf-8", .body = "{\"a\":1}"},
    };
    char value[256];
    struct remote *r = *state;
    r->options.token = "pawl_secret";
    reach(r, script, COUNT(script));
    assert_int_equal(call(r, VERB_submit, "{\"kind\":\"x\"}"), ERR_OK);
    answer_is(r, "{\"id\":\"j\",\"payload\":1.10}");
    assert_int_equal(call(r, VERB_list, NULL), ERR_OK);
    answer_is(r, "{\"jobs\":[],\"next_cursor\":null}");
    assert_int_equal(call(r, VERB_heartbeat, "{\"token\":\"t\"}"), ERR_OK);
    answer_is(r, "{\"a\":1}");

    asked(r, 0, "POST /v1/jobs HTTP/1.1\r\n", "{\"kind\":\"x\"}");
    asked(r, 1, "GET /v1/jobs HTTP/1.1\r\n", "");
    asked(r, 2, "POST /v1/leases/t/heartbeat HTTP/1.1\r\n", "{}");
    assert_int_equal(r->server.connections, 1);
    fake_header(fake_server_request(&r->server, 0), "Authorization", value);
    assert_string_equal(value, "Bearer pawl_secret");
    fake_header(fake_server_request(&r->server, 0), "Content-Type", value);
    assert_string_equal(value, "application/json");
    fake_header(fake_server_request(&r->server, 0), "Idempotency-Key", value);
    assert_int_equal(strlen(value), 36);
    fake_header(fake_server_request(&r->server, 2), "Idempotency-Key", value);
    assert_string_equal(value, "");
}

static void a_path_of_the_server_stands_before_those_of_verbs(void **state)
{
    struct remote *r = *state;
    char url[128];
    fake_server_start(&r->server, NULL, 0);
    r->server.scripts_health = true;
    (void)snprintf(url, sizeof url, "%s/behind/a%%20proxy/", r->server.url);
    assert_int_equal(http_client_open(str_from(url), &r->options, &r->client, &r->err), ERR_OK);
    assert_int_equal(call(r, VERB_stats, NULL), ERR_OK);
    asked(r, 0, "GET /behind/a%20proxy/healthz ", "");
    asked(r, 1, "GET /behind/a%20proxy/v1/stats ", "");
}

static void problems_come_back_as_their_codes(void **state)
{
#define ERROR(symbol, number, name, http, exit, title)                                             \
    {.status = #http " X",                                                                         \
     .type = PROBLEM,                                                                              \
     .body = "{\"status\":" #http ",\"code\":\"" name "\",\"detail\":\"it was " name "\"}"},
    static const struct fake_step script[] = {
#include "base/error.def"
        {.status = "409 X", .type = PROBLEM, .body = "{\"code\":\"of_the_future\"}"},
    };
#undef ERROR
    static const enum error_code codes[] = {
#define ERROR(symbol, number, name, http, exit, title) ERR_##symbol,
#include "base/error.def"
#undef ERROR
        ERR_INVALID_TRANSITION,
    };
    struct remote *r = *state;
    r->options.timeout_ms = 1;
    reach(r, script, COUNT(script));
    for (size_t i = 0; i < COUNT(codes); i++) {
        enum error_code code = call(r, VERB_stats, NULL);
        /* A server that is away may be asked twice before the patience is over; "ok" is no
         * problem. */
        if (codes[i] == ERR_OK) {
            assert_int_equal(code, ERR_UNAVAILABLE);
            continue;
        }
        if (codes[i] == ERR_UNAVAILABLE)
            atomic_store(&r->server.answered, i + 1);
        assert_int_equal(code, codes[i]);
        if (i + 1 < COUNT(codes))
            detail_has(r, error_info(codes[i])->name);
    }
}

/* ---- what is sent again ------------------------------------------------------------------- */

static void a_request_whose_answer_is_lost_is_sent_again_under_its_key(void **state)
{
    static const struct fake_step script[] = {
        {.then = FAKE_CLOSE},
        {.then = FAKE_RESET},
        {.body = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":", .then = FAKE_CLOSE},
        {.body = "HTTP/1.1 200 OK\r\nContent-Le", .then = FAKE_RESET},
        {.body = "HTTP/1.1 200 OK\r\nContent-Le", .then = FAKE_CLOSE},
        {.status = "201 Created", .body = "{\"id\":\"j\"}"},
    };
    char first[256];
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    assert_int_equal(call(r, VERB_submit, "{\"kind\":\"x\"}"), ERR_OK);
    answer_is(r, "{\"id\":\"j\"}");
    assert_true(fake_server_count(&r->server, 0) >= 6);
    fake_header(fake_server_request(&r->server, 0), "Idempotency-Key", first);
    assert_int_equal(strlen(first), 36);
    for (size_t i = 0; i < 6; i++) {
        char key[256];
        asked(r, i, "POST /v1/jobs ", "{\"kind\":\"x\"}");
        fake_header(fake_server_request(&r->server, i), "Idempotency-Key", key);
        assert_string_equal(key, first);
    }
}

static void a_server_that_is_away_for_a_moment_is_asked_again(void **state)
{
    static const struct fake_step script[] = {
        {.status = "503 X", .type = PROBLEM, .body = "{\"code\":\"unavailable\",\"detail\":\"d\"}"},
        {.status = "502 Bad Gateway", .type = "text/html", .body = "<html>"},
        {.status = "504 Gateway Timeout", .type = "text/html", .body = ""},
        {.status = "429 X",
         .type = PROBLEM,
         .headers = "Retry-After: 1\r\n",
         .body = "{\"code\":\"rate_limited\",\"detail\":\"d\"}"},
        {.status = "200 OK", .body = "{\"jobs\":{}}"},
    };
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    int64_t start = clock_monotonic_ms();
    assert_int_equal(call(r, VERB_stats, NULL), ERR_OK);
    answer_is(r, "{\"jobs\":{}}");
    assert_true(clock_monotonic_ms() - start >= 1000);
    assert_int_equal(fake_server_count(&r->server, 0), 5);
}

static void a_server_that_wants_more_time_than_there_is_is_left_alone(void **state)
{
    static const struct fake_step script[] = {
        {.status = "503 X",
         .type = PROBLEM,
         .headers = "Retry-After: 60\r\n",
         .body = "{\"code\":\"unavailable\",\"detail\":\"the store is away\"}"},
        {.status = "429 X",
         .type = PROBLEM,
         .headers = "Retry-After: 3600\r\n",
         .body = "{\"code\":\"rate_limited\",\"detail\":\"slower\"}"},
        {.status = "429 X",
         .type = PROBLEM,
         .body = "{\"code\":\"rate_limited\",\"detail\":\"x\"}"},
        {.status = "503 X", .type = PROBLEM, .body = "{\"code\":\"no_memory\",\"detail\":\"x\"}"},
    };
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    assert_int_equal(call(r, VERB_stats, NULL), ERR_UNAVAILABLE);
    detail_has(r, "the store is away");
    assert_int_equal(call(r, VERB_stats, NULL), ERR_RATE_LIMITED);
    detail_has(r, "slower");
    assert_int_equal(call(r, VERB_stats, NULL), ERR_RATE_LIMITED);
    assert_int_equal(call(r, VERB_stats, NULL), ERR_NO_MEMORY);
    assert_int_equal(fake_server_count(&r->server, 0), 4);
}

static void a_server_that_goes_away_for_good_is_given_up(void **state)
{
    struct remote *r = *state;
    r->options.timeout_ms = 150;
    reach(r, NULL, 0);
    fake_server_stop(&r->server);
    r->server.port = 0;
    int64_t start = clock_monotonic_ms();
    assert_int_equal(call(r, VERB_submit, "{\"kind\":\"x\"}"), ERR_UNAVAILABLE);
    detail_has(r, "cannot reach");
    assert_true(clock_monotonic_ms() - start >= 100);
    struct http_client *other;
    assert_int_equal(http_client_open(str_from(r->server.url), &r->options, &other, &r->err),
                     ERR_UNAVAILABLE);
}

static void a_server_that_is_silent_is_not_waited_for_for_ever(void **state)
{
    static const struct fake_step script[] = {{.body = "HTTP/1.1 200 OK\r\n"}};
    struct remote *r = *state;
    r->options.answer_ms = 100;
    reach(r, script, COUNT(script));
    assert_int_equal(call(r, VERB_submit, "{\"kind\":\"x\"}"), ERR_UNAVAILABLE);
    detail_has(r, "may or may not have been executed");
    assert_int_equal(fake_server_count(&r->server, 0), 1);
}

/* ---- what is not Pawl --------------------------------------------------------------------- */

static void what_does_not_answer_as_pawl_does_is_out_of_reach(void **state)
{
    static const struct fake_step script[] = {
        {.body = "SSH-2.0-OpenSSH_9.2\r\n", .then = FAKE_CLOSE},
        {.status = "200 OK", .type = "text/html", .body = "<html>hello</html>"},
        {.status = "200 OK", .body = "{\"cut\":"},
        {.status = "200 OK", .body = ""},
        {.status = "204 No Content"},
        {.status = "200 OK", .body = "{\"a\":\"\x01\"}"},
        {.status = "404 Not Found", .type = "text/html", .body = "<html>"},
        {.status = "404 Not Found", .type = PROBLEM, .body = "{\"detail\":\"no code\"}"},
        {.status = "404 Not Found", .type = PROBLEM, .body = "garbage"},
        {.status = "500 X", .type = "text/plain", .body = "oops"},
        {.status = "307 X", .headers = "Location: http://127.0.0.1:1/v1/stats\r\n", .body = "{}"},
    };
    struct remote *r = *state;
    r->options.timeout_ms = 1;
    reach(r, script, COUNT(script));
    for (size_t i = 0; i < COUNT(script); i++) {
        atomic_store(&r->server.answered, i);
        enum error_code code = call(r, VERB_stats, NULL);
        if (code != ERR_UNAVAILABLE)
            fail_msg("answer %zu: %d, %s", i, code, r->err.detail);
        assert_int_equal(r->answer.len, 0);
    }
}

static void an_answer_without_end_is_given_up(void **state)
{
    static const struct fake_step script[] = {
        {.body = "HTTP/1.1 200 OK\r\n", .headers = "X: y\r\n", .then = FAKE_FLOOD},
        {.body = "HTTP/1.1 200 OK\r\n\r\n", .headers = "[[[[", .then = FAKE_FLOOD},
    };
    struct remote *r = *state;
    struct http_lines *lines;
    struct http_exchange exchange = {.request = {.method = "GET", .target = "/v1/stats"},
                                     .answer_ms = 5000};
    reach(r, script, COUNT(script));
    assert_int_equal(call(r, VERB_stats, NULL), ERR_PAYLOAD_TOO_LARGE);
    const struct http_lines_options options = {
        .base = r->server.url, .timeout_ms = 1000, .answer_bytes_max = 10 * 1000};
    assert_int_equal(http_lines_new(&options, &lines, &r->err), ERR_OK);
    assert_int_equal(http_lines_exchange(lines, &exchange, &r->answer), HTTP_TOO_LARGE);
    assert_true(r->answer.len <= options.answer_bytes_max);
    http_lines_free(lines);
}

static void what_is_no_server_cannot_be_opened(void **state)
{
    static const struct fake_step script[] = {
        {.status = "404 Not Found", .type = "text/html", .body = "<html>"},
        {.status = "403 X",
         .type = PROBLEM,
         .body = "{\"code\":\"forbidden\",\"detail\":\"not with this Host\"}"},
    };
    struct remote *r = *state;
    r->server.scripts_health = true;
    fake_server_start(&r->server, script, COUNT(script));
    assert_int_equal(http_client_open(str_from(r->server.url), &r->options, &r->client, &r->err),
                     ERR_UNAVAILABLE);
    assert_int_equal(http_client_open(str_from(r->server.url), &r->options, &r->client, &r->err),
                     ERR_FORBIDDEN);
}

static void urls_and_tokens_that_are_none_are_refused(void **state)
{
    static const char *const urls[] = {
        "http://",
        "http://user@127.0.0.1:1",
        "http://user:word@127.0.0.1:1",
        "http://127.0.0.1:1/?a=b",
        "http://127.0.0.1:1/#a",
        "http://127.0.0.1:99999",
        "http://a b/",
    };
    static const char *const tokens[] = {"", "a b", "a\r\nHost: x", "caf\xc3\xa9"};
    struct remote *r = *state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        assert_true(http_client_is_url(str_from(urls[i])));
        assert_int_equal(http_client_open(str_from(urls[i]), &r->options, &r->client, &r->err),
                         ERR_BAD_REQUEST);
    }
    for (size_t i = 0; i < COUNT(tokens); i++) {
        r->options.token = tokens[i];
        assert_int_equal(
            http_client_open(STR("http://127.0.0.1:1"), &r->options, &r->client, &r->err),
            ERR_BAD_REQUEST);
    }
    assert_true(http_client_is_url(STR("HTTPS://x")));
    assert_false(http_client_is_url(STR("http:x")));
    assert_false(http_client_is_url(STR("sqlite:http://x")));
}

/* ---- waits -------------------------------------------------------------------------------- */

static void *interrupt(void *arg)
{
    struct remote *r = arg;
    (void)fake_server_count(&r->server, 1);
    http_client_interrupt(r->client);
    return NULL;
}

/* Has a call that would wait for long interrupted while the server keeps silent. */
static enum error_code call_interrupted(struct remote *r, enum verb_name name, const char *request)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt, r), 0);
    int64_t start = clock_monotonic_ms();
    enum error_code code = call(r, name, request);
    (void)pthread_join(thread, NULL);
    assert_true(clock_monotonic_ms() - start < 4000);
    return code;
}

static void an_interrupted_claim_ends_at_once(void **state)
{
    static const struct fake_step script[] = {
        {.body = NULL},
        {.status = "200 OK", .body = "{\"claims\":[]}"},
    };
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    assert_int_equal(call_interrupted(r, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":50000}"),
                     ERR_OK);
    answer_is(r, "{\"claims\":[]}");
    asked(r, 1, "POST /v1/claims ", "{\"worker_id\":\"w\",\"wait_ms\":0}");

    /* From now on nobody waits. */
    assert_int_equal(call(r, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":50000}"), ERR_OK);
    asked(r, 2, "POST /v1/claims ", "{\"worker_id\":\"w\",\"wait_ms\":0}");
}

static void a_claim_that_was_granted_when_it_was_interrupted_is_not_lost(void **state)
{
    static const struct fake_step script[] = {
        {.body = NULL},
        {.status = "422 X", .type = PROBLEM, .body = "{\"code\":\"idempotency_mismatch\"}"},
        {.status = "200 OK", .body = "{\"claims\":[{\"job\":{}}]}"},
    };
    char keys[3][256];
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    assert_int_equal(call_interrupted(r, VERB_claim, "{\"worker_id\":\"w\",\"wait_ms\":50000}"),
                     ERR_OK);
    answer_is(r, "{\"claims\":[{\"job\":{}}]}");
    assert_string_equal(fake_body(fake_server_request(&r->server, 0)),
                        fake_body(fake_server_request(&r->server, 2)));
    for (size_t i = 0; i < 3; i++)
        fake_header(fake_server_request(&r->server, i), "Idempotency-Key", keys[i]);
    assert_int_equal(strlen(keys[0]), 36);
    assert_string_equal(keys[0], keys[1]);
    assert_string_equal(keys[0], keys[2]);
}

static void an_interrupted_wait_for_a_job_answers_the_job_as_it_is(void **state)
{
    static const struct fake_step script[] = {
        {.body = NULL},
        {.status = "200 OK", .body = "{\"status\":\"running\"}"},
    };
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    assert_int_equal(call_interrupted(r, VERB_get, "{\"id\":\"" JOB "\",\"wait_ms\":50000}"),
                     ERR_OK);
    answer_is(r, "{\"status\":\"running\"}");
    asked(r, 1, "GET /v1/jobs/" JOB "?wait_ms=0 ", "");
}

static void a_server_that_does_not_let_us_wait_is_not_asked_all_the_time(void **state)
{
    static const struct fake_step script[] = {
        {.status = "200 OK", .body = "{\"events\":[]}"},
        {.status = "200 OK", .body = "{\"events\":[]}"},
        {.status = "200 OK", .body = "{\"events\":[{\"version\":1}]}"},
    };
    struct remote *r = *state;
    reach(r, script, COUNT(script));
    int64_t start = clock_monotonic_ms();
    assert_int_equal(call(r, VERB_events, "{\"id\":\"" JOB "\",\"wait_ms\":20000}"), ERR_OK);
    answer_is(r, "{\"events\":[{\"version\":1}]}");
    assert_true(clock_monotonic_ms() - start >= 400);
    assert_int_equal(fake_server_count(&r->server, 0), 3);
}

/* ---- many at once ------------------------------------------------------------------------- */

static void *call_once(void *arg)
{
    struct remote *r = arg;
    struct arena arena;
    struct buf answer;
    struct err err = {0};
    arena_init(&arena);
    buf_init(&answer, &arena, 64);
    enum error_code code =
        http_client_call(r->client, VERB_claim, STR("{\"worker_id\":\"w\",\"wait_ms\":40000}"),
                         (struct str){NULL, 0}, &arena, &answer, &err);
    arena_release(&arena);
    return (void *)(uintptr_t)code;
}

static void calls_that_wait_leave_room_for_others_and_are_bounded(void **state)
{
    enum { WAITING = HTTP_LINES_WAITING_MAX + 4 };
    static struct fake_step script[WAITING];
    pthread_t threads[WAITING];
    struct remote *r = *state;
    reach(r, NULL, 0);
    /* Silence for as many as may wait; then whatever comes is answered. */
    r->server.script = script;
    r->server.script_count = HTTP_LINES_WAITING_MAX;
    for (size_t i = 0; i < WAITING; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_once, r), 0);
    assert_int_equal(fake_server_count(&r->server, HTTP_LINES_WAITING_MAX), HTTP_LINES_WAITING_MAX);
    assert_int_equal(call(r, VERB_stats, NULL), ERR_OK);
    assert_int_equal(fake_server_count(&r->server, 0), HTTP_LINES_WAITING_MAX + 1);
    http_client_interrupt(r->client);
    for (size_t i = 0; i < WAITING; i++) {
        void *code;
        (void)pthread_join(threads[i], &code);
        assert_int_equal((uintptr_t)code, ERR_OK);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_verb_becomes_a_method_a_path_a_query_and_a_body),
        TEST(what_cannot_be_asked_for_is_refused_without_asking),
        TEST(an_address_that_is_too_long_is_refused),
        TEST(answers_come_back_byte_for_byte_on_one_connection),
        TEST(a_path_of_the_server_stands_before_those_of_verbs),
        TEST(problems_come_back_as_their_codes),
        TEST(a_request_whose_answer_is_lost_is_sent_again_under_its_key),
        TEST(a_server_that_is_away_for_a_moment_is_asked_again),
        TEST(a_server_that_wants_more_time_than_there_is_is_left_alone),
        TEST(a_server_that_goes_away_for_good_is_given_up),
        TEST(a_server_that_is_silent_is_not_waited_for_for_ever),
        TEST(what_does_not_answer_as_pawl_does_is_out_of_reach),
        TEST(an_answer_without_end_is_given_up),
        TEST(what_is_no_server_cannot_be_opened),
        TEST(urls_and_tokens_that_are_none_are_refused),
        TEST(an_interrupted_claim_ends_at_once),
        TEST(a_claim_that_was_granted_when_it_was_interrupted_is_not_lost),
        TEST(an_interrupted_wait_for_a_job_answers_the_job_as_it_is),
        TEST(a_server_that_does_not_let_us_wait_is_not_asked_all_the_time),
        TEST(calls_that_wait_leave_room_for_others_and_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
