#include "store/fixture.h"

#include "core/job_state.h"
#include "core/retention.h"
#include "core/schedule_entry.h"

/* ---- setting up ---- */

static int64_t trial_clock(void *arg)
{
    struct trial *t = arg;
    return t->now;
}

int trial_setup(void **state)
{
    const struct store_factory *factory = *state;
    struct trial *t = calloc(1, sizeof *t);
    if (t == NULL)
        return -1;
    world_init(&t->w, 1);
    t->factory = factory;
    t->now = WORLD_START_MS;
    struct store_options options = {
        .clock = trial_clock,
        .clock_arg = t,
        .create = true,
        .seed = 7,
        .timeout_ms = 10 * 1000,
    };
    enum error_code code = factory->open(factory->arg, &options, &t->store, &t->w.err);
    if (code != ERR_OK) {
        print_error("%s: %s\n", error_info(code)->name, t->w.err.detail);
        world_release(&t->w);
        free(t);
        return -1;
    }
    *state = t;
    return 0;
}

int trial_teardown(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < TRIAL_OPEN_MAX; i++)
        if (t->open[i] != NULL)
            store_rollback(t->open[i]);
    store_close(t->store);
    t->factory->discard(t->factory->arg);
    world_release(&t->w);
    free(t);
    return 0;
}

void ok_(struct trial *t, enum error_code code, const char *file, int line)
{
    if (code == ERR_OK)
        return;
    print_error("%s: %s\n", error_info(code)->name, t->w.err.detail);
    _fail(file, line);
}

/* ---- transactions ---- */

struct store_txn *begin(struct trial *t, enum store_mode mode)
{
    struct store_txn *txn = NULL;
    int slot = 0;
    while (slot < TRIAL_OPEN_MAX && t->open[slot] != NULL)
        slot++;
    assert_in_range(slot, 0, TRIAL_OPEN_MAX - 1);
    ok(t, store_begin(t->store, mode, &txn, &t->w.err));
    t->open[slot] = txn;
    return txn;
}

static void forget(struct trial *t, const struct store_txn *txn)
{
    for (int i = 0; i < TRIAL_OPEN_MAX; i++)
        if (t->open[i] == txn)
            t->open[i] = NULL;
}

void rollback(struct trial *t, struct store_txn *txn)
{
    forget(t, txn);
    store_rollback(txn);
}

struct store_txn *begin_empty(struct trial *t, struct store_load *ret_load)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct store_load load = {0};
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    if (ret_load != NULL)
        *ret_load = load;
    return txn;
}

void commit(struct trial *t, struct store_txn *txn)
{
    enum store_outcome outcome = STORE_UNKNOWN;
    forget(t, txn);
    ok(t, store_commit(txn, &outcome, &t->w.err));
    assert_int_equal(outcome, STORE_COMMITTED);
}

struct job_slice load_rest(struct trial *t, struct store_txn *txn, const struct job_slice *header)
{
    struct job_slice slice = *header;
    struct store_parts parts = {
        .job = slice.job.id, .all_steps = true, .all_effects = true, .all_signals = true};
    if (slice.job.status == JOB_NONE)
        return slice;
    ok(t, store_load_parts(txn, &parts, 1, &t->w.arena, &t->w.err));
    slice.steps = parts.steps;
    slice.step_count = parts.step_count;
    slice.effects = parts.effects;
    slice.effect_count = slice.effect_cap = parts.effect_count;
    slice.signals = parts.signals;
    slice.signal_count = slice.signal_cap = parts.signal_count;
    ok(t, job_slice_index(&slice, &t->w.arena));
    return slice;
}

struct job_slice load_whole(struct trial *t, struct store_txn *txn, struct uuid id)
{
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    assert_true(uuid_eq(job.slice.job.id, id));
    return load_rest(t, txn, &job.slice);
}

enum error_code decide(struct trial *t, const struct job_slice *slice,
                       const struct command *command, struct change *ret)
{
    struct context context = {
        .now = t->now,
        .random = world_random(&t->w),
        .arena = &t->w.arena,
    };
    for (size_t i = 0; i < sizeof context.secret; i++)
        context.secret[i] = (uint8_t)world_random(&t->w);
    for (size_t i = 0; i < sizeof context.salt; i++)
        context.salt[i] = (uint8_t)world_random(&t->w);
    struct decision decision;
    enum error_code code = job_decide(slice, command, &context, &decision, &t->w.err);
    if (code != ERR_OK)
        return code;
    ok(t, decision_seal(&decision, slice->job.head, &t->w.arena, &t->w.err));
    *ret = (struct change){
        .before = *slice,
        .after = decision.after,
        .events = decision.events,
        .event_count = decision.count,
        .taken_step = STEP_NONE,
        .result = decision.result,
    };
    if (str_is_set(decision.result.token))
        t->w.token = decision.result.token;
    return ERR_OK;
}

