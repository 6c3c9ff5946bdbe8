/* Several operations on one job in one batch, on every store: each sees what those before it did,
 * and nothing is lost in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/retention.h"
#include "store/players.h"
#include "store/test_stores.h"

struct theatre {
    struct test_stores stores;
    struct player player;
    int64_t clock;
    uint8_t ids;
};

static struct theatre *theatre_of(void **state)
{
    return *state;
}

static void theatre_open(struct theatre *s, enum test_store sort)
{
    s->clock = INT64_C(1767225600000);
    s->ids = 0;
    test_stores_init(&s->stores);
    player_open(&s->player, test_store_names[sort], test_stores_fresh(&s->stores, sort), &s->clock,
                1);
}

static void theatre_close(struct theatre *s)
{
    player_close(&s->player);
    test_stores_release(&s->stores);
}

static struct op command_op(struct uuid job, enum command_type type)
{
    struct op op = {.type = OP_COMMAND, .job = job};
    op.command = (struct command){.type = type, .actor = STR("ann")};
    return op;
}

static struct op claim_op(void)
{
    struct op op = {.type = OP_CLAIM};
    op.command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
    op.command.claim.worker_id = STR("w");
    op.command.claim.start = true;
    op.claim.max = 1;
    return op;
}

static struct op signal_op(struct uuid job, const char *payload)
{
    struct op op = command_op(job, COMMAND_SIGNAL);
    op.command.signal.correlation_key = STR("go");
    op.command.signal.payload = str_from(payload);
    return op;
}

static struct uuid submit(struct theatre *s, struct spec *spec)
{
    uint8_t random[10] = {0};
    random[9] = ++s->ids;
    spec->kind = STR("mail");
    struct op op = command_op(uuid_v7(s->clock, random), COMMAND_SUBMIT);
    op.command.submit.spec = spec;
    player_run(&s->player, &op, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    return op.job;
}

static struct str claim(struct theatre *s)
{
    struct op op = claim_op();
    player_run(&s->player, &op, 1);
    assert_int_equal(s->player.ops[0].grant_count, 1);
    return s->player.ops[0].grants[0].result.token;
}

static void on_every_store(void **state, void (*test)(struct theatre *s))
{
    for (int sort = TEST_MEMORY; sort < TEST_STORE_COUNT; sort++) {
        struct theatre *s = theatre_of(state);
        theatre_open(s, (enum test_store)sort);
        test(s);
        theatre_close(s);
    }
}

static void claims_behind_a_timer(struct theatre *s)
{
    struct spec spec = spec_defaults(NULL);
    struct uuid job = submit(s, &spec);
    struct str token = claim(s);
    struct op wait = command_op(job, COMMAND_WAIT);
    wait.command.token = token;
    wait.command.wait.type = WAIT_SIGNAL;
    wait.command.wait.correlation_key = STR("go");
    wait.command.wait.timeout_ms = 500;
    player_run(&s->player, &wait, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    s->clock += 600;
    uint32_t count = 0;
    struct op *due = player_due(&s->player, 10, &count);
    assert_int_equal(count, 1);
    struct op signal = signal_op(job, "1");
    player_run(&s->player, &signal, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    struct op batch[2] = {due[0], claim_op()};
    player_run(&s->player, batch, 2);
    assert_int_equal(s->player.ops[1].grant_count, 1);
    s->clock += 24 * 60 * 60 * 1000;
    (void)player_due(&s->player, 10, &count);
    assert_int_equal(count, 1);
}

static void a_lease_given_in_the_batch_of_an_old_timer_has_its_own(void **state)
{
    on_every_store(state, claims_behind_a_timer);
}

static struct uuid bury(struct theatre *s)
{
    struct spec spec = spec_defaults(NULL);
    struct uuid job = submit(s, &spec);
    struct op op = command_op(job, COMMAND_DEAD_LETTER);
    op.command.dead_letter.reason_code = DEAD_POLICY_VIOLATION;
    player_run(&s->player, &op, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    return job;
}

static void requeues_what_is_erased(struct theatre *s)
{
    for (int redact = 0; redact < 2; redact++) {
        struct uuid job = bury(s);
        struct op batch[2] = {{.type = redact ? OP_REDACT : OP_DROP, .job = job},
                              command_op(job, COMMAND_REQUEUE)};
        player_run(&s->player, batch, 2);
        assert_int_equal(s->player.ops[0].code, ERR_OK);
        assert_int_equal(s->player.ops[1].code, redact ? ERR_INVALID_TRANSITION : ERR_NOT_FOUND);
        struct op op = claim_op();
        player_run(&s->player, &op, 1);
        assert_int_equal(s->player.ops[0].grant_count, 0);
    }
}

static void what_is_erased_is_not_requeued_in_the_same_batch(void **state)
{
    on_every_store(state, requeues_what_is_erased);
}

static void gives_three_signals(struct theatre *s)
{
    struct spec spec = spec_defaults(NULL);
    struct uuid job = submit(s, &spec);
    static const char *const payloads[] = {"1", "2", "3"};
    for (int i = 0; i < 3; i++) {
        struct op signal = signal_op(job, payloads[i]);
        player_run(&s->player, &signal, 1);
        assert_int_equal(s->player.ops[0].result.signal, SIGNAL_STORED);
    }
    struct op plan = command_op(job, COMMAND_PLAN);
    plan.command.plan.steps =
        STR("[{\"id\":\"a\",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"go\"}},"
            "{\"id\":\"b\",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"go\"}},"
            "{\"id\":\"c\",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"go\"}}]");
    player_run(&s->player, &plan, 1);
    const struct job_slice *after = s->player.ops[0].after;
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    assert_int_equal(after->job.status, JOB_COMPLETED);
    assert_int_equal(after->step_count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(str_eq(after->steps[i].result, str_from(payloads[i])));
}

static void steps_that_begin_together_take_stored_signals_in_turn(void **state)
{
    on_every_store(state, gives_three_signals);
}

static void leaves_work(struct theatre *s)
{
    const struct wakeups *wakeups = &s->player.batcher.wakeups;
    struct spec spec = spec_defaults(NULL);
    struct uuid job = submit(s, &spec);
    assert_false(wakeups->locked_unclaimed); /* it is new, and told of as that */
    struct op signal = signal_op(job, "1");
    player_run(&s->player, &signal, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    assert_true(wakeups->locked_unclaimed);
    struct op refused = command_op(job, COMMAND_COMPLETE);
    player_run(&s->player, &refused, 1);
    assert_int_not_equal(s->player.ops[0].code, ERR_OK);
    assert_true(wakeups->locked_unclaimed);
    struct op done = command_op(job, COMMAND_COMPLETE);
    done.command.token = claim(s);
    assert_false(wakeups->locked_unclaimed);
    player_run(&s->player, &done, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    assert_false(wakeups->locked_unclaimed);
}

static void a_batch_says_whether_work_that_it_had_locked_is_still_there(void **state)
{
    on_every_store(state, leaves_work);
}

static struct op submit_op(struct theatre *s, struct spec *spec)
{
    uint8_t random[10] = {0};
    random[9] = ++s->ids;
    spec->kind = STR("mail");
    struct op op = command_op(uuid_v7(s->clock, random), COMMAND_SUBMIT);
    op.command.submit.spec = spec;
    return op;
}

static bool is_there(struct theatre *s, struct uuid job)
{
    struct op op = command_op(job, COMMAND_CANCEL);
    player_run(&s->player, &op, 1);
    return s->player.ops[0].code != ERR_NOT_FOUND;
}

/* Operations of five callers in one batch: two atomic groups that go well, two that do not, and one
 * that is alone. The refused ones would also have taken a signal and a lease. */
static void tears_no_group(struct theatre *s)
{
    struct spec spec = spec_defaults(NULL);
    struct spec keyed = spec_defaults(NULL);
    keyed.idempotency_key = STR("once");
    struct uuid known = submit(s, &spec);
    struct op late = command_op(known, COMMAND_COMPLETE); /* it has no lease: refused */
    struct op batch[10] = {
        submit_op(s, &keyed),
        late, /* refused, and its key with it */
        submit_op(s, &keyed),
        signal_op(known, "1"), /* done, with the same key */
        claim_op(),
        signal_op(known, "2"),
        late,                /* refused: no lease comes of it */
        submit_op(s, &spec), /* alone */
        submit_op(s, &spec),
        claim_op(), /* done */
    };
    static const bool together[10] = {0, 1, 0, 1, 0, 1, 1, 0, 0, 1};
    for (int i = 0; i < 10; i++) {
        batch[i].atomic = i != 7;
        batch[i].atomic_with_previous = together[i];
    }
    player_run(&s->player, batch, 10);
    static const enum error_code codes[10] = {
        ERR_BATCH_REFUSED, ERR_STALE_LEASE, ERR_OK, ERR_OK, ERR_BATCH_REFUSED,
        ERR_BATCH_REFUSED, ERR_STALE_LEASE, ERR_OK, ERR_OK, ERR_OK};
    for (int i = 0; i < 10; i++)
        assert_int_equal(s->player.ops[i].code, codes[i]);
    assert_int_equal(s->player.ops[4].grant_count, 0);
    assert_int_equal(s->player.ops[9].grant_count, 1);
    assert_false(s->player.ops[2].result.duplicate);
    struct op second = signal_op(known, "3");
    player_run(&s->player, &second, 1);
    /* Created, one signal, the lease of the last group and its start, this signal. */
    assert_int_equal(s->player.ops[0].after->job.version, 5);
    assert_false(is_there(s, batch[0].job));
    assert_true(is_there(s, batch[2].job));
    assert_true(is_there(s, batch[7].job));
    assert_true(is_there(s, batch[8].job));
}

static void an_atomic_group_is_done_or_refused_as_one_beside_others(void **state)
{
    on_every_store(state, tears_no_group);
}

static void keeps_for_longer(struct theatre *s)
{
    struct spec spec = spec_defaults(NULL);
    struct uuid job = submit(s, &spec);
    struct op cancel = command_op(job, COMMAND_CANCEL);
    player_run(&s->player, &cancel, 1);
    struct store_kind kind = {.kind = STR("mail")};
    kind.settings.retention_ms = 2 * RETENTION_MS_DEFAULT;
    struct op set = {.type = OP_KIND};
    set.kind.kind = &kind;
    set.kind.expected_version = -1;
    player_run(&s->player, &set, 1);
    s->clock += RETENTION_MS_DEFAULT;
    uint32_t count = 0;
    struct op *due = player_due(&s->player, 10, &count);
    assert_int_equal(count, 1);
    player_run(&s->player, due, 1);
    assert_int_equal(s->player.ops[0].code, ERR_INVALID_TRANSITION);
    (void)player_due(&s->player, 10, &count);
    assert_int_equal(count, 0);
    s->clock += RETENTION_MS_DEFAULT;
    due = player_due(&s->player, 10, &count);
    assert_int_equal(count, 1);
    player_run(&s->player, due, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
}

static void a_job_whose_kind_is_kept_for_longer_is_looked_at_again_then(void **state)
{
    on_every_store(state, keeps_for_longer);
}

static void sends_bad_keys(struct theatre *s)
{
    struct uuid job = bury(s);
    struct op batch[4] = {command_op(job, COMMAND_REQUEUE), command_op(job, COMMAND_CANCEL),
                          command_op(job, COMMAND_CANCEL), command_op(job, COMMAND_CANCEL)};
    for (int i = 1; i < 4; i++) {
        batch[i].request.scope = STR("ann");
        batch[i].request.key = STR("same");
    }
    batch[1].request.key = STR("\xe9");
    player_run(&s->player, batch, 4);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
    assert_int_equal(s->player.ops[1].code, ERR_BAD_REQUEST);
    assert_int_equal(s->player.ops[2].code, ERR_OK);
    assert_int_equal(s->player.ops[3].code, ERR_UNAVAILABLE);
    player_run(&s->player, &batch[3], 1);
    assert_true(op_is_repeated(&s->player.ops[0]));
}

static void a_bad_request_key_fails_alone_and_a_twin_waits(void **state)
{
    on_every_store(state, sends_bad_keys);
}

static struct op resource_op(const struct resource *resource)
{
    struct op op = {.type = OP_RESOURCE, .ttl_ms = 3000};
    op.resource = resource;
    return op;
}

static struct op claim_step_op(struct str resource)
{
    struct op op = claim_op();
    op.claim.claimer.work = LANE_STEPS;
    op.claim.resource_id = resource;
    op.command.type = COMMAND_STEP_CLAIM;
    return op;
}

static bool is_due(struct theatre *s, enum store_due_what what)
{
    struct store_due *due = NULL;
    uint32_t count = 0;
    int64_t now;
    int64_t next;
    assert_int_equal(
        store_due(s->player.store, 10, &s->player.arena, &due, &count, &now, &next, NULL), ERR_OK);
    return count == 1 && due[0].what == what;
}

/* It is found to be lost, and renews before that is carried out. */
static void renews_in_time(struct theatre *s)
{
    const struct resource resource = {.id = STR("r1"), .slots = 2};
    struct op renew = resource_op(&resource);
    struct op claim_step = claim_step_op(resource.id);
    struct spec spec = spec_defaults(NULL);
    spec.plan = STR("{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\"}]}");
    struct uuid job = submit(s, &spec);
    player_run(&s->player, &renew, 1);
    player_run(&s->player, &claim_step, 1);
    assert_int_equal(s->player.ops[0].grant_count, 1);
    struct str token = s->player.ops[0].grants[0].result.token;
    s->clock += 3000;
    assert_true(is_due(s, DUE_RESOURCE));
    struct op lose[2] = {{.type = OP_TIMER_FIRED, .job = job}, {.type = OP_RESOURCE_GONE}};
    lose[0].timer.at = s->clock;
    lose[0].timer.resource_id = resource.id;
    lose[1].resource_gone.id = resource.id;
    lose[1].resource_gone.if_expired = true;
    player_run(&s->player, &renew, 1);
    player_run(&s->player, lose, 2);
    assert_int_equal(s->player.ops[0].code, ERR_INVALID_TRANSITION);
    assert_int_equal(s->player.ops[1].code, ERR_INVALID_TRANSITION);
    player_run(&s->player, &claim_step, 1);
    assert_int_equal(s->player.ops[0].grant_count, 1);
    struct op done = command_op(job, COMMAND_COMPLETE);
    done.command.token = token;
    player_run(&s->player, &done, 1);
    assert_int_equal(s->player.ops[0].code, ERR_OK);
}

static void a_resource_that_renews_before_it_is_lost_keeps_its_steps(void **state)
{
    on_every_store(state, renews_in_time);
}

/* ---- claims that lose ---- */

static void note_conflicts(void *arg, const struct batch_report *report)
{
    *(uint32_t *)arg += report->claim_conflicts;
}

static void loses(struct theatre *s)
{
    uint32_t conflicts = 0;
    struct observer observer = {.committed = note_conflicts, .arg = &conflicts};
    struct spec spec = spec_defaults(NULL);
    struct op claims[3] = {claim_op(), claim_op(), claim_op()};
    (void)submit(s, &spec);
    s->player.batcher.observer = &observer;
    /* One gets it, the others do not. */
    player_run(&s->player, claims, 3);
    assert_int_equal(s->player.ops[0].grant_count, 1);
    assert_int_equal(s->player.ops[1].grant_count + s->player.ops[2].grant_count, 0);
    assert_int_equal(conflicts, 2);
    /* Where there is nothing nobody loses; but who was woken for something that is gone does. */
    player_run(&s->player, claims, 3);
    assert_int_equal(conflicts, 2);
    claims[1].claim.woken = true;
    player_run(&s->player, claims, 3);
    assert_int_equal(conflicts, 3);
    s->player.batcher.observer = NULL;
}

static void claims_that_lose_to_others_are_counted(void **state)
{
    on_every_store(state, loses);
}

static int set_up(void **state)
{
    static struct theatre theatre;
    *state = &theatre;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_given_in_the_batch_of_an_old_timer_has_its_own),
        cmocka_unit_test(what_is_erased_is_not_requeued_in_the_same_batch),
        cmocka_unit_test(steps_that_begin_together_take_stored_signals_in_turn),
        cmocka_unit_test(a_batch_says_whether_work_that_it_had_locked_is_still_there),
        cmocka_unit_test(an_atomic_group_is_done_or_refused_as_one_beside_others),
        cmocka_unit_test(a_job_whose_kind_is_kept_for_longer_is_looked_at_again_then),
        cmocka_unit_test(a_bad_request_key_fails_alone_and_a_twin_waits),
        cmocka_unit_test(a_resource_that_renews_before_it_is_lost_keeps_its_steps),
        cmocka_unit_test(claims_that_lose_to_others_are_counted),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
