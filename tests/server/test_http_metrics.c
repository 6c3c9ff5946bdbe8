/* The figures of /metrics after things that are known to have happened, on every store. */
#define _GNU_SOURCE /* NOLINT: strcasestr */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include <cmocka.h>

#include "server/http_case.h"
#include "server/metrics_text.h"

static const char *page(struct http_case *c)
{
    struct reply *reply = http_call(c, "GET", "/metrics", NULL);
    reply_is(reply, 200);
    assert_non_null(strcasestr(reply->head, "Content-Type: text/plain; version=0.0.4"));
    return reply->body;
}

/* The value of a sample, as it is written; "" when there is none. */
static const char *figure_on(struct http_case *c, const char *text, const char *name)
{
    const char *line = strstr(text, http_phrase(c, "\n%s ", name));
    if (line == NULL)
        return "";
    const char *value = line + strlen(name) + 2;
    return http_phrase(c, "%.*s", (int)strcspn(value, "\n"), value);
}

struct figure {
    const char *name;
    const char *value;
};

/* The first that the page does not have so; NULL: it has all of them. */
static const struct figure *first_wrong(struct http_case *c, const char *text,
                                        const struct figure *figures, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(figure_on(c, text, figures[i].name), figures[i].value) != 0)
            return &figures[i];
    return NULL;
}

/* A page with all of these. Figures of the store may be some moments old when the machine is busy,
 * so that it is read again for a while. */
static const char *page_with(struct http_case *c, const struct figure *figures, size_t count)
{
    int64_t until = http_now() + 10000;
    const char *text = page(c);
    const struct figure *wrong;
    while ((wrong = first_wrong(c, text, figures, count)) != NULL && http_now() < until) {
        (void)usleep(5000);
        text = page(c);
    }
    if (wrong != NULL)
        fail_msg("%s is \"%s\" and not \"%s\"", wrong->name, figure_on(c, text, wrong->name),
                 wrong->value);
    return text;
}

/* The sum of all samples of a family. */
static long long total(const char *text, const char *family)
{
    long long sum = 0;
    size_t len = strlen(family);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, family, len) == 0 && (line[len] == '{' || line[len] == ' ')) {
            const char *end = line + strcspn(line, "\n");
            const char *value = end;
            while (value > line && value[-1] != ' ')
                value--;
            sum += strtoll(value, NULL, 10);
        }
    }
    return sum;
}

static const char *submit(struct http_case *c, const char *more)
{
    struct reply *reply = http_call(c, "POST", "/v1/jobs", "{\"kind\":\"mail\"%s}", more);
    reply_is(reply, 201);
    return reply_text(c, reply, "id");
}

static const char *claim(struct http_case *c, const char *more)
{
    struct reply *reply =
        http_call(c, "POST", "/v1/claims", "{\"worker_id\":\"w1\",\"wait_ms\":10000%s}", more);
    reply_is(reply, 200);
    const char *token = reply_text(c, reply, "claims.0.lease.token");
    assert_string_not_equal(token, "");
    return token;
}

static struct reply *with_lease(struct http_case *c, const char *token, const char *what,
                                const char *body)
{
    return http_call(c, "POST", http_phrase(c, "/v1/leases/%s/%s", token, what), "%s", body);
}

static void goes_well(struct http_case *c, const char *token, const char *what, const char *body)
{
    reply_is(with_lease(c, token, what, body), 200);
}

static void is_stale(struct http_case *c, const char *token, const char *what)
{
    reply_refuses(with_lease(c, token, what, "{}"), 409, "stale_lease");
}

/* Six jobs: one is done at once; one fails twice and becomes a dead letter; one loses its lease;
 * one waits; one is cancelled; one is buried. */
