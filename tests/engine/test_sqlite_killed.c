/* A SQLite store whose owner was killed, and what is in its files. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pawl.h"

enum { ANSWERS_MAX = 64 };

static char *answers[ANSWERS_MAX];
static int answer_count;

struct spot {
    char directory[64];
    char path[96];
    char url[128];
};

static int spot_setup(void **state)
{
    struct spot *spot = calloc(1, sizeof *spot);
    if (spot == NULL)
        return -1;
    (void)snprintf(spot->directory, sizeof spot->directory, "/tmp/pawl-killed-XXXXXX");
    if (mkdtemp(spot->directory) == NULL)
        return -1;
    (void)snprintf(spot->path, sizeof spot->path, "%s/jobs.db", spot->directory);
    (void)snprintf(spot->url, sizeof spot->url, "sqlite:%s", spot->path);
    *state = spot;
    return 0;
}

static const char *beside(const struct spot *spot, const char *suffix)
{
    static char path[160];
    (void)snprintf(path, sizeof path, "%s%s", spot->path, suffix);
    return path;
}

static int spot_teardown(void **state)
{
    static const char *const suffixes[] = {"", ".lock", ".sock", "-wal", "-shm"};
    struct spot *spot = *state;
    while (answer_count > 0)
        pawl_free(answers[--answer_count]);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        (void)unlink(beside(spot, suffixes[i]));
    (void)rmdir(spot->directory);
    free(spot);
    return 0;
}

static struct pawl *open_store(const struct spot *spot)
{
    struct pawl_options options = {.create = 1};
    struct pawl_error error = {0};
    struct pawl *pawl = NULL;
    if (pawl_open(spot->url, &options, &pawl, &error) != PAWL_OK)
        fail_msg("%s", error.message);
    return pawl;
}

typedef enum pawl_code verb(struct pawl *pawl, const char *request, char **ret_answer,
                            struct pawl_error *error);

/* Asks what must go well; the answer lives as long as the test. */
__attribute__((format(printf, 3, 4))) static const char *well(struct pawl *pawl, verb *ask,
                                                              const char *format, ...)
{
    char request[2048];
    char *answer = NULL;
    struct pawl_error error = {0};
    va_list args;
    va_start(args, format);
    (void)vsnprintf(request, sizeof request, format, args);
    va_end(args);
    if (ask(pawl, request, &answer, &error) != PAWL_OK)
        fail_msg("%s: %s", request, error.message);
    assert_true(answer_count < ANSWERS_MAX);
    answers[answer_count++] = answer;
    return answer;
}

/* What an answer says behind the nth `"name":`, as it is written up to a comma or brace. */
static const char *said(const char *answer, const char *name, int nth)
{
    static char value[8][256];
    static int next;
    char *text = value[next++ % 8];
    char member[64];
    (void)snprintf(member, sizeof member, "\"%s\":", name);
    const char *at = answer;
    for (int i = 0; i <= nth; i++) {
        at = strstr(at, member);
        if (at == NULL)
            fail_msg("%s does not say %s", answer, name);
        at += strlen(member);
    }
    at += *at == '"';
    (void)snprintf(text, 256, "%.*s", (int)strcspn(at, "\",}]"), at);
    return text;
}

/* Runs `live` in a process of its own that ends without closing anything. */
static void in_killed_process(const struct spot *spot, void (*live)(struct pawl *pawl, FILE *notes),
                              FILE *notes)
{
    int status;
    (void)fflush(notes);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        live(open_store(spot), notes);
        (void)fflush(notes);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    rewind(notes);
}

static long size_of(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (long)status.st_size : -1;
}

static void live_a_little(struct pawl *pawl, FILE *notes)
{
    well(pawl, pawl_submit, "{\"kind\":\"k\",\"goal\":\"early\"}");
    const char *claimed = well(pawl, pawl_claim, "{\"worker_id\":\"w\"}");
    well(pawl, pawl_complete, "{\"token\":\"%s\"}", said(claimed, "token", 0));
    well(pawl, pawl_submit, "{\"kind\":\"k\",\"goal\":\"low\",\"priority\":1}");
    well(pawl, pawl_submit, "{\"kind\":\"k\",\"goal\":\"high\",\"priority\":2}");
    well(pawl, pawl_submit, "{\"kind\":\"k\",\"goal\":\"later\",\"delay_ms\":3600000}");
    well(pawl, pawl_submit,
         "{\"kind\":\"k\",\"goal\":\"keyed\",\"idempotency_key\":\"once\",\"payload\":1.10}");
    claimed = well(pawl, pawl_claim, "{\"worker_id\":\"w\"}");
    (void)fprintf(notes, "%s", said(claimed, "token", 0));
}

