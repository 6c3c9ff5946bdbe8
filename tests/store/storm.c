#include "storm.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/json.h"
#include "engine/batch.h"
#include "players.h"
#include "run_ops.h"

static void must(const char *what, enum error_code code, const struct err *err)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, error_info(code)->name, err->detail);
    abort();
}

static void run(struct batcher *batcher, struct op *ops, uint32_t count, struct arena *arena)
{
    struct err err = {0};
    enum store_outcome outcome;
    must("batch", run_ops(batcher, ops, count, arena, &outcome, &err), &err);
    for (uint32_t i = 0; i < count; i++)
        must("operation", ops[i].code, &ops[i].err);
}

void storm_submit(struct store *store, const struct storm *storm)
{
    struct batcher batcher;
    struct arena arena;
    uint64_t random = storm->seed;
    batcher_init(&batcher, store, NULL, NULL);
    arena_init(&arena);
    for (uint32_t done = 0; done < storm->jobs;) {
        uint32_t count = storm->jobs - done < BATCH_OPS_MAX ? storm->jobs - done : BATCH_OPS_MAX;
        struct op *ops = arena_zalloc(&arena, count, sizeof *ops);
        struct spec *specs = arena_zalloc(&arena, count, sizeof *specs);
        assert(ops != NULL && specs != NULL);
        for (uint32_t i = 0; i < count; i++) {
            uint8_t bytes[16];
            uint64_t word = next_random(&random);
            struct buf buf;
            memcpy(bytes, &word, 8);
            word = next_random(&random);
            memcpy(bytes + 8, &word, 8);
            buf_init(&buf, &arena, 16);
            buf_add_int(&buf, done + i);
            specs[i] = spec_defaults(NULL);
            specs[i].kind = STR("storm");
            specs[i].payload = buf_str(&buf);
            ops[i].type = OP_COMMAND;
            ops[i].job = uuid_v7(INT64_C(1767225600000) + done + i, bytes);
            ops[i].command.type = COMMAND_SUBMIT;
            ops[i].command.actor = STR("storm");
            ops[i].command.submit.spec = &specs[i];
        }
        run(&batcher, ops, count, &arena);
        done += count;
        arena_clear(&arena);
    }
    batcher_release(&batcher);
    arena_release(&arena);
}

struct claimer_thread {
    struct store *store;
    const struct storm *storm;
    _Atomic uint32_t *taken;
    uint64_t random;
    uint64_t too_many;
};

/* Completes what the last claim was given and claims again, in one batch. */
static void *claim(void *arg)
{
    struct claimer_thread *self = arg;
    struct batcher batcher;
    struct arena arenas[2]; /* grants of the last batch live in the other one */
    struct grant *grants = NULL;
    uint32_t held = 0;
    batcher_init(&batcher, self->store, NULL, NULL);
    arena_init(&arenas[0]);
    arena_init(&arenas[1]);
    for (uint32_t turn = 0;; turn++) {
        struct arena *arena = &arenas[turn % 2];
        arena_clear(arena);
        struct op *ops = arena_zalloc(arena, held + 1, sizeof *ops);
        assert(ops != NULL);
        for (uint32_t i = 0; i < held; i++) {
            ops[i].type = OP_COMMAND;
            ops[i].job = grants[i].slice->job.id;
            ops[i].command.type = COMMAND_COMPLETE;
            ops[i].command.actor = STR("w");
            ops[i].command.token = grants[i].result.token;
        }
        struct op *last = &ops[held];
        last->type = OP_CLAIM;
        last->command.type = COMMAND_CLAIM;
        last->command.actor = STR("w");
        last->command.claim.worker_id = STR("w");
        last->command.claim.start = true;
        /* However long a claimer has to queue, its lease lives. */
        last->command.claim.terms.lease_ttl_ms = LEASE_TTL_MS_MAX;
        last->claim.claimer.work = LANE_JOBS;
        last->claim.max = (uint32_t)(next_random(&self->random) % self->storm->max) + 1;
        run(&batcher, ops, held + 1, arena);
        self->too_many += last->grant_count > last->claim.max;
        grants = last->grants;
        held = last->grant_count;
        for (uint32_t i = 0; i < held; i++) {
            int64_t number;
            bool known = json_int64(grants[i].slice->job.spec.payload, &number);
            assert(known && number >= 0 && number < self->storm->jobs);
            atomic_fetch_add(&self->taken[number], 1);
        }
        if (held == 0)
            break;
    }
    batcher_release(&batcher);
    arena_release(&arenas[0]);
    arena_release(&arenas[1]);
    return NULL;
}

uint64_t storm_run(struct store *store, const struct storm *storm, uint32_t *taken)
{
    pthread_t *threads = calloc(storm->claimers, sizeof *threads);
    struct claimer_thread *claimers = calloc(storm->claimers, sizeof *claimers);
    _Atomic uint32_t *counts = calloc(storm->jobs, sizeof *counts);
    uint64_t too_many = 0;
    assert(threads != NULL && claimers != NULL && counts != NULL);
    for (uint32_t i = 0; i < storm->claimers; i++) {
        claimers[i] = (struct claimer_thread){
            .store = store, .storm = storm, .taken = counts, .random = storm->seed + i};
        if (pthread_create(&threads[i], NULL, claim, &claimers[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < storm->claimers; i++) {
        (void)pthread_join(threads[i], NULL);
        too_many += claimers[i].too_many;
    }
    for (uint32_t i = 0; i < storm->jobs; i++)
        taken[i] += counts[i];
    free(threads);
    free(claimers);
    free(counts);
    return too_many;
}

/* Whether the job ended after exactly these events. */
static bool is_clean(struct store_txn *txn, const struct job *job, struct arena *arena)
{
    static const enum event_type wanted[] = {EVENT_JOB_CREATED, EVENT_JOB_LEASED, EVENT_JOB_RUNNING,
                                             EVENT_JOB_COMPLETED};
    struct event *events = NULL;
    uint32_t count = 0;
    struct err err = {0};
    must("events",
         store_events(
             txn,
             &(struct store_stream){.job = job->id, .after = 0, .limit = 100, .telemetry = false},
             arena, &events, &count, &err),
         &err);
    if (count != 4 || job->status != JOB_COMPLETED || job->version != 4)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (events[i].version != i + 1 || events[i].type != wanted[i])
            return false;
    return true;
}

uint64_t storm_check(struct store *store, const struct storm *storm, uint64_t *ret_jobs)
{
    struct arena arena;
    struct store_txn *txn;
    struct err err = {0};
    struct store_filter filter = {.kind = STR("storm"), .limit = STORE_LIST_MAX};
    uint64_t bad = 0;
    uint64_t jobs = 0;
    (void)storm;
    arena_init(&arena);
    must("begin", store_begin(store, STORE_READ, &txn, &err), &err);
    for (;;) {
        struct store_job *page = NULL;
        uint32_t count = 0;
        must("list", store_list(txn, &filter, &arena, &page, &count, &err), &err);
        for (uint32_t i = 0; i < count; i++)
            bad += !is_clean(txn, &page[i].slice.job, &arena);
        if (count == 0)
            break;
        jobs += count;
        filter.before = page[count - 1].id;
        arena_clear(&arena);
    }
    store_rollback(txn);
    arena_release(&arena);
    *ret_jobs = jobs;
    return bad;
}