static void live_six_lives(struct http_case *c)
{
    static const char retry[] = ",\"retry\":{\"max_attempts\":2,\"initial_ms\":30,\"jitter\":"
                                "\"none\"}";
    static const char fail[] = "{\"error\":{\"message\":\"no luck\"}}";
    submit(c, "");
    const char *token = claim(c, "");
    goes_well(c, token, "heartbeat", "{}");
    goes_well(c, token, "heartbeat", "{}");
    goes_well(c, token, "complete", "{}");
    is_stale(c, token, "heartbeat");

    submit(c, retry);
    goes_well(c, claim(c, ""), "fail", fail);
    goes_well(c, claim(c, ""), "fail", fail);

    submit(c, ",\"retry\":{\"initial_ms\":30,\"jitter\":\"none\"}");
    const char *lost = claim(c, ",\"lease_ttl_ms\":100,\"start\":false");
    token = claim(c, "");
    is_stale(c, lost, "complete");
    goes_well(c, token, "complete", "{}");

    const char *id = submit(c, "");
    goes_well(c, claim(c, ""), "wait", "{\"type\":\"signal\",\"correlation_key\":\"k\"}");
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/signal", id),
                       "{\"correlation_key\":\"k\"}"),
             200);
    goes_well(c, claim(c, ""), "complete", "{}");

    id = submit(c, "");
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/cancel", id), "{\"mode\":\"hard\"}"),
             200);
    id = submit(c, "");
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/dead-letter", id),
                       "{\"reason_code\":\"policy_violation\"}"),
             200);
}

static void what_happened_to_jobs_is_counted_exactly(void **state)
{
    struct http_case *c = *state;
    static const struct figure figures[] = {
        {"pawl_job_transitions_total{from=\"none\",to=\"queued\"}", "6"},
        {"pawl_job_transitions_total{from=\"queued\",to=\"leased\"}", "5"},
        {"pawl_job_transitions_total{from=\"retrying\",to=\"leased\"}", "2"},
        {"pawl_job_transitions_total{from=\"leased\",to=\"running\"}", "6"},
        {"pawl_job_transitions_total{from=\"leased\",to=\"retrying\"}", "1"},
        {"pawl_job_transitions_total{from=\"running\",to=\"retrying\"}", "1"},
        {"pawl_job_transitions_total{from=\"running\",to=\"completed\"}", "3"},
        {"pawl_job_transitions_total{from=\"running\",to=\"dead_lettered\"}", "1"},
        {"pawl_job_transitions_total{from=\"running\",to=\"waiting\"}", "1"},
        {"pawl_job_transitions_total{from=\"waiting\",to=\"queued\"}", "1"},
        {"pawl_job_transitions_total{from=\"queued\",to=\"cancelled\"}", "1"},
        {"pawl_job_transitions_total{from=\"queued\",to=\"dead_lettered\"}", "1"},
        {"pawl_claims_total{work=\"job\"}", "7"},
        {"pawl_claims_total{work=\"step\"}", "0"},
        {"pawl_lease_renewals_total", "2"},
        {"pawl_lease_expiries_total{work=\"job\"}", "1"},
        {"pawl_lease_expiries_total{work=\"step\"}", "0"},
        {"pawl_stale_writes_refused_total", "2"},
        {"pawl_operations_refused_total{code=\"stale_lease\"}", "2"},
        {"pawl_failures_total{kind=\"mail\"}", "3"},
        {"pawl_retries_total{kind=\"mail\"}", "2"},
        {"pawl_dead_letters_total{reason_code=\"exhausted_retries\"}", "1"},
        {"pawl_dead_letters_total{reason_code=\"policy_violation\"}", "1"},
        {"pawl_dead_letters_total{reason_code=\"timeout\"}", "0"},
        {"pawl_job_wait_seconds_count{kind=\"mail\"}", "7"},
        {"pawl_job_run_seconds_count{kind=\"mail\"}", "7"},
        {"pawl_requests_shed_total", "0"},
        {"pawl_queue_jobs{queue=\"default\",state=\"completed\"}", "3"},
        {"pawl_queue_jobs{queue=\"default\",state=\"dead_lettered\"}", "2"},
        {"pawl_queue_jobs{queue=\"default\",state=\"cancelled\"}", "1"},
        {"pawl_queue_jobs{queue=\"default\",state=\"queued\"}", "0"},
        {"pawl_queue_oldest_age_seconds{queue=\"default\",state=\"queued\"}", ""},
        {"pawl_queue_oldest_age_seconds{queue=\"default\",state=\"completed\"}", ""},
        {"pawl_workers", "0"},
        {"pawl_leases", "0"},
        {"pawl_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"}", "6"},
        {"pawl_http_requests_total{method=\"POST\",route=\"/v1/claims\",status=\"200\"}", "7"},
        {"pawl_http_requests_total{method=\"POST\",route=\"/v1/leases/{token}/complete\","
         "status=\"409\"}",
         "1"},
        {"pawl_http_parked_requests", "0"},
        {"pawl_http_streams", "0"},
    };
    live_six_lives(c);
    const char *text = page_with(c, figures, sizeof figures / sizeof figures[0]);
    /* Nothing that was not expected: every move of a job, and no more. */
    assert_int_equal(total(text, "pawl_job_transitions_total"), 29);
    assert_int_equal(total(text, "pawl_dead_letters_total"), 2);
    assert_int_equal(total(text, "pawl_operations_refused_total"), 2);
    assert_int_equal(total(text, "pawl_batch_operations_count"),
                     total(text, "pawl_commit_seconds_count"));
    assert_int_equal(total(text, "pawl_batch_operations_sum"),
                     total(text, "pawl_operations_total"));
    /* The lease that was lost was held for a tenth of a second, at least. */
    assert_true(strtod(figure_on(c, text, "pawl_job_run_seconds_sum{kind=\"mail\"}"), NULL) >= 0.1);
}

