/* The engine, a store alone, and nobody. */
#include "contenders.h"

#include <stdlib.h>

#include "engine/batch.h"
#include "run_ops.h"

struct writer {
    struct contender base;
    struct store *store;
    struct batcher batcher;
    int64_t now; /* what the store takes for the time */
    uint32_t claim_max;
    struct arena ready; /* what prepare has made */
    struct arena arena; /* of a commit */
    struct op *ops[LIFE_STAGES];
    struct store_job *loads[LIFE_STAGES];
    struct store_search *searches;
    uint32_t claim_count;
    bool has_url; /* of a server */
    char url[1024];
};

static void check(enum error_code code, const struct err *err)
{
    bench_check(code == ERR_OK, "%s", err->detail);
}

static int64_t read_clock(void *arg)
{
    const int64_t *now = arg;
    return *now;
}

static void *take(struct arena *arena, size_t count, size_t size)
{
    void *at = arena_zalloc(arena, count, size);
    bench_check(at != NULL, "there is no memory for a batch");
    return at;
}

void contender_make_schema(const char *url)
{
    struct store_options options = {.create = true, .migrate = true};
    struct store *store;
    struct err err;
    check(store_open(str_from(url), &options, &store, &err), &err);
    store_close(store);
}

static void close_writer(struct contender *base)
{
    struct writer *writer = (struct writer *)base;
    batcher_release(&writer->batcher);
    store_close(writer->store);
    arena_release(&writer->ready);
    arena_release(&writer->arena);
    free(writer);
}

static void settle_writer(struct contender *base)
{
    const struct writer *writer = (const struct writer *)base;
    if (writer->has_url)
        postgres_settle(writer->url);
}

static struct writer *open_writer(const char *url, uint32_t claim_max)
{
    struct writer *writer = calloc(1, sizeof *writer);
    struct err err;
    bench_check(writer != NULL, "there is no memory");
    struct store_options options = {
        .clock = read_clock,
        .clock_arg = &writer->now,
        .create = true,
        .migrate = true,
        .seed = 1,
    };
    check(store_open(str_from(url), &options, &writer->store, &err), &err);
    batcher_init(&writer->batcher, writer->store, life_random, NULL);
    arena_init(&writer->ready);
    arena_init(&writer->arena);
    writer->claim_max = claim_max;
    writer->has_url = strncmp(url, "postgres", 8) == 0;
    bench_check(strlen(url) < sizeof writer->url, "the URL is too long");
    memcpy(writer->url, url, strlen(url) + 1);
    writer->base.settle = settle_writer;
    writer->base.close = close_writer;
    return writer;
}

/* How many jobs the next of several claims is to find. */
static uint32_t claim_size(const struct writer *writer, const struct lives *lives, uint32_t index)
{
    uint32_t left = lives->count - index * writer->claim_max;
    return left < writer->claim_max ? left : writer->claim_max;
}

static uint32_t claim_count(const struct writer *writer, const struct lives *lives)
{
    return (lives->count + writer->claim_max - 1) / writer->claim_max;
}

/* ---- the engine ---- */

static void prepare_ops(struct contender *base, const struct lives *lives)
{
    struct writer *writer = (struct writer *)base;
    arena_clear(&writer->ready);
    for (int stage = 0; stage < LIFE_STAGES; stage++)
        writer->ops[stage] = take(&writer->ready, lives->count, sizeof *writer->ops[stage]);
    for (uint32_t i = 0; i < lives->count; i++) {
        writer->ops[LIFE_SUBMIT][i] =
            (struct op){.type = OP_COMMAND, .job = lives->ids[i], .command = life_submit(lives)};
        writer->ops[LIFE_COMPLETE][i] = (struct op){
            .type = OP_COMMAND, .job = lives->ids[i], .command = life_complete(lives->tokens[i])};
    }
    writer->claim_count = claim_count(writer, lives);
    for (uint32_t i = 0; i < writer->claim_count; i++) {
        struct op *op = &writer->ops[LIFE_CLAIM][i];
        *op = (struct op){.type = OP_CLAIM, .command = life_claim()};
        op->claim.claimer.work = LANE_JOBS;
        op->claim.max = claim_size(writer, lives, i);
    }
}

static void run_engine(struct contender *base, const struct lives *lives)
{
    struct writer *writer = (struct writer *)base;
    for (int stage = 0; stage < LIFE_STAGES; stage++) {
        uint32_t count = stage == LIFE_CLAIM ? writer->claim_count : lives->count;
        struct op *ops = writer->ops[stage];
        enum store_outcome outcome;
        struct err err;
        writer->now = lives->now[stage];
        arena_clear(&writer->arena);
        check(run_ops(&writer->batcher, ops, count, &writer->arena, &outcome, &err), &err);
        for (uint32_t i = 0; i < count; i++) {
            check(ops[i].code, &ops[i].err);
            bench_check(stage != LIFE_CLAIM || ops[i].grant_count == ops[i].claim.max,
                        "a claim found %u jobs of %u", ops[i].grant_count, ops[i].claim.max);
        }
    }
}