static void list_parts(struct trial *t, struct change *change, struct store_job_write *write)
{
    struct job_slice *after = &change->after;
    const struct effect **effects =
        arena_zalloc(&t->w.arena, after->effect_count + 1, sizeof(void *));
    const struct signal **signals =
        arena_zalloc(&t->w.arena, after->signal_count + 1, sizeof(void *));
    for (uint32_t i = 0; i < after->effect_count; i++)
        if (change->redact || after->effects[i].changed)
            effects[write->effect_count++] = &after->effects[i];
    for (uint32_t i = 0; i < after->signal_count; i++)
        if (change->redact || after->signals[i].changed)
            signals[write->signal_count++] = &after->signals[i];
    write->effects = effects;
    write->signals = signals;
}

/* Steps that have changed, or were taken out of their lanes. */
static void list_steps(struct trial *t, struct change *change, struct store_job_write *write)
{
    struct job_slice *after = &change->after;
    struct store_step_write *steps =
        arena_zalloc(&t->w.arena, after->step_count + 1, sizeof *steps);
    for (uint32_t i = 0; i < after->step_count; i++) {
        const struct step *step = &after->steps[i];
        const struct step *before =
            write->plan_replaced ? NULL : job_step_at(&change->before, step->ordinal);
        bool taken = step->ordinal == change->taken_step;
        if (step->changed == 0 && !taken && !change->redact)
            continue;
        struct store_step_write *one = &steps[write->step_count++];
        one->step = step;
        one->changed = change->redact ? CHANGED_ALL : step->changed;
        if (before != NULL)
            ok(t, schedule_entry_of_step(&change->before.job, before, &t->w.arena, &one->was,
                                         &t->w.err));
        ok(t, schedule_entry_of_step(&after->job, step, &t->w.arena, &one->now, &t->w.err));
        if (taken)
            one->was.lane = absent;
        if (store_row_same(one->changed) && one->was.leased && one->now.leased)
            one->now.due_at = one->was.due_at;
    }
    write->steps = steps;
}

struct store_job_write write_of(struct trial *t, struct change *change)
{
    const struct job *before = &change->before.job;
    const struct job *after = &change->after.job;
    bool created = before->status == JOB_NONE;
    struct store_job_write write = {
        .after = &change->after,
        .events = change->events,
        .event_count = change->event_count,
        .created = created,
        .changed = created || change->redact ? CHANGED_ALL : after->changed,
        .purge_at = job_purge_at(after, NULL),
        .plan_replaced =
            !created && before->plan_version > 0 && before->plan_version != after->plan_version,
        .steps_closed = job_takes_step_claims(before) && !job_takes_step_claims(after),
        .steps_ended = job_has_plan(after) && job_status_terminal(after->status),
        .redact = change->redact,
    };
    if (change->redact)
        job_redact(&change->after);
    if (!created)
        ok(t, schedule_entry_of_job(before, &t->w.arena, &write.was, &t->w.err));
    ok(t, schedule_entry_of_job(after, &t->w.arena, &write.now, &t->w.err));
    if (change->taken)
        write.was.lane = absent;
    if (store_row_same(write.changed) && write.was.leased && write.now.leased)
        write.now.due_at = write.was.due_at;
    list_parts(t, change, &write);
    list_steps(t, change, &write);
    return write;
}

enum error_code write_job(struct trial *t, struct store_txn *txn, const struct store_job_write *job)
{
    struct store_write write = {.jobs = job, .job_count = 1};
    return store_write(txn, &write, &t->w.err);
}

enum error_code write_one(struct trial *t, struct store_txn *txn, struct change *change)
{
    struct store_job_write job = write_of(t, change);
    return write_job(t, txn, &job);
}

enum error_code refused_write(struct trial *t, struct store_txn *txn,
                              const struct store_write *write)
{
    enum error_code code = store_write(txn, write, &t->w.err);
    if (code != ERR_OK) {
        rollback(t, txn);
        return code;
    }
    enum store_outcome outcome = STORE_COMMITTED;
    forget(t, txn);
    code = store_commit(txn, &outcome, &t->w.err);
    assert_int_not_equal(code, ERR_OK);
    assert_int_equal(outcome, STORE_NOT_COMMITTED);
    return code;
}