/* As many events as the histories have. */
static void the_figures_agree_with_the_histories(void **state)
{
    struct http_case *c = *state;
    live_six_lives(c);
    const char *text = page(c);
    struct reply *list = http_call(c, "GET", "/v1/jobs", NULL);
    long long events = 0;
    for (int i = 0; i < 6; i++)
        events += reply_int(list, http_phrase(c, "jobs.%d.version", i));
    assert_int_equal(total(text, "pawl_events_total"), events);
}

static const char *claim_step(struct http_case *c, const char *more)
{
    struct reply *reply =
        http_call(c, "POST", "/v1/steps/claims",
                  "{\"worker_id\":\"w1\",\"resource_id\":\"r1\",\"wait_ms\":10000%s}", more);
    reply_is(reply, 200);
    const char *token = reply_text(c, reply, "claims.0.lease.token");
    assert_string_not_equal(token, "");
    return token;
}

#define MOVE(step, from, to)                                                                       \
    "pawl_step_state_transitions_total{step_id=\"" step "\",from_state=\"" from                    \
    "\",to_state=\"" to "\"}"
#define EFFORT(step, capability, status)                                                           \
    "pawl_step_duration_seconds_count{step_id=\"" step "\",capability=\"" capability               \
    "\",status=\"" status "\"}"
#define RETRIED(step, capability)                                                                  \
    "pawl_step_retries_total{step_id=\"" step "\",capability=\"" capability "\"}"

