/* A batch from begin to commit. */
#include "engine/batch.h"

#include <assert.h>

#include "base/clock.h"
#include "base/random.h"
#include "engine/batch_private.h"

static void system_random(void *arg, void *ret, size_t len)
{
    (void)arg;
    random_fill(ret, len);
}

void batcher_init(struct batcher *batcher, struct store *store,
                  void (*random)(void *arg, void *ret, size_t len), void *random_arg)
{
    *batcher = (struct batcher){
        .store = store,
        .random = random != NULL ? random : system_random,
        .random_arg = random_arg,
    };
    arena_init(&batcher->lanes.arena);
    arena_init(&batcher->workers.arena);
}

void batcher_release(struct batcher *batcher)
{
    arena_release(&batcher->lanes.arena);
    arena_release(&batcher->workers.arena);
}

void batcher_see(struct batcher *batcher, int64_t now)
{
    enum { GRACE_MS = 60 * 1000 };
    bool first = batcher->up_since == 0;
    if (batcher->break_ms > 0 && (first || now - batcher->seen_at > batcher->break_ms)) {
        /* A break that follows so soon finds leases whose grace for the last is not over. */
        if (first || batcher->seen_at - batcher->up_since > GRACE_MS)
            batcher->down_since = batcher->seen_at;
        batcher->up_since = now;
    }
    if (now > batcher->seen_at)
        batcher->seen_at = now;
}

enum error_code batch_no_memory(struct batch *batch)
{
    return err_set(batch->err, ERR_NO_MEMORY, "out of memory");
}

static void take_random(struct batch *batch, void *ret, uint32_t len)
{
    assert(len <= RANDOM_FIRST);
    if (batch->random_used + len > batch->random_len) {
        batch->random_len = batch->random_len == 0 ? RANDOM_FIRST : RANDOM_BYTES;
        batch->batcher->random(batch->batcher->random_arg, batch->random, batch->random_len);
        batch->random_used = 0;
    }
    memcpy(ret, batch->random + batch->random_used, len);
    batch->random_used += len;
}

const struct kind_settings *batch_kind(const struct batch *batch, struct str kind)
{
    for (uint32_t i = 0; i < batch->load.kind_count; i++)
        if (str_eq(batch->load.kinds[i].kind, kind))
            return &batch->load.kinds[i].settings;
    return NULL;
}

int64_t batch_trusted(const struct batch *batch)
{
    int64_t trusted = batch->batcher->trusted;
    return trusted > 0 && trusted < batch->load.now ? trusted : batch->load.now;
}

struct context batch_times(const struct batch *batch)
{
    return (struct context){
        .now = batch->load.now,
        .beats_since = batch->batcher->store->beats_since,
        .down_since = batch->batcher->down_since,
        .up_since = batch->batcher->up_since,
        .lease_ttl_ms = batch->batcher->lease_ttl_ms,
        .cancel_grace_ms = batch->batcher->cancel_grace_ms,
        .arena = batch->arena,
    };
}

struct context batch_context(struct batch *batch, const struct job *job)
{
    struct context context = batch_times(batch);
    context.kind = batch_kind(batch, job->spec.kind);
    take_random(batch, &context.random, sizeof context.random);
    take_random(batch, context.secret, sizeof context.secret);
    take_random(batch, context.salt, sizeof context.salt);
    return context;
}

static struct str id_text(const struct uuid *id)
{
    return (struct str){(const char *)id->bytes, sizeof id->bytes};
}

struct batch_job *batch_job_find(struct batch *batch, struct uuid id)
{
    uint32_t place = map_get(&batch->index, id_text(&id));
    return place == MAP_NONE ? NULL : &batch->jobs[place];
}

enum error_code batch_jobs_reserve(struct batch *batch, uint32_t count)
{
    if (count <= batch->job_cap - batch->job_count)
        return ERR_OK;
    uint32_t cap = batch->job_count + count;
    struct batch_job *jobs =
        arena_grow(batch->arena, batch->jobs, batch->job_cap * sizeof *jobs, cap * sizeof *jobs);
    if (jobs == NULL)
        return batch_no_memory(batch);
    batch->jobs = jobs;
    batch->job_cap = cap;
    return ERR_OK;
}

enum error_code batch_job_add(struct batch *batch, struct job_slice *slice, struct batch_job **ret)
{
    assert(batch->job_count < batch->job_cap);
    assert(slice->job.changed == 0);
    struct batch_job *job = &batch->jobs[batch->job_count];
    *job = (struct batch_job){.before = slice, .now = slice};
    uint32_t found;
    if (map_put(&batch->index, id_text(&slice->job.id), batch->job_count, &found) != ERR_OK)
        return batch_no_memory(batch);
    assert(found == MAP_NONE);
    batch->job_count++;
    *ret = job;
    return ERR_OK;
}

