#include "players.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "core/verify.h"
#include "run_ops.h"

uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

int64_t player_clock(void *arg)
{
    return *(const int64_t *)arg;
}

static void player_random(void *arg, void *ret, size_t len)
{
    uint8_t *bytes = ret;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = next_random(arg);
        memcpy(bytes + i, &word, len - i < 8 ? len - i : 8);
    }
}

/* A store that cannot be used ends the test at once. */
static void must(const struct player *player, const char *what, enum error_code code,
                 const struct err *err)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "%s: %s: %s: %s\n", player->name, what, error_info(code)->name, err->detail);
    abort();
}

void player_open(struct player *player, const char *name, const char *url, const int64_t *clock,
                 uint64_t seed)
{
    struct store_options options = {
        .clock = player_clock, .clock_arg = (void *)(uintptr_t)clock, .create = true, .seed = 1};
    struct err err = {0};
    *player = (struct player){.name = name, .clock = clock, .random = seed};
    must(player, "open", store_open(str_from(url), &options, &player->store, &err), &err);
    batcher_init(&player->batcher, player->store, player_random, &player->random);
    arena_init(&player->arena);
}

void player_close(struct player *player)
{
    batcher_release(&player->batcher);
    store_close(player->store);
    arena_release(&player->arena);
}

static void tell_answer(struct buf *buf, const struct decision_result *answer)
{
    buf_addf(buf,
             " repeated=%d duplicate=%d token=%.*s expires=%lld cancel=%d wake=%d signal=%d "
             "effect=%d",
             answer->repeated, answer->duplicate, STR_ARG(answer->token),
             (long long)answer->expires_at, answer->cancel_requested, answer->wake, answer->signal,
             answer->effect);
    buf_add(buf, STR(" result="));
    buf_add(buf, answer->effect_result);
    buf_addf(buf, " key=%.*s\n", STR_ARG(answer->effect_idempotency_key));
}

static void tell_op(struct buf *buf, const struct op *op)
{
    buf_addf(buf, "op %d command %d: %s", op->type, op->command.type, error_info(op->code)->name);
    if (op->code != ERR_OK)
        buf_addf(buf, " (%s)", op->err.detail);
    buf_addf(buf, " request=%d", op_is_repeated(op));
    if (op_is_repeated(op))
        buf_add_hex(buf, (const uint8_t *)op->request.record.at, op->request.record.len);
    buf_add_char(buf, '\n');
    if (op->code != ERR_OK || op_is_repeated(op))
        return;
    if (op->type == OP_COMMAND || op->type == OP_TIMER_FIRED) {
        tell_answer(buf, &op->result);
        job_row_write(op->after, buf);
        buf_add_char(buf, '\n');
    }
    for (uint32_t i = 0; i < op->grant_count; i++) {
        buf_addf(buf, "grant step=%d",
                 op->grants[i].step == NULL ? -1 : (int)op->grants[i].step->ordinal);
        tell_answer(buf, &op->grants[i].result);
        job_row_write(op->grants[i].slice, buf);
        buf_add_char(buf, '\n');
    }
}

void player_run(struct player *player, const struct op *ops, uint32_t count)
{
    struct err err = {0};
    enum store_outcome outcome;
    struct buf buf;
    player->ops = arena_zalloc(&player->arena, count, sizeof *ops);
    assert(player->ops != NULL);
    memcpy(player->ops, ops, count * sizeof *ops);
    player->op_count = count;
    enum error_code code =
        run_ops(&player->batcher, player->ops, count, &player->arena, &outcome, &err);
    if (code != ERR_BATCH_REFUSED)
        must(player, "batch", code, &err);
    assert(outcome == (code == ERR_OK ? STORE_COMMITTED : STORE_NOT_COMMITTED));
    buf_init(&buf, &player->arena, 4096);
    for (uint32_t i = 0; i < count; i++)
        tell_op(&buf, &player->ops[i]);
    assert(!buf.failed);
    player->told = buf_str(&buf);
}

void player_promote(struct player *player, uint32_t limit)
{
    struct err err = {0};
    uint32_t count = 0;
    struct buf buf;
    must(player, "promote", batch_promote(&player->batcher, limit, &count, &err), &err);
    buf_init(&buf, &player->arena, 64);
    buf_addf(&buf, "promoted %u\n", count);
    player->told = buf_str(&buf);
}

static int by_due(const void *a, const void *b)
{
    const struct store_due *left = a;
    const struct store_due *right = b;
    if (left->what != right->what)
        return left->what < right->what ? -1 : 1;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    int order = memcmp(left->job.bytes, right->job.bytes, 16);
    if (order != 0)
        return order;
    if (left->step != right->step)
        return left->step + 1 < right->step + 1 ? -1 : 1;
    return str_cmp(left->resource_id, right->resource_id);
}