/* fetch fails once and then succeeds; sum is judged by a critic. */
static void what_happened_to_steps_is_counted_exactly(void **state)
{
    struct http_case *c = *state;
    static const struct figure figures[] = {
        {MOVE("fetch", "pending", "leased"), "1"},
        {MOVE("fetch", "leased", "running"), "1"},
        {MOVE("fetch", "running", "failed_retryable"), "1"},
        {MOVE("fetch", "failed_retryable", "retrying"), "1"},
        {MOVE("fetch", "retrying", "running"), "1"},
        {MOVE("fetch", "running", "succeeded"), "1"},
        {MOVE("sum", "pending", "waiting_deps"), "1"},
        {MOVE("sum", "waiting_deps", "leased"), "1"},
        {MOVE("sum", "leased", "running"), "1"},
        {MOVE("sum", "running", "succeeded"), "1"},
        {EFFORT("fetch", "net,gpu", "failed_retryable"), "1"},
        {EFFORT("fetch", "net,gpu", "succeeded"), "1"},
        {EFFORT("sum", "", "finished"), "1"},
        {EFFORT("sum", "", "succeeded"), ""},
        {RETRIED("fetch", "net,gpu"), "1"},
        {RETRIED("sum", ""), "0"},
        {"pawl_claims_total{work=\"step\"}", "4"},
        {"pawl_claims_total{work=\"job\"}", "0"},
        {"pawl_steps_by_state{state=\"succeeded\"}", "2"},
        {"pawl_steps_by_state{state=\"pending\"}", "0"},
        {"pawl_job_wait_seconds_count{kind=\"crew\"}", "1"},
        {"pawl_resources", "1"},
        {"pawl_resource_slots", "3"},
        {"pawl_resource_slots_used", "0"},
    };
    reply_is(
        http_call(c, "PUT", "/v1/resources/r1", "{\"capabilities\":[\"net\",\"gpu\"],\"slots\":3}"),
        200);
    struct reply *reply = http_call(
        c, "POST", "/v1/jobs",
        "{\"kind\":\"crew\",\"plan\":{\"steps\":[{\"id\":\"fetch\",\"kind\":\"http\","
        "\"capabilities\":[\"net\",\"gpu\"],\"retry\":{\"initial_ms\":20,\"jitter\":\"none\"}},"
        "{\"id\":\"sum\",\"kind\":\"sum\",\"deps\":[\"fetch\"],\"critic\":true}]}}");
    reply_is(reply, 201);
    const char *id = reply_text(c, reply, "id");
    static const struct figure begun[] = {
        {"pawl_steps_by_state{state=\"pending\"}", "1"},
        {"pawl_steps_by_state{state=\"waiting_deps\"}", "1"},
    };
    page_with(c, begun, 2);
    goes_well(c, claim_step(c, ""), "fail", "{\"error\":{\"message\":\"x\"}}");
    goes_well(c, claim_step(c, ""), "complete", "{\"result\":1}");
    goes_well(c, claim_step(c, ""), "complete", "{\"result\":2}");
    const char *token = claim_step(c, ",\"judge\":true");
    reply_is(http_call(c, "POST", http_phrase(c, "/v1/jobs/%s/steps/sum/verdict", id),
                       "{\"decision\":\"accept\",\"token\":\"%s\"}", token),
             200);
    const char *text = page_with(c, figures, sizeof figures / sizeof figures[0]);
    assert_int_equal(total(text, "pawl_step_state_transitions_total"), 10);
    assert_int_equal(total(text, "pawl_step_duration_seconds_count"), 3);
    assert_int_equal(total(text, "pawl_step_retries_total"), 1);
}

static void a_step_that_is_given_back_is_no_retry(void **state)
{
    struct http_case *c = *state;
    static const struct figure retrying[] = {{"pawl_steps_by_state{state=\"retrying\"}", "1"}};
    reply_is(http_call(c, "PUT", "/v1/resources/r1", "{}"), 200);
    reply_is(http_call(c, "POST", "/v1/jobs",
                       "{\"kind\":\"crew\",\"plan\":{\"steps\":[{\"id\":\"fetch\"}]}}"),
             201);
    goes_well(c, claim_step(c, ""), "release", "{}");
    const char *text = page_with(c, retrying, 1);
    assert_int_equal(total(text, "pawl_step_retries_total"), 0);
}

