/* The engine, run by hand: what shares a commit, who is woken by what, and who is refused when too
 * much is waiting. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/request_memo.h"
#include "engine/scene.h"
#include "store/store_driver.h"

static uint64_t commits(struct scene *s)
{
    uint64_t seen = UINT64_MAX;
    struct err err = {0};
    assert_int_equal(store_watch(engine_store(s->engine), seen, 0, &seen, &err), ERR_OK);
    return seen;
}

/* ---- each of these on every store ---- */

static void check_lonely_call(struct scene *s)
{
    int64_t wait_ms;
    scene_settle(s);
    struct caller *caller = scene_submit(s, "mail");
    engine_turn(s->engine, &wait_ms);
    engine_turn(s->engine, &wait_ms);
    assert_true(caller->done);
    assert_int_equal(caller->op.code, ERR_OK);
    assert_int_equal(scene_status_of(s, caller->op.job), JOB_QUEUED);
}

static void check_parked_claim(struct scene *s)
{
    struct caller *claimer = scene_claim(s, NULL, 20000);
    scene_settle(s);
    assert_false(claimer->done);
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    assert_true(job->done && claimer->done);
    assert_int_equal(claimer->op.grant_count, 1);
    assert_memory_equal(&claimer->op.grants[0].slice->job.id, &job->op.job, sizeof job->op.job);
}

static void check_one_woken(struct scene *s)
{
    struct caller *claimers[10];
    uint32_t told = 0;
    for (int i = 0; i < 10; i++)
        claimers[i] = scene_claim(s, NULL, 20000);
    scene_settle(s);
    scene_submit(s, "mail");
    scene_settle(s);
    for (int i = 0; i < 10; i++)
        told += claimers[i]->done;
    assert_int_equal(told, 1);
}

static void check_other_kinds_sleep(struct scene *s)
{
    const struct str mail = STR("mail");
    const struct str fax = STR("fax");
    struct caller *first = scene_claim(s, &fax, 20000);
    struct caller *second = scene_claim(s, &mail, 20000);
    scene_settle(s);
    scene_submit(s, "mail");
    scene_settle(s);
    assert_false(first->done);
    assert_true(second->done);
    assert_int_equal(second->op.grant_count, 1);
}

static void check_same_batch(struct scene *s)
{
    scene_settle(s);
    struct caller *claimer = scene_claim(s, NULL, 20000);
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    assert_true(job->done && claimer->done);
    assert_int_equal(claimer->op.grant_count, 1);
}

/* It takes one turn, so that one commit has both. */
static void check_one_turn(struct scene *s)
{
    int64_t wait_ms = 0;
    struct caller *claimer = scene_claim(s, NULL, 20000);
    scene_settle(s);
    struct caller *job = scene_submit(s, "mail");
    for (int i = 0; i < 2 && !job->done; i++)
        engine_turn(s->engine, &wait_ms);
    assert_true(job->done && claimer->done);
    assert_int_equal(claimer->op.grant_count, 1);
    assert_int_equal(job->op.after->job.status, JOB_QUEUED);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_RUNNING);
}

/* Of claims that may have a job the first gets it, whether they name its queue, another one beside
 * it, or none. */
static void check_first_come(struct scene *s)
{
    static const struct str queues[] = {STR_INIT("default"), STR_INIT("other")};
    struct caller *claimers[6];
    for (int i = 0; i < 6; i++) {
        claimers[i] = scene_claim(s, NULL, 20000);
        claimers[i]->op.claim.claimer.queues =
            (struct names){(struct str *)(uintptr_t)queues, (uint32_t)(i + 1) % 3};
        scene_settle(s);
    }
    for (int i = 0; i < 6; i++) {
        scene_submit(s, "mail");
        scene_settle(s);
        for (int k = 0; k < 6; k++)
            assert_int_equal(claimers[k]->done, k <= i);
    }
}

static struct caller *submit_with(struct scene *s, int64_t priority)
{
    struct caller *job = scene_prepare_submit(s, "mail");
    job->spec.priority = priority;
    scene_hand_over(s, job);
    return job;
}

