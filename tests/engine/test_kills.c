/* kill -9, over and over: of those who submit, of those who work, of whoever owns the file at the
 * moment. What was acknowledged is there, what was completed is not run again, an effect that was
 * committed is not executed again, and every history is right.
 *
 * Each process writes what it was told into a log, one line a fact, after it was told:
 *
 *   S id            a job was acknowledged
 *   R id attempt    it runs
 *   E id attempt    its effect is executed
 *   C id attempt    the effect's commit was acknowledged
 *   D id attempt    its completion was
 *
 * 20 rounds of killing; TORTURE=1: 500. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pawl.h"
#include "store/test_stores.h"

enum {
    PRODUCERS = 2,
    WORKERS = 3,
    PROCESSES = PRODUCERS + WORKERS,
    ROUNDS = 20,
    LINE_MAX_LEN = 80
};

struct massacre {
    char url[1100];
    char lock[1100]; /* names the owner of a SQLite file; empty: there is none */
    int log;
    unsigned seed;
    pid_t processes[PROCESSES];
};

static unsigned next_number(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void note(int log, const char *fact, const char *id, long long attempt)
{
    char line[LINE_MAX_LEN];
    int len = snprintf(line, sizeof line, "%s %s %lld\n", fact, id, attempt);
    if (len < 0 || write(log, line, (size_t)len) != len)
        _exit(3);
}

static struct pawl *open_store(const char *url)
{
    struct pawl_options options = {.create = 1, .actor = "test"};
    struct pawl_error error = {0};
    struct pawl *pawl = NULL;
    if (pawl_open(url, &options, &pawl, &error) != PAWL_OK) {
        fprintf(stderr, "open: %s\n", error.message);
        _exit(4);
    }
    return pawl;
}

/* ---- those who are killed ---- */

static _Noreturn void produce(const char *url, int log)
{
    struct pawl *pawl = open_store(url);
    for (;;) {
        char *answer;
        if (pawl_submit(pawl,
                        "{\"jobs\":[{\"kind\":\"k\",\"in_doubt\":\"retry\",\"retry\":{"
                        "\"max_attempts\":1000,\"initial_ms\":1,\"max_ms\":10}},"
                        "{\"kind\":\"k\",\"in_doubt\":\"retry\",\"retry\":{"
                        "\"max_attempts\":1000,\"initial_ms\":1,\"max_ms\":10}}]}",
                        &answer, NULL) != PAWL_OK)
            continue;
        struct pawl_json jobs = pawl_json_get(pawl_json_read(answer), "jobs");
        struct pawl_json job = {0};
        while (pawl_json_next(jobs, &job, NULL)) {
            char *id = pawl_json_text(pawl_json_get(job, "id"));
            note(log, "S", id, 0);
            pawl_free(id);
        }
        pawl_free(answer);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static enum pawl_code call(enum pawl_code (*verb)(struct pawl *, const char *, char **,
                                                  struct pawl_error *),
                           struct pawl *pawl, const char *token, const char *rest, char **ret)
{
    char request[512];
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\"%s}", token, rest);
    return verb(pawl, request, ret, NULL);
}

/* One claim, from its effect to its end. */
static void carry_out(struct pawl *pawl, struct pawl_json claim, int log)
{
    char *id = pawl_json_text(pawl_json_get(claim, "job.id"));
    char *token = pawl_json_text(pawl_json_get(claim, "lease.token"));
    long long attempt = pawl_json_int(pawl_json_get(claim, "lease.attempt"), 0);
    char *answer = NULL;
    note(log, "R", id, attempt);
    if (call(pawl_effect_begin, pawl, token, ",\"key\":\"e\"", &answer) == PAWL_OK) {
        bool execute = pawl_json_is(pawl_json_get(pawl_json_read(answer), "status"), "execute");
        pawl_free(answer);
        if (execute)
            note(log, "E", id, attempt);
        if (!execute ||
            call(pawl_effect_commit, pawl, token, ",\"key\":\"e\"", &answer) == PAWL_OK) {
            if (execute) {
                pawl_free(answer);
                note(log, "C", id, attempt);
            }
            if (call(pawl_complete, pawl, token, "", &answer) == PAWL_OK) {
                pawl_free(answer);
                note(log, "D", id, attempt);
            }
        }
    }
    pawl_free(id);
    pawl_free(token);
}

/* How many jobs were carried out. */
static int work_once(struct pawl *pawl, int log)
{
    char *answer;
    int count = 0;
    if (pawl_claim(pawl, "{\"worker_id\":\"w\",\"max\":3,\"lease_ttl_ms\":400,\"wait_ms\":500}",
                   &answer, NULL) != PAWL_OK)
        return 0;
    struct pawl_json claims = pawl_json_get(pawl_json_read(answer), "claims");
    struct pawl_json claim = {0};
    for (; pawl_json_next(claims, &claim, NULL); count++)
        carry_out(pawl, claim, log);
    pawl_free(answer);
    return count;
}

static _Noreturn void work(const char *url, int log)
{
    struct pawl *pawl = open_store(url);
    for (;;)
        (void)work_once(pawl, log);
}

static void start(struct massacre *m, int which)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (which < PRODUCERS)
            produce(m->url, m->log);
        work(m->url, m->log);
    }
    m->processes[which] = pid;
}

