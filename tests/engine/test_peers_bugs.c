/* Bugs that other job queues have had, as tests that Pawl does not have them. Each is named after
 * the project and the number of its issue, and runs on every store, through pawl.h. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/library_case.h"

#define FIRST_ATTEMPT "job_created job_leased job_running"
#define NEXT_ATTEMPT " job_leased job_running"

static void complete(struct talk *t, const char *token)
{
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    says_text(t, "status", "completed");
}

/* ---- river 1302 --------------------------------------------------------------------------- */

static void river_1302_a_reaper_never_overwrites_a_finished_job(void **state)
{
    static const struct {
        pawl_verb verb;
        const char *more;
        const char *last;
    } ends[] = {
        {pawl_complete, "", "job_completed"},
        {pawl_fail, ",\"error\":{\"class\":\"permanent\",\"message\":\"no\"}", "job_failed"},
        {pawl_fail, ",\"error\":{\"message\":\"no\"},\"retry_after_ms\":3600000", "job_requeued"},
        {pawl_abandon, ",\"reason_code\":\"parse_error\"", "job_dead_lettered"},
        {pawl_wait, ",\"type\":\"signal\",\"correlation_key\":\"k\"", "job_waiting"},
    };
    enum { ENDS = sizeof ends / sizeof ends[0] };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *ids[ENDS];
    const char *exports[ENDS];
    for (int i = 0; i < ENDS; i++) {
        ids[i] = submit_job(t, "");
        does(t, ends[i].verb, "{\"token\":\"%s\"%s}", claim_job(t, "w1"), ends[i].more);
        exports[i] = does(t, pawl_export, "{\"id\":\"%s\"}", ids[i]);
    }
    /* One more lease ends at the same time, to see that the reaper was there. */
    for (int round = 0; round < 2; round++) {
        const char *reaped = submit_job(t, "");
        (void)claim_job(t, "w1");
        pass(c, LEASE_MS + 1);
        trace_becomes(t, reaped, FIRST_ATTEMPT " job_requeued");
        does(t, pawl_cancel, "{\"id\":\"%s\"}", reaped);
    }
    for (int i = 0; i < ENDS; i++) {
        assert_string_equal(does(t, pawl_export, "{\"id\":\"%s\"}", ids[i]), exports[i]);
        trace_is(t, ids[i], phrase(t, FIRST_ATTEMPT " %s", ends[i].last));
        is_sound(t, ids[i]);
    }
}

/* ---- oban 532 ----------------------------------------------------------------------------- */