struct job_slice *batch_slice_copy(struct batch *batch, const struct job_slice *slice)
{
    struct job_slice *copy = arena_alloc(batch->arena, sizeof *copy);
    if (copy != NULL)
        *copy = *slice;
    return copy;
}

struct step_mark *batch_step_mark(struct batch *batch, struct batch_job *job, uint32_t ordinal)
{
    for (uint32_t i = 0; i < job->mark_count; i++)
        if (job->marks[i].ordinal == ordinal)
            return &job->marks[i];
    if (job->mark_count == job->mark_cap) {
        uint32_t cap = job->mark_cap < 4 ? 4 : job->mark_cap * 2;
        struct step_mark *marks = arena_grow(batch->arena, job->marks,
                                             job->mark_cap * sizeof *marks, cap * sizeof *marks);
        if (marks == NULL)
            return NULL;
        job->marks = marks;
        job->mark_cap = cap;
    }
    job->marks[job->mark_count] = (struct step_mark){.ordinal = ordinal};
    return &job->marks[job->mark_count++];
}

static enum error_code take_named(struct batch *batch)
{
    map_init(&batch->index, batch->arena, batch->load.job_count + 8,
             batch->batcher->store->options.seed);
    enum error_code code = batch_jobs_reserve(batch, batch->load.job_count);
    for (uint32_t i = 0; i < batch->load.job_count && code == ERR_OK; i++) {
        struct batch_job *job;
        code = batch_job_add(batch, &batch->load.jobs[i].slice, &job);
    }
    return code;
}

/* The operations that stand or fall together with the one at `index`: [*ret_first, *ret_end). */
static void group_of(struct op *const *ops, uint32_t count, uint32_t index, uint32_t *ret_first,
                     uint32_t *ret_end)
{
    uint32_t first = index;
    uint32_t end = index + 1;
    while (first > 0 && (ops[first]->atomic_with_previous || ops[first]->same_request))
        first--;
    while (end < count && (ops[end]->atomic_with_previous || ops[end]->same_request))
        end++;
    *ret_first = first;
    *ret_end = end;
}

/* An operation of an atomic group was refused. When others of the group are done, or would be, the
 * whole transaction is given up: batch_run then runs the group apart from everybody else. */
static enum error_code give_up_group(struct batch *batch, uint32_t index)
{
    uint32_t first;
    uint32_t end;
    bool any = false;
    group_of(batch->ops, batch->op_count, index, &first, &end);
    for (uint32_t i = first; i < end && !any; i++)
        any = batch->ops[i]->code == ERR_OK && !op_is_repeated(batch->ops[i]);
    if (!any)
        return ERR_OK;
    for (uint32_t i = first; i < end; i++)
        if (i != index)
            batch->ops[i]->code = err_set(&batch->ops[i]->err, ERR_BATCH_REFUSED,
                                          "another operation of the batch was rejected");
    return err_set(batch->err, ERR_BATCH_REFUSED, "an operation of an atomic batch was rejected");
}

static enum error_code do_one(struct batch *batch, uint32_t index)
{
    enum error_code code = batch_execute(batch, index);
    if (code == ERR_OK && batch->ops[index]->code != ERR_OK)
        batch_take_back(batch, index);
    return code;
}

/* Everything up to the write; the transaction is open and stays open. */
static enum error_code execute(struct batch *batch)
{
    enum error_code code = batch_look_ahead(batch);
    if (code == ERR_OK)
        code = store_load(batch->txn, &batch->load, batch->arena, batch->err);
    if (code == ERR_OK) {
        batcher_see(batch->batcher, batch->load.now);
        code = take_named(batch);
    }
    if (code == ERR_OK)
        code = batch_check_requests(batch);
    if (code == ERR_OK)
        code = batch_apply_kind_defaults(batch);
    if (code == ERR_OK)
        code = batch_load_named(batch);
    if (code == ERR_OK)
        code = batch_search(batch);
    for (uint32_t i = 0; i < batch->op_count && code == ERR_OK; i++) {
        const struct op *op = batch->ops[i];
        if (op->code == ERR_OK && !op_is_repeated(op))
            code = batch_check_keys(batch, i);
        if (code == ERR_OK && op->code == ERR_OK && !op_is_repeated(op))
            code = do_one(batch, i);
        if (code == ERR_OK && op->atomic && op->code != ERR_OK)
            code = give_up_group(batch, i);
        if (code == ERR_OK && op->keeps_id && op->code != ERR_OK)
            code = err_set(batch->err, op->code, "%s", op->err.detail);
    }
    return code == ERR_OK ? batch_write(batch) : code;
}