static void kill_one(struct massacre *m, int which)
{
    int status;
    (void)kill(m->processes[which], SIGKILL);
    assert_int_equal(waitpid(m->processes[which], &status, 0), m->processes[which]);
    /* A process that ended by itself has found something wrong. */
    assert_true(WIFSIGNALED(status));
    m->processes[which] = 0;
}

/* The process that owns the file at the moment, or any. */
static int pick(struct massacre *m, bool owner)
{
    int which = (int)(next_number(&m->seed) % PROCESSES);
    FILE *file = owner && m->lock[0] != '\0' ? fopen(m->lock, "r") : NULL;
    long pid = 0;
    if (file == NULL)
        return which;
    char text[32] = "";
    if (fgets(text, sizeof text, file) != NULL)
        pid = strtol(text, NULL, 10);
    (void)fclose(file);
    for (int i = 0; i < PROCESSES; i++)
        if (m->processes[i] == (pid_t)pid)
            which = i;
    return which;
}

/* ---- what must be true afterwards ---- */

struct fate {
    char id[40];
    bool submitted;
    long long done;      /* attempt of the acknowledged completion; 0: none */
    long long committed; /* of the effect's commit */
};

struct fates {
    struct fate *at;
    size_t count;
    size_t cap;
};

static struct fate *fate_of(struct fates *fates, const char *id)
{
    for (size_t i = fates->count; i-- > 0;)
        if (strcmp(fates->at[i].id, id) == 0)
            return &fates->at[i];
    if (fates->count == fates->cap) {
        fates->cap = fates->cap == 0 ? 1024 : fates->cap * 2;
        fates->at = realloc(fates->at, fates->cap * sizeof *fates->at);
        assert_non_null(fates->at);
    }
    struct fate *fate = &fates->at[fates->count++];
    *fate = (struct fate){0};
    (void)snprintf(fate->id, sizeof fate->id, "%s", id);
    return fate;
}

/* Reads the log in its order: nothing that was acknowledged as over may begin again. */
static void read_log(int log, struct fates *fates)
{
    FILE *file = fdopen(dup(log), "r");
    char line[LINE_MAX_LEN];
    assert_non_null(file);
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char fact[2];
        char id[40];
        char attempt_text[24];
        assert_int_equal(sscanf(line, "%1s %39s %23s", fact, id, attempt_text), 3);
        long long attempt = strtoll(attempt_text, NULL, 10);
        struct fate *fate = fate_of(fates, id);
        /* An earlier attempt may be late to say that it ran. */
        if (fact[0] == 'R' && fate->done > 0 && attempt > fate->done)
            fail_msg("%s was completed in attempt %lld and ran again: %lld", id, fate->done,
                     attempt);
        if (fact[0] == 'E' && fate->committed > 0 && attempt > fate->committed)
            fail_msg("the effect of %s was committed in attempt %lld and executed again: %lld", id,
                     fate->committed, attempt);
        fate->submitted = fate->submitted || fact[0] == 'S';
        if (fact[0] == 'D')
            fate->done = attempt;
        if (fact[0] == 'C')
            fate->committed = attempt;
    }
    (void)fclose(file);
}

