/* Many workers over HTTP at once: no job is given out twice, and every history is exactly what
 * happened. 1,000 jobs on each store; TORTURE=1: 20,000. (test_three_servers.py has several
 * servers.) */
#define _GNU_SOURCE /* NOLINT: memmem */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "pawl.h"
#include "server/http_case.h"

enum {
    CLAIMERS = 64,
    JOBS = 1000,
    JOBS_LONG = 20000,
    ANSWER_MAX = 64 * 1024,
};

struct storm {
    int jobs;
    atomic_int done;
    atomic_int failed; /* things that must not happen */
};

struct taker {
    struct storm *storm;
    uint16_t port;
    int number;
    int fd;
    char answer[ANSWER_MAX];
};

/* One request on a connection that stays; the body of the answer, or NULL. */
static const char *exchange(struct taker *taker, const char *path, const char *body)
{
    char request[1024];
    size_t len = 0;
    int request_len = snprintf(request, sizeof request,
                               "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                               path, strlen(body), body);
    if (!http_send(taker->fd, request, (size_t)request_len))
        return NULL;
    for (;;) {
        ssize_t got = recv(taker->fd, taker->answer + len, ANSWER_MAX - 1 - len, 0);
        if (got <= 0)
            return NULL;
        len += (size_t)got;
        taker->answer[len] = '\0';
        char *end = strstr(taker->answer, "\r\n\r\n");
        const char *length = strstr(taker->answer, "Content-Length: ");
        if (end == NULL || length == NULL || length > end)
            continue;
        size_t body_len = strtoul(length + strlen("Content-Length: "), NULL, 10);
        if (len == (size_t)(end + 4 - taker->answer) + body_len)
            return strncmp(taker->answer, "HTTP/1.1 200", 12) == 0 ? end + 4 : NULL;
    }
}

static void *work(void *arg)
{
    struct taker *taker = arg;
    struct storm *storm = taker->storm;
    taker->fd = http_connect(taker->port);
    while (taker->fd >= 0 && atomic_load(&storm->done) < storm->jobs &&
           atomic_load(&storm->failed) == 0) {
        char body[128];
        char path[256];
        (void)snprintf(body, sizeof body, "{\"worker_id\":\"w%d\",\"wait_ms\":300}", taker->number);
        const char *answer = exchange(taker, "/v1/claims", body);
        struct pawl_json claims =
            pawl_json_get(pawl_json_read(answer == NULL ? "" : answer), "claims");
        struct pawl_json claim = pawl_json_get(claims, "0");
        if (pawl_json_type(claims) != 'a' ||
            (claim.at != NULL && pawl_json_int(pawl_json_get(claim, "lease.attempt"), 0) != 1)) {
            (void)atomic_fetch_add(&storm->failed, 1);
            break;
        }
        if (claim.at == NULL)
            continue;
        char *token = pawl_json_text(pawl_json_get(claim, "lease.token"));
        (void)snprintf(path, sizeof path, "/v1/leases/%s/complete", token);
        pawl_free(token);
        if (exchange(taker, path, "{\"result\":true}") == NULL)
            (void)atomic_fetch_add(&storm->failed, 1);
        else
            (void)atomic_fetch_add(&storm->done, 1);
    }
    if (taker->fd >= 0)
        (void)close(taker->fd);
    else
        (void)atomic_fetch_add(&storm->failed, 1);
    return NULL;
}

static void submit_all(struct http_case *c, int jobs)
{
    enum { AT_ONCE = 100 };
    char body[AT_ONCE * 32];
    size_t len = (size_t)snprintf(body, sizeof body, "{\"jobs\":[");
    for (int i = 0; i < AT_ONCE; i++)
        len += (size_t)snprintf(body + len, sizeof body - len, "%s{\"kind\":\"k\"}",
                                i == 0 ? "" : ",");
    (void)snprintf(body + len, sizeof body - len, "]}");
    for (int i = 0; i < jobs / AT_ONCE; i++)
        reply_is(http_call(c, "POST", "/v1/jobs", "%s", body), 201);
}

/* What the history of a job that went well has, and nothing else. */
static const char *const life[] = {"job_created", "job_leased", "job_running", "job_completed"};

/* Its history is that, told by one worker, and the checker finds nothing wrong with it. */
static void check_job(struct http_case *c, struct pawl_json job)
{
    enum { LIFE = sizeof life / sizeof life[0] };
    char *id = pawl_json_text(pawl_json_get(job, "id"));
    assert_int_equal(pawl_json_int(pawl_json_get(job, "version"), 0), LIFE);
    assert_int_equal(pawl_json_int(pawl_json_get(job, "attempt"), 0), 1);
    struct reply *reply = http_call(c, "GET", http_phrase(c, "/v1/jobs/%s/events", id), NULL);
    reply_is(reply, 200);
    struct pawl_json events = pawl_json_get(pawl_json_read(reply->body), "events");
    struct pawl_json event = {0};
    size_t count = 0;
    for (; pawl_json_next(events, &event, NULL); count++) {
        if (count >= LIFE || !pawl_json_is(pawl_json_get(event, "type"), life[count]))
            fail_msg("%s has another history: %s", id, reply->body);
        assert_int_equal(pawl_json_int(pawl_json_get(event, "version"), 0), count + 1);
    }
    assert_int_equal(count, LIFE);
    assert_string_equal(reply_text(c, reply, "events.1.actor"),
                        reply_text(c, reply, "events.3.actor"));
    reply = http_call(c, "GET", http_phrase(c, "/v1/jobs/%s/verify", id), NULL);
    reply_is(reply, 200);
    if (!pawl_json_true(pawl_json_get(pawl_json_read(reply->body), "ok")))
        fail_msg("%s: %s", id, reply->body);
    pawl_free(id);
}

/* All jobs are completed, in the first attempt, with the events of that and no others. */
static void check_jobs(struct http_case *c, int jobs)
{
    int found = 0;
    const char *cursor = "";
    do {
        struct reply *reply = http_call(
            c, "GET",
            http_phrase(c, "/v1/jobs?limit=500%s%s", *cursor != '\0' ? "&cursor=" : "", cursor),
            NULL);
        reply_is(reply, 200);
        struct pawl_json list = pawl_json_get(pawl_json_read(reply->body), "jobs");
        struct pawl_json job = {0};
        for (; pawl_json_next(list, &job, NULL); found++)
            check_job(c, job);
        cursor = reply_text(c, reply, "next_cursor");
    } while (*cursor != '\0');
    assert_int_equal(found, jobs);
}

static void sixty_four_claimers_take_a_thousand_jobs_once_each(void **state)
{
    struct http_case *c = *state;
    struct storm storm = {.jobs = getenv("TORTURE") != NULL ? JOBS_LONG : JOBS};
    pthread_t threads[CLAIMERS];
    struct taker *takers = calloc(CLAIMERS, sizeof *takers);
    assert_non_null(takers);
    for (int i = 0; i < CLAIMERS; i++) {
        takers[i].storm = &storm;
        takers[i].port = c->port;
        takers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &takers[i]), 0);
    }
    submit_all(c, storm.jobs);
    for (int i = 0; i < CLAIMERS; i++)
        (void)pthread_join(threads[i], NULL);
    free(takers);
    assert_int_equal(atomic_load(&storm.failed), 0);
    assert_int_equal(atomic_load(&storm.done), storm.jobs);
    check_jobs(c, storm.jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HTTP_ON_EVERY_STORE(sixty_four_claimers_take_a_thousand_jobs_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
