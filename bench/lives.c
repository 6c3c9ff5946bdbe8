#include "lives.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/retention.h"
#include "core/schedule_entry.h"

enum { PAYLOAD_BYTES = 200 };

#define START_MS INT64_C(1767225600000)

void bench_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    exit(1);
}

void life_random(void *arg, void *ret, size_t len)
{
    (void)arg;
    memset(ret, 0x5a, len);
}

void lives_init(struct lives *lives)
{
    static char payload[PAYLOAD_BYTES];
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    *lives = (struct lives){.spec = spec_defaults(NULL)};
    lives->spec.kind = STR("mail.send");
    lives->spec.payload = (struct str){payload, sizeof payload};
    arena_init(&lives->arena);
}

void lives_release(struct lives *lives)
{
    arena_release(&lives->arena);
}

/* ---- commands ---- */

struct command life_submit(const struct lives *lives)
{
    struct command command = {.type = COMMAND_SUBMIT, .actor = STR("producer")};
    command.submit.spec = &lives->spec;
    return command;
}

struct command life_claim(void)
{
    struct command command = {.type = COMMAND_CLAIM, .actor = STR("worker-1")};
    command.claim.worker_id = STR("worker-1");
    command.claim.start = true;
    return command;
}

struct command life_complete(struct str token)
{
    struct command command = {.type = COMMAND_COMPLETE, .actor = STR("worker-1"), .token = token};
    command.complete.result = STR("{\"ok\":true}");
    return command;
}

/* ---- ids ---- */

static uint64_t scramble(uint64_t *state)
{
    uint64_t value = *state += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct uuid));
}

static void *take(struct lives *lives, size_t size)
{
    void *at = arena_zalloc(&lives->arena, lives->count, size);
    bench_check(at != NULL, "there is no memory for %u lives", lives->count);
    return at;
}

/* As a server makes them: the time, then chance. */
static void begin(struct lives *lives, uint64_t number, uint32_t count)
{
    uint64_t state = number * UINT64_C(1000003);
    arena_clear(&lives->arena);
    lives->count = count;
    for (int stage = 0; stage < LIFE_STAGES; stage++)
        lives->now[stage] = START_MS + (int64_t)number * 10 + stage;
    lives->ids = take(lives, sizeof *lives->ids);
    lives->tokens = take(lives, sizeof *lives->tokens);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[2] = {scramble(&state), scramble(&state)};
        uint8_t random[sizeof words];
        memcpy(random, words, sizeof words);
        lives->ids[i] = uuid_v7(lives->now[LIFE_SUBMIT], random);
    }
    qsort(lives->ids, count, sizeof *lives->ids, by_bytes);
}

/* ---- deciding ---- */

static void decide(struct lives *lives, const struct job_slice *before,
                   const struct command *command, int64_t now, struct decision *ret)
{
    struct context context = {.now = now, .arena = &lives->arena};
    struct err err;
    uint8_t head[HASH_LEN];
    life_random(NULL, &context.random, sizeof context.random);
    life_random(NULL, context.secret, sizeof context.secret);
    life_random(NULL, context.salt, sizeof context.salt);
    memcpy(head, before->job.head, HASH_LEN);
    enum error_code code = job_decide(before, command, &context, ret, &err);
    if (code == ERR_OK)
        code = decision_seal(ret, head, &lives->arena, &err);
    bench_check(code == ERR_OK, "%s", err.detail);
}

static void decide_stage(struct lives *lives, enum life_stage stage, uint32_t i,
                         const struct job_slice *before, struct decision *ret)
{
    struct command command = stage == LIFE_SUBMIT  ? life_submit(lives)
                             : stage == LIFE_CLAIM ? life_claim()
                                                   : life_complete(lives->tokens[i]);
    decide(lives, before, &command, lives->now[stage], ret);
    if (stage == LIFE_CLAIM)
        lives->tokens[i] = ret->result.token;
}

static struct schedule_entry place(struct lives *lives, const struct job *job)
{
    struct schedule_entry entry = {0};
    struct err err;
    if (job->status == JOB_NONE)
        return entry;
    enum error_code code = schedule_entry_of_job(job, &lives->arena, &entry, &err);
    bench_check(code == ERR_OK, "%s", err.detail);
    return entry;
}

static void plan_stage(struct lives *lives, enum life_stage stage, uint32_t i,
                       struct job_slice *slice)
{
    struct store_job_write *write = &lives->writes[stage][i];
    struct job_slice *after = arena_alloc(&lives->arena, sizeof *after);
    struct decision decision;
    decide_stage(lives, stage, i, slice, &decision);
    bench_check(after != NULL, "there is no memory for a job");
    *after = decision.after;
    *write = (struct store_job_write){
        .after = after,
        .events = decision.events,
        .event_count = decision.count,
        .created = stage == LIFE_SUBMIT,
        .changed = stage == LIFE_SUBMIT ? CHANGED_ALL : after->job.changed,
        .was = place(lives, &slice->job),
        .now = place(lives, &after->job),
        .purge_at = job_purge_at(&after->job, NULL),
    };
    if (stage == LIFE_CLAIM) /* the search has taken it out */
        write->was.lane = (struct str){NULL, 0};
    bench_check(row_of_job(write, STATE_JSON, &lives->arena, &lives->rows[stage][i]) == ERR_OK,
                "there is no memory for a row");
    if (stage == LIFE_CLAIM)
        lives->claims[i] = row_of_lease(&after->job, NULL, write->now.due_at);
    *slice = *after;
    slice->job.changed = 0;
}

void lives_plan(struct lives *lives, uint64_t number, uint32_t count)
{
    begin(lives, number, count);
    lives->claims = take(lives, sizeof *lives->claims);
    for (int stage = 0; stage < LIFE_STAGES; stage++) {
        lives->writes[stage] = take(lives, sizeof *lives->writes[stage]);
        lives->rows[stage] = take(lives, sizeof *lives->rows[stage]);
    }
    struct job_slice *slices = take(lives, sizeof *slices);
    for (uint32_t i = 0; i < count; i++)
        job_slice_init(&slices[i], lives->ids[i], 1);
    for (int stage = 0; stage < LIFE_STAGES; stage++)
        for (uint32_t i = 0; i < count; i++)
            plan_stage(lives, (enum life_stage)stage, i, &slices[i]);
    bench_check(slices[0].job.status == JOB_COMPLETED && slices[0].job.version == LIFE_EVENTS,
                "a life does not end as it should");
}

void lives_decide(struct lives *lives, uint64_t number, uint32_t count)
{
    begin(lives, number, count);
    struct job_slice *slices = take(lives, sizeof *slices);
    for (uint32_t i = 0; i < count; i++)
        job_slice_init(&slices[i], lives->ids[i], 1);
    for (int stage = 0; stage < LIFE_STAGES; stage++)
        for (uint32_t i = 0; i < count; i++) {
            struct decision decision;
            decide_stage(lives, (enum life_stage)stage, i, &slices[i], &decision);
            slices[i] = decision.after;
        }
}

struct str lives_lane(const struct lives *lives)
{
    return lives->writes[LIFE_SUBMIT][0].now.lane;
}
