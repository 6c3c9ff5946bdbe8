#include "hostile.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "players.h"
#include "run_ops.h"

enum { HOUR_MS = 60 * 60 * 1000, SORTS = 6 };

const struct str hostile_queues[HOSTILE_QUEUES] = {STR_INIT("mail"), STR_INIT("web")};
const struct str hostile_kinds[HOSTILE_KINDS] = {STR_INIT("read"), STR_INIT("send")};
const struct str hostile_capability = STR_INIT("gpu");

static void must(const char *what, enum error_code code, const struct err *err)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, error_info(code)->name, err->detail);
    abort();
}

void hostile_run(struct batcher *batcher, struct op *ops, uint32_t count, struct arena *arena)
{
    struct err err = {0};
    enum store_outcome outcome;
    must("batch", run_ops(batcher, ops, count, arena, &outcome, &err), &err);
    for (uint32_t i = 0; i < count; i++)
        must("operation", ops[i].code, &ops[i].err);
}

static struct uuid random_id(uint64_t *random)
{
    uint64_t words[2] = {next_random(random), next_random(random)};
    return uuid_v7(HOSTILE_NOW, (const uint8_t *)words);
}

void hostile_submit(struct batcher *batcher, const struct spec *spec, uint32_t count,
                    uint64_t *random, struct uuid *ret_ids)
{
    struct arena arena;
    arena_init(&arena);
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < BATCH_OPS_MAX ? count - done : BATCH_OPS_MAX;
        struct op *ops = arena_zalloc(&arena, part, sizeof *ops);
        assert(ops != NULL);
        for (uint32_t i = 0; i < part; i++) {
            ops[i].type = OP_COMMAND;
            ops[i].job = random_id(random);
            ops[i].command.type = COMMAND_SUBMIT;
            ops[i].command.actor = STR("test");
            ops[i].command.submit.spec = spec;
            if (ret_ids != NULL)
                ret_ids[done + i] = ops[i].job;
        }
        hostile_run(batcher, ops, part, &arena);
        done += part;
        arena_clear(&arena);
    }
    arena_release(&arena);
}

static struct grant *claim(struct batcher *batcher, struct str kind, uint32_t max,
                           struct arena *arena)
{
    struct op op = {.type = OP_CLAIM};
    op.command = (struct command){.type = COMMAND_CLAIM, .actor = STR("w")};
    op.command.claim.worker_id = STR("w");
    op.command.claim.start = true;
    op.command.claim.terms.lease_ttl_ms = 60 * 1000;
    op.claim.claimer.work = LANE_JOBS;
    op.claim.claimer.kinds = (struct names){&kind, 1};
    op.claim.max = max;
    hostile_run(batcher, &op, 1, arena);
    assert(op.grant_count == max);
    return op.grants;
}

/* Submits jobs, has them claimed, and lets each second one fail and the others wait. */
static void submit_held_back(struct batcher *batcher, const struct spec *spec, uint32_t count,
                             uint64_t *random)
{
    struct arena arena;
    arena_init(&arena);
    for (uint32_t done = 0; done < count;) {
        uint32_t part = count - done < CLAIM_MAX ? count - done : CLAIM_MAX;
        hostile_submit(batcher, spec, part, random, NULL);
        struct grant *grants = claim(batcher, spec->kind, part, &arena);
        struct op *ops = arena_zalloc(&arena, part, sizeof *ops);
        assert(ops != NULL);
        for (uint32_t i = 0; i < part; i++) {
            ops[i].type = OP_COMMAND;
            ops[i].job = grants[i].slice->job.id;
            ops[i].command.actor = STR("w");
            ops[i].command.token = grants[i].result.token;
            if (i % 2 == 0) {
                ops[i].command.type = COMMAND_FAIL;
                ops[i].command.fail.message = STR("no");
                ops[i].command.fail.has_retry_after = true;
                ops[i].command.fail.retry_after_ms = HOUR_MS;
            } else {
                ops[i].command.type = COMMAND_WAIT;
                ops[i].command.wait.type = WAIT_SIGNAL;
                ops[i].command.wait.correlation_key = STR("never");
                ops[i].command.wait.timeout_ms = HOUR_MS;
            }
        }
        hostile_run(batcher, ops, part, &arena);
        done += part;
        arena_clear(&arena);
    }
    arena_release(&arena);
}