/* Claims that found work and could not have it, and those that found none although they looked
 * where others did, or were woken for it. */
static uint32_t count_conflicts(const struct batch *batch)
{
    uint32_t count = batch->claim_conflicts;
    for (uint32_t i = 0; i < batch->op_count; i++) {
        const struct op *op = batch->ops[i];
        count += op->type == OP_CLAIM && op->code == ERR_OK && op->grant_count == 0 &&
                 !op_is_repeated(op) && (op->claim.lost || op->claim.woken);
    }
    return count;
}

/* Tells the observer of a batch that was committed. Without memory it is told of no changes. */
static void report(const struct batch *batch, int64_t began_us, int64_t written_us)
{
    const struct observer *observer = batch->batcher->observer;
    int64_t now_us = clock_monotonic_us();
    struct job_change *changes = arena_alloc(batch->arena, batch->job_count * sizeof *changes);
    struct batch_report report = {
        .now = batch->load.now,
        .took_us = now_us - began_us,
        .commit_us = now_us - written_us,
        .ops = batch->ops,
        .op_count = batch->op_count,
        .claim_conflicts = count_conflicts(batch),
        .changes = changes,
    };
    for (uint32_t i = 0; changes != NULL && i < batch->job_count; i++) {
        const struct batch_job *job = &batch->jobs[i];
        if (job->event_count > 0)
            changes[report.change_count++] = (struct job_change){
                .before = job->before,
                .after = job->now,
                .events = job->events,
                .event_count = job->event_count,
            };
    }
    observer->committed(observer->arg, &report);
}

/* Commits, and tells anyone who watches what came of it. */
static enum error_code commit(struct batch *batch, int64_t began_us, enum store_outcome *outcome)
{
    bool watched = batch->batcher->observer != NULL;
    int64_t written_us = watched ? clock_monotonic_us() : 0;
    enum error_code code = store_commit(batch->txn, outcome, batch->err);
    if (code == ERR_OK)
        batch_note_workers(batch);
    if (watched && code == ERR_OK)
        report(batch, began_us, written_us);
    return code;
}

/* What came of an operation in another run, but for its code. */
static void forget_outcome(struct op *op)
{
    op->refused_at = 0;
    op->after = NULL;
    op->grant_count = 0;
    op->met_outlived = op->cooldown = false;
    op->free_at = 0;
    op->request.record = (struct str){NULL, 0};
}

enum error_code batch_run_in(struct batcher *batcher, struct store_txn *txn, struct op *const *ops,
                             uint32_t count, struct arena *arena, enum store_outcome *outcome,
                             struct err *err)
{
    struct batch *batch = arena_zalloc(arena, 1, sizeof *batch);
    const struct observer *observer = batcher->observer;
    int64_t began_us = observer != NULL ? clock_monotonic_us() : 0;
    enum error_code code = ERR_OK;
    *outcome = STORE_NOT_COMMITTED;
    if (batch == NULL) {
        code = err_set(err, ERR_NO_MEMORY, "out of memory");
        goto undo;
    }
    batch->batcher = batcher;
    batch->txn = txn;
    batch->arena = arena;
    batch->err = err;
    batch->ops = ops;
    batch->op_count = count;
    for (uint32_t i = 0; i < count; i++) {
        ops[i]->code = ERR_OK;
        ops[i]->request.disposition = DISPOSITION_NEW;
        forget_outcome(ops[i]);
    }
    code = batch_collect(batch);
    if (code == ERR_OK)
        code = execute(batch);
    if (code == ERR_OK) {
        code = commit(batch, began_us, outcome);
        goto out;
    }
undo:
    store_rollback(txn);
out:
    if (observer != NULL && code != ERR_OK && code != ERR_BATCH_REFUSED)
        observer->failed(observer->arg, code);
    return code;
}

static enum error_code run_once(struct batcher *batcher, struct op *const *ops, uint32_t count,
                                struct arena *arena, enum store_outcome *outcome, struct err *err)
{
    struct store_txn *txn;
    *outcome = STORE_NOT_COMMITTED;
    enum error_code code = store_begin(batcher->store, STORE_WRITE, &txn, err);
    if (code == ERR_OK)
        return batch_run_in(batcher, txn, ops, count, arena, outcome, err);
    if (batcher->observer != NULL)
        batcher->observer->failed(batcher->observer->arg, code);
    return code;
}