static void gets_all(const struct caller *claimer, struct caller *const *jobs, uint32_t count)
{
    assert_true(claimer->done);
    assert_int_equal(claimer->op.grant_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_memory_equal(&claimer->op.grants[i].slice->job.id, &jobs[i]->op.job,
                            sizeof jobs[i]->op.job);
}

static void gets(const struct caller *claimer, struct caller *job)
{
    gets_all(claimer, &job, 1);
}

/* What stood there before goes first, and of what is new what has the highest priority. */
static void check_new_jobs_wait_their_turn(struct scene *s)
{
    struct caller *old = scene_submit(s, "mail");
    scene_settle(s);
    struct caller *low = submit_with(s, 1);
    struct caller *high = submit_with(s, 5);
    struct caller *claimers[3];
    for (int i = 0; i < 3; i++)
        claimers[i] = scene_claim(s, NULL, 0);
    scene_settle(s);
    gets(claimers[0], old);
    gets(claimers[1], high);
    gets(claimers[2], low);
}

/* One claim of several, and what it does not take is for the next. */
static void check_many_new_jobs(struct scene *s)
{
    struct caller *many = scene_claim(s, NULL, 20000);
    struct caller *one = scene_claim(s, NULL, 20000);
    many->op.claim.max = 3;
    scene_settle(s);
    for (int i = 0; i < 4; i++)
        scene_submit(s, "mail");
    scene_settle(s);
    assert_true(many->done && one->done);
    assert_int_equal(many->op.grant_count, 3);
    assert_int_equal(one->op.grant_count, 1);
}

/* One who waits gets some of the jobs of a batch: those of the highest priority, and of these the
 * oldest. */
static void check_oldest_new_job_first(struct scene *s)
{
    struct caller *jobs[4];
    struct caller *first = scene_claim(s, NULL, 20000);
    first->op.claim.max = 2;
    scene_settle(s);
    for (int i = 0; i < 3; i++)
        jobs[i] = scene_submit(s, "mail");
    scene_settle(s);
    gets_all(first, jobs, 2);
    struct caller *rest = scene_claim(s, NULL, 0);
    scene_settle(s);
    gets_all(rest, &jobs[2], 1);
    struct caller *second = scene_claim(s, NULL, 20000);
    second->op.claim.max = 3;
    scene_settle(s);
    jobs[2] = submit_with(s, 1);
    jobs[0] = submit_with(s, 5);
    jobs[1] = submit_with(s, 5);
    jobs[3] = submit_with(s, 1);
    scene_settle(s);
    gets_all(second, jobs, 3);
}

static bool nobody(void *arg)
{
    (void)arg;
    return false;
}

/* A job that a worker has: when it is released the first of those who wait is woken for it. */
static struct caller *hold_job(struct scene *s)
{
    struct caller *job = scene_submit(s, "mail");
    struct caller *holder = scene_claim(s, NULL, 0);
    scene_settle(s);
    gets(holder, job);
    return holder;
}

static void check_gone_claimer(struct scene *s)
{
    struct caller *holder = hold_job(s);
    struct caller *gone = scene_claim(s, NULL, 20000);
    struct caller *there = scene_claim(s, NULL, 20000);
    scene_settle(s);
    gone->call.wanted = nobody;
    scene_say(s, COMMAND_RELEASE, holder);
    scene_settle(s);
    assert_true(gone->done && there->done);
    assert_int_equal(gone->op.grant_count, 0);
    assert_int_equal(there->op.grant_count, 1);
}

/* The one that was woken takes any kind, the next this one only. */
static void check_gone_claimer_of_another_sort(struct scene *s)
{
    const struct str mail = STR("mail");
    struct caller *holder = hold_job(s);
    struct caller *gone = scene_claim(s, NULL, 20000);
    struct caller *there = scene_claim(s, &mail, 20000);
    scene_settle(s);
    gone->call.wanted = nobody;
    scene_say(s, COMMAND_RELEASE, holder);
    scene_settle(s);
    assert_true(gone->done && there->done);
    assert_int_equal(there->op.grant_count, 1);
}

static void check_new_job_beside_gone(struct scene *s)
{
    struct caller *gone = scene_claim(s, NULL, 20000);
    struct caller *there = scene_claim(s, NULL, 20000);
    scene_settle(s);
    gone->call.wanted = nobody;
    struct caller *job = scene_submit(s, "mail");
    scene_settle(s);
    gets(there, job);
    scene_pass(s, 21000);
    assert_true(gone->done);
    assert_int_equal(gone->op.grant_count, 0);
}

/* Two workers release so many jobs in one batch that a single claim cannot carry them. */
static void check_too_full(struct scene *s)
{
    enum { JOBS = 18 };
    static char payload[PAYLOAD_BYTES_MAX];
    memset(payload, '1', sizeof payload);
    struct caller *holders[2];
    struct caller *waits[2];
    for (int i = 0; i < JOBS; i++) {
        struct caller *job = scene_prepare_submit(s, "mail");
        job->spec.payload = (struct str){payload, sizeof payload};
        scene_hand_over(s, job);
    }
    scene_settle(s);
    for (int i = 0; i < 2; i++) {
        holders[i] = scene_prepare_claim(s, NULL, 0);
        holders[i]->op.claim.max = JOBS;
        scene_hand_over(s, holders[i]);
        scene_settle(s);
        waits[i] = NULL;
    }
    assert_int_equal(holders[0]->op.grant_count + holders[1]->op.grant_count, JOBS);
    assert_true(holders[0]->op.grant_count < JOBS);
    for (int i = 0; i < 2; i++) {
        waits[i] = scene_prepare_claim(s, NULL, 20000);
        waits[i]->op.claim.max = JOBS;
        scene_hand_over(s, waits[i]);
    }
    scene_settle(s);
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < holders[i]->op.grant_count; k++)
            scene_say_of(s, COMMAND_RELEASE, &holders[i]->op.grants[k]);
    scene_settle(s);
    assert_true(waits[0]->done && waits[1]->done);
    assert_int_equal(waits[0]->op.grant_count + waits[1]->op.grant_count, JOBS);
}