static void a_resource_that_rests_is_counted(void **state)
{
    struct http_case *c = *state;
    static const struct figure before[] = {
        {"pawl_resources", "1"},
        {"pawl_resources_resting", "0"},
        {"pawl_resource_rests_total", "0"},
    };
    static const struct figure after[] = {
        {"pawl_resources", "1"},
        {"pawl_resources_resting", "1"},
        {"pawl_resource_rests_total", "1"},
    };
    reply_is(
        http_call(c, "PUT", "/v1/resources/r1", "{\"rest\":{\"failures\":2,\"for_ms\":60000}}"),
        200);
    for (int i = 0; i < 2; i++) {
        page_with(c, before, 3);
        reply_is(http_call(c, "POST", "/v1/jobs",
                           "{\"kind\":\"crew\",\"plan\":{\"steps\":[{\"id\":\"one\"}]}}"),
                 201);
        goes_well(c, claim_step(c, ""), "fail",
                  "{\"error\":{\"class\":\"resource\",\"message\":\"x\"}}");
    }
    page_with(c, after, 3);
}

static void a_step_whose_lease_is_lost_is_counted_once(void **state)
{
    struct http_case *c = *state;
    static const struct figure figures[] = {
        {"pawl_lease_expiries_total{work=\"step\"}", "1"},
        {"pawl_lease_expiries_total{work=\"job\"}", "0"},
        {EFFORT("one", "", "succeeded"), "1"},
        {MOVE("one", "running", "succeeded"), "1"},
        {"pawl_claims_total{work=\"step\"}", "2"},
    };
    reply_is(http_call(c, "PUT", "/v1/resources/r1", "{\"slots\":3}"), 200);
    reply_is(http_call(c, "PUT", "/v1/resources/r2", "{\"slots\":3}"), 200);
    reply_is(http_call(c, "POST", "/v1/jobs",
                       "{\"kind\":\"crew\",\"plan\":{\"steps\":[{\"id\":\"one\",\"kind\":\"k\","
                       "\"retry\":{\"initial_ms\":20}}]}}"),
             201);
    claim_step(c, ",\"lease_ttl_ms\":100");
    struct reply *reply =
        http_call(c, "POST", "/v1/steps/claims",
                  "{\"worker_id\":\"w2\",\"resource_id\":\"r2\",\"wait_ms\":10000}");
    goes_well(c, reply_text(c, reply, "claims.0.lease.token"), "complete", "{\"result\":1}");
    page_with(c, figures, sizeof figures / sizeof figures[0]);
}

/* What came from elsewhere was counted there. */
static void a_history_that_is_imported_is_not_counted(void **state)
{
    struct http_case *c = *state;
    const char *id = submit(c, "");
    goes_well(c, claim(c, ""), "complete", "{}");
    struct reply *exported = http_call(c, "GET", http_phrase(c, "/v1/jobs/%s/export", id), NULL);
    reply_is(exported, 200);
    struct http_case other = {.sort = c->sort};
    test_stores_init(&other.stores);
    (void)snprintf(other.url, sizeof other.url, "memory:");
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    options.engine.store.create = true;
    http_open(&other, &options);
    other.replies = NULL;
    reply_is(http_call(&other, "POST", "/v1/import", "{\"jobs\":[%s]}", exported->body), 200);
    static const struct figure figures[] = {
        {"pawl_job_transitions_total{from=\"none\",to=\"queued\"}", ""},
        {"pawl_events_total", "0"},
        {"pawl_queue_jobs{queue=\"default\",state=\"completed\"}", "1"},
    };
    page_with(&other, figures, 3);
    server_close(other.server);
    while (other.replies != NULL) {
        struct reply *next = other.replies->next;
        free(other.replies);
        other.replies = next;
    }
    test_stores_release(&other.stores);
}

static void names_of_users_cannot_break_the_page(void **state)
{
    struct http_case *c = *state;
    reply_is(http_call(c, "POST", "/v1/jobs",
                       "{\"kind\":\"a\\\"} 1 \\\\\",\"queue\":\"caf\\u00e9 {}\\\"\\\\\"}"),
             201);
    static const struct figure figures[] = {
        {"pawl_failures_total{kind=\"a\\\"} 1 \\\\\"}", "0"},
        {"pawl_queue_jobs{queue=\"caf\xc3\xa9 {}\\\"\\\\\",state=\"queued\"}", "1"},
    };
    page_with(c, figures, 2);
}