/* ---- one command in one transaction ---- */

struct decision_result act_(struct trial *t, struct uuid id, struct command command,
                            const char *file, int line)
{
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct change change;
    ok_(t, decide(t, &slice, &command, &change), file, line);
    ok_(t, write_one(t, txn, &change), file, line);
    commit(t, txn);
    struct job_slice read = whole(t, id);
    assert_same_row_(t, &read, &change.after, file, line);
    return change.result;
}

struct uuid new_id(struct trial *t)
{
    /* Rising as they are given out. */
    uint32_t number = t->job_count + 1;
    uint8_t random[10] = {0};
    for (int i = 0; i < 4; i++)
        random[4 + i] = (uint8_t)(number >> (24 - 8 * i));
    return uuid_v7(WORLD_START_MS, random);
}

struct uuid submit_spec(struct trial *t, const char *name, struct spec spec)
{
    assert_true(t->job_count < TRIAL_JOBS_MAX);
    struct uuid id = new_id(t);
    spec.goal = str_from(name);
    t->ids[t->job_count] = id;
    t->names[t->job_count++] = arena_copy(&t->w.arena, str_from(name));
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    act(t, id, command);
    return id;
}

struct uuid submit(struct trial *t, const char *name)
{
    return submit_spec(t, name, world_spec());
}

struct uuid submit_plan(struct trial *t, const char *name, const char *steps)
{
    struct spec spec = world_spec();
    struct buf buf;
    buf_init(&buf, &t->w.arena, strlen(steps) + 16);
    buf_add(&buf, STR("{\"steps\":"));
    buf_add(&buf, js(&t->w, steps));
    buf_add_char(&buf, '}');
    spec.plan = buf_str(&buf);
    return submit_spec(t, name, spec);
}

struct store_search search_all(struct trial *t, struct store_txn *txn, uint32_t max)
{
    struct store_lane *lanes;
    uint32_t count;
    ok(t, store_lanes(txn, 0, &t->w.arena, &lanes, &count, &t->w.err));
    uint32_t *numbers = arena_zalloc(&t->w.arena, count + 1, sizeof *numbers);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = lanes[i].number;
    struct store_search search = {
        .lanes = numbers, .group_ends = &count, .group_count = count > 0, .max = max};
    ok(t, store_candidates(txn, &search, 1, &t->w.arena, &t->w.err));
    assert_in_range(search.found_count, 0, max);
    search.group_ends = NULL;
    return search;
}

const char *claim_next(struct trial *t, const char *resource)
{
    struct store_txn *txn = begin_empty(t, NULL);
    struct store_search search = search_all(t, txn, 1);
    if (search.found_count == 0) {
        rollback(t, txn);
        return "";
    }
    uint32_t step = search.found[0].step;
    struct job_slice slice = load_rest(t, txn, &search.found[0].slice);
    struct command command = claim_by("w1", true);
    struct resource on = {.id = str_from(resource), .slots = 100, .expires_at = at(1000000)};
    if (step != STEP_NONE) {
        const struct step *found = job_step_at(&slice, step);
        assert_non_null(found);
        command.type = COMMAND_STEP_CLAIM;
        command.step = found->spec.id;
        command.claim.resource = resource == NULL ? NULL : &on;
    }
    struct change change;
    ok(t, decide(t, &slice, &command, &change));
    change.taken = step == STEP_NONE;
    change.taken_step = step;
    ok(t, write_one(t, txn, &change));
    commit(t, txn);
    struct job_slice read = whole(t, slice.job.id);
    assert_same_row(t, &read, &change.after);
    return name_of(t, slice.job.id, step);
}

void write_other(struct trial *t, const struct store_write *write)
{
    struct store_txn *txn = begin_empty(t, NULL);
    ok(t, store_write(txn, write, &t->w.err));
    commit(t, txn);
}

void put_resource(struct trial *t, const char *id, int64_t expires_at)
{
    struct resource resource = {.id = str_from(id), .slots = 10, .expires_at = expires_at};
    write_other(t, &(struct store_write){.resources = &resource, .resource_count = 1});
}

uint32_t promote(struct trial *t, uint32_t limit)
{
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t count = UINT32_MAX;
    ok(t, store_promote(txn, limit, &count, &t->w.err));
    commit(t, txn);
    assert_in_range(count, 0, limit);
    return count;
}

struct str filled(struct trial *t, char c, size_t count)
{
    char *bytes = arena_alloc(&t->w.arena, count + 1);
    assert_non_null(bytes);
    memset(bytes, c, count);
    return (struct str){bytes, count};
}