/* A store that can be away: as it was opened, but for this. */
static struct store_driver away_driver;
static enum error_code (*begin_there)(struct store *store, enum store_mode mode,
                                      struct store_txn **ret, struct err *err);
static bool is_away;

static enum error_code begin_unless_away(struct store *store, enum store_mode mode,
                                         struct store_txn **ret, struct err *err)
{
    return is_away ? err_set(err, ERR_UNAVAILABLE, "it is away")
                   : begin_there(store, mode, ret, err);
}

/* Who is woken for a job may find that the store is away just then; the job is for the next. */
static void check_woken_in_vain(struct scene *s)
{
    struct store *store = engine_store(s->engine);
    int64_t wait_ms;
    begin_there = store->driver->begin;
    away_driver = *store->driver;
    away_driver.begin = begin_unless_away;
    store->driver = &away_driver;
    struct caller *job = scene_submit(s, "mail");
    struct caller *holder = scene_claim(s, NULL, 0);
    scene_settle(s);
    struct caller *unlucky = scene_claim(s, NULL, 20000);
    struct caller *next = scene_claim(s, NULL, 20000);
    scene_settle(s);
    struct caller *given_back = scene_say(s, COMMAND_RELEASE, holder);
    while (!given_back->done)
        engine_turn(s->engine, &wait_ms);
    is_away = true;
    while (!unlucky->done)
        engine_turn(s->engine, &wait_ms);
    is_away = false;
    assert_int_equal(unlucky->op.code, ERR_UNAVAILABLE);
    scene_settle(s);
    gets(next, job);
}

static bool is_there(void *arg)
{
    return *(const bool *)arg;
}

/* It costs a place among those who wait, and in the server a connection. */
static void check_gone_waiter(struct scene *s)
{
    bool there = true;
    struct caller *leaves = scene_claim(s, NULL, 50000);
    struct caller *stays = scene_claim(s, NULL, 50000);
    leaves->call.wanted = is_there;
    leaves->call.wanted_arg = &there;
    scene_pass(s, 5000);
    assert_false(leaves->done || stays->done);
    there = false;
    scene_pass(s, 3000);
    assert_true(leaves->done);
    assert_int_equal(leaves->op.grant_count, 0);
    assert_false(stays->done);
}