static void tell_due(struct buf *buf, const struct store_due *due, uint32_t count, int64_t next)
{
    for (uint32_t i = 0; i < count; i++) {
        buf_addf(buf, "due %d %lld ", due[i].what, (long long)due[i].at);
        buf_add_hex(buf, due[i].job.bytes, 16);
        buf_addf(buf, " %d %.*s\n", (int)due[i].step, STR_ARG(due[i].resource_id));
    }
    buf_addf(buf, "next %lld\n", (long long)next);
}

static struct store_due *look_for_due(struct player *player, uint32_t limit, uint32_t *ret_count,
                                      int64_t *ret_next)
{
    struct store_due *due = NULL;
    struct err err = {0};
    int64_t now;
    must(player, "due",
         store_due(player->store, limit, &player->arena, &due, ret_count, &now, ret_next, &err),
         &err);
    assert(now == *player->clock);
    if (*ret_count > 1)
        qsort(due, *ret_count, sizeof *due, by_due);
    return due;
}

/* Before and after a transaction that reads, for which all rows are written: the same is due, and
 * only then is it certain when the next thing will be. */
static struct store_due *all_due(struct player *player, uint32_t limit, uint32_t *ret_count,
                                 int64_t *ret_next)
{
    struct store_txn *txn;
    struct err err = {0};
    uint32_t count;
    int64_t next;
    const struct store_due *before = look_for_due(player, limit, &count, &next);
    must(player, "read", store_begin(player->store, STORE_READ, &txn, &err), &err);
    store_rollback(txn);
    struct store_due *due = look_for_due(player, limit, ret_count, ret_next);
    assert(count == *ret_count && next <= *ret_next);
    for (uint32_t i = 0; i < count; i++)
        assert(by_due(&before[i], &due[i]) == 0);
    return due;
}

struct op *player_due(struct player *player, uint32_t limit, uint32_t *ret_count)
{
    uint32_t count;
    int64_t next;
    struct store_due *due = all_due(player, limit, &count, &next);
    struct op *ops = arena_zalloc(&player->arena, count + 1, sizeof *ops);
    uint32_t kept = 0;
    struct buf buf;
    assert(ops != NULL);
    buf_init(&buf, &player->arena, 256);
    tell_due(&buf, due, count, next);
    player->told = buf_str(&buf);
    for (uint32_t i = 0; i < count; i++) {
        if (due[i].what == DUE_RESOURCE)
            continue;
        ops[kept] = (struct op){.job = due[i].job};
        ops[kept].type = due[i].what == DUE_JOB ? OP_TIMER_FIRED : OP_PURGE;
        ops[kept].timer.step = due[i].step;
        ops[kept].timer.at = due[i].at;
        kept++;
    }
    *ret_count = kept;
    return ops;
}

static void dump_event(struct buf *buf, const struct event *event)
{
    buf_addf(buf, "  %lld %.*s %lld %.*s %.*s %.*s", (long long)event->version,
             STR_ARG(event_name(event)), (long long)event->at, STR_ARG(event->actor),
             STR_ARG(event->cause_text), STR_ARG(event->correlation_id));
    buf_addf(buf, " redacted=%d ", event->redacted);
    buf_add(buf, str_is_set(event->payload) ? event->payload : STR("absent"));
    buf_add_char(buf, ' ');
    buf_add_hex(buf, event->digest, HASH_LEN);
    buf_add_char(buf, ' ');
    buf_add_hex(buf, event->hash, HASH_LEN);
    buf_add_char(buf, '\n');
}

/* All events of a job, page by page. */
static struct event *read_events(struct player *player, struct store_txn *txn, struct uuid job,
                                 bool telemetry, uint32_t *ret_count)
{
    struct event *all = NULL;
    uint32_t count = 0;
    uint32_t limit = telemetry ? STORE_EVENTS_MAX : 25; /* telemetry has no version to go on from */
    struct err err = {0};
    for (;;) {
        struct event *page = NULL;
        uint32_t got = 0;
        int64_t after = count == 0 ? 0 : all[count - 1].version;
        must(player, "events",
             store_events(txn,
                          &(struct store_stream){
                              .job = job, .after = after, .limit = limit, .telemetry = telemetry},
                          &player->arena, &page, &got, &err),
             &err);
        all = arena_grow(&player->arena, all, count * sizeof *all, (count + got + 1) * sizeof *all);
        assert(all != NULL);
        if (got > 0)
            memcpy(all + count, page, got * sizeof *all);
        count += got;
        if (got < limit)
            break;
    }
    *ret_count = count;
    return all;
}

static void verify(struct player *player, struct buf *buf, const struct job_slice *row,
                   struct event *events, uint32_t count)
{
    struct err err = {0};
    struct verify_report report;
    for (uint32_t i = 0; i < count; i++)
        if (event_open(&events[i], 1, &player->arena, &err) != ERR_OK)
            buf_addf(buf, "VIOLATION: cannot open event %u: %s\n", i, err.detail);
    struct verify_input input = {
        .id = row->job.id,
        .events = events,
        .count = count,
        .salt = row->job.redacted ? NULL : row->job.salt,
        .row = row,
        .seed = 1,
    };
    must(player, "verify", job_verify(&input, &player->arena, &report, &err), &err);
    for (uint32_t i = 0; i < report.violation_count; i++)
        buf_addf(buf, "VIOLATION of %.*s at %lld: %.*s\n",
                 STR_ARG(verify_rule_name(report.violations[i].rule)),
                 (long long)report.violations[i].version, STR_ARG(report.violations[i].detail));
}