/* A group that was refused as one has its codes: one operation its own, which is why. */
static void tell_all(struct op *const *ops, uint32_t count, enum error_code code,
                     const struct err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (code != ERR_BATCH_REFUSED) {
            ops[i]->code = code;
            ops[i]->err = *err;
        }
        forget_outcome(ops[i]);
        if (ops[i]->request.disposition != DISPOSITION_CLASHED)
            ops[i]->request.disposition = DISPOSITION_NEW;
    }
}

/* How many operations from the first on stand or fall together. One request is never torn apart:
 * its record tells of all of it. */
static uint32_t together(struct op *const *ops, uint32_t count)
{
    uint32_t first;
    uint32_t end;
    group_of(ops, count, 0, &first, &end);
    return end;
}

/* Runs each group in a transaction of its own. `unknown` is set when one may have been carried out
 * all the same. When the store is away the rest would only wait for it in turn. */
static enum error_code run_groups(struct batcher *batcher, struct op *const *ops, uint32_t count,
                                  struct arena *arena, bool *unknown)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0, n; i < count; i += n) {
        enum store_outcome outcome;
        struct err why = {0};
        n = together(ops + i, count - i);
        code = run_once(batcher, ops + i, n, arena, &outcome, &why);
        *unknown = *unknown || outcome == STORE_UNKNOWN;
        if (code == ERR_UNAVAILABLE)
            n = count - i;
        if (code != ERR_OK)
            tell_all(ops + i, n, code, &why);
    }
    return code;
}

/* After a refusal in an atomic group: what is not atomic runs as one transaction, each atomic group
 * in its own. So a refusal costs others one run more, however many groups are refused. */
static enum error_code run_apart(struct batcher *batcher, struct op *const *ops, uint32_t count,
                                 struct arena *arena, enum store_outcome *outcome, struct err *err)
{
    struct op **plain = arena_alloc(arena, count * sizeof(void *));
    struct op **atomic = arena_alloc(arena, count * sizeof(void *));
    uint32_t plain_count = 0;
    uint32_t atomic_count = 0;
    enum error_code code = ERR_OK;
    if (plain == NULL || atomic == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < count; i++)
        if (ops[i]->atomic)
            atomic[atomic_count++] = ops[i];
        else
            plain[plain_count++] = ops[i];
    if (plain_count > 0)
        code = run_once(batcher, plain, plain_count, arena, outcome, err);
    if (code == ERR_UNAVAILABLE || code == ERR_NO_MEMORY)
        return code;
    bool unknown = *outcome == STORE_UNKNOWN;
    if (code != ERR_OK)
        (void)run_groups(batcher, plain, plain_count, arena, &unknown);
    (void)run_groups(batcher, atomic, atomic_count, arena, &unknown);
    *outcome = unknown ? STORE_UNKNOWN : STORE_COMMITTED;
    return ERR_OK;
}

enum error_code batch_run(struct batcher *batcher, struct op *const *ops, uint32_t count,
                          struct arena *arena, enum store_outcome *outcome, struct err *err)
{
    assert(count > 0 && count <= BATCH_OPS_MAX);
    struct err why = {0};
    batcher->wakeups = (struct wakeups){.next_at = INT64_MAX};
    bool unknown = false;
    enum error_code code = run_once(batcher, ops, count, arena, outcome, &why);
    if (code == ERR_OK)
        return code;
    if (code == ERR_BATCH_REFUSED && together(ops, count) < count) {
        code = run_apart(batcher, ops, count, arena, outcome, &why);
        if (code == ERR_OK)
            return code;
    }
    bool alone = together(ops, count) == count || code == ERR_UNAVAILABLE || code == ERR_NO_MEMORY;
    if (alone) {
        tell_all(ops, count, code, &why);
        if (err != NULL)
            *err = why;
        return code;
    }
    /* One of them is to blame: the others shall not suffer. */
    (void)run_groups(batcher, ops, count, arena, &unknown);
    *outcome = unknown ? STORE_UNKNOWN : STORE_COMMITTED;
    return ERR_OK;
}

enum error_code batch_promote(struct batcher *batcher, uint32_t limit, uint32_t *ret_count,
                              struct err *err)
{
    struct store_txn *txn;
    enum store_outcome outcome;
    uint32_t count = 0;
    enum error_code code = store_begin(batcher->store, STORE_WRITE, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_promote(txn, limit, &count, err);
    if (code != ERR_OK || count == 0)
        store_rollback(txn);
    else
        code = store_commit(txn, &outcome, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}