static void check_choice(struct scene *s)
{
    static struct str both[] = {STR_INIT("fax"), STR_INIT("mail")};
    const struct str fax = STR("fax");
    struct caller *broad = scene_claim(s, NULL, 20000);
    struct caller *narrow = scene_claim(s, &fax, 20000);
    broad->op.claim.claimer.kinds = (struct names){both, 2};
    scene_settle(s);
    scene_submit(s, "fax");
    scene_submit(s, "mail");
    scene_settle(s);
    /* Whoever is done first may have taken either; nobody sleeps beside work that it could have. */
    assert_true(broad->done);
    if (!narrow->done) {
        struct caller *rest = scene_claim(s, &fax, 0);
        scene_settle(s);
        assert_int_equal(rest->op.grant_count, 0);
    }
}

static void check_many_kinds(struct scene *s)
{
    enum { KINDS = 300 };
    static char names[KINDS][16];
    static struct str kinds[KINDS];
    struct caller *claimers = calloc(KINDS, sizeof *claimers);
    assert_non_null(claimers);
    for (int i = 0; i < KINDS; i++) {
        struct caller *c = &claimers[i];
        (void)snprintf(names[i], sizeof names[i], "k%d", i);
        kinds[i] = str_from(names[i]);
        c->ops[0] = &c->op;
        c->call = (struct call){.ops = c->ops, .count = 1, .class = CALL_CLAIM, .wait_ms = 50000};
        c->call.done = scene_told;
        c->call.arg = c;
        c->op.type = OP_CLAIM;
        c->op.command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
        c->op.command.claim.worker_id = STR("w");
        c->op.claim.max = 1;
        c->op.claim.claimer.kinds = (struct names){&kinds[i], 1};
        scene_hand_over(s, c);
    }
    struct caller *job = scene_prepare_submit(s, names[KINDS - 1]);
    job->spec.run_at = s->clock + 1000;
    scene_hand_over(s, job);
    scene_pass(s, 2000);
    assert_true(claimers[KINDS - 1].done);
    assert_int_equal(claimers[KINDS - 1].op.grant_count, 1);
    engine_interrupt(s->engine);
    scene_settle(s);
    for (int i = 0; i < KINDS; i++)
        call_release(&claimers[i].call);
    free(claimers);
}

static void check_interrupt(struct scene *s)
{
    struct caller *claimer = scene_claim(s, NULL, 50000);
    scene_settle(s);
    engine_interrupt(s->engine);
    scene_settle(s);
    assert_true(claimer->done);
    struct caller *again = scene_claim(s, NULL, 50000);
    scene_settle(s);
    assert_true(again->done);
    assert_int_equal(again->op.grant_count, 0);
}

static void set_queue(struct scene *s, bool paused)
{
    struct caller *caller = scene_caller(s, CALL_RESULT);
    caller->op.type = OP_QUEUE;
    caller->op.queue = (struct store_queue){STR("default"), paused};
    scene_hand_over(s, caller);
    scene_settle(s);
    assert_int_equal(caller->op.code, ERR_OK);
}

/* Also not a job that is made in the batch of the claim. */
static void check_paused_queue(struct scene *s)
{
    set_queue(s, true);
    scene_settle(s);
    struct caller *waiting = scene_claim(s, NULL, 50000);
    scene_settle(s);
    struct caller *job = scene_submit(s, "mail");
    struct caller *claimer = scene_claim(s, NULL, 0);
    scene_settle(s);
    assert_true(job->done && claimer->done);
    assert_false(waiting->done);
    assert_int_equal(claimer->op.grant_count, 0);
    assert_int_equal(scene_status_of(s, job->op.job), JOB_QUEUED);
}

static void check_resumed_queue(struct scene *s)
{
    set_queue(s, true);
    scene_submit(s, "mail");
    struct caller *claimer = scene_claim(s, NULL, 50000);
    scene_settle(s);
    assert_false(claimer->done);
    set_queue(s, false);
    assert_true(claimer->done);
    assert_int_equal(claimer->op.grant_count, 1);
}