static void dump_job(struct player *player, struct store_txn *txn, struct buf *buf,
                     const struct store_job *job)
{
    struct err err = {0};
    struct job_slice whole = job->slice;
    struct store_parts parts = {
        .job = job->slice.job.id, .all_steps = true, .all_effects = true, .all_signals = true};
    must(player, "parts", store_load_parts(txn, &parts, 1, &player->arena, &err), &err);
    whole.steps = parts.steps;
    whole.step_count = parts.step_count;
    whole.effects = parts.effects;
    whole.effect_count = parts.effect_count;
    whole.signals = parts.signals;
    whole.signal_count = parts.signal_count;
    buf_addf(buf, "job redacted=%d ", whole.job.redacted);
    job_row_write(&whole, buf);
    buf_add_char(buf, '\n');
    uint32_t count;
    struct event *events = read_events(player, txn, whole.job.id, false, &count);
    for (uint32_t i = 0; i < count; i++)
        dump_event(buf, &events[i]);
    verify(player, buf, &whole, events, count);
    events = read_events(player, txn, whole.job.id, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (events[i].type != EVENT_JOB_LEASE_RENEWED) /* which need not be kept */
            dump_event(buf, &events[i]);
}

/* One page of the feed, told. */
static uint32_t feed_page(struct player *player, struct buf *buf)
{
    struct store_txn *txn;
    struct store_fed *page = NULL;
    struct err err = {0};
    uint32_t count = 0;
    must(player, "begin", store_begin(player->store, STORE_READ, &txn, &err), &err);
    must(player, "feed", store_feed(txn, player->position, 50, &player->arena, &page, &count, &err),
         &err);
    store_rollback(txn);
    for (uint32_t i = 0; i < count; i++) {
        buf_add_hex(buf, page[i].event.job_id.bytes, 16);
        buf_addf(buf, "#%lld ", (long long)page[i].event.version);
        player->position = page[i].position;
    }
    return count;
}

void player_feed(struct player *player, uint32_t expected)
{
    enum { TRIES = 10000 };
    struct buf buf;
    uint32_t count = 0;
    buf_init(&buf, &player->arena, 4096);
    for (int i = 0; i < TRIES; i++) {
        uint32_t got = feed_page(player, &buf);
        count += got;
        if (got == 0 && count >= expected)
            break;
        if (got == 0)
            (void)usleep(1000);
    }
    player->told = buf_str(&buf);
    player->fed = count;
}

/* Who is registered, and who holds leases, in one queue and in all. */
static void dump_workers(struct player *player, struct store_txn *txn, struct buf *buf)
{
    struct str queue = STR("mail");
    const struct names queues[] = {{&queue, 1}};
    struct worker *workers = NULL;
    struct err err = {0};
    uint32_t count = 0;
    must(player, "registrations", store_registrations(txn, &player->arena, &workers, &count, &err),
         &err);
    for (uint32_t i = 0; i < count; i++) {
        buf_addf(buf, "worker %.*s until %lld ", STR_ARG(workers[i].id),
                 (long long)workers[i].expires_at);
        worker_state_write(&workers[i], buf);
        buf_add_char(buf, '\n');
    }
    for (int k = 0; k < 2; k++) {
        struct store_worker *holders = NULL;
        must(player, "workers",
             store_workers(txn, k == 0 ? NULL : queues, &player->arena, &holders, &count, &err),
             &err);
        for (uint32_t i = 0; i < count; i++)
            buf_addf(buf, "holder %.*s %.*s %lld\n", STR_ARG(holders[i].worker_id),
                     STR_ARG(holders[i].resource_id), (long long)holders[i].leases);
    }
}

struct str player_dump(struct player *player, int64_t since)
{
    struct buf buf;
    struct store_txn *txn;
    struct err err = {0};
    struct store_filter filter = {.created_after = since, .limit = 9};
    uint32_t count = 0;
    int64_t next;
    buf_init(&buf, &player->arena, 65536);
    must(player, "begin", store_begin(player->store, STORE_READ, &txn, &err), &err);
    for (;;) {
        struct store_job *page = NULL;
        must(player, "list", store_list(txn, &filter, &player->arena, &page, &count, &err), &err);
        for (uint32_t i = 0; i < count; i++)
            dump_job(player, txn, &buf, &page[i]);
        if (count == 0)
            break;
        filter.before = page[count - 1].id;
    }
    dump_workers(player, txn, &buf);
    store_rollback(txn);
    struct store_due *due = all_due(player, 1000, &count, &next);
    tell_due(&buf, due, count, next);
    buf_add_char(&buf, '\0'); /* for those who search in it */
    assert(!buf.failed);
    return (struct str){buf.at, buf.len - 1};
}
