/* How much memory a process needs: flat however many jobs go through it, and so many bytes for each
 * job that waits in a store in memory.
 *
 * 50,000 jobs; TORTURE=1: a million. SQLite's page cache is full after some 40,000, and stays so.
 */
#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pawl.h"
#include "store/test_stores.h"

enum { BATCH = 500, SAMPLE = 4 * BATCH, GROWTH_KIB_MAX = 6 * 1024, WAITING_BYTES_MAX = 4096 };

static long jobs_wanted(void)
{
    return getenv("TORTURE") != NULL ? 1000 * 1000 : 50 * 1000;
}

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    char line[128] = "";
    char *rest = line;
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    (void)strtol(rest, &rest, 10);
    return strtol(rest, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A list of BATCH jobs with payloads of 200 bytes. */
static char *submission(void)
{
    char payload[201];
    size_t room = BATCH * 300;
    char *text = malloc(room);
    assert_non_null(text);
    memset(payload, 'x', 200);
    payload[200] = '\0';
    size_t len = (size_t)snprintf(text, room, "{\"jobs\":[");
    for (int i = 0; i < BATCH; i++)
        len += (size_t)snprintf(text + len, room - len, "%s{\"kind\":\"k\",\"payload\":\"%s\"}",
                                i == 0 ? "" : ",", payload);
    (void)snprintf(text + len, room - len, "]}");
    return text;
}

static void must(enum pawl_code code, const struct pawl_error *error)
{
    if (code != PAWL_OK)
        fail_msg("%s", error->message);
}

static void submit(struct pawl *pawl, const char *jobs)
{
    struct pawl_error error = {0};
    char *answer = NULL;
    must(pawl_submit(pawl, jobs, &answer, &error), &error);
    pawl_free(answer);
}

static void finish(struct pawl *pawl)
{
    struct pawl_error error = {0};
    char *claims = NULL;
    char *answer = NULL;
    size_t room = BATCH * 200;
    char *request = malloc(room);
    assert_non_null(request);
    must(pawl_claim(pawl, "{\"worker_id\":\"w\",\"max\":500}", &claims, &error), &error);
    size_t len = (size_t)snprintf(request, room, "{\"ops\":[");
    struct pawl_json list = pawl_json_get(pawl_json_read(claims), "claims");
    struct pawl_json claim = {0};
    int count = 0;
    for (; pawl_json_next(list, &claim, NULL); count++) {
        struct pawl_json token = pawl_json_get(claim, "lease.token");
        len += (size_t)snprintf(request + len, room - len, "%s{\"op\":\"complete\",\"token\":%.*s}",
                                count == 0 ? "" : ",", (int)token.len, token.at);
    }
    (void)snprintf(request + len, room - len, "]}");
    assert_int_equal(count, BATCH);
    must(pawl_batch(pawl, request, &answer, &error), &error);
    assert_null(strstr(answer, "\"detail\""));
    pawl_free(claims);
    pawl_free(answer);
    free(request);
}

static struct pawl *open_fresh(struct test_stores *stores, enum test_store sort)
{
    struct pawl_options options = {.create = 1};
    struct pawl_error error = {0};
    struct pawl *pawl = NULL;
    test_stores_init(stores);
    must(pawl_open(test_stores_fresh(stores, sort), &options, &pawl, &error), &error);
    return pawl;
}

/* What is resident when nothing is on its way: what was committed is in the database (which any
 * setting has to wait for), and freed memory is the system's again. */
static long at_rest_kib(struct pawl *pawl)
{
    struct pawl_error error = {0};
    char *answer = NULL;
    must(pawl_resume(pawl, "{\"queue\":\"none\"}", &answer, &error), &error);
    pawl_free(answer);
    (void)malloc_trim(0);
    return resident_kib();
}

/* A sanitizer has memory of its own, and keeps what is freed. */
static void skip_if_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
}

/* Generations of a cache come and go: the most that it has ever been counts. */
static void memory_is_flat_however_many_jobs_go_through(void **state)
{
    (void)state;
    skip_if_sanitized();
    struct test_stores stores;
    struct pawl *pawl = open_fresh(&stores, TEST_SQLITE);
    char *jobs = submission();
    long total = jobs_wanted();
    long before = 0;
    long after = 0;
    for (long done = 0; done < total; done += BATCH) {
        submit(pawl, jobs);
        finish(pawl);
        if (done % SAMPLE != 0)
            continue;
        long resident = at_rest_kib(pawl);
        long *most = done < total / 5 * 4 ? &before : &after;
        *most = resident > *most ? resident : *most;
    }
    print_message("%ld jobs: at most %ld KiB resident in the first four fifths, %ld KiB then\n",
                  total, before, after);
    assert_true(before > 0 && after - before < GROWTH_KIB_MAX);
    free(jobs);
    pawl_close(pawl);
    test_stores_release(&stores);
}

static void a_job_that_waits_in_memory_takes_few_bytes(void **state)
{
    (void)state;
    skip_if_sanitized();
    struct test_stores stores;
    struct pawl *pawl = open_fresh(&stores, TEST_MEMORY);
    char *jobs = submission();
    long total = jobs_wanted();
    submit(pawl, jobs);
    long before = resident_kib();
    for (long waiting = 0; waiting < total; waiting += BATCH)
        submit(pawl, jobs);
    long bytes = (resident_kib() - before) * 1024 / total;
    print_message("%ld waiting jobs with payloads of 200 bytes: %ld bytes each\n", total, bytes);
    assert_in_range(bytes, 200, WAITING_BYTES_MAX);
    free(jobs);
    pawl_close(pawl);
    test_stores_release(&stores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_flat_however_many_jobs_go_through),
        cmocka_unit_test(a_job_that_waits_in_memory_takes_few_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