static void check_duplicates_in_batch(struct scene *s)
{
    struct caller *twins[2];
    for (int i = 0; i < 2; i++) {
        twins[i] = scene_prepare_submit(s, "mail");
        twins[i]->op.request.scope = STR("ann");
        twins[i]->op.request.key = STR("k1");
    }
    scene_hand_over(s, twins[0]);
    scene_hand_over(s, twins[1]);
    scene_settle(s);
    assert_true(twins[0]->done && twins[1]->done);
    assert_false(op_is_repeated(&twins[0]->op));
    assert_true(op_is_repeated(&twins[1]->op));
    struct arena arena;
    struct request_memo memo;
    arena_init(&arena);
    assert_int_equal(request_memo_read(twins[1]->op.request.record, &arena, &memo, NULL), ERR_OK);
    assert_int_equal(memo.entries[0].type, REQUEST_JOB);
    assert_true(uuid_eq(memo.entries[0].job.job, twins[0]->op.job));
    arena_release(&arena);
    assert_int_equal(scene_status_of(s, twins[1]->op.job), JOB_NONE);
}

static void check_closing(struct scene *s)
{
    struct caller *parked = scene_claim(s, NULL, 50000);
    scene_settle(s);
    struct caller *waiting = scene_submit(s, "mail");
    engine_close(s->engine);
    s->engine = NULL;
    assert_true(parked->done && waiting->done);
    assert_int_equal(waiting->op.code, ERR_UNAVAILABLE);
}

ON_EVERY_STORE(a_lonely_call_is_run_at_once, check_lonely_call)
ON_EVERY_STORE(a_new_job_goes_to_a_claimer_that_waits, check_parked_claim)
ON_EVERY_STORE(one_new_job_wakes_one_claimer, check_one_woken)
ON_EVERY_STORE(claimers_of_other_kinds_sleep_on, check_other_kinds_sleep)
ON_EVERY_STORE(a_claim_in_the_batch_of_the_submit_that_it_waits_for_gets_the_job, check_same_batch)
ON_EVERY_STORE(a_new_job_and_the_claim_that_waits_for_it_are_one_commit, check_one_turn)
ON_EVERY_STORE(who_waits_longest_gets_the_job_whatever_queues_they_name, check_first_come)
ON_EVERY_STORE(new_jobs_go_to_claims_of_their_batch_in_their_turn, check_new_jobs_wait_their_turn)
ON_EVERY_STORE(a_claim_of_many_takes_what_a_batch_makes, check_many_new_jobs)
ON_EVERY_STORE(of_new_jobs_who_waits_gets_the_oldest_of_the_highest_priority,
               check_oldest_new_job_first)
ON_EVERY_STORE(a_claimer_that_is_gone_does_not_keep_others_asleep, check_gone_claimer)
ON_EVERY_STORE(a_claimer_that_is_gone_does_not_keep_other_sorts_asleep,
               check_gone_claimer_of_another_sort)
ON_EVERY_STORE(a_new_job_is_not_for_a_claimer_that_is_gone, check_new_job_beside_gone)
ON_EVERY_STORE(a_claim_that_is_too_full_leaves_the_rest_to_others, check_too_full)
ON_EVERY_STORE(a_claimer_that_is_woken_in_vain_does_not_keep_others_asleep, check_woken_in_vain)
ON_EVERY_STORE(a_claimer_that_is_gone_does_not_wait_on, check_gone_waiter)
ON_EVERY_STORE(who_has_a_choice_leaves_nobody_asleep_beside_work, check_choice)
ON_EVERY_STORE(a_due_job_finds_its_claimer_among_hundreds_of_sorts, check_many_kinds)

ON_EVERY_STORE(an_interrupt_ends_every_wait, check_interrupt)
ON_EVERY_STORE(a_queue_that_is_paused_gives_nothing_away, check_paused_queue)
ON_EVERY_STORE(a_queue_that_is_resumed_wakes_claimers, check_resumed_queue)
ON_EVERY_STORE(the_same_request_twice_in_a_batch_is_carried_out_once, check_duplicates_in_batch)
ON_EVERY_STORE(closing_answers_everybody, check_closing)

/* ---- where one store will do ---- */

static void calls_that_wait_together_share_one_commit(void **state)
{
    (void)state;
    struct scene *s = malloc(sizeof *s);
    assert_non_null(s);
    scene_open(s, TEST_MEMORY, 0);
    scene_settle(s);
    uint64_t before = commits(s);
    for (int i = 0; i < 100; i++)
        scene_submit(s, "mail");
    scene_settle(s);
    for (uint32_t i = 0; i < s->count; i++)
        assert_int_equal(s->callers[i].op.code, ERR_OK);
    assert_int_equal(commits(s) - before, 1);
    scene_close(s);
    free(s);
}