/* More kinds and queues than there is room for. */
static void the_labels_are_bounded(void **state)
{
    enum { KINDS = 230 };
    struct http_case *c = *state;
    for (int i = 0; i < KINDS; i += 10) {
        const char *jobs = "";
        for (int n = i; n < i + 10; n++)
            jobs = http_phrase(c, "%s%s{\"kind\":\"k%d\",\"queue\":\"q%d\"}", jobs,
                               n > i ? "," : "", n, n);
        reply_is(http_call(c, "POST", "/v1/jobs", "{\"jobs\":[%s]}", jobs), 201);
    }
    static const struct figure figures[] = {
        {"pawl_job_commit_seconds_count{kind=\"k199\"}", "1"},
        {"pawl_job_commit_seconds_count{kind=\"k200\"}", ""},
        {"pawl_job_commit_seconds_count{kind=\"other\"}", "30"},
        {"pawl_queue_jobs{queue=\"other\",state=\"queued\"}", "30"},
    };
    const char *text = page_with(c, figures, 4);
    assert_int_equal(total(text, "pawl_queue_jobs"), KINDS);
    assert_int_equal(total(text, "pawl_job_commit_seconds_count"), KINDS);
}

/* Each metric of the list once, and no other. */
static void the_page_has_every_metric_of_the_list(void **state)
{
    struct http_case *c = *state;
    const char *text = http_phrase(c, "\n%s", page(c));
    int families = 0;
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_info *info = metric_info((enum metric)i);
        const char *line = http_phrase(c, "\n# TYPE %.*s %.*s\n", (int)info->name.len,
                                       info->name.at, (int)info->type.len, info->type.at);
        const char *found = strstr(text, line);
        if (found == NULL || strstr(found + 1, line) != NULL)
            fail_msg("%.*s is not there once", (int)info->name.len, info->name.at);
    }
    for (const char *at = text; (at = strstr(at, "\n# TYPE ")) != NULL; at++)
        families++;
    assert_int_equal(families, METRIC_COUNT);
}

static void open_streams_and_waiting_requests_are_gauged(void **state)
{
    struct http_case *c = *state;
    static const char stream[] = "GET /v1/feed HTTP/1.1\r\nHost: localhost\r\n"
                                 "Accept: text/event-stream\r\n\r\n";
    static const char poll[] = "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Type: application/json\r\nContent-Length: 36\r\n\r\n"
                               "{\"worker_id\":\"w1\",\"wait_ms\":  30000}";
    int first = http_connect(c->port);
    int second = http_connect(c->port);
    assert_true(http_send(first, stream, strlen(stream)));
    assert_true(http_send(second, poll, strlen(poll)));
    static const struct figure figures[] = {
        {"pawl_http_streams", "1"},
        {"pawl_http_parked_requests", "2"},
    };
    page_with(c, figures, 2);
    (void)close(first);
    (void)close(second);
}

/* ---- a store that is away ---- */

/* Runs a statement on the server, not in the case's database. */
static void on_server(const char *statement)
{
    PGconn *connection = PQconnectdb(getenv("PAWL_TEST_POSTGRES"));
    PGresult *result = PQexec(connection, statement);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(connection));
    PQfinish(connection);
}