static void what_a_killed_process_committed_is_there_and_goes_on(void **state)
{
    const struct spot *spot = *state;
    FILE *notes = tmpfile();
    char token[256] = "";
    assert_non_null(notes);
    in_killed_process(spot, live_a_little, notes);
    assert_non_null(fgets(token, sizeof token, notes));
    assert_true(size_of(beside(spot, "-wal")) > 0);

    struct pawl *pawl = open_store(spot);
    const char *all = well(pawl, pawl_list, "{}");
    assert_string_equal(said(all, "goal", 0), "keyed");
    assert_string_equal(said(all, "goal", 4), "early");
    assert_string_equal(said(all, "status", 4), "completed");
    for (int i = 0; i < 5; i++)
        assert_string_equal(
            said(well(pawl, pawl_verify, "{\"id\":\"%s\"}", said(all, "id", i)), "ok", 0), "true");
    /* The key is known, the lease is live, and work comes in its order. */
    assert_string_equal(
        said(well(pawl, pawl_submit,
                  "{\"kind\":\"k\",\"idempotency_key\":\"once\",\"payload\":1.1,\"goal\":\"no\"}"),
             "duplicate", 0),
        "true");
    const char *done = well(pawl, pawl_complete, "{\"token\":\"%s\"}", token);
    assert_string_equal(
        said(well(pawl, pawl_get, "{\"id\":\"%s\"}", said(done, "id", 0)), "goal", 0), "high");
    const char *claimed = well(pawl, pawl_claim, "{\"worker_id\":\"w\",\"max\":9}");
    assert_string_equal(said(claimed, "goal", 0), "low");
    assert_string_equal(said(claimed, "goal", 1), "keyed");
    assert_null(strstr(claimed, "later"));
    pawl_close(pawl);
    assert_int_equal(size_of(beside(spot, "-wal")), -1);
    (void)fclose(notes);
}

static bool file_has(const char *path, const char *text)
{
    char command[512];
    (void)snprintf(command, sizeof command, "grep -q '%s' '%s'", text, path);
    return system(command) == 0; /* NOLINT: a path of this test */
}

static void what_is_redacted_is_in_the_log_no_more(void **state)
{
    const struct spot *spot = *state;
    struct pawl *pawl = open_store(spot);
    for (int i = 0; i < 2; i++)
        well(pawl, pawl_submit, "{\"kind\":\"k\",\"payload\":\"a secret\"}");
    assert_true(file_has(beside(spot, "-wal"), "a secret"));
    const char *claimed = well(pawl, pawl_claim, "{\"worker_id\":\"w\",\"max\":2}");
    for (int i = 0; i < 2; i++) {
        well(pawl, pawl_complete, "{\"token\":\"%s\"}", said(claimed, "token", i));
        well(pawl, pawl_redact, "{\"id\":\"%s\"}", said(claimed, "id", i));
    }
    assert_false(file_has(beside(spot, "-wal"), "a secret"));
    pawl_close(pawl);
    assert_false(file_has(spot->path, "a secret"));
}

/* ---- while others read ---- */

static atomic_bool is_over;

static void *list_always(void *pawl)
{
    while (!atomic_load(&is_over)) {
        char *answer = NULL;
        struct pawl_error error;
        if (pawl_list(pawl, "{\"limit\":1}", &answer, &error) == PAWL_OK)
            pawl_free(answer);
    }
    return NULL;
}

static void a_key_is_known_as_soon_as_its_job_is_submitted(void **state)
{
    enum { KEYS = 1000, REPEATS = 3 };
    struct pawl *pawl = open_store(*state);
    pthread_t lister;
    int unknown = 0;
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&lister, NULL, list_always, pawl), 0);
    for (int i = 0; i < KEYS * (1 + REPEATS); i++) {
        char request[96];
        char *answer = NULL;
        struct pawl_error error = {0};
        (void)snprintf(request, sizeof request, "{\"kind\":\"k\",\"idempotency_key\":\"%d\"}",
                       i / (1 + REPEATS));
        bool is_new = i % (1 + REPEATS) == 0;
        unknown += pawl_submit(pawl, request, &answer, &error) != PAWL_OK ||
                   (strstr(answer, "\"duplicate\":true") != NULL) == is_new;
        pawl_free(answer);
    }
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(lister, NULL), 0);
    pawl_close(pawl);
    assert_int_equal(unknown, 0);
}

int main(void)
{
#define IN_SPOT(test) cmocka_unit_test_setup_teardown(test, spot_setup, spot_teardown)
    const struct CMUnitTest tests[] = {
        IN_SPOT(what_a_killed_process_committed_is_there_and_goes_on),
        IN_SPOT(what_is_redacted_is_in_the_log_no_more),
        IN_SPOT(a_key_is_known_as_soon_as_its_job_is_submitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