static void check_job(struct pawl *pawl, const struct fate *fate)
{
    char request[80];
    char *answer = NULL;
    struct pawl_error error = {0};
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", fate->id);
    if (pawl_verify(pawl, request, &answer, &error) != PAWL_OK)
        fail_msg("%s: %s", fate->id, error.message);
    struct pawl_json report = pawl_json_read(answer);
    if (!pawl_json_true(pawl_json_get(report, "ok")) ||
        !pawl_json_is(pawl_json_get(report, "status"), "completed"))
        fail_msg("%s: %s", fate->id, answer);
    pawl_free(answer);
}

static bool unfinished(struct pawl *pawl)
{
    char *answer = NULL;
    struct pawl_error error = {0};
    if (pawl_list(pawl, "{\"status\":\"queued,leased,running,retrying\",\"limit\":1}", &answer,
                  &error) != PAWL_OK)
        fail_msg("%s", error.message);
    bool any = pawl_json_get(pawl_json_read(answer), "jobs.0").at != NULL;
    pawl_free(answer);
    return any;
}

static void massacre(enum test_store sort)
{
    struct test_stores stores;
    struct massacre m = {.seed = 7};
    struct fates fates = {0};
    char log_path[] = "/tmp/pawl-kills-XXXXXX";
    int rounds = getenv("TORTURE") != NULL ? 500 : ROUNDS;
    size_t submitted = 0;
    size_t done = 0;
    test_stores_init(&stores);
    (void)snprintf(m.url, sizeof m.url, "%s", test_stores_fresh(&stores, sort));
    if (sort == TEST_SQLITE)
        (void)snprintf(m.lock, sizeof m.lock, "%.1000s.lock", m.url + strlen("sqlite:"));
    int made = mkstemp(log_path);
    assert_true(made >= 0);
    m.log = open(log_path, O_RDWR | O_APPEND | O_CLOEXEC);
    assert_true(m.log >= 0);
    assert_int_equal(unlink(log_path), 0);
    (void)close(made);

    /* On a busy machine setting a store up takes longer than most of them live. */
    pawl_close(open_store(m.url));
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < PROCESSES; i++)
            if (m.processes[i] == 0)
                start(&m, i);
        long ms = 40 + (long)(next_number(&m.seed) % 100);
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        kill_one(&m, pick(&m, round % 2 == 0));
    }
    for (int i = 0; i < PROCESSES; i++)
        if (m.processes[i] != 0)
            kill_one(&m, i);

    struct pawl *pawl = open_store(m.url);
    for (int idle = 0; idle < 60 && unfinished(pawl); idle++)
        while (work_once(pawl, m.log) > 0)
            idle = 0;
    assert_false(unfinished(pawl));
    read_log(m.log, &fates);
    for (size_t i = 0; i < fates.count; i++) {
        submitted += fates.at[i].submitted;
        done += fates.at[i].done > 0;
        check_job(pawl, &fates.at[i]);
    }
    print_message("%s: %d kills, %zu jobs acknowledged, %zu completions, all histories right\n",
                  test_store_names[sort], rounds, submitted, done);
    assert_true(submitted > 0 && done > 0);
    pawl_close(pawl);
    free(fates.at);
    (void)close(m.log);
    test_stores_release(&stores);
}

static void kill_9_loses_and_repeats_nothing_on_sqlite(void **state)
{
    (void)state;
    massacre(TEST_SQLITE);
}

static void kill_9_loses_and_repeats_nothing_on_postgres(void **state)
{
    (void)state;
    massacre(TEST_POSTGRES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_9_loses_and_repeats_nothing_on_sqlite),
        cmocka_unit_test(kill_9_loses_and_repeats_nothing_on_postgres),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