static void says_nothing_new(struct talk *t, const char *id, const char *token)
{
    const char *before = does(t, pawl_export, "{\"id\":\"%s\"}", id);
    refuses(t, pawl_complete, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_fail, PAWL_STALE_LEASE,
            "{\"token\":\"%s\",\"error\":{\"message\":\"again\"},\"retry_after_ms\":0}", token);
    refuses(t, pawl_release, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_wait, PAWL_STALE_LEASE, "{\"token\":\"%s\",\"type\":\"timer\",\"delay_ms\":1}",
            token);
    refuses(t, pawl_heartbeat, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    refuses(t, pawl_start, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    assert_string_equal(does(t, pawl_export, "{\"id\":\"%s\"}", id), before);
}

static void oban_532_a_late_attempt_never_revives_a_discarded_job(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, ",\"retry\":{\"max_attempts\":2,\"initial_ms\":0}");
    const char *first = claim_job(t, "w1");
    pass(c, LEASE_MS + 1);
    trace_becomes(t, id, FIRST_ATTEMPT " job_requeued");
    const char *second = claim_job(t, "w2");
    pass(c, LEASE_MS + 1);
    trace_becomes(t, id, FIRST_ATTEMPT " job_requeued" NEXT_ATTEMPT " job_dead_lettered");
    says_nothing_new(t, id, first);
    says_nothing_new(t, id, second);
    does(t, pawl_claim, "{\"worker_id\":\"w3\"}");
    assert_string_equal(t->answer, "{\"claims\":[]}");

    /* Nor when an operator has started it anew: that is another epoch. */
    does(t, pawl_requeue, "{\"id\":\"%s\"}", id);
    says_text(t, "epoch", "2");
    says_nothing_new(t, id, second);
    const char *third = claim_job(t, "w3");
    says_nothing_new(t, id, second);
    does(t, pawl_cancel, "{\"id\":\"%s\",\"mode\":\"hard\"}", id);
    says_nothing_new(t, id, third);
    assert_string_equal(status_of(t, id), "cancelled");
    is_sound(t, id);
}

/* ---- queue_classic 320 -------------------------------------------------------------------- */

enum { CLAIM_LIMIT = 7, LIMITED_JOBS = 300, LIMITED_CLAIMERS = 16 };

struct limited {
    struct talk talk;
    atomic_int *claimed;
    int most; /* in one answer */
    int sum;
    enum pawl_code code;
};

static void *claim_up_to_limit(void *argument)
{
    struct limited *limited = argument;
    struct talk *t = &limited->talk;
    while (atomic_load(limited->claimed) < LIMITED_JOBS) {
        limited->code =
            attempt(t, pawl_claim, "{\"worker_id\":\"w\",\"max\":%d,\"wait_ms\":50}", CLAIM_LIMIT);
        if (limited->code != PAWL_OK)
            break;
        struct pawl_json claims = pawl_json_get(pawl_json_read(t->answer), "claims");
        struct pawl_json claim = {0};
        int count = 0;
        while (pawl_json_next(claims, &claim, NULL))
            count++;
        limited->most = count > limited->most ? count : limited->most;
        limited->sum += count;
        (void)atomic_fetch_add(limited->claimed, count);
    }
    return NULL;
}

static void queue_classic_320_a_claim_never_exceeds_its_limit(void **state)
{
    enum { HANDLES = 4, AT_ONCE = 100 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    struct limited limited[LIMITED_CLAIMERS] = {0};
    struct pawl *handles[HANDLES];
    atomic_int claimed;
    atomic_init(&claimed, 0);
    for (int i = 0; i < HANDLES; i++)
        handles[i] = c->sort == TEST_MEMORY || i == 0 ? t->pawl : case_open(c, true);
    const char *jobs = "{\"kind\":\"work\"}";
    for (int i = 1; i < AT_ONCE; i++)
        jobs = phrase(t, "%s,{\"kind\":\"work\"}", jobs);
    for (int i = 0; i < LIMITED_JOBS; i += AT_ONCE)
        does(t, pawl_submit, "{\"jobs\":[%s]}", jobs);
    for (int i = 0; i < LIMITED_CLAIMERS; i++) {
        talk_init(&limited[i].talk, handles[i % HANDLES]);
        limited[i].claimed = &claimed;
    }
    in_threads(LIMITED_CLAIMERS, claim_up_to_limit, limited, sizeof limited[0]);
    int sum = 0;
    for (int i = 0; i < LIMITED_CLAIMERS; i++) {
        assert_int_equal(limited[i].code, PAWL_OK);
        assert_in_range(limited[i].most, 0, CLAIM_LIMIT);
        sum += limited[i].sum;
        talk_release(&limited[i].talk);
    }
    assert_int_equal(sum, LIMITED_JOBS);
    does(t, pawl_stats, "{}");
    says_text(t, "jobs.running", "300");
    for (int i = 1; i < HANDLES && c->sort != TEST_MEMORY; i++)
        pawl_close(handles[i]);
}

/* ---- graphile/worker 254 ------------------------------------------------------------------ */

static void graphile_worker_254_a_job_is_never_locked_for_ever_at_its_last_attempt(void **state)
{
    enum { ATTEMPTS = 3 };
    static const char *const policies[] = {"dead_letter", "fail"};
    static const char *const ends[] = {"dead_lettered", "failed"};
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    for (int policy = 0; policy < 2; policy++) {
        const char *id = submit_job(
            t,
            phrase(t, ",\"retry\":{\"max_attempts\":%d,\"initial_ms\":0,\"on_exhausted\":\"%s\"}",
                   ATTEMPTS, policies[policy]));
        long long version = 1;
        for (int i = 1; i <= ATTEMPTS; i++) {
            (void)claim_job(t, "w1");
            pass(c, LEASE_MS + 1);
            version = wait_for_event(
                t, id, version, i < ATTEMPTS ? "job_requeued" : phrase(t, "job_%s", ends[policy]));
        }
        does(t, pawl_get, "{\"id\":\"%s\"}", id);
        says_text(t, "status", ends[policy]);
        says_text(t, "lease", "");
        says_text(t, "failures", "3");
        says_text(t, "dead_letter.reason_code", policy == 0 ? "exhausted_retries" : "");
        does(t, pawl_workers, "{}");
        says_text(t, "workers.0", "");
        does(t, pawl_requeue, "{\"id\":\"%s\"}", id);
        says_text(t, "status", "queued");
        complete(t, claim_job(t, "w1"));
        is_sound(t, id);
    }
}

/* ---- graphile/worker 449 ------------------------------------------------------------------ */

/* Another process that takes the job when it gets a byte, sends one back, and is killed. */
struct victim {
    pid_t pid;
    int to;
    int from;
};

static void live_and_be_killed(const char *url, int from, int to)
{
    struct pawl_options options = {.create = 1, .actor = "victim"};
    struct pawl *pawl;
    char *answer = NULL;
    char byte = '\0';
    bool well =
        read(from, &byte, 1) == 1 && pawl_open(url, &options, &pawl, NULL) == PAWL_OK &&
        pawl_claim(pawl, "{\"worker_id\":\"victim\",\"lease_ttl_ms\":100,\"wait_ms\":20000}",
                   &answer, NULL) == PAWL_OK &&
        pawl_json_get(pawl_json_read(answer), "claims.0").at != NULL;
    if (well && write(to, &byte, 1) == 1)
        (void)raise(SIGKILL);
    _exit(1);
}

static struct victim make_victim(const char *url)
{
    struct victim victim;
    int to[2];
    int from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    victim.pid = fork();
    assert_true(victim.pid >= 0);
    if (victim.pid == 0) {
        (void)close(to[1]);
        (void)close(from[0]);
        live_and_be_killed(url, to[0], from[1]);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    victim.to = to[1];
    victim.from = from[0];
    return victim;
}

/* Lets it take a job and die. */
static void use_victim(const struct victim *victim)
{
    char byte = 'x';
    int status = 0;
    assert_int_equal(write(victim->to, &byte, 1), 1);
    assert_int_equal(read(victim->from, &byte, 1), 1);
    assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    (void)close(victim->to);
    (void)close(victim->from);
}

/* A store in memory ends with its process. */
static void graphile_worker_449_a_job_is_not_stuck_after_an_unclean_stop(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    /* One is killed as the only process that has the store open, one beside this. */
    struct victim alone = make_victim(c->url);
    struct victim beside = make_victim(c->url);
    t->pawl = case_open(c, false);
    const char *id = submit_job(t, "");
    case_close(c);
    use_victim(&alone);
    t->pawl = case_open(c, false);
    trace_becomes(t, id, FIRST_ATTEMPT " job_requeued");
    use_victim(&beside);
    trace_becomes(t, id, FIRST_ATTEMPT " job_requeued" NEXT_ATTEMPT " job_requeued");
    const char *token = claim_job(t, "w3");
    says_text(t, "claims.0.lease.attempt", "3");
    says_text(t, "claims.0.job.id", id);
    does(t, pawl_complete, "{\"token\":\"%s\"}", token);
    is_sound(t, id);
}

/* ---- oban 1141 ---------------------------------------------------------------------------- */

static void oban_1141_a_live_job_is_never_rescued_by_age_alone(void **state)
{
    enum { HOURS = 48, HOUR_MS = 60 * 60 * 1000, BEATS = 40 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    /* Beat by beat: 3 s at least, 30 times the lease. */
    for (int i = 0; i < BEATS; i++) {
        pass(c, LEASE_MS - 1);
        does(t, pawl_heartbeat, "{\"token\":\"%s\"}", token);
    }
    /* Two days, in which the whole machine sleeps most of the time. */
    for (int i = 0; i < HOURS; i++) {
        pass(c, HOUR_MS);
        does(t, pawl_heartbeat, "{\"token\":\"%s\"}", token);
    }
    /* The reaper has been there since. */
    const char *other = submit_job(t, "");
    (void)claim_job(t, "w2");
    does(t, pawl_heartbeat, "{\"token\":\"%s\"}", token);
    pass(c, LEASE_MS - 1);
    does(t, pawl_heartbeat, "{\"token\":\"%s\"}", token);
    pass(c, 1);
    trace_becomes(t, other, FIRST_ATTEMPT " job_requeued");
    trace_is(t, id, FIRST_ATTEMPT);
    complete(t, token);
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "attempt", "1");
    says_text(t, "failures", "0");
    is_sound(t, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE(river_1302_a_reaper_never_overwrites_a_finished_job),
        ON_EVERY_STORE(oban_532_a_late_attempt_never_revives_a_discarded_job),
        ON_EVERY_STORE(queue_classic_320_a_claim_never_exceeds_its_limit),
        ON_EVERY_STORE(graphile_worker_254_a_job_is_never_locked_for_ever_at_its_last_attempt),
        CASE_ON("sqlite", TEST_SQLITE, graphile_worker_449_a_job_is_not_stuck_after_an_unclean_stop,
                case_setup_bare),
        CASE_ON("postgres", TEST_POSTGRES,
                graphile_worker_449_a_job_is_not_stuck_after_an_unclean_stop, case_setup_bare),
        ON_EVERY_STORE(oban_1141_a_live_job_is_never_rescued_by_age_alone),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
