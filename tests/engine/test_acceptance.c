/* What a job machine must show before anybody relies on it, line by line: nothing goes back under
 * chaos, no job is claimed twice, leases that end put their jobs back, one event for each
 * transition, repeats without effects, dead letters that say why. On every store, through pawl.h.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/library_case.h"

#define FIRST_ATTEMPT "job_created job_leased job_running"
#define NEXT_ATTEMPT " job_leased job_running"

enum { HANDLES = 4, JOBS_MAX = 1000, AT_ONCE = 100 };

/* Several handles on one store; one in memory has but one. */
struct crowd {
    struct pawl *handles[HANDLES];
    const char *ids[JOBS_MAX];
    int count;
};

static void crowd_open(struct library_case *c, struct crowd *crowd, bool own_clock)
{
    *crowd = (struct crowd){.count = 0};
    for (int i = 0; i < HANDLES; i++)
        crowd->handles[i] =
            c->sort == TEST_MEMORY || i == 0 ? c->talk.pawl : case_open(c, own_clock);
}

static void *close_one(void *argument)
{
    pawl_close(*(struct pawl **)argument);
    return NULL;
}

/* All at once, since each may take a while. */
static void crowd_close(struct library_case *c, struct crowd *crowd)
{
    if (c->sort != TEST_MEMORY)
        in_threads(HANDLES - 1, close_one, &crowd->handles[1], sizeof(void *));
}