static void without_the_store_the_counters_are_still_told(void **state)
{
    struct http_case *c = *state;
    const char *name = strstr(c->url, "/pawl_test") + 1;
    const char *database = http_phrase(c, "%.*s", (int)strcspn(name, "?"), name);
    server_close(c->server);
    c->server = NULL;
    struct server_options options = {.listen = STR("127.0.0.1:0")};
    options.engine.store.timeout_ms = 200;
    http_open(c, &options);
    submit(c, "");
    assert_string_equal(figure_on(c, page(c), "pawl_events_total"), "1");

    on_server(http_phrase(c, "ALTER DATABASE \"%s\" ALLOW_CONNECTIONS false", database));
    on_server(http_phrase(c,
                          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                          " WHERE datname = '%s'",
                          database));
    reply_refuses(http_call(c, "POST", "/v1/jobs", "{\"kind\":\"mail\"}"), 503, "unavailable");
    static const struct figure away[] = {{"pawl_events_total", "1"}};
    int64_t began = http_now();
    const char *text = page_with(c, away, 1);
    assert_true(http_now() - began < 5000);
    while (strstr(text, "pawl_store_up 0\n") == NULL && http_now() - began < 10000)
        text = page(c);
    assert_non_null(strstr(text, "pawl_store_up 0\n"));
    assert_true(total(text, "pawl_store_errors_total") > 0);
    assert_null(strstr(text, "pawl_queue_jobs{"));
    assert_null(strstr(text, "pawl_workers "));

    /* And when it is back, so are its figures. */
    on_server(http_phrase(c, "ALTER DATABASE \"%s\" ALLOW_CONNECTIONS true", database));
    static const struct figure back[] = {
        {"pawl_queue_jobs{queue=\"default\",state=\"queued\"}", "1"}};
    page_with(c, back, 1);
}

/* ---- who may read ---- */

static void with_tokens_the_page_needs_one_that_reads(void **state)
{
    static const char admin[] = "pawl_admin_0123456789012345678901234567890123456789";
    struct http_case *c = *state;
    server_close(c->server);
    c->server = NULL;
    struct server_options options = {.listen = STR("127.0.0.1:0"), .admin_token = str_from(admin)};
    options.engine.store.create = true;
    http_open(c, &options);
    const char *bearer = http_phrase(c, "Authorization: Bearer %s\r\n", admin);
    struct reply *reply = http_with(c, "GET", "/metrics", bearer, NULL, 0);
    reply_is(reply, 200);
    reply = http_with(c, "GET", "/metrics", "Authorization: Bearer pawl_no\r\n", NULL, 0);
    assert_int_equal(reply->status, 401);
    static const char *const scopes[] = {"read", "submit", "work"};
    for (size_t i = 0; i < 3; i++) {
        const char *headers = http_phrase(c, "%sContent-Type: application/json\r\n", bearer);
        const char *body =
            http_phrase(c, "{\"name\":\"%s\",\"scopes\":[\"%s\"]}", scopes[i], scopes[i]);
        reply = http_with(c, "POST", "/v1/tokens", headers, body, strlen(body));
        assert_true(reply->status == 200 || reply->status == 201);
        const char *own =
            http_phrase(c, "Authorization: Bearer %s\r\n", reply_text(c, reply, "token"));
        reply = http_with(c, "GET", "/metrics", own, NULL, 0);
        assert_int_equal(reply->status, i == 0 ? 200 : 403);
    }
}

#define ON_POSTGRES(test)                                                                          \
    {                                                                                              \
#test, test, http_setup, http_teardown, (void *)(uintptr_t)TEST_POSTGRES                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_EVERY_STORE(what_happened_to_jobs_is_counted_exactly),
        HTTP_ON_EVERY_STORE(what_happened_to_steps_is_counted_exactly),
        HTTP_ON_EVERY_STORE(a_step_that_is_given_back_is_no_retry),
        HTTP_ON_EVERY_STORE(a_resource_that_rests_is_counted),
        HTTP_ON_MEMORY(a_step_whose_lease_is_lost_is_counted_once),
        HTTP_ON_MEMORY(the_figures_agree_with_the_histories),
        HTTP_ON_MEMORY(a_history_that_is_imported_is_not_counted),
        HTTP_ON_EVERY_STORE(names_of_users_cannot_break_the_page),
        HTTP_ON_MEMORY(the_labels_are_bounded),
        HTTP_ON_MEMORY(the_page_has_every_metric_of_the_list),
        HTTP_ON_MEMORY(open_streams_and_waiting_requests_are_gauged),
        ON_POSTGRES(without_the_store_the_counters_are_still_told),
        HTTP_ON_MEMORY(with_tokens_the_page_needs_one_that_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