static void new_work_is_refused_first_then_claims_then_results(void **state)
{
    (void)state;
    struct scene *s = malloc(sizeof *s);
    struct err err = {0};
    assert_non_null(s);
    scene_open(s, TEST_MEMORY, 8 * sizeof(struct op) + 8);
    for (int i = 0; i < 4; i++)
        scene_submit(s, "mail");
    struct caller *refused = scene_prepare_submit(s, "mail");
    assert_int_equal(engine_submit(s->engine, &refused->call, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.detail, "retry later"));
    scene_claim(s, NULL, 0);
    scene_claim(s, NULL, 0);
    struct caller *late = scene_caller(s, CALL_CLAIM);
    late->op.type = OP_CLAIM;
    assert_int_equal(engine_submit(s->engine, &late->call, &err), ERR_UNAVAILABLE);
    for (int i = 0; i < 3; i++) {
        struct caller *result = scene_caller(s, CALL_RESULT);
        result->op.type = OP_QUEUE;
        result->op.queue = (struct store_queue){STR("default"), false};
        assert_int_equal(engine_submit(s->engine, &result->call, &err),
                         i < 2 ? ERR_OK : ERR_UNAVAILABLE);
    }
    scene_settle(s);
    scene_submit(s, "mail"); /* there is room again */
    scene_settle(s);
    scene_close(s);
    free(s);
}

struct producer {
    struct engine *engine;
    uint8_t number;
    uint32_t failed;
};

static void *produce(void *arg)
{
    struct producer *producer = arg;
    for (uint16_t i = 0; i < 50; i++) {
        struct op op = {.type = OP_COMMAND};
        struct op *ops[] = {&op};
        struct call call = {.ops = ops, .count = 1, .class = CALL_SUBMIT};
        struct spec spec = spec_defaults(NULL);
        uint8_t random[10] = {[8] = producer->number, [9] = (uint8_t)i};
        struct err err = {0};
        spec.kind = STR("mail");
        op.job = uuid_v7(INT64_C(1767225600000), random);
        op.command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
        op.command.submit.spec = &spec;
        if (engine_run(producer->engine, &call, &err) != ERR_OK || op.code != ERR_OK)
            producer->failed++;
        call_release(&call);
    }
    return NULL;
}

static void threads_share_commits(void **state)
{
    (void)state;
    enum { PRODUCERS = 32 };
    struct test_stores stores;
    struct engine_options options = {.store = {.create = true}};
    struct engine *engine;
    struct err err = {0};
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint64_t seen = UINT64_MAX;
    uint64_t before;
    test_stores_init(&stores);
    const char *url = test_stores_fresh(&stores, TEST_SQLITE);
    assert_int_equal(engine_open(str_from(url), &options, &engine, &err), ERR_OK);
    assert_int_equal(store_watch(engine_store(engine), seen, 0, &before, &err), ERR_OK);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){engine, (uint8_t)i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(producers[i].failed, 0);
    }
    assert_int_equal(store_watch(engine_store(engine), seen, 0, &seen, &err), ERR_OK);
    assert_true(seen - before < 50 * PRODUCERS / 2);
    engine_close(engine);
    test_stores_release(&stores);
}

/* ---- calls that are handed over together ---- */

static void count_refused(struct call *call, enum error_code code, const struct err *err)
{
    struct caller *caller = call->arg;
    assert_int_equal(code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err->detail, "retry later"));
    assert_false(caller->done);
    caller->done = true;
    caller->op.code = code;
}