static void fill_front(struct batcher *batcher, uint32_t count, uint64_t random)
{
    struct arena arena;
    struct spec front = spec_defaults(NULL);
    uint32_t part = count / SORTS;
    front.queue = hostile_queues[0];
    front.kind = hostile_kinds[0];
    front.priority = 100;
    front.run_at = HOSTILE_NOW - HOUR_MS;
    submit_held_back(batcher, &front, 2 * part, &random);
    struct spec other = front;
    other.kind = STR("other");
    hostile_submit(batcher, &other, part, &random, NULL);
    other = front;
    other.capabilities = STR("[\"crane\"]");
    hostile_submit(batcher, &other, part, &random, NULL);
    other = front;
    other.run_at = HOSTILE_NOW + INT64_C(24) * HOUR_MS;
    hostile_submit(batcher, &other, part, &random, NULL);
    other = front;
    other.queue = STR("stopped");
    hostile_submit(batcher, &other, part, &random, NULL);
    struct op pause = {.type = OP_QUEUE, .queue = {STR("stopped"), true}};
    arena_init(&arena);
    hostile_run(batcher, &pause, 1, &arena);
    arena_release(&arena);
}

/* A tree: each step but the first depends on one before it. */
static void submit_plan(struct batcher *batcher, uint64_t *random, struct uuid *ret)
{
    struct arena arena;
    struct buf buf;
    struct spec spec = spec_defaults(NULL);
    arena_init(&arena);
    buf_init(&buf, &arena, 65536);
    buf_addf(&buf, "{\"steps\":[");
    for (uint32_t i = 0; i < HOSTILE_STEPS; i++) {
        buf_addf(&buf, "%s{\"id\":\"s%u\",\"kind\":\"step\",\"deps\":[", i == 0 ? "" : ",", i);
        if (i > 0)
            buf_addf(&buf, "\"s%u\"", (i - 1) / HOSTILE_CHILDREN);
        buf_addf(&buf, "]}");
    }
    buf_addf(&buf, "]}");
    assert(!buf.failed);
    spec.kind = STR("plan");
    spec.plan = buf_str(&buf);
    hostile_submit(batcher, &spec, 1, random, ret);
    arena_release(&arena);
}

void hostile_fill(struct store *store, struct hostile *hostile)
{
    struct batcher batcher;
    struct arena arena;
    uint32_t done = 0;
    uint64_t random = 2 * hostile->round + 2; /* the same ids whatever is in front */
    batcher_init(&batcher, store, NULL, NULL);
    arena_init(&arena);
    fill_front(&batcher, hostile->front, 2 * hostile->round + 1);
    struct spec spec = spec_defaults(NULL);
    spec.kind = STR("leased");
    hostile_submit(&batcher, &spec, hostile->leased, &random, NULL);
    if (hostile->leased > 0)
        (void)claim(&batcher, spec.kind, hostile->leased, &arena);
    for (uint32_t lane = 0; lane < HOSTILE_LANES; lane++) {
        spec.queue = hostile_queues[lane / 4];
        spec.kind = hostile_kinds[lane / 2 % 2];
        spec.capabilities = lane % 2 == 0 ? (struct str){NULL, 0} : STR("[\"gpu\"]");
        spec.run_at = HOSTILE_NOW;
        hostile_submit(&batcher, &spec, hostile->lane, &random, hostile->ids + done);
        done += hostile->lane;
    }
    spec.capabilities = (struct str){NULL, 0};
    spec.run_at = HOSTILE_NOW + 60 * 1000;
    hostile_submit(&batcher, &spec, hostile->later, &random, NULL);
    submit_plan(&batcher, &random, &hostile->plan);
    arena_release(&arena);
    batcher_release(&batcher);
}