static void submit_many(struct library_case *c, struct crowd *crowd, int count, const char *job)
{
    struct talk *t = &c->talk;
    while (count > 0) {
        int now = count < AT_ONCE ? count : AT_ONCE;
        const char *jobs = job;
        for (int i = 1; i < now; i++)
            jobs = phrase(t, "%s,%s", jobs, job);
        does(t, pawl_submit, "{\"jobs\":[%s]}", jobs);
        for (int i = 0; i < now; i++)
            crowd->ids[crowd->count++] = text_at(t, phrase(t, "jobs.%d.id", i));
        count -= now;
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Where the job stands in the crowd, once that is sorted; -1: it is not of it. */
static int place_of(const struct crowd *crowd, const char *id)
{
    const char *const *found =
        bsearch(&id, crowd->ids, (size_t)crowd->count, sizeof crowd->ids[0], by_text);
    return found == NULL ? -1 : (int)(found - crowd->ids);
}

/* ---- no backward transitions under chaos -------------------------------------------------- */

enum { CHAOS_WORKERS = 8, CHAOS_JOBS = 200, CHAOS_ACTS = 150, LATE_MAX = 8 };

#define CHAOS_JOB                                                                                  \
    "{\"kind\":\"work\",\"in_doubt\":\"retry\",\"lease_ttl_ms\":100,"                              \
    "\"retry\":{\"max_attempts\":4,\"initial_ms\":0,\"jitter\":\"none\"}}"

struct chaos {
    struct talk talk;
    const struct crowd *crowd;
    uint64_t seed;
    const char *late[LATE_MAX]; /* tokens whose worker had a break */
    int accepted;
    int refused;
    const char *wrong; /* what must not happen and did */
};

/* Says something that may be refused for a good reason, and for no other. */
static bool risk(struct chaos *chaos, pawl_verb verb, const char *request)
{
    switch (attempt(&chaos->talk, verb, "%s", request)) {
    case PAWL_OK:
        chaos->accepted++;
        return true;
    case PAWL_STALE_LEASE:
    case PAWL_INVALID_TRANSITION:
    case PAWL_WRONG_CORRELATION_KEY:
    case PAWL_NOT_FOUND: /* an effect that was not begun */
        chaos->refused++;
        return false;
    default:
        if (chaos->wrong == NULL)
            chaos->wrong = phrase(&chaos->talk, "%s: %s", request, chaos->talk.error.message);
        return false;
    }
}

/* What a worker may say about its job. */
static const struct {
    pawl_verb verb;
    const char *more;
} words[] = {
    {pawl_complete, ""},
    {pawl_complete, ",\"result\":{\"n\":1}"},
    {pawl_start, ""},
    {pawl_heartbeat, ",\"progress\":1,\"cursor\":\"c\""},
    {pawl_fail, ",\"error\":{\"message\":\"try again\"}"},
    {pawl_fail, ",\"error\":{\"message\":\"later\"},\"retry_after_ms\":20"},
    {pawl_fail, ",\"error\":{\"class\":\"permanent\",\"message\":\"never\"}"},
    {pawl_release, ""},
    {pawl_cancelled, ""},
    {pawl_abandon, ",\"reason_code\":\"dependency_unavailable\",\"stage\":\"fetch\""},
    {pawl_wait, ",\"type\":\"signal\",\"correlation_key\":\"k\",\"timeout_ms\":30"},
    {pawl_wait, ",\"type\":\"human\",\"correlation_key\":\"k\",\"park\":true"},
    {pawl_wait, ",\"type\":\"timer\",\"delay_ms\":10"},
    {pawl_effect_begin, ",\"key\":\"e\",\"input\":1"},
    {pawl_effect_commit, ",\"key\":\"e\",\"result\":1"},
    {pawl_effect_commit, ",\"key\":\"e\",\"result\":1,\"next\":{\"key\":\"f\",\"input\":2}"},
};

/* What anybody may do to any job. */
static const struct {
    pawl_verb verb;
    const char *more;
} deeds[] = {
    {pawl_cancel, ""},
    {pawl_cancel, ",\"mode\":\"hard\""},
    {pawl_signal, ",\"correlation_key\":\"k\",\"payload\":1"},
    {pawl_signal, ",\"correlation_key\":\"k\",\"payload\":2,\"early\":true"},
    {pawl_signal, ",\"correlation_key\":\"other\",\"signal_id\":\"s\""},
    {pawl_requeue, ""},
    {pawl_requeue, ",\"fresh\":true"},
    {pawl_requeue, ""},
    {pawl_dead_letter, ",\"reason_code\":\"policy_violation\""},
    {pawl_append, ",\"events\":[{\"type\":\"chaos.was_here\",\"payload\":{}}]"},
};

/* Works on one claim for a while, or dies over it. */
static void work_wildly(struct chaos *chaos, const char *token)
{
    struct talk *t = &chaos->talk;
    int count = 1 + (int)dice(&chaos->seed, 4);
    for (int i = 0; i < count; i++) {
        uint32_t word = dice(&chaos->seed, sizeof words / sizeof words[0]);
        (void)risk(chaos, words[word].verb,
                   phrase(t, "{\"token\":\"%s\"%s}", token, words[word].more));
    }
    chaos->late[dice(&chaos->seed, LATE_MAX)] = token;
}

/* Does something to a job that this worker has nothing to do with. */
static void meddle(struct chaos *chaos)
{
    struct talk *t = &chaos->talk;
    const char *id = chaos->crowd->ids[dice(&chaos->seed, (uint32_t)chaos->crowd->count)];
    uint32_t deed = dice(&chaos->seed, sizeof deeds / sizeof deeds[0]);
    (void)risk(chaos, deeds[deed].verb, phrase(t, "{\"id\":\"%s\"%s}", id, deeds[deed].more));
    /* Everything holds at every moment, not only in the end. */
    if (dice(&chaos->seed, 4) == 0 && risk(chaos, pawl_verify, phrase(t, "{\"id\":\"%s\"}", id)) &&
        strcmp(text_at(t, "ok"), "true") != 0 && chaos->wrong == NULL)
        chaos->wrong = t->answer;
}

static void *make_chaos(void *argument)
{
    struct chaos *chaos = argument;
    struct talk *t = &chaos->talk;
    for (int act = 0; act < CHAOS_ACTS && chaos->wrong == NULL; act++) {
        uint32_t what = dice(&chaos->seed, 10);
        const char *late = chaos->late[dice(&chaos->seed, LATE_MAX)];
        if (what < 3) {
            meddle(chaos);
        } else if (what == 3 && late != NULL) {
            work_wildly(chaos, late);
        } else if (risk(chaos, pawl_claim,
                        phrase(t, "{\"worker_id\":\"w%u\",\"wait_ms\":5,\"start\":%s}",
                               (unsigned)(chaos->seed % 9), what == 4 ? "false" : "true"))) {
            const char *token = text_at(t, "claims.0.lease.token");
            if (*token != '\0')
                work_wildly(chaos, token);
        }
    }
    return NULL;
}

/* Ends what a claim gave out, whatever state the effects of the job are in. */
static void finish(struct talk *t, const char *token)
{
    static const char *const effects[] = {"\"e\",\"input\":1", "\"f\",\"input\":2"};
    for (int i = 0; i < 2; i++) {
        if (attempt(t, pawl_complete, "{\"token\":\"%s\"}", token) != PAWL_INVALID_TRANSITION)
            break;
        does(t, pawl_effect_begin, "{\"token\":\"%s\",\"key\":%s}", token, effects[i]);
        if (strcmp(text_at(t, "status"), "execute") == 0)
            does(t, pawl_effect_commit, "{\"token\":\"%s\",\"key\":\"%c\",\"result\":1}", token,
                 "ef"[i]);
    }
    (void)attempt(t, pawl_complete, "{\"token\":\"%s\"}", token);
}

/* Brings every job to an end. */
static void calm_down(struct talk *t)
{
    for (;;) {
        does(t, pawl_list,
             "{\"status\":\"queued,leased,running,waiting,parked,retrying\","
             "\"limit\":500}");
        const char *left = text_at(t, "jobs.0.id");
        if (*left == '\0')
            return;
        for (int i = 0; *left != '\0'; i++) {
            const char *list = t->answer;
            if (pawl_json_get(pawl_json_read(list), phrase(t, "jobs.%d.wait", i)).at != NULL)
                (void)attempt(t, pawl_signal,
                              "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":3}", left);
            t->answer = list;
            left = text_at(t, phrase(t, "jobs.%d.id", i + 1));
        }
        does(t, pawl_claim,
             "{\"worker_id\":\"last\",\"max\":100,\"lease_ttl_ms\":10000,\"wait_ms\":100}");
        const char *claims = t->answer;
        for (int i = 0;; i++) {
            t->answer = claims;
            const char *token = text_at(t, phrase(t, "claims.%d.lease.token", i));
            if (*token == '\0')
                break;
            finish(t, token);
        }
    }
}

/* Chaos on new jobs, then an end to each, then a look at what is on record. */
static void run_chaos(struct library_case *c, uint64_t seed)
{
    struct crowd crowd;
    struct chaos *chaos = calloc(CHAOS_WORKERS, sizeof *chaos);
    int accepted = 0;
    int refused = 0;
    long long events = 0;
    assert_non_null(chaos);
    crowd_open(c, &crowd, false);
    submit_many(c, &crowd, CHAOS_JOBS, CHAOS_JOB);
    for (int i = 0; i < CHAOS_WORKERS; i++) {
        talk_init(&chaos[i].talk, crowd.handles[i % HANDLES]);
        chaos[i].crowd = &crowd;
        chaos[i].seed = seed * CHAOS_WORKERS + (uint64_t)i;
    }
    in_threads(CHAOS_WORKERS, make_chaos, chaos, sizeof *chaos);
    for (int i = 0; i < CHAOS_WORKERS; i++) {
        if (chaos[i].wrong != NULL)
            fail_msg("%s", chaos[i].wrong);
        accepted += chaos[i].accepted;
        refused += chaos[i].refused;
        talk_release(&chaos[i].talk);
    }
    assert_true(accepted > CHAOS_JOBS && refused > 0);
    calm_down(&c->talk);
    for (int i = 0; i < crowd.count; i++) {
        is_sound(&c->talk, crowd.ids[i]);
        events += int_at(&c->talk, "version");
    }
    print_message("# seed %llu: %d words accepted, %d refused, %lld events\n",
                  (unsigned long long)seed, accepted, refused, events);
    crowd_close(c, &crowd);
    talk_release(&c->talk);
    free(chaos);
}

static void no_job_goes_backward_under_chaos(void **state)
{
    enum { LONG_ROUNDS = 100 };
    struct library_case *c = *state;
    const char *chosen = getenv("PAWL_SEED");
    uint64_t seed = chosen != NULL ? strtoull(chosen, NULL, 10) : 1;
    int rounds = getenv("TORTURE") != NULL ? LONG_ROUNDS : 1;
    for (int i = 0; i < rounds; i++)
        run_chaos(c, seed + (uint64_t)i);
}

/* ---- zero double claims ------------------------------------------------------------------- */

enum { CLAIMERS = 64, CLAIMED_JOBS = 448 };

struct claimer {
    struct talk talk;
    const struct crowd *crowd;
    atomic_int *claims; /* of each job */
    atomic_int *sum;
    enum pawl_code code;
    long long attempt; /* the highest that was given out */
};

static void *claim_all(void *argument)
{
    struct claimer *claimer = argument;
    struct talk *t = &claimer->talk;
    while (atomic_load(claimer->sum) < claimer->crowd->count) {
        claimer->code = attempt(t, pawl_claim, "{\"worker_id\":\"w\",\"wait_ms\":50}");
        if (claimer->code != PAWL_OK)
            break;
        int place = place_of(claimer->crowd, text_at(t, "claims.0.job.id"));
        if (place < 0)
            continue;
        (void)atomic_fetch_add(&claimer->claims[place], 1);
        (void)atomic_fetch_add(claimer->sum, 1);
        long long attempt_number = int_at(t, "claims.0.lease.attempt");
        claimer->attempt = attempt_number > claimer->attempt ? attempt_number : claimer->attempt;
    }
    return NULL;
}

static void sixty_four_claimers_never_get_the_same_job(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    struct crowd crowd;
    struct claimer *claimers = calloc(CLAIMERS, sizeof *claimers);
    atomic_int *claims = calloc(CLAIMED_JOBS, sizeof *claims);
    atomic_int sum;
    assert_true(claimers != NULL && claims != NULL);
    atomic_init(&sum, 0);
    crowd_open(c, &crowd, true);
    submit_many(c, &crowd, CLAIMED_JOBS, "{\"kind\":\"work\"}");
    qsort(crowd.ids, (size_t)crowd.count, sizeof crowd.ids[0], by_text);
    for (int i = 0; i < CLAIMERS; i++) {
        talk_init(&claimers[i].talk, crowd.handles[i % HANDLES]);
        claimers[i].crowd = &crowd;
        claimers[i].claims = claims;
        claimers[i].sum = &sum;
    }
    in_threads(CLAIMERS, claim_all, claimers, sizeof *claimers);
    for (int i = 0; i < CLAIMERS; i++) {
        assert_int_equal(claimers[i].code, PAWL_OK);
        assert_in_range(claimers[i].attempt, 0, 1);
        talk_release(&claimers[i].talk);
    }
    for (int i = 0; i < crowd.count; i++)
        assert_int_equal(claims[i], 1);
    does(t, pawl_stats, "{}");
    assert_int_equal(int_at(t, "jobs.running"), CLAIMED_JOBS);
    assert_int_equal(int_at(t, "leases"), CLAIMED_JOBS);
    for (int i = 0; i < crowd.count; i += 16) {
        trace_is(t, crowd.ids[i], FIRST_ATTEMPT);
        is_sound(t, crowd.ids[i]);
    }
    crowd_close(c, &crowd);
    free(claimers);
    free(claims);
}

static void *claim_once(void *argument)
{
    struct claimer *claimer = argument;
    claimer->code = attempt(&claimer->talk, pawl_claim, "{\"worker_id\":\"w\",\"max\":10}");
    if (*text_at(&claimer->talk, "claims.0.lease.token") != '\0')
        (void)atomic_fetch_add(claimer->sum, 1);
    return NULL;
}

static void of_sixty_four_claimers_of_one_job_one_gets_it(void **state)
{
    struct library_case *c = *state;
    struct crowd crowd;
    struct claimer *claimers = calloc(CLAIMERS, sizeof *claimers);
    assert_non_null(claimers);
    crowd_open(c, &crowd, true);
    for (int round = 0; round < 3; round++) {
        atomic_int sum;
        atomic_init(&sum, 0);
        const char *id = submit_job(&c->talk, "");
        for (int i = 0; i < CLAIMERS; i++) {
            talk_init(&claimers[i].talk, crowd.handles[i % HANDLES]);
            claimers[i].sum = &sum;
        }
        in_threads(CLAIMERS, claim_once, claimers, sizeof *claimers);
        for (int i = 0; i < CLAIMERS; i++) {
            assert_int_equal(claimers[i].code, PAWL_OK);
            talk_release(&claimers[i].talk);
        }
        assert_int_equal(sum, 1);
        trace_is(&c->talk, id, FIRST_ATTEMPT);
    }
    crowd_close(c, &crowd);
    free(claimers);
}

/* ---- leases that end ---------------------------------------------------------------------- */

static void every_lease_that_ends_puts_its_job_back_once(void **state)
{
    enum { LOST = 100 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    struct crowd crowd = {.count = 0};
    submit_many(c, &crowd, LOST,
                "{\"kind\":\"work\",\"retry\":{\"initial_ms\":0,\"jitter\":\"none\"}}");
    for (int attempt_number = 1; attempt_number <= 2; attempt_number++) {
        does(t, pawl_claim, "{\"worker_id\":\"w\",\"max\":1000,\"lease_ttl_ms\":100}");
        assert_string_not_equal(text_at(t, phrase(t, "claims.%d.job.id", LOST - 1)), "");
        assert_int_equal(int_at(t, "claims.0.lease.attempt"), attempt_number);
        pass(c, LEASE_MS - 1);
        does(t, pawl_claim, "{\"worker_id\":\"early\",\"max\":1000,\"wait_ms\":250}");
        says_text(t, "claims.0", ""); /* nobody gets it as long as it lives */
        pass(c, 1);
        /* The first attempt leaves versions 2 to 4, the second 5 to 7. */
        for (int i = 0; i < LOST; i++)
            assert_int_equal(wait_for_event(t, crowd.ids[i], 3 * attempt_number, "job_requeued"),
                             3 * attempt_number + 1);
    }
    for (int i = 0; i < LOST; i++) {
        trace_is(t, crowd.ids[i], FIRST_ATTEMPT " job_requeued" NEXT_ATTEMPT " job_requeued");
        assert_string_equal(status_of(t, crowd.ids[i]), "queued");
        says_text(t, "failures", "2");
        says_text(t, "lease", "");
        says_text(t, "error.class", "timeout");
    }
    for (int i = 0; i < LOST; i += 10)
        is_sound(t, crowd.ids[i]);
}

static void a_dead_letter_says_all_that_is_needed_to_handle_it(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(
        t, ",\"correlation_id\":\"order 7\",\"retry\":{\"max_attempts\":2,\"initial_ms\":0}");
    does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"no luck\",\"stage\":\"fetch\"}}",
         claim_job(t, "w1"));
    (void)claim_job(t, "w2");
    pass(c, LEASE_MS);
    trace_becomes(t, id, FIRST_ATTEMPT " job_requeued" NEXT_ATTEMPT " job_dead_lettered");
    does(t, pawl_dead_letters, "{}");
    says_text(t, "jobs.0.id", id);
    says_text(t, "jobs.0.correlation_id", "order 7");
    says_text(t, "jobs.0.dead_letter.reason_code", "exhausted_retries");
    says_text(t, "jobs.0.dead_letter.attempts", "2");
    says_text(t, "jobs.0.dead_letter.last_owner", "w2");
    says_text(t, "jobs.0.dead_letter.last_lease_expires_at", "2026-01-01T00:00:00.100Z");
    says_text(t, "jobs.0.dead_letter.last_error.class", "timeout");
    does(t, pawl_redrive, "{\"id\":\"%s\"}", id);
    says_text(t, "done", "1");
    assert_string_equal(status_of(t, id), "queued");
    does(t, pawl_abandon,
         "{\"token\":\"%s\",\"reason_code\":\"compensation_failed\",\"stage\":\"commit\","
         "\"message\":\"both failed\"}",
         claim_job(t, "w3"));
    does(t, pawl_get, "{\"id\":\"%s\"}", id);
    says_text(t, "dead_letter.reason_code", "compensation_failed");
    says_text(t, "dead_letter.stage", "commit");
    says_text(t, "dead_letter.last_error.message", "both failed");
    is_sound(t, id);
}

/* ---- exactly one event for each transition ------------------------------------------------ */

/* What the workers were told that happened. */
struct tally {
    int leased;
    int running;
    int completed;
    int failed;
    int requeued;
    int waiting;
    int woken;
};

struct loader {
    struct talk talk;
    uint64_t seed;
    atomic_int *ended;
    struct tally tally;
    const char *wrong;
};

/* Does with one claim what the dice say, and notes it. */
static void process(struct loader *loader, const char *id, const char *token)
{
    struct talk *t = &loader->talk;
    struct tally *tally = &loader->tally;
    uint32_t what = dice(&loader->seed, 20);
    tally->leased++;
    tally->running++;
    enum pawl_code code = PAWL_OK;
    if (what < 14) {
        code = attempt(t, pawl_complete, "{\"token\":\"%s\"}", token);
        tally->completed++;
        (void)atomic_fetch_add(loader->ended, 1);
    } else if (what < 15) {
        code = attempt(t, pawl_fail,
                       "{\"token\":\"%s\",\"error\":{\"class\":\"validation\",\"message\":\"no\"}}",
                       token);
        tally->failed++;
        (void)atomic_fetch_add(loader->ended, 1);
    } else if (what < 17) {
        code = attempt(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"message\":\"no\"}}", token);
        tally->requeued++;
    } else if (what < 18) {
        code = attempt(t, pawl_release, "{\"token\":\"%s\"}", token);
        tally->requeued++;
    } else {
        code = attempt(t, pawl_wait,
                       "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"k\"}", token);
        tally->waiting++;
        if (code == PAWL_OK)
            code = attempt(t, pawl_signal,
                           "{\"id\":\"%s\",\"correlation_key\":\"k\",\"payload\":%llu}", id,
                           (unsigned long long)(loader->seed >> 32));
        tally->woken++;
    }
    if (code != PAWL_OK && loader->wrong == NULL)
        loader->wrong = phrase(t, "%s: %s", id, t->error.message);
}

static void *carry_load(void *argument)
{
    struct loader *loader = argument;
    struct talk *t = &loader->talk;
    while (atomic_load(loader->ended) < JOBS_MAX && loader->wrong == NULL) {
        if (attempt(t, pawl_claim, "{\"worker_id\":\"w\",\"max\":10,\"wait_ms\":50}") != PAWL_OK)
            loader->wrong = phrase(t, "claim: %s", t->error.message);
        const char *claims = t->answer;
        for (int i = 0; loader->wrong == NULL; i++) {
            t->answer = claims;
            const char *id = text_at(t, phrase(t, "claims.%d.job.id", i));
            const char *token = text_at(t, phrase(t, "claims.%d.lease.token", i));
            if (*token == '\0')
                break;
            process(loader, id, token);
        }
    }
    return NULL;
}

/* Reads the whole feed, of so many events: every event of every job comes once, in its order.
 * Counts them by type. Transactions of other tests may hold back the last ones for a while. */
static void count_feed(struct talk *t, const struct crowd *crowd, int expected, struct tally *ret,
                       int *ret_created)
{
    int seen = 0;
    long long *versions = calloc((size_t)crowd->count, sizeof *versions);
    const struct {
        const char *type;
        int *count;
    } counts[] = {
        {"job_created", ret_created},   {"job_leased", &ret->leased},
        {"job_running", &ret->running}, {"job_completed", &ret->completed},
        {"job_failed", &ret->failed},   {"job_requeued", &ret->requeued},
        {"job_waiting", &ret->waiting}, {"wait_completed", &ret->woken},
    };
    assert_non_null(versions);
    const char *next = "";
    bool more = true;
    while (more) {
        if (*next == '\0')
            does(t, pawl_feed, "{\"limit\":1000}");
        else
            does(t, pawl_feed, "{\"limit\":1000,\"after\":\"%s\",\"wait_ms\":%d}", next,
                 seen < expected ? 20 * 1000 : 0);
        next = text_at(t, "next");
        struct pawl_json events = pawl_json_get(pawl_json_read(t->answer), "events");
        struct pawl_json event = {0};
        more = false;
        while (pawl_json_next(events, &event, NULL)) {
            char *id = pawl_json_text(pawl_json_get(event, "job_id"));
            int place = place_of(crowd, id);
            pawl_free(id);
            assert_true(place >= 0);
            versions[place]++;
            assert_int_equal(pawl_json_int(pawl_json_get(event, "version"), -1), versions[place]);
            size_t i = 0;
            while (!pawl_json_is(pawl_json_get(event, "type"), counts[i].type))
                assert_true(++i < sizeof counts / sizeof counts[0]);
            ++*counts[i].count;
            seen++;
            more = true;
        }
    }
    for (int i = 0; i < crowd->count; i++)
        assert_true(versions[i] >= 4);
    free(versions);
}

static void a_load_of_a_thousand_jobs_leaves_one_event_for_each_transition(void **state)
{
    enum { LOADERS = 8 };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    struct crowd crowd;
    struct loader *loaders = calloc(LOADERS, sizeof *loaders);
    atomic_int ended;
    struct tally told = {0};
    struct tally stored = {0};
    int created = 0;
    assert_non_null(loaders);
    atomic_init(&ended, 0);
    crowd_open(c, &crowd, true);
    submit_many(c, &crowd, JOBS_MAX,
                "{\"kind\":\"work\",\"retry\":{\"max_attempts\":1000,\"initial_ms\":0,"
                "\"jitter\":\"none\"}}");
    qsort(crowd.ids, (size_t)crowd.count, sizeof crowd.ids[0], by_text);
    for (int i = 0; i < LOADERS; i++) {
        talk_init(&loaders[i].talk, crowd.handles[i % HANDLES]);
        loaders[i].seed = (uint64_t)i + 1;
        loaders[i].ended = &ended;
    }
    in_threads(LOADERS, carry_load, loaders, sizeof *loaders);
    for (int i = 0; i < LOADERS; i++) {
        const struct tally *one = &loaders[i].tally;
        if (loaders[i].wrong != NULL)
            fail_msg("%s", loaders[i].wrong);
        told.leased += one->leased;
        told.running += one->running;
        told.completed += one->completed;
        told.failed += one->failed;
        told.requeued += one->requeued;
        told.waiting += one->waiting;
        told.woken += one->woken;
        talk_release(&loaders[i].talk);
    }
    count_feed(t, &crowd,
               JOBS_MAX + told.leased + told.running + told.completed + told.failed +
                   told.requeued + told.waiting + told.woken,
               &stored, &created);
    assert_int_equal(created, JOBS_MAX);
    assert_memory_equal(&stored, &told, sizeof told);
    does(t, pawl_stats, "{}");
    assert_int_equal(int_at(t, "jobs.completed"), told.completed);
    assert_int_equal(int_at(t, "jobs.failed"), told.failed);
    for (int i = 0; i < crowd.count; i += 20)
        is_sound(t, crowd.ids[i]);
    crowd_close(c, &crowd);
    free(loaders);
}

/* ---- repeats ------------------------------------------------------------------------------ */

static void a_request_that_is_repeated_has_no_further_effect(void **state)
{
    static const struct {
        pawl_verb verb;
        const char *more;
        const char *last;
    } ends[] = {
        {pawl_complete, ",\"result\":1", "job_completed"},
        {pawl_fail, ",\"error\":{\"message\":\"no\"},\"retry_after_ms\":100000", "job_requeued"},
        {pawl_abandon, ",\"reason_code\":\"parse_error\"", "job_dead_lettered"},
        {pawl_wait, ",\"type\":\"signal\",\"correlation_key\":\"k\"", "job_waiting"},
    };
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *id = submit_job(t, phrase(t, ",\"idempotency_key\":\"key %zu\"", i));
        says_text(t, "duplicate", "");
        does(t, pawl_submit, "{\"kind\":\"work\",\"idempotency_key\":\"key %zu\"}", i);
        says_text(t, "duplicate", "true");
        says_text(t, "id", id);
        const char *request = phrase(t, "{\"token\":\"%s\"%s}", claim_job(t, "w1"), ends[i].more);
        for (int again = 0; again < 3; again++) {
            does(t, ends[i].verb, "%s", request);
            says_text(t, "repeated", again == 0 ? "" : "true");
            assert_int_equal(int_at(t, "version"), 4);
        }
        trace_is(t, id, phrase(t, FIRST_ATTEMPT " %s", ends[i].last));
        is_sound(t, id);
    }
}

struct submitter {
    struct talk talk;
    enum pawl_code code;
    const char *id;
    bool duplicate;
};

static void *submit_with_key(void *argument)
{
    struct submitter *submitter = argument;
    struct talk *t = &submitter->talk;
    submitter->code = attempt(t, pawl_submit, "{\"kind\":\"work\",\"idempotency_key\":\"only\"}");
    submitter->id = text_at(t, "id");
    submitter->duplicate = strcmp(text_at(t, "duplicate"), "true") == 0;
    return NULL;
}

static void of_sixty_four_submissions_with_one_key_one_makes_a_job(void **state)
{
    struct library_case *c = *state;
    struct crowd crowd;
    struct submitter *submitters = calloc(CLAIMERS, sizeof *submitters);
    int made = 0;
    assert_non_null(submitters);
    crowd_open(c, &crowd, true);
    for (int i = 0; i < CLAIMERS; i++)
        talk_init(&submitters[i].talk, crowd.handles[i % HANDLES]);
    in_threads(CLAIMERS, submit_with_key, submitters, sizeof *submitters);
    for (int i = 0; i < CLAIMERS; i++) {
        if (submitters[i].code != PAWL_OK)
            fail_msg("%s", submitters[i].talk.error.message);
        assert_string_equal(submitters[i].id, submitters[0].id);
        made += submitters[i].duplicate ? 0 : 1;
    }
    assert_int_equal(made, 1);
    does(&c->talk, pawl_list, "{}");
    says_text(&c->talk, "jobs.0.id", submitters[0].id);
    says_text(&c->talk, "jobs.1", "");
    for (int i = 0; i < CLAIMERS; i++)
        talk_release(&submitters[i].talk);
    crowd_close(c, &crowd);
    free(submitters);
}

/* ---- cancellation ------------------------------------------------------------------------- */

static void a_soft_cancel_lets_the_worker_end_its_job_and_a_hard_one_does_not(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *idle = submit_job(t, ",\"queue\":\"idle\"");
    does(t, pawl_cancel, "{\"id\":\"%s\"}", idle);
    says_text(t, "status", "cancelled"); /* nobody is to be asked */

    const char *soft = submit_job(t, "");
    const char *token = claim_job(t, "w1");
    does(t, pawl_cancel, "{\"id\":\"%s\",\"reason\":\"enough\"}", soft);
    says_text(t, "status", "running");
    says_text(t, "cancel_requested", "true");
    does(t, pawl_heartbeat, "{\"token\":\"%s\",\"cursor\":\"so far\"}", token);
    says_text(t, "cancel_requested", "true");
    does(t, pawl_cancelled, "{\"token\":\"%s\"}", token);
    says_text(t, "status", "cancelled");
    trace_is(t, soft, FIRST_ATTEMPT " job_cancel_requested job_cancelled");
    does(t, pawl_get, "{\"id\":\"%s\"}", soft);
    says_text(t, "cursor", "so far");

    const char *hard = submit_job(t, "");
    token = claim_job(t, "w1");
    does(t, pawl_cancel, "{\"id\":\"%s\",\"mode\":\"hard\"}", hard);
    says_text(t, "status", "cancelled");
    refuses(t, pawl_complete, PAWL_STALE_LEASE, "{\"token\":\"%s\"}", token);
    trace_is(t, hard, FIRST_ATTEMPT " job_cancelled");

    /* A worker who does not listen has 30 s; here its lease ends before. */
    const char *deaf = submit_job(t, "");
    (void)claim_job(t, "w1");
    does(t, pawl_cancel, "{\"id\":\"%s\"}", deaf);
    pass(c, LEASE_MS);
    trace_becomes(t, deaf, FIRST_ATTEMPT " job_cancel_requested job_cancelled");
    is_sound(t, idle);
    is_sound(t, soft);
    is_sound(t, hard);
    is_sound(t, deaf);
}

static void every_event_says_who_did_what_when_and_why(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *id = submit_job(
        t, ",\"correlation_id\":\"order 7\","
           "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"");
    does(t, pawl_release, "{\"token\":\"%s\"}", claim_job(t, "w1"));
    does(t, pawl_events, "{\"id\":\"%s\"}", id);
    for (int i = 0; i < 4; i++) {
        assert_string_not_equal(text_at(t, phrase(t, "events.%d.id", i)), "");
        says_text(t, phrase(t, "events.%d.job_id", i), id);
        says_text(t, phrase(t, "events.%d.at", i), "2026-01-01T00:00:00.000Z");
        says_text(t, phrase(t, "events.%d.actor", i), i == 0 ? case_actor() : "w1");
        says_text(t, phrase(t, "events.%d.correlation_id", i), "order 7");
        says_text(t, phrase(t, "events.%d.trace_id", i), "0af7651916cd43dd8448eb211c80319c");
        assert_int_equal(int_at(t, phrase(t, "events.%d.version", i)), i + 1);
        assert_int_equal(strlen(text_at(t, phrase(t, "events.%d.hash", i))), 64);
        assert_string_not_equal(text_at(t, phrase(t, "events.%d.cause", i)), "");
    }
    says_text(t, "events.3.reason", "released");
}

static void a_claim_and_a_cancel_under_a_request_key_happen_once(void **state)
{
    static const char claim[] =
        "{\"worker_id\":\"w1\",\"kinds\":[\"work\"],\"request_key\":\"claim 1\"}";
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    const char *first = submit_job(t, ",\"priority\":1");
    const char *second = submit_job(t, "");
    refuses(t, pawl_claim, PAWL_BAD_REQUEST, "%s", claim); /* with a blank it is no key */
#define CLAIM "{\"worker_id\":\"w1\",\"kinds\":[\"work\"],\"request_key\":\"claim-1\"}"
    does(t, pawl_claim, CLAIM);
    says_text(t, "claims.0.job.id", first);
    const char *token = text_at(t, "claims.0.lease.token");
    does(t, pawl_claim, CLAIM);
    says_text(t, "claims.0.job.id", first);
    says_text(t, "claims.0.lease.token", token);
    assert_string_equal(status_of(t, second), "queued");
    refuses(t, pawl_claim, PAWL_IDEMPOTENCY_MISMATCH,
            "{\"worker_id\":\"w2\",\"request_key\":\"claim-1\"}");
    /* Keys belong to the verb. */
    const char *cancel =
        phrase(t, "{\"id\":\"%s\",\"reason\":\"enough\",\"request_key\":\"claim-1\"}", first);
    does(t, pawl_cancel, "%s", cancel);
    does(t, pawl_cancel, "%s", cancel);
    trace_is(t, first, FIRST_ATTEMPT " job_cancel_requested");
    refuses(t, pawl_cancel, PAWL_IDEMPOTENCY_MISMATCH,
            "{\"id\":\"%s\",\"request_key\":\"claim-1\"}", second);
    refuses(t, pawl_cancel, PAWL_BAD_REQUEST, "{\"id\":\"%s\",\"request_key\":7}", second);
    assert_string_equal(status_of(t, second), "queued");
}

static void a_request_under_a_key_keeps_every_byte(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    char payload[1001];
    memset(payload, 'y', sizeof payload - 1);
    payload[sizeof payload - 1] = '\0';
    does(t, pawl_submit, "{\"request_key\":\"long\",\"kind\":\"work\",\"payload\":\"%s\"}",
         payload);
    says_text(t, "payload", payload);
    does(t, pawl_get, "{\"id\":\"%s\"}", text_at(t, "id"));
    says_text(t, "payload", payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE_TICKING(no_job_goes_backward_under_chaos),
        ON_EVERY_STORE(sixty_four_claimers_never_get_the_same_job),
        ON_EVERY_STORE(of_sixty_four_claimers_of_one_job_one_gets_it),
        ON_EVERY_STORE(every_lease_that_ends_puts_its_job_back_once),
        ON_EVERY_STORE(a_dead_letter_says_all_that_is_needed_to_handle_it),
        ON_EVERY_STORE(a_load_of_a_thousand_jobs_leaves_one_event_for_each_transition),
        ON_EVERY_STORE(a_request_that_is_repeated_has_no_further_effect),
        ON_EVERY_STORE(a_claim_and_a_cancel_under_a_request_key_happen_once),
        ON_EVERY_STORE(a_request_under_a_key_keeps_every_byte),
        ON_EVERY_STORE(of_sixty_four_submissions_with_one_key_one_makes_a_job),
        ON_EVERY_STORE(a_soft_cancel_lets_the_worker_end_its_job_and_a_hard_one_does_not),
        ON_EVERY_STORE(every_event_says_who_did_what_when_and_why),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