static void of_calls_handed_over_together_those_without_room_are_refused(void **state)
{
    (void)state;
    enum { FIT = 4, CALLS = 6 };
    struct scene *s = malloc(sizeof *s);
    struct caller *callers[CALLS];
    assert_non_null(s);
    scene_open(s, TEST_MEMORY, 2 * FIT * sizeof(struct op) + 8);
    for (int i = 0; i < CALLS; i++) {
        callers[i] = scene_prepare_submit(s, "mail");
        callers[i]->call.done = scene_told;
        callers[i]->call.refused = count_refused;
        callers[i]->call.arg = callers[i];
        if (i > 0)
            callers[i - 1]->call.next = &callers[i]->call;
    }
    engine_submit_all(s->engine, &callers[0]->call, true);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(callers[i]->done, i >= FIT);
    scene_settle(s);
    for (int i = 0; i < CALLS; i++) {
        assert_true(callers[i]->done);
        assert_int_equal(callers[i]->op.code, i < FIT ? ERR_OK : ERR_UNAVAILABLE);
    }
    scene_close(s);
    free(s);
}

enum { TOGETHER = 3 };

/* Somebody who hands calls over, and is woken once they are done. */
struct giver {
    struct call_sink sink;
    struct engine *engine;
    pthread_t thread;
    uint8_t number;
    uint32_t rounds;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    uint32_t told;    /* calls of this round */
    uint32_t flushed; /* of which the sink was flushed */
    uint32_t here;    /* calls of all rounds that were told on the giver's own thread */
    uint32_t failed;
};

static void told_giver(struct call *call, void *arg)
{
    struct giver *giver = arg;
    pthread_mutex_lock(&giver->lock);
    giver->told++;
    giver->here += pthread_equal(pthread_self(), giver->thread) != 0;
    giver->failed += call->ops[0]->code != ERR_OK;
    pthread_mutex_unlock(&giver->lock);
}

static void flush_giver(struct call_sink *sink)
{
    struct giver *giver = (struct giver *)(void *)sink;
    pthread_mutex_lock(&giver->lock);
    giver->flushed = giver->told;
    pthread_cond_signal(&giver->woken);
    pthread_mutex_unlock(&giver->lock);
}

static void give_round(struct giver *giver, uint32_t round)
{
    struct op made[TOGETHER];
    struct op *ops[TOGETHER];
    struct call calls[TOGETHER];
    struct spec spec = spec_defaults(NULL);
    spec.kind = STR("mail");
    for (uint32_t i = 0; i < TOGETHER; i++) {
        uint8_t random[10] = {[6] = giver->number,
                              [7] = (uint8_t)i,
                              [8] = (uint8_t)(round >> 8),
                              [9] = (uint8_t)round};
        ops[i] = &made[i];
        made[i] = (struct op){.type = OP_COMMAND, .job = uuid_v7(INT64_C(1767225600000), random)};
        made[i].command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("ann")};
        made[i].command.submit.spec = &spec;
        calls[i] = (struct call){.ops = &ops[i],
                                 .count = 1,
                                 .class = CALL_SUBMIT,
                                 .done = told_giver,
                                 .arg = giver,
                                 .sink = &giver->sink,
                                 .next = i + 1 < TOGETHER ? &calls[i + 1] : NULL};
    }
    giver->told = giver->flushed = 0;
    engine_submit_all(giver->engine, &calls[0], true);
    pthread_mutex_lock(&giver->lock);
    while (giver->flushed < TOGETHER)
        pthread_cond_wait(&giver->woken, &giver->lock);
    pthread_mutex_unlock(&giver->lock);
    for (uint32_t i = 0; i < TOGETHER; i++)
        call_release(&calls[i]);
}

static void *give(void *arg)
{
    struct giver *giver = arg;
    giver->thread = pthread_self();
    for (uint32_t i = 0; i < giver->rounds; i++)
        give_round(giver, i);
    return NULL;
}

static void init_giver(struct giver *giver, struct engine *engine, uint8_t number, uint32_t rounds)
{
    *giver =
        (struct giver){.sink = {flush_giver}, .engine = engine, .number = number, .rounds = rounds};
    (void)pthread_mutex_init(&giver->lock, NULL);
    (void)pthread_cond_init(&giver->woken, NULL);
}

static struct engine *open_engine(struct test_stores *stores, enum test_store sort)
{
    struct engine_options options = {.store = {.create = true}};
    struct engine *engine;
    struct err err = {0};
    test_stores_init(stores);
    const char *url = test_stores_fresh(stores, sort);
    assert_int_equal(engine_open(str_from(url), &options, &engine, &err), ERR_OK);
    return engine;
}

