/* How many round trips to PostgreSQL each command takes, and what waits for the disk. */
#include "store/postgres/postgres.h"
#include "store/postgres_case.h"

static uint64_t flights(const struct postgres_case *c)
{
    const struct postgres *store = (const struct postgres *)c->store;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < store->connection_count; i++)
        sum += store->connections[i].flights;
    return sum;
}

static void run(struct postgres_case *c, struct op *op)
{
    enum store_outcome outcome;
    if (run_ops(&c->batcher, op, 1, &c->arena, &outcome, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    if (op->code != ERR_OK)
        fail_msg("%s", op->err.detail);
}

static struct op claim_one(void)
{
    struct op op = {
        .type = OP_CLAIM,
        .command = {.type = COMMAND_CLAIM, .actor = STR("w1")},
        .claim = {.claimer = {.work = LANE_JOBS}, .max = 1},
    };
    op.command.claim.worker_id = STR("w1");
    op.command.claim.start = true;
    return op;
}

static struct op by_holder(const struct op *claim, enum command_type type)
{
    return (struct op){
        .type = OP_COMMAND,
        .job = claim->grants[0].slice->job.id,
        .command = {.type = type, .actor = STR("w1"), .token = claim->grants[0].result.token},
    };
}

/* A whole life; the second time on a connection its statements are prepared, the third time
 * nothing new is met. */
static void live(struct postgres_case *c, uint64_t ret[4])
{
    uint64_t before = flights(c);
    submit_job(c);
    ret[0] = flights(c) - before;
    struct op claim = claim_one();
    before = flights(c);
    run(c, &claim);
    ret[1] = flights(c) - before;
    assert_int_equal(claim.grant_count, 1);
    struct op beat = by_holder(&claim, COMMAND_HEARTBEAT);
    before = flights(c);
    run(c, &beat);
    ret[2] = flights(c) - before;
    struct op complete = by_holder(&claim, COMMAND_COMPLETE);
    before = flights(c);
    run(c, &complete);
    ret[3] = flights(c) - before;
}

static void every_command_of_a_life_takes_two_round_trips(void **state)
{
    struct postgres_case *c = *state;
    uint64_t taken[4];
    for (int i = 0; i < 3; i++)
        live(c, taken);
    for (int i = 0; i < 4; i++)
        assert_int_equal(taken[i], 2);
}

static void a_claim_that_finds_work_of_another_queue_is_not_given_it(void **state)
{
    struct postgres_case *c = *state;
    uint64_t taken[4];
    struct names queues = {.at = (struct str[]){STR("other")}, .count = 1};
    live(c, taken);
    submit_job(c);
    struct op claim = claim_one();
    claim.claim.claimer.queues = queues;
    run(c, &claim);
    assert_int_equal(claim.grant_count, 0);
    assert_int_equal(claim_jobs(c, 1), 1);
}

/* The lanes that load looks into may be closed when it has told what is paused. */
static void work_that_was_found_ahead_in_a_paused_queue_stays_there(void **state)
{
    struct postgres_case *c = *state;
    uint64_t taken[4];
    live(c, taken);
    submit_job(c);
    sql(c, "INSERT INTO pawl.queues (queue, paused) VALUES ('default', true)"
           " ON CONFLICT (queue) DO UPDATE SET paused = true");
    assert_int_equal(claim_jobs(c, 1), 0);
    assert_true(c->batcher.wakeups.locked_unclaimed);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.ready"), 1);
    sql(c, "UPDATE pawl.queues SET paused = false");
    assert_int_equal(claim_jobs(c, 1), 1);
}

/* With the settings of the session the same holds as with those of each transaction before. */
static void a_session_without_a_pooler_is_set_up_once(void **state)
{
    struct postgres_case *c = *state;
    uint64_t taken[4];
    sql(c, "CREATE TABLE public.noted (value text)");
    sql(c, "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " INSERT INTO public.noted VALUES (current_setting('plan_cache_mode') || ' '"
           " || current_setting('lock_timeout') || ' '"
           " || current_setting('synchronous_commit')); RETURN NULL; END $$");
    sql(c, "CREATE TRIGGER note AFTER INSERT ON pawl.job_rows"
           " FOR EACH ROW EXECUTE FUNCTION public.note()");
    for (int i = 0; i < 4; i++)
        live(c, taken);
    const struct postgres *store = (const struct postgres *)c->store;
    bool settled = false;
    for (uint32_t i = 0; i < store->connection_count; i++)
        settled = settled || store->connections[i].is_settled;
    assert_true(settled);
    assert_int_equal(sql_int(c, "SELECT count(DISTINCT value) FROM public.noted"), 1);
    assert_string_equal(sql(c, "SELECT value FROM public.noted"), "force_generic_plan 8750ms on");
}

/* What holds at the COMMIT of a transaction that changes a lease. */
static void note_commits(struct postgres_case *c)
{
    sql(c, "CREATE TABLE public.noted (value text)");
    sql(c, "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " INSERT INTO public.noted VALUES (current_setting('synchronous_commit'));"
           " RETURN NULL; END $$");
    sql(c, "CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON pawl.claim_rows"
           " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.note()");
}

static void a_heartbeat_waits_for_the_disk_only_if_it_says_more(void **state)
{
    struct postgres_case *c = *state;
    note_commits(c);
    submit_job(c);
    struct op claim = claim_one();
    run(c, &claim);
    struct op beat = by_holder(&claim, COMMAND_HEARTBEAT);
    run(c, &beat);
    assert_string_equal(sql(c, "DELETE FROM public.noted RETURNING value"), "off");
    beat.command.heartbeat.cursor = STR("page 2");
    run(c, &beat);
    assert_string_equal(sql(c, "DELETE FROM public.noted RETURNING value"), "on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_command_of_a_life_takes_two_round_trips),
        CASE(a_claim_that_finds_work_of_another_queue_is_not_given_it),
        CASE(work_that_was_found_ahead_in_a_paused_queue_stays_there),
        CASE(a_session_without_a_pooler_is_set_up_once),
        CASE(a_heartbeat_waits_for_the_disk_only_if_it_says_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