struct contender *contend_engine(const char *url, uint32_t claim_max)
{
    struct writer *writer = open_writer(url, claim_max);
    writer->base.prepare = prepare_ops;
    writer->base.run = run_engine;
    return &writer->base;
}

/* ---- a store ---- */

static void prepare_verbs(struct contender *base, const struct lives *lives)
{
    static const uint32_t lane = 1;
    static const uint32_t end = 1;
    struct writer *writer = (struct writer *)base;
    arena_clear(&writer->ready);
    for (int stage = 0; stage < LIFE_STAGES; stage++) {
        writer->loads[stage] = take(&writer->ready, lives->count, sizeof *writer->loads[stage]);
        for (uint32_t i = 0; i < lives->count; i++)
            writer->loads[stage][i].id = lives->ids[i];
    }
    writer->claim_count = claim_count(writer, lives);
    writer->searches = take(&writer->ready, writer->claim_count, sizeof *writer->searches);
    for (uint32_t i = 0; i < writer->claim_count; i++)
        writer->searches[i] = (struct store_search){
            .lanes = &lane,
            .group_ends = &end,
            .group_count = 1,
            .max = claim_size(writer, lives, i),
        };
}

static enum error_code find(struct writer *writer, struct store_txn *txn, struct err *err)
{
    struct store_lane *lanes;
    uint32_t count;
    enum error_code code =
        store_lanes(txn, writer->batcher.lanes.count, &writer->arena, &lanes, &count, err);
    if (code != ERR_OK)
        return code;
    writer->batcher.lanes.count += count;
    bench_check(writer->batcher.lanes.count == 1, "there must be one lane");
    code = store_candidates(txn, writer->searches, writer->claim_count, &writer->arena, err);
    for (uint32_t i = 0; i < writer->claim_count && code == ERR_OK; i++)
        bench_check(writer->searches[i].found_count == writer->searches[i].max,
                    "a search found %u jobs of %u", writer->searches[i].found_count,
                    writer->searches[i].max);
    return code;
}

static void run_verbs(struct contender *base, const struct lives *lives)
{
    struct writer *writer = (struct writer *)base;
    for (int stage = 0; stage < LIFE_STAGES; stage++) {
        struct store_txn *txn;
        struct store_load load = {.jobs = writer->loads[stage], .job_count = lives->count};
        struct store_write write = {.jobs = lives->writes[stage], .job_count = lives->count};
        enum store_outcome outcome;
        struct err err;
        if (stage == LIFE_CLAIM)
            load.job_count = 0;
        writer->now = lives->now[stage];
        arena_clear(&writer->arena);
        check(store_begin(writer->store, STORE_WRITE, &txn, &err), &err);
        enum error_code code = store_load(txn, &load, &writer->arena, &err);
        if (code == ERR_OK && stage == LIFE_CLAIM)
            code = find(writer, txn, &err);
        if (code == ERR_OK)
            code = store_write(txn, &write, &err);
        check(code, &err);
        check(store_commit(txn, &outcome, &err), &err);
    }
}

struct contender *contend_store(const char *url, uint32_t claim_max)
{
    struct writer *writer = open_writer(url, claim_max);
    writer->base.prepare = prepare_verbs;
    writer->base.run = run_verbs;
    return &writer->base;
}

/* ---- nobody ---- */

struct nobody {
    struct contender base;
    struct lives lives;
};

static void prepare_nothing(struct contender *base, const struct lives *lives)
{
    (void)base, (void)lives;
}

static void run_nothing(struct contender *base, const struct lives *lives)
{
    struct nobody *nobody = (struct nobody *)base;
    lives_decide(&nobody->lives, 1, lives->count);
}

static void settle_nothing(struct contender *base)
{
    (void)base;
}

static void close_nobody(struct contender *base)
{
    struct nobody *nobody = (struct nobody *)base;
    lives_release(&nobody->lives);
    free(nobody);
}

struct contender *contend_nobody(void)
{
    struct nobody *nobody = calloc(1, sizeof *nobody);
    bench_check(nobody != NULL, "there is no memory");
    lives_init(&nobody->lives);
    nobody->base = (struct contender){prepare_nothing, run_nothing, settle_nothing, close_nobody};
    return &nobody->base;
}