/* How many of its calls a lonely giver was told of on its own thread. */
static uint32_t give_alone(enum test_store sort, uint32_t rounds)
{
    struct test_stores stores;
    struct giver giver;
    struct engine *engine = open_engine(&stores, sort);
    init_giver(&giver, engine, 1, rounds);
    (void)give(&giver);
    assert_int_equal(giver.failed, 0);
    engine_close(engine);
    test_stores_release(&stores);
    return giver.here;
}

static void an_idle_engine_runs_calls_on_the_thread_of_their_caller(void **state)
{
    (void)state;
    assert_true(give_alone(TEST_MEMORY, 500) > 0);
    assert_true(give_alone(TEST_SQLITE, 500) > 0);
}

static void a_shared_store_never_keeps_the_thread_of_a_caller(void **state)
{
    (void)state;
    assert_int_equal(give_alone(TEST_POSTGRES, 50), 0);
}

/* Callers' threads and the engine's own take turns at being the first runner. */
static void every_call_is_told_of_once_whoever_runs_it(void **state)
{
    (void)state;
    enum { GIVERS = 4 };
    struct test_stores stores;
    struct giver givers[GIVERS];
    pthread_t threads[GIVERS];
    struct engine *engine = open_engine(&stores, TEST_SQLITE);
    for (uint8_t i = 0; i < GIVERS; i++) {
        init_giver(&givers[i], engine, i, 200);
        assert_int_equal(pthread_create(&threads[i], NULL, give, &givers[i]), 0);
    }
    for (int i = 0; i < GIVERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(givers[i].told, TOGETHER);
        assert_int_equal(givers[i].failed, 0);
    }
    engine_close(engine);
    test_stores_release(&stores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lonely_call_is_run_at_once),
        cmocka_unit_test(calls_that_wait_together_share_one_commit),
        cmocka_unit_test(threads_share_commits),
        cmocka_unit_test(of_calls_handed_over_together_those_without_room_are_refused),
        cmocka_unit_test(an_idle_engine_runs_calls_on_the_thread_of_their_caller),
        cmocka_unit_test(a_shared_store_never_keeps_the_thread_of_a_caller),
        cmocka_unit_test(every_call_is_told_of_once_whoever_runs_it),
        cmocka_unit_test(a_new_job_goes_to_a_claimer_that_waits),
        cmocka_unit_test(one_new_job_wakes_one_claimer),
        cmocka_unit_test(claimers_of_other_kinds_sleep_on),
        cmocka_unit_test(a_claim_in_the_batch_of_the_submit_that_it_waits_for_gets_the_job),
        cmocka_unit_test(a_new_job_and_the_claim_that_waits_for_it_are_one_commit),
        cmocka_unit_test(who_waits_longest_gets_the_job_whatever_queues_they_name),
        cmocka_unit_test(new_jobs_go_to_claims_of_their_batch_in_their_turn),
        cmocka_unit_test(a_claim_of_many_takes_what_a_batch_makes),
        cmocka_unit_test(of_new_jobs_who_waits_gets_the_oldest_of_the_highest_priority),
        cmocka_unit_test(a_claimer_that_is_gone_does_not_keep_others_asleep),
        cmocka_unit_test(a_claimer_that_is_gone_does_not_keep_other_sorts_asleep),
        cmocka_unit_test(a_new_job_is_not_for_a_claimer_that_is_gone),
        cmocka_unit_test(a_claim_that_is_too_full_leaves_the_rest_to_others),
        cmocka_unit_test(a_claimer_that_is_woken_in_vain_does_not_keep_others_asleep),
        cmocka_unit_test(a_claimer_that_is_gone_does_not_wait_on),
        cmocka_unit_test(who_has_a_choice_leaves_nobody_asleep_beside_work),
        cmocka_unit_test(a_due_job_finds_its_claimer_among_hundreds_of_sorts),
        cmocka_unit_test(an_interrupt_ends_every_wait),
        cmocka_unit_test(a_queue_that_is_paused_gives_nothing_away),
        cmocka_unit_test(a_queue_that_is_resumed_wakes_claimers),
        cmocka_unit_test(the_same_request_twice_in_a_batch_is_carried_out_once),
        cmocka_unit_test(closing_answers_everybody),
        cmocka_unit_test(new_work_is_refused_first_then_claims_then_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
